//! Figures in words of a fixed width: durations, counts, rates, and names cut to fit.
//!
//! Everything here is pure and total: no figure panics, whatever its value.

use std::time::Duration;

use unicode_truncate::UnicodeTruncateStr;
use unicode_width::UnicodeWidthStr;

/// A whole number with its thousands apart: `1 204 331`, or `1,204,331` in ASCII.
pub fn count(n: u64, separator: char) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

/// A count that fits `width` columns: grouped if possible, else as `12.3k`, `4.5M`, `1.2G`.
pub fn count_in(n: u64, width: usize, separator: char) -> String {
    let full = count(n, separator);
    if full.len() <= width {
        return full;
    }
    let short = [(1e3, 'k'), (1e6, 'M'), (1e9, 'G'), (1e12, 'T'), (1e15, 'P'), (1e18, 'E')]
        .into_iter()
        .map(|(unit, letter)| (n as f64 / unit, letter))
        .find(|(value, _)| *value < 999.5)
        .map_or_else(|| String::from("many"), |(value, letter)| scaled(value, letter));
    short.chars().take(width).collect()
}

/// Requests per second, at most 6 columns: `0.25`, `12.5`, `1.2k`.
pub fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 0.0 => String::from("?"),
        0.0 => String::from("0.00"),
        v if v < 0.0005 => String::from("<0.001"),
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 99.995 => format!("{v:.2}"),
        v if v < 999.95 => format!("{v:.1}"),
        v if v < 999_500.0 => scaled(v / 1e3, 'k'),
        v if v < 999_500_000.0 => scaled(v / 1e6, 'M'),
        _ => String::from("huge"),
    }
}

/// A value below 1,000 with a unit letter, three digits.
fn scaled(value: f64, letter: char) -> String {
    if value < 99.95 { format!("{value:.1}{letter}") } else { format!("{value:.0}{letter}") }
}

/// What is left of something, at most 6 columns: `01:58`, `2h 05m`, `12d 3h`.
pub fn countdown(left: Duration) -> String {
    // A countdown shows 1 until it is over.
    let seconds = left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0));
    match seconds {
        ..3_600 => format!("{:02}:{:02}", seconds / 60, seconds % 60),
        3_600..36_000 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        36_000..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        86_400..8_640_000 => {
            format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24).replace("d 1", "d1").replace("d 2", "d2")
        }
        _ => String::from(">100 d"),
    }
}

/// How long something has lasted, in one unit: `14m`, `11 h`, `3 d`.
pub fn age(lasted: Duration) -> String {
    let seconds = lasted.as_secs();
    match seconds {
        ..60 => format!("{seconds}s"),
        60..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        172_800..8_640_000 => format!("{} d", seconds / 86_400),
        _ => String::from(">100 d"),
    }
}

/// A duration in two units, for sentences: `6h 20m`, `4m 10s`, `12 s`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        86_400..8_640_000 => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
        _ => String::from("more than 100 days"),
    }
}

/// A wait as a server names it, at most 4 columns up to 99 days: `120s`, `45m`, `9h`.
pub fn asked(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..=600 => format!("{seconds}s"),
        601..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Up time: `31:42:10`.
pub fn uptime(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// A share as whole percent; `–`-free: an empty whole is 0.
pub fn percent(part: u64, whole: u64) -> u64 {
    // Rounded down, so that 100 % means all.
    (u128::from(part) * 100).checked_div(u128::from(whole)).map_or(0, |p| u64::try_from(p).unwrap_or(100)).min(100)
}

/// `part / whole` within 0..=1, never NaN.
pub fn ratio(part: f64, whole: f64) -> f64 {
    let ratio = part / whole;
    if ratio.is_nan() { 0.0 } else { ratio.clamp(0.0, 1.0) }
}

/// `text` in at most `width` columns, its end cut and marked with `ellipsis`.
pub fn end_cut(text: &str, width: usize, ellipsis: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = text.unicode_truncate(width.saturating_sub(1)).0.to_owned();
    if width > 0 {
        out.push(ellipsis);
    }
    out
}

/// `text` in at most `width` columns, its beginning cut and marked with `ellipsis`.
pub fn start_cut(text: &str, width: usize, ellipsis: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let kept = text.unicode_truncate_start(width.saturating_sub(1)).0;
    let mark = (width > 0).then_some(ellipsis);
    mark.into_iter().chain(kept.chars()).collect()
}

/// `text` in at most `width` columns, its middle cut: a host's registrable end stays readable.
pub fn middle_cut(text: &str, width: usize, ellipsis: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    if width < 4 {
        return end_cut(text, width, ellipsis);
    }
    let tail_width = (width - 1) * 2 / 3;
    let (head, _) = text.unicode_truncate(width - 1 - tail_width);
    let (tail, _) = text.unicode_truncate_start(tail_width);
    format!("{head}{ellipsis}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_grouped_and_shortened() {
        assert_eq!(count(1_204_331, ' '), "1 204 331");
        assert_eq!(count(999, ','), "999");
        assert_eq!(count_in(15_210, 6, ' '), "15 210");
        assert_eq!(count_in(1_234_567, 6, ' '), "1.2M");
        assert_eq!(count_in(u64::MAX, 6, ' '), "18.4E");
    }

    #[test]
    fn durations_are_readable() {
        let secs = Duration::from_secs;
        for (left, text) in [(0, "00:00"), (118, "01:58"), (3_599, "59:59"), (7_500, "2h 05m"), (50_000, "13h53m")] {
            assert_eq!(countdown(secs(left)), text);
        }
        assert_eq!(countdown(Duration::from_millis(1)), "00:01");
        assert_eq!(age(secs(845)), "14m");
        assert_eq!(age(secs(11 * 3_600)), "11 h");
        assert_eq!(uptime(secs(114_130)), "31:42:10");
        assert_eq!(asked(secs(120)), "120s");
        assert_eq!(asked(secs(9 * 3_600)), "9h");
    }

    #[test]
    fn rates_have_three_digits() {
        for (value, text) in
            [(0.0, "0.00"), (0.25, "0.25"), (0.08, "0.080"), (4.2, "4.20"), (123.4, "123.4"), (1e6, "1.0M")]
        {
            assert_eq!(rate(value), text);
        }
    }

    #[test]
    fn a_ratio_is_never_outside_its_range() {
        assert!((ratio(0.0, 0.0) - 0.0).abs() < f64::EPSILON);
        assert!((ratio(5.0, 0.0) - 1.0).abs() < f64::EPSILON);
        assert!((ratio(-1.0, 4.0) - 0.0).abs() < f64::EPSILON);
        assert_eq!(percent(5, 0), 0);
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
    }

    #[test]
    fn the_registrable_end_of_a_host_stays() {
        // What is shown as one is cut as one: this candle is two columns wide by what follows it.
        assert!(middle_cut("0123456🕯\u{fe0f}0並", 7, '…').width() <= 7);
        assert_eq!(middle_cut("static.assets.cdn.example.org", 20, '…'), "static.….example.org");
    }

    proptest! {
        #[test]
        fn cut_text_fits(text in "\\PC{0,40}", width in 0_usize..50) {
            prop_assert!(middle_cut(&text, width, '…').width() <= width);
            prop_assert!(end_cut(&text, width, '…').width() <= width);
            prop_assert!(start_cut(&text, width, '…').width() <= width);
        }

        #[test]
        fn figures_fit_their_columns(n: u64, f: f64, secs: u64) {
            prop_assert!(count_in(n, 6, ' ').len() <= 6);
            prop_assert!(rate(f).len() <= 6, "{}", rate(f));
            prop_assert!(rate(f.abs()).len() <= 6, "{}", rate(f.abs()));
            prop_assert!(countdown(Duration::from_secs(secs)).len() <= 6);
            prop_assert!(countdown(Duration::from_secs(secs % 9_000_000)).len() <= 6);
            prop_assert!(age(Duration::from_secs(secs)).len() <= 6);
        }
    }
}
