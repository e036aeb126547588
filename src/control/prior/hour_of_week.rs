//! The hour-of-week table: what a host bore in each hour of the week, in 336 bytes.
//!
//! A slot holds the logarithm of a limit, averaged over visits: each weighs 0.3. An hour in which the host was never
//! asked is taken from the same hour of other days. Hours are UTC.

use serde::{Deserialize, Serialize};

use super::Moment;

/// Hours of a week.
pub const SLOTS: usize = 168;
/// What a visit weighs against those before.
const ALPHA: f64 = 0.3;
/// The limits that a slot can hold, tokens per second.
const LEAST: f64 = 1e-4;
const MOST: f64 = 1e6;
/// Two hours next to each other that differ by more than this factor: the limit jumps between them.
const JUMP: f64 = 2.0;
/// Values of a slot; 0 is "never".
const STEPS: f64 = 65_534.0;

/// An hour of the week, UTC: 0 is Monday 00:00 to 01:00.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HourOfWeek(u8);

impl HourOfWeek {
    /// The one that `moment` is in.
    pub fn of(moment: Moment) -> Self {
        Self((moment.week_hours() as usize % SLOTS) as u8)
    }

    /// Its place in a table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A limit for each hour of the week.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Table([u16; SLOTS]);

impl Default for Table {
    fn default() -> Self {
        Self([0; SLOTS])
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Table({} of {SLOTS} hours)", self.known())
    }
}

impl Table {
    /// The one that these slots make; `None` if they are not as many.
    pub fn from_slots(slots: &[u16]) -> Option<Self> {
        slots.try_into().ok().map(Self)
    }

    /// As it is kept: 0 = never, else a logarithm.
    pub fn slots(&self) -> &[u16; SLOTS] {
        &self.0
    }

    /// How many hours it knows.
    pub fn known(&self) -> usize {
        self.0.iter().filter(|slot| **slot > 0).count()
    }

    /// What was borne in this hour, tokens per second.
    pub fn get(&self, hour: HourOfWeek) -> Option<f64> {
        self.0.get(hour.index()).copied().and_then(limit_of)
    }

    /// A visit in this hour bore so much.
    pub fn visit(&mut self, hour: HourOfWeek, limit: f64) {
        let Some(slot) = self.0.get_mut(hour.index()) else { return };
        if !(limit.is_finite() && limit > 0.0) {
            return;
        }
        let log = match limit_of(*slot) {
            Some(before) => before.ln() + ALPHA * (limit.ln() - before.ln()),
            None => limit.ln(),
        };
        *slot = slot_of(log.exp());
    }

    /// Takes the slots of `other` in the hours that `of` has.
    pub fn take(&mut self, other: &Self, of: impl Fn(HourOfWeek) -> bool) {
        for (index, (mine, others)) in self.0.iter_mut().zip(other.0).enumerate() {
            if others > 0 && of(HourOfWeek(index as u8)) {
                *mine = others;
            }
        }
    }

    /// What this hour bears: as visited, else the mean of the same hour of other days.
    pub fn hour(&self, hour: HourOfWeek) -> Option<f64> {
        self.get(hour).or_else(|| {
            let same =
                (0..7).filter_map(|day| self.0.get((hour.index() + 24 * day) % SLOTS).copied().and_then(limit_of));
            let (count, sum) = same.fold((0_u32, 0.0), |(count, sum), limit| (count + 1, sum + limit.ln()));
            (count > 0).then(|| (sum / f64::from(count)).exp())
        })
    }

    /// The limit at a moment: between the middles of the two hours next to it, where these are alike. Where they are not,
    /// the limit jumps, and limits jump at full hours; it is the hour's own then, and where the other is unknown.
    pub fn at(&self, moment: Moment) -> Option<f64> {
        let middle = moment.week_hours() - 0.5;
        let (before, share) = (middle.floor(), middle - middle.floor());
        let place = |hour: f64| HourOfWeek((hour.rem_euclid(SLOTS as f64) as usize % SLOTS) as u8);
        match (self.hour(place(before)), self.hour(place(before + 1.0))) {
            (Some(one), Some(other)) if (one / other).ln().abs() <= JUMP.ln() => {
                Some((one.ln() * (1.0 - share) + other.ln() * share).exp())
            }
            _ => self.hour(HourOfWeek::of(moment)),
        }
    }
}

pub(super) fn slot_of(limit: f64) -> u16 {
    let share = (limit.clamp(LEAST, MOST) / LEAST).ln() / (MOST / LEAST).ln();
    1 + (share * STEPS).round() as u16
}

pub(super) fn limit_of(slot: u16) -> Option<f64> {
    let step = slot.checked_sub(1)?;
    Some(LEAST * (f64::from(step) / STEPS * (MOST / LEAST).ln()).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hours after Monday, 5 January 1970, 00:00 UTC.
    fn at(hours: f64) -> Moment {
        Moment(4 * 86_400 + (hours * 3_600.0) as u64)
    }

    #[test]
    fn a_week_begins_on_monday_and_repeats() {
        assert_eq!(Moment(0).week_hours(), 72.0, "the epoch was a Thursday");
        assert_eq!(HourOfWeek::of(at(0.0)).index(), 0);
        assert_eq!(HourOfWeek::of(at(167.99)).index(), 167);
        assert_eq!(HourOfWeek::of(at(168.0)).index(), 0);
        // 2026-12-01T00:00:00Z, a Tuesday.
        assert_eq!(HourOfWeek::of(Moment(1_796_083_200)).index(), 24);
    }

    #[test]
    fn a_slot_keeps_a_limit_within_a_thousandth_and_averages_visits() {
        let mut table = Table::default();
        for limit in [0.0034, 0.1, 1.0, 7.3, 250.0] {
            let mut table = Table::default();
            table.visit(HourOfWeek(5), limit);
            let kept = table.get(HourOfWeek(5)).expect("visited");
            assert!((kept / limit - 1.0).abs() < 1e-3, "{limit}: {kept}");
        }
        table.visit(HourOfWeek(5), 1.0);
        table.visit(HourOfWeek(5), 2.0);
        let kept = table.get(HourOfWeek(5)).expect("visited");
        assert!((kept - 2.0_f64.powf(0.3)).abs() < 1e-3, "{kept}");
        table.visit(HourOfWeek(5), f64::NAN);
        table.visit(HourOfWeek(5), 0.0);
        assert_eq!(table.get(HourOfWeek(5)), Some(kept));
        assert_eq!(table.known(), 1);
    }

    #[test]
    fn an_hour_never_visited_is_taken_from_other_days_and_moments_lie_between_hours() {
        let mut table = Table::default();
        assert_eq!(table.at(at(3.5)), None);
        table.visit(HourOfWeek(3), 2.0);
        assert_eq!(table.hour(HourOfWeek(3)), table.hour(HourOfWeek(3 + 48)));
        assert_eq!(table.hour(HourOfWeek(4)), None);
        table.visit(HourOfWeek(4), 3.0);
        let between = table.at(at(4.0)).expect("both known");
        assert!((between - 6.0_f64.sqrt()).abs() < 0.01, "{between}");
        // A jump is at the full hour.
        table.visit(HourOfWeek(5), 8.0);
        let before = table.at(at(4.9)).expect("known");
        assert!((before - 3.0).abs() < 0.01, "{before}");
        let middle = table.at(at(27.5)).expect("yesterday's");
        assert!((middle - 2.0).abs() < 0.01, "{middle}");
    }
}
