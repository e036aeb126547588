//! Heads as they are stored: of the request as it was sent, of the response so that it fits the stored body.
//!
//! The client takes chunks off before anybody sees the body, so a stored head that still spoke of them would
//! be wrong (FAULTS.md case 121). What is changed: `chunked` is taken out of Transfer-Encoding, Content-Length is
//! that of the stored bytes; what the server had sent stands under `X-Archive-Orig-…`. Content codings are not undone,
//! so Content-Encoding stays true. Pure.

use hyper::http::header::{CONTENT_LENGTH, HOST, HeaderName, TRANSFER_ENCODING};
use hyper::http::{HeaderMap, StatusCode, Version};
use url::{Position, Url};

use super::capture::ResponseHead;

/// Before the name of a header that was changed.
const ORIGINAL: &str = "x-archive-orig-";
/// Instead of a value that must not be written.
const SECRET: &[u8] = b"(not recorded)";

/// The head of a request as it goes out over HTTP/1.1: the client puts `Host` last unless it is among `headers`.
/// Values marked as sensitive are left out.
pub fn request(url: &Url, headers: &HeaderMap) -> Vec<u8> {
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(b"GET ");
    head.extend_from_slice(url[Position::BeforePath..Position::AfterQuery].as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in headers {
        line(&mut head, name.as_str(), if value.is_sensitive() { SECRET } else { value.as_bytes() });
    }
    if !headers.contains_key(HOST) {
        line(&mut head, HOST.as_str(), url[Position::BeforeHost..Position::AfterPort].as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The head of a response whose body is stored as `stored` bytes.
pub fn response(head: &ResponseHead, stored: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let version = if head.version == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
    out.extend_from_slice(format!("{version} {} ", head.status).as_bytes());
    out.extend_from_slice(&head.reason);
    out.extend_from_slice(b"\r\n");
    let coded = head.headers.contains_key(TRANSFER_ENCODING);
    let left = codings_left(&head.headers);
    let fits = head.is_bodiless() || (!coded && announced(&head.headers) == Some(stored));
    let mut told = false;
    for (name, value) in &head.headers {
        if name == TRANSFER_ENCODING || (name == CONTENT_LENGTH && !fits) {
            original(&mut out, name, value.as_bytes());
            told = true;
        } else {
            line(&mut out, name.as_str(), value.as_bytes());
        }
    }
    if !left.is_empty() {
        // Ends with the connection, so with the record (RFC 9112 6.3).
        line(&mut out, TRANSFER_ENCODING.as_str(), left.join(", ").as_bytes());
    } else if told && !head.is_bodiless() {
        line(&mut out, CONTENT_LENGTH.as_str(), stored.to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The reason phrase of a status whose response had none of its own.
pub fn usual_reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// The one length that all Content-Length headers announce, if they do.
fn announced(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter().map(|value| value.to_str().ok()?.trim().parse().ok());
    let first = lengths.next()??;
    lengths.all(|length| length == Some(first)).then_some(first)
}

/// Transfer codings that were not taken off: all but `chunked`.
fn codings_left(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(TRANSFER_ENCODING);
    let words = values.iter().flat_map(|value| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        value.split(',').map(|word| word.trim().to_ascii_lowercase()).collect::<Vec<_>>()
    });
    words.filter(|word| !matches!(word.as_str(), "" | "chunked" | "identity") && is_token(word)).collect()
}

/// Whether a coding is one word, with parameters perhaps, that may stand in a header.
fn is_token(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
}

fn original(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    line(out, &format!("{ORIGINAL}{name}"), value);
}

/// A header. The types of `http` let no line break into a name or a value.
fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use hyper::http::HeaderValue;

    use super::*;

    fn stored(status: u16, headers: &[(&'static str, &'static str)], body: u64) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let reason = usual_reason(status).into();
        let head = ResponseHead { version: Version::HTTP_11, status, reason, headers: map };
        String::from_utf8(response(&head, body)).expect("text")
    }

    #[test]
    fn case_121_the_head_fits_the_stored_bytes_and_keeps_what_was_said() {
        for (status, headers, body, expected) in [
            // As received where it is true.
            (200, vec![("content-length", "5")], 5, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
            (200, vec![("x", "1"), ("x", "2")], 5, "HTTP/1.1 200 OK\r\nx: 1\r\nx: 2\r\n\r\n"),
            (304, vec![("content-length", "9")], 0, "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n"),
            (204, vec![("content-length", "0")], 0, "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"),
            // Cut, or shorter than announced.
            (
                200,
                vec![("content-length", "100")],
                5,
                "HTTP/1.1 200 OK\r\nx-archive-orig-content-length: 100\r\ncontent-length: 5\r\n\r\n",
            ),
            (
                200,
                vec![("content-length", "5"), ("content-length", "7")],
                5,
                "HTTP/1.1 200 OK\r\nx-archive-orig-content-length: 5\r\nx-archive-orig-content-length: 7\r\n\
                 content-length: 5\r\n\r\n",
            ),
            // Chunks are gone from the body.
            (
                200,
                vec![("Transfer-Encoding", "Chunked"), ("content-encoding", "gzip")],
                5,
                "HTTP/1.1 200 OK\r\nx-archive-orig-transfer-encoding: Chunked\r\ncontent-encoding: gzip\r\n\
                 content-length: 5\r\n\r\n",
            ),
            (
                200,
                vec![("transfer-encoding", "chunked"), ("content-length", "5")],
                5,
                "HTTP/1.1 200 OK\r\nx-archive-orig-transfer-encoding: chunked\r\nx-archive-orig-content-length: 5\r\n\
                 content-length: 5\r\n\r\n",
            ),
            // A coding below the chunks is still there.
            (
                200,
                vec![("transfer-encoding", "gzip, chunked")],
                5,
                "HTTP/1.1 200 OK\r\nx-archive-orig-transfer-encoding: gzip, chunked\r\ntransfer-encoding: gzip\r\n\r\n",
            ),
        ] {
            assert_eq!(stored(status, &headers, body), expected, "{headers:?}");
        }
    }

    #[test]
    fn case_130_values_of_bound_headers_are_not_recorded() {
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_static("*/*"));
        let mut secret = HeaderValue::from_static("canary");
        secret.set_sensitive(true);
        headers.insert("x-api-key", secret);
        let url: Url = "http://h.example:8080/a?b=c".parse().expect("URL");
        assert_eq!(
            String::from_utf8(request(&url, &headers)).expect("text"),
            "GET /a?b=c HTTP/1.1\r\naccept: */*\r\nx-api-key: (not recorded)\r\nhost: h.example:8080\r\n\r\n"
        );
        headers.insert("host", HeaderValue::from_static("other"));
        let text = String::from_utf8(request(&url, &headers)).expect("text");
        assert!(text.contains("host: other") && !text.contains("h.example"), "{text}");
    }
}
