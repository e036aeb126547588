//! The measuring of a limit: what was accepted since the server's bucket was last seen empty.

use serde::{Deserialize, Serialize};

use crate::control::Mono;

/// A gap between two sends counts as one when it is longer than so many of the intervals planned …
const GAP_INTERVALS: f64 = 2.0;
/// … and so many seconds longer than one of them, or …
const GAP_SECS: f64 = 0.25;
/// … if the intervals of late were so many times what was planned: then work is scarce, and it was no stumble.
const SCARCE: f64 = 1.75;
/// What a gap counts for at most among the intervals of late, in planned ones.
const STUMBLE: f64 = 4.0;
/// Tokens that may have run over in the server's bucket while nothing was sent, before the count is spoiled.
const SPOILED: f32 = 3.0;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Measure {
    /// When the server's bucket was last seen empty: the sending of the request it took again. [`Mono::NEVER`] = not yet.
    #[serde(with = "perhaps")]
    mark: Mono,
    /// Sent since, less those refused.
    counted: f64,
    /// Nothing has spoiled the count.
    whole: bool,
    /// Sent in this phase.
    in_phase: u32,
    /// Answered in this phase.
    answered: u32,
    /// Tokens taken beyond the limit in the worst stretch so far: how full the server's bucket must have been.
    level: f64,
    /// When it sent last; [`Mono::NEVER`] = it never did.
    #[serde(with = "perhaps")]
    last: Mono,
    /// Seconds between sends, averaged over some eight.
    spacing: f64,
    /// Tokens not used in gaps since the mark.
    unused: f32,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            mark: Mono::NEVER,
            counted: 0.0,
            whole: false,
            in_phase: 0,
            answered: 0,
            level: 0.0,
            last: Mono::NEVER,
            spacing: 0.0,
            unused: 0.0,
        }
    }
}

/// Half the memory of an `Option`, and the same text.
fn perhaps(at: Mono) -> Option<Mono> {
    (at != Mono::NEVER).then_some(at)
}

mod perhaps {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::control::Mono;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(at: &Mono, to: S) -> Result<S::Ok, S::Error> {
        super::perhaps(*at).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Mono, D::Error> {
        Ok(Option::<Mono>::deserialize(from)?.unwrap_or(Mono::NEVER))
    }
}

impl Measure {
    pub(super) fn is_fresh(&self) -> bool {
        self.last == Mono::NEVER
    }

    /// The first request will meet a bucket that holds so many tokens beside what comes in.
    pub(super) fn begin_full(&mut self, burst: f64) {
        self.counted = -burst;
    }

    pub(super) fn begin_phase(&mut self) {
        self.in_phase = 0;
        self.answered = 0;
    }

    /// Counts a request. Returns the seconds for which nothing was sent though it might have been.
    pub(super) fn on_send(&mut self, now: Mono, rate: f64, limit: f64, held: bool) -> f64 {
        let mut gap = 0.0;
        if let Some(last) = perhaps(self.last) {
            let between = now.secs_since(last);
            let planned = 1.0 / rate.max(1e-9);
            self.level = (self.level - limit * between).max(0.0);
            let scarce = self.spacing > SCARCE * planned;
            let waited = !held && between > GAP_INTERVALS * planned && (between > planned + GAP_SECS || scarce);
            if waited {
                // While work is scarce nothing goes on.
                gap = if scarce { between } else { between - planned };
                self.unused += ((between - planned) * limit) as f32;
                if self.unused > SPOILED {
                    self.whole = false;
                }
            }
            if !held {
                // One long gap is not for long.
                let between = if waited { between.min(STUMBLE * planned) } else { between };
                self.spacing = if self.spacing > 0.0 { self.spacing + (between - self.spacing) / 8.0 } else { between };
            }
        } else {
            self.mark = now;
        }
        self.last = now;
        self.counted += 1.0;
        self.level += 1.0;
        self.in_phase = self.in_phase.saturating_add(1);
        gap
    }

    /// A request was refused: it took no token.
    pub(super) fn on_refused(&mut self, sent: Mono) {
        if perhaps(self.mark).is_none_or(|mark| sent >= mark) {
            // Below zero only where the first bucket was full: what it held is no part of the limit.
            self.counted = (self.counted - 1.0).max(self.counted.min(0.0));
        }
        self.level = (self.level - 1.0).max(0.0);
    }

    /// An answer in this phase.
    pub(super) fn on_answered(&mut self) -> u32 {
        self.answered = self.answered.saturating_add(1);
        self.answered
    }

    pub(super) fn phase_sends(&self) -> u32 {
        self.in_phase
    }

    /// Whether accepted ÷ elapsed says something about the limit.
    pub(super) fn usable(&self) -> bool {
        self.whole && self.mark != Mono::NEVER
    }

    /// A lower bound of the limit, since so far nothing was refused.
    pub(super) fn bound(&self, now: Mono, spare: f64) -> f64 {
        let elapsed = perhaps(self.mark).map_or(0.0, |mark| now.secs_since(mark));
        if elapsed > 0.0 { (self.counted - spare).max(0.0) / elapsed } else { 0.0 }
    }

    /// Tokens that a limit of `limit` has given since the mark and that were not taken.
    pub(super) fn saved(&self, now: Mono, limit: f64) -> f64 {
        perhaps(self.mark).map_or(0.0, |mark| limit * now.secs_since(mark) - self.counted).max(0.0)
    }

    /// The rate that was really sent at, of late.
    pub(super) fn pace(&self) -> f64 {
        if self.spacing > 0.0 { 1.0 / self.spacing } else { 0.0 }
    }

    /// Tokens used beyond the limit in the worst stretch.
    pub(super) fn level(&self) -> f64 {
        self.level
    }

    /// The last request so far; the origin of time if there is none.
    pub(super) fn last_sent(&self) -> Mono {
        perhaps(self.last).unwrap_or_default()
    }

    /// The server took the request sent at `sent`: its bucket was empty just before. Returns what was accepted
    /// since the mark before and for how many seconds, and starts counting anew. The last request before the refusal
    /// was sent at `stopped`, and so many were `after` it, less those refused.
    pub(super) fn close(&mut self, sent: Mono, stopped: Mono, after: f64) -> Taken {
        let elapsed = perhaps(self.mark).map_or(0.0, |mark| sent.secs_since(mark));
        let open = perhaps(self.mark).map_or(0.0, |mark| stopped.secs_since(mark));
        let taken = Taken { accepted: self.counted - after, elapsed, open, whole: self.whole };
        self.mark = sent;
        self.counted = after;
        self.whole = true;
        self.unused = 0.0;
        self.level = 0.0;
        taken
    }

    /// What was counted since the mark says nothing more.
    pub(super) fn spoil(&mut self) {
        self.whole = false;
    }

    /// Forgets everything but that sending has begun.
    pub(super) fn reset(&mut self, _now: Mono) {
        *self = Self::default();
    }
}

/// What one stretch between two marks held.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Taken {
    pub(super) accepted: f64,
    pub(super) elapsed: f64,
    /// Seconds until the refusal.
    pub(super) open: f64,
    pub(super) whole: bool,
}

impl Taken {
    /// Accepted per second. While it was `blocked` for the last seconds, the server's bucket may have run over: then
    /// the stretch only says between what the limit lies, and the belief `before` is kept within that.
    pub(super) fn rate(&self, blocked: f64, before: Option<f64>, burst: f64) -> f64 {
        if self.elapsed <= 0.0 {
            return 0.0;
        }
        let least = self.accepted.max(0.0) / self.elapsed;
        let open = self.elapsed - blocked;
        let Some(before) = before.filter(|_| open > 0.0) else { return least };
        let most = self.accepted.max(0.0) / open;
        let spare = if burst > 0.0 { burst.max(1.0) } else { 3.0 };
        if blocked <= 0.03 * self.elapsed || blocked * least <= spare {
            return least;
        }
        // Held for less than the block: what it may be lies far apart.
        let believed = if open < blocked { (least * most.min(before)).sqrt() } else { 0.97 * before };
        believed.clamp(least, most)
    }

    /// Accepted per second until the refusal.
    pub(super) fn open_rate(&self) -> f64 {
        if self.open > 0.0 { self.accepted.max(0.0) / self.open } else { 0.0 }
    }

    /// Whether it is long enough to be believed.
    pub(super) fn good(&self) -> bool {
        self.whole && self.accepted >= 8.0 && self.elapsed > 2.0
    }
}
