//! Every signal of the row at moments that nobody chose: on a terminal and without one. Whatever the moment, the terminal is
//! as it was, the exit code is one that is documented, the journal has each request, and the next start ends the crawl.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::binary::{Scene, fine, state};
use crate::support::pty::Pty;
use crate::support::{records, warc};

/// Rounds of one test run; `CRAWLDECK_SIGNAL_ROUNDS` is another number.
const ROUNDS: usize = 40;
/// URLs of a crawl.
const PAGES: usize = 120;
/// Requests at once.
const CONCURRENCY: usize = 4;

/// Between two looks at whether a process was stopped, and how many there are: longer than a test waits.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 4_000;

/// What a round sends, with its name, and the exit codes that it may have. The last ones of each end the crawl.
const WAYS: [(&str, &[Signal], &[u32]); 14] = [
    ("TERM", &[Signal::TERM], &[0]),
    ("TERM twice", &[Signal::TERM, Signal::TERM], &[0, 130]),
    ("INT", &[Signal::INT, Signal::TERM], &[0, 130]),
    ("INT twice", &[Signal::INT, Signal::INT, Signal::TERM], &[0, 130]),
    ("INT three times", &[Signal::INT, Signal::INT, Signal::INT], &[0, 130]),
    ("HUP", &[Signal::HUP, Signal::TERM], &[0]),
    ("HUP, TERM twice", &[Signal::HUP, Signal::TERM, Signal::TERM], &[0, 130]),
    ("QUIT", &[Signal::QUIT], &[0, 130]),
    ("PIPE", &[Signal::PIPE, Signal::TERM], &[0]),
    ("TSTP and CONT", &[Signal::TSTP, Signal::CONT, Signal::TERM], &[0]),
    ("TTOU and CONT", &[Signal::TTOU, Signal::CONT, Signal::TERM], &[0]),
    ("TTIN and CONT", &[Signal::TTIN, Signal::CONT, Signal::QUIT], &[0, 130]),
    ("a storm of WINCH", &[Signal::WINCH; 30], &[0]),
    (
        "a storm of all",
        &[Signal::WINCH, Signal::TSTP, Signal::CONT, Signal::PIPE, Signal::HUP, Signal::QUIT],
        &[0, 130],
    ),
];

/// Waits so long that a signal comes at any moment: nobody ever sends.
fn moment(random: &mut fastrand::Rng, nothing: &Receiver<()>, most: u64) {
    let _ = nothing.recv_timeout(Duration::from_millis(random.u64(0..=most)));
}

/// Sends the signals, each at its moment.
fn send(pid: Pid, signals: &[Signal], random: &mut fastrand::Rng, nothing: &Receiver<()>) {
    // Whoever was stopped goes on, as a shell would see to it: the stop may come after the CONT that was sent for it.
    std::thread::spawn(move || {
        let (_nobody, nothing) = channel::<()>();
        for _ in 0..LOOKS {
            match state(pid) {
                'T' => drop(kill_process(pid, Signal::CONT)),
                'Z' | 'X' | '?' => return,
                _ => {}
            }
            let _ = nothing.recv_timeout(LOOK);
        }
    });
    for &signal in signals {
        // It may have ended before.
        let _ = kill_process(pid, signal);
        moment(random, nothing, 30);
    }
}

fn scene() -> Scene {
    let scene = Scene::new(fine(Duration::from_millis(5)), 300.0, 10.0, "[output]\nwarc = true\n");
    scene.list(&["a.test"], PAGES);
    scene
}

/// How often each of these is there.
fn times(what: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    what.for_each(|one| *times.entry(one).or_default() += 1);
    times
}

/// The next start ends the crawl, and nothing is missing. `most` were in flight when the process ended.
#[track_caller]
fn assert_whole(scene: &Scene, most: usize, what: &str) {
    let again = scene.headless().end();
    assert_eq!(again.code, Some(0), "{what}: {}", again.err);
    assert!(again.err.contains(&format!("{PAGES} of {PAGES} done")), "{what}: {}", again.err);
    let (rows, damaged) = records::requests(&scene.dir());
    assert_eq!(damaged, 0, "{what}: damaged lines");
    let seen =
        times(scene.server.arrivals().into_iter().map(|arrival| format!("http://{}{}", arrival.host, arrival.path)));
    let told = times(rows.iter().map(|row| row.url.as_str().to_owned()));
    assert_eq!(seen.len(), PAGES, "{what}: URLs that were asked for");
    // What was cut off on its way to the server has a row, too.
    let (told_of, asked): (usize, usize) = (told.values().sum(), seen.values().sum());
    assert!(seen.iter().all(|(url, asked)| told.get(url).is_some_and(|told| told >= asked)), "{what}: without a row");
    assert!(told_of - asked <= most, "{what}: {told_of} rows for {asked} requests");
    assert!(asked - PAGES <= most, "{what}: {} requests were made again", asked - PAGES);
    assert_archived(scene, what);
}

/// Every record of the archive is whole, and no URL is without one (case 124).
#[track_caller]
fn assert_archived(scene: &Scene, what: &str) {
    // Reading fails on a torn record.
    let records = warc::records(&scene.dir());
    // The pages are all the same: after the first they are told of as seen before.
    let answers = records.iter().filter(|one| matches!(one.kind(), "response" | "revisit"));
    let stored: BTreeSet<&str> = answers.map(|one| one.need("WARC-Target-URI")).collect();
    assert_eq!(stored.len(), PAGES, "{what}: URLs in the archive");
    assert!(records.last().is_some_and(|last| last.kind() == "metadata"), "{what}: exchanges are whole");
}

/// What may have been in flight when the process ended: nothing, if it was awaited.
fn in_flight(code: Option<u32>) -> usize {
    if code == Some(130) { CONCURRENCY } else { 0 }
}

/// What the rounds met.
#[derive(Default)]
struct Met {
    /// Some requests had been made, and not all.
    amid: usize,
    /// The signals had not been taken over yet.
    early: usize,
}

impl Met {
    fn look(&mut self, scene: &Scene) {
        self.amid += usize::from((1..PAGES).contains(&scene.server.arrivals().len()));
    }
}

/// On a terminal: it is as it was, and what was told is ours.
fn on_a_terminal(
    signals: &[Signal],
    codes: &[u32],
    random: &mut fastrand::Rng,
    nothing: &Receiver<()>,
    what: &str,
    met: &mut Met,
) {
    let scene = scene();
    let mut pty = Pty::start(scene.path(), &scene.run());
    moment(random, nothing, 500);
    met.look(&scene);
    send(pty.pid, signals, random, nothing);
    let status = pty.ended();
    assert_eq!(pty.modes(), pty.modes_before, "{what}: the modes of the terminal");
    let screen = pty.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste(), "{what}");
    let early = status.signal().is_some();
    if early {
        assert!(!pty.bytes().contains(&0x1b), "{what}: {}", pty.text());
        assert!(scene.server.arrivals().is_empty(), "{what}: ended by a signal while it crawled");
    } else {
        assert!(codes.contains(&status.exit_code()), "{what}: {} {}", status.exit_code(), pty.text());
    }
    assert_whole(&scene, in_flight((!early).then(|| status.exit_code())), what);
    met.early += usize::from(early);
}

/// Without one.
fn headless(
    signals: &[Signal],
    codes: &[u32],
    random: &mut fastrand::Rng,
    nothing: &Receiver<()>,
    what: &str,
    met: &mut Met,
) {
    let scene = scene();
    let child = scene.headless();
    moment(random, nothing, 500);
    met.look(&scene);
    send(child.pid, signals, random, nothing);
    let ended = child.end_anyhow();
    let code = ended.code.map(i32::unsigned_abs);
    match code {
        Some(code) => assert!(codes.contains(&code), "{what}: {code} {}", ended.err),
        None => assert!(scene.server.arrivals().is_empty(), "{what}: ended by a signal while it crawled"),
    }
    assert_whole(&scene, in_flight(code), what);
    met.early += usize::from(code.is_none());
}

#[test]
fn row_14_case_124_every_signal_at_any_moment_leaves_all_whole_and_the_terminal_as_it_was() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds = number("CRAWLDECK_SIGNAL_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("CRAWLDECK_SIGNAL_SEED").map_or_else(|| fastrand::u64(..), |seed| seed as u64);
    let mut random = fastrand::Rng::with_seed(seed);
    let (_nobody, nothing) = channel();
    let mut met = Met::default();
    for round in 0..rounds {
        let (name, signals, codes) = WAYS[(round / 2) % WAYS.len()];
        let what = format!("seed {seed}, round {round}, {name}");
        let place = if round % 2 == 0 { on_a_terminal } else { headless };
        place(signals, codes, &mut random, &nothing, &what, &mut met);
    }
    let Met { amid, early } = met;
    eprintln!(
        "{rounds} rounds, seed {seed}: 0 lost; {amid} met a crawl amid its requests, {early} a process that begins"
    );
    assert!(amid * 4 >= rounds, "hardly one met a crawl that runs");
}
