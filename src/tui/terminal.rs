//! Enters and leaves the terminal, and writes frames. The only file that writes to the terminal.
//!
//! What was changed is restored exactly once, whichever way the screen ends: by [`Screen::leave`], by
//! drop, or by the panic hook. Only a panic of the screen's own thread restores; any other thread's panic
//! is an event for the log and must not touch a live screen. While the screen is up, what libraries write
//! to standard error goes to the log file instead of into the picture.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use ratatui::backend::{Backend, ClearType, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::termios::{self, OptionalActions, Termios};

use crate::text::Clean;

/// The name of the thread that draws; the panic hook knows it by this.
pub const UI_THREAD: &str = "ui";

/// Alternate screen, no cursor, no bracketed paste, an empty page.
pub const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004l\x1b[0m\x1b[2J";
/// Everything off that may be on, the cursor shown, the old page back. Harmless when said twice.
pub const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[0m\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b[?1049l";
/// Clicks and the wheel, in the form without a limit of columns.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";
const FRAME_BEGIN: &[u8] = b"\x1b[?2026h";
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// No screen is larger than this; a terminal that says so is not believed.
const SIZE_MAX: (u16, u16) = (1000, 500);

/// Whether there is a terminal that can show the dashboard: both ends are one, and it is not dumb.
pub fn terminal_available() -> bool {
    can_show(std::env::var_os("TERM").as_deref(), termios::isatty(io::stdin()), termios::isatty(io::stdout()))
}

/// The same, given what `TERM` says and which ends are terminals.
fn can_show(term: Option<&std::ffi::OsStr>, keys: bool, screen: bool) -> bool {
    keys && screen && term.is_none_or(|term| term != "dumb")
}

/// Where frames go: the terminal, or memory in tests.
pub trait Device: Write {
    /// Takes the terminal over: keys come as they are pressed, without echo.
    fn take(&mut self) -> io::Result<()>;
    /// Gives it back as it was.
    fn give_back(&mut self);
    /// Columns and rows.
    fn size(&self) -> (u16, u16);
    /// Whether the terminal is ours to touch now, or another job's.
    fn is_foreground(&self) -> bool;
}

/// Whether this process may touch its terminal now: it is in the foreground, or there is no job control.
pub fn is_foreground() -> bool {
    match termios::tcgetpgrp(io::stdin()) {
        Ok(group) => group == rustix::process::getpgrp(),
        Err(_) => true,
    }
}

/// The terminal's size. One that does not know (0×0, as a fresh pseudo-terminal says) is taken for 80×24.
pub fn terminal_size() -> (u16, u16) {
    let told = termios::tcgetwinsize(io::stdout()).map_or((0, 0), |size| (size.ws_col, size.ws_row));
    believed(told)
}

/// The size to draw for, given what the terminal says.
fn believed(told: (u16, u16)) -> (u16, u16) {
    match told {
        (0, 0) => (80, 24),
        (columns, rows) => (columns.min(SIZE_MAX.0), rows.min(SIZE_MAX.1)),
    }
}

/// What has to be put back when the terminal is left.
#[derive(Debug, Default)]
struct Saved {
    /// The terminal's modes.
    modes: Option<Termios>,
    /// Standard error, while the log file stands in its place.
    stderr: Option<OwnedFd>,
    /// The alternate screen was entered.
    entered: bool,
}

/// What the panic hook and an abandoned screen restore. Global, because a panic hook has nothing else;
/// locked for moments only.
static SAVED: Mutex<Saved> = Mutex::new(Saved { modes: None, stderr: None, entered: false });

/// Puts back whatever is still changed. Does not write to the terminal unless `say` is true: a terminal
/// that is gone or stuck must not be written to. May be called any number of times, from any thread.
pub fn restore(say: bool) {
    let saved = std::mem::take(&mut *SAVED.lock().unwrap_or_else(PoisonError::into_inner));
    if saved.entered && say {
        // If the terminal cannot be written to, there is nothing left to restore on it.
        let _ = io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(|mut out| out.write_all(LEAVE));
    }
    if let Some(modes) = saved.modes {
        // `Now`, not `Drain`: draining waits for a reader that may not come.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
    if let Some(stderr) = saved.stderr {
        let _ = rustix::stdio::dup2_stderr(stderr);
    }
}

/// Whether the screen is up.
fn is_up() -> bool {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner).entered
}

/// Chains a panic hook, once: see the module's first words.
pub fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !is_up() {
                previous(info);
            } else if std::thread::current().name() == Some(UI_THREAD) {
                restore(true);
                previous(info);
            } else {
                let thread = std::thread::current().name().unwrap_or("?").to_owned();
                tracing::error!(thread, panic = %Clean::new(info.to_string()), "a thread panicked");
            }
        }));
    });
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0_u32, |sum, (at, byte)| sum | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= chunk.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    out
}

/// The process's own terminal.
#[derive(Debug)]
pub struct Tty {
    out: File,
    log_file: Option<PathBuf>,
}

impl Tty {
    /// The terminal on standard output; `log_file` takes what is written to standard error meanwhile.
    pub fn open(log_file: Option<PathBuf>) -> io::Result<Self> {
        // A handle of our own: a write that never ends must not hold the lock of `stdout`.
        Ok(Self { out: File::from(io::stdout().as_fd().try_clone_to_owned()?), log_file })
    }
}

impl Write for Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Device for Tty {
    fn take(&mut self) -> io::Result<()> {
        let modes = termios::tcgetattr(io::stdin())?;
        let mut raw = modes.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let mut saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
        saved.modes = Some(modes);
        saved.entered = true;
        if termios::isatty(io::stderr()) {
            let path = self.log_file.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
            // Without a place for it, standard error stays where it is: a torn picture beats no screen.
            let aside = io::stderr().as_fd().try_clone_to_owned();
            let file = File::options().create(true).append(true).open(path);
            if let (Ok(aside), Ok(file)) = (aside, file)
                && rustix::stdio::dup2_stderr(file).is_ok()
            {
                saved.stderr = Some(aside);
            }
        }
        Ok(())
    }

    fn give_back(&mut self) {
        // The words were written by the screen.
        restore(false);
    }

    fn size(&self) -> (u16, u16) {
        terminal_size()
    }

    fn is_foreground(&self) -> bool {
        is_foreground()
    }
}

/// The screen: what is on it, and the way to change it.
pub struct Screen<D: Device> {
    device: D,
    shown: Buffer,
    next: Buffer,
    up: Arc<AtomicBool>,
    from_scratch: bool,
    mouse: bool,
}

impl<D: Device> Screen<D> {
    /// A screen on `device`, not entered yet.
    pub fn new(device: D) -> Self {
        let empty = Buffer::empty(Rect::ZERO);
        Self {
            device,
            shown: empty.clone(),
            next: empty,
            up: Arc::new(AtomicBool::new(false)),
            from_scratch: true,
            mouse: false,
        }
    }

    /// Takes the terminal over.
    pub fn enter(&mut self) -> io::Result<()> {
        if !self.up.swap(true, Ordering::AcqRel) {
            self.device.take()?;
            self.device.write_all(ENTER)?;
            if self.mouse {
                self.device.write_all(MOUSE_ON)?;
            }
            self.device.flush()?;
        }
        self.from_scratch = true;
        Ok(())
    }

    /// Gives the terminal back as it was; the second time there is nothing to do.
    pub fn leave(&mut self) {
        if self.up.swap(false, Ordering::AcqRel) {
            // A terminal that cannot be written to needs no restoring.
            let _ = self.device.write_all(LEAVE).and_then(|()| self.device.flush());
            self.device.give_back();
        }
    }

    /// The terminal is gone: nothing is written to it any more.
    pub fn abandon(&mut self) {
        if self.up.swap(false, Ordering::AcqRel) {
            self.device.give_back();
        }
    }

    /// Whether it is entered.
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// Puts `text` into the terminal's clipboard (OSC 52), if the terminal does such a thing. It goes as
    /// base64, so no byte of it is read as anything else.
    pub fn copy(&mut self, text: &Clean) -> io::Result<()> {
        if !self.is_up() {
            return Ok(());
        }
        let sequence = format!("\x1b]52;c;{}\x07", base64(text.as_str().as_bytes()));
        self.device.write_all(sequence.as_bytes())?;
        self.device.flush()
    }

    /// Asks the terminal for reports of the mouse (clicks and the wheel), or for none.
    pub fn listen_to_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if !self.is_up() {
            return Ok(());
        }
        self.device.write_all(if on { MOUSE_ON } else { MOUSE_OFF })?;
        self.device.flush()
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.device.size()
    }

    /// Whether the terminal is ours to touch now.
    pub fn is_foreground(&self) -> bool {
        self.device.is_foreground()
    }

    /// The next frame repeats everything, whatever is thought to be shown.
    pub fn forget(&mut self) {
        self.from_scratch = true;
    }

    /// Draws a frame of `size`. Only what differs is written; gives whether anything was.
    pub fn draw(&mut self, size: (u16, u16), render: impl FnOnce(&mut Buffer)) -> io::Result<bool> {
        let area = Rect::new(0, 0, size.0, size.1);
        if area.is_empty() || !self.is_up() {
            return Ok(false);
        }
        if self.next.area == area {
            self.next.reset();
        } else {
            self.next = Buffer::empty(area);
        }
        render(&mut self.next);
        let all = self.from_scratch || self.shown.area != area;
        if all {
            self.shown = Buffer::empty(area);
        }
        let changes = self.shown.diff(&self.next);
        if changes.is_empty() && !all {
            return Ok(false);
        }
        // The whole frame in one piece, as one synchronized update.
        let mut frame = FRAME_BEGIN.to_vec();
        let mut backend = CrosstermBackend::new(&mut frame);
        if all {
            backend.clear_region(ClearType::All)?;
        }
        backend.draw(changes.into_iter())?;
        frame.extend_from_slice(FRAME_END);
        self.device.write_all(&frame)?;
        self.device.flush()?;
        self.from_scratch = false;
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(true)
    }
}

impl<D: Device> Drop for Screen<D> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
pub(super) mod tests;
