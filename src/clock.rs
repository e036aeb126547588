//! The only file that reads time. Everybody else is told.
//!
//! [`SystemClock`] reads `CLOCK_BOOTTIME`, which goes on while the machine is suspended: a hold that
//! was to last an hour is over after an hour in a closed laptop, and a bucket is full, not fuller.
//! (`std::time::Instant` stops in suspend on Linux.)
#![expect(clippy::disallowed_methods, reason = "this is the file the rule points to")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::control::Mono;

/// Wall time: microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Wall(pub i64);

impl Wall {
    /// RFC 3339 in UTC with microseconds, `2026-11-30T23:08:08.000000Z`.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(stamp) => format!("{stamp:.6}"),
            Err(_) => String::from("9999-12-31T23:59:59.999999Z"),
        }
    }

    /// The wall time that an RFC 3339 text names.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|stamp| Self(stamp.as_microsecond()))
    }

    /// `HH:MM:SS`, UTC.
    pub fn time_of_day(self) -> String {
        let seconds = self.0.div_euclid(1_000_000).rem_euclid(86_400);
        format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    /// This moment plus `duration`, saturating.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Monotonic time since the clock's origin, suspend included.
    fn now(&self) -> Mono;
    /// Wall time.
    fn wall(&self) -> Wall;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: u64,
}

impl SystemClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self { origin: boot_nanos() }
    }

    /// The same, shared.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self::new())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Mono {
        Mono::from_nanos(boot_nanos().saturating_sub(self.origin))
    }

    fn wall(&self) -> Wall {
        let stamp = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Wall(stamp.tv_sec.saturating_mul(1_000_000).saturating_add(stamp.tv_nsec / 1_000))
    }
}

/// Nanoseconds since boot, suspend included.
fn boot_nanos() -> u64 {
    let stamp = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = i128::from(stamp.tv_sec) * 1_000_000_000 + i128::from(stamp.tv_nsec);
    u64::try_from(nanos).unwrap_or_default()
}

/// A clock that moves only when told: for tests and for virtual time.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    wall: AtomicI64,
}

impl ManualClock {
    /// A clock at its origin, at wall time `wall`.
    pub fn new(wall: Wall) -> Arc<Self> {
        Arc::new(Self { now: AtomicU64::new(0), wall: AtomicI64::new(wall.0) })
    }

    /// Moves both times on.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.now.fetch_add(nanos, Ordering::Relaxed);
        self.wall.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Mono {
        Mono::from_nanos(self.now.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Wall {
        Wall(self.wall.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_round_trips() {
        let wall = Wall::parse("2026-11-30T23:08:08.000123Z").expect("valid");
        assert_eq!(wall.rfc3339(), "2026-11-30T23:08:08.000123Z");
        assert_eq!(wall.time_of_day(), "23:08:08");
    }
}
