//! The timeline over journals written by the real writer: complete, rotated, torn, growing.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crawldeck::clock::{ManualClock, Wall};
use crawldeck::control::{OperatorSettings, Outcome, Override, Value, What, Who};
use crawldeck::journal::disk::SystemDisk;
use crawldeck::journal::summary::summarise;
use crawldeck::journal::timeline::bins::{Code, Key, Mark};
use crawldeck::journal::timeline::entry::LogScan;
use crawldeck::journal::timeline::{Follow, Timeline};
use crawldeck::journal::{EVENTS_FILE, Event, Journal, JournalOptions, REQUESTS_FILE, RequestRow, rotated_name};

use crate::support::records::{event, host_event, row};

fn write(dir: &Path, rows: Vec<RequestRow>, events: Vec<Event>, rotate_at: u64) {
    let options = JournalOptions { rotate_at, ..JournalOptions::default() };
    let mut journal =
        Journal::open_with(dir, ManualClock::new(Wall(0)), Box::new(SystemDisk), options).expect("writable");
    rows.into_iter().for_each(|row| journal.request(row));
    events.into_iter().for_each(|event| journal.event(event));
    journal.close_blocking(Duration::from_secs(60)).expect("written");
}

/// Reads all there is, in small pieces.
fn read_on(follow: &mut Follow, timeline: &mut Timeline) {
    for _ in 0..1_000_000 {
        let progress = follow.step(timeline, 300).expect("readable");
        assert!(progress.read <= progress.total);
        if progress.at_end {
            return;
        }
    }
    panic!("no end");
}

fn read(dir: &Path) -> Timeline {
    let mut timeline = Timeline::new(dir, None);
    read_on(&mut Follow::open(dir).expect("readable"), &mut timeline);
    timeline
}

fn statuses(timeline: &Timeline) -> Vec<(Code, u64)> {
    timeline.bins().codes().into_iter().map(|(code, row)| (code, row.total)).collect()
}

fn answers(count: u32) -> Vec<RequestRow> {
    let kinds = [
        (Some(200), Outcome::Ok),
        (Some(429), Outcome::Throttled),
        (Some(200), Outcome::Incomplete),
        (None, Outcome::Connect),
    ];
    let one = |number: u32| {
        let (status, outcome) = kinds[number as usize % 4];
        RequestRow { status, outcome, url: "http://host.example/".into(), ..row(number) }
    };
    (0..count).map(one).collect()
}

#[test]
fn the_timeline_counts_what_the_summary_counts() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Files are rotated between batches.
    let rows = answers(400);
    rows.chunks(100).for_each(|batch| write(dir.path(), batch.to_vec(), Vec::new(), 5_000));
    assert!(dir.path().join(rotated_name(2)).exists(), "several files");
    let (timeline, summary) = (read(dir.path()), summarise(dir.path()).expect("readable"));
    let wanted = vec![
        (Code::Status(200), 100),
        (Code::Status(429), 100),
        (Code::Failed(Outcome::Connect), 100),
        (Code::Failed(Outcome::Incomplete), 100),
    ];
    assert_eq!(statuses(&timeline), wanted);
    assert_eq!(timeline.summary().requests, summary.requests);
    assert_eq!(timeline.summary().by_status, summary.by_status);
    assert_eq!(timeline.summary().by_outcome, summary.by_outcome);
    assert_eq!((timeline.hosts().len(), timeline.damage().lines), (3, 0));
}

#[test]
fn a_filter_counts_only_its_hosts() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(
        dir.path(),
        answers(300),
        vec![host_event(1.0, Who::Operator, What::Pause, "host2.example", Value::None)],
        u64::MAX,
    );
    let mut timeline = Timeline::new(dir.path(), Some(Box::new(|name| name == "host1.example")));
    read_on(&mut Follow::open(dir.path()).expect("readable"), &mut timeline);
    assert_eq!(timeline.bins().requests(i64::MIN, i64::MAX), 100);
    assert_eq!(timeline.summary().requests, 300);
    assert_eq!(timeline.acts().len(), 0);
}

#[test]
fn a_live_run_is_followed_through_rotation_and_torn_lines() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut follow = Follow::open(dir.path()).expect("an empty folder");
    let mut timeline = Timeline::new(dir.path(), None);
    read_on(&mut follow, &mut timeline);
    assert!(timeline.bins().is_empty());

    write(dir.path(), answers(100), Vec::new(), u64::MAX);
    read_on(&mut follow, &mut timeline);
    assert_eq!(timeline.summary().requests, 100);

    // A line in two pieces.
    let current = dir.path().join(REQUESTS_FILE);
    let text = fs::read_to_string(&current).expect("a file");
    let line = text.lines().last().expect("a line").to_owned();
    let mut file = OpenOptions::new().append(true).open(&current).expect("a file");
    file.write_all(&line.as_bytes()[..20]).expect("written");
    read_on(&mut follow, &mut timeline);
    assert_eq!((timeline.summary().requests, timeline.damage().torn), (100, 1));
    file.write_all(&line.as_bytes()[20..]).expect("written");
    file.write_all(b"\n").expect("written");
    read_on(&mut follow, &mut timeline);
    assert_eq!((timeline.summary().requests, timeline.damage().torn), (101, 0));

    // A torn line that the next run cuts off.
    file.write_all(b"2026-").expect("written");
    read_on(&mut follow, &mut timeline);
    let whole = fs::metadata(&current).expect("a file").len() - 5;
    file.set_len(whole).expect("cut");
    read_on(&mut follow, &mut timeline);
    writeln!(file, "{line}").expect("written");
    read_on(&mut follow, &mut timeline);
    assert_eq!((timeline.summary().requests, timeline.damage().lines), (102, 0));

    // Rotated twice between two looks, with a last line that was not seen.
    writeln!(file, "{line}").expect("written");
    fs::rename(&current, dir.path().join(rotated_name(1))).expect("renamed");
    fs::write(dir.path().join(rotated_name(2)), format!("{line}\n{line}\n")).expect("written");
    fs::write(&current, format!("{line}\nnonsense\n")).expect("written");
    read_on(&mut follow, &mut timeline);
    assert_eq!((timeline.summary().requests, timeline.damage().lines), (106, 1));
    read_on(&mut follow, &mut timeline);
    assert_eq!(timeline.summary().requests, 106, "nothing is read twice");
}

#[test]
fn acts_concerns_and_decisions_stand_on_the_axis() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let overriding = Override { rate: Some(0.5), capacity: None, until: None, since: Default::default() };
    let settings = Value::Settings(OperatorSettings { overriding: Some(overriding), ..OperatorSettings::default() });
    let text = |word: &str| Value::Text(word.into());
    let events = vec![
        event(0.0, Who::System, What::Start),
        host_event(0.1, Who::System, What::Rate, "a.test", Value::Number(2.0)),
        host_event(1.0, Who::Operator, What::Override, "a.test", settings),
        host_event(2.0, Who::Concern, What::Concern, "a.test", text("angry")),
        host_event(3.0, Who::Concern, What::Concern, "a.test", Value::None),
        host_event(4.0, Who::Server, What::Hold, "a.test", Value::Number(120.0)),
        event(5.0, Who::System, What::Stop),
    ];
    write(dir.path(), Vec::new(), events, u64::MAX);
    let timeline = read(dir.path());
    let marks = Mark::ALL.map(|mark| timeline.bins().count(Key::Mark(mark), i64::MIN, i64::MAX));
    assert_eq!(marks, [0, 0, 1, 0, 0, 1, 1]);
    assert!(timeline.has_stopped());
    let texts: Vec<String> = timeline
        .entries(Wall(0), Wall(i64::MAX), 100)
        .0
        .iter()
        .map(|entry| format!("{} {} {}", entry.who_word(), entry.host, entry.text))
        .collect();
    assert_eq!(texts[1], "you a.test override rate 0.50/s  because");
    assert!(texts[4].starts_with("host a.test hold 120 s"), "{texts:?}");

    let from = Wall(1_700_000_000_000_000 + 2_000_000);
    let mut scan = LogScan::open(dir.path(), from).expect("readable");
    scan.step(1_000).expect("readable");
    assert!(scan.complete);
    assert_eq!((scan.before, scan.entries.len()), (2, texts.len()));
    assert!(fs::metadata(dir.path().join(EVENTS_FILE)).is_ok());
}
