//! Reading the store: one pass over each file, everything verified, nothing changed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasherDefault;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::frame::{FILE_HEAD, FileKind, FrameError, Frames};
use super::prints::Prints;
use super::record::{HeldRecord, Record, Records, SignRecord};
use super::states::{StateKind, States, read_states};
use super::{Fate, Folded, StoreError, UrlId};
use crate::clock::Anchor;
use crate::control::{Code, Mono, RequestKind};
use crate::text::Clean;

/// The folder of the store inside the run folder.
pub const STATE_FOLDER: &str = "state";
/// The file of URLs and their fates.
pub const URLS_FILE: &str = "urls.log";

/// What a transaction says of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mark {
    /// When it was made.
    pub anchor: Anchor,
    /// How far each barrier was by then, in its own words, by its name.
    #[serde(default)]
    pub places: BTreeMap<String, String>,
    /// The generation of the file of states, and what it was long by then: it was on the medium before.
    #[serde(default)]
    pub states: Option<(u32, u64)>,
}

/// URLs by their fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FateCounts {
    /// With a final answer.
    pub done: u64,
    /// Given up.
    pub failed: u64,
    /// Never sent.
    pub skipped: u64,
}

impl FateCounts {
    pub(super) fn count(&mut self, fate: Fate, by: i64) {
        let counter = match fate {
            Fate::Done => &mut self.done,
            Fate::Failed => &mut self.failed,
            Fate::Skipped => &mut self.skipped,
        };
        *counter = counter.saturating_add_signed(by);
    }
}

/// The host that a URL goes to, if it is pending and was never tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyAt(u32);

impl ReadyAt {
    const NONE: Self = Self(u32::MAX);

    /// The number of the host.
    pub fn get(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }
}

/// A URL that was tried and is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Which.
    pub id: UrlId,
    /// Where it goes next.
    pub host: u32,
    /// Through which lane.
    pub lane: u8,
    /// When.
    pub due: Mono,
}

/// A URL that is held back as one of a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldUrl {
    /// The trap, as the traps know it.
    pub trap: u64,
    /// The number of its host.
    pub host: u32,
}

/// The end of a file that was on the medium and is gone or damaged. No kill and no power cut does that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The file in `state/`.
    pub file: String,
    /// Bytes that it had at least.
    pub had: u64,
    /// Bytes that are there and whole.
    pub whole: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, had, whole } = self;
        write!(
            f,
            "{STATE_FOLDER}/{file} was cut or damaged from outside: {had} bytes of it were on the disk, {whole} are there \
             and whole. The crawl goes on with these; what came after them is forgotten"
        )
    }
}

/// What another process left, for the crawl to go on with.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Names of the hosts, by number.
    pub hosts: Vec<Box<str>>,
    /// Whether URLs over http and over https were seen of each.
    pub schemes: Vec<[bool; 2]>,
    /// URLs that were never tried: the host of each, by number; of the others none.
    pub ready: Vec<ReadyAt>,
    /// Lanes of those that do not stand in the first.
    pub lanes: HashMap<u32, u8>,
    /// URLs that were tried.
    pub tried: Vec<Waiting>,
    /// URLs that are held back, as they came in.
    pub held: BTreeMap<u32, HeldUrl>,
    /// What is known of patterns, for the traps.
    pub signs: Vec<SignRecord>,
    /// Whether an input led to each host.
    pub given: Vec<bool>,
    /// All fingerprints.
    pub prints: Prints,
    /// What became of the others.
    pub counts: FateCounts,
    /// States of hosts, robots.txt and the crawl.
    pub states: States,
    /// The last transaction.
    pub mark: Option<Mark>,
    /// Wire requests, as the journal has them.
    pub rows: u64,
    /// Wire requests that the journal tells beyond that transaction, by host and by what they ended in.
    pub late_rows: HashMap<Clean, BTreeMap<Code, u32>>,
    /// Fates that the journal tells and the store does not know yet: the last quarter second of a killed process.
    pub late: Vec<(UrlId, Fate, String)>,
    /// Fates that the journal tells of URLs that the store does not know at all yet, by fingerprint: they came in
    /// and ended within that time.
    pub foretold: HashMap<u64, Told>,
    /// Bytes behind the last whole transaction, which count for nothing.
    pub torn: u64,
    /// What was on the medium and is not there any more, or not whole.
    pub lost: Vec<Lost>,
    never_tried: u64,
    pub(super) index: Index,
    pub(super) next_id: u32,
    pub(super) urls_end: u64,
    pub(super) states_generation: u32,
    pub(super) states_end: u64,
    pub(super) states_valid: u64,
}

/// Where the records of URLs stand.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// For each frame with URLs the first number in it, and its place.
    pub(super) frames: Vec<(u32, u64)>,
    /// Where the last try of a URL stands.
    pub(super) tried: HashMap<u32, u64, BuildHasherDefault<Folded>>,
    /// Numbers below this are in the file.
    pub(super) written: u32,
    /// Transactions that are, since this process began.
    pub(super) transactions: u64,
}

impl Index {
    /// Whether the URL and so many transactions are in the file.
    pub(super) fn has(&self, id: Option<u32>, transactions: u64) -> bool {
        id.is_none_or(|id| id < self.written) && self.transactions >= transactions
    }
}

/// What the journal knows beyond the last transaction.
#[derive(Debug, Default)]
pub struct Beyond {
    /// It tells anything at all: the crawl began.
    pub began: bool,
    /// Wire requests in all.
    pub rows: u64,
    /// Those beyond the transaction, by host and by what they ended in.
    pub late_rows: HashMap<Clean, BTreeMap<Code, u32>>,
    /// Fates that it tells, by fingerprint.
    pub fates: HashMap<u64, Told>,
}

/// The end of a URL, as the journal tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// The URL.
    pub url: String,
    /// What became of it.
    pub fate: Fate,
    /// Why.
    pub why: String,
}

/// What the reading of a run's store needs from others.
pub struct LoadHooks<'a> {
    /// The lane of a URL: host's name and URL.
    pub lane: &'a mut dyn FnMut(&str, &str) -> u8,
    /// What the journal knows beyond this transaction.
    pub beyond: &'a mut dyn FnMut(&Mark) -> Beyond,
}

/// Reads the store in `run` (the run folder). `None` if there is none. Changes nothing.
pub fn load(run: &Path, hooks: LoadHooks<'_>) -> Result<Option<Loaded>, StoreError> {
    let dir = run.join(STATE_FOLDER);
    let path = dir.join(URLS_FILE);
    let mut states = read_states(&dir)?;
    let Some(mut frames) = Frames::open(&path, FileKind::Urls).map_err(of_file(&path))? else {
        // What is left of a file without its head is nothing to go on with, and to begin anew beside what is known of
        // the hosts would pass for a crawl that is done.
        if let Some(had) = states.urls_end().filter(|had| *had > FILE_HEAD as u64) {
            return Err(StoreError::Missing { path, had });
        }
        // A process that was stopped at its first write left nothing else behind.
        let Beyond { began, rows, late_rows, fates: foretold } = (hooks.beyond)(&Mark::default());
        let (states_generation, states_end) = (states.generation, states.committed);
        let found = began || states_generation > 0;
        return Ok(found.then(|| Loaded {
            rows,
            late_rows,
            foretold,
            states_generation,
            states_end,
            states_valid: states.valid,
            ..Loaded::default()
        }));
    };
    let mut pass = Pass::default();
    let mut transaction = Vec::new();
    while frames.transaction(&mut transaction).map_err(of_file(&path))? {
        for (at, payload) in &transaction {
            pass.frame(*at, payload, hooks.lane).ok_or_else(|| StoreError::Unknown { path: path.clone(), at: *at })?;
        }
    }
    let Pass { mut loaded, mut fates, mut waiting, meters } = pass;
    let whole = frames.committed();
    let urls_end = states.urls_end().filter(|had| *had > whole);
    loaded.lost.extend(urls_end.map(|had| Lost { file: URLS_FILE.to_owned(), had, whole }));
    let told = loaded.mark.as_ref().and_then(|mark| mark.states).unwrap_or_default();
    if states.lost(told).is_some() {
        // A run that goes on may have written meanwhile.
        states = read_states(&dir)?;
        loaded.lost.extend(states.lost(told));
    }
    let meters = meters.into_iter().map(|(key, (count, pages))| SignRecord::Meter { key, count, pages });
    loaded.signs.extend(meters);
    loaded.urls_end = frames.committed();
    loaded.torn = frames.size() - frames.committed() + states.torn;
    loaded.next_id = u32::try_from(fates.len()).unwrap_or(u32::MAX);
    loaded.index.written = loaded.next_id;
    loaded.states = states.states;
    loaded.states_generation = states.generation;
    loaded.states_end = states.committed;
    loaded.states_valid = states.valid;
    let beyond = (hooks.beyond)(&loaded.mark.clone().unwrap_or_default());
    loaded.rows = beyond.rows;
    loaded.late_rows = beyond.late_rows;
    let (known, unknown): (HashMap<_, _>, _) =
        beyond.fates.into_iter().partition(|(print, _)| loaded.prints.contains(*print));
    loaded.foretold = unknown;
    if !known.is_empty() {
        loaded.late = find_late(&path, known, &fates)?;
    }
    for (id, fate, _) in &loaded.late {
        loaded.counts.count(*fate, 1);
        waiting.remove(&id.0);
        loaded.held.remove(&id.0);
        if let Some(place) = fates.get_mut(id.0 as usize) {
            *place = *fate as u8;
        }
    }
    for ((id, fate), host) in (0..).zip(&fates).zip(&mut loaded.ready) {
        if *fate != 0 || waiting.contains_key(&id) || loaded.held.contains_key(&id) {
            *host = ReadyAt::NONE;
        }
    }
    loaded.never_tried = loaded.ready.iter().filter(|host| host.get().is_some()).count() as u64;
    loaded.lanes.retain(|id, _| fates.get(*id as usize) == Some(&0));
    loaded.index.tried.retain(|id, _| waiting.contains_key(id));
    loaded.tried = waiting.into_values().collect();
    loaded.tried.sort_unstable_by_key(|one| (one.due, one.id.0));
    Ok(Some(loaded))
}

/// The numbers of the URLs that the journal tells an end of, among those that are pending.
fn find_late(
    path: &Path,
    mut told: HashMap<u64, Told>,
    fates: &[u8],
) -> Result<Vec<(UrlId, Fate, String)>, StoreError> {
    let Some(mut frames) = Frames::open(path, FileKind::Urls).map_err(of_file(path))? else { return Ok(Vec::new()) };
    let (mut late, mut next, mut transaction) = (Vec::new(), 0_u32, Vec::new());
    while frames.transaction(&mut transaction).map_err(of_file(path))? {
        for (_, payload) in &transaction {
            for record in Records::new(payload) {
                let Ok(Record::Url(url)) = record else { continue };
                let pending = fates.get(next as usize) == Some(&0);
                if pending && let Some(told) = told.remove(&url.print) {
                    late.push((UrlId(next), told.fate, told.why));
                }
                next += 1;
            }
        }
    }
    Ok(late)
}

#[derive(Default)]
struct Pass {
    loaded: Loaded,
    /// By number; 0 = pending.
    fates: Vec<u8>,
    waiting: HashMap<u32, Waiting>,
    /// The last count of each meter of the traps.
    meters: HashMap<u64, (u32, u32), BuildHasherDefault<Folded>>,
}

impl Pass {
    /// Takes one frame; `None` = it holds what makes no sense.
    fn frame(&mut self, at: u64, payload: &[u8], lane: &mut dyn FnMut(&str, &str) -> u8) -> Option<()> {
        let mut first = true;
        let loaded = &mut self.loaded;
        for record in Records::new(payload) {
            match record.ok()? {
                Record::Host(name) => {
                    loaded.hosts.push(name.into());
                    loaded.schemes.push([false; 2]);
                    loaded.given.push(false);
                }
                Record::Url(url) => {
                    let id = u32::try_from(self.fates.len()).ok()?;
                    if std::mem::take(&mut first) {
                        loaded.index.frames.push((id, at));
                    }
                    loaded.prints.insert(url.print);
                    self.fates.push(0);
                    loaded.ready.push(url.host.map_or(ReadyAt::NONE, ReadyAt));
                    if let Some(host) = url.host {
                        let name = loaded.hosts.get(host as usize)?;
                        let lane = lane(name, url.url);
                        if lane > 0 {
                            loaded.lanes.insert(id, lane);
                        }
                        loaded.schemes[host as usize][usize::from(url.url.starts_with("https:"))] = true;
                        // A sitemap of depth 0 was named by a robots.txt.
                        loaded.given[host as usize] |= url.depth == 0 && url.kind == RequestKind::Page;
                    }
                }
                Record::Fate { id, fate, .. } => {
                    if let Some(place) = self.fates.get_mut(id.0 as usize) {
                        if let Some(before) = Fate::of(*place) {
                            loaded.counts.count(before, -1);
                        }
                        *place = fate as u8;
                        self.waiting.remove(&id.0);
                        loaded.held.remove(&id.0);
                    } else if id != UrlId::NONE {
                        return None;
                    }
                    loaded.counts.count(fate, 1);
                }
                Record::Tried(tried) => {
                    let name = loaded.hosts.get(tried.host as usize)?;
                    let lane = match &tried.hop {
                        Some(hop) => {
                            loaded.schemes[tried.host as usize][usize::from(hop.url.starts_with("https:"))] = true;
                            lane(name, hop.url)
                        }
                        None => loaded.lanes.get(&tried.id.0).copied().unwrap_or(0),
                    };
                    loaded.index.tried.insert(tried.id.0, at);
                    let one = Waiting { id: tried.id, host: tried.host, lane, due: tried.due };
                    self.waiting.insert(tried.id.0, one);
                }
                Record::Back(id) => {
                    let place = self.fates.get_mut(id.0 as usize)?;
                    if let Some(before) = Fate::of(*place) {
                        loaded.counts.count(before, -1);
                    }
                    *place = 0;
                    loaded.held.remove(&id.0);
                }
                Record::Held(HeldRecord { id, trap }) => {
                    self.fates.get(id.0 as usize)?;
                    let host = loaded.ready.get(id.0 as usize)?.get()?;
                    loaded.hosts.get(host as usize)?;
                    loaded.held.insert(id.0, HeldUrl { trap, host });
                }
                Record::Known(print) => drop(loaded.prints.insert(print)),
                Record::Sign(SignRecord::Meter { key, count, pages }) => {
                    self.meters.insert(key, (count, pages));
                }
                Record::Sign(sign) => loaded.signs.push(sign),
                // A field that an older version did not have has its default; what is no JSON is damage.
                Record::Mark(json) => loaded.mark = Some(serde_json::from_slice(json).ok()?),
            }
        }
        Some(())
    }
}

/// An error about a file.
pub(super) fn of_file(path: &Path) -> impl Fn(FrameError) -> StoreError + use<> {
    let path: PathBuf = path.to_path_buf();
    move |source| StoreError::File { path: path.clone(), source }
}

impl Loaded {
    /// The value of one state.
    pub fn state(&self, kind: StateKind, key: &str) -> Option<&[u8]> {
        self.states.get(&(kind, key.into())).map(|value| &**value)
    }

    /// The same, for whoever needs it once.
    pub fn take_state(&mut self, kind: StateKind, key: &str) -> Option<Box<[u8]>> {
        self.states.remove(&(kind, key.into()))
    }

    /// URLs that are not done.
    pub fn pending(&self) -> u64 {
        self.never_tried + self.tried.len() as u64 + self.held.len() as u64
    }
}
