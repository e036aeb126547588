//! The links of one HTML page, gathered while it streams and resolved when it has ended.
//!
//! `a` and `area`, `frame` and `iframe`, `link rel=next|canonical|alternate`, `meta http-equiv=refresh`; not
//! `rel=nofollow`, if that is obeyed. `base href` counts for the whole page, also for what stands before it, so
//! nothing is resolved before the end. At most [`LINKS_MAX`] different links of [`BYTES_MAX`] bytes are kept.

use std::borrow::Cow;
use std::collections::HashSet;

use encoding_rs::{Encoding, UTF_8};
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

use super::charset::Transcoder;
use super::directives::Directives;
use super::tokenizer::{Attribute, Element, Tag, Tokenizer};
use super::{Found, Link, Rules, entities};
use crate::crawl::address::{fingerprint, is_fit};

/// Different links of one page at most; further ones are counted.
pub const LINKS_MAX: usize = 10_000;
/// Bytes of them as written, at most.
pub const BYTES_MAX: usize = 2 << 20;

/// A page being read.
pub struct Page {
    transcoder: Transcoder,
    tokenizer: Tokenizer,
    gathered: Gathered,
    url: Url,
}

/// What was found so far.
struct Gathered {
    obey: bool,
    agent: String,
    base: Option<String>,
    /// As written, character references decoded.
    links: Vec<Box<str>>,
    known: HashSet<u64>,
    bytes: usize,
    left_out: u32,
    directives: Directives,
}

impl Page {
    /// The page at `url` with this Content-Type; `directives` are those of its header.
    pub fn new(url: Url, content_type: &str, directives: Directives, rules: &Rules) -> Self {
        Self {
            transcoder: Transcoder::of_html(content_type),
            tokenizer: Tokenizer::default(),
            gathered: Gathered {
                obey: rules.obey,
                agent: rules.agent.clone(),
                base: None,
                links: Vec::new(),
                known: HashSet::new(),
                bytes: 0,
                left_out: 0,
                directives,
            },
            url,
        }
    }

    /// Takes decoded bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        let Self { transcoder, tokenizer, gathered, .. } = self;
        transcoder.push(bytes, &mut |text| tokenizer.push(text, &mut |tag| gathered.take(tag)));
    }

    /// The page is over.
    pub fn finish(mut self, rules: &Rules) -> Found {
        let Self { transcoder, tokenizer, gathered, .. } = &mut self;
        transcoder.finish(&mut |text| tokenizer.push(text, &mut |tag| gathered.take(tag)));
        let encoding = self.transcoder.encoding().output_encoding();
        self.gathered.resolve(&self.url, encoding, rules)
    }
}

impl Gathered {
    fn take(&mut self, tag: &Tag<'_>) {
        let value = |attribute| tag.value(attribute).map(entities::decode);
        match tag.element {
            Element::A | Element::Area => {
                if !(self.obey && has_word(tag, &["nofollow"])) {
                    self.link(tag.value(Attribute::Href));
                }
            }
            Element::Frame | Element::Iframe => self.link(tag.value(Attribute::Src)),
            Element::Link => {
                let wanted = has_word(tag, &["next", "canonical", "alternate"]) && !has_word(tag, &["stylesheet"]);
                if wanted && !(self.obey && has_word(tag, &["nofollow"])) {
                    self.link(tag.value(Attribute::Href));
                }
            }
            // The first one with a href counts (HTML 4.2.3).
            Element::Base => {
                if self.base.is_none() {
                    self.base = value(Attribute::Href);
                }
            }
            Element::Meta => {
                let Some(content) = value(Attribute::Content) else { return };
                let name = value(Attribute::Name).unwrap_or_default();
                // A crawler whose product token is empty has no name that a page could call.
                let names = |ours: &str| !ours.is_empty() && name.trim().eq_ignore_ascii_case(ours);
                if names("robots") || names(&self.agent) {
                    self.directives.read(&content);
                }
                let refreshes =
                    value(Attribute::HttpEquiv).is_some_and(|value| value.trim().eq_ignore_ascii_case("refresh"));
                if let Some(target) = refresh_target(&content).filter(|_| refreshes) {
                    self.keep(target.to_owned());
                }
            }
        }
    }

    fn link(&mut self, written: Option<&[u8]>) {
        let Some(written) = written else { return };
        // A place on this page is this page, and most pages have many of them.
        if written.first() != Some(&b'#') {
            self.keep(entities::decode(written));
        }
    }

    fn keep(&mut self, text: String) {
        if !self.known.insert(xxh3_64(text.as_bytes())) {
            return;
        }
        if self.links.len() >= LINKS_MAX || self.bytes + text.len() > BYTES_MAX {
            // Not kept, so that it is not known either: memory has its end here, too.
            self.known.remove(&xxh3_64(text.as_bytes()));
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.bytes += text.len();
        self.links.push(text.into());
    }

    fn resolve(self, url: &Url, encoding: &'static Encoding, rules: &Rules) -> Found {
        if self.obey && self.directives.nofollow {
            return Found::default();
        }
        let mut found = Found { left_out: self.left_out, ..Found::default() };
        let base = self.base.and_then(|base| url.join(&base).ok());
        // A base that cannot be one is none (HTML 4.2.3: also data: and javascript:).
        let base = base.filter(|base| matches!(base.scheme(), "http" | "https")).unwrap_or_else(|| url.clone());
        let mut known = HashSet::with_capacity(self.links.len());
        known.insert(fingerprint(url));
        for text in &self.links {
            let Some(target) = resolve(&base, text, encoding) else { continue };
            let fingerprint = fingerprint(&target);
            if known.insert(fingerprint) && rules.wants(&target) {
                found.links.push(Link { url: target, fingerprint });
            }
        }
        found
    }
}

/// Where a link leads, if it can be fetched. Queries are in the page's encoding, as in a browser.
fn resolve(base: &Url, text: &str, encoding: &'static Encoding) -> Option<Url> {
    let mut target = match encoding == UTF_8 {
        true => base.join(text),
        false => {
            let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|text| encoding.encode(text).0;
            Url::options().base_url(Some(base)).encoding_override(Some(encode)).parse(text)
        }
    }
    .ok()?;
    is_fit(&mut target).then_some(target)
}

/// Whether `rel` has one of these words.
fn has_word(tag: &Tag<'_>, words: &[&str]) -> bool {
    let Some(rel) = tag.value(Attribute::Rel) else { return false };
    let rel = entities::decode(rel);
    rel.split_ascii_whitespace().any(|word| words.iter().any(|wanted| word.eq_ignore_ascii_case(wanted)))
}

/// Where `<meta http-equiv=refresh>` leads (HTML, "shared declarative refresh steps"); `None` if it stays.
fn refresh_target(content: &str) -> Option<&str> {
    let rest = content.trim_ascii_start();
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if after.len() == rest.len() {
        return None;
    }
    let rest = after.trim_ascii_start();
    let separated = rest.strip_prefix([';', ',']);
    if separated.is_none() && rest.len() == after.len() {
        return None;
    }
    let rest = separated.unwrap_or(rest).trim_ascii_start();
    let named = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("url")).and_then(|_| {
        let rest = rest[3..].trim_ascii_start().strip_prefix('=')?;
        Some(rest.trim_ascii_start())
    });
    let rest = named.unwrap_or(rest);
    let target = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].split(quote).next().unwrap_or_default(),
        _ => rest,
    };
    (!target.is_empty()).then_some(target)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(content_type: &str, html: &[u8], step: usize) -> Found {
        read_as("foobot", content_type, html, step)
    }

    fn read_as(agent: &str, content_type: &str, html: &[u8], step: usize) -> Found {
        let rules = Rules { obey: true, agent: agent.into(), ..Rules::default() };
        let url = Url::parse("http://h.example/dir/page?q").expect("valid");
        let mut page = Page::new(url, content_type, Directives::default(), &rules);
        for piece in html.chunks(step) {
            page.push(piece);
        }
        page.finish(&rules)
    }

    fn links(html: &str) -> Vec<String> {
        let found = read("text/html", html.as_bytes(), 11);
        found.links.iter().map(|link| link.url.to_string()).collect()
    }

    #[test]
    fn what_is_a_link_and_where_it_leads() {
        let rows: &[(&str, &[&str])] = &[
            (
                "<a href=x><area href=/y><a href=\"//o.example/z#f\">",
                &["http://h.example/dir/x", "http://h.example/y", "http://o.example/z"],
            ),
            ("<a href=x><a href=./x><a href='x#a'><a href=%78>", &["http://h.example/dir/x"]),
            ("<a href='#top'><a href=''><a href='page?q'>", &[]),
            ("<a href='?a=1&amp;b=2'>", &["http://h.example/dir/page?a=1&b=2"]),
            ("<a href='?a=1&copy=2'>", &["http://h.example/dir/page?a=1&copy=2"]),
            ("<a href=' x\n'>", &["http://h.example/dir/x"]),
            ("<a href='HTTP://user:pw@O.example:80/'>", &["http://o.example/"]),
            ("<a href=mailto:a@b><a href=javascript:x()><a href=data:,x><a href=ftp://h/><a href=tel:1>", &[]),
            ("<a href='http://'><a href='http://h:0/'><a href='http://h:99999/'><a href='http://[fe80::1%25e]/'>", &[]),
            ("<iframe src=f></iframe><frame src=g>", &["http://h.example/dir/f", "http://h.example/dir/g"]),
            (
                "<link rel=next href=n><link rel='CANONICAL x' href=c><link rel=alternate href=a>",
                &["http://h.example/dir/n", "http://h.example/dir/c", "http://h.example/dir/a"],
            ),
            (
                "<link rel=stylesheet href=s><link rel='alternate stylesheet' href=s><link href=s><link rel=icon href=i>",
                &[],
            ),
            // The first base counts, for everything.
            (
                "<a href=x><base target=_top><base href=/b/><base href=/c/><a href=y>",
                &["http://h.example/b/x", "http://h.example/b/y"],
            ),
            ("<base href='data:,x'><a href=x>", &["http://h.example/dir/x"]),
            (
                "<base href='http://o.example/q/'><a href=x><a href=''>",
                &["http://o.example/q/x", "http://o.example/q/"],
            ),
            ("<meta http-equiv=Refresh content='5; url=r'>", &["http://h.example/dir/r"]),
            ("<meta http-equiv=refresh content=5><meta name=x content='0;url=r'>", &[]),
            ("<a href=x rel='noopener NoFollow'><a href=y rel=noreferrer>", &["http://h.example/dir/y"]),
            ("<a href=x><meta name=robots content='noindex, nofollow'>", &[]),
            ("<a href=x><meta name=FooBot content=none>", &[]),
            (
                "<a href=x><meta name=otherbot content=none><meta name=robots content='noindex, max-image-preview: none'>",
                &["http://h.example/dir/x"],
            ),
            ("<!-- <a href=x> --><script>\"<a href=y>\"</script>", &[]),
        ];
        for (html, expected) in rows {
            assert_eq!(links(html), *expected, "{html}");
        }
    }

    #[test]
    fn a_crawler_without_a_name_is_called_by_no_page() {
        let html = b"<a href=x><meta content=nofollow><meta name='' content=nofollow>";
        assert_eq!(read_as("", "text/html", html, 9).links.len(), 1);
        assert_eq!(read_as("", "text/html", b"<a href=x><meta name=' ROBOTS ' content=nofollow>", 9).links, []);
    }

    #[test]
    fn refreshes_as_the_standard_reads_them() {
        for (content, expected) in [
            ("5; url=x", Some("x")),
            ("0;URL='x y' z", Some("x y")),
            ("0, url = \"x", Some("x")),
            ("  1.5 url=x", Some("x")),
            ("0;x", Some("x")),
            ("0 x", Some("x")),
            ("0;url", Some("url")),
            ("0;url=", None),
            ("0;", None),
            ("0", None),
            ("5x", None),
            ("url=x", None),
            ("; url=x", None),
            ("", None),
        ] {
            assert_eq!(refresh_target(content), expected, "{content}");
        }
    }

    #[test]
    fn row_27_queries_are_in_the_encoding_of_the_page_and_paths_are_not() {
        let found = read("text/html; charset=latin1", b"<a href='/\xe9?\xe9'>", 3);
        assert_eq!(found.links[0].url.as_str(), "http://h.example/%C3%A9?%E9");
        let found = read("text/html", "<a href='/é?é'>".as_bytes(), 3);
        assert_eq!(found.links[0].url.as_str(), "http://h.example/%C3%A9?%C3%A9");
    }

    #[test]
    fn row_19_a_page_of_a_hundred_thousand_links_has_its_end() {
        let html: String = (0..100_000).map(|n| format!("<a href=/{n}>")).collect();
        let found = read("text/html", html.as_bytes(), 4_096);
        assert_eq!((found.links.len(), found.left_out), (LINKS_MAX, 90_000));
        // Longer than a URL may be; what follows is read all the same.
        for bytes in [9, 64, 8 * 1024].map(|kib| kib * 1024) {
            let long = format!("<a href=/{}><a href=/next>", "x".repeat(bytes));
            assert_eq!(links(&long), ["http://h.example/next"], "{bytes} bytes");
        }
        let many: String = (0..1_000).map(|n| format!("<a href=/{n}{}>", "x".repeat(4 * 1024))).collect();
        let found = read("text/html", many.as_bytes(), 4_096);
        assert!(found.links.len() < 600 && found.left_out > 400, "{}", found.links.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne_however_they_are_cut(
            html in proptest::collection::vec(any::<u8>(), 0..200),
            charset in "(utf-8|utf-16|shift_jis|latin1|iso-2022-jp|gb18030|)",
            step in 1_usize..9,
        ) {
            let html = [b"<a href='x".as_slice(), &html, b"'><base href=/b><a href=y>"].concat();
            let content_type = format!("text/html; charset={charset}");
            let shown = |step| {
                let found = read(&content_type, &html, step);
                found.links.into_iter().map(|link| link.url.to_string()).collect::<Vec<_>>()
            };
            prop_assert_eq!(shown(step), shown(1_000));
        }
    }
}
