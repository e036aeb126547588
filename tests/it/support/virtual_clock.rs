//! The clock of engines that run in virtual time.

use std::time::Duration;

use crawldeck::clock::{Clock, Wall};
use crawldeck::control::Mono;

/// Time as the paused runtime has it.
#[derive(Debug)]
pub(crate) struct VirtualClock {
    /// When the test began.
    pub(crate) origin: tokio::time::Instant,
}

impl Clock for VirtualClock {
    fn now(&self) -> Mono {
        Mono::ZERO.after(self.origin.elapsed() + Duration::from_secs(1))
    }

    fn wall(&self) -> Wall {
        Wall(1_700_000_000_000_000 + i64::try_from(self.origin.elapsed().as_micros()).expect("short"))
    }
}
