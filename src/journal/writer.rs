//! The journal's one writer, on a thread of its own.
//!
//! The engine buffers records in its [`Journal`] and hands them over once a turn; that takes a lock for
//! the length of a move and never waits for the disk. Nothing is ever dropped: what bounds the memory is
//! the engine, which grants nothing while [`Journal::backlog`] is at [`BACKLOG_MAX`](super::BACKLOG_MAX) or the journal is
//! blocked. A disk that cannot be written to is tried again each second until it can.

mod tail;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::disk::{Disk, SystemDisk};
use super::encode::{self, CsvRows, RowText};
use super::handover::{self, Desk, Handover, Writing};
use super::log_file::{LogFile, UNSYNCED_MAX};
use super::place::Place;
use super::record::{Event, JournalHealth, RequestRow};
use super::{EVENTS_FILE, REQUESTS_FILE, rotated_name};
use crate::clock::Clock;
use crate::control::Mono;
use crate::text::Clean;
pub(crate) use tail::cut_torn_tail;
use tail::{begins_with, last_seq, next_rotated};

/// Records that are waited for no longer: so many are written at once, without waiting for the group.
const GROUP_MAX: usize = 4_096;

/// How the writer groups, syncs and rotates.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// Records gather for so long before they are written together.
    pub group: Duration,
    /// A disk that cannot be written to is tried again after this.
    pub retry: Duration,
    /// What is written is synced to the medium at most this often (and at rotation and close).
    pub sync_every: Duration,
    /// `requests.csv` is rotated when it has reached so many bytes; it passes that by one group at most.
    pub rotate_at: u64,
    /// Wire requests that stand in the folder's files already.
    pub rows: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            group: Duration::from_millis(100),
            retry: Duration::from_secs(1),
            sync_every: Duration::from_secs(5),
            rotate_at: 1 << 30,
            rows: 0,
        }
    }
}

/// Why the journal cannot be opened or was not written to its end.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file of the run folder cannot be opened or read.
    #[error("journal {} cannot be opened: {source}; check the folder, or choose another with -d", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("the journal's writer cannot be started: {0}")]
    Thread(io::Error),
    /// The time to close was over before everything was written.
    #[error("{records} records of the journal were not written: {reason}")]
    Unwritten {
        /// How many.
        records: usize,
        /// Why.
        reason: Clean,
    },
}

/// A record on its way.
enum Record {
    Request(RequestRow),
    Event(Event),
}

/// What the handle and the writer share.
#[derive(Default)]
struct Shared {
    handover: Handover<Queue>,
    /// Records handed over and not yet written.
    waiting: AtomicUsize,
    /// Wire requests that were handed over, those of earlier processes too.
    rows: AtomicU64,
}

#[derive(Default)]
struct Queue {
    records: Vec<Record>,
    /// How often somebody asked for everything to be on the medium, and up to which of these it is.
    syncs_asked: u64,
    syncs_done: u64,
    /// Why nothing can be written now.
    blocked: Option<Clean>,
    place: Place,
}

/// The engine's handle to the journal. Dropping it without [`Journal::close`] writes what is there, waiting a second at most.
pub struct Journal {
    shared: Arc<Shared>,
    buffer: Vec<Record>,
    health: watch::Receiver<JournalHealth>,
    closed: bool,
}

impl Journal {
    /// Opens the journal in `dir` on the machine's own file system, with the default options.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        Self::open_with(dir, clock, Box::new(SystemDisk), JournalOptions::default())
    }

    /// Opens the journal in `dir`, creating the folder and the files. Existing files are gone on with: a torn
    /// last line is cut off, the events' numbers continue.
    pub fn open_with(
        dir: &Path,
        clock: Arc<dyn Clock>,
        disk: Box<dyn Disk>,
        options: JournalOptions,
    ) -> Result<Self, JournalError> {
        let writer = Writer::open(dir, clock, disk, options)?;
        let (shared, health) = (Arc::clone(&writer.shared), writer.health.subscribe());
        handover::start("journal", writer).map_err(JournalError::Thread)?;
        Ok(Self { shared, buffer: Vec::new(), health, closed: false })
    }

    /// Has the store wait for this journal: a URL is done only after its rows are on the medium.
    pub fn barrier(&self) -> JournalBarrier {
        JournalBarrier(Arc::clone(&self.shared))
    }

    /// Buffers a wire request.
    pub fn request(&mut self, row: RequestRow) {
        self.shared.rows.fetch_add(1, Ordering::AcqRel);
        self.buffer.push(Record::Request(row));
    }

    /// Buffers a decision.
    pub fn event(&mut self, event: Event) {
        self.buffer.push(Record::Event(event));
    }

    /// Hands what is buffered to the writer. Once per turn of the engine; never waits for the disk.
    pub fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.shared.waiting.fetch_add(self.buffer.len(), Ordering::AcqRel);
        let mut desk = self.shared.handover.lock();
        let records = &mut desk.queue.records;
        let before = records.len();
        records.append(&mut self.buffer);
        let wake = before == 0 || (before < GROUP_MAX && records.len() >= GROUP_MAX);
        drop(desk);
        if wake {
            self.shared.handover.wake();
        }
    }

    /// Records buffered or handed over, and not yet written.
    pub fn backlog(&self) -> usize {
        self.buffer.len().saturating_add(self.shared.waiting.load(Ordering::Acquire))
    }

    /// How far the journal is, and whether it is blocked.
    pub fn health(&self) -> JournalHealth {
        let mut health = self.health.borrow().clone();
        health.backlog = self.backlog();
        health
    }

    /// Whether the writer is gone: nothing is written any more.
    pub fn has_ended(&self) -> bool {
        self.health.has_changed().is_err()
    }

    /// Changes whenever a group was written, and when the journal becomes blocked or free again.
    pub fn health_changed(&self) -> watch::Receiver<JournalHealth> {
        self.health.clone()
    }

    /// Writes and syncs everything, waiting for `deadline` at most. Blocks the thread.
    pub fn close_blocking(mut self, deadline: Duration) -> Result<JournalHealth, JournalError> {
        self.finish(deadline);
        let health = self.health();
        if health.backlog == 0 && health.blocked.is_none() {
            return Ok(health);
        }
        let reason = health.blocked.unwrap_or_else(|| Clean::new("the disk was too slow"));
        Err(JournalError::Unwritten { records: health.backlog, reason })
    }

    /// [`Journal::close_blocking`] on a thread where blocking is allowed.
    pub async fn close(self, deadline: Duration) -> Result<JournalHealth, JournalError> {
        let records = self.backlog();
        match tokio::task::spawn_blocking(move || self.close_blocking(deadline)).await {
            Ok(result) => result,
            Err(error) => Err(JournalError::Unwritten { records, reason: Clean::new(error.to_string()) }),
        }
    }

    /// Tells the writer to end and waits until it has.
    fn finish(&mut self, deadline: Duration) {
        self.closed = true;
        self.flush();
        self.shared.handover.finish(deadline);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.closed {
            self.finish(Duration::from_secs(1));
        }
    }
}

/// The journal as what a transaction of the store waits for.
pub struct JournalBarrier(Arc<Shared>);

impl crate::store::Barrier for JournalBarrier {
    fn name(&self) -> &'static str {
        super::place::BARRIER
    }

    /// For all that is there: what waits is written as one group, so what came since the transaction costs no sync more.
    fn sync(&mut self, count: u64) -> io::Result<u64> {
        let handover = &self.0.handover;
        let mut desk = handover.lock();
        desk.queue.syncs_asked += 1;
        let asked = desk.queue.syncs_asked;
        handover.wake();
        let desk = handover.wait_settled(desk, |queue| queue.syncs_done < asked && queue.blocked.is_none());
        let queue = &desk.queue;
        if queue.syncs_done >= asked {
            return Ok(count);
        }
        let why = queue.blocked.clone().unwrap_or_else(|| Clean::new("the journal's writer has ended"));
        Err(io::Error::other(why.as_str().to_owned()))
    }

    fn teller(&self) -> Option<crate::store::Teller> {
        let shared = Arc::clone(&self.0);
        // What is written by now was handed over before: nothing of it is news to the transaction.
        Some(Box::new(move || {
            let written = shared.handover.lock().queue.place.clone();
            Place { handed: shared.rows.load(Ordering::Acquire), ..written }.to_text()
        }))
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    disk: Box<dyn Disk>,
    options: JournalOptions,
    requests: LogFile,
    events: LogFile,
    next_seq: u64,
    next_rotated: u32,
    /// A failed rotation is tried again when the file has grown to this.
    rotate_at: u64,
    /// Why it failed, if it did.
    unrotated: Option<Clean>,
    last_sync: Mono,
    /// Wire requests written so far, by earlier processes too.
    rows: u64,
    health: watch::Sender<JournalHealth>,
}

impl Writer {
    fn open(
        dir: &Path,
        clock: Arc<dyn Clock>,
        mut disk: Box<dyn Disk>,
        options: JournalOptions,
    ) -> Result<Self, JournalError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| JournalError::Open { path, source }
        };
        fs::create_dir_all(dir).map_err(failed(dir))?;
        let mut next_rotated = next_rotated(dir).map_err(failed(dir))?;
        let header = encode::header();
        let requests_path = dir.join(REQUESTS_FILE);
        let mut size = cut_torn_tail(&mut *disk, &requests_path).map_err(failed(&requests_path))?;
        if size > 0 && !begins_with(&requests_path, &header).map_err(failed(&requests_path))? {
            // Columns of another version: its rows stay together under their own header.
            disk.rename(&requests_path, &dir.join(rotated_name(next_rotated))).map_err(failed(&requests_path))?;
            next_rotated += 1;
            size = 0;
        }
        let mut requests = LogFile::new(requests_path, header, size);
        let events_path = dir.join(EVENTS_FILE);
        let size = cut_torn_tail(&mut *disk, &events_path).map_err(failed(&events_path))?;
        let last_seq = last_seq(&events_path).map_err(failed(&events_path))?;
        let mut events = LogFile::new(events_path, Vec::new(), size);
        for file in [&mut requests, &mut events] {
            let opened = file.write(&mut *disk);
            opened.map_err(failed(file.path()))?;
        }
        // Not every file system can sync a folder; the files themselves are synced later.
        let _ = disk.sync_dir(dir);
        let shared = Shared { rows: options.rows.into(), ..Shared::default() };
        Ok(Self {
            shared: Arc::new(shared),
            dir: dir.to_path_buf(),
            last_sync: clock.now(),
            rows: options.rows,
            clock,
            disk,
            rotate_at: options.rotate_at,
            unrotated: None,
            options,
            requests,
            events,
            next_seq: last_seq + 1,
            next_rotated,
            health: watch::Sender::new(JournalHealth::default()),
        })
    }

    /// Waits for records, gathers a group, takes it into `records`, which is empty: what it has room for is what the
    /// next group gathers in. Still empty when it is time to sync, or to end; whether it is that, and the sync that
    /// somebody waits for.
    fn take(&mut self, records: &mut Vec<Record>) -> (bool, Option<u64>) {
        let is_asked = |queue: &Queue| queue.syncs_asked > queue.syncs_done;
        let idle = |desk: &mut Desk<Queue>| desk.queue.records.is_empty() && !desk.closing && !is_asked(&desk.queue);
        let gathering =
            |desk: &mut Desk<Queue>| desk.queue.records.len() < GROUP_MAX && !desk.closing && !is_asked(&desk.queue);
        let handover = &self.shared.handover;
        let dirty = self.requests.is_dirty() || self.events.is_dirty();
        let mut desk = handover.wait(handover.lock(), dirty.then_some(self.options.sync_every), idle);
        if !desk.queue.records.is_empty() {
            desk = handover.wait(desk, Some(self.options.group), gathering);
        }
        // A backlog leaves no room behind that a group does not need.
        records.shrink_to(2 * GROUP_MAX);
        std::mem::swap(&mut desk.queue.records, records);
        (desk.closing, is_asked(&desk.queue).then_some(desk.queue.syncs_asked))
    }

    /// How far the files are.
    fn place(&self) -> Place {
        let (requests, events) = (self.requests.size(), self.events.size());
        Place { file: self.next_rotated, requests, rows: self.rows, handed: self.rows, events }
    }

    /// Puts records into their files' buffers.
    fn encode(&mut self, records: &mut Vec<Record>) {
        let (mut rows, events) = (CsvRows::new(self.requests.buffer()), self.events.buffer());
        for record in records.drain(..) {
            // Writing into memory fails only if a record cannot be put into words, which plain data always can.
            let encoded = match record {
                Record::Request(row) => {
                    self.rows += 1;
                    rows.row(RowText::from(&row))
                }
                Record::Event(event) => {
                    self.next_seq += 1;
                    encode::event_line(events, &event, self.next_seq - 1)
                }
            };
            if let Err(error) = encoded {
                tracing::error!(%error, "a record of the journal cannot be encoded");
            }
        }
        if let Err(error) = rows.flush() {
            tracing::error!(%error, "records of the journal cannot be encoded");
        }
    }

    /// Writes what is buffered, rotates and syncs where it is time. One file's trouble does not keep the other waiting.
    fn settle(&mut self, closing: bool) -> Result<(), Clean> {
        let due = closing || self.clock.now().since(self.last_sync) >= self.options.sync_every;
        let mut result = Ok(());
        for file in [&mut self.requests, &mut self.events] {
            let mut settled = if file.is_dirty() { file.write(&mut *self.disk) } else { Ok(()) };
            if settled.is_ok() && (due || file.unsynced() >= UNSYNCED_MAX) {
                settled = file.sync();
            }
            if let Err(error) = settled {
                result = Err(blocked_reason(file.path(), &error));
            }
        }
        if due && result.is_ok() {
            self.last_sync = self.clock.now();
        }
        if result.is_ok() && self.requests.size() >= self.rotate_at {
            result = self.rotate();
        }
        result
    }

    /// Gives `requests.csv` its number and starts a new one.
    fn rotate(&mut self) -> Result<(), Clean> {
        let to = self.dir.join(rotated_name(self.next_rotated));
        if let Err(error) = self.requests.sync() {
            return Err(blocked_reason(self.requests.path(), &error));
        }
        match self.requests.rotate(&mut *self.disk, &to) {
            Ok(()) => {
                self.next_rotated += 1;
                self.rotate_at = self.options.rotate_at;
                self.unrotated = None;
                let _ = self.disk.sync_dir(&self.dir);
                self.requests.write(&mut *self.disk).map_err(|error| blocked_reason(self.requests.path(), &error))
            }
            Err(error) => {
                // The rows are safe where they are: go on there, and try again when it has grown a little.
                self.rotate_at = self.requests.size().saturating_add(self.options.rotate_at / 64 + 1);
                let name = rotated_name(self.next_rotated);
                self.unrotated = Some(Clean::new(format!("{REQUESTS_FILE} cannot be renamed to {name}: {error}")));
                Ok(())
            }
        }
    }

    fn publish(&self, blocked: Option<Clean>) {
        let mut desk = self.shared.handover.lock();
        let changed = desk.queue.blocked != blocked;
        desk.queue.blocked.clone_from(&blocked);
        drop(desk);
        if changed {
            // Whoever waits for a sync hears that it will not come.
            self.shared.handover.tell();
        }
        self.health.send_replace(JournalHealth {
            backlog: self.shared.waiting.load(Ordering::Acquire),
            bytes: self.requests.appended().saturating_add(self.events.appended()),
            blocked,
            unrotated: self.unrotated.clone(),
        });
    }
}

impl Writing for Writer {
    type Queue = Queue;

    fn handover(&self) -> &Handover<Queue> {
        &self.shared.handover
    }

    /// Until closed or abandoned.
    fn run(&mut self) {
        let mut records = Vec::new();
        self.shared.handover.lock().queue.place = self.place();
        loop {
            let (closing, asked) = self.take(&mut records);
            let count = records.len();
            self.encode(&mut records);
            while let Err(reason) = self.settle(closing || asked.is_some()) {
                self.publish(Some(reason));
                if !self.shared.handover.rest(self.options.retry) {
                    return;
                }
            }
            self.shared.waiting.fetch_sub(count, Ordering::AcqRel);
            self.publish(None);
            let place = self.place();
            let mut desk = self.shared.handover.lock();
            desk.queue.place = place;
            desk.queue.syncs_done = asked.unwrap_or(desk.queue.syncs_done);
            drop(desk);
            if asked.is_some() {
                self.shared.handover.tell();
            }
            if closing && count == 0 {
                return;
            }
        }
    }

    fn over(&mut self, why: &Clean, panicked: bool) {
        let left = self.shared.waiting.load(Ordering::Acquire) > 0 && self.health.borrow().blocked.is_none();
        if panicked || left {
            self.publish(Some(why.clone()));
        }
    }
}

/// What the operator is told when nothing can be written.
pub(crate) fn blocked_reason(path: &Path, error: &io::Error) -> Clean {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let advice = match error.kind() {
        io::ErrorKind::StorageFull => "disk full: make room and the crawl goes on",
        io::ErrorKind::QuotaExceeded => "quota exceeded: make room and the crawl goes on",
        io::ErrorKind::ReadOnlyFilesystem => "file system is read-only: remount it and the crawl goes on",
        _ => "the crawl goes on when it can be written",
    };
    Clean::new(format!("{name} cannot be written ({error}); {advice}"))
}
