//! The configuration: raw (as typed) → [`Config`] (checked). Every default stands here once.
//!
//! Parsing, checking and error positions live in the submodules; the rest of the program sees only
//! [`Config`], in which everything is validated.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::control::Settings;

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

/// The `[crawl]` section, without what the core takes ([`Settings`]).
#[derive(Clone, Debug)]
pub struct CrawlConfig {
    /// Files of URLs.
    pub urls: Vec<PathBuf>,
    /// The User-Agent header; its first token is what robots.txt groups are matched against.
    pub user_agent: String,
    /// URL patterns never fetched.
    pub exclude: Vec<regex::Regex>,
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
#[derive(Clone, Debug)]
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
}

/// Which paths an endpoint covers.
#[derive(Clone, Debug)]
pub struct EndpointRule {
    /// As typed: a prefix, or a glob.
    pub path: String,
    /// The compiled glob, if `path` has glob characters.
    pub glob: Option<globset::GlobMatcher>,
}

/// A value that must not show up in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// The `[ui]` section.
#[derive(Clone, Debug)]
pub struct UiConfig {
    /// Frames a second at most.
    pub fps: u32,
    /// Glyph set.
    pub glyphs: Glyphs,
    /// Theme name.
    pub theme: String,
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
    /// `[network]`.
    pub network: NetworkConfig,
    /// `[ui]`.
    pub ui: UiConfig,
    /// `[keys]`: action name -> key, as typed; the keymap checks them.
    pub keys: BTreeMap<String, String>,
}
