//! Traps: parts of a site that lead on without end, found by budgets of a pattern and held back until the
//! operator decides. Pure.
//!
//! The pattern of a URL is its host and path with numbers and ids made one (`/cal/2026/12` is `/cal/N/N`) and
//! repeated segments once. Five signs, each by itself:
//!
//! * **A run.** A link to a pattern that is known is a step; the steps since the last new one are a run. Calendars
//!   make runs without end, alone or in turns with other patterns; a hundred thousand articles that link to each
//!   other do not: most are a few steps away. URLs after more than [`RUN_FREE`] steps count against the
//!   [`RUN_BUDGET`] of their pattern; if its pages lead on to less than one such URL for two of them (the articles of
//!   a long list, not the list), against the [`LEAF_BUDGET`]; if they link to known pages of their kind, mostly, against
//!   the [`BACK_BUDGET`]. No shape tells a calendar from a finite chain: where the
//!   chain is the site, the operator says so, live or in advance (`allow`).
//! * **Growth.** A path that repeats a segment more than [`REPEATS_MAX`] times, or has more than
//!   [`SEGMENTS_MAX`], counts against [`GROWTH_BUDGET`].
//! * **Sessions.** A URL that is known but for the value of a session's parameter (a usual name, or an id's look
//!   under many different pages) counts against [`SESSION_BUDGET`] or [`ID_BUDGET`] of that parameter.
//! * **A spread.** Pages that lead to new pages of their kind only, and never to one that is known: [`spread`].
//! * **Facets.** One path whose queries name ever new sets of three or more parameters counts against [`FACET_BUDGET`].
//!
//! What is beyond a budget is parked: it stands in the store, and here its number alone, 4 bytes. `:allow PATTERN` lets
//! it go, `:exclude` drops it. What is parked and what is counted outlasts the process: [`Traps::take_unsaved`]. What
//! this does not see: pages without end whose paths share nothing, or that lead back; and what branches within
//! [`RUN_FREE`] steps, as a calendar whose months name all months of the years beside theirs, and all their days.

mod pattern;
pub mod spread;

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use url::Url;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use self::pattern::{BRIEF, ONE_ID, ONE_NUMBER, brief, host_pattern, looks_random, parameters, shape};
use self::spread::{Led, SPREAD_PAGES};
use crate::control::HostId;
use crate::store::record::SignRecord;
use crate::store::{Folded, UrlId};

/// Steps in a row that cost nothing.
pub const RUN_FREE: u16 = 32;
/// URLs of one pattern beyond that.
pub const RUN_BUDGET: u32 = 1_024;
/// The same where pages of the pattern seldom lead on.
pub const LEAF_BUDGET: u32 = 20_000;
/// The same where pages of the pattern link to [`BACK_TIMES`] as many known pages of their kind as to new ones: the
/// next ten pages, not the next month.
pub const BACK_BUDGET: u32 = 100_000;
/// So many known ones to a new one.
pub const BACK_TIMES: u32 = 3;
/// Times that a path may hold one segment.
pub const REPEATS_MAX: usize = 4;
/// Segments that a path may have.
pub const SEGMENTS_MAX: usize = 64;
/// URLs of one pattern beyond one of those two.
pub const GROWTH_BUDGET: u32 = 16;
/// URLs that differ from known ones in the value of a parameter that usually is a session's.
pub const SESSION_BUDGET: u32 = 64;
/// The same for a parameter whose values look like ids, if it stands on this many different pages.
pub const ID_BUDGET: u32 = 512;
const ID_PAGES: u32 = 16;
/// URLs of one path with three parameters or more, from the first whose set of names is new and beyond so many sets.
pub const FACET_BUDGET: u32 = 256;
const FACET_NAMES: usize = 3;
/// Patterns that are known, 16 bytes each; further ones count as known, too.
pub const SHAPES_MAX: usize = 1_000_000;
/// Patterns that are counted; URLs of further ones are not judged.
pub const METERS_MAX: usize = 1_000_000;
/// Pages without their session that are remembered, 16 bytes each; further ones are not judged.
pub const BARE_MAX: usize = 4_000_000;
/// Parameters that usually hold a session.
const SESSION_NAMES: [&str; 14] = [
    "jsessionid",
    "phpsessid",
    "sid",
    "sessid",
    "sessionid",
    "session_id",
    "session-id",
    "session",
    "aspsessionid",
    "asp.net_sessionid",
    "cfid",
    "cftoken",
    "oscsid",
    "zenid",
];

/// A URL on its way into the frontier.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Where it leads.
    pub url: &'a Url,
    /// Whose URL it is.
    pub host: HostId,
    /// The run of the page that it stands on.
    pub run: u16,
    /// That page's pattern, if its run is long: its [`pattern_key`].
    pub on: Option<u64>,
    /// It is of the same kind as that page.
    pub alike: bool,
}

/// What becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It enters the frontier, with this run.
    Enters(u16),
    /// It is held back, for this reason if it is the first of its trap.
    Held(Option<Suspicion>),
}

/// Why a pattern is held back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suspicion {
    /// In words.
    pub why: String,
    /// A regular expression that the operator may allow or exclude.
    pub pattern: String,
}

/// What is counted of one pattern or parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// URLs that count against its budget.
    pub count: u32,
    /// Different pages a parameter stands on, URLs that pages of a pattern lead on to, or what is counted of a spread.
    pub pages: u32,
    unsaved: bool,
}

/// The count of a trap that is found, and was told.
const SHUT: u32 = u32::MAX;

/// Hashes, by themselves.
pub type Hashes<T> = HashSet<T, BuildHasherDefault<Folded>>;
/// What is counted, by the key of a pattern or parameter.
pub type Meters = HashMap<u64, Meter, BuildHasherDefault<Folded>>;

/// What is known of patterns.
#[derive(Debug, Default)]
pub struct Signs {
    shapes: Hashes<u64>,
    meters: Meters,
    /// Pages without their session.
    bare: Hashes<u128>,
}

/// URLs that are parked in one trap, all of one host.
#[derive(Debug)]
struct Shut {
    host: HostId,
    ids: Vec<u32>,
}

/// The traps of a crawl.
#[derive(Debug, Default)]
pub struct Traps {
    signs: Signs,
    /// What was learned since it was last saved; of meters the keys.
    unsaved: Vec<SignRecord>,
    unsaved_meters: Vec<u64>,
    /// By the key of the meter that ran out.
    shut: HashMap<u64, Shut>,
    parked: usize,
    /// What is held back of each host.
    by_host: HashMap<HostId, HeldBack>,
    allowed: Vec<regex::Regex>,
    /// The same, by the configuration.
    given: Vec<regex::Regex>,
}

/// What is held back of a host.
#[derive(Clone, Copy, Debug, Default)]
struct HeldBack {
    /// URLs that are parked.
    parked: u32,
    /// Links to hosts too many of domains, the first of which its pages led to.
    beyond: u32,
}

/// The sign that a URL gives.
struct Sign {
    key: u64,
    budget: u32,
    suspicion: Suspicion,
}

/// What a trap that is shut counts when its URLs are put back: it has its whole budget once more.
pub const fn reopened(sign: SignRecord) -> Option<SignRecord> {
    match sign {
        SignRecord::Meter { key, count: SHUT, .. } => Some(SignRecord::Meter { key, count: 0, pages: 0 }),
        _ => None,
    }
}

impl Signs {
    /// Takes up what another process knew.
    pub fn take(&mut self, sign: SignRecord) {
        match sign {
            SignRecord::Shape(key) => drop(self.shapes.insert(key)),
            SignRecord::Bare(page) => drop(self.bare.insert(page)),
            SignRecord::Meter { key, count, pages } => {
                self.meters.insert(key, Meter { count, pages, unsaved: false });
            }
        }
    }
}

impl Traps {
    /// Judges a URL that is new. What is held is parked: `number`, which is told the trap's key, gives its number.
    pub fn judge(&mut self, candidate: Candidate<'_>, number: impl FnOnce(u64) -> UrlId) -> Verdict {
        if self.is_allowed(candidate.url.as_str()) {
            return Verdict::Enters(0);
        }
        let run = self.run(&candidate);
        let candidate = Candidate { run, ..candidate };
        let Some(sign) = self.sign(&candidate) else { return Verdict::Enters(run) };
        let Some(meter) = self.meter(sign.key) else { return Verdict::Enters(run) };
        // A trap that is found stays one, whatever is counted after.
        let is_shut = meter.count == SHUT;
        meter.count = meter.count.saturating_add(1).min(SHUT - 1);
        if !is_shut && meter.count <= sign.budget {
            return Verdict::Enters(run);
        }
        meter.count = SHUT;
        self.park(sign.key, candidate.host, number(sign.key));
        Verdict::Held((!is_shut).then_some(sign.suspicion))
    }

    /// The meter of a pattern or parameter, to count on; `None` if there are too many.
    fn meter(&mut self, key: u64) -> Option<&mut Meter> {
        let full = self.signs.meters.len() >= METERS_MAX;
        if full && !self.signs.meters.contains_key(&key) {
            return None;
        }
        let meter = self.signs.meters.entry(key).or_default();
        if !std::mem::replace(&mut meter.unsaved, true) {
            self.unsaved_meters.push(key);
        }
        Some(meter)
    }

    /// What was learned since the last call, to be saved with the URLs that it was learned from.
    pub fn take_unsaved(&mut self) -> Vec<SignRecord> {
        let mut unsaved = std::mem::take(&mut self.unsaved);
        for key in std::mem::take(&mut self.unsaved_meters) {
            if let Some(meter) = self.signs.meters.get_mut(&key) {
                meter.unsaved = false;
                unsaved.push(SignRecord::Meter { key, count: meter.count, pages: meter.pages });
            }
        }
        unsaved
    }

    /// Goes on with what another process knew of patterns.
    pub fn restore_signs(&mut self, signs: Signs) {
        self.signs = signs;
    }

    /// Parks a URL in a trap: one that is found, or one that stays.
    pub fn park(&mut self, trap: u64, host: HostId, id: UrlId) {
        self.parked += 1;
        let held = self.by_host.entry(host).or_default();
        held.parked = held.parked.saturating_add(1);
        self.shut.entry(trap).or_insert_with(|| Shut { host, ids: Vec::new() }).ids.push(id.0);
    }

    /// Parks again what another process had parked in the trap of this key, which is shut.
    pub fn restore(&mut self, trap: u64, host: HostId, id: UrlId) {
        // A version that kept no meters told of it all the same, so it is not told again.
        let told = Meter { count: SHUT, ..Meter::default() };
        self.signs.meters.entry(trap).or_insert(told);
        self.park(trap, host, id);
    }

    /// The traps in which something is parked.
    pub fn shut(&self) -> Vec<u64> {
        self.shut.keys().copied().collect()
    }

    /// Takes the numbers of what is parked in a trap, to be judged anew: each counts as parked until it is
    /// [put back](Self::put_back) or [let out](Self::let_out).
    pub fn take_shut(&mut self, trap: u64) -> Option<(HostId, Vec<u32>)> {
        self.shut.remove(&trap).map(|Shut { host, ids }| (host, ids))
    }

    /// One of those stays.
    pub fn put_back(&mut self, trap: u64, host: HostId, id: UrlId) {
        self.shut.entry(trap).or_insert_with(|| Shut { host, ids: Vec::new() }).ids.push(id.0);
    }

    /// One of those is parked no more.
    pub fn let_out(&mut self, host: HostId) {
        self.parked = self.parked.saturating_sub(1);
        if let Some(held) = self.by_host.get_mut(&host) {
            held.parked = held.parked.saturating_sub(1);
        }
    }

    /// A link leads to one host too many of a domain, the first of which was found on a page of `host`. How many did.
    pub fn lead_too_far(&mut self, host: HostId) -> u32 {
        let held = self.by_host.entry(host).or_default();
        held.beyond = held.beyond.saturating_add(1);
        held.beyond
    }

    /// What the operator said settles that.
    pub fn settle(&mut self, host: HostId) {
        if let Some(held) = self.by_host.get_mut(&host) {
            held.beyond = 0;
        }
    }

    /// URLs of a host that are held back.
    pub fn held(&self, host: HostId) -> u32 {
        self.by_host.get(&host).map_or(0, |held| held.parked)
    }

    /// Links to hosts too many of domains that are told at this host.
    pub fn beyond(&self, host: HostId) -> u32 {
        self.by_host.get(&host).map_or(0, |held| held.beyond)
    }

    /// URLs that wait for the operator.
    pub const fn parked(&self) -> usize {
        self.parked
    }

    /// What matches is no trap from now on.
    pub fn allow(&mut self, pattern: regex::Regex) {
        self.allowed.push(pattern);
    }

    /// What the configuration says is no trap, in place of what it said before.
    pub fn give(&mut self, patterns: &[regex::Regex]) {
        self.given = patterns.to_vec();
    }

    /// Patterns that the operator allowed.
    pub fn allowed(&self) -> &[regex::Regex] {
        &self.allowed
    }

    /// Whether the operator or the configuration allowed something.
    pub fn is_allowed(&self, text: &str) -> bool {
        self.allowed.iter().chain(&self.given).any(|pattern| pattern.is_match(text))
    }

    /// Steps since the last new pattern.
    fn run(&mut self, candidate: &Candidate<'_>) -> u16 {
        let key = xxh3_64(format!("{} {}", candidate.host.0, shape(candidate.url)).as_bytes());
        if self.is_new(key) { 0 } else { candidate.run.saturating_add(1) }
    }

    /// Makes a pattern, or a set of names, known.
    fn is_new(&mut self, key: u64) -> bool {
        let new = self.signs.shapes.len() < SHAPES_MAX && self.signs.shapes.insert(key);
        if new {
            self.unsaved.push(SignRecord::Shape(key));
        }
        new
    }

    /// A path whose queries name ever new sets of parameters.
    fn facets(&mut self, candidate: &Candidate<'_>) -> Option<Sign> {
        let url = candidate.url;
        let mut names: Vec<&str> = spread::names(url).collect();
        if names.len() < FACET_NAMES {
            return None;
        }
        names.sort_unstable();
        names.dedup();
        let path = format!("{} facets {}", candidate.host.0, url.path());
        let key = xxh3_64(path.as_bytes());
        let is_new = self.is_new(xxh3_64(format!("{path}?{}", names.join("&")).as_bytes()));
        // Only new sets count, but beyond the budget none goes.
        let beyond = self.signs.meters.get(&key).is_some_and(|meter| meter.count >= FACET_BUDGET);
        (is_new || beyond).then(|| Sign {
            key,
            budget: FACET_BUDGET,
            suspicion: Suspicion {
                why: format!("more than {FACET_BUDGET} different sets of parameters of one path"),
                pattern: format!(
                    "^https?://{}{}[?]([^&]*&){{{}}}",
                    host_pattern(url),
                    brief(url.path()),
                    FACET_NAMES - 1
                ),
            },
        })
    }

    /// A long run.
    fn long_run(&mut self, candidate: &Candidate<'_>) -> Option<Sign> {
        if candidate.run <= RUN_FREE {
            return None;
        }
        if let Some(meter) = candidate.on.and_then(|key| self.meter(key)) {
            meter.pages = meter.pages.saturating_add(1);
        }
        let shape = shape(candidate.url);
        let key = run_key(candidate.host, &shape);
        let meter = |key| self.signs.meters.get(&key).copied().unwrap_or_default();
        let (run, back) = (meter(key), meter(back_key(key)));
        let budget = match run.pages >= run.count / 2 {
            true if back.count / BACK_TIMES >= back.pages.max(1) => BACK_BUDGET,
            true => RUN_BUDGET,
            false => LEAF_BUDGET,
        };
        Some(Sign { key, budget, suspicion: run_suspicion(candidate.url, &shape) })
    }

    /// All links of a page of `host` have been taken; `pattern` as in [`Candidate::on`].
    pub fn note(&mut self, host: HostId, led: &Led, pattern: Option<u64>) {
        if let Some(meter) = pattern.and_then(|pattern| self.meter(back_key(pattern))) {
            let (new, known) = led.links();
            meter.count = meter.count.saturating_add(known).min(SHUT - 1);
            meter.pages = meter.pages.saturating_add(new);
        }
        let Some((page, only_on)) = led.judged() else { return };
        let key = spread_key(host, page);
        let before = self.signs.meters.get(&key).map_or(0, |meter| meter.pages);
        let after = if only_on { before + 1 } else { before.saturating_sub(spread::BACK) };
        // What is held back stays so, whatever the pages that were queued by then lead to.
        if before < SPREAD_PAGES
            && before != after
            && let Some(meter) = self.meter(key)
        {
            meter.pages = after;
        }
    }

    /// A page of a kind that leads on without end, on another.
    fn spread(&self, candidate: &Candidate<'_>) -> Option<Sign> {
        let key = candidate.alike.then(|| spread_key(candidate.host, candidate.url))?;
        let is_spread = self.signs.meters.get(&key)?.pages >= SPREAD_PAGES;
        is_spread.then(|| Sign { key, budget: 0, suspicion: spread::suspicion(candidate.url) })
    }

    fn sign(&mut self, candidate: &Candidate<'_>) -> Option<Sign> {
        self.spread(candidate)
            .or_else(|| self.session(candidate))
            .or_else(|| growth(candidate))
            .or_else(|| self.facets(candidate))
            .or_else(|| self.long_run(candidate))
    }

    /// Counts the URL's session, if it has one and the page is known without it.
    fn session(&mut self, candidate: &Candidate<'_>) -> Option<Sign> {
        let url = candidate.url;
        for (name, value, at) in parameters(url) {
            let lower = name.to_ascii_lowercase();
            let usual = SESSION_NAMES.iter().any(|session| lower == *session) || lower.starts_with("aspsessionid");
            if value.is_empty() || !(usual || looks_random(value)) {
                continue;
            }
            let key = xxh3_64(format!("{} session {lower}", candidate.host.0).as_bytes());
            let bare = format!("{}{}", &url.as_str()[..at], &url.as_str()[at + value.len()..]);
            let bare = xxh3_128(bare.as_bytes());
            if self.signs.bare.len() >= BARE_MAX && !self.signs.bare.contains(&bare) {
                continue;
            }
            if self.signs.bare.insert(bare) {
                self.unsaved.push(SignRecord::Bare(bare));
                if let Some(meter) = self.meter(key) {
                    meter.pages = meter.pages.saturating_add(1);
                }
                continue;
            }
            let pages = self.signs.meters.get(&key).map_or(0, |meter| meter.pages);
            if !usual && pages < ID_PAGES {
                continue;
            }
            let budget = if usual { SESSION_BUDGET } else { ID_BUDGET };
            return Some(Sign {
                key,
                budget,
                suspicion: Suspicion {
                    why: format!("more than {budget} pages are known but for `{name}`"),
                    pattern: format!("^https?://{}/.*[?&;]{}=", host_pattern(url), regex::escape(name)),
                },
            });
        }
        None
    }
}

fn spread_key(host: HostId, page: &Url) -> u64 {
    xxh3_64(format!("{} spread {}", host.0, spread::kind(page)).as_bytes())
}

/// A path that grows.
fn growth(candidate: &Candidate<'_>) -> Option<Sign> {
    let path = candidate.url.path();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.len() <= REPEATS_MAX {
        return None;
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut most = ("", 0);
    for segment in &segments {
        let count = counts.entry(segment).or_default();
        *count += 1;
        if *count > most.1 {
            most = (segment, *count);
        }
    }
    let host = host_pattern(candidate.url);
    let (why, pattern) = if most.1 > REPEATS_MAX {
        let again = format!("(.*/)?{}/", brief(most.0)).repeat(REPEATS_MAX);
        (
            format!("the path repeats `{}` again and again", most.0.chars().take(BRIEF).collect::<String>()),
            format!("^https?://{host}/{again}"),
        )
    } else if segments.len() > SEGMENTS_MAX {
        let deep = format!("([^/]+/){{{SEGMENTS_MAX}}}");
        (format!("the path has more than {SEGMENTS_MAX} segments"), format!("^https?://{host}/{deep}"))
    } else {
        return None;
    };
    let key = xxh3_64(format!("{} growth {pattern}", candidate.host.0).as_bytes());
    Some(Sign { key, budget: GROWTH_BUDGET, suspicion: Suspicion { why, pattern } })
}

/// Where the links of a pattern's pages are counted, known ones and new ones.
const fn back_key(pattern: u64) -> u64 {
    !pattern
}

fn run_key(host: HostId, shape: &str) -> u64 {
    xxh3_64(format!("{} run {shape}", host.0).as_bytes())
}

/// The key of a page's pattern, for what it leads to.
pub fn pattern_key(host: HostId, page: &Url) -> u64 {
    run_key(host, &shape(page))
}

/// Why a pattern of long runs is held back.
fn run_suspicion(url: &Url, shape: &str) -> Suspicion {
    let mut path = String::new();
    for segment in shape.split('/').skip(1) {
        // Somebody is to read it, and may type it.
        if path.len() > 4 * BRIEF {
            break;
        }
        path.push('/');
        match segment {
            ONE_ID => path.push_str("[^/?]+"),
            _ => path.push_str(&segment.split(ONE_NUMBER).map(brief).collect::<Vec<_>>().join("[0-9]+")),
        }
    }
    let pattern = format!("^https?://{}{path}", host_pattern(url));
    let why = format!("known kinds of pages lead on to known kinds of pages, more than {RUN_FREE} times in a row");
    Suspicion { why, pattern }
}

#[cfg(test)]
mod tests;
