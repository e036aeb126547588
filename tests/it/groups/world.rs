//! Many hosts in virtual time: the real controller, any server, and a clock that jumps from event to event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crawldeck::control::backoff::{Jitter, NoJitter, SeededJitter};
use crawldeck::control::host::LaneQueue;
use crawldeck::control::{
    Answer, Controller, Decision, Grant, HostId, HostView, Lane, Mono, Origin, Original, Outcome, Policy, PolicyId,
    Settings, Verdict,
};

use crate::control_properties::assert_envelope;
use crate::support::virtual_host::{Arrival, Response};

/// A request as the server saw it: when, and for whom.
pub(crate) type Seen = (Mono, HostId);

/// The whole little world.
pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) now: Mono,
    pub(crate) seen: Vec<Seen>,
    /// What the answers ended in.
    pub(crate) outcomes: Vec<(Mono, HostId, Outcome)>,
    pub(crate) decisions: Vec<Decision>,
    /// What the group of the first host had in force, each from its moment on.
    targets: Vec<(Mono, Original)>,
    /// What connects the hosts' refusals.
    pub(crate) origins: Vec<Origin>,
    due: BinaryHeap<Reverse<(Mono, u64)>>,
    flying: Vec<Option<Answer>>,
    queued: Vec<u32>,
    swept: Mono,
}

/// Settings with one policy of these originals, and no cold start.
pub(crate) fn settings(rate: f64, capacity: f64) -> Settings {
    let policy = Policy { original: Original { rate, capacity }, connections: 20, ..Policy::default() };
    Settings { policies: vec![policy], cold_start: false, ..Settings::default() }
}

/// An answer with a status after 50 ms.
pub(crate) fn status(status: u16) -> Response {
    Response { verdict: Verdict::Status(status), retry_after: None, latency: Duration::from_millis(50) }
}

impl World {
    /// So many hosts of policy 0, each with so many URLs.
    pub(crate) fn new(settings: Settings, hosts: u32, urls: u32) -> Self {
        Self::with(Box::new(NoJitter), settings, hosts, urls)
    }

    /// The same, with what is left to chance drawn from `seed`.
    pub(crate) fn seeded(seed: u64, settings: Settings, hosts: u32, urls: u32) -> Self {
        Self::with(Box::new(SeededJitter::new(seed)), settings, hosts, urls)
    }

    fn with(jitter: Box<dyn Jitter + Send>, settings: Settings, hosts: u32, urls: u32) -> Self {
        let mut controller = Controller::new(settings, jitter);
        for _ in 0..hosts {
            controller.add_host(PolicyId(0));
        }
        let mut world = Self {
            controller,
            now: Mono::ZERO,
            seen: Vec::new(),
            outcomes: Vec::new(),
            decisions: Vec::new(),
            targets: Vec::new(),
            origins: vec![Origin::default(); hosts as usize],
            due: BinaryHeap::new(),
            flying: Vec::new(),
            queued: vec![urls; hosts as usize],
            swept: Mono::ZERO,
        };
        (0..hosts).for_each(|host| world.sync(HostId(host)));
        world
    }

    /// Puts all hosts into one group.
    pub(crate) fn group_all(&mut self, name: &str) {
        (0..self.queued.len()).for_each(|host| self.controller.join(self.now, HostId(host as u32), name));
        self.note_target();
    }

    pub(crate) fn view(&self, host: u32) -> HostView {
        self.controller.view(self.now, HostId(host)).expect("a host")
    }

    fn sync(&mut self, host: HostId) {
        let ready = self.queued[host.0 as usize];
        self.controller.set_queue(self.now, host, Lane(0), LaneQueue { ready, ..LaneQueue::EMPTY });
    }

    /// Queues more URLs of a host.
    pub(crate) fn queue(&mut self, host: u32, urls: u32) {
        self.queued[host as usize] += urls;
        self.sync(HostId(host));
    }

    /// Writes down what the group's bucket uses from now on, if it changed.
    pub(crate) fn note_target(&mut self) {
        let Some(group) = self.controller.group_view(self.now, HostId(0)) else { return };
        if self.targets.last().is_none_or(|(_, last)| *last != group.effective) {
            self.targets.push((self.now, group.effective));
        }
    }

    /// Runs for so many seconds; `respond` is the server.
    pub(crate) fn run(&mut self, secs: f64, respond: impl FnMut(Mono, HostId) -> Response) {
        self.run_until(self.now.after_secs(secs), respond);
    }

    pub(crate) fn run_until(&mut self, end: Mono, mut respond: impl FnMut(Mono, HostId) -> Response) {
        loop {
            self.note_target();
            while let Some(grant) = self.controller.next(self.now) {
                self.send(&grant, &mut respond);
            }
            self.note_target();
            let answer = self.due.peek().map_or(Mono::NEVER, |Reverse((at, _))| *at);
            let next = answer.min(self.controller.next_wake()).min(self.swept.after_secs(1.0));
            if next > end {
                self.now = self.now.max(end);
                self.decisions.extend(self.controller.take_decisions());
                return;
            }
            self.now = self.now.max(next);
            while let Some(Reverse((at, index))) = self.due.peek().copied().filter(|Reverse((at, _))| *at <= self.now) {
                self.due.pop();
                let Some(answer) = self.flying[index as usize].take() else { continue };
                self.controller.origin(answer.host, self.origins[answer.host.0 as usize]);
                let judgement = self.controller.answer(at, &answer);
                self.outcomes.push((at, answer.host, judgement.outcome));
                if matches!(judgement.outcome, Outcome::Throttled | Outcome::Refused) {
                    self.queued[answer.host.0 as usize] += 1;
                }
                self.sync(answer.host);
            }
            if self.now.since(self.swept) >= Duration::from_secs(1) {
                self.swept = self.now;
                self.controller.sweep(self.now, 1_000);
            }
        }
    }

    fn send(&mut self, grant: &Grant, respond: &mut impl FnMut(Mono, HostId) -> Response) {
        let host = grant.host;
        self.queued[host.0 as usize] -= 1;
        self.sync(host);
        let response = respond(self.now, host);
        self.seen.push((self.now, host));
        self.due.push(Reverse((self.now.after(response.latency), self.flying.len() as u64)));
        self.flying.push(Some(response.to(grant)));
    }

    /// Requests of one host so far.
    pub(crate) fn sent_by(&self, host: u32) -> usize {
        self.seen.iter().filter(|(_, of)| *of == HostId(host)).count()
    }

    /// Fails the test unless the server saw no more than the group's bucket allows, at the values of the time.
    pub(crate) fn assert_one_bucket(&self) {
        let arrival = |(at, _): &Seen| Arrival { at: *at, lane: Lane(0), probe: false, rate: 0.0, capacity: 0.0 };
        let arrivals: Vec<Arrival> = self.seen.iter().map(arrival).collect();
        assert_envelope(&arrivals, &self.targets);
    }
}
