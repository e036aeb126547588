//! The settings the core works with, already validated: originals per host pattern, backoff, limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::prior::PriorKind;

/// How a bucket spends its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Bursts up to `capacity`, refilled at `rate`.
    #[default]
    TokenBucket,
    /// Evenly spaced at `1/rate`, never a burst.
    LeakyBucket,
    /// At most `capacity` in any `capacity/rate` seconds, exactly.
    SlidingWindow,
}

/// Which state machine adapts the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerKind {
    /// Finds the limit and stays just below it, within a budget of refusals.
    Adaptive,
    /// 429: halve and hold; 5xx: × 0.9; success: × 1.01 up to the original.
    #[default]
    Halving,
    /// Never adapts. Holds are honoured all the same.
    Static,
}

/// Which hosts share one bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupBy {
    /// None: every host has its own.
    #[default]
    Host,
    /// Those of one registrable domain.
    Domain,
    /// Those of one address.
    Ip,
}

impl GroupBy {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Domain => "domain",
            Self::Ip => "ip",
        }
    }
}

/// Rate and capacity of one bucket as configured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Original {
    /// Tokens per second, > 0.
    pub rate: f64,
    /// Tokens, >= 1.
    pub capacity: f64,
}

/// The settings of one endpoint inside a host. Which URLs it covers is the crawl's business.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EndpointPolicy {
    /// Originals of the endpoint's bucket.
    pub original: Original,
    /// Tokens that one request of this endpoint takes from every layer, > 0.
    pub cost: f64,
}

/// The settings of all hosts that one `[[host]]` entry (or the defaults) covers.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Originals of the host's bucket.
    pub original: Original,
    /// Shape of the host's and its endpoints' buckets.
    pub shape: Shape,
    /// In flight per host, >= 1.
    pub connections: u32,
    /// Which controller adapts it.
    pub kind: ControllerKind,
    /// Refusals per 10 minutes before probing for more (climbing) stops; 0 = no budget.
    pub refusal_budget: u32,
    /// Wire requests to one host; 0 = no limit.
    pub max_requests: u64,
    /// Endpoints with buckets of their own; lane `k + 1` is `endpoints[k]`. At most 255.
    pub endpoints: Vec<EndpointPolicy>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            original: Original { rate: 2.0, capacity: 4.0 },
            shape: Shape::TokenBucket,
            connections: 4,
            kind: ControllerKind::Halving,
            refusal_budget: 8,
            max_requests: 0,
            endpoints: Vec::new(),
        }
    }
}

/// Our own backoff: `min(max, base · 2^n) + U(0, jitter)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BackoffPolicy {
    /// The first wait.
    pub base: Duration,
    /// The longest wait before jitter.
    pub max: Duration,
    /// Jitter, only ever added.
    pub jitter: Duration,
    /// The longest Retry-After that is honoured in full.
    pub retry_after_max: Duration,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
            jitter: Duration::from_secs(1),
            retry_after_max: Duration::from_secs(6 * 3600),
        }
    }
}

/// Everything the core is told at the start.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Policies by [`super::PolicyId`]; the first is the default.
    pub policies: Vec<Policy>,
    /// In flight, all hosts together, >= 1.
    pub concurrency: u32,
    /// Tokens per second, all hosts together; `None` = no limit.
    pub global_rate: Option<f64>,
    /// Floor of adaptation in tokens per second; 0 = the controller's own (halving: 0.1).
    pub min_rate: f64,
    /// Whether a host's first requests go at rate 0.5, capacity 2.
    pub cold_start: bool,
    /// Which hosts share one bucket. Who belongs to whom is told host by host: the core knows no names.
    pub group_by: GroupBy,
    /// Our own backoff.
    pub backoff: BackoffPolicy,
    /// An override above the adaptive rate lapses by itself after this.
    pub override_ttl: Duration,
    /// A pause, or an override below the adaptive rate, is called to mind after this.
    pub remind_after: Duration,
    /// A host that answered nothing but refusals for so long is given up.
    pub give_up_after: Duration,
    /// Where a learned start comes from. The core itself does nothing with it: whoever has an
    /// [`Advisor`](super::prior::Advisor) does.
    pub prior: PriorKind,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policies: vec![Policy::default()],
            concurrency: 64,
            global_rate: None,
            min_rate: 0.0,
            cold_start: true,
            group_by: GroupBy::Host,
            backoff: BackoffPolicy::default(),
            override_ttl: Duration::from_secs(2 * 3600),
            remind_after: Duration::from_secs(3600),
            give_up_after: Duration::from_secs(24 * 3600),
            prior: PriorKind::default(),
        }
    }
}
