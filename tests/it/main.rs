//! All integration tests, in one binary: each more would link everything again.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod tui_pty;

#[test]
fn starts() {}
