//! Feeds a [`Timeline`] from the files of a journal, piece by piece; goes on where it stopped when they grow.
//!
//! Rotated files come first, in their order. While the run goes on the current file may be renamed: it is then
//! read to its end through the open handle before the next. A torn last line waits for its rest.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Builder;

use super::row::{Day, brief};
use super::{Ended, Timeline};
use crate::journal::disk::Identity;
use crate::journal::encode::unguard_formula;
use crate::journal::lines::LINE_MAX;
use crate::journal::reader::{Columns, ReadError, event, rotated_files};
use crate::journal::{EVENTS_FILE, REQUESTS_FILE, rotated_number};
use crate::text::Clean;

/// How far reading is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Bytes read.
    pub read: u64,
    /// Bytes there are, as far as known.
    pub total: u64,
    /// Everything was read that there is now.
    pub at_end: bool,
}

/// A line, whole or not to be had.
enum Line<'a> {
    Whole(&'a [u8]),
    TooLong,
}

/// A file that may still grow.
struct Growing {
    path: PathBuf,
    name: String,
    identity: Identity,
    input: BufReader<File>,
    line: Vec<u8>,
    /// The line was handed out.
    whole: bool,
    /// The line is too long, its rest is left out.
    skipping: bool,
    number: u64,
    offset: u64,
}

impl Growing {
    /// `None` if there is no such file.
    fn open(path: PathBuf) -> Result<Option<Self>, ReadError> {
        let opened = File::open(&path).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, (metadata.dev(), metadata.ino())))
        });
        match opened {
            Ok((file, identity)) => Ok(Some(Self {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                path,
                identity,
                input: BufReader::with_capacity(1 << 18, file),
                line: Vec::new(),
                whole: false,
                skipping: false,
                number: 0,
                offset: 0,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError { path, source }),
        }
    }

    /// The next whole line; `None` = no more for now.
    fn next(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        loop {
            if std::mem::take(&mut self.whole) {
                self.line.clear();
            }
            let room = LINE_MAX.saturating_sub(self.line.len() as u64).max(1);
            let count = (&mut self.input)
                .take(room)
                .read_until(b'\n', &mut self.line)
                .map_err(|source| ReadError { path: self.path.clone(), source })?;
            self.offset += count as u64;
            if self.line.ends_with(b"\n") {
                self.whole = true;
                self.number += 1;
                if std::mem::take(&mut self.skipping) {
                    return Ok(Some(Line::TooLong));
                }
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                return Ok(Some(Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))));
            }
            if self.line.len() as u64 >= LINE_MAX {
                self.line.clear();
                self.skipping = true;
            } else if count == 0 {
                return Ok(None);
            }
        }
    }

    /// The file was made shorter, as it is when a torn line is cut off: what was read of that is forgotten.
    fn take_back(&mut self) -> io::Result<()> {
        if self.input.get_ref().metadata()?.len() < self.offset {
            let start = self.offset.saturating_sub(if self.whole { 0 } else { self.line.len() as u64 });
            let start = start.min(self.input.get_ref().metadata()?.len());
            self.input.seek(SeekFrom::Start(start))?;
            self.offset = start;
            self.line.clear();
            (self.whole, self.skipping) = (false, false);
        }
        Ok(())
    }

    /// The file ends in the middle of a line.
    fn is_torn(&self) -> bool {
        self.skipping || (!self.whole && !self.line.is_empty())
    }
}

/// Reads on and on. See the module's text.
pub struct Follow {
    dir: PathBuf,
    events: Option<Growing>,
    reading: Option<Growing>,
    /// Rotated files still to be read, the oldest last.
    rotated: Vec<PathBuf>,
    /// The file that is written to, opened before the others were listed.
    current: Option<Growing>,
    /// The highest number of a rotated file seen.
    seen: u32,
    columns: Columns,
    day: Day,
    /// Hosts as they stand in the file.
    numbers: HashMap<Box<str>, usize, Xxh3Builder>,
    read: u64,
    total: u64,
    /// What files told that are closed.
    torn: u64,
}

impl Follow {
    /// The journal in `dir`.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        let mut follow = Self {
            dir: dir.to_path_buf(),
            events: None,
            reading: None,
            rotated: Vec::new(),
            current: None,
            seen: 0,
            columns: Columns::default(),
            day: Day::default(),
            numbers: HashMap::default(),
            read: 0,
            total: 0,
            torn: 0,
        };
        follow.find_files(None)?;
        follow.measure();
        Ok(follow)
    }

    /// How far it is.
    pub fn progress(&self, at_end: bool) -> Progress {
        Progress { read: self.read, total: self.total.max(self.read), at_end }
    }

    /// Reads about `budget` bytes on.
    pub fn step(&mut self, timeline: &mut Timeline, budget: u64) -> Result<Progress, ReadError> {
        let start = self.read;
        // Decisions first: there are fewer of them, and they say what the hosts' originals are.
        let mut events_end = false;
        let mut requests_end = false;
        while self.read - start < budget && !(events_end && requests_end) {
            if !events_end {
                events_end = !self.event(timeline)?;
            } else {
                requests_end = !self.request(timeline)?;
            }
        }
        let at_end = events_end && requests_end;
        if at_end {
            for file in [&mut self.events, &mut self.reading].into_iter().flatten() {
                file.take_back().map_err(|source| ReadError { path: file.path.clone(), source })?;
            }
            self.measure();
        }
        let open = [&self.events, &self.reading].into_iter().flatten().filter(|file| file.is_torn()).count();
        timeline.damage.torn = self.torn + open as u64;
        Ok(self.progress(at_end))
    }

    /// Takes an event; `false` = there is none now.
    fn event(&mut self, timeline: &mut Timeline) -> Result<bool, ReadError> {
        if self.events.is_none() {
            self.events = Growing::open(self.dir.join(EVENTS_FILE))?;
        }
        let Some(file) = &mut self.events else { return Ok(false) };
        let before = file.offset;
        let parsed = match file.next()? {
            None => return Ok(false),
            Some(Line::TooLong) => Err("line too long"),
            Some(Line::Whole(line)) => std::str::from_utf8(line).map_err(|_| "not UTF-8").and_then(event),
        };
        self.read += file.offset - before;
        match parsed {
            Ok(event) => timeline.event(&event),
            Err(reason) => timeline.damage.line(&file.name, file.number, reason),
        }
        Ok(true)
    }

    /// Takes a request; `false` = there is none now.
    fn request(&mut self, timeline: &mut Timeline) -> Result<bool, ReadError> {
        let Some(file) = &mut self.reading else { return self.next_file() };
        let before = file.offset;
        let number = file.number + 1;
        let parsed = match file.next()? {
            None => return self.next_file(),
            Some(Line::TooLong) => Err("line too long"),
            Some(Line::Whole(line)) => match std::str::from_utf8(line) {
                Err(_) => Err("not UTF-8"),
                Ok(line) => match brief(line, &mut self.day).filter(|_| self.columns.are_ours()) {
                    Some(row) => {
                        let host = match self.numbers.get(row.host) {
                            Some(number) => *number,
                            None => {
                                let number = timeline.host_number(&Clean::new(unguard_formula(row.host)));
                                self.numbers.insert(row.host.into(), number);
                                number
                            }
                        };
                        let (time, status, outcome) = (row.time, row.status, row.outcome);
                        let ended = Ended { time, status, outcome, latency_ms: row.latency_ms, rate: row.rate };
                        timeline.request(host, ended);
                        Ok(())
                    }
                    None => self.columns.take(line, number).map(|record| {
                        let Some(record) = record else { return };
                        let host = timeline.host_number(&record.host);
                        let (time, status, outcome) = (record.time, record.status, record.outcome.known());
                        let ended = Ended { time, status, outcome, latency_ms: record.latency_ms, rate: record.rate };
                        timeline.request(host, ended);
                    }),
                },
            },
        };
        self.read += file.offset - before;
        if let Err(reason) = parsed {
            timeline.damage.line(&file.name, number, reason);
        }
        Ok(true)
    }

    /// Goes on to the next file, if the one at hand is over; `false` = nothing more for now.
    fn next_file(&mut self) -> Result<bool, ReadError> {
        if let Some(path) = self.rotated.pop() {
            self.close(Growing::open(path)?);
            return Ok(true);
        }
        if let Some(current) = self.current.take() {
            self.close(Some(current));
            return Ok(true);
        }
        // The file at hand is the newest, unless it was rotated meanwhile.
        let named = fs::metadata(self.dir.join(REQUESTS_FILE)).ok().map(|file| (file.dev(), file.ino()));
        let ours = self.reading.as_ref().map(|file| file.identity);
        if named.is_none() || named == ours {
            return Ok(false);
        }
        if let Some(file) = &mut self.reading {
            // Nothing is written to it any more, but something may have been since the last look.
            let grown = file.input.fill_buf().map(|bytes| !bytes.is_empty());
            if grown.map_err(|source| ReadError { path: file.path.clone(), source })? {
                return Ok(true);
            }
        }
        self.find_files(ours)?;
        Ok(!self.rotated.is_empty() || self.current.is_some())
    }

    /// Takes another file in hand.
    fn close(&mut self, next: Option<Growing>) {
        self.torn += u64::from(self.reading.as_ref().is_some_and(Growing::is_torn));
        self.columns = Columns::default();
        self.reading = next;
    }

    /// Finds the files that were not read yet; `done` was.
    fn find_files(&mut self, done: Option<Identity>) -> Result<(), ReadError> {
        // Opened before the others are listed: if it is rotated meanwhile it is left out there.
        self.current = Growing::open(self.dir.join(REQUESTS_FILE))?;
        let current = self.current.as_ref().map(|file| file.identity);
        let found = rotated_files(&self.dir, current).map_err(|source| ReadError { path: self.dir.clone(), source })?;
        let number = |path: &Path| path.file_name().and_then(|name| rotated_number(name.to_str()?)).unwrap_or(0);
        let is_done =
            |path: &Path| done.is_some() && fs::metadata(path).ok().map(|file| (file.dev(), file.ino())) == done;
        let seen = self.seen;
        self.seen = found.iter().map(|path| number(path)).max().unwrap_or(0).max(seen);
        self.rotated = found.into_iter().filter(|path| number(path) > seen && !is_done(path)).collect();
        Ok(())
    }

    /// Measures how much there is.
    fn measure(&mut self) {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let open = self.reading.iter().map(|file| size(&file.path).saturating_sub(file.offset));
        let waiting = self.rotated.iter().map(|path| size(path));
        let current = self.current.iter().map(|file| size(&file.path));
        let events =
            size(&self.dir.join(EVENTS_FILE)).saturating_sub(self.events.as_ref().map_or(0, |file| file.offset));
        self.total = self.read + open.chain(waiting).chain(current).sum::<u64>() + events;
    }
}
