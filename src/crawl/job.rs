//! A job: one URL on its way to a final answer, through attempts and redirect hops.

use std::sync::Arc;

use url::Url;

use super::address::Authority;
use crate::control::{Mono, RequestKind};

/// Redirect hops of one URL.
pub const HOPS_MAX: u8 = 10;
/// Times a URL is sent again at no cost because nobody worked on it.
pub const UNPROCESSED_MAX: u8 = 5;

/// One URL to fetch. Small for a plain page; everything else is boxed.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where.
    pub url: Box<str>,
    /// Since when it could be sent.
    pub due: Mono,
    /// Attempts that failed so far.
    pub failures: u8,
    /// Times it was sent again because nobody had worked on it.
    pub unprocessed: u8,
    /// Links from an input to here, the shortest way that was found first; of a sitemap: indexes above it.
    pub depth: u32,
    /// Steps since the last new pattern, as `traps` counts them.
    pub run: u16,
    /// What only some jobs have.
    pub more: Option<Box<More>>,
}

/// What only redirected and robots jobs have.
#[derive(Clone, Debug)]
pub struct More {
    /// What it is for.
    pub kind: RequestKind,
    /// The URL of the crawl that this chain began with.
    pub root: Arc<str>,
    /// Hops so far.
    pub hops: u8,
    /// Fingerprints of the chain's URLs, each with the count of cookie changes it was seen at.
    pub chain: Vec<(u128, u8)>,
    /// Cookie changes along the chain.
    pub cookies: u8,
    /// For robots: whose rules they are (a redirect may lead elsewhere).
    pub authority: Option<Authority>,
}

impl Job {
    /// A page of the crawl.
    pub fn page(url: &Url, due: Mono) -> Self {
        Self { url: url.as_str().into(), due, failures: 0, unprocessed: 0, depth: 0, run: 0, more: None }
    }

    /// The robots.txt of `authority`.
    pub fn robots(url: &Url, authority: Authority, hops: u8, due: Mono) -> Self {
        let more = More {
            kind: RequestKind::Robots,
            root: url.as_str().into(),
            hops,
            chain: Vec::new(),
            cookies: 0,
            authority: Some(authority),
        };
        Self { more: Some(Box::new(more)), ..Self::page(url, due) }
    }

    /// A sitemap, named by robots.txt (depth 0) or by an index.
    pub fn sitemap(url: &Url, depth: u32, due: Mono) -> Self {
        let more = More {
            kind: RequestKind::Sitemap,
            root: url.as_str().into(),
            hops: 0,
            chain: Vec::new(),
            cookies: 0,
            authority: None,
        };
        Self { depth, more: Some(Box::new(more)), ..Self::page(url, due) }
    }

    /// Whether the chain of redirects that led here has seen a URL.
    pub fn has_seen(&self, fingerprint: u128) -> bool {
        self.more.as_ref().is_some_and(|more| more.chain.iter().any(|(seen, _)| *seen == fingerprint))
    }

    /// What it is for.
    pub fn kind(&self) -> RequestKind {
        self.more.as_ref().map_or(RequestKind::Page, |more| more.kind)
    }

    /// The URL of the crawl that it stands for.
    pub fn root(&self) -> &str {
        self.more.as_ref().map_or(&self.url, |more| &more.root)
    }

    /// The next hop of a redirect: the job that follows this one to `target`, or why it ends here.
    pub fn hop(&self, from: u128, target: &Url, to: u128, cookie_changed: bool, due: Mono) -> Result<Self, HopError> {
        let mut more = match &self.more {
            Some(more) => (**more).clone(),
            None => More {
                kind: RequestKind::Redirect,
                root: Arc::from(&*self.url),
                hops: 0,
                chain: Vec::new(),
                cookies: 0,
                authority: None,
            },
        };
        if more.hops >= HOPS_MAX {
            return Err(HopError::TooMany);
        }
        more.chain.push((from, more.cookies));
        more.cookies = more.cookies.saturating_add(u8::from(cookie_changed));
        // The same URL with other cookies is no loop; the cap ends a server that always sets one.
        if more.chain.contains(&(to, more.cookies)) {
            return Err(HopError::Loop);
        }
        more.hops += 1;
        Ok(Self { depth: self.depth, run: self.run, more: Some(Box::new(more)), ..Self::page(target, due) })
    }
}

/// Why a redirect is not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HopError {
    /// The cap.
    #[error("more than {HOPS_MAX} redirects")]
    TooMany,
    /// It was there already.
    #[error("redirect loop")]
    Loop,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(path: &str) -> Url {
        Url::parse("http://h.example/").expect("valid").join(path).expect("valid")
    }

    #[test]
    fn a_url_seen_in_the_chain_is_a_loop() {
        let first = Job::page(&url("/a"), Mono::ZERO);
        let second = first.hop(1, &url("/b"), 2, false, Mono::ZERO).expect("follows");
        assert_eq!(second.root(), "http://h.example/a");
        assert_eq!(second.hop(2, &url("/a"), 1, false, Mono::ZERO).expect_err("loop"), HopError::Loop);
    }

    #[test]
    fn case_50_the_same_url_after_a_new_cookie_is_no_loop_but_the_cap_holds() {
        let mut job = Job::page(&url("/"), Mono::ZERO);
        let mut hops = 0;
        let end = loop {
            match job.hop(1, &url("/"), 1, true, Mono::ZERO) {
                Ok(next) => job = next,
                Err(error) => break error,
            }
            hops += 1;
        };
        assert_eq!((hops, end), (HOPS_MAX, HopError::TooMany));
    }
}
