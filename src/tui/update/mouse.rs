//! The mouse: the wheel moves, a click selects a row or sorts by a heading. It never acts on a host.

use crate::control::Mono;
use crate::tui::key::KeyCode;
use crate::tui::model::{Model, Overlay, Screen};
use crate::tui::view::table_width;
use crate::tui::widget::host_table::Columns;

/// Rows that one notch of the wheel moves.
const NOTCH: usize = 3;

/// A click or a notch, while nothing lies over the screen. The timeline has nothing to click on.
pub(super) fn act(model: &mut Model, what: KeyCode, now: Mono) {
    if !matches!(model.overlay, Overlay::None) || model.plot.is_some() {
        return;
    }
    let last = model.order.shown.len().saturating_sub(1);
    match (model.screen, what) {
        (Screen::Hosts, KeyCode::WheelUp) => model.move_to(model.at.saturating_sub(NOTCH)),
        (Screen::Hosts, KeyCode::WheelDown) => model.move_to(model.at.saturating_add(NOTCH).min(last)),
        (Screen::Log, KeyCode::WheelUp) => model.logbook.go(-3, &model.log),
        (Screen::Log, KeyCode::WheelDown) => model.logbook.go(3, &model.log),
        (Screen::Hosts, KeyCode::Click(column, row)) => click(model, column, row, now),
        _ => {}
    }
}

/// A click on the table.
fn click(model: &mut Model, column: u16, row: u16, now: Mono) {
    let layout = model.layout();
    let width = table_width(model.size.0);
    let headings = layout.header.saturating_add(1);
    if layout.tiny || column >= width {
        return;
    }
    if layout.heading > 0 && row == headings {
        let Some(by) = Columns::fit(width).sort_key_at(column) else { return };
        if model.order.by == by {
            model.order.reversed = !model.order.reversed;
            model.order.sort_now();
        } else {
            model.order.reversed = false;
            model.order.change(by, &model.rows);
        }
        model.say(format!("sorted by {}", by.as_str()), now);
        return;
    }
    let Some(line) = row.checked_sub(headings.saturating_add(layout.heading)).filter(|line| *line < layout.table)
    else {
        return;
    };
    let position = model.top.saturating_add(usize::from(line));
    if position < model.order.shown.len() {
        model.move_to(position);
    }
}
