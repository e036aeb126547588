//! The archive's one writer, on a thread of its own.
//!
//! A worker hands its capture over and never waits. Nothing is dropped: what bounds the memory is the engine, which
//! grants nothing while [`Archive::has_room`] says no or the archive is blocked. A disk that cannot be written to is
//! tried again each second until it can. Written records are synced every few seconds, at rotation, at the end, and
//! whenever a [`ArchiveBarrier::sync`] asks for it.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::bodies::Bodies;
use super::capture::Capture;
use super::known::Known;
use super::records::{END, Plan};
use super::spool::{self, Room};
use super::warc_file::WarcFile;
use super::{BODIES_DIR, WARC_DIR};
use crate::clock::Clock;
use crate::control::Mono;
use crate::journal::disk::{Disk, SystemDisk};
use crate::journal::writer::blocked_reason;
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
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the writer.
    filled: Condvar,
    /// Wakes whoever waits for a sync or for the end.
    settled: Condvar,
    /// Captures handed over and not yet written, the memory they take, and how many have a file.
    waiting: AtomicUsize,
    memory: AtomicUsize,
    filed: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    captures: VecDeque<Box<Capture>>,
    /// Captures handed over so far, of those what has to be synced as soon as can be, and what is.
    handed: u64,
    wanted: u64,
    synced: u64,
    /// The last trouble, and how often there was any.
    trouble: Option<Clean>,
    troubles: u64,
    /// A spool could not be written.
    room_failed: bool,
    closing: bool,
    /// Nobody waits any longer: give up instead of trying again.
    abandoned: bool,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole whenever the lock is free; a panic elsewhere does not change that.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let mut queue = self.0.lock();
        queue.handed += 1;
        queue.captures.push_back(capture);
        let wake = queue.captures.len() == 1;
        drop(queue);
        if wake {
            self.0.filled.notify_one();
        }
    }

    /// A spool could not be written: the writer finds out when one can.
    pub(super) fn look_at_room(&self) {
        self.0.lock().room_failed = true;
        self.0.filled.notify_one();
    }
}

/// Makes sure that what was handed over is on the medium: the archive's part of the step that comes before a URL is
/// done.
#[derive(Clone)]
pub struct ArchiveBarrier(Arc<Shared>);

impl ArchiveBarrier {
    /// Returns well when every capture that was handed over before the call (by whatever [`ArchiveSender`]) is written
    /// and synced, with its body, its row in the index and the names of the files. Blocks the thread for that long;
    /// call it from one that may. Many may call it at once: one sync serves all that wait.
    ///
    /// # Errors
    /// As soon as a write or sync fails. The captures are not lost: the writer goes on trying, and a later call that
    /// returns well covers them too. After an error no URL of theirs may be called done.
    pub fn sync(&mut self) -> io::Result<()> {
        let mut queue = self.0.lock();
        let target = queue.handed;
        let before = queue.troubles;
        queue.wanted = queue.wanted.max(target);
        self.0.filled.notify_one();
        let waiting = |queue: &mut Queue| queue.synced < target && queue.troubles == before && !queue.ended;
        let queue = self.0.settled.wait_while(queue, waiting).unwrap_or_else(PoisonError::into_inner);
        if queue.synced >= target {
            return Ok(());
        }
        let reason = queue.trouble.clone().unwrap_or_else(|| Clean::new("the archive's writer has ended"));
        Err(io::Error::other(reason.as_str().to_owned()))
    }
}

/// The engine's handle to the archive. Dropping it without [`Archive::close`] writes what is there, waiting a second
/// at most.
pub struct Archive {
    shared: Arc<Shared>,
    health: watch::Receiver<ArchiveHealth>,
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
        Self::open_with(run_folder, room, clock, Box::new(SystemDisk), options)
    }

    /// The same on `disk`. What is there is gone on with: a torn record at the end is cut off, what was not finished
    /// is removed.
    pub fn open_with(
        run_folder: &Path,
        room: Arc<Room>,
        clock: Arc<dyn Clock>,
        disk: Box<dyn Disk>,
        options: ArchiveOptions,
    ) -> Result<Self, ArchiveError> {
        let writer = Writer::open(run_folder, room, clock, disk, options)?;
        let (shared, health) = (Arc::clone(&writer.shared), writer.health.subscribe());
        writer.room.belongs_to(ArchiveSender(Arc::clone(&shared)));
        std::thread::Builder::new()
            .name("archive".into())
            .spawn(move || Ending(writer).0.run())
            .map_err(ArchiveError::Thread)?;
        Ok(Self { shared, health, closed: false })
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

    /// Whether more requests may go out: what is in flight always finds room.
    pub fn has_room(&self) -> bool {
        self.shared.memory.load(Ordering::Acquire) < WAITING_MAX
            && self.shared.filed.load(Ordering::Acquire) < FILED_MAX
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
        let mut queue = self.shared.lock();
        queue.closing = true;
        self.shared.filled.notify_one();
        let waited = self.shared.settled.wait_timeout_while(queue, deadline, |queue| !queue.ended);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.abandoned = true;
        drop(queue);
        self.shared.filled.notify_one();
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if !self.closed {
            self.finish(Duration::from_secs(1));
        }
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    room: Arc<Room>,
    clock: Arc<dyn Clock>,
    disk: Box<dyn Disk>,
    options: ArchiveOptions,
    warc: Option<WarcFile>,
    bodies: Option<Bodies>,
    known: Known,
    last_sync: Mono,
    health: watch::Sender<ArchiveHealth>,
}

/// Tells whoever waits that the thread is over, also if it panicked.
struct Ending(Writer);

impl Drop for Ending {
    fn drop(&mut self) {
        if self.0.shared.waiting.load(Ordering::Acquire) > 0 && self.0.health.borrow().blocked.is_none() {
            self.0.publish(Some(Clean::new("the archive's writer has ended")));
        }
        self.0.shared.lock().ended = true;
        self.0.shared.settled.notify_all();
    }
}

/// What is done of one capture.
#[derive(Default)]
struct Progress {
    plan: Option<Plan>,
    warc: bool,
    body: bool,
}

/// Why the writer does not go on.
struct Abandoned;

impl Writer {
    fn open(
        run_folder: &Path,
        room: Arc<Room>,
        clock: Arc<dyn Clock>,
        mut disk: Box<dyn Disk>,
        options: ArchiveOptions,
    ) -> Result<Self, ArchiveError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ArchiveError::Open { path, source }
        };
        let keep = room.keep();
        let (mut warc, mut bodies) = (None, None);
        if keep.warc {
            let dir = run_folder.join(WARC_DIR);
            fs::create_dir_all(&dir).and_then(|()| spool::sweep(&dir)).map_err(failed(&dir))?;
            let opened = WarcFile::open(&mut *disk, &dir, clock.clone(), options.rotate_at, about(&options));
            warc = Some(opened.map_err(failed(&dir))?);
        }
        if keep.bodies {
            let dir = run_folder.join(BODIES_DIR);
            fs::create_dir_all(&dir).and_then(|()| spool::sweep(&dir)).map_err(failed(&dir))?;
            bodies = Some(Bodies::open(&mut *disk, &dir).map_err(failed(&dir))?);
        }
        // Not every file system can sync a folder; the names in it are synced later, where that counts.
        let _ = disk.sync_dir(run_folder);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            settled: Condvar::new(),
            waiting: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            filed: AtomicUsize::new(0),
        });
        let health = watch::Sender::new(ArchiveHealth::default());
        let (known, last_sync) = (Known::with_bound(options.known), clock.now());
        Ok(Self { shared, room, clock, disk, options, warc, bodies, known, last_sync, health })
    }

    /// Until closed or abandoned.
    fn run(&mut self) {
        let mut captures = VecDeque::new();
        loop {
            let (closing, handed, due) = self.take(&mut captures);
            let idle = captures.is_empty();
            let batch = captures.drain(..).collect::<Vec<_>>();
            for capture in batch {
                let mut progress = Progress::default();
                if self.insist(|writer| writer.keep(&capture, &mut progress)).is_err() {
                    return;
                }
                self.shared.memory.fetch_sub(capture.memory(), Ordering::AcqRel);
                self.shared.filed.fetch_sub(usize::from(capture.body.is_filed()), Ordering::AcqRel);
                self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            }
            let due = due || closing || self.clock.now().since(self.last_sync) >= self.options.sync_every;
            if self.insist(|writer| writer.settle(due)).is_err() {
                return;
            }
            if due {
                self.last_sync = self.clock.now();
                self.shared.lock().synced = handed;
                self.shared.settled.notify_all();
            }
            if self.room.trouble().is_some() && self.insist(Self::try_room).is_err() {
                return;
            }
            self.publish(None);
            if closing && idle {
                return;
            }
        }
    }

    /// Waits for captures and takes them into `captures`, which is empty. Still empty when it is time to sync, or to
    /// end. Whether it is to end; how many were handed over by then; whether a sync is asked for.
    fn take(&mut self, captures: &mut VecDeque<Box<Capture>>) -> (bool, u64, bool) {
        let idle = |queue: &mut Queue| {
            queue.captures.is_empty() && !queue.closing && !queue.room_failed && queue.wanted <= queue.synced
        };
        let dirty =
            self.warc.as_ref().is_some_and(WarcFile::is_dirty) || self.bodies.as_ref().is_some_and(Bodies::is_dirty);
        let filled = &self.shared.filled;
        let mut queue = self.shared.lock();
        if dirty {
            let waited = filled.wait_timeout_while(queue, self.options.sync_every, idle);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        } else {
            queue = filled.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut queue.captures, captures);
        queue.room_failed = false;
        (queue.closing, queue.handed, queue.wanted > queue.synced)
    }

    /// Does something until it works, or nobody waits for it any more.
    fn insist(&mut self, mut act: impl FnMut(&mut Self) -> Result<(), Clean>) -> Result<(), Abandoned> {
        while let Err(reason) = act(self) {
            let mut queue = self.shared.lock();
            queue.trouble = Some(reason.clone());
            queue.troubles += 1;
            drop(queue);
            self.shared.settled.notify_all();
            self.publish(Some(reason));
            if !self.wait_for_retry() {
                return Err(Abandoned);
            }
        }
        Ok(())
    }

    /// Keeps what is to be kept of a capture.
    fn keep(&mut self, capture: &Capture, progress: &mut Progress) -> Result<(), Clean> {
        if let Some(warc) = self.warc.as_mut().filter(|_| !progress.warc) {
            let kept = write_records(warc, &mut *self.disk, &mut self.known, capture, progress, &self.shared);
            kept.map_err(|error| blocked_reason(&warc.path(), &error))?;
            progress.warc = true;
        }
        if let Some(bodies) = self.bodies.as_mut().filter(|_| !progress.body && Bodies::wants(capture)) {
            bodies.keep(&mut *self.disk, capture).map_err(|error| blocked_reason(bodies.path(), &error))?;
            progress.body = true;
        }
        Ok(())
    }

    /// Writes what is buffered, and syncs if it is time.
    fn settle(&mut self, due: bool) -> Result<(), Clean> {
        if let Some(warc) = &mut self.warc {
            let settled = if due { warc.sync(&mut *self.disk) } else { warc.write(&mut *self.disk) };
            settled.map_err(|error| blocked_reason(&warc.path(), &error))?;
        }
        if let Some(bodies) = &mut self.bodies {
            let settled = if due { bodies.sync(&mut *self.disk) } else { bodies.write(&mut *self.disk) };
            settled.map_err(|error| blocked_reason(bodies.path(), &error))?;
        }
        Ok(())
    }

    /// A body could not be spooled: nothing is granted until one can.
    fn try_room(&mut self) -> Result<(), Clean> {
        self.room.try_again().map_err(|error| blocked_reason(self.room.dir(), &error))
    }

    fn publish(&self, blocked: Option<Clean>) {
        self.health.send_replace(ArchiveHealth {
            backlog: self.shared.waiting.load(Ordering::Acquire),
            bytes: self.warc.as_ref().map_or(0, WarcFile::appended),
            blocked,
        });
    }

    /// Waits before the next try; false = give up. Closing tries once more at once, then each retry time.
    fn wait_for_retry(&self) -> bool {
        let queue = self.shared.lock();
        let was_closing = queue.closing;
        let waited = self
            .shared
            .filled
            .wait_timeout_while(queue, self.options.retry, |queue| queue.closing == was_closing && !queue.abandoned);
        !waited.unwrap_or_else(PoisonError::into_inner).0.abandoned
    }
}

/// Writes the records of an exchange. May be called again after an error, with the same progress.
fn write_records(
    warc: &mut WarcFile,
    disk: &mut dyn Disk,
    known: &mut Known,
    capture: &Capture,
    progress: &mut Progress,
    shared: &Shared,
) -> io::Result<()> {
    let plan = match &mut progress.plan {
        Some(plan) => plan,
        none => none.insert(Plan::of(capture, known)?),
    };
    let info = warc.prepare(disk)?;
    let head = plan.response(capture, info);
    if plan.has_body() && capture.body.is_filed() {
        warc.put_large(disk, |take| {
            take(&head)?;
            capture.body.read(|part| -> io::Result<()> {
                if shared.lock().abandoned {
                    return Err(io::Error::other("the time to close is over"));
                }
                take(part)
            })?;
            take(END)
        })?;
    } else {
        let mut body = Vec::new();
        if plan.has_body() {
            capture.body.read(|part| -> io::Result<()> { Ok(body.extend_from_slice(part)) })?;
        }
        warc.put(&[&head, &body, END])?;
    }
    warc.put(&[&plan.request(capture, info)])?;
    warc.put(&[&plan.metadata(capture, info)])?;
    plan.remember(capture, known);
    Ok(())
}

/// What warcinfo says.
fn about(options: &ArchiveOptions) -> Vec<(&'static str, String)> {
    let mut about = vec![
        ("software", format!("crawldeck/{}", env!("CARGO_PKG_VERSION"))),
        ("format", "WARC File Format 1.1".to_owned()),
        ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/".to_owned()),
        (
            "description",
            "Heads are written anew as HTTP/1.1, names in lower case. Bodies are as received, without chunks: \
             Transfer-Encoding and Content-Length fit what is stored, and what the server sent stands under \
             X-Archive-Orig-. Values of headers configured for a host are left out of requests."
                .to_owned(),
        ),
    ];
    about.extend(options.about.iter().cloned());
    about
}
