//! All integration tests, in one binary: each more would link everything again.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod fetch;
mod support;

#[test]
fn starts() {}
