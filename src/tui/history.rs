//! What a host's rate and answers were over time: for the charts of the detail.
//!
//! Rows tell only how things are, so their past is gathered here as they come. Each host has [`SLOTS`]
//! slots of time, of 5 s at first; when they are used up, pairs are merged and slots last twice as long,
//! until they cover more than two hours; then the oldest goes. Bounds: [`HOSTS_MAX`] hosts of 1 KiB and
//! 240 bytes a code (at most 16 of them) each; a host beyond that has no past until it is looked at, when the longest unchanged one gives way.

use std::collections::HashMap;
use std::time::Duration;

use crate::control::{Code, CodeCount, HostId, HostView, Mono};

/// Slots of time a host has.
pub const SLOTS: usize = 120;
/// Hosts with a past.
pub const HOSTS_MAX: usize = 5_000;
/// How long a slot lasts at first, and at most: 120 of those are 2 h 40 m.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(80);

/// The counts of one code, slot by slot.
#[derive(Clone, Debug)]
struct Row {
    code: Code,
    /// How many there were in total when it was heard last.
    seen: u64,
    counts: Box<[u16; SLOTS]>,
}

/// One host's past.
#[derive(Clone, Debug)]
struct Past {
    begin: Mono,
    last: Mono,
    slot: Duration,
    /// Effective rate at the end of each slot; NaN = nothing was heard in it.
    rates: [f32; SLOTS],
    /// A row for each code that occurred: the core tells at most 16 apart.
    rows: Vec<Row>,
}

impl Past {
    fn new(view: &HostView) -> Self {
        let begin = view.as_of;
        // What there was before is not counted, as it is not known when it was.
        let row = |one: &CodeCount| Row { code: one.code, seen: one.total, counts: Box::new([0; SLOTS]) };
        let rows = view.codes.iter().map(row).collect();
        Self { begin, last: begin, slot: SHORTEST, rates: [f32::NAN; SLOTS], rows }
    }

    /// The slot of a moment, which may be beyond the last.
    fn place(&self, at: Mono) -> usize {
        usize::try_from(at.since(self.begin).as_nanos() / self.slot.as_nanos().max(1)).unwrap_or(usize::MAX)
    }

    /// Makes room for a moment.
    fn reach(&mut self, at: Mono) {
        while self.place(at) >= SLOTS && self.slot < LONGEST {
            for place in 0..SLOTS {
                let (a, b) = (2 * place, 2 * place + 1);
                let rate = |at: usize| self.rates.get(at).copied().unwrap_or(f32::NAN);
                let rate = if rate(b).is_nan() { rate(a) } else { rate(b) };
                self.rates[place] = rate;
                for row in &mut self.rows {
                    let count = |at: usize| row.counts.get(at).copied().unwrap_or_default();
                    row.counts[place] = count(a).saturating_add(count(b));
                }
            }
            self.slot *= 2;
        }
        let beyond = self.place(at).saturating_sub(SLOTS - 1);
        if beyond > 0 {
            let gone = beyond.min(SLOTS);
            // The rate that held before what is forgotten still holds after it.
            let kept = self.rates.get(..gone).unwrap_or_default().iter().rev().copied().find(|rate| !rate.is_nan());
            self.rates.rotate_left(gone);
            self.rates[SLOTS - gone..].fill(f32::NAN);
            for row in &mut self.rows {
                row.counts.rotate_left(gone);
                row.counts[SLOTS - gone..].fill(0);
            }
            if let (Some(kept), true) = (kept, self.rates[0].is_nan()) {
                self.rates[0] = kept;
            }
            let steps = u32::try_from(beyond).unwrap_or(u32::MAX);
            self.begin = self.begin.after(self.slot.saturating_mul(steps));
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a chart needs no more digits")]
    fn note(&mut self, view: &HostView) {
        self.reach(view.as_of);
        self.last = view.as_of;
        let place = self.place(view.as_of).min(SLOTS - 1);
        self.rates[place] = view.effective.rate as f32;
        for one in &view.codes {
            let row = match self.rows.iter().position(|row| row.code == one.code) {
                Some(known) => known,
                None => {
                    self.rows.push(Row { code: one.code, seen: 0, counts: Box::new([0; SLOTS]) });
                    self.rows.len() - 1
                }
            };
            let Some(row) = self.rows.get_mut(row) else { continue };
            let new = u16::try_from(one.total.saturating_sub(row.seen)).unwrap_or(u16::MAX);
            row.counts[place] = row.counts[place].saturating_add(new);
            row.seen = one.total;
        }
    }
}

/// The past of one host in columns, oldest first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Columns {
    /// How long the columns are together.
    pub span: Duration,
    /// Effective rate, tokens per second.
    pub rates: Vec<f32>,
    /// Answers by code, of those that occurred in this time; by code.
    pub counts: Vec<(Code, Vec<u32>)>,
}

/// The past of all hosts that have one.
#[derive(Clone, Debug, Default)]
pub struct History {
    hosts: HashMap<HostId, Box<Past>>,
}

impl History {
    /// A row came.
    pub fn note(&mut self, view: &HostView) {
        if let Some(past) = self.hosts.get_mut(&view.id) {
            past.note(view);
        } else if self.hosts.len() < HOSTS_MAX {
            self.begin(view);
        }
    }

    /// A host is looked at: it has a past from now on, if it had none.
    pub fn look_at(&mut self, view: &HostView) {
        if self.hosts.contains_key(&view.id) {
            return;
        }
        if self.hosts.len() >= HOSTS_MAX {
            let oldest = self.hosts.iter().min_by_key(|(id, past)| (past.last, **id)).map(|(id, _)| *id);
            oldest.map(|id| self.hosts.remove(&id));
        }
        self.begin(view);
    }

    fn begin(&mut self, view: &HostView) {
        let mut past = Box::new(Past::new(view));
        past.note(view);
        self.hosts.insert(view.id, past);
    }

    /// The past of a host up to `now`, in at most `width` columns.
    pub fn columns(&self, id: HostId, now: Mono, width: usize) -> Columns {
        let Some(past) = self.hosts.get(&id) else { return Columns::default() };
        let mut past = past.as_ref().clone();
        past.reach(now);
        let used = past.place(now).min(SLOTS - 1) + 1;
        let per = used.div_ceil(width.max(1));
        let mut columns = Columns { span: now.since(past.begin), ..Columns::default() };
        let mut rate = f32::NAN;
        let starts = || (0..used).step_by(per).map(|from| from..(from + per).min(used));
        for slots in starts() {
            for place in slots {
                rate = past.rates.get(place).copied().filter(|rate| !rate.is_nan()).unwrap_or(rate);
            }
            columns.rates.push(rate);
        }
        for row in &past.rows {
            let sum = |slots| row.counts.get::<std::ops::Range<usize>>(slots).unwrap_or_default();
            let counts: Vec<u32> =
                starts().map(|slots| sum(slots).iter().map(|count| u32::from(*count)).sum()).collect();
            if counts.iter().any(|count| *count > 0) {
                columns.counts.push((row.code, counts));
            }
        }
        columns.counts.sort_by_key(|(code, _)| *code);
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::sample;
    use proptest::prelude::*;

    fn view_at(secs: u64, rate: f64, ok: u64) -> HostView {
        let mut view = sample::view(0);
        view.as_of = Mono::from_nanos(secs * 1_000_000_000);
        view.effective.rate = rate;
        view.codes = vec![CodeCount { code: Code::Status(200), recent: 0, total: ok }];
        view
    }

    #[test]
    fn rates_and_answers_stand_in_their_slots() {
        let mut history = History::default();
        for (secs, rate, ok) in [(0, 2.0, 10), (6, 1.0, 14), (21, 0.5, 15)] {
            history.note(&view_at(secs, rate, ok));
        }
        let columns = history.columns(HostId(0), Mono::from_nanos(26_000_000_000), 80);
        assert_eq!(columns.rates, [2.0, 1.0, 1.0, 1.0, 0.5, 0.5], "a rate holds until the next is heard");
        assert_eq!(columns.counts, [(Code::Status(200), vec![0, 4, 0, 0, 1, 0])], "what came before is not counted");
        let narrow = history.columns(HostId(0), Mono::from_nanos(26_000_000_000), 3);
        assert_eq!((narrow.rates, narrow.counts[0].1.clone()), (vec![1.0, 1.0, 0.5], vec![4, 0, 1]));
    }

    #[test]
    fn each_code_has_a_row_of_its_own_once_it_occurred() {
        let mut history = History::default();
        let mut view = view_at(0, 1.0, 5);
        history.note(&view);
        view.as_of = Mono::from_nanos(7_000_000_000);
        view.codes.push(CodeCount { code: Code::Status(429), recent: 3, total: 3 });
        history.note(&view);
        let columns = history.columns(HostId(0), Mono::from_nanos(8_000_000_000), 80);
        assert_eq!(columns.counts, [(Code::Status(429), vec![0, 3])], "nothing new was 200");
    }

    #[test]
    fn a_day_fits_the_slots() {
        let mut history = History::default();
        for minute in 0..1440 {
            history.note(&view_at(minute * 60, 2.0, minute));
        }
        let columns = history.columns(HostId(0), Mono::from_nanos(86_400_000_000_000), 200);
        assert_eq!(columns.rates.len(), SLOTS);
        assert!(columns.span >= Duration::from_secs(7200) && columns.span < Duration::from_secs(10_000));
        let sum: u32 = columns.counts[0].1.iter().sum();
        assert!((150..170).contains(&sum), "{sum}: one a minute");
    }

    #[test]
    fn hosts_with_a_past_are_bounded() {
        let mut history = History::default();
        let view = |id: usize| HostView { id: HostId(u32::try_from(id).expect("small")), ..view_at(id as u64, 1.0, 0) };
        for id in 0..HOSTS_MAX + 10 {
            history.note(&view(id));
        }
        assert_eq!(history.hosts.len(), HOSTS_MAX);
        history.look_at(&view(HOSTS_MAX + 5));
        assert_eq!(history.hosts.len(), HOSTS_MAX);
        assert!(!history.hosts.contains_key(&HostId(0)), "the longest unchanged gave way");
    }

    proptest! {
        #[test]
        fn no_answer_is_lost_within_two_hours(steps in proptest::collection::vec((0_u64..300, 0_u64..50), 1..40), width in 1_usize..200) {
            let mut history = History::default();
            let (mut at, mut ok, mut first) = (0, 0, None);
            for (secs, more) in steps {
                (at, ok) = ((at + secs).min(7_200), ok + more);
                first.get_or_insert(ok);
                history.note(&view_at(at, 1.0, ok));
            }
            let columns = history.columns(HostId(0), Mono::from_nanos(at * 1_000_000_000), width);
            let sum: u32 = columns.counts.iter().flat_map(|(_, counts)| counts).sum();
            prop_assert_eq!(u64::from(sum), ok - first.unwrap_or(0));
            prop_assert!(columns.rates.len() <= width);
        }
    }
}
