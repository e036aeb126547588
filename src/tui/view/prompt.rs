//! The override prompt with its preview: what each host would get, before anything is done.

use tui_input::Input;
use unicode_width::UnicodeWidthStr;

use super::Scene;
use crate::control::HostId;
use crate::text::Clean;
use crate::tui::format::{countdown, end_cut, middle_cut, rate, start_cut};
use crate::tui::paint::Brush;
use crate::tui::spec;
use crate::tui::theme::{GlyphSet, Meaning};

/// Hosts shown in the preview at most.
const PREVIEW_MAX: u16 = 6;

/// What was typed, with the caret, in at most `room` columns: the caret is always among them. Typed text may hold
/// anything a terminal can paste, so it is cleaned.
pub(in crate::tui) fn with_caret(input: &Input, room: usize, glyphs: &GlyphSet) -> String {
    let text = input.value();
    let split = text.char_indices().nth(input.cursor()).map_or(text.len(), |(at, _)| at);
    let (before, after) = text.split_at_checked(split).unwrap_or((text, ""));
    let (before, after) = (Clean::new(before), Clean::new(after));
    let room = room.saturating_sub(glyphs.caret.width());
    // What follows has a third of the room, or what is left of it.
    let behind = after.as_str().width().min((room / 3).max(room.saturating_sub(before.as_str().width())));
    let before = start_cut(before.as_str(), room - behind, glyphs.ellipsis);
    let after = end_cut(after.as_str(), room - before.width(), glyphs.ellipsis);
    format!("{before}{}{after}", glyphs.caret)
}

/// Draws a line to type into, from column `x` on, and behind it words about it: they give way to the line, but an
/// error keeps a half of the room.
pub(in crate::tui) fn line(brush: &mut Brush<'_>, x: u16, input: &Input, error: Option<&Clean>, hint: &str) {
    let glyphs = brush.theme().glyphs;
    let room = usize::from(brush.width().saturating_sub(x + 1));
    let kept = error.map_or(0, |error| (error.as_str().width() + 2).min(room / 2));
    let x = brush.text(x, 0, &with_caret(input, room - kept, glyphs), Meaning::Text) + 2;
    let (words, meaning) = error.map_or((hint, Meaning::Dim), |error| (error.as_str(), Meaning::Angry));
    let room = usize::from(brush.width().saturating_sub(x));
    brush.text(x, 0, &end_cut(words, room, glyphs.ellipsis), meaning);
}

/// Draws the prompt.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>, input: &Input, targets: &[HostId]) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let hosts = if targets.len() == 1 { String::from("1 host") } else { format!("{} hosts", targets.len()) };
    let preview = u16::try_from(targets.len()).unwrap_or(u16::MAX).min(PREVIEW_MAX);
    let low = brush.height() < 14;
    let height = if low { brush.height() } else { 10 + preview };
    let title = format!("override rate {} {hosts}", glyphs.dot);
    let mut inside = brush.boxed(72, height, &title, "Enter apply   Esc cancel");
    let width = inside.width();
    let room = usize::from(width);

    let first = targets.first().and_then(|id| model.latest(*id)).map(|row| row.name.as_str()).unwrap_or_default();
    let more = match targets.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more marked hosts", n - 1),
    };
    inside.text(0, 0, &middle_cut(first, room.saturating_sub(more.len()), glyphs.ellipsis), Meaning::Title);
    inside.text_right(width, 0, &more, Meaning::Text);

    let spec = spec::parse(input.value(), model.wall(scene.now));
    let typed = !input.value().trim().is_empty();
    let error = spec.as_ref().err().filter(|_| typed).map(|error| Clean::new(error.to_string())).unwrap_or_default();
    let x = inside.text(0, 2, "rate  ", Meaning::Text);
    let left = usize::from(width.saturating_sub(x));
    let kept = (error.as_str().width() + 2).min(left / 2);
    let x = inside.text(x, 2, &with_caret(input, left - kept, glyphs), Meaning::Key) + 2;
    let left = usize::from(width.saturating_sub(x));
    inside.text(x, 2, &end_cut(error.as_str(), left, glyphs.ellipsis), Meaning::Angry);
    inside.text(6, 3, "0.5  30/m  x0.5  +25%   cap 10   for 30m   until 07:00", Meaning::Dim);

    let heading = format!("{:>10}{:>10}{:>11}{:>10}", "original", "adaptive", "effective", "becomes");
    inside.text_right(width.saturating_sub(9), 5, &heading, Meaning::Dim);
    let now = model.engine_now(scene.now);
    let mut held = None;
    for (y, id) in (6..6 + preview).zip(targets) {
        let Some(row) = model.latest(*id) else { continue };
        let view = &row.view;
        let name = middle_cut(row.name.as_str(), room.saturating_sub(51), glyphs.ellipsis);
        inside.text(0, y, &name, Meaning::Text);
        let becomes = match &spec {
            Ok(spec) => match spec::becomes(spec, view) {
                Ok(after) if spec.rate.is_none() => format!("cap {}", rate(after.capacity)),
                Ok(after) => format!("{} *", rate(after.rate)),
                Err(_) => String::from("refused"),
            },
            Err(_) => glyphs.none.to_owned(),
        };
        let star = if view.overriding.is_some() { glyphs.overridden } else { " " };
        let figures = format!(
            "{:>10}{:>10}{:>10}{star}{:>10}",
            rate(view.original.rate),
            rate(view.adaptive.rate),
            rate(view.effective.rate),
            becomes
        );
        inside.text_right(width.saturating_sub(9), y, &figures, Meaning::Text);
        if let Some(left) = view.hold_left(now) {
            inside.text(width.saturating_sub(8), y, "(held)", Meaning::Back);
            held = held.or(Some((&row.name, left)));
        }
    }
    if low {
        return;
    }
    let after = 6 + preview;
    inside.text(0, after, "The controller keeps learning underneath; auto gives it back.", Meaning::Dim);
    if let Some((name, left)) = held {
        let name = middle_cut(name.as_str(), 24, glyphs.ellipsis);
        let words = format!("Backoff and Retry-After win: {name} stays held {}.", countdown(left));
        inside.text(0, after + 1, &end_cut(&words, room, glyphs.ellipsis), Meaning::Dim);
    }
}
