//! The controller `halving`: multiplicative decrease on refusals, slow multiplicative recovery.
//!
//! * Throttle: rate and capacity × 0.5, floors `min_rate` and 1 token. **One incident is one cut**: a
//!   refusal of a request that was sent before the last cut says what is known already, and a refused
//!   probe says that the old incident lasts, not that the lower rate is too high.
//! * Other 5xx: rate × 0.9, never below min(0.5/s, what it was): an error never raises a rate.
//! * Success of a request sent after the last cut: both × 1.01 up to the originals, unless the host
//!   has used up its refusal budget.
//!
//! Two clocks are kept apart: "may send" is the host's hold; "may adjust" is the moment of the last
//! cut alone, so a long Retry-After can never freeze adaptation.

use serde::{Deserialize, Serialize};

use super::{Bounds, Observation, RateController, Shift, Signal};
use crate::control::prior::Seed;
use crate::control::{Mono, Original};

/// The floor of adaptation when the configuration leaves it to the controller, tokens per second.
pub const HALVING_MIN_RATE: f64 = 0.1;
/// Below this rate a 5xx changes nothing, tokens per second.
const SERVER_ERROR_FLOOR: f64 = 0.5;
const CUT: f64 = 0.5;
const EASE: f64 = 0.9;
const CLIMB: f64 = 1.01;

/// State of the controller `halving` for one bucket.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Halving {
    rate: f64,
    capacity: f64,
    /// When it was last cut: answers to requests sent until then no longer count.
    cut: Option<Mono>,
}

impl Halving {
    /// At the originals, never cut.
    pub fn new(original: Original) -> Self {
        Self { rate: original.rate, capacity: original.capacity, cut: None }
    }

    fn values(&self) -> Original {
        Original { rate: self.rate, capacity: self.capacity }
    }

    /// Whether the answer to a request sent at `sent` says something new.
    fn is_news(&self, sent: Mono) -> bool {
        self.cut.is_none_or(|cut| sent > cut)
    }
}

impl RateController for Halving {
    fn on_send(&mut self, _now: Mono, _bounds: &Bounds) {}

    fn on_outcome(&mut self, now: Mono, bounds: &Bounds, observation: &Observation) -> Option<Shift> {
        let before = self.values();
        let news = self.is_news(observation.sent);
        match observation.signal {
            Signal::Throttle | Signal::Refused if news && !observation.probe => {
                let floor = if bounds.min_rate > 0.0 { bounds.min_rate } else { HALVING_MIN_RATE };
                // A floor above the rate must not lift it.
                self.rate = (self.rate * CUT).max(floor.min(self.rate));
                self.capacity = (self.capacity * CUT).max(1.0_f64.min(self.capacity));
                self.cut = Some(now);
            }
            Signal::Throttle | Signal::Refused | Signal::Answered | Signal::Silent | Signal::Neutral => {}
            Signal::ServerError => self.rate = (self.rate * EASE).max(SERVER_ERROR_FLOOR.min(self.rate)),
            Signal::Success if news && bounds.may_climb() => {
                self.rate = (self.rate * CLIMB).min(bounds.original.rate).max(self.rate);
                self.capacity = (self.capacity * CLIMB).min(bounds.original.capacity).max(self.capacity);
            }
            Signal::Success => {}
        }
        let after = self.values();
        (after != before).then_some(Shift { before, after })
    }

    fn target(&self, _now: Mono) -> Original {
        self.values()
    }

    fn ready_at(&self, now: Mono) -> Mono {
        now
    }

    fn reset(&mut self, now: Mono, bounds: &Bounds) {
        self.rate = bounds.original.rate;
        self.capacity = bounds.original.capacity;
        // What is in flight was sent at the old rate: it must not cut the new one.
        self.cut = Some(now);
    }

    fn seed(&mut self, _now: Mono, bounds: &Bounds, seed: &Seed) -> bool {
        // From there it climbs as after a cut. It measures nothing itself: what is remembered is another controller's.
        let Original { rate, capacity } = bounds.original;
        self.rate = rate.min(seed.measured.limit).max(HALVING_MIN_RATE.min(rate));
        self.capacity = (capacity * self.rate / rate).clamp(1.0_f64.min(capacity), capacity);
        true
    }

    fn rebase(&mut self, before: Original, after: Original) {
        let follow = |value: f64, before: f64, after: f64| if value >= before { after } else { value.min(after) };
        self.rate = follow(self.rate, before.rate, after.rate);
        self.capacity = follow(self.capacity, before.capacity, after.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        original: Original { rate: 8.0, capacity: 16.0 },
        min_rate: 0.0,
        refused: 0,
        budget: 0,
        cold: false,
        held_until: Mono::ZERO,
    };

    fn at(secs: f64) -> Mono {
        Mono::from_secs_f64(secs)
    }

    fn see(controller: &mut Halving, signal: Signal, sent: f64, now: f64) -> Option<Shift> {
        let observation = Observation { signal, sent: at(sent), probe: false, latency: 0.1 };
        controller.on_outcome(at(now), &BOUNDS, &observation)
    }

    #[test]
    fn case_07_nine_parallel_refusals_are_one_cut() {
        let mut controller = Halving::new(BOUNDS.original);
        for refusal in 0..9 {
            see(&mut controller, Signal::Throttle, 1.0, 2.0 + f64::from(refusal) * 0.01);
        }
        assert_eq!(controller.values(), Original { rate: 4.0, capacity: 8.0 });
    }

    #[test]
    fn case_05_a_second_incident_cuts_again() {
        let mut controller = Halving::new(BOUNDS.original);
        see(&mut controller, Signal::Throttle, 1.0, 2.0);
        see(&mut controller, Signal::Throttle, 3.0, 4.0);
        assert_eq!(controller.rate, 2.0);
    }

    #[test]
    fn wanted_06_errors_never_raise_the_rate_and_four_5xx_keep_more_than_half() {
        let mut controller = Halving::new(BOUNDS.original);
        for error in 0..4 {
            let sent = f64::from(error);
            see(&mut controller, Signal::ServerError, sent, sent + 0.1);
        }
        assert!(controller.rate > 4.0 && controller.rate < 8.0);
        let mut slow = Halving::new(Original { rate: 0.3, capacity: 1.0 });
        see(&mut slow, Signal::ServerError, 1.0, 1.1);
        assert_eq!(slow.rate, 0.3);
        let mut slowest = Halving::new(Original { rate: 0.05, capacity: 1.0 });
        see(&mut slowest, Signal::Throttle, 1.0, 1.1);
        assert_eq!(slowest.rate, 0.05);
    }

    #[test]
    fn success_climbs_to_the_original_and_no_further() {
        let mut controller = Halving::new(BOUNDS.original);
        see(&mut controller, Signal::Throttle, 1.0, 2.0);
        let mut steps = 0;
        while see(&mut controller, Signal::Success, 3.0, 3.0).is_some() {
            steps += 1;
        }
        assert_eq!(controller.values(), BOUNDS.original);
        // ln 2 / ln 1.01 = 69.7
        assert_eq!(steps, 70);
    }

    #[test]
    fn a_changed_original_is_followed_from_the_original_and_bounds_what_was_cut() {
        let other = |rate, capacity| Original { rate, capacity };
        let mut uncut = Halving::new(BOUNDS.original);
        uncut.rebase(BOUNDS.original, other(20.0, 2.0));
        assert_eq!(uncut.values(), other(20.0, 2.0));
        let mut cut = Halving::new(BOUNDS.original);
        see(&mut cut, Signal::Throttle, 1.0, 2.0);
        cut.rebase(BOUNDS.original, other(20.0, 20.0));
        assert_eq!(cut.values(), other(4.0, 8.0), "a raise is no news about the server");
        cut.rebase(other(20.0, 20.0), other(3.0, 20.0));
        assert_eq!(cut.values(), other(3.0, 8.0), "never above the original");
        assert_eq!(see(&mut cut, Signal::Throttle, 1.5, 5.0), None, "the moment of the cut is kept");
    }

    #[test]
    fn a_success_sent_before_the_cut_does_not_climb() {
        let mut controller = Halving::new(BOUNDS.original);
        see(&mut controller, Signal::Throttle, 1.0, 2.0);
        assert_eq!(see(&mut controller, Signal::Success, 1.5, 2.5), None);
    }
}
