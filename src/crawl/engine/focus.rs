//! The host that a watcher looks at closely: its last requests and decisions.
//!
//! A ring of the last [`RING_MAX`] requests and decisions of all hosts is kept while somebody watches, so
//! that a host has a past when it is looked at first; after that its own last [`FOCUS_MAX`] are kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Engine;
use crate::control::{HostId, Mono};
use crate::crawl::address::Authority;
use crate::watch::{FOCUS_MAX, Focus, Recent};

/// Requests and decisions of all hosts that are kept; the oldest go first.
const RING_MAX: usize = 4096;

/// What happened lately, and the host in focus.
#[derive(Debug, Default)]
pub(super) struct Recently {
    ring: VecDeque<(HostId, Recent)>,
    focus: Option<HostId>,
    shown: VecDeque<Recent>,
    /// The watcher has not seen the newest yet.
    fresh: bool,
    /// URLs that robots.txt forbade, by host: an entry for each host that forbade any.
    denied: HashMap<HostId, u64>,
}

impl Recently {
    /// Something happened to a host.
    pub(super) fn note(&mut self, host: HostId, recent: Recent) {
        if self.focus == Some(host) {
            if self.shown.len() == FOCUS_MAX {
                self.shown.pop_front();
            }
            self.shown.push_back(recent.clone());
            self.fresh = true;
        }
        if self.ring.len() == RING_MAX {
            self.ring.pop_front();
        }
        self.ring.push_back((host, recent));
    }

    /// robots.txt forbade a URL of a host.
    pub(super) fn deny(&mut self, host: HostId) {
        *self.denied.entry(host).or_default() += 1;
        self.fresh |= self.focus == Some(host);
    }

    /// Looks at a host, or at none.
    pub(super) fn look_at(&mut self, host: Option<HostId>) {
        self.focus = host;
        let of_host = self.ring.iter().rev().filter(|(of, _)| Some(*of) == host);
        self.shown = of_host.take(FOCUS_MAX).map(|(_, recent)| recent.clone()).collect();
        self.shown.make_contiguous().reverse();
        self.fresh = host.is_some();
    }

    /// The host in focus.
    pub(super) fn looked_at(&self) -> Option<HostId> {
        self.focus
    }

    /// Whether a watcher would see something new.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// What the watcher has not seen yet: all of it again, if anything is new.
    fn take(&mut self) -> Option<Focus> {
        if !std::mem::take(&mut self.fresh) {
            return None;
        }
        let host = self.focus?;
        let denied = self.denied.get(&host).copied().unwrap_or(0);
        let recent = self.shown.iter().cloned().collect();
        Some(Focus { host, recent, endpoints: Vec::new(), robots: None, denied })
    }
}

impl Engine {
    /// What the watcher has not seen yet of the host in focus, if anything.
    pub(super) fn focus(&mut self, now: Mono) -> Option<Arc<Focus>> {
        let mut focus = self.recently.take()?;
        focus.endpoints = self.controller.endpoints(now, focus.host);
        if self.config.crawl.respect_robots {
            let name = self.hosts.name(focus.host);
            let authorities = Authority::of_key(name.as_str()).into_iter().flatten();
            focus.robots = Some(authorities.filter_map(|authority| self.robots.view(&authority)).collect());
        }
        Some(Arc::new(focus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SystemClock, Wall};
    use crate::config::Config;
    use crate::control::{Original, Outcome, Verdict};
    use crate::crawl::engine::{EngineParts, Looks};
    use crate::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
    use crate::crawl::input::{self, Source};
    use crate::journal::Journal;
    use crate::text::Clean;
    use crate::watch::{Request, RobotsGroup, RobotsState, Snapshot};
    use std::time::Duration;
    use tokio::sync::mpsc;

    fn request(number: usize) -> Recent {
        Recent::Request {
            wall: Wall(0),
            path: Clean::new(format!("/{number}")),
            status: Some(200),
            outcome: Outcome::Ok,
            latency: Duration::ZERO,
        }
    }

    #[test]
    fn a_host_has_a_past_when_it_is_looked_at_first() {
        let mut recently = Recently::default();
        for number in 0..200 {
            recently.note(HostId(number % 2), request(number as usize));
        }
        assert!(!recently.is_fresh() && recently.take().is_none(), "nobody looks");
        recently.look_at(Some(HostId(1)));
        let focus = recently.take().expect("fresh");
        assert_eq!((focus.host, focus.recent.len()), (HostId(1), FOCUS_MAX));
        assert_eq!(focus.recent.last(), Some(&request(199)), "the newest is last");
        recently.note(HostId(0), request(200));
        assert!(!recently.is_fresh(), "another host");
        recently.note(HostId(1), request(201));
        assert_eq!(recently.take().expect("fresh").recent.last(), Some(&request(201)));
        recently.look_at(None);
        assert!(recently.take().is_none());
    }

    /// Answers everything at once, robots.txt with a rule, but never for `b.example`: so the crawl does not end.
    struct Site;

    impl Fetch for Site {
        fn fetch(&self, request: FetchRequest) -> ReplyFuture {
            let is_robots = request.url.path() == "/robots.txt";
            if request.url.host_str() == Some("b.example") && !is_robots {
                return Box::pin(std::future::pending());
            }
            let body = if is_robots { "User-agent: *\nDisallow: /no\nAllow: /no/but\n" } else { "" };
            let reply = Reply {
                verdict: Verdict::Status(200),
                status: Some(200),
                error: None,
                body: body.as_bytes().to_vec().into(),
                ..Reply::failed(Outcome::Local, "")
            };
            Box::pin(std::future::ready(reply))
        }
    }

    #[tokio::test]
    async fn a_watcher_sees_the_endpoints_and_the_robots_txt_of_the_host_it_looks_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = SystemClock::shared();
        let (requests, requests_in) = mpsc::channel(64);
        let (watcher, mut snapshots) = mpsc::channel::<Arc<Snapshot>>(1);
        let urls = ["http://a.example/api/1", "http://a.example/no/2", "http://b.example/2", "http://a.example/3"];
        let host = "[controller]\ncold_start = false\n[[host]]\nmatch = \"a.example\"\n[[host.endpoint]]\npath = \"/api\"\nrate = 0.5\ncapacity = 3\n";
        let parts = EngineParts {
            store: crate::store::Store::begun_in(folder.path()),
            loaded: None,
            config: Arc::new(Config::parse(host, "t.toml").expect("valid")),
            fetch: Arc::new(Site),
            clock: clock.clone(),
            journal: Journal::open(folder.path(), clock).expect("writable"),
            archive: None,
            inputs: input::spawn(urls.map(|url| Source::Url(url.to_owned())).into()).expect("readable"),
            requests: requests_in,
            watcher: Some(watcher),
            looks: Looks::Closely,
            frame: Duration::from_millis(1),
            seed: 1,
        };
        requests.send(Request::Focus(Some(HostId(0)))).await.expect("room");
        let engine = tokio::spawn(Engine::new(parts).run());
        let focus = loop {
            let snapshot = snapshots.recv().await.expect("the crawl goes on");
            let Some(focus) = &snapshot.focus else { continue };
            let pages = focus.recent.iter().filter(|one| matches!(one, Recent::Request { .. })).count();
            if pages == 3 && focus.denied == 1 {
                break Arc::clone(focus);
            }
        };
        requests.send(Request::Stop).await.expect("room");
        drop(snapshots);
        engine.await.expect("no panic");
        let [endpoint] = focus.endpoints.as_slice() else { panic!("{:?}", focus.endpoints) };
        assert_eq!(endpoint.original, Original { rate: 0.5, capacity: 3.0 });
        assert!((2.0..3.0).contains(&endpoint.tokens), "one of three was taken: {}", endpoint.tokens);
        let robots = focus.robots.as_deref().expect("it is asked for");
        let [one] = robots else { panic!("{robots:?}") };
        assert_eq!(one.authority.as_str(), "http://a.example");
        assert!(matches!(one.state, RobotsState::Known { .. }), "{one:?}");
        assert_eq!(one.copy.map(|(_, group, rules)| (group, rules)), Some((RobotsGroup::Everybody, 2)));
    }

    #[test]
    fn the_past_is_bounded() {
        let mut recently = Recently::default();
        recently.look_at(Some(HostId(0)));
        for number in 0..2 * RING_MAX {
            recently.note(HostId(0), request(number));
        }
        assert_eq!((recently.ring.len(), recently.shown.len()), (RING_MAX, FOCUS_MAX));
    }
}
