//! The text side of `crawldeck simulate`: what was asked becomes runs, the runs a table, JSON or a picture.
//!
//! The result goes to `out`; errors and the progress bar to `err`, the bar only if that is a terminal.

mod table;

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::{Seeds, SimulateArgs, SimulatedController};
use crate::commands::{DONE, FAILED, USAGE};
use crate::control::{ControllerKind, Settings};
use crate::sim::{Candidate, Job, Peer, Report, SimServer, run_jobs};

/// The seeds that are taken when none are named.
const SEEDS: Seeds = Seeds { from: 1, to: 1 };

/// One run as JSON has it, under the keys that scripts know.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Row<'a> {
    server: &'a str,
    controller: &'a str,
    seed: u64,
    #[serde(flatten)]
    report: &'a Report,
}

/// A controller under the name that it was asked for by.
struct Contender {
    name: &'static str,
    candidate: Candidate,
}

/// `crawldeck simulate`: the exit code. `settings` are the controller's own, as configured.
pub fn simulate(args: &SimulateArgs, settings: &Settings, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let asked = match Asked::of(args, settings) {
        Ok(asked) => asked,
        Err(told) => {
            // Nobody is left to be told about a stream that failed.
            let _ = writeln!(err, "{told}").and_then(|()| err.flush());
            return USAGE;
        }
    };
    let jobs = asked.jobs();
    let reports = run_jobs(&jobs, |_| {});
    let written = if args.json { asked.json(&reports, out) } else { table::write(&asked, &reports, out) };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => FAILED,
        _ => DONE,
    }
}

/// What is to be run.
struct Asked {
    servers: Vec<SimServer>,
    contenders: Vec<Contender>,
    seeds: Seeds,
}

impl Asked {
    fn of(args: &SimulateArgs, settings: &Settings) -> Result<Self, String> {
        let servers = SimServer::built_in();
        let contenders = match args.controllers.as_slice() {
            [] => vec![configured(settings)],
            named => named.iter().map(|one| contender(*one, settings)).collect::<Result<_, _>>()?,
        };
        Ok(Self { servers, contenders, seeds: args.seeds.unwrap_or(SEEDS) })
    }

    /// All runs: by server, then controller, then seed.
    fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for server in &self.servers {
            for Contender { candidate, .. } in &self.contenders {
                jobs.extend((self.seeds.from..=self.seeds.to).map(|seed| Job { server, candidate, seed }));
            }
        }
        jobs
    }

    /// The reports with their names, a server and a controller at a time.
    fn groups<'a>(
        &'a self,
        reports: &'a [Report],
    ) -> impl Iterator<Item = (&'a SimServer, &'a Contender, &'a [Report])> {
        let pairs = self.servers.iter().flat_map(|server| self.contenders.iter().map(move |one| (server, one)));
        let seeds = usize::try_from(self.seeds.to - self.seeds.from + 1).unwrap_or(usize::MAX);
        pairs.zip(reports.chunks(seeds.max(1))).map(|((server, one), reports)| (server, one, reports))
    }

    fn json(&self, reports: &[Report], out: &mut dyn Write) -> io::Result<()> {
        let rows = self.groups(reports).flat_map(|(server, contender, reports)| {
            reports.iter().zip(self.seeds.from..).map(move |(report, seed)| Row {
                server: &server.id,
                controller: contender.name,
                seed,
                report,
            })
        });
        for (index, row) in rows.enumerate() {
            out.write_all(if index == 0 { b"[" } else { b",\n " })?;
            serde_json::to_writer(&mut *out, &row)?;
        }
        out.write_all(b"]\n")
    }
}

/// The controller of the configuration.
fn configured(settings: &Settings) -> Contender {
    let kind = settings.policies.first().map_or(ControllerKind::default(), |policy| policy.kind);
    core(kind, settings)
}

fn contender(named: SimulatedController, settings: &Settings) -> Result<Contender, String> {
    let peer = |name, peer| Ok(Contender { name, candidate: Candidate::Peer(peer) });
    match named {
        SimulatedController::Adaptive => Err("the controller `adaptive` is not there yet; write halving".to_owned()),
        SimulatedController::Halving => Ok(core(ControllerKind::Halving, settings)),
        SimulatedController::Static => Ok(core(ControllerKind::Static, settings)),
        SimulatedController::Mission => peer("mission", Peer::Mission),
        SimulatedController::ScrapyAutothrottle => peer("scrapy-autothrottle", Peer::ScrapyAutothrottle),
        SimulatedController::Zeno => peer("zeno", Peer::Zeno),
        SimulatedController::AwsCubic => peer("aws-cubic", Peer::AwsCubic),
        SimulatedController::Heritrix => peer("heritrix", Peer::Heritrix),
        SimulatedController::Crawlee => peer("crawlee", Peer::Crawlee),
    }
}

/// The real core with this controller.
fn core(kind: ControllerKind, settings: &Settings) -> Contender {
    let mut settings = settings.clone();
    for policy in &mut settings.policies {
        policy.kind = kind;
    }
    let name = match kind {
        ControllerKind::Halving => "halving",
        ControllerKind::Static => "static",
    };
    Contender { name, candidate: Candidate::Core(Box::new(settings)) }
}
