//! One host closely: state, rates, buckets, robots.txt, codes, answers over time, what happened lately.
//!
//! The same function draws it as a screen of its own and beside the table: it takes the room there is,
//! and parts that do not fit give way, the least urgent first. Unfolded it has its full length, whatever the
//! room, and is scrolled.

mod answers;
mod flow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Scene;
use crate::control::Mono;
use crate::tui::format::{age, count, end_cut, span};
use crate::tui::model::Part;
use crate::tui::paint::Brush;
use crate::tui::sentences;
use crate::tui::theme::Meaning;
use crate::tui::widget::host_table::character;
use crate::watch::HostRow;

/// Rows of an unfolded detail at most: all parts at their longest, and [`crate::watch::FOCUS_MAX`] lines.
const ROWS_MAX: u16 = 160;

/// How many rows the parts have in a part of the screen this high.
struct Plan {
    rules: bool,
    advice: bool,
    chart: usize,
    endpoints: usize,
    codes: usize,
    scatter: usize,
    /// Whole sentences, in as many lines as they take.
    whole: bool,
}

impl Plan {
    /// All there is.
    const UNFOLDED: Self =
        Self { rules: true, advice: true, chart: 6, endpoints: 32, codes: 16, scatter: 16, whole: true };

    fn of(height: u16) -> Self {
        let (rules, advice, chart, endpoints, codes, scatter) = match height {
            ..12 => (false, false, 0, 0, 1, 0),
            12..17 => (true, false, 0, 0, 2, 0),
            17..24 => (true, true, 2, 0, 3, 0),
            24..32 => (true, true, 3, 2, 5, 0),
            32..40 => (true, true, 4, 4, 5, 5),
            _ => (true, true, 6, 8, 8, 8),
        };
        Self { rules, advice, chart, endpoints, codes, scatter, whole: false }
    }

    /// Lines of a sentence that gets so many if not all.
    fn lines(&self, most: usize) -> usize {
        if self.whole { usize::MAX } else { most }
    }
}

/// Writes line after line.
struct Pen<'a, 'b> {
    brush: &'a mut Brush<'b>,
    y: u16,
}

impl Pen<'_, '_> {
    fn line(&mut self, text: &str, meaning: Meaning) {
        let room = usize::from(self.brush.width().saturating_sub(2));
        let text = end_cut(text, room, self.brush.theme().glyphs.ellipsis);
        self.brush.text(2, self.y, &text, meaning);
        self.y = self.y.saturating_add(1);
    }

    /// A sentence in at most so many lines; what is more is cut.
    fn sentence(&mut self, text: &str, most: usize, meaning: Meaning) {
        let mut lines = wrap(text, usize::from(self.brush.width().saturating_sub(3)));
        let rest = lines.split_off(most.min(lines.len()));
        if let (Some(last), false) = (lines.last_mut(), rest.is_empty()) {
            *last = format!("{last} {}", rest.join(" "));
        }
        for line in lines {
            self.line(&line, meaning);
        }
    }

    fn rule(&mut self, plan: &Plan, left: &str, right: &str) {
        if plan.rules {
            self.brush.rule(self.y, left, right);
            self.y = self.y.saturating_add(1);
        }
    }
}

/// Draws title and parts. `alone` = a screen of its own.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>, alone: bool) {
    let model = scene.model;
    let Some(row) = model.row_at(model.at) else {
        brush.rule(0, "no host is selected", "");
        return;
    };
    let height = brush.height().saturating_sub(1);
    let width = brush.width();
    let Some(first) = model.unfolded else {
        title(scene, brush, row, alone, None);
        parts(scene, &mut brush.part(0, 1, width, height), &Plan::of(height), row);
        return;
    };
    let (whole, length) = unfold(scene, width, row);
    let first = u16::try_from(first).unwrap_or(u16::MAX).min(length.saturating_sub(height));
    let shown = format!("rows {} to {} of {length}", first + 1, length.min(first.saturating_add(height)));
    title(scene, brush, row, alone, Some(&shown));
    brush.part(0, 1, width, height).paste(&whole, first);
}

/// Rows that can be scrolled away when the detail is unfolded on a screen of this size.
pub(super) fn rows_to_scroll(scene: &Scene<'_>, (width, height): (u16, u16)) -> usize {
    let model = scene.model;
    let Some(row) = model.row_at(model.at) else { return 0 };
    usize::from(unfold(scene, width, row).1.saturating_sub(height))
}

/// The detail in its full length, and how long that is.
fn unfold(scene: &Scene<'_>, width: u16, row: &HostRow) -> (Buffer, u16) {
    let mut whole = Buffer::empty(Rect::new(0, 0, width, ROWS_MAX));
    let area = whole.area;
    let length = parts(scene, &mut Brush::new(&mut whole, area, scene.theme), &Plan::UNFOLDED, row);
    (whole, length.min(ROWS_MAX))
}

/// Draws the parts; gives how many rows they took.
fn parts(scene: &Scene<'_>, body: &mut Brush<'_>, plan: &Plan, row: &HostRow) -> u16 {
    let now = scene.model.shown_now(scene.now);
    let focus = scene.model.focus.as_deref().filter(|focus| focus.host == row.view.id);
    let mut pen = Pen { brush: body, y: 0 };
    state(&mut pen, plan, row, now);
    flow::rates(scene, &mut pen, plan, row, now);
    flow::robots(&mut pen, plan, row, focus, now);
    flow::bucket(&mut pen, plan, row, now);
    flow::group(&mut pen, plan, row, now);
    flow::endpoints(&mut pen, plan, row, focus, now);
    answers::codes(&mut pen, plan, &row.view);
    answers::scatter(scene, &mut pen, plan, &row.view, now);
    answers::recent(&mut pen, plan, focus);
    pen.y
}

/// The name, and its place in the order.
fn title(scene: &Scene<'_>, brush: &mut Brush<'_>, row: &HostRow, alone: bool, shown: Option<&str>) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let (glyph, _) = character(&row.view, glyphs);
    let place = format!(
        "{} of {} by {}",
        count(model.at as u64 + 1, glyphs.thousands),
        count(model.order.shown.len() as u64, glyphs.thousands),
        model.order.by.as_str()
    );
    let back = match (shown, alone, brush.width()) {
        (Some(shown), true, 80..) => format!("{shown} {} esc folds", glyphs.dot),
        (Some(shown), ..) => shown.to_owned(),
        (None, true, 100..) => format!("{place} {} < > prev, next  j unfolds  esc back", glyphs.dot),
        (None, true, 80..) => format!("{place} {} j unfolds  esc back", glyphs.dot),
        (None, true, _) => format!("{place} {} esc back", glyphs.dot),
        (None, false, _) if model.part == Part::Side => String::from("j unfolds"),
        (None, false, _) => String::new(),
    };
    let room = usize::from(brush.width()).saturating_sub(back.len() + 10).max(12);
    let name = crate::tui::format::middle_cut(row.name.as_str(), room, glyphs.ellipsis);
    brush.rule(0, &format!("{glyph} {name}"), &back);
    if !alone && model.part == Part::Side {
        brush.style_row(0, Meaning::Selected);
    }
}

/// What it does and why, what is queued, and what to do.
fn state(pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    let view = &row.view;
    let (_, meaning) = character(view, glyphs);
    let (word, reason) = sentences::state(view, now);
    let x = pen.brush.text(2, pen.y, word, if meaning == Meaning::Run { Meaning::Title } else { meaning });
    // The reason goes on in a second line where there is room for one.
    let room = usize::from(pen.brush.width().saturating_sub(x + 3));
    let lines = if plan.advice { wrap(&reason, room) } else { vec![end_cut(&reason, room, glyphs.ellipsis)] };
    for line in lines.iter().take(if plan.whole { 8 } else { 2 }) {
        pen.brush.text(x + 2, pen.y, line, Meaning::Text);
        pen.y = pen.y.saturating_add(1);
    }
    let ok = match view.last_ok {
        Some(at) => format!("last ok {} ago", age(now.since(at))),
        None => String::from("no success yet"),
    };
    let mut parts = vec![ok, format!("{} queued", count(view.queued, glyphs.thousands))];
    parts.push(format!("in-flight {}/{}", view.in_flight, view.connections));
    parts.extend(view.eta.filter(|_| view.queued > 0).map(|left| format!("ETA {}", span(left))));
    parts.extend(view.latency.map(|(median, p95)| {
        let p99 = view.latency_p99.map(|p99| format!(", p99 {}", millis(p99))).unwrap_or_default();
        format!("latency median {}, p95 {}{p99}", millis(median), millis(p95))
    }));
    let lines = in_lines(&parts, usize::from(pen.brush.width().saturating_sub(3)), glyphs.dot);
    for line in lines.iter().take(if plan.rules { 3 } else { 1 }) {
        pen.line(line, Meaning::Text);
    }
    if let (Some(concern), true) = (view.concern, plan.advice) {
        for line in wrap(&format!("suggested: {}", concern.advice()), usize::from(pen.brush.width().saturating_sub(3)))
        {
            pen.line(&line, Meaning::Notice);
        }
    }
}

/// Parts in lines of at most `width` columns, none broken.
fn in_lines(parts: &[String], width: usize, dot: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.len() + part.len() + 3 <= width => line.push_str(&format!(" {dot} {part}")),
            _ => lines.push(part.clone()),
        }
    }
    lines
}

/// Words in lines of at most `width` columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A latency in three digits.
fn millis(latency: std::time::Duration) -> String {
    match latency.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis => format!("{:.1} s", millis as f64 / 1e3),
    }
}
