//! How a hidden limit changes over time: a factor on its rate or count.
//!
//! Factors never fall below [`FACTOR_MIN`], so that a limit stays a limit and waits stay finite.

use std::time::Duration;

use super::Random;
use crate::control::Mono;

/// The smallest factor.
pub const FACTOR_MIN: f64 = 0.001;
/// How much of the last step's deviation a noisy limit keeps.
const NOISE_MEMORY: f64 = 0.9;
/// Steps of noise that are drawn one by one; after a longer silence the noise starts anew.
const NOISE_STEPS_MAX: u64 = 1_000;

/// The shape of the change.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Drift {
    /// None.
    #[default]
    Constant,
    /// `1 + amplitude · sin(2π t / period)`.
    Sine {
        /// 0 to 1.
        amplitude: f64,
        /// One full wave.
        period: Duration,
    },
    /// From `at[k]` on the factor is `factor[k]`; 1 before the first.
    Steps {
        /// Moments since the origin, ascending.
        at: Vec<Duration>,
        /// As many factors.
        factor: Vec<f64>,
    },
    /// Wanders around 1, a new value every `step`: each keeps most of the one before.
    Noise {
        /// Standard deviation, 0 to 1; never further from 1 than twice that.
        amplitude: f64,
        /// How long a value lasts.
        step: Duration,
    },
}

/// A drift with the memory that noise needs. Ask in ascending order of time.
#[derive(Clone, Debug)]
pub struct Drifting {
    drift: Drift,
    random: Random,
    step: u64,
    deviation: f64,
}

impl Drifting {
    /// The drift, its noise drawn from `seed`.
    pub const fn new(drift: Drift, seed: u64) -> Self {
        Self { drift, random: Random::new(seed), step: 0, deviation: 0.0 }
    }

    /// Whether the factor is 1 for ever.
    pub const fn is_constant(&self) -> bool {
        matches!(self.drift, Drift::Constant)
    }

    /// The factor at `now`, at least [`FACTOR_MIN`].
    pub fn factor(&mut self, now: Mono) -> f64 {
        let elapsed = now.since(Mono::ZERO);
        let factor = match &self.drift {
            Drift::Constant => 1.0,
            Drift::Sine { amplitude, period } => {
                let turn = elapsed.as_secs_f64() / period.as_secs_f64().max(1e-9);
                1.0 + amplitude * (std::f64::consts::TAU * turn).sin()
            }
            Drift::Steps { at, factor } => {
                let passed = at.iter().take_while(|moment| **moment <= elapsed).count();
                passed.checked_sub(1).and_then(|last| factor.get(last)).copied().unwrap_or(1.0)
            }
            Drift::Noise { amplitude, step } => {
                let (amplitude, step) = (*amplitude, *step);
                1.0 + amplitude * self.wander(elapsed, step)
            }
        };
        factor.max(FACTOR_MIN)
    }

    /// The deviation in standard deviations, `-2..=2`, at `elapsed`.
    fn wander(&mut self, elapsed: Duration, step: Duration) -> f64 {
        let target = (elapsed.as_nanos() / step.as_nanos().max(1)) as u64;
        if target.saturating_sub(self.step) > NOISE_STEPS_MAX {
            self.step = target - 1;
            self.deviation = 0.0;
        }
        while self.step < target {
            self.step += 1;
            let fresh = (1.0 - NOISE_MEMORY * NOISE_MEMORY).sqrt() * self.random.normal();
            self.deviation = (NOISE_MEMORY * self.deviation + fresh).clamp(-2.0, 2.0);
        }
        self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Mono {
        Mono::from_secs_f64(secs)
    }

    #[test]
    fn a_sine_peaks_after_a_quarter_and_dips_after_three() {
        let drift = Drift::Sine { amplitude: 0.75, period: Duration::from_secs(100) };
        let mut drifting = Drifting::new(drift, 0);
        assert!((drifting.factor(at(25.0)) - 1.75).abs() < 1e-9);
        assert!((drifting.factor(at(75.0)) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn steps_hold_until_the_next() {
        let at_moments = vec![Duration::from_secs(10), Duration::from_secs(20)];
        let mut drifting = Drifting::new(Drift::Steps { at: at_moments, factor: vec![0.1, 2.0] }, 0);
        let factors = [0.0, 9.9, 10.0, 19.9, 20.0, 1e6].map(|secs| drifting.factor(at(secs)));
        assert_eq!(factors, [1.0, 1.0, 0.1, 0.1, 2.0, 2.0]);
    }

    #[test]
    fn noise_stays_within_twice_its_amplitude_moves_and_repeats_by_seed() {
        let drift = Drift::Noise { amplitude: 0.25, step: Duration::from_secs(30) };
        let run = |seed| {
            let mut drifting = Drifting::new(drift.clone(), seed);
            (0..500).map(|k| drifting.factor(at(f64::from(k) * 30.0))).collect::<Vec<_>>()
        };
        let factors = run(1);
        assert!(factors.iter().all(|factor| (0.5..=1.5).contains(factor)));
        let deviation = (factors.iter().map(|factor| (factor - 1.0).powi(2)).sum::<f64>() / 500.0).sqrt();
        assert!((0.2..0.3).contains(&deviation), "{deviation}");
        assert_eq!(factors, run(1));
        assert_ne!(factors, run(2));
    }

    #[test]
    fn a_long_silence_costs_a_bounded_number_of_draws() {
        let mut drifting = Drifting::new(Drift::Noise { amplitude: 0.25, step: Duration::from_nanos(1) }, 0);
        assert!((0.5..=1.5).contains(&drifting.factor(Mono::NEVER)));
    }
}
