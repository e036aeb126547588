//! Fetchers for tests, and small things that make them short.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawldeck::clock::{ManualClock, Wall};
use crawldeck::config::{HostRule, NetworkConfig, Resolved, SecretString};
use crawldeck::control::{Outcome, RequestKind, Verdict};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply};
use crawldeck::crawl::fetcher::{FetcherOptions, HttpFetcher};

use crate::support::raw_server::RawServer;

/// What every test fetcher says it is.
pub(crate) const AGENT: &str = "crawldeck-test/1.0 (+https://example.org/bot)";

/// Deadlines that no healthy exchange meets, so that only the one under test can pass.
pub(crate) fn network() -> NetworkConfig {
    NetworkConfig {
        allow_private: true,
        resolve: BTreeMap::new(),
        connect_timeout: Duration::from_secs(20),
        head_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        min_body_rate: 0,
        max_body: 1024 * 1024,
        proxy: None,
        cookies: false,
        extra_roots: Vec::new(),
    }
}

/// Lets `name` lead to a server.
pub(crate) fn resolve(network: &mut NetworkConfig, name: &str, server: &RawServer) {
    resolve_at(network, name, server.address);
}

/// Lets `name` lead to an address.
pub(crate) fn resolve_at(network: &mut NetworkConfig, name: &str, server: SocketAddr) {
    network.resolve.insert(name.to_owned(), Resolved { ip: server.ip(), port: Some(server.port()) });
}

/// A rule that binds one header to a host.
pub(crate) fn rule(pattern: &str, name: &str, value: &str) -> HostRule {
    HostRule {
        pattern: globset::Glob::new(pattern).expect("glob").compile_matcher(),
        pattern_text: pattern.to_owned(),
        headers: vec![(name.to_owned(), SecretString(value.to_owned()))],
        endpoints: Vec::new(),
        inherits: Default::default(),
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    ManualClock::new(Wall::parse("2026-11-30T12:00:00Z").expect("time"))
}

pub(crate) fn fetcher(network: &NetworkConfig) -> HttpFetcher {
    HttpFetcher::new(network, AGENT, Arc::new([]), clock()).expect("a fetcher")
}

pub(crate) fn fetcher_with(network: &NetworkConfig, options: FetcherOptions) -> HttpFetcher {
    HttpFetcher::with_options(network, AGENT, Arc::new([]), clock(), options).expect("a fetcher")
}

pub(crate) async fn get(fetcher: &HttpFetcher, url: &str) -> Reply {
    get_as(fetcher, url, RequestKind::Page).await
}

pub(crate) async fn get_as(fetcher: &HttpFetcher, url: &str, kind: RequestKind) -> Reply {
    fetcher.fetch(FetchRequest { url: url.parse().expect("URL"), kind, links: None, listener: None }).await
}

#[track_caller]
pub(crate) fn assert_status(reply: &Reply, status: u16) {
    assert_eq!(reply.verdict, Verdict::Status(status), "{reply:?}");
}

#[track_caller]
pub(crate) fn assert_failed(reply: &Reply, outcome: Outcome) {
    assert_eq!(reply.verdict, Verdict::Failed(outcome), "{reply:?}");
    assert!(reply.error.is_some(), "a failure has a reason: {reply:?}");
}

/// The lines of a request head, in lower case.
pub(crate) fn lines(head: &str) -> Vec<String> {
    head.lines().map(str::to_ascii_lowercase).collect()
}

/// A file of certificates that are trusted; the folder goes with the guard.
pub(crate) fn trusted(pem: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("roots.pem");
    std::fs::write(&path, pem).expect("written");
    (folder, path)
}
