//! Grants become requests: the frontier's next job, its robots.txt first, then a worker.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::time::Duration;

use url::Url;

use super::{Engine, SPENT};
use crate::control::{Grant, HostId, Lane, Mono, RequestKind, Value, What, Who};
use crate::crawl::address::Authority;
use crate::crawl::exchange::{FetchRequest, Listener};
use crate::crawl::frontier::{Doom, Folded};
use crate::crawl::job::Job;
use crate::crawl::robots::Decision;
use crate::store::Fate;
use crate::text::Clean;

/// URLs that robots.txt forbids and one grant passes over, before other hosts get their turn.
const DENIED_PER_GRANT: usize = 1_000;
/// Behind a bucket that http and https share, a URL whose robots.txt is on its way is looked at again after this:
/// the other scheme goes on meanwhile.
const MIXED_ASKS_AGAIN: Duration = Duration::from_secs(1);
/// Grants in one turn, before messages are looked at again.
const GRANTS_PER_TURN: usize = 512;

/// A request in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) grant: Grant,
    pub(super) job: Job,
    pub(super) url: Url,
    /// From when the URL was due to the grant, milliseconds.
    pub(super) wait_ms: f64,
    /// The wait that its head asked for is in force: the end of its body brings none.
    pub(super) asked: bool,
    /// Who makes it.
    pub(super) worker: usize,
}

/// Requests in flight by ticket; at most `concurrency`.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    flights: HashMap<u64, Flight, BuildHasherDefault<Folded>>,
    issued: u64,
}

impl InFlight {
    /// A number that no other flight has.
    fn ticket(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    fn put(&mut self, ticket: u64, flight: Flight) {
        self.flights.insert(ticket, flight);
    }

    pub(super) fn get_mut(&mut self, ticket: u64) -> Option<&mut Flight> {
        self.flights.get_mut(&ticket)
    }

    /// Takes a flight that ended.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Flight> {
        self.flights.remove(&ticket)
    }

    /// The lanes are others now.
    pub(super) fn relay(&mut self, lane: impl Fn(HostId, &Url) -> Lane) {
        for flight in self.flights.values_mut().filter(|flight| flight.job.kind() != RequestKind::Robots) {
            flight.grant.lane = lane(flight.grant.host, &flight.url);
        }
    }

    /// Requests that stand for a URL of the crawl (robots.txt does not).
    pub(super) fn pages(&self) -> u64 {
        self.flights.values().filter(|flight| flight.job.kind() != RequestKind::Robots).count() as u64
    }

    /// Takes all.
    pub(super) fn drain(&mut self) -> Vec<Flight> {
        self.flights.drain().map(|(_, flight)| flight).collect()
    }
}

impl Engine {
    /// Grants everything that may go now.
    pub(super) fn grant(&mut self, now: Mono) {
        for _ in 0..GRANTS_PER_TURN {
            if !self.may_grant(now) {
                return;
            }
            let Some(grant) = self.controller.next(now) else { return };
            self.use_grant(now, grant);
        }
    }

    fn use_grant(&mut self, now: Mono, grant: Grant) {
        let Grant { host, lane, .. } = grant;
        if self.is_to_be_placed(host) {
            // Nothing goes out before it is known whose bucket it takes its tokens from.
            self.controller.cancel(now, &grant);
            self.place_by_address(now, host);
            return;
        }
        // Others wait for it, and it may be what the host's own pages wait for.
        if let Some(job) = self.frontier.pop_robots(host)
            && let Ok(url) = Url::parse(&job.url)
        {
            self.send(now, grant, job, url);
            self.sync(host, Lane(0));
            return;
        }
        for _ in 0..DENIED_PER_GRANT {
            let Some(job) = self.frontier.pop(now, host, lane) else { break };
            let Ok(url) = self.parser.parse(&job.url) else {
                self.fail(Some(host), &job, "the URL cannot be read");
                continue;
            };
            if job.kind() != RequestKind::Robots {
                if !self.exclusions.is_empty() && self.drop_excluded(host, &job, &url) {
                    continue;
                }
                let own = if self.relayed { self.hosts.lane(host, &url, &self.config) } else { lane };
                if own != lane {
                    self.frontier.push(host, own, job);
                    self.sync(host, own);
                    continue;
                }
            }
            if job.kind() == RequestKind::Robots || !self.config.crawl.respect_robots {
                self.send(now, grant, job, url);
                return;
            }
            match self.robots.decide(now, &url) {
                Decision::Allow => {
                    self.send(now, grant, job, url);
                    return;
                }
                Decision::Deny { line, rule } => {
                    let why = format!("robots_denied: robots.txt line {line}: {rule}");
                    self.skip(job.id, Some(host), job.root(), &why);
                    self.recently.deny(host);
                }
                Decision::Fetch(robots_url) => {
                    self.frontier.push_front(host, lane, job);
                    let job = Job::robots(&robots_url, Authority::of(&url), 0, now);
                    self.send(now, grant, job, robots_url);
                    return;
                }
                Decision::Pending if self.hosts.is_mixed(host) => {
                    let due = now.after(MIXED_ASKS_AGAIN);
                    self.frontier.push_delayed(host, lane, Job { due, ..job });
                }
                Decision::Pending => {
                    self.frontier.push_front(host, lane, job);
                    self.robots_gate.insert(Authority::of(&url), host);
                    self.gate(now, host);
                    break;
                }
                Decision::Unreachable { until } if self.hosts.is_mixed(host) => {
                    self.frontier.push_delayed(host, lane, Job { due: until, ..job });
                }
                Decision::Unreachable { until } => {
                    self.frontier.push_front(host, lane, job);
                    self.controller.robots_unreachable(now, host, until, Authority::of(&url).as_str());
                    break;
                }
                Decision::Refused { why } => {
                    self.skip(job.id, Some(host), job.root(), &format!("address_refused: {why}"));
                }
            }
        }
        // Nothing goes out for this grant: its tokens return.
        self.controller.cancel(now, &grant);
        self.sync(host, lane);
    }

    fn send(&mut self, now: Mono, grant: Grant, job: Job, url: Url) {
        let kind = job.kind();
        if let (RequestKind::Robots, Some(authority)) =
            (kind, job.more.as_ref().and_then(|more| more.authority.clone()))
        {
            // Nothing else goes to the host whose rules these are, until they are known.
            if let Some(owner) = authority.robots_url().and_then(|url| self.host_of(&url)) {
                self.robots_gate.insert(authority, owner);
                if !self.hosts.is_mixed(owner) {
                    self.gate(now, owner);
                }
            }
        }
        let wait_ms = now.secs_since(job.due) * 1e3;
        let links = self.wants_links(&job).then(|| self.links.clone());
        let ticket = self.in_flight.ticket();
        let listener = Some(Listener { to: self.desk.clone(), ticket });
        let request = FetchRequest { url: url.clone(), kind, links, listener };
        let worker = self.crew.send(ticket, request);
        self.in_flight.put(ticket, Flight { grant, job, url, wait_ms, asked: false, worker });
        self.sent += 1;
        self.throughput.sent(now);
        let spent = self.count_request(grant.host);
        self.sync(grant.host, grant.lane);
        if spent {
            self.skip_all(grant.host, SPENT);
        }
    }

    /// Nothing goes to a host while its robots.txt is on its way, but requests for robots.txt itself: two
    /// that lead to each other would wait for each other for ever.
    pub(super) fn gate(&mut self, now: Mono, host: HostId) {
        let gated = !self.frontier.has_robots(host);
        self.controller.set_gated(now, host, gated);
    }

    /// Counts a wire request; true when it was the last that the host's `max_requests` allows.
    fn count_request(&mut self, host: HostId) -> bool {
        let limit = self.controller.max_requests(host);
        let Some(host) = self.hosts.get_mut(host) else { return false };
        host.requests += 1;
        limit > 0 && host.requests == limit
    }

    /// Everything queued for a host is skipped.
    pub(super) fn skip_all(&mut self, host: HostId, why: &str) {
        for job in self.frontier.doom(host, Doom::Skipped(why.to_owned())) {
            self.skip(job.id, Some(host), job.root(), why);
        }
        self.release_robots(host, why);
        self.sync_all(host);
    }

    /// Nothing goes to `host` any more: whose robots.txt leads there cannot be crawled either.
    pub(super) fn release_robots(&mut self, host: HostId, why: &str) {
        while let Some(job) = self.frontier.pop_robots(host) {
            let Some(authority) = job.more.and_then(|more| more.authority) else { continue };
            let owner = self.robots_gate.get(&authority).copied().unwrap_or(host);
            let why = format!("its robots.txt leads to {}: {why}", self.hosts.name(host));
            self.robots_out_of_reach(authority, owner, &why);
        }
    }

    /// Tells the controller about all lanes of a host.
    pub(super) fn sync_all(&mut self, host: HostId) {
        for lane in 0..self.frontier.lanes(host) {
            self.sync(host, Lane(u8::try_from(lane).unwrap_or(u8::MAX)));
        }
    }

    /// Puts what is in flight back at the head of its lane; each was a wire request all the same.
    pub(super) fn requeue_in_flight(&mut self, now: Mono) {
        for flight in self.in_flight.drain() {
            self.row(&flight, crate::control::Outcome::Local, None, 0, now);
            if flight.job.kind() != RequestKind::Robots {
                self.frontier.push_front(flight.grant.host, flight.grant.lane, flight.job);
            }
        }
    }

    /// A URL is given up.
    pub(super) fn fail(&mut self, host: Option<HostId>, job: &Job, why: &str) {
        self.counts.failed += 1;
        let root = job.root().to_owned();
        let why = if *root == *job.url { why.to_owned() } else { format!("{why} (at {})", Clean::new(&*job.url)) };
        self.frontier.end(job.id, Fate::Failed, &why);
        self.event(Who::System, host, What::UrlFailed, Value::None, Value::None, &why, Some(&root));
    }
}
