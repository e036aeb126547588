//! Kinds of pages that lead to ever new pages of themselves, and never back: words or numbers drawn at random for
//! whoever asks.
//!
//! A site that ends knows its own pages: sooner or later a page of it links to one that is known, the one above it, the
//! one before it, one that many link to. A page that leads to new pages of its own kind and to none of them that is
//! known counts one; any other page of that kind takes [`BACK`] away. At [`SPREAD_PAGES`] what such pages lead to
//! is held back. A site of *n* pages with *b* links each, drawn evenly from all of them (no site is that scattered),
//! reaches this if *n* is more than about 32,000·*b*².
//!
//! A kind is coarse here, so that as much as possible counts as known: the first directory and the names in the query.
//!
//! Pages that are numbered say nothing here, either way: a tree of a hundred thousand of them may lead to new ones only
//! for half of its pages, and their numbers end.

use url::{Position, Url};

use super::Suspicion;
use super::pattern::{brief, host_pattern};

/// Pages of one kind that led to new ones of that kind and to no known one, less [`BACK`] for each that did not.
pub const SPREAD_PAGES: u32 = 1_000;
/// What a page takes away that leads to known pages of its kind, or to none of its kind.
pub const BACK: u32 = 16;
/// Digits of a number that pages are counted with.
const DIGITS_MAX: usize = 7;

/// What a page led to, as far as that is of its own kind.
#[derive(Debug, Default)]
pub struct Led {
    page: Option<Url>,
    new: u32,
    known: u32,
    /// Every known link counts: one is enough else, as most links of most pages are known.
    closely: bool,
}

impl Led {
    /// Nothing yet; `None` is no page, and has no kind. `closely` if the page's run is long.
    pub const fn by(page: Option<Url>, closely: bool) -> Self {
        Self { page, new: 0, known: 0, closely }
    }

    /// Whether a URL is of the page's kind.
    pub fn is_alike(&self, url: &Url) -> bool {
        self.page.as_ref().is_some_and(|page| {
            let same_host = page.host() == url.host() && page.port_or_known_default() == url.port_or_known_default();
            same_host && first(page) == first(url) && names(page).eq(names(url))
        })
    }

    /// It leads to a URL that is known.
    pub fn meets_known(&mut self, url: &Url) {
        if self.known == 0 || self.closely {
            self.known += u32::from(self.is_alike(url));
        }
    }

    /// It leads to a new one of its kind.
    pub const fn meets_new(&mut self) {
        self.new += 1;
    }

    /// The page, and whether it led to new pages of its kind and to no known one; `None` if it says nothing.
    pub(super) fn judged(&self) -> Option<(&Url, bool)> {
        let page = self.page.as_ref().filter(|page| !is_numbered(page))?;
        Some((page, self.new > 0 && self.known == 0))
    }

    /// Links to pages of its kind: to new ones, and to known ones.
    pub(super) const fn links(&self) -> (u32, u32) {
        (self.new, self.known)
    }
}

/// Whether a page is one of many that are counted through: path and query hold one number of at most [`DIGITS_MAX`]
/// digits. Ids and random numbers have longer ones, or several, and so have paths that grow by numbers.
fn is_numbered(url: &Url) -> bool {
    let text = &url[Position::BeforePath..Position::AfterQuery];
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.next().is_some_and(|digits| digits.len() <= DIGITS_MAX) && numbers.next().is_none()
}

/// The first directory, or the page itself if it has a query; whether it is a directory.
fn first(url: &Url) -> (&str, bool) {
    let path = url.path().trim_start_matches('/');
    match path.split_once('/') {
        Some((first, _)) => (first, true),
        None if url.query().is_some() => (path, false),
        None => ("", false),
    }
}

/// The names in the query.
pub(super) fn names(url: &Url) -> impl Iterator<Item = &str> {
    url.query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .map(|part| part.split_once('=').map_or("", |(name, _)| name))
}

/// The kind of a page, in one text.
pub(super) fn kind(url: &Url) -> String {
    let (first, is_directory) = first(url);
    let mut kind = format!("{first}{}", if is_directory { "/" } else { "" });
    for name in names(url) {
        kind.push('?');
        kind.push_str(name);
    }
    kind
}

/// Why a page's kind is held back.
pub(super) fn suspicion(url: &Url) -> Suspicion {
    let directory = match first(url) {
        (first, true) => format!("/{}/[^?]*", brief(first)),
        ("", false) => String::from("/[^/?]*"),
        (page, false) => format!("/{}", brief(page)),
    };
    let query = match names(url).next() {
        None => String::from("$"),
        Some("") => String::from("[?]"),
        Some(name) => format!("[?]{}=", brief(name)),
    };
    Suspicion {
        why: format!("{SPREAD_PAGES} pages of a kind led to new ones of that kind only, and to none that was known"),
        pattern: format!("^https?://{}{directory}{query}", host_pattern(url)),
    }
}
