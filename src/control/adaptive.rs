//! The seam behind which a rate controller lives: a pure state machine per bucket, one file each.
//!
//! A controller is told what was sent and what came back and says which rate and capacity it would use
//! now, never above the originals. It knows nothing of overrides, pauses and Crawl-delay: it learns on
//! under all of them. Holds are the host's (`hold.rs`), since the server's word is about the host.

mod fixed;
mod halving;

use serde::{Deserialize, Serialize};

pub use fixed::Fixed;
pub use halving::{HALVING_MIN_RATE, Halving};

use super::{ControllerKind, Mono, Original};

/// What an answer means for the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// 2xx or 304.
    Success,
    /// 429, 503 with Retry-After, or a run of refusals.
    Throttle,
    /// Another 5xx.
    ServerError,
    /// Everything that says nothing about the rate: 404, 3xx, network trouble, our own trouble.
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
    /// Whether the refusal budget allows to climb.
    pub may_climb: bool,
}

/// The bounds a controller works in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Never above these.
    pub original: Original,
    /// Floor of the rate as configured; 0 = the controller's own.
    pub min_rate: f64,
}

/// A change of the adaptive values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shift {
    /// Before.
    pub before: Original,
    /// After.
    pub after: Original,
}

/// What every controller can do. All times come in; nothing blocks, allocates or fails.
pub trait RateController {
    /// A request was sent.
    fn on_send(&mut self, now: Mono);
    /// An answer came; returns the change it made, if any.
    fn on_outcome(&mut self, now: Mono, bounds: &Bounds, observation: &Observation) -> Option<Shift>;
    /// Rate and capacity it would use now.
    fn target(&self, now: Mono) -> Original;
    /// No request before this moment, for the controller's own reasons.
    fn ready_at(&self, now: Mono) -> Mono;
    /// Back to the originals, as if nothing had been learned but the moment of the last cut.
    fn reset(&mut self, now: Mono, bounds: &Bounds);
    /// The originals were changed from `before` to `after`. A value that stood at its original follows it; one
    /// that was cut stays where it is, but never above the new original. What was learned is kept.
    fn rebase(&mut self, before: Original, after: Original);
}

/// The controllers there are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Adaptive {
    /// The mission's rules.
    Halving(Halving),
    /// Never adapts.
    Static(Fixed),
}

impl Adaptive {
    /// A fresh controller at the originals.
    pub fn new(kind: ControllerKind, original: Original) -> Self {
        match kind {
            ControllerKind::Halving => Self::Halving(Halving::new(original)),
            ControllerKind::Static => Self::Static(Fixed::new(original)),
        }
    }

    /// As another process goes on with it, now that `kind` and `original` are configured; `before` was the original
    /// then. What was learned stays, below the original; under another original or another kind its rate stays alone.
    pub fn resumed(self, now: Mono, kind: ControllerKind, before: Original, original: Original) -> Self {
        let same_kind = matches!(
            (&self, kind),
            (Self::Halving(_), ControllerKind::Halving) | (Self::Static(_), ControllerKind::Static)
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

impl RateController for Adaptive {
    fn on_send(&mut self, now: Mono) {
        match self {
            Self::Halving(halving) => halving.on_send(now),
            Self::Static(fixed) => fixed.on_send(now),
        }
    }

    fn on_outcome(&mut self, now: Mono, bounds: &Bounds, observation: &Observation) -> Option<Shift> {
        match self {
            Self::Halving(halving) => halving.on_outcome(now, bounds, observation),
            Self::Static(fixed) => fixed.on_outcome(now, bounds, observation),
        }
    }

    fn target(&self, now: Mono) -> Original {
        match self {
            Self::Halving(halving) => halving.target(now),
            Self::Static(fixed) => fixed.target(now),
        }
    }

    fn ready_at(&self, now: Mono) -> Mono {
        match self {
            Self::Halving(halving) => halving.ready_at(now),
            Self::Static(fixed) => fixed.ready_at(now),
        }
    }

    fn reset(&mut self, now: Mono, bounds: &Bounds) {
        match self {
            Self::Halving(halving) => halving.reset(now, bounds),
            Self::Static(fixed) => fixed.reset(now, bounds),
        }
    }

    fn rebase(&mut self, before: Original, after: Original) {
        match self {
            Self::Halving(halving) => halving.rebase(before, after),
            Self::Static(fixed) => fixed.rebase(before, after),
        }
    }
}
