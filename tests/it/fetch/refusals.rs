//! Addresses that are not connected to, and secrets that are not told.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crawldeck::control::Outcome;
use crawldeck::crawl::fetcher::resolve::{Lookup, LookupFuture};
use crawldeck::crawl::fetcher::{FetcherOptions, HttpFetcher};

use super::kit::{AGENT, assert_failed, assert_status, clock, fetcher, fetcher_with, get, network, resolve, rule};
use crate::support::raw_server::{RawServer, Step, answer, response, write};

/// Answers with one address and counts.
struct Fixed {
    address: IpAddr,
    asked: AtomicUsize,
}

impl Lookup for Fixed {
    fn lookup(&self, _name: &str) -> LookupFuture {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let address = self.address;
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// Never finds anything.
struct Nothing;

impl Lookup for Nothing {
    fn lookup(&self, _name: &str) -> LookupFuture {
        Box::pin(async { Err(std::io::Error::other("no such name")) })
    }
}

#[tokio::test]
async fn private_literals_are_refused_in_every_spelling_and_nothing_is_sent() {
    let server = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let port = server.address.port();
    let mut network = network();
    network.allow_private = false;
    let fetcher = fetcher(&network);
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "①②⑦.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ] {
        let reply = get(&fetcher, &format!("http://{host}:{port}/")).await;
        assert_failed(&reply, Outcome::AddressRefused);
        assert!(!reply.on_wire, "{host}");
        assert!(reply.error.expect("a reason").as_str().contains("network.allow_private"), "{host}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn case_132_a_name_that_leads_to_a_private_address_is_refused_by_the_answer_that_is_used() {
    let server = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let mut network = network();
    network.allow_private = false;
    resolve(&mut network, "fixed.test", &server);
    let lookup = Arc::new(Fixed { address: server.address.ip(), asked: AtomicUsize::new(0) });
    let options = FetcherOptions { lookup: Arc::clone(&lookup) as Arc<dyn Lookup>, ..FetcherOptions::default() };
    let fetcher = fetcher_with(&network, options);
    for host in ["rebound.test", "fixed.test"] {
        let reply = get(&fetcher, &format!("http://{host}:{}/", server.address.port())).await;
        assert_failed(&reply, Outcome::AddressRefused);
        assert!(!reply.on_wire, "{reply:?}");
        assert!(reply.error.expect("a reason").as_str().contains("network.allow_private"));
    }
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 1, "one look-up: what is checked is what is used");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn case_132_the_address_of_the_one_look_up_is_the_address_connected_to() {
    let server = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let lookup = Arc::new(Fixed { address: server.address.ip(), asked: AtomicUsize::new(0) });
    let options = FetcherOptions { lookup: Arc::clone(&lookup) as Arc<dyn Lookup>, ..FetcherOptions::default() };
    let fetcher = fetcher_with(&network(), options);
    assert_status(&get(&fetcher, &format!("http://name.test:{}/", server.address.port())).await, 200);
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 1);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_name_that_is_not_found_is_a_dns_failure() {
    let options = FetcherOptions { lookup: Arc::new(Nothing), ..FetcherOptions::default() };
    let reply = get(&fetcher_with(&network(), options), "http://missing.test/").await;
    assert_failed(&reply, Outcome::Dns);
}

#[tokio::test]
async fn case_130_no_secret_is_in_any_reply() {
    let hang_up = RawServer::start(vec![vec![Step::Request, Step::Reset]]).await;
    let not_http = RawServer::start(vec![answer("<html>")]).await;
    let short = RawServer::start(vec![answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")]).await;
    let nowhere = RawServer::start(vec![answer(response("302 Found", "Location: ftp://u:canary@x/\r\n", ""))]).await;
    let onward =
        RawServer::start(vec![answer(response("302 Found", "Location: http://u:canary@x.test/\r\n", ""))]).await;
    let closed = {
        let gone = RawServer::start(vec![vec![]]).await;
        gone.address
    };
    let plain = RawServer::start(vec![vec![Step::ReadSome, write("HTTP/1.1 400 Bad Request\r\n\r\n")]]).await;
    let mut network = network();
    network.allow_private = true;
    let rules = Arc::new([rule("*", "X-Api-Key", "canary")]);
    let options = FetcherOptions { lookup: Arc::new(Nothing), ..FetcherOptions::default() };
    let fetcher =
        HttpFetcher::with_options(&network, AGENT, rules.clone(), clock(), options.clone()).expect("a fetcher");
    network.allow_private = false;
    let guarded = HttpFetcher::with_options(&network, AGENT, rules, clock(), options).expect("a fetcher");
    for (fetcher, scheme, authority) in [
        (&fetcher, "http", hang_up.address.to_string()),
        (&fetcher, "http", not_http.address.to_string()),
        (&fetcher, "http", short.address.to_string()),
        (&fetcher, "http", nowhere.address.to_string()),
        (&fetcher, "http", onward.address.to_string()),
        (&fetcher, "http", closed.to_string()),
        (&fetcher, "https", plain.address.to_string()),
        (&fetcher, "http", String::from("missing.test")),
        (&guarded, "http", hang_up.address.to_string()),
    ] {
        let reply = get(fetcher, &format!("{scheme}://canary:canary@{authority}/page?token=canary")).await;
        let told = format!("{reply:?}");
        assert!(!told.contains("canary"), "{told}");
        assert!(reply.error.is_some() || reply.location.is_some(), "{told}");
    }
    let sent = hang_up.requests().concat().to_ascii_lowercase();
    assert!(sent.contains("x-api-key: canary") && !sent.contains("authorization"), "{sent}");
}
