//! The newest decisions, newest first.

use super::Scene;
use crate::control::Who;
use crate::tui::format::{count, end_cut, middle_cut};
use crate::tui::keymap::Action;
use crate::tui::model::Part;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;
use crate::watch::LogLine;

/// Draws the rule (if asked for) and as many lines as fit.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>, with_rule: bool) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let top = u16::from(with_rule);
    if with_rule {
        let left = match model.unseen {
            0 => String::from("log"),
            n => format!("log {} {} new since you last looked", glyphs.dot, count(n as u64, glyphs.thousands)),
        };
        let verb = if model.log_open { "less" } else { "expand" };
        brush.rule(0, &left, &format!("{} {verb}", scene.keymap.key_of(Action::Log)));
        if model.part == Part::Log {
            brush.style_row(0, Meaning::Selected);
        }
    }
    for (y, line) in (top..brush.height()).zip(model.log.iter().rev().skip(model.log_top)) {
        line_words(brush, y, line, false);
    }
}

/// One line: when, by whom (if asked for, and from 100 columns on), which host, what.
pub(super) fn line_words(brush: &mut Brush<'_>, y: u16, line: &LogLine, with_who: bool) {
    let glyphs = brush.theme().glyphs;
    let wide = brush.width() >= 100;
    let host_width = if wide { 24 } else { 18 };
    let mut x = brush.text(1, y, &line.wall.time_of_day(), Meaning::Dim) + 1;
    let (word, meaning) = who(line.who);
    if wide || with_who {
        brush.text(x, y, word, meaning);
        x += 6;
    }
    let host = if line.host.as_str().is_empty() { glyphs.none } else { line.host.as_str() };
    brush.text(x, y, &middle_cut(host, host_width, glyphs.ellipsis), meaning);
    x += u16::try_from(host_width).unwrap_or(u16::MAX) + 1;
    let room = usize::from(brush.width().saturating_sub(x));
    brush.text(x, y, &end_cut(&glyphs.spell(line.text.as_str()), room, glyphs.ellipsis), Meaning::Text);
}

/// Who decided, in a word.
pub(super) const fn who(who: Who) -> (&'static str, Meaning) {
    match who {
        Who::Controller => ("auto", Meaning::Text),
        Who::Operator => ("you", Meaning::Override),
        Who::Server => ("host", Meaning::Back),
        Who::Site => ("site", Meaning::Text),
        Who::Concern => ("alert", Meaning::Angry),
        Who::System => ("note", Meaning::Dim),
    }
}
