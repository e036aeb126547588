//! What an answer changed, in the journal's words.

use super::adaptive::{RateController as _, Shift};
use super::hold::Ruling;
use super::{Answer, Controller, Hold, HoldReason, HostId, Mono, Outcome, Value, Verdict, What, Who};

/// A rate that climbs is told each time it has grown by so much, and when it arrives.
const TOLD_STEP: f64 = 1.25;

impl Controller {
    /// Writes down what an answer changed.
    pub(super) fn tell(&mut self, now: Mono, answer: &Answer, ruling: &Ruling, shift: Option<Shift>) {
        let host = Some(answer.host);
        if let Some((before, after)) = ruling.held {
            let who = if after.reason.server_asked() { Who::Server } else { Who::Controller };
            let left = before.map_or(0.0, |hold| hold.until.secs_since(now));
            let (before, until) = (Value::Number(left), Value::Number(after.until.secs_since(now)));
            self.decide(now, who, host, What::Hold, before, until, hold_reason(&after, answer));
        }
        if ruling.opened {
            let why = format!("probe answered {}", ruling.outcome.as_str());
            self.decide(now, Who::Controller, host, What::Open, Value::None, Value::None, why);
        }
        let Some(shift) = shift else { return };
        let why = reason_of_shift(answer, ruling.outcome);
        let Some(hot) = self.slots.get_mut(answer.host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        let layer = hot.adapted(answer.lane);
        let original = layer.original;
        let rate = tells(shift.before.rate, shift.after.rate, layer.told.rate, original.rate);
        let capacity = tells(shift.before.capacity, shift.after.capacity, layer.told.capacity, original.capacity);
        if rate.is_some() {
            layer.told.rate = shift.after.rate;
        }
        if capacity.is_some() {
            layer.told.capacity = shift.after.capacity;
        }
        let (what_rate, what_capacity) = match answer.lane.0 {
            0 => (What::Rate, What::Capacity),
            _ => (What::EndpointRate, What::EndpointCapacity),
        };
        if let Some(before) = rate {
            let (before, after) = (Value::Number(before), Value::Number(shift.after.rate));
            self.decide(now, Who::Controller, host, what_rate, before, after, why.clone());
        }
        if let Some(before) = capacity {
            let (before, after) = (Value::Number(before), Value::Number(shift.after.capacity));
            self.decide(now, Who::Controller, host, what_capacity, before, after, why);
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

/// Whether a change is worth a line, and the value before it: every fall from what it was; a rise since
/// it was last told, when that has become [`TOLD_STEP`] or it arrives at the original.
fn tells(before: f64, after: f64, told: f64, original: f64) -> Option<f64> {
    if after < before {
        return Some(before);
    }
    (after > before && (after >= original || after >= told * TOLD_STEP)).then_some(told)
}

fn hold_reason(hold: &Hold, answer: &Answer) -> String {
    match hold.reason {
        HoldReason::RetryAfter { asked, capped } => {
            let status = status_text(answer);
            let asked = asked.as_secs_f64();
            let cap = if capped { ", capped by retry_after_max" } else { "" };
            format!("{status}, server asked to retry after {asked} s{cap}")
        }
        HoldReason::Throttled => format!("{} without Retry-After", status_text(answer)),
        HoldReason::Refused => format!("{}: a run of refusals", status_text(answer)),
        HoldReason::Network(outcome) => format!("connection trouble: {}", outcome.as_str()),
        HoldReason::RobotsUnreachable => String::from("robots.txt unreachable"),
    }
}

fn status_text(answer: &Answer) -> String {
    match answer.verdict {
        Verdict::Status(status) => status.to_string(),
        Verdict::Failed(outcome) => outcome.as_str().to_owned(),
    }
}

fn reason_of_shift(answer: &Answer, outcome: Outcome) -> String {
    match answer.lane.0 {
        0 => format!("{} ({})", outcome.as_str(), status_text(answer)),
        lane => format!("{} ({}) on endpoint {lane}", outcome.as_str(), status_text(answer)),
    }
}
