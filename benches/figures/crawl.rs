//! The `crawldeck` binary at work: headless, or with its dashboard on a terminal that somebody reads.

use std::io::{Read as _, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use tempfile::TempDir;

/// The binary of this build.
const BINARY: &str = env!("CARGO_BIN_EXE_crawldeck");

/// A folder with configuration and URL list.
pub(crate) struct Job {
    folder: TempDir,
    runs: u32,
}

impl Job {
    pub(crate) fn new(config: &str, urls: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.toml"), config).expect("written");
        std::fs::write(folder.path().join("urls.txt"), urls).expect("written");
        Self { folder, runs: 0 }
    }

    pub(crate) fn urls(&self) -> std::path::PathBuf {
        self.folder.path().join("urls.txt")
    }

    /// A run folder that was not used yet.
    fn arguments(&mut self) -> Vec<String> {
        self.runs += 1;
        let at = |name: &str| self.folder.path().join(name).to_string_lossy().into_owned();
        let words = ["run", "-c", &at("config.toml"), "-u", &at("urls.txt"), "-d", &at(&format!("run-{}", self.runs))];
        words.map(str::to_owned).to_vec()
    }

    /// Runs to the end without a dashboard.
    pub(crate) fn headless(&mut self) {
        let mut arguments = self.arguments();
        arguments.push("--headless".to_owned());
        Terminal::start(BINARY, &arguments, self.folder.path()).wait();
    }

    /// Runs to the end without a dashboard; the most memory that was resident, in KiB, as it was seen every 20 ms.
    pub(crate) fn headless_weighed(&mut self) -> u64 {
        let mut arguments = self.arguments();
        arguments.push("--headless".to_owned());
        let mut run = Terminal::start(BINARY, &arguments, self.folder.path());
        let status = format!("/proc/{}/status", run.child.process_id().expect("it runs"));
        let mut peak = 0;
        while run.child.try_wait().expect("ours").is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let most = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let most = most.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            peak = peak.max(most.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(20));
        }
        run.wait();
        peak
    }

    /// Starts it with the dashboard; the folder lives as long as the pair.
    pub(crate) fn dashboard_kept(mut self) -> (Self, Terminal) {
        let dashboard = self.dashboard();
        (self, dashboard)
    }

    /// Starts it with the dashboard.
    pub(crate) fn dashboard(&mut self) -> Terminal {
        let arguments = self.arguments();
        Terminal::start(BINARY, &arguments, self.folder.path())
    }
}

/// A program on a pty of 160x50. It is killed when dropped.
///
/// What has no dashboard gets one, too: a session of its own, and with it the same share of the processor.
pub(crate) struct Terminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    /// Both ends of ours: keys, and what keeps the terminal there.
    ours: Option<(Box<dyn Write + Send>, Box<dyn portable_pty::MasterPty + Send>)>,
    frames: Arc<Mutex<Vec<Instant>>>,
}

/// What a frame begins with (synchronised output).
const FRAME: &[u8] = b"\x1b[?2026h";

impl Terminal {
    pub(crate) fn start(program: &str, arguments: &[String], folder: &Path) -> Self {
        let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).expect("a pty");
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.cwd(folder);
        command.env("XDG_DATA_HOME", folder.join("data"));
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        let child = pty.slave.spawn_command(command).expect("the binary starts");
        drop(pty.slave);
        let mut screen = pty.master.try_clone_reader().expect("a reader");
        // Somebody reads; ends with the pty.
        let frames = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&frames);
        std::thread::spawn(move || {
            let (mut bytes, mut held) = ([0; 65_536], Vec::new());
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                held.extend_from_slice(&bytes[..count]);
                let begun = held.windows(FRAME.len()).filter(|window| *window == FRAME).count();
                seen.lock().expect("no panic").extend(std::iter::repeat_n(Instant::now(), begun));
                held.drain(..held.len().saturating_sub(FRAME.len() - 1));
                if Arc::strong_count(&seen) == 1 {
                    return;
                }
            }
        });
        let keys = pty.master.take_writer().expect("a writer");
        Self { child, ours: Some((keys, pty.master)), frames }
    }

    /// When its frames came, as its reader saw them; goes on after its end.
    pub(crate) fn frames(&self) -> Arc<Mutex<Vec<Instant>>> {
        Arc::clone(&self.frames)
    }

    pub(crate) fn press(&mut self, key: &str) {
        let (keys, _) = self.ours.as_mut().expect("the terminal is open");
        keys.write_all(key.as_bytes()).and_then(|()| keys.flush()).expect("the terminal is open");
    }

    /// The terminal vanishes; its reader goes with the next frame. Nothing of what [`Terminal::frames`] gave may be
    /// left.
    pub(crate) fn hang_up(&mut self) {
        self.ours = None;
        self.frames = Arc::default();
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) {
        let end = self.child.wait().expect("it ends");
        assert!(end.success(), "{end:?}");
    }

    /// Nanoseconds of processor time so far, all threads.
    pub(crate) fn cpu(&self) -> u64 {
        let pid = self.child.process_id().expect("it runs");
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let of = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).ok();
        let texts = tasks.flatten().filter_map(|task| of(task.path()));
        texts.filter_map(|text| text.split(' ').next().and_then(|word| word.parse::<u64>().ok())).sum()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `met`, or gives up.
pub(crate) fn wait_until(what: &str, most: Duration, mut met: impl FnMut() -> bool) {
    let began = Instant::now();
    while !met() {
        assert!(began.elapsed() < most, "never seen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
