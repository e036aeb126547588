//! The lists of the review screen: hosts, decisions, acts, exports, the log, two runs beside each other.

use super::super::compare::{DIFFERENCES_MAX, Figures};
use super::super::export::Export;
use super::super::model::{HostSort, LogView, Review, Tab, client_errors, network_errors, server_errors};
use crate::control::Who;
use crate::journal::summary::{HostSummary, Summary};
use crate::journal::timeline::entry::{Entry, Kept};
use crate::tui::format::{age, count, count_in, end_cut, middle_cut, rate};
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;
use crate::tui::widget::timeline::{moment, needs_date};

/// One decision: when, who, whom, what.
pub(super) fn entry(brush: &mut Brush<'_>, y: u16, entry: &Entry, with_date: bool) {
    let glyphs = brush.theme().glyphs;
    let (width, meaning) = (
        brush.width(),
        match entry.who {
            Some(Who::Operator) => Meaning::Override,
            Some(Who::Concern) => Meaning::Angry,
            _ => Meaning::Text,
        },
    );
    let x = brush.text(1, y, &moment(entry.time, with_date), Meaning::Dim) + 1;
    brush.text(x, y, entry.who_word(), meaning);
    let host_width = if width >= 100 { 24 } else { 18 };
    let host = if entry.host.as_str().is_empty() { "all hosts" } else { entry.host.as_str() };
    brush.text(x + 6, y, &middle_cut(host, host_width, glyphs.ellipsis), Meaning::Text);
    let x = x + 7 + u16::try_from(host_width).unwrap_or(0);
    let room = usize::from(width.saturating_sub(x));
    let text = entry.text.as_str().replace('→', glyphs.arrow);
    brush.text(x, y, &end_cut(&text, room, glyphs.ellipsis), Meaning::Text);
}

/// Entries of a list, those that are seen.
fn entries<'a>(
    model: &Review,
    brush: &mut Brush<'_>,
    top: u16,
    (first, selected): (usize, usize),
    get: impl Fn(usize) -> Option<&'a Entry>,
) {
    let with_date = needs_date(model.timeline.bins());
    for (y, position) in (top..brush.height()).zip(first..) {
        let Some(one) = get(position) else { break };
        entry(brush, y, one, with_date);
        cursor(brush, y, position == selected);
    }
}

/// Shows the selected row.
fn cursor(brush: &mut Brush<'_>, y: u16, here: bool) {
    if here {
        let glyph = brush.theme().glyphs.cursor;
        brush.text(0, y, glyph, Meaning::Text);
        brush.style_row(y, Meaning::Selected);
    }
}

/// Words about older entries that are not kept.
fn dropped(kept: &Kept, thousands: char) -> String {
    match kept.dropped() {
        0 => String::new(),
        n => format!("{} older ones stand in the journal; Enter on the timeline shows them", count(n, thousands)),
    }
}

/// Changes of rates, and holds.
pub(super) fn decisions(model: &Review, brush: &mut Brush<'_>) {
    let kept = model.timeline.decisions();
    let thousands = brush.theme().glyphs.thousands;
    brush.rule(0, &format!("rate decisions {}", count(kept.len() as u64, thousands)), &dropped(kept, thousands));
    brush.text(1, 1, "WHEN, WHO, HOST, WHAT AND WHY; Enter shows the moment on the timeline", Meaning::Dim);
    let list = model.lists[Tab::Decisions as usize];
    entries(model, brush, 2, (list.top, list.at), |position| kept.get(position));
    if kept.is_empty() {
        brush.text(4, 2, "no rate was changed", Meaning::Dim);
    }
}

/// What the operator did, and what was left behind.
pub(super) fn acts(model: &Review, brush: &mut Brush<'_>) {
    let (kept, summary) = (model.timeline.acts(), model.timeline.summary());
    let glyphs = brush.theme().glyphs;
    let thousands = glyphs.thousands;
    brush.rule(0, &format!("your actions {}", count(kept.len() as u64, thousands)), &dropped(kept, thousands));
    let words: Vec<String> = summary.acts.iter().map(|(word, n)| format!("{word} {}", count(*n, thousands))).collect();
    // An act on many hosts has an event for each.
    let x = if words.is_empty() { 1 } else { brush.text(1, 1, "counted by host: ", Meaning::Dim) };
    brush.text(x, 1, &words.join("  "), Meaning::Text);
    let (named, all) = &model.still_set;
    let ended = if model.timeline.has_stopped() { "still set at the end" } else { "set now" };
    if summary.halted {
        brush.text(1, 2, "the whole crawl is halted", Meaning::Trouble);
    } else {
        brush.text(1, 2, &format!("{ended}: {}", count(*all as u64, thousands)), Meaning::Title);
    }
    let names = named.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    let more = all.saturating_sub(named.len());
    let names = if more > 0 { format!("{names} and {more} more") } else { names };
    let room = usize::from(brush.width().saturating_sub(2));
    brush.text(1, 3, &end_cut(&names, room, glyphs.ellipsis), Meaning::Forgotten);
    let list = model.lists[Tab::Acts as usize];
    entries(model, brush, 5, (list.top, list.at), |position| kept.get(position));
    if kept.is_empty() {
        brush.text(4, 5, "nobody did anything", Meaning::Dim);
    }
}

/// The log around a moment.
pub(super) fn log(model: &Review, log: &LogView, brush: &mut Brush<'_>) {
    let right = if log.cut { "there is more in events.jsonl" } else { "to the end" };
    brush.rule(0, &format!("log {}", count(log.entries.len() as u64, brush.theme().glyphs.thousands)), right);
    brush.text(1, 1, "from the cursor's moment on, with what came before; Esc goes back", Meaning::Dim);
    entries(model, brush, 2, (log.list.top, log.list.at), |position| log.entries.get(position));
    if log.entries.is_empty() {
        brush.text(4, 2, "no decisions", Meaning::Dim);
    }
}

/// Columns of the host table, from the right: width of each figure.
const FIGURE: u16 = 9;

/// All hosts.
pub(super) fn hosts(model: &Review, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let number = count(model.order.len() as u64, glyphs.thousands);
    let arrow = if model.reversed { glyphs.up } else { glyphs.sorted };
    let left = format!("hosts {number} {} sorted by {} {arrow}", glyphs.dot, model.sort.word());
    let filter = model.filter.text().as_str();
    let right = if filter.is_empty() { String::from("no filter") } else { format!("filter {filter}") };
    brush.rule(0, &left, &right);
    host_rows(model, brush, model.lists[Tab::Hosts as usize].top, Some(model.lists[Tab::Hosts as usize].at));
}

/// The worst hosts beside the cursor's counts.
pub(super) fn worst(model: &Review, brush: &mut Brush<'_>) {
    brush.rule(0, "worst hosts, whole run", "");
    host_rows(model, brush, 0, None);
}

/// Headings and rows.
fn host_rows(model: &Review, brush: &mut Brush<'_>, top: usize, selected: Option<usize>) {
    let width = brush.width();
    let columns = Columns::fit(width);
    let mut right = width;
    for (word, one) in columns.figures().into_iter().rev() {
        brush.text_right(right.saturating_sub(1), 1, word, Meaning::Dim);
        right = right.saturating_sub(one);
    }
    brush.text(2, 1, "HOST", Meaning::Dim);
    let end = model.timeline.end();
    for (y, position) in (2..brush.height()).zip(top..) {
        let host = model.order.get(position).and_then(|host| model.timeline.hosts().get(*host as usize));
        let Some(host) = host else { break };
        host_row(brush, y, columns, host, host.held_until(end));
        cursor(brush, y, selected == Some(position));
    }
    if model.order.is_empty() {
        brush.text(4, 2, "no host", Meaning::Dim);
    }
}

/// Which columns there are.
#[derive(Clone, Copy)]
struct Columns {
    errors: bool,
    set: bool,
}

impl Columns {
    fn fit(width: u16) -> Self {
        Self { errors: width >= 76, set: width >= 100 }
    }

    fn figures(self) -> Vec<(&'static str, u16)> {
        let mut all = vec![("REQS", FIGURE), ("REFUSED", FIGURE)];
        if self.set {
            all.push(("4xx", 7));
        }
        if self.errors {
            all.extend([("5xx", 7), ("NET", 7)]);
        }
        all.extend([("ORIG>LAST", 16), ("HELD", 7)]);
        if self.set {
            all.push(("SET", 18));
        }
        all
    }
}

/// The order that the heading at column `x` stands for.
pub(in crate::tui::review) fn sort_at(width: u16, x: u16) -> HostSort {
    let mut right = width;
    for (word, one) in Columns::fit(width).figures().into_iter().rev() {
        right = right.saturating_sub(one);
        if x >= right {
            return match word {
                "REQS" => HostSort::Requests,
                "REFUSED" | "4xx" => HostSort::Refused,
                "5xx" | "NET" => HostSort::Errors,
                "ORIG>LAST" => HostSort::Slowed,
                _ => HostSort::Held,
            };
        }
    }
    HostSort::Name
}

fn host_row(brush: &mut Brush<'_>, y: u16, columns: Columns, host: &HostSummary, held: f64) {
    let glyphs = brush.theme().glyphs;
    let n = |value: u64| if value == 0 { glyphs.none.to_owned() } else { count_in(value, 8, glyphs.thousands) };
    let number = |value: Option<f64>| value.map_or_else(|| String::from("?"), rate);
    let mut cells = vec![n(host.requests), n(host.refusals)];
    let short = |value: u64| if value == 0 { glyphs.none.to_owned() } else { count_in(value, 6, glyphs.thousands) };
    if columns.set {
        cells.push(short(client_errors(host)));
    }
    if columns.errors {
        cells.extend([short(server_errors(host)), short(network_errors(host))]);
    }
    cells.push(format!("{} {} {}", number(host.original_rate), glyphs.arrow, number(host.rate_so_far())));
    cells.push(held_text(held, glyphs.none));
    if columns.set {
        let rate_of = host.overriding.and_then(|overriding| overriding.rate);
        let overriding = rate_of.map(|value| format!("override {}", rate(value)));
        let words = if host.paused { Some(String::from("paused")) } else { overriding };
        // Whose bucket it shares stands where nothing else is set.
        let group = host.group.as_ref().filter(|group| **group != host.host);
        let words =
            words.or_else(|| group.map(|group| format!("in {}", middle_cut(group.as_str(), 14, glyphs.ellipsis))));
        cells.push(words.unwrap_or_default());
    }
    let mut right = brush.width();
    for (text, (_, width)) in cells.iter().zip(columns.figures()).rev() {
        brush.text_right(right.saturating_sub(1), y, text, Meaning::Text);
        right = right.saturating_sub(width);
    }
    let room = usize::from(right.saturating_sub(3));
    let meaning = if host.refusals > 0 || held > 0.0 { Meaning::Angry } else { Meaning::Text };
    brush.text(2, y, &middle_cut(host.host.as_str(), room, glyphs.ellipsis), meaning);
}

/// Seconds held.
fn held_text(seconds: f64, none: &str) -> String {
    if seconds < 0.5 {
        return none.to_owned();
    }
    age(std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX))
}

/// What can be written.
pub(super) fn export(model: &Review, brush: &mut Brush<'_>) {
    brush.rule(0, "export", "");
    brush.text(1, 1, "A new file in the working folder, never over one that exists.", Meaning::Dim);
    let at = model.lists[Tab::Export as usize].at;
    for (y, (position, (_, end, words))) in (2..brush.height()).zip(Export::ALL.into_iter().enumerate()) {
        let x = brush.text(2, y, &end.to_uppercase(), Meaning::Title) + 2;
        brush.text(x, y, words, Meaning::Text);
        cursor(brush, y, position == at);
    }
    brush.text(2, 6, "Enter writes it.", Meaning::Dim);
}

/// Two runs.
pub(super) fn compare(model: &Review, brush: &mut Brush<'_>) {
    let Some(other) = &model.other else { return };
    let glyphs = brush.theme().glyphs;
    let here = end_cut(model.name.as_str(), 20, glyphs.ellipsis);
    let there = end_cut(other.name.as_str(), 20, glyphs.ellipsis);
    brush.rule(0, &format!("this: {here}   other: {there}"), "");
    for (y, (name, summary)) in (1..).zip([("this", model.timeline.summary()), ("other", other.timeline.summary())]) {
        brush.text(1, y, name, Meaning::Title);
        brush.text(8, y, &totals(summary, glyphs.thousands), Meaning::Text);
    }
    let n = other.differences.len();
    let more = if n >= DIFFERENCES_MAX { " or more" } else { "" };
    let words = format!("hosts that fared differently {}{more}", count(n as u64, glyphs.thousands));
    let width = brush.width();
    brush.part(0, 3, width, 1).rule(0, &words, "this / other");
    let column = if width < 100 { 14 } else { 18 };
    let figure = |at: u16| width.saturating_sub(1 + at * column);
    for (word, at) in [("HELD", 0), ("RATE", 1), ("ERRORS", 2), ("REFUSED", 3)] {
        brush.text_right(figure(at), 4, word, Meaning::Dim);
    }
    brush.text(2, 4, "HOST", Meaning::Dim);
    let list = model.lists[Tab::Compare as usize];
    for (y, position) in (5..brush.height()).zip(list.top..) {
        let Some(one) = other.differences.get(position) else { break };
        let pair = |of: &dyn Fn(&Figures) -> String| {
            let text = |figures: Option<Figures>| figures.map_or_else(|| glyphs.none.to_owned(), |one| of(&one));
            format!("{} / {}", text(one.this), text(one.other))
        };
        let cells = [
            (pair(&|one| held_text(one.held, "0")), 0),
            (pair(&|one| one.last_rate.map_or_else(|| String::from("?"), rate)), 1),
            (pair(&|one| count_in(one.errors, 5, glyphs.thousands)), 2),
            (pair(&|one| count_in(one.refusals, 5, glyphs.thousands)), 3),
        ];
        for (text, at) in cells {
            brush.text_right(figure(at), y, &text, Meaning::Text);
        }
        let room = usize::from(width.saturating_sub(4 + 4 * column));
        brush.text(2, y, &middle_cut(one.host.as_str(), room, glyphs.ellipsis), Meaning::Text);
        cursor(brush, y, position == list.at);
    }
    if n == 0 {
        brush.text(4, 5, "every host fared alike", Meaning::Dim);
    }
}

/// A run in one line.
fn totals(summary: &Summary, thousands: char) -> String {
    let n = |value: u64| count_in(value, 9, thousands);
    let micros = summary.first.zip(summary.last).map_or(0, |(first, last)| last.0.saturating_sub(first.0));
    format!(
        "{} requests in {}  ok {}  throttled {}  5xx {}  net {}  done {}  failed {}",
        n(summary.requests),
        crate::tui::widget::timeline::span_text(micros),
        n(summary.ok),
        n(summary.throttled),
        n(summary.server_errors),
        n(summary.network_errors),
        n(summary.urls_done),
        n(summary.urls_failed)
    )
}
