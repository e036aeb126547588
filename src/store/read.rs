//! Reading URLs back: a thread that fetches the records of the queues' next heads.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;

use super::frame::{FrameError, read_frame};
use super::record::{Record, Records};
use super::writer::SharedIndex;
use super::{ReadChannel, UrlId};
use crate::control::{Mono, RequestKind};
use crate::fault;
use crate::text::{Clean, of_panic};

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

impl Ask {
    fn newest(&self) -> Option<u32> {
        self.ids.iter().max().copied()
    }
}

/// URLs that are read back together, about.
const TOGETHER: usize = 4_096;

/// The engine's side of the reading thread, which ends when this is dropped.
pub(super) struct Reading {
    asks: std::sync::mpsc::Sender<Ask>,
    read: mpsc::UnboundedReceiver<UrlsRead>,
    index: Arc<SharedIndex>,
    died: Arc<OnceLock<Clean>>,
}

impl Reading {
    pub(super) fn start(path: PathBuf, index: Arc<SharedIndex>) -> io::Result<Self> {
        let (asks, asked) = std::sync::mpsc::channel::<Ask>();
        let (answers, read): ReadChannel = mpsc::unbounded_channel();
        let reader = Reader { path, file: None, frame: Vec::new(), index: Arc::clone(&index), answers };
        let thread = std::thread::Builder::new().name("store-read".into());
        let died = Arc::new(OnceLock::new());
        let dies = Arc::clone(&died);
        thread.spawn(move || {
            // Without an error or with one, that nobody listens any more, it just ends.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| reader.run(&asked))) {
                let why = format!("the thread that reads URLs back panicked: {}", of_panic(panic.as_ref()));
                let _ = dies.set(Clean::new(why));
            }
        })?;
        Ok(Self { asks, read, index, died })
    }

    pub(super) fn ask(&self, host: u32, lane: u8, ids: Vec<u32>, needs: u64) {
        // A reader that is gone answers nothing: its queue stays as it is, on the disk.
        let _ = self.asks.send(Ask { host, lane, ids, needs });
    }

    /// Transactions that are on the medium.
    pub(super) fn transactions(&self) -> u64 {
        self.index.lock().transactions
    }

    /// What its thread died of, if it did.
    pub(super) fn died(&self) -> Option<Clean> {
        self.died.get().cloned()
    }

    pub(super) fn try_next(&mut self) -> Option<UrlsRead> {
        self.read.try_recv().ok()
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
    /// The frame that was read last.
    frame: Vec<u8>,
    index: Arc<SharedIndex>,
    answers: mpsc::UnboundedSender<UrlsRead>,
}

/// Nobody listens.
struct Gone;

/// One URL that is asked for: the frame where it stands, the first number of that, and its place in the answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    at: u64,
    first: u32,
    id: u32,
    place: usize,
}

type Found = Vec<Result<StoredUrl, Clean>>;

impl Reader {
    /// Answers what waits together: hosts that came in side by side are asked for side by side, and their URLs stand
    /// in the same frames.
    fn run(mut self, asked: &Receiver<Ask>) -> Result<(), Gone> {
        while let Ok(first) = asked.recv() {
            let mut count = first.ids.len();
            let mut asks = vec![first];
            while count < TOGETHER
                && let Ok(ask) = asked.try_recv()
            {
                count += ask.ids.len();
                asks.push(ask);
            }
            let index = self.index.lock();
            let (ready, waiting): (Vec<_>, Vec<_>) =
                asks.into_iter().partition(|ask| index.has(ask.newest(), ask.needs));
            drop(index);
            self.answer(ready)?;
            for ask in waiting {
                let there = self.index.wait_for(ask.newest(), ask.needs);
                // If not, the crawl ends; nothing is lost, since what is not read stays pending.
                self.answer(vec![if there { ask } else { Ask { ids: Vec::new(), ..ask } }])?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, asks: Vec<Ask>) -> Result<(), Gone> {
        fault::pass("store-read");
        let missing = Clean::new("its record is not where it should be");
        let mut found: Found = vec![Err(missing); asks.iter().map(|ask| ask.ids.len()).sum()];
        let (mut urls, mut tries) = (Vec::with_capacity(found.len()), Vec::new());
        let index = self.index.lock();
        for (place, id) in asks.iter().flat_map(|ask| &ask.ids).copied().enumerate() {
            let after = index.frames.partition_point(|(first, _)| *first <= id);
            if let Some((first, at)) = after.checked_sub(1).and_then(|before| index.frames.get(before)).copied() {
                urls.push(Wanted { at, first, id, place });
            }
            if let Some(at) = index.tried.get(&id).copied() {
                tries.push(Wanted { at, first: 0, id, place });
            }
        }
        drop(index);
        urls.sort_unstable();
        tries.sort_unstable();
        for wanted in urls.chunk_by(|one, next| one.at == next.at) {
            match self.read(wanted[0].at) {
                Ok(()) => take_urls(&self.frame, wanted, &mut found),
                Err(error) => {
                    let lost = Clean::new(format!("state/{} {error}", super::load::URLS_FILE));
                    wanted.iter().for_each(|wanted| found[wanted.place] = Err(lost.clone()));
                }
            }
        }
        for wanted in tries.chunk_by(|one, next| one.at == next.at) {
            match self.read(wanted[0].at) {
                Ok(()) => take_tries(&self.frame, wanted, &mut found),
                // The URL itself is there: it begins anew.
                Err(error) => tracing::error!(%error, at = wanted[0].at, "the tries of a URL cannot be read back"),
            }
        }
        let mut found = found.into_iter();
        for Ask { host, lane, ids, .. } in asks {
            let mut answer = UrlsRead { host, lane, urls: Vec::with_capacity(ids.len()), lost: Vec::new() };
            for (id, found) in ids.into_iter().zip(&mut found) {
                match found {
                    Ok(url) => answer.urls.push(url),
                    Err(why) => answer.lost.push((UrlId(id), why)),
                }
            }
            self.answers.send(answer).map_err(|_| Gone)?;
        }
        Ok(())
    }

    fn read(&mut self, at: u64) -> Result<(), FrameError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        read_frame(file, at, &mut self.frame)
    }
}

/// Takes what is `wanted` of one frame, in the order of the numbers.
fn take_urls(payload: &[u8], wanted: &[Wanted], found: &mut Found) {
    let mut wanted = wanted.iter().peekable();
    let mut id = wanted.peek().map_or(0, |wanted| wanted.first);
    for record in Records::new(payload) {
        if wanted.peek().is_none() {
            return;
        }
        let Ok(Record::Url(url)) = record else { continue };
        while let Some(wanted) = wanted.next_if(|wanted| wanted.id == id) {
            found[wanted.place] = Ok(StoredUrl {
                id: UrlId(id),
                url: url.url.into(),
                depth: url.depth,
                run: url.run,
                kind: url.kind,
                failures: 0,
                unprocessed: 0,
                due: Mono::ZERO,
                hop: None,
            });
        }
        id += 1;
    }
}

fn take_tries(payload: &[u8], wanted: &[Wanted], found: &mut Found) {
    for record in Records::new(payload) {
        let Ok(Record::Tried(tried)) = record else { continue };
        for wanted in wanted.iter().filter(|wanted| wanted.id == tried.id.0) {
            let Ok(stored) = &mut found[wanted.place] else { continue };
            stored.failures = tried.failures;
            stored.unprocessed = tried.unprocessed;
            stored.due = tried.due;
            stored.hop = tried.hop.as_ref().map(|hop| StoredHop {
                url: hop.url.into(),
                hops: hop.hops,
                cookies: hop.cookies,
                chain: hop.chain.clone(),
            });
        }
    }
}
