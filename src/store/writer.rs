//! The store's writing thread: one transaction after the other, each wholly on the medium or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::file::StoreFile;
use super::frame::FileKind;
use super::load::{Index, Loaded, Mark, URLS_FILE};
use super::room::Room;
use super::states::StatesFile;
use super::{Barrier, StoreHealth, StoreOptions, record};
use crate::journal::disk::Disk;
use crate::text::Clean;

/// Records that will stand in one frame, and what the index must know of them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) payload: Vec<u8>,
    /// The first URL in it.
    pub(super) first_url: Option<u32>,
    /// URLs that it tells a try of.
    pub(super) tried: Vec<u32>,
    /// URLs that it tells the fate of.
    pub(super) ended: Vec<u32>,
}

/// What the engine hands over at once.
pub(super) struct Transaction {
    pub(super) urls: Vec<Piece>,
    pub(super) states: Vec<Vec<u8>>,
    pub(super) bytes: usize,
    pub(super) mark: Mark,
}

/// What the handle and the writer share.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    ended: Condvar,
    /// Bytes handed over and not yet on the medium.
    pub(super) waiting: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    transactions: Vec<Transaction>,
    closing: bool,
    abandoned: bool,
    ended: bool,
}

/// Where URLs stand, for whoever reads them back.
pub(super) struct SharedIndex {
    index: Mutex<Index>,
    grown: Condvar,
    /// The writer is gone: nothing more will be written.
    over: std::sync::atomic::AtomicBool,
}

impl SharedIndex {
    pub(super) fn lock(&self) -> MutexGuard<'_, Index> {
        // The index is whole whenever the lock is free.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the URL and so many transactions are in the file; false if they never will be.
    pub(super) fn wait_for(&self, id: u32, transactions: u64) -> bool {
        let missing = |index: &Index| index.written <= id || index.transactions < transactions;
        let waiting = |index: &mut Index| missing(index) && !self.over.load(Ordering::Acquire);
        let index = self.grown.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        !missing(&index)
    }

    pub(super) fn end(&self) {
        let guard = self.lock();
        self.over.store(true, Ordering::Release);
        drop(guard);
        self.grown.notify_all();
    }
}

impl Shared {
    pub(super) fn new(index: Index) -> (Arc<Self>, Arc<SharedIndex>) {
        let shared = Self {
            queue: Mutex::default(),
            filled: Condvar::new(),
            ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
        };
        let index = SharedIndex { index: Mutex::new(index), grown: Condvar::new(), over: false.into() };
        (Arc::new(shared), Arc::new(index))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole whenever the lock is free.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, transaction: Transaction) {
        self.waiting.fetch_add(transaction.bytes, Ordering::AcqRel);
        self.lock().transactions.push(transaction);
        self.filled.notify_one();
    }

    /// Tells the writer to end and waits until it has.
    pub(super) fn finish(&self, deadline: Duration) {
        let mut queue = self.lock();
        queue.closing = true;
        self.filled.notify_one();
        let waited = self.ended.wait_timeout_while(queue, deadline, |queue| !queue.ended);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.abandoned = true;
        drop(queue);
        self.filled.notify_one();
    }
}

/// The thread's side.
pub(super) struct Writer {
    shared: Arc<Shared>,
    index: Arc<SharedIndex>,
    barriers: Vec<Box<dyn Barrier>>,
    disk: Box<dyn Disk>,
    options: StoreOptions,
    urls: StoreFile,
    states: StatesFile,
    next_id: u32,
    /// The names of the files are on the medium, as far as the file system can tell.
    named: bool,
    room: Room,
    dir: PathBuf,
    health: watch::Sender<StoreHealth>,
}

/// What the index learns when the frames of a transaction are in the file.
#[derive(Default)]
struct Learned {
    frames: Vec<(u32, u64)>,
    tried: Vec<(u32, u64)>,
    ended: Vec<u32>,
    written: u32,
    transactions: u64,
}

impl Writer {
    pub(super) fn new(
        dir: &Path,
        loaded: &Loaded,
        barriers: Vec<Box<dyn Barrier>>,
        disk: Box<dyn Disk>,
        options: StoreOptions,
        shared: Arc<Shared>,
        index: Arc<SharedIndex>,
    ) -> Self {
        Self {
            shared,
            index,
            barriers,
            disk,
            options,
            urls: StoreFile::new(dir.join(URLS_FILE), FileKind::Urls, loaded.urls_end),
            states: StatesFile::new(
                dir,
                loaded.states_generation,
                loaded.states_end,
                loaded.states_valid,
                options.rewrite_min,
            ),
            next_id: loaded.next_id,
            named: false,
            room: Room::default(),
            dir: dir.to_path_buf(),
            health: watch::Sender::new(StoreHealth::default()),
        }
    }

    pub(super) fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    /// Until closed or abandoned; tells whoever waits, also after a panic.
    pub(super) fn run_to_end(self) {
        Ending(self).0.run();
    }

    fn run(&mut self) {
        loop {
            let (transactions, closing) = self.take();
            self.look_for_room();
            if transactions.is_empty() {
                if closing {
                    return;
                }
                continue;
            }
            let bytes = transactions.iter().map(|one| one.bytes).sum();
            let Some(last) = transactions.last().map(|one| one.mark.clone()) else { continue };
            // What must be there first is on the medium before a byte of the transaction is written.
            while let Err(reason) = self.pass_barriers() {
                if !self.wait_for_retry(reason) {
                    return;
                }
            }
            let learned = self.append(transactions, last);
            while let Err(reason) = self.settle() {
                if !self.wait_for_retry(reason) {
                    return;
                }
            }
            self.learn(learned);
            self.shared.waiting.fetch_sub(bytes, Ordering::AcqRel);
            self.health.send_modify(|health| {
                health.commits += 1;
                health.blocked = None;
            });
            if self.states.is_overgrown()
                && let Err(error) = self.states.rewrite(&mut *self.disk)
            {
                // The old file serves as well; it is tried again after the next transaction.
                tracing::warn!(%error, "the file of states cannot be written anew");
            }
        }
    }

    fn take(&self) -> (Vec<Transaction>, bool) {
        let idle = |queue: &mut Queue| queue.transactions.is_empty() && !queue.closing;
        let (filled, queue) = (&self.shared.filled, self.shared.lock());
        let mut queue = match self.room.is_low() {
            // Looked at again by itself: nothing else will happen.
            true => {
                let waited = filled.wait_timeout_while(queue, self.options.retry, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            false => filled.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner),
        };
        (std::mem::take(&mut queue.transactions), queue.closing)
    }

    fn look_for_room(&mut self) {
        let before = self.room;
        let free = self.disk.room(&self.dir);
        self.room.look(free);
        if before.is_low() != self.room.is_low() {
            let reason = self.room.reason();
            self.health.send_modify(|health| health.room = reason);
        }
    }

    fn pass_barriers(&mut self) -> Result<(), Clean> {
        for barrier in &mut self.barriers {
            barrier.sync().map_err(|error| Clean::new(format!("{}: {error}", barrier.name())))?;
        }
        Ok(())
    }

    /// Puts everything into the files' buffers, as one transaction each.
    fn append(&mut self, transactions: Vec<Transaction>, mark: Mark) -> Learned {
        let mut learned = Learned { transactions: transactions.len() as u64, ..Learned::default() };
        let (mut states, mut urls) = (Vec::new(), Vec::new());
        for transaction in transactions {
            states.extend(transaction.states);
            urls.extend(transaction.urls);
        }
        let last = states.len().saturating_sub(1);
        for (number, payload) in states.iter().enumerate() {
            self.states.file.push(payload, number == last);
        }
        let mut end = Piece::default();
        match serde_json::to_vec(&mark) {
            Ok(json) => record::push_mark(&mut end.payload, &json),
            // Plain data always becomes JSON.
            Err(error) => tracing::error!(%error, "a transaction cannot be marked"),
        }
        urls.push(end);
        let last = urls.len() - 1;
        for (number, piece) in urls.into_iter().enumerate() {
            let at = self.urls.push(&piece.payload, number == last);
            learned.frames.extend(piece.first_url.map(|first| (first, at)));
            learned.tried.extend(piece.tried.into_iter().map(|id| (id, at)));
            learned.ended.extend(piece.ended);
            self.next_id += urls_in(&piece.payload, piece.first_url);
        }
        learned.written = self.next_id;
        learned
    }

    /// Writes and syncs, the states first: they may be newer than the fates, never older.
    fn settle(&mut self) -> Result<(), Clean> {
        for file in [&mut self.states.file, &mut self.urls] {
            if file.is_dirty() {
                let settled = file.write(&mut *self.disk).and_then(|()| file.sync());
                settled.map_err(|error| blocked_reason(file.path(), &error))?;
            }
        }
        if !std::mem::replace(&mut self.named, true)
            && let Some(dir) = self.urls.path().parent()
        {
            // Not every file system can sync a folder; the files themselves are synced.
            let _ = self.disk.sync_dir(dir);
        }
        Ok(())
    }

    fn learn(&self, learned: Learned) {
        let mut index = self.index.lock();
        index.frames.extend(learned.frames);
        index.tried.extend(learned.tried);
        for id in learned.ended {
            index.tried.remove(&id);
        }
        index.written = learned.written;
        index.transactions += learned.transactions;
        drop(index);
        self.index.grown.notify_all();
    }

    /// Says why, and waits before the next try; false = give up.
    fn wait_for_retry(&self, reason: Clean) -> bool {
        self.health.send_modify(|health| health.blocked = Some(reason));
        let queue = self.shared.lock();
        let was_closing = queue.closing;
        let waited = self
            .shared
            .filled
            .wait_timeout_while(queue, self.options.retry, |queue| queue.closing == was_closing && !queue.abandoned);
        !waited.unwrap_or_else(PoisonError::into_inner).0.abandoned
    }
}

/// URLs in a payload.
fn urls_in(payload: &[u8], first: Option<u32>) -> u32 {
    if first.is_none() {
        return 0;
    }
    let urls = record::Records::new(payload).filter(|record| matches!(record, Ok(record::Record::Url(_))));
    u32::try_from(urls.count()).unwrap_or(0)
}

/// What the operator is told when nothing can be written.
fn blocked_reason(path: &Path, error: &io::Error) -> Clean {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Clean::new(format!("state/{name} cannot be written: {error}"))
}

/// Tells whoever waits that the thread is over, also if it panicked.
struct Ending(Writer);

impl Drop for Ending {
    fn drop(&mut self) {
        let writer = &self.0;
        if writer.shared.waiting.load(Ordering::Acquire) > 0 {
            writer.health.send_modify(|health| {
                health.blocked.get_or_insert_with(|| Clean::new("the store's writer has ended"));
            });
        }
        writer.index.end();
        writer.shared.lock().ended = true;
        writer.shared.ended.notify_all();
    }
}
