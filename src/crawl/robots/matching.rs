//! Paths and patterns of robots.txt in one normal form, and how they match (RFC 9309 2.2.2, 2.2.3).
//!
//! In the normal form an octet is written in one way only: unreserved octets, `*` and `$` plainly, every other
//! `%XX` in upper case, and what may not stand in a URL as `%XX`. `%2F` is never decoded. A wildcard is kept
//! apart from a literal `*` (`%2A`), the end anchor from a literal `$` (`%24`). In the query `:` and `/` count
//! as equal to `%3A` and `%2F`, as the RFC's table has it.
//!
//! There is no regex and no backtracking: literal pieces are searched from left to right, each with a linear
//! search, so a match takes O(path + pattern) whatever the pattern is.

use serde::{Deserialize, Serialize};
use url::{Position, Url};

use crate::crawl::address::{hex_pair, is_unreserved, push_encoded};

/// Stands for a wildcard in a normalised pattern; it cannot occur in one otherwise (NUL becomes `%00`).
const WILDCARD: char = '\0';

/// What a URL offers for matching: its path and query in normal form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    text: String,
    /// The same with the query's `:` and `/` encoded; only if that makes a difference.
    strict: Option<String>,
}

impl Target {
    /// The target that `url` is.
    pub fn of(url: &Url) -> Self {
        Self::new(&url[Position::BeforePath..Position::AfterQuery])
    }

    /// A path with its query.
    pub fn new(path: &str) -> Self {
        let text = normal(path.as_bytes(), '*');
        Self { strict: encode_query(&text), text }
    }

    /// Whether this is the path of robots.txt itself, which is always allowed.
    pub fn is_robots_txt(&self) -> bool {
        self.text == "/robots.txt"
    }
}

/// A pattern of an Allow or Disallow line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pattern {
    text: Box<str>,
    anchored: bool,
}

impl Pattern {
    /// Reads the value of a line; `None` if it is empty (it matches nothing then).
    ///
    /// A value without a leading `/` or `*` is no pattern by the RFC's grammar; it is read as if the `/` stood
    /// there, which is what its author meant.
    pub fn new(value: &[u8]) -> Option<Self> {
        let (body, anchored) = match value.split_last()? {
            (b'$', body) => (body, true),
            _ => (value, false),
        };
        let mut text = normal(body, WILDCARD);
        if !text.starts_with(['/', WILDCARD]) {
            text.insert(0, '/');
        }
        Some(Self { text: text.into(), anchored })
    }

    /// Its length in octets: the longest match wins.
    pub fn octets(&self) -> usize {
        self.text.len() + usize::from(self.anchored)
    }

    /// Whether it matches.
    pub fn matches(&self, target: &Target) -> bool {
        if matches(&self.text, self.anchored, &target.text) {
            return true;
        }
        // Only a pattern that reaches into the query can differ in its `:` and `/`.
        if !self.text.contains('?') {
            return false;
        }
        let strict = encode_query(&self.text);
        if strict.is_none() && target.strict.is_none() {
            return false;
        }
        let path = target.strict.as_deref().unwrap_or(&target.text);
        matches(strict.as_deref().unwrap_or(&self.text), self.anchored, path)
    }

    /// The pattern as text, wildcard and anchor shown as in the file.
    pub fn show(&self) -> String {
        let mut shown = self.text.replace(WILDCARD, "*");
        if self.anchored {
            shown.push('$');
        }
        shown
    }

    /// Bytes it takes, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// Leftmost search of the pieces between wildcards: what is found earliest leaves most for the rest.
fn matches(pattern: &str, anchored: bool, path: &str) -> bool {
    let mut pieces = pattern.split(WILDCARD);
    let Some(mut rest) = path.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return !anchored || rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    if anchored { rest.ends_with(last) } else { rest.contains(last) }
}

/// The normal form; a plain `*` becomes `star`: a wildcard in patterns, itself in paths.
fn normal(input: &[u8], star: char) -> String {
    let mut out = String::with_capacity(input.len());
    let mut rest = input;
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        match octet {
            b'%' => match tail.first_chunk::<2>().and_then(|digits| hex_pair(*digits)) {
                Some(octet) => {
                    rest = &tail[2..];
                    if is_unreserved(octet) || matches!(octet, b'*' | b'$') {
                        out.push(char::from(octet));
                    } else {
                        push_encoded(&mut out, octet);
                    }
                }
                // A stray percent sign means itself.
                None => push_encoded(&mut out, octet),
            },
            b'*' => out.push(star),
            _ if is_unreserved(octet) || b":/?[]@!$&'()+,;=".contains(&octet) => out.push(char::from(octet)),
            _ => push_encoded(&mut out, octet),
        }
    }
    out
}

/// The text with `:` and `/` after the first `?` encoded; `None` if nothing changes.
fn encode_query(text: &str) -> Option<String> {
    let (path, query) = text.split_once('?')?;
    query.contains([':', '/']).then(|| format!("{path}?{}", query.replace(':', "%3A").replace('/', "%2F")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hit(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern.as_bytes()).is_some_and(|pattern| pattern.matches(&Target::new(path)))
    }

    #[test]
    fn case_38_one_normal_form_for_patterns_and_urls() {
        let rows = [
            // RFC 9309 2.2.2, its table.
            ("/foo/bar?baz=quz", "/foo/bar?baz=quz", true),
            ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", true),
            ("/foo/bar?baz=https%3a%2f%2ffoo.bar", "/foo/bar?baz=https://foo.bar", true),
            ("/foo/bar/ツ", "/foo/bar/%E3%83%84", true),
            ("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84", true),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz", true),
            // Literal * and $.
            ("/a-%2A.html", "/a-*.html", true),
            ("/a-%2a.html", "/a-%2A.html", true),
            ("/a-%2A.html", "/a-b.html", false),
            ("/a-*.html", "/a-b.html", true),
            ("/foo-%24", "/foo-$", true),
            ("/foo-%24", "/foo-%24bar", true),
            ("/foo-%24", "/foo-", false),
            ("/foo-$", "/foo-", true),
            ("/foo-$", "/foo-$", false),
            ("/a$b", "/a%24b", true),
            ("/a$$", "/a$", true),
            // Non-ASCII, and a slash that is none.
            ("/päth", "/p%C3%A4th", true),
            ("/p%C3%A4th", "/p%c3%a4th", true),
            ("/a%2fb", "/a%2Fb", true),
            ("/a%2fb", "/a/b", false),
            ("/a/b", "/a%2Fb", false),
            ("/100%", "/100%25", true),
            ("/a b", "/a%20b", true),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(hit(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn wildcard_and_anchor() {
        let rows = [
            ("/", "/anything", true),
            ("*", "/anything", true),
            ("/$", "/", true),
            ("/$", "/x", false),
            ("/*$", "/x/y", true),
            ("/fish*", "/fish", true),
            ("/fish", "/Fish", false),
            ("/fish", "/catfish", false),
            ("/*.php", "/a/b.php?x", true),
            ("/*.php$", "/a/b.php?x", false),
            ("*.gif$", "/a.gif", true),
            ("/fish*.php", "/fishheads/catfish.php?p", true),
            ("/*ab*ab$", "/abab", true),
            ("/*aba*ba$", "/abab", false),
            ("/**//*$", "///", true),
            ("/x*/print", "/x?u=/print", true),
            ("private", "/private/x", true),
            ("", "/", false),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(hit(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_hostile_pattern_is_searched_in_one_pass() {
        // With backtracking this would outlive the machine.
        let pattern = format!("/{}b$", "*a".repeat(60));
        assert!(!hit(&pattern, &format!("/{}", "a".repeat(8_000))));
        assert!(hit(&pattern, &format!("/{}b", "a".repeat(8_000))));
        let pattern = format!("/{}", "*a*".repeat(4_000));
        assert!(!hit(&pattern, &format!("/{}", "a".repeat(3_999))));
        assert!(!hit(r"/(a+)+$", &format!("/{}", "a".repeat(8_000))));
    }

    /// The plainest possible matcher, exponential in the stars.
    fn plain(pattern: &[u8], path: &[u8]) -> bool {
        match pattern.split_first() {
            None => true,
            Some((b'$', [])) => path.is_empty(),
            Some((b'*', rest)) => (0..=path.len()).any(|skip| plain(rest, &path[skip..])),
            Some((octet, rest)) => path.first() == Some(octet) && plain(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_plainest_matcher(pattern in "/[ab/*]{0,7}[$]?", path in "/[ab/]{0,9}") {
            prop_assert_eq!(hit(&pattern, &path), plain(pattern.as_bytes(), path.as_bytes()));
        }

        #[test]
        fn every_path_matches_itself_and_any_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..40), path in "/[^*$\\x00]{0,20}") {
            if let Some(pattern) = Pattern::new(&bytes) {
                pattern.matches(&Target::new(&path));
                prop_assert!(pattern.show().is_ascii());
            }
            prop_assert!(hit(&path, &path));
        }
    }
}
