//! The AWS SDKs' adaptive retry mode: CUBIC in absolute seconds and requests per second.
//!
//! Throttled: W = min(measured, rate) (measured alone the first time), K = ∛(W · 0.3 ÷ 0.4) s, rate = 0.7 W.
//! Otherwise rate = 0.4 (t − K)³ + W, t seconds after the last throttle. Never above twice the measured
//! rate (smoothed by 0.8 over half seconds), never below 0.5/s; capacity = rate, at least 1. Off until
//! the first throttle. Retries after rand(0, 1) · min(2^n, 20 s), 3 attempts.

use std::time::Duration;

use super::workers::Workers;
use super::{Allowed, Rules};
use crate::control::bucket::Bucket;
use crate::control::{Mono, Original, Shape};
use crate::sim::Random;
use crate::sim::client::Heard;

const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
const SMOOTH: f64 = 0.8;
const RATE_MIN: f64 = 0.5;
const CAPACITY_MIN: f64 = 1.0;
const BACKOFF_MAX: f64 = 20.0;
const RETRIES: u32 = 2;

pub(super) struct AwsCubic {
    original: Original,
    bucket: Bucket,
    enabled: bool,
    rate: f64,
    last_max: f64,
    last_throttle: Mono,
    measured: f64,
    counted: u32,
    half_seconds: u64,
    workers: Workers,
    random: Random,
}

impl AwsCubic {
    pub(super) fn new(allowed: Allowed, random: Random) -> Self {
        Self {
            original: allowed.original,
            bucket: Bucket::full(Shape::TokenBucket, allowed.original, Mono::ZERO),
            enabled: false,
            rate: 0.0,
            last_max: 0.0,
            last_throttle: Mono::ZERO,
            measured: 0.0,
            counted: 0,
            half_seconds: 0,
            workers: Workers::new(allowed.connections),
            random,
        }
    }

    /// Counts a request for the measured rate.
    fn measure(&mut self, now: Mono) {
        self.counted = self.counted.saturating_add(1);
        let half_seconds = now.as_nanos() / 500_000_000;
        if half_seconds > self.half_seconds {
            let rate = f64::from(self.counted) / ((half_seconds - self.half_seconds) as f64 * 0.5);
            self.measured = rate * SMOOTH + self.measured * (1.0 - SMOOTH);
            self.counted = 0;
            self.half_seconds = half_seconds;
        }
    }

    fn window(&self) -> f64 {
        (self.last_max * (1.0 - BETA) / SCALE).cbrt()
    }

    fn set_rate(&mut self, now: Mono, rate: f64) {
        let rate = rate.min(2.0 * self.measured).max(RATE_MIN).min(self.original.rate);
        self.rate = rate;
        self.bucket.set_target(now, Original { rate, capacity: rate.max(CAPACITY_MIN).min(self.original.capacity) });
    }
}

impl Rules for AwsCubic {
    fn next(&mut self, now: Mono) -> Option<u32> {
        if self.workers.ready_at() > now || !self.bucket.take(now, 1.0) {
            return None;
        }
        self.workers.take()
    }

    fn next_wake(&self, now: Mono) -> Mono {
        self.workers.ready_at().max(self.bucket.ready_at(now, 1.0))
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let attempt = heard.sending.mark;
        self.measure(now);
        if heard.result == Ok(429) {
            let used = if self.enabled { self.measured.min(self.rate) } else { self.measured };
            self.last_max = used;
            self.last_throttle = now;
            self.enabled = true;
            self.set_rate(now, used * BETA);
        } else if self.enabled {
            let grown = SCALE * (now.secs_since(self.last_throttle) - self.window()).powi(3) + self.last_max;
            self.set_rate(now, grown);
        }
        match heard.result {
            Ok(429 | 500..) | Err(_) => {
                let longest = 2_f64.powi(i32::try_from(attempt.min(10)).unwrap_or(10)).min(BACKOFF_MAX);
                let sleep = Duration::from_secs_f64(self.random.unit() * longest);
                self.workers.retry(now, sleep, attempt, RETRIES);
            }
            Ok(_) => self.workers.free(now),
        }
    }
}
