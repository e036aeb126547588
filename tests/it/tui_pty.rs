//! The dashboard in a real pseudo-terminal: keys in, screen out, resize, hang-up, exit.
//!
//! The program in the pty is this test binary, started again with `CHILD` set; its engine is a few lines
//! that answer each act with its own words.
#![expect(clippy::expect_used, reason = "test support")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crawldeck::clock::SystemClock;
use crawldeck::config::{Glyphs, OnHangup, UiConfig};
use crawldeck::control::Command as Act;
use crawldeck::text::Clean;
use crawldeck::tui::terminal::LEAVE;
use crawldeck::tui::{TuiOptions, sample, spawn};
use crawldeck::watch::{ActAnswer, Request};

use crate::support::pty::Pty;

const CHILD: &str = "CRAWLDECK_TEST_DASHBOARD";
/// Set for a child that draws until it is stuck.
const STUCK: &str = "CRAWLDECK_TEST_STUCK";
/// Exit code of that child, if it could leave all the same.
const STUCK_CODE: u32 = 9;
/// Exit code of a child whose terminal has gone.
const GONE: u32 = 7;
/// Only a broken test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program in the pty: no test of its own.
#[test]
fn dashboard_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    // A handled SIGHUP does not kill: the hang-up itself must be noticed.
    let _hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).expect("a handler");
    let (snapshots, snapshot_receiver) = tokio::sync::mpsc::channel(1);
    let (request_sender, mut requests) = tokio::sync::mpsc::channel(16);
    let ui = UiConfig {
        fps: 30,
        glyphs: Glyphs::Unicode,
        theme: "auto".into(),
        mouse: false,
        on_hangup: OnHangup::Continue,
    };
    let options =
        TuiOptions { ui, keys: BTreeMap::new(), run_name: Clean::new("pty"), demo_legend: Vec::new(), log_file: None };
    let handle = spawn(options, snapshot_receiver, request_sender, SystemClock::shared()).expect("a terminal");
    snapshots.blocking_send(Arc::new(sample::snapshot())).expect("somebody watches");
    if std::env::var_os(STUCK).is_some() {
        // Nobody reads the terminal: frames pile up until the screen's thread is stuck in a write. Whoever
        // sends snapshots notices nothing but a full queue.
        let full = (0..2_000_000_u64).any(|count| {
            let row = |id: u32| {
                let mut row = sample::row(id, &format!("host-{id}.example"));
                row.view.queued = (count + u64::from(id)) * 7_919 % 1_000_000;
                row.view.tokens = ((count + u64::from(id)) % 4) as f64;
                row
            };
            let changed = (0..60).map(row).collect();
            let snapshot = crawldeck::watch::Snapshot { changed, log: Vec::new(), ..sample::snapshot() };
            let patience = Duration::from_secs(2);
            let sent =
                runtime.block_on(async { tokio::time::timeout(patience, snapshots.send(Arc::new(snapshot))).await });
            sent.is_err()
        });
        let in_time = handle.stop(Duration::from_millis(200));
        std::process::exit(if full && !in_time { STUCK_CODE.cast_signed() } else { 5 });
    }
    while let Some(request) = requests.blocking_recv() {
        match request {
            Request::Act { command: Act::Undo, .. } => {
                let worker = std::thread::Builder::new().name("worker".into());
                let panicked = worker.spawn(|| panic!("torn picture")).expect("a thread").join();
                assert!(panicked.is_err());
                eprintln!("torn by a library");
            }
            Request::Act { ticket, command, targets, .. } => {
                let text = Clean::new(format!("told {command:?} for {}", targets.len()));
                let answers = vec![ActAnswer { ticket, changed: 1, text }];
                let snapshot = crawldeck::watch::Snapshot { answers, log: Vec::new(), ..sample::snapshot() };
                snapshots.blocking_send(Arc::new(snapshot)).expect("somebody watches");
            }
            Request::ShowTimeline => {
                let timeline = Some(Arc::new(sample::timeline()));
                let snapshot = crawldeck::watch::Snapshot { timeline, log: Vec::new(), ..sample::snapshot() };
                snapshots.blocking_send(Arc::new(snapshot)).expect("somebody watches");
            }
            Request::HideTimeline => {}
            Request::Focus(_) | Request::Change { .. } | Request::Reread(_) | Request::Unwatched(_) => {}
            Request::Drain | Request::Stop => {
                let in_time = handle.stop(PATIENCE);
                std::process::exit(if in_time { 0 } else { 3 });
            }
            Request::TerminalGone => std::process::exit(GONE.cast_signed()),
        }
    }
    std::process::exit(4);
}

/// A terminal with that child in it.
fn dashboard(env: &[(&str, &str)]) -> Pty {
    start(env, (80, 24))
}

fn start(env: &[(&str, &str)], size: (u16, u16)) -> Pty {
    let program = std::env::current_exe().expect("this binary");
    let args = ["--exact", "tui_pty::dashboard_child", "--nocapture", "--test-threads=1"].map(String::from);
    let env = [&[(CHILD, "1")], env].concat();
    Pty::launch(&std::env::temp_dir(), &program.display().to_string(), &args, &env, true, size)
}

#[test]
fn keys_reach_the_engine_and_its_answer_the_screen() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12") && screen.contains("STUCK 1"));
    terminal.keys("p");
    terminal.until("the answer", |screen| screen.contains("told Pause(Default) for 1   u undoes"));
    terminal.keys("o0.5\r");
    terminal.until("the answer", |screen| screen.contains("told Override") && screen.contains("Absolute(0.5)"));
    terminal.keys("\x1b[B");
    terminal.until("the cursor moved", |screen| screen.lines().any(|line| line.starts_with("▌ ✗ www.courtxx")));
}

#[test]
fn the_timeline_is_asked_for_shown_and_left() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.keys("3");
    terminal.until("the timeline", |screen| screen.contains("time × status") && screen.contains("429     │"));
    terminal.keys("\x1b[D");
    terminal.until("the cursor's counts", |screen| screen.contains("requests, "));
    terminal.keys("t");
    terminal.until("the table again", |screen| screen.contains("hosts 12"));
}

#[test]
fn wanted_19_a_filter_and_marks_choose_the_hosts_of_an_act() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.keys("/is:agry");
    terminal.until("the error", |screen| screen.contains("did you mean `is:angry`?"));
    terminal.keys("\x15is:angry\r");
    terminal.until("the filter", |screen| screen.contains("filter is:angry") && screen.contains("2 shown"));
    terminal.keys("A");
    terminal.until("the marks", |screen| screen.contains("2 marked"));
    terminal.keys("p");
    terminal.until("the answer", |screen| screen.contains("told Pause(Default) for 2"));
    terminal.keys("\x1b");
    terminal.until("all hosts", |screen| screen.contains("no filter"));
    terminal.keys(":rate 0.5 state:back for 2h\r");
    terminal.until("the answer", |screen| screen.contains("told Override") && screen.contains("Absolute(0.5)"));
    terminal.keys(":pau\t30m is:tail\r");
    terminal.until("the answer", |screen| screen.contains("told Pause(For(1800s)) for 1"));
}

#[test]
fn enter_opens_a_host_and_the_log_leads_to_another() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.keys("\r");
    terminal.until("the host", |screen| screen.contains("STUCK  all 4 connections are busy"));
    terminal.keys(">");
    terminal.until("the next host", |screen| screen.contains("✗ www.courtxx.test") && screen.contains("2 of 12"));
    terminal.keys("2");
    terminal.until("the log", |screen| screen.contains("log · 3 entries · following"));
    terminal.keys("j\r");
    terminal.until("the line's host", |screen| screen.contains("! forum.oldca.test") && screen.contains("esc back"));
    terminal.keys("\x1b");
    terminal.until("the table again", |screen| screen.contains("hosts 12"));
    terminal.keys("y");
    terminal.until("the answer", |screen| screen.contains("copied forum.oldca.test"));
    let copied = b"\x1b]52;c;Zm9ydW0ub2xkY2EudGVzdA==\x07";
    assert!(terminal.bytes().windows(copied.len()).any(|window| window == copied), "base64 and nothing else");
}

#[test]
fn case_113_a_resize_is_followed() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.resize(60, 12);
    terminal.until("the small layout", |screen| screen.contains("hosts 12 · attention"));
}

#[test]
fn case_109_leaving_restores_the_terminal() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.keys("q");
    terminal.until("the dialog", |screen| screen.contains("leave the crawl?"));
    terminal.keys("d");
    assert_eq!(terminal.end(), 0);
    let left = terminal.bytes().windows(LEAVE.len()).filter(|window| *window == LEAVE).count();
    assert_eq!(left, 1, "restored exactly once");
    assert!(terminal.bytes().ends_with(LEAVE), "nothing comes after it");
}

#[test]
fn case_108_a_hang_up_is_noticed_and_told() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.hang_up();
    assert_eq!(terminal.exit_status().exit_code(), GONE);
}

#[test]
fn case_112_a_worker_s_panic_and_stray_output_do_not_touch_the_screen() {
    let mut terminal = dashboard(&[]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    terminal.keys("u");
    terminal.keys("p");
    terminal.until("the answer", |screen| screen.contains("told Pause"));
    let output = String::from_utf8_lossy(terminal.bytes()).into_owned();
    assert!(!output.contains("torn"), "{output}");
}

#[test]
fn without_colour_the_selection_is_still_reversed() {
    let mut terminal = dashboard(&[("NO_COLOR", "1")]);
    terminal.until("the table", |screen| screen.contains("hosts 12"));
    let screen = terminal.screen();
    let row = (0..24).find(|row| screen.cell(*row, 0).is_some_and(|cell| cell.contents() == "▌")).expect("a cursor");
    assert!(screen.cell(row, 6).is_some_and(vt100::Cell::inverse));
    let coloured = (0..24)
        .flat_map(|row| (0..80).map(move |column| (row, column)))
        .filter(|(row, column)| screen.cell(*row, *column).is_some_and(|cell| cell.fgcolor() != vt100::Color::Default));
    assert_eq!(coloured.count(), 0);
}

#[test]
fn case_111_a_terminal_that_nobody_reads_holds_up_only_the_picture() {
    let mut terminal = start(&[(STUCK, "1")], (160, 60));
    terminal.set_reading(false);
    assert_eq!(terminal.exit_status().exit_code(), STUCK_CODE);
}
