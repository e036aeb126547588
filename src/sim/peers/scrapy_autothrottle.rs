//! Scrapy's AutoThrottle: a delay that follows the latency, and nothing else.
//!
//! Target = latency ÷ 1.0 requests at a time; the new delay is the mean of old and target, not below the
//! target, within 0 and 60 s, 5 s at the start; an answer that is not 200 may only raise it. Gaps are
//! U(0.5, 1.5) × delay, 8 requests at a time. 429 and some 5xx are asked again at once, twice.

use std::time::Duration;

use super::workers::Workers;
use super::{Allowed, Rules};
use crate::control::Mono;
use crate::sim::Random;
use crate::sim::client::Heard;

const START_DELAY: f64 = 5.0;
const MAX_DELAY: f64 = 60.0;
const TARGET_CONCURRENCY: f64 = 1.0;
const CONCURRENT_REQUESTS_PER_DOMAIN: u32 = 8;
const RETRY_TIMES: u32 = 2;

pub(super) struct AutoThrottle {
    /// Seconds between requests at least: the operator's ceiling.
    min_delay: f64,
    delay: f64,
    next_slot: Mono,
    workers: Workers,
    random: Random,
}

impl AutoThrottle {
    pub(super) fn new(allowed: Allowed, random: Random) -> Self {
        let min_delay = 1.0 / allowed.original.rate;
        Self {
            min_delay,
            delay: START_DELAY.max(min_delay),
            next_slot: Mono::ZERO,
            workers: Workers::new(allowed.connections.min(CONCURRENT_REQUESTS_PER_DOMAIN)),
            random,
        }
    }
}

impl Rules for AutoThrottle {
    fn next(&mut self, now: Mono) -> Option<u32> {
        if self.next_wake(now) > now {
            return None;
        }
        let gap = self.delay * (0.5 + self.random.unit());
        self.next_slot = now.after_secs(gap.max(self.min_delay));
        self.workers.take()
    }

    fn next_wake(&self, _now: Mono) -> Mono {
        self.workers.ready_at().max(self.next_slot)
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let attempt = heard.sending.mark;
        let Ok(status) = heard.result else {
            self.workers.retry(now, Duration::ZERO, attempt, RETRY_TIMES);
            return;
        };
        let target = now.since(heard.sent).as_secs_f64() / TARGET_CONCURRENCY;
        let delay = target.max(f64::midpoint(self.delay, target)).clamp(self.min_delay, MAX_DELAY.max(self.min_delay));
        if status == 200 || delay > self.delay {
            self.delay = delay;
        }
        match status {
            500 | 502 | 503 | 504 | 522 | 524 | 408 | 429 => {
                self.workers.retry(now, Duration::ZERO, attempt, RETRY_TIMES);
            }
            _ => self.workers.free(now),
        }
    }
}
