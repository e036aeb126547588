//! The crawl: from URLs to answers. The engine's task is the only one that changes the controller.
//!
//! *input → frontier → (control) → worker → fetcher → engine → journal*

pub mod address;
pub mod engine;
pub mod exchange;
pub mod fetcher;
pub mod frontier;
pub mod hosts;
pub mod input;
pub mod job;
pub mod links;
pub mod robots;
pub mod scope;
pub mod throughput;
pub mod traps;
pub mod worker;
