//! Every wire request takes a token, and no window ever sees more than the bucket allows.

use std::time::Duration;

use crawldeck::config::EndpointRule;
use crawldeck::control::{EndpointPolicy, Original, Outcome, RequestKind, Shape};

use crate::support::answers::{by_turn, redirect, reset, status, steady, text, with_header};
use crate::support::engine::{Crawl, Ended};
use crate::support::lab::LabServer;
use crate::support::oracle::{Arrival, assert_envelope};

/// The server saw no more than rate and capacity allow; lateness of both sides is allowed for.
#[track_caller]
fn assert_kept(ended: &Ended, server: &LabServer, rate: f64, capacity: f64) {
    assert_envelope(&server.arrivals(), rate, capacity, server.jitter() + ended.lateness);
}

#[tokio::test]
async fn wanted_07_rows_and_arrivals_are_the_same_and_every_one_takes_a_token() {
    let first = by_turn(|path, turn| match (path, turn) {
        ("/robots.txt", _) => text("User-agent: *\nDisallow: /no/\n"),
        ("/p/1", 0) => status(500),
        ("/p/2", 0 | 1) => reset(),
        ("/p/3", _) => redirect("/p/30"),
        ("/p/4", _) => redirect("http://second.test/p/40"),
        ("/p/5", _) => status(404),
        ("/p/6", 0) => with_header(302, "set-cookie", "seen=1"),
        ("/p/7", _) => redirect("/p/7"),
        ("/p/8", 0) => status(503),
        _ => text("page"),
    });
    let second = by_turn(|path, _| match path {
        "/robots.txt" => redirect("/rules.txt"),
        _ => text("User-agent: nobody\nDisallow: /\n"),
    });
    let mut crawl = Crawl::new();
    crawl.host("first.test", &first);
    crawl.host("second.test", &second);
    crawl.rate(10.0, 2.0);
    crawl.pages("first.test", 9);
    crawl.url("http://first.test/no/1");
    crawl.url("http://second.test/p/1");
    let ended = crawl.run().await;
    ended.assert_rows_are(&[&first, &second]);
    // Hops and robots.txt count among the rows, each as what it is: /p/3, /p/4; and two of robots.txt with a hop.
    assert_eq!(ended.kind(RequestKind::Redirect), 2);
    assert_eq!(ended.kind(RequestKind::Robots), 3);
    // /p/6 has no Location; /p/7 leads to itself.
    assert_eq!(ended.fates(), (8, 2, 1, 0));
    assert_kept(&ended, &first, 10.0, 2.0);
    assert_kept(&ended, &second, 10.0, 2.0);
}

#[tokio::test]
async fn case_50_a_redirect_to_itself_that_sets_a_cookie_is_followed_once_it_is_there() {
    let server = LabServer::start(Box::new(|_, request, headers| match request.path {
        "/robots.txt" => status(404),
        "/sso" => {
            let mut answer = redirect("/p/0");
            answer.headers.push(("set-cookie", "pass=1".into()));
            answer
        }
        "/fresh" => {
            let mut answer = redirect("/fresh");
            let turn = headers.get("cookie").map_or(0, |cookie| cookie.len());
            answer.headers.push(("set-cookie", format!("turn={}", "x".repeat(turn + 1))));
            answer
        }
        _ if headers.contains_key("cookie") => text("page"),
        _ => redirect("/sso"),
    }));
    let mut crawl = Crawl::new();
    crawl.config.network.cookies = true;
    crawl.config.settings.policies[0].connections = 1;
    crawl.host("shop.test", &server);
    crawl.pages("shop.test", 1);
    crawl.url("http://shop.test/fresh");
    let ended = crawl.run().await;
    ended.assert_rows_are(&[&server]);
    // One page in three requests; the server with a fresh cookie each time ends at the cap.
    assert_eq!(ended.fates(), (1, 1, 0, 0));
    let asked = |wanted: &str| server.arrivals().iter().filter(|one| one.path == wanted).count();
    assert_eq!((asked("/p/0"), asked("/sso"), asked("/fresh")), (2, 1, 11));
}

#[tokio::test]
async fn wanted_08_sixty_urls_at_once_leave_in_the_buckets_time() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.rate(40.0, 5.0).connections = 60;
    crawl.pages("host.test", 60);
    let ended = crawl.run().await;
    ended.assert_all_done(60);
    ended.assert_rows_are(&[&server]);
    assert_kept(&ended, &server, 40.0, 5.0);
}

#[tokio::test]
async fn case_18_the_delay_is_the_hosts_and_not_each_connections() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    let policy = crawl.rate(10.0, 1.0);
    policy.shape = Shape::LeakyBucket;
    policy.connections = 8;
    crawl.pages("host.test", 20);
    let ended = crawl.run().await;
    ended.assert_all_done(20);
    assert_kept(&ended, &server, 10.0, 1.0);
}

#[tokio::test]
async fn case_03_waiters_do_not_pass_together_in_any_window() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    let policy = crawl.rate(20.0, 10.0);
    policy.shape = Shape::SlidingWindow;
    policy.connections = 60;
    crawl.pages("host.test", 55);
    let ended = crawl.run().await;
    ended.assert_all_done(55);
    // At most 10 in any half a second, but for the lateness of both sides.
    let times: Vec<Duration> = server.arrivals().iter().map(|arrival| arrival.at).collect();
    let late = server.jitter() + ended.lateness;
    for (first, eleventh) in times.iter().zip(times.iter().skip(10)) {
        assert!(*eleventh - *first + late >= Duration::from_millis(500), "{first:?} to {eleventh:?}");
    }
}

#[tokio::test]
async fn case_22_two_hosts_share_the_global_rate_and_neither_starves() {
    let servers = [steady(), steady(), steady()];
    let mut crawl = Crawl::new();
    crawl.config.settings.global_rate = Some(20.0);
    crawl.rate(15.0, 2.0);
    // Three in one place: a row of URLs of one host must not keep the others out.
    for (name, server) in ["a.test", "b.test", "c.test"].iter().zip(&servers) {
        crawl.host(name, server);
        crawl.pages(name, 15);
    }
    let ended = crawl.run().await;
    ended.assert_all_done(45);
    ended.assert_rows_are(&[&servers[0], &servers[1], &servers[2]]);
    // One clock for all: rows carry the client's own times, the moments of the grants.
    let mut sent: Vec<i64> = ended.rows.iter().map(|row| row.time.0).collect();
    sent.sort_unstable();
    let since = |time: &i64| Duration::from_micros(time.abs_diff(sent[0]));
    let times: Vec<Duration> = sent.iter().map(since).collect();
    let jitter = Duration::from_millis(2);
    let found = crate::support::oracle::envelope(&times, 20.0, 20.0, jitter);
    assert!(found.is_ok(), "{found:?}");
    // When the first host is done, the others are nearly so.
    let done_of = |host: &str| ended.rows.iter().rposition(|row| row.host.as_str() == host).unwrap_or_default();
    let first_done = ["a.test", "b.test", "c.test"].map(done_of).into_iter().min().unwrap_or_default();
    for host in ["a.test", "b.test", "c.test"] {
        let by_then = ended.rows[..=first_done].iter().filter(|row| row.host.as_str() == host).count();
        assert!(by_then >= 10, "{host}: {by_then} of 16 when the first host was done");
    }
}

#[tokio::test]
async fn a_page_that_fails_is_tried_so_often_and_listed() {
    let server = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        "/p/0" => status(500),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 3);
    let ended = crawl.run().await;
    ended.assert_rows_are(&[&server]);
    assert_eq!(ended.fates(), (2, 1, 0, 0));
    assert_eq!(ended.count(Outcome::ServerError), 3);
    let attempts: Vec<u32> =
        ended.rows.iter().filter(|row| row.url.as_str().ends_with("/p/0")).map(|row| row.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let asked: Vec<Arrival> = server.arrivals().into_iter().filter(|one| one.path == "/p/0").collect();
    // Its own backoff: 20 ms, then 40 ms, never earlier.
    assert!(asked[1].at - asked[0].at >= Duration::from_millis(20));
    assert!(asked[2].at - asked[1].at >= Duration::from_millis(40));
}

#[tokio::test]
async fn an_endpoint_has_a_bucket_of_its_own_under_its_hosts() {
    let server = by_turn(|path, turn| match (path, turn) {
        ("/robots.txt", _) => status(404),
        ("/api/3", 0) => with_header(503, "retry-after", "1"),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    let api = EndpointPolicy { original: Original { rate: 20.0, capacity: 2.0 }, cost: 1.0 };
    crawl.policy("host.test").endpoints.push(api);
    crawl.config.hosts[0].endpoints.push(EndpointRule {
        path: "/api/".into(),
        glob: None,
        inherits: Default::default(),
    });
    for page in 0..20 {
        crawl.url(format!("http://host.test/api/{page}"));
    }
    crawl.pages("host.test", 60);
    let ended = crawl.run().await;
    ended.assert_all_done(80);
    let api: Vec<Arrival> = server.arrivals().into_iter().filter(|one| one.path.starts_with("/api/")).collect();
    assert_envelope(&api, 20.0, 2.0, server.jitter() + ended.lateness);
    // The refusal cut the endpoint, not the host; the hold was the host's.
    assert_eq!(ended.endpoint_cuts("host.test"), [(20.0, 10.0)]);
    assert_eq!(ended.cuts("host.test"), []);
    assert!(ended.rows.iter().all(|row| row.rate == 1_000.0));
    let refused = api.iter().find(|one| one.status == 503).and_then(|one| one.answered).expect("refused once");
    let held = server.arrivals();
    let early =
        held.iter().filter(|one| one.at > refused + server.jitter() * 3 && one.at < refused + Duration::from_secs(5));
    assert_eq!(early.count(), 0);
}
