//! Crawldeck: a terminal dashboard crawl supervisor.
//!
//! What holds throughout (more in `ARCHITECTURE.md`): the core does no I/O and reads no clock; one task owns
//! all state; an override changes a rate, never a hold; controllers learn under every override and pause; no
//! bucket ever holds more than its capacity; every act of the operator is journaled and has an inverse; a dead
//! terminal cannot slow the crawl; everything that grows has a bound.
//!
//! Read the modules in this order; it is the story of a request.
//!
//! * [`text`] — the one sanitiser: foreign text becomes `Clean` or goes nowhere.
//! * [`clock`] — the only file that reads time.
//! * [`control`] — **the core**: buckets, the adaptive controller, holds, commands. Pure.
//! * [`config`] — what the user configured, checked.
//! * [`crawl`] — frontier, engine, fetching: the engine's task alone changes the controller.
//! * [`archive`] — what a crawl keeps of what it fetched: WARC files, a tree of bodies.
//! * [`journal`] — what is persisted, and how it is read back.
//! * [`store`] — what a crawl must not lose: URLs, their fates, states of hosts; written so that it survives anything.
//! * [`memory`] — what hosts bore, kept across runs: a small file, a model where one is wanted, its command.
//! * [`review`] — the text side of `crawldeck review`.
//! * [`state`] — the commands that look at what a run holds, or put something back.
//! * [`fault`] — panics that tests of the whole program ask for.
//! * [`logging`] — diagnostics into `crawldeck.log`, never onto the terminal.
//! * [`sim`] — servers as pure models, and crawls against them in virtual time; [`simulate`] — its text side.
//! * [`demo`] — the models of [`sim`] behind real sockets on loopback.
//! * [`cli`] — what can be typed; [`commands`] — the commands that need no engine.
//! * [`headless`] — status lines when there is no terminal.
//! * [`watch`] — what passes between the engine and whoever watches it.
//! * [`reload`] — the configuration file, read again on request and when it changes.
//! * [`session`] — one crawl wired together; [`signals`] — signals become requests; [`launch`] — from what was
//!   typed to a session.
//! * [`tui`] — the dashboard: sees snapshots, sends requests, holds nothing up.

pub mod archive;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod control;
pub mod crawl;
pub mod demo;
pub mod fault;
pub mod headless;
pub mod journal;
pub mod launch;
pub mod logging;
pub mod memory;
pub mod reload;
pub mod review;
pub mod session;
pub mod signals;
pub mod sim;
pub mod simulate;
pub mod state;
pub mod store;
pub mod text;
pub mod tui;
pub mod watch;
