//! `crawldeck memory list` and `crawldeck memory forget`.

use std::io::{self, Write};

use globset::{Glob, GlobMatcher};

use super::file::{Memory, MemoryError};
use crate::cli::MemoryAct;
use crate::clock::Wall;
use crate::commands::{DONE, FAILED, USAGE};
use crate::control::prior::Experience;
use crate::text::Clean;

/// Why the command cannot be done.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{0}")]
    Pattern(String),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("the result cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// Does it: the exit code.
pub fn run(act: &MemoryAct, memory: &Memory, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let done = match act {
        MemoryAct::List(args) => list(memory, args.hosts.as_deref(), out),
        MemoryAct::Forget(args) => forget(memory, args.hosts.as_deref(), out),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => DONE,
        // Whoever read it has seen enough.
        Err(CommandError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            // Nobody is left to be told about a stream that failed.
            let _ = writeln!(err, "crawldeck: {error}");
            if matches!(error, CommandError::Pattern(_)) { USAGE } else { FAILED }
        }
    }
}

/// Which hosts are meant: one by its key (that of an IPv6 address has brackets, as a glob has), or those that match.
struct Pattern(String, GlobMatcher);

impl Pattern {
    fn is_match(&self, host: &str) -> bool {
        host == self.0 || self.1.is_match(host)
    }
}

fn pattern(typed: &str) -> Result<Pattern, CommandError> {
    let key = host_of(typed.trim()).trim_end_matches('.').to_lowercase();
    match Glob::new(&key) {
        Ok(glob) if !key.is_empty() && !key.contains('/') => Ok(Pattern(key, glob.compile_matcher())),
        _ => Err(CommandError::Pattern(format!(
            "\"{}\" is no host and no glob; write a name such as a.example, or \"*.example\"",
            Clean::new(typed)
        ))),
    }
}

/// The host of a URL, with its port unless that is the scheme's own; what is no URL, as it was typed.
fn host_of(typed: &str) -> String {
    let url = url::Url::parse(typed).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let key = url.as_ref().and_then(|url| {
        let name = url.host_str()?.trim_end_matches('.');
        Some(url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}")))
    });
    key.unwrap_or_else(|| typed.to_owned())
}

fn list(memory: &Memory, hosts: Option<&str>, out: &mut dyn Write) -> Result<(), CommandError> {
    let pattern = hosts.map(pattern).transpose()?;
    let remembered = memory.read()?;
    let shown: Vec<(Clean, &Experience)> = remembered
        .iter()
        .filter(|(host, _)| pattern.as_ref().is_none_or(|pattern| pattern.is_match(host)))
        .map(|(host, experience)| (Clean::new(host.as_str()), experience))
        .collect();
    let width = shown.iter().map(|(host, _)| host.as_str().chars().count()).max().unwrap_or(0).max(4);
    if !shown.is_empty() {
        writeln!(
            out,
            "{:width$}  {:>9}  {:>6}  {:<17}  {:>5}  remarks",
            "host", "limit/s", "burst", "measured (UTC)", "hours"
        )?;
    }
    for (host, experience) in shown {
        let Experience { measured, at, table, samples, .. } = experience;
        let limit =
            if measured.limit < 0.1 { format!("{:.4}", measured.limit) } else { format!("{:.2}", measured.limit) };
        let burst = if measured.burst > 0.0 { format!("{:.0}", measured.burst) } else { "-".to_owned() };
        let when = Wall(i64::try_from(at.0).unwrap_or(i64::MAX).saturating_mul(1_000_000)).rfc3339();
        let when = when.get(..16).unwrap_or_default().replace('T', " ");
        let mut remarks = Vec::new();
        if measured.block > 0.0 {
            remarks.push(format!("a refusal shuts out for {:.0} s", measured.block));
        }
        if measured.banned > 0 {
            remarks.push(format!("banned once: at most {} refusals in 10 min", measured.banned));
        }
        if !samples.is_empty() {
            remarks.push(format!("{} samples", samples.len()));
        }
        let hours = table.known();
        writeln!(out, "{host:width$}  {limit:>9}  {burst:>6}  {when:<17}  {hours:>5}  {}", remarks.join(", "))?;
    }
    Ok(())
}

fn forget(memory: &Memory, hosts: Option<&str>, out: &mut dyn Write) -> Result<(), CommandError> {
    let Some(typed) = hosts else {
        let told = if memory.remove()? { "everything is forgotten" } else { "nothing was remembered" };
        return Ok(writeln!(out, "{told}")?);
    };
    let pattern = pattern(typed)?;
    let forgotten = memory.forget(|host| pattern.is_match(host))?;
    for host in &forgotten {
        writeln!(out, "{}", Clean::new(host.as_str()))?;
    }
    let plural = if forgotten.len() == 1 { "" } else { "s" };
    Ok(writeln!(out, "{} host{plural} forgotten", forgotten.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_means_its_host_and_a_path_is_no_host() {
        for (typed, host) in [
            ("http://A.example/", "a.example"),
            ("https://a.example:443/p?q=1#f", "a.example"),
            ("http://a.example:8080", "a.example:8080"),
            ("http://[::1]:81/", "[::1]:81"),
            ("a.example:8080", "a.example:8080"),
            ("A.example.", "a.example"),
            ("http://*.example/", "b.example"),
        ] {
            let pattern = pattern(typed).unwrap_or_else(|error| panic!("{typed}: {error}"));
            assert!(pattern.is_match(host), "{typed}");
            assert!(!pattern.is_match("other.test"), "{typed}");
        }
        for typed in ["a.example/p", "ftp://a.example/", "/", "", "http://"] {
            assert!(pattern(typed).is_err(), "{typed}");
        }
    }
}
