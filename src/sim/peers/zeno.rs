//! Zeno of the Internet Archive: a token bucket a host that its retries do not pass.
//!
//! 429, 403, 408, 425: one more failure; the bucket is emptied and gets nothing for min(5 s · 2^(failures − 1),
//! 30 s), its rate untouched. 5xx: one more failure, rate × 0.5^failures, not below 0.5/s, bucket emptied.
//! Success after the penalty: a tenth of the way back to the ideal rate, one failure less. A worker that
//! failed sleeps 2 s · retry, counted from 0, and asks again past the bucket, up to 5 times. Who waits for a token looks each
//! 50 ms. Its defaults (150 tokens, 50/s) are cut to the operator's ceiling.

use std::time::Duration;

use super::workers::Workers;
use super::{Allowed, Rules};
use crate::control::bucket::Bucket;
use crate::control::{Mono, Original, Shape};
use crate::sim::client::Heard;

const CAPACITY: f64 = 150.0;
const RATE: f64 = 50.0;
const RATE_MIN: f64 = 0.5;
const PENALTY: Duration = Duration::from_secs(5);
const PENALTY_MAX: Duration = Duration::from_secs(30);
const RECOVERY: f64 = 0.1;
const RETRIES: u32 = 5;
/// A worker without a token looks again after so long.
const POLL: Duration = Duration::from_millis(50);
/// How far ahead looks in vain are left out, at most.
const AHEAD: u64 = 100;

pub(super) struct Zeno {
    ideal: f64,
    target: Original,
    bucket: Bucket,
    failures: u32,
    penalty_until: Mono,
    /// Workers with fresh URLs stand at the bucket, the others walk past it.
    fresh: Workers,
    retrying: Workers,
}

impl Zeno {
    pub(super) fn new(allowed: Allowed) -> Self {
        let ideal = allowed.original.rate.min(RATE);
        let target = Original { rate: ideal, capacity: allowed.original.capacity.min(CAPACITY) };
        Self {
            ideal,
            target,
            bucket: Bucket::full(Shape::TokenBucket, target, Mono::ZERO),
            failures: 0,
            penalty_until: Mono::ZERO,
            fresh: Workers::new(allowed.connections),
            retrying: Workers::new(0),
        }
    }

    fn set_rate(&mut self, now: Mono, rate: f64) {
        self.target.rate = rate;
        self.bucket.set_target(now, self.target);
    }

    fn retry(&mut self, now: Mono, attempt: u32) {
        if attempt < RETRIES {
            self.retrying.retry(now, Duration::from_secs(2 * u64::from(attempt)), attempt, RETRIES);
        } else {
            self.fresh.free(now);
        }
    }
}

impl Rules for Zeno {
    fn next(&mut self, now: Mono) -> Option<u32> {
        if self.retrying.ready_at() <= now {
            return self.retrying.take();
        }
        while self.fresh.ready_at() <= now {
            if now >= self.penalty_until && self.bucket.take(now, 1.0) {
                return self.fresh.take();
            }
            // It looks again when it has slept, as often as it takes until there may be a token.
            let token = self.bucket.ready_at(now, 1.0).max(self.penalty_until);
            let sleeps = token.since(now).as_nanos().div_ceil(POLL.as_nanos()).clamp(1, AHEAD.into());
            self.fresh.take();
            self.fresh.free(now.after(POLL.saturating_mul(u32::try_from(sleeps).unwrap_or(1))));
        }
        None
    }

    fn next_wake(&self, _now: Mono) -> Mono {
        self.fresh.ready_at().min(self.retrying.ready_at())
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let attempt = heard.sending.mark;
        match heard.result {
            Ok(429 | 403 | 408 | 425) => {
                self.failures = self.failures.saturating_add(1);
                let penalty = PENALTY.saturating_mul(1 << (self.failures - 1).min(8)).min(PENALTY_MAX);
                self.penalty_until = now.after(penalty);
                self.bucket = Bucket::empty(Shape::TokenBucket, self.target, self.penalty_until);
                self.retry(now, attempt);
            }
            Ok(500..) => {
                self.failures = self.failures.saturating_add(1);
                let factor = 0.5_f64.powi(i32::try_from(self.failures).unwrap_or(i32::MAX));
                self.set_rate(now, (self.target.rate * factor).max(RATE_MIN.min(self.ideal)));
                self.bucket.drain(now);
                self.retry(now, attempt);
            }
            Ok(_) => {
                if now >= self.penalty_until {
                    self.failures = self.failures.saturating_sub(1);
                    self.set_rate(now, self.target.rate + RECOVERY * (self.ideal - self.target.rate));
                }
                self.fresh.free(now);
            }
            Err(_) => self.retry(now, attempt),
        }
    }
}
