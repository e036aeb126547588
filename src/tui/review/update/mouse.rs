//! The mouse in the review: the wheel moves, a click selects a row, a tab or a moment, or sorts by a heading.

use super::{Effect, act, go};
use crate::control::Mono;
use crate::tui::key::KeyCode;
use crate::tui::keymap::{Action, Keymap};
use crate::tui::review::model::{Review, Tab};
use crate::tui::review::view;

/// A click or a notch, while nothing lies over the screen.
pub(super) fn act_on(model: &mut Review, what: KeyCode, keymap: &Keymap, now: Mono) -> Vec<Effect> {
    if model.prompt.is_some() || model.help.is_some() {
        return Vec::new();
    }
    let on_timeline = model.log.is_none() && model.tab == Tab::Timeline;
    let notch = |model: &mut Review, action, times| (0..times).flat_map(|_| act(model, action, now)).collect();
    match what {
        KeyCode::WheelUp if on_timeline => act(model, Action::Left, now),
        KeyCode::WheelDown if on_timeline => act(model, Action::Right, now),
        KeyCode::WheelUp => notch(model, Action::Up, 3),
        KeyCode::WheelDown => notch(model, Action::Down, 3),
        KeyCode::Click(column, row) => {
            click(model, (column, row), keymap, now);
            Vec::new()
        }
        _ => Vec::new(),
    }
}

fn click(model: &mut Review, (column, row): (u16, u16), keymap: &Keymap, now: Mono) {
    if view::is_too_small(model.size) {
        return;
    }
    if row == view::TABS_ROW {
        if let Some(tab) = view::tab_at(model, keymap, column) {
            go(model, tab, now);
        }
        return;
    }
    if model.log.is_none() && model.tab == Tab::Timeline {
        if row < model.size.1.saturating_sub(1)
            && let Some(moment) = model.picture().moment_at(model.size.0, column)
        {
            model.plot.cursor = Some(moment);
        }
        return;
    }
    if model.log.is_none() && model.tab == Tab::Hosts && row + 1 == view::first_list_row(model) {
        let sort = view::sort_at(model.size.0, column);
        (model.reversed, model.sort) = (sort == model.sort && !model.reversed, sort);
        return;
    }
    let Some(line) = row.checked_sub(view::first_list_row(model)).map(usize::from) else { return };
    let (page, count) = (model.page(), model.list_len());
    if line >= page {
        return;
    }
    let (list, count) = match &mut model.log {
        Some(log) => (&mut log.list, log.entries.len()),
        None => (model.list(), count),
    };
    if list.top + line < count {
        list.at = list.top + line;
    }
}
