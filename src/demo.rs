//! The demo's hosts: the models of [`crate::sim`] as real HTTP servers on loopback, in this process.
//!
//! Their names end in `.demo` and lead nowhere but here: [`Demo::configure`] tells the crawl where each
//! of them listens. Nothing in this module fetches anything, and nothing leaves the machine.

mod server;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::{Config, HostRule, Resolved};
use crate::control::{Original, Policy};
use crate::sim::{Character, Random};

/// Where the redirecting host sends those it sends away.
const AWAY: &str = "http://steady.demo";

/// One host of the demo before it listens: its character and how the crawl is to begin with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DemoCharacter {
    /// Its name.
    pub name: &'static str,
    /// What it does; [`Character::about`] says it in one line.
    pub character: Character,
    /// Its pages.
    pub pages: u32,
    /// Original rate and capacity: more than it bears, where it has a limit.
    pub original: Original,
    /// In flight at most.
    pub connections: u32,
}

const fn host(
    name: &'static str,
    character: Character,
    pages: u32,
    rate: f64,
    capacity: f64,
    connections: u32,
) -> DemoCharacter {
    DemoCharacter { name, character, pages, original: Original { rate, capacity }, connections }
}

/// All hosts of the demo. Each has work for some minutes.
pub const CHARACTERS: [DemoCharacter; 10] = [
    host("steady.demo", Character::Steady, 1_500, 8.0, 8.0, 4),
    host("limit.demo", Character::Limit, 700, 10.0, 10.0, 4),
    host("retry-after.demo", Character::RetryAfter, 700, 10.0, 10.0, 4),
    host("window.demo", Character::Window, 300, 5.0, 5.0, 4),
    host("flaky.demo", Character::Flaky, 600, 6.0, 6.0, 4),
    host("slow.demo", Character::Slow, 600, 10.0, 10.0, 8),
    host("robots.demo", Character::Robots, 80, 4.0, 4.0, 4),
    host("dark.demo", Character::Dark, 600, 6.0, 6.0, 4),
    host("redirect.demo", Character::Redirect, 250, 6.0, 6.0, 4),
    // Two at a time: four at once in its face would be a ban at the first step.
    host("blocking.demo", Character::Blocking, 400, 6.0, 6.0, 2),
];

/// A host of the demo that listens.
#[derive(Clone, PartialEq, Debug)]
pub struct DemoHost {
    /// Its name, as in the URLs.
    pub name: &'static str,
    /// Where it listens.
    pub addr: SocketAddr,
    /// What it does, in one line.
    pub about: &'static str,
    /// How many URLs it gives the crawl to begin with.
    pub pages: usize,
    of: DemoCharacter,
}

/// The demo could not start.
#[derive(thiserror::Error, Debug)]
#[error("cannot listen on loopback for {name}: the demo needs one free port a host")]
pub struct DemoError {
    name: &'static str,
    source: std::io::Error,
}

/// The running servers. Dropping it ends them, too, but does not wait for it.
#[derive(Debug)]
pub struct Demo {
    hosts: Vec<DemoHost>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Starts all hosts of [`CHARACTERS`], each on a port of its own; the same `seed` gives the same chance.
///
/// # Errors
/// If a host cannot listen; those that did are ended.
pub async fn start(clock: Arc<dyn Clock>, seed: u64) -> Result<Demo, DemoError> {
    let mut demo = Demo { hosts: Vec::new(), stop: CancellationToken::new(), tasks: TaskTracker::new() };
    let mut random = Random::new(seed);
    for of in CHARACTERS {
        let failed = |source| DemoError { name: of.name, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let model = of.character.model(of.pages, AWAY, random.next_u64());
        let pages = model.spec().site.paths().len();
        let server = server::HostServer::new(model, Arc::clone(&clock));
        demo.tasks.spawn(server::serve(listener, server, demo.stop.clone(), demo.tasks.clone()));
        demo.hosts.push(DemoHost { name: of.name, addr, about: of.character.about(), pages, of });
    }
    Ok(demo)
}

impl Demo {
    /// The hosts, in the order of [`CHARACTERS`].
    pub fn hosts(&self) -> &[DemoHost] {
        &self.hosts
    }

    /// Where the names lead.
    pub fn resolve(&self) -> BTreeMap<String, Resolved> {
        let entry =
            |host: &DemoHost| (host.name.to_owned(), Resolved { ip: host.addr.ip(), port: Some(host.addr.port()) });
        self.hosts.iter().map(entry).collect()
    }

    /// What to crawl: all hosts in turn, so that each has work at once, some thousand URLs in all.
    pub fn urls(&self) -> Vec<String> {
        let paths: Vec<(&str, Vec<String>)> = self
            .hosts
            .iter()
            .map(|host| (host.name, host.of.character.spec(host.of.pages, AWAY).site.paths()))
            .collect();
        let longest = paths.iter().map(|(_, paths)| paths.len()).max().unwrap_or_default();
        (0..longest)
            .flat_map(|k| paths.iter().filter_map(move |(name, paths)| Some(format!("http://{name}{}", paths.get(k)?))))
            .collect()
    }

    /// Makes `config` fit the demo: loopback is allowed, the names lead to it, every host has originals
    /// of its own (after what the user configured: first match wins) and starts with them at once.
    pub fn configure(&self, config: &mut Config) {
        config.network.allow_private = true;
        config.network.proxy = None;
        config.network.resolve.extend(self.resolve());
        config.settings.cold_start = false;
        // Policy k + 1 belongs to hosts[k]: the two grow together.
        config.settings.policies.resize_with(config.hosts.len() + 1, Policy::default);
        let kind = config.settings.policies[0].kind;
        for host in &self.hosts {
            // A plain name is always a glob.
            let Ok(glob) = globset::Glob::new(host.name) else { continue };
            config.hosts.push(HostRule {
                pattern: glob.compile_matcher(),
                pattern_text: host.name.to_owned(),
                headers: Vec::new(),
                endpoints: Vec::new(),
                inherits: Default::default(),
            });
            config.settings.policies.push(Policy {
                kind,
                original: host.of.original,
                connections: host.of.connections,
                ..Policy::default()
            });
        }
    }

    /// Ends the servers and waits until the last connection is closed. Answers in the making are dropped.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;
    use crate::config::{CrawlConfig, Follow, Glyphs, NetworkConfig, OnHangup, UiConfig};
    use crate::control::Settings;

    fn config() -> Config {
        let second = Duration::from_secs(1);
        let rule = HostRule {
            pattern: globset::Glob::new("*.mine").expect("a glob").compile_matcher(),
            pattern_text: "*.mine".into(),
            headers: Vec::new(),
            endpoints: Vec::new(),
            inherits: Default::default(),
        };
        let mine = Policy { connections: 77, ..Policy::default() };
        Config {
            crawl: CrawlConfig {
                urls: Vec::new(),
                user_agent: "agent".into(),
                follow: Follow::None,
                exclude: Vec::new(),
                allow: Vec::new(),
                sitemaps: false,
                max_depth: 0,
                max_requests: 0,
                retries: 5,
                respect_robots: true,
            },
            settings: Settings { policies: vec![Policy::default(), mine], ..Settings::default() },
            hosts: vec![rule],
            memory: None,
            network: NetworkConfig {
                allow_private: false,
                resolve: BTreeMap::new(),
                connect_timeout: second,
                head_timeout: second,
                idle_timeout: second,
                min_body_rate: 0,
                max_body: 1,
                proxy: None,
                cookies: false,
                extra_roots: Vec::new(),
            },
            output: Default::default(),
            ui: UiConfig {
                fps: 4,
                glyphs: Glyphs::Auto,
                theme: String::new(),
                mouse: false,
                on_hangup: OnHangup::Continue,
            },
            keys: BTreeMap::new(),
        }
    }

    #[tokio::test]
    async fn the_configuration_fits_the_hosts_and_leaves_the_users_rules_first() {
        let demo = start(ManualClock::new(crate::clock::Wall::default()), 1).await.expect("free ports");
        let mut config = config();
        demo.configure(&mut config);
        assert!(config.network.allow_private && !config.settings.cold_start);
        assert_eq!(config.settings.policies.len(), config.hosts.len() + 1);
        assert_eq!(config.settings.policies[1].connections, 77);
        for of in CHARACTERS {
            let k = config.hosts.iter().position(|rule| rule.pattern.is_match(of.name)).expect("a rule of its own");
            assert_eq!(config.settings.policies[k + 1].original, of.original);
            let to = config.network.resolve[of.name];
            assert_eq!(to.port, demo.hosts().iter().find(|host| host.name == of.name).map(|host| host.addr.port()));
        }
        demo.stop().await;
    }

    #[test]
    fn the_blocking_host_is_met_so_that_it_does_not_ban_at_once() {
        use crate::control::ControllerKind;
        use crate::sim::{Candidate, SimServer, run};
        let of = CHARACTERS.iter().find(|of| of.character == Character::Blocking).expect("in the table");
        let Original { rate: ceiling, capacity } = of.original;
        assert_eq!(ceiling, capacity, "as the simulation has it");
        let spec = of.character.spec(of.pages, AWAY);
        let server =
            SimServer { hours: 1.0 / 12.0, ceiling, connections: of.connections, spec, ..SimServer::named(of.name) };
        let policy = Policy { kind: ControllerKind::Adaptive, ..Policy::default() };
        let settings = Settings { policies: vec![policy], cold_start: false, ..Settings::default() };
        let candidate = Candidate::Core(Box::new(settings));
        for seed in 1..=20 {
            let report = run(&server, &candidate, seed);
            assert!(report.bans == 0 && report.refused > 0, "seed {seed}: {report:?}");
        }
    }

    #[test]
    fn whoever_is_sent_away_arrives_at_a_page() {
        let pages = |character| CHARACTERS.iter().find(|of| of.character == character).expect("in the table").pages;
        assert!(pages(Character::Redirect) <= pages(Character::Steady));
        assert_eq!(CHARACTERS.map(|of| of.character), Character::ALL);
    }
}
