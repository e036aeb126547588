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

    /// Whether the window has this share of what is allowed.
    fn has(&self, from: usize, to: usize, share: f64) -> bool {
        self.accepted(from, to) >= share * self.allowed(from, to)
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
