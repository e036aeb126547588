//! Character references in values of attributes, as HTML reads them (13.2.5.72 to 80).
//!
//! `&amp;`, `&#38;`, `&#x26;`, and the old names also without their semicolon, unless a letter, a digit or an
//! equals sign follows: `?a=1&copy=2` is a query, not a sign. The names come from the crate `entities`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Names without `&`, with `;` if they have one.
static NAMES: LazyLock<HashMap<&'static [u8], &'static str>> = LazyLock::new(|| {
    let named = entities::ENTITIES
        .iter()
        .filter_map(|entity| Some((entity.entity.strip_prefix('&')?.as_bytes(), entity.characters)));
    named.collect()
});
/// The longest name, `CounterClockwiseContourIntegral;`.
const LONGEST: usize = 32;

/// The text that a value means; broken UTF-8 becomes replacement characters.
pub fn decode(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'&', rest) {
        text.push_str(&String::from_utf8_lossy(&rest[..at]));
        rest = &rest[at + 1..];
        let used = match rest.first() {
            Some(b'#') => numeric(&rest[1..], &mut text).map(|used| used + 1),
            Some(first) if first.is_ascii_alphanumeric() => named(rest, &mut text),
            _ => None,
        };
        match used {
            Some(used) => rest = &rest[used..],
            None => text.push('&'),
        }
    }
    text.push_str(&String::from_utf8_lossy(rest));
    text
}

/// What follows `&#`: how many bytes it took.
fn numeric(rest: &[u8], text: &mut String) -> Option<usize> {
    let (radix, begin) = if matches!(rest.first(), Some(b'x' | b'X')) { (16, 1) } else { (10, 0) };
    let digits = rest[begin..].iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
    if digits == 0 {
        return None;
    }
    let number = rest[begin..begin + digits].iter().fold(0_u32, |number, byte| {
        let digit = char::from(*byte).to_digit(radix).unwrap_or_default();
        number.saturating_mul(radix).saturating_add(digit)
    });
    text.push(character(number));
    let end = begin + digits;
    Some(end + usize::from(rest.get(end) == Some(&b';')))
}

/// The character of a number; numbers 128 to 159 mean what they mean in windows-1252.
fn character(number: u32) -> char {
    if let Ok(byte @ 0x80..=0x9f) = u8::try_from(number) {
        let bytes = [byte];
        let (decoded, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&bytes);
        return decoded.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    char::from_u32(number).filter(|c| *c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// What follows `&`: the longest name there is.
fn named(rest: &[u8], text: &mut String) -> Option<usize> {
    let letters = rest.iter().take(LONGEST).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let whole = letters + usize::from(rest.get(letters) == Some(&b';'));
    for length in (2..=whole).rev() {
        let Some(characters) = rest.get(..length).and_then(|name| NAMES.get(name)) else { continue };
        let closed = rest[length - 1] == b';';
        let next = rest.get(length);
        if !closed && next.is_some_and(|next| *next == b'=' || next.is_ascii_alphanumeric()) {
            return None;
        }
        text.push_str(characters);
        return Some(length);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_mean_what_they_mean_in_attributes() {
        for (value, expected) in [
            ("?a=1&amp;b=2", "?a=1&b=2"),
            ("?a=1&b=2", "?a=1&b=2"),
            ("?a=1&copy=2", "?a=1&copy=2"),
            ("?a=1&copyright", "?a=1&copyright"),
            ("?a=1&copy", "?a=1©"),
            ("?a=1&copy;=2", "?a=1©=2"),
            ("&notit;", "&notit;"),
            ("&not.", "¬."),
            ("&notin;", "∉"),
            ("&#65;&#x42;&#X43", "ABC"),
            ("&#65x", "Ax"),
            ("&#;&#x;&#xg;&", "&#;&#x;&#xg;&"),
            ("&#0;&#xD800;&#99999999999;", "\u{fffd}\u{fffd}\u{fffd}"),
            ("&#128;", "€"),
            ("&amp;amp;", "&amp;"),
            ("&CounterClockwiseContourIntegral;", "∳"),
            ("&AMP&amp", "&&"),
        ] {
            assert_eq!(decode(value.as_bytes()), expected, "{value}");
        }
        assert_eq!(decode(b"caf\xe9&amp;"), "caf\u{fffd}&");
    }
}
