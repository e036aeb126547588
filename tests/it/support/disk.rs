//! A disk that fails when told to.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crawldeck::journal::disk::{Disk, DiskFile, Identity, Space, SystemDisk};

/// When operations fail, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Operations so far.
    pub(crate) count: AtomicU64,
    /// The first that fails, from 0.
    pub(crate) from: AtomicU64,
    /// How many fail in a row.
    pub(crate) length: AtomicU64,
    /// A failing write leaves half of its bytes in the file.
    pub(crate) torn: AtomicBool,
    /// Everything fails, as on a full disk.
    pub(crate) full: AtomicBool,
    /// Bytes that are free; 0 = not told.
    pub(crate) room: AtomicU64,
}

impl Faults {
    fn check(&self) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let from = self.from.load(Ordering::SeqCst);
        let hit = number >= from && number - from < self.length.load(Ordering::SeqCst);
        if self.full.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(28));
        }
        if hit { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

/// The machine's disk, with faults.
pub(crate) struct FailingDisk(pub(crate) Arc<Faults>);

impl Disk for FailingDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.check()?;
        let mut file = SystemDisk.open(path)?;
        let synced = file.size()?;
        Ok(Box::new(FailingFile { file, synced, faults: Arc::clone(&self.0) }))
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        self.0.check()?;
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.check()?;
        assert!(!to.exists(), "{} would be replaced", to.display());
        SystemDisk.rename(from, to)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        // As with files, it is not really synced.
        self.0.check().map(|()| assert!(dir.is_dir()))
    }

    fn room(&mut self, _: &Path) -> Option<Space> {
        let free = self.0.room.load(Ordering::SeqCst);
        (free > 0).then_some(Space { free, all: u64::MAX })
    }
}

/// A disk that renames nothing as long as it is told so.
#[derive(Clone, Default)]
pub(crate) struct NoRename(pub(crate) Arc<AtomicBool>);

impl Disk for NoRename {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        SystemDisk.open(path)
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match self.0.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => SystemDisk.rename(from, to),
        }
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        SystemDisk.sync_dir(dir)
    }
}

struct FailingFile {
    file: Box<dyn DiskFile>,
    /// Its size at the last sync.
    synced: u64,
    faults: Arc<Faults>,
}

impl DiskFile for FailingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let checked = self.faults.check();
        if checked.is_err() && self.faults.torn.load(Ordering::SeqCst) {
            self.file.append(&bytes[..bytes.len() / 2])?;
        }
        checked?;
        self.file.append(bytes)
    }

    fn size(&mut self) -> io::Result<u64> {
        self.faults.check()?;
        self.file.size()
    }

    fn identity(&mut self) -> io::Result<Identity> {
        self.faults.check()?;
        self.file.identity()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.faults.check()?;
        self.synced = self.synced.min(size);
        self.file.cut(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The file is not really synced: hundreds of runs would wear the disk for nothing.
        match self.faults.check() {
            Ok(()) => self.synced = self.file.size()?,
            Err(error) => {
                // As kernels do: the pages are dropped, and the next sync would report success.
                self.file.cut(self.synced)?;
                return Err(error);
            }
        }
        Ok(())
    }
}
