//! One file of the store while it is written: appended to, synced, and written again where a sync failed.

use std::io;
use std::path::{Path, PathBuf};

use super::frame::{BEGINS, ENDS, FILE_HEAD, FileKind, file_head, push_frame};
use crate::journal::disk::{Disk, DiskFile, Identity, append_all, sync_names};

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
    /// The process before may have left bytes that are not on the medium, whole transactions too. They are before
    /// anything follows them; and what is cut off must not come back among frames that stand in its place.
    inherited: bool,
    /// The file's head is not there yet.
    headless: bool,
    /// Its name may not be on the medium.
    unnamed: bool,
    /// The last frame that was pushed ends no transaction.
    within: bool,
}

impl StoreFile {
    /// The file at `path`, whose transactions end at `base` (0 = there is none yet).
    pub(super) fn new(path: PathBuf, kind: FileKind, base: u64) -> Self {
        Self {
            path,
            kind,
            file: None,
            identity: None,
            base: base.max(FILE_HEAD as u64),
            pending: Vec::new(),
            written: 0,
            suspect: true,
            inherited: true,
            headless: base == 0,
            unnamed: true,
            within: false,
        }
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
        let at = self.end();
        let flags = if self.within { 0 } else { BEGINS } | if ends { ENDS } else { 0 };
        push_frame(&mut self.pending, at, payload, flags);
        self.within = !ends;
        at
    }

    /// Whether there is something to write or to sync.
    pub(super) fn is_dirty(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Puts everything on the medium, the name too. After an error, call again: nothing is forgotten.
    pub(super) fn settle(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if self.is_dirty() {
            self.write(disk)?;
            self.sync()?;
        }
        self.settle_name(disk)
    }

    fn settle_name(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if self.unnamed && self.file.is_some() {
            // A file whose name is lost is lost: so is one in a folder whose name is.
            for dir in self.path.ancestors().skip(1).take(2) {
                sync_names(disk, dir)?;
            }
            self.unnamed = false;
        }
        Ok(())
    }

    /// Puts on the medium what the process before left, before anything that relies on it is anywhere.
    pub(super) fn inherit(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if !self.inherited || self.headless {
            return Ok(());
        }
        self.look(disk)?;
        self.settle_name(disk)
    }

    /// Makes sure that the file is open and ends where it should.
    fn look(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        let expected = if self.headless { 0 } else { self.base + self.written as u64 };
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
            if self.inherited {
                file.sync()?;
            }
            (self.suspect, self.inherited) = (false, false);
        }
        Ok(())
    }

    /// Writes what was appended. After an error, call again: nothing is forgotten.
    pub(super) fn write(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.look(disk)?;
        let Some(file) = &mut self.file else { return Ok(()) };
        if self.headless {
            let head = file_head(self.kind);
            self.suspect = true;
            if file.append(&head)? < head.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            // Nothing may follow a head that could be lost.
            file.sync()?;
            (self.suspect, self.headless) = (false, false);
        }
        let appended = append_all(&mut **file, &self.pending, &mut self.written);
        self.suspect = appended.is_err();
        appended
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
        self.pending.shrink_to(super::writer::COMMIT_BYTES);
        Ok(())
    }
}
