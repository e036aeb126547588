//! Whose bucket a host shares, when the configuration says that hosts share one.
//!
//! By registrable domain that is known with the name. By address it is known when the name is resolved, and nothing
//! goes to a host before: its first grant is given back, its address is looked up, and it goes on in its group. A
//! name that has no address, or none in time, goes on alone; its requests will say why. The address looked up is the
//! first that the resolver names; if a connection leads elsewhere, the host moves to the group of that address, at
//! most every [`MOVES_EVERY`].
//!
//! The operator may group hosts that no such rule finds. What was grouped by hand stays so, whatever the rule is and
//! becomes, until it is parted by hand.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use url::Url;

use super::Engine;
use super::persist::{GROUP, url_of_host};
use crate::control::{GroupBy, HostId, Mono, SavedGroup, Value, What, Who};
use crate::crawl::scope::domain_of;
use crate::store::load::Loaded;
use crate::text::Clean;

/// Look-ups under way at once; further hosts wait for their turn.
const LOOKUPS_MAX: usize = 32;
/// A host whose connections lead to several addresses changes its group at most so often.
const MOVES_EVERY: Duration = Duration::from_secs(600);

/// What the names of groups begin with that were made by hand: no domain and no address does.
const BY_HAND: char = '=';
/// Hosts that one command groups or parts at most.
const BY_HAND_MAX: usize = 1_000;

/// Hosts whose addresses are looked up.
#[derive(Debug, Default)]
pub(super) struct Placing {
    under_way: JoinSet<(HostId, Option<IpAddr>)>,
    /// At most one entry a host.
    waiting: VecDeque<HostId>,
}

impl Placing {
    /// Whether a look-up is under way.
    pub(super) fn looks(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The next look-up that ends; `None` = it ended without a word.
    pub(super) async fn next(&mut self) -> Option<(HostId, Option<IpAddr>)> {
        self.under_way.join_next().await?.ok()
    }
}

impl Engine {
    fn groups_by(&self) -> GroupBy {
        self.config.settings.group_by
    }

    /// A host was made known by `url`.
    pub(super) fn group_new(&mut self, host: HostId, url: &Url) {
        let now = self.now;
        if self.is_by_hand(host) {
            return;
        }
        match self.groups_by() {
            GroupBy::Host => {}
            GroupBy::Domain => self.controller.join(now, host, domain_of(url)),
            GroupBy::Ip => {
                if let Some(ip) = literal(url) {
                    self.join_address(now, host, ip);
                }
            }
        }
    }

    /// Whether nothing may go to a host before its address is known.
    pub(super) fn is_to_be_placed(&mut self, host: HostId) -> bool {
        let open = self.groups_by() == GroupBy::Ip && !self.is_by_hand(host);
        open && self.hosts.get_mut(host).is_some_and(|host| !host.placed)
    }

    /// Looks a host's address up; it waits meanwhile.
    pub(super) fn place_by_address(&mut self, now: Mono, host: HostId) {
        self.controller.set_placing(now, host, true);
        self.placing.waiting.push_back(host);
        self.look_up();
    }

    fn look_up(&mut self) {
        while self.placing.under_way.len() < LOOKUPS_MAX {
            let Some(host) = self.placing.waiting.pop_front() else { return };
            let Some(url) = url_of_host(self.hosts.name(host).as_str()) else {
                self.take_placed((host, None));
                continue;
            };
            let looked_up = self.desk.fetch.address(url);
            self.placing.under_way.spawn(async move {
                let address = AssertUnwindSafe(looked_up).catch_unwind().await;
                (host, address.unwrap_or_default())
            });
        }
    }

    /// A host's address was looked up.
    pub(super) fn take_placed(&mut self, (host, address): (HostId, Option<IpAddr>)) {
        let now = self.now;
        match address.filter(|_| self.groups_by() == GroupBy::Ip && !self.is_by_hand(host)) {
            Some(ip) => self.join_address(now, host, ip),
            None => self.set_placed(host),
        }
        self.controller.set_placing(now, host, false);
        self.look_up();
    }

    fn join_address(&mut self, now: Mono, host: HostId, ip: IpAddr) {
        self.controller.join(now, host, &ip.to_canonical().to_string());
        self.set_placed(host);
    }

    fn set_placed(&mut self, host: HostId) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.placed = true;
        }
    }

    /// A response came from `ip`.
    pub(super) fn follow_address(&mut self, now: Mono, host: HostId, ip: IpAddr) {
        if self.groups_by() != GroupBy::Ip || self.is_by_hand(host) {
            return;
        }
        let group = self.controller.group_of(host);
        let is_there = group.is_some_and(|group| group.parse() == Ok(ip.to_canonical()));
        let alone = group.is_none();
        let Some(known) = self.hosts.get_mut(host).filter(|_| !is_there) else { return };
        if alone || known.moved == Mono::ZERO || now.since(known.moved) >= MOVES_EVERY {
            known.moved = now;
            self.join_address(now, host, ip);
        }
    }

    /// Hosts share buckets by another rule from now on: holds and what was learned go along, no bucket gains a token.
    pub(super) fn regroup(&mut self, now: Mono) {
        let by_hand: Vec<_> = self.hosts.ids().filter_map(|host| Some((host, self.group_by_hand_of(host)?))).collect();
        self.controller.dissolve_groups(now);
        by_hand.iter().for_each(|(host, group)| self.controller.join(now, *host, group));
        for host in self.hosts.ids() {
            if let Some(known) = self.hosts.get_mut(host) {
                (known.placed, known.moved) = (false, Mono::ZERO);
            }
        }
        self.group_all();
    }

    /// What the groups of an earlier process learned and wait for, before their members are known.
    pub(super) fn restore_groups(&mut self, now: Mono, loaded: &Loaded) {
        let by = self.groups_by();
        let states = loaded.states.iter().filter_map(|((_, key), value)| Some((key.strip_prefix(GROUP)?, value)));
        for (name, value) in states.filter(|(name, _)| is_named_by(name, by)) {
            match serde_json::from_slice::<SavedGroup>(value) {
                Ok(saved) => self.controller.restore_group(now, name, saved),
                Err(error) => {
                    tracing::error!(group = %Clean::new(name), %error, "the saved state of a group cannot be used");
                }
            }
        }
    }

    /// Groups hosts that are known already, as far as they are not where they belong: an earlier process knew them, or the
    /// rule is another.
    pub(super) fn group_all(&mut self) {
        if self.groups_by() == GroupBy::Host {
            return;
        }
        for host in self.hosts.ids() {
            if let Some(url) = url_of_host(self.hosts.name(host).as_str()) {
                self.group_new(host, &url);
            }
        }
    }

    /// A host that an earlier process knew, and the group that it was in then.
    pub(super) fn rejoin(&mut self, now: Mono, host: HostId, group: Option<&str>) {
        let Some(name) = group else { return };
        if name.starts_with(BY_HAND) {
            return self.controller.rejoin(now, host, name);
        }
        match self.groups_by() {
            GroupBy::Host => {}
            GroupBy::Domain => {
                let url = url_of_host(self.hosts.name(host).as_str());
                if url.is_some_and(|url| domain_of(&url) == name) {
                    self.controller.rejoin(now, host, name);
                }
            }
            // It stays where it was: the next connection tells if that is still true.
            GroupBy::Ip if name.parse::<IpAddr>().is_ok() => {
                self.controller.rejoin(now, host, name);
                self.set_placed(host);
            }
            GroupBy::Ip => {}
        }
    }
}

/// Groups that the operator makes and parts.
impl Engine {
    /// The name of the group that a host was put into by hand.
    fn group_by_hand_of(&self, host: HostId) -> Option<String> {
        self.controller.group_of(host).filter(|name| name.starts_with(BY_HAND)).map(str::to_owned)
    }

    fn is_by_hand(&self, host: HostId) -> bool {
        self.controller.group_of(host).is_some_and(|name| name.starts_with(BY_HAND))
    }

    /// These hosts share one bucket from now on. One alone stands for those that it seems to share a limit with.
    pub(super) fn group_by_hand(&mut self, mut hosts: Vec<HostId>) -> Result<String, String> {
        let now = self.now;
        if let [host] = hosts.as_slice() {
            hosts = self.controller.seem_to_share(now, *host);
        }
        let mut seen = HashSet::new();
        hosts.retain(|host| seen.insert(*host));
        if hosts.len() < 2 {
            return Err(String::from(
                "not grouped: name two hosts or more; one alone has to be of the concern SHARED LIMIT",
            ));
        }
        if hosts.len() > BY_HAND_MAX {
            return Err(format!("not grouped: these are {} hosts, {BY_HAND_MAX} are taken at once", hosts.len()));
        }
        let known = hosts.iter().find_map(|host| self.group_by_hand_of(*host));
        let name = known.unwrap_or_else(|| format!("{BY_HAND}{}", self.hosts.name(hosts[0])));
        let moved: Vec<HostId> =
            hosts.iter().copied().filter(|host| self.controller.group_of(*host) != Some(&name)).collect();
        if moved.is_empty() {
            return Err(String::from("not grouped: they share one bucket already"));
        }
        for host in &moved {
            let before = self.controller.group_of(*host).map_or(Value::None, |group| Value::Text(group.to_owned()));
            let why = format!("one bucket for {} hosts that you named", hosts.len());
            self.event(Who::Operator, Some(*host), What::Group, before, Value::Text(name.clone()), &why, None);
            self.controller.join_for_good(now, *host, &name);
            self.set_placed(*host);
        }
        Ok(format!("{} hosts share one bucket: group {name}; `:ungroup` parts them", hosts.len()))
    }

    /// These hosts are grouped as the configuration says from now on. Who would be left alone goes, too.
    pub(super) fn ungroup_by_hand(&mut self, mut hosts: Vec<HostId>) -> Result<String, String> {
        let now = self.now;
        hosts.retain(|host| self.is_by_hand(*host));
        let names: HashSet<String> = hosts.iter().filter_map(|host| self.group_by_hand_of(*host)).collect();
        for name in names {
            let mut left = self.controller.members(&name);
            left.retain(|member| !hosts.contains(member));
            hosts.extend(left.first().filter(|_| left.len() == 1));
        }
        if hosts.is_empty() {
            return Err(String::from("not parted: none of these was grouped by `:group`"));
        }
        for host in &hosts {
            let before = self.controller.group_of(*host).map_or(Value::None, |group| Value::Text(group.to_owned()));
            self.controller.leave(now, *host);
            if let Some(known) = self.hosts.get_mut(*host) {
                (known.placed, known.moved) = (false, Mono::ZERO);
            }
            if let Some(url) = url_of_host(self.hosts.name(*host).as_str()) {
                self.group_new(*host, &url);
            }
            let after = self.controller.group_of(*host).map_or(Value::None, |group| Value::Text(group.to_owned()));
            self.event(Who::Operator, Some(*host), What::Group, before, after, "parted by you", None);
        }
        let count = hosts.len();
        Ok(format!("{count} host{} parted, with what was learned together", if count == 1 { "" } else { "s" }))
    }
}

/// Whether a group of this name may be one under this rule.
fn is_named_by(name: &str, by: GroupBy) -> bool {
    match by {
        _ if name.starts_with(BY_HAND) => true,
        GroupBy::Host => false,
        GroupBy::Domain => true,
        GroupBy::Ip => name.parse::<IpAddr>().is_ok(),
    }
}

/// The address that a URL names itself.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        url::Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
        url::Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        url::Host::Domain(_) => None,
    }
}
