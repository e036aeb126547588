//! The commands that need no engine, and how a configuration is found.
//!
//! Results go to `out`, everything else to `err`: the caller says which streams these are. That nobody
//! reads them any more is no error of the command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::config::{Config, ConfigErrors, Outside};

/// Exit code: done.
pub const DONE: u8 = 0;
/// Exit code: the crawl could not go on.
pub const FAILED: u8 = 1;
/// Exit code: usage or configuration.
pub const USAGE: u8 = 2;
/// Exit code: stopped by a signal without drain.
pub const STOPPED: u8 = 130;

/// The file that is taken when none is named.
pub const CONFIG_HERE: &str = "config.toml";

/// The configuration of `-c FILE`, else of `config.toml` in `folder` (where the command was started) if
/// it exists, else the built-in defaults.
pub fn find_config(named: Option<&Path>, folder: &Path, outside: Outside<'_>) -> Result<Config, ConfigErrors> {
    match config_file(named, folder) {
        Some(path) => Config::load_with(&path, outside),
        None => Ok(Config::default()),
    }
}

/// The file that [`find_config`] reads, if there is one.
pub fn config_file(named: Option<&Path>, folder: &Path) -> Option<PathBuf> {
    named.map(Path::to_path_buf).or_else(|| config_here(folder))
}

/// `crawldeck check`: the exit code.
pub fn check(
    named: Option<&Path>,
    folder: &Path,
    outside: Outside<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let Some(path) = config_file(named, folder) else {
        say(err, format_args!("there is no {CONFIG_HERE} here; name the file: crawldeck check FILE"));
        return USAGE;
    };
    match Config::load_with(&path, outside) {
        Ok(_) => {
            say(out, format_args!("{}: ok", crate::text::Clean::new(path.to_string_lossy())));
            DONE
        }
        Err(errors) => {
            say(err, format_args!("{errors}"));
            USAGE
        }
    }
}

/// `crawldeck completions`: the exit code.
pub fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> u8 {
    // The generator panics on a stream that fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "crawldeck", &mut script);
    ignore_closed(out.write_all(&script).and_then(|()| out.flush()))
}

/// `config.toml` in `folder`, if there is one; its name alone where `folder` is the current one.
fn config_here(folder: &Path) -> Option<PathBuf> {
    let path = if folder == Path::new(".") { PathBuf::from(CONFIG_HERE) } else { folder.join(CONFIG_HERE) };
    // A dangling link or a folder of that name is an error to be told, not a reason for the defaults.
    path.symlink_metadata().is_ok().then_some(path)
}

fn say(to: &mut dyn Write, text: std::fmt::Arguments<'_>) {
    // Nobody is left to be told about a stream that failed.
    let _ = writeln!(to, "{text}").and_then(|()| to.flush());
}

/// A reader that has seen enough (`| head`) is no failure.
fn ignore_closed(written: io::Result<()>) -> u8 {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => FAILED,
        _ => DONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit code, stdout and stderr of `check`.
    fn checked(named: Option<&Path>, folder: &Path) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = check(named, folder, Outside::process(), &mut out, &mut err);
        (code, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
    }

    #[test]
    fn check_tells_success_on_stdout_and_errors_on_stderr() {
        let folder = tempfile::tempdir().expect("folder");
        let (code, out, err) = checked(None, folder.path());
        assert_eq!((code, out.as_str()), (USAGE, ""));
        assert!(err.contains("crawldeck check FILE"), "{err}");

        let here = folder.path().join(CONFIG_HERE);
        std::fs::write(&here, crate::config::DEFAULT_CONFIG).expect("written");
        let (code, out, err) = checked(None, folder.path());
        assert_eq!((code, err.as_str()), (DONE, ""));
        assert!(out.ends_with("config.toml: ok\n"), "{out}");

        let wrong = folder.path().join("wrong.toml");
        std::fs::write(&wrong, "[ui]\nfsp = 1\nfps = 0\n").expect("written");
        let (code, out, err) = checked(Some(&wrong), folder.path());
        assert_eq!((code, out.as_str()), (USAGE, ""));
        assert_eq!(err.lines().count(), 2, "{err}");
        assert!(err.lines().all(|line| line.contains("wrong.toml:")), "{err}");
    }

    #[test]
    fn the_file_here_is_found_and_a_named_one_must_exist() {
        let folder = tempfile::tempdir().expect("folder");
        let find = |named: Option<&Path>| find_config(named, folder.path(), Outside::process());
        assert_eq!(find(None).expect("defaults").ui.fps, 4);
        std::fs::write(folder.path().join(CONFIG_HERE), "[ui]\nfps = 9\n").expect("written");
        assert_eq!(find(None).expect("found").ui.fps, 9);
        let missing = folder.path().join("missing.toml");
        assert!(find(Some(&missing)).is_err());
    }

    #[test]
    fn completions_name_every_command_and_a_closed_pipe_is_no_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut script = Vec::new();
        assert_eq!(completions(clap_complete::Shell::Bash, &mut script), DONE);
        let script = String::from_utf8_lossy(&script);
        for command in
            ["run", "demo", "review", "status", "export", "retry", "memory", "check", "simulate", "completions"]
        {
            assert!(script.contains(command), "{command}");
        }
        assert_eq!(completions(clap_complete::Shell::Bash, &mut Closed), DONE);
    }
}
