//! What is known of the robots.txt of each authority, and what to do next. Pure: time is passed in.
//!
//! The life of an entry: unknown → in flight (one fetch, however many URLs wait) → known, or unreachable with a
//! time for the next try → known … A reply maps to rules as RFC 9309 2.3.1 says, with these choices:
//!
//! * 2xx: parsed. Other 4xx than 429: nothing is forbidden (401 and 403 with a note). 429, 5xx and every network
//!   failure: unreachable, everything is forbidden while it lasts, retried with backoff, never per URL.
//! * Unreachable, but there is a good copy younger than [`STALE_MAX`]: the copy stays in use. Without one the
//!   site stays forbidden, also after the 30 days after which the RFC would let us crawl.
//! * 3xx: up to [`HOPS_MAX`] hops, each a request of its own; more, or one that leads nowhere: as if 4xx.
//! * Kept [`TTL_MAX`] at most; a shorter `max-age` is honoured down to [`TTL_MIN`].
//!
//! Bounds: [`AUTHORITIES_MAX`] entries and [`BYTES_MAX`] bytes, entries in flight not counted (they are as many
//! as hosts being started). At the bound the least recently used entries that forbid nothing go first, then the
//! others; who is needed again is fetched again.
//! What this does not do: hold the host (the core does, told by [`Effect::unreachable`]), or send anything.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use url::Url;

use super::matching::Target;
use super::parse::{Access, Extent, Rules};
use crate::control::{BackoffPolicy, Mono, Outcome, Verdict};
use crate::crawl::address::Authority;
use crate::crawl::exchange::Reply;
use crate::text::Clean;

/// The longest time an answer is kept.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// The shortest, whatever `max-age` says: a robots.txt that may not be cached would double every request.
pub const TTL_MIN: Duration = Duration::from_secs(3600);
/// How old a good copy may be that stands in for an unreachable robots.txt.
pub const STALE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Redirects that are followed.
pub const HOPS_MAX: u8 = 5;
/// Entries at most, those in flight not counted.
pub const AUTHORITIES_MAX: usize = 100_000;
/// Bytes of rules at most.
pub const BYTES_MAX: usize = 64 << 20;

/// What an entry takes beside its rules, about: authority, state, its places in map and queue.
const ENTRY_BYTES: usize = 256;

/// What to do with a URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Fetch it.
    Allow,
    /// Never send it.
    Deny {
        /// The line of robots.txt that forbids it, from 1.
        line: u32,
        /// The rule there.
        rule: Clean,
    },
    /// Fetch this robots.txt first, once; the URL waits. Whoever gets this owes a reply to `on_reply`.
    Fetch(Url),
    /// The robots.txt is being fetched; the URL waits.
    Pending,
    /// Everything is forbidden until the next try.
    Unreachable {
        /// When to ask again.
        until: Mono,
    },
    /// Its address is one that is not connected to: the URL ends as `address_refused`.
    Refused {
        /// Why, and what to set.
        why: Clean,
    },
}

/// What a reply means for the crawl.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effect {
    /// Fetch this next, as kind robots and through the bucket of its own host; its reply belongs to the same
    /// authority. All other fields are empty then.
    pub follow: Option<Url>,
    /// Waiting URLs can be decided now, and `crawl_delay` is what holds (also when it is `None`).
    pub known: bool,
    /// What the site asks for, as asked: finite, above zero, not capped.
    pub crawl_delay: Option<Duration>,
    /// The host holds.
    pub unreachable: Option<Unreachable>,
    /// Oddities for the journal.
    pub notes: Vec<Clean>,
}

/// A failed try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// How many in a row, from 1; 0 = trouble of our own, which is not to be held against the host.
    pub tries: u32,
    /// When the next one is due.
    pub until: Mono,
}

/// All that is known of robots.txt files.
#[derive(Debug)]
pub struct Robots {
    user_agent: String,
    backoff: BackoffPolicy,
    entries: HashMap<Authority, Entry>,
    /// Settled entries that forbid nothing, and the others, by a tick at which they were used; their last use
    /// may be later, which is looked up only when room is needed.
    lax: BTreeMap<u64, Authority>,
    strict: BTreeMap<u64, Authority>,
    tick: u64,
    /// Bytes of the settled entries: all that are not in flight.
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Entry {
    state: State,
    /// The last good answer, kept under a failing refresh.
    copy: Option<GoodCopy>,
    /// Failed tries in a row.
    tries: u32,
    last_used: u64,
    /// Its place in `lax` or `strict`, and what it counts for in `bytes`; `None` while in flight.
    place: Option<(u64, usize)>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    InFlight {
        hops: u8,
    },
    /// The copy holds until then.
    Known {
        until: Mono,
    },
    /// The last try failed; the next is due then.
    Failed {
        until: Mono,
    },
    /// The address is refused; asked again then.
    Refused {
        until: Mono,
        why: Clean,
    },
}

#[derive(Debug)]
struct GoodCopy {
    rules: Rules,
    fetched: Mono,
}

impl Robots {
    /// A cache for the crawler with this User-Agent header. Tries after failures are spaced by `backoff`.
    pub fn new(user_agent: impl Into<String>, backoff: BackoffPolicy) -> Self {
        Self::bounded(user_agent, backoff, AUTHORITIES_MAX, BYTES_MAX)
    }

    /// The same with other bounds.
    pub fn bounded(user_agent: impl Into<String>, backoff: BackoffPolicy, entries: usize, bytes: usize) -> Self {
        Self {
            user_agent: user_agent.into(),
            backoff,
            entries: HashMap::new(),
            lax: BTreeMap::new(),
            strict: BTreeMap::new(),
            tick: 0,
            bytes: 0,
            entries_max: entries,
            bytes_max: bytes,
        }
    }

    /// Whether `url` may be fetched now. A robots.txt itself always may.
    pub fn decide(&mut self, now: Mono, url: &Url) -> Decision {
        let target = Target::of(url);
        if target.is_robots_txt() {
            return Decision::Allow;
        }
        let authority = Authority::of(url);
        let entry = self.entries.entry(authority.clone()).or_default();
        self.tick += 1;
        entry.last_used = self.tick;
        match &entry.state {
            State::InFlight { .. } => return Decision::Pending,
            State::Refused { until, why } if now < *until => return Decision::Refused { why: why.clone() },
            State::Known { until } | State::Failed { until } if now < *until => match usable(&entry.copy, now) {
                Some(rules) => {
                    return match rules.access(&target) {
                        Access::Allow => Decision::Allow,
                        Access::Deny { line, rule } => Decision::Deny { line, rule },
                    };
                }
                None => return Decision::Unreachable { until: *until },
            },
            State::New | State::Known { .. } | State::Failed { .. } | State::Refused { .. } => {}
        }
        let Some(robots_url) = authority.robots_url() else {
            // Cannot be: an authority of an http(s) URL is one of a URL again.
            return Decision::Refused { why: "no robots.txt can be named for this URL".into() };
        };
        self.unsettle(&authority);
        if let Some(entry) = self.entries.get_mut(&authority) {
            entry.state = State::InFlight { hops: 0 };
        }
        Decision::Fetch(robots_url)
    }

    /// Takes the reply to the fetch that [`Decision::Fetch`] or [`Effect::follow`] asked for.
    ///
    /// `random` in `[0, 1)` is the jitter's share.
    pub fn on_reply(&mut self, now: Mono, authority: &Authority, reply: &Reply, random: f64) -> Effect {
        self.unsettle(authority);
        let mut entry = self.entries.remove(authority).unwrap_or_default();
        let effect = self.judge(now, &mut entry, reply, random);
        if effect.follow.is_none() {
            self.settle(authority, entry);
        } else {
            self.entries.insert(authority.clone(), entry);
        }
        effect
    }

    /// Entries, those in flight included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn judge(&self, now: Mono, entry: &mut Entry, reply: &Reply, random: f64) -> Effect {
        let hops = if let State::InFlight { hops } = entry.state { hops } else { 0 };
        let ttl = reply.max_age.unwrap_or(TTL_MAX).clamp(TTL_MIN, TTL_MAX);
        let parse = |extent| Rules::parse(&reply.body, extent, &self.user_agent);
        let noted = |note: String| Rules::none(Clean::new(note));
        let rules = match reply.verdict {
            Verdict::Status(200..=299) => parse(Extent::Whole),
            // Longer than the fetcher's cap: what came is more than the RFC asks us to read.
            Verdict::Failed(Outcome::TooLarge) if matches!(reply.status, Some(200..=299)) && !reply.body.is_empty() => {
                parse(Extent::Cut)
            }
            Verdict::Status(304) if entry.copy.is_some() => {
                entry.copy.take().map(|copy| copy.rules).unwrap_or_default()
            }
            Verdict::Status(status @ 300..=399) => match &reply.location {
                Some(Ok(target)) if hops < HOPS_MAX => {
                    entry.state = State::InFlight { hops: hops + 1 };
                    return Effect { follow: Some(target.clone()), ..Effect::default() };
                }
                Some(Ok(_)) => {
                    noted(format!("robots.txt: more than {HOPS_MAX} redirects: taken as if there were none"))
                }
                Some(Err(why)) => {
                    noted(format!("robots.txt: {status} leads nowhere ({why}): taken as if there were none"))
                }
                None => noted(format!("robots.txt: {status} without a target: taken as if there were none")),
            },
            Verdict::Failed(Outcome::RedirectNotFollowed) => {
                let why = reply.error.clone().unwrap_or_default();
                noted(format!("robots.txt: redirect leads nowhere ({why}): taken as if there were none"))
            }
            Verdict::Status(status @ (401 | 403)) => {
                noted(format!("robots.txt answers {status}: by RFC 9309 nothing is forbidden, but we may be unwelcome"))
            }
            Verdict::Status(status @ 400..=499) if status != 429 => Rules::default(),
            Verdict::Failed(Outcome::AddressRefused) if hops == 0 => {
                let why = reply.error.clone().unwrap_or_else(|| "address refused".into());
                entry.state = State::Refused { until: now.after(TTL_MIN), why };
                return Effect { known: true, ..Effect::default() };
            }
            Verdict::Status(_) | Verdict::Failed(_) => return self.fail(now, entry, reply, random),
        };
        let effect =
            Effect { known: true, crawl_delay: rules.crawl_delay, notes: rules.notes.clone(), ..Effect::default() };
        entry.tries = 0;
        entry.state = State::Known { until: now.after(ttl) };
        entry.copy = Some(GoodCopy { rules, fetched: now });
        effect
    }

    /// A try that brought nothing.
    fn fail(&self, now: Mono, entry: &mut Entry, reply: &Reply, random: f64) -> Effect {
        // Our own trouble is no sign of the site's.
        let ours = reply.verdict == Verdict::Failed(Outcome::Local);
        if !ours {
            entry.tries = entry.tries.saturating_add(1);
        }
        let doublings = entry.tries.saturating_sub(1).min(31);
        let wait = self.backoff.base.saturating_mul(1 << doublings).min(self.backoff.max);
        let asked = reply.retry_after.unwrap_or_default().min(self.backoff.retry_after_max);
        let jitter = self.backoff.jitter.mul_f64(random.clamp(0.0, 1.0));
        let until = now.after(wait.max(asked)).after(jitter);
        entry.state = State::Failed { until };
        if let Some(copy) = entry.copy.take_if(|copy| now.since(copy.fetched) < STALE_MAX) {
            let hours = now.since(copy.fetched).as_secs() / 3600;
            let note = Clean::new(format!("robots.txt unreachable: the copy of {hours} h ago stays in use"));
            // Told once, not at every try.
            let notes = if entry.tries == 1 && !ours { vec![note] } else { Vec::new() };
            let effect = Effect { known: true, crawl_delay: copy.rules.crawl_delay, notes, ..Effect::default() };
            entry.copy = Some(copy);
            return effect;
        }
        entry.copy = None;
        Effect {
            unreachable: Some(Unreachable { tries: if ours { 0 } else { entry.tries }, until }),
            ..Effect::default()
        }
    }

    /// Puts an entry back, counted and evictable, and makes room.
    fn settle(&mut self, authority: &Authority, mut entry: Entry) {
        self.tick += 1;
        let rules = entry.copy.as_ref().map(|copy| &copy.rules);
        let bytes = ENTRY_BYTES + authority.as_str().len() + rules.map_or(0, Rules::bytes);
        let lax = matches!(entry.state, State::Known { .. }) && rules.is_some_and(Rules::allow_all);
        entry.last_used = self.tick;
        entry.place = Some((self.tick, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        let places = if lax { &mut self.lax } else { &mut self.strict };
        places.insert(self.tick, authority.clone());
        self.entries.insert(authority.clone(), entry);
        while self.lax.len() + self.strict.len() > self.entries_max || self.bytes > self.bytes_max {
            let Some(victim) = self.least_recently_used(authority) else { break };
            self.unsettle(&victim);
            self.entries.remove(&victim);
        }
    }

    /// Takes an entry that goes in flight, or away, out of the counts.
    fn unsettle(&mut self, authority: &Authority) {
        if let Some((place, bytes)) = self.entries.get_mut(authority).and_then(|entry| entry.place.take()) {
            self.lax.remove(&place);
            self.strict.remove(&place);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// The entry whose turn it is to go, never `keep`: that was settled just now, its URLs are still to be
    /// decided, and to forget it would mean to fetch it for ever.
    fn least_recently_used(&mut self, keep: &Authority) -> Option<Authority> {
        for places in [&mut self.lax, &mut self.strict] {
            while let Some((tick, authority)) = places.pop_first() {
                let Some(entry) = self.entries.get_mut(&authority) else { continue };
                let last_used = entry.last_used;
                if let Some((place, _)) = &mut entry.place {
                    *place = last_used;
                }
                places.insert(last_used, authority.clone());
                // A place is never later than the last use: if they are equal, all others were used later.
                if last_used == tick {
                    if authority == *keep {
                        break;
                    }
                    return Some(authority);
                }
            }
        }
        None
    }
}

/// The rules of a copy that is young enough.
fn usable(copy: &Option<GoodCopy>, now: Mono) -> Option<&Rules> {
    copy.as_ref().filter(|copy| now.since(copy.fetched) < STALE_MAX).map(|copy| &copy.rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::address::parse_url;
    use bytes::Bytes;

    const HOUR: Duration = Duration::from_secs(3600);
    const PRIVATE: &str = "User-agent: *\nDisallow: /private\n";

    fn robots() -> Robots {
        Robots::new("crawldeck/0.1", BackoffPolicy::default())
    }

    fn url(text: &str) -> Url {
        parse_url(text).expect("a URL").url
    }

    fn of(text: &str) -> Authority {
        Authority::of(&url(text))
    }

    fn reply(status: u16, body: &str) -> Reply {
        let mut reply = failed(Outcome::Local);
        reply.verdict = Verdict::Status(status);
        reply.status = Some(status);
        reply.body = Bytes::copy_from_slice(body.as_bytes());
        reply.error = None;
        reply
    }

    fn failed(outcome: Outcome) -> Reply {
        Reply::failed(outcome, "it failed")
    }

    fn redirect(target: &str) -> Reply {
        Reply { location: Some(Ok(url(target))), ..reply(302, "") }
    }

    /// Asks for `/` of `host`, expects a fetch, and gives `reply`.
    fn fetch(robots: &mut Robots, now: Mono, host: &str, reply: &Reply) -> Effect {
        let page = url(&format!("http://{host}/"));
        let Decision::Fetch(asked) = robots.decide(now, &page) else { panic!("no fetch of {host}") };
        assert_eq!(asked.as_str(), format!("http://{host}/robots.txt"));
        robots.on_reply(now, &Authority::of(&page), reply, 0.0)
    }

    fn at(after: Duration) -> Mono {
        Mono::ZERO.after(after)
    }

    #[test]
    fn case_31_an_unreachable_robots_txt_forbids_the_site_and_is_retried_with_backoff() {
        let replies = [
            reply(503, ""),
            reply(500, PRIVATE),
            reply(429, ""),
            failed(Outcome::Timeout),
            failed(Outcome::Connect),
            failed(Outcome::ConnectionReset),
            failed(Outcome::Tls),
            failed(Outcome::Dns),
            failed(Outcome::Incomplete),
            failed(Outcome::Decode),
            failed(Outcome::LimitExceeded),
            failed(Outcome::TooLarge),
        ];
        for bad in &replies {
            let mut robots = robots();
            let mut now = Mono::ZERO;
            let mut waits = Vec::new();
            for tries in 1..=9 {
                let effect = fetch(&mut robots, now, "a.example", bad);
                let unreachable = effect.unreachable.expect("a hold");
                assert_eq!((unreachable.tries, effect.known), (tries, false), "{:?}", bad.verdict);
                for page in ["/", "/x", "/private"] {
                    let decision = robots.decide(now, &url(&format!("http://a.example{page}")));
                    assert_eq!(decision, Decision::Unreachable { until: unreachable.until });
                }
                waits.push(unreachable.until.since(now).as_secs());
                now = unreachable.until;
            }
            assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60], "{:?}", bad.verdict);
            // It recovers, and the count begins anew.
            assert!(fetch(&mut robots, now, "a.example", &reply(200, PRIVATE)).known);
            assert_eq!(robots.decide(now, &url("http://a.example/x")), Decision::Allow);
        }
    }

    #[test]
    fn case_31_forbidden_also_after_thirty_days() {
        let mut robots = robots();
        fetch(&mut robots, Mono::ZERO, "a.example", &reply(503, ""));
        let effect = fetch(&mut robots, at(40 * 24 * HOUR), "a.example", &reply(503, ""));
        assert_eq!(effect.unreachable.map(|it| it.tries), Some(2));
        assert!(matches!(robots.decide(at(40 * 24 * HOUR), &url("http://a.example/")), Decision::Unreachable { .. }));
    }

    #[test]
    fn case_31_a_good_copy_stays_in_use_for_thirty_days() {
        let mut robots = robots();
        fetch(&mut robots, Mono::ZERO, "a.example", &reply(200, PRIVATE));
        let day = at(25 * HOUR);
        let effect = fetch(&mut robots, day, "a.example", &reply(503, ""));
        assert_eq!((effect.unreachable, effect.known), (None, true));
        assert_eq!(effect.notes, ["robots.txt unreachable: the copy of 25 h ago stays in use".into()]);
        assert_eq!(robots.decide(day, &url("http://a.example/x")), Decision::Allow);
        assert!(matches!(robots.decide(day, &url("http://a.example/private")), Decision::Deny { line: 2, .. }));
        // The next failure is not told again; one after 30 days ends the copy.
        assert!(fetch(&mut robots, at(26 * HOUR), "a.example", &reply(503, "")).notes.is_empty());
        let late = fetch(&mut robots, at(30 * 24 * HOUR), "a.example", &reply(503, ""));
        assert!(late.unreachable.is_some());
    }

    #[test]
    fn case_40_429_holds_as_long_as_asked_and_401_and_403_allow_with_a_note() {
        let mut robots = robots();
        let mut busy = reply(429, "");
        busy.retry_after = Some(Duration::from_secs(600));
        let effect = fetch(&mut robots, Mono::ZERO, "a.example", &busy);
        assert_eq!(effect.unreachable, Some(Unreachable { tries: 1, until: at(Duration::from_secs(600)) }));

        for (status, notes) in [(401, 1), (403, 1), (404, 0), (410, 0), (451, 0), (400, 0)] {
            let host = format!("h{status}.example");
            let effect = fetch(&mut robots, Mono::ZERO, &host, &reply(status, PRIVATE));
            assert!(effect.known && effect.unreachable.is_none());
            assert_eq!(effect.notes.len(), notes, "{status}");
            assert_eq!(robots.decide(Mono::ZERO, &url(&format!("http://{host}/private"))), Decision::Allow);
        }
    }

    #[test]
    fn case_41_one_fetch_for_a_thousand_urls_and_a_second_after_a_day() {
        let mut robots = robots();
        let authority = of("http://a.example/");
        let mut fetches = 0;
        let mut ask_all = |robots: &mut Robots, now: Mono| {
            let pages = (0..1_000).map(|page| url(&format!("http://a.example/{page}")));
            let decisions: Vec<_> = pages.map(|page| robots.decide(now, &page)).collect();
            fetches += decisions.iter().filter(|it| matches!(it, Decision::Fetch(_))).count();
            (fetches, decisions.iter().filter(|it| **it == Decision::Allow).count())
        };
        assert_eq!(ask_all(&mut robots, Mono::ZERO), (1, 0));
        robots.on_reply(Mono::ZERO, &authority, &reply(200, PRIVATE), 0.0);
        assert_eq!(ask_all(&mut robots, Mono::ZERO), (1, 1_000));
        assert_eq!(ask_all(&mut robots, at(24 * HOUR - Duration::from_secs(1))), (1, 1_000));
        assert_eq!(ask_all(&mut robots, at(24 * HOUR + Duration::from_secs(1))), (2, 0));
    }

    #[test]
    fn case_41_max_age_shortens_within_bounds() {
        for (max_age, kept) in [(0, 1), (60, 1), (2 * 3600, 2), (1_000_000, 24)] {
            let mut robots = robots();
            let short = Reply { max_age: Some(Duration::from_secs(max_age)), ..reply(200, PRIVATE) };
            fetch(&mut robots, Mono::ZERO, "a.example", &short);
            let second = Duration::from_secs(1);
            assert_eq!(robots.decide(at(kept * HOUR - second), &url("http://a.example/x")), Decision::Allow);
            assert!(matches!(robots.decide(at(kept * HOUR + second), &url("http://a.example/x")), Decision::Fetch(_)));
        }
    }

    #[test]
    fn case_42_one_hosts_failure_is_one_hosts_state() {
        let mut robots = robots();
        fetch(&mut robots, Mono::ZERO, "bad.example", &failed(Outcome::Tls));
        fetch(&mut robots, Mono::ZERO, "good.example", &reply(200, PRIVATE));
        assert_eq!(robots.decide(Mono::ZERO, &url("http://good.example/")), Decision::Allow);
        // Another scheme or port is another authority.
        for other in ["https://good.example/", "http://good.example:8080/"] {
            assert!(matches!(robots.decide(Mono::ZERO, &url(other)), Decision::Fetch(_)));
        }
        // Trouble of our own is not the host's: nothing is counted, and it is tried again.
        let local = fetch(&mut robots, Mono::ZERO, "third.example", &failed(Outcome::Local));
        assert_eq!(local.unreachable.map(|it| it.tries), Some(0));
        let first = fetch(&mut robots, at(HOUR), "third.example", &failed(Outcome::Timeout));
        assert_eq!(first.unreachable.map(|it| it.tries), Some(1));
    }

    #[test]
    fn case_36_a_redirects_target_is_decided_by_its_own_authority() {
        let mut robots = robots();
        fetch(&mut robots, Mono::ZERO, "a.example", &reply(200, "User-agent: *\nAllow: /"));
        let target = url("http://b.example/private");
        let Decision::Fetch(asked) = robots.decide(Mono::ZERO, &target) else { panic!("b is asked first") };
        assert_eq!(asked.as_str(), "http://b.example/robots.txt");
        robots.on_reply(Mono::ZERO, &of("http://b.example/"), &reply(200, PRIVATE), 0.0);
        assert_eq!(robots.decide(Mono::ZERO, &target), Decision::Deny { line: 2, rule: "Disallow: /private".into() });
    }

    #[test]
    fn redirects_are_followed_five_times_across_authorities() {
        let mut robots = robots();
        let authority = of("http://a.example/");
        let mut effect = fetch(&mut robots, Mono::ZERO, "a.example", &redirect("http://a.example/1"));
        for hop in 2..=5 {
            assert_eq!(effect.follow, Some(url(&format!("http://a.example/{}", hop - 1))));
            assert!(!effect.known);
            assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/x")), Decision::Pending);
            effect = robots.on_reply(Mono::ZERO, &authority, &redirect(&format!("http://a.example/{hop}")), 0.0);
        }
        let sixth = robots.on_reply(Mono::ZERO, &authority, &redirect("http://a.example/6"), 0.0);
        assert!(sixth.follow.is_none() && sixth.known && sixth.notes.len() == 1);
        assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/private")), Decision::Allow);

        // The rules at the end of the chain are those of the authority that was asked first.
        fetch(&mut robots, Mono::ZERO, "b.example", &redirect("https://www.b.example/robots.txt"));
        robots.on_reply(Mono::ZERO, &of("http://b.example/"), &reply(200, PRIVATE), 0.0);
        assert!(matches!(robots.decide(Mono::ZERO, &url("http://b.example/private")), Decision::Deny { .. }));
        assert!(matches!(robots.decide(Mono::ZERO, &url("https://www.b.example/private")), Decision::Fetch(_)));
        // A chain that ends in trouble is trouble; one that leads nowhere is none.
        fetch(&mut robots, Mono::ZERO, "c.example", &redirect("http://d.example/robots.txt"));
        let refused = robots.on_reply(Mono::ZERO, &of("http://c.example/"), &failed(Outcome::AddressRefused), 0.0);
        assert!(refused.unreachable.is_some());
        let nowhere = Reply { location: Some(Err("file: is not fetched".into())), ..reply(301, "") };
        assert!(fetch(&mut robots, Mono::ZERO, "e.example", &nowhere).known);
    }

    #[test]
    fn a_refused_address_is_told_as_such_and_sends_nothing() {
        let mut robots = robots();
        fetch(&mut robots, Mono::ZERO, "a.example", &failed(Outcome::AddressRefused));
        assert_eq!(
            robots.decide(Mono::ZERO, &url("http://a.example/x")),
            Decision::Refused { why: "it failed".into() }
        );
    }

    #[test]
    fn wanted_12_the_crawl_delay_is_told_as_asked() {
        let mut robots = robots();
        let effect = fetch(&mut robots, Mono::ZERO, "a.example", &reply(200, "User-agent: *\nCrawl-delay: 99999999"));
        assert_eq!(effect.crawl_delay, Some(Duration::from_secs(99_999_999)));
        assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/x")), Decision::Allow);
    }

    #[test]
    fn a_body_beyond_the_cap_counts_up_to_its_last_whole_line() {
        let mut robots = robots();
        let long = Reply {
            verdict: Verdict::Failed(Outcome::TooLarge),
            ..reply(200, "User-agent: *\nDisallow: /private\nDisallow: /o")
        };
        assert!(fetch(&mut robots, Mono::ZERO, "a.example", &long).known);
        assert!(matches!(robots.decide(Mono::ZERO, &url("http://a.example/private")), Decision::Deny { .. }));
        assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/other")), Decision::Allow);
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_the_lax_unused_ones_go_first() {
        let mut robots = Robots::bounded("crawldeck", BackoffPolicy::default(), 10, usize::MAX);
        for host in 0..5 {
            fetch(&mut robots, Mono::ZERO, &format!("strict{host}.example"), &reply(200, PRIVATE));
        }
        for host in 0..1_000 {
            let name = format!("lax{host}.example");
            fetch(&mut robots, Mono::ZERO, &name, &reply(404, ""));
            // What was settled just now is there, whoever had to go for it.
            assert_eq!(robots.decide(Mono::ZERO, &url(&format!("http://{name}/x"))), Decision::Allow);
            // One that is used all the time stays.
            assert_eq!(robots.decide(Mono::ZERO, &url("http://lax0.example/x")), Decision::Allow, "{host}");
            assert!(robots.len() <= 10);
            assert_eq!(robots.lax.len() + robots.strict.len(), robots.len());
        }
        for host in 0..5 {
            let page = url(&format!("http://strict{host}.example/private"));
            assert!(matches!(robots.decide(Mono::ZERO, &page), Decision::Deny { .. }));
        }
        // Even if all others are strict.
        for host in 5..20 {
            fetch(&mut robots, Mono::ZERO, &format!("strict{host}.example"), &reply(200, PRIVATE));
        }
        fetch(&mut robots, Mono::ZERO, "last.example", &reply(404, ""));
        assert_eq!(robots.decide(Mono::ZERO, &url("http://last.example/x")), Decision::Allow);
        assert_eq!(robots.len(), 10);
    }

    #[test]
    fn bytes_are_bounded_and_counted_exactly() {
        let big: String = std::iter::once("User-agent: *\n".to_owned())
            .chain((0..1_000).map(|rule| format!("Disallow: /{rule}\n")))
            .collect();
        let mut robots = Robots::bounded("crawldeck", BackoffPolicy::default(), 1_000, 200_000);
        for host in 0..50 {
            fetch(&mut robots, Mono::ZERO, &format!("h{host}.example"), &reply(200, &big));
            assert!(robots.bytes <= 200_000, "{}", robots.bytes);
        }
        assert!((1..10).contains(&robots.len()), "{}", robots.len());
        let counted = robots.entries.values().filter_map(|entry| entry.place);
        assert_eq!(robots.bytes, counted.map(|(_, bytes)| bytes).sum::<usize>());
        assert_eq!(robots.strict.len(), robots.entries.len());
    }
}
mod tests;
