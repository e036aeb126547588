//! The last line: the filter prompt, else what was just done, else the keys.

use unicode_width::UnicodeWidthStr;

use super::Scene;
use super::prompt::with_caret;
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
        let x = brush.text(x, 0, &with_caret(input, glyphs), Meaning::Text) + 2;
        match &model.filter_error {
            Some(error) => brush.clean(x, 0, error, Meaning::Angry),
            None if model.screen == Screen::Log => {
                brush.text(x, 0, "words of a line, ! not   Enter keeps  Esc drops", Meaning::Dim)
            }
            None => brush.text(
                x,
                0,
                "is:angry  429>0  rate<0.5  *.example  ! not  | or   Enter keeps  Esc drops",
                Meaning::Dim,
            ),
        };
        return;
    }
    if let Overlay::Command(prompt) = &model.overlay {
        let x = brush.text(1, 0, ":", Meaning::Key);
        let x = brush.text(x, 0, &with_caret(&prompt.input, glyphs), Meaning::Text) + 2;
        match &prompt.error {
            Some(error) => brush.clean(x, 0, error, Meaning::Angry),
            None => brush.text(x, 0, &crate::tui::update::preview(model, prompt, scene.now), Meaning::Dim),
        };
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
    if model.screen == Screen::Log {
        log_keys(scene, brush);
        return;
    }
    keys(scene, brush);
}

/// What keys do on the log.
fn log_keys(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let words = [
        (Action::Open, "the host"),
        (Action::Filter, "filter"),
        (Action::Wake, "who"),
        (Action::NextAlert, "next alert"),
        (Action::Copy, "copy"),
        (Action::Back, "back"),
        (Action::Help, "help"),
    ];
    let mut x = 1;
    for (action, word) in words {
        let key = scene.keymap.key_of(action);
        if usize::from(x) + key.width() + word.width() + 2 > usize::from(brush.width()) {
            return;
        }
        x = brush.text(x, 0, &key, Meaning::Key) + 1;
        x = brush.text(x, 0, word, Meaning::Text) + 2;
    }
}

/// As many actions as fit, in the order of the keymap; help always.
fn keys(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    if scene.model.plot.is_some() {
        return crate::tui::live::footer(scene, brush);
    }
    let bindings = scene.keymap.bindings();
    let words = |binding: &crate::tui::keymap::Binding| {
        let key = binding.keys.first().map(ToString::to_string).unwrap_or_default();
        binding.footer.clone().map(|footer| (key, footer))
    };
    let cost = |(key, footer): &(String, String)| key.width() + 1 + footer.width() + 2;
    let help = bindings.iter().find(|binding| binding.action == Action::Help).and_then(words);
    let reserved = help.as_ref().map_or(0, cost);
    let mut left = usize::from(brush.width()).saturating_sub(reserved + 1);
    let shown = bindings.iter().filter(|binding| binding.action != Action::Help).filter_map(words);
    let fitting = shown.take_while(|item| {
        let fits = cost(item) <= left;
        left = left.saturating_sub(cost(item));
        fits
    });
    let mut x = 1;
    for (key, footer) in fitting.chain(help) {
        x = brush.text(x, 0, &key, Meaning::Key) + 1;
        x = brush.text(x, 0, &footer, Meaning::Text) + 2;
    }
}
