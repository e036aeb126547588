//! What makes servers hard to please beside their limit: bans, outages, queues, slow work.
//!
//! Each habit is a small state machine of its own, so that a server can have any set of them.

use std::collections::VecDeque;
use std::time::Duration;

use super::Random;
use crate::control::Mono;

/// Refusals a ban remembers at most, whatever was configured.
const REFUSALS_MAX: usize = 10_000;
/// Parallel servers behind one queue at most.
const SERVERS_MAX: usize = 1_024;

/// How long the work on one request takes: lognormal.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Latency {
    /// Half of the answers are faster.
    pub median: Duration,
    /// Spread of the logarithm; 0 = always the median.
    pub sigma: f64,
}

impl Latency {
    /// One draw.
    pub fn draw(self, random: &mut Random) -> Duration {
        random.lognormal(self.median, self.sigma)
    }
}

/// Whoever is refused too often is banned for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ban {
    /// So many refusals are borne; one more within the time is a ban.
    pub refusals: u32,
    /// The time.
    pub within: Duration,
    /// Status while it lasts.
    pub status: u16,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A ban at work.
#[derive(Clone, Debug)]
pub(super) struct Banning {
    ban: Ban,
    recent: VecDeque<Mono>,
    until: Mono,
    count: u64,
}

impl Banning {
    pub(super) const fn new(ban: Ban) -> Self {
        Self { ban, recent: VecDeque::new(), until: Mono::ZERO, count: 0 }
    }

    /// The status to answer with, if a ban is in force.
    pub(super) fn in_force(&self, now: Mono) -> Option<u16> {
        (now < self.until).then_some(self.ban.status)
    }

    /// Bans so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// A refusal was given.
    pub(super) fn refused(&mut self, now: Mono) {
        while self.recent.front().is_some_and(|first| now.since(*first) > self.ban.within) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let borne = usize::try_from(self.ban.refusals).unwrap_or(REFUSALS_MAX).min(REFUSALS_MAX);
        if self.recent.len() > borne {
            self.recent.clear();
            self.until = now.after(self.ban.lasts);
            self.count += 1;
        }
    }
}

/// In what way a server is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum How {
    /// Connections are reset.
    #[default]
    Reset,
    /// Connections are taken and nothing is ever said.
    Silent,
}

/// A schedule of outages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outages {
    /// When the first begins.
    pub first: Duration,
    /// How long each lasts.
    pub lasts: Duration,
    /// From the beginning of one to the beginning of the next; zero = there is only one.
    pub every: Duration,
    /// In what way.
    pub how: How,
}

impl Outages {
    /// Whether the server is away at `now`, and in what way.
    pub fn in_force(&self, now: Mono) -> Option<How> {
        let since_first = now.since(Mono::ZERO).checked_sub(self.first)?;
        let into = match self.every.as_nanos() {
            0 => since_first.as_nanos(),
            every => since_first.as_nanos() % every,
        };
        (into < self.lasts.as_nanos()).then_some(self.how)
    }
}

/// A queue in front of a few servers: whoever sends too fast waits, and so does everybody else.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overload {
    /// Requests worked on at the same time, >= 1.
    pub servers: u32,
    /// Mean time of work on one.
    pub service: Duration,
    /// Coefficient of variation of that time; 0 = always the same.
    pub cv: f64,
}

/// A queue at work. First come, first served; work goes on even if the client has left.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    overload: Overload,
    /// When each server is free again.
    free: Vec<Mono>,
}

impl Queue {
    pub(super) fn new(overload: Overload) -> Self {
        let servers = usize::try_from(overload.servers).unwrap_or(SERVERS_MAX).clamp(1, SERVERS_MAX);
        Self { overload, free: vec![Mono::ZERO; servers] }
    }

    /// Takes a request in; how long until it is answered.
    pub(super) fn enter(&mut self, now: Mono, random: &mut Random) -> Duration {
        // Lognormal with the asked mean and coefficient of variation.
        let spread = (1.0 + self.overload.cv * self.overload.cv).ln();
        let median = self.overload.service.as_secs_f64() * (-spread / 2.0).exp();
        let median = Duration::try_from_secs_f64(median).unwrap_or(self.overload.service);
        let service = random.lognormal(median, spread.sqrt());
        let Some(server) = self.free.iter_mut().min() else { return service };
        let done = (*server).max(now).after(service);
        *server = done;
        done.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Mono {
        Mono::from_secs_f64(secs)
    }

    #[test]
    fn a_ban_bears_its_refusals_and_not_one_more() {
        let ban =
            Ban { refusals: 20, within: Duration::from_secs(600), status: 403, lasts: Duration::from_secs(3_600) };
        let mut banning = Banning::new(ban);
        for k in 0..20 {
            banning.refused(at(f64::from(k)));
            assert_eq!(banning.in_force(at(f64::from(k))), None);
        }
        // The first ten are forgotten after ten minutes, so ten more are borne.
        for k in 0..10 {
            banning.refused(at(609.5 + f64::from(k) / 100.0));
        }
        assert_eq!(banning.in_force(at(610.0)), None);
        banning.refused(at(609.7));
        assert_eq!(banning.in_force(at(609.7)), Some(403));
        assert_eq!(banning.in_force(at(609.7 + 3_599.0)), Some(403));
        assert_eq!(banning.in_force(at(609.7 + 3_600.1)), None);
        assert_eq!(banning.count(), 1);
    }

    #[test]
    fn outages_keep_their_schedule() {
        let seconds = Duration::from_secs;
        let repeated = Outages { first: seconds(10), lasts: seconds(5), every: seconds(60), how: How::Reset };
        let dark: Vec<u32> = (0..140).filter(|k| repeated.in_force(at(f64::from(*k))).is_some()).collect();
        assert_eq!(dark, [10, 11, 12, 13, 14, 70, 71, 72, 73, 74, 130, 131, 132, 133, 134]);
        let once = Outages { every: Duration::ZERO, ..repeated };
        let dark = (0..1_000).filter(|k| once.in_force(at(f64::from(*k))).is_some()).count();
        assert_eq!(dark, 5);
    }

    #[test]
    fn a_queue_grows_by_what_its_servers_cannot_do() {
        let overload = Overload { servers: 2, service: Duration::from_millis(500), cv: 0.0 };
        let mut queue = Queue::new(overload);
        let mut random = Random::new(0);
        let waits: Vec<u128> = (0..6).map(|_| queue.enter(at(1.0), &mut random).as_millis()).collect();
        assert_eq!(waits, [500, 500, 1_000, 1_000, 1_500, 1_500]);
        assert_eq!(queue.enter(at(100.0), &mut random).as_millis(), 500, "an idle queue is empty");
    }
}
