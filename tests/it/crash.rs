//! Crashes of the whole program: at every durable operation, and at random moments by SIGKILL.
//!
//! The judge is a server that counts what arrives, and the store as it is read back after each crash: what is done in
//! it is never asked for again, nothing that came in is missing, no record is damaged, and in the end every number of
//! the store equals the journal's.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use crawldeck::config::Config;
use crawldeck::control::What;
use crawldeck::crawl::resume::resume;
use crawldeck::sim::{SimBody, SimRequest, SimResponse};
use crawldeck::store::list::each_url;
use crawldeck::store::{Fate, StoreError};
use hyper::HeaderMap;

use crate::support::binary::{Child, Scene, until};
use crate::support::lab::Behaviour;
use crate::support::{records, warc};

/// Random kills in all, unless `CRAWLDECK_KILLS` says otherwise.
const KILLS: usize = 200;
/// Kills of one crawl at most, then comes another: what is checked after each grows with the crawl.
const KILLS_OF_ONE: usize = 50;
/// Crawls that are killed side by side.
const SIDE_BY_SIDE: usize = 4;
/// Requests in flight at most.
const CONCURRENCY: usize = 8;

const MORE: &str = "[crawl]\nconcurrency = 8\nretries = 2\nexclude = [\"/skip/\"]\n\
                    [backoff]\nbase = \"20ms\"\nmax = \"40ms\"\njitter = \"0s\"\n";

/// Pages, some that are not there, some that always fail, some that lead elsewhere.
fn mixed() -> Behaviour {
    Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        let number: usize = request.path.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let page = SimResponse { status: 200, body: SimBody::Text("a page".into()), ..SimResponse::default() };
        match number {
            _ if request.path.starts_with("/end/") => page,
            n if n % 13 == 5 => SimResponse { status: 404, ..page },
            n if n % 17 == 6 => SimResponse { status: 500, ..page },
            n if n % 19 == 7 => SimResponse { status: 302, headers: vec![("location", format!("/end/{n}"))], ..page },
            _ => page,
        }
    })
}

fn fate_of(number: usize) -> Fate {
    if number % 13 != 5 && number % 17 == 6 { Fate::Failed } else { Fate::Done }
}

/// A scene with so many pages on each of two hosts, and a few URLs that are skipped.
pub(crate) fn scene(pages: usize, rate: f64) -> Scene {
    scene_of(pages, rate, MORE)
}

fn scene_of(pages: usize, rate: f64, more: &str) -> Scene {
    let scene = Scene::new(mixed(), rate, 20.0, more);
    let mut list = String::new();
    for number in 0..pages {
        for host in ["a.test", "b.test"] {
            list.push_str(&format!("http://{host}/p/{number}\n"));
        }
        if number % 10 == 0 {
            list.push_str(&format!("http://a.test/skip/{number}\n"));
        }
    }
    fs::write(scene.path().join("urls.txt"), list).expect("written");
    scene
}

/// What was known to be ended, and how often the server had seen it by then.
#[derive(Default)]
pub(crate) struct Known(HashMap<String, (Fate, usize)>);

impl Known {
    /// Reads the store as a crash left it. Nothing may be damaged, and nothing that had ended was asked for again.
    pub(crate) fn check(&mut self, scene: &Scene) {
        let mut arrivals = HashMap::<String, usize>::new();
        for arrival in scene.server.arrivals() {
            *arrivals.entry(format!("http://{}{}", arrival.host, arrival.path)).or_default() += 1;
        }
        let seen = |url: &str| arrivals.get(url).copied().unwrap_or(0);
        for (url, (_, times)) in &self.0 {
            assert_eq!(seen(url), *times, "{url} had ended and was asked for again");
        }
        let dir = scene.dir();
        resume(&dir, &Config::default()).expect("the store is whole");
        let before = std::mem::take(&mut self.0);
        each_url::<StoreError>(&dir, |listed| {
            if let Some(fate) = listed.fate {
                assert!(before.get(listed.url).is_none_or(|(known, _)| *known == fate), "{} has two fates", listed.url);
                self.0.insert(listed.url.to_owned(), (fate, seen(listed.url)));
            }
            Ok(())
        })
        .expect("the store is whole");
        assert!(before.keys().all(|url| self.0.contains_key(url)), "an end was forgotten");
    }
}

/// The crawl is over: every URL has its one fate, every number is the journal's.
pub(crate) fn assert_complete(scene: &Scene, pages: usize) {
    let dir = scene.dir();
    let mut ended = HashMap::new();
    each_url::<StoreError>(&dir, |listed| {
        assert!(ended.insert(listed.url.to_owned(), listed.fate).is_none(), "{} stands there twice", listed.url);
        Ok(())
    })
    .expect("the store is whole");
    let skipped = pages.div_ceil(10);
    assert_eq!(ended.len(), 2 * pages + skipped, "0 lost");
    let mut failed = 0;
    for number in 0..pages {
        for host in ["a.test", "b.test"] {
            let url = format!("http://{host}/p/{number}");
            assert_eq!(ended[&url], Some(fate_of(number)), "{url}");
            failed += usize::from(fate_of(number) == Fate::Failed);
        }
    }
    let (rows, damaged) = records::requests(&dir);
    assert_eq!(damaged, 0, "0 corrupt");
    let (events, damaged) = records::events(&dir);
    assert_eq!(damaged, 0, "0 corrupt");
    let count = |what: What| events.iter().filter(|event| event.what.known() == Some(what)).count();
    assert_eq!((count(What::UrlFailed), count(What::UrlSkipped)), (failed, skipped), "each end is told once");
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.seq, 1 + number as u64, "no event is missing");
    }
    let loaded = resume(&dir, &Config::default()).expect("whole").expect("there");
    let counts = (loaded.counts.done, loaded.counts.failed, loaded.counts.skipped, loaded.pending());
    assert_eq!(counts, ((2 * pages - failed) as u64, failed as u64, skipped as u64, 0));
    assert_eq!(loaded.rows, rows.len() as u64, "the counter of requests is the journal's");
    assert!(rows.len() <= scene.server.arrivals().len(), "no row without its request");
}

/// Requests beyond what a crawl without crashes makes.
fn refetches(scene: &Scene, pages: usize) -> usize {
    let each = |number: usize| match number {
        n if n % 13 == 5 => 1,
        n if n % 17 == 6 || n % 19 == 7 => 2,
        _ => 1,
    };
    scene.server.arrivals().len().saturating_sub(2 * (0..pages).map(each).sum::<usize>())
}

fn crash_at_every_operation(layer: &str, ending: &str) {
    // Long enough for several transactions.
    const PAGES: usize = 40;
    let keeps = layer == "archive";
    let more = format!("{MORE}[output]\nwarc = {keeps}\n");
    for number in 1.. {
        let scene = scene_of(PAGES, 50.0, &more);
        let mut args = scene.run();
        args.push("--headless".into());
        let at = format!("{layer}:{number}{ending}");
        let crashed = Child::start(scene.path(), &args, &[("CRAWLDECK_TEST_CRASH_AT", &at)]).end_anyhow();
        let mut known = Known::default();
        if scene.dir().exists() {
            known.check(&scene);
        }
        let again = scene.headless().end();
        assert_eq!(again.code, Some(0), "after a crash at {at}: {}", again.err);
        known.check(&scene);
        assert_complete(&scene, PAGES);
        if keeps {
            assert_kept(&scene, &at);
        }
        if crashed.code.is_some() {
            assert_eq!(crashed.code, Some(0), "{}", crashed.err);
            assert!(number > 8, "the layer {layer} does fewer operations than it must");
            return;
        }
    }
}

/// Every answer that the journal tells of has its record, and all records are whole.
fn assert_kept(scene: &Scene, at: &str) {
    let dir = scene.dir();
    let records = warc::records(&dir);
    let kept = records.iter().filter(|record| matches!(record.kind(), "response" | "revisit"));
    let kept: HashSet<&str> = kept.map(|record| record.need("WARC-Target-URI")).collect();
    each_url::<StoreError>(&dir, |listed| {
        let is_kept = listed.fate != Some(Fate::Done) || kept.contains(listed.url);
        assert!(is_kept, "after a crash at {at}: {} is done without its record", listed.url);
        Ok(())
    })
    .expect("the store is whole");
}

#[test]
fn row_12_a_crash_before_any_operation_of_the_archive_loses_no_record() {
    crash_at_every_operation("archive", "");
}

#[test]
fn row_12_a_crash_in_the_middle_of_any_write_of_the_archive_loses_no_record() {
    crash_at_every_operation("archive", ":half");
}

#[test]
fn row_12_a_crash_before_any_operation_of_the_store_loses_nothing() {
    crash_at_every_operation("store", "");
}

#[test]
fn row_12_a_crash_in_the_middle_of_any_write_of_the_store_loses_nothing() {
    crash_at_every_operation("store", ":half");
}

#[test]
fn row_12_a_crash_before_any_operation_of_the_journal_loses_nothing() {
    crash_at_every_operation("journal", "");
}

#[test]
fn row_12_a_crash_in_the_middle_of_any_write_of_the_journal_loses_nothing() {
    crash_at_every_operation("journal", ":half");
}

#[test]
fn row_12_wanted_21_killed_at_random_again_and_again_it_loses_nothing() {
    let kills: usize = std::env::var("CRAWLDECK_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let seed = fastrand::u64(..);
    let crawls: Vec<_> = (0..SIDE_BY_SIDE)
        .map(|one| {
            // They share the kills; the first ones take what is over.
            let share = kills / SIDE_BY_SIDE + usize::from(one < kills % SIDE_BY_SIDE);
            std::thread::spawn(move || kill_again_and_again(share, seed.wrapping_add(one as u64)))
        })
        .collect();
    let mut all = Killed::default();
    for crawl in crawls {
        let one = crawl.join().expect("a crawl that survives");
        all = Killed { kills: all.kills + one.kills, crawls: all.crawls + one.crawls, again: all.again + one.again };
    }
    assert_eq!(all.kills, kills);
    eprintln!(
        "{kills} kills of {} crawls, seed {seed}: 0 lost, 0 corrupt, {} requests made again",
        all.crawls, all.again
    );
}

/// What was done to crawls.
#[derive(Default)]
struct Killed {
    /// Kills that met a running process.
    kills: usize,
    crawls: usize,
    /// Requests that were made again.
    again: usize,
}

/// Kills crawls, one after the other, until so many kills have met one; lets each end.
fn kill_again_and_again(kills: usize, seed: u64) -> Killed {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Killed::default();
    while all.kills < kills {
        let (killed, again) = kill_one_crawl(&mut random, (kills - all.kills).min(KILLS_OF_ONE), seed);
        all = Killed { kills: all.kills + killed, crawls: all.crawls + 1, again: all.again + again };
        assert!(all.crawls <= kills + 10, "seed {seed}: crawls end before they are killed");
    }
    all
}

/// Kills one crawl so many times, or until it is over; the kills that met it, and the requests that it made again.
fn kill_one_crawl(random: &mut fastrand::Rng, kills: usize, seed: u64) -> (usize, usize) {
    let pages = 20 + kills * 20;
    let scene = scene(pages, 300.0);
    let (mut known, mut killed) = (Known::default(), 0);
    // Nobody ever sends: the time of a kill is as good as any.
    let (_nobody, nothing) = channel::<()>();
    while killed < kills {
        let mut child = scene.headless();
        if random.bool() {
            let goal = scene.server.arrivals().len() + random.usize(1..40);
            until("arrivals, or the end", || {
                (scene.server.arrivals().len() >= goal || child.ends_within(Duration::ZERO)).then_some(())
            });
        } else {
            let _ = nothing.recv_timeout(Duration::from_millis(random.u64(0..400)));
        }
        let met = child.kill();
        if scene.dir().exists() {
            known.check(&scene);
        }
        if !met {
            // It was over: that counts for nothing.
            break;
        }
        killed += 1;
    }
    let last = scene.headless().end();
    assert_eq!(last.code, Some(0), "seed {seed}: {}", last.err);
    known.check(&scene);
    assert_complete(&scene, pages);
    let again = refetches(&scene, pages);
    // In flight, and what ended within a commit interval and the time that a busy disk takes for it: a second's tokens.
    let most = killed * (CONCURRENCY + 2 * (300 + 20));
    assert!(again <= most, "seed {seed}: {again} requests were made again");
    (killed, again)
}
