//! What hosts bore is kept across runs: in virtual time, with the real binary, and by `crawldeck memory`.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use crawldeck::control::prior::experience::Visited;
use crawldeck::control::prior::{Experience, Measured, Moment, PriorKind};
use crawldeck::control::{ControllerKind, Mono, Policy, Settings};
use crawldeck::fault::PANIC_IN;
use crawldeck::memory::Memory;
use crawldeck::sim::{Drift, Latency, Limit, Random, Seen, ServerModel, ServerSpec, SimServer, Site, run_visits};

use crate::support::binary::{Child, Ended, Scene, crawldeck};
use crate::support::lab::Behaviour;
use crate::support::records;

const HOUR: u64 = 3_600;

fn settings(prior: PriorKind) -> Settings {
    let policy = Policy { kind: ControllerKind::Adaptive, ..Policy::default() };
    Settings { policies: vec![policy], prior, ..Settings::default() }
}

/// Visits by hour of their beginning and minutes.
fn visits(of: &[(u64, u64)]) -> Vec<(Mono, Mono)> {
    let at = |secs: u64| Mono::from_secs_f64(secs as f64);
    of.iter().map(|(hour, minutes)| (at(hour * HOUR), at(hour * HOUR + 60 * minutes))).collect()
}

fn refused(seen: &Seen, visit: (Mono, Mono)) -> u64 {
    let seconds = visit.0.as_secs_f64() as usize..visit.1.as_secs_f64() as usize;
    seen.course.refused[seconds].iter().map(|count| u64::from(*count)).sum()
}

fn accepted(seen: &Seen, visit: (Mono, Mono)) -> u64 {
    let seconds = visit.0.as_secs_f64() as usize..visit.1.as_secs_f64() as usize;
    seen.course.accepted[seconds].iter().map(|count| u64::from(*count)).sum()
}

/// An hour, and another hour by another process the next day: refusals of both, over the built-in servers that keep
/// a limit, and the second's work against that of a cold one at the same time.
#[test]
fn wanted_22_a_second_run_is_refused_at_most_half_as_often_as_a_cold_one() {
    let visits = visits(&[(0, 60), (24, 60)]);
    let (mut all_cold, mut all_warm) = (0, 0);
    for mut server in SimServer::built_in() {
        if !["a", "b", "e", "g", "h", "j", "m", "n"].contains(&server.id.as_str()) {
            continue;
        }
        server.hours = 25.0;
        let (mut cold, mut warm, mut work) = (0, 0, (0, 0));
        for seed in 1..=4 {
            let remembering = run_visits(&server, &settings(PriorKind::HourOfWeek), seed, &visits).expect("a server");
            let forgetful = run_visits(&server, &settings(PriorKind::Off), seed, &visits).expect("a server");
            warm += refused(&remembering, visits[1]);
            cold += refused(&forgetful, visits[1]);
            work.0 += accepted(&remembering, visits[1]);
            work.1 += accepted(&forgetful, visits[1]);
        }
        println!("{}: {cold} cold, {warm} remembering; accepted {} and {}", server.id, work.1, work.0);
        assert!(work.0 as f64 >= 0.95 * work.1 as f64, "{}: {work:?}", server.id);
        all_cold += cold;
        all_warm += warm;
    }
    assert!(2 * all_warm <= all_cold, "{all_warm} after {all_cold}");
}

/// A limit that is another each day: what is remembered is wrong, and costs little.
#[test]
fn a_memory_that_is_wrong_costs_little() {
    let visits = visits(&[(0, 60), (24, 60), (48, 60)]);
    let mut server = SimServer { hours: 49.0, ..SimServer::named("moved") };
    server.spec.limit = Limit::Bucket { rate: 4.0, burst: 8.0 };
    let days = |days: u64| Duration::from_secs(days * 24 * HOUR);
    server.spec.drift = Drift::Steps { at: vec![days(1), days(2)], factor: vec![0.25, 2.0] };
    for seed in 1..=4 {
        let seen = run_visits(&server, &settings(PriorKind::HourOfWeek), seed, &visits).expect("a server");
        for (visit, rate) in visits[1..].iter().zip([1.0, 8.0]) {
            let share = accepted(&seen, *visit) as f64 / (rate * HOUR as f64);
            assert!(share > 0.9 && refused(&seen, *visit) <= 40, "{rate}/s: {share} with {}", refused(&seen, *visit));
        }
    }
}

#[test]
fn the_random_forest_is_fixed_by_the_seed_and_keeps_the_limit() {
    // Two days, so that it has enough samples to be asked.
    let visits = visits(&[(0, 48 * 60)]);
    let mut server = SimServer { hours: 48.0, ..SimServer::named("day") };
    server.spec.limit = Limit::Bucket { rate: 1.0, burst: 4.0 };
    server.spec.drift = Drift::Sine { amplitude: 0.5, period: Duration::from_secs(24 * HOUR) };
    let play = || run_visits(&server, &settings(PriorKind::RandomForest), 3, &visits).expect("a server");
    let seen = play();
    assert_eq!(play(), seen);
    assert!(seen.report.goodput > 0.93 && seen.report.refused_per_hour < 30.0, "{:?}", seen.report);
}

/// A server that bears 100/s, and a burst of 20.
fn limited() -> Behaviour {
    let spec = ServerSpec {
        limit: Limit::Bucket { rate: 100.0, burst: 20.0 },
        latency: Latency { median: Duration::from_millis(2), sigma: 0.0 },
        site: Site::of_pages(10_000),
        ..ServerSpec::default()
    };
    let model = Mutex::new(ServerModel::new(spec, Random::new(1).next_u64()));
    Box::new(move |since, request, _| {
        model.lock().expect("no panic under the lock").respond(Mono::ZERO.after(since), request)
    })
}

fn scene(more: &str) -> Scene {
    let scene = Scene::of(&["a.test"], limited(), (300.0, 30.0), more);
    // Both keys stand in the section that the scene has.
    let path = scene.path().join("scene.toml");
    let text = fs::read_to_string(&path).expect("written");
    let text = text.replace("[controller]\n", "[controller]\nkind = \"adaptive\"\nmemory = \"learned/memory\"\n");
    fs::write(path, text).expect("written");
    scene.list(&["a.test"], 1_500);
    scene
}

fn run_into(scene: &Scene, dir: &str) -> Ended {
    let args = ["run", "-c", "scene.toml", "-u", "urls.txt", "-d", dir, "--headless"].map(String::from);
    let ended = Child::start(scene.path(), &args, &[]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended
}

fn whys(dir: &Path, host: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join("events.jsonl")).expect("a journal");
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    events.filter(|event| event["host"] == host).filter_map(|event| Some(event["why"].as_str()?.to_owned())).collect()
}

#[test]
fn a_second_run_of_the_real_thing_begins_at_what_the_first_measured() {
    let scene = scene("");
    run_into(&scene, "one");
    let memory = Memory::at(scene.path().join("learned/memory"));
    let limit = memory.read().expect("whole")["a.test"].measured.limit;
    assert!((50.0..130.0).contains(&limit), "{limit}");
    assert!(!whys(&scene.path().join("one"), "a.test").iter().any(|why| why.contains("remembered")));

    scene.list(&["a.test"], 100);
    run_into(&scene, "two");
    let told = whys(&scene.path().join("two"), "a.test");
    assert!(told.iter().any(|why| why.starts_with("remembered: ") && why.contains("measured 0 min ago")), "{told:?}");
    let (rows, _) = records::requests(&scene.path().join("two"));
    assert!(rows[0].rate <= limit && rows[0].rate >= 0.8 * limit, "{} of {limit}", rows[0].rate);
    assert!(!scene.path().join("data").exists(), "the user's own memory is another one");

    // From a run's journal to a configuration that is accepted.
    let suggested = crawldeck(scene.path(), &["review", "one", "--suggest"]);
    assert_eq!((suggested.code, suggested.err.as_str()), (Some(0), ""));
    fs::write(scene.path().join("suggested.toml"), &suggested.out).expect("written");
    let checked = crawldeck(scene.path(), &["check", "suggested.toml"]);
    assert_eq!(checked.code, Some(0), "{} {}", checked.err, suggested.out);
    assert!(
        suggested.out.contains("match = \"a.test\"") && suggested.out.contains("rule of thumb"),
        "{}",
        suggested.out
    );
    let parsed = crawldeck::config::Config::parse(&suggested.out, "s").expect("accepted");
    let original = parsed.settings.policies[1].original;
    assert!((30.0..110.0).contains(&original.rate), "{original:?}");
    assert!((original.capacity / original.rate - 2.0).abs() < 0.1, "{original:?}");
}

#[test]
fn row_42_a_panic_while_the_memory_is_written_is_told_and_leaves_the_file_as_it_was() {
    let scene = scene("");
    let args = ["run", "-c", "scene.toml", "-u", "urls.txt", "-d", "one", "--headless"].map(String::from);
    let ended = Child::start(scene.path(), &args, &[(PANIC_IN, "memory-write:1")]).end();
    assert_eq!(ended.code, Some(0), "what cannot be remembered is no failure of the crawl: {}", ended.err);
    assert!(!scene.path().join("learned/memory").exists());
    let events = fs::read_to_string(scene.path().join("one/events.jsonl")).expect("a journal");
    let told =
        events.lines().any(|line| line.contains("the memory file is left as it is: ") && line.contains(PANIC_IN));
    assert!(told, "{events}{}", ended.err);
}

#[test]
fn a_memory_that_cannot_be_used_is_named_left_alone_and_ends_no_crawl() {
    for (bytes, word) in [("\u{1b}[31mnot ours\n", "damaged"), ("{\"crawldeck_memory\":9}\n", "version 9")] {
        let scene = scene("");
        scene.list(&["a.test"], 5);
        let path = scene.path().join("learned/memory");
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        run_into(&scene, "crawl");
        assert_eq!(fs::read_to_string(&path).expect("there"), bytes);
        let journal = fs::read_to_string(scene.dir().join("events.jsonl")).expect("a journal");
        assert!(journal.contains(word) && journal.contains("learned/memory"), "{journal}");
        let listed = crawldeck(scene.path(), &["memory", "list", "-c", "scene.toml"]);
        assert_eq!((listed.code, listed.out.as_str()), (Some(1), ""));
        assert!(listed.err.contains(word) && !listed.err.contains('\u{1b}'), "{}", listed.err);
        let forgotten = crawldeck(scene.path(), &["memory", "forget", "--all", "-c", "scene.toml"]);
        assert_eq!((forgotten.code, forgotten.out.as_str()), (Some(0), "everything is forgotten\n"));
        assert!(!path.exists());
    }
}

#[test]
fn without_a_prior_nothing_is_read_and_nothing_kept() {
    let scene = scene("");
    scene.list(&["a.test"], 5);
    let path = scene.path().join("scene.toml");
    let text = fs::read_to_string(&path).expect("written").replace("[controller]\n", "[controller]\nprior = \"off\"\n");
    fs::write(path, text).expect("written");
    run_into(&scene, "crawl");
    assert!(!scene.path().join("learned").exists() && !scene.path().join("data").exists());
}

#[test]
fn hosts_are_listed_and_forgotten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = Memory::at(folder.path().join("memory"));
    let learned = |host: &str, limit| {
        let measured = Measured { limit, burst: 10.0, banned: 4, block: 30.0, ..Measured::default() };
        let experience = Experience { measured, at: Moment(1_796_083_200), ..Experience::default() };
        (host.to_owned(), experience, Visited::default())
    };
    let hosts = [learned("a.test", 2.5), learned("b.test", 0.0123), learned("\u{1b}[31mx\n.example", 1.0)];
    memory.merge(&hosts).expect("written");
    let list = |more: &[&str]| crawldeck(folder.path(), &[&["memory", "list", "--file", "memory"], more].concat());
    let listed = list(&[]);
    assert_eq!((listed.code, listed.err.as_str(), listed.out.lines().count()), (Some(0), "", 4));
    assert!(!listed.out.contains('\u{1b}'), "{}", listed.out);
    let line = listed.out.lines().find(|line| line.starts_with("b.test")).expect("a line");
    for word in ["0.0123", "10", "2026-12-01 00:00", "shuts out for 30 s", "at most 4 refusals"] {
        assert!(line.contains(word), "{line}");
    }
    assert_eq!(list(&["*.test"]).out.lines().count(), 3);
    assert_eq!(list(&["nobody"]).out, "");
    let wrong = list(&["[x"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""));

    let forget = |more: &[&str]| crawldeck(folder.path(), &[&["memory", "forget", "--file", "memory"], more].concat());
    assert_eq!(forget(&["B.test."]).out, "b.test\n1 host forgotten\n");
    assert_eq!(forget(&["*.test"]).out, "a.test\n1 host forgotten\n");
    assert_eq!(forget(&["*.test"]).out, "0 hosts forgotten\n");
    assert_eq!(memory.read().expect("whole").len(), 1);
    assert_eq!(forget(&["--all"]).out, "everything is forgotten\n");
    assert_eq!(forget(&["--all"]).out, "nothing was remembered\n");
    let users = crawldeck(folder.path(), &["memory", "list"]);
    assert_eq!((users.code, users.out.as_str()), (Some(0), ""), "the user's own is empty: {}", users.err);
}
