//! Latency of one host: percentiles from a fixed set of counters.
//!
//! 40 buckets from 1 ms to 120 s, each 1.36 times as wide as the one below, in 80 bytes. A percentile is
//! the geometric middle of its bucket: within 17 % of the true value between the ends. Shorter counts as 1 ms,
//! longer as 120 s. When a counter is full all are halved, so what is old fades.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Number of buckets.
const BUCKETS: usize = 40;

/// Upper end of the lowest bucket, in seconds.
const LOWEST: f64 = 0.001;

/// Lower end of the highest bucket, in seconds.
const HIGHEST: f64 = 120.0;

/// No estimate is further from the true value than this factor, up or down, between 1 ms and 120 s.
pub const ERROR_FACTOR: f64 = 1.17;

/// Counts of answers by how long they took.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<u16>", into = "Vec<u16>")]
pub struct Latency {
    counts: [u16; BUCKETS],
}

impl From<Vec<u16>> for Latency {
    /// Counts by bucket, the lowest first; what is missing is zero.
    fn from(counts: Vec<u16>) -> Self {
        Self { counts: std::array::from_fn(|bucket| counts.get(bucket).copied().unwrap_or(0)) }
    }
}

impl From<Latency> for Vec<u16> {
    fn from(latency: Latency) -> Self {
        let used = latency.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        latency.counts.iter().take(used).copied().collect()
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Latency {
    /// Counts one answer.
    pub fn record(&mut self, latency: Duration) {
        let bucket = bucket_of(latency.as_secs_f64());
        if self.counts[bucket] == u16::MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
    }

    /// The latency that a share `p` (0 to 1) of the answers did not exceed; `None` before the first answer.
    pub fn percentile(&self, p: f64) -> Option<Duration> {
        let total: u32 = self.counts.iter().map(|count| u32::from(*count)).sum();
        if total == 0 {
            return None;
        }
        let rank = ((f64::from(total) * p.clamp(0.0, 1.0)).ceil() as u32).max(1);
        let mut sum = 0;
        let bucket = self.counts.iter().position(|count| {
            sum += u32::from(*count);
            sum >= rank
        });
        bucket.map(|bucket| Duration::from_secs_f64(middle(bucket)))
    }

    /// Median and 95th percentile.
    pub fn median_and_p95(&self) -> Option<(Duration, Duration)> {
        self.percentile(0.5).zip(self.percentile(0.95))
    }
}

/// Width of a bucket as a logarithm: the two outer buckets are open ended.
fn width() -> f64 {
    (HIGHEST / LOWEST).ln() / (BUCKETS - 2) as f64
}

fn bucket_of(secs: f64) -> usize {
    if secs <= LOWEST {
        return 0;
    }
    // A float cast saturates; the result is at least 1 here.
    (1 + ((secs / LOWEST).ln() / width()) as usize).min(BUCKETS - 1)
}

/// The geometric middle of a bucket in seconds; the known end of the two outer ones.
fn middle(bucket: usize) -> f64 {
    match bucket {
        0 => LOWEST,
        inner if inner < BUCKETS - 1 => LOWEST * ((inner as f64 - 0.5) * width()).exp(),
        _ => HIGHEST,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_small() {
        assert!(size_of::<Latency>() <= 96);
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        assert_eq!(Latency::default().percentile(0.5), None);
        assert_eq!(Latency::default().median_and_p95(), None);
    }

    #[test]
    fn the_ends_are_open() {
        let mut latency = Latency::default();
        latency.record(Duration::ZERO);
        assert_eq!(latency.percentile(0.5), Some(Duration::from_millis(1)));
        latency = Latency::default();
        latency.record(Duration::MAX);
        assert_eq!(latency.percentile(0.5), Some(Duration::from_secs(120)));
    }

    #[test]
    fn a_full_counter_halves_all_and_new_times_take_over() {
        let mut latency = Latency::default();
        (0..u16::MAX).for_each(|_| latency.record(Duration::from_millis(10)));
        (0..200_000).for_each(|_| latency.record(Duration::from_secs(1)));
        let median = latency.percentile(0.5).expect("recorded").as_secs_f64();
        assert!((1.0 / ERROR_FACTOR..=ERROR_FACTOR).contains(&median), "{median}");
        // 65,535 halved at least once for each 32,768 of the others.
        let (low, high) = (latency.counts[bucket_of(0.01)], latency.counts[bucket_of(1.0)]);
        assert!(low < 4096 && high > 32_000, "{low} and {high}");
    }

    proptest! {
        #[test]
        fn percentiles_keep_to_the_stated_error(
            millis in prop::collection::vec(prop_oneof![1..300_u64, 1..119_000_u64], 1..300), p in 0.01..1.0_f64
        ) {
            let mut latency = Latency::default();
            millis.iter().for_each(|one| latency.record(Duration::from_millis(*one)));
            let mut sorted = millis;
            sorted.sort_unstable();
            let rank = ((sorted.len() as f64 * p).ceil() as usize).max(1);
            let exact = sorted[rank - 1] as f64 / 1e3;
            let ratio = latency.percentile(p).expect("recorded").as_secs_f64() / exact;
            prop_assert!((1.0 / ERROR_FACTOR..=ERROR_FACTOR).contains(&ratio), "{} of {} s", ratio, exact);
        }
    }
}
