//! Heritrix 3: one request at a time, then a rest of five times what it took, within 3 s and 30 s.
//!
//! Counted from the end of the answer. 429 and Retry-After are not consulted: a refused URL is done with.

use std::time::Duration;

use super::{Allowed, Rules};
use crate::control::Mono;
use crate::sim::client::Heard;

const DELAY_FACTOR: f64 = 5.0;
const DELAY_MIN: Duration = Duration::from_secs(3);
const DELAY_MAX: Duration = Duration::from_secs(30);

pub(super) struct Heritrix {
    /// The gap of the operator's ceiling.
    gap: Duration,
    /// When the next may go; never while one is under way.
    ready: Mono,
}

impl Heritrix {
    pub(super) fn new(allowed: Allowed) -> Self {
        let gap = Duration::try_from_secs_f64(1.0 / allowed.original.rate).unwrap_or(DELAY_MAX);
        Self { gap, ready: Mono::ZERO }
    }
}

impl Rules for Heritrix {
    fn next(&mut self, now: Mono) -> Option<u32> {
        (self.ready <= now).then(|| {
            self.ready = Mono::NEVER;
            0
        })
    }

    fn next_wake(&self, _now: Mono) -> Mono {
        self.ready
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let rest = now.since(heard.sent).mul_f64(DELAY_FACTOR).clamp(DELAY_MIN, DELAY_MAX);
        self.ready = now.after(rest).max(heard.sent.after(self.gap));
    }
}
