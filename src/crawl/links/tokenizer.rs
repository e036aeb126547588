//! The start tags of an HTML stream that may hold links, pushed in as bytes arrive.
//!
//! The states are those of the WHATWG's tokenizer (HTML, 13.2.5), less what no link depends on: text is passed
//! over, and of tags only the elements and attributes named here are kept. Script, style, title and their like
//! are text as they are for a browser without scripting, so a link in a comment or a script is none. Memory is
//! the attributes of one tag, each at most [`VALUE_MAX`]. Where chunks are cut makes no difference.
//! What this does not do: build a tree, or know foreign content (a CDATA section there is a comment here).

use memchr::{memchr, memchr2};

/// The longest value of an attribute that is kept, in bytes as written; a longer one counts as not there.
pub const VALUE_MAX: usize = 16 * 1024;
/// The longest element or attribute name that matters: `http-equiv`, with room to tell it from a longer one.
const NAME_MAX: usize = 16;

/// The elements that are told about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are HTML's")]
pub enum Element {
    A,
    Area,
    Base,
    Frame,
    Iframe,
    Link,
    Meta,
}

/// The attributes that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are HTML's")]
pub enum Attribute {
    Href,
    Src,
    Rel,
    Name,
    Content,
    HttpEquiv,
    Charset,
}

const ATTRIBUTES: usize = 7;

/// A start tag.
#[derive(Debug)]
pub struct Tag<'a> {
    /// Of this element.
    pub element: Element,
    values: &'a [Option<Vec<u8>>; ATTRIBUTES],
}

impl Tag<'_> {
    /// The value of an attribute as it was written, character references and all; the first one of its name.
    pub fn value(&self, attribute: Attribute) -> Option<&[u8]> {
        self.values[attribute as usize].as_deref()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Text,
    TagOpen,
    EndTagOpen,
    MarkupDeclaration,
    MarkupDash,
    Bogus,
    CommentStart,
    CommentStartDash,
    Comment,
    CommentDash,
    CommentEnd,
    CommentEndBang,
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
    AfterQuoted,
    SelfClosing,
    /// Text up to its own end tag.
    Raw,
    RawLess,
    RawSlash,
    /// Script: `<!`, `<!-` were read.
    ScriptBang,
    ScriptBangDash,
    /// A name that may open (in escaped text) or close (in doubly escaped text) a script inside of a script.
    ScriptName,
    ScriptDoubleLess,
    Plain,
}

/// How deep a script is inside of a comment of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Script {
    No,
    Plain,
    Escaped { dashes: u8 },
    Double { dashes: u8 },
}

/// The tokenizer. See the module's text.
#[derive(Debug)]
pub struct Tokenizer {
    state: State,
    /// The tag is an end tag.
    closing: bool,
    name: Vec<u8>,
    attribute: Vec<u8>,
    /// Where the value that is being read goes; `None` = nowhere.
    target: Option<usize>,
    /// The attribute that is being read was found too long.
    dropped: [bool; ATTRIBUTES],
    values: [Option<Vec<u8>>; ATTRIBUTES],
    /// The element whose end tag ends raw text.
    raw: Vec<u8>,
    script: Script,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self {
            state: State::Text,
            closing: false,
            name: Vec::new(),
            attribute: Vec::new(),
            target: None,
            dropped: [false; ATTRIBUTES],
            values: [const { None }; ATTRIBUTES],
            raw: Vec::new(),
            script: Script::No,
        }
    }
}

impl Tokenizer {
    /// Reads on, and tells of every start tag of an [`Element`] that is whole by now.
    pub fn push(&mut self, mut bytes: &[u8], tell: &mut dyn FnMut(&Tag<'_>)) {
        while let Some(&byte) = bytes.first() {
            let used = self.skip(bytes);
            if used > 0 {
                bytes = bytes.get(used..).unwrap_or_default();
            } else if self.step(byte, tell) {
                bytes = &bytes[1..];
            }
        }
    }

    /// Passes over, or keeps, many bytes of one state at once; says how many.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        match self.state {
            State::Text => memchr(b'<', bytes).unwrap_or(bytes.len()),
            State::Raw if self.script == Script::No => memchr(b'<', bytes).unwrap_or(bytes.len()),
            State::Comment => memchr(b'-', bytes).unwrap_or(bytes.len()),
            State::Bogus => memchr(b'>', bytes).unwrap_or(bytes.len()),
            State::Plain => bytes.len(),
            State::Quoted(quote) => {
                let end = memchr2(quote, 0, bytes).unwrap_or(bytes.len());
                self.keep(&bytes[..end]);
                end
            }
            _ => 0,
        }
    }

    /// One byte. Whether it was used: if not, it is looked at again in another state.
    fn step(&mut self, byte: u8, tell: &mut dyn FnMut(&Tag<'_>)) -> bool {
        match self.state {
            State::Text => return self.go_on(byte == b'<', State::TagOpen),
            State::TagOpen => match byte {
                b'!' => self.state = State::MarkupDeclaration,
                b'/' => self.state = State::EndTagOpen,
                b'?' => self.state = State::Bogus,
                _ if byte.is_ascii_alphabetic() => return self.begin_tag(false),
                _ => return self.again(State::Text),
            },
            State::EndTagOpen => match byte {
                b'>' => self.state = State::Text,
                _ if byte.is_ascii_alphabetic() => return self.begin_tag(true),
                _ => return self.again(State::Bogus),
            },
            State::MarkupDeclaration => match byte {
                b'-' => self.state = State::MarkupDash,
                _ => return self.again(State::Bogus),
            },
            State::MarkupDash => match byte {
                b'-' => self.state = State::CommentStart,
                _ => return self.again(State::Bogus),
            },
            State::Bogus => return self.go_on(byte == b'>', State::Text),
            State::CommentStart
            | State::CommentStartDash
            | State::Comment
            | State::CommentDash
            | State::CommentEnd
            | State::CommentEndBang => return self.comment(byte),
            State::TagName => match byte {
                _ if is_blank(byte) => self.state = State::BeforeName,
                b'/' => self.state = State::SelfClosing,
                b'>' => self.end_tag(tell),
                _ => push_name(&mut self.name, byte),
            },
            State::BeforeName => match byte {
                _ if is_blank(byte) => {}
                b'/' | b'>' => return self.again(State::AfterName),
                // An equals sign here begins a name.
                b'=' => {
                    self.begin_attribute();
                    self.attribute.push(byte);
                }
                _ => {
                    self.begin_attribute();
                    return false;
                }
            },
            State::Name => match byte {
                b'=' => {
                    self.end_name();
                    self.state = State::BeforeValue;
                }
                b'/' | b'>' => {
                    self.end_name();
                    return self.again(State::AfterName);
                }
                _ if is_blank(byte) => {
                    self.end_name();
                    self.state = State::AfterName;
                }
                _ => push_name(&mut self.attribute, byte),
            },
            State::AfterName => match byte {
                _ if is_blank(byte) => {}
                b'/' => self.state = State::SelfClosing,
                b'=' => self.state = State::BeforeValue,
                b'>' => self.end_tag(tell),
                _ => {
                    self.begin_attribute();
                    return false;
                }
            },
            State::BeforeValue => match byte {
                _ if is_blank(byte) => {}
                b'"' | b'\'' => self.state = State::Quoted(byte),
                b'>' => self.end_tag(tell),
                _ => return self.again(State::Unquoted),
            },
            State::Quoted(quote) => match byte {
                _ if byte == quote => self.state = State::AfterQuoted,
                _ => self.keep_byte(byte),
            },
            State::Unquoted => match byte {
                _ if is_blank(byte) => self.state = State::BeforeName,
                b'>' => self.end_tag(tell),
                _ => self.keep_byte(byte),
            },
            State::AfterQuoted => match byte {
                _ if is_blank(byte) => self.state = State::BeforeName,
                b'/' => self.state = State::SelfClosing,
                b'>' => self.end_tag(tell),
                _ => return self.again(State::BeforeName),
            },
            State::SelfClosing => match byte {
                b'>' => self.end_tag(tell),
                _ => return self.again(State::BeforeName),
            },
            State::Raw
            | State::RawLess
            | State::RawSlash
            | State::ScriptBang
            | State::ScriptBangDash
            | State::ScriptName
            | State::ScriptDoubleLess => return self.raw_text(byte),
            State::Plain => {}
        }
        true
    }

    fn comment(&mut self, byte: u8) -> bool {
        self.state = match (self.state, byte) {
            (State::CommentStart, b'-') => State::CommentStartDash,
            (State::CommentStart | State::CommentStartDash | State::CommentEnd | State::CommentEndBang, b'>') => {
                State::Text
            }
            (State::Comment, b'-') | (State::CommentEndBang, b'-') => State::CommentDash,
            (State::CommentStartDash | State::CommentDash | State::CommentEnd, b'-') => State::CommentEnd,
            (State::CommentEnd, b'!') => State::CommentEndBang,
            _ => State::Comment,
        };
        true
    }

    /// Text that only its own end tag ends; scripts may hide theirs in `<!-- <script>`.
    fn raw_text(&mut self, byte: u8) -> bool {
        match self.state {
            State::RawLess => match (byte, self.script) {
                (b'/', _) => self.state = State::RawSlash,
                (b'!', Script::Plain) => self.state = State::ScriptBang,
                (_, Script::Escaped { .. }) if byte.is_ascii_alphabetic() => return self.begin_name(State::ScriptName),
                _ => return self.again(State::Raw),
            },
            State::RawSlash => {
                if byte.is_ascii_alphabetic() && self.name.len() < NAME_MAX {
                    self.name.push(byte.to_ascii_lowercase());
                    return true;
                }
                let ends = is_blank(byte) || matches!(byte, b'/' | b'>');
                if ends && self.name == self.raw {
                    (self.script, self.closing) = (Script::No, true);
                    self.values = [const { None }; ATTRIBUTES];
                    return self.again(State::TagName);
                }
                return self.again(State::Raw);
            }
            State::ScriptBang if byte == b'-' => self.state = State::ScriptBangDash,
            State::ScriptBangDash if byte == b'-' => {
                (self.state, self.script) = (State::Raw, Script::Escaped { dashes: 2 });
            }
            State::ScriptBang | State::ScriptBangDash => return self.again(State::Raw),
            State::ScriptDoubleLess if byte == b'/' => {
                self.name.clear();
                self.state = State::ScriptName;
            }
            State::ScriptDoubleLess => return self.again(State::Raw),
            State::ScriptName => {
                if byte.is_ascii_alphabetic() {
                    push_name(&mut self.name, byte);
                    return true;
                }
                if (is_blank(byte) || matches!(byte, b'/' | b'>')) && self.name == b"script" {
                    self.script = match self.script {
                        Script::Double { .. } => Script::Escaped { dashes: 0 },
                        _ => Script::Double { dashes: 0 },
                    };
                    self.state = State::Raw;
                    return true;
                }
                return self.again(State::Raw);
            }
            _ => self.script_byte(byte),
        }
        true
    }

    /// A byte of raw text.
    fn script_byte(&mut self, byte: u8) {
        if byte == b'<' {
            self.name.clear();
            self.state = match self.script {
                Script::Double { .. } => State::ScriptDoubleLess,
                _ => State::RawLess,
            };
        }
        match &mut self.script {
            Script::Escaped { dashes } | Script::Double { dashes } => {
                if byte == b'>' && *dashes >= 2 {
                    self.script = Script::Plain;
                } else {
                    *dashes = if byte == b'-' { dashes.saturating_add(1) } else { 0 };
                }
            }
            Script::No | Script::Plain => {}
        }
    }

    /// The byte is used; a new state if `changes`.
    fn go_on(&mut self, changes: bool, state: State) -> bool {
        if changes {
            self.state = state;
        }
        true
    }

    /// The byte is looked at again in `state`.
    fn again(&mut self, state: State) -> bool {
        self.state = state;
        false
    }

    fn begin_name(&mut self, state: State) -> bool {
        self.name.clear();
        self.again(state)
    }

    fn begin_tag(&mut self, closing: bool) -> bool {
        self.closing = closing;
        self.values = [const { None }; ATTRIBUTES];
        self.dropped = [false; ATTRIBUTES];
        self.begin_name(State::TagName)
    }

    fn begin_attribute(&mut self) {
        self.attribute.clear();
        self.target = None;
        self.state = State::Name;
    }

    /// The attribute's name is whole: whether its value is wanted.
    fn end_name(&mut self) {
        let attribute = match self.attribute.as_slice() {
            b"href" => Attribute::Href,
            b"src" => Attribute::Src,
            b"rel" => Attribute::Rel,
            b"name" => Attribute::Name,
            b"content" => Attribute::Content,
            b"http-equiv" => Attribute::HttpEquiv,
            b"charset" => Attribute::Charset,
            _ => return,
        } as usize;
        // The first of a name counts, also one that was too long.
        if !self.closing && self.values[attribute].is_none() && !self.dropped[attribute] {
            self.values[attribute] = Some(Vec::new());
            self.target = Some(attribute);
        }
    }

    fn keep_byte(&mut self, byte: u8) {
        // As the standard has it; it cannot be in a URL either way.
        match byte {
            0 => self.keep("\u{fffd}".as_bytes()),
            _ => self.keep(&[byte]),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(target) = self.target else { return };
        let Some(value) = &mut self.values[target] else { return };
        if value.len() + bytes.len() > VALUE_MAX {
            self.values[target] = None;
            self.dropped[target] = true;
            self.target = None;
        } else {
            value.extend_from_slice(bytes);
        }
    }

    /// A tag is whole.
    fn end_tag(&mut self, tell: &mut dyn FnMut(&Tag<'_>)) {
        self.state = State::Text;
        if self.closing {
            return;
        }
        let element = match self.name.as_slice() {
            b"a" => Element::A,
            b"area" => Element::Area,
            b"base" => Element::Base,
            b"frame" => Element::Frame,
            b"iframe" => Element::Iframe,
            b"link" => Element::Link,
            b"meta" => Element::Meta,
            _ => return self.begin_raw(),
        };
        tell(&Tag { element, values: &self.values });
        self.begin_raw();
    }

    /// What follows the start tags of some elements is text.
    fn begin_raw(&mut self) {
        match self.name.as_slice() {
            b"script" => (self.script, self.state) = (Script::Plain, State::Raw),
            b"style" | b"xmp" | b"iframe" | b"noembed" | b"noframes" | b"title" | b"textarea" => {
                self.state = State::Raw;
            }
            b"plaintext" => self.state = State::Plain,
            _ => return,
        }
        self.raw.clear();
        self.raw.extend_from_slice(&self.name);
    }
}

fn push_name(name: &mut Vec<u8>, byte: u8) {
    if name.len() < NAME_MAX {
        name.push(byte.to_ascii_lowercase());
    }
}

/// White space inside of a tag. (CR becomes LF before the standard's tokenizer.)
fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

#[cfg(test)]
mod tests;
