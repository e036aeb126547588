//! The timeline in the dashboard: the same picture as in the review, of the run as it goes on.
//!
//! The engine sends its counts only while this screen is open. What acts on hosts does nothing here: the table's
//! cursor cannot be seen.

use super::format::{end_cut, middle_cut};
use super::keymap::Action;
use super::model::{Model, Screen};
use super::paint::Brush;
use super::plot::Plot;
use super::review::view::{bad_words, counts_line, picture_rows};
use super::theme::Meaning;
use super::update;
use super::view::Scene;
use super::widget::timeline::{Picture, cells, moment};
use crate::control::{HostId, Mono};
use crate::journal::timeline::bins::Bins;
use crate::watch::Request;

/// Rows of the rate over time, where there is room for it.
const RATE_ROWS: u16 = 4;

/// Opens the screen, or closes it. From a line of the log it opens at that line's moment.
pub(super) fn toggle(model: &mut Model) -> Vec<Request> {
    if model.plot.take().is_some() {
        model.timeline = None;
        return vec![Request::HideTimeline];
    }
    let cursor = match model.screen {
        Screen::Log => model.logbook.selected(&model.log).map(|(_, (_, line))| line.wall),
        Screen::Hosts | Screen::Host => model.moment,
    };
    model.plot = Some(Plot { cursor, ..Plot::default() });
    vec![Request::ShowTimeline]
}

/// What a key means on this screen; `None` = what it means everywhere.
pub(super) fn act(model: &mut Model, action: Action, now: Mono) -> Option<Vec<Request>> {
    match action {
        Action::Timeline | Action::Back => return Some(toggle(model)),
        Action::Log => return Some(to_the_log(model)),
        Action::Open => return Some(to_the_moment(model, now)),
        Action::Hosts | Action::LogScreen => {
            let mut requests = toggle(model);
            requests.extend(update::act(model, action, now));
            return Some(requests);
        }
        _ => {}
    }
    let width = cells(model.size.0);
    let nothing = Bins::default();
    let bins = model.timeline.clone();
    let bins = bins.as_deref().unwrap_or(&nothing);
    let plot = model.plot.as_mut()?;
    match action {
        Action::Left => plot.step(bins, width, -1),
        Action::Right => plot.step(bins, width, 1),
        Action::PageUp => plot.step(bins, width, -10),
        Action::PageDown => plot.step(bins, width, 10),
        Action::Top => plot.step(bins, width, i64::MIN / 2),
        Action::Bottom => plot.cursor = None,
        Action::ZoomIn if plot.zoom_in(bins, width) => {}
        Action::ZoomIn => model.say("one column is one bin: there is nothing finer", now),
        Action::ZoomOut => plot.zoom_out(),
        Action::ZoomAll => plot.zoom = 0,
        Action::Picture => plot.kind = plot.kind.next(),
        _ => return None,
    }
    Some(Vec::new())
}

/// Back to the table, with the large log.
fn to_the_log(model: &mut Model) -> Vec<Request> {
    model.log_open = true;
    model.unseen = 0;
    toggle(model)
}

/// The log's screen, on the newest line that is not after the cursor.
fn to_the_moment(model: &mut Model, now: Mono) -> Vec<Request> {
    let until = match (&model.timeline, &model.plot) {
        (Some(bins), Some(plot)) => Some(Picture { bins, plot }.cursor_span(model.size.0).1),
        _ => None,
    };
    let mut requests = toggle(model);
    requests.extend(update::act(model, Action::LogScreen, now));
    if let Some(until) = until {
        model.logbook.select_moment(until, &model.log);
    }
    requests
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
    let stands = scene.model.frozen.is_some();
    let title = if stands { "all hosts, FROZEN" } else { "all hosts, live" };
    let rows = picture_rows(&picture, brush, title, height);
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
    let follows = if plot.cursor.is_none() && !stands { "follows the newest" } else { "" };
    brush.rule(top, &format!("at cursor  {} {} {}", moment(from, false), glyphs.none, moment(to, false)), follows);
    counts_line(&picture, width, &mut brush.part(1, top + 1, width.saturating_sub(1), 1));
    let window = picture.window(width);
    let (first, last) = plot.under_cursor(bins, &window);
    let angriest = bins.angriest(first, last);
    let hosts = picture.hosts_at_cursor(width, glyphs.thousands);
    let x = brush.text(1, top + 2, &format!("{hosts}, "), Meaning::Text);
    if let Some((angry, row)) = angriest.and_then(|angry| Some((angry, scene.model.latest(HostId(angry.host))?))) {
        let about = if angry.estimated { "at most " } else { "" };
        let x = brush.text(x, top + 2, "angriest: ", Meaning::Text);
        let x = brush.clean(x, top + 2, &row.name, Meaning::Angry);
        let words = format!(" ({about}{})", bad_words(angry.count, glyphs.thousands));
        brush.text(x, top + 2, &words, Meaning::Text);
    } else {
        brush.text(x, top + 2, "nobody was angry here", Meaning::Dim);
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

#[cfg(test)]
mod tests;
