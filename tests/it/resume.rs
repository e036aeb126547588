//! A run that ends and goes on in its folder: nothing lost, nothing asked for twice, nothing forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crawldeck::clock::{Clock as _, SystemClock};
use crawldeck::control::prior::experience::Visited;
use crawldeck::control::prior::{Experience, Measured, Moment};
use crawldeck::control::{
    Amount, Command, ControllerKind, HoldReason, HostState, Lifetime, Outcome, OverrideSpec, RequestKind, What,
};
use crawldeck::memory::Memory;
use crawldeck::sim::{SimBody, SimRequest, SimResponse};
use crawldeck::watch::Request;
use hyper::HeaderMap;

use crate::support::engine::{Crawl, Ended};
use crate::support::lab::{Behaviour, LabServer};

fn page() -> SimResponse {
    SimResponse { status: 200, body: SimBody::Text("a page".into()), ..SimResponse::default() }
}

fn fine() -> Behaviour {
    Box::new(|_: Duration, _: &SimRequest<'_>, _: &HeaderMap| page())
}

fn asked(ended: &Ended) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::new();
    for row in ended.rows.iter().filter(|row| row.kind.known() == Some(RequestKind::Page)) {
        *asked.entry(row.url.as_str().to_owned()).or_default() += 1;
    }
    asked
}

/// Two hosts of 150 pages at 100/s each.
fn two_hosts(server: &LabServer) -> Crawl {
    let mut crawl = Crawl::new();
    crawl.config.crawl.respect_robots = false;
    crawl.rate(100.0, 5.0);
    for name in ["a.test", "b.test"] {
        crawl.host(name, server);
        crawl.pages(name, 150);
    }
    crawl
}

#[tokio::test(flavor = "multi_thread")]
async fn case_89_93_a_stopped_run_goes_on_and_asks_for_nothing_twice() {
    let server = LabServer::start(fine());
    let running = two_hosts(&server).start();
    running.totals_are("some pages", |totals| totals.urls_done >= 40).await;
    running.ask(Request::Stop).await;
    let (first, folder) = running.end_keeping().await;
    let (done, failed, skipped, pending) = first.fates();
    assert!((40..300).contains(&done) && failed + skipped == 0 && done + pending == 300, "{:?}", first.fates());

    let mut crawl = two_hosts(&server);
    crawl.resume_in(folder);
    let second = crawl.run().await;
    second.assert_all_done(300);
    // A request that was stopped has its row, and may never have arrived.
    assert!(server.arrivals().len() <= second.rows.len());
    let interrupted: BTreeSet<&str> = second
        .rows
        .iter()
        .filter(|row| row.outcome.known() == Some(Outcome::Local))
        .map(|row| row.url.as_str())
        .collect();
    for (url, times) in asked(&second) {
        assert_eq!(times, 1 + usize::from(interrupted.contains(url.as_str())), "{url}");
    }
    let resumed = second.events_of(What::ResumeRun);
    assert_eq!(resumed.len(), 1);
    assert!(resumed[0].why.as_str().contains(&format!("{pending} URLs pending on 2 hosts")), "{}", resumed[0].why);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_90_resuming_again_and_again_changes_no_byte_of_the_state() {
    let server = LabServer::start(fine());
    let mut running = two_hosts(&server).start();
    running.totals_are("some pages", |totals| totals.urls_done >= 20).await;
    running.act(Command::Halt, &[]).await;
    running.totals_are("nothing in flight", |totals| totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let (_, mut folder) = running.end_keeping().await;
    let before = state_of(folder.path());
    for _ in 0..3 {
        let mut crawl = two_hosts(&server);
        crawl.resume_in(folder);
        let running = crawl.start();
        running.totals_are("still halted, all read", |totals| totals.halted && totals.inputs_read).await;
        running.ask(Request::Stop).await;
        let ended;
        (ended, folder) = running.end_keeping().await;
        assert_eq!(state_of(folder.path()), before, "{:?}", ended.fates());
    }
}

fn state_of(folder: &std::path::Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder.join("state")).expect("a state").map(|entry| entry.expect("an entry"));
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("readable"))
    };
    files.map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_05_and_wanted_14_holds_overrides_pauses_and_learned_rates_stand_after_a_restart() {
    let server = LabServer::start(Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        if request.path == "/p/3" {
            return SimResponse { status: 429, headers: vec![("retry-after", "3600".into())], ..page() };
        }
        page()
    }));
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.config.crawl.respect_robots = false;
        crawl.rate(8.0, 2.0);
        for name in ["held.test", "paused.test", "set.test"] {
            crawl.host(name, &server);
            crawl.pages(name, 3);
        }
        crawl.url("http://held.test/p/3");
        crawl.pages("paused.test", 60);
        crawl.pages("set.test", 60);
        crawl.config.settings.policies[0].connections = 1;
        crawl
    };
    let mut start = crawl();
    start.config.crawl.retries = 3;
    let mut running = start.start();
    let lifetime = Lifetime::For(Duration::from_secs(7_200));
    running.act(Command::Pause(lifetime), &["paused.test"]).await;
    let spec = OverrideSpec { rate: Some(Amount::Absolute(0.25)), capacity: None, lifetime: Lifetime::Default };
    running.act(Command::Override(spec), &["set.test"]).await;
    let before = running.host_is("held.test", |view| view.hold.is_some()).await;
    running.ask(Request::Stop).await;
    let (_, folder) = running.end_keeping().await;
    let asked_of = |name: &str| server.arrivals().iter().filter(|one| one.host.starts_with(name)).count();
    let (held, paused) = (asked_of("held.test"), asked_of("paused.test"));

    let mut again = crawl();
    again.resume_in(folder);
    let running = again.start();
    let view = running.host_is("held.test", |view| view.hold.is_some()).await;
    let hold = view.hold.expect("held");
    assert!(matches!(hold.reason, HoldReason::RetryAfter { .. }), "{hold:?}");
    assert_eq!(hold.until, before.hold.expect("held").until, "the deadline stands");
    assert_eq!(view.adaptive.rate, before.adaptive.rate);
    assert!(view.adaptive.rate < 8.0, "what it learned stands");
    let view = running.host_is("paused.test", |view| view.state == HostState::Paused).await;
    assert!(view.pause.is_some_and(|pause| pause.until.is_some()), "with its lifetime");
    let view = running.host_is("set.test", |view| view.overriding.is_some()).await;
    assert_eq!(view.overriding.and_then(|one| one.rate), Some(0.25));
    running.totals_are("all read", |totals| totals.inputs_read).await;
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    assert_eq!((asked_of("held.test"), asked_of("paused.test")), (held, paused), "nothing more went there");
    assert!(ended.fates().3 > 0);
}

/// What the run's own folder says of a host is newer than what the memory file says.
#[tokio::test(flavor = "multi_thread")]
async fn wanted_22_the_state_of_a_resumed_run_beats_the_memory_file() {
    let server = LabServer::start(Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        if request.path == "/p/3" {
            return SimResponse { status: 429, headers: vec![("retry-after", "3600".into())], ..page() };
        }
        page()
    }));
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.config.crawl.respect_robots = false;
        crawl.rate(20.0, 2.0);
        crawl.config.settings.policies[0].connections = 1;
        crawl.config.settings.policies[0].kind = ControllerKind::Adaptive;
        crawl.host("own.test", &server);
        crawl.host("new.test", &server);
        crawl.pages("own.test", 6);
        crawl
    };
    let running = crawl().start();
    let before = running.host_is("own.test", |view| view.hold.is_some()).await;
    running.ask(Request::Stop).await;
    let (_, folder) = running.end_keeping().await;
    assert!(before.adaptive.rate > 2.0, "{:?}", before.adaptive);

    let memory = Memory::at(folder.path().join("memory"));
    let of = |host: &str| {
        let measured = Measured { limit: 1.5, samples: 500.0, burst: 3.0, steady: 900.0, ..Measured::default() };
        let at = Moment(u64::try_from(SystemClock::new().wall().0 / 1_000_000).expect("after 1970"));
        (host.to_owned(), Experience { measured, at, ..Experience::default() }, Visited::default())
    };
    memory.merge(&[of("own.test"), of("new.test")]).expect("written");
    let mut again = crawl();
    again.pages("new.test", 2);
    again.remember(memory);
    again.resume_in(folder);
    let running = again.start();
    let new = running.host_is("new.test", |view| view.adaptive.rate < 20.0).await;
    assert!((1.2..=1.5).contains(&new.adaptive.rate), "the memory is used: {:?}", new.adaptive);
    let own = running.host_is("own.test", |view| view.hold.is_some()).await;
    assert_eq!((own.adaptive, own.hold), (before.adaptive, before.hold));
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    let told = |host: &str| ended.whys(What::Rate, host).iter().any(|why| why.contains("remembered"));
    assert!(told("new.test") && !told("own.test"), "{:?}", ended.whys(What::Rate, "own.test"));
}

#[tokio::test(flavor = "multi_thread")]
async fn case_76_attempts_are_counted_over_a_restart() {
    let server = LabServer::start(Box::new(|_: Duration, _: &SimRequest<'_>, _: &HeaderMap| SimResponse {
        status: 500,
        ..page()
    }));
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.config.crawl.respect_robots = false;
        crawl.config.crawl.retries = 4;
        crawl.config.settings.backoff.base = Duration::from_millis(300);
        crawl.config.settings.backoff.max = Duration::from_millis(300);
        crawl.host("bad.test", &server);
        crawl.pages("bad.test", 5);
        crawl
    };
    let running = crawl().start();
    running.totals_are("the first attempts", |totals| totals.requests >= 5 && totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let (first, folder) = running.end_keeping().await;
    assert!(first.rows.len() < 20, "the test is to stop it half way");
    let mut again = crawl();
    again.resume_in(folder);
    let ended = again.run().await;
    assert_eq!(ended.fates(), (0, 5, 0, 0));
    assert!(asked(&ended).values().all(|times| *times == 4), "{:?}", asked(&ended));
    let mut attempts: Vec<u32> = ended.rows.iter().map(|row| row.attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_41_robots_txt_is_kept_with_its_age() {
    let server = LabServer::start(Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        if request.path == "/robots.txt" {
            let rules = "User-agent: *\nDisallow: /p/1\n";
            return SimResponse { body: SimBody::Text(rules.into()), ..page() };
        }
        page()
    }));
    let crawl = |from: u32| {
        let mut crawl = Crawl::new();
        crawl.host("r.test", &server);
        for number in from..from + 3 {
            crawl.url(format!("http://r.test/p/{number}"));
        }
        crawl
    };
    let (first, folder) = crawl(0).start().end_keeping().await;
    assert_eq!(first.fates(), (2, 0, 1, 0));
    let mut again = crawl(9);
    again.resume_in(folder);
    let second = again.run().await;
    // 9 may be fetched; 10 and 11 begin as what the rules of the first process forbid.
    assert_eq!(second.fates(), (3, 0, 3, 0));
    assert_eq!(second.kind(RequestKind::Robots), 1, "asked for once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_under_way_goes_on_where_it_was() {
    let server = LabServer::start(Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        if request.path.starts_with("/p/") {
            let to = request.path.replace("/p/", "http://there.test/end/");
            return SimResponse { status: 302, headers: vec![("location", to)], ..page() };
        }
        page()
    }));
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.config.crawl.respect_robots = false;
        crawl.host("here.test", &server);
        crawl.host("there.test", &server);
        crawl.pages("here.test", 4);
        crawl
    };
    let mut start = crawl();
    // The target is known, and does not answer before the run is stopped.
    start.url("http://there.test/first");
    start.policy("there.test").original.rate = 0.01;
    start.config.settings.policies[1].original.capacity = 1.0;
    let running = start.start();
    running.totals_are("the redirects", |totals| totals.requests >= 5 && totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let (_, folder) = running.end_keeping().await;
    let mut again = crawl();
    again.resume_in(folder);
    let ended = again.run().await;
    assert_eq!(ended.fates(), (5, 0, 0, 0));
    let firsts = asked(&ended);
    assert!(firsts.iter().all(|(_, times)| *times == 1), "no first hop is made again: {firsts:?}");
    assert_eq!(ended.kind(RequestKind::Redirect), 4);
}

/// A page of each host links on within it. One host is an input, the other what an input redirected to.
#[tokio::test(flavor = "multi_thread")]
async fn case_89_what_was_in_scope_is_so_before_the_inputs_are_read_again() {
    let server = LabServer::start(Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        let number: u32 = request.path.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        match (request.host, request.path) {
            (_, "/robots.txt") => SimResponse { status: 404, ..page() },
            ("moved.test", _) => {
                let to = String::from("http://www.moved.test/p/0");
                SimResponse { status: 301, headers: vec![("location", to)], ..page() }
            }
            _ if number < 40 => {
                let next = format!("<a href='/p/{}'>next</a>", number + 1);
                let headers = vec![("content-type", String::from("text/html"))];
                SimResponse { headers, body: SimBody::Text(next), ..page() }
            }
            _ => page(),
        }
    }));
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.config.crawl.follow = crawldeck::config::Follow::Host;
        crawl.rate(40.0, 1.0);
        for name in ["given.test", "moved.test", "www.moved.test"] {
            crawl.host(name, &server);
        }
        crawl
    };
    let mut start = crawl();
    start.url("http://given.test/p/0");
    start.url("http://moved.test/");
    let running = start.start();
    running.totals_are("some of each", |totals| totals.urls_done >= 12).await;
    running.ask(Request::Stop).await;
    let (first, folder) = running.end_keeping().await;
    assert!((12..82).contains(&first.fates().0), "the test is to stop it half way: {:?}", first.fates());

    // No input names them now.
    let mut again = crawl();
    again.resume_in(folder);
    let ended = again.run().await;
    ended.assert_all_done(82);
}

/// As after a kill between the writing of a robots.txt and that of its sitemaps.
#[tokio::test(flavor = "multi_thread")]
async fn case_41_sitemaps_of_a_robots_txt_that_is_known_already_are_read() {
    let server = LabServer::start(Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        let text = match request.path {
            "/robots.txt" => "User-agent: *\nDisallow:\nSitemap: http://r.test/map.txt\n",
            "/map.txt" => "http://r.test/p/7\nhttp://r.test/p/8\n",
            _ => "a page",
        };
        let headers = vec![("content-type", String::from("text/plain"))];
        SimResponse { headers, body: SimBody::Text(text.into()), ..page() }
    }));
    let crawl = |sitemaps: bool| {
        let mut crawl = Crawl::new();
        crawl.config.crawl.sitemaps = sitemaps;
        crawl.host("r.test", &server);
        crawl.pages("r.test", 2);
        crawl
    };
    let (first, folder) = crawl(false).start().end_keeping().await;
    first.assert_all_done(2);
    let mut again = crawl(true);
    again.resume_in(folder);
    let (second, folder) = again.start().end_keeping().await;
    second.assert_all_done(5);
    assert_eq!((second.kind(RequestKind::Robots), second.kind(RequestKind::Sitemap)), (1, 1));
    // And but once.
    let mut last = crawl(true);
    last.resume_in(folder);
    let last = last.run().await;
    last.assert_all_done(5);
    assert_eq!(last.kind(RequestKind::Sitemap), 1);
}
