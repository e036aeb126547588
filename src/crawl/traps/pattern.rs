//! The text side of traps: the pattern of a URL, its parameters, and expressions that a reader may type.

use url::{Position, Url};

use super::SEGMENTS_MAX;

/// Characters of a segment that a pattern shows.
pub(super) const BRIEF: usize = 60;

/// A segment, or a part of one, as a regular expression of no great length.
pub(super) fn brief(segment: &str) -> String {
    match segment.char_indices().nth(BRIEF) {
        Some((at, _)) => format!("{}[^/]*", regex::escape(&segment[..at])),
        None => regex::escape(segment),
    }
}

/// Stands for any number, and for any id, in a shape; neither can be in a URL's path.
pub(super) const ONE_NUMBER: char = '\u{1}';
pub(super) const ONE_ID: &str = "\u{2}";

/// The path with numbers and ids made one, and each segment once.
pub(super) fn shape(url: &Url) -> String {
    let mut segments: Vec<String> = Vec::new();
    for segment in url.path().split('/').take(SEGMENTS_MAX * 2) {
        // What stands behind a semicolon are parameters.
        let segment = segment.split(';').next().unwrap_or_default();
        let one = if looks_random(segment) { ONE_ID.to_owned() } else { without_numbers(segment) };
        // Numbers in a row are a date as often as a path that grows: they stand for themselves.
        let number = one.contains(ONE_NUMBER);
        if number || !segments.contains(&one) {
            segments.push(one);
        }
    }
    segments.join("/")
}

fn without_numbers(segment: &str) -> String {
    let mut one = String::with_capacity(segment.len());
    for c in segment.chars() {
        if !c.is_ascii_digit() {
            one.push(c);
        } else if !one.ends_with(ONE_NUMBER) {
            one.push(ONE_NUMBER);
        }
    }
    one
}

/// Whether a value looks like an id that a machine made: long, and of letters and digits mixed.
pub(super) fn looks_random(value: &str) -> bool {
    let long =
        value.len() >= 16 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    long && digits * 8 >= value.len() && digits < value.len()
}

/// The parameters of path and query: name, value, and where the value begins in the URL's text.
pub(super) fn parameters(url: &Url) -> impl Iterator<Item = (&str, &str, usize)> {
    let text = &url[..Position::AfterQuery];
    let from = url[..Position::BeforePath].len();
    let mut rest = from;
    std::iter::from_fn(move || {
        loop {
            let begin = rest + text.get(rest..)?.find(['?', '&', ';'])? + 1;
            let part = text.get(begin..)?;
            let length = part.find(['?', '&', ';', '/']).unwrap_or(part.len());
            rest = begin + length;
            if let Some((name, value)) = part[..length].split_once('=') {
                return Some((name, value, begin + name.len() + 1));
            }
        }
    })
}

/// The host of a URL, for a pattern.
pub(super) fn host_pattern(url: &Url) -> String {
    regex::escape(&url[Position::BeforeHost..Position::AfterPort])
}
