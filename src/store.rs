//! The store: what a crawl must not lose, in `state/` of the run folder.
//!
//! Two files, both only appended to in framed, checksummed transactions ([`frame`]):
//!
//! * `urls.log` — hosts, URLs and fates in the order in which they came ([`record`]). What has no fate is pending; a
//!   lease needs no record, since whoever starts anew finds all that was leased pending again.
//! * `hosts-N.log` — the last word on each host (what its controller learned, holds, the operator's settings,
//!   statistics), on each robots.txt and on the crawl ([`states`]); written anew when most of it is outdated.
//!
//! Each file tells how long the other was, so that neither is lost, cut or damaged unseen ([`load::Lost`]).
//!
//! The engine hands over one transaction each quarter second and never waits. The writer's thread first has every
//! [`Barrier`] put on the medium what the transaction relies on (the rows of the journal), then the states, then the
//! URLs: a URL is done only after its rows are durable. A second thread reads URLs back ([`Store::load`]), since only
//! the heads of the queues are in memory.
//!
//! What bounds it: the engine, which grants nothing and reads no input while [`Store::is_full`] or blocked.
//! What is in memory of a URL: its fingerprint (10 to 12.5 bytes, see [`prints`]), and 4 to 5 bytes while it is pending.

mod file;
pub mod frame;
pub mod list;
pub mod load;
pub mod prints;
mod read;
pub mod record;
pub mod room;
pub mod states;
mod writer;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::clock::Anchor;
use crate::control::Mono;
use crate::journal::disk::Disk;
use crate::journal::handover;
use crate::text::Clean;
use frame::{FrameError, PAYLOAD};
use load::{Loaded, Mark};
use read::Reading;
use record::{HeldRecord, SignRecord, TriedRecord, UrlRecord};
use states::StateKind;
use writer::{Piece, Shared, Transaction, Writer};

pub use read::{StoredHop, StoredUrl, UrlsRead};

/// A URL, by its number in the store: dense, from 0, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UrlId(pub u32);

impl UrlId {
    /// No URL of the crawl (a robots.txt), or one that was never numbered.
    pub const NONE: Self = Self(u32::MAX);
}

/// What became of a URL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It has its final answer.
    Done = 1,
    /// It was given up.
    Failed = 2,
    /// It was never sent.
    Skipped = 3,
}

impl Fate {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Done),
            2 => Some(Self::Failed),
            3 => Some(Self::Skipped),
            _ => None,
        }
    }
}

/// Something that must be on the medium before a transaction is: the journal, the archive.
pub trait Barrier: Send {
    /// Its name among the places of a transaction.
    fn name(&self) -> &'static str;
    /// Returns when the first `count` things that were handed over are on the medium, and how many of them are by then;
    /// without a [`Self::counter`], when all that was handed over before the call is. May take as long as a disk takes;
    /// an error says why it cannot be, and the call is made again later.
    fn sync(&mut self, count: u64) -> io::Result<u64>;
    /// Who counts what is handed over to it, if what comes later can be long behind it. Asked when a transaction is
    /// handed over, which then waits for no more than that.
    fn counter(&self) -> Option<Counter> {
        None
    }
    /// Who tells how far it is, if it wants to know that when the run is resumed. Asked when a transaction is handed
    /// over, so that the place is never beyond what the transaction tells.
    fn teller(&self) -> Option<Teller> {
        None
    }
}

/// Tells how far something is, in its own words. Must not wait.
pub type Teller = Box<dyn Fn() -> String + Send>;

/// Counts what was handed over to something. Must not wait.
pub type Counter = Box<dyn Fn() -> u64 + Send>;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// One of its files.
    #[error("{} {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: FrameError,
    },
    /// A record that is whole and makes no sense.
    #[error("{} holds a record at byte {at} that this crawldeck does not know: use the one that wrote it", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The frame.
        at: u64,
    },
    /// The file of URLs is gone, or empty.
    #[error(
        "{} is missing or empty: {had} bytes of it were on the disk. Put it back from a copy, or begin anew in another \
         folder",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// How many bytes it had at least.
        had: u64,
    },
    /// Its folder cannot be made.
    #[error("{} cannot be made: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("the store's threads cannot be started: {0}")]
    Thread(io::Error),
    /// The time to close was over before everything was written.
    #[error("the last {bytes} bytes of the crawl's state were not written: {reason}")]
    Unwritten {
        /// How many.
        bytes: usize,
        /// Why.
        reason: Clean,
    },
}

/// How the store commits.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// The engine hands a transaction over this often.
    pub group: Duration,
    /// What ended so long ago and is not on the medium yet is [late](Store::late).
    pub kill_costs: Duration,
    /// A disk that cannot be written to is tried again after this.
    pub retry: Duration,
    /// The file of states is not written anew below this size, in bytes.
    pub rewrite_min: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            // A disk has the rest of `kill_costs` before it holds anything up.
            group: Duration::from_millis(200),
            kill_costs: Duration::from_millis(250),
            retry: Duration::from_secs(1),
            rewrite_min: states::REWRITE_MIN,
        }
    }
}

/// How the store is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreHealth {
    /// Transactions that are on the medium.
    pub commits: u64,
    /// Why nothing can be written now; `None` = all is well.
    pub blocked: Option<Clean>,
    /// Why there is too little room, if there is.
    pub room: Option<Clean>,
    /// Why the file of states was not written anew when most of it was outdated; `None` = it was, or need not be. The
    /// old file is in use.
    pub overgrown: Option<Clean>,
}

/// Bytes that may wait for the disk before the engine stops granting and reading.
pub const BACKLOG_MAX: usize = 8 << 20;
/// A transaction of so many bytes is handed over before its time.
const TRANSACTION_BYTES: usize = 1 << 20;

/// The engine's handle to the store.
pub struct Store {
    shared: Arc<Shared>,
    reading: Reading,
    options: StoreOptions,
    urls: Vec<Piece>,
    states: Vec<Vec<u8>>,
    bytes: usize,
    next_id: u32,
    tellers: Vec<(&'static str, Teller)>,
    /// One a barrier.
    counters: Vec<Option<Counter>>,
    /// Transactions handed over.
    handed: u64,
    /// URLs that ended since the last one.
    ends: u32,
    /// Those that ended with each that may not be on the medium yet. Bounded: while URLs of one wait for long, none
    /// are granted.
    ended: VecDeque<Ended>,
    /// Tries that may not be on the medium yet, and the transaction they are in.
    tries: HashMap<u32, u64, BuildHasherDefault<Folded>>,
    health: watch::Receiver<StoreHealth>,
    closed: bool,
}

/// URLs that ended with a transaction.
#[derive(Clone, Copy, Debug)]
struct Ended {
    transaction: u64,
    count: u32,
    /// When it was handed over.
    at: Mono,
}

/// Tries that are remembered before those that are written are forgotten.
const TRIES_MAX: usize = 4_096;

impl Store {
    /// A new store for the test of something else.
    #[cfg(test)]
    pub(crate) fn begun_in(run: &Path) -> Self {
        let disk = Box::new(crate::journal::disk::SystemDisk);
        Self::start(run, &mut Loaded::default(), Vec::new(), disk, StoreOptions::default()).expect("writable")
    }

    /// Starts to write and to read the store in `run` (the run folder), from what [`load::load`] found there; takes
    /// out of `loaded` what only it needs. The folder is made if there is none.
    pub fn start(
        run: &Path,
        loaded: &mut Loaded,
        barriers: Vec<Box<dyn Barrier>>,
        disk: Box<dyn Disk>,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let dir = run.join(load::STATE_FOLDER);
        std::fs::create_dir_all(&dir).map_err(|source| StoreError::Folder { path: dir.clone(), source })?;
        let next_id = loaded.next_id;
        let tellers = barriers.iter().filter_map(|barrier| Some((barrier.name(), barrier.teller()?))).collect();
        let counters = barriers.iter().map(|barrier| barrier.counter()).collect();
        let (shared, index) = Shared::new(std::mem::take(&mut loaded.index));
        let writer = Writer::new(&dir, loaded, barriers, disk, options, Arc::clone(&shared), Arc::clone(&index));
        let health = writer.health();
        handover::start("store", writer).map_err(StoreError::Thread)?;
        let reading = Reading::start(dir.join(load::URLS_FILE), index).map_err(StoreError::Thread)?;
        Ok(Self {
            shared,
            reading,
            options,
            urls: Vec::new(),
            states: Vec::new(),
            bytes: 0,
            next_id,
            tellers,
            counters,
            handed: 0,
            ends: 0,
            ended: VecDeque::new(),
            tries: HashMap::default(),
            health,
            closed: false,
        })
    }

    /// How often [`Self::commit`] is to be called.
    pub fn group(&self) -> Duration {
        self.options.group
    }

    /// A host that was not known before: its number is the count of those before it.
    pub fn add_host(&mut self, name: &str) {
        self.append(|piece| record::push_host(&mut piece.payload, name));
    }

    /// A URL that was not known before.
    pub fn add_url(&mut self, url: &UrlRecord<'_>) -> UrlId {
        let id = UrlId(self.next_id);
        self.next_id = self.next_id.saturating_add(1).min(UrlId::NONE.0 - 1);
        self.append(|piece| {
            piece.first_url.get_or_insert(id.0);
            piece.urls += 1;
            record::push_url(&mut piece.payload, url);
        });
        id
    }

    /// What became of a URL, and why.
    pub fn fate(&mut self, id: UrlId, fate: Fate, why: &str) {
        self.ends = self.ends.saturating_add(1);
        self.append(|piece| {
            piece.ended.push(id.0);
            record::push_fate(&mut piece.payload, id, fate, why);
        });
    }

    /// A URL was tried, and goes again.
    pub fn tried(&mut self, tried: &TriedRecord<'_>) {
        if self.tries.len() >= TRIES_MAX {
            let written = self.reading.transactions();
            self.tries.retain(|_, transaction| *transaction > written);
        }
        self.tries.insert(tried.id.0, self.handed + 1);
        self.append(|piece| {
            piece.tried.push(tried.id.0);
            record::push_tried(&mut piece.payload, tried);
        });
    }

    /// A URL is held back as one of a trap: whoever resumes the run holds it back, too.
    pub fn held(&mut self, held: HeldRecord) {
        self.append(|piece| record::push_held(&mut piece.payload, held));
    }

    /// A fingerprint that is known though no URL has it.
    pub fn known(&mut self, print: u64) {
        self.append(|piece| record::push_known(&mut piece.payload, print));
    }

    /// What the traps know of a pattern.
    pub fn sign(&mut self, sign: SignRecord) {
        self.append(|piece| record::push_sign(&mut piece.payload, sign));
    }

    /// A URL that had failed is pending again, one that was held back may go.
    pub fn back(&mut self, id: UrlId) {
        self.append(|piece| record::push_back(&mut piece.payload, id));
    }

    /// The state of something, which replaces what was said of it before.
    pub fn state(&mut self, kind: StateKind, key: &str, value: &[u8]) {
        if self.states.last().is_none_or(|payload| payload.len() >= PAYLOAD) {
            self.states.push(Vec::with_capacity(PAYLOAD + PAYLOAD / 4));
        }
        if let Some(payload) = self.states.last_mut() {
            states::push_state(payload, kind, key, value);
            self.bytes += key.len() + value.len();
        }
    }

    fn append(&mut self, write: impl FnOnce(&mut Piece)) {
        if self.urls.last().is_none_or(|piece| piece.payload.len() >= PAYLOAD) {
            self.urls.push(Piece::default());
        }
        if let Some(piece) = self.urls.last_mut() {
            let before = piece.payload.len();
            write(piece);
            self.bytes += piece.payload.len() - before;
        }
    }

    /// Whether there is something to commit.
    pub fn has_news(&self) -> bool {
        self.bytes > 0
    }

    /// Whether there is so much that it should not wait for its time.
    pub fn is_large(&self) -> bool {
        self.bytes >= TRANSACTION_BYTES
    }

    /// Hands over what was said since the last call, as one transaction made at `anchor`. Never waits. What the
    /// barriers are to cover must have been handed to them before.
    pub fn commit(&mut self, anchor: Anchor) {
        if !self.has_news() {
            return;
        }
        let places = self.tellers.iter().map(|(name, teller)| ((*name).to_owned(), teller())).collect();
        let counts = self.counters.iter().map(|counter| counter.as_ref().map_or(0, |count| count())).collect();
        let transaction = Transaction {
            counts,
            urls: std::mem::take(&mut self.urls),
            states: std::mem::take(&mut self.states),
            bytes: std::mem::take(&mut self.bytes),
            mark: Mark { anchor, places, states: None },
        };
        self.handed += 1;
        let written = self.written();
        self.ended.retain(|ended| ended.transaction > written);
        match std::mem::take(&mut self.ends) {
            0 => {}
            count => self.ended.push_back(Ended { transaction: self.handed, count, at: anchor.mono }),
        }
        self.shared.push(transaction);
    }

    /// URLs that ended long before `now` and are not on the medium, since it is slow, or what has to be there before (the
    /// journal, the archive): they count as in flight, as a kill costs them, too.
    pub fn late(&self, now: Mono) -> u32 {
        let written = self.written();
        let oldest = now.before(self.options.kill_costs.saturating_sub(self.options.group));
        let late = self.ended.iter().filter(|ended| ended.transaction > written && ended.at <= oldest);
        late.fold(0, |sum, ended| sum.saturating_add(ended.count))
    }

    /// The transaction that everything said so far is in, once it is handed over.
    pub fn transaction(&self) -> u64 {
        self.handed + u64::from(self.has_news())
    }

    /// Transactions that are on the medium, of those that this process handed over.
    pub fn written(&self) -> u64 {
        self.reading.transactions()
    }

    /// Whether so much waits for the disk that nothing more should come.
    pub fn is_full(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire).saturating_add(self.bytes) >= BACKLOG_MAX
    }

    /// How it is.
    pub fn health(&self) -> StoreHealth {
        self.health.borrow().clone()
    }

    /// Changes with every commit, and when the store becomes blocked or free again.
    pub fn health_changed(&self) -> watch::Receiver<StoreHealth> {
        self.health.clone()
    }

    /// Asks for the records of `ids`, which are read in the background. What is not written yet is waited for there.
    /// At most one request a lane is under way, so the requests are as many as lanes.
    pub fn load(&mut self, host: u32, lane: u8, ids: Vec<u32>) {
        let needs = ids.iter().filter_map(|id| self.tries.get(id)).max().copied().unwrap_or(0);
        self.reading.ask(host, lane, ids, needs);
    }

    /// Whether the writer has ended: nothing will be written any more.
    pub fn is_over(&self) -> bool {
        self.health.has_changed().is_err()
    }

    /// Why no URL will be read back any more, if so: the thread that does it panicked.
    pub fn reads_no_more(&self) -> Option<Clean> {
        self.reading.died()
    }

    /// Whether everything that was said is on the medium.
    pub fn is_settled(&self) -> bool {
        self.bytes == 0 && self.shared.waiting.load(Ordering::Acquire) == 0
    }

    /// The same, if there is more now.
    pub fn loaded_already(&mut self) -> Option<UrlsRead> {
        self.reading.try_next()
    }

    /// What [`Self::load`] asked for; never ready when nothing was asked for.
    pub async fn loaded(&mut self) -> UrlsRead {
        self.reading.next().await
    }

    /// Writes and syncs everything, waiting for `deadline` at most. Blocks the thread.
    pub fn close_blocking(mut self, deadline: Duration) -> Result<StoreHealth, StoreError> {
        self.closed = true;
        self.shared.handover.finish(deadline);
        let health = self.health();
        let bytes = self.shared.waiting.load(Ordering::Acquire);
        if bytes == 0 && health.blocked.is_none() {
            return Ok(health);
        }
        let reason = health.blocked.unwrap_or_else(|| Clean::new("the disk was too slow"));
        Err(StoreError::Unwritten { bytes, reason })
    }

    /// [`Self::close_blocking`] on a thread where blocking is allowed.
    pub async fn close(self, deadline: Duration) -> Result<StoreHealth, StoreError> {
        match tokio::task::spawn_blocking(move || self.close_blocking(deadline)).await {
            Ok(result) => result,
            Err(error) => Err(StoreError::Unwritten { bytes: 0, reason: Clean::new(error.to_string()) }),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.closed {
            self.shared.handover.finish(Duration::from_secs(1));
        }
    }
}

/// Fingerprints are hashes already, and numbers are counted: neither is anybody's to choose.
#[derive(Debug, Default)]
pub struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // Counted numbers differ in their low bits only; tables look at the high ones, too.
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The channel through which URLs that were read come back. Bounded by the requests: one a lane.
type ReadChannel = (mpsc::UnboundedSender<UrlsRead>, mpsc::UnboundedReceiver<UrlsRead>);
