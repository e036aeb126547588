//! A screen too small for a table: the counters, and how much is needed.

use super::{LEAST_HEIGHT, LEAST_WIDTH, Scene, header};
use crate::control::HostState;
use crate::tui::format::percent;
use crate::tui::model::Overlay;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;

/// Draws what fits, most urgent first. A question that is open is asked here, too.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let totals = &scene.model.totals;
    let counts = &totals.counts;
    let paused = counts.by_state.get(HostState::Paused as usize).copied().unwrap_or_default();
    let (settled, all) = header::settled(scene);
    let mut lines = Vec::new();
    match &scene.model.overlay {
        Overlay::Leave => lines.push((String::from("leave? c stay  d drain  n now"), Meaning::Title)),
        Overlay::Confirm(_) => lines.push((String::from("sure? y yes  Enter no"), Meaning::Title)),
        _ => {}
    }
    match header::trouble(scene) {
        Some(words) => lines.push((words, Meaning::Trouble)),
        None => lines.push((format!("{} {}%", header::state_word(scene), percent(settled, all)), Meaning::Title)),
    }
    lines.extend(totals.banners().map(|words| (format!("! {words}"), Meaning::Trouble)));
    lines.extend(header::frozen(scene).map(|words| (words, Meaning::Trouble)));
    lines.push((format!("STUCK {}", counts.stuck), Meaning::Text));
    lines.push((format!("ANGRY {}", counts.angry), Meaning::Text));
    lines.push((format!("PAUSED {paused}"), Meaning::Text));
    lines.push((format!("OVERRIDE {}", counts.overridden), Meaning::Text));
    lines.push((format!("hosts {}", scene.model.hosts()), Meaning::Text));
    let need = format!("need {LEAST_WIDTH}{}{LEAST_HEIGHT}", brush.theme().glyphs.times);
    // With one row only the state is shown; else the last row says what is needed.
    let last = brush.height().saturating_sub(1);
    for (y, (words, meaning)) in (0..last.max(1)).zip(&lines) {
        brush.text(0, y, words, *meaning);
    }
    if last > 0 {
        brush.text(0, last.min(u16::try_from(lines.len()).unwrap_or(u16::MAX)), &need, Meaning::Dim);
    }
}
