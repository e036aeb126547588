//! The last line: the filter prompt, else what was just done, else the keys.

use unicode_width::UnicodeWidthStr;

use super::Scene;
use super::prompt::line;
use crate::tui::format::end_cut;
use crate::tui::keymap::Action;
use crate::tui::model::{Overlay, Screen};
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;
use crate::watch::Phase;

/// Draws it.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let (model, glyphs) = (scene.model, brush.theme().glyphs);
    let room = usize::from(brush.width().saturating_sub(2));
    if let Overlay::Filter { input } = &model.overlay {
        let x = brush.text(1, 0, "/ ", Meaning::Key);
        let hint = match model.screen {
            Screen::Log => "words of a line, ! not   Enter keeps  Esc drops",
            _ => "is:angry  429>0  rate<0.5  *.example  ! not  | or   Enter keeps  Esc drops",
        };
        line(brush, x, input, model.filter_error.as_ref(), hint);
        return;
    }
    if let Overlay::Command(prompt) = &model.overlay {
        let x = brush.text(1, 0, ":", Meaning::Key);
        let hint = crate::tui::update::preview(model, prompt, scene.now);
        line(brush, x, &prompt.input, prompt.error.as_ref(), &hint);
        return;
    }
    if let Some(note) = &model.note {
        let meaning = if note.trouble { Meaning::Angry } else { Meaning::Notice };
        brush.text(1, 0, &end_cut(&glyphs.spell(note.text.as_str()), room, glyphs.ellipsis), meaning);
        return;
    }
    if matches!(model.totals.phase, Phase::Finished | Phase::Stopped) {
        let x = brush.text(1, 0, "The crawl is over.  ", Meaning::Notice);
        let x = brush.text(x, 0, &scene.keymap.key_of(Action::Leave), Meaning::Key);
        brush.text(x, 0, " leaves", Meaning::Notice);
        return;
    }
    keys(&scene.keymap.footer(model.place()), brush);
}

/// As many keys as fit, in the order of the keymap; help always.
pub(crate) fn keys(items: &[(String, String)], brush: &mut Brush<'_>) {
    let cost = |(key, words): &(String, String)| key.width() + 1 + words.width() + 2;
    let (others, help): (Vec<_>, Vec<_>) = items.iter().partition(|(_, words)| words != "help");
    let reserved: usize = help.iter().map(|item| cost(item)).sum();
    let mut left = usize::from(brush.width()).saturating_sub(reserved.saturating_sub(1));
    let fitting = others.into_iter().take_while(|item| {
        let fits = cost(item) <= left;
        left = left.saturating_sub(cost(item));
        fits
    });
    let mut x = 1;
    for (key, words) in fitting.chain(help) {
        x = brush.text(x, 0, key, Meaning::Key) + 1;
        x = brush.text(x, 0, words, Meaning::Text) + 2;
    }
}
