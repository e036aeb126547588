//! The hidden limit of a server: which requests it admits. The clients only ever see the refusals.

use std::time::Duration;

use super::Drift;
use super::drift::Drifting;
use crate::control::Mono;

/// Slices in which a changing rate is added up between two requests.
const SLICES: u32 = 16;
/// Rounding of floats must not turn a full token into none.
const ROUNDING: f64 = 1e-9;

/// The kind of limit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Limit {
    /// Everything is admitted.
    #[default]
    None,
    /// A token bucket, full at the start.
    Bucket {
        /// Tokens per second, > 0.
        rate: f64,
        /// Tokens it holds, >= 1.
        burst: f64,
    },
    /// So many requests in each window of the clock; the count starts anew with each.
    Window {
        /// Requests in one window.
        count: u32,
        /// Length of a window.
        per: Duration,
        /// How far into a window the origin of time lies.
        phase: Duration,
    },
}

/// A limit at work.
#[derive(Clone, Debug)]
pub struct Limiter {
    limit: Limit,
    burst_seconds: f64,
    drifting: Drifting,
    /// Tokens now, or requests left in this window.
    level: f64,
    /// When `level` was brought up to date.
    updated: Mono,
    /// Number of the window that `level` counts for; the first is 0.
    window: u64,
}

impl Limiter {
    /// The limit, fresh: a full bucket, an unused window. `burst_seconds` lets the burst of a bucket
    /// grow to so many seconds of its rate of the moment; `seed` is for a noisy drift.
    pub fn new(limit: Limit, drift: Drift, burst_seconds: f64, seed: u64) -> Self {
        let mut drifting = Drifting::new(drift, seed);
        let factor = drifting.factor(Mono::ZERO);
        let level = match limit {
            Limit::None => f64::INFINITY,
            Limit::Bucket { rate, burst } => burst.max(burst_seconds * rate * factor),
            Limit::Window { count, .. } => (f64::from(count) * factor).floor().max(1.0),
        };
        Self { limit, burst_seconds, drifting, level, updated: Mono::ZERO, window: 0 }
    }

    /// Whether a request that arrives at `now` is admitted. A refused one costs nothing.
    pub fn admit(&mut self, now: Mono) -> bool {
        self.bring_up_to(now);
        let admitted = self.level + ROUNDING >= 1.0;
        if admitted {
            self.level = (self.level - 1.0).max(0.0);
        }
        admitted
    }

    /// How long after `now` the next request would be admitted.
    pub fn wait(&mut self, now: Mono) -> Duration {
        self.bring_up_to(now);
        if self.level + ROUNDING >= 1.0 {
            return Duration::ZERO;
        }
        match self.limit {
            Limit::None => Duration::ZERO,
            Limit::Bucket { rate, .. } => {
                let seconds = (1.0 - self.level) / (rate * self.drifting.factor(now)).max(1e-9);
                // Rounded up: a wait that is too short by a nanosecond ends in a refusal.
                Duration::from_nanos((seconds * 1e9).ceil() as u64)
            }
            Limit::Window { .. } => self.window_left(now),
        }
    }

    /// Limit, remaining and reset as hint headers tell them; `None` without a limit.
    pub fn hint(&mut self, now: Mono) -> Option<Hint> {
        self.bring_up_to(now);
        let remaining = self.level.floor() as u64;
        let factor = self.drifting.factor(now);
        match self.limit {
            Limit::None => None,
            Limit::Bucket { rate, burst } => {
                let (rate, burst) = (rate * factor, burst.max(self.burst_seconds * rate * factor));
                let full_in = |tokens: f64| Duration::try_from_secs_f64(tokens / rate).unwrap_or(Duration::MAX);
                let reset = full_in((burst - self.level).max(0.0));
                Some(Hint { quota: burst as u64, window: full_in(burst), remaining, reset })
            }
            Limit::Window { count, per, .. } => {
                let quota = (f64::from(count) * factor) as u64;
                Some(Hint { quota, window: per, remaining, reset: self.window_left(now) })
            }
        }
    }

    /// What the limit allows at `now`, in requests per second; infinite without a limit. This is the
    /// truth that a controller is measured against.
    pub fn rate(&mut self, now: Mono) -> f64 {
        match self.limit {
            Limit::None => f64::INFINITY,
            Limit::Bucket { rate, .. } => rate * self.drifting.factor(now),
            Limit::Window { count, per, .. } => {
                f64::from(count) * self.drifting.factor(now) / per.as_secs_f64().max(1e-9)
            }
        }
    }

    fn bring_up_to(&mut self, now: Mono) {
        // Time that goes backwards changes nothing.
        let elapsed = now.secs_since(self.updated);
        match self.limit {
            Limit::None => {}
            Limit::Bucket { rate, burst } => {
                let earned = rate * self.integral(elapsed);
                let burst = burst.max(self.burst_seconds * rate * self.drifting.factor(now));
                self.level = (self.level + earned).min(burst);
            }
            Limit::Window { count, per, phase } => {
                let window = window_number(now.max(self.updated), per, phase);
                if window > self.window {
                    self.window = window;
                    self.level = (f64::from(count) * self.drifting.factor(now)).floor().max(1.0);
                }
            }
        }
        self.updated = self.updated.max(now);
    }

    /// The factor summed over the `elapsed` seconds since the last update.
    fn integral(&mut self, elapsed: f64) -> f64 {
        if self.drifting.is_constant() {
            return elapsed;
        }
        let slice = elapsed / f64::from(SLICES);
        (0..SLICES).map(|k| slice * self.drifting.factor(self.updated.after_secs((f64::from(k) + 0.5) * slice))).sum()
    }

    fn window_left(&self, now: Mono) -> Duration {
        let Limit::Window { per, phase, .. } = self.limit else { return Duration::ZERO };
        let into = (now.as_nanos() as u128 + phase.as_nanos()) % per.as_nanos().max(1);
        per.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or(u64::MAX)))
    }
}

/// What a server may tell about its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// Requests per window.
    pub quota: u64,
    /// The window (of a bucket: from empty to full).
    pub window: Duration,
    /// Requests left now.
    pub remaining: u64,
    /// Until all of them are back.
    pub reset: Duration,
}

fn window_number(now: Mono, per: Duration, phase: Duration) -> u64 {
    ((now.as_nanos() as u128 + phase.as_nanos()) / per.as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(limiter: &mut Limiter, from: f64, until: f64, per_second: u32) -> usize {
        let asks = ((until - from) * f64::from(per_second)).round() as u32;
        let at = |k: u32| Mono::from_secs_f64(from + f64::from(k) / f64::from(per_second));
        (0..asks).filter(|k| limiter.admit(at(*k))).count()
    }

    #[test]
    fn a_bucket_admits_its_burst_and_then_its_rate() {
        let mut limiter = Limiter::new(Limit::Bucket { rate: 2.0, burst: 10.0 }, Drift::Constant, 0.0, 0);
        // The window is closed on the left: the request at 60.0 itself is not asked.
        assert_eq!(admitted(&mut limiter, 0.0, 60.0, 100), 10 + 2 * 60 - 1);
        assert_eq!(admitted(&mut limiter, 60.0, 120.0, 100), 2 * 60);
    }

    #[test]
    fn a_window_admits_its_count_wherever_the_origin_lies() {
        let per = Duration::from_secs(60);
        let limit = Limit::Window { count: 60, per, phase: Duration::from_secs(50) };
        let mut limiter = Limiter::new(limit, Drift::Constant, 0.0, 0);
        assert_eq!(admitted(&mut limiter, 0.0, 10.0, 100), 60);
        assert_eq!(admitted(&mut limiter, 10.0, 70.0, 100), 60);
        assert_eq!(limiter.wait(Mono::from_secs_f64(69.5)), Duration::from_millis(500));
    }

    #[test]
    fn the_wait_ends_exactly_when_the_next_is_admitted() {
        let mut limiter = Limiter::new(Limit::Bucket { rate: 3.0, burst: 1.0 }, Drift::Constant, 0.0, 0);
        let mut now = Mono::from_secs_f64(5.0);
        for _ in 0..100 {
            now = now.after(limiter.wait(now));
            assert!(limiter.admit(now));
            let wait = limiter.wait(now);
            assert!(!wait.is_zero());
            // Asked of a copy, so that the limiter's own time does not run ahead.
            assert!(!limiter.clone().admit(now.after(wait).before(Duration::from_micros(1))));
        }
    }

    #[test]
    fn a_drifting_bucket_follows_its_steps_and_its_burst_its_rate() {
        let drift = Drift::Steps { at: vec![Duration::from_secs(100)], factor: vec![0.1] };
        let mut limiter = Limiter::new(Limit::Bucket { rate: 10.0, burst: 1.0 }, drift, 2.0, 0);
        assert_eq!(admitted(&mut limiter, 0.0, 1.0, 100), 20 + 9, "the burst is two seconds of the rate");
        admitted(&mut limiter, 1.0, 101.0, 100);
        assert_eq!(admitted(&mut limiter, 101.0, 201.0, 100), 100);
        assert!((limiter.rate(Mono::from_secs_f64(150.0)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn time_that_goes_backwards_admits_nothing_more() {
        let mut limiter = Limiter::new(Limit::Bucket { rate: 1.0, burst: 2.0 }, Drift::Constant, 0.0, 0);
        let late = Mono::from_secs_f64(1_000.0);
        assert!(limiter.admit(late) && limiter.admit(late));
        assert!(!limiter.admit(Mono::ZERO));
        assert!(!limiter.admit(late));
    }
}
