//! The progress bar, on a terminal's last line; gone when the work is done.

use std::io::Write;

/// Marks of a full bar.
const WIDTH: usize = 30;

/// The bar, or nothing where there is no terminal.
pub(super) struct Progress<'w> {
    terminal: Option<&'w mut dyn Write>,
    total: usize,
    /// Hundredths that are shown.
    shown: Option<usize>,
}

impl<'w> Progress<'w> {
    /// A bar for so many runs.
    pub(super) fn new(terminal: Option<&'w mut dyn Write>, total: usize) -> Self {
        Self { terminal, total: total.max(1), shown: None }
    }

    /// So many are done. Drawn at most once a hundredth.
    pub(super) fn tell(&mut self, done: usize) {
        let Some(terminal) = &mut self.terminal else { return };
        let hundredths = done * 100 / self.total;
        if self.shown == Some(hundredths) {
            return;
        }
        self.shown = Some(hundredths);
        let full = done * WIDTH / self.total;
        let (bar, rest) = ("#".repeat(full), ".".repeat(WIDTH.saturating_sub(full)));
        // A terminal that is gone stops no work.
        let _ = write!(terminal, "\r[{bar}{rest}] {done} of {} runs", self.total).and_then(|()| terminal.flush());
    }

    /// Wipes it.
    pub(super) fn end(&mut self) {
        if let Some(terminal) = self.terminal.as_mut().filter(|_| self.shown.is_some()) {
            let _ = write!(terminal, "\r\x1b[K").and_then(|()| terminal.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_sees_it_grow_and_go_and_a_file_sees_nothing() {
        let mut screen = Vec::new();
        let mut progress = Progress::new(Some(&mut screen), 4);
        (1..=4).for_each(|done| progress.tell(done));
        progress.end();
        let screen = String::from_utf8(screen).expect("text");
        let steps: Vec<&str> = screen.split('\r').skip(1).collect();
        assert_eq!(steps[1], "[###############...............] 2 of 4 runs");
        assert_eq!((steps.len(), steps[4]), (5, "\x1b[K"));

        let mut progress = Progress::new(None, 4);
        progress.tell(1);
        progress.end();
    }
}
