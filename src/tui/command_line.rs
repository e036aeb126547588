//! The command line: the same verbs as the keys, with arguments and targets.
//!
//! `rate 0.5 *.example for 2h`, `pause 30m is:angry`, `auto marked`, `note asked by mail`. Targets are a
//! filter, `marked`, `all`, or nothing (the marked hosts, else the cursor's). This file reads; what is read
//! is done elsewhere.

use std::time::Duration;

use super::filter::{Filter, nearest};
use super::spec;
use crate::clock::Wall;
use crate::config::{THEMES, is_theme_file};
use crate::control::{Command, Lifetime, WakeEven, budget_words};
use crate::text::Clean;
use crate::watch::Change;

/// Every verb with what it takes and what it does, in the order of completion.
pub const VERBS: [(&str, &str); 24] = [
    ("rate", "0.5|x0.5|+25% [HOSTS] [for 2h]"),
    ("capacity", "10 [HOSTS] [for 2h]"),
    ("pause", "[30m] [HOSTS]"),
    ("resume", "[HOSTS]"),
    ("auto", "[HOSTS]: drop the override"),
    ("reset", "[HOSTS]: to the original rate"),
    ("budget", "3 [HOSTS]: refusals in 10 minutes before probing stops, 0 = no budget"),
    ("wake", "[HOSTS]: end the hold"),
    ("halt", "the whole crawl"),
    ("go-on", "after a halt"),
    ("undo", "the last act"),
    ("redo", "what was undone"),
    ("add", "URL|FILE"),
    ("exclude", "PATTERN: a regular expression"),
    ("allow", "PATTERN: let go what is held back as a trap"),
    ("group", "[HOST...]: share one bucket; one alone: with whom SHARED LIMIT names"),
    ("ungroup", "[HOST...]: buckets of their own again"),
    ("concurrency", "N: fetches in flight at most"),
    ("note", "TEXT into the journal"),
    ("reload", "the configuration file"),
    ("print", "this screen into the run folder"),
    ("set", "fps 2"),
    ("theme", "default|light|mono|...|FILE.toml"),
    ("mouse", "on|off"),
];

/// For whom a command is.
#[derive(Clone, Debug)]
pub enum Target {
    /// The marked hosts, else the cursor's.
    Chosen,
    /// The marked hosts.
    Marked,
    /// Every host.
    All,
    /// Every host that the filter takes.
    Filter(Filter),
    /// The host of this name if there is one, else whoever the filter takes.
    Host(String, Filter),
}

/// What was asked for.
#[derive(Clone, Debug)]
pub enum Line {
    /// An act on hosts; in words for a question.
    Act(Command, Target),
    /// A change of the crawl.
    Change(Change),
    /// Hosts, named one by one or by filters, share one bucket.
    Group(Vec<Target>),
    /// They do so no more.
    Ungroup(Vec<Target>),
    /// Write this screen into a file.
    Print,
    /// Frames a second.
    Fps(u32),
    /// Another theme.
    Theme(String),
    /// The mouse on or off.
    Mouse(bool),
}

/// Why a line is no command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// Nothing typed.
    #[error("type a command: rate, pause, auto, note ...; tab completes")]
    Empty,
    /// No such verb.
    #[error("`{word}` is no command{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Verb {
        /// As typed.
        word: Clean,
        /// The nearest verb.
        nearest: Option<&'static str>,
    },
    /// Its argument cannot be used.
    #[error("{0}")]
    Argument(Clean),
    /// Something is missing.
    #[error("{verb} {usage}")]
    Usage {
        /// The verb.
        verb: &'static str,
        /// What it takes.
        usage: &'static str,
    },
}

/// Reads a line. `wall` is the time now, for `until`.
pub fn parse(text: &str, wall: Wall) -> Result<Line, LineError> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let word = word.trim_start_matches(':');
    if word.is_empty() {
        return Err(LineError::Empty);
    }
    let act = |command, targets: &str| Ok(Line::Act(command, target(targets)?));
    match word {
        "rate" | "capacity" => overriding(word, rest, wall),
        "pause" => {
            let (lifetime, targets) = lifetime_first(rest, wall)?;
            act(Command::Pause(lifetime), &targets)
        }
        "resume" => act(Command::Resume, rest),
        "auto" => act(Command::Auto, rest),
        "reset" => act(Command::Reset, rest),
        "budget" => {
            let (amount, targets) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            act(Command::Budget(amount.parse().map_err(|_| usage(word))?), targets)
        }
        "wake" => act(Command::Wake(WakeEven::Own), rest),
        "halt" | "go-on" | "undo" | "redo" | "print" | "reload" if !rest.is_empty() => {
            Err(LineError::Argument(Clean::new(format!("`{word}` stands alone: `{rest}` is too much"))))
        }
        "halt" => act(Command::Halt, ""),
        "go-on" => act(Command::GoOn, ""),
        "undo" => act(Command::Undo, ""),
        "redo" => act(Command::Redo, ""),
        "print" => Ok(Line::Print),
        "reload" => Ok(Line::Change(Change::Reload)),
        "add" | "exclude" | "allow" | "note" if rest.is_empty() => Err(usage(word)),
        "add" => Ok(Line::Change(Change::Add(rest.to_owned()))),
        "exclude" => Ok(Line::Change(Change::Exclude(rest.to_owned()))),
        "allow" => Ok(Line::Change(Change::Allow(rest.to_owned()))),
        "note" => Ok(Line::Change(Change::Note(rest.to_owned()))),
        "group" => each_target(rest).map(Line::Group),
        "ungroup" => each_target(rest).map(Line::Ungroup),
        "concurrency" if rest.is_empty() => Err(usage(word)),
        "concurrency" => match rest.parse() {
            Ok(wanted) => Ok(Line::Change(Change::Concurrency(wanted))),
            Err(_) => Err(LineError::Argument(Clean::new(format!("`{rest}` is no number of fetches in flight")))),
        },
        "set" => {
            let fps = rest.strip_prefix("fps").and_then(|value| value.trim().parse().ok());
            fps.filter(|fps| (1..=60).contains(fps)).map(Line::Fps).ok_or_else(|| usage(word))
        }
        "theme" if THEMES.contains(&rest) || is_theme_file(rest) => Ok(Line::Theme(rest.to_owned())),
        "theme" => Err(LineError::Argument(Clean::new(format!("theme: choose {}", THEMES.join(", "))))),
        "mouse" => match rest {
            "on" => Ok(Line::Mouse(true)),
            "off" => Ok(Line::Mouse(false)),
            _ => Err(LineError::Argument(Clean::new("mouse on, or mouse off"))),
        },
        "q" | "quit" | "exit" | "wq" | "x" => {
            Err(LineError::Argument(Clean::new(format!("`{word}` is no command: esc, then the key that leaves (q)"))))
        }
        _ => {
            let nearest = nearest(word, VERBS.iter().map(|(verb, _)| *verb));
            Err(LineError::Verb { word: Clean::new(word), nearest })
        }
    }
}

/// What a verb takes.
pub fn usage_of(word: &str) -> Option<&'static str> {
    VERBS.iter().find(|(verb, _)| *verb == word).map(|(_, usage)| *usage)
}

fn usage(word: &str) -> LineError {
    let found = VERBS.iter().find(|(verb, _)| *verb == word);
    found.map_or(LineError::Empty, |(verb, usage)| LineError::Usage { verb, usage })
}

/// `0.5 *.example for 2h`: an amount, whom for, how long; the lifetime may stand anywhere after the amount.
fn overriding(verb: &str, rest: &str, wall: Wall) -> Result<Line, LineError> {
    let (amount, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if amount.is_empty() {
        return Err(usage(verb));
    }
    let (targets, lifetime) = take_lifetime(rest)?;
    let amount = if verb == "capacity" { format!("cap {amount}") } else { amount.to_owned() };
    let spec = spec::parse(&format!("{amount} {lifetime}"), wall);
    let spec = spec.map_err(|error| LineError::Argument(Clean::new(error.to_string())))?;
    Ok(Line::Act(Command::Override(spec), target(&targets)?))
}

/// Takes `for 2h` or `until 07:00` out of the words: the rest, and that.
fn take_lifetime(text: &str) -> Result<(String, String), LineError> {
    let (mut rest, mut lifetime) = (Vec::new(), Vec::new());
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if matches!(word, "for" | "until") {
            let value = words.next();
            let value = value.ok_or_else(|| LineError::Argument(Clean::new(format!("`{word}` needs a value"))))?;
            lifetime.extend([word, value]);
        } else {
            rest.push(word);
        }
    }
    Ok((rest.join(" "), lifetime.join(" ")))
}

/// A pause's lifetime, `30m` first or `for 30m` anywhere, and whom it is for.
fn lifetime_first(rest: &str, wall: Wall) -> Result<(Lifetime, String), LineError> {
    let (first, others) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A name may begin with a digit; a duration ends with a unit and has neither dot nor colon.
    let duration = humantime::parse_duration(first).ok().filter(|_| !first.contains(['.', ':']));
    if let Some(length) = duration {
        if length.is_zero() {
            return Err(LineError::Argument(Clean::new(format!("`{first}` is no time to pause for"))));
        }
        return Ok((Lifetime::For(length), others.to_owned()));
    }
    let (targets, lifetime) = take_lifetime(rest)?;
    if lifetime.is_empty() {
        return Ok((Lifetime::Default, targets));
    }
    // The override's reader knows the words of lifetimes.
    let spec = spec::parse(&format!("1 {lifetime}"), wall);
    spec.map(|spec| (spec.lifetime, targets)).map_err(|error| LineError::Argument(Clean::new(error.to_string())))
}

/// Whom the words name.
fn target(text: &str) -> Result<Target, LineError> {
    match text.trim() {
        "" => Ok(Target::Chosen),
        "marked" => Ok(Target::Marked),
        "all" => Ok(Target::All),
        filter => Filter::parse(filter)
            .map(Target::Filter)
            .map_err(|error| LineError::Argument(Clean::new(error.to_string()))),
    }
}

/// Whom the words name, each for itself; a name means that host alone, and not whoever has it in its name.
fn each_target(text: &str) -> Result<Vec<Target>, LineError> {
    if text.is_empty() {
        return Ok(vec![Target::Chosen]);
    }
    let one = |word| match target(word)? {
        Target::Filter(filter) => Ok(Target::Host(word.to_lowercase(), filter)),
        other => Ok(other),
    };
    text.split_whitespace().map(one).collect()
}

/// A command in the words of a question.
pub fn words(command: &Command) -> String {
    let lifetime = |lifetime: Lifetime| match lifetime {
        Lifetime::Default => String::new(),
        Lifetime::For(length) => format!(" for {}", humantime::format_duration(Duration::from_secs(length.as_secs()))),
    };
    match command {
        Command::Pause(life) => format!("pause{}", lifetime(*life)),
        Command::Resume => String::from("resume"),
        Command::Override(spec) => {
            let amount = |what: &str, amount: Option<crate::control::Amount>| match amount {
                None => String::new(),
                Some(crate::control::Amount::Absolute(value)) => format!(" {what} {value}"),
                Some(crate::control::Amount::Times(factor)) => format!(" {what} x{factor}"),
            };
            let (rate, capacity) = (amount("rate", spec.rate), amount("capacity", spec.capacity));
            format!("override{rate}{capacity}{}", lifetime(spec.lifetime))
        }
        Command::Auto => String::from("drop the override"),
        Command::Reset => String::from("reset to the original rate"),
        Command::Budget(budget) => budget_words(*budget),
        Command::Wake(_) => String::from("wake now"),
        Command::Halt => String::from("halt"),
        Command::GoOn => String::from("go on"),
        Command::Undo => String::from("undo"),
        Command::Redo => String::from("redo"),
    }
}

/// What the last word of `text` may become, best first: verbs, then targets; `hosts` are names that are
/// known.
pub fn completions<'a>(text: &str, hosts: impl Iterator<Item = &'a str>) -> Vec<String> {
    /// More are of no use to somebody who presses Tab.
    const MOST: usize = 50;
    let begin = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (head, last) = text.split_at_checked(begin).unwrap_or((text, ""));
    let complete = |word: &str| format!("{head}{word} ");
    if head.trim().is_empty() {
        return VERBS.iter().filter(|(verb, _)| verb.starts_with(last)).map(|(verb, _)| complete(verb)).collect();
    }
    let verb = head.split_whitespace().next().unwrap_or_default();
    match verb {
        // The figure comes first; which one is for nobody to guess.
        "rate" | "capacity" | "budget" if head.split_whitespace().count() == 1 => Vec::new(),
        "theme" => THEMES.iter().filter(|name| name.starts_with(last)).map(|name| complete(name)).collect(),
        "mouse" => ["on", "off"].iter().filter(|word| word.starts_with(last)).map(|word| complete(word)).collect(),
        "set" => vec![String::from("set fps ")],
        "rate" | "capacity" | "pause" | "resume" | "auto" | "reset" | "budget" | "wake" | "group" | "ungroup" => {
            let words = [
                "marked",
                "all",
                "for",
                "is:stuck",
                "is:angry",
                "is:shared",
                "is:trap",
                "is:tail",
                "is:forgotten",
                "is:override",
            ];
            let words = words.into_iter().chain(["is:paused", "is:held", "state:back"]);
            let words = words.filter(|word| word.starts_with(last)).map(str::to_owned);
            let hosts = hosts.filter(|host| !last.is_empty() && host.starts_with(last)).map(str::to_owned);
            words.chain(hosts).take(MOST).map(|word| complete(&word)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Amount, OverrideSpec};
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Line, String> {
        parse(text, Wall(0)).map_err(|error| error.to_string())
    }

    fn act(text: &str) -> (Command, String) {
        match read(text).expect(text) {
            Line::Act(command, Target::Chosen) => (command, String::from("chosen")),
            Line::Act(command, Target::Marked) => (command, String::from("marked")),
            Line::Act(command, Target::All) => (command, String::from("all")),
            Line::Act(command, Target::Filter(filter)) => (command, filter.text().to_string()),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn acts_have_targets_and_lifetimes() {
        let hour = Lifetime::For(Duration::from_secs(7200));
        let rate = |rate, lifetime| Command::Override(OverrideSpec { rate: Some(rate), capacity: None, lifetime });
        let half = Lifetime::For(Duration::from_secs(1800));
        for (text, command, targets) in [
            ("rate 0.5 *.example for 2h", rate(Amount::Absolute(0.5), hour), "*.example"),
            ("rate x0.5 for 2h is:angry 429>0", rate(Amount::Times(0.5), hour), "is:angry 429>0"),
            (":rate 30/m", rate(Amount::Absolute(0.5), Lifetime::Default), "chosen"),
            ("pause 30m is:angry", Command::Pause(half), "is:angry"),
            ("pause is:angry for 30m", Command::Pause(half), "is:angry"),
            ("pause 127.0.0.1:80", Command::Pause(Lifetime::Default), "127.0.0.1:80"),
            ("pause", Command::Pause(Lifetime::Default), "chosen"),
            ("resume all", Command::Resume, "all"),
            ("auto marked", Command::Auto, "marked"),
            ("budget 3 marked", Command::Budget(3), "marked"),
            ("reset !is:angry", Command::Reset, "!is:angry"),
            ("wake", Command::Wake(WakeEven::Own), "chosen"),
            ("halt", Command::Halt, "chosen"),
            ("go-on", Command::GoOn, "chosen"),
        ] {
            assert_eq!(act(text), (command, targets.to_owned()), "{text}");
        }
        let (command, _) = act("capacity 10 marked");
        assert_eq!(words(&command), "override capacity 10");
        assert_eq!(words(&act("rate x0.5 for 90m").0), "override rate x0.5 for 1h 30m");
    }

    #[test]
    fn the_crawl_can_be_changed() {
        let change = |text: &str| match read(text).expect(text) {
            Line::Change(change) => change,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(change("add https://a.example/x"), Change::Add("https://a.example/x".into()));
        assert_eq!(change("exclude \\.pdf$"), Change::Exclude("\\.pdf$".into()));
        assert_eq!(change("allow /cal"), Change::Allow("/cal".into()));
        assert_eq!(change("concurrency 8"), Change::Concurrency(8));
        assert_eq!(change("note ministry asked by mail"), Change::Note("ministry asked by mail".into()));
        assert_eq!(change("reload"), Change::Reload);
        assert_eq!(
            read("reload other.toml").expect_err("no argument"),
            "`reload` stands alone: `other.toml` is too much"
        );
        assert!(matches!(read("set fps 2"), Ok(Line::Fps(2))));
        assert!(matches!(read("theme mono"), Ok(Line::Theme(name)) if name == "mono"));
        assert!(matches!(read("mouse on"), Ok(Line::Mouse(true))));
        assert!(matches!(read("print"), Ok(Line::Print)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("", "type a command: rate, pause, auto, note ...; tab completes"),
            ("puase", "`puase` is no command; did you mean `pause`?"),
            ("launch", "`launch` is no command"),
            ("rate", "rate 0.5|x0.5|+25% [HOSTS] [for 2h]"),
            ("rate fast", "`fast` is not understood"),
            ("rate 0 all", "the rate must be from 0.001 to 1000000 a second"),
            ("rate 1 for", "`for` needs a value"),
            ("pause 30m is:angy", "at 1: `is:angy` is not known; did you mean `is:angry`?"),
            ("halt now", "`halt` stands alone: `now` is too much"),
            ("reload now", "`reload` stands alone: `now` is too much"),
            ("pause 0s h00*", "`0s` is no time to pause for"),
            ("quit", "`quit` is no command: esc, then the key that leaves (q)"),
            ("qux", "`qux` is no command"),
            ("concurrency", "concurrency N: fetches in flight at most"),
            ("set fps 99", "set fps 2"),
            ("concurrency many", "`many` is no number of fetches in flight"),
            ("note", "note TEXT into the journal"),
        ] {
            assert_eq!(read(text).expect_err(text), words, "{text}");
        }
        assert!(read("theme pink").expect_err("no theme").starts_with("theme: choose auto, default"));
    }

    #[test]
    fn tab_completes_verbs_targets_and_hosts() {
        let hosts = ["api.gazet.test", "api.other.test", "www.astr.test"];
        let complete = |text: &str| completions(text, hosts.into_iter());
        assert_eq!(complete("pa"), ["pause "]);
        assert_eq!(complete("re"), ["resume ", "reset ", "redo ", "reload "]);
        assert_eq!(complete("pause is:a"), ["pause is:angry "]);
        assert_eq!(complete("auto api"), ["auto api.gazet.test ", "auto api.other.test "]);
        assert_eq!(complete("theme m"), ["theme mono "]);
        for verb in ["rate", "capacity", "budget"] {
            assert_eq!(complete(&format!("{verb} ")), Vec::<String>::new(), "the figure is not to be guessed");
            assert_eq!(complete(&format!("{verb} 3 ma")), [format!("{verb} 3 marked ")]);
        }
        assert_eq!(complete("note api"), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~äß]{0,60}") {
            let _ = parse(&text, Wall(0));
            let _ = completions(&text, ["a.test"].into_iter());
        }

        #[test]
        fn no_command_panics(verb in 0..VERBS.len(), rest in "[ -~]{0,30}") {
            let _ = parse(&format!("{} {rest}", VERBS[verb].0), Wall(0));
        }
    }
}
