//! Keys: their names, and the decoder that makes them from the terminal's bytes.
//!
//! The bytes are decoded here, not by the terminal library: its `poll` spins for ever once the terminal
//! has hung up, and it holds back a key that arrives together with a change of size. This decoder only
//! ever sees bytes that were read; it waits for nothing. What the mouse says is a key, too;
//! moves, releases and unknown sequences are
//! swallowed whole, so that none of their letters acts as a key.

use std::fmt;

/// Bytes of an unfinished sequence that are kept; a longer one is dropped.
const PENDING_MAX: usize = 64;

/// What was pressed, without modifiers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyCode {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Shift-Tab.
    BackTab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Insert.
    Insert,
    /// Arrow.
    Up,
    /// Arrow.
    Down,
    /// Arrow.
    Left,
    /// Arrow.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key, from 1.
    F(u8),
    /// The mouse's left button went down at this column and row, from 0.
    Click(u16, u16),
    /// The wheel, one notch.
    WheelUp,
    /// The wheel, one notch.
    WheelDown,
}

/// A key press. Shift is part of the character.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// Which key.
    pub code: KeyCode,
    /// With control.
    pub ctrl: bool,
    /// With alt (or after escape).
    pub alt: bool,
}

impl Key {
    /// A key without modifiers.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false }
    }

    /// A character.
    pub const fn char(c: char) -> Self {
        Self::plain(KeyCode::Char(c))
    }

    /// A character with control.
    pub const fn ctrl(c: char) -> Self {
        Self { code: KeyCode::Char(c), ctrl: true, alt: false }
    }

    /// The key that `name` names: `q`, `ctrl-u`, `alt-x`, `space`, `pgdn`, `f1`, `up` …
    pub fn parse(name: &str) -> Option<Self> {
        let mut rest = name;
        let (mut ctrl, mut alt) = (false, false);
        loop {
            if let Some(after) = rest.strip_prefix("ctrl-").filter(|after| !after.is_empty()) {
                (ctrl, rest) = (true, after);
            } else if let Some(after) = rest.strip_prefix("alt-").filter(|after| !after.is_empty()) {
                (alt, rest) = (true, after);
            } else {
                break;
            }
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() && !c.is_whitespace() => KeyCode::Char(c),
            _ => named(rest)?,
        };
        let code = match code {
            // Control is typed with small letters; terminals do not tell the case.
            KeyCode::Char(c) if ctrl => KeyCode::Char(c.to_ascii_lowercase()),
            other => other,
        };
        Some(Self { code, ctrl, alt })
    }
}

/// Names of keys that are no characters, and of the space.
const NAMES: [(&str, KeyCode); 16] = [
    ("space", KeyCode::Char(' ')),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("del", KeyCode::Delete),
    ("ins", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
];

/// The code behind a name of more than one letter.
fn named(name: &str) -> Option<KeyCode> {
    let lower = name.to_ascii_lowercase();
    if let Some((_, code)) = NAMES.iter().find(|(known, _)| *known == lower) {
        return Some(*code);
    }
    let number = lower.strip_prefix('f')?.parse().ok()?;
    (1..=12).contains(&number).then_some(KeyCode::F(number))
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = String::new();
        if self.ctrl {
            name.push_str("ctrl-");
        }
        if self.alt {
            name.push_str("alt-");
        }
        match self.code {
            KeyCode::F(number) => name.push_str(&format!("f{number}")),
            code => match NAMES.iter().find(|(_, known)| *known == code) {
                Some((known, _)) => name.push_str(known),
                None => {
                    if let KeyCode::Char(c) = code {
                        name.push(c);
                    }
                }
            },
        }
        f.pad(&name)
    }
}

/// Makes keys from bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

/// What the front of the pending bytes is.
enum Front {
    /// A key (or nothing of interest) of so many bytes.
    Whole(Option<Key>, usize),
    /// More bytes are needed to tell.
    Unfinished,
}

impl Decoder {
    /// Takes bytes in and gives the keys that are whole.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut done = 0;
        while let Some(rest) = self.pending.get(done..).filter(|rest| !rest.is_empty()) {
            match front(rest) {
                Front::Whole(key, used) => {
                    keys.extend(key);
                    done += used.max(1);
                }
                Front::Unfinished if rest.len() > PENDING_MAX => done = self.pending.len(),
                Front::Unfinished => break,
            }
        }
        self.pending.drain(..done.min(self.pending.len()));
        keys
    }

    /// Nothing came for a while: a lone escape was the escape key; half a sequence is dropped.
    pub fn settle(&mut self) -> Option<Key> {
        let lone = self.pending == [0x1b];
        let bracket = match self.pending.as_slice() {
            [0x1b, c @ (b'[' | b'O')] => Some(Key { code: KeyCode::Char(char::from(*c)), ctrl: false, alt: true }),
            _ => None,
        };
        self.pending.clear();
        if lone { Some(Key::plain(KeyCode::Esc)) } else { bracket }
    }

    /// Whether a sequence is unfinished.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// Reads the first key of `bytes`, which are not empty.
fn front(bytes: &[u8]) -> Front {
    match bytes {
        [0x1b] => Front::Unfinished,
        [0x1b, b'[', rest @ ..] => csi(rest),
        [0x1b, b'O', last, ..] => Front::Whole(ss3(*last), 3),
        [0x1b, b'O'] => Front::Unfinished,
        [0x1b, 0x1b, ..] => Front::Whole(Some(Key::plain(KeyCode::Esc)), 1),
        [0x1b, rest @ ..] => match front(rest) {
            Front::Whole(key, used) => Front::Whole(key.map(|key| Key { alt: true, ..key }), used + 1),
            Front::Unfinished => Front::Unfinished,
        },
        [first, ..] if *first < 0x20 || *first == 0x7f => Front::Whole(control(*first), 1),
        [first, ..] => utf8(bytes, *first),
        [] => Front::Whole(None, 0),
    }
}

/// A control byte as a key.
fn control(byte: u8) -> Option<Key> {
    match byte {
        b'\r' | b'\n' => Some(Key::plain(KeyCode::Enter)),
        b'\t' => Some(Key::plain(KeyCode::Tab)),
        0x7f | 0x08 => Some(Key::plain(KeyCode::Backspace)),
        0x00 => Some(Key::ctrl(' ')),
        1..=26 => Some(Key::ctrl(char::from(b'a' + byte - 1))),
        _ => None,
    }
}

/// A character.
fn utf8(bytes: &[u8], first: u8) -> Front {
    let length = match first {
        ..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Front::Whole(None, 1),
    };
    let Some(whole) = bytes.get(..length) else {
        return Front::Unfinished;
    };
    match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
        Some(c) => Front::Whole(Some(Key::char(c)), length),
        None => Front::Whole(None, 1),
    }
}

/// A control sequence; `bytes` begin after `ESC [`.
fn csi(bytes: &[u8]) -> Front {
    // The Linux console's function keys, and the old mouse report: three bytes follow.
    match bytes {
        [b'[', letter @ b'A'..=b'E', ..] => {
            return Front::Whole(Some(Key::plain(KeyCode::F(letter - b'A' + 1))), 4);
        }
        [b'['] => return Front::Unfinished,
        [b'M', rest @ ..] => return if rest.len() < 3 { Front::Unfinished } else { Front::Whole(None, 6) },
        _ => {}
    }
    let Some(end) = bytes.iter().position(|byte| (0x40..0x7f).contains(byte)) else {
        // A byte that cannot stand in a sequence ends it.
        return match bytes.iter().position(|byte| !(0x20..0x40).contains(byte)) {
            Some(odd) => Front::Whole(None, odd + 2),
            None => Front::Unfinished,
        };
    };
    if let Some(odd) = bytes.iter().take(end).position(|byte| !(0x20..0x40).contains(byte)) {
        return Front::Whole(None, odd + 2);
    }
    let used = end + 3;
    let parameters = bytes.get(..end).unwrap_or_default();
    if let Some(report) = parameters.strip_prefix(b"<") {
        // Only presses do something; releases end with a small letter.
        let pressed = bytes.get(end) == Some(&b'M');
        return Front::Whole(mouse(report).filter(|_| pressed), used);
    }
    let mut numbers = parameters.split(|byte| *byte == b';').map(|field| {
        field
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0_u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    });
    let (first, modifiers) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1).saturating_sub(1));
    let code = match bytes.get(end) {
        Some(b'~') => tilde(first),
        Some(b'u') => char::from_u32(first).filter(|c| !c.is_control()).map(KeyCode::Char),
        Some(b'Z') => Some(KeyCode::BackTab),
        Some(letter @ (b'A'..=b'D' | b'F' | b'H' | b'P'..=b'S')) if first <= 1 => ss3(*letter).map(|key| key.code),
        _ => None,
    };
    Front::Whole(code.map(|code| Key { code, ctrl: modifiers & 4 != 0, alt: modifiers & 2 != 0 }), used)
}

/// What a report of the mouse says: button, column and row from 1, separated by `;`.
fn mouse(report: &[u8]) -> Option<Key> {
    let mut numbers = report.split(|byte| *byte == b';');
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u16>().ok();
    let (button, column, row) = (number()?, number()?, number()?);
    Some(Key::plain(match button {
        0 => KeyCode::Click(column.checked_sub(1)?, row.checked_sub(1)?),
        64 => KeyCode::WheelUp,
        65 => KeyCode::WheelDown,
        _ => return None,
    }))
}

/// The key that a single letter after `ESC O` (or at a sequence's end) means.
fn ss3(letter: u8) -> Option<Key> {
    let code = match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'M' => KeyCode::Enter,
        b'P'..=b'S' => KeyCode::F(letter - b'P' + 1),
        _ => return None,
    };
    Some(Key::plain(code))
}

/// The key that a number before `~` means.
fn tilde(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F((number - 10) as u8),
        17..=21 => KeyCode::F((number - 11) as u8),
        23 | 24 => KeyCode::F((number - 12) as u8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(bytes: &[u8]) -> Vec<String> {
        Decoder::default().push(bytes).iter().map(Key::to_string).collect()
    }

    #[test]
    fn bytes_become_keys() {
        for (bytes, expected) in [
            (&b"j"[..], vec!["j"]),
            (b"\x1b[A\x1b[B\x1bOC", vec!["up", "down", "right"]),
            (b"\x1b[5~\x1b[6~", vec!["pgup", "pgdn"]),
            (b"\x1b[1;5C", vec!["ctrl-right"]),
            (b"\x03\x1a", vec!["ctrl-c", "ctrl-z"]),
            (b"\x1bx", vec!["alt-x"]),
            (b"\x1bOP\x1b[[A\x1b[11~", vec!["f1", "f1", "f1"]),
            ("ü日".as_bytes(), vec!["ü", "日"]),
            (b"\r\n\x7f\t", vec!["enter", "enter", "backspace", "tab"]),
            (b"\x1b\x1b[A", vec!["esc", "up"]),
        ] {
            assert_eq!(names(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn foreign_sequences_press_no_key() {
        for bytes in [
            &b"\x1b[<0;10;20m"[..],
            b"\x1b[<35;10;20M",
            b"\x1b[<0;0;1M",
            b"\x1b[<0;1M",
            b"\x1b[M !!",
            b"\x1b[200~",
            b"\x1b[24;80R",
            b"\x1b[I",
            b"\x1b[?62;c",
        ] {
            assert_eq!(names(bytes), Vec::<String>::new(), "{bytes:?}");
        }
    }

    #[test]
    fn the_mouse_clicks_and_turns_its_wheel() {
        let mut decoder = Decoder::default();
        let keys = decoder.push(b"\x1b[<0;10;20M\x1b[<64;1;1M\x1b[<65;1;1M\x1b[<0;99999;1M");
        assert_eq!(keys, [KeyCode::Click(9, 19), KeyCode::WheelUp, KeyCode::WheelDown].map(Key::plain));
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\x1b"), []);
        assert_eq!(decoder.push(b"["), []);
        assert_eq!(decoder.push(b"A"), [Key::plain(KeyCode::Up)]);
        assert_eq!(decoder.push(b"\x1b"), []);
        assert_eq!(decoder.settle(), Some(Key::plain(KeyCode::Esc)));
        assert_eq!(decoder.settle(), None);
    }

    #[test]
    fn names_round_trip() {
        for name in ["q", "R", "ctrl-u", "alt-x", "space", "pgdn", "f12", "?", "[", "-", "ctrl-space"] {
            assert_eq!(Key::parse(name).expect(name).to_string(), name);
        }
        for name in ["", "ctrl-", "f0", "f13", "hello", "\u{7}"] {
            assert_eq!(Key::parse(name), None, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_bounded(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20)) {
            let mut decoder = Decoder::default();
            for chunk in &chunks {
                decoder.push(chunk);
                prop_assert!(decoder.pending.len() <= PENDING_MAX);
            }
        }

        #[test]
        fn pieces_and_whole_agree(bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0_usize..60) {
            let mut whole = Decoder::default();
            let together = whole.push(&bytes);
            let cut = cut.min(bytes.len());
            let mut split = Decoder::default();
            let mut apart = split.push(&bytes[..cut]);
            apart.extend(split.push(&bytes[cut..]));
            prop_assert_eq!(together, apart);
        }
    }
}
