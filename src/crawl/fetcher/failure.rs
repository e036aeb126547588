//! What a failed exchange is called, and whether the server can have worked on it.
//!
//! Reads the chain of causes by type, not by text. The words for the operator are made here too: the
//! cause that lies deepest, never a URL, so neither credentials nor a query string can be in them.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;

use hyper_util::client::legacy::connect::HttpInfo;
use rustix::io::Errno;

use super::resolve::ResolveError;
use crate::control::Outcome;

/// Causes that are looked at; a longer chain is cut.
const CHAIN_MAX: usize = 32;

/// Both ends of a connection: which one it was.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A failed exchange, judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    pub(super) text: String,
    pub(super) on_wire: bool,
    /// The server surely did not work on it.
    pub(super) unprocessed: bool,
}

impl Failure {
    pub(super) fn new(outcome: Outcome, text: impl Into<String>) -> Self {
        Self { outcome, text: text.into(), on_wire: true, unprocessed: false }
    }

    /// One that sent nothing.
    pub(super) fn unsent(outcome: Outcome, text: impl Into<String>) -> Self {
        Self { on_wire: false, ..Self::new(outcome, text) }
    }
}

/// What the chain of causes holds.
#[derive(Default)]
struct Causes<'a> {
    resolve: Option<&'a ResolveError>,
    io: Option<&'a io::Error>,
    tls: bool,
    connect: bool,
    ends: Option<Ends>,
    hyper: Option<&'a hyper::Error>,
    canceled: bool,
    h2: Option<&'a h2::Error>,
    deepest: String,
}

impl<'a> Causes<'a> {
    fn of(error: &'a (dyn StdError + 'static)) -> Self {
        let mut causes = Self::default();
        let mut next = Some(error);
        for _ in 0..CHAIN_MAX {
            let Some(cause) = next else { break };
            next = cause.source();
            causes.deepest = cause.to_string();
            if let Some(found) = cause.downcast_ref::<ResolveError>() {
                causes.resolve = Some(found);
            } else if let Some(found) = cause.downcast_ref::<io::Error>() {
                causes.io = Some(found);
                // What an io::Error wraps is not its source, but is the cause we want.
                if let Some(inner) = found.get_ref() {
                    next = Some(inner);
                }
            } else if cause.is::<rustls::Error>() {
                causes.tls = true;
            } else if let Some(found) = cause.downcast_ref::<hyper_util::client::legacy::Error>() {
                causes.connect |= found.is_connect();
                causes.ends = causes.ends.or_else(|| {
                    let mut extensions = hyper::http::Extensions::new();
                    found.connect_info()?.get_extras(&mut extensions);
                    ends(&extensions)
                });
            } else if let Some(found) = cause.downcast_ref::<hyper::Error>() {
                causes.canceled |= found.is_canceled();
                causes.hyper = Some(found);
            } else if let Some(found) = cause.downcast_ref::<h2::Error>() {
                causes.h2 = Some(found);
            }
        }
        causes
    }

    /// Whether the cause is our own machine. No route to a network is not: a host may have addresses of a family only
    /// that this machine does not speak, and a firewall of our own may forbid one target (EPERM).
    fn is_local(&self) -> bool {
        let code = self.io.and_then(io::Error::raw_os_error).map(Errno::from_raw_os_error);
        let descriptors = matches!(code, Some(Errno::MFILE | Errno::NFILE));
        let memory_or_threads = matches!(code, Some(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN));
        let ports = matches!(code, Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE));
        descriptors || memory_or_threads || ports || code == Some(Errno::NETDOWN)
    }
}

/// Both ends of the connection that a response (or an error) tells of.
pub(super) fn ends(extensions: &hyper::http::Extensions) -> Option<Ends> {
    extensions.get::<HttpInfo>().map(|info| (info.local_addr(), info.remote_addr()))
}

/// Judges an exchange that failed before its head was whole. `is_reused` tells whether a connection had
/// served a response before; it is asked at most once and may forget the connection.
pub(super) fn before_head(error: &reqwest::Error, is_reused: impl FnOnce(Ends) -> bool) -> Failure {
    if error.is_builder() {
        return Failure::unsent(Outcome::LimitExceeded, "the URL cannot be sent: too long, or not a valid URI");
    }
    let causes = Causes::of(error);
    let deepest = &causes.deepest;
    match causes.resolve {
        Some(refused @ ResolveError::Refused(_)) => {
            return Failure::unsent(Outcome::AddressRefused, refused.to_string());
        }
        Some(ours @ (ResolveError::Saturated | ResolveError::Unasked)) => {
            return Failure::unsent(Outcome::Local, ours.to_string());
        }
        Some(error @ ResolveError::Failed(_)) => {
            let outcome = if causes.is_local() { Outcome::Local } else { Outcome::Dns };
            return Failure::new(outcome, error.to_string());
        }
        Some(error @ (ResolveError::Empty | ResolveError::Timeout)) => {
            return Failure::new(Outcome::Dns, error.to_string());
        }
        None => {}
    }
    if causes.is_local() {
        return Failure::unsent(Outcome::Local, format!("our own machine refused: {deepest}"));
    }
    if causes.tls {
        return Failure::new(Outcome::Tls, format!("the TLS handshake failed: {deepest}"));
    }
    if causes.connect {
        let outcome = if error.is_dns() { Outcome::Dns } else { Outcome::Connect };
        return Failure::new(outcome, format!("no connection could be made: {deepest}"));
    }
    if let Some(found) = causes.h2 {
        return h2_before_head(found);
    }
    if let Some(found) = causes.hyper.filter(|found| found.is_parse()) {
        return if found.is_parse_too_large() {
            Failure::new(Outcome::LimitExceeded, "the header block is larger than our limits")
        } else {
            Failure::new(Outcome::Decode, format!("the response is not valid HTTP: {deepest}"))
        };
    }
    if error.is_timeout() {
        return Failure::new(Outcome::Timeout, "no answer in time");
    }
    let unprocessed = causes.canceled || causes.ends.is_some_and(is_reused);
    Failure {
        unprocessed,
        ..Failure::new(
            Outcome::ConnectionReset,
            if unprocessed {
                format!("a kept-alive connection was closed before the answer began: {deepest}")
            } else {
                format!("the connection broke before the answer was whole: {deepest}")
            },
        )
    }
}

/// HTTP/2: RFC 9113 6.8 and 8.7 name what the server surely did not work on.
fn h2_before_head(error: &h2::Error) -> Failure {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // The library gives this to streams above the last one that the server names, and to new ones.
    let above_last = error.is_go_away() && error.is_remote();
    if refused || above_last {
        let unprocessed = error.is_remote();
        return Failure {
            unprocessed,
            ..Failure::new(Outcome::ConnectionReset, format!("the server did not take up the request: {error}"))
        };
    }
    let is_flood = matches!(error.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM | h2::Reason::PROTOCOL_ERROR));
    if error.is_library() && is_flood {
        return Failure::new(Outcome::LimitExceeded, format!("the header block is larger than our limits: {error}"));
    }
    Failure::new(Outcome::ConnectionReset, format!("the connection broke before the answer was whole: {error}"))
}

/// Judges a body that ended in an error.
pub(super) fn in_body(error: &reqwest::Error) -> Failure {
    let causes = Causes::of(error);
    let deepest = &causes.deepest;
    if causes.is_local() {
        return Failure::unsent(Outcome::Local, format!("our own machine refused: {deepest}"));
    }
    if let Some(found) = causes.h2 {
        return Failure::new(Outcome::ConnectionReset, format!("the stream was reset within the body: {found}"));
    }
    match causes.io.map(io::Error::kind) {
        Some(io::ErrorKind::UnexpectedEof) => {
            Failure::new(Outcome::Incomplete, "the connection ended before the end of the body")
        }
        Some(io::ErrorKind::InvalidInput) => {
            Failure::new(Outcome::Incomplete, format!("the chunks of the body are broken: {deepest}"))
        }
        Some(io::ErrorKind::InvalidData) if deepest.contains("over limit") || deepest.contains("trailers") => {
            Failure::new(Outcome::LimitExceeded, format!("the body's framing passed our limits: {deepest}"))
        }
        Some(io::ErrorKind::InvalidData) => {
            Failure::new(Outcome::Incomplete, format!("the framing of the body is broken: {deepest}"))
        }
        _ => Failure::new(Outcome::ConnectionReset, format!("the connection broke within the body: {deepest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_31_our_own_trouble_is_told_from_the_servers() {
        for (code, local) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOBUFS, true),
            (Errno::NOMEM, true),
            (Errno::AGAIN, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::ADDRINUSE, true),
            (Errno::NETDOWN, true),
            (Errno::CONNREFUSED, false),
            (Errno::HOSTUNREACH, false),
            (Errno::NETUNREACH, false),
            (Errno::TIMEDOUT, false),
            (Errno::PERM, false),
            (Errno::PIPE, false),
            (Errno::CONNRESET, false),
        ] {
            let error = io::Error::from(code);
            let wrapped = io::Error::other(error);
            assert_eq!(Causes::of(&wrapped).is_local(), local, "{code}");
            // A look-up that the system could not begin, too.
            let lookup = ResolveError::Failed(io::Error::from(code));
            assert_eq!(Causes::of(&lookup).is_local(), local, "{code}");
        }
    }
}
