//! Keys on the log screen. It has no cursor of hosts, so acts on hosts are not for it: Enter goes to the host.

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
    let page = isize::try_from(model.page.max(1)).unwrap_or(isize::MAX);
    let step = match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::HalfUp => -(page + 1) / 2,
        Action::HalfDown => (page + 1) / 2,
        Action::Top => isize::MIN,
        Action::Bottom => isize::MAX,
        Action::NextAlert | Action::PrevAlert => {
            if !model.logbook.find_alert(action == Action::NextAlert, &model.log) {
                model.say("no other alert in the log", now);
            }
            0
        }
        // `w` asks who, here.
        Action::Wake => {
            model.logbook.next_who();
            0
        }
        Action::Open => {
            open(model, now);
            0
        }
        Action::Copy => {
            copy(model, now);
            0
        }
        Action::Back if model.logbook.is_filtered() => {
            model.logbook.show_all();
            0
        }
        Action::Pause
        | Action::Override
        | Action::Halve
        | Action::Raise
        | Action::Auto
        | Action::Reset
        | Action::Mark
        | Action::MarkAll => {
            model.say("acts are for hosts: enter goes to the host of this line", now);
            0
        }
        Action::Sort | Action::Reverse | Action::Freeze | Action::Log | Action::PrevHost | Action::NextHost => 0,
        _ => return None,
    };
    if step != 0 {
        model.logbook.go(step, &model.log);
    }
    Some(Vec::new())
}

/// Goes to the host of the selected line.
fn open(model: &mut Model, now: Mono) {
    let host = model.logbook.selected(&model.log).map(|(_, (_, line))| line.host.clone()).unwrap_or_default();
    let found = model.rows.iter().flatten().find(|row| row.name == host).map(|row| row.view.id);
    let Some(id) = found.filter(|_| !host.as_str().is_empty()) else {
        model.say("this line is about no single host", now);
        return;
    };
    if !model.order.shown.contains(&id.0) {
        model.set_filter(Filter::default(), now);
    }
    if let Some(position) = model.order.shown.iter().position(|index| *index == id.0) {
        model.move_to(position);
        show(model, Screen::Host, now);
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
