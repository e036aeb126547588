//! robots.txt, RFC 9309: what a site lets this crawler fetch.
//!
//! * [`parse`] reads a file into the rules that apply to us, and says what is odd about it.
//! * [`matching`] compares paths with patterns, in linear time.
//! * [`cache`] holds the state per authority: fetched, in flight, unreachable. Pure: time is passed in.
//!
//! Deliberately stricter than the letter: 429 counts as unreachable, and an unreachable robots.txt forbids the
//! site for as long as it lasts (the RFC would allow crawling after 30 days). Read beyond the RFC, as its 2.2.4 lets us:
//! `Crawl-delay` of our group, `Sitemap` anywhere; digits in agents' names, a pattern without its leading `/`, one byte
//! order mark or a part of it, lines that end in CR alone. What a large search engine's parser adds (no colon, misspelt
//! names, `index.html` for its directory) is not: the tests list the differences.

pub mod cache;
pub mod matching;
pub mod parse;

pub use cache::{Decision, Effect, Robots, Unreachable};
pub use matching::Target;
pub use parse::{Access, Rules};

#[cfg(test)]
mod tests;
