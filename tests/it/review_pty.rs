//! `crawldeck review` in a real pseudo-terminal: open, move, tabs, export, leave.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crawldeck::clock::{ManualClock, Wall};
use crawldeck::control::{Outcome, Value, What, Who};
use crawldeck::journal::disk::SystemDisk;
use crawldeck::journal::{Journal, JournalOptions, REQUESTS_FILE, RequestRow};
use crawldeck::tui::terminal::LEAVE;

use crate::support::pty::Pty;
use crate::support::records::{event, host_event, row};

/// A run of a minute: one host says 429 in its middle.
fn write_run(dir: &Path) {
    let mut journal =
        Journal::open_with(dir, ManualClock::new(Wall(0)), Box::new(SystemDisk), JournalOptions::default())
            .expect("writable");
    for number in 0..600_u32 {
        let bad = (300..320).contains(&number);
        let (status, outcome) = if bad { (Some(429), Outcome::Throttled) } else { (Some(200), Outcome::Ok) };
        let time = Wall(1_700_000_000_000_000 + i64::from(number) * 100_000);
        let host = if bad { "angry.test".into() } else { format!("host{}.test", number % 3).into() };
        journal.request(RequestRow { time, host, status, outcome, ..row(number) });
    }
    journal.event(event(0.0, Who::System, What::Start));
    journal.event(host_event(31.0, Who::Operator, What::Pause, "angry.test", Value::None));
    journal.event(event(60.0, Who::System, What::Stop));
    journal.close_blocking(Duration::from_secs(60)).expect("written");
}

/// A terminal with the review of `runs` in it.
fn review(runs: &[&Path], folder: &Path) -> Pty {
    let runs = runs.iter().map(|run| run.display().to_string());
    Pty::start(folder, &std::iter::once(String::from("review")).chain(runs).collect::<Vec<_>>())
}

#[test]
fn a_run_is_reviewed_and_the_terminal_restored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("night");
    fs::create_dir(&dir).expect("a folder");
    write_run(&dir);
    let mut terminal = review(&[Path::new("night")], folder.path());
    terminal.until("the timeline", |screen| {
        screen.contains("review  night") && screen.contains("ended") && screen.contains("429     │")
    });
    // From the start, half of the cells to the right: where it was angry.
    terminal.keys("g");
    terminal.until("the start", |screen| screen.contains("10 requests") && screen.contains("nobody was angry here"));
    terminal.keys("LLL");
    terminal.until("the angry host", |screen| screen.contains("angriest: angry.test (10 refusals and errors)"));
    terminal.keys("\r");
    terminal.until("the log", |screen| screen.contains("angry.test         pause"));
    terminal.keys("\x1b");
    terminal.until("the timeline again", |screen| screen.contains("at cursor"));
    terminal.keys("m");
    terminal.until("the latency", |screen| screen.contains("latency of whole answers"));
    terminal.keys("2");
    terminal.until("the hosts", |screen| screen.contains("hosts 4 · sorted by held time"));
    terminal.keys("4");
    terminal.until("the acts", |screen| screen.contains("your actions 1") && screen.contains("angry.test paused"));
    terminal.keys("5\r");
    terminal.until("the file", |screen| screen.contains("written: night.csv"));
    let written = fs::read_to_string(folder.path().join("night.csv")).expect("a file");
    assert_eq!(written, fs::read_to_string(dir.join(REQUESTS_FILE)).expect("the journal"));
    terminal.keys("1/angry\r");
    terminal.until("the filter", |screen| screen.contains("· angry") && !screen.contains("200     │"));
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    let left = terminal.bytes().windows(LEAVE.len()).filter(|window| *window == LEAVE).count();
    assert_eq!(left, 1, "restored exactly once");
    let after = terminal.bytes().windows(LEAVE.len()).position(|window| window == LEAVE).expect("left") + LEAVE.len();
    let told = String::from_utf8_lossy(&terminal.bytes()[after..]).replace("\r\n", "\n");
    assert!(told.starts_with("requests  600 in ") && told.contains("hosts     4, never slowed"), "{told}");
}

#[test]
fn the_timeline_is_drawn_into_a_file_without_a_terminal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_run(folder.path());
    let draw = |target: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_crawldeck"));
        command.arg("review").arg(folder.path()).args(["--svg", target]).current_dir(folder.path());
        command.output().expect("it runs")
    };
    let picture = String::from_utf8(draw("-").stdout).expect("text");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n") && picture.contains(">429"), "{picture}");
    assert!(draw("picture.svg").status.success());
    assert_eq!(fs::read_to_string(folder.path().join("picture.svg")).expect("a file"), picture);
    let refused = draw(REQUESTS_FILE);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is part of the journal"));
}

#[test]
fn two_runs_are_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    for dir in [&one, &other] {
        fs::create_dir(dir).expect("a folder");
        write_run(dir);
    }
    let mut journal =
        Journal::open_with(&one, ManualClock::new(Wall(0)), Box::new(SystemDisk), JournalOptions::default())
            .expect("writable");
    journal.request(RequestRow { host: "new.test".into(), ..row(1) });
    journal.close_blocking(Duration::from_secs(60)).expect("written");
    let mut terminal = review(&[&one, &other], folder.path());
    terminal.until("the comparison", |screen| {
        screen.contains("this: one   other: other")
            && screen.contains("fared differently 1")
            && screen.contains("new.test")
    });
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
}
