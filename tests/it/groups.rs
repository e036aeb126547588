//! Hosts that share a bucket: the controller with many hosts and one server in virtual time, and whole crawls.

mod crawls;
mod properties;
mod rules;
mod suspicions;
pub(crate) mod world;
