//! The journal on a real file system, whole, torn, full, moved and cut.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crawldeck::clock::{ManualClock, Wall};
use crawldeck::control::{Value, What, Who};
use crawldeck::journal::disk::SystemDisk;
use crawldeck::journal::{Event, FORMAT_VERSION, Journal, JournalError, JournalOptions, RequestRow};
use crawldeck::text::Clean;
use proptest::prelude::*;

use crate::support::disk::{FailingDisk, Faults};
use crate::support::records::{event, events, requests, row, same};

/// Long enough never to pass where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// Small groups, quick retries, a sync after each group.
fn eager() -> JournalOptions {
    JournalOptions {
        group: Duration::ZERO,
        retry: Duration::from_millis(1),
        sync_every: Duration::ZERO,
        rotate_at: u64::MAX,
        rows: 0,
    }
}

fn open(dir: &Path, options: JournalOptions) -> Journal {
    Journal::open_with(dir, ManualClock::new(Wall(0)), Box::new(SystemDisk), options).expect("writable")
}

fn write(dir: &Path, rows: &[RequestRow], events: &[Event]) {
    let mut journal = open(dir, JournalOptions::default());
    for row in rows {
        journal.request(row.clone());
    }
    for event in events {
        journal.event(event.clone());
    }
    journal.close_blocking(PATIENCE).expect("written");
}

/// Hands rows over in groups and waits for each to be written.
async fn write_group(journal: &mut Journal, numbers: std::ops::Range<u32>) {
    for number in numbers {
        journal.request(row(number));
    }
    let mut health = journal.health_changed();
    health.mark_unchanged();
    journal.flush();
    while journal.backlog() > 0 {
        health.changed().await.expect("the writer lives");
    }
}

#[track_caller]
fn assert_rows(dir: &Path, count: u32) {
    let (records, damaged) = requests(dir);
    assert_eq!(damaged, 0);
    assert_eq!(records.len(), count as usize);
    for (number, record) in (0..count).zip(&records) {
        assert!(same(&row(number), record), "row {number}: {record:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn case_129_whatever_is_written_is_read_back_and_no_cell_is_a_formula(
        texts in prop::collection::vec(("[=+@'\"\\-,\t\r\n\u{0}\u{2028}\u{202e}a]{0,12}", any::<String>()), 1..8),
    ) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let rows: Vec<RequestRow> =
            texts.iter().map(|(host, url)| RequestRow { host: Clean::new(host), url: Clean::new(url), ..row(3) }).collect();
        let all: Vec<Event> = texts
            .iter()
            .map(|(host, url)| Event {
                host: Some(Clean::new(host)),
                why: Clean::new(url),
                url: Some(Clean::new(url)),
                before: Value::Text(Clean::new(host).as_str().to_owned()),
                ..event(1.0, Who::System, What::Anomaly)
            })
            .collect();
        write(dir.path(), &rows, &all);

        let (records, damaged) = requests(dir.path());
        prop_assert_eq!((records.len(), damaged), (rows.len(), 0));
        for (row, record) in rows.iter().zip(&records) {
            prop_assert!(same(row, record), "{:?} became {:?}", row, record);
        }
        let (records, damaged) = events(dir.path());
        prop_assert_eq!((records.len(), damaged), (all.len(), 0));
        for (number, (event, record)) in (1..).zip(all.iter().zip(&records)) {
            prop_assert_eq!(record.seq, number);
            prop_assert_eq!(&record.why, &event.why);
            prop_assert_eq!(&record.before, &event.before);
            prop_assert_eq!(record.host.clone().unwrap_or_default(), event.host.clone().unwrap_or_default());
        }

        let mut reader = csv::Reader::from_path(dir.path().join("requests.csv")).expect("a CSV file");
        let mut count = 0;
        for record in reader.records() {
            let record = record.expect("RFC 4180");
            prop_assert_eq!(record.len(), 13);
            for cell in record.iter() {
                let number = cell.parse::<f64>().is_ok();
                prop_assert!(number || !cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{}", cell);
                prop_assert!(!cell.contains(char::is_control), "{}", cell);
            }
            count += 1;
        }
        prop_assert_eq!(count, rows.len());
    }
}

#[test]
fn case_88_a_journal_cut_anywhere_is_read_and_gone_on_with() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let rows: Vec<RequestRow> = (0..3).map(row).collect();
    let all = vec![event(0.0, Who::System, What::Start), event(1.0, Who::Operator, What::Halt)];
    write(dir.path(), &rows, &all);
    let whole = |name: &str| fs::read(dir.path().join(name)).expect("written");
    let (csv, jsonl) = (whole("requests.csv"), whole("events.jsonl"));
    let line_ends = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    for cut in 0..=csv.len().max(jsonl.len()) {
        let torn = tempfile::tempdir().expect("a temporary folder");
        let (csv, jsonl) = (&csv[..cut.min(csv.len())], &jsonl[..cut.min(jsonl.len())]);
        fs::write(torn.path().join("requests.csv"), csv).expect("writable");
        fs::write(torn.path().join("events.jsonl"), jsonl).expect("writable");

        let (kept_rows, kept_events) = (line_ends(csv).saturating_sub(1), line_ends(jsonl));
        let (records, damaged) = requests(torn.path());
        assert_eq!((records.len(), damaged), (kept_rows, 0), "cut at {cut}");
        let (records, damaged) = events(torn.path());
        assert_eq!((records.len(), damaged), (kept_events, 0), "cut at {cut}");

        write(torn.path(), &[row(9)], &[event(2.0, Who::System, What::Stop)]);
        let (records, damaged) = requests(torn.path());
        assert_eq!((records.len(), damaged), (kept_rows + 1, 0), "cut at {cut}");
        assert!(same(&row(9), &records[kept_rows]));
        let (records, damaged) = events(torn.path());
        assert_eq!((records.len(), damaged), (kept_events + 1, 0), "cut at {cut}");
        let numbers: Vec<u64> = records.iter().map(|record| record.seq).collect();
        assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>(), "cut at {cut}");
    }
}

#[test]
fn the_first_event_of_a_run_tells_the_version() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), &[], &[event(0.0, Who::System, What::Start), event(0.0, Who::System, What::Stop)]);
    let (records, _) = events(dir.path());
    assert_eq!(records.iter().map(|record| record.version).collect::<Vec<_>>(), [Some(FORMAT_VERSION), None]);
}

#[tokio::test]
async fn requests_are_rotated_with_each_record_whole_in_one_file() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = JournalOptions { rotate_at: 1_000, ..eager() };
    for run in 0..2 {
        let mut journal = open(dir.path(), options);
        for group in 0..20 {
            let first = run * 40 + group * 2;
            write_group(&mut journal, first..first + 2).await;
        }
        journal.close(PATIENCE).await.expect("written");
    }
    assert_rows(dir.path(), 80);
    let mut rotated = 0;
    for entry in fs::read_dir(dir.path()).expect("readable") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            rotated += 1;
            let text = fs::read_to_string(&path).expect("text");
            assert!(text.starts_with("time,host,url,") && text.ends_with('\n'), "{}", path.display());
            assert!(text.len() < 1_600, "{} has {} bytes", path.display(), text.len());
        }
    }
    assert!(rotated > 5, "{rotated} files");
    assert!(dir.path().join("requests-0001.csv").exists());
}

#[test]
fn columns_of_another_version_stay_under_their_own_header() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("requests.csv"), "time,host,outcome\n2020-01-01T00:00:00Z,old,ok\n").expect("writable");
    write(dir.path(), &[row(0)], &[]);
    let (records, damaged) = requests(dir.path());
    assert_eq!((records.len(), damaged), (2, 0));
    assert_eq!(records[0].host.as_str(), "old");
    assert!(same(&row(0), &records[1]));
}

/// Writes 12 rows and 6 events on a disk with these faults; returns the number of operations.
fn run_with_faults(dir: &Path, from: u64, length: u64, torn: bool) -> u64 {
    let faults = Arc::new(Faults::default());
    faults.from.store(from, Ordering::SeqCst);
    faults.length.store(length, Ordering::SeqCst);
    faults.torn.store(torn, Ordering::SeqCst);
    let options = JournalOptions { rotate_at: 700, ..eager() };
    let mut tries = 0;
    let mut journal = loop {
        let disk = Box::new(FailingDisk(Arc::clone(&faults)));
        match Journal::open_with(dir, ManualClock::new(Wall(0)), disk, options) {
            Ok(journal) => break journal,
            Err(error) => assert!(matches!(error, JournalError::Open { .. }), "{error}"),
        }
        tries += 1;
        assert!(tries <= length, "opening fails though the disk is well again");
    };
    for number in 0..12 {
        journal.request(row(number));
        if number % 2 == 0 {
            journal.event(event(f64::from(number), Who::Controller, What::Rate));
        }
        journal.flush();
    }
    journal.close_blocking(PATIENCE).expect("written in the end");
    faults.count.load(Ordering::SeqCst)
}

#[test]
fn case_95_any_disk_operation_may_fail_and_nothing_is_lost_or_doubled() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let operations = run_with_faults(dir.path(), 0, 0, false);
    assert!(operations > 15, "{operations}");
    for torn in [false, true] {
        for length in [1, 2, 5] {
            // How the rows group, and with it the number of operations, varies a little: go beyond the end.
            for from in 0..operations + 40 {
                let dir = tempfile::tempdir().expect("a temporary folder");
                run_with_faults(dir.path(), from, length, torn);
                assert_rows(dir.path(), 12);
                let (records, damaged) = events(dir.path());
                let numbers: Vec<u64> = records.iter().map(|record| record.seq).collect();
                assert_eq!((numbers, damaged), ((1..=6).collect(), 0), "from {from}, {length} in a row, torn {torn}");
            }
        }
    }
}

#[tokio::test]
async fn case_95_a_full_disk_blocks_with_a_reason_and_the_journal_goes_on_by_itself() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let faults = Arc::new(Faults::default());
    let disk = Box::new(FailingDisk(Arc::clone(&faults)));
    let mut journal =
        Journal::open_with(dir.path(), ManualClock::new(Wall(0)), disk, eager()).expect("writable at first");
    write_group(&mut journal, 0..5).await;
    let mut health = journal.health_changed();

    faults.full.store(true, Ordering::SeqCst);
    for number in 5..9 {
        journal.request(row(number));
        journal.flush();
    }
    let blocked = health.wait_for(|health| health.blocked.is_some()).await.expect("the writer lives").blocked.clone();
    let reason = blocked.expect("waited for").as_str().to_owned();
    assert!(reason.contains("requests.csv") && reason.contains("disk full"), "{reason}");
    assert_eq!(journal.backlog(), 4);
    assert_eq!(journal.health().blocked.expect("still blocked").as_str(), reason);

    faults.full.store(false, Ordering::SeqCst);
    health.wait_for(|health| health.blocked.is_none() && health.backlog == 0).await.expect("the writer lives");
    assert_eq!(journal.backlog(), 0);
    journal.close(PATIENCE).await.expect("written");
    assert_rows(dir.path(), 9);
}

#[test]
fn closing_on_a_full_disk_ends_and_says_what_is_missing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let faults = Arc::new(Faults::default());
    let disk = Box::new(FailingDisk(Arc::clone(&faults)));
    let mut journal =
        Journal::open_with(dir.path(), ManualClock::new(Wall(0)), disk, eager()).expect("writable at first");
    faults.full.store(true, Ordering::SeqCst);
    journal.request(row(0));
    let error = journal.close_blocking(Duration::from_millis(50)).expect_err("nothing can be written");
    assert!(matches!(&error, JournalError::Unwritten { records: 1, .. }), "{error}");
}

#[tokio::test]
async fn case_99_row_11_renamed_outside_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut journal = open(dir.path(), eager());
    for round in 0..4 {
        write_group(&mut journal, round * 5..round * 5 + 5).await;
        if round < 3 {
            let to = dir.path().join(format!("requests-{:04}.csv", round + 1));
            fs::rename(dir.path().join("requests.csv"), to).expect("renamed");
        }
    }
    journal.close(PATIENCE).await.expect("written");
    assert_rows(dir.path(), 20);
    let text = fs::read_to_string(dir.path().join("requests.csv")).expect("anew");
    assert!(text.starts_with("time,host,"), "{text}");
}

#[tokio::test]
async fn case_99_row_11_truncated_outside_every_line_is_whole_and_no_zero_byte_is_left() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("requests.csv");
    let mut journal = open(dir.path(), eager());
    let mut copies = Vec::new();
    for round in 0..4 {
        write_group(&mut journal, round * 5..round * 5 + 5).await;
        copies.extend(fs::read(&path).expect("written"));
        fs::OpenOptions::new().write(true).open(&path).expect("there").set_len(0).expect("cut");
    }
    write_group(&mut journal, 20..22).await;
    journal.close(PATIENCE).await.expect("written");
    copies.extend(fs::read(&path).expect("written"));
    assert!(!copies.contains(&0));
    let copied = tempfile::tempdir().expect("a temporary folder");
    fs::write(copied.path().join("requests.csv"), copies).expect("writable");
    assert_rows(copied.path(), 22);
}

/// Events are handed over without pause, and somebody renames or cuts the file again and again meanwhile.
#[tokio::test]
async fn case_99_row_11_under_load_every_line_is_an_event_and_none_is_lost_by_a_rename() {
    const EVENTS: u32 = 3_000;
    for by_rename in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("events.jsonl");
        let mut journal = open(dir.path(), eager());
        let mut moved = Vec::new();
        for number in 0..EVENTS {
            journal.event(event(f64::from(number), Who::Controller, What::Rate));
            if number % 10 == 0 {
                journal.flush();
            }
            if number % 100 == 99 {
                // The writer is in the midst of it, or not: both are right.
                if by_rename {
                    let aside = dir.path().join(format!("aside-{number}"));
                    fs::rename(&path, &aside).expect("renamed");
                    moved.push(aside);
                    write_group(&mut journal, number..number + 1).await;
                } else {
                    moved.push(path.clone());
                    let aside = dir.path().join(format!("copy-{number}"));
                    fs::copy(&path, &aside).expect("copied");
                    fs::OpenOptions::new().write(true).open(&path).expect("there").set_len(0).expect("cut");
                    *moved.last_mut().expect("pushed") = aside;
                }
            }
        }
        journal.close(PATIENCE).await.expect("written");
        moved.push(path);
        let mut numbers = Vec::new();
        let last = moved.len() - 1;
        for (index, file) in moved.iter().enumerate() {
            let text = fs::read_to_string(file).expect("text");
            assert!(!text.contains('\0'), "{}", file.display());
            // A copy is made while lines are written: its last one may be cut. All others are whole.
            let whole = if by_rename || index == last { text.len() } else { text.rfind('\n').map_or(0, |end| end + 1) };
            for line in text[..whole].lines() {
                let line: serde_json::Value =
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                numbers.push(line["seq"].as_u64().expect("a number"));
            }
        }
        if by_rename {
            assert_eq!(numbers, (1..=u64::from(EVENTS)).collect::<Vec<_>>(), "in order, each once");
        } else {
            // Between the copy and the cut lines may go, as with every program; none comes twice or out of order.
            assert!(numbers.is_sorted_by(|one, next| one < next) && numbers.len() > 1_000, "{} lines", numbers.len());
        }
    }
}

#[tokio::test]
async fn case_99_row_11_removed_outside_it_is_made_anew() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut journal = open(dir.path(), eager());
    fs::remove_file(dir.path().join("requests.csv")).expect("removed");
    write_group(&mut journal, 0..3).await;
    journal.close(PATIENCE).await.expect("written");
    assert_rows(dir.path(), 3);
}

#[test]
fn wanted_20_what_was_handed_over_is_written_also_when_closed_at_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut journal = open(dir.path(), JournalOptions::default());
    for number in 0..20_000 {
        journal.request(row(number));
        if number % 100 == 0 {
            journal.flush();
        }
    }
    let health = journal.close_blocking(PATIENCE).expect("written");
    assert_eq!(health.backlog, 0);
    let length = fs::metadata(dir.path().join("requests.csv")).expect("there").len();
    assert!(health.bytes <= length && health.bytes > 20_000 * 50, "{health:?}, {length} in the file");
    assert_rows(dir.path(), 20_000);
}

#[test]
fn a_dropped_journal_is_written_too() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut journal = open(dir.path(), JournalOptions::default());
    journal.request(row(0));
    drop(journal);
    assert_rows(dir.path(), 1);
}

#[test]
fn damage_in_the_middle_is_counted_and_named_and_the_rest_is_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), &[row(0)], &[event(0.0, Who::System, What::Start)]);
    for (name, garbage) in [("requests.csv", &b"a,b\n\xff\xfe\n\0\0\0\n"[..]), ("events.jsonl", b"{\"time\":3}\n\n")] {
        let mut file = fs::OpenOptions::new().append(true).open(dir.path().join(name)).expect("there");
        file.write_all(garbage).expect("writable");
    }
    write(dir.path(), &[row(1)], &[event(1.0, Who::System, What::Stop)]);
    let (records, damaged) = requests(dir.path());
    assert_eq!((records.len(), damaged), (2, 3));
    let (records, damaged) = events(dir.path());
    assert_eq!((records.len(), damaged), (2, 2));
    assert_eq!(records[1].seq, 2);
    let mut reader = crawldeck::journal::reader::RequestReader::open(dir.path()).expect("readable");
    assert_eq!((&mut reader).count(), 2);
    assert!(reader.damage().named[0].as_str().starts_with("requests.csv:3:"), "{:?}", reader.damage());
}
