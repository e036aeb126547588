//! Decoded bodies of successful responses, each stored once under its digest: `bodies/ab/cd/<SHA-256>`, and an
//! index with a row per response, `bodies/index.jsonl`.
//!
//! A body is written to one temporary file, synced, and renamed: whatever has a digest for a name is whole. The row
//! is written after that. Folders and the index are synced at the barrier (`Bodies::sync`). A 2xx is kept if its
//! body was received whole and could be decoded; robots.txt is not, the crawl reads it for itself.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use hyper::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use ring::digest::{Context, SHA256};
use serde::Serialize;

use super::capture::Capture;
use crate::control::RequestKind;
use crate::crawl::fetcher::decode::{AtCap, Codings, Decoding, Limits};
use crate::journal::disk::{Disk, DiskFile, append_all, sync_names};
use crate::journal::log_file::{LogFile, UNSYNCED_MAX};
use crate::journal::writer::cut_torn_tail;
use crate::text::Clean;

/// Name of the index in the folder.
pub const INDEX_FILE: &str = "index.jsonl";
/// The one body that is being written.
const PARTIAL: &str = ".partial";
/// Decoded bytes in memory before they go to the file.
const STEP: usize = 1 << 20;
/// Received bytes that are decoded at once.
const SLICE: usize = 4096;
/// Folders that wait for a sync at most; then it is time.
const FOLDERS_MAX: usize = 1_024;

/// A row of the index.
#[derive(Serialize)]
struct Row<'a> {
    /// When it was asked for, RFC 3339 in UTC.
    time: String,
    url: &'a str,
    status: u16,
    /// SHA-256 of the decoded body, lower-case hex: its name.
    digest: String,
    /// Decoded bytes.
    length: u64,
    /// Content-Type as sent; empty if there was none.
    r#type: Clean,
    /// Content codings that are still on the body, because we do not know them; else empty.
    encoding: Clean,
}

/// The tree and its index.
pub(super) struct Bodies {
    dir: PathBuf,
    index: LogFile,
    /// Folders with new names in them.
    folders: BTreeSet<PathBuf>,
}

impl Bodies {
    /// Opens the tree in `dir`: a torn last row of the index and a body that was not finished are removed.
    pub(super) fn open(disk: &mut dyn Disk, dir: &Path) -> io::Result<Self> {
        match fs::remove_file(dir.join(PARTIAL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let path = dir.join(INDEX_FILE);
        let size = cut_torn_tail(disk, &path)?;
        Ok(Self { dir: dir.to_path_buf(), index: LogFile::new(path, Vec::new(), size), folders: BTreeSet::new() })
    }

    /// Whether a body is kept.
    pub(super) fn wants(capture: &Capture) -> bool {
        (200..300).contains(&capture.head.status)
            && capture.is_sound
            && capture.truncated.is_none()
            && capture.kind != RequestKind::Robots
    }

    /// Keeps a body that is wanted. May be called again after an error.
    pub(super) fn keep(&mut self, disk: &mut dyn Disk, capture: &Capture) -> io::Result<()> {
        if self.folders.len() >= FOLDERS_MAX || self.index.unsynced() >= UNSYNCED_MAX {
            self.sync(disk)?;
        }
        let values = || capture.head.headers.get_all(CONTENT_ENCODING).iter().map(|value| value.as_bytes());
        let (codings, encoding) = match Codings::parse(values()) {
            Codings::Known(codings) => (codings, Clean::default()),
            Codings::Unknown(_) | Codings::TooDeep => {
                (Vec::new(), Clean::from_bytes(&values().collect::<Vec<_>>().join(&b", "[..])))
            }
        };
        // How much may come out was judged when it was received.
        let limits = Limits { cap: u64::MAX, at_cap: AtCap::Fail, keep: true };
        let mut decoding = Decoding::new(&codings, limits);
        let mut body = Body::new(&self.dir);
        capture.body.read(|part| -> io::Result<()> {
            for slice in part.chunks(SLICE) {
                decoding.push(slice).map_err(io::Error::other)?;
                body.push(disk, &decoding.take())?;
            }
            Ok(())
        })?;
        decoding.finish().map_err(io::Error::other)?;
        body.push(disk, &decoding.take())?;
        let length = body.length;
        let digest = self.settle(disk, body)?;
        let content_type = capture.head.headers.get(CONTENT_TYPE);
        let row = Row {
            time: capture.sent.rfc3339(),
            url: capture.url.as_str(),
            status: capture.head.status,
            digest,
            length,
            r#type: content_type.map(|value| Clean::from_bytes(value.as_bytes())).unwrap_or_default(),
            encoding,
        };
        let mut line = serde_json::to_vec(&row).map_err(io::Error::other)?;
        line.push(b'\n');
        self.index.buffer().extend_from_slice(&line);
        Ok(())
    }

    /// Gives a body its name, unless one like it has it; the digest.
    fn settle(&mut self, disk: &mut dyn Disk, mut body: Body) -> io::Result<String> {
        let digest = HEXLOWER.encode(std::mem::replace(&mut body.digest, Context::new(&SHA256)).finish().as_ref());
        let part = |range| digest.get(range).unwrap_or_default();
        let (outer, inner) = (self.dir.join(part(0..2)), self.dir.join(part(0..2)).join(part(2..4)));
        let path = inner.join(&digest);
        match fs::metadata(&path) {
            Ok(there) if there.len() == body.length => return Ok(digest),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        body.write(disk)?.sync()?;
        fs::create_dir_all(&inner)?;
        disk.rename(&body.path, &path)?;
        self.folders.extend([self.dir.clone(), outer, inner]);
        Ok(digest)
    }

    /// Writes the rows so far, without a sync.
    pub(super) fn write(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if self.index.is_dirty() { self.index.write(disk) } else { Ok(()) }
    }

    /// Returns when all bodies and rows so far are on the medium.
    pub(super) fn sync(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        while let Some(folder) = self.folders.first() {
            sync_names(disk, folder)?;
            self.folders.pop_first();
        }
        if self.index.is_dirty() {
            self.index.write(disk)?;
            self.index.sync()?;
        }
        Ok(())
    }

    /// Whether something waits for a sync.
    pub(super) fn is_dirty(&self) -> bool {
        self.index.is_dirty() || !self.folders.is_empty()
    }

    /// The index.
    pub(super) fn path(&self) -> &Path {
        self.index.path()
    }
}

/// A body that is being written: its end in memory, what came before in the temporary file.
struct Body {
    path: PathBuf,
    digest: Context,
    length: u64,
    bytes: Vec<u8>,
    file: Option<Box<dyn DiskFile>>,
}

impl Body {
    fn new(dir: &Path) -> Self {
        let path = dir.join(PARTIAL);
        Self { path, digest: Context::new(&SHA256), length: 0, bytes: Vec::new(), file: None }
    }

    fn push(&mut self, disk: &mut dyn Disk, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.length = self.length.saturating_add(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= STEP {
            self.write(disk)?;
        }
        Ok(())
    }

    /// Moves what is in memory to the file.
    fn write(&mut self, disk: &mut dyn Disk) -> io::Result<&mut Box<dyn DiskFile>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = disk.open(&self.path)?;
                // One that was not finished, or was not needed.
                file.cut(0)?;
                none.insert(file)
            }
        };
        append_all(&mut **file, &self.bytes, &mut 0)?;
        self.bytes.clear();
        Ok(file)
    }
}
