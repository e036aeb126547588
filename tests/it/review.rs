//! `crawldeck review` over journals written by the real writer.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crawldeck::clock::{ManualClock, Wall};
use crawldeck::control::{OperatorSettings, Outcome, Override, Pause, Value, What, Who};
use crawldeck::journal::disk::SystemDisk;
use crawldeck::journal::summary::summarise;
use crawldeck::journal::{Event, Journal, JournalOptions, RequestRow};
use crawldeck::review::{ReviewError, ReviewMode, run_review};

use crate::support::records::{event, host_event, requests, row};

fn write(dir: &Path, rows: Vec<RequestRow>, events: Vec<Event>, rotate_at: u64) {
    let options = JournalOptions { rotate_at, ..JournalOptions::default() };
    let mut journal =
        Journal::open_with(dir, ManualClock::new(Wall(0)), Box::new(SystemDisk), options).expect("writable");
    rows.into_iter().for_each(|row| journal.request(row));
    events.into_iter().for_each(|event| journal.event(event));
    journal.close_blocking(Duration::from_secs(60)).expect("written");
}

fn review(dir: &Path, mode: ReviewMode) -> String {
    let mut out = Vec::new();
    run_review(dir, mode, &mut out).expect("a journal");
    String::from_utf8(out).expect("text")
}

fn answer(number: u32, status: Option<u16>, outcome: Outcome) -> RequestRow {
    RequestRow { status, outcome, ..row(number) }
}

#[test]
fn wanted_16_sums_equal_the_log() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let kinds = [
        (Some(200), Outcome::Ok),
        (Some(304), Outcome::NotModified),
        (Some(429), Outcome::Throttled),
        (Some(403), Outcome::Refused),
        (Some(500), Outcome::ServerError),
        (Some(200), Outcome::Incomplete),
        (None, Outcome::Connect),
    ];
    let rows: Vec<RequestRow> =
        (0..100).map(|number| answer(number, kinds[number as usize % 7].0, kinds[number as usize % 7].1)).collect();
    write(dir.path(), rows.clone(), Vec::new(), u64::MAX);

    let json: serde_json::Value = serde_json::from_str(&review(dir.path(), ReviewMode::Json)).expect("JSON");
    let count = |wanted: Outcome| rows.iter().filter(|row| row.outcome == wanted).count() as u64;
    let network = rows.iter().filter(|row| row.outcome.is_network()).count() as u64;
    assert_eq!(json["requests"], 100);
    assert_eq!(json["ok"], count(Outcome::Ok));
    assert_eq!(json["throttled"], count(Outcome::Throttled));
    assert_eq!(json["server_errors"], count(Outcome::ServerError));
    assert_eq!(json["network_errors"], network);
    let sum = |counts: &serde_json::Value| counts.as_object().expect("a map").values().filter_map(|n| n.as_u64()).sum();
    let without_status: u64 = count(Outcome::Connect);
    let by_status: u64 = sum(&json["by_status"]);
    let by_outcome: u64 = sum(&json["by_outcome"]);
    assert_eq!((by_status, by_outcome), (100 - without_status, 100));
    let hosts = json["hosts"].as_array().expect("a list");
    assert_eq!(hosts.len(), 3);
    for host in hosts {
        let of_host = |row: &&RequestRow| row.host.as_str() == host["host"];
        assert_eq!(host["requests"], rows.iter().filter(of_host).count());
        for status in [200, 304, 429, 403, 500] {
            let wanted = rows.iter().filter(of_host).filter(|row| row.status == Some(status)).count();
            assert_eq!(host["by_status"][status.to_string()], wanted, "{status}");
        }
    }
}

#[test]
fn json_has_the_keys_of_the_contract_in_their_order() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), vec![row(0)], Vec::new(), u64::MAX);
    let text = review(dir.path(), ReviewMode::Json);
    let keys = "requests ok throttled server_errors network_errors urls_done urls_failed urls_pending urls_skipped \
                by_status first last hosts host requests by_status original_rate last_rate held_seconds pauses overrides";
    let mut rest = text.as_str();
    for key in keys.split_whitespace() {
        let (_, after) = rest.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {text}"));
        rest = after;
    }
    assert!(text.contains("\"first\": \"2023-11-14T22:13:20.000000Z\""), "{text}");
}

#[test]
fn an_empty_run_has_no_first_and_last() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), Vec::new(), Vec::new(), u64::MAX);
    let json: serde_json::Value = serde_json::from_str(&review(dir.path(), ReviewMode::Json)).expect("JSON");
    assert_eq!((&json["first"], &json["requests"]), (&serde_json::Value::Null, &0.into()));
    assert!(review(dir.path(), ReviewMode::Summary).contains("requests  0"));
}

#[test]
fn wanted_25_urls_come_from_the_last_counts_and_what_followed() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let counts = |urls_done| Value::Counts { urls_done, urls_failed: 1, urls_pending: 5, urls_skipped: 2 };
    let events = vec![
        host_event(0.5, Who::System, What::UrlFailed, "a", Value::None),
        Event { after: counts(3), ..event(1.0, Who::System, What::Progress) },
        Event { after: counts(4), ..event(2.0, Who::System, What::Progress) },
        host_event(3.0, Who::System, What::UrlFailed, "a", Value::None),
        host_event(3.0, Who::System, What::UrlSkipped, "a", Value::None),
    ];
    write(dir.path(), Vec::new(), events, u64::MAX);
    let summary = summarise(dir.path()).expect("readable");
    let urls = (summary.urls_done, summary.urls_failed, summary.urls_pending, summary.urls_skipped);
    assert_eq!(urls, (4, 2, 3, 3));
}

#[test]
fn holds_are_counted_once_ended_by_wake_and_by_the_end_of_the_run() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let hold = |at, host, secs| host_event(at, Who::Controller, What::Hold, host, Value::Number(secs));
    let events = vec![
        event(0.0, Who::System, What::Start),
        // Overlapping: 10 to 25.
        hold(10.0, "merged", 10.0),
        hold(15.0, "merged", 10.0),
        hold(16.0, "merged", 2.0),
        // Apart: 5 more.
        hold(40.0, "merged", 5.0),
        // Woken after 3 s of an hour.
        hold(10.0, "woken", 3600.0),
        host_event(13.0, Who::Operator, What::Wake, "woken", Value::None),
        // Longer than the run: 90 to 100.
        hold(90.0, "long", 3600.0),
        event(100.0, Who::System, What::Stop),
    ];
    write(dir.path(), Vec::new(), events, u64::MAX);
    let summary = summarise(dir.path()).expect("readable");
    let held: Vec<(&str, f64)> = summary.hosts.iter().map(|host| (host.host.as_str(), host.held_seconds)).collect();
    assert_eq!(held, [("long", 10.0), ("merged", 20.0), ("woken", 3.0)]);
}

#[test]
fn a_killed_run_is_held_until_its_last_request() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let events = vec![host_event(10.0, Who::Server, What::Hold, "a", Value::Number(3600.0))];
    let last = RequestRow { time: Wall(1_700_000_000_000_000 + 70_000_000), ..row(0) };
    write(dir.path(), vec![last], events, u64::MAX);
    let summary = summarise(dir.path()).expect("readable");
    assert_eq!(summary.hosts[0].held_seconds, 60.0);
}

#[test]
fn rates_and_own_actions_are_told_with_what_is_still_set() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let rate =
        |at, who, host, before, after| Event { before, ..host_event(at, who, What::Rate, host, Value::Number(after)) };
    let set = |overriding: Option<f64>, paused: bool| {
        let overriding = overriding.map(|rate| Override {
            rate: Some(rate),
            capacity: None,
            since: Default::default(),
            until: None,
        });
        let pause = paused.then_some(Pause { since: Default::default(), until: None });
        Value::Settings(OperatorSettings { overriding, pause, budget: None })
    };
    let events = vec![
        rate(0.0, Who::System, "a", Value::None, 2.0),
        rate(1.0, Who::Controller, "a", Value::Number(2.0), 1.0),
        host_event(2.0, Who::Operator, What::Override, "a", set(Some(0.25), false)),
        host_event(3.0, Who::Operator, What::Pause, "a", set(Some(0.25), true)),
        rate(0.0, Who::System, "b", Value::None, 2.0),
        host_event(4.0, Who::Operator, What::Override, "b", set(Some(9.0), false)),
        host_event(5.0, Who::Operator, What::Undo, "b", set(None, false)),
    ];
    write(dir.path(), vec![row(0)], events, u64::MAX);
    let summary = summarise(dir.path()).expect("readable");
    let told: Vec<_> = summary
        .hosts
        .iter()
        .map(|host| (host.host.as_str(), host.original_rate, host.last_rate, host.pauses, host.overrides, host.paused))
        .collect();
    let expected = [
        ("a", Some(2.0), Some(0.25), 1, 1, true),
        ("b", Some(2.0), Some(2.0), 0, 1, false),
        ("host0.example", Some(0.0), Some(2.0), 0, 0, false),
    ];
    assert_eq!(told, expected);
    let text = review(dir.path(), ReviewMode::Summary);
    assert!(text.contains("override 2  pause 1  undo 1"), "{text}");
    assert!(text.contains("a: paused override rate 0.25/s"), "{text}");
    assert!(text.contains("never slowed 2"), "{text}");
    assert!(text.contains(&format!("crawldeck review {}", dir.path().display())), "{text}");
}

#[test]
fn the_csv_of_a_rotated_run_is_one_file_with_one_header() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for part in 0..4 {
        write(dir.path(), (part * 5..part * 5 + 5).map(row).collect(), Vec::new(), 100);
    }
    assert!(dir.path().join("requests-0004.csv").exists());
    let target = dir.path().join("all.csv");
    assert_eq!(review(dir.path(), ReviewMode::Csv(target.clone())), "");
    let text = fs::read_to_string(&target).expect("written");
    assert_eq!(text.lines().count(), 21);
    assert_eq!(text.matches("time,host,").count(), 1);
    assert_eq!(review(dir.path(), ReviewMode::Csv("-".into())), text);

    let alone = tempfile::tempdir().expect("a temporary folder");
    fs::write(alone.path().join("requests.csv"), text).expect("writable");
    assert_eq!(requests(alone.path()), requests(dir.path()));
}

#[test]
fn missing_journals_are_errors_and_the_journal_is_never_written_over() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let refused = |dir: &Path, mode| run_review(dir, mode, &mut Vec::new()).expect_err("nothing to show");
    assert!(matches!(refused(&dir.path().join("none"), ReviewMode::Json), ReviewError::NoFolder(_)));
    assert!(matches!(refused(dir.path(), ReviewMode::Json), ReviewError::NoJournal(_)));
    write(dir.path(), vec![row(0)], Vec::new(), u64::MAX);
    let target = dir.path().join("requests.csv");
    let error = refused(dir.path(), ReviewMode::Csv(target));
    assert!(matches!(error, ReviewError::IntoJournal(_)), "{error}");
    assert_eq!(requests(dir.path()).0.len(), 1);
}
