//! What a crawl that follows links knows of them, and of its hosts, outlasts its process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crawldeck::config::{Config, Follow};
use crawldeck::control::{Command, ConcernKind, HostState, Lifetime, Outcome, RequestKind, What};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::resume::resume;
use crawldeck::crawl::scope::HOSTS_PER_DOMAIN;
use crawldeck::crawl::traps::{GROWTH_BUDGET, RUN_BUDGET, RUN_FREE};
use crawldeck::sim::SimResponse;
use crawldeck::watch::{Change, Request};

use crate::support::answers::{pages_asked, redirect, status, text};
use crate::support::engine::{Crawl, Running};
use crate::support::lab::LabServer;

/// A server without robots.txt.
fn site(mut answer: impl FnMut(&str, &str) -> SimResponse + Send + 'static) -> LabServer {
    LabServer::start(Box::new(move |_, request, _| match request.path {
        "/robots.txt" => status(404),
        path => answer(request.host.split(':').next().unwrap_or_default(), path),
    }))
}

/// A crawl of these hosts, all on one server, that follows links; the host `slow.test` keeps it from ending.
fn crawl(server: &LabServer, follow: Follow, hosts: &[&str], urls: &[&str]) -> Crawl {
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = follow;
    for host in hosts.iter().chain(&["slow.test"]) {
        crawl.host(host, server);
    }
    for url in urls {
        crawl.url(*url);
    }
    let policy = crawl.policy("slow.test");
    (policy.original.rate, policy.original.capacity) = (0.001, 1.0);
    // Its robots.txt takes the one token that it has.
    crawl.url("http://slow.test/1");
    crawl
}

async fn stop(running: Running) -> tempfile::TempDir {
    running.ask(Request::Stop).await;
    running.end_keeping().await.1
}

fn links(urls: impl IntoIterator<Item = String>) -> SimResponse {
    text(&urls.into_iter().map(|url| format!("<a href='{url}'>x</a>")).collect::<String>())
}

/// More than anybody would keep in memory as text: none of them is lost, over a restart either.
#[tokio::test]
async fn case_56_89_thousands_that_are_held_back_are_let_go_to_the_last_after_a_restart() {
    const GROWING: usize = 3_000;
    let held = GROWING - GROWTH_BUDGET as usize;
    let server = site(|_, path| match path {
        "/" => links((0..GROWING).map(|number| format!("/a/a/a/a/a/{number}"))),
        _ => text("page"),
    });
    let begun = || crawl(&server, Follow::Host, &["trap.test"], &["http://trap.test/"]);
    let running = begun().start();
    let all_held = |pending: u64| pending == held as u64 + 1;
    running.totals_are("all are held back", |totals| all_held(totals.urls_pending) && totals.in_flight == 0).await;
    let folder = stop(running).await;
    assert_eq!(resume(folder.path(), &Config::default()).expect("whole").expect("there").held.len(), held);

    let mut again = begun();
    again.resume_in(folder);
    let mut running = again.start();
    let is_trap = |kind| kind == Some(ConcernKind::Trap);
    running.host_is("trap.test", |view| is_trap(view.concern.map(|concern| concern.kind))).await;
    let before = server.arrivals().iter().filter(|arrival| arrival.path.starts_with("/a/")).count();
    assert_eq!(before, GROWTH_BUDGET as usize);
    // One of them is dropped, the others may go.
    let answer = running.change(Change::Exclude(String::from("/a/2999$"))).await;
    assert!(answer.text.as_str().contains(": 1 queued URLs removed"), "{answer:?}");
    let answer = running.change(Change::Allow(String::from("^http://trap.test/a/"))).await;
    assert!(answer.text.as_str().contains(&format!("{} URLs let go", held - 1)), "{answer:?}");
    running.totals_are("all are done", |totals| totals.urls_pending == 1 && totals.in_flight == 0).await;
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    let seen = pages_asked(&server);
    let growing: BTreeSet<&String> = seen.iter().filter(|path| path.starts_with("/a/")).collect();
    assert_eq!(growing.len(), GROWING - 1, "all, but what was excluded");
    assert_eq!(ended.fates(), (GROWING as u64, 0, 1, 1));
}

/// A calendar is fetched as far as its budget goes, in however many processes.
#[tokio::test]
async fn case_56_a_budget_that_is_half_used_up_is_so_after_a_restart() {
    const CALENDAR: usize = 2 + RUN_FREE as usize + RUN_BUDGET as usize;
    let server = site(|host, path| match host {
        "trap.test" => {
            let year: u32 = path.rsplit('=').next().and_then(|year| year.parse().ok()).unwrap_or_default();
            text(&format!("<a href='/cal?year={}'>next</a>", year + 1))
        }
        _ => text("page"),
    });
    let begun = || {
        let mut crawl = crawl(&server, Follow::Host, &["trap.test"], &["http://trap.test/cal?year=0"]);
        let policy = crawl.policy("trap.test");
        (policy.original.rate, policy.original.capacity) = (200.0, 1.0);
        crawl
    };
    let running = begun().start();
    running.totals_are("half of it", |totals| totals.urls_done >= CALENDAR as u64 / 2).await;
    let mut again = begun();
    again.resume_in(stop(running).await);
    let running = again.start();
    running.totals_are("it is held back", |totals| totals.counts.trapped == 1 && totals.urls_pending == 2).await;
    let folder = stop(running).await;
    drop(folder);
    let asked = server.arrivals();
    let years: BTreeSet<&str> =
        asked.iter().map(|arrival| &*arrival.path).filter(|path| path.starts_with("/cal")).collect();
    assert_eq!(years.len(), CALENDAR, "as many as in one process");
}

/// The bound of the hosts that links make known counts those of the processes before.
#[tokio::test]
async fn case_16_the_bound_of_names_without_end_holds_over_a_restart() {
    const NAMES: u32 = 700;
    let server = site(|host, path| match (host, path) {
        ("trap.test", "/1") => links((0..NAMES).map(|n| format!("//n{n}.trap.test/"))),
        ("trap.test", "/2") => links((NAMES..2 * NAMES).map(|n| format!("//n{n}.trap.test/"))),
        _ => text("page"),
    });
    let names: Vec<String> = (0..2 * NAMES).map(|n| format!("n{n}.trap.test")).collect();
    let begun = |url: &str| {
        let hosts: Vec<&str> = names.iter().map(String::as_str).chain(["trap.test"]).collect();
        let mut crawl = crawl(&server, Follow::Domain, &hosts, &[url]);
        crawl.config.crawl.respect_robots = false;
        crawl.url("http://slow.test/2");
        crawl
    };
    let running = begun("http://trap.test/1").start();
    running.totals_are("all are done", |totals| totals.urls_done == u64::from(NAMES) + 2).await;
    let mut again = begun("http://trap.test/2");
    again.resume_in(stop(running).await);
    let running = again.start();
    running.logged("more than 1000 hosts of trap.test").await;
    running.totals_are("all are done", |totals| totals.urls_pending == 1 && totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    let hosts: BTreeSet<String> = server.arrivals().into_iter().map(|arrival| arrival.host).collect();
    assert_eq!(hosts.iter().filter(|host| host.starts_with('n')).count(), HOSTS_PER_DOMAIN as usize);
    assert_eq!(ended.end.totals.counts.hosts, HOSTS_PER_DOMAIN + 2);
}

/// What a redirect of a link led to is known, though no URL of the crawl has that name.
#[tokio::test]
async fn case_89_the_target_of_a_redirect_is_not_fetched_again_after_a_restart() {
    let server = site(|_, path| match path {
        "/0" => links([String::from("/moved")]),
        "/moved" => redirect("/target"),
        "/9" => links([String::from("/target"), String::from("/other")]),
        _ => text("page"),
    });
    let running = crawl(&server, Follow::Host, &["a.test"], &["http://a.test/0"]).start();
    running.totals_are("the redirect ended", |totals| totals.urls_done == 2 && totals.in_flight == 0).await;
    let mut again = crawl(&server, Follow::Host, &["a.test"], &["http://a.test/9"]);
    again.resume_in(stop(running).await);
    let running = again.start();
    running.totals_are("all else is done", |totals| totals.urls_done == 4 && totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    let mut counts = BTreeMap::new();
    for path in pages_asked(&server) {
        *counts.entry(path).or_insert(0) += 1;
    }
    assert_eq!((counts["/target"], counts["/other"], counts["/9"]), (1, 1, 1));
    assert_eq!(ended.kind(RequestKind::Redirect), 1);
}

/// A sitemap is as large as the format lets it be: it is taken in steps, and whole.
#[tokio::test]
async fn case_66_a_sitemap_of_fifty_thousand_urls_is_taken_whole() {
    const URLS: u64 = 50_000;
    let map: String = (0..URLS).map(|number| format!("http://a.test/{number}\n")).collect();
    let server = LabServer::start(Box::new(move |_, request, _| match request.path {
        "/robots.txt" => text("Sitemap: http://a.test/map.txt\n"),
        "/map.txt" => SimResponse { headers: vec![("content-type", "text/plain".into())], ..text(&map) },
        _ => text("page"),
    }));
    let mut crawl = crawl(&server, Follow::None, &["a.test"], &["http://a.test/first"]);
    crawl.config.crawl.sitemaps = true;
    let policy = crawl.policy("a.test");
    // The page and the sitemap are asked for, and nothing after them.
    (policy.original.rate, policy.original.capacity) = (0.001, 3.0);
    let running = crawl.start();
    let taken = |done: u64, pending: u64| done == 2 && pending == URLS + 1;
    running.totals_are("the sitemap is done", |totals| taken(totals.urls_done, totals.urls_pending)).await;
    let folder = stop(running).await;
    let loaded = resume(folder.path(), &Config::default()).expect("whole").expect("there");
    assert_eq!((loaded.counts.done, loaded.pending()), (2, URLS + 1));
}

#[tokio::test]
async fn wanted_22_what_headers_told_of_a_limit_stands_after_a_restart() {
    let server = site(|host, _| match host {
        "told.test" => SimResponse {
            headers: vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", "3600".into())],
            ..text("page")
        },
        _ => text("page"),
    });
    let begun = || {
        let mut crawl = crawl(&server, Follow::None, &["told.test", "free.test"], &[]);
        crawl.policy("told.test").connections = 1;
        crawl.pages("told.test", 20);
        crawl
    };
    let running = begun().start();
    running.totals_are("one was asked", |totals| totals.urls_done == 1 && totals.in_flight == 0).await;
    let of_told = || server.arrivals().iter().filter(|arrival| arrival.host.starts_with("told.test")).count();
    let before = of_told();
    let folder = stop(running).await;
    let mut again = begun();
    again.pages("free.test", 50);
    again.resume_in(folder);
    let running = again.start();
    running.totals_are("the others are done", |totals| totals.urls_done == 51).await;
    assert_eq!(of_told(), before, "nothing more went there");
    drop(stop(running).await);
}

#[tokio::test]
async fn wanted_14_what_was_done_before_a_restart_can_be_undone_after_it() {
    let server = site(|_, _| text("page"));
    let begun = || crawl(&server, Follow::None, &["a.test"], &["http://a.test/1"]);
    let mut running = begun().start();
    running.act(Command::Pause(Lifetime::Default), &["slow.test"]).await;
    running.act(Command::Halt, &[]).await;
    running.act(Command::Undo, &[]).await;
    let mut again = begun();
    again.resume_in(stop(running).await);
    let mut running = again.start();
    running.host_is("slow.test", |view| view.state == HostState::Paused).await;
    // The halt was taken back already: it can be made again, then both are taken back.
    let answer = running.act(Command::Redo, &[]).await;
    assert!(answer.text.as_str().contains("redone: crawl halted"), "{answer:?}");
    running.totals_are("halted", |totals| totals.halted).await;
    for what in ["halt", "pause"] {
        let answer = running.act(Command::Undo, &[]).await;
        assert!(answer.changed == 1 && answer.text.as_str().contains(what), "{answer:?}");
    }
    running.host_is("slow.test", |view| view.state != HostState::Paused).await;
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    assert_eq!(ended.events_of(What::Undo).len(), 1, "of the pause; the halt has words of its own");
}

/// A name that nobody knows: no answer ever came.
struct NoName(Arc<AtomicUsize>);

impl Fetch for NoName {
    fn fetch(&self, _: FetchRequest) -> ReplyFuture {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Reply::failed(Outcome::Dns, "no such name")))
    }
}

#[tokio::test]
async fn case_76_a_name_that_does_not_exist_is_asked_for_just_so_often_over_a_restart() {
    const RETRIES: u32 = 6;
    for respect_robots in [false, true] {
        let asked = Arc::new(AtomicUsize::new(0));
        let begun = || {
            let mut crawl = Crawl::new();
            crawl.config.crawl.respect_robots = respect_robots;
            crawl.config.crawl.retries = RETRIES;
            crawl.config.settings.backoff.base = Duration::from_millis(200);
            crawl.config.settings.backoff.max = Duration::from_millis(200);
            crawl.url("http://nowhere.test/");
            crawl.fetch_with(Arc::new(NoName(Arc::clone(&asked))));
            crawl
        };
        let running = begun().start();
        running.totals_are("two attempts", |totals| totals.requests >= 2 && totals.in_flight == 0).await;
        let folder = stop(running).await;
        let before = asked.load(Ordering::Relaxed);
        assert!(before < RETRIES as usize, "the test is to stop it half way");
        let mut again = begun();
        again.resume_in(folder);
        let ended = again.run().await;
        assert_eq!(ended.fates(), (0, 1, 0, 0));
        assert_eq!((asked.load(Ordering::Relaxed), ended.rows.len()), (RETRIES as usize, RETRIES as usize));
    }
}
