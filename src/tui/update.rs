//! Keys become changes of the model and requests to the engine. Pure: no I/O, no clock, no terminal.

mod command;
mod in_log;
mod mouse;

use std::time::Duration;

use tui_input::{Input, InputRequest};

use super::filter::Filter;
use super::key::{Key, KeyCode};
use super::keymap::{Action, Keymap};
use super::live;
use super::model::{Model, Overlay, Question, Screen, Wish};
use super::order::SortKey;
use crate::control::{Amount, Command, ConcernKind, HostId, Lifetime, Mono, OverrideSpec, WakeEven};
use crate::text::Clean;
use crate::watch::{Phase, Request};

pub use command::{Prompt, preview};

/// More hosts than this are asked about before anything is done to them.
pub const CONFIRM_ABOVE: usize = 25;
/// Characters that a prompt takes.
pub const PROMPT_MAX: usize = 200;

/// A key was pressed at our time `now`.
pub fn key(model: &mut Model, key: Key, keymap: &Keymap, now: Mono) -> Vec<Request> {
    model.order.hold_still(now);
    if key == Key::ctrl('c') {
        return interrupt(model, now);
    }
    if matches!(key.code, KeyCode::Click(..) | KeyCode::WheelUp | KeyCode::WheelDown) {
        mouse::act(model, key.code, now);
        return Vec::new();
    }
    // These two work in prompts as well, unless they were bound to a key that types.
    let types = matches!(key.code, KeyCode::Char(_)) && !key.ctrl && !key.alt;
    match keymap.action(key) {
        Some(action @ (Action::Redraw | Action::Suspend)) if !types => return act(model, action, now),
        _ => {}
    }
    match std::mem::take(&mut model.overlay) {
        Overlay::None if model.plot.is_some() => live::key(model, key, keymap, now),
        Overlay::None => match keymap.action(key) {
            Some(action) => act(model, action, now),
            None => Vec::new(),
        },
        Overlay::Help { search } => in_help(model, search, key, keymap),
        Overlay::Legend => {
            if !closes(key) && keymap.action(key) != Some(Action::Legend) && key.code != KeyCode::Enter {
                model.overlay = Overlay::Legend;
            }
            Vec::new()
        }
        Overlay::Override { input, targets } => in_override(model, input, targets, key, now),
        Overlay::Command(prompt) => command::in_command(model, prompt, key, now),
        Overlay::Filter { input } => in_filter(model, input, key, now),
        Overlay::Confirm(question) => in_confirm(model, question, key, now),
        Overlay::Leave => in_leave(model, key, now),
        Overlay::Sort { at } => in_sort(model, at, key, now),
    }
}

/// Ctrl-C, as a key or as a signal: the first opens the dialog, the second drains, the third stops now.
pub fn interrupt(model: &mut Model, now: Mono) -> Vec<Request> {
    if model.drain_asked {
        model.overlay = Overlay::None;
        model.say("stopping now: what is in flight is requeued", now);
        return vec![Request::Stop];
    }
    if matches!(model.overlay, Overlay::Leave) {
        model.overlay = Overlay::None;
        return drain(model, now);
    }
    leave(model, now)
}

/// Does what a key of the hosts screen asks for.
pub fn act(model: &mut Model, action: Action, now: Mono) -> Vec<Request> {
    if model.screen == Screen::Log
        && let Some(requests) = in_log::act(model, action, now)
    {
        return requests;
    }
    let last = model.order.shown.len().saturating_sub(1);
    let (at, page) = (model.at, model.page.max(1));
    match action {
        Action::Up => model.move_to(at.saturating_sub(1)),
        Action::Down => model.move_to(at.saturating_add(1).min(last)),
        Action::PageUp => model.move_to(at.saturating_sub(page)),
        Action::PageDown => model.move_to(at.saturating_add(page).min(last)),
        Action::HalfUp => model.move_to(at.saturating_sub(page.div_ceil(2))),
        Action::HalfDown => model.move_to(at.saturating_add(page.div_ceil(2)).min(last)),
        Action::Top => model.move_to(0),
        Action::Bottom => model.move_to(last),
        Action::NextAlert => find_alert(model, (at + 1..=last).chain(0..at.min(last + 1)), now),
        Action::PrevAlert => find_alert(model, (0..at).rev().chain((at + 1..=last).rev()), now),
        Action::Pause => return pause(model, now),
        Action::Override => {
            let (targets, _) = model.targets();
            if targets.is_empty() {
                model.complain("no host is selected", now);
            } else {
                model.overlay = Overlay::Override { input: Input::default(), targets };
            }
        }
        Action::Halve => return times(model, 0.5, now),
        Action::Raise => return times(model, 1.25, now),
        Action::Auto => return command(model, Command::Auto, "drop the override", now),
        Action::Reset => return command(model, Command::Reset, "reset to the original rate", now),
        Action::Wake => return wake(model, now),
        Action::Undo => return vec![request(model, Command::Undo, Vec::new(), Clean::default())],
        Action::Redo => return vec![request(model, Command::Redo, Vec::new(), Clean::default())],
        Action::Halt => return halt(model),
        Action::Mark => {
            if let Some(id) = model.cursor {
                if !model.marks.remove(&id) {
                    model.marks.insert(id);
                }
                model.move_to(at.saturating_add(1).min(last));
            }
        }
        Action::MarkAll => {
            let shown: Vec<_> = model.order.shown.iter().map(|index| HostId(*index)).collect();
            model.marks.extend(shown);
            let count = model.marks.len();
            model.say(format!("{count} hosts marked; esc drops the marks"), now);
        }
        Action::Filter => {
            model.filter_error = None;
            model.overlay = Overlay::Filter { input: Input::default() };
        }
        Action::Command => model.overlay = Overlay::Command(Prompt::default()),
        Action::Copy => copy(model, now),
        Action::Sort => {
            let at = SortKey::ALL.iter().position(|by| *by == model.order.by).unwrap_or_default();
            model.overlay = Overlay::Sort { at };
        }
        Action::Reverse => {
            model.order.reversed = !model.order.reversed;
            model.order.sort_now();
        }
        Action::Freeze => {
            if model.frozen.is_some() {
                model.thaw();
                model.say("the view goes on", now);
            } else {
                model.frozen = Some(model.engine_now(now));
            }
        }
        Action::Open => {
            if model.cursor.is_some() {
                show(model, Screen::Host, now);
            }
        }
        Action::PrevHost => model.move_to(at.saturating_sub(1)),
        Action::NextHost => model.move_to(at.saturating_add(1).min(last)),
        Action::Hosts => show(model, Screen::Hosts, now),
        Action::LogScreen => show(model, Screen::Log, now),
        Action::Log => {
            model.log_open = !model.log_open;
            if !model.log_open {
                let wall = model.wall(now);
                model.logbook.look(wall);
            }
            model.unseen = 0;
        }
        Action::Timeline => return live::toggle(model),
        Action::Legend => {
            if model.legend.is_empty() {
                model.say("nothing is told about these hosts; a demo has a line for each", now);
            } else {
                model.overlay = Overlay::Legend;
            }
        }
        Action::Back => back(model, now),
        Action::Help => model.overlay = Overlay::Help { search: Input::default() },
        Action::Redraw => model.from_scratch = true,
        Action::Suspend => why_no_suspend(model, now),
        Action::Leave => return leave(model, now),
    }
    Vec::new()
}

/// Shows another screen. The log counts as looked at when it is left.
fn show(model: &mut Model, screen: Screen, now: Mono) {
    if model.screen == Screen::Log && screen != Screen::Log {
        let wall = model.wall(now);
        model.logbook.look(wall);
    }
    if screen == Screen::Log {
        model.unseen = 0;
    }
    model.screen = screen;
}

/// Ctrl-Z does nothing, and says why.
fn why_no_suspend(model: &mut Model, now: Mono) {
    model.say("ctrl-z is off: it would stop every fetch with the screen; f freezes the view, ! halts the crawl", now);
}

/// Esc: what lies over the table is closed already; back from another screen, else drops the filter, then
/// the marks.
fn back(model: &mut Model, now: Mono) {
    if model.screen != Screen::Hosts {
        show(model, Screen::Hosts, now);
    } else if !model.filter.is_empty() {
        model.set_filter(Filter::default(), now);
    } else if !model.marks.is_empty() {
        model.marks.clear();
    } else if model.log_open {
        model.log_open = false;
    } else if model.frozen.is_some() {
        model.thaw();
    }
}

/// Opens the dialog; when the crawl is over there is nothing to ask.
fn leave(model: &mut Model, now: Mono) -> Vec<Request> {
    if model.ended || matches!(model.totals.phase, Phase::Finished | Phase::Stopped) {
        model.say("leaving", now);
        return vec![Request::Drain];
    }
    model.overlay = Overlay::Leave;
    Vec::new()
}

/// Asks for a drain.
fn drain(model: &mut Model, now: Mono) -> Vec<Request> {
    model.drain_asked = true;
    model.say("draining: what is in flight ends, nothing new is sent; ctrl-c stops now", now);
    vec![Request::Drain]
}

/// Builds the request for a command.
fn request(model: &mut Model, command: Command, targets: Vec<HostId>, chosen_by: Clean) -> Request {
    Request::Act { ticket: model.ticket(command), command, targets, chosen_by }
}

/// A command on the targets; many are asked about first.
fn command(model: &mut Model, command: Command, words: &str, now: Mono) -> Vec<Request> {
    let (targets, chosen_by) = model.targets();
    on_targets(model, command, words, targets, chosen_by, now)
}

/// The same, for given targets.
fn on_targets(
    model: &mut Model,
    command: Command,
    words: &str,
    targets: Vec<HostId>,
    chosen_by: Clean,
    now: Mono,
) -> Vec<Request> {
    if targets.is_empty() {
        model.complain("no host is selected", now);
        return Vec::new();
    }
    if targets.len() <= CONFIRM_ABOVE {
        return vec![request(model, command, targets, chosen_by)];
    }
    let lines = vec![Clean::new(format!("{} hosts: {words}?", targets.len())), named(model, &targets)];
    model.overlay = Overlay::Confirm(Question { lines, command, targets, chosen_by });
    Vec::new()
}

/// Three names of many.
fn named(model: &Model, targets: &[HostId]) -> Clean {
    let names: Vec<_> =
        targets.iter().take(3).filter_map(|id| model.latest(*id)).map(|row| row.name.as_str()).collect();
    let more = targets.len().saturating_sub(names.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    Clean::new(format!("{}{rest}", names.join(", ")))
}

/// Pauses all if any is not paused, else resumes all.
fn pause(model: &mut Model, now: Mono) -> Vec<Request> {
    let (targets, _) = model.targets();
    let any_goes = targets.iter().any(|id| model.latest(*id).is_none_or(|row| row.view.pause.is_none()));
    if any_goes {
        command(model, Command::Pause(Lifetime::Default), "pause", now)
    } else {
        command(model, Command::Resume, "resume", now)
    }
}

/// An override relative to the effective rate.
fn times(model: &mut Model, factor: f64, now: Mono) -> Vec<Request> {
    let spec = OverrideSpec { rate: Some(Amount::Times(factor)), capacity: None, lifetime: Lifetime::Default };
    command(model, Command::Override(spec), &format!("override the rate, x{factor}"), now)
}

/// Ends holds; asks first if a server asked for one.
fn wake(model: &mut Model, now: Mono) -> Vec<Request> {
    let (targets, chosen_by) = model.targets();
    wake_targets(model, targets, chosen_by, now)
}

/// The same, for given targets.
fn wake_targets(model: &mut Model, targets: Vec<HostId>, chosen_by: Clean, now: Mono) -> Vec<Request> {
    let engine_now = model.engine_now(now);
    let asked: Vec<_> = targets
        .iter()
        .copied()
        .filter(|id| {
            let hold = model.latest(*id).and_then(|row| row.view.hold).filter(|hold| hold.until > engine_now);
            hold.is_some_and(|hold| hold.reason.server_asked())
        })
        .collect();
    if asked.is_empty() {
        return on_targets(model, Command::Wake(WakeEven::Own), "wake now", targets, chosen_by, now);
    }
    let which = if asked.len() == 1 { "a server".to_owned() } else { format!("{} servers", asked.len()) };
    let lines = vec![
        Clean::new(format!("wake {}: {which} asked us to wait. Send all the same?", plural(targets.len()))),
        named(model, &asked),
    ];
    model.overlay = Overlay::Confirm(Question { lines, command: Command::Wake(WakeEven::Asked), targets, chosen_by });
    Vec::new()
}

/// Copies the cursor's host.
fn copy(model: &mut Model, now: Mono) {
    match model.cursor.and_then(|id| model.latest(id)).map(|row| row.name.clone()) {
        Some(name) => {
            model.say(format!("copied {name} (if the terminal allows it)"), now);
            model.wishes.push(Wish::Copy(name));
        }
        None => model.complain("no host is selected", now),
    }
}

/// `1 host`, `3 hosts`.
fn plural(count: usize) -> String {
    if count == 1 { String::from("1 host") } else { format!("{count} hosts") }
}

/// Halts at once; going on is asked about.
fn halt(model: &mut Model) -> Vec<Request> {
    if !model.totals.halted {
        return vec![request(model, Command::Halt, Vec::new(), Clean::default())];
    }
    let lines = vec![
        Clean::new(format!("let the whole crawl go on? {} URLs are queued", model.totals.urls_pending)),
        Clean::new(format!("on {}; pauses, holds and overrides stand", plural(model.hosts()))),
    ];
    let question = Question { lines, command: Command::GoOn, targets: Vec::new(), chosen_by: Clean::default() };
    model.overlay = Overlay::Confirm(question);
    Vec::new()
}

/// Puts the cursor on the first position whose host needs a human.
fn find_alert(model: &mut Model, positions: impl Iterator<Item = usize>, now: Mono) {
    let urgent = |kind| match kind {
        ConcernKind::Stuck | ConcernKind::Angry | ConcernKind::Trap | ConcernKind::Tail | ConcernKind::Forgotten => {
            true
        }
    };
    let mut positions = positions;
    let found = positions.find(|position| {
        model.row_at(*position).and_then(|row| row.view.concern).is_some_and(|concern| urgent(concern.kind))
    });
    match found {
        Some(position) => model.move_to(position),
        None => model.say("no other host needs you", now),
    }
}

/// Keys that close an overlay.
fn closes(key: Key) -> bool {
    key.code == KeyCode::Esc || key == Key::char('q')
}

/// Help: typing searches, Esc drops the search, then closes.
fn in_help(model: &mut Model, mut search: Input, key: Key, keymap: &Keymap) -> Vec<Request> {
    let empty = search.value().is_empty();
    let close = match key.code {
        KeyCode::Esc if !empty => {
            search = Input::default();
            false
        }
        KeyCode::Esc | KeyCode::Enter => true,
        _ if empty && keymap.action(key) == Some(Action::Help) => true,
        _ if empty && key == Key::char('q') => true,
        _ => {
            edit(&mut search, key);
            false
        }
    };
    if !close {
        model.overlay = Overlay::Help { search };
    }
    Vec::new()
}

/// The override prompt: Enter does nothing while the text is no override.
fn in_override(model: &mut Model, mut input: Input, targets: Vec<HostId>, key: Key, now: Mono) -> Vec<Request> {
    match key.code {
        KeyCode::Esc => return Vec::new(),
        KeyCode::Enter => {}
        _ => edit(&mut input, key),
    }
    let spec = super::spec::parse(input.value(), model.wall(now));
    let (KeyCode::Enter, Ok(spec)) = (key.code, spec) else {
        model.overlay = Overlay::Override { input, targets };
        return Vec::new();
    };
    let (marked, chosen_by) = model.targets();
    let chosen_by = if marked == targets { chosen_by } else { named(model, &targets) };
    let words = format!("override {}", input.value().trim());
    on_targets(model, Command::Override(spec), &words, targets, chosen_by, now)
}

/// The filter prompt filters as one types; the last valid filter stays on an error.
fn in_filter(model: &mut Model, mut input: Input, key: Key, now: Mono) -> Vec<Request> {
    if model.screen == Screen::Log {
        return in_log::in_filter(model, input, key);
    }
    match key.code {
        KeyCode::Esc => {
            model.filter_error = None;
            model.set_filter(Filter::default(), now);
            return Vec::new();
        }
        KeyCode::Enter => {
            if model.filter_error.is_some() {
                model.overlay = Overlay::Filter { input };
            } else if input.value().is_empty() {
                // An empty prompt means: no filter.
                model.set_filter(Filter::default(), now);
            }
            return Vec::new();
        }
        _ => {}
    }
    let before = input.value().to_owned();
    edit(&mut input, key);
    if input.value() != before {
        match Filter::parse(input.value()) {
            Ok(filter) => {
                model.filter_error = None;
                model.set_filter(filter, now);
            }
            Err(error) => model.filter_error = Some(Clean::new(error.to_string())),
        }
    }
    model.overlay = Overlay::Filter { input };
    Vec::new()
}

/// A question: `y` is yes; Enter, Esc, n and q are no; anything else leaves it open.
fn in_confirm(model: &mut Model, question: Question, key: Key, now: Mono) -> Vec<Request> {
    match key.code {
        KeyCode::Char('y' | 'Y') if !key.ctrl && !key.alt => {
            vec![request(model, question.command, question.targets, question.chosen_by)]
        }
        KeyCode::Enter | KeyCode::Esc | KeyCode::Char('n' | 'N' | 'q') => {
            model.say("cancelled, nothing was changed", now);
            Vec::new()
        }
        _ => {
            model.overlay = Overlay::Confirm(question);
            Vec::new()
        }
    }
}

/// The dialog before leaving.
fn in_leave(model: &mut Model, key: Key, now: Mono) -> Vec<Request> {
    match key.code {
        KeyCode::Char('d' | 'D') if !key.ctrl && !key.alt => drain(model, now),
        KeyCode::Char('n' | 'N') if !key.ctrl && !key.alt => {
            model.drain_asked = true;
            model.say("stopping now: what is in flight is requeued", now);
            vec![Request::Stop]
        }
        KeyCode::Esc | KeyCode::Enter | KeyCode::Char('c' | 'C' | 'q') => Vec::new(),
        _ => {
            model.overlay = Overlay::Leave;
            Vec::new()
        }
    }
}

/// The menu of sort keys.
fn in_sort(model: &mut Model, at: usize, key: Key, now: Mono) -> Vec<Request> {
    let last = SortKey::ALL.len() - 1;
    let chosen = match key.code {
        KeyCode::Esc | KeyCode::Char('q') => return Vec::new(),
        KeyCode::Up | KeyCode::Char('k') => {
            model.overlay = Overlay::Sort { at: at.checked_sub(1).unwrap_or(last) };
            return Vec::new();
        }
        KeyCode::Down | KeyCode::Char('j' | 's') => {
            model.overlay = Overlay::Sort { at: if at >= last { 0 } else { at + 1 } };
            return Vec::new();
        }
        KeyCode::Enter => SortKey::ALL.get(at).copied(),
        KeyCode::Char(digit) => {
            digit.to_digit(10).and_then(|n| n.checked_sub(1)).and_then(|n| SortKey::ALL.get(n as usize)).copied()
        }
        _ => None,
    };
    match chosen {
        Some(by) => {
            model.order.reversed = false;
            model.order.change(by, &model.rows);
            model.at_home = model.at == 0;
            model.say(format!("sorted by {}", by.as_str()), now);
        }
        None => model.overlay = Overlay::Sort { at },
    }
    Vec::new()
}

/// Edits a line. Control characters never get in; at most [`PROMPT_MAX`] characters.
pub(super) fn edit(input: &mut Input, key: Key) {
    let request = match (key.code, key.ctrl, key.alt) {
        (KeyCode::Char(c), false, false) if !c.is_control() && input.value().chars().count() < PROMPT_MAX => {
            InputRequest::InsertChar(c)
        }
        (KeyCode::Backspace, _, false) | (KeyCode::Char('h'), true, false) => InputRequest::DeletePrevChar,
        (KeyCode::Delete, _, _) => InputRequest::DeleteNextChar,
        (KeyCode::Left, true, _) => InputRequest::GoToPrevWord,
        (KeyCode::Right, true, _) => InputRequest::GoToNextWord,
        (KeyCode::Left, ..) => InputRequest::GoToPrevChar,
        (KeyCode::Right, ..) => InputRequest::GoToNextChar,
        (KeyCode::Home, ..) | (KeyCode::Char('a'), true, false) => InputRequest::GoToStart,
        (KeyCode::End, ..) | (KeyCode::Char('e'), true, false) => InputRequest::GoToEnd,
        (KeyCode::Char('w'), true, false) | (KeyCode::Backspace, _, true) => InputRequest::DeletePrevWord,
        (KeyCode::Char('u'), true, false) => InputRequest::DeleteFromStart,
        (KeyCode::Char('k'), true, false) => InputRequest::DeleteTillEnd,
        _ => return,
    };
    input.handle(request);
}

/// The request that makes the engine look at the host shown closely, if it does not yet.
pub fn focus(model: &mut Model) -> Option<Request> {
    let wanted = model.host_in_focus();
    if wanted == model.focus_asked {
        return None;
    }
    model.focus_asked = wanted;
    match wanted.and_then(|id| model.latest(id).map(|row| row.view.clone())) {
        Some(view) => model.history.look_at(&view),
        None => model.focus = None,
    }
    Some(Request::Focus(wanted))
}

/// Puts out a word on the footer that is old enough. Gives whether anything changed.
pub fn tick(model: &mut Model, now: Mono) -> bool {
    let old = |since: Mono| now.since(since) >= Duration::max(super::model::NOTE_STAYS, Duration::from_secs(1));
    let over = model.note.as_ref().is_some_and(|note| old(note.since));
    if over {
        model.note = None;
    }
    over
}

#[cfg(test)]
mod tests;
