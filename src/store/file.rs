//! One file of the store while it is written: appended to, synced, and written again where a sync failed.

use std::io;
use std::path::{Path, PathBuf};

use super::frame::{FileKind, file_head, push_frame};
use crate::journal::disk::{Disk, DiskFile, Identity};

/// A file that only this process appends to. `pending` holds what was appended since the last sync; its first
/// `written` bytes are in the file, from `base` on.
pub(super) struct StoreFile {
    path: PathBuf,
    kind: FileKind,
    file: Option<Box<dyn DiskFile>>,
    identity: Option<Identity>,
    base: u64,
    pending: Vec<u8>,
    written: usize,
    /// Bytes beyond `base + written` may be in the file: a torn write of ours, or of the process before.
    suspect: bool,
}

impl StoreFile {
    /// The file at `path`, whose transactions end at `base` (0 = there is none yet).
    pub(super) fn new(path: PathBuf, kind: FileKind, base: u64) -> Self {
        Self { path, kind, file: None, identity: None, base, pending: Vec::new(), written: 0, suspect: true }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the next frame will stand.
    pub(super) fn end(&self) -> u64 {
        self.base + self.pending.len() as u64
    }

    /// Appends a frame; the place where it will stand.
    pub(super) fn push(&mut self, payload: &[u8], ends: bool) -> u64 {
        if self.end() == 0 {
            self.pending.extend_from_slice(&file_head(self.kind));
        }
        let at = self.end();
        push_frame(&mut self.pending, at, payload, ends);
        at
    }

    /// Whether there is something to write or to sync.
    pub(super) fn is_dirty(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes what was appended. After an error, call again: nothing is forgotten.
    pub(super) fn write(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        let expected = self.base + self.written as u64;
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = disk.open(&self.path)?;
                let identity = file.identity()?;
                if *self.identity.get_or_insert(identity) != identity {
                    return Err(io::Error::other("another file has its name now: stop the crawl and put it back"));
                }
                none.insert(file)
            }
        };
        if self.suspect {
            let size = file.size()?;
            if size < expected {
                return Err(io::Error::other("it was cut from outside: stop the crawl and put it back"));
            }
            if size > expected {
                file.cut(expected)?;
            }
            self.suspect = false;
        }
        while self.written < self.pending.len() {
            match file.append(&self.pending[self.written..]) {
                Ok(0) => {
                    self.suspect = true;
                    return Err(io::ErrorKind::WriteZero.into());
                }
                Ok(count) => self.written += count.min(self.pending.len() - self.written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.suspect = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns when all that was written is on the medium.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.sync() {
            // The kernel may have dropped the pages and would report success next time: all of it is written again,
            // to a file that is opened anew.
            self.suspect = true;
            self.written = 0;
            self.file = None;
            return Err(error);
        }
        self.base += self.written as u64;
        self.pending.drain(..self.written);
        self.written = 0;
        self.pending.shrink_to(1 << 20);
        Ok(())
    }
}
