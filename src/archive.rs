//! The archive: what a crawl keeps of what it fetched, as WARC files and as a tree of bodies.
//!
//! The story of a response: the fetcher tees what it receives into a [`spool`] and makes a [`capture`] of the
//! exchange → the worker hands it over ([`handle`]) → the writer's thread makes records of it ([`records`], with a [`head`]
//! that fits the stored bytes), leaves out payloads it has written before ([`known`]), and appends to the current
//! [`warc_file`], a [`gzip`] member a record. [`bodies`] keeps decoded bodies by their digest. [`tail`] repairs what
//! a kill left behind.
//!
//! What bounds it: a capture holds [`spool::MEMORY_MAX`] bytes of its body in memory and the rest in a file; the
//! engine grants nothing while [`Archive::has_room`] says no. A crawl that keeps nothing has none of this.

pub mod bodies;
pub mod capture;
pub mod gzip;
pub mod handle;
pub mod head;
pub mod known;
pub mod records;
pub mod spool;
pub mod tail;
pub mod warc_file;
mod writer;

pub use capture::{Capture, ResponseHead, Truncated};
pub use handle::{Archive, ArchiveBarrier, ArchiveError, ArchiveHealth, ArchiveOptions, ArchiveSender};
pub use spool::{Room, Tee};

/// Folder of the WARC files in the run folder.
pub const WARC_DIR: &str = "warc";
/// Folder of the bodies in the run folder.
pub const BODIES_DIR: &str = "bodies";

/// What is kept of the exchanges of a crawl.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keep {
    /// WARC records of every exchange that had a response.
    pub warc: bool,
    /// Decoded bodies of successful responses.
    pub bodies: bool,
}

impl Keep {
    /// Whether anything is kept.
    pub const fn any(self) -> bool {
        self.warc || self.bodies
    }
}
