//! What a journal's files end with when they are gone on with.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::journal::disk::Disk;
use crate::journal::{lines, rotated_number};

/// One more than the highest number of a rotated file in `dir`.
pub(super) fn next_rotated(dir: &Path) -> io::Result<u32> {
    let mut next = 1;
    for entry in fs::read_dir(dir)? {
        if let Some(number) = entry?.file_name().to_str().and_then(rotated_number) {
            next = next.max(number.saturating_add(1));
        }
    }
    Ok(next)
}

/// Cuts off what follows the last line break, and returns the size then; 0 if there is no such file.
pub(crate) fn cut_torn_tail(disk: &mut dyn Disk, path: &Path) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let mut whole = size;
    let mut chunk = vec![0; 64 << 10];
    while whole > 0 {
        let length = whole.min(chunk.len() as u64);
        file.seek(SeekFrom::Start(whole - length))?;
        let part = &mut chunk[..usize::try_from(length).unwrap_or(0)];
        file.read_exact(part)?;
        match part.iter().rposition(|byte| *byte == b'\n') {
            Some(position) => {
                whole = whole - length + position as u64 + 1;
                break;
            }
            None => whole -= length,
        }
    }
    if whole < size {
        disk.open(path)?.cut(whole)?;
    }
    Ok(whole)
}

/// Whether the file begins with exactly these bytes.
pub(super) fn begins_with(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut start = Vec::with_capacity(bytes.len());
    File::open(path)?.take(bytes.len() as u64).read_to_end(&mut start)?;
    Ok(start == bytes)
}

/// The highest number among the last events; 0 if there is none. Looks at the last megabytes, and at the whole
/// file only if no line there has a number.
pub(super) fn last_seq(path: &Path) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let tail = size.saturating_sub(2 * lines::LINE_MAX);
    for start in [tail, 0] {
        file.seek(SeekFrom::Start(start))?;
        let mut reader = lines::Lines::new(io::BufReader::new(&mut file));
        let mut highest = 0;
        while let Some(line) = reader.advance()? {
            if let lines::Line::Whole(text) = line
                && let Ok(Numbered { seq }) = serde_json::from_slice(text)
            {
                highest = highest.max(seq);
            }
        }
        if highest > 0 || start == 0 {
            return Ok(highest);
        }
    }
    Ok(0)
}

/// The one field of an event that the writer needs back.
#[derive(serde::Deserialize)]
struct Numbered {
    seq: u64,
}
