//! The controller: all hosts, the wake queue, the crawl-wide limits. Grants requests, takes answers.
//!
//! One grant takes its tokens from every layer (endpoint, host, global) in one step or from none.
//! No waiter ever blocks in a bucket: a host that cannot send stands in the wake queue at its next slot.

use std::collections::BTreeMap;

use super::adaptive::{Bounds, Observation, RateController, Signal};
use super::backoff::Jitter;
use super::bucket::Bucket;
use super::eta::Outlook;
use super::group::Groups;
use super::history::History;
use super::hold::{Terms, Waits};
use super::host::{Hot, LaneQueue, Slot, Standing, cost_of};
use super::shared::sums::Sums;
use super::shared::{Episodes, Origin};
use super::wake_queue::{Ticket, Tickets, WakeQueue};
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
    pub(super) groups: Groups,
    /// Incidents, and what connects the answer that comes next with others.
    pub(super) episodes: Episodes,
    pub(super) sums: Sums,
    pub(super) origin: Option<(HostId, Origin)>,
    pub(super) queue: WakeQueue,
    pub(super) tickets: Tickets,
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
    pub(super) changed: Vec<HostId>,
    /// Hosts whose saved form has changed.
    pub(super) unsaved: Vec<HostId>,
    /// Hosts before this one were known to an earlier process, which may have spent their tokens until this moment.
    pub(super) resumed_hosts: (usize, Mono),
    pub(super) sweep_at: usize,
    pub(super) outlook: Outlook,
    pub(super) given_up: Vec<(HostId, &'static str)>,
    /// Domains with too many hosts, by the host where that is told, and links that are left out. One at most a host.
    pub(super) beyond: BTreeMap<HostId, (Box<str>, u32)>,
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
            groups: Groups::default(),
            episodes: Episodes::default(),
            sums: Sums::default(),
            origin: None,
            queue: WakeQueue::default(),
            tickets: Tickets::default(),
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
            beyond: BTreeMap::new(),
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
        let before = place.all();
        *place = queue;
        if let Some(group) = self.groups.get_mut(slot.group) {
            group.queued = (group.queued + queue.all()).saturating_sub(before);
        }
        if same { self.touch(host) } else { self.replan(now, host) }
    }

    /// The next grant at `now`, if anybody may send: the host whose slot came first. Call until `None`.
    pub fn next(&mut self, now: Mono) -> Option<Grant> {
        while !self.halted && self.in_flight < self.settings.concurrency && self.global_until <= now {
            let slots = &self.slots;
            let alone = self.queue.peek(|host| ticket_of(slots, host));
            let group = self.groups.first().filter(|one| alone.is_none_or(|alone| (one.0, one.1) < (alone.0, alone.1)));
            let group = match (group, alone) {
                (Some((at, _, group)), _) if at <= now => Some(group),
                (None, Some((at, ..))) if at <= now => None,
                _ => return None,
            };
            let first = group.map_or(alone.map(|one| one.2), |group| self.first_in_line(group));
            let Some(host) = first else {
                group.into_iter().for_each(|group| self.replan_group(now, group));
                continue;
            };
            self.end_lifetimes(now, host);
            let slot = &self.slots[host.0 as usize];
            let policy = &self.settings.policies[usize::from(slot.policy.0)];
            let standing = slot.standing(now, policy);
            // Who becomes ready under a group stands in its line first: others may have waited there for longer.
            let in_turn = slot.in_line == group.is_some() && slot.group.some().is_some() == slot.in_line;
            let Some(lane) = standing.lane.filter(|_| standing.at <= now && in_turn) else {
                self.place(now, host, &standing);
                continue;
            };
            let cost = cost_of(policy, usize::from(lane.0));
            if let Some(id) = group
                && self.groups.get(id).is_some_and(|group| group.ready_at(now, cost).0 > now)
            {
                self.replan_group(now, id);
                continue;
            }
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
        let alone = self.queue.peek(|host| ticket_of(slots, host)).map(|one| one.0);
        let group = self.groups.first().map(|one| one.0);
        alone.into_iter().chain(group).min().map_or(Mono::NEVER, |at| at.max(self.global_until))
    }

    /// Takes the tokens of one request from every layer. All were seen ready at `now`.
    fn grant(&mut self, now: Mono, host: HostId, lane: Lane, cost: f64) -> Option<Grant> {
        let first = self.slots[host.0 as usize].hot.is_none();
        self.heat(now, host);
        self.save_later(host);
        let slot = &mut self.slots[host.0 as usize];
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return None };
        let id = slot.group;
        let resumed = (self.resumed_hosts.0 > host.0 as usize).then_some(self.resumed_hosts.1);
        let mut group = self.groups.get_mut(id).map(|group| group.heat(now, resumed, &self.settings));
        let endpoint = usize::from(lane.0).checked_sub(1);
        let taken = hot.layer.bucket.take(now, cost);
        let endpoint_taken = match endpoint.and_then(|endpoint| hot.endpoints.get_mut(endpoint)) {
            Some(layer) => layer.bucket.take(now, cost),
            None => true,
        };
        let group_taken = group.as_mut().is_none_or(|group| group.layer.bucket.take(now, cost));
        if !(taken && endpoint_taken && group_taken) {
            // Readiness and taking agree, so this does not happen; if it did, no token may be lost.
            if taken {
                hot.layer.bucket.give_back(now, cost);
            }
            if let Some(layer) = endpoint.and_then(|one| hot.endpoints.get_mut(one)).filter(|_| endpoint_taken) {
                layer.bucket.give_back(now, cost);
            }
            if let Some(group) = group.filter(|_| group_taken) {
                group.layer.bucket.give_back(now, cost);
            }
            self.replan(now, host);
            return None;
        }
        if let Some(global) = &mut self.global {
            global.take(now, cost);
        }
        let group_probe = group.as_mut().is_some_and(|group| group.on_send(now, hot, &self.settings));
        let probe = hot.holding.on_send(now) || group_probe;
        let cold = hot.is_cold(&self.settings);
        let bounds = hot.bounds(now, policy, &self.settings);
        if group.is_none() {
            hot.layer.adaptive.on_send(now, &bounds);
        }
        if let Some(layer) = endpoint.and_then(|endpoint| hot.endpoints.get_mut(endpoint)) {
            layer.adaptive.on_send(now, &Bounds { original: layer.original, ..bounds });
            let target = layer.adaptive.target(now);
            layer.bucket.set_target(now, target);
        }
        if let Some(paces) = &mut hot.paces {
            paces.on_send(now, lane);
        }
        hot.in_flight += 1;
        hot.sent += 1;
        let first_sent = hot.sent == 1;
        hot.turn = lane.0.wrapping_add(1);
        hot.first_sent.get_or_insert(now);
        // A cold start may be over, and time moves a rate that probes.
        hot.retarget(now, policy, &self.settings);
        // The next request of this host queues up behind all that are due.
        let binding = group.as_ref().map(|group| &group.layer.bucket);
        let binding = binding.filter(|shared| shared.target().rate < hot.layer.bucket.target().rate);
        let bucket = binding.unwrap_or(&hot.layer.bucket);
        let (target, tokens) = (bucket.target(), bucket.tokens(now));
        let (original, adaptive) = (hot.layer.original, hot.adaptive(now, &self.settings));
        self.in_flight += 1;
        self.unqueue(host);
        self.save_group_later(id);
        if first_sent {
            self.tell_joined(now, host);
        }
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
        }
        let why = match () {
            () if first_sent && cold && adaptive.rate < original.rate => "cold start: first 10 requests",
            () if cold && adaptive.rate > super::host::COLD.rate => "cold start is over",
            () => "",
        };
        if !why.is_empty() {
            self.tell_rate(now, host, adaptive.rate, why);
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
        if let Some(group) = self.groups.get_mut(slot.group).and_then(|group| group.hot.as_deref_mut()) {
            group.cancel(now, grant.at, cost, &self.settings);
        }
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
    pub fn hint(&mut self, now: Mono, host: HostId, lane: Lane, hint: &Hint, refused: bool) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        let Some(hot) = &mut slot.hot else { return };
        let group = self.groups.get_mut(slot.group).and_then(|group| group.hot.as_deref_mut());
        let (pace, in_flight) = match group {
            // A bucket that the server names is the endpoint's; how many of what is in flight go there is not known.
            _ if lane.0 > 0 && hint.bucket != 0 => (hot.paces.get_or_insert_default().of(lane, hint.bucket), 1),
            Some(group) => (&mut group.pace, group.in_flight),
            None => (&mut *hot.pace, hot.in_flight),
        };
        hot.exhausted = refused && (hint.exhausted() || hint.shared) && pace.trusted(now);
        hot.uncounted = hot.exhausted && hint.shared;
        hot.secondary = refused && hint.secondary && !hint.shared;
        if hot.exhausted && !hint.shared {
            pace.missed(now);
        }
        pace.hear(now, hint, in_flight.saturating_sub(1), self.settings.backoff.retry_after_max);
        if let Some(group) = self.groups.get_mut(slot.group).and_then(|group| group.hot.as_deref_mut()) {
            group.retarget(now, &self.settings);
        }
        self.retarget(now, host);
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
        let id = slot.group;
        let mut group = self.groups.get_mut(id).and_then(|group| group.hot.as_deref_mut());
        if let Some(group) = &mut group {
            group.in_flight = group.in_flight.saturating_sub(1);
        }
        let shared = group.is_some();
        let pause = match &group {
            Some(group) if answer.lane.0 == 0 => group.layer.adaptive.pause(answer.sent),
            _ => hot.adapted(answer.lane).adaptive.pause(answer.sent),
        };
        let waits = if shared { Waits::Elsewhere } else { Waits::Here };
        let secondary = std::mem::take(&mut hot.secondary);
        let terms = Terms { pause, exhausted: hot.exhausted, secondary, waits, policy: &self.settings.backoff };
        let was_blocked = hot.holding.blocked();
        let ruling = hot.holding.on_answer(now, answer, &terms, self.jitter.as_mut());
        let outcome = ruling.outcome;
        let group_ruling = group
            .as_mut()
            .map(|group| group.on_member(now, answer, outcome, was_blocked, &terms, self.jitter.as_mut()));
        hot.last_outcome = Some(outcome);
        hot.histogram.record(now, code_of(answer, outcome));
        if matches!(answer.verdict, Verdict::Status(_)) {
            hot.latency.record(answer.latency);
        }
        let signal = outcome.signal();
        hot.throttled += u64::from(signal == Signal::Throttle);
        let counts = !std::mem::take(&mut hot.uncounted);
        if counts && matches!(signal, Signal::Throttle | Signal::Refused) {
            hot.refusals.record(now);
            group.iter_mut().for_each(|group| group.refusals.record(now));
        }
        hot.given_up &= signal != Signal::Success;
        if signal == Signal::Success && answer.kind != RequestKind::Robots {
            hot.last_ok = Some(now);
        }
        let latency = answer.latency.as_secs_f64();
        // A window that is used up, as its headers say, tells nothing new of the limit.
        let told = std::mem::take(&mut hot.exhausted) && signal == Signal::Throttle;
        let signal = if told { Signal::Neutral } else { signal };
        let probe = ruling.probe || group_ruling.is_some_and(|ruling| ruling.probe);
        let observation = Observation { signal, sent: answer.sent, probe, latency };
        let host_bounds = hot.bounds(now, policy, &self.settings);
        let mut shift = None;
        if answer.lane.0 > 0 {
            let layer = hot.adapted(answer.lane);
            shift = layer.adaptive.on_outcome(now, &Bounds { original: layer.original, ..host_bounds }, &observation);
            if let Some(shift) = shift {
                layer.bucket.set_target(now, shift.after);
            }
        }
        // An endpoint's refusals are its own; its successes help back the host that others' answers cut.
        let hears = answer.lane.0 == 0 || signal == Signal::Success;
        let (mut helped, mut group_shift) = (None, None);
        match &mut group {
            // What the server bears is learned by the group alone: a member's share says nothing about it.
            Some(group) => {
                let bounds = group.bounds(now, hot, &self.settings);
                group_shift = hears.then(|| group.layer.adaptive.on_outcome(now, &bounds, &observation)).flatten();
                group.retarget(now, &self.settings);
            }
            None if answer.lane.0 == 0 => shift = hot.layer.adaptive.on_outcome(now, &host_bounds, &observation),
            None if hears => helped = hot.layer.adaptive.on_outcome(now, &host_bounds, &observation),
            None => {}
        }
        if let Some(shift) = shift.or(group_shift) {
            let trend = if shift.after.rate > shift.before.rate { Trend::Up } else { Trend::Down };
            hot.moved = Some((now, trend));
        }
        hot.retarget(now, policy, &self.settings);
        // Also again, for URLs that came in (or back) since the last time.
        let give_up = matches!(signal, Signal::Throttle | Signal::Refused)
            && hot.holding.refusing_since().is_some_and(|since| now.since(since) >= self.settings.give_up_after);
        hot.given_up |= give_up;
        let fresh = ruling.fresh || group_ruling.is_some_and(|ruling| ruling.fresh);
        self.tell_hold(now, answer, &ruling);
        self.tell_shift(now, answer, outcome, answer.lane, shift);
        self.tell_shift(now, answer, outcome, Lane(0), helped);
        if let Some(ruling) = group_ruling {
            self.tell_group(now, answer, outcome, &ruling, group_shift);
            self.save_group_later(id);
            if ruling.held.is_some() || ruling.opened {
                self.replan_members(now, id);
            }
        }
        if outcome == Outcome::Throttled {
            self.note_refusal(now, answer.sent, answer.host, fresh && !probe);
        }
        self.save_later(answer.host);
        self.replan(now, answer.host);
        self.tell_pace(now, answer.host);
        Judgement { outcome, give_up }
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
        self.decisions.push(Decision { at, who, host, what, before, after, why: why.into(), with: None });
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
        let group = slot.group;
        let lines_up = group.some().is_some() && standing.lane.is_some() && standing.at <= now;
        if lines_up != slot.in_line {
            self.unqueue(host);
        }
        let slot = &mut self.slots[host.0 as usize];
        if lines_up {
            // In the line only the turn counts; lifetimes that end meanwhile are ended when it comes, or by a sweep.
            if let Some(group) = self.groups.get_mut(group).filter(|_| !slot.in_line) {
                group.line.put(&mut self.tickets, &mut slot.ticket, host, now);
                slot.in_line = true;
            }
        } else if at == Mono::NEVER {
            self.queue.remove(&mut slot.ticket);
            slot.wake_at = Mono::NEVER;
        } else {
            // Who becomes due goes to the end of those that are due already: fair among ready hosts.
            let at = at.max(now);
            let keeps_place = slot.wake_at == at || (slot.wake_at <= now && at <= now);
            if !(slot.ticket.is_queued() && keeps_place) {
                self.queue.put(&mut self.tickets, &mut slot.ticket, host, at);
                slot.wake_at = at;
            }
        }
        self.replan_group(now, group);
        let whole = self.whole_standing(now, host, *standing);
        let slot = &mut self.slots[host.0 as usize];
        let state = slot.state_of(&whole, now, self.groups.get(group));
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

    /// The view of a host is to be taken anew.
    pub(crate) fn touch(&mut self, host: HostId) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
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
