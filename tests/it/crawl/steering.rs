//! Commands, drain, stop and a full disk while requests are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crawldeck::config::OnHangup;
use crawldeck::control::{Amount, Command, Lifetime, Outcome, OverrideSpec, RequestKind, Verdict, WakeEven, What};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::watch::{Phase, Request};

use crate::support::answers::{after, by_page, pages_asked, robots_asked, steady, text, with_header};
use crate::support::disk::{FailingDisk, Faults};
use crate::support::engine::Crawl;
use crate::support::lab::LabServer;

/// Every answer takes so long.
fn slow(latency: Duration) -> LabServer {
    by_page(move |_| after(latency, text("page")))
}

fn rate(amount: Amount) -> Command {
    Command::Override(OverrideSpec { rate: Some(amount), capacity: None, lifetime: Lifetime::Default })
}

#[tokio::test]
async fn wanted_20_a_drain_ends_what_is_in_flight_and_every_line_is_there() {
    let server = slow(Duration::from_millis(800));
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.settings.policies[0].connections = 6;
    crawl.pages("host.test", 50);
    let running = crawl.start();
    server.wait_for("robots.txt and six pages", |all| all.len() == 7).await;
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    // The six were answered, nothing new went out, the rest is pending.
    assert_eq!(server.arrivals().len(), 7);
    assert_eq!(ended.fates(), (6, 0, 0, 44));
    assert_eq!(ended.end.totals.phase, Phase::Finished);
    ended.assert_rows_are(&[&server]);
    assert_eq!(ended.events_of(What::Stop)[0].why.as_str(), "drained");
}

#[tokio::test]
async fn wanted_20_a_stop_requeues_what_is_in_flight_and_each_has_its_row() {
    let server = slow(Duration::from_secs(3_600));
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.settings.policies[0].connections = 6;
    crawl.pages("host.test", 50);
    let running = crawl.start();
    server.wait_for("robots.txt and six pages", |all| all.len() == 7).await;
    // Ctrl-C once, and again: what never ends by itself is left.
    running.ask(Request::Drain).await;
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    assert_eq!(ended.fates(), (0, 0, 0, 50));
    assert_eq!(ended.end.totals.phase, Phase::Stopped);
    ended.assert_rows_are(&[&server]);
    assert_eq!(ended.count(Outcome::Local), 6);
    assert_eq!(ended.events_of(What::Stop)[0].why.as_str(), "stopped");
}

/// Counts requests that really began; each ends after so many turns of the runtime.
struct Counting(Arc<AtomicUsize>);

impl Fetch for Counting {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        let began = Arc::clone(&self.0);
        Box::pin(async move {
            began.fetch_add(1, Ordering::SeqCst);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            let status = if request.kind == RequestKind::Robots { 404 } else { 200 };
            let whole = Reply::failed(Outcome::Local, "");
            Reply { verdict: Verdict::Status(status), status: Some(status), error: None, ..whole }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wanted_20_a_stop_in_full_flight_writes_a_row_for_each_request_that_began() {
    for stop_at in (0..20).map(|round| 1 + 37 * round) {
        let began = Arc::new(AtomicUsize::new(0));
        let mut crawl = Crawl::new();
        crawl.rate(1e6, 1e6).connections = 64;
        crawl.pages("host.test", 2_000);
        crawl.fetch_with(Arc::new(Counting(Arc::clone(&began))));
        let running = crawl.start();
        // From another thread, so that the stop falls among grants, sends and answers.
        while began.load(Ordering::SeqCst) < stop_at {
            tokio::task::yield_now().await;
        }
        running.ask(Request::Stop).await;
        let ended = running.end().await;
        assert_eq!(ended.rows.len(), began.load(Ordering::SeqCst), "stopped at {stop_at}");
        let (done, failed, skipped, pending) = ended.fates();
        assert_eq!((failed, skipped), (0, 0));
        // Those whose list was not read by then are not known.
        assert!(done + pending <= 2_000);
        assert_eq!(done as usize, ended.count(Outcome::Ok));
    }
}

#[tokio::test]
async fn a_vanished_terminal_leaves_the_crawl_alone_or_drains_it_as_configured() {
    for on_hangup in [OnHangup::Continue, OnHangup::Drain] {
        let server = slow(Duration::from_millis(10));
        let mut crawl = Crawl::new();
        crawl.rate(100.0, 2.0);
        crawl.config.ui.on_hangup = on_hangup;
        crawl.host("host.test", &server);
        crawl.pages("host.test", 60);
        let running = crawl.start();
        server.wait_for("some requests", |all| all.len() >= 10).await;
        running.ask(Request::TerminalGone).await;
        let ended = running.end().await;
        let (done, failed, skipped, pending) = ended.fates();
        assert_eq!((failed, skipped, done + pending), (0, 0, 60));
        assert_eq!(pending == 0, on_hangup == OnHangup::Continue, "{on_hangup:?}");
        ended.assert_rows_are(&[&server]);
    }
}

#[tokio::test]
async fn case_111_a_watcher_that_never_looks_stops_nothing() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.nobody_looks();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 300);
    let ended = crawl.run().await;
    ended.assert_all_done(300);
    ended.assert_rows_are(&[&server]);
}

#[tokio::test]
async fn wanted_13_a_pause_lets_nothing_more_out_and_resume_goes_on() {
    let (paused, other) = (slow(Duration::from_millis(20)), slow(Duration::from_millis(20)));
    let mut crawl = Crawl::new();
    crawl.rate(50.0, 2.0);
    for (name, server) in [("paused.test", &paused), ("other.test", &other)] {
        crawl.host(name, server);
        crawl.pages(name, 120);
    }
    let mut running = crawl.start();
    paused.wait_for("some requests", |all| all.len() >= 20).await;
    let answer = running.act(Command::Pause(Lifetime::Default), &["paused.test"]).await;
    assert_eq!(answer.changed, 1, "{answer:?}");
    // What was in flight ends; by then every request that was let out has arrived.
    running.host_is("paused.test", |view| view.pause.is_some() && view.in_flight == 0).await;
    let by_then = paused.arrivals().len();
    let others = other.arrivals().len();
    other.wait_for("30 more at the other host", |all| all.len() >= others + 30).await;
    assert_eq!(paused.arrivals().len(), by_then, "nothing in the time of 30 requests");
    let answer = running.act(Command::Resume, &["paused.test"]).await;
    assert_eq!(answer.changed, 1, "{answer:?}");
    let ended = running.end().await;
    ended.assert_all_done(240);
    ended.assert_rows_are(&[&paused, &other]);
    // Resuming is no burst: the bucket never held more than its capacity.
    let late = paused.jitter() + ended.lateness;
    crate::support::oracle::assert_envelope(&paused.arrivals(), 50.0, 2.0, late);
    assert_eq!((ended.events_of(What::Pause).len(), ended.events_of(What::Resume).len()), (1, 1));
    assert_eq!(ended.summary.hosts.iter().map(|host| host.pauses).sum::<u64>(), 1);
}

#[tokio::test]
async fn wanted_15_an_override_takes_effect_on_the_next_grant_and_undo_takes_it_back() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.rate(40.0, 1.0);
    crawl.host("host.test", &server);
    crawl.pages("host.test", 100);
    let mut running = crawl.start();
    server.wait_for("some requests", |all| all.len() >= 10).await;
    let answer = running.act(rate(Amount::Times(0.1)), &["host.test"]).await;
    assert_eq!(answer.changed, 1, "{answer:?}");
    let view = running.host_is("host.test", |view| view.overriding.is_some()).await;
    assert_eq!((view.effective.rate, view.adaptive.rate, view.original.rate), (4.0, 40.0, 40.0));
    let slowed = server.arrivals().len();
    server.wait_for("some slow requests", |all| all.len() >= slowed + 4).await;
    let refused = running.act(rate(Amount::Absolute(-1.0)), &["host.test"]).await;
    assert_eq!(refused.changed, 0, "{refused:?}");
    let answer = running.act(Command::Undo, &[]).await;
    assert_eq!(answer.changed, 1, "{answer:?}");
    let view = running.host_is("host.test", |view| view.overriding.is_none()).await;
    assert_eq!(view.effective.rate, 40.0);
    let ended = running.end().await;
    ended.assert_all_done(100);
    // Each row tells what was effective at its grant: 40, then 4, then 40 again, and never anything else.
    let mut rows = ended.rows.clone();
    rows.sort_by_key(|row| row.time);
    let mut rates: Vec<f64> = rows.iter().map(|row| row.rate).collect();
    rates.dedup();
    assert_eq!(rates, [40.0, 4.0, 40.0]);
    // Under the override no request came earlier than its rate allows.
    let slow: Vec<i64> = rows.iter().filter(|row| row.rate == 4.0).map(|row| row.time.0).collect();
    assert!(slow.len() >= 4);
    assert!(slow.windows(2).all(|pair| pair[1] - pair[0] >= 249_000), "{slow:?}");
    let summary = &ended.summary.hosts[0];
    assert_eq!((summary.overrides, summary.last_rate), (1, Some(40.0)));
}

#[tokio::test]
async fn only_a_confirmed_wake_ends_a_hold_that_the_server_asked_for() {
    let server = by_page(|page| if page == 0 { with_header(429, "retry-after", "600") } else { text("page") });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.settings.policies[0].connections = 1;
    crawl.pages("host.test", 5);
    let mut running = crawl.start();
    running.host_is("host.test", |view| view.hold.is_some()).await;
    let fast = running.act(rate(Amount::Absolute(1_000.0)), &["host.test"]).await;
    assert_eq!(fast.changed, 1);
    let asked = running.act(Command::Wake(WakeEven::Own), &["host.test"]).await;
    assert_eq!(asked.changed, 0);
    assert!(asked.text.as_str().contains("the server asked for this hold"), "{asked:?}");
    assert_eq!(pages_asked(&server).len(), 1, "neither an override nor a plain wake ends it");
    let woken = running.act(Command::Wake(WakeEven::Asked), &["host.test"]).await;
    assert_eq!(woken.changed, 1, "{woken:?}");
    let ended = running.end().await;
    ended.assert_all_done(5);
    assert_eq!(ended.events_of(What::Wake).len(), 1);
}

#[tokio::test]
async fn a_halt_stops_everybody_and_go_on_lets_them_go_on() {
    let servers = [slow(Duration::from_millis(10)), slow(Duration::from_millis(10))];
    let mut crawl = Crawl::new();
    crawl.rate(60.0, 2.0);
    for (name, server) in ["a.test", "b.test"].iter().zip(&servers) {
        crawl.host(name, server);
        crawl.pages(name, 60);
    }
    let mut running = crawl.start();
    for server in &servers {
        server.wait_for("some requests", |all| all.len() >= 10).await;
    }
    running.act(Command::Halt, &[]).await;
    running.totals_are("halted and quiet", |totals| totals.halted && totals.in_flight == 0).await;
    let by_then: Vec<usize> = servers.iter().map(|server| server.arrivals().len()).collect();
    // So many answers of the engine, each a turn of its loop: not one of them lets anything out.
    for _ in 0..20 {
        running.act(Command::Pause(Lifetime::Default), &["a.test"]).await;
        running.act(Command::Resume, &["a.test"]).await;
    }
    let after: Vec<usize> = servers.iter().map(|server| server.arrivals().len()).collect();
    assert_eq!(by_then, after);
    running.act(Command::GoOn, &[]).await;
    running.end().await.assert_all_done(120);
}

#[tokio::test]
async fn a_full_disk_stops_granting_says_so_and_goes_on_by_itself() {
    let server = steady();
    let faults = Arc::new(Faults::default());
    let mut crawl = Crawl::new();
    crawl.rate(100.0, 2.0);
    crawl.host("host.test", &server);
    crawl.pages("host.test", 150);
    crawl.disk(Box::new(FailingDisk(Arc::clone(&faults))));
    let mut running = crawl.start();
    server.wait_for("some requests", |all| all.len() >= 20).await;
    faults.full.store(true, Ordering::SeqCst);
    let stopped =
        running.totals_are("stopped and quiet", |one| one.stopped_because.is_some() && one.in_flight == 0).await;
    let why = stopped.stopped_because.expect("a reason");
    assert!(why.as_str().contains("No space left"), "{why:?}");
    running.logged("journal cannot be written").await;
    let by_then = server.arrivals().len();
    assert!(by_then < 151);
    // The engine lives on: so many of its turns, and not one lets anything out.
    for _ in 0..20 {
        running.act(Command::Pause(Lifetime::Default), &["host.test"]).await;
        running.act(Command::Resume, &["host.test"]).await;
    }
    assert_eq!(server.arrivals().len(), by_then);
    faults.full.store(false, Ordering::SeqCst);
    let ended = running.end().await;
    ended.assert_all_done(150);
    ended.assert_rows_are(&[&server]);
    assert!(ended.end.trouble.is_none(), "{:?}", ended.end.trouble);
    assert!(ended.log.iter().any(|line| line.contains("can be written again")));
    assert_eq!(robots_asked(&server), 1);
}

#[tokio::test]
async fn a_crawl_that_is_done_waits_for_a_full_disk() {
    let server = slow(Duration::from_millis(300));
    let faults = Arc::new(Faults::default());
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 3);
    crawl.disk(Box::new(FailingDisk(Arc::clone(&faults))));
    let mut running = crawl.start();
    server.wait_for("all pages in flight", |all| all.len() == 4).await;
    faults.full.store(true, Ordering::SeqCst);
    running.totals_are("done and stopped", |one| one.urls_done == 3 && one.stopped_because.is_some()).await;
    let alive = running.act(Command::Halt, &[]).await;
    assert!(!alive.text.as_str().is_empty(), "it still answers");
    faults.full.store(false, Ordering::SeqCst);
    let ended = running.end().await;
    assert!(ended.end.trouble.is_none(), "{:?}", ended.end.trouble);
    ended.assert_all_done(3);
    ended.assert_rows_are(&[&server]);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_full_disk() {
    let server = slow(Duration::from_millis(300));
    let faults = Arc::new(Faults::default());
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 3);
    crawl.disk(Box::new(FailingDisk(Arc::clone(&faults))));
    let running = crawl.start();
    server.wait_for("all pages in flight", |all| all.len() == 4).await;
    faults.full.store(true, Ordering::SeqCst);
    running.totals_are("done and stopped", |one| one.urls_done == 3 && one.stopped_because.is_some()).await;
    running.ask(Request::Stop).await;
    let end = running.end_only().await;
    let trouble = end.trouble.expect("what was not written is told");
    assert!(trouble.as_str().contains("were not written"), "{trouble:?}");
}
