//! Reads keys. A thread of its own, which can be left to itself when the terminal is gone.
//!
//! It waits with `poll(2)` on the terminal and on a wake pipe, and ends at the first sign of a hang-up.
//! Four times a second it looks whether the size changed: a cheap question, and no signal handler.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::key::{Decoder, Key};
use super::terminal;
use crate::fault;

/// What the terminal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A key.
    Key(Key),
    /// The size changed.
    Resized,
    /// The terminal is gone. Nothing comes after this.
    Gone,
    /// No key can be read any more, for a reason of our own. Nothing comes after this either.
    Failed,
}

/// How the owner steers the thread; every change is followed by a byte into the wake pipe.
#[derive(Debug, Default)]
pub struct Steering {
    /// Ends the thread.
    pub stop: AtomicBool,
    /// The terminal belongs to somebody else for now: nothing is read.
    pub paused: AtomicBool,
}

/// Between two looks at the size, nanoseconds.
const LOOK: i64 = 250_000_000;
/// A lone escape is the escape key after this, nanoseconds.
const SETTLE: i64 = 50_000_000;

/// What the loop needs to know about the terminal.
pub struct Source<'a> {
    /// Where keys come from.
    pub keys: BorrowedFd<'a>,
    /// The owner's wake pipe; closed = the owner is gone.
    pub wake: &'a PipeReader,
    /// How the owner steers.
    pub steering: &'a Steering,
    /// The terminal's size.
    pub size: fn() -> (u16, u16),
    /// Whether the terminal is ours to read from.
    pub is_foreground: fn() -> bool,
}

/// Reads until the terminal is gone, the owner says stop, or `sink` says that nobody listens (`false`).
pub fn read(source: &Source<'_>, mut sink: impl FnMut(Input) -> bool) {
    let mut decoder = Decoder::default();
    let mut size = (source.size)();
    while !source.steering.stop.load(Ordering::Acquire) {
        fault::pass("keys");
        let ours = !source.steering.paused.load(Ordering::Acquire) && (source.is_foreground)();
        // Without `IN` only a hang-up is reported: reading another job's terminal would stop us.
        let wanted = if ours { PollFlags::IN } else { PollFlags::empty() };
        let mut watched = [PollFd::new(source.wake, PollFlags::IN), PollFd::from_borrowed_fd(source.keys, wanted)];
        let nanos = if decoder.is_waiting() { SETTLE } else { LOOK };
        let quiet = match poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: nanos })) {
            Ok(ready) => ready == 0,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        let [wake, keys] = watched.map(|one| one.revents());
        if wake.contains(PollFlags::IN) {
            if rustix::io::read(source.wake.as_fd(), &mut [0_u8; 64]).unwrap_or(0) == 0 {
                return;
            }
        } else if !wake.is_empty() {
            return;
        }
        let mut found = Vec::new();
        if keys.contains(PollFlags::IN) {
            let mut bytes = [0_u8; 256];
            match rustix::io::read(source.keys, &mut bytes) {
                Ok(count) if count > 0 => found = decoder.push(bytes.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Ok(_) | Err(_) => {
                    sink(Input::Gone);
                    return;
                }
            }
        } else if !keys.is_empty() {
            sink(Input::Gone);
            return;
        } else if quiet {
            found.extend(decoder.settle());
        }
        let now = (source.size)();
        if now != size {
            size = now;
            if !sink(Input::Resized) {
                return;
            }
        }
        if !found.into_iter().all(|key| sink(Input::Key(key))) {
            return;
        }
    }
}

/// Starts the thread that reads this terminal's keys; it ends when `sink` takes no more.
pub fn spawn_keys(
    wake: PipeReader,
    steering: Arc<Steering>,
    mut sink: impl FnMut(Input) -> bool + Send + 'static,
) -> io::Result<()> {
    let read_keys = move || {
        let stdin = io::stdin();
        let source = Source {
            keys: stdin.as_fd(),
            wake: &wake,
            steering: &steering,
            size: terminal::terminal_size,
            is_foreground: terminal::is_foreground,
        };
        // A screen that takes no key would only be in the way.
        if catch_unwind(AssertUnwindSafe(|| read(&source, &mut sink))).is_err() {
            sink(Input::Failed);
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read_keys).map(|_| ())
}

/// A wake pipe: the reader is for the thread, the writer for its owner.
pub fn wake_pipe() -> io::Result<(PipeReader, io::PipeWriter)> {
    io::pipe()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::sync::atomic::AtomicU16;

    static WIDTH: AtomicU16 = AtomicU16::new(80);

    fn run(feed: impl FnOnce(io::PipeWriter, io::PipeWriter, &Steering) + Send) -> Vec<Input> {
        let (keys, key_writer) = io::pipe().expect("pipe");
        let (wake, wake_writer) = wake_pipe().expect("pipe");
        let steering = Steering::default();
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| feed(key_writer, wake_writer, &steering));
            let source = Source {
                keys: keys.as_fd(),
                wake: &wake,
                steering: &steering,
                size: || (WIDTH.load(Ordering::Relaxed), 24),
                is_foreground: || true,
            };
            read(&source, |input| {
                got.push(input);
                true
            });
        });
        got
    }

    #[test]
    fn case_108_a_hang_up_ends_reading_after_the_last_key() {
        let got = run(|mut keys, wake, _| {
            keys.write_all(b"jk").expect("written");
            drop(keys);
            // The owner lives on until the reader has ended by itself; its end closes the other side.
            std::mem::forget(wake);
        });
        assert_eq!(got, [Input::Key(Key::char('j')), Input::Key(Key::char('k')), Input::Gone]);
    }

    #[test]
    fn the_owner_can_end_it() {
        let got = run(|keys, mut wake, steering| {
            steering.stop.store(true, Ordering::Release);
            wake.write_all(b"x").expect("written");
            std::mem::forget(keys);
            std::mem::forget(wake);
        });
        assert_eq!(got, []);
    }

    #[test]
    fn an_owner_that_is_gone_ends_it_too() {
        let got = run(|keys, wake, _| {
            drop(wake);
            std::mem::forget(keys);
        });
        assert_eq!(got, []);
    }
}
