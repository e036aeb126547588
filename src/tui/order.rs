//! The order of the rows: what needs a human first, and never under the operator's fingers.
//!
//! Each row has a sort key of one word, renewed only when the row changes; sorting reads nothing else.
//! The order holds still for [`HOLD_STILL`] after a key, and sorting takes at most about a tenth of the
//! time: after a sort that took *t*, the next one waits at least 10 *t*.

use std::cmp::Ordering;
use std::time::Duration;

use crate::control::{ConcernKind, HostState, HostView, Mono};
use crate::watch::HostRow;

/// How long the order stands still after a key.
pub const HOLD_STILL: Duration = Duration::from_secs(3);

/// A sort may take one part in this many of the time.
const SHARE: u32 = 10;

/// Rows that moved are merged into the others while they are at most one part in this many.
const FEW: usize = 8;

/// What rows can be sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SortKey {
    /// What needs a human first.
    #[default]
    Attention,
    /// The host's name.
    Host,
    /// Effective rate, highest first.
    Rate,
    /// Queue, longest first.
    Queue,
    /// Longest hold first.
    Hold,
    /// Errors and refusals of the last 5 minutes, most first.
    Errors,
    /// Requests so far, most first.
    Requests,
}

impl SortKey {
    /// All, in the order of the menu.
    pub const ALL: [Self; 7] =
        [Self::Attention, Self::Host, Self::Rate, Self::Queue, Self::Hold, Self::Errors, Self::Requests];

    /// The word in the table's title and in the menu.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Host => "host",
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::Hold => "hold",
            Self::Errors => "errors",
            Self::Requests => "requests",
        }
    }

    /// The row's place in one word: smaller comes first.
    pub fn key(self, view: &HostView) -> u64 {
        match self {
            Self::Attention => attention(view),
            Self::Host => 0,
            Self::Rate => descending((view.effective.rate.max(0.0) * 1e6) as u64),
            Self::Queue => descending(view.queued),
            Self::Hold => descending(view.hold.map_or(0, |hold| hold.until.as_nanos())),
            Self::Errors => {
                let [_, _, client, server, error] = view.recent;
                descending(u64::from(client) + u64::from(server) + u64::from(error))
            }
            Self::Requests => descending(view.requests),
        }
    }
}

/// Turns the order round.
const fn descending(value: u64) -> u64 {
    u64::MAX - value
}

/// The order of attention. Running and waiting hosts share a place: they change by the token, and rows
/// that leap with every token cannot be read.
fn attention(view: &HostView) -> u64 {
    let rank: u64 = match (view.concern.map(|concern| concern.kind), view.state) {
        (Some(ConcernKind::Stuck), _) => 0,
        (Some(ConcernKind::Angry), _) => 1,
        (Some(ConcernKind::SharedLimit), _) => 2,
        (Some(ConcernKind::Trap), _) => 3,
        (Some(ConcernKind::Tail), _) => 4,
        (Some(ConcernKind::Forgotten), _) => 5,
        (None, HostState::Paused) => 6,
        (None, _) if view.overriding.is_some() => 7,
        (None, HostState::Block) => 8,
        (None, HostState::Back) => 9,
        (None, HostState::Run | HostState::Wait) => 10,
        (None, HostState::Idle) => 11,
        (None, HostState::Done) => 12,
    };
    // Within a concern, the older first, by the second.
    let since = view.concern.map_or(0, |concern| concern.since.as_nanos() / 1_000_000_000);
    rank << 56 | since & ((1 << 56) - 1)
}

/// Which rows are shown in what order, and when to sort again.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Positions in the table of rows, in the order shown.
    pub shown: Vec<u32>,
    /// Sort keys by host.
    keys: Vec<u64>,
    /// Keys as of the last sort: by these the first `ordered` rows are in order.
    old_keys: Vec<u64>,
    /// Rows that the last sort put in order; later ones joined at the end.
    ordered: usize,
    /// Rows whose place may have changed since the last sort, each once.
    moved: Vec<u32>,
    /// The same as one bit a host.
    is_moved: Vec<u64>,
    /// The next sort is one of all rows.
    all: bool,
    /// By what the rows are in order now, and which way round.
    sorted: Option<(SortKey, bool)>,
    /// The order before the last sort: its memory is used again.
    spare: Vec<u32>,
    /// By host: whether it is among those shown.
    member: Vec<bool>,
    /// By host: whether the filter takes it. Who is shown and no longer taken leaves with the next sort.
    wanted: Vec<bool>,
    /// By what.
    pub by: SortKey,
    /// The other way round.
    pub reversed: bool,
    stale: bool,
    leavers: bool,
    still_until: Mono,
    last_end: Mono,
    last_took: Duration,
}

impl Order {
    /// Notes a row's new content, and whether the filter takes it. A row that is newly taken joins at the
    /// end until the next sort; one that is no longer taken leaves with the next sort, not under the fingers.
    pub fn note(&mut self, row: &HostRow, taken: bool) {
        let index = row.view.id.0;
        let slot = index as usize;
        if self.keys.len() <= slot {
            self.keys.resize(slot + 1, u64::MAX);
            self.member.resize(slot + 1, false);
            self.wanted.resize(slot + 1, false);
        }
        let key = self.by.key(&row.view);
        if let Some(old) = self.keys.get_mut(slot)
            && *old != key
        {
            *old = key;
            self.stale = true;
            self.mark(index);
        }
        let (Some(member), Some(wanted)) = (self.member.get_mut(slot), self.wanted.get_mut(slot)) else { return };
        *wanted = taken;
        if taken && !*member {
            *member = true;
            self.shown.push(index);
            self.stale = true;
            self.mark(index);
            return;
        }
        if !taken && *member {
            (self.stale, self.leavers) = (true, true);
        }
    }

    /// Remembers that a row may have to move.
    fn mark(&mut self, index: u32) {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.is_moved.len() <= word {
            self.is_moved.resize(word + 1, 0);
        }
        if let Some(word) = self.is_moved.get_mut(word)
            && *word & bit == 0
        {
            *word |= bit;
            self.moved.push(index);
        }
    }

    /// Shows exactly the hosts that are taken, each by its number, in their order. The next sort is due.
    pub fn show(&mut self, taken: impl Iterator<Item = bool>) {
        self.wanted.clear();
        self.wanted.extend(taken);
        self.member.clone_from(&self.wanted);
        self.shown.clear();
        self.shown.extend((0_u32..).zip(&self.wanted).filter(|(_, wanted)| **wanted).map(|(index, _)| index));
        self.keys.resize(self.wanted.len().max(self.keys.len()), u64::MAX);
        self.member.resize(self.keys.len(), false);
        self.wanted.resize(self.keys.len(), false);
        (self.stale, self.leavers, self.all) = (true, false, true);
    }

    /// Time has passed that may change who is shown.
    pub fn age(&mut self) {
        self.stale = true;
    }

    /// Sorts by something else, at the next chance and whatever else would delay it.
    pub fn change(&mut self, by: SortKey, rows: &[Option<HostRow>]) {
        self.by = by;
        for (slot, row) in self.keys.iter_mut().zip(rows) {
            if let Some(row) = row {
                *slot = by.key(&row.view);
            }
        }
        self.sort_now();
    }

    /// The next sort is not delayed.
    pub fn sort_now(&mut self) {
        self.stale = true;
        self.all = true;
        self.still_until = Mono::ZERO;
        self.last_took = Duration::ZERO;
    }

    /// A key was pressed: the order holds still.
    pub fn hold_still(&mut self, now: Mono) {
        self.still_until = now.after(HOLD_STILL);
    }

    /// Whether the order is held still though it would change.
    pub fn is_held(&self, now: Mono) -> bool {
        self.stale && now < self.still_until
    }

    /// Whether it is time to sort.
    pub fn is_due(&self, now: Mono) -> bool {
        let rested = now >= self.last_end.after(self.last_took.saturating_mul(SHARE));
        self.stale && now >= self.still_until && rested
    }

    /// Sorts. The caller tells afterwards by [`Order::took`] how long it lasted.
    ///
    /// Where few rows have moved only these are sorted, and merged into the rest.
    pub fn sort(&mut self, rows: &[Option<HostRow>]) {
        if std::mem::take(&mut self.leavers) {
            let (wanted, member, ordered) = (&self.wanted, &mut self.member, self.ordered);
            let (mut at, mut kept) = (0, 0);
            self.shown.retain(|index| {
                let stays = wanted.get(*index as usize).copied().unwrap_or(false);
                if let Some(member) = member.get_mut(*index as usize) {
                    *member = stays;
                }
                kept += usize::from(stays && at < ordered);
                at += 1;
                stays
            });
            self.ordered = kept;
        }
        let few = self.moved.len() <= self.shown.len() / FEW;
        let reversed = self.reversed;
        if self.by == SortKey::Host {
            let name = |index: &u32| rows.get(*index as usize).and_then(Option::as_ref).map(|row| row.name.as_str());
            // A stable sort: it is fast on what is nearly sorted, and equal rows stay in the order of input.
            self.shown.sort_by(|a, b| if reversed { name(b).cmp(&name(a)) } else { name(a).cmp(&name(b)) });
        } else if few && !self.all && self.sorted == Some((self.by, reversed)) {
            self.merge_moved();
        } else {
            let keys = &self.keys;
            self.shown.sort_by(|a, b| compare(place(keys, *a), place(keys, *b), reversed));
            self.old_keys.clone_from(&self.keys);
        }
        self.old_keys.resize(self.keys.len(), u64::MAX);
        for index in self.moved.drain(..) {
            if let Some(word) = self.is_moved.get_mut(index as usize / 64) {
                *word = 0;
            }
            if let Some(old) = self.old_keys.get_mut(index as usize) {
                *old = place(&self.keys, index).0;
            }
        }
        self.ordered = self.shown.len();
        self.sorted = Some((self.by, reversed));
        (self.stale, self.all) = (false, false);
    }

    /// Takes the moved rows out, sorts them, and puts each where it belongs among the rest.
    fn merge_moved(&mut self) {
        let (keys, old_keys, reversed) = (&self.keys, &self.old_keys, self.reversed);
        let (ordered, joined) = self.shown.split_at(self.ordered.min(self.shown.len()));
        let before = |place_of: (u64, u32)| {
            ordered.partition_point(|other| compare(place(old_keys, *other), place_of, reversed) == Ordering::Less)
        };
        // Where they were; a filter may hide some that have moved, and new ones were nowhere.
        let was = |index: u32| Some(before(place(old_keys, index))).filter(|at| ordered.get(*at) == Some(&index));
        let mut gone: Vec<usize> = self.moved.iter().filter_map(|index| was(*index)).collect();
        gone.sort_unstable();
        let mut coming: Vec<u32> = gone.iter().filter_map(|at| ordered.get(*at)).chain(joined).copied().collect();
        coming.sort_unstable_by(|a, b| compare(place(keys, *a), place(keys, *b), reversed));

        let mut merged = std::mem::take(&mut self.spare);
        merged.clear();
        merged.reserve(self.shown.len());
        let mut gone = gone.into_iter().peekable();
        let mut from = 0;
        // Copies the rest up to `to`, without those that are gone.
        let mut copy = |merged: &mut Vec<u32>, to: usize| {
            while let Some(at) = gone.next_if(|at| *at < to) {
                merged.extend_from_slice(ordered.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            merged.extend_from_slice(ordered.get(from..to).unwrap_or_default());
            from = from.max(to);
        };
        for index in coming {
            copy(&mut merged, before(place(keys, index)));
            merged.push(index);
        }
        copy(&mut merged, ordered.len());
        self.spare = std::mem::replace(&mut self.shown, merged);
    }

    /// How long the sort lasted, and when it ended.
    pub fn took(&mut self, began: Mono, ended: Mono) {
        self.last_took = ended.since(began);
        self.last_end = ended;
    }
}

/// What a row is ordered by.
fn place(keys: &[u64], index: u32) -> (u64, u32) {
    (keys.get(index as usize).copied().unwrap_or(u64::MAX), index)
}

/// Which of two rows comes first.
fn compare(a: (u64, u32), b: (u64, u32), reversed: bool) -> Ordering {
    if reversed { b.cmp(&a) } else { a.cmp(&b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{HostId, Limiting};
    use crate::tui::sample;

    fn order_of(rows: Vec<HostRow>, by: SortKey) -> (Order, Vec<Option<HostRow>>) {
        let rows: Vec<_> = rows.into_iter().map(Some).collect();
        let mut order = Order { by, ..Order::default() };
        for row in rows.iter().flatten() {
            order.note(row, true);
        }
        order.sort(&rows);
        (order, rows)
    }

    fn names(order: &Order, rows: &[Option<HostRow>]) -> Vec<String> {
        order.shown.iter().filter_map(|i| rows[*i as usize].as_ref()).map(|row| row.name.to_string()).collect()
    }

    #[test]
    fn what_needs_a_human_comes_first() {
        let (order, rows) = order_of(sample::hosts(), SortKey::Attention);
        assert_eq!(
            names(&order, &rows),
            [
                "forum.oldca.test",
                "www.courtxx.test",
                "api.gazet.test",
                "slow.muse.test",
                "shop.lumb.test",
                "img.atla.test",
                "news.kan.test",
                "www.astr.test",
                "data.rive.test",
                "wiki.br.test",
                "a.tiles.example",
                "feeds.dorf.test"
            ]
        );
    }

    #[test]
    fn other_keys_sort_by_their_figure() {
        let (order, rows) = order_of(sample::hosts(), SortKey::Queue);
        assert_eq!(names(&order, &rows)[..2], ["www.astr.test", "www.courtxx.test"]);
        let (order, rows) = order_of(sample::hosts(), SortKey::Hold);
        assert_eq!(names(&order, &rows)[..2], ["www.courtxx.test", "api.gazet.test"]);
        let (order, rows) = order_of(sample::hosts(), SortKey::Host);
        assert_eq!(names(&order, &rows)[0], "a.tiles.example");
        let (order, rows) = order_of(sample::hosts(), SortKey::Errors);
        assert_eq!(names(&order, &rows)[0], "www.courtxx.test");
    }

    #[test]
    fn a_token_more_or_less_moves_no_row() {
        let (mut order, mut rows) = order_of(sample::hosts(), SortKey::Attention);
        let row = rows[0].as_mut().expect("there");
        (row.view.state, row.view.limiting) = (HostState::Wait, Limiting::NoTokens);
        order.note(row, true);
        assert!(!order.is_due(Mono::NEVER), "nothing to sort");
    }

    #[test]
    fn the_order_holds_still_after_a_key() {
        let (mut order, mut rows) = order_of(sample::hosts(), SortKey::Attention);
        let now = sample::NOW;
        order.hold_still(now);
        let row = rows[0].as_mut().expect("there");
        row.view.state = HostState::Done;
        order.note(row, true);
        assert!(order.is_held(now) && !order.is_due(now));
        let later = now.after(HOLD_STILL);
        assert!(!order.is_held(later) && order.is_due(later));
    }

    #[test]
    fn sorting_takes_a_tenth_of_the_time_at_most() {
        let (mut order, mut rows) = order_of(sample::hosts(), SortKey::Attention);
        let now = sample::NOW;
        order.took(now, now.after(Duration::from_millis(100)));
        let row = rows[0].as_mut().expect("there");
        row.view.state = HostState::Done;
        order.note(row, true);
        assert!(!order.is_due(now.after(Duration::from_millis(1099))));
        assert!(order.is_due(now.after(Duration::from_millis(1100))));
    }

    #[test]
    fn reversing_turns_the_rows_round() {
        let (mut order, rows) = order_of(sample::hosts(), SortKey::Queue);
        let there = names(&order, &rows);
        order.reversed = true;
        order.sort(&rows);
        let mut back = names(&order, &rows);
        back.reverse();
        assert_eq!(there, back);
        assert_eq!(rows[0].as_ref().map(|row| row.view.id), Some(HostId(0)));
    }

    proptest::proptest! {
        #[test]
        fn merging_what_moved_gives_the_order_of_a_whole_sort(
            rounds in proptest::collection::vec(proptest::collection::vec((0..60_u32, 0..5_u64), 0..12), 1..8),
            reversed in proptest::bool::ANY, hidden in 0..60_u32,
        ) {
            let mut rows: Vec<_> = (0..60).map(|id| Some(sample::row(id, &format!("{id}.test")))).collect();
            let mut order = Order { by: SortKey::Queue, reversed, ..Order::default() };
            for row in rows.iter().flatten().take(50) {
                order.note(row, row.view.id.0 != hidden);
            }
            order.sort(&rows);
            for row in rows.iter().flatten().skip(50) {
                order.note(row, row.view.id.0 != hidden);
            }
            for changes in rounds {
                for (id, queued) in changes {
                    let row = rows[id as usize].as_mut().expect("there");
                    row.view.queued = queued;
                    order.note(row, id != hidden);
                }
                order.sort(&rows);
                let mut whole = order.clone();
                whole.sort_now();
                whole.sort(&rows);
                proptest::prop_assert_eq!(&order.shown, &whole.shown);
                proptest::prop_assert_eq!(order.shown.len(), 59);
            }
        }
    }
}
