//! The header: is it alive, what is stuck, who is angry, when is it done, what have people done.

use unicode_width::UnicodeWidthStr;

use super::Scene;
use crate::control::HostState;
use crate::tui::format::{age, count, end_cut, percent, rate, ratio, span, uptime};
use crate::tui::keymap::Action;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;
use crate::tui::widget::bars;
use crate::watch::{Phase, Totals};

/// Columns from which the header has three dense lines instead of five.
const WIDE: u16 = 140;

/// Lines of the full header.
pub(super) const fn rows(width: u16) -> u16 {
    if width >= WIDE { 3 } else { 5 }
}

/// Draws it, as tall as there is room.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    match (brush.height(), brush.width()) {
        (..=2, _) => {
            short_line(scene, brush, 0);
            counters(scene, brush, 1);
        }
        (_, WIDE..) => {
            state_line(scene, brush, 0);
            let after = counters(scene, brush, 1);
            let divider = brush.theme().glyphs.divider;
            let x = brush.text(after, 1, &format!(" {divider} "), Meaning::Rule);
            eta(scene, brush, x, 1);
            now_line(scene, brush, 2, 60);
        }
        _ => {
            state_line(scene, brush, 0);
            done_line(scene, brush, 1);
            now_line(scene, brush, 2, 12);
            eta(scene, brush, 1, 3);
            counters(scene, brush, 4);
        }
    }
}

/// What is wrong with the crawl as a whole, if anything: the first line becomes this.
pub(super) fn trouble(scene: &Scene<'_>) -> Option<String> {
    let model = scene.model;
    if let Some(silence) = model.silent_for(scene.now) {
        return Some(format!("engine silent for {} s", silence.as_secs()));
    }
    let Totals { stopped_because, resting_because, .. } = &model.totals;
    match (stopped_because, resting_because) {
        (Some(reason), _) => Some(format!("nothing is sent: {reason}")),
        (None, Some(reason)) => Some(format!("sending rests now and then: {reason}")),
        (None, None) => None,
    }
}

/// That the view stands still, and which key lets it go on.
pub(super) fn frozen(scene: &Scene<'_>) -> Option<String> {
    scene.model.frozen.map(|_| format!("FROZEN ({})", scene.keymap.key_of(Action::Freeze)))
}

/// The state in one word.
pub(super) fn state_word(scene: &Scene<'_>) -> &'static str {
    let totals = &scene.model.totals;
    match totals.phase {
        _ if scene.model.heard.is_none() => "STARTING",
        Phase::Running if totals.halted => "HALTED",
        Phase::Running => "RUNNING",
        Phase::Draining => "DRAINING",
        Phase::Finished => "FINISHED",
        Phase::Stopped => "STOPPED",
    }
}

/// How the state is shown.
fn state_meaning(scene: &Scene<'_>) -> Meaning {
    let totals = &scene.model.totals;
    match totals.phase {
        Phase::Running if totals.halted => Meaning::Trouble,
        _ => Meaning::Title,
    }
}

/// Run, state, up time, in flight, clock; the done figures too if it is wide.
fn state_line(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16) {
    if trouble_line(scene, brush, y) {
        return;
    }
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let totals = &model.totals;
    let state = format!("{} {}", glyphs.live, state_word(scene));
    // That the view stands still is told on every screen, in the place of what is least missed.
    let (words, meaning) = match frozen(scene) {
        Some(words) => (words, Meaning::Trouble),
        None => (format!("up {}", uptime(model.up)), Meaning::Text),
    };
    let flying = format!("in-flight {}/{}", totals.in_flight, totals.concurrency);
    // The name is what gives way.
    let rest = state.width() + words.width() + flying.width() + CLOCK_WIDTH + 10;
    let room = usize::from(brush.width()).saturating_sub(rest).clamp(8, 24);
    let name = end_cut(model.run_name.as_str(), room, glyphs.ellipsis);
    let mut x = brush.text(1, y, &name, Meaning::Title) + 3;
    x = brush.text(x, y, &state, state_meaning(scene)) + 3;
    x = brush.text(x, y, &words, meaning) + 3;
    if brush.width() >= WIDE {
        x = done(scene, brush, x, y, 30) + 3;
    }
    x = brush.text(x, y, &flying, Meaning::Text) + 3;
    if brush.width() >= WIDE {
        let words = format!("journal {}", bytes(totals.journal_bytes));
        // Whole, or not at all: the clock stands at the end.
        if usize::from(x) + words.len() + 15 <= usize::from(brush.width()) {
            brush.text(x, y, &words, Meaning::Dim);
        }
    }
    clock(scene, brush, y);
}

/// A sentence in the place of the first line.
fn trouble_line(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16) -> bool {
    let Some(words) = trouble(scene) else { return false };
    let frozen = frozen(scene).map(|words| format!("{words} ")).unwrap_or_default();
    brush.text(1, y, &format!(" ! {words} {frozen}"), Meaning::Trouble);
    clock(scene, brush, y);
    true
}

/// Columns of the clock, a blank before it.
const CLOCK_WIDTH: usize = 14;

/// The clock at the right end.
fn clock(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16) {
    if scene.model.heard.is_some() {
        let time = scene.model.wall(scene.now).time_of_day();
        let time = if brush.width() < 80 { time.get(..5).unwrap_or_default() } else { &time };
        let text = format!(" {time} UTC");
        brush.text_right(brush.width().saturating_sub(1), y, &text, Meaning::Text);
    }
}

/// How far the crawl is.
fn done_line(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16) {
    let bar = if brush.width() >= 80 { 20 } else { 10 };
    let x = done(scene, brush, 1, y, bar) + 3;
    losses(scene, brush, x, y);
}

/// URLs that got no answer, and input that could not be used; nothing where there is none.
fn losses(scene: &Scene<'_>, brush: &mut Brush<'_>, x: u16, y: u16) {
    let totals = &scene.model.totals;
    let thousands = brush.theme().glyphs.thousands;
    let all = [("failed", totals.urls_failed), ("skipped", totals.urls_skipped), ("bad lines", totals.bad_lines)];
    let words = all.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {}", count(n, thousands)));
    brush.text(x, y, &words.collect::<Vec<_>>().join("  "), Meaning::Dim);
}

/// `done x of y` with a bar and a share; gives the column after it.
fn done(scene: &Scene<'_>, brush: &mut Brush<'_>, x: u16, y: u16, bar: u16) -> u16 {
    let (totals, glyphs) = (&scene.model.totals, brush.theme().glyphs);
    let (settled, all) = settled(scene);
    let done = count(settled, glyphs.thousands);
    if !totals.inputs_read {
        return brush.text(x, y, &format!("{done} done, reading inputs"), Meaning::Text);
    }
    let x = brush.text(x, y, &format!("done {done} of {} ", count(all, glyphs.thousands)), Meaning::Text);
    let x = brush.text(x, y, &bars::bar(ratio(settled as f64, all as f64), bar, glyphs), Meaning::Bar);
    brush.text(x, y, &format!(" {}%", percent(settled, all)), Meaning::Text)
}

/// URLs with an end (answered, given up, never sent), and all.
pub(super) fn settled(scene: &Scene<'_>) -> (u64, u64) {
    let totals = &scene.model.totals;
    let settled = totals.urls_done.saturating_add(totals.urls_failed).saturating_add(totals.urls_skipped);
    (settled, settled.saturating_add(totals.urls_pending))
}

/// Requests a second and what they were answered.
fn now_line(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16, columns: usize) {
    let (totals, glyphs) = (&scene.model.totals, brush.theme().glyphs);
    let wide = brush.width() >= WIDE;
    let mut x = 1;
    if wide {
        x = brush.text(x, y, "requests/s, last hour ", Meaning::Text);
        x = brush.text(x, y, &bars::sparkline(&totals.rate_history, columns, glyphs), Meaning::Bar) + 2;
    }
    x = brush.text(x, y, &format!("now {}/s ", rate(totals.rate_now)), Meaning::Title);
    if !wide {
        x = brush.text(x, y, &bars::sparkline(&totals.rate_history, columns, glyphs), Meaning::Bar) + 1;
    }
    x = brush.text(x, y, &format!("15 m {}", rate(totals.rate_15m)), Meaning::Text) + 2;
    let all: u64 = totals.classes.iter().fold(0, |sum, n| sum.saturating_add(*n));
    for (class, n) in ["2xx", "3xx", "4xx", "5xx", "err"].into_iter().zip(totals.classes) {
        x = brush.text(x, y, &format!(" {class} {}%", percent(n, all)), Meaning::Text) + 1;
    }
    if wide {
        losses(scene, brush, x + 2, y);
    }
}

/// When the bulk and the slowest host will be done.
fn eta(scene: &Scene<'_>, brush: &mut Brush<'_>, x: u16, y: u16) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let totals = &model.totals;
    let mut words = String::from("ETA  ");
    match totals.eta_bulk {
        Some(left) => {
            let at = model.wall(scene.now).after(left).time_of_day();
            words.push_str(&format!("bulk in {} ({})", span(left), at.get(..5).unwrap_or_default()));
        }
        None => words.push_str(&format!("bulk {}", glyphs.none)),
    }
    let x = brush.text(x, y, &words, Meaning::Text);
    if let Some((left, host)) = totals.eta_tail {
        let x = brush.text(x, y, &format!(" {} tail in {}  ", glyphs.dot, span(left)), Meaning::Text);
        if let Some(row) = model.latest(host) {
            brush.clean(x, y, &row.name, Meaning::Tail);
        }
    } else {
        brush.text(x, y, &format!(" {} tail {}", glyphs.dot, glyphs.none), Meaning::Text);
    }
}

/// The counters whose words are fixed; gives the column after them.
pub(super) fn counters(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16) -> u16 {
    let glyphs = brush.theme().glyphs;
    let counts = &scene.model.totals.counts;
    let state = |state: HostState| counts.by_state.get(state as usize).copied().unwrap_or_default();
    let stuck = ("STUCK", counts.stuck, Meaning::Stuck);
    let angry = ("ANGRY", counts.angry, Meaning::Angry);
    let paused = ("PAUSED", state(HostState::Paused), Meaning::Paused);
    let overridden = ("OVERRIDE", counts.overridden, Meaning::Override);
    let tail = ("TAIL", counts.tail, Meaning::Tail);
    let forgotten = ("FORGOTTEN", counts.forgotten, Meaning::Forgotten);
    let backoff = ("backoff", state(HostState::Back) + state(HostState::Block), Meaning::Back);
    // What needs somebody stands in the place of what needs nobody.
    let trap = ("TRAP", counts.trapped, Meaning::Tail);
    let run = if counts.trapped > 0 { trap } else { ("run", state(HostState::Run), Meaning::Text) };
    let wait = ("wait", state(HostState::Wait), Meaning::Text);
    let done = ("done", state(HostState::Done), Meaning::Text);
    let groups: &[&[(&str, u32, Meaning)]] = match brush.width() {
        // What was forgotten is called to mind in the place of what needs nobody.
        ..80 if counts.forgotten > 0 => &[&[stuck, angry, paused, overridden, forgotten]],
        ..80 if counts.trapped > 0 => &[&[stuck, angry, paused, overridden, trap]],
        ..80 => &[&[stuck, angry, paused, overridden]],
        80..100 if counts.forgotten > 0 => &[&[stuck, angry], &[paused, overridden, forgotten], &[run]],
        80..100 => &[&[stuck, angry], &[backoff, paused, overridden], &[run, done]],
        _ if counts.forgotten > 0 => &[&[stuck, angry, tail], &[backoff, paused, overridden, forgotten], &[run, done]],
        _ => &[&[stuck, angry, tail], &[backoff, paused, overridden], &[run, wait, done]],
    };
    let thousands = glyphs.thousands;
    // How long until the first of them ends by itself.
    let lapse = |word: &str, number: u32| {
        let next = match word {
            "PAUSED" => scene.model.lapses.next_pause(),
            "OVERRIDE" => scene.model.lapses.next_override(),
            _ => None,
        };
        let next = next.filter(|_| number > 0);
        next.map(|until| format!(" ({})", age(until.since(scene.model.shown_now(scene.now))))).unwrap_or_default()
    };
    let words = |word: &str, number: u32| format!("{word} {}", count(u64::from(number), thousands));
    let length = |with_lapses: bool| -> usize {
        let lapses = |word, number| if with_lapses { lapse(word, number).len() } else { 0 };
        let groups = groups.iter().map(|group| {
            group.iter().map(|(word, n, _)| words(word, *n).width() + lapses(word, *n) + 2).sum::<usize>() + 1
        });
        groups.sum::<usize>().saturating_sub(2)
    };
    // What does not fit is left out whole, the lapses first: half a word or a word without its number says nothing.
    let room = usize::from(brush.width());
    let with_lapses = length(true) <= room;
    let mut x = 1;
    for (index, group) in groups.iter().enumerate() {
        for (position, (word, number, meaning)) in group.iter().enumerate() {
            let gap = match (index, position) {
                (0, 0) => String::new(),
                (_, 0) => format!(" {} ", glyphs.divider),
                _ => String::from("  "),
            };
            let (words, lapse) = (words(word, *number), if with_lapses { lapse(word, *number) } else { String::new() });
            if usize::from(x) + gap.width() + words.width() + lapse.len() > room {
                return x;
            }
            x = brush.text(x, y, &gap, if position == 0 { Meaning::Rule } else { Meaning::Text });
            let meaning = if *number == 0 { Meaning::Dim } else { *meaning };
            x = brush.text(x, y, &words, meaning);
            x = brush.text(x, y, &lapse, Meaning::Dim);
        }
    }
    x
}

/// One line for low screens.
fn short_line(scene: &Scene<'_>, brush: &mut Brush<'_>, y: u16) {
    if trouble_line(scene, brush, y) {
        return;
    }
    let (totals, glyphs) = (&scene.model.totals, brush.theme().glyphs);
    let (settled, all) = settled(scene);
    let words = format!("{} {}", glyphs.live, state_word(scene));
    let mut x = brush.text(1, y, &words, state_meaning(scene)) + 1;
    let frozen = frozen(scene);
    if let Some(words) = &frozen {
        x = brush.text(x, y, words, Meaning::Trouble) + 1;
    }
    let progress = if totals.inputs_read {
        format!("{}%", percent(settled, all))
    } else {
        format!("{} done", count(settled, glyphs.thousands))
    };
    x = brush.text(x, y, &format!("{progress} {}/s", rate(totals.rate_now)), Meaning::Text) + 1;
    let tail = totals
        .eta_tail
        .filter(|_| frozen.is_none())
        .map(|(left, _)| format!(" tail {}", span(left)))
        .unwrap_or_default();
    let bulk = totals.eta_bulk.map_or_else(|| glyphs.none.to_owned(), span);
    brush.text(x, y, &format!(" ETA {bulk}{tail}"), Meaning::Text);
    clock(scene, brush, y);
}

/// Bytes in three digits.
fn bytes(n: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let found = units.into_iter().find(|(unit, _)| n as f64 >= *unit);
    found.map_or_else(|| format!("{n} B"), |(unit, word)| format!("{:.1} {word}", n as f64 / unit))
}
