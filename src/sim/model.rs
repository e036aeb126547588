//! A server: its limit, its site and its habits in the order in which a request meets them.
//!
//! Outage, ban, lockout, limit, queue, random error, site. The model decides at the arrival of a
//! request and says how long the work takes; it knows nothing of connections or of who asks (all
//! clients are one client to it, as they are to a server that limits by address).

use std::time::Duration;

use super::habit::{Banning, Queue};
use super::limit::Hint;
use super::{Ban, Drift, How, Latency, Limit, Limiter, Outages, Overload, Random, SimBody, Site};
use crate::control::Mono;

/// A refusal takes no longer than this: it is cheap.
const REFUSAL_WORK: Duration = Duration::from_millis(40);

/// Whether refusals tell how long to stay away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RetryAfter {
    /// They are bare.
    #[default]
    Never,
    /// Always the same.
    Fixed(Duration),
    /// Until the next request would be admitted (or a lockout or ban ends), in whole seconds, at least 1.
    UntilFree,
}

/// Which headers tell of the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HintHeaders {
    /// None: the limit is hidden.
    #[default]
    None,
    /// `RateLimit` and `RateLimit-Policy`, as the IETF draft has them.
    RateLimit,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset` (in seconds from now).
    XRateLimit,
}

/// Everything a server can be. The default has no limit, no pages, and answers at once.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerSpec {
    /// Which requests are admitted.
    pub limit: Limit,
    /// How the limit changes.
    pub drift: Drift,
    /// A bucket's burst is at least so many seconds of its rate of the moment.
    pub burst_seconds: f64,
    /// Status of a refusal: 429 or 503.
    pub refusal: u16,
    /// Whether refusals tell how long.
    pub retry_after: RetryAfter,
    /// Whether answers tell of the limit.
    pub headers: HintHeaders,
    /// After the limit has refused, everything is refused for so long; refusals meanwhile do not
    /// lengthen it.
    pub lockout: Duration,
    /// Ban of those who are refused too often.
    pub ban: Option<Ban>,
    /// Time of work on an admitted request.
    pub latency: Latency,
    /// A queue: if there is one, its service replaces `latency`.
    pub overload: Option<Overload>,
    /// Share of admitted requests that fail with 500.
    pub errors: f64,
    /// When it is away.
    pub outages: Option<Outages>,
    /// What it holds.
    pub site: Site,
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            limit: Limit::None,
            drift: Drift::Constant,
            burst_seconds: 0.0,
            refusal: 429,
            retry_after: RetryAfter::Never,
            headers: HintHeaders::None,
            lockout: Duration::ZERO,
            ban: None,
            latency: Latency::default(),
            overload: None,
            errors: 0.0,
            outages: None,
            site: Site::default(),
        }
    }
}

/// A request as the server sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimRequest<'a> {
    /// `GET`, …
    pub method: &'a str,
    /// The Host header.
    pub host: &'a str,
    /// Path and query.
    pub path: &'a str,
}

impl<'a> SimRequest<'a> {
    /// A GET of `path`.
    pub const fn get(path: &'a str) -> Self {
        Self { method: "GET", host: "", path }
    }
}

/// What happens to the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Close {
    /// Nothing: the answer is sent.
    #[default]
    No,
    /// It is reset before a byte of an answer.
    ResetBefore,
    /// Nothing is ever said on it.
    Silent,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SimResponse {
    /// Status; 0 if nothing is answered.
    pub status: u16,
    /// Headers beside those that the wire needs.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: SimBody,
    /// From arrival to answer.
    pub latency: Duration,
    /// What happens to the connection.
    pub close: Close,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The server is not there.
    Away,
    /// The client is banned.
    Banned,
    /// The limit or a lockout refused it.
    Refused,
    /// Admitted, and failed for a reason of the server's own.
    Failed,
    /// Admitted: the site answers.
    Served,
}

/// A request's fate, without what the site says.
#[derive(Clone, PartialEq, Debug)]
pub struct Decided {
    /// What becomes of it.
    pub fate: Fate,
    /// Status; 0 if nothing is answered. Of a served one the site may still say 404 or 302.
    pub status: u16,
    /// Headers that tell of the limit.
    pub headers: Vec<(&'static str, String)>,
    /// From arrival to answer.
    pub latency: Duration,
    /// What happens to the connection.
    pub close: Close,
}

/// A server at work.
#[derive(Clone, Debug)]
pub struct ServerModel {
    spec: ServerSpec,
    random: Random,
    limiter: Limiter,
    banning: Option<Banning>,
    queue: Option<Queue>,
    locked_until: Mono,
}

impl ServerModel {
    /// The server, fresh; the same `seed` gives the same server.
    pub fn new(spec: ServerSpec, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let limiter = Limiter::new(spec.limit, spec.drift.clone(), spec.burst_seconds, random.next_u64());
        let banning = spec.ban.map(Banning::new);
        let queue = spec.overload.map(Queue::new);
        Self { spec, random, limiter, banning, queue, locked_until: Mono::ZERO }
    }

    /// What it was built from.
    pub const fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// What it allows at `now`, in requests per second; infinite without a limit. Ask in ascending
    /// order of time.
    pub fn allowed_rate(&mut self, now: Mono) -> f64 {
        let served = self.spec.overload.map_or(f64::INFINITY, |overload| {
            f64::from(overload.servers.max(1)) / overload.service.as_secs_f64().max(1e-9)
        });
        self.limiter.rate(now).min(served)
    }

    /// Bans spoken so far.
    pub fn bans(&self) -> u64 {
        self.banning.as_ref().map_or(0, Banning::count)
    }

    /// Whether it can be reached at `now` at all: what a new connection meets.
    pub fn connect(&self, now: Mono) -> Close {
        match self.spec.outages.and_then(|outages| outages.in_force(now)) {
            None => Close::No,
            Some(How::Reset) => Close::ResetBefore,
            Some(How::Silent) => Close::Silent,
        }
    }

    /// The answer to a request that arrives at `now`.
    pub fn respond(&mut self, now: Mono, request: &SimRequest<'_>) -> SimResponse {
        let Decided { fate, status, headers, latency, close } = self.decide(now);
        let plain = |text: &str| SimResponse {
            status,
            headers: vec![("content-type", "text/plain".to_owned())],
            body: SimBody::Text(text.to_owned()),
            latency,
            close,
        };
        let mut response = match fate {
            Fate::Away => return SimResponse { close, ..SimResponse::default() },
            Fate::Banned => plain("banned\n"),
            Fate::Refused => plain("too many requests\n"),
            Fate::Failed => plain("error\n"),
            Fate::Served => {
                let found = self.spec.site.find(request.path);
                let mut headers = vec![("content-type", found.content_type.to_owned())];
                headers.extend(found.location.map(|location| ("location", location)));
                SimResponse { status: found.status, headers, body: found.body, latency, close }
            }
        };
        response.headers.extend(headers);
        response
    }

    /// What becomes of a request that arrives at `now`, whatever it asks for: all that virtual time needs.
    pub fn decide(&mut self, now: Mono) -> Decided {
        let close = self.connect(now);
        if close != Close::No {
            return Decided { fate: Fate::Away, status: 0, headers: Vec::new(), latency: Duration::ZERO, close };
        }
        if let Some(status) = self.banning.as_ref().and_then(|banning| banning.in_force(now)) {
            return self.turned_away(Fate::Banned, status);
        }
        let locked = now < self.locked_until;
        if locked || !self.limiter.admit(now) {
            if !locked && !self.spec.lockout.is_zero() {
                self.locked_until = now.after(self.spec.lockout);
            }
            return self.refuse(now);
        }
        let latency = match &mut self.queue {
            Some(queue) => queue.enter(now, &mut self.random),
            None => self.spec.latency.draw(&mut self.random),
        };
        if self.random.chance(self.spec.errors) {
            return Decided { latency, ..self.turned_away(Fate::Failed, 500) };
        }
        Decided { fate: Fate::Served, status: 200, headers: self.hints(now), latency, close }
    }

    fn refuse(&mut self, now: Mono) -> Decided {
        if let Some(banning) = &mut self.banning {
            banning.refused(now);
        }
        let mut refusal = self.turned_away(Fate::Refused, self.spec.refusal);
        let seconds = match self.spec.retry_after {
            RetryAfter::Never => None,
            RetryAfter::Fixed(wait) => Some(whole_seconds(wait)),
            RetryAfter::UntilFree => {
                let free_at = now.after(self.limiter.wait(now)).max(self.locked_until);
                Some(whole_seconds(free_at.since(now)).max(1))
            }
        };
        refusal.headers.extend(seconds.map(|seconds| ("retry-after", seconds.to_string())));
        refusal.headers.extend(self.hints(now));
        refusal
    }

    fn turned_away(&self, fate: Fate, status: u16) -> Decided {
        let latency = self.spec.latency.median.min(REFUSAL_WORK);
        Decided { fate, status, headers: Vec::new(), latency, close: Close::No }
    }

    fn hints(&mut self, now: Mono) -> Vec<(&'static str, String)> {
        if self.spec.headers == HintHeaders::None {
            return Vec::new();
        }
        let Some(Hint { quota, window, remaining, reset }) = self.limiter.hint(now) else { return Vec::new() };
        let (window, reset) = (whole_seconds(window), whole_seconds(reset));
        match self.spec.headers {
            HintHeaders::None => Vec::new(),
            HintHeaders::RateLimit => vec![
                ("ratelimit-policy", format!("\"default\";q={quota};w={window}")),
                ("ratelimit", format!("\"default\";r={remaining};t={reset}")),
            ],
            HintHeaders::XRateLimit => vec![
                ("x-ratelimit-limit", quota.to_string()),
                ("x-ratelimit-remaining", remaining.to_string()),
                ("x-ratelimit-reset", reset.to_string()),
            ],
        }
    }
}

/// Rounded up: who comes after that is not too early.
const fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add((duration.subsec_nanos() > 0) as u64)
}
