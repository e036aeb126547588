//! Records as text: a row of `requests.csv`, a line of `events.jsonl`.
//!
//! Every field of foreign origin is [`Clean`](crate::text::Clean), so no record holds a line break: a line is a record in both
//! files. Fields of the CSV are guarded against spreadsheets that would run them as a formula; JSON
//! lines stay exact, because nothing runs them.

use std::borrow::Cow;
use std::io;

use serde::Serialize;

use super::FORMAT_VERSION;
use super::record::{Event, RequestRow};
use crate::clock::Wall;
use crate::control::{Value, What};

/// The columns of `requests.csv`, in order.
pub const COLUMNS: [&str; 13] = [
    "time",
    "host",
    "url",
    "kind",
    "attempt",
    "status",
    "outcome",
    "bytes",
    "latency_ms",
    "wait_ms",
    "rate",
    "capacity",
    "tokens",
];

/// The header row of `requests.csv`.
pub fn header() -> Vec<u8> {
    let mut line = COLUMNS.join(",").into_bytes();
    line.push(b'\n');
    line
}

/// A row with its words as text, so that words of other versions can be written again.
#[derive(Clone, Copy, Debug)]
pub struct RowText<'a> {
    /// When it was sent.
    pub time: Wall,
    /// The bucket key.
    pub host: &'a str,
    /// The URL.
    pub url: &'a str,
    /// What for.
    pub kind: &'a str,
    /// Which attempt.
    pub attempt: u32,
    /// HTTP status.
    pub status: Option<u16>,
    /// What it ended in.
    pub outcome: &'a str,
    /// Bytes as received.
    pub bytes: u64,
    /// Milliseconds.
    pub latency_ms: f64,
    /// Milliseconds.
    pub wait_ms: f64,
    /// Tokens per second.
    pub rate: f64,
    /// Tokens.
    pub capacity: f64,
    /// Tokens.
    pub tokens: f64,
}

impl<'a> From<&'a RequestRow> for RowText<'a> {
    fn from(row: &'a RequestRow) -> Self {
        Self {
            time: row.time,
            host: row.host.as_str(),
            url: row.url.as_str(),
            kind: row.kind.as_str(),
            attempt: row.attempt,
            status: row.status,
            outcome: row.outcome.as_str(),
            bytes: row.bytes,
            latency_ms: row.latency_ms,
            wait_ms: row.wait_ms,
            rate: row.rate,
            capacity: row.capacity,
            tokens: row.tokens,
        }
    }
}

/// Writes rows as CSV: RFC 4180 quoting, formula guard, fixed decimals.
pub struct CsvRows<W: io::Write> {
    csv: csv::Writer<W>,
    /// The last row's second since the epoch, and its text up to the fraction: most rows share it with the next.
    second: (i64, String),
    /// The field that is being written: thirteen texts a row would cost more than the rest of it.
    field: String,
}

impl<W: io::Write> CsvRows<W> {
    /// Rows into `out`, without a header.
    pub fn new(out: W) -> Self {
        let csv = csv::WriterBuilder::new().has_headers(false).buffer_capacity(1 << 16).from_writer(out);
        Self { csv, second: (i64::MIN, String::new()), field: String::new() }
    }

    /// Writes one row.
    pub fn row(&mut self, row: RowText<'_>) -> io::Result<()> {
        let mut digits = itoa::Buffer::new();
        self.time(row.time)?;
        self.word(row.host)?;
        self.word(row.url)?;
        self.word(row.kind)?;
        self.csv.write_field(digits.format(row.attempt))?;
        self.csv.write_field(row.status.map_or("", |status| digits.format(status)))?;
        self.word(row.outcome)?;
        self.csv.write_field(digits.format(row.bytes))?;
        for (value, places) in
            [(row.latency_ms, 3), (row.wait_ms, 3), (row.rate, 4), (row.capacity, 4), (row.tokens, 4)]
        {
            self.field.clear();
            decimals(&mut self.field, value, places);
            self.csv.write_field(&self.field)?;
        }
        Ok(self.csv.write_record(None::<&[u8]>)?)
    }

    fn word(&mut self, text: &str) -> io::Result<()> {
        Ok(self.csv.write_field(&*guard_formula(text))?)
    }

    /// RFC 3339, as [`Wall::rfc3339`] writes it.
    fn time(&mut self, time: Wall) -> io::Result<()> {
        let second = time.0.div_euclid(1_000_000);
        if self.second.0 != second {
            let text = time.rfc3339();
            let whole = text.split('.').next().unwrap_or_default();
            self.second = (second, whole.to_owned());
        }
        self.field.clone_from(&self.second.1);
        fraction(&mut self.field, time.0.rem_euclid(1_000_000).unsigned_abs(), 1_000_000);
        self.field.push('Z');
        Ok(self.csv.write_field(&self.field)?)
    }

    /// Hands everything on to what it writes into.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

/// Characters that make a spreadsheet take a field for a formula: the list of CWE-1236, and the full-width
/// forms that some take as well.
const FORMULA_STARTS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// `text` with a leading `'` where it would begin as a formula. Also where it begins with `'` before one, so
/// that [`unguard_formula`] gives back exactly what was written.
pub fn guard_formula(text: &str) -> Cow<'_, str> {
    if is_formula(text) { format!("'{text}").into() } else { text.into() }
}

/// Whether a spreadsheet would compute `text`: quotes and blanks before a formula do not hide it.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches(['\'', ' ']).starts_with(FORMULA_STARTS)
}

/// The text that [`guard_formula`] was given.
pub fn unguard_formula(text: &str) -> &str {
    match text.strip_prefix('\'') {
        Some(rest) if is_formula(rest) => rest,
        _ => text,
    }
}

/// Appends a number with fixed decimals, never `-0`. A bucket in debt has a level below zero: a plain number, no formula.
fn decimals(out: &mut String, value: f64, places: usize) {
    let scale = 10_u64.pow(places as u32);
    if value.abs() < 1e9 {
        // Thirty times as fast as the exact way, and as exact as three or four decimals can show.
        let scaled = (value * scale as f64).round() as i64;
        if scaled < 0 {
            out.push('-');
        }
        let scaled = scaled.unsigned_abs();
        out.push_str(itoa::Buffer::new().format(scaled / scale));
        return fraction(out, scaled % scale, scale);
    }
    out.push_str(&format!("{value:.places$}"));
}

/// Appends a point and `part` of `scale`, a power of ten, with its leading zeros.
fn fraction(out: &mut String, part: u64, scale: u64) {
    let at = out.len();
    // One more digit in front keeps the zeros; the point takes its place.
    out.push_str(itoa::Buffer::new().format(scale + part));
    out.replace_range(at..=at, ".");
}

/// A line of `events.jsonl`: the order of the fields is the order of the keys.
#[derive(Serialize)]
struct EventLine<'a> {
    time: String,
    seq: u64,
    who: &'static str,
    /// `null` = the whole crawl.
    host: Option<&'a str>,
    what: What,
    before: &'a Value,
    after: &'a Value,
    why: &'a str,
    mono_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
}

/// Appends `event` to `out` as one line with the number `seq`.
pub fn event_line(out: &mut Vec<u8>, event: &Event, seq: u64) -> io::Result<()> {
    let opens_a_run = matches!(event.what, What::Start | What::ResumeRun);
    let line = EventLine {
        time: event.time.rfc3339(),
        seq,
        who: event.who.as_str(),
        host: event.host.as_ref().map(|host| host.as_str()),
        what: event.what,
        before: &event.before,
        after: &event.after,
        why: event.why.as_str(),
        // Whole microseconds: a sum of nanoseconds would print its rounding error.
        mono_ms: (event.mono.as_nanos() / 1_000) as f64 / 1_000.0,
        url: event.url.as_ref().map(|url| url.as_str()),
        version: opens_a_run.then_some(FORMAT_VERSION),
    };
    let start = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, &line) {
        out.truncate(start);
        return Err(error.into());
    }
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Mono, Who};

    #[test]
    fn case_129_no_field_begins_as_a_formula() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'=1", "''-2", "＝1"] {
            let guarded = guard_formula(text);
            assert!(guarded.starts_with('\''), "{guarded}");
            assert_eq!(unguard_formula(&guarded), text);
        }
        for text in ["", "a=b", "'", "'a", "http://x/=1"] {
            assert_eq!(guard_formula(text), text);
            assert_eq!(unguard_formula(text), text);
        }
    }

    #[test]
    fn numbers_have_fixed_decimals_and_no_negative_zero() {
        for (value, places, text) in [
            (1.0 / 3.0, 4, "0.3333"),
            (-0.00001, 4, "0.0000"),
            (-1.5, 4, "-1.5000"),
            (2.0, 3, "2.000"),
            (0.0501, 3, "0.050"),
            (999_999_999.999_9, 4, "999999999.9999"),
            (1e15, 3, "1000000000000000.000"),
            (-1e12, 3, "-1000000000000.000"),
        ] {
            let mut out = String::from("x");
            decimals(&mut out, value, places);
            assert_eq!(out, format!("x{text}"));
        }
    }

    #[test]
    fn an_event_has_its_keys_in_the_order_of_the_contract() {
        let event = Event {
            time: Wall(1_000_001),
            mono: Mono::from_nanos(1_234_567_891),
            who: Who::Controller,
            host: Some("example.com".into()),
            what: What::Rate,
            before: Value::Number(2.0),
            after: Value::Number(1.0),
            why: "429".into(),
            url: None,
        };
        let mut out = Vec::new();
        event_line(&mut out, &event, 7).expect("it is plain data");
        assert_eq!(
            String::from_utf8(out).expect("JSON is UTF-8"),
            "{\"time\":\"1970-01-01T00:00:01.000001Z\",\"seq\":7,\"who\":\"controller\",\"host\":\"example.com\",\
             \"what\":\"rate\",\"before\":2.0,\"after\":1.0,\"why\":\"429\",\"mono_ms\":1234.567}\n"
        );
    }
}
