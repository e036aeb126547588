//! Cycles of the controller per second: grant, queue, answer, queue; and `governor`'s keyed check beside it.
//!
//! 100,000 hosts in a shuffled order, all of them ready, 64 requests in flight, time moving on a microsecond a
//! cycle: what an engine does to the core when nothing but the core limits it. All run in the same loop of rounds,
//! on one core; the best round of each counts. What a rate's controller costs of that is measured apart: told of a
//! sending and of its answer, and asked for its target after each.

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crawldeck::control::adaptive::{Adaptive, Bounds, Observation, RateController as _, Signal};
use crawldeck::control::backoff::SeededJitter;
use crawldeck::control::host::LaneQueue;
use crawldeck::control::{
    Answer, Controller, ControllerKind, Grant, HostId, Lane, Mono, Original, Policy, PolicyId, RequestKind, Settings,
    Verdict,
};

use crate::table::{Table, thousands};

const HOSTS: u32 = 100_000;
const IN_FLIGHT: usize = 64;
const CYCLES: u32 = 1_000_000;
const ROUNDS: u32 = 7;

pub(crate) fn measure(table: &mut Table) {
    let mut order: Vec<u32> = (0..HOSTS).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let mut halving = World::new(&order, ControllerKind::Halving);
    let mut adaptive = World::new(&order, ControllerKind::Adaptive);
    for world in [&mut halving, &mut adaptive] {
        world.run(2 * HOSTS); // Everybody is hot.
    }
    let governor = governor::RateLimiter::keyed(governor::Quota::per_second(NonZeroU32::MAX));
    check(&governor, &order, HOSTS);

    let (mut ours, mut finding, mut theirs) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        ours = ours.max(per_second(|| halving.run(CYCLES)));
        finding = finding.max(per_second(|| adaptive.run(CYCLES)));
        theirs = theirs.max(per_second(|| check(&governor, &order, CYCLES)));
    }
    for (name, figure) in [("halving", ours), ("adaptive", finding)] {
        let row = format!("controller `{name}`, 100,000 hosts, grant and outcome");
        table.add(row, format!("{}/s", thousands(figure)), "≥ 1,000,000/s");
    }
    drop((halving, adaptive));
    for (name, kind) in [("halving", ControllerKind::Halving), ("adaptive", ControllerKind::Adaptive)] {
        let mut rates = Rates::new(kind);
        rates.run(&order, 2 * HOSTS);
        let nanos = (0..ROUNDS).map(|_| 1e9 / per_second(|| rates.run(&order, CYCLES))).fold(f64::MAX, f64::min);
        table.add(
            format!("of that, the rate's controller `{name}`, per request"),
            format!("{nanos:.0} ns"),
            "≤ 300 ns",
        );
        // What of that is the machine's memory: so few that they stay in its cache.
        let few = &order[..1_000];
        let nanos = (0..ROUNDS).map(|_| 1e9 / per_second(|| rates.run(few, CYCLES))).fold(f64::MAX, f64::min);
        table.add(format!("the same, `{name}`, 1,000 hosts"), format!("{nanos:.0} ns"), "≤ 300 ns");
    }
    let text = format!("{}/s; a whole cycle of ours costs {:.1} of their checks", thousands(theirs), theirs / ours);
    table.add("`governor` keyed check, same run", text, "printed");
}

fn per_second(run: impl FnOnce()) -> f64 {
    let began = Instant::now();
    run();
    f64::from(CYCLES) / began.elapsed().as_secs_f64()
}

fn check(governor: &governor::DefaultKeyedRateLimiter<u32>, order: &[u32], count: u32) {
    for key in order.iter().cycle().take(count as usize) {
        black_box(governor.check_key(key)).expect("no limit is reached");
    }
}

/// Nothing but the controllers of the hosts' rates: every 200th answer is a refusal.
struct Rates {
    each: Vec<Adaptive>,
    bounds: Bounds,
    now: u64,
}

impl Rates {
    fn new(kind: ControllerKind) -> Self {
        let original = Original { rate: 10.0, capacity: 10.0 };
        let bounds = Bounds { original, min_rate: 0.0, refused: 1, budget: 8, cold: false, held_until: Mono::ZERO };
        Self { each: (0..HOSTS).map(|_| Adaptive::new(kind, original)).collect(), bounds, now: 1_000_000_000 }
    }

    fn run(&mut self, order: &[u32], requests: u32) {
        for (turn, host) in order.iter().cycle().take(requests as usize).enumerate() {
            // A host's turn comes each half second.
            self.now += 500_000_000 / order.len() as u64;
            let (sent, answered) = (Mono::from_nanos(self.now - 50_000_000), Mono::from_nanos(self.now));
            let one = &mut self.each[*host as usize];
            one.on_send(sent, &self.bounds);
            black_box(one.target(sent));
            let signal = if turn % 200 == 199 { Signal::Throttle } else { Signal::Success };
            black_box(one.pause(sent));
            let seen = Observation { signal, sent, probe: false, latency: 0.05 };
            black_box(one.on_outcome(answered, &self.bounds, &seen));
            black_box(one.target(answered));
        }
    }
}

/// A controller, what is queued for its hosts, and what is in flight.
pub(crate) struct World {
    controller: Controller,
    queued: Vec<u32>,
    flights: VecDeque<Grant>,
    now: u64,
}

impl World {
    pub(crate) fn new(order: &[u32], kind: ControllerKind) -> Self {
        let policy = Policy { original: Original { rate: 1e6, capacity: 1e6 }, kind, ..Policy::default() };
        let settings = Settings { policies: vec![policy], cold_start: false, ..Settings::default() };
        let mut controller = Controller::new(settings, Box::new(SeededJitter::new(1)));
        for _ in order {
            controller.add_host(PolicyId(0));
        }
        let queued = vec![1_000_000; order.len()];
        for host in order {
            let queue = LaneQueue { ready: 1_000_000, ..LaneQueue::EMPTY };
            controller.set_queue(Mono::ZERO, HostId(*host), Lane(0), queue);
        }
        Self { controller, queued, flights: VecDeque::new(), now: 1_000_000 }
    }

    /// So many cycles.
    pub(crate) fn run(&mut self, cycles: u32) {
        for _ in 0..cycles {
            self.now += 1_000;
            let now = Mono::from_nanos(self.now);
            if self.flights.len() == IN_FLIGHT {
                self.answer(now);
            }
            let grant = self.controller.next(now).expect("somebody is ready");
            // The engine takes a job and says what is left.
            self.queued[grant.host.0 as usize] -= 1;
            self.sync(now, grant.host);
            self.flights.push_back(grant);
        }
        // As the engine does at the end of a turn; in the steady state there are none.
        black_box(self.controller.take_decisions());
        while self.controller.has_changed() {
            black_box(self.controller.take_changed(50_000));
        }
    }

    fn answer(&mut self, now: Mono) {
        let Some(grant) = self.flights.pop_front() else { return };
        let answer = Answer {
            host: grant.host,
            lane: grant.lane,
            kind: RequestKind::Page,
            sent: grant.at,
            verdict: Verdict::Status(200),
            retry_after: None,
            latency: Duration::from_millis(20) + now.since(grant.at),
            unprocessed: false,
        };
        black_box(self.controller.answer(now, &answer));
        // The engine says it after an answer as well.
        self.sync(now, grant.host);
    }

    fn sync(&mut self, now: Mono, host: HostId) {
        let queue = LaneQueue { ready: self.queued[host.0 as usize], ..LaneQueue::EMPTY };
        self.controller.set_queue(now, host, Lane(0), queue);
    }
}
