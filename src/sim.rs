//! Servers as pure models: `respond(now, request) → response`, time passed in, chance from a seed.
//!
//! The same models stand behind the sockets of the demo and, in virtual time, behind a simulation.
//! A [`ServerModel`] is put together from a [`ServerSpec`]: a limit that may drift, a site, and the
//! habits that make servers hard to please (lockouts, bans, outages, queues). Nothing here opens a
//! socket, reads a clock or knows who asks; the network's own delay is the caller's to add.

pub mod character;
pub mod drift;
pub mod habit;
pub mod limit;
pub mod model;
pub mod random;
pub mod site;

pub use character::Character;
pub use drift::Drift;
pub use habit::{Ban, How, Latency, Outages, Overload};
pub use limit::{Limit, Limiter};
pub use model::{Close, HintHeaders, RetryAfter, ServerModel, ServerSpec, SimRequest, SimResponse};
pub use random::Random;
pub use site::{Redirects, Robots, SimBody, Site};
