//! The core: who may send when, how fast, and why. Pure: no I/O, no clock, no threads, no globals.
//!
//! Time and randomness come in as arguments. The crawl, the simulator and the tests run this same code.
//!
//! Read it in this order: [`bucket`] (tokens), [`adaptive`] (how a rate learns), [`hold`] (when a host
//! may send at all), [`host`] (all of one host), `group` (what hosts share), [`controller`] (all hosts: grants and answers),
//! [`operator`] (commands and undo), [`snapshot`] (what the outside sees).

pub mod adaptive;
pub mod backoff;
pub mod bucket;
pub mod command;
pub mod concern;
pub mod controller;
pub mod decision;
pub mod eta;
mod group;
mod grouping;
pub mod hints;
mod history;
pub mod hold;
pub mod host;
pub mod latency;
pub mod operator;
pub mod outcome;
mod paces;
pub mod policy;
pub mod prior;
pub mod reconfigure;
pub mod retry_after;
mod saved;
pub mod shared;
mod site;
pub mod snapshot;
mod sparse;
mod sweep;
mod tell;
pub mod time;
mod view;
mod wake_queue;
pub mod window;

use serde::{Deserialize, Serialize};

pub use command::{
    Amount, Command, CommandResult, Lifetime, OperatorSettings, Override, OverrideSpec, Pause, SkipReason, WakeEven,
    budget_words,
};
pub use concern::{Concern, ConcernKind, Evidence};
pub use controller::{Controller, Grant, Judgement};
pub use decision::{Decision, Value, What, Who};
pub use group::{GroupId, SavedGroup};
pub use hints::{Hint, Paced};
pub use history::SavedHistory;
pub use outcome::{Answer, Class, Outcome, RequestKind, Verdict};
pub use policy::{BackoffPolicy, ControllerKind, EndpointPolicy, GroupBy, Original, Policy, Settings, Shape};
pub use reconfigure::Placement;
pub use saved::SavedHost;
pub use shared::{Origin, Sign};
pub use snapshot::{
    Code, CodeCount, EndpointView, FailureCode, GroupView, Hold, HoldReason, HostCounts, HostState, HostView, Limiting,
    Trend,
};
pub use sweep::REFUSING;
pub use tell::rate_figures;
pub use time::Mono;

/// A host, by its number in the controller: dense, from 0, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub u32);

/// A lane inside a host: 0 = the host's own bucket only, `k` = its endpoint `k - 1` as well.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(pub u8);

/// A policy, by its position in [`Settings::policies`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyId(pub u16);
