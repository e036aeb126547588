//! When it happened: a run's answers, decisions and acts over time, from its journal, live or finished.
//!
//! [`Timeline`] is the aggregate: pure, fed record by record, of bounded size but for the hosts (some hundred
//! bytes each, as in the summary). [`Follow`] feeds it from the files piece by piece, and goes on where it
//! stopped when they have grown. Neither draws; neither knows how long a piece may take.

pub mod bins;
pub mod crowd;
pub mod entry;
pub mod follow;
mod row;

use std::path::Path;

use super::reader::{Damage, EventRecord};
use super::summary::{HostSummary, Summary, Tally};
use crate::clock::Wall;
use crate::control::{Mono, Outcome, Value, What, Who};
use crate::text::Clean;
use bins::{Bins, Code, Key, Mark};
use entry::{Entry, Kept};

pub use follow::{Follow, Progress};

/// The newest entries that are kept of each kind; older ones are counted, and stand in `events.jsonl`.
pub const ENTRIES_MAX: usize = 5_000;

/// Decides by its name whether a host is counted.
pub type Takes = Box<dyn Fn(&str) -> bool + Send>;

/// A run over time. See the module's text.
pub struct Timeline {
    takes: Option<Takes>,
    /// Whether the host with this number is counted.
    shown: Vec<bool>,
    bins: Bins,
    tally: Tally,
    decisions: Kept,
    acts: Kept,
    alerts: Kept,
    damage: Damage,
}

/// One request, as the timeline takes it.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When it was sent.
    pub time: Wall,
    /// HTTP status.
    pub status: Option<u16>,
    /// `None` = a word of another version.
    pub outcome: Option<Outcome>,
    /// Milliseconds; NaN = not told.
    pub latency_ms: f64,
    /// Tokens per second; NaN = not told.
    pub rate: f64,
}

impl Timeline {
    /// Nothing yet, of the run in `dir`. Only hosts that `takes` takes are counted over time; the summary
    /// counts all of them.
    pub fn new(dir: &Path, takes: Option<Takes>) -> Self {
        Self {
            takes,
            shown: Vec::new(),
            bins: Bins::default(),
            tally: Tally::new(dir),
            decisions: Kept::default(),
            acts: Kept::default(),
            alerts: Kept::default(),
            damage: Damage::default(),
        }
    }

    /// Whether only some hosts are counted.
    pub fn is_filtered(&self) -> bool {
        self.takes.is_some()
    }

    /// Counts over time.
    pub fn bins(&self) -> &Bins {
        &self.bins
    }

    /// Totals of the whole run, all hosts. What is worked out at the end is not: see [`HostSummary::held_until`]
    /// and [`HostSummary::rate_so_far`].
    pub fn summary(&self) -> &Summary {
        &self.tally.summary
    }

    /// The summary as of now, with what is worked out at the end.
    pub fn into_summary(self) -> Summary {
        self.tally.finish(self.damage)
    }

    /// The hosts in the order of their first appearance.
    pub fn hosts(&self) -> &[HostSummary] {
        &self.tally.summary.hosts
    }

    /// Whether the host with this number passes the filter.
    pub fn is_shown(&self, host: usize) -> bool {
        self.shown.get(host).copied().unwrap_or(true)
    }

    /// Changes of rates, and holds.
    pub fn decisions(&self) -> &Kept {
        &self.decisions
    }

    /// What the operator did.
    pub fn acts(&self) -> &Kept {
        &self.acts
    }

    /// Concerns, starts and stops, and the program's own words.
    pub fn alerts(&self) -> &Kept {
        &self.alerts
    }

    /// What could not be read.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The monotonic time up to which holds count.
    pub fn end(&self) -> Option<Mono> {
        self.tally.end()
    }

    /// The run has said that it ended.
    pub fn has_stopped(&self) -> bool {
        self.tally.has_stopped()
    }

    /// The number of a host.
    pub fn host_number(&mut self, name: &Clean) -> usize {
        let number = self.tally.host_number(name);
        while self.shown.len() <= number {
            let name = self.tally.summary.hosts.get(self.shown.len()).map_or("", |host| host.host.as_str());
            let shown = self.takes.as_ref().is_none_or(|takes| takes(name));
            self.shown.push(shown);
        }
        number
    }

    /// Takes a request of the host with this number.
    pub fn request(&mut self, host: usize, ended: Ended) {
        let Ended { time, status, outcome, latency_ms, rate } = ended;
        self.tally.count(host, time, status, outcome, rate);
        if !self.is_shown(host) {
            return;
        }
        let code = Code::of(status, outcome);
        self.bins.request(time, code, u32::try_from(host).unwrap_or(u32::MAX), latency_ms);
    }

    /// Takes a decision.
    pub fn event(&mut self, event: &EventRecord) {
        self.tally.event(event);
        let shown = event.host.as_ref().is_none_or(|host| {
            let number = self.host_number(host);
            self.is_shown(number)
        });
        let Some(what) = event.what.known().filter(|_| shown) else { return };
        let who = event.who.known();
        // A concern that went away calls for nobody.
        let cleared = what == What::Concern && event.after == Value::None;
        let mark = Mark::of(who, what).filter(|_| !cleared);
        if let Some(mark) = mark {
            self.bins.add(event.time, Key::Mark(mark));
        }
        let Some(entry) = Entry::of(event) else { return };
        match (who, mark) {
            (Some(Who::Operator), _) => self.acts.push(entry),
            (_, Some(Mark::Decision)) => self.decisions.push(entry),
            _ => self.alerts.push(entry),
        }
    }

    /// The entries of all kinds from `from` on and before `to`, oldest first, at most `most`; and how many more
    /// there are among those kept.
    pub fn entries(&self, from: Wall, to: Wall, most: usize) -> (Vec<&Entry>, usize) {
        let mut all: Vec<&Entry> =
            [&self.acts, &self.alerts, &self.decisions].into_iter().flat_map(|kept| kept.between(from, to)).collect();
        all.sort_by_key(|entry| entry.time);
        let more = all.len().saturating_sub(most);
        // What people did comes before what the controller did, if not all fits.
        if more > 0 {
            all.sort_by_key(|entry| (entry.who != Some(Who::Operator), entry.time));
            all.truncate(most);
            all.sort_by_key(|entry| entry.time);
        }
        (all, more)
    }
}

impl std::fmt::Debug for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timeline").field("requests", &self.tally.summary.requests).finish_non_exhaustive()
    }
}
