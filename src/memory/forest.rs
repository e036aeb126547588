//! The random forest: from hour, weekday, rate and response time to the limit that is likely ten minutes later.
//!
//! Training takes some ten milliseconds for a thousand samples, so it is done off the engine's task. The same samples and
//! seed make the same forest.

use smartcore::ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters};
use smartcore::linalg::basic::matrix::DenseMatrix;

use crate::control::prior::experience::{SAMPLES_MAX, SAMPLES_MIN};
use crate::control::prior::{Features, Model, Sample};

/// Trees of a forest, how deep they are, and how many samples a leaf has at least.
const TREES: usize = 50;
const DEPTH: u16 = 10;
const LEAF: usize = 3;

type Regressor = RandomForestRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>;

/// A trained forest of one host.
struct Forest(Regressor);

impl Model for Forest {
    fn limit(&self, features: &Features) -> Option<f64> {
        let rows = DenseMatrix::from_2d_vec(&vec![row(features)]).ok()?;
        let logarithm = *self.0.predict(&rows).ok()?.first()?;
        Some(logarithm.exp()).filter(|limit| limit.is_finite() && *limit > 0.0)
    }
}

/// Trains a forest on the last samples of a host; `None` if they are too few, or nothing can be made of them.
pub fn train(samples: &[Sample], seed: u64) -> Option<Box<dyn Model>> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    let last = &samples[samples.len().saturating_sub(SAMPLES_MAX)..];
    let usable = last.iter().filter(|sample| sample.limit() > 0.0);
    let (rows, limits): (Vec<Vec<f64>>, Vec<f64>) =
        usable.map(|sample| (row(&sample.features()), sample.limit().ln())).unzip();
    let rows = DenseMatrix::from_2d_vec(&rows).ok()?;
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(TREES)
        .with_max_depth(DEPTH)
        .with_min_samples_leaf(LEAF)
        .with_seed(seed);
    let forest = Regressor::fit(&rows, &limits, parameters).ok()?;
    Some(Box::new(Forest(forest)))
}

/// What a tree sees of the features: rates and times by their logarithms.
fn row(features: &Features) -> Vec<f64> {
    let logarithm = |value: f64| value.max(1e-6).ln();
    vec![features.hour, features.weekday, logarithm(features.rate), logarithm(features.response)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::prior::Moment;

    /// A host that bears 6/s by night and 2/s from 8 to 20 o'clock, a sample each ten minutes.
    fn samples(count: u64) -> Vec<Sample> {
        let limit = |moment: Moment| {
            let hour = moment.week_hours() % 24.0;
            if (8.0..20.0).contains(&hour) { 2.0 } else { 6.0 }
        };
        let sample = |k: u64| {
            let moment = Moment(k * 600);
            Sample::new(moment, limit(moment), 0.1, limit(moment.plus(600)))
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn a_forest_learns_the_hours_and_is_fixed_by_its_seed() {
        let forest = train(&samples(1_000), 1).expect("enough samples");
        for (hour, rate, limit) in [(3.0, 6.0, 6.0), (12.0, 2.0, 2.0), (22.0, 6.0, 6.0)] {
            let features = Features { hour, weekday: 2.0, rate, response: 0.1 };
            let expected = forest.limit(&features).expect("a limit");
            assert!((expected / limit - 1.0).abs() < 0.1, "{hour} o'clock: {expected}");
        }
        let features = Features { hour: 7.5, weekday: 1.0, rate: 4.0, response: 0.2 };
        let again = train(&samples(1_000), 1).expect("enough samples");
        assert_eq!(again.limit(&features), forest.limit(&features));
    }

    #[test]
    fn a_forest_needs_a_hundred_samples_and_survives_strange_ones() {
        assert!(train(&samples(99), 1).is_none());
        assert!(train(&samples(100), 1).is_some());
        let strange = vec![Sample::from_parts([u16::MAX, 0, u16::MAX, 0]); 200];
        assert!(train(&strange, 1).is_none(), "there is nothing to learn");
        let forest = train(&samples(200), 1).expect("enough samples");
        let wild = Features { hour: f64::NAN, weekday: -1e9, rate: f64::INFINITY, response: 0.0 };
        assert!(forest.limit(&wild).is_none_or(|limit| limit.is_finite() && limit > 0.0));
    }
}
