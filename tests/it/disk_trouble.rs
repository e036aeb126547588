//! A disk that is full, fails or is nearly full: nothing goes out, nothing counts as done that is not written, and the
//! crawl goes on by itself.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crawldeck::control::{Command, HostState, Lifetime, Value, What};
use crawldeck::headless::status_line;
use crawldeck::journal::disk::{Disk, DiskFile, Identity, SystemDisk};
use crawldeck::sim::{SimBody, SimRequest, SimResponse};
use crawldeck::store::list::each_url;
use crawldeck::store::room::{ROOM_HIGH, ROOM_LOW};
use crawldeck::store::{Fate, StoreError};
use crawldeck::watch::{Request, Totals};
use hyper::HeaderMap;

use crate::support::disk::{FailingDisk, Faults, NoRename};
use crate::support::engine::{Crawl, Running};
use crate::support::lab::LabServer;
use crate::support::records;

const PAGES: u32 = 150;

/// Two hosts of [`PAGES`] pages, with a disk of its own for the store.
fn start(server: &LabServer, faults: &Arc<Faults>) -> Running {
    start_on(server, Box::new(FailingDisk(Arc::clone(faults))))
}

fn start_on(server: &LabServer, disk: Box<dyn Disk>) -> Running {
    let mut crawl = crawl(server, 100.0);
    crawl.store_disk(disk);
    crawl.start()
}

/// Two hosts of [`PAGES`] pages.
fn crawl(server: &LabServer, rate: f64) -> Crawl {
    let mut crawl = Crawl::new();
    crawl.config.crawl.respect_robots = false;
    crawl.rate(rate, 5.0);
    for name in ["a.test", "b.test"] {
        crawl.host(name, server);
        crawl.pages(name, PAGES);
    }
    crawl
}

fn server() -> LabServer {
    LabServer::start(Box::new(|_: Duration, _: &SimRequest<'_>, _: &HeaderMap| SimResponse {
        status: 200,
        body: SimBody::Text("a page".into()),
        ..SimResponse::default()
    }))
}

/// Whatever is done in the store has its row in the journal.
fn assert_done_is_written(running: &Running) -> usize {
    let (rows, _) = records::requests(running.folder());
    let rows: BTreeSet<&str> = rows.iter().map(|row| row.url.as_str()).collect();
    let mut done = 0;
    each_url::<StoreError>(running.folder(), |listed| {
        if listed.fate == Some(Fate::Done) {
            assert!(rows.contains(listed.url), "{} is done without its row", listed.url);
            done += 1;
        }
        Ok(())
    })
    .expect("the store is whole");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn case_95_row_10_a_full_disk_stops_the_grants_and_the_crawl_goes_on_when_there_is_room() {
    let (server, faults) = (server(), Arc::new(Faults::default()));
    let mut running = start(&server, &faults);
    running.totals_are("some pages", |totals| totals.urls_done >= 40).await;
    faults.full.store(true, Ordering::SeqCst);
    running.logged("the crawl's state cannot be written").await;
    running.totals_are("nothing in flight", |totals| totals.in_flight == 0 && totals.stopped_because.is_some()).await;
    let (sent, done) = (server.arrivals().len(), assert_done_is_written(&running));
    assert!(done < 2 * PAGES as usize);
    // The operator's pause is another matter: it comes and goes, and changes nothing about this.
    running.act(Command::Pause(Lifetime::Default), &["a.test"]).await;
    running.act(Command::Resume, &["a.test"]).await;
    running.act(Command::Pause(Lifetime::Default), &["b.test"]).await;
    assert_eq!(server.arrivals().len(), sent, "nothing goes out");
    faults.full.store(false, Ordering::SeqCst);
    running.logged("the crawl's state can be written again").await;
    running.totals_are("a.test is done", |totals| totals.urls_done >= u64::from(PAGES)).await;
    running.host_is("b.test", |view| view.state == HostState::Paused).await;
    running.act(Command::Resume, &["b.test"]).await;
    let ended = running.end().await;
    ended.assert_all_done(2 * u64::from(PAGES));
    assert_eq!(ended.rows.len(), 2 * PAGES as usize, "nothing was asked for twice");
    let told: Vec<_> = ended.events_of(What::System).iter().map(|event| event.why.as_str().to_owned()).collect();
    assert_eq!(told.len(), 2, "once each: {told:?}");
}

/// What a watcher sees of an alarm: on the screen in a row of its own, in the status lines behind the figures.
fn told(totals: &Totals) -> String {
    status_line(totals, Duration::ZERO)
}

/// `disk` refuses to rename until the alarm was raised: the crawl goes on, everybody is told, and is told when it is over.
async fn assert_alarm(running: Running, server: &LabServer, disk: &NoRename, [begins, ends]: [&str; 2]) {
    running.logged(&format!("alarm: {begins}")).await;
    let totals = running.totals_are("an alarm", |totals| !totals.alarms.is_empty()).await;
    assert_eq!(totals.stopped_because, None, "the old file serves");
    assert!(told(&totals).contains(&format!(" - {begins}")), "{}", told(&totals));
    let sent = server.arrivals().len();
    running.totals_are("requests go on", |totals| totals.requests >= sent as u64 + 20).await;
    disk.0.store(false, Ordering::SeqCst);
    running.logged(ends).await;
    let totals = running.totals_are("no alarm", |totals| totals.alarms.is_empty()).await;
    assert!(!told(&totals).contains(begins), "{}", told(&totals));
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    assert_eq!(ended.rows.len() as u64, ended.fates().0, "nothing was asked for twice");
    let alarms = ended.events_of(What::System);
    let states: Vec<_> = alarms.iter().map(|event| (event.before.clone(), event.after.clone())).collect();
    let alarm = || Value::Text(String::from("alarm"));
    assert_eq!(states, [(Value::None, alarm()), (alarm(), Value::None)], "{alarms:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn case_91_states_that_cannot_be_written_anew_are_an_alarm_until_they_are() {
    let (server, disk) = (server(), NoRename::default());
    disk.0.store(true, Ordering::SeqCst);
    let mut crawl = crawl(&server, 20.0);
    crawl.writes.1.rewrite_min = 1;
    crawl.store_disk(Box::new(disk.clone()));
    let words = ["state/hosts-0001.log cannot be written anew: ", "the file of states was written anew"];
    assert_alarm(crawl.start(), &server, &disk, words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_91_requests_that_cannot_be_rotated_are_an_alarm_until_they_are() {
    let (server, disk) = (server(), NoRename::default());
    disk.0.store(true, Ordering::SeqCst);
    let mut crawl = crawl(&server, 20.0);
    crawl.writes.0.rotate_at = 2_000;
    crawl.disk(Box::new(disk.clone()));
    let words = ["requests.csv cannot be renamed to requests-0001.csv: ", "the file of requests was rotated"];
    assert_alarm(crawl.start(), &server, &disk, words).await;
}

/// A disk whose syncs wait as long as it is told to.
#[derive(Clone, Default)]
struct Slow(Arc<(Mutex<bool>, Condvar)>);

impl Slow {
    fn set(&self, slow: bool) {
        *self.0.0.lock().expect("no panic") = slow;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let slow = self.0.0.lock().expect("no panic");
        drop(self.0.1.wait_while(slow, |slow| *slow).expect("no panic"));
    }
}

impl Disk for Slow {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(SystemDisk.open(path)?, self.clone())))
    }

    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        SystemDisk.sync_dir(dir)
    }
}

struct SlowFile(Box<dyn DiskFile>, Slow);

impl DiskFile for SlowFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn size(&mut self) -> io::Result<u64> {
        self.0.size()
    }

    fn identity(&mut self) -> io::Result<Identity> {
        self.0.identity()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.0.cut(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.wait();
        self.0.sync()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_10_while_a_sync_takes_its_time_the_crawl_goes_on_and_the_operator_is_answered() {
    let (server, slow) = (server(), Slow::default());
    let mut running = start_on(&server, Box::new(slow.clone()));
    running.totals_are("some pages", |totals| totals.urls_done >= 40).await;
    slow.set(true);
    let before = running.totals_are("now", |_| true).await.requests;
    running.totals_are("far more requests", |totals| totals.requests >= before + 100).await;
    let answer = running.act(Command::Pause(Lifetime::Default), &["a.test"]).await;
    running.host_is("a.test", |view| view.state == HostState::Paused).await;
    assert!(running.act(Command::Resume, &["a.test"]).await.ticket > answer.ticket);
    assert_done_is_written(&running);
    slow.set(false);
    let ended = running.end().await;
    ended.assert_all_done(2 * u64::from(PAGES));
    assert_eq!(ended.rows.len(), 2 * PAGES as usize, "nothing was asked for twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn case_95_a_nearly_full_disk_stops_the_grants_before_it_is_full() {
    let (server, faults) = (server(), Arc::new(Faults::default()));
    faults.room.store(ROOM_HIGH * 4, Ordering::SeqCst);
    let running = start(&server, &faults);
    running.totals_are("some pages", |totals| totals.urls_done >= 40).await;
    faults.room.store(ROOM_LOW - 1, Ordering::SeqCst);
    running.logged("no request goes out: less than 32 MiB were free").await;
    running.totals_are("nothing in flight", |totals| totals.in_flight == 0).await;
    let sent = server.arrivals().len();
    assert!(sent < 2 * PAGES as usize);
    faults.room.store(ROOM_HIGH * 4, Ordering::SeqCst);
    running.logged("there is room on the disk again").await;
    let ended = running.end().await;
    ended.assert_all_done(2 * u64::from(PAGES));
}
