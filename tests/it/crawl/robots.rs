//! robots.txt over the wire: before the first page, once a host, and in doubt no page at all.

use std::time::Duration;

use crawldeck::control::{HoldReason, Outcome, RequestKind, What};
use crawldeck::watch::Request;

use crate::support::answers::{after, by_turn, pages_asked, redirect, reset, robots_asked, status, steady, text};
use crate::support::engine::Crawl;
use crate::support::raw_server::{Identity, RawServer, Step, answer};

/// A host whose robots.txt cannot be had sees no page; the other host is crawled to its end; then the
/// crawl is drained. `refused` is what the robots request ends in.
async fn assert_no_page(bad: std::net::SocketAddr, scheme: &str, refused: Outcome, change: impl FnOnce(&mut Crawl)) {
    let good = steady();
    let mut crawl = Crawl::new();
    // A wait that no test reaches: one try is all there is to see.
    crawl.config.settings.backoff.base = Duration::from_secs(60);
    crawl.config.settings.backoff.max = Duration::from_secs(60);
    crawl.host_at("bad.test", bad);
    crawl.host("good.test", &good);
    for page in 0..20 {
        crawl.url(format!("{scheme}://bad.test/p/{page}"));
    }
    crawl.pages("good.test", 20);
    change(&mut crawl);
    let running = crawl.start();
    let view = running.host_is("bad.test", |view| view.hold.is_some()).await;
    assert!(view.in_flight == 0 && view.queued == 20, "{view:?}");
    running.totals_are("the good host is done", |totals| totals.urls_done == 20).await;
    let held = running.host_is("bad.test", |view| view.hold.is_some()).await;
    assert!(matches!(held.hold.map(|hold| hold.reason), Some(HoldReason::RobotsUnreachable | HoldReason::Network(_))));
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    let bad: Vec<_> = ended.rows.iter().filter(|row| row.host.as_str() == "bad.test").collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert_eq!(bad[0].kind.known(), Some(RequestKind::Robots));
    assert_eq!(bad[0].outcome.known(), Some(refused), "{bad:?}");
    assert_eq!(ended.fates(), (20, 0, 0, 20));
    // One state a host, said once, not once a URL.
    let said = ended.whys(What::Hold, "bad.test");
    let robots = said.iter().filter(|why| why.starts_with("robots.txt unreachable")).count();
    assert!(said.len() <= 2 && robots <= 1, "{said:?}");
}

#[tokio::test]
async fn case_31_robots_503_means_no_page() {
    let bad = by_turn(|path, _| if path == "/robots.txt" { status(503) } else { text("page") });
    assert_no_page(bad.addr(), "http", Outcome::ServerError, |_| {}).await;
    assert_eq!(pages_asked(&bad), [""; 0]);
}

#[tokio::test]
async fn case_31_robots_reset_means_no_page() {
    let bad = by_turn(|path, _| if path == "/robots.txt" { reset() } else { text("page") });
    assert_no_page(bad.addr(), "http", Outcome::ConnectionReset, |_| {}).await;
    assert_eq!(pages_asked(&bad), [""; 0]);
}

#[tokio::test]
async fn case_31_robots_that_never_answers_means_no_page() {
    let bad =
        by_turn(
            |path, _| {
                if path == "/robots.txt" { after(Duration::from_secs(3_600), status(404)) } else { text("page") }
            },
        );
    let change = |crawl: &mut Crawl| crawl.config.network.head_timeout = Duration::from_millis(1_500);
    assert_no_page(bad.addr(), "http", Outcome::Timeout, change).await;
    assert_eq!(pages_asked(&bad), [""; 0]);
}

#[tokio::test]
async fn case_31_robots_that_breaks_off_means_no_page() {
    let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nUser-agent: *\r\n";
    let bad = RawServer::start(vec![answer(broken)]).await;
    assert_no_page(bad.address, "http", Outcome::Incomplete, |_| {}).await;
    assert!(bad.requests().iter().all(|head| head.starts_with("GET /robots.txt ")));
}

#[tokio::test]
async fn case_42_a_tls_error_at_robots_is_one_hosts_state() {
    let identity = Identity::new("other.test");
    let bad = RawServer::start_tls(identity.acceptor(&["http/1.1"]), vec![vec![Step::Request]]).await;
    assert_no_page(bad.address, "https", Outcome::Tls, |_| {}).await;
    assert_eq!(bad.requests(), [""; 0]);
}

#[tokio::test]
async fn case_42_a_refused_connection_at_robots_is_one_hosts_state() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    assert_no_page(closed, "http", Outcome::Connect, |_| {}).await;
}

#[tokio::test]
async fn case_31_robots_is_tried_again_with_backoff_and_not_once_a_url() {
    // Ill twice, then well: then all pages come. Far fewer tries than URLs.
    let server = by_turn(|path, turn| match (path, turn) {
        ("/robots.txt", 0 | 1) => status(500),
        ("/robots.txt", _) => text("User-agent: *\nDisallow: /p/9\n"),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 40);
    let ended = crawl.run().await;
    // /p/9 alone is forbidden: nothing else begins with it below 40.
    assert_eq!(ended.fates(), (39, 0, 1, 0));
    let arrivals = server.arrivals();
    assert_eq!(robots_asked(&server), 3);
    assert!(arrivals[..3].iter().all(|one| one.path == "/robots.txt"), "no page before robots.txt is there");
    // Base 20 ms, then 40 ms.
    assert!(arrivals[1].at - arrivals[0].at >= Duration::from_millis(20));
    assert!(arrivals[2].at - arrivals[1].at >= Duration::from_millis(40));
}

#[tokio::test]
async fn case_40_robots_429_holds_the_host_and_no_page_goes() {
    let server = by_turn(|path, _| if path == "/robots.txt" { status(429) } else { text("page") });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.settings.backoff.base = Duration::from_secs(60);
    crawl.config.settings.backoff.max = Duration::from_secs(60);
    crawl.pages("host.test", 10);
    let running = crawl.start();
    let view = running.host_is("host.test", |view| view.hold.is_some()).await;
    assert!(view.hold_left(view.as_of).expect("held") > Duration::from_secs(50));
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    assert_eq!((robots_asked(&server), pages_asked(&server).len()), (1, 0));
    assert_eq!(ended.fates(), (0, 0, 0, 10));
    assert_eq!(ended.count(Outcome::Throttled), 1);
}

#[tokio::test]
async fn case_40_robots_403_allows_and_is_said() {
    let server = by_turn(|path, _| if path == "/robots.txt" { status(403) } else { text("page") });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 10);
    let ended = crawl.run().await;
    ended.assert_all_done(10);
    let notes = ended.whys(What::Anomaly, "host.test");
    assert!(notes.iter().any(|note| note.contains("robots.txt answers 403")), "{notes:?}");
}

/// Bucket key, robots.txt and Host of an address in brackets; what is no address is named and nothing else.
#[tokio::test]
async fn case_55_an_ipv6_literal_is_crawled_with_its_robots_txt() {
    use crate::support::raw_server::{RawServer, answer, response};
    let rules = answer(response("200 OK", "", "User-agent: *\nDisallow: /no\n"));
    let server =
        RawServer::start_at("[::1]:0", None, vec![[rules, answer(response("200 OK", "", "page"))].concat()]).await;
    let port = server.address.port();
    let mut crawl = Crawl::new();
    crawl.config.settings.policies[0].connections = 1;
    for path in ["yes", "no"] {
        crawl.url(format!("http://[::1]:{port}/{path}"));
    }
    for bad in ["http://[fe80::1%25eth0]/", "http://h:99999/"] {
        crawl.url(bad);
    }
    let ended = crawl.run().await;
    assert_eq!((ended.fates(), ended.end.totals.bad_lines), ((1, 0, 1, 0), 2));
    let sent = server.requests();
    assert_eq!(sent.len(), 2, "{sent:?}");
    for (head, path) in sent.iter().zip(["/robots.txt", "/yes"]) {
        assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{head}");
        assert!(head.to_ascii_lowercase().contains(&format!("\r\nhost: [::1]:{port}\r\n")), "{head}");
    }
    assert!(ended.rows.iter().all(|row| row.host.as_str() == format!("[::1]:{port}")), "{:?}", ended.rows);
}

#[tokio::test]
async fn case_41_a_thousand_urls_ask_for_robots_once() {
    let server = by_turn(|path, _| match path {
        // Long enough for every URL to come in meanwhile.
        "/robots.txt" => after(Duration::from_millis(300), text("User-agent: *\nDisallow: /no\n")),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.rate(1e6, 1e6).connections = 32;
    crawl.pages("host.test", 1_000);
    let ended = crawl.run().await;
    ended.assert_all_done(1_000);
    assert_eq!(robots_asked(&server), 1);
    assert_eq!(server.arrivals()[0].path, "/robots.txt");
    ended.assert_rows_are(&[&server]);
}

#[tokio::test]
async fn case_36_a_redirect_is_checked_against_the_rules_of_where_it_leads() {
    let from = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        _ => redirect("http://b.test/private/page"),
    });
    let to = by_turn(|path, _| match path {
        "/robots.txt" => text("User-agent: *\nDisallow: /private\n"),
        _ => text("secret"),
    });
    let mut crawl = Crawl::new();
    crawl.host("a.test", &from);
    crawl.host("b.test", &to);
    crawl.url("http://a.test/x");
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (0, 0, 1, 0));
    let seen: Vec<String> = to.arrivals().into_iter().map(|one| one.path).collect();
    assert_eq!(seen, ["/robots.txt"]);
    let skipped = ended.events_of(What::UrlSkipped);
    assert_eq!(skipped[0].url.as_ref().map(|url| url.as_str()), Some("http://a.test/x"));
    assert!(skipped[0].why.as_str().contains("robots.txt line 2"), "{:?}", skipped[0]);
}

#[tokio::test]
async fn robots_files_that_lead_to_each_other_end_and_stop_nobody() {
    let answer = |other: &'static str| {
        by_turn(move |path, _| match path {
            "/robots.txt" => after(Duration::from_millis(50), redirect(other)),
            _ => text("page"),
        })
    };
    let (a, b) = (answer("http://b.test/robots.txt"), answer("http://a.test/robots.txt"));
    let mut crawl = Crawl::new();
    crawl.host("a.test", &a);
    crawl.host("b.test", &b);
    crawl.pages("a.test", 5);
    crawl.pages("b.test", 5);
    let ended = crawl.run().await;
    // After five hops it is taken as if there were none (RFC 9309 2.3.1.2).
    ended.assert_all_done(10);
    ended.assert_rows_are(&[&a, &b]);
}

#[tokio::test]
async fn robots_that_lead_to_a_host_without_budget_leave_nobody_waiting() {
    let a = by_turn(|path, _| if path == "/robots.txt" { redirect("http://b.test/rules") } else { text("page") });
    let b = by_turn(|path, _| if path == "/robots.txt" { status(404) } else { text("page") });
    let mut crawl = Crawl::new();
    crawl.host("a.test", &a);
    crawl.host("b.test", &b);
    crawl.policy("b.test").max_requests = 1;
    // b spends its only request first.
    crawl.pages("b.test", 1);
    crawl.policy("a.test").original.rate = 1_000.0;
    crawl.url("http://a.test/p/0");
    let ended = crawl.run().await;
    let (done, failed, skipped, pending) = ended.fates();
    assert_eq!((done + failed + skipped, pending), (2, 0));
    assert_eq!(pages_asked(&a).len(), 0, "its rules were never had");
}

#[tokio::test]
async fn case_44_crawl_delay_is_a_gap_from_completion() {
    let work = Duration::from_millis(200);
    let server = by_turn(move |path, _| match path {
        "/robots.txt" => text("User-agent: *\nCrawl-delay: 1\n"),
        _ => after(work, text("page")),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.pages("host.test", 4);
    let ended = crawl.run().await;
    ended.assert_all_done(4);
    let arrivals = server.arrivals();
    for pair in arrivals.windows(2) {
        let ended = pair[0].answered.expect("answered");
        assert!(pair[1].at >= ended + Duration::from_secs(1), "{ended:?} to {:?}", pair[1].at);
    }
    assert_eq!(ended.whys(What::CrawlDelay, "host.test"), ["site asked for Crawl-delay 1 s"]);
}

#[tokio::test]
async fn a_scheme_that_does_not_work_stops_only_its_own_urls() {
    // Plain HTTP: whoever speaks TLS to it gets nowhere.
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.rate(200.0, 50.0);
    crawl.host("both.test", &server);
    crawl.url("https://both.test/secure");
    crawl.pages("both.test", 30);
    crawl.url("https://both.test/secure/too");
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (30, 2, 0, 0), "{:?}", ended.bad_events());
}
