//! Monotonic time as the core sees it: a number that is passed in.
//!
//! The core never reads a clock; whoever calls it says what time it is. Nanoseconds in a `u64` last
//! 584 years, so all arithmetic saturates instead of wrapping.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment on the monotonic clock, in nanoseconds since the clock's origin (process start).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(u64);

impl Mono {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than every moment that can be reached: "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// A moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A moment `secs` seconds after the origin; negative and NaN count as zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(secs_to_nanos(secs))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This moment plus `duration`, [`Mono::NEVER`] at the end of time.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// This moment plus `secs` seconds; negative and NaN add nothing.
    pub fn after_secs(self, secs: f64) -> Self {
        Self(self.0.saturating_add(secs_to_nanos(secs)))
    }

    /// This moment minus `duration`, the origin at the earliest.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Where the period begins in which something is done at `now` that was last done in the one from `self` on.
    ///
    /// A little late counts as on time, so that lateness does not add up: what is done every 250 ms stays at four
    /// times a second. Early, or more than a whole period late, the count begins anew at `now`.
    #[must_use]
    pub fn beat(self, period: Duration, now: Self) -> Self {
        let since = now.since(self);
        if since >= period && since < period.saturating_mul(2) { self.after(period) } else { now }
    }

    /// Seconds since `earlier`; zero if `earlier` is later.
    pub fn secs_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1e9
    }
}

/// Seconds as nanoseconds, rounded up (a wait must never be too short), saturating at both ends.
fn secs_to_nanos(secs: f64) -> u64 {
    // A float cast saturates and turns NaN into zero, which is just what is wanted.
    (secs * 1e9).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_does_not_add_up_and_is_not_caught_up() {
        let period = Duration::from_millis(250);
        let at = |millis: u64| Mono::ZERO.after(Duration::from_millis(millis));
        assert_eq!(at(1000).beat(period, at(1256)), at(1250), "late");
        assert_eq!(at(1000).beat(period, at(1100)), at(1100), "early: a key");
        assert_eq!(at(1000).beat(period, at(1500)), at(1500), "one was left out");
        assert_eq!(Mono::NEVER.beat(Duration::MAX / 2, Mono::NEVER), Mono::NEVER);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Mono::NEVER.after(Duration::MAX), Mono::NEVER);
        assert_eq!(Mono::ZERO.before(Duration::from_secs(1)), Mono::ZERO);
        assert_eq!(Mono::ZERO.since(Mono::NEVER), Duration::ZERO);
        assert_eq!(Mono::ZERO.after_secs(f64::NAN), Mono::ZERO);
        assert_eq!(Mono::ZERO.after_secs(-5.0), Mono::ZERO);
        assert_eq!(Mono::ZERO.after_secs(f64::INFINITY), Mono::NEVER);
    }
}
