//! The table with its title.

use std::time::Duration;

use super::Scene;
use crate::control::HoldReason;
use crate::control::adaptive::Basis;
use crate::tui::format::{age, count, end_cut, rate};
use crate::tui::model::Model;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;
use crate::tui::widget::host_table::{self, Columns, Context};

/// Draws title, headings (if there is a row for them) and rows.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>, heading: u16) {
    let model = scene.model;
    title(scene, brush);
    let width = brush.width();
    let columns = Columns::fit(width);
    if heading > 0 {
        host_table::heading(brush, 1, columns);
    }
    let top = 1 + heading;
    let height = brush.height().saturating_sub(top);
    let now = model.shown_now(scene.now);
    // Wall time that belongs to the time shown, so that a frozen view tells the moments it was frozen at.
    let since = model.engine_now(scene.now).since(now);
    let wall = crate::clock::Wall(
        model.wall(scene.now).0.saturating_sub(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
    );
    let context = Context { top: model.top, cursor: model.cursor, marks: &model.marks, now, wall };
    let mut rows = brush.part(0, top, width, height);
    let drawn = host_table::draw(&mut rows, model, columns, &context);
    if drawn == 0 {
        let words = if model.rows.is_empty() { "no hosts yet" } else { "no host passes the filter; esc drops it" };
        rows.text(4, 0, words, Meaning::Dim);
    }
    legend(scene, &mut rows, drawn + 1);
}

/// The lines about simulated hosts, where the table leaves room for all of them.
fn legend(scene: &Scene<'_>, brush: &mut Brush<'_>, top: u16) {
    let lines = &scene.model.legend;
    let room = usize::from(brush.height().saturating_sub(top));
    if lines.is_empty() || room < lines.len() {
        return;
    }
    for (y, line) in (top..brush.height()).zip(lines) {
        let width = usize::from(brush.width().saturating_sub(5));
        let line = told(scene.model, line.as_str(), brush.theme().glyphs.dot);
        let line = end_cut(&line, width, brush.theme().glyphs.ellipsis);
        brush.text(4, y, &line, Meaning::Dim);
    }
}

/// Below this a rate is told as one request in so much time.
const SLOW: f64 = 0.1;

/// A line about a simulated host, and what is known of its hidden limit, if it met one. A host that turned us away is
/// asked rarely, which is nothing that was found.
pub(super) fn told(model: &Model, line: &str, dot: &str) -> String {
    let name = line.split_whitespace().next().unwrap_or_default();
    let Some(view) = model.rows.iter().flatten().find(|row| row.name.as_str() == name).map(|row| &row.view) else {
        return line.to_owned();
    };
    if view.hold.is_some_and(|hold| hold.reason == HoldReason::Refused) {
        return format!("{line} {dot} turned us away: one request at a time asks");
    }
    match view.adaptive.rate {
        now if view.cold || now >= view.original.rate => line.to_owned(),
        now if now < SLOW => {
            let apart = Duration::try_from_secs_f64((1.0 / now).round()).unwrap_or(Duration::MAX);
            format!("{line} {dot} asked once in {} for now", age(apart))
        }
        now if view.why.is_some_and(|why| !matches!(why.basis, Basis::Measured { .. })) => {
            format!("{line} {dot} at {}/s, a guess", rate(now))
        }
        now => format!("{line} {dot} found {}/s", rate(now)),
    }
}

/// `hosts N`, the order, marks and filter; a banner while the view stands still.
fn title(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let number = count(model.hosts() as u64, glyphs.thousands);
    let reversed = if model.order.reversed { glyphs.up } else { glyphs.sorted };
    let sorted = if brush.width() < 80 { "" } else { "sorted by " };
    let mut left = format!("hosts {number} {} {sorted}{} {reversed}", glyphs.dot, model.order.by.as_str());
    if model.order.is_held(scene.now) {
        left.push_str(&format!(" {} order held", glyphs.dot));
    }
    if !model.marks.is_empty() {
        left.push_str(&format!(" {} {} marked", glyphs.dot, count(model.marks.len() as u64, glyphs.thousands)));
    }
    let right = if model.frozen.is_some() {
        String::from("FROZEN: the crawl goes on")
    } else if !model.filter.is_empty() {
        let shown = count(model.order.shown.len() as u64, glyphs.thousands);
        let text = end_cut(model.filter.text().as_str(), 30, glyphs.ellipsis);
        format!("filter {text} {} {shown} shown", glyphs.dot)
    } else if !model.legend.is_empty() {
        format!("{} about these hosts", scene.keymap.key_of(crate::tui::keymap::Action::Legend))
    } else {
        String::from("no filter")
    };
    brush.rule(0, &left, &right);
    if model.frozen.is_some() {
        brush.style_row(0, Meaning::Trouble);
    }
}
