//! What a simulated site holds: linked pages, a robots.txt, redirects.
//!
//! A body is described, not built: only who sends it over a socket pays for its bytes.

use std::fmt::Write;
use std::time::Duration;

/// A site. Its pages are `/p/0`, `/p/1`, …; `/` is the first of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// How many pages.
    pub pages: u32,
    /// Its robots.txt; `None` = it has none (404).
    pub robots: Option<Robots>,
    /// Its redirects, if it has any.
    pub redirects: Option<Redirects>,
}

/// A robots.txt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Robots {
    /// The gap it asks for.
    pub crawl_delay: Option<Duration>,
    /// The path prefix it keeps to itself.
    pub disallow: Option<String>,
}

/// Redirects: `/r/N` leads to `/p/N` over some hops, `/away/N` to another host, `/loop` to itself,
/// `/ring/a` and `/ring/b` to each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Redirects {
    /// Hops from `/r/N` to `/p/N`, >= 1.
    pub hops: u32,
    /// Where `/away/N` leads: a base URL without a final slash, such as `http://steady.demo`.
    pub away: Option<String>,
}

/// A body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SimBody {
    /// None.
    #[default]
    Empty,
    /// A short text.
    Text(String),
    /// Page `number` of `pages`, as HTML.
    Page {
        /// Which.
        number: u32,
        /// Of how many.
        pages: u32,
    },
}

impl SimBody {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Empty => Vec::new(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Page { number, pages } => page(*number, *pages).into_bytes(),
        }
    }
}

/// What the site says to a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) content_type: &'static str,
    pub(super) body: SimBody,
}

impl Found {
    fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, location: None, content_type: "text/plain", body: SimBody::Text(text.into()) }
    }

    fn redirect(location: String) -> Self {
        Self { status: 302, location: Some(location), content_type: "text/plain", body: SimBody::Empty }
    }
}

impl Site {
    /// A site of nothing but `pages` linked pages.
    pub const fn of_pages(pages: u32) -> Self {
        Self { pages, robots: None, redirects: None }
    }

    /// The paths worth asking for, in order: pages, or the redirects that lead to them, and some that
    /// robots.txt keeps out.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = match &self.redirects {
            None => (0..self.pages).map(|k| format!("/p/{k}")).collect(),
            Some(redirects) => {
                // Every fifth leads away, if there is somewhere to go.
                let away = |k: u32| redirects.away.is_some() && k % 5 == 4;
                let mut paths: Vec<String> =
                    (0..self.pages).map(|k| format!("/{}/{k}", if away(k) { "away" } else { "r" })).collect();
                paths.extend(["/loop".to_owned(), "/ring/a".to_owned()]);
                paths
            }
        };
        if let Some(prefix) = self.robots.as_ref().and_then(|robots| robots.disallow.as_ref()) {
            paths.extend((0..self.pages.div_ceil(10)).map(|k| format!("{prefix}{k}")));
        }
        paths
    }

    /// The answer to `path` (a query is ignored).
    pub(super) fn find(&self, path: &str) -> Found {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let number = second.and_then(|text| text.parse::<u32>().ok()).filter(|number| *number < self.pages);
        match (first, number, &self.redirects) {
            ("", None, _) if second.is_none() && self.pages > 0 => self.page(0),
            ("p", Some(number), _) if third.is_none() => self.page(number),
            ("robots.txt", None, _) => self.robots(),
            ("r", Some(number), Some(redirects)) => {
                let hop: u32 = third.and_then(|text| text.parse().ok()).unwrap_or(0);
                let location =
                    if hop + 1 >= redirects.hops { format!("/p/{number}") } else { format!("/r/{number}/{}", hop + 1) };
                Found::redirect(location)
            }
            ("away", Some(number), Some(Redirects { away: Some(base), .. })) => {
                Found::redirect(format!("{base}/p/{number}"))
            }
            ("loop", None, Some(_)) => Found::redirect("/loop".to_owned()),
            ("ring", None, Some(_)) => Found::redirect(if second == Some("a") { "/ring/b" } else { "/ring/a" }.into()),
            _ => match self.robots.as_ref().and_then(|robots| robots.disallow.as_deref()) {
                Some(prefix) if path.starts_with(prefix) => Found::text(200, "robots.txt asked not to come here\n"),
                _ => Found::text(404, "not found\n"),
            },
        }
    }

    const fn page(&self, number: u32) -> Found {
        let body = SimBody::Page { number, pages: self.pages };
        Found { status: 200, location: None, content_type: "text/html; charset=utf-8", body }
    }

    fn robots(&self) -> Found {
        let Some(robots) = &self.robots else { return Found::text(404, "not found\n") };
        let mut text = "User-agent: *\n".to_owned();
        if let Some(delay) = robots.crawl_delay {
            text += &format!("Crawl-delay: {}\n", delay.as_secs_f64());
        }
        if let Some(prefix) = &robots.disallow {
            text += &format!("Disallow: {prefix}\n");
        }
        Found::text(200, text)
    }
}

/// Page `number`: it links to the two below it in a tree, and to the next, so that every page can be
/// found from the first.
fn page(number: u32, pages: u32) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>Page {number}</title></head>\n<body><h1>Page {number} \
         of {pages}</h1>\n<ul>\n"
    );
    for link in [2 * u64::from(number) + 1, 2 * u64::from(number) + 2, u64::from(number) + 1] {
        if link < u64::from(pages) {
            // Writing to a string cannot fail.
            let _ = writeln!(html, "<li><a href=\"/p/{link}\">page {link}</a></li>");
        }
    }
    html += "</ul></body></html>\n";
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirecting() -> Site {
        let redirects = Redirects { hops: 3, away: Some("http://steady.demo".into()) };
        Site { pages: 10, robots: None, redirects: Some(redirects) }
    }

    #[test]
    fn every_page_can_be_found_from_the_first() {
        let site = Site::of_pages(61);
        let mut found = std::collections::BTreeSet::from([String::from("/p/0")]);
        let mut queue = vec![String::from("/")];
        while let Some(path) = queue.pop() {
            let answer = site.find(&path);
            assert_eq!(answer.status, 200, "{path}");
            let html = String::from_utf8(answer.body.bytes()).expect("text");
            for link in html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                if found.insert(link.to_owned()) {
                    queue.push(link.to_owned());
                }
            }
        }
        assert_eq!(found.len(), 61);
        assert_eq!(found, site.paths().into_iter().collect());
    }

    #[test]
    fn a_chain_ends_at_its_page_and_a_loop_never() {
        let site = redirecting();
        let mut path = "/r/7".to_owned();
        let mut hops = 0;
        while let Some(location) = site.find(&path).location {
            path = location;
            hops += 1;
        }
        assert_eq!((path.as_str(), hops), ("/p/7", 3));
        assert_eq!(site.find("/away/4").location.as_deref(), Some("http://steady.demo/p/4"));
        assert_eq!(site.find("/loop").location.as_deref(), Some("/loop"));
        assert_eq!(site.find("/ring/a").location.as_deref(), Some("/ring/b"));
        assert_eq!(site.find("/ring/b").location.as_deref(), Some("/ring/a"));
    }

    #[test]
    fn paths_that_do_not_exist_are_404() {
        for path in ["/p/10", "/p/x", "/p/1/2", "/q", "/robots.txt", "/p/99999999999", "/away"] {
            assert_eq!(redirecting().find(path).status, 404, "{path}");
        }
        assert_eq!(Site::of_pages(3).find("/r/1").status, 404);
        assert_eq!(Site::of_pages(3).find("/p/1?x=y").status, 200);
    }

    #[test]
    fn robots_says_what_it_asks_for() {
        let robots = Robots { crawl_delay: Some(Duration::from_millis(1_500)), disallow: Some("/private/".into()) };
        let site = Site { pages: 20, robots: Some(robots), redirects: None };
        let text = String::from_utf8(site.find("/robots.txt").body.bytes()).expect("text");
        assert_eq!(text, "User-agent: *\nCrawl-delay: 1.5\nDisallow: /private/\n");
        assert_eq!(site.paths().iter().filter(|path| path.starts_with("/private/")).count(), 2);
        assert_eq!(site.find("/private/0").status, 200, "it would answer: keeping out is the crawler's part");
    }
}
