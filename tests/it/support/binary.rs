//! The real binary as a child process, and a small world for it: a folder, a configuration, a server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crawldeck::sim::{SimBody, SimRequest, SimResponse};
use hyper::HeaderMap;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::lab::{Behaviour, LabServer};
use super::records;

/// The program under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_crawldeck");
/// The bound of every wait: reached only when a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that cannot be waited for.
const LOOK: Duration = Duration::from_millis(10);

/// Looks again and again until there is something; fails the test after a long time.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    // Nobody ever sends: what the kernel knows about a process sends no message that could be waited for.
    let (_nobody, nothing) = channel::<()>();
    for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        let _ = nothing.recv_timeout(LOOK);
    }
    panic!("never seen: {what}");
}

/// A server that answers everything with 200 after `latency`.
pub(crate) fn fine(latency: Duration) -> Behaviour {
    Box::new(move |_: Duration, _: &SimRequest<'_>, _: &HeaderMap| ok(latency))
}

/// A short page.
pub(crate) fn ok(latency: Duration) -> SimResponse {
    SimResponse { status: 200, body: SimBody::Text("a page".into()), latency, ..SimResponse::default() }
}

/// A folder with a configuration that leads `a.test` and `b.test` to a server, and what a run on it leaves.
pub(crate) struct Scene {
    pub(crate) server: LabServer,
    folder: TempDir,
}

impl Scene {
    /// Every host at `rate` and `capacity`, four connections each, no robots.txt. `more` is added to the
    /// configuration.
    pub(crate) fn new(behaviour: Behaviour, rate: f64, capacity: f64, more: &str) -> Self {
        Self::of(&["a.test", "b.test"], behaviour, (rate, capacity), more)
    }

    /// The same with other hosts.
    pub(crate) fn of(hosts: &[&str], behaviour: Behaviour, (rate, capacity): (f64, f64), more: &str) -> Self {
        let server = LabServer::start(behaviour);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = server.addr();
        let resolve: Vec<String> = hosts.iter().map(|host| format!("\"{host}\" = \"{at}\"")).collect();
        let resolve = resolve.join(", ");
        let config = format!(
            "[politeness]\nrate = {rate:?}\ncapacity = {capacity:?}\nconnections = 4\nrespect_robots = false\n\
             [controller]\ncold_start = false\n\
             [network]\nallow_private = true\nresolve = {{ {resolve} }}\n{more}"
        );
        fs::write(folder.path().join("scene.toml"), config).expect("written");
        Self { server, folder }
    }

    /// The folder of the test.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The run folder.
    pub(crate) fn dir(&self) -> PathBuf {
        self.path().join("crawl")
    }

    /// Writes a list of `count` URLs at each of `hosts`, one host after the other by turns.
    pub(crate) fn list(&self, hosts: &[&str], count: usize) -> &Self {
        let lines = (0..count).flat_map(|k| hosts.iter().map(move |host| format!("http://{host}/p/{k}\n")));
        fs::write(self.path().join("urls.txt"), lines.collect::<String>()).expect("written");
        self
    }

    /// `run` with the configuration and the list.
    pub(crate) fn run(&self) -> Vec<String> {
        ["run", "-c", "scene.toml", "-u", "urls.txt", "-d", "crawl"].map(String::from).to_vec()
    }

    /// The same without a screen.
    pub(crate) fn headless(&self) -> Child {
        let mut args = self.run();
        args.push("--headless".into());
        Child::start(self.path(), &args, &[])
    }

    /// Waits until the server has seen so many requests.
    pub(crate) fn arrivals(&self, what: &str, count: usize) {
        until(what, || (self.server.arrivals().len() >= count).then_some(()));
    }

    /// Requests that arrived for a host.
    pub(crate) fn at(&self, host: &str) -> usize {
        self.server.arrivals().iter().filter(|arrival| arrival.host == host).count()
    }

    /// The journal has a row for each request that the server saw, and no damage.
    #[track_caller]
    pub(crate) fn assert_journal_complete(&self) -> usize {
        let (rows, damaged) = records::requests(&self.dir());
        assert_eq!(damaged, 0, "damaged lines");
        let mut told: Vec<&str> = rows.iter().map(|row| row.url.as_str()).collect();
        let arrivals = self.server.arrivals();
        let mut seen: Vec<String> =
            arrivals.iter().map(|arrival| format!("http://{}{}", arrival.host, arrival.path)).collect();
        told.sort_unstable();
        seen.sort_unstable();
        assert_eq!(told.len(), seen.len(), "rows of the journal against requests at the server");
        assert!(told.iter().zip(&seen).all(|(told, seen)| told == seen), "other URLs than the server saw");
        rows.len()
    }

    /// What and why of each event of the journal.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let (events, damaged) = records::events(&self.dir());
        assert_eq!(damaged, 0, "damaged lines");
        events.iter().map(|event| (format!("{:?}", event.what), event.why.as_str().to_owned())).collect()
    }

    /// The text of a file in the run folder; empty if there is none.
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read(self.dir().join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Every file and folder in the run folder with its size, its number, and when it was last changed: what no look
    /// may change.
    pub(crate) fn marks(&self) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
        let mut marks = BTreeMap::new();
        let mut left = vec![self.dir()];
        while let Some(path) = left.pop() {
            let about = fs::symlink_metadata(&path).expect("there");
            if about.is_dir() {
                left.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("readable").path()));
            }
            // Changes of the content, and those of the file itself.
            let changed = (
                about.mtime_nsec() + about.mtime() * 1_000_000_000,
                about.ctime_nsec() + about.ctime() * 1_000_000_000,
            );
            marks.insert(path, (about.size(), about.ino(), changed.0, changed.1));
        }
        marks
    }

    /// Every file in the run folder with its bytes.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.dir()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push((path.to_string_lossy().into_owned(), fs::read(&path).expect("readable")));
                }
            }
        }
        assert!(!files.is_empty(), "an empty run folder");
        files
    }
}

/// A stream that a thread reads to its end.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut some) {
                into.lock().expect("no panic under the lock").extend_from_slice(&some[..count]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("no panic under the lock")).into_owned()
    }

    fn end(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic while reading");
        }
        self.text()
    }
}

/// What a process left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The binary without a terminal. Killed when dropped.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    exit: Receiver<ExitStatus>,
    /// How it ended, once that was asked for.
    status: Option<ExitStatus>,
    out: Stream,
    err: Stream,
}

impl Child {
    /// Starts it in `folder` with nothing on standard input.
    pub(crate) fn start(folder: &Path, args: &[String], env: &[(&str, &str)]) -> Self {
        Self::start_fed(folder, args, env, b"")
    }

    /// Starts it in `folder`, with `input` on standard input.
    pub(crate) fn start_fed(folder: &Path, args: &[String], env: &[(&str, &str)], input: &[u8]) -> Self {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(folder).env_remove("NO_COLOR").env_remove("CRAWLDECK_LOG");
        // What is learned never gets into the user's own memory.
        command.env("XDG_DATA_HOME", folder.join("data"));
        command.envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let pid = Pid::from_child(&child);
        let out = Stream::of(child.stdout.take().expect("piped"));
        let err = Stream::of(child.stderr.take().expect("piped"));
        // A child that reads nothing may be gone already.
        let _ = child.stdin.take().expect("piped").write_all(input);
        let (told, exit) = channel();
        std::thread::spawn(move || {
            let _ = told.send(child.wait().expect("a child of our own"));
        });
        Self { pid, exit, status: None, out, err }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it runs");
    }

    /// Standard error so far.
    pub(crate) fn err(&self) -> String {
        self.err.text()
    }

    /// Waits until it has ended by itself or the time is over; whether it has.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        self.status = self.status.or_else(|| self.exit.recv_timeout(time).ok());
        self.status.is_some()
    }

    /// Kills it, as a machine without memory would, and waits until it is gone. Whether it ended by that.
    pub(crate) fn kill(mut self) -> bool {
        if self.status.is_some() {
            return false;
        }
        let _ = kill_process(self.pid, Signal::KILL);
        self.status = self.exit.recv_timeout(PATIENCE).ok();
        self.status.is_some_and(|status| status.signal().is_some())
    }

    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let _ = self.ends_within(PATIENCE);
        let status = self.status;
        status.unwrap_or_else(|| panic!("it does not end; stderr: {}", self.err.text()))
    }

    /// Waits for its end, also by a signal: its exit code, and what it said.
    #[track_caller]
    pub(crate) fn end_anyhow(mut self) -> Ended {
        let status = self.ended();
        Ended { code: status.code(), out: self.out.end(), err: self.err.end() }
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let status = self.ended();
        assert_eq!(status.signal(), None, "killed by a signal");
        Ended { code: status.code(), out: self.out.end(), err: self.err.end() }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.exit.recv_timeout(PATIENCE);
        }
    }
}

/// Runs the binary to its end in `folder`.
#[track_caller]
pub(crate) fn crawldeck(folder: &Path, args: &[&str]) -> Ended {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Child::start(folder, &args, &[]).end()
}

/// Names of the threads of a process; none if it has ended.
pub(crate) fn threads(pid: Pid) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return Vec::new() };
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| name(task.ok()?)).map(|name| name.trim().to_owned()).collect()
}

/// The state letter of a process: `T` is stopped.
pub(crate) fn state(pid: Pid) -> char {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?')
}

/// The first character that a terminal might act on or that hides what is said, if there is one.
pub(crate) fn harmful(text: &str) -> Option<char> {
    text.chars().find(|c| {
        let hidden =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        hidden || c.is_control() && !matches!(c, '\n' | '\r')
    })
}
