//! A disk that remembers every operation, and what a loss of power after any of them could leave on the medium.
//!
//! The model is as bad as disks are: of what was written to a file since its last sync, any of the 512-byte sectors
//! may be there and any may not, whatever the order they were written in; the file may have any length in between;
//! what is not there is what was there before, or zeros. Of the names made, changed and removed in a folder since its
//! last sync, any may be so, in their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crawldeck::journal::disk::{Disk, DiskFile, Identity, SystemDisk};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// One file, whatever its name.
type Inode = usize;

#[derive(Clone, Debug)]
enum Op {
    Name(PathBuf, Inode),
    Rename(PathBuf, PathBuf, Inode),
    Remove(PathBuf),
    SyncDir(PathBuf),
    Append(Inode, Vec<u8>),
    Cut(Inode, u64),
    Sync(Inode),
    /// So much was reported to be on the medium.
    Told(u64),
}

#[derive(Debug, Default)]
struct Log {
    ops: Vec<Op>,
    names: HashMap<PathBuf, Inode>,
    inodes: usize,
    /// From this operation on nothing is done any more: the process is dead.
    dead_from: Option<usize>,
}

/// What was done, shared by a disk, its files and the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Log>>);

impl Recorder {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().expect("no panic")
    }

    /// A disk whose operations are remembered here.
    pub(crate) fn disk(&self) -> Box<dyn Disk> {
        Box::new(RecordingDisk(self.clone()))
    }

    /// So much was reported to be on the medium by now.
    pub(crate) fn told(&self, count: u64) {
        self.log().ops.push(Op::Told(count));
    }

    /// Operations so far.
    pub(crate) fn len(&self) -> usize {
        self.log().ops.len()
    }

    /// Kills the process before operation `at`; `None` = another one may go on.
    pub(crate) fn kill_at(&self, at: Option<usize>) {
        self.log().dead_from = at;
    }

    /// What could be left if power was lost after `done` operations.
    pub(crate) fn power_lost_after(&self, done: usize) -> Medium {
        let mut medium = Medium::default();
        for op in &self.log().ops[..done] {
            medium.apply(op);
        }
        medium
    }

    fn record(&self, op: Op, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut log = self.log();
        if log.dead_from.is_some_and(|at| log.ops.len() >= at) {
            return Err(io::Error::other("dead"));
        }
        act()?;
        log.ops.push(op);
        Ok(())
    }
}

struct RecordingDisk(Recorder);

impl Disk for RecordingDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let known = self.0.log().names.get(path).copied();
        let inode = match known {
            Some(inode) => inode,
            None => {
                assert!(!path.exists(), "{} was made by somebody else", path.display());
                let inode = self.0.log().inodes;
                self.0.record(Op::Name(path.to_path_buf(), inode), || Ok(()))?;
                let mut log = self.0.log();
                log.inodes += 1;
                log.names.insert(path.to_path_buf(), inode);
                inode
            }
        };
        Ok(Box::new(RecordingFile { file: SystemDisk.open(path)?, inode, recorder: self.0.clone() }))
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = *self.0.log().names.get(from).expect("it was opened");
        self.0.record(Op::Rename(from.into(), to.into(), inode), || SystemDisk.rename(from, to))?;
        let mut log = self.0.log();
        log.names.remove(from);
        log.names.insert(to.into(), inode);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.0.record(Op::Remove(path.into()), || SystemDisk.remove(path))?;
        self.0.log().names.remove(path);
        Ok(())
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.0.record(Op::SyncDir(dir.into()), || Ok(()))
    }
}

struct RecordingFile {
    file: Box<dyn DiskFile>,
    inode: Inode,
    recorder: Recorder,
}

impl DiskFile for RecordingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &mut self.file;
        self.recorder.record(Op::Append(self.inode, bytes.to_vec()), || {
            assert_eq!(file.append(bytes)?, bytes.len(), "the machine's disk takes all");
            Ok(())
        })?;
        Ok(bytes.len())
    }

    fn size(&mut self) -> io::Result<u64> {
        self.file.size()
    }

    fn identity(&mut self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        let file = &mut self.file;
        self.recorder.record(Op::Cut(self.inode, size), || file.cut(size))
    }

    fn sync(&mut self) -> io::Result<()> {
        // Not really: thousands of runs would wear the disk for nothing.
        self.recorder.record(Op::Sync(self.inode), || Ok(()))
    }
}

/// A file as it is on the medium, and as whoever wrote it sees it.
#[derive(Clone, Debug, Default)]
struct Content {
    durable: Vec<u8>,
    seen: Vec<u8>,
}

/// The medium at a moment: what is surely there, and what perhaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medium {
    files: BTreeMap<Inode, Content>,
    /// Names that are surely there.
    names: BTreeMap<PathBuf, Inode>,
    /// Changes of names that may be there.
    pending: Vec<Op>,
    /// Folders whose names were synced: what a folder that has no name holds is lost, too.
    folders: BTreeSet<PathBuf>,
    /// So much was reported to be there.
    pub(crate) told: u64,
}

/// One thing that a loss of power could leave: files by their paths.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

impl Medium {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Name(_, inode) => {
                self.files.entry(*inode).or_default();
                self.pending.push(op.clone());
            }
            Op::Rename(..) | Op::Remove(_) => self.pending.push(op.clone()),
            Op::SyncDir(dir) => {
                self.folders.insert(dir.clone());
                let pending = std::mem::take(&mut self.pending);
                let (here, elsewhere): (Vec<_>, Vec<_>) = pending.into_iter().partition(|op| op.is_in(dir));
                self.pending = elsewhere;
                here.iter().for_each(|op| op.change(&mut self.names));
            }
            Op::Append(inode, bytes) => self.files.entry(*inode).or_default().seen.extend_from_slice(bytes),
            Op::Cut(inode, size) => self.files.entry(*inode).or_default().seen.truncate(*size as usize),
            Op::Sync(inode) => {
                let content = self.files.entry(*inode).or_default();
                content.durable.clone_from(&content.seen);
            }
            Op::Told(count) => self.told = *count,
        }
    }
}

impl Op {
    fn is_in(&self, dir: &Path) -> bool {
        let (Self::Name(path, _) | Self::Rename(_, path, _) | Self::Remove(path)) = self else { return false };
        path.parent() == Some(dir)
    }

    fn change(&self, names: &mut BTreeMap<PathBuf, Inode>) {
        match self {
            Self::Name(path, inode) => drop(names.insert(path.clone(), *inode)),
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Remove(path) => drop(names.remove(path)),
            _ => {}
        }
    }
}

impl Medium {
    /// One of the things that can be left; `choose` picks one of so many, from 0, wherever there is a choice.
    pub(crate) fn image(&self, choose: &mut dyn FnMut(usize) -> usize) -> Image {
        let mut names = self.names.clone();
        for op in &self.pending {
            if choose(2) == 1 {
                op.change(&mut names);
            }
        }
        let mut image = Image::new();
        let mut lost = BTreeSet::new();
        for (path, inode) in names {
            let folder = path.parent().expect("a folder").to_path_buf();
            let named = folder.parent().is_some_and(|above| self.folders.contains(above));
            if !named && !lost.contains(&folder) && choose(2) == 1 {
                lost.insert(folder.clone());
            }
            if !lost.contains(&folder) {
                image.insert(path, self.files[&inode].choose(choose));
            }
        }
        image
    }

    /// Calls `each` with everything that can be left; how much there was.
    pub(crate) fn images(&self, mut each: impl FnMut(&Image)) -> usize {
        // Each choice so far, and of how many.
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut count = 0;
        loop {
            let mut at = 0;
            let image = self.image(&mut |of| {
                if at == path.len() {
                    path.push((0, of));
                }
                at += 1;
                path[at - 1].0
            });
            each(&image);
            count += 1;
            while let Some((chosen, of)) = path.pop() {
                if chosen + 1 < of {
                    path.push((chosen + 1, of));
                    break;
                }
            }
            if path.is_empty() {
                return count;
            }
        }
    }
}

impl Content {
    fn choose(&self, choose: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
        let (old, new) = (&self.durable, &self.seen);
        if old == new {
            return old.clone();
        }
        let (short, long) = (old.len().min(new.len()), old.len().max(new.len()));
        let mut lengths = BTreeSet::from([short, long]);
        lengths.extend((short..long).filter(|length| length % SECTOR == 0));
        let length = lengths.iter().copied().nth(choose(lengths.len())).expect("one of them");
        let padded = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.resize(length, 0);
            bytes
        };
        let (mut left, new) = (padded(old), padded(new));
        for (left, new) in left.chunks_mut(SECTOR).zip(new.chunks(SECTOR)) {
            if left != new && choose(2) == 1 {
                left.copy_from_slice(new);
            }
        }
        left
    }
}
