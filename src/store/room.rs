//! Room on the disk: two thresholds and a dwell, so that a crawl at the edge of a full disk does not stop and go. On a
//! file system that is small itself they are an eighth and a quarter of it.

use crate::journal::disk::Space;
use crate::text::Clean;

/// Below so many free bytes nothing more goes out: what is in flight still has room to be written down.
pub const ROOM_LOW: u64 = 32 << 20;
/// Above so many it may go on, once that has lasted.
pub const ROOM_HIGH: u64 = 64 << 20;
/// So many looks in a row must have found [`ROOM_HIGH`], a retry time apart.
pub const ROOM_LOOKS: u32 = 5;

/// Whether there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Room {
    low: bool,
    good: u32,
    /// The size of the file system.
    all: u64,
}

impl Room {
    /// Takes what was found; `None` = it is not known, which counts as enough.
    pub(super) fn look(&mut self, found: Option<Space>) {
        let Some(Space { free, all }) = found else {
            *self = Self::default();
            return;
        };
        self.all = all;
        match self.low {
            false => self.low = free < self.low_below(),
            true if free > self.high_above() => {
                self.good += 1;
                self.low = self.good < ROOM_LOOKS;
            }
            true => self.good = 0,
        }
        if !self.low {
            self.good = 0;
        }
    }

    fn low_below(self) -> u64 {
        ROOM_LOW.min(self.all / 8)
    }

    fn high_above(self) -> u64 {
        ROOM_HIGH.min(self.all / 4)
    }

    pub(super) fn is_low(self) -> bool {
        self.low
    }

    /// Why nothing goes out, if nothing does.
    pub(super) fn reason(self) -> Option<Clean> {
        let text = |bytes: u64| match bytes >> 20 {
            0 => format!("{} KiB", bytes >> 10),
            mib => format!("{mib} MiB"),
        };
        self.low.then(|| {
            Clean::new(format!(
                "less than {} were free: make room and the crawl goes on when {} have been free for a while",
                text(self.low_below()),
                text(self.high_above())
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_95_a_disk_at_its_edge_does_not_stop_and_go() {
        let mut room = Room::default();
        let mut found = |free: u64| {
            room.look(Some(Space { free, all: 1 << 40 }));
            room.is_low()
        };
        assert!(!found(ROOM_LOW));
        assert!(found(ROOM_LOW - 1));
        assert!(found(ROOM_LOW + 1), "between the thresholds it stays as it is");
        for _ in 1..ROOM_LOOKS {
            assert!(found(ROOM_HIGH + 1), "not yet");
        }
        assert!(found(ROOM_HIGH), "the dwell begins anew");
        for _ in 1..ROOM_LOOKS {
            assert!(found(ROOM_HIGH + 1), "not yet");
        }
        assert!(!found(ROOM_HIGH + 1));
        assert!(!found(ROOM_LOW), "and it stays so until it is low again");
        assert!(found(0));
        room.look(None);
        assert_eq!(room.reason(), None, "a file system that does not tell is no reason");
    }

    #[test]
    fn case_95_a_small_disk_has_room_for_a_crawl() {
        let mut room = Room::default();
        let mut found = |free: u64| {
            room.look(Some(Space { free, all: 16 << 20 }));
            room.reason().map(|why| why.as_str().to_owned())
        };
        assert_eq!(found(2 << 20), None);
        let why = found((2 << 20) - 1).expect("an eighth");
        assert!(why.starts_with("less than 2 MiB were free") && why.contains("when 4 MiB have been"), "{why}");
        for _ in 1..ROOM_LOOKS {
            assert!(found(5 << 20).is_some());
        }
        assert_eq!(found(5 << 20), None);
    }
}
