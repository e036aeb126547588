//! The few file operations behind the journal's writer, as a trait: tests make each of them fail in turn.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Which file it is, whatever its name: device and inode.
pub type Identity = (u64, u64);

/// A file open for appending.
pub trait DiskFile: Send {
    /// One write call at the file's end; may take only a part.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Its length in bytes.
    fn size(&mut self) -> io::Result<u64>;
    /// Which file it is.
    fn identity(&mut self) -> io::Result<Identity>;
    /// Cuts it to `size` bytes.
    fn cut(&mut self, size: u64) -> io::Result<()>;
    /// Returns when what was appended is on the medium.
    fn sync(&mut self) -> io::Result<()>;
}

/// Where the files are.
pub trait Disk: Send {
    /// Opens `path` for appending, creating it.
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Which file has this name now; `None` = none.
    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>>;
    /// Renames.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
    /// Returns when the names in `dir` are on the medium.
    fn sync_dir(&mut self, dir: &Path) -> io::Result<()>;
    /// The room where `dir` is; `None` = it is not known.
    fn room(&mut self, dir: &Path) -> Option<Space> {
        let _ = dir;
        None
    }
}

/// The room of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Free for whoever is not root.
    pub free: u64,
    /// Free or not.
    pub all: u64,
}

/// Appends `bytes` from `written` on, which moves on by what was taken, also where it ends in an error.
pub fn append_all(file: &mut dyn DiskFile, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < bytes.len() {
        match file.append(&bytes[*written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count.min(bytes.len() - *written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns when the names in `dir` are on the medium, where the file system can do that.
pub fn sync_names(disk: &mut dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.sync_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// The machine's file system for one of the layers that write: `journal`, `store` or `archive`. In debug builds a test may ask
/// for the process to be aborted at any operation of a layer, see [`crash`].
pub fn disk_for(layer: &'static str) -> Box<dyn Disk> {
    #[cfg(debug_assertions)]
    if let Some(disk) = crash::CrashingDisk::asked_for(layer) {
        return Box::new(disk);
    }
    let _ = layer;
    Box::new(SystemDisk)
}

/// The machine's own file system.
#[derive(Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SystemFile(OpenOptions::new().append(true).create(true).open(path)?)))
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn room(&mut self, dir: &Path) -> Option<Space> {
        let found = rustix::fs::statvfs(dir).ok()?;
        // A file system without blocks (some that are not on a disk) tells nothing.
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        (found.f_blocks > 0).then(|| Space { free: bytes(found.f_bavail), all: bytes(found.f_blocks) })
    }
}

/// A file of [`SystemDisk`], `O_APPEND`: whatever happens to it outside, nothing is written over.
struct SystemFile(File);

impl DiskFile for SystemFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn size(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn identity(&mut self) -> io::Result<Identity> {
        let metadata = self.0.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Crashes that tests of the whole program ask for; debug builds alone have them.
#[cfg(debug_assertions)]
pub mod crash;
