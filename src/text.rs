//! The one sanitiser: foreign text (hosts, URLs, header values, error strings) becomes [`Clean`] here
//! before it may reach the terminal, a log or a CSV file.
//!
//! Shown escaped: C0 and C1 controls, DEL, line and paragraph separators, every format character
//! (Unicode `Cf`: bidi controls, zero-width characters, soft hyphen, tags), surrogates of broken UTF-8
//! and private-use characters. `\` itself stays, so clean text is not a reversible encoding.
//! What this does not do: cut to a width. [`redact()`] takes credentials out first where text may hold them,
//! The guard of a CSV against spreadsheet formulas is the journal's (`journal::encode`).

pub mod redact;

use std::any::Any;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use redact::redact;

/// The longest text kept, in characters; the rest is cut and an ellipsis says so.
pub const CLEAN_MAX_CHARS: usize = 4096;

/// Text that is safe to print anywhere. The only type that widgets and sinks take for foreign text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Clean(Arc<str>);

impl Clean {
    /// Sanitises `text`.
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        // Nearly all text is printable ASCII, and that is told byte by byte.
        let plain = || text.bytes().all(|byte| matches!(byte, 0x20..0x7f)) || !text.chars().any(is_unsafe);
        if text.len() <= CLEAN_MAX_CHARS && plain() {
            return Self(text.into());
        }
        let mut clean = String::with_capacity(text.len());
        for (count, c) in text.chars().enumerate() {
            if count == CLEAN_MAX_CHARS {
                clean.push('…');
                break;
            }
            push_char(&mut clean, c);
        }
        Self(clean.into())
    }

    /// Sanitises bytes that ought to be UTF-8; broken sequences become U+FFFD.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::new(String::from_utf8_lossy(bytes))
    }

    /// The safe text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The message of a panic that was caught.
pub fn of_panic(panic: &(dyn Any + Send)) -> Clean {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Clean::new(text.unwrap_or("no message"))
}

/// Appends `c`, escaped where it is unsafe.
fn push_char(out: &mut String, c: char) {
    if is_unsafe(c) {
        // Writing to a String cannot fail.
        let _ = match u32::from(c) {
            code @ ..0x100 => write!(out, "\\x{code:02x}"),
            code => write!(out, "\\u{{{code:x}}}"),
        };
    } else {
        out.push(c);
    }
}

/// Whether `c` could move the cursor, reorder text or hide: see the module's list.
fn is_unsafe(c: char) -> bool {
    matches!(u32::from(c),
        0x00..=0x1f | 0x7f..=0x9f | 0xad
        | 0x034f | 0x0600..=0x0605 | 0x061c | 0x06dd | 0x070f | 0x0890..=0x0891 | 0x08e2
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f
        | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164
        | 0xe000..=0xf8ff | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xfffe..=0xffff
        | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
        | 0xe0000..=0xe0fff | 0xf0000..=0x10ffff)
}

impl fmt::Display for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for Clean {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Clean {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Clean {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Clean> for String {
    fn from(text: Clean) -> Self {
        text.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_text_is_untouched() {
        for text in ["www.example.com", "päth/ü?q=1", "日本語", "e\u{301}"] {
            assert_eq!(Clean::new(text).as_str(), text);
        }
    }

    #[test]
    fn case_118_bidi_and_zero_width_are_shown() {
        assert_eq!(Clean::new("a\u{202e}b\u{200b}c").as_str(), "a\\u{202e}b\\u{200b}c");
    }

    #[test]
    fn case_117_terminal_sequences_are_shown() {
        let rows = [
            ("\u{1b}]52;c;aGk=\u{7}", "\\x1b]52;c;aGk=\\x07"),
            ("\u{1b}]8;;http://h/\u{1b}\\x", "\\x1b]8;;http://h/\\x1b\\x"),
            ("\u{9b}2J", "\\x9b2J"),
            ("a\rb\nc\0\u{7f}", "a\\x0db\\x0ac\\x00\\x7f"),
            ("\u{2028}\u{2029}\u{85}", "\\u{2028}\\u{2029}\\x85"),
        ];
        for (text, expected) in rows {
            assert_eq!(Clean::new(text).as_str(), expected);
        }
        assert_eq!(Clean::from_bytes(b"\xff\x9b\x1b").as_str(), "\u{fffd}\u{fffd}\\x1b");
    }

    /// Everything that Unicode itself calls a control, a format character or invisible.
    fn by_unicode() -> regex::Regex {
        let classes = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]";
        regex::Regex::new(classes).expect("valid")
    }

    #[test]
    fn case_118_nothing_that_unicode_calls_invisible_is_missing() {
        let unsafe_class = by_unicode();
        let missing: Vec<String> = (char::MIN..=char::MAX)
            .filter(|c| !is_unsafe(*c) && unsafe_class.is_match(c.encode_utf8(&mut [0; 4])))
            .map(|c| format!("{:x}", u32::from(c)))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    proptest! {
        #[test]
        fn case_117_and_118_no_text_keeps_a_control_and_all_are_bounded(text in any::<String>(), times in 1_usize..200) {
            let clean = Clean::new(text.repeat(times));
            prop_assert!(!by_unicode().is_match(clean.as_str()), "{}", clean);
            // The longest escape is `\u{10ffff}`.
            prop_assert!(clean.as_str().chars().count() <= 10 * CLEAN_MAX_CHARS + 1);
            // What is clean stays as it is, as long as it is not cut again.
            if clean.as_str().len() <= CLEAN_MAX_CHARS {
                prop_assert_eq!(Clean::new(&clean), clean);
            }
        }

        #[test]
        fn case_117_no_bytes_keep_a_control(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let clean = Clean::from_bytes(&bytes);
            prop_assert!(!by_unicode().is_match(clean.as_str()));
        }
    }

    #[test]
    fn length_is_bounded() {
        let long = Clean::new("x".repeat(CLEAN_MAX_CHARS + 10));
        assert_eq!(long.as_str().chars().count(), CLEAN_MAX_CHARS + 1);
    }
}
