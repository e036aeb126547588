//! WARC 1.1 records (ISO 28500:2017): what an exchange becomes, as bytes before compression.
//!
//! An exchange with a response is three records that name each other: `response` (or `revisit`, if its payload was
//! written before, or it is a 304), `request` and `metadata`. All have an id, a date, and a digest of their block in
//! the form that readers check, SHA-1 in base 32. Two payloads are the same if their SHA-256 is: SHA-1 can be made to
//! collide, and a page must not hide behind another. Pure but for reading the body and for random ids.

use std::fmt;
use std::io;
use std::sync::Arc;

use data_encoding::BASE32;
use hyper::http::Version;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use super::capture::Capture;
use super::head;
use super::known::{Earlier, Known};
use crate::clock::Wall;
use crate::crawl::address::fingerprint;
use crate::text::Clean;

/// Profiles of `revisit` (WARC 1.1, 6.7).
const IDENTICAL: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";
/// What ends a record.
pub(super) const END: &[u8] = b"\r\n\r\n";

/// The id of a record: a random UUID (version 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id(u128);

impl Id {
    /// A new one.
    pub fn random() -> Self {
        let random = fastrand::u128(..);
        Self(random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let part = |range| hex.get(range).unwrap_or_default();
        write!(f, "<urn:uuid:{}-{}-{}-{}-{}>", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
    }
}

/// What becomes of the payload.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    /// It is written.
    Response,
    /// It was written before.
    Identical(Earlier),
    /// There is none: what the server means may have been written before.
    NotModified(Option<Earlier>),
}

/// The records of an exchange, planned once: however often they have to be written, they are the same.
#[derive(Debug)]
pub(super) struct Plan {
    response: Id,
    request: Id,
    metadata: Id,
    form: Form,
    head: Vec<u8>,
    block_digest: String,
    payload_digest: String,
    payload: [u8; 32],
    url: u128,
}

impl Plan {
    /// Reads the body once.
    pub(super) fn of(capture: &Capture, known: &Known) -> io::Result<Self> {
        let head = head::response(&capture.head, capture.body.length());
        let mut block = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        let mut payload = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        let mut content = Context::new(&SHA256);
        block.update(&head);
        capture.body.read(|part| -> io::Result<()> {
            block.update(part);
            payload.update(part);
            content.update(part);
            Ok(())
        })?;
        let mut digest = [0; 32];
        digest.copy_from_slice(content.finish().as_ref());
        let url = fingerprint(&capture.url);
        let form = if capture.head.status == 304 {
            Form::NotModified(known.answer(url).cloned())
        } else if is_worth_it(capture) {
            known.payload(&digest).map_or(Form::Response, |earlier| Form::Identical(earlier.clone()))
        } else {
            Form::Response
        };
        let block_digest = match form {
            Form::Response => named(block),
            Form::Identical(_) | Form::NotModified(_) => sha1(&head),
        };
        Ok(Self {
            response: Id::random(),
            request: Id::random(),
            metadata: Id::random(),
            form,
            head,
            block_digest,
            payload_digest: named(payload),
            payload: digest,
            url,
        })
    }

    /// Whether the body is part of what is written.
    pub(super) fn has_body(&self) -> bool {
        self.form == Form::Response
    }

    /// Remembers what was written.
    pub(super) fn remember(&self, capture: &Capture, known: &mut Known) {
        let record = || Earlier { id: self.response, date: capture.sent, url: Arc::from(capture.url.as_str()) };
        if self.has_body() && is_worth_it(capture) {
            known.add_payload(self.payload, record());
        }
        if capture.head.status == 200 && capture.truncated.is_none() {
            known.add_answer(self.url, record());
        }
    }

    /// The header of the `response` or `revisit`, and the head that begins its block. The body follows, if the plan
    /// has it, then [`END`].
    pub(super) fn response(&self, capture: &Capture, info: Id) -> Vec<u8> {
        let body = if self.has_body() { capture.body.length() } else { 0 };
        let kind = if self.has_body() { "response" } else { "revisit" };
        let mut header = Header::new(kind, self.response, capture.sent).target(capture, info);
        if let Some(peer) = capture.peer {
            header.field("WARC-IP-Address", &peer.to_string());
        }
        if capture.head.version == Version::HTTP_2 {
            header.field("WARC-Protocol", "h2");
        }
        let truncated = match &self.form {
            Form::Response => capture.truncated.map(super::Truncated::as_str),
            Form::Identical(earlier) => {
                header.field("WARC-Profile", IDENTICAL);
                header.refers_to(earlier);
                Some("length")
            }
            Form::NotModified(earlier) => {
                header.field("WARC-Profile", NOT_MODIFIED);
                if let Some(earlier) = earlier {
                    header.refers_to(earlier);
                }
                None
            }
        };
        if let Some(reason) = truncated {
            header.field("WARC-Truncated", reason);
        }
        if !matches!(self.form, Form::NotModified(_)) {
            header.field("WARC-Payload-Digest", &self.payload_digest);
        }
        header.field("WARC-Block-Digest", &self.block_digest);
        header.field("Content-Type", "application/http; msgtype=response");
        let mut bytes = header.end(self.head.len() as u64 + body);
        bytes.extend_from_slice(&self.head);
        bytes
    }

    /// The whole `request`.
    pub(super) fn request(&self, capture: &Capture, info: Id) -> Vec<u8> {
        let mut header = Header::new("request", self.request, capture.sent).target(capture, info);
        header.field("WARC-Concurrent-To", &self.response.to_string());
        header.whole("application/http; msgtype=request", &capture.request)
    }

    /// The whole `metadata`.
    pub(super) fn metadata(&self, capture: &Capture, info: Id) -> Vec<u8> {
        let mut header = Header::new("metadata", self.metadata, capture.sent).target(capture, info);
        header.field("WARC-Concurrent-To", &self.response.to_string());
        let block = fields(&[
            ("kind", capture.kind.as_str().to_owned()),
            ("fetchTimeMs", capture.took.as_millis().to_string()),
            ("receivedBytes", capture.body.length().to_string()),
        ]);
        header.whole("application/warc-fields", &block)
    }
}

/// The `warcinfo` that begins a file, or what is added to one by another process.
pub(super) fn warcinfo(id: Id, date: Wall, filename: &str, about: &[(&str, String)]) -> Vec<u8> {
    let mut header = Header::new("warcinfo", id, date);
    header.field("WARC-Filename", filename);
    header.whole("application/warc-fields", &fields(about))
}

/// Whether a payload can stand for another: a whole one, and not an empty one.
fn is_worth_it(capture: &Capture) -> bool {
    capture.truncated.is_none() && capture.body.length() > 0
}

/// Lines of `application/warc-fields`.
fn fields(pairs: &[(&str, String)]) -> Vec<u8> {
    let lines = pairs.iter().map(|(name, value)| format!("{name}: {}\r\n", Clean::new(value)));
    lines.collect::<String>().into_bytes()
}

/// The header of a record.
struct Header(String);

impl Header {
    fn new(kind: &str, id: Id, date: Wall) -> Self {
        Self(format!("WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {id}\r\nWARC-Date: {}\r\n", date.rfc3339()))
    }

    /// The URL as it is, without angle brackets (FAULTS.md case 125), and whose file it is.
    fn target(mut self, capture: &Capture, info: Id) -> Self {
        self.field("WARC-Target-URI", capture.url.as_str());
        self.field("WARC-Warcinfo-ID", &info.to_string());
        self
    }

    fn refers_to(&mut self, earlier: &Earlier) {
        self.field("WARC-Refers-To", &earlier.id.to_string());
        self.field("WARC-Refers-To-Target-URI", &earlier.url);
        self.field("WARC-Refers-To-Date", &earlier.date.rfc3339());
    }

    /// A field. What comes from outside is a serialised URL, which has no control characters; should one have any,
    /// it ends no line.
    fn field(&mut self, name: &str, value: &str) {
        self.0.push_str(name);
        self.0.push_str(": ");
        self.0.extend(value.chars().map(|c| if c.is_control() { '?' } else { c }));
        self.0.push_str("\r\n");
    }

    /// Ends the header before a block of `length` bytes.
    fn end(mut self, length: u64) -> Vec<u8> {
        self.field("Content-Length", &length.to_string());
        self.0.push_str("\r\n");
        self.0.into_bytes()
    }

    /// The whole record of a small block.
    fn whole(mut self, kind: &str, block: &[u8]) -> Vec<u8> {
        self.field("WARC-Block-Digest", &sha1(block));
        self.field("Content-Type", kind);
        let mut bytes = self.end(block.len() as u64);
        bytes.extend_from_slice(block);
        bytes.extend_from_slice(END);
        bytes
    }
}

fn sha1(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(bytes);
    named(context)
}

fn named(context: Context) -> String {
    format!("sha1:{}", BASE32.encode(context.finish().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_random_uuids_of_version_4() {
        for _ in 0..100 {
            let id = Id::random().to_string();
            let uuid = id.strip_prefix("<urn:uuid:").and_then(|id| id.strip_suffix('>')).expect("a URN");
            let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
            assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{id}");
        }
        assert_ne!(Id::random(), Id::random());
    }

    #[test]
    fn digests_are_what_readers_expect() {
        // FIPS 180 and RFC 4648: the digest of nothing, as every WARC has it.
        assert_eq!(sha1(b""), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
    }
}
