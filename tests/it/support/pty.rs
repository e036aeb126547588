//! The real binary on a real terminal: a pty whose other end the test reads, writes, resizes and drops.
#![allow(clippy::disallowed_methods, reason = "the bound of a wait, not a figure that is judged")]

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use portable_pty::{CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use super::binary::{BINARY, PATIENCE};

/// How the process stands to its terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tie {
    /// It controls the process; a hang-up sends SIGHUP.
    Controlling,
    /// The same, and SIGHUP was ignored when the program started, as under `nohup`.
    Ignoring,
    /// It is a terminal like any file: no signal tells of its end.
    Loose,
    /// It controls the process, and no file may grow beyond some kilobytes: a full disk.
    Cramped,
}

/// What the thread that reads the terminal does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    On,
    Off,
    Ended,
}

/// The terminal with the program in it. The program is killed when this is dropped.
pub(crate) struct Pty {
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    gate: Arc<(Mutex<Reading>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    chunks: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    bytes: Vec<u8>,
    exit: Receiver<ExitStatus>,
    gone: bool,
    /// What a shell started in a process group of its own: it would outlive the shell.
    also: Option<Pid>,
    pub(crate) pid: Pid,
    /// The modes before the program began.
    pub(crate) modes_before: String,
}

fn modes(master: &(dyn MasterPty + Send)) -> String {
    format!("{:?}", master.get_termios().expect("a terminal has modes"))
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).expect("a terminal has cells")
}

fn sized(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

impl Pty {
    /// 80×24, the terminal controls the program.
    pub(crate) fn start(folder: &Path, args: &[String]) -> Self {
        Self::start_as(folder, args, &[], Tie::Controlling, (80, 24))
    }

    /// An interactive shell in `folder`, with job control; the program's path is in `$CRAWLDECK`.
    pub(crate) fn shell(folder: &Path) -> Self {
        let env = [("PS1", "ready "), ("ENV", ""), ("CRAWLDECK", BINARY)];
        Self::launch(folder, "/bin/sh", &["-i".to_owned()], &env, true, (80, 24))
    }

    /// The program in `folder`, with `env` beside what every test has.
    pub(crate) fn start_as(folder: &Path, args: &[String], env: &[(&str, &str)], tie: Tie, size: (u16, u16)) -> Self {
        let before = match tie {
            Tie::Ignoring => "trap '' HUP",
            Tie::Cramped => "ulimit -f 16",
            Tie::Controlling | Tie::Loose => {
                return Self::launch(folder, BINARY, args, env, tie == Tie::Controlling, size);
            }
        };
        let shell = ["-c".to_owned(), format!("{before}; exec \"$0\" \"$@\""), BINARY.to_owned()];
        Self::launch(folder, "/bin/sh", &[&shell, args].concat(), env, true, size)
    }

    /// Any program in `folder`; `controls` says whether the terminal controls it.
    pub(crate) fn launch(
        folder: &Path,
        program: &str,
        args: &[String],
        env: &[(&str, &str)],
        controls: bool,
        size: (u16, u16),
    ) -> Self {
        let pair = native_pty_system().openpty(sized(size.0, size.1)).expect("a pty");
        let modes_before = modes(&*pair.master);
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.cwd(folder);
        command.set_controlling_tty(controls);
        for name in ["NO_COLOR", "CRAWLDECK_LOG", "LC_ALL", "LC_CTYPE", "COLORTERM"] {
            command.env_remove(name);
        }
        command.env("XDG_DATA_HOME", folder.join("data"));
        for (name, value) in [("TERM", "xterm-256color"), ("LANG", "C.UTF-8")].iter().chain(env) {
            command.env(name, value);
        }
        let mut child = pair.slave.spawn_command(command).expect("the binary starts");
        let pid = child.process_id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("a number");
        let (told, exit) = channel();
        std::thread::spawn(move || {
            let _ = told.send(child.wait().expect("a child of our own"));
        });
        let gate = Arc::new((Mutex::new(Reading::On), Condvar::new()));
        let from = pair.master.try_clone_reader().expect("a reader");
        let (into, chunks) = channel();
        let watched = Arc::clone(&gate);
        let reader = std::thread::spawn(move || read(from, &watched, |chunk| into.send(chunk).is_ok()));
        let writer = pair.master.take_writer().expect("a writer");
        Self {
            master: Some(pair.master),
            writer: Some(writer),
            gate,
            reader: Some(reader),
            chunks,
            parser: vt100::Parser::new(cells(size.1), cells(size.0), 0),
            bytes: Vec::new(),
            exit,
            gone: false,
            also: None,
            pid,
            modes_before,
        }
    }

    /// Kills `pid`, too, should the test fail.
    pub(crate) fn kill_at_the_end(&mut self, pid: Pid) {
        self.also = Some(pid);
    }

    /// Types.
    pub(crate) fn keys(&mut self, keys: &str) {
        let writer = self.writer.as_mut().expect("the terminal is there");
        writer.write_all(keys.as_bytes()).and_then(|()| writer.flush()).expect("the terminal takes keys");
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it runs");
    }

    /// The modes of the terminal, all of them, to be compared.
    pub(crate) fn modes(&self) -> String {
        modes(self.master.as_deref().expect("the terminal is there"))
    }

    /// Changes the size; the program sees it as any other.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.parser.set_size(cells(rows), cells(columns));
        self.master.as_ref().expect("the terminal is there").resize(sized(columns, rows)).expect("resized");
    }

    /// Whether the other end is read: as long as it is not, whoever writes to the terminal will wait.
    /// Some kilobytes may still be taken after it was switched off.
    pub(crate) fn set_reading(&self, on: bool) {
        *self.gate.0.lock().expect("no panic under the lock") = if on { Reading::On } else { Reading::Off };
        self.gate.1.notify_all();
    }

    /// The terminal vanishes, as when an SSH connection ends.
    pub(crate) fn hang_up(&mut self) {
        *self.gate.0.lock().expect("no panic under the lock") = Reading::Ended;
        self.gate.1.notify_all();
        // The reader waits for output: a frame from scratch is some.
        self.keys("\x0c");
        self.reader.take().expect("read until now").join().expect("no panic while reading");
        self.writer = None;
        self.master = None;
    }

    /// The screen now.
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// What is on the screen, a line a row.
    pub(crate) fn text(&self) -> String {
        self.screen().contents()
    }

    /// All that was written to the terminal so far, as far as it was waited for.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes output in until the screen is as wanted.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let begun = Instant::now();
        while !wanted(self.parser.screen()) {
            match self.chunks.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Ok(chunk) => self.take(&chunk),
                Err(RecvTimeoutError::Timeout) => panic!("never seen: {what}; the screen:\n{}", self.text()),
                Err(RecvTimeoutError::Disconnected) => panic!("ended before: {what}; the screen:\n{}", self.text()),
            }
        }
    }

    /// Takes output in until the text of the screen is as wanted.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        self.wait(what, |screen| wanted(&screen.contents()));
    }

    /// Waits until `text` is on the screen.
    #[track_caller]
    pub(crate) fn see(&mut self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    /// Waits until `text` is not on the screen.
    #[track_caller]
    pub(crate) fn see_no(&mut self, text: &str) {
        self.wait(&format!("a screen without {text}"), |screen| !screen.contents().contains(text));
    }

    fn take(&mut self, chunk: &[u8]) {
        self.parser.process(chunk);
        self.bytes.extend_from_slice(chunk);
    }

    /// Waits for the program's end and the last of its output; the exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> u32 {
        let status = self.ended();
        assert_eq!(status.signal(), None, "killed by a signal");
        status.exit_code()
    }

    /// The same, the exit status; a signal may be the end.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let status = self.exit_status();
        if self.reader.is_some() {
            // Nobody has the terminal open any more, so the reader comes to an end.
            while let Ok(chunk) = self.chunks.recv_timeout(PATIENCE) {
                self.take(&chunk);
            }
        }
        status
    }

    /// Waits for the program's end, whatever is still to be read; the exit status.
    #[track_caller]
    pub(crate) fn exit_status(&mut self) -> ExitStatus {
        let Ok(status) = self.exit.recv_timeout(PATIENCE) else {
            panic!("it does not end; threads {:?}; the screen:\n{}", super::binary::threads(self.pid), self.text());
        };
        self.gone = true;
        status
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if !self.gone {
            for pid in self.also.into_iter().chain([self.pid]) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.exit.recv_timeout(PATIENCE);
        }
        self.set_reading(true);
    }
}

fn read(mut from: Box<dyn Read + Send>, gate: &(Mutex<Reading>, Condvar), sink: impl Fn(Vec<u8>) -> bool) {
    let mut some = [0; 4096];
    loop {
        {
            let reading = gate.0.lock().expect("no panic under the lock");
            let reading = gate.1.wait_while(reading, |reading| *reading == Reading::Off).expect("no panic");
            if *reading == Reading::Ended {
                return;
            }
        }
        match from.read(&mut some) {
            Ok(count @ 1..) if sink(some[..count].to_vec()) => {}
            _ => return,
        }
    }
}

/// What stands on a terminal's line beside text and the sequences that we write ourselves.
///
/// Ours are cursor movement, erasing, styles, and the modes that are entered and left.
pub(crate) fn foreign(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut rest = text.as_ref();
    if text.contains(char::REPLACEMENT_CHARACTER) {
        found.push("no UTF-8".to_owned());
    }
    while let Some(c) = rest.chars().next() {
        let length = if c == '\x1b' { own_sequence(rest) } else { Some(c.len_utf8()) };
        let harmless = !c.is_control() || matches!(c, '\r' | '\n' | '\x1b');
        match length {
            Some(length) if harmless && super::binary::harmful(&c.to_string()).is_none_or(|c| c == '\x1b') => {
                rest = rest.get(length..).unwrap_or_default();
            }
            _ => {
                found.push(rest.chars().take(20).collect::<String>().escape_debug().to_string());
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
            }
        }
    }
    found
}

/// The length of the sequence that `text` begins with, if it is one of ours.
fn own_sequence(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\x1b[")?;
    let end = inside.find(|c: char| c.is_ascii_alphabetic())?;
    let (parameters, last) = (&inside[..end], inside[end..].chars().next()?);
    let plain = parameters.chars().all(|c| c.is_ascii_digit() || c == ';');
    let ours = match (parameters.strip_prefix('?'), last) {
        (Some(mode), 'h') => matches!(mode, "25" | "1049" | "2026"),
        (Some(mode), 'l') => {
            matches!(mode, "25" | "1000" | "1002" | "1003" | "1004" | "1006" | "1049" | "2004" | "2026")
        }
        (None, 'H' | 'm' | 'J') => plain,
        _ => false,
    };
    ours.then_some("\x1b[".len() + end + 1)
}

/// What was written after the screen was left for the last time; `None` if it never was.
pub(crate) fn after_screen(bytes: &[u8]) -> Option<String> {
    const LEFT: &[u8] = b"\x1b[?1049l";
    let at = bytes.windows(LEFT.len()).rposition(|window| window == LEFT)?;
    Some(String::from_utf8_lossy(&bytes[at + LEFT.len()..]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_bytes_are_found_and_ours_are_not() {
        let ours =
            "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[3;4H\x1b[0;38;5;9mtext ▕█ ‖\x1b[?2026l\x1b[?25h\x1b[?1049l\r\nsummary\r\n";
        assert_eq!(foreign(ours.as_bytes()), Vec::<String>::new());
        for theirs in [
            "\x1b]0;title\x07",
            "\x1b]52;c;eA==\x1b\\",
            "\u{9b}31m",
            "\x1bP1$r\x1b\\",
            "\x1b[6n",
            "\x1b[?1003h",
            "\x1bc",
            "a\tb",
            "\x07",
            "\u{202e}",
            "\u{200b}",
            "\x1b[3",
        ] {
            let line = format!("{ours}{theirs}{ours}");
            assert_ne!(foreign(line.as_bytes()), Vec::<String>::new(), "{}", theirs.escape_debug());
        }
        assert_ne!(foreign(b"\xff\x9b"), Vec::<String>::new(), "no UTF-8");
    }

    #[test]
    fn the_last_words_are_what_follows_the_last_screen() {
        assert_eq!(after_screen(b"a\x1b[?1049lb\x1b[?1049lc").as_deref(), Some("c"));
        assert_eq!(after_screen(b"abc"), None);
    }
}
