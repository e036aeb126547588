//! One session: configuration, run folder, journal, fetcher, engine, screen and signals, wired together.
//!
//! The engine runs on the async runtime; the screen has a thread of its own that may block on a dead
//! terminal without anybody noticing. Signals become requests to the engine, as keys do.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::crawl::engine::{Engine, EngineParts, RunEnd};
use crate::crawl::exchange::Fetch;
use crate::crawl::fetcher::HttpFetcher;
use crate::crawl::input::{self, Source};
use crate::headless;
use crate::journal::Journal;
use crate::journal::run_folder::RunFolder;
use crate::journal::summary;
use crate::signals::{self, SignalTargets, Stopped};
use crate::text::Clean;
use crate::tui::{self, TuiHandle, TuiOptions};
use crate::watch::{REQUESTS_MAX, Request, Snapshot};

/// Exit codes, as PRODUCT promises them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done, drained, or left through the dialog.
    Ok = 0,
    /// The crawl could not go on.
    Failed = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Stopped by a signal without drain.
    Signal = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

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
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Failed(_) => Exit::Failed,
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
}

/// Runs a session to its end and prints the summary.
pub async fn run(options: SessionOptions) -> Result<Exit, SessionError> {
    let SessionOptions { config, dir, sources, headless, ends_after, legend } = options;
    let clock: Arc<dyn Clock> = SystemClock::shared();
    let folder = RunFolder::open(&dir).map_err(|error| SessionError::Usage(error.to_string()))?;
    let inputs = input::spawn(sources).map_err(|error| SessionError::Usage(error.to_string()))?;
    let _log = crate::logging::init(folder.path()).map_err(|error| SessionError::Failed(error.to_string()))?;
    let fetch = HttpFetcher::new(&config.network, &config.crawl.user_agent, config.hosts.clone().into(), clock.clone())
        .map_err(|error| SessionError::Usage(error.to_string()))?;
    let journal =
        Journal::open(folder.path(), clock.clone()).map_err(|error| SessionError::Failed(error.to_string()))?;

    let config = Arc::new(config);
    let (requests, requests_in) = mpsc::channel(REQUESTS_MAX);
    let (watcher, snapshots) = mpsc::channel::<Arc<Snapshot>>(1);
    let screen = !headless && tui::terminal_available();
    let frame = Duration::from_secs(1) / if screen { config.ui.fps.max(1) } else { 1 };
    let ui = if screen { Some(spawn_screen(&config, &dir, legend, snapshots, &requests, &clock)?) } else {
        tokio::spawn(headless::report(snapshots));
        None
    };
    let stopped = Stopped::default();
    let targets = SignalTargets { requests: requests.clone(), ui: ui.clone(), stopped: stopped.clone() };
    let listening = signals::listen(targets).map_err(|error| SessionError::Failed(error.to_string()))?;
    let timer = ends_after.map(|after| {
        let requests = requests.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let _ = requests.send(Request::Drain).await;
        })
    });
    drop(requests);

    let parts = EngineParts {
        config,
        fetch: Arc::new(fetch) as Arc<dyn Fetch>,
        clock,
        journal,
        inputs,
        requests: requests_in,
        watcher: Some(watcher),
        frame,
        seed: fastrand::u64(..),
    };
    let end = Engine::new(parts).run().await;
    if let Some(ui) = &ui {
        ui.stop(Duration::from_secs(1));
    }
    listening.abort();
    if let Some(timer) = timer {
        timer.abort();
    }
    Ok(conclude(&folder, &end, stopped.without_drain()))
}

fn spawn_screen(
    config: &Config,
    dir: &std::path::Path,
    legend: Vec<Clean>,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
    requests: &mpsc::Sender<Request>,
    clock: &Arc<dyn Clock>,
) -> Result<TuiHandle, SessionError> {
    let run_name = dir.file_name().map_or_else(|| Clean::new("crawl"), |name| Clean::new(name.to_string_lossy()));
    let options = TuiOptions { ui: config.ui.clone(), keys: config.keys.clone(), run_name, legend };
    tui::spawn(options, snapshots, requests.clone(), clock.clone()).map_err(|error| SessionError::Usage(error.to_string()))
}

/// The summary, the folder and the review command on the normal screen.
fn conclude(folder: &RunFolder, end: &RunEnd, by_signal: bool) -> Exit {
    let mut stderr = std::io::stderr().lock();
    match summary::summarise(folder.path()) {
        Ok(summary) => {
            // A terminal that is gone is no reason to fail.
            let _ = writeln!(stderr, "{}", summary::summary_text(&summary));
        }
        Err(error) => {
            let _ = writeln!(stderr, "crawldeck: the journal cannot be read back: {error}");
        }
    }
    if let Some(trouble) = &end.trouble {
        let _ = writeln!(stderr, "crawldeck: {trouble}");
        return Exit::Failed;
    }
    if by_signal { Exit::Signal } else { Exit::Ok }
}
