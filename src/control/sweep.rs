//! What only time brings about: lifetimes that end, concerns, hosts to give up, the crawl's outlook.
//!
//! A sweep looks at so many hosts at a time and goes on where the last one stopped, so that a crawl of
//! a million hosts is never held up by it.

use std::time::Duration;

use super::adaptive::RateController as _;
use super::concern::{self, Evidence, Facts, Thresholds};
use super::eta::{self, Load, Outlook};
use super::shared::{self, Origin, Sign, Suspicion};
use super::{Concern, ConcernKind, Controller, HostId, HostState, Mono, Value, What, Who};

/// Why a host is given up.
pub const REFUSING: &str = "it answered nothing but refusals for give_up_after";
const SILENT: &str = "its robots.txt could not be had for give_up_after";

impl Controller {
    /// Looks at the next `most` hosts.
    pub fn sweep(&mut self, now: Mono, most: usize) {
        for _ in 0..most.min(self.slots.len()) {
            let host = HostId(u32::try_from(self.sweep_at).unwrap_or(u32::MAX));
            self.sweep_at += 1;
            self.end_lifetimes(now, host);
            self.end_group_pace(now, host);
            self.tell_pace(now, host);
            self.check_patience(now, host);
            self.check_concern(now, host);
            if self.sweep_at >= self.slots.len() {
                self.sweep_at = 0;
                self.outlook = self.look_out(now);
            }
        }
    }

    /// Ends what the headers of a host's group told, if its time is over.
    fn end_group_pace(&mut self, now: Mono, host: HostId) {
        let Self { slots, groups, settings, .. } = self;
        let id = slots[host.0 as usize].group;
        let Some(group) = groups.get_mut(id).and_then(|group| group.hot.as_deref_mut()) else { return };
        if group.pace.lapse(now) {
            group.retarget(now, settings);
            self.replan_group(now, id);
            self.touch(host);
        }
    }

    /// The outlook as of the last whole sweep.
    pub fn outlook(&self) -> Outlook {
        self.outlook
    }

    /// Hosts to give up, each told once, and why: nothing but refusals, or nothing at all, for `give_up_after`.
    pub fn take_given_up(&mut self) -> Vec<(HostId, &'static str)> {
        std::mem::take(&mut self.given_up)
    }

    /// So many URLs of the host are held back because they look like a trap.
    pub fn set_held_back(&mut self, host: HostId, urls: u32) {
        if let Some(hot) = self.slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut()) {
            hot.held_back = urls;
        }
    }

    /// So many links, the first of them on a page of the host, lead to more hosts of a domain than are taken.
    pub fn set_beyond(&mut self, host: HostId, domain: &str, links: u32) {
        let (_, count) = self.beyond.entry(host).or_insert_with(|| (domain.into(), 0));
        *count = links;
    }

    /// That is settled.
    pub fn clear_beyond(&mut self, host: HostId) {
        self.beyond.remove(&host);
    }

    /// Raises or clears the host's concern.
    fn check_concern(&mut self, now: Mono, host: HostId) {
        let Some(facts) = self.facts(now, host) else { return };
        let Some(hot) = &mut self.slots[host.0 as usize].hot else { return };
        let before = hot.concern.as_deref().copied();
        let after = concern::check(now, &facts, &Thresholds::default()).map(|after| after.continuing(before.as_ref()));
        if after == before {
            return;
        }
        hot.concern = after.map(Box::new);
        self.touch(host);
        let kind = |concern: Option<Concern>| concern.map(|concern| concern.kind);
        if kind(before) == kind(after) {
            return;
        }
        for (concern, raised) in [(before, false), (after, true)] {
            let Some(concern) = concern else { continue };
            let count = match concern.kind {
                ConcernKind::Stuck => &mut self.counts.stuck,
                ConcernKind::Angry => &mut self.counts.angry,
                ConcernKind::SharedLimit => &mut self.counts.sharing,
                ConcernKind::Trap => &mut self.counts.trapped,
                ConcernKind::Tail => &mut self.counts.tail,
                ConcernKind::Forgotten => &mut self.counts.forgotten,
            };
            *count = if raised { *count + 1 } else { count.saturating_sub(1) };
        }
        let word = |concern: Option<Concern>| {
            concern.map_or(Value::None, |concern| Value::Text(concern.kind.as_str().to_owned()))
        };
        let why = match (before, after) {
            (_, Some(concern)) => {
                let of = self.beyond.get(&host).filter(|_| matches!(concern.evidence, Evidence::Beyond { .. }));
                let of = of.map(|(domain, _)| format!(" to hosts of {domain}")).unwrap_or_default();
                format!("{}{of}: {}", concern.why(now), concern.advice())
            }
            (Some(concern), None) => format!("{} no more", concern.kind.as_str()),
            (None, None) => String::new(),
        };
        self.decide(now, Who::Concern, Some(host), What::Concern, word(before), word(after), why);
        let with = self.slots[host.0 as usize].hot.as_ref().and_then(|hot| hot.suspicion).map(|one| one.with);
        if let (Some(ConcernKind::SharedLimit), Some(decision)) = (kind(after), self.decisions.last_mut()) {
            decision.with = with;
        }
    }

    /// A request of a host, sent at `sent`, was refused, and an incident began if it is `fresh`: with whom the host
    /// seems to share a limit.
    pub(super) fn note_refusal(&mut self, now: Mono, sent: Mono, host: HostId, fresh: bool) {
        let origin = self.origin.take().filter(|(of, _)| *of == host).map(|(_, origin)| origin).unwrap_or_default();
        let group = self.slots[host.0 as usize].group;
        let slots = &self.slots;
        let apart = |other: HostId| {
            slots.get(other.0 as usize).is_some_and(|slot| slot.group.some().is_none() || slot.group != group)
        };
        let accepted = |of: HostId| {
            let hot = slots.get(of.0 as usize).and_then(|slot| slot.hot.as_deref());
            hot.map_or(0.0, |hot| hot.sent as f64 - hot.throttled as f64)
        };
        let mut found = Vec::new();
        if fresh && let Some(one) = self.episodes.note(now, host, origin, apart) {
            found.extend([(host, one), (one.with, Suspicion { with: host, ..one })]);
        }
        if let Some(one) = self.sums.note(sent, host, &origin, accepted, apart) {
            let sign = Sign::OneRate { hundredths: (one.rate * 100.0).round() as u32 };
            let other = one.hosts.iter().copied().find(|other| *other != host).unwrap_or(host);
            let with = |of: HostId| if of == host { other } else { host };
            found.extend(one.hosts.iter().map(|of| (*of, Suspicion { with: with(*of), sign, at: now })));
        }
        for (host, suspicion) in found {
            if let Some(hot) = self.slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut()) {
                hot.suspicion = Some(suspicion);
            }
        }
    }

    /// A host, and all that it seems to share a limit with, one leading to the other.
    pub fn seem_to_share(&self, now: Mono, host: HostId) -> Vec<HostId> {
        let pairs = self.slots.iter().zip(0..).filter_map(|(slot, number)| {
            let suspicion = slot.hot.as_deref()?.suspicion?;
            self.still_suspected(now, slot.group, &suspicion).then_some((HostId(number), suspicion.with))
        });
        let pairs: Vec<(HostId, HostId)> = pairs.collect();
        let mut found = vec![host];
        let mut at = 0;
        while let Some(one) = found.get(at).copied() {
            for (of, with) in &pairs {
                for (here, there) in [(*of, *with), (*with, *of)] {
                    if here == one && !found.contains(&there) {
                        found.push(there);
                    }
                }
            }
            at += 1;
        }
        found
    }

    /// What connects the answer that is about to be reported, a refusal, with those of other hosts.
    pub fn origin(&mut self, host: HostId, origin: Origin) {
        self.origin = Some((host, origin));
    }

    /// What the checks need to know; `None` for a host that was never touched.
    fn facts(&self, now: Mono, host: HostId) -> Option<Facts> {
        let slot = self.slots.get(host.0 as usize)?;
        let hot = slot.hot.as_deref()?;
        let answers: u32 = hot.histogram.recent(now).iter().sum();
        let refusals = hot.histogram.recent_where(now, |status| matches!(status, 429 | 503 | 403 | 401));
        let status = hot.histogram.commonest(now, |status| matches!(status, 429 | 503 | 403 | 401));
        Some(Facts {
            queued: slot.lanes.queued(),
            hold: self.hold(host),
            pause: hot.operator.pause,
            overriding: hot.operator.overriding,
            adaptive_rate: hot.layer.adaptive.target(now).rate,
            rate: if self.halted { 0.0 } else { self.fair_rate(slot, hot.layer.bucket.target().rate) },
            last_ok: hot.last_ok,
            first_sent: hot.first_sent,
            free_since: Some(hot.free_since.max(self.resumed)),
            answers,
            refusals,
            refusal_status: status.unwrap_or(0),
            refusal_run: u32::from(hot.holding.refused_run()),
            last: hot.last_outcome,
            sharing: hot.suspicion.filter(|one| self.still_suspected(now, slot.group, one)).map(|one| one.sign),
            held_back: hot.held_back,
            beyond: self.beyond.get(&host).map_or(0, |(_, links)| *links),
            eta: self.eta_of(now, host),
            bulk: self.outlook.bulk,
            remind_after: self.settings.remind_after,
        })
    }

    /// A suspicion ends by itself, and when the two share a bucket.
    fn still_suspected(&self, now: Mono, group: super::GroupId, one: &Suspicion) -> bool {
        let other = self.slots.get(one.with.0 as usize).map(|slot| slot.group);
        now.since(one.at) < shared::LASTS && (group.some().is_none() || other != Some(group))
    }

    /// The rate of a host at `own`, as far as its group lets it: each member has its turn.
    fn fair_rate(&self, slot: &super::host::Slot, own: f64) -> f64 {
        let shared = self.groups.get(slot.group).and_then(|group| Some((group, group.hot.as_deref()?)));
        let share = shared.map(|(group, hot)| hot.layer.bucket.target().rate / group.members.len().max(1) as f64);
        share.map_or(own, |share| own.min(share))
    }

    fn check_patience(&mut self, now: Mono, host: HostId) {
        let patience = self.settings.give_up_after;
        let Some(hot) = &mut self.slots[host.0 as usize].hot else { return };
        let refusing = hot.holding.refusing_since().is_some_and(|since| now.since(since) >= patience);
        let silent = hot.holding.unreachable_since().is_some_and(|since| now.since(since) >= patience);
        if (refusing || silent) && !hot.given_up {
            hot.given_up = true;
            self.save_later(host);
            self.given_up.push((host, if refusing { REFUSING } else { SILENT }));
        }
    }

    /// Time until a host's queue is empty at its present pace.
    pub(super) fn eta_of(&self, now: Mono, host: HostId) -> Option<Duration> {
        let load = self.load(now, host)?;
        eta::of_host(load.queue, load.rate, load.hold_left)
    }

    fn load(&self, now: Mono, host: HostId) -> Option<Load> {
        let slot = self.slots.get(host.0 as usize)?;
        let policy = self.policy_of(host);
        let queue = slot.lanes.queued() + u64::from(slot.hot.as_ref().map_or(0, |hot| hot.in_flight));
        let rate = match &slot.hot {
            None => eta::pace(policy.original.rate, policy.connections, None),
            Some(hot) => {
                let rate = if slot.state == HostState::Paused { 0.0 } else { hot.layer.bucket.target().rate };
                eta::pace(rate, policy.connections, hot.latency.percentile(0.5))
            }
        };
        let hold_left = self.hold(host).map_or(Duration::ZERO, |hold| hold.until.since(now));
        // Members share their group's rate by what is queued for each: they end together.
        let shared = self.groups.get(slot.group).and_then(|group| Some((group, group.hot.as_deref()?)));
        let share =
            shared.map(|(group, hot)| hot.layer.bucket.target().rate * queue as f64 / group.queued.max(1) as f64);
        let rate = share.map_or(rate, |share| rate.min(share));
        Some(Load { host, queue, rate, hold_left })
    }

    fn look_out(&self, now: Mono) -> Outlook {
        let hosts = (0..self.slots.len()).map(|host| HostId(u32::try_from(host).unwrap_or(u32::MAX)));
        let mut urls = 0;
        let loads = hosts.filter_map(|host| self.load(now, host)).inspect(|load| urls += load.queue);
        let mut outlook = eta::outlook(loads);
        if let Some(rate) = self.settings.global_rate {
            // All hosts together are no faster than the global bucket.
            let all = eta::of_host(urls, rate, Duration::ZERO);
            let bulk = eta::of_host((urls as f64 * eta::BULK).ceil() as u64, rate, Duration::ZERO);
            outlook.bulk = outlook.bulk.zip(bulk).map(|(own, shared)| own.max(shared));
            outlook.tail = outlook.tail.zip(all).map(|(own, shared)| own.max(shared));
        }
        if self.halted { Outlook { stalled: outlook.stalled, ..Outlook::default() } } else { outlook }
    }
}
