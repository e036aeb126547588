//! The figures of the README: measured, printed, never asserted.
//!
//! `cargo bench --bench figures -- [controller|memory|fetch|follow|pace|frame|idle|pause|review|lab|store|simulate|prior]...` runs those that are named,
//! or all. Every figure names what it is to reach; a machine that is busy with something else gives worse ones, so
//! the load average is printed, too. All servers are on loopback. What runs in a process of its own (the crawl, the
//! bare client, what is weighed) is this program again with `child` in front, or the `crawldeck` binary itself.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program: it reads clocks, prints, and ends at the first surprise"
)]

mod controller;
mod crawl;
mod fetch;
mod follow;
mod frame;
mod idle;
mod lab;
mod memory;
mod pace;
mod pause;
mod prior;
mod review;
mod server;
mod simulate;
mod store;
mod table;

use table::Table;

// The allocator of the binary, so that both sides of a comparison have the same.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Figure = fn(&mut Table);

/// All figures, in the order in which they are told.
const FIGURES: [(&str, Figure); 13] = [
    ("controller", controller::measure),
    ("memory", memory::measure),
    ("fetch", fetch::measure),
    ("follow", follow::measure),
    ("pace", pace::measure),
    ("frame", frame::measure),
    ("idle", idle::measure),
    ("pause", pause::measure),
    ("review", review::measure),
    ("lab", lab::measure),
    ("store", store::measure),
    ("simulate", simulate::measure),
    ("prior", prior::measure),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["child", "memory", kind] => return memory::child(kind),
        ["child", "demo", dir, memory] => return prior::child(dir, memory),
        ["child", "site"] => return follow::child(),
        ["child", "bare", rest @ ..] => return fetch::child(rest),
        ["child", "store", rest @ ..] => return store::part(rest),
        _ => {}
    }
    if let Some(unknown) = words.iter().find(|word| !FIGURES.iter().any(|(name, _)| name == *word)) {
        let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no figure {unknown:?}; there are {}", names.join(", "));
        std::process::exit(2);
    }
    let mut table = Table::default();
    for (name, measure) in FIGURES {
        if words.is_empty() || words.contains(&name) {
            eprintln!("{name} …");
            measure(&mut table);
        }
    }
    println!("{table}");
}
