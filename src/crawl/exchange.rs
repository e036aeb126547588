//! One request and its reply, as they pass between the engine and a fetcher.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use url::Url;

use crate::control::{Hint, RequestKind, Verdict};
use crate::text::Clean;

/// One wire request to make. Redirects are never followed by the fetcher; each hop is a request.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Where: http or https, without userinfo and fragment.
    pub url: Url,
    /// What for: decides the body cap and whether the body is kept.
    pub kind: RequestKind,
}

/// What came back from one wire request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status, or the failure.
    pub verdict: Verdict,
    /// HTTP status if a head was received, also when the verdict is a failure (incomplete, too large …).
    pub status: Option<u16>,
    /// A valid wait from Retry-After, measured against the response's own Date where it is a date.
    pub retry_after: Option<Duration>,
    /// What the headers say of the server's limit.
    pub hint: Option<Hint>,
    /// `Location` of a 3xx, resolved against the URL; `Err` says why it leads nowhere.
    pub location: Option<Result<Url, Clean>>,
    /// Bytes of the body as received.
    pub received: u64,
    /// The decoded body, for robots and sitemaps; empty for pages.
    pub body: Bytes,
    /// `Cache-Control: max-age` of the response, if any.
    pub max_age: Option<Duration>,
    /// Whether the response set a cookie (a redirect back to the same URL is then no loop).
    pub cookie_changed: bool,
    /// The failure in words, sanitised and free of credentials and query strings.
    pub error: Option<Clean>,
    /// Oddities that did no harm, for the journal: several Retry-After, framing, trailing garbage.
    pub anomalies: Vec<Clean>,
    /// Whether anything went out on the wire (false for a refused address).
    pub on_wire: bool,
    /// The server surely did not work on it (a kept-alive connection that was closed before the first
    /// byte, a refused h2 stream): sending again takes a token, but is no attempt.
    pub unprocessed: bool,
}

impl Reply {
    /// A reply that is nothing but a failure.
    pub fn failed(outcome: crate::control::Outcome, error: impl Into<Clean>) -> Self {
        Self {
            verdict: Verdict::Failed(outcome),
            status: None,
            retry_after: None,
            hint: None,
            location: None,
            received: 0,
            body: Bytes::new(),
            max_age: None,
            cookie_changed: false,
            error: Some(error.into()),
            anomalies: Vec::new(),
            on_wire: true,
            unprocessed: false,
        }
    }
}

/// A future that ends in a reply; a network failure is a reply, never an error.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Something that can make wire requests.
pub trait Fetch: Send + Sync {
    /// Makes one wire request (or none, if the address is refused).
    fn fetch(&self, request: FetchRequest) -> ReplyFuture;
}
