//! Crawlee's throttling request manager: a backoff clock a domain, and full speed when it has run out.
//!
//! 429: the Retry-After, else 2 s · 2^(n − 1), both at most 60 s; those answered while the clock runs are the
//! same event. One that comes after a further quiet time as long as the last wait begins anew. A throttled request is queued again and frees its worker; another failure is tried again 3 times.

use std::time::Duration;

use super::workers::Workers;
use super::{Allowed, Rules};
use crate::control::bucket::Bucket;
use crate::control::{Mono, Shape};
use crate::sim::client::Heard;

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);
const RETRIES: u32 = 3;

pub(super) struct Crawlee {
    bucket: Bucket,
    events: u32,
    until: Mono,
    wait: Duration,
    workers: Workers,
}

impl Crawlee {
    pub(super) fn new(allowed: Allowed) -> Self {
        Self {
            bucket: Bucket::full(Shape::TokenBucket, allowed.original, Mono::ZERO),
            events: 0,
            until: Mono::ZERO,
            wait: Duration::ZERO,
            workers: Workers::new(allowed.connections),
        }
    }
}

impl Rules for Crawlee {
    fn next(&mut self, now: Mono) -> Option<u32> {
        if self.workers.ready_at().max(self.until) > now || !self.bucket.take(now, 1.0) {
            return None;
        }
        self.workers.take()
    }

    fn next_wake(&self, now: Mono) -> Mono {
        self.workers.ready_at().max(self.until).max(self.bucket.ready_at(now, 1.0))
    }

    fn hear(&mut self, now: Mono, heard: &Heard) {
        let attempt = heard.sending.mark;
        match heard.result {
            Ok(429) => {
                if now >= self.until {
                    if now >= self.until.after(self.wait) {
                        self.events = 0;
                    }
                    self.events = self.events.saturating_add(1);
                    let doubled = FIRST.saturating_mul(1 << (self.events - 1).min(16));
                    self.wait = heard.retry_after().unwrap_or(doubled).min(LONGEST);
                    self.until = now.after(self.wait);
                }
                self.workers.free(now);
            }
            Ok(500..) | Err(_) => self.workers.retry(now, Duration::ZERO, attempt, RETRIES),
            Ok(_) => self.workers.free(now),
        }
    }
}
