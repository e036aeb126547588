//! Servers as pure models, and crawls against them in virtual time. Chance comes from a seed.
//!
//! A [`ServerModel`] is put together from a [`ServerSpec`]: a limit that may drift, a site, and the
//! habits that make servers hard to please (lockouts, bans, outages, queues). `respond(now, request) →
//! response`, time passed in: the same models stand behind the sockets of the demo and behind the
//! simulation. Nothing here opens a socket or reads a clock.
//!
//! [`run()`] plays a [`Client`](client::Client) against a [`SimServer`] from event to event: the real core,
//! as the crawl uses it, or the published rules of others. A [`Report`] has the figures.

pub mod batch;
mod blind;
pub mod character;
pub mod client;
mod core;
pub mod drift;
pub mod habit;
pub mod limit;
mod measure;
pub mod model;
pub mod peers;
pub mod random;
pub mod run;
pub mod server;
pub mod site;
pub mod supply;

pub use batch::{Job, run_jobs};
pub use character::Character;
pub use drift::Drift;
pub use habit::{Ban, How, Latency, Outages, Overload};
pub use limit::{Limit, Limiter};
pub use measure::{Course, Report};
pub use model::{Close, Decided, Fate, HintHeaders, RetryAfter, ServerModel, ServerSpec, SimRequest, SimResponse};
pub use peers::Peer;
pub use random::Random;
pub use run::{Candidate, Scenario, Seen, run, run_all, run_visits};
pub use server::SimServer;
pub use site::{Redirects, Robots, SimBody, Site};
pub use supply::Supply;
