//! The engine's timeline: sent only when asked for, and the same counts as the journal's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crawldeck::clock::SystemClock;
use crawldeck::config::Config;
use crawldeck::control::{Outcome, Verdict};
use crawldeck::crawl::engine::{Engine, EngineParts, Looks};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::input::{Source, spawn};
use crawldeck::journal::Journal;
use crawldeck::journal::timeline::bins::Code;
use crawldeck::journal::timeline::{Follow, Timeline};
use crawldeck::watch::{Phase, Request, Snapshot};
use tokio::sync::mpsc;

const URLS: u64 = 12;

/// Answers 200, 404 and 410 in turn: nothing that is asked again.
#[derive(Default)]
struct Turns(AtomicU32);

impl Fetch for Turns {
    fn fetch(&self, _: FetchRequest) -> ReplyFuture {
        let status = [200, 404, 410][self.0.fetch_add(1, Ordering::Relaxed) as usize % 3];
        let failed = Reply::failed(Outcome::Local, "no failure");
        let reply = Reply { verdict: Verdict::Status(status), status: Some(status), error: None, ..failed };
        Box::pin(async move { reply })
    }
}

fn counts(codes: Vec<(Code, &crawldeck::journal::timeline::bins::Row)>) -> Vec<(Code, u64)> {
    codes.into_iter().map(|(code, row)| (code, row.total)).collect()
}

/// Runs a crawl; gives its snapshots.
async fn crawl(dir: &std::path::Path, asks: &[Request]) -> Vec<Arc<Snapshot>> {
    let clock = SystemClock::shared();
    let mut config = Config::default();
    config.crawl.respect_robots = false;
    let sources = (0..URLS).map(|n| Source::Url(format!("http://h{}.test/{n}", n % 6))).collect();
    let (requests, requests_in) = mpsc::channel(16);
    let (watcher, mut snapshots) = mpsc::channel(1);
    for ask in asks {
        requests.send(ask.clone()).await.expect("room");
    }
    let parts = EngineParts {
        config: Arc::new(config),
        fetch: Arc::new(Turns::default()),
        clock: clock.clone(),
        journal: Journal::open(dir, clock).expect("a journal"),
        archive: None,
        inputs: spawn(sources).expect("inputs"),
        requests: requests_in,
        watcher: Some(watcher),
        looks: Looks::Closely,
        // Only the first snapshot and the last one: there is always room for that.
        frame: Duration::from_secs(3_600),
        seed: 7,
    };
    let watching = tokio::spawn(async move {
        let mut all: Vec<Arc<Snapshot>> = Vec::new();
        while let Some(snapshot) = snapshots.recv().await {
            all.push(snapshot);
        }
        all
    });
    let end = Engine::new(parts).run().await;
    assert!(matches!(end.totals.phase, Phase::Finished | Phase::Stopped), "{:?}", end.totals.phase);
    watching.await.expect("the watcher ends")
}

#[tokio::test]
async fn a_timeline_that_nobody_asks_for_is_not_sent() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let seen = crawl(dir.path(), &[]).await;
    assert!(!seen.is_empty() && seen.iter().all(|snapshot| snapshot.timeline.is_none()));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let seen = crawl(dir.path(), &[Request::ShowTimeline, Request::HideTimeline]).await;
    assert!(seen.iter().all(|snapshot| snapshot.timeline.is_none()));
}

#[tokio::test]
async fn the_live_timeline_counts_what_the_journal_counts() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let seen = crawl(dir.path(), &[Request::ShowTimeline]).await;
    let mut timeline = Timeline::new(dir.path(), None);
    let mut follow = Follow::open(dir.path()).expect("readable");
    assert!(follow.step(&mut timeline, u64::MAX).expect("readable").at_end);
    let journal = counts(timeline.bins().codes());
    let last = seen.last().and_then(|snapshot| snapshot.timeline.clone()).expect("it was asked for");
    assert_eq!(counts(last.codes()), journal);
    assert_eq!(last.requests(i64::MIN, i64::MAX), URLS);
}
