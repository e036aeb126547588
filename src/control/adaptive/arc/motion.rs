//! What time alone brings: when a cruise ends, and how it goes up from there.

use super::{Arc, Phase, RISEN, ROUND_SECS, TRACK_RISE};
use crate::control::Mono;

/// How far below the estimate it goes on after an incident, as a share, and after an hour or more without work.
const RECOVER_DEPTH: f64 = 0.2;
const AWAY_DEPTH: f64 = 0.3;

impl Arc {
    /// What time alone brings: the next phase.
    pub(super) fn advance(&mut self, now: Mono) {
        if self.restraint.is_on() {
            // Every step up needs a success.
            return;
        }
        let elapsed = now.secs_since(self.since);
        match self.phase {
            Phase::Cruise if self.known && (elapsed >= self.cruise_secs(now) || self.round_mark(now)) => {
                if f64::from(self.refused) >= self.soft(now) && elapsed < 600.0 {
                    return;
                }
                if self.learned.costly > 0 {
                    self.creep_on(now);
                } else {
                    self.enter(now, Phase::Probe);
                }
            }
            Phase::Probe if self.rate(now) >= self.original.rate => self.enter(now, Phase::Ceiling),
            Phase::Recover if elapsed >= self.recover_secs() => self.enter(now, Phase::Cruise),
            Phase::Climb => self.climb_on(now),
            Phase::Track => self.track_on(now, elapsed),
            _ => {}
        }
    }

    fn recover_secs(&self) -> f64 {
        5.0_f64.max(4.0 / self.limit)
    }

    /// The rate so many seconds after an incident, or an absence: back to cruising, the slower the nearer.
    pub(super) fn recovering(&self, now: Mono, elapsed: f64) -> f64 {
        let left = (1.0 - (elapsed / self.recover_secs()).min(1.0)).powi(3);
        let depth = if self.returned { AWAY_DEPTH } else { RECOVER_DEPTH };
        self.cruise_rate(now) * (1.0 - depth * left)
    }

    /// Whether a round time since the limit fell has passed in this cruise.
    fn round_mark(&self, now: Mono) -> bool {
        let dropped = self.learned.dropped_at;
        if dropped == Mono::ZERO || self.learned.costly > 0 || !self.depressed(now) {
            return false;
        }
        let marks = |at: Mono| (at.secs_since(dropped) - 2.0).max(0.0) / ROUND_SECS;
        f64::from(self.refused) < self.soft(now) && marks(now).floor() > marks(self.since).floor()
    }

    /// Further up, the faster the further beyond the estimate. With a spent budget no further than that.
    fn track_on(&mut self, now: Mono, elapsed: f64) {
        let beyond = (self.step / self.limit).max(1.0);
        let more =
            self.limit * self.track_depth() / (TRACK_RISE * self.track_round()) * elapsed.min(10.0) * beyond * beyond;
        let spent = f64::from(self.refused) >= self.soft(now);
        let most = if spent { self.step.max(self.limit) } else { f64::INFINITY };
        self.step = (self.step + more).min(most);
        self.since = now;
        if self.step >= self.original.rate {
            self.step = self.original.rate;
            self.enter(now, Phase::Ceiling);
        }
    }

    /// Whether the estimate has crept beyond where it was met last: the limit must have risen.
    pub(super) fn risen(&self) -> bool {
        self.learned.costly > 0 && self.learned.met > 0.0 && self.limit > RISEN * f64::from(self.learned.met)
    }

    /// A little more where refusals are costly: by tenths of a per cent first, then faster.
    fn creep_on(&mut self, now: Mono) {
        let step = f64::from(self.learned.creep);
        let usual = (0.002 * (1.0 + step * step / 4.0)).min(0.15);
        let more = if self.risen() {
            // Nothing is known up there.
            (self.limit / f64::from(self.learned.met) - 1.0).clamp(0.06, 0.5).max(usual)
        } else if self.learned.proven {
            usual
        } else {
            // Never met from just below: part of the way to where it was met.
            (0.25 * (self.learned.hit / self.limit).max(1.0).ln()).exp_m1().clamp(0.04, 1.0).max(usual)
        };
        self.learned.creep = self.learned.creep.saturating_add(1);
        self.learned.poor = 0;
        self.step = self.limit;
        self.move_limit(now, self.limit * (1.0 + more));
        self.enter(now, Phase::Cruise);
        if self.cruise_rate(now) >= self.original.rate {
            self.enter(now, Phase::Ceiling);
        }
    }

    fn climb_on(&mut self, now: Mono) {
        let elapsed = now.secs_since(self.since);
        if self.measure.phase_sends() < 12 || elapsed < 2.0 {
            return;
        }
        if self.measure.usable() {
            let least = self.measure.bound(now, self.learned.head + 1.5);
            if least > self.limit {
                self.move_limit(now, least.min(self.step));
            }
        }
        let factor = if self.step < 0.6 * self.learned.hit { 1.4 } else { 1.12 };
        self.step *= factor;
        self.enter(now, Phase::Climb);
        if self.step >= self.original.rate {
            self.step = self.original.rate;
            self.enter(now, Phase::Ceiling);
        }
    }
}
