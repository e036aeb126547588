//! The configuration: raw (as typed) → [`Config`] (checked). Every default stands here once.
//!
//! Parsing, checking and error positions live in the submodules; the rest of the program sees only
//! [`Config`], in which everything is validated.

mod check;
mod differences;
mod error;
mod hosts;
mod load;
mod nearest;
mod raw;
mod sections;
mod servers;
pub mod units;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::control::{ControllerKind, Original, Policy, Settings};

pub use differences::{Difference, Takes};
pub(crate) use error::line_and_column;
pub use error::{ConfigError, ConfigErrors, ERRORS_MAX};
pub use hosts::{ENDPOINTS_MAX, HOSTS_MAX};
pub use load::{DEFAULT_CONFIG, Environment, FILE_MAX, KeyCheck, KeysCheck, Outside, Overrides, ThemeCheck};
pub use sections::{CONCURRENCY_RANGE, THEMES, is_theme_file};
pub use servers::{SERVERS_MAX, load_servers, parse_servers};

/// What to do when the terminal vanishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnHangup {
    /// Go on without a screen.
    #[default]
    Continue,
    /// Finish what is in flight and end.
    Drain,
}

/// Which glyphs the screen may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Glyphs {
    /// Unicode if the locale says UTF-8.
    #[default]
    Auto,
    /// Blocks, arrows, circles.
    Unicode,
    /// Plain ASCII.
    Ascii,
}

/// Which links are followed.
#[derive(Clone, Debug, Default)]
pub enum Follow {
    /// None.
    #[default]
    None,
    /// Those to the hosts that the inputs name.
    Host,
    /// Those to all hosts of the registrable domains that the inputs name.
    Domain,
    /// Those to hosts that one of these matches.
    Globs(Vec<globset::GlobMatcher>),
}

/// The `[crawl]` section, without what the core takes ([`Settings`]).
#[derive(Clone, Debug)]
pub struct CrawlConfig {
    /// Files of URLs.
    pub urls: Vec<PathBuf>,
    /// The User-Agent header; its first token is what robots.txt groups are matched against.
    pub user_agent: String,
    /// Which links are followed.
    pub follow: Follow,
    /// URL patterns never fetched.
    pub exclude: Vec<regex::Regex>,
    /// URLs that match one of these are never held back as a trap; a domain that does may have any number of hosts.
    pub allow: Vec<regex::Regex>,
    /// Whether the sitemaps that robots.txt names are read.
    pub sitemaps: bool,
    /// Links from an input to a URL at most; 0 = no limit.
    pub max_depth: u32,
    /// Wire requests in the whole crawl; 0 = no limit.
    pub max_requests: u64,
    /// Attempts for one URL that fail with 5xx or network errors.
    pub retries: u32,
    /// Whether robots.txt is read and obeyed.
    pub respect_robots: bool,
}

/// Where a host's name leads instead of DNS: an address, or an address and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The address.
    pub ip: IpAddr,
    /// The port, if it replaces the URL's own.
    pub port: Option<u16>,
}

/// The `[network]` section.
#[derive(Clone)]
pub struct NetworkConfig {
    /// Whether loopback, private, link-local and metadata addresses may be connected to.
    pub allow_private: bool,
    /// Names with fixed addresses.
    pub resolve: BTreeMap<String, Resolved>,
    /// To a connected socket, TLS included.
    pub connect_timeout: Duration,
    /// From send to the end of the header block.
    pub head_timeout: Duration,
    /// Between two bytes.
    pub idle_timeout: Duration,
    /// Least bytes per second of a body, averaged over 30 s.
    pub min_body_rate: u64,
    /// Most decoded bytes of a body.
    pub max_body: u64,
    /// Proxy URL; `None` = direct, whatever the environment says.
    pub proxy: Option<url::Url>,
    /// Whether there is a cookie jar per host.
    pub cookies: bool,
    /// Extra trusted certificates (PEM), for tests and intranets; empty = the bundled roots only.
    pub extra_roots: Vec<PathBuf>,
}

impl std::fmt::Debug for NetworkConfig {
    /// Everything but the proxy's URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkConfig")
            .field("allow_private", &self.allow_private)
            .field("resolve", &self.resolve)
            .field("connect_timeout", &self.connect_timeout)
            .field("head_timeout", &self.head_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("min_body_rate", &self.min_body_rate)
            .field("max_body", &self.max_body)
            .field("proxy", &self.proxy.as_ref().map(|proxy| (proxy.scheme(), proxy.host_str(), proxy.port())))
            .field("cookies", &self.cookies)
            .field("extra_roots", &self.extra_roots)
            .finish()
    }
}

/// One `[[host]]` entry: which hosts it covers, and what the crawl needs of it beside its policy.
#[derive(Clone, Debug)]
pub struct HostRule {
    /// Exact name or glob over the host key.
    pub pattern: globset::GlobMatcher,
    /// The pattern as typed.
    pub pattern_text: String,
    /// Headers sent to this host only (values already resolved from the environment).
    pub headers: Vec<(String, SecretString)>,
    /// Path patterns of its endpoints, in the order of the policy's lanes.
    pub endpoints: Vec<EndpointRule>,
    /// What the entry left to `[politeness]`.
    pub inherits: Inherits,
}

/// Which paths an endpoint covers.
#[derive(Clone, Debug)]
pub struct EndpointRule {
    /// As typed: a prefix, or a glob.
    pub path: String,
    /// The compiled glob, if `path` has glob characters.
    pub glob: Option<globset::GlobMatcher>,
    /// What the endpoint left to its host.
    pub inherits: Inherits,
}

/// Which originals an entry did not state itself, so that the command line may replace them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inherits {
    /// The rate.
    pub rate: bool,
    /// The capacity.
    pub capacity: bool,
}

impl Inherits {
    /// Nothing is stated.
    const ALL: Self = Self { rate: true, capacity: true };

    /// What is left open by both.
    fn and(self, other: Self) -> Self {
        Self { rate: self.rate && other.rate, capacity: self.capacity && other.capacity }
    }

    /// Replaces what is left open.
    fn apply(self, overrides: Overrides, original: &mut Original) {
        if self.rate {
            original.rate = overrides.rate.unwrap_or(original.rate);
        }
        if self.capacity {
            original.capacity = overrides.capacity.unwrap_or(original.capacity);
        }
    }
}

/// A value that must not show up in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// The `[output]` section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutputConfig {
    /// Whether exchanges are kept as WARC records.
    pub warc: bool,
    /// Whether decoded bodies of successful responses are kept.
    pub bodies: bool,
}

/// The `[ui]` section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UiConfig {
    /// Frames a second at most.
    pub fps: u32,
    /// Glyph set.
    pub glyphs: Glyphs,
    /// Theme name.
    pub theme: String,
    /// Whether the terminal is asked for the mouse at the start.
    pub mouse: bool,
    /// What to do on hang-up.
    pub on_hangup: OnHangup,
}

/// The whole configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[crawl]`.
    pub crawl: CrawlConfig,
    /// `[politeness]`, `[controller]`, `[backoff]`, `[[host]]`: what the core takes. Policy 0 is the
    /// default, policy `k + 1` belongs to `hosts[k]`.
    pub settings: Settings,
    /// `[[host]]`, first match wins.
    pub hosts: Vec<HostRule>,
    /// `memory` in `[controller]`: the file that keeps what was learned across runs; `None` = the user's own.
    pub memory: Option<PathBuf>,
    /// `[network]`.
    pub network: NetworkConfig,
    /// `[output]`.
    pub output: OutputConfig,
    /// `[ui]`.
    pub ui: UiConfig,
    /// `[keys]`: action name -> key, as typed; the keymap checks them.
    pub keys: BTreeMap<String, String>,
}

impl Default for Config {
    /// What an empty file means; `config.toml` at the repository's root says the same in words.
    fn default() -> Self {
        Self {
            crawl: CrawlConfig {
                urls: Vec::new(),
                user_agent: "crawldeck/0.1 (+https://example.org/about-our-crawl)".to_owned(),
                follow: Follow::None,
                exclude: Vec::new(),
                allow: Vec::new(),
                sitemaps: false,
                max_depth: 0,
                max_requests: 0,
                retries: 5,
                respect_robots: true,
            },
            settings: Settings {
                policies: vec![Policy { kind: ControllerKind::Adaptive, ..Policy::default() }],
                ..Settings::default()
            },
            hosts: Vec::new(),
            memory: None,
            network: NetworkConfig {
                allow_private: false,
                resolve: BTreeMap::new(),
                connect_timeout: Duration::from_secs(10),
                head_timeout: Duration::from_secs(30),
                idle_timeout: Duration::from_secs(30),
                min_body_rate: 1 << 10,
                max_body: 64 << 20,
                proxy: None,
                cookies: false,
                extra_roots: Vec::new(),
            },
            output: OutputConfig::default(),
            ui: UiConfig {
                fps: 4,
                glyphs: Glyphs::Auto,
                theme: "auto".to_owned(),
                mouse: false,
                on_hangup: OnHangup::Continue,
            },
            keys: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests;
