//! Views of the controller for the outside: copies, never references.

use std::time::Duration;

use super::adaptive::RateController;
use super::group::Group;
use super::host::{CrawlDelay, Hot};
use super::{
    Controller, Decision, EndpointView, Hold, HostCounts, HostId, HostState, HostView, Limiting, Mono, Original, Trend,
};

/// How long an arrow stands beside a rate that moved.
const TREND_SHOWN: std::time::Duration = std::time::Duration::from_secs(60);

impl Controller {
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

    /// Counts over all hosts.
    pub fn counts(&self) -> HostCounts {
        self.counts
    }

    /// One host as of `now`; `None` if there is no such host.
    pub fn view(&self, now: Mono, host: HostId) -> Option<HostView> {
        let slot = self.slots.get(host.0 as usize)?;
        let policy = self.policy_of(host);
        let standing = self.whole_standing(now, host, slot.standing(now, policy));
        let group = self.group_view(now, host);
        let queued = slot.lanes.queued();
        let hot = slot.hot.as_deref();
        let delay = hot.and_then(|hot| hot.crawl_delay.as_deref().copied());
        let original = limited(policy.original, delay);
        let mut effective = hot.map_or(original, |hot| hot.effective(now, policy, &self.settings));
        let mut adaptive = hot.map_or(original, |hot| limited(hot.adaptive(now, &self.settings), delay));
        let mut tokens = hot.map_or(original.capacity, |hot| hot.layer.bucket.tokens(now));
        // Alone in its group a host shares with nobody, but what was learned stands there.
        let shared = self.groups.get(slot.group).and_then(|group| group.hot.as_deref());
        if let Some(shared) = shared {
            let learned = shared.adaptive(now, &self.settings);
            adaptive =
                Original { rate: adaptive.rate.min(learned.rate), capacity: adaptive.capacity.min(learned.capacity) };
            let bound = shared.layer.bucket.target();
            if bound.rate < effective.rate {
                // What the group's bucket does not hold cannot be spent, whatever the own one does.
                effective = bound;
                tokens = tokens.min(shared.layer.bucket.tokens(now));
            }
        }
        let own = hot.and_then(|hot| hot.paced(now, policy, &self.settings));
        let paced = shared.and_then(|shared| shared.paced(now, &self.settings));
        // A group is bound by the lower of the two, a lane by its own.
        let paced = paced.filter(|paced| paced.rate <= effective.rate).or(own);
        let lane = standing.lane.unwrap_or_default();
        let named = hot.and_then(|hot| hot.paces.as_ref()?.limiting(now, lane));
        let paced = if standing.limiting == Limiting::ServerPace { named.or(paced) } else { paced };
        let limiting = match self.limiting(&standing, now) {
            Limiting::NoTokens if paced.is_some() && standing.limiting_lane == 0 => Limiting::ServerPace,
            Limiting::GroupTokens if paced.is_some() => Limiting::ServerPace,
            limiting => limiting,
        };
        let hold = self.hold(host);
        let recent = hot.map(|hot| hot.histogram.recent(now)).unwrap_or_default();
        let latency = hot.and_then(|hot| hot.latency.median_and_p95());
        Some(HostView {
            id: host,
            as_of: now,
            state: slot.state_of(&standing, now, self.groups.get(slot.group)),
            limiting,
            limiting_lane: standing.limiting_lane,
            tokens,
            effective,
            original,
            adaptive,
            overriding: hot.and_then(|hot| hot.operator.overriding),
            pause: hot.and_then(|hot| hot.operator.pause),
            trend: hot
                .and_then(|hot| hot.moved)
                .filter(|(at, _)| now.since(*at) < TREND_SHOWN)
                .map_or(Trend::Level, |(_, trend)| trend),
            hold: hold.filter(|hold| hold.until > now),
            crawl_delay: delay.map(|one| (one.asked, one.obeyed < one.asked)),
            paced,
            in_flight: hot.map_or(0, |hot| hot.in_flight),
            connections: policy.connections,
            queued,
            requests: hot.map_or(0, |hot| hot.sent),
            recent,
            total: hot.map(|hot| hot.histogram.total()).unwrap_or_default(),
            angry_recent: hot.map_or(0, |hot| hot.refusals.within(now)),
            codes: hot.map(|hot| hot.histogram.codes(now)).unwrap_or_default(),
            last_ok: hot.and_then(|hot| hot.last_ok),
            latency,
            latency_p99: hot.and_then(|hot| hot.latency.percentile(0.99)),
            concern: hot.and_then(|hot| hot.concern.as_deref().copied()),
            eta: self.eta_of(now, host),
            cold: hot.is_some_and(|hot| hot.is_cold(&self.settings)),
            why: match shared {
                Some(shared) => shared.layer.adaptive.why(now),
                None => hot.and_then(|hot| hot.layer.adaptive.why(now)),
            },
            group,
        })
    }

    /// The one stated cause, the crawl's own limits included.
    fn limiting(&self, standing: &super::host::Standing, now: Mono) -> Limiting {
        let sends = standing.lane.is_some() && standing.at <= now;
        match standing.limiting {
            Limiting::Held if standing.at > now && !(self.halted && standing.at == Mono::NEVER) => Limiting::Held,
            Limiting::Paused | Limiting::RequestLimit => standing.limiting,
            _ if self.halted => Limiting::Halted,
            _ if sends && self.in_flight >= self.settings.concurrency => Limiting::Connections,
            _ if sends && self.is_globally_limited(now) => Limiting::GlobalRate,
            Limiting::NothingQueued if sends => Limiting::NoTokens,
            limiting => limiting,
        }
    }

    /// State word of a host as last planned.
    pub fn state(&self, host: HostId) -> Option<HostState> {
        self.slots.get(host.0 as usize).map(|slot| slot.state)
    }

    /// The hold of a host, also one that has run out and waits for its probe.
    pub fn hold(&self, host: HostId) -> Option<Hold> {
        let slot = self.slots.get(host.0 as usize)?;
        let shared = self.groups.get(slot.group).and_then(Group::hold);
        slot.hot.as_deref().and_then(Hot::hold).into_iter().chain(shared).max_by_key(|hold| hold.until)
    }

    /// What the controller of a host's own bucket has learned, or that of its group; cold start left aside.
    pub fn learned(&self, now: Mono, host: HostId) -> Option<Original> {
        let slot = self.slots.get(host.0 as usize)?;
        if let Some(shared) = self.groups.get(slot.group).and_then(|group| group.hot.as_deref()) {
            return Some(shared.layer.adaptive.target(now));
        }
        match &slot.hot {
            Some(hot) => Some(hot.layer.adaptive.target(now)),
            None => Some(self.policy_of(host).original),
        }
    }

    /// The endpoints of a host, lane 1 first; none before the host is asked something.
    pub fn endpoints(&self, now: Mono, host: HostId) -> Vec<EndpointView> {
        let Some(slot) = self.slots.get(host.0 as usize) else { return Vec::new() };
        let layers = slot.hot.as_deref().map(|hot| hot.endpoints.iter()).unwrap_or_default();
        let queues = slot.lanes.as_slice().iter().skip(1);
        layers
            .zip(queues)
            .map(|(layer, queue)| EndpointView {
                as_of: now,
                tokens: layer.bucket.tokens(now),
                original: layer.original,
                adaptive: layer.bucket.target(),
                queued: u64::from(queue.ready) + u64::from(queue.delayed),
            })
            .collect()
    }

    /// What the controller of an endpoint has learned (1 = first endpoint).
    pub fn endpoint_learned(&self, now: Mono, host: HostId, lane: super::Lane) -> Option<Original> {
        let hot = self.slots.get(host.0 as usize)?.hot.as_deref()?;
        let layer = usize::from(lane.0).checked_sub(1).and_then(|one| hot.endpoints.get(one))?;
        Some(layer.adaptive.target(now))
    }
}

/// The original under the site's Crawl-delay.
fn limited(original: Original, delay: Option<CrawlDelay>) -> Original {
    match delay {
        Some(delay) => Original {
            rate: original.rate.min(1.0 / delay.obeyed.as_secs_f64().max(1e-9)),
            capacity: original.capacity.min(1.0),
        },
        None => original,
    }
}

#[cfg(test)]
mod tests {
    use crate::control::backoff::SeededJitter;
    use crate::control::host::LaneQueue;
    use crate::control::{
        Answer, Command, Controller, Lane, Mono, Original, Policy, PolicyId, RequestKind, Settings, Value, Verdict,
        What,
    };

    fn world() -> Controller {
        let policy = Policy { original: Original { rate: 9.0, capacity: 9.0 }, connections: 20, ..Policy::default() };
        let settings = Settings { policies: vec![policy], cold_start: false, ..Settings::default() };
        Controller::new(settings, Box::new(SeededJitter::new(3)))
    }

    #[test]
    fn a_member_s_level_is_no_more_than_its_group_s_bucket_holds() {
        let mut controller = world();
        let hosts = [controller.add_host(PolicyId(0)), controller.add_host(PolicyId(0))];
        let at = Mono::from_secs_f64;
        for host in hosts {
            controller.set_queue(Mono::ZERO, host, Lane(0), LaneQueue { ready: 1, ..LaneQueue::EMPTY });
        }
        controller.join(at(1.0), hosts[0], "one");
        controller.join(at(1.0), hosts[1], "one");
        // The group is refused once: what it may have at once is little then.
        let grant = controller.next(at(2.0)).expect("a token");
        let answer = Answer {
            host: grant.host,
            lane: grant.lane,
            kind: RequestKind::Page,
            sent: grant.at,
            verdict: Verdict::Status(429),
            retry_after: None,
            latency: std::time::Duration::from_millis(50),
            unprocessed: false,
        };
        controller.answer(at(2.1), &answer);
        for host in hosts {
            let view = controller.view(at(9.0), host).expect("a host");
            assert!(view.effective.capacity < 9.0, "{view:?}");
            assert!(view.tokens <= view.effective.capacity, "{} of {}", view.tokens, view.effective.capacity);
        }
    }

    #[test]
    fn a_budget_is_journaled_with_the_value_in_force_before() {
        let mut controller = world();
        let host = controller.add_host(PolicyId(0));
        let told = |controller: &mut Controller| {
            let decisions = controller.take_decisions();
            let one = decisions.iter().rfind(|one| matches!(one.what, What::Budget | What::Undo | What::Redo));
            let one = one.expect("told");
            match (&one.before, &one.after) {
                (Value::Settings(before), Value::Settings(after)) => (before.budget, after.budget),
                other => panic!("{other:?}"),
            }
        };
        controller.command(Mono::ZERO, Command::Budget(3), &[host], "");
        assert_eq!(told(&mut controller), (Some(8), Some(3)));
        controller.command(Mono::ZERO, Command::Undo, &[], "");
        assert_eq!(told(&mut controller), (Some(3), Some(8)));
        assert_eq!(controller.operator_of(host).budget, None, "as configured");
        controller.command(Mono::ZERO, Command::Redo, &[], "");
        assert_eq!(told(&mut controller), (Some(8), Some(3)));
        controller.command(Mono::ZERO, Command::Pause(crate::control::Lifetime::Default), &[host], "");
        assert_eq!(controller.operator_of(host).budget, Some(3));
    }
}
