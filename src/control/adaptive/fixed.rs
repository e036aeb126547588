//! The controller `static`: the originals, always. Holds are honoured all the same.

use serde::{Deserialize, Serialize};

use super::{Bounds, Observation, RateController, Shift};
use crate::control::{Mono, Original};

/// State of the controller `static`: none beside the originals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fixed {
    original: Original,
}

impl Fixed {
    /// At the originals.
    pub fn new(original: Original) -> Self {
        Self { original }
    }
}

impl RateController for Fixed {
    fn on_send(&mut self, _now: Mono, _bounds: &Bounds) {}

    fn on_outcome(&mut self, _now: Mono, _bounds: &Bounds, _observation: &Observation) -> Option<Shift> {
        None
    }

    fn target(&self, _now: Mono) -> Original {
        self.original
    }

    fn ready_at(&self, now: Mono) -> Mono {
        now
    }

    fn reset(&mut self, _now: Mono, bounds: &Bounds) {
        self.original = bounds.original;
    }

    fn rebase(&mut self, _before: Original, after: Original) {
        self.original = after;
    }
}
