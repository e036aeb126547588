//! All integration tests, in one binary: each more would link everything again.

mod tui_pty;

#[test]
fn starts() {}
