//! Which encoding a page or a sitemap is in, and its text in UTF-8, as it streams.
//!
//! A byte order mark decides, else the charset of Content-Type, else the first [`PRESCAN`] bytes: a `<meta>` of HTML
//! (13.2.3.2), an XML declaration (XML 1.0, F.1). Where nobody says, a page is UTF-8 if these bytes are that, else
//! windows-1252; XML is UTF-8.

use encoding_rs::{Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

use super::tokenizer::{Attribute, Element, Tokenizer};

/// Bytes at the beginning that are searched for a `<meta>` or a declaration.
pub const PRESCAN: usize = 1024;
/// Decoded bytes in one step.
const STEP: usize = 8 * 1024;

/// What a text is, and so where it says how it is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Language {
    Html,
    Xml,
}

/// Makes UTF-8 of what is pushed in.
pub struct Transcoder {
    language: Language,
    header: Option<&'static Encoding>,
    /// The beginning, until it is long enough to judge.
    head: Vec<u8>,
    found: Option<&'static Encoding>,
    /// None = it is UTF-8 and passes as it is.
    decoder: Option<Decoder>,
    buffer: Vec<u8>,
}

impl Transcoder {
    /// For a page whose Content-Type is this.
    pub fn of_html(content_type: &str) -> Self {
        Self::of(Language::Html, content_type)
    }

    /// For XML, or a list of URLs, whose Content-Type is this.
    pub fn of_xml(content_type: &str) -> Self {
        Self::of(Language::Xml, content_type)
    }

    fn of(language: Language, content_type: &str) -> Self {
        let header = label_in(content_type).and_then(|label| Encoding::for_label(label.as_bytes()));
        Self { language, header, head: Vec::new(), found: None, decoder: None, buffer: Vec::new() }
    }

    /// The encoding, once it is known.
    pub fn encoding(&self) -> &'static Encoding {
        self.found.unwrap_or(UTF_8)
    }

    /// Takes bytes and gives UTF-8 on (where the page is UTF-8, as broken as it came).
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(&[u8])) {
        if self.found.is_some() {
            self.decode(bytes, false, out);
            return;
        }
        let room = PRESCAN.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        if self.head.len() >= PRESCAN {
            self.begin(out);
            self.decode(rest, false, out);
        }
    }

    /// No more bytes come.
    pub fn finish(&mut self, out: &mut dyn FnMut(&[u8])) {
        if self.found.is_none() {
            self.begin(out);
        }
        self.decode(&[], true, out);
    }

    fn begin(&mut self, out: &mut dyn FnMut(&[u8])) {
        let head = std::mem::take(&mut self.head);
        let (encoding, mark) = match Encoding::for_bom(&head) {
            Some((encoding, mark)) => (encoding, mark),
            None => (self.header.unwrap_or_else(|| self.language.encoding_of(&head)), 0),
        };
        self.found = Some(encoding);
        self.decoder = (encoding != UTF_8).then(|| encoding.new_decoder_without_bom_handling());
        self.decode(&head[mark..], false, out);
    }

    fn decode(&mut self, mut bytes: &[u8], last: bool, out: &mut dyn FnMut(&[u8])) {
        let Some(decoder) = &mut self.decoder else {
            if !bytes.is_empty() {
                out(bytes);
            }
            return;
        };
        self.buffer.resize(STEP, 0);
        loop {
            let (result, read, written, _) = decoder.decode_to_utf8(bytes, &mut self.buffer, last);
            out(&self.buffer[..written]);
            bytes = &bytes[read..];
            if result == encoding_rs::CoderResult::InputEmpty {
                return;
            }
        }
    }
}

impl Language {
    /// The encoding of what begins with `head`, without a mark.
    fn encoding_of(self, head: &[u8]) -> &'static Encoding {
        match head {
            [b'<', 0, b'?', 0, b'x', 0, ..] => return UTF_16LE,
            [0, b'<', 0, b'?', 0, b'x', ..] => return UTF_16BE,
            _ => {}
        }
        let declared = match self {
            Self::Html => meta_in(head),
            Self::Xml => declaration_in(head),
        };
        match declared {
            // Whoever could read that as ASCII did not read UTF-16 (HTML 13.2.3.2).
            Some(found) if found == UTF_16BE || found == UTF_16LE => UTF_8,
            Some(found) if found == X_USER_DEFINED => WINDOWS_1252,
            Some(found) => found,
            None if self == Self::Xml => UTF_8,
            None => guess(head),
        }
    }
}

/// The charset of a Content-Type.
fn label_in(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let charset = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(charset.1.trim().trim_matches(['"', '\'']))
}

/// The encoding that the first `<meta>` names which names one.
fn meta_in(head: &[u8]) -> Option<&'static Encoding> {
    let mut found = None;
    Tokenizer::default().push(head, &mut |tag| {
        if tag.element != Element::Meta || found.is_some() {
            return;
        }
        let is_type = tag
            .value(Attribute::HttpEquiv)
            .is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"content-type"));
        let label = tag.value(Attribute::Charset).or_else(|| {
            let content = tag.value(Attribute::Content).filter(|_| is_type)?;
            charset_in(content)
        });
        found = label.and_then(Encoding::for_label);
    });
    found
}

/// The encoding that an XML declaration names.
fn declaration_in(head: &[u8]) -> Option<&'static Encoding> {
    const NAME: &[u8] = b"encoding";
    let rest = head.trim_ascii_start().strip_prefix(b"<?xml")?;
    let declaration = &rest[..memchr::memmem::find(rest, b"?>")?];
    let at = memchr::memmem::find(declaration, NAME)?;
    let value = declaration[at + NAME.len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (quote, value) = value.split_first().filter(|(quote, _)| matches!(quote, b'"' | b'\''))?;
    Encoding::for_label(&value[..memchr::memchr(*quote, value)?])
}

/// The charset that a `<meta>`'s content names anywhere in it (HTML, "extracting a character encoding from a meta
/// element"): unlike a Content-Type it needs no semicolon.
fn charset_in(content: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset";
    let mut rest = content;
    let value = loop {
        let at = rest.windows(NAME.len()).position(|word| word.eq_ignore_ascii_case(NAME))?;
        rest = rest[at + NAME.len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            break value.trim_ascii_start();
        }
    };
    match value {
        [] => None,
        // A quote that nothing closes: nobody knows where the name ends.
        [quote @ (b'"' | b'\''), value @ ..] => value.iter().position(|byte| byte == quote).map(|end| &value[..end]),
        _ => value.split(|byte| byte.is_ascii_whitespace() || *byte == b';').next(),
    }
}

fn guess(head: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(head) {
        Ok(_) => UTF_8,
        // Cut in the middle of a character.
        Err(error) if error.error_len().is_none() && head.len() >= PRESCAN => UTF_8,
        Err(_) => WINDOWS_1252,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, bytes: &[u8], step: usize) -> (String, &'static str) {
        let (mut transcoder, mut text) = (Transcoder::of_html(content_type), Vec::new());
        for piece in bytes.chunks(step) {
            transcoder.push(piece, &mut |piece| text.extend_from_slice(piece));
        }
        transcoder.finish(&mut |piece| text.extend_from_slice(piece));
        (String::from_utf8_lossy(&text).into_owned(), transcoder.encoding().name())
    }

    #[test]
    fn row_27_mark_then_header_then_meta_then_a_guess() {
        let utf16: Vec<u8> = "\u{feff}é".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let meta = b"<meta charset=koi8-r>\xc1";
        let equiv = b"<!-- <meta charset=utf-8> --><META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=\"latin1\"'>\xe9";
        let rows: &[(&str, &[u8], &str, &str)] = &[
            ("text/html; charset=koi8-r", b"\xef\xbb\xbf\xc3\xa9", "é", "UTF-8"),
            ("text/html; charset=utf-8", &utf16, "é", "UTF-16LE"),
            ("text/html;Charset=\"ISO-8859-1\"", meta, "<meta charset=koi8-r>Á", "windows-1252"),
            ("text/html", meta, "<meta charset=koi8-r>а", "KOI8-R"),
            ("text/html; charset=nonsense", meta, "<meta charset=koi8-r>а", "KOI8-R"),
            ("text/html; charset=shift_jis", b"\x82\xa0", "あ", "Shift_JIS"),
            ("text/html", b"<meta charset=utf-16>\xc3\xa9", "<meta charset=utf-16>é", "UTF-8"),
            ("text/html; charset=utf-7", b"\xc3\xa9", "é", "UTF-8"),
            ("", b"\xc3\xa9", "é", "UTF-8"),
            ("", b"\xe9", "é", "windows-1252"),
            ("", b"", "", "UTF-8"),
        ];
        for (content_type, bytes, text, name) in rows {
            for step in [1, 3, 1_000] {
                assert_eq!(read(content_type, bytes, step), ((*text).to_owned(), *name), "{content_type} {step}");
            }
        }
        let (text, name) = read("text/html", equiv, 7);
        assert!(text.ends_with('é') && name == "windows-1252", "{text} {name}");
    }

    #[test]
    fn row_27_a_meta_names_its_charset_with_or_without_a_semicolon() {
        for (content, expected) in [
            ("text/html; charset=koi8-r", Some("koi8-r")),
            ("text/html charset=koi8-r", Some("koi8-r")),
            ("charset=koi8-r", Some("koi8-r")),
            ("text/html;charset \t=\n koi8-r ; x", Some("koi8-r")),
            ("text/html; CharSet=koi8-r x", Some("koi8-r")),
            ("x; charset='koi8-r' y", Some("koi8-r")),
            ("x; charset=\"koi8-r;\" y", Some("koi8-r;")),
            ("charset is charset=koi8-r", Some("koi8-r")),
            ("charsetcharset=koi8-r", Some("koi8-r")),
            ("charset=\"koi8-r", None),
            ("charset='koi8-r\"", None),
            ("charset=koi8-r\"", Some("koi8-r\"")),
            ("charset=", None),
            ("charset", None),
            ("text/html; koi8-r", None),
            ("", None),
        ] {
            let found = charset_in(content.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{content}");
        }
        let rows: &[(&[u8], &str)] = &[
            (b"<meta http-equiv=content-type content='text/html charset=koi8-r'>\xc1", "KOI8-R"),
            (b"<meta content=charset=koi8-r http-equiv=Content-Type>\xc1", "KOI8-R"),
            (b"<meta name=x content='charset=koi8-r'>\xc1", "windows-1252"),
            (b"<meta charset=nonsense><meta charset=koi8-r>\xc1", "KOI8-R"),
            (b"<meta charset=x-user-defined>\xc1", "windows-1252"),
        ];
        for (page, name) in rows {
            assert_eq!(read("text/html", page, 5).1, *name, "{}", String::from_utf8_lossy(page));
        }
    }

    #[test]
    fn a_long_page_is_decoded_whole_however_it_is_cut() {
        let page = "<p>日本語のページ".repeat(2_000);
        let (bytes, _, _) = encoding_rs::EUC_JP.encode(&page);
        for step in [1, 511, 4_096, 1 << 20] {
            assert_eq!(read("text/html; charset=euc-jp", &bytes, step).0, page);
        }
        // A meta beyond the prescan is not looked for.
        let late = [b" ".repeat(PRESCAN).as_slice(), b"<meta charset=koi8-r>\xc1"].concat();
        assert!(read("", &late, 100).0.ends_with('\u{fffd}'));
    }
}
