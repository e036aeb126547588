//! Hosts that answer drop by drop: heads that never end, informational responses for ever, bodies a byte at a time. They
//! cost the others nothing, and their slots are free again at the deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crawldeck::clock::SystemClock;
use crawldeck::config::Config;
use crawldeck::control::Outcome;
use crawldeck::crawl::fetcher::{FetcherOptions, HttpFetcher};

use crate::support::answers::{by_turn, steady, text};
use crate::support::engine::Crawl;
use crate::support::raw_server::{RawServer, Step, write};

/// Pages of the host that is well.
const PAGES: u32 = 30;
/// The pause between two drops: far below every idle deadline.
const DROP: Duration = Duration::from_millis(10);

/// What the host begins with, what it says again and again, and how it would end.
const DRIPS: [(&str, &str, &str); 3] = [
    ("HTTP/1.1 200 OK\r\nX-More: ", "y", "\r\nContent-Length: 0\r\n\r\n"),
    ("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", "0\r\n\r\n"),
];

/// A host that drips on each of its connections in another way.
async fn dripping(step: impl Fn(&str) -> Step) -> RawServer {
    let scripts = DRIPS.map(|(start, again, end)| vec![Step::Request, write(start), step(again), write(end)]);
    RawServer::start(scripts.to_vec()).await
}

#[tokio::test]
async fn row_01_while_a_host_drips_on_all_its_connections_another_one_is_crawled_to_its_end() {
    let is_over = Arc::new(AtomicBool::new(false));
    // They drip until the other host has answered its last page, and no deadline ends them before.
    let slow = dripping(|again| Step::Until(again.as_bytes().to_vec(), DROP, Arc::clone(&is_over))).await;
    let over = Arc::clone(&is_over);
    let mut asked = 0;
    let server = by_turn(move |_, _| {
        asked += 1;
        over.store(asked == PAGES, Ordering::SeqCst);
        text("page")
    });
    let mut crawl = Crawl::new();
    crawl.config.crawl.respect_robots = false;
    crawl.config.crawl.retries = 1;
    // One slot is left beside them.
    crawl.config.settings.concurrency = DRIPS.len() as u32 + 1;
    crawl.host_at("slow.test", slow.address);
    crawl.host("host.test", &server);
    crawl.pages("slow.test", 3);
    crawl.pages("host.test", PAGES);
    let ended = crawl.run().await;
    // Held up, the last page would not have been answered before the deadlines.
    assert_eq!(ended.fates(), (u64::from(PAGES) + 3, 0, 0, 0), "{:?}", ended.bad_events());
    assert_eq!(slow.connections(), 3, "each of its URLs dripped");
}

#[tokio::test]
async fn row_01_the_slots_of_a_host_that_drips_are_free_again_at_the_deadline() {
    let slow = dripping(|again| Step::Forever(again.as_bytes().to_vec(), DROP)).await;
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.config.crawl.respect_robots = false;
    crawl.config.crawl.retries = 1;
    // All of them are taken by the host that drips, which comes first.
    crawl.config.settings.concurrency = DRIPS.len() as u32;
    crawl.config.network.head_timeout = Duration::from_millis(500);
    crawl.host_at("slow.test", slow.address);
    crawl.host("host.test", &server);
    crawl.pages("slow.test", 3);
    crawl.pages("host.test", PAGES);
    let options = FetcherOptions { rate_window: Duration::from_millis(500), ..FetcherOptions::default() };
    let Config { network, crawl: settings, .. } = &crawl.config;
    let (agent, hosts) = (&settings.user_agent, Vec::new().into());
    let fetcher = HttpFetcher::with_options(network, agent, hosts, SystemClock::shared(), options);
    crawl.fetch_with(Arc::new(fetcher.expect("a fetcher")));
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (u64::from(PAGES), 3, 0, 0), "{:?}", ended.bad_events());
    assert_eq!(ended.count(Outcome::Timeout), 3);
}
