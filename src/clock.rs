//! The only file that reads time. Everybody else is told.
//!
//! [`SystemClock`] reads `CLOCK_BOOTTIME`, which goes on while the machine is suspended: a hold that
//! was to last an hour is over after an hour in a closed laptop, and a bucket is full, not fuller.
//! (`std::time::Instant` stops in suspend on Linux.)
#![expect(clippy::disallowed_methods, reason = "this is the file the rule points to")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::control::Mono;

/// Wall time: microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
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

/// One moment by all clocks there are: what makes a persisted monotonic time mean something to another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Anchor {
    /// By the monotonic clock of the run.
    pub mono: Mono,
    /// By the wall.
    pub wall: Wall,
    /// Which boot of the machine it was, and nanoseconds since then; `None` = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<(u64, u64)>,
}

impl Anchor {
    /// The moment `later` on the run's own monotonic clock, however the wall clock was set meanwhile.
    ///
    /// Within one boot the machine's monotonic clock tells what has passed. Over a reboot the wall clock must; if that
    /// went backwards nothing has passed: what was held is held for its rest, never longer, and nothing is released.
    pub fn resumed_at(&self, later: &Self) -> Mono {
        let passed = match (self.boot, later.boot) {
            (Some((boot, then)), Some((same, now))) if boot == same => Duration::from_nanos(now.saturating_sub(then)),
            _ => Duration::from_micros(u64::try_from(later.wall.0.saturating_sub(self.wall.0)).unwrap_or(0)),
        };
        // A run of a century keeps its moments apart from `Mono::NEVER`.
        Mono::from_nanos(self.mono.as_nanos().min(RUN_MAX)).after(passed.min(Duration::from_nanos(RUN_MAX)))
    }
}

/// The longest run that a clock goes on with, and the longest time between two of its processes: a century.
const RUN_MAX: u64 = 100 * 366 * 86_400 * 1_000_000_000;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Monotonic time since the clock's origin, suspend included. The origin is the beginning of the run: a run that
    /// is resumed goes on counting.
    fn now(&self) -> Mono;
    /// Wall time.
    fn wall(&self) -> Wall;
    /// This moment by all clocks.
    fn anchor(&self) -> Anchor {
        Anchor { mono: self.now(), wall: self.wall(), boot: None }
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    /// What is added to the nanoseconds since boot, wrapping: a run may be older than the boot.
    shift: AtomicU64,
    boot: Option<u64>,
}

impl SystemClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self { shift: AtomicU64::new(0_u64.wrapping_sub(boot_nanos())), boot: boot_number() }
    }

    /// Sets the clock to `mono`, once, before anything is timed by it: the run goes on from there.
    pub fn go_on_from(&self, mono: Mono) {
        self.shift.store(mono.as_nanos().wrapping_sub(boot_nanos()), Ordering::Relaxed);
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
        Mono::from_nanos(boot_nanos().wrapping_add(self.shift.load(Ordering::Relaxed)))
    }

    fn wall(&self) -> Wall {
        // By the C library, so that a test can set the clock of one process.
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Wall(micros(since)),
            Err(before) => Wall(-micros(before.duration())),
        }
    }

    fn anchor(&self) -> Anchor {
        Anchor { mono: self.now(), wall: self.wall(), boot: self.boot.map(|boot| (boot, boot_nanos())) }
    }
}

/// A number for this boot of the machine; `None` where the kernel names none.
fn boot_number() -> Option<u64> {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(xxhash_rust::xxh3::xxh3_64(&id))
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

    /// Sets the wall clock alone, as an operator or a time server would.
    pub fn set_wall(&self, wall: Wall) {
        self.wall.store(wall.0, Ordering::Relaxed);
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

    const YEAR: i64 = 365 * 86_400 * 1_000_000;

    #[test]
    fn row_09_a_wall_clock_set_by_ten_years_either_way_neither_stalls_nor_floods() {
        let minute = |minutes: u64| Mono::from_nanos(minutes * 60_000_000_000);
        let saved = Anchor { mono: minute(60), wall: Wall(50 * YEAR), boot: Some((7, 1_000)) };
        for wall in [40, 50, 60] {
            // The same boot: five minutes have passed, whatever the wall says.
            let later = Anchor { mono: minute(0), wall: Wall(wall * YEAR), boot: Some((7, 1_000 + 300_000_000_000)) };
            assert_eq!(saved.resumed_at(&later), minute(65));
        }
        // Another boot: backwards is nothing, forwards is what it says, and never the end of time.
        let rebooted = |years: i64| Anchor { mono: minute(0), wall: Wall(years * YEAR), boot: Some((8, 5)) };
        assert_eq!(saved.resumed_at(&rebooted(40)), minute(60));
        assert_eq!(saved.resumed_at(&rebooted(60)), minute(60).after(Duration::from_micros(10 * YEAR as u64)));
        let absurd = Anchor { mono: Mono::NEVER, wall: Wall(i64::MIN), boot: None };
        assert!(absurd.resumed_at(&Anchor { wall: Wall(i64::MAX), ..absurd }) < Mono::NEVER);
    }

    #[test]
    fn a_clock_goes_on_from_where_the_run_was() {
        let clock = SystemClock::new();
        let before = Mono::from_nanos(u64::MAX / 4);
        clock.go_on_from(before);
        let now = clock.now();
        assert!(now >= before && now.since(before) < Duration::from_secs(60));
    }
}
