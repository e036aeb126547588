//! What hosts bore, kept across runs: a small file in the user's data directory, shared by all crawls.
//!
//! What is remembered and what it proposes is [`crate::control::prior`]; here are the file ([`mod@file`]), the model that is
//! trained where one is wanted ([`forest`]), how a crawl uses both ([`keeper`]), and `crawldeck memory` ([`command`]).

pub mod command;
pub mod file;
pub mod forest;
pub mod keeper;

pub use file::{Memory, MemoryError, Remembered};
pub use keeper::Keeper;
