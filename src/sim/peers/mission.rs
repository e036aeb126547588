//! The plain rules of the mission, without our mends.
//!
//! 429: capacity and rate × 0.5 (floors 1 and 0.1/s), every one of them; only the worker that was refused
//! sleeps, 5 s more than its backoff. 5xx: rate × 0.9, but never below 0.5/s, which lifts a rate that was
//! below it. Success: both × 1.01 up to the originals. The first 10 requests go at 0.5/s, two at a time.
//! Backoff min(60 s, 2^n + U(0, 1) s), 5 retries.

use std::time::Duration;

use super::workers::Workers;
use super::{Allowed, Rules};
use crate::control::bucket::Bucket;
use crate::control::{Mono, Original, Shape};
use crate::sim::Random;
use crate::sim::client::Heard;

const COLD_REQUESTS: u32 = 10;
const COLD: Original = Original { rate: 0.5, capacity: 2.0 };
const CUT: f64 = 0.5;
const EASE: f64 = 0.9;
const CLIMB: f64 = 1.01;
const RATE_MIN: f64 = 0.1;
const ERROR_RATE_MIN: f64 = 0.5;
const RETRIES: u32 = 5;

pub(super) struct Mission {
    original: Original,
    values: Original,
    bucket: Bucket,
    sent: u32,
    workers: Workers,
    random: Random,
}

impl Mission {
    pub(super) fn new(allowed: Allowed, random: Random) -> Self {
        let cold = lower(COLD, allowed.original);
        Self {
            original: allowed.original,
            values: allowed.original,
            bucket: Bucket::full(Shape::TokenBucket, cold, Mono::ZERO),
            sent: 0,
            workers: Workers::new(allowed.connections),
            random,
        }
    }

    fn retarget(&mut self, now: Mono) {
        let target = if self.sent < COLD_REQUESTS { lower(COLD, self.values) } else { self.values };
        self.bucket.set_target(now, target);
    }

    fn backoff(&mut self, attempt: u32) -> Duration {
        let seconds = 2_f64.powi(i32::try_from(attempt.min(10)).unwrap_or(10)) + self.random.unit();
        Duration::from_secs_f64(seconds.min(60.0))
    }
}

/// The lower of each.
fn lower(one: Original, other: Original) -> Original {
    Original { rate: one.rate.min(other.rate), capacity: one.capacity.min(other.capacity) }
}

impl Rules for Mission {
    fn next(&mut self, now: Mono) -> Option<u32> {
        if self.workers.ready_at() > now || !self.bucket.take(now, 1.0) {
            return None;
        }
        self.sent = self.sent.saturating_add(1);
        self.retarget(now);
        self.workers.take()
    }

    fn next_wake(&self, now: Mono) -> Mono {
        self.workers.ready_at().max(self.bucket.ready_at(now, 1.0))
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let attempt = heard.sending.mark;
        let Original { rate, capacity } = self.values;
        match heard.result {
            Ok(429) => {
                self.values = Original { rate: (rate * CUT).max(RATE_MIN), capacity: (capacity * CUT).max(1.0) };
                let sleep = self.backoff(attempt) + Duration::from_secs(5);
                self.workers.retry(now, sleep, attempt, RETRIES);
            }
            Ok(500..) => {
                self.values.rate = (rate * EASE).max(ERROR_RATE_MIN);
                let sleep = self.backoff(attempt);
                self.workers.retry(now, sleep, attempt, RETRIES);
            }
            Ok(200..300) => {
                let climbed = Original { rate: rate * CLIMB, capacity: capacity * CLIMB };
                self.values = lower(climbed, self.original);
                self.workers.free(now);
            }
            Ok(_) => self.workers.free(now),
            Err(_) => {
                let sleep = self.backoff(attempt);
                self.workers.retry(now, sleep, attempt, RETRIES);
            }
        }
        self.retarget(now);
    }
}
