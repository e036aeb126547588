//! Which hosts seem to share a limit that nobody told us about: those whose refusals coincide.
//!
//! The last [`EPISODES_MAX`] refusals that began an incident are kept, of all hosts together, for [`KEPT`]. Two hosts
//! are suspected if at least three incidents of the one began within [`WITHIN`] of one of the other, and if that is no
//! chance: were they independent, an incident of the one would have one of the other beside it with a probability
//! `p = 1 - exp(-2·WITHIN·rate)`, and so many of so many with that of the binomial tail, which has to be below
//! `CHANCE_MAX`. Two hosts that spend the default budget of 8 in 10 minutes have `p = 5 %`: three of three
//! (1 in 7,000) is not enough, four of four (1 in 150,000) is. With one look an incident, such a pair is named by
//! chance about once in a thousand hours.
//!
//! Time alone is no evidence among hosts that were started together: two servers of the same make, asked in the same
//! way, refuse in step without sharing anything. So only hosts are compared that something else connects: one
//! registrable domain, one socket address, or one bucket id, and this last is enough by itself. What is left are twins
//! on one server that move in step; the advice costs them speed, and them alone.
//!
//! What shows: windows and lockouts, which refuse whoever asks until they are over. A plain bucket that is shared often
//! shows nothing in this way, since the wait of the one who is refused first relieves the others: see `sums`.

pub(super) mod sums;

use std::collections::VecDeque;
use std::time::Duration;

use super::{HostId, Mono};

/// Incidents that are kept, all hosts together; the oldest go first. Where more begin at once nobody is suspected.
pub const EPISODES_MAX: usize = 256;
/// Incidents that begin within this of each other coincide.
pub const WITHIN: Duration = Duration::from_secs(2);
/// Incidents older than this tell nothing any more.
pub const KEPT: Duration = Duration::from_secs(3 * 3600);
/// A suspicion that is not renewed ends after this.
pub const LASTS: Duration = Duration::from_secs(3600);
/// What chance may explain is not told.
const CHANCE_MAX: f64 = 1e-5;
/// Fewer coincidences are none.
const TIMES_MIN: usize = 3;
/// The time over which a rate is estimated, at least.
const SPAN_MIN: Duration = Duration::from_secs(60);

/// What connects a refusal with others: hashes, 0 = unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The registrable domain of the host.
    pub domain: u64,
    /// The socket address that refused.
    pub peer: u64,
    /// The vendor's id of the bucket that was empty.
    pub bucket: u64,
}

impl Origin {
    fn is_kin(&self, other: &Self) -> bool {
        let same = |one: u64, other: u64| one != 0 && one == other;
        same(self.domain, other.domain) || same(self.peer, other.peer)
    }

    fn same_bucket(&self, other: &Self) -> bool {
        self.bucket != 0 && self.bucket == other.bucket
    }
}

/// What speaks for a limit that hosts share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// The server named one bucket for both.
    Named,
    /// Their refusals coincided so often.
    Together(u8),
    /// What is accepted of them adds up to one rate.
    OneRate {
        /// That rate, hundredths of a token per second.
        hundredths: u32,
    },
}

/// A host that seems to share a limit with another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspicion {
    /// With whom.
    pub with: HostId,
    /// What speaks for it.
    pub sign: Sign,
    /// When it was renewed last.
    pub at: Mono,
}

/// A refusal that began an incident.
#[derive(Clone, Copy, Debug)]
struct Episode {
    at: Mono,
    host: HostId,
    origin: Origin,
}

/// The incidents of all hosts.
#[derive(Debug, Default)]
pub(super) struct Episodes(VecDeque<Episode>);

impl Episodes {
    /// An incident begins: who seems to share its limit, if anybody. `apart`: whether two hosts have buckets of their
    /// own.
    pub(super) fn note(
        &mut self,
        at: Mono,
        host: HostId,
        origin: Origin,
        apart: impl Fn(HostId) -> bool,
    ) -> Option<Suspicion> {
        while self.0.len() >= EPISODES_MAX || self.0.front().is_some_and(|one| at.since(one.at) > KEPT) {
            self.0.pop_front();
        }
        self.0.push_back(Episode { at, host, origin });
        let others = self.0.iter().rev().filter(|one| one.host != host);
        let bucket = others.clone().find(|one| one.origin.same_bucket(&origin) && apart(one.host));
        if let Some(one) = bucket {
            return Some(Suspicion { with: one.host, sign: Sign::Named, at });
        }
        // Only who is refused now, too, can make this incident a coincidence.
        let now = others.take_while(|one| at.since(one.at) <= WITHIN);
        let mut candidates: Vec<HostId> =
            now.filter(|one| one.origin.is_kin(&origin) && apart(one.host)).map(|one| one.host).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let judged = candidates.into_iter().filter_map(|other| Some((self.coincidences(at, host, other)?, other)));
        let (times, with) = judged.max_by_key(|(times, _)| *times)?;
        Some(Suspicion { with, sign: Sign::Together(u8::try_from(times).unwrap_or(u8::MAX)), at })
    }

    /// How many incidents of `host` coincide with one of `other`, if that is no chance.
    fn coincidences(&self, now: Mono, host: HostId, other: HostId) -> Option<usize> {
        let of = |wanted: HostId| self.0.iter().filter(move |one| one.host == wanted).map(|one| one.at);
        let near = |at: Mono| of(other).any(|one| one.since(at) <= WITHIN && at.since(one) <= WITHIN);
        let (all, times) = (of(host).count(), of(host).filter(|at| near(*at)).count());
        let first = of(host).chain(of(other)).min()?;
        let span = now.since(first).max(SPAN_MIN).as_secs_f64();
        let rate = of(other).count() as f64 / span;
        let chance = 1.0 - (-2.0 * WITHIN.as_secs_f64() * rate).exp();
        (times >= TIMES_MIN && tail(all, times, chance) < CHANCE_MAX).then_some(times)
    }
}

/// The probability of at least `times` of `all`, each with `chance`.
fn tail(all: usize, times: usize, chance: f64) -> f64 {
    let (mut sum, mut ways) = (0.0, 1.0);
    for k in 0..=all {
        if k >= times {
            sum += ways * chance.powi(k as i32) * (1.0 - chance).powi((all - k) as i32);
        }
        ways *= (all - k) as f64 / (k + 1) as f64;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::backoff::Jitter as _;

    const KIN: Origin = Origin { domain: 7, peer: 0, bucket: 0 };

    fn at(secs: f64) -> Mono {
        Mono::from_secs_f64(secs)
    }

    /// When the first of two hosts is suspected, refused at these moments.
    fn found(origin: [Origin; 2], moments: &[(f64, u32)]) -> Option<(f64, Suspicion)> {
        let mut episodes = Episodes::default();
        let mut sorted = moments.to_vec();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        sorted.into_iter().find_map(|(secs, host)| {
            let origin = origin[host as usize % 2];
            episodes.note(at(secs), HostId(host), origin, |_| true).map(|found| (secs, found))
        })
    }

    #[test]
    fn hosts_that_are_refused_together_again_and_again_are_suspected() {
        let together: Vec<(f64, u32)> =
            (0..20).flat_map(|k| [(f64::from(k) * 100.0, 0), (f64::from(k) * 100.0 + 0.4, 1)]).collect();
        let (secs, suspicion) = found([KIN; 2], &together).expect("they share");
        assert_eq!(suspicion.with, HostId(0));
        assert!(matches!(suspicion.sign, Sign::Together(3..)), "{suspicion:?}");
        assert!(secs <= 700.0, "{secs}");
        assert_eq!(found([KIN; 2], &together[..5]).map(|(secs, _)| secs), None, "three in a row may be chance");
    }

    #[test]
    fn twins_in_step_that_nothing_connects_are_not() {
        let together: Vec<(f64, u32)> =
            (0..50).flat_map(|k| [(f64::from(k) * 100.0, 0), (f64::from(k) * 100.0 + 0.4, 1)]).collect();
        let apart = [Origin { domain: 1, peer: 2, bucket: 0 }, Origin { domain: 3, peer: 4, bucket: 0 }];
        assert_eq!(found(apart, &together), None);
        assert_eq!(found([Origin::default(); 2], &together), None, "unknown is not the same");
    }

    #[test]
    fn one_bucket_id_is_enough() {
        let named = [Origin { bucket: 5, ..Origin::default() }; 2];
        let (_, suspicion) = found(named, &[(0.0, 0), (500.0, 1)]).expect("named");
        assert_eq!((suspicion.with, suspicion.sign), (HostId(0), Sign::Named));
    }

    /// Three hundred pairs of independent hosts that spend the whole budget, for six hours each: what is reported is what
    /// the threshold says, next to nothing.
    #[test]
    fn independent_hosts_that_refuse_often_by_chance_are_not_suspected() {
        let mut random = crate::control::backoff::SeededJitter::new(17);
        let mut suspected = 0;
        let mut coincided = 0;
        for _ in 0..300 {
            let mut episodes = Episodes::default();
            let (mut secs, mut last) = (0.0, [f64::NEG_INFINITY; 2]);
            let mut named = false;
            // Two processes of 8 in 600 s each, as one of 16.
            while secs < 6.0 * 3600.0 {
                secs += -(1.0 - random.unit()).ln() * 600.0 / 16.0;
                let host = usize::from(random.unit() < 0.5);
                coincided += u32::from(secs - last[1 - host] <= 2.0);
                last[host] = secs;
                named |= episodes.note(at(secs), HostId(host as u32), KIN, |_| true).is_some();
            }
            suspected += u32::from(named);
        }
        assert!(coincided > 2_000, "they do coincide: {coincided}");
        assert!(suspected <= 3, "{suspected} of 300 pairs in 1,800 hours");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut episodes = Episodes::default();
        for k in 0..10_000_u32 {
            episodes.note(at(f64::from(k)), HostId(k), KIN, |_| true);
        }
        assert_eq!(episodes.0.len(), EPISODES_MAX);
        episodes.note(at(1e6), HostId(0), KIN, |_| true);
        assert_eq!(episodes.0.len(), 1, "the old ones tell nothing");
    }
}
