//! The store by itself: every operation fails in turn, the files are cut and changed at every place.

mod power;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crawldeck::clock::Anchor;
use crawldeck::control::{Mono, RequestKind};
use crawldeck::journal::disk::{Disk, SystemDisk};
use crawldeck::store::frame::FILE_HEAD;
use crawldeck::store::load::{Beyond, LoadHooks, Loaded, load};
use crawldeck::store::record::{TriedRecord, UrlRecord};
use crawldeck::store::states::StateKind;
use crawldeck::store::{Barrier, Fate, Store, StoreError, StoreOptions, UrlId};

use crate::support::disk::{FailingDisk, Faults, NoRename};

/// Transactions of the script.
const STEPS: u32 = 6;
/// URLs in each of them.
const URLS: u32 = 24;

/// Long enough never to pass where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

fn eager() -> StoreOptions {
    // Small enough that the states are written anew on the way.
    StoreOptions {
        group: Duration::ZERO,
        retry: Duration::from_millis(1),
        rewrite_min: 8_000,
        ..StoreOptions::default()
    }
}

fn read(run: &Path) -> Result<Loaded, StoreError> {
    let hooks = LoadHooks { lane: &mut |_, _| 0, beyond: &mut |_| Beyond::default() };
    Ok(load(run, hooks)?.unwrap_or_default())
}

/// What a store holds, in a form that can be compared.
#[derive(Clone, PartialEq, Debug, Default)]
struct Held {
    hosts: usize,
    pending: BTreeSet<u32>,
    tried: BTreeMap<u32, u64>,
    counts: (u64, u64, u64),
    states: BTreeMap<String, Vec<u8>>,
    steps: u64,
}

impl Held {
    fn of(loaded: &Loaded) -> Self {
        Self {
            hosts: loaded.hosts.len(),
            pending: (0..).zip(&loaded.ready).filter(|(_, host)| host.get().is_some()).map(|(id, _)| id).collect(),
            tried: loaded.tried.iter().map(|one| (one.id.0, one.due.as_nanos())).collect(),
            counts: (loaded.counts.done, loaded.counts.failed, loaded.counts.skipped),
            // But for what the files tell of each other.
            states: loaded
                .states
                .iter()
                .filter(|((kind, _), _)| *kind == StateKind::Host)
                .map(|((_, key), value)| (key.to_string(), value.to_vec()))
                .collect(),
            steps: loaded.mark.as_ref().map_or(0, |mark| mark.anchor.mono.as_nanos()),
        }
    }

    /// Without the states, which may be one transaction ahead.
    fn urls(&self) -> Self {
        Self { states: BTreeMap::new(), ..self.clone() }
    }
}

/// One transaction of the script: a host, URLs, and what became of those of the step before.
fn step(store: &mut Store, number: u32) {
    store.add_host(&format!("h{number}.test"));
    for url in 0..URLS {
        let url = format!("http://h{number}.test/p/{url}");
        let print = u64::from(number) << 32 | url.len() as u64 ^ xxhash_rust::xxh3::xxh3_64(url.as_bytes());
        store.add_url(&UrlRecord { host: Some(number), print, depth: 1, run: 0, kind: RequestKind::Page, url: &url });
    }
    let before = number.saturating_sub(1) * URLS;
    for id in before..before + URLS * u32::from(number > 0) {
        match id % 4 {
            0 => store.fate(UrlId(id), Fate::Done, ""),
            1 => store.fate(UrlId(id), Fate::Failed, "it failed"),
            2 => store.tried(&TriedRecord {
                id: UrlId(id),
                host: number,
                failures: 1,
                unprocessed: 0,
                due: Mono::from_nanos(u64::from(id)),
                hop: None,
            }),
            _ => {}
        }
    }
    for host in 0..=number {
        store.state(StateKind::Host, &format!("h{host}.test"), &[number as u8; 600]);
    }
    store.commit(Anchor { mono: Mono::from_nanos(u64::from(number) + 1), ..Anchor::default() });
}

/// What a store holds after so many steps.
fn after(steps: u32) -> Held {
    let mut held = Held { hosts: steps as usize, steps: u64::from(steps), ..Held::default() };
    for id in 0..steps * URLS {
        let told = id / URLS + 1 < steps;
        match (told, id % 4) {
            (true, 0) => held.counts.0 += 1,
            (true, 1) => held.counts.1 += 1,
            (true, 2) => drop(held.tried.insert(id, u64::from(id))),
            _ => drop(held.pending.insert(id)),
        }
    }
    for host in 0..steps {
        held.states.insert(format!("h{host}.test"), vec![steps.saturating_sub(1) as u8; 600]);
    }
    held
}

/// Runs the script on `disk`, waiting for each step; the steps that were acknowledged.
fn script(run: &Path, disk: Box<dyn Disk>, patience: Duration) -> (u64, bool) {
    let mut loaded = read(run).expect("whole");
    let mut store = Store::start(run, &mut loaded, Vec::new(), disk, eager()).expect("threads");
    let health = store.health_changed();
    for number in 0..STEPS {
        step(&mut store, number);
        // Nobody ever sends: the writer tells by its health.
        let (_nobody, nothing) = std::sync::mpsc::channel::<()>();
        for _ in 0..patience.as_millis() {
            if store.is_settled() {
                break;
            }
            let _ = nothing.recv_timeout(Duration::from_millis(1));
        }
    }
    let closed = store.close_blocking(patience).is_ok();
    let commits = health.borrow().commits;
    (commits, closed)
}

#[test]
fn the_script_ends_as_it_should() {
    let run = tempfile::tempdir().expect("a folder");
    assert_eq!(script(run.path(), Box::new(SystemDisk), PATIENCE), (u64::from(STEPS), true));
    let loaded = read(run.path()).expect("whole");
    assert_eq!(Held::of(&loaded), after(STEPS));
    assert_eq!(loaded.torn, 0);
    let files = fs::read_dir(run.path().join("state")).expect("a folder").count();
    assert_eq!(files, 2, "the states were written anew, and the old file is gone");
    assert!(!run.path().join("state/hosts-0001.log").exists(), "the states were written anew");
}

#[test]
fn row_10_whichever_operation_fails_all_is_written_in_the_end() {
    let mut number = 0;
    loop {
        let (mut over, mut torn) = (true, false);
        for length in [1, 3] {
            let faults = Arc::new(Faults::default());
            faults.from.store(number, Ordering::SeqCst);
            faults.length.store(length, Ordering::SeqCst);
            faults.torn.store(torn, Ordering::SeqCst);
            torn = !torn;
            let run = tempfile::tempdir().expect("a folder");
            let (_, closed) = script(run.path(), Box::new(FailingDisk(Arc::clone(&faults))), PATIENCE);
            assert!(closed, "operation {number}");
            over &= faults.count.load(Ordering::SeqCst) <= number;
            let loaded = read(run.path()).unwrap_or_else(|error| panic!("operation {number}: {error}"));
            assert_eq!(Held::of(&loaded), after(STEPS), "operation {number}, {length} in a row");
        }
        if over {
            break;
        }
        number += 1;
    }
    assert!(number > 20, "only {number} operations");
}

#[test]
fn case_96_row_12_whatever_the_last_operation_of_a_process_was_what_was_acknowledged_stands() {
    for number in 0.. {
        let faults = Arc::new(Faults::default());
        faults.from.store(number, Ordering::SeqCst);
        faults.length.store(u64::MAX - number, Ordering::SeqCst);
        faults.torn.store(number % 2 == 0, Ordering::SeqCst);
        let run = tempfile::tempdir().expect("a folder");
        let disk = Box::new(FailingDisk(Arc::clone(&faults)));
        let (acknowledged, closed) = script(run.path(), disk, Duration::from_millis(3));
        let loaded = read(run.path()).unwrap_or_else(|error| panic!("operation {number}: {error}"));
        let held = Held::of(&loaded);
        assert!(held.steps >= acknowledged, "operation {number}: {} of {acknowledged}", held.steps);
        assert_eq!(held.urls(), after(held.steps as u32).urls(), "operation {number}");
        // And it can be gone on with.
        let mut loaded = loaded;
        let mut store =
            Store::start(run.path(), &mut loaded, Vec::new(), Box::new(SystemDisk), eager()).expect("threads");
        for step_number in held.steps as u32..STEPS {
            step(&mut store, step_number);
        }
        store.close_blocking(PATIENCE).expect("written");
        assert_eq!(Held::of(&read(run.path()).expect("whole")).urls(), after(STEPS).urls(), "operation {number}");
        if closed {
            assert!(number > 20, "only {number} operations");
            return;
        }
    }
}

/// Of which file something is told to be lost.
fn told_lost(loaded: &Loaded) -> Option<&str> {
    loaded.lost.first().map(|lost| lost.file.as_str())
}

fn written() -> (tempfile::TempDir, Vec<u8>) {
    let run = tempfile::tempdir().expect("a folder");
    assert_eq!(script(run.path(), Box::new(SystemDisk), PATIENCE), (u64::from(STEPS), true));
    let bytes = fs::read(run.path().join("state/urls.log")).expect("readable");
    (run, bytes)
}

#[test]
fn case_88_cut_at_any_length_the_file_of_urls_opens_and_loses_only_its_torn_tail() {
    let (run, bytes) = written();
    let mut longest = 0;
    for length in 0..=bytes.len() {
        fs::write(run.path().join("state/urls.log"), &bytes[..length]).expect("written");
        if length < FILE_HEAD {
            let error = read(run.path()).expect_err("nothing is left").to_string();
            assert!(error.contains("urls.log is missing or empty"), "{length} bytes: {error}");
            continue;
        }
        let loaded = read(run.path()).unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        // No kill cuts what the process told to be on the medium when it ended.
        assert_eq!(told_lost(&loaded), (length < bytes.len()).then_some("urls.log"), "{length} bytes");
        let held = Held::of(&loaded);
        assert_eq!(held.urls(), after(held.steps as u32).urls(), "{length} bytes");
        assert!(held.steps >= longest, "a longer file holds less");
        longest = held.steps;
    }
    assert_eq!(longest, u64::from(STEPS));
}

#[test]
fn case_88_cut_at_any_length_the_file_of_states_opens_and_loses_only_its_torn_tail() {
    let (run, _) = written();
    let names: Vec<_> = fs::read_dir(run.path().join("state")).expect("a folder").collect();
    let paths = names.into_iter().map(|entry| entry.expect("an entry").path());
    let file = paths.into_iter().find(|path| !path.ends_with("urls.log")).expect("a file of states");
    let bytes = fs::read(&file).expect("readable");
    // Behind that stands only where the other file ends.
    let whole = read(run.path()).expect("whole").mark.and_then(|mark| mark.states).expect("told").1 as usize;
    let mut longest = 0;
    for length in 0..=bytes.len() {
        fs::write(&file, &bytes[..length]).expect("written");
        let loaded = read(run.path()).unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        let held = Held::of(&loaded);
        assert_eq!(held.urls(), after(STEPS).urls(), "{length} bytes");
        assert!(length >= whole || told_lost(&loaded).is_some_and(|file| file.starts_with("hosts-")), "{length} bytes");
        let steps = (0..=STEPS).find(|steps| after(*steps).states == held.states);
        let steps = steps.unwrap_or_else(|| panic!("{length} bytes: states of no time"));
        assert!(steps >= longest, "a longer file holds less");
        longest = steps;
    }
    assert_eq!(longest, STEPS);
}

#[test]
fn row_40_a_flipped_bit_is_named_wherever_it_is() {
    let (run, bytes) = written();
    let file = run.path().join("state/urls.log");
    let (mut named, mut last) = (0, 0);
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        fs::write(&file, &changed).expect("written");
        match read(run.path()) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("urls.log"), "{text}");
                named += 1;
            }
            Ok(loaded) => {
                // It looks like a torn write, but the process told that it was whole: that it is missing is said.
                let held = Held::of(&loaded);
                assert!(loaded.torn > 0, "byte {place} was changed, and nobody noticed");
                assert_eq!(told_lost(&loaded), Some("urls.log"), "byte {place}");
                assert_eq!(held.urls(), after(STEPS - 1).urls(), "byte {place}");
                last += 1;
            }
        }
    }
    assert!(named > last && last > 0, "{named} named, {last} in the last transaction");
}

#[test]
fn row_40_a_file_that_is_gone_is_told_and_does_not_pass_for_a_run_that_is_done() {
    let (run, bytes) = written();
    let urls = run.path().join("state/urls.log");
    fs::remove_file(&urls).expect("it was there");
    let error = read(run.path()).expect_err("no URL is left").to_string();
    assert!(error.contains("urls.log is missing or empty"), "{error}");
    fs::write(&urls, &bytes).expect("written");
    for entry in fs::read_dir(run.path().join("state")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path != urls {
            fs::remove_file(path).expect("it was there");
        }
    }
    let loaded = read(run.path()).expect("what is left is whole");
    assert_eq!(Held::of(&loaded).urls(), after(STEPS).urls());
    assert!(told_lost(&loaded).is_some_and(|file| file.starts_with("hosts-")), "{:?}", loaded.lost);
}

#[test]
fn row_40_what_is_cut_off_while_a_process_was_killed_is_told_up_to_its_last_transaction_but_one() {
    // No process ended well here, so only the transactions tell of each other.
    let run = tempfile::tempdir().expect("a folder");
    let mut store =
        Store::start(run.path(), &mut Loaded::default(), Vec::new(), Box::new(SystemDisk), eager()).expect("threads");
    let (_nobody, nothing) = std::sync::mpsc::channel::<()>();
    for number in 0..3 {
        step(&mut store, number);
        for _ in 0..PATIENCE.as_millis() {
            if store.is_settled() {
                break;
            }
            let _ = nothing.recv_timeout(Duration::from_millis(1));
        }
    }
    let copy = tempfile::tempdir().expect("a folder");
    fs::create_dir(copy.path().join("state")).expect("a folder");
    for entry in fs::read_dir(run.path().join("state")).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.path().join("state").join(entry.file_name())).expect("copied");
    }
    drop(store);
    let urls = copy.path().join("state/urls.log");
    let bytes = fs::read(&urls).expect("readable");
    assert_eq!(read(copy.path()).expect("whole").lost, []);
    let told: Vec<bool> = (FILE_HEAD..=bytes.len())
        .map(|length| {
            fs::write(&urls, &bytes[..length]).expect("written");
            !read(copy.path()).expect("it opens").lost.is_empty()
        })
        .collect();
    let torn = told.iter().rev().take_while(|told| !**told).count();
    assert!(torn > 0 && torn < bytes.len() / 2, "{torn} of {} bytes may be torn", bytes.len());
    assert!(told[..told.len() - torn].iter().all(|told| *told));
}

#[test]
fn row_40_a_flipped_bit_in_the_states_is_named_wherever_it_is() {
    let (run, _) = written();
    let names = fs::read_dir(run.path().join("state")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = names.into_iter().find(|path| !path.ends_with("urls.log")).expect("a file of states");
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let bytes = fs::read(&file).expect("readable");
    let (mut named, mut last) = (0, 0);
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        fs::write(&file, &changed).expect("written");
        match read(run.path()) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&name) && text.contains("-d"), "{text}");
                named += 1;
            }
            Ok(loaded) => {
                // At the end it looks like a torn write: states of the one before, none made up. The very last tells only
                // where the URLs end.
                let held = Held::of(&loaded);
                assert_eq!(held.urls(), after(STEPS).urls(), "byte {place}");
                let known = (0..=STEPS).any(|steps| after(steps).states == held.states);
                assert!(known && loaded.torn > 0, "byte {place} was changed, and nobody noticed");
                last += 1;
            }
        }
    }
    assert!(named > 0 && last > 0, "{named} named, {last} in the last transaction");
}

/// The record that is damaged is named by where it is.
#[test]
fn row_40_damage_in_the_middle_is_named_with_its_byte_and_what_to_do() {
    let (run, mut bytes) = written();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(run.path().join("state/urls.log"), &bytes).expect("written");
    let text = read(run.path()).expect_err("damaged").to_string();
    let at = text.split("at byte ").nth(1).and_then(|rest| rest.split(':').next()).and_then(|at| at.parse().ok());
    // The frame that holds it: at most as long as a payload and its head before it.
    assert!(at.is_some_and(|at: usize| at <= place && place - at < 5_000), "byte {place}: {text}");
    assert!(text.contains("urls.log") && text.contains("checksum") && text.contains("-d"), "{text}");
}

#[test]
fn row_40_files_of_other_versions_are_refused_with_their_number_and_stay_as_they_are() {
    for version in [0_u8, 1, 3, 200] {
        let (run, bytes) = written();
        let mut other = bytes;
        other[8] = version;
        let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&other[..16], 0).to_le_bytes();
        other[16..24].copy_from_slice(&sum);
        let file = run.path().join("state/urls.log");
        fs::write(&file, &other).expect("written");
        let text = read(run.path()).expect_err("another version").to_string();
        let told = format!("has version {version}; this crawldeck reads version 2: use the crawldeck that wrote it");
        assert!(text.contains("urls.log") && text.contains(&told) && text.contains("-d"), "{text}");
        assert!(fs::read(&file).expect("readable") == other, "it is for the one that wrote it");
    }
}

#[test]
fn case_91_a_rewrite_that_fails_half_way_leaves_the_old_states_in_use_and_an_alarm_until_one_succeeds() {
    let run = tempfile::tempdir().expect("a folder");
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(run.path().join("state")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    let disk = NoRename::default();
    disk.0.store(true, Ordering::SeqCst);
    let store = Store::start(run.path(), &mut Loaded::default(), Vec::new(), Box::new(disk.clone()), eager());
    let mut store = store.expect("threads");
    let mut health = store.health_changed();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for number in 0..STEPS {
        step(&mut store, number);
    }
    let alarm = runtime.block_on(health.wait_for(|health| health.overgrown.is_some())).expect("it runs").clone();
    let text = alarm.overgrown.expect("an alarm");
    assert!(text.as_str().starts_with("state/hosts-0001.log cannot be written anew: "), "{text}");
    assert_eq!(alarm.blocked, None, "the old file serves");
    // More transactions, more tries in vain: all stands in the old file.
    for number in STEPS..3 * STEPS {
        step(&mut store, number);
    }
    while !store.is_settled() {
        std::thread::yield_now();
    }
    let mut next = 3 * STEPS;
    assert_eq!(Held::of(&read(run.path()).expect("whole")), after(next));
    // The disk is well again: so are the states, at the latest after as many transactions as were let pass.
    disk.0.store(false, Ordering::SeqCst);
    while store.health().overgrown.is_some() {
        step(&mut store, next);
        next += 1;
        while !store.is_settled() {
            std::thread::yield_now();
        }
        assert!(next < 200, "never written anew");
    }
    store.close_blocking(PATIENCE).expect("written");
    let names = names();
    assert!(names.len() == 2 && !names.contains("hosts-0001.log"), "{names:?}");
    assert_eq!(Held::of(&read(run.path()).expect("whole")), after(next));
}

#[test]
fn case_91_a_process_that_ends_before_a_rewrite_succeeds_leaves_the_old_states_to_the_next() {
    let run = tempfile::tempdir().expect("a folder");
    let disk = NoRename::default();
    disk.0.store(true, Ordering::SeqCst);
    assert_eq!(script(run.path(), Box::new(disk), PATIENCE), (u64::from(STEPS), true));
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(run.path().join("state")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(
        names(),
        BTreeSet::from(["hosts-0001.log", "urls.log"].map(str::to_owned)),
        "the old file, and no draft"
    );
    let mut loaded = read(run.path()).expect("whole");
    assert_eq!(Held::of(&loaded), after(STEPS));
    // A draft of a process that was killed is written over.
    fs::write(run.path().join("state/hosts-0002.log.new"), [7; 100_000]).expect("written");
    let disk = Box::new(SystemDisk);
    let mut store = Store::start(run.path(), &mut loaded, Vec::new(), disk, eager()).expect("threads");
    step(&mut store, STEPS);
    store.close_blocking(PATIENCE).expect("written");
    assert_eq!(names(), BTreeSet::from(["hosts-0002.log", "urls.log"].map(str::to_owned)));
    assert_eq!(Held::of(&read(run.path()).expect("whole")), after(STEPS + 1));
}

/// A barrier that can be closed.
struct Gate(Arc<std::sync::atomic::AtomicBool>);

impl Barrier for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn sync(&mut self, count: u64) -> std::io::Result<u64> {
        match self.0.load(Ordering::SeqCst) {
            true => Ok(count),
            false => Err(std::io::Error::other("it is closed")),
        }
    }

    fn teller(&self) -> Option<crawldeck::store::Teller> {
        Some(Box::new(|| String::from("here")))
    }
}

#[test]
fn nothing_is_written_before_the_barrier_has_passed() {
    let run = tempfile::tempdir().expect("a folder");
    let open = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let barrier: Box<dyn Barrier> = Box::new(Gate(Arc::clone(&open)));
    let mut store = Store::start(run.path(), &mut Loaded::default(), vec![barrier], Box::new(SystemDisk), eager())
        .expect("threads");
    let mut health = store.health_changed();
    step(&mut store, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let blocked = runtime.block_on(health.wait_for(|health| health.blocked.is_some())).expect("it runs").clone();
    assert!(blocked.blocked.is_some_and(|why| why.as_str() == "gate: it is closed"));
    assert_eq!(Held::of(&read(run.path()).expect("nothing")), Held::default());
    open.store(true, Ordering::SeqCst);
    let free = runtime.block_on(health.wait_for(|health| health.commits == 1)).expect("it runs").clone();
    assert_eq!(free.blocked, None, "it goes on by itself");
    store.close_blocking(PATIENCE).expect("written");
    let loaded = read(run.path()).expect("whole");
    assert_eq!(Held::of(&loaded), after(1));
    assert_eq!(loaded.mark.expect("marked").places["gate"], "here");
}
