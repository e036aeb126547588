//! The two records of the journal: a row of `requests.csv` and a line of `events.jsonl`.
//!
//! Names and order of the fields are PRODUCT.md's contract. Fields are only ever added, never given a
//! new meaning; readers accept fields and words they do not know.

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::control::{Mono, Outcome, RequestKind, Value, What, Who};
use crate::text::Clean;

/// One wire request: a row of `requests.csv`.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestRow {
    /// When it was sent, wall time.
    pub time: Wall,
    /// The bucket key.
    pub host: Clean,
    /// The URL, userinfo redacted.
    pub url: Clean,
    /// What it was for.
    pub kind: RequestKind,
    /// Which attempt for this URL, from 1; a throttled one does not count.
    pub attempt: u32,
    /// HTTP status, if there was one.
    pub status: Option<u16>,
    /// What it ended in.
    pub outcome: Outcome,
    /// Bytes of the body as received.
    pub bytes: u64,
    /// From send to the end of the body.
    pub latency_ms: f64,
    /// From when the URL was due to when it was sent.
    pub wait_ms: f64,
    /// Rate of the host's bucket just after the grant.
    pub rate: f64,
    /// Its capacity.
    pub capacity: f64,
    /// Its level.
    pub tokens: f64,
}

/// One decision: a line of `events.jsonl`.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Wall time.
    pub time: Wall,
    /// Monotonic time of the run, beside it: wall clocks jump.
    pub mono: Mono,
    /// By whom.
    pub who: Who,
    /// About which host; `None` = the whole crawl.
    pub host: Option<Clean>,
    /// What.
    pub what: What,
    /// Before.
    pub before: Value,
    /// After.
    pub after: Value,
    /// Why.
    pub why: Clean,
    /// The URL, for `url_failed`, `url_skipped` and anomalies.
    pub url: Option<Clean>,
}

/// How far the journal is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JournalHealth {
    /// Records handed over and not yet on disk.
    pub backlog: usize,
    /// Bytes written so far.
    pub bytes: u64,
    /// Why nothing can be written now; `None` = all is well.
    pub blocked: Option<Clean>,
    /// Why `requests.csv` was not rotated when it was time; the rows go on into it.
    #[serde(default)]
    pub unrotated: Option<Clean>,
}
