//! Keys while something lies over the screen: prompts, menus, questions and the help.

use tui_input::{Input, InputRequest};

use super::{PROMPT_MAX, drain, in_log, named, on_targets, request};
use crate::control::{Command, HostId, Mono};
use crate::text::Clean;
use crate::tui::filter::Filter;
use crate::tui::key::{Key, KeyCode};
use crate::tui::keymap::Keymap;
use crate::tui::model::{Model, Overlay, Question, Screen};
use crate::tui::order::SortKey;
use crate::tui::view::Help;
use crate::watch::Request;

/// Keys that close an overlay.
pub(super) fn closes(key: Key) -> bool {
    key.code == KeyCode::Esc || key == Key::char('q')
}

/// Help: typing searches, Esc drops the search, then closes.
pub(super) fn in_help(model: &mut Model, help: Help, key: Key, keymap: &Keymap) -> Vec<Request> {
    let place = model.place();
    if let Some(help) = help.take(key, keymap.action(key, place), (keymap, place), model.size) {
        model.overlay = Overlay::Help(help);
    }
    Vec::new()
}

/// The override prompt: Enter does nothing while the text is no override.
pub(super) fn in_override(
    model: &mut Model,
    mut input: Input,
    targets: Vec<HostId>,
    key: Key,
    now: Mono,
) -> Vec<Request> {
    match key.code {
        KeyCode::Esc => return Vec::new(),
        KeyCode::Enter => {}
        _ => edit(&mut input, key),
    }
    let spec = crate::tui::spec::parse(input.value(), model.wall(now));
    let (KeyCode::Enter, Ok(spec)) = (key.code, spec) else {
        model.overlay = Overlay::Override { input, targets };
        return Vec::new();
    };
    let (marked, chosen_by) = model.targets();
    let chosen_by = if marked == targets { chosen_by } else { named(model, &targets) };
    let words = format!("override {}", input.value().trim());
    on_targets(model, Command::Override(spec), &words, targets, chosen_by, now)
}

/// The filter prompt filters as one types. While what is typed is no filter, the one from before the prompt is in
/// force: the beginning of a term (`rate` of `rate<1`) is a filter by chance, and would leave no host.
pub(super) fn in_filter(model: &mut Model, mut input: Input, key: Key, now: Mono) -> Vec<Request> {
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
            Err(error) => {
                if model.filter_error.replace(Clean::new(error.to_string())).is_none() {
                    let valid = last_valid(input.value()).unwrap_or_else(|| model.filter_before.clone());
                    model.set_filter(valid, now);
                }
            }
        }
    }
    model.overlay = Overlay::Filter { input };
    Vec::new()
}

/// The filter of the terms before the one that is wrong; `None` = there are none. (What of that term was valid before
/// it went wrong is no filter: on its way to `rate<1` it is a name that no host has.)
fn last_valid(typed: &str) -> Option<Filter> {
    let (before, _) = typed.trim_end().rsplit_once(' ')?;
    Filter::parse(before).ok().filter(|_| !before.trim().is_empty())
}

/// A question: `y` is yes; Enter, Esc, n and q are no; anything else leaves it open.
pub(super) fn in_confirm(model: &mut Model, question: Question, key: Key, now: Mono) -> Vec<Request> {
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
pub(super) fn in_leave(model: &mut Model, key: Key, now: Mono) -> Vec<Request> {
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
pub(super) fn in_sort(model: &mut Model, at: usize, key: Key, now: Mono) -> Vec<Request> {
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
pub(in crate::tui) fn edit(input: &mut Input, key: Key) {
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
