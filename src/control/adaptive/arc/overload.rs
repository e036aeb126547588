//! Signs of trouble that are no refusals: answers that take longer and longer, errors, silence.

use serde::{Deserialize, Serialize};

use super::episode::ENOUGH;
use super::learned::Origin;
use super::{Arc, Observation, Phase, Signal};
use crate::control::Mono;

/// Answers whose median is one sample.
const NINE: usize = 9;
/// Medians in a row above the threshold that mean a queue.
const BAD_RUN: u8 = 16;

/// Silence lowers the rate to this at most, tokens per second: at a request each deadline it says nothing more.
const SILENT_FLOOR: f64 = 0.1;

/// The server's queue, as the time of answers shows it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queueing {
    /// The unloaded median, seconds; 0 = unknown.
    base: f32,
    last: [f32; NINE],
    seen: u8,
    at: u8,
    bad: u8,
    bad_since: Mono,
    bad_answers: u16,
    drain_until: Mono,
    drain_left: u8,
    limited: bool,
}

impl Queueing {
    pub(super) fn limited(&self) -> bool {
        self.limited
    }

    pub(super) fn draining(&self, now: Mono) -> bool {
        now < self.drain_until
    }

    /// Requests in flight at most: what the rate needs three times over.
    pub(super) fn in_flight_max(&self, rate: f64) -> u32 {
        if self.base <= 0.0 || !self.limited {
            return u32::MAX;
        }
        ((3.0 * rate * f64::from(self.base)).ceil().max(2.0) + 1.0) as u32
    }

    /// An answer after `secs`. Returns the rate of answers during a run of slow ones, when one is complete.
    fn on_answer(&mut self, now: Mono, secs: f64) -> Option<f64> {
        self.last[usize::from(self.at)] = secs as f32;
        self.at = (self.at + 1) % NINE as u8;
        self.seen = (self.seen + 1).min(NINE as u8);
        if usize::from(self.seen) < NINE {
            return None;
        }
        let mut sorted = self.last;
        sorted.sort_by(f32::total_cmp);
        let median = sorted[NINE / 2];
        self.base = if self.base <= 0.0 { median } else { (self.base * 1.0003).min(median) };
        let slow = median > 2.5 * self.base + 0.05;
        if self.draining(now) {
            self.drain_left = self.drain_left.saturating_sub(1);
            if !slow || self.drain_left == 0 {
                self.drain_until = now;
            }
            self.bad = 0;
            return None;
        }
        if !slow {
            self.bad = 0;
            return None;
        }
        if self.bad == 0 {
            self.bad_since = now;
            self.bad_answers = 0;
        }
        self.bad_answers = self.bad_answers.saturating_add(1);
        self.bad = self.bad.saturating_add(1);
        if self.bad < BAD_RUN {
            return None;
        }
        self.bad = 0;
        self.limited = true;
        self.drain_until = now.after_secs(20.0);
        self.drain_left = 24;
        Some(f64::from(self.bad_answers) / now.secs_since(self.bad_since).max(1e-3))
    }
}

/// Server errors: only a surge says anything.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Errors {
    /// The last 40 answers, newest in the lowest bit.
    last: u64,
    seen: u8,
    usual: f32,
    clean: u8,
    /// 5xx that no success has made good.
    #[serde(default)]
    pub(super) eased: u8,
}

/// What a surge of errors, or silence, has led to.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Surge {
    /// The estimate before the surge; 0 = no surge.
    before: f64,
    reacted: Mono,
    silent_at: Mono,
    silent: u8,
    /// What the estimate rests on, surge or not (here it takes no room), and what it rested on before the surge.
    #[serde(default)]
    pub(super) origin: Origin,
    #[serde(default)]
    origin_before: Origin,
}

impl Surge {
    /// Neither came.
    pub(super) const NONE: Self = Self {
        before: 0.0,
        reacted: Mono::ZERO,
        silent_at: Mono::ZERO,
        silent: 0,
        origin: Origin::Unknown,
        origin_before: Origin::Unknown,
    };
}

impl Arc {
    /// An answer that is no refusal: its time and its status may tell of trouble.
    pub(super) fn on_served(&mut self, now: Mono, observation: &Observation) {
        self.on_error(now, observation.signal);
        // Errors and pages that are not there come faster than what is asked for.
        if observation.signal != Signal::Success || !observation.latency.is_finite() || observation.latency < 0.0 {
            return;
        }
        let Some(completed) = self.queueing.on_answer(now, observation.latency) else { return };
        let rate = self.bounded(now);
        let mut limit = completed.clamp(0.6 * rate, rate);
        if self.phase == Phase::Probe {
            limit = limit.max(0.98 * self.limit);
        }
        self.known = true;
        self.learned.valid = true;
        self.learned.samples = ENOUGH;
        self.learned.surge.origin = Origin::Slowness;
        self.move_limit(now, limit);
        self.enter(now, Phase::Cruise);
    }

    fn on_error(&mut self, now: Mono, signal: Signal) {
        let failed = signal == Signal::ServerError;
        let now_rate = if self.known { self.limit } else { self.bounded(now) };
        let errors = &mut self.errors;
        errors.last = ((errors.last << 1) | u64::from(failed)) & ((1 << 40) - 1);
        errors.seen = (errors.seen + 1).min(40);
        let share = f64::from(errors.last.count_ones()) / 40.0;
        errors.clean = match signal {
            Signal::Success => errors.clean.saturating_add(1),
            _ if failed => 0,
            _ => errors.clean,
        };
        let surge = errors.seen >= 40 && share >= 0.35 && share >= 3.0 * f64::from(errors.usual);
        if !surge {
            errors.usual += (f32::from(u8::from(failed)) - errors.usual) / 400.0;
        }
        if surge && failed && now.secs_since(self.learned.surge.reacted) >= 10.0 {
            let begun = &mut self.learned.surge;
            begun.reacted = now;
            if begun.before <= 0.0 {
                (begun.before, begun.origin_before) = (now_rate, begun.origin);
            }
            begun.origin = Origin::Errors;
            let limit = 0.7 * self.bounded(now).min(self.limit);
            self.known = true;
            self.move_limit(now, limit);
            self.enter(now, Phase::Recover);
        } else if errors.clean >= 20 && self.learned.surge.before > 0.0 {
            let limit = self.learned.surge.before;
            self.learned.surge.before = 0.0;
            self.learned.surge.origin = self.learned.surge.origin_before;
            self.move_limit(now, limit);
            self.enter(now, Phase::Recover);
        }
    }

    /// No answer at all.
    pub(super) fn on_silent(&mut self, now: Mono, observation: &Observation) {
        if self.learned.cut.is_some_and(|cut| observation.sent <= cut) {
            return;
        }
        let silence = &mut self.learned.surge;
        let recent = now.secs_since(silence.silent_at) < 60.0 && silence.silent > 0;
        silence.silent = if recent { silence.silent + 1 } else { 1 };
        silence.silent_at = now;
        if silence.silent >= 2 {
            silence.silent = 0;
            self.learned.cut = Some(now);
            self.known = true;
            self.learned.surge.origin = Origin::Silence;
            let rate = self.bounded(now);
            self.move_limit(now, (rate / 2.0).max(SILENT_FLOOR.min(rate)));
            self.enter(now, Phase::Recover);
        }
    }
}
