//! The lab server of the peers' table: 61 linked pages, 5 requests a second, burst 5; ours as a URL list, started at
//! rate 20 without a cold start, everything else by default (capacity 4, 4 connections, robots.txt is asked for first),
//! once with each controller. Each figure is the median of several runs, by wall time.
//!
//! Beside it the peers that are there: `wget` and `wget2` on the path, Scrapy and Crawlee in the Python that
//! `CRAWLDECK_PEERS_PYTHON` names. They follow the links from the first page; who is not there has no row.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crawldeck::control::Mono;
use crawldeck::sim::{Latency, Limit, RetryAfter, ServerModel, ServerSpec, SimRequest, Site};

use crate::crawl::Job;
use crate::server::{Answer, Arrival, Server};
use crate::table::Table;

const PAGES: u32 = 61;
/// Runs of which the median is told: ours, and a peer's.
const RUNS: usize = 5;
const PEER_RUNS: usize = 1;
/// A peer is stopped after so long.
const PATIENCE: Duration = Duration::from_secs(150);
/// A request that is under way when the refusal is given does not disobey it.
const GRACE: Duration = Duration::from_millis(50);
/// Columns: how it refuses, and whether it tells how long.
const COLUMNS: [(&str, u16, bool); 3] =
    [("429 + Retry-After 2", 429, true), ("429 bare", 429, false), ("503 + Retry-After 2", 503, true)];

/// What came of one run.
struct Ran {
    pages: usize,
    requests: usize,
    refused: usize,
    in_window: usize,
    wall: Duration,
}

impl Ran {
    fn of(arrivals: &[Arrival]) -> Self {
        let pages: BTreeSet<u32> = arrivals.iter().filter(|one| one.status == 200).filter_map(|one| one.page).collect();
        let ends = arrivals.first().zip(arrivals.last());
        Self {
            pages: pages.len(),
            requests: arrivals.len(),
            refused: arrivals.iter().filter(|one| matches!(one.status, 429 | 503)).count(),
            in_window: in_window(arrivals),
            wall: ends.map_or(Duration::ZERO, |(first, last)| last.at - first.at),
        }
    }

    /// The run in the middle by wall time.
    fn median(mut runs: Vec<Self>) -> Option<Self> {
        runs.sort_by_key(|run| run.wall);
        let middle = runs.len() / 2;
        runs.into_iter().nth(middle)
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pages, requests, refused, in_window, wall } = self;
        write!(f, "{pages} / {requests} / {refused} / {in_window} / {:.1} s", wall.as_secs_f64())
    }
}

pub(crate) fn measure(table: &mut Table) {
    for kind in ["adaptive", "halving"] {
        for (name, refusal, told) in COLUMNS {
            let config = format!(
                "[politeness]\nrate = 20\n[controller]\nkind = \"{kind}\"\ncold_start = false\n[network]\nallow_private = true\n"
            );
            let runs = (0..RUNS).map(|run| {
                let server = lab(refusal, told, run as u64);
                Job::new(&config, &server.pages(PAGES)).headless();
                Ran::of(&server.arrivals())
            });
            if let Some(ran) = Ran::median(runs.collect()) {
                let label = format!("lab server, {name}, {kind}: pages / requests / refused / in window / wall");
                table.add(label, ran.to_string(), "61 pages, ≤ 5 refused, 0 in window, ≤ 20 s");
            }
        }
    }
    for peer in PEERS {
        for (name, refusal, told) in COLUMNS {
            let runs: Vec<Ran> =
                (0..PEER_RUNS).filter_map(|run| play(&peer, &lab(refusal, told, run as u64))).collect();
            if let Some(ran) = Ran::median(runs) {
                table.add(format!("the same, {name}, {}", peer.name), ran.to_string(), "–");
            }
        }
    }
}

/// The lab server.
fn lab(refusal: u16, told: bool, seed: u64) -> Server {
    let spec = ServerSpec {
        limit: Limit::Bucket { rate: 5.0, burst: 5.0 },
        latency: Latency { median: Duration::from_millis(5), sigma: 0.0 },
        site: Site::of_pages(PAGES),
        refusal,
        retry_after: if told { RetryAfter::Fixed(Duration::from_secs(2)) } else { RetryAfter::Never },
        ..ServerSpec::default()
    };
    let mut model = ServerModel::new(spec, seed);
    Server::start(Box::new(move |since, path| {
        let request = SimRequest { method: "GET", host: "lab.test", path };
        let said = model.respond(Mono::ZERO.after(since), &request);
        let told = said.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
        Answer {
            status: said.status,
            retry_after: told.and_then(|(_, value)| value.parse().ok()),
            body: Bytes::from(said.body.bytes()),
            after: said.latency,
            html: said.status == 200,
        }
    }))
}

/// Requests that came while a wait that was told was running.
fn in_window(arrivals: &[Arrival]) -> usize {
    let disobeys = |one: &&Arrival| {
        arrivals.iter().any(|refusal| {
            let until = refusal.retry_after.map(|wait| refusal.answered + wait);
            until.is_some_and(|until| refusal.answered + GRACE < one.at && one.at < until)
        })
    };
    arrivals.iter().filter(disobeys).count()
}

/// A crawler of others.
struct Peer {
    name: &'static str,
    /// A program on the path, or a script for the Python of the environment.
    program: Program,
}

enum Program {
    OnPath(&'static str, &'static [&'static str]),
    Python(&'static str, &'static [&'static str]),
}

const SCRAPY: &str = include_str!("peers/scrapy_crawl.py");

const PEERS: [Peer; 6] = [
    Peer {
        name: "wget --retry-on-http-error=429,503 --waitretry=10 --tries=5",
        program: Program::OnPath(
            "wget",
            &["-q", "-r", "-l", "0", "--delete-after", "--retry-on-http-error=429,503", "--waitretry=10", "--tries=5"],
        ),
    },
    Peer { name: "wget, defaults", program: Program::OnPath("wget", &["-q", "-r", "-l", "0", "--delete-after"]) },
    Peer { name: "wget2, defaults", program: Program::OnPath("wget2", &["-q", "-r", "-l", "0", "--delete-after"]) },
    Peer { name: "Scrapy, library defaults", program: Program::Python(SCRAPY, &[]) },
    Peer { name: "Scrapy, AutoThrottle", program: Program::Python(SCRAPY, &["autothrottle"]) },
    Peer {
        name: "Crawlee, ThrottlingRequestManager or defaults",
        program: Program::Python(include_str!("peers/crawlee_throttling.py"), &[]),
    },
];

/// Lets a peer crawl; `None` if it is not there.
fn play(peer: &Peer, server: &Server) -> Option<Ran> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = format!("http://{}/p/0", server.addr());
    let mut command = match peer.program {
        Program::OnPath(program, arguments) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&first);
            command
        }
        Program::Python(script, arguments) => {
            let python = std::env::var_os("CRAWLDECK_PEERS_PYTHON")?;
            let path = folder.path().join("peer.py");
            std::fs::write(&path, script).expect("written");
            let mut command = Command::new(python);
            command.arg(path).arg(&first).args(arguments);
            command
        }
    };
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    wait(command)?;
    // Who could not even ask for the first page is not really there.
    let arrivals = server.arrivals();
    (!arrivals.is_empty()).then(|| Ran::of(&arrivals))
}

/// Runs a command to its end, or for as long as patience lasts.
fn wait(mut command: Command) -> Option<()> {
    let mut child = command.spawn().ok()?;
    let began = Instant::now();
    while child.try_wait().expect("ours").is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().expect("ours");
            child.wait().expect("ours");
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(())
}
