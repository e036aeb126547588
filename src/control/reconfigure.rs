//! Other settings while the crawl runs: all of them in one step, so that nothing is ever half of the one and half
//! of the other.
//!
//! What a host is told by its policy changes for the very next grant; what it learned, its holds, and what the
//! operator set on it stay. No bucket gains a token: a raised rate fills from now on, a raised capacity is room.

use super::adaptive::RateController;
use super::bucket::Bucket;
use super::controller::global_target;
use super::host::Lanes;
use super::{Controller, HostId, Lane, Mono, Policy, PolicyId, Settings, Shape, Value, What, Who};

/// Where a host stands under new settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Its policy.
    pub policy: PolicyId,
    /// If its endpoints are others than before: which lane each one of now (lane 1 first) was, `None` = it is new.
    pub lanes: Option<Vec<Option<Lane>>>,
}

impl Controller {
    /// Takes other settings; `place` says where each host stands under them. Gives how many hosts that were asked
    /// something have another original now. Hosts whose endpoints changed begin with empty lanes: their queues
    /// have to be told anew.
    pub fn reconfigure(
        &mut self,
        now: Mono,
        mut settings: Settings,
        mut place: impl FnMut(HostId) -> Placement,
    ) -> usize {
        if settings.policies.is_empty() {
            settings.policies.push(Policy::default());
        }
        let everybody =
            self.settings.cold_start != settings.cold_start || self.settings.global_rate != settings.global_rate;
        let old = std::mem::replace(&mut self.settings, settings);
        self.limit_globally(now, old.global_rate);
        let mut changed = 0;
        for index in 0..self.slots.len() {
            let host = HostId(u32::try_from(index).unwrap_or(u32::MAX));
            let Placement { policy, lanes } = place(host);
            let known = usize::from(policy.0) < self.settings.policies.len();
            let policy = if known { policy } else { PolicyId(0) };
            changed += usize::from(self.move_to(now, host, policy, lanes, &old, everybody));
        }
        self.reconfigure_groups(now, &old);
        changed
    }

    /// Sets one host under its new policy; whether that gave it another original.
    fn move_to(
        &mut self,
        now: Mono,
        host: HostId,
        id: PolicyId,
        lanes: Option<Vec<Option<Lane>>>,
        old: &Settings,
        everybody: bool,
    ) -> bool {
        let Self { slots, settings, groups, .. } = self;
        let slot = &mut slots[host.0 as usize];
        let (before, after) = (&old.policies[usize::from(slot.policy.0)], &settings.policies[usize::from(id.0)]);
        slot.policy = id;
        if before == after && lanes.is_none() {
            if everybody {
                self.retarget(now, host);
            }
            return false;
        }
        if lanes.is_some() {
            if let Some(group) = groups.get_mut(slot.group) {
                group.queued = group.queued.saturating_sub(slot.lanes.queued());
            }
            slot.lanes = Lanes::of(after);
        }
        let (mut told, mut moved) = (None, false);
        if let Some(hot) = &mut slot.hot {
            let (original, target) = (hot.layer.original, hot.layer.adaptive.target(now));
            hot.reconfigure(now, before, after, settings, lanes.as_deref());
            moved = hot.layer.adaptive.target(now) != target || lanes.is_some();
            told = Some((original, hot.layer.original)).filter(|(before, after)| before != after);
        }
        if let Some((original, new_original)) = told {
            let (from, to) = (Value::Number(original.rate), Value::Number(new_original.rate));
            let why = format!("configuration read again: capacity {} to {}", original.capacity, new_original.capacity);
            self.decide(now, Who::System, Some(host), What::Original, from, to, why);
        }
        if moved {
            let why = if told.is_some() { "the original was changed" } else { "configuration read again" };
            self.tell_moved(now, host, Who::System, why);
        }
        if told.is_some() {
            self.save_later(host);
        }
        self.retarget(now, host);
        told.is_some()
    }

    /// The limit of all hosts together: a new one begins with an empty bucket.
    fn limit_globally(&mut self, now: Mono, before: Option<f64>) {
        let wanted = self.settings.global_rate;
        if wanted == before {
            return;
        }
        self.global_until = Mono::ZERO;
        self.global = match (wanted, self.global.take()) {
            (None, _) => None,
            (Some(rate), None) => Some(Bucket::empty(Shape::TokenBucket, global_target(rate), now)),
            (Some(rate), Some(mut bucket)) => {
                bucket.set_target(now, global_target(rate));
                Some(bucket)
            }
        };
    }
}
