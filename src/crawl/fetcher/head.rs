//! Reading the head of a response: limits, where a redirect leads, how long it may be kept.

use std::time::Duration;

use reqwest::header::{CACHE_CONTROL, CONTENT_LENGTH, DATE, HeaderMap, LOCATION, TRANSFER_ENCODING};
use url::Url;

use super::client::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::clock::Clock;
use crate::control::{Hint, hints};

/// Longest target of a redirect, in bytes, as received.
const LOCATION_MAX: usize = 16 * 1024;

/// Says which of our limits the header block passes, if any.
pub(super) fn over_limit(headers: &HeaderMap) -> Option<String> {
    if headers.len() > HEADERS_MAX {
        return Some(format!("{} headers, the limit is {HEADERS_MAX}", headers.len()));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    (bytes > HEADER_BYTES_MAX).then(|| format!("{bytes} bytes of headers, the limit is {HEADER_BYTES_MAX}"))
}

/// What the headers say of the server's limit. An epoch is measured against the response's own Date.
pub(super) fn hint(headers: &HeaderMap, clock: &dyn Clock) -> Option<Hint> {
    let date =
        headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(|date| httpdate::parse_http_date(date).ok());
    let date = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok()).map(|date| date.as_secs_f64());
    let now = date.unwrap_or_else(|| clock.wall().0 as f64 / 1e6);
    let read = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    hints::parse(read, now)
}

/// The wait in a vendor's own header.
pub(super) fn vendor_wait(headers: &HeaderMap) -> Option<Duration> {
    hints::vendor_wait(headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))))
}

/// Whether a redirect of this status has to say where to.
pub(super) const fn must_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads: resolved, without credentials and fragment; or why it leads nowhere. The
/// reason repeats nothing of the target, which may hold secrets.
pub(super) fn location(base: &Url, headers: &HeaderMap) -> Result<Url, String> {
    let Some(value) = headers.get(LOCATION) else {
        return Err(String::from("the redirect has no Location"));
    };
    if value.len() > LOCATION_MAX {
        return Err(format!("the redirect's Location has {} bytes, the limit is {LOCATION_MAX}", value.len()));
    }
    let text = escape_broken_utf8(value.as_bytes());
    if text.trim().is_empty() {
        return Err(String::from("the redirect's Location is empty"));
    }
    let mut target = base.join(text.trim()).map_err(|error| format!("the redirect's Location is no URL: {error}"))?;
    if !matches!(target.scheme(), "http" | "https") {
        let scheme: String = target.scheme().chars().take(20).collect();
        return Err(format!("the redirect leads to the scheme {scheme}, which is not followed"));
    }
    let stripped = target.set_username("").and_then(|()| target.set_password(None));
    if stripped.is_err() || !target.has_host() {
        return Err(String::from("the redirect's Location has no host"));
    }
    target.set_fragment(None);
    Ok(target)
}

/// UTF-8 stays; of anything else each byte above ASCII is percent-encoded, so that a server which sends
/// latin-1 gets back just the bytes it sent.
fn escape_broken_utf8(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for byte in bytes {
        if byte.is_ascii() {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// `max-age` of Cache-Control; the smallest, if there are several.
pub(super) fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .filter_map(|directive| {
            let (name, value) = directive.trim().split_once('=')?;
            let digits = value.trim().trim_matches('"');
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            // A number that does not fit is a very long time.
            (name.trim().eq_ignore_ascii_case("max-age") && is_number)
                .then(|| Duration::from_secs(digits.parse().unwrap_or(u64::from(u32::MAX))))
        })
        .min()
}

/// Length and chunks both announced: a sign of request smuggling (RFC 9112 6.3).
pub(super) fn has_framing_anomaly(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn target(value: &[u8]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(value).expect("header"));
        location(&"https://first.example/dir/page?token=abc".parse().expect("URL"), &headers).map(String::from)
    }

    #[test]
    fn row_05_redirect_targets_are_resolved_and_stripped() {
        for (value, expected) in [
            ("/next", "https://first.example/next"),
            ("next?q=1#part", "https://first.example/dir/next?q=1"),
            ("//other.example/x", "https://other.example/x"),
            ("http://user:pass@other.example/", "http://other.example/"),
            ("HTTP://OTHER.example:80/", "http://other.example/"),
            (" /spaced ", "https://first.example/spaced"),
            ("/päth", "https://first.example/p%C3%A4th"),
        ] {
            assert_eq!(target(value.as_bytes()).as_deref(), Ok(expected), "{value}");
        }
        assert_eq!(target(b"/caf\xe9").as_deref(), Ok("https://first.example/caf%E9"));
    }

    #[test]
    fn redirects_that_lead_nowhere_say_why_without_repeating_the_target() {
        for value in [
            "file:///etc/canary",
            "data:text/html,canary",
            "javascript:canary()",
            "ftp://canary.example/",
            "http://canary:99999/",
            "http://[canary/",
            "///canary/x",
            "",
        ] {
            let reason = target(value.as_bytes()).expect_err(value);
            assert!(!reason.contains("canary"), "{reason}");
        }
        assert!(target(b"http://caf\xe9.example/").is_err());
        assert!(location(&"http://a.example/".parse().expect("URL"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn max_age_is_read() {
        for (value, expected) in [
            ("max-age=60", Some(60)),
            ("public, Max-Age=\"120\"", Some(120)),
            ("max-age=99999999999999999999999", Some(u64::from(u32::MAX))),
            ("max-age=-5", None),
            ("s-maxage=60", None),
            ("no-store", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
            assert_eq!(max_age(&headers), expected.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn header_blocks_are_limited() {
        let mut headers = HeaderMap::new();
        for _ in 0..HEADERS_MAX {
            headers.append("x", HeaderValue::from_static("y"));
        }
        assert_eq!(over_limit(&headers), None);
        headers.append("x", HeaderValue::from_static("y"));
        assert!(over_limit(&headers).is_some());
        let mut headers = HeaderMap::new();
        headers.insert("x", HeaderValue::from_bytes(&vec![b'y'; HEADER_BYTES_MAX]).expect("header"));
        assert!(over_limit(&headers).is_some());
    }
}
