//! Judges of what a server saw. They know nothing of the crawl: its own word counts for nothing here.
//!
//! Arrivals are timed at the server, after the client's grant: each is late by the way of its bytes and
//! by the scheduling of threads. Lateness that differs between two requests brings them closer together
//! than they were granted, by at most the spread of the lateness. So a client that is right can look as
//! if it sent `rate × spread` tokens too many in some window, and never more: that, and no whole token
//! more, is the slack of the envelope. The spread is taken as [`ALLOWED_JITTER`] plus what the server
//! measured of its own thread's lateness meanwhile (two busy cores, debug builds, tests side by side).

use std::collections::BTreeSet;
use std::time::Duration;

/// Spread of lateness that is allowed for before anything is measured.
pub(crate) const ALLOWED_JITTER: Duration = Duration::from_millis(100);

/// A request as the server saw it. Times are since the server's start, by its own clock.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Arrival {
    /// When its head was complete.
    pub(crate) at: Duration,
    /// Which connection it came on, by order of acceptance.
    pub(crate) connection: u64,
    /// `GET`, …
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    /// The Host header, as sent.
    pub(crate) host: String,
    /// The User-Agent header; empty if there was none.
    pub(crate) user_agent: String,
    /// All headers in order, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The status given; 0 if nothing was (or is yet to be) answered.
    pub(crate) status: u16,
    /// The wait that the answer's Retry-After tells.
    pub(crate) retry_after: Option<Duration>,
    /// When the answer was handed to the connection, before its first byte went out.
    pub(crate) answered: Option<Duration>,
}

/// What an envelope check found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Breach {
    /// First and last arrival of the worst window.
    pub(crate) window: (Duration, Duration),
    /// Arrivals in it.
    pub(crate) count: usize,
    /// Arrivals that it might have held, slack included.
    pub(crate) allowed: f64,
}

/// Whether in every window `w` between two arrivals (both counted) there were at most
/// `capacity + rate × (w + jitter)` of them. `Err` tells the worst window. `times` ascend.
pub(crate) fn envelope(times: &[Duration], rate: f64, capacity: f64, jitter: Duration) -> Result<(), Breach> {
    let slack = rate * jitter.as_secs_f64() + 1e-6;
    // j - i + 1 <= capacity + slack + rate (t_j - t_i) for all i <= j, as one pass: with
    // level(k) = k - rate t_k it says level(j) + 1 - min over i <= j of level(i) <= capacity + slack.
    let level = |k: usize| k as f64 - rate * times[k].as_secs_f64();
    let mut lowest = 0;
    let mut worst: Option<(f64, usize, usize)> = None;
    for j in 0..times.len() {
        if level(j) < level(lowest) {
            lowest = j;
        }
        let excess = level(j) + 1.0 - level(lowest) - capacity - slack;
        if excess > 0.0 && worst.is_none_or(|(most, ..)| excess > most) {
            worst = Some((excess, lowest, j));
        }
    }
    let Some((_, first, last)) = worst else { return Ok(()) };
    let allowed = capacity + slack + rate * (times[last] - times[first]).as_secs_f64();
    Err(Breach { window: (times[first], times[last]), count: last - first + 1, allowed })
}

/// [`envelope`] of whole arrivals, with a panic that tells the worst window.
#[track_caller]
pub(crate) fn assert_envelope(arrivals: &[Arrival], rate: f64, capacity: f64, jitter: Duration) {
    let times: Vec<Duration> = arrivals.iter().map(|arrival| arrival.at).collect();
    if let Err(Breach { window: (first, last), count, allowed }) = envelope(&times, rate, capacity, jitter) {
        panic!("{count} requests from {first:?} to {last:?}, {allowed:.2} allowed (rate {rate}, capacity {capacity})");
    }
}

/// Arrivals at a host (by its Host header) while a wait that the same host had told was running.
///
/// A request may already be under way when the answer that tells the wait is given: only what arrives
/// later than `grace` after that answer counts. The wait's end is strict: the client learns of it later
/// than the server told it, so what is right ends later, too.
pub(crate) fn in_window(arrivals: &[Arrival], grace: Duration) -> Vec<&Arrival> {
    let waits: Vec<(&str, Duration, Duration)> = arrivals
        .iter()
        .filter(|arrival| is_refusal(arrival))
        .filter_map(|arrival| {
            let answered = arrival.answered?;
            Some((arrival.host.as_str(), answered + grace, answered + arrival.retry_after?))
        })
        .collect();
    let disobeys = |arrival: &&Arrival| {
        waits.iter().any(|(host, from, until)| *host == arrival.host && *from < arrival.at && arrival.at < *until)
    };
    arrivals.iter().filter(disobeys).collect()
}

/// Whether the server refused: 429 or 503.
pub(crate) fn is_refusal(arrival: &Arrival) -> bool {
    matches!(arrival.status, 429 | 503)
}

/// How many were refused.
pub(crate) fn refusals(arrivals: &[Arrival]) -> usize {
    arrivals.iter().filter(|arrival| is_refusal(arrival)).count()
}

/// The pages (paths below `/p/`) that were answered with 200, each once.
pub(crate) fn pages_ok(arrivals: &[Arrival]) -> BTreeSet<&str> {
    let ok = arrivals.iter().filter(|arrival| arrival.status == 200 && arrival.answered.is_some());
    ok.map(|arrival| arrival.path.as_str()).filter(|path| path.starts_with("/p/")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn arrival(at: u64, host: &str, status: u16) -> Arrival {
        Arrival {
            at: ms(at),
            connection: 0,
            method: "GET".into(),
            path: format!("/p/{at}"),
            host: host.into(),
            user_agent: String::new(),
            headers: Vec::new(),
            status,
            retry_after: None,
            answered: Some(ms(at)),
        }
    }

    fn refused(at: u64, host: &str, retry_after: u64) -> Arrival {
        Arrival { retry_after: Some(ms(retry_after)), ..arrival(at, host, 429) }
    }

    #[test]
    fn the_envelope_bears_a_burst_and_the_rate_and_not_one_more() {
        // Capacity 5, rate 5: five at once, then one each 200 ms.
        let mut times: Vec<Duration> = vec![ms(0); 5];
        times.extend((1..100).map(|k| ms(200 * k)));
        assert_eq!(envelope(&times, 5.0, 5.0, Duration::ZERO), Ok(()));
        let with = |extra: u64| {
            let mut times = times.clone();
            times.push(ms(extra));
            times.sort();
            envelope(&times, 5.0, 5.0, ms(50))
        };
        for extra in [0, 100, 1_000, 10_050, 19_800] {
            assert!(with(extra).is_err(), "one more at {extra} ms");
        }
        assert!(envelope(&times, 4.9, 5.0, ms(100)).is_err(), "a rate two percent too high shows in time");
        assert!(envelope(&times, 5.0, 4.0, ms(100)).is_err());
    }

    #[test]
    fn a_breach_is_found_after_a_long_quiet_time_and_told() {
        let times = [ms(0), ms(60_000), ms(60_001), ms(60_002), ms(120_000)];
        let breach = envelope(&times, 1.0, 2.0, Duration::ZERO).expect_err("three at once");
        assert_eq!((breach.window, breach.count), ((ms(60_000), ms(60_002)), 3));
        assert!((breach.allowed - 2.002).abs() < 1e-3);
    }

    #[test]
    fn lateness_within_the_jitter_is_no_breach() {
        // The first of each pair is late by 100 ms, the second in time.
        let times: Vec<Duration> = (0..50).map(|k| ms(200 * k + if k % 2 == 0 { 100 } else { 0 })).collect();
        assert_eq!(envelope(&times, 5.0, 1.0, ms(100)), Ok(()));
        assert!(envelope(&times, 5.0, 1.0, ms(90)).is_err());
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_all_pairs_find(
            gaps in proptest::collection::vec(0u64..400, 1..60), rate in 0.5..20.0f64, capacity in 1.0..6.0f64,
        ) {
            let times: Vec<Duration> =
                gaps.iter().scan(0, |at, gap| { *at += gap; Some(ms(*at)) }).collect();
            let fits = |i: usize, j: usize| {
                (j - i + 1) as f64 <= capacity + 1e-6 + rate * (times[j] - times[i]).as_secs_f64()
            };
            let all_fit = (0..times.len()).all(|i| (i..times.len()).all(|j| fits(i, j)));
            prop_assert_eq!(envelope(&times, rate, capacity, Duration::ZERO).is_ok(), all_fit);
        }
    }

    #[test]
    fn requests_in_the_window_are_found_and_others_are_not() {
        let arrivals = [
            arrival(0, "a", 200),
            refused(1_000, "a", 2_000),
            arrival(1_100, "a", 200),   // under way already
            arrival(1_500, "b", 200),   // another host
            arrival(1_600, "a", 200),   // disobeys
            refused(2_999, "a", 1_000), // disobeys, and its own wait begins
            arrival(3_500, "a", 200),   // disobeys the second
            arrival(3_998, "a", 200),   // likewise
            arrival(3_999, "a", 200),   // on the very end
        ];
        let found: Vec<Duration> = in_window(&arrivals, ms(250)).iter().map(|arrival| arrival.at).collect();
        assert_eq!(found, [1_600, 2_999, 3_500, 3_998].map(ms));
    }

    #[test]
    fn a_refusal_that_tells_nothing_opens_no_window() {
        let arrivals = [arrival(0, "a", 429), arrival(500, "a", 200)];
        assert_eq!(in_window(&arrivals, Duration::ZERO), Vec::<&Arrival>::new());
        assert_eq!(refusals(&arrivals), 1);
    }

    #[test]
    fn a_page_counts_once_and_only_if_it_was_answered_with_200() {
        let unanswered = Arrival { answered: None, ..arrival(3, "a", 200) };
        let robots = Arrival { path: "/robots.txt".into(), ..arrival(4, "a", 200) };
        let arrivals = [arrival(1, "a", 429), arrival(1, "a", 200), arrival(1, "a", 200), unanswered, robots];
        assert_eq!(pages_ok(&arrivals), BTreeSet::from(["/p/1"]));
    }
}
