//! The dialog before leaving.

use super::Scene;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;

/// Draws it.
pub(super) fn draw(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let mut inside = brush.boxed(66, 9, "leave the crawl?", "");
    let flying = scene.model.totals.in_flight;
    let wide = inside.width() >= 62;
    let words = match wide {
        true => format!("The crawl runs inside this program.  {flying} requests in flight."),
        false => format!("The crawl runs in this program.  {flying} in flight."),
    };
    inside.text(0, 0, &words, Meaning::Text);
    let choices = [
        ("Esc / c", "stay here                                (default)", "stay here (default)"),
        ("d", "drain: finish what is in flight, save, then leave", "drain: finish what is in flight, leave"),
        ("n", "stop now: requeue what is in flight, save, leave", "stop now: requeue what is in flight, leave"),
    ];
    for (y, (key, words, short)) in (2..).zip(choices) {
        inside.text(2, y, key, Meaning::Key);
        inside.text(12, y, if wide { words } else { short }, Meaning::Text);
    }
    inside.text(0, 6, "A second ctrl-c drains; a third stops now.", Meaning::Dim);
}
