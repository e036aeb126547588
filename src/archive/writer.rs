//! The archive's one writer, on a thread of its own.
//!
//! A disk that cannot be written to is tried again each second until it can. Written records are synced every few
//! seconds, at rotation, at the end, and whenever a barrier asks for it ([`ArchiveBarrier`](super::ArchiveBarrier)): as
//! soon as what it waits for is written, whatever else is there by then.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::bodies::Bodies;
use super::capture::Capture;
use super::handle::{ArchiveError, ArchiveHealth, ArchiveOptions, Queue, Shared};
use super::known::Known;
use super::records::{END, Plan};
use super::spool::{self, Room};
use super::warc_file::WarcFile;
use super::{BODIES_DIR, WARC_DIR};
use crate::clock::Clock;
use crate::control::Mono;
use crate::journal::disk::Disk;
use crate::journal::handover::{self, Desk, Handover, Writing};
use crate::journal::writer::blocked_reason;
use crate::text::Clean;

/// Opens the files, starts the thread, and gives what tells of its health, and what is missing in the files.
pub(super) fn start(
    run_folder: &Path,
    shared: Arc<Shared>,
    room: Arc<Room>,
    clock: Arc<dyn Clock>,
    disk: Box<dyn Disk>,
    options: ArchiveOptions,
) -> Result<(watch::Receiver<ArchiveHealth>, Option<Clean>), ArchiveError> {
    let mut writer = Writer::open(run_folder, shared, room, clock, disk, options)?;
    let health = writer.health.subscribe();
    let loss = writer.warc.as_mut().and_then(WarcFile::take_loss).map(|loss| loss.to_text());
    handover::start("archive", writer).map_err(ArchiveError::Thread)?;
    Ok((health, loss))
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
    /// Captures written so far, by whatever was handed over first.
    written: u64,
    last_sync: Mono,
    health: watch::Sender<ArchiveHealth>,
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
        shared: Arc<Shared>,
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
        let health = watch::Sender::new(ArchiveHealth::default());
        let (known, last_sync) = (Known::with_bound(options.known), clock.now());
        Ok(Self { shared, room, clock, disk, options, warc, bodies, known, written: 0, last_sync, health })
    }

    /// Waits for captures and takes them into `captures`, which is empty. Still empty when it is time to sync, or to
    /// end. Whether it is to end.
    fn take(&mut self, captures: &mut VecDeque<Box<Capture>>) -> bool {
        let idle = |desk: &mut Desk<Queue>| {
            let queue = &desk.queue;
            queue.captures.is_empty() && !desk.closing && !queue.room_failed && queue.wanted <= queue.synced
        };
        let dirty =
            self.warc.as_ref().is_some_and(WarcFile::is_dirty) || self.bodies.as_ref().is_some_and(Bodies::is_dirty);
        let handover = &self.shared.handover;
        let mut desk = handover.wait(handover.lock(), dirty.then_some(self.options.sync_every), idle);
        let closing = desk.closing;
        let queue = &mut desk.queue;
        std::mem::swap(&mut queue.captures, captures);
        queue.room_failed = false;
        closing
    }

    /// Whether it is time to sync: somebody waits for what is written by now, or the last one was long ago.
    fn is_due(&self) -> bool {
        let desk = self.shared.handover.lock();
        let (wanted, synced) = (desk.queue.wanted, desk.queue.synced);
        drop(desk);
        (synced < wanted && wanted <= self.written) || self.clock.now().since(self.last_sync) >= self.options.sync_every
    }

    /// Does something until it works, or nobody waits for it any more.
    fn insist(&mut self, mut act: impl FnMut(&mut Self) -> Result<(), Clean>) -> Result<(), Abandoned> {
        while let Err(reason) = act(self) {
            let handover = &self.shared.handover;
            let mut desk = handover.lock();
            desk.queue.trouble = Some(reason.clone());
            desk.queue.troubles += 1;
            drop(desk);
            handover.tell();
            self.publish(Some(reason));
            if !self.shared.handover.rest(self.options.retry) {
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

    /// Writes what is buffered and, where that is due, syncs it, and tells whoever waits for that.
    fn put_down(&mut self, due: bool) -> Result<(), Abandoned> {
        self.insist(|writer| writer.settle(due))?;
        if due {
            self.last_sync = self.clock.now();
            self.shared.handover.lock().queue.synced = self.written;
            self.shared.handover.tell();
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
}

impl Writing for Writer {
    type Queue = Queue;

    fn handover(&self) -> &Handover<Queue> {
        &self.shared.handover
    }

    /// Until closed or abandoned.
    fn run(&mut self) {
        let mut captures = VecDeque::new();
        loop {
            let closing = self.take(&mut captures);
            let idle = captures.is_empty();
            for capture in captures.drain(..) {
                let mut progress = Progress::default();
                if self.insist(|writer| writer.keep(&capture, &mut progress)).is_err() {
                    return;
                }
                self.shared.memory.fetch_sub(capture.memory(), Ordering::AcqRel);
                self.shared.filed.fetch_sub(usize::from(capture.body.is_filed()), Ordering::AcqRel);
                self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
                self.written += 1;
                if self.shared.crowded.swap(false, Ordering::SeqCst) {
                    self.publish(None);
                }
                // Not only at the end of the batch: on a slow disk that is far.
                if self.is_due() {
                    if self.put_down(true).is_err() {
                        return;
                    }
                    self.publish(None);
                }
            }
            let due = closing || self.is_due();
            if self.put_down(due).is_err() {
                return;
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

    fn over(&mut self, why: &Clean, panicked: bool) {
        let left = self.shared.waiting.load(Ordering::Acquire) > 0 && self.health.borrow().blocked.is_none();
        if panicked || left {
            self.publish(Some(why.clone()));
        }
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
    match capture.body.bytes() {
        Some(body) => warc.put(&[&head, if plan.has_body() { body } else { b"" }, END])?,
        None if !plan.has_body() => warc.put(&[&head, END])?,
        None => warc.put_large(disk, |take| {
            take(&head)?;
            capture.body.read(|part| -> io::Result<()> {
                if shared.handover.lock().abandoned {
                    return Err(io::Error::other("the time to close is over"));
                }
                take(part)
            })?;
            take(END)
        })?,
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
