//! What a page or a sitemap led to enters the frontier: what is in scope, new, and has room.
//!
//! A link that is out of scope or excluded never becomes a URL of the crawl, so it is neither counted nor
//! journaled. While [`PENDING_MAX`](crate::crawl::frontier::PENDING_MAX) URLs stand in the frontier further links
//! are left out, not marked as known, and it is said: a page that is fetched later may bring them again.

use url::Url;

use super::Engine;
use crate::control::{HostId, Lane, RequestKind, Value, What, Who};
use crate::crawl::address::{Authority, fingerprint, parse_url};
use crate::crawl::frontier::Admission;
use crate::crawl::job::Job;
use crate::crawl::scope::NewHost;
use crate::crawl::traps::{Candidate, Suspicion, Verdict};
use crate::store::UrlId;
use crate::text::Clean;

/// Sitemap indexes inside of sitemap indexes.
pub(super) const NESTING_MAX: u32 = 3;
/// Lanes of hosts that one page leads to and that are told to the controller at once.
const LANES_MAX: usize = 256;

/// What a URL that was found would be.
#[derive(Clone, Copy)]
pub(super) enum As {
    /// A page, on one with this run and this pattern if the run is long, and of its kind or not.
    Page { depth: u32, run: u16, on: Option<u64>, alike: bool },
    /// A sitemap, so many indexes deep.
    Sitemap { depth: u32 },
}

/// What a redirect means where links are followed.
pub(super) enum Hop {
    /// It is followed for the URL's own answer.
    Follow,
    /// The redirect is the answer: its target is out of scope, or stands in the crawl by itself.
    Enough,
}

impl Engine {
    /// Whether links are to be gathered from the answer to a job.
    pub(super) fn wants_links(&self, job: &Job) -> bool {
        match job.kind() {
            RequestKind::Page | RequestKind::Redirect => {
                let depth = self.config.crawl.max_depth;
                self.scope.follows() && (depth == 0 || job.depth < depth)
            }
            RequestKind::Sitemap => true,
            RequestKind::Robots | RequestKind::Feed => false,
        }
    }

    /// The sitemaps that the robots.txt of `authority` names, as written there.
    pub(super) fn take_sitemaps(&mut self, authority: &Authority, written: &[Box<str>]) {
        let Some(robots_url) = authority.robots_url() else { return };
        if !self.config.crawl.sitemaps || !self.scope.takes(&robots_url) {
            return;
        }
        let absolute = |text: &str| {
            parse_url(text).or_else(|error| {
                // The format wants whole URLs, but some write paths.
                robots_url.join(text).map_err(|_| error).and_then(|url| parse_url(url.as_str()))
            })
        };
        let addresses = written.iter().filter_map(|text| absolute(text).ok());
        let mut touched = Vec::new();
        for address in addresses {
            let print = fingerprint(&address.url);
            if let Some(lane) = self.enter(&address.url, print, As::Sitemap { depth: 0 }, None) {
                self.touch(&mut touched, lane);
            }
        }
        for (host, lane) in touched {
            self.sync(host, lane);
        }
    }

    /// A URL that was found on a page of `on` enters the frontier, if it is new.
    pub(super) fn enter(
        &mut self,
        url: &Url,
        fingerprint: u128,
        found: As,
        on: Option<HostId>,
    ) -> Option<(HostId, Lane)> {
        if !self.frontier.has_room(self.traps.parked()) {
            self.crowded();
            return None;
        }
        self.crowded = false;
        // The configuration may have changed since the page was asked for.
        if self.frontier.is_known(fingerprint) || self.excluded_by(url).is_some() {
            return None;
        }
        let plain = |now| match found {
            As::Page { depth, .. } => Job { depth, ..Job::page(url, now) },
            As::Sitemap { depth } => Job::sitemap(url, depth, now),
        };
        let host = self.found_host(url, on);
        if host.is_none() && self.hosts.has_room() {
            // Its domain has too many hosts: it is left out, and takes no room at all.
            return None;
        }
        if self.frontier.admit(fingerprint) == Admission::Full {
            self.skip(UrlId::NONE, None, url.as_str(), "too many URLs are known");
            return None;
        }
        let Some(host) = host else {
            let id = self.frontier.enter(fingerprint, None, &plain(self.now));
            self.skip(id, None, url.as_str(), "too many hosts");
            return None;
        };
        if self.is_spent(host) {
            let id = self.frontier.enter(fingerprint, Some(host), &plain(self.now));
            self.skip(id, Some(host), url.as_str(), super::SPENT);
            return None;
        }
        let job = match found {
            As::Page { depth, run, on, alike } => {
                let run = self.enters_with(fingerprint, Candidate { url, host, run, on, alike }, depth)?;
                Job { depth, run, ..Job::page(url, self.now) }
            }
            As::Sitemap { depth } => Job::sitemap(url, depth, self.now),
        };
        self.hosts.note_scheme(host, url);
        let lane = self.hosts.lane(host, url, &self.config);
        let id = self.frontier.enter(fingerprint, Some(host), &job);
        self.frontier.push(host, lane, job.numbered(id));
        Some((host, lane))
    }

    /// The run of a URL; `None` if it looks like one of a trap: then it waits for the operator.
    fn enters_with(&mut self, fingerprint: u128, candidate: Candidate<'_>, depth: u32) -> Option<u16> {
        let Candidate { url, host, .. } = candidate;
        let (frontier, now) = (&mut self.frontier, self.now);
        let park = |trap| {
            let id = frontier.enter(fingerprint, Some(host), &Job { depth, ..Job::page(url, now) });
            frontier.hold(id, trap);
            id
        };
        let suspicion = match self.traps.judge(candidate, park) {
            Verdict::Enters(run) => return Some(run),
            Verdict::Held(suspicion) => suspicion,
        };
        if let Some(Suspicion { why, pattern }) = suspicion {
            let why = format!("TRAP? {why}: held back until you say `:allow {pattern}` or `:exclude {pattern}`");
            self.odd(host, url.as_str(), &why);
        }
        self.tell_held_back(host);
        None
    }

    /// Tells the controller how many URLs of a host are held back: more than none is a concern.
    pub(super) fn tell_held_back(&mut self, host: HostId) {
        self.controller.set_held_back(host, self.traps.held(host));
        if self.traps.beyond(host) == 0 {
            self.controller.clear_beyond(host);
        }
    }

    /// The host of a link, made known if its domain has room for one more.
    fn found_host(&mut self, url: &Url, on: Option<HostId>) -> Option<HostId> {
        if let Some(host) = self.hosts.find(url) {
            return Some(host);
        }
        // Domains are counted as long as their hosts can be known: that bounds them.
        if self.hosts.has_room()
            && let NewHost::TooMany { domain, refused, on } = self.scope.meet(url, on)
        {
            if self.traps.is_allowed(&domain) {
                self.scope.forgive(|known| known == &*domain);
                return self.host_of(url);
            }
            if let Some(on) = on {
                let links = self.traps.lead_too_far(on);
                self.controller.set_beyond(on, &domain, links);
            }
            if refused == 1 {
                let most = crate::crawl::scope::HOSTS_PER_DOMAIN;
                let why = format!(
                    "TRAP? links lead to more than {most} hosts of {domain}: further ones are left out until you say \
                     `:allow {domain}`"
                );
                self.event(Who::System, None, What::Anomaly, Value::None, Value::None, &why, Some(url.as_str()));
            }
            return None;
        }
        self.host_of(url)
    }

    /// What a redirect means: one of the inputs is followed wherever it leads, a link as far as a link to its
    /// target would be, and to a page that the crawl knows by itself not at all.
    pub(super) fn judge_hop(&mut self, from: &Url, hop: &Job, target: &Url) -> Hop {
        if !self.scope.follows() || hop.kind() != RequestKind::Redirect {
            return Hop::Follow;
        }
        let fingerprint = fingerprint(target);
        if hop.depth == 0 {
            // Whoever links to the target finds that it was fetched.
            self.frontier.admit_target(fingerprint);
            if self.scope.give_target(from, target) {
                self.keep_given(target);
            }
            return Hop::Follow;
        }
        if !self.scope.takes(target) {
            return Hop::Enough;
        }
        // Back to where it was, with a cookie perhaps: the chain's own affair.
        let goes_on = hop.has_seen(fingerprint) || self.frontier.admit_target(fingerprint) == Admission::New;
        // A host that only redirects lead to is one that links lead to.
        if goes_on && self.found_host(target, self.hosts.find(from)).is_some() { Hop::Follow } else { Hop::Enough }
    }

    /// There is no room for what is found: said once as long as it lasts.
    fn crowded(&mut self) {
        if std::mem::replace(&mut self.crowded, true) {
            return;
        }
        let most = crate::crawl::frontier::PENDING_MAX;
        let why = format!("{most} URLs are queued: links that are found now are left out until there is room");
        tracing::warn!(%why, "links");
        self.event(Who::System, None, What::System, Value::None, Value::None, &why, None);
    }

    pub(super) fn odd(&mut self, host: HostId, url: &str, why: &str) {
        let url = Clean::new(url);
        self.event(Who::System, Some(host), What::Anomaly, Value::None, Value::None, why, Some(url.as_str()));
    }

    /// Notes a lane whose queue grew.
    pub(super) fn touch(&mut self, touched: &mut Vec<(HostId, Lane)>, lane: (HostId, Lane)) {
        if touched.last() == Some(&lane) || touched.contains(&lane) {
            return;
        }
        if touched.len() >= LANES_MAX {
            self.sync(lane.0, lane.1);
            return;
        }
        touched.push(lane);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Config;
    use crate::crawl::engine::{EngineParts, Looks};
    use crate::crawl::exchange::{Fetch, FetchRequest, ReplyFuture};
    use crate::crawl::input;
    use crate::crawl::scope::HOSTS_PER_DOMAIN;
    use crate::journal::Journal;
    use crate::store::Store;

    /// A fetcher that is never asked: the engine does not run.
    struct Nobody;

    impl Fetch for Nobody {
        fn fetch(&self, request: FetchRequest) -> ReplyFuture {
            panic!("{} was asked for", request.url)
        }
    }

    fn engine(folder: &std::path::Path) -> Engine {
        let clock = SystemClock::shared();
        Engine::new(EngineParts {
            config: Arc::new(Config::parse("[crawl]\nfollow = \"domain\"", "t.toml").expect("valid")),
            fetch: Arc::new(Nobody),
            clock: clock.clone(),
            store: Store::begun_in(folder),
            loaded: None,
            journal: Journal::open(folder, clock).expect("writable"),
            archive: None,
            inputs: input::spawn(Vec::new()).expect("nothing to read"),
            requests: mpsc::channel(1).1,
            watcher: None,
            looks: Looks::AtTotals,
            frame: Duration::from_millis(1),
            seed: 1,
        })
    }

    /// What grows with hosts and URLs: a count, not what an allocator makes of it.
    fn grown(engine: &Engine) -> (usize, usize, usize, usize) {
        let Engine { hosts, frontier, traps, controller, .. } = engine;
        let hot = (0..hosts.len()).filter(|host| controller.saved(HostId(*host as u32)).is_some()).count();
        (hosts.len(), frontier.known(), frontier.pending() + traps.parked(), hot)
    }

    /// Five million names cost what two thousand cost: beyond the bound of its domain a name leaves nothing behind. Nothing
    /// is ever evicted, so that no host comes back with a burst or without its penalty.
    #[tokio::test]
    async fn case_16_names_beyond_the_bound_of_their_domain_leave_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut engine = engine(folder.path());
        engine.admit(&crate::crawl::address::parse_url("http://trap.example/").expect("a URL"), None);
        let on = engine.hosts.find(&"http://trap.example/".parse().expect("a URL"));
        let meet = |engine: &mut Engine, from: u32, to: u32| {
            for number in from..to {
                let url: Url = format!("http://n{number}.trap.example/").parse().expect("a URL");
                engine.enter(&url, fingerprint(&url), As::Page { depth: 1, run: 0, on: None, alike: false }, on);
            }
            grown(engine)
        };
        let bound = meet(&mut engine, 0, 2_000);
        let most = HOSTS_PER_DOMAIN as usize + 1;
        // Hosts, fingerprints, URLs; and none has a bucket of its own before it is asked.
        assert_eq!(bound, (most, most, most, 0));
        assert_eq!(meet(&mut engine, 2_000, 30_000), bound, "flat, however many come");
        assert_eq!(meet(&mut engine, 0, 1_000), bound, "and those that are known are so still");
    }
}
