//! The store at scale: inserts beside the bare store's, what a queue's depth costs, memory, and opening after a kill.
//!
//! A million URLs over ten thousand hosts, or as many as `CRAWLDECK_STORE_URLS` says, a hundred a host. Each part runs in a
//! process of its own; the one that inserts ends without closing anything. Both inserts read, parse and fingerprint the
//! same URLs; the bare one only writes them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawldeck::clock::{Anchor, Clock as _, SystemClock};
use crawldeck::config::Config;
use crawldeck::control::backoff::SeededJitter;
use crawldeck::control::{Controller, HostId, Lane, Mono, RequestKind};
use crawldeck::crawl::address::{SerialParser, fingerprint};
use crawldeck::crawl::engine::{Engine, EngineParts, Looks};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, ReplyFuture};
use crawldeck::crawl::frontier::{Admission, Frontier, folded};
use crawldeck::crawl::hosts::Hosts;
use crawldeck::crawl::input;
use crawldeck::crawl::job::Job;
use crawldeck::crawl::resume::resume;
use crawldeck::journal::Journal;
use crawldeck::journal::disk::SystemDisk;
use crawldeck::store::load::Loaded;
use crawldeck::store::record::UrlRecord;
use crawldeck::store::{Store, StoreOptions};

use crate::table::{Table, thousands};

const URLS: u64 = 1_000_000;
const PER_HOST: u64 = 100;
/// Jobs that are taken out again.
const POPS: u64 = 100_000;

pub(crate) fn measure(table: &mut Table) {
    let urls = std::env::var("CRAWLDECK_STORE_URLS").ok().and_then(|text| text.parse().ok()).unwrap_or(URLS);
    let (bare_dir, own_dir, small_dir) = (folder(), folder(), folder());
    let bare = child("bare", urls, bare_dir.path());
    let own = child("fill", urls, own_dir.path());
    let count = thousands(urls as f64);
    table.add(format!("bare store, {count} URLs inserted durably"), format!("{}/s", thousands(bare[0])), "printed");
    table.add(
        "the same through frontier and controller, and ratio",
        format!("{}/s, {:.2}", thousands(own[0]), own[0] / bare[0]),
        "≥ 0.8",
    );
    table.add("memory at the end of that, at most", format!("{:.0} MB", own[1] / 1e6), "≤ 400 MB at 10,000,000");
    let size = std::fs::metadata(own_dir.path().join("state/urls.log")).map_or(0, |file| file.len());
    table.add("bytes a URL on the disk", format!("{:.0}", size as f64 / urls as f64), "printed");
    let open = child("open", urls, own_dir.path());
    table.add(format!("opening {count} URLs after a kill"), format!("{:.2} s", open[0]), "≤ 10 s at 10,000,000");
    table.add("memory of that, at most", format!("{:.0} MB", open[1] / 1e6), "≤ 400 MB at 10,000,000");
    child("fill", 2 * POPS, small_dir.path());
    let (shallow, deep) = (child("pop", 0, small_dir.path()), child("pop", 0, own_dir.path()));
    table.add(
        format!("jobs taken out of a frontier of {count} URLs, and ratio to one of {}", thousands((2 * POPS) as f64)),
        format!("{}/s, {:.2}", thousands(deep[0]), deep[0] / shallow[0]),
        "printed",
    );
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The two numbers that a part prints.
fn child(part: &str, urls: u64, dir: &Path) -> [f64; 2] {
    let this = std::env::current_exe().expect("this program");
    let out = Command::new(this).args(["child", "store", part, &urls.to_string(), &dir.to_string_lossy()]).output();
    let out = out.expect("a child");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{part}: {}", String::from_utf8_lossy(&out.stderr)));
    [next(), next()]
}

/// Runs one part and prints its numbers.
pub(crate) fn part(arguments: &[&str]) {
    let [part, urls, dir] = arguments else { panic!("child store PART URLS DIR") };
    let (urls, dir) = (urls.parse().expect("a number"), Path::new(dir));
    let number = match *part {
        "bare" => fill(dir, urls, bare),
        "fill" => fill(dir, urls, own),
        "open" => open(dir),
        _ => pop(dir),
    };
    println!("{number} {}", most_resident());
    // Nothing is closed, as after a kill.
    std::process::abort();
}

fn start(dir: &Path, loaded: &mut Loaded) -> Store {
    Store::start(dir, loaded, Vec::new(), Box::new(SystemDisk), StoreOptions::default()).expect("a store")
}

/// URLs inserted durably per second.
fn fill(dir: &Path, urls: u64, insert: fn(Store, &SystemClock, &mut dyn FnMut() -> Option<url::Url>) -> Store) -> f64 {
    let store = start(dir, &mut Loaded::default());
    let (clock, mut parser, mut number) = (SystemClock::new(), SerialParser::default(), 0);
    let hosts = (urls / PER_HOST).max(1);
    let began = Instant::now();
    let mut next = || {
        (number < urls).then(|| {
            let text = format!("http://h{}.example/articles/{number}/of-some-length.html", number % hosts);
            number += 1;
            parser.parse(&text).expect("a URL")
        })
    };
    let store = insert(store, &clock, &mut next);
    while !store.is_settled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    urls as f64 / began.elapsed().as_secs_f64()
}

fn pace(store: &mut Store, anchor: Anchor) {
    store.commit(anchor);
    while store.is_full() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn bare(mut store: Store, clock: &SystemClock, next: &mut dyn FnMut() -> Option<url::Url>) -> Store {
    let mut hosts = 0;
    while let Some(url) = next() {
        let host: u32 = url.host_str().expect("a host")[1..].split('.').next().expect("h").parse().expect("a number");
        if host >= hosts {
            store.add_host(url.host_str().expect("a host"));
            hosts = host + 1;
        }
        let print = folded(fingerprint(&url));
        store.add_url(&UrlRecord {
            host: Some(host),
            print,
            depth: 0,
            run: 0,
            kind: RequestKind::Page,
            url: url.as_str(),
        });
        if store.is_large() {
            pace(&mut store, clock.anchor());
        }
    }
    store.commit(clock.anchor());
    store
}

fn own(store: Store, clock: &SystemClock, next: &mut dyn FnMut() -> Option<url::Url>) -> Store {
    let config = Config::default();
    let mut controller = Controller::new(config.settings.clone(), Box::new(SeededJitter::new(1)));
    let (mut frontier, mut hosts, now) = (Frontier::new(store), Hosts::new(&config), clock.now());
    while let Some(url) = next() {
        let print = fingerprint(&url);
        if frontier.admit(print) != Admission::New {
            continue;
        }
        let known = hosts.len();
        let host = hosts.find_or_add(&url, &config, |policy| controller.add_host(policy)).expect("room");
        if hosts.len() > known {
            frontier.add_host(url.host_str().expect("a host"));
        }
        let job = Job::page(&url, now);
        let id = frontier.enter(print, Some(host), &job);
        frontier.push(host, Lane(0), job.numbered(id));
        controller.set_queue(now, host, Lane(0), frontier.queue(host, Lane(0)));
        let store = frontier.store().expect("a store");
        if store.is_large() {
            pace(store, clock.anchor());
        }
    }
    frontier.commit(clock.anchor());
    let store = frontier.take_store().expect("a store");
    // As they are while the crawl runs.
    std::mem::forget((frontier, hosts, controller));
    store
}

/// A fetcher that is never asked.
struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _: FetchRequest) -> ReplyFuture {
        Box::pin(std::future::pending())
    }
}

/// Seconds until an engine could begin.
fn open(dir: &Path) -> f64 {
    let began = Instant::now();
    let config = Config::default();
    let mut loaded = resume(dir, &config).expect("whole").expect("there");
    let clock = SystemClock::shared();
    let (_requests, requests) = tokio::sync::mpsc::channel(1);
    let parts = EngineParts {
        fetch: Arc::new(Nobody),
        journal: Journal::open(dir, clock.clone()).expect("a journal"),
        archive: None,
        store: start(dir, &mut loaded),
        loaded: Some(loaded),
        inputs: input::spawn(Vec::new()).expect("nothing"),
        config: Arc::new(config),
        clock,
        requests,
        watcher: None,
        looks: Looks::AtTotals,
        frame: Duration::from_secs(1),
        seed: 1,
    };
    let engine = Engine::new(parts);
    let took = began.elapsed().as_secs_f64();
    std::mem::forget(engine);
    took
}

/// Jobs taken out per second, host by host, at most as fast as they are read back.
fn pop(dir: &Path) -> f64 {
    let mut loaded = resume(dir, &Config::default()).expect("whole").expect("there");
    let hosts = u32::try_from(loaded.hosts.len()).expect("a number");
    let mut frontier = Frontier::new(start(dir, &mut loaded));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let began = Instant::now();
    frontier.restore(Mono::ZERO, &mut loaded, Duration::ZERO);
    let mut popped = 0;
    for host in (0..hosts).cycle() {
        popped += u64::from(frontier.pop(Mono::ZERO, HostId(host), Lane(0)).is_some());
        if popped >= POPS {
            break;
        }
        if host == hosts - 1 || host % 1_000 == 999 {
            runtime.block_on(async {
                while let Ok(read) = tokio::time::timeout(Duration::ZERO, frontier.store().expect("one").loaded()).await
                {
                    let jobs = read.urls.into_iter().map(Job::stored).collect();
                    frontier.put_loaded(HostId(read.host), Lane(read.lane), jobs, 0);
                }
            });
        }
    }
    popped as f64 / began.elapsed().as_secs_f64()
}

/// Bytes resident at most.
fn most_resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number") * 1024
}
