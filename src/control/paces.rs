//! Paces of single endpoints, where the server names the buckets behind them: endpoints of one bucket id share one.
//!
//! Without an id all of a host is one bucket (`hints::Pace`), which is never too fast. With ids an endpoint whose
//! bucket is empty holds up neither the rest of its host nor endpoints of another id.

use super::hints::{Pace, Paced};
use super::{Lane, Mono};

/// The rates before and after, as the journal has them; `None` = no limit.
pub(super) type Change = (Option<f64>, Option<f64>);

/// Buckets of one host that are told apart, and endpoints that are known to belong to one; the oldest go first.
const KNOWN_MAX: usize = 16;

/// The named buckets of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Paces {
    buckets: Vec<Bucket>,
    lanes: Vec<(Lane, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    id: u64,
    pace: Pace,
    /// The next slot: whoever of its endpoints sends takes one.
    next: Mono,
}

impl Paces {
    /// The pace of the bucket `id`, which an answer on `lane` named.
    pub(super) fn of(&mut self, lane: Lane, id: u64) -> &mut Pace {
        if !self.lanes.contains(&(lane, id)) {
            self.lanes.retain(|(known, _)| *known != lane);
            make_room(&mut self.lanes);
            self.lanes.push((lane, id));
        }
        let at = self.buckets.iter().position(|bucket| bucket.id == id).unwrap_or_else(|| {
            make_room(&mut self.buckets);
            self.buckets.push(Bucket { id, pace: Pace::default(), next: Mono::ZERO });
            self.buckets.len() - 1
        });
        &mut self.buckets[at].pace
    }

    fn bucket(&self, lane: Lane) -> Option<usize> {
        let id = self.lanes.iter().find(|(known, _)| *known == lane)?.1;
        self.buckets.iter().position(|bucket| bucket.id == id)
    }

    /// No request on `lane` before this moment.
    pub(super) fn ready_at(&self, now: Mono, lane: Lane) -> Mono {
        let Some(bucket) = self.bucket(lane).map(|at| &self.buckets[at]) else { return Mono::ZERO };
        let slot = if bucket.pace.rate(now).is_finite() { bucket.next } else { Mono::ZERO };
        bucket.pace.not_before().max(slot)
    }

    /// What limits `lane`, if that is what its server told.
    pub(super) fn limiting(&self, now: Mono, lane: Lane) -> Option<Paced> {
        let bucket = self.bucket(lane).map(|at| &self.buckets[at])?;
        bucket.pace.limiting(now, f64::INFINITY).filter(|_| self.ready_at(now, lane) > now)
    }

    /// Whether any endpoint is limited by what its server told.
    pub(super) fn limits(&self, now: Mono) -> bool {
        self.lanes.iter().any(|(lane, _)| self.limiting(now, *lane).is_some())
    }

    /// What is to be told of each bucket now: the first of its endpoints that it limits, else the first that is known, what
    /// limits, and the rates before and after. `has_work`: whether anything is queued for an endpoint.
    pub(super) fn news(&mut self, now: Mono, has_work: impl Fn(Lane) -> bool) -> Vec<(Lane, Option<Paced>, Change)> {
        let mut news = Vec::new();
        for at in 0..self.buckets.len() {
            let id = self.buckets[at].id;
            let lanes = || self.lanes.iter().filter(|(_, of)| *of == id).map(|(lane, _)| *lane);
            let limited =
                lanes().filter(|lane| has_work(*lane)).find_map(|lane| Some((lane, self.limiting(now, lane)?)));
            let Some(lane) = limited.map(|(lane, _)| lane).or_else(|| lanes().next()) else { continue };
            let paced = limited.map(|(_, paced)| paced);
            if let Some(change) = self.buckets[at].pace.news(now, paced.as_ref()) {
                news.push((lane, paced, change));
            }
        }
        news
    }

    /// None of them is believed for an hour; whether any limits now.
    pub(super) fn distrust(&mut self, now: Mono) -> bool {
        let limits = self.limits(now);
        self.buckets.iter_mut().for_each(|bucket| bucket.pace.distrust(now));
        limits
    }

    /// All are believed again; whether one was not.
    pub(super) fn trust(&mut self, now: Mono) -> bool {
        let mut distrusted = false;
        self.buckets.iter_mut().for_each(|bucket| distrusted |= bucket.pace.trust(now, Mono::ZERO));
        distrusted
    }

    /// A request goes out on `lane`.
    pub(super) fn on_send(&mut self, now: Mono, lane: Lane) {
        let Some(bucket) = self.bucket(lane).and_then(|at| self.buckets.get_mut(at)) else { return };
        let rate = bucket.pace.rate(now);
        if rate.is_finite() {
            bucket.next = bucket.next.max(now).after_secs(1.0 / rate);
        }
    }
}

fn make_room<T>(list: &mut Vec<T>) {
    if list.len() >= KNOWN_MAX {
        list.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Hint;

    const LONGEST: std::time::Duration = std::time::Duration::from_secs(6 * 3_600);

    fn hint(remaining: f64, bucket: u64) -> Hint {
        Hint { remaining, reset: 10.0, bucket, ..Hint::default() }
    }

    #[test]
    fn endpoints_of_one_id_share_a_pace_and_others_go_on() {
        let (mut paces, now) = (Paces::default(), Mono::from_secs_f64(100.0));
        paces.of(Lane(1), 7).hear(now, &hint(5.5, 7), 0, LONGEST);
        paces.of(Lane(2), 7).hear(now, &hint(5.5, 7), 0, LONGEST);
        paces.of(Lane(3), 8).hear(now, &hint(0.0, 8), 0, LONGEST);
        assert_eq!(paces.ready_at(now, Lane(4)), Mono::ZERO, "nothing was said about it");
        assert!(paces.ready_at(now, Lane(3)) >= now.after_secs(10.1), "its bucket is empty");
        // 5 in 10 s, whichever of the two sends.
        let mut sent = Vec::new();
        let mut at = now;
        while at < now.after_secs(9.99) {
            let lane = Lane(1 + (sent.len() % 2) as u8);
            at = at.max(paces.ready_at(at, lane));
            paces.on_send(at, lane);
            sent.push(at);
        }
        assert_eq!(sent.len(), 6, "one at once, and one every two seconds: {sent:?}");
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut paces = Paces::default();
        for k in 0..1_000_u64 {
            paces.of(Lane((k % 200) as u8), k);
        }
        assert_eq!((paces.buckets.len(), paces.lanes.len()), (KNOWN_MAX, KNOWN_MAX));
    }
}
