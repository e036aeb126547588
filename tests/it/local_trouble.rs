//! Trouble of our own machine: descriptors, ports and threads that run out. It is no host's fault, granting rests, and it is said.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crawldeck::control::{Outcome, Value, What};
use crawldeck::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
use crawldeck::crawl::fetcher::HttpFetcher;
use crawldeck::text::Clean;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::answers::steady;
use crate::support::binary::{BINARY, Scene, fine, until};
use crate::support::engine::Crawl;
use crate::support::records;

/// URLs of a crawl.
const PAGES: usize = 300;

/// Fifty hosts, and so many requests at once.
fn many_hosts(at_once: u32) -> Scene {
    let hosts: Vec<String> = (0..50).map(|number| format!("h{number}.test")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let scene = Scene::of(
        &hosts,
        fine(Duration::from_millis(100)),
        (50.0, 4.0),
        &format!("[crawl]\nconcurrency = {at_once}\n"),
    );
    scene.list(&hosts, PAGES / hosts.len());
    scene
}

/// Nothing is held, slowed down or failed; how often it was said that granting rests.
#[track_caller]
fn no_host_pays(scene: &Scene, pages: usize, told: &str) -> usize {
    assert!(told.contains(&format!("finished: {pages} of {pages} done")), "{told}");
    let (events, damaged) = records::events(&scene.dir());
    assert_eq!(damaged, 0, "the journal is whole");
    let count = |what: What| events.iter().filter(|event| event.what.known() == Some(what)).count();
    assert_eq!((count(What::Hold), count(What::UrlFailed)), (0, 0), "{told}");
    let falls = events.iter().filter(|event| match (&event.before, &event.after) {
        (Value::Number(before), Value::Number(after)) => event.what.known() == Some(What::Rate) && after < before,
        _ => false,
    });
    assert_eq!(falls.count(), 0, "{told}");
    events.iter().filter(|event| event.why.as_str().starts_with("granting rests: our own machine refused: ")).count()
}

/// The alarm: a status line at once that has the reason.
#[track_caller]
fn assert_alarm(told: &str, state: &str, reason: &str) {
    let alarm = told.lines().any(|line| line.contains(state) && line.contains(reason));
    assert!(alarm, "{told}");
}

#[test]
fn case_78_with_few_descriptors_the_crawl_makes_do_with_them() {
    // Far more than there are descriptors.
    let scene = many_hosts(200);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", BINARY]);
    let output = command.args(scene.run()).arg("--headless").current_dir(scene.path()).output().expect("a shell");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(no_host_pays(&scene, PAGES, &told), 0, "none ran out: {told}");
    assert_eq!(scene.assert_journal_complete(), PAGES, "nothing was asked for twice");
}

/// Sets how many descriptors a process may have.
fn limit_descriptors(pid: Pid, most: u64) -> Rlimit {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(most), maximum }).expect("a process of our own")
}

#[test]
fn row_31_case_78_without_descriptors_granting_rests_and_no_host_pays_for_it() {
    const REASON: &str = "Too many open files";
    let scene = many_hosts(8);
    let child = scene.headless();
    scene.arrivals("requests", 10);
    // Most hosts were not asked yet, and for none is a descriptor left; nor for the files of the state.
    let before = limit_descriptors(child.pid, 4);
    until("the alarm", || child.err().contains(REASON).then_some(()));
    limit_descriptors(child.pid, before.current.expect("a limit"));
    let ended = child.end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_alarm(&ended.err, "ING: ", REASON);
    let rests = no_host_pays(&scene, PAGES, &ended.err);
    assert!(rests < 10, "told, and not once a request: {rests}, {}", ended.err);
}

/// The real fetcher, on a machine that has nothing left for its first requests.
struct Poor {
    fetcher: HttpFetcher,
    refusals: AtomicU32,
}

impl Fetch for Poor {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        let refused = self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match refused {
            Ok(_) => Box::pin(async {
                let ours = Reply::failed(Outcome::Local, "our own machine refused: no buffer space");
                Reply { on_wire: false, ..ours }
            }),
            Err(_) => self.fetcher.fetch(request),
        }
    }
}

#[tokio::test]
async fn row_31_what_our_machine_refuses_costs_no_url_an_attempt_and_is_shown() {
    let server = steady();
    let mut crawl = Crawl::new();
    crawl.config.crawl.retries = 1;
    crawl.config.settings.concurrency = 4;
    crawl.host("a.test", &server);
    crawl.host("b.test", &server);
    crawl.pages("a.test", 20);
    crawl.pages("b.test", 20);
    // The requests for robots.txt, and those of the next turn.
    let poor = Poor { fetcher: crawl.real_fetch(None), refusals: AtomicU32::new(6) };
    crawl.fetch_with(Arc::new(poor));
    let running = crawl.start();
    let shown = running.totals_are("the alarm", |totals| totals.resting_because.is_some()).await.resting_because;
    assert_eq!(shown.as_ref().map(Clean::as_str), Some("our own machine refused: no buffer space"));
    let ended = running.end().await;
    assert_eq!(ended.fates(), (40, 0, 0, 0));
    assert_eq!(ended.count(Outcome::Local), 0, "nothing was on the wire");
    for host in ["a.test", "b.test"] {
        assert_eq!((ended.cuts(host).len(), ended.whys(What::Hold, host).len()), (0, 0), "{host}");
    }
    let told = ended.log.iter().filter(|line| line.contains("granting rests: our own machine refused")).count();
    assert_eq!(told, 1, "one trouble, told once: {:?}", ended.log);
}

/// A network of its own with four ports, in which the rest of the command runs.
const FOUR_PORTS: &str =
    "ip link set lo up && echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"";
/// Tells this test that it is inside.
const INSIDE: &str = "CRAWLDECK_TEST_FOUR_PORTS";

/// A command in a network with four ports.
fn with_four_ports(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", FOUR_PORTS, "sh"]).arg(program);
    command
}

#[test]
fn row_31_without_free_ports_granting_rests_and_no_host_pays_for_it() {
    if std::env::var_os(INSIDE).is_some() {
        return crawl_with_four_ports();
    }
    // Not every machine lets a user have a network. What the errors mean is tested everywhere, and rests are, above.
    if !with_four_ports("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("no network of one's own on this machine: not tested");
        return;
    }
    let name = "local_trouble::row_31_without_free_ports_granting_rests_and_no_host_pays_for_it";
    let mut inside = with_four_ports(std::env::current_exe().expect("a test program"));
    let output = inside.args(["--exact", name]).env(INSIDE, "1").output().expect("it was there a moment ago");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

/// More connections to one address than there are ports.
fn crawl_with_four_ports() {
    let scene = Scene::of(&["a.test"], fine(Duration::from_millis(100)), (50.0, 20.0), "");
    let config = fs::read_to_string(scene.path().join("scene.toml")).expect("written");
    fs::write(scene.path().join("scene.toml"), config.replace("connections = 4", "connections = 8")).expect("written");
    scene.list(&["a.test"], 24);
    let ended = scene.headless().end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_alarm(&ended.err, " RESTING: ", "Cannot assign requested address");
    assert!(no_host_pays(&scene, 24, &ended.err) >= 1, "{}", ended.err);
    assert_eq!(scene.assert_journal_complete(), 24, "what was not sent has no row");
}

#[test]
fn row_31_with_few_threads_it_says_so_at_once_or_crawls() {
    // For root there is no limit: then somebody else runs it, who may see neither the binary nor the scene.
    let root = rustix::process::getuid().is_root();
    let scene = Scene::of(&["a.test"], fine(Duration::ZERO), (50.0, 20.0), "");
    scene.list(&["a.test"], 5);
    let binary = scene.path().join("crawldeck");
    fs::copy(BINARY, &binary).expect("copied");
    let open = |mode: u32| fs::set_permissions(scene.path(), fs::Permissions::from_mode(mode)).expect("ours");
    open(if root { 0o777 } else { 0o700 });
    let (mut refused, mut crawled) = (0, 0);
    for threads in [1, 2, 3, 5, 8, 9, 10, 11, 14, 60] {
        let mut command = Command::new(if root { "setpriv" } else { "prlimit" });
        if root {
            command.args(["--reuid=54321", "--regid=54321", "--clear-groups", "prlimit"]);
        }
        command.arg(format!("--nproc={threads}")).arg(&binary).args(["run", "-c", "scene.toml", "-u", "urls.txt"]);
        command.args(["--headless", "-d", &format!("crawl-{threads}")]);
        command.env("XDG_DATA_HOME", scene.path().join("data")).env("RUST_BACKTRACE", "0");
        let output = command.current_dir(scene.path()).output().expect("util-linux is there");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => crawled += 1,
            Some(1) => {
                let last = told.lines().last().unwrap_or_default();
                let in_words = last.starts_with("crawldeck: ") && (last.contains("thread") || last.contains("start"));
                assert!(in_words, "{threads} threads: {told}");
                refused += 1;
            }
            code => panic!("{threads} threads: exit code {code:?}: {told}"),
        }
    }
    assert!(refused >= 8 || !root, "{refused} were refused: the limit does nothing");
    assert!(crawled >= 1 || !root, "60 threads are enough for five pages");
}
