//! Which hosts are shown: parts of the name and globs, all of which must apply.

use globset::{GlobBuilder, GlobMatcher};

use crate::text::Clean;

/// A filter that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// The glob is broken.
    #[error("`{term}` is no glob: {cause}")]
    Glob {
        /// As typed.
        term: Clean,
        /// Why.
        cause: Clean,
    },
    /// Terms that later versions know.
    #[error("`{0}` is not known: write part of a host's name, or a glob such as *.example.org")]
    Term(Clean),
}

/// One condition on a host's name.
#[derive(Clone, Debug)]
enum Term {
    /// Part of the name, in small letters.
    Part(String),
    /// The whole name.
    Glob(GlobMatcher),
}

/// What a host's name must be like. The empty filter takes every host.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    terms: Vec<Term>,
    text: Clean,
}

impl Filter {
    /// Reads a filter: words separated by spaces; one with `*`, `?`, `[` or `{` is a glob.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let terms = text.split_whitespace().map(parse_term).collect::<Result<_, _>>()?;
        Ok(Self { terms, text: Clean::new(text.trim()) })
    }

    /// As typed.
    pub fn text(&self) -> &Clean {
        &self.text
    }

    /// Whether it takes every host.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the host `name` is shown.
    pub fn takes(&self, name: &str) -> bool {
        self.terms.iter().all(|term| match term {
            Term::Part(part) => contains(name, part),
            Term::Glob(glob) => glob.is_match(name),
        })
    }
}

/// Reads one word.
fn parse_term(word: &str) -> Result<Term, FilterError> {
    let lower = word.to_lowercase();
    if lower.contains(['*', '?', '[', '{']) {
        let glob = GlobBuilder::new(&lower).literal_separator(false).build().map_err(|error| FilterError::Glob {
            term: Clean::new(word),
            cause: Clean::new(error.kind().to_string()),
        })?;
        return Ok(Term::Glob(glob.compile_matcher()));
    }
    // Words of the full filter language; a bare port (`host:8080`) is a name.
    let key = lower.split_once(':').map(|(key, _)| key);
    if matches!(key, Some("is" | "state")) || lower.contains(['<', '>', '|', '!', '=']) {
        return Err(FilterError::Term(Clean::new(word)));
    }
    Ok(Term::Part(lower))
}

/// Whether `name`, which is in small letters already, contains `part`.
fn contains(name: &str, part: &str) -> bool {
    name.contains(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_globs_take_hosts() {
        for (filter, name, takes) in [
            ("", "any.test", true),
            ("gaz", "api.gazet.test", true),
            ("GAZ", "api.gazet.test", true),
            ("gaz", "www.astr.test", false),
            ("*.test", "api.gazet.test", true),
            ("*.test", "a.tiles.example", false),
            ("api.* gazet", "api.gazet.test", true),
            ("api.* astr", "api.gazet.test", false),
            ("127.0.0.1:80", "127.0.0.1:8080", true),
            ("{a,b}.test", "b.test", true),
        ] {
            assert_eq!(Filter::parse(filter).expect(filter).takes(name), takes, "{filter} on {name}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in ["[", "is:stuck", "429>0", "!a", "{a"] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
    }
}
