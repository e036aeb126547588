//! A walk through everything that is queued, in steps: what an excluded pattern removes.

use super::*;

/// Where a walk is: what it has judged of a lane stands aside until the lane is done, before what is not judged. What is in
/// the store alone is judged when it is read back.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) host: usize,
    pub(super) lane: usize,
    /// Jobs of this lane that are still to be judged; `None` = it has not been entered.
    pub(super) left: Option<usize>,
    pub(super) kept: VecDeque<Job>,
    pub(super) delayed: Vec<Reverse<Delayed>>,
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

impl Walk {
    pub(super) fn is_in(&self, host: HostId, lane: Lane) -> bool {
        self.left.is_some() && self.host == host.0 as usize && self.lane == usize::from(lane.0)
    }
}

impl Frontier {
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
                lane.heads.len()
            });
            let before = step.removed.len();
            while left > 0 && budget > 0 {
                (left, budget) = (left - 1, budget - 1);
                let Some(job) = lane.heads.pop_front() else { break };
                if matches(&job) { step.removed.push((host, job)) } else { walk.kept.push_back(job) }
            }
            while budget > 0 && left == 0 {
                let Some(Reverse(delayed)) = walk.delayed.pop() else { break };
                budget -= 1;
                match delayed.job {
                    Parked::Held(job) if matches(&job) => step.removed.push((host, job)),
                    _ => lane.delayed.push(Reverse(delayed)),
                }
            }
            let done = left == 0 && walk.delayed.is_empty();
            walk.left = Some(left);
            if done || step.removed.len() > before {
                step.touched.push((host, Lane(u8::try_from(walk.lane).unwrap_or(u8::MAX))));
            }
            if done {
                walk.kept.append(&mut lane.heads);
                lane.heads = std::mem::take(&mut walk.kept);
                (walk.lane, walk.left) = (walk.lane + 1, None);
                budget = budget.saturating_sub(1);
            }
        }
        self.pending -= step.removed.len();
        self.held -= step.removed.len();
        self.walk = (!step.over).then_some(walk);
        for (host, lane) in &step.touched {
            self.refill(*host, *lane);
        }
        step
    }

    /// Puts back what the walk holds of this host; it will enter the lane again.
    pub(super) fn settle_walk(&mut self, host: HostId) {
        let Some(walk) = self.walk.as_mut().filter(|walk| walk.host == host.0 as usize) else { return };
        let (mut kept, delayed) = (std::mem::take(&mut walk.kept), std::mem::take(&mut walk.delayed));
        let lane = Lane(u8::try_from(walk.lane).unwrap_or(u8::MAX));
        if walk.left.take().is_some() {
            let jobs = lane_of(&mut self.hosts, host, lane);
            kept.append(&mut jobs.heads);
            jobs.heads = kept;
            jobs.delayed.extend(delayed);
        }
    }

    /// The walk, if it is inside this lane now.
    pub(super) fn walk_in(&mut self, host: HostId, lane: Lane) -> Option<&mut Walk> {
        self.walk.as_mut().filter(|walk| walk.is_in(host, lane))
    }
}
