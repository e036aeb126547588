//! The leaky bucket: evenly spaced, never a burst.
//!
//! Each grant takes the next slot of a schedule, slot = previous slot + n/rate. A grant that comes late by
//! less than an interval leaves the schedule where it is, and the following ones catch up with gaps of at
//! least 0.9/rate: lateness of timers never accumulates. After a longer gap the schedule begins anew.
//!
//! The capacity is reported, but bounds nothing except the catching up: at most `capacity - 1` intervals, so
//! that `capacity + rate·w` holds for every window. At capacity 1 nothing is caught up.

use serde::{Deserialize, Serialize};

use super::{grants, sane};
use crate::control::{Mono, Original};

/// The smallest gap between two grants, in intervals of `1/rate`.
const MIN_GAP: f64 = 0.9;

/// Two counts in tokens, so that a new rate takes effect for the very next grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeakyBucket {
    target: Original,
    /// How late the next slot is at `stamp`, in intervals; below 0 it is still to come.
    late: f64,
    /// The same for the smallest gap after the last grant; at most 0. It runs `1/MIN_GAP` as fast.
    gap: f64,
    stamp: Mono,
}

impl LeakyBucket {
    /// A bucket whose first slot is now.
    pub fn full(target: Original, now: Mono) -> Self {
        Self { target: sane(target), late: 0.0, gap: 0.0, stamp: now }
    }

    /// See [`super::Bucket::target`].
    pub fn target(&self) -> Original {
        self.target
    }

    /// See [`super::Bucket::tokens`]: 1 when the next grant is due, 0 just after one.
    pub fn tokens(&self, now: Mono) -> f64 {
        let (late, gap) = self.at(now);
        1.0 + late.min(gap).min(0.0)
    }

    /// See [`super::Bucket::ready_at`].
    pub fn ready_at(&self, now: Mono, n: f64) -> Mono {
        if self.target.rate <= 0.0 || !n.is_finite() {
            return Mono::NEVER;
        }
        let missing = (-self.late).max(-self.gap * MIN_GAP);
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
            self.late -= n;
            self.gap = -n;
        }
        granted
    }

    /// See [`super::Bucket::give_back`]. The gap after a grant is lifted only if no time passed since:
    /// else it may belong to a later grant that was used.
    pub fn give_back(&mut self, now: Mono, n: f64) {
        if now <= self.stamp && self.gap == -n {
            self.gap = 0.0;
        }
        self.refill(now);
        self.late = (self.late + n).min(self.most_late());
    }

    /// See [`super::Bucket::set_target`].
    pub fn set_target(&mut self, now: Mono, target: Original) {
        self.refill(now);
        self.target = sane(target);
        self.late = self.late.min(self.most_late());
    }

    /// See [`super::Bucket::drain`]: the next slot is a whole interval away.
    pub fn drain(&mut self, now: Mono) {
        self.refill(now);
        self.late = self.late.min(-1.0);
    }

    /// The most that is caught up, in intervals.
    fn most_late(&self) -> f64 {
        (self.target.capacity - 1.0).clamp(0.0, 1.0)
    }

    fn at(&self, now: Mono) -> (f64, f64) {
        let intervals = self.target.rate * now.secs_since(self.stamp);
        (self.late + intervals, (self.gap + intervals / MIN_GAP).min(0.0))
    }

    fn refill(&mut self, now: Mono) {
        let (late, gap) = self.at(now);
        // Later than can be caught up is not lateness but idleness: the schedule begins anew.
        self.late = if late > self.most_late() { 0.0 } else { late };
        self.gap = gap;
        self.stamp = self.stamp.max(now);
    }
}
