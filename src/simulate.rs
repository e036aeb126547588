//! The text side of `crawldeck simulate`: what was asked becomes runs, the runs a table, JSON or a picture.
//!
//! The result goes to `out`; errors and the progress bar to `err`, the bar only if that is a terminal.

pub mod chart;
mod plot;
mod progress;
mod table;

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::{Seeds, SimulateArgs, SimulatedController};
use crate::commands::{DONE, FAILED, USAGE};
use crate::config::load_servers;
use crate::control::{ControllerKind, Settings};
use crate::sim::{Candidate, Job, Peer, Report, Scenario, SimServer, Supply, run_all, run_jobs};
use crate::text::Clean;
use progress::Progress;

/// The seeds that are taken when none are named.
const SEEDS: Seeds = Seeds { from: 1, to: 1 };
/// What fixes the random servers when nothing is said.
const RANDOM_SEED: u64 = 1;
/// Runs at most: their reports are kept until the end.
const RUNS_MAX: u64 = 1_000_000;
/// Names of servers that a message lists at most.
const KNOWN_SHOWN: usize = 20;

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

/// What the result is shown on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paper {
    /// Columns.
    pub width: u16,
    /// Whether it takes more than ASCII.
    pub unicode: bool,
    /// Whether errors go to a terminal, where a bar may move.
    pub bar: bool,
}

/// `crawldeck simulate`: the exit code. `settings` are the controller's own, as configured.
pub fn simulate(
    args: &SimulateArgs,
    settings: &Settings,
    paper: Paper,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let asked = match Asked::of(args, settings) {
        Ok(asked) => asked,
        Err(told) => {
            // Nobody is left to be told about a stream that failed.
            let _ = writeln!(err, "{told}").and_then(|()| err.flush());
            return USAGE;
        }
    };
    let written = if args.plot.is_some() { asked.plot(paper, out) } else { asked.figures(args.json, paper, out, err) };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(err, "crawldeck: the result cannot be written: {error}").and_then(|()| err.flush());
            FAILED
        }
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
        let mut servers = match (&args.servers, args.random) {
            (Some(file), _) => load_servers(file).map_err(|errors| errors.to_string())?,
            (None, Some(count)) => SimServer::random(count, args.random_seed.unwrap_or(RANDOM_SEED)),
            (None, None) => SimServer::built_in(),
        };
        if let Some(wanted) = &args.plot {
            let known: Vec<String> = servers.iter().take(KNOWN_SHOWN).map(|server| server.id.clone()).collect();
            servers.retain(|server| server.id == *wanted);
            if servers.is_empty() {
                let told = format!("--plot: there is no server \"{wanted}\"; there are {}", known.join(", "));
                return Err(Clean::new(told).to_string());
            }
        }
        let contenders = match args.controllers.as_slice() {
            [] => vec![configured(settings)],
            named => named.iter().map(|one| contender(*one, settings)).collect::<Result<_, _>>()?,
        };
        let seeds = args.seeds.unwrap_or(SEEDS);
        let runs = (seeds.to - seeds.from).saturating_add(1).saturating_mul((servers.len() * contenders.len()) as u64);
        if runs > RUNS_MAX {
            return Err(format!("these are {runs} runs; ask for {RUNS_MAX} at most"));
        }
        Ok(Self { servers, contenders, seeds })
    }

    /// All runs at once, as a table or as JSON.
    fn figures(&self, json: bool, paper: Paper, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        let jobs = self.jobs();
        let mut progress = Progress::new(paper.bar.then_some(err), jobs.len());
        let reports = run_jobs(&jobs, |done| progress.tell(done));
        progress.end();
        if json { self.json(&reports, out) } else { table::write(self, &reports, out) }
    }

    /// The first seed of each controller, drawn.
    fn plot(&self, paper: Paper, out: &mut dyn Write) -> io::Result<()> {
        let ink = if paper.unicode { plot::Ink::UNICODE } else { plot::Ink::ASCII };
        for server in &self.servers {
            for (index, contender) in self.contenders.iter().enumerate() {
                let scenario = Scenario { hosts: vec![(server.clone(), Supply::Saturated)], crawlers: 1 };
                let Some(seen) = run_all(&scenario, &contender.candidate, self.seeds.from).pop() else { continue };
                if index > 0 {
                    writeln!(out)?;
                }
                writeln!(
                    out,
                    "{} against {}, seed {}: goodput {:.3}, {:.1} refused/h",
                    contender.name,
                    Clean::new(server.id.as_str()),
                    self.seeds.from,
                    seen.report.goodput,
                    seen.report.refused_per_hour,
                )?;
                writeln!(out, "requests/s (bars) and the hidden limit (line)")?;
                plot::draw(&seen.course, usize::from(paper.width), ink, out)?;
            }
        }
        Ok(())
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
        SimulatedController::Adaptive => Ok(core(ControllerKind::Adaptive, settings)),
        SimulatedController::Halving => Ok(core(ControllerKind::Halving, settings)),
        SimulatedController::Static => Ok(core(ControllerKind::Static, settings)),
        SimulatedController::Mission => peer("mission", Peer::Mission),
        SimulatedController::ScrapyAutothrottle => peer("scrapy-autothrottle", Peer::ScrapyAutothrottle),
        SimulatedController::Zeno => peer("zeno", Peer::Zeno),
        SimulatedController::AwsCubic => peer("aws-cubic", Peer::AwsCubic),
        SimulatedController::Heritrix => peer("heritrix", Peer::Heritrix),
        SimulatedController::Crawlee => peer("crawlee", Peer::Crawlee),
        SimulatedController::Oracle => peer("oracle", Peer::Oracle),
    }
}

/// The real core with this controller.
fn core(kind: ControllerKind, settings: &Settings) -> Contender {
    let mut settings = settings.clone();
    for policy in &mut settings.policies {
        policy.kind = kind;
    }
    let name = match kind {
        ControllerKind::Adaptive => "adaptive",
        ControllerKind::Halving => "halving",
        ControllerKind::Static => "static",
    };
    Contender { name, candidate: Candidate::Core(Box::new(settings)) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// A stream that takes nothing.
    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_result_that_cannot_be_written_is_told_but_not_that_nobody_reads_on() {
        let line = "crawldeck simulate --random 1 --seeds 1..1 --controllers static";
        let Command::Simulate(args) = Cli::parse_from(line.split(' ')).command else { panic!("another command") };
        let paper = Paper { width: 80, unicode: false, bar: false };
        for (kind, code, told) in [
            (io::ErrorKind::StorageFull, FAILED, "crawldeck: the result cannot be written: no storage space\n"),
            (io::ErrorKind::BrokenPipe, DONE, ""),
        ] {
            let mut err = Vec::new();
            assert_eq!(simulate(&args, &Settings::default(), paper, &mut Broken(kind), &mut err), code);
            assert_eq!(String::from_utf8(err).expect("text"), told);
        }
    }
}
