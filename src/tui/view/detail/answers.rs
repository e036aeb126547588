//! What came back: codes and failures, answers over time, the last requests and decisions.

use super::super::Scene;
use super::super::log::who;
use super::{Pen, Plan, millis};
use crate::control::{Code, HostView, Mono};
use crate::tui::format::{age, count, count_in, end_cut, ratio};
use crate::tui::theme::Meaning;
use crate::tui::why::outcome_words;
use crate::tui::widget::{bars, dots};
use crate::watch::{Focus, Recent};

/// Columns of a code's words before its dots.
const LABEL: u16 = 13;

/// A status, or what there was instead.
fn code_words(code: Code) -> String {
    match code {
        Code::Status(status) => status.to_string(),
        Code::Failure(failure) => outcome_words(failure.outcome()).to_owned(),
        Code::Other => String::from("others"),
    }
}

/// Codes and failures, last 5 minutes and total.
pub(super) fn codes(pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView) {
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

/// Answers over time, a row a code.
pub(super) fn scatter(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView, now: Mono) {
    if plan.scatter == 0 {
        return;
    }
    let glyphs = pen.brush.theme().glyphs;
    let width = usize::from(pen.brush.width().saturating_sub(LABEL + 2)) * dots::steps_a_cell(glyphs);
    let mut columns = scene.model.history.columns(view.id, now, width);
    pen.rule(
        plan,
        &format!("time {} status", glyphs.times),
        &format!("last {}, height is the log of the count", age(columns.span)),
    );
    let highest = columns.counts.iter().flat_map(|(_, counts)| counts).copied().max().unwrap_or(0);
    // What does not fit are the rarest.
    let hidden = columns.counts.len().saturating_sub(plan.scatter);
    if hidden > 0 {
        columns.counts.sort_by_key(|(code, counts)| (std::cmp::Reverse(counts.iter().sum::<u32>()), *code));
        columns.counts.truncate(plan.scatter.saturating_sub(1));
        columns.counts.sort_by_key(|(code, _)| *code);
    }
    for (code, counts) in &columns.counts {
        let words = end_cut(&code_words(*code), usize::from(LABEL - 3), glyphs.ellipsis);
        pen.brush.text(2, pen.y, &words, Meaning::Text);
        pen.brush.text(LABEL, pen.y, &dots::scatter(counts, highest, glyphs), Meaning::Bar);
        pen.y = pen.y.saturating_add(1);
    }
    if hidden > 0 {
        pen.line(&format!("and {} more", hidden + 1), Meaning::Dim);
    }
    if columns.counts.is_empty() {
        pen.line("nothing yet", Meaning::Dim);
    }
}

/// The last requests and decisions, newest first, as many as fit.
pub(super) fn recent(pen: &mut Pen<'_, '_>, plan: &Plan, focus: Option<&Focus>) {
    let glyphs = pen.brush.theme().glyphs;
    pen.rule(plan, "recent", "");
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
