//! Reasons of our own for which nothing goes out: counted apart from each other, and from the operator's halt and pauses.

use std::collections::BTreeMap;

use super::Engine;
use crate::archive::Archive;
use crate::control::{Value, What, Who};
use crate::text::Clean;

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
}

impl Trouble {
    const ALL: [Self; 4] = [Self::Journal, Self::Archive, Self::State, Self::Room];

    fn begins(self, why: &Clean) -> String {
        match self {
            Self::Journal => format!("journal cannot be written: {why}; no request goes out until it can"),
            Self::Archive => format!("archive cannot be written: {why}; no request goes out until it can"),
            Self::State => format!("the crawl's state cannot be written: {why}; no request goes out until it can"),
            Self::Room => format!("no request goes out: {why}"),
        }
    }

    fn ends(self) -> &'static str {
        match self {
            Self::Journal => "the journal can be written again",
            Self::Archive => "the archive can be written again",
            Self::State => "the crawl's state can be written again",
            Self::Room => "there is room on the disk again",
        }
    }
}

/// Those that last, and why.
pub(super) type Troubles = BTreeMap<Trouble, Clean>;

impl Engine {
    /// What cannot be written stops granting, loudly, until it can. Granting goes on when the last reason has gone.
    pub(super) fn check_troubles(&mut self) {
        let store = self.frontier.store_ref().map(|store| store.health()).unwrap_or_default();
        let journal = self.journal.health().blocked;
        let archive = self.archive.as_ref().and_then(|archive| archive.health().blocked);
        for trouble in Trouble::ALL {
            let found = match trouble {
                Trouble::Journal => journal.clone(),
                Trouble::Archive => archive.clone(),
                // A store that waits for others in trouble has none of its own.
                Trouble::State => store.blocked.clone().filter(|_| journal.is_none() && archive.is_none()),
                Trouble::Room => store.room.clone(),
            };
            match (self.troubles.contains_key(&trouble), found) {
                (true, Some(why)) => drop(self.troubles.insert(trouble, why)),
                (false, Some(why)) => {
                    let told = trouble.begins(&why);
                    self.troubles.insert(trouble, why);
                    self.tell_trouble("granting", "stopped", &told);
                }
                (true, None) => {
                    self.troubles.remove(&trouble);
                    let after = if self.troubles.is_empty() { "granting" } else { "stopped" };
                    self.tell_trouble("stopped", after, trouble.ends());
                }
                (false, None) => {}
            }
        }
        if self.stopped_because.as_ref() != self.troubles.values().next() {
            self.stopped_because = self.troubles.values().next().cloned();
        }
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

    fn tell_trouble(&mut self, before: &str, after: &str, why: &str) {
        tracing::error!(%why, "granting");
        let (before, after) = (Value::Text(before.to_owned()), Value::Text(after.to_owned()));
        self.event(Who::System, None, What::System, before, after, why, None);
    }
}
