//! Room on the disk: two thresholds and a dwell, so that a crawl at the edge of a full disk does not stop and go.

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
}

impl Room {
    /// Takes what was found free; `None` = it is not known, which counts as enough.
    pub(super) fn look(&mut self, free: Option<u64>) {
        match (self.low, free) {
            (_, None) => *self = Self::default(),
            (false, Some(free)) => self.low = free < ROOM_LOW,
            (true, Some(free)) if free > ROOM_HIGH => {
                self.good += 1;
                self.low = self.good < ROOM_LOOKS;
            }
            (true, Some(_)) => self.good = 0,
        }
        if !self.low {
            self.good = 0;
        }
    }

    pub(super) fn is_low(self) -> bool {
        self.low
    }

    /// Why nothing goes out, if nothing does.
    pub(super) fn reason(self) -> Option<Clean> {
        let mib = |bytes: u64| bytes >> 20;
        self.low.then(|| {
            Clean::new(format!(
                "less than {} MiB were free: make room and the crawl goes on when {} MiB have been free for a while",
                mib(ROOM_LOW),
                mib(ROOM_HIGH)
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
            room.look(Some(free));
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
}
