//! What an answer changed, in the journal's words.

use super::adaptive::{RateController as _, Shift};
use super::hold::Ruling;
use super::host::Layer;
use super::{Answer, Controller, Hold, HoldReason, HostId, Lane, Mono, Outcome, Value, Verdict, What, Who};

/// A rate that climbs is told each time it has grown by so much, and when it arrives.
const TOLD_STEP: f64 = 1.25;

impl Controller {
    /// Writes down what an answer did to the host's holds.
    pub(super) fn tell_hold(&mut self, now: Mono, answer: &Answer, ruling: &Ruling) {
        if let Some((before, after)) = ruling.held {
            let who = if after.reason.server_asked() { Who::Server } else { Who::Controller };
            self.tell_held(now, who, answer.host, before, &after, hold_reason(&after, answer.verdict));
        }
        if ruling.opened {
            let why = format!("probe answered {}", ruling.outcome.as_str());
            self.decide(now, Who::Controller, Some(answer.host), What::Open, Value::None, Value::None, why);
        }
    }

    /// Writes down that a hold began or grew: the seconds left of the one before, and of this.
    pub(super) fn tell_held(
        &mut self,
        now: Mono,
        who: Who,
        host: HostId,
        before: Option<Hold>,
        after: &Hold,
        why: String,
    ) {
        let left = before.map_or(0.0, |hold| hold.until.secs_since(now));
        let (before, after) = (Value::Number(left), Value::Number(after.until.secs_since(now)));
        self.decide(now, who, Some(host), What::Hold, before, after, why);
    }

    /// Writes down what an answer did to the controller of a lane. The chain of before and after has no gap:
    /// a fall first tells of the climb that was not told yet.
    pub(super) fn tell_shift(
        &mut self,
        now: Mono,
        answer: &Answer,
        outcome: Outcome,
        lane: Lane,
        shift: Option<Shift>,
    ) {
        let Some(shift) = shift else { return };
        let Some(hot) = self.slots.get_mut(answer.host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        let held = hot.hold().is_some_and(|hold| hold.until > now);
        let layer = hot.adapted(lane);
        let told = told_steps(layer, shift);
        let words = match lane.0 {
            0 => (What::Rate, What::Capacity),
            _ => (What::EndpointRate, What::EndpointCapacity),
        };
        let mut why = reason_of_shift(answer, outcome, lane);
        if let Some(number) = layer.adaptive.why(now) {
            why.push_str(&format!("; {}", number.later(0.0, held)));
        }
        self.tell_steps(now, answer.host, words, told, &why);
    }

    /// Writes down the steps of a rate and of a capacity.
    pub(super) fn tell_steps(&mut self, now: Mono, host: HostId, words: (What, What), told: [Steps; 2], why: &str) {
        for (what, steps) in [words.0, words.1].into_iter().zip(told) {
            let last = steps.len().saturating_sub(1);
            for (index, (before, after)) in steps.into_iter().enumerate() {
                let why = if index < last { "successes since" } else { why };
                let (before, after) = (Value::Number(before), Value::Number(after));
                self.decide(now, Who::Controller, Some(host), what, before, after, why);
            }
        }
    }

    /// Tells the adaptive rates that have moved since they were told: the last word of a run.
    pub fn tell_last(&mut self, now: Mono) {
        for index in 0..self.slots.len() {
            let Some(hot) = self.slots[index].hot.as_mut() else { continue };
            let (before, after) = (hot.layer.told.rate, hot.layer.adaptive.target(now).rate);
            if before != after {
                hot.layer.told.rate = after;
                let host = Some(HostId(u32::try_from(index).unwrap_or(u32::MAX)));
                let (before, after) = (Value::Number(before), Value::Number(after));
                self.decide(now, Who::Controller, host, What::Rate, before, after, "at the end of the run");
            }
        }
    }
}

/// From what to what, step by step.
pub(super) type Steps = Vec<(f64, f64)>;

/// The steps of rate and capacity that are worth a line, noted as told.
pub(super) fn told_steps(layer: &mut Layer, shift: Shift) -> [Steps; 2] {
    let (told, original) = (layer.told, layer.original);
    let rate = steps(told.rate, shift.before.rate, shift.after.rate, original.rate);
    let capacity = steps(told.capacity, shift.before.capacity, shift.after.capacity, original.capacity);
    layer.told.rate = rate.last().map_or(told.rate, |step| step.1);
    layer.told.capacity = capacity.last().map_or(told.capacity, |step| step.1);
    [rate, capacity]
}

/// The steps of a change that are worth a line: every fall, with the untold climb before it; a climb since
/// it was last told, when that has become [`TOLD_STEP`] or arrives at the original.
fn steps(told: f64, before: f64, after: f64, original: f64) -> Steps {
    if after < before {
        let mut steps = Vec::with_capacity(2);
        if told != before {
            steps.push((told, before));
        }
        steps.push((before, after));
        return steps;
    }
    let tells = after > before && (after >= original || after >= told * TOLD_STEP);
    if tells { vec![(told, after)] } else { Vec::new() }
}

pub(super) fn hold_reason(hold: &Hold, verdict: Verdict) -> String {
    match hold.reason {
        HoldReason::RetryAfter { asked, capped } => {
            let status = status_text(verdict);
            let asked = asked.as_secs_f64();
            let cap = if capped { ", capped by retry_after_max" } else { "" };
            format!("{status}, server asked to retry after {asked} s{cap}")
        }
        HoldReason::Throttled => format!("{} without Retry-After", status_text(verdict)),
        HoldReason::Refused => format!("{}: a run of refusals", status_text(verdict)),
        HoldReason::Network(outcome) => format!("connection trouble: {}", outcome.as_str()),
        HoldReason::RobotsUnreachable => String::from("robots.txt unreachable"),
    }
}

fn status_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Status(status) => status.to_string(),
        Verdict::Failed(outcome) => outcome.as_str().to_owned(),
    }
}

pub(super) fn reason_of_shift(answer: &Answer, outcome: Outcome, lane: Lane) -> String {
    match lane.0 {
        0 => format!("{} ({})", outcome.as_str(), status_text(answer.verdict)),
        lane => format!("{} ({}) on endpoint {lane}", outcome.as_str(), status_text(answer.verdict)),
    }
}
