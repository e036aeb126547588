//! Keys become changes of the model and requests to the engine. Pure: no I/O, no clock, no terminal.

mod command;
mod in_log;
mod mouse;
mod prompts;
mod scroll;

use std::time::Duration;

use tui_input::Input;

use super::filter::Filter;
use super::key::{Key, KeyCode};
use super::keymap::{Action, Keymap, Place};
use super::live;
use super::model::{Model, Overlay, Part, Question, Screen, Wish};
use super::order::SortKey;
use super::view::Help;
use crate::control::{Amount, Command, ConcernKind, HostId, Lifetime, Mono, OverrideSpec, WakeEven};
use crate::text::Clean;
use crate::watch::{Phase, Request};

pub use command::{Prompt, preview};
pub(super) use prompts::edit;
use prompts::{closes, in_confirm, in_filter, in_help, in_leave, in_override, in_sort};

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
    let place = model.place();
    match keymap.action(key, place) {
        Some(action @ (Action::Redraw | Action::Suspend)) if !types => return act(model, action, now),
        _ => {}
    }
    match std::mem::take(&mut model.overlay) {
        Overlay::None => match keymap.action(key, place) {
            Some(action) => act(model, action, now),
            None => {
                elsewhere(model, key, keymap, now);
                Vec::new()
            }
        },
        Overlay::Help(help) => in_help(model, help, key, keymap),
        Overlay::Legend => {
            if !closes(key) && keymap.action(key, place) != Some(Action::Legend) && key.code != KeyCode::Enter {
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

/// Does what a key asks for.
pub fn act(model: &mut Model, action: Action, now: Mono) -> Vec<Request> {
    let here = match model.place() {
        Place::Timeline => live::act(model, action, now),
        Place::Log => in_log::act(model, action, now),
        _ => scroll::act(model, action),
    };
    if let Some(requests) = here {
        return requests;
    }
    let last = model.order.shown.len().saturating_sub(1);
    let at = model.at;
    if let Some(rows) = action.rows(model.page) {
        model.move_to(at.saturating_add_signed(rows).min(last));
        return Vec::new();
    }
    match action {
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
            if model.screen == Screen::Host {
                // It chooses rows of the table: there one sees what it does.
                show(model, Screen::Hosts, now);
            }
            model.filter_error = None;
            model.filter_before = model.filter.clone();
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
        Action::Focus => scroll::next_part(model, now),
        Action::Legend => {
            if model.legend.is_empty() {
                model.say("nothing is told about these hosts; a demo has a line for each", now);
            } else {
                model.overlay = Overlay::Legend;
            }
        }
        Action::Back => back(model, now),
        Action::Help => model.overlay = Overlay::Help(Help::default()),
        Action::Redraw => model.from_scratch = true,
        Action::Suspend => why_no_suspend(model, now),
        Action::Leave => return leave(model, now),
        // These moved, above.
        Action::Up
        | Action::Down
        | Action::PageUp
        | Action::PageDown
        | Action::HalfUp
        | Action::HalfDown
        | Action::Top
        | Action::Bottom
        // These are for the log, the timeline and the review alone.
        | Action::Who
        | Action::Left
        | Action::Right
        | Action::FarLeft
        | Action::FarRight
        | Action::ZoomIn
        | Action::ZoomOut
        | Action::ZoomAll
        | Action::Picture
        | Action::ShowTimeline
        | Action::ShowHosts
        | Action::ShowDecisions
        | Action::ShowActs
        | Action::ShowExport
        | Action::ShowCompare
        | Action::NextTab
        | Action::PrevTab
        | Action::Mouse => {}
    }
    Vec::new()
}

/// A key that means nothing here, but something on the table: says so.
fn elsewhere(model: &mut Model, key: Key, keymap: &Keymap, now: Mono) {
    if keymap.action(key, Place::Hosts).is_none() {
        return;
    }
    match model.place() {
        Place::Log => model.say("acts are for hosts: enter goes to the host of this line", now),
        Place::Timeline => model.say("that acts on hosts: esc goes back to them", now),
        _ => {}
    }
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
    if screen != model.screen {
        (model.unfolded, model.moment, model.part) = (None, None, Part::Table);
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
    if model.unfolded.is_some() {
        model.unfolded = None;
    } else if model.part != Part::Table {
        (model.part, model.log_top) = (Part::Table, 0);
    } else if model.screen != Screen::Hosts {
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
            let Some(view) = model.latest(*id).map(|row| &row.view) else { return false };
            let hold = view.hold.filter(|hold| hold.until > engine_now);
            view.paced.is_some() || hold.is_some_and(|hold| hold.reason.server_asked())
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
        ConcernKind::Stuck | ConcernKind::Angry | ConcernKind::SharedLimit => true,
        ConcernKind::Trap | ConcernKind::Tail | ConcernKind::Forgotten => true,
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
