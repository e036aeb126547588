//! What a URL's text means: which host it counts for, whose robots.txt governs it, which page it names.
//!
//! One server has many spellings (case, final dot, default port, IDN, full-width letters); they all end in one
//! [`HostKey`], one [`Authority`] per scheme and one [`fingerprint`]. Parsing is the WHATWG's (crate `url`),
//! stricter where leniency would hide a mistake: no host, an empty port and a zone id are errors.
//! What goes on the wire stays as it was typed, less userinfo and fragment: the [`canonical`] form is for
//! comparing only. No error text here repeats the input, so none can hold a password.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use url::{Position, Url};

use crate::text::Clean;

/// The longest URL that is taken, in bytes (RFC 9110 4.1 asks for 8,000 at least).
pub const URL_MAX_BYTES: usize = 8 * 1024;

/// A host as the unit of politeness: `name[:port]`, lower case, punycode, no final dot, IPv6 in brackets,
/// the port left out where it is the scheme's default. Scheme-independent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostKey(Arc<str>);

impl HostKey {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for HostKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&HostKey> for Clean {
    fn from(key: &HostKey) -> Self {
        Self::new(&*key.0)
    }
}

/// Whose robots.txt governs a URL: scheme, host and port (RFC 9309 2.3), host as in [`HostKey`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Authority(Arc<str>);

impl Authority {
    /// The authority of `url`.
    pub fn of(url: &Url) -> Self {
        Self(authority_text(url).into())
    }

    /// The two authorities that share the bucket `key`: over http and over https.
    pub fn of_key(key: &str) -> [Option<Self>; 2] {
        ["http", "https"].map(|scheme| Url::parse(&format!("{scheme}://{key}/")).ok().map(|url| Self::of(&url)))
    }

    /// Its text, `https://example.com:8443`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where its robots.txt is. `None` cannot happen for an authority of an http(s) URL.
    pub fn robots_url(&self) -> Option<Url> {
        Url::parse(&format!("{}/robots.txt", self.0)).ok()
    }
}

impl Borrow<str> for Authority {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A URL fit for the wire: http or https, with a host, without userinfo and fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// The URL.
    pub url: Url,
    /// Whether there was userinfo, which was thrown away.
    pub userinfo: Userinfo,
    /// What [`fingerprint`] says of it: lists are read on a thread that has the time.
    pub fingerprint: u128,
}

/// What was before the `@` of a URL's authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Userinfo {
    /// Nothing.
    None,
    /// A name or a password; dropped, never stored.
    Removed,
}

/// Why a text is no URL that can be fetched. The text itself is never repeated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum UrlError {
    #[error("longer than {URL_MAX_BYTES} bytes")]
    TooLong,
    #[error("no scheme: write https:// in front")]
    NoScheme,
    #[error("scheme is not http or https")]
    Scheme,
    #[error("no host")]
    NoHost,
    #[error("host is not valid")]
    BadHost,
    #[error("port is not a number from 1 to 65535")]
    BadPort,
    #[error("IPv6 zone id: a zone means nothing beyond this machine, leave it out")]
    ZoneId,
    #[error("not a URL")]
    NotAUrl,
}

/// Parses URLs of which many begin like the one before: scheme, host and port of those are not parsed again.
#[derive(Debug, Default)]
pub struct SerialParser {
    /// The beginning of the last text, up to the path.
    beginning: String,
    /// What it means, once it came twice.
    base: Option<Url>,
}

impl SerialParser {
    /// What [`Url::parse`] says.
    pub fn parse(&mut self, text: &str) -> Result<Url, url::ParseError> {
        let Some(at) = path_at(text) else { return Url::parse(text) };
        let (beginning, path) = text.split_at(at);
        if beginning != self.beginning {
            self.beginning.clear();
            self.beginning.push_str(beginning);
            self.base = None;
            return Url::parse(text);
        }
        match &self.base {
            Some(base) => base.join(path),
            None => {
                let url = Url::parse(text)?;
                self.base = url.join("/").ok();
                Ok(url)
            }
        }
    }
}

/// Where the path begins in an http(s) URL of the plainest form, whose path is one also by itself.
fn path_at(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let host = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']')))?;
    let mut path = rest[host..].chars();
    let is_path = host > 0 && path.next() == Some('/') && !matches!(path.next(), Some('/' | '\\' | '\t' | '\n' | '\r'));
    is_path.then(|| text.len() - rest.len() + host)
}

/// Reads a URL that somebody typed or a list holds. Blanks around it are ignored.
pub fn parse_url(text: &str) -> Result<Address, UrlError> {
    parse_url_with(&mut SerialParser::default(), text)
}

/// The same for one text of many.
pub fn parse_url_with(parser: &mut SerialParser, text: &str) -> Result<Address, UrlError> {
    let text = text.trim();
    if text.len() > URL_MAX_BYTES {
        return Err(UrlError::TooLong);
    }
    // The WHATWG parser drops these anywhere, and so must whoever looks over its shoulder.
    let text: Cow<'_, str> =
        if text.contains(['\t', '\n', '\r']) { text.replace(['\t', '\n', '\r'], "").into() } else { text.into() };
    let rest = after_scheme(&text)?;
    let rest = rest.strip_prefix("//").ok_or(UrlError::NoHost)?;
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    if host_and_port.is_empty() || host_and_port.starts_with(':') {
        return Err(UrlError::NoHost);
    }
    if host_and_port.starts_with('[') && host_and_port.contains('%') {
        return Err(UrlError::ZoneId);
    }
    if host_and_port.ends_with(':') {
        return Err(UrlError::BadPort);
    }
    let mut url = parser.parse(&text).map_err(|error| match error {
        url::ParseError::EmptyHost => UrlError::NoHost,
        url::ParseError::InvalidPort => UrlError::BadPort,
        url::ParseError::IdnaError
        | url::ParseError::InvalidIpv4Address
        | url::ParseError::InvalidIpv6Address
        | url::ParseError::InvalidDomainCharacter => UrlError::BadHost,
        _ => UrlError::NotAUrl,
    })?;
    if url.port() == Some(0) {
        return Err(UrlError::BadPort);
    }
    if bare_host(&url).is_empty() {
        return Err(UrlError::NoHost);
    }
    let userinfo = strip(&mut url);
    // Percent-encoding makes a text up to three times as long.
    if url.as_str().len() > URL_MAX_BYTES {
        return Err(UrlError::TooLong);
    }
    let fingerprint = fingerprint(&url);
    Ok(Address { url, userinfo, fingerprint })
}

/// What follows `http:` or `https:`.
fn after_scheme(text: &str) -> Result<&str, UrlError> {
    let (scheme, rest) = text.split_once(':').ok_or(UrlError::NoScheme)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") {
        Ok(rest)
    } else if scheme.is_empty()
        || !scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        || !scheme.chars().all(is_name)
        || scheme.contains('.')
        || rest.starts_with(|c: char| c.is_ascii_digit())
    {
        // `example.com:8080/x`, `localhost:8080`, `/path?a:b`.
        Err(UrlError::NoScheme)
    } else {
        Err(UrlError::Scheme)
    }
}

/// Takes userinfo and fragment off: what is left may be sent, stored and shown.
pub fn strip(url: &mut Url) -> Userinfo {
    url.set_fragment(None);
    if url.username().is_empty() && url.password().is_none() {
        return Userinfo::None;
    }
    // These fail only for URLs that cannot have userinfo.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Userinfo::Removed
}

/// Whether a URL that was found can be fetched; if so, it is stripped like one that was given.
pub fn is_fit(url: &mut Url) -> bool {
    let fetched = matches!(url.scheme(), "http" | "https") && url.port() != Some(0) && !bare_host(url).is_empty();
    if fetched {
        strip(url);
    }
    fetched && url.as_str().len() <= URL_MAX_BYTES
}

/// The text of [`host_key`].
pub(super) fn host_text(url: &Url) -> Cow<'_, str> {
    name_and_port(url)
}

/// The host that `url` counts for.
pub fn host_key(url: &Url) -> HostKey {
    HostKey(name_and_port(url).into())
}

/// The host without final dots.
fn bare_host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_end_matches('.')
}

/// `name[:port]`; the port only if it is not the scheme's default.
fn name_and_port(url: &Url) -> Cow<'_, str> {
    match url.port() {
        Some(_) if !has_final_dot(url) => url[Position::BeforeHost..Position::AfterPort].into(),
        Some(port) => format!("{}:{port}", bare_host(url)).into(),
        None => bare_host(url).into(),
    }
}

fn has_final_dot(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host.ends_with('.'))
}

/// Whether scheme, host and port stand in `url` as in its [`Authority`].
fn is_plain(url: &Url) -> bool {
    !has_final_dot(url) && url.username().is_empty() && url.password().is_none()
}

/// The text of the authority of `url`.
pub(super) fn authority_text(url: &Url) -> Cow<'_, str> {
    match is_plain(url) {
        true => url[..Position::AfterPort].into(),
        false => format!("{}://{}", url.scheme(), name_and_port(url)).into(),
    }
}

/// The form in which two spellings of one page are equal; for comparing, never sent.
///
/// No userinfo, no fragment, no final dot after the host; `%41` decoded to `A` where the octet is unreserved
/// and `%2f` in upper case (RFC 3986 6.2.2). The rest stays: queries are not sorted, `/` is not added.
pub fn canonical(url: &Url) -> Url {
    Url::parse(&canonical_text(url)).unwrap_or_else(|_| url.clone())
}

/// A 128-bit fingerprint of the canonical form: the key of deduplication.
pub fn fingerprint(url: &Url) -> u128 {
    xxhash_rust::xxh3::xxh3_128(canonical_text(url).as_bytes())
}

fn canonical_text(url: &Url) -> Cow<'_, str> {
    let path = &url[Position::BeforePath..Position::AfterQuery];
    if is_plain(url) && !path.contains('%') {
        return url[..Position::AfterQuery].into();
    }
    let mut text = String::with_capacity(url.as_str().len());
    text.push_str(url.scheme());
    text.push_str("://");
    text.push_str(&name_and_port(url));
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.as_bytes().first_chunk::<2>().and_then(|digits| hex_pair(*digits)) {
            Some(octet) => {
                // A stray percent sign means itself and must not form an escape with what is decoded after it.
                match octet.is_ascii_hexdigit() && ends_in_stray_percent(&text) {
                    true => push_encoded(&mut text, octet),
                    false => push_octet(&mut text, octet),
                }
                rest = &rest[2..];
            }
            None => text.push('%'),
        }
    }
    text.push_str(rest);
    text.into()
}

/// Whether a percent sign stands at the end, or before one last hex digit. Whole escapes end otherwise.
fn ends_in_stray_percent(text: &str) -> bool {
    matches!(text.as_bytes(), [.., b'%']) || matches!(text.as_bytes(), [.., b'%', digit] if digit.is_ascii_hexdigit())
}

/// The octet that two hex digits name.
pub(crate) fn hex_pair(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}

/// Whether an octet means the same with and without percent-encoding (RFC 3986 2.3).
pub(crate) const fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

/// Appends an octet that was percent-encoded: plain if it is unreserved, else in upper-case hex.
fn push_octet(text: &mut String, octet: u8) {
    if is_unreserved(octet) {
        text.push(char::from(octet));
    } else {
        push_encoded(text, octet);
    }
}

/// Appends `%XX`.
pub(crate) fn push_encoded(text: &mut String, octet: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    text.push(char::from(HEX[usize::from(octet >> 4)]));
    text.push(char::from(HEX[usize::from(octet & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn url(text: &str) -> Url {
        parse_url(text).unwrap_or_else(|error| panic!("{text}: {error}")).url
    }

    #[test]
    fn case_54_row_22_twelve_spellings_are_one_host_one_authority_one_page() {
        let spellings = [
            "http://bücher.example/a",
            "http://xn--bcher-kva.example/a",
            "HTTP://BÜCHER.EXAMPLE/a",
            "http://XN--BCHER-KVA.example/a",
            "http://bücher.example:80/a",
            "http://bücher.example./a",
            "http://bücher.example.:80/a",
            "http://ｂücher.example/a",
            "http://bücher。example/a",
            "http://b%C3%BCcher.example/a",
            "http://bu\u{308}cher.example/%61#part",
            "  http://user:secret@bücher.example:0080/./b/../a  ",
        ];
        let urls: Vec<Url> = spellings.iter().map(|text| url(text)).collect();
        let keys: HashSet<_> = urls.iter().map(host_key).collect();
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_eq!(host_key(&urls[0]).as_str(), "xn--bcher-kva.example");
        assert_eq!(urls.iter().map(Authority::of).collect::<HashSet<_>>().len(), 1);
        assert_eq!(urls.iter().map(fingerprint).collect::<HashSet<_>>().len(), 1);

        // The other scheme: the same host, another authority, another page.
        let other = url("https://bücher.example:443/a");
        assert_eq!(host_key(&other), host_key(&urls[0]));
        assert_eq!(Authority::of(&other).as_str(), "https://xn--bcher-kva.example");
        assert_ne!(fingerprint(&other), fingerprint(&urls[0]));
        // On the wire the dot stays.
        assert_eq!(urls[5].host_str(), Some("xn--bcher-kva.example."));
    }

    #[test]
    fn odd_spellings_of_one_address_are_one_host() {
        let spellings = ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "①②⑦.0.0.1", "127.0.0.1."];
        let keys: HashSet<_> = spellings.iter().map(|host| host_key(&url(&format!("http://{host}:8080/")))).collect();
        assert_eq!(keys.into_iter().map(|key| key.to_string()).collect::<Vec<_>>(), ["127.0.0.1:8080"]);
    }

    #[test]
    fn a_port_that_is_not_the_schemes_default_belongs_to_the_host() {
        assert_eq!(host_key(&url("http://h.example:443/")).as_str(), "h.example:443");
        assert_eq!(host_key(&url("https://h.example:443/")).as_str(), "h.example");
        assert_eq!(Authority::of(&url("https://h.example.:8443/x")).as_str(), "https://h.example:8443");
    }

    #[test]
    fn case_55_ipv6_literals_work_and_zones_and_bad_ports_are_errors() {
        let literal = url("http://[::1]:8080/");
        assert_eq!(host_key(&literal).as_str(), "[::1]:8080");
        let robots = Authority::of(&literal).robots_url().map(String::from);
        assert_eq!(robots.as_deref(), Some("http://[::1]:8080/robots.txt"));
        assert_eq!(host_key(&url("http://[::1]/")).as_str(), "[::1]");
        assert_eq!(host_key(&url("http://[0:0::0001]/")).as_str(), "[::1]");

        let rows = [
            ("http://[fe80::1%25eth0]/", UrlError::ZoneId),
            ("http://[fe80::1%eth0]/", UrlError::ZoneId),
            ("http://h:99999/", UrlError::BadPort),
            ("http://h:/", UrlError::BadPort),
            ("http://h:x/", UrlError::BadPort),
            ("http://h:-1/", UrlError::BadPort),
            ("http://h:0/", UrlError::BadPort),
            ("http://[::1", UrlError::BadHost),
            ("http://[::g]/", UrlError::BadHost),
        ];
        for (text, error) in rows {
            assert_eq!(parse_url(text), Err(error), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_named() {
        let long = format!("http://h.example/{}", "a".repeat(URL_MAX_BYTES));
        let grows = format!("http://h.example/{}", "ü".repeat(URL_MAX_BYTES / 4));
        let rows = [
            ("", UrlError::NoScheme),
            ("example.com", UrlError::NoScheme),
            ("example.com:8080/x", UrlError::NoScheme),
            ("localhost:8080", UrlError::NoScheme),
            ("//example.com/", UrlError::NoScheme),
            ("/path?t=1:2", UrlError::NoScheme),
            ("ftp://example.com/", UrlError::Scheme),
            ("file:///etc/passwd", UrlError::Scheme),
            ("javascript:alert(1)", UrlError::Scheme),
            ("http://", UrlError::NoHost),
            ("http:///path", UrlError::NoHost),
            ("http:example.com", UrlError::NoHost),
            ("http://?q", UrlError::NoHost),
            ("http://:80/", UrlError::NoHost),
            ("http://user:pw@/x", UrlError::NoHost),
            ("http://./", UrlError::NoHost),
            ("http://exa mple.com/", UrlError::BadHost),
            ("http://1.2.3.256/", UrlError::BadHost),
            (&long, UrlError::TooLong),
            (&grows, UrlError::TooLong),
        ];
        for (text, error) in rows {
            assert_eq!(parse_url(text), Err(error), "{text:.60}");
        }
    }

    #[test]
    fn case_130_credentials_are_dropped_from_urls_and_absent_from_errors() {
        let inputs = [
            "http://user:CANARY@h.example/",
            "http://user:p@CANARY@h.example/",
            "http://CANARY@h.example/",
            "http://:CANARY@h.example/",
            "http://user:CANARY@h.example:99999/",
            "http://user:CANARY@/",
            "http://user:CANARY@[::1%25eth0]/",
            "http://user:CANARY@exa mple/",
            "CANARY:secret@h.example/",
            "ftp://CANARY@h.example/",
        ];
        for text in inputs {
            let shown = match parse_url(text) {
                Ok(address) => {
                    assert_eq!(address.userinfo, Userinfo::Removed, "{text}");
                    format!("{address:?} {} {}", address.url, canonical(&address.url))
                }
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains("CANARY"), "{shown}");
        }
        assert_eq!(parse_url("http://h.example/@x").map(|a| a.userinfo), Ok(Userinfo::None));
    }

    #[test]
    fn only_what_the_rfc_calls_equivalent_is_equal() {
        let same = [
            ("http://h/%7Euser", "http://h/~user"),
            ("http://h/a%2fb", "http://h/a%2Fb"),
            ("http://h", "http://h/"),
            ("http://h/a/../b", "http://h/b"),
            ("http://h/?q=%61", "http://h/?q=a"),
            ("http://h/ü", "http://h/%c3%bc"),
            ("http://h/#x", "http://h/"),
        ];
        for (left, right) in same {
            assert_eq!(fingerprint(&url(left)), fingerprint(&url(right)), "{left} {right}");
            assert_eq!(canonical(&url(left)), canonical(&url(right)), "{left} {right}");
        }
        let different = [
            ("http://h/a%2Fb", "http://h/a/b"),
            ("http://h/a", "http://h/a/"),
            ("http://h/A", "http://h/a"),
            ("http://h/?a=1&b=2", "http://h/?b=2&a=1"),
            ("http://h/?", "http://h/"),
            ("http://h/%2B", "http://h/+"),
            ("http://h/%", "http://h/%25"),
            ("http://h/%%61%30", "http://h/%a0"),
            ("http://h//a", "http://h/a"),
        ];
        for (left, right) in different {
            assert_ne!(fingerprint(&url(left)), fingerprint(&url(right)), "{left} {right}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_an_error(text in "\\PC{0,60}", prefix in "(http://|https://|http:|)") {
            if let Ok(address) = parse_url(&format!("{prefix}{text}")) {
                let url = address.url;
                prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
                prop_assert!(!host_key(&url).as_str().is_empty() && !host_key(&url).as_str().ends_with('.'));
                prop_assert!(Authority::of(&url).robots_url().is_some());
            }
        }

        #[test]
        fn urls_that_begin_alike_are_parsed_as_each_by_itself(
            begins in "(http://|https://|http:/|HTTP://|)(h|H\\.|127\\.1|\\[::1\\]|u@h|ü)(:80|:8080|:|)",
            rests in proptest::collection::vec("[/\\\\\t]{0,2}[a./?#%20 @:ü\t]{0,8}", 1..5),
        ) {
            let mut parser = SerialParser::default();
            for rest in rests {
                let text = format!("{begins}{rest}");
                prop_assert_eq!(parser.parse(&text), Url::parse(&text), "{:?}", text);
            }
        }

        #[test]
        fn the_shortcuts_mean_what_the_parts_mean(text in "https?://(u@|u:p@|)(h|h\\.|127\\.1|\\[::1\\])(:80|:8080|)/[a?.]{0,4}") {
            let url = Url::parse(&text).expect("a URL");
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let name = format!("{}{port}", bare_host(&url));
            prop_assert_eq!(&*host_text(&url), &name);
            prop_assert_eq!(&*authority_text(&url), format!("{}://{name}", url.scheme()));
            let path = &url[Position::BeforePath..Position::AfterQuery];
            prop_assert_eq!(&*canonical_text(&url), format!("{}://{name}{path}", url.scheme()));
        }

        #[test]
        fn the_canonical_form_is_a_fixed_point(path in "[a-zA-Z0-9/._~%?&=;:@!$'()*+,ü \\\\|-]{0,40}", escapes in proptest::collection::vec(any::<u8>(), 0..6)) {
            let mut text = format!("http://h.example/{path}");
            for octet in escapes {
                push_encoded(&mut text, octet);
            }
            let url = url(&text);
            let once = canonical(&url);
            prop_assert_eq!(&canonical(&once), &once);
            prop_assert_eq!(fingerprint(&once), fingerprint(&url));
        }
    }
}
