//! The sliding window: at most `capacity` tokens in any half-open window `[t, t + capacity/rate)`, exactly.
//!
//! A grant is remembered by its moment and counts until `capacity/rate` seconds later; at that moment it is
//! free again. Memory: 16 bytes a grant, at most [`MAX_STAMPS`]. Above that many, grants of the same slot of
//! the window share the moment of the latest, which makes them count a little longer, never shorter.
//!
//! A new target keeps the stamps. Where that would free tokens at once it adjusts them: a shorter window makes
//! stamps younger in proportion, and a raised capacity counts as taken now.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{grants, sane};
use crate::control::{Mono, Original};

/// Stamps kept at most; beyond a capacity of so many tokens, stamps are rounded into slots of the window.
pub const MAX_STAMPS: usize = 65_536;

/// Slots of one window when stamps are rounded.
const SLOTS: u64 = 32_768;

/// Parts of a token. Sums of whole numbers carry no rounding; weights are rounded to this.
const UNITS: f64 = 1e6;

/// Grants of the last window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlidingWindow {
    target: Original,
    /// Length of the window in nanoseconds; that of the last rate above 0 while the rate is 0.
    span: u64,
    /// The last rate above 0: debts stand in time at this rate.
    rate: f64,
    /// Oldest first; moments never decrease.
    stamps: VecDeque<Stamp>,
    /// Sum of `stamps`, those included that are over but not yet dropped.
    used: u64,
    /// The latest moment a change was made at.
    seen: Mono,
}

/// Tokens taken at one moment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stamp {
    at: Mono,
    units: u64,
}

impl SlidingWindow {
    /// A window in which nothing was taken.
    pub fn full(target: Original, now: Mono) -> Self {
        let target = sane(target);
        Self { target, span: span(target), rate: target.rate, stamps: VecDeque::new(), used: 0, seen: now }
    }

    /// See [`super::Bucket::target`].
    pub fn target(&self) -> Original {
        self.target
    }

    /// See [`super::Bucket::tokens`]: the capacity less what was taken in the window that ends now.
    pub fn tokens(&self, now: Mono) -> f64 {
        let over: u64 = self.over(now).map(|stamp| stamp.units).sum();
        (places(self.target) as f64 - self.used.saturating_sub(over) as f64) / UNITS
    }

    /// See [`super::Bucket::ready_at`].
    pub fn ready_at(&self, now: Mono, n: f64) -> Mono {
        if self.target.rate <= 0.0 || !n.is_finite() {
            return Mono::NEVER;
        }
        let capacity = places(self.target);
        let need = units(n).min(capacity);
        let mut used = self.used;
        if used.saturating_add(need) <= capacity || n <= 0.0 {
            return now;
        }
        for stamp in &self.stamps {
            used = used.saturating_sub(stamp.units);
            if used.saturating_add(need) <= capacity {
                return later(stamp.at, self.span);
            }
        }
        now
    }

    /// See [`super::Bucket::take`].
    pub fn take(&mut self, now: Mono, n: f64) -> bool {
        let granted = grants(self.ready_at(now, n), now);
        if granted && n > 0.0 {
            self.forget(now);
            let capacity = places(self.target);
            let taken = units(n);
            // More than the capacity keeps the window shut for as many windows as it is worth.
            let windows = taken.div_ceil(capacity).saturating_sub(1);
            let at = later(self.seen, self.span.saturating_mul(windows));
            self.push(at, taken);
        }
        granted
    }

    /// See [`super::Bucket::give_back`]: a grant of this same moment vanishes without a trace; of older ones
    /// the oldest that counts, which frees the least.
    pub fn give_back(&mut self, now: Mono, n: f64) {
        self.forget(now);
        let mut left = units(n);
        while let Some(last) = self.stamps.back_mut().filter(|last| last.at >= self.seen) {
            let back = left.min(last.units);
            last.units -= back;
            self.used = self.used.saturating_sub(back);
            left -= back;
            if last.units > 0 {
                return;
            }
            self.stamps.pop_back();
        }
        self.drop_oldest(left);
    }

    /// See [`super::Bucket::set_target`]. Walks all stamps if the window's length changes.
    pub fn set_target(&mut self, now: Mono, target: Original) {
        self.forget(now);
        let (old, old_span) = (self.target, self.span);
        self.target = sane(target);
        if self.target.rate > 0.0 {
            self.span = span(self.target);
            let aged = (self.span as f64 / old_span as f64).min(1.0);
            // A debt is paid at the new rate, faster or slower.
            let owed = if self.rate > 0.0 { self.rate / self.target.rate } else { 1.0 };
            self.rate = self.target.rate;
            let seen = self.seen.as_nanos();
            for stamp in self.stamps.iter_mut().filter(|_| self.span != old_span || owed != 1.0) {
                let at = stamp.at.as_nanos();
                stamp.at = if at > seen {
                    later(self.seen, ((at - seen) as f64 * owed).ceil() as u64)
                } else {
                    Mono::from_nanos(seen - (((seen - at) as f64 * aged).floor() as u64).min(seen - at))
                };
            }
        }
        let (capacity, old_capacity) = (places(self.target), places(old));
        // Of what is above a lowered capacity the oldest goes: these places would have been free first,
        // and there are no such places any more.
        if capacity < old_capacity {
            self.drop_oldest(self.used.saturating_sub(capacity).min(old_capacity - capacity));
        }
        if capacity > old_capacity {
            self.push(self.seen, capacity - old_capacity);
        }
    }

    /// See [`super::Bucket::drain`]: what is left counts as taken now.
    pub fn drain(&mut self, now: Mono) {
        self.forget(now);
        self.push(self.seen, places(self.target).saturating_sub(self.used));
    }

    /// How many stamps are kept: at most [`MAX_STAMPS`].
    pub fn stamp_count(&self) -> usize {
        self.stamps.len()
    }

    /// The stamps that no longer count at `now`. At rate 0 nothing becomes free.
    fn over(&self, now: Mono) -> impl Iterator<Item = &Stamp> {
        let runs = self.target.rate > 0.0;
        self.stamps.iter().take_while(move |stamp| runs && grants(later(stamp.at, self.span), now))
    }

    /// Moves on to `now` and drops the stamps that no longer count. At rate 0 the stamps move on as well.
    fn forget(&mut self, now: Mono) {
        let passed = now.as_nanos().saturating_sub(self.seen.as_nanos());
        self.seen = self.seen.max(now);
        if self.target.rate <= 0.0 {
            self.stamps.iter_mut().for_each(|stamp| stamp.at = later(stamp.at, passed));
        }
        let count = self.over(self.seen).count();
        for stamp in self.stamps.drain(..count) {
            self.used = self.used.saturating_sub(stamp.units);
        }
    }

    /// Takes `units` from the oldest stamps.
    fn drop_oldest(&mut self, mut units: u64) {
        while let Some(first) = self.stamps.front_mut() {
            let gone = units.min(first.units);
            first.units -= gone;
            units -= gone;
            self.used = self.used.saturating_sub(gone);
            if first.units > 0 {
                return;
            }
            self.stamps.pop_front();
        }
    }

    /// Counts `taken` units from `at` on, or from the latest stamp if that is later.
    fn push(&mut self, at: Mono, taken: u64) {
        if taken == 0 {
            return;
        }
        let slot = if self.target.capacity > MAX_STAMPS as f64 { self.span.div_ceil(SLOTS) } else { 1 };
        self.used = self.used.saturating_add(taken);
        let full = self.stamps.len() >= MAX_STAMPS;
        if let Some(last) = self.stamps.back_mut() {
            let at = at.max(last.at);
            if full || at.as_nanos() / slot == last.at.as_nanos() / slot {
                *last = Stamp { at, units: last.units.saturating_add(taken) };
                return;
            }
            self.stamps.push_back(Stamp { at, units: taken });
            return;
        }
        self.stamps.push_back(Stamp { at, units: taken });
    }
}

/// Length of the window in nanoseconds, rounded up; endless at rate 0.
fn span(target: Original) -> u64 {
    // A float cast saturates. `max`: a window of no length would be no limit.
    let secs = places(target) as f64 / UNITS / target.rate;
    ((secs * 1e9).ceil() as u64).max(1)
}

/// The capacity in units, at least one, so that it can be divided by.
fn places(target: Original) -> u64 {
    ((target.capacity * UNITS).floor() as u64).max(1)
}

/// Tokens as units, to the nearest, at least one; at most what sums of cannot overflow.
fn units(n: f64) -> u64 {
    ((n * UNITS).round().min(1e18) as u64).max(1)
}

fn later(at: Mono, nanos: u64) -> Mono {
    Mono::from_nanos(at.as_nanos().saturating_add(nanos))
}
