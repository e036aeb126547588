//! The timeline in the dashboard: the same picture as in the review, of the run as it goes on.
//!
//! The engine sends its counts only while this screen is open. What acts on hosts does nothing here: the table's
//! cursor cannot be seen.

use super::format::{count, end_cut, middle_cut};
use super::key::{Key, KeyCode};
use super::keymap::{Action, Keymap};
use super::model::Model;
use super::paint::Brush;
use super::plot::Plot;
use super::review::view::{counts_line, picture_rows};
use super::theme::Meaning;
use super::update;
use super::view::Scene;
use super::widget::timeline::{Picture, cells, moment};
use crate::control::{HostId, Mono};
use crate::watch::Request;

/// Rows of the rate over time, where there is room for it.
const RATE_ROWS: u16 = 4;

/// Opens the screen, or closes it.
pub(super) fn toggle(model: &mut Model) -> Vec<Request> {
    if model.plot.take().is_some() {
        model.timeline = None;
        return vec![Request::HideTimeline];
    }
    model.plot = Some(Plot::default());
    vec![Request::ShowTimeline]
}

/// A key on this screen.
pub(super) fn key(model: &mut Model, key: Key, keymap: &Keymap, now: Mono) -> Vec<Request> {
    match keymap.action(key) {
        Some(Action::Timeline | Action::Back) => return toggle(model),
        Some(Action::Log) => return to_the_log(model),
        Some(action @ (Action::Hosts | Action::LogScreen)) => {
            let mut requests = toggle(model);
            requests.extend(update::act(model, action, now));
            return requests;
        }
        Some(
            action @ (Action::Help
            | Action::Legend
            | Action::Leave
            | Action::Halt
            | Action::Undo
            | Action::Redo
            | Action::Freeze
            | Action::Redraw
            | Action::Suspend),
        ) => return update::act(model, action, now),
        _ => {}
    }
    if key.code == KeyCode::Enter {
        return to_the_log(model);
    }
    let width = cells(model.size.0);
    let (Some(plot), Some(bins)) = (&mut model.plot, &model.timeline) else { return Vec::new() };
    match key.code {
        KeyCode::Left | KeyCode::Char('h') => plot.step(bins, width, -1),
        KeyCode::Right | KeyCode::Char('l') => plot.step(bins, width, 1),
        KeyCode::PageUp => plot.step(bins, width, -10),
        KeyCode::PageDown => plot.step(bins, width, 10),
        KeyCode::Home | KeyCode::Char('g') => plot.step(bins, width, i64::MIN / 2),
        KeyCode::End | KeyCode::Char('G') => plot.cursor = None,
        KeyCode::Char('+' | '=') if plot.zoom_in(bins, width) => {}
        KeyCode::Char('+' | '=') => model.say("one column is one bin: there is nothing finer", now),
        KeyCode::Char('-') => plot.zoom_out(),
        KeyCode::Char('0') => plot.zoom = 0,
        KeyCode::Char('m') => plot.kind = plot.kind.next(),
        KeyCode::Char('1') => return toggle(model),
        _ if keymap.action(key).is_some() => {
            model.say("that acts on hosts: esc goes back to them", now);
        }
        _ => {}
    }
    Vec::new()
}

/// Back to the table, with the large log.
fn to_the_log(model: &mut Model) -> Vec<Request> {
    model.log_open = true;
    model.unseen = 0;
    toggle(model)
}

/// Draws the screen below the header.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>, plot: &Plot) {
    let glyphs = brush.theme().glyphs;
    let width = brush.width();
    let Some(bins) = &scene.model.timeline else {
        brush.rule(0, "timeline", "");
        brush.text(4, 1, "asking the engine for it", Meaning::Dim);
        return;
    };
    let picture = Picture { bins, plot };
    let height = brush.height();
    let rows = picture_rows(&picture, brush, "all hosts, live", height);
    if bins.is_empty() {
        return;
    }
    let mut top = rows + 3;
    if height >= 30 {
        brush.rule(top, "rate, requests/s", "");
        picture.rate(&mut brush.part(0, top + 1, width, RATE_ROWS));
        top += RATE_ROWS + 1;
    }
    let (from, to) = picture.cursor_span(width);
    let follows = if plot.cursor.is_none() { "follows the newest" } else { "" };
    brush.rule(top, &format!("at cursor  {} {} {}", moment(from, false), glyphs.none, moment(to, false)), follows);
    counts_line(&picture, width, &mut brush.part(1, top + 1, width.saturating_sub(1), 1));
    let window = picture.window(width);
    let (first, last) = plot.under_cursor(bins, &window);
    let angriest = bins.angriest(first, last);
    if let Some((angry, row)) = angriest.and_then(|angry| Some((angry, scene.model.latest(HostId(angry.host))?))) {
        let about = if angry.estimated { "at most " } else { "" };
        let x = brush.text(1, top + 2, "angriest: ", Meaning::Text);
        let x = brush.clean(x, top + 2, &row.name, Meaning::Angry);
        let words = format!(" ({about}{} refusals and errors)", count(u64::from(angry.count), glyphs.thousands));
        brush.text(x, top + 2, &words, Meaning::Text);
    } else {
        brush.text(1, top + 2, "nobody was angry here", Meaning::Dim);
    }
    let lines = scene.model.log.iter().filter(|line| line.wall >= from && line.wall < to);
    for (y, line) in (top + 3..height).zip(lines) {
        let host = if line.host.as_str().is_empty() { "all hosts" } else { line.host.as_str() };
        brush.text(1, y, &line.wall.time_of_day(), Meaning::Dim);
        brush.text(10, y, &middle_cut(host, 18, glyphs.ellipsis), Meaning::Text);
        let text = line.text.as_str().replace('→', glyphs.arrow);
        brush.text(29, y, &end_cut(&text, usize::from(width.saturating_sub(29)), glyphs.ellipsis), Meaning::Text);
    }
}

/// The keys of this screen.
pub(super) fn footer(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let keys = [
        (String::from("h l"), "move"),
        (String::from("+ - 0"), "zoom"),
        (String::from("m"), "picture"),
        (String::from("Enter"), "log"),
        (scene.keymap.key_of(Action::Freeze), "freeze"),
        (scene.keymap.key_of(Action::Timeline), "hosts"),
        (scene.keymap.key_of(Action::Leave), "leave"),
        (scene.keymap.key_of(Action::Help), "help"),
    ];
    let mut x = 1;
    for (key, words) in keys {
        x = brush.text(x, 0, &key, Meaning::Key) + 1;
        x = brush.text(x, 0, words, Meaning::Text) + 2;
    }
}

#[cfg(test)]
mod tests;
