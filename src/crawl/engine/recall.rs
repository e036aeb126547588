//! The engine and what hosts bore in earlier runs: a learned start for those it meets, and learning as it goes.

use std::time::Duration;

use super::Engine;
use crate::control::prior::Moment;
use crate::control::{HostId, Mono, Value, What, Who};
use crate::memory::Keeper;
use crate::text::Clean;

impl Engine {
    /// Remembers what `keeper` does. Hosts that an earlier process of this run left are learned of, too, but go on with
    /// their own state: it is newer.
    pub fn remembering(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        for host in self.hosts.ids() {
            self.recall(host);
        }
        self
    }

    /// A host has become known.
    pub(super) fn recall(&mut self, host: HostId) {
        let at = (self.now, self.moment());
        if let Some(keeper) = &mut self.keeper {
            keeper.meet(&mut self.controller, at, host, self.hosts.name(host).as_str());
        }
    }

    /// Learns from all hosts, a slice at a time, and proposes.
    pub(super) fn learn(&mut self, now: Mono) {
        let moment = self.moment();
        let Some(keeper) = &mut self.keeper else { return };
        keeper.turn(&mut self.controller, (now, moment), |host| self.hosts.name(host));
        self.tell_memory();
    }

    /// What is wrong with the memory file is told once.
    pub(super) fn tell_memory(&mut self) {
        if let Some(why) = self.keeper.as_mut().and_then(Keeper::take_trouble) {
            self.note_memory(&why);
            self.notices.push(why);
        }
    }

    fn note_memory(&mut self, why: &Clean) {
        tracing::warn!(%why, "memory");
        self.event(Who::System, None, What::System, Value::None, Value::None, why.as_str(), None);
    }

    /// The end: what was learned is written down. Trouble with that is told, and changes nothing else.
    pub(super) async fn write_memory(&mut self, within: Duration) {
        let at = (self.now, self.moment());
        let Some(keeper) = self.keeper.take() else { return };
        if let Some(why) = keeper.close(&mut self.controller, at, within, |host| self.hosts.name(host)).await {
            self.note_memory(&why);
        }
    }

    /// The time of this turn by the wall.
    fn moment(&self) -> Moment {
        let wall = self.wall_origin.after(Duration::from_nanos(self.now.as_nanos()));
        Moment(u64::try_from(wall.0 / 1_000_000).unwrap_or(0))
    }
}
