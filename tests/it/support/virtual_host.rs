//! One host in virtual time: the real controller, a scripted server, and a clock that jumps from event
//! to event. Used by the scenario files and by the property tests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crawldeck::control::backoff::NoJitter;
use crawldeck::control::host::LaneQueue;
use crawldeck::control::prior::Advice;
use crawldeck::control::{
    Answer, Controller, Grant, HostId, Lane, Mono, Original, Outcome, PolicyId, RequestKind, Settings, Verdict,
};

/// What the server answers to one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response {
    /// Status or failure.
    pub(crate) verdict: Verdict,
    /// Retry-After.
    pub(crate) retry_after: Option<Duration>,
    /// From send to the answer.
    pub(crate) latency: Duration,
}

impl Response {
    /// As the answer to what was granted.
    pub(crate) fn to(self, grant: &Grant) -> Answer {
        Answer {
            host: grant.host,
            lane: grant.lane,
            kind: RequestKind::Page,
            sent: grant.at,
            verdict: self.verdict,
            retry_after: self.retry_after,
            latency: self.latency,
            unprocessed: false,
        }
    }
}

/// A server's token bucket, full at first.
pub(crate) struct BucketServer {
    pub(crate) rate: f64,
    burst: f64,
    level: f64,
    at: Mono,
}

impl BucketServer {
    pub(crate) fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, level: burst, at: Mono::ZERO }
    }

    /// A page after so many milliseconds, or a refusal, which is quick.
    pub(crate) fn answer(&mut self, now: Mono, millis: u64) -> Response {
        self.level = (self.level + self.rate * now.secs_since(self.at)).min(self.burst);
        self.at = now;
        let taken = self.level >= 1.0;
        self.level -= f64::from(u8::from(taken));
        let (status, millis) = if taken { (200, millis) } else { (429, 40) };
        Response { verdict: Verdict::Status(status), retry_after: None, latency: Duration::from_millis(millis) }
    }
}

/// A request as the server saw it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Arrival {
    /// When.
    pub(crate) at: Mono,
    /// From which lane.
    pub(crate) lane: Lane,
    /// Whether it was a probe.
    pub(crate) probe: bool,
    /// The host's effective rate and capacity just after its grant.
    pub(crate) rate: f64,
    /// See `rate`.
    pub(crate) capacity: f64,
}

/// The whole little world.
pub(crate) struct VirtualHost {
    /// The controller under test.
    pub(crate) controller: Controller,
    /// Its only host.
    pub(crate) host: HostId,
    /// The time.
    pub(crate) now: Mono,
    /// What arrived.
    pub(crate) arrivals: Vec<Arrival>,
    /// What the answers ended in.
    pub(crate) outcomes: Vec<(Mono, Outcome)>,
    /// Effective rate and capacity, each from its moment on.
    pub(crate) targets: Vec<(Mono, Original)>,
    /// What a prior proposes, one each second by turns.
    pub(crate) advice: Vec<Advice>,
    advised: usize,
    swept: Mono,
    due: BinaryHeap<Reverse<(Mono, u64)>>,
    flying: Vec<Option<Answer>>,
    queued: [u32; 4],
}

impl VirtualHost {
    /// A host with the first policy of `settings`.
    pub(crate) fn new(settings: Settings) -> Self {
        let mut controller = Controller::new(settings, Box::new(NoJitter));
        let host = controller.add_host(PolicyId(0));
        Self {
            controller,
            host,
            now: Mono::ZERO,
            arrivals: Vec::new(),
            outcomes: Vec::new(),
            targets: Vec::new(),
            advice: Vec::new(),
            advised: 0,
            swept: Mono::ZERO,
            due: BinaryHeap::new(),
            flying: Vec::new(),
            queued: [0; 4],
        }
    }

    /// Queues more URLs in a lane.
    pub(crate) fn queue(&mut self, lane: Lane, urls: u32) {
        self.queued[usize::from(lane.0)] += urls;
        self.sync(lane);
    }

    /// Takes all URLs of a lane out: the host goes idle.
    pub(crate) fn unqueue(&mut self, lane: Lane) {
        self.queued[usize::from(lane.0)] = 0;
        self.sync(lane);
    }

    fn sync(&mut self, lane: Lane) {
        let ready = self.queued[usize::from(lane.0)];
        self.controller.set_queue(self.now, self.host, lane, LaneQueue { ready, ..LaneQueue::EMPTY });
    }

    /// Runs until `end`; `respond` is the server.
    pub(crate) fn run_until(&mut self, end: Mono, mut respond: impl FnMut(Mono, Lane) -> Response) {
        loop {
            self.note_target();
            self.send_all(&mut respond);
            self.note_target();
            let answer = self.due.peek().map_or(Mono::NEVER, |Reverse((at, _))| *at);
            let next = answer.min(self.controller.next_wake());
            if next > end {
                self.now = self.now.max(end);
                return;
            }
            self.now = self.now.max(next);
            while let Some(Reverse((at, index))) = self.due.peek().copied() {
                if at > self.now {
                    break;
                }
                self.due.pop();
                let Some(answer) = self.flying[index as usize].take() else { continue };
                let judgement = self.controller.answer(self.now, &answer);
                self.outcomes.push((self.now, judgement.outcome));
                if matches!(judgement.outcome, Outcome::Throttled | Outcome::Refused) {
                    self.queued[usize::from(answer.lane.0)] += 1;
                }
                self.sync(answer.lane);
            }
            if self.now.since(self.swept) >= Duration::from_secs(1) {
                self.swept = self.now;
                self.controller.sweep(self.now, 100);
                if let Some(advice) = self.advice.get(self.advised % self.advice.len().max(1)) {
                    self.controller.advise(self.now, self.host, advice);
                    self.advised += 1;
                }
            }
        }
    }

    /// Writes down what is effective from now on, if it changed.
    pub(crate) fn note_target(&mut self) {
        let Some(view) = self.controller.view(self.now, self.host) else { return };
        if self.targets.last().is_none_or(|(_, last)| *last != view.effective) {
            self.targets.push((self.now, view.effective));
        }
    }

    fn send_all(&mut self, respond: &mut impl FnMut(Mono, Lane) -> Response) {
        while let Some(grant) = self.controller.next(self.now) {
            self.queued[usize::from(grant.lane.0)] -= 1;
            self.sync(grant.lane);
            let response = respond(self.now, grant.lane);
            self.arrivals.push(Arrival {
                at: self.now,
                lane: grant.lane,
                probe: grant.probe,
                rate: grant.rate,
                capacity: grant.capacity,
            });
            self.due.push(Reverse((self.now.after(response.latency), self.flying.len() as u64)));
            self.flying.push(Some(response.to(&grant)));
        }
    }
}
