//! Counts over time in a fixed number of bins that double their width when the run outgrows them.
//!
//! What is counted is a [`Key`]: a status code or an outcome, a mark on the axis, a step of latency. Bins
//! are aligned to whole multiples of their width, so that doubling merges two of them exactly: nothing is
//! estimated but the worst hosts of a bin, of which [`WORST_KEPT`] are kept, and how many different hosts there
//! were, beyond the number up to which they are told apart.
//!
//! Bound: [`BINS_MAX`] bins × ([`CODES_MAX`] + marks + latency steps) rows × 4 bytes, about 1.2 MB at most, and
//! the bits of [`super::crowd`].

use super::crowd::{Crowd, Different};
use crate::clock::Wall;
use crate::control::{Outcome, What, Who};

/// Bins at most; then their width doubles.
pub const BINS_MAX: usize = 4_096;
/// Width of a bin at first, microseconds.
pub const WIDTH_FIRST: i64 = 100_000;
/// Different codes that have a row of their own; others are counted together.
pub const CODES_MAX: usize = 40;
/// Hosts with the most refusals and errors that are kept a bin.
pub const WORST_KEPT: usize = 4;
/// Steps of latency: each is √2 of the one before, the first ends at 1 ms.
pub const LATENCY_STEPS: usize = 36;
/// No bin of a 64-bit time is wider.
const WIDTH_LAST: i64 = 1 << 52;

/// What a request ended in, as the timeline has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Code {
    /// A whole answer with this status.
    Status(u16),
    /// No whole answer, and why.
    Failed(Outcome),
    /// Words of other versions, and codes beyond [`CODES_MAX`].
    Other,
}

impl Code {
    /// The code of a request.
    pub fn of(status: Option<u16>, outcome: Option<Outcome>) -> Self {
        match (status, outcome) {
            (_, Some(outcome)) if outcome.is_network() => Self::Failed(outcome),
            (Some(status @ 0..1_000), _) => Self::Status(status),
            (None, Some(outcome)) => Self::Failed(outcome),
            _ => Self::Other,
        }
    }

    /// Whether the server turned us away, or there was no answer to use.
    pub fn is_bad(self) -> bool {
        match self {
            Self::Status(status) => matches!(status, 401 | 403 | 429 | 500..),
            Self::Failed(outcome) => outcome.is_network(),
            Self::Other => false,
        }
    }

    /// At most eight characters.
    pub fn word(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Failed(outcome) => String::from(match outcome {
                Outcome::ConnectionReset => "reset",
                Outcome::Incomplete => "cut off",
                Outcome::TooLarge => "too big",
                Outcome::LimitExceeded => "headers",
                Outcome::RedirectNotFollowed => "redirect",
                Outcome::AddressRefused => "address",
                Outcome::RobotsDenied => "robots",
                other => {
                    let word = other.as_str();
                    word.get(..8).unwrap_or(word)
                }
            }),
            Self::Other => String::from("other"),
        }
    }
}

/// What stands on the axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mark {
    /// The operator halted everything, or let it go on.
    Halt,
    /// The operator paused or resumed.
    Pause,
    /// The operator set a rate.
    Override,
    /// The operator took something back, or did it again.
    Undo,
    /// Another act of the operator.
    Act,
    /// A check called for a human.
    Concern,
    /// The rate was changed by the controller, or a hold began.
    Decision,
}

impl Mark {
    /// Every mark; where several fall together the first is shown.
    pub const ALL: [Self; 7] =
        [Self::Halt, Self::Pause, Self::Override, Self::Undo, Self::Act, Self::Concern, Self::Decision];

    /// The mark of a decision.
    pub fn of(who: Option<Who>, what: What) -> Option<Self> {
        match (who, what) {
            (Some(Who::Operator), What::Halt | What::GoOn) => Some(Self::Halt),
            (Some(Who::Operator), What::Pause | What::Resume) => Some(Self::Pause),
            (Some(Who::Operator), What::Override) => Some(Self::Override),
            (Some(Who::Operator), What::Undo | What::Redo) => Some(Self::Undo),
            (Some(Who::Operator), _) => Some(Self::Act),
            (_, What::Concern) => Some(Self::Concern),
            (Some(Who::Controller | Who::Server | Who::Site), what) if is_rate_decision(what) => Some(Self::Decision),
            _ => None,
        }
    }

    /// The letter on the axis; decisions are too many to have one.
    pub const fn letter(self) -> Option<char> {
        match self {
            Self::Halt => Some('H'),
            Self::Pause => Some('p'),
            Self::Override => Some('o'),
            Self::Undo => Some('u'),
            Self::Act => Some('a'),
            Self::Concern => Some('!'),
            Self::Decision => None,
        }
    }
}

/// Whether `what` changes how fast a host is asked.
pub fn is_rate_decision(what: What) -> bool {
    matches!(
        what,
        What::Rate
            | What::EndpointRate
            | What::GroupRate
            | What::Hold
            | What::GroupHold
            | What::Open
            | What::CrawlDelay
            | What::Pace
            | What::GiveUp
    )
}

/// The step of a latency in milliseconds.
pub fn latency_step(millis: f64) -> Option<u8> {
    if !millis.is_finite() || millis < 0.0 {
        return None;
    }
    let step = if millis <= 1.0 { 0.0 } else { (millis.log2() * 2.0).ceil() };
    Some(step.min((LATENCY_STEPS - 1) as f64) as u8)
}

/// The highest latency of a step, milliseconds.
pub fn latency_of(step: u8) -> f64 {
    (f64::from(step) / 2.0).exp2()
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// Requests that ended in this.
    Code(Code),
    /// Decisions.
    Mark(Mark),
    /// Whole answers that took so long; see [`latency_step`].
    Latency(u8),
}

const STATUSES: usize = 1_000;
const KEYS: usize = STATUSES + Outcome::ALL.len() + 1 + Mark::ALL.len() + LATENCY_STEPS;

impl Key {
    /// A number of its own.
    fn number(self) -> usize {
        let outcomes = STATUSES + Outcome::ALL.len();
        let number = match self {
            Self::Code(Code::Status(status)) if usize::from(status) < STATUSES => usize::from(status),
            Self::Code(Code::Failed(outcome)) => STATUSES + outcome as usize,
            Self::Code(_) => outcomes,
            Self::Mark(mark) => outcomes + 1 + mark as usize,
            Self::Latency(step) => outcomes + 1 + Mark::ALL.len() + usize::from(step),
        };
        number.min(KEYS - 1)
    }
}

/// The counts of one key.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is counted.
    pub key: Key,
    /// All of them.
    pub total: u64,
    /// Bin by bin; a bin holds at most 2³² − 1.
    counts: Vec<u32>,
}

/// Hosts with the most bad answers in a bin. With more hosts than places the counts are upper bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    hosts: [(u32, u32); WORST_KEPT],
    estimated: bool,
}

impl Worst {
    fn add(&mut self, host: u32, n: u32) {
        if let Some(place) = self.hosts.iter_mut().find(|(known, count)| *known == host && *count > 0) {
            place.1 = place.1.saturating_add(n);
        } else if let Some(least) = self.hosts.iter_mut().min_by_key(|(_, count)| *count) {
            // The newcomer inherits the count of whom it displaces: no frequent host is ever lost.
            self.estimated |= least.1 > 0;
            *least = (host, least.1.saturating_add(n));
        }
    }

    fn merge(&mut self, other: Self) {
        self.estimated |= other.estimated;
        other.hosts.iter().filter(|(_, count)| *count > 0).for_each(|(host, count)| self.add(*host, *count));
    }
}

/// The host with the most bad answers over a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Angriest {
    /// Its number.
    pub host: u32,
    /// How many bad answers; an upper bound if `estimated`.
    pub count: u32,
    /// There were more hosts than could be kept.
    pub estimated: bool,
}

/// The bins. See the module's text.
#[derive(Clone, Debug)]
pub struct Bins {
    width: i64,
    /// The number of the first bin: its start divided by the width.
    first: i64,
    len: usize,
    rows: Vec<Row>,
    /// Where a key's row is; 255 = nowhere.
    places: Vec<u8>,
    codes: usize,
    worst: Vec<Worst>,
    crowd: Crowd,
    /// When the bin last counted into begins, and which it is: neighbours fall into it, too.
    near: Option<(i64, usize)>,
}

impl Default for Bins {
    fn default() -> Self {
        Self {
            width: WIDTH_FIRST,
            first: 0,
            len: 0,
            rows: Vec::new(),
            places: vec![u8::MAX; KEYS],
            codes: 0,
            worst: Vec::new(),
            crowd: Crowd::default(),
            near: None,
        }
    }
}

impl Bins {
    /// Counts one.
    pub fn add(&mut self, at: Wall, key: Key) {
        let bin = self.bin_for(at);
        self.add_to(bin, key);
    }

    /// Counts one in a bin.
    fn add_to(&mut self, bin: usize, key: Key) {
        let row = self.row_for(key);
        if let Some(row) = self.rows.get_mut(row) {
            row.total += 1;
            if let Some(count) = row.counts.get_mut(bin) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// A request of `host` that ended in `code`: counts it, its latency (milliseconds) if there was a whole
    /// answer, and against the host if it is bad.
    pub fn request(&mut self, at: Wall, code: Code, host: u32, latency_ms: f64) {
        let bin = self.bin_for(at);
        self.add_to(bin, Key::Code(code));
        self.crowd.add(bin, host);
        if let (Code::Status(_), Some(step)) = (code, latency_step(latency_ms)) {
            self.add_to(bin, Key::Latency(step));
        }
        if code.is_bad()
            && let Some(worst) = self.worst.get_mut(bin)
        {
            worst.add(host, 1);
        }
    }

    /// Width of a bin, microseconds.
    pub fn width(&self) -> i64 {
        self.width
    }

    /// How many bins there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing was counted yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When a bin begins; also for one before the first or after the last.
    pub fn start(&self, bin: i64) -> Wall {
        Wall(self.first.saturating_add(bin).saturating_mul(self.width))
    }

    /// The bin of a moment, counted from the first; may lie outside.
    pub fn bin_of(&self, at: Wall) -> i64 {
        at.0.div_euclid(self.width).saturating_sub(self.first)
    }

    /// The rows in no order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows of codes: statuses, then failures, then others.
    pub fn codes(&self) -> Vec<(Code, &Row)> {
        let code = |row: &Row| if let Key::Code(code) = row.key { Some(code) } else { None };
        let mut codes: Vec<_> = self.rows.iter().filter_map(|row| Some((code(row)?, row))).collect();
        codes.sort_by_key(|(code, _)| *code);
        codes
    }

    /// The row of a key, if anything was counted.
    pub fn row(&self, key: Key) -> Option<&Row> {
        self.rows.get(usize::from(*self.places.get(key.number())?))
    }

    /// The count of a key in the bins `from..to`.
    pub fn count(&self, key: Key, from: i64, to: i64) -> u64 {
        self.row(key).map_or(0, |row| row.sum(from, to))
    }

    /// Requests in the bins `from..to`.
    pub fn requests(&self, from: i64, to: i64) -> u64 {
        self.rows.iter().filter(|row| matches!(row.key, Key::Code(_))).map(|row| row.sum(from, to)).sum()
    }

    /// How many different hosts had requests in the bins `from..to`.
    pub fn different_hosts(&self, from: i64, to: i64) -> Different {
        self.crowd.count(clip(from, to, self.len))
    }

    /// The host with the most bad answers in the bins `from..to`.
    pub fn angriest(&self, from: i64, to: i64) -> Option<Angriest> {
        let mut all: Vec<(u32, u32)> = Vec::new();
        let mut estimated = false;
        for worst in self.worst.get(clip(from, to, self.len)).unwrap_or_default() {
            estimated |= worst.estimated;
            for (host, count) in worst.hosts.iter().filter(|(_, count)| *count > 0) {
                let known = all.iter().position(|(known, _)| known == host);
                if let Some(place) = known.and_then(|known| all.get_mut(known)) {
                    place.1 = place.1.saturating_add(*count);
                } else if all.len() < 1_024 {
                    all.push((*host, *count));
                } else {
                    // Hosts beyond this many in one span are not looked at.
                    estimated = true;
                }
            }
        }
        let (host, count) = all.into_iter().max_by_key(|(host, count)| (*count, std::cmp::Reverse(*host)))?;
        Some(Angriest { host, count, estimated })
    }

    /// The place of a key's row, made if need be.
    fn row_for(&mut self, key: Key) -> usize {
        let number = key.number();
        let place = self.places.get(number).copied().unwrap_or(u8::MAX);
        if place != u8::MAX {
            return usize::from(place);
        }
        if let Key::Code(code) = key {
            if code != Code::Other && self.codes >= CODES_MAX {
                return self.row_for(Key::Code(Code::Other));
            }
            self.codes += 1;
        }
        self.rows.push(Row { key, total: 0, counts: vec![0; self.len] });
        let place = self.rows.len() - 1;
        if let Some(slot) = self.places.get_mut(number) {
            *slot = u8::try_from(place).unwrap_or(u8::MAX);
        }
        place
    }

    /// The bin of a moment, made if need be.
    fn bin_for(&mut self, at: Wall) -> usize {
        if let Some((start, bin)) = self.near
            && at.0.checked_sub(start).is_some_and(|into| (0..self.width).contains(&into))
        {
            return bin;
        }
        let mut number = at.0.div_euclid(self.width);
        if self.len == 0 {
            self.first = number;
        }
        loop {
            let low = self.first.min(number);
            let high = (self.first + self.len as i64 - 1).max(number);
            if high.saturating_sub(low) < BINS_MAX as i64 || self.width >= WIDTH_LAST {
                break;
            }
            self.double();
            number = at.0.div_euclid(self.width);
        }
        if number < self.first {
            let before = usize::try_from(self.first - number).unwrap_or(0).min(BINS_MAX);
            self.first = number;
            self.len += before;
            for row in &mut self.rows {
                row.counts.splice(0..0, std::iter::repeat_n(0, before));
            }
            self.worst.splice(0..0, std::iter::repeat_n(Worst::default(), before));
            self.crowd.put_before(before);
        }
        let bin = usize::try_from(number - self.first).unwrap_or(0).min(BINS_MAX - 1);
        if bin >= self.len {
            self.len = bin + 1;
            self.rows.iter_mut().for_each(|row| row.counts.resize(bin + 1, 0));
            self.worst.resize(bin + 1, Worst::default());
            self.crowd.resize(bin + 1);
        }
        self.near = number.checked_mul(self.width).map(|start| (start, bin));
        bin
    }

    /// Makes one bin of two.
    fn double(&mut self) {
        let first = self.first.div_euclid(2);
        let place = |bin: usize| usize::try_from((self.first + bin as i64).div_euclid(2) - first).unwrap_or(0);
        let len = if self.len == 0 { 0 } else { place(self.len - 1) + 1 };
        for row in &mut self.rows {
            let mut counts = vec![0_u32; len];
            for (bin, count) in row.counts.iter().enumerate() {
                if let Some(sum) = counts.get_mut(place(bin)) {
                    *sum = sum.saturating_add(*count);
                }
            }
            row.counts = counts;
        }
        let mut worst = vec![Worst::default(); len];
        for (bin, one) in self.worst.iter().enumerate() {
            if let Some(merged) = worst.get_mut(place(bin)) {
                merged.merge(*one);
            }
        }
        self.worst = worst;
        self.crowd.merge(len, place);
        (self.first, self.len, self.width) = (first, len, self.width * 2);
    }
}

impl Row {
    /// The sum over the bins `from..to`.
    pub fn sum(&self, from: i64, to: i64) -> u64 {
        let counts = self.counts.get(clip(from, to, self.counts.len())).unwrap_or_default();
        counts.iter().map(|count| u64::from(*count)).sum()
    }
}

/// The part of `from..to` that lies within `0..len`.
fn clip(from: i64, to: i64, len: usize) -> std::ops::Range<usize> {
    let within = |bin: i64| usize::try_from(bin.max(0)).unwrap_or(usize::MAX).min(len);
    within(from)..within(to).max(within(from))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn ok() -> Key {
        Key::Code(Code::Status(200))
    }

    #[test]
    fn bins_double_when_the_run_outgrows_them() {
        let mut bins = Bins::default();
        for bin in 0..BINS_MAX as i64 {
            bins.add(Wall(bin * WIDTH_FIRST), ok());
        }
        assert_eq!((bins.len(), bins.width()), (BINS_MAX, WIDTH_FIRST));
        bins.add(Wall(BINS_MAX as i64 * WIDTH_FIRST), ok());
        assert_eq!((bins.len(), bins.width()), (BINS_MAX / 2 + 1, WIDTH_FIRST * 2));
        assert_eq!(bins.count(ok(), 0, 1), 2, "two became one");
        assert_eq!(bins.count(ok(), 0, i64::MAX), BINS_MAX as u64 + 1, "nothing is lost");
    }

    #[test]
    fn a_moment_before_the_first_finds_its_bin() {
        let mut bins = Bins::default();
        bins.add(Wall(5 * WIDTH_FIRST), ok());
        bins.add(Wall(2 * WIDTH_FIRST), ok());
        assert_eq!((bins.len(), bins.start(0)), (4, Wall(2 * WIDTH_FIRST)));
        assert_eq!([0, 1, 2, 3].map(|bin| bins.count(ok(), bin, bin + 1)), [1, 0, 0, 1]);
    }

    #[test]
    fn any_time_is_taken() {
        let mut bins = Bins::default();
        for at in [0, i64::MAX, i64::MIN, 7] {
            bins.add(Wall(at), ok());
        }
        assert_eq!(bins.count(ok(), i64::MIN, i64::MAX), 4);
        assert!(bins.len() <= BINS_MAX);
    }

    #[test]
    fn codes_beyond_the_bound_are_counted_together() {
        let mut bins = Bins::default();
        for status in 200..300 {
            bins.add(Wall(0), Key::Code(Code::Status(status)));
        }
        assert_eq!(bins.codes().len(), CODES_MAX + 1);
        assert_eq!(bins.count(Key::Code(Code::Other), 0, 1), 60);
    }

    #[test]
    fn the_angriest_host_is_found() {
        let mut bins = Bins::default();
        for number in 0..100_u32 {
            let code = if number % 2 == 0 { Code::Status(429) } else { Code::Status(200) };
            bins.request(Wall(i64::from(number)), code, if number < 60 { 7 } else { number }, 1.0);
        }
        let angriest = bins.angriest(0, 1).expect("there is one");
        assert_eq!((angriest.host, angriest.estimated), (7, true));
        assert!(angriest.count >= 30);
        assert_eq!(bins.angriest(1, 9), None);
    }

    #[test]
    fn latency_steps_hold_what_they_say() {
        for millis in [0.0, 0.5, 1.0, 1.1, 30.0, 1_000.0, 60_000.0] {
            let step = latency_step(millis).expect("a latency");
            assert!(millis <= latency_of(step) && (step == 0 || millis > latency_of(step - 1)), "{millis}");
        }
        assert_eq!(latency_step(f64::NAN), None);
        assert_eq!(latency_step(1e300), Some(LATENCY_STEPS as u8 - 1));
    }

    proptest! {
        #[test]
        fn bins_equal_a_naive_count(
            rows in proptest::collection::vec((0_i64..4_000_000_000, 0_usize..6), 1..300),
            cut in 0_i64..4_000_000_000,
        ) {
            let codes = [
                Code::Status(200), Code::Status(404), Code::Status(429), Code::Failed(Outcome::Timeout),
                Code::Failed(Outcome::Dns), Code::Other,
            ];
            let mut bins = Bins::default();
            for (at, code) in &rows {
                bins.request(Wall(*at), codes[*code], 0, f64::NAN);
            }
            prop_assert!(bins.len() <= BINS_MAX);
            // Any border between bins cuts both counts alike.
            let border = bins.bin_of(Wall(cut));
            let edge = bins.start(border);
            let mut naive: HashMap<Code, (u64, u64)> = HashMap::new();
            for (at, code) in &rows {
                let sums = naive.entry(codes[*code]).or_default();
                if *at < edge.0 { sums.0 += 1 } else { sums.1 += 1 }
            }
            for code in codes {
                let counted = (bins.count(Key::Code(code), i64::MIN, border), bins.count(Key::Code(code), border, i64::MAX));
                prop_assert_eq!(counted, naive.get(&code).copied().unwrap_or_default());
            }
            let bad = rows.iter().filter(|(_, code)| codes[*code].is_bad()).count();
            let angriest = bins.angriest(i64::MIN, i64::MAX).map_or(0, |one| one.count);
            prop_assert_eq!(angriest as usize, bad);
        }
    }
}
