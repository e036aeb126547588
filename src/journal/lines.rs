//! Lines of a journal file, one at a time: bounded memory whatever the file holds.

use std::io::{self, BufRead, Read as _};

/// Longest line taken, in bytes; longer ones are skipped. No record comes near it: its texts are cut at
/// [`CLEAN_MAX_CHARS`](crate::text::CLEAN_MAX_CHARS).
pub const LINE_MAX: u64 = 1 << 20;

/// One line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// A whole line, without its line break.
    Whole(&'a [u8]),
    /// One beyond [`LINE_MAX`].
    TooLong,
    /// The end of the file without a line break: a record that was being written.
    Torn,
}

/// Reads lines.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), number: 0 }
    }

    /// Number of the line last returned, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end.
    pub fn advance(&mut self) -> io::Result<Option<Line<'_>>> {
        self.fill()?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.ends_with(b"\n") {
            self.buffer.pop();
            return Ok(Some(Line::Whole(self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer))));
        }
        if (self.buffer.len() as u64) < LINE_MAX {
            return Ok(Some(Line::Torn));
        }
        loop {
            self.fill()?;
            match self.buffer.last() {
                Some(b'\n') => return Ok(Some(Line::TooLong)),
                Some(_) => {}
                None => return Ok(Some(Line::Torn)),
            }
        }
    }

    /// Reads up to a line break, the limit or the end.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.clear();
        (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut self.buffer)?;
        Ok(())
    }
}

/// Splits a row of CSV into its fields (RFC 4180; a row is one line here). `None` if its quoting is broken.
pub fn split_row(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::with_capacity(16);
    let mut rest = line;
    loop {
        let after = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (field, after) = split_quoted(quoted)?;
                fields.push(field);
                after
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                fields.push(rest[..end].to_owned());
                &rest[end..]
            }
        };
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

/// The field up to its closing quote, and what follows it.
fn split_quoted(quoted: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"')?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Some((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_torn_or_too_long() {
        let mut text = b"one\r\n\n".to_vec();
        text.resize(text.len() + LINE_MAX as usize + 5, b'x');
        text.extend(b"\nlast\ntor");
        let mut lines = Lines::new(&text[..]);
        let mut seen = Vec::new();
        while let Some(line) = lines.advance().expect("memory can be read") {
            seen.push(match line {
                Line::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLong => "TOO LONG".into(),
                Line::Torn => "TORN".into(),
            });
        }
        assert_eq!(seen, ["one", "", "TOO LONG", "last", "TORN"]);
        assert_eq!(lines.number(), 5);
    }

    #[test]
    fn rows_are_split_as_rfc_4180_says() {
        let split = |row| split_row(row).map(|fields| fields.join("|"));
        assert_eq!(split("a,b,,"), Some("a|b||".into()));
        assert_eq!(split("\"a,b\",\"say \"\"x\"\"\""), Some("a,b|say \"x\"".into()));
        assert_eq!(split("\"open,b"), None);
        assert_eq!(split("\"a\"b,c"), None);
    }
}
