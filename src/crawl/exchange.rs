//! One request and its reply, as they pass between the engine and a fetcher.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use url::Url;

use super::links::{Found, Rules};
use crate::archive::Capture;
use crate::config::HostRule;
use crate::control::{Hint, RequestKind, Verdict};
use crate::text::Clean;

/// One wire request to make. Redirects are never followed by the fetcher; each hop is a request.
#[derive(Clone)]
pub struct FetchRequest {
    /// Where: http or https, without userinfo and fragment.
    pub url: Url,
    /// What for: decides the body cap and whether the body is kept.
    pub kind: RequestKind,
    /// How links are gathered from the body, if they are.
    pub links: Option<Arc<Rules>>,
    /// Who wants to know what a head says before its body is there, if anybody.
    pub listener: Option<Listener>,
}

/// Hears of a wait that is asked for while the body is still on its way: the host must not be asked meanwhile.
pub trait HeadListener: Send + Sync {
    /// The head of the response to the request with this ticket has `status` and a valid Retry-After.
    fn wait_asked(&self, ticket: u64, status: u16, wait: Duration);
}

/// A listener, and the number that it knows the request by.
#[derive(Clone)]
pub struct Listener {
    /// Who hears.
    pub to: Arc<dyn HeadListener>,
    /// The request.
    pub ticket: u64,
}

/// What came back from one wire request.
#[derive(Debug)]
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
    /// The decoded body, for robots and sitemaps; empty for pages, and where links were gathered.
    pub body: Bytes,
    /// What the body led to, if that was asked for.
    pub found: Option<Box<Found>>,
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
    /// Whom the response came from; `None` where a proxy stands between.
    pub peer: Option<SocketAddr>,
    /// The exchange for the archive, if it is kept and had a response.
    pub capture: Option<Box<Capture>>,
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
            found: None,
            max_age: None,
            cookie_changed: false,
            error: Some(error.into()),
            anomalies: Vec::new(),
            on_wire: true,
            unprocessed: false,
            peer: None,
            capture: None,
        }
    }
}

/// A future that ends in a reply; a network failure is a reply, never an error.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A future that ends in an address, if there is one.
pub type AddressFuture = Pin<Box<dyn Future<Output = Option<IpAddr>> + Send>>;

/// Something that can make wire requests.
pub trait Fetch: Send + Sync {
    /// Makes one wire request (or none, if the address is refused).
    fn fetch(&self, request: FetchRequest) -> ReplyFuture;

    /// The address that a connection to the host of `url` would most likely lead to; `None` if that cannot be said.
    fn address(&self, _url: Url) -> AddressFuture {
        Box::pin(std::future::ready(None))
    }

    /// Requests from now on carry the headers of these entries of the configuration; an error says why not, and
    /// changes nothing. Whoever sends no headers has nothing to change.
    fn set_hosts(&self, _hosts: Arc<[HostRule]>) -> Result<(), String> {
        Ok(())
    }
}
