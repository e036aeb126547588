//! The owner's end of the dashboard: its start on threads of its own, and what it may be told.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{INBOX_MAX, Message, SECOND, Ui};
use crate::clock::Clock;
use crate::config::UiConfig;
use crate::text::Clean;
use crate::tui::input::{self, Input, Steering};
use crate::tui::keymap::{Keymap, KeymapError};
use crate::tui::model::Model;
use crate::tui::terminal::{self, Tty, UI_THREAD};
use crate::tui::theme::{Surroundings, Theme, ThemeError};
use crate::watch::{Request, Snapshot, UiSettings};

/// What the dashboard is started with.
#[derive(Debug)]
pub struct TuiOptions {
    /// The `[ui]` section.
    pub ui: UiConfig,
    /// The `[keys]` section.
    pub keys: BTreeMap<String, String>,
    /// The run's name, in the header.
    pub run_name: Clean,
    /// In a demo: one line about each simulated host.
    pub demo_legend: Vec<Clean>,
    /// Takes what is written to standard error while the screen is up; `None` = nothing keeps it.
    pub log_file: Option<PathBuf>,
}

/// Why the dashboard cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// Keys cannot be bound as configured.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Keys(Vec<KeymapError>),
    /// The theme cannot be used.
    #[error(transparent)]
    Theme(#[from] ThemeError),
    /// The terminal cannot be used.
    #[error("the terminal cannot be used; try --headless")]
    Terminal(#[from] io::Error),
}

/// The owner's end of a running dashboard. Dropping it stops the dashboard, within a second.
#[derive(Debug)]
pub struct TuiHandle {
    inbox: SyncSender<Message>,
    stopping: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
    stale: Arc<AtomicBool>,
    steering: Arc<Steering>,
    // Locked for one write at a time; the pipe is written to from the owner only.
    wake: Mutex<io::PipeWriter>,
    done: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the dashboard on threads of its own. The terminal must be available
/// ([`crate::tui::terminal_available`]).
pub fn spawn(
    options: TuiOptions,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
    requests: mpsc::Sender<Request>,
    clock: Arc<dyn Clock>,
) -> Result<TuiHandle, TuiError> {
    let keymap = Keymap::with_overrides(&options.keys).map_err(TuiError::Keys)?;
    let theme = Theme::load(&options.ui.theme, options.ui.glyphs, Surroundings::read())?;
    // The library's own reading of NO_COLOR would erase bold and reverse; our mono theme does it right.
    crossterm::style::force_color_output(true);
    terminal::install_panic_hook();
    let tty = Tty::open(options.log_file.clone())?;
    let model = Model::new(options.run_name, options.demo_legend, clock.now());
    let mut ui = Ui::new(tty, model, keymap, theme, options.ui.fps, requests.clone(), clock);
    let (inbox, messages) = sync_channel(INBOX_MAX);
    let (done_sender, done) = sync_channel(1);
    let stopping = Arc::new(AtomicBool::new(false));
    let (interrupted, stale) = (Arc::clone(&ui.interrupted), Arc::clone(&ui.stale));
    let steering = Arc::new(Steering::default());
    let (wake_reader, wake) = input::wake_pipe()?;
    (ui.glyphs, ui.log_file) = (options.ui.glyphs, options.log_file);
    ui.screen.listen_to_mouse(options.ui.mouse)?;
    ui.configured = Arc::new(UiSettings { ui: options.ui, keys: options.keys });
    ui.stopping = Arc::clone(&stopping);
    if ui.screen.is_foreground() {
        ui.screen.enter()?;
    } else {
        // Started in the background: touching the terminal would stop us, and the crawl with the screen.
        (ui.suspended, ui.resuming) = (true, true);
    }

    let thread = std::thread::Builder::new().name(UI_THREAD.to_owned()).spawn(move || {
        // A panic here is the screen's end, not the crawl's: the hook restores the terminal.
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || ui.run(&messages)));
        if ran.is_err() {
            let _ = requests.blocking_send(Request::TerminalGone);
        }
        let _ = done_sender.try_send(());
    })?;
    // These two end when the screen's thread has: their next message finds nobody.
    let keys = inbox.clone();
    input::spawn_keys(wake_reader, Arc::clone(&steering), move |input| keys.send(Message::Input(input)).is_ok())?;
    let snapshot_inbox = inbox.clone();
    std::thread::Builder::new().name("snapshots".to_owned()).spawn(move || {
        let mut snapshots = snapshots;
        while let Some(snapshot) = snapshots.blocking_recv() {
            if snapshot_inbox.send(Message::Snapshot(snapshot)).is_err() {
                return;
            }
        }
        let _ = snapshot_inbox.send(Message::SnapshotsEnded);
    })?;
    let (wake, done) = (Mutex::new(wake), Mutex::new(done));
    Ok(TuiHandle { inbox, stopping, interrupted, stale, steering, wake, done, thread: Some(thread) })
}

impl TuiHandle {
    /// Ends the dashboard and restores the terminal, waiting at most `deadline`: the thread may be stuck
    /// writing to a terminal that nobody reads. Gives whether it ended in time; if not, the terminal's
    /// modes are restored all the same, without writing to it.
    pub fn stop(mut self, deadline: Duration) -> bool {
        self.end(deadline)
    }

    /// Whether the screen's thread is still at work: it ends by itself when the terminal is gone.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether the run was stopped by a Ctrl-C, without drain and not through the dialog.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// The terminal is said to be gone: the screen ends without anybody waiting for it.
    pub fn hang_up(&self) {
        self.stopping.store(true, Ordering::Release);
        self.steering.stop.store(true, Ordering::Release);
        self.wake();
        // A full inbox wakes the screen as well; it looks at `stopping` after each message.
        let _ = self.inbox.try_send(Message::Stop);
    }

    /// The size of the terminal changed (SIGWINCH). Whoever looks at the size only now and then misses a
    /// change and back, after which the terminal may have cut what it shows: the next frame is a whole one.
    pub fn resized(&self) {
        self.stale.store(true, Ordering::Release);
        // A full inbox wakes the screen as well.
        let _ = self.inbox.try_send(Message::Input(Input::Resized));
    }

    /// A Ctrl-C that came as a signal: it counts as the key.
    pub fn interrupt(&self) {
        // A full inbox means that the screen is stuck; then no dialog could be seen anyway.
        let _ = self.inbox.try_send(Message::Interrupt);
    }

    /// Gives the terminal back before the process is stopped (SIGTSTP from outside), waiting at most
    /// `deadline`. Gives whether it was done.
    pub fn suspend(&self, deadline: Duration) -> bool {
        self.steering.paused.store(true, Ordering::Release);
        self.wake();
        let (sender, receiver) = sync_channel(1);
        self.inbox.try_send(Message::Suspend(sender)).is_ok() && receiver.recv_timeout(deadline).is_ok()
    }

    /// The process goes on (SIGCONT): the screen is entered again once the terminal is ours, and redrawn.
    pub fn resume(&self) {
        self.steering.paused.store(false, Ordering::Release);
        self.wake();
        let _ = self.inbox.try_send(Message::Resume);
    }

    /// Lets the key thread look at what changed.
    fn wake(&self) {
        let mut wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = wake.write_all(b"!");
    }

    /// See [`TuiHandle::stop`].
    fn end(&mut self, deadline: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        self.hang_up();
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(deadline);
        let ended = !matches!(done, Err(RecvTimeoutError::Timeout));
        if ended {
            // Its panics were caught and told inside.
            let _ = thread.join();
        }
        terminal::restore(false);
        ended
    }
}

impl Drop for TuiHandle {
    fn drop(&mut self) {
        self.end(SECOND);
    }
}
