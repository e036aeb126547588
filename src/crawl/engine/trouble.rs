//! Our own troubles. Most are reasons for which nothing goes out: counted apart from each other, and from the operator's
//! halt and pauses. With others the crawl goes on, but somebody has to know: they are alarms.

use std::collections::BTreeMap;

use super::Engine;
use crate::archive::Archive;
use crate::control::{Value, What, Who};
use crate::journal::JournalHealth;
use crate::store::Store;
use crate::text::Clean;
use crate::watch::Phase;

/// One of our own troubles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Trouble {
    /// The journal cannot be written.
    Journal,
    /// The archive cannot.
    Archive,
    /// The store cannot.
    State,
    /// The disk is nearly full.
    Room,
    /// The file of states grows: it cannot be written anew.
    Rewrite,
    /// So does the file of requests: it cannot be rotated.
    Rotation,
}

impl Trouble {
    const ALL: [Self; 6] = [Self::Journal, Self::Archive, Self::State, Self::Room, Self::Rewrite, Self::Rotation];

    /// Whether nothing goes out as long as it lasts.
    const fn stops(self) -> bool {
        !matches!(self, Self::Rewrite | Self::Rotation)
    }

    fn begins(self, why: &Clean) -> String {
        match self {
            Self::Journal => format!("journal cannot be written: {why}; no request goes out until it can"),
            Self::Archive => format!("archive cannot be written: {why}; no request goes out until it can"),
            Self::State => format!("the crawl's state cannot be written: {why}; no request goes out until it can"),
            Self::Room => format!("no request goes out: {why}"),
            Self::Rewrite | Self::Rotation => format!("alarm: {why}; {GROWS}"),
        }
    }

    fn ends(self) -> &'static str {
        match self {
            Self::Journal => "the journal can be written again",
            Self::Archive => "the archive can be written again",
            Self::State => "the crawl's state can be written again",
            Self::Room => "there is room on the disk again",
            Self::Rewrite => "the file of states was written anew",
            Self::Rotation => "the file of requests was rotated",
        }
    }
}

/// What a file that cannot be replaced means.
const GROWS: &str = "the crawl goes on with the old file, which grows until it can";

/// Those that last, and why.
pub(super) type Troubles = BTreeMap<Trouble, Clean>;

impl Engine {
    /// What cannot be written stops granting, loudly, until it can. Granting goes on when the last reason has gone. What
    /// only cannot be replaced is told as loudly, and stops nothing.
    pub(super) fn check_troubles(&mut self) {
        self.check_threads();
        let store = self.frontier.store_ref().map(|store| store.health()).unwrap_or_default();
        let JournalHealth { blocked: journal, unrotated, .. } = self.journal.health();
        let archive = self.archive.as_ref().and_then(|archive| archive.health().blocked);
        for trouble in Trouble::ALL {
            let found = match trouble {
                Trouble::Journal => journal.clone(),
                Trouble::Archive => archive.clone(),
                // A store that waits for others in trouble has none of its own.
                Trouble::State => store.blocked.clone().filter(|_| journal.is_none() && archive.is_none()),
                Trouble::Room => store.room.clone(),
                Trouble::Rewrite => store.overgrown.clone(),
                Trouble::Rotation => unrotated.clone(),
            };
            match (self.troubles.contains_key(&trouble), found) {
                (true, Some(why)) => drop(self.troubles.insert(trouble, why)),
                (false, Some(why)) => {
                    let told = trouble.begins(&why);
                    self.troubles.insert(trouble, why);
                    let states = if trouble.stops() { ("granting", "stopped") } else { ("", "alarm") };
                    self.tell_trouble(states, &told);
                }
                (true, None) => {
                    self.troubles.remove(&trouble);
                    let states = match (trouble.stops(), self.stop()) {
                        (false, _) => ("alarm", ""),
                        (true, None) => ("stopped", "granting"),
                        (true, Some(_)) => ("stopped", "stopped"),
                    };
                    self.tell_trouble(states, trouble.ends());
                }
                (false, None) => {}
            }
        }
        if self.stopped_because.as_ref() != self.stop() {
            self.stopped_because = self.stop().cloned();
        }
    }

    /// A thread that is gone, by a panic of its own, comes back only with a new process: the crawl stops and leaves
    /// what was written to that.
    fn check_threads(&mut self) {
        if self.broken.is_some() || !matches!(self.phase, Phase::Running | Phase::Draining) {
            return;
        }
        let journal = self.journal.has_ended().then(|| self.journal.health().blocked);
        let archive = self.archive.as_ref().filter(|archive| archive.has_ended());
        let store = self.frontier.store_ref();
        let written = store.filter(|store| store.is_over()).map(|store| store.health().blocked);
        let read = store.and_then(Store::reads_no_more).map(Some);
        let Some(why) = journal.or(archive.map(|archive| archive.health().blocked)).or(written).or(read) else {
            return;
        };
        let why = why.unwrap_or_else(|| Clean::new("a thread of the run folder has ended"));
        let told = Clean::new(format!("{why}; the crawl has stopped: run it again on the same folder and it goes on"));
        self.tell_trouble(("", "stopped"), told.as_str());
        (self.broken, self.phase) = (Some(told), Phase::Stopped);
    }

    /// The first reason for which nothing goes out.
    fn stop(&self) -> Option<&Clean> {
        self.troubles.iter().find(|(trouble, _)| trouble.stops()).map(|(_, why)| why)
    }

    /// Troubles with which the crawl goes on.
    pub(super) fn alarms(&self) -> Vec<Clean> {
        let alarms = self.troubles.iter().filter(|(trouble, _)| !trouble.stops());
        alarms.map(|(_, why)| Clean::new(format!("{why}; {GROWS}"))).collect()
    }

    /// What the state and the archive miss of what they had is told when the crawl begins: in the journal, and to
    /// whoever watches.
    pub(super) fn tell_losses(&mut self) {
        let archive = self.archive.as_mut().and_then(Archive::take_loss);
        let state = std::mem::take(&mut self.persisted.lost).into_iter().map(|lost| Clean::new(lost.to_string()));
        for why in state.chain(archive) {
            tracing::error!(%why, "what was on the disk is gone");
            self.event(Who::System, None, What::System, Value::None, Value::None, why.as_str(), None);
            self.notices.push(why);
        }
    }

    fn tell_trouble(&mut self, (before, after): (&str, &str), why: &str) {
        tracing::error!(%why, "trouble of our own");
        let value = |word: &str| if word.is_empty() { Value::None } else { Value::Text(word.to_owned()) };
        let (before, after) = (value(before), value(after));
        self.event(Who::System, None, What::System, before, after, why, None);
    }
}
