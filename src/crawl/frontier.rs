//! The frontier: URLs known and not done, per host and lane, first in first out.
//!
//! In memory, behind the few methods that a durable one will have as well. It holds at most
//! [`PENDING_MAX`] URLs; the input waits beyond that. Every URL enters once: a fingerprint of its
//! canonical form is kept (16 bytes) for the length of the run.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::job::Job;
use crate::control::host::LaneQueue;
use crate::control::{HostId, Lane, Mono};

/// URLs pending at most; reading of inputs waits beyond it.
pub const PENDING_MAX: usize = 1_000_000;

/// URLs known at most, done ones included (16 bytes each); further ones are skipped, and said so.
pub const SEEN_MAX: usize = 100_000_000;

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
#[derive(Debug, Default)]
pub struct Frontier {
    hosts: Vec<Vec<LaneJobs>>,
    /// Requests for the robots.txt of others that lead to a host: no URLs of the crawl, and first in turn.
    robots: HashMap<HostId, VecDeque<Job>>,
    seen: HashSet<u128, BuildHasherDefault<Folded>>,
    pending: usize,
    stamped: u64,
    /// A walk through everything queued that has begun.
    walk: Option<Walk>,
}

/// Where a walk is: what it has judged of a lane stands aside until the lane is done, before what is not judged.
#[derive(Debug, Default)]
struct Walk {
    host: usize,
    lane: usize,
    /// Jobs of this lane that are still to be judged; `None` = it has not been entered.
    left: Option<usize>,
    kept: VecDeque<Job>,
    delayed: Vec<Reverse<Delayed>>,
}

/// What a step of a walk did.
#[derive(Debug, Default)]
pub struct Step {
    /// What matched, and is queued no more.
    pub removed: Vec<(HostId, Job)>,
    /// Lanes whose queue is another now.
    pub touched: Vec<(HostId, Lane)>,
    /// The walk has seen everything.
    pub over: bool,
}

#[derive(Debug, Default)]
struct LaneJobs {
    ready: VecDeque<Job>,
    delayed: BinaryHeap<Reverse<Delayed>>,
}

/// A job that waits for its own retry; ordered by when it is due.
#[derive(Debug)]
struct Delayed {
    due: Mono,
    stamp: u64,
    job: Job,
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Delayed {}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.stamp).cmp(&(other.due, other.stamp))
    }
}

/// Fingerprints are hashes already, and tickets are counted: neither is anybody's to choose.
#[derive(Debug, Default)]
pub struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Counted numbers differ in their low bits only; tables look at the high ones, too.
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = (value >> 64) as u64 ^ value as u64;
    }
}

impl Walk {
    fn is_in(&self, host: HostId, lane: Lane) -> bool {
        self.left.is_some() && self.host == host.0 as usize && self.lane == usize::from(lane.0)
    }
}

impl Frontier {
    /// Marks a URL as known.
    pub fn admit(&mut self, fingerprint: u128) -> Admission {
        if self.seen.len() >= SEEN_MAX && !self.seen.contains(&fingerprint) {
            return Admission::Full;
        }
        if self.seen.insert(fingerprint) { Admission::New } else { Admission::Known }
    }

    /// Puts a job at the end of its lane.
    pub fn push(&mut self, host: HostId, lane: Lane, job: Job) {
        self.lane(host, lane).ready.push_back(job);
        self.pending += 1;
    }

    /// Puts a job at the head of its lane: it goes next.
    pub fn push_front(&mut self, host: HostId, lane: Lane, job: Job) {
        self.pending += 1;
        match self.walk_in(host, lane) {
            Some(walk) => walk.kept.push_front(job),
            None => self.lane(host, lane).ready.push_front(job),
        }
    }

    /// Puts a job aside until it is due.
    pub fn push_delayed(&mut self, host: HostId, lane: Lane, job: Job) {
        self.stamped += 1;
        let delayed = Delayed { due: job.due, stamp: self.stamped, job };
        self.lane(host, lane).delayed.push(Reverse(delayed));
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

    /// Takes the next job of a lane: one whose retry is due first, since it has waited longest.
    pub fn pop(&mut self, now: Mono, host: HostId, lane: Lane) -> Option<Job> {
        let jobs = self.lane(host, lane);
        let due = jobs.delayed.peek().is_some_and(|Reverse(delayed)| delayed.due <= now);
        let job = match due {
            true => jobs.delayed.pop().map(|Reverse(delayed)| delayed.job),
            false => match self.walk_in(host, lane).and_then(|walk| walk.kept.pop_front()) {
                Some(job) => Some(job),
                None => self.lane(host, lane).ready.pop_front(),
            },
        };
        self.pending -= usize::from(job.is_some());
        job
    }

    /// What is queued in a lane, for the controller. Requests for robots.txt count in the first.
    pub fn queue(&self, host: HostId, lane: Lane) -> LaneQueue {
        let robots = match lane {
            Lane(0) => self.robots.get(&host).map_or(0, VecDeque::len),
            Lane(_) => 0,
        };
        let jobs = self.hosts.get(host.0 as usize).and_then(|lanes| lanes.get(usize::from(lane.0)));
        let Some(jobs) = jobs else {
            return LaneQueue { ready: u32::try_from(robots).unwrap_or(u32::MAX), ..LaneQueue::EMPTY };
        };
        let walk = self.walk.as_ref().filter(|walk| walk.is_in(host, lane));
        let (kept, aside) = walk.map_or((0, 0), |walk| (walk.kept.len(), walk.delayed.len()));
        LaneQueue {
            ready: u32::try_from(jobs.ready.len() + kept + robots).unwrap_or(u32::MAX),
            delayed: u32::try_from(jobs.delayed.len() + aside).unwrap_or(u32::MAX),
            due: jobs.delayed.peek().map_or(Mono::NEVER, |Reverse(delayed)| delayed.due),
        }
    }

    /// Takes everything that is queued for a host.
    pub fn drain(&mut self, host: HostId) -> Vec<Job> {
        self.settle_walk(host);
        let Some(lanes) = self.hosts.get_mut(host.0 as usize) else { return Vec::new() };
        let mut jobs = Vec::new();
        for lane in lanes.iter_mut() {
            jobs.extend(lane.ready.drain(..));
            jobs.extend(std::mem::take(&mut lane.delayed).into_iter().map(|Reverse(delayed)| delayed.job));
        }
        self.pending -= jobs.len();
        jobs
    }

    /// Puts everything that is queued for a host into its first lane: its lanes are about to change.
    pub fn fold_lanes(&mut self, host: HostId) {
        self.settle_walk(host);
        let Some([first, others @ ..]) = self.hosts.get_mut(host.0 as usize).map(Vec::as_mut_slice) else { return };
        for lane in others {
            first.ready.append(&mut lane.ready);
            first.delayed.append(&mut lane.delayed);
        }
    }

    /// Begins a walk through everything that is queued, from the start.
    pub fn begin_walk(&mut self) {
        if let Some(walk) = &self.walk {
            self.settle_walk(HostId(u32::try_from(walk.host).unwrap_or(u32::MAX)));
        }
        self.walk = Some(Walk::default());
    }

    /// Goes on with the walk: takes out what `matches`, and looks at `most` jobs and lanes. The rest keeps its
    /// order, and goes out meanwhile as ever.
    pub fn walk(&mut self, most: usize, matches: impl Fn(&Job) -> bool) -> Step {
        let mut step = Step::default();
        let mut budget = most;
        let Some(mut walk) = self.walk.take() else { return Step { over: true, ..step } };
        while budget > 0 {
            let Some(lanes) = self.hosts.get_mut(walk.host) else {
                step.over = true;
                break;
            };
            let Some(lane) = lanes.get_mut(walk.lane) else {
                (walk.host, walk.lane) = (walk.host + 1, 0);
                budget -= 1;
                continue;
            };
            let host = HostId(u32::try_from(walk.host).unwrap_or(u32::MAX));
            let mut left = walk.left.unwrap_or_else(|| {
                walk.delayed = std::mem::take(&mut lane.delayed).into_vec();
                lane.ready.len()
            });
            let before = step.removed.len();
            while left > 0 && budget > 0 {
                (left, budget) = (left - 1, budget - 1);
                let Some(job) = lane.ready.pop_front() else { break };
                if matches(&job) { step.removed.push((host, job)) } else { walk.kept.push_back(job) }
            }
            while budget > 0 && left == 0 {
                let Some(Reverse(delayed)) = walk.delayed.pop() else { break };
                budget -= 1;
                if matches(&delayed.job) {
                    step.removed.push((host, delayed.job));
                } else {
                    lane.delayed.push(Reverse(delayed));
                }
            }
            let done = left == 0 && walk.delayed.is_empty();
            walk.left = Some(left);
            if done || step.removed.len() > before {
                step.touched.push((host, Lane(u8::try_from(walk.lane).unwrap_or(u8::MAX))));
            }
            if done {
                walk.kept.append(&mut lane.ready);
                lane.ready = std::mem::take(&mut walk.kept);
                (walk.lane, walk.left) = (walk.lane + 1, None);
                budget = budget.saturating_sub(1);
            }
        }
        self.pending -= step.removed.len();
        self.walk = (!step.over).then_some(walk);
        step
    }

    /// Puts back what the walk holds of this host; it will enter the lane again.
    fn settle_walk(&mut self, host: HostId) {
        let Some(walk) = self.walk.as_mut().filter(|walk| walk.host == host.0 as usize) else { return };
        let (mut kept, delayed) = (std::mem::take(&mut walk.kept), std::mem::take(&mut walk.delayed));
        let lane = Lane(u8::try_from(walk.lane).unwrap_or(u8::MAX));
        if walk.left.take().is_some() {
            let jobs = self.lane(host, lane);
            kept.append(&mut jobs.ready);
            jobs.ready = kept;
            jobs.delayed.extend(delayed);
        }
    }

    /// The walk, if it is inside this lane now.
    fn walk_in(&mut self, host: HostId, lane: Lane) -> Option<&mut Walk> {
        self.walk.as_mut().filter(|walk| walk.is_in(host, lane))
    }

    /// Lanes that a host has.
    pub fn lanes(&self, host: HostId) -> usize {
        self.hosts.get(host.0 as usize).map_or(0, Vec::len)
    }

    /// URLs queued, all hosts.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Whether more may come in.
    pub fn has_room(&self) -> bool {
        self.pending < PENDING_MAX
    }

    fn lane(&mut self, host: HostId, lane: Lane) -> &mut LaneJobs {
        let (host, lane) = (host.0 as usize, usize::from(lane.0));
        if self.hosts.len() <= host {
            self.hosts.resize_with(host + 1, Vec::new);
        }
        let lanes = &mut self.hosts[host];
        if lanes.len() <= lane {
            lanes.resize_with(lane + 1, LaneJobs::default);
        }
        &mut lanes[lane]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    fn job(path: u64, due: u64) -> Job {
        Job::page(&Url::parse(&format!("http://h.example/{path}")).expect("valid"), Mono::from_nanos(due))
    }

    #[test]
    fn jobs_come_out_in_order_and_retries_when_due() {
        let mut frontier = Frontier::default();
        let (host, lane) = (HostId(3), Lane(0));
        frontier.push(host, lane, job(1, 0));
        frontier.push(host, lane, job(2, 0));
        frontier.push_delayed(host, lane, job(9, 10));
        assert_eq!(frontier.queue(host, lane), LaneQueue { ready: 2, delayed: 1, due: Mono::from_nanos(10) });
        let order: Vec<_> = [5, 20, 20, 20]
            .into_iter()
            .map(|now| frontier.pop(Mono::from_nanos(now), host, lane).map(|job| job.url.to_string()))
            .collect();
        let url = |path: &str| Some(format!("http://h.example/{path}"));
        assert_eq!(order, [url("1"), url("9"), url("2"), None]);
        assert_eq!(frontier.pending(), 0);
    }

    #[test]
    fn what_matches_is_removed_and_the_rest_keeps_its_order() {
        for most in [1, 2, 3, 100] {
            let mut frontier = Frontier::default();
            for number in 0..6 {
                frontier.push(HostId(0), Lane(1), job(number, 0));
            }
            frontier.push_delayed(HostId(2), Lane(0), job(4, 9));
            frontier.push_delayed(HostId(2), Lane(0), job(7, 9));
            frontier.begin_walk();
            let mut removed = Vec::new();
            for _ in 0..100 {
                let step = frontier.walk(most, |job| job.url.ends_with('4') || job.url.ends_with('1'));
                removed.extend(step.removed);
                if step.over {
                    break;
                }
            }
            assert_eq!(removed.iter().map(|(host, _)| host.0).collect::<Vec<_>>(), [0, 0, 2], "{most} at a time");
            assert_eq!(frontier.pending(), 5);
            let rest = std::iter::from_fn(|| frontier.pop(Mono::NEVER, HostId(0), Lane(1)));
            assert_eq!(rest.map(|job| job.url.chars().last()).collect::<Vec<_>>(), ['0', '2', '3', '5'].map(Some));
            assert_eq!(frontier.queue(HostId(2), Lane(0)).delayed, 1);
        }
    }

    #[test]
    fn folded_lanes_are_one() {
        let mut frontier = Frontier::default();
        frontier.push(HostId(0), Lane(2), job(2, 0));
        frontier.push(HostId(0), Lane(0), job(1, 0));
        frontier.push_delayed(HostId(0), Lane(1), job(3, 9));
        frontier.begin_walk();
        frontier.walk(2, |_| false);
        frontier.fold_lanes(HostId(0));
        let queue = frontier.queue(HostId(0), Lane(0));
        assert_eq!((queue.ready, queue.delayed, frontier.pending()), (2, 1, 3));
        assert!([1, 2].iter().all(|lane| frontier.queue(HostId(0), Lane(*lane)) == LaneQueue::EMPTY));
        frontier.fold_lanes(HostId(9));
    }

    proptest! {
        /// Whatever goes in and out during a walk: nothing is lost, nothing comes twice, what is popped keeps its
        /// order, and in the end nothing is left of what matched when the walk began.
        #[test]
        fn a_walk_loses_nothing(
            begin in 0_u64..60,
            most in 1_usize..20,
            doings in proptest::collection::vec((0_u8..6, 0_u8..2, 0_u32..2), 0..80),
        ) {
            let mut frontier = Frontier::default();
            for number in 0..begin {
                match number % 5 {
                    4 => frontier.push_delayed(HostId(number as u32 % 2), Lane(0), job(number, u64::MAX - 1)),
                    _ => frontier.push(HostId(number as u32 % 2), Lane((number / 2 % 2) as u8), job(number, 0)),
                }
            }
            let matches = |job: &Job| job.url.ends_with('3') || job.url.ends_with('4');
            frontier.begin_walk();
            let (mut next, mut gone, mut over) = (1_000_000, 0, false);
            let mut newest = [[0_u64; 2]; 2];
            let number = |job: &Job| job.url.rsplit('/').next().and_then(|one| one.parse::<u64>().ok()).expect("a number");
            for (what, lane, host) in doings {
                match what {
                    0..3 => {
                        let step = frontier.walk(most, matches);
                        prop_assert!(step.removed.iter().all(|(_, job)| matches(job)));
                        gone += step.removed.len() as u64;
                        over = over || step.over;
                    }
                    3 => {
                        // Who comes in is judged by others: these are never matched.
                        frontier.push(HostId(host), Lane(lane), job(next * 10, 0));
                        next += 1;
                    }
                    4 => if let Some(job) = frontier.pop(Mono::ZERO, HostId(host), Lane(lane)) {
                        let newest = &mut newest[host as usize][usize::from(lane)];
                        prop_assert!(number(&job) >= *newest, "out of order");
                        *newest = number(&job);
                        gone += 1;
                    },
                    _ => if let Some(job) = frontier.pop(Mono::ZERO, HostId(host), Lane(lane)) {
                        frontier.push_front(HostId(host), Lane(lane), job);
                    },
                }
            }
            for _ in 0..1_000 {
                if over { break; }
                let step = frontier.walk(most, matches);
                (gone, over) = (gone + step.removed.len() as u64, step.over);
            }
            prop_assert!(over);
            let mut rest = frontier.drain(HostId(0));
            rest.extend(frontier.drain(HostId(1)));
            prop_assert!(!rest.iter().any(matches));
            prop_assert_eq!(rest.len() as u64 + gone, begin + next - 1_000_000);
            prop_assert_eq!(frontier.pending(), 0);
        }
    }

    #[test]
    fn draining_takes_everything_of_one_host() {
        let mut frontier = Frontier::default();
        frontier.push(HostId(0), Lane(0), job(1, 0));
        frontier.push(HostId(0), Lane(2), job(2, 0));
        frontier.push_delayed(HostId(0), Lane(1), job(3, 9));
        frontier.push(HostId(1), Lane(0), job(4, 0));
        assert_eq!(frontier.drain(HostId(0)).len(), 3);
        assert_eq!(frontier.pending(), 1);
    }
}
