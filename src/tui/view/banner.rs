//! What is wrong though the crawl goes on, on every screen until it is mended: the configuration file (the old one is in
//! force meanwhile), files of our own that cannot be replaced.

use crate::text::Clean;
use crate::tui::format::end_cut;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;

/// Draws them, a row each, cut at the end: what it is about comes first, and the log has the rest.
pub(super) fn draw<'a>(troubles: impl Iterator<Item = &'a Clean>, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let room = usize::from(brush.width().saturating_sub(5));
    for (y, trouble) in (0..brush.height()).zip(troubles) {
        let words = end_cut(&glyphs.spell(trouble.as_str()), room, glyphs.ellipsis);
        brush.text(1, y, &format!(" ! {words} "), Meaning::Trouble);
    }
}
