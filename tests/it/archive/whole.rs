//! Whole crawls with an archive: the real engine, fetcher, journal and writer; and the real program, interrupted.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crawldeck::archive::{ArchiveOptions, Keep};
use crawldeck::control::{Command, Lifetime, What};
use crawldeck::journal::disk::{Disk, DiskFile, Identity, SystemDisk};
use crawldeck::sim::{SimBody, SimResponse};
use crawldeck::store::list::each_url;
use crawldeck::store::{Fate, StoreError};
use rustix::process::{Signal, kill_process};

use super::kit::{PATIENCE, WARC, open};
use crate::support::answers::{by_page, redirect, status, text};
use crate::support::binary::{Scene, fine, until};
use crate::support::disk::{FailingDisk, Faults};
use crate::support::engine::Crawl;
use crate::support::lab::LabServer;
use crate::support::warc::{self, Record};

/// Targets of the records of one kind, sorted.
fn targets<'a>(records: &'a [Record], kind: &str) -> Vec<&'a str> {
    let of_kind = records.iter().filter(|record| record.kind() == kind);
    let mut urls: Vec<&str> = of_kind.map(|record| record.need("WARC-Target-URI")).collect();
    urls.sort_unstable();
    urls
}

#[tokio::test]
async fn every_request_of_a_crawl_is_in_the_archive() {
    let server = LabServer::start(Box::new(|_, request, _| match request.path {
        "/robots.txt" => status(404),
        "/p/3" => redirect("/p/30"),
        path => text(&format!("page {path}")),
    }));
    let mut crawl = Crawl::new();
    crawl.host("a.test", &server);
    crawl.pages("a.test", 20);
    crawl.keep(WARC);
    let ended = crawl.run().await;
    ended.assert_all_done(20);
    ended.assert_rows_are(&[&server]);
    let records = warc::parse(&ended.warc);
    let mut rows: Vec<&str> = ended.rows.iter().map(|row| row.url.as_str()).collect();
    rows.sort_unstable();
    for kind in ["response", "request", "metadata"] {
        assert_eq!(targets(&records, kind), rows, "{kind}");
    }
    let ids: BTreeSet<&str> = records.iter().map(|record| record.need("WARC-Record-ID")).collect();
    assert_eq!(ids.len(), records.len());
}

#[tokio::test]
async fn case_95_a_disk_that_is_full_for_the_archive_stops_granting_loudly_and_nothing_is_missing_afterwards() {
    let mut page = 0;
    let server = by_page(move |_| {
        page += 1;
        text(&format!("page {page}"))
    });
    let faults = Arc::new(Faults::default());
    let mut crawl = Crawl::new();
    crawl.rate(100.0, 2.0);
    crawl.host("host.test", &server);
    crawl.pages("host.test", 100);
    crawl.keep(WARC);
    crawl.archive_disk(Box::new(FailingDisk(Arc::clone(&faults))));
    let mut running = crawl.start();
    server.wait_for("some requests", |all| all.len() >= 20).await;
    faults.full.store(true, Ordering::SeqCst);
    let stopped =
        running.totals_are("stopped and quiet", |one| one.stopped_because.is_some() && one.in_flight == 0).await;
    let why = stopped.stopped_because.expect("a reason");
    assert!(why.as_str().contains(".warc.gz cannot be written") && why.as_str().contains("disk full"), "{why:?}");
    running.logged("archive cannot be written").await;
    let by_then = server.arrivals().len();
    assert!(by_then < 101);
    // The engine lives on: so many of its turns, and not one lets anything out.
    for _ in 0..20 {
        running.act(Command::Pause(Lifetime::Default), &["host.test"]).await;
        running.act(Command::Resume, &["host.test"]).await;
    }
    assert_eq!(server.arrivals().len(), by_then);
    faults.full.store(false, Ordering::SeqCst);
    let ended = running.end().await;
    ended.assert_all_done(100);
    assert!(ended.end.trouble.is_none(), "{:?}", ended.end.trouble);
    assert!(ended.events_of(What::System).iter().any(|event| event.why.as_str().contains("can be written again")));
    assert_eq!(targets(&warc::parse(&ended.warc), "request").len(), ended.rows.len());
}

/// A disk that lets nobody write to a file that is open until it is released.
#[derive(Clone, Default)]
struct HeldDisk(Arc<(Mutex<bool>, Condvar)>);

impl HeldDisk {
    fn release(&self) {
        *self.0.0.lock().expect("whole") = true;
        self.0.1.notify_all();
    }
}

impl Disk for HeldDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        SystemDisk.open(path)
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        let released = self.0.0.lock().expect("whole");
        let (released, _) = self.0.1.wait_timeout_while(released, PATIENCE, |released| !*released).expect("whole");
        assert!(*released, "never released");
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        SystemDisk.sync_dir(dir)
    }
}

#[tokio::test]
async fn what_waits_for_the_archive_is_in_flight_as_what_a_kill_would_cost() {
    let server = by_page(|page| text(&format!("page {page}")));
    let disk = HeldDisk::default();
    let mut crawl = Crawl::new();
    crawl.rate(5_000.0, 100.0).connections = 100;
    crawl.config.settings.concurrency = 8;
    crawl.host("host.test", &server);
    crawl.pages("host.test", 60);
    crawl.keep(WARC);
    crawl.archive_disk(Box::new(disk.clone()));
    let mut running = crawl.start();
    // Written are those until the file is open, which is as soon as the store waits for one of them.
    let done = running.totals_are("quiet", |one| one.urls_done > 0 && one.in_flight == 0).await.urls_done;
    for _ in 0..20 {
        running.act(Command::Pause(Lifetime::Default), &["host.test"]).await;
        running.act(Command::Resume, &["host.test"]).await;
    }
    let written =
        warc::files(running.folder()).iter().map(|file| fs::read(file).expect("readable")).collect::<Vec<_>>();
    let written = warc::parse(&written.concat()).iter().filter(|record| record.kind() == "response").count();
    let sent = server.arrivals().len();
    assert!(sent <= written + 8, "{sent} sent, {written} written, {done} done");
    disk.release();
    running.end().await.assert_all_done(60);
}

/// Pages, each another one; some are larger than what is kept in memory.
fn pages() -> crate::support::lab::Behaviour {
    let mut number = 0_u64;
    Box::new(move |_, _, _| {
        number += 1;
        let length = if number.is_multiple_of(7) { 400_000 } else { 2_000 };
        let mut random = fastrand::Rng::with_seed(number);
        let body: String = std::iter::repeat_with(|| random.alphanumeric()).take(length).collect();
        SimResponse { status: 200, body: SimBody::Text(body), ..SimResponse::default() }
    })
}

const BOTH: &str = "[output]\nwarc = true\nbodies = \"ok\"\n";

#[test]
fn the_program_keeps_what_its_configuration_says() {
    let scene = Scene::new(pages(), 1000.0, 10.0, BOTH);
    scene.list(&["a.test", "b.test"], 40);
    let ended = scene.headless().end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let records = warc::records(&scene.dir());
    assert_eq!(targets(&records, "response").len(), scene.assert_journal_complete());
    let info = String::from_utf8_lossy(&records[0].block).into_owned();
    assert!(info.contains("robots: ignore\r\n") && info.contains("http-header-user-agent: crawldeck/"), "{info}");
    let index = scene.file("bodies/index.jsonl");
    assert_eq!(index.lines().count(), 80);
}

#[test]
fn a_crawl_that_keeps_nothing_makes_no_folder_and_no_thread_for_it() {
    let scene = Scene::new(fine(Duration::from_millis(50)), 100.0, 4.0, "");
    scene.list(&["a.test"], 60);
    let child = scene.headless();
    scene.arrivals("requests", 20);
    let threads = crate::support::binary::threads(child.pid);
    assert!(threads.iter().any(|name| name == "journal"), "{threads:?}");
    assert!(!threads.iter().any(|name| name == "archive"), "{threads:?}");
    assert_eq!(child.end().code, Some(0));
    assert!(!scene.dir().join("warc").exists() && !scene.dir().join("bodies").exists());
}

#[test]
fn case_124_one_to_three_interrupts_at_any_time_leave_whole_records() {
    for round in 0..9 {
        let scene = Scene::new(pages(), 300.0, 10.0, BOTH);
        scene.list(&["a.test", "b.test"], 400);
        let child = scene.headless();
        scene.arrivals("requests", 5 + round * 13);
        child.signal(Signal::INT);
        for _ in 0..round % 3 {
            // It may have ended by itself.
            until("the drain is told", || {
                ["draining", "drained", "finished"].iter().any(|word| child.err().contains(word)).then_some(())
            });
            let _ = kill_process(child.pid, Signal::INT);
        }
        let ended = child.end();
        assert!(matches!(ended.code, Some(0 | 130)), "{}", ended.err);
        let records = warc::records(&scene.dir());
        // Who was asked to go at once leaves what is in flight; what was answered is there.
        assert!(targets(&records, "response").len() > 3);
        assert!(records.last().is_some_and(|last| last.kind() == "metadata"), "exchanges are whole");
    }
}

#[test]
fn case_123_killed_at_any_time_the_archive_opens_with_whole_records_and_bodies() {
    let mut found = 0;
    for round in 0..8 {
        let scene = Scene::new(pages(), 500.0, 10.0, BOTH);
        scene.list(&["a.test", "b.test"], 400);
        let child = scene.headless();
        scene.arrivals("requests", 10 + round * 23);
        // Killed, and waited for.
        drop(child);
        let before = stored(&scene.dir());
        let keep = Keep { warc: true, bodies: true };
        let (_, archive) = open(&scene.dir(), keep, ArchiveOptions::default());
        archive.close_blocking(PATIENCE).expect("nothing to write");
        let records = warc::records(&scene.dir());
        // On a busy machine the first of them may be killed before anything is on the medium.
        found += records.iter().filter(|record| record.kind() == "response").count();
        assert!(stored(&scene.dir()).len() <= before.len());
        for line in scene.file("bodies/index.jsonl").lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("whole rows");
            let name = row["digest"].as_str().expect("text").to_owned();
            let body = scene.dir().join("bodies").join(&name[0..2]).join(&name[2..4]).join(&name);
            assert_eq!(
                std::fs::metadata(body).expect("it has a body").len(),
                row["length"].as_u64().expect("a number")
            );
        }
    }
    assert!(found > 0, "the test kills too early");
}

/// Paths below the archive's folders.
fn stored(dir: &Path) -> Vec<String> {
    let mut folders = vec![dir.join("warc"), dir.join("bodies")];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable")) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                paths.push(entry.path().to_string_lossy().into_owned());
            }
        }
    }
    paths
}

#[test]
fn case_123_killed_and_started_again_nothing_is_done_without_its_record() {
    const PAGES: usize = 500;
    let scene = Scene::new(pages(), 200.0, 10.0, BOTH);
    scene.list(&["a.test", "b.test"], PAGES);
    let asked = |url: &str| {
        let arrivals = scene.server.arrivals();
        arrivals.iter().filter(|arrival| format!("http://{}{}", arrival.host, arrival.path) == url).count()
    };
    let (mut done, mut torn) = (BTreeSet::new(), 0);
    // A commit comes each 250 ms: each round lasts longer than the one before, so that some are killed between two.
    for round in 1..=6 {
        if torn > 1 && !done.is_empty() {
            break;
        }
        let child = scene.headless();
        scene.arrivals("requests", scene.server.arrivals().len() + 45 + round * 20);
        // Killed, and waited for; half of what was not marked as being on the medium is lost with it.
        drop(child);
        torn += usize::from(tear(&scene.dir()));
        let before: Vec<(String, usize)> = done.iter().map(|url: &String| (url.clone(), asked(url))).collect();
        each_url::<StoreError>(&scene.dir(), |listed| {
            done.extend((listed.fate == Some(Fate::Done)).then(|| listed.url.to_owned()));
            Ok(())
        })
        .expect("the store is whole");
        assert!(before.iter().all(|(url, times)| asked(url) == *times), "what was done was asked for again");
    }
    // Whether something stood behind the mark when it was killed is chance; cuts at every byte have a test of their own.
    let killed_in_time = !done.is_empty() && done.len() < 2 * PAGES;
    assert!(killed_in_time, "the test kills too early or too late: {torn}, {}", done.len());
    let times: Vec<(String, usize)> = done.iter().map(|url| (url.clone(), asked(url))).collect();
    let ended = scene.headless().end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for (url, times) in &times {
        assert_eq!(asked(url), *times, "{url} was done and asked for again");
    }
    let records = warc::records(&scene.dir());
    let kept: BTreeSet<&str> = targets(&records, "response").into_iter().collect();
    let mut all = 0;
    each_url::<StoreError>(&scene.dir(), |listed| {
        all += 1;
        assert_eq!(listed.fate, Some(Fate::Done), "{}", listed.url);
        assert!(kept.contains(listed.url), "{} is done and has no record", listed.url);
        Ok(())
    })
    .expect("the store is whole");
    assert_eq!(all, 2 * PAGES, "none is lost");
}

/// Cuts the WARC file in the middle of what is behind its mark; false if there is nothing.
fn tear(dir: &Path) -> bool {
    let mark = std::fs::read_to_string(dir.join("warc/synced")).unwrap_or_default();
    let mut words = mark.split_whitespace();
    let (Some(name), Some(at)) = (words.next(), words.next().and_then(|at| at.parse::<u64>().ok())) else {
        return false;
    };
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("warc").join(name)).expect("it is there");
    let behind = file.metadata().expect("it has a size").len().saturating_sub(at);
    file.set_len(at + behind / 2).expect("cut");
    behind > 1
}

#[test]
fn row_40_a_warc_file_that_lost_what_was_synced_is_told_loudly_by_the_next_run() {
    let scene = Scene::new(fine(Duration::ZERO), 1000.0, 10.0, BOTH);
    scene.list(&["a.test"], 5);
    assert_eq!(scene.headless().end().code, Some(0));
    let file = warc::files(&scene.dir()).remove(0);
    let bytes = fs::read(&file).expect("readable");
    fs::write(&file, &bytes[..bytes.len() - 100]).expect("cut");
    scene.list(&["a.test"], 6);
    let ended = scene.headless().end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let told =
        format!("warc/{name} was cut since it was written: 100 bytes from byte {} on are missing", bytes.len() - 100);
    assert!(ended.err.contains(&told), "{}", ended.err);
    let events = scene.events();
    assert_eq!(events.iter().filter(|(what, why)| what.contains("System") && why.starts_with(&told)).count(), 1);
    assert_eq!(warc::files(&scene.dir()).len(), 2);
}
