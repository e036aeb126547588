//! Hosts that share one bucket: those of one registrable domain, or of one address.
//!
//! A group is a layer between the crawl and its hosts: a bucket with a controller, a hold, a pace, connections. What
//! members learn of the rate is learned here: their own controllers rest at their originals, and their own buckets
//! bound each of them as before. A throttle of one member holds all; a run of 403 at one holds all until one probe
//! got through, and the host itself longer. Trouble on the way (DNS, TLS, no connection), robots.txt, Crawl-delay,
//! pauses and overrides stay the host's own.
//!
//! The originals of a group are the highest of its members': what the operator allows one of them is what their
//! server is trusted to bear. Shape, controller and floor are those of `[politeness]` and `[controller]`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::adaptive::{Bounds, RateController};
use super::backoff::Jitter;
use super::bucket::Bucket;
use super::hints::Pace;
use super::hold::{Gate, Holding, Ruling, Terms, Waits};
use super::host::{COLD, COLD_REQUESTS, Hot, Layer};
use super::wake_queue::{Ticket, WakeQueue};
use super::window::RecentCount;
use super::{Answer, Hold, HostId, Limiting, Mono, Original, Outcome, Paced, Policy, Settings, Shape, Verdict};

/// A group, by its number in the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

impl GroupId {
    /// No group.
    pub const NONE: Self = Self(u32::MAX);

    /// It, if it is one.
    pub fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// All groups, by number and by name.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    pub(super) names: HashMap<Box<str>, GroupId>,
    /// Which group's first in line can send when.
    pub(super) queue: WakeQueue,
    /// Groups whose saved form has changed.
    pub(super) unsaved: Vec<GroupId>,
}

impl Groups {
    pub(super) fn get(&self, group: GroupId) -> Option<&Group> {
        self.all.get(group.0 as usize)
    }

    pub(super) fn get_mut(&mut self, group: GroupId) -> Option<&mut Group> {
        self.all.get_mut(group.0 as usize)
    }
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Box<str>,
    pub(super) members: Vec<HostId>,
    /// What it was granted and told; none before its first request.
    pub(super) hot: Option<Box<HotGroup>>,
    /// The highest of its members'.
    pub(super) original: Original,
    /// In flight at most: the highest of its members'.
    pub(super) connections: u32,
    /// URLs queued for all members.
    pub(super) queued: u64,
    /// Members that could send, but for the group: who waited longest goes first.
    pub(super) line: WakeQueue,
    /// Its place among the groups.
    pub(super) ticket: Ticket,
    pub(super) wake_at: Mono,
    pub(super) unsaved: bool,
}

/// State of a group that was asked something.
#[derive(Debug)]
pub(super) struct HotGroup {
    pub(super) layer: Layer,
    pub(super) holding: Holding,
    pub(super) pace: Pace,
    pub(super) in_flight: u32,
    /// Grants of its own.
    pub(super) sent: u64,
    pub(super) refusals: RecentCount,
    /// What it believes of the rate it has from a member that joined.
    pub(super) inherited: bool,
    /// A member that joined was past its cold start.
    pub(super) warm: bool,
}

impl HotGroup {
    pub(super) fn new(now: Mono, original: Original, settings: &Settings) -> Self {
        let policy = &settings.policies[0];
        let mut hot = Self {
            layer: Layer::new(policy, original, now),
            holding: Holding::default(),
            pace: Pace::default(),
            in_flight: 0,
            sent: 0,
            refusals: RecentCount::default(),
            inherited: false,
            warm: false,
        };
        hot.layer.bucket = Bucket::full(policy.shape, hot.effective(now, settings), now);
        hot
    }

    pub(super) fn is_cold(&self, settings: &Settings) -> bool {
        settings.cold_start && !self.warm && self.sent < COLD_REQUESTS
    }

    /// What the controller would use now, cold start included.
    pub(super) fn adaptive(&self, now: Mono, settings: &Settings) -> Original {
        let target = self.layer.adaptive.target(now);
        if self.is_cold(settings) {
            Original { rate: target.rate.min(COLD.rate), capacity: target.capacity.min(COLD.capacity) }
        } else {
            target
        }
    }

    /// What the bucket uses.
    pub(super) fn effective(&self, now: Mono, settings: &Settings) -> Original {
        let mut effective = self.adaptive(now, settings);
        effective.rate = effective.rate.min(self.pace.rate(now)).min(settings.global_rate.unwrap_or(f64::INFINITY));
        if settings.policies[0].shape == Shape::LeakyBucket {
            effective.capacity = 1.0;
        }
        effective
    }

    /// What the server's headers say of its limit, if nothing else of the group is lower.
    pub(super) fn paced(&self, now: Mono, settings: &Settings) -> Option<Paced> {
        self.pace.limiting(now, self.effective(now, settings).rate)
    }

    /// Sets the bucket to what is effective now: refilled at the old rate first, nothing granted.
    pub(super) fn retarget(&mut self, now: Mono, settings: &Settings) {
        let effective = self.effective(now, settings);
        if self.layer.bucket.target() != effective {
            self.layer.bucket.set_target(now, effective);
        }
    }

    /// The bounds of its controller for an answer of `host`, whose budget counts if the operator set one.
    pub(super) fn bounds(&self, now: Mono, host: &Hot, settings: &Settings) -> Bounds {
        Bounds {
            original: self.layer.original,
            min_rate: settings.min_rate,
            refused: self.refusals.within(now),
            budget: host.operator.budget.unwrap_or(settings.policies[0].refusal_budget),
            cold: self.is_cold(settings),
            held_until: self.holding.hold().map_or(Mono::ZERO, |hold| hold.until),
        }
    }

    /// A member got a grant of `cost` tokens, which are taken already; whether it is the group's probe.
    pub(super) fn on_send(&mut self, now: Mono, host: &Hot, settings: &Settings) -> bool {
        let probe = self.holding.on_send(now);
        let bounds = self.bounds(now, host, settings);
        self.layer.adaptive.on_send(now, &bounds);
        self.in_flight += 1;
        self.sent += 1;
        self.retarget(now, settings);
        probe
    }

    /// A member's answer, which the member judged to be `outcome`. A run of 403 at one is a reason for all to wait, but
    /// only when it begins: after that it is that host alone which is turned away, as long as others get through.
    pub(super) fn on_member(
        &mut self,
        now: Mono,
        answer: &Answer,
        outcome: Outcome,
        was_blocked: bool,
        terms: &Terms<'_>,
        jitter: &mut dyn Jitter,
    ) -> Ruling {
        let probe = self.holding.is_probe(answer.sent);
        let outcome = match (outcome, answer.verdict) {
            // Who is turned away as a host can tell nothing of the others: another one probes.
            (Outcome::Refused, _) if was_blocked && probe => Outcome::Local,
            (Outcome::Refused, _) if was_blocked => Outcome::ClientError,
            // A probe after a run of 403 that is answered 403 by another host: it is no host's matter.
            (_, Verdict::Status(401 | 403)) if probe && self.holding.blocked() => Outcome::Refused,
            // Trouble on the way to one of them says nothing about the others, and is no answer to a probe.
            (Outcome::Connect | Outcome::Tls | Outcome::Dns | Outcome::ConnectionReset | Outcome::Timeout, _) => {
                Outcome::Local
            }
            (outcome, _) => outcome,
        };
        let terms = Terms { waits: Waits::Here, ..*terms };
        self.holding.on_judged(now, answer, outcome, &terms, jitter)
    }

    /// A grant that was not used; its tokens return if that is known at once.
    pub(super) fn cancel(&mut self, now: Mono, granted: Mono, cost: f64, settings: &Settings) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.sent = self.sent.saturating_sub(1);
        self.holding.on_cancel(granted);
        if now == granted {
            self.layer.bucket.give_back(now, cost);
        }
        self.retarget(now, settings);
    }
}

impl Group {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            members: Vec::new(),
            hot: None,
            original: Original { rate: 0.0, capacity: 0.0 },
            connections: 0,
            queued: 0,
            line: WakeQueue::default(),
            ticket: Ticket::default(),
            wake_at: Mono::NEVER,
            unsaved: false,
        }
    }

    /// Its state, made if it has none yet. What an earlier process may have spent until `resumed` is not there.
    pub(super) fn heat(&mut self, now: Mono, resumed: Option<Mono>, settings: &Settings) -> &mut HotGroup {
        let original = self.original;
        self.hot.get_or_insert_with(|| {
            let mut hot = HotGroup::new(now, original, settings);
            if let Some(at) = resumed {
                hot.layer.bucket = Bucket::empty(settings.policies[0].shape, hot.layer.bucket.target(), at);
            }
            Box::new(hot)
        })
    }

    /// A member under `policy` counts for the originals.
    pub(super) fn widen(&mut self, policy: &Policy) {
        self.original.rate = self.original.rate.max(policy.original.rate);
        self.original.capacity = self.original.capacity.max(policy.original.capacity);
        self.connections = self.connections.max(policy.connections);
    }

    /// Its originals anew, from all members: one left, or the policies are others.
    pub(super) fn measure<'a>(&mut self, policy_of: impl Fn(HostId) -> &'a Policy) {
        (self.original, self.connections) = (Original { rate: 0.0, capacity: 0.0 }, 0);
        for at in 0..self.members.len() {
            self.widen(policy_of(self.members[at]));
        }
    }

    /// Its holds, if it was asked something.
    pub(super) fn holding(&self) -> Option<&Holding> {
        self.hot.as_deref().map(|hot| &hot.holding)
    }

    /// The hold of all members.
    pub(super) fn hold(&self) -> Option<Hold> {
        self.holding().and_then(Holding::hold)
    }

    /// When the first in line can send, and what keeps it from sending now.
    pub(super) fn ready_at(&self, now: Mono, cost: f64) -> (Mono, Limiting) {
        let Some(hot) = self.hot.as_deref() else { return (now, Limiting::NothingQueued) };
        match hot.holding.gate(now) {
            Gate::Until(until) | Gate::Probing(until) => return (until, Limiting::Held),
            Gate::Open | Gate::ProbeDue => {}
        }
        if hot.in_flight >= self.connections.min(hot.layer.adaptive.in_flight_max()) {
            return (Mono::NEVER, Limiting::Connections);
        }
        let at = hot.layer.bucket.ready_at(now, cost);
        let at = at.max(hot.layer.adaptive.ready_at(now));
        let told = hot.pace.not_before();
        (at.max(told), if told > at.max(now) { Limiting::ServerPace } else { Limiting::GroupTokens })
    }
}

/// What is persisted of a group. Fields are only ever added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedGroup {
    pub(super) layer: super::saved::SavedLayer,
    #[serde(default)]
    pub(super) holding: Holding,
    #[serde(default)]
    pub(super) pace: Pace,
    #[serde(default)]
    pub(super) sent: u64,
    #[serde(default)]
    pub(super) refusals: RecentCount,
}

impl SavedGroup {
    /// The hold in force, if there is one.
    pub fn hold(&self) -> Option<Hold> {
        self.holding.hold()
    }

    /// The rate that was learned at `now`, and the original.
    pub fn rates(&self, now: Mono) -> (f64, f64) {
        (self.layer.adaptive.target(now).rate, self.layer.original.rate)
    }
}
