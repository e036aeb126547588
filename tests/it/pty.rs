//! The real binary on a real terminal against servers that count: keys and their effect on the wire, every
//! way to leave, and every way in which a terminal can vanish or misbehave.

mod foreign;
mod hangup;
mod keys;
mod leaving;
mod signals;
mod stops;
mod terminal;
