//! Who knows the limit: what nobody can, as a ceiling for the others.
//!
//! Sends evenly at 0.985 of what the server allows at the moment, or at the operator's ceiling where that is less. A
//! limit that wanders by chance it takes for its mean. It reacts to nothing: what is refused or fails is done with.

use super::workers::Workers;
use super::{Allowed, Rules};
use crate::control::Mono;
use crate::sim::client::Heard;
use crate::sim::{Drift, ServerModel, SimServer};

/// The share of the limit that it uses.
const SHARE: f64 = 0.985;

pub(super) struct Oracle {
    ceiling: f64,
    known: ServerModel,
    next_slot: Mono,
    workers: Workers,
}

impl Oracle {
    pub(super) fn new(allowed: Allowed, server: &SimServer) -> Self {
        let mut server = server.clone();
        if matches!(server.spec.drift, Drift::Noise { .. }) {
            server.spec.drift = Drift::Constant;
        }
        Self {
            ceiling: allowed.original.rate,
            known: server.model(0),
            next_slot: Mono::ZERO,
            workers: Workers::new(allowed.connections),
        }
    }
}

impl Rules for Oracle {
    fn next(&mut self, now: Mono) -> Option<u32> {
        if self.next_wake(now) > now {
            return None;
        }
        let rate = (SHARE * self.known.allowed_rate(now)).min(self.ceiling);
        self.next_slot = now.after_secs(1.0 / rate);
        self.workers.take()
    }

    fn next_wake(&self, _now: Mono) -> Mono {
        self.workers.ready_at().max(self.next_slot)
    }

    fn hear(&mut self, now: Mono, _heard: &Heard) {
        self.workers.free(now);
    }
}
