//! Draws the review screen. Takes a model and a buffer; never sorts or counts hosts.

mod lists;

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr;

use super::model::{Review, Tab};
use crate::clock::Wall;
use crate::tui::format::{count, end_cut, percent, rate, ratio, span};
use crate::tui::keymap::Keymap;
use crate::tui::paint::Brush;
use crate::tui::plot::Kind;
use crate::tui::theme::{Meaning, Theme};
use crate::tui::view::{LEAST_HEIGHT, LEAST_WIDTH, draw_help, footer_keys, prompt_line};
use crate::tui::widget::bars;
use crate::tui::widget::timeline::{Picture, moment, needs_date, span_text};

/// Columns from which the worst hosts stand beside the cursor's counts.
const WIDE: u16 = 140;
/// Rows from which the rate over time is drawn.
const TALL: u16 = 36;

/// Whether the worst hosts are on the timeline's screen.
pub(super) fn shows_worst(size: (u16, u16)) -> bool {
    size.0 >= WIDE && size.1 >= TALL
}

/// Whether nothing but the counters fits.
pub(super) fn is_too_small(size: (u16, u16)) -> bool {
    size.0 < LEAST_WIDTH || size.1 < LEAST_HEIGHT
}

/// The row of the screen on which a list begins, below its headings.
pub(super) fn first_list_row(model: &Review) -> u16 {
    if model.log.is_none() && matches!(model.tab, Tab::Acts | Tab::Compare) { 7 } else { 4 }
}

pub(super) use lists::sort_at;

/// Rows of a list on the screen.
pub(super) fn list_rows(model: &Review) -> u16 {
    // Title, tabs, rule, headings and footer.
    let above = if model.tab == Tab::Acts || model.tab == Tab::Compare { 3 } else { 0 };
    model.size.1.saturating_sub(if model.log.is_some() { 5 } else { 5 + above })
}

/// Draws a frame into `buffer`, all of it.
pub fn draw(model: &Review, keymap: &Keymap, theme: &Theme, buffer: &mut Buffer) {
    let area = buffer.area;
    let (width, height) = (area.width, area.height);
    let mut brush = Brush::new(buffer, area, theme);
    if is_too_small((width, height)) {
        too_small(model, &mut brush);
        return;
    }
    title(model, &mut brush);
    tabs(model, keymap, &mut brush);
    let mut body = brush.part(0, 2, width, height - 3);
    match (&model.log, model.tab) {
        (Some(log), _) => lists::log(model, log, &mut body),
        (None, Tab::Timeline) => timeline(model, &mut body),
        (None, Tab::Hosts) => lists::hosts(model, &mut body),
        (None, Tab::Decisions) => lists::decisions(model, &mut body),
        (None, Tab::Acts) => lists::acts(model, &mut body),
        (None, Tab::Export) => lists::export(model, &mut body),
        (None, Tab::Compare) => lists::compare(model, &mut body),
    }
    footer(model, keymap, &mut brush.part(0, height - 1, width, 1));
    if let Some(help) = &model.help {
        draw_help(keymap, model.place(), &mut brush.part(0, 1, width, height - 2), help);
    }
}

/// Draws the timeline alone: for a picture.
pub(super) fn draw_picture(model: &Review, theme: &Theme, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut brush = Brush::new(buffer, area, theme);
    title(model, &mut brush);
    timeline(model, &mut brush.part(0, 1, area.width, area.height.saturating_sub(1)));
}

/// What fits a screen that is too small.
fn too_small(model: &Review, brush: &mut Brush<'_>) {
    let summary = model.timeline.summary();
    let lines = [
        (format!("review {}", model.name), Meaning::Title),
        (format!("requests {}", summary.requests), Meaning::Text),
        (format!("throttled {}", summary.throttled), Meaning::Text),
        (format!("need {LEAST_WIDTH}{}{LEAST_HEIGHT}", brush.theme().glyphs.times), Meaning::Dim),
    ];
    for (y, (words, meaning)) in (0..brush.height()).zip(&lines) {
        brush.text(0, y, words, *meaning);
    }
}

/// The run, how long, how it ended; while it is read, how far.
fn title(model: &Review, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let summary = model.timeline.summary();
    let mut x = brush.text(1, 0, "review  ", Meaning::Text);
    x = brush.text(x, 0, &end_cut(model.name.as_str(), 24, glyphs.ellipsis), Meaning::Title) + 2;
    if let Some(trouble) = &model.trouble {
        brush.clean(x, 0, trouble, Meaning::Trouble);
        return;
    }
    if !model.progress.at_end {
        let (read, total) = (model.progress.read, model.progress.total);
        x = brush.text(x, 0, "reading ", Meaning::Text);
        x = brush.text(x, 0, &bars::bar(ratio(read as f64, total as f64), 22, glyphs), Meaning::Bar);
        brush.text(x, 0, &format!(" {}%", percent(read, total)), Meaning::Text);
        return;
    }
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        let micros = u64::try_from(last.0.saturating_sub(first.0)).unwrap_or(0);
        x = brush.text(x, 0, &span(std::time::Duration::from_micros(micros)), Meaning::Text) + 2;
        let ends = match model.timeline.has_stopped() {
            true => format!("ended {} UTC", moment(last, true)),
            false => format!("{} live, or cut off; last request {} UTC", glyphs.live, moment(last, true)),
        };
        x = brush.text(x, 0, &ends, Meaning::Text) + 2;
    } else {
        x = brush.text(x, 0, "no requests", Meaning::Text) + 2;
    }
    let damage = model.timeline.damage().lines;
    if damage > 0 {
        brush.text(x, 0, &format!("{damage} damaged lines"), Meaning::Angry);
    } else if brush.width() >= WIDE {
        let n = |count_of: u64| count(count_of, glyphs.thousands);
        let words = format!(
            "{} requests, {} throttled, {} server errors, {} without a whole answer, {} hosts",
            n(summary.requests),
            n(summary.throttled),
            n(summary.server_errors),
            n(summary.network_errors),
            n(model.timeline.hosts().len() as u64)
        );
        brush.text(x, 0, &words, Meaning::Dim);
    }
}

/// The row of the tabs.
pub(super) const TABS_ROW: u16 = 1;

/// The tabs that there are, with their words; the one at hand in brackets.
fn tab_words(model: &Review, keymap: &Keymap) -> Vec<(Tab, String)> {
    let there = |tab: Tab| tab != Tab::Compare || model.other.is_some();
    let words =
        |tab, key: String, word| if tab == model.tab { format!("[{key} {word}]") } else { format!("{key} {word}") };
    let all = Tab::ALL.into_iter().filter(|(tab, ..)| there(*tab));
    all.map(|(tab, word, action)| (tab, words(tab, keymap.key_of(action), word))).collect()
}

/// The tab whose words stand at column `x`.
pub(super) fn tab_at(model: &Review, keymap: &Keymap, x: u16) -> Option<Tab> {
    let mut end = 1;
    let found = tab_words(model, keymap).into_iter().find(|(_, words)| {
        let begin = end;
        end += u16::try_from(words.width()).unwrap_or(u16::MAX).saturating_add(2);
        (begin..end.saturating_sub(2)).contains(&x)
    });
    found.map(|(tab, _)| tab)
}

/// Draws the tabs.
fn tabs(model: &Review, keymap: &Keymap, brush: &mut Brush<'_>) {
    let mut x = 1;
    for (tab, words) in tab_words(model, keymap) {
        let here = tab == model.tab;
        x = brush.text(x, TABS_ROW, &words, if here { Meaning::Title } else { Meaning::Dim }) + 2;
    }
}

/// Time × status, the axis, the rate if there is room, and what is under the cursor.
fn timeline(model: &Review, brush: &mut Brush<'_>) {
    let (width, height) = (brush.width(), brush.height());
    let picture = model.picture();
    let hosts = if model.filter.is_empty() { "all hosts" } else { model.filter.text().as_str() };
    let rows = picture_rows(&picture, brush, hosts, height);
    let top = rows + 3;
    let rest = height.saturating_sub(top);
    let rate_rows = if height + 3 >= TALL && model.plot.kind != Kind::Rate { 5.min(rest / 2) } else { 0 };
    if rate_rows > 1 {
        let mut part = brush.part(0, top, width, rate_rows);
        part.rule(0, "rate, requests/s", "");
        picture.rate(&mut part.part(0, 1, width, rate_rows - 1));
    }
    let left = if shows_worst((width, height + 3)) { width / 2 } else { width };
    let below = top + rate_rows;
    at_cursor(model, &mut brush.part(0, below, left, height.saturating_sub(below)));
    if left < width {
        lists::worst(model, &mut brush.part(left, below, width - left, height.saturating_sub(below)));
    }
}

/// Draws rule, rows and axis of a picture; gives how many rows of dots there are.
pub(crate) fn picture_rows(picture: &Picture<'_>, brush: &mut Brush<'_>, hosts: &str, height: u16) -> u16 {
    let width = brush.width();
    let glyphs = brush.theme().glyphs;
    let window = picture.window(width);
    let column = span_text(window.shown.saturating_mul(picture.bins.width()) / (2 * window.cells).max(1));
    let what = picture.plot.kind.words().replace('×', glyphs.times);
    let left = format!("{what} {} {}", glyphs.dot, end_cut(hosts, 30, glyphs.ellipsis));
    brush.rule(0, &left, &format!("1 column of dots = {column}"));
    // Rule, axis, times; below it a rule and something to read.
    let room = height.saturating_sub(3);
    let below = (room / 3).clamp(2, 14);
    let most = room.saturating_sub(below).max(1);
    let codes = u16::try_from(picture.bins.codes().len()).unwrap_or(u16::MAX);
    let rows = match picture.plot.kind {
        Kind::Codes => codes.clamp(1, most),
        // A row of dots a step of latency.
        Kind::Latency | Kind::Rate => most.min(9),
    };
    let mut part = brush.part(0, 1, width, rows);
    if picture.bins.is_empty() {
        part.text(10, 0, "nothing to show yet", Meaning::Dim);
    } else {
        match picture.plot.kind {
            Kind::Codes => picture.codes(&mut part),
            Kind::Latency => picture.scatter(&mut part),
            Kind::Rate => picture.rate(&mut part),
        }
    }
    picture.axis(&mut brush.part(0, 1 + rows, width, 2));
    rows
}

/// Exact counts, the angriest host, and the decisions under the cursor.
fn at_cursor(model: &Review, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let bins = model.timeline.bins();
    if bins.is_empty() {
        return;
    }
    let with_date = needs_date(bins);
    let (from, to) = model.cursor_span();
    // Two moments within a second are told apart.
    let tenths = |at: Wall| match to.0.saturating_sub(from.0) < 2_000_000 {
        true => format!(".{}", at.0.rem_euclid(1_000_000) / 100_000),
        false => String::new(),
    };
    let (left, right) = (moment(from, with_date) + &tenths(from), moment(to, false) + &tenths(to));
    brush.rule(0, &format!("at cursor  {left} {} {right}", glyphs.none), "");
    counts_line(&model.picture(), model.size.0, &mut brush.part(1, 1, brush.width().saturating_sub(1), 1));
    let hosts = model.picture().hosts_at_cursor(model.size.0, glyphs.thousands);
    let x = brush.text(1, 2, &format!("{hosts}, "), Meaning::Text);
    if let Some((host, angriest)) = model.angriest() {
        let about = if angriest.estimated { "at most " } else { "" };
        let x = brush.text(x, 2, "angriest: ", Meaning::Text);
        let x = brush.clean(x, 2, &host.host, Meaning::Angry);
        let words = format!(" ({about}{})", bad_words(angriest.count, glyphs.thousands));
        brush.text(x, 2, &words, Meaning::Text);
    } else {
        brush.text(x, 2, "nobody was angry here", Meaning::Dim);
    }
    let rows = usize::from(brush.height().saturating_sub(3));
    let (entries, more) = model.timeline.entries(from, to, rows);
    for (y, entry) in (3..brush.height()).zip(&entries) {
        lists::entry(brush, y, entry, false);
    }
    if more > 0 && brush.height() > 3 {
        let words = format!(" {} {more} more, Enter for all ", glyphs.ellipsis);
        brush.text_right(brush.width(), 2, &words, Meaning::Dim);
    }
}

/// So many bad answers, in words.
pub(crate) fn bad_words(bad: u32, thousands: char) -> String {
    match bad {
        1 => String::from("1 refusal or error"),
        n => format!("{} refusals and errors", count(u64::from(n), thousands)),
    }
}

/// The counts under the cursor, code by code.
pub(crate) fn counts_line(picture: &Picture<'_>, width: u16, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let (codes, sum) = picture.at_cursor(width);
    let (from, to) = picture.cursor_span(width);
    let per_second = sum as f64 / (to.0.saturating_sub(from.0) as f64 / 1e6).max(1e-6);
    let mut x = brush.text(0, 0, &format!("{} requests", count(sum, glyphs.thousands)), Meaning::Title);
    x = brush.text(x, 0, &format!(", {}/s  ", rate(per_second)), Meaning::Text);
    // A count is shown whole or not at all: cut in the middle it would read as a smaller one.
    let mut left = codes.len();
    for (code, n) in codes {
        let text = format!(" {} {}{} ", code.word(), glyphs.times, count(n, glyphs.thousands));
        let more = format!(" {} {left} more", glyphs.ellipsis);
        let room = usize::from(brush.width().saturating_sub(x));
        let reserve = if left > 1 { more.chars().count() } else { 0 };
        if text.chars().count() + reserve > room {
            brush.text(x, 0, &more, Meaning::Dim);
            return;
        }
        x = brush.text(x, 0, &text, Meaning::Text);
        left -= 1;
    }
}

/// The prompt, a word, or the keys.
fn footer(model: &Review, keymap: &Keymap, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let room = usize::from(brush.width().saturating_sub(2));
    if let Some(input) = &model.prompt {
        let x = brush.text(1, 0, "/ ", Meaning::Key);
        prompt_line(brush, x, input, model.prompt_error.as_ref(), "part of a host, or a glob   Enter reads anew");
        return;
    }
    if let Some((text, _, trouble)) = &model.note {
        let meaning = if *trouble { Meaning::Angry } else { Meaning::Notice };
        brush.text(1, 0, &end_cut(text.as_str(), room, glyphs.ellipsis), meaning);
        return;
    }
    footer_keys(&keymap.footer(model.place()), brush);
}

#[cfg(test)]
mod tests;
