//! Errors of the configuration: all of them at once, each with its place and what to write instead.
//!
//! Text of the file reaches a message only through [`Clean`]; values that may be secret never do.

use std::cell::RefCell;
use std::fmt;

use thiserror::Error;

use crate::text::Clean;

/// Errors reported at most for one file; how many more there were is said in a last line.
pub const ERRORS_MAX: usize = 100;

/// Where an error is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// In a file; line and column count from 1, the column in characters.
    At { file: Clean, line: usize, column: usize },
    /// The file as a whole.
    File(Clean),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::File(file) => write!(f, "{file}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// One error: `FILE:LINE:COLUMN: message`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{place}: {message}")]
pub struct ConfigError {
    place: Place,
    message: Clean,
}

impl ConfigError {
    /// Line and column (from 1, in characters), if the error has a place in a file.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self.place {
            Place::At { line, column, .. } => Some((line, column)),
            Place::File(_) | Place::Flag(_) => None,
        }
    }

    /// What is wrong and what to write instead, without the place.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }
}

/// All errors of one configuration, in the order of the file; displays as a line each.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    left_out: usize,
}

impl ConfigErrors {
    /// The errors, at most [`ERRORS_MAX`].
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.errors.iter()
    }

    /// How many there are, those that are left out included.
    pub fn count(&self) -> usize {
        self.errors.len() + self.left_out
    }

    /// An error about a file as a whole.
    pub(crate) fn of_file(name: &str, message: impl Into<Clean>) -> Self {
        let place = Place::File(Clean::new(name));
        Self { errors: vec![ConfigError { place, message: message.into() }], left_out: 0 }
    }

    /// Errors about flags.
    pub(super) fn of_flags(found: Vec<(&'static str, String)>) -> Self {
        let error = |(flag, message): (_, String)| ConfigError { place: Place::Flag(flag), message: message.into() };
        Self { errors: found.into_iter().map(error).collect(), left_out: 0 }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, error) in self.errors.iter().enumerate() {
            if count > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.left_out > 0 {
            write!(f, "\nand {} more errors", self.left_out)?;
        }
        Ok(())
    }
}

/// Gathers errors while a file is read. Shared by all sections of the file, so it takes `&self`.
#[derive(Debug, Default)]
pub(super) struct Report {
    found: RefCell<Vec<(usize, String)>>,
}

impl Report {
    /// Notes an error at byte `offset`.
    pub(super) fn error(&self, offset: usize, message: impl Into<String>) {
        self.found.borrow_mut().push((offset, message.into()));
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All that was found, with lines and columns of `text`, sorted by place.
    pub(super) fn into_errors(self, text: &str, name: &str) -> ConfigErrors {
        let mut found = self.found.into_inner();
        found.sort();
        found.dedup();
        let left_out = found.len().saturating_sub(ERRORS_MAX);
        found.truncate(ERRORS_MAX);
        let file = Clean::new(name);
        let errors = found
            .into_iter()
            .map(|(offset, message)| {
                let (line, column) = line_and_column(text, offset);
                ConfigError { place: Place::At { file: file.clone(), line, column }, message: message.into() }
            })
            .collect();
        ConfigErrors { errors, left_out }
    }
}

/// Line and column of byte `offset`, from 1; the column counts characters.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = "a = 1\nü = \"é\"x\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, text.find('x').expect("there")), (2, 8));
        assert_eq!(line_and_column(text, text.len()), (3, 1));
        assert_eq!(line_and_column(text, usize::MAX), (3, 1));
        assert_eq!(line_and_column("", 5), (1, 1));
        assert_eq!(line_and_column("ü", 1), (1, 1), "inside a character counts as before it");
    }

    #[test]
    fn errors_are_sorted_bounded_and_clean() {
        let text = "x\n".repeat(300);
        let report = Report::default();
        for offset in (0..2 * (ERRORS_MAX + 7)).step_by(2).rev() {
            report.error(offset, "bad \u{1b}[31m");
        }
        let shown = report.into_errors(&text, "c\u{7}.toml").to_string();
        assert_eq!(shown.lines().next(), Some("c\\x07.toml:1:1: bad \\x1b[31m"));
        assert_eq!(shown.lines().count(), ERRORS_MAX + 1);
        assert_eq!(shown.lines().last(), Some("and 7 more errors"));
    }
}
