//! A learned prior in the hands of the controller: a start, a lean, a second aim for probes. Never more than that:
//! budget, holds, bans and the original bound all of it as they bound the rest.

use serde::{Deserialize, Serialize};

use super::episode::{ENOUGH, FIRST_SHARE};
use super::learned::Origin;
use super::{Advice, Arc, Measured, Phase, RateController as _, SLOW_START, Seed};
use crate::control::Mono;
use crate::control::prior::usable;

/// What was measured so long ago is as good as measured now.
const FRESH_SECS: f64 = 3_600.0;
/// After so long it is a hint.
const OLD_SECS: f64 = 7.0 * 86_400.0;
/// The share of a remembered limit that a start takes: within a week, and later. (All of it within an hour, and of the
/// limit of this hour of the week.)
const WITHIN_WEEK: f64 = 0.97;
const OLD: f64 = 0.7;
/// An estimate that has stood for long is asked about as rarely in the next run, as if it had stood so long at most.
const CREDIT_MAX: f64 = 3_000.0;
/// A start is checked by a probe after so many seconds; only then does its age count.
const CHECK_SECS: f64 = 45.0;
/// An estimate that stood for so long has not moved, whatever its drift was while it was found.
const STOOD_SECS: f64 = 1_000.0;
/// What a server's bucket is taken to hold if that was never seen.
const BURST_UNKNOWN: f64 = 10.0;
/// How far an estimate leans at most between two measurements, and at one piece of advice: down at once, up by and by.
const LEAN: (f64, f64) = (0.1, 1.6);
const LEAN_AT_ONCE: (f64, f64) = (0.1, 1.05);
/// A limit that is expected to be higher than the estimate by this factor is what probes aim at.
const AIM: f64 = 1.2;
/// In so many times [`Arc::probe_secs`] they get to this share of it.
const AIM_TIMES: f64 = 2.0;
const AIM_SHARE: f64 = 0.97;
/// What was counted before so long a time without a request measures nothing any more.
pub(super) const IDLE_SECS: f64 = 600.0;
/// A host that was not asked for so long begins anew below what is known, or at what is expected.
const AWAY_SECS: f64 = 3_600.0;

/// What a prior proposed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Recall {
    /// The limit that is expected now; 0 = nothing is.
    expected: f32,
    /// By what the estimate was moved since it was last measured.
    lean: f32,
    /// Seconds for which the estimate had stood in an earlier run.
    credit: f32,
    /// It began at what was remembered, and has not measured it since.
    unchecked: bool,
    /// At this share of it.
    #[serde(default = "whole")]
    share: f32,
    /// What was remembered, and what an absence began with; 0 = nothing.
    #[serde(default)]
    remembered: f32,
    #[serde(default)]
    foretold: f32,
}

fn whole() -> f32 {
    1.0
}

impl Default for Recall {
    fn default() -> Self {
        Self { expected: 0.0, lean: 1.0, credit: 0.0, unchecked: false, share: whole(), remembered: 0.0, foretold: 0.0 }
    }
}

impl Arc {
    fn recalled_state(&self) -> Recall {
        self.learned.recall.as_deref().copied().unwrap_or_default()
    }

    /// What is added to the age of the estimate.
    pub(super) fn credit(&self) -> f64 {
        f64::from(self.recalled_state().credit)
    }

    /// The estimate has moved: its age begins anew.
    pub(super) fn spend_credit(&mut self) {
        if let Some(recall) = &mut self.learned.recall {
            recall.credit = 0.0;
        }
    }

    /// How long the first cruise of a learned start lasts; `None` = this is another one.
    pub(super) fn check_secs(&self) -> Option<f64> {
        self.is_unchecked().then(|| CHECK_SECS.max(15.0 / self.limit))
    }

    /// Whether nothing has confirmed a remembered limit yet.
    pub(super) fn is_unchecked(&self) -> bool {
        self.recalled_state().unchecked
    }

    /// What an earlier run measured.
    pub(super) fn remembered(&self) -> f64 {
        f64::from(self.recalled_state().remembered)
    }

    /// What was expected when it came back from an absence.
    pub(super) fn foretold(&self) -> f64 {
        f64::from(self.recalled_state().foretold)
    }

    /// By what the estimate leans away from what was measured, as a factor.
    pub(super) fn lean(&self) -> f64 {
        f64::from(self.recalled_state().lean)
    }

    /// The share of what was remembered at which a learned start began.
    pub(super) fn start_share(&self) -> f64 {
        f64::from(self.recalled_state().share)
    }

    /// A measurement is the mean since the mark; as of now it is further along the way that was foretold, by this
    /// factor. The estimate begins to lean anew.
    pub(super) fn straighten(&mut self) -> f64 {
        let Some(recall) = &mut self.learned.recall else { return 1.0 };
        let lean = f64::from(std::mem::replace(&mut recall.lean, 1.0));
        recall.unchecked = false;
        2.0 * lean / (1.0 + lean)
    }

    /// A learned start; whether it was taken.
    pub(super) fn begin_at(&mut self, now: Mono, seed: &Seed) -> bool {
        let Measured { limit, burst, samples, drift, steady, block, lockout, proven, banned } = seed.measured;
        if self.known || !self.measure.is_fresh() || !usable(limit) {
            return false;
        }
        let age = seed.age.as_secs_f64();
        let share = match age {
            _ if seed.of_the_hour => 1.0,
            age if age <= FRESH_SECS => 1.0,
            age if age <= OLD_SECS => WITHIN_WEEK,
            _ => OLD,
        };
        let sound = |value: f32, most: f64| if value.is_finite() { f64::from(value).clamp(0.0, most) } else { 0.0 };
        self.known = true;
        self.learned.valid = age <= OLD_SECS;
        self.limit = (share * limit).clamp(self.floor, 4.0 * self.original.rate);
        self.learned.samples = sound(samples, if age <= FRESH_SECS { 1e6 } else { ENOUGH }).max(4.0);
        (self.step, self.learned.hit, self.learned.moved_from, self.learned.best) =
            (self.limit, self.limit, self.limit, self.limit);
        (self.learned.moved_at, self.learned.best_at) = (now, now);
        self.learned.burst = sound(burst, 1e6);
        self.learned.drift = if sound(steady, 1e9) >= STOOD_SECS { 0.0 } else { sound(drift, 1.0) };
        if sound(block, 1e6) > 0.0 {
            (self.learned.costly, self.learned.block_secs, self.learned.lockout, self.learned.proven) =
                (5, sound(block, 1e6), lockout, proven);
        }
        if banned > 0 {
            self.learned.banned = if self.learned.banned > 0 { self.learned.banned.min(banned) } else { banned };
        }
        let credit = if self.learned.valid { sound(steady, CREDIT_MAX) } else { 0.0 };
        let (credit, share, remembered) = (credit as f32, share as f32, limit as f32);
        self.learned.recall =
            Some(Box::new(Recall { credit, share, remembered, unchecked: true, ..Recall::default() }));
        self.learned.surge.origin = Origin::Remembered;
        // Nobody asked for a while, so its bucket is full.
        self.measure.begin_full(if self.learned.burst > 0.0 { self.learned.burst } else { BURST_UNKNOWN });
        self.enter(now, if age <= FRESH_SECS { Phase::Cruise } else { Phase::Recover });
        if self.cruise_rate(now) >= self.original.rate {
            self.enter(now, Phase::Ceiling);
        }
        self.told = self.target(now);
        true
    }

    /// Leans the estimate the way the limit is expected to have gone, and notes what it is expected to be.
    pub(super) fn follow(&mut self, now: Mono, advice: &Advice) {
        if !usable(advice.limit) {
            return;
        }
        let aimed = self.aims();
        let expected = advice.limit.clamp(self.floor, 4.0 * self.original.rate) as f32;
        self.learned.recall.get_or_insert_default().expected = expected;
        let spent = f64::from(self.refused) >= self.soft(now) || self.learned.banned > 0;
        let may_ask = self.phase == Phase::Cruise
            && self.learned.episode.is_none()
            && self.learned.valid
            && self.learned.costly == 0
            && !spent;
        if !aimed && self.aims() && may_ask {
            // It is likely to have risen just now: that is asked about now, not when the estimate is old enough.
            self.enter(now, Phase::Probe);
        }
        let settled = matches!(self.phase, Phase::Cruise | Phase::Probe | Phase::Recover | Phase::Ceiling);
        if !usable(advice.factor) || !self.known || !self.learned.valid || self.learned.episode.is_some() || !settled {
            return;
        }
        if advice.factor > 1.0 && spent {
            return;
        }
        let before = f64::from(self.recalled_state().lean);
        let lean = (before * advice.factor.clamp(LEAN_AT_ONCE.0, LEAN_AT_ONCE.1)).clamp(LEAN.0, LEAN.1);
        let limit = (self.limit * lean / before).clamp(self.floor, 4.0 * self.original.rate);
        let by = limit / self.limit;
        if usable(by) {
            // Not a move: its age and what it is compared with go along.
            self.limit = limit;
            self.learned.moved_from *= by;
            self.learned.best *= by;
            self.learned.recall.get_or_insert_default().lean = lean as f32;
        }
    }

    /// Whether the limit is expected to be well above the estimate.
    fn aims(&self) -> bool {
        f64::from(self.recalled_state().expected) > AIM * self.limit
    }

    /// Where a probe is led, `x` of its own times after its beginning; 0 = nowhere beyond its curve.
    pub(super) fn recalled(&self, x: f64) -> f64 {
        if !self.aims() {
            return 0.0;
        }
        let expected = f64::from(self.recalled_state().expected);
        self.limit + (AIM_SHARE * expected - self.limit) * (x / AIM_TIMES).min(1.0)
    }

    /// Nothing was asked for `gap` seconds, and now something is. After an hour it begins well below what it knew, or at
    /// what is expected of this hour; what is older than a week is dropped, but not that the host once banned us.
    pub(super) fn return_after(&mut self, now: Mono, gap: f64) {
        if gap < IDLE_SECS {
            return;
        }
        // The server's bucket has run over meanwhile.
        self.measure.spoil();
        if self.learned.episode.is_some()
            && let Some(episode) = self.learned.episode.take()
        {
            // How long the server would have refused nobody knows.
            if !self.known && episode.hit() > 0.0 {
                self.known = true;
                self.learned.samples = 4.0;
                self.learned.surge.origin = Origin::Guess;
                self.move_limit(now, FIRST_SHARE * episode.hit());
            }
            self.enter(now, Phase::Recover);
        }
        if gap < AWAY_SECS || !self.known {
            return;
        }
        let expected = f64::from(self.recalled_state().expected);
        if self.learned.banned == 0 && usable(expected) {
            self.straighten();
            self.learned.samples = self.learned.samples.min(ENOUGH);
            self.move_limit(now, expected);
            self.learned.surge.origin = Origin::Foretold;
            self.learned.recall.get_or_insert_default().foretold = expected as f32;
        } else if gap >= OLD_SECS {
            self.forget(now);
            return;
        }
        self.enter(now, Phase::Recover);
        self.returned = true;
    }

    /// As a host that is met for the first time, with this request.
    fn forget(&mut self, now: Mono) {
        let Self { refused, budget, floor, told, .. } = *self;
        let banned = self.learned.banned;
        *self = Self { refused, budget, floor, told, ..Self::new(self.original) };
        if banned > 0 {
            self.learned.banned = banned;
        }
        self.measure.on_send(now, self.original.rate, self.limit, false);
        self.step = SLOW_START.min(self.original.rate);
        self.enter(now, Phase::Slow);
    }

    /// What is worth remembering.
    pub(super) fn remember(&self, now: Mono) -> Option<Measured> {
        // A ban is, before anything was measured.
        let told = self.learned.valid || self.learned.banned > 0;
        if !self.known || !told || self.is_unchecked() || self.measure.is_fresh() {
            return None;
        }
        Some(Measured {
            limit: self.limit,
            burst: self.learned.burst as f32,
            samples: self.learned.samples as f32,
            drift: self.learned.drift as f32,
            steady: (now.secs_since(self.learned.moved_at) + self.credit()) as f32,
            block: if self.learned.costly > 0 { self.learned.block_secs as f32 } else { 0.0 },
            lockout: self.learned.lockout,
            proven: self.learned.proven,
            banned: self.learned.banned,
        })
    }
}

#[cfg(test)]
mod tests;
