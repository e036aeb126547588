//! Links are followed: judged by what the servers of generated sites saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crawldeck::config::Follow;
use crawldeck::control::{Outcome, RequestKind, Verdict, What};
use crawldeck::crawl::address::fingerprint;
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::fetcher::HttpFetcher;
use crawldeck::crawl::links::{Found, Link};
use crawldeck::sim::SimResponse;
use url::Url;

use crate::support::answers::{by_turn, redirect, status, text, with_header};
use crate::support::engine::{Crawl, Ended};
use crate::support::lab::LabServer;

/// A server of many hosts: what it says to a host and a path.
fn site(mut answer: impl FnMut(&str, &str) -> SimResponse + Send + 'static) -> LabServer {
    LabServer::start(Box::new(move |_, request, _| match request.path {
        "/robots.txt" => status(404),
        path => answer(request.host.split(':').next().unwrap_or_default(), path),
    }))
}

/// A page with these links.
fn page(links: &[String]) -> SimResponse {
    let links: String = links.iter().map(|link| format!("<p><a href=\"{link}\">x</a>")).collect();
    SimResponse { headers: vec![("content-type", "text/html; charset=utf-8".into())], ..text(&links) }
}

/// What arrived, as `host/path`, robots.txt left out, with how often.
fn arrived(server: &LabServer) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for arrival in server.arrivals().into_iter().filter(|arrival| arrival.path != "/robots.txt") {
        *counts
            .entry(format!("{}{}", arrival.host.split(':').next().unwrap_or_default(), arrival.path))
            .or_default() += 1;
    }
    counts
}

/// A crawl of `http://a.test/0` over a server of these hosts.
fn crawl(server: &LabServer, follow: Follow, hosts: &[&str]) -> Crawl {
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = follow;
    for host in hosts {
        crawl.host(host, server);
    }
    crawl.url("http://a.test/0");
    crawl
}

/// Fails the test unless just these arrived, once each, and all rows are there.
#[track_caller]
fn assert_once(server: &LabServer, ended: &Ended, expected: impl IntoIterator<Item = String>) {
    let expected: BTreeMap<String, u32> = expected.into_iter().map(|url| (url, 1)).collect();
    assert_eq!(arrived(server), expected);
    ended.assert_rows_are(&[server]);
}

const PAGES: u32 = 300;

/// A tree of pages with links back, in many spellings, and out of the site.
fn tree(host: &str, path: &str) -> SimResponse {
    let Ok(number) = path.trim_start_matches('/').parse::<u32>() else { return status(404) };
    let mut links = vec![
        format!("http://{host}/{}", number / 2),
        format!("HTTP://{}:80/%3{}#top", host.to_uppercase(), number % 10),
        String::from("http://elsewhere.test/0"),
        String::from("#top"),
        String::from("mailto:a@a.test"),
        String::from("javascript:go(1)"),
    ];
    links.extend([2 * number + 1, 2 * number + 2].iter().filter(|next| **next < PAGES).map(|next| format!("./{next}")));
    page(&links)
}

#[tokio::test]
async fn every_page_of_a_site_arrives_once_and_nothing_else() {
    let server = site(tree);
    let ended = crawl(&server, Follow::Host, &["a.test", "elsewhere.test"]).run().await;
    assert_once(&server, &ended, (0..PAGES).map(|number| format!("a.test/{number}")));
    ended.assert_all_done(u64::from(PAGES));
}

#[tokio::test]
async fn without_following_a_page_is_just_a_page() {
    let server = site(tree);
    let ended = crawl(&server, Follow::None, &["a.test", "elsewhere.test"]).run().await;
    assert_once(&server, &ended, [String::from("a.test/0")]);
}

#[tokio::test]
async fn links_are_followed_to_the_hosts_that_are_in_scope() {
    let hosts = ["a.test", "www.a.test", "x.www.a.test", "b.test", "other.test"];
    let answer = move |host: &str, path: &str| match path {
        "/0" => page(&hosts.map(|to| format!("//{to}/from-{host}"))),
        _ => page(&hosts.map(|to| format!("//{to}/0"))),
    };
    let glob = |text: &str| globset::Glob::new(text).expect("a glob").compile_matcher();
    for (follow, scope) in [
        (Follow::Host, vec!["a.test"]),
        (Follow::Domain, vec!["a.test", "www.a.test", "x.www.a.test"]),
        // The input itself was asked for, whatever the globs say.
        (Follow::Globs(vec![glob("*.a.test"), glob("b.test")]), vec!["www.a.test", "x.www.a.test", "b.test"]),
    ] {
        let server = site(answer);
        let globs = matches!(follow, Follow::Globs(_));
        let ended = crawl(&server, follow, &hosts).run().await;
        let mut expected = BTreeSet::from([String::from("a.test/0")]);
        for host in &scope {
            expected.insert(format!("{host}/0"));
            expected.extend(scope.iter().map(|from| format!("{host}/from-{from}")));
            if globs {
                expected.insert(format!("{host}/from-a.test"));
            }
        }
        assert_once(&server, &ended, expected);
    }
}

#[tokio::test]
async fn depth_exclusion_and_both_budgets_hold() {
    // A chain: page n leads to n + 1.
    let chain = |_: &str, path: &str| {
        let number: u32 = path.trim_start_matches('/').parse().unwrap_or_default();
        page(&[format!("/{}", number + 1), format!("/x{number}")])
    };
    let server = site(chain);
    let mut limited = crawl(&server, Follow::Host, &["a.test"]);
    limited.config.crawl.max_depth = 3;
    limited.config.crawl.exclude = vec![regex::Regex::new("/x").expect("a regex")];
    let ended = limited.run().await;
    assert_once(&server, &ended, (0..4).map(|number| format!("a.test/{number}")));
    ended.assert_all_done(4);

    let server = site(chain);
    let mut limited = crawl(&server, Follow::Host, &["a.test"]);
    limited.config.crawl.max_requests = 10;
    let ended = limited.run().await;
    assert_eq!(server.arrivals().len(), 10);
    assert_eq!(ended.end.totals.requests, 10);

    let server = site(chain);
    let mut limited = crawl(&server, Follow::Host, &["a.test"]);
    limited.policy("a.test").max_requests = 10;
    let ended = limited.run().await;
    assert_eq!(server.arrivals().len(), 10);
    assert_eq!(ended.fates().3, 0, "what the budget leaves over is skipped, and said");
    assert!(ended.fates().2 > 0);
}

#[tokio::test]
async fn what_a_page_forbids_is_not_followed() {
    let answer = |_: &str, path: &str| match path {
        "/0" => text("<a href=/1><a href=/2><a href=/3><a href=/no rel='x nofollow'><a href=/4>"),
        "/1" => with_header(200, "x-robots-tag", "noindex, nofollow"),
        "/2" => text("<a href=/no><meta name=robots content='NOFOLLOW'>"),
        "/3" => SimResponse { headers: vec![("content-type", "text/plain".into())], ..text("<a href=/no>") },
        "/4" => SimResponse { status: 404, ..text("<a href=/no>") },
        _ => text(""),
    };
    let server = site(answer);
    let ended = crawl(&server, Follow::Host, &["a.test"]).run().await;
    assert_once(&server, &ended, (0..5).map(|number| format!("a.test/{number}")));

    // Whoever does not respect robots.txt follows these, too.
    let server = site(answer);
    let mut rude = crawl(&server, Follow::Host, &["a.test"]);
    rude.config.crawl.respect_robots = false;
    let ended = rude.run().await;
    assert_once(&server, &ended, ["0", "1", "2", "3", "4", "no"].map(|path| format!("a.test/{path}")));
}

#[tokio::test]
async fn a_redirect_is_a_link_to_its_target() {
    let server = site(|host, path| match (host, path) {
        // An input may lead within its domain, and the crawl goes on there.
        ("a.test", "/0") => redirect("http://www.a.test/1"),
        (_, "/1") => page(&["/2", "/3", "/4", "/5", "/out", "/twice"].map(String::from)),
        // Two ways to one page, one that is known, one to itself.
        (_, "/2" | "/3") => redirect("/target"),
        (_, "/4") => redirect("/1"),
        (_, "/5") => redirect("/5"),
        (_, "/out") => redirect("http://elsewhere.test/"),
        (_, "/twice") => page(&["/target".into(), "/1".into()]),
        _ => text("page"),
    });
    let ended = crawl(&server, Follow::Host, &["a.test", "www.a.test", "elsewhere.test"]).run().await;
    let www = ["1", "2", "3", "4", "5", "out", "twice", "target"].map(|path| format!("www.a.test/{path}"));
    assert_once(&server, &ended, www.into_iter().chain([String::from("a.test/0")]));
    assert_eq!(ended.kind(RequestKind::Redirect), 2, "the input's hop, and the first to the target");
    assert_eq!(ended.fates(), (6, 1, 0, 0), "the input, 2, 3, 4, out and twice; the circle fails");
}

#[tokio::test]
async fn case_50_a_link_that_redirects_to_itself_with_a_cookie_is_followed() {
    let server = LabServer::start(Box::new(|_, request, headers| match request.path {
        "/robots.txt" => status(404),
        "/0" => page(&["/door".into()]),
        "/door" if headers.get("cookie").is_none() => {
            SimResponse { headers: vec![("location", "/door".into()), ("set-cookie", "k=1".into())], ..status(302) }
        }
        _ => page(&["/room".into()]),
    }));
    let mut crawl = crawl(&server, Follow::Host, &["a.test"]);
    crawl.config.network.cookies = true;
    let ended = crawl.run().await;
    ended.assert_all_done(3);
    assert_eq!(arrived(&server)["a.test/door"], 2);
}

#[tokio::test]
async fn robots_txt_is_asked_before_a_link_is_followed() {
    let server = by_turn(|path, _| match path {
        "/robots.txt" => text("User-agent: *\nDisallow: /private"),
        "/0" => page(&["/private/1".into(), "/public".into()]),
        _ => text("page"),
    });
    let ended = crawl(&server, Follow::Host, &["a.test"]).run().await;
    assert_eq!(ended.fates(), (2, 0, 1, 0));
    assert!(!arrived(&server).contains_key("a.test/private/1"));
    assert!(ended.whys(What::UrlSkipped, "a.test")[0].starts_with("robots_denied"));
}

/// One page with links to addresses; everything else goes to the real fetcher, which refuses them.
struct OnePage(HttpFetcher);

impl Fetch for OnePage {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        if request.url.host_str() != Some("a.test") {
            return self.0.fetch(request);
        }
        let links = ["http://169.254.169.254/latest", "http://[::1]:1/", "http://127.0.0.1:1/", "http://[fd00::1]/"];
        let link = |text: &str| {
            let url: Url = text.parse().expect("a URL");
            Link { fingerprint: fingerprint(&url), url }
        };
        let found = Found { links: links.map(link).into(), ..Found::default() };
        let reply = Reply {
            verdict: Verdict::Status(200),
            status: Some(200),
            error: None,
            found: Some(Box::new(found)),
            ..Reply::failed(Outcome::Local, "")
        };
        Box::pin(std::future::ready(reply))
    }
}

#[tokio::test]
async fn row_06_links_to_addresses_that_are_refused_are_never_connected_to() {
    let every = globset::Glob::new("*").expect("a glob").compile_matcher();
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Globs(vec![every]);
    crawl.config.crawl.respect_robots = false;
    crawl.config.network.allow_private = false;
    crawl.url("http://a.test/0");
    crawl.fetch_with(Arc::new(OnePage(crawl.real_fetch(None))));
    let ended = crawl.run().await;
    assert_eq!((ended.fates(), ended.rows.len()), ((1, 0, 4, 0), 1));
    for event in ended.events_of(What::UrlSkipped) {
        assert!(event.why.as_str().starts_with("address_refused"), "{event:?}");
    }
}

/// A sitemap of these URLs.
fn sitemap(urls: &[String]) -> SimResponse {
    let urls: String = urls.iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    text(&format!("<?xml version=\"1.0\"?><urlset>{urls}</urlset>"))
}

#[tokio::test]
async fn case_66_sitemaps_are_read_once_each_whatever_they_lead_to() {
    let server = LabServer::start(Box::new(|_, request, _| {
        let host = request.host.split(':').next().unwrap_or_default();
        match (host, request.path) {
            ("a.test", "/robots.txt") => text(
                "Sitemap: http://a.test/index.xml\nSitemap: http://a.test/left-out.xml\nSitemap: /text.txt\nSitemap: http://other.test/of-a.xml\nDisallow:",
            ),
            (_, "/robots.txt") => status(404),
            // An index that lists itself, and one below the other without end.
            (_, "/index.xml") => text(
                "<sitemapindex><sitemap><loc>http://a.test/index.xml</loc></sitemap><sitemap><loc>http://a.test/1.xml</loc></sitemap>\
                 <sitemap><loc>http://elsewhere.test/1.xml</loc></sitemap>\
                 <sitemap><loc>http://a.test/deeper.xml?1</loc></sitemap></sitemapindex>",
            ),
            (_, path) if path.starts_with("/deeper.xml?") => {
                let depth = path.len();
                text(&format!(
                    "<sitemapindex><sitemap><loc>http://a.test/deeper.xml?{}</loc></sitemap></sitemapindex>",
                    "1".repeat(depth)
                ))
            }
            (_, "/1.xml") => sitemap(&["/1", "/2", "/1"].map(|path| format!("http://a.test{path}"))),
            (_, "/text.txt") => {
                text("http://a.test/2\nhttp://a.test/3\nhttp://a.test/left-out\nhttp://elsewhere.test/no\nnonsense\n")
            }
            ("other.test", "/of-a.xml") => sitemap(&["http://a.test/4".into(), "http://other.test/no".into()]),
            _ => page(&["/no".into()]),
        }
    }));
    let mut crawl = crawl(&server, Follow::None, &["a.test", "other.test", "elsewhere.test"]);
    crawl.config.crawl.sitemaps = true;
    crawl.config.crawl.exclude = vec![regex::Regex::new("left-out").expect("a regex")];
    let ended = crawl.run().await;
    let pages = ["0", "1", "2", "3", "4"].map(|path| format!("a.test/{path}"));
    let sitemaps = ["a.test/index.xml", "a.test/1.xml", "a.test/text.txt", "other.test/of-a.xml"].map(String::from);
    let counts = arrived(&server);
    let (deeper, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        counts.into_iter().partition(|(url, _)| url.contains("deeper"));
    assert_eq!(rest, pages.into_iter().chain(sitemaps).map(|url| (url, 1)).collect());
    assert_eq!(deeper.len(), 3, "indexes inside of indexes end: {deeper:?}");
    assert_eq!(ended.kind(RequestKind::Sitemap), 7);
    ended.assert_rows_are(&[&server]);
}

#[tokio::test]
async fn case_19_sitemaps_and_what_they_lead_to_wait_for_the_hosts_rate() {
    let server = LabServer::start(Box::new(|_, request, _| match request.path {
        "/robots.txt" => text("Sitemap: http://a.test/1.xml\nSitemap: http://a.test/2.xml"),
        "/1.xml" => sitemap(&(0..20).map(|n| format!("http://a.test/{n}")).collect::<Vec<_>>()),
        "/2.xml" => sitemap(&(20..40).map(|n| format!("http://a.test/{n}")).collect::<Vec<_>>()),
        _ => text("page"),
    }));
    let mut crawl = crawl(&server, Follow::None, &["a.test"]);
    crawl.config.crawl.sitemaps = true;
    crawl.rate(50.0, 5.0);
    let ended = crawl.run().await;
    ended.assert_all_done(42);
    ended.assert_rows_are(&[&server]);
    server.assert_envelope(50.0, 5.0);
}
