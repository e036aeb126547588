//! Crawldeck: a terminal dashboard crawl supervisor.
//!
//! Read the modules in this order; it is the story of a request.
//!
//! * [`text`] — the one sanitiser: foreign text becomes `Clean` or goes nowhere.
//! * [`clock`] — the only file that reads time.
//! * [`control`] — **the core**: buckets, the adaptive controller, holds, commands. Pure.
//! * [`config`] — what the user configured, checked.
//! * [`crawl`] — frontier, engine, fetching: the engine's task alone changes the controller.
//! * [`journal`] — what is persisted, and how it is read back.
//! * [`watch`] — what passes between the engine and whoever watches it.
//! * [`tui`] — the dashboard: sees snapshots, sends requests, holds nothing up.

pub mod clock;
pub mod config;
pub mod control;
pub mod crawl;
pub mod journal;
pub mod text;
pub mod tui;
pub mod watch;
