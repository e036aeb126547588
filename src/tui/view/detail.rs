//! One host closely: state, rates, bucket, codes, answers over time, what happened lately.
//!
//! The same function draws it as a screen of its own and beside the table: it takes the room there is,
//! and parts that do not fit give way, the least urgent first.

use super::Scene;
use super::log::who;
use crate::control::{Code, HostView, Mono, Trend};
use crate::tui::format::{age, count, count_in, end_cut, rate, ratio, span};
use crate::tui::history::KINDS;
use crate::tui::paint::Brush;
use crate::tui::sentences;
use crate::tui::theme::Meaning;
use crate::tui::why::outcome_words;
use crate::tui::widget::host_table::character;
use crate::tui::widget::{bars, dots};
use crate::watch::{HostRow, Recent};

/// How many rows the parts have in a part of the screen this high.
struct Plan {
    rules: bool,
    advice: bool,
    chart: usize,
    codes: usize,
    scatter: usize,
}

impl Plan {
    fn of(height: u16) -> Self {
        let (rules, advice, chart, codes, scatter) = match height {
            ..12 => (false, false, 0, 1, 0),
            12..17 => (true, false, 0, 2, 0),
            17..24 => (true, true, 2, 3, 0),
            24..32 => (true, true, 3, 5, 0),
            32..40 => (true, true, 4, 6, 5),
            _ => (true, true, 6, 8, KINDS.len()),
        };
        Self { rules, advice, chart, codes, scatter }
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
    title(scene, brush, row, alone);
    let now = model.shown_now(scene.now);
    let height = brush.height().saturating_sub(1);
    let width = brush.width();
    let mut body = brush.part(0, 1, width, height);
    let plan = Plan::of(height);
    let mut pen = Pen { brush: &mut body, y: 0 };
    state(&mut pen, &plan, row, now);
    rates(scene, &mut pen, &plan, row, now);
    bucket(&mut pen, &plan, &row.view, now);
    codes(&mut pen, &plan, &row.view);
    scatter(scene, &mut pen, &plan, &row.view, now);
    recent(scene, &mut pen, &plan, row);
}

/// The name, and its place in the order.
fn title(scene: &Scene<'_>, brush: &mut Brush<'_>, row: &HostRow, alone: bool) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let (glyph, _) = character(&row.view, glyphs);
    let place = format!(
        "{} of {} by {}",
        count(model.at as u64 + 1, glyphs.thousands),
        count(model.order.shown.len() as u64, glyphs.thousands),
        model.order.by.as_str()
    );
    let back = match (alone, brush.width()) {
        (true, 80..) => format!("{place} {} < > prev, next  esc back", glyphs.dot),
        (true, _) => format!("{place} {} esc back", glyphs.dot),
        (false, _) => String::new(),
    };
    let room = usize::from(brush.width()).saturating_sub(back.len() + 10).max(12);
    let name = crate::tui::format::middle_cut(row.name.as_str(), room, glyphs.ellipsis);
    brush.rule(0, &format!("{glyph} {name}"), &back);
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
    for line in lines.iter().take(2) {
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
    parts.extend(view.latency.map(|(median, p95)| format!("latency {} p95 {}", millis(median), millis(p95))));
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

/// Original, adaptive, override, effective, the site's delay; the chart; the controller's own words.
fn rates(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    let view = &row.view;
    let trend = match view.trend {
        Trend::Up => glyphs.up,
        Trend::Down => glyphs.down,
        Trend::Level => "",
    };
    let overriding = match view.overriding {
        None => String::from("none"),
        Some(one) => {
            let value = one.rate.map_or_else(String::new, rate);
            let capacity = one.capacity.map_or_else(String::new, |value| format!(" cap {}", rate(value)));
            let left = one.until.map_or_else(
                || format!(", {} ago", age(now.since(one.since))),
                |until| format!(", {} left", age(until.since(now))),
            );
            format!("{value}{capacity}{left}")
        }
    };
    let delay = view.crawl_delay.map_or_else(
        || glyphs.none.to_owned(),
        |(delay, capped)| format!("{}{}", span(delay), if capped { " capped" } else { "" }),
    );
    let effective =
        format!("effective {}{}", rate(view.effective.rate), if view.overriding.is_some() { "*" } else { "" });
    pen.rule(plan, "rate (req/s)", &effective);
    let mut stack = format!(
        "original {}  adaptive {}{trend}  override {overriding}",
        rate(view.original.rate),
        rate(view.adaptive.rate)
    );
    if plan.rules {
        let robots = format!("robots delay {delay}");
        if usize::from(pen.brush.width()) >= stack.len() + robots.len() + 6 {
            stack = format!("{stack}  {robots}");
            pen.line(&stack, Meaning::Text);
        } else {
            pen.line(&stack, Meaning::Text);
            pen.line(&robots, Meaning::Text);
        }
    } else {
        pen.line(&format!("{effective}  {stack}"), Meaning::Text);
        return;
    }
    if plan.chart > 0 {
        chart(scene, pen, plan, view, now);
    }
    if plan.codes > 3 {
        pen.line(&sentences::controller(view), Meaning::Dim);
    }
}

/// Effective rate over time, the original as a line.
fn chart(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    let width = usize::from(pen.brush.width().saturating_sub(10 + 12));
    let columns = scene.model.history.columns(view.id, now, width);
    let top = columns.rates.iter().copied().filter(|rate| rate.is_finite()).fold(view.original.rate as f32, f32::max);
    let rows = dots::chart(&columns.rates, view.original.rate, f64::from(top), plan.chart, glyphs);
    let last = plan.chart.saturating_sub(1);
    for (index, row) in rows.iter().enumerate() {
        let label = match index {
            0 => rate(f64::from(top)),
            _ if index == last => String::from("0.00"),
            _ => String::new(),
        };
        let x = pen.brush.text(2, pen.y, &format!("{label:>6} "), Meaning::Dim);
        let x = pen.brush.text(x, pen.y, glyphs.divider, Meaning::Rule);
        let x = pen.brush.text(x, pen.y, row, Meaning::Bar);
        if index == last {
            pen.brush.text(x + 1, pen.y, &format!("last {}", age(columns.span)), Meaning::Dim);
        }
        pen.y = pen.y.saturating_add(1);
    }
}

/// The level, and what it means.
fn bucket(pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    let tokens = view.tokens_at(now);
    let level = format!("{tokens:.1} of {:.1} tokens", view.effective.capacity);
    pen.rule(plan, "token bucket", &level);
    let sentence = sentences::bucket(view, now);
    if !plan.rules {
        pen.line(&format!("bucket {level}, {sentence}"), Meaning::Text);
        return;
    }
    let bar = bars::bar(ratio(tokens, view.effective.capacity), 24.min(pen.brush.width() / 3), glyphs);
    let x = pen.brush.text(2, pen.y, &bar, Meaning::Bar) + 1;
    let refill = format!("refill {}/s", rate(view.effective.rate));
    let wide = usize::from(pen.brush.width()) >= usize::from(x) + refill.len() + sentence.len() + 2;
    let x = pen.brush.text(x, pen.y, &refill, Meaning::Text) + 2;
    if wide {
        pen.brush.text(x, pen.y, &sentence, Meaning::Text);
        pen.y = pen.y.saturating_add(1);
    } else {
        pen.y = pen.y.saturating_add(1);
        pen.line(&sentence, Meaning::Text);
    }
}

/// A status, or what there was instead.
fn code_words(code: Code) -> String {
    match code {
        Code::Status(status) => status.to_string(),
        Code::Failure(failure) => outcome_words(failure.outcome()).to_owned(),
        Code::Other => String::from("others"),
    }
}

/// Codes and failures, last 5 minutes and total.
fn codes(pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView) {
    let glyphs = pen.brush.theme().glyphs;
    let narrow = pen.brush.width() < 56;
    pen.rule(plan, "status codes", if narrow { "5 min / total" } else { "last 5 min / since start" });
    if view.codes.is_empty() {
        pen.line("no answer yet", Meaning::Dim);
        return;
    }
    if !plan.rules {
        let words = view.codes.iter().map(|one| format!("{} {}/{}", code_words(one.code), one.recent, one.total));
        pen.line(&words.collect::<Vec<_>>().join("  "), Meaning::Text);
        return;
    }
    // What happened lately first, then what happened at all.
    let mut shown: Vec<_> = view.codes.iter().collect();
    shown.sort_by_key(|one| (std::cmp::Reverse(one.recent > 0), std::cmp::Reverse(one.total)));
    let most = shown.iter().map(|one| one.recent).max().unwrap_or(0);
    let hidden = shown.len().saturating_sub(plan.codes);
    shown.truncate(plan.codes);
    shown.sort_by_key(|one| one.code);
    let width = pen.brush.width();
    // Columns of the words, and of the two counts.
    let (words_width, counts_width) = if narrow { (10, 15) } else { (16, 20) };
    let bar_width = width.saturating_sub(2 + words_width + 1 + counts_width).clamp(4, 60);
    for one in shown {
        let words = end_cut(&code_words(one.code), usize::from(words_width - 1), glyphs.ellipsis);
        pen.brush.text(2, pen.y, &words, Meaning::Text);
        let share = ratio(f64::from(one.recent), f64::from(most));
        let x = pen.brush.text(2 + words_width, pen.y, &bars::bar(share, bar_width, glyphs), Meaning::Bar) + 1;
        let (recent, total) = (u64::from(one.recent), one.total);
        let counts = if narrow {
            format!("{:>6} /{:>7}", count_in(recent, 6, glyphs.thousands), count_in(total, 7, glyphs.thousands))
        } else {
            format!("{:>7} / {:>9}", count(recent, glyphs.thousands), count_in(total, 9, glyphs.thousands))
        };
        pen.brush.text(x, pen.y, &counts, Meaning::Text);
        pen.y = pen.y.saturating_add(1);
    }
    if hidden > 0 && plan.codes > 3 {
        pen.line(&format!("and {hidden} more"), Meaning::Dim);
    }
}

/// Answers over time, a row a kind.
fn scatter(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView, now: Mono) {
    if plan.scatter == 0 {
        return;
    }
    let glyphs = pen.brush.theme().glyphs;
    let width = usize::from(pen.brush.width().saturating_sub(8)) * dots::steps_a_cell(glyphs);
    let columns = scene.model.history.columns(view.id, now, width);
    pen.rule(
        plan,
        &format!("time {} status", glyphs.times),
        &format!("last {}, height is the log of the count", age(columns.span)),
    );
    let highest = columns.counts.iter().flatten().copied().max().unwrap_or(0);
    let occurred = KINDS.iter().zip(&columns.counts).filter(|(_, counts)| counts.iter().any(|count| *count > 0));
    let mut drawn = false;
    for (kind, counts) in occurred.take(plan.scatter) {
        pen.brush.text(2, pen.y, kind, Meaning::Text);
        pen.brush.text(7, pen.y, &dots::scatter(counts, highest, glyphs), Meaning::Bar);
        pen.y = pen.y.saturating_add(1);
        drawn = true;
    }
    if !drawn {
        pen.line("nothing yet", Meaning::Dim);
    }
}

/// The last requests and decisions, newest first, as many as fit.
fn recent(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow) {
    let glyphs = pen.brush.theme().glyphs;
    pen.rule(plan, "recent", "");
    let focus = scene.model.focus.as_ref().filter(|focus| focus.host == row.view.id);
    let Some(focus) = focus else {
        pen.line(&String::from(glyphs.ellipsis), Meaning::Dim);
        return;
    };
    if focus.recent.is_empty() {
        pen.line("nothing lately", Meaning::Dim);
    }
    for one in focus.recent.iter().rev() {
        if pen.y >= pen.brush.height() {
            return;
        }
        let (wall, what, meaning, words) = match one {
            Recent::Request { wall, path, status, outcome, latency } => {
                let what = status.map_or_else(|| outcome_words(*outcome).to_owned(), |status| status.to_string());
                let meaning = if outcome.is_success() { Meaning::Text } else { Meaning::Back };
                (wall, what, meaning, format!("{:>7}  {path}", millis(*latency)))
            }
            Recent::Decision(line) => {
                let (word, meaning) = who(line.who);
                (&line.wall, word.to_owned(), meaning, line.text.as_str().to_owned())
            }
        };
        let x = pen.brush.text(2, pen.y, &wall.time_of_day(), Meaning::Dim) + 2;
        let what = end_cut(&what, 9, glyphs.ellipsis);
        pen.brush.text(x, pen.y, &what, meaning);
        let x = x + 10;
        let room = usize::from(pen.brush.width().saturating_sub(x));
        pen.brush.text(x, pen.y, &end_cut(&glyphs.spell(&words), room, glyphs.ellipsis), Meaning::Text);
        pen.y = pen.y.saturating_add(1);
    }
}
