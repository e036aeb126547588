//! The real core as a client: the same controller, buckets, holds and backoff as in the crawl.

use std::time::Duration;

use super::client::{Client, Heard, Sending, Silence};
use super::supply::{Stock, Supply};
use super::{Random, SimServer};
use crate::control::backoff::{self, NoJitter, SeededJitter};
use crate::control::hints;
use crate::control::prior::{Advisor, Experience, Moment, PriorKind};
use crate::control::{
    Answer, Controller, HostId, Lane, Mono, Original, Outcome, PolicyId, RequestKind, Settings, Verdict,
};
use crate::memory::forest;

/// As often as the engine looks at lifetimes and concerns, and over how many hosts.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const SWEEP_HOSTS: usize = 100;
/// Virtual time begins on a Monday, 00:00 UTC (the first one after the epoch).
const MONDAY: u64 = 4 * 86_400;
/// Attempts of one URL that may fail with 5xx or by the network.
const RETRIES: u32 = 5;

/// One crawl process: its controller and a host for each server.
pub(super) struct CoreClient {
    controller: Controller,
    stocks: Vec<Stock>,
    now: Mono,
    swept: Mono,
    settings: Settings,
    advisor: Option<Advisor>,
    /// What fixes the models that are trained.
    seed: u64,
}

impl CoreClient {
    /// A crawler of `servers`. `settings` are the user's; its first policy stands for every host, with
    /// each server's ceiling and connections in place of the originals. It begins at `now`, and remembers of each
    /// server what is in `memory`.
    pub(super) fn new(
        settings: &Settings,
        servers: &[(SimServer, Supply)],
        random: &mut Random,
        now: Mono,
        memory: &[Option<Experience>],
    ) -> Self {
        let mut settings = settings.clone();
        let template = settings.policies.first().cloned().unwrap_or_default();
        settings.policies = servers
            .iter()
            .map(|(server, _)| {
                let mut policy = template.clone();
                policy.original = Original { rate: server.ceiling, capacity: server.ceiling.max(1.0) };
                policy.connections = server.connections;
                policy.endpoints = Vec::new();
                policy.max_requests = 0;
                policy
            })
            .collect();
        let wanted: u32 = servers.iter().map(|(server, _)| server.connections).fold(0, u32::saturating_add);
        settings.concurrency = settings.concurrency.max(wanted);
        settings.global_rate = None;
        let seed = random.next_u64();
        let mut controller = Controller::new(settings.clone(), Box::new(SeededJitter::new(seed)));
        let mut stocks: Vec<Stock> = servers.iter().map(|(_, supply)| Stock::new(*supply)).collect();
        let mut advisor = (settings.prior != PriorKind::Off).then(|| Advisor::new(settings.prior));
        for (index, stock) in stocks.iter_mut().enumerate() {
            let host = controller.add_host(PolicyId(u16::try_from(index).unwrap_or(u16::MAX)));
            if let (Some(advisor), Some(experience)) = (&mut advisor, memory.get(index).cloned().flatten()) {
                let model = match settings.prior {
                    PriorKind::RandomForest => forest::train(&experience.samples, seed),
                    _ => None,
                };
                advisor.recall(&mut controller, (now, moment_of(now)), host, experience, model);
            }
            controller.set_queue(now, host, Lane(0), stock.queue(now));
        }
        Self { controller, stocks, now, swept: now, settings, advisor, seed }
    }

    /// What it has learned of each server that it learned something of.
    pub(super) fn memory(&mut self) -> Vec<(usize, Experience)> {
        let Some(advisor) = &mut self.advisor else { return Vec::new() };
        advisor.look_last(&mut self.controller, self.now, moment_of(self.now));
        advisor.take_changed(true).into_iter().map(|(host, experience, _)| (host.0 as usize, experience)).collect()
    }

    /// Learns and proposes as the engine does; models are trained at once, and fixed by the seed.
    fn advise(&mut self, now: Mono) {
        let Some(advisor) = &mut self.advisor else { return };
        advisor.turn(&mut self.controller, now, moment_of(now));
        while let Some(training) = advisor.take_training() {
            advisor.trained(training.host, forest::train(&training.samples, self.seed));
        }
    }

    fn sync(&mut self, now: Mono, index: usize) {
        let Some(stock) = self.stocks.get_mut(index) else { return };
        let queue = stock.queue(now);
        self.controller.set_queue(now, host_of(index), Lane(0), queue);
    }

    /// The URL of `heard` goes back into the queue, if it is to be asked for again.
    fn requeue(&mut self, now: Mono, index: usize, failures: u32, outcome: Outcome) {
        let due = match outcome {
            Outcome::Throttled | Outcome::Refused => Some((now, failures)),
            Outcome::ServerError | Outcome::Timeout | Outcome::ConnectionReset => {
                let wait = backoff::delay(&self.settings.backoff, failures, &mut NoJitter) + self.controller.spread();
                (failures < RETRIES).then(|| (now.after(wait), failures + 1))
            }
            _ => None,
        };
        if let (Some((due, failures)), Some(stock)) = (due, self.stocks.get_mut(index)) {
            stock.put_back(due, failures);
        }
    }
}

impl Client for CoreClient {
    fn next(&mut self, now: Mono) -> Option<Sending> {
        self.now = now;
        for index in 0..self.stocks.len() {
            if !self.stocks[index].is_constant() {
                self.sync(now, index);
            }
        }
        let grant = self.controller.next(now)?;
        let server = grant.host.0 as usize;
        let mark = self.stocks.get_mut(server).map_or(0, Stock::take);
        Some(Sending { server, mark })
    }

    fn next_wake(&mut self) -> Mono {
        let wake = self.controller.next_wake();
        self.stocks.iter().map(|stock| stock.next_change(self.now)).fold(wake, Mono::min)
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let verdict = match heard.result {
            Ok(status) => Verdict::Status(status),
            Err(Silence::Timeout) => Verdict::Failed(Outcome::Timeout),
            Err(Silence::Reset) => Verdict::Failed(Outcome::ConnectionReset),
        };
        let answer = Answer {
            host: host_of(heard.sending.server),
            lane: Lane(0),
            kind: RequestKind::Page,
            sent: heard.sent,
            verdict,
            retry_after: heard.retry_after(),
            latency: now.since(heard.sent),
            unprocessed: false,
        };
        let headers = heard.headers.iter().map(|(name, value)| (*name, value.as_str()));
        if let Some(hint) = hints::parse(headers, 0.0) {
            self.controller.hint(now, answer.host, answer.lane, &hint, matches!(heard.result, Ok(429 | 503 | 403)));
        }
        let judgement = self.controller.answer(now, &answer);
        self.requeue(now, heard.sending.server, heard.sending.mark, judgement.outcome);
        if now.since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.controller.sweep(now, SWEEP_HOSTS);
            self.advise(now);
            // What the crawl would write down and draw; a saturated host is never given up.
            self.controller.take_given_up();
            self.controller.take_decisions();
            self.controller.take_changed(usize::MAX);
        }
    }
}

fn moment_of(now: Mono) -> Moment {
    Moment(MONDAY + now.as_nanos() / 1_000_000_000)
}

fn host_of(index: usize) -> HostId {
    HostId(u32::try_from(index).unwrap_or(u32::MAX))
}
