//! Durations (`"30s"`, `"5m"`, `"1h"`) and sizes (`"16MiB"`) as people write them.

use std::time::Duration;

/// The units of sizes with their bytes.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// The duration that `text` names: numbers with units, such as `30s`, `1h 30m` or `250ms`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    // humantime takes a bare zero; here every duration has a unit.
    if !text.ends_with(|last: char| last.is_ascii_alphabetic() || last == 'µ') {
        return None;
    }
    humantime::parse_duration(text).ok()
}

/// `duration` as [`parse_duration`] reads it.
pub fn format_duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// The bytes that `text` names: a whole number and a unit, such as `16MiB`, `1 KiB` or `500kB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(digits_end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, bytes) = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    digits.parse::<u64>().ok()?.checked_mul(*bytes)
}

/// `bytes` as [`parse_size`] reads it, in the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    let divides = |unit: u64| bytes != 0 && bytes.is_multiple_of(unit);
    let (name, unit) =
        SIZE_UNITS.into_iter().filter(|(_, unit)| divides(*unit)).max_by_key(|(_, unit)| *unit).unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        for (text, want) in [
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("1h 30m", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0s", Some(0)),
            ("0", None),
            ("30", None),
            ("-5s", None),
            ("s", None),
            ("", None),
            ("1e9s", None),
            ("5 parsecs", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(parse_duration(text), want.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, want) in [
            ("16MiB", Some(16 << 20)),
            ("1 KiB", Some(1024)),
            ("1kib", Some(1024)),
            ("500kB", Some(500_000)),
            ("0B", Some(0)),
            ("64", None),
            ("MiB", None),
            ("1.5MiB", None),
            ("-1B", None),
            ("", None),
            ("1  KiB", None),
            ("99999999999TiB", None),
            ("1é", None),
        ] {
            assert_eq!(parse_size(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn sizes_round_trip(bytes in any::<u64>()) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }

        #[test]
        fn durations_round_trip(millis in 0_u64..100_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = parse_size(&text);
            let _ = parse_duration(&text);
        }
    }
}
