//! A frame as text with its styles, for snapshot tests.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::text_of;

/// Each row's text and, below it, a letter a cell for its style; the letters are explained at the end.
pub(in crate::tui) fn dump(buffer: &Buffer) -> String {
    let mut styles: Vec<(Color, Color, Modifier)> = Vec::new();
    let mut out = String::new();
    let text = text_of(buffer);
    for (y, line) in (0..buffer.area.height).zip(text.lines()) {
        let mut letters = String::new();
        for x in 0..buffer.area.width {
            let Some(cell) = buffer.cell((x, y)) else { continue };
            let style = (cell.fg, cell.bg, cell.modifier);
            if style == (Color::Reset, Color::Reset, Modifier::empty()) {
                letters.push(' ');
                continue;
            }
            let at = styles.iter().position(|known| *known == style).unwrap_or_else(|| {
                styles.push(style);
                styles.len() - 1
            });
            letters.push(char::from(b'a' + u8::try_from(at).expect("few styles")));
        }
        out.push_str(&format!("{line}\n"));
        if !letters.trim().is_empty() {
            out.push_str(&format!("{}\n", letters.trim_end()));
        }
    }
    for (at, (fg, bg, modifier)) in (0..).zip(&styles) {
        out.push_str(&format!("{} = {fg} on {bg} {modifier:?}\n", char::from(b'a' + at)));
    }
    out
}
