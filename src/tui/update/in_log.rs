//! Keys on the log screen. It has no cursor of hosts, so acts on hosts are not for it: Enter goes to the host,
//! and the timeline opened from there or from here shows the moment of the line.

use tui_input::Input;

use super::{edit, show};
use crate::control::Mono;
use crate::tui::filter::Filter;
use crate::tui::key::{Key, KeyCode};
use crate::tui::keymap::Action;
use crate::tui::model::{Model, Overlay, Screen, Wish};
use crate::watch::Request;

/// What a key means here; `None` = what it means everywhere.
pub(super) fn act(model: &mut Model, action: Action, now: Mono) -> Option<Vec<Request>> {
    if let Some(rows) = action.rows(model.page) {
        model.logbook.go(rows, &model.log);
        return Some(Vec::new());
    }
    match action {
        Action::NextAlert | Action::PrevAlert => {
            if !model.logbook.find_alert(action == Action::NextAlert, &model.log) {
                model.say("no other alert in the log", now);
            }
        }
        Action::Who => model.logbook.next_who(),
        Action::Open => open(model, now),
        Action::Copy => copy(model, now),
        Action::Back if model.logbook.is_filtered() => model.logbook.show_all(),
        _ => return None,
    }
    Some(Vec::new())
}

/// Goes to the host of the selected line; the timeline opened there shows the line's moment.
fn open(model: &mut Model, now: Mono) {
    let selected = model.logbook.selected(&model.log).map(|(_, (_, line))| (line.host.clone(), line.wall));
    let Some((host, wall)) = selected else { return };
    let found = model.rows.iter().flatten().find(|row| row.name == host).map(|row| row.view.id);
    let Some(id) = found.filter(|_| !host.as_str().is_empty()) else {
        model.say("this line is about no single host; the timeline shows its moment", now);
        return;
    };
    if !model.order.shown.contains(&id.0) {
        model.set_filter(Filter::default(), now);
    }
    if let Some(position) = model.order.shown.iter().position(|index| *index == id.0) {
        model.move_to(position);
        show(model, Screen::Host, now);
        model.moment = Some(wall);
        model.say(format!("{host}; the timeline opens at {}", wall.time_of_day()), now);
    }
}

/// Copies the host of the selected line.
fn copy(model: &mut Model, now: Mono) {
    let host = model.logbook.selected(&model.log).map(|(_, (_, line))| line.host.clone()).unwrap_or_default();
    if host.as_str().is_empty() {
        model.say("this line is about no single host", now);
    } else {
        model.say(format!("copied {host} (if the terminal allows it)"), now);
        model.wishes.push(Wish::Copy(host));
    }
}

/// The filter prompt of the log: words that a line must hold.
pub(super) fn in_filter(model: &mut Model, mut input: Input, key: Key) -> Vec<Request> {
    match key.code {
        KeyCode::Esc => {
            model.logbook.filter("");
            return Vec::new();
        }
        KeyCode::Enter => {
            model.logbook.filter(input.value());
            return Vec::new();
        }
        _ => edit(&mut input, key),
    }
    model.logbook.filter(input.value());
    model.overlay = Overlay::Filter { input };
    Vec::new()
}
