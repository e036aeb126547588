//! The seam behind which a rate controller lives: a pure state machine per bucket, one file each.
//!
//! A controller is told what was sent and what came back and says which rate and capacity it would use
//! now, never above the originals. It knows nothing of overrides, pauses and Crawl-delay: it learns on
//! under all of them. Holds are the host's (`hold.rs`), since the server's word is about the host.

pub mod arc;
mod fixed;
mod halving;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use arc::{ADAPTIVE_MIN_RATE, Apart, Arc, Basis, Doing, Next, Why};
pub use fixed::Fixed;
pub use halving::{HALVING_MIN_RATE, Halving};

use super::prior::{Advice, Measured, Seed};
use super::{ControllerKind, Mono, Original};

/// What an answer means for the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// 2xx or 304.
    Success,
    /// 429, or 503 with Retry-After.
    Throttle,
    /// A 403 or 401 that is one of a run, or answers a probe.
    Refused,
    /// Another 5xx.
    ServerError,
    /// The server answered something that says nothing about the rate: 404, 3xx.
    Answered,
    /// No answer: a deadline passed, or the connection broke.
    Silent,
    /// Everything else: other network trouble, our own trouble.
    Neutral,
}

/// One answer as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// What it means.
    pub signal: Signal,
    /// When the request was sent.
    pub sent: Mono,
    /// Whether the request was the probe that ends a hold: its refusal belongs to the old incident.
    pub probe: bool,
    /// From send to the answer, seconds.
    pub latency: f64,
}

/// The bounds a controller works in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Never above these.
    pub original: Original,
    /// Floor of the rate as configured; 0 = the controller's own.
    pub min_rate: f64,
    /// Refusals of the host in the last ten minutes.
    pub refused: u32,
    /// How many it may see before probing stops; 0 = no budget.
    pub budget: u32,
    /// The cold start bounds the rate.
    pub cold: bool,
    /// Until when the host is held, or was, if the request being sent ends that; [`Mono::ZERO`] = it was not.
    pub held_until: Mono,
}

impl Bounds {
    /// Whether the refusal budget allows to ask for more.
    pub fn may_climb(&self) -> bool {
        self.budget == 0 || self.refused < self.budget
    }
}

/// A change of the adaptive values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shift {
    /// Before.
    pub before: Original,
    /// After.
    pub after: Original,
}

/// How a controller wants a bare throttle to be waited out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wait {
    /// Seconds until the probe.
    pub secs: f64,
    /// After so long the probe counts as taken though it is not answered; `None` = never.
    pub patience: Option<Duration>,
}

/// What every controller can do. All times come in; nothing blocks or fails, and memory is taken once at most.
pub trait RateController {
    /// A request was sent.
    fn on_send(&mut self, now: Mono, bounds: &Bounds);
    /// An answer came; returns the change it made, if any.
    fn on_outcome(&mut self, now: Mono, bounds: &Bounds, observation: &Observation) -> Option<Shift>;
    /// Rate and capacity it would use now.
    fn target(&self, now: Mono) -> Original;
    /// No request before this moment, for the controller's own reasons.
    fn ready_at(&self, now: Mono) -> Mono;
    /// Back to the originals, as if nothing had been learned but the moment of the last cut.
    fn reset(&mut self, now: Mono, bounds: &Bounds);
    /// How to wait after a throttle (of a request sent at `sent`) that does not say; `None` = as the host's own
    /// backoff says.
    fn pause(&self, _sent: Mono) -> Option<Wait> {
        None
    }
    /// How its number came about, where it can say.
    fn why(&self, _now: Mono) -> Option<Why> {
        None
    }
    /// Requests in flight at most, for the controller's own reasons.
    fn in_flight_max(&self) -> u32 {
        u32::MAX
    }
    /// A learned start, before anything was sent; whether it was taken.
    fn seed(&mut self, _now: Mono, _bounds: &Bounds, _seed: &Seed) -> bool {
        false
    }
    /// What a prior expects now: a proposal, within the same bounds as everything else.
    fn advise(&mut self, _now: Mono, _bounds: &Bounds, _advice: &Advice) {}
    /// What it has measured, if that is worth remembering.
    fn measured(&self, _now: Mono) -> Option<Measured> {
        None
    }
    /// The originals were changed from `before` to `after`. A value that stood at its original follows it; one
    /// that was cut stays where it is, but never above the new original. What was learned is kept.
    fn rebase(&mut self, before: Original, after: Original);
}

/// The controllers there are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the largest is the default; a pointer to it would be one more miss a request"
)]
pub enum Adaptive {
    /// Finds the limit.
    Adaptive(Arc),
    /// The mission's rules.
    Halving(Halving),
    /// Never adapts.
    Static(Fixed),
}

impl Adaptive {
    /// A fresh controller at the originals.
    pub fn new(kind: ControllerKind, original: Original) -> Self {
        match kind {
            ControllerKind::Adaptive => Self::Adaptive(Arc::new(original)),
            ControllerKind::Halving => Self::Halving(Halving::new(original)),
            ControllerKind::Static => Self::Static(Fixed::new(original)),
        }
    }

    /// As another process goes on with it, now that `kind` and `original` are configured; `before` was the original
    /// then. What was learned stays, below the original; under another original or another kind its rate stays alone.
    pub fn resumed(self, now: Mono, kind: ControllerKind, before: Original, original: Original) -> Self {
        let same_kind = matches!(
            (&self, kind),
            (Self::Adaptive(_), ControllerKind::Adaptive)
                | (Self::Halving(_), ControllerKind::Halving)
                | (Self::Static(_), ControllerKind::Static)
        );
        if same_kind && before == original {
            return self;
        }
        let learned = self.target(now);
        // What stood at its original stands at the new one: nothing was learned.
        let kept = |learned: f64, before: f64, now: f64| if learned < before { learned.min(now) } else { now };
        Self::new(
            kind,
            Original {
                rate: kept(learned.rate, before.rate, original.rate),
                capacity: kept(learned.capacity, before.capacity, original.capacity),
            },
        )
    }
}

/// Calls the same method on whichever controller it is.
macro_rules! each {
    ($adaptive:expr, $one:ident => $call:expr) => {
        match $adaptive {
            Adaptive::Adaptive($one) => $call,
            Adaptive::Halving($one) => $call,
            Adaptive::Static($one) => $call,
        }
    };
}

impl RateController for Adaptive {
    fn on_send(&mut self, now: Mono, bounds: &Bounds) {
        each!(self, one => one.on_send(now, bounds));
    }

    fn on_outcome(&mut self, now: Mono, bounds: &Bounds, observation: &Observation) -> Option<Shift> {
        each!(self, one => one.on_outcome(now, bounds, observation))
    }

    fn target(&self, now: Mono) -> Original {
        each!(self, one => one.target(now))
    }

    fn ready_at(&self, now: Mono) -> Mono {
        each!(self, one => one.ready_at(now))
    }

    fn reset(&mut self, now: Mono, bounds: &Bounds) {
        each!(self, one => one.reset(now, bounds));
    }

    fn pause(&self, sent: Mono) -> Option<Wait> {
        each!(self, one => one.pause(sent))
    }

    fn why(&self, now: Mono) -> Option<Why> {
        each!(self, one => one.why(now))
    }

    fn in_flight_max(&self) -> u32 {
        each!(self, one => one.in_flight_max())
    }

    fn seed(&mut self, now: Mono, bounds: &Bounds, seed: &Seed) -> bool {
        each!(self, one => one.seed(now, bounds, seed))
    }

    fn advise(&mut self, now: Mono, bounds: &Bounds, advice: &Advice) {
        each!(self, one => one.advise(now, bounds, advice));
    }

    fn measured(&self, now: Mono) -> Option<Measured> {
        each!(self, one => one.measured(now))
    }

    fn rebase(&mut self, before: Original, after: Original) {
        each!(self, one => one.rebase(before, after));
    }
}
