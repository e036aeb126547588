//! What a simulation is measured by: counts by the second while it runs, figures at its end.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::run::end_of;
use super::{Drift, Limit, Seen, ServerModel, SimServer};
use crate::control::Mono;

/// Refusals are counted over so long.
const BAN_WATCH: Duration = Duration::from_secs(600);
/// The least window that says whether a crawl has converged, in seconds.
const CONVERGED_SECS: f64 = 60.0;
/// A window holds at least so many requests that the limit allows.
const CONVERGED_REQUESTS: f64 = 30.0;
/// Share of what is allowed that a converged window has.
const CONVERGED_SHARE: f64 = 0.9;
/// Share of refusals that it bears.
const CONVERGED_REFUSED: f64 = 0.02;
/// Seconds of the window that says whether a crawl has recovered, and the share it has.
const RECOVERED_SECS: usize = 60;
const RECOVERED_SHARE: f64 = 0.8;
/// A step of the limit by less than this factor is no return.
const RETURN_FACTOR: f64 = 1.5;
/// Buckets of latency, each 1 % wider than the one before, from 1 ms on: to 10 s and beyond.
const LATENCY_BUCKETS: usize = 1_000;
const LATENCY_STEP: f64 = 1.01;

/// The figures of one run, under the names that scripts know.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// Accepted ÷ integral of min(limit, ceiling) · (1 − errors). Can pass 1 by what a burst had saved up.
    pub goodput: f64,
    /// Requests that the limit refused; answers of a ban are not among them.
    pub refused: u64,
    /// Those by hour.
    pub refused_per_hour: f64,
    /// The most of them in any 10 minutes.
    pub refused_max_10min: u64,
    /// The first moment from which a window (60 s, or 30 requests of the limit if that is longer) has 90 % of
    /// the limit and at most 2 % refusals; `None` = never.
    pub converge_seconds: Option<f64>,
    /// After the limit has risen by half or more: until a window of 60 s begins that has 80 % of it, the longest
    /// of all returns; `None` = it never rose, or the crawl never came back.
    pub recover_seconds: Option<f64>,
    /// Bans.
    pub bans: u64,
    /// Half of the accepted answers came within so many milliseconds.
    pub p50_ms: f64,
    /// 95 % of them.
    pub p95_ms: f64,
    /// Requests sent.
    pub requests: u64,
}

/// What happened, second by second.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Course {
    /// Requests sent.
    pub sent: Vec<u32>,
    /// Accepted answers.
    pub accepted: Vec<u32>,
    /// Refusals.
    pub refused: Vec<u32>,
    /// The hidden limit, requests per second; no higher than the ceiling.
    pub limit: Vec<f32>,
}

/// The measuring of one server.
pub(super) struct Measure {
    course: Course,
    shares: Vec<u64>,
    report: Report,
    recent: VecDeque<Mono>,
    latencies: Vec<u64>,
    server: SimServer,
}

impl Measure {
    pub(super) fn new(server: &SimServer, crawlers: usize) -> Self {
        let seconds = end_of(server).as_secs_f64().ceil() as usize;
        let course = Course {
            sent: vec![0; seconds],
            accepted: vec![0; seconds],
            refused: vec![0; seconds],
            limit: Vec::with_capacity(seconds),
        };
        Self {
            course,
            shares: vec![0; crawlers],
            report: Report::default(),
            recent: VecDeque::new(),
            latencies: vec![0; LATENCY_BUCKETS],
            server: server.clone(),
        }
    }

    pub(super) fn sent(&mut self, now: Mono) {
        if count(&mut self.course.sent, now) {
            self.report.requests += 1;
        }
    }

    pub(super) fn refused(&mut self, now: Mono) {
        if !count(&mut self.course.refused, now) {
            return;
        }
        self.report.refused += 1;
        while self.recent.front().is_some_and(|first| now.since(*first) > BAN_WATCH) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.report.refused_max_10min = self.report.refused_max_10min.max(self.recent.len() as u64);
    }

    pub(super) const fn banned(&mut self, times: u64) {
        self.report.bans += times;
    }

    pub(super) fn accepted(&mut self, now: Mono, crawler: usize, latency: Duration) {
        if !count(&mut self.course.accepted, now) {
            return;
        }
        if let Some(share) = self.shares.get_mut(crawler) {
            *share += 1;
        }
        let millis = latency.as_secs_f64() * 1e3;
        let bucket = (millis.max(1.0).ln() / LATENCY_STEP.ln()) as usize;
        self.latencies[bucket.min(LATENCY_BUCKETS - 1)] += 1;
    }

    /// The figures. `fresh` is the server as it was at the start.
    pub(super) fn finish(mut self, mut fresh: ServerModel) -> Seen {
        let hours = self.server.hours;
        let constant = matches!(self.server.spec.drift, Drift::Constant) || self.server.spec.limit == Limit::None;
        let mut limit = fresh.allowed_rate(Mono::from_secs_f64(0.5)).min(self.server.ceiling);
        for second in 0..self.course.sent.len() {
            if !constant {
                limit = fresh.allowed_rate(Mono::from_secs_f64(second as f64 + 0.5)).min(self.server.ceiling);
            }
            self.course.limit.push(limit as f32);
        }
        let windows = Windows::new(&self.course, 1.0 - self.server.spec.errors);
        let allowed = windows.allowed(0, self.course.limit.len());
        let accepted = windows.accepted(0, self.course.limit.len());
        self.report.goodput = if allowed > 0.0 { accepted / allowed } else { 0.0 };
        self.report.refused_per_hour = if hours > 0.0 { self.report.refused as f64 / hours } else { 0.0 };
        self.report.converge_seconds = converged(&self.course, &windows);
        self.report.recover_seconds = recovered(&self.course, &windows, &self.server.spec.drift);
        self.report.p50_ms = percentile(&self.latencies, 0.50);
        self.report.p95_ms = percentile(&self.latencies, 0.95);
        Seen { report: self.report, shares: self.shares, course: self.course }
    }
}

/// Counts one in its second; false beyond the end.
fn count(seconds: &mut [u32], now: Mono) -> bool {
    let second = seconds.get_mut((now.as_nanos() / 1_000_000_000) as usize);
    second.map(|count| *count = count.saturating_add(1)).is_some()
}

/// Sums over any window of seconds.
struct Windows {
    sent: Vec<u64>,
    accepted: Vec<u64>,
    refused: Vec<u64>,
    allowed: Vec<f64>,
}

impl Windows {
    fn new(course: &Course, sound: f64) -> Self {
        let sums = |counts: &[u32]| {
            let mut sum = 0;
            std::iter::once(0)
                .chain(counts.iter().map(|count| {
                    sum += u64::from(*count);
                    sum
                }))
                .collect::<Vec<u64>>()
        };
        let mut sum = 0.0;
        let allowed = std::iter::once(0.0)
            .chain(course.limit.iter().map(|limit| {
                sum += f64::from(*limit) * sound;
                sum
            }))
            .collect();
        Self { sent: sums(&course.sent), accepted: sums(&course.accepted), refused: sums(&course.refused), allowed }
    }

    fn accepted(&self, from: usize, to: usize) -> f64 {
        between(&self.accepted, from, to) as f64
    }

    fn allowed(&self, from: usize, to: usize) -> f64 {
        match (self.allowed.get(from), self.allowed.get(to)) {
            (Some(before), Some(after)) => after - before,
            _ => 0.0,
        }
    }

    /// Whether the window has this share of what is allowed; where nothing can be accepted, none has.
    fn has(&self, from: usize, to: usize, share: f64) -> bool {
        let allowed = self.allowed(from, to);
        allowed > 0.0 && self.accepted(from, to) >= share * allowed
    }
}

fn between(sums: &[u64], from: usize, to: usize) -> u64 {
    match (sums.get(from), sums.get(to)) {
        (Some(before), Some(after)) => after - before,
        _ => 0,
    }
}

fn converged(course: &Course, windows: &Windows) -> Option<f64> {
    let seconds = course.limit.len();
    let found = (0..seconds).find(|from| {
        let limit = f64::from(course.limit[*from]).max(1e-9);
        let to = from + CONVERGED_SECS.max(CONVERGED_REQUESTS / limit).ceil() as usize;
        let refused = between(&windows.refused, *from, to) as f64;
        to <= seconds
            && windows.has(*from, to, CONVERGED_SHARE)
            && refused <= CONVERGED_REFUSED * between(&windows.sent, *from, to) as f64
    });
    found.map(|from| from as f64)
}

fn recovered(course: &Course, windows: &Windows, drift: &Drift) -> Option<f64> {
    let Drift::Steps { at, factor } = drift else { return None };
    let before = std::iter::once(1.0).chain(factor.iter().copied());
    let returns = at.iter().zip(factor).zip(before).filter(|((_, after), before)| **after >= RETURN_FACTOR * before);
    let mut slowest = None;
    for ((at, _), _) in returns {
        let start = at.as_secs() as usize;
        let seconds = course.limit.len();
        if start + RECOVERED_SECS > seconds {
            continue;
        }
        let back = (start..=seconds - RECOVERED_SECS)
            .find(|from| windows.has(*from, from + RECOVERED_SECS, RECOVERED_SHARE))?;
        slowest = Some(((back - start) as f64).max(slowest.unwrap_or(0.0)));
    }
    slowest
}

/// The middle of the bucket that holds the percentile, in milliseconds; 0 if nothing was accepted.
fn percentile(buckets: &[u64], share: f64) -> f64 {
    let total: u64 = buckets.iter().sum();
    let rank = ((total as f64 * share).ceil() as u64).max(1);
    let mut sum = 0;
    let found = buckets.iter().position(|count| {
        sum += count;
        sum >= rank
    });
    found.map_or(0.0, |bucket| LATENCY_STEP.powf(bucket as f64 + 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Mono {
        Mono::from_secs_f64(secs)
    }

    fn measure(hours: f64, rate: f64, drift: Drift) -> (Measure, ServerModel) {
        let mut server = SimServer { hours, ..SimServer::named("m") };
        server.spec.limit = Limit::Bucket { rate, burst: 1.0 };
        server.spec.drift = drift;
        (Measure::new(&server, 1), server.model(0))
    }

    /// Accepts `per_second` in each of these seconds.
    fn accept(measure: &mut Measure, seconds: std::ops::Range<u32>, per_second: u32) {
        for second in seconds {
            for k in 0..per_second {
                let now = at(f64::from(second) + f64::from(k) / f64::from(per_second));
                measure.sent(now);
                measure.accepted(now, 0, Duration::from_millis(200));
            }
        }
    }

    #[test]
    fn it_converges_where_the_first_good_window_begins() {
        let (mut slow, fresh) = measure(0.1, 4.0, Drift::Constant);
        accept(&mut slow, 0..100, 1);
        accept(&mut slow, 100..360, 4);
        let report = slow.finish(fresh).report;
        // 60 s with 216 of 240: 8 slow seconds may be among them.
        assert_eq!(report.converge_seconds, Some(92.0));
        assert!((report.goodput - (100.0 + 260.0 * 4.0) / 1_440.0).abs() < 1e-9);
        assert_eq!((report.refused, report.recover_seconds), (0, None));
    }

    #[test]
    fn who_gets_nothing_but_errors_never_converges_and_never_comes_back() {
        let mut server = SimServer { hours: 0.5, ..SimServer::named("errors") };
        server.spec.limit = Limit::Bucket { rate: 4.0, burst: 1.0 };
        server.spec.errors = 1.0;
        let at = vec![Duration::from_secs(100), Duration::from_secs(300)];
        server.spec.drift = Drift::Steps { at, factor: vec![0.25, 1.0] };
        let report = Measure::new(&server, 1).finish(server.model(0)).report;
        assert_eq!((report.converge_seconds, report.recover_seconds, report.goodput), (None, None, 0.0));
    }

    #[test]
    fn refusals_keep_a_window_from_being_good_and_a_slow_limit_asks_for_a_longer_one() {
        let (mut refused, fresh) = measure(0.1, 4.0, Drift::Constant);
        accept(&mut refused, 0..360, 4);
        // Two in a hundred are borne: 4 of some 244, not 5.
        (0..5).for_each(|k| {
            refused.sent(at(30.0 + f64::from(k)));
            refused.refused(at(30.0 + f64::from(k)));
        });
        assert_eq!(refused.finish(fresh).report.converge_seconds, Some(31.0));

        // 0.05/s: a window of 600 s. Half of that is never enough.
        let (mut short, fresh) = measure(0.15, 0.05, Drift::Constant);
        (0..27).for_each(|k| accept(&mut short, k * 20..k * 20 + 1, 1));
        assert_eq!(short.finish(fresh).report.converge_seconds, None);
        let (mut long, fresh) = measure(0.2, 0.05, Drift::Constant);
        (0..36).for_each(|k| accept(&mut long, k * 20..k * 20 + 1, 1));
        assert_eq!(long.finish(fresh).report.converge_seconds, Some(0.0));
    }

    #[test]
    fn recovery_counts_from_the_slowest_return() {
        let steps = |at: &[u64], factor: &[f64]| Drift::Steps {
            at: at.iter().map(|at| Duration::from_secs(*at)).collect(),
            factor: factor.to_vec(),
        };
        let (mut back, fresh) = measure(0.5, 4.0, steps(&[100, 300, 900, 1_200], &[0.25, 1.0, 0.25, 1.0]));
        accept(&mut back, 0..400, 1);
        accept(&mut back, 400..1_800, 4);
        // 192 of 240 are 80 %: 16 slow seconds may be among the sixty. The second return is at once.
        assert_eq!(back.finish(fresh).report.recover_seconds, Some(84.0));
        let (mut never, fresh) = measure(0.5, 4.0, steps(&[100, 300], &[0.25, 1.0]));
        accept(&mut never, 0..1_800, 1);
        assert_eq!(never.finish(fresh).report.recover_seconds, None);
        let (mut risen, fresh) = measure(0.5, 4.0, steps(&[100], &[1.2]));
        accept(&mut risen, 0..1_800, 4);
        assert_eq!(risen.finish(fresh).report.recover_seconds, None, "a fifth more is no return");
    }

    #[test]
    fn the_worst_ten_minutes_slide() {
        let (mut measure, fresh) = measure(1.0, 4.0, Drift::Constant);
        for second in [0.0, 300.0, 599.0, 601.0, 602.0, 1_300.0] {
            measure.refused(at(second));
        }
        measure.banned(2);
        let report = measure.finish(fresh).report;
        assert_eq!((report.refused, report.refused_max_10min, report.bans), (6, 4, 2));
        assert!((report.refused_per_hour - 6.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_within_a_hundredth_and_what_comes_after_the_end_does_not_count() {
        let (mut measure, fresh) = measure(0.01, 4.0, Drift::Constant);
        for k in 1..=100 {
            measure.accepted(at(1.0), 0, Duration::from_millis(10 * k));
        }
        measure.accepted(at(36.0), 0, Duration::from_secs(9));
        measure.sent(at(36.5));
        let seen = measure.finish(fresh);
        assert!((seen.report.p50_ms / 500.0 - 1.0).abs() < 0.01, "{:?}", seen.report);
        assert!((seen.report.p95_ms / 950.0 - 1.0).abs() < 0.01, "{:?}", seen.report);
        assert_eq!((seen.shares, seen.report.requests, seen.course.sent.len()), (vec![100], 0, 36));
    }
}
