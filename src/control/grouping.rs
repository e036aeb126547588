//! Groups of hosts in the controller: who joins and leaves, and whose turn it is.
//!
//! A member that could send, but for its group, stands in the group's own line; the group has one place among all
//! groups, at the moment at which its first in line can send. So a grant costs the others of its group nothing.

use super::adaptive::{Adaptive, RateController, Shift};
use super::group::{Group, GroupId, Groups, HotGroup, SavedGroup};
use super::hold::Ruling;
use super::host::{Standing, cost_of};
use super::saved::SavedLayer;
use super::snapshot::GroupView;
use super::{Answer, Controller, HostId, Mono, Original, Outcome, Policy, Settings, Value, What, Who};

impl Groups {
    /// The group whose first in line can send earliest, with the number of its place.
    pub(super) fn first(&mut self) -> Option<(Mono, u64, GroupId)> {
        let Self { all, queue, .. } = self;
        let ticket_of = |id: HostId| all.get(id.0 as usize).map(|group| group.ticket).unwrap_or_default();
        queue.peek(ticket_of).map(|(at, number, id)| (at, number, GroupId(id.0)))
    }
}

impl Controller {
    /// A host shares the bucket of the group of this name from now on, and leaves the one it was in. What it learned
    /// and a wait that its server asked for are the group's then; no bucket gains a token.
    pub fn join(&mut self, now: Mono, host: HostId, name: &str) {
        if self.slots.get(host.0 as usize).is_none() {
            return;
        }
        let id = self.group_named(name);
        self.set_placing(now, host, false);
        if self.slots[host.0 as usize].group == id {
            return;
        }
        self.leave(now, host);
        self.unqueue(host);
        self.seat(now, host, id);
        let Self { slots, groups, settings, .. } = self;
        let (Some(slot), Some(group)) = (slots.get_mut(host.0 as usize), groups.get_mut(id)) else { return };
        let policy = &settings.policies[usize::from(slot.policy.0)];
        if let Some(hot) = slot.hot.as_mut().filter(|hot| hot.sent > 0) {
            let original = group.original;
            let shared = group.hot.get_or_insert_with(|| Box::new(HotGroup::new(now, original, settings)));
            let held = shared.take_in(now, hot, policy, settings);
            hot.retarget(now, policy, settings);
            self.save_group_later(id);
            self.save_later(host);
            self.tell_joined(now, host);
            self.tell_moved(now, host, Who::System, "its group's bucket has what it learned");
            if held {
                self.replan_members(now, id);
            }
        }
        self.replan(now, host);
    }

    /// The same, and it is known of the host again after a restart, though nothing was asked of it yet.
    pub fn join_for_good(&mut self, now: Mono, host: HostId, name: &str) {
        self.heat(now, host);
        self.join(now, host, name);
        self.save_later(host);
        self.touch(host);
    }

    /// The hosts of the group of this name.
    pub fn members(&self, name: &str) -> Vec<HostId> {
        let group = self.groups.names.get(name).and_then(|id| self.groups.get(*id));
        group.map(|group| group.members.clone()).unwrap_or_default()
    }

    /// A host that an earlier process knew goes on in the group that it was in.
    pub fn rejoin(&mut self, now: Mono, host: HostId, name: &str) {
        if self.slots.get(host.0 as usize).is_none_or(|slot| slot.group.some().is_some()) {
            return;
        }
        let id = self.group_named(name);
        self.unqueue(host);
        self.seat(now, host, id);
        self.replan(now, host);
    }

    /// A host, which stands in no queue now, becomes a member, and counts for the originals.
    fn seat(&mut self, now: Mono, host: HostId, id: GroupId) {
        let Self { slots, groups, settings, .. } = self;
        let Some((slot, group)) = slots.get_mut(host.0 as usize).zip(groups.get_mut(id)) else { return };
        slot.group = id;
        slot.seat = u32::try_from(group.members.len()).unwrap_or(u32::MAX);
        group.members.push(host);
        group.queued += slot.lanes.queued();
        let before = group.original;
        group.widen(&settings.policies[usize::from(slot.policy.0)]);
        follow(now, group, before, settings);
    }

    /// A host has a bucket of its own again: it goes on with what its group learned and waits for.
    pub fn leave(&mut self, now: Mono, host: HostId) {
        let Some(id) = self.slots.get(host.0 as usize).and_then(|slot| slot.group.some()) else { return };
        self.unqueue(host);
        let Self { slots, groups, settings, .. } = self;
        let Some(group) = groups.get_mut(id) else { return };
        let seat = slots[host.0 as usize].seat as usize;
        group.members.swap_remove(seat);
        if let Some(moved) = group.members.get(seat) {
            slots[moved.0 as usize].seat = u32::try_from(seat).unwrap_or(u32::MAX);
        }
        let slot = &mut slots[host.0 as usize];
        slot.group = GroupId::NONE;
        group.queued = group.queued.saturating_sub(slot.lanes.queued());
        let before = group.original;
        group.measure(|member| policy_in(settings, slots, member));
        follow(now, group, before, settings);
        let name = group.name.clone();
        self.inherit(now, host, id, &name);
        self.replan_group(now, id);
    }

    /// Every host has a bucket of its own again.
    pub fn dissolve_groups(&mut self, now: Mono) {
        let ids = 0..u32::try_from(self.groups.all.len()).unwrap_or(u32::MAX);
        for id in ids.map(GroupId) {
            let Some(group) = self.groups.get_mut(id) else { continue };
            let (members, name) = (std::mem::take(&mut group.members), group.name.clone());
            for host in members {
                self.unqueue(host);
                self.slots[host.0 as usize].group = GroupId::NONE;
                self.inherit(now, host, id, &name);
            }
        }
        self.groups = Groups::default();
    }

    /// What a host takes with it from a group that it is no member of any more.
    fn inherit(&mut self, now: Mono, host: HostId, id: GroupId, name: &str) {
        let held = self.groups.get(id).and_then(Group::hold).is_some_and(|hold| hold.until > now);
        if held {
            self.heat(now, host);
        }
        let Self { slots, groups, settings, .. } = self;
        let slot = &mut slots[host.0 as usize];
        let policy = &settings.policies[usize::from(slot.policy.0)];
        let shared = groups.get_mut(id).and_then(|group| group.hot.as_deref_mut());
        if let Some((hot, shared)) = slot.hot.as_deref_mut().zip(shared) {
            shared.in_flight = shared.in_flight.saturating_sub(hot.in_flight);
            hot.holding.take_over(now, &shared.holding);
            hot.pace = shared.pace.into();
            if hot.sent > 0 {
                let learned = shared.layer.adaptive.clone();
                hot.layer.adaptive = learned.resumed(now, policy.kind, shared.layer.original, hot.layer.original);
                hot.layer.bucket.drain(now);
            }
            hot.retarget(now, policy, settings);
            self.save_later(host);
            let (from, why) = (Value::Text(name.to_owned()), format!("it is in group {name} no more"));
            self.decide(now, Who::System, Some(host), What::Group, from, Value::None, &*why);
            self.tell_moved(now, host, Who::System, &why);
        }
        self.replan(now, host);
    }

    fn group_named(&mut self, name: &str) -> GroupId {
        if let Some(id) = self.groups.names.get(name) {
            return *id;
        }
        let id = GroupId(u32::try_from(self.groups.all.len()).unwrap_or(u32::MAX));
        self.groups.all.push(Group::new(name));
        self.groups.names.insert(name.into(), id);
        id
    }

    /// While `placing`, nothing goes to the host: whose bucket it shares is being found out.
    pub fn set_placing(&mut self, now: Mono, host: HostId, placing: bool) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        if slot.placing != placing {
            slot.placing = placing;
            self.replan(now, host);
        }
    }

    /// The name of a host's group, if it is in one.
    pub fn group_of(&self, host: HostId) -> Option<&str> {
        let group = self.slots.get(host.0 as usize)?.group.some()?;
        self.groups.get(group).map(|group| &*group.name)
    }

    /// What a host shares with others, if its group has any.
    pub fn group_view(&self, now: Mono, host: HostId) -> Option<GroupView> {
        let group = self.groups.get(self.slots.get(host.0 as usize)?.group.some()?)?;
        if group.members.len() < 2 {
            return None;
        }
        let hot = group.hot.as_deref();
        let adaptive = hot.map_or(group.original, |hot| hot.adaptive(now, &self.settings));
        Some(GroupView {
            as_of: now,
            members: u32::try_from(group.members.len()).unwrap_or(u32::MAX),
            tokens: hot.map_or(group.original.capacity, |hot| hot.layer.bucket.tokens(now)),
            effective: hot.map_or(group.original, |hot| hot.layer.bucket.target()),
            original: group.original,
            adaptive,
            hold: group.hold().filter(|hold| hold.until > now),
            in_flight: hot.map_or(0, |hot| hot.in_flight),
            connections: group.connections,
            queued: group.queued,
            refusals: hot.map_or(0, |hot| hot.refusals.within(now)),
        })
    }

    /// Whose first in line is a group's, if anybody's.
    pub(super) fn first_in_line(&mut self, id: GroupId) -> Option<HostId> {
        let Self { slots, groups, .. } = self;
        let group = groups.get_mut(id)?;
        group.line.peek(|host| slots.get(host.0 as usize).map(|slot| slot.ticket).unwrap_or_default()).map(|one| one.2)
    }

    /// Puts a group where its first in line can send: after every change of either.
    pub(super) fn replan_group(&mut self, now: Mono, id: GroupId) {
        let first = self.first_in_line(id);
        let Self { slots, groups, settings, tickets, .. } = self;
        let Groups { all, queue, .. } = groups;
        let Some(group) = all.get_mut(id.0 as usize) else { return };
        let at = first.map_or(Mono::NEVER, |host| {
            let slot = &slots[host.0 as usize];
            let policy = &settings.policies[usize::from(slot.policy.0)];
            let lane = slot.standing(now, policy).lane.unwrap_or_default();
            group.ready_at(now, cost_of(policy, usize::from(lane.0))).0
        });
        if at == Mono::NEVER {
            queue.remove(&mut group.ticket);
            group.wake_at = Mono::NEVER;
            return;
        }
        let at = at.max(now);
        let keeps_place = group.wake_at == at || (group.wake_at <= now && at <= now);
        if !(group.ticket.is_queued() && keeps_place) {
            queue.put(tickets, &mut group.ticket, HostId(id.0), at);
            group.wake_at = at;
        }
    }

    /// A hold of a group began or ended: the rows of its members say so.
    pub(super) fn replan_members(&mut self, now: Mono, id: GroupId) {
        let members = self.groups.get(id).map(|group| group.members.clone()).unwrap_or_default();
        for host in members {
            self.replan(now, host);
        }
    }

    /// Takes a host out of the queue, or the line, that it stands in.
    pub(super) fn unqueue(&mut self, host: HostId) {
        let Self { slots, groups, queue, .. } = self;
        let slot = &mut slots[host.0 as usize];
        match groups.get_mut(slot.group).filter(|_| slot.in_line) {
            Some(group) => group.line.remove(&mut slot.ticket),
            None => queue.remove(&mut slot.ticket),
        }
        slot.in_line = false;
        slot.wake_at = Mono::NEVER;
    }

    /// The standing of a host, that of its group included.
    pub(super) fn whole_standing(&self, now: Mono, host: HostId, own: Standing) -> Standing {
        let slot = &self.slots[host.0 as usize];
        let Some((lane, group)) = own.lane.zip(self.groups.get(slot.group)) else { return own };
        let (at, limiting) = group.ready_at(now, cost_of(self.policy_of(host), usize::from(lane.0)));
        if at <= own.at.max(now) {
            return own;
        }
        Standing { at, lane: own.lane, limiting, limiting_lane: 0 }
    }

    /// Hosts moved to other policies, or those are others now: so are the originals of their groups.
    pub(super) fn reconfigure_groups(&mut self, now: Mono, old: &Settings) {
        let Self { slots, groups, settings, .. } = self;
        for group in &mut groups.all {
            group.measure(|member| policy_in(settings, slots, member));
            if let Some(hot) = group.hot.as_deref_mut() {
                hot.layer.reconfigure(now, &old.policies[0], &settings.policies[0], group.original);
                hot.retarget(now, settings);
            }
        }
        for id in 0..self.groups.all.len() {
            self.replan_group(now, GroupId(u32::try_from(id).unwrap_or(u32::MAX)));
        }
    }

    /// Writes down whose bucket a host shares.
    pub(super) fn tell_joined(&mut self, now: Mono, host: HostId) {
        let Some(group) = self.slots.get(host.0 as usize).and_then(|slot| self.groups.get(slot.group)) else { return };
        let (name, original) = (group.name.clone(), group.original);
        let why = format!("it shares the bucket of group {name}, {} tokens/s, {}", original.rate, original.capacity);
        self.decide(now, Who::System, Some(host), What::Group, Value::None, Value::Text(name.into()), why);
    }

    /// Writes down what a member's answer did to the group.
    pub(super) fn tell_group(
        &mut self,
        now: Mono,
        answer: &Answer,
        outcome: Outcome,
        ruling: &Ruling,
        shift: Option<Shift>,
    ) {
        let host = answer.host;
        let Some(name) = self.group_of(host).map(str::to_owned) else { return };
        if let Some((before, after)) = ruling.held {
            let who = if after.reason.server_asked() { Who::Server } else { Who::Controller };
            let left = before.map_or(0.0, |hold| hold.until.secs_since(now));
            let why = format!("group {name}: {}", super::tell::hold_reason(&after, answer.verdict, ruling.secondary));
            let (before, after) = (Value::Number(left), Value::Number(after.until.secs_since(now)));
            self.decide(now, who, Some(host), What::GroupHold, before, after, why);
        }
        if ruling.opened {
            let why = format!("group {name}: probe answered {}", ruling.outcome.as_str());
            self.decide(now, Who::Controller, Some(host), What::GroupOpen, Value::None, Value::None, why);
        }
        let Some(shift) = shift else { return };
        let Self { slots, groups, settings, .. } = self;
        let group = groups.get_mut(slots[host.0 as usize].group);
        let held = group.as_ref().and_then(|group| group.hold()).is_some_and(|hold| hold.until > now);
        let Some(hot) = group.and_then(|group| group.hot.as_deref_mut()) else { return };
        let shift = if hot.is_cold(settings) { super::tell::cold(shift) } else { shift };
        let layer = &mut hot.layer;
        let told = super::tell::told_steps(layer, shift);
        let mut why = format!("group {name}: {}", super::tell::reason_of_shift(answer, outcome, super::Lane(0)));
        if let Some(number) = layer.adaptive.why(now) {
            why.push_str(&format!("; {}", number.later(0.0, held)));
        }
        let since = format!("group {name}: successes since");
        self.tell_steps(now, host, (What::GroupRate, What::GroupCapacity), told, [&since, &why]);
    }

    /// Has a group saved with the next transaction.
    pub(super) fn save_group_later(&mut self, id: GroupId) {
        let Groups { all, unsaved, .. } = &mut self.groups;
        if let Some(group) = all.get_mut(id.0 as usize).filter(|group| !group.unsaved) {
            group.unsaved = true;
            unsaved.push(id);
        }
    }

    /// Groups whose saved form has changed since the last call, by name.
    pub fn take_unsaved_groups(&mut self) -> Vec<(Box<str>, SavedGroup)> {
        let taken = std::mem::take(&mut self.groups.unsaved);
        let saved = taken.into_iter().filter_map(|id| {
            let group = self.groups.get_mut(id)?;
            group.unsaved = false;
            let hot = group.hot.as_deref()?;
            let saved = SavedGroup {
                layer: SavedLayer::of(&hot.layer),
                holding: hot.holding.clone(),
                pace: hot.pace,
                sent: hot.sent,
                refusals: hot.refusals,
            };
            Some((group.name.clone(), saved))
        });
        saved.collect()
    }

    /// Takes up what was persisted of a group; its members join afterwards. Its bucket begins empty.
    pub fn restore_group(&mut self, now: Mono, name: &str, saved: SavedGroup) {
        let id = self.group_named(name);
        let Self { groups, settings, .. } = self;
        let Some(group) = groups.get_mut(id) else { return };
        let SavedGroup { layer, holding, pace, sent, refusals } = saved;
        let mut hot = HotGroup::new(now, layer.original, settings);
        layer.resume(&mut hot.layer, now, &settings.policies[0]);
        hot.holding = holding.resumed(now, super::saved::longest_hold(settings));
        (hot.sent, hot.refusals) = (sent, refusals);
        hot.pace = pace.resumed(now, settings.backoff.retry_after_max);
        hot.retarget(now, settings);
        hot.layer.bucket.drain(now);
        group.hot = Some(Box::new(hot));
    }
}

impl HotGroup {
    /// A host joins that was asked something before: what it learned counts, if the group has learned nothing yet.
    /// Of several the one that bore most is believed: the others' requests were borne at the same time.
    /// Whether a hold began with it.
    fn take_in(&mut self, now: Mono, hot: &mut super::host::Hot, policy: &Policy, settings: &Settings) -> bool {
        self.layer.bucket.drain(now);
        self.in_flight += hot.in_flight;
        if self.sent == 0 {
            let learned = hot.layer.adaptive.target(now).rate;
            if !self.inherited || learned > self.layer.adaptive.target(now).rate {
                let adaptive = hot.layer.adaptive.clone();
                self.layer.adaptive =
                    adaptive.resumed(now, settings.policies[0].kind, hot.layer.original, self.layer.original);
                self.layer.told = self.layer.adaptive.target(now);
            }
            self.inherited = true;
        }
        self.warm |= !hot.is_cold(settings);
        hot.layer.adaptive = Adaptive::new(policy.kind, hot.layer.original);
        let waits = hot.holding.is_shared() || hot.holding.blocked();
        let held = waits && self.holding.take_over(now, &hot.holding).is_some();
        if hot.holding.is_shared() {
            hot.holding.hand_over();
        }
        self.pace.join(&std::mem::take(&mut hot.pace));
        self.retarget(now, settings);
        held
    }
}

/// The originals of a group moved from `before`: its controller follows.
fn follow(now: Mono, group: &mut Group, before: Original, settings: &Settings) {
    let after = group.original;
    if after == before || after.rate == 0.0 {
        return;
    }
    if let Some(hot) = group.hot.as_deref_mut() {
        hot.layer.adaptive.rebase(hot.layer.original, after);
        hot.layer.original = after;
        hot.retarget(now, settings);
    }
}

fn policy_in<'a>(settings: &'a Settings, slots: &[super::host::Slot], host: HostId) -> &'a Policy {
    &settings.policies[usize::from(slots[host.0 as usize].policy.0)]
}
