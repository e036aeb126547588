//! The `crawldeck` binary: parse, choose, exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use crawldeck::cli::{Cli, Command};
use crawldeck::{commands, launch, state};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let here = Path::new(".");
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let code = match Cli::parse().command {
        Command::Run(args) => launch::run(args, here),
        Command::Demo(args) => launch::demo(args),
        Command::Review(args) => launch::review(args, &mut out),
        Command::Status(args) => state::status(&args.dir, &mut out, &mut err),
        Command::Export(args) => state::export(&args, &mut out, &mut err),
        Command::Retry(args) => state::retry(&args, &mut out, &mut err),
        Command::Memory(args) => launch::memory(&args.act, here, &mut out, &mut err),
        Command::Check(args) => launch::check(args, here, &mut out, &mut err),
        Command::Simulate(args) => launch::simulate(&args, here, &mut out, &mut err),
        Command::Completions(args) => commands::completions(args.shell, &mut out),
    };
    ExitCode::from(code)
}
