//! Views of the controller for the outside: copies, never references.

use super::adaptive::RateController;
use super::host::{CrawlDelay, Hot};
use super::{Controller, EndpointView, Hold, HostCounts, HostId, HostState, HostView, Limiting, Mono, Original, Trend};

/// How long an arrow stands beside a rate that moved.
const TREND_SHOWN: std::time::Duration = std::time::Duration::from_secs(60);

impl Controller {
    /// Counts over all hosts.
    pub fn counts(&self) -> HostCounts {
        self.counts
    }

    /// One host as of `now`; `None` if there is no such host.
    pub fn view(&self, now: Mono, host: HostId) -> Option<HostView> {
        let slot = self.slots.get(host.0 as usize)?;
        let policy = self.policy_of(host);
        let standing = slot.standing(now, policy);
        let queued = slot.lanes.queued();
        let hot = slot.hot.as_deref();
        let original = limited(policy.original, hot.and_then(|hot| hot.crawl_delay));
        let effective = hot.map_or(original, |hot| hot.effective(now, policy, &self.settings));
        let adaptive = hot.map_or(original, |hot| limited(hot.adaptive(now, &self.settings), hot.crawl_delay));
        let hold = hot.and_then(Hot::hold);
        let recent = hot.map(|hot| hot.histogram.recent(now)).unwrap_or_default();
        let latency = hot.and_then(|hot| hot.latency.median_and_p95());
        Some(HostView {
            id: host,
            as_of: now,
            state: slot.state_of(&standing, now),
            limiting: self.limiting(&standing, now),
            limiting_lane: standing.limiting_lane,
            tokens: hot.map_or(original.capacity, |hot| hot.layer.bucket.tokens(now)),
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
            crawl_delay: hot.and_then(|hot| hot.crawl_delay).map(|one| (one.asked, one.obeyed < one.asked)),
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
            concern: hot.and_then(|hot| hot.concern),
            eta: self.eta_of(now, host),
            cold: hot.is_some_and(|hot| hot.is_cold(&self.settings)),
            why: hot.and_then(|hot| hot.layer.adaptive.why(now)),
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
        self.slots.get(host.0 as usize)?.hot.as_deref().and_then(Hot::hold)
    }

    /// What the controller of a host's own bucket has learned, cold start left aside.
    pub fn learned(&self, now: Mono, host: HostId) -> Option<Original> {
        let slot = self.slots.get(host.0 as usize)?;
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
