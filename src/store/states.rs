//! The file of states: the last word on each host, on each robots.txt and on the crawl as a whole.
//!
//! A later record about the same thing replaces an earlier one. When the file has grown to several times what is
//! valid in it, the valid records are written into the next file, which takes the old one's place once it is on the
//! medium.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::StoreError;
use super::file::StoreFile;
use super::frame::{FileKind, Frames, PAYLOAD};
use super::load::{Lost, of_file};
use crate::journal::disk::{Disk, sync_names};

/// A file smaller than this is never written anew.
pub(super) const REWRITE_MIN: u64 = 64 << 20;
/// The file is written anew when it is so many times as long as it was when all in it was valid.
const REWRITE_TIMES: u64 = 3;

/// What a state is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKind {
    /// One host, by its name.
    Host = 1,
    /// The robots.txt of one authority.
    Robots = 2,
    /// The crawl; the key is the name of a part of it.
    Crawl = 3,
}

/// Appends a state: kind, lengths of key and value, key, value.
pub(super) fn push_state(out: &mut Vec<u8>, kind: StateKind, key: &str, value: &[u8]) {
    out.push(kind as u8);
    for length in [key.len(), value.len()] {
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(value);
}

/// Calls `each` with every state in `payload`; `None` = it holds something that is none.
pub(super) fn each_state<'a>(mut payload: &'a [u8], mut each: impl FnMut(StateKind, &'a str, &'a [u8])) -> Option<()> {
    while let Some((head, rest)) = payload.split_first_chunk::<9>() {
        let [kind, a, b, c, d, e, f, g, h] = *head;
        let kind = match kind {
            1 => StateKind::Host,
            2 => StateKind::Robots,
            3 => StateKind::Crawl,
            _ => return None,
        };
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes([e, f, g, h]) as usize)?;
        each(kind, std::str::from_utf8(key).ok()?, value);
        payload = rest;
    }
    payload.is_empty().then_some(())
}

/// All states of a run by what they are about.
pub type States = HashMap<(StateKind, Box<str>), Box<[u8]>>;

/// What the folder holds of states.
#[derive(Debug, Default)]
pub(super) struct StatesRead {
    pub(super) states: States,
    /// Which file it is, from 1; 0 = there is none.
    pub(super) generation: u32,
    /// Where its last transaction ends.
    pub(super) committed: u64,
    /// Bytes behind that.
    pub(super) torn: u64,
    /// Bytes that are valid, about.
    pub(super) valid: u64,
}

/// The state that tells how long the file of URLs was, all of it on the medium, before the transaction that it is in.
const URLS_STATE: &str = "urls";

/// Tells it.
pub(super) fn push_urls_end(out: &mut Vec<u8>, end: u64) {
    push_state(out, StateKind::Crawl, URLS_STATE, end.to_string().as_bytes());
}

impl StatesRead {
    /// How long the file of URLs was at least.
    pub(super) fn urls_end(&self) -> Option<u64> {
        let told = self.states.get(&(StateKind::Crawl, URLS_STATE.into()))?;
        std::str::from_utf8(told).ok()?.parse().ok()
    }

    /// What is missing, if the file of this generation was so long.
    pub(super) fn lost(&self, (generation, had): (u32, u64)) -> Option<Lost> {
        let whole = match self.generation.cmp(&generation) {
            Ordering::Less => 0,
            Ordering::Equal => self.committed,
            Ordering::Greater => return None,
        };
        (whole < had).then(|| Lost { file: name_of(generation), had, whole })
    }
}

/// Reads the newest file of states in `dir`.
pub(super) fn read_states(dir: &Path) -> Result<StatesRead, StoreError> {
    let mut read = StatesRead { generation: newest(dir).map_err(of_file(dir))?, ..StatesRead::default() };
    let path = dir.join(name_of(read.generation));
    let Some(mut frames) = Frames::open(&path, FileKind::Hosts).map_err(of_file(&path))? else { return Ok(read) };
    let mut transaction = Vec::new();
    while frames.transaction(&mut transaction).map_err(of_file(&path))? {
        for (at, payload) in &transaction {
            let states = &mut read.states;
            each_state(payload, |kind, key, value| {
                states.insert((kind, key.into()), value.into());
            })
            .ok_or_else(|| StoreError::Unknown { path: path.clone(), at: *at })?;
        }
    }
    read.valid = read.states.iter().map(|((_, key), value)| (key.len() + value.len()) as u64).sum();
    read.committed = frames.committed();
    read.torn = frames.size() - frames.committed();
    Ok(read)
}

/// The name of a file of states.
pub(super) fn name_of(generation: u32) -> String {
    format!("hosts-{generation:04}.log")
}

/// The highest generation in `dir`; 0 if there is none.
fn newest(dir: &Path) -> Result<u32, super::frame::FrameError> {
    let mut highest = 0;
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix("hosts-")?.strip_suffix(".log"));
        highest = highest.max(digits.and_then(|digits| digits.parse().ok()).unwrap_or(0));
    }
    Ok(highest)
}

/// Where a state stands: its frame, and the how-manieth it is there.
type StatePlace = (u64, u32);

/// What a state is about, in short.
fn print_of(kind: StateKind, key: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128_with_seed(key.as_bytes(), kind as u64)
}

/// Where the last word on each thing stands in a file: all of the words at once would be most of the memory.
fn newest_of(path: &Path) -> Result<HashMap<u128, StatePlace>, StoreError> {
    let mut newest = HashMap::new();
    each_in(path, |place, kind, key, _| {
        newest.insert(print_of(kind, key), place);
        Ok(())
    })?;
    Ok(newest)
}

/// Calls `each` with every state in a file.
fn each_in(
    path: &Path,
    mut each: impl FnMut(StatePlace, StateKind, &str, &[u8]) -> io::Result<()>,
) -> Result<(), StoreError> {
    let Some(mut frames) = Frames::open(path, FileKind::Hosts).map_err(of_file(path))? else { return Ok(()) };
    let mut transaction = Vec::new();
    while frames.transaction(&mut transaction).map_err(of_file(path))? {
        for (at, payload) in &transaction {
            let (mut number, mut result) = (0, Ok(()));
            each_state(payload, |kind, key, value| {
                if result.is_ok() {
                    result = each((*at, number), kind, key, value);
                }
                number += 1;
            })
            .ok_or_else(|| StoreError::Unknown { path: path.to_path_buf(), at: *at })?;
            result.map_err(|error| of_file(path)(error.into()))?;
        }
    }
    Ok(())
}

/// Bytes of a file that is written anew which go to it at once: what the buffer keeps anyway.
const WRITTEN_AT_ONCE: u64 = super::writer::COMMIT_BYTES as u64;

/// The file of states while it is written.
pub(super) struct StatesFile {
    dir: PathBuf,
    generation: u32,
    pub(super) file: StoreFile,
    /// Bytes that were valid in it when it was written anew or opened.
    valid: u64,
    rewrite_min: u64,
    /// Its name may not be on the medium, and the one before it may still be there.
    renamed: bool,
    /// Times in a row that it could not be written anew, and transactions until the next try.
    failed: u32,
    rest: u32,
}

/// A file that cannot be written anew is tried again after 1, 2, 4 transactions and so on, and at most so many: a minute
/// of them. Each try costs the reading of all of it.
const REST_MAX: u32 = 256;

impl StatesFile {
    /// Which file it is, and where its next transaction will begin.
    pub(super) fn place(&self) -> (u32, u64) {
        (self.generation, self.file.end())
    }

    pub(super) fn new(dir: &Path, generation: u32, committed: u64, valid: u64, rewrite_min: u64) -> Self {
        let generation = generation.max(1);
        let file = StoreFile::new(dir.join(name_of(generation)), FileKind::Hosts, committed);
        // A process that was stopped just after it renamed may have left it so.
        let dir = dir.to_path_buf();
        Self { dir, generation, file, valid, rewrite_min, renamed: generation > 1, failed: 0, rest: 0 }
    }

    /// Whether most of the file is of no use any more, and it is time to write it anew. Asked after each transaction.
    pub(super) fn is_due(&mut self) -> bool {
        let overgrown = self.file.end() > self.rewrite_min.max(self.valid.saturating_mul(REWRITE_TIMES));
        let rests = self.rest > 0;
        self.rest = self.rest.saturating_sub(1);
        overgrown && !rests
    }

    /// Writes what is valid into the next file and goes on with that; on an error, which names the file, the old one is
    /// still in use.
    pub(super) fn rewrite(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        let old = self.file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let next = self.dir.join(name_of(self.generation + 1));
        let draft = next.with_extension("log.new");
        if let Err(error) = self.copy(disk, &draft, &next) {
            // On a full disk it would keep the transactions from theirs.
            let _ = disk.remove(&draft);
            self.rest = 1_u32.checked_shl(self.failed).unwrap_or(REST_MAX).min(REST_MAX);
            self.failed = self.failed.saturating_add(1);
            return Err(io::Error::new(error.kind(), format!("{old} cannot be written anew: {error}")));
        }
        (self.failed, self.rest) = (0, 0);
        // What keeps the new name from the medium keeps the next transaction from it, too, which says so.
        let _ = self.settle_names(disk);
        Ok(())
    }

    /// Copies what is valid into the next file, which is on the medium before it takes the old one's place.
    fn copy(&mut self, disk: &mut dyn Disk, draft: &Path, path: &Path) -> io::Result<()> {
        let old = self.file.path().to_path_buf();
        let newest = newest_of(&old).map_err(io::Error::other)?;
        // A draft of a process that was stopped here: cut and written over.
        let mut file = StoreFile::new(draft.to_path_buf(), FileKind::Hosts, 0);
        let mut payload = Vec::new();
        let mut written = 0;
        let copied = each_in(&old, |place, kind, key, value| {
            if newest.get(&print_of(kind, key)) == Some(&place) {
                push_state(&mut payload, kind, key, value);
            }
            if payload.len() >= PAYLOAD {
                // Transactions of a bearable size: the file counts for nothing before it has its name.
                let ends = file.end() >= written + WRITTEN_AT_ONCE;
                file.push(&payload, ends);
                payload.clear();
                if ends {
                    written = file.end();
                    file.write(disk)?;
                    file.sync()?;
                }
            }
            Ok(())
        });
        copied.map_err(io::Error::other)?;
        file.push(&payload, true);
        file.write(disk)?;
        file.sync()?;
        if let Err(error) = disk.rename(draft, path)
            // Over a network a rename may be done and its answer be lost.
            && !matches!(disk.identity(path), Ok(Some(_)))
        {
            return Err(error);
        }
        // From here on whoever reads takes the new one, so nothing may go into the old any more.
        let end = file.end();
        self.generation += 1;
        self.file = StoreFile::new(path.to_path_buf(), FileKind::Hosts, end);
        self.valid = end;
        self.renamed = true;
        Ok(())
    }

    /// Puts the new file's name on the medium, if it is not there yet; the old file is of no use then.
    pub(super) fn settle_names(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if !self.renamed {
            return Ok(());
        }
        sync_names(disk, &self.dir)?;
        self.renamed = false;
        let old = self.dir.join(name_of(self.generation.saturating_sub(1)));
        // That the older is still there costs only room.
        if let Err(error) = disk.remove(&old)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, file = %old.display(), "an old file of states cannot be removed");
        }
        Ok(())
    }
}
