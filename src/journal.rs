//! The journal: what is persisted of a run, and how it is read back.

pub mod record;
