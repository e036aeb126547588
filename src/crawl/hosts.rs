//! The hosts by name: the bucket key, the rule that covers it, and the number the core knows it by.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, RandomState};
use std::sync::Arc;

use globset::GlobSetBuilder;
use url::Url;

use super::address::host_text;
use super::frontier::Folded;
use crate::config::{Config, EndpointRule};
use crate::control::{HostId, Lane, Mono, Placement, PolicyId};
use crate::text::Clean;

/// Hosts that one crawl may know; URLs of further ones are skipped, and said so.
pub const HOSTS_MAX: usize = 4_000_000;

/// One host's name and rule.
#[derive(Clone, Debug)]
pub struct HostName {
    /// The bucket key, safe to print.
    pub name: Clean,
    /// Which `[[host]]` entry covers it.
    pub rule: Option<u16>,
    /// Wire requests so far, for `max_requests`.
    pub requests: u64,
    /// URLs over http and over https were seen: two authorities behind one bucket.
    schemes: [bool; 2],
    /// Which group it belongs to was found out, as far as that can be.
    pub(super) placed: bool,
    /// When a connection led to another address than the one it was grouped by.
    pub(super) moved: Mono,
}

/// All hosts of the crawl.
#[derive(Debug)]
pub struct Hosts {
    /// By a hash of the key and a number of this process, so that names that meet cannot be made beforehand. Two of four
    /// million do by chance, 1 in 2 million, and share a bucket then.
    by_key: HashMap<u64, HostId, BuildHasherDefault<Folded>>,
    secret: u64,
    names: Vec<HostName>,
    /// Endpoint paths per rule, for the screen.
    endpoints: Vec<Arc<[Clean]>>,
    none: Arc<[Clean]>,
}

impl HostName {
    fn new(key: &str, rule: Option<u16>, schemes: [bool; 2]) -> Self {
        Self { name: Clean::new(key), rule, requests: 0, schemes, placed: false, moved: Mono::ZERO }
    }
}

impl Default for Hosts {
    fn default() -> Self {
        let secret = RandomState::new().hash_one("hosts");
        let (by_key, names, endpoints, none) = (HashMap::default(), Vec::new(), Vec::new(), Arc::default());
        Self { by_key, secret, names, endpoints, none }
    }
}

impl Hosts {
    /// No hosts yet; the rules' endpoint paths are taken from `config`.
    pub fn new(config: &Config) -> Self {
        let paths = |rule: &crate::config::HostRule| -> Arc<[Clean]> {
            rule.endpoints.iter().map(|endpoint| Clean::new(&endpoint.path)).collect()
        };
        Self { endpoints: config.hosts.iter().map(paths).collect(), ..Self::default() }
    }

    /// The configuration is `after` from now on, and was `before`: where each host known stands under it, by its
    /// number.
    pub fn rebind(&mut self, before: &Config, after: &Config) -> Vec<Placement> {
        let same = before.hosts.len() == after.hosts.len()
            && before.hosts.iter().zip(&after.hosts).all(|(one, other)| one.pattern_text == other.pattern_text);
        self.endpoints = Self::new(after).endpoints;
        // One look-up for all entries: a million hosts and hundreds of globs would take seconds one by one.
        let mut globs = GlobSetBuilder::new();
        for rule in after.hosts.iter().filter(|_| !same) {
            globs.add(rule.pattern.glob().clone());
        }
        let globs = globs.build().ok().filter(|_| !same);
        let mut matching = Vec::new();
        let mut placements = Vec::with_capacity(self.names.len());
        for host in &mut self.names {
            let old = host.rule;
            let new = match &globs {
                _ if same => old.map(usize::from),
                // Ascending, so the first is the one that wins.
                Some(globs) => {
                    globs.matches_into(host.name.as_str(), &mut matching);
                    matching.first().copied()
                }
                None => after.rule_for(host.name.as_str()),
            };
            host.rule = new.and_then(|rule| u16::try_from(rule).ok());
            let lanes = moved_lanes(paths(before, old), paths(after, host.rule));
            placements.push(Placement { policy: policy_of(host.rule), lanes });
        }
        placements
    }

    /// The host of `url`. A new one is numbered by `add`; `None` if there is no room for more.
    pub fn find_or_add(&mut self, url: &Url, config: &Config, add: impl FnOnce(PolicyId) -> HostId) -> Option<HostId> {
        let key = host_text(url);
        let hash = self.hash(&key);
        if let Some(host) = self.by_key.get(&hash) {
            return Some(*host);
        }
        if !self.has_room() {
            return None;
        }
        let rule = config.rule_for(&key).and_then(|rule| u16::try_from(rule).ok());
        let host = add(policy_of(rule));
        self.names.push(HostName::new(&key, rule, [false; 2]));
        self.by_key.insert(hash, host);
        Some(host)
    }

    /// Takes up a host that another process knew, by the text of its key; hosts come in the order of their numbers.
    pub fn restore(&mut self, key: &str, schemes: [bool; 2], config: &Config, add: impl FnOnce(PolicyId) -> HostId) {
        let rule = config.rule_for(key).and_then(|rule| u16::try_from(rule).ok());
        let host = add(policy_of(rule));
        self.names.push(HostName::new(key, rule, schemes));
        self.by_key.insert(self.hash(key), host);
    }

    /// All of them, by number.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..u32::try_from(self.names.len()).unwrap_or(u32::MAX)).map(HostId)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there may be more.
    pub fn has_room(&self) -> bool {
        self.names.len() < HOSTS_MAX
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The host of `url`, if it is known.
    pub fn find(&self, url: &Url) -> Option<HostId> {
        self.find_named(&host_text(url))
    }

    /// The same by its key.
    pub fn find_named(&self, key: &str) -> Option<HostId> {
        self.by_key.get(&self.hash(key)).copied()
    }

    fn hash(&self, key: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key.as_bytes(), self.secret)
    }

    /// The lane of `url` inside its host.
    pub fn lane(&self, host: HostId, url: &Url, config: &Config) -> Lane {
        match self.names.get(host.0 as usize).and_then(|name| name.rule) {
            Some(rule) => config.endpoint_for(usize::from(rule), url.path()),
            None => Lane(0),
        }
    }

    /// A URL of the host was seen.
    pub fn note_scheme(&mut self, host: HostId, url: &Url) {
        if let Some(name) = self.names.get_mut(host.0 as usize) {
            name.schemes[usize::from(url.scheme() == "https")] = true;
        }
    }

    /// Whether two authorities stand behind the host's bucket: trouble of one is not the other's.
    pub fn is_mixed(&self, host: HostId) -> bool {
        self.names.get(host.0 as usize).is_some_and(|name| name.schemes == [true; 2])
    }

    /// The name of a host; empty if there is none.
    pub fn name(&self, host: HostId) -> Clean {
        self.names.get(host.0 as usize).map(|host| host.name.clone()).unwrap_or_default()
    }

    /// One host, to count on.
    pub fn get_mut(&mut self, host: HostId) -> Option<&mut HostName> {
        self.names.get_mut(host.0 as usize)
    }

    /// Paths of a host's endpoints, lane 1 first.
    pub fn endpoints(&self, host: HostId) -> Arc<[Clean]> {
        let rule = self.names.get(host.0 as usize).and_then(|host| host.rule);
        rule.and_then(|rule| self.endpoints.get(usize::from(rule))).unwrap_or(&self.none).clone()
    }
}

/// The policy that belongs to an entry of the configuration.
fn policy_of(rule: Option<u16>) -> PolicyId {
    PolicyId(rule.map_or(0, |rule| rule.saturating_add(1)))
}

/// The endpoints of an entry; none without one.
fn paths(config: &Config, rule: Option<u16>) -> &[EndpointRule] {
    let rule = rule.and_then(|rule| config.hosts.get(usize::from(rule)));
    rule.map(|rule| rule.endpoints.as_slice()).unwrap_or_default()
}

/// Which lane each endpoint of `after` was in `before`; `None` if they are the same.
fn moved_lanes(before: &[EndpointRule], after: &[EndpointRule]) -> Option<Vec<Option<Lane>>> {
    if before.iter().map(|one| &one.path).eq(after.iter().map(|one| &one.path)) {
        return None;
    }
    let lane = |one: &EndpointRule| {
        let at = before.iter().position(|old| old.path == one.path)?;
        u8::try_from(at + 1).ok().map(Lane)
    };
    Some(after.iter().map(lane).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "c.toml").expect(text)
    }

    #[test]
    fn known_hosts_move_to_the_first_entry_that_matches_now() {
        let before = config("[[host]]\nmatch = \"a.example\"\n[[host.endpoint]]\npath = \"/x/\"\n");
        let after = config(
            "[[host]]\nmatch = \"b.*\"\n[[host]]\nmatch = \"*.example\"\n[[host.endpoint]]\npath = \"/new/\"\n\
             [[host.endpoint]]\npath = \"/x/\"\n[[host]]\nmatch = \"a.example\"\n",
        );
        let mut hosts = Hosts::new(&before);
        for (number, name) in (0..).zip(["a.example", "b.example", "c.test"]) {
            let url = Url::parse(&format!("http://{name}/")).expect("valid");
            hosts.find_or_add(&url, &before, |_| HostId(number)).expect("room");
        }
        let place = |policy, lanes| Placement { policy: PolicyId(policy), lanes };
        let moved = hosts.rebind(&before, &after);
        assert_eq!(moved, [place(2, Some(vec![None, Some(Lane(1))])), place(1, None), place(0, None)]);
        assert_eq!(hosts.endpoints(HostId(0)).len(), 2);
        assert_eq!(hosts.rebind(&after, &after), [place(2, None), place(1, None), place(0, None)], "nothing changes");
        let none = hosts.rebind(&after, &config(""));
        assert_eq!(none, [place(0, Some(Vec::new())), place(0, None), place(0, None)]);
    }
}
