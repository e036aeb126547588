//! The characters of the demo: servers with one trait each, as one meets them on the web.

use std::time::Duration;

use super::{
    Ban, How, Latency, Limit, Outages, Overload, Redirects, RetryAfter, Robots, ServerModel, ServerSpec, Site,
};

/// One trait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Character {
    /// Bears everything.
    Steady,
    /// Bare 429 beyond a hidden limit.
    Limit,
    /// 429 with Retry-After beyond a hidden limit.
    RetryAfter,
    /// A fixed window per minute.
    Window,
    /// Random 500.
    Flaky,
    /// Slow under load.
    Slow,
    /// robots.txt with Crawl-delay and Disallow.
    Robots,
    /// Goes dark and comes back.
    Dark,
    /// Redirects.
    Redirect,
    /// Bans who is refused too often.
    Blocking,
}

impl Character {
    /// All of them, in the order of the demo.
    pub const ALL: [Self; 10] = [
        Self::Steady,
        Self::Limit,
        Self::RetryAfter,
        Self::Window,
        Self::Flaky,
        Self::Slow,
        Self::Robots,
        Self::Dark,
        Self::Redirect,
        Self::Blocking,
    ];

    /// What it does, in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Steady => "answers everything, fast",
            Self::Limit => "429 without a word beyond a hidden limit of 4/s, burst 10",
            Self::RetryAfter => "429 with Retry-After beyond a hidden limit of 4/s, burst 10",
            Self::Window => "120 requests in each minute of its clock, then 429 until the next",
            Self::Flaky => "one answer in twenty is a 500, whatever the rate",
            Self::Slow => "two requests at a time: whoever sends more than 5/s waits in its queue",
            Self::Robots => "robots.txt asks for 2 s between requests and keeps /private/ to itself",
            Self::Dark => "resets every connection for 20 s, again and again, then is back",
            Self::Redirect => "redirects in chains, to another host and in circles",
            Self::Blocking => "limit of 3/s; after more than 4 refusals in a minute 403 for 30 s",
        }
    }

    /// A server of this character with so many pages. `away` is the base URL that the redirecting one
    /// leads to.
    pub fn spec(self, pages: u32, away: &str) -> ServerSpec {
        let seconds = Duration::from_secs;
        let mut spec = ServerSpec {
            latency: Latency { median: Duration::from_millis(60), sigma: 0.3 },
            site: Site::of_pages(pages),
            ..ServerSpec::default()
        };
        match self {
            Self::Steady => spec.latency.median = Duration::from_millis(30),
            Self::Limit => spec.limit = Limit::Bucket { rate: 4.0, burst: 10.0 },
            Self::RetryAfter => {
                spec.limit = Limit::Bucket { rate: 4.0, burst: 10.0 };
                spec.retry_after = RetryAfter::Fixed(seconds(3));
            }
            Self::Window => spec.limit = Limit::Window { count: 120, per: seconds(60), phase: Duration::ZERO },
            Self::Flaky => spec.errors = 0.05,
            Self::Slow => {
                spec.overload = Some(Overload { servers: 2, service: Duration::from_millis(400), cv: 0.3 });
            }
            Self::Robots => {
                spec.site.robots = Some(Robots { crawl_delay: Some(seconds(2)), disallow: Some("/private/".into()) });
            }
            Self::Dark => {
                spec.outages =
                    Some(Outages { first: seconds(15), lasts: seconds(20), every: seconds(60), how: How::Reset });
            }
            Self::Redirect => spec.site.redirects = Some(Redirects { hops: 3, away: Some(away.to_owned()) }),
            Self::Blocking => {
                spec.limit = Limit::Bucket { rate: 3.0, burst: 6.0 };
                spec.ban = Some(Ban { refusals: 4, within: seconds(60), status: 403, lasts: seconds(30) });
            }
        }
        spec
    }

    /// The same, at work.
    pub fn model(self, pages: u32, away: &str, seed: u64) -> ServerModel {
        ServerModel::new(self.spec(pages, away), seed)
    }
}
