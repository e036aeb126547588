//! The terminal vanishes in the middle of a crawl.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::binary::{Scene, fine, threads, until};
use crate::support::pty::{Pty, Tie, after_screen};

const URLS: usize = 400;

fn scene(on_hangup: &str) -> Scene {
    let scene = Scene::new(fine(Duration::from_millis(5)), 100.0, 4.0, &format!("[ui]\non_hangup = \"{on_hangup}\"\n"));
    scene.list(&["a.test"], URLS);
    scene
}

fn start(scene: &Scene, tie: Tie) -> Pty {
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &[], tie, (80, 24));
    pty.see("hosts 1");
    scene.arrivals("requests", 10);
    assert!(threads(pty.pid).iter().any(|name| name == "ui"), "{:?}", threads(pty.pid));
    pty
}

/// Neither the thread that draws nor the one that reads keys is left: nothing can burn a core over a dead
/// terminal.
fn screen_ends(pty: &Pty) {
    until("an end of the screen's threads", || {
        let left = threads(pty.pid);
        (!left.iter().any(|name| name == "ui" || name == "keys" || name == "snapshots")).then_some(())
    });
}

fn goes_on_to_the_end(tie: Tie) {
    let scene = scene("continue");
    let mut pty = start(&scene, tie);
    pty.hang_up();
    screen_ends(&pty);
    assert_eq!(pty.end(), 0);
    assert_eq!(scene.assert_journal_complete(), URLS, "every URL was fetched without a terminal");
    let events = scene.events();
    assert!(events.iter().any(|(_, why)| why.contains("terminal gone: headless")), "{events:?}");
}

/// The screen is one thread of many: what ends it ends nothing else, and leaves the terminal as it was.
#[test]
fn row_42_a_panic_of_the_screen_gives_the_terminal_back_and_the_crawl_goes_on() {
    let scene = scene("continue");
    let panics = [("CRAWLDECK_TEST_SCREEN_PANICS_AT", "50")];
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &panics, Tie::Controlling, (80, 24));
    assert_eq!(pty.end(), 0);
    assert_eq!(scene.assert_journal_complete(), URLS, "every URL was fetched without a screen");
    let events = scene.events();
    assert!(events.iter().any(|(_, why)| why.contains("terminal gone: headless")), "{events:?}");
    let text = String::from_utf8_lossy(pty.bytes()).into_owned();
    for seen in ["\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"] {
        assert!(text.contains(seen), "{seen:?} is missing: the screen came, and went");
    }
    assert!(after_screen(pty.bytes()).is_some_and(|told| told.contains("done 400")), "the summary follows it: {text}");
}

#[test]
fn case_108_the_crawl_goes_on_when_the_controlling_terminal_vanishes() {
    goes_on_to_the_end(Tie::Controlling);
}

#[test]
fn case_108_the_crawl_goes_on_when_hang_ups_were_ignored() {
    goes_on_to_the_end(Tie::Ignoring);
}

#[test]
fn case_108_the_crawl_goes_on_when_no_signal_tells_of_the_hang_up() {
    goes_on_to_the_end(Tie::Loose);
}

#[test]
fn case_108_the_crawl_drains_if_configured_so() {
    for tie in [Tie::Controlling, Tie::Loose] {
        let scene = scene("drain");
        let mut pty = start(&scene, tie);
        pty.hang_up();
        assert_eq!(pty.end(), 0, "{tie:?}");
        let rows = scene.assert_journal_complete();
        assert!(rows < URLS, "{tie:?}: it went on to the end");
        assert!(scene.events().iter().any(|(_, why)| why.contains("terminal gone: draining")));
    }
}

#[test]
fn case_108_a_term_after_the_hang_up_still_drains() {
    let scene = scene("continue");
    let mut pty = start(&scene, Tie::Controlling);
    pty.hang_up();
    screen_ends(&pty);
    pty.signal(Signal::TERM);
    assert_eq!(pty.end(), 0);
    assert!(scene.assert_journal_complete() < URLS, "it went on to the end");
}

#[test]
fn a_hang_up_signal_alone_gives_the_terminal_back_and_the_crawl_goes_on() {
    let scene = scene("continue");
    let mut pty = start(&scene, Tie::Controlling);
    pty.signal(Signal::HUP);
    screen_ends(&pty);
    pty.wait("the screen is left", |screen| !screen.alternate_screen());
    assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
    assert_eq!(pty.end(), 0);
    assert_eq!(scene.assert_journal_complete(), URLS);
    let told = after_screen(pty.bytes()).expect("a screen that was left");
    assert!(told.contains("crawldeck review crawl") && !told.contains('\x1b'), "{told:?}");
}
