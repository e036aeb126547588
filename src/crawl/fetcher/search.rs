//! Whether a response is searched for links, and with what.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use url::Url;

use crate::control::RequestKind;
use crate::crawl::links::directives::Directives;
use crate::crawl::links::page::Page;
use crate::crawl::links::sitemap::Sitemap;
use crate::crawl::links::{Rules, Search};

/// A search to run over a body.
pub(super) struct Wanted {
    pub(super) search: Search,
    pub(super) rules: Arc<Rules>,
}

/// The search for the response with this head; `None` if it cannot lead anywhere.
pub(super) fn begin(
    url: &Url,
    kind: RequestKind,
    status: StatusCode,
    headers: &HeaderMap,
    rules: Arc<Rules>,
) -> Option<Wanted> {
    if !status.is_success() {
        return None;
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let search = match kind {
        RequestKind::Sitemap => Search::Sitemap(Box::new(Sitemap::new(content_type))),
        RequestKind::Page | RequestKind::Redirect => {
            let directives = directives(headers, &rules.agent);
            if !is_html(content_type) || (rules.obey && directives.nofollow) {
                return None;
            }
            Search::Page(Box::new(Page::new(url.clone(), content_type, directives, &rules)))
        }
        RequestKind::Robots | RequestKind::Feed => return None,
    };
    Some(Wanted { search, rules })
}

/// Whether a body of this type is HTML; one without a type is taken for it.
fn is_html(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.is_empty() || ["text/html", "application/xhtml+xml"].iter().any(|html| essence.eq_ignore_ascii_case(html))
}

/// What `X-Robots-Tag` says, in all its lines.
fn directives(headers: &HeaderMap, agent: &str) -> Directives {
    let mut directives = Directives::default();
    for value in headers.get_all("x-robots-tag") {
        directives.read_header(&String::from_utf8_lossy(value.as_bytes()), agent);
    }
    directives
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn is_searched(status: u16, headers: &[(&str, &str)], obey: bool) -> bool {
        let url = Url::parse("http://h.example/").expect("valid");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let rules = Arc::new(Rules { obey, agent: "foobot".into(), ..Rules::default() });
        let status = StatusCode::from_u16(status).expect("a status");
        begin(&url, RequestKind::Page, status, &map, rules).is_some()
    }

    #[test]
    fn html_that_went_well_and_may_be_followed_is_searched() {
        for (status, headers, expected) in [
            (200, vec![("content-type", "text/html; charset=utf-8")], true),
            (203, vec![("content-type", "Application/XHTML+XML")], true),
            (200, vec![], true),
            (404, vec![("content-type", "text/html")], false),
            (200, vec![("content-type", "text/plain")], false),
            (200, vec![("content-type", "application/pdf")], false),
            (200, vec![("x-robots-tag", "noindex")], true),
            (200, vec![("x-robots-tag", "noindex"), ("x-robots-tag", "NoFollow")], false),
            (200, vec![("x-robots-tag", "foobot: none")], false),
            (200, vec![("x-robots-tag", "otherbot: none")], true),
            (200, vec![("x-robots-tag", "otherbot: noindex, foobot: nofollow")], false),
            (200, vec![("x-robots-tag", "foobot: index, otherbot: nofollow")], true),
            // A new line begins without a name.
            (200, vec![("x-robots-tag", "otherbot: noindex"), ("x-robots-tag", "nofollow")], false),
        ] {
            assert_eq!(is_searched(status, &headers, true), expected, "{status} {headers:?}");
        }
        assert!(is_searched(200, &[("x-robots-tag", "nofollow")], false), "robots are not respected");
    }
}
