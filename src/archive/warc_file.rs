//! The current WARC file: whole members appended at its end, whatever happens to the file meanwhile.
//!
//! Members stay in memory until a sync succeeded. After a failed write or sync nothing beyond the last good sync is
//! trusted: the file is cut back to there and written again. A member too large for that goes to the file as it is
//! made, alone between two syncs; if that fails the file is cut back, and the caller makes it again.
//! A file that was moved, removed or changed from outside is left alone, and a new one begun; so is one that lost what
//! was synced ([`tail`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gzip::Members;
use super::records::{self, Id};
use super::tail::{self, Loss, Mark};
use crate::clock::{Clock, Wall};
use crate::journal::disk::{Disk, DiskFile, Identity, append_all, sync_names};

/// Unsynced bytes kept in memory at most before they are synced.
pub const UNSYNCED_MAX: usize = 8 << 20;
/// Bytes of a large member that go to the file at once.
const LARGE_STEP: usize = 1 << 20;
/// How names of files begin and end; between stand the time and a serial number.
const PREFIX: &str = "crawldeck-";
const SUFFIX: &str = ".warc.gz";

/// The files of one folder, one after another. `pending` holds the members since the last sync; its first `written`
/// bytes are in the file, from offset `base` on.
pub(super) struct WarcFile {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    rotate_at: u64,
    about: Vec<(&'static str, String)>,
    members: Members,
    mark: Mark,
    loss: Option<Loss>,
    name: String,
    serial: u32,
    file: Option<(Box<dyn DiskFile>, Identity)>,
    base: u64,
    pending: Vec<u8>,
    written: usize,
    /// Bytes of a large member that are in the file and no longer in memory.
    streamed: u64,
    /// The last member is a small one: the mark may stand behind it, see [`Loss`].
    marks: bool,
    /// A write or sync failed: what is beyond `base + written` is our own.
    suspect: bool,
    /// The file's name is not on the medium yet.
    is_new: bool,
    /// The warcinfo that records refer to; `None` = the next one needs one first.
    info: Option<Id>,
    appended: u64,
}

impl WarcFile {
    /// Goes on with the last file of `dir`, whose torn tail is cut off, or begins one. `about` goes into warcinfo.
    pub(super) fn open(
        disk: &mut dyn Disk,
        dir: &Path,
        clock: Arc<dyn Clock>,
        rotate_at: u64,
        about: Vec<(&'static str, String)>,
    ) -> io::Result<Self> {
        let mark = Mark::open(dir)?;
        let mut file = Self {
            dir: dir.to_path_buf(),
            clock,
            rotate_at,
            about,
            members: Members::default(),
            mark,
            loss: None,
            name: String::new(),
            serial: 0,
            file: None,
            base: 0,
            pending: Vec::new(),
            written: 0,
            streamed: 0,
            marks: true,
            suspect: false,
            is_new: true,
            info: None,
            appended: 0,
        };
        if let Some((serial, name)) = last_file(dir)? {
            let path = dir.join(&name);
            let marked = file.mark.of(&name);
            if let Some(marked) = marked {
                file.loss = Loss::of(&path, &name, marked)?;
            }
            if file.loss.is_some() {
                // Somebody may put a copy in its place: nothing is cut off or appended.
                file.serial = serial;
                return Ok(file);
            }
            let whole = tail::whole(&path, marked)?;
            let mut open = disk.open(&path)?;
            if whole < open.size()? {
                tracing::warn!(file = %name, bytes = whole, "a torn record is cut off");
                open.cut(whole)?;
            }
            // What was whole may be in the page cache alone, left there by whoever was killed.
            open.sync()?;
            let identity = open.identity()?;
            (file.serial, file.name, file.base, file.file) = (serial, name, whole, Some((open, identity)));
        }
        Ok(file)
    }

    /// What was on the medium and is missing, once.
    pub(super) fn take_loss(&mut self) -> Option<Loss> {
        self.loss.take()
    }

    /// The id of the warcinfo for the records that come next. Rotates, and syncs when much is unsynced. To be called
    /// before each group of records; on an error nothing has changed that a later call could not go on with.
    pub(super) fn prepare(&mut self, disk: &mut dyn Disk) -> io::Result<Id> {
        if self.pending.len() >= UNSYNCED_MAX {
            self.sync(disk)?;
        }
        if self.name.is_empty() {
            self.begin();
        } else if self.size() >= self.rotate_at {
            self.sync(disk)?;
            self.begin();
        } else if let Some((_, identity)) = &self.file
            && disk.identity(&self.path())? != Some(*identity)
        {
            self.leave(disk)?;
        }
        if let Some(info) = self.info {
            return Ok(info);
        }
        let info = Id::random();
        let record = records::warcinfo(info, self.clock.wall(), &self.name, &self.about);
        self.put(&[&record])?;
        self.info = Some(info);
        Ok(info)
    }

    /// Appends a small record, given in parts, in memory.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.members.begin(&mut self.pending);
        for part in parts {
            self.members.push(part, &mut self.pending)?;
        }
        self.marks = true;
        self.members.end(&mut self.pending)
    }

    /// Appends a large record, made by `make`, which is given what takes its bytes. When this returns well, it is on
    /// the medium; else nothing of it is there.
    pub(super) fn put_large(
        &mut self,
        disk: &mut dyn Disk,
        make: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.sync(disk)?;
        self.marks = false;
        let made = self.stream(disk, make);
        if made.is_err() {
            self.pending.clear();
            self.doubt();
        }
        made
    }

    fn stream(
        &mut self,
        disk: &mut dyn Disk,
        make: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.members.begin(&mut self.pending);
        make(&mut |bytes| {
            self.members.push(bytes, &mut self.pending)?;
            if self.pending.len() >= LARGE_STEP {
                self.write(disk)?;
                self.streamed = self.streamed.saturating_add(self.written as u64);
                self.pending.clear();
                self.written = 0;
            }
            Ok(())
        })?;
        self.members.end(&mut self.pending)?;
        self.sync(disk)
    }

    /// Writes what is in memory. After an error call again later: nothing is forgotten.
    pub(super) fn write(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if self.written == self.pending.len() {
            return Ok(());
        }
        self.look(disk)?;
        let appended = self.write_here();
        if appended.is_err() {
            self.doubt();
        }
        appended
    }

    /// Returns when all records so far are on the medium.
    pub(super) fn sync(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        self.write(disk)?;
        if self.written == 0 && self.streamed == 0 {
            return Ok(());
        }
        if self.is_new {
            sync_names(disk, &self.dir)?;
            self.is_new = false;
        }
        if let Some((file, _)) = &mut self.file
            && let Err(error) = file.sync()
        {
            self.doubt();
            return Err(error);
        }
        self.base = self.size();
        self.pending.clear();
        self.written = 0;
        self.streamed = 0;
        // Room for a burst is not kept for ever.
        self.pending.shrink_to(UNSYNCED_MAX / 4);
        if self.marks {
            self.mark.set(&self.name, self.base);
        }
        Ok(())
    }

    /// Whether something waits for a sync.
    pub(super) fn is_dirty(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes appended since this value was made; what had to be written twice counts twice.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Its length when all is written.
    fn size(&self) -> u64 {
        self.base.saturating_add(self.streamed).saturating_add(self.pending.len() as u64)
    }

    /// Nothing beyond the last good sync is trusted: the kernel may have dropped pages that it could not write.
    fn doubt(&mut self) {
        self.suspect = true;
        self.written = 0;
        self.streamed = 0;
        if let Some((file, _)) = &mut self.file
            && file.size().is_ok_and(|size| size > self.base)
        {
            // If even this fails, it is done before the next write.
            let _ = file.cut(self.base);
        }
        self.file = None;
    }

    /// Begins the next file. All before is synced, or goes into it.
    fn begin(&mut self) {
        self.serial = self.serial.saturating_add(1);
        self.name = format!("{PREFIX}{}-{:05}{SUFFIX}", stamp(self.clock.wall()), self.serial);
        (self.file, self.base, self.written, self.streamed) = (None, 0, 0, 0);
        (self.suspect, self.is_new, self.info) = (false, true, None);
    }

    /// The file is no longer where it was: what is in it stays in it.
    fn leave(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        tracing::warn!(file = %self.name, "the WARC file was moved or removed: another one is begun");
        self.write_here()?;
        self.sync(disk)?;
        self.begin();
        Ok(())
    }

    /// Writes to the file that is open, wherever it is.
    fn write_here(&mut self) -> io::Result<()> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let before = self.written;
        let appended = append_all(&mut **file, &self.pending, &mut self.written);
        self.appended = self.appended.saturating_add((self.written - before) as u64);
        appended
    }

    /// Makes sure that a file is open and ends where we think it ends.
    fn look(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        let size = self.reopen(disk)?.size()?;
        let expected = self.base.saturating_add(self.streamed).saturating_add(self.written as u64);
        if size > expected && self.suspect {
            self.reopen(disk)?.cut(expected)?;
        } else if size != expected {
            tracing::warn!(file = %self.name, size, expected, "somebody changed the WARC file: another one is begun");
            if self.streamed > 0 {
                return Err(io::Error::other("the file was changed from outside"));
            }
            // What is unsynced goes into the next one, whole.
            self.begin();
            self.reopen(disk)?;
        }
        self.suspect = false;
        Ok(())
    }

    /// The file that is open, opened if there is none.
    fn reopen(&mut self, disk: &mut dyn Disk) -> io::Result<&mut Box<dyn DiskFile>> {
        let (file, _) = match &mut self.file {
            Some(open) => open,
            none => {
                let mut file = disk.open(&self.dir.join(&self.name))?;
                let identity = file.identity()?;
                none.insert((file, identity))
            }
        };
        Ok(file)
    }
}

/// `20261130120000`.
fn stamp(now: Wall) -> String {
    now.rfc3339().chars().filter(char::is_ascii_digit).take(14).collect()
}

/// The serial and name of the last file in `dir`.
fn last_file(dir: &Path) -> io::Result<Option<(u32, String)>> {
    let mut last: Option<(u32, String)> = None;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(serial) = serial_of(name) else { continue };
        if last.as_ref().is_none_or(|(highest, _)| serial > *highest) {
            last = Some((serial, name.to_owned()));
        }
    }
    Ok(last)
}

/// The serial in a file's name, if it is one of ours.
fn serial_of(name: &str) -> Option<u32> {
    let (stamp, serial) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(stamp) && digits(serial) { serial.parse().ok() } else { None }
}
