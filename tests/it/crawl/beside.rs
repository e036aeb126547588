//! A site that leads on without end, or answers drop by drop, costs its neighbours nothing: in virtual time, by what the
//! servers see.
#![allow(clippy::disallowed_methods, reason = "the paused runtime's clock is the virtual time of these tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawldeck::clock::{Clock, SystemClock};
use crawldeck::config::Config;
use crawldeck::control::{Outcome, Verdict};
use crawldeck::crawl::address::fingerprint;
use crawldeck::crawl::engine::{Engine, EngineParts, Looks, RunEnd};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::input::{self, Source};
use crawldeck::crawl::links::{Found, Link};
use crawldeck::crawl::traps::{RUN_BUDGET, RUN_FREE};
use crawldeck::journal::Journal;
use crawldeck::journal::disk::SystemDisk;
use crawldeck::store::load::Loaded;
use crawldeck::store::{Barrier, Store, StoreOptions};
use crawldeck::watch::{Request, Snapshot};
use tokio::sync::mpsc;

use crate::support::engine::store_in;
use crate::support::virtual_clock::VirtualClock;

/// Hosts beside the trap, and what each of them bears.
const GOODS: usize = 6;
const RATE: f64 = 25.0;
const CONCURRENCY: usize = 12;
/// How long it goes on, in virtual time.
const TIME: Duration = Duration::from_secs(200);

/// How long a site that drips keeps whoever waits for it: the deadline of a head.
const DRIP: Duration = Duration::from_secs(30);

/// When each host was asked for a page.
type Seen = Arc<Mutex<BTreeMap<String, Vec<Duration>>>>;

/// Sites without end. The pages of `trap.test` are a calendar, those of the others all of a kind that is new.
struct Sites {
    origin: tokio::time::Instant,
    seen: Seen,
}

impl Fetch for Sites {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let page: usize = request.url.path().rsplit('/').next().and_then(|page| page.parse().ok()).unwrap_or(0);
        self.seen.lock().expect("no panic").entry(host.clone()).or_default().push(self.origin.elapsed());
        if host == "drip.test" {
            return Box::pin(async {
                tokio::time::sleep(DRIP).await;
                Reply::failed(Outcome::Timeout, "no whole head of a response")
            });
        }
        let paths: Vec<String> = match &*host {
            "trap.test" => [page.saturating_sub(1), page + 1].map(|day| format!("/day/{day}")).to_vec(),
            // A tree: hardly any page is far from the first.
            _ => (1..=4).map(|below| format!("/page/{}", 4 * page + below)).collect(),
        };
        let link = |path: String| {
            let url = request.url.join(&path).expect("a URL");
            Link { fingerprint: fingerprint(&url), url }
        };
        let links = paths.into_iter().map(link).collect();
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let whole = Reply::failed(Outcome::Local, "");
            let found = Some(Box::new(Found { links, ..Found::default() }));
            Reply { verdict: Verdict::Status(200), status: Some(200), error: None, found, ..whole }
        })
    }
}

/// A crawl of the sites, in virtual time.
struct Virtual {
    origin: tokio::time::Instant,
    seen: Seen,
    requests: mpsc::Sender<Request>,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
    engine: tokio::task::JoinHandle<RunEnd>,
}

impl Virtual {
    fn start(folder: &Path, store: Store, beside: &[&str]) -> Self {
        let text = format!(
            "[crawl]\nfollow = \"host\"\nconcurrency = {CONCURRENCY}\n[politeness]\nrate = {RATE:?}\ncapacity = 4\n\
             connections = 4\nrespect_robots = false\n[controller]\ncold_start = false\n[backoff]\nmax = \"1s\"\n"
        );
        let origin = tokio::time::Instant::now();
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock { origin });
        let seen = Seen::default();
        let goods = (0..GOODS).map(|number| format!("http://good{number}.test/page/0"));
        let beside = beside.iter().map(|&url| url.to_owned());
        let (requests, requests_in) = mpsc::channel(8);
        let (watcher, snapshots) = mpsc::channel::<Arc<Snapshot>>(1);
        let parts = EngineParts {
            config: Arc::new(Config::parse(&text, "t.toml").expect("valid")),
            fetch: Arc::new(Sites { origin, seen: Arc::clone(&seen) }),
            clock: clock.clone(),
            // Its thread knows nothing of virtual time.
            journal: Journal::open(folder, SystemClock::shared()).expect("writable"),
            store,
            loaded: None,
            archive: None,
            inputs: input::spawn(beside.chain(goods).map(Source::Url).collect()).expect("readable"),
            requests: requests_in,
            watcher: Some(watcher),
            looks: Looks::AtTotals,
            frame: Duration::from_millis(250),
            seed: 1,
        };
        Self { origin, seen, requests, snapshots, engine: tokio::spawn(Engine::new(parts).run()) }
    }

    /// How many requests the servers have seen.
    fn count(&self) -> usize {
        self.seen.lock().expect("no panic").values().map(Vec::len).sum()
    }

    async fn stop(self) {
        self.requests.send(Request::Stop).await.expect("the engine listens");
        drop(self.snapshots);
        self.engine.await.expect("no panic");
    }
}

/// What the servers saw of a crawl of so long.
async fn crawled(beside: &[&str]) -> BTreeMap<String, Vec<Duration>> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut running = Virtual::start(folder.path(), store_in(folder.path()), beside);
    let (origin, seen) = (running.origin, Arc::clone(&running.seen));
    // Inputs come from a thread in real time, during which virtual time runs: the crawl begins when all are there.
    let mut begun = None;
    while let Some(snapshot) = running.snapshots.recv().await {
        let at = *begun.get_or_insert_with(|| origin.elapsed());
        if !snapshot.totals.inputs_read {
            begun = None;
        } else if origin.elapsed() >= at + TIME {
            break;
        }
    }
    running.stop().await;
    let from = begun.expect("the inputs were read");
    let mut seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    for times in seen.values_mut() {
        times.retain(|at| (from..from + TIME).contains(at));
    }
    seen
}

/// Every host that is well had its rate by itself, and beside the other.
#[track_caller]
fn assert_undelayed(alone: &BTreeMap<String, Vec<Duration>>, beside: &BTreeMap<String, Vec<Duration>>) {
    for number in 0..GOODS {
        let host = format!("good{number}.test");
        let (without, with) = (alone[&host].len() as f64, beside[&host].len() as f64);
        assert!(without >= 0.95 * RATE * TIME.as_secs_f64(), "{host} has its rate by itself: {without}");
        assert!(with >= 0.95 * without, "{host}: {with} requests beside the other, {without} without it");
    }
}

#[tokio::test(start_paused = true)]
async fn row_01_beside_a_host_that_drips_every_other_host_keeps_its_rate() {
    let urls: Vec<String> = (0..100).map(|page| format!("http://drip.test/{page}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let (alone, beside) = (crawled(&[]).await, crawled(&urls).await);
    assert_undelayed(&alone, &beside);
    // At each deadline its slot was free, and after a hold it was asked again.
    let dripped = &beside["drip.test"];
    assert!(dripped.len() >= 2, "{dripped:?}");
}

#[tokio::test(start_paused = true)]
async fn case_56_row_21_beside_a_trap_every_other_host_keeps_its_rate() {
    let alone = crawled(&[]).await;
    let beside = crawled(&["http://trap.test/day/0"]).await;
    assert_undelayed(&alone, &beside);
    let (trap, all) = (beside["trap.test"].len(), beside.values().map(Vec::len).sum::<usize>());
    let most = 2 + usize::from(RUN_FREE) + RUN_BUDGET as usize;
    assert!(trap <= most && trap * 20 < all, "the trap had {trap} of {all} requests");
}

/// A disk that takes its time: the first barrier of the store waits until it is let go.
struct Slow(std::sync::mpsc::Receiver<()>);

impl Barrier for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn sync(&mut self, count: u64) -> std::io::Result<u64> {
        // Whoever has let go waits for nothing any more.
        let _ = self.0.recv();
        Ok(count)
    }
}

#[tokio::test(start_paused = true)]
async fn promise_5_what_is_not_on_the_medium_counts_as_in_flight_after_a_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let (go, slow) = std::sync::mpsc::channel();
    let barriers: Vec<Box<dyn Barrier>> = vec![Box::new(Slow(slow))];
    let options = StoreOptions::default();
    let store = Store::start(folder.path(), &mut Loaded::default(), barriers, Box::new(SystemDisk), options);
    let running = Virtual::start(folder.path(), store.expect("a store"), &[]);
    while running.count() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    // What ended until the first transaction was late, and what was in flight then.
    let lost = running.count();
    let moment = GOODS as f64 * (4.0 + RATE * (options.kill_costs + options.group).as_secs_f64());
    assert!(lost <= moment as usize + CONCURRENCY, "{lost} requests went out of which nothing is on the medium");
    drop(go);
    while running.count() < 5 * lost {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    running.stop().await;
}
