//! One wire request at a time, against scripted servers on loopback: what is sent, what comes back,
//! what a failure is called.

mod bodies;
pub(crate) mod connections;
mod endless;
mod heads;
pub(crate) mod kit;
mod links;
mod redirects;
mod refusals;
