//! The URLs of a sitemap (sitemaps.org), while it streams: `urlset`, `sitemapindex`, or text, a URL a line.
//!
//! A scanner for just this much XML: tags, text, CDATA, comments and references; a DOCTYPE is passed over, so
//! there are no entities to explode. At most [`URLS_MAX`] entries count, as the format has it; the limit of its
//! bytes is the fetcher's, and a `.gz` is undone there, too. Only absolute http(s) URLs are taken. Whether a URL
//! belongs to the sitemap's host is for the crawl's scope to say.

use super::charset::Transcoder;
use super::{Found, Link, Rules, entities};
use crate::crawl::address::{URL_MAX_BYTES, fingerprint, parse_url};

/// Entries of one sitemap at most (sitemaps.org).
pub const URLS_MAX: usize = 50_000;
/// Bytes of one entry that are kept: a URL of which every character is a reference of five.
const TEXT_MAX: usize = 5 * URL_MAX_BYTES;
/// Bytes of an element's name that are kept.
const NAME_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before the first byte that is not blank.
    Begin,
    /// A URL a line.
    Lines,
    Text,
    TagOpen,
    Name,
    /// In a tag after its name; in quotes, if there is a quote.
    Tag(Option<u8>),
    /// After `<!`, so many bytes of which are kept in `name`.
    Declaration,
    Comment(u8),
    Cdata(u8),
    Instruction(bool),
    /// In a DOCTYPE: depth of brackets, quote.
    Doctype(u8, Option<u8>),
}

/// What the entry at hand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    None,
    Url,
    Sitemap,
}

/// A sitemap being read.
pub struct Sitemap {
    transcoder: Transcoder,
    scanner: Scanner,
}

impl Sitemap {
    /// The sitemap with this Content-Type.
    pub fn new(content_type: &str) -> Self {
        Self { transcoder: Transcoder::of_xml(content_type), scanner: Scanner::default() }
    }

    /// Takes decoded bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        let Self { transcoder, scanner } = self;
        transcoder.push(bytes, &mut |text| scanner.push(text));
    }

    /// The sitemap is over.
    pub fn finish(mut self, rules: &Rules) -> Found {
        let Self { transcoder, scanner } = &mut self;
        transcoder.finish(&mut |text| scanner.push(text));
        self.scanner.finish(rules)
    }
}

/// What is read of it, in UTF-8.
#[derive(Debug)]
struct Scanner {
    state: State,
    closing: bool,
    name: Vec<u8>,
    /// The prefix of the root's name, `sm:` of `sm:urlset`.
    prefix: Option<Vec<u8>>,
    root: bool,
    entry: Entry,
    in_loc: bool,
    /// Text as written, then what of it is decoded.
    text: Vec<u8>,
    value: String,
    links: Vec<Link>,
    sitemaps: Vec<Link>,
    bad: u32,
    left_out: u32,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            state: State::Begin,
            closing: false,
            name: Vec::new(),
            prefix: None,
            root: false,
            entry: Entry::None,
            in_loc: false,
            text: Vec::new(),
            value: String::new(),
            links: Vec::new(),
            sitemaps: Vec::new(),
            bad: 0,
            left_out: 0,
        }
    }
}

impl Scanner {
    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(&byte) = bytes.first() {
            let used = match self.state {
                State::Text if !self.in_loc => memchr::memchr(b'<', bytes).unwrap_or(bytes.len()),
                State::Text | State::Lines => {
                    let end = memchr::memchr2(b'<', b'\n', bytes).unwrap_or(bytes.len());
                    self.keep(&bytes[..end]);
                    end
                }
                State::Tag(None) => memchr::memchr3(b'>', b'"', b'\'', bytes).unwrap_or(bytes.len()),
                _ => 0,
            };
            if used > 0 {
                bytes = bytes.get(used..).unwrap_or_default();
            } else if self.step(byte) {
                bytes = &bytes[1..];
            }
        }
    }

    fn finish(mut self, rules: &Rules) -> Found {
        if self.state == State::Lines {
            self.line();
        }
        let note = match (self.root || self.state == State::Lines, self.left_out, self.bad) {
            (false, ..) => Some(String::from("this is no sitemap")),
            (_, 0, 0) => None,
            (_, 0, bad) => Some(format!("{bad} entries of the sitemap are no URLs")),
            (_, more, _) => Some(format!("the sitemap has {more} entries more than {URLS_MAX}: left out")),
        };
        self.links.retain(|link| rules.wants(&link.url));
        Found { links: self.links, sitemaps: self.sitemaps, left_out: self.left_out, note }
    }

    /// One byte. Whether it was used: if not, it is looked at again in another state.
    fn step(&mut self, byte: u8) -> bool {
        self.state = match self.state {
            State::Begin if byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf) => State::Begin,
            State::Begin => {
                self.state = if byte == b'<' { State::Text } else { State::Lines };
                return false;
            }
            State::Lines if byte == b'\n' => {
                self.line();
                State::Lines
            }
            State::Lines => {
                self.keep(&[byte]);
                State::Lines
            }
            State::Text if byte == b'<' => {
                self.name.clear();
                self.closing = false;
                State::TagOpen
            }
            State::Text => {
                self.keep(&[byte]);
                State::Text
            }
            State::TagOpen => match byte {
                b'/' => {
                    self.closing = true;
                    State::Name
                }
                b'!' => State::Declaration,
                b'?' => State::Instruction(false),
                _ => {
                    self.state = State::Name;
                    return false;
                }
            },
            State::Name => match byte {
                b'>' => self.tag(false),
                b'/' => {
                    self.tag(true);
                    State::Tag(None)
                }
                _ if byte.is_ascii_whitespace() => {
                    self.tag(false);
                    State::Tag(None)
                }
                _ => {
                    if self.name.len() < NAME_MAX {
                        self.name.push(byte);
                    }
                    State::Name
                }
            },
            State::Tag(None) => match byte {
                b'>' => State::Text,
                b'"' | b'\'' => State::Tag(Some(byte)),
                _ => State::Tag(None),
            },
            State::Tag(Some(quote)) => State::Tag((byte != quote).then_some(quote)),
            State::Declaration => {
                self.name.push(byte);
                match self.name.as_slice() {
                    b"--" => State::Comment(0),
                    b"[CDATA[" => {
                        self.decode();
                        State::Cdata(0)
                    }
                    part if b"--".starts_with(part) || b"[CDATA[".starts_with(part) => State::Declaration,
                    _ => {
                        self.state = State::Doctype(0, None);
                        return false;
                    }
                }
            }
            State::Comment(dashes) => match byte {
                b'-' => State::Comment((dashes + 1).min(2)),
                b'>' if dashes == 2 => State::Text,
                _ => State::Comment(0),
            },
            State::Cdata(brackets) => self.cdata(byte, brackets),
            State::Instruction(question) => match byte {
                b'>' if question => State::Text,
                _ => State::Instruction(byte == b'?'),
            },
            State::Doctype(depth, Some(quote)) => State::Doctype(depth, (byte != quote).then_some(quote)),
            State::Doctype(depth, None) => match byte {
                b'"' | b'\'' => State::Doctype(depth, Some(byte)),
                b'[' => State::Doctype(depth.saturating_add(1), None),
                b']' => State::Doctype(depth.saturating_sub(1), None),
                b'>' if depth == 0 => State::Text,
                _ => State::Doctype(depth, None),
            },
        };
        true
    }

    fn cdata(&mut self, byte: u8, brackets: u8) -> State {
        match byte {
            b']' if brackets == 2 => self.push_plain(b"]"),
            b']' => return State::Cdata(brackets + 1),
            b'>' if brackets == 2 => return State::Text,
            _ => {
                let held: &[u8] = &b"]]"[..usize::from(brackets)];
                self.push_plain(held);
                self.push_plain(&[byte]);
                return State::Cdata(0);
            }
        }
        State::Cdata(2)
    }

    /// Text of a CDATA section: no references in it. Bytes beyond ASCII are kept until they are whole.
    fn push_plain(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'&' => self.keep(b"&amp;"),
                _ => self.keep(&[*byte]),
            }
        }
    }

    /// A tag's name is whole. What comes after it, if the tag ends here.
    fn tag(&mut self, empty: bool) -> State {
        let colon = self.name.iter().position(|byte| *byte == b':').map_or(0, |at| at + 1);
        let (prefix, name) = self.name.split_at(colon);
        if self.prefix.is_none() && !self.closing {
            self.root = matches!(name, b"urlset" | b"sitemapindex");
            self.prefix = Some(prefix.to_vec());
        }
        if self.prefix.as_deref() != Some(prefix) {
            // Of an extension: images have a `loc`, too.
            return State::Text;
        }
        match (name, self.closing || empty) {
            (b"url", false) => self.entry = Entry::Url,
            (b"sitemap", false) => self.entry = Entry::Sitemap,
            (b"url" | b"sitemap", true) => self.entry = Entry::None,
            (b"loc", false) => {
                self.in_loc = true;
                self.text.clear();
                self.value.clear();
            }
            (b"loc", true) if self.in_loc => {
                self.in_loc = false;
                self.decode();
                let value = std::mem::take(&mut self.value);
                self.take(&value);
            }
            _ => {}
        }
        State::Text
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = TEXT_MAX.saturating_sub(self.text.len());
        self.text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn decode(&mut self) {
        self.value += &entities::decode(&self.text);
        self.text.clear();
    }

    fn line(&mut self) {
        let text = std::mem::take(&mut self.text);
        let line = String::from_utf8_lossy(&text);
        if !line.trim().is_empty() {
            self.entry = Entry::Url;
            self.take(&line);
        }
    }

    fn take(&mut self, value: &str) {
        if self.entry == Entry::None {
            return;
        }
        if self.links.len() + self.sitemaps.len() >= URLS_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let Ok(address) = parse_url(value) else {
            self.bad = self.bad.saturating_add(1);
            return;
        };
        let link = Link { fingerprint: fingerprint(&address.url), url: address.url };
        match self.entry {
            Entry::Sitemap => self.sitemaps.push(link),
            Entry::Url | Entry::None => self.links.push(link),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &[u8], step: usize) -> Found {
        let mut sitemap = Sitemap::new("");
        for piece in body.chunks(step) {
            sitemap.push(piece);
        }
        sitemap.finish(&Rules::default())
    }

    fn urls(links: &[Link]) -> Vec<&str> {
        links.iter().map(|link| link.url.as_str()).collect()
    }

    #[test]
    fn sitemaps_as_they_are_written() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("<urlset><url><loc>http://h/a</loc></url></urlset>", &["http://h/a"], &[]),
            (
                "\u{feff}<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a \"]>\">]>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\
                 <!-- <url><loc>http://h/no</loc></url> --><url>\n<loc>\n http://h/a?x=1&amp;y=2 </loc><lastmod>2026</lastmod></url>\
                 <url><loc><![CDATA[http://h/b?x=1&y=]]]]><![CDATA[2]]></loc></url></urlset>",
                &["http://h/a?x=1&y=2", "http://h/b?x=1&y=]]2"],
                &[],
            ),
            (
                "<sm:urlset xmlns:sm='x' xmlns:image='y'><sm:url><sm:loc>http://h/a</sm:loc><image:image><image:loc>http://h/no</image:loc>\
                 </image:image></sm:url></sm:urlset>",
                &["http://h/a"],
                &[],
            ),
            (
                "<sitemapindex><sitemap><loc>http://h/1.xml</loc></sitemap><sitemap><loc>http://h/2.xml.gz</loc></sitemap></sitemapindex>",
                &[],
                &["http://h/1.xml", "http://h/2.xml.gz"],
            ),
            (
                "<urlset><url><loc>/relative</loc></url><url><loc>http://h/&a;&#x62;</loc></url><loc>http://h/no</loc>",
                &["http://h/&a;b"],
                &[],
            ),
            ("<urlset><url/><url><loc/><loc>http://h/p&#233;</loc></url>", &["http://h/p%C3%A9"], &[]),
            (
                "http://h/a\r\n\n  http://h/b\nnonsense\nhttp://h/c<d",
                &["http://h/a", "http://h/b", "http://h/c%3Cd"],
                &[],
            ),
            ("", &[], &[]),
            ("<html><a href=x>", &[], &[]),
        ];
        for (body, links, sitemaps) in rows {
            for step in [1, 2, 7, 10_000] {
                let found = read(body.as_bytes(), step);
                assert_eq!((urls(&found.links), urls(&found.sitemaps)), (links.to_vec(), sitemaps.to_vec()), "{body}");
            }
        }
        let note = |body: &str| read(body.as_bytes(), 100).note.unwrap_or_default();
        assert_eq!(note("<html><body>no</body>"), "this is no sitemap");
        assert_eq!(note("<urlset><url><loc>x</loc></url>"), "1 entries of the sitemap are no URLs");
        assert_eq!(note("<urlset></urlset>"), "");
    }

    #[test]
    fn row_27_a_sitemap_is_in_the_encoding_of_its_mark_or_as_it_says() {
        let xml =
            "<?xml version='1.0' encoding='UTF-16'?><urlset><url><loc>http://h/\u{e9}?a&amp;b</loc></url></urlset>";
        let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        let latin =
            b"<?xml version=\"1.0\" encoding = \"iso-8859-1\" ?><urlset><url><loc>http://h/\xe9?a&amp;b</loc></url>";
        let rows: &[(&str, &str, Vec<u8>)] = &[
            ("marked, little endian", "", wide(&format!("\u{feff}{xml}"), u16::to_le_bytes)),
            ("marked, big endian", "", wide(&format!("\u{feff}{xml}"), u16::to_be_bytes)),
            ("a list", "text/plain", wide("\u{feff}http://h/\u{e9}?a&b\r\n", u16::to_le_bytes)),
            ("a mark beats the header", "text/xml; charset=utf-8", wide(&format!("\u{feff}{xml}"), u16::to_le_bytes)),
            ("by the header", "text/xml; charset=utf-16be", wide(xml, u16::to_be_bytes)),
            ("by its first bytes", "", wide(xml, u16::to_le_bytes)),
            ("by its first bytes, big endian", "", wide(xml, u16::to_be_bytes)),
            ("by its declaration", "application/xml", latin.to_vec()),
            ("a declaration of UTF-16 that is readable", "", xml.as_bytes().to_vec()),
            ("nobody says", "", "http://h/\u{e9}?a&b".as_bytes().to_vec()),
        ];
        for (name, content_type, body) in rows {
            for step in [1, 5, 10_000] {
                let mut sitemap = Sitemap::new(content_type);
                body.chunks(step).for_each(|piece| sitemap.push(piece));
                let found = sitemap.finish(&Rules::default());
                assert_eq!((urls(&found.links), found.note), (vec!["http://h/%C3%A9?a&b"], None), "{name}, {step}");
            }
        }
    }

    #[test]
    fn case_66_fifty_thousand_entries_count_and_no_more() {
        let body: String = (0..URLS_MAX + 5).map(|n| format!("http://h/{n}\n")).collect();
        let found = read(body.as_bytes(), 4_096);
        assert_eq!((found.links.len(), found.left_out), (URLS_MAX, 5));
        assert_eq!(found.note.as_deref(), Some("the sitemap has 5 entries more than 50000: left out"));
    }

    #[test]
    fn row_03_entities_do_not_explode_and_an_endless_entry_is_kept_short() {
        let bomb = "<!DOCTYPE l [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]><urlset><url><loc>http://h/&b;</loc></url>";
        assert_eq!(urls(&read(bomb.as_bytes(), 9).links), ["http://h/&b;"]);
        let mut sitemap = Sitemap::new("");
        sitemap.push(b"<urlset><url><loc>http://h/");
        for _ in 0..1_000 {
            sitemap.push(&[b'x'; 4_096]);
        }
        assert!(sitemap.scanner.text.len() <= TEXT_MAX);
        sitemap.push(b"</loc>");
        assert_eq!(sitemap.finish(&Rules::default()).links, []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne_however_they_are_cut(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "<urlset>", "<url>", "<loc>", "http://h/", "</loc>", "</url>", "<![CDATA[", "]", "]>", "<!--", "-", "-->", "&amp;", "é",
                    "<!DOCTYPE", "[", "'", "\"", "<?", "?>", "<", ">", "/", " ", "\n", "<sitemap>", "x:", "!", "\u{feff}",
                ]),
                0..25,
            ),
            step in 1_usize..9,
        ) {
            let body = pieces.concat();
            prop_assert_eq!(read(body.as_bytes(), step), read(body.as_bytes(), 10_000));
        }
    }
}
