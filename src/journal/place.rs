//! How far the journal was when the store made a transaction, and what it tells beyond that: the rows and the ends of
//! URLs of the last quarter second of a process that was killed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::{Line, Lines};
use super::reader::{Columns, RequestRecord, Word, event};
use super::{EVENTS_FILE, REQUESTS_FILE, rotated_name};
use crate::control::{Code, FailureCode, What};
use crate::text::Clean;

/// The name under which a transaction of the store keeps the journal's place.
pub const BARRIER: &str = "journal";

/// Why a URL was skipped that was held back as a trap until the end; `crawldeck retry --held` puts it back.
pub const HELD_TO_THE_END: &str = "held back as a trap, and not allowed until the end";
/// How a `retry` event names URLs that had failed …
pub const RETRIED_FAILED: &str = "failed URLs put back";
/// … and those that were skipped because they were [`HELD_TO_THE_END`].
pub const RETRIED_HELD: &str = "URLs that were held back as traps put back";

/// A place in the journal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Place {
    /// The number that `requests.csv` gets when it is rotated.
    pub file: u32,
    /// Bytes of `requests.csv`.
    pub requests: u64,
    /// Wire requests in all files.
    pub rows: u64,
    /// Those, and what was handed over by then and not yet written: the transaction tells of these, too.
    #[serde(default)]
    pub handed: u64,
    /// Bytes of `events.jsonl`.
    pub events: u64,
}

/// What follows a place.
#[derive(Debug, Default)]
pub struct Following {
    /// Wire requests in all files, those before the place too.
    pub rows: u64,
    /// Those that the transaction does not tell of, by host and by what they ended in.
    pub hosts: HashMap<Clean, BTreeMap<Code, u32>>,
    /// URLs that failed or were skipped: what, which, why.
    pub ends: HashMap<Clean, (What, Clean)>,
}

impl Place {
    /// As text, for a transaction.
    pub fn to_text(&self) -> String {
        // Plain numbers always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The place that a text names; the beginning if it names none.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// What the journal in `dir` tells beyond this place. Torn lines count for nothing.
    pub fn following(&self, dir: &Path) -> io::Result<Following> {
        let mut following = Following { rows: self.rows, ..Following::default() };
        let rotated = dir.join(rotated_name(self.file));
        // Rotated since: the rest of that file, then the new one without its header.
        let parts = match self.file > 0 && rotated.exists() {
            true => vec![(rotated, self.requests), (dir.join(REQUESTS_FILE), 0)],
            false => vec![(dir.join(REQUESTS_FILE), self.requests)],
        };
        let mut told = self.handed.saturating_sub(self.rows);
        for (path, from) in parts {
            let header = u64::from(from == 0);
            let (mut lines, mut columns) = (0, Columns::default());
            each_line(&path, from, |line| {
                lines += 1;
                let row = std::str::from_utf8(line).ok().and_then(|line| columns.take(line, lines).ok().flatten());
                let Some(row) = row else { return };
                if told > 0 {
                    told -= 1;
                } else if let Some((host, code)) = ended_in(row) {
                    *following.hosts.entry(host).or_default().entry(code).or_default() += 1;
                }
            })?;
            following.rows += u64::saturating_sub(lines, header);
        }
        each_line(&dir.join(EVENTS_FILE), self.events, |line| {
            let Some(event) = std::str::from_utf8(line).ok().and_then(|line| event(line).ok()) else { return };
            if event.what == Word::Known(What::Retry) {
                // What had ended so before is to be tried again.
                let again = event.why.as_str();
                following.ends.retain(|_, (what, why)| match what {
                    What::UrlFailed => !again.contains(RETRIED_FAILED),
                    _ => !again.contains(RETRIED_HELD) || why.as_str() != HELD_TO_THE_END,
                });
            }
            if let (Word::Known(what @ (What::UrlFailed | What::UrlSkipped)), Some(url)) = (event.what, event.url) {
                following.ends.insert(url, (what, event.why));
            }
        })?;
        Ok(following)
    }
}

/// The host of a row, and what it ended in.
fn ended_in(row: RequestRecord) -> Option<(Clean, Code)> {
    let code = match row.status {
        Some(status) => Code::Status(status),
        None => Code::Failure(FailureCode::of(row.outcome.known()?)),
    };
    Some((row.host, code))
}

fn each_line(path: &Path, from: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut lines = Lines::new(BufReader::new(file));
    while let Some(line) = lines.advance()? {
        if let Line::Whole(line) = line {
            each(line);
        }
    }
    Ok(())
}
