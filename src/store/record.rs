//! Records: what a frame's payload is made of.
//!
//! A tag, then numbers as LEB128 and texts with their length in front. Hosts and URLs carry no number: they are
//! counted as they stand in the file. A record that is not known ends the reading: another version wrote it.

use super::{Fate, UrlId};
use crate::control::{Mono, RequestKind};

/// One record of the file of URLs, as read.
#[derive(Clone, PartialEq, Debug)]
pub enum Record<'a> {
    /// The next host.
    Host(&'a str),
    /// The next URL.
    Url(UrlRecord<'a>),
    /// What became of a URL.
    Fate {
        /// Which; [`UrlId::NONE`] for one that was never numbered.
        id: UrlId,
        /// What.
        fate: Fate,
        /// Why; empty for one that is done.
        why: &'a str,
    },
    /// A URL that was tried, or follows a redirect: what its next request needs to know.
    Tried(TriedRecord<'a>),
    /// A URL that had failed, or was held back, may go.
    Back(UrlId),
    /// A URL is held back as one of a trap.
    Held(HeldRecord),
    /// A fingerprint that is known though no URL has it: the target of a redirect.
    Known(u64),
    /// What the traps know of patterns.
    Sign(SignRecord),
    /// What the transaction tells of itself, as JSON.
    Mark(&'a [u8]),
}

/// A URL as it came in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UrlRecord<'a> {
    /// The number of its host; `None` for one that was never sent anywhere.
    pub host: Option<u32>,
    /// Its fingerprint.
    pub print: u64,
    /// Links between it and an input.
    pub depth: u32,
    /// Steps since the last new pattern, as the traps count them.
    pub run: u16,
    /// What it is for.
    pub kind: RequestKind,
    /// The URL.
    pub url: &'a str,
}

/// A URL that was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct TriedRecord<'a> {
    /// Which.
    pub id: UrlId,
    /// The host that it goes to next.
    pub host: u32,
    /// Attempts that failed.
    pub failures: u8,
    /// Times that nobody worked on it.
    pub unprocessed: u8,
    /// Not before this moment.
    pub due: Mono,
    /// Where it goes next, if a redirect leads elsewhere.
    pub hop: Option<HopRecord<'a>>,
}

/// A URL that is held back as one of a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldRecord {
    /// Which.
    pub id: UrlId,
    /// The trap's key.
    pub trap: u64,
}

/// What the traps know of one pattern. A later meter of a key replaces an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignRecord {
    /// There is a pattern of this key.
    Shape(u64),
    /// There is a page with this hash, but for its session.
    Bare(u128),
    /// So much was counted of a pattern or parameter.
    Meter {
        /// Which.
        key: u64,
        /// URLs.
        count: u32,
        /// Pages it stands on.
        pages: u32,
    },
}

/// A chain of redirects under way.
#[derive(Clone, PartialEq, Debug)]
pub struct HopRecord<'a> {
    /// Where it leads.
    pub url: &'a str,
    /// Hops so far.
    pub hops: u8,
    /// Cookie changes along the chain.
    pub cookies: u8,
    /// What was seen along the chain.
    pub chain: Vec<(u128, u8)>,
}

const HOST: u8 = 1;
const URL: u8 = 2;
const FATE: u8 = 3;
const TRIED: u8 = 4;
const BACK: u8 = 5;
const MARK: u8 = 6;
/// As it was written before the URL stood in its own record alone.
const HELD_WITH_URL: u8 = 7;
const HELD: u8 = 8;
const KNOWN: u8 = 9;
const SHAPE: u8 = 10;
const BARE: u8 = 11;
const METER: u8 = 12;

/// The kinds of URLs by number; a kind that has none is never stored.
const KINDS: [RequestKind; 5] =
    [RequestKind::Page, RequestKind::Robots, RequestKind::Sitemap, RequestKind::Redirect, RequestKind::Feed];

/// Appends a host.
pub fn push_host(out: &mut Vec<u8>, name: &str) {
    out.push(HOST);
    push_text(out, name);
}

/// Appends a URL.
pub fn push_url(out: &mut Vec<u8>, record: &UrlRecord<'_>) {
    out.push(URL);
    push_number(out, record.host.map_or(0, |host| u64::from(host) + 1));
    out.extend_from_slice(&record.print.to_le_bytes());
    push_number(out, u64::from(record.depth));
    push_number(out, u64::from(record.run));
    let kind = KINDS.iter().position(|kind| *kind == record.kind).unwrap_or_default();
    out.push(kind as u8);
    push_text(out, record.url);
}

/// Appends a fate.
pub fn push_fate(out: &mut Vec<u8>, id: UrlId, fate: Fate, why: &str) {
    out.push(FATE);
    push_number(out, u64::from(id.0));
    out.push(fate as u8);
    push_text(out, why);
}

/// Appends a try.
pub fn push_tried(out: &mut Vec<u8>, record: &TriedRecord<'_>) {
    out.push(TRIED);
    push_number(out, u64::from(record.id.0));
    push_number(out, u64::from(record.host));
    out.extend_from_slice(&[record.failures, record.unprocessed]);
    push_number(out, record.due.as_nanos());
    let Some(hop) = &record.hop else {
        out.push(0);
        return;
    };
    out.push(1);
    push_text(out, hop.url);
    out.extend_from_slice(&[hop.hops, hop.cookies]);
    push_number(out, hop.chain.len() as u64);
    for (print, cookies) in &hop.chain {
        out.extend_from_slice(&print.to_le_bytes());
        out.push(*cookies);
    }
}

/// Appends that a URL is held back.
pub fn push_held(out: &mut Vec<u8>, record: HeldRecord) {
    out.push(HELD);
    push_number(out, u64::from(record.id.0));
    out.extend_from_slice(&record.trap.to_le_bytes());
}

/// Appends a fingerprint that no URL has.
pub fn push_known(out: &mut Vec<u8>, print: u64) {
    out.push(KNOWN);
    out.extend_from_slice(&print.to_le_bytes());
}

/// Appends what the traps know.
pub fn push_sign(out: &mut Vec<u8>, record: SignRecord) {
    match record {
        SignRecord::Shape(key) => {
            out.push(SHAPE);
            out.extend_from_slice(&key.to_le_bytes());
        }
        SignRecord::Bare(page) => {
            out.push(BARE);
            out.extend_from_slice(&page.to_le_bytes());
        }
        SignRecord::Meter { key, count, pages } => {
            out.push(METER);
            out.extend_from_slice(&key.to_le_bytes());
            push_number(out, u64::from(count));
            push_number(out, u64::from(pages));
        }
    }
}

/// Appends that a URL that had failed, or was held back, may go.
pub fn push_back(out: &mut Vec<u8>, id: UrlId) {
    out.push(BACK);
    push_number(out, u64::from(id.0));
}

/// Appends a mark.
pub fn push_mark(out: &mut Vec<u8>, json: &[u8]) {
    out.push(MARK);
    push_number(out, json.len() as u64);
    out.extend_from_slice(json);
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Records of a payload, one after the other; `Err` = it holds something that is none.
pub struct Records<'a>(&'a [u8]);

/// A payload that is whole by its checksum, and still makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

impl<'a> Records<'a> {
    /// The records of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Unreadable> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Result<u64, Unreadable> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unreadable)
    }

    fn short(&mut self) -> Result<u32, Unreadable> {
        u32::try_from(self.number()?).map_err(|_| Unreadable)
    }

    fn hash(&mut self) -> Result<u64, Unreadable> {
        Ok(u64::from_le_bytes(*self.bytes(8)?.first_chunk().ok_or(Unreadable)?))
    }

    fn long_hash(&mut self) -> Result<u128, Unreadable> {
        Ok(u128::from_le_bytes(*self.bytes(16)?.first_chunk().ok_or(Unreadable)?))
    }

    fn blob(&mut self) -> Result<&'a [u8], Unreadable> {
        let length = usize::try_from(self.number()?).map_err(|_| Unreadable)?;
        self.bytes(length)
    }

    fn text(&mut self) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.blob()?).map_err(|_| Unreadable)
    }

    fn record(&mut self) -> Result<Record<'a>, Unreadable> {
        Ok(match self.byte()? {
            HOST => Record::Host(self.text()?),
            URL => {
                let host = self.short()?.checked_sub(1);
                let print = self.hash()?;
                let depth = self.short()?;
                let run = u16::try_from(self.number()?).unwrap_or(u16::MAX);
                let kind = KINDS.get(usize::from(self.byte()?)).copied().ok_or(Unreadable)?;
                Record::Url(UrlRecord { host, print, depth, run, kind, url: self.text()? })
            }
            FATE => {
                let id = UrlId(self.short()?);
                let fate = Fate::of(self.byte()?).ok_or(Unreadable)?;
                Record::Fate { id, fate, why: self.text()? }
            }
            TRIED => Record::Tried(self.tried()?),
            BACK => Record::Back(UrlId(self.short()?)),
            HELD_WITH_URL => {
                let held = HeldRecord { id: UrlId(self.short()?), trap: self.hash()? };
                let _ = (self.short()?, self.short()?, self.text()?);
                Record::Held(held)
            }
            HELD => Record::Held(HeldRecord { id: UrlId(self.short()?), trap: self.hash()? }),
            KNOWN => Record::Known(self.hash()?),
            SHAPE => Record::Sign(SignRecord::Shape(self.hash()?)),
            BARE => Record::Sign(SignRecord::Bare(self.long_hash()?)),
            METER => {
                let (key, count, pages) = (self.hash()?, self.short()?, self.short()?);
                Record::Sign(SignRecord::Meter { key, count, pages })
            }
            MARK => Record::Mark(self.blob()?),
            _ => return Err(Unreadable),
        })
    }

    fn tried(&mut self) -> Result<TriedRecord<'a>, Unreadable> {
        let (id, host) = (UrlId(self.short()?), self.short()?);
        let (failures, unprocessed) = (self.byte()?, self.byte()?);
        let due = Mono::from_nanos(self.number()?);
        let hop = match self.byte()? {
            0 => None,
            _ => {
                let url = self.text()?;
                let (hops, cookies) = (self.byte()?, self.byte()?);
                let mut chain = Vec::new();
                for _ in 0..self.number()?.min(u64::from(u8::MAX)) {
                    chain.push((self.long_hash()?, self.byte()?));
                }
                Some(HopRecord { url, hops, cookies, chain })
            }
        };
        Ok(TriedRecord { id, host, failures, unprocessed, due, hop })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.0 = &[];
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_traps_and_redirects_leave_is_read_as_it_was_written() {
        let held = HeldRecord { id: UrlId(300), trap: u64::MAX - 1 };
        let signs = [
            SignRecord::Shape(7),
            SignRecord::Bare(u128::MAX - 2),
            SignRecord::Meter { key: 9, count: u32::MAX, pages: 200 },
        ];
        let mut payload = Vec::new();
        push_held(&mut payload, held);
        push_known(&mut payload, 5);
        signs.iter().for_each(|sign| push_sign(&mut payload, *sign));
        // As it was written once, with the URL behind.
        payload.extend_from_slice(&[HELD_WITH_URL, 1]);
        payload.extend_from_slice(&2_u64.to_le_bytes());
        payload.extend_from_slice(&[0, 3, 1, b'u']);
        push_back(&mut payload, UrlId(1));
        let read: Vec<_> = Records::new(&payload).map(|record| record.expect("readable")).collect();
        let mut expected = vec![Record::Held(held), Record::Known(5)];
        expected.extend(signs.map(Record::Sign));
        expected.push(Record::Held(HeldRecord { id: UrlId(1), trap: 2 }));
        expected.push(Record::Back(UrlId(1)));
        assert_eq!(read, expected);
        for cut in 0..payload.len() {
            let read: Vec<_> = Records::new(&payload[..cut]).filter_map(Result::ok).collect();
            assert!(read.len() < expected.len() && expected.starts_with(&read), "cut at {cut}: {read:?}");
        }
    }
}
