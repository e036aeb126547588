//! One session: configuration, run folder, journal, fetcher, engine, screen and signals, wired together.
//!
//! The engine runs on the async runtime; the screen has a thread of its own that may block on a dead
//! terminal without anybody noticing. Signals become requests to the engine, as keys do.

use std::fmt::Display;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use rustix::termios::isatty;
use tokio::sync::mpsc;
use tokio::task::JoinError;

use crate::archive::{Archive, ArchiveOptions, Keep, Room};
use crate::clock::{Clock, SystemClock};
use crate::commands;
use crate::config::Config;
use crate::control::Mono;
use crate::control::prior::PriorKind;
use crate::crawl::engine::{Engine, EngineParts, Looks, RunEnd};
use crate::crawl::fetcher::{FetcherOptions, HttpFetcher};
use crate::crawl::input::{self, InputError, Source};
use crate::crawl::resume::resume;
use crate::headless;
use crate::journal::disk::disk_for;
use crate::journal::run_folder::RunFolder;
use crate::journal::{Journal, JournalOptions, file_system, render, summary};
use crate::logging::{self, LOG_VARIABLE};
use crate::memory::{Keeper, Memory};
use crate::reload::{self, ConfigFile};
use crate::signals::{self, SignalTargets, Stopped};
use crate::store::load::Loaded;
use crate::store::{Barrier, Store, StoreOptions};
use crate::text::{Clean, of_panic};
use crate::tui::{self, TuiHandle, TuiOptions};
use crate::watch::{Phase, REQUESTS_MAX, Request, Snapshot, Totals};

/// Descriptors kept for the journal, the log, the terminal and the runtime.
const RESERVED_DESCRIPTORS: u64 = 32;
/// The screen gets so long to give the terminal back; it may be stuck in a write to a dead one.
const SCREEN_WITHIN: Duration = Duration::from_secs(1);
/// The last words get so long to reach whoever may not read them.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);
/// Signals are looked at so often while the last words are waited for.
const SLICE: Duration = Duration::from_millis(100);
/// What anything writes to standard error while the screen is up.
const STRAY_OUTPUT: &str = "crawldeck.log";

/// Why a session could not begin, with its exit code.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The user has to change something.
    #[error("{0}")]
    Usage(String),
    /// The machine does not let us.
    #[error("{0}")]
    Failed(String),
}

impl SessionError {
    /// The exit code that goes with it.
    pub fn exit(&self) -> u8 {
        match self {
            Self::Usage(_) => commands::USAGE,
            Self::Failed(_) => commands::FAILED,
        }
    }
}

/// What a session is to do.
pub struct SessionOptions {
    /// The checked configuration.
    pub config: Config,
    /// The run folder.
    pub dir: PathBuf,
    /// The URLs.
    pub sources: Vec<Source>,
    /// No screen, whatever the terminal.
    pub headless: bool,
    /// Drain by itself after this.
    pub ends_after: Option<Duration>,
    /// Lines about the hosts, for the demo's screen.
    pub legend: Vec<Clean>,
    /// Where the configuration comes from, if it is a file.
    pub config_file: Option<ConfigFile>,
}

/// Runs a session to its end and prints the summary; the exit code.
pub async fn run(options: SessionOptions) -> Result<u8, SessionError> {
    let SessionOptions { mut config, dir, sources, headless, ends_after, legend, config_file } = options;
    let system = Arc::new(SystemClock::new());
    let clock: Arc<dyn Clock> = system.clone();
    let keep = Keep { warc: config.output.warc, bodies: config.output.bodies };
    let room = keep.any().then(|| Room::new(&dir, keep));
    // A body that is kept may need a file beside its socket.
    let sockets = raise_descriptors() / if keep.any() { 2 } else { 1 };
    let signals = signals::take().map_err(failed)?;
    // Everything that the user may have to change is found before anything is written.
    let idle_per_host = config.settings.policies.iter().map(|policy| policy.connections).max().unwrap_or(1);
    let fetch = HttpFetcher::with_options(
        &config.network,
        &config.crawl.user_agent,
        config.hosts.clone().into(),
        clock.clone(),
        // Where descriptors are few, none is kept for a connection that nobody uses.
        FetcherOptions {
            idle_per_host: if sockets < config.settings.concurrency { 0 } else { idle_per_host as usize },
            keep: room.clone(),
            ..FetcherOptions::default()
        },
    )
    .map_err(usage)?;
    let inputs = input::spawn(sources).map_err(|error| match error {
        InputError::Thread(_) => failed(error),
        _ => usage(error),
    })?;
    let folder = RunFolder::open(&dir).map_err(usage)?;
    let filter = std::env::var(LOG_VARIABLE).ok();
    let _log = logging::start(folder.path(), clock.clone(), filter.as_deref()).map_err(failed)?;
    let doubt = file_system::doubt(folder.path());
    if let Some(doubt) = &doubt {
        // Before there is a screen, so that it stands there still when the screen has gone.
        let _ = writeln!(std::io::stderr(), "crawldeck: warning: {doubt}");
    }
    let mut loaded = resume(folder.path(), &config).map_err(failed)?;
    if let Some(mark) = loaded.as_ref().and_then(|loaded| loaded.mark.as_ref()) {
        // The run's clock goes on: what was to last until a moment lasts until then.
        system.go_on_from(mark.anchor.resumed_at(&clock.anchor()));
    }
    let rows = loaded.as_ref().map_or(0, |loaded| loaded.rows);
    let options = JournalOptions { rows, ..JournalOptions::default() };
    let journal = Journal::open_with(folder.path(), clock.clone(), disk_for("journal"), options).map_err(failed)?;
    let archive = match room {
        Some(room) => Some(Archive::open(folder.path(), room, clock.clone(), about(&config)).map_err(failed)?),
        None => None,
    };
    let mut barriers: Vec<Box<dyn Barrier>> = vec![Box::new(journal.barrier())];
    if let Some(archive) = &archive {
        barriers.push(Box::new(archive.barrier()));
    }
    let mut nothing = Loaded::default();
    let found = loaded.as_mut().unwrap_or(&mut nothing);
    let store = Store::start(folder.path(), found, barriers, disk_for("store"), StoreOptions::default());
    let store = store.map_err(failed)?;

    if sockets < config.settings.concurrency {
        tracing::warn!(
            wanted = config.settings.concurrency,
            sockets,
            "concurrency is cut to the descriptors there are"
        );
        config.settings.concurrency = sockets;
    }
    let config = Arc::new(config);
    let (requests, requests_in) = mpsc::channel(REQUESTS_MAX);
    let (watcher, snapshots) = mpsc::channel::<Arc<Snapshot>>(1);
    let screen = !headless && tui::terminal_available();
    let frame = Duration::from_secs(1) / if screen { config.ui.fps.max(1) } else { 1 };
    let (ui, status) = if screen {
        (Some(Arc::new(spawn_screen(&config, &dir, legend, snapshots, &requests, &clock)?)), None)
    } else {
        let thread = std::thread::Builder::new().name("status".to_owned());
        let (told, said) = sync_channel::<()>(1);
        let report = move || {
            headless::report(snapshots, std::io::stderr());
            drop(told);
        };
        thread.spawn(report).map_err(|error| no_thread("that writes status lines", &error))?;
        (None, Some(said))
    };
    let stopped = Stopped::default();
    let targets = SignalTargets { requests: requests.clone(), ui: ui.clone(), stopped: stopped.clone() };
    let mut listening = signals.listen(targets);
    let timer = ends_after.map(|after| tokio::spawn(drain_after(after, requests.clone())));
    let reloading = config_file.map(|file| {
        let file = within_descriptors(file, sockets);
        let spawned = reload::spawn(file, Config::clone(&config), requests.clone(), clock.clone());
        spawned.map_err(|error| no_thread("that reads the configuration again", &error))
    });
    let (_reloader, ask) = reloading.transpose()?.unzip();
    drop(requests);

    let seed = fastrand::u64(..);
    let keeper = open_memory(&config, seed, clock.now()).await?;
    let fetch = Arc::new(fetch);
    let parts = EngineParts {
        config,
        fetch,
        clock,
        journal,
        store,
        loaded,
        archive,
        inputs,
        requests: requests_in,
        watcher: Some(watcher),
        looks: if screen { Looks::Closely } else { Looks::AtTotals },
        frame,
        seed,
    };
    // A task of its own: the workers that report to it run on the same threads, and need to wake no other.
    let mut engine = Engine::new(parts).warning(doubt);
    if let Some(ask) = ask {
        engine = engine.reloading(ask);
    }
    if let Some(keeper) = keeper {
        engine = engine.remembering(keeper);
    }
    // A panic of it is the end of the crawl, and not of what is left to do: the screen goes, and it is said.
    let end = match tokio::spawn(engine.run()).await.map_err(JoinError::try_into_panic) {
        Ok(end) => end,
        Err(Ok(panic)) => broken(&of_panic(panic.as_ref())),
        Err(Err(error)) => return Err(failed(error)),
    };

    if ui.is_some() {
        // It lets go of the screen, too. Without one, signals are heeded until the last word is said.
        listening.abort();
        let _ = (&mut listening).await;
    }
    if let Some(timer) = timer {
        timer.abort();
    }
    let mut by_interrupt = stopped.without_drain();
    if let Some(ui) = ui.and_then(Arc::into_inner) {
        by_interrupt |= ui.is_interrupted();
        ui.stop(SCREEN_WITHIN);
    }
    // With a screen nobody hears signals any more: nothing is waited for.
    let waits = Waits { for_reader: !screen && !by_interrupt && !isatty(std::io::stderr()), stopped };
    if let Some(status) = status {
        waits.until_dropped(&status);
    }
    let code = conclude(&folder, &end, by_interrupt, &waits);
    listening.abort();
    Ok(code)
}

/// The end of an engine that panicked. What it had handed over was written as it went down.
fn broken(panic: &Clean) -> RunEnd {
    let why = format!("the engine panicked: {panic}; what was written is whole: run it again on the same folder");
    RunEnd { totals: Totals { phase: Phase::Stopped, ..Totals::default() }, trouble: Some(Clean::new(why)) }
}

/// What hosts bore in earlier runs, if that is wanted. Read, and models trained, where that may block.
async fn open_memory(config: &Config, seed: u64, now: Mono) -> Result<Option<Keeper>, SessionError> {
    let (prior, file) = (config.settings.prior, config.memory.clone());
    if prior == PriorKind::Off {
        return Ok(None);
    }
    let open = move || Keeper::open(prior, file.map(Memory::at).or_else(Memory::of_user), seed, now);
    // What cannot be remembered is no reason not to crawl; a thread that cannot be had is a panic here.
    let without = |why: Clean| Keeper::without(prior, seed, now, &why);
    Ok(Some(match catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(open))) {
        Ok(opening) => opening.await.unwrap_or_else(|error| without(Clean::new(error.to_string()))),
        Err(panic) => without(of_panic(panic.as_ref())),
    }))
}

fn no_thread(whose: &str, error: &std::io::Error) -> SessionError {
    failed(format!("the thread {whose} cannot be started: {error}"))
}

/// Lets the process open as many files and sockets as the system allows it to; how many of them may be sockets.
fn raise_descriptors() -> u32 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // What cannot be raised stays: running out is then local trouble, and said so.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    u32::try_from(most.saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(u32::MAX).max(1)
}

/// A concurrency beyond the descriptors there are is cut whenever the file is read.
fn within_descriptors(file: ConfigFile, sockets: u32) -> ConfigFile {
    let check = file.check;
    let cut = move |text: &str| {
        let mut config = check(text)?;
        config.settings.concurrency = config.settings.concurrency.min(sockets);
        Ok(config)
    };
    ConfigFile { check: Box::new(cut), ..file }
}

/// What the archive tells of this crawl.
fn about(config: &Config) -> ArchiveOptions {
    let robots = if config.crawl.respect_robots { "obey" } else { "ignore" };
    let about = vec![("robots", robots.to_owned()), ("http-header-user-agent", config.crawl.user_agent.clone())];
    ArchiveOptions { about, ..ArchiveOptions::default() }
}

async fn drain_after(after: Duration, requests: mpsc::Sender<Request>) {
    tokio::time::sleep(after).await;
    let _ = requests.send(Request::Drain).await;
}

fn spawn_screen(
    config: &Config,
    dir: &Path,
    demo_legend: Vec<Clean>,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
    requests: &mpsc::Sender<Request>,
    clock: &Arc<dyn Clock>,
) -> Result<TuiHandle, SessionError> {
    let run_name = dir.file_name().map_or_else(|| Clean::new("crawl"), |name| Clean::new(name.to_string_lossy()));
    let options = TuiOptions {
        ui: config.ui.clone(),
        keys: config.keys.clone(),
        run_name,
        demo_legend,
        log_file: Some(dir.join(STRAY_OUTPUT)),
    };
    tui::spawn(options, snapshots, requests.clone(), clock.clone()).map_err(usage)
}

/// The summary, the folder and the review command on the normal screen; the exit code.
fn conclude(folder: &RunFolder, end: &RunEnd, by_interrupt: bool, waits: &Waits) -> u8 {
    let mut text = match summary::summarise(folder.path()) {
        Ok(summary) => render::summary_text(&summary),
        Err(error) => format!("crawldeck: the journal cannot be read back: {error}\n"),
    };
    if let Some(trouble) = &end.trouble {
        text.push_str(&format!("crawldeck: {trouble}\n"));
    }
    say_last(text, waits);
    match end.trouble {
        Some(_) => commands::FAILED,
        None if by_interrupt => commands::STOPPED,
        None => commands::DONE,
    }
}

/// How long the last words are waited for. A pipe or a file gets all of them, however slowly it is read; a
/// terminal that nobody reads, and any stream once a signal asked for the end, holds the exit up for a moment only.
struct Waits {
    for_reader: bool,
    stopped: Stopped,
}

impl Waits {
    /// Until the thread that writes has dropped its side.
    fn until_dropped(&self, said: &Receiver<()>) {
        // Nothing is ever sent: what ends the wait is that the other side is gone, or time. The slices are for a
        // signal that comes meanwhile: the first bounds the wait, a second ends it.
        let mut waited = Duration::ZERO;
        while let Err(RecvTimeoutError::Timeout) = said.recv_timeout(SLICE) {
            waited += SLICE;
            let patient = self.for_reader && !self.stopped.is_asked();
            if self.stopped.without_drain() || (!patient && waited >= LAST_WORDS_WITHIN) {
                return;
            }
        }
    }
}

/// Writes the last words, on a thread that may be left behind.
fn say_last(text: String, waits: &Waits) {
    let (told, said) = sync_channel::<()>(1);
    let thread = std::thread::Builder::new().name("summary".to_owned());
    let spawned = thread.spawn(move || {
        // A stream that is gone is no reason to fail.
        let _ = std::io::stderr().write_all(text.as_bytes());
        drop(told);
    });
    if spawned.is_ok() {
        waits.until_dropped(&said);
    }
}

fn usage(error: impl Display) -> SessionError {
    SessionError::Usage(error.to_string())
}

fn failed(error: impl Display) -> SessionError {
    SessionError::Failed(error.to_string())
}
