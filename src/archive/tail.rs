//! What a kill leaves at the end of a WARC file is cut off: everything after the last whole member.
//!
//! Known to be on the medium is what the file `synced` says (`Mark`); a URL is done only after that, so from there
//! on whatever is not whole may go, and only from there on members are read. Without a mark the whole file is read,
//! and nothing is cut behind which a whole member stands: damage in the middle is not ours to remove.
//!
//! What the mark tells of and is not there was lost since (`Loss`): its URLs count as done. Looked at are the file's
//! length and the last member before the mark, not all that was ever written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::gzip::HEADER;
use crate::text::Clean;

/// Name of the mark in the folder of the WARC files.
const MARK_FILE: &str = "synced";
/// Where the length stands in the mark: names are padded to here.
const NAME_WIDTH: usize = 100;
/// The length of a mark in bytes: name, a blank, 20 digits, a blank, the checksum of all that, a line break.
const MARK_LENGTH: usize = NAME_WIDTH + 39;
/// Digits of the checksum, and the line break.
const CHECK_WIDTH: usize = 17;
/// Bytes before a mark in which the last member begins: what ends with an exchange tells its URL, of 8 KB at most, and
/// little else.
const LAST_MEMBER_MAX: u64 = 32 << 10;
/// How a gzip member begins.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Says up to where which file is on the medium. It may lag behind (it is not synced itself), and never runs ahead:
/// it is written after the sync that it tells of.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
}

impl Mark {
    /// Opens the mark of a folder.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
        Ok(Self { file: options.open(dir.join(MARK_FILE))? })
    }

    /// Up to where `name` is known to be on the medium.
    pub(super) fn of(&self, name: &str) -> Option<u64> {
        let mut bytes = [0; MARK_LENGTH];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        let (told, check) = bytes.split_at(MARK_LENGTH - CHECK_WIDTH);
        if check != checked(told).as_bytes() {
            tracing::warn!(file = MARK_FILE, "the mark of what was synced is damaged: the WARC file is read whole");
            return None;
        }
        let (marked, length) = std::str::from_utf8(told).ok()?.split_at_checked(NAME_WIDTH)?;
        if marked.trim_end() != name { None } else { length.trim().parse().ok() }
    }

    /// `length` bytes of `name` are on the medium.
    pub(super) fn set(&self, name: &str, length: u64) {
        // A mark that cannot be set lags behind, which costs reading time after a kill and nothing else.
        let told = format!("{name:NAME_WIDTH$} {length:020} ");
        let _ = self.file.write_all_at(format!("{told}{}", checked(told.as_bytes())).as_bytes(), 0);
    }
}

/// What stands behind a mark, so that a flipped bit in it does not blame a file that is whole.
fn checked(told: &[u8]) -> String {
    format!("{:016x}\n", xxhash_rust::xxh3::xxh3_64(told))
}

/// What is missing of a file that was on the medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loss {
    /// The file's name.
    name: String,
    /// It is shorter than it was; else damaged.
    cut: bool,
    /// Where that begins, as far as is known.
    at: u64,
    /// Bytes from there to the mark.
    missing: u64,
}

impl Loss {
    /// What of the first `marked` bytes of a file is missing, as far as its end tells.
    pub(super) fn of(path: &Path, name: &str, marked: u64) -> io::Result<Option<Self>> {
        let loss = |cut, at| Some(Self { name: name.to_owned(), cut, at, missing: marked - at });
        let size = fs::metadata(path)?.len();
        if size < marked {
            return Ok(loss(true, size));
        }
        let from = marked.saturating_sub(LAST_MEMBER_MAX);
        let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
        reader.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        reader.by_ref().take(marked - from).read_to_end(&mut end)?;
        let last = end.windows(HEADER.len()).rposition(|window| window == HEADER);
        let begin = from + last.unwrap_or_default() as u64;
        reader.seek(SeekFrom::Start(begin))?;
        // Behind one that is whole and ends before the mark, it is the next one's beginning that is damaged.
        let sound = if last.is_some() && member(&mut reader)? { reader.stream_position()? } else { begin };
        Ok(if sound == marked { None } else { loss(false, sound.min(marked)) })
    }

    /// For the operator.
    pub(super) fn to_text(&self) -> Clean {
        let Self { name, cut, at, missing } = self;
        let how = if *cut { "was cut" } else { "is damaged" };
        Clean::new(format!(
            "warc/{name} {how} since it was written: {missing} bytes from byte {at} on are missing that were on the disk, \
             and the URLs of their records count as done. The file stays as it is, and another one is begun: put a copy \
             of it in its place, or fetch those URLs anew in another folder"
        ))
    }
}

/// The end of the last member that is to stay: what follows it is to be cut off.
pub(super) fn whole(path: &Path, marked: Option<u64>) -> io::Result<u64> {
    let size = fs::metadata(path)?.len();
    let marked = marked.filter(|marked| *marked <= size);
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut end = marked.unwrap_or(0);
    let mut start = end;
    reader.seek(SeekFrom::Start(start))?;
    while start < size {
        if member(&mut reader)? {
            start = reader.stream_position()?;
            end = start;
        } else if marked.is_some() {
            break;
        } else {
            // Damage, or the torn tail: the next member begins, if there is one, behind it.
            reader.seek(SeekFrom::Start(start + 1))?;
            match find_magic(&mut reader)? {
                Some(position) => start = position,
                None => break,
            }
            reader.seek(SeekFrom::Start(start))?;
        }
    }
    Ok(end)
}

/// Reads one member; whether it was whole. Errors of the medium are errors.
fn member(reader: &mut BufReader<File>) -> io::Result<bool> {
    let mut decoder = GzDecoder::new(reader);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => return Ok(false),
        }
    }
}

/// The position of the next [`MAGIC`] from where the reader is.
fn find_magic(reader: &mut BufReader<File>) -> io::Result<Option<u64>> {
    let mut position = reader.stream_position()?;
    let mut last = [0_u8; 3];
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            return Ok(None);
        }
        for (index, byte) in part.iter().enumerate() {
            last = [last[1], last[2], *byte];
            if last == MAGIC {
                return Ok(Some(position + index as u64 - 2));
            }
        }
        let count = part.len();
        reader.consume(count);
        position += count as u64;
    }
}
