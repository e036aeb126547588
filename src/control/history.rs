//! What the operator did, so that it can be taken back exactly, host by host.

use std::collections::VecDeque;

use super::{GroupId, Hold, HostId, OperatorSettings};

/// Acts that can be taken back.
pub(super) const ACTS_MAX: usize = 100;
/// Host changes remembered over all acts; the oldest acts are forgotten beyond it.
pub(super) const CHANGES_MAX: usize = 2_000_000;

/// One host's change within an act.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Change {
    /// Override or pause.
    Settings {
        /// Which host.
        host: HostId,
        /// Before the act.
        before: OperatorSettings,
        /// After it.
        after: OperatorSettings,
    },
    /// A hold that a wake ended.
    Woken {
        /// Which host.
        host: HostId,
        /// The hold as it was, if it had one.
        hold: Option<Hold>,
        /// That of its group.
        group: Option<(GroupId, Hold)>,
    },
    /// The halt of the whole crawl; the value after the act.
    Halted(bool),
}

impl Change {
    /// The host it is about.
    pub(super) fn host(&self) -> Option<HostId> {
        match self {
            Self::Settings { host, .. } | Self::Woken { host, .. } => Some(*host),
            Self::Halted(_) => None,
        }
    }
}

/// One act with all its changes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Act {
    /// What it was called, for the answer.
    pub(super) name: String,
    /// What it changed.
    pub(super) changes: Vec<Change>,
}

/// Acts done and acts undone.
#[derive(Debug, Default)]
pub(super) struct History {
    done: VecDeque<Act>,
    undone: Vec<Act>,
}

impl History {
    /// A new act; what had been undone can no longer be redone.
    pub(super) fn record(&mut self, act: Act) {
        self.undone.clear();
        self.push_done(act);
    }

    /// The act to undo.
    pub(super) fn pop_done(&mut self) -> Option<Act> {
        self.done.pop_back()
    }

    /// The act to redo.
    pub(super) fn pop_undone(&mut self) -> Option<Act> {
        self.undone.pop()
    }

    /// An act was made again.
    pub(super) fn push_done(&mut self, act: Act) {
        self.done.push_back(act);
        while self.done.len() > ACTS_MAX
            || (self.done.len() > 1 && self.done.iter().map(|act| act.changes.len()).sum::<usize>() > CHANGES_MAX)
        {
            self.done.pop_front();
        }
    }

    /// An act was taken back.
    pub(super) fn push_undone(&mut self, act: Act) {
        self.undone.push(act);
        if self.undone.len() > ACTS_MAX {
            self.undone.remove(0);
        }
    }
}
