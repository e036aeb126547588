//! Decisions as lines to read, and bounded lists of them.

use std::collections::VecDeque;
use std::path::Path;

use super::ENTRIES_MAX;
use crate::clock::Wall;
use crate::control::{OperatorSettings, Value, What, Who, rate_figures};
use crate::journal::reader::{EventReader, EventRecord, ReadError};
use crate::journal::summary::act_word;
use crate::text::Clean;

/// A decision as a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When.
    pub time: Wall,
    /// By whom; `None` = a word of another version.
    pub who: Option<Who>,
    /// What.
    pub what: What,
    /// About which host; empty = the whole crawl.
    pub host: Clean,
    /// What happened and why.
    pub text: Clean,
}

impl Entry {
    /// The line of a decision; `None` for those that nobody reads one by one.
    pub fn of(event: &EventRecord) -> Option<Self> {
        let what = event.what.known()?;
        let unread = [
            What::Capacity,
            What::EndpointCapacity,
            What::UrlFailed,
            What::UrlSkipped,
            What::BadInput,
            What::Progress,
            What::Original,
        ];
        // The first rate of a host is where it begins, not a decision; those of a new configuration have one line.
        let begins = what == What::Rate && event.who.known() == Some(Who::System);
        if unread.contains(&what) || begins {
            return None;
        }
        Some(Self {
            time: event.time,
            who: event.who.known(),
            what,
            host: event.host.clone().unwrap_or_default(),
            text: Clean::new(text(what, event)),
        })
    }

    /// Who, in at most five letters.
    pub fn who_word(&self) -> &'static str {
        match self.who {
            Some(Who::Operator) => "you",
            Some(Who::Controller) => "auto",
            Some(Who::Server) => "host",
            Some(Who::Site) => "site",
            Some(Who::Concern) => "alert",
            Some(Who::System) => "note",
            None => "?",
        }
    }
}

/// What happened and why.
fn text(what: What, event: &EventRecord) -> String {
    let (before, after, why) = (&event.before, &event.after, event.why.as_str());
    let change = match (what, before, after) {
        (
            What::Rate | What::EndpointRate | What::GroupRate | What::Reset,
            Value::Number(before),
            Value::Number(after),
        ) => {
            format!("rate {} → {}/s", rate_figures(*before), rate_figures(*after))
        }
        (What::Rate, _, Value::Number(after)) => format!("rate {}/s", rate_figures(*after)),
        (What::Pace, _, Value::Number(rate)) if *rate > 0.0 => format!("pace {}/s", rate_figures(*rate)),
        (What::Hold, _, Value::Number(seconds)) => format!("hold {seconds:.0} s"),
        (What::GiveUp, Value::Number(urls), _) => format!("given up with {urls:.0} URLs"),
        (What::Start, ..) => String::from("start"),
        (What::ResumeRun, ..) => String::from("resume"),
        (What::Stop, ..) => String::from("stop"),
        (What::Add, _, Value::Text(file)) => return format!("{why}: {file}"),
        (What::Add, ..) => return format!("{why}: {}", event.url.clone().unwrap_or_default()),
        (What::Exclude, _, Value::Number(urls)) => return format!("{why}: {urls:.0} queued URLs removed"),
        // The reason begins with the act's word: it is said once, and what an override came to behind it.
        (_, _, Value::Settings(settings)) if begins_with(why, act_word(what)) => {
            let set = settings.overriding.filter(|_| what == What::Override).map(|_| settings_text(settings));
            return set.map_or_else(|| why.to_owned(), |set| format!("{why}  {set}"));
        }
        (_, _, Value::Settings(settings)) => format!("{} {}", act_word(what), settings_text(settings)),
        _ if event.who.known() == Some(Who::Operator) => act_word(what).to_owned(),
        _ => String::new(),
    };
    match (change.trim_end(), why) {
        ("", why) => why.to_owned(),
        (change, "") => change.to_owned(),
        (change, why) => format!("{change}  {why}"),
    }
}

/// Whether the first word of `text` is `word`.
fn begins_with(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// What an operator has set.
fn settings_text(settings: &OperatorSettings) -> String {
    let mut words = Vec::new();
    if let Some(overriding) = settings.overriding {
        words.extend(overriding.rate.map(|rate| format!("rate {rate:.2}/s")));
        words.extend(overriding.capacity.map(|capacity| format!("capacity {capacity}")));
    }
    if settings.pause.is_some() {
        words.push(String::from("paused"));
    }
    words.join(", ")
}

/// The newest entries of a kind: at most [`ENTRIES_MAX`]; older ones are only counted.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Kept {
    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// None is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many older ones there were.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The entry at a position, oldest first.
    pub fn get(&self, position: usize) -> Option<&Entry> {
        self.entries.get(position)
    }

    /// Those from `from` on and before `to`, by the clock as it was; oldest first.
    pub fn between(&self, from: Wall, to: Wall) -> impl Iterator<Item = &Entry> {
        // Wall clocks may jump back, so this is no binary search; the list is short.
        self.entries.iter().filter(move |entry| entry.time >= from && entry.time < to)
    }
}

/// Entries that a look at the log gives at most.
pub const LOG_MAX: usize = 1_000;
/// Of these, entries before the moment.
const LOG_BEFORE: usize = 50;

/// Reads the log around a moment from the journal itself, piece by piece: also what the lists have let go.
pub struct LogScan {
    reader: EventReader,
    from: Wall,
    /// What was found, oldest first.
    pub entries: VecDeque<Entry>,
    /// How many of them lie before the moment.
    pub before: usize,
    /// There is nothing more to read, or no more room.
    pub complete: bool,
}

impl LogScan {
    /// The log of the run in `dir` around `from`.
    pub fn open(dir: &Path, from: Wall) -> Result<Self, ReadError> {
        let reader = EventReader::open(dir)?;
        Ok(Self { reader, from, entries: VecDeque::new(), before: 0, complete: false })
    }

    /// Reads at most `events` events on.
    pub fn step(&mut self, events: usize) -> Result<(), ReadError> {
        for _ in 0..events {
            if self.complete {
                return Ok(());
            }
            let Some(event) = self.reader.next() else {
                self.complete = true;
                return Ok(());
            };
            let Some(entry) = Entry::of(&event?) else { continue };
            if entry.time < self.from {
                self.before += 1;
                if self.before > LOG_BEFORE {
                    self.entries.pop_front();
                    self.before = LOG_BEFORE;
                }
            }
            self.entries.push_back(entry);
            self.complete = self.entries.len() >= LOG_MAX;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Mono, Override, Pause};
    use crate::journal::reader::Word;

    fn entry(second: i64) -> Entry {
        let (host, text) = (Clean::default(), Clean::default());
        Entry { time: Wall(second), who: None, what: What::Start, host, text }
    }

    #[test]
    fn an_act_is_named_once_with_what_came_of_it() {
        let text = |what, after: Value, why: &str, url: Option<&str>| {
            let event = EventRecord {
                time: Wall(0),
                seq: 0,
                mono: None,
                who: Word::Known(Who::Operator),
                host: None,
                what: Word::Known(what),
                before: Value::None,
                after,
                why: Clean::new(why),
                url: url.map(Clean::new),
                version: None,
            };
            Entry::of(&event).expect("a line").text.to_string()
        };
        let pause = Some(Pause { since: Mono::ZERO, until: None });
        let overriding = Some(Override { rate: Some(0.5), capacity: None, since: Mono::ZERO, until: None });
        let paused = Value::Settings(OperatorSettings { pause, ..OperatorSettings::default() });
        let overridden = Value::Settings(OperatorSettings { overriding, ..OperatorSettings::default() });
        assert_eq!(text(What::Pause, paused.clone(), "pause for 30m (a.test)", None), "pause for 30m (a.test)");
        assert_eq!(text(What::Undo, paused, "undone: resume", None), "undo paused  undone: resume");
        let why = "override rate x0.5 (a.test)";
        assert_eq!(text(What::Override, overridden, why, None), format!("{why}  rate 0.50/s"));
        let url = Some("http://a.test/5");
        assert_eq!(text(What::Add, Value::Number(1.0), "added", url), "added: http://a.test/5");
        let removed = Value::Number(2.0);
        assert_eq!(text(What::Exclude, removed, "excluded by /x", None), "excluded by /x: 2 queued URLs removed");
        assert_eq!(text(What::Halt, Value::None, "by key", None), "halt  by key");
    }

    #[test]
    fn lists_keep_the_newest_and_count_the_rest() {
        let mut kept = Kept::default();
        (0..ENTRIES_MAX as i64 + 3).for_each(|second| kept.push(entry(second)));
        assert_eq!((kept.len(), kept.dropped()), (ENTRIES_MAX, 3));
        assert_eq!(kept.get(0).map(|entry| entry.time), Some(Wall(3)));
        assert_eq!(kept.between(Wall(5), Wall(8)).count(), 3);
    }
}
