//! The tree of bodies and its index.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crawldeck::archive::{Archive, ArchiveOptions, Capture, Room, Truncated};
use crawldeck::clock::SystemClock;
use crawldeck::control::RequestKind;
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::kit::{BODIES, Kept, PATIENCE, capture, cut, filed, noise, open};
use crate::fetch::kit::assert_status;
use crate::support::disk::{FailingDisk, Faults};
use crate::support::raw_server::{RawServer, answer, response};

/// The rows of the index; every digest must lead to a body that has it.
#[track_caller]
fn rows(dir: &Path) -> Vec<Value> {
    let index = fs::read_to_string(dir.join("bodies/index.jsonl")).unwrap_or_default();
    let rows: Vec<Value> = index.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for row in &rows {
        let body = body(dir, row["digest"].as_str().expect("text"));
        assert_eq!(row["length"], body.len());
    }
    rows
}

/// The body with a digest, checked.
#[track_caller]
fn body(dir: &Path, name: &str) -> Vec<u8> {
    let body = fs::read(dir.join("bodies").join(&name[0..2]).join(&name[2..4]).join(name)).expect("it has a name");
    assert_eq!(HEXLOWER.encode(digest(&SHA256, &body).as_ref()), name, "whatever has a name is whole");
    body
}

/// Files in the tree beside the index.
fn stored(dir: &Path) -> usize {
    let mut folders = vec![dir.join("bodies")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable")) {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => count += usize::from(!path.ends_with("index.jsonl") && !path.ends_with(".partial")),
            }
        }
    }
    count
}

fn urls(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["url"].as_str().expect("text")).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).expect("in memory");
    gzip.finish().expect("in memory")
}

#[tokio::test]
async fn a_body_is_stored_decoded_and_once_with_a_row_for_each_url() {
    let kept = Kept::new(BODIES);
    let sender = kept.archive.sender();
    let large = noise(5, 3 << 20);
    let typed = ("content-type", "text/html; charset=\u{e4}");
    sender.put(capture("http://a.test/1", 200, &[typed], b"a page"));
    sender.put(capture("http://a.test/2", 203, &[("content-encoding", "gzip")], &gzip(b"a page")));
    sender.put(capture("http://a.test/3", 200, &[("content-encoding", "rot13")], b"n cntr"));
    sender.put(filed(&kept.room, "http://a.test/4", &large).await);
    let mut packed = filed(&kept.room, "http://a.test/5", &gzip(&large)).await;
    packed.head.headers.insert("content-encoding", "gzip".parse().expect("a value"));
    sender.put(packed);
    sender.put(capture("http://a.test/6", 204, &[], b""));
    let (records, dir) = kept.close();
    assert!(records.is_empty() && !dir.path().join("warc").exists());
    let rows = rows(dir.path());
    let pages: Vec<String> = (1..=6).map(|number| format!("http://a.test/{number}")).collect();
    assert_eq!(urls(&rows), pages);
    let digests: Vec<&str> = rows.iter().map(|row| row["digest"].as_str().expect("text")).collect();
    assert_eq!((digests[0], digests[3]), (digests[1], digests[4]), "the same body, however it was sent");
    assert_eq!(stored(dir.path()), 4);
    assert_eq!(body(dir.path(), digests[0]), b"a page");
    assert_eq!(body(dir.path(), digests[3]), large);
    assert_eq!(rows[0]["time"], "2026-11-30T12:00:00.250000Z");
    assert_eq!((&rows[0]["status"], &rows[1]["status"]), (&200.into(), &203.into()));
    assert_eq!(rows[0]["type"], "text/html; charset=\u{e4}");
    assert_eq!((&rows[1]["encoding"], &rows[2]["encoding"]), (&"".into(), &"rot13".into()));
}

#[test]
fn only_whole_successful_responses_are_kept() {
    let kept = Kept::new(BODIES);
    let sender = kept.archive.sender();
    let of = |change: fn(&mut Capture)| {
        let mut one = capture("http://a.test/", 200, &[], b"body");
        change(&mut one);
        one
    };
    for status in [199, 300, 304, 404, 429, 500] {
        sender.put(capture("http://a.test/", status, &[], b"body"));
    }
    sender.put(cut(capture("http://a.test/", 200, &[], b"body"), Truncated::Length));
    sender.put(of(|capture| capture.is_sound = false));
    sender.put(of(|capture| capture.kind = RequestKind::Robots));
    let (_, dir) = kept.close();
    assert_eq!((rows(dir.path()).len(), stored(dir.path())), (0, 0));
}

#[tokio::test]
async fn what_the_fetcher_decodes_is_what_is_stored() {
    let page = "page ".repeat(100_000);
    let script = answer(response("200 OK", "Content-Encoding: gzip\r\n", gzip(page.as_bytes())));
    let server = RawServer::start(vec![script]).await;
    let kept = Kept::new(BODIES);
    let fetcher = kept.fetcher(|_| {});
    assert_status(&kept.get(&fetcher, server.url("/").as_str(), RequestKind::Page).await, 200);
    let (_, dir) = kept.close();
    let rows = rows(dir.path());
    assert_eq!(body(dir.path(), rows[0]["digest"].as_str().expect("text")), page.as_bytes());
}

#[test]
fn case_88_a_kill_leaves_no_half_body_and_no_half_row() {
    let kept = Kept::new(BODIES);
    for number in 0..3 {
        kept.archive.sender().put(capture(&format!("http://a.test/{number}"), 200, &[], &noise(number, 50)));
    }
    let dir = kept.close().1;
    let index = dir.path().join("bodies/index.jsonl");
    let bytes = fs::read(&index).expect("there");
    for end in 0..=bytes.len() {
        fs::write(&index, &bytes[..end]).expect("written");
        fs::write(dir.path().join("bodies/.partial"), "half a body").expect("written");
        let (_, archive) = open(dir.path(), BODIES, ArchiveOptions::default());
        assert!(!dir.path().join("bodies/.partial").exists());
        archive.sender().put(capture("http://a.test/resumed", 200, &[], &noise(0, 50)));
        archive.close_blocking(PATIENCE).expect("written");
        let rows = rows(dir.path());
        let whole = bytes[..end].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((rows.len(), urls(&rows)[whole]), (whole + 1, "http://a.test/resumed"));
    }
    assert_eq!(stored(dir.path()), 3);
}

#[test]
fn case_95_any_disk_operation_may_fail_and_every_body_has_its_row_once() {
    let run = |from: u64, length: u64, torn: bool| {
        let dir = tempfile::tempdir().expect("a folder");
        let faults = Arc::new(Faults::default());
        faults.from.store(from, Ordering::SeqCst);
        faults.length.store(length, Ordering::SeqCst);
        faults.torn.store(torn, Ordering::SeqCst);
        let options = ArchiveOptions { retry: Duration::from_millis(1), ..ArchiveOptions::default() };
        let archive = loop {
            let (room, disk) = (Room::new(dir.path(), BODIES), Box::new(FailingDisk(Arc::clone(&faults))));
            match Archive::open_with(dir.path(), room, SystemClock::shared(), disk, options.clone()) {
                Ok(archive) => break archive,
                Err(error) => assert!(error.to_string().contains("check the folder"), "{error}"),
            }
        };
        let mut barrier = archive.barrier();
        for number in 0..4 {
            // One that goes through the file in parts, small ones, and one that is there already.
            let length = if number == 1 { 1_100_000 } else { 1_000 };
            archive.sender().put(capture(&format!("http://a.test/{number}"), 200, &[], &noise(number % 3, length)));
            let synced = (0..50).find(|_| barrier.sync().is_ok());
            assert!(synced.is_some(), "never synced");
            assert_eq!(rows(dir.path()).len() as u64, number + 1, "from {from}, {length} in a row, torn {torn}");
        }
        archive.close_blocking(PATIENCE).expect("written in the end");
        assert_eq!((rows(dir.path()).len(), stored(dir.path())), (4, 3));
        faults.count.load(Ordering::SeqCst)
    };
    let operations = run(0, 0, false);
    assert!(operations > 20, "{operations}");
    for torn in [false, true] {
        for from in 0..operations + 5 {
            run(from, 1, torn);
        }
    }
}
