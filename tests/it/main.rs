//! All integration tests, in one binary: each more would link everything again.

#[test]
fn starts() {}
