//! Cycles of the controller per second: grant, queue, answer, queue; and `governor`'s keyed check beside it.
//!
//! 100,000 hosts in a shuffled order, all of them ready, 64 requests in flight, time moving on a microsecond a
//! cycle: what an engine does to the core when nothing but the core limits it. Both run in the same loop of rounds,
//! on one core; the best round of each counts.

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crawldeck::control::backoff::SeededJitter;
use crawldeck::control::host::LaneQueue;
use crawldeck::control::{
    Answer, Controller, Grant, HostId, Lane, Mono, Original, Policy, PolicyId, RequestKind, Settings, Verdict,
};

use crate::table::{Table, thousands};

const HOSTS: u32 = 100_000;
const IN_FLIGHT: usize = 64;
const CYCLES: u32 = 1_000_000;
const ROUNDS: u32 = 7;

pub(crate) fn measure(table: &mut Table) {
    let mut order: Vec<u32> = (0..HOSTS).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let mut world = World::new(&order);
    world.run(2 * HOSTS); // Everybody is hot.
    let governor = governor::RateLimiter::keyed(governor::Quota::per_second(NonZeroU32::MAX));
    check(&governor, &order, HOSTS);

    let (mut ours, mut theirs) = (0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        ours = ours.max(per_second(|| world.run(CYCLES)));
        theirs = theirs.max(per_second(|| check(&governor, &order, CYCLES)));
    }
    table.add("controller, 100,000 hosts, grant and outcome", format!("{}/s", thousands(ours)), "≥ 1,000,000/s");
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

/// A controller, what is queued for its hosts, and what is in flight.
pub(crate) struct World {
    controller: Controller,
    queued: Vec<u32>,
    flights: VecDeque<Grant>,
    now: u64,
}

impl World {
    pub(crate) fn new(order: &[u32]) -> Self {
        let policy = Policy { original: Original { rate: 1e6, capacity: 1e6 }, ..Policy::default() };
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
