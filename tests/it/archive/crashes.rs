//! Kills, bad disks and full ones: whatever happens, what stands in a file is whole records, and what a barrier let
//! through is among them.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crawldeck::archive::{Archive, ArchiveError, ArchiveOptions, Room};
use crawldeck::clock::SystemClock;

use super::kit::{Kept, PATIENCE, WARC, capture, filed, noise, open};
use crate::support::disk::{FailingDisk, Faults};
use crate::support::warc::{self, Record};

/// The targets of the responses.
fn targets(records: &[Record]) -> Vec<String> {
    let answers = records.iter().filter(|record| record.kind() == "response");
    answers.map(|record| record.need("WARC-Target-URI").to_owned()).collect()
}

fn page(number: u64) -> String {
    format!("http://a.test/{number}")
}

/// An archive of some pages; the bytes of its one file, its records, and the mark of what is synced.
fn archive_of(pages: u64) -> (String, Vec<u8>, Vec<Record>, Vec<u8>) {
    let kept = Kept::new(WARC);
    for number in 0..pages {
        kept.archive.sender().put(capture(&page(number), 200, &[("x", "y")], &noise(number, 20)));
    }
    let (records, dir) = kept.close();
    let file = warc::files(dir.path()).remove(0);
    let mark = fs::read(dir.path().join("warc/synced")).expect("marked");
    (file.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(file).expect("there"), records, mark)
}

/// Opens what a kill left, adds a page, and reads it all.
fn resumed(name: &str, bytes: &[u8], mark: Option<&[u8]>) -> Vec<Record> {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("warc")).expect("made");
    fs::write(dir.path().join("warc").join(name), bytes).expect("written");
    if let Some(mark) = mark {
        fs::write(dir.path().join("warc/synced"), mark).expect("written");
    }
    let (_, archive) = failing(dir.path(), &Arc::default(), 1 << 30).expect("writable");
    archive.sender().put(capture("http://a.test/resumed", 200, &[], b"resumed"));
    archive.close_blocking(PATIENCE).expect("written");
    assert_eq!(warc::files(dir.path()).len(), 1, "it goes on in the same file");
    warc::records(dir.path())
}

#[test]
fn case_123_cut_at_any_byte_the_torn_record_goes_and_all_before_it_stay() {
    let (name, bytes, records, _) = archive_of(4);
    let ids: Vec<&str> = records.iter().map(|record| record.need("WARC-Record-ID")).collect();
    // Every byte of the last two pages' six records, and of the record before.
    let from = records[records.len() - 7].place.0;
    assert!(bytes.len() - from > 1_000);
    for end in from..=bytes.len() {
        let whole = records.iter().filter(|record| record.place.1 <= end).count();
        let after = resumed(&name, &bytes[..end], None);
        let stayed: Vec<&str> = after[..whole].iter().map(|record| record.need("WARC-Record-ID")).collect();
        assert_eq!(stayed, ids[..whole], "cut at {end}");
        assert_eq!(after.len(), whole + 4, "a warcinfo and the new page, at {end}");
        assert_eq!(targets(&after).last().map(String::as_str), Some("http://a.test/resumed"));
    }
}

#[test]
fn case_123_what_is_marked_is_not_read_again_and_what_is_not_may_go() {
    let (name, bytes, records, mark) = archive_of(4);
    let marked_at = |at: usize| marked(&name, at);
    assert_eq!(mark, marked_at(bytes.len()), "the mark is what the last sync left");
    let at = records[6].place.1;
    // Damage behind the mark: what follows was never synced, so no URL of it is done.
    let mut torn = bytes.clone();
    torn[records[8].place.0 + 15] ^= 0xff;
    assert_eq!(resumed(&name, &torn, Some(&marked_at(at))).len(), 8 + 4);
    // Without a mark it is damage in the middle: whole records follow, and stay.
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("warc")).expect("made");
    let path = dir.path().join("warc").join(&name);
    torn.extend_from_slice(&bytes[..100]);
    for mark in [None, Some(b"nonsense".to_vec()), Some(marked("other.warc.gz", 5))] {
        fs::write(&path, &torn).expect("written");
        fs::write(dir.path().join("warc/synced"), mark.unwrap_or_default()).expect("written");
        let (_, archive) = open(dir.path(), WARC, ArchiveOptions::default());
        archive.close_blocking(PATIENCE).expect("nothing to write");
        assert_eq!(fs::read(&path).expect("there"), torn[..bytes.len()], "the tail alone is cut");
    }
}

/// A mark as it is written.
fn marked(name: &str, at: usize) -> Vec<u8> {
    let told = format!("{name:100} {at:020} ");
    let check = xxhash_rust::xxh3::xxh3_64(told.as_bytes());
    format!("{told}{check:016x}\n").into_bytes()
}

#[test]
fn a_flipped_bit_in_the_mark_blames_no_file_that_is_whole() {
    let (name, bytes, _, mark) = archive_of(4);
    for bit in (0..mark.len() * 8).step_by(7) {
        let dir = tempfile::tempdir().expect("a folder");
        let warc = dir.path().join("warc");
        fs::create_dir(&warc).expect("made");
        fs::write(warc.join(&name), &bytes).expect("written");
        let mut flipped = mark.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(warc.join("synced"), flipped).expect("written");
        let (_, mut archive) = failing(dir.path(), &Arc::default(), 1 << 30).expect("writable");
        assert_eq!(archive.take_loss(), None, "bit {bit}");
        archive.close_blocking(PATIENCE).expect("nothing to write");
        assert_eq!(fs::read(warc.join(&name)).expect("there"), bytes, "bit {bit}");
    }
}

/// Opens what somebody changed, adds a page, and gives what is told of a loss.
fn lost(name: &str, bytes: &[u8], mark: &[u8]) -> Option<String> {
    let dir = tempfile::tempdir().expect("a folder");
    let warc = dir.path().join("warc");
    fs::create_dir(&warc).expect("made");
    fs::write(warc.join(name), bytes).expect("written");
    fs::write(warc.join("synced"), mark).expect("written");
    let (_, mut archive) = failing(dir.path(), &Arc::default(), 1 << 30).expect("writable");
    let loss = archive.take_loss()?.as_str().to_owned();
    assert_eq!(archive.take_loss(), None, "it is told once");
    archive.sender().put(capture("http://a.test/resumed", 200, &[], b"resumed"));
    archive.close_blocking(PATIENCE).expect("written");
    assert!(fs::read(warc.join(name)).expect("there") == bytes, "it is as it was, for whoever has a copy");
    let files = warc::files(dir.path());
    let records = warc::parse(&fs::read(&files[1]).expect("another file"));
    assert_eq!((files.len(), targets(&records)), (2, vec!["http://a.test/resumed".to_owned()]));
    // From now on the other one is what is gone on with.
    let (_, mut archive) = failing(dir.path(), &Arc::default(), 1 << 30).expect("writable");
    assert_eq!(archive.take_loss(), None);
    Some(loss)
}

#[test]
fn row_40_what_was_synced_and_is_missing_is_named_with_its_file_and_byte() {
    let (name, bytes, records, mark) = archive_of(4);
    assert_eq!(lost(&name, &bytes, &mark), None);
    // What a kill leaves behind the mark is no loss.
    assert_eq!(lost(&name, &[&bytes[..], &bytes[..70]].concat(), &mark), None);
    let told = |loss: &str, how: &str, at: usize| {
        let missing = bytes.len() - at;
        let where_ = format!("warc/{name} {how} since it was written: {missing} bytes from byte {at} on are missing");
        assert!(loss.starts_with(&where_) && loss.contains("another folder"), "{loss}");
    };
    for end in [0, 1, records[5].place.1, bytes.len() - 1] {
        told(&lost(&name, &bytes[..end], &mark).expect("told"), "was cut", end);
    }
    // Any bit of the last record, with its head and its sum.
    let from = records[records.len() - 1].place.0;
    for at in from..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        match lost(&name, &flipped, &mark) {
            Some(loss) => told(&loss, "is damaged", from),
            // A bit that means nothing, such as those that fill up the last byte of what is compressed.
            None => assert!(unpacked(&flipped[from..]) == unpacked(&bytes[from..]), "byte {at}"),
        }
    }
}

/// What is in a member of gzip.
fn unpacked(member: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(member).read_to_end(&mut unpacked).expect("whole");
    unpacked
}

#[tokio::test]
async fn a_kill_behind_a_large_record_is_no_loss() {
    let dir = tempfile::tempdir().expect("a folder");
    let room = Room::new(dir.path(), WARC);
    let options = ArchiveOptions { sync_every: Duration::from_secs(3_600), ..ArchiveOptions::default() };
    let archive = Archive::open(dir.path(), Arc::clone(&room), SystemClock::shared(), options).expect("an archive");
    archive.sender().put(capture(&page(0), 200, &[], b"page"));
    archive.barrier().sync().expect("synced");
    let mark = || fs::read(dir.path().join("warc/synced")).expect("marked");
    let before = mark();
    let mut health = archive.health_changed();
    archive.sender().put(filed(&room, &page(1), &noise(1, 500_000)).await);
    let written = health.wait_for(|health| health.backlog == 0 && health.bytes > 500_000);
    tokio::time::timeout(PATIENCE, written).await.expect("in time").expect("the writer lives");
    // Behind such a record nothing tells cheaply whether it is whole: the mark goes on with the next small one.
    assert_eq!(mark(), before);
    archive.close_blocking(PATIENCE).expect("written");
    let (_, mut archive) = open(dir.path(), WARC, ArchiveOptions::default());
    assert_eq!(archive.take_loss(), None);
    assert_ne!(mark(), before);
}

#[test]
fn what_is_synced_is_in_the_file_when_the_barrier_opens() {
    let kept = Kept::new(WARC);
    let mut barrier = kept.archive.barrier();
    barrier.sync().expect("nothing to sync");
    for number in 0..30 {
        kept.archive.sender().put(capture(&page(number), 200, &[], b"page"));
        if number % 3 == 0 {
            barrier.sync().expect("synced");
            assert_eq!(warc::records(kept.dir.path()).len() as u64, 1 + 3 * (number + 1));
            assert_eq!(kept.archive.backlog(), 0);
        }
    }
    let threads: Vec<_> = (100..108)
        .map(|number| {
            let (sender, mut barrier, dir) =
                (kept.archive.sender(), kept.archive.barrier(), kept.dir.path().to_owned());
            std::thread::spawn(move || {
                sender.put(capture(&page(number), 200, &[], page(number).as_bytes()));
                barrier.sync().expect("synced");
                // Others may be writing: what is ours must be there, whole.
                let bytes = fs::read(&warc::files(&dir)[0]).expect("readable");
                let text: Vec<u8> = members(&bytes);
                let wanted = format!("WARC-Target-URI: {}\r\n", page(number));
                assert!(text.windows(wanted.len()).any(|window| window == wanted.as_bytes()));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let (records, _dir) = kept.close();
    assert_eq!(records.len(), 1 + 3 * 38);
}

/// What the whole members at the beginning decode to.
fn members(bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut text) = (bytes, Vec::new());
    while !rest.is_empty() {
        let mut member = Vec::new();
        if flate2::bufread::GzDecoder::new(&mut rest).read_to_end(&mut member).is_err() {
            break;
        }
        text.extend(member);
    }
    text
}

/// An archive on a disk that fails.
fn failing(dir: &Path, faults: &Arc<Faults>, rotate_at: u64) -> Result<(Arc<Room>, Archive), ArchiveError> {
    let options = ArchiveOptions { retry: Duration::from_millis(1), rotate_at, ..ArchiveOptions::default() };
    let room = Room::new(dir, WARC);
    let disk = Box::new(FailingDisk(Arc::clone(faults)));
    let archive = Archive::open_with(dir, Arc::clone(&room), SystemClock::shared(), disk, options)?;
    Ok((room, archive))
}

/// Small and large pages over two files, `length` operations of the disk failing from the `from`-th on.
async fn run_with_faults(from: u64, length: u64, torn: bool) -> u64 {
    let dir = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    faults.from.store(from, Ordering::SeqCst);
    faults.length.store(length, Ordering::SeqCst);
    faults.torn.store(torn, Ordering::SeqCst);
    let (room, archive) = loop {
        // Whoever starts it again is the user; the operations of that go on counting.
        match failing(dir.path(), &faults, 500_000) {
            Ok(open) => break open,
            Err(error) => assert!(error.to_string().contains("check the folder"), "{error}"),
        }
    };
    let mut barrier = archive.barrier();
    let mut put = Vec::new();
    for number in 0..3 {
        let small = capture(&page(number), 200, &[], &noise(number, 40));
        let large = filed(&room, &page(number + 100), &noise(number + 100, 270_000)).await;
        for capture in [small, large] {
            put.push(capture.url.to_string());
            archive.sender().put(capture);
        }
        // An error is told and tried again by whoever asked; what is told well is there.
        let synced = (0..50).find(|_| barrier.sync().is_ok());
        assert!(synced.is_some(), "never synced");
        assert_eq!(targets(&warc::records(dir.path())), put, "from {from}, {length} in a row, torn {torn}");
    }
    archive.close_blocking(PATIENCE).expect("written in the end");
    let records = warc::records(dir.path());
    assert_eq!(targets(&records), put);
    assert_eq!(records.iter().filter(|record| record.kind() == "metadata").count(), put.len());
    faults.count.load(Ordering::SeqCst)
}

#[tokio::test]
async fn case_95_any_disk_operation_may_fail_and_every_record_is_there_once() {
    let operations = run_with_faults(0, 0, false).await;
    assert!(operations > 30, "{operations}");
    for (length, torn) in [(1, false), (1, true), (3, true)] {
        for from in 0..operations + 5 {
            run_with_faults(from, length, torn).await;
        }
    }
}

#[tokio::test]
async fn case_95_a_full_disk_blocks_with_a_reason_and_the_archive_goes_on_by_itself() {
    let dir = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    let (_, archive) = failing(dir.path(), &faults, 1 << 30).expect("writable at first");
    let mut health = archive.health_changed();
    faults.full.store(true, Ordering::SeqCst);
    archive.sender().put(capture(&page(1), 200, &[], b"page"));
    let mut barrier = archive.barrier();
    let failed = tokio::task::spawn_blocking(move || barrier.sync()).await.expect("no panic");
    assert!(failed.expect_err("nothing can be written").to_string().contains("disk full"));
    let blocked = health.wait_for(|health| health.blocked.is_some()).await.expect("the writer lives").blocked.clone();
    let reason = blocked.expect("waited for").as_str().to_owned();
    assert!(reason.contains(".warc.gz cannot be written") && reason.contains("disk full"), "{reason}");
    faults.full.store(false, Ordering::SeqCst);
    health.wait_for(|health| health.blocked.is_none()).await.expect("the writer lives");
    archive.close(PATIENCE).await.expect("written");
    assert_eq!(targets(&warc::records(dir.path())), [page(1)]);
}

#[test]
fn closing_on_a_full_disk_ends_and_says_what_is_missing() {
    let dir = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    let (_, archive) = failing(dir.path(), &faults, 1 << 30).expect("writable at first");
    faults.full.store(true, Ordering::SeqCst);
    archive.sender().put(capture(&page(1), 200, &[], b"page"));
    let error = archive.close_blocking(Duration::from_millis(50)).expect_err("nothing can be written");
    assert!(error.to_string().contains("disk full"), "{error}");
}

#[test]
fn a_body_that_a_kill_left_in_its_spool_is_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("warc")).expect("made");
    fs::write(dir.path().join("warc/spool-0123abcd"), "left").expect("written");
    fs::write(dir.path().join("warc/notes.txt"), "mine").expect("written");
    let (_, archive) = open(dir.path(), WARC, ArchiveOptions::default());
    archive.close_blocking(PATIENCE).expect("nothing to write");
    assert!(!dir.path().join("warc/spool-0123abcd").exists());
    assert!(dir.path().join("warc/notes.txt").exists());
    assert!(warc::files(dir.path()).is_empty(), "a crawl without responses leaves no empty file");
}
