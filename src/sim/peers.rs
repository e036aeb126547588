//! The rules of others, restated from what they publish, as clients to compare with.
//!
//! One file each. Every one gets its own policy of workers and retries, and every one is bound by the
//! operator's ceiling (rate, and a burst of the same number), as ours is. They always have work.

mod aws_cubic;
mod crawlee;
mod heritrix;
mod mission;
mod scrapy_autothrottle;
mod workers;
mod zeno;

use super::client::{Client, Heard, Sending};
use super::supply::Supply;
use super::{Random, SimServer};
use crate::control::{Mono, Original};

/// Whose rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Peer {
    /// The plain rules of the mission, without our mends.
    Mission,
    /// Scrapy's AutoThrottle extension.
    ScrapyAutothrottle,
    /// Zeno of the Internet Archive.
    Zeno,
    /// The AWS SDKs' adaptive retry mode.
    AwsCubic,
    /// Heritrix 3.
    Heritrix,
    /// Crawlee's throttling request manager.
    Crawlee,
}

/// One host under somebody's rules.
trait Rules {
    /// A request that goes out at `now`: how many attempts its URL has behind it.
    fn next(&mut self, now: Mono) -> Option<u32>;

    /// When [`Self::next`] may have something.
    fn next_wake(&self, now: Mono) -> Mono;

    /// An answer, or its absence.
    fn hear(&mut self, now: Mono, heard: &Heard);
}

/// What the operator allows.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    /// Requests per second and burst at most.
    original: Original,
    /// In flight at most.
    connections: u32,
}

impl Peer {
    fn rules(self, allowed: Allowed, random: Random) -> Box<dyn Rules> {
        match self {
            Self::Mission => Box::new(mission::Mission::new(allowed, random)),
            Self::ScrapyAutothrottle => Box::new(scrapy_autothrottle::AutoThrottle::new(allowed, random)),
            Self::Zeno => Box::new(zeno::Zeno::new(allowed)),
            Self::AwsCubic => Box::new(aws_cubic::AwsCubic::new(allowed, random)),
            Self::Heritrix => Box::new(heritrix::Heritrix::new(allowed)),
            Self::Crawlee => Box::new(crawlee::Crawlee::new(allowed)),
        }
    }
}

/// A crawler by somebody's rules: a set of them for each server.
pub(super) struct PeerClient {
    hosts: Vec<Box<dyn Rules>>,
    now: Mono,
}

impl PeerClient {
    pub(super) fn new(peer: Peer, servers: &[(SimServer, Supply)], random: &mut Random) -> Self {
        let host = |(server, _): &(SimServer, Supply)| {
            let original = Original { rate: server.ceiling, capacity: server.ceiling.max(1.0) };
            peer.rules(Allowed { original, connections: server.connections }, Random::new(random.next_u64()))
        };
        Self { hosts: servers.iter().map(host).collect(), now: Mono::ZERO }
    }
}

impl Client for PeerClient {
    fn next(&mut self, now: Mono) -> Option<Sending> {
        self.now = now;
        let mut hosts = self.hosts.iter_mut().enumerate();
        hosts.find_map(|(server, rules)| rules.next(now).map(|mark| Sending { server, mark }))
    }

    fn next_wake(&mut self) -> Mono {
        self.hosts.iter().map(|rules| rules.next_wake(self.now)).fold(Mono::NEVER, Mono::min)
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        if let Some(rules) = self.hosts.get_mut(heard.sending.server) {
            rules.hear(now, heard);
        }
    }
}
