//! What the override prompt understands: `0.5`, `30/m`, `x0.5`, `+25%`, `cap 10`, `for 2h`, `until 07:00`.

use std::time::Duration;

use crate::clock::Wall;
use crate::control::command::{CAPACITY_RANGE, RATE_RANGE};
use crate::control::{Amount, HostView, Lifetime, Original, OverrideSpec};
use crate::text::Clean;

/// Why the text is no override.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// Nothing typed yet.
    #[error("type a rate: 0.5  30/m  x0.5  +25%")]
    Empty,
    /// A word that means nothing here.
    #[error("`{0}` is not understood")]
    Word(Clean),
    /// A word that needs another one after it.
    #[error("`{0}` needs a value")]
    Unfinished(&'static str),
    /// The same thing said twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// Outside the range an operator may set.
    #[error("{what} must be from {least} to {most}")]
    Range {
        /// Rate or capacity.
        what: &'static str,
        /// Lower end.
        least: &'static str,
        /// Upper end.
        most: &'static str,
    },
}

/// Reads an override. `wall` is the time now, for `until`.
pub fn parse(text: &str, wall: Wall) -> Result<OverrideSpec, SpecError> {
    let mut words = text.split_whitespace();
    let mut spec = OverrideSpec { rate: None, capacity: None, lifetime: Lifetime::Default };
    while let Some(word) = words.next() {
        match word {
            "cap" | "capacity" => {
                let value = words.next().ok_or(SpecError::Unfinished("cap"))?;
                let amount = amount(value, "").ok_or_else(|| SpecError::Word(Clean::new(value)))?;
                once(&mut spec.capacity, checked(amount, &CAPACITY_RANGE, CAPACITY)?, "the capacity")?;
            }
            "for" => {
                let value = words.next().ok_or(SpecError::Unfinished("for"))?;
                let length = humantime::parse_duration(value).ok().filter(|length| !length.is_zero());
                let length = length.ok_or_else(|| SpecError::Word(Clean::new(value)))?;
                live(&mut spec.lifetime, length)?;
            }
            "until" => {
                let value = words.next().ok_or(SpecError::Unfinished("until"))?;
                let length = until(value, wall).ok_or_else(|| SpecError::Word(Clean::new(value)))?;
                live(&mut spec.lifetime, length)?;
            }
            _ => {
                let (number, unit) = word.split_once('/').unwrap_or((word, ""));
                let amount = amount(number, unit).ok_or_else(|| SpecError::Word(Clean::new(word)))?;
                once(&mut spec.rate, checked(amount, &RATE_RANGE, RATE)?, "the rate")?;
            }
        }
    }
    if spec.rate.is_none() && spec.capacity.is_none() { Err(SpecError::Empty) } else { Ok(spec) }
}

/// What a host would go at under `spec`, within what its site allows; or why not.
pub fn becomes(spec: &OverrideSpec, view: &HostView) -> Result<Original, SpecError> {
    let value = |amount: Option<Amount>, now: f64, range, error| match amount {
        Some(amount) => checked(Amount::Absolute(amount.resolve(now)), range, error).map(|_| amount.resolve(now)),
        None => Ok(now),
    };
    let mut rate = value(spec.rate, view.effective.rate, &RATE_RANGE, RATE)?;
    let mut capacity = value(spec.capacity, view.effective.capacity, &CAPACITY_RANGE, CAPACITY)?;
    if let Some((delay, _)) = view.crawl_delay.filter(|(delay, _)| !delay.is_zero()) {
        (rate, capacity) = (rate.min(1.0 / delay.as_secs_f64()), capacity.min(1.0));
    }
    Ok(Original { rate, capacity })
}

const RATE: SpecError = SpecError::Range { what: "the rate", least: "0.001", most: "1000000 a second" };
const CAPACITY: SpecError = SpecError::Range { what: "the capacity", least: "1", most: "1000000 tokens" };

/// `0.5`, `x0.5`, `+25%`, `-50%`; an absolute number may have a unit of time.
fn amount(number: &str, unit: &str) -> Option<Amount> {
    let plain = |text: &str| {
        let digits = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        text.parse::<f64>().ok().filter(|value| digits && value.is_finite())
    };
    if let Some(factor) = number.strip_prefix(['x', '×', '*']) {
        return plain(factor).filter(|_| unit.is_empty()).map(Amount::Times);
    }
    if let Some(share) = number.strip_suffix('%').filter(|_| unit.is_empty()) {
        let (sign, share) = match share.split_at_checked(1)? {
            ("+", share) => (1.0, share),
            ("-", share) => (-1.0, share),
            _ => return None,
        };
        return plain(share).map(|share| Amount::Times(1.0 + sign * share / 100.0));
    }
    let seconds = match unit {
        "" | "s" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3600.0,
        _ => return None,
    };
    plain(number).map(|value| Amount::Absolute(value / seconds))
}

/// The amount, if it can be right at all.
fn checked(amount: Amount, range: &std::ops::RangeInclusive<f64>, error: SpecError) -> Result<Amount, SpecError> {
    let possible = match amount {
        Amount::Absolute(value) => range.contains(&value),
        Amount::Times(factor) => factor.is_finite() && factor > 0.0,
    };
    if possible { Ok(amount) } else { Err(error) }
}

/// Sets what is not set yet.
fn once(slot: &mut Option<Amount>, amount: Amount, what: &'static str) -> Result<(), SpecError> {
    match slot.replace(amount) {
        None => Ok(()),
        Some(_) => Err(SpecError::Twice(what)),
    }
}

/// Sets the lifetime.
fn live(slot: &mut Lifetime, length: Duration) -> Result<(), SpecError> {
    match std::mem::replace(slot, Lifetime::For(length)) {
        Lifetime::Default => Ok(()),
        Lifetime::For(_) => Err(SpecError::Twice("the lifetime")),
    }
}

/// How long until the next `HH:MM` UTC.
fn until(text: &str, wall: Wall) -> Option<Duration> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (hours.parse::<i64>().ok()?, minutes.parse::<i64>().ok()?);
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    let now = wall.0.div_euclid(1_000_000).rem_euclid(86_400);
    let left = (hours * 3600 + minutes * 60 - now).rem_euclid(86_400);
    u64::try_from(if left == 0 { 86_400 } else { left }).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<OverrideSpec, SpecError> {
        // 03:14:07.
        parse(text, Wall(1_796_008_447_000_000))
    }

    #[test]
    fn rates_are_read() {
        for (text, expected) in [
            ("0.5", Amount::Absolute(0.5)),
            (".5", Amount::Absolute(0.5)),
            ("30/m", Amount::Absolute(0.5)),
            ("30/min", Amount::Absolute(0.5)),
            ("2/s", Amount::Absolute(2.0)),
            ("1800/h", Amount::Absolute(0.5)),
            ("x0.5", Amount::Times(0.5)),
            ("+25%", Amount::Times(1.25)),
            ("-50%", Amount::Times(0.5)),
        ] {
            let spec = read(text).expect(text);
            assert_eq!((spec.rate, spec.capacity, spec.lifetime), (Some(expected), None, Lifetime::Default), "{text}");
        }
    }

    #[test]
    fn capacity_and_lifetime_are_read() {
        let spec = read("0.5 cap 10 for 2h").expect("whole");
        assert_eq!(spec.capacity, Some(Amount::Absolute(10.0)));
        assert_eq!(spec.lifetime, Lifetime::For(Duration::from_secs(7200)));
        let spec = read("capacity x2 until 04:00").expect("whole");
        assert_eq!((spec.rate, spec.capacity), (None, Some(Amount::Times(2.0))));
        let Lifetime::For(left) = spec.lifetime else { panic!("no lifetime") };
        assert!(left <= Duration::from_secs(86_400));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("", "type a rate: 0.5  30/m  x0.5  +25%"),
            ("for 2h", "type a rate: 0.5  30/m  x0.5  +25%"),
            ("fast", "`fast` is not understood"),
            ("0", "the rate must be from 0.001 to 1000000 a second"),
            ("-100%", "the rate must be from 0.001 to 1000000 a second"),
            ("-1", "`-1` is not understood"),
            ("nan", "`nan` is not understood"),
            ("inf", "`inf` is not understood"),
            ("1e400", "`1e400` is not understood"),
            ("5 cap", "`cap` needs a value"),
            ("5 cap 0.5", "the capacity must be from 1 to 1000000 tokens"),
            ("5 6", "the rate is given twice"),
            ("5 for 0s", "`0s` is not understood"),
            ("5 until 25:00", "`25:00` is not understood"),
            ("50%", "`50%` is not understood"),
            ("5/x", "`5/x` is not understood"),
        ] {
            assert_eq!(read(text).expect_err(text).to_string(), words, "{text}");
        }
    }

    #[test]
    fn the_site_s_delay_stays_a_limit() {
        let mut view = crate::tui::sample::view(0);
        view.crawl_delay = Some((Duration::from_secs(10), false));
        let after = becomes(&read("5 cap 20").expect("whole"), &view).expect("in range");
        assert_eq!(after, Original { rate: 0.1, capacity: 1.0 });
        assert!(becomes(&read("x9999999").expect("whole"), &view).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_in_range(text in "[-+x%/0-9.a-z :]{0,24}") {
            if let Ok(OverrideSpec { rate: Some(Amount::Absolute(rate)), .. }) = read(&text) {
                prop_assert!(RATE_RANGE.contains(&rate));
            }
        }
    }
}
