//! The frontier: URLs known and not done, per host and lane, first in first out.
//!
//! Only the heads of the queues are in memory, some per lane that grow with how fast it goes; behind them stand
//! numbers, and the URLs themselves in the [`Store`], from which they are read back in the background. Every URL
//! enters once: a fingerprint of its canonical form is kept (8 bytes, see [`Prints`]; of ten million URLs, two have the same with a
//! chance of 3 in a million, and the later one counts as known).
//!
//! **How a URL comes in**, wherever it was found: [`Frontier::admit`] its fingerprint; if that is new,
//! [`Frontier::enter`] it with its host, depth and kind, which gives it its number; then [`Frontier::push`] the job
//! or [`Frontier::end`] it. All of it becomes durable with the next transaction, together or not at all.

mod lane;
mod tail;
mod walk;

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use url::Url;

use super::job::Job;
use crate::clock::Anchor;
use crate::control::host::LaneQueue;
use crate::control::{HostId, Lane, Mono, RequestKind};
pub use crate::store::Folded;
use crate::store::load::Loaded;
use crate::store::prints::Prints;
use crate::store::record::{HeldRecord, HopRecord, TriedRecord, UrlRecord};
use crate::store::{Fate, Store, UrlId};
use lane::{Delayed, Lanes, Parked, lane_of};
use tail::Tails;
pub use walk::Step;
use walk::Walk;

/// URLs pending at most, held back or not, 4 bytes each; reading of inputs waits beyond it, links are left out.
pub const PENDING_MAX: usize = 50_000_000;

/// URLs known at most, done ones included (8 bytes each); further ones are skipped, and said so.
pub const SEEN_MAX: usize = 100_000_000;
/// Jobs in memory, all lanes together, beyond which a new one goes to the store alone.
pub const HEADS_MAX: usize = 65_536;
/// What a lane reads back at once: at first, and at most when it goes fast.
const BATCH: (u16, u16) = (1, 256);
/// URLs of a host that takes no more, read back at once.
const DOOMED_BATCH: usize = 1_024;
/// The lane of such requests: no host has so many endpoints.
const DOOMED_LANE: u8 = u8::MAX;
/// The lane of requests for what is held back.
const HELD_LANE: u8 = u8::MAX - 1;

/// Whether a URL enters the frontier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It was never seen.
    New,
    /// It is there already, or was.
    Known,
    /// There is no room for another one.
    Full,
}

/// The frontier.
#[derive(Default)]
pub struct Frontier {
    hosts: Vec<Lanes>,
    tails: Tails,
    /// Requests for the robots.txt of others that lead to a host: no URLs of the crawl, and first in turn.
    robots: HashMap<HostId, VecDeque<Job>>,
    seen: Prints,
    pending: usize,
    /// Jobs in memory.
    held: usize,
    stamped: u64,
    /// A walk through what is in memory that has begun.
    walk: Option<Walk>,
    /// Queues that are given up as a whole, and wait to be read back for it; the first is under way.
    doomed: VecDeque<Doomed>,
    /// `None` only in tests of the order.
    store: Option<Store>,
}

/// A queue that is given up.
struct Doomed {
    host: HostId,
    ids: VecDeque<u32>,
    doom: Doom,
    /// So many of the first are being read back.
    loading: usize,
}

/// What becomes of URLs that are given up as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doom {
    /// They failed.
    Failed(String),
    /// They are never sent.
    Skipped(String),
    /// Those of one authority failed.
    FailedAt(super::address::Authority, String),
}

/// The fingerprint as it is kept.
pub fn folded(fingerprint: u128) -> u64 {
    (fingerprint >> 64) as u64 ^ fingerprint as u64
}

impl Frontier {
    /// A frontier that keeps its URLs in `store`.
    pub fn new(store: Store) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    /// Takes over the queues that another process left. What was tried and is due comes first.
    pub fn restore(&mut self, now: Mono, loaded: &mut Loaded, longest: std::time::Duration) {
        self.seen = std::mem::take(&mut loaded.prints);
        for (id, host) in (0..).zip(std::mem::take(&mut loaded.ready)) {
            let Some(host) = host.get() else { continue };
            let lane = Lane(loaded.lanes.get(&id).copied().unwrap_or(0));
            let jobs = lane_of(&mut self.hosts, HostId(host), lane);
            self.tails.push_back(&mut jobs.tail, id);
            self.pending += 1;
        }
        for waiting in std::mem::take(&mut loaded.tried).into_iter().rev() {
            let due = waiting.due.min(now.after(longest));
            self.pending += 1;
            self.stamped += 1;
            let stamp = self.stamped;
            let jobs = lane_of(&mut self.hosts, HostId(waiting.host), Lane(waiting.lane));
            match due <= now {
                true => self.tails.push_front(&mut jobs.tail, waiting.id.0),
                false => jobs.delayed.push(Reverse(Delayed { due, stamp, job: Parked::Stored(waiting.id.0) })),
            }
        }
        for host in (0..self.hosts.len()).map(|host| HostId(u32::try_from(host).unwrap_or(u32::MAX))) {
            for lane in 0..self.lanes(host) {
                self.refill(host, Lane(u8::try_from(lane).unwrap_or(u8::MAX)));
            }
        }
    }

    /// The store, to say what is no URL: states, transactions.
    pub fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    /// The same, to ask how it is.
    pub fn store_ref(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// The store, when nothing more will be said.
    pub fn take_store(&mut self) -> Option<Store> {
        self.store.take()
    }

    /// Hands over what was said, as one transaction.
    pub fn commit(&mut self, anchor: Anchor) {
        if let Some(store) = &mut self.store {
            store.commit(anchor);
        }
    }

    /// A host that was not known before; hosts come in the order of their numbers.
    pub fn add_host(&mut self, name: &str) {
        if let Some(store) = &mut self.store {
            store.add_host(name);
        }
    }

    /// Marks a URL as known.
    pub fn admit(&mut self, fingerprint: u128) -> Admission {
        let print = folded(fingerprint);
        if self.seen.len() >= SEEN_MAX && !self.seen.contains(print) {
            return Admission::Full;
        }
        if self.seen.insert(print) { Admission::New } else { Admission::Known }
    }

    /// The same for what is no URL of the crawl by itself, the target of a redirect: known over a restart, too.
    pub fn admit_target(&mut self, fingerprint: u128) -> Admission {
        let admission = self.admit(fingerprint);
        if admission == Admission::New
            && let Some(store) = &mut self.store
        {
            store.known(folded(fingerprint));
        }
        admission
    }

    /// Whether a URL is known.
    pub fn is_known(&self, fingerprint: u128) -> bool {
        self.seen.contains(folded(fingerprint))
    }

    /// Fingerprints that are known.
    pub fn known(&self) -> usize {
        self.seen.len()
    }

    /// Gives the URL of a job that was admitted its number, and keeps it. `host` is `None` for one that is never sent
    /// anywhere.
    pub fn enter(&mut self, fingerprint: u128, host: Option<HostId>, job: &Job) -> UrlId {
        let Some(store) = &mut self.store else { return UrlId::NONE };
        let (print, host, kind) = (folded(fingerprint), host.map(|host| host.0), job.kind());
        let Job { depth, run, .. } = *job;
        store.add_url(&UrlRecord { host, print, depth, run, kind, url: job.root() })
    }

    /// Puts a page of the inputs, which was admitted, at the end of its lane: [`Self::enter`] and [`Self::push`] at
    /// once, without a job for what goes to the store alone.
    pub fn take_in(&mut self, fingerprint: u128, host: HostId, lane: Lane, url: &Url, due: Mono) {
        let jobs = lane_of(&mut self.hosts, host, lane);
        let behind = self.held >= HEADS_MAX || !jobs.tail.is_empty() || jobs.loading > 0;
        match &mut self.store {
            Some(store) if behind => {
                let (print, host_number, kind) = (folded(fingerprint), Some(host.0), RequestKind::Page);
                let url = url.as_str();
                let id = store.add_url(&UrlRecord { host: host_number, print, depth: 0, run: 0, kind, url });
                self.tails.push_back(&mut jobs.tail, id.0);
                self.pending += 1;
                self.refill(host, lane);
            }
            _ => {
                let job = Job::page(url, due);
                let id = self.enter(fingerprint, Some(host), &job);
                self.push(host, lane, job.numbered(id));
            }
        }
    }

    /// Reads what [`Self::admit`] will read: many at once wait for memory together. What it returns means nothing.
    pub fn look_at(&self, fingerprints: impl Iterator<Item = u128>) -> u64 {
        self.seen.look_at(fingerprints.map(folded))
    }

    /// The same for what [`Self::take_in`] will read of a host.
    pub fn look_at_host(&self, host: HostId) -> u32 {
        let first = self.hosts.get(host.0 as usize).and_then(|lanes| lanes.get(0));
        first.map_or(0, |jobs| self.tails.look_at(&jobs.tail))
    }

    /// Keeps that a URL is held back as one of `trap`.
    pub fn hold(&mut self, id: UrlId, trap: u64) {
        if let Some(store) = &mut self.store {
            store.held(HeldRecord { id, trap });
        }
    }

    /// Asks for URLs that are held back; what comes back is told by [`Self::is_held`].
    pub fn load_held(&mut self, host: HostId, ids: Vec<u32>) {
        if let Some(store) = &mut self.store {
            store.load(host.0, HELD_LANE, ids);
        }
    }

    /// Whether what was read back is what [`Self::load_held`] asked for.
    pub fn is_held(lane: u8) -> bool {
        lane == HELD_LANE
    }

    /// Keeps that a URL that was held back may go; it is to be pushed.
    pub fn let_go(&mut self, id: UrlId) {
        if let Some(store) = &mut self.store {
            store.back(id);
        }
    }

    /// What became of a URL, and why.
    pub fn end(&mut self, id: UrlId, fate: Fate, why: &str) {
        if let Some(store) = &mut self.store {
            store.fate(id, fate, why);
        }
    }

    /// Keeps what a job's next request needs to know, over a restart too: after each attempt, before it is pushed.
    pub fn tried(&mut self, host: HostId, job: &Job) {
        let Some(store) = &mut self.store else { return };
        let hop = job.more.as_ref().map(|more| HopRecord {
            url: &job.url,
            hops: more.hops,
            cookies: more.cookies,
            chain: more.chain.clone(),
        });
        let Job { id, failures, unprocessed, due, .. } = *job;
        store.tried(&TriedRecord { id, host: host.0, failures, unprocessed, due, hop });
    }

    /// Puts a job at the end of its lane.
    pub fn push(&mut self, host: HostId, lane: Lane, job: Job) {
        let stored = self.store.is_some() && job.id != UrlId::NONE;
        let full = stored && self.held >= HEADS_MAX;
        let jobs = lane_of(&mut self.hosts, host, lane);
        self.pending += 1;
        if stored && (full || !jobs.tail.is_empty() || jobs.loading > 0) {
            self.tails.push_back(&mut jobs.tail, job.id.0);
            self.refill(host, lane);
        } else {
            if jobs.heads.capacity() == 0 {
                jobs.heads.reserve_exact(1);
            }
            jobs.heads.push_back(job);
            self.held += 1;
        }
    }

    /// Puts a job at the head of its lane: it goes next.
    pub fn push_front(&mut self, host: HostId, lane: Lane, job: Job) {
        self.held += 1;
        self.pending += 1;
        if self.walk_in(host, lane).is_some() {
            // It may have been taken out before it was judged: the walk enters the lane again.
            self.settle_walk(host);
        }
        lane_of(&mut self.hosts, host, lane).heads.push_front(job);
    }

    /// Puts a job aside until it is due.
    pub fn push_delayed(&mut self, host: HostId, lane: Lane, job: Job) {
        self.stamped += 1;
        let (due, stamp) = (job.due, self.stamped);
        let full = self.held >= HEADS_MAX && self.store.is_some() && job.id != UrlId::NONE;
        let job = if full { Parked::Stored(job.id.0) } else { Parked::Held(job) };
        self.held += usize::from(!full);
        lane_of(&mut self.hosts, host, lane).delayed.push(Reverse(Delayed { due, stamp, job }));
        self.pending += 1;
    }

    /// Queues a request for somebody's robots.txt that was redirected to this host. One an authority at most.
    pub fn push_robots(&mut self, host: HostId, job: Job) {
        self.robots.entry(host).or_default().push_back(job);
    }

    /// Takes the next request of [`Self::push_robots`], whatever the lane.
    pub fn pop_robots(&mut self, host: HostId) -> Option<Job> {
        let jobs = self.robots.get_mut(&host)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.robots.remove(&host);
        }
        job
    }

    /// Whether [`Self::pop_robots`] has one.
    pub fn has_robots(&self, host: HostId) -> bool {
        self.robots.contains_key(&host)
    }

    /// Takes the next job of a lane: one whose retry is due first, since it has waited longest. `None` also while its
    /// next heads are read back: [`Self::queue`] says when there is one.
    pub fn pop(&mut self, now: Mono, host: HostId, lane: Lane) -> Option<Job> {
        let jobs = lane_of(&mut self.hosts, host, lane);
        let mut job = None;
        while job.is_none() && jobs.delayed.peek().is_some_and(|Reverse(delayed)| delayed.due <= now) {
            match jobs.delayed.pop().map(|Reverse(delayed)| delayed.job) {
                Some(Parked::Held(held)) => job = Some(held),
                Some(Parked::Stored(id)) => self.tails.push_front(&mut jobs.tail, id),
                None => {}
            }
        }
        let job = job.or_else(|| self.walk_in(host, lane).and_then(|walk| walk.kept.pop_front()));
        let job = job.or_else(|| lane_of(&mut self.hosts, host, lane).heads.pop_front());
        self.held -= usize::from(job.is_some());
        self.pending -= usize::from(job.is_some());
        let jobs = lane_of(&mut self.hosts, host, lane);
        if job.is_some() && jobs.heads.is_empty() && !jobs.tail.is_empty() {
            // It goes faster than its heads come back.
            jobs.batch = jobs.batch.saturating_mul(2).min(BATCH.1);
        }
        self.refill(host, lane);
        job
    }

    /// Asks for the next heads of a lane, if it is running out of them.
    fn refill(&mut self, host: HostId, lane: Lane) {
        let Some(store) = &mut self.store else { return };
        let lanes = self.hosts.get_mut(host.0 as usize);
        let Some(jobs) = lanes.and_then(|lanes| lanes.get_mut(usize::from(lane.0))) else { return };
        let low = jobs.heads.len() <= usize::from(jobs.batch) / 2;
        if !low || jobs.loading > 0 || jobs.tail.is_empty() {
            return;
        }
        let ids = self.tails.take(&mut jobs.tail, usize::from(jobs.batch));
        jobs.loading = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        store.load(host.0, lane.0, ids);
    }

    /// What becomes of heads that were asked for before their lane was given up.
    pub fn late_doom(&mut self, host: HostId, lane: Lane) -> Option<Doom> {
        lane_of(&mut self.hosts, host, lane).doom.take().map(|doom| *doom)
    }

    /// Takes heads that were read back; `lost` more could not be.
    pub fn put_loaded(&mut self, host: HostId, lane: Lane, loaded: Vec<Job>, lost: usize) {
        let (count, lane_jobs) = (loaded.len(), lane_of(&mut self.hosts, host, lane));
        lane_jobs.loading = 0;
        // Most hosts have one head: room for four would be most of the memory.
        lane_jobs.heads.reserve_exact(count);
        lane_jobs.heads.extend(loaded);
        self.held += count;
        self.pending -= lost.min(self.pending);
        self.refill(host, lane);
    }

    /// Whether what was read back belongs to [`Self::doom`].
    pub fn is_doomed(lane: u8) -> bool {
        lane == DOOMED_LANE
    }

    /// What is to become of the URLs of a doomed queue that were read back just now.
    pub fn doom_of(&mut self, count: usize) -> Option<(HostId, Doom)> {
        let first = self.doomed.front_mut()?;
        first.loading = 0;
        self.pending -= count.min(self.pending);
        let doom = (first.host, first.doom.clone());
        if first.ids.is_empty() {
            self.doomed.pop_front();
        }
        self.load_doomed();
        Some(doom)
    }

    /// Takes everything that is queued for a host: the jobs in memory at once; the others are read back in the
    /// background, and end as `doom` says.
    pub fn doom(&mut self, host: HostId, doom: Doom) -> Vec<Job> {
        self.settle_walk(host);
        let Some(lanes) = self.hosts.get_mut(host.0 as usize) else { return Vec::new() };
        let (mut jobs, mut ids) = (Vec::new(), VecDeque::new());
        for lane in lanes.iter_mut() {
            jobs.extend(lane.heads.drain(..));
            ids.extend(self.tails.take(&mut lane.tail, usize::MAX));
            lane.doom = (lane.loading > 0).then(|| Box::new(doom.clone()));
            for Reverse(delayed) in std::mem::take(&mut lane.delayed) {
                match delayed.job {
                    Parked::Held(job) => jobs.push(job),
                    Parked::Stored(id) => ids.push_back(id),
                }
            }
        }
        self.pending -= jobs.len();
        self.held -= jobs.len();
        if !ids.is_empty() {
            self.doomed.push_back(Doomed { host, ids, doom, loading: 0 });
            self.load_doomed();
        }
        jobs
    }

    fn load_doomed(&mut self) {
        let (Some(store), Some(first)) = (&mut self.store, self.doomed.front_mut()) else { return };
        if first.loading == 0 && !first.ids.is_empty() {
            let ids: Vec<u32> = first.ids.drain(..DOOMED_BATCH.min(first.ids.len())).collect();
            first.loading = ids.len();
            store.load(first.host.0, DOOMED_LANE, ids);
        }
    }

    /// What is queued in a lane, for the controller. Requests for robots.txt count in the first.
    pub fn queue(&self, host: HostId, lane: Lane) -> LaneQueue {
        let robots = match lane {
            Lane(0) => self.robots.get(&host).map_or(0, VecDeque::len),
            Lane(_) => 0,
        };
        let short = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let jobs = self.hosts.get(host.0 as usize).and_then(|lanes| lanes.get(usize::from(lane.0)));
        let Some(jobs) = jobs else { return LaneQueue { ready: short(robots), ..LaneQueue::EMPTY } };
        let walk = self.walk.as_ref().filter(|walk| walk.is_in(host, lane));
        let (kept, aside) = walk.map_or((0, 0), |walk| (walk.kept.len(), walk.delayed.len()));
        LaneQueue {
            ready: short(jobs.heads.len() + kept + robots),
            delayed: short(jobs.delayed.len() + aside),
            due: jobs.delayed.peek().map_or(Mono::NEVER, |Reverse(delayed)| delayed.due),
            stored: short(jobs.tail.len()).saturating_add(jobs.loading),
        }
    }

    /// Puts everything that is queued for a host into its first lane: its lanes are about to change.
    pub fn fold_lanes(&mut self, host: HostId) {
        self.settle_walk(host);
        let Some((first, others)) = self.hosts.get_mut(host.0 as usize).map(Lanes::split) else { return };
        for lane in others {
            first.heads.append(&mut lane.heads);
            self.tails.append(&mut first.tail, &mut lane.tail);
            first.delayed.append(&mut lane.delayed);
        }
        self.refill(host, Lane(0));
    }

    /// Lanes that a host has.
    pub fn lanes(&self, host: HostId) -> usize {
        self.hosts.get(host.0 as usize).map_or(0, Lanes::len)
    }

    /// URLs queued, all hosts.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Whether more may come in, while `parked` URLs are held back. Those take no room from inputs, which would wait for
    /// the operator for ever.
    pub fn has_room(&self, parked: usize) -> bool {
        self.pending.saturating_add(parked) < PENDING_MAX
    }

    /// Whether the store's disk keeps up: if not, nothing more is granted and no input is read.
    pub fn keeps_up(&self) -> bool {
        self.store.as_ref().is_none_or(|store| !store.is_full())
    }
}

#[cfg(test)]
mod tests;
