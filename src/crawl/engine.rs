//! The engine: one task that owns the controller, the frontier and all state of the crawl.
//!
//! A turn: take what came in (answers, commands, inputs), grant what may go, hand the journal its
//! batch, publish to whoever watches, then sleep until a message or the next slot in the wake queue.
//! Nothing polls: the longest sleep is one second, so that a suspend of the machine is noticed.
//!
//! What bounds it: `concurrency` requests in flight, [`super::frontier::PENDING_MAX`] URLs, the
//! journal's backlog (granting stops above it), and the bounded channels in and out.

mod change;
mod dispatch;
mod finish;
mod focus;
mod intake;
mod publish;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exchange::Fetch;
use super::frontier::Frontier;
use super::hosts::Hosts;
use super::input::InputStream;
use super::robots::Robots;
use super::throughput::Throughput;
use crate::clock::{Clock, Wall};
use crate::config::Config;
use crate::control::backoff::SeededJitter;
use crate::control::{Controller, Mono};
use crate::journal::Journal;
use crate::text::Clean;
use crate::watch::{ActAnswer, LogLine, Phase, Request, Snapshot, Totals};

use dispatch::Finished;

/// The longest sleep of the engine: a suspend of the machine is noticed within it.
const TICK: Duration = Duration::from_secs(1);
/// Granting stops while our own trouble (no descriptors) lasts, for this long at a time.
const LOCAL_REST: Duration = Duration::from_secs(1);
/// The journal's last batch may take so long to reach the disk.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How often the counters go into the journal.
const PROGRESS_EVERY: Duration = Duration::from_secs(60);

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
    /// The URLs.
    pub inputs: InputStream,
    /// Requests of the operator and of the signals.
    pub requests: mpsc::Receiver<Request>,
    /// Who watches, if anybody: a channel of capacity one.
    pub watcher: Option<mpsc::Sender<Arc<Snapshot>>>,
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
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    controller: Controller,
    frontier: Frontier,
    hosts: Hosts,
    robots: Robots,
    journal: Journal,
    inputs: Option<InputStream>,
    more_inputs: std::collections::VecDeque<InputStream>,
    excluded: Vec<regex::Regex>,
    requests: Option<mpsc::Receiver<Request>>,
    finished_in: mpsc::Sender<Finished>,
    finished_out: mpsc::Receiver<Finished>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    in_flight: dispatch::InFlight,
    watcher: Option<mpsc::Sender<Arc<Snapshot>>>,
    frame: Duration,
    phase: Phase,
    counts: UrlCounts,
    sent: u64,
    bad_lines: u64,
    throughput: Throughput,
    log: std::collections::VecDeque<LogLine>,
    answers: Vec<ActAnswer>,
    notices: Vec<Clean>,
    recently: focus::Recently,
    first_snapshot: bool,
    published: Mono,
    swept: Mono,
    progressed: Mono,
    local_rest: Mono,
    stopped_because: Option<Clean>,
    started: (Mono, Wall),
    robots_gate: std::collections::HashMap<super::address::Authority, crate::control::HostId>,
}

impl Engine {
    /// An engine that has not begun.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { config, fetch, clock, journal, inputs, requests, watcher, frame, seed } = parts;
        let in_flight = config.settings.concurrency as usize;
        let (finished_in, finished_out) = mpsc::channel(in_flight.max(1) + 16);
        let now = clock.now();
        Self {
            controller: Controller::new(config.settings.clone(), Box::new(SeededJitter::new(seed))),
            frontier: Frontier::default(),
            hosts: Hosts::new(&config),
            robots: Robots::new(&*config.crawl.user_agent, config.settings.backoff),
            journal,
            inputs: Some(inputs),
            more_inputs: std::collections::VecDeque::new(),
            excluded: Vec::new(),
            requests: Some(requests),
            finished_in,
            finished_out,
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            in_flight: dispatch::InFlight::default(),
            watcher,
            frame,
            phase: Phase::Running,
            counts: UrlCounts::default(),
            sent: 0,
            bad_lines: 0,
            throughput: Throughput::default(),
            log: std::collections::VecDeque::new(),
            answers: Vec::new(),
            notices: Vec::new(),
            recently: focus::Recently::default(),
            first_snapshot: true,
            published: Mono::ZERO,
            swept: now,
            progressed: now,
            local_rest: Mono::ZERO,
            stopped_because: None,
            started: (now, clock.wall()),
            robots_gate: std::collections::HashMap::new(),
            config,
            fetch,
            clock,
        }
    }

    /// Runs the crawl to its end.
    pub async fn run(mut self) -> RunEnd {
        self.journal_start();
        let mut health = self.journal.health_changed();
        let mut finished = Vec::new();
        loop {
            let now = self.clock.now();
            self.check_journal(now);
            self.grant(now);
            self.sweep(now);
            self.write_down(now);
            self.publish(now);
            if self.is_over() {
                break;
            }
            let wants_input = self.wants_input();
            let sleep = self.sleep_for(now);
            tokio::select! {
                biased;
                request = next_request(&mut self.requests) => self.take_request(request),
                count = self.finished_out.recv_many(&mut finished, 1024) => {
                    if count > 0 {
                        let now = self.clock.now();
                        for one in finished.drain(..) {
                            self.finish(now, one);
                        }
                    }
                }
                batch = next_batch(&mut self.inputs), if wants_input => self.take_batch(batch),
                _ = health.changed() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
        self.end().await
    }

    /// How long the engine may sleep when nothing comes in.
    fn sleep_for(&mut self, now: Mono) -> Duration {
        let grants = match self.may_grant(now) {
            true => self.controller.next_wake(),
            false => self.local_rest.max(now.after(TICK)),
        };
        let mut wake = grants.min(now.after(TICK));
        if self.has_news() {
            wake = wake.min(self.published.after(self.frame));
        }
        wake.since(now)
    }

    /// Whether requests may go out at all.
    fn may_grant(&self, now: Mono) -> bool {
        let limit = self.config.crawl.max_requests;
        self.phase == Phase::Running
            && self.stopped_because.is_none()
            && now >= self.local_rest
            && self.journal.backlog() < crate::journal::BACKLOG_MAX
            && (limit == 0 || self.sent < limit)
    }

    fn is_over(&self) -> bool {
        let idle = self.controller.in_flight() == 0;
        match self.phase {
            Phase::Stopped | Phase::Finished => true,
            Phase::Draining => idle,
            Phase::Running => {
                let limit = self.config.crawl.max_requests;
                let spent = limit > 0 && self.sent >= limit;
                idle && (spent || (self.inputs.is_none() && self.frontier.pending() == 0))
            }
        }
    }

    /// Requeues what is in flight, writes the end into the journal and closes it.
    async fn end(mut self) -> RunEnd {
        let now = self.clock.now();
        self.cancel.cancel();
        self.requeue_in_flight(now);
        self.tasks.close();
        let finished = matches!(self.phase, Phase::Running | Phase::Draining);
        if finished {
            self.phase = Phase::Finished;
        }
        self.journal_stop(now);
        self.write_down(now);
        self.publish_last(now);
        let totals = self.totals(now);
        let trouble = self.journal.close(CLOSE_WITHIN).await.err().map(|error| Clean::new(format!("journal: {error}")));
        RunEnd { totals, trouble: trouble.or(self.stopped_because) }
    }
}

/// The next request; never ready when nobody can ask any more.
async fn next_request(requests: &mut Option<mpsc::Receiver<Request>>) -> Option<Request> {
    match requests {
        Some(requests) => requests.recv().await,
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
