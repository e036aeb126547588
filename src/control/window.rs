//! What a host answered: counts by code, in total and over the last 5 minutes, and a small ring of minutes.
//!
//! Memory per host is bounded: 16 codes (the last of them [`Code::Other`] once there are more), a row of 40
//! bytes each, allocated when a code first occurs. Recent counts stand in 10 slots of 30 s, so "the last 5
//! minutes" is between 4:30 and 5:00 long.

use serde::{Deserialize, Serialize};

use super::{Class, Code, CodeCount, Mono};

/// Distinct codes kept per host, [`Code::Other`] included.
pub const MAX_CODES: usize = 16;

/// Slots of the recent counts.
const SLOTS: usize = 10;

/// Length of a slot in seconds.
const SLOT_SECS: u64 = 30;

/// Counts by code of one host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Histogram {
    rows: Vec<Row>,
    /// The slot of the latest record, counted from the clock's origin.
    slot: u64,
}

/// One code: 40 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    total: u64,
    code: Code,
    /// Recent counts by slot number modulo [`SLOTS`]; they saturate.
    recent: [u16; SLOTS],
}

impl Histogram {
    /// Counts one answer.
    pub fn record(&mut self, now: Mono, code: Code) {
        self.move_on(now);
        let position = self.row_of(code);
        let place = place(self.slot);
        if let Some(row) = self.rows.get_mut(position) {
            row.total = row.total.saturating_add(1);
            row.recent[place] = row.recent[place].saturating_add(1);
        }
    }

    /// Answers of the last 5 minutes by class.
    pub fn recent(&self, now: Mono) -> [u32; 5] {
        self.by_class(|row| self.recent_of(row, now))
    }

    /// Answers since the start by class.
    pub fn total(&self) -> [u64; 5] {
        self.by_class(|row| row.total)
    }

    /// Counts by code, most frequent in total first; at most [`MAX_CODES`].
    pub fn codes(&self, now: Mono) -> Vec<CodeCount> {
        let count = |row: &Row| CodeCount { code: row.code, recent: self.recent_of(row, now), total: row.total };
        let mut codes: Vec<CodeCount> = self.rows.iter().map(count).collect();
        codes.sort_by_key(|count| (std::cmp::Reverse(count.total), count.code));
        codes
    }

    /// The most frequent status of the last 5 minutes among those that `wanted` accepts.
    pub fn commonest(&self, now: Mono, wanted: impl Fn(u16) -> bool) -> Option<u16> {
        let statuses = self.rows.iter().filter_map(|row| match row.code {
            Code::Status(status) if wanted(status) => Some((self.recent_of(row, now), status)),
            Code::Status(_) | Code::Failure(_) | Code::Other => None,
        });
        statuses.filter(|(count, _)| *count > 0).max().map(|(_, status)| status)
    }

    /// Answers of the last 5 minutes with a status that `wanted` accepts.
    pub fn recent_where(&self, now: Mono, wanted: impl Fn(u16) -> bool) -> u32 {
        let counts = |row: &&Row| matches!(row.code, Code::Status(status) if wanted(status));
        self.rows.iter().filter(counts).map(|row| self.recent_of(row, now)).sum()
    }

    /// All records since the start: the sum over all codes.
    pub fn records(&self) -> u64 {
        self.rows.iter().map(|row| row.total).sum()
    }

    /// The row of `code`, made if there is room, else that of all others.
    fn row_of(&mut self, code: Code) -> usize {
        let code = if self.rows.iter().any(|row| row.code == code) || self.rows.len() < MAX_CODES - 1 {
            code
        } else {
            Code::Other
        };
        self.rows.iter().position(|row| row.code == code).unwrap_or_else(|| {
            // Growth by one: most hosts see two or three codes, and there may be a million hosts.
            self.rows.reserve_exact(1);
            self.rows.push(Row { total: 0, code, recent: [0; SLOTS] });
            self.rows.len() - 1
        })
    }

    /// Clears the slots that time has passed over. A clock that goes back changes nothing.
    fn move_on(&mut self, now: Mono) {
        let slot = slot_of(now).max(self.slot);
        let passed = (slot - self.slot).min(SLOTS as u64);
        for step in 0..passed {
            let place = place(slot - step);
            self.rows.iter_mut().for_each(|row| row.recent[place] = 0);
        }
        self.slot = slot;
    }

    /// The recent count of `row` at `now`, without changing anything.
    fn recent_of(&self, row: &Row, now: Mono) -> u32 {
        let passed = slot_of(now).saturating_sub(self.slot).min(SLOTS as u64);
        let kept = SLOTS as u64 - passed;
        (0..kept).map(|back| u32::from(row.recent[place(self.slot.wrapping_sub(back))])).sum()
    }

    fn by_class<N: std::ops::AddAssign + Default + Copy>(&self, count: impl Fn(&Row) -> N) -> [N; 5] {
        let mut classes = [N::default(); 5];
        for row in &self.rows {
            classes[class_of(row.code) as usize] += count(row);
        }
        classes
    }
}

/// The class of a code. Failures and the overflow row count as errors.
fn class_of(code: Code) -> Class {
    match code {
        Code::Status(status) => Class::of_status(status),
        Code::Failure(_) | Code::Other => Class::Error,
    }
}

fn slot_of(now: Mono) -> u64 {
    // Some slots after the origin, so that looking back from the first one does not wrap.
    now.as_nanos() / (SLOT_SECS * 1_000_000_000) + SLOTS as u64
}

fn place(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}

/// How often something happened in the last 10 minutes: 10 slots of a minute, each saturating at 65,535.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RecentCount {
    minutes: [u16; SLOTS],
    /// The minute of the latest record.
    latest: u32,
}

impl RecentCount {
    /// Counts one.
    pub fn record(&mut self, now: Mono) {
        let minute = minute_of(now).max(self.latest);
        for step in 0..(minute - self.latest).min(SLOTS as u32) {
            self.minutes[place(u64::from(minute - step))] = 0;
        }
        self.latest = minute;
        let count = &mut self.minutes[place(u64::from(minute))];
        *count = count.saturating_add(1);
    }

    /// How often in the last 10 minutes (the running minute and the nine before it).
    pub fn within(&self, now: Mono) -> u32 {
        let passed = minute_of(now).saturating_sub(self.latest).min(SLOTS as u32);
        (0..SLOTS as u32 - passed)
            .map(|back| u32::from(self.minutes[place(u64::from(self.latest.wrapping_sub(back)))]))
            .sum()
    }
}

fn minute_of(now: Mono) -> u32 {
    u32::try_from(now.as_nanos() / 60_000_000_000).unwrap_or(u32::MAX).saturating_add(SLOTS as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::{FailureCode, Outcome};

    fn at(secs: u64) -> Mono {
        Mono::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn a_code_costs_forty_bytes_and_an_untouched_host_none() {
        assert!(size_of::<Row>() <= 40, "{} bytes", size_of::<Row>());
        assert!(size_of::<RecentCount>() <= 24);
        assert_eq!(Histogram::default().rows.capacity(), 0);
    }

    #[test]
    fn answers_leave_the_recent_counts_after_five_minutes_and_stay_in_the_totals() {
        let mut histogram = Histogram::default();
        histogram.record(at(10), Code::Status(200));
        histogram.record(at(10), Code::Status(429));
        histogram.record(at(200), Code::Failure(FailureCode::of(Outcome::Timeout)));
        assert_eq!(histogram.recent(at(200)), [1, 0, 1, 0, 1]);
        assert_eq!(histogram.recent(at(280)), [1, 0, 1, 0, 1]);
        assert_eq!(histogram.recent(at(311)), [0, 0, 0, 0, 1]);
        assert_eq!(histogram.recent(at(5000)), [0; 5]);
        histogram.record(at(5000), Code::Status(503));
        assert_eq!(histogram.recent(at(5000)), [0, 0, 0, 1, 0]);
        assert_eq!(histogram.total(), [1, 0, 1, 1, 1]);
    }

    #[test]
    fn codes_beyond_the_bound_are_counted_together() {
        let mut histogram = Histogram::default();
        for status in 400..440 {
            histogram.record(at(1), Code::Status(status));
        }
        let codes = histogram.codes(at(1));
        assert_eq!(codes.len(), MAX_CODES);
        assert_eq!((codes[0].code, codes[0].total, codes[0].recent), (Code::Other, 25, 25));
        assert_eq!(histogram.records(), 40);
    }

    #[test]
    fn the_commonest_refusal_is_one_of_the_last_five_minutes() {
        let mut histogram = Histogram::default();
        let angry = |status| matches!(status, 401 | 403 | 429 | 503);
        assert_eq!(histogram.commonest(at(0), angry), None);
        (0..9).for_each(|_| histogram.record(at(1), Code::Status(429)));
        (0..3).for_each(|_| histogram.record(at(400), Code::Status(403)));
        (0..5).for_each(|_| histogram.record(at(400), Code::Status(200)));
        assert_eq!(histogram.commonest(at(401), angry), Some(403));
        assert_eq!(histogram.commonest(at(9000), angry), None);
    }

    #[test]
    fn a_recent_count_forgets_after_ten_minutes_and_saturates() {
        let mut count = RecentCount::default();
        count.record(at(0));
        count.record(at(300));
        count.record(at(200)); // The clock went back: counted now.
        assert_eq!(count.within(at(599)), 3);
        assert_eq!(count.within(at(600)), 2);
        assert_eq!(count.within(at(899)), 2);
        assert_eq!(count.within(at(900)), 0);
        (0..70_000).for_each(|_| count.record(at(1000)));
        assert_eq!(count.within(at(1000)), u32::from(u16::MAX));
        count.record(Mono::NEVER);
        assert_eq!(count.within(Mono::NEVER), 1);
    }

    proptest! {
        #[test]
        fn wanted_16_sums_of_codes_are_the_number_of_records(
            records in prop::collection::vec((0..400_u64, any::<bool>(), 0..30_u16), 0..200)
        ) {
            let mut histogram = Histogram::default();
            let (mut now, mut all) = (0, Vec::new());
            for (step, back, status) in records {
                now = if back { now - now.min(step) } else { now + step };
                histogram.record(at(now), Code::Status(200 + 13 * status));
                all.push(now.max(all.last().copied().unwrap_or(0)));
                let codes = histogram.codes(at(now));
                prop_assert_eq!(codes.iter().map(|code| code.total).sum::<u64>(), all.len() as u64);
                prop_assert_eq!(histogram.total().iter().sum::<u64>(), all.len() as u64);
                let recent = histogram.recent(at(now)).iter().sum::<u32>() as usize;
                prop_assert_eq!(codes.iter().map(|code| code.recent).sum::<u32>() as usize, recent);
                // A model of the slots: all that fell into the last ten of them.
                let latest = all.last().copied().unwrap_or(0) / SLOT_SECS;
                prop_assert_eq!(recent, all.iter().filter(|past| **past / SLOT_SECS + 10 > latest).count());
            }
        }
    }
}
