//! `Retry-After` as servers really send it, turned into a wait.
//!
//! Valid are digits (seconds), a plain decimal (some big APIs send `2.0`; rounded up) and the three forms
//! of an HTTP-date, measured against the response's own `Date` so that a wrong clock of ours does no harm.
//! Everything else is ignored as if absent, and so is a wait of zero or in the past: our own backoff stands
//! then. What this deliberately does not do: cap the wait (the controller does, and shows it as capped).
//!
//! Decided where the RFC leaves room: the weekday is not checked against the date; `UTC` is read as `GMT`;
//! a numeric zone (`+0200`) is no HTTP-date and is ignored; a second of `:60` is the next minute's first.

use std::time::Duration;

/// What the header lines of one response ask for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    /// The wait, whole seconds, never zero; `None` = absent, ignored, or already over.
    pub wait: Option<Duration>,
    /// What was odd, for the journal; printable ASCII, at most some 200 characters.
    pub anomaly: Option<String>,
}

/// Reads every `Retry-After` line of a response.
///
/// `date` is the response's `Date` line, `now_unix` our wall clock in seconds since the epoch, used only for
/// dates and only if `date` cannot be read. Of several lines the longest wait counts. Never panics.
pub fn parse(values: &[&[u8]], date: Option<&[u8]>, now_unix: i64) -> Parsed {
    let now = date.and_then(|text| parse_date(text.trim_ascii(), now_unix)).unwrap_or(now_unix);
    let mut longest = 0;
    let mut ignored = None;
    for value in values.iter().map(|value| value.trim_ascii()) {
        match seconds(value)
            .or_else(|| parse_date(value, now).map(|at| u64::try_from(at.saturating_sub(now)).unwrap_or(0)))
        {
            Some(wait) => longest = longest.max(wait),
            None => ignored = ignored.or(Some(value)),
        }
    }
    Parsed { wait: (longest > 0).then(|| Duration::from_secs(longest)), anomaly: anomaly(values.len(), ignored) }
}

/// What to tell about lines that are several, or not understood.
fn anomaly(lines: usize, ignored: Option<&[u8]>) -> Option<String> {
    let ignored = ignored.map(|value| {
        let shown = value.get(..40).unwrap_or(value);
        let dots = if shown.len() < value.len() { "..." } else { "" };
        format!("Retry-After \"{}{dots}\" is neither seconds nor a date: ignored", shown.escape_ascii())
    });
    let several = (lines > 1).then(|| format!("{lines} Retry-After lines: the longest wait counts"));
    match (several, ignored) {
        (Some(several), Some(ignored)) => Some(format!("{several}; {ignored}")),
        (several, ignored) => several.or(ignored),
    }
}

/// `1*DIGIT`, or that with a fraction; rounded up, saturating.
fn seconds(value: &[u8]) -> Option<u64> {
    let dot = value.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match dot {
        Some(dot) => (&value[..dot], &value[dot + 1..]),
        None => (value, &b"0"[..]),
    };
    let all_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let rounded_up = u64::from(fraction.iter().any(|&byte| byte != b'0'));
    let digit = |sum: u64, byte: &u8| sum.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    Some(whole.iter().fold(0, digit).saturating_add(rounded_up))
}

/// Seconds since the epoch of an HTTP-date (RFC 9110 5.6.7). `now` places two-digit years: one more than 50
/// years ahead belongs to the century before.
pub fn parse_date(text: &[u8], now: i64) -> Option<i64> {
    if text.len() > 64 {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let weekday = words.next()?;
    let stamp = if let Some(weekday) = weekday.strip_suffix(',') {
        is_weekday(weekday).then_some(())?;
        let first = words.next()?;
        let (day, month, year) = match first.split_once('-') {
            // Sunday, 06-Nov-94 08:49:37 GMT (and, as cookies have it, 06-Nov-1994).
            Some((day, rest)) => {
                let (month, year) = rest.split_once('-')?;
                (day, month, year)
            }
            // Sun, 06 Nov 1994 08:49:37 GMT.
            None => (first, words.next()?, words.next()?),
        };
        let clock = words.next()?;
        matches!(words.next()?, "GMT" | "UTC").then_some(())?;
        let year = match year.len() {
            2 => full_year(number(year, 2)?, now),
            _ => number(year, 4)?,
        };
        unix(year, month, day, clock)?
    } else {
        // Sun Nov  6 08:49:37 1994.
        is_weekday(weekday).then_some(())?;
        let (month, day, clock) = (words.next()?, words.next()?, words.next()?);
        unix(number(words.next()?, 4)?, month, day, clock)?
    };
    words.next().is_none().then_some(stamp)
}

/// Whether `word` names a day of the week, short or in full.
fn is_weekday(word: &str) -> bool {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    DAYS.iter().any(|day| day.eq_ignore_ascii_case(word) || day[..3].eq_ignore_ascii_case(word))
}

/// A number of at most `digits` digits, nothing else.
fn number(text: &str, digits: usize) -> Option<i64> {
    let valid = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| text.parse().ok())?
}

/// The year that a two-digit year means.
fn full_year(two_digits: i64, now: i64) -> i64 {
    // Mean length of a Gregorian year; whether "50 years" ends a day sooner or later is of no matter.
    let this_year = 1970 + now.div_euclid(31_556_952);
    let year = this_year - this_year.rem_euclid(100) + two_digits;
    if year > this_year + 50 { year - 100 } else { year }
}

/// Seconds since the epoch of a date and a time of day, both checked.
fn unix(year: i64, month: &str, day: &str, clock: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = i64::try_from(MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?).ok()? + 1;
    let day = number(day, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let mut parts = clock.split(':');
    let mut part = |limit: i64| number(parts.next()?, 2).filter(|&part| part <= limit);
    let (hour, minute, second) = (part(23)?, part(59)?, part(60)?);
    if parts.next().is_some() || !(1..=length).contains(&day) {
        return None;
    }
    // Days since 1970-03-01 shifted to years that begin in March, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = before + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-30 12:00:00 UTC, a Monday.
    const NOW: i64 = 1_796_040_000;
    const DATE: &[u8] = b"Mon, 30 Nov 2026 12:00:00 GMT";

    fn wait(value: &[u8]) -> Option<u64> {
        parse(&[value], Some(DATE), NOW).wait.map(|wait| wait.as_secs())
    }

    #[test]
    fn case_25_row_08_one_table_of_values() {
        let digits = [b'9'; 400];
        let rows: &[(&[u8], Option<u64>)] = &[
            (b"0", None),
            (b"00", None),
            (b"1", Some(1)),
            (b"120", Some(120)),
            (b"0120", Some(120)),
            (b"120 ", Some(120)),
            (b" \t120\t", Some(120)),
            (b"2.0", Some(2)),
            (b"1.5", Some(2)),
            (b"0.001", Some(1)),
            (b"0.0", None),
            (b"1.", None),
            (b".5", None),
            (b"1.5.2", None),
            (b"-1", None),
            (b"-5", None),
            (b"+5", None),
            (b"1e3", None),
            (b"1e309", None),
            (b"0x10", None),
            (b"NaN", None),
            (b"inf", None),
            (b"abc", None),
            (b"", None),
            (b"   ", None),
            (b"120s", None),
            (b"1 2", None),
            (b"1,5", None),
            (b"120, 240", None),
            (b"\xff\x00\x1b[2J", None),
            ("１２０".as_bytes(), None),
            (b"9999999999", Some(9_999_999_999)),
            (b"1000000000000", Some(1_000_000_000_000)),
            (&digits, Some(u64::MAX)),
            (b"Mon, 30 Nov 2026 12:02:00 GMT", Some(120)),
            (b" Mon, 30 Nov 2026 12:02:00 GMT ", Some(120)),
            (b"Mon, 30 Nov 2026 12:00:00 GMT", None),
            (b"Mon, 30 Nov 2026 11:59:59 GMT", None),
            (b"Sun, 06 Nov 1994 08:49:37 GMT", None),
            (b"Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799 - 1_796_040_000)),
            (b"Monday, 30-Nov-26 12:02:00 GMT", Some(120)),
            (b"Monday, 30-Nov-2026 12:02:00 GMT", Some(120)),
            (b"Sunday, 06-Nov-94 08:49:37 GMT", None),
            (b"Mon Nov 30 12:02:00 2026", Some(120)),
            (b"Tue Dec  1 12:00:00 2026", Some(86_400)),
            (b"Fri, 30 Nov 2026 12:02:00 GMT", Some(120)),
            (b"mon, 30 nov 2026 12:02:00 GMT", Some(120)),
            (b"Mon, 30 Nov 2026 12:02:00 UTC", Some(120)),
            (b"Mon, 30 Nov 2026 14:02:00 +0200", None),
            (b"Mon, 30 Nov 2026 12:02:00", None),
            (b"Mon, 30 Nov 2026 12:02:60 GMT", Some(180)),
            (b"Mon, 30 Nov 2026 12:02:61 GMT", None),
            (b"Mon, 30 Nov 2026 24:00:00 GMT", None),
            (b"Mon, 31 Nov 2026 12:02:00 GMT", None),
            (b"Mon, 29 Feb 2027 12:02:00 GMT", None),
            (b"Foo, 30 Nov 2026 12:02:00 GMT", None),
            (b"Mon, 30 Nov 2026 12:02:00 GMT x", None),
            (b"2026-11-30T12:02:00Z", None),
        ];
        for (value, expected) in rows {
            assert_eq!(wait(value), *expected, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn case_23_a_negative_value_is_ignored_and_told() {
        let parsed = parse(&[b"-5"], Some(DATE), NOW);
        assert_eq!(parsed.wait, None);
        assert_eq!(parsed.anomaly.as_deref(), Some("Retry-After \"-5\" is neither seconds nor a date: ignored"));
    }

    #[test]
    fn case_24_a_huge_value_saturates() {
        assert_eq!(wait(&[b'9'; 40]), Some(u64::MAX));
        assert_eq!(wait(b"18446744073709551615.5"), Some(u64::MAX));
    }

    #[test]
    fn case_26_the_wait_is_not_capped_here() {
        assert_eq!(wait(b"86400"), Some(86_400));
    }

    #[test]
    fn case_30_zero_is_as_good_as_absent() {
        assert_eq!(parse(&[b"0"], None, NOW), Parsed::default());
        assert_eq!(parse(&[], None, NOW), Parsed::default());
    }

    #[test]
    fn of_several_lines_the_longest_counts() {
        let parsed = parse(&[b"60", b"120", b"Mon, 30 Nov 2026 12:01:30 GMT"], Some(DATE), NOW);
        assert_eq!(parsed.wait, Some(Duration::from_secs(120)));
        assert_eq!(parsed.anomaly.as_deref(), Some("3 Retry-After lines: the longest wait counts"));

        let parsed = parse(&[b"soon", b"7"], Some(DATE), NOW);
        assert_eq!(parsed.wait, Some(Duration::from_secs(7)));
        assert!(parsed.anomaly.is_some_and(|text| text.contains("2 Retry-After") && text.contains("\"soon\"")));
    }

    #[test]
    fn a_date_is_measured_against_the_response_not_our_clock() {
        let value: &[u8] = b"Mon, 30 Nov 2026 12:02:00 GMT";
        for wrong in [-86_400, 0, 86_400] {
            let parsed = parse(&[value], Some(DATE), NOW + wrong);
            assert_eq!(parsed.wait, Some(Duration::from_secs(120)), "our clock is {wrong} s off");
        }
        for unreadable in [None, Some(&b"yesterday"[..])] {
            let parsed = parse(&[value], unreadable, NOW + 20);
            assert_eq!(parsed.wait, Some(Duration::from_secs(100)));
        }
    }

    #[test]
    fn two_digit_years_more_than_fifty_years_ahead_are_past() {
        let year = |text: &str| parse_date(format!("Sunday, 06-Nov-{text} 00:00:00 GMT").as_bytes(), NOW);
        let full = |text: &str| parse_date(format!("Sun, 06 Nov {text} 00:00:00 GMT").as_bytes(), NOW);
        assert_eq!(year("76"), full("2076"));
        assert_eq!(year("77"), full("1977"));
        assert_eq!(year("00"), full("2000"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..4),
            date in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            now in any::<i64>(),
        ) {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let parsed = parse(&values, date.as_deref(), now);
            prop_assert!(parsed.wait.is_none_or(|wait| wait >= Duration::from_secs(1)));
            prop_assert!(parsed.anomaly.is_none_or(|text| text.len() < 400 && text.bytes().all(|b| (32..127).contains(&b))));
        }

        #[test]
        fn nearly_dates_do_not_panic(text in "[A-Za-z]{3,9},? [0-9]{1,3}[ -][A-Z][a-z]{2}[ -][0-9]{1,5} [0-9:]{0,9} ?(GMT|UTC|)", now in any::<i64>()) {
            let _ = parse(&[text.as_bytes()], None, now);
            let _ = parse(&[b"5"], Some(text.as_bytes()), now);
        }

        #[test]
        fn dates_agree_with_another_reader(secs in 0_u64..253_402_300_800) {
            let time = std::time::UNIX_EPOCH + Duration::from_secs(secs);
            let text = httpdate::fmt_http_date(time);
            prop_assert_eq!(parse_date(text.as_bytes(), NOW), i64::try_from(secs).ok());
        }
    }
}
