//! Chance from a seed: SplitMix64, small, fast, and the same on every machine.
//!
//! Simulated servers have a generator of their own, so that a run is repeatable whatever else draws
//! random numbers. Not for secrets.

use std::time::Duration;

/// A SplitMix64 generator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that gives the same numbers for the same `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are all that a double keeps.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `share` (0 = never, 1 = always). A draw is made in any case, so that
    /// changing a share does not shift what follows.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Standard normal (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Lognormal: half of the draws are below `median`; `sigma` is the spread of the logarithm.
    pub fn lognormal(&mut self, median: Duration, sigma: f64) -> Duration {
        let factor = (sigma * self.normal()).exp();
        Duration::try_from_secs_f64(median.as_secs_f64() * factor).unwrap_or(median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_first_numbers_of_seed_zero() {
        let mut random = Random::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn draws_have_the_shares_they_claim() {
        let mut random = Random::new(7);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        let median = Duration::from_millis(120);
        let below = (0..10_000).filter(|_| random.lognormal(median, 0.3) < median).count();
        assert!((4_700..5_300).contains(&below), "{below}");
        assert!(!random.chance(0.0) && random.chance(1.0));
    }
}
