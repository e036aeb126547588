//! What becomes of every URL: done, failed, skipped or pending, each once, each with its reason.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crawldeck::control::{Outcome, RequestKind, What};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, ReplyFuture};
use crawldeck::crawl::fetcher::HttpFetcher;

use crate::support::answers::{by_page, by_turn, pages_asked, redirect, status, steady, text};
use crate::support::engine::Crawl;

/// The real fetcher, but that it panics at one path.
struct Panicking(HttpFetcher);

impl Fetch for Panicking {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        match request.url.path() {
            "/p/3" => panic!("at once"),
            "/p/4" => Box::pin(async { panic!("while waiting") }),
            _ => self.0.fetch(request),
        }
    }
}

#[tokio::test]
async fn row_42_a_panic_in_a_worker_is_a_failed_fetch_and_nothing_more() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.crawl.retries = 2;
    crawl.pages("host.test", 20);
    let fetch = Panicking(crawl.real_fetch(None));
    crawl.fetch_with(Arc::new(fetch));
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (18, 2, 0, 0));
    let told = ended.whys(What::Anomaly, "host.test");
    for text in ["a worker panicked: at once", "a worker panicked: while waiting"] {
        assert_eq!(told.iter().filter(|why| why.as_str() == text).count(), 2, "{told:?}");
    }
    assert_eq!(ended.count(Outcome::Local), 4);
    // It is never held against the host.
    assert_eq!((ended.cuts("host.test").len(), ended.whys(What::Hold, "host.test").len()), (0, 0));
}

#[tokio::test]
async fn case_76_a_dead_host_is_asked_so_often_and_its_urls_are_listed() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    for (respect_robots, kind) in [(true, RequestKind::Robots), (false, RequestKind::Page)] {
        let mut crawl = Crawl::new();
        crawl.config.crawl.respect_robots = respect_robots;
        crawl.host_at("dead.test", closed);
        crawl.pages("dead.test", 1);
        let ended = crawl.run().await;
        assert_eq!(ended.fates(), (0, 1, 0, 0));
        assert_eq!((ended.rows.len(), ended.kind(kind), ended.count(Outcome::Connect)), (3, 3, 3));
    }
}

#[tokio::test]
async fn case_132_a_refused_address_is_listed_with_the_key_that_allows_it() {
    let server = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        "/away" => redirect("http://127.0.0.1:1/x"),
        _ => text("page"),
    });
    for respect_robots in [true, false] {
        let mut crawl = Crawl::new();
        crawl.config.network.allow_private = false;
        crawl.config.crawl.respect_robots = respect_robots;
        crawl.url(server.url("/p/0"));
        crawl.url("http://10.0.0.1/p/1");
        crawl.url("http://[::1]/p/2");
        crawl.url("http://169.254.169.254/latest");
        let ended = crawl.run().await;
        assert_eq!(ended.fates(), (0, 0, 4, 0));
        assert_eq!((ended.rows.len(), server.arrivals().len()), (0, 0));
        for event in ended.events_of(What::UrlSkipped) {
            assert!(event.why.as_str().contains("network.allow_private"), "{event:?}");
        }
    }
}

#[tokio::test]
async fn the_crawls_max_requests_is_a_limit_of_wire_requests() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.crawl.max_requests = 7;
    crawl.pages("host.test", 20);
    let ended = crawl.run().await;
    assert_eq!(server.arrivals().len(), 7);
    ended.assert_rows_are(&[&server]);
    assert_eq!(ended.fates(), (6, 0, 0, 14), "robots.txt is one of the seven");
}

#[tokio::test]
async fn a_hosts_max_requests_skips_the_rest_of_it_and_of_nobody_else() {
    let (limited, free) = (steady(), steady());
    let mut crawl = Crawl::new();
    crawl.host("limited.test", &limited);
    crawl.host("free.test", &free);
    crawl.policy("limited.test").max_requests = 5;
    crawl.pages("limited.test", 20);
    crawl.pages("free.test", 20);
    let ended = crawl.run().await;
    assert_eq!((limited.arrivals().len(), free.arrivals().len()), (5, 21));
    assert_eq!(ended.fates(), (24, 0, 16, 0));
}

#[tokio::test]
async fn a_url_that_must_go_again_to_a_host_without_budget_is_given_up_and_the_crawl_ends() {
    for code in [429, 500] {
        let server = by_turn(move |path, _| if path == "/robots.txt" { status(404) } else { status(code) });
        let mut crawl = Crawl::new();
        crawl.host("host.test", &server);
        crawl.policy("host.test").max_requests = 2;
        crawl.pages("host.test", 3);
        let ended = crawl.run().await;
        assert_eq!(ended.fates(), (0, 1, 2, 0));
        assert_eq!(server.arrivals().len(), 2);
    }
}

#[tokio::test]
async fn excluded_urls_are_never_fetched_and_said() {
    let server = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        "/p/1" => redirect("/logout?now"),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.config.crawl.exclude = vec![regex::Regex::new("logout").expect("a regex")];
    crawl.pages("host.test", 3);
    crawl.url("http://host.test/logout");
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (2, 0, 2, 0), "given by hand or reached by a redirect");
    assert!(!pages_asked(&server).iter().any(|path| path.contains("logout")));
    for event in ended.events_of(What::UrlSkipped) {
        assert!(event.why.as_str().contains("excluded by logout"), "{event:?}");
    }
}

#[tokio::test]
async fn bad_lines_are_named_counted_and_no_reason_to_stop() {
    let server = steady();
    let mut list = tempfile::NamedTempFile::new().expect("a file");
    list.write_all(b"http://host.test/p/1\nnonsense\n# note\nftp://host.test/\nhttp://host.test/p/2\n")
        .expect("written");
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.list(list.path());
    // The same page again, in two spellings: known already.
    crawl.url("http://host.test/p/1");
    crawl.url("HTTP://HOST.test:80/%70/1#part");
    let ended = crawl.run().await;
    ended.assert_all_done(2);
    assert_eq!(ended.end.totals.bad_lines, 2);
    let named: Vec<_> = ended.events_of(What::BadInput).iter().map(|event| event.why.as_str().to_owned()).collect();
    let file = list.path().display();
    assert_eq!(
        named,
        [format!("{file}:2: no scheme: write https:// in front"), format!("{file}:4: scheme is not http or https")]
    );
    assert_eq!(pages_asked(&server).len(), 2);
}

#[tokio::test]
async fn case_54_row_22_ten_spellings_of_a_host_are_one_bucket_and_one_page() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.host("xn--bcher-kva.test", &server);
    for host in ["bücher.test", "BÜCHER.test", "xn--bcher-kva.test", "XN--BCHER-KVA.TEST", "bücher.test:80"] {
        crawl.url(format!("http://{host}/p/0"));
    }
    let ended = crawl.run().await;
    ended.assert_all_done(1);
    assert_eq!(ended.end.totals.counts.hosts, 1);
    assert_eq!(server.arrivals().len(), 2);
}

#[tokio::test]
async fn wanted_25_a_host_that_only_refuses_is_given_up_with_its_urls_listed() {
    let (refusing, other) = (by_page(|_| status(429)), steady());
    let mut crawl = Crawl::new();
    crawl.config.settings.give_up_after = Duration::from_secs(3);
    for (name, server) in [("refusing.test", &refusing), ("other.test", &other)] {
        crawl.host(name, server);
        crawl.pages(name, 12);
    }
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (12, 12, 0, 0));
    assert_eq!(ended.whys(What::GiveUp, "refusing.test").len(), 1);
    for event in ended.events_of(What::UrlFailed) {
        assert!(event.why.as_str().starts_with("host given up: "), "{event:?}");
    }
    // Refusals cost no attempt: more of them than a URL has.
    assert!(ended.count(Outcome::Throttled) >= 4);
}

#[tokio::test]
async fn case_130_credentials_in_urls_reach_no_file_and_no_server() {
    let server = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        "/p/1" => redirect("http://mallory:CANARY-two@host.test/p/2"),
        "/p/3" => redirect("ftp://mallory:CANARY-three@host.test/p/2"),
        "/p/4" => status(500),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.host("host.test", &server);
    crawl.url("http://user:CANARY-one@host.test/p/0");
    crawl.url("http://CANARY-name@host.test/p/4");
    crawl.pages("host.test", 4);
    crawl.url("http://user:CANARY-four@host.test:99999/");
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (3, 2, 0, 0));
    assert!(!ended.written.contains("CANARY"), "{}", ended.written);
    assert!(!ended.log.iter().any(|line| line.contains("CANARY")));
    for arrival in server.arrivals() {
        assert!(!format!("{arrival:?}").contains("CANARY"), "{arrival:?}");
        assert!(arrival.headers.iter().all(|(name, _)| name != "authorization"));
    }
}

#[tokio::test]
async fn row_05_the_wire_log_of_redirects_is_the_planned_list() {
    let other = steady();
    let server = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        // A chain of a thousand, two that are loops, and targets that nobody connects to.
        _ if path.starts_with("/chain/") => {
            let number: u32 = path.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            redirect(&format!("/chain/{}", number + 1))
        }
        "/self" => redirect("/self"),
        "/there" => redirect("/back"),
        "/back" => redirect("/there"),
        "/file" => redirect("file:///etc/passwd"),
        "/data" => redirect("data:text/html,x"),
        "/script" => redirect("javascript:x()"),
        "/away" => redirect("http://user:secret@other.test/p/1#part"),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.config.crawl.respect_robots = false;
    crawl.host("host.test", &server);
    crawl.host("other.test", &other);
    for path in ["chain/0", "self", "there", "file", "data", "script", "away"] {
        crawl.url(format!("http://host.test/{path}"));
    }
    let ended = crawl.run().await;
    ended.assert_rows_are(&[&server, &other]);
    assert_eq!(ended.fates(), (1, 6, 0, 0), "the one that leads away is done");
    let mut asked = pages_asked(&server);
    asked.sort();
    let mut planned: Vec<String> = (0..=10).map(|number| format!("/chain/{number}")).collect();
    planned.extend(["/away", "/back", "/data", "/file", "/script", "/self", "/there"].map(String::from));
    planned.sort();
    assert_eq!(asked, planned, "ten hops of a chain, and no target of a loop or of another scheme");
    assert_eq!(pages_asked(&other), ["/p/1"]);
    assert!(!ended.written.contains("secret"));
}
