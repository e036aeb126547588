//! All that is remembered of one host: what was measured last, the table, how well the clock has foretold it, and samples
//! for a model where one is wanted.

use serde::{Deserialize, Serialize};

use super::hour_of_week::{limit_of, slot_of};
use super::{Features, HourOfWeek, Measured, Moment, Table};

/// Samples of one host that a model is trained on: the last ones.
pub const SAMPLES_MAX: usize = 1_000;
/// A model is trained on no fewer.
pub const SAMPLES_MIN: usize = 100;
/// Hours compared before the clock is believed.
const COMPARED_MIN: u16 = 3;
/// What the newest comparison weighs at least.
const WEIGHT: f32 = 0.05;
/// A limit that moves less from visit to visit needs no clock (a natural logarithm).
const MOVES: f32 = 0.03;
/// The clock is believed where its error is so much smaller than that of "as the last time".
const BETTER: f32 = 0.6;

/// What is remembered of one host.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Experience {
    /// What was measured last.
    pub measured: Measured,
    /// When that was.
    pub at: Moment,
    /// What the host bore by hour of the week.
    pub table: Table,
    /// How well that foretold what came.
    pub skill: Skill,
    /// Samples for a model, oldest first; none where no model is wanted.
    pub samples: Vec<Sample>,
}

/// How well two ways of foretelling the limit of a visit did, as running means of |ln(measured ÷ foretold)|.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Skill {
    /// The prior's.
    prior: f32,
    /// That of "as the last time".
    last: f32,
    /// Comparisons so far.
    compared: u16,
    /// What was measured the last time; 0 = nothing yet.
    before: f32,
}

impl Skill {
    /// A visit measured `limit`, where the prior had foretold `foretold` (0 = nothing).
    pub fn compare(&mut self, limit: f64, foretold: f64) {
        let limit = limit as f32;
        if !(limit.is_finite() && limit > 0.0) {
            return;
        }
        let before = std::mem::replace(&mut self.before, limit);
        if !(before > 0.0 && foretold.is_finite() && foretold > 0.0) {
            return;
        }
        self.compared = self.compared.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f32::from(self.compared));
        self.prior += weight * ((limit / foretold as f32).ln().abs() - self.prior);
        self.last += weight * ((limit / before).ln().abs() - self.last);
    }

    /// Whether the prior is worth following: it beat "as the last time" where the limit moves at all.
    pub fn is_proven(self) -> bool {
        self.compared >= COMPARED_MIN && self.last > MOVES && self.prior < BETTER * self.last
    }
}

/// One sample for a model, in eight bytes: what was known, and what was measured ten minutes later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Minute of the week.
    minute: u16,
    /// The limit as known, on the table's scale.
    rate: u16,
    /// Seconds that an answer took, on the same scale.
    response: u16,
    /// The limit as measured then.
    limit: u16,
}

impl Sample {
    /// At `moment` the limit was known as `rate`, and was measured as `limit` afterwards.
    pub fn new(moment: Moment, rate: f64, response: f64, limit: f64) -> Self {
        let minute = (moment.week_hours() * 60.0) as u16;
        Self { minute, rate: slot_of(rate), response: slot_of(response), limit: slot_of(limit) }
    }

    /// As it is kept.
    pub const fn parts(self) -> [u16; 4] {
        [self.minute, self.rate, self.response, self.limit]
    }

    /// The one of these parts.
    pub const fn from_parts([minute, rate, response, limit]: [u16; 4]) -> Self {
        Self { minute, rate, response, limit }
    }

    /// What a model is to learn from.
    pub fn features(self) -> Features {
        let hours = f64::from(self.minute) / 60.0;
        let value = |slot| limit_of(slot).unwrap_or_default();
        let (rate, response) = (value(self.rate), value(self.response));
        Features { hour: hours % 24.0, weekday: (hours / 24.0).floor(), rate, response }
    }

    /// What it is to foretell.
    pub fn limit(self) -> f64 {
        limit_of(self.limit).unwrap_or_default()
    }
}

/// Hours of the week in which one process visited a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Visited([u8; 21]);

impl Visited {
    /// It did in this hour.
    pub fn add(&mut self, hour: HourOfWeek) {
        if let Some(word) = self.0.get_mut(hour.index() / 8) {
            *word |= 1 << (hour.index() % 8);
        }
    }

    /// Whether it did.
    pub fn has(self, hour: HourOfWeek) -> bool {
        self.0.get(hour.index() / 8).is_some_and(|word| word & (1 << (hour.index() % 8)) != 0)
    }
}

impl Experience {
    /// Takes over what another has of the same host: the newer measurement, its hours where it visited them, its
    /// samples where it has more.
    pub fn merge(&mut self, newer: &Self, visited: Visited) {
        if newer.at >= self.at {
            let banned = match (self.measured.banned, newer.measured.banned) {
                (0, banned) | (banned, 0) => banned,
                (one, other) => one.min(other),
            };
            self.measured = Measured { banned, ..newer.measured };
            self.at = newer.at;
            self.skill = newer.skill;
            if !newer.samples.is_empty() {
                self.samples.clone_from(&newer.samples);
            }
        }
        self.table.take(&newer.table, |hour| visited.has(hour));
    }

    /// A sample more; the oldest goes.
    pub fn sample(&mut self, sample: Sample) {
        if self.samples.len() >= SAMPLES_MAX {
            let surplus = self.samples.len() + 1 - SAMPLES_MAX;
            self.samples.drain(..surplus);
        }
        self.samples.push(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_believed_only_where_it_beats_the_last_time() {
        let mut clocked = Skill::default();
        let mut flat = Skill::default();
        let mut random = Skill::default();
        for hour in 0..30_u32 {
            let by_day = if hour % 2 == 0 { 1.0 } else { 3.0 };
            clocked.compare(by_day, by_day * 1.02);
            flat.compare(2.0 + 0.01 * f64::from(hour % 3), 2.0);
            let wild = 1.0 + f64::from((hour * 7919) % 13) / 5.0;
            random.compare(wild, 1.0 + f64::from((hour * 104_729) % 11) / 4.0);
        }
        assert!(clocked.is_proven());
        assert!(!flat.is_proven(), "nothing moves");
        assert!(!random.is_proven(), "{random:?}");
        let mut broken = Skill::default();
        broken.compare(f64::NAN, 1.0);
        broken.compare(1.0, f64::NAN);
        assert!(!broken.is_proven());
    }

    #[test]
    fn samples_are_the_last_thousand() {
        let mut experience = Experience::default();
        for minute in 0..1_200_u64 {
            experience.sample(Sample::new(Moment(minute * 60), 1.0, 0.1, 2.0));
        }
        assert_eq!(experience.samples.len(), SAMPLES_MAX);
        let features = experience.samples[0].features();
        // Minute 200 of a Thursday.
        assert_eq!((features.weekday, (features.hour * 60.0).round()), (3.0, 200.0));
        assert!((features.rate - 1.0).abs() < 1e-3 && (features.response - 0.1).abs() < 1e-4);
        assert!((experience.samples[0].limit() - 2.0).abs() < 1e-3);
        assert_eq!(Sample::from_parts(experience.samples[0].parts()), experience.samples[0]);
    }

    #[test]
    fn a_merge_takes_the_newer_measurement_the_lower_ban_and_only_the_hours_visited() {
        let limit = |limit, banned| Measured { limit, banned, ..Measured::default() };
        let mut file = Experience { measured: limit(2.0, 3), at: Moment(50), ..Experience::default() };
        let (monday, friday) = (HourOfWeek::of(Moment(4 * 86_400)), HourOfWeek::of(Moment(8 * 86_400)));
        file.table.visit(monday, 1.0);
        file.table.visit(friday, 1.0);
        let mut mine = Experience { measured: limit(4.0, 0), at: Moment(60), ..file.clone() };
        mine.table.visit(friday, 9.0);
        mine.table.visit(monday, 9.0);
        let mut visited = Visited::default();
        visited.add(friday);
        file.merge(&mine, visited);
        assert_eq!((file.measured, file.at), (limit(4.0, 3), Moment(60)));
        assert_eq!(file.table.get(friday), mine.table.get(friday));
        assert_ne!(file.table.get(monday), mine.table.get(monday));
        let old = Experience { measured: limit(7.0, 1), at: Moment(10), ..Experience::default() };
        file.merge(&old, Visited::default());
        assert_eq!(file.measured.limit, 4.0);
    }
}
