//! A body on its way into the archive: in memory up to a bound, beyond it in a file.
//!
//! The file has no name: it is unlinked as soon as it is open, so the kernel removes it however we end. Whoever
//! died between the two calls leaves a `spool-*` behind, which the next open of the archive removes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::handle::ArchiveSender;
use super::{BODIES_DIR, Keep, WARC_DIR};
use crate::text::Clean;

/// Bytes of one body in memory at most; also what is written to its file at once.
pub const MEMORY_MAX: usize = 256 << 10;
/// How names of spool files begin, until they are unlinked.
const PREFIX: &str = "spool-";
/// Names that are tried for one file.
const NAMES_TRIED: u32 = 16;

/// Where spools are made, and what the fetcher has to know of the archive.
#[derive(Debug)]
pub struct Room {
    dir: PathBuf,
    keep: Keep,
    /// Why the last spool could not be written; the writer looks at it and clears it. A lock, because fetches run
    /// side by side; held for one move.
    trouble: Mutex<Option<Clean>>,
    /// The writer to wake then; none before the archive is open.
    writer: OnceLock<ArchiveSender>,
}

impl Room {
    /// A room in a run folder. Nothing is made before it is needed.
    pub fn new(run_folder: &Path, keep: Keep) -> Arc<Self> {
        let dir = run_folder.join(if keep.warc { WARC_DIR } else { BODIES_DIR });
        Arc::new(Self { dir, keep, trouble: Mutex::default(), writer: OnceLock::new() })
    }

    /// What is kept.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// The folder of the spools.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Who is to hear of trouble.
    pub(super) fn belongs_to(&self, writer: ArchiveSender) {
        // A room belongs to the first archive that is opened with it.
        let _ = self.writer.set(writer);
    }

    /// Says that a spool could not be written.
    fn complain(&self, error: &io::Error) {
        let text = Clean::new(format!("a body cannot be spooled ({error})"));
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        if let Some(writer) = self.writer.get() {
            writer.look_at_room();
        }
    }

    /// What was complained of.
    pub(super) fn trouble(&self) -> Option<Clean> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a spool can be written now; if so, what was complained of is over.
    pub(super) fn try_again(&self) -> io::Result<()> {
        let mut file = create(&self.dir)?;
        file.write_all(&vec![0; MEMORY_MAX])?;
        file.sync_data()?;
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

/// Makes a file without a name.
fn create(dir: &Path) -> io::Result<File> {
    let mut tried = 0;
    loop {
        let path = dir.join(format!("{PREFIX}{:08x}", fastrand::u32(..)));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED => tried += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Removes what a process left behind that died in [`create`].
pub(super) fn sweep(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A body that is whole, or as whole as it will be.
#[derive(Debug, Default)]
pub struct Spool {
    /// All of it, or nothing if there is a file.
    bytes: Vec<u8>,
    file: Option<File>,
    length: u64,
}

impl Spool {
    /// One in memory, whatever its size.
    pub fn of(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self { bytes, file: None, length }
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether it is in a file.
    pub(super) fn is_filed(&self) -> bool {
        self.file.is_some()
    }

    /// All of it, if it is in memory.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        if self.is_filed() { None } else { Some(&self.bytes) }
    }

    /// Bytes of it in memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Shows all bytes to `take`, from the first on, some at a time.
    pub fn read<E: From<io::Error>>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let Some(file) = &self.file else {
            return if self.bytes.is_empty() { Ok(()) } else { take(&self.bytes) };
        };
        let mut file: &File = file;
        file.seek(SeekFrom::Start(0))?;
        let mut left = self.length;
        let mut buffer = vec![0; MEMORY_MAX];
        while left > 0 {
            let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let part = &mut buffer[..wanted];
            file.read_exact(part)?;
            take(part)?;
            left -= part.len() as u64;
        }
        Ok(())
    }
}

/// What a tee does with a body that outgrows the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beyond {
    /// It goes on in a file.
    File,
    /// The rest is not kept: nobody may wait for a disk.
    Cut,
}

/// A body that is being received.
#[derive(Debug)]
pub struct Tee {
    room: Arc<Room>,
    beyond: Beyond,
    /// What is not in the file yet.
    bytes: Vec<u8>,
    file: Option<File>,
    filed: u64,
    is_cut: bool,
}

impl Tee {
    /// Nothing received yet.
    pub fn new(room: Arc<Room>, beyond: Beyond) -> Self {
        Self { room, beyond, bytes: Vec::new(), file: None, filed: 0, is_cut: false }
    }

    /// Takes received bytes. Waits for the disk, off the runtime's threads, only when the memory is full.
    pub async fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        if self.bytes.len() + chunk.len() > MEMORY_MAX {
            match self.beyond {
                Beyond::File => self.file().await?,
                Beyond::Cut => {
                    self.is_cut = true;
                    return Ok(());
                }
            }
        }
        if !self.is_cut {
            self.bytes.extend_from_slice(chunk);
        }
        Ok(())
    }

    /// Whether a part was left out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Moves what is in memory into the file.
    async fn file(&mut self) -> io::Result<()> {
        let (file, bytes, dir) = (self.file.take(), std::mem::take(&mut self.bytes), self.room.dir.clone());
        let count = bytes.len() as u64;
        let moving = tokio::task::spawn_blocking(move || {
            let mut file = match file {
                Some(file) => file,
                None => create(&dir)?,
            };
            file.write_all(&bytes)?;
            Ok((file, bytes))
        });
        match moving.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((file, mut bytes)) => {
                bytes.clear();
                self.bytes = bytes;
                self.file = Some(file);
                self.filed = self.filed.saturating_add(count);
                Ok(())
            }
            Err(error) => {
                self.room.complain(&error);
                Err(error)
            }
        }
    }

    /// No more bytes come.
    pub async fn end(mut self) -> io::Result<Spool> {
        if self.file.is_some() && !self.bytes.is_empty() {
            self.file().await?;
        }
        if self.file.is_some() {
            return Ok(Spool { bytes: Vec::new(), file: self.file, length: self.filed });
        }
        self.bytes.shrink_to_fit();
        Ok(Spool::of(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn spooled(chunks: &[Vec<u8>], beyond: Beyond) -> (Spool, bool) {
        let dir = tempfile::tempdir().expect("a folder");
        let room = Room::new(dir.path(), Keep { warc: true, bodies: false });
        fs::create_dir(room.dir()).expect("made");
        let mut tee = Tee::new(Arc::clone(&room), beyond);
        for chunk in chunks {
            tee.push(chunk).await.expect("taken");
        }
        assert_eq!(fs::read_dir(room.dir()).expect("there").count(), 0, "spools have no names");
        let is_cut = tee.is_cut();
        (tee.end().await.expect("ended"), is_cut)
    }

    fn all(spool: &Spool) -> Vec<u8> {
        let mut all = Vec::new();
        let read = spool.read(|part| -> io::Result<()> {
            all.extend_from_slice(part);
            Ok(())
        });
        read.expect("readable");
        assert_eq!(all.len() as u64, spool.length());
        all
    }

    #[tokio::test]
    async fn a_body_comes_back_as_it_went_in_from_memory_and_from_a_file() {
        for (sizes, filed) in [
            (vec![], false),
            (vec![1], false),
            (vec![MEMORY_MAX], false),
            (vec![MEMORY_MAX, 1], true),
            (vec![3 * MEMORY_MAX, 5, MEMORY_MAX - 1, 70], true),
        ] {
            let chunks: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(number, size)| vec![number as u8 + 1; *size]).collect();
            let (spool, is_cut) = spooled(&chunks, Beyond::File).await;
            assert_eq!(all(&spool), chunks.concat(), "{sizes:?}");
            assert_eq!(all(&spool), chunks.concat(), "a second time: {sizes:?}");
            assert!(!is_cut);
            if filed {
                assert!(spool.is_filed() && spool.memory() == 0);
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_may_not_wait_is_cut_at_whole_chunks() {
        let (spool, is_cut) = spooled(&[vec![1; MEMORY_MAX - 1], vec![2; 2], vec![3]], Beyond::Cut).await;
        assert!(is_cut && !spool.is_filed());
        assert_eq!(all(&spool), vec![1; MEMORY_MAX - 1]);
    }

    #[tokio::test]
    async fn a_spool_that_cannot_be_made_is_told_and_tried_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let room = Room::new(dir.path(), Keep { warc: true, bodies: false });
        let mut tee = Tee::new(Arc::clone(&room), Beyond::File);
        tee.push(&vec![1; MEMORY_MAX]).await.expect("in memory");
        tee.push(&[2]).await.expect_err("there is no folder");
        assert!(room.trouble().is_some());
        room.try_again().expect_err("still none");
        assert!(room.trouble().is_some());
        fs::create_dir(room.dir()).expect("made");
        fs::write(room.dir().join("spool-00000000"), "left behind").expect("written");
        fs::write(room.dir().join("other"), "not ours").expect("written");
        room.try_again().expect("now");
        assert!(room.trouble().is_none());
        sweep(room.dir()).expect("swept");
        assert_eq!(fs::read_dir(room.dir()).expect("there").count(), 1);
    }
}
