//! What the operator can say, and what it means for one host's settings.
//!
//! A command is data: the screen builds it, the engine passes it on, the controller applies it and
//! journals before and after. The arithmetic of an override stands here once, so that the prompt's
//! preview shows exactly what will happen.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sparse::Blank;
use super::{HostId, Mono};

/// An amount as typed: `0.5`, or relative to the effective value: `x0.5`, `+25%`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// The value itself.
    Absolute(f64),
    /// The effective value times this.
    Times(f64),
}

impl Amount {
    /// The amount as a value, given the effective one.
    pub fn resolve(self, effective: f64) -> f64 {
        match self {
            Self::Absolute(value) => value,
            Self::Times(factor) => effective * factor,
        }
    }
}

/// How long an override or a pause lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// By the rules: an override above the adaptive rate gets `override_ttl`, everything else lasts.
    Default,
    /// So long from now.
    For(Duration),
}

/// An override as asked for: a rate, a capacity, or both.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OverrideSpec {
    /// New rate in tokens per second.
    pub rate: Option<Amount>,
    /// New capacity in tokens.
    pub capacity: Option<Amount>,
    /// How long it holds.
    pub lifetime: Lifetime,
}

/// Limits of what an operator may set; anything else is refused and the old value kept.
pub const RATE_RANGE: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;
/// See [`RATE_RANGE`].
pub const CAPACITY_RANGE: std::ops::RangeInclusive<f64> = 1.0..=1_000_000.0;

/// See [`RATE_RANGE`]; refusals in ten minutes.
pub const BUDGET_MAX: u32 = 1_000_000;

/// A refusal budget in the words of answers, journal and screen.
pub fn budget_words(budget: u32) -> String {
    match budget {
        0 => String::from("no refusal budget"),
        1 => String::from("budget of 1 refusal in 10 minutes"),
        more => format!("budget of {more} refusals in 10 minutes"),
    }
}

/// What the operator says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command {
    /// No requests to the targets until resumed, or until the lifetime ends.
    Pause(Lifetime),
    /// Ends a pause. Holds, overrides and learned rates stand.
    Resume,
    /// Replaces the adaptive value as the bucket's target.
    Override(OverrideSpec),
    /// Drops the override: the adaptive value, learned meanwhile, takes over.
    Auto,
    /// Drops the override and sets the controller to the originals. Pause, holds and tokens stay.
    Reset,
    /// Sets how many refusals the host may see in ten minutes before the controller stops asking for more; 0 = no
    /// budget.
    Budget(u32),
    /// Ends a hold. One that the server asked for needs `WakeEven::Asked`.
    Wake(WakeEven),
    /// Stops the whole crawl: no grants to anybody.
    Halt,
    /// Ends a halt.
    GoOn,
    /// Takes the last act back.
    Undo,
    /// Makes the last undone act again.
    Redo,
}

/// Which holds a wake may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeEven {
    /// Only our own backoff.
    Own,
    /// Also one that the server asked for: the operator said yes to that.
    Asked,
}

/// An override in force.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "SettingRecord", into = "SettingRecord")]
pub struct Override {
    /// Rate in tokens per second, if set.
    pub rate: Option<f64>,
    /// Capacity in tokens, if set.
    pub capacity: Option<f64>,
    /// When it was set.
    pub since: Mono,
    /// When it lapses; `None` = when somebody drops it.
    pub until: Option<Mono>,
}

/// A pause in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "SettingRecord", into = "SettingRecord")]
pub struct Pause {
    /// When it was set.
    pub since: Mono,
    /// When it ends by itself; `None` = when somebody resumes.
    pub until: Option<Mono>,
}

/// An override or a pause as the journal writes it: with its lifetime, since moments mean nothing there.
#[derive(Serialize, Deserialize)]
struct SettingRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity: Option<f64>,
    /// Seconds from when it was set to when it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifetime_seconds: Option<f64>,
}

impl From<Override> for SettingRecord {
    fn from(one: Override) -> Self {
        let lifetime_seconds = one.until.map(|until| until.secs_since(one.since));
        Self { rate: one.rate, capacity: one.capacity, lifetime_seconds }
    }
}

impl From<SettingRecord> for Override {
    fn from(record: SettingRecord) -> Self {
        let until = record.lifetime_seconds.map(Mono::from_secs_f64);
        Self { rate: record.rate, capacity: record.capacity, since: Mono::ZERO, until }
    }
}

impl From<Pause> for SettingRecord {
    fn from(one: Pause) -> Self {
        let lifetime_seconds = one.until.map(|until| until.secs_since(one.since));
        Self { rate: None, capacity: None, lifetime_seconds }
    }
}

impl From<SettingRecord> for Pause {
    fn from(record: SettingRecord) -> Self {
        Self { since: Mono::ZERO, until: record.lifetime_seconds.map(Mono::from_secs_f64) }
    }
}

/// All that the operator set on one host: what undo restores.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct OperatorSettings {
    /// The override, if any.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub overriding: Option<Override>,
    /// The pause, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The refusal budget in place of the configured one, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u32>,
}

impl Blank for OperatorSettings {
    const BLANK: &'static Self = &Self { overriding: None, pause: None, budget: None };
}

/// What became of a command.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandResult {
    /// How many hosts changed (1 for the whole crawl).
    pub changed: usize,
    /// The first of them.
    pub first: Option<HostId>,
    /// Hosts left alone, with the reason that the first of them gave.
    pub skipped: Vec<(HostId, SkipReason)>,
    /// One line for the footer, without a host's name.
    pub summary: String,
}

/// Why a command left a host alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// The value asked for is outside [`RATE_RANGE`] or [`CAPACITY_RANGE`], or not a number.
    OutOfRange,
    /// It is so already.
    Already,
    /// There is no hold to end.
    NotHeld,
    /// The server asked for this hold: wake must be confirmed.
    ServerAsked,
    /// Undo or redo: the host's settings were changed since.
    ChangedSince,
    /// No such host.
    Unknown,
}

impl SkipReason {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfRange => "value out of range, old value kept",
            Self::Already => "already so",
            Self::NotHeld => "no hold to end",
            Self::ServerAsked => "the server asked for this hold",
            Self::ChangedSince => "changed since",
            Self::Unknown => "no such host",
        }
    }
}
