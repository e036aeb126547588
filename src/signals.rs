//! Signals become requests: TERM and INT drain, then stop; QUIT stops at once; HUP means hang-up and nothing else; TSTP and
//! CONT give the terminal back and take it again; WINCH draws a whole frame. PIPE is ignored since the start of every Rust
//! program: whoever writes is told. TTIN and TTOU are left to the system: taken over, a call that changes the terminal
//! from the background would be tried again for ever instead of waiting for the foreground.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::tui::TuiHandle;
use crate::watch::Request;

/// The screen gets so long to give the terminal back before the process stops.
const SUSPEND_WITHIN: Duration = Duration::from_millis(500);

/// How often a signal asked the run to end: once drains, twice stops.
#[derive(Clone, Debug, Default)]
pub struct Stopped(Arc<AtomicU32>);

impl Stopped {
    /// Whether it was asked at all.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether it was stopped without drain.
    pub fn without_drain(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

/// Who hears of signals.
pub struct SignalTargets {
    /// The engine.
    pub requests: mpsc::Sender<Request>,
    /// The screen, if there is one.
    pub ui: Option<Arc<TuiHandle>>,
    /// Counts the signals that end the run.
    pub stopped: Stopped,
}

/// Signals that no longer end the process by themselves, and wait to be heeded.
#[derive(Debug)]
pub struct Signals([Signal; 7]);

/// Takes the signals over. To be done before the screen is up: one that ended the process after that would leave
/// the terminal as it is.
pub fn take() -> io::Result<Signals> {
    // A file that may not grow (`ulimit -f`) is a full disk: whoever writes is told, and nobody is killed.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    let interrupt = signal(SignalKind::interrupt())?;
    let terminate = signal(SignalKind::terminate())?;
    let hangup = signal(SignalKind::hangup())?;
    let stop = signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let resume = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let resized = signal(SignalKind::window_change())?;
    let quit = signal(SignalKind::quit())?;
    Ok(Signals([interrupt, terminate, hangup, stop, resume, resized, quit]))
}

impl Signals {
    /// Turns them into requests until aborted, those included that came since they were taken.
    pub fn listen(self, targets: SignalTargets) -> JoinHandle<()> {
        tokio::spawn(heed(targets, self))
    }
}

async fn heed(targets: SignalTargets, Signals(signals): Signals) {
    let [mut interrupt, mut terminate, mut hangup, mut stop, mut resume, mut resized, mut quit] = signals;
    let SignalTargets { requests, ui, stopped } = targets;
    loop {
        tokio::select! {
            // A CONT that is still to be heeded came before the TSTP beside it; after it, it would take the
            // terminal again in the moment before the process stops.
            biased;
            Some(()) = resume.recv() => {
                if let Some(ui) = &ui {
                    ui.resume();
                }
            }
            Some(()) = interrupt.recv() => match &ui {
                // The same as the key: the dialog first.
                Some(ui) if ui.is_running() => ui.interrupt(),
                _ => end(&requests, &stopped).await,
            },
            Some(()) = terminate.recv() => end(&requests, &stopped).await,
            Some(()) = hangup.recv() => {
                // The screen may be alive (a signal from outside): it gives the terminal back and ends.
                if let Some(ui) = &ui {
                    ui.hang_up();
                }
                let _ = requests.send(Request::TerminalGone).await;
            }
            Some(()) = stop.recv() => {
                if let Some(ui) = &ui {
                    ui.suspend(SUSPEND_WITHIN);
                } else if rustix::process::getsid(None).is_ok_and(|session| session == rustix::process::getpgrp()) {
                    // No shell is there that could continue us: the kernel would drop the signal, too.
                    continue;
                }
                // Handled, the signal no longer stops by itself. An error would mean there is no such process.
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
            }
            Some(()) = resized.recv() => {
                if let Some(ui) = &ui {
                    ui.resized();
                }
            }
            Some(()) = quit.recv() => {
                // In a hurry, but not so much that the terminal and the journal should suffer.
                stopped.0.fetch_add(2, Ordering::Relaxed);
                let _ = requests.send(Request::Stop).await;
            }
            else => return,
        }
    }
}

/// The first drains, the second stops.
async fn end(requests: &mpsc::Sender<Request>, stopped: &Stopped) {
    let is_first = stopped.0.fetch_add(1, Ordering::Relaxed) == 0;
    let request = if is_first { Request::Drain } else { Request::Stop };
    let _ = requests.send(request).await;
}
