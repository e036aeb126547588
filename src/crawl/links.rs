//! Links: what a page or a sitemap leads to, found while its body streams by.
//!
//! * [`tokenizer`], [`entities`], [`charset`]: HTML as far as links need it.
//! * [`page`]: which attributes are links, and where they lead; [`directives`]: whether they may be followed.
//! * [`sitemap`]: the URLs of a sitemap or of an index of them.
//!
//! Pure, and run where the body is read, not by the engine's task. What is found is bounded per body. What this
//! does not do: decide whether a link is in the crawl's scope (`scope`), or whether it is new (the frontier).

pub mod charset;
pub mod directives;
pub mod entities;
pub mod page;
pub mod sitemap;
pub mod tokenizer;

use url::Url;

use self::page::Page;
use self::sitemap::Sitemap;

/// How links are gathered: made once for a crawl.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Whether `nofollow` is obeyed.
    pub obey: bool,
    /// The crawler's product token.
    pub agent: String,
    /// Links that one of these matches are none.
    pub exclude: Vec<regex::Regex>,
}

impl Rules {
    /// Whether a link is not excluded.
    fn wants(&self, url: &Url) -> bool {
        !self.exclude.iter().any(|pattern| pattern.is_match(url.as_str()))
    }
}

/// One link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where it leads: http or https, without userinfo and fragment.
    pub url: Url,
    /// Of its canonical form.
    pub fingerprint: u128,
}

/// What a body led to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Different links in the order of the page; without those that may not be followed.
    pub links: Vec<Link>,
    /// Sitemaps that a sitemap index names.
    pub sitemaps: Vec<Link>,
    /// Links beyond the bounds of one body.
    pub left_out: u32,
    /// What is odd about it, in words.
    pub note: Option<String>,
}

impl Found {
    /// Whether there is nothing to take, and nothing to say.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.sitemaps.is_empty() && self.left_out == 0 && self.note.is_none()
    }
}

/// A body being searched for links.
pub enum Search {
    /// An HTML page.
    Page(Box<Page>),
    /// A sitemap.
    Sitemap(Box<Sitemap>),
}

impl Search {
    /// Takes decoded bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Page(page) => page.push(bytes),
            Self::Sitemap(sitemap) => sitemap.push(bytes),
        }
    }

    /// The body is over.
    pub fn finish(self, rules: &Rules) -> Found {
        match self {
            Self::Page(page) => page.finish(rules),
            Self::Sitemap(sitemap) => sitemap.finish(rules),
        }
    }
}
