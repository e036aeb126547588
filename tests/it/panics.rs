//! Row 42: a panic in any thread or task of the program. What can be done without goes on without it, and says so; what
//! cannot ends the crawl with exit code 1, at once, and the next run on the folder loses nothing.

use std::fs;
use std::time::Duration;

use crawldeck::control::What;
use rustix::process::Signal;

use crate::crash::{Known, assert_complete, scene};
use crate::support::binary::{Child, Ended, Scene, fine};
use crate::support::pty::{Pty, Tie, after_screen, foreign};
use crate::support::records;

const PAGES: usize = 80;

/// What every such panic says of itself.
const ASKED: &str = "panicked: asked for by CRAWLDECK_TEST_";

/// Runs without a screen to an end, a panic on the way.
fn run(scene: &Scene, panic: (&str, &str)) -> Ended {
    let mut args = scene.run();
    args.push("--headless".into());
    Child::start(scene.path(), &args, &[panic]).end()
}

/// What was told of the crawl as a whole.
fn told(scene: &Scene) -> Vec<String> {
    let (events, damaged) = records::events(&scene.dir());
    assert_eq!(damaged, 0);
    let told = events.iter().filter(|event| event.what.known() == Some(What::System));
    told.map(|event| event.why.as_str().to_owned()).collect()
}

/// The panic ends the crawl, in words that name `who`; the next run makes it complete. False if it never came.
fn ends_the_crawl(panic: (&str, &str), who: &str) -> bool {
    let scene = scene(PAGES, 50.0);
    let ended = run(&scene, panic);
    let mut known = Known::default();
    if ended.code == Some(0) {
        return false;
    }
    assert_eq!(ended.code, Some(1), "{panic:?}: {}", ended.err);
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(last.starts_with("crawldeck: ") && last.contains(ASKED), "{panic:?}: {}", ended.err);
    assert!(last.contains(who), "{panic:?}: {last}");
    if scene.dir().join("state").exists() {
        known.check(&scene);
    }
    let again = scene.headless().end();
    assert_eq!(again.code, Some(0), "after {panic:?}: {}", again.err);
    known.check(&scene);
    assert_complete(&scene, PAGES);
    true
}

/// At several operations of a layer, the first ones (while it is opened) and later ones.
fn writer_panics(layer: &str, who: &str) {
    for number in [2, 5, 8, 13, 20] {
        let at = format!("{layer}:{number}:panic");
        let came = ends_the_crawl(("CRAWLDECK_TEST_CRASH_AT", &at), if number < 5 { "" } else { who });
        assert!(came || number > 10, "the layer {layer} does fewer operations than it must");
    }
}

#[test]
fn row_42_a_panic_of_the_journal_s_writer_ends_the_crawl_and_loses_nothing() {
    writer_panics("journal", "the journal's writer panicked");
}

#[test]
fn row_42_a_panic_of_the_store_s_writer_ends_the_crawl_and_loses_nothing() {
    writer_panics("store", "the store's writer panicked");
}

#[test]
fn row_42_a_panic_of_the_archive_s_writer_ends_the_crawl_and_loses_nothing() {
    let scene = Scene::new(fine(Duration::ZERO), 50.0, 20.0, "[output]\nwarc = true\n");
    scene.list(&["a.test"], PAGES);
    // Later than what is done while it is opened.
    let ended = run(&scene, ("CRAWLDECK_TEST_CRASH_AT", "archive:9:panic"));
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(last.contains("the archive's writer panicked") && last.contains(ASKED), "{}", ended.err);
    let again = scene.headless().end();
    assert_eq!(again.code, Some(0), "{}", again.err);
    let kept = crate::support::warc::records(&scene.dir());
    let answers = kept.iter().filter(|one| matches!(one.kind(), "response" | "revisit"));
    let mut targets: Vec<&str> = answers.map(|one| one.need("WARC-Target-URI")).collect();
    targets.sort_unstable();
    targets.dedup();
    assert_eq!(targets.len(), PAGES, "every page that is done is kept");
}

#[test]
fn row_42_a_panic_of_the_engine_ends_the_crawl_and_loses_nothing() {
    for turn in ["engine:1", "engine:2", "engine:40"] {
        assert!(ends_the_crawl(("CRAWLDECK_TEST_PANIC_IN", turn), "the engine panicked"), "{turn}");
    }
}

#[test]
fn row_42_a_panic_of_the_thread_that_reads_urls_back_ends_the_crawl_and_loses_nothing() {
    const MORE: usize = 3 * PAGES;
    let scene = scene(MORE, 50.0);
    let drained = scene.headless();
    scene.arrivals("some pages", 45);
    drained.signal(Signal::TERM);
    assert_eq!(drained.end().code, Some(0));
    // What is pending is read back when the crawl goes on.
    let ended = run(&scene, ("CRAWLDECK_TEST_PANIC_IN", "store-read:1"));
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(last.contains("the thread that reads URLs back panicked"), "{}", ended.err);
    let again = scene.headless().end();
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_complete(&scene, MORE);
}

#[test]
fn row_42_a_panic_in_the_decoder_is_one_failed_fetch_of_its_host() {
    let scene = scene(PAGES, 50.0);
    let ended = run(&scene, ("CRAWLDECK_TEST_PANIC_IN", "decoder:7"));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_complete(&scene, PAGES);
    let (events, _) = records::events(&scene.dir());
    let marks: Vec<_> = events.iter().filter(|event| event.why.as_str().contains(ASKED)).collect();
    assert_eq!(marks.len(), 1, "{marks:?}");
    let host = marks[0].host.as_ref().map(|host| host.as_str());
    assert!(
        matches!(host, Some("a.test" | "b.test")) && marks[0].url.is_some(),
        "its host and URL are named: {marks:?}"
    );
}

#[test]
fn row_42_a_panic_of_what_the_crawl_can_do_without_is_told_and_the_crawl_goes_on() {
    let cases = [
        ("memory-open:1", "the memory file is left as it is: "),
        ("config:1", "scene.toml is not read again: its reader panicked: "),
    ];
    for (part, words) in cases {
        let scene = scene(2 * PAGES, 50.0);
        let ended = run(&scene, ("CRAWLDECK_TEST_PANIC_IN", part));
        assert_eq!(ended.code, Some(0), "{part}: {}", ended.err);
        assert_complete(&scene, 2 * PAGES);
        let told = told(&scene);
        assert!(told.iter().any(|why| why.starts_with(words) && why.contains("asked for by")), "{part}: {told:?}");
    }
}

/// A crawl on a terminal.
fn on_a_terminal(panic: (&str, &str)) -> (Scene, Pty) {
    let scene = Scene::new(fine(Duration::from_millis(5)), 100.0, 4.0, "");
    scene.list(&["a.test"], 200);
    let pty = Pty::start_as(scene.path(), &scene.run(), &[panic], Tie::Controlling, (80, 24));
    (scene, pty)
}

#[test]
fn row_42_whatever_ends_the_crawl_the_terminal_is_given_back_before_it_is_said() {
    for (panic, who) in [
        (("CRAWLDECK_TEST_PANIC_IN", "engine:60"), "the engine panicked"),
        (("CRAWLDECK_TEST_CRASH_AT", "journal:9:panic"), "the journal's writer panicked"),
    ] {
        let (scene, mut pty) = on_a_terminal(panic);
        assert_eq!(pty.end(), 1, "{panic:?}");
        assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
        let said = after_screen(pty.bytes()).expect("the screen came, and went");
        assert!(said.contains(who) && said.contains(ASKED), "{said}");
        assert_eq!(foreign(pty.bytes()), Vec::<String>::new(), "nothing was written into the picture");
        assert_eq!(scene.headless().end().code, Some(0));
        assert!(scene.events().iter().rev().any(|(_, why)| why == "done"), "{:?}", scene.events());
    }
}

#[test]
fn row_42_a_panic_of_the_thread_that_reads_keys_gives_the_terminal_back_and_the_crawl_goes_on() {
    let (scene, mut pty) = on_a_terminal(("CRAWLDECK_TEST_PANIC_IN", "keys:3"));
    pty.wait("the screen is left", |screen| !screen.alternate_screen());
    assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
    assert_eq!(pty.end(), 0);
    assert_eq!(scene.assert_journal_complete(), 200, "every URL was fetched without a screen");
    assert!(scene.events().iter().any(|(_, why)| why.contains("headless")), "{:?}", scene.events());
    assert!(after_screen(pty.bytes()).is_some_and(|told| told.contains("done 200")), "the summary follows it");
    let log = fs::read_to_string(scene.dir().join("crawldeck.log")).expect("the log");
    assert!(log.contains("asked for by CRAWLDECK_TEST_PANIC_IN"), "{log}");
}
