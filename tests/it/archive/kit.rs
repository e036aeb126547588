//! Archives in temporary folders, and captures for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crawldeck::archive::head;
use crawldeck::archive::spool::{Beyond, Spool};
use crawldeck::archive::{Archive, ArchiveOptions, Capture, Keep, ResponseHead, Room, Tee, Truncated};
use crawldeck::clock::{SystemClock, Wall};
use crawldeck::control::RequestKind;
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply};
use crawldeck::crawl::fetcher::{FetcherOptions, HttpFetcher};
use hyper::{HeaderMap, Version};
use tempfile::TempDir;

use crate::fetch::kit::{AGENT, clock, network};
use crate::support::warc::{self, Record};

/// The bound of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const WARC: Keep = Keep { warc: true, bodies: false };
pub(crate) const BODIES: Keep = Keep { warc: false, bodies: true };

/// An archive and the fetcher that fills it.
pub(crate) struct Kept {
    pub(crate) dir: TempDir,
    pub(crate) room: Arc<Room>,
    pub(crate) archive: Archive,
}

impl Kept {
    pub(crate) fn new(keep: Keep) -> Self {
        Self::with(keep, ArchiveOptions::default())
    }

    pub(crate) fn with(keep: Keep, options: ArchiveOptions) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let (room, archive) = open(dir.path(), keep, options);
        Self { dir, room, archive }
    }

    /// A fetcher whose exchanges are kept.
    pub(crate) fn fetcher(&self, change: impl FnOnce(&mut crawldeck::config::NetworkConfig)) -> HttpFetcher {
        let mut network = network();
        change(&mut network);
        let options = FetcherOptions { keep: Some(Arc::clone(&self.room)), ..FetcherOptions::default() };
        HttpFetcher::with_options(&network, AGENT, Arc::new([]), clock(), options).expect("a fetcher")
    }

    /// Fetches, and hands over what was captured, as a worker does.
    pub(crate) async fn get(&self, fetcher: &HttpFetcher, url: &str, kind: RequestKind) -> Reply {
        let mut reply =
            fetcher.fetch(FetchRequest { url: url.parse().expect("URL"), kind, listener: None, links: None }).await;
        if let Some(capture) = reply.capture.take() {
            self.archive.sender().put(capture);
        }
        reply
    }

    /// Closes the archive and reads it.
    pub(crate) fn close(self) -> (Vec<Record>, TempDir) {
        self.archive.close_blocking(PATIENCE).expect("written");
        (warc::records(self.dir.path()), self.dir)
    }
}

/// Opens an archive in a folder.
pub(crate) fn open(dir: &Path, keep: Keep, options: ArchiveOptions) -> (Arc<Room>, Archive) {
    let room = Room::new(dir, keep);
    let archive = Archive::open(dir, Arc::clone(&room), SystemClock::shared(), options).expect("an archive");
    (room, archive)
}

/// A response as the fetcher captures it.
pub(crate) fn capture(url: &str, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Box<Capture> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().expect("a name");
        map.append(name, value.parse().expect("a value"));
    }
    let url: url::Url = url.parse().expect("URL");
    Box::new(Capture {
        kind: RequestKind::Page,
        sent: Wall::parse("2026-11-30T12:00:00.25Z").expect("time"),
        took: Duration::from_millis(120),
        peer: None,
        request: head::request(&url, &HeaderMap::new()),
        head: ResponseHead {
            version: Version::HTTP_11,
            status,
            reason: head::usual_reason(status).into(),
            headers: map,
        },
        body: Spool::of(body.to_vec()),
        truncated: None,
        is_sound: true,
        url,
    })
}

/// A response that was cut.
pub(crate) fn cut(mut capture: Box<Capture>, reason: Truncated) -> Box<Capture> {
    capture.truncated = Some(reason);
    capture.is_sound = false;
    capture
}

/// A response with a body in a file.
pub(crate) async fn filed(room: &Arc<Room>, url: &str, body: &[u8]) -> Box<Capture> {
    let mut tee = Tee::new(Arc::clone(room), Beyond::File);
    for chunk in body.chunks(10_000) {
        tee.push(chunk).await.expect("spooled");
    }
    let mut capture = capture(url, 200, &[], b"");
    capture.body = tee.end().await.expect("spooled");
    capture
}

/// Bytes that do not compress.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}
