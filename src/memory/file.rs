//! The memory's file: a line that says what follows, then a line a host.
//!
//! Several processes may use it. Whoever writes holds a lock beside it (`flock` on `NAME.lock`), reads what is there now,
//! merges what it learned of the hosts that it asked itself, writes a new file, syncs it and renames it over the old one:
//! a reader sees the one or the other. At most [`HOSTS_MAX`] hosts are kept; those not measured for longest go first.
//!
//! A file that is damaged (its checksum says so) or of a later version is named in an error and left as it is.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use data_encoding::BASE64_NOPAD;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::control::prior::experience::{SAMPLES_MAX, Skill, Visited};
use crate::control::prior::{Experience, Measured, Moment, Sample, Table};
use crate::journal::disk::{SystemDisk, sync_names};
use crate::text::Clean;

pub use crate::control::prior::advisor::HOSTS_MAX;

/// The format that is written, and the latest that is read.
pub const VERSION: u32 = 1;
/// A file that is larger is none of ours.
const FILE_MAX: u64 = 64 << 20;
/// Its folder and its name in the user's data directory.
const FOLDER: &str = "crawldeck";
const NAME: &str = "memory";

/// Everything that is remembered, by host key.
pub type Remembered = BTreeMap<String, Experience>;
/// What one process learned of a host, and in which hours.
pub type Learned = (String, Experience, Visited);

/// Why the memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system does not let us.
    #[error("memory file {} cannot be {what}: {source}", Clean::new(path.to_string_lossy()))]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its contents are not what was written.
    #[error(
        "memory file {} is damaged ({why}) and is left as it is: nothing is remembered; \
         `crawldeck memory forget --all` removes it, `memory` in [controller] names another",
        Clean::new(path.to_string_lossy())
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A later program wrote it.
    #[error(
        "memory file {} is of version {version}, this program knows {VERSION}; it is left as it is and nothing is \
         remembered; `memory` in [controller] names another",
        Clean::new(path.to_string_lossy())
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    crawldeck_memory: u32,
    #[serde(default)]
    hosts: usize,
    /// Of all bytes after this line.
    #[serde(default)]
    check: String,
}

/// The line of a host. Fields are only ever added.
#[derive(Serialize, Deserialize)]
struct Line {
    host: String,
    at: u64,
    measured: Measured,
    #[serde(default)]
    skill: Skill,
    /// The table's slots, little-endian; empty = none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hours: String,
    /// Samples, eight bytes each.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    samples: String,
}

/// A memory file, whether it exists or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    path: PathBuf,
}

impl Memory {
    /// The one at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The user's own: in `$XDG_DATA_HOME`, else in `~/.local/share`; `None` where neither is known.
    pub fn of_user() -> Option<Self> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
        Some(Self::at(data.join(FOLDER).join(NAME)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is remembered; nothing, if there is no file.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or of a later version.
    pub fn read(&self) -> Result<Remembered, MemoryError> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Remembered::new()),
            opened => {
                opened.and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes)).map_err(self.failed("read"))?
            }
        };
        if bytes.len() as u64 > FILE_MAX {
            return Err(self.damaged(format!("it has more than {} MiB", FILE_MAX >> 20)));
        }
        self.parse(&bytes)
    }

    fn parse(&self, bytes: &[u8]) -> Result<Remembered, MemoryError> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (head, rest) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
        let head: Head =
            serde_json::from_slice(head).map_err(|_| self.damaged("its first line is no head".to_owned()))?;
        if head.crawldeck_memory > VERSION {
            return Err(MemoryError::Newer { path: self.path.clone(), version: head.crawldeck_memory });
        }
        if head.check != check_of(rest) {
            return Err(self.damaged("its checksum does not fit".to_owned()));
        }
        let mut remembered = Remembered::new();
        for (number, line) in rest.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            let parsed =
                serde_json::from_slice::<Line>(line).ok().and_then(|line| Some((line.host.clone(), line.read()?)));
            let Some((host, experience)) = parsed else {
                return Err(self.damaged(format!("line {} is no host", number + 2)));
            };
            remembered.insert(host, experience);
        }
        Ok(remembered)
    }

    /// Adds what one process learned to what is remembered by now.
    ///
    /// # Errors
    /// As for [`Self::read`]; and if it cannot be written. The file is as it was then.
    pub fn merge(&self, learned: &[Learned]) -> Result<(), MemoryError> {
        self.change(|remembered| {
            for (host, experience, visited) in learned {
                match remembered.get_mut(host) {
                    Some(known) => known.merge(experience, *visited),
                    None => drop(remembered.insert(host.clone(), experience.clone())),
                }
            }
        })
    }

    /// Forgets the hosts for which `is_meant` holds; their names.
    ///
    /// # Errors
    /// As for [`Self::merge`].
    pub fn forget(&self, is_meant: impl Fn(&str) -> bool) -> Result<Vec<String>, MemoryError> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut forgotten = Vec::new();
        self.change(|remembered| {
            forgotten.extend(remembered.keys().filter(|host| is_meant(host)).cloned());
            remembered.retain(|host, _| !is_meant(host));
        })?;
        Ok(forgotten)
    }

    /// Removes the file, whatever is in it; whether there was one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<bool, MemoryError> {
        if !self.path.exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        // What a process that was killed had begun to write knows the same hosts.
        match fs::remove_file(self.beside("new")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.failed("removed")(error)),
            _ => {}
        }
        fs::remove_file(self.real()).map_err(self.failed("removed"))?;
        Ok(true)
    }

    /// Where the file itself is, if its name is a symbolic link: what is renamed over a link would replace it. All who
    /// use the file, by whatever name, lock the same one then.
    fn real(&self) -> PathBuf {
        let mut path = self.path.clone();
        // As many as the system follows; a link that leads nowhere yet is followed, too.
        for _ in 0..40 {
            let Ok(to) = fs::read_link(&path) else { break };
            path = path.parent().map_or(to.clone(), |folder| folder.join(&to));
        }
        path
    }

    fn change(&self, change: impl FnOnce(&mut Remembered)) -> Result<(), MemoryError> {
        let _lock = self.lock()?;
        let mut remembered = self.read()?;
        change(&mut remembered);
        bound(&mut remembered);
        self.write(&remembered)
    }

    /// The lock: gone with the file that is returned, however this process ends.
    fn lock(&self) -> Result<File, MemoryError> {
        let real = self.real();
        if let Some(folder) = real.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // Which hosts one crawls is nobody else's business.
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(self.failed("made a folder for"))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(self.beside("lock")).map_err(self.failed("locked"))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| self.failed("locked")(error.into()))?;
        Ok(lock)
    }

    fn write(&self, remembered: &Remembered) -> Result<(), MemoryError> {
        let mut body = Vec::new();
        for (host, experience) in remembered {
            let line = Line::of(host, experience);
            serde_json::to_writer(&mut body, &line).map_err(|error| self.failed("written")(error.into()))?;
            body.push(b'\n');
        }
        let head = Head { crawldeck_memory: VERSION, hosts: remembered.len(), check: check_of(&body) };
        let mut head = serde_json::to_vec(&head).map_err(|error| self.failed("written")(error.into()))?;
        head.push(b'\n');
        let new = self.beside("new");
        let written = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&head)?;
            file.write_all(&body)?;
            file.sync_all()?;
            let real = self.real();
            fs::rename(&new, &real)?;
            let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            sync_names(&mut SystemDisk, folder)
        };
        written().map_err(self.failed("written"))
    }

    /// The file's name with something more.
    fn beside(&self, more: &str) -> PathBuf {
        let mut name = self.real().into_os_string();
        name.push(".");
        name.push(more);
        name.into()
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> MemoryError {
        let path = self.path.clone();
        move |source| MemoryError::Io { path: path.clone(), what, source }
    }

    fn damaged(&self, why: String) -> MemoryError {
        MemoryError::Damaged { path: self.path.clone(), why }
    }
}

/// The hosts that were measured last.
fn bound(remembered: &mut Remembered) {
    let surplus = remembered.len().saturating_sub(HOSTS_MAX);
    if surplus > 0 {
        let mut by_age: Vec<(Moment, String)> =
            remembered.iter().map(|(host, experience)| (experience.at, host.clone())).collect();
        by_age.sort();
        for (_, host) in by_age.into_iter().take(surplus) {
            remembered.remove(&host);
        }
    }
}

fn check_of(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

impl Line {
    fn of(host: &str, experience: &Experience) -> Self {
        let bytes = |words: &mut dyn Iterator<Item = u16>| -> String {
            BASE64_NOPAD.encode(&words.flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
        };
        let table = &experience.table;
        Self {
            host: host.to_owned(),
            at: experience.at.0,
            measured: experience.measured,
            skill: experience.skill,
            hours: if table.known() > 0 { bytes(&mut table.slots().iter().copied()) } else { String::new() },
            samples: bytes(&mut experience.samples.iter().flat_map(|sample| sample.parts())),
        }
    }

    fn read(self) -> Option<Experience> {
        let words = |text: &str| -> Option<Vec<u16>> {
            let bytes = BASE64_NOPAD.decode(text.as_bytes()).ok()?;
            let (pairs, rest) = bytes.as_chunks::<2>();
            rest.is_empty().then(|| pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect())
        };
        let table = match self.hours.as_str() {
            "" => Table::default(),
            hours => Table::from_slots(&words(hours)?)?,
        };
        let parts = words(&self.samples)?;
        let (parts, rest) = parts.as_chunks::<4>();
        if !rest.is_empty() || parts.len() > SAMPLES_MAX {
            return None;
        }
        let samples = parts.iter().map(|parts| Sample::from_parts(*parts)).collect();
        Some(Experience { measured: self.measured, at: Moment(self.at), table, skill: self.skill, samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::prior::HourOfWeek;

    fn folder() -> (tempfile::TempDir, Memory) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = Memory::at(folder.path().join("deep/memory"));
        (folder, memory)
    }

    fn learned(host: &str, at: u64, limit: f64) -> Learned {
        let measured = Measured { limit, burst: 10.0, banned: 2, ..Measured::default() };
        let mut experience = Experience { measured, at: Moment(at), ..Experience::default() };
        let (hour, mut visited) = (HourOfWeek::of(Moment(at)), Visited::default());
        experience.table.visit(hour, limit);
        experience.sample(Sample::new(Moment(at), limit, 0.2, limit));
        visited.add(hour);
        (host.to_owned(), experience, visited)
    }

    #[test]
    fn what_was_merged_is_read_back_and_nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, memory) = folder();
        assert_eq!(memory.read().expect("no file is no error"), Remembered::new());
        let one = learned("a.example", 7_200, 2.5);
        memory.merge(std::slice::from_ref(&one)).expect("written");
        let read = memory.read().expect("whole");
        assert_eq!(read, Remembered::from([("a.example".to_owned(), one.1)]));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(memory.path()), 0o600);
        assert_eq!(mode(memory.path().parent().expect("a folder")), 0o700);
    }

    #[test]
    fn two_processes_merge_only_what_each_visited() {
        let (_folder, memory) = folder();
        let (one, other) = (learned("a.example", 3_600, 1.0), learned("a.example", 90_000, 4.0));
        memory.merge(&[one, learned("b.example", 3_600, 8.0)]).expect("written");
        memory.merge(&[other]).expect("written");
        let read = memory.read().expect("whole");
        let a = &read["a.example"];
        assert_eq!((a.measured.limit, a.table.known()), (4.0, 2));
        assert_eq!(read["b.example"].measured.limit, 8.0);
    }

    #[test]
    fn many_writers_at_once_lose_nothing() {
        let (_folder, memory) = folder();
        std::thread::scope(|scope| {
            for writer in 0..8_u64 {
                let memory = memory.clone();
                scope.spawn(move || {
                    for turn in 0..5 {
                        memory.merge(&[learned(&format!("{writer}-{turn}.example"), 1, 1.0)]).expect("written");
                    }
                });
            }
        });
        assert_eq!(memory.read().expect("whole").len(), 40);
    }

    #[test]
    fn a_damaged_file_and_a_later_one_are_named_and_left_alone() {
        let (_folder, memory) = folder();
        memory.merge(&[learned("a.example", 1, 1.0)]).expect("written");
        let whole = fs::read(memory.path()).expect("read");
        let refused = |bytes: &[u8], word: &str| {
            fs::write(memory.path(), bytes).expect("written");
            for error in [memory.read().map(drop), memory.merge(&[learned("b.example", 1, 1.0)])] {
                let error = error.expect_err(word).to_string();
                assert!(error.contains(word) && error.contains("deep/memory"), "{error}");
            }
            assert!(memory.forget(|_| true).is_err());
            assert_eq!(fs::read(memory.path()).expect("read"), bytes, "it is left as it is");
        };
        // Every byte counts, and so does the end.
        for place in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x10;
            fs::write(memory.path(), &bytes).expect("written");
            assert!(memory.read().is_err(), "byte {place}");
        }
        refused(&whole[..whole.len() - 9], "damaged");
        refused(b"", "damaged");
        refused(b"\x1b[31m not ours\n", "damaged");
        let later = String::from_utf8(whole).expect("text").replace("\"crawldeck_memory\":1", "\"crawldeck_memory\":2");
        refused(later.as_bytes(), "version 2");
        assert!(memory.remove().expect("removed") && !memory.path().exists());
    }

    #[test]
    fn those_not_measured_for_longest_go_first() {
        let mut remembered: Remembered = (0..HOSTS_MAX as u64 + 3)
            .map(|number| (format!("{number}.example"), learned("", 1_000_000 - number, 1.0).1))
            .collect();
        bound(&mut remembered);
        assert_eq!(remembered.len(), HOSTS_MAX);
        for gone in 0..3 {
            assert!(!remembered.contains_key(&format!("{}.example", HOSTS_MAX + gone)));
        }
    }

    #[test]
    fn hosts_are_forgotten_by_name() {
        let (_folder, memory) = folder();
        assert_eq!(memory.forget(|_| true).expect("no file"), Vec::<String>::new());
        assert!(!memory.path().exists(), "nothing is made for that");
        memory.merge(&["a.test", "b.test", "c.example"].map(|host| learned(host, 1, 1.0))).expect("written");
        assert_eq!(memory.forget(|host| host.ends_with(".test")).expect("written"), ["a.test", "b.test"]);
        assert_eq!(memory.read().expect("whole").len(), 1);
    }

    #[test]
    fn a_link_stays_one_and_what_it_leads_to_is_written_also_before_it_is_there() {
        let (folder, memory) = folder();
        let target = Memory::at(folder.path().join("elsewhere/kept"));
        fs::create_dir(folder.path().join("deep")).expect("a folder");
        std::os::unix::fs::symlink("../elsewhere/kept", memory.path()).expect("a link");
        let is_link = || fs::symlink_metadata(memory.path()).expect("there").is_symlink();
        for host in ["a.test", "b.test"] {
            memory.merge(&[learned(host, 1, 1.0)]).expect("written");
            assert!(is_link() && !target.path().is_symlink());
        }
        assert_eq!(target.read().expect("whole").len(), 2);
        // Who uses it by its own name waits for the same lock.
        let _lock = memory.lock().expect("locked");
        let theirs = File::open(target.beside("lock")).expect("there");
        assert!(flock(&theirs, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(_lock);
        assert!(memory.remove().expect("removed") && is_link() && !target.path().exists());
    }

    #[test]
    fn what_a_killed_process_left_is_written_over_and_forgotten() {
        let (_folder, memory) = folder();
        memory.merge(&[learned("a.test", 1, 1.0)]).expect("written");
        fs::write(memory.beside("new"), "half a li").expect("written");
        memory.merge(&[learned("b.test", 1, 1.0)]).expect("written");
        assert!(memory.read().expect("whole").len() == 2 && !memory.beside("new").exists());
        fs::write(memory.beside("new"), "half a li").expect("written");
        assert!(memory.remove().expect("removed") && !memory.beside("new").exists());
    }
}
