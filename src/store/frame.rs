//! Frames: how the store's files are cut into pieces that are whole or not there.
//!
//! A file begins with a head (what it is, which version), then frames follow: a mark, flags, the length, a checksum
//! over all of that, the frame's place in the file, and its payload. The first and the last frame of a transaction say
//! so; what follows the last such frame never happened. Where the bytes make no sense, and no other transaction begins
//! behind them, the tail is torn: a process or the machine stopped there, and a disk that lost power may have kept any
//! of the sectors. Each transaction is on the medium before the next is written, so where another one begins further
//! on, the file is damaged, and that is told with the place: nothing behind it is silently dropped.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Version of the store's files. Records are only ever added within a version; another one is refused.
pub const STORE_VERSION: u32 = 2;

/// Bytes of a file's head.
pub const FILE_HEAD: usize = 24;
/// Bytes of a frame before its payload.
pub const FRAME_HEAD: usize = 16;
/// A payload is cut at about so many bytes: a URL is read back with the frame that it stands in.
pub const PAYLOAD: usize = 4 << 10;
/// No payload is longer (a record is never cut).
pub const PAYLOAD_MAX: usize = 4 << 20;

const FILE_MARK: [u8; 8] = *b"CRAWLDCK";
const FRAME_MARK: [u8; 2] = [0xC7, 0xDE];
/// The frame ends a transaction.
pub(super) const ENDS: u8 = 1;
/// The frame begins a transaction.
pub(super) const BEGINS: u8 = 2;

/// Which of the store's files it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// URLs and their fates.
    Urls = 1,
    /// States of hosts.
    Hosts = 2,
}

/// Why a file cannot be taken for what it should be.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Its head is not one of ours.
    #[error(
        "is no file of a crawl's state, or its first {FILE_HEAD} bytes are damaged: put a copy in its place, or begin anew in another folder with -d"
    )]
    Foreign,
    /// Another version wrote it.
    #[error(
        "has version {0}; this crawldeck reads version {STORE_VERSION}: use the crawldeck that wrote it, or begin anew in another folder with -d"
    )]
    Version(u32),
    /// Bytes in its middle have changed.
    #[error(
        "is damaged at byte {at}: a record there does not match its checksum, and whole ones follow; put a copy in its place, or begin anew in another folder with -d"
    )]
    Damaged {
        /// Where the damage begins.
        at: u64,
    },
}

/// The head of a file.
pub fn file_head(kind: FileKind) -> [u8; FILE_HEAD] {
    let mut head = [0; FILE_HEAD];
    head[..8].copy_from_slice(&FILE_MARK);
    head[8..12].copy_from_slice(&STORE_VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&(kind as u32).to_le_bytes());
    let sum = xxh3_64_with_seed(&head[..16], 0);
    head[16..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Appends a frame that will stand at `offset` of its file. `flags` are of [`BEGINS`] and [`ENDS`].
pub(super) fn push_frame(out: &mut Vec<u8>, offset: u64, payload: &[u8], flags: u8) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&FRAME_MARK);
    out.extend_from_slice(&[flags, 0]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum(offset, flags, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

fn checksum(offset: u64, flags: u8, payload: &[u8]) -> u64 {
    let seed = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (payload.len() as u64) << 8 ^ u64::from(flags);
    xxh3_64_with_seed(payload, seed)
}

/// What the head of a frame says.
struct Head {
    flags: u8,
    length: usize,
    sum: u64,
}

impl Head {
    fn read(bytes: &[u8; FRAME_HEAD]) -> Option<Self> {
        let [mark, mark_too, flags, zero, a, b, c, d, sum @ ..] = *bytes;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let sane = [mark, mark_too] == FRAME_MARK && flags <= (BEGINS | ENDS) && zero == 0 && length <= PAYLOAD_MAX;
        sane.then_some(Self { flags, length, sum: u64::from_le_bytes(sum) })
    }
}

/// Reads a file frame by frame, from its head on.
pub struct Frames {
    file: File,
    size: u64,
    at: u64,
    /// Where the last transaction that was read to its end ends.
    committed: u64,
    chunk: Vec<u8>,
    /// Where in the file `chunk` begins.
    chunk_at: u64,
}

/// How much is read at once.
const CHUNK: usize = 1 << 20;

impl Frames {
    /// Opens `path`. `None` if there is no such file, or one without a whole head: its first write was torn.
    pub fn open(path: &Path, kind: FileKind) -> Result<Option<Self>, FrameError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let size = file.metadata()?.len();
        let mut head = [0; FILE_HEAD];
        let expected = file_head(kind);
        if size <= FILE_HEAD as u64 {
            // It is on the medium before anything follows it, so it alone may be torn.
            let mut start = Vec::new();
            file.read_to_end(&mut start)?;
            let torn = start.iter().zip(&expected).all(|(byte, expected)| byte == expected || *byte == 0);
            if start != expected {
                return if torn { Ok(None) } else { Err(FrameError::Foreign) };
            }
            file.seek(SeekFrom::Start(0))?;
        }
        file.read_exact(&mut head)?;
        if head != expected {
            let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
            let sum = xxh3_64_with_seed(&head[..16], 0).to_le_bytes();
            let ours = head[..8] == FILE_MARK && head[16..] == sum;
            return Err(if ours && version != STORE_VERSION {
                FrameError::Version(version)
            } else {
                FrameError::Foreign
            });
        }
        let at = FILE_HEAD as u64;
        Ok(Some(Self { file, size, at, committed: at, chunk: Vec::new(), chunk_at: at }))
    }

    /// Where the last whole transaction ends.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Bytes in the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The next transaction: calls `each` with the place and the payload of each of its frames, after all of them were
    /// seen to be whole. False at the end.
    pub fn transaction(&mut self, frames: &mut Vec<(u64, Vec<u8>)>) -> Result<bool, FrameError> {
        frames.clear();
        loop {
            let at = self.at;
            let begins = if frames.is_empty() { BEGINS } else { 0 };
            let Some((flags, payload)) = self.frame(at)?.filter(|(flags, _)| flags & BEGINS == begins) else {
                if self.at < self.size && self.begins_after(self.at)? {
                    return Err(FrameError::Damaged { at: self.at });
                }
                frames.clear();
                return Ok(false);
            };
            self.at += (FRAME_HEAD + payload.len()) as u64;
            frames.push((at, payload));
            if flags & ENDS != 0 {
                self.committed = self.at;
                return Ok(true);
            }
        }
    }

    /// The frame at `at`, if a whole one is there.
    fn frame(&mut self, at: u64) -> Result<Option<(u8, Vec<u8>)>, FrameError> {
        let Some(bytes) = self.bytes(at, FRAME_HEAD)? else { return Ok(None) };
        let Some(head) = bytes.first_chunk().and_then(Head::read) else { return Ok(None) };
        let Some(payload) = self.bytes(at + FRAME_HEAD as u64, head.length)? else { return Ok(None) };
        let whole = checksum(at, head.flags, payload) == head.sum;
        Ok(whole.then(|| (head.flags, payload.to_vec())))
    }

    /// `length` bytes at `at`, if the file has them.
    fn bytes(&mut self, at: u64, length: usize) -> Result<Option<&[u8]>, FrameError> {
        if at.saturating_add(length as u64) > self.size {
            return Ok(None);
        }
        let end = self.chunk_at + self.chunk.len() as u64;
        if at < self.chunk_at || at + length as u64 > end {
            let wanted = (CHUNK.max(length) as u64).min(self.size - at);
            self.chunk.resize(usize::try_from(wanted).unwrap_or(0), 0);
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(&mut self.chunk)?;
            self.chunk_at = at;
        }
        let from = usize::try_from(at - self.chunk_at).unwrap_or(usize::MAX);
        Ok(self.chunk.get(from..from + length))
    }

    /// Whether a whole frame that begins a transaction is at `at` or somewhere after it.
    fn begins_after(&mut self, at: u64) -> Result<bool, FrameError> {
        let mut window = vec![0; CHUNK];
        let mut from = at;
        while from + FRAME_HEAD as u64 <= self.size {
            let wanted = usize::try_from((self.size - from).min(CHUNK as u64)).unwrap_or(0);
            let part = &mut window[..wanted];
            self.file.read_exact_at(part, from)?;
            let candidates: Vec<usize> =
                part.windows(2).enumerate().filter(|(_, two)| *two == FRAME_MARK).map(|(place, _)| place).collect();
            for place in candidates {
                if self.frame(from + place as u64)?.is_some_and(|(flags, _)| flags & BEGINS != 0) {
                    return Ok(true);
                }
            }
            // A mark may stand across the edge of two windows.
            from += (wanted as u64).saturating_sub(1).max(1);
        }
        Ok(false)
    }
}

/// Reads the one frame at `at` of an open file into `payload`.
pub fn read_frame(file: &File, at: u64, payload: &mut Vec<u8>) -> Result<(), FrameError> {
    // In one step, if it is as long as they are.
    payload.resize(FRAME_HEAD + PAYLOAD + PAYLOAD / 8, 0);
    let mut read = 0;
    while read < payload.len() {
        match file.read_at(&mut payload[read..], at + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let head = payload[..read].first_chunk().and_then(Head::read).ok_or(FrameError::Damaged { at })?;
    let end = FRAME_HEAD + head.length;
    payload.resize(end, 0);
    if end > read {
        file.read_exact_at(&mut payload[read..], at + read as u64)?;
    }
    payload.drain(..FRAME_HEAD);
    if checksum(at, head.flags, payload) != head.sum {
        return Err(FrameError::Damaged { at });
    }
    Ok(())
}
