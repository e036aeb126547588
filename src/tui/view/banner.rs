//! What is wrong with the configuration file, on every screen until it is right: the old one is in force meanwhile.

use crate::text::Clean;
use crate::tui::format::end_cut;
use crate::tui::paint::Brush;
use crate::tui::theme::Meaning;

/// Draws it, cut at the end: the place in the file comes first, and the log has the rest.
pub(super) fn draw(trouble: &Clean, brush: &mut Brush<'_>) {
    let glyphs = brush.theme().glyphs;
    let room = usize::from(brush.width().saturating_sub(5));
    let words = end_cut(&glyphs.spell(trouble.as_str()), room, glyphs.ellipsis);
    brush.text(1, 0, &format!(" ! {words} "), Meaning::Trouble);
}
