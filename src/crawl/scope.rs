//! The scope of a crawl: which of the links that are found belong to it.
//!
//! `follow = "host"` takes links to the hosts that the inputs name, `"domain"` to all hosts of their registrable
//! domains (by the public suffix list), a list of globs to the hosts that one of them matches, whoever was given.
//! An input that redirects within its own domain, as to `www.`, names its target's host, too. Sitemaps are within
//! the same scope; where no links are followed, within that of `"host"`.
//!
//! A domain whose names never end (wildcard DNS) is bounded: at most [`HOSTS_PER_DOMAIN`] hosts of a registrable
//! domain are made known by links; those that the inputs name do not count. Pure.

use std::collections::{HashMap, HashSet};

use url::{Host, Url};

use super::address::host_text;
use crate::config::{CrawlConfig, Follow};
use crate::control::HostId;

/// Hosts of one registrable domain that links make known, at most.
pub const HOSTS_PER_DOMAIN: u32 = 1_000;

/// What belongs to the crawl.
#[derive(Debug)]
pub struct Scope {
    follow: Follow,
    /// Nothing is ever found, so nothing need be remembered.
    idle: bool,
    hosts: HashSet<Box<str>>,
    domains: HashSet<Box<str>>,
    /// The host that was given last: lists are often sorted.
    last: Box<str>,
    /// By registrable domain.
    found: HashMap<Box<str>, Met>,
}

/// What links made known of one domain.
#[derive(Debug, Default)]
struct Met {
    hosts: u32,
    /// The host whose page led to the first one too many.
    on: Option<HostId>,
}

/// Whether a host that a link leads to may be made known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewHost {
    /// It may.
    Welcome,
    /// Its domain has too many.
    TooMany {
        /// The registrable domain.
        domain: Box<str>,
        /// How many were turned away, this one included.
        refused: u32,
        /// Whose page led to the first of them: there it is told, once a domain.
        on: Option<HostId>,
    },
}

impl Scope {
    /// The scope that is configured; nothing is given yet.
    pub fn new(config: &CrawlConfig) -> Self {
        Self {
            follow: config.follow.clone(),
            idle: matches!(config.follow, Follow::None) && !config.sitemaps,
            hosts: HashSet::new(),
            domains: HashSet::new(),
            last: Box::default(),
            found: HashMap::new(),
        }
    }

    /// Whether links of pages are followed.
    pub fn follows(&self) -> bool {
        !matches!(self.follow, Follow::None)
    }

    /// A URL of the inputs: it says what is in scope. Whether it says something new.
    pub fn give(&mut self, url: &Url) -> bool {
        let host = host_text(url);
        if self.idle || *host == *self.last {
            return false;
        }
        self.last = host.clone().into();
        match self.follow {
            Follow::None | Follow::Host => !self.hosts.contains(&*host) && self.hosts.insert(host.into()),
            Follow::Domain => {
                let domain = domain_of(url);
                !self.domains.contains(domain) && self.domains.insert(domain.into())
            }
            Follow::Globs(_) => false,
        }
    }

    /// An input answered with a redirect: within its own domain the target counts as given. Whether that is new.
    pub fn give_target(&mut self, from: &Url, target: &Url) -> bool {
        !self.idle && domain_of(from) == domain_of(target) && self.give(target)
    }

    /// Whether links may make hosts known, which are counted ([`Self::meet`]).
    pub const fn counts_hosts(&self) -> bool {
        matches!(self.follow, Follow::Domain | Follow::Globs(_))
    }

    /// Whether a link belongs to the crawl.
    pub fn takes(&self, url: &Url) -> bool {
        match &self.follow {
            Follow::None | Follow::Host => self.hosts.contains(&*host_text(url)),
            Follow::Domain => self.domains.contains(domain_of(url)),
            Follow::Globs(globs) => {
                let host = host_text(url);
                globs.iter().any(|glob| glob.is_match(&*host))
            }
        }
    }

    /// Counts a host that a link makes known, on a page of `on`.
    pub fn meet(&mut self, url: &Url, on: Option<HostId>) -> NewHost {
        let domain = domain_of(url);
        let met = match self.found.get_mut(domain) {
            Some(met) => met,
            None => self.found.entry(domain.into()).or_default(),
        };
        met.hosts = met.hosts.saturating_add(1);
        match met.hosts.checked_sub(HOSTS_PER_DOMAIN) {
            None | Some(0) => NewHost::Welcome,
            Some(refused) => {
                met.on = met.on.or(on);
                NewHost::TooMany { domain: domain.into(), refused, on: met.on }
            }
        }
    }

    /// The operator allows as many hosts again to the domains for which `wanted` holds. For each, whose pages led there.
    pub fn forgive(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<Option<HostId>> {
        let over = |domain: &str, met: &Met| met.hosts > HOSTS_PER_DOMAIN && wanted(domain);
        self.found.extract_if(|domain, met| over(domain, met)).map(|(_, met)| met.on).collect()
    }

    /// The operator wants no more of the domains for which `wanted` holds: whose pages led there.
    pub fn excuse(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<HostId> {
        let found = self.found.iter_mut().filter(|(domain, met)| met.on.is_some() && wanted(domain));
        found.filter_map(|(_, met)| met.on.take()).collect()
    }
}

/// The registrable domain of a URL's host; the host itself where there is none (addresses, `localhost`).
pub fn domain_of(url: &Url) -> &str {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            psl::domain_str(name).unwrap_or(name)
        }
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => url.host_str().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn scope(follow: &str, given: &[&str]) -> Scope {
        let config = Config::parse(&format!("[crawl]\nfollow = {follow}"), "t.toml").expect("valid");
        let mut scope = Scope::new(&config.crawl);
        for url in given {
            scope.give(&url.parse().expect("a URL"));
        }
        scope
    }

    fn takes(scope: &Scope, url: &str) -> bool {
        scope.takes(&url.parse().expect("a URL"))
    }

    #[test]
    fn a_host_is_a_host_with_its_port() {
        let scope = scope("\"host\"", &["http://a.example/x", "https://b.example:8443/", "http://127.0.0.1/"]);
        for (url, expected) in [
            ("https://a.example/", true),
            ("http://A.example.:80/y", true),
            ("http://www.a.example/", false),
            ("http://a.example:81/", false),
            ("http://b.example/", false),
            ("http://b.example:8443/", true),
            ("http://2130706433/", true),
        ] {
            assert_eq!(takes(&scope, url), expected, "{url}");
        }
    }

    #[test]
    fn a_domain_is_what_somebody_registered() {
        let given = ["http://www.a.co.uk/", "http://b.github.io/", "http://localhost/", "http://127.0.0.1/"];
        let scope = scope("\"domain\"", &given);
        for (url, expected) in [
            ("http://a.co.uk/", true),
            ("https://x.y.a.co.uk:8080/", true),
            ("http://other.co.uk/", false),
            ("http://b.github.io/", true),
            ("http://c.github.io/", false),
            ("http://localhost:8080/", true),
            ("http://127.0.0.1:8080/", true),
            ("http://127.0.0.2/", false),
        ] {
            assert_eq!(takes(&scope, url), expected, "{url}");
        }
    }

    #[test]
    fn globs_say_it_all() {
        let scope = scope("[\"*.gov.example\", \"x.example:8080\"]", &["http://given.example/"]);
        for (url, expected) in [
            ("http://a.b.gov.example/", true),
            ("http://given.example/", false),
            ("http://x.example:8080/", true),
            ("http://x.example/", false),
        ] {
            assert_eq!(takes(&scope, url), expected, "{url}");
        }
    }

    #[test]
    fn an_input_that_redirects_names_its_target_within_its_own_domain() {
        let mut scope = scope("\"host\"", &["http://a.example/"]);
        let from = "http://a.example/".parse().expect("a URL");
        for target in ["https://www.a.example/", "http://elsewhere.test/"] {
            scope.give_target(&from, &target.parse().expect("a URL"));
        }
        assert!(takes(&scope, "https://www.a.example/x") && !takes(&scope, "http://elsewhere.test/"));
    }

    #[test]
    fn case_16_a_domain_that_has_names_without_end_is_bounded() {
        let mut scope = scope("\"domain\"", &["http://trap.example/"]);
        let meet = |scope: &mut Scope, name: &str| {
            scope.meet(&format!("http://{name}/").parse().expect("a URL"), Some(HostId(7)))
        };
        for n in 0..HOSTS_PER_DOMAIN {
            assert_eq!(meet(&mut scope, &format!("n{n}.trap.example")), NewHost::Welcome);
        }
        let too_many = |refused| NewHost::TooMany { domain: "trap.example".into(), refused, on: Some(HostId(7)) };
        assert_eq!(meet(&mut scope, "one-more.trap.example"), too_many(1));
        let elsewhere = scope.meet(&"http://another.trap.example/".parse().expect("a URL"), Some(HostId(8)));
        assert_eq!(elsewhere, too_many(2), "told where it was found first");
        assert_eq!(meet(&mut scope, "www.other.example"), NewHost::Welcome);
        let forgive = |scope: &mut Scope| scope.forgive(|domain| domain.contains("example"));
        assert_eq!(forgive(&mut scope), [Some(HostId(7))]);
        assert_eq!(forgive(&mut scope), []);
        assert_eq!(meet(&mut scope, "one-more.trap.example"), NewHost::Welcome);
    }

    #[test]
    fn case_16_names_beyond_the_bound_leave_nothing_in_memory() {
        let mut scope = scope("\"domain\"", &["http://trap.example/"]);
        for n in 0..100_000 {
            let url = format!("http://n{n}.trap.example/").parse().expect("a URL");
            assert_eq!(scope.meet(&url, None) == NewHost::Welcome, n < HOSTS_PER_DOMAIN);
        }
        let kept = (scope.found.len(), scope.hosts.len(), scope.domains.len());
        assert_eq!(kept, (1, 0, 1), "one count a domain, whatever its names");
    }

    #[test]
    fn without_links_and_sitemaps_nothing_is_remembered() {
        let scope = scope("\"none\"", &["http://a.example/", "http://b.example/"]);
        assert!(scope.hosts.is_empty() && scope.domains.is_empty() && !scope.follows());
    }
}
