//! What the outside sees: plain data, copied out of the controller. Nobody outside holds more.
//!
//! A snapshot carries only the rows that changed since the last one was taken, so that a crawl of a
//! million hosts costs a screen no more than what moves. What changes with time alone (bucket level,
//! countdowns) is computed by the reader from the row and the current time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::adaptive::Why;
use super::{Concern, HostId, Mono, Original, Outcome, Override, Paced, Pause};

/// What one host is doing, in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum HostState {
    /// Requests go out as tokens come.
    Run,
    /// Work is queued; the next token is not there yet.
    Wait,
    /// Held: our own backoff, Retry-After, robots unreachable.
    Back,
    /// Held after refusals (403/401): blocked.
    Block,
    /// Paused by the operator.
    Paused,
    /// Nothing queued and nothing in flight, and there was work before.
    Done,
    /// Known, never asked anything yet, nothing queued.
    #[default]
    Idle,
}

impl HostState {
    /// The word in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Wait => "wait",
            Self::Back => "back",
            Self::Block => "block",
            Self::Paused => "paus",
            Self::Done => "done",
            Self::Idle => "idle",
        }
    }
}

/// The one cause that limits a host now.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Limiting {
    /// No tokens: rate-limited by us.
    #[default]
    NoTokens,
    /// Held until the moment in the row's `hold`.
    Held,
    /// The site's Crawl-delay.
    RobotsDelay,
    /// robots.txt is being asked for.
    RobotsPending,
    /// Paused by the operator.
    Paused,
    /// The whole crawl is halted.
    Halted,
    /// All connections of the host (or of the crawl) are in use.
    Connections,
    /// Nothing queued (or every queued URL waits for its own retry).
    NothingQueued,
    /// The host's `max_requests` is spent.
    RequestLimit,
    /// The global bucket is empty.
    GlobalRate,
    /// The bucket that its group shares is empty, or others of the group are first.
    GroupTokens,
    /// Whose bucket it shares is being found out.
    Placing,
    /// What the server's headers say of its limit: [`HostView::paced`] has it.
    ServerPace,
}

impl Limiting {
    /// The cause in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoTokens => "no tokens",
            Self::Held => "held",
            Self::RobotsDelay => "robots delay",
            Self::RobotsPending => "asking robots.txt",
            Self::Paused => "paused by operator",
            Self::Halted => "crawl halted",
            Self::Connections => "waiting for a connection",
            Self::NothingQueued => "nothing queued",
            Self::RequestLimit => "request limit reached",
            Self::GlobalRate => "global rate",
            Self::GroupTokens => "no tokens in the group",
            Self::Placing => "asking for its address",
            Self::ServerPace => "paced by the server's headers",
        }
    }
}

/// Why a host is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// The server sent Retry-After; `capped` if it asked for more than `retry_after_max`.
    RetryAfter {
        /// What the server asked for.
        asked: Duration,
        /// Whether it was cut to `retry_after_max`.
        capped: bool,
    },
    /// Our backoff after a throttle without Retry-After.
    Throttled,
    /// Backoff after refusals (403/401).
    Refused,
    /// Backoff after connection trouble; the last outcome.
    Network(Outcome),
    /// robots.txt cannot be had: complete disallow while it lasts.
    RobotsUnreachable,
}

impl HoldReason {
    /// Whether the server itself asked for it: only a confirmed wake ends such a hold.
    pub const fn server_asked(self) -> bool {
        matches!(self, Self::RetryAfter { .. })
    }
}

/// A hold in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// No request before this moment.
    pub until: Mono,
    /// When it began.
    pub since: Mono,
    /// Why.
    pub reason: HoldReason,
}

/// Which way the adaptive rate moved last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// Not lately.
    #[default]
    Level,
    /// Up.
    Up,
    /// Down.
    Down,
}

/// Count of one status code (or network outcome) of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeCount {
    /// Which.
    pub code: Code,
    /// In the last 5 minutes.
    pub recent: u32,
    /// Since the start.
    pub total: u64,
}

/// A histogram key: an HTTP status, or the outcome where there was none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// An HTTP status.
    Status(u16),
    /// A failure without one.
    Failure(FailureCode),
    /// All codes beyond the bound on distinct codes per host.
    Other,
}

/// An [`Outcome`] as an ordered histogram key (its position in [`Outcome::ALL`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "Outcome", into = "Outcome")]
pub struct FailureCode(pub u8);

impl From<Outcome> for FailureCode {
    fn from(outcome: Outcome) -> Self {
        Self::of(outcome)
    }
}

impl From<FailureCode> for Outcome {
    fn from(code: FailureCode) -> Self {
        code.outcome()
    }
}

impl FailureCode {
    /// The key of `outcome`.
    pub fn of(outcome: Outcome) -> Self {
        let position = Outcome::ALL.iter().position(|one| *one == outcome).unwrap_or_default();
        Self(position as u8)
    }

    /// The outcome behind the key.
    pub fn outcome(self) -> Outcome {
        Outcome::ALL.get(usize::from(self.0)).copied().unwrap_or(Outcome::Local)
    }
}

/// One host, as the table and the detail view need it. Names are the engine's to add.
#[derive(Clone, Debug)]
pub struct HostView {
    /// Which host.
    pub id: HostId,
    /// When this was taken: levels and countdowns are relative to it.
    pub as_of: Mono,
    /// In one word.
    pub state: HostState,
    /// The one cause that limits it now.
    pub limiting: Limiting,
    /// The endpoint lane that limits it, if one does (1 = first endpoint).
    pub limiting_lane: u8,
    /// Tokens in the host's bucket at `as_of`; below zero in debt.
    pub tokens: f64,
    /// What the bucket really uses now.
    pub effective: Original,
    /// As configured.
    pub original: Original,
    /// What the controller would use.
    pub adaptive: Original,
    /// The operator's override.
    pub overriding: Option<Override>,
    /// The operator's pause.
    pub pause: Option<Pause>,
    /// Movement of the adaptive rate within the last minute.
    pub trend: Trend,
    /// The hold in force, if `until` is not past.
    pub hold: Option<Hold>,
    /// The site's Crawl-delay as it asked, and whether it was capped.
    pub crawl_delay: Option<(Duration, bool)>,
    /// What the server's headers say of its limit, if that is what limits the rate now.
    pub paced: Option<Paced>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests in flight at most.
    pub connections: u32,
    /// URLs queued, those that wait for a retry included.
    pub queued: u64,
    /// Wire requests so far.
    pub requests: u64,
    /// Answers of the last 5 minutes by class.
    pub recent: [u32; 5],
    /// Answers since the start by class.
    pub total: [u64; 5],
    /// Refusals and throttles of the last 5 minutes.
    pub angry_recent: u32,
    /// By code, most frequent in total first; at most 16.
    pub codes: Vec<CodeCount>,
    /// Last success.
    pub last_ok: Option<Mono>,
    /// Median and 95th percentile of latency.
    pub latency: Option<(Duration, Duration)>,
    /// 99th percentile of latency, as exact as [`Latency`](super::latency::Latency) is.
    pub latency_p99: Option<Duration>,
    /// The concern that most needs a human.
    pub concern: Option<Concern>,
    /// Time until the queue is empty at this pace; `None` = unknown or never.
    pub eta: Option<Duration>,
    /// The cold start still bounds the rate.
    pub cold: bool,
    /// How the adaptive number came about, where the controller can say.
    pub why: Option<Why>,
    /// What it shares with others, if it does.
    pub group: Option<GroupView>,
}

/// The bucket, the hold and the connections that the hosts of a group share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupView {
    /// When this was so.
    pub as_of: Mono,
    /// Hosts that share it.
    pub members: u32,
    /// Tokens in the bucket then.
    pub tokens: f64,
    /// What the bucket uses.
    pub effective: Original,
    /// The highest of its members'.
    pub original: Original,
    /// What its controller would use.
    pub adaptive: Original,
    /// The hold of all members, if `until` is not past.
    pub hold: Option<Hold>,
    /// Requests in flight, all members.
    pub in_flight: u32,
    /// Requests in flight at most.
    pub connections: u32,
    /// URLs queued, all members.
    pub queued: u64,
    /// Refusals and throttles of the last ten minutes, all members.
    pub refusals: u32,
}

impl GroupView {
    /// Tokens in the bucket at `now`.
    pub fn tokens_at(&self, now: Mono) -> f64 {
        let refilled = self.tokens + self.effective.rate * now.secs_since(self.as_of);
        refilled.min(self.effective.capacity.max(self.tokens))
    }
}

impl HostView {
    /// Tokens in the bucket at `now`, by the row's own rate.
    pub fn tokens_at(&self, now: Mono) -> f64 {
        let refilled = self.tokens + self.effective.rate * now.secs_since(self.as_of);
        refilled.min(self.effective.capacity.max(self.tokens))
    }

    /// How the adaptive number came about, as it is to be told at `now`: the row may be older.
    pub fn why_at(&self, now: Mono) -> Option<Why> {
        let held = self.hold_left(now).is_some();
        self.why.map(|why| why.later(now.secs_since(self.as_of), held))
    }

    /// What is left of the hold at `now`.
    pub fn hold_left(&self, now: Mono) -> Option<Duration> {
        self.hold.map(|hold| hold.until.since(now)).filter(|left| !left.is_zero())
    }
}

/// One endpoint of a host: a bucket of its own under the host's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EndpointView {
    /// When this was so.
    pub as_of: Mono,
    /// Tokens in its bucket then.
    pub tokens: f64,
    /// As configured.
    pub original: Original,
    /// What its controller has learned, and what its bucket uses.
    pub adaptive: Original,
    /// URLs queued for it.
    pub queued: u64,
}

impl EndpointView {
    /// Tokens in the bucket at `now`.
    pub fn tokens_at(&self, now: Mono) -> f64 {
        let refilled = self.tokens + self.adaptive.rate * now.secs_since(self.as_of);
        refilled.min(self.adaptive.capacity.max(self.tokens))
    }
}

/// Counts over all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCounts {
    /// All hosts.
    pub hosts: u32,
    /// By [`HostState`], in its order: run, wait, back, block, paused, done, idle.
    pub by_state: [u32; 7],
    /// With an override.
    pub overridden: u32,
    /// With the concern STUCK.
    pub stuck: u32,
    /// With the concern ANGRY.
    pub angry: u32,
    /// With the concern SHARED LIMIT.
    pub sharing: u32,
    /// With the concern TRAP.
    pub trapped: u32,
    /// With the concern TAIL.
    pub tail: u32,
    /// With the concern FORGOTTEN.
    pub forgotten: u32,
}
