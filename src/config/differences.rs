//! What two configurations differ in, key by key, and which of it a running crawl can take.
//!
//! Values are told as they are typed, so that the journal can say from what to what; those that may be secret
//! (headers, the proxy) are named only.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use super::{Config, CrawlConfig, Follow, HostRule, NetworkConfig, OutputConfig};
use crate::control::{ControllerKind, Policy, Shape};

/// When a changed value takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// For the very next grant, frame or key.
    AtOnce,
    /// When the program is started again: connections, the fetcher's identity, the inputs.
    AtRestart,
}

/// One key that has another value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// `section.key`, or `[[host]] PATTERN: key`.
    pub key: String,
    /// The values of before and of now; `None` where they may be secret, or are long.
    pub values: Option<(String, String)>,
    /// When it takes effect.
    pub takes: Takes,
}

impl Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.values {
            Some((before, after)) => write!(f, "{} {before} to {after}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// Gathers differences.
struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, key: &str, values: Option<(String, String)>, takes: Takes) {
        self.0.push(Difference { key: key.to_owned(), values, takes });
    }

    /// A value that can be told.
    fn of<T: PartialEq>(&mut self, key: &str, before: &T, after: &T, tell: impl Fn(&T) -> String) {
        if before != after {
            self.add(key, Some((tell(before), tell(after))), Takes::AtOnce);
        }
    }

    /// A value that is told as it displays.
    fn plain<T: PartialEq + Display>(&mut self, key: &str, before: &T, after: &T) {
        self.of(key, before, after, ToString::to_string);
    }

    fn duration(&mut self, key: &str, before: &Duration, after: &Duration) {
        self.of(key, before, after, |one| humantime::format_duration(*one).to_string());
    }

    /// A value that is only named, and waits for a restart.
    fn fixed(&mut self, key: &str, differs: bool) {
        if differs {
            self.add(key, None, Takes::AtRestart);
        }
    }

    /// The keys of one policy. What differs just as in `base` is inherited from there, and told there.
    fn policy(&mut self, before: &Policy, after: &Policy, base: Option<(&Policy, &Policy)>, keys: &PolicyKeys) {
        let name = |key: &str| format!("{}{key}", keys.prefix);
        let section = |key: &str| format!("{}{key}", keys.controller);
        self.field(&name("rate"), before, after, base, |one| one.original.rate);
        self.field(&name("capacity"), before, after, base, |one| one.original.capacity);
        self.field(&name("connections"), before, after, base, |one| one.connections);
        self.field(&name("shape"), before, after, base, |one| shape_word(one.shape));
        self.field(&section(keys.kind), before, after, base, |one| kind_word(one.kind));
        self.field(&section("refusal_budget"), before, after, base, |one| one.refusal_budget);
    }

    fn field<T: PartialEq + Display>(
        &mut self,
        key: &str,
        before: &Policy,
        after: &Policy,
        base: Option<(&Policy, &Policy)>,
        of: impl Fn(&Policy) -> T,
    ) {
        let inherited = base.is_some_and(|base| of(base.0) == of(before) && of(base.1) == of(after));
        if !inherited {
            self.plain(key, &of(before), &of(after));
        }
    }
}

/// How a policy's keys are called where they stand.
struct PolicyKeys {
    prefix: String,
    controller: String,
    kind: &'static str,
}

/// The entries by their pattern: each stands in a file once.
fn places(config: &Config) -> HashMap<&str, usize> {
    config.hosts.iter().enumerate().map(|(at, rule)| (rule.pattern_text.as_str(), at)).collect()
}

impl Config {
    /// What `read` says otherwise than this configuration, in the order of the file's sections. Empty if and only
    /// if taking it over would change nothing.
    pub fn differences(&self, read: &Self) -> Vec<Difference> {
        // Taken apart by name, here and below: a new field does not compile before it is decided what becomes of it.
        let Self { crawl: _, settings: _, hosts: _, memory, network: _, output: _, ui: _, keys: _ } = self;
        let mut found = Found(Vec::new());
        let CrawlConfig {
            urls,
            user_agent,
            follow,
            exclude,
            allow,
            sitemaps,
            max_depth,
            max_requests,
            retries,
            respect_robots,
        } = &self.crawl;
        let new = &read.crawl;
        found.fixed("crawl.urls", *urls != new.urls);
        found.plain("crawl.concurrency", &self.settings.concurrency, &read.settings.concurrency);
        found.fixed("crawl.user_agent", *user_agent != new.user_agent);
        let patterns = |list: &[regex::Regex]| list.iter().map(|one| one.as_str().to_owned()).collect::<Vec<_>>();
        let count = |one: &Vec<String>| format!("{} patterns", one.len());
        found.fixed("crawl.follow", follow_words(follow) != follow_words(&new.follow));
        found.of("crawl.exclude", &patterns(exclude), &patterns(&new.exclude), count);
        found.of("crawl.allow", &patterns(allow), &patterns(&new.allow), count);
        found.fixed("crawl.sitemaps", *sitemaps != new.sitemaps);
        found.plain("crawl.max_depth", max_depth, &new.max_depth);
        found.plain("crawl.max_requests", max_requests, &new.max_requests);
        found.plain("crawl.retries", retries, &new.retries);
        found.duration("crawl.give_up_after", &self.settings.give_up_after, &read.settings.give_up_after);
        let default = Policy::default();
        let base = [self, read].map(|config| config.settings.policies.first().unwrap_or(&default));
        let keys = PolicyKeys { prefix: "politeness.".to_owned(), controller: "controller.".to_owned(), kind: "kind" };
        found.policy(base[0], base[1], None, &keys);
        found.plain("politeness.respect_robots", respect_robots, &new.respect_robots);
        let limit = |one: &Option<f64>| one.unwrap_or_default().to_string();
        found.of("politeness.global_rate", &self.settings.global_rate, &read.settings.global_rate, limit);
        found.plain("controller.min_rate", &self.settings.min_rate, &read.settings.min_rate);
        found.plain("controller.cold_start", &self.settings.cold_start, &read.settings.cold_start);
        // What is remembered is read before the first host is met.
        found.fixed("controller.prior", self.settings.prior != read.settings.prior);
        found.fixed("controller.memory", *memory != read.memory);
        found
            .of("controller.group_by", &self.settings.group_by, &read.settings.group_by, |one| one.as_str().to_owned());
        let (old, new) = (&self.settings.backoff, &read.settings.backoff);
        found.duration("backoff.base", &old.base, &new.base);
        found.duration("backoff.max", &old.max, &new.max);
        found.duration("backoff.jitter", &old.jitter, &new.jitter);
        found.duration("backoff.retry_after_max", &old.retry_after_max, &new.retry_after_max);
        let NetworkConfig {
            allow_private,
            resolve,
            connect_timeout,
            head_timeout,
            idle_timeout,
            min_body_rate,
            max_body,
            proxy,
            cookies,
            extra_roots,
        } = &self.network;
        let new = &read.network;
        found.fixed("network.allow_private", *allow_private != new.allow_private);
        found.fixed("network.resolve", *resolve != new.resolve);
        found.fixed("network.connect_timeout", *connect_timeout != new.connect_timeout);
        found.fixed("network.head_timeout", *head_timeout != new.head_timeout);
        found.fixed("network.idle_timeout", *idle_timeout != new.idle_timeout);
        found.fixed("network.min_body_rate", *min_body_rate != new.min_body_rate);
        found.fixed("network.max_body", *max_body != new.max_body);
        found.fixed("network.proxy", *proxy != new.proxy);
        found.fixed("network.cookies", *cookies != new.cookies);
        found.fixed("network.extra_roots", *extra_roots != new.extra_roots);
        self.differ_in_hosts(read, (base[0], base[1]), &mut found);
        let OutputConfig { warc, bodies } = &self.output;
        found.fixed("output.warc", *warc != read.output.warc);
        found.fixed("output.bodies", *bodies != read.output.bodies);
        let (old, new) = (&self.ui, &read.ui);
        found.plain("ui.fps", &old.fps, &new.fps);
        found.of("ui.glyphs", &old.glyphs, &new.glyphs, |one| format!("{one:?}").to_lowercase());
        found.plain("ui.theme", &old.theme, &new.theme);
        found.plain("ui.mouse", &old.mouse, &new.mouse);
        found.duration("ui.override_ttl", &self.settings.override_ttl, &read.settings.override_ttl);
        found.duration("ui.remind_after", &self.settings.remind_after, &read.settings.remind_after);
        found.of("ui.on_hangup", &old.on_hangup, &new.on_hangup, |one| format!("{one:?}").to_lowercase());
        let actions = self.keys.keys().chain(read.keys.keys().filter(|action| !self.keys.contains_key(*action)));
        let bound =
            |config: &Self, action: &str| config.keys.get(action).map_or("the default", String::as_str).to_owned();
        for action in actions {
            found.plain(&format!("keys.{action}"), &bound(self, action), &bound(read, action));
        }
        found.0
    }

    fn differ_in_hosts(&self, read: &Self, base: (&Policy, &Policy), found: &mut Found) {
        let title = |rule: &HostRule| format!("[[host]] {}", rule.pattern_text);
        let (before, after) = (places(self), places(read));
        let mut common = Vec::new();
        for (at, rule) in self.hosts.iter().enumerate() {
            let Some(other) = after.get(rule.pattern_text.as_str()).copied() else {
                found.add(&format!("{} removed", title(rule)), None, Takes::AtOnce);
                continue;
            };
            common.push(other);
            let Some((new, (was, is))) = read.hosts.get(other).zip(self.policies_of(at, read, other)) else { continue };
            let prefix = format!("{}: ", title(rule));
            let keys = PolicyKeys { prefix: prefix.clone(), controller: prefix.clone(), kind: "controller" };
            found.policy(was, is, Some(base), &keys);
            found.plain(&format!("{prefix}max_requests"), &was.max_requests, &is.max_requests);
            if rule.headers != new.headers {
                found.add(&format!("{prefix}headers"), None, Takes::AtOnce);
            }
            if !same_paths(rule, new) || was.endpoints != is.endpoints {
                found.add(&format!("{prefix}endpoints"), None, Takes::AtOnce);
            }
        }
        for rule in read.hosts.iter().filter(|rule| !before.contains_key(rule.pattern_text.as_str())) {
            found.add(&format!("{} added", title(rule)), None, Takes::AtOnce);
        }
        // The first that matches wins: another order can be another meaning.
        if !common.is_sorted() {
            found.add("order of the [[host]] entries", None, Takes::AtOnce);
        }
    }

    fn policies_of<'a>(&'a self, at: usize, read: &'a Self, other: usize) -> Option<(&'a Policy, &'a Policy)> {
        self.settings.policies.get(at + 1).zip(read.settings.policies.get(other + 1))
    }

    /// This configuration, just read, as a crawl that runs under `running` can take it: what waits for a restart
    /// is as it was.
    pub fn taken_by(mut self, running: &Self) -> Self {
        self.crawl.urls.clone_from(&running.crawl.urls);
        self.crawl.user_agent.clone_from(&running.crawl.user_agent);
        self.crawl.follow.clone_from(&running.crawl.follow);
        self.crawl.sitemaps = running.crawl.sitemaps;
        self.settings.prior = running.settings.prior;
        self.memory.clone_from(&running.memory);
        self.network.clone_from(&running.network);
        self.output.clone_from(&running.output);
        self
    }
}

/// Whether two entries have the same endpoints in the same order.
fn same_paths(one: &HostRule, other: &HostRule) -> bool {
    one.endpoints.iter().map(|endpoint| &endpoint.path).eq(other.endpoints.iter().map(|endpoint| &endpoint.path))
}

fn follow_words(follow: &Follow) -> Vec<&str> {
    match follow {
        Follow::None => vec!["none"],
        Follow::Host => vec!["host"],
        Follow::Domain => vec!["domain"],
        Follow::Globs(globs) => std::iter::once("globs").chain(globs.iter().map(|one| one.glob().glob())).collect(),
    }
}

fn shape_word(shape: Shape) -> &'static str {
    match shape {
        Shape::TokenBucket => "token-bucket",
        Shape::LeakyBucket => "leaky-bucket",
        Shape::SlidingWindow => "sliding-window",
    }
}

fn kind_word(kind: ControllerKind) -> &'static str {
    match kind {
        ControllerKind::Adaptive => "adaptive",
        ControllerKind::Halving => "halving",
        ControllerKind::Static => "static",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "c.toml").expect(text)
    }

    /// The differences in words; those that wait for a restart in brackets.
    fn told(before: &str, after: &str) -> Vec<String> {
        let found = config(before).differences(&config(after));
        let word = |one: &Difference| match one.takes {
            Takes::AtOnce => one.to_string(),
            Takes::AtRestart => format!("({one})"),
        };
        found.iter().map(word).collect()
    }

    #[test]
    fn each_changed_key_is_named_with_its_values() {
        assert_eq!(told("", crate::config::DEFAULT_CONFIG), Vec::<String>::new());
        let after = "[crawl]\nconcurrency = 8\nuser_agent = \"other/1\"\nexclude = [\"a\"]\nfollow = [\"a\"]\nmax_depth = 2\n[politeness]\nrate = 0.5\n\
                     shape = \"leaky-bucket\"\nglobal_rate = 3\n[controller]\nkind = \"static\"\nprior = \"off\"\nmemory = \"m\"\n[backoff]\nmax = \"90s\"\n\
                     [network]\nproxy = \"http://u:secret@127.0.0.1:1\"\n[output]\nwarc = true\n[ui]\nmouse = true\n[keys]\npause = \"x\"\n";
        let expected = [
            "crawl.concurrency 64 to 8",
            "(crawl.user_agent)",
            "(crawl.follow)",
            "crawl.exclude 0 patterns to 1 patterns",
            "crawl.max_depth 0 to 2",
            "politeness.rate 2 to 0.5",
            "politeness.shape token-bucket to leaky-bucket",
            "controller.kind adaptive to static",
            "politeness.global_rate 0 to 3",
            "(controller.prior)",
            "(controller.memory)",
            "backoff.max 1m to 1m 30s",
            "(network.proxy)",
            "(output.warc)",
            "ui.mouse false to true",
            "keys.pause the default to x",
        ];
        assert_eq!(told("", after), expected);
    }

    #[test]
    fn host_entries_are_compared_by_their_pattern() {
        let before = "[[host]]\nmatch = \"a.example\"\nrate = 1.0\n[[host]]\nmatch = \"*.example\"\n";
        let after = "[[host]]\nmatch = \"*.example\"\nheaders = { \"X-Key\" = \"secret\" }\n\
                     [[host.endpoint]]\npath = \"/api/\"\n\
                     [[host]]\nmatch = \"a.example\"\nrate = 3.0\nmax_requests = 9\n[[host]]\nmatch = \"b.example\"\n";
        let expected = [
            "[[host]] a.example: rate 1 to 3",
            "[[host]] a.example: max_requests 0 to 9",
            "[[host]] *.example: headers",
            "[[host]] *.example: endpoints",
            "[[host]] b.example added",
            "order of the [[host]] entries",
        ];
        assert_eq!(told(before, after), expected);
        assert_eq!(
            told(after, before)[2..],
            [
                "[[host]] a.example: rate 3 to 1",
                "[[host]] a.example: max_requests 9 to 0",
                "[[host]] b.example removed",
                "order of the [[host]] entries"
            ]
        );
    }

    #[test]
    fn what_is_inherited_is_told_once() {
        let hosts = "[[host]]\nmatch = \"a.example\"\n[[host]]\nmatch = \"b.example\"\nrate = 2.0\n";
        let after = format!("[politeness]\nrate = 1.0\n{hosts}");
        assert_eq!(told(hosts, &after), ["politeness.rate 2 to 1"]);
    }

    #[test]
    fn a_running_crawl_takes_all_but_what_waits_for_a_restart() {
        let running = config("[crawl]\nuser_agent = \"one/1\"\n[network]\ncookies = true\n");
        let read = config("[crawl]\nuser_agent = \"two/2\"\n[network]\ncookies = false\n[politeness]\nrate = 9\n");
        let taken = read.clone().taken_by(&running);
        assert_eq!(taken.crawl.user_agent, "one/1");
        assert!(taken.network.cookies);
        let left: Vec<String> = taken.differences(&read).iter().map(ToString::to_string).collect();
        assert_eq!(left, ["crawl.user_agent", "network.cookies"], "named again each time, as long as they wait");
        assert!(taken.differences(&read).iter().all(|one| one.takes == Takes::AtRestart));
        assert!(running.differences(&taken).iter().all(|one| one.takes == Takes::AtOnce));
    }
}
