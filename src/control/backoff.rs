//! Backoff with jitter: `min(max, base · 2^n) + U(0, jitter)`.
//!
//! Jitter is only ever added, so a wait that was promised is never cut short. Randomness comes in as a
//! trait, because the core holds no global state. Not here: when to back off, and Retry-After.

use std::time::Duration;

use super::BackoffPolicy;

/// A source of jitter.
pub trait Jitter {
    /// A number in `[0, 1)`; the next call gives another.
    fn unit(&mut self) -> f64;
}

/// No jitter: for tests whose subject is something else.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJitter;

impl Jitter for NoJitter {
    fn unit(&mut self) -> f64 {
        0.0
    }
}

/// Jitter from a seed: SplitMix64. Good enough to spread wake-ups, and the same seed gives the same run.
#[derive(Clone, Copy, Debug)]
pub struct SeededJitter(u64);

impl SeededJitter {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Jitter for SeededJitter {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // 53 bits are what a float holds exactly, so 1.0 is never reached.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The wait before try `n` (0 = the first), saturating for any `n`.
pub fn delay(policy: &BackoffPolicy, n: u32, jitter: &mut dyn Jitter) -> Duration {
    without_jitter(policy, n).saturating_add(share(policy.jitter, jitter.unit()))
}

/// `min(max, base · 2^n)`.
fn without_jitter(policy: &BackoffPolicy, n: u32) -> Duration {
    let factor = 1_u32.checked_shl(n).unwrap_or(u32::MAX);
    // From 2^32 on the factor stands still; a base so small that this shows is below 20 ns.
    policy.base.saturating_mul(factor).min(policy.max)
}

/// A share `unit` in `[0, 1)` of `whole`.
fn share(whole: Duration, unit: f64) -> Duration {
    let secs = whole.as_secs_f64() * unit.clamp(0.0, 1.0);
    Duration::try_from_secs_f64(secs).unwrap_or(whole).min(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_wait_doubles_up_to_its_maximum() {
        let policy = BackoffPolicy::default();
        let waits: Vec<u64> = (0..9).map(|n| delay(&policy, n, &mut NoJitter).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(delay(&policy, u32::MAX, &mut NoJitter), secs(60));
    }

    #[test]
    fn a_seed_fixes_the_sequence_and_the_sequence_is_spread() {
        let mut jitter = SeededJitter::new(7);
        let mut again = SeededJitter::new(7);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let unit = jitter.unit();
            assert_eq!(unit, again.unit());
            assert!((0.0..1.0).contains(&unit));
            tenths[(unit * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn wanted_02_hosts_blocked_at_the_same_instant_do_not_resume_together() {
        let policy = BackoffPolicy::default();
        for seed in 0..20 {
            let mut jitter = SeededJitter::new(seed);
            let mut waits: Vec<Duration> = (0..100).map(|_| delay(&policy, 0, &mut jitter)).collect();
            waits.sort();
            let spread = waits[99] - waits[0];
            assert!(spread > Duration::from_millis(800), "all 100 within {spread:?}");
            let most = waits.iter().map(|from| {
                waits.iter().filter(|one| *one >= from && **one < *from + Duration::from_millis(100)).count()
            });
            assert!(most.max() < Some(40), "no herd in any 100 ms");
        }
    }

    proptest! {
        #[test]
        fn the_wait_is_never_shorter_than_promised_nor_longer_than_the_jitter(
            base in 0..10_000_000_000_u64, max in 0..u64::MAX, spread in 0..u64::MAX, n in any::<u32>(), seed in any::<u64>()
        ) {
            let policy = BackoffPolicy {
                base: Duration::from_nanos(base),
                max: Duration::from_nanos(max),
                jitter: Duration::from_nanos(spread),
                ..BackoffPolicy::default()
            };
            let plain = (u128::from(base) << n.min(40)).min(u128::from(max));
            let wait = delay(&policy, n, &mut SeededJitter::new(seed)).as_nanos();
            if n < 32 {
                prop_assert!(wait >= plain);
            }
            prop_assert!(wait <= plain + u128::from(spread));
        }
    }
}
