//! The journal: what is persisted of a run, and how it is read back.
//!
//! * [`run_folder`] — the folder of one crawl, locked by the process that runs on it.
//! * [`file_system`] — where that folder is, and whether locks and syncs can be relied upon there.
//! * [`record`] — the two records: a wire request, a decision.
//! * [`encode`] — records as lines. A record is one line in both files, so a torn one is easy to cut.
//! * [`disk`] — the few file operations behind the writer, so that tests can make each of them fail.
//! * [`log_file`] — one file that is only appended to, and survives whatever happens to it.
//! * [`writer`] — the one writer, on its own thread: never blocks the engine, never drops a record.
//! * [`lines`] and [`reader`] — reading back, streaming; torn tails, damage, older and newer versions.
//! * [`summary`] and [`render`] — what a run came to, as data, JSON and text.
//! * [`place`] — how far it was when a transaction of the store was made, and what it tells beyond that.
//! * [`timeline`] — when it happened: counts over time, decisions and acts, followed while the run goes on.

pub mod disk;
pub mod encode;
pub mod file_system;
pub mod handover;
pub mod lines;
pub mod log_file;
pub mod place;
pub mod reader;
pub mod record;
pub mod render;
pub mod run_folder;
pub mod summary;
pub mod timeline;
pub mod writer;

pub use record::{Event, JournalHealth, RequestRow};
pub use run_folder::RunFolder;
pub use writer::{Journal, JournalBarrier, JournalError, JournalOptions};

/// Version of both files' format. It stands in each `start` and `resume_run` event as `version`, written by
/// the journal itself. Fields and words are only ever added within a version.
pub const FORMAT_VERSION: u32 = 1;

/// Records that may wait for the disk before the engine stops granting. Results of requests that are in
/// flight by then are still taken: the journal's memory is bounded by this plus the concurrency.
pub const BACKLOG_MAX: usize = 65_536;

/// Name of the file of wire requests.
pub const REQUESTS_FILE: &str = "requests.csv";
/// Name of the file of decisions.
pub const EVENTS_FILE: &str = "events.jsonl";

/// Name of the `number`-th rotated file of requests, from 1.
pub fn rotated_name(number: u32) -> String {
    format!("requests-{number:04}.csv")
}

/// The number of a rotated file of requests, if `name` is one's.
pub fn rotated_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("requests-")?.strip_suffix(".csv")?;
    let all_digits = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}
