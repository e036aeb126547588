//! The run folder: one crawl's place on disk, held by one process at a time.
//!
//! The lock is the kernel's (`flock`): it is gone when its holder is, however that ended. No record of a crawl is ever
//! removed from the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{EVENTS_FILE, REQUESTS_FILE, rotated_number};
use crate::store::load::STATE_FOLDER;
use crate::text::Clean;

/// Name of the lock file.
pub const LOCK_FILE: &str = "lock";

/// A folder that this process alone crawls in, as long as this value lives.
#[derive(Debug)]
pub struct RunFolder {
    dir: PathBuf,
    /// Open = locked.
    _lock: File,
}

/// Why a run cannot start in a folder.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// It cannot be made or written to.
    #[error("run folder {} cannot be used: {source}; choose another with -d", path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process crawls in it.
    #[error("run folder {} is in use by {holder}; choose another with -d", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// `process N`, as the lock file says.
        holder: Clean,
    },
    /// It holds the journal of a crawl that left no state.
    #[error("run folder {} holds a journal without the state of its crawl, which cannot be resumed; choose another with -d", path.display())]
    HoldsJournal {
        /// The folder.
        path: PathBuf,
    },
}

impl RunFolder {
    /// Makes the folder if there is none, takes its lock, and makes sure that a crawl that began in it can go on.
    pub fn open(dir: &Path) -> Result<Self, RunFolderError> {
        let unusable = |path: &Path| {
            let path = path.to_path_buf();
            move |source: io::Error| RunFolderError::Unusable { path, source }
        };
        fs::create_dir_all(dir).map_err(unusable(dir))?;
        let lock_path = dir.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(unusable(&lock_path))?;
        if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error == rustix::io::Errno::WOULDBLOCK {
                return Err(RunFolderError::InUse { path: dir.to_path_buf(), holder: holder(&mut lock) });
            }
            return Err(unusable(&lock_path)(error.into()));
        }
        if !dir.join(STATE_FOLDER).exists() && holds_journal(dir).map_err(unusable(dir))? {
            return Err(RunFolderError::HoldsJournal { path: dir.to_path_buf() });
        }
        // Before the journal: a crash between the two must not look like a journal whose state is lost.
        let state = dir.join(STATE_FOLDER);
        fs::create_dir_all(&state).map_err(unusable(&state))?;
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(unusable(&lock_path))?;
        Ok(Self { dir: dir.to_path_buf(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }
}

/// The process that crawls in `dir` now, as the kernel's list of locks says; `None` = nobody, or it is not told. Takes no
/// lock itself.
pub fn holder_of(dir: &Path) -> Option<Clean> {
    let inode = fs::metadata(dir.join(LOCK_FILE)).ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { return None };
        let held = file.rsplit(':').next() == Some(inode.as_str());
        held.then(|| Clean::new(format!("process {pid}")))
    })
}

/// Who the lock file says holds it. Between taking the lock and writing the number it may be empty.
fn holder(lock: &mut File) -> Clean {
    let mut text = String::new();
    // What cannot be read is not told.
    let _ = lock.take(32).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) => Clean::new(format!("process {pid}")),
        Err(_) => Clean::new("another process"),
    }
}

/// Whether something of a journal is in the folder.
fn holds_journal(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let ours = name == REQUESTS_FILE || name == EVENTS_FILE || rotated_number(name).is_some();
        if ours && entry.metadata()?.len() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_refused_with_the_holder_and_let_in_afterwards() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("deep/crawl");
        let first = RunFolder::open(&path).expect("free");
        let refused = RunFolder::open(&path).expect_err("held").to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        assert!(refused.contains("-d"), "{refused}");
        // Where the kernel lists its locks.
        if Path::new("/proc/locks").exists() {
            assert_eq!(holder_of(&path), Some(Clean::new(format!("process {}", std::process::id()))));
        }
        drop(first);
        assert_eq!(holder_of(&path), None);
        RunFolder::open(&path).expect("free again");
    }

    #[test]
    fn a_folder_with_a_journal_alone_is_refused_and_left_as_it_is() {
        for name in ["requests.csv", "events.jsonl", "requests-0001.csv"] {
            let dir = tempfile::tempdir().expect("a temporary folder");
            fs::write(dir.path().join(name), "").expect("writable");
            drop(RunFolder::open(dir.path()).expect("an empty file is no journal"));
            fs::remove_dir(dir.path().join(STATE_FOLDER)).expect("it is empty");
            fs::write(dir.path().join(name), "x\n").expect("writable");
            let refused = RunFolder::open(dir.path()).expect_err("a journal").to_string();
            assert!(refused.contains("-d"), "{refused}");
            assert_eq!(fs::read_to_string(dir.path().join(name)).expect("still there"), "x\n");
            fs::create_dir(dir.path().join(STATE_FOLDER)).expect("writable");
            RunFolder::open(dir.path()).expect("with its state it can go on");
        }
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_named() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("crawl");
        fs::write(&path, "x").expect("writable");
        let refused = RunFolder::open(&path).expect_err("a file").to_string();
        assert!(refused.contains("crawl cannot be used"), "{refused}");
    }
}
