//! A row of `requests.csv` read fast: only what the timeline counts, without an allocation.
//!
//! It takes rows as this version writes them and declines everything else (quotes, other columns, odd
//! figures), which [`Columns`](super::super::reader) then reads or calls damaged. So both ways agree.

use crate::clock::Wall;
use crate::control::Outcome;
use crate::journal::encode::COLUMNS;

/// What the timeline needs of a request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Brief<'a> {
    /// When it was sent.
    pub(super) time: Wall,
    /// The host as it stands in the file.
    pub(super) host: &'a str,
    /// HTTP status.
    pub(super) status: Option<u16>,
    /// `None` = a word of another version.
    pub(super) outcome: Option<Outcome>,
    /// Milliseconds.
    pub(super) latency_ms: f64,
    /// Tokens per second.
    pub(super) rate: f64,
}

/// The day of the last row, so that a date is parsed once a day.
#[derive(Debug, Default)]
pub(super) struct Day {
    text: [u8; 10],
    start: i64,
}

/// Reads a row; `None` = it must be read the slow way.
pub(super) fn brief<'a>(line: &'a str, day: &mut Day) -> Option<Brief<'a>> {
    let bytes = line.as_bytes();
    // The URL is the longest field, so the others are found from both ends.
    let mut commas = [0_usize; COLUMNS.len()];
    commas[0] = bytes.iter().position(|byte| *byte == b',')?;
    commas[1] = commas[0] + 1 + bytes.get(commas[0] + 1..)?.iter().position(|byte| *byte == b',')?;
    let mut end = bytes.len();
    commas[COLUMNS.len() - 1] = end;
    for column in (2..COLUMNS.len() - 1).rev() {
        end = bytes.get(..end)?.iter().rposition(|byte| *byte == b',')?;
        commas[column] = end;
    }
    let url = bytes.get(commas[1] + 1..commas[2])?;
    if url.contains(&b',') || bytes.contains(&b'"') {
        return None;
    }
    let field = |column: usize| {
        let from = if column == 0 { 0 } else { commas[column - 1] + 1 };
        line.get(from..commas[column])
    };
    // Of these only the shape matters here.
    decimal(field(9)?)?;
    decimal(field(11)?)?;
    decimal(field(12)?)?;
    if !whole(field(7)?) || !whole(field(4)?) {
        return None;
    }
    let status = match field(5)? {
        "" => None,
        text => Some(text.parse().ok()?),
    };
    Some(Brief {
        time: time(field(0)?.as_bytes(), day)?,
        host: field(1)?,
        status,
        outcome: Outcome::parse(field(6)?),
        latency_ms: decimal(field(8)?)?,
        rate: decimal(field(10)?)?,
    })
}

/// A short whole number.
fn whole(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number with decimals, as we write them, of at most 15 digits: so many are exact in a double, and so is the power
/// of ten, so that one division gives the nearest double (Clinger 1990, "How to read floating point numbers
/// accurately").
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.len() > 16 {
        return None;
    }
    let (mut digits, mut point) = (0_u64, None);
    for (at, byte) in unsigned.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => digits = digits * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() && at > 0 => point = Some(at),
            _ => return None,
        }
    }
    // A point stands after a digit, so there is something to subtract from.
    let point = point?;
    let after = unsigned.len() - 1 - point;
    let scale = POWERS_OF_TEN.get(after).filter(|_| after > 0)?;
    let number = digits as f64 / scale;
    Some(if unsigned.len() < text.len() { -number } else { number })
}

/// By their exponents.
const POWERS_OF_TEN: [f64; 15] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];

/// `2026-11-30T23:08:08.000000Z`.
fn time(text: &[u8], day: &mut Day) -> Option<Wall> {
    if text.len() != 27 || text[10] != b'T' || text[13] != b':' || text[16] != b':' || text[19] != b'.' {
        return None;
    }
    let number = |from: usize, to: usize| {
        text.get(from..to)?
            .iter()
            .try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let (hour, minute, second, micros) = (number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 26)?);
    if hour > 23 || minute > 59 || second > 59 || text[26] != b'Z' {
        return None;
    }
    if day.text != text[..10] {
        let date = std::str::from_utf8(&text[..10]).ok()?;
        day.start = Wall::parse(&format!("{date}T00:00:00Z"))?.0;
        day.text.copy_from_slice(&text[..10]);
    }
    Some(Wall(day.start + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::RequestKind;
    use crate::journal::encode::{CsvRows, RowText, unguard_formula};
    use crate::journal::reader::Columns;

    fn line(row: RowText<'_>) -> String {
        let mut out = Vec::new();
        let mut rows = CsvRows::new(&mut out);
        rows.row(row).expect("memory");
        rows.flush().expect("memory");
        drop(rows);
        String::from_utf8(out).expect("text").trim_end_matches(['\r', '\n']).to_owned()
    }

    proptest! {
        #[test]
        fn the_fast_way_reads_what_the_slow_way_reads(
            micros in 0_i64..4_000_000_000_000_000,
            host in "[a-z0-9=@.,\"-]{0,12}",
            url in "[ -~]{0,30}",
            status in proptest::option::of(100_u16..999),
            outcome in 0_usize..20,
            figures in any::<(u64, f32, f32)>(),
        ) {
            let row = RowText {
                time: Wall(micros),
                host: &host,
                url: &url,
                kind: RequestKind::Page.as_str(),
                attempt: 1,
                status,
                outcome: Outcome::ALL[outcome].as_str(),
                bytes: figures.0,
                latency_ms: f64::from(figures.1),
                wait_ms: 0.1,
                rate: f64::from(figures.2),
                capacity: 4.0,
                tokens: -1.5,
            };
            let line = line(row);
            let slow = Columns::default().take(&line, 2).expect("a row").expect("a record");
            if let Some(fast) = brief(&line, &mut Day::default()) {
                prop_assert_eq!(fast.time, slow.time);
                prop_assert_eq!(unguard_formula(fast.host), slow.host.as_str());
                prop_assert_eq!((fast.status, fast.outcome), (slow.status, slow.outcome.known()));
                prop_assert_eq!((fast.latency_ms, fast.rate), (slow.latency_ms, slow.rate));
            }
        }
    }

    #[test]
    fn an_ordinary_row_is_read_fast_and_others_are_left() {
        let ours =
            "2026-11-30T23:08:08.000001Z,a.test,http://a.test/,page,1,200,ok,5,1.500,0.100,2.0000,4.0000,-0.5000";
        let brief_of = |line: &str| brief(line, &mut Day::default()).map(|row| (row.time.rfc3339(), row.status));
        assert_eq!(brief_of(ours), Some(("2026-11-30T23:08:08.000001Z".into(), Some(200))));
        for odd in [
            ours.replace("a.test", "\"a.test\""),
            ours.replace(",5,", ",many,"),
            ours.replace("2026-11-30", "2026-13-30"),
            ours.replace("23:08", "24:08"),
            ours.replace(",-0.5000", ""),
            ours.replace("1.500", "NaN"),
        ] {
            assert_eq!(brief_of(&odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn decimals_are_what_the_library_reads(text in "-?[0-9]{0,12}[.]?[0-9]{0,12}") {
            let shaped = text.trim_start_matches('-').split_once('.').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
            match decimal(&text) {
                Some(number) => prop_assert_eq!(Ok(number.to_bits()), text.parse().map(f64::to_bits)),
                // Declined: no decimals, or too many digits for the quick way.
                None => prop_assert!(!shaped || text.trim_start_matches('-').len() > 16),
            }
        }
    }
}
