//! Buckets: what a host may send when, by one of three shapes with one interface.
//!
//! A bucket is a pure value: time comes in, nothing waits inside. [`Bucket::take`] grants exactly when
//! [`Bucket::ready_at`] is not later than `now`, and a refused take changes nothing. So the two can never
//! disagree by a rounding, a caller that waits as told is granted, and polling costs no fraction of a token.
//!
//! All shapes keep to one envelope: in any window of `w` seconds at most `capacity + rate·w` tokens, at the
//! values in force (plus what a single request above the capacity goes into debt). Not here: holds, pauses,
//! layers and who waits; a bucket only counts.

mod leaky;
mod token;
mod window;

use serde::{Deserialize, Serialize};

pub use leaky::LeakyBucket;
pub use token::TokenBucket;
pub use window::{MAX_STAMPS, SlidingWindow};

use super::{Mono, Original, Shape};

/// Rates and capacities above this count as this: a token a nanosecond is no limit any more.
pub const MAX_TARGET: f64 = 1e9;

/// One bucket of any shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Bucket {
    /// Bursts up to the capacity.
    Token(TokenBucket),
    /// Evenly spaced.
    Leaky(LeakyBucket),
    /// At most `capacity` in any `capacity/rate` seconds. Boxed: it carries a ring, and few hosts have one.
    Window(Box<SlidingWindow>),
}

/// Calls the same method on whichever shape it is.
macro_rules! each {
    ($bucket:expr, $one:ident => $call:expr) => {
        match $bucket {
            Bucket::Token($one) => $call,
            Bucket::Leaky($one) => $call,
            Bucket::Window($one) => $call,
        }
    };
}

impl Bucket {
    /// A bucket that holds `capacity` tokens at `now`.
    pub fn full(shape: Shape, target: Original, now: Mono) -> Self {
        match shape {
            Shape::TokenBucket => Self::Token(TokenBucket::full(target, now)),
            Shape::LeakyBucket => Self::Leaky(LeakyBucket::full(target, now)),
            Shape::SlidingWindow => Self::Window(Box::new(SlidingWindow::full(target, now))),
        }
    }

    /// A bucket that holds nothing at `now`.
    pub fn empty(shape: Shape, target: Original, now: Mono) -> Self {
        let mut bucket = Self::full(shape, target, now);
        bucket.drain(now);
        bucket
    }

    /// Rate and capacity in force. Negative and NaN became 0, what was above [`MAX_TARGET`] became that.
    pub fn target(&self) -> Original {
        each!(self, one => one.target())
    }

    /// The level at `now`, fractions kept, below 0 in debt. A pure read.
    pub fn tokens(&self, now: Mono) -> f64 {
        each!(self, one => one.tokens(now))
    }

    /// The earliest moment at which `take(n)` succeeds, rounded up to the nanosecond; `now` or earlier if it
    /// would now; [`Mono::NEVER`] if the rate is 0 or `n` is not a finite number.
    pub fn ready_at(&self, now: Mono, n: f64) -> Mono {
        each!(self, one => one.ready_at(now, n))
    }

    /// Takes all of `n` tokens or nothing; says whether it took them.
    ///
    /// More than the capacity waits for a full bucket and then goes into debt. Zero and less is granted and
    /// takes nothing (but not at rate 0).
    pub fn take(&mut self, now: Mono, n: f64) -> bool {
        each!(self, one => one.take(now, n))
    }

    /// Puts back a grant that was not used. Never above the capacity.
    ///
    /// Meant for the step of the grant itself (another layer refused), where it leaves no trace. A bucket does
    /// not know when a grant was made: one given back after the bucket was full again would count twice, so
    /// let such a grant lapse.
    pub fn give_back(&mut self, now: Mono, n: f64) {
        if n > 0.0 {
            each!(self, one => one.give_back(now, n));
        }
    }

    /// Changes rate and capacity: refills at the old rate up to `now` first; a lowered capacity drops the
    /// surplus; a raise grants nothing at once.
    pub fn set_target(&mut self, now: Mono, target: Original) {
        // The controller says the same thing often: that must not cost a rounding each time.
        if sane(target) != self.target() {
            each!(self, one => one.set_target(now, target));
        }
    }

    /// The same target in another shape, from `now` on: nothing of what was saved up is carried over, since what
    /// one shape allows at once may be more than the other does; a debt is paid first.
    pub fn reshaped(&self, shape: Shape, now: Mono) -> Self {
        let target = self.target();
        let debt = (-self.tokens(now)).max(0.0);
        let paid = if target.rate > 0.0 { now.after_secs(debt / target.rate) } else { now };
        Self::empty(shape, target, paid)
    }

    /// Empties the bucket: 0 tokens at `now`. A debt stays.
    pub fn drain(&mut self, now: Mono) {
        each!(self, one => one.drain(now));
    }
}

/// A target that arithmetic can bear: NaN and negative become 0, the rest at most [`MAX_TARGET`].
fn sane(target: Original) -> Original {
    // NaN is not above 0.
    let tame = |value: f64| if value > 0.0 { value.min(MAX_TARGET) } else { 0.0 };
    Original { rate: tame(target.rate), capacity: tame(target.capacity) }
}

/// Whether a bucket that is ready at `ready` grants at `now`.
fn grants(ready: Mono, now: Mono) -> bool {
    ready <= now && ready != Mono::NEVER
}

#[cfg(test)]
mod tests;
