//! What the screen knows: the table of hosts, what is selected, marked and open. Plain data.
//!
//! Snapshots carry only rows that changed, so the full table is kept here. Applying a snapshot costs what
//! changed, never what there is. Bounds: one row a host; [`LOG_MAX`] log lines; [`TICKETS_MAX`] tickets.

mod overlay;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::filter::Filter;
use super::history::History;
use super::keymap::Place;
use super::log_screen::LogScreen;
use super::order::Order;
use super::plot::Plot;
use super::view::Layout;
use crate::clock::Wall;
use crate::control::{Command, HostId, Mono, Who};
use crate::journal::timeline::bins::Bins;
use crate::text::Clean;
use crate::watch::{Focus, HostRow, LOG_LINES_MAX, LogLine, Phase, Snapshot, Totals};

pub use overlay::{Note, Overlay, Question, Wish};

/// Log lines kept; older ones are in the journal.
pub const LOG_MAX: usize = LOG_LINES_MAX;
/// Unanswered tickets kept; the oldest are forgotten.
pub const TICKETS_MAX: usize = 64;
/// A word on the footer stays so long, unless another comes.
pub const NOTE_STAYS: Duration = Duration::from_secs(12);
/// Bad input lines are told of so often at most.
pub const NOTICE_EVERY: Duration = Duration::from_secs(10);
/// An engine that has said nothing for so long is called silent.
pub const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Which screen is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Screen {
    /// The table of hosts.
    #[default]
    Hosts,
    /// The cursor's host closely.
    Host,
    /// The decisions.
    Log,
}

/// What the keys that move are for, on the screen of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Part {
    /// The table.
    #[default]
    Table,
    /// The host beside it.
    Side,
    /// The log below.
    Log,
}

/// When settings of the operator end by themselves, soonest first: at most two entries a host.
#[derive(Clone, Debug, Default)]
pub struct Lapses {
    pauses: BTreeSet<(Mono, HostId)>,
    overrides: BTreeSet<(Mono, HostId)>,
}

impl Lapses {
    /// A row takes another's place.
    fn replace(&mut self, before: Option<&HostRow>, row: &HostRow) {
        let ends = |row: &HostRow| {
            let pause = row.view.pause.and_then(|pause| pause.until);
            (pause, row.view.overriding.and_then(|one| one.until))
        };
        let (old, new) = (before.map(ends).unwrap_or_default(), ends(row));
        for (set, old, new) in [(&mut self.pauses, old.0, new.0), (&mut self.overrides, old.1, new.1)] {
            if old != new {
                old.map(|old| set.remove(&(old, row.view.id)));
                new.map(|new| set.insert((new, row.view.id)));
            }
        }
    }

    /// When the next pause ends by itself.
    pub fn next_pause(&self) -> Option<Mono> {
        self.pauses.first().map(|(until, _)| *until)
    }

    /// When the next override lapses.
    pub fn next_override(&self) -> Option<Mono> {
        self.overrides.first().map(|(until, _)| *until)
    }
}

/// Log lines that wait until the view goes on: the newest [`LOG_MAX`], and how many came.
#[derive(Clone, Debug, Default)]
pub struct Thawing {
    lines: VecDeque<LogLine>,
    came: u64,
}

/// Puts lines behind those there are; of all of them the newest [`LOG_MAX`] stay.
fn keep_newest(log: &mut VecDeque<LogLine>, lines: impl IntoIterator<Item = LogLine>) {
    for line in lines {
        if log.len() == LOG_MAX {
            log.pop_front();
        }
        log.push_back(line);
    }
}

/// All that the screen knows.
#[derive(Debug, Default)]
pub struct Model {
    /// The run's name.
    pub run_name: Clean,
    /// One line about each simulated host, in a demo.
    pub legend: Vec<Clean>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Rows of the table that fit the screen; the view's layout says.
    pub page: usize,
    /// Every host by its number.
    pub rows: Vec<Option<HostRow>>,
    /// When pauses and overrides end by themselves.
    pub lapses: Lapses,
    /// Which are shown, in what order.
    pub order: Order,
    /// The first row on the screen, as a position in the order.
    pub top: usize,
    /// The selected host.
    pub cursor: Option<HostId>,
    /// Its position in the order.
    pub at: usize,
    /// Nobody has moved away from the top yet: the view stays there.
    pub at_home: bool,
    /// Marked hosts.
    pub marks: HashSet<HostId>,
    /// Which hosts are shown.
    pub filter: Filter,
    /// Which were shown when the filter prompt was opened: they are again while what is typed is no filter.
    pub filter_before: Filter,
    /// Why the text in the filter prompt is no filter.
    pub filter_error: Option<Clean>,
    /// Which screen is shown.
    pub screen: Screen,
    /// What lies over the table.
    pub overlay: Overlay,
    /// A word on the footer.
    pub note: Option<Note>,
    /// When a bad input line was told of last.
    pub noticed: Option<Mono>,
    /// The newest log lines, oldest first.
    pub log: VecDeque<LogLine>,
    /// The log as a screen.
    pub logbook: LogScreen,
    /// Log lines that came since the log was last opened.
    pub unseen: usize,
    /// The log takes half of the screen.
    pub log_open: bool,
    /// What the keys that move are for.
    pub part: Part,
    /// Lines of the log below the table that are scrolled away.
    pub log_top: usize,
    /// The detail in its full length, so many rows scrolled away; `None` = as much as fits the screen.
    pub unfolded: Option<usize>,
    /// The moment of the log's line from which one came to the host: the timeline opens there.
    pub moment: Option<Wall>,
    /// The view stands still since this moment of the engine.
    pub frozen: Option<Mono>,
    /// Rows that changed while the view stood still: at most one a host.
    pub thawing: HashMap<HostId, HostRow>,
    /// Log lines that came while the view stood still.
    pub log_thawing: Thawing,
    /// The whole crawl.
    pub totals: Totals,
    /// Up time at the last snapshot.
    pub up: Duration,
    /// The engine's time at the last snapshot, wall time then, and our time when it came.
    pub heard: Option<(Mono, Wall, Mono)>,
    /// When the screen began, to know how long the engine has been silent from the start.
    pub began: Mono,
    /// A drain was asked for.
    pub drain_asked: bool,
    /// The engine has gone: nothing more will come.
    pub ended: bool,
    /// The timeline's screen is open, and shows this part.
    pub plot: Option<Plot>,
    /// Counts over time, as last heard; only while that screen is open.
    pub timeline: Option<Arc<Bins>>,
    /// Lines of the command line, oldest first; at most 100.
    pub commands: VecDeque<String>,
    /// What the screen's thread is to do after this key.
    pub wishes: Vec<Wish>,
    /// What happened lately to the host in focus, as the engine told last.
    pub focus: Option<Arc<Focus>>,
    /// The host that the engine was asked to look at.
    pub focus_asked: Option<HostId>,
    /// How hosts were over time.
    pub history: History,
    /// Draw everything again, whatever is on the screen.
    pub from_scratch: bool,
    next_ticket: u64,
    tickets: VecDeque<(u64, Command)>,
}

impl Model {
    /// An empty table, at our time `now`.
    pub fn new(run_name: Clean, legend: Vec<Clean>, now: Mono) -> Self {
        Self { run_name, legend, began: now, at_home: true, size: (80, 24), page: 1, ..Self::default() }
    }

    /// Takes a snapshot in. `now` is our own time.
    pub fn apply(&mut self, snapshot: Snapshot, now: Mono) {
        self.totals = snapshot.totals;
        self.up = snapshot.up;
        self.heard = Some((snapshot.now, snapshot.wall, now));
        // One that was first asked for while the view stands still comes once.
        if snapshot.timeline.is_some() && (self.frozen.is_none() || self.timeline.is_none()) {
            self.timeline = snapshot.timeline;
        }
        if let Some(settings) = snapshot.ui {
            self.wishes.push(Wish::Configure(settings));
        }
        let looked_at = |focus: &Option<Arc<Focus>>| focus.as_ref().map(|focus| focus.host);
        let another = looked_at(&snapshot.focus) != looked_at(&self.focus);
        if snapshot.focus.is_some() && (self.frozen.is_none() || another) {
            self.focus = snapshot.focus;
        }
        for row in snapshot.changed {
            self.history.note(&row.view);
            if self.frozen.is_some() {
                self.thawing.insert(row.view.id, row);
            } else {
                self.put(row);
            }
        }
        if self.cursor.is_none() && self.frozen.is_none() {
            // The first selection is what stands first, not what came first.
            self.order.sort(&self.rows);
        }
        let mut log = snapshot.log;
        log.extend(self.notice(&snapshot.notices, (snapshot.now, snapshot.wall), now));
        if self.frozen.is_some() {
            self.log_thawing.came += log.len() as u64;
            keep_newest(&mut self.log_thawing.lines, log);
        } else {
            self.take_log(log.len() as u64, log);
        }
        for answer in snapshot.answers {
            let position = self.tickets.iter().position(|(ticket, _)| *ticket == answer.ticket);
            let command = position.and_then(|position| self.tickets.remove(position)).map(|(_, command)| command);
            let undoable = !matches!(command, Some(Command::Undo | Command::Redo) | None);
            let hint = undoable && answer.changed > 0 && !answer.text.as_str().contains("undo");
            let text = if hint { Clean::new(format!("{}   u undoes", answer.text)) } else { answer.text };
            self.note = Some(Note { text, since: now, trouble: answer.changed == 0 });
        }
        self.settle_cursor();
    }

    /// The first of some bad input lines or refused URLs, for the footer and as a line of the log; at most one in
    /// [`NOTICE_EVERY`], as a list may have a million of them.
    fn notice(&mut self, notices: &[Clean], heard: (Mono, Wall), now: Mono) -> Option<LogLine> {
        let first = notices.first()?;
        if self.noticed.is_some_and(|at| now.since(at) < NOTICE_EVERY) {
            return None;
        }
        self.noticed = Some(now);
        let more = match notices.len() {
            1 => String::new(),
            n => format!(" (and {} more: see events.jsonl)", n - 1),
        };
        let text = Clean::new(format!("{first}{more}"));
        self.complain(&text, now);
        Some(LogLine { wall: heard.1, at: heard.0, who: Who::System, host: Clean::default(), text })
    }

    /// Takes the newest of so many lines that came into the log.
    fn take_log(&mut self, came: u64, lines: impl IntoIterator<Item = LogLine>) {
        self.logbook.came += came;
        let seen = self.log_open || self.screen == Screen::Log;
        let came = usize::try_from(came).unwrap_or(usize::MAX);
        self.unseen = if seen { 0 } else { self.unseen.saturating_add(came) };
        keep_newest(&mut self.log, lines);
    }

    /// Puts a row into the table.
    fn put(&mut self, row: HostRow) {
        let slot = row.view.id.0 as usize;
        // Numbers are dense, so the table never grows beyond the hosts there are.
        if self.rows.len() <= slot {
            self.rows.resize_with(slot + 1, || None);
        }
        let Some(place) = self.rows.get_mut(slot) else { return };
        let wanted = self.filter.takes(&row, row.view.as_of);
        self.order.note(&row, wanted);
        self.lapses.replace(place.as_ref(), &row);
        *place = Some(row);
    }

    /// How the screen is divided now.
    pub fn layout(&self) -> Layout {
        Layout::of(self.size, self.log_open).with_banners(self.totals.banners().count())
    }

    /// The engine's time now, as far as it can be told.
    pub fn engine_now(&self, now: Mono) -> Mono {
        self.heard.map_or(Mono::ZERO, |(engine, _, ours)| engine.after(now.since(ours)))
    }

    /// The time that the table shows: it stands still while the view is frozen.
    pub fn shown_now(&self, now: Mono) -> Mono {
        self.frozen.unwrap_or_else(|| self.engine_now(now))
    }

    /// How long the engine has been silent, if that is too long.
    pub fn silent_for(&self, now: Mono) -> Option<Duration> {
        let over = matches!(self.totals.phase, Phase::Finished | Phase::Stopped) || self.ended;
        let since = self.heard.map_or(self.began, |(_, _, ours)| ours);
        Some(now.since(since)).filter(|silence| *silence > SILENT_AFTER && !over)
    }

    /// The row at a position in the order.
    pub fn row_at(&self, position: usize) -> Option<&HostRow> {
        self.order.shown.get(position).and_then(|index| self.rows.get(*index as usize)).and_then(Option::as_ref)
    }

    /// A host's row as last heard, also while the view stands still.
    pub fn latest(&self, id: HostId) -> Option<&HostRow> {
        self.thawing.get(&id).or_else(|| self.rows.get(id.0 as usize).and_then(Option::as_ref))
    }

    /// The host that is shown closely, if one is.
    pub fn host_in_focus(&self) -> Option<HostId> {
        let beside = self.screen == Screen::Hosts && self.size.0 >= super::view::BESIDE_WIDTH;
        self.cursor.filter(|_| beside || self.screen == Screen::Host)
    }

    /// The screen whose keys are pressed.
    pub fn place(&self) -> Place {
        match self.screen {
            _ if self.plot.is_some() => Place::Timeline,
            Screen::Hosts => Place::Hosts,
            Screen::Host => Place::Detail,
            Screen::Log => Place::Log,
        }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        (self.totals.counts.hosts as usize).max(self.rows.len())
    }

    /// The hosts an act is for: the marked ones, else the cursor's; and how they were chosen.
    pub fn targets(&self) -> (Vec<HostId>, Clean) {
        if self.marks.is_empty() {
            let Some(id) = self.cursor else { return (Vec::new(), Clean::default()) };
            return (vec![id], self.latest(id).map(|row| row.name.clone()).unwrap_or_default());
        }
        let mut ids: Vec<_> = self.marks.iter().copied().collect();
        ids.sort_unstable();
        let chosen_by = match self.filter.is_empty() {
            true => Clean::new("marked"),
            false => Clean::new(format!("marked, filter {}", self.filter.text())),
        };
        (ids, chosen_by)
    }

    /// A ticket for a command, remembered until it is answered.
    pub fn ticket(&mut self, command: Command) -> u64 {
        self.next_ticket += 1;
        if self.tickets.len() == TICKETS_MAX {
            self.tickets.pop_front();
        }
        self.tickets.push_back((self.next_ticket, command));
        self.next_ticket
    }

    /// Says something on the footer.
    pub fn say(&mut self, text: impl AsRef<str>, now: Mono) {
        self.note = Some(Note { text: Clean::new(text), since: now, trouble: false });
    }

    /// Says on the footer that something is not right.
    pub fn complain(&mut self, text: impl AsRef<str>, now: Mono) {
        self.note = Some(Note { text: Clean::new(text), since: now, trouble: true });
    }

    /// Takes another filter, at our time `now`: the rows shown are found anew.
    pub fn set_filter(&mut self, filter: Filter, now: Mono) {
        self.filter = filter;
        self.refilter(now);
        self.order.sort_now();
        self.order.sort(&self.rows);
        self.find_cursor();
    }

    /// Asks the filter about every row again.
    fn refilter(&mut self, now: Mono) {
        let now = self.shown_now(now);
        let filter = &self.filter;
        self.order.show(self.rows.iter().map(|row| row.as_ref().is_some_and(|row| filter.takes(row, now))));
    }

    /// Sorts if it is time to. A filter that depends on time is asked again first.
    pub fn sort_if_due(&mut self, now: Mono, clock: &dyn crate::clock::Clock) {
        if self.filter.is_timed() {
            self.order.age();
        }
        if self.order.is_due(now) && self.frozen.is_none() {
            let began = clock.now();
            if self.filter.is_timed() {
                self.refilter(now);
            }
            self.order.sort(&self.rows);
            self.find_cursor();
            self.order.took(began, clock.now());
        }
    }

    /// Lets the view go on after it stood still.
    pub fn thaw(&mut self) {
        self.frozen = None;
        for (_, row) in std::mem::take(&mut self.thawing) {
            self.put(row);
        }
        let log = std::mem::take(&mut self.log_thawing);
        self.take_log(log.came, log.lines);
        self.settle_cursor();
    }

    /// Finds the cursor's host again after the order changed.
    pub fn find_cursor(&mut self) {
        let before_row = self.at.saturating_sub(self.top);
        if let Some(id) = self.cursor
            && let Some(position) = self.order.shown.iter().position(|index| *index == id.0)
        {
            self.at = position;
            // The host stays on the line of the screen where it was, if that can be.
            self.top = position.saturating_sub(before_row);
        }
        if self.at_home {
            self.top = 0;
            if self.at >= self.page.max(1) {
                self.cursor = None;
                self.at = 0;
            }
        }
        self.settle_cursor();
    }

    /// Makes cursor and scroll position valid for the rows there are.
    pub fn settle_cursor(&mut self) {
        let count = self.order.shown.len();
        if count == 0 {
            (self.cursor, self.at, self.top) = (None, 0, 0);
            return;
        }
        self.at = self.at.min(count - 1);
        self.cursor = self.order.shown.get(self.at).map(|index| HostId(*index));
        let page = self.page.max(1);
        if self.at < self.top {
            self.top = self.at;
        }
        if self.at >= self.top + page {
            self.top = self.at + 1 - page;
        }
        self.top = self.top.min(count.saturating_sub(page));
    }

    /// Puts the cursor on a position of the order.
    pub fn move_to(&mut self, position: usize) {
        self.at = position;
        self.at_home = position == 0;
        self.unfolded = self.unfolded.map(|_| 0);
        self.settle_cursor();
    }

    /// Wall time now, as the engine has it.
    pub fn wall(&self, now: Mono) -> Wall {
        self.heard.map_or(Wall(0), |(_, wall, ours)| wall.after(now.since(ours)))
    }
}

#[cfg(test)]
mod tests;
