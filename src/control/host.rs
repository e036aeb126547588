//! All that the core knows of one host: buckets, controllers, holds, the operator's settings, windows.
//!
//! A host that was never asked anything costs only its `Slot`; the rest (`Hot`) comes with the
//! first request, command or hold.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::adaptive::{Adaptive, Bounds, RateController};
use super::bucket::Bucket;
use super::group::{Group, GroupId};
use super::hints::Pace;
use super::hold::{Gate, Holding};
use super::latency::Latency;
use super::paces::Paces;
use super::shared::Suspicion;
use super::sparse::Sparse;
use super::wake_queue::Ticket;
use super::window::{Histogram, RecentCount};
use super::{
    Concern, Hold, HostState, Lane, Limiting, Mono, OperatorSettings, Original, Outcome, Paced, Policy, PolicyId,
    Settings, Shape, Trend,
};

/// Requests that a cold start covers.
pub const COLD_REQUESTS: u64 = 10;
/// Rate and capacity at most during a cold start.
pub const COLD: Original = Original { rate: 0.5, capacity: 2.0 };
/// The longest Crawl-delay that is obeyed in full; a longer one is capped, and said so.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(300);
/// A host whose next slot is further away than this is shown as waiting.
const WAIT_SHOWN: Duration = Duration::from_secs(1);

/// What is queued in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneQueue {
    /// URLs that may go at once.
    pub ready: u32,
    /// URLs that wait for their own retry.
    pub delayed: u32,
    /// When the first of those is due; [`Mono::NEVER`] if there are none.
    pub due: Mono,
    /// URLs behind those that are ready, which have to be fetched from the store before they may go.
    pub stored: u32,
}

impl LaneQueue {
    /// Nothing queued.
    pub const EMPTY: Self = Self { ready: 0, delayed: 0, due: Mono::NEVER, stored: 0 };

    /// URLs in it, those that wait for something included.
    pub(super) fn all(self) -> u64 {
        u64::from(self.ready) + u64::from(self.delayed) + u64::from(self.stored)
    }

    /// When there is something to send.
    pub(super) fn available_at(self) -> Mono {
        if self.ready > 0 { Mono::ZERO } else { self.due }
    }

    pub(super) fn is_empty(self) -> bool {
        (self.ready, self.delayed, self.stored) == (0, 0, 0)
    }
}

/// The lanes of a host: one, or one more than it has endpoints.
#[derive(Clone, Debug)]
pub(super) enum Lanes {
    One(LaneQueue),
    Many(Box<[LaneQueue]>),
}

impl Lanes {
    pub(super) fn as_slice(&self) -> &[LaneQueue] {
        match self {
            Self::One(queue) => std::slice::from_ref(queue),
            Self::Many(queues) => queues,
        }
    }

    pub(super) fn get_mut(&mut self, lane: Lane) -> Option<&mut LaneQueue> {
        match self {
            Self::One(queue) => (lane.0 == 0).then_some(queue),
            Self::Many(queues) => queues.get_mut(usize::from(lane.0)),
        }
    }

    pub(super) fn queued(&self) -> u64 {
        self.as_slice().iter().map(|queue| queue.all()).sum()
    }

    /// Whether anything is queued on a lane.
    pub(super) fn has_work(&self, lane: Lane) -> bool {
        self.as_slice().get(usize::from(lane.0)).is_some_and(|queue| queue.all() > 0)
    }
}

/// A host's place in the controller's slab.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) hot: Option<Box<Hot>>,
    pub(super) lanes: Lanes,
    pub(super) ticket: Ticket,
    pub(super) wake_at: Mono,
    pub(super) policy: PolicyId,
    /// Whose bucket it shares; [`GroupId::NONE`] = nobody's.
    pub(super) group: GroupId,
    /// Its place among the members of its group.
    pub(super) seat: u32,
    /// Its ticket is for the line of its group, not for the wake queue.
    pub(super) in_line: bool,
    /// Nobody knows yet which group it belongs to: it waits for that.
    pub(super) placing: bool,
    pub(super) state: HostState,
    pub(super) dirty: bool,
    /// What would be saved of it has changed since it was taken to be saved.
    pub(super) unsaved: bool,
}

/// A bucket and the controller that sets its target.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) bucket: Bucket,
    pub(super) adaptive: Adaptive,
    pub(super) original: Original,
    /// What the journal was told last.
    pub(super) told: Original,
}

impl Layer {
    pub(super) fn new(policy: &Policy, original: Original, now: Mono) -> Self {
        Self {
            bucket: Bucket::full(policy.shape, original, now),
            adaptive: Adaptive::new(policy.kind, original),
            original,
            told: original,
        }
    }

    /// The policy changed from `before` to `after`, and this layer's original to `original`. Nothing is granted:
    /// a new shape begins empty, and the target is set by whoever knows what is effective.
    pub(super) fn reconfigure(&mut self, now: Mono, before: &Policy, after: &Policy, original: Original) {
        if after.kind == before.kind {
            self.adaptive.rebase(self.original, original);
        } else {
            self.adaptive = Adaptive::new(after.kind, original);
        }
        if after.shape != before.shape {
            self.bucket = self.bucket.reshaped(after.shape, now);
        }
        self.original = original;
    }
}

/// The site's Crawl-delay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct CrawlDelay {
    pub(super) asked: Duration,
    pub(super) obeyed: Duration,
    /// No request before: a gap from the completion of the last one.
    pub(super) gap_until: Mono,
}

/// State of a host that was asked something. What most hosts never have is a pointer here: there may be millions.
#[derive(Debug)]
pub(super) struct Hot {
    pub(super) layer: Layer,
    pub(super) endpoints: Box<[Layer]>,
    pub(super) holding: Holding,
    pub(super) operator: Sparse<OperatorSettings>,
    pub(super) crawl_delay: Option<Box<CrawlDelay>>,
    /// What the server's headers say of its limit.
    pub(super) pace: Sparse<Pace>,
    /// The same for endpoints behind which it names buckets; few servers do.
    pub(super) paces: Option<Box<Paces>>,
    /// The answer being reported says that its window is used up.
    pub(super) exhausted: bool,
    /// It says that requests are left where a second limit has no word: see `Hint::secondary`.
    pub(super) secondary: bool,
    /// It is a refusal that counts against nobody's budget.
    pub(super) uncounted: bool,
    /// robots.txt is being asked for: nothing else goes.
    pub(super) gated: bool,
    pub(super) in_flight: u32,
    pub(super) sent: u64,
    /// Of those that this process sent, so many were throttled.
    pub(super) throttled: u64,
    pub(super) turn: u8,
    pub(super) given_up: bool,
    /// A reset ended the cold start for good.
    pub(super) warm: bool,
    pub(super) histogram: Histogram,
    pub(super) latency: Latency,
    pub(super) refusals: RecentCount,
    pub(super) first_sent: Option<Mono>,
    pub(super) last_ok: Option<Mono>,
    pub(super) last_outcome: Option<Outcome>,
    /// Since when it has been free to send: patience begins anew after a hold, a pause, new work.
    pub(super) free_since: Mono,
    pub(super) moved: Option<(Mono, Trend)>,
    pub(super) concern: Option<Box<Concern>>,
    /// With whom it seems to share a limit.
    pub(super) suspicion: Option<Suspicion>,
    /// URLs held back because they look like a trap.
    pub(super) held_back: u32,
}

/// What may happen to a host next, and the one cause that limits it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Standing {
    /// When something can happen; [`Mono::NEVER`] = only after an answer, a command or new work.
    pub(super) at: Mono,
    /// The lane that can send at `at`; `None` = `at` is no slot.
    pub(super) lane: Option<Lane>,
    /// Why not now.
    pub(super) limiting: Limiting,
    /// The lane whose endpoint bucket limits, 0 if none does.
    pub(super) limiting_lane: u8,
}

impl Standing {
    fn never(limiting: Limiting) -> Self {
        Self { at: Mono::NEVER, lane: None, limiting, limiting_lane: 0 }
    }

    fn until(at: Mono, limiting: Limiting) -> Self {
        Self { at, lane: None, limiting, limiting_lane: 0 }
    }
}

impl Lanes {
    /// Empty ones, as many as `policy` needs.
    pub(super) fn of(policy: &Policy) -> Self {
        match policy.endpoints.len() {
            0 => Self::One(LaneQueue::EMPTY),
            endpoints => Self::Many(vec![LaneQueue::EMPTY; endpoints + 1].into()),
        }
    }
}

impl Slot {
    pub(super) fn new(policy_id: PolicyId, policy: &Policy) -> Self {
        Self {
            hot: None,
            lanes: Lanes::of(policy),
            ticket: Ticket::default(),
            wake_at: Mono::NEVER,
            policy: policy_id,
            group: GroupId::NONE,
            seat: 0,
            in_line: false,
            placing: false,
            state: HostState::Idle,
            dirty: false,
            unsaved: false,
        }
    }

    /// What may happen next as far as the host itself goes, as of `now`. Pure: lapsed lifetimes are the controller's
    /// to end first.
    pub(super) fn standing(&self, now: Mono, policy: &Policy) -> Standing {
        if self.placing {
            return Standing::never(Limiting::Placing);
        }
        let available = self.lanes.as_slice().iter().map(|queue| queue.available_at()).min().unwrap_or(Mono::NEVER);
        let Some(hot) = &self.hot else {
            let lane = self.first_lane(available);
            return match available {
                Mono::NEVER => Standing::never(Limiting::NothingQueued),
                at => Standing { at, lane, limiting: Limiting::NothingQueued, limiting_lane: 0 },
            };
        };
        if let Some(pause) = hot.operator.pause {
            return Standing::until(pause.until.unwrap_or(Mono::NEVER), Limiting::Paused);
        }
        if policy.max_requests > 0 && hot.sent >= policy.max_requests {
            return Standing::never(Limiting::RequestLimit);
        }
        let not_before = match hot.holding.gate(now) {
            Gate::Until(until) => return Standing::until(until, Limiting::Held),
            Gate::Probing(until) => return Standing::until(until, Limiting::Held),
            Gate::Open | Gate::ProbeDue => Mono::ZERO,
        };
        if available == Mono::NEVER {
            return Standing::never(Limiting::NothingQueued);
        }
        if hot.gated {
            return Standing::never(Limiting::RobotsPending);
        }
        if hot.in_flight >= policy.connections.min(hot.layer.adaptive.in_flight_max()) {
            return Standing::never(Limiting::Connections);
        }
        let told = hot.pace.not_before();
        let mut not_before = not_before.max(hot.layer.adaptive.ready_at(now)).max(told);
        let mut why = if told > now { Limiting::ServerPace } else { Limiting::NoTokens };
        if let Some(delay) = &hot.crawl_delay {
            if hot.in_flight > 0 {
                return Standing::never(Limiting::RobotsDelay);
            }
            if delay.gap_until > now {
                why = if delay.gap_until >= told { Limiting::RobotsDelay } else { why };
                not_before = not_before.max(delay.gap_until);
            }
        }
        let mut best = self.best_lane(hot, policy, now);
        if not_before > best.at {
            best.at = not_before;
            if not_before > now {
                best.limiting = why;
                best.limiting_lane = 0;
            }
        }
        best
    }

    /// The lane that can send first; lanes that can send equally early take turns.
    fn best_lane(&self, hot: &Hot, policy: &Policy, now: Mono) -> Standing {
        let mut best = Standing::never(Limiting::NothingQueued);
        let lanes = self.lanes.as_slice();
        for step in 0..lanes.len() {
            let index = (usize::from(hot.turn) + step) % lanes.len();
            let available = lanes[index].available_at();
            if available == Mono::NEVER {
                continue;
            }
            let cost = cost_of(policy, index);
            let host_ready = hot.layer.bucket.ready_at(now, cost);
            let (ready, limiting_lane) = match index.checked_sub(1).and_then(|endpoint| hot.endpoints.get(endpoint)) {
                Some(endpoint) => match endpoint.bucket.ready_at(now, cost) {
                    at if at > host_ready => (at, index as u8),
                    _ => (host_ready, 0),
                },
                None => (host_ready, 0),
            };
            let named = hot.paces.as_ref().map_or(Mono::ZERO, |paces| paces.ready_at(now, Lane(index as u8)));
            let paced = named > ready.max(now);
            let ready = ready.max(named);
            let at = ready.max(available);
            if at < best.at || (at <= now && best.at > now) {
                let limiting = match () {
                    () if available > ready => Limiting::NothingQueued,
                    () if paced => Limiting::ServerPace,
                    () => Limiting::NoTokens,
                };
                let limiting_lane = if paced { 0 } else { limiting_lane };
                best = Standing { at, lane: Some(Lane(index as u8)), limiting, limiting_lane };
            }
            if best.at <= now {
                break;
            }
        }
        best
    }

    fn first_lane(&self, available: Mono) -> Option<Lane> {
        let index = self.lanes.as_slice().iter().position(|queue| queue.available_at() == available)?;
        Some(Lane(index as u8))
    }

    /// The state word that goes with `standing`.
    pub(super) fn state_of(&self, standing: &Standing, now: Mono, group: Option<&Group>) -> HostState {
        let queued = self.lanes.queued() > 0;
        let shared = group.and_then(Group::holding);
        let Some(hot) = &self.hot else {
            return match (queued, shared.filter(|shared| shared.hold().is_some())) {
                (true, Some(shared)) if shared.blocked() => HostState::Block,
                (true, Some(_)) => HostState::Back,
                (true, None) => HostState::Run,
                (false, _) => HostState::Idle,
            };
        };
        if hot.operator.pause.is_some() {
            return HostState::Paused;
        }
        let own = std::iter::once(&hot.holding).chain(shared);
        let mut held = own.filter(|one| one.hold().is_some()).peekable();
        if held.peek().is_some() && (queued || hot.in_flight > 0 || standing.limiting == Limiting::Held) {
            return if held.any(Holding::blocked) { HostState::Block } else { HostState::Back };
        }
        if hot.in_flight > 0 {
            return HostState::Run;
        }
        match (queued, standing.at) {
            (false, _) if hot.sent == 0 => HostState::Idle,
            (false, _) => HostState::Done,
            (true, at) if at > now.after(WAIT_SHOWN) => HostState::Wait,
            (true, _) => HostState::Run,
        }
    }
}

/// Tokens that a request of lane `index` takes from every layer.
pub(super) fn cost_of(policy: &Policy, index: usize) -> f64 {
    index.checked_sub(1).and_then(|endpoint| policy.endpoints.get(endpoint)).map_or(1.0, |endpoint| endpoint.cost)
}

impl Hot {
    pub(super) fn new(now: Mono, policy: &Policy, settings: &Settings) -> Self {
        let mut hot = Self {
            layer: Layer::new(policy, policy.original, now),
            endpoints: policy.endpoints.iter().map(|one| Layer::new(policy, one.original, now)).collect(),
            holding: Holding::default(),
            operator: Sparse::new(),
            crawl_delay: None,
            pace: Sparse::new(),
            paces: None,
            exhausted: false,
            secondary: false,
            uncounted: false,
            gated: false,
            in_flight: 0,
            sent: 0,
            throttled: 0,
            turn: 0,
            given_up: false,
            warm: false,
            histogram: Histogram::default(),
            latency: Latency::default(),
            refusals: RecentCount::default(),
            first_sent: None,
            last_ok: None,
            last_outcome: None,
            free_since: now,
            moved: None,
            concern: None,
            suspicion: None,
            held_back: 0,
        };
        hot.layer.bucket = Bucket::full(policy.shape, hot.effective(now, policy, settings), now);
        hot
    }

    /// Empties all buckets, as of `at`.
    pub(super) fn empty(&mut self, at: Mono, policy: &Policy) {
        for layer in std::iter::once(&mut self.layer).chain(self.endpoints.iter_mut()) {
            layer.bucket = Bucket::empty(policy.shape, layer.bucket.target(), at);
        }
    }

    /// Whether the cold start still bounds the rate.
    pub(super) fn is_cold(&self, settings: &Settings) -> bool {
        settings.cold_start && !self.warm && self.sent < COLD_REQUESTS
    }

    /// What the controller would use now, cold start included; never above the original.
    pub(super) fn adaptive(&self, now: Mono, settings: &Settings) -> Original {
        let target = self.layer.adaptive.target(now);
        if self.is_cold(settings) {
            Original { rate: target.rate.min(COLD.rate), capacity: target.capacity.min(COLD.capacity) }
        } else {
            target
        }
    }

    /// What the bucket uses: override or adaptive, below every limit of the site and the whole crawl.
    pub(super) fn effective(&self, now: Mono, policy: &Policy, settings: &Settings) -> Original {
        let mut effective = self.adaptive(now, settings);
        if let Some(overriding) = self.operator.overriding {
            effective.rate = overriding.rate.unwrap_or(effective.rate);
            effective.capacity = overriding.capacity.unwrap_or(effective.capacity);
        }
        if let Some(global) = settings.global_rate {
            effective.rate = effective.rate.min(global);
        }
        effective.rate = effective.rate.min(self.pace.rate(now));
        if let Some(delay) = &self.crawl_delay {
            effective.rate = effective.rate.min(1.0 / delay.obeyed.as_secs_f64().max(1e-9));
            effective.capacity = effective.capacity.min(1.0);
        }
        if policy.shape == Shape::LeakyBucket {
            effective.capacity = 1.0;
        }
        effective
    }

    /// Sets the bucket to what is effective now: refilled at the old rate first, nothing granted.
    pub(super) fn retarget(&mut self, now: Mono, policy: &Policy, settings: &Settings) {
        let effective = self.effective(now, policy, settings);
        if self.layer.bucket.target() != effective {
            self.layer.bucket.set_target(now, effective);
        }
    }

    /// The policy that covers the host changed. `lanes` says which endpoint of before each one of now was (`None`
    /// = a new one); without it they are the same. Windows, holds and the operator's settings stay; tokens gain
    /// nothing.
    pub(super) fn reconfigure(
        &mut self,
        now: Mono,
        before: &Policy,
        after: &Policy,
        settings: &Settings,
        lanes: Option<&[Option<Lane>]>,
    ) {
        self.layer.reconfigure(now, before, after, after.original);
        if let Some(lanes) = lanes {
            let endpoints = lanes.iter().zip(&after.endpoints).map(|(lane, policy)| {
                let old = lane.and_then(|lane| self.endpoints.get(usize::from(lane.0).checked_sub(1)?));
                old.cloned().unwrap_or_else(|| {
                    let mut layer = Layer::new(after, policy.original, now);
                    layer.bucket.drain(now);
                    layer
                })
            });
            self.endpoints = endpoints.collect();
        }
        for (layer, policy) in self.endpoints.iter_mut().zip(&after.endpoints) {
            layer.reconfigure(now, before, after, policy.original);
            let target = layer.adaptive.target(now);
            layer.bucket.set_target(now, target);
        }
        self.retarget(now, after, settings);
    }

    /// The layer that a lane's answers adapt: its endpoint, else the host.
    pub(super) fn adapted(&mut self, lane: Lane) -> &mut Layer {
        match usize::from(lane.0).checked_sub(1).and_then(|endpoint| self.endpoints.get_mut(endpoint)) {
            Some(endpoint) => endpoint,
            None => &mut self.layer,
        }
    }

    /// The bounds of the host's own controller.
    pub(super) fn bounds(&self, now: Mono, policy: &Policy, settings: &Settings) -> Bounds {
        Bounds {
            original: self.layer.original,
            min_rate: settings.min_rate,
            refused: self.refusals.within(now),
            budget: self.operator.budget.unwrap_or(policy.refusal_budget),
            cold: self.is_cold(settings),
            held_until: self.holding.hold().map_or(Mono::ZERO, |hold| hold.until),
        }
    }

    /// The hold in force at `now`, also while its probe is out.
    pub(super) fn hold(&self) -> Option<Hold> {
        self.holding.hold()
    }

    /// What the server's headers say of its limit, if nothing else of the host's own is lower.
    pub(super) fn paced(&self, now: Mono, policy: &Policy, settings: &Settings) -> Option<Paced> {
        self.pace.limiting(now, self.effective(now, policy, settings).rate)
    }

    /// The next moment at which a lifetime ends.
    pub(super) fn lapse_at(&self) -> Mono {
        let pause = self.operator.pause.and_then(|pause| pause.until).unwrap_or(Mono::NEVER);
        let overriding = self.operator.overriding.and_then(|one| one.until).unwrap_or(Mono::NEVER);
        pause.min(overriding).min(self.pace.lapses_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_was_asked_is_small() {
        // With its slot, its place in the wake queue and a row of answers: below 1 KiB.
        assert!(size_of::<Hot>() <= 768, "{} bytes", size_of::<Hot>());
        assert!(size_of::<Slot>() <= 80, "{} bytes", size_of::<Slot>());
    }
}
