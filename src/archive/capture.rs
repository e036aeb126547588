//! One exchange as it is handed to the archive.

use std::net::IpAddr;
use std::time::Duration;

use hyper::http::{HeaderMap, Version};
use url::Url;

use super::spool::Spool;
use crate::clock::Wall;
use crate::control::RequestKind;

/// Why a body is not whole, in the words of WARC 1.1 (5.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truncated {
    /// It passed a limit on its length, received or decoded.
    Length,
    /// It came too slowly, or was not waited for.
    Time,
    /// The connection ended before it did.
    Disconnect,
    /// Another reason: it was not read because of how it is coded.
    Unspecified,
}

impl Truncated {
    /// The value of `WARC-Truncated`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Time => "time",
            Self::Disconnect => "disconnect",
            Self::Unspecified => "unspecified",
        }
    }
}

/// The head of a response, as the client hands it out: names in lower case, values of one name together.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The version that was spoken.
    pub version: Version,
    /// The status.
    pub status: u16,
    /// The reason phrase as received; empty for HTTP/2, which has none.
    pub reason: Vec<u8>,
    /// The headers as received.
    pub headers: HeaderMap,
}

impl ResponseHead {
    /// Whether responses of this status have no body, whatever their Content-Length says (RFC 9112 6.3).
    pub fn is_bodiless(&self) -> bool {
        self.status < 200 || matches!(self.status, 204 | 304)
    }
}

/// One exchange: a request that had a response.
#[derive(Debug)]
pub struct Capture {
    /// Where, without userinfo and fragment.
    pub url: Url,
    /// What for.
    pub kind: RequestKind,
    /// When it was sent.
    pub sent: Wall,
    /// From then to the end of the body.
    pub took: Duration,
    /// Whom the connection led to, if that was the server.
    pub peer: Option<IpAddr>,
    /// The head of the request, with values that are secret left out.
    pub request: Vec<u8>,
    /// The head of the response.
    pub head: ResponseHead,
    /// The body as received: without chunks, with its content codings.
    pub body: Spool,
    /// Why it is not whole; `None` = it is.
    pub truncated: Option<Truncated>,
    /// The body could be decoded to its end, within the limits.
    pub is_sound: bool,
}

impl Capture {
    /// Memory it takes, in bytes, about.
    pub(super) fn memory(&self) -> usize {
        let headers: usize = self.head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        self.body.memory() + self.request.len() + headers + self.url.as_str().len() + size_of::<Self>()
    }
}
