//! A question before a far-reaching act, and the menu of sort keys.

use unicode_width::UnicodeWidthStr;

use crate::tui::format::end_cut;
use crate::tui::model::Question;
use crate::tui::order::SortKey;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;

/// Draws the question. Enter is no.
pub(super) fn draw(brush: &mut Brush<'_>, question: &Question) {
    let ellipsis = brush.theme().glyphs.ellipsis;
    let longest = question.lines.iter().map(|line| line.as_str().width()).max().unwrap_or(0);
    let width = u16::try_from(longest).unwrap_or(u16::MAX).saturating_add(4).clamp(50, 76);
    let rows = u16::try_from(question.lines.len()).unwrap_or(u16::MAX);
    let mut inside = brush.boxed(width, rows.saturating_add(4), "sure?", "");
    let room = usize::from(inside.width());
    for (y, line) in (0..).zip(&question.lines) {
        inside.text(0, y, &end_cut(line.as_str(), room, ellipsis), if y == 0 { Meaning::Title } else { Meaning::Text });
    }
    let last = inside.height().saturating_sub(1);
    let x = inside.text(0, last, "Enter", Meaning::Key);
    let x = inside.text(x, last, " cancel (default)     ", Meaning::Text);
    let x = inside.text(x, last, "y", Meaning::Key);
    inside.text(x, last, " yes", Meaning::Text);
}

/// Draws the menu.
pub(super) fn sort_menu(brush: &mut Brush<'_>, at: usize) {
    let cursor = brush.theme().glyphs.cursor;
    let rows = u16::try_from(SortKey::ALL.len()).unwrap_or(u16::MAX);
    let mut inside = brush.boxed(34, rows.saturating_add(2), "sort by", "Enter   Esc");
    for ((y, index), by) in (0_u16..).zip(0_usize..).zip(SortKey::ALL) {
        inside.text(2, y, &format!("{} {}", index + 1, by.as_str()), Meaning::Text);
        if index == at {
            inside.text(0, y, cursor, Meaning::Text);
            inside.style_row(y, Meaning::Selected);
        }
    }
}
