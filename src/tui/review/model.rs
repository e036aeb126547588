//! What the review screen knows. Plain data; [`Review::refresh`] sorts and counts, so that the view need not.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use tui_input::Input;

use super::compare::{self, Difference};
use crate::clock::Wall;
use crate::control::{Mono, Outcome};
use crate::journal::summary::HostSummary;
use crate::journal::timeline::bins::Angriest;
use crate::journal::timeline::entry::{Entry, LogScan};
use crate::journal::timeline::{Progress, Timeline};
use crate::text::Clean;
use crate::tui::filter::Filter;
use crate::tui::keymap::{Action, Place};
use crate::tui::plot::Plot;
use crate::tui::view::Help;
use crate::tui::widget::timeline::Picture;

/// A word on the footer stays so long.
const NOTE_STAYS: Duration = Duration::from_secs(12);
/// Hosts that are named among what is still set.
pub const SET_NAMED: usize = 8;

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tab {
    /// Time × status.
    #[default]
    Timeline,
    /// All hosts, the worst first.
    Hosts,
    /// Changes of rates, and holds.
    Decisions,
    /// What the operator did.
    Acts,
    /// Files to write.
    Export,
    /// Another run beside this one.
    Compare,
}

impl Tab {
    /// All tabs with their words, and the actions that show them.
    pub const ALL: [(Self, &'static str, Action); 6] = [
        (Self::Timeline, "timeline", Action::ShowTimeline),
        (Self::Hosts, "hosts", Action::ShowHosts),
        (Self::Decisions, "rate decisions", Action::ShowDecisions),
        (Self::Acts, "your actions", Action::ShowActs),
        (Self::Export, "export", Action::ShowExport),
        (Self::Compare, "compare", Action::ShowCompare),
    ];
}

/// How hosts are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostSort {
    /// The longest held first, then who hardly let us in, then the most refused.
    #[default]
    Held,
    /// The most refused first.
    Refused,
    /// The most errors first, of servers and of the network.
    Errors,
    /// The most asked first.
    Requests,
    /// The slowest against its original first.
    Slowed,
    /// By name.
    Name,
}

impl HostSort {
    /// Every way, with its word.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Held, "held time"),
        (Self::Refused, "refusals"),
        (Self::Errors, "errors"),
        (Self::Requests, "requests"),
        (Self::Slowed, "last rate of original"),
        (Self::Name, "name"),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, word)| word)
    }

    /// The next one.
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|(one, _)| *one == self).unwrap_or(0);
        Self::ALL.get((at + 1) % Self::ALL.len()).map_or(self, |(one, _)| *one)
    }
}

/// The cursor and the first row of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListAt {
    /// The selected row.
    pub at: usize,
    /// The first row on the screen.
    pub top: usize,
}

impl ListAt {
    /// Makes both valid for `count` rows, `page` of which are seen.
    pub fn settle(&mut self, count: usize, page: usize) {
        let page = page.max(1);
        self.at = self.at.min(count.saturating_sub(1));
        self.top = self.top.clamp((self.at + 1).saturating_sub(page), self.at).min(count.saturating_sub(page));
    }
}

/// The log around a moment.
#[derive(Clone, Debug, Default)]
pub struct LogView {
    /// Oldest first.
    pub entries: VecDeque<Entry>,
    /// Where the reader is.
    pub list: ListAt,
    /// There may be later ones.
    pub cut: bool,
}

impl LogView {
    /// What a scan has found; the cursor is at the moment that was asked for.
    pub fn of(scan: LogScan) -> Self {
        let cut = scan.entries.len() >= crate::journal::timeline::entry::LOG_MAX;
        let list = ListAt { at: scan.before, top: scan.before.saturating_sub(3) };
        Self { entries: scan.entries, list, cut }
    }
}

/// The other run of a comparison.
#[derive(Debug)]
pub struct Other {
    /// Its name.
    pub name: Clean,
    /// Its timeline.
    pub timeline: Timeline,
    /// Hosts whose figures differ, the most first.
    pub differences: Vec<Difference>,
}

/// All that the screen knows.
#[derive(Debug)]
pub struct Review {
    /// The run's name.
    pub name: Clean,
    /// The run.
    pub timeline: Timeline,
    /// The run to compare with.
    pub other: Option<Other>,
    /// How far reading is.
    pub progress: Progress,
    /// Why something could not be read.
    pub trouble: Option<Clean>,
    /// What is shown.
    pub tab: Tab,
    /// Which part of the timeline.
    pub plot: Plot,
    /// Which hosts.
    pub filter: Filter,
    /// The filter prompt, if it is open.
    pub prompt: Option<Input>,
    /// Why its text is no filter.
    pub prompt_error: Option<Clean>,
    /// The log, if it is open.
    pub log: Option<LogView>,
    /// The help, if it is open.
    pub help: Option<Help>,
    /// The mouse is listened to.
    pub mouse: bool,
    /// Row of each tab's list.
    pub lists: [ListAt; Tab::ALL.len()],
    /// Order of the hosts.
    pub sort: HostSort,
    /// The other way round.
    pub reversed: bool,
    /// Numbers of the hosts shown, in their order.
    pub order: Vec<u32>,
    /// Hosts that were left paused or overridden: the first [`SET_NAMED`], and how many.
    pub still_set: (Vec<Clean>, usize),
    /// A word on the footer, since when, and whether it is trouble.
    pub note: Option<(Clean, Mono, bool)>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
}

/// The name of the run in `dir`.
pub fn run_name(dir: &Path) -> Clean {
    let full = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    full.file_name().map_or_else(|| Clean::new("crawl"), |name| Clean::new(name.to_string_lossy()))
}

impl Review {
    /// Nothing read yet.
    pub fn new(dir: &Path, other: Option<&Path>) -> Self {
        let other =
            other.map(|dir| Other { name: run_name(dir), timeline: Timeline::new(dir, None), differences: Vec::new() });
        Self {
            name: run_name(dir),
            timeline: Timeline::new(dir, None),
            tab: if other.is_some() { Tab::Compare } else { Tab::Timeline },
            other,
            progress: Progress::default(),
            trouble: None,
            plot: Plot::default(),
            filter: Filter::default(),
            prompt: None,
            prompt_error: None,
            log: None,
            help: None,
            mouse: false,
            lists: Default::default(),
            sort: HostSort::default(),
            reversed: false,
            order: Vec::new(),
            still_set: (Vec::new(), 0),
            note: None,
            size: (80, 24),
        }
    }

    /// Shows `timeline` from now on, as far as it was read; gives the one shown until now.
    pub fn start_again(&mut self, timeline: Timeline) -> Timeline {
        self.progress.at_end = false;
        self.progress.read = 0;
        std::mem::replace(&mut self.timeline, timeline)
    }

    /// The screen whose keys are pressed.
    pub fn place(&self) -> Place {
        if self.log.is_none() && self.tab == Tab::Timeline { Place::Review } else { Place::Lists }
    }

    /// The picture of the timeline.
    pub fn picture(&self) -> Picture<'_> {
        Picture { bins: self.timeline.bins(), plot: &self.plot }
    }

    /// The host with the most bad answers under the cursor.
    pub fn angriest(&self) -> Option<(&HostSummary, Angriest)> {
        let window = self.picture().window(self.size.0);
        let (from, to) = self.plot.under_cursor(self.timeline.bins(), &window);
        let angriest = self.timeline.bins().angriest(from, to)?;
        Some((self.timeline.hosts().get(angriest.host as usize)?, angriest))
    }

    /// Rows of the list of the tab at hand.
    pub fn list_len(&self) -> usize {
        match self.tab {
            Tab::Timeline => 0,
            Tab::Hosts => self.order.len(),
            Tab::Decisions => self.timeline.decisions().len(),
            Tab::Acts => self.timeline.acts().len(),
            Tab::Export => super::export::Export::ALL.len(),
            Tab::Compare => self.other.as_ref().map_or(0, |other| other.differences.len()),
        }
    }

    /// The list of the tab at hand.
    pub fn list(&mut self) -> &mut ListAt {
        &mut self.lists[self.tab as usize]
    }

    /// Rows that a list has on the screen.
    pub fn page(&self) -> usize {
        usize::from(super::view::list_rows(self))
    }

    /// A span of time as the timeline's cursor has it.
    pub fn cursor_span(&self) -> (Wall, Wall) {
        self.picture().cursor_span(self.size.0)
    }

    /// Says something on the footer.
    pub fn say(&mut self, text: impl AsRef<str>, now: Mono) {
        self.note = Some((Clean::new(text), now, false));
    }

    /// Says that something is not right.
    pub fn complain(&mut self, text: impl AsRef<str>, now: Mono) {
        self.note = Some((Clean::new(text), now, true));
    }

    /// Puts out an old word.
    pub fn tick(&mut self, now: Mono) {
        if self.note.as_ref().is_some_and(|(_, since, _)| now.since(*since) > NOTE_STAYS) {
            self.note = None;
        }
    }

    /// Sorts and counts what the tab at hand shows.
    pub fn refresh(&mut self) {
        match self.tab {
            Tab::Hosts => self.sort_hosts(),
            Tab::Timeline if super::view::shows_worst(self.size) => self.sort_hosts(),
            Tab::Timeline | Tab::Acts => self.find_set(),
            Tab::Compare => {
                if let Some(other) = &mut self.other {
                    other.differences = compare::differences(&self.timeline, &other.timeline);
                }
            }
            Tab::Decisions | Tab::Export => {}
        }
        let (count, page) = (self.list_len(), self.page());
        self.list().settle(count, page);
        if let Some(log) = &mut self.log {
            log.list.settle(log.entries.len(), page);
        }
    }

    fn sort_hosts(&mut self) {
        self.find_set();
        let (timeline, end) = (&self.timeline, self.timeline.end());
        let hosts = timeline.hosts();
        let mut order: Vec<u32> = (0..hosts.len())
            .filter(|host| timeline.is_shown(*host))
            .filter_map(|host| u32::try_from(host).ok())
            .collect();
        let host = |number: &u32| hosts.get(*number as usize);
        let figure = |host: &HostSummary| match self.sort {
            HostSort::Held => host.held_until(end),
            HostSort::Refused => host.refusals as f64,
            HostSort::Errors => errors(host) as f64,
            HostSort::Requests => host.requests as f64,
            HostSort::Slowed => -host.original_rate.zip(host.rate_so_far()).map_or(1.0, |(first, last)| last / first),
            HostSort::Name => 0.0,
        };
        order.sort_by(|one, other| match (host(one), host(other)) {
            (Some(one), Some(other)) => figure(other)
                .total_cmp(&figure(one))
                .then_with(|| {
                    if self.sort == HostSort::Name { one.host.cmp(&other.host) } else { std::cmp::Ordering::Equal }
                })
                .then_with(|| turned_away(other).cmp(&turned_away(one)))
                .then_with(|| other.refusals.cmp(&one.refusals))
                .then_with(|| other.requests.cmp(&one.requests))
                .then_with(|| one.host.cmp(&other.host)),
            _ => std::cmp::Ordering::Equal,
        });
        if self.reversed {
            order.reverse();
        }
        self.order = order;
    }

    fn find_set(&mut self) {
        let mut named = Vec::new();
        let mut count = 0;
        for host in self.timeline.hosts().iter().filter(|host| host.paused || host.overriding.is_some()) {
            count += 1;
            if named.len() < SET_NAMED {
                let rate = host.overriding.and_then(|overriding| overriding.rate);
                let what = match (host.paused, host.overriding, rate) {
                    (true, None, _) => String::from("paused"),
                    (true, Some(_), _) => String::from("paused, override"),
                    (false, _, Some(rate)) => format!("override {rate:.2}/s"),
                    (false, ..) => String::from("override"),
                };
                named.push(Clean::new(format!("{} {what}", host.host)));
            }
        }
        self.still_set = (named, count);
    }
}

/// Answers of the class 4xx.
pub fn client_errors(host: &HostSummary) -> u64 {
    host.by_status.0.iter().filter(|(status, _)| (400..500).contains(status)).map(|(_, count)| count).sum()
}

/// Whether nine of ten answers or more were 4xx: then it stands above the healthy ones.
fn turned_away(host: &HostSummary) -> bool {
    host.requests > 0 && client_errors(host) >= host.requests - host.requests / 10
}

/// Errors of the server and of the network.
pub fn errors(host: &HostSummary) -> u64 {
    server_errors(host).saturating_add(network_errors(host))
}

/// Errors of the server.
pub fn server_errors(host: &HostSummary) -> u64 {
    host.by_outcome.get(Some(Outcome::ServerError))
}

/// No whole answer.
pub fn network_errors(host: &HostSummary) -> u64 {
    let network = host.by_outcome.0.iter().filter(|(outcome, _)| outcome.is_some_and(Outcome::is_network));
    network.map(|(_, count)| count).sum()
}
