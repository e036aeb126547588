//! Every way out: what the crawl does, the exit code, and a terminal that is as it was before.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::binary::{Scene, fine, ok, threads, until};
use crate::support::pty::{Pty, Tie, after_screen, foreign};

const LATENCY: Duration = Duration::from_millis(20);

fn busy() -> Scene {
    let scene = Scene::new(fine(LATENCY), 100.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    scene
}

/// The terminal is as it was, and the last words are the summary, nothing else.
#[track_caller]
fn assert_restored(pty: &Pty) {
    assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
    let screen = pty.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
    let told = after_screen(pty.bytes()).expect("a screen that was left");
    assert!(!told.contains('\x1b'), "{told:?}");
    assert!(told.contains("requests") && told.contains("crawldeck review crawl"), "{told:?}");
    let left = String::from_utf8_lossy(pty.bytes());
    let times = |what: &str| left.matches(what).count();
    assert_eq!(times("\x1b[?1049h"), times("\x1b[?1049l"), "entered as often as left");
    for mode in ["\x1b[?25h", "\x1b[?2004l", "\x1b[?1000l", "\x1b[?1006l", "\x1b[?1004l"] {
        assert!(times(mode) > 0, "{mode:?}");
    }
    assert_eq!(foreign(pty.bytes()), Vec::<String>::new());
}

/// Starts, goes through `way`, and sees what every way has to leave.
#[track_caller]
fn leave(scene: &Scene, code: u32, way: impl FnOnce(&mut Pty)) {
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 1");
    scene.arrivals("requests", 10);
    way(&mut pty);
    assert_eq!(pty.end(), code, "{}", pty.text());
    assert_restored(&pty);
}

#[test]
fn case_109_the_dialog_drains() {
    let scene = busy();
    leave(&scene, 0, |pty| {
        pty.keys("q");
        pty.see("leave the crawl?");
        pty.keys("\x1b");
        pty.see_no("leave the crawl?");
        pty.keys("q");
        pty.see("leave the crawl?");
        pty.keys("d");
    });
    scene.assert_journal_complete();
}

#[test]
fn case_109_the_dialog_stops_now() {
    let scene = busy();
    leave(&scene, 0, |pty| {
        pty.keys("q");
        pty.see("leave the crawl?");
        pty.keys("n");
    });
}

#[test]
fn case_109_and_wanted_20_the_second_ctrl_c_drains() {
    let scene = busy();
    leave(&scene, 0, |pty| {
        pty.keys("\x03");
        pty.see("leave the crawl?");
        pty.keys("\x03");
    });
    scene.assert_journal_complete();
}

/// Answers nothing from the twentieth request on, so that no drain comes to an end.
fn silent_after_twenty() -> Scene {
    let mut seen = 0;
    let behaviour = move |_: Duration, _: &crawldeck::sim::SimRequest<'_>, _: &hyper::HeaderMap| {
        seen += 1;
        let latency = if seen <= 20 { LATENCY } else { Duration::from_secs(3600) };
        ok(latency)
    };
    let scene = Scene::new(Box::new(behaviour), 100.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    scene
}

#[test]
fn case_109_the_third_ctrl_c_stops_though_a_request_hangs() {
    let scene = silent_after_twenty();
    leave(&scene, 130, |pty| {
        scene.arrivals("requests that hang", 24);
        pty.keys("\x03");
        pty.see("leave the crawl?");
        pty.keys("\x03");
        pty.see("DRAINING");
        pty.keys("\x03");
    });
    assert!(scene.server.arrivals().iter().any(|arrival| arrival.answered.is_none()));
}

#[test]
fn case_109_row_14_interrupts_from_outside_count_as_the_key() {
    let scene = silent_after_twenty();
    leave(&scene, 130, |pty| {
        scene.arrivals("requests that hang", 24);
        pty.signal(Signal::INT);
        pty.see("leave the crawl?");
        pty.signal(Signal::INT);
        pty.see("DRAINING");
        pty.signal(Signal::INT);
    });
}

#[test]
fn case_109_the_first_term_drains() {
    let scene = busy();
    leave(&scene, 0, |pty| pty.signal(Signal::TERM));
    scene.assert_journal_complete();
}

#[test]
fn case_109_the_second_term_stops_though_a_request_hangs() {
    let scene = silent_after_twenty();
    leave(&scene, 130, |pty| {
        scene.arrivals("requests that hang", 24);
        pty.signal(Signal::TERM);
        pty.see("DRAINING");
        pty.signal(Signal::TERM);
    });
}

#[test]
fn case_109_quit_stops_at_once_though_a_request_hangs() {
    let scene = silent_after_twenty();
    leave(&scene, 130, |pty| {
        scene.arrivals("requests that hang", 24);
        pty.signal(Signal::QUIT);
    });
}

#[test]
fn case_109_row_14_a_term_at_any_moment_of_the_start_leaves_the_terminal_as_it_was() {
    // From the first thread alone to all of them, the screen's included.
    for stage in 1..=12 {
        let scene = busy();
        let mut pty = Pty::start(scene.path(), &scene.run());
        until("the stage of the start", || (threads(pty.pid).len() >= stage.min(8)).then_some(()));
        if stage > 8 {
            pty.wait("the first bytes of the screen", vt100::Screen::alternate_screen);
        }
        pty.signal(Signal::TERM);
        let status = pty.ended();
        assert_eq!(pty.modes(), pty.modes_before, "stage {stage}: the modes of the terminal");
        assert!(!pty.screen().alternate_screen() && !pty.screen().hide_cursor(), "stage {stage}");
        if status.signal().is_some() {
            // Before the signals were taken over there was nothing to be restored.
            assert!(!pty.bytes().contains(&0x1b), "stage {stage}: {}", pty.text());
        } else {
            assert_eq!(status.exit_code(), 0, "stage {stage}: {}", pty.text());
        }
    }
}

#[test]
fn case_109_a_disk_that_is_full_is_told_on_the_screen_and_ends_with_1() {
    let scene = busy();
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &[], Tie::Cramped, (80, 24));
    pty.see("nothing is sent: ");
    let so_far = scene.server.arrivals().len();
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("n");
    assert_eq!(pty.end(), 1, "{}", pty.text());
    // One a connection may have been under way.
    assert!(scene.server.arrivals().len() <= so_far + 4, "requests without a journal");
    assert_restored(&pty);
    assert!(pty.text().contains("crawldeck: "), "{}", pty.text());
}

#[test]
fn the_demo_shows_its_hosts_and_lets_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut pty = Pty::start(folder.path(), &["demo", "-d", "crawl"].map(String::from));
    pty.see("hosts 10");
    for host in ["steady.demo", "limit.demo", "dark.demo"] {
        pty.see(host);
    }
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("n");
    assert_eq!(pty.end(), 0, "{}", pty.text());
    assert_restored(&pty);
}

#[test]
fn wanted_25_a_crawl_that_is_done_ends_by_itself() {
    let scene = Scene::new(fine(LATENCY), 100.0, 4.0, "");
    scene.list(&["a.test"], 60);
    leave(&scene, 0, |_| {});
    assert_eq!(scene.assert_journal_complete(), 60);
}

#[test]
fn wanted_18_the_journal_holds_every_request_while_the_screen_is_up() {
    let scene = Scene::new(fine(Duration::ZERO), 1e6, 1e6, "[ui]\nfps = 30\n");
    scene.list(&["a.test", "b.test"], 1500);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 2");
    assert_eq!(pty.end(), 0);
    assert_eq!(scene.assert_journal_complete(), 3000);
}

#[test]
fn case_109_a_folder_that_cannot_be_used_leaves_the_terminal_untouched() {
    let scene = busy();
    std::fs::create_dir_all(scene.dir().join("events.jsonl")).expect("a folder");
    let mut pty = Pty::start(scene.path(), &scene.run());
    assert_eq!(pty.end(), 2);
    assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
    assert!(!String::from_utf8_lossy(pty.bytes()).contains('\x1b'), "{}", pty.text());
    assert!(pty.text().contains("crawldeck: "), "{}", pty.text());
    assert!(scene.server.arrivals().is_empty());
}

#[test]
fn leaving_with_term_does_not_wait_for_a_terminal_that_nobody_reads() {
    let scene = Scene::new(fine(LATENCY), 200.0, 4.0, "[ui]\nfps = 30\n");
    scene.list(&["a.test"], 50_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 1");
    pty.set_reading(false);
    scene.arrivals("requests while nobody reads", 800);
    pty.signal(Signal::TERM);
    assert_eq!(pty.exit_status().exit_code(), 0);
    assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
    scene.assert_journal_complete();
}
