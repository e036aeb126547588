//! The command line at work: editing, history, completion, and doing what was read.

use tui_input::Input;

use super::{edit, halt, named, on_targets, plural, request, wake_targets};
use crate::control::{Command, HostId, Mono};
use crate::text::Clean;
use crate::tui::command_line::{self, Line, Target};
use crate::tui::key::{Key, KeyCode};
use crate::tui::keymap::Place;
use crate::tui::model::{Model, Overlay, Wish};
use crate::watch::{Change, Request};

/// Lines that are kept for ↑.
const HISTORY_MAX: usize = 100;

/// A key on the command line.
pub(super) fn in_command(model: &mut Model, mut prompt: Prompt, key: Key, now: Mono) -> Vec<Request> {
    match key.code {
        KeyCode::Esc => return Vec::new(),
        KeyCode::Backspace if prompt.input.value().is_empty() => return Vec::new(),
        KeyCode::Enter => match command_line::parse(prompt.input.value(), model.wall(now)) {
            Ok(line) => {
                remember(model, prompt.input.value());
                return run(model, line, now);
            }
            Err(error) => prompt.error = Some(Clean::new(error.to_string())),
        },
        KeyCode::Up => recall(model, &mut prompt, 1),
        KeyCode::Down => recall(model, &mut prompt, -1),
        KeyCode::Tab | KeyCode::BackTab => complete(model, &mut prompt, key.code == KeyCode::BackTab),
        _ => {
            edit(&mut prompt.input, key);
            prompt.error = None;
            (prompt.back, prompt.completing) = (0, None);
        }
    }
    model.overlay = Overlay::Command(prompt);
    Vec::new()
}

/// The command line as it stands.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// What was typed.
    pub input: Input,
    /// Why Enter did nothing.
    pub error: Option<Clean>,
    /// How far back in the history; 0 = not in it.
    back: usize,
    /// What was typed before Tab, and which completion is shown.
    completing: Option<(String, usize)>,
}

impl Prompt {
    /// A prompt with this text.
    pub fn new(text: &str) -> Self {
        Self { input: Input::new(text.to_owned()), ..Self::default() }
    }
}

/// Keeps a line; the same line twice in a row is one.
fn remember(model: &mut Model, text: &str) {
    if model.commands.back().is_none_or(|last| last != text) {
        if model.commands.len() == HISTORY_MAX {
            model.commands.pop_front();
        }
        model.commands.push_back(text.to_owned());
    }
}

/// Goes back or forth in the history.
fn recall(model: &Model, prompt: &mut Prompt, step: isize) {
    let back = prompt.back.saturating_add_signed(step).min(model.commands.len());
    let line = model.commands.len().checked_sub(back).and_then(|at| model.commands.get(at)).cloned();
    prompt.input = Input::new(line.unwrap_or_default());
    (prompt.back, prompt.completing, prompt.error) = (back, None, None);
}

/// Puts the next completion into the prompt.
fn complete(model: &Model, prompt: &mut Prompt, backwards: bool) {
    let (typed, shown) = match prompt.completing.take() {
        Some((typed, shown)) => (typed, Some(shown)),
        None => (prompt.input.value().to_owned(), None),
    };
    let hosts = model.rows.iter().flatten().map(|row| row.name.as_str());
    let all = command_line::completions(&typed, hosts);
    if all.is_empty() {
        return;
    }
    let next = match (shown, backwards) {
        (None, false) => 0,
        (None, true) => all.len() - 1,
        (Some(shown), false) => (shown + 1) % all.len(),
        (Some(shown), true) => (shown + all.len() - 1) % all.len(),
    };
    if let Some(text) = all.get(next) {
        prompt.input = Input::new(text.clone());
        // The only one is taken for good: the next Tab completes the next word.
        prompt.completing = (all.len() > 1).then_some((typed, next));
    }
}

/// Does what was read.
fn run(model: &mut Model, line: Line, now: Mono) -> Vec<Request> {
    match line {
        Line::Act(Command::GoOn, _) if model.totals.halted => return halt(model),
        Line::Act(command @ (Command::Halt | Command::GoOn | Command::Undo | Command::Redo), _) => {
            return vec![request(model, command, Vec::new(), Clean::default())];
        }
        Line::Act(command, target) => return act(model, command, &target, now),
        Line::Change(change) => {
            // Like an undo, a change has no undo to be hinted at.
            let ticket = model.ticket(Command::Undo);
            return vec![Request::Change { ticket, change }];
        }
        Line::Group(targets) => return share(model, &targets, now, Change::Group),
        Line::Ungroup(targets) => return share(model, &targets, now, Change::Ungroup),
        Line::Print => model.wishes.push(Wish::Print),
        Line::Fps(fps) => model.wishes.push(Wish::Fps(fps)),
        Line::Theme(name) => model.wishes.push(Wish::Theme(name)),
        Line::Mouse(on) => model.wishes.push(Wish::Mouse(on)),
    }
    Vec::new()
}

/// An act on the hosts named; many are asked about first.
fn act(model: &mut Model, command: Command, target: &Target, now: Mono) -> Vec<Request> {
    let (targets, chosen_by) = targets(model, target, now);
    if targets.is_empty() {
        let words = match target {
            Target::Chosen if !matches!(model.place(), Place::Hosts | Place::Detail) => {
                "no host is selected on this screen: name it, or a filter"
            }
            Target::Chosen => "no host is selected",
            Target::Marked => "no host is marked",
            Target::All | Target::Filter(_) | Target::Host(..) => "no host is meant by that: nothing was changed",
        };
        model.complain(words, now);
        return Vec::new();
    }
    match command {
        Command::Wake(_) => wake_targets(model, targets, chosen_by, now),
        _ => on_targets(model, command, &command_line::words(&command), targets, chosen_by, now),
    }
}

/// Hosts share one bucket from now on, or do so no more.
fn share(model: &mut Model, named: &[Target], now: Mono, change: impl FnOnce(Vec<HostId>) -> Change) -> Vec<Request> {
    let hosts: Vec<HostId> = named.iter().flat_map(|target| targets(model, target, now).0).collect();
    if hosts.is_empty() {
        model.complain("no host is meant by that: nothing was changed", now);
        return Vec::new();
    }
    let ticket = model.ticket(Command::Undo);
    vec![Request::Change { ticket, change: change(hosts) }]
}

/// The hosts meant, and how they were chosen.
fn targets(model: &Model, target: &Target, now: Mono) -> (Vec<HostId>, Clean) {
    let engine_now = model.engine_now(now);
    let all = model.rows.iter().flatten();
    match target {
        // On the log and on the timeline no host is under a cursor that could be seen.
        Target::Chosen if model.marks.is_empty() && !matches!(model.place(), Place::Hosts | Place::Detail) => {
            (Vec::new(), Clean::default())
        }
        Target::Chosen => model.targets(),
        Target::Marked if model.marks.is_empty() => (Vec::new(), Clean::default()),
        Target::Marked => model.targets(),
        Target::All => (all.map(|row| row.view.id).collect(), Clean::new("all")),
        Target::Host(name, _) if all.clone().any(|row| row.name.as_str() == name) => {
            (all.filter(|row| row.name.as_str() == name).map(|row| row.view.id).collect(), Clean::new(name))
        }
        Target::Filter(filter) | Target::Host(_, filter) => {
            // As last heard, also while the view stands still.
            let latest = all.filter_map(|row| model.latest(row.view.id));
            let ids: Vec<_> = latest.filter(|row| filter.takes(row, engine_now)).map(|row| row.view.id).collect();
            let chosen_by = match ids.as_slice() {
                [only] => named(model, &[*only]),
                _ => Clean::new(format!("filter {}", filter.text())),
            };
            (ids, chosen_by)
        }
    }
}

/// What Enter would do, in a few words for the line's end.
pub fn preview(model: &Model, prompt: &Prompt, now: Mono) -> String {
    let text = prompt.input.value();
    match command_line::parse(text, model.wall(now)) {
        Ok(Line::Act(Command::Halt | Command::GoOn | Command::Undo | Command::Redo, _)) | Err(_) | Ok(Line::Print) => {
            let verb = text.split_whitespace().next().unwrap_or_default();
            if verb == "concurrency" {
                return format!("N: fetches in flight at most, now {}", model.totals.concurrency);
            }
            command_line::usage_of(verb).map_or_else(|| String::from("tab completes, up recalls"), str::to_owned)
        }
        Ok(Line::Act(_, target)) => plural(targets(model, &target, now).0.len()),
        Ok(Line::Group(named) | Line::Ungroup(named)) => {
            plural(named.iter().map(|target| targets(model, target, now).0.len()).sum())
        }
        Ok(_) => String::from("enter"),
    }
}
