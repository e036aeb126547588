//! Content codings, streamed: gzip of several members, zlib or raw deflate, brotli, zstd of several
//! frames, stacked up to [`STACK_MAX`] deep; with caps on what comes out.
//!
//! Bytes are pushed in as they arrive and pushed on through the stack, so memory is one buffer a coding.
//! Zeros after the end are accepted, other bytes after it are garbage: noted, not decoded.
//! Pure: no I/O, no clock.

use async_compression::codecs::{BrotliDecoder, DecodeV2, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use async_compression::core::util::{PartialBuffer, WriteBuffer};
use async_compression::zstd::DParameter;
use bytes::{Bytes, BytesMut};

use crate::crawl::links::Search;

/// Codings stacked on one body at most (curl has the same limit).
pub const STACK_MAX: usize = 5;
/// Decoded bytes for one received byte at most, once [`RATIO_FREE`] bytes are decoded.
pub const RATIO_MAX: u64 = 1000;
/// Decoded bytes that are free of the ratio, in bytes.
pub const RATIO_FREE: u64 = 1024 * 1024;
/// Window that a zstd frame may ask for, as a power of two: 8 MiB, the most that RFC 9659 allows.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Bytes decoded in one step.
const BUFFER: usize = 16 * 1024;

/// One content coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coding {
    /// `gzip`, `x-gzip`.
    Gzip,
    /// `deflate`: zlib, or raw deflate as some servers send it.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
    /// A file that may be gzip, as sitemaps are: undone if it begins like that, else plain.
    GzipFile,
}

/// What Content-Encoding says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Codings {
    /// Codings in the order in which they were applied; empty = the bytes are plain.
    Known(Vec<Coding>),
    /// One that we do not know: the bytes stay as they are.
    Unknown(String),
    /// More than [`STACK_MAX`].
    TooDeep,
}

impl Codings {
    /// Reads the values of all Content-Encoding headers, in order.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut known = Vec::new();
        for value in values {
            for word in String::from_utf8_lossy(value).split(',') {
                match word.trim().to_ascii_lowercase().as_str() {
                    "" | "identity" => {}
                    "gzip" | "x-gzip" => known.push(Coding::Gzip),
                    "deflate" => known.push(Coding::Deflate),
                    "br" => known.push(Coding::Brotli),
                    "zstd" => known.push(Coding::Zstd),
                    other => return Self::Unknown(other.chars().take(40).collect()),
                }
                if known.len() > STACK_MAX {
                    return Self::TooDeep;
                }
            }
        }
        Self::Known(known)
    }
}

/// What happens at the cap on decoded bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtCap {
    /// The prefix is kept and the rest not read.
    Cut,
    /// The body is refused.
    Fail,
}

/// How much may come out, and whether it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Decoded bytes at most, after each coding of a stack.
    pub cap: u64,
    /// What happens there.
    pub at_cap: AtCap,
    /// Whether the decoded bytes are kept (else only counted).
    pub keep: bool,
}

/// Why decoding ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The cap was reached where bodies are cut.
    #[error("cut at the cap")]
    Cut,
    /// The cap was passed.
    #[error("more than {0} bytes decoded")]
    TooLarge(u64),
    /// A decompression bomb.
    #[error("more than {RATIO_MAX} bytes decoded for each byte received")]
    Ratio,
    /// The compressed data is not what it says it is.
    #[error("the compressed data is broken: {0}")]
    Broken(std::io::Error),
    /// The compressed data ends before its end.
    #[error("the compressed data ends early")]
    Truncated,
}

/// A body on its way through its codings.
pub struct Decoding {
    stages: Vec<Stage>,
    sink: Sink,
}

impl Decoding {
    /// For a body to which `codings` were applied in this order.
    pub fn new(codings: &[Coding], limits: Limits) -> Self {
        Self {
            // The last one applied is the first to be undone.
            stages: codings.iter().rev().map(|coding| Stage::new(*coding, limits.cap)).collect(),
            sink: Sink { limits, decoded: 0, received: 0, kept: BytesMut::new(), search: None },
        }
    }

    /// What is decoded is searched for links on its way.
    pub fn search(&mut self, search: Option<Search>) {
        self.sink.search = search;
    }

    /// The search, wherever the body ended.
    pub fn take_search(&mut self) -> Option<Search> {
        self.sink.search.take()
    }

    /// Takes received bytes. An error is final; what was decoded before it stays.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.sink.received = self.sink.received.saturating_add(bytes.len() as u64);
        push_through(&mut self.stages, bytes, &mut self.sink)
    }

    /// Says that no more bytes come.
    pub fn finish(&mut self) -> Result<(), Stop> {
        for index in 0..self.stages.len() {
            if let Some((stage, rest)) = self.stages[index..].split_first_mut() {
                stage.finish(&mut |bytes| push_through(rest, bytes, &mut self.sink))?;
            }
        }
        Ok(())
    }

    /// Bytes decoded so far.
    pub fn decoded(&self) -> u64 {
        self.sink.decoded
    }

    /// Whether bytes other than zeros came after the end of the compressed data.
    pub fn has_garbage(&self) -> bool {
        self.stages.iter().any(|stage| stage.garbage)
    }

    /// Takes the bytes that were decoded and kept since the last time.
    pub fn take(&mut self) -> BytesMut {
        self.sink.kept.split()
    }

    /// The decoded bytes, if they are kept.
    pub fn into_body(self) -> Bytes {
        self.sink.kept.freeze()
    }
}

/// Pushes bytes through what is left of the stack.
fn push_through(stages: &mut [Stage], bytes: &[u8], sink: &mut Sink) -> Result<(), Stop> {
    match stages.split_first_mut() {
        None => sink.take(bytes),
        Some((stage, rest)) => stage.push(bytes, &mut |decoded| push_through(rest, decoded, sink)),
    }
}

/// The end of the stack: counts, caps, keeps.
struct Sink {
    limits: Limits,
    decoded: u64,
    received: u64,
    kept: BytesMut,
    search: Option<Search>,
}

impl Sink {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let room = usize::try_from(self.limits.cap.saturating_sub(self.decoded)).unwrap_or(usize::MAX);
        let fitting = bytes.get(..room).unwrap_or(bytes);
        self.decoded = self.decoded.saturating_add(fitting.len() as u64);
        if self.limits.keep {
            self.kept.extend_from_slice(fitting);
        }
        if let Some(search) = &mut self.search {
            search.push(fitting);
        }
        if fitting.len() < bytes.len() {
            return Err(match self.limits.at_cap {
                AtCap::Cut => Stop::Cut,
                AtCap::Fail => Stop::TooLarge(self.limits.cap),
            });
        }
        if self.decoded > RATIO_FREE && self.decoded / RATIO_MAX > self.received {
            return Err(Stop::Ratio);
        }
        Ok(())
    }
}

/// Where a stage is in its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// Before the first byte.
    Start,
    /// In a member (gzip), frame (zstd) or stream.
    Inside,
    /// After the end of one.
    Between,
    /// It is not compressed.
    Plain,
}

/// One coding being undone.
struct Stage {
    coding: Coding,
    codec: Box<dyn DecodeV2 + Send>,
    at: At,
    /// Bytes that came out of the member it is in.
    member: u64,
    /// Members done.
    done: u32,
    /// Bytes that came out at all, and how many may.
    decoded: u64,
    cap: u64,
    /// The first byte of a deflate body, until the second tells zlib from raw.
    first_byte: Option<u8>,
    garbage: bool,
    buffer: Vec<u8>,
}

/// Takes what a stage decodes.
type Next<'a> = dyn FnMut(&[u8]) -> Result<(), Stop> + 'a;

impl Stage {
    fn new(coding: Coding, cap: u64) -> Self {
        let codec: Box<dyn DecodeV2 + Send> = match coding {
            Coding::Gzip | Coding::GzipFile => Box::new(GzipDecoder::new()),
            Coding::Deflate => Box::new(ZlibDecoder::new()),
            Coding::Brotli => Box::new(BrotliDecoder::new()),
            Coding::Zstd => Box::new(ZstdDecoder::new_with_params(&[DParameter::window_log_max(ZSTD_WINDOW_LOG)])),
        };
        Self {
            coding,
            codec,
            at: At::Start,
            member: 0,
            done: 0,
            decoded: 0,
            cap,
            first_byte: None,
            garbage: false,
            buffer: vec![0; BUFFER],
        }
    }

    fn push(&mut self, mut bytes: &[u8], next: &mut Next<'_>) -> Result<(), Stop> {
        while let Some(first) = bytes.first().copied() {
            if self.garbage {
                return Ok(());
            }
            match self.at {
                At::Start if self.coding == Coding::Deflate => match self.first_byte.take() {
                    None => {
                        self.first_byte = Some(first);
                        bytes = &bytes[1..];
                    }
                    Some(earlier) => {
                        if !is_zlib_header(earlier, first) {
                            self.codec = Box::new(DeflateDecoder::new());
                        }
                        self.at = At::Inside;
                        self.run(&[earlier], next)?;
                    }
                },
                At::Start if self.coding == Coding::GzipFile && first != 0x1f => self.at = At::Plain,
                At::Start => self.at = At::Inside,
                At::Inside => {
                    let used = self.run(bytes, next)?;
                    bytes = bytes.get(used..).unwrap_or_default();
                }
                At::Plain => return next(bytes),
                At::Between if first == 0 => bytes = &bytes[1..],
                At::Between if self.begins_member(first) => {
                    self.codec.reinit().map_err(Stop::Broken)?;
                    self.member = 0;
                    self.at = At::Inside;
                }
                At::Between => self.garbage = true,
            }
        }
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), Stop> {
        if let Some(only) = self.first_byte.take() {
            self.at = At::Inside;
            self.run(&[only], next)?;
        }
        match self.at {
            At::Start | At::Between | At::Plain => Ok(()),
            At::Inside if self.is_only_a_tail() => {
                self.garbage = true;
                Ok(())
            }
            At::Inside => Err(Stop::Truncated),
        }
    }

    /// Whether what looked like another member brought nothing: then it is garbage after a whole body.
    fn is_only_a_tail(&self) -> bool {
        self.done > 0 && self.member == 0
    }

    /// Whether another member or frame may begin with this byte.
    fn begins_member(&self, byte: u8) -> bool {
        match self.coding {
            Coding::Gzip | Coding::GzipFile => byte == 0x1f,
            // A frame, or a skippable one.
            Coding::Zstd => byte == 0x28 || (0x50..=0x5f).contains(&byte),
            Coding::Deflate | Coding::Brotli => false,
        }
    }

    /// Whether an error of the codec only says that it needs more input (zlib's `Z_BUF_ERROR`); broken
    /// data is `InvalidInput` or `InvalidData` in those codings.
    fn only_wants_more(&self, error: &std::io::Error) -> bool {
        matches!(self.coding, Coding::Gzip | Coding::GzipFile | Coding::Deflate)
            && error.kind() == std::io::ErrorKind::Other
    }

    /// Decodes until the input is used up or the member ends; says how many bytes were used.
    fn run(&mut self, bytes: &[u8], next: &mut Next<'_>) -> Result<usize, Stop> {
        let mut input = PartialBuffer::new(bytes);
        loop {
            let before = input.written_len();
            let drained = input.unwritten().is_empty();
            let mut output = WriteBuffer::new_initialized(&mut self.buffer);
            let result = self.codec.decode(&mut input, &mut output);
            let full = output.has_no_spare_space();
            let decoded = output.written();
            let came = decoded.len() as u64;
            if came > 0 {
                self.member = self.member.saturating_add(came);
                self.decoded = self.decoded.saturating_add(came);
                next(decoded)?;
                if self.decoded > self.cap {
                    return Err(Stop::TooLarge(self.cap));
                }
            }
            match result {
                Ok(true) => {
                    self.at = At::Between;
                    self.done = self.done.saturating_add(1);
                    return Ok(input.written_len());
                }
                Ok(false) if input.unwritten().is_empty() && !full => return Ok(input.written_len()),
                Ok(false) if came == 0 && input.written_len() == before && !drained => {
                    return Err(Stop::Broken(std::io::Error::other("no progress")));
                }
                Ok(false) => {}
                // All was taken and nothing is left to come out: no error, though it is told as one.
                Err(error) if input.unwritten().is_empty() && self.only_wants_more(&error) => {
                    return Ok(input.written_len());
                }
                Err(_) if self.is_only_a_tail() => {
                    self.garbage = true;
                    return Ok(bytes.len());
                }
                Err(error) => return Err(Stop::Broken(error)),
            }
        }
    }
}

/// RFC 1950: method 8, and a checksum over both bytes.
fn is_zlib_header(first: u8, second: u8) -> bool {
    first & 0x0f == 8 && (u16::from(first) << 8 | u16::from(second)).is_multiple_of(31)
}

#[cfg(test)]
mod tests;
