//! What is queued in one lane, and the lanes of one host.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::tail::Tail;
use super::{BATCH, Doom, Job};
use crate::control::{HostId, Lane, Mono};

/// One lane: the jobs that go next, and the numbers of those behind them.
pub(super) struct LaneJobs {
    pub(super) heads: VecDeque<Job>,
    pub(super) tail: Tail,
    pub(super) delayed: BinaryHeap<Reverse<Delayed>>,
    /// URLs that are being read back.
    pub(super) loading: u32,
    pub(super) batch: u16,
    /// What becomes of those when they are there, if the lane was given up meanwhile.
    pub(super) doom: Option<Box<Doom>>,
}

impl Default for LaneJobs {
    fn default() -> Self {
        let (heads, tail, delayed) = (VecDeque::new(), Tail::default(), BinaryHeap::new());
        Self { heads, tail, delayed, loading: 0, batch: BATCH.0, doom: None }
    }
}

/// The lanes of a host: nearly all have one.
#[derive(Default)]
pub(super) struct Lanes {
    first: LaneJobs,
    more: Vec<LaneJobs>,
}

impl Lanes {
    pub(super) fn len(&self) -> usize {
        1 + self.more.len()
    }

    pub(super) fn get(&self, lane: usize) -> Option<&LaneJobs> {
        match lane.checked_sub(1) {
            None => Some(&self.first),
            Some(more) => self.more.get(more),
        }
    }

    pub(super) fn get_mut(&mut self, lane: usize) -> Option<&mut LaneJobs> {
        match lane.checked_sub(1) {
            None => Some(&mut self.first),
            Some(more) => self.more.get_mut(more),
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LaneJobs> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    /// The first lane, and the others.
    pub(super) fn split(&mut self) -> (&mut LaneJobs, &mut [LaneJobs]) {
        (&mut self.first, &mut self.more)
    }
}

/// A lane among those of all hosts, made if it is not there.
pub(super) fn lane_of(hosts: &mut Vec<Lanes>, host: HostId, lane: Lane) -> &mut LaneJobs {
    let host = host.0 as usize;
    if hosts.len() <= host {
        hosts.resize_with(host + 1, Lanes::default);
    }
    let Lanes { first, more } = &mut hosts[host];
    let Some(lane) = usize::from(lane.0).checked_sub(1) else { return first };
    if more.len() <= lane {
        more.reserve_exact(lane + 1 - more.len());
        more.resize_with(lane + 1, LaneJobs::default);
    }
    &mut more[lane]
}

/// A job that waits for its own retry; ordered by when it is due.
pub(super) struct Delayed {
    pub(super) due: Mono,
    pub(super) stamp: u64,
    pub(super) job: Parked,
}

/// A job that waits, or its number.
pub(super) enum Parked {
    Held(Job),
    Stored(u32),
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
