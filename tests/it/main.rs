//! All integration tests, in one binary: each more would link everything again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by a panic")]

mod demo_servers;
mod lab;
mod sim;
mod support;
