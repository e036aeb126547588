//! What the operator did, so that it can be taken back exactly, host by host.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::saved::SavedOperator;
use super::{Hold, HostId, Mono, OperatorSettings};

/// Acts that can be taken back.
pub(super) const ACTS_MAX: usize = 100;
/// Host changes remembered over all acts; the oldest acts are forgotten beyond it.
pub(super) const CHANGES_MAX: usize = 2_000_000;

/// Host changes that are saved, over the newest acts: an act on more hosts cannot be taken back after a restart, nor what
/// was done before it.
pub(super) const SAVED_MAX: usize = 5_000;

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
        /// That of the group that it was in.
        group: Option<Hold>,
        /// Headers limited it and are not believed since: until when nothing was to be sent.
        paced: Option<Mono>,
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
    unsaved: bool,
}

impl History {
    /// A new act; what had been undone can no longer be redone.
    pub(super) fn record(&mut self, act: Act) {
        self.undone.clear();
        self.push_done(act);
    }

    /// The act to undo.
    pub(super) fn pop_done(&mut self) -> Option<Act> {
        self.unsaved = true;
        self.done.pop_back()
    }

    /// The act to redo.
    pub(super) fn pop_undone(&mut self) -> Option<Act> {
        self.unsaved = true;
        self.undone.pop()
    }

    /// An act was made again.
    pub(super) fn push_done(&mut self, act: Act) {
        self.unsaved = true;
        self.done.push_back(act);
        while self.done.len() > ACTS_MAX
            || (self.done.len() > 1 && self.done.iter().map(|act| act.changes.len()).sum::<usize>() > CHANGES_MAX)
        {
            self.done.pop_front();
        }
    }

    /// An act was taken back.
    pub(super) fn push_undone(&mut self, act: Act) {
        self.unsaved = true;
        self.undone.push(act);
        if self.undone.len() > ACTS_MAX {
            self.undone.remove(0);
        }
    }

    /// Whether it has changed since it was last saved.
    pub(super) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// What is to be saved of it, if it has changed.
    pub(super) fn take_unsaved(&mut self) -> Option<SavedHistory> {
        std::mem::take(&mut self.unsaved).then(|| {
            let mut room = SAVED_MAX;
            let mut fits = |act: &&Act| {
                let fits = act.changes.len() <= room;
                room = room.saturating_sub(act.changes.len());
                fits
            };
            let mut done: Vec<SavedAct> = self.done.iter().rev().take_while(&mut fits).map(SavedAct::from).collect();
            let mut undone: Vec<SavedAct> =
                self.undone.iter().rev().take_while(&mut fits).map(SavedAct::from).collect();
            done.reverse();
            undone.reverse();
            SavedHistory { done, undone }
        })
    }
}

/// What the operator did, as it is persisted. Hosts keep their numbers over a restart, moments go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SavedHistory {
    done: Vec<SavedAct>,
    undone: Vec<SavedAct>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedAct {
    name: String,
    changes: Vec<SavedChange>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedChange {
    Settings {
        host: u32,
        before: SavedOperator,
        after: SavedOperator,
    },
    Woken {
        host: u32,
        hold: Option<Hold>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<Hold>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paced: Option<Mono>,
    },
    Halted(bool),
}

impl From<&Act> for SavedAct {
    fn from(act: &Act) -> Self {
        let saved = |change: &Change| match *change {
            Change::Settings { host, before, after } => {
                SavedChange::Settings { host: host.0, before: before.into(), after: after.into() }
            }
            Change::Woken { host, hold, group, paced } => SavedChange::Woken { host: host.0, hold, group, paced },
            Change::Halted(halted) => SavedChange::Halted(halted),
        };
        Self { name: act.name.clone(), changes: act.changes.iter().map(saved).collect() }
    }
}

impl From<SavedAct> for Act {
    fn from(act: SavedAct) -> Self {
        let taken = |change: SavedChange| match change {
            SavedChange::Settings { host, before, after } => {
                Change::Settings { host: HostId(host), before: before.into(), after: after.into() }
            }
            SavedChange::Woken { host, hold, group, paced } => Change::Woken { host: HostId(host), hold, group, paced },
            SavedChange::Halted(halted) => Change::Halted(halted),
        };
        Self { name: act.name, changes: act.changes.into_iter().map(taken).collect() }
    }
}

impl From<SavedHistory> for History {
    fn from(saved: SavedHistory) -> Self {
        let acts = |acts: Vec<SavedAct>| acts.into_iter().take(ACTS_MAX).map(Act::from);
        Self { done: acts(saved.done).collect(), undone: acts(saved.undone).collect(), unsaved: false }
    }
}
