//! The store at scale: inserts beside the bare store's, what a queue's depth costs, memory, and opening after a kill.
//!
//! A million URLs over ten thousand hosts, or as many as `CRAWLDECK_STORE_URLS` says, a hundred a host, in turn. Each
//! part runs in a process of its own. Both inserts read the same list through the crawl's own reader, which parses and
//! fingerprints on its thread; the bare one appends the records and nothing else, the other is the whole engine,
//! halted. The part that asks every host (robots.txt and a page, answered at once) ends without closing anything, and
//! is what is opened afterwards. Depth: the same hosts with two URLs each and with all of theirs.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawldeck::clock::{Clock as _, SystemClock};
use crawldeck::config::Config;
use crawldeck::control::{self, HostId, Lane, Mono, Outcome, RequestKind, Verdict};
use crawldeck::crawl::engine::{Engine, EngineParts, Looks};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::frontier::{Frontier, folded};
use crawldeck::crawl::input::{self, InputItem, Source};
use crawldeck::crawl::job::Job;
use crawldeck::crawl::resume::resume;
use crawldeck::journal::Journal;
use crawldeck::journal::disk::SystemDisk;
use crawldeck::store::load::Loaded;
use crawldeck::store::record::UrlRecord;
use crawldeck::store::{Store, StoreOptions};
use crawldeck::text::Clean;
use crawldeck::watch::{Request, Snapshot, Totals};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::table::{Table, thousands};

const URLS: u64 = 1_000_000;
const PER_HOST: u64 = 100;
/// Of each host, taken out for the comparison of depths: all that the shallow frontier has.
const TAKEN: u64 = 2;

pub(crate) fn measure(table: &mut Table) {
    let urls = std::env::var("CRAWLDECK_STORE_URLS").ok().and_then(|text| text.parse().ok()).unwrap_or(URLS);
    let hosts = (urls / PER_HOST).max(1);
    let [bare_dir, own_dir, asked_dir, small_dir] = [(); 4].map(|()| tempfile::tempdir().expect("a folder"));
    let bare = child("bare", urls, hosts, bare_dir.path());
    let own = child("own", urls, hosts, own_dir.path());
    let (count, hosts_count) = (thousands(urls as f64), thousands(hosts as f64));
    table.add(format!("bare store, {count} URLs read from a list and inserted durably"), rate(bare[0]), "printed");
    table.add(
        "the same into a crawl (dedup, queues, controller), and ratio",
        format!("{}, {:.2}", rate(own[0]), own[0] / bare[0]),
        "≥ 0.8",
    );
    table.add("memory of that, at most", megabytes(own[1]), "≤ 400 MB at 10,000,000");
    let asked = child("asked", urls, hosts, asked_dir.path());
    table.add(
        format!("memory with all {hosts_count} hosts asked, at most"),
        format!("{}, {} requests", megabytes(asked[1]), thousands(asked[0])),
        "≤ 400 MB at 10,000,000",
    );
    let size = std::fs::metadata(own_dir.path().join("state/urls.log")).map_or(0, |file| file.len());
    table.add("bytes a URL on the disk", format!("{:.0}", size as f64 / urls as f64), "printed");
    let open = child("open", urls, hosts, asked_dir.path());
    table.add(
        format!("opening {count} URLs on {hosts_count} asked hosts after a kill"),
        format!("{:.2} s", open[0]),
        "≤ 10 s at 10,000,000",
    );
    table.add("memory of that, at most", megabytes(open[1]), "≤ 400 MB at 10,000,000");
    child("own", TAKEN * hosts, hosts, small_dir.path());
    for (part, what) in [("pop", "jobs taken out of the frontier"), ("grant", "requests granted, answered and kept")] {
        let (shallow, deep) = (child(part, 0, hosts, small_dir.path()), child(part, 0, hosts, own_dir.path()));
        table.add(
            format!("{what}, {hosts_count} hosts of {TAKEN} URLs, of {PER_HOST}, and ratio"),
            format!("{}, {}, {:.2}", rate(shallow[0]), rate(deep[0]), deep[0] / shallow[0]),
            "≥ 0.8",
        );
    }
}

fn rate(each_second: f64) -> String {
    format!("{}/s", thousands(each_second))
}

fn megabytes(bytes: f64) -> String {
    format!("{:.0} MB", bytes / 1e6)
}

/// The two numbers that a part prints.
fn child(part: &str, urls: u64, hosts: u64, dir: &Path) -> [f64; 2] {
    let this = std::env::current_exe().expect("this program");
    let (urls, hosts) = (urls.to_string(), hosts.to_string());
    let out = Command::new(this).args(["child", "store", part, &urls, &hosts, &dir.to_string_lossy()]).output();
    let out = out.expect("a child");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{part}: {}", String::from_utf8_lossy(&out.stderr)));
    [next(), next()]
}

/// Runs one part and prints its numbers.
pub(crate) fn part(arguments: &[&str]) {
    let [part, urls, hosts, dir] = arguments else { panic!("child store PART URLS HOSTS DIR") };
    let [urls, hosts] = [urls, hosts].map(|text| text.parse::<u64>().expect("a number"));
    let dir = Path::new(dir);
    let number = match *part {
        "bare" => bare(dir, urls, hosts),
        "own" => own(dir, urls, hosts),
        "asked" => asked(dir, urls, hosts),
        "open" => open(dir),
        "pop" => pop(dir, TAKEN * hosts),
        _ => grant(dir, TAKEN * hosts),
    };
    println!("{number} {}", most_resident());
    // Nothing is closed, as after a kill.
    std::process::abort();
}

/// A list of URLs, each of the next host.
fn list(dir: &Path, urls: u64, hosts: u64) -> Vec<Source> {
    let path = dir.join("urls.txt");
    let mut list = BufWriter::new(File::create(&path).expect("a list"));
    for number in 0..urls {
        writeln!(list, "http://h{}.example/articles/{number}/of-some-length.html", number % hosts).expect("written");
    }
    list.flush().expect("written");
    vec![Source::File(path)]
}

fn start(dir: &Path, loaded: &mut Loaded) -> Store {
    Store::start(dir, loaded, Vec::new(), Box::new(SystemDisk), StoreOptions::default()).expect("a store")
}

fn runtime() -> Runtime {
    // As the crawl's own.
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// URLs a second that are read and appended, with nothing on top.
fn bare(dir: &Path, urls: u64, hosts: u64) -> f64 {
    let sources = list(dir, urls, hosts);
    let mut store = start(dir, &mut Loaded::default());
    let clock = SystemClock::new();
    let began = Instant::now();
    let mut inputs = input::spawn(sources).expect("a list");
    let runtime = runtime();
    let mut number = 0;
    while let Some(batch) = runtime.block_on(inputs.recv()) {
        for item in batch {
            let InputItem::Url(address) = item else { panic!("a bad line") };
            let (host, print) = (number % hosts, folded(address.fingerprint));
            if host == number {
                store.add_host(address.url.host_str().expect("a host"));
            }
            number += 1;
            store.add_url(&UrlRecord {
                host: Some(host as u32),
                print,
                depth: 0,
                run: 0,
                kind: RequestKind::Page,
                url: address.url.as_str(),
            });
        }
        if store.is_large() {
            store.commit(clock.anchor());
        }
        while store.is_full() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    store.commit(clock.anchor());
    store.close_blocking(Duration::from_secs(60)).expect("written");
    assert_eq!(number, urls, "all are there");
    urls as f64 / began.elapsed().as_secs_f64()
}

/// Answers at once: there is no robots.txt, and every page is a page.
struct AtOnce;

impl Fetch for AtOnce {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        let status = if request.kind == RequestKind::Robots { 404 } else { 200 };
        let verdict = Verdict::Status(status);
        let reply = Reply { verdict, status: Some(status), error: None, ..Reply::failed(Outcome::Local, "none") };
        Box::pin(std::future::ready(reply))
    }
}

/// A crawl on `dir`, what asks it and what it shows.
struct Crawl {
    engine: Engine,
    requests: mpsc::Sender<Request>,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
}

/// Whether so many URLs are what was waited for.
type Enough = fn(&Totals, u64) -> bool;

impl Crawl {
    fn new(dir: &Path, config: Config, sources: Vec<Source>) -> Self {
        let mut loaded = resume(dir, &config).expect("whole");
        let store = start(dir, loaded.as_mut().unwrap_or(&mut Loaded::default()));
        let clock = SystemClock::shared();
        let ((requests, requests_in), (watcher, snapshots)) = (mpsc::channel(4), mpsc::channel(1));
        let parts = EngineParts {
            fetch: Arc::new(AtOnce),
            journal: Journal::open(dir, clock.clone()).expect("a journal"),
            archive: None,
            store,
            loaded,
            inputs: input::spawn(sources).expect("a list"),
            config: Arc::new(config),
            clock,
            requests: requests_in,
            watcher: Some(watcher),
            looks: Looks::AtTotals,
            // Rarely: pictures are not what is measured.
            frame: Duration::from_millis(100),
            seed: 1,
        };
        Self { engine: Engine::new(parts), requests, snapshots }
    }

    fn ask(&self, command: control::Command) {
        let chosen_by = Clean::new("");
        self.requests.try_send(Request::Act { ticket: 1, command, targets: Vec::new(), chosen_by }).expect("room");
    }

    /// Runs it until it is as `enough` says, then goes on as `then` says; what was shown last.
    fn run(self, steps: Vec<(Enough, Request)>, number: u64) -> Totals {
        let Self { engine, requests, mut snapshots } = self;
        runtime().block_on(async {
            let watching = async {
                let mut last = None;
                for (enough, then) in steps {
                    while let Some(snapshot) = snapshots.recv().await {
                        let met = enough(&snapshot.totals, number);
                        last = Some(snapshot);
                        if met {
                            break;
                        }
                    }
                    // A crawl that is done takes no more.
                    let _ = requests.send(then).await;
                }
                // The rest is only taken.
                while snapshots.recv().await.is_some() {}
                last.expect("a snapshot").totals.clone()
            };
            tokio::join!(engine.run(), watching).1
        })
    }
}

fn command(command: control::Command) -> Request {
    Request::Act { ticket: 1, command, targets: Vec::new(), chosen_by: Clean::new("") }
}

/// URLs a second that come into a halted crawl, durably.
fn own(dir: &Path, urls: u64, hosts: u64) -> f64 {
    let sources = list(dir, urls, hosts);
    let began = Instant::now();
    let crawl = Crawl::new(dir, Config::default(), sources);
    crawl.ask(control::Command::Halt);
    let totals = crawl.run(vec![(|totals, _| totals.inputs_read, Request::Stop)], urls);
    let took = began.elapsed().as_secs_f64();
    assert_eq!(totals.urls_pending, urls, "all are there");
    urls as f64 / took
}

/// Requests that were made when every host had been asked for its robots.txt and a page.
fn asked(dir: &Path, urls: u64, hosts: u64) -> f64 {
    let sources = list(dir, urls, hosts);
    let crawl = Crawl::new(dir, Config::default(), sources);
    crawl.ask(control::Command::Halt);
    let all_asked: fn(&Totals, u64) -> bool = |totals, hosts| totals.requests >= 2 * hosts;
    let totals = crawl.run(
        vec![(|totals, _| totals.inputs_read, command(control::Command::GoOn)), (all_asked, Request::Stop)],
        hosts,
    );
    totals.requests as f64
}

/// Seconds until an engine could begin.
fn open(dir: &Path) -> f64 {
    let began = Instant::now();
    let crawl = Crawl::new(dir, Config::default(), Vec::new());
    let took = began.elapsed().as_secs_f64();
    std::mem::forget(crawl);
    took
}

/// Jobs taken out per second, one of each host in turn, at most as fast as they are read back; opening not counted.
fn pop(dir: &Path, pops: u64) -> f64 {
    let mut loaded = resume(dir, &Config::default()).expect("whole").expect("there");
    let hosts = u32::try_from(loaded.hosts.len()).expect("a number");
    let mut frontier = Frontier::new(start(dir, &mut loaded));
    frontier.restore(Mono::ZERO, &mut loaded, Duration::ZERO);
    let began = Instant::now();
    let mut popped = 0;
    for host in (0..hosts).cycle() {
        popped += u64::from(frontier.pop(Mono::ZERO, HostId(host), Lane(0)).is_some());
        if popped >= pops {
            break;
        }
        if host == hosts - 1 || host % 1_000 == 999 {
            while let Some(read) = frontier.store().expect("one").loaded_already() {
                let jobs = read.urls.into_iter().map(Job::stored).collect();
                frontier.put_loaded(HostId(read.host), Lane(read.lane), jobs, 0);
            }
        }
    }
    popped as f64 / began.elapsed().as_secs_f64()
}

/// Requests per second of a crawl that is held up by no host and no answer; opening not counted.
fn grant(dir: &Path, requests: u64) -> f64 {
    let unlimited = "[crawl]\nconcurrency = 512\n[politeness]\nrate = 1000.0\ncapacity = 1000\nrespect_robots = false\n\
                     [controller]\nkind = \"static\"\ncold_start = false\n";
    let crawl = Crawl::new(dir, Config::parse(unlimited, "unlimited").expect("valid"), Vec::new());
    // It was left halted.
    crawl.ask(control::Command::GoOn);
    let began = Instant::now();
    let enough: fn(&Totals, u64) -> bool = |totals, requests| totals.requests >= requests;
    let totals = crawl.run(vec![(enough, Request::Stop)], requests);
    totals.requests as f64 / began.elapsed().as_secs_f64()
}

/// Bytes resident at most.
fn most_resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number") * 1024
}
