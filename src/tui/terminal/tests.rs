use std::sync::Mutex;

use super::*;

/// A terminal in memory: what is written to it, and how often it was taken and given back.
#[derive(Clone, Default)]
pub(in crate::tui) struct Memory {
    pub(in crate::tui) state: Arc<Mutex<MemoryState>>,
}

#[derive(Default)]
pub(in crate::tui) struct MemoryState {
    pub(in crate::tui) written: Vec<u8>,
    pub(in crate::tui) taken: usize,
    pub(in crate::tui) given_back: usize,
    pub(in crate::tui) size: (u16, u16),
    pub(in crate::tui) gone: bool,
    pub(in crate::tui) background: bool,
}

impl Memory {
    pub(in crate::tui) fn sized(width: u16, height: u16) -> Self {
        let memory = Self::default();
        memory.state.lock().expect("lock").size = (width, height);
        memory
    }

    pub(in crate::tui) fn take_written(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.lock().expect("lock").written)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().expect("lock");
        if state.gone {
            return Err(io::Error::from_raw_os_error(5));
        }
        state.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Device for Memory {
    fn take(&mut self) -> io::Result<()> {
        self.state.lock().expect("lock").taken += 1;
        Ok(())
    }

    fn give_back(&mut self) {
        self.state.lock().expect("lock").given_back += 1;
    }

    fn size(&self) -> (u16, u16) {
        self.state.lock().expect("lock").size
    }

    fn is_foreground(&self) -> bool {
        !self.state.lock().expect("lock").background
    }
}

/// How often `needle` occurs.
fn occurrences(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).filter(|window| *window == needle).count()
}

#[test]
fn case_109_leaving_restores_once_whatever_the_way() {
    for way in ["leave", "leave twice", "drop", "panic"] {
        let memory = Memory::sized(80, 24);
        let mut screen = Screen::new(memory.clone());
        screen.enter().expect("memory takes all");
        match way {
            "leave" => screen.leave(),
            "leave twice" => {
                screen.leave();
                screen.leave();
            }
            "drop" => {}
            _ => {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _held = screen;
                    // Resumed, not raised: the test's output stays clean.
                    std::panic::resume_unwind(Box::new("test"));
                }));
                assert!(caught.is_err());
                screen = Screen::new(Memory::default());
            }
        }
        drop(screen);
        let state = memory.state.lock().expect("lock");
        assert_eq!((state.taken, state.given_back), (1, 1), "{way}");
        for mode in ["?1049l", "?25h", "?2004l", "?1000l", "?1002l", "?1003l", "?1006l", "?1004l", "?2026l"] {
            let sequence = format!("\x1b[{mode}");
            let after_enter = &state.written[ENTER.len()..];
            assert_eq!(occurrences(after_enter, sequence.as_bytes()), 1, "{way}: {mode}");
        }
        assert!(state.written.ends_with(b"\x1b[?1049l"), "{way}: the old page comes last");
    }
}

#[test]
fn a_frame_is_one_synchronized_update_and_an_equal_one_is_nothing() {
    let memory = Memory::sized(20, 2);
    let mut screen = Screen::new(memory.clone());
    screen.enter().expect("memory takes all");
    memory.take_written();
    let hello = |buffer: &mut Buffer| {
        buffer.set_string(0, 0, "hello", ratatui::style::Style::new());
    };
    assert!(screen.draw((20, 2), hello).expect("drawn"));
    let frame = memory.take_written();
    assert!(frame.starts_with(FRAME_BEGIN) && frame.ends_with(FRAME_END));
    assert_eq!(occurrences(&frame, b"hello"), 1);
    assert!(!screen.draw((20, 2), hello).expect("drawn"), "nothing changed");
    assert_eq!(memory.take_written(), b"");
    screen.forget();
    assert!(screen.draw((20, 2), hello).expect("drawn"));
    assert_eq!(occurrences(&memory.take_written(), b"hello"), 1);
}

#[test]
fn case_108_a_terminal_that_is_gone_is_an_error_and_is_not_written_to() {
    let memory = Memory::sized(20, 2);
    let mut screen = Screen::new(memory.clone());
    screen.enter().expect("memory takes all");
    memory.take_written();
    memory.state.lock().expect("lock").gone = true;
    let draw = screen.draw((20, 2), |buffer| {
        buffer.set_string(0, 0, "x", ratatui::style::Style::new());
    });
    assert!(draw.is_err());
    screen.abandon();
    drop(screen);
    let state = memory.state.lock().expect("lock");
    assert_eq!((state.given_back, state.written.len()), (1, 0));
}

#[test]
fn case_113_no_size_draws_nothing() {
    let mut screen = Screen::new(Memory::default());
    screen.enter().expect("memory takes all");
    for size in [(0, 0), (0, 5), (5, 0)] {
        assert!(!screen.draw(size, |_| panic!("nothing to draw on")).expect("no error"));
    }
}

#[test]
fn case_113_sizes_out_of_this_world_are_not_believed() {
    for (told, drawn) in
        [((0, 0), (80, 24)), ((0, 5), (0, 5)), ((120, 40), (120, 40)), ((u16::MAX, u16::MAX), SIZE_MAX)]
    {
        assert_eq!(believed(told), drawn);
    }
}

#[test]
fn case_119_a_pipe_or_a_dumb_terminal_shows_no_dashboard() {
    let term = |name: &'static str| Some(std::ffi::OsStr::new(name));
    for (term, keys, screen, shows) in [
        (term("xterm-256color"), true, true, true),
        (None, true, true, true),
        (term("dumb"), true, true, false),
        (term("xterm"), false, true, false),
        (term("xterm"), true, false, false),
    ] {
        assert_eq!(can_show(term, keys, screen), shows, "{term:?} {keys} {screen}");
    }
}

#[test]
fn copying_sends_base64_and_nothing_else() {
    for (text, encoded) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("a.test\u{1b}[2J", "YS50ZXN0XHgxYlsySg==")]
    {
        let memory = Memory::sized(80, 24);
        let mut screen = Screen::new(memory.clone());
        screen.copy(&Clean::new(text)).expect("memory");
        assert_eq!(memory.take_written(), b"", "not before the screen is up");
        screen.enter().expect("memory");
        memory.take_written();
        screen.copy(&Clean::new(text)).expect("memory");
        assert_eq!(String::from_utf8(memory.take_written()).expect("ascii"), format!("\u{1b}]52;c;{encoded}\u{7}"));
    }
}
