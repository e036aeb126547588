//! What a server's refusals do: holds of the whole host, one cut an incident, nothing lost.

use std::time::{Duration, SystemTime};

use crawldeck::control::{Amount, Command, Lifetime, Outcome, OverrideSpec, What};
use crawldeck::sim::SimResponse;
use crawldeck::watch::Request;

use crate::support::answers::{after, by_page, by_turn, pages_asked, status, steady, text, with_header};
use crate::support::engine::Crawl;
use crate::support::lab::{Column, LabServer};
use crate::support::oracle::{in_window, pages_ok, refusals};
use crate::support::raw_server::{RawServer, Step, answer, response, write};

/// Requests under way when a refusal is given arrive within this.
fn grace(server: &LabServer) -> Duration {
    server.jitter() * 3
}

/// The `turn`-th page is refused, all others are there.
fn refuses(turn: u32, refusal: impl Fn() -> SimResponse + Send + 'static) -> LabServer {
    by_page(move |page| if page == turn { refusal() } else { text("page") })
}

/// Two hosts, one that refuses its tenth page once: nobody asks it anything before its time, and the
/// other goes on meanwhile.
async fn assert_waits(refusal: impl Fn() -> SimResponse + Send + 'static, at_least: Duration) {
    let (held, other) = (refuses(9, refusal), steady());
    let mut crawl = Crawl::new();
    crawl.rate(50.0, 4.0);
    for (name, server) in [("held.test", &held), ("other.test", &other)] {
        crawl.host(name, server);
        crawl.pages(name, 30);
    }
    let ended = crawl.run().await;
    ended.assert_all_done(60);
    ended.assert_rows_are(&[&held, &other]);
    assert_eq!(ended.count(Outcome::Throttled), 1);
    let arrivals = held.arrivals();
    let refused = arrivals.iter().find(|one| matches!(one.status, 429 | 503)).expect("refused once");
    let answered = refused.answered.expect("answered");
    let early: Vec<Duration> = arrivals
        .iter()
        .map(|one| one.at)
        .filter(|at| *at > answered + grace(&held) && *at < answered + at_least)
        .collect();
    assert!(early.is_empty(), "{early:?}: nothing for {at_least:?} after {answered:?}");
    // By order, not by the clock: the other host was done before the held one was asked again.
    let again = ended.rows.iter().filter(|row| row.host.as_str() == "held.test").max_by_key(|row| row.time);
    let done = ended.rows.iter().filter(|row| row.host.as_str() == "other.test").map(|row| row.time).max();
    assert!(done < again.map(|row| row.time), "the other host did not wait");
    assert_eq!(ended.whys(What::Hold, "held.test").len(), 1);
    assert_eq!(ended.whys(What::Hold, "other.test").len(), 0);
}

#[tokio::test]
async fn wanted_01_row_08_retry_after_in_seconds_on_429_holds_the_whole_host() {
    assert_waits(|| with_header(429, "retry-after", "6"), Duration::from_secs(6)).await;
}

#[tokio::test]
async fn case_30_retry_after_counts_on_503_too() {
    assert_waits(|| with_header(503, "retry-after", "6"), Duration::from_secs(6)).await;
}

#[tokio::test]
async fn wanted_01_row_08_retry_after_as_a_date_holds_the_whole_host() {
    let date = || {
        #[allow(clippy::disallowed_methods, reason = "a server has a clock of its own")]
        let now = SystemTime::now();
        let mut answer = with_header(429, "retry-after", httpdate::fmt_http_date(now + Duration::from_secs(7)));
        answer.headers.push(("date", httpdate::fmt_http_date(now)));
        answer
    };
    // Both are in whole seconds: at least six of the seven are left.
    assert_waits(date, Duration::from_secs(6)).await;
}

#[tokio::test]
async fn case_30_retry_after_zero_leaves_our_own_least_wait() {
    assert_waits(|| with_header(429, "retry-after", "0"), Duration::from_secs(5)).await;
}

#[tokio::test]
async fn case_06_the_next_request_waits_as_long_as_the_refused_one() {
    // The refused URL and every other one: the whole queue stands still, one probe goes, then the rest.
    let server = refuses(0, || with_header(429, "retry-after", "6"));
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.settings.policies[0].connections = 1;
    crawl.pages("host.test", 5);
    let ended = crawl.run().await;
    ended.assert_all_done(5);
    let arrivals: Vec<_> = server.arrivals().into_iter().filter(|one| one.path != "/robots.txt").collect();
    assert_eq!(arrivals.len(), 6);
    let answered = arrivals[0].answered.expect("answered");
    assert!(arrivals[1..].iter().all(|one| one.at >= answered + Duration::from_secs(6)));
    assert_eq!(arrivals[0].path, arrivals[1].path, "the refused URL is the probe");
    assert!(arrivals[2].at >= arrivals[1].answered.expect("answered"), "the probe goes alone");
}

#[tokio::test]
async fn case_28_two_hundred_urls_of_one_host_wait_together() {
    let server = refuses(2, || with_header(429, "retry-after", "600"));
    let mut crawl = Crawl::new();
    crawl.host("feeds.test", &server);
    crawl.config.settings.policies[0].connections = 1;
    crawl.pages("feeds.test", 200);
    let running = crawl.start();
    let view = running.host_is("feeds.test", |view| view.hold.is_some()).await;
    let left = view.hold_left(view.as_of).expect("held");
    assert!(left > Duration::from_secs(590), "{left:?}");
    running.ask(crawldeck::watch::Request::Drain).await;
    let ended = running.end().await;
    // Two pages were there, the third was refused, nobody else even tried; no attempt was used up.
    assert_eq!(pages_asked(&server).len(), 3);
    assert_eq!(ended.fates(), (2, 0, 0, 198));
    assert_eq!(ended.whys(What::Hold, "feeds.test"), ["429, server asked to retry after 600 s"]);
}

#[tokio::test]
async fn case_02_retries_of_a_throttled_host_cost_no_attempt() {
    // Twice refused in a row, with one attempt for each URL: nothing is lost.
    let server = by_page(|page| if page < 2 { status(429) } else { text("page") });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.crawl.retries = 1;
    crawl.config.settings.policies[0].connections = 1;
    crawl.pages("host.test", 3);
    let ended = crawl.run().await;
    ended.assert_all_done(3);
    assert!(ended.rows.iter().all(|row| row.attempt == 1));
    let arrivals = server.arrivals();
    let refused: Vec<_> = arrivals.iter().filter(|one| one.status == 429).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused[1].at >= refused[0].answered.expect("answered") + Duration::from_secs(5));
}

#[tokio::test]
async fn case_20_thirteen_of_twenty_four_pages_refused_once_and_all_arrive() {
    let server = by_turn(|path, turn| match path {
        "/robots.txt" => status(404),
        _ => {
            let page: u32 = path.trim_start_matches("/p/").parse().unwrap_or_default();
            // All are asked for before the first is answered: one incident.
            if page < 13 && turn == 0 { after(Duration::from_millis(300), status(429)) } else { text("page") }
        }
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.settings.policies[0].connections = 24;
    crawl.pages("host.test", 24);
    let ended = crawl.run().await;
    ended.assert_all_done(24);
    ended.assert_rows_are(&[&server]);
    assert_eq!(ended.count(Outcome::Throttled), 13);
    assert_eq!(ended.count(Outcome::Ok), 24);
}

#[tokio::test]
async fn wanted_03_thirty_refusals_in_flight_halve_once() {
    let server = by_turn(|path, turn| match path {
        "/robots.txt" => status(404),
        _ if turn == 0 => after(Duration::from_millis(500), status(429)),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.rate(400.0, 40.0).connections = 30;
    crawl.pages("host.test", 30);
    let ended = crawl.run().await;
    ended.assert_all_done(30);
    assert_eq!(ended.count(Outcome::Throttled), 30);
    assert_eq!(ended.cuts("host.test"), [(400.0, 200.0)]);
    let capacities = ended.events_of(What::Capacity);
    let cuts = capacities.iter().filter(|event| event.why.as_str().starts_with("throttled")).count();
    assert_eq!(cuts, 1, "{capacities:?}");
}

#[tokio::test]
async fn case_29_429_408_and_425_are_temporary() {
    let server = by_turn(|path, turn| match (path, turn) {
        ("/robots.txt", _) => status(404),
        ("/p/0", 0) => status(408),
        ("/p/1", 0) => status(425),
        ("/p/2", 0) => status(429),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 4);
    let ended = crawl.run().await;
    ended.assert_all_done(4);
    assert_eq!(ended.count(Outcome::Ok), 4);
    assert_eq!(ended.rows.len(), 1 + 4 + 3);
}

#[tokio::test]
async fn case_01_fast_503_never_speed_a_host_up() {
    let server = by_page(|_| status(503));
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.rate(100.0, 5.0).connections = 1;
    crawl.config.crawl.retries = 2;
    crawl.pages("host.test", 10);
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (0, 10, 0, 0));
    let rates: Vec<f64> = ended.rows.iter().map(|row| row.rate).collect();
    assert!(rates.is_sorted_by(|before, after| before >= after), "{rates:?}");
    assert!(rates.last() < rates.first());
}

#[tokio::test]
async fn wanted_06_fast_errors_leave_the_rate_equal_or_lower() {
    let server = by_page(|page| status([404, 500, 410, 400, 502][page as usize % 5]));
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.rate(100.0, 5.0).connections = 1;
    crawl.config.crawl.retries = 1;
    crawl.pages("host.test", 40);
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (24, 16, 0, 0));
    let rates: Vec<f64> = ended.rows.iter().map(|row| row.rate).collect();
    assert!(rates.is_sorted_by(|before, after| before >= after), "{rates:?}");
}

#[tokio::test]
async fn wanted_02_all_pages_arrive_from_the_server_that_refuses_without_a_word() {
    let server = LabServer::of_model(Column::TooManyBare.model());
    let mut crawl = Crawl::new();
    crawl.host("lab.test", &server);
    crawl.rate(10.0, 10.0).connections = 4;
    crawl.config.settings.backoff.base = Duration::from_secs(1);
    crawl.config.settings.backoff.max = Duration::from_secs(60);
    crawl.pages("lab.test", Column::PAGES);
    let ended = crawl.run().await;
    ended.assert_all_done(61);
    ended.assert_rows_are(&[&server]);
    let arrivals = server.arrivals();
    assert_eq!(pages_ok(&arrivals).len(), 61);
    assert!(refusals(&arrivals) <= 15, "{} refusals", refusals(&arrivals));
}

#[tokio::test]
async fn wanted_01_no_request_falls_into_the_windows_of_the_lab_servers() {
    let crawled = async |column: Column| {
        let server = LabServer::of_model(column.model());
        let mut crawl = Crawl::new();
        crawl.host("lab.test", &server);
        crawl.rate(20.0, 10.0).connections = 4;
        crawl.pages("lab.test", 20);
        let ended = crawl.run().await;
        ended.assert_all_done(20);
        let arrivals = server.arrivals();
        assert!(refusals(&arrivals) > 0, "{column:?}: a test that is never refused tests nothing");
        assert_eq!(in_window(&arrivals, grace(&server)).len(), 0, "{column:?}");
    };
    tokio::join!(crawled(Column::TooManyTold), crawled(Column::UnavailableTold));
}

#[tokio::test]
async fn wanted_09_a_host_in_a_hold_costs_the_healthy_ones_nothing() {
    let held = refuses(0, || with_header(429, "retry-after", "600"));
    let healthy: Vec<LabServer> = (0..19).map(|_| steady()).collect();
    let mut crawl = Crawl::new();
    crawl.config.settings.concurrency = 8;
    crawl.host("held.test", &held);
    // Its queue comes first: eight workers that waited for it would all be taken.
    crawl.pages("held.test", 50);
    for (number, server) in healthy.iter().enumerate() {
        crawl.host(&format!("h{number}.test"), server);
        crawl.pages(&format!("h{number}.test"), 10);
    }
    let running = crawl.start();
    running.totals_are("190 URLs done", |totals| totals.urls_done >= 190).await;
    let view = running.host_is("held.test", |view| view.hold.is_some()).await;
    assert!(view.hold_left(view.as_of).is_some());
    running.ask(crawldeck::watch::Request::Drain).await;
    let ended = running.end().await;
    for server in &healthy {
        assert_eq!(pages_asked(server).len(), 10);
    }
    assert_eq!(ended.end.totals.urls_done, 190 + (pages_asked(&held).len() as u64 - 1));
    assert!(pages_asked(&held).len() <= 4, "what was in flight when it refused, and nothing more");
}

#[tokio::test]
async fn a_wait_in_the_head_of_a_good_answer_holds_while_its_body_is_on_its_way() {
    let head = "HTTP/1.1 200 OK\r\nRetry-After: 600\r\nContent-Length: 1000\r\n\r\nno more than this";
    let robots = answer(response("404 Not Found", "", ""));
    let pages = vec![Step::Request, write(head), Step::Pause(Duration::from_secs(3_600))];
    let server = RawServer::start(vec![[robots, pages.clone()].concat(), pages]).await;
    let mut crawl = Crawl::new();
    crawl.host_at("host.test", server.address);
    crawl.rate(50.0, 1.0).connections = 4;
    crawl.pages("host.test", 20);
    let mut running = crawl.start();
    running.host_is("host.test", |view| view.hold.is_some() && view.in_flight > 0).await;
    let before = server.requests().len();
    // An override would let everything out, were it not for the hold.
    let fast = OverrideSpec {
        rate: Some(Amount::Absolute(10_000.0)),
        capacity: Some(Amount::Absolute(100.0)),
        lifetime: Lifetime::Default,
    };
    running.act(Command::Override(fast), &["host.test"]).await;
    running.host_is("host.test", |view| view.effective.rate > 50.0).await;
    assert_eq!(server.requests().len(), before);
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    assert_eq!(server.requests().len(), before);
    let held = ended.whys(What::Hold, "host.test");
    assert!(held.iter().all(|why| why == "200, server asked to retry after 600 s"), "{held:?}");
}
