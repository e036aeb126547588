//! The `crawldeck` binary.

fn main() {}
