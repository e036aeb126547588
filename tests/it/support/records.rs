//! Records for the journal, and reading them back.

use std::path::Path;

use crawldeck::clock::Wall;
use crawldeck::control::{Mono, Outcome, RequestKind, Value, What, Who};
use crawldeck::journal::reader::{EventReader, EventRecord, RequestReader, RequestRecord, Word};
use crawldeck::journal::{Event, RequestRow};

/// The `number`-th request; each is different.
pub(crate) fn row(number: u32) -> RequestRow {
    RequestRow {
        time: Wall(1_700_000_000_000_000 + i64::from(number)),
        host: format!("host{}.example", number % 3).into(),
        url: format!("https://host{}.example/page?q=\"a,b\"&n={number}", number % 3).into(),
        kind: RequestKind::Page,
        attempt: 1 + number % 2,
        status: Some(200),
        outcome: Outcome::Ok,
        bytes: u64::from(number) * 10,
        latency_ms: f64::from(number) / 8.0,
        wait_ms: 0.125,
        rate: 2.0,
        capacity: 4.0,
        tokens: -0.5,
    }
}

/// An event of the whole crawl `secs` seconds after the start.
pub(crate) fn event(secs: f64, who: Who, what: What) -> Event {
    Event {
        time: Wall(1_700_000_000_000_000 + (secs * 1e6) as i64),
        mono: Mono::from_secs_f64(secs),
        who,
        host: None,
        what,
        before: Value::None,
        after: Value::None,
        why: "because".into(),
        url: None,
    }
}

/// The same about a host, with a value after.
pub(crate) fn host_event(secs: f64, who: Who, what: What, host: &str, after: Value) -> Event {
    Event { host: Some(host.into()), after, ..event(secs, who, what) }
}

/// Whether a row came back as it was written.
pub(crate) fn same(row: &RequestRow, record: &RequestRecord) -> bool {
    let words = record.kind == Word::Known(row.kind) && record.outcome == Word::Known(row.outcome);
    words
        && (row.time, &row.host, &row.url, row.attempt, row.status, row.bytes)
            == (record.time, &record.host, &record.url, record.attempt, record.status, record.bytes)
        && (row.latency_ms, row.wait_ms, row.rate, row.capacity, row.tokens)
            == (record.latency_ms, record.wait_ms, record.rate, record.capacity, record.tokens)
}

/// All requests in `dir`, and the number of damaged lines.
pub(crate) fn requests(dir: &Path) -> (Vec<RequestRecord>, u64) {
    let mut reader = RequestReader::open(dir).expect("readable");
    let records = (&mut reader).map(|record| record.expect("readable")).collect();
    (records, reader.damage().lines)
}

/// All events in `dir`, and the number of damaged lines.
pub(crate) fn events(dir: &Path) -> (Vec<EventRecord>, u64) {
    let mut reader = EventReader::open(dir).expect("readable");
    let records = (&mut reader).map(|record| record.expect("readable")).collect();
    (records, reader.damage().lines)
}
