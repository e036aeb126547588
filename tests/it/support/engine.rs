//! A whole crawl in a test: the real engine, fetcher and journal over real sockets on loopback, and what it
//! left behind, read with the real readers.
#![allow(clippy::disallowed_methods, reason = "the probe of lateness has a clock apart from the one it judges")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crawldeck::archive::{Archive, ArchiveOptions, Keep, Room};
use crawldeck::clock::{Clock as _, SystemClock};
use crawldeck::config::{Config, HostRule, Resolved};
use crawldeck::control::{Command, ControllerKind, HostId, HostView, Outcome, Policy, RequestKind, Value, What};
use crawldeck::crawl::engine::{Engine, EngineParts, Looks, RunEnd};
use crawldeck::crawl::exchange::Fetch;
use crawldeck::crawl::fetcher::{FetcherOptions, HttpFetcher};
use crawldeck::crawl::input::{self, Source};
use crawldeck::crawl::resume::resume;
use crawldeck::journal::disk::{Disk, SystemDisk};
use crawldeck::journal::reader::{EventRecord, RequestRecord, Word};
use crawldeck::journal::run_folder::RunFolder;
use crawldeck::journal::summary::{Summary, summarise};
use crawldeck::journal::{EVENTS_FILE, Journal, JournalOptions, REQUESTS_FILE};
use crawldeck::memory::{Keeper, Memory};
use crawldeck::store::load::Loaded;
use crawldeck::store::{Barrier, Store, StoreOptions};
use crawldeck::watch::{ActAnswer, Change, REQUESTS_MAX, Request, Snapshot, Totals};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::binary::until;
use super::lab::LabServer;
use super::{records, warc};

/// The bound of every wait: reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the client's runtime is looked at for lateness.
const PROBE: Duration = Duration::from_millis(5);

/// A crawl before it begins. Loopback is allowed, there is no cold start, no jitter, and rates that no test
/// reaches, unless the test says otherwise.
pub(crate) struct Crawl {
    /// The configuration; policy 0 is every host's.
    pub(crate) config: Config,
    urls: Vec<String>,
    lists: Vec<Source>,
    fetch: Option<Arc<dyn Fetch>>,
    disk: Box<dyn Disk>,
    store_disk: Box<dyn Disk>,
    /// How its journal and its store write.
    pub(crate) writes: (JournalOptions, StoreOptions),
    folder: Option<tempfile::TempDir>,
    looked_at: bool,
    looks: Looks,
    keep: Keep,
    archive_disk: Box<dyn Disk>,
    memory: Option<Memory>,
}

/// A store of a crawl that begins, in the run folder `dir`.
pub(crate) fn store_in(dir: &Path) -> Store {
    // It is written in real time, whatever time the crawl runs in.
    let (disk, options) = (Box::new(SystemDisk), StoreOptions { kill_costs: Duration::MAX, ..StoreOptions::default() });
    Store::start(dir, &mut Loaded::default(), Vec::new(), disk, options).expect("a store")
}

impl Crawl {
    pub(crate) fn new() -> Self {
        let mut config = Config::default();
        config.network.allow_private = true;
        config.network.connect_timeout = Duration::from_secs(10);
        config.network.head_timeout = Duration::from_secs(10);
        config.crawl.retries = 3;
        config.settings.cold_start = false;
        // What these tests time are its waits and its cuts.
        config.settings.policies[0].kind = ControllerKind::Halving;
        config.settings.backoff.base = Duration::from_millis(20);
        config.settings.backoff.max = Duration::from_millis(200);
        config.settings.backoff.jitter = Duration::ZERO;
        let mut crawl = Self {
            config,
            urls: Vec::new(),
            lists: Vec::new(),
            fetch: None,
            disk: Box::new(SystemDisk),
            store_disk: Box::new(SystemDisk),
            writes: (JournalOptions::default(), StoreOptions::default()),
            folder: None,
            looked_at: true,
            looks: Looks::Closely,
            keep: Keep::default(),
            archive_disk: Box::new(SystemDisk),
            memory: None,
        };
        crawl.rate(1_000.0, 1_000.0);
        crawl
    }

    /// Originals of every host without a policy of its own.
    pub(crate) fn rate(&mut self, rate: f64, capacity: f64) -> &mut Policy {
        let policy = &mut self.config.settings.policies[0];
        policy.original.rate = rate;
        policy.original.capacity = capacity;
        policy
    }

    /// Lets `name` lead to a server.
    pub(crate) fn host(&mut self, name: &str, server: &LabServer) {
        self.host_at(name, server.addr());
    }

    /// Lets `name` lead to an address.
    pub(crate) fn host_at(&mut self, name: &str, addr: SocketAddr) {
        let target = Resolved { ip: addr.ip(), port: Some(addr.port()) };
        self.config.network.resolve.insert(name.to_owned(), target);
    }

    /// A policy of its own for the hosts that `pattern` matches, made from the default one.
    pub(crate) fn policy(&mut self, pattern: &str) -> &mut Policy {
        self.config.hosts.push(HostRule {
            pattern: globset::Glob::new(pattern).expect("a glob").compile_matcher(),
            pattern_text: pattern.to_owned(),
            headers: Vec::new(),
            endpoints: Vec::new(),
            inherits: Default::default(),
        });
        let policy = self.config.settings.policies[0].clone();
        self.config.settings.policies.push(policy);
        self.config.settings.policies.last_mut().expect("just pushed")
    }

    /// One URL more.
    pub(crate) fn url(&mut self, url: impl Into<String>) {
        self.urls.push(url.into());
    }

    /// The pages `/p/0`, `/p/1`, … of a host.
    pub(crate) fn pages(&mut self, name: &str, count: u32) {
        self.urls.extend((0..count).map(|page| format!("http://{name}/p/{page}")));
    }

    /// A file of URLs.
    pub(crate) fn list(&mut self, path: &Path) {
        self.lists.push(Source::File(path.to_owned()));
    }

    /// Another fetcher than the real one.
    pub(crate) fn fetch_with(&mut self, fetch: Arc<dyn Fetch>) {
        self.fetch = Some(fetch);
    }

    /// The real fetcher of this configuration.
    pub(crate) fn real_fetch(&self, keep: Option<Arc<Room>>) -> HttpFetcher {
        let Config { network, crawl, hosts, .. } = &self.config;
        let options = FetcherOptions { keep, ..FetcherOptions::default() };
        HttpFetcher::with_options(network, &crawl.user_agent, hosts.clone().into(), SystemClock::shared(), options)
            .expect("a fetcher")
    }

    /// Another disk than the real one.
    pub(crate) fn disk(&mut self, disk: Box<dyn Disk>) {
        self.disk = disk;
    }

    /// Another disk for the store.
    pub(crate) fn store_disk(&mut self, disk: Box<dyn Disk>) {
        self.store_disk = disk;
    }

    /// What hosts bore in earlier runs is in `memory`.
    pub(crate) fn remember(&mut self, memory: Memory) {
        self.memory = Some(memory);
    }

    /// Goes on in the folder of a crawl that ended.
    pub(crate) fn resume_in(&mut self, folder: tempfile::TempDir) {
        self.folder = Some(folder);
    }

    /// What is kept of the exchanges.
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep = keep;
    }

    /// Another disk for the archive than the real one.
    pub(crate) fn archive_disk(&mut self, disk: Box<dyn Disk>) {
        self.archive_disk = disk;
    }

    /// The watcher takes no snapshot until the engine has ended.
    pub(crate) fn nobody_looks(&mut self) {
        self.looked_at = false;
    }

    /// Status lines instead of a screen.
    pub(crate) fn headless(&mut self) {
        self.looks = Looks::AtTotals;
    }

    /// Begins.
    pub(crate) fn start(mut self) -> Running {
        let dir = self.folder.take().unwrap_or_else(|| tempfile::tempdir().expect("a folder"));
        let room = self.keep.any().then(|| Room::new(dir.path(), self.keep));
        let fetch = self.fetch.clone().unwrap_or_else(|| Arc::new(self.real_fetch(room.clone())));
        let Self { config, urls, lists, disk, store_disk, looked_at, looks, archive_disk, memory, writes, .. } = self;
        // A child that another test is about to start may hold the lock for a moment.
        let folder = until("the folder is free", || RunFolder::open(dir.path()).ok());
        let clock = Arc::new(SystemClock::new());
        let mut loaded = resume(dir.path(), &config).expect("a whole store");
        if let Some(mark) = loaded.as_ref().and_then(|loaded| loaded.mark.as_ref()) {
            clock.go_on_from(mark.anchor.resumed_at(&clock.anchor()));
        }
        let retry = Duration::from_millis(50);
        let rows = loaded.as_ref().map_or(0, |loaded| loaded.rows);
        let options = JournalOptions { group: Duration::from_millis(10), retry, rows, ..writes.0 };
        let journal = Journal::open_with(dir.path(), clock.clone(), disk, options).expect("a journal");
        let options = ArchiveOptions { retry, ..ArchiveOptions::default() };
        let archive = room.map(|room| {
            Archive::open_with(dir.path(), room, clock.clone(), archive_disk, options).expect("an archive")
        });
        let options = StoreOptions { group: Duration::from_millis(20), retry, ..writes.1 };
        let mut barriers: Vec<Box<dyn Barrier>> = vec![Box::new(journal.barrier())];
        barriers.extend(archive.as_ref().map(|archive| Box::new(archive.barrier()) as Box<dyn Barrier>));
        let mut none = Loaded::default();
        let found = loaded.as_mut().unwrap_or(&mut none);
        let store = Store::start(dir.path(), found, barriers, store_disk, options).expect("a store");
        // A file, not arguments: thousands of URLs come as a user would give them.
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(urls.join("\n").as_bytes()).expect("written");
        let mut sources = vec![Source::File(file.path().to_owned())];
        sources.extend(lists);
        let inputs = input::spawn(sources).expect("inputs");
        let (requests, requests_in) = mpsc::channel(REQUESTS_MAX);
        let (watcher, snapshots) = mpsc::channel(1);
        let (seen_in, seen) = watch::channel(Seen::default());
        let (config_prior, clock_now) = (config.settings.prior, clock.now());
        let parts = EngineParts {
            config: Arc::new(config),
            fetch,
            clock,
            journal,
            store,
            loaded,
            archive,
            inputs,
            requests: requests_in,
            watcher: Some(watcher),
            looks,
            frame: Duration::from_millis(20),
            seed: 1,
        };
        let keeper = memory.map(|memory| Keeper::open(config_prior, Some(memory), 1, clock_now));
        let mut engine = Engine::new(parts);
        if let Some(keeper) = keeper {
            engine = engine.remembering(keeper);
        }
        let engine = tokio::spawn(engine.run());
        let watching = match looked_at {
            true => tokio::spawn(look(snapshots, seen_in)),
            false => tokio::spawn(async move {
                seen_in.closed().await;
                drop(snapshots);
            }),
        };
        let lateness = Arc::new(AtomicU64::new(0));
        let probing = tokio::spawn(probe(Arc::clone(&lateness)));
        Running {
            requests,
            seen,
            engine,
            watching,
            probing,
            lateness,
            dir,
            _folder: folder,
            _urls: file,
            tickets: 0,
            looks: looked_at,
        }
    }

    /// Runs to its end.
    pub(crate) async fn run(self) -> Ended {
        self.start().end().await
    }

    /// The same; the run folder stays as long as the guard.
    pub(crate) async fn run_and_keep(self) -> (Ended, tempfile::TempDir) {
        let mut running = self.start();
        let end = running.wait().await;
        let ended = running.read(end).await;
        let empty = tempfile::tempdir().expect("a folder");
        (ended, std::mem::replace(&mut running.dir, empty))
    }
}

/// What the watcher has seen.
#[derive(Clone, Default)]
struct Seen {
    hosts: BTreeMap<String, HostView>,
    answers: Vec<ActAnswer>,
    totals: Totals,
    log: Vec<String>,
}

async fn look(mut snapshots: mpsc::Receiver<Arc<Snapshot>>, seen: watch::Sender<Seen>) {
    while let Some(snapshot) = snapshots.recv().await {
        seen.send_modify(|seen| {
            for row in &snapshot.changed {
                seen.hosts.insert(row.name.as_str().to_owned(), row.view.clone());
            }
            seen.answers.extend(snapshot.answers.iter().cloned());
            seen.log.extend(snapshot.log.iter().map(|line| line.text.as_str().to_owned()));
            seen.totals = snapshot.totals.clone();
        });
    }
}

async fn probe(lateness: Arc<AtomicU64>) {
    loop {
        let before = Instant::now();
        tokio::time::sleep(PROBE).await;
        lateness.fetch_max(before.elapsed().saturating_sub(PROBE).as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A crawl under way. Its tasks end when it is dropped.
pub(crate) struct Running {
    requests: mpsc::Sender<Request>,
    seen: watch::Receiver<Seen>,
    engine: JoinHandle<RunEnd>,
    watching: JoinHandle<()>,
    probing: JoinHandle<()>,
    lateness: Arc<AtomicU64>,
    dir: tempfile::TempDir,
    _folder: RunFolder,
    _urls: tempfile::NamedTempFile,
    tickets: u64,
    looks: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.abort();
        self.watching.abort();
        self.probing.abort();
    }
}

impl Running {
    /// Asks for something.
    pub(crate) async fn ask(&self, request: Request) {
        self.requests.send(request).await.expect("the engine listens");
    }

    /// A command on hosts by name (which must be known by now), and the engine's answer to it.
    pub(crate) async fn act(&mut self, command: Command, names: &[&str]) -> ActAnswer {
        let mut targets = Vec::new();
        for name in names {
            targets.push(self.id(name).await);
        }
        self.tickets += 1;
        let ticket = self.tickets;
        self.ask(Request::Act { ticket, command, targets, chosen_by: "test".into() }).await;
        let answer = move |seen: &Seen| seen.answers.iter().find(|answer| answer.ticket == ticket).cloned();
        self.until("the answer to a command", answer).await
    }

    /// A change of the crawl, and the engine's answer to it.
    pub(crate) async fn change(&mut self, change: Change) -> ActAnswer {
        self.tickets += 1;
        let ticket = self.tickets;
        self.ask(Request::Change { ticket, change }).await;
        let answer = move |seen: &Seen| seen.answers.iter().find(|answer| answer.ticket == ticket).cloned();
        self.until("the answer to a change", answer).await
    }

    async fn id(&self, name: &str) -> HostId {
        self.until(name, |seen| seen.hosts.get(name).map(|view| view.id)).await
    }

    /// The run folder.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until a host looks as wanted.
    pub(crate) async fn host_is(&self, name: &str, wanted: impl Fn(&HostView) -> bool) -> HostView {
        self.until(name, |seen| seen.hosts.get(name).filter(|view| wanted(view)).cloned()).await
    }

    /// Waits until the totals are as wanted.
    pub(crate) async fn totals_are(&self, what: &str, wanted: impl Fn(&Totals) -> bool) -> Totals {
        self.until(what, |seen| wanted(&seen.totals).then(|| seen.totals.clone())).await
    }

    /// Waits until a line of the log holds `text`.
    pub(crate) async fn logged(&self, text: &str) -> String {
        self.until(text, |seen| seen.log.iter().find(|line| line.contains(text)).cloned()).await
    }

    async fn until<T>(&self, what: &str, find: impl Fn(&Seen) -> Option<T>) -> T {
        let mut seen = self.seen.clone();
        let waiting = async {
            loop {
                if let Some(found) = find(&seen.borrow_and_update()) {
                    return found;
                }
                seen.changed().await.expect("the engine runs");
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never seen: {what}"))
    }

    /// Waits for the end and reads what the crawl left behind.
    pub(crate) async fn end(mut self) -> Ended {
        let end = self.wait().await;
        self.read(end).await
    }

    /// The same, and the folder, to go on in it.
    pub(crate) async fn end_keeping(mut self) -> (Ended, tempfile::TempDir) {
        let end = self.wait().await;
        let ended = self.read(end).await;
        (ended, std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a folder")))
    }

    /// Waits for the end of a crawl whose journal is not whole.
    pub(crate) async fn end_only(mut self) -> RunEnd {
        self.wait().await
    }

    async fn wait(&mut self) -> RunEnd {
        let Ok(end) = tokio::time::timeout(PATIENCE, &mut self.engine).await else {
            let seen = self.seen.borrow().clone();
            panic!("the crawl does not end: {:#?}\n{:#?}", seen.totals, seen.log);
        };
        end.expect("the engine does not panic")
    }

    async fn read(&mut self, end: RunEnd) -> Ended {
        // The watcher ends when the engine has let go of it.
        let seen = if self.looks {
            (&mut self.watching).await.expect("no panic");
            self.seen.borrow().clone()
        } else {
            Seen::default()
        };
        let written = [REQUESTS_FILE, EVENTS_FILE].map(|name| std::fs::read_to_string(self.dir.path().join(name)));
        let written = written.map(|text| text.expect("readable")).concat();
        let warc = warc::files(self.dir.path())
            .into_iter()
            .map(|path| std::fs::read(path).expect("readable"))
            .collect::<Vec<_>>()
            .concat();
        let (rows, damaged) = records::requests(self.dir.path());
        assert_eq!(damaged, 0, "every row can be read back");
        let (events, damaged) = records::events(self.dir.path());
        assert_eq!(damaged, 0, "every event can be read back");
        let summary = summarise(self.dir.path()).expect("readable");
        let lateness = Duration::from_nanos(self.lateness.load(Ordering::Relaxed));
        let ended = Ended { end, rows, events, summary, lateness, log: seen.log, written, warc };
        ended.assert_sums();
        ended
    }
}

/// What a crawl left behind.
pub(crate) struct Ended {
    pub(crate) end: RunEnd,
    pub(crate) rows: Vec<RequestRecord>,
    pub(crate) events: Vec<EventRecord>,
    pub(crate) summary: Summary,
    /// How late the client's runtime was at worst.
    pub(crate) lateness: Duration,
    /// All lines of the log on the screen.
    pub(crate) log: Vec<String>,
    /// All that stands in the journal's files.
    pub(crate) written: String,
    /// The WARC files, one after another.
    pub(crate) warc: Vec<u8>,
}

impl Ended {
    /// URLs done, failed, skipped, pending.
    pub(crate) fn fates(&self) -> (u64, u64, u64, u64) {
        let totals = &self.end.totals;
        (totals.urls_done, totals.urls_failed, totals.urls_skipped, totals.urls_pending)
    }

    /// Fails the test unless all of so many URLs ended well.
    #[track_caller]
    pub(crate) fn assert_all_done(&self, urls: u64) {
        assert_eq!(self.fates(), (urls, 0, 0, 0), "done, failed, skipped, pending; {:#?}", self.bad_events());
    }

    /// Fails the test unless every arrival has its row and every row its arrival, by host and path.
    #[track_caller]
    pub(crate) fn assert_rows_are(&self, servers: &[&LabServer]) {
        let mut rows: Vec<String> = self.rows.iter().map(|row| path_of(row.url.as_str())).collect();
        let mut arrivals: Vec<String> = servers
            .iter()
            .flat_map(|server| server.arrivals())
            .map(|arrival| format!("{}{}", name_of(&arrival.host), arrival.path))
            .collect();
        rows.sort();
        arrivals.sort();
        assert_eq!(rows, arrivals, "rows of requests.csv (left), arrivals at the servers (right)");
        assert_eq!(self.end.totals.requests, self.rows.len() as u64);
    }

    /// Every number of the summary and of the last totals equals what the journal's lines say, each URL has
    /// one fate, and every one that failed or was skipped stands in the events with its reason.
    #[track_caller]
    fn assert_sums(&self) {
        let Summary { requests, urls_done, urls_failed, urls_skipped, urls_pending, .. } = self.summary;
        assert_eq!(requests, self.rows.len() as u64);
        assert_eq!((urls_done, urls_failed, urls_skipped, urls_pending), self.fates(), "summary, totals");
        assert_eq!(self.summary.by_status.sum(), self.rows.iter().filter(|row| row.status.is_some()).count() as u64);
        assert_eq!(self.summary.ok, self.count(Outcome::Ok) as u64);
        assert_eq!(self.summary.throttled, self.count(Outcome::Throttled) as u64);
        for (what, count) in [(What::UrlFailed, urls_failed), (What::UrlSkipped, urls_skipped)] {
            let events = self.events_of(what);
            assert_eq!(events.len() as u64, count, "{what:?}");
            assert!(events.iter().all(|event| event.url.is_some() && !event.why.as_str().is_empty()), "{what:?}");
            let urls: BTreeSet<_> = events.iter().map(|event| event.url.as_ref().map(|url| url.as_str())).collect();
            assert_eq!(urls.len() as u64, count, "a URL has one fate");
        }
        for (number, event) in self.events.iter().enumerate() {
            assert_eq!(event.seq, self.events[0].seq + number as u64, "no event is missing");
        }
        assert_eq!(self.events_of(What::Start).len(), 1);
        assert_eq!(1 + self.events_of(What::ResumeRun).len(), self.events_of(What::Stop).len());
    }

    /// Rows with this outcome.
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == Word::Known(outcome)).count()
    }

    /// Rows of this kind.
    pub(crate) fn kind(&self, kind: RequestKind) -> usize {
        self.rows.iter().filter(|row| row.kind == Word::Known(kind)).count()
    }

    /// Events of this kind.
    pub(crate) fn events_of(&self, what: What) -> Vec<&EventRecord> {
        self.events.iter().filter(|event| event.what == Word::Known(what)).collect()
    }

    /// The falls of one host's adaptive rate, as (before, after); the cold start is none.
    pub(crate) fn cuts(&self, host: &str) -> Vec<(f64, f64)> {
        self.falls(What::Rate, host)
    }

    /// The falls of a host's endpoints.
    pub(crate) fn endpoint_cuts(&self, host: &str) -> Vec<(f64, f64)> {
        self.falls(What::EndpointRate, host)
    }

    fn falls(&self, what: What, host: &str) -> Vec<(f64, f64)> {
        let rates = self.events_of(what).into_iter().filter(|event| is_host(event, host));
        rates
            .filter_map(|event| match (&event.before, &event.after) {
                (Value::Number(before), Value::Number(after)) if after < before => Some((*before, *after)),
                _ => None,
            })
            .collect()
    }

    /// Reasons of the events of this kind about a host.
    pub(crate) fn whys(&self, what: What, host: &str) -> Vec<String> {
        let events = self.events_of(what).into_iter().filter(|event| is_host(event, host));
        events.map(|event| event.why.as_str().to_owned()).collect()
    }

    pub(crate) fn bad_events(&self) -> Vec<String> {
        let bad = [What::UrlFailed, What::UrlSkipped, What::GiveUp, What::System];
        bad.iter().flat_map(|what| self.events_of(*what)).map(|event| format!("{event:?}")).collect()
    }
}

fn is_host(event: &EventRecord, host: &str) -> bool {
    event.host.as_ref().is_some_and(|name| name.as_str() == host)
}

/// Host and path of a URL.
fn path_of(url: &str) -> String {
    let url = url::Url::parse(url).expect("a row's URL");
    format!("{}{}", url.host_str().unwrap_or_default(), &url[url::Position::BeforePath..])
}

/// A Host header without its port.
fn name_of(host: &str) -> &str {
    host.split(':').next().unwrap_or_default()
}
