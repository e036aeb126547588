use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::clock::{ManualClock, Wall};
use crate::config::Glyphs;
use crate::journal::REQUESTS_FILE;
use crate::tui::key::Key;
use crate::tui::review::model::Tab;
use crate::tui::terminal::tests::Memory;

/// The screen in memory, of the run in `dir`.
fn app(dir: &Path, mouse: bool) -> (App<Memory>, Memory) {
    let ui = UiConfig { mouse, ..crate::config::Config::default().ui };
    let options = ReviewOptions { ui, keys: BTreeMap::new(), dir: dir.to_path_buf(), other: None };
    let keymap = Keymap::with_overrides(&BTreeMap::new()).expect("built in");
    let theme = Theme::load("mono", Glyphs::Unicode, Surroundings::default()).expect("built in");
    let memory = Memory::sized(80, 24);
    let mut app = App::new(memory.clone(), options, (keymap, theme), ManualClock::new(Wall(0))).expect("a journal");
    app.screen.enter().expect("memory takes all");
    (app, memory)
}

fn press(app: &mut App<Memory>, keys: &str) {
    for key in keys.split(' ') {
        app.take(Message::Input(Input::Key(Key::parse(key).expect(key))));
    }
}

/// What was written for the next frame, as text.
fn frame(app: &mut App<Memory>, memory: &Memory) -> String {
    memory.take_written();
    app.screen.forget();
    app.urgent = true;
    app.draw_if_due().expect("memory takes all");
    // Blanks are written as moves of the cursor; words stay whole.
    String::from_utf8(memory.take_written()).expect("text")
}

#[test]
fn a_filter_reads_anew_with_a_bar_and_the_keys_stay_alive() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rows =
        String::from("time,host,url,kind,attempt,status,outcome,bytes,latency_ms,wait_ms,rate,capacity,tokens\n");
    let long = "x".repeat(900);
    for number in 0..9_000 {
        let host = number % 3;
        writeln!(
            rows,
            "2026-11-30T18:{:02}:{:02}.000000Z,host{host}.test,http://host{host}.test/{long},page,1,200,ok,1,1.0,0.1,2.0,4.0,1.0",
            number / 60 % 60,
            number % 60
        )
        .expect("memory");
    }
    std::fs::write(folder.path().join(REQUESTS_FILE), &rows).expect("written");
    let (mut app, memory) = app(folder.path(), false);
    let mut pieces = 0;
    while !app.model.progress.at_end {
        app.read();
        pieces += 1;
    }
    assert!(pieces >= 4, "long enough to be read in pieces: {pieces}");
    assert_eq!(app.model.timeline.summary().requests, 9_000);
    assert!(!frame(&mut app, &memory).contains("reading"));
    press(&mut app, "/ h o s t 1 enter");
    assert!(frame(&mut app, &memory).contains("reading"), "at once, before a byte is read");
    let mut shares = Vec::new();
    for (tab, key) in [(Tab::Hosts, "2"), (Tab::Decisions, "3"), (Tab::Timeline, "1")] {
        app.read();
        press(&mut app, key);
        assert!(!app.model.progress.at_end && frame(&mut app, &memory).contains("reading"));
        assert_eq!(app.model.tab, tab, "a key between two pieces is answered");
        shares.push(app.model.progress.read);
    }
    assert!(shares.is_sorted_by(|one, next| one < next), "{shares:?}");
    assert_eq!(app.wait(), Duration::ZERO, "nothing is waited for meanwhile");
    // Another filter in the middle of it begins again; none at all costs nothing.
    press(&mut app, "/ ctrl-u h o s t 2 enter");
    app.read();
    assert!(app.model.progress.read < shares[2]);
    while !app.model.progress.at_end {
        app.read();
    }
    assert_eq!(app.model.timeline.summary().requests, 9_000, "the run's own sums stand");
    assert!(app.model.timeline.is_filtered() && !frame(&mut app, &memory).contains("reading"));
    press(&mut app, "esc");
    app.looked_at = Mono::ZERO;
    app.read();
    assert!(app.model.progress.at_end && !app.model.timeline.is_filtered());
}

#[test]
fn the_mouse_is_listened_to_as_configured_and_by_key() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(REQUESTS_FILE), "time,host,status\n").expect("written");
    let asks = |bytes: Vec<u8>, what: &str| String::from_utf8_lossy(&bytes).contains(what);
    for configured in [true, false] {
        let (mut app, memory) = app(folder.path(), configured);
        assert_eq!(asks(memory.take_written(), "\u{1b}[?1000h"), configured);
        assert_eq!(app.model.mouse, configured);
        press(&mut app, "M");
        let (on, off) = ("\u{1b}[?1000h", "\u{1b}[?1000l");
        assert!(asks(memory.take_written(), if configured { off } else { on }));
        assert_eq!(app.model.mouse, !configured);
    }
}

#[test]
fn leaving_by_a_key_tells_what_the_run_came_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "time,host,url,kind,attempt,status,outcome,bytes,latency_ms,wait_ms,rate,capacity,tokens\n\
        2026-11-30T18:00:00.000000Z,a.test,http://a.test/,page,1,200,ok,1,1.0,0.1,2.0,4.0,1.0\n\
        2026-11-30T18:00:01.000000Z,b.test,http://b.test/,page,1,200,ok,1,1.0,0.1,2.0,4.0,1.0\n";
    std::fs::write(folder.path().join(REQUESTS_FILE), rows).expect("written");
    let leave = |keys: &[&str], to_the_end: bool| {
        let (mut app, _) = app(folder.path(), false);
        while to_the_end && !app.model.progress.at_end {
            app.read();
        }
        let (sender, messages) = sync_channel(INBOX_MAX);
        for key in keys {
            let key = Key::parse(key).expect(key);
            sender.try_send(Message::Input(Input::Key(key))).expect("room");
        }
        drop(sender);
        app.run(&messages).words()
    };
    let told = leave(&["q"], true);
    assert_eq!(told, summary_text(&crate::journal::summary::summarise(folder.path()).expect("a journal")));
    assert!(told.starts_with("requests  2 in 1"), "{told}");
    assert_eq!(leave(&["ctrl-c"], true), told);
    assert!(leave(&["/", "b", "enter", "q"], true).contains("not read to its end"), "it was read anew");
    assert!(leave(&["q"], false).contains("not read to its end"));
    assert_eq!(leave(&[], true), "", "nobody is there any more");
}
