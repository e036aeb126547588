//! A request ended: what the controller makes of it, the row for the journal, and what becomes of the URL.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use super::discover::Hop;
use super::dispatch::Flight;
use super::gather::End;
use super::{Engine, LOCAL_REST, LOCAL_TOLD, Looks, SPENT};
use crate::control::backoff::{self, NoJitter};
use crate::control::{
    Answer, Class, HostId, Lane, Mono, Origin, Outcome, REFUSING, RequestKind, Value, Verdict, What, Who,
};
use crate::crawl::address::{Authority, fingerprint};
use crate::crawl::exchange::Reply;
use crate::crawl::frontier::Doom;
use crate::crawl::job::{Job, UNPROCESSED_MAX};
use crate::crawl::scope::domain_of;
use crate::crawl::worker::{Asked, Finished};
use crate::journal::record::RequestRow;
use crate::journal::timeline::bins::Code;
use crate::store::Fate;
use crate::text::Clean;
use crate::watch::Recent;

/// What becomes of a URL after a request.
enum Next {
    /// It has its final answer.
    Done,
    /// It is given up.
    Failed(String),
    /// It was never sent.
    Skipped(String),
    /// It goes again at once, at the head of its lane, at no cost.
    Again,
    /// The same, since nobody worked on it: so often and no more.
    Unprocessed,
    /// It goes again at the end of its lane; this attempt counts.
    AgainLater,
    /// It waits for its own retry; this attempt counts.
    Retry,
    /// Its next hop goes instead.
    Hop(Box<Job>, url::Url),
}

impl Engine {
    /// Counts an answer for the timeline, by when it was asked for.
    fn count_over_time(&mut self, flight: &Flight, status: Option<u16>, outcome: Outcome, latency: Duration) {
        if self.looks != Looks::Closely {
            return;
        }
        let (sent, code) = (self.wall_at(flight.grant.at), Code::of(status, Some(outcome)));
        self.timeline.request(sent, code, flight.grant.host.0, latency.as_secs_f64() * 1e3);
    }

    /// A head asks for a wait, and its body is still to come: the host waits from now on.
    pub(super) fn asked(&mut self, now: Mono, asked: Asked) {
        let Some(flight) = self.in_flight.get_mut(asked.ticket) else { return };
        flight.asked = true;
        self.controller.asked(now, flight.grant.host, flight.grant.at, asked.status, asked.wait);
    }

    pub(super) fn finish(&mut self, now: Mono, finished: Finished) {
        let Finished { ticket, mut reply, done, panicked } = finished;
        let Some(flight) = self.in_flight.take(ticket) else { return };
        self.crew.is_back(flight.worker);
        if flight.asked {
            reply.retry_after = None;
        }
        if !reply.on_wire {
            self.finish_unsent(now, flight, reply);
            return;
        }
        let hop = self.plan_hop(now, &flight, &mut reply);
        let latency = done.since(flight.grant.at);
        let mixed = self.hosts.is_mixed(flight.grant.host);
        let answer = Answer {
            host: flight.grant.host,
            lane: flight.grant.lane,
            kind: flight.job.kind(),
            sent: flight.grant.at,
            verdict: reply.verdict,
            retry_after: reply.retry_after,
            latency,
            unprocessed: reply.unprocessed || (mixed && is_of_its_scheme(flight.job.kind(), reply.verdict)),
        };
        if let Some(peer) = reply.peer {
            self.follow_address(now, answer.host, peer.ip());
        }
        if matches!(reply.status, Some(429 | 503 | 403)) {
            self.controller.origin(answer.host, origin_of(&flight.url, &reply));
        }
        if let Some(hint) = &reply.hint {
            self.controller.hint(now, answer.host, answer.lane, hint, matches!(reply.status, Some(429 | 503 | 403)));
        }
        let judgement = self.controller.answer(now, &answer);
        let outcome = judgement.outcome;
        self.throughput.answered(now, class_of(&reply, outcome) as usize);
        self.count_over_time(&flight, reply.status, outcome, latency);
        self.row(&flight, outcome, reply.status, reply.received, done);
        self.tell_oddities(&flight, &reply, panicked);
        if outcome == Outcome::Local && !panicked {
            self.rest(now, &reply);
        }
        if flight.job.kind() == RequestKind::Robots {
            self.finish_robots(now, flight, reply);
        } else {
            let next = self.next_of(&flight, &reply, outcome, panicked, hop);
            let found = reply.found.take();
            match (found.filter(|found| !found.is_empty()), next) {
                (Some(found), Next::Done) => self.gather(flight, *found, End::Done),
                (Some(found), Next::Failed(why)) => self.gather(flight, *found, End::Failed(why)),
                (_, next) => self.follow_up(now, flight, next),
            }
        }
        if judgement.give_up {
            self.give_up(answer.host, REFUSING);
        }
    }

    /// Nothing went out: the token returns, and no row is written.
    fn finish_unsent(&mut self, now: Mono, flight: Flight, reply: Reply) {
        self.controller.cancel(now, &flight.grant);
        self.sent = self.sent.saturating_sub(1);
        if let Some(host) = self.hosts.get_mut(flight.grant.host) {
            host.requests = host.requests.saturating_sub(1);
        }
        let why = reply.error.clone().unwrap_or_else(|| Clean::new("refused"));
        if reply.verdict == Verdict::Failed(Outcome::Local) {
            self.rest(now, &reply);
        }
        if flight.job.kind() == RequestKind::Robots {
            self.finish_robots(now, flight, reply);
            return;
        }
        let next = match reply.verdict {
            Verdict::Failed(Outcome::AddressRefused) => Next::Skipped(format!("address_refused: {why}")),
            _ => Next::Again,
        };
        self.follow_up(now, flight, next);
    }

    /// The same after a stop: what had come in by then counts as what it was, what was never sent goes back.
    pub(super) fn finish_late(&mut self, now: Mono, finished: Finished) {
        if finished.reply.on_wire {
            self.finish(now, finished);
        } else if let Some(flight) = self.in_flight.take(finished.ticket) {
            self.controller.cancel(now, &flight.grant);
            self.sent = self.sent.saturating_sub(1);
            if flight.job.kind() != RequestKind::Robots {
                self.frontier.push_front(flight.grant.host, flight.grant.lane, flight.job);
            }
        }
    }

    /// Our own trouble is never the host's fault: everybody rests for a moment, and it is said.
    fn rest(&mut self, now: Mono, reply: &Reply) {
        let lasts = self.resting_because(now).is_some();
        self.local_rest = now.after(LOCAL_REST);
        let why = reply.error.clone().unwrap_or_else(|| Clean::new("local trouble"));
        if !lasts {
            tracing::warn!(%why, "local trouble: granting rests");
            let told = format!("granting rests: {why}");
            self.event(Who::System, None, What::System, Value::None, Value::None, &told, None);
        }
        self.rests_because = Some(why);
    }

    /// Our own trouble, until none has come for a while: a rest is over soon, and what caused it may not be.
    pub(super) fn resting_because(&self, now: Mono) -> Option<Clean> {
        self.rests_because.clone().filter(|_| now < self.local_rest.after(LOCAL_TOLD))
    }

    /// Takes a redirect up, or turns the verdict into `redirect_not_followed`.
    fn plan_hop(&mut self, now: Mono, flight: &Flight, reply: &mut Reply) -> Option<(Box<Job>, url::Url)> {
        let Verdict::Status(status) = reply.verdict else { return None };
        if !(300..400).contains(&status) || flight.job.kind() == RequestKind::Robots {
            return None;
        }
        let Some(Ok(target)) = reply.location.clone() else { return None };
        let (from, to) = (fingerprint(&flight.url), fingerprint(&target));
        match flight.job.hop(from, &target, to, reply.cookie_changed, now) {
            Ok(job) => Some((Box::new(job), target)),
            Err(error) => {
                reply.verdict = Verdict::Failed(Outcome::RedirectNotFollowed);
                reply.error = Some(Clean::new(error.to_string()));
                None
            }
        }
    }

    fn next_of(
        &self,
        flight: &Flight,
        reply: &Reply,
        outcome: Outcome,
        panicked: bool,
        hop: Option<(Box<Job>, url::Url)>,
    ) -> Next {
        let because = || {
            let error = reply.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let status = reply.status.map(|status| format!(" ({status})")).unwrap_or_default();
            format!("{}{status}{error}", outcome.as_str())
        };
        if reply.unprocessed && flight.job.unprocessed < UNPROCESSED_MAX {
            return Next::Unprocessed;
        }
        match outcome {
            Outcome::Ok | Outcome::NotModified => Next::Done,
            Outcome::Redirect => match hop {
                Some((job, target)) => Next::Hop(job, target),
                None => Next::Done,
            },
            // 408 and 425 are temporary by their definitions (RFC 9110 15.5.9, RFC 8470 5.2).
            Outcome::ClientError if matches!(reply.status, Some(408 | 425)) => self.attempt(flight, because),
            Outcome::ClientError => Next::Done,
            Outcome::Throttled => Next::Again,
            Outcome::Local if !panicked => Next::Again,
            Outcome::Refused => match self.attempt(flight, because) {
                Next::Retry => Next::AgainLater,
                other => other,
            },
            Outcome::ServerError
            | Outcome::Timeout
            | Outcome::Connect
            | Outcome::Dns
            | Outcome::ConnectionReset
            | Outcome::Incomplete
            | Outcome::Decode
            | Outcome::Local => self.attempt(flight, because),
            Outcome::Tls | Outcome::TooLarge | Outcome::LimitExceeded | Outcome::RedirectNotFollowed => {
                Next::Failed(because())
            }
            Outcome::AddressRefused | Outcome::RobotsDenied => Next::Skipped(because()),
        }
    }

    /// One more failed attempt: another try, or the end.
    fn attempt(&self, flight: &Flight, because: impl Fn() -> String) -> Next {
        let attempts = u32::from(flight.job.failures) + 1;
        if attempts >= self.config.crawl.retries.max(1) {
            Next::Failed(format!("{} in attempt {attempts}", because()))
        } else {
            Next::Retry
        }
    }

    fn follow_up(&mut self, now: Mono, flight: Flight, next: Next) {
        let (host, lane) = (flight.grant.host, flight.grant.lane);
        let mut job = flight.job;
        // A host without budget would keep it for ever.
        let next = match next {
            Next::Again | Next::Unprocessed | Next::AgainLater | Next::Retry if self.is_spent(host) => {
                Next::Failed(format!("{SPENT} before it was answered for good"))
            }
            next => next,
        };
        match next {
            Next::Done => {
                self.counts.done += 1;
                self.frontier.end(job.id, Fate::Done, "");
            }
            Next::Failed(why) => self.fail(Some(host), &job, &why),
            Next::Skipped(why) => self.skip(job.id, Some(host), job.root(), &why),
            Next::Again => {
                job.due = now;
                self.frontier.push_front(host, lane, job);
            }
            Next::Unprocessed => {
                job.unprocessed = job.unprocessed.saturating_add(1);
                job.due = now;
                self.frontier.tried(host, &job);
                self.frontier.push_front(host, lane, job);
            }
            Next::AgainLater => {
                job.failures = job.failures.saturating_add(1);
                job.due = now;
                self.frontier.tried(host, &job);
                self.frontier.push(host, lane, job);
            }
            Next::Retry => {
                job.due = now.after(self.retry_delay(job.failures));
                job.failures = job.failures.saturating_add(1);
                self.frontier.tried(host, &job);
                self.frontier.push_delayed(host, lane, job);
            }
            Next::Hop(hop, target) => self.enqueue_hop(&flight.url, *hop, &target),
        }
        self.sync(host, lane);
    }

    /// The wait before a URL's own next attempt.
    fn retry_delay(&mut self, failures: u8) -> Duration {
        let policy = self.config.settings.backoff;
        backoff::delay(&policy, u32::from(failures), &mut NoJitter) + self.controller.spread()
    }

    /// A hop goes through its own host's bucket and robots.txt, at the head of the lane.
    fn enqueue_hop(&mut self, from: &url::Url, job: Job, target: &url::Url) {
        if let Some(pattern) = self.excluded_by(target) {
            let why = format!("it redirects to {}, excluded by {pattern}", Clean::new(target.as_str()));
            self.skip(job.id, self.hosts.find(target), job.root(), &why);
            return;
        }
        if let Hop::Enough = self.judge_hop(from, &job, target) {
            self.counts.done += 1;
            self.frontier.end(job.id, Fate::Done, "");
            return;
        }
        let Some(host) = self.host_of(target) else {
            self.fail(None, &job, "too many hosts");
            return;
        };
        if self.is_spent(host) {
            self.skip(job.id, Some(host), job.root(), SPENT);
            return;
        }
        self.hosts.note_scheme(host, target);
        let lane = self.hosts.lane(host, target, &self.config);
        self.frontier.tried(host, &job);
        self.frontier.push_front(host, lane, job);
        self.sync(host, lane);
    }

    /// robots.txt came, or did not.
    fn finish_robots(&mut self, now: Mono, flight: Flight, reply: Reply) {
        let Some(authority) = flight.job.more.as_ref().and_then(|more| more.authority.clone()) else { return };
        let owner = self.robots_gate.get(&authority).copied().unwrap_or(flight.grant.host);
        let random = self.controller.unit();
        let effect = self.robots.on_reply(now, &authority, &reply, random);
        if let Some(url) = effect.follow {
            self.follow_robots(now, &flight, authority, owner, &url);
            return;
        }
        for note in &effect.notes {
            let note = note.as_str().to_owned();
            self.event(Who::Site, Some(owner), What::Anomaly, Value::None, Value::None, &note, None);
        }
        if effect.known {
            self.controller.set_crawl_delay(now, owner, effect.crawl_delay);
            self.take_sitemaps(&authority, &effect.sitemaps);
        }
        if let Some(unreachable) = effect.unreachable.filter(|unreachable| unreachable.tries > 0) {
            let why = match (&reply.error, reply.status) {
                (Some(error), _) => error.as_str().to_owned(),
                (None, Some(status)) => status.to_string(),
                (None, None) => String::from("no answer"),
            };
            if self.hosts.is_mixed(owner) {
                // The other scheme goes on; what is queued under this one waits by itself.
                let why = format!("robots.txt of {authority} unreachable: {why}");
                self.event(Who::Site, Some(owner), What::Anomaly, Value::None, Value::None, &why, None);
            } else {
                self.controller.robots_unreachable(now, owner, unreachable.until, &why);
            }
            // An authority that never answered is given up after `retries` failures to reach it. One that answers
            // errors, or did answer once, is waited for (up to `give_up_after`).
            let dead = unreachable.silent && unreachable.tries >= self.config.crawl.retries.max(1);
            if dead || self.controller.is_given_up(owner) {
                let why = format!("robots.txt unreachable {} times: {why}", unreachable.tries);
                self.give_up_authority(owner, &authority, &why);
            }
        }
        self.robots_gate.remove(&authority);
        self.controller.set_gated(now, owner, false);
        self.sync(flight.grant.host, flight.grant.lane);
    }

    /// A redirect of robots.txt: the hop goes through the bucket of its own host.
    fn follow_robots(&mut self, now: Mono, flight: &Flight, authority: Authority, owner: HostId, url: &url::Url) {
        let hops = flight.job.more.as_ref().map_or(0, |more| more.hops).saturating_add(1);
        let Some(host) = self.host_of(url) else {
            self.robots_out_of_reach(authority, owner, "its robots.txt leads to a host too many");
            return;
        };
        if self.is_spent(host) {
            let why = format!("its robots.txt leads to {}: {SPENT}", self.hosts.name(host));
            self.robots_out_of_reach(authority, owner, &why);
            return;
        }
        self.frontier.push_robots(host, Job::robots(url, authority, hops, now));
        // The hop must be let through, also to a host that waits for its own rules: they may lead here.
        self.gate(now, host);
        self.sync(host, Lane(0));
    }

    /// The rules of `authority` will not be had: what is queued for its host is never sent.
    pub(super) fn robots_out_of_reach(&mut self, authority: Authority, owner: HostId, why: &str) {
        let now = self.now;
        let random = self.controller.unit();
        self.robots.on_reply(now, &authority, &Reply::failed(Outcome::Connect, why), random);
        self.robots_gate.remove(&authority);
        self.controller.set_gated(now, owner, false);
        self.skip_all(owner, why);
    }

    /// An authority is given up: the host, if it is its only one, else the URLs under its scheme.
    fn give_up_authority(&mut self, host: HostId, authority: &Authority, why: &str) {
        if !self.hosts.is_mixed(host) {
            self.give_up(host, why);
            return;
        }
        let doom = Doom::FailedAt(authority.clone(), format!("{authority} given up: {why}"));
        for job in self.frontier.doom(host, doom.clone()) {
            self.meet(host, job, &doom);
        }
        self.sync_all(host);
    }

    /// A URL of a queue that is given up.
    pub(super) fn meet(&mut self, host: HostId, job: Job, doom: &Doom) {
        match doom {
            Doom::Failed(why) => self.fail(Some(host), &job, why),
            Doom::Skipped(why) => self.skip(job.id, Some(host), job.root(), why),
            Doom::FailedAt(authority, why) => match url::Url::parse(&job.url) {
                Ok(url) if Authority::of(&url) != *authority => {
                    let lane = self.hosts.lane(host, &url, &self.config);
                    match job.due > self.now {
                        true => self.frontier.push_delayed(host, lane, job),
                        false => self.frontier.push(host, lane, job),
                    }
                }
                Ok(_) | Err(_) => self.fail(Some(host), &job, why),
            },
        }
    }

    /// A host is given up: every URL that is queued for it is listed as failed.
    pub(super) fn give_up(&mut self, host: HostId, why: &str) {
        let count = Value::Number(self.controller.queued(host) as f64);
        self.event(Who::Controller, Some(host), What::GiveUp, count, Value::Number(0.0), why, None);
        let why = format!("host given up: {why}");
        for job in self.frontier.doom(host, Doom::Failed(why.clone())) {
            self.fail(Some(host), &job, &why);
        }
        self.release_robots(host, "it was given up");
        self.sync_all(host);
    }

    fn tell_oddities(&mut self, flight: &Flight, reply: &Reply, panicked: bool) {
        let host = Some(flight.grant.host);
        if panicked {
            let why = reply.error.as_ref().map_or("", Clean::as_str).to_owned();
            tracing::error!(url = %Clean::new(flight.url.as_str()), %why, "worker panicked");
            self.event(Who::System, host, What::Anomaly, Value::None, Value::None, &why, Some(&flight.job.url));
        }
        for anomaly in &reply.anomalies {
            let text = anomaly.as_str().to_owned();
            self.event(Who::Server, host, What::Anomaly, Value::None, Value::None, &text, Some(&flight.job.url));
        }
    }

    /// The row of one wire request.
    pub(super) fn row(&mut self, flight: &Flight, outcome: Outcome, status: Option<u16>, bytes: u64, done: Mono) {
        let Flight { grant, job, url, wait_ms, .. } = flight;
        let row = RequestRow {
            time: self.wall_at(grant.at),
            host: self.hosts.name(grant.host),
            url: Clean::new(url.as_str()),
            kind: job.kind(),
            attempt: u32::from(job.failures) + 1,
            status,
            outcome,
            bytes,
            latency_ms: done.secs_since(grant.at) * 1e3,
            wait_ms: *wait_ms,
            rate: grant.rate,
            capacity: grant.capacity,
            tokens: grant.tokens,
        };
        if self.looks == Looks::Closely && self.watcher.is_some() {
            let path = Clean::new(&url[url::Position::BeforePath..url::Position::AfterQuery]);
            let latency = done.since(grant.at);
            self.recently.note(grant.host, Recent::Request { wall: row.time, path, status, outcome, latency });
        }
        self.journal.request(row);
    }
}

/// What connects a refusal with those of other hosts: domain, socket, and the bucket that the server names.
fn origin_of(url: &url::Url, reply: &Reply) -> Origin {
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish().max(1)
    };
    let domain = matches!(url.host(), Some(url::Host::Domain(_))).then(|| domain_of(url));
    Origin {
        domain: domain.map_or(0, |domain| hash(&|hasher| domain.hash(hasher))),
        peer: reply.peer.map_or(0, |peer| hash(&|hasher| peer.hash(hasher))),
        bucket: reply.hint.map_or(0, |hint| hint.bucket),
    }
}

/// Whether a failure behind a bucket that http and https share may be one scheme's alone: a certificate says
/// nothing about http, and a robots.txt that cannot be reached is waited for by its own URLs.
fn is_of_its_scheme(kind: RequestKind, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Failed(Outcome::Tls) => true,
        Verdict::Failed(Outcome::Connect | Outcome::Timeout | Outcome::ConnectionReset) => kind == RequestKind::Robots,
        Verdict::Failed(_) | Verdict::Status(_) => false,
    }
}

/// The class of a reply in the histogram.
fn class_of(reply: &Reply, outcome: Outcome) -> Class {
    match (reply.verdict, outcome) {
        (Verdict::Status(status), _) => Class::of_status(status),
        (Verdict::Failed(Outcome::RedirectNotFollowed), _) => Class::Redirect,
        (Verdict::Failed(_), _) => Class::Error,
    }
}
