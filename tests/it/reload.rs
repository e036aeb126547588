//! The configuration is read again while a crawl runs: the engine in virtual time, and the real binary with a real
//! file that editors write as they do.
#![allow(clippy::disallowed_methods, reason = "the paused runtime's clock is the virtual time of these tests")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawldeck::clock::{Clock, SystemClock};
use crawldeck::config::{Config, HostRule};
use crawldeck::control::backoff::NoJitter;
use crawldeck::control::host::LaneQueue;
use crawldeck::control::{
    Amount, Answer, Command, Controller, HostId, Lane, Lifetime, Mono, Outcome, OverrideSpec, Placement, PolicyId,
    RequestKind, Settings, Verdict,
};
use crawldeck::crawl::engine::{Engine, EngineParts, Looks};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::input::{self, Source};
use crawldeck::journal::Journal;
use crawldeck::watch::{ActAnswer, Change, Reading, Request, Snapshot, Totals};
use proptest::prelude::*;
use tokio::sync::mpsc;

use crate::support::binary::{Child, Scene, crawldeck, fine, until};
use crate::support::pty::Pty;
use crate::support::records;
use crate::support::virtual_clock::VirtualClock;

/// Answers everything with 200 after ten virtual milliseconds, and remembers what was asked for when.
struct Recorder {
    origin: tokio::time::Instant,
    seen: Arc<Mutex<Vec<(Duration, String)>>>,
    /// Whether it takes other headers.
    takes: bool,
}

impl Fetch for Recorder {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        let path = request.url.path().to_owned();
        self.seen.lock().expect("no panic").push((self.origin.elapsed(), path));
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let whole = Reply::failed(Outcome::Local, "");
            Reply { verdict: Verdict::Status(200), status: Some(200), error: None, ..whole }
        })
    }

    fn set_hosts(&self, _hosts: Arc<[HostRule]>) -> Result<(), String> {
        if self.takes { Ok(()) } else { Err(String::from("no such headers")) }
    }
}

/// An engine in virtual time, and what a watcher has seen of it.
struct World {
    requests: mpsc::Sender<Request>,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
    seen: Arc<Mutex<Vec<(Duration, String)>>>,
    origin: tokio::time::Instant,
    answers: Vec<ActAnswer>,
    notices: Vec<String>,
    totals: Totals,
    engine: tokio::task::JoinHandle<crawldeck::crawl::engine::RunEnd>,
    folder: tempfile::TempDir,
}

const BASE: &str = "[politeness]\nrespect_robots = false\nconnections = 50\n[controller]\ncold_start = false\n";

fn config(politeness: &str, more: &str) -> Config {
    let text = BASE.replace("connections = 50\n", &format!("connections = 50\n{politeness}\n"));
    Config::parse(&format!("{text}{more}"), "c.toml").expect("valid")
}

impl World {
    /// Begins, and waits until all is read: that takes real time, during which virtual time runs.
    async fn start(config: Config, urls: impl Iterator<Item = String>, takes: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let origin = tokio::time::Instant::now();
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock { origin });
        let list = folder.path().join("urls.txt");
        std::fs::write(&list, urls.collect::<Vec<_>>().join("\n")).expect("written");
        let run = folder.path().join("run");
        std::fs::create_dir(&run).expect("made");
        let (requests, requests_in) = mpsc::channel(64);
        let (watcher, snapshots) = mpsc::channel(1);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let parts = EngineParts {
            config: Arc::new(config),
            fetch: Arc::new(Recorder { origin, seen: Arc::clone(&seen), takes }),
            clock: clock.clone(),
            // Its thread knows nothing of virtual time.
            journal: Journal::open(&run, SystemClock::shared()).expect("writable"),
            store: crate::support::engine::store_in(&run),
            loaded: None,
            archive: None,
            inputs: input::spawn(vec![Source::File(list)]).expect("readable"),
            requests: requests_in,
            watcher: Some(watcher),
            looks: Looks::Closely,
            frame: Duration::from_millis(50),
            seed: 1,
        };
        let engine = tokio::spawn(Engine::new(parts).run());
        let (answers, notices, totals) = (Vec::new(), Vec::new(), Totals::default());
        let mut world = Self { requests, snapshots, seen, origin, answers, notices, totals, engine, folder };
        while !world.totals.inputs_read {
            world.look().await;
        }
        world
    }

    async fn ask(&self, request: Request) {
        self.requests.send(request).await.expect("the engine listens");
    }

    async fn reread(&self, ticket: u64, text: Result<Config, crawldeck::config::ConfigErrors>) {
        let reading = Reading { ticket: Some(ticket), file: "c.toml".into(), loaded: Arc::new(text) };
        self.ask(Request::Reread(reading)).await;
    }

    async fn look(&mut self) {
        let snapshot = self.snapshots.recv().await.expect("the engine runs");
        self.answers.extend(snapshot.answers.iter().cloned());
        self.notices.extend(snapshot.notices.iter().map(|one| one.as_str().to_owned()));
        self.totals = snapshot.totals.clone();
    }

    /// The answer to a ticket, in words.
    async fn answer(&mut self, ticket: u64) -> String {
        for _ in 0..10_000 {
            if let Some(answer) = self.answers.iter().find(|answer| answer.ticket == ticket) {
                return answer.text.as_str().to_owned();
            }
            self.look().await;
        }
        panic!("no answer to {ticket}: {:?}", self.answers);
    }

    /// Looks on for so long in virtual time; gives when that began.
    async fn pass(&mut self, time: Duration) -> Duration {
        let at = self.origin.elapsed();
        while self.origin.elapsed() < at + time {
            self.look().await;
        }
        at
    }

    /// Requests so far whose path begins so, at or after a moment.
    fn sent(&self, path: &str, from: Duration) -> Vec<Duration> {
        let seen = self.seen.lock().expect("no panic");
        seen.iter().filter(|(at, of)| *at >= from && of.starts_with(path)).map(|(at, _)| *at).collect()
    }

    async fn events(self) -> String {
        self.ask(Request::Stop).await;
        drop(self.snapshots);
        self.engine.await.expect("no panic");
        std::fs::read_to_string(self.folder.path().join("run/events.jsonl")).expect("written")
    }
}

fn urls(host: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |k| format!("http://{host}/p/{k}"))
}

/// No window holds more than the envelope allows.
#[track_caller]
fn assert_envelope(sent: &[Duration], capacity: f64, rate: f64) {
    for (first, from) in sent.iter().enumerate() {
        for (count, to) in (1_u32..).zip(&sent[first..]) {
            let most = capacity + rate * (*to - *from).as_secs_f64();
            assert!(f64::from(count) <= most + 1e-6, "{count} requests in {:?}, {most} are allowed", *to - *from);
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_changed_rate_is_in_force_for_the_next_grant_and_grants_no_token() {
    let mut world = World::start(config("rate = 1.0\ncapacity = 2", ""), urls("a.test", 5_000), true).await;
    let at = world.pass(10 * SECOND).await;
    let before = world.sent("/", at).len();
    assert!((9..=12).contains(&before), "{before} requests in 10 s at 1/s, capacity 2");
    world.reread(1, Ok(config("rate = 20.0\ncapacity = 5", ""))).await;
    let text = world.answer(1).await;
    let expected = "c.toml read again: 2 changes in force: politeness.rate 1 to 20, politeness.capacity 2 to 5 \
                    (1 host has a new original)";
    assert_eq!(text, expected);
    let at = world.pass(5 * SECOND).await;
    let faster = world.sent("/", at);
    assert!((95..=106).contains(&faster.len()), "{} requests in 5 s at 20/s", faster.len());
    assert_envelope(&faster, 5.0, 20.0);
    assert!(faster.len() < 2 || faster[1] - faster[0] >= Duration::from_millis(49), "no burst: {:?}", &faster[..3]);
    world.reread(2, Ok(config("rate = 0.5\ncapacity = 1", ""))).await;
    world.answer(2).await;
    let at = world.pass(20 * SECOND).await;
    let slower = world.sent("/", at + Duration::from_millis(1));
    assert!((9..=11).contains(&slower.len()), "{} requests in 20 s at 0.5/s", slower.len());
    assert_envelope(&slower, 1.0, 0.5);
    let events = world.events().await;
    let told: Vec<&str> = events.lines().filter(|line| line.contains("\"reload\"")).collect();
    assert_eq!(told.len(), 2, "{events}");
    assert!(told[0].contains("\"operator\"") && told[0].contains("2 keys changed"), "{}", told[0]);
    let original = events.lines().find(|line| line.contains("\"what\":\"original\"")).expect("told");
    assert!(
        original.contains("a.test") && original.contains("\"before\":1") && original.contains("\"after\":20"),
        "{original}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_set_stays_and_a_known_host_gets_its_new_rule() {
    let hosts = urls("a.test", 5_000).chain(urls("b.test", 5_000).map(|url| url.replace("/p/", "/b/")));
    let mut world = World::start(config("rate = 2.0", ""), hosts, true).await;
    world.pass(2 * SECOND).await;
    let act =
        |ticket, command, host| Request::Act { ticket, command, targets: vec![HostId(host)], chosen_by: "test".into() };
    let spec = OverrideSpec {
        rate: Some(Amount::Absolute(0.5)),
        capacity: Some(Amount::Absolute(1.0)),
        lifetime: Lifetime::Default,
    };
    world.ask(act(1, Command::Override(spec), 0)).await;
    world.ask(act(2, Command::Pause(Lifetime::Default), 1)).await;
    world.ask(Request::Change { ticket: 3, change: Change::Concurrency(7) }).await;
    world.answer(3).await;
    let rule = "[[host]]\nmatch = \"*.test\"\nrate = 30.0\ncapacity = 1\n";
    world.reread(4, Ok(config("rate = 2.0", rule))).await;
    assert!(
        world.answer(4).await.contains("[[host]] *.test added (2 hosts have new originals)"),
        "{:?}",
        world.answers
    );
    let at = world.pass(20 * SECOND).await;
    let overridden = world.sent("/p/", at + Duration::from_millis(1));
    assert!((9..=11).contains(&overridden.len()), "the override is in force: {}", overridden.len());
    assert_eq!(world.sent("/b/", at + Duration::from_millis(1)).len(), 0, "the pause stays");
    assert_eq!(world.totals.concurrency, 7, "what was typed stays until the file says something new");
    world.ask(act(5, Command::Auto, 0)).await;
    world.answer(5).await;
    let at = world.pass(5 * SECOND).await;
    let free = world.sent("/p/", at);
    assert!((145..=151).contains(&free.len()), "{} requests in 5 s at the rule's 30/s", free.len());
    drop(world.events().await);
}

#[tokio::test(start_paused = true)]
async fn case_100_row_35_a_wrong_file_changes_nothing_and_is_told_until_it_is_right() {
    let mut world = World::start(config("rate = 1.0", ""), urls("a.test", 5_000), true).await;
    world.pass(SECOND).await;
    world
        .reread(1, Config::parse("[politeness]\nrate = 9\n[ui]\nfsp = 2\nfps = \"\\u001b]0;x\\u0007\"\n", "c.toml"))
        .await;
    let banner = "c.toml:4:1: unknown key `fsp` in [ui]; known here: fps, glyphs, theme, mouse, override_ttl, \
                  remind_after, on_hangup (and 1 more error)";
    assert_eq!(world.answer(1).await, format!("not taken: {banner}"));
    assert_eq!(world.totals.config_trouble.as_ref().map(|one| one.as_str()), Some(banner));
    let at = world.pass(10 * SECOND).await;
    assert!(world.sent("/", at).len() <= 14, "the old rate");
    assert!(world.totals.config_trouble.is_some(), "as long as it is wrong");
    world.reread(2, Ok(config("rate = 1.0", ""))).await;
    assert_eq!(world.answer(2).await, "c.toml read again: nothing changed");
    assert_eq!(world.totals.config_trouble, None);
    world
        .reread(
            3,
            Ok(config("rate = 1.0", "[network]\ncookies = true\n[crawl]\nuser_agent = \"other/1\"\n[ui]\nfps = 9\n")),
        )
        .await;
    let both = "c.toml read again: in force: ui.fps 4 to 9; needs a restart: crawl.user_agent, network.cookies";
    assert_eq!(world.answer(3).await, both);
    world
        .reread(
            4,
            Ok(config("rate = 1.0", "[network]\ncookies = true\n[crawl]\nuser_agent = \"other/1\"\n[ui]\nfps = 9\n")),
        )
        .await;
    let again = "c.toml read again: nothing changed; needs a restart: crawl.user_agent, network.cookies";
    assert_eq!(world.answer(4).await, again, "what waits is named each time");
    assert_eq!(world.notices.len(), 4, "{:?}", world.notices);
    assert!(world.events().await.contains("not taken, the old configuration stays"));
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_cannot_be_taken_whole_is_not_taken_at_all() {
    let mut world = World::start(config("rate = 1.0", ""), urls("a.test", 5_000), false).await;
    world.pass(SECOND).await;
    let headers = "[[host]]\nmatch = \"a.test\"\nheaders = { \"X-Key\" = \"secret-value\" }\n[ui]\nfps = 9\n";
    world.reread(1, Ok(config("rate = 50.0", headers))).await;
    assert_eq!(world.answer(1).await, "not taken: no such headers");
    let at = world.pass(10 * SECOND).await;
    assert!(world.sent("/", at).len() <= 11, "the old rate");
    let events = world.events().await;
    assert!(!events.contains("secret-value") && !events.contains("\"what\":\"original\""), "{events}");
}

#[tokio::test(start_paused = true)]
async fn new_endpoints_take_what_is_queued_already() {
    let pages = (0..400).map(|k| format!("http://a.test/{}/{k}", if k % 2 == 0 { "api" } else { "page" }));
    let mut world = World::start(config("rate = 10.0\ncapacity = 1", ""), pages, true).await;
    world.pass(5 * SECOND).await;
    let rule = "[[host]]\nmatch = \"a.test\"\n[[host.endpoint]]\npath = \"/api/\"\nrate = 1.0\ncapacity = 1\n";
    world.reread(1, Ok(config("rate = 10.0\ncapacity = 1", rule))).await;
    world.answer(1).await;
    let at = world.pass(15 * SECOND).await;
    let api = world.sent("/api/", at);
    assert!((13..=16).contains(&api.len()), "{} requests of the endpoint in 15 s at 1/s", api.len());
    assert_envelope(&api, 1.0, 1.0);
    let pages = world.sent("/page/", at).len();
    assert!((120..=141).contains(&pages), "the others take what the host has left: {pages}");
    // And back: the endpoint goes, its queue is the host's again.
    world.reread(2, Ok(config("rate = 10.0\ncapacity = 1", ""))).await;
    world.answer(2).await;
    let at = world.pass(10 * SECOND).await;
    assert!((95..=101).contains(&world.sent("/", at).len()), "{:?}", world.sent("/", at).len());
    drop(world.events().await);
}

#[tokio::test(start_paused = true)]
async fn patterns_of_a_new_configuration_drop_what_is_queued_and_an_entry_s_limit_ends_it() {
    let hosts = urls("a.test", 100).chain((0..100).map(|k| format!("http://b.test/{k}.pdf")));
    let mut world = World::start(config("rate = 1.0\ncapacity = 1", ""), hosts, true).await;
    world.pass(10 * SECOND).await;
    let sent = world.sent("/", Duration::ZERO).len();
    let more = "[crawl]\nexclude = [\"[.]pdf$\"]\n[[host]]\nmatch = \"a.test\"\nmax_requests = 5\n";
    world.reread(1, Ok(config("rate = 1.0\ncapacity = 1", more))).await;
    world.answer(1).await;
    let end = tokio::time::timeout(600 * SECOND, async {
        while world.totals.urls_pending > 0 {
            world.look().await
        }
    });
    end.await.expect("nothing is left to do");
    // Both hosts had more than five by then.
    assert!(sent >= 18 && world.sent("/", Duration::ZERO).len() <= sent + 2, "{sent}");
    assert_eq!(world.totals.urls_done + world.totals.urls_skipped, 200);
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_is_walked_through_while_others_are_served() {
    let many = (0..60_000).map(|k| format!("http://{}.test/{}/{k}", k % 50, if k % 3 == 0 { "drop" } else { "p" }));
    let mut world = World::start(config("rate = 0.01\ncapacity = 1", ""), many, true).await;
    let dropped_before = world.sent("/drop", Duration::ZERO).len();
    world.ask(Request::Change { ticket: 1, change: Change::Exclude(String::from("/drop/")) }).await;
    world.ask(Request::Change { ticket: 2, change: Change::Note(String::from("in between")) }).await;
    world.ask(Request::Change { ticket: 3, change: Change::Add(String::from("http://0.test/drop/new")) }).await;
    let told = world.answer(1).await;
    let order: Vec<u64> = world.answers.iter().map(|answer| answer.ticket).collect();
    assert_eq!(order, [2, 3, 1], "a walk of many turns holds nobody up");
    assert!(world.answers[1].text.as_str().starts_with("not added: it is excluded"), "judged at once");
    let later = world.sent("/drop", Duration::ZERO).len() - dropped_before;
    assert_eq!(later, 0, "nothing of it went out after that");
    assert_eq!(
        told,
        format!("excluded by /drop/: {} queued URLs removed; what is in flight ends", 20_000 - dropped_before)
    );
    assert!(world.totals.urls_pending <= 40_000 && world.totals.urls_skipped as usize == 20_001 - dropped_before);
    drop(world.events().await);
}

/// One host with work; what it does is told by its grants.
fn controller(settings: &Settings) -> Controller {
    let mut controller = Controller::new(settings.clone(), Box::new(NoJitter));
    let host = controller.add_host(PolicyId(0));
    let queue = LaneQueue { ready: 1_000_000, ..LaneQueue::EMPTY };
    controller.set_queue(Mono::ZERO, host, Lane(0), queue);
    controller
}

proptest! {
    /// The same settings again, at any moment, change nothing: not one grant, not one decision.
    #[test]
    fn settings_that_are_taken_again_change_nothing(
        steps in proptest::collection::vec((1_u64..3_000, 0_u8..6, any::<bool>()), 1..200),
        rate in 0.1_f64..50.0,
        capacity in 1.0_f64..20.0,
        shape in 0_usize..3,
    ) {
        use crawldeck::control::Shape;
        let mut settings = Settings::default();
        settings.policies[0].original = crawldeck::control::Original { rate, capacity };
        settings.policies[0].shape = [Shape::TokenBucket, Shape::LeakyBucket, Shape::SlidingWindow][shape];
        let (mut one, mut other) = (controller(&settings), controller(&settings));
        let mut now = Mono::ZERO;
        for (wait, status, again) in steps {
            now = now.after(Duration::from_millis(wait));
            if again {
                let changed = other.reconfigure(now, settings.clone(), |_| Placement { policy: PolicyId(0), lanes: None });
                prop_assert_eq!(changed, 0);
            }
            let grants = (one.next(now), other.next(now));
            prop_assert_eq!(grants.0, grants.1);
            if let Some(grant) = grants.0 {
                let answer = Answer {
                    host: grant.host,
                    lane: grant.lane,
                    kind: RequestKind::Page,
                    sent: grant.at,
                    verdict: Verdict::Status([200, 200, 200, 404, 500, 429][usize::from(status)]),
                    retry_after: None,
                    latency: Duration::from_millis(5),
                    unprocessed: false,
                };
                one.answer(now, &answer);
                other.answer(now, &answer);
            }
            prop_assert_eq!(one.take_decisions(), other.take_decisions());
            prop_assert_eq!(one.next_wake(), other.next_wake());
        }
    }

    /// Whatever the originals become and whenever: the bucket never holds more than before or than it may, and what
    /// goes out keeps to the envelope of the highest values.
    #[test]
    fn other_originals_grant_no_tokens(
        changes in proptest::collection::vec((1_u64..5_000, 0.1_f64..20.0, 1.0_f64..10.0, 0_usize..3), 1..40),
    ) {
        use crawldeck::control::{Original, Shape};
        let mut settings = Settings { cold_start: false, ..Settings::default() };
        settings.policies[0].connections = 1_000;
        let mut controller = controller(&settings);
        let (mut now, mut spent, mut allowed) = (Mono::ZERO, 0.0, settings.policies[0].original.capacity);
        let mut rate = settings.policies[0].original.rate;
        for (wait, new_rate, new_capacity, shape) in changes {
            now = now.after(Duration::from_millis(wait));
            // Never above what has flowed in so far, from full at the start on.
            allowed += rate * Duration::from_millis(wait).as_secs_f64();
            while let Some(grant) = controller.next(now) {
                spent += 1.0;
                controller.answer(now, &Answer {
                    host: grant.host, lane: grant.lane, kind: RequestKind::Page, sent: now,
                    verdict: Verdict::Status(200), retry_after: None, latency: Duration::ZERO, unprocessed: false,
                });
            }
            prop_assert!(spent <= allowed + 1e-6, "{spent} of {allowed}");
            let before = controller.view(now, HostId(0)).expect("there").tokens;
            settings.policies[0].original = Original { rate: new_rate, capacity: new_capacity };
            settings.policies[0].shape = [Shape::TokenBucket, Shape::LeakyBucket, Shape::SlidingWindow][shape];
            controller.reconfigure(now, settings.clone(), |_| Placement { policy: PolicyId(0), lanes: None });
            let view = controller.view(now, HostId(0)).expect("there");
            prop_assert!(view.tokens <= before.max(0.0) + 1e-6, "{} after {before}", view.tokens);
            prop_assert_eq!(view.original, Original { rate: new_rate, capacity: new_capacity });
            prop_assert!(view.adaptive.rate <= new_rate && view.adaptive.capacity <= new_capacity);
            rate = new_rate;
        }
    }
}

/// Writes as an editor does that makes a new file and renames it over the old one.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("toml~new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(&new, path).expect("renamed");
}

/// A crawl of one host on a terminal, its configuration file and the text of it.
fn on_screen(size: (u16, u16)) -> (Scene, Pty, std::path::PathBuf, String) {
    let scene = Scene::new(fine(Duration::from_millis(5)), 20.0, 2.0, "");
    scene.list(&["a.test"], 50_000);
    let mut pty = Pty::start_as(scene.path(), &scene.run(), &[], crate::support::pty::Tie::Controlling, size);
    pty.see("hosts 1");
    let file = scene.path().join("scene.toml");
    let text = std::fs::read_to_string(&file).expect("written");
    (scene, pty, file, text)
}

#[test]
fn case_100_row_35_a_file_that_is_written_anew_is_taken_and_a_wrong_one_is_told_on_every_screen() {
    let (scene, mut pty, file, text) = on_screen((120, 30));
    // In place, then by rename, then in place again.
    std::fs::write(&file, text.replace("rate = 20.0", "rate = 21.0")).expect("written");
    pty.see("scene.toml read again: in force: politeness.rate 20 to 21 (1 host has a new original)");
    replace(&file, &text.replace("rate = 20.0", "rate = \"fast\""));
    pty.see("! scene.toml:2:8: ");
    let keys = [
        ("\r", "a.test"),
        ("2", "log ·"),
        ("3", "time × status"),
        ("1", "hosts 1"),
        ("?", "help: "),
        ("\x1b", "hosts 1"),
    ];
    for (key, seen) in keys {
        pty.keys(key);
        pty.see(seen);
        pty.see("! scene.toml:2:8: ");
    }
    pty.resize(40, 10);
    pty.see("need 60");
    pty.see("! scene.toml:2:8: ");
    pty.resize(60, 12);
    pty.see("hosts 1");
    pty.see("! scene.toml:2:8: ");
    pty.resize(120, 30);
    // Renamed files are still followed.
    replace(&file, &text.replace("rate = 20.0", "rate = 22.0"));
    pty.see("politeness.rate 21 to 22");
    pty.see_no("! scene.toml:");
    std::fs::write(&file, "").expect("written");
    pty.see("! scene.toml: is empty; :reload takes that for the defaults");
    std::fs::write(&file, &text).expect("written");
    pty.see("politeness.rate 22 to 20");
    pty.see_no("! scene.toml:");
    pty.keys(":reload\r");
    pty.see("scene.toml read again: nothing changed");
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("n");
    assert_eq!(pty.end(), 0);
    let reloads: Vec<_> = scene.events().into_iter().filter(|(what, _)| what.contains("Reload")).collect();
    assert_eq!(reloads.len(), 6, "{reloads:?}");
    assert_eq!(crate::support::pty::foreign(pty.bytes()), Vec::<String>::new());
}

#[test]
fn keys_theme_and_mouse_follow_the_file_and_a_removed_file_is_told() {
    let (_scene, mut pty, file, text) = on_screen((120, 30));
    replace(&file, &format!("{text}[ui]\nmouse = true\nglyphs = \"ascii\"\n[keys]\npause = \"x\"\n"));
    pty.see("3 changes in force: ui.glyphs auto to ascii, ui.mouse false to true, keys.pause");
    assert!(pty.bytes().windows(8).any(|bytes| bytes == b"\x1b[?1000h"), "the mouse is asked for");
    pty.keys("x");
    pty.see("PAUSED 1");
    pty.see("x pause");
    pty.keys("x");
    pty.see("PAUSED 0");
    replace(&file, &format!("{text}[keys]\npause = \"o\"\n"));
    pty.see("! scene.toml:");
    pty.see("key `o` is bound to both");
    std::fs::remove_file(&file).expect("removed");
    pty.see("! scene.toml: cannot be read: No such file");
    pty.keys(":reload\r");
    pty.see("not taken: scene.toml: cannot be read");
    // Whole at once: `:reload` may come as late as this, and takes an empty file for the defaults.
    replace(&file, &text);
    pty.see("read again: 3 changes in force");
    pty.see_no("! scene.toml:");
}

#[test]
fn without_a_screen_a_line_tells_of_it_and_a_hang_up_reads_nothing() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 20.0, 2.0, "");
    scene.list(&["a.test"], 50_000);
    let child = scene.headless();
    scene.arrivals("requests", 5);
    let file = scene.path().join("scene.toml");
    let text = std::fs::read_to_string(&file).expect("written");
    let told = |what: &str| until(what, || child.err().contains(what).then_some(()));
    child.signal(rustix::process::Signal::HUP);
    std::fs::write(&file, text.replace("rate = 20.0", "rate = 0.0")).expect("written");
    told("configuration: not taken: scene.toml:2:8: ");
    std::fs::write(&file, text.replace("rate = 20.0", "rate = 40.0")).expect("written");
    told("configuration: scene.toml read again: in force: politeness.rate 20 to 40");
    child.signal(rustix::process::Signal::TERM);
    let ended = child.end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let reloads = scene.events().into_iter().filter(|(what, _)| what.contains("Reload")).count();
    assert_eq!(reloads, 2, "a hang-up is no request to read it");
    let (events, _) = records::events(&scene.dir());
    assert!(events.iter().any(|event| event.why.as_str().contains("politeness.rate 20 to 40")));
}

#[test]
fn row_35_links_and_folders_that_are_swapped_are_followed() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 20.0, 2.0, "");
    scene.list(&["a.test"], 50_000);
    let text = std::fs::read_to_string(scene.path().join("scene.toml")).expect("written");
    let path = |name: &str| scene.path().join(name);
    let put = |folder: &str, rate: &str| {
        std::fs::create_dir_all(path(folder)).expect("made");
        std::fs::write(path(folder).join("c.toml"), text.replace("rate = 20.0", &format!("rate = {rate}")))
            .expect("written");
    };
    put("one", "20.0");
    let link = |to: &str| {
        std::os::unix::fs::symlink(path(to).join("c.toml"), path("new.link")).expect("linked");
        std::fs::rename(path("new.link"), path("scene.toml")).expect("renamed");
    };
    link("one");
    let child = scene.headless();
    scene.arrivals("requests", 2);
    let told = |what: &str| until(what, || child.err().contains(what).then_some(()));
    put("one", "21.0");
    told("politeness.rate 20 to 21");
    put("two", "22.0");
    link("two");
    told("politeness.rate 21 to 22");
    put("two", "23.0");
    told("politeness.rate 22 to 23");
    // The whole folder goes, and another takes its place.
    put("three", "24.0");
    std::fs::rename(path("two"), path("gone")).expect("renamed");
    std::fs::rename(path("three"), path("two")).expect("renamed");
    told("politeness.rate 23 to 24");
    put("two", "25.0");
    told("politeness.rate 24 to 25");
}

#[test]
fn a_configuration_that_cannot_be_watched_is_said_once() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 20.0, 2.0, "");
    scene.list(&["a.test"], 20);
    let text = std::fs::read(scene.path().join("scene.toml")).expect("written");
    let args = ["run", "--headless", "-c", "/dev/stdin", "-u", "urls.txt", "-d", "crawl"].map(String::from);
    let ended = Child::start_fed(scene.path(), &args, &[], &text).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let words = "stdin is not watched (it is no plain file); after a change of it say :reload";
    assert_eq!(ended.err.matches(words).count(), 1, "{}", ended.err);
    assert_eq!(scene.file("crawldeck.log").matches(words).count(), 1);
}

#[test]
fn flags_of_the_command_line_still_overrule_a_file_that_is_read_again() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 20.0, 2.0, "");
    scene.list(&["a.test"], 50_000);
    let mut args = scene.run();
    args.extend(["--headless".into(), "--rate".into(), "3".into()]);
    let child = Child::start(scene.path(), &args, &[]);
    scene.arrivals("requests", 2);
    let file = scene.path().join("scene.toml");
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::write(&file, text.replace("rate = 20.0", "rate = 50.0").replace("capacity = 2.0", "capacity = 9.0"))
        .expect("written");
    let what = "read again: in force: politeness.capacity 2 to 9";
    until(what, || child.err().contains(what).then_some(()));
    assert!(!child.err().contains("politeness.rate"), "{}", child.err());
}

#[test]
fn check_reads_the_theme_file_and_names_the_line_of_keys_that_collide() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("mine.toml", "dim = {}\nangry = { fg = \"pinkish\" }\n");
    write("c.toml", "[ui]\nfps = 2\ntheme = \"mine.toml\"\n[keys]\nhalt = \"H\"\npause = \"o\"\n");
    let ended = crawldeck(folder.path(), &["check", "c.toml"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("c.toml:3:9: `theme` in [ui]: mine.toml:2:1: `pinkish` is no colour"), "{}", ended.err);
    assert!(ended.err.contains("c.toml:6:9: `keys`: key `o` is bound to both"), "{}", ended.err);
    write("mine.toml", "angry = { fg = \"red\" }\n");
    write("c.toml", "[ui]\ntheme = \"mine.toml\"\nmouse = true\n");
    assert_eq!(crawldeck(folder.path(), &["check", "c.toml"]).code, Some(0));
    write("c.toml", "[ui]\ntheme = \"none.toml\"\n");
    assert!(crawldeck(folder.path(), &["check", "c.toml"]).err.contains("c.toml:2:9: "));
}
