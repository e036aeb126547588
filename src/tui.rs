//! The dashboard: the only place that draws or reads keys. It sees snapshots and sends requests, and
//! holds nothing that the crawl could wait for.
//!
//! State, change and picture stand apart: [`model`] is plain data, [`update`] turns keys into changes and
//! requests without any I/O, [`view`] draws a model into a buffer. [`run`] owns the thread that joins them.
//!
//! * [`terminal`] — enters and leaves the terminal, writes frames; [`input`] — reads keys; [`key`] — their names.
//! * [`keymap`] — actions and keys; [`spec`] — what the override prompt understands; [`filter`] — which hosts;
//!   [`command_line`] — the same verbs in words.
//! * [`log_screen`] — which lines of the log.
//! * [`order`] — which host stands where; [`why`] — what its row says; [`sentences`] — what its detail says;
//!   [`history`] — how it was.
//! * [`theme`], [`paint`], [`widget`], [`mod@format`] — how things look; [`picture`] — a frame as SVG.
//! * `live` — the timeline in the dashboard; [`plot`] — which part of one is shown; [`review`] — the screen of `crawldeck review`.
//! * [`sample`] — hosts made up for tests and pictures.

pub mod command_line;
pub mod filter;
pub mod format;
pub mod history;
pub mod input;
pub mod key;
pub mod keymap;
mod live;
pub mod log_screen;
pub mod model;
pub mod order;
pub mod paint;
pub mod picture;
pub mod plot;
pub mod review;
pub mod run;
pub mod sample;
pub mod sentences;
pub mod spec;
pub mod terminal;
pub mod theme;
pub mod update;
pub mod view;
pub mod why;
pub mod widget;

pub use run::{TuiError, TuiHandle, TuiOptions, spawn};
pub use terminal::terminal_available;
