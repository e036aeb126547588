//! Traps: parts of a site that lead on without end, found by budgets of a pattern and held back until the
//! operator decides. Pure.
//!
//! The pattern of a URL is its host and path with numbers and ids made one (`/cal/2026/12` is `/cal/N/N`) and
//! repeated segments once. Three signs, each by itself:
//!
//! * **A run.** A link to a pattern that is known is a step; the steps since the last new one are a run. Calendars
//!   make runs without end, alone or in turns with other patterns; a hundred thousand articles that link to each
//!   other do not: most are a few steps away. URLs after more than [`RUN_FREE`] steps count against the
//!   [`RUN_BUDGET`] of their pattern.
//! * **Growth.** A path that repeats a segment more than [`REPEATS_MAX`] times, or has more than
//!   [`SEGMENTS_MAX`], counts against [`GROWTH_BUDGET`].
//! * **Sessions.** A URL that is known but for the value of a session's parameter (a usual name, or an id's look
//!   under many different pages) counts against [`SESSION_BUDGET`] or [`ID_BUDGET`] of that parameter.
//!
//! What is beyond a budget is parked, at most [`PARKED_PER_TRAP`] URLs a trap: `:allow PATTERN` lets them go, `:exclude`
//! drops them; more are counted. What is parked is parked again when a run is resumed, and its traps stay shut. What this does not see: pages without end whose paths share nothing.

use std::collections::{HashMap, HashSet};

use url::{Position, Url};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::control::HostId;
use crate::store::UrlId;

/// Steps in a row that cost nothing.
pub const RUN_FREE: u16 = 32;
/// URLs of one pattern beyond that.
pub const RUN_BUDGET: u32 = 256;
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
/// URLs that one trap keeps for the operator's decision.
pub const PARKED_PER_TRAP: usize = 1_000;
/// URLs that all traps keep.
pub const PARKED_MAX: usize = 100_000;
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
    /// How deep it is, to be kept with it.
    pub depth: u32,
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

/// A URL that waits for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parked {
    /// Its number.
    pub id: UrlId,
    /// Where it leads.
    pub url: Box<str>,
    /// Whose URL it is.
    pub host: HostId,
    /// As in [`Candidate`].
    pub depth: u32,
}

/// What is counted of one pattern or parameter.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    count: u32,
    /// Different pages a parameter stands on.
    pages: u32,
}

/// The traps of a crawl.
#[derive(Debug, Default)]
pub struct Traps {
    shapes: HashSet<u64>,
    meters: HashMap<u64, Meter>,
    bare: HashSet<u128>,
    /// By the key of the meter that ran out.
    held: HashMap<u64, Vec<Parked>>,
    parked: usize,
    /// URLs of a host that are held back, parked or not.
    by_host: HashMap<HostId, u32>,
    allowed: Vec<regex::Regex>,
}

/// The sign that a URL gives.
struct Sign {
    key: u64,
    budget: u32,
    suspicion: Suspicion,
}

impl Traps {
    /// Judges a URL that is new. What is held is parked here, as long as there is room: then `number`, which is told the
    /// trap's key, gives its number.
    pub fn judge(&mut self, candidate: Candidate<'_>, number: impl FnOnce(u64) -> UrlId) -> Verdict {
        if self.is_allowed(candidate.url.as_str()) {
            return Verdict::Enters(0);
        }
        let run = self.run(&candidate);
        let candidate = Candidate { run, ..candidate };
        let Some(sign) = self.sign(&candidate) else { return Verdict::Enters(run) };
        if self.meters.len() >= METERS_MAX && !self.meters.contains_key(&sign.key) {
            return Verdict::Enters(run);
        }
        let meter = self.meters.entry(sign.key).or_default();
        meter.count = meter.count.saturating_add(1);
        if meter.count <= sign.budget {
            return Verdict::Enters(run);
        }
        let first = meter.count == sign.budget + 1;
        let held = self.held.entry(sign.key).or_default();
        if held.len() < PARKED_PER_TRAP && self.parked < PARKED_MAX {
            self.parked += 1;
            let Candidate { url, host, depth, .. } = candidate;
            held.push(Parked { id: number(sign.key), url: url.as_str().into(), host, depth });
        }
        self.lead_too_far(candidate.host);
        Verdict::Held(first.then_some(sign.suspicion))
    }

    /// Parks again what another process had parked in the trap of this key, which is shut.
    pub fn restore(&mut self, trap: u64, parked: Parked) {
        // Of a trap that was told already, so it is not told again.
        self.meters.entry(trap).or_default().count = u32::MAX;
        self.lead_too_far(parked.host);
        self.parked += 1;
        self.held.entry(trap).or_default().push(parked);
    }

    /// One more URL on a page of `host`, or of it, is held back: a link to one host too many of its domain, too.
    pub fn lead_too_far(&mut self, host: HostId) {
        let count = self.by_host.entry(host).or_default();
        *count = count.saturating_add(1);
    }

    /// What the operator said settles that.
    pub fn settle(&mut self, host: HostId) {
        let parked = self.held.values().flatten().filter(|parked| parked.host == host).count();
        match parked {
            0 => self.by_host.remove(&host),
            parked => self.by_host.insert(host, u32::try_from(parked).unwrap_or(u32::MAX)),
        };
    }

    /// URLs of a host that are held back.
    pub fn held(&self, host: HostId) -> u32 {
        self.by_host.get(&host).copied().unwrap_or(0)
    }

    /// URLs that wait for the operator.
    pub const fn parked(&self) -> usize {
        self.parked
    }

    /// What matches is no trap from now on: what is parked of it, to be queued.
    pub fn allow(&mut self, pattern: regex::Regex) -> Vec<Parked> {
        let freed = self.take(|parked| pattern.is_match(&parked.url));
        self.allowed.push(pattern);
        freed
    }

    /// Patterns that are allowed.
    pub fn allowed(&self) -> &[regex::Regex] {
        &self.allowed
    }

    /// Whether the operator allowed something.
    pub fn is_allowed(&self, text: &str) -> bool {
        self.allowed.iter().any(|pattern| pattern.is_match(text))
    }

    /// Takes the parked URLs for which `wanted` holds; a trap of which none is left is one no more.
    pub fn take(&mut self, wanted: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        let mut taken = Vec::new();
        self.held.retain(|_, held| {
            let (out, rest): (Vec<_>, Vec<_>) = std::mem::take(held).into_iter().partition(&wanted);
            taken.extend(out);
            *held = rest;
            !held.is_empty()
        });
        self.parked -= taken.len();
        // What was counted and not parked is forgotten with what was.
        let mut left: HashMap<HostId, u32> = HashMap::new();
        for parked in self.held.values().flatten() {
            *left.entry(parked.host).or_default() += 1;
        }
        for host in taken.iter().map(|parked| parked.host) {
            match left.get(&host) {
                Some(left) => self.by_host.insert(host, *left),
                None => self.by_host.remove(&host),
            };
        }
        taken
    }

    /// Steps since the last new pattern.
    fn run(&mut self, candidate: &Candidate<'_>) -> u16 {
        let key = xxh3_64(format!("{} {}", candidate.host.0, shape(candidate.url)).as_bytes());
        let new = self.shapes.len() < SHAPES_MAX && self.shapes.insert(key);
        if new { 0 } else { candidate.run.saturating_add(1) }
    }

    fn sign(&mut self, candidate: &Candidate<'_>) -> Option<Sign> {
        self.session(candidate).or_else(|| growth(candidate)).or_else(|| long_run(candidate))
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
            if self.bare.len() >= BARE_MAX && !self.bare.contains(&bare) {
                continue;
            }
            if self.bare.insert(bare) {
                if self.meters.len() < METERS_MAX || self.meters.contains_key(&key) {
                    let meter = self.meters.entry(key).or_default();
                    meter.pages = meter.pages.saturating_add(1);
                }
                continue;
            }
            let pages = self.meters.get(&key).map_or(0, |meter| meter.pages);
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

/// A long run.
fn long_run(candidate: &Candidate<'_>) -> Option<Sign> {
    if candidate.run <= RUN_FREE {
        return None;
    }
    let shape = shape(candidate.url);
    let key = xxh3_64(format!("{} run {shape}", candidate.host.0).as_bytes());
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
    let pattern = format!("^https?://{}{path}", host_pattern(candidate.url));
    let why = format!("known kinds of pages lead on to known kinds of pages, more than {RUN_FREE} times in a row");
    Some(Sign { key, budget: RUN_BUDGET, suspicion: Suspicion { why, pattern } })
}

/// Characters of a segment that a pattern shows.
const BRIEF: usize = 60;

/// A segment, or a part of one, as a regular expression of no great length.
fn brief(segment: &str) -> String {
    match segment.char_indices().nth(BRIEF) {
        Some((at, _)) => format!("{}[^/]*", regex::escape(&segment[..at])),
        None => regex::escape(segment),
    }
}

/// Stands for any number, and for any id, in a shape; neither can be in a URL's path.
const ONE_NUMBER: char = '\u{1}';
const ONE_ID: &str = "\u{2}";

/// The path with numbers and ids made one, and each segment once.
fn shape(url: &Url) -> String {
    let mut segments: Vec<String> = Vec::new();
    for segment in url.path().split('/').take(SEGMENTS_MAX * 2) {
        // What stands behind a semicolon are parameters.
        let segment = segment.split(';').next().unwrap_or_default();
        let one = if looks_random(segment) { ONE_ID.to_owned() } else { without_numbers(segment) };
        // Numbers in a row are a date as often as a path that grows: they stand for themselves.
        let number = one.contains(ONE_NUMBER);
        if number || !segments.contains(&one) {
            segments.push(one);
        }
    }
    segments.join("/")
}

fn without_numbers(segment: &str) -> String {
    let mut one = String::with_capacity(segment.len());
    for c in segment.chars() {
        if !c.is_ascii_digit() {
            one.push(c);
        } else if !one.ends_with(ONE_NUMBER) {
            one.push(ONE_NUMBER);
        }
    }
    one
}

/// Whether a value looks like an id that a machine made: long, and of letters and digits mixed.
fn looks_random(value: &str) -> bool {
    let long =
        value.len() >= 16 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    long && digits * 8 >= value.len() && digits < value.len()
}

/// The parameters of path and query: name, value, and where the value begins in the URL's text.
fn parameters(url: &Url) -> impl Iterator<Item = (&str, &str, usize)> {
    let text = &url[..Position::AfterQuery];
    let from = url[..Position::BeforePath].len();
    let mut rest = from;
    std::iter::from_fn(move || {
        loop {
            let begin = rest + text.get(rest..)?.find(['?', '&', ';'])? + 1;
            let part = text.get(begin..)?;
            let length = part.find(['?', '&', ';', '/']).unwrap_or(part.len());
            rest = begin + length;
            if let Some((name, value)) = part[..length].split_once('=') {
                return Some((name, value, begin + name.len() + 1));
            }
        }
    })
}

/// The host of a URL, for a pattern.
fn host_pattern(url: &Url) -> String {
    regex::escape(&url[Position::BeforeHost..Position::AfterPort])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn judge(traps: &mut Traps, text: &str, run: u16) -> Verdict {
        traps.judge(Candidate { url: &url(text), host: HostId(0), run, depth: 1 }, |_| UrlId::NONE)
    }

    fn enters(traps: &mut Traps, text: &str, run: u16) -> bool {
        matches!(judge(traps, text, run), Verdict::Enters(_))
    }

    /// Follows links from page to page and gives how many entered, and the suspicion.
    fn walk(traps: &mut Traps, pages: u32, page: impl Fn(u32) -> String) -> (u32, Option<Suspicion>) {
        let (mut entered, mut suspicion, mut run) = (0, None, 0);
        for number in 0..pages {
            match judge(traps, &page(number), run) {
                Verdict::Enters(now) => {
                    entered += 1;
                    run = now;
                }
                Verdict::Held(first) => suspicion = suspicion.or(first),
            }
        }
        (entered, suspicion)
    }

    #[test]
    fn case_56_calendars_and_paths_that_grow_are_bounded() {
        // The first is new.
        let most = 1 + u32::from(RUN_FREE) + RUN_BUDGET;
        for (name, page) in [
            ("a year a page", (|n| format!("http://h/cal?year={n}")) as fn(u32) -> String),
            ("in the path", |n| format!("http://h/cal/{}/{}", 2000 + n / 12, n % 12)),
            ("a month a page", |n| format!("http://h/cal?y={}&m={}", n / 12, n % 12)),
        ] {
            let mut traps = Traps::default();
            let (entered, suspicion) = walk(&mut traps, 10_000, page);
            assert_eq!(entered, most, "{name}");
            let suspicion = suspicion.expect("it is told");
            let pattern = regex::Regex::new(&suspicion.pattern).expect("a regular expression");
            assert!(pattern.is_match(&page(5)) && !pattern.is_match("http://h/about"), "{suspicion:?}");
            assert_eq!((traps.parked(), traps.held(HostId(0))), (PARKED_PER_TRAP, 10_000 - most), "{name}");
        }
        // In turns, as a month that leads to its days and a day that leads to the next month.
        let turns = |n: u32| format!("http://h/{}/{n}", ["month", "day", "week"][n as usize % 3]);
        assert_eq!(walk(&mut Traps::default(), 10_000, turns).0, 3 + u32::from(RUN_FREE) + 3 * RUN_BUDGET);
        let mut traps = Traps::default();
        let grows = |n: u32| format!("http://h/a/{}", "www.x.example/".repeat(n as usize));
        let (entered, suspicion) = walk(&mut traps, 200, grows);
        assert_eq!(entered, 1 + REPEATS_MAX as u32 + GROWTH_BUDGET);
        let pattern = regex::Regex::new(&suspicion.expect("told").pattern).expect("a regular expression");
        assert!(pattern.is_match(&grows(30)) && !pattern.is_match(&grows(2)));
        let turns = |n: u32| format!("http://h{}", "/a/b/c".repeat(n as usize));
        assert_eq!(walk(&mut Traps::default(), 200, turns).0, 1 + REPEATS_MAX as u32 + GROWTH_BUDGET);
    }

    #[test]
    fn sessions_are_bounded_and_every_page_is_had_once() {
        for (session, budget) in [
            ("?PHPSESSID=", SESSION_BUDGET),
            (";jsessionid=", SESSION_BUDGET),
            ("?q=1&sid=", SESSION_BUDGET),
            ("?tok=", ID_BUDGET),
        ] {
            let mut traps = Traps::default();
            let (mut entered, mut pages) = (0, HashSet::new());
            for number in 0_u32..5_000 {
                let page = number % 40;
                let id = format!("{:032x}", xxh3_128(&number.to_le_bytes()));
                if enters(&mut traps, &format!("http://h/page{page}{session}{id}"), 0) {
                    entered += 1;
                    pages.insert(page);
                }
            }
            assert_eq!(pages.len(), 40);
            assert_eq!(entered, 40 + budget, "{session}");
        }
    }

    #[test]
    fn large_sites_are_no_traps() {
        let mut traps = Traps::default();
        for number in 0_u32..20_000 {
            let id = format!("{:024x}", xxh3_64(&number.to_le_bytes()));
            for text in [
                format!("http://h/p/{number}"),
                format!("http://h/wiki/Title_{number}"),
                format!("http://h/article?id={id}"),
                format!("http://h/article/{id}"),
                format!("http://h/2026/12/{number}/index.html"),
                format!("http://h/shop?item={number}&color=red"),
            ] {
                assert!(enters(&mut traps, &text, RUN_FREE - 1), "{text}");
            }
        }
        assert_eq!(traps.parked(), 0);
    }

    #[test]
    fn the_operator_allows_or_drops_what_is_held() {
        let page = |n: u32| format!("http://h/cal?year={n}");
        let mut traps = Traps::default();
        let (entered, suspicion) = walk(&mut traps, 400, page);
        let held = 400 - entered as usize;
        assert_eq!(traps.parked(), held);
        let pattern = regex::Regex::new(&suspicion.expect("told").pattern).expect("a regular expression");
        assert_eq!(traps.take(|parked| parked.url.contains("year=399")).len(), 1);
        assert_eq!(traps.held(HostId(0)) as usize, held - 1);
        let freed = traps.allow(pattern);
        assert_eq!((freed.len(), traps.parked(), traps.held(HostId(0))), (held - 1, 0, 0));
        assert!(enters(&mut traps, &page(1_000), 900));
    }

    #[test]
    fn a_pattern_is_short_whatever_it_is_about() {
        for page in [
            (|n| format!("http://h/{}/{n}", "long-".repeat(400))) as fn(u32) -> String,
            |n| {
                format!(
                    "http://h/{}{n}",
                    (0..50).map(|part| format!("{}-{part}x/", "a".repeat(30))).collect::<String>()
                )
            },
            |n| format!("http://h{}", format!("/{}", "é".repeat(70)).repeat(n as usize + 1)),
        ] {
            let (_, suspicion) = walk(&mut Traps::default(), 400, page);
            let suspicion = suspicion.expect("it is told");
            assert!(suspicion.pattern.len() < 5 * 1_024 && suspicion.why.chars().count() < 200, "{suspicion:?}");
            let pattern = regex::Regex::new(&suspicion.pattern).expect("a regular expression");
            assert!(pattern.is_match(url(&page(30)).as_str()), "{suspicion:?}");
        }
    }

    #[test]
    fn shapes_and_parameters() {
        let shown = |text: &str| shape(&url(text)).replace(ONE_NUMBER, "N").replace(ONE_ID, "ID");
        for (text, expected) in [
            ("http://h/", ""),
            ("http://h/a/b", "/a/b"),
            ("http://h/a/a/b/a", "/a/b"),
            ("http://h/cal/2026/12", "/cal/N/N"),
            ("http://h/page-12.html?x=1", "/page-N.html"),
            ("http://h/x/0123456789abcdef01", "/x/ID"),
            ("http://h/x;jsessionid=1", "/x"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        let url = url("http://h/a;s=1/b?x=2&y&z=;=3");
        let found: Vec<_> = parameters(&url).map(|(name, value, at)| (name, value, &url.as_str()[at..])).collect();
        assert_eq!(found, [("s", "1", "1/b?x=2&y&z=;=3"), ("x", "2", "2&y&z=;=3"), ("z", "", ";=3"), ("", "3", "3")]);
    }
}
