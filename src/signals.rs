//! Signals become requests: TERM and INT drain, then stop; HUP means hang-up and nothing else; TSTP and
//! CONT give the terminal back and take it again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::tui::TuiHandle;
use crate::watch::Request;

/// The screen gets so long to give the terminal back before the process stops.
const SUSPEND_WITHIN: Duration = Duration::from_millis(500);

/// Whether the run was stopped by a signal without drain.
#[derive(Clone, Debug, Default)]
pub struct Stopped(Arc<AtomicBool>);

impl Stopped {
    /// Whether it was.
    pub fn without_drain(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Who hears of signals.
pub struct SignalTargets {
    /// The engine.
    pub requests: mpsc::Sender<Request>,
    /// The screen, if there is one.
    pub ui: Option<Arc<TuiHandle>>,
    /// Set by a second signal.
    pub stopped: Stopped,
}

/// Listens until aborted.
pub fn listen(targets: SignalTargets) -> io::Result<JoinHandle<()>> {
    let interrupt = signal(SignalKind::interrupt())?;
    let terminate = signal(SignalKind::terminate())?;
    let hangup = signal(SignalKind::hangup())?;
    let stop = signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let resume = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    Ok(tokio::spawn(heed(targets, [interrupt, terminate, hangup, stop, resume])))
}

async fn heed(targets: SignalTargets, [mut interrupt, mut terminate, mut hangup, mut stop, mut resume]: [Signal; 5]) {
    let SignalTargets { requests, ui, stopped } = targets;
    let mut heard = 0;
    loop {
        tokio::select! {
            Some(()) = interrupt.recv() => match &ui {
                // The same as the key: the dialog first.
                Some(ui) if ui.is_running() => ui.interrupt(),
                _ => end(&requests, &stopped, &mut heard).await,
            },
            Some(()) = terminate.recv() => end(&requests, &stopped, &mut heard).await,
            Some(()) = hangup.recv() => {
                // The screen ends when the engine stops feeding it.
                let _ = requests.send(Request::TerminalGone).await;
            }
            Some(()) = stop.recv() => {
                if let Some(ui) = &ui {
                    ui.suspend(SUSPEND_WITHIN);
                }
                // Handled, the signal no longer stops by itself. An error would mean there is no such process.
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
            }
            Some(()) = resume.recv() => {
                if let Some(ui) = &ui {
                    ui.resume();
                }
            }
            else => return,
        }
    }
}

/// The first drains, the second stops.
async fn end(requests: &mpsc::Sender<Request>, stopped: &Stopped, heard: &mut u32) {
    *heard += 1;
    let request = if *heard == 1 {
        Request::Drain
    } else {
        stopped.0.store(true, Ordering::Relaxed);
        Request::Stop
    };
    let _ = requests.send(request).await;
}
