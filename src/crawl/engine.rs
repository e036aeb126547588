//! The engine: one task that owns the controller, the frontier and all state of the crawl.
//!
//! A turn: take what came in (answers, commands, inputs), grant what may go, hand the journal its
//! batch, publish to whoever watches, then sleep until a message or the next slot in the wake queue.
//! Nothing polls: the longest sleep is one second, so that a suspend of the machine is noticed.
//!
//! What bounds it: `concurrency` requests in flight, [`super::frontier::PENDING_MAX`] URLs, the
//! journal's backlog (granting stops above it), and the bounded channels in and out.

mod change;
mod discover;
mod dispatch;
mod exclude;
mod finish;
mod focus;
mod gather;
mod grouping;
mod intake;
pub mod persist;
mod publish;
mod recall;
mod reload;
mod sift;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::address::SerialParser;
use super::exchange::Fetch;
use super::frontier::Frontier;
use super::hosts::Hosts;
use super::input::InputStream;
use super::links;
use super::robots::Robots;
use super::scope::Scope;
use super::throughput::{QueueWatch, Throughput};
use super::traps::Traps;
use super::worker::{Crew, Desk, REPORTS_MAX, Report};
use crate::archive::{Archive, ArchiveHealth};
use crate::clock::{Clock, Wall};
use crate::config::{CONCURRENCY_RANGE, Config};
use crate::control::backoff::SeededJitter;
use crate::control::{Controller, Mono, Value};
use crate::fault;
use crate::journal::Journal;
use crate::journal::timeline::bins::Bins;
use crate::memory::Keeper;
use crate::store::load::Loaded;
use crate::store::{Store, StoreHealth, UrlsRead};
use crate::text::Clean;
use crate::watch::{ActAnswer, LogLine, Phase, Request, Snapshot, Totals};

pub use reload::AskReload;

/// The longest sleep of the engine: a suspend of the machine is noticed within it.
const TICK: Duration = Duration::from_secs(1);
/// Granting stops while our own trouble (no descriptors) lasts, for this long at a time.
const LOCAL_REST: Duration = Duration::from_secs(1);
/// It is shown for so long after the last rest, and told once until then.
const LOCAL_TOLD: Duration = Duration::from_secs(10);
/// The journal's last batch may take so long to reach the disk.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Answers of the store that one turn takes beyond the first.
const READS_A_TURN: usize = 256;
/// Why a URL of a host with `max_requests` is not sent.
const SPENT: &str = "the host's max_requests is reached";
/// Aborted workers may take so long to end.
const TASKS_WITHIN: Duration = Duration::from_secs(1);
/// Wall time is set anew when it differs by so much from what monotonic time says, in microseconds.
const WALL_DRIFT_MICROS: u64 = 1_000;
/// How often the counters go into the journal, if they have changed: what a reader of a live run lags behind.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// How closely a watcher can look: what only a screen shows is not kept for status lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looks {
    /// A screen: hosts, what happened to one lately, the timeline.
    Closely,
    /// Status lines: totals alone.
    AtTotals,
}

/// What an engine is made of.
pub struct EngineParts {
    /// The checked configuration.
    pub config: Arc<Config>,
    /// Makes the wire requests.
    pub fetch: Arc<dyn Fetch>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where everything is written.
    pub journal: Journal,
    /// What must not be lost.
    pub store: Store,
    /// What another process left in it; `None` = the run begins.
    pub loaded: Option<Loaded>,
    /// Where exchanges are kept, if they are.
    pub archive: Option<Archive>,
    /// The URLs.
    pub inputs: InputStream,
    /// Requests of the operator and of the signals.
    pub requests: mpsc::Receiver<Request>,
    /// Who watches, if anybody: a channel of capacity one.
    pub watcher: Option<mpsc::Sender<Arc<Snapshot>>>,
    /// How closely whoever watches can look.
    pub looks: Looks,
    /// Time between two snapshots at least.
    pub frame: Duration,
    /// Fixes the jitter.
    pub seed: u64,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// The last state.
    pub totals: Totals,
    /// Why it could not go on, if it could not.
    pub trouble: Option<Clean>,
}

/// Counts of URLs by their fate.
#[derive(Clone, Copy, Debug, Default)]
struct UrlCounts {
    done: u64,
    failed: u64,
    skipped: u64,
}

/// The engine. See the module's text.
pub struct Engine {
    config: Arc<Config>,
    desk: Arc<Desk>,
    crew: Crew,
    clock: Arc<dyn Clock>,
    controller: Controller,
    frontier: Frontier,
    hosts: Hosts,
    robots: Robots,
    journal: Journal,
    /// Whether its writer still says how it is; when it has ended it is not asked again and again.
    journal_lives: bool,
    archive: Option<Archive>,
    inputs: Option<InputStream>,
    more_inputs: std::collections::VecDeque<InputStream>,
    excluded: Vec<regex::Regex>,
    /// Patterns for which the queue is walked through.
    exclusions: std::collections::VecDeque<exclude::Exclusion>,
    /// Endpoints were changed: what stands in a lane may belong to another.
    relayed: bool,
    /// Who can read the configuration again.
    ask_reload: Option<AskReload>,
    /// What the operator is told when it begins.
    warning: Option<Clean>,
    /// What is wrong with the file, as long as it is.
    config_trouble: Option<Clean>,
    /// What the screen is told of a new configuration.
    ui: Option<Arc<crate::watch::UiSettings>>,
    /// Which links belong to the crawl, and how they are gathered.
    scope: Scope,
    links: Arc<links::Rules>,
    traps: Traps,
    /// Hosts whose addresses are looked up, because hosts of one address share a bucket.
    placing: grouping::Placing,
    gathering: gather::Gathering,
    sifts: sift::Sifts,
    /// The operator was told that only what is held back is left.
    asked_about_traps: bool,
    /// Links are left out for want of room, and that was said.
    crowded: bool,
    requests: Option<mpsc::Receiver<Request>>,
    reports: mpsc::Receiver<Report>,
    in_flight: dispatch::InFlight,
    /// Reads the URLs of jobs.
    parser: SerialParser,
    watcher: Option<mpsc::Sender<Arc<Snapshot>>>,
    frame: Duration,
    phase: Phase,
    counts: UrlCounts,
    sent: u64,
    bad_lines: u64,
    throughput: Throughput,
    queue_watch: QueueWatch,
    timeline: Bins,
    persisted: persist::Persisted,
    /// What hosts bore in earlier runs, if that is remembered.
    keeper: Option<Keeper>,
    looks: Looks,
    /// The watcher asks for the timeline; when it last got it.
    timeline_shown: Option<Mono>,
    log: std::collections::VecDeque<LogLine>,
    answers: Vec<ActAnswer>,
    notices: Vec<Clean>,
    recently: focus::Recently,
    first_snapshot: bool,
    published: Mono,
    swept: Mono,
    progressed: Mono,
    told_counts: Value,
    local_rest: Mono,
    /// Why granting rested last.
    rests_because: Option<Clean>,
    stopped_because: Option<Clean>,
    troubles: trouble::Troubles,
    /// A thread that the crawl cannot do without is gone, and why.
    broken: Option<Clean>,
    started: (Mono, Wall),
    /// The time of this turn.
    now: Mono,
    /// Wall time at the clock's origin, by the clocks as they were last compared.
    wall_origin: Wall,
    robots_gate: std::collections::HashMap<super::address::Authority, crate::control::HostId>,
}

impl Engine {
    /// An engine that has not begun.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { config, fetch, clock, journal, store, loaded, archive, .. } = parts;
        let EngineParts { inputs, requests, watcher, looks, frame, seed, .. } = parts;
        // Places for each request that can ever be in flight, however far the operator raises the concurrency:
        // a report that found no room would be lost. Places cost nothing until they are used.
        let (report, reports) = mpsc::channel(*CONCURRENCY_RANGE.end() as usize * REPORTS_MAX);
        let sender = archive.as_ref().map(Archive::sender);
        let desk = Arc::new(Desk { fetch, clock: clock.clone(), report, archive: sender });
        let now = clock.now();
        let mut engine = Self {
            controller: Controller::new(config.settings.clone(), Box::new(SeededJitter::new(seed))),
            frontier: Frontier::new(store),
            hosts: Hosts::new(&config),
            robots: Robots::new(&*config.crawl.user_agent, config.settings.backoff),
            journal,
            journal_lives: true,
            archive,
            inputs: Some(inputs),
            more_inputs: std::collections::VecDeque::new(),
            excluded: Vec::new(),
            exclusions: std::collections::VecDeque::new(),
            relayed: false,
            ask_reload: None,
            warning: None,
            config_trouble: None,
            ui: None,
            scope: Scope::new(&config.crawl),
            links: Arc::new(link_rules(&config)),
            traps: Traps::default(),
            placing: grouping::Placing::default(),
            gathering: gather::Gathering::default(),
            sifts: sift::Sifts::default(),
            asked_about_traps: false,
            crowded: false,
            requests: Some(requests),
            reports,
            in_flight: dispatch::InFlight::default(),
            parser: SerialParser::default(),
            watcher,
            frame,
            phase: Phase::Running,
            counts: UrlCounts::default(),
            sent: 0,
            bad_lines: 0,
            throughput: Throughput::default(),
            queue_watch: QueueWatch::default(),
            timeline: Bins::default(),
            persisted: persist::Persisted::new(now),
            keeper: None,
            looks,
            timeline_shown: None,
            log: std::collections::VecDeque::new(),
            answers: Vec::new(),
            notices: Vec::new(),
            recently: focus::Recently::default(),
            first_snapshot: true,
            published: Mono::ZERO,
            swept: now,
            progressed: now,
            told_counts: Value::None,
            local_rest: Mono::ZERO,
            rests_because: None,
            stopped_because: None,
            troubles: trouble::Troubles::new(),
            broken: None,
            started: (now, clock.wall()),
            now,
            wall_origin: origin_of(now, clock.wall()),
            robots_gate: std::collections::HashMap::new(),
            crew: Crew::new(Arc::clone(&desk)),
            desk,
            config,
            clock,
        };
        engine.traps.give(&engine.config.crawl.allow);
        if let Some(loaded) = loaded {
            engine.restore(loaded);
        }
        engine
    }

    /// Runs the crawl to its end.
    pub async fn run(mut self) -> RunEnd {
        self.journal_start();
        self.tell_losses();
        self.tell_memory();
        let mut health = self.journal.health_changed();
        let mut store_health = self.frontier.store_ref().map(Store::health_changed);
        let mut kept = self.archive.as_ref().map(Archive::health_changed);
        let mut reported = Vec::new();
        let mut more = false;
        // One alarm for all turns: a new one each turn would wake the thread that sleeps for the runtime.
        let alarm = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(alarm);
        loop {
            fault::pass("engine");
            let now = self.tick();
            self.check_troubles();
            self.go_on_gathering();
            self.grant(now);
            self.walk_queue();
            self.go_on_sifting();
            self.sweep(now);
            self.write_down(now);
            self.publish(now);
            if self.is_over() {
                break;
            }
            let wants_input = self.wants_input();
            let wants_room = self.has_news() && self.watcher.as_ref().is_some_and(|watcher| watcher.capacity() == 0);
            // Not polled: it only tells the deadline.
            let wake = tokio::time::sleep(self.sleep_for(now)).deadline();
            // One that is too early costs a turn; setting it anew each turn would cost more.
            if alarm.is_elapsed() || wake < alarm.deadline() {
                alarm.as_mut().reset(wake);
            }
            if std::mem::take(&mut more) || self.is_in_the_middle() {
                // Whoever is about to report does so first: a turn for many costs hardly more than a turn for one. And
                // what is done in steps is nobody's whole time.
                tokio::task::yield_now().await;
            }
            tokio::select! {
                biased;
                request = next_request(&mut self.requests) => self.take_request(request),
                count = self.reports.recv_many(&mut reported, 1024) => {
                    if count > 0 {
                        let now = self.tick();
                        for report in reported.drain(..) {
                            match report {
                                Report::Asked(asked) => self.asked(now, asked),
                                Report::Finished(finished) => self.finish(now, finished),
                            }
                        }
                        more = self.controller.in_flight() > 0;
                    }
                }
                batch = next_batch(&mut self.inputs), if wants_input => self.take_batch(batch),
                read = next_read(&mut self.frontier) => {
                    self.take_read(read);
                    // What was read together is taken together.
                    for _ in 0..READS_A_TURN {
                        let Some(read) = self.frontier.store().and_then(Store::loaded_already) else { break };
                        self.take_read(read);
                    }
                }
                Some(found) = self.placing.next(), if self.placing.looks() => self.take_placed(found),
                changed = health.changed(), if self.journal_lives => self.journal_lives = changed.is_ok(),
                lives = changed(&mut store_health) => if !lives { store_health = None },
                () = archive_news(&mut kept) => {}
                () = room(&self.watcher), if wants_room => {}
                () = alarm.as_mut() => {}
            }
        }
        self.end().await
    }

    /// The time of the turn that begins. Wall time is followed only when the two clocks have drifted apart,
    /// so that times in the journal never run backwards by the width of a reading.
    fn tick(&mut self) -> Mono {
        self.now = self.clock.now().max(self.now);
        let origin = origin_of(self.now, self.clock.wall());
        if origin.0.abs_diff(self.wall_origin.0) > WALL_DRIFT_MICROS {
            self.wall_origin = origin;
        }
        self.now
    }

    /// How long the engine may sleep when nothing comes in.
    fn sleep_for(&mut self, now: Mono) -> Duration {
        if self.is_in_the_middle() {
            return Duration::ZERO;
        }
        let grants = match self.may_grant(now) {
            true => self.controller.next_wake(),
            false => self.local_rest.max(now.after(TICK)),
        };
        let mut wake = grants.min(now.after(TICK));
        wake = wake.min(self.commit_due());
        if self.has_news() && self.watcher.as_ref().is_some_and(|watcher| watcher.capacity() > 0) {
            wake = wake.min(self.published.after(self.frame));
        }
        wake.since(now)
    }

    /// Whether something that is done in steps has steps left.
    fn is_in_the_middle(&self) -> bool {
        self.walks() || self.gathers() || self.sifts()
    }

    /// Whether requests may go out at all.
    fn may_grant(&self, now: Mono) -> bool {
        let limit = self.config.crawl.max_requests;
        self.phase == Phase::Running
            && self.stopped_because.is_none()
            && now >= self.local_rest
            && self.journal.backlog() < crate::journal::BACKLOG_MAX
            && self.frontier.keeps_up()
            && !self.gathering.is_full()
            && self.is_durable(now)
            && self
                .archive
                .as_ref()
                .is_none_or(|archive| archive.has_room(self.controller.in_flight(), self.controller.concurrency()))
            && (limit == 0 || self.sent < limit)
    }

    /// Whether what ended is on the medium, but for what a kill may cost: what is in flight, and the last moment.
    fn is_durable(&self, now: Mono) -> bool {
        let late = self.frontier.store_ref().map_or(0, |store| store.late(now));
        late == 0 || late.saturating_add(self.controller.in_flight()) < self.controller.concurrency()
    }

    fn is_over(&mut self) -> bool {
        let idle = self.controller.in_flight() == 0;
        match self.phase {
            Phase::Stopped | Phase::Finished => true,
            Phase::Draining => idle && !self.still_gathers(),
            Phase::Running => {
                let limit = self.config.crawl.max_requests;
                let spent = limit > 0 && self.sent >= limit;
                let done = spent || (self.inputs.is_none() && self.frontier.pending() == 0);
                // A crawl that is done waits for a full disk; who cannot wait drains or stops it.
                let kept = self.archive.as_ref().is_none_or(|archive| archive.backlog() == 0 || archive.has_ended());
                let journaled = self.journal.backlog() == 0 || !self.journal_lives;
                let ended = self.exclusions.is_empty() && self.gathering.urls() == 0;
                if idle && done && ended && self.frontier.pending() == 0 && self.settles_held() {
                    return false;
                }
                idle && done && ended && kept && journaled && self.is_settled()
            }
        }
    }

    /// Requeues what is in flight, writes the end into the journal and closes it.
    async fn end(mut self) -> RunEnd {
        let now = self.tick();
        // Aborted tasks end at their next turn; nothing that they do takes longer.
        let _ = tokio::time::timeout(TASKS_WITHIN, self.crew.abort()).await;
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Asked(asked) => self.asked(now, asked),
                Report::Finished(finished) => self.finish_late(now, finished),
            }
        }
        self.end_gathering();
        self.requeue_in_flight(now);
        self.end_sifts();
        self.end_walks();
        let finished = matches!(self.phase, Phase::Running | Phase::Draining);
        if finished {
            self.phase = Phase::Finished;
        }
        self.journal_stop(now);
        self.write_down(now);
        self.commit(now);
        self.publish_last(now).await;
        let totals = self.totals(now);
        self.write_memory(CLOSE_WITHIN).await;
        // The store waits for the journal, so it is closed first.
        let stored = match self.frontier.take_store() {
            Some(store) => store.close(CLOSE_WITHIN).await.err().map(|error| Clean::new(error.to_string())),
            None => None,
        };
        let kept = match self.archive.take() {
            Some(archive) => {
                archive.close(CLOSE_WITHIN).await.err().map(|error| Clean::new(format!("archive: {error}")))
            }
            None => None,
        };
        let trouble = self.journal.close(CLOSE_WITHIN).await.err().map(|error| Clean::new(format!("journal: {error}")));
        RunEnd { totals, trouble: self.broken.or(trouble).or(stored).or(kept).or(self.stopped_because) }
    }
}

/// How links are gathered, by the configuration.
fn link_rules(config: &Config) -> links::Rules {
    let agent = super::robots::parse::product_token(config.crawl.user_agent.as_bytes());
    links::Rules {
        obey: config.crawl.respect_robots,
        agent: String::from_utf8_lossy(agent).into_owned(),
        exclude: config.crawl.exclude.clone(),
    }
}

/// Wall time at the origin of the monotonic clock.
fn origin_of(now: Mono, wall: Wall) -> Wall {
    Wall(wall.0.saturating_sub(i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX)))
}

/// Room in the watcher's channel; never ready when nobody watches.
async fn room(watcher: &Option<mpsc::Sender<Arc<Snapshot>>>) {
    match watcher {
        // The place is given back at once: it was only waited for. An error means that nobody watches.
        Some(watcher) => drop(watcher.reserve().await),
        None => std::future::pending().await,
    }
}

/// News of the archive; never ready if there is none, or it has ended.
async fn archive_news(health: &mut Option<watch::Receiver<ArchiveHealth>>) {
    match health {
        Some(changes) => {
            if changes.changed().await.is_err() {
                *health = None;
            }
        }
        None => std::future::pending().await,
    }
}

/// The next request; never ready when nobody can ask any more.
async fn next_request(requests: &mut Option<mpsc::Receiver<Request>>) -> Option<Request> {
    match requests {
        Some(requests) => requests.recv().await,
        None => std::future::pending().await,
    }
}

/// What was read back; never ready if nothing was asked for.
async fn next_read(frontier: &mut Frontier) -> UrlsRead {
    match frontier.store() {
        Some(store) => store.loaded().await,
        None => std::future::pending().await,
    }
}

/// A commit, or trouble; false when there will be none any more.
async fn changed(health: &mut Option<tokio::sync::watch::Receiver<StoreHealth>>) -> bool {
    match health {
        Some(health) => health.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// The next batch of inputs; never ready if there are none.
async fn next_batch(inputs: &mut Option<InputStream>) -> Option<super::input::Batch> {
    match inputs {
        Some(inputs) => inputs.recv().await,
        None => std::future::pending().await,
    }
}
