//! What the fetcher keeps of an exchange for the archive, while it goes on. Without an archive nobody makes one.

use std::sync::Arc;

use hyper::ext::ReasonPhrase;
use hyper::http::HeaderMap;
use reqwest::Response;
use url::Url;

use super::body;
use super::failure;
use crate::archive::head;
use crate::archive::spool::{Beyond, Spool};
use crate::archive::{Capture, ResponseHead, Room, Tee, Truncated};
use crate::clock::{Clock, Wall};
use crate::control::{Mono, Outcome, RequestKind, Verdict};
use crate::crawl::exchange::Reply;
use crate::text::Clean;

/// An exchange that is kept.
pub(super) struct Keeping {
    room: Arc<Room>,
    url: Url,
    kind: RequestKind,
    sent: (Mono, Wall),
    request: Vec<u8>,
    head: Option<ResponseHead>,
    peer: Option<std::net::IpAddr>,
    tee: Option<Tee>,
    /// A body that nobody reads is cut by a limit on the head, or by how it is coded.
    truncated: Option<Truncated>,
}

impl Keeping {
    /// Begins with what is about to be sent to `target` for `url`.
    pub(super) fn begin(
        room: &Arc<Room>,
        clock: &dyn Clock,
        url: &Url,
        kind: RequestKind,
        target: &Url,
        headers: &HeaderMap,
    ) -> Self {
        Self {
            room: Arc::clone(room),
            url: url.clone(),
            kind,
            sent: (clock.now(), clock.wall()),
            request: head::request(target, headers),
            head: None,
            peer: None,
            tee: None,
            truncated: Some(Truncated::Unspecified),
        }
    }

    /// The head of a response has come.
    pub(super) fn head(&mut self, response: &Response, is_direct: bool) {
        let status = response.status().as_u16();
        let reason = match response.extensions().get::<ReasonPhrase>() {
            Some(reason) => reason.as_bytes().to_vec(),
            None => head::usual_reason(status).into(),
        };
        let headers = response.headers().clone();
        self.head = Some(ResponseHead { version: response.version(), status, reason, headers });
        let ends = failure::ends(response.extensions()).filter(|_| is_direct);
        self.peer = ends.map(|(_, remote)| remote.ip());
    }

    /// What takes the body.
    pub(super) fn tee(&mut self, beyond: Beyond) -> &mut Tee {
        self.tee.insert(Tee::new(Arc::clone(&self.room), beyond))
    }

    /// The body was read, to its end or not.
    pub(super) fn truncated(&mut self, truncated: Option<Truncated>) {
        self.truncated = truncated;
    }

    /// Puts the exchange into the reply. If our own disk failed, the reply says so, and it will be asked again.
    pub(super) async fn end(self, mut reply: Reply, clock: &dyn Clock) -> Reply {
        let Some(head) = self.head else { return reply };
        let is_cut = self.tee.as_ref().is_some_and(Tee::is_cut);
        let body = match self.tee {
            Some(tee) if reply.verdict != LOCAL => tee.end().await,
            Some(_) => return reply,
            None => Ok(Spool::default()),
        };
        let body = match body {
            Ok(body) => body,
            Err(error) => {
                let failure = body::unspooled(&error);
                reply.verdict = Verdict::Failed(failure.outcome);
                reply.error = Some(Clean::from(failure.text));
                return reply;
            }
        };
        let truncated = match reply.verdict {
            // Its head passed a limit: nothing more was read.
            Verdict::Failed(Outcome::LimitExceeded) => Some(Truncated::Length),
            _ if is_cut => self.truncated.or(Some(Truncated::Length)),
            _ => self.truncated,
        };
        let capture = Capture {
            url: self.url,
            kind: self.kind,
            sent: self.sent.1,
            took: clock.now().since(self.sent.0),
            peer: self.peer,
            request: self.request,
            head,
            body,
            truncated,
            is_sound: matches!(reply.verdict, Verdict::Status(_)),
        };
        reply.capture = Some(Box::new(capture));
        reply
    }
}

/// Our own trouble.
const LOCAL: Verdict = Verdict::Failed(Outcome::Local);
