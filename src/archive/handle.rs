//! The archive's handles: what workers, the engine and the store hold of it.
//!
//! A worker hands its capture over and never waits. Nothing is dropped: what bounds the memory is the engine, which
//! grants nothing while [`Archive::has_room`] says no or the archive is blocked.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::capture::Capture;
use super::spool::Room;
use super::writer;
use crate::clock::Clock;
use crate::journal::disk::{Disk, disk_for};
use crate::journal::handover::Handover;
use crate::text::Clean;

/// Bytes of captures that wait in memory; at this much nothing is granted.
const WAITING_MAX: usize = 16 << 20;
/// Captures with a file of their own that wait; likewise.
const FILED_MAX: usize = 64;

/// How the writer syncs and rotates.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// A disk that cannot be written to is tried again after this.
    pub retry: Duration,
    /// What is written is synced to the medium at most this long after.
    pub sync_every: Duration,
    /// A WARC file is followed by the next when it has reached so many bytes; it passes that by one exchange at most.
    pub rotate_at: u64,
    /// Payloads that are remembered, see [`super::known`].
    pub known: usize,
    /// What warcinfo says beside what it always says.
    pub about: Vec<(&'static str, String)>,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            retry: Duration::from_secs(1),
            sync_every: Duration::from_secs(5),
            rotate_at: 1 << 30,
            known: super::known::KNOWN_MAX,
            about: Vec::new(),
        }
    }
}

/// Why the archive cannot be opened or was not written to its end.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file of the run folder cannot be opened or read.
    #[error("archive {} cannot be opened: {source}; check the folder, or choose another with -d", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("the archive's writer cannot be started: {0}")]
    Thread(io::Error),
    /// The time to close was over before everything was written.
    #[error("{captures} responses of the archive were not written: {reason}")]
    Unwritten {
        /// How many.
        captures: usize,
        /// Why.
        reason: Clean,
    },
}

/// How far the archive is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArchiveHealth {
    /// Captures handed over and not yet on disk.
    pub backlog: usize,
    /// Bytes written to WARC files so far.
    pub bytes: u64,
    /// Why nothing can be written now; `None` = all is well.
    pub blocked: Option<Clean>,
}

/// What the handles and the writer share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) handover: Handover<Queue>,
    /// Captures handed over and not yet written, the memory they take, and how many have a file.
    pub(super) waiting: AtomicUsize,
    pub(super) memory: AtomicUsize,
    pub(super) filed: AtomicUsize,
    /// Somebody waits for there being fewer.
    pub(super) crowded: AtomicBool,
}

/// What passes between them.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) captures: VecDeque<Box<Capture>>,
    /// How many captures were handed over so far, how many of the first of them have to be synced as soon as can be,
    /// and how many are.
    pub(super) handed: u64,
    pub(super) wanted: u64,
    pub(super) synced: u64,
    /// The last trouble, and how often there was any.
    pub(super) trouble: Option<Clean>,
    pub(super) troubles: u64,
    /// A spool could not be written.
    pub(super) room_failed: bool,
}

/// Hands captures over. Cheap to clone.
#[derive(Clone)]
pub struct ArchiveSender(Arc<Shared>);

impl std::fmt::Debug for ArchiveSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ArchiveSender")
    }
}

impl ArchiveSender {
    /// Hands a capture to the writer. Never waits for the disk.
    pub fn put(&self, capture: Box<Capture>) {
        self.0.memory.fetch_add(capture.memory(), Ordering::AcqRel);
        self.0.filed.fetch_add(usize::from(capture.body.is_filed()), Ordering::AcqRel);
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        let mut desk = self.0.handover.lock();
        desk.queue.handed += 1;
        desk.queue.captures.push_back(capture);
        let wake = desk.queue.captures.len() == 1;
        drop(desk);
        if wake {
            self.0.handover.wake();
        }
    }

    /// A spool could not be written: the writer finds out when one can.
    pub(super) fn look_at_room(&self) {
        self.0.handover.lock().queue.room_failed = true;
        self.0.handover.wake();
    }
}

/// Makes sure that what was handed over is on the medium: the archive's part of the step that comes before a URL is
/// done.
#[derive(Clone)]
pub struct ArchiveBarrier(Arc<Shared>);

impl ArchiveBarrier {
    /// Returns well when every capture that was handed over before the call is on the medium: [`Self::sync_first`] for
    /// all of them.
    ///
    /// # Errors
    /// As there.
    pub fn sync(&mut self) -> io::Result<()> {
        let handed = self.0.handover.lock().queue.handed;
        self.sync_first(handed).map(drop)
    }

    /// Returns well when the first `count` captures that were handed over (by whatever [`ArchiveSender`]) are written
    /// and synced, with their bodies, their rows in the index and the names of the files, and how many are by then;
    /// however many more wait. Blocks the thread for that long; call it from one that may. Many may call it at once:
    /// one sync serves all that wait.
    ///
    /// # Errors
    /// As soon as a write or sync fails. The captures are not lost: the writer goes on trying, and a later call that
    /// returns well covers them too. After an error no URL of theirs may be called done.
    pub fn sync_first(&mut self, count: u64) -> io::Result<u64> {
        let handover = &self.0.handover;
        let mut desk = handover.lock();
        let (target, before) = (count.min(desk.queue.handed), desk.queue.troubles);
        if desk.queue.synced < target {
            desk.queue.wanted = desk.queue.wanted.max(target);
            handover.wake();
        }
        let desk = handover.wait_settled(desk, |queue| queue.synced < target && queue.troubles == before);
        let queue = &desk.queue;
        if queue.synced >= target {
            return Ok(queue.synced);
        }
        let reason = queue.trouble.clone().unwrap_or_else(|| Clean::new("the archive's writer has ended"));
        Err(io::Error::other(reason.as_str().to_owned()))
    }
}

impl crate::store::Barrier for ArchiveBarrier {
    fn name(&self) -> &'static str {
        "archive"
    }

    fn sync(&mut self, count: u64) -> io::Result<u64> {
        self.sync_first(count)
    }

    fn counter(&self) -> Option<crate::store::Counter> {
        let shared = Arc::clone(&self.0);
        Some(Box::new(move || shared.handover.lock().queue.handed))
    }
}

/// The engine's handle to the archive. Dropping it without [`Archive::close`] writes what is there, waiting a second
/// at most.
pub struct Archive {
    shared: Arc<Shared>,
    health: watch::Receiver<ArchiveHealth>,
    loss: Option<Clean>,
    closed: bool,
}

impl Archive {
    /// Opens the archive that `room` belongs to, in `run_folder`, on the machine's own file system.
    pub fn open(
        run_folder: &Path,
        room: Arc<Room>,
        clock: Arc<dyn Clock>,
        options: ArchiveOptions,
    ) -> Result<Self, ArchiveError> {
        Self::open_with(run_folder, room, clock, disk_for("archive"), options)
    }

    /// The same on `disk`. What is there is gone on with: a torn record at the end is cut off, what was not finished
    /// is removed. Where something is missing that was on the medium, [`Archive::take_loss`] tells.
    pub fn open_with(
        run_folder: &Path,
        room: Arc<Room>,
        clock: Arc<dyn Clock>,
        disk: Box<dyn Disk>,
        options: ArchiveOptions,
    ) -> Result<Self, ArchiveError> {
        let shared = Arc::new(Shared::default());
        room.belongs_to(ArchiveSender(Arc::clone(&shared)));
        let (health, loss) = writer::start(run_folder, Arc::clone(&shared), room, clock, disk, options)?;
        Ok(Self { shared, health, loss, closed: false })
    }

    /// What is missing of records that earlier processes had on the medium, once, for the operator to hear.
    pub fn take_loss(&mut self) -> Option<Clean> {
        self.loss.take()
    }

    /// What hands captures over.
    pub fn sender(&self) -> ArchiveSender {
        ArchiveSender(Arc::clone(&self.shared))
    }

    /// What makes sure that they are on the medium.
    pub fn barrier(&self) -> ArchiveBarrier {
        ArchiveBarrier(Arc::clone(&self.shared))
    }

    /// Captures handed over and not yet written.
    pub fn backlog(&self) -> usize {
        self.shared.waiting.load(Ordering::Acquire)
    }

    /// Whether more requests may go out, with so many of `most` in flight: these always find room. A response that
    /// waits for the writer counts as in flight: until it is written a kill costs it, too. Health changes as soon as
    /// there is more room after this said no.
    pub fn has_room(&self, in_flight: u32, most: u32) -> bool {
        let full = || {
            let waiting = self.shared.waiting.load(Ordering::SeqCst);
            (waiting > 0 && waiting.saturating_add(in_flight as usize) >= most as usize)
                || self.shared.memory.load(Ordering::Acquire) >= WAITING_MAX
                || self.shared.filed.load(Ordering::Acquire) >= FILED_MAX
        };
        if !full() {
            return true;
        }
        // Looked at again after it is said: the writer may just have made room and seen nobody wait for it.
        self.shared.crowded.store(true, Ordering::SeqCst);
        !full()
    }

    /// Whether the writer is gone: nothing is written any more.
    pub fn has_ended(&self) -> bool {
        self.health.has_changed().is_err()
    }

    /// How far the archive is, and whether it is blocked.
    pub fn health(&self) -> ArchiveHealth {
        let mut health = self.health.borrow().clone();
        health.backlog = self.backlog();
        health
    }

    /// Changes whenever something was written, and when the archive becomes blocked or free again.
    pub fn health_changed(&self) -> watch::Receiver<ArchiveHealth> {
        self.health.clone()
    }

    /// Writes and syncs everything, waiting for `deadline` at most. Blocks the thread.
    pub fn close_blocking(mut self, deadline: Duration) -> Result<ArchiveHealth, ArchiveError> {
        self.finish(deadline);
        let health = self.health();
        if health.backlog == 0 && health.blocked.is_none() {
            return Ok(health);
        }
        let reason = health.blocked.unwrap_or_else(|| Clean::new("the disk was too slow"));
        Err(ArchiveError::Unwritten { captures: health.backlog, reason })
    }

    /// [`Archive::close_blocking`] on a thread where blocking is allowed.
    pub async fn close(self, deadline: Duration) -> Result<ArchiveHealth, ArchiveError> {
        let captures = self.backlog();
        match tokio::task::spawn_blocking(move || self.close_blocking(deadline)).await {
            Ok(result) => result,
            Err(error) => Err(ArchiveError::Unwritten { captures, reason: Clean::new(error.to_string()) }),
        }
    }

    /// Tells the writer to end and waits until it has.
    fn finish(&mut self, deadline: Duration) {
        self.closed = true;
        self.shared.handover.finish(deadline);
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if !self.closed {
            self.finish(Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests;
