//! What the engine hands to the store, each quarter second, and takes over from it at the start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sift::Because;
use super::{Engine, UrlCounts};
use crate::clock::Wall;
use crate::control::{Code, HostId, Lane, Mono, SavedHost, Value, What, Who};
use crate::crawl::address::{host_text, parse_url};
use crate::crawl::frontier::{Admission, Frontier};
use crate::crawl::job::Job;
use crate::crawl::scope::domain_of;
use crate::crawl::traps::Signs;
use crate::store::load::{HeldUrl, Loaded, Lost, Told, URLS_FILE};
use crate::store::states::StateKind;
use crate::store::{Fate, Store, UrlId, UrlsRead};
use crate::text::Clean;

/// The name of what is saved of the crawl as a whole.
pub const RUN_STATE: &str = "run";
/// The name of the operator's notes.
pub const NOTES_STATE: &str = "notes";
/// The name of what the operator can take back.
const HISTORY_STATE: &str = "history";
/// What the names of hosts begin with that are in scope because an input redirected to them.
const GIVEN: &str = "given ";
/// What the names of groups begin with, whose hosts share a bucket.
pub(super) const GROUP: &str = "group ";
/// Hosts with news, 1 to 2 KB each, that make a transaction due before its time: a quarter second of a hundred thousand
/// would be a hundred megabytes, several times over on their way to the disk.
const HOSTS_A_COMMIT: usize = 1_024;
/// The newest notes that are kept; all stand in the journal.
pub const NOTES_MAX: usize = 1_000;

/// What is saved of the crawl as a whole.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunState {
    /// The operator halted it.
    pub halted: bool,
    /// The operator's concurrency, if set.
    pub concurrency: Option<u32>,
    /// Patterns that the operator excluded.
    pub excluded: Vec<String>,
    /// Patterns that the operator allowed: they are no traps.
    pub allowed: Vec<String>,
    /// All inputs were read to their end.
    pub inputs_read: bool,
    /// Input lines that were no URL.
    pub bad_lines: u64,
}

/// The operator's own words.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub time: Wall,
    /// What.
    pub text: Clean,
}

/// What the engine knows of its own persistence.
#[derive(Debug)]
pub(super) struct Persisted {
    /// When it last handed a transaction over.
    committed: Mono,
    /// The crawl's state as it was saved last.
    run: RunState,
    notes: Vec<Note>,
    new_note: bool,
    pub(super) inputs_read: bool,
    /// One of them could not be read to its end.
    pub(super) inputs_broken: bool,
    /// What was found at the start, for the journal; `None` when a run begins.
    pub(super) resumed: Option<String>,
    /// What the store had lost by then.
    pub(super) lost: Vec<Lost>,
    /// Requests that the journal tells beyond what was saved, of hosts that may not be known yet: those of the last
    /// quarter second before a kill.
    late_rows: HashMap<Clean, BTreeMap<Code, u32>>,
}

impl Persisted {
    pub(super) fn new(now: Mono) -> Self {
        let (run, notes, lost, late_rows) = (RunState::default(), Vec::new(), Vec::new(), HashMap::new());
        Self {
            committed: now,
            run,
            notes,
            new_note: false,
            inputs_read: false,
            inputs_broken: false,
            resumed: None,
            lost,
            late_rows,
        }
    }
}

impl Engine {
    /// Goes on where another process ended.
    pub(super) fn restore(&mut self, mut loaded: Loaded) {
        let now = self.now;
        self.persisted.resumed = Some(found(&loaded, loaded.late.len() + loaded.foretold.len()));
        self.persisted.lost = std::mem::take(&mut loaded.lost);
        let late = std::mem::take(&mut loaded.late);
        let foretold = std::mem::take(&mut loaded.foretold);
        let held = std::mem::take(&mut loaded.held);
        for (key, schemes) in std::mem::take(&mut loaded.hosts).iter().zip(&loaded.schemes) {
            let controller = &mut self.controller;
            self.hosts.restore(key, *schemes, &self.config, |policy| controller.add_host(policy));
        }
        self.controller.all_resumed(now);
        self.restore_groups(now, &loaded);
        for host in self.hosts.ids() {
            let name = self.hosts.name(host);
            // Let go of as it is used: all of them beside what is made of them would be twice the memory.
            let Some(value) = loaded.take_state(StateKind::Host, name.as_str()) else { continue };
            match serde_json::from_slice::<SavedHost>(&value) {
                Ok(saved) => {
                    if let Some(host) = self.hosts.get_mut(host) {
                        host.requests = saved.sent();
                    }
                    let group = saved.group().map(str::to_owned);
                    self.controller.restore(now, host, saved);
                    self.rejoin(now, host, group.as_deref());
                }
                // Whole by its checksum: another version's. The host begins anew, and slowly.
                Err(error) => tracing::error!(host = %name, %error, "the saved state of a host cannot be used"),
            }
        }
        self.persisted.late_rows = std::mem::take(&mut loaded.late_rows);
        let told: Vec<_> = self.persisted.late_rows.keys().map(|name| self.hosts.find_named(name.as_str())).collect();
        told.into_iter().flatten().for_each(|host| self.recount(host));
        self.group_all();
        for ((kind, key), value) in std::mem::take(&mut loaded.states) {
            match kind {
                StateKind::Robots if !self.robots.restore(now, &key, &value) => {
                    tracing::warn!(authority = %Clean::new(&*key), "a saved robots.txt cannot be used");
                }
                StateKind::Crawl => drop(loaded.states.insert((kind, key), value)),
                StateKind::Host | StateKind::Robots => {}
            }
        }
        let mut signs = Signs::default();
        std::mem::take(&mut loaded.signs).into_iter().for_each(|sign| signs.take(sign));
        self.traps.restore_signs(signs);
        self.restore_run(&loaded);
        self.restore_scope(&loaded);
        let counts = loaded.counts;
        self.counts = UrlCounts { done: counts.done, failed: counts.failed, skipped: counts.skipped };
        self.sent = loaded.rows;
        let policy = self.config.settings.backoff;
        self.frontier.restore(now, &mut loaded, policy.max.saturating_add(policy.jitter));
        for (id, fate, why) in late {
            self.frontier.end(id, fate, &why);
        }
        for told in foretold.values() {
            self.take_told(told);
        }
        self.restore_held(&held);
        // A robots.txt is on the medium before the URLs of its sitemaps are: who was killed between the two never took them.
        if self.config.crawl.sitemaps {
            for (authority, sitemaps) in self.robots.sitemaps() {
                self.take_sitemaps(&authority, &sitemaps);
            }
        }
        for host in self.hosts.ids() {
            self.sync_all(host);
        }
    }

    /// Counts what the journal tells of a host beyond what was saved of it.
    pub(super) fn recount(&mut self, host: HostId) {
        if self.persisted.late_rows.is_empty() {
            return;
        }
        let Some(ended) = self.persisted.late_rows.remove(&self.hosts.name(host)) else { return };
        self.controller.recount(self.now, host, &ended);
        if let Some(known) = self.hosts.get_mut(host) {
            known.requests = self.controller.sent(host);
        }
    }

    /// What another process held back is held back, unless it is allowed or excluded by now.
    fn restore_held(&mut self, held: &BTreeMap<u32, HeldUrl>) {
        for (id, HeldUrl { trap, host }) in held {
            self.traps.restore(*trap, HostId(*host), UrlId(*id));
        }
        for host in held.values().map(|held| held.host).collect::<BTreeSet<_>>() {
            self.tell_held_back(HostId(host));
        }
        if !held.is_empty() {
            self.sift(Because::Resumed);
        }
    }

    /// What was in scope is so at once: pages are fetched before the inputs are read again. Hosts that links made known
    /// count for their domains.
    fn restore_scope(&mut self, loaded: &Loaded) {
        for host in loaded.states.keys().filter_map(|(_, key)| key.strip_prefix(GIVEN)) {
            if let Some(url) = url_of_host(host) {
                self.scope.give(&url);
            }
        }
        for (host, given) in (0..).map(HostId).zip(&loaded.given) {
            let name = self.hosts.name(host);
            let Some(url) = url_of_host(name.as_str()) else { continue };
            if *given {
                self.scope.give(&url);
            } else if self.scope.counts_hosts() && !self.traps.is_allowed(domain_of(&url)) {
                self.scope.meet(&url, None);
            }
        }
    }

    /// An input redirected to a host, which is in scope by that: over a restart, too.
    pub(super) fn keep_given(&mut self, target: &url::Url) {
        let Some(store) = self.frontier.store() else { return };
        put(store, StateKind::Crawl, &format!("{GIVEN}{}", host_text(target)), &true);
    }

    fn restore_run(&mut self, loaded: &Loaded) {
        let value = loaded.state(StateKind::Crawl, RUN_STATE);
        let run: RunState = value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default();
        let notes = loaded.state(StateKind::Crawl, NOTES_STATE);
        self.persisted.notes = notes.and_then(|notes| serde_json::from_slice(notes).ok()).unwrap_or_default();
        self.controller.restore_halt(run.halted);
        let history = loaded.state(StateKind::Crawl, HISTORY_STATE);
        if let Some(history) = history.and_then(|history| serde_json::from_slice(history).ok()) {
            self.controller.restore_history(history);
        }
        if let Some(concurrency) = run.concurrency {
            self.controller.set_concurrency(concurrency);
        }
        self.excluded = run.excluded.iter().filter_map(|pattern| regex::Regex::new(pattern).ok()).collect();
        for pattern in run.allowed.iter().filter_map(|pattern| regex::Regex::new(pattern).ok()) {
            self.traps.allow(pattern);
        }
        self.bad_lines = 0;
        // Who lost URLs needs the inputs again.
        let whole = self.persisted.lost.iter().all(|lost| lost.file != URLS_FILE);
        self.persisted.inputs_read = run.inputs_read && whole;
        self.persisted.run = run;
    }

    /// A URL that came in and ended within the last commit interval of the process before: the store is told now, so that
    /// no input brings it up again.
    fn take_told(&mut self, told: &Told) {
        let Ok(address) = parse_url(&told.url) else { return };
        let print = address.fingerprint;
        if self.frontier.admit(print) != Admission::New {
            return;
        }
        let id = self.frontier.enter(print, None, &Job::page(&address.url, self.now));
        self.frontier.end(id, told.fate, &told.why);
        match told.fate {
            Fate::Done => self.counts.done += 1,
            Fate::Failed => self.counts.failed += 1,
            Fate::Skipped => self.counts.skipped += 1,
        }
    }

    /// Keeps the operator's words.
    pub(super) fn keep_note(&mut self, text: String) {
        let notes = &mut self.persisted.notes;
        if notes.len() >= NOTES_MAX {
            notes.remove(0);
        }
        notes.push(Note {
            time: self.wall_origin.after(Duration::from_nanos(self.now.as_nanos())),
            text: Clean::new(text),
        });
        self.persisted.new_note = true;
    }

    /// When the next transaction is due; [`Mono::NEVER`] if there is nothing to save.
    pub(super) fn commit_due(&self) -> Mono {
        let Some(store) = self.frontier.store_ref() else { return Mono::NEVER };
        let many = self.controller.unsaved_hosts() >= HOSTS_A_COMMIT && !store.is_full();
        if store.is_large() || many {
            return Mono::ZERO;
        }
        let news = store.has_news() || self.controller.has_unsaved() || self.robots.has_unsaved() || self.run_changed();
        if news { self.persisted.committed.after(store.group()) } else { Mono::NEVER }
    }

    /// Whether everything is saved; asks for it if not.
    pub(super) fn is_settled(&mut self) -> bool {
        let now = self.now;
        if self.commit_due() != Mono::NEVER {
            self.commit(now);
        }
        // A writer that is gone will never settle: what it could not write is told at the end.
        self.frontier.store_ref().is_none_or(|store| store.is_settled() || store.is_over())
    }

    /// Hands over all that has changed. What the journal has to have before was handed to it.
    pub(super) fn commit(&mut self, now: Mono) {
        self.persisted.committed = now;
        let run = self.run_changed().then(|| self.run_state());
        let hosts = self.controller.take_unsaved(usize::MAX);
        let groups = self.controller.take_unsaved_groups();
        let robots = self.robots.take_unsaved();
        let signs = self.traps.take_unsaved();
        let history = self.controller.take_unsaved_history();
        let Some(store) = self.frontier.store() else { return };
        signs.into_iter().for_each(|sign| store.sign(sign));
        for host in hosts {
            let Some(saved) = self.controller.saved(host) else { continue };
            put(store, StateKind::Host, self.hosts.name(host).as_str(), &saved);
        }
        for (name, saved) in groups {
            put(store, StateKind::Crawl, &format!("{GROUP}{name}"), &saved);
        }
        for authority in robots {
            if let Some(saved) = self.robots.saved(&authority) {
                put(store, StateKind::Robots, authority.as_str(), &saved);
            }
        }
        if let Some(run) = run {
            put(store, StateKind::Crawl, RUN_STATE, &run);
            self.persisted.run = run;
        }
        if let Some(history) = history {
            put(store, StateKind::Crawl, HISTORY_STATE, &history);
        }
        if std::mem::take(&mut self.persisted.new_note) {
            put(store, StateKind::Crawl, NOTES_STATE, &self.persisted.notes);
        }
        store.commit(self.clock.anchor());
    }

    fn run_changed(&self) -> bool {
        let run = &self.persisted.run;
        run.halted != self.controller.is_halted()
            || run.concurrency.unwrap_or(self.config.settings.concurrency) != self.controller.concurrency()
            || run.excluded.len() != self.excluded.len()
            || run.allowed.len() != self.traps.allowed().len()
            || run.inputs_read != self.persisted.inputs_read
            || run.bad_lines < self.bad_lines
            || self.persisted.new_note
    }

    fn run_state(&self) -> RunState {
        let concurrency = self.controller.concurrency();
        RunState {
            halted: self.controller.is_halted(),
            concurrency: (concurrency != self.config.settings.concurrency).then_some(concurrency),
            excluded: self.excluded.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            allowed: self.traps.allowed().iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            inputs_read: self.persisted.inputs_read,
            bad_lines: self.bad_lines,
        }
    }

    /// The record of a URL cannot be read back.
    pub(super) fn lose(&mut self, host: HostId, id: UrlId, why: &Clean) {
        self.counts.failed += 1;
        let why = format!("its record cannot be read: {why}");
        tracing::error!(url = id.0, %why, "a URL is lost");
        self.frontier.end(id, Fate::Failed, &why);
        self.event(Who::System, Some(host), What::UrlFailed, Value::None, Value::None, &why, None);
    }

    /// The heads of a queue were read back.
    pub(super) fn take_read(&mut self, read: UrlsRead) {
        let UrlsRead { host, lane, urls, lost } = read;
        if Frontier::is_held(lane) {
            self.take_held(UrlsRead { host, lane, urls, lost });
            return;
        }
        let (host, doomed) = (HostId(host), Frontier::is_doomed(lane));
        let lane = Lane(lane);
        for (id, why) in &lost {
            self.lose(host, *id, why);
        }
        let jobs = urls.into_iter().map(Job::stored);
        if doomed {
            let jobs: Vec<Job> = jobs.collect();
            if let Some((host, doom)) = self.frontier.doom_of(jobs.len() + lost.len()) {
                for job in jobs {
                    self.meet(host, job, &doom);
                }
            }
            return;
        }
        let doom = self.frontier.late_doom(host, lane);
        let patterns = self.config.crawl.exclude.iter().chain(&self.excluded);
        let excluded = |job: &Job| patterns.clone().find(|pattern| pattern.is_match(&job.url));
        let (mut heads, mut left) = (Vec::new(), Vec::new());
        for job in jobs {
            match (&doom, excluded(&job)) {
                (Some(doom), _) => left.push((job, doom.clone())),
                (None, Some(pattern)) => {
                    let doom = crate::crawl::frontier::Doom::Skipped(format!("excluded by {}", pattern.as_str()));
                    left.push((job, doom));
                }
                (None, None) => heads.push(job),
            }
        }
        self.frontier.put_loaded(host, lane, heads, lost.len() + left.len());
        for (job, doom) in left {
            self.meet(host, job, &doom);
        }
        self.sync(host, lane);
    }
}

/// A URL of the host of this key.
pub(super) fn url_of_host(key: &str) -> Option<url::Url> {
    let urls = ["http", "https"].iter().filter_map(|scheme| url::Url::parse(&format!("{scheme}://{key}/")).ok());
    // A port that is the one scheme's default belongs to the other.
    urls.into_iter().find(|url| *host_text(url) == *key)
}

fn put(store: &mut Store, kind: StateKind, key: &str, value: &impl Serialize) {
    match serde_json::to_vec(value) {
        Ok(json) => store.state(kind, key, &json),
        // Plain data always becomes JSON.
        Err(error) => tracing::error!(%error, key = %Clean::new(key), "a state cannot be saved"),
    }
}

/// What was found, in words.
fn found(loaded: &Loaded, late: usize) -> String {
    let mut text = format!("{} URLs pending on {} hosts", loaded.pending(), loaded.hosts.len());
    if late > 0 {
        text.push_str(&format!(", {late} ends of URLs taken over from the journal"));
    }
    if loaded.torn > 0 {
        text.push_str(&format!(", {} bytes of an unfinished transaction cut off", loaded.torn));
    }
    text
}
