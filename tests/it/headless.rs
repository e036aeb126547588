//! The real binary without a terminal: signals, streams, exit codes.

use std::time::Duration;

use crawldeck::sim::SimRequest;
use hyper::HeaderMap;
use rustix::process::Signal;

use crate::support::binary::{BINARY, Child, Ended, Scene, crawldeck, fine, ok, until};
use crate::support::records;

fn busy() -> Scene {
    let scene = Scene::new(fine(Duration::from_millis(20)), 100.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    scene
}

/// Answers nothing at all after twenty requests.
fn hanging() -> Scene {
    let mut seen = 0;
    let behaviour = move |_: Duration, _: &SimRequest<'_>, _: &HeaderMap| {
        seen += 1;
        ok(if seen <= 20 { Duration::ZERO } else { Duration::from_secs(3600) })
    };
    let scene = Scene::new(Box::new(behaviour), 100.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    scene
}

/// Plain lines on standard error, nothing on standard output.
#[track_caller]
fn assert_plain(ended: &Ended) {
    assert_eq!(ended.out, "");
    assert!(ended.err.chars().all(|c| !c.is_control() || c == '\n'), "{:?}", ended.err);
    assert!(ended.err.contains("crawldeck review crawl"), "{}", ended.err);
}

#[test]
fn case_119_without_a_terminal_plain_lines_are_printed_and_the_crawl_ends_by_itself() {
    let scene = Scene::new(fine(Duration::ZERO), 1000.0, 10.0, "");
    scene.list(&["a.test", "b.test"], 100);
    // Not asked for: there is none.
    let ended = Child::start(scene.path(), &scene.run(), &[]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_plain(&ended);
    assert!(ended.err.contains("finished: 200 of 200 done (100.0 %)"), "{}", ended.err);
    assert_eq!(scene.assert_journal_complete(), 200);
}

#[test]
fn row_14_the_first_interrupt_drains() {
    for signal in [Signal::INT, Signal::TERM] {
        let scene = busy();
        let child = scene.headless();
        scene.arrivals("requests", 20);
        child.signal(signal);
        let ended = child.end();
        assert_eq!(ended.code, Some(0), "{signal:?}: {}", ended.err);
        assert_plain(&ended);
        scene.assert_journal_complete();
        let arrivals = scene.server.arrivals();
        assert!(arrivals.iter().all(|arrival| arrival.answered.is_some()), "{signal:?}: in flight was not awaited");
    }
}

#[test]
fn wanted_20_the_second_one_stops_though_a_request_hangs() {
    for signal in [Signal::INT, Signal::TERM] {
        let scene = hanging();
        let child = scene.headless();
        scene.arrivals("requests that hang", 24);
        child.signal(signal);
        until("the drain is told", || child.err().contains("draining").then_some(()));
        child.signal(signal);
        let ended = child.end();
        assert_eq!(ended.code, Some(130), "{signal:?}: {}", ended.err);
        assert_plain(&ended);
        assert!(scene.server.arrivals().iter().any(|arrival| arrival.answered.is_none()), "nothing hung");
        scene.assert_journal_complete();
    }
}

#[test]
fn row_14_a_hang_up_without_a_terminal_changes_nothing() {
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 4.0, "");
    scene.list(&["a.test"], 150);
    let child = scene.headless();
    scene.arrivals("requests", 20);
    child.signal(Signal::HUP);
    let ended = child.end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(scene.assert_journal_complete(), 150);
    assert!(ended.err.contains("finished: 150 of 150 done"), "status lines go on: {}", ended.err);
}

#[test]
fn case_98_a_second_process_on_the_folder_is_refused_and_the_first_one_named() {
    let scene = busy();
    let child = scene.headless();
    scene.arrivals("requests", 5);
    let second = scene.headless().end();
    assert_eq!(second.code, Some(2), "{}", second.err);
    assert!(second.err.contains(&format!("process {}", child.pid.as_raw_nonzero())), "{}", second.err);
    assert!(second.err.contains("-d"), "{}", second.err);
    child.signal(Signal::TERM);
    assert_eq!(child.end().code, Some(0));
    // No stale lock: now the third goes on with what the first left.
    let third = scene.headless();
    scene.arrivals("requests of the third", scene.server.arrivals().len() + 5);
    third.signal(Signal::TERM);
    let third = third.end();
    assert_eq!(third.code, Some(0), "{}", third.err);
    // Nor after a kill, at which nothing of ours could tidy up.
    let killed = scene.headless();
    scene.arrivals("requests of the one that is killed", scene.server.arrivals().len() + 5);
    assert!(killed.kill(), "it ran");
    let fourth = scene.headless();
    scene.arrivals("requests of the fourth", scene.server.arrivals().len() + 5);
    fourth.signal(Signal::TERM);
    let fourth = fourth.end();
    assert_eq!(fourth.code, Some(0), "{}", fourth.err);
}

#[test]
fn case_98_a_folder_on_a_file_system_of_a_network_is_warned_of_at_once_and_used() {
    // What statfs tells of NFS; nothing is mounted here.
    const WORDS: &str = "run folder crawl is on NFS: there, locks may not keep out a second crawl";
    let scene = Scene::new(fine(Duration::ZERO), 1000.0, 10.0, "");
    scene.list(&["a.test"], 20);
    let mut args = scene.run();
    args.push("--headless".into());
    let ended = Child::start(scene.path(), &args, &[("CRAWLDECK_TEST_FILE_SYSTEM", "6969")]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_plain(&ended);
    assert!(ended.err.starts_with(&format!("crawldeck: warning: {WORDS}")), "{}", ended.err);
    let events = scene.events();
    let at = |words: &str| events.iter().position(|(_, why)| why.contains(words));
    assert!(at(WORDS).is_some_and(|at| at <= 1), "among the first: {events:?}");
    assert!(scene.file("crawldeck.log").contains("is on NFS"));
    assert_eq!(scene.assert_journal_complete(), 20);
    // A disk of the machine is no reason to say anything.
    let again = Child::start(scene.path(), &args, &[("CRAWLDECK_TEST_FILE_SYSTEM", "ef53")]).end();
    assert!(again.err.contains("finished: ") && !again.err.contains("warning"), "{}", again.err);
}

/// Whoever comes to the lock second goes, however close together they come.
#[test]
fn row_34_of_eight_that_are_started_at_once_just_one_lives() {
    let scene = busy();
    let (mut alive, mut refused) = ((0..8).map(|_| scene.headless()).collect::<Vec<_>>(), Vec::new());
    scene.arrivals("requests of the one", 5);
    until("seven have ended", || {
        for mut one in std::mem::take(&mut alive) {
            let ended = one.ends_within(Duration::ZERO);
            if ended { refused.push(one) } else { alive.push(one) }
        }
        (refused.len() == 7).then_some(())
    });
    for one in refused {
        let ended = one.end();
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains("process ") && ended.err.contains("-d"), "{}", ended.err);
    }
    let one = alive.pop().expect("just one lives");
    one.signal(Signal::TERM);
    assert_eq!(one.end().code, Some(0));
    scene.assert_journal_complete();
}

#[test]
fn fault_row_15_a_reader_that_goes_away_is_no_end_of_the_crawl() {
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 4.0, "");
    scene.list(&["a.test"], 150);
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "{ \"$0\" \"$@\"; echo $? > code; } 2>&1 | head -1", BINARY]);
    let output = command
        .args(scene.run())
        .current_dir(scene.path())
        .env("XDG_DATA_HOME", scene.path())
        .output()
        .expect("a shell");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(std::fs::read_to_string(scene.path().join("code")).expect("written").trim(), "0");
    assert_eq!(scene.assert_journal_complete(), 150);
}

/// A pipe that takes not one byte more, and its other end.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use std::io::Write as _;
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = rustix::fs::fcntl_getfl(&writer).expect("flags");
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).expect("flags");
    while writer.write(&[b'x'; 4096]).or_else(|_| writer.write(b"x")).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).expect("flags");
    (reader, writer)
}

#[test]
fn fault_row_15_a_drain_ends_though_nobody_reads_the_status_lines() {
    let scene = busy();
    let (_nobody_reads, stderr) = full_pipe();
    let mut command = std::process::Command::new(BINARY);
    command
        .args(scene.run())
        .current_dir(scene.path())
        .env("XDG_DATA_HOME", scene.path())
        .stdin(std::process::Stdio::null());
    let mut child = command.stderr(stderr).spawn().expect("the binary starts");
    scene.arrivals("requests while nobody reads", 100);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).expect("it runs");
    let status = until("the exit", || child.try_wait().expect("a child of our own"));
    assert_eq!(status.code(), Some(0));
    scene.assert_journal_complete();
}

#[test]
fn urls_come_from_the_standard_input_too() {
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 10.0, "");
    let args = ["run", "-c", "scene.toml", "-u", "-", "-d", "crawl"].map(String::from);
    let input = b"# a comment\nhttp://a.test/1\n\nno url\nhttp://a.test/2\nhttp://a.test/1\n";
    let ended = Child::start_fed(scene.path(), &args, &[], input).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(scene.assert_journal_complete(), 2);
    let events = scene.events();
    assert!(events.iter().any(|(_, why)| why.starts_with("-:4: ")), "{events:?}");
}

#[test]
fn a_refused_address_names_the_switch_and_is_no_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ended = crawldeck(folder.path(), &["run", "--headless", "-d", "crawl", "http://127.0.0.1:9/"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let (events, _) = records::events(&folder.path().join("crawl"));
    let named = events.iter().any(|event| event.why.as_str().contains("network.allow_private"));
    assert!(named || ended.err.contains("network.allow_private"), "{}\n{events:?}", ended.err);
}

#[test]
fn each_demo_has_a_fresh_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().to_str().expect("a plain name");
    for runs in 1..=2 {
        let args = ["demo", "--headless", "--for", "1s"].map(String::from);
        let ended = Child::start(folder.path(), &args, &[("TMPDIR", place)]).end();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), runs);
    }
}

#[test]
fn fault_row_15_closed_streams_are_no_reason_to_fail() {
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 4.0, "");
    scene.list(&["a.test"], 30);
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "\"$0\" \"$@\" <&- >&- 2>&-", BINARY]).args(scene.run()).current_dir(scene.path());
    command.env("XDG_DATA_HOME", scene.path());
    assert_eq!(command.status().expect("a shell").code(), Some(0));
    assert_eq!(scene.assert_journal_complete(), 30);
}

#[test]
fn the_demo_ends_by_itself_and_every_host_was_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ended = crawldeck(folder.path(), &["demo", "--headless", "--for", "3s", "-d", "run"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, "");
    let (rows, damaged) = records::requests(&folder.path().join("run"));
    assert_eq!(damaged, 0);
    let hosts: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.host.as_str()).collect();
    assert_eq!(hosts.len(), 10, "{hosts:?}");
    assert!(hosts.iter().all(|host| ended.err.contains(host)), "a line about each: {}", ended.err);
}
