//! The log as a screen: which lines are shown, which one is selected, and where one last looked.
//!
//! Lines are numbered from the first that ever came, so that a selection stays on its line while newer ones
//! come in. Nothing is kept here but numbers; the lines are the model's, the newest 500.

use std::collections::VecDeque;

use crate::clock::Wall;
use crate::control::Who;
use crate::text::Clean;
use crate::watch::LogLine;

/// Whose lines can be shown alone, in the order of the key.
const WHO: [(&str, &[Who]); 5] = [
    ("auto", &[Who::Controller]),
    ("alert", &[Who::Concern]),
    ("you", &[Who::Operator]),
    ("host", &[Who::Server, Who::Site]),
    ("note", &[Who::System]),
];

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub struct LogScreen {
    /// Lines that ever came: the number of the next one.
    pub came: u64,
    /// The selected line; `None` = the newest, whatever comes.
    selected: Option<u64>,
    /// Whose lines; `None` = everybody's.
    who: Option<usize>,
    /// Words that a line must hold, in small letters.
    words: Vec<String>,
    /// What had come when the log was last looked at, and when that was.
    looked: Option<(u64, Wall)>,
}

/// A line with its number.
pub type Numbered<'a> = (u64, &'a LogLine);

impl LogScreen {
    /// The lines shown, newest first.
    pub fn shown<'a>(&'a self, log: &'a VecDeque<LogLine>) -> impl Iterator<Item = Numbered<'a>> {
        let first = self.came.saturating_sub(log.len() as u64);
        let numbered = (first..).zip(log).collect::<Vec<_>>();
        numbered.into_iter().rev().filter(|(_, line)| self.takes(line))
    }

    fn takes(&self, line: &LogLine) -> bool {
        let (_, whose) = self.who.and_then(|at| WHO.get(at)).copied().unwrap_or_default();
        let by = self.who.is_none() || whose.contains(&line.who);
        let holds = |word: &str| line.host.as_str().contains(word) || line.text.as_str().to_lowercase().contains(word);
        by && self.words.iter().all(|word| match word.strip_prefix('!') {
            Some(word) => !holds(word),
            None => holds(word),
        })
    }

    /// The position of the selected line among those shown, and the line.
    pub fn selected<'a>(&'a self, log: &'a VecDeque<LogLine>) -> Option<(usize, Numbered<'a>)> {
        let mut shown = self.shown(log).enumerate();
        match self.selected {
            None => shown.next(),
            // A line that is gone or not shown any more leaves the selection to the next older one.
            Some(number) => {
                let all: Vec<_> = shown.collect();
                let found = all.iter().find(|(_, (one, _))| *one <= number).or(all.last());
                found.copied()
            }
        }
    }

    /// Whether the newest line is selected, whatever comes.
    pub fn follows(&self) -> bool {
        self.selected.is_none()
    }

    /// Selects the line at a position; the first one is the newest and is followed.
    pub fn select(&mut self, position: usize, log: &VecDeque<LogLine>) {
        let numbers: Vec<_> = self.shown(log).map(|(number, _)| number).collect();
        let position = position.min(numbers.len().saturating_sub(1));
        self.selected = numbers.get(position).copied().filter(|_| position > 0);
    }

    /// Selects the newest line before `until`; the oldest, if all are later.
    pub fn select_moment(&mut self, until: Wall, log: &VecDeque<LogLine>) {
        let at = self.shown(log).position(|(_, line)| line.wall < until);
        self.select(at.unwrap_or(usize::MAX), log);
    }

    /// Moves the selection by so many lines, older ones downwards.
    pub fn go(&mut self, step: isize, log: &VecDeque<LogLine>) {
        let at = self.selected(log).map_or(0, |(at, _)| at);
        self.select(at.saturating_add_signed(step), log);
    }

    /// Selects the next alert, older or newer; false if there is none.
    pub fn find_alert(&mut self, older: bool, log: &VecDeque<LogLine>) -> bool {
        let at = self.selected(log).map_or(0, |(at, _)| at);
        let alerts: Vec<_> =
            self.shown(log).enumerate().filter(|(_, (_, line))| line.who == Who::Concern).map(|(at, _)| at).collect();
        let found = if older {
            alerts.iter().find(|alert| **alert > at)
        } else {
            alerts.iter().rev().find(|alert| **alert < at)
        };
        let found = found.copied();
        if let Some(position) = found {
            self.select(position, log);
        }
        found.is_some()
    }

    /// Shows the lines of the next one alone; of everybody after the last.
    pub fn next_who(&mut self) {
        self.who = match self.who {
            None => Some(0),
            Some(at) if at + 1 < WHO.len() => Some(at + 1),
            Some(_) => None,
        };
    }

    /// Whose lines are shown.
    pub fn who(&self) -> &'static str {
        self.who.and_then(|at| WHO.get(at)).map_or("everybody", |(word, _)| word)
    }

    /// Shows only lines that hold all these words; `!` before a word inverts it.
    pub fn filter(&mut self, text: &str) {
        let words = text.to_lowercase();
        self.words = words.split_whitespace().filter(|word| *word != "!").map(str::to_owned).collect();
    }

    /// The filter in words.
    pub fn filter_text(&self) -> Clean {
        Clean::new(self.words.join(" "))
    }

    /// Whether lines are left out.
    pub fn is_filtered(&self) -> bool {
        self.who.is_some() || !self.words.is_empty()
    }

    /// Shows everything.
    pub fn show_all(&mut self) {
        (self.who, self.words) = (None, Vec::new());
    }

    /// The log was looked at until now.
    pub fn look(&mut self, wall: Wall) {
        self.looked = Some((self.came, wall));
        self.selected = None;
    }

    /// The first line that had been seen when one last looked, and when that was; `None` if nothing is new.
    pub fn last_looked(&self) -> Option<(u64, Wall)> {
        self.looked.filter(|(came, _)| *came < self.came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Mono;
    use proptest::prelude::*;

    fn line(who: Who, host: &str, text: &str) -> LogLine {
        LogLine { wall: Wall(0), at: Mono::ZERO, who, host: Clean::new(host), text: Clean::new(text) }
    }

    fn log() -> VecDeque<LogLine> {
        [
            line(Who::Controller, "a.test", "rate 2.00 to 1.00/s"),
            line(Who::Concern, "b.test", "STUCK"),
            line(Who::Operator, "a.test", "pause"),
            line(Who::Server, "a.test", "hold 120 s"),
        ]
        .into()
    }

    fn texts(screen: &LogScreen, log: &VecDeque<LogLine>) -> Vec<String> {
        screen.shown(log).map(|(_, line)| line.text.to_string()).collect()
    }

    #[test]
    fn the_selection_stays_on_its_line_while_newer_ones_come() {
        let mut log = log();
        let mut screen = LogScreen { came: 4, ..LogScreen::default() };
        assert!(screen.follows());
        screen.go(2, &log);
        assert_eq!(screen.selected(&log).map(|(at, (number, _))| (at, number)), Some((2, 1)));
        log.push_back(line(Who::Operator, "c.test", "resume"));
        screen.came += 1;
        assert_eq!(screen.selected(&log).map(|(at, (number, _))| (at, number)), Some((3, 1)));
        screen.go(-9, &log);
        assert!(screen.follows(), "back at the newest");
    }

    #[test]
    fn lines_are_shown_by_who_and_words() {
        let log = log();
        let mut screen = LogScreen { came: 4, ..LogScreen::default() };
        screen.filter("A.test !rate");
        assert_eq!(texts(&screen, &log), ["hold 120 s", "pause"]);
        screen.show_all();
        screen.next_who();
        screen.next_who();
        assert_eq!((screen.who(), texts(&screen, &log)), ("alert", vec![String::from("STUCK")]));
        for _ in 0..4 {
            screen.next_who();
        }
        assert_eq!(texts(&screen, &log).len(), 4);
        assert!(screen.find_alert(true, &log) && !screen.find_alert(true, &log));
        assert_eq!(screen.selected(&log).map(|(_, (_, line))| line.text.to_string()).as_deref(), Some("STUCK"));
    }

    #[test]
    fn what_came_since_one_last_looked_is_known() {
        let mut screen = LogScreen { came: 4, ..LogScreen::default() };
        assert_eq!(screen.last_looked(), None);
        screen.look(Wall(7));
        assert_eq!(screen.last_looked(), None, "nothing is new");
        screen.came = 6;
        assert_eq!(screen.last_looked(), Some((4, Wall(7))));
    }

    proptest! {
        #[test]
        fn the_selection_is_always_a_line_that_is_shown(steps in proptest::collection::vec((-9_isize..9, any::<bool>(), any::<bool>()), 0..30)) {
            let mut log = log();
            let mut screen = LogScreen { came: 4, ..LogScreen::default() };
            for (step, who, more) in steps {
                screen.go(step, &log);
                if who {
                    screen.next_who();
                }
                if more {
                    log.push_back(line(Who::Concern, "x.test", "ANGRY"));
                    log.pop_front();
                    screen.came += 1;
                }
                let shown = screen.shown(&log).count();
                prop_assert_eq!(screen.selected(&log).is_none(), shown == 0);
                if let Some((at, (number, _))) = screen.selected(&log) {
                    prop_assert_eq!(screen.shown(&log).nth(at).map(|(one, _)| one), Some(number));
                }
            }
        }
    }
}
