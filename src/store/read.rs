//! Reading URLs back: a thread that fetches the records of the queues' next heads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::frame::{FrameError, read_frame};
use super::record::{Record, Records};
use super::writer::SharedIndex;
use super::{ReadChannel, UrlId};
use crate::control::{Mono, RequestKind};
use crate::text::Clean;

/// A URL as the store has it.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredUrl {
    /// Which.
    pub id: UrlId,
    /// The URL of the crawl.
    pub url: Box<str>,
    /// Links between it and an input.
    pub depth: u32,
    /// Steps since the last new pattern, as the traps count them.
    pub run: u16,
    /// What it is for.
    pub kind: RequestKind,
    /// Attempts that failed.
    pub failures: u8,
    /// Times that nobody worked on it.
    pub unprocessed: u8,
    /// Not before this moment.
    pub due: Mono,
    /// Where it goes next, if a redirect leads elsewhere.
    pub hop: Option<StoredHop>,
}

/// A chain of redirects under way.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoredHop {
    /// Where it leads.
    pub url: Box<str>,
    /// Hops so far.
    pub hops: u8,
    /// Cookie changes along the chain.
    pub cookies: u8,
    /// What was seen along the chain.
    pub chain: Vec<(u128, u8)>,
}

/// The answer to one request.
#[derive(Debug)]
pub struct UrlsRead {
    /// As asked.
    pub host: u32,
    /// As asked.
    pub lane: u8,
    /// In the order in which they were asked for.
    pub urls: Vec<StoredUrl>,
    /// Those that cannot be read, and why.
    pub lost: Vec<(UrlId, Clean)>,
}

struct Ask {
    host: u32,
    lane: u8,
    ids: Vec<u32>,
    needs: u64,
}

/// The engine's side of the reading thread, which ends when this is dropped.
pub(super) struct Reading {
    asks: std::sync::mpsc::Sender<Ask>,
    read: mpsc::UnboundedReceiver<UrlsRead>,
    index: Arc<SharedIndex>,
}

impl Reading {
    pub(super) fn start(path: PathBuf, index: Arc<SharedIndex>) -> io::Result<Self> {
        let (asks, asked) = std::sync::mpsc::channel::<Ask>();
        let (answers, read): ReadChannel = mpsc::unbounded_channel();
        let mut reader = Reader { path, file: None, index: Arc::clone(&index) };
        std::thread::Builder::new().name("store-read".into()).spawn(move || {
            for ask in asked {
                if answers.send(reader.answer(ask)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { asks, read, index })
    }

    pub(super) fn ask(&self, host: u32, lane: u8, ids: Vec<u32>, needs: u64) {
        // A reader that is gone answers nothing: its queue stays as it is, on the disk.
        let _ = self.asks.send(Ask { host, lane, ids, needs });
    }

    /// Transactions that are on the medium.
    pub(super) fn transactions(&self) -> u64 {
        self.index.lock().transactions
    }

    pub(super) async fn next(&mut self) -> UrlsRead {
        match self.read.recv().await {
            Some(read) => read,
            None => std::future::pending().await,
        }
    }
}

struct Reader {
    path: PathBuf,
    file: Option<File>,
    index: Arc<SharedIndex>,
}

impl Reader {
    fn answer(&mut self, ask: Ask) -> UrlsRead {
        let Ask { host, lane, ids, needs } = ask;
        let mut answer = UrlsRead { host, lane, urls: Vec::with_capacity(ids.len()), lost: Vec::new() };
        if let Some(newest) = ids.iter().max()
            && !self.index.wait_for(*newest, needs)
        {
            // The crawl ends; nothing is lost, since what is not read stays pending.
            return answer;
        }
        // By frame, so that one with several of them is read once.
        let (mut frames, mut tries) = (BTreeMap::<u64, Vec<u32>>::new(), BTreeMap::<u64, Vec<u32>>::new());
        let index = self.index.lock();
        let mut starts = BTreeMap::new();
        for id in &ids {
            let after = index.frames.partition_point(|(first, _)| first <= id);
            if let Some((first, at)) = after.checked_sub(1).and_then(|place| index.frames.get(place)) {
                frames.entry(*at).or_default().push(*id);
                starts.insert(*at, *first);
            }
            if let Some(at) = index.tried.get(id) {
                tries.entry(*at).or_default().push(*id);
            }
        }
        drop(index);
        let mut found = BTreeMap::new();
        for (at, wanted) in frames {
            let first = starts.get(&at).copied().unwrap_or(0);
            match self.frame(at) {
                Ok(payload) => take_urls(&payload, first, &wanted, &mut found),
                Err(error) => answer.lost.extend(wanted.iter().map(|id| (UrlId(*id), lost(&error)))),
            }
        }
        for (at, wanted) in tries {
            match self.frame(at) {
                Ok(payload) => take_tries(&payload, &wanted, &mut found),
                // The URL itself is there: it begins anew.
                Err(error) => tracing::error!(%error, at, "the tries of a URL cannot be read back"),
            }
        }
        for id in ids {
            match found.remove(&id) {
                Some(url) => answer.urls.push(url),
                None if answer.lost.iter().any(|(lost, _)| lost.0 == id) => {}
                None => answer.lost.push((UrlId(id), Clean::new("its record is not where it should be"))),
            }
        }
        answer
    }

    fn frame(&mut self, at: u64) -> Result<Vec<u8>, FrameError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        read_frame(file, at)
    }
}

fn lost(error: &FrameError) -> Clean {
    Clean::new(format!("state/{} {error}", super::load::URLS_FILE))
}

fn take_urls(payload: &[u8], first: u32, wanted: &[u32], found: &mut BTreeMap<u32, StoredUrl>) {
    let mut id = first;
    for record in Records::new(payload) {
        let Ok(Record::Url(url)) = record else { continue };
        if wanted.contains(&id) {
            let stored = StoredUrl {
                id: UrlId(id),
                url: url.url.into(),
                depth: url.depth,
                run: url.run,
                kind: url.kind,
                failures: 0,
                unprocessed: 0,
                due: Mono::ZERO,
                hop: None,
            };
            found.insert(id, stored);
        }
        id += 1;
    }
}

fn take_tries(payload: &[u8], wanted: &[u32], found: &mut BTreeMap<u32, StoredUrl>) {
    for record in Records::new(payload) {
        let Ok(Record::Tried(tried)) = record else { continue };
        let Some(stored) = found.get_mut(&tried.id.0).filter(|_| wanted.contains(&tried.id.0)) else { continue };
        stored.failures = tried.failures;
        stored.unprocessed = tried.unprocessed;
        stored.due = tried.due;
        stored.hop = tried.hop.map(|hop| StoredHop {
            url: hop.url.into(),
            hops: hop.hops,
            cookies: hop.cookies,
            chain: hop.chain,
        });
    }
}
