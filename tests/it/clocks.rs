//! Row 9: the wall clock of the real binary is set while it crawls, by libfaketime: an hour and ten years either way.
//!
//! The program schedules by the boot clock, which nobody can set and which libfaketime does not reach; suspend and jumps
//! of that clock are tested in virtual time. A machine need not have libfaketime: then this says so and judges nothing,
//! unless `CRAWLDECK_TEST_FAKETIME` is set, as `.ci/run` does: it names the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawldeck::sim::{SimRequest, SimResponse};
use hyper::HeaderMap;
use rustix::process::Signal;

use crate::support::binary::{Child, Scene, crawldeck, ok};
use crate::support::lab::Behaviour;
use crate::support::oracle::{in_window, refusals};
use crate::support::records;

/// Which library; set = it must be there.
const VARIABLE: &str = "CRAWLDECK_TEST_FAKETIME";
/// Where Debian has it.
const PLACES: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime"];
const LIBRARY: &str = "libfaketimeMT.so.1";

const RATE: f64 = 40.0;
const CAPACITY: f64 = 5.0;
const PAGES: usize = 100;
/// What the wall clock is set to on the way, one after the other.
const JUMPS: [&str; 5] = ["+1h", "-1h", "+10y", "-10y", "+0"];
const YEAR: i64 = 365 * 86_400 * 1_000_000;

#[expect(clippy::print_stderr, reason = "who reads the tests' output is to know what was not judged")]
fn library() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        assert!(named.is_file(), "{VARIABLE} names {}, which is not there", named.display());
        return Some(named);
    }
    let found = PLACES.iter().map(|place| Path::new(place).join(LIBRARY)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("not judged: {LIBRARY} is missing: apt-get install faketime");
    }
    found
}

/// The wall clock of the children of a test.
struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    fn of(scene: &Scene, library: PathBuf) -> Self {
        let clock = Self { library, file: scene.path().join("wall-clock") };
        clock.set("+0");
        clock
    }

    /// Sets it, for a process that runs, too.
    fn set(&self, offset: &str) {
        let draft = self.file.with_extension("new");
        fs::write(&draft, offset).expect("written");
        fs::rename(&draft, &self.file).expect("renamed");
    }

    fn start(&self, scene: &Scene) -> Child {
        let mut args = scene.run();
        args.push("--headless".into());
        let (library, file) = (self.library.to_str().expect("a path"), self.file.to_str().expect("a path"));
        let env = [
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        Child::start(scene.path(), &args, &env)
    }
}

/// Each sixtieth request is refused, with two seconds to wait.
fn refusing() -> Behaviour {
    let mut count = 0;
    Box::new(move |_: Duration, _: &SimRequest<'_>, _: &HeaderMap| {
        count += 1;
        match count % 60 {
            0 => SimResponse { status: 429, headers: vec![("retry-after", "2".into())], ..ok(Duration::ZERO) },
            _ => ok(Duration::from_millis(5)),
        }
    })
}

#[test]
fn row_09_the_wall_clock_jumps_under_the_binary_and_it_neither_floods_nor_stalls_nor_loses_count() {
    let Some(library) = library() else { return };
    let scene = Scene::new(refusing(), RATE, CAPACITY, "[backoff]\nbase = \"100ms\"\njitter = \"0s\"\n");
    scene.list(&["a.test", "b.test"], PAGES);
    let clock = WallClock::of(&scene, library);
    let child = clock.start(&scene);
    for (number, jump) in JUMPS.iter().enumerate() {
        // Between them, and in the middle of holds, too. That they come at all says that nothing stalls.
        scene.arrivals("requests after a jump", (number + 1) * 30);
        clock.set(jump);
    }
    let ended = child.end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    // No burst beyond the capacity, and no hold cut short, by the server's own clock.
    let arrivals = scene.server.arrivals();
    for host in ["a.test", "b.test"] {
        let of_host: Vec<_> = arrivals.iter().filter(|arrival| arrival.host == host).cloned().collect();
        crate::support::oracle::assert_envelope(&of_host, RATE, CAPACITY, scene.server.jitter());
    }
    assert!(refusals(&arrivals) >= 2);
    assert_eq!(in_window(&arrivals, scene.server.jitter()), Vec::<&_>::new(), "nothing is sent before a hold ends");
    // All is told: each request has its row, the numbers of the events go on, and the clock did jump.
    assert_eq!(scene.assert_journal_complete(), 2 * PAGES + refusals(&arrivals));
    let (events, _) = records::events(&scene.dir());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.seq, 1 + number as u64, "sequence numbers are monotonic");
    }
    let (rows, _) = records::requests(&scene.dir());
    let times: Vec<i64> = rows.iter().map(|row| row.time.0).collect();
    let (first, last) = (times.iter().min().expect("rows"), times.iter().max().expect("rows"));
    assert!(last - first > 19 * YEAR, "the wall clock was not faked: {} to {}", first, last);
    let review = crawldeck(scene.path(), &["review", "crawl", "--json"]);
    assert_eq!(review.code, Some(0), "{}", review.err);
    assert!(
        review.out.contains(&format!("\"urls_done\":{}", 2 * PAGES)) || review.out.contains("\"urls_done\": 200"),
        "{}",
        review.out
    );
}

#[test]
fn row_09_a_run_goes_on_though_the_wall_clock_was_set_back_or_forward_since() {
    let Some(library) = library() else { return };
    for (before, after) in [("+10y", "-10y"), ("-10y", "+10y"), ("+1h", "-1h")] {
        // Whoever asks first is told to wait longer than the crawl takes to begin again.
        let mut told = false;
        let behaviour: Behaviour = Box::new(move |_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
            let refuses = !told && request.path == "/p/20";
            told |= refuses;
            match refuses {
                true => SimResponse { status: 429, headers: vec![("retry-after", "4".into())], ..ok(Duration::ZERO) },
                false => ok(Duration::ZERO),
            }
        });
        let scene = Scene::new(behaviour, 100.0, CAPACITY, "[backoff]\nbase = \"100ms\"\njitter = \"0s\"\n");
        scene.list(&["a.test"], 40);
        let clock = WallClock::of(&scene, library.clone());
        clock.set(before);
        let child = clock.start(&scene);
        crate::support::binary::until("a refusal", || (refusals(&scene.server.arrivals()) > 0).then_some(()));
        child.signal(Signal::TERM);
        assert_eq!(child.end().code, Some(0));
        clock.set(after);
        let ended = clock.start(&scene).end();
        assert_eq!(ended.code, Some(0), "{before} to {after}: {}", ended.err);
        let arrivals = scene.server.arrivals();
        assert_eq!(in_window(&arrivals, scene.server.jitter()), Vec::<&_>::new(), "the hold lasts for its time");
        assert_eq!(scene.assert_journal_complete(), 41, "{before} to {after}");
    }
}
