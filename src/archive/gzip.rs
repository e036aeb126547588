//! Gzip members (RFC 1952), one after another: what a record becomes.
//!
//! By hand around raw deflate, because its state is made once and used again for every record.

use std::io;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Compression level: the best that still keeps up with a fast crawl.
const LEVEL: u32 = 6;
/// Deflate, no name, no time, no system.
pub(super) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// Room for one step of output, in bytes.
const STEP: usize = 16 << 10;

/// Makes members.
#[derive(Debug)]
pub struct Members {
    deflate: Compress,
    crc: Crc,
}

impl Default for Members {
    fn default() -> Self {
        Self { deflate: Compress::new(Compression::new(LEVEL), false), crc: Crc::new() }
    }
}

impl Members {
    /// Begins a member at the end of `out`.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.deflate.reset();
        self.crc.reset();
        out.extend_from_slice(&HEADER);
    }

    /// Puts bytes into the member.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.crc.update(bytes);
        while !bytes.is_empty() {
            out.reserve(STEP);
            let before = self.deflate.total_in();
            self.deflate.compress_vec(bytes, out, FlushCompress::None).map_err(io::Error::other)?;
            let used = usize::try_from(self.deflate.total_in() - before).unwrap_or(usize::MAX);
            bytes = bytes.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the member.
    pub fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            out.reserve(STEP);
            match self.deflate.compress_vec(&[], out, FlushCompress::Finish).map_err(io::Error::other)? {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {}
            }
        }
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        out.extend_from_slice(&self.crc.amount().to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::bufread::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn members_decode_one_by_one_to_what_went_in(
            members in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..4), 1..5),
            repeat in 1_usize..40,
        ) {
            let mut gzip = Members::default();
            let mut out = Vec::new();
            for member in &members {
                gzip.begin(&mut out);
                for part in member {
                    gzip.push(&part.repeat(repeat), &mut out).expect("in memory");
                }
                gzip.end(&mut out).expect("in memory");
            }
            let mut rest = out.as_slice();
            for member in &members {
                let mut decoded = Vec::new();
                GzDecoder::new(&mut rest).read_to_end(&mut decoded).expect("a member");
                let expected: Vec<u8> = member.iter().flat_map(|part| part.repeat(repeat)).collect();
                prop_assert_eq!(decoded, expected);
            }
            prop_assert!(rest.is_empty());
        }
    }
}
