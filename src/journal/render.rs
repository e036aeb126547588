//! A run's summary as text, as JSON, and its requests as one CSV.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::encode::{self, CsvRows};
use super::reader::{ReadError, RequestReader};
use super::summary::{HostSummary, Summary, act_word};
use crate::control::Outcome;
use crate::text::Clean;

/// Hosts in the list of the worst, and of what is still set.
const HOSTS_SHOWN: usize = 5;

/// The summary as one JSON object, indented, with a line break at its end.
pub fn summary_json(summary: &Summary) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(summary)?;
    text.push('\n');
    Ok(text)
}

/// The summary for people: 80 columns unless names are long.
pub fn summary_text(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, summary);
    out
}

fn write_text(out: &mut String, summary: &Summary) -> std::fmt::Result {
    write!(out, "requests  {}", summary.requests)?;
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        let micros = u64::try_from(last.0.saturating_sub(first.0)).unwrap_or_default();
        write!(out, " in {}, from {}", duration(micros as f64 / 1e6), first.rfc3339())?;
    }
    let [success, redirect, client, server, error] = summary.classes;
    writeln!(out, "\nanswers   2xx {success}  3xx {redirect}  4xx {client}  5xx {server}  no whole answer {error}")?;
    let refused = summary.by_outcome.get(Some(Outcome::Refused));
    writeln!(
        out,
        "          ok {}  throttled {}  refused {refused}  server errors {}  network errors {}",
        summary.ok, summary.throttled, summary.server_errors, summary.network_errors
    )?;
    writeln!(
        out,
        "URLs      done {}  failed {}  skipped {}  pending {}",
        summary.urls_done, summary.urls_failed, summary.urls_skipped, summary.urls_pending
    )?;
    let spared = |host: &HostSummary, outcome| host.by_outcome.get(Some(outcome)) == 0;
    let calm = |host: &&HostSummary| {
        let refused_nothing = spared(host, Outcome::Throttled) && spared(host, Outcome::Refused);
        !host.slowed && refused_nothing && host.held_seconds == 0.0
    };
    let never_slowed = summary.hosts.iter().filter(calm).count();
    writeln!(out, "hosts     {}, never slowed {never_slowed}", summary.hosts.len())?;
    write_worst(out, summary)?;
    write_groups(out, summary)?;
    write_mishaps(out, summary)?;
    write_acts(out, summary)?;
    if summary.damage.lines > 0 {
        writeln!(out, "damage    {} lines of the journal cannot be read:", summary.damage.lines)?;
        for line in &summary.damage.named {
            writeln!(out, "  {line}")?;
        }
    }
    let dir = Clean::new(summary.dir.to_string_lossy());
    writeln!(out, "journal   {dir}")?;
    writeln!(out, "review    crawldeck review {}", shell_word(dir.as_str()))
}

fn write_worst(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mut worst: Vec<&HostSummary> =
        summary.hosts.iter().filter(|host| host.refusals > 0 || host.held_seconds > 0.0).collect();
    worst.sort_by(|one, other| other.held_seconds.total_cmp(&one.held_seconds).then(other.refusals.cmp(&one.refusals)));
    for host in worst.iter().take(HOSTS_SHOWN) {
        write!(
            out,
            "  {:<32} {:>8} requests  {:>6} refused  held {}",
            host.host,
            host.requests,
            host.refusals,
            duration(host.held_seconds)
        )?;
        if let (Some(original), Some(last)) = (host.original_rate, host.last_rate) {
            write!(out, "  rate {original:.2} -> {last:.2}/s")?;
        }
        out.push('\n');
    }
    if worst.len() > HOSTS_SHOWN {
        writeln!(out, "  and {} more", worst.len() - HOSTS_SHOWN)?;
    }
    Ok(())
}

/// Who shares a bucket: those that were held longest.
fn write_groups(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mut groups: Vec<_> = summary.groups.iter().filter(|group| group.hosts > 1).collect();
    if groups.is_empty() {
        return Ok(());
    }
    groups.sort_by(|one, other| other.held_seconds.total_cmp(&one.held_seconds).then(other.hosts.cmp(&one.hosts)));
    writeln!(out, "groups    {}, hosts of each share a bucket", groups.len())?;
    for group in groups.iter().take(HOSTS_SHOWN) {
        write!(out, "  {:<32} {:>8} hosts  held {}", group.group, group.hosts, duration(group.held_seconds))?;
        if let Some(rate) = group.last_rate {
            write!(out, "  rate {rate:.2}/s")?;
        }
        out.push('\n');
    }
    if groups.len() > HOSTS_SHOWN {
        writeln!(out, "  and {} more", groups.len() - HOSTS_SHOWN)?;
    }
    Ok(())
}

/// URLs without an answer, and lines that were none: named, up to a bound.
fn write_mishaps(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mishaps = &summary.mishaps;
    let urls = [("failed", &mishaps.failed, summary.urls_failed), ("skipped", &mishaps.skipped, summary.urls_skipped)];
    for (word, named, all) in urls {
        if named.is_empty() {
            continue;
        }
        writeln!(out, "{word}")?;
        for (url, why) in named {
            writeln!(out, "  {url}  {why}")?;
        }
        write_rest(out, named.len(), all)?;
    }
    if !mishaps.bad_lines.is_empty() {
        writeln!(out, "bad lines")?;
        for line in &mishaps.bad_lines {
            writeln!(out, "  {line}")?;
        }
        write_rest(out, mishaps.bad_lines.len(), mishaps.bad_lines_seen)?;
    }
    Ok(())
}

fn write_rest(out: &mut String, named: usize, all: u64) -> std::fmt::Result {
    match all.saturating_sub(named as u64) {
        0 => Ok(()),
        rest => writeln!(out, "  and {rest} more, in events.jsonl"),
    }
}

fn write_acts(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if !summary.acts.is_empty() {
        let counts: Vec<String> = summary.acts.iter().map(|(word, count)| format!("{word} {count}")).collect();
        writeln!(out, "you did   {}", counts.join("  "))?;
        for act in &summary.last_acts {
            let host = act.host.as_ref().map_or("all hosts", Clean::as_str);
            let word = act.what.known().map_or("other", act_word);
            writeln!(out, "  {}  {word} {host}  {}", act.time.time_of_day(), act.why)?;
        }
    }
    let set: Vec<&HostSummary> = summary.hosts.iter().filter(|host| host.paused || host.overriding.is_some()).collect();
    if !set.is_empty() || summary.halted {
        writeln!(out, "still set")?;
    }
    if summary.halted {
        writeln!(out, "  all hosts: halted")?;
    }
    for host in set.iter().take(HOSTS_SHOWN) {
        write!(out, "  {}:", host.host)?;
        if host.paused {
            write!(out, " paused")?;
        }
        if let Some(overriding) = host.overriding {
            write!(out, " override")?;
            if let Some(rate) = overriding.rate {
                write!(out, " rate {rate}/s")?;
            }
            if let Some(capacity) = overriding.capacity {
                write!(out, " capacity {capacity}")?;
            }
        }
        out.push('\n');
    }
    if set.len() > HOSTS_SHOWN {
        writeln!(out, "  and {} more", set.len() - HOSTS_SHOWN)?;
    }
    Ok(())
}

/// Whole seconds in words, `2h 3m 4s`.
fn duration(seconds: f64) -> String {
    humantime::format_duration(Duration::from_secs(seconds.max(0.0).round() as u64)).to_string()
}

/// `text` as one word of a shell.
fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Why the requests could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The result cannot be written.
    #[error("the requests cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// All requests of the run in `dir` as one CSV, rotated files included. Streams.
pub fn write_csv(dir: &Path, mut out: impl io::Write) -> Result<(), ExportError> {
    out.write_all(&encode::header())?;
    let mut rows = CsvRows::new(out);
    for record in RequestReader::open(dir)? {
        rows.row(record?.text())?;
    }
    rows.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_review_command_can_be_pasted() {
        assert_eq!(shell_word("./crawl"), "./crawl");
        assert_eq!(shell_word("my crawl"), "'my crawl'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }
}
