//! A host's state as it is persisted, and taken up again by another process.
//!
//! Moments are on the run's own monotonic clock, which goes on over restarts. What is not here begins anew: the
//! level of a bucket (it begins empty, since the last tokens may have been spent unseen), what is in flight, the
//! concern (the next sweep raises it again), the gate of robots.txt.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::adaptive::Adaptive;
use super::hints::Pace;
use super::history::SavedHistory;
use super::hold::{Holding, TLS_HOLD_MAX};
use super::host::{CRAWL_DELAY_MAX, CrawlDelay, Hot, Layer};
use super::latency::Latency;
use super::window::{Histogram, RecentCount};
use super::{
    Code, Controller, Hold, HostId, Mono, OperatorSettings, Original, Outcome, Override, Pause, Policy, Settings, Trend,
};

/// What is persisted of one host. Fields are only ever added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedHost {
    layer: SavedLayer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    endpoints: Vec<SavedLayer>,
    #[serde(default)]
    holding: Holding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overriding: Option<SavedOverride>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<SavedPause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crawl_delay: Option<CrawlDelay>,
    #[serde(default)]
    sent: u64,
    #[serde(default)]
    given_up: bool,
    #[serde(default)]
    warm: bool,
    #[serde(default)]
    histogram: Histogram,
    #[serde(default)]
    latency: Latency,
    #[serde(default)]
    refusals: RecentCount,
    #[serde(default)]
    first_sent: Option<Mono>,
    #[serde(default)]
    last_ok: Option<Mono>,
    #[serde(default)]
    last_outcome: Option<Outcome>,
    #[serde(default)]
    moved: Option<(Mono, Trend)>,
    /// The group that it shares a bucket with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default)]
    pace: Pace,
}

/// A bucket's original and what its controller learned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SavedLayer {
    pub(super) original: Original,
    pub(super) adaptive: Adaptive,
    told: Original,
}

/// An override with its moments: the journal's form has its lifetime only.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SavedOverride {
    rate: Option<f64>,
    capacity: Option<f64>,
    since: Mono,
    until: Option<Mono>,
}

impl From<Override> for SavedOverride {
    fn from(one: Override) -> Self {
        Self { rate: one.rate, capacity: one.capacity, since: one.since, until: one.until }
    }
}

impl From<SavedOverride> for Override {
    fn from(one: SavedOverride) -> Self {
        Self { rate: one.rate, capacity: one.capacity, since: one.since, until: one.until }
    }
}

/// The same for a pause.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SavedPause {
    since: Mono,
    until: Option<Mono>,
}

impl From<Pause> for SavedPause {
    fn from(one: Pause) -> Self {
        Self { since: one.since, until: one.until }
    }
}

impl From<SavedPause> for Pause {
    fn from(one: SavedPause) -> Self {
        Self { since: one.since, until: one.until }
    }
}

/// All that the operator set on one host, with its moments.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct SavedOperator {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overriding: Option<SavedOverride>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<SavedPause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<u32>,
}

impl From<OperatorSettings> for SavedOperator {
    fn from(OperatorSettings { overriding, pause, budget }: OperatorSettings) -> Self {
        Self { overriding: overriding.map(Into::into), pause: pause.map(Into::into), budget }
    }
}

impl From<SavedOperator> for OperatorSettings {
    fn from(SavedOperator { overriding, pause, budget }: SavedOperator) -> Self {
        Self { overriding: overriding.map(Into::into), pause: pause.map(Into::into), budget }
    }
}

impl SavedHost {
    /// Wire requests so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The hold in force, if there is one.
    pub fn hold(&self) -> Option<Hold> {
        self.holding.hold()
    }

    /// The group that it shared a bucket with.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// What the operator set.
    pub fn operator(&self) -> OperatorSettings {
        OperatorSettings {
            overriding: self.overriding.map(Into::into),
            pause: self.pause.map(Into::into),
            budget: self.budget,
        }
    }

    /// The rate that the controller had learned at `now`, and the original.
    pub fn rates(&self, now: Mono) -> (f64, f64) {
        use super::adaptive::RateController as _;
        (self.layer.adaptive.target(now).rate, self.layer.original.rate)
    }
}

impl Controller {
    /// Hosts whose saved form has changed since the last call, at most `most`; the others stay for the next call.
    pub fn take_unsaved(&mut self, most: usize) -> Vec<HostId> {
        let rest = self.unsaved.split_off(most.min(self.unsaved.len()));
        let taken = std::mem::replace(&mut self.unsaved, rest);
        for host in &taken {
            self.slots[host.0 as usize].unsaved = false;
        }
        taken
    }

    /// Whether [`Self::take_unsaved`] or [`Self::take_unsaved_groups`] has any.
    pub fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty() || !self.groups.unsaved.is_empty() || self.history.is_unsaved()
    }

    /// How many hosts [`Self::take_unsaved`] has.
    pub fn unsaved_hosts(&self) -> usize {
        self.unsaved.len()
    }

    /// What the operator can take back, if that has changed since the last call.
    pub fn take_unsaved_history(&mut self) -> Option<SavedHistory> {
        self.history.take_unsaved()
    }

    /// Takes up what the operator of another process did.
    pub fn restore_history(&mut self, saved: SavedHistory) {
        self.history = saved.into();
    }

    /// What is to be persisted of a host; `None` for one that was never asked anything.
    pub fn saved(&self, host: HostId) -> Option<SavedHost> {
        let hot = self.slots.get(host.0 as usize)?.hot.as_deref()?;
        let layer = SavedLayer::of;
        let operator = *hot.operator;
        Some(SavedHost {
            layer: layer(&hot.layer),
            endpoints: hot.endpoints.iter().map(layer).collect(),
            holding: hot.holding.clone(),
            overriding: operator.overriding.map(Into::into),
            pause: operator.pause.map(Into::into),
            budget: operator.budget,
            crawl_delay: hot.crawl_delay.as_deref().copied(),
            // What has not ended has no row in the journal, and is made again.
            sent: hot.sent.saturating_sub(u64::from(hot.in_flight)),
            given_up: hot.given_up,
            warm: hot.warm,
            histogram: hot.histogram.clone(),
            latency: hot.latency.clone(),
            refusals: hot.refusals,
            first_sent: hot.first_sent,
            last_ok: hot.last_ok,
            last_outcome: hot.last_outcome,
            moved: hot.moved,
            group: self.group_of(host).map(str::to_owned),
            pace: *hot.pace,
        })
    }

    /// All hosts so far were known to an earlier process: buckets that they are given begin empty, as of `now`.
    pub fn all_resumed(&mut self, now: Mono) {
        self.resumed_hosts = (self.slots.len(), now);
    }

    /// Takes up what was persisted of a host. Deadlines are clamped to what could have been set; originals are
    /// those that are configured now. Changes nothing that would be saved again.
    pub fn restore(&mut self, now: Mono, host: HostId, saved: SavedHost) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let hot = saved.into_hot(now, policy, &self.settings);
        self.counts.overridden += u32::from(hot.operator.overriding.is_some());
        slot.hot = Some(Box::new(hot));
        self.replan(now, host);
    }

    /// The journal tells requests to a host that were not saved: they count, and what had not ended then goes again.
    /// What they taught is lost.
    pub fn recount(&mut self, now: Mono, host: HostId, ended: &BTreeMap<Code, u32>) {
        let Some(hot) = self.heat(now, host) else { return };
        for (code, count) in ended {
            (0..*count).for_each(|_| hot.histogram.record(now, *code));
            hot.sent += u64::from(*count);
        }
        self.save_later(host);
    }

    /// Wire requests to a host so far.
    pub fn sent(&self, host: HostId) -> u64 {
        self.slots.get(host.0 as usize).and_then(|slot| slot.hot.as_deref()).map_or(0, |hot| hot.sent)
    }

    /// Sets the halt that an earlier process left. No decision: it was journaled then.
    pub fn restore_halt(&mut self, halted: bool) {
        self.halted = halted;
    }

    /// Has a host saved with the next transaction.
    pub(super) fn save_later(&mut self, host: HostId) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        if !slot.unsaved {
            slot.unsaved = true;
            self.unsaved.push(host);
        }
    }
}

impl SavedHost {
    fn into_hot(self, now: Mono, policy: &Policy, settings: &Settings) -> Hot {
        let operator = self.operator();
        let mut hot = Hot::new(now, policy, settings);
        self.layer.resume(&mut hot.layer, now, policy);
        // Endpoints are known by their place: another number of them is another configuration.
        if self.endpoints.len() == hot.endpoints.len() {
            for (layer, saved) in hot.endpoints.iter_mut().zip(self.endpoints) {
                saved.resume(layer, now, policy);
            }
        }
        hot.holding = self.holding.resumed(now, longest_hold(settings));
        hot.operator = clamped(now, operator).into();
        hot.crawl_delay = self.crawl_delay.map(|delay| {
            let gap_until = delay.gap_until.min(now.after(CRAWL_DELAY_MAX));
            Box::new(CrawlDelay { gap_until, obeyed: delay.obeyed.min(CRAWL_DELAY_MAX), ..delay })
        });
        hot.sent = self.sent;
        hot.given_up = self.given_up;
        hot.warm = self.warm;
        hot.histogram = self.histogram;
        hot.latency = self.latency;
        hot.refusals = self.refusals;
        hot.first_sent = self.first_sent;
        hot.last_ok = self.last_ok;
        hot.last_outcome = self.last_outcome;
        hot.moved = self.moved;
        hot.pace = self.pace.resumed(now, settings.backoff.retry_after_max).into();
        hot.retarget(now, policy, settings);
        hot.empty(now, policy);
        hot
    }
}

impl SavedLayer {
    pub(super) fn of(layer: &Layer) -> Self {
        Self { original: layer.original, adaptive: layer.adaptive.clone(), told: layer.told }
    }

    /// Goes on in `layer`, which is one of `policy`.
    pub(super) fn resume(self, layer: &mut Layer, now: Mono, policy: &Policy) {
        use super::adaptive::RateController as _;
        let original = layer.original;
        layer.adaptive = self.adaptive.resumed(now, policy.kind, self.original, original);
        layer.told = self.told;
        layer.bucket.set_target(now, layer.adaptive.target(now));
    }
}

/// No hold that this program sets is longer.
pub(super) fn longest_hold(settings: &Settings) -> Duration {
    let backoff = &settings.backoff;
    backoff.retry_after_max.max(backoff.max).max(TLS_HOLD_MAX).saturating_add(backoff.jitter)
}

/// No lifetime is longer than it was when it was set.
fn clamped(now: Mono, operator: OperatorSettings) -> OperatorSettings {
    let clamp = |since: Mono, until: Option<Mono>| until.map(|until| until.min(now.after(until.since(since))));
    OperatorSettings {
        overriding: operator.overriding.map(|one| Override {
            since: one.since.min(now),
            until: clamp(one.since, one.until),
            ..one
        }),
        pause: operator.pause.map(|one| Pause { since: one.since.min(now), until: clamp(one.since, one.until) }),
        budget: operator.budget,
    }
}
