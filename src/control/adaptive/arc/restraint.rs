//! Errors never speed a host up.
//!
//! The rule, by code. A success alone (2xx, 304) lets the rate go up, whatever time or a measurement would have it do.
//!
//! * 404, other 4xx and 3xx, a lone 403: the rate stays at most what it was until the next success. Its clocks go on: a
//!   cruise ends when it would have, the next success then begins the probe. What was borne is counted for the estimate.
//! * 5xx (503 without Retry-After): the same, and 1 % less each, at most a tenth; each success gives one back. So
//!   errors by chance cost nothing, and a run of four leaves 96 %. Only a surge says more (`overload`).
//! * 429, 503 with Retry-After, a run of 403: refusals (`episode`).

use serde::{Deserialize, Serialize};

use super::{Arc, Phase, Signal};
use crate::control::Mono;

/// What a 5xx leaves of the rate …
const EASE: f64 = 0.99;
/// … so many times at most: about a tenth.
const EASED_MAX: u8 = 10;

/// What the errors since the last success hold the rate to.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Restraint {
    /// No more than this; 0 = the last answer was a success.
    most: f64,
    /// Since when.
    since: Mono,
}

impl Restraint {
    /// Whether nothing but errors has come of late.
    pub(super) fn is_on(&self) -> bool {
        self.most > 0.0
    }
}

impl Arc {
    /// What errors leave of a rate.
    pub(super) fn restrained(&self, rate: f64) -> f64 {
        let eased = rate * self.eased();
        if self.restraint.is_on() { eased.min(self.restraint.most) } else { eased }
    }

    /// What a few 5xx leave, as a factor.
    pub(super) fn eased(&self) -> f64 {
        if self.errors.eased > 0 { EASE.powi(i32::from(self.errors.eased)) } else { 1.0 }
    }

    /// A success: up again.
    pub(super) fn release(&mut self, now: Mono) {
        let Restraint { since, .. } = self.restraint;
        if self.restraint.is_on() && self.phase != Phase::Cruise {
            // The way up goes on from where it was.
            self.since = self.since.after_secs(now.secs_since(since.max(self.since)));
        }
        self.restraint.most = 0.0;
        self.errors.eased = self.errors.eased.saturating_sub(1);
    }

    /// An answer that is neither a success nor a refusal, before it is learned from.
    pub(super) fn restrain(&mut self, now: Mono, signal: Signal) {
        if !self.restraint.is_on() {
            self.restraint.since = now;
        }
        self.hold_still(now);
        if signal == Signal::ServerError {
            self.errors.eased = (self.errors.eased + 1).min(EASED_MAX);
        }
    }

    /// No more than now until the next success; `bounded` has what held before.
    pub(super) fn hold_still(&mut self, now: Mono) {
        self.restraint.most = self.bounded(now);
    }
}
