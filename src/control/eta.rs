//! When will it be done? Two numbers, because a crawl ends with its slowest host: the bulk and the tail.
//!
//! Estimates from the present pace alone: pure, never negative, and `None` rather than a guess. They do not
//! foresee what the controller will learn.

use std::time::Duration;

use super::HostId;

/// Share of all URLs that is called the bulk.
pub const BULK: f64 = 0.95;

/// Longest estimate in seconds; anything beyond is "never" to a human: a hundred years.
const LONGEST: f64 = 100.0 * 365.25 * 86_400.0;

/// One host's part of the work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Which host.
    pub host: HostId,
    /// URLs still to fetch.
    pub queue: u64,
    /// Its pace in URLs per second (see [`pace`]); 0 = it does not move.
    pub rate: f64,
    /// What is left of its hold.
    pub hold_left: Duration,
}

/// The whole crawl's outlook.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outlook {
    /// Until 95 % of the URLs are fetched; `None` = unknown: hosts that do not move have more than the rest.
    pub bulk: Option<Duration>,
    /// Until the slowest host that moves is done; `None` = nothing moves.
    pub tail: Option<Duration>,
    /// That slowest host.
    pub slowest: Option<HostId>,
    /// Hosts with work that do not move (paused, rate 0): neither number counts on them.
    pub stalled: u32,
}

/// URLs per second that a host can do: its rate, or what its connections allow at its latency if that is less.
pub fn pace(rate: f64, connections: u32, latency: Option<Duration>) -> f64 {
    let by_connections = match latency {
        Some(latency) if !latency.is_zero() => f64::from(connections) / latency.as_secs_f64(),
        Some(_) | None => f64::INFINITY,
    };
    // `max` also turns NaN into 0.
    rate.max(0.0).min(by_connections)
}

/// Time until one host's queue is empty; zero for an empty queue; `None` if it does not move or for ages.
pub fn of_host(queue: u64, pace: f64, hold_left: Duration) -> Option<Duration> {
    if queue == 0 {
        return Some(Duration::ZERO);
    }
    let secs = hold_left.as_secs_f64() + queue as f64 / pace;
    // Division by 0 gives infinity, which is no estimate either; so is NaN.
    (secs <= LONGEST).then(|| Duration::from_secs_f64(secs))
}

/// The outlook of the whole crawl from all hosts with work. Linear in the hosts: nothing is sorted.
pub fn outlook(loads: impl IntoIterator<Item = Load>) -> Outlook {
    let mut outlook = Outlook::default();
    let mut moving: Vec<Moving> = Vec::new();
    let (mut urls, mut slowest) = (0.0, -1.0);
    for load in loads.into_iter().filter(|load| load.queue > 0) {
        urls += load.queue as f64;
        let Some(eta) = of_host(load.queue, load.rate, load.hold_left) else {
            outlook.stalled = outlook.stalled.saturating_add(1);
            continue;
        };
        let end = eta.as_secs_f64();
        if end > slowest {
            slowest = end;
            outlook.slowest = Some(load.host);
            outlook.tail = Some(eta);
        }
        moving.push(Moving { begin: load.hold_left.as_secs_f64(), end, urls: load.queue as f64 });
    }
    outlook.bulk = bulk(moving, urls * BULK).map(Duration::from_secs_f64);
    outlook
}

/// A host that fetches `urls` URLs evenly from `begin` to `end`, in seconds from now.
#[derive(Clone, Copy)]
struct Moving {
    begin: f64,
    end: f64,
    urls: f64,
}

impl Moving {
    fn done_at(&self, time: f64) -> f64 {
        if time >= self.end {
            return self.urls;
        }
        self.urls * ((time - self.begin) / (self.end - self.begin)).clamp(0.0, 1.0)
    }
}

/// When `wanted` URLs are done, to about a thousandth: bisection of a sum that only grows. Hosts that are done
/// before the lower end or begin after the upper one are settled and leave the list.
fn bulk(mut moving: Vec<Moving>, wanted: f64) -> Option<f64> {
    let all: f64 = moving.iter().map(|one| one.urls).sum();
    if moving.is_empty() || all < wanted {
        return None;
    }
    let (mut low, mut high) = (0.0, moving.iter().fold(0.0, |latest: f64, one| latest.max(one.end)));
    let mut settled = 0.0;
    for _ in 0..48 {
        if high - low <= high * 1e-3 {
            break;
        }
        let middle = low + (high - low) / 2.0;
        let done: f64 = settled + moving.iter().map(|one| one.done_at(middle)).sum::<f64>();
        if done >= wanted {
            high = middle;
        } else {
            low = middle;
        }
        moving.retain(|one| {
            let over = one.end <= low;
            settled += if over { one.urls } else { 0.0 };
            !over && one.begin < high
        });
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(host: u32, queue: u64, rate: f64, hold: u64) -> Load {
        Load { host: HostId(host), queue, rate, hold_left: Duration::from_secs(hold) }
    }

    #[test]
    fn a_hosts_eta_is_its_hold_and_then_its_queue_at_its_pace() {
        let pace = pace(10.0, 4, Some(Duration::from_secs(2)));
        assert_eq!(pace, 2.0, "four connections of two seconds each");
        assert_eq!(of_host(100, pace, Duration::from_secs(30)), Some(Duration::from_secs(80)));
        assert_eq!(of_host(0, 0.0, Duration::from_secs(30)), Some(Duration::ZERO));
    }

    #[test]
    fn an_unknown_end_is_none() {
        for rate in [0.0, -1.0, f64::NAN, 1e-300] {
            assert_eq!(of_host(1, super::pace(rate, 4, None), Duration::ZERO), None);
        }
        assert_eq!(of_host(1, 1.0, Duration::MAX), None);
        assert_eq!(outlook([]), Outlook::default());
    }

    #[test]
    fn bulk_and_tail_are_two_numbers() {
        // 95 hosts done after 100 s and one slow host.
        let hosts = (0..95).map(|host| load(host, 100, 1.0, 0)).chain([load(95, 400, 0.01, 0)]);
        let outlook = outlook(hosts);
        assert_eq!((outlook.tail, outlook.slowest), (Some(Duration::from_secs(40_000)), Some(HostId(95))));
        let bulk = outlook.bulk.expect("known").as_secs_f64();
        assert!((98.0..101.0).contains(&bulk), "{bulk}");
    }

    #[test]
    fn hosts_that_do_not_move_are_counted_and_make_the_bulk_unknown_if_they_are_many() {
        let few = outlook([load(0, 990, 1.0, 0), load(1, 10, 0.0, 0)]);
        assert_eq!((few.stalled, few.tail), (1, Some(Duration::from_secs(990))));
        assert!(few.bulk.is_some());
        let many = outlook([load(0, 500, 1.0, 0), load(1, 500, 0.0, 0)]);
        assert_eq!((many.stalled, many.bulk), (1, None));
    }

    proptest! {
        #[test]
        fn the_bulk_is_when_that_many_are_done(
            hosts in prop::collection::vec((1..1000_u64, 0.01..50.0_f64, 0..500_u64), 1..60)
        ) {
            let loads: Vec<Load> = hosts.iter().map(|(queue, rate, hold)| load(0, *queue, *rate, *hold)).collect();
            let outlook = outlook(loads.clone());
            let (bulk, tail) = (outlook.bulk.expect("all move"), outlook.tail.expect("all move"));
            prop_assert!(bulk <= tail + Duration::from_millis(1));
            let done_at = |time: f64| -> f64 {
                loads.iter().map(|load| ((time - load.hold_left.as_secs_f64()) * load.rate).clamp(0.0, load.queue as f64)).sum()
            };
            let wanted = BULK * loads.iter().map(|load| load.queue as f64).sum::<f64>();
            prop_assert!(done_at(bulk.as_secs_f64() * 1.0001 + 1e-6) >= wanted * (1.0 - 1e-9));
            prop_assert!(done_at(bulk.as_secs_f64() * 0.998 - 1e-6) <= wanted * (1.0 + 1e-9));
        }
    }
}
