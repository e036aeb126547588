//! Terminals that change their size, are not read, or are none to speak of.

use std::time::Duration;

use crate::support::binary::{Scene, fine};
use crate::support::pty::{Pty, Tie, foreign};

fn busy(rate: f64, more: &str) -> Scene {
    let scene = Scene::new(fine(Duration::from_millis(5)), rate, 4.0, more);
    scene.list(&["a.test", "b.test"], 50_000);
    scene
}

/// A whole frame: its first row is the header's, its last the footer's.
#[track_caller]
fn whole(pty: &mut Pty, columns: u16) {
    pty.wait("a whole frame", |screen| {
        let rows: Vec<String> = screen.rows(0, columns).collect();
        let first = rows.first().is_some_and(|row| row.contains("RUNNING") && row.contains("UTC"));
        let last = rows.last().is_some_and(|row| row.contains("? help"));
        first && last && rows.iter().filter(|row| row.contains("? help")).count() == 1
    });
    pty.see("hosts 2");
    pty.see("PAUSED 0");
}

#[test]
fn case_113_frames_stay_whole_when_the_size_changes() {
    let scene = busy(50.0, "");
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 2");
    whole(&mut pty, 80);
    for (columns, rows) in [(160, 50), (100, 30), (60, 12), (80, 24)] {
        pty.resize(columns, rows);
        whole(&mut pty, columns);
    }
    pty.resize(40, 10);
    pty.see("need 60");
    pty.see("PAUSED 0");
    for (columns, rows) in [(1, 1), (2, 3), (500, 2), (3, 200), (80, 24)] {
        pty.resize(columns, rows);
    }
    whole(&mut pty, 80);
    // The keys are where they were.
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("n");
    assert_eq!(pty.end(), 0);
}

#[test]
fn case_113_a_storm_of_sizes_ends_in_a_whole_frame() {
    let scene = busy(50.0, "[ui]\nfps = 30\n");
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 2");
    for step in 0..300_u16 {
        pty.resize(1 + step * 7 % 190, 1 + step * 5 % 57);
    }
    pty.resize(80, 24);
    whole(&mut pty, 80);
}

#[test]
fn case_111_the_crawl_goes_on_while_nobody_reads_the_terminal() {
    let scene = busy(100.0, "[ui]\nfps = 30\n");
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &[], Tie::Controlling, (160, 50));
    pty.see("hosts 2");
    pty.set_reading(false);
    let so_far = scene.server.arrivals().len();
    // Hundreds of frames' worth of time: the line takes a few kilobytes only.
    scene.arrivals("requests while nobody reads", so_far + 1000);
    pty.keys("!");
    pty.set_reading(true);
    // Once it is read again it shows what is, not what was.
    pty.see("HALTED");
    pty.see("in-flight 0/");
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("n");
    assert_eq!(pty.end(), 0);
}

#[test]
fn case_112_what_libraries_say_on_standard_error_cannot_reach_the_picture() {
    let scene = busy(50.0, "");
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 2");
    let target = std::fs::read_link(format!("/proc/{}/fd/2", pty.pid.as_raw_nonzero())).expect("its own");
    assert_eq!(target, scene.dir().canonicalize().expect("there").join("crawldeck.log"));
    scene.arrivals("requests", 50);
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("d");
    assert_eq!(pty.end(), 0);
    assert_eq!(foreign(pty.bytes()), Vec::<String>::new());
}

#[test]
fn case_119_a_dumb_terminal_gets_plain_lines() {
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 4.0, "");
    scene.list(&["a.test"], 30);
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &[("TERM", "dumb")], Tie::Controlling, (80, 24));
    assert_eq!(pty.end(), 0);
    let text = String::from_utf8_lossy(pty.bytes()).into_owned();
    assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\r' | '\n')), "{text:?}");
    assert!(text.contains("finished: 30 of 30 done"), "{text}");
    assert_eq!(scene.assert_journal_complete(), 30);
}

#[test]
fn case_119_without_a_screen_a_terminal_gets_plain_lines_too() {
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 4.0, "");
    scene.list(&["a.test"], 30);
    let mut args = scene.run();
    args.push("--headless".into());
    let mut pty = Pty::start(scene.path(), &args);
    assert_eq!(pty.end(), 0);
    assert!(!pty.bytes().contains(&0x1b), "{}", pty.text());
}

#[test]
fn no_colour_means_no_colour() {
    let scene = busy(50.0, "");
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &[("NO_COLOR", "1")], Tie::Controlling, (80, 24));
    pty.see("hosts 2");
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("n");
    assert_eq!(pty.end(), 0);
    let text = String::from_utf8_lossy(pty.bytes()).into_owned();
    for style in text.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m')).map(|(style, _)| style) {
        let coloured = style.split(';').filter_map(|part| part.parse::<u8>().ok());
        if style.chars().all(|c| c.is_ascii_digit() || c == ';') {
            let mut coloured = coloured.filter(|n| matches!(n, 30..=38 | 40..=48 | 90..=97 | 100..=107));
            assert_eq!(coloured.next(), None, "{style}");
        }
    }
    assert!(text.contains("\x1b[7m") || text.contains("\x1b[1m"), "emphasis stays");
}

#[test]
fn row_42_a_worker_s_panic_is_one_failed_fetch_and_leaves_the_screen_whole() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 20.0, 4.0, "[crawl]\nretries = 1\n");
    scene.list(&["a.test"], 60);
    let panic_at = [("CRAWLDECK_TEST_PANIC_AT", "/7")];
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &panic_at, Tie::Controlling, (80, 24));
    pty.see("hosts 1");
    // The one URL panics in each attempt; the others are done, and the crawl ends by itself.
    assert_eq!(pty.end(), 0);
    assert_eq!(foreign(pty.bytes()), Vec::<String>::new());
    let events = std::fs::read_to_string(scene.dir().join("events.jsonl")).expect("the events");
    assert!(events.contains("a worker panicked: asked for by"), "{events}");
    let failed: Vec<&str> = events.lines().filter(|line| line.contains("\"url_failed\"")).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let last = events.lines().rev().find(|line| line.contains("\"stop\"")).expect("an end");
    assert!(last.contains("\"urls_done\":59") && last.contains("\"urls_failed\":1"), "{last}");
}
