//! A cookie jar per host, for sites that redirect until a cookie is set (`network.cookies`).
//!
//! A cookie is sent to the host that set it and to nobody else, whatever its Domain says. One that came
//! over https is never sent over http. All is bounded: see the constants. Nothing is persisted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cookie_store::{CookieStore, RawCookie};
use reqwest::header::{HeaderMap, HeaderValue, SET_COOKIE};
use url::Url;

use crate::crawl::address::host_key;

/// Hosts that have a jar; beyond that the jar that was used least recently goes.
pub(super) const JARS_MAX: usize = 10_000;
/// Cookies of one host; more are not taken.
pub(super) const COOKIES_MAX: usize = 50;
/// Bytes of one cookie; a longer one is not taken.
pub(super) const COOKIE_BYTES_MAX: usize = 4096;

/// All jars.
#[derive(Default)]
pub(super) struct Jars {
    /// A lock, because requests run side by side; held for one look-up, never across an await.
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    jars: HashMap<String, Jar>,
    uses: u64,
}

struct Jar {
    store: CookieStore,
    used: u64,
}

/// What a response did to the jar of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    /// Whether a cookie came, went or got another value.
    pub(super) changed: bool,
    /// Cookies that were too large or too many.
    pub(super) refused: usize,
}

impl Jars {
    /// The Cookie header of a request to `url`, if there is anything to send.
    pub(super) fn header(&self, url: &Url) -> Option<HeaderValue> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.uses += 1;
        let uses = inner.uses;
        let jar = inner.jars.get_mut(host_key(url).as_str())?;
        jar.used = uses;
        let pairs: Vec<String> =
            jar.store.get_request_values(url).map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() {
            return None;
        }
        let mut value = HeaderValue::from_str(&pairs.join("; ")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Takes the cookies that a response from `url` sets.
    pub(super) fn take(&self, url: &Url, headers: &HeaderMap) -> Taken {
        let mut taken = Taken { changed: false, refused: 0 };
        if !headers.contains_key(SET_COOKIE) {
            return taken;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.uses += 1;
        let uses = inner.uses;
        let key = host_key(url).as_str().to_owned();
        if !inner.jars.contains_key(&key) && inner.jars.len() >= JARS_MAX {
            let oldest = inner.jars.iter().min_by_key(|(_, jar)| jar.used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                inner.jars.remove(&oldest);
            }
        }
        let jar = inner.jars.entry(key).or_insert_with(|| Jar { store: CookieStore::default(), used: uses });
        jar.used = uses;
        let before = contents(&jar.store);
        for value in headers.get_all(SET_COOKIE) {
            let text = String::from_utf8_lossy(value.as_bytes());
            let Ok(mut cookie) = RawCookie::parse(text.as_ref()) else { continue };
            let is_full = jar.store.iter_any().count() >= COOKIES_MAX
                && !jar.store.iter_any().any(|known| known.name() == cookie.name());
            if text.len() > COOKIE_BYTES_MAX || is_full {
                taken.refused += 1;
                continue;
            }
            if url.scheme() == "https" {
                cookie.set_secure(true);
            }
            // One that its own attributes forbid (a foreign Domain) is dropped, as browsers do.
            let _ = jar.store.insert_raw(&cookie.into_owned(), url);
        }
        taken.changed = contents(&jar.store) != before;
        taken
    }
}

/// The live cookies of a jar, in a form that can be compared.
fn contents(store: &CookieStore) -> Vec<(String, String, String)> {
    let mut all: Vec<_> = store
        .iter_unexpired()
        .map(|cookie| {
            (cookie.path().unwrap_or_default().to_owned(), cookie.name().to_owned(), cookie.value().to_owned())
        })
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("URL")
    }

    fn set(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(SET_COOKIE, HeaderValue::from_str(value).expect("header"));
        }
        headers
    }

    fn sent(jars: &Jars, to: &str) -> Option<String> {
        jars.header(&url(to)).map(|value| value.to_str().expect("text").to_owned())
    }

    #[test]
    fn a_cookie_goes_back_to_its_own_host_only() {
        let jars = Jars::default();
        let taken = jars.take(&url("http://www.a.example/"), &set(&["id=1; Domain=a.example; Path=/"]));
        assert_eq!(taken, Taken { changed: true, refused: 0 });
        assert_eq!(sent(&jars, "http://www.a.example/x").as_deref(), Some("id=1"));
        assert_eq!(sent(&jars, "http://api.a.example/"), None);
        assert_eq!(sent(&jars, "http://b.example/"), None);
    }

    #[test]
    fn only_a_new_value_is_a_change() {
        let jars = Jars::default();
        let home = url("http://a.example/");
        assert!(jars.take(&home, &set(&["id=1"])).changed);
        assert!(!jars.take(&home, &set(&["id=1"])).changed);
        assert!(jars.take(&home, &set(&["id=2"])).changed);
        assert!(jars.take(&home, &set(&["id=2; Max-Age=0"])).changed);
        assert_eq!(sent(&jars, "http://a.example/"), None);
    }

    #[test]
    fn case_46_a_cookie_from_https_is_not_sent_over_http() {
        let jars = Jars::default();
        jars.take(&url("https://a.example:8443/"), &set(&["id=1"]));
        assert!(sent(&jars, "https://a.example:8443/").is_some());
        assert_eq!(sent(&jars, "http://a.example:8443/"), None);
    }

    #[test]
    fn jars_and_cookies_are_bounded() {
        let jars = Jars::default();
        let many: Vec<String> = (0..COOKIES_MAX + 5).map(|n| format!("c{n}=1")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(jars.take(&url("http://a.example/"), &set(&many)).refused, 5);
        let long = format!("long={}", "x".repeat(COOKIE_BYTES_MAX));
        assert_eq!(jars.take(&url("http://b.example/"), &set(&[&long])), Taken { changed: false, refused: 1 });
        for host in 0..=JARS_MAX {
            jars.take(&url(&format!("http://h{host}.example/")), &set(&["id=1"]));
        }
        assert_eq!(jars.inner.lock().expect("lock").jars.len(), JARS_MAX);
        assert_eq!(sent(&jars, "http://a.example/"), None, "the oldest jar went");
        assert!(sent(&jars, "http://h10000.example/").is_some());
    }
}
