//! What a frame must be whatever it shows, for tests at any size and of any session.

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr;

use crate::text::Clean;

/// `CRAWLDECK_EVERY_SIZE=1 cargo test --lib every_size` draws all 30,000 sizes; without it every 61st is drawn, and
/// property tests draw any.
pub(in crate::tui) fn every_size() -> impl Iterator<Item = (u16, u16)> {
    let step = if std::env::var_os("CRAWLDECK_EVERY_SIZE").is_some() { 1 } else { 61 };
    (1..=100).flat_map(|height| (1..=300).map(move |width| (width, height))).step_by(step)
}

/// What is broken in a frame drawn with Unicode glyphs or ASCII: nothing, if it is as it must be.
///
/// A cell holds harmless text; what is two columns wide has both of them, within the frame and with nothing of its
/// own in the second; a box has all four corners and both sides.
pub(in crate::tui) fn broken(buffer: &Buffer) -> Vec<String> {
    let (width, height) = (buffer.area.width, buffer.area.height);
    let symbol =
        |x: u16, y: u16| buffer.cell((x, y)).filter(|_| x < width && y < height).map_or("", |cell| cell.symbol());
    let mut found = Vec::new();
    for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
        let here = symbol(x, y);
        // Nearly all cells are one printable byte: these are quick to judge.
        if let [b' '..=b'~'] = here.as_bytes() {
            continue;
        }
        if Clean::new(here).as_str() != here {
            found.push(format!("{x},{y}: {:?} may not be written", here));
        }
        if here.width() > 1 && (x + 1 >= width || !symbol(x + 1, y).trim().is_empty()) {
            found.push(format!("{x},{y}: {here:?} stands over {:?}", symbol(x + 1, y)));
        }
        if here == "╭" {
            let Some(right) = (x..width).find(|right| symbol(*right, y) == "╮") else {
                found.push(format!("{x},{y}: a box without its right side"));
                continue;
            };
            let Some(last) = (y..height).find(|last| symbol(x, *last) == "╰") else {
                found.push(format!("{x},{y}: a box without its lower edge"));
                continue;
            };
            if symbol(right, last) != "╯" {
                found.push(format!("{right},{last}: a box without its corner"));
            }
            for row in y + 1..last {
                if symbol(x, row) != "│" || symbol(right, row) != "│" {
                    found.push(format!("row {row}: a box without its side"));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    fn frame(lines: &[&str]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 3));
        for (y, line) in (0..).zip(lines) {
            buffer.set_stringn(0, y, line, 6, Style::reset());
        }
        buffer
    }

    #[test]
    fn a_whole_frame_is_told_from_broken_ones() {
        assert_eq!(broken(&frame(&["╭────╮", "│日本│", "╰────╯"])), Vec::<String>::new());
        for lines in [["╭────-", "│日本│", "╰────╯"], ["╭────╮", "│日本 ", "╰────╯"], ["╭────╮", "│日本│", "╰─────"]]
        {
            assert_ne!(broken(&frame(&lines)), Vec::<String>::new(), "{lines:?}");
        }
        let mut under = frame(&["日本"]);
        under.set_stringn(1, 0, "│", 1, Style::reset());
        assert_eq!(broken(&under).len(), 1, "a border under a wide letter is not seen");
        let mut foreign = frame(&[]);
        foreign.cell_mut((0, 0)).expect("within").set_char('\u{202e}');
        assert_eq!(broken(&foreign).len(), 1);
    }
}
