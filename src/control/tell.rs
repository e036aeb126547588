//! What an answer changed, in the journal's words.

use super::adaptive::{RateController as _, Shift};
use super::hold::Ruling;
use super::host::{COLD, Layer};
use super::{Answer, Controller, Hold, HoldReason, HostId, Lane, Mono, Original, Outcome, Value, Verdict, What, Who};

/// A rate that climbs is told each time it has grown by so much, and when it arrives.
const TOLD_STEP: f64 = 1.25;

/// A rate as it is written in lines that tell of a change.
pub fn rate_figures(rate: f64) -> String {
    let decimals = if rate < 0.1 { 4 } else { 2 };
    format!("{rate:.decimals$}")
}

/// Whether two values read the same in such a line: a change from one to the other is no news.
pub(super) fn reads_same(one: f64, two: f64) -> bool {
    one == two || (one - two).abs() < 0.02 && rate_figures(one) == rate_figures(two)
}

impl Controller {
    /// Writes down what an answer did to the host's holds.
    pub(super) fn tell_hold(&mut self, now: Mono, answer: &Answer, ruling: &Ruling) {
        if let Some((before, after)) = ruling.held {
            let who = if after.reason.server_asked() { Who::Server } else { Who::Controller };
            self.tell_held(
                now,
                who,
                answer.host,
                before,
                &after,
                hold_reason(&after, answer.verdict, ruling.secondary),
            );
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
        let Self { slots, settings, .. } = self;
        let Some(hot) = slots.get_mut(answer.host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        let shift = if lane.0 == 0 && hot.is_cold(settings) { cold(shift) } else { shift };
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
        let since = match lane.0 {
            0 => String::from("successes since"),
            lane => format!("successes since, on endpoint {lane}"),
        };
        self.tell_steps(now, answer.host, words, told, [&since, &why]);
    }

    /// Writes down the steps of a rate and of a capacity, and why: of those before the last one, and of that.
    pub(super) fn tell_steps(
        &mut self,
        now: Mono,
        host: HostId,
        words: (What, What),
        told: [Steps; 2],
        whys: [&str; 2],
    ) {
        for (what, steps) in [words.0, words.1].into_iter().zip(told) {
            let last = steps.len().saturating_sub(1);
            for (index, (before, after)) in steps.into_iter().enumerate() {
                let why = whys[usize::from(index == last)];
                let (before, after) = (Value::Number(before), Value::Number(after));
                self.decide(now, Who::Controller, Some(host), what, before, after, why);
            }
        }
    }

    /// Writes down that what the server's headers say began to limit a host with work, moved, or limits no more.
    pub(super) fn tell_pace(&mut self, now: Mono, host: HostId) {
        let Self { slots, settings, groups, .. } = self;
        let Some(slot) = slots.get_mut(host.0 as usize) else { return };
        let policy = &settings.policies[usize::from(slot.policy.0)];
        let id = slot.group;
        let shared = groups.get_mut(id);
        let (pace, paced, queued) = match (shared.map(|group| (group.queued, group.hot.as_deref_mut())), &mut slot.hot)
        {
            (Some((queued, Some(group))), _) => {
                let paced = group.paced(now, settings);
                (&mut group.pace, paced, queued)
            }
            // Nothing was told, and nothing is.
            (_, Some(hot)) if hot.pace.is_blank() && hot.paces.is_none() => return,
            (_, Some(hot)) => {
                let paced = hot.paced(now, policy, settings);
                (&mut *hot.pace, paced, slot.lanes.queued())
            }
            (_, None) => return,
        };
        let paced = paced.filter(|_| queued > 0);
        let mut news: Vec<_> = pace.news(now, paced.as_ref()).map(|change| (None, paced, change)).into_iter().collect();
        let lanes = &slot.lanes;
        if let Some(paces) = slot.hot.as_mut().and_then(|hot| hot.paces.as_deref_mut()) {
            let of_endpoints = paces.news(now, |lane| lanes.has_work(lane));
            news.extend(of_endpoints.into_iter().map(|(lane, paced, change)| (Some(lane), paced, change)));
        }
        if news.is_empty() {
            return;
        }
        let value = |rate: Option<f64>| rate.map_or(Value::None, Value::Number);
        for (lane, paced, (before, after)) in news {
            let of = lane.map_or_else(String::new, |lane| format!(", on endpoint {}", lane.0));
            let why = match paced {
                None => format!("headers limit it no more{of}"),
                Some(paced) => {
                    let secs = paced.resets.secs_since(now);
                    let said = match paced.left {
                        Some(left) => format!("{left} left for {secs:.0} s"),
                        None => String::from("their policy allows no more"),
                    };
                    let capped = match (paced.capped, paced.rate > 0.0) {
                        (false, _) => "",
                        (true, true) => ", capped",
                        (true, false) => ", capped by retry_after_max",
                    };
                    format!("paced by the server's headers: {said}{capped}{of}")
                }
            };
            self.decide(now, Who::Server, Some(host), What::Pace, value(before), value(after), why);
        }
        self.save_later(host);
        self.save_group_later(id);
    }

    /// Writes down where the rates and capacities of a host's controllers stand, as far as that was not told: something
    /// else than an answer moved them. The journal's rates are a chain, each from where the last one went to.
    pub(super) fn tell_moved(&mut self, now: Mono, host: HostId, who: Who, why: &str) {
        let Self { slots, settings, .. } = self;
        let Some(hot) = slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        let rate = hot.adaptive(now, settings).rate;
        let mut told = Vec::new();
        for (lane, layer) in std::iter::once(&mut hot.layer).chain(hot.endpoints.iter_mut()).enumerate() {
            let target = layer.adaptive.target(now);
            let target = if lane == 0 { Original { rate, ..target } } else { target };
            told.push((lane, arrival(layer, target)));
        }
        for (lane, told) in told {
            let (words, why) = match lane {
                0 => ((What::Rate, What::Capacity), why.to_owned()),
                lane => ((What::EndpointRate, What::EndpointCapacity), format!("{why}, on endpoint {lane}")),
            };
            for (what, (before, after)) in [words.0, words.1].into_iter().zip(told).filter_map(|(a, b)| Some((a, b?))) {
                self.decide(now, who, Some(host), what, Value::Number(before), Value::Number(after), &*why);
            }
        }
    }

    /// Writes down that a host's rate is `rate` now, if that is news.
    pub(super) fn tell_rate(&mut self, now: Mono, host: HostId, rate: f64, why: &str) {
        let Some(hot) = self.slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        let capacity = hot.layer.told.capacity;
        if let [Some((before, after)), _] = arrival(&mut hot.layer, Original { rate, capacity }) {
            let (before, after) = (Value::Number(before), Value::Number(after));
            self.decide(now, Who::Controller, Some(host), What::Rate, before, after, why);
        }
    }

    /// Tells the adaptive rates that have moved since they were told: the last word of a run.
    pub fn tell_last(&mut self, now: Mono) {
        for index in 0..self.slots.len() {
            let Some(hot) = self.slots[index].hot.as_mut() else { continue };
            let (before, after) = (hot.layer.told.rate, hot.adaptive(now, &self.settings).rate);
            if !reads_same(before, after) {
                hot.layer.told.rate = after;
                let host = Some(HostId(u32::try_from(index).unwrap_or(u32::MAX)));
                let (before, after) = (Value::Number(before), Value::Number(after));
                self.decide(now, Who::Controller, host, What::Rate, before, after, "at the end of the run");
            }
        }
    }
}

/// A shift as a cold start lets it through to the bucket.
pub(super) fn cold(shift: Shift) -> Shift {
    let cold = |one: Original| Original { rate: one.rate.min(COLD.rate), ..one };
    Shift { before: cold(shift.before), after: cold(shift.after) }
}

/// Rate and capacity from what was told of `layer` to `target`, noted as told where they read different.
pub(super) fn arrival(layer: &mut Layer, target: Original) -> [Option<(f64, f64)>; 2] {
    let told = |told: &mut f64, target: f64| {
        let before = *told;
        (!reads_same(before, target)).then(|| {
            *told = target;
            (before, target)
        })
    };
    [told(&mut layer.told.rate, target.rate), told(&mut layer.told.capacity, target.capacity)]
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
/// it was last told, when that has become [`TOLD_STEP`] or arrives at the original. Each begins where the last one
/// ended, and none reads the same at both ends.
fn steps(told: f64, before: f64, after: f64, original: f64) -> Steps {
    if after < before && told < before && !reads_same(told, before) && !reads_same(before, after) {
        return vec![(told, before), (before, after)];
    }
    let falls = after < told;
    let climbs = after > before && after > told && (after >= original || after >= told * TOLD_STEP);
    if (falls || climbs) && !reads_same(told, after) { vec![(told, after)] } else { Vec::new() }
}

pub(super) fn hold_reason(hold: &Hold, verdict: Verdict, secondary: bool) -> String {
    match hold.reason {
        HoldReason::RetryAfter { asked, capped } => {
            let status = status_text(verdict);
            let asked = asked.as_secs_f64();
            let cap = if capped { ", capped by retry_after_max" } else { "" };
            format!("{status}, server asked to retry after {asked} s{cap}")
        }
        HoldReason::Throttled => {
            let limit = if secondary { ", a secondary limit: its headers say that requests are left" } else { "" };
            format!("{} without Retry-After{limit}", status_text(verdict))
        }
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
