//! What one wire request ended in: the closed list of outcomes, and their classes on the screen.
//!
//! What happened is kept apart from what is done about it: this file only names; `hold.rs` decides.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::adaptive::Signal;
use super::{HostId, Lane, Mono};

/// The end of one wire request (or the reason why there was none). A closed list: PRODUCT.md names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Any 2xx.
    Ok,
    /// 304.
    NotModified,
    /// Another 3xx whose target was taken up as a request of its own.
    Redirect,
    /// A 4xx that is neither a throttle nor a refusal.
    ClientError,
    /// 429, or 503 with Retry-After.
    Throttled,
    /// Any other 5xx.
    ServerError,
    /// A 403 or 401 that is one of a run, or the answer to a probe: the host turned us away.
    Refused,
    /// A deadline of ours passed: head, idle or minimum rate.
    Timeout,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed. Permanent until tried again after a long backoff.
    Tls,
    /// The name could not be resolved.
    Dns,
    /// The connection broke before the answer was whole.
    ConnectionReset,
    /// The body was shorter than announced.
    Incomplete,
    /// The body could not be decoded as its Content-Encoding says.
    Decode,
    /// The body passed `max_body` (decoded) or the decompression ratio.
    TooLarge,
    /// The header block passed our limits.
    LimitExceeded,
    /// A 3xx that leads nowhere we go: bad target, foreign scheme, too many hops, a loop.
    RedirectNotFollowed,
    /// The address is one we do not connect to; nothing was sent.
    AddressRefused,
    /// robots.txt forbids it; nothing was sent.
    RobotsDenied,
    /// Our own trouble (no descriptors, a panic in the worker): never held against the host.
    Local,
}

impl Outcome {
    /// What it means for the rate.
    pub(super) fn signal(self) -> Signal {
        match self {
            Self::Ok | Self::NotModified => Signal::Success,
            Self::Throttled => Signal::Throttle,
            Self::Refused => Signal::Refused,
            Self::ServerError => Signal::ServerError,
            Self::Redirect
            | Self::ClientError
            | Self::Decode
            | Self::TooLarge
            | Self::LimitExceeded
            | Self::RedirectNotFollowed => Signal::Answered,
            Self::Timeout | Self::ConnectionReset | Self::Incomplete => Signal::Silent,
            Self::Connect | Self::Tls | Self::Dns | Self::AddressRefused | Self::RobotsDenied | Self::Local => {
                Signal::Neutral
            }
        }
    }

    /// Every outcome, in the order of PRODUCT.md.
    pub const ALL: [Self; 20] = [
        Self::Ok,
        Self::NotModified,
        Self::Redirect,
        Self::ClientError,
        Self::Throttled,
        Self::ServerError,
        Self::Refused,
        Self::Timeout,
        Self::Connect,
        Self::Tls,
        Self::Dns,
        Self::ConnectionReset,
        Self::Incomplete,
        Self::Decode,
        Self::TooLarge,
        Self::LimitExceeded,
        Self::RedirectNotFollowed,
        Self::AddressRefused,
        Self::RobotsDenied,
        Self::Local,
    ];

    /// The word in logs and on screens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotModified => "not_modified",
            Self::Redirect => "redirect",
            Self::ClientError => "client_error",
            Self::Throttled => "throttled",
            Self::ServerError => "server_error",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::ConnectionReset => "connection_reset",
            Self::Incomplete => "incomplete",
            Self::Decode => "decode",
            Self::TooLarge => "too_large",
            Self::LimitExceeded => "limit_exceeded",
            Self::RedirectNotFollowed => "redirect_not_followed",
            Self::AddressRefused => "address_refused",
            Self::RobotsDenied => "robots_denied",
            Self::Local => "local",
        }
    }

    /// The outcome that `word` names, if any.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }

    /// Whether the server did what was asked, or said that there is nothing to do.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Ok | Self::NotModified | Self::Redirect)
    }

    /// Whether the request failed before or without a usable response.
    pub const fn is_network(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Connect
                | Self::Tls
                | Self::Dns
                | Self::ConnectionReset
                | Self::Incomplete
                | Self::Decode
                | Self::TooLarge
                | Self::LimitExceeded
        )
    }
}

/// What a wire request was for; the word stands in `requests.csv`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// A URL of the crawl.
    Page,
    /// `/robots.txt` of an authority.
    Robots,
    /// A sitemap.
    Sitemap,
    /// A hop that a redirect led to.
    Redirect,
    /// A feed.
    Feed,
}

impl RequestKind {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Robots => "robots",
            Self::Sitemap => "sitemap",
            Self::Redirect => "redirect",
            Self::Feed => "feed",
        }
    }
}

/// Classes of the histogram in the host table (`2345E`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// 2xx.
    Success,
    /// 3xx.
    Redirect,
    /// 4xx.
    Client,
    /// 5xx.
    Server,
    /// No (whole) response.
    Error,
}

impl Class {
    /// The class of an HTTP status.
    pub const fn of_status(status: u16) -> Self {
        match status {
            ..300 => Self::Success,
            300..400 => Self::Redirect,
            400..500 => Self::Client,
            _ => Self::Server,
        }
    }
}

/// What came back, before the host's history turns it into an [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A whole response with this status. A 3xx that is not followed is `Failed(RedirectNotFollowed)`.
    Status(u16),
    /// No whole, usable response.
    Failed(Outcome),
}

/// One finished wire request, as reported to the controller.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The host that was asked.
    pub host: HostId,
    /// The lane (endpoint) whose token was taken.
    pub lane: Lane,
    /// What it was for.
    pub kind: RequestKind,
    /// When it was sent: the moment of its grant.
    pub sent: Mono,
    /// What came back.
    pub verdict: Verdict,
    /// The wait that a valid Retry-After asks for, on any status; never a zero or past one.
    pub retry_after: Option<Duration>,
    /// From send to the end of the body.
    pub latency: Duration,
    /// The server surely did not work on it: says nothing about the host.
    pub unprocessed: bool,
}
