//! The demo's hosts over real sockets: each shows its character to a client without manners. Their time
//! stands still unless a test moves it, so that what they admit can be counted exactly.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crawldeck::clock::{ManualClock, Wall};
use crawldeck::demo::{self, CHARACTERS, Demo};
use reqwest::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::lab::bare_client;

async fn started() -> (Demo, Client, Arc<ManualClock>) {
    let clock = ManualClock::new(Wall::default());
    let demo = demo::start(clock.clone(), 1).await.expect("free ports on loopback");
    let names: Vec<(&str, SocketAddr)> = demo.hosts().iter().map(|host| (host.name, host.addr)).collect();
    let client = bare_client(&names);
    (demo, client, clock)
}

/// The URL of `path` at a demo host, with the port that it has here.
fn url(demo: &Demo, name: &str, path: &str) -> String {
    let host = demo.hosts().iter().find(|host| host.name == name).expect("a host of the demo");
    format!("http://{name}:{}{path}", host.addr.port())
}

/// Asks for `count` pages at once. Bodies are read: until then an answer keeps its connection from the
/// others, and a host takes only so many connections.
async fn statuses(demo: &Demo, client: &Client, name: &str, count: usize) -> Vec<u16> {
    let asks = (0..count).map(|k| async move {
        let answer = client.get(url(demo, name, &format!("/p/{k}"))).send().await.expect("an answer");
        let status = answer.status().as_u16();
        answer.bytes().await.expect("a body");
        status
    });
    futures_util::future::join_all(asks).await
}

#[tokio::test]
async fn every_host_serves_its_first_page_and_says_what_it_is() {
    let (demo, client, _) = started().await;
    assert!(demo.hosts().len() >= 9);
    let mut seen = BTreeSet::new();
    for host in demo.hosts() {
        assert!(host.addr.ip().is_loopback());
        assert!(host.pages > 0 && !host.about.contains('\n'));
        assert!(seen.insert(host.about) && seen.insert(host.name));
        // One in twenty of the flaky one fails: not ten in a row.
        let mut ok = None;
        for _ in 0..10 {
            let answer = client.get(url(&demo, host.name, "/")).send().await.expect("an answer");
            if answer.status() == 200 {
                ok = answer.text().await.ok();
                break;
            }
        }
        assert!(ok.expect("a page").contains("<a href=\"/p/1\">"), "{}", host.name);
    }
    demo.stop().await;
}

#[tokio::test]
async fn limits_refuse_exactly_what_is_beyond_them_and_tell_or_do_not_tell() {
    let (demo, client, clock) = started().await;
    for (name, told) in [("limit.demo", None), ("retry-after.demo", Some("3"))] {
        let asks = (0..40).map(|k| client.get(url(&demo, name, &format!("/p/{k}"))).send());
        let answers: Vec<_> =
            futures_util::future::join_all(asks).await.into_iter().map(|answer| answer.expect("an answer")).collect();
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status() == 429).collect();
        assert_eq!((answers.len(), refused.len()), (40, 30), "{name}: a burst of 10");
        for answer in refused {
            assert_eq!(answer.headers().get("retry-after").and_then(|value| value.to_str().ok()), told, "{name}");
        }
    }
    let count = |statuses: &[u16], of: u16| statuses.iter().filter(|status| **status == of).count();
    let window = statuses(&demo, &client, "window.demo", 130).await;
    assert_eq!((count(&window, 200), count(&window, 429)), (120, 10));
    let blocking = statuses(&demo, &client, "blocking.demo", 20).await;
    assert_eq!([200, 429, 403].map(|status| count(&blocking, status)), [6, 5, 9]);
    clock.advance(Duration::from_secs(31));
    assert_eq!(statuses(&demo, &client, "blocking.demo", 1).await, [200], "the ban has ended");
    assert_eq!(statuses(&demo, &client, "window.demo", 1).await, [429]);
    clock.advance(Duration::from_secs(30));
    assert_eq!(statuses(&demo, &client, "window.demo", 1).await, [200], "the next minute of its clock");
    demo.stop().await;
}

#[tokio::test]
async fn the_dark_one_resets_old_and_new_connections_and_comes_back() {
    let (demo, client, clock) = started().await;
    assert_eq!(statuses(&demo, &client, "dark.demo", 1).await, [200]);
    clock.advance(Duration::from_secs(16));
    for _ in 0..3 {
        // The first goes out on the connection that was kept open, the others on new ones.
        let failed = client.get(url(&demo, "dark.demo", "/p/0")).send().await;
        assert!(failed.is_err(), "{failed:?}");
    }
    clock.advance(Duration::from_secs(20));
    assert_eq!(statuses(&demo, &client, "dark.demo", 1).await, [200]);
    demo.stop().await;
}

#[tokio::test]
async fn the_steady_bear_everything_and_the_flaky_fail_at_times() {
    let (demo, client, _) = started().await;
    assert!(statuses(&demo, &client, "steady.demo", 150).await.iter().all(|status| *status == 200));
    let flaky = statuses(&demo, &client, "flaky.demo", 300).await;
    assert!(flaky.contains(&200) && flaky.contains(&500));
    demo.stop().await;
}

#[tokio::test]
async fn robots_and_redirects_are_as_announced() {
    let (demo, client, _) = started().await;
    let robots = client.get(url(&demo, "robots.demo", "/robots.txt")).send().await.expect("an answer");
    assert_eq!(robots.text().await.expect("text"), "User-agent: *\nCrawl-delay: 2\nDisallow: /private/\n");
    for (path, leads) in [("/r/0", "/r/0/1"), ("/away/4", "http://steady.demo/p/4"), ("/loop", "/loop")] {
        let answer = client.get(url(&demo, "redirect.demo", path)).send().await.expect("an answer");
        assert_eq!(answer.status(), 302);
        assert_eq!(answer.headers()["location"], leads);
    }
    demo.stop().await;
}

#[tokio::test]
async fn a_stop_ends_every_connection() {
    let (demo, ..) = started().await;
    let mut streams = Vec::new();
    for host in demo.hosts() {
        let mut stream = TcpStream::connect(host.addr).await.expect("it listens");
        // Half a request: nobody but the stop ends this connection.
        stream.write_all(b"GET /p/0 HTTP/1.1\r\n").await.expect("written");
        streams.push(stream);
    }
    demo.stop().await;
    for mut stream in streams {
        // An orderly end or a reset, but no answer.
        assert_eq!(stream.read(&mut [0; 64]).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn urls_and_names_belong_together_and_every_host_has_work_at_once() {
    let (demo, ..) = started().await;
    let urls = demo.urls();
    assert_eq!(urls.len(), demo.hosts().iter().map(|host| host.pages).sum::<usize>());
    assert_eq!(urls.iter().collect::<BTreeSet<_>>().len(), urls.len(), "each once");
    let names = |urls: &[String]| -> BTreeSet<String> {
        let parsed = urls.iter().map(|text| url::Url::parse(text).expect("a URL"));
        parsed.map(|parsed| parsed.host_str().expect("a host").to_owned()).collect()
    };
    let resolve = demo.resolve();
    let known: BTreeSet<String> = resolve.keys().cloned().collect();
    assert_eq!(names(&urls), known);
    assert_eq!(names(&urls[..CHARACTERS.len()]), known);
    assert!(resolve.values().all(|to| to.ip.is_loopback() && to.port.is_some()));
    demo.stop().await;
}
