//! What a run came to, from its journal: one pass over the requests, one over the events.
//!
//! Memory grows with the number of hosts (some hundred bytes each: status codes, rates, holds), never
//! with the number of requests or events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::reader::{Damage, EventReader, EventRecord, ReadError, RequestReader, RequestRecord};
use crate::clock::Wall;
use crate::control::host::CRAWL_DELAY_MAX;
use crate::control::{Class, Mono, Outcome, Override, Value, What, Who};
use crate::text::Clean;

/// The operator's last actions that are kept for the text.
pub const ACTIONS_KEPT: usize = 10;

/// A run in numbers. The order of the public fields is the order of the keys of `review --json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Wire requests.
    pub requests: u64,
    /// Those that ended `ok`.
    pub ok: u64,
    /// Those that were throttled.
    pub throttled: u64,
    /// Those that ended `server_error`.
    pub server_errors: u64,
    /// Those without a whole, usable response.
    pub network_errors: u64,
    /// URLs with a final answer.
    pub urls_done: u64,
    /// URLs given up.
    pub urls_failed: u64,
    /// URLs queued or in flight.
    pub urls_pending: u64,
    /// URLs never sent.
    pub urls_skipped: u64,
    /// Requests by HTTP status. Those without one are missing here: see `by_outcome`.
    #[serde(serialize_with = "statuses")]
    pub by_status: Counts<u16>,
    /// When the first request was sent.
    #[serde(serialize_with = "moment")]
    pub first: Option<Wall>,
    /// When the last request was sent.
    #[serde(serialize_with = "moment")]
    pub last: Option<Wall>,
    /// Each host, by name.
    pub hosts: Vec<HostSummary>,
    /// Requests by outcome: adds up to `requests`.
    #[serde(serialize_with = "outcomes")]
    pub by_outcome: Counts<Option<Outcome>>,
    /// Each group of hosts that share a bucket, by name.
    pub groups: Vec<GroupSummary>,
    /// Lines of the journal that make no sense.
    pub damaged_lines: u64,
    /// What could not be read.
    #[serde(skip)]
    pub damage: Damage,
    /// By class: 2xx, 3xx, 4xx, 5xx, no whole answer.
    #[serde(skip)]
    pub classes: [u64; 5],
    /// The operator's acts by word.
    #[serde(skip)]
    pub acts: BTreeMap<&'static str, u64>,
    /// The last of them.
    #[serde(skip)]
    pub last_acts: VecDeque<EventRecord>,
    /// The whole crawl was halted at the end.
    #[serde(skip)]
    pub halted: bool,
    /// The first URLs that were given up, that were never sent, and input lines that were no URL.
    #[serde(skip)]
    pub mishaps: Mishaps,
    /// Where the journal is.
    #[serde(skip)]
    pub dir: PathBuf,
}

/// What of each kind of mishap is named one by one; all stand in `events.jsonl`.
pub const MISHAPS_NAMED: usize = 20;

/// URLs that got no answer, and lines that were no URL: the first [`MISHAPS_NAMED`] of each kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mishaps {
    /// URLs given up: URL and reason.
    pub failed: Vec<(Clean, Clean)>,
    /// URLs never sent: URL and reason.
    pub skipped: Vec<(Clean, Clean)>,
    /// Input lines: `FILE:LINE: reason`.
    pub bad_lines: Vec<Clean>,
    /// How many bad lines there were.
    pub bad_lines_seen: u64,
}

impl Mishaps {
    fn note(&mut self, what: What, event: &EventRecord) {
        let named = || (event.url.clone().unwrap_or_default(), event.why.clone());
        match what {
            What::UrlFailed if self.failed.len() < MISHAPS_NAMED => self.failed.push(named()),
            What::UrlSkipped if self.skipped.len() < MISHAPS_NAMED => self.skipped.push(named()),
            What::BadInput => {
                self.bad_lines_seen += 1;
                if self.bad_lines.len() < MISHAPS_NAMED {
                    self.bad_lines.push(event.why.clone());
                }
            }
            _ => {}
        }
    }
}

/// Hosts that share a bucket, in numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupSummary {
    /// The registrable domain, or the address.
    pub group: Clean,
    /// Hosts that were in it at the end.
    pub hosts: u64,
    /// The rate that was learned at the end, if it ever moved.
    pub last_rate: Option<f64>,
    /// How long all of them were held, overlapping holds counted once.
    pub held_seconds: f64,
    #[serde(skip)]
    hold: Option<(Mono, Mono)>,
}

/// One host in numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostSummary {
    /// The bucket key.
    pub host: Clean,
    /// Wire requests.
    pub requests: u64,
    /// By HTTP status.
    #[serde(serialize_with = "statuses")]
    pub by_status: Counts<u16>,
    /// As configured or set by the site's Crawl-delay, tokens per second; 0 if the journal does not tell.
    pub original_rate: Option<f64>,
    /// The rate at the end: the override if there was one, else the controller's.
    pub last_rate: Option<f64>,
    /// How long it was held, overlapping holds counted once, up to the end of the run.
    pub held_seconds: f64,
    /// Pauses by the operator.
    pub pauses: u64,
    /// Overrides by the operator.
    pub overrides: u64,
    /// By outcome: adds up to `requests`.
    #[serde(serialize_with = "outcomes")]
    pub by_outcome: Counts<Option<Outcome>>,
    /// The group that it shares a bucket with at the end. What holds all of that stands there.
    pub group: Option<Clean>,
    /// Answers that turned us away: throttles, and every 401 and 403. An outcome calls those a refusal only in a run after
    /// a success, so that pages for members throttle nobody; but whoever never let us in refused as well.
    #[serde(skip)]
    pub refusals: u64,
    /// The controller once cut its rate below the original.
    #[serde(skip)]
    pub slowed: bool,
    /// Paused at the end.
    #[serde(skip)]
    pub paused: bool,
    /// The override at the end.
    #[serde(skip)]
    pub overriding: Option<Override>,
    #[serde(skip)]
    adaptive: Option<f64>,
    /// The limit that the site's Crawl-delay sets.
    #[serde(skip)]
    site_rate: Option<f64>,
    /// The rate in the last row of `requests.csv`, for journals without rate events.
    #[serde(skip)]
    row_rate: Option<f64>,
    /// The hold in force, from and until.
    #[serde(skip)]
    hold: Option<(Mono, Mono)>,
}

/// Few distinct keys with their counts: smaller than a map, and there are millions of hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts<K>(pub Vec<(K, u64)>);

impl HostSummary {
    /// Seconds that it was held up to `end`, the hold in force included.
    pub fn held_until(&self, end: Option<Mono>) -> f64 {
        let running = self.hold.zip(end).map_or(0.0, |((from, until), end)| until.min(end).secs_since(from));
        self.held_seconds + running
    }

    /// The rate by what is known so far: the override, else the controller's, else the last row's.
    pub fn rate_so_far(&self) -> Option<f64> {
        let overridden = self.overriding.and_then(|overriding| overriding.rate);
        overridden.or(self.adaptive).or(self.row_rate).or(self.original_rate)
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq + Copy> Counts<K> {
    fn add(&mut self, key: K) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => self.0.push((key, 1)),
        }
    }

    /// The count of one key.
    pub fn get(&self, key: K) -> u64 {
        self.0.iter().find(|(known, _)| *known == key).map_or(0, |(_, count)| *count)
    }

    /// All counts together.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

fn statuses<S: Serializer>(counts: &Counts<u16>, serializer: S) -> Result<S::Ok, S::Error> {
    let map: BTreeMap<String, u64> = counts.0.iter().map(|(status, count)| (status.to_string(), *count)).collect();
    map.serialize(serializer)
}

fn outcomes<S: Serializer>(counts: &Counts<Option<Outcome>>, serializer: S) -> Result<S::Ok, S::Error> {
    // `other`: a word of another version.
    let word = |outcome: Option<Outcome>| outcome.map_or("other", Outcome::as_str);
    let map: BTreeMap<&str, u64> = counts.0.iter().map(|(outcome, count)| (word(*outcome), *count)).collect();
    map.serialize(serializer)
}

fn moment<S: Serializer>(wall: &Option<Wall>, serializer: S) -> Result<S::Ok, S::Error> {
    wall.map(Wall::rfc3339).serialize(serializer)
}

/// Reads the journal in `dir`, live or finished. Folders without one give an empty summary.
pub fn summarise(dir: &Path) -> Result<Summary, ReadError> {
    let mut reading = Tally::new(dir);
    let mut requests = RequestReader::open(dir)?;
    for record in &mut requests {
        reading.request(&record?);
    }
    let mut events = EventReader::open(dir)?;
    for record in &mut events {
        reading.event(&record?);
    }
    let mut damage = requests.damage().clone();
    damage.add(events.damage());
    Ok(reading.finish(damage))
}

/// The summary in the making.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) summary: Summary,
    index: HashMap<Clean, usize>,
    groups: HashMap<Clean, usize>,
    /// Monotonic and wall time of the last event of the run at hand.
    now: Option<(Mono, Wall)>,
    /// The run at hand has ended: holds end with it.
    stopped: bool,
}

impl Tally {
    /// Nothing yet, of the run in `dir`.
    pub(super) fn new(dir: &Path) -> Self {
        Self { summary: Summary { dir: dir.to_path_buf(), ..Summary::default() }, ..Self::default() }
    }

    /// The host's number, given by order of appearance.
    pub(super) fn host_number(&mut self, name: &Clean) -> usize {
        let hosts = &mut self.summary.hosts;
        let next = hosts.len();
        let index = *self.index.entry(name.clone()).or_insert(next);
        if index == next {
            hosts.push(HostSummary { host: name.clone(), ..HostSummary::default() });
        }
        index
    }

    fn request(&mut self, record: &RequestRecord) {
        let host = self.host_number(&record.host);
        self.count(host, record.time, record.status, record.outcome.known(), record.rate);
    }

    /// A request of the host with this number.
    pub(super) fn count(&mut self, host: usize, time: Wall, status: Option<u16>, outcome: Option<Outcome>, rate: f64) {
        let network = outcome.is_some_and(Outcome::is_network);
        let class = match status {
            Some(status) if !network => Class::of_status(status),
            _ => Class::Error,
        };
        let summary = &mut self.summary;
        summary.requests += 1;
        summary.classes[class as usize] += 1;
        summary.by_outcome.add(outcome);
        match outcome {
            Some(Outcome::Ok) => summary.ok += 1,
            Some(Outcome::Throttled) => summary.throttled += 1,
            Some(Outcome::ServerError) => summary.server_errors += 1,
            _ if network => summary.network_errors += 1,
            _ => {}
        }
        // Rows stand in the order in which requests ended, not in which they were sent.
        summary.first = Some(summary.first.map_or(time, |first| first.min(time)));
        summary.last = Some(summary.last.map_or(time, |last| last.max(time)));
        if let Some(status) = status {
            summary.by_status.add(status);
        }
        let Some(host) = summary.hosts.get_mut(host) else { return };
        host.requests += 1;
        host.by_outcome.add(outcome);
        if let Some(status) = status {
            host.by_status.add(status);
        }
        let away = matches!(status, Some(401 | 403)) || matches!(outcome, Some(Outcome::Throttled | Outcome::Refused));
        host.refusals += u64::from(away);
        if rate.is_finite() {
            host.row_rate = Some(rate);
        }
    }

    /// A decision.
    pub(super) fn event(&mut self, event: &EventRecord) {
        let Some(what) = event.what.known() else { return };
        if matches!(what, What::Start | What::ResumeRun) {
            let goes_on = event.mono.zip(self.now).is_some_and(|(mono, (last, _))| mono >= last);
            if what == What::Start || !goes_on {
                // Monotonic time begins anew; what was held by the last run's clock ended with it. (It ended at a stop,
                // too; a run that was killed goes on with its clock and its holds.)
                self.end_holds(self.now.map(|(mono, _)| mono));
            }
            self.stopped = false;
        }
        if let Some(mono) = event.mono {
            self.now = Some((mono, event.time));
        }
        self.count_urls(what, &event.after);
        self.summary.mishaps.note(what, event);
        match what {
            What::Halt => self.summary.halted = true,
            What::GoOn => self.summary.halted = false,
            What::Stop => {
                self.end_holds(event.mono);
                self.stopped = true;
            }
            _ => {}
        }
        if let Some(name) = &event.host {
            let number = self.host_number(name);
            if let Some(host) = self.summary.hosts.get_mut(number) {
                host_event(host, what, event);
                group_event((&mut self.summary.groups, &mut self.groups), host, what, event);
            }
        }
        if event.who.known() == Some(Who::Operator) {
            *self.summary.acts.entry(act_word(what)).or_default() += 1;
            if self.summary.last_acts.len() == ACTIONS_KEPT {
                self.summary.last_acts.pop_front();
            }
            self.summary.last_acts.push_back(event.clone());
        }
    }

    fn count_urls(&mut self, what: What, after: &Value) {
        let summary = &mut self.summary;
        match (what, after) {
            (
                What::Progress | What::Stop | What::ResumeRun | What::Retry,
                Value::Counts { urls_done, urls_failed, urls_pending, urls_skipped },
            ) => {
                summary.urls_done = *urls_done;
                summary.urls_failed = *urls_failed;
                summary.urls_pending = *urls_pending;
                summary.urls_skipped = *urls_skipped;
            }
            (What::UrlFailed, _) => {
                summary.urls_failed += 1;
                summary.urls_pending = summary.urls_pending.saturating_sub(1);
            }
            (What::UrlSkipped, _) => {
                summary.urls_skipped += 1;
                summary.urls_pending = summary.urls_pending.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Holds that are in force end now, at `end`.
    fn end_holds(&mut self, end: Option<Mono>) {
        let hosts = self.summary.hosts.iter_mut().map(|host| (&mut host.hold, &mut host.held_seconds));
        let groups = self.summary.groups.iter_mut().map(|group| (&mut group.hold, &mut group.held_seconds));
        for (hold, held) in hosts.chain(groups) {
            if let (Some((from, until)), Some(end)) = (hold.take(), end) {
                *held += until.min(end).secs_since(from);
            }
        }
    }

    /// Until when holds count: a run that is live, or was killed, lasted at least until its last request.
    pub(super) fn end(&self) -> Option<Mono> {
        self.now.map(|(mono, wall)| {
            let later = self.summary.last.map_or(0, |last| last.0.saturating_sub(wall.0)).max(0);
            mono.after_secs(later as f64 / 1e6)
        })
    }

    /// The run at hand has ended.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn finish(mut self, damage: Damage) -> Summary {
        let end = self.end();
        if !self.stopped {
            self.end_holds(end);
        }
        for host in &mut self.summary.hosts {
            let site = host.site_rate.unwrap_or(f64::INFINITY);
            host.last_rate = Some(host.rate_so_far().unwrap_or_default().min(site));
            host.original_rate = Some(host.original_rate.unwrap_or_default().min(site));
            // Sums of floats: a thousandth of a second is all that is meant.
            host.held_seconds = (host.held_seconds * 1_000.0).round() / 1_000.0;
        }
        for group in &mut self.summary.groups {
            group.held_seconds = (group.held_seconds * 1_000.0).round() / 1_000.0;
        }
        self.summary.groups.retain(|group| group.hosts > 0);
        self.summary.groups.sort_by(|one, other| one.group.cmp(&other.group));
        self.summary.hosts.sort_by(|one, other| one.host.cmp(&other.host));
        self.summary.damaged_lines = damage.lines;
        self.summary.damage = damage;
        self.summary
    }
}

/// What an event says about its host.
fn host_event(host: &mut HostSummary, what: What, event: &EventRecord) {
    let by_operator = event.who.known() == Some(Who::Operator);
    match (what, &event.after) {
        // A host is asked for the first time: its original.
        (What::Rate, Value::Number(rate)) if event.who.known() == Some(Who::System) && event.before == Value::None => {
            host.original_rate = Some(*rate);
        }
        // The configuration was read again.
        (What::Original, Value::Number(rate)) => host.original_rate = Some(*rate),
        // The site's own limit is an original, too.
        (What::CrawlDelay, Value::Number(seconds)) if *seconds > 0.0 => {
            let obeyed = seconds.min(CRAWL_DELAY_MAX.as_secs_f64());
            host.site_rate = Some(1.0 / obeyed);
        }
        (What::CrawlDelay, _) => host.site_rate = None,
        (What::Rate, Value::Number(rate)) => {
            host.adaptive = Some(*rate);
            host.slowed |= host.original_rate.is_some_and(|original| *rate < original);
        }
        (What::Hold, Value::Number(seconds)) => {
            if let Some(now) = event.mono {
                hold(&mut host.hold, &mut host.held_seconds, now, now.after_secs(*seconds));
            }
        }
        (What::Wake, _) => {
            if let (Some(now), Some((from, until))) = (event.mono, host.hold.take()) {
                host.held_seconds += until.min(now).secs_since(from);
            }
        }
        _ => {}
    }
    match what {
        What::Pause => {
            host.paused = true;
            host.pauses += u64::from(by_operator);
        }
        What::Resume => host.paused = false,
        What::Override => host.overrides += u64::from(by_operator),
        What::Auto => host.overriding = None,
        What::Reset => {
            host.overriding = None;
            host.adaptive = host.original_rate.or(host.adaptive);
        }
        _ => {}
    }
    if let Value::Settings(settings) = &event.after {
        host.paused = settings.pause.is_some();
        host.overriding = settings.overriding;
    }
}

/// What an event of a host says about the group that it is in.
fn group_event(
    (groups, index): (&mut Vec<GroupSummary>, &mut HashMap<Clean, usize>),
    host: &mut HostSummary,
    what: What,
    event: &EventRecord,
) {
    let mut of = |name: &Clean| {
        *index.entry(name.clone()).or_insert_with(|| {
            groups.push(GroupSummary { group: name.clone(), ..GroupSummary::default() });
            groups.len() - 1
        })
    };
    if what == What::Group {
        let left = host.group.take().map(|name| of(&name));
        let joined = match &event.after {
            Value::Text(name) => host.group.insert(Clean::new(name)).clone().into(),
            _ => None,
        };
        let joined = joined.map(|name: Clean| of(&name));
        if let Some(group) = left.and_then(|at| groups.get_mut(at)) {
            group.hosts = group.hosts.saturating_sub(1);
        }
        if let Some(group) = joined.and_then(|at| groups.get_mut(at)) {
            group.hosts += 1;
        }
        return;
    }
    if !matches!(what, What::GroupRate | What::GroupHold) {
        return;
    }
    let at = host.group.as_ref().map(of);
    let Some(group) = at.and_then(|at| groups.get_mut(at)) else { return };
    match (what, &event.after, event.mono) {
        (What::GroupRate, Value::Number(rate), _) => group.last_rate = Some(*rate),
        (What::GroupHold, Value::Number(seconds), Some(now)) => {
            hold(&mut group.hold, &mut group.held_seconds, now, now.after_secs(*seconds));
        }
        _ => {}
    }
}

/// A hold from `now` until then; one in force is lengthened, never shortened.
fn hold(hold: &mut Option<(Mono, Mono)>, held_seconds: &mut f64, now: Mono, until: Mono) {
    match hold {
        Some((_, end)) if *end >= now => *end = until.max(*end),
        other => {
            if let Some((from, end)) = other.replace((now, until)) {
                *held_seconds += end.secs_since(from);
            }
        }
    }
}

/// The operator's word for what was done.
pub fn act_word(what: What) -> &'static str {
    match what {
        What::Pause => "pause",
        What::Resume => "resume",
        What::Override => "override",
        What::Auto => "auto",
        What::Reset => "reset",
        What::Budget => "budget",
        What::Wake => "wake",
        What::Undo => "undo",
        What::Redo => "redo",
        What::Halt => "halt",
        What::GoOn => "go on",
        What::Note => "note",
        What::Add => "add",
        What::Exclude => "exclude",
        What::Allow => "allow",
        What::Concurrency => "concurrency",
        What::Retry => "retry",
        What::Reload => "reload",
        _ => "other",
    }
}
