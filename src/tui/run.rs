//! The screen's thread: joins keys, snapshots and the passing of time, and draws.
//!
//! Drawing may block for ever when nobody reads the terminal; it does so here, where that harms nothing
//! but the picture. Everything the thread is told comes through one bounded queue: a sender of keys or
//! snapshots waits while it is full, and the engine, which never waits for the screen, gathers changes
//! meanwhile. Requests go out without waiting; a full queue refuses the key and says so.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use tokio::sync::mpsc;

use super::input::Input;
use super::key::Key;
use super::keymap::Keymap;
use super::model::{Model, Wish};
use super::terminal::{Device, Screen};
use super::theme::{Surroundings, Theme};
use super::update;
use super::view::{self, Scene};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::Mono;
use crate::watch::{Request, Snapshot, UiSettings};

#[cfg(debug_assertions)]
mod fault;
mod handle;

pub use handle::{TuiError, TuiHandle, TuiOptions, spawn};

/// Messages that may wait for the screen; whoever sends more waits.
const INBOX_MAX: usize = 64;
/// Messages taken in before the next frame at most.
const BATCH_MAX: usize = 256;
/// Countdowns move this often.
const SECOND: Duration = Duration::from_secs(1);

/// What the screen's thread is told.
enum Message {
    Snapshot(Arc<Snapshot>),
    SnapshotsEnded,
    Input(Input),
    Interrupt,
    Suspend(SyncSender<()>),
    Resume,
    Stop,
}

/// What comes after a message.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    End,
}

/// The screen's thread, apart from where its messages come from.
struct Ui<D: Device> {
    screen: Screen<D>,
    model: Model,
    keymap: Keymap,
    theme: Theme,
    frame: Duration,
    requests: mpsc::Sender<Request>,
    /// Drain and stop that found the engine's queue full: sent as soon as there is room. At most 4.
    outbox: VecDeque<Request>,
    clock: Arc<dyn Clock>,
    glyphs: crate::config::Glyphs,
    /// What the configuration said last.
    configured: Arc<UiSettings>,
    /// In the run folder; screens are printed beside it.
    log_file: Option<PathBuf>,
    stopping: Arc<AtomicBool>,
    /// A Ctrl-C asked for the stop.
    interrupted: Arc<AtomicBool>,
    /// The terminal may show something else than was drawn.
    stale: Arc<AtomicBool>,
    /// The last frame; a little late counts as on time ([`Mono::beat`]).
    drawn_at: Option<Mono>,
    /// Something changed since the last frame.
    dirty: bool,
    /// A key was pressed: draw at once.
    urgent: bool,
    /// The terminal was given back for a while.
    suspended: bool,
    /// It may be taken again once it is ours.
    resuming: bool,
}

impl<D: Device> Ui<D> {
    fn new(
        device: D,
        model: Model,
        keymap: Keymap,
        theme: Theme,
        fps: u32,
        requests: mpsc::Sender<Request>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            screen: Screen::new(device),
            model,
            keymap,
            theme,
            frame: SECOND / fps.clamp(1, 60),
            requests,
            outbox: VecDeque::new(),
            clock,
            glyphs: crate::config::Glyphs::Auto,
            configured: Arc::new(UiSettings { ui: Config::default().ui, keys: BTreeMap::new() }),
            log_file: None,
            stopping: Arc::new(AtomicBool::new(false)),
            interrupted: Arc::new(AtomicBool::new(false)),
            stale: Arc::new(AtomicBool::new(false)),
            drawn_at: None,
            dirty: true,
            urgent: false,
            suspended: false,
            resuming: false,
        }
    }

    /// Until the end: stop, hang-up, or nobody left to tell anything.
    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let mut next = match messages.recv_timeout(self.wait()) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => Next::Go,
                Err(RecvTimeoutError::Disconnected) => Next::End,
            };
            // What has piled up is one frame's worth, not many.
            for _ in 0..BATCH_MAX {
                let Ok(message) = messages.try_recv() else { break };
                if next == Next::Go {
                    next = self.take(message);
                }
            }
            if next == Next::End || self.stopping.load(Ordering::Acquire) {
                self.screen.leave();
                return;
            }
            self.flush_outbox();
            self.return_to_foreground();
            if self.draw_if_due().is_err() {
                self.gone();
                return;
            }
        }
    }

    /// How long there is nothing to do.
    fn wait(&self) -> Duration {
        // First: started in the background nothing was drawn yet, and nothing will be.
        if self.suspended {
            return SECOND;
        }
        let Some(drawn_at) = self.drawn_at else { return Duration::ZERO };
        let pause = if self.dirty { self.frame } else { SECOND };
        // A millisecond more, so that the frame is due when the wait is over.
        drawn_at.after(pause).since(self.clock.now()) + Duration::from_millis(1)
    }

    /// Takes a message in.
    fn take(&mut self, message: Message) -> Next {
        let now = self.clock.now();
        match message {
            Message::Snapshot(snapshot) => {
                #[cfg(debug_assertions)]
                fault::strike(snapshot.totals.urls_done);
                self.model.apply(Arc::unwrap_or_clone(snapshot), now);
                self.grant_wishes(now);
                self.dirty = true;
            }
            Message::SnapshotsEnded => {
                self.model.ended = true;
                self.dirty = true;
            }
            Message::Input(Input::Key(key)) => {
                let requests = update::key(&mut self.model, key, &self.keymap, now);
                self.note_interrupt(key == Key::ctrl('c'), &requests);
                self.send(requests, now);
                self.grant_wishes(now);
                self.urgent = true;
            }
            Message::Input(Input::Resized) => self.urgent = true,
            Message::Input(Input::Gone) => {
                self.gone();
                return Next::End;
            }
            Message::Input(Input::Failed) => {
                self.screen.leave();
                self.tell_gone();
                return Next::End;
            }
            Message::Interrupt => {
                let requests = update::interrupt(&mut self.model, now);
                self.note_interrupt(true, &requests);
                self.send(requests, now);
                self.urgent = true;
            }
            Message::Suspend(told) => {
                self.screen.leave();
                (self.suspended, self.resuming) = (true, false);
                let _ = told.try_send(());
            }
            Message::Resume => self.resuming = self.suspended,
            Message::Stop => return Next::End,
        }
        Next::Go
    }

    /// A stop by Ctrl-C has an exit code of its own.
    fn note_interrupt(&self, is_interrupt: bool, requests: &[Request]) {
        if is_interrupt && requests.contains(&Request::Stop) {
            self.interrupted.store(true, Ordering::Release);
        }
    }

    /// The terminal is gone: nothing more is written to it, and the engine is told.
    fn gone(&mut self) {
        self.screen.abandon();
        self.tell_gone();
    }

    fn tell_gone(&self) {
        // This thread has nothing else to do, so it may wait for room in the engine's queue.
        let _ = self.requests.blocking_send(Request::TerminalGone);
    }

    /// Sends requests without waiting.
    fn send(&mut self, requests: Vec<Request>, now: Mono) {
        for request in requests {
            match self.requests.try_send(request) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(request @ (Request::Act { .. } | Request::Change { .. }))) => {
                    let _ = request;
                    self.model.complain("the engine is busy: this key was not taken, press it again", now);
                }
                Err(mpsc::error::TrySendError::Full(request)) => {
                    if self.outbox.len() < 4 {
                        self.outbox.push_back(request);
                    }
                }
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    self.model.ended = true;
                    self.model.complain("the engine has ended", now);
                }
            }
        }
    }

    /// Does what only this thread can do.
    fn grant_wishes(&mut self, now: Mono) {
        for wish in std::mem::take(&mut self.model.wishes) {
            match wish {
                Wish::Fps(fps) => {
                    self.frame = SECOND / fps.clamp(1, 60);
                    self.model.say(format!("at most {fps} frames a second"), now);
                }
                Wish::Theme(name) => match Theme::load(&name, self.glyphs, Surroundings::read()) {
                    Ok(theme) => {
                        self.theme = theme;
                        self.model.from_scratch = true;
                        self.model.say(theme_words(&name, Surroundings::read()), now);
                    }
                    Err(error) => self.model.complain(error.to_string(), now),
                },
                Wish::Copy(text) => {
                    if self.screen.copy(&text).is_err() {
                        self.model.complain("the terminal did not take it", now);
                    }
                }
                Wish::Mouse(on) => {
                    let _ = self.screen.listen_to_mouse(on);
                    self.model.say(if on { "the mouse is on" } else { "the mouse is off" }, now);
                }
                Wish::Print => self.print(now),
                Wish::Configure(settings) => self.configure(&settings, now),
            }
        }
    }

    /// Takes what the configuration says otherwise than before; what was typed since stays where it does not.
    fn configure(&mut self, new: &Arc<UiSettings>, now: Mono) {
        let old = std::mem::replace(&mut self.configured, Arc::clone(new));
        if old.ui.fps != new.ui.fps {
            self.frame = SECOND / new.ui.fps.clamp(1, 60);
        }
        if old.ui.glyphs != new.ui.glyphs || old.ui.theme != new.ui.theme {
            self.glyphs = new.ui.glyphs;
            match Theme::load(&new.ui.theme, self.glyphs, Surroundings::read()) {
                Ok(theme) => (self.theme, self.model.from_scratch) = (theme, true),
                // It was right when the configuration was checked.
                Err(error) => self.model.complain(error.to_string(), now),
            }
        }
        if old.ui.mouse != new.ui.mouse {
            let _ = self.screen.listen_to_mouse(new.ui.mouse);
        }
        if old.keys != new.keys {
            match Keymap::with_overrides(&new.keys) {
                Ok(keymap) => self.keymap = keymap,
                Err(errors) => self.model.complain(TuiError::Keys(errors).to_string(), now),
            }
        }
        self.urgent = true;
    }

    /// Writes the screen as text beside the log file.
    fn print(&mut self, now: Mono) {
        let Some(folder) = self.log_file.as_ref().and_then(|file| file.parent()) else {
            self.model.complain("there is no run folder to print into", now);
            return;
        };
        let time = self.model.wall(now).time_of_day().replace(':', "");
        let file = folder.join(format!("screen-{time}.txt"));
        let (width, height) = self.model.size;
        let scene = Scene { model: &self.model, keymap: &self.keymap, theme: &self.theme, now };
        match std::fs::write(&file, view::screenshot(&scene, width, height)) {
            Ok(()) => self.model.say(format!("written to {}", file.display()), now),
            Err(error) => self.model.complain(format!("cannot write {}: {error}", file.display()), now),
        }
    }

    /// Tries again what had no room.
    fn flush_outbox(&mut self) {
        while let Some(request) = self.outbox.pop_front() {
            if let Err(mpsc::error::TrySendError::Full(request)) = self.requests.try_send(request) {
                self.outbox.push_front(request);
                return;
            }
        }
    }

    /// After a suspend: takes the terminal again once it is ours.
    fn return_to_foreground(&mut self) {
        if self.suspended && self.resuming && self.screen.is_foreground() && self.screen.enter().is_ok() {
            (self.suspended, self.resuming) = (false, false);
            (self.dirty, self.urgent) = (true, true);
        }
    }

    /// Draws if it is time to.
    fn draw_if_due(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if self.stale.swap(false, Ordering::AcqRel) {
            (self.urgent, self.model.from_scratch) = (true, true);
        }
        let since = self.drawn_at.map(|drawn_at| now.since(drawn_at));
        let due = match since {
            None => true,
            Some(since) => self.urgent || self.dirty && since >= self.frame || since >= SECOND,
        };
        if !due || self.suspended {
            return Ok(());
        }
        update::tick(&mut self.model, now);
        self.model.size = self.screen.size();
        self.model.page = usize::from(self.model.layout().table);
        self.model.sort_if_due(now, &*self.clock);
        self.model.settle_cursor();
        if let Some(request) = update::focus(&mut self.model)
            && self.requests.try_send(request).is_err()
        {
            // Asked again with the next frame.
            self.model.focus_asked = None;
        }
        if let Some(at) = self.model.unfolded {
            let scene = Scene { model: &self.model, keymap: &self.keymap, theme: &self.theme, now };
            self.model.unfolded = Some(at.min(view::rows_to_scroll(&scene)));
        }
        if std::mem::take(&mut self.model.from_scratch) {
            self.screen.forget();
        }
        let scene = Scene { model: &self.model, keymap: &self.keymap, theme: &self.theme, now };
        self.screen.draw(self.model.size, |buffer| view::draw(&scene, buffer))?;
        self.drawn_at = Some(self.drawn_at.map_or(now, |last| last.beat(self.frame, now)));
        (self.dirty, self.urgent) = (false, false);
        Ok(())
    }
}

/// What is said of a theme that was asked for.
fn theme_words(name: &str, around: Surroundings) -> String {
    match around.no_color && name != "mono" {
        true => format!("theme {name} would have colours, and NO_COLOR is set: it stays mono"),
        false => format!("theme {name}"),
    }
}

#[cfg(test)]
mod tests;
