//! How many requests a second are simulated, by the real core and by the plain rules, on one core and on all.

use std::time::Instant;

use crawldeck::control::{ControllerKind, Settings};
use crawldeck::sim::{Candidate, Job, Peer, SimServer, run, run_jobs};

use crate::table::{Table, thousands};

/// Runs of each server and candidate when all cores work.
const SEEDS: u64 = 4;
const TO_REACH: &str = "≥ 300,000/s";

/// Simulated requests by second, all built-in servers.
pub(crate) fn measure(table: &mut Table) {
    let servers = SimServer::built_in();
    let core = |kind| {
        let mut settings = Settings::default();
        settings.policies[0].kind = kind;
        Candidate::Core(Box::new(settings))
    };
    for (name, candidate) in [
        ("halving", core(ControllerKind::Halving)),
        ("static", core(ControllerKind::Static)),
        ("mission", Candidate::Peer(Peer::Mission)),
    ] {
        let start = Instant::now();
        let requests: u64 = servers.iter().map(|server| run(server, &candidate, 1).requests).sum();
        let alone = requests as f64 / start.elapsed().as_secs_f64();
        let jobs: Vec<Job<'_>> = servers
            .iter()
            .flat_map(|server| (1..=SEEDS).map(|seed| Job { server, candidate: &candidate, seed }).collect::<Vec<_>>())
            .collect();
        let start = Instant::now();
        let requests: u64 = run_jobs(&jobs, |_| {}).iter().map(|report| report.requests).sum();
        let all = requests as f64 / start.elapsed().as_secs_f64();
        let measured = format!("{}/s on one core, {}/s on all", thousands(alone), thousands(all));
        table.add(format!("simulated requests, {name}, built-in servers"), measured, TO_REACH);
    }
}
