//! The store's writing thread: one transaction after the other, each wholly on the medium or not at all.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::file::StoreFile;
use super::frame::{FileKind, PAYLOAD};
use super::load::{Index, Loaded, Mark, URLS_FILE};
use super::room::Room;
use super::states::{StatesFile, push_urls_end};
use super::{Barrier, StoreHealth, StoreOptions, record};
use crate::journal::disk::Disk;
use crate::journal::handover::{Desk, Handover, Writing};
use crate::text::Clean;

/// Records that will stand in one frame, and what the index must know of them.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) payload: Vec<u8>,
    /// The first URL in it.
    pub(super) first_url: Option<u32>,
    /// How many there are.
    pub(super) urls: u32,
    /// URLs that it tells a try of.
    pub(super) tried: Vec<u32>,
    /// URLs that it tells the fate of.
    pub(super) ended: Vec<u32>,
}

impl Default for Piece {
    fn default() -> Self {
        // The last record may pass the end a little.
        let payload = Vec::with_capacity(PAYLOAD + PAYLOAD / 8);
        Self { payload, first_url: None, urls: 0, tried: Vec::new(), ended: Vec::new() }
    }
}

/// Bytes that one commit takes, about; what waits behind them is the next one's.
pub(super) const COMMIT_BYTES: usize = 4 << 20;

/// What the engine hands over at once.
pub(super) struct Transaction {
    pub(super) urls: Vec<Piece>,
    pub(super) states: Vec<Vec<u8>>,
    pub(super) bytes: usize,
    pub(super) mark: Mark,
    /// What was handed over to each barrier by then, which is all that it relies on.
    pub(super) counts: Vec<u64>,
}

impl Transaction {
    fn count(&self, barrier: usize) -> u64 {
        self.counts.get(barrier).copied().unwrap_or_default()
    }
}

/// What the handle and the writer share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) handover: Handover<VecDeque<Transaction>>,
    /// Bytes handed over and not yet on the medium.
    pub(super) waiting: AtomicUsize,
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
    pub(super) fn wait_for(&self, id: Option<u32>, transactions: u64) -> bool {
        let waiting = |index: &mut Index| !index.has(id, transactions) && !self.over.load(Ordering::Acquire);
        let index = self.grown.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        index.has(id, transactions)
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
        let index = SharedIndex { index: Mutex::new(index), grown: Condvar::new(), over: false.into() };
        (Arc::default(), Arc::new(index))
    }

    pub(super) fn push(&self, transaction: Transaction) {
        self.waiting.fetch_add(transaction.bytes, Ordering::AcqRel);
        self.handover.lock().queue.push_back(transaction);
        self.handover.wake();
    }

    /// What was taken and has to wait is the next to be taken.
    fn put_back(&self, transactions: VecDeque<Transaction>) {
        let mut desk = self.handover.lock();
        for transaction in transactions.into_iter().rev() {
            desk.queue.push_front(transaction);
        }
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
    /// This process has written something.
    wrote: bool,
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
            wrote: false,
            room: Room::default(),
            dir: dir.to_path_buf(),
            health: watch::Sender::new(StoreHealth::default()),
        }
    }

    pub(super) fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    fn take(&self) -> (VecDeque<Transaction>, bool) {
        let idle = |desk: &mut Desk<VecDeque<Transaction>>| desk.queue.is_empty() && !desk.closing;
        let handover = &self.shared.handover;
        // Where there is little room it is looked at again by itself: nothing else will happen.
        let mut desk = handover.wait(handover.lock(), self.room.is_low().then_some(self.options.retry), idle);
        let mut bytes = 0;
        let mut taken = VecDeque::new();
        while bytes < COMMIT_BYTES
            && let Some(transaction) = desk.queue.pop_front()
        {
            bytes += transaction.bytes;
            taken.push_back(transaction);
        }
        (taken, desk.closing)
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

    /// Has what the first of the transactions relies on put on the medium; how many of them may be written then. The
    /// others do not keep it waiting: what they rely on may be far behind.
    fn pass_barriers(&mut self, transactions: &VecDeque<Transaction>) -> Result<usize, Clean> {
        let mut ready = transactions.len();
        for (number, barrier) in self.barriers.iter_mut().enumerate() {
            let first = transactions.front().map_or(0, |one| one.count(number));
            let synced = barrier.sync(first);
            let synced = synced.map_err(|error| Clean::new(format!("{}: {error}", barrier.name())))?;
            ready = transactions.iter().take(ready).take_while(|one| one.count(number) <= synced).count();
        }
        Ok(ready.max(1))
    }

    /// Puts everything into the files' buffers, as one transaction each.
    fn append(&mut self, transactions: VecDeque<Transaction>, mut mark: Mark) -> Learned {
        let mut learned = Learned { transactions: transactions.len() as u64, ..Learned::default() };
        let (mut states, mut urls) = (Vec::new(), Vec::new());
        for transaction in transactions {
            states.extend(transaction.states);
            urls.extend(transaction.urls);
        }
        if let Some(last) = states.last_mut() {
            // Each file tells of the other, so that neither can be lost or cut unseen.
            push_urls_end(last, self.urls.end());
        }
        let last = states.len().saturating_sub(1);
        for (number, payload) in states.iter().enumerate() {
            self.states.file.push(payload, number == last);
        }
        mark.states = Some(self.states.place());
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
            self.next_id += piece.urls;
        }
        learned.written = self.next_id;
        learned
    }

    /// Writes and syncs, the states first: they may be newer than the fates, never older.
    fn settle(&mut self) -> Result<(), Clean> {
        let named = self.states.settle_names(&mut *self.disk);
        named.map_err(|error| blocked_reason(self.states.file.path(), &error))?;
        for file in [&mut self.states.file, &mut self.urls] {
            file.inherit(&mut *self.disk).map_err(|error| blocked_reason(file.path(), &error))?;
        }
        for file in [&mut self.states.file, &mut self.urls] {
            file.settle(&mut *self.disk).map_err(|error| blocked_reason(file.path(), &error))?;
        }
        Ok(())
    }

    /// Writes the states anew. Where that fails the old file serves as well, but grows, and somebody has to know.
    fn rewrite(&mut self) {
        let overgrown = self.states.rewrite(&mut *self.disk).err();
        let overgrown = overgrown.map(|error| Clean::new(format!("state/{error}")));
        self.health.send_if_modified(|health| {
            let changed = health.overgrown != overgrown;
            health.overgrown = overgrown;
            changed
        });
    }

    /// The last word of a process that wrote something: where the file of URLs ends. What is missing of it later
    /// was lost from outside, and is no torn end.
    fn tell_end(&mut self) {
        if !self.wrote {
            return;
        }
        let mut payload = Vec::new();
        push_urls_end(&mut payload, self.urls.end());
        self.states.file.push(&payload, true);
        if let Err(error) = self.states.file.settle(&mut *self.disk) {
            tracing::warn!(%error, "where the URLs end is not told: damage in the last of them may count as torn");
        }
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
    fn rest(&self, reason: Clean) -> bool {
        self.health.send_modify(|health| health.blocked = Some(reason));
        self.shared.handover.rest(self.options.retry)
    }
}

impl Writing for Writer {
    type Queue = VecDeque<Transaction>;

    fn handover(&self) -> &Handover<VecDeque<Transaction>> {
        &self.shared.handover
    }

    /// Until closed or abandoned.
    fn run(&mut self) {
        loop {
            let (mut transactions, closing) = self.take();
            self.look_for_room();
            if transactions.is_empty() {
                if closing {
                    self.tell_end();
                    return;
                }
                continue;
            }
            // What must be there first is on the medium before a byte of the transaction is written.
            let ready = loop {
                match self.pass_barriers(&transactions) {
                    Ok(ready) => break ready,
                    Err(reason) => {
                        if !self.rest(reason) {
                            return;
                        }
                    }
                }
            };
            self.shared.put_back(transactions.split_off(ready.min(transactions.len())));
            let bytes = transactions.iter().map(|one| one.bytes).sum();
            let Some(last) = transactions.back().map(|one| one.mark.clone()) else { continue };
            self.wrote = true;
            let learned = self.append(transactions, last);
            while let Err(reason) = self.settle() {
                if !self.rest(reason) {
                    return;
                }
            }
            self.learn(learned);
            self.shared.waiting.fetch_sub(bytes, Ordering::AcqRel);
            self.health.send_modify(|health| {
                health.commits += 1;
                health.blocked = None;
            });
            if self.states.is_due() {
                self.rewrite();
            }
        }
    }

    fn over(&mut self, why: &Clean, panicked: bool) {
        if panicked {
            self.health.send_modify(|health| health.blocked = Some(why.clone()));
        } else if self.shared.waiting.load(Ordering::Acquire) > 0 {
            self.health.send_modify(|health| health.blocked = health.blocked.take().or(Some(why.clone())));
        }
        self.index.end();
    }
}

/// What the operator is told when nothing can be written.
fn blocked_reason(path: &Path, error: &io::Error) -> Clean {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Clean::new(format!("state/{name} cannot be written: {error}"))
}
