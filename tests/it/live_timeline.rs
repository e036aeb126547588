//! The engine's timeline: sent only when asked for, and the same counts as the journal's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crawldeck::clock::SystemClock;
use crawldeck::config::Config;
use crawldeck::control::{Outcome, Verdict};
use crawldeck::crawl::engine::{Engine, EngineParts};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::input::{Source, spawn};
use crawldeck::journal::Journal;
use crawldeck::journal::timeline::bins::Code;
use crawldeck::journal::timeline::{Follow, Timeline};
use crawldeck::watch::{Phase, Request, Snapshot};
use tokio::sync::mpsc;

const URLS: u64 = 12;

/// Answers 200, 404, 500 and a broken connection in turn.
#[derive(Default)]
struct Turns(AtomicU32);

impl Fetch for Turns {
    fn fetch(&self, _: FetchRequest) -> ReplyFuture {
        let status = match self.0.fetch_add(1, Ordering::Relaxed) % 4 {
            0 => Some(200),
            1 => Some(404),
            2 => Some(500),
            _ => None,
        };
        let broken = Reply::failed(Outcome::ConnectionReset, "broken");
        let reply = match status {
            Some(status) => Reply { verdict: Verdict::Status(status), status: Some(status), error: None, ..broken },
            None => broken,
        };
        Box::pin(async move { Reply { body: Bytes::new(), ..reply } })
    }
}

fn counts(codes: Vec<(Code, &crawldeck::journal::timeline::bins::Row)>) -> Vec<(Code, u64)> {
    codes.into_iter().map(|(code, row)| (code, row.total)).collect()
}

/// Runs a crawl; gives its snapshots.
async fn crawl(dir: &std::path::Path, asks: &[Request]) -> Vec<Arc<Snapshot>> {
    let clock = SystemClock::shared();
    let asked = asks.last() == Some(&Request::ShowTimeline);
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
        inputs: spawn(sources).expect("inputs"),
        requests: requests_in,
        watcher: Some(watcher),
        frame: Duration::from_millis(10),
        seed: 7,
    };
    let watching = tokio::spawn(async move {
        let mut all: Vec<Arc<Snapshot>> = Vec::new();
        while let Some(snapshot) = snapshots.recv().await {
            // Retries back off for long, so the run goes on until enough was seen.
            let counted = snapshot.timeline.as_ref().map(|bins| bins.requests(i64::MIN, i64::MAX));
            let over = snapshot.totals.requests >= URLS && (!asked || counted >= Some(URLS));
            all.push(snapshot);
            if over {
                let _ = requests.try_send(Request::Stop);
            }
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
async fn the_live_timeline_counts_no_more_than_the_journal_and_grows() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let seen = crawl(dir.path(), &[Request::ShowTimeline]).await;
    let mut timeline = Timeline::new(dir.path(), None);
    let mut follow = Follow::open(dir.path()).expect("readable");
    assert!(follow.step(&mut timeline, u64::MAX).expect("readable").at_end);
    let journal = counts(timeline.bins().codes());
    let live: Vec<_> = seen.iter().filter_map(|snapshot| snapshot.timeline.as_ref()).collect();
    assert!(!live.is_empty(), "it was asked for");
    let mut before = 0;
    for bins in live {
        let sum = bins.requests(i64::MIN, i64::MAX);
        assert!(sum >= before);
        before = sum;
        for (code, count) in counts(bins.codes()) {
            let in_journal = journal.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| *count);
            assert!(count <= in_journal, "{code:?}: {count} of {in_journal}");
        }
    }
    assert!(before >= URLS, "all answers are counted, not {before}");
}
