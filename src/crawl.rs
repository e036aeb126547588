//! The crawl: frontier, engine, fetching. The engine's task is the only one that changes the controller.

pub mod address;
pub mod exchange;
pub mod input;
pub mod robots;
