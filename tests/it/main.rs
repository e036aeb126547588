//! All integration tests, in one binary: each more would link everything again.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod adaptive_figures;
mod adaptive_properties;
mod adaptive_worlds;
mod architecture;
mod archive;
mod cli;
mod control_properties;
mod crash;
mod crash_links;
mod crawl;
mod demo_servers;
mod disk_trouble;
mod fetch;
mod groups;
mod headless;
mod journal;
mod lab;
mod licences;
mod live_timeline;
mod memory;
mod pty;
mod reload;
mod reproduction;
mod resume;
mod review;
mod review_pty;
mod scenario;
mod sim;
mod simulate;
mod state;
mod store;
mod support;
mod timeline;
mod tui_pty;
mod wanted;
