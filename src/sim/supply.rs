//! What a simulated host has queued: always something, what comes in, or work that comes and goes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::control::Mono;
use crate::control::host::LaneQueue;

/// URLs that a saturated host claims to have: more than are asked between two looks.
const PLENTY: u32 = 1_000_000;

/// Where a host's URLs come from.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Supply {
    /// The queue is never empty.
    #[default]
    Saturated,
    /// A URL comes in so often a second, evenly, > 0; what is refused or fails is queued again.
    Rate(f64),
    /// The queue is never empty for `busy`, then always for `idle`, over and over.
    Spells {
        /// With work.
        busy: Duration,
        /// Without.
        idle: Duration,
    },
}

/// One host's queue at work.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    supply: Supply,
    /// Failed attempts of each URL that may go at once, where URLs are counted: as many as came in and were
    /// not accepted, so no more than the rate times the length of the run.
    ready: Vec<u32>,
    arrived: u64,
    waiting: BinaryHeap<Reverse<(Mono, u32)>>,
}

impl Stock {
    pub(super) const fn new(supply: Supply) -> Self {
        Self { supply, ready: Vec::new(), arrived: 0, waiting: BinaryHeap::new() }
    }

    /// Whether the queue says the same for ever.
    pub(super) const fn is_constant(&self) -> bool {
        matches!(self.supply, Supply::Saturated)
    }

    /// What is queued at `now`, for the controller.
    pub(super) fn queue(&mut self, now: Mono) -> LaneQueue {
        let ready = match self.supply {
            Supply::Saturated => PLENTY,
            Supply::Spells { busy, idle } => {
                let into = now.as_nanos() as u128 % (busy + idle).as_nanos().max(1);
                if into < busy.as_nanos() { PLENTY } else { 0 }
            }
            Supply::Rate(rate) => {
                let arrived = (now.as_secs_f64() * rate) as u64;
                for _ in self.arrived..arrived {
                    self.ready.push(0);
                }
                self.arrived = arrived;
                while let Some(Reverse((due, failures))) =
                    self.waiting.peek().copied().filter(|Reverse((due, _))| *due <= now)
                {
                    let _ = due;
                    self.waiting.pop();
                    self.ready.push(failures);
                }
                u32::try_from(self.ready.len()).unwrap_or(u32::MAX)
            }
        };
        let due = self.waiting.peek().map_or(Mono::NEVER, |Reverse((due, _))| *due);
        LaneQueue { ready, delayed: u32::try_from(self.waiting.len()).unwrap_or(u32::MAX), due, stored: 0 }
    }

    /// Takes a URL out; how often it has failed.
    pub(super) fn take(&mut self) -> u32 {
        // The oldest first would cost a shift; which of equal URLs goes is all the same.
        self.ready.pop().unwrap_or(0)
    }

    /// Puts a URL back, to go at `due`.
    pub(super) fn put_back(&mut self, due: Mono, failures: u32) {
        if matches!(self.supply, Supply::Rate(_)) {
            self.waiting.push(Reverse((due, failures)));
        }
    }

    /// When the queue changes by itself after `now`.
    pub(super) fn next_change(&self, now: Mono) -> Mono {
        match self.supply {
            Supply::Saturated => Mono::NEVER,
            Supply::Rate(rate) => Mono::from_secs_f64((self.arrived + 1) as f64 / rate.max(1e-9)),
            Supply::Spells { busy, idle } => {
                let whole = (busy + idle).as_nanos().max(1);
                let into = now.as_nanos() as u128 % whole;
                let left = if into < busy.as_nanos() { busy.as_nanos() - into } else { whole - into };
                Mono::from_nanos(now.as_nanos().saturating_add(u64::try_from(left).unwrap_or(u64::MAX)))
            }
        }
    }
}
