//! Request headers: those of every request, and those that are bound to one host.
//!
//! Bound headers (API keys) go only to requests whose own host matches the rule, so a redirect cannot
//! carry them elsewhere. A host that was ever asked over https gets them over http no more: a downgrade
//! would show them to the network (FAULTS.md case 46). Values are marked sensitive and never printed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::Url;

use super::FetcherError;
use crate::config::HostRule;

/// Hosts remembered as asked over https; once full, no host gets bound headers over http.
const SECURE_HOSTS_MAX: usize = 10_000;

/// Names that a rule must not set, because the fetcher or the client does.
const RESERVED: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade", "te"];

/// The headers of requests.
pub(super) struct RequestHeaders {
    always: HeaderMap,
    /// A lock, because the operator may have the configuration read again while requests run side by side; held
    /// for copying or replacing a pointer.
    rules: RwLock<Arc<Rules>>,
    /// A lock, because requests run side by side; held for one look-up, never across an await.
    secure: Mutex<HashSet<String>>,
}

/// The rules that headers are bound by.
struct Rules {
    hosts: Arc<[HostRule]>,
    /// Headers of each rule.
    bound: Vec<HeaderMap>,
}

impl Rules {
    fn try_new(hosts: Arc<[HostRule]>) -> Result<Arc<Self>, FetcherError> {
        let bound = hosts.iter().map(bound_headers).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { hosts, bound }))
    }
}

impl RequestHeaders {
    /// Checks and prepares all headers.
    pub(super) fn try_new(user_agent: &str, rules: Arc<[HostRule]>) -> Result<Self, FetcherError> {
        let mut always = HeaderMap::new();
        // Given away for good, one text a fetcher: a counted one is cloned and dropped several times a request, and
        // all threads would count in the same place.
        let user_agent = Bytes::from_static(String::leak(user_agent.to_owned()).as_bytes());
        let user_agent = HeaderValue::from_maybe_shared(user_agent).map_err(|_| FetcherError::UserAgent)?;
        always.insert(USER_AGENT, user_agent);
        always.insert(ACCEPT, HeaderValue::from_static("*/*"));
        always.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate, br, zstd"));
        Ok(Self { always, rules: RwLock::new(Rules::try_new(rules)?), secure: Mutex::new(HashSet::new()) })
    }

    /// Requests from now on carry the headers of these rules; on an error those of before.
    pub(super) fn set_rules(&self, rules: Arc<[HostRule]>) -> Result<(), FetcherError> {
        let rules = Rules::try_new(rules)?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// The headers of a request to `url`, and whether bound ones were held back.
    pub(super) fn of(&self, url: &Url) -> (HeaderMap, Withheld) {
        let mut headers = self.always.clone();
        let rules = Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner));
        if rules.bound.is_empty() {
            return (headers, Withheld::Nothing);
        }
        let host = crate::crawl::address::host_key(url).as_str().to_owned();
        let Some(index) = rules.hosts.iter().position(|rule| rule.pattern.is_match(&host)) else {
            return (headers, Withheld::Nothing);
        };
        let Some(bound) = rules.bound.get(index).filter(|bound| !bound.is_empty()) else {
            return (headers, Withheld::Nothing);
        };
        if !self.may_send(url, host) {
            return (headers, Withheld::Bound);
        }
        for (name, value) in bound {
            headers.insert(name, value.clone());
        }
        (headers, Withheld::Nothing)
    }

    /// Whether bound headers may go to `url`; remembers hosts that were asked over https.
    fn may_send(&self, url: &Url, host: String) -> bool {
        let mut secure = self.secure.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = secure.len() < SECURE_HOSTS_MAX;
        if url.scheme() == "https" {
            if has_room {
                secure.insert(host);
            }
            return true;
        }
        has_room && !secure.contains(&host)
    }
}

/// Whether headers bound to the host were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Withheld {
    /// None were.
    Nothing,
    /// They were, because the host was asked over https before.
    Bound,
}

/// The headers of one rule.
fn bound_headers(rule: &HostRule) -> Result<HeaderMap, FetcherError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &rule.headers {
        let invalid = |reason| FetcherError::Header { host: rule.pattern_text.clone(), name: name.clone(), reason };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("is no valid header name"))?;
        if RESERVED.contains(&header.as_str()) {
            return Err(invalid("is set by the fetcher itself"));
        }
        let mut value = HeaderValue::from_str(&value.0).map_err(|_| invalid("has a value that cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecretString;

    fn rules(entries: &[(&str, &str, &str)]) -> Arc<[HostRule]> {
        entries
            .iter()
            .map(|(pattern, name, value)| HostRule {
                pattern: globset::Glob::new(pattern).expect("glob").compile_matcher(),
                pattern_text: (*pattern).to_owned(),
                headers: vec![((*name).to_owned(), SecretString((*value).to_owned()))],
                endpoints: Vec::new(),
                inherits: Default::default(),
            })
            .collect()
    }

    fn sent(headers: &RequestHeaders, url: &str) -> Option<String> {
        let (map, _) = headers.of(&url.parse().expect("URL"));
        map.get("x-api-key").map(|value| value.to_str().expect("text").to_owned())
    }

    #[test]
    fn other_rules_bind_other_headers_and_wrong_ones_change_nothing() {
        let headers = RequestHeaders::try_new("test", rules(&[("api.example", "X-Api-Key", "one")])).expect("valid");
        let url = Url::parse("https://api.example/").expect("valid");
        let sent = || headers.of(&url).0.get("x-api-key").map(|value| value.as_bytes().to_vec());
        headers.set_rules(rules(&[("api.example", "X-Api-Key", "two")])).expect("valid");
        assert_eq!(sent(), Some(b"two".to_vec()));
        assert!(headers.set_rules(rules(&[("api.example", "Upgrade", "h2c")])).is_err());
        assert_eq!(sent(), Some(b"two".to_vec()));
        headers.set_rules(rules(&[])).expect("valid");
        assert_eq!(sent(), None);
    }

    #[test]
    fn case_47_bound_headers_go_to_their_host_only_and_the_first_rule_wins() {
        let rules = rules(&[("api.example", "X-Api-Key", "one"), ("*.example", "X-Api-Key", "two")]);
        let headers = RequestHeaders::try_new("test", rules).expect("valid");
        assert_eq!(sent(&headers, "http://api.example/").as_deref(), Some("one"));
        assert_eq!(sent(&headers, "http://API.example./").as_deref(), Some("one"));
        assert_eq!(sent(&headers, "http://www.example/").as_deref(), Some("two"));
        assert_eq!(sent(&headers, "http://api.example:8080/"), None);
        assert_eq!(sent(&headers, "http://other.test/"), None);
    }

    #[test]
    fn case_46_after_https_bound_headers_never_go_over_http_again() {
        let headers = RequestHeaders::try_new("test", rules(&[("h:8443", "X-Api-Key", "one")])).expect("valid");
        assert!(sent(&headers, "https://h:8443/").is_some());
        assert!(sent(&headers, "http://h:8443/").is_none());
        assert_eq!(headers.of(&"http://h:8443/".parse().expect("URL")).1, Withheld::Bound);
        assert!(sent(&headers, "https://h:8443/").is_some());
        assert!(sent(&headers, "http://h:8443/").is_none());
    }

    #[test]
    fn case_130_errors_about_headers_do_not_print_values() {
        for (name, value) in [("X-Api-Key", "canary\nsecret"), ("bad name", "canary"), ("Host", "canary")] {
            let Err(error) = RequestHeaders::try_new("test", rules(&[("h", name, value)])) else {
                panic!("{name} must be refused");
            };
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
    }
}
