//! The table that is printed, and the machine it holds for.

use std::fmt;
use std::process::Command;

/// Figures as they were measured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 3]>,
}

impl Table {
    /// Adds a figure, and tells it at once.
    pub(crate) fn add(&mut self, figure: impl Into<String>, measured: impl Into<String>, to_reach: impl Into<String>) {
        let row = [figure.into(), measured.into(), to_reach.into()];
        eprintln!("  {}: {} (to reach: {})", row[0], row[1], row[2]);
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| figure | measured | to reach |\n| --- | --- | --- |")?;
        for [figure, measured, to_reach] in &self.rows {
            writeln!(f, "| {figure} | {measured} | {to_reach} |")?;
        }
        write!(f, "\n{}", machine())
    }
}

/// The machine in a sentence.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model).to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    let load = read("/proc/loadavg");
    let load: Vec<&str> = load.split(' ').take(3).collect();
    format!("Machine: {model}, {cores} cores; {rustc}; load average at the end {}.", load.join(" "))
}

/// A count with thousands set apart.
pub(crate) fn thousands(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
