//! The table: one line a server and controller, over all seeds; then one a controller, over all servers.

use std::io::{self, Write};

use super::Asked;
use crate::sim::Report;
use crate::text::Clean;

/// Writes it.
pub(super) fn write(asked: &Asked, reports: &[Report], out: &mut dyn Write) -> io::Result<()> {
    let names = asked.servers.iter().map(|server| Clean::new(server.id.as_str())).collect::<Vec<_>>();
    let width = names.iter().map(|name| name.as_str().chars().count()).max().unwrap_or(0).max("server".len());
    writeln!(
        out,
        "{:width$}  {:19}  {:>7}  {:>9}  {:>7}  {:>8}  {:>7}  {:>4}  {:>8}  {:>8}",
        "server", "controller", "goodput", "refused/h", "max/10m", "converge", "recover", "bans", "p50 ms", "p95 ms"
    )?;
    for (server, contender, reports) in asked.groups(reports) {
        writeln!(
            out,
            "{:width$}  {:19}  {:7.3}  {:9.1}  {:7}  {:>8}  {:>7}  {:4}  {:>8}  {:>8}",
            Clean::new(server.id.as_str()).as_str(),
            contender.name,
            mean(reports, |report| report.goodput),
            mean(reports, |report| report.refused_per_hour),
            reports.iter().map(|report| report.refused_max_10min).max().unwrap_or(0),
            seconds(reports, |report| report.converge_seconds),
            seconds(reports, |report| report.recover_seconds),
            reports.iter().map(|report| report.bans).sum::<u64>(),
            millis(reports, |report| report.p50_ms),
            millis(reports, |report| report.p95_ms),
        )?;
    }
    overall(asked, reports, out)?;
    let seeds = asked.seeds.to - asked.seeds.from + 1;
    writeln!(
        out,
        "\nover {seeds} seed{}: means; of converge and recover the median (- = never, or nothing to recover from), of bans the",
        if seeds == 1 { "" } else { "s" }
    )?;
    writeln!(
        out,
        "sum, of max/10m (refusals in the worst 10 minutes) the worst. goodput = accepted / what the limit allowed."
    )
}

/// What each controller is worth over all servers.
fn overall(asked: &Asked, reports: &[Report], out: &mut dyn Write) -> io::Result<()> {
    if asked.servers.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:19}  {:>7}  {:>7}  {:>7}  {:>9}  {:>9}  {:>8}  {:>4}",
        "all servers", "goodput", "p10", "median", "refused/h", "p90", "max/10m", "bans"
    )?;
    writeln!(
        out,
        "{:19}  {:>7}  {:>7}  {:>7}  {:>9}  {:>9}  {:>8}  {:>4}",
        "", "mean", "", "", "median", "", "p90", "sum"
    )?;
    for contender in &asked.contenders {
        let own: Vec<&Report> = asked
            .groups(reports)
            .filter(|(_, one, _)| std::ptr::eq(*one, contender))
            .flat_map(|(_, _, reports)| reports)
            .collect();
        let sorted = |value: fn(&Report) -> f64| {
            let mut values: Vec<f64> = own.iter().map(|report| value(report)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let goodput = sorted(|report| report.goodput);
        let refused = sorted(|report| report.refused_per_hour);
        let most = sorted(|report| report.refused_max_10min as f64);
        writeln!(
            out,
            "{:19}  {:7.3}  {:7.3}  {:7.3}  {:9.1}  {:9.1}  {:8.0}  {:4}",
            contender.name,
            goodput.iter().sum::<f64>() / goodput.len().max(1) as f64,
            rank(&goodput, 0.1),
            rank(&goodput, 0.5),
            rank(&refused, 0.5),
            rank(&refused, 0.9),
            rank(&most, 0.9),
            own.iter().map(|report| report.bans).sum::<u64>(),
        )?;
    }
    Ok(())
}

fn mean(reports: &[Report], value: impl Fn(&Report) -> f64) -> f64 {
    reports.iter().map(value).sum::<f64>() / reports.len().max(1) as f64
}

/// The median, or that most seeds have none.
fn seconds(reports: &[Report], value: impl Fn(&Report) -> Option<f64>) -> String {
    let mut values: Vec<f64> = reports.iter().map(|report| value(report).unwrap_or(f64::INFINITY)).collect();
    values.sort_by(f64::total_cmp);
    match rank(&values, 0.5) {
        median if median.is_finite() => format!("{median:.0} s"),
        _ => "-".to_owned(),
    }
}

/// The mean of the runs that had answers to measure, or that none had.
fn millis(reports: &[Report], value: impl Fn(&Report) -> f64) -> String {
    let values: Vec<f64> = reports.iter().map(value).filter(|millis| *millis > 0.0).collect();
    if values.is_empty() {
        return "-".to_owned();
    }
    format!("{:.0}", values.iter().sum::<f64>() / values.len() as f64)
}

/// The value at this share of a sorted list.
fn rank(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(((last as f64 * share).round() as usize).min(last)).copied().unwrap_or(0.0)
}
