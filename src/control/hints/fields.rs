//! Structured fields (RFC 9651), as far as `RateLimit` and `RateLimit-Policy` need them: a list of items with parameters, and
//! the flat dictionary of the older draft. Strict: a field that is malformed anywhere says nothing at all.

/// Members of a field, and parameters of an item, at most: no server has as many limits.
const MEMBERS_MAX: usize = 64;

/// A bare item; the kinds that no limit is told in are read, and only named.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Bare {
    /// Digits, no more than fifteen of them.
    Integer(i64),
    /// With its escapes undone; a token, too: some write names so.
    Text(String),
    /// A decimal, boolean, byte sequence, date or display string.
    Other,
}

impl Bare {
    /// A count: an integer that is not negative.
    pub(super) fn count(&self) -> Option<f64> {
        match self {
            Self::Integer(count) if *count >= 0 => Some(*count as f64),
            _ => None,
        }
    }
}

/// An item and its parameters; of two of one key the later counts.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Item {
    pub(super) bare: Bare,
    parameters: Vec<(String, Bare)>,
}

impl Item {
    pub(super) fn parameter(&self, key: &str) -> Option<&Bare> {
        self.parameters.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// `"burst";r=50;t=30, …`.
pub(super) fn list(text: &str) -> Option<Vec<Item>> {
    Scanner::new(text).members(Scanner::item)
}

/// `limit=100, remaining=50, reset=30`; of two of one key the later counts.
pub(super) fn dictionary(text: &str) -> Option<Vec<(String, Bare)>> {
    Scanner::new(text).members(|scanner| {
        let key = scanner.key()?;
        scanner.take(b'=').then_some(())?;
        Some((key, scanner.item()?.bare))
    })
}

/// What is left to be read.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.as_bytes() }
    }

    fn members<T>(mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut members = Vec::new();
        self.skip(b" ");
        loop {
            if members.len() >= MEMBERS_MAX {
                return None;
            }
            members.push(one(&mut self)?);
            self.skip(b" \t");
            if self.rest.is_empty() {
                return Some(members);
            }
            self.take(b',').then_some(())?;
            self.skip(b" \t");
        }
    }

    fn item(&mut self) -> Option<Item> {
        let bare = self.bare()?;
        let mut parameters = Vec::new();
        while self.take(b';') {
            self.skip(b" ");
            let key = self.key()?;
            // Without a value it is true.
            let value = if self.take(b'=') { self.bare()? } else { Bare::Other };
            if parameters.len() >= MEMBERS_MAX {
                return None;
            }
            parameters.push((key, value));
        }
        Some(Item { bare, parameters })
    }

    fn bare(&mut self) -> Option<Bare> {
        match *self.rest.first()? {
            b'"' => self.string().map(Bare::Text),
            b'-' | b'0'..=b'9' => self.number(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                Some(Bare::Text(self.run(|one| is_token(one) || matches!(one, b':' | b'/'))))
            }
            b'?' => {
                self.next();
                matches!(self.next()?, b'0' | b'1').then_some(Bare::Other)
            }
            b':' => {
                self.next();
                self.run(|one| one.is_ascii_alphanumeric() || matches!(one, b'+' | b'/' | b'='));
                self.take(b':').then_some(Bare::Other)
            }
            b'@' => {
                self.next();
                matches!(self.number()?, Bare::Integer(_)).then_some(Bare::Other)
            }
            b'%' => {
                self.next();
                self.string().map(|_| Bare::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Bare> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let whole = self.run(|one| one.is_ascii_digit());
        if !self.take(b'.') {
            let fits = (1..=15).contains(&whole.len());
            return fits.then(|| whole.parse::<i64>().ok()).flatten().map(|value| Bare::Integer(sign * value));
        }
        let fraction = self.run(|one| one.is_ascii_digit());
        ((1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len())).then_some(Bare::Other)
    }

    fn string(&mut self) -> Option<String> {
        self.take(b'"').then_some(())?;
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => text.push(char::from(self.next().filter(|one| matches!(one, b'"' | b'\\'))?)),
                one @ b' '..=b'~' => text.push(char::from(one)),
                _ => return None,
            }
        }
    }

    fn key(&mut self) -> Option<String> {
        matches!(self.rest.first()?, b'a'..=b'z' | b'*').then_some(())?;
        Some(self.run(|one| matches!(one, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')))
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> String {
        let end = self.rest.iter().position(|one| !belongs(*one)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run.iter().copied().map(char::from).collect()
    }

    fn skip(&mut self, blanks: &[u8]) {
        while self.rest.first().is_some_and(|one| blanks.contains(one)) {
            self.next();
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.rest.first() == Some(&wanted);
        if there {
            self.next();
        }
        there
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
}

/// What a token consists of, `:` and `/` aside (RFC 9110, 5.6.2).
fn is_token(one: u8) -> bool {
    one.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_whole_or_not_at_all() {
        let rows: &[(&str, Option<usize>)] = &[
            ("\"a\";r=1;t=2", Some(1)),
            (" \"a\"; r=1;  t=2 ,\t\"b\" ", Some(2)),
            ("\"a\";pk=:cHsdsRa894==:;x;y=?0;z=@1659578233;d=1.5;s=%\"f%c3%bc\"", Some(1)),
            ("\"a;r=0;t=60, \\\"b\\\" \\\\\";r=5", Some(1)),
            ("tok/en:x;q=1, 100;w=60, -5", Some(3)),
            ("", None),
            ("\"a\",", None),
            (",\"a\"", None),
            ("\"a\";", None),
            ("\"a\" ;r=1", None),
            ("\"a\";r =1", None),
            ("\"a\";r= 1", None),
            ("\"a\";R=1", None),
            ("\"a\";r=", None),
            ("\"a", None),
            ("\"\\a\"", None),
            ("\"a\u{e9}\"", None),
            ("\"a\" \"b\"", None),
            ("1234567890123456", None),
            ("1.", None),
            ("1.2345", None),
            ("-", None),
            ("?2", None),
            (":a", None),
            ("(\"a\" \"b\")", None),
            ("limit=1", None),
        ];
        for (text, expected) in rows {
            assert_eq!(list(text).map(|items| items.len()), *expected, "{text}");
        }
        let items = list("\"x;r=0\";r=5;r=7;t").expect("a list");
        assert_eq!(items[0].bare, Bare::Text(String::from("x;r=0")));
        assert_eq!(items[0].parameter("r"), Some(&Bare::Integer(7)), "the later one");
        assert_eq!((items[0].parameter("t"), items[0].parameter("q")), (Some(&Bare::Other), None));
        assert!(list(&vec!["1"; MEMBERS_MAX].join(",")).is_some());
        assert!(list(&vec!["1"; MEMBERS_MAX + 1].join(",")).is_none());
    }

    #[test]
    fn the_older_draft_s_dictionary_is_read() {
        let read = dictionary("limit=100, remaining=50 ,reset=30").expect("a dictionary");
        let keys: Vec<_> = read.iter().map(|(key, value)| (key.as_str(), value.count())).collect();
        assert_eq!(keys, [("limit", Some(100.0)), ("remaining", Some(50.0)), ("reset", Some(30.0))]);
        for text in ["limit", "limit=", "=5", "limit=1;", "limit=1,", "Limit=1", "limit = 1"] {
            assert_eq!(dictionary(text), None, "{text}");
        }
    }
}
