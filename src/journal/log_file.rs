//! One file of the journal: whole lines appended at its end, whatever happens to the file meanwhile.
//!
//! Lines are kept in memory until a sync succeeded. A failed write leaves no half line behind (the file
//! is cut back to the last whole one); after a failed sync nothing that was written since the last good
//! one is trusted: the file is opened anew, cut back to there, and written again. A file that was
//! renamed, removed or truncated from outside is noticed before the next write.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, DiskFile, Identity, append_all};

/// Unsynced bytes kept in memory at most before the writer syncs early.
pub const UNSYNCED_MAX: usize = 8 << 20;

/// A file that is only appended to. `pending` holds the lines since the last sync; its first `written`
/// bytes are in the file, from offset `base` on.
pub struct LogFile {
    path: PathBuf,
    header: Vec<u8>,
    file: Option<(Box<dyn DiskFile>, Identity)>,
    base: u64,
    pending: Vec<u8>,
    written: usize,
    /// A write or sync failed: bytes beyond `base + written` are a torn line of our own.
    suspect: bool,
    appended: u64,
}

impl LogFile {
    /// The file at `path`, which begins with `header` (may be empty). Nothing is opened before the first write.
    /// `size` is its length now: the end of its last whole line.
    pub fn new(path: PathBuf, header: Vec<u8>, size: u64) -> Self {
        Self { path, header, file: None, base: size, pending: Vec::new(), written: 0, suspect: false, appended: 0 }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where lines are put for the next [`LogFile::write`]. Only append whole lines.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// The file's length, as far as it is known.
    pub fn size(&self) -> u64 {
        self.base.saturating_add(self.written as u64)
    }

    /// Bytes appended since this value was made; what had to be written twice counts twice.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Whether lines wait to be written or synced.
    pub fn is_dirty(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes that a sync would settle.
    pub fn unsynced(&self) -> usize {
        self.pending.len()
    }

    /// Writes what is buffered. After an error the file ends with a whole line (or will be cut to one before
    /// the next write), and nothing is forgotten: call again later.
    pub fn write(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.look(disk)?;
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let before = self.written;
        let appended = append_all(&mut **file, &self.pending, &mut self.written);
        self.appended = self.appended.saturating_add((self.written - before) as u64);
        if appended.is_err() {
            self.suspect = true;
            let whole = self.pending[..self.written].iter().rposition(|byte| *byte == b'\n');
            self.written = whole.map_or(0, |end| end + 1);
            // If even this fails, it is done before the next write.
            let _ = file.cut(self.base.saturating_add(self.written as u64));
        }
        appended
    }

    /// Returns when all that was written is on the medium.
    pub fn sync(&mut self) -> io::Result<()> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        if self.written == 0 {
            return Ok(());
        }
        if let Err(error) = file.sync() {
            // The kernel may have dropped the pages and would report success next time: write them again.
            self.suspect = true;
            self.written = 0;
            let _ = file.cut(self.base);
            self.file = None;
            return Err(error);
        }
        self.settle();
        Ok(())
    }

    /// Gives the file another name and starts a new one at the old name. On an error the old one is still in use.
    pub fn rotate(&mut self, disk: &mut dyn Disk, to: &Path) -> io::Result<()> {
        self.sync()?;
        disk.rename(&self.path, to)?;
        self.start_anew();
        Ok(())
    }

    /// What was written is no longer ours to write again.
    fn settle(&mut self) {
        self.pending.drain(..self.written);
        self.base = self.base.saturating_add(self.written as u64);
        self.written = 0;
    }

    /// The next write opens whatever has the name then.
    fn start_anew(&mut self) {
        self.pending.drain(..self.written);
        self.file = None;
        self.base = 0;
        self.written = 0;
    }

    /// Makes sure that the file open is the one at the path and ends where we think it ends.
    fn look(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if let Some((_, identity)) = &self.file
            && disk.identity(&self.path)? != Some(*identity)
        {
            // Moved away or removed: what is in it stays in it.
            self.sync()?;
            self.start_anew();
        }
        let (file, _) = match &mut self.file {
            Some(open) => open,
            none => {
                let mut file = disk.open(&self.path)?;
                let identity = file.identity()?;
                none.insert((file, identity))
            }
        };
        let size = file.size()?;
        let expected = self.base.saturating_add(self.written as u64);
        if size > expected && self.suspect {
            file.cut(expected)?;
        } else if size != expected {
            // Truncated (the lines are in somebody's copy) or appended to by somebody else.
            self.pending.drain(..self.written);
            self.written = 0;
            self.base = size;
        }
        self.suspect = false;
        if self.size() == 0 && !self.pending.starts_with(&self.header) {
            self.pending.splice(0..0, self.header.iter().copied());
        }
        Ok(())
    }
}
