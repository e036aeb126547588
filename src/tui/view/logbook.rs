//! The log as a screen: the newest decisions first, with a line where one last looked.

use super::Scene;
use super::log::line_words;
use crate::tui::format::{count, end_cut};
use crate::tui::model::LOG_MAX;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;

/// Draws title and lines.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let book = &model.logbook;
    let shown: Vec<_> = book.shown(&model.log).collect();
    let entries = count(shown.len() as u64, glyphs.thousands);
    let following = if model.frozen.is_some() {
        "FROZEN"
    } else if book.follows() {
        "following"
    } else {
        "standing still: g follows again"
    };
    let filter = book.filter_text();
    let right = match (book.who(), filter.as_str()) {
        ("everybody", "") => String::from("no filter"),
        (who, "") => format!("only {who}"),
        (who, words) => format!("{who} {} {}", glyphs.dot, end_cut(words, 30, glyphs.ellipsis)),
    };
    // What is older is not kept here, and a screen that does not say so would seem to be the whole log.
    let older = book.came.saturating_sub(model.log.len() as u64);
    let of = match older {
        0 => String::new(),
        _ => format!(" of the newest {LOG_MAX}, older ones in events.jsonl"),
    };
    brush.rule(0, &format!("log {} {entries} entries{of} {} {following}", glyphs.dot, glyphs.dot), &right);
    if shown.is_empty() {
        let words = if model.log.is_empty() { "no decision yet" } else { "no line passes the filter; esc drops it" };
        brush.text(2, 1, words, Meaning::Dim);
        return;
    }
    let height = usize::from(brush.height().saturating_sub(1));
    let at = book.selected(&model.log).map_or(0, |(at, _)| at);
    // The selected line is on the screen, and as much of what is newer as fits; a row is kept for the mark.
    let top = (at + 2).saturating_sub(height.max(2));
    let looked = book.last_looked();
    let mut y = 1;
    let mut newer = top.checked_sub(1).and_then(|above| shown.get(above)).map(|(number, _)| *number);
    for (position, (number, line)) in shown.iter().enumerate().skip(top) {
        if y >= brush.height() {
            return;
        }
        if let Some((came, wall)) = looked
            && *number < came
            && newer.is_some_and(|newer| newer >= came)
        {
            let time = wall.time_of_day();
            let rule = glyphs.rule.repeat(8);
            let words = format!("{rule} you last looked at {} {rule}", time.get(..5).unwrap_or_default());
            brush.text(10, y, &words, Meaning::Notice);
            y += 1;
        }
        line_words(brush, y, line, true);
        if position == at {
            brush.text(0, y, glyphs.cursor, Meaning::Text);
            brush.style_row(y, Meaning::Selected);
        }
        newer = Some(*number);
        y += 1;
    }
}
