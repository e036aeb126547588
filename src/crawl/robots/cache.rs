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

use serde::{Deserialize, Serialize};
use url::Url;

use super::matching::Target;
use super::parse::{Access, Extent, Rules};
use crate::control::{BackoffPolicy, Mono, Outcome, Verdict};
use crate::crawl::address::{Authority, authority_text};
use crate::crawl::exchange::Reply;
use crate::text::Clean;
use crate::watch::{RobotsState, RobotsView};

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
    /// The sitemaps that it names, as written.
    pub sitemaps: Vec<Box<str>>,
    /// Oddities for the journal.
    pub notes: Vec<Clean>,
}

/// A failed try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// How many in a row, from 1; 0 = trouble of our own, which is not to be held against the host.
    pub tries: u32,
    /// No try of this authority ever brought a status.
    pub silent: bool,
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
    /// Settled since they were last taken to be saved; an authority may stand here twice.
    unsaved: Vec<Authority>,
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
    /// It answered with a status once.
    answered: bool,
    last_used: u64,
    /// Its place in `lax` or `strict`, and what it counts for in `bytes`; `None` while in flight.
    place: Option<(u64, usize)>,
}

/// What is persisted of an entry: the copy with its age, and when to ask again.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedRobots {
    until: Mono,
    #[serde(default)]
    copy: Option<GoodCopy>,
    /// The address is refused, and why.
    #[serde(default)]
    refused: Option<Clean>,
    #[serde(default)]
    tries: u32,
    #[serde(default)]
    answered: bool,
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

#[derive(Clone, Debug, Serialize, Deserialize)]
struct GoodCopy {
    rules: Rules,
    fetched: Mono,
}

impl Robots {
    /// Tries after failures are spaced by this from now on.
    pub fn set_backoff(&mut self, backoff: BackoffPolicy) {
        self.backoff = backoff;
    }

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
            unsaved: Vec::new(),
            bytes: 0,
            entries_max: entries,
            bytes_max: bytes,
        }
    }

    /// Whether `url` may be fetched now. A robots.txt itself always may.
    pub fn decide(&mut self, now: Mono, url: &Url) -> Decision {
        let known = self.entries.get_mut(&*authority_text(url));
        if let Some(Entry { state: State::Known { until }, copy, last_used, .. }) = known
            && now < *until
            && usable(copy, now).is_some_and(Rules::allow_all)
        {
            // What forbids nothing, as most do, need not be matched with anything.
            self.tick += 1;
            *last_used = self.tick;
            return Decision::Allow;
        }
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

    /// The next question about `authority` tries again at once, however its last try failed: the operator
    /// woke its host.
    pub fn retry(&mut self, authority: &Authority) {
        if let Some(entry) = self.entries.get_mut(authority)
            && matches!(entry.state, State::Failed { .. } | State::Refused { .. })
        {
            entry.state = State::Failed { until: Mono::ZERO };
        }
    }

    /// What is known of `authority`, for whoever watches; `None` = nobody has asked yet.
    pub fn view(&self, authority: &Authority) -> Option<RobotsView> {
        let entry = self.entries.get(authority)?;
        let state = match &entry.state {
            State::New => RobotsState::Failed { until: Mono::ZERO, tries: 0 },
            State::InFlight { hops } => RobotsState::InFlight { hops: *hops },
            State::Known { until } => RobotsState::Known { until: *until },
            State::Failed { until } => RobotsState::Failed { until: *until, tries: entry.tries },
            State::Refused { until, .. } => RobotsState::Refused { until: *until },
        };
        let copy = entry.copy.as_ref().map(|copy| (copy.fetched, copy.rules.group, copy.rules.len()));
        Some(RobotsView { authority: Clean::new(authority.as_str()), state, copy })
    }

    /// Authorities whose entries have changed since the last call.
    pub fn take_unsaved(&mut self) -> Vec<Authority> {
        std::mem::take(&mut self.unsaved)
    }

    /// Whether [`Self::take_unsaved`] has any.
    pub fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// What is to be persisted of an authority; `None` while it is in flight or nothing is known.
    pub fn saved(&self, authority: &Authority) -> Option<SavedRobots> {
        let entry = self.entries.get(authority)?;
        let (until, refused) = match &entry.state {
            State::New | State::InFlight { .. } => return None,
            State::Known { until } | State::Failed { until } => (*until, None),
            State::Refused { until, why } => (*until, Some(why.clone())),
        };
        Some(SavedRobots { until, copy: entry.copy.clone(), refused, tries: entry.tries, answered: entry.answered })
    }

    /// Takes up what was persisted of an authority, with its age; false if it is of no use.
    pub fn restore(&mut self, now: Mono, authority: &str, saved: &[u8]) -> bool {
        let Ok(saved) = serde_json::from_slice::<SavedRobots>(saved) else { return false };
        let Some(authority) = url::Url::parse(authority).ok().map(|url| Authority::of(&url)) else { return false };
        let SavedRobots { until, copy, refused, tries, answered } = saved;
        let until = until.min(now.after(TTL_MAX.max(self.backoff.retry_after_max)));
        let state = match (refused, tries) {
            (Some(why), _) => State::Refused { until, why },
            (None, 0) => State::Known { until },
            (None, _) => State::Failed { until },
        };
        let copy = copy.map(|copy| GoodCopy { fetched: copy.fetched.min(now), ..copy });
        self.place(&authority, Entry { state, copy, tries, answered, last_used: 0, place: None });
        true
    }

    /// The sitemaps that the copies at hand name, as written, by whose they are; in the order of their names.
    pub fn sitemaps(&self) -> Vec<(Authority, Vec<Box<str>>)> {
        let named = self.entries.iter().filter_map(|(authority, entry)| {
            let sitemaps = &entry.copy.as_ref()?.rules.sitemaps;
            (!sitemaps.is_empty()).then(|| (authority.clone(), sitemaps.clone()))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        named
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
        entry.answered |= reply.status.is_some();
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
        let (sitemaps, notes) = (rules.sitemaps.clone(), rules.notes.clone());
        let effect = Effect { known: true, crawl_delay: rules.crawl_delay, sitemaps, notes, ..Effect::default() };
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
        // With trouble of our own nothing was learned: the next question asks again.
        entry.state = if ours { State::New } else { State::Failed { until } };
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
            unreachable: Some(Unreachable {
                tries: if ours { 0 } else { entry.tries },
                silent: !entry.answered,
                until,
            }),
            ..Effect::default()
        }
    }

    /// Puts an entry back, counted and evictable, and makes room.
    fn settle(&mut self, authority: &Authority, entry: Entry) {
        self.unsaved.push(authority.clone());
        self.place(authority, entry);
    }

    fn place(&mut self, authority: &Authority, mut entry: Entry) {
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
mod tests;
