//! What passes between the engine and whoever watches it: snapshots out, requests in.
//!
//! Both channels are bounded. The engine builds a snapshot only when the watcher has taken the last
//! one, so a dead, slow or absent watcher costs the crawl nothing; changed rows gather meanwhile (at
//! most one mark a host). Requests wait in a queue of [`REQUESTS_MAX`]; a full one refuses the key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::config::{Config, ConfigErrors, UiConfig};
use crate::control::{Command, EndpointView, HostCounts, HostId, HostView, Mono, Outcome, Who};
use crate::journal::timeline::bins::Bins;
use crate::text::Clean;

/// Requests that may wait for the engine.
pub const REQUESTS_MAX: usize = 256;
/// Log lines a snapshot carries at most; older ones are in the journal.
pub const LOG_LINES_MAX: usize = 500;
/// Requests and decisions of the host in focus that a watcher is shown.
pub const FOCUS_MAX: usize = 50;

/// One host with its name.
#[derive(Clone, Debug)]
pub struct HostRow {
    /// The host as bucket key, `name[:port]`.
    pub name: Clean,
    /// The group that it shares a bucket with, if that has other hosts, too.
    pub group: Option<Clean>,
    /// Paths of its endpoints, lane 1 first.
    pub endpoints: Arc<[Clean]>,
    /// All the core knows.
    pub view: HostView,
}

/// One line of the log of decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// When, for the screen.
    pub wall: Wall,
    /// When, for ordering.
    pub at: Mono,
    /// By whom.
    pub who: Who,
    /// About which host; empty = the whole crawl.
    pub host: Clean,
    /// What happened and why, one line.
    pub text: Clean,
}

/// Something that happened to the host in focus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recent {
    /// A wire request ended.
    Request {
        /// When it was sent, for the screen.
        wall: Wall,
        /// Path and query.
        path: Clean,
        /// Of the response, if there was one.
        status: Option<u16>,
        /// What it ended in.
        outcome: Outcome,
        /// From send to the end of the body.
        latency: Duration,
    },
    /// Something was decided about it.
    Decision(LogLine),
}

/// Where the robots.txt of an authority is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RobotsState {
    /// On its way, after so many redirects.
    InFlight {
        /// Redirects followed so far.
        hops: u8,
    },
    /// It is known, and asked for again then.
    Known {
        /// Until when it holds.
        until: Mono,
    },
    /// It could not be had; the next try is due then.
    Failed {
        /// When.
        until: Mono,
        /// Failed tries in a row; 0 = the next question tries again.
        tries: u32,
    },
    /// Its address is one that is not connected to; asked again then.
    Refused {
        /// When.
        until: Mono,
    },
}

/// Whom the rules in force are written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum RobotsGroup {
    /// There is no group for us: nothing is forbidden.
    #[default]
    Nobody,
    /// The group `*`.
    Everybody,
    /// The group that names this crawler.
    Us,
}

/// The robots.txt of one authority of the host in focus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RobotsView {
    /// Whose, `https://example.com`.
    pub authority: Clean,
    /// Where it is in its life.
    pub state: RobotsState,
    /// The copy in use, if there is one: when it was fetched, whom its rules are for, how many they are.
    pub copy: Option<(Mono, RobotsGroup, usize)>,
}

/// The host that a watcher looks at: what happened to it lately, and what its row does not tell.
#[derive(Clone, PartialEq, Debug)]
pub struct Focus {
    /// Which.
    pub host: HostId,
    /// Oldest first; at most [`FOCUS_MAX`].
    pub recent: Vec<Recent>,
    /// Its endpoints, in the order of their paths in the row.
    pub endpoints: Vec<EndpointView>,
    /// What is known of its robots.txt, over http and over https; `None` = it is not asked for.
    pub robots: Option<Vec<RobotsView>>,
    /// URLs that robots.txt forbade since the run began.
    pub denied: u64,
}

/// Where the crawl is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Granting.
    #[default]
    Running,
    /// No new grants; in-flight requests end.
    Draining,
    /// Over: nothing left to do.
    Finished,
    /// Over: stopped before the end.
    Stopped,
}

/// Numbers about the whole crawl.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Life cycle.
    pub phase: Phase,
    /// Hosts by state and concern.
    pub counts: HostCounts,
    /// URLs with a final answer.
    pub urls_done: u64,
    /// URLs given up.
    pub urls_failed: u64,
    /// URLs never sent.
    pub urls_skipped: u64,
    /// URLs queued or in flight.
    pub urls_pending: u64,
    /// All inputs were read to their end: the four numbers add up to the crawl.
    pub inputs_read: bool,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests in flight at most.
    pub concurrency: u32,
    /// Wire requests so far.
    pub requests: u64,
    /// Requests per second over the last 10 s.
    pub rate_now: f64,
    /// Requests per second over the last 15 min (or since the start, if shorter).
    pub rate_15m: f64,
    /// Requests per second, per minute of the last hour, newest last; shorter at first.
    pub rate_history: Vec<f32>,
    /// Answers of the last 5 minutes by class (2xx 3xx 4xx 5xx error).
    pub classes: [u64; 5],
    /// The operator halted everything.
    pub halted: bool,
    /// Granting stopped for a reason of our own (journal cannot be written).
    pub stopped_because: Option<Clean>,
    /// Our own machine refused something (descriptors, ports, memory) a moment ago: granting rests now and then.
    pub resting_because: Option<Clean>,
    /// What is wrong with the configuration file, since it was read last; the old one is in force.
    pub config_trouble: Option<Clean>,
    /// What is wrong with our own files though the crawl goes on; a few at most.
    pub alarms: Vec<Clean>,
    /// Time until 95 % of the URLs are done; only when the queue shrinks.
    pub eta_bulk: Option<Duration>,
    /// Time until the slowest host is done, and that host.
    pub eta_tail: Option<(Duration, HostId)>,
    /// Bytes in the journal.
    pub journal_bytes: u64,
    /// Input lines that could not be used.
    pub bad_lines: u64,
}

impl Totals {
    /// What stands on every screen until it is mended, though it stops nothing.
    pub fn banners(&self) -> impl Iterator<Item = &Clean> {
        self.config_trouble.iter().chain(&self.alarms)
    }
}

/// What a watcher gets, at most `fps` times a second.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The engine's time when this was taken.
    pub now: Mono,
    /// Wall time then.
    pub wall: Wall,
    /// Since the run began.
    pub up: Duration,
    /// The whole crawl.
    pub totals: Totals,
    /// Rows that changed since the last snapshot (all, in the first).
    pub changed: Vec<HostRow>,
    /// Log lines since the last snapshot, oldest first; at most [`LOG_LINES_MAX`].
    pub log: Vec<LogLine>,
    /// Answers to requests since the last snapshot.
    pub answers: Vec<ActAnswer>,
    /// Lines for whoever has no screen: bad input lines, URLs that were refused; at most
    /// [`LOG_LINES_MAX`], the rest is in the journal.
    pub notices: Vec<Clean>,
    /// Counts over time since the run began; only while the watcher asks for it, at most once a second.
    pub timeline: Option<Arc<Bins>>,
    /// The host in focus, whenever something new happened to it.
    pub focus: Option<Arc<Focus>>,
    /// The configuration was read again, and says this about the screen now.
    pub ui: Option<Arc<UiSettings>>,
}

/// What the configuration says about the screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UiSettings {
    /// The `[ui]` section.
    pub ui: UiConfig,
    /// The `[keys]` section.
    pub keys: BTreeMap<String, String>,
}

/// The configuration file, read once more.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Whom to answer; `None` = the file changed by itself.
    pub ticket: Option<u64>,
    /// Which file.
    pub file: Clean,
    /// What it says, or what is wrong with it.
    pub loaded: Arc<Result<Config, ConfigErrors>>,
}

impl PartialEq for Reading {
    /// The same reading, not the same words.
    fn eq(&self, other: &Self) -> bool {
        self.ticket == other.ticket && Arc::ptr_eq(&self.loaded, &other.loaded)
    }
}

/// A change of the crawl itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A note for the journal.
    Note(String),
    /// One more URL, or the name of a file of them.
    Add(String),
    /// URLs that match this regular expression are not fetched any more.
    Exclude(String),
    /// URLs that match this regular expression are no trap.
    Allow(String),
    /// Fetches in flight at most.
    Concurrency(u32),
    /// The configuration file is read again.
    Reload,
    /// These hosts share one bucket, whatever the configuration says; one alone: with those that it seems to share a limit
    /// with.
    Group(Vec<HostId>),
    /// These hosts share a bucket by [`Change::Group`] no more.
    Ungroup(Vec<HostId>),
}

/// What a watcher may ask for.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// A command on hosts (none are needed for halt, go on, undo, redo).
    Act {
        /// The watcher's number for it, to find its answer.
        ticket: u64,
        /// What to do.
        command: Command,
        /// To which hosts.
        targets: Vec<HostId>,
        /// How the targets were chosen, for the journal: "marked", a filter, a host's name.
        chosen_by: Clean,
    },
    /// Snapshots carry the timeline from now on: a copy of at most about 1 MB a second.
    ShowTimeline,
    /// They carry it no more.
    HideTimeline,
    /// Change the crawl itself.
    Change {
        /// The watcher's number for it, to find its answer.
        ticket: u64,
        /// What to change.
        change: Change,
    },
    /// The configuration file was read again.
    Reread(Reading),
    /// The configuration file is not watched, in words that say why.
    Unwatched(Clean),
    /// Look closely at a host, or at none: snapshots then carry what happens to it.
    Focus(Option<HostId>),
    /// End what is in flight, then leave.
    Drain,
    /// Leave now: what is in flight is requeued.
    Stop,
    /// The terminal is gone (hang-up).
    TerminalGone,
}

/// The engine's answer to an [`Request::Act`].
#[derive(Clone, PartialEq, Debug)]
pub struct ActAnswer {
    /// The ticket of the request.
    pub ticket: u64,
    /// Whether anything changed.
    pub changed: usize,
    /// One line for the footer: what was done, to whom, and what was skipped and why.
    pub text: Clean,
}
