//! The hosts by name: the bucket key, the rule that covers it, and the number the core knows it by.

use std::collections::HashMap;
use std::sync::Arc;

use url::Url;

use super::address::{HostKey, host_key, host_text};
use crate::config::Config;
use crate::control::{HostId, Lane, PolicyId};
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
}

/// All hosts of the crawl.
#[derive(Debug, Default)]
pub struct Hosts {
    by_key: HashMap<HostKey, HostId>,
    names: Vec<HostName>,
    /// Endpoint paths per rule, for the screen.
    endpoints: Vec<Arc<[Clean]>>,
    none: Arc<[Clean]>,
}

impl Hosts {
    /// No hosts yet; the rules' endpoint paths are taken from `config`.
    pub fn new(config: &Config) -> Self {
        let paths = |rule: &crate::config::HostRule| -> Arc<[Clean]> {
            rule.endpoints.iter().map(|endpoint| Clean::new(&endpoint.path)).collect()
        };
        Self { endpoints: config.hosts.iter().map(paths).collect(), ..Self::default() }
    }

    /// The host of `url`. A new one is numbered by `add`; `None` if there is no room for more.
    pub fn find_or_add(&mut self, url: &Url, config: &Config, add: impl FnOnce(PolicyId) -> HostId) -> Option<HostId> {
        if let Some(host) = self.by_key.get(&*host_text(url)) {
            return Some(*host);
        }
        let key = host_key(url);
        if self.names.len() >= HOSTS_MAX {
            return None;
        }
        let rule = config.rule_for(key.as_str()).and_then(|rule| u16::try_from(rule).ok());
        let host = add(PolicyId(rule.map_or(0, |rule| rule.saturating_add(1))));
        self.names.push(HostName { name: Clean::from(&key), rule, requests: 0, schemes: [false; 2] });
        self.by_key.insert(key, host);
        Some(host)
    }

    /// Takes up a host that another process knew, by the text of its key; hosts come in the order of their numbers.
    pub fn restore(&mut self, key: &str, schemes: [bool; 2], config: &Config, add: impl FnOnce(PolicyId) -> HostId) {
        let rule = config.rule_for(key).and_then(|rule| u16::try_from(rule).ok());
        let host = add(PolicyId(rule.map_or(0, |rule| rule.saturating_add(1))));
        self.names.push(HostName { name: Clean::new(key), rule, requests: 0, schemes });
        self.by_key.insert(HostKey::persisted(key), host);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
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
