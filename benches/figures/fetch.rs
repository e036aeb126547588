//! Fetches per second on loopback: the crawl, headless and with its dashboard, beside a bare reqwest loop.
//!
//! All three ask the same server for the same pages, 64 at a time, each in a process of its own with the same
//! allocator; the server is a thread of this process. The rate is the server's: pages over the time from the first
//! to the last. They take turns; the best turn of each counts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;

use crate::crawl::{Job, Terminal};
use crate::server::{Answer, Server};
use crate::table::{Table, thousands};

const PAGES: u32 = 100_000;
const AT_ONCE: usize = 64;
const TURNS: u32 = 3;

const CONFIG: &str = "
[crawl]
concurrency = 64
[politeness]
rate = 1000000
capacity = 1000000
connections = 64
[controller]
cold_start = false
[network]
allow_private = true
";

pub(crate) fn measure(table: &mut Table) {
    let body = Bytes::from(vec![b'x'; 1024]);
    let server = Server::start(Box::new(move |_, path| match path {
        "/robots.txt" => Answer { status: 404, ..Answer::ok(Bytes::new()) },
        _ => Answer::ok(body.clone()),
    }));
    let mut job = Job::new(CONFIG, &server.pages(PAGES));
    let (mut bare, mut headless, mut dashboard, mut frames_a_second) = (0.0_f64, 0.0_f64, 0.0_f64, f64::MAX);
    for _ in 0..TURNS {
        bare = bare.max(rate(&server, || {
            let this = std::env::current_exe().expect("this program");
            let arguments = ["child", "bare", &job.urls().to_string_lossy()].map(str::to_owned);
            Terminal::start(&this.to_string_lossy(), &arguments, Path::new("/")).wait();
        }));
        headless = headless.max(rate(&server, || job.headless()));
        let mut frames = Arc::default();
        let shown = rate(&server, || {
            let screen = job.dashboard();
            frames = screen.frames();
            screen.wait();
        });
        dashboard = dashboard.max(shown);
        frames_a_second = frames_a_second.min(a_second(&frames.lock().expect("no panic"), &server));
    }
    let of = |rate: f64, base: f64| format!("{}/s, {:.2}", thousands(rate), rate / base);
    table.add("bare reqwest loop on loopback, 64 at once", format!("{}/s", thousands(bare)), "printed");
    table.add("fetches on loopback, headless, and ratio to the bare loop", of(headless, bare), "≥ 0.85");
    table.add("the same with the dashboard on a pty, and ratio to headless", of(dashboard, headless), "≥ 0.95");
    table.add(
        "the same: frames a second (`fps = 4`), the worst turn",
        format!("{frames_a_second:.2}"),
        "≥ 4 at ≥ 5,000/s",
    );
}

/// Frames per second between the first and the last that came while pages were asked for.
fn a_second(frames: &[Instant], server: &Server) -> f64 {
    let arrivals = server.arrivals();
    let pages: Vec<_> = arrivals.iter().filter(|arrival| arrival.page.is_some()).collect();
    let span = pages[0].at..=pages[pages.len() - 1].at;
    let within: Vec<_> = frames.iter().filter(|at| span.contains(*at)).collect();
    let [first, .., last] = within.as_slice() else { return 0.0 };
    (within.len() - 1) as f64 / last.duration_since(**first).as_secs_f64()
}

/// Pages per second that the server saw during `run`.
fn rate(server: &Server, run: impl FnOnce()) -> f64 {
    server.clear();
    let (own, children) = cpu();
    run();
    let (own, children) = (cpu().0 - own, cpu().1 - children);
    let arrivals = server.arrivals();
    let pages: Vec<_> = arrivals.iter().filter(|arrival| arrival.page.is_some()).collect();
    assert_eq!(pages.len(), PAGES as usize, "every page once");
    let took = pages[pages.len() - 1].at - pages[0].at;
    let rate = (pages.len() - 1) as f64 / took.as_secs_f64();
    // What others do on the machine changes the rate more than this.
    let each = |seconds: f64| seconds * 1e6 / f64::from(PAGES);
    eprintln!("  {}/s; processor time a page: {:.1} µs, server {:.1} µs", thousands(rate), each(children), each(own));
    rate
}

/// Seconds of processor time: of this process, and of its children that have ended.
fn cpu() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, fields) = stat.rsplit_once(')').expect("the name in brackets");
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(4).filter_map(|word| word.parse().ok()).collect();
    ((ticks[0] + ticks[1]) / 100.0, (ticks[2] + ticks[3]) / 100.0)
}

/// The bare loop: so many tasks, each takes the next URL.
pub(crate) fn child(arguments: &[&str]) {
    let [urls] = arguments else { panic!("child bare FILE") };
    let urls: Vec<String> = std::fs::read_to_string(urls).expect("readable").lines().map(str::to_owned).collect();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    let client = client.tls_certs_only([]).build().expect("a client");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (urls, next) = (Arc::new(urls), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (client, urls, next) = (client.clone(), Arc::clone(&urls), Arc::clone(&next));
                tokio::spawn(async move {
                    while let Some(url) = urls.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let response = client.get(url).send().await.expect("an answer");
                        let body = response.bytes().await.expect("a body");
                        assert_eq!(body.len(), 1024);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}
