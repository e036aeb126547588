//! Workers that take a URL, wait, ask, and sleep before they ask again: how most crawlers are built.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::control::Mono;

/// Workers that are free or asleep; those in flight are in the world's hands.
#[derive(Debug)]
pub(super) struct Workers {
    /// When each may go on, in turn, and how many attempts its URL has behind it.
    ready: BinaryHeap<Reverse<(Mono, u64, u32)>>,
    turn: u64,
}

impl Workers {
    /// So many, all with fresh URLs.
    pub(super) fn new(count: u32) -> Self {
        let mut workers = Self { ready: BinaryHeap::new(), turn: 0 };
        (0..count).for_each(|_| workers.free(Mono::ZERO));
        workers
    }

    /// When the next one may go on.
    pub(super) fn ready_at(&self) -> Mono {
        self.ready.peek().map_or(Mono::NEVER, |Reverse((at, ..))| *at)
    }

    /// The next one goes.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.ready.pop().map(|Reverse((_, _, attempt))| attempt)
    }

    /// A worker takes a fresh URL at `at`.
    pub(super) fn free(&mut self, at: Mono) {
        self.put(at, 0);
    }

    /// A worker sleeps, then tries its URL again; after `retries` it gives the URL up and takes another.
    pub(super) fn retry(&mut self, now: Mono, sleep: Duration, attempt: u32, retries: u32) {
        if attempt < retries { self.put(now.after(sleep), attempt + 1) } else { self.free(now) }
    }

    fn put(&mut self, at: Mono, attempt: u32) {
        self.turn += 1;
        self.ready.push(Reverse((at, self.turn, attempt)));
    }
}
