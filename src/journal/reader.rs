//! Reading the journal back: streaming, in order, with bounded memory.
//!
//! A journal may be live, torn by a crash, damaged by a disk, or of another version: a torn last line is
//! left out, a line that makes no sense is counted and named, columns, fields and words that are not known
//! are accepted. All text is sanitised again: the files may come from anywhere.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::disk::Identity;
use super::encode::{COLUMNS, RowText, unguard_formula};
use super::lines::{Line, Lines, split_row};
use super::{EVENTS_FILE, REQUESTS_FILE, rotated_number};
use crate::clock::Wall;
use crate::control::{Mono, Outcome, RequestKind, Value, What, Who};
use crate::text::Clean;

/// Damaged lines that are named; more are only counted.
pub const DAMAGE_NAMED_MAX: usize = 10;

/// A word of the journal: one of ours, or one that another version wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word<T> {
    /// One of ours.
    Known(T),
    /// Another.
    Other(Clean),
}

impl<T: for<'de> Deserialize<'de>> Word<T> {
    /// The word that `text` is.
    pub fn parse(text: &str) -> Self {
        let text_of: StrDeserializer<'_, WordError> = text.into_deserializer();
        T::deserialize(text_of).map_or_else(|_| Self::Other(Clean::new(text)), Self::Known)
    }
}

impl<T: Copy> Word<T> {
    /// The word, if it is one of ours.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }
}

/// A row of `requests.csv` as read.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestRecord {
    /// When it was sent.
    pub time: Wall,
    /// The bucket key.
    pub host: Clean,
    /// The URL.
    pub url: Clean,
    /// What it was for.
    pub kind: Word<RequestKind>,
    /// Which attempt, from 1; 0 = not told.
    pub attempt: u32,
    /// HTTP status, if there was one.
    pub status: Option<u16>,
    /// What it ended in.
    pub outcome: Word<Outcome>,
    /// Bytes of the body as received.
    pub bytes: u64,
    /// Milliseconds from send to the end of the body; like the numbers below NaN if not told.
    pub latency_ms: f64,
    /// Milliseconds from when it was due to when it was sent.
    pub wait_ms: f64,
    /// Tokens per second.
    pub rate: f64,
    /// Tokens.
    pub capacity: f64,
    /// Tokens.
    pub tokens: f64,
}

impl RequestRecord {
    /// The record as it is written.
    pub fn text(&self) -> RowText<'_> {
        RowText {
            time: self.time,
            host: self.host.as_str(),
            url: self.url.as_str(),
            kind: match &self.kind {
                Word::Known(kind) => kind.as_str(),
                Word::Other(word) => word.as_str(),
            },
            attempt: self.attempt,
            status: self.status,
            outcome: match &self.outcome {
                Word::Known(outcome) => outcome.as_str(),
                Word::Other(word) => word.as_str(),
            },
            bytes: self.bytes,
            latency_ms: self.latency_ms,
            wait_ms: self.wait_ms,
            rate: self.rate,
            capacity: self.capacity,
            tokens: self.tokens,
        }
    }
}

/// A line of `events.jsonl` as read.
#[derive(Clone, PartialEq, Debug)]
pub struct EventRecord {
    /// Wall time.
    pub time: Wall,
    /// Its number; 0 = not told.
    pub seq: u64,
    /// Monotonic time of its run, if told.
    pub mono: Option<Mono>,
    /// By whom.
    pub who: Word<Who>,
    /// About which host; `None` = the whole crawl.
    pub host: Option<Clean>,
    /// What.
    pub what: Word<What>,
    /// Before.
    pub before: Value,
    /// After.
    pub after: Value,
    /// Why.
    pub why: Clean,
    /// The URL, if it is about one.
    pub url: Option<Clean>,
    /// Version of the format, in the first event of a run.
    pub version: Option<u32>,
}

/// What could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Lines that make no sense.
    pub lines: u64,
    /// The first of them, `file:line: reason`.
    pub named: Vec<Clean>,
    /// Files that end in the middle of a line: live, or torn by a crash.
    pub torn: u64,
}

impl Damage {
    /// Adds what another reader found.
    pub fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.torn += other.torn;
        let room = DAMAGE_NAMED_MAX.saturating_sub(self.named.len());
        self.named.extend(other.named.iter().take(room).cloned());
    }

    pub(super) fn line(&mut self, file: &str, number: u64, reason: &str) {
        self.lines += 1;
        if self.named.len() < DAMAGE_NAMED_MAX {
            self.named.push(Clean::new(format!("{file}:{number}: {reason}")));
        }
    }
}

/// A file of the journal that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {source}", path.display())]
pub struct ReadError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// One open file, line by line.
struct Source {
    path: PathBuf,
    name: String,
    lines: Lines<BufReader<File>>,
}

impl Source {
    /// `None` if there is no such file.
    fn open(path: PathBuf) -> Result<Option<(Self, Identity)>, ReadError> {
        let opened = File::open(&path).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, (metadata.dev(), metadata.ino())))
        });
        match opened {
            Ok((file, identity)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let lines = Lines::new(BufReader::with_capacity(1 << 16, file));
                Ok(Some((Self { path, name, lines }, identity)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError { path, source }),
        }
    }

    /// The next whole line as text; the others are noted as damage.
    fn next<T>(
        &mut self,
        damage: &mut Damage,
        mut parse: impl FnMut(&str, u64) -> Result<Option<T>, &'static str>,
    ) -> Result<Option<T>, ReadError> {
        loop {
            let line = match self.lines.advance() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(source) => return Err(ReadError { path: self.path.clone(), source }),
            };
            let parsed = match line {
                Line::Whole(text) => Some(std::str::from_utf8(text).map_err(|_| "not UTF-8").map(str::to_owned)),
                Line::TooLong => Some(Err("line too long")),
                Line::Torn => {
                    damage.torn += 1;
                    None
                }
            };
            let number = self.lines.number();
            match parsed.map(|text| text.and_then(|text| parse(&text, number))) {
                Some(Ok(Some(record))) => return Ok(Some(record)),
                Some(Ok(None)) | None => {}
                Some(Err(reason)) => damage.line(&self.name, number, reason),
            }
        }
    }
}

/// Reads all requests of a run: rotated files in their order, then `requests.csv`.
pub struct RequestReader {
    /// Still to be opened, last first.
    rotated: Vec<PathBuf>,
    current: Option<Source>,
    reading: Option<Source>,
    columns: Columns,
    damage: Damage,
}

impl RequestReader {
    /// The requests in `dir`; none if there are no files. A live journal is read as far as it is now.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        // The current file is opened before the others are listed: if it is rotated meanwhile it is found in
        // the list under its new name, and left out there.
        let current = Source::open(dir.join(REQUESTS_FILE))?;
        let identity = current.as_ref().map(|(_, identity)| *identity);
        let rotated = rotated_files(dir, identity).map_err(|source| ReadError { path: dir.to_path_buf(), source })?;
        let current = current.map(|(source, _)| source);
        Ok(Self { rotated, current, reading: None, columns: Columns::default(), damage: Damage::default() })
    }

    /// What could not be read so far.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    fn read(&mut self) -> Result<Option<RequestRecord>, ReadError> {
        loop {
            let Some(source) = &mut self.reading else {
                self.columns = Columns::default();
                self.reading = match self.rotated.pop() {
                    Some(path) => Source::open(path)?.map(|(source, _)| source),
                    None => match self.current.take() {
                        Some(current) => Some(current),
                        None => return Ok(None),
                    },
                };
                continue;
            };
            let columns = &mut self.columns;
            match source.next(&mut self.damage, |line, number| columns.take(line, number))? {
                Some(record) => return Ok(Some(record)),
                None => self.reading = None,
            }
        }
    }
}

impl Iterator for RequestReader {
    type Item = Result<RequestRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Rotated files of `dir` but for the one that is `current`, the newest first.
pub(super) fn rotated_files(dir: &Path, current: Option<Identity>) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(rotated_number) else { continue };
        let metadata = entry.metadata()?;
        if current != Some((metadata.dev(), metadata.ino())) {
            files.push((number, entry.path()));
        }
    }
    files.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Where each of [`COLUMNS`] stands in the file at hand; `None` = the file does not have it.
pub(super) struct Columns {
    places: [Option<usize>; COLUMNS.len()],
    count: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { places: std::array::from_fn(Some), count: COLUMNS.len() }
    }
}

impl Columns {
    /// The columns stand as this version writes them.
    pub(super) fn are_ours(&self) -> bool {
        self.count == COLUMNS.len() && self.places.iter().enumerate().all(|(at, place)| *place == Some(at))
    }

    /// Takes a line: a header says where the columns are, a row becomes a record.
    pub(super) fn take(&mut self, line: &str, number: u64) -> Result<Option<RequestRecord>, &'static str> {
        let fields = split_row(line).ok_or("broken quoting")?;
        if fields.first().is_some_and(|first| first == COLUMNS[0]) {
            self.places = COLUMNS.map(|name| fields.iter().position(|field| field == name));
            self.count = fields.len();
            return Ok(None);
        }
        if line.is_empty() && number > 1 {
            return Err("empty line");
        }
        if fields.len() != self.count {
            return Err("wrong number of fields");
        }
        self.record(&fields).map(Some)
    }

    fn record(&self, fields: &[String]) -> Result<RequestRecord, &'static str> {
        let field = |column: usize| self.places[column].and_then(|place| fields.get(place)).map_or("", String::as_str);
        let text = |column| Clean::new(unguard_formula(field(column)));
        let float = |column| match field(column) {
            "" => Ok(f64::NAN),
            number => number.parse().map_err(|_| "not a number"),
        };
        Ok(RequestRecord {
            time: Wall::parse(field(0)).ok_or("not a time")?,
            host: text(1),
            url: text(2),
            kind: Word::parse(unguard_formula(field(3))),
            attempt: whole(field(4))?.unwrap_or_default(),
            status: whole(field(5))?,
            outcome: Word::parse(unguard_formula(field(6))),
            bytes: whole(field(7))?.unwrap_or_default(),
            latency_ms: float(8)?,
            wait_ms: float(9)?,
            rate: float(10)?,
            capacity: float(11)?,
            tokens: float(12)?,
        })
    }
}

/// A whole number, or nothing.
fn whole<T: std::str::FromStr>(field: &str) -> Result<Option<T>, &'static str> {
    match field {
        "" => Ok(None),
        number => number.parse().map(Some).map_err(|_| "not a whole number"),
    }
}

/// Reads all decisions of a run.
pub struct EventReader {
    source: Option<Source>,
    damage: Damage,
}

impl EventReader {
    /// The events in `dir`; none if there is no file.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        let source = Source::open(dir.join(EVENTS_FILE))?.map(|(source, _)| source);
        Ok(Self { source, damage: Damage::default() })
    }

    /// What could not be read so far.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    fn read(&mut self) -> Result<Option<EventRecord>, ReadError> {
        match &mut self.source {
            Some(source) => source.next(&mut self.damage, |line, _| event(line).map(Some)),
            None => Ok(None),
        }
    }
}

impl Iterator for EventReader {
    type Item = Result<EventRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// An event as it stands in the file. Only time and what are needed.
#[derive(Deserialize)]
struct RawEvent {
    time: String,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    who: String,
    #[serde(default)]
    host: Option<String>,
    what: String,
    #[serde(default)]
    before: serde_json::Value,
    #[serde(default)]
    after: serde_json::Value,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    mono_ms: Option<f64>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    version: Option<u32>,
}

pub(super) fn event(line: &str) -> Result<EventRecord, &'static str> {
    let raw: RawEvent = serde_json::from_str(line).map_err(|_| "not an event")?;
    Ok(EventRecord {
        time: Wall::parse(&raw.time).ok_or("not a time")?,
        seq: raw.seq,
        mono: raw.mono_ms.map(|millis| Mono::from_secs_f64(millis / 1_000.0)),
        who: Word::parse(&raw.who),
        host: raw.host.filter(|host| !host.is_empty()).map(Clean::new),
        what: Word::parse(&raw.what),
        before: value(raw.before),
        after: value(raw.after),
        why: Clean::new(raw.why.unwrap_or_default()),
        url: raw.url.map(Clean::new),
        version: raw.version,
    })
}

/// A value of ours; one of another shape becomes its text.
fn value(json: serde_json::Value) -> Value {
    let known = match &json {
        // Any object would pass for settings of which none is set.
        serde_json::Value::Object(map) => {
            map.keys().all(|key| matches!(key.as_str(), "override" | "pause")) || map.contains_key("urls_done")
        }
        _ => true,
    };
    match Value::deserialize(&json) {
        Ok(Value::Text(text)) => Value::Text(Clean::new(text).into()),
        Ok(value) if known => value,
        _ => Value::Text(Clean::new(json.to_string()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_other_versions_are_accepted() {
        let mut columns = Columns::default();
        let header = columns.take("time,colour,status,host,outcome", 1).expect("a header");
        assert_eq!(header, None);
        let row = columns.take("2026-11-30T23:08:08Z,green,299,h,melted", 2).expect("a row").expect("a record");
        assert_eq!((row.status, row.host.as_str()), (Some(299), "h"));
        assert_eq!(row.outcome, Word::Other("melted".into()));
        assert_eq!(row.attempt, 0);
        assert!(row.rate.is_nan());
    }

    #[test]
    fn fields_and_words_of_other_versions_are_accepted() {
        let text = r#"{"time":"2026-11-30T23:08:08Z","what":"dance","after":{"speed":3},"who":"ghost","new":[1]}"#;
        let event = event(text).expect("an event");
        assert_eq!(event.what, Word::Other("dance".into()));
        assert_eq!(event.after, Value::Text("{\"speed\":3}".into()));
        assert_eq!(event.before, Value::None);
    }

    #[test]
    fn values_come_back_as_they_were() {
        let counts = Value::Counts { urls_done: 1, urls_failed: 2, urls_pending: 3, urls_skipped: 4 };
        for known in [counts, Value::Number(1.5), Value::None, Value::Settings(Default::default())] {
            let json = serde_json::to_value(&known).expect("plain data");
            assert_eq!(value(json), known);
        }
    }

    #[test]
    fn case_117_foreign_files_cannot_reach_the_terminal() {
        let text =
            "{\"time\":\"2026-11-30T23:08:08Z\",\"what\":\"x\\u001b[2J\",\"after\":\"\\u009b1m\",\"why\":\"\\u0007\"}";
        let event = event(text).expect("an event");
        assert_eq!(event.what, Word::Other("x\\x1b[2J".into()));
        assert_eq!(event.after, Value::Text("\\x9b1m".into()));
        assert_eq!(event.why.as_str(), "\\x07");
    }
}
