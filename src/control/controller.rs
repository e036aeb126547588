//! The controller: all hosts, the wake queue, the crawl-wide limits. Grants requests, takes answers.
//!
//! One grant takes its tokens from every layer (endpoint, host, global) in one step or from none.
//! No waiter ever blocks in a bucket: a host that cannot send stands in the wake queue at its next slot.

use std::time::Duration;

use super::adaptive::{Bounds, Observation, RateController, Signal};
use super::backoff::Jitter;
use super::bucket::Bucket;
use super::eta::Outlook;
use super::history::History;
use super::host::{Hot, LaneQueue, Slot, Standing, cost_of};
use super::wake_queue::{Ticket, WakeQueue};
use super::{
    Answer, Code, Decision, FailureCode, Hint, HostCounts, HostId, HostState, Lane, Mono, Original, Outcome, Policy,
    PolicyId, RequestKind, Settings, Shape, Trend, Value, Verdict, What, Who,
};

/// What the global bucket saves up at most, in seconds of its rate (at least one token).
const GLOBAL_BURST_SECS: f64 = 0.02;

/// Permission to make one wire request now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grant {
    /// To this host.
    pub host: HostId,
    /// From this lane.
    pub lane: Lane,
    /// When it was given: the moment of sending.
    pub at: Mono,
    /// Whether it is the one probe after a hold.
    pub probe: bool,
    /// Rate of the host's bucket just after, tokens per second.
    pub rate: f64,
    /// Capacity of the host's bucket just after, tokens.
    pub capacity: f64,
    /// Level of the host's bucket just after, tokens.
    pub tokens: f64,
}

/// What the controller made of an answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judgement {
    /// What the request ended in.
    pub outcome: Outcome,
    /// The host has answered nothing but refusals for `give_up_after`: its URLs are to be given up.
    pub give_up: bool,
}

/// The core. See the module's text.
pub struct Controller {
    pub(super) settings: Settings,
    pub(super) slots: Vec<Slot>,
    queue: WakeQueue,
    pub(super) global: Option<Bucket>,
    pub(super) global_until: Mono,
    pub(super) in_flight: u32,
    pub(super) halted: bool,
    /// When the last halt ended.
    pub(super) resumed: Mono,
    pub(super) jitter: Box<dyn Jitter + Send>,
    pub(super) counts: HostCounts,
    pub(super) history: History,
    pub(super) decisions: Vec<Decision>,
    changed: Vec<HostId>,
    /// Hosts whose saved form has changed.
    pub(super) unsaved: Vec<HostId>,
    /// Hosts before this one were known to an earlier process, which may have spent their tokens until this moment.
    pub(super) resumed_hosts: (usize, Mono),
    pub(super) sweep_at: usize,
    pub(super) outlook: Outlook,
    pub(super) given_up: Vec<(HostId, &'static str)>,
}

impl Controller {
    /// A controller without hosts. Policies must not be empty; an empty list gets the default one.
    pub fn new(mut settings: Settings, jitter: Box<dyn Jitter + Send>) -> Self {
        if settings.policies.is_empty() {
            settings.policies.push(Policy::default());
        }
        let global = settings.global_rate.map(|rate| Bucket::full(Shape::TokenBucket, global_target(rate), Mono::ZERO));
        Self {
            settings,
            slots: Vec::new(),
            queue: WakeQueue::default(),
            global,
            global_until: Mono::ZERO,
            in_flight: 0,
            halted: false,
            resumed: Mono::ZERO,
            jitter,
            counts: HostCounts::default(),
            history: History::default(),
            decisions: Vec::new(),
            changed: Vec::new(),
            unsaved: Vec::new(),
            resumed_hosts: (0, Mono::ZERO),
            sweep_at: 0,
            outlook: Outlook::default(),
            given_up: Vec::new(),
        }
    }

    /// What it was told at the start.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes a host known. An unknown policy is the default one. Hosts are never forgotten; the
    /// frontier bounds how many there are.
    pub fn add_host(&mut self, policy: PolicyId) -> HostId {
        let policy = if usize::from(policy.0) < self.settings.policies.len() { policy } else { PolicyId(0) };
        let id = HostId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        self.slots.push(Slot::new(policy, &self.settings.policies[usize::from(policy.0)]));
        self.counts.hosts += 1;
        self.counts.by_state[HostState::Idle as usize] += 1;
        self.touch(id);
        id
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.slots.len()
    }

    /// The frontier tells what is queued in one lane.
    pub fn set_queue(&mut self, now: Mono, host: HostId, lane: Lane, queue: LaneQueue) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        let Some(place) = slot.lanes.get_mut(lane) else { return };
        if *place == queue {
            return;
        }
        // What lies behind the first URL decides nothing: a list of millions comes in so.
        let same = place.available_at() == queue.available_at() && place.is_empty() == queue.is_empty();
        *place = queue;
        if same { self.touch(host) } else { self.replan(now, host) }
    }

    /// The next grant at `now`, if anybody may send: the host whose slot came first. Call until `None`.
    pub fn next(&mut self, now: Mono) -> Option<Grant> {
        while !self.halted && self.in_flight < self.settings.concurrency && self.global_until <= now {
            let slots = &self.slots;
            let (at, host) = self.queue.peek(|host| ticket_of(slots, host))?;
            if at > now {
                return None;
            }
            self.end_lifetimes(now, host);
            let slot = &self.slots[host.0 as usize];
            let policy = &self.settings.policies[usize::from(slot.policy.0)];
            let standing = slot.standing(now, policy);
            let Some(lane) = standing.lane.filter(|_| standing.at <= now) else {
                self.place(now, host, &standing);
                continue;
            };
            let cost = cost_of(policy, usize::from(lane.0));
            if let Some(global) = &mut self.global {
                let ready = global.ready_at(now, cost);
                if ready > now {
                    // The host keeps its place: it is first when the global bucket has refilled.
                    self.global_until = ready;
                    return None;
                }
            }
            if let Some(grant) = self.grant(now, host, lane, cost) {
                return Some(grant);
            }
        }
        None
    }

    /// When [`Self::next`] may have something, if nothing else happens before. [`Mono::NEVER`] = only
    /// after an answer, a command or new work.
    pub fn next_wake(&mut self) -> Mono {
        if self.halted || self.in_flight >= self.settings.concurrency {
            return Mono::NEVER;
        }
        let slots = &self.slots;
        match self.queue.peek(|host| ticket_of(slots, host)) {
            Some((at, _)) => at.max(self.global_until),
            None => Mono::NEVER,
        }
    }

    /// Takes the tokens of one request from every layer. All were seen ready at `now`.
    fn grant(&mut self, now: Mono, host: HostId, lane: Lane, cost: f64) -> Option<Grant> {
        let first = self.slots[host.0 as usize].hot.is_none();
        self.heat(now, host);
        self.save_later(host);
        let slot = &mut self.slots[host.0 as usize];
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return None };
        let endpoint = usize::from(lane.0).checked_sub(1);
        let taken = hot.layer.bucket.take(now, cost);
        let endpoint_taken = match endpoint.and_then(|endpoint| hot.endpoints.get_mut(endpoint)) {
            Some(layer) => layer.bucket.take(now, cost),
            None => true,
        };
        if !(taken && endpoint_taken) {
            // Readiness and taking agree, so this does not happen; if it did, no token may be lost.
            if taken {
                hot.layer.bucket.give_back(now, cost);
            }
            self.replan(now, host);
            return None;
        }
        if let Some(global) = &mut self.global {
            global.take(now, cost);
        }
        let probe = hot.holding.on_send(now);
        let cold = hot.is_cold(&self.settings);
        let bounds = hot.bounds(now, policy, &self.settings);
        hot.layer.adaptive.on_send(now, &bounds);
        if let Some(layer) = endpoint.and_then(|endpoint| hot.endpoints.get_mut(endpoint)) {
            layer.adaptive.on_send(now, &Bounds { original: layer.original, ..bounds });
            let target = layer.adaptive.target(now);
            layer.bucket.set_target(now, target);
        }
        hot.in_flight += 1;
        hot.sent += 1;
        hot.turn = lane.0.wrapping_add(1);
        hot.first_sent.get_or_insert(now);
        // A cold start may be over, and time moves a rate that probes.
        hot.retarget(now, policy, &self.settings);
        // The next request of this host queues up behind all that are due.
        self.queue.remove(&mut slot.ticket);
        let target = hot.layer.bucket.target();
        let tokens = hot.layer.bucket.tokens(now);
        let (original, adaptive) = (hot.layer.original, hot.adaptive(now, &self.settings));
        self.in_flight += 1;
        if first {
            self.decide(
                now,
                Who::System,
                Some(host),
                What::Rate,
                Value::None,
                Value::Number(original.rate),
                "original",
            );
            if adaptive.rate < original.rate {
                let (before, after) = (Value::Number(original.rate), Value::Number(adaptive.rate));
                self.decide(
                    now,
                    Who::Controller,
                    Some(host),
                    What::Rate,
                    before,
                    after,
                    "cold start: first 10 requests",
                );
            }
        } else if cold && adaptive.rate > super::host::COLD.rate {
            let (before, after) = (Value::Number(super::host::COLD.rate), Value::Number(adaptive.rate));
            self.decide(now, Who::Controller, Some(host), What::Rate, before, after, "cold start is over");
        }
        self.replan(now, host);
        Some(Grant { host, lane, at: now, probe, rate: target.rate, capacity: target.capacity, tokens })
    }

    /// A grant that was not used: nothing went out on the wire. Its tokens return if that is known at once.
    pub fn cancel(&mut self, now: Mono, grant: &Grant) {
        let Some(slot) = self.slots.get_mut(grant.host.0 as usize) else { return };
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return };
        let cost = cost_of(policy, usize::from(grant.lane.0));
        hot.in_flight = hot.in_flight.saturating_sub(1);
        hot.sent = hot.sent.saturating_sub(1);
        hot.holding.on_cancel(grant.at);
        // Later the bucket may have been full and emptied meanwhile, and the token would count twice: it lapses.
        if now == grant.at {
            hot.layer.bucket.give_back(now, cost);
            let endpoint = usize::from(grant.lane.0).checked_sub(1).and_then(|one| hot.endpoints.get_mut(one));
            if let Some(endpoint) = endpoint {
                endpoint.bucket.give_back(now, cost);
            }
            if let Some(global) = &mut self.global {
                global.give_back(now, cost);
                self.global_until = Mono::ZERO;
            }
        }
        // A cold start that this grant had ended goes on.
        hot.retarget(now, policy, &self.settings);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.save_later(grant.host);
        self.replan(now, grant.host);
    }

    /// The headers of an answer that is about to be reported told of the server's limit. `refused`: that answer is a
    /// refusal.
    pub fn hint(&mut self, now: Mono, host: HostId, hint: &Hint, refused: bool) {
        let Some(hot) = self.slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        hot.exhausted = refused && hint.exhausted() && hot.pace.trusted(now);
        if hot.exhausted {
            hot.pace.missed(now);
        }
        hot.pace.hear(now, hint, hot.in_flight.saturating_sub(1));
    }

    /// A wire request ended.
    pub fn answer(&mut self, now: Mono, answer: &Answer) -> Judgement {
        let nothing = Judgement { outcome: Outcome::Local, give_up: false };
        let Some(slot) = self.slots.get_mut(answer.host.0 as usize) else { return nothing };
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return nothing };
        self.in_flight = self.in_flight.saturating_sub(1);
        hot.in_flight = hot.in_flight.saturating_sub(1);
        if let Some(delay) = &mut hot.crawl_delay {
            delay.gap_until = now.after(delay.obeyed);
        }
        let pause = hot.adapted(answer.lane).adaptive.pause(answer.sent);
        let ruling = hot.holding.on_answer(now, answer, pause, &self.settings.backoff, self.jitter.as_mut());
        let outcome = ruling.outcome;
        hot.last_outcome = Some(outcome);
        hot.histogram.record(now, code_of(answer, outcome));
        if matches!(answer.verdict, Verdict::Status(_)) {
            hot.latency.record(answer.latency);
        }
        let signal = signal_of(outcome);
        if matches!(signal, Signal::Throttle | Signal::Refused) {
            hot.refusals.record(now);
        }
        hot.given_up &= signal != Signal::Success;
        if signal == Signal::Success && answer.kind != RequestKind::Robots {
            hot.last_ok = Some(now);
        }
        let latency = answer.latency.as_secs_f64();
        // A window that is used up, as its headers say, tells nothing new of the limit.
        let told = std::mem::take(&mut hot.exhausted) && signal == Signal::Throttle;
        let signal = if told { Signal::Neutral } else { signal };
        let observation = Observation { signal, sent: answer.sent, probe: ruling.probe, latency };
        let host_bounds = hot.bounds(now, policy, &self.settings);
        let layer = hot.adapted(answer.lane);
        let bounds = Bounds { original: layer.original, ..host_bounds };
        let shift = layer.adaptive.on_outcome(now, &bounds, &observation);
        let mut helped = None;
        if answer.lane.0 > 0 {
            if let Some(shift) = shift {
                layer.bucket.set_target(now, shift.after);
            }
            if signal == Signal::Success {
                // The host was cut by others' answers; every success helps it back.
                helped = hot.layer.adaptive.on_outcome(now, &host_bounds, &observation);
            }
        }
        if let Some(shift) = shift {
            let trend = if shift.after.rate > shift.before.rate { Trend::Up } else { Trend::Down };
            hot.moved = Some((now, trend));
        }
        hot.retarget(now, policy, &self.settings);
        // Also again, for URLs that came in (or back) since the last time.
        let give_up = matches!(signal, Signal::Throttle | Signal::Refused)
            && hot.holding.refusing_since().is_some_and(|since| now.since(since) >= self.settings.give_up_after);
        hot.given_up |= give_up;
        self.tell_hold(now, answer, &ruling);
        self.tell_shift(now, answer, outcome, answer.lane, shift);
        self.tell_shift(now, answer, outcome, Lane(0), helped);
        self.save_later(answer.host);
        self.replan(now, answer.host);
        Judgement { outcome, give_up }
    }

    /// At most `most` hosts whose view changed since they were last taken; the others stay for the next call.
    pub fn take_changed(&mut self, most: usize) -> Vec<HostId> {
        let rest = self.changed.split_off(most.min(self.changed.len()));
        let taken = std::mem::replace(&mut self.changed, rest);
        for host in &taken {
            self.slots[host.0 as usize].dirty = false;
        }
        taken
    }

    /// Whether [`Self::take_changed`] has any.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Decisions since the last call, oldest first.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Wire requests that one host may see; 0 = no limit.
    pub fn max_requests(&self, host: HostId) -> u64 {
        self.slots.get(host.0 as usize).map_or(0, |_| self.policy_of(host).max_requests)
    }

    /// Whether a host was given up.
    pub fn is_given_up(&self, host: HostId) -> bool {
        let hot = self.slots.get(host.0 as usize).and_then(|slot| slot.hot.as_deref());
        hot.is_some_and(|hot| hot.given_up)
    }

    /// A share of jitter in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.jitter.unit()
    }

    /// A jitter as the backoff adds it.
    pub fn spread(&mut self) -> Duration {
        self.settings.backoff.jitter.mul_f64(self.jitter.unit().clamp(0.0, 1.0))
    }

    /// Whether the global bucket has nothing for anybody now.
    pub(super) fn is_globally_limited(&self, now: Mono) -> bool {
        self.global_until > now
    }

    /// Requests in flight, all hosts.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests in flight at most, all hosts.
    pub fn concurrency(&self) -> u32 {
        self.settings.concurrency
    }

    /// Sets [`Controller::concurrency`]; what is in flight beyond it ends as it would.
    pub fn set_concurrency(&mut self, concurrency: u32) {
        self.settings.concurrency = concurrency;
    }

    /// Whether the operator halted everything.
    pub fn is_halted(&self) -> bool {
        self.halted
    }

    /// URLs queued for a host, those that wait for a retry included.
    pub fn queued(&self, host: HostId) -> u64 {
        self.slots.get(host.0 as usize).map_or(0, |slot| slot.lanes.queued())
    }

    /// The state of a host, made if it has none yet.
    pub(super) fn heat(&mut self, now: Mono, host: HostId) -> Option<&mut Hot> {
        let slot = self.slots.get_mut(host.0 as usize)?;
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let (resumed, at) = self.resumed_hosts;
        let hot = slot.hot.get_or_insert_with(|| {
            let mut hot = Hot::new(now, policy, &self.settings);
            if (host.0 as usize) < resumed {
                // Its last tokens may have been spent just before the process ended.
                hot.empty(at, policy);
            }
            Box::new(hot)
        });
        Some(hot)
    }

    pub(super) fn policy_of(&self, host: HostId) -> &Policy {
        let slot = &self.slots[host.0 as usize];
        &self.settings.policies[usize::from(slot.policy.0)]
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one decision, in the journal's order")]
    pub(super) fn decide(
        &mut self,
        at: Mono,
        who: Who,
        host: Option<HostId>,
        what: What,
        before: Value,
        after: Value,
        why: impl Into<String>,
    ) {
        self.decisions.push(Decision { at, who, host, what, before, after, why: why.into() });
    }

    /// Sets the bucket to what is effective, and the host to its place in the queue.
    pub(super) fn retarget(&mut self, now: Mono, host: HostId) {
        if let Some(slot) = self.slots.get_mut(host.0 as usize) {
            let policy = &self.settings.policies[usize::from(slot.policy.0)];
            if let Some(hot) = &mut slot.hot {
                hot.retarget(now, policy, &self.settings);
            }
        }
        self.replan(now, host);
    }

    /// Puts a host where its standing says: after every change of anything.
    pub(super) fn replan(&mut self, now: Mono, host: HostId) {
        let Some(slot) = self.slots.get(host.0 as usize) else { return };
        let standing = slot.standing(now, &self.settings.policies[usize::from(slot.policy.0)]);
        self.place(now, host, &standing);
    }

    fn place(&mut self, now: Mono, host: HostId, standing: &Standing) {
        let slot = &mut self.slots[host.0 as usize];
        let lapse = slot.hot.as_ref().map_or(Mono::NEVER, |hot| hot.lapse_at());
        let at = standing.at.min(lapse);
        if at == Mono::NEVER {
            self.queue.remove(&mut slot.ticket);
            slot.wake_at = Mono::NEVER;
        } else {
            // Who becomes due goes to the end of those that are due already: fair among ready hosts.
            let at = at.max(now);
            let keeps_place = slot.wake_at == at || (slot.wake_at <= now && at <= now);
            if !(slot.ticket.is_queued() && keeps_place) {
                self.queue.put(&mut slot.ticket, host, at);
                slot.wake_at = at;
            }
        }
        let state = slot.state_of(standing, now);
        if state != slot.state {
            self.counts.by_state[slot.state as usize] -= 1;
            self.counts.by_state[state as usize] += 1;
            let moves = |state| matches!(state, HostState::Run | HostState::Wait);
            if let Some(hot) = slot.hot.as_mut().filter(|_| moves(state) && !moves(slot.state)) {
                hot.free_since = now;
            }
            slot.state = state;
        }
        self.touch(host);
    }

    pub(super) fn touch(&mut self, host: HostId) {
        let slot = &mut self.slots[host.0 as usize];
        if !slot.dirty {
            slot.dirty = true;
            self.changed.push(host);
        }
    }
}

/// What the global bucket is set to. It saves up next to nothing: what 20 ms bring, so that a timer's lateness
/// costs no rate.
pub(super) fn global_target(rate: f64) -> Original {
    Original { rate, capacity: (rate * GLOBAL_BURST_SECS).max(1.0) }
}

fn ticket_of(slots: &[Slot], host: HostId) -> Ticket {
    slots.get(host.0 as usize).map_or(Ticket::default(), |slot| slot.ticket)
}

fn code_of(answer: &Answer, outcome: Outcome) -> Code {
    match answer.verdict {
        Verdict::Status(status) => Code::Status(status),
        Verdict::Failed(_) => Code::Failure(FailureCode::of(outcome)),
    }
}

fn signal_of(outcome: Outcome) -> Signal {
    match outcome {
        Outcome::Ok | Outcome::NotModified => Signal::Success,
        Outcome::Throttled => Signal::Throttle,
        Outcome::Refused => Signal::Refused,
        Outcome::ServerError => Signal::ServerError,
        Outcome::Redirect
        | Outcome::ClientError
        | Outcome::Decode
        | Outcome::TooLarge
        | Outcome::LimitExceeded
        | Outcome::RedirectNotFollowed => Signal::Answered,
        Outcome::Timeout | Outcome::ConnectionReset | Outcome::Incomplete => Signal::Silent,
        Outcome::Connect
        | Outcome::Tls
        | Outcome::Dns
        | Outcome::AddressRefused
        | Outcome::RobotsDenied
        | Outcome::Local => Signal::Neutral,
    }
}
