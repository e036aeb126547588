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
    let mut commas = [0_usize; COLUMNS.len()];
    let mut count = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b',' => {
                *commas.get_mut(count)? = at;
                count += 1;
            }
            b'"' => return None,
            _ => {}
        }
    }
    if count != COLUMNS.len() - 1 {
        return None;
    }
    commas[count] = bytes.len();
    let field = |column: usize| {
        let from = if column == 0 { 0 } else { commas[column - 1] + 1 };
        line.get(from..commas[column])
    };
    let figures = [field(7)?, field(9)?, field(11)?, field(12)?];
    // Only their shape matters here.
    if !whole(figures[0]) || !figures[1..].iter().all(|text| decimal(text)) || !whole(field(4)?) {
        return None;
    }
    let status = match field(5)? {
        "" => None,
        text => Some(text.parse().ok()?),
    };
    let latency = field(8)?;
    let rate = field(10)?;
    if !decimal(latency) || !decimal(rate) {
        return None;
    }
    Some(Brief {
        time: time(field(0)?.as_bytes(), day)?,
        host: field(1)?,
        status,
        outcome: Outcome::parse(field(6)?),
        latency_ms: latency.parse().ok()?,
        rate: rate.parse().ok()?,
    })
}

/// A short whole number.
fn whole(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number with decimals, as we write them.
fn decimal(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    match text.split_once('.') {
        Some((before, after)) => {
            let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits(before) && digits(after)
        }
        None => false,
    }
}

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
}
