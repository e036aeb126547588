//! The token bucket: bursts up to the capacity, refilled at the rate.

use serde::{Deserialize, Serialize};

use super::{grants, sane};
use crate::control::{Mono, Original};

/// Level and the moment it was true at; everything later is computed from the two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenBucket {
    target: Original,
    /// Tokens at `stamp`, at most the capacity, below 0 in debt.
    level: f64,
    /// The latest moment a change was made at. Never goes back, and moves on in a full bucket too, so that
    /// neither a clock that steps back nor an idle time becomes credit.
    stamp: Mono,
}

impl TokenBucket {
    /// A bucket that holds `capacity` tokens.
    pub fn full(target: Original, now: Mono) -> Self {
        let target = sane(target);
        Self { target, level: target.capacity, stamp: now }
    }

    /// See [`super::Bucket::target`].
    pub fn target(&self) -> Original {
        self.target
    }

    /// See [`super::Bucket::tokens`].
    pub fn tokens(&self, now: Mono) -> f64 {
        (self.level + self.target.rate * now.secs_since(self.stamp)).min(self.target.capacity)
    }

    /// See [`super::Bucket::ready_at`]. Computed from the stored level alone, so it stays the same until
    /// the bucket is changed.
    pub fn ready_at(&self, now: Mono, n: f64) -> Mono {
        if self.target.rate <= 0.0 || !n.is_finite() {
            return Mono::NEVER;
        }
        let missing = n.min(self.target.capacity) - self.level;
        if missing <= 0.0 || n <= 0.0 {
            return now;
        }
        self.stamp.after_secs(missing / self.target.rate)
    }

    /// See [`super::Bucket::take`].
    pub fn take(&mut self, now: Mono, n: f64) -> bool {
        let granted = grants(self.ready_at(now, n), now);
        if granted && n > 0.0 {
            self.refill(now);
            // A level that is short of `n` by less than a nanosecond's worth becomes a debt of that.
            self.level -= n;
        }
        granted
    }

    /// See [`super::Bucket::give_back`].
    pub fn give_back(&mut self, now: Mono, n: f64) {
        self.refill(now);
        self.level = (self.level + n).min(self.target.capacity);
    }

    /// See [`super::Bucket::set_target`].
    pub fn set_target(&mut self, now: Mono, target: Original) {
        self.refill(now);
        self.target = sane(target);
        self.level = self.level.min(self.target.capacity);
    }

    /// See [`super::Bucket::drain`].
    pub fn drain(&mut self, now: Mono) {
        self.refill(now);
        self.level = self.level.min(0.0);
    }

    fn refill(&mut self, now: Mono) {
        self.level = self.tokens(now);
        self.stamp = self.stamp.max(now);
    }
}
