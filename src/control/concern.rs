//! Concerns: what needs a human, each a pure check with a reason in words and an advice.

use std::time::Duration;

use super::{Mono, Outcome};

/// The kinds of concern, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConcernKind {
    /// Queued, not held, not paused, and no success for long.
    Stuck,
    /// The host refuses or throttles much of what we send, or asked for a long wait.
    Angry,
    /// It will end much later than the bulk of the crawl.
    Tail,
    /// An override or pause past its reminder.
    Forgotten,
}

impl ConcernKind {
    /// The word on screens and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stuck => "STUCK",
            Self::Angry => "ANGRY",
            Self::Tail => "TAIL",
            Self::Forgotten => "FORGOTTEN",
        }
    }
}

/// What made a check raise its concern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// No success since this moment; the last failure, if there was one.
    NoSuccess {
        /// Last success, or the first request.
        since: Mono,
        /// What the last request ended in.
        last: Option<Outcome>,
    },
    /// So many of so many answers in 5 minutes were throttles or refusals; the commonest status.
    Refusals {
        /// Throttles and refusals.
        count: u32,
        /// All answers.
        of: u32,
        /// The commonest such status.
        status: u16,
    },
    /// The server asked for a wait of 60 s or more.
    LongRetryAfter {
        /// How long.
        asked: Duration,
    },
    /// Blocked after a run of refusals.
    Blocked {
        /// The refusals in a row.
        run: u32,
    },
    /// So much longer than the bulk.
    Later {
        /// This host's own ETA.
        eta: Duration,
    },
    /// Paused since.
    PausedSince(Mono),
    /// Overridden since.
    OverriddenSince(Mono),
}

/// A concern in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Concern {
    /// Which.
    pub kind: ConcernKind,
    /// Since when.
    pub since: Mono,
    /// Why.
    pub evidence: Evidence,
}
