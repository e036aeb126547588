//! A learned prior: what a host bore before, and what that proposes for now. Pure: the hour comes in as an argument.
//!
//! A prior **proposes**, it decides nothing. It may say where a host begins ([`Seed`]), how its limit is likely to have
//! moved since a moment ago, and what it is likely to be ([`Advice`]). What is made of that is the rate controller's, under
//! the same budget, holds, originals and overrides as without it; a controller may ignore it.
//!
//! [`hour_of_week`] is the table, [`experience`] all that is remembered of one host, [`advisor`] whoever looks at all
//! hosts from time to time, learns and proposes. A model that was trained elsewhere comes in as a [`Model`].

pub mod advisor;
pub mod experience;
pub mod hour_of_week;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::adaptive::RateController as _;
use super::{Controller, HostId, Mono, Value, What, Who};

pub use advisor::{Advisor, Training};
pub use experience::{Experience, Sample};
pub use hour_of_week::{HourOfWeek, Table};

/// Where a learned start comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PriorKind {
    /// Nowhere: nothing is remembered.
    Off,
    /// A value for each hour of the week.
    #[default]
    HourOfWeek,
    /// A random forest on hour, weekday, rate and response time.
    RandomForest,
}

impl PriorKind {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::HourOfWeek => "hour-of-week",
            Self::RandomForest => "random-forest",
        }
    }
}

/// Wall time as a prior knows it: seconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// Seconds since `earlier`; 0 if that is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many seconds later; earlier, if negative.
    pub const fn plus(self, secs: i64) -> Self {
        Self(self.0.saturating_add_signed(secs))
    }

    /// Hours since Monday 00:00 UTC, with fractions, `0.0..168.0`.
    pub fn week_hours(self) -> f64 {
        // The epoch was a Thursday.
        let secs = (self.0 % WEEK_SECS + 3 * 86_400) % WEEK_SECS;
        secs as f64 / 3_600.0
    }
}

const WEEK_SECS: u64 = 7 * 86_400;

/// What a controller has measured of a server, as far as it is worth remembering. Rates in tokens per second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// The limit.
    pub limit: f64,
    /// Tokens that the server's bucket holds; 0 = unknown.
    pub burst: f32,
    /// Answers that the limit rests on.
    pub samples: f32,
    /// How fast the limit has moved of late, as a share a second.
    pub drift: f32,
    /// Seconds for which it has stood.
    pub steady: f32,
    /// Seconds for which a refusal shuts us out, where that is longer than a bucket takes; 0 = it is not.
    pub block: f32,
    /// Those blocks last the same each time.
    pub lockout: bool,
    /// The limit was once met from just below.
    pub proven: bool,
    /// Refusals in ten minutes that once led to a ban, halved; 0 = none did.
    pub banned: u32,
}

/// Where a host is to begin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seed {
    /// What was measured, `limit` as it is proposed for now.
    pub measured: Measured,
    /// How long ago it was measured.
    pub age: Duration,
    /// The limit is that of this hour, not the last one.
    pub of_the_hour: bool,
}

/// What a prior expects of a host that is being asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Advice {
    /// The limit for now, tokens per second.
    pub limit: f64,
    /// The factor by which the limit has moved since the last advice; 1 = nothing is known of that.
    pub factor: f64,
}

/// What a model is asked about.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Features {
    /// Hour of the day, UTC, with fractions.
    pub hour: f64,
    /// Day of the week, 0 = Monday.
    pub weekday: f64,
    /// The limit as last measured, tokens per second.
    pub rate: f64,
    /// Seconds that an answer takes.
    pub response: f64,
}

impl Features {
    /// Those of a moment.
    pub fn at(moment: Moment, rate: f64, response: f64) -> Self {
        let hours = moment.week_hours();
        Self { hour: hours % 24.0, weekday: (hours / 24.0).floor(), rate, response }
    }
}

/// A trained model of one host. Whatever it says is checked by whoever uses it.
pub trait Model: Send {
    /// The limit that it expects, tokens per second.
    fn limit(&self, features: &Features) -> Option<f64>;
}

/// What an advisor is told of a host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observed {
    /// What its controller has measured.
    pub measured: Measured,
    /// Requests sent so far.
    pub sent: u64,
    /// Seconds that half of its answers take.
    pub response: f64,
}

impl Controller {
    /// Gives a host that was never asked anything a learned start; whether it took it. Not one that another process left
    /// in the run's own store: that is newer than what was remembered.
    pub fn seed(&mut self, now: Mono, host: HostId, seed: &Seed) -> bool {
        let fresh =
            self.slots.get(host.0 as usize).is_some_and(|slot| slot.hot.as_ref().is_none_or(|hot| hot.sent == 0));
        if !fresh || !usable(seed.measured.limit) {
            return false;
        }
        let untold = self.slots[host.0 as usize].hot.is_none();
        self.heat(now, host);
        let slot = &mut self.slots[host.0 as usize];
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return false };
        let bounds = hot.bounds(now, policy, &self.settings);
        if !hot.layer.adaptive.seed(now, &bounds, seed) {
            return false;
        }
        hot.warm = true;
        let (original, target) = (hot.layer.original, hot.layer.adaptive.target(now));
        hot.retarget(now, policy, &self.settings);
        if untold {
            let (before, after) = (Value::None, Value::Number(original.rate));
            self.decide(now, Who::System, Some(host), What::Rate, before, after, "original");
        }
        self.tell_rate(now, host, target.rate, &seed.to_string());
        self.save_later(host);
        self.replan(now, host);
        true
    }

    /// Tells a host's controller what a prior expects.
    pub fn advise(&mut self, now: Mono, host: HostId, advice: &Advice) {
        let Some(slot) = self.slots.get_mut(host.0 as usize) else { return };
        let policy = &self.settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return };
        if !usable(advice.limit) {
            return;
        }
        let bounds = hot.bounds(now, policy, &self.settings);
        let before = hot.layer.adaptive.target(now);
        hot.layer.adaptive.advise(now, &bounds, advice);
        if hot.layer.adaptive.target(now) != before {
            hot.retarget(now, policy, &self.settings);
            self.save_later(host);
            self.replan(now, host);
        }
    }

    /// What is worth remembering of a host; `None` if nothing was measured yet.
    pub fn observed(&self, now: Mono, host: HostId) -> Option<Observed> {
        let hot = self.slots.get(host.0 as usize)?.hot.as_deref()?;
        let measured = hot.layer.adaptive.measured(now)?;
        let response = hot.latency.percentile(0.5).map_or(0.0, |median| median.as_secs_f64());
        Some(Observed { measured, sent: hot.sent, response })
    }
}

/// Whether a proposed limit is a rate at all.
pub(super) fn usable(limit: f64) -> bool {
    limit.is_finite() && limit > 0.0
}

impl std::fmt::Display for Seed {
    /// The journal's words.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Measured { limit, samples, .. } = self.measured;
        let decimals = if limit < 0.1 { 4 } else { 2 };
        let hours = self.age.as_secs() / 3_600;
        let ago = match hours {
            0 => format!("{} min", self.age.as_secs() / 60),
            1..=47 => format!("{hours} h"),
            _ => format!("{} days", hours / 24),
        };
        match self.of_the_hour {
            true => write!(out, "remembered: {limit:.decimals$}/s at this hour of the week, last measured {ago} ago"),
            false => write!(out, "remembered: {limit:.decimals$}/s, measured {ago} ago from {samples:.0} answers"),
        }
    }
}

#[cfg(test)]
mod tests;
