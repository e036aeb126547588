//! The command line: clap definitions, nothing else.
//!
//! Usage errors end with exit code 2 and text on stderr (clap's own doing). What a command does is
//! written elsewhere; here stands only what can be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::config::units::parse_duration;
use crate::control::command::{CAPACITY_RANGE, RATE_RANGE};

/// Terminal dashboard crawl supervisor.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "crawldeck", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum Command {
    /// Crawl with the dashboard; without a terminal, plain progress lines on stderr.
    Run(RunArgs),
    /// The dashboard against simulated hosts on loopback: nothing leaves the machine.
    Demo(DemoArgs),
    /// The journal of a run, live or finished.
    Review(ReviewArgs),
    /// What a run holds, without touching it.
    Status(StatusArgs),
    /// URLs of a run, with reasons: a list that -u takes.
    Export(ExportArgs),
    /// Put URLs that failed back, for the next run on the folder.
    Retry(RetryArgs),
    /// What hosts bore in earlier runs: list it, forget it.
    Memory(MemoryArgs),
    /// Validate a configuration: every error with its place and what to write instead.
    Check(CheckArgs),
    /// The real controller against simulated servers in virtual time.
    Simulate(SimulateArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
}

/// `crawldeck run`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct RunArgs {
    /// URLs to crawl.
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub urls: Vec<String>,
    /// Configuration (default: ./config.toml if it exists, else built-in defaults).
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// File with a URL a line, `#` comments; `-` is stdin; may repeat.
    #[arg(short = 'u', long = "urls", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub url_files: Vec<PathBuf>,
    /// Run folder; a crawl that began in it goes on.
    #[arg(short, long, value_name = "DIR", default_value = "./crawl", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Original rate of hosts without their own entry, tokens per second.
    #[arg(long, value_name = "R", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Original capacity of hosts without their own entry, tokens.
    #[arg(long, value_name = "C", value_parser = capacity, allow_negative_numbers = true)]
    pub capacity: Option<f64>,
    /// Fetches in flight, all hosts together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub concurrency: Option<u32>,
    /// No dashboard.
    #[arg(long)]
    pub headless: bool,
}

/// `crawldeck demo`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct DemoArgs {
    /// Run folder (default: a fresh temporary one).
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// No dashboard.
    #[arg(long)]
    pub headless: bool,
    /// End by itself after this long, such as 20s.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub lasting: Option<Duration>,
}

/// `crawldeck review`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct ReviewArgs {
    /// Run folder.
    #[arg(value_name = "DIR", default_value = "./crawl", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Another run folder, to compare with on the screen.
    #[arg(value_name = "OTHER", conflicts_with_all = ["summary", "json", "csv", "svg", "suggest"], value_hint = ValueHint::DirPath)]
    pub other: Option<PathBuf>,
    /// Plain text instead of the screen.
    #[arg(long, conflicts_with_all = ["json", "csv", "svg", "suggest"])]
    pub summary: bool,
    /// The summary as one JSON object.
    #[arg(long, conflicts_with_all = ["csv", "svg", "suggest"])]
    pub json: bool,
    /// Write the requests of the run to FILE as CSV.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "suggest"], value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Draw the timeline into FILE as an SVG picture; `-` is the output.
    #[arg(long, value_name = "FILE", conflicts_with = "suggest", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Rate and capacity of each host that met a limit, as configuration.
    #[arg(long)]
    pub suggest: bool,
}

/// `crawldeck status`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct StatusArgs {
    /// Run folder.
    #[arg(value_name = "DIR", default_value = "./crawl", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// `crawldeck export`.
#[derive(Clone, PartialEq, Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub struct ExportArgs {
    /// Run folder.
    #[arg(value_name = "DIR", default_value = "./crawl", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// URLs that are not done.
    #[arg(long, group = "which")]
    pub pending: bool,
    /// URLs that were given up.
    #[arg(long, group = "which")]
    pub failed: bool,
    /// URLs with a final answer.
    #[arg(long, group = "which")]
    pub done: bool,
    /// URLs that were never sent.
    #[arg(long, group = "which")]
    pub skipped: bool,
}

/// `crawldeck retry`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct RetryArgs {
    /// Run folder.
    #[arg(value_name = "DIR", default_value = "./crawl", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// URLs that were given up.
    #[arg(long, required_unless_present = "held")]
    pub failed: bool,
    /// URLs that were held back as traps until the end.
    #[arg(long)]
    pub held: bool,
}

/// `crawldeck memory`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct MemoryArgs {
    /// What to do.
    #[command(subcommand)]
    pub act: MemoryAct,
}

/// What can be done with the memory.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum MemoryAct {
    /// The hosts, a line each: limit, burst, when it was measured, what refusals cost.
    List(MemoryListArgs),
    /// Forget hosts. A crawl that is asking one of them now will remember it again.
    Forget(MemoryForgetArgs),
}

/// `crawldeck memory list`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct MemoryListArgs {
    /// Only this host, or hosts that the glob matches.
    #[arg(value_name = "HOST|GLOB")]
    pub hosts: Option<String>,
    /// Which memory.
    #[command(flatten)]
    pub place: MemoryPlace,
}

/// `crawldeck memory forget`.
#[derive(Clone, PartialEq, Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub struct MemoryForgetArgs {
    /// This host, or hosts that the glob matches.
    #[arg(value_name = "HOST|GLOB", group = "which")]
    pub hosts: Option<String>,
    /// All of them: removes the file, whatever is in it.
    #[arg(long, group = "which")]
    pub all: bool,
    /// Which memory.
    #[command(flatten)]
    pub place: MemoryPlace,
}

/// Which memory is meant.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct MemoryPlace {
    /// The memory file (default: `memory` of the configuration, else the user's own).
    #[arg(long, value_name = "FILE", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Configuration (default: ./config.toml if it exists, else built-in defaults).
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// `crawldeck check`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct CheckArgs {
    /// Configuration (default: ./config.toml).
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// `crawldeck simulate`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct SimulateArgs {
    /// Servers of your own (default: the built-in ones).
    #[arg(long, value_name = "FILE", conflicts_with = "random", value_hint = ValueHint::FilePath)]
    pub servers: Option<PathBuf>,
    /// Simulate N random servers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub random: Option<u32>,
    /// What fixes the random servers.
    #[arg(long, value_name = "S", requires = "random")]
    pub random_seed: Option<u64>,
    /// Controllers to compare (default: the configured one).
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    pub controllers: Vec<SimulatedController>,
    /// Repetitions, both ends included; a seed fixes everything.
    #[arg(long, value_name = "FROM..TO", value_parser = seeds)]
    pub seeds: Option<Seeds>,
    /// The controller's own settings (default: ./config.toml if it exists, else built-in defaults).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// One object per server, controller and seed, as an array.
    #[arg(long)]
    pub json: bool,
    /// Draw the rate against the hidden limit of one server.
    #[arg(long, value_name = "SERVER", conflicts_with = "json")]
    pub plot: Option<String>,
}

/// `crawldeck completions`.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// The controllers that `simulate` knows: ours, and the rules of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SimulatedController {
    /// The controller `adaptive`.
    Adaptive,
    /// The controller `halving`.
    Halving,
    /// The controller `static`.
    Static,
    /// The plain published rules: one sleeping worker a refusal.
    Mission,
    /// Scrapy's AutoThrottle.
    ScrapyAutothrottle,
    /// Zeno.
    Zeno,
    /// The AWS SDKs' adaptive retry mode.
    AwsCubic,
    /// Heritrix.
    Heritrix,
    /// Crawlee.
    Crawlee,
    /// Who knows the hidden limit: what nobody can reach.
    Oracle,
}

/// A range of seeds, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

fn rate(typed: &str) -> Result<f64, String> {
    number(typed, &RATE_RANGE)
}

fn capacity(typed: &str) -> Result<f64, String> {
    number(typed, &CAPACITY_RANGE)
}

fn number(typed: &str, range: &std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number = typed.parse::<f64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("write a number from {} to {}", range.start(), range.end()))
}

fn duration(typed: &str) -> Result<Duration, String> {
    let duration = parse_duration(typed).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "write a duration, such as 20s, 5m or 1h".to_owned())
}

fn seeds(typed: &str) -> Result<Seeds, String> {
    let (from, to) = typed.split_once("..").unwrap_or((typed, typed));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from <= to => Ok(Seeds { from, to }),
        _ => Err("write the first and the last seed, such as 1..20, or one seed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_takes_what_the_contract_names() {
        let line = "crawldeck run http://a.test/ -c c.toml -u a.txt -u - -d out --rate 0.5 --capacity 8 --concurrency 3 \
                    --headless";
        let Ok(Command::Run(run)) = parse(line) else { panic!("run") };
        assert_eq!(run.urls, ["http://a.test/"]);
        assert_eq!(run.config, Some("c.toml".into()));
        assert_eq!(run.url_files, [PathBuf::from("a.txt"), PathBuf::from("-")]);
        assert_eq!((run.dir, run.rate, run.capacity), ("out".into(), Some(0.5), Some(8.0)));
        assert_eq!((run.concurrency, run.headless), (Some(3), true));
        let Ok(Command::Run(run)) = parse("crawldeck run") else { panic!("run") };
        assert_eq!((run.dir, run.config, run.headless), ("./crawl".into(), None, false));
    }

    #[test]
    fn the_other_commands_take_what_the_contract_names() {
        for line in [
            "crawldeck demo",
            "crawldeck demo -d out",
            "crawldeck demo --headless --for 20s",
            "crawldeck review",
            "crawldeck review out --summary",
            "crawldeck review out --json",
            "crawldeck review out --csv file.csv",
            "crawldeck review out --svg file.svg",
            "crawldeck review out --suggest",
            "crawldeck review out other",
            "crawldeck status",
            "crawldeck status out",
            "crawldeck export --pending",
            "crawldeck export out --failed",
            "crawldeck export --done out",
            "crawldeck export --skipped",
            "crawldeck retry --failed",
            "crawldeck retry out --failed",
            "crawldeck memory list",
            "crawldeck memory list *.example --file m",
            "crawldeck memory forget a.example -c c.toml",
            "crawldeck memory forget --all",
            "crawldeck check",
            "crawldeck check file.toml",
            "crawldeck simulate",
            "crawldeck simulate --servers s.toml --controllers adaptive,halving,static,mission,scrapy-autothrottle,zeno",
            "crawldeck simulate --random 10 --random-seed 3 --controllers aws-cubic,heritrix,crawlee --seeds 1..20",
            "crawldeck simulate --config c.toml --json",
            "crawldeck simulate --plot bucket-2 --seeds 7",
            "crawldeck completions bash",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn usage_errors_end_with_2() {
        for line in [
            "crawldeck",
            "crawldeck fly",
            "crawldeck run --rate 0",
            "crawldeck run --rate nan",
            "crawldeck run --rate -1",
            "crawldeck run --capacity 0.5",
            "crawldeck run --capacity inf",
            "crawldeck run --concurrency 0",
            "crawldeck run --concurrency 65537",
            "crawldeck run --unknown",
            "crawldeck demo --for 0s",
            "crawldeck demo --for 20",
            "crawldeck export",
            "crawldeck export --done --failed",
            "crawldeck retry",
            "crawldeck memory",
            "crawldeck memory forget",
            "crawldeck memory forget a.example --all",
            "crawldeck memory list --file m -c c.toml",
            "crawldeck review --suggest --json",
            "crawldeck review --summary --json",
            "crawldeck review --csv a --svg b",
            "crawldeck review a b --summary",
            "crawldeck simulate --seeds 20..1",
            "crawldeck simulate --controllers unknown",
            "crawldeck simulate --random-seed 1",
            "crawldeck completions tcsh",
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.use_stderr(), "{line}");
        }
        for line in ["crawldeck --version", "crawldeck --help", "crawldeck help run", "crawldeck run --help"] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 0, "{line}");
        }
    }
}
