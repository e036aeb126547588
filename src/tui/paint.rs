//! The brush: writes words into a part of the frame, clipped on every side.
//!
//! Nothing here panics, whatever the area or the position; nothing indexes the buffer outside its area.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::theme::{Meaning, Theme};
use crate::text::Clean;

/// A brush for one area of the frame. Positions count from the area's top left.
pub struct Brush<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    theme: &'a Theme,
}

impl<'a> Brush<'a> {
    /// A brush for `area`, cut to the buffer.
    pub fn new(buffer: &'a mut Buffer, area: Rect, theme: &'a Theme) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, theme }
    }

    /// A brush for a part of this one's area.
    pub fn part(&mut self, x: u16, y: u16, width: u16, height: u16) -> Brush<'_> {
        let wanted = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height };
        // `intersection` may give a rectangle of no area; the checks below then refuse everything.
        let area = wanted.intersection(self.area);
        Brush { buffer: self.buffer, area, theme: self.theme }
    }

    /// Columns.
    pub fn width(&self) -> u16 {
        self.area.width
    }

    /// Rows.
    pub fn height(&self) -> u16 {
        self.area.height
    }

    /// How things look.
    pub fn theme(&self) -> &'a Theme {
        self.theme
    }

    /// Writes words of our own; gives the column after them.
    pub fn text(&mut self, x: u16, y: u16, text: &str, meaning: Meaning) -> u16 {
        self.write(x, y, text, self.theme.style(meaning))
    }

    /// Writes a part of a picture: as [`Brush::text`], but never with colours swapped, or its empty part would look full.
    pub fn ink(&mut self, x: u16, y: u16, picture: &str, meaning: Meaning) -> u16 {
        self.write(x, y, picture, self.theme.style(meaning).remove_modifier(Modifier::REVERSED))
    }

    fn write(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        debug_assert_eq!(Clean::new(text).as_str(), text, "foreign text must be made clean first");
        if x >= self.area.width || y >= self.area.height {
            return x;
        }
        let (left, top) = (self.area.x + x, self.area.y + y);
        let room = usize::from(self.area.width - x);
        let (after, _) = self.buffer.set_stringn(left, top, text, room, style);
        after.saturating_sub(self.area.x)
    }

    /// Writes foreign text.
    pub fn clean(&mut self, x: u16, y: u16, text: &Clean, meaning: Meaning) -> u16 {
        self.text(x, y, text.as_str(), meaning)
    }

    /// Writes words that end before column `right`.
    pub fn text_right(&mut self, right: u16, y: u16, text: &str, meaning: Meaning) {
        let width = u16::try_from(unicode_width::UnicodeWidthStr::width(text)).unwrap_or(u16::MAX);
        self.text(right.saturating_sub(width), y, text, meaning);
    }

    /// A rule across the row, with words set into it.
    pub fn rule(&mut self, y: u16, left: &str, right: &str) {
        let rule = self.theme.glyphs.rule;
        let line = rule.repeat(usize::from(self.area.width));
        self.text(0, y, &line, Meaning::Rule);
        let mut end = 0;
        if !left.is_empty() {
            end = self.text(1, y, &format!(" {left} "), Meaning::Title);
        }
        let width = u16::try_from(unicode_width::UnicodeWidthStr::width(right)).unwrap_or(u16::MAX);
        if width > 0 && end.saturating_add(width).saturating_add(4) <= self.area.width {
            self.text_right(self.area.width.saturating_sub(1), y, &format!(" {right} "), Meaning::Dim);
        }
    }

    /// Copies rows of another buffer, from its row `first` on, as many as fit.
    pub fn paste(&mut self, from: &Buffer, first: u16) {
        for y in 0..self.area.height {
            for x in 0..self.area.width {
                let cell = from.cell((x, first.saturating_add(y)));
                if let (Some(cell), Some(place)) = (cell, self.buffer.cell_mut((self.area.x + x, self.area.y + y))) {
                    *place = cell.clone();
                }
            }
        }
    }

    /// Lays a style over a row, keeping what is written there.
    pub fn style_row(&mut self, y: u16, meaning: Meaning) {
        if y < self.area.height {
            let row = Rect { x: self.area.x, y: self.area.y + y, width: self.area.width, height: 1 };
            self.buffer.set_style(row, self.theme.style(meaning));
        }
    }

    /// Empties the area. A wide letter that reaches into it from the left goes, too: a terminal would show it whole,
    /// and not what stands here.
    pub fn wipe(&mut self) {
        let blank = " ".repeat(usize::from(self.area.width));
        for y in 0..self.area.height {
            // A style of its own, so that nothing of what was there shines through.
            let style = Style::reset();
            self.buffer.set_stringn(self.area.x, self.area.y + y, &blank, blank.len(), style);
            let left = self.area.x.checked_sub(1).and_then(|x| self.buffer.cell_mut((x, self.area.y + y)));
            if let Some(cell) = left.filter(|cell| unicode_width::UnicodeWidthStr::width(cell.symbol()) > 1) {
                cell.set_char(' ');
            }
        }
    }

    /// A box in the middle with a title above and words at its lower edge; gives a brush for its inside.
    pub fn boxed(&mut self, width: u16, height: u16, title: &str, below: &str) -> Brush<'_> {
        let width = width.min(self.area.width);
        let height = height.min(self.area.height);
        let (x, y) = ((self.area.width - width) / 2, (self.area.height - height) / 2);
        let mut frame = self.part(x, y, width, height);
        frame.wipe();
        let [top_left, top_right, bottom_left, bottom_right, side] = frame.theme.glyphs.frame;
        let rule = frame.theme.glyphs.rule.repeat(usize::from(width.saturating_sub(2)));
        let last = height.saturating_sub(1);
        frame.text(0, 0, &format!("{top_left}{rule}{top_right}"), Meaning::Text);
        for row in 1..last {
            frame.text(0, row, side, Meaning::Text);
            frame.text(width.saturating_sub(1), row, side, Meaning::Text);
        }
        frame.text(0, last, &format!("{bottom_left}{rule}{bottom_right}"), Meaning::Text);
        if !title.is_empty() && width > 6 {
            // Corner, rule and blank on either side.
            let title = super::format::end_cut(title, usize::from(width - 6), frame.theme.glyphs.ellipsis);
            frame.text(2, 0, &format!(" {title} "), Meaning::Title);
        }
        if !below.is_empty() && usize::from(width) > below.len() + 4 {
            frame.text_right(width.saturating_sub(2), last, &format!(" {below} "), Meaning::Dim);
        }
        let area = frame.area;
        let inside = Rect {
            x: area.x.saturating_add(2),
            y: area.y.saturating_add(1),
            width: area.width.saturating_sub(4),
            height: area.height.saturating_sub(2),
        };
        Brush { buffer: self.buffer, area: inside, theme: self.theme }
    }
}
