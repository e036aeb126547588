//! A disk at which the process ends: before its n-th operation, or half way through it; or only the thread.
//!
//! `CRAWLDECK_TEST_CRASH_AT=store:17` aborts the process before the 17th durable operation (open, write, cut, rename,
//! sync) of the layer `store`; `store:17:half` does half of it first, if it is a write, and `store:17:panic` panics
//! there instead, which ends the thread that writes. Every durable operation of the program goes through a [`Disk`], so
//! these points are all there are.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Disk, DiskFile, Identity, SystemDisk};

/// Where the process is to be aborted: layer, number of the operation from 1, and perhaps `half` or `panic`.
pub const CRASH_AT: &str = "CRAWLDECK_TEST_CRASH_AT";

/// When to crash, shared by a disk and its files.
struct Crash {
    done: AtomicU64,
    at: u64,
    way: Way,
}

/// How.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Abort,
    Half,
    Panic,
}

impl Crash {
    /// One more operation; aborts if it is the one, after `half` of it, or panics.
    #[expect(clippy::panic, reason = "it is what the test asks for")]
    fn pass(&self, half: impl FnOnce()) {
        if self.done.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            match self.way {
                Way::Abort => {}
                Way::Half => half(),
                Way::Panic => std::panic::panic_any(format!("asked for by {CRASH_AT}")),
            }
            std::process::abort();
        }
    }
}

/// The machine's disk, up to the crash.
pub struct CrashingDisk(Arc<Crash>);

impl CrashingDisk {
    /// The disk of `layer`, if the environment asks for a crash there.
    pub fn asked_for(layer: &str) -> Option<Self> {
        let asked = std::env::var(CRASH_AT).ok()?;
        let mut words = asked.split(':');
        if words.next() != Some(layer) {
            return None;
        }
        let at = words.next()?.parse().ok()?;
        let way = match words.next() {
            Some("half") => Way::Half,
            Some("panic") => Way::Panic,
            _ => Way::Abort,
        };
        Some(Self(Arc::new(Crash { done: AtomicU64::new(0), at, way })))
    }
}

impl Disk for CrashingDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.pass(|| ());
        Ok(Box::new(CrashingFile { file: SystemDisk.open(path)?, crash: Arc::clone(&self.0) }))
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.pass(|| ());
        SystemDisk.rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.0.pass(|| ());
        SystemDisk.remove(path)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.0.pass(|| ());
        SystemDisk.sync_dir(dir)
    }
}

struct CrashingFile {
    file: Box<dyn DiskFile>,
    crash: Arc<Crash>,
}

impl DiskFile for CrashingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &mut self.file;
        self.crash.pass(|| {
            // Whatever comes of it: the process ends next.
            let _ = file.append(&bytes[..bytes.len() / 2]);
        });
        self.file.append(bytes)
    }

    fn size(&mut self) -> io::Result<u64> {
        self.file.size()
    }

    fn identity(&mut self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.crash.pass(|| ());
        self.file.cut(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.crash.pass(|| ());
        self.file.sync()
    }
}
