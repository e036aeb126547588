//! Diagnostics: `tracing` into `crawldeck.log` in the run folder, never onto the terminal.
//!
//! A thread of `tracing-appender` writes; the rolling is ours, by size: the crate's own names the current
//! file by date and reports its troubles on stderr, which belongs to the screen.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::Subscriber;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::clock::Clock;
use crate::text::Clean;

/// Name of the current file; older ones are `crawldeck.log.1` (the youngest) and so on.
pub const LOG_FILE: &str = "crawldeck.log";
/// The current file is rolled when it has reached so many bytes.
pub const LOG_MAX_BYTES: u64 = 16 << 20;
/// Older files kept; the oldest beyond them is replaced.
pub const LOG_FILES_KEPT: u32 = 13;
/// Environment variable with the filter, `info` by default.
pub const LOG_VARIABLE: &str = "CRAWLDECK_LOG";

/// Lines that may wait for the disk; beyond them whoever logs waits, nothing is dropped.
const LINES_MAX: usize = 65_536;

/// Keeps the log going. Dropping it writes what is left.
#[must_use = "dropping the guard ends the log"]
#[derive(Debug)]
pub struct LogGuard {
    _worker: WorkerGuard,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The file cannot be opened.
    #[error("{} cannot be opened: {source}; choose another folder with -d", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The filter cannot be read.
    #[error("{LOG_VARIABLE}: {0}; write a level like `info`, or `crawldeck=debug`")]
    Filter(Clean),
    /// The process has a log already.
    #[error("the log is already running")]
    Already,
}

/// Starts the log of this process in `dir`. `filter` is the value of [`LOG_VARIABLE`], if it is set.
pub fn start(dir: &Path, clock: Arc<dyn Clock>, filter: Option<&str>) -> Result<LogGuard, LoggingError> {
    let (subscriber, guard) = build(dir, clock, filter)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Already)?;
    Ok(guard)
}

/// The subscriber of [`start`], not yet installed.
pub fn build(
    dir: &Path,
    clock: Arc<dyn Clock>,
    filter: Option<&str>,
) -> Result<(impl Subscriber + Send + Sync + use<>, LogGuard), LoggingError> {
    let filter = filter.filter(|text| !text.trim().is_empty()).unwrap_or("info");
    let filter =
        EnvFilter::builder().parse(filter).map_err(|error| LoggingError::Filter(Clean::new(error.to_string())))?;
    let path = dir.join(LOG_FILE);
    let file = RolledFile::open(path.clone(), LOG_MAX_BYTES).map_err(|source| LoggingError::Open { path, source })?;
    let (lines, worker) =
        NonBlockingBuilder::default().lossy(false).buffered_lines_limit(LINES_MAX).thread_name("log").finish(file);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_timer(ClockTime(clock))
        .log_internal_errors(false)
        .with_writer(CleanLines(lines))
        .finish();
    Ok((subscriber, LogGuard { _worker: worker }))
}

/// The clock of `clock.rs`, as the formatter wants it.
struct ClockTime(Arc<dyn Clock>);

impl FormatTime for ClockTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&self.0.wall().rfc3339())
    }
}

/// Sanitises each line: whatever a field holds, an event is one line of harmless text.
struct CleanLines(NonBlocking);

impl<'a> MakeWriter<'a> for CleanLines {
    type Writer = CleanLine;

    fn make_writer(&'a self) -> CleanLine {
        CleanLine(self.0.clone())
    }
}

/// One event: the formatter hands it over in one write.
struct CleanLine(NonBlocking);

impl Write for CleanLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let clean = Clean::from_bytes(line.strip_suffix(b"\n").unwrap_or(line));
        let mut text = String::with_capacity(clean.as_str().len() + 1);
        text.push_str(clean.as_str());
        text.push('\n');
        self.0.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `crawldeck.log`, renamed to `.1` and so on when it is full. What cannot be written is dropped: diagnostics are
/// no reason to stop, and the journal tells of a full disk.
struct RolledFile {
    path: PathBuf,
    max: u64,
    file: File,
    size: u64,
}

impl RolledFile {
    fn open(path: PathBuf, max: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, max, file, size })
    }

    fn roll(&mut self) -> io::Result<()> {
        let older = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..LOG_FILES_KEPT).rev() {
            match fs::rename(older(number), older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, older(1))?;
        *self = Self::open(self.path.clone(), self.max)?;
        Ok(())
    }
}

impl Write for RolledFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A file that cannot be rolled goes on growing; that is better than losing lines.
        if self.size >= self.max && self.roll().is_err() {
            self.size = 0;
        }
        let written = self.file.write(line)?;
        self.size = self.size.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, Wall};

    #[test]
    fn case_112_and_117_lines_go_to_the_file_one_each_and_harmless() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (subscriber, guard) = build(dir.path(), ManualClock::new(Wall(0)), None).expect("a log");
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(host = "\u{1b}]0;title\u{7}\u{9b}2J\nforged line\r", "one");
            tracing::debug!("not at info");
            tracing::warn!(message = "two\u{202e}");
        });
        drop(guard);
        let text = fs::read_to_string(dir.path().join(LOG_FILE)).expect("the log");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("1970-01-01T00:00:00.000000Z") && lines[0].contains("one"), "{text}");
        assert!(
            text.chars().all(|c| c == '\n' || (c >= ' ' && !('\u{7f}'..='\u{9f}').contains(&c) && c != '\u{202e}'))
        );
    }

    #[test]
    fn the_file_is_rolled_and_the_oldest_replaced() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut file = RolledFile::open(dir.path().join(LOG_FILE), 1).expect("a log");
        for number in 0..LOG_FILES_KEPT + 5 {
            file.write_all(format!("{number}\n").as_bytes()).expect("writable");
        }
        let read = |name: String| fs::read_to_string(dir.path().join(name)).expect("there");
        assert_eq!(read(LOG_FILE.into()), format!("{}\n", LOG_FILES_KEPT + 4));
        assert_eq!(read(format!("{LOG_FILE}.1")), format!("{}\n", LOG_FILES_KEPT + 3));
        let files = fs::read_dir(dir.path()).expect("readable").count();
        assert_eq!(files, LOG_FILES_KEPT as usize + 1);
    }

    #[test]
    fn a_wrong_filter_is_an_error_that_names_the_variable() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let Err(error) = build(dir.path(), ManualClock::new(Wall(0)), Some("crawldeck=loud")) else {
            panic!("accepted");
        };
        assert!(error.to_string().contains(LOG_VARIABLE), "{error}");
    }
}
