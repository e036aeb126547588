//! The screen of `crawldeck review`: a run over time, live or finished, from its journal.
//!
//! One thread does it all: it takes keys, reads a piece of the journal, draws, and starts again. So nothing is
//! shared and nothing waits for anything but the terminal; a key is answered within one piece, some milliseconds.
//! It only reads; what it writes are exports, on a thread of their own, never over a file that exists.

mod compare;
mod export;
pub mod model;
pub mod update;
pub mod view;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::filter::Filter;
use super::input::{self, Input, Steering};
use super::keymap::{Keymap, KeymapError};
use super::terminal::{self, Device, Screen, Tty, UI_THREAD};
use super::theme::{Surroundings, Theme, ThemeError};
use crate::clock::Clock;
use crate::config::UiConfig;
use crate::control::Mono;
use crate::journal::reader::ReadError;
use crate::journal::render::summary_text;
use crate::journal::summary::Summary;
use crate::journal::timeline::entry::LogScan;
use crate::journal::timeline::{Follow, Takes, Timeline};
use crate::text::Clean;
use model::{LogView, Review};
use update::Effect;

pub use export::timeline_svg;

/// The screen gets so long to end after a signal.
const SCREEN_WITHIN: Duration = Duration::from_secs(1);
/// Messages that may wait; whoever sends more waits.
const INBOX_MAX: usize = 64;
/// Bytes of the journal between two looks at the keys.
const PIECE: u64 = 2 << 20;
/// Events of the log between two looks at the keys.
const PIECE_EVENTS: usize = 5_000;
/// Frames while nothing is pressed: a picture in the making changes so often.
const FRAME: Duration = Duration::from_millis(100);
/// So often the journal is asked whether it has grown.
const LOOK: Duration = Duration::from_secs(1);

/// What the screen is started with.
#[derive(Clone, Debug)]
pub struct ReviewOptions {
    /// Theme and glyphs.
    pub ui: UiConfig,
    /// The `[keys]` section.
    pub keys: BTreeMap<String, String>,
    /// The run's folder.
    pub dir: PathBuf,
    /// Another run's folder, to compare with.
    pub other: Option<PathBuf>,
}

/// Why the screen cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReviewScreenError {
    /// The theme cannot be used.
    #[error(transparent)]
    Theme(#[from] ThemeError),
    /// Keys cannot be bound as configured.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Keys(Vec<KeymapError>),
    /// The terminal cannot be used.
    #[error("the terminal cannot be used; try --summary")]
    Terminal(#[from] io::Error),
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The screen's thread has panicked; the terminal was restored.
    #[error("the screen has failed; try --summary")]
    Panicked,
}

/// What the thread is told.
enum Message {
    Input(Input),
    Exported(Result<PathBuf, Clean>),
    Quit,
}

/// How the screen was left.
#[derive(Debug)]
pub enum Left {
    /// By a key: what the run came to.
    WithSummary(Box<Summary>),
    /// By a key, before the journal was read to its end.
    Early,
    /// By a signal, or the terminal is gone: nobody is there to be told.
    Quietly,
}

impl Left {
    /// What stands on the terminal afterwards.
    pub fn words(&self) -> String {
        match self {
            Self::WithSummary(summary) => summary_text(summary),
            Self::Early => {
                String::from("The journal was not read to its end; `review --summary` does, and sums it up.\n")
            }
            Self::Quietly => String::new(),
        }
    }
}

/// Shows the screen until somebody leaves it. The terminal must be available.
pub fn run(options: ReviewOptions, clock: Arc<dyn Clock>) -> Result<Left, ReviewScreenError> {
    let theme = Theme::load(&options.ui.theme, options.ui.glyphs, Surroundings::read())?;
    let keymap = Keymap::with_overrides(&options.keys).map_err(ReviewScreenError::Keys)?;
    crossterm::style::force_color_output(true);
    terminal::install_panic_hook();
    let mut app = App::new(Tty::open(None)?, options, (keymap, theme), clock)?;
    let (inbox, messages) = sync_channel(INBOX_MAX);
    app.inbox = Some(inbox.clone());
    let steering = Arc::new(Steering::default());
    let (wake_reader, mut wake) = input::wake_pipe()?;
    app.screen.enter()?;
    let keys = inbox.clone();
    input::spawn_keys(wake_reader, Arc::clone(&steering), move |input| keys.send(Message::Input(input)).is_ok())?;
    let (alive, done) = sync_channel::<()>(1);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || end_by_signal(&inbox, &done))?;
    // The panic hook knows the screen's thread by its name.
    let screen = std::thread::Builder::new().name(UI_THREAD.to_owned()).spawn(move || app.run(&messages))?;
    let ended = screen.join();
    steering.stop.store(true, Ordering::Release);
    let _ = wake.write_all(b"!");
    terminal::restore(false);
    drop(alive);
    ended.map_err(|_| ReviewScreenError::Panicked)
}

/// A signal that would end the program ends the screen first, so that the terminal is restored.
///
/// The screen may be stuck in a write to a terminal that nobody reads: after [`SCREEN_WITHIN`] the program ends
/// without it.
fn end_by_signal(inbox: &SyncSender<Message>, done: &Receiver<()>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    runtime.block_on(async {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [Ok(mut first), Ok(mut second), Ok(mut third)] = kinds.map(signal) else { return };
        tokio::select! {
            _ = first.recv() => {}
            _ = second.recv() => {}
            _ = third.recv() => {}
        }
    });
    let _ = inbox.try_send(Message::Quit);
    if let Err(RecvTimeoutError::Timeout) = done.recv_timeout(SCREEN_WITHIN) {
        terminal::restore(false);
        std::process::exit(i32::from(crate::commands::STOPPED));
    }
}

/// The thread's state.
struct App<D: Device> {
    screen: Screen<D>,
    model: Review,
    options: ReviewOptions,
    keymap: Keymap,
    theme: Theme,
    clock: Arc<dyn Clock>,
    inbox: Option<SyncSender<Message>>,
    follow: Follow,
    /// The run with all its hosts, and how far it was read, while only some are counted.
    whole: Option<(Follow, Timeline)>,
    other: Option<Follow>,
    scan: Option<LogScan>,
    drawn_at: Option<Mono>,
    looked_at: Mono,
    dirty: bool,
    urgent: bool,
}

impl<D: Device> App<D> {
    fn new(
        device: D,
        options: ReviewOptions,
        (keymap, theme): (Keymap, Theme),
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ReviewScreenError> {
        let follow = Follow::open(&options.dir)?;
        let other = options.other.as_deref().map(Follow::open).transpose()?;
        let mut model = Review::new(&options.dir, options.other.as_deref());
        let looked_at = clock.now();
        let mut screen = Screen::new(device);
        screen.listen_to_mouse(options.ui.mouse)?;
        model.mouse = options.ui.mouse;
        let (scan, drawn_at, dirty, urgent) = (None, None, true, true);
        let inbox = None;
        Ok(Self {
            screen,
            model,
            options,
            keymap,
            theme,
            clock,
            inbox,
            follow,
            whole: None,
            other,
            scan,
            drawn_at,
            looked_at,
            dirty,
            urgent,
        })
    }

    /// Until somebody leaves, or the terminal is gone.
    fn run(mut self, messages: &Receiver<Message>) -> Left {
        loop {
            let mut message = messages.recv_timeout(self.wait());
            // What has piled up is one frame's worth.
            for _ in 0..=INBOX_MAX {
                match message {
                    Ok(Message::Input(Input::Gone)) => {
                        self.screen.abandon();
                        return Left::Quietly;
                    }
                    Ok(Message::Quit | Message::Input(Input::Failed)) | Err(RecvTimeoutError::Disconnected) => {
                        self.screen.leave();
                        return Left::Quietly;
                    }
                    Ok(message) => {
                        if self.take(message) {
                            self.screen.leave();
                            return self.left();
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                }
                message = messages.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            self.read();
            if self.draw_if_due().is_err() {
                self.screen.abandon();
                return Left::Quietly;
            }
        }
    }

    /// What there is to tell after a key has ended the screen. A filter chooses what is drawn, not what is summed up.
    fn left(self) -> Left {
        match self.model.progress.at_end {
            true => Left::WithSummary(Box::new(self.model.timeline.into_summary())),
            false => Left::Early,
        }
    }

    /// How long there is nothing to do.
    fn wait(&self) -> Duration {
        if !self.model.progress.at_end || self.scan.is_some() || self.urgent || self.drawn_at.is_none() {
            return Duration::ZERO;
        }
        let next = if self.dirty { self.drawn_at.unwrap_or_default().after(FRAME) } else { self.looked_at.after(LOOK) };
        next.since(self.clock.now()) + Duration::from_millis(1)
    }

    /// Takes a message; `true` = leave.
    fn take(&mut self, message: Message) -> bool {
        self.urgent = true;
        let now = self.clock.now();
        match message {
            Message::Input(Input::Key(key)) => {
                for effect in update::key(&mut self.model, key, &self.keymap, now) {
                    if self.act(effect) {
                        return true;
                    }
                }
            }
            Message::Exported(Ok(path)) => self.model.say(format!("written: {}", path.display()), now),
            Message::Exported(Err(why)) => self.model.complain(why.as_str(), now),
            Message::Input(Input::Resized | Input::Gone | Input::Failed) | Message::Quit => {}
        }
        false
    }

    /// Does what a key asked for; `true` = leave.
    fn act(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Leave => return true,
            Effect::Redraw => self.screen.forget(),
            Effect::Read(filter) => self.read_again(filter),
            Effect::Mouse(on) => {
                // A terminal that does not take it shows nothing else either.
                let _ = self.screen.listen_to_mouse(on);
            }
            Effect::Log(from) => match LogScan::open(&self.options.dir, from) {
                Ok(scan) => self.scan = Some(scan),
                Err(error) => self.model.trouble = Some(Clean::new(error.to_string())),
            },
            Effect::Export(what) => {
                let job = export::prepare(&self.model, what, &self.options.dir, &self.theme);
                let Some(inbox) = self.inbox.clone() else { return false };
                let spawned = std::thread::Builder::new().name("export".to_owned()).spawn(move || {
                    let _ = inbox.send(Message::Exported(job.write()));
                });
                if let Err(error) = spawned {
                    self.model.trouble = Some(Clean::new(error.to_string()));
                }
            }
        }
        false
    }

    /// Counts the hosts that pass `filter`, from the journal's beginning. What was read of all hosts is kept
    /// meanwhile: dropping the filter costs nothing.
    fn read_again(&mut self, filter: Filter) {
        let (follow, timeline) = match self.whole.take() {
            Some(whole) if filter.is_empty() => whole,
            kept => match Follow::open(&self.options.dir) {
                Ok(follow) => {
                    self.whole = kept;
                    let takes = Box::new(move |name: &str| filter.takes_name(name)) as Takes;
                    (follow, Timeline::new(&self.options.dir, Some(takes)))
                }
                Err(error) => {
                    (self.whole, self.model.trouble) = (kept, Some(Clean::new(error.to_string())));
                    return;
                }
            },
        };
        let follow = std::mem::replace(&mut self.follow, follow);
        let timeline = self.model.start_again(timeline);
        if !timeline.is_filtered() {
            self.whole = Some((follow, timeline));
        }
    }

    /// Reads a piece of the journal, if there is something to read.
    fn read(&mut self) {
        let now = self.clock.now();
        if let Some(scan) = &mut self.scan {
            if let Err(error) = scan.step(PIECE_EVENTS) {
                self.model.trouble = Some(Clean::new(error.to_string()));
                scan.complete = true;
            }
            if scan.complete {
                self.model.log = self.scan.take().map(LogView::of);
                self.model.note = None;
                self.urgent = true;
            }
        }
        if self.model.progress.at_end && now.since(self.looked_at) < LOOK {
            return;
        }
        self.looked_at = now;
        let before = self.model.progress;
        match self.follow.step(&mut self.model.timeline, PIECE) {
            Ok(mut progress) => {
                if let (Some(follow), Some(other)) = (&mut self.other, &mut self.model.other) {
                    match follow.step(&mut other.timeline, PIECE) {
                        Ok(more) => {
                            progress.read += more.read;
                            progress.total += more.total;
                            progress.at_end &= more.at_end;
                        }
                        Err(error) => self.model.trouble = Some(Clean::new(error.to_string())),
                    }
                }
                self.model.progress = progress;
            }
            Err(error) => {
                self.model.trouble = Some(Clean::new(error.to_string()));
                self.model.progress.at_end = true;
            }
        }
        self.dirty |= self.model.progress != before;
        self.urgent |= self.model.progress.at_end && !before.at_end;
    }

    /// Draws if it is time to.
    fn draw_if_due(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let since = self.drawn_at.map_or(Duration::MAX, |at| now.since(at));
        let due = self.urgent || self.dirty && since >= FRAME || since >= LOOK;
        if !due {
            return Ok(());
        }
        self.model.size = self.screen.size();
        self.model.tick(now);
        if self.urgent || self.dirty {
            self.model.refresh();
        }
        let (model, keymap, theme) = (&self.model, &self.keymap, &self.theme);
        self.screen.draw(model.size, |buffer| view::draw(model, keymap, theme, buffer))?;
        self.drawn_at = Some(now);
        (self.dirty, self.urgent) = (false, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
