//! Memory of the controller per host, at a million hosts: what the process grew by, divided.
//!
//! Each kind in a fresh process, so that nothing freed before is counted in or out.

use std::process::Command;

use crawldeck::control::adaptive::Arc;
use crawldeck::control::backoff::SeededJitter;
use crawldeck::control::{Controller, ControllerKind, PolicyId, Settings};

use crate::controller::World;
use crate::table::Table;

const HOSTS: u32 = 1_000_000;

pub(crate) fn measure(table: &mut Table) {
    for (kind, figure, to_reach) in [
        ("idle", "controller memory per host, 1,000,000 hosts, idle", "≤ 128 B"),
        ("halving", "the same, each asked once, `halving`", "≤ 1,024 B"),
        ("adaptive", "the same, each asked once, `adaptive`", "≤ 1,024 B"),
    ] {
        let this = std::env::current_exe().expect("this program");
        let out = Command::new(this)
            .args(["child", "memory", kind])
            .env("MIMALLOC_PURGE_DELAY", "0")
            .output()
            .expect("a child");
        let bytes = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        table.add(figure, format!("{bytes} B"), to_reach);
    }
    size_of_state(table);
}

/// What the state of the controller `adaptive` takes of a hot host; a test bounds it with what is learned later.
fn size_of_state(table: &mut Table) {
    let bytes = size_of::<Arc>();
    table.add(
        "of that, the state of the controller `adaptive` before it has learned anything",
        format!("{bytes} B"),
        "≤ 512 B",
    );
}

/// Prints bytes per host.
pub(crate) fn child(kind: &str) {
    let order: Vec<u32> = (0..HOSTS).collect();
    let before = resident();
    let grown = match kind {
        "idle" => {
            let mut controller = Controller::new(Settings::default(), Box::new(SeededJitter::new(1)));
            for _ in 0..HOSTS {
                controller.add_host(PolicyId(0));
            }
            settle();
            let grown = resident() - before;
            drop(controller);
            grown
        }
        kind => {
            let kind = if kind == "adaptive" { ControllerKind::Adaptive } else { ControllerKind::Halving };
            let mut world = World::new(&order, kind);
            // Some more, so that everybody was answered.
            for _ in 0..HOSTS / 1_000 + 1 {
                world.run(1_000);
            }
            settle();
            let grown = resident() - before;
            drop(world);
            // What the bench itself keeps: a number a host.
            grown - 4 * u64::from(HOSTS)
        }
    };
    println!("{:.0}", grown as f64 / f64::from(HOSTS));
}

/// Lets the allocator give back what was freed while tables grew: it does so a little later, at its next work.
fn settle() {
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(std::hint::black_box(vec![0_u8; 1 << 20]));
    }
}

/// Bytes resident.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number");
    pages * 4096
}
