//! Whole crawls over real sockets, judged by what the servers saw and by what stands in the journal.

mod beside;
mod drips;
mod fates;
mod following;
mod lasting;
mod politeness;
mod robots;
mod scenes;
mod steering;
mod throttling;
mod traps;
