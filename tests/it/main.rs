//! All integration tests, in one binary: each more would link everything again.

mod architecture;
mod licences;

#[test]
fn starts() {}
