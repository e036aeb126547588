//! Hosts that seem to share one bucket because what they get adds up to one rate.
//!
//! Whenever a host is refused, a bucket is empty. If it is the bucket of several hosts, what was accepted of all of them
//! together lies on one straight line over the moments at which any of them was refused, within a token or two; what was
//! accepted of each alone lies on no line over its own refusals, since the others' shares vary. If each has a bucket of
//! its own it is the other way round: each on its own line, and their sum on none, as the one's bucket is somewhere between
//! empty and full whenever the other is refused. So twins that move in step are not confused with hosts that share.
//!
//! Of the last refusals, [`EACH_MAX`] for each host, the residuals around both kinds of lines are compared: those around
//! the common one have to be below [`TOKENS_MAX`], and [`BETTER`] times smaller. Compared are all kin together, and
//! each of them with the one that was just refused.
//!
//! What was tried, in virtual time with the controller `adaptive` from a cold start. Left: two to four hosts that share a
//! bucket of 1 to 10/s, burst 10 or 40, ceilings of 2 or 10 each; right: random servers, four at a time, each pair as if
//! it were kin, 2,880 hours, and 216 hours of twins.
//!
//! | rule | found within 10 minutes | the most that chance brought |
//! | --- | --- | --- |
//! | coincidences alone, bursts of 10 and 40 | 0 (in 30 minutes: 10) | one pair named |
//! | residuals of intervals, not of a line; all hosts' own together | 40 % | 9 times smaller (a host that hardly matters fits any line) |
//! | the same, the best of the hosts' own | 30 % | 2.6 times smaller |
//! | **a line, 3 times smaller** | 68 of 120 (in 30 minutes: 101) | 2.5 times smaller, twins 2.0 |
//! | the same, 3.5 times | 62 of 120 (in 30 minutes: 99) | the same |
//! | the last 4 refusals of each as well | 72 of 120 (in 30 minutes: 111) | 3.2 times smaller, twins 6.0, `halving` 4.5 |
//!
//! Rule and threshold were chosen on these runs. With `halving` 43 of 80, and by chance 3.1 times smaller once in 1,080 hours of pairs. What is not found: buckets of two
//! tokens, which overflow too often for a line, and windows; those refuse whoever asks, and coincide.

use std::collections::VecDeque;

use super::{KEPT, Origin};
use crate::control::{HostId, Mono};

/// Kins that are kept, domains and addresses; the one that was refused longest ago goes first.
const KINS_MAX: usize = 64;
/// Hosts of one kin that are compared in this way, the first that were refused.
const MEMBERS_MAX: usize = 8;
/// Refusals that are compared, for each host.
const EACH_MAX: usize = 8;
/// Each host has to have so many of them: two are always on a line.
const EACH_MIN: usize = 3;
/// So much smaller the residuals around the common line are.
const BETTER: f64 = 3.0;
/// Tokens by which what was accepted of all together may be off its line.
const TOKENS_MAX: f64 = 2.5;
/// What is on its way blurs every line by so much.
const TOKENS_MIN: f64 = 0.5;

/// Hosts that seem to share a bucket, the one that was just refused among them.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::control) struct Found {
    pub(in crate::control) hosts: Vec<HostId>,
    /// What the bucket seems to be filled with, tokens per second.
    pub(in crate::control) rate: f64,
    better: f64,
}

/// The refusals of all kins.
#[derive(Debug, Default)]
pub(in crate::control) struct Sums(VecDeque<Kin>);

/// Hosts of one domain, or of one address.
#[derive(Debug)]
struct Kin {
    key: u64,
    members: Vec<HostId>,
    moments: VecDeque<Moment>,
}

/// A refusal, and what was accepted of each member until then.
#[derive(Debug)]
struct Moment {
    at: Mono,
    /// The member that was refused.
    who: usize,
    /// So many members were known then.
    known: usize,
    accepted: [f64; MEMBERS_MAX],
}

impl Sums {
    /// A request of `host`, sent at `at`, was refused: who seems to share its bucket, if anybody. `accepted`: requests of
    /// a host that were not refused; `apart`: whether a host shares no bucket with this one yet.
    pub(in crate::control) fn note(
        &mut self,
        at: Mono,
        host: HostId,
        origin: &Origin,
        accepted: impl Fn(HostId) -> f64,
        apart: impl Fn(HostId) -> bool,
    ) -> Option<Found> {
        let keys = [origin.domain, origin.peer].into_iter().filter(|key| *key != 0);
        let found = keys.filter_map(|key| self.kin(key).note(at, host, &accepted, &apart));
        found.max_by(|one, other| one.better.total_cmp(&other.better))
    }

    /// The kin of this key, the newest from now on.
    fn kin(&mut self, key: u64) -> &mut Kin {
        let known = self.0.iter().position(|kin| kin.key == key).and_then(|index| self.0.remove(index));
        if self.0.len() >= KINS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(known.unwrap_or(Kin { key, members: Vec::new(), moments: VecDeque::new() }));
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}

impl Kin {
    fn note(
        &mut self,
        at: Mono,
        host: HostId,
        accepted: &impl Fn(HostId) -> f64,
        apart: &impl Fn(HostId) -> bool,
    ) -> Option<Found> {
        while self.moments.len() >= MEMBERS_MAX * EACH_MAX
            || self.moments.front().is_some_and(|one| at.since(one.at) > KEPT)
        {
            self.moments.pop_front();
        }
        if self.moments.is_empty() {
            self.members.clear();
        }
        let who = match self.members.iter().position(|member| *member == host) {
            Some(who) => who,
            None if self.members.len() < MEMBERS_MAX => {
                self.members.push(host);
                self.members.len() - 1
            }
            None => return None,
        };
        let mut counts = [0.0; MEMBERS_MAX];
        for (count, member) in counts.iter_mut().zip(&self.members) {
            *count = accepted(*member);
        }
        self.moments.push_back(Moment { at, who, known: self.members.len(), accepted: counts });
        let others: Vec<usize> =
            (0..self.members.len()).filter(|other| *other != who && apart(self.members[*other])).collect();
        let all: Vec<usize> = others.iter().copied().chain([who]).collect();
        let pairs = others.iter().map(|other| vec![*other, who]);
        let sets = pairs.chain((all.len() > 2).then_some(all));
        let found = sets.filter_map(|set| self.judge(&set));
        found.max_by(|one, other| one.better.total_cmp(&other.better))
    }

    /// Whether what was accepted of these together fits one line, and what was accepted of each does not.
    fn judge(&self, set: &[usize]) -> Option<Found> {
        let newest = set.iter().max()?;
        let of = |one: &&Moment| one.known > *newest && set.contains(&one.who);
        let moments: Vec<&Moment> = self.moments.iter().rev().filter(of).take(EACH_MAX * set.len()).collect();
        let together = moments.iter().map(|one| (one.at, set.iter().map(|member| one.accepted[*member]).sum()));
        let (rate, off) = line(&together.collect::<Vec<_>>());
        let (mut own, mut free) = (0.0, 0.0);
        for member in set {
            let mine = moments.iter().filter(|one| one.who == *member).map(|one| (one.at, one.accepted[*member]));
            let mine: Vec<_> = mine.collect();
            if mine.len() < EACH_MIN {
                return None;
            }
            own += line(&mine).1;
            free += (mine.len() - 2) as f64;
        }
        let together = (off / (moments.len() - 2) as f64).sqrt();
        let better = (own / free).sqrt() / together.max(TOKENS_MIN);
        let hosts = set.iter().map(|member| self.members[*member]).collect();
        (together <= TOKENS_MAX && better >= BETTER).then_some(Found { hosts, rate, better })
    }
}

/// The slope of the line through these points, and the squares of what they are off it.
fn line(points: &[(Mono, f64)]) -> (f64, f64) {
    let n = points.len().max(1) as f64;
    let x = |at: Mono| at.as_secs_f64();
    let middle = points.iter().map(|(at, _)| x(*at)).sum::<f64>() / n;
    let mean = points.iter().map(|(_, count)| count).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|(at, _)| (x(*at) - middle).powi(2)).sum();
    if spread <= 0.0 {
        return (0.0, 0.0);
    }
    let slope = points.iter().map(|(at, count)| (x(*at) - middle) * (count - mean)).sum::<f64>() / spread;
    let off = points.iter().map(|(at, count)| (count - mean - slope * (x(*at) - middle)).powi(2)).sum();
    (slope, off)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIN: Origin = Origin { domain: 7, peer: 0, bucket: 0 };

    /// Notes refusals of two hosts, each with what was accepted of both until then.
    fn found(refusals: &[(f64, u32, [f64; 2])]) -> Option<Found> {
        let mut sums = Sums::default();
        let mut found = None;
        for (secs, host, counts) in refusals {
            let accepted = |of: HostId| counts[of.0 as usize];
            found = found.or(sums.note(Mono::from_secs_f64(*secs), HostId(*host), &KIN, accepted, |_| true));
        }
        found
    }

    /// One bucket of 4/s, of which each host gets now more and now less.
    const SHARED: [(f64, u32, [f64; 2]); 8] = [
        (10.0, 0, [20.0, 20.0]),
        (20.0, 1, [50.0, 30.0]),
        (25.0, 0, [55.0, 45.0]),
        (40.0, 1, [60.0, 100.0]),
        (60.0, 0, [130.0, 110.0]),
        (70.0, 1, [165.0, 115.0]),
        (90.0, 0, [175.0, 185.0]),
        (100.0, 1, [180.0, 220.0]),
    ];

    #[test]
    fn shares_that_vary_and_add_up_are_found_from_three_refusals_each() {
        let one = found(&SHARED).expect("they share");
        assert_eq!((one.hosts.len(), one.rate.round()), (2, 4.0));
        // What was accepted of the second is known from its own first refusal on.
        assert_eq!(found(&SHARED[..6]), None, "two of one host are always on a line");
    }

    #[test]
    fn hosts_that_are_each_on_a_line_of_their_own_are_not() {
        // 1/s and 3/s, the other one's bucket somewhere between empty and full: or in step, as twins are.
        let apart = |off: [f64; 8]| {
            let at = |k: usize| [10.0, 20.0, 25.0, 40.0, 60.0, 70.0, 90.0, 100.0][k];
            let one = |k: usize| {
                if k.is_multiple_of(2) { [at(k), 3.0 * at(k) - off[k]] } else { [at(k) - off[k], 3.0 * at(k)] }
            };
            (0..8).map(|k| (at(k), k as u32 % 2, one(k))).collect::<Vec<_>>()
        };
        assert_eq!(found(&apart([0.0, 5.0, 1.0, 8.0, 3.0, 9.0, 0.0, 6.0])), None);
        assert_eq!(found(&apart([0.0; 8])), None);
    }

    #[test]
    fn who_is_no_kin_or_shares_a_bucket_already_is_not_compared() {
        let mut sums = Sums::default();
        for (secs, host, counts) in SHARED {
            let accepted = |of: HostId| counts[of.0 as usize];
            let at = Mono::from_secs_f64(secs);
            let kin = Origin { domain: u64::from(host) + 1, ..Origin::default() };
            assert_eq!(sums.note(at, HostId(host), &kin, accepted, |_| true), None);
            assert_eq!(sums.note(at, HostId(host), &Origin::default(), accepted, |_| true), None);
            assert_eq!(sums.note(at, HostId(host), &KIN, accepted, |_| false), None);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut sums = Sums::default();
        for k in 0..10_000_u32 {
            let origin = Origin { domain: u64::from(k % 200) + 1, peer: 9, bucket: 0 };
            sums.note(Mono::from_secs_f64(f64::from(k)), HostId(k), &origin, |_| f64::from(k), |_| true);
        }
        assert_eq!(sums.0.len(), KINS_MAX);
        assert!(sums.0.iter().all(|kin| kin.members.len() <= MEMBERS_MAX && kin.moments.len() <= 64));
    }
}
