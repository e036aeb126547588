//! The picture of a timeline: a row of dots a code, the axis with its marks, the rate, latency as a scatter.
//!
//! A braille cell is two columns of dots; their height is the logarithm of the count. Without braille a cell
//! tells its density in five steps. The cursor is a reversed column, and an arrow below it.

use std::time::Duration;

use crate::clock::Wall;
use crate::control::Outcome;
use crate::journal::timeline::bins::{Bins, Code, Key, LATENCY_STEPS, Mark, Row, latency_of};
use crate::tui::format::{count, count_in, rate, span};
use crate::tui::paint::Brush;
use crate::tui::plot::{Plot, Window};
use crate::tui::theme::{GlyphSet, Meaning};

/// Columns left of the dots: a blank, the code, the divider.
pub const LEFT: u16 = 10;
/// Columns right of them: the divider, the total.
pub const RIGHT: u16 = 10;

/// Cells that a picture of this width has.
pub const fn cells(width: u16) -> u16 {
    let cells = width.saturating_sub(LEFT + RIGHT);
    if cells == 0 { 1 } else { cells }
}

/// Dots of the left and of the right column, by height from the bottom.
const DOTS: [[u32; 5]; 2] = [[0, 0x40, 0x44, 0x46, 0x47], [0, 0x80, 0xA0, 0xB0, 0xB8]];

/// How a code is shown; its name says the same.
fn meaning(code: Code) -> Meaning {
    match code {
        Code::Status(429) | Code::Failed(Outcome::Throttled) => Meaning::Back,
        Code::Status(401 | 403) => Meaning::Angry,
        Code::Status(500..) => Meaning::Block,
        Code::Status(..300) => Meaning::Bar,
        Code::Status(_) | Code::Other => Meaning::Text,
        Code::Failed(_) => Meaning::Paused,
    }
}

/// A time span on the screen.
pub fn span_text(micros: i64) -> String {
    let micros = u64::try_from(micros).unwrap_or(0);
    if micros < 10_000_000 {
        return format!("{:.1} s", micros as f64 / 1e6);
    }
    span(Duration::from_micros(micros))
}

/// A moment; with its date if the run is long.
pub fn moment(at: Wall, with_date: bool) -> String {
    let time = at.time_of_day();
    if with_date { format!("{} {time}", at.rfc3339().get(5..10).unwrap_or_default()) } else { time }
}

/// Whether a run's moments need their date.
pub fn needs_date(bins: &Bins) -> bool {
    (bins.len() as i64).saturating_mul(bins.width()) > 86_400_000_000
}

/// Height 0..=`steps` of a count, by its logarithm.
fn height(count: u64, highest: u64, steps: usize) -> usize {
    if count == 0 || highest == 0 {
        return 0;
    }
    let share = (count as f64).ln_1p() / (highest as f64).ln_1p();
    ((share * steps as f64).ceil() as usize).clamp(1, steps)
}

/// A cell of two columns.
fn cell(counts: [u64; 2], highest: u64, glyphs: &GlyphSet) -> String {
    if !glyphs.braille {
        let step = height(counts[0].max(counts[1]), highest, glyphs.density.len() - 1);
        return glyphs.density.get(step).copied().unwrap_or(" ").to_owned();
    }
    let dots =
        DOTS.iter().zip(counts).map(|(dots, count)| dots[height(count, highest, 4)]).fold(0, |all, one| all | one);
    braille(dots)
}

/// A braille cell; an empty one is a blank.
fn braille(dots: u32) -> String {
    if dots == 0 { String::from(" ") } else { char::from_u32(0x2800 + dots).unwrap_or(' ').to_string() }
}

/// A picture of bins.
pub struct Picture<'a> {
    /// What was counted.
    pub bins: &'a Bins,
    /// Which part of it.
    pub plot: &'a Plot,
}

impl Picture<'_> {
    /// The part shown in an area of this width.
    pub fn window(&self, width: u16) -> Window {
        self.plot.window(self.bins, cells(width))
    }

    /// The moment that a column of an area of this width shows.
    pub fn moment_at(&self, width: u16, column: u16) -> Option<Wall> {
        let window = self.window(width);
        let cell = i64::from(column.checked_sub(LEFT)?);
        (cell < window.cells && !self.bins.is_empty()).then(|| self.bins.start(window.cell(cell).0))
    }

    /// The column of the cursor.
    fn cursor(&self, window: &Window) -> i64 {
        window.cell_of(self.plot.cursor_bin(self.bins)).unwrap_or(-1)
    }

    /// Draws a row for each code; with too few rows the rarest are left out, and the last row says so.
    pub fn codes(&self, brush: &mut Brush<'_>) {
        let glyphs = brush.theme().glyphs;
        let window = self.window(brush.width());
        let mut codes = self.bins.codes();
        let rows = usize::from(brush.height());
        let hidden = codes.len().saturating_sub(rows);
        if hidden > 0 {
            codes.sort_by_key(|(code, row)| (std::cmp::Reverse(row.total), *code));
            codes.truncate(rows.saturating_sub(1));
            codes.sort_by_key(|(code, _)| *code);
        }
        let highest = codes
            .iter()
            .flat_map(|(_, row)| (0..window.cells * 2).map(|column| column_sum(row, &window, column)))
            .max()
            .unwrap_or(0);
        for (y, (code, row)) in (0..brush.height()).zip(&codes) {
            let meaning = meaning(*code);
            brush.text(1, y, &code.word(), meaning);
            let cells: Vec<String> = (0..window.cells)
                .map(|at| {
                    let counts = [2 * at, 2 * at + 1].map(|column| column_sum(row, &window, column));
                    cell(counts, highest, glyphs)
                })
                .collect();
            self.row(brush, y, &window, &cells, meaning);
            let total = count_in(row.total, usize::from(RIGHT - 2), glyphs.thousands);
            brush.text_right(brush.width(), y, &total, Meaning::Text);
        }
        if hidden > 0 {
            let words = format!("{} more codes do not fit", hidden + 1);
            brush.text(LEFT, brush.height() - 1, &words, Meaning::Dim);
        }
    }

    /// Draws latency over time: where any answer fell, logarithmic, slow ones above.
    pub fn scatter(&self, brush: &mut Brush<'_>) {
        let glyphs = brush.theme().glyphs;
        let window = self.window(brush.width());
        let rows = i64::from(brush.height());
        let dots = (rows * 4).max(1);
        let steps: Vec<(u8, &Row)> =
            (0..LATENCY_STEPS as u8).filter_map(|step| Some((step, self.bins.row(Key::Latency(step))?))).collect();
        // The dot row of a step, from the top.
        let place = |step: u8| dots - 1 - i64::from(step) * (dots - 1) / (LATENCY_STEPS as i64 - 1);
        for y in 0..brush.height() {
            let top = i64::from(y) * 4;
            let step = (dots - 1 - top) * (LATENCY_STEPS as i64 - 1) / (dots - 1).max(1);
            let millis = latency_of(u8::try_from(step).unwrap_or(0));
            let label = if millis < 1_000.0 { format!("{millis:.0} ms") } else { format!("{:.1} s", millis / 1e3) };
            brush.text(1, y, &label, Meaning::Dim);
            let here: Vec<_> = steps.iter().filter(|(step, _)| (top..top + 4).contains(&place(*step))).collect();
            let cells: Vec<String> = (0..window.cells)
                .map(|at| {
                    let mut found = 0_u32;
                    let mut all = 0;
                    for (step, row) in &here {
                        for side in 0..2 {
                            let count = column_sum(row, &window, 2 * at + side);
                            all += count;
                            if count > 0 {
                                let dot = usize::try_from(place(*step) - top).unwrap_or(0);
                                let bits = if side == 0 { [1, 2, 4, 0x40] } else { [8, 0x10, 0x20, 0x80] };
                                found |= bits.get(dot).copied().unwrap_or(0);
                            }
                        }
                    }
                    match glyphs.braille {
                        true => braille(found),
                        false => glyphs.density[height(all, 1_000, 4)].to_owned(),
                    }
                })
                .collect();
            self.row(brush, y, &window, &cells, Meaning::Bar);
        }
    }

    /// One row of cells between two dividers, the cursor reversed.
    fn row(&self, brush: &mut Brush<'_>, y: u16, window: &Window, cells: &[String], meaning: Meaning) {
        let divider = brush.theme().glyphs.divider;
        brush.text(LEFT - 1, y, divider, Meaning::Rule);
        brush.ink(LEFT, y, &cells.concat(), meaning);
        let right = LEFT.saturating_add(u16::try_from(window.cells).unwrap_or(u16::MAX));
        brush.text(right, y, divider, Meaning::Rule);
        let cursor = usize::try_from(self.cursor(window)).ok();
        if let Some((at, cell)) = cursor.and_then(|at| Some((at, cells.get(at)?))) {
            brush.text(LEFT.saturating_add(u16::try_from(at).unwrap_or(u16::MAX)), y, cell, Meaning::Selected);
        }
    }

    /// Draws the axis with its marks, and the times below it.
    pub fn axis(&self, brush: &mut Brush<'_>) {
        let glyphs = brush.theme().glyphs;
        let width = brush.width();
        let window = self.window(width);
        let [_, _, bottom_left, bottom_right, _] = glyphs.frame;
        let line = glyphs.rule.repeat(usize::try_from(window.cells).unwrap_or(0));
        brush.text(LEFT - 1, 0, &format!("{bottom_left}{line}{bottom_right}"), Meaning::Rule);
        for at in 0..window.cells {
            let (from, to) = window.cell(at);
            let found = Mark::ALL
                .into_iter()
                .find(|mark| mark.letter().is_some() && self.bins.count(Key::Mark(*mark), from, to) > 0);
            let Some(letter) = found.and_then(Mark::letter) else { continue };
            let meaning = if letter == '!' { Meaning::Angry } else { Meaning::Override };
            let x = LEFT.saturating_add(u16::try_from(at).unwrap_or(u16::MAX));
            brush.text(x, 0, &letter.to_string(), meaning);
        }
        if self.bins.is_empty() {
            return;
        }
        let with_date = needs_date(self.bins);
        let cursor = self.cursor(&window);
        let labels = if with_date { 24 } else { 14 };
        for at in (0..window.cells).step_by(labels) {
            let begins = self.bins.start(window.cell(at).0);
            let text = moment(begins, with_date);
            let end = at + text.len() as i64;
            // A time that the arrow would cut is left out.
            if end <= window.cells && !(at..end).contains(&cursor) {
                brush.text(LEFT.saturating_add(u16::try_from(at).unwrap_or(u16::MAX)), 1, &text, Meaning::Dim);
            }
        }
        let total = format!("{} all", count_in(self.bins.requests(i64::MIN, i64::MAX), 6, glyphs.thousands));
        brush.text_right(width, 1, &total, Meaning::Dim);
        if let Ok(at) = u16::try_from(cursor) {
            brush.text(LEFT.saturating_add(at), 1, glyphs.up, Meaning::Mark);
        }
    }

    /// Draws requests per second over time, as columns that fill the area's height.
    pub fn rate(&self, brush: &mut Brush<'_>) {
        let glyphs = brush.theme().glyphs;
        let window = self.window(brush.width());
        let rates: Vec<f64> = (0..window.cells)
            .map(|at| {
                let (from, to) = window.cell(at);
                let seconds = (to - from).saturating_mul(self.bins.width()) as f64 / 1e6;
                self.bins.requests(from, to) as f64 / seconds.max(1e-6)
            })
            .collect();
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let rows = usize::from(brush.height());
        let steps = glyphs.column_steps.len();
        brush.text_right(LEFT - 1, 0, &rate(highest), Meaning::Dim);
        for y in 0..brush.height() {
            let below = (rows - 1 - usize::from(y)) * steps;
            let line: Vec<String> = rates
                .iter()
                .map(|value| {
                    let filled = (crate::tui::format::ratio(*value, highest) * (rows * steps) as f64).ceil() as usize;
                    let here = filled.saturating_sub(below).min(steps);
                    let column = here.checked_sub(1).and_then(|step| glyphs.column_steps.get(step));
                    column.copied().unwrap_or(" ").to_owned()
                })
                .collect();
            self.row(brush, y, &window, &line, Meaning::Bar);
        }
    }

    /// The counts under the cursor, code by code, and their sum.
    pub fn at_cursor(&self, width: u16) -> (Vec<(Code, u64)>, u64) {
        let window = self.window(width);
        let (from, to) = self.plot.under_cursor(self.bins, &window);
        let codes = self.bins.codes().into_iter().map(|(code, row)| (code, row.sum(from, to)));
        let codes: Vec<_> = codes.filter(|(_, count)| *count > 0).collect();
        let sum = codes.iter().map(|(_, count)| count).sum();
        (codes, sum)
    }

    /// How many different hosts had requests under the cursor, in words.
    pub fn hosts_at_cursor(&self, width: u16, thousands: char) -> String {
        let (from, to) = self.plot.under_cursor(self.bins, &self.window(width));
        let different = self.bins.different_hosts(from, to);
        let about = if different.estimated { "about " } else { "" };
        let word = if different.hosts == 1 { "host" } else { "hosts" };
        format!("{about}{} {word}", count(different.hosts, thousands))
    }

    /// The moments between which the cursor stands.
    pub fn cursor_span(&self, width: u16) -> (Wall, Wall) {
        let window = self.window(width);
        let (from, to) = self.plot.under_cursor(self.bins, &window);
        (self.bins.start(from), self.bins.start(to))
    }
}

/// Requests of a row in a column of dots.
fn column_sum(row: &Row, window: &Window, column: i64) -> u64 {
    let (from, to) = window.column(column);
    row.sum(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{ASCII, UNICODE};

    #[test]
    fn heights_are_logarithmic_and_what_occurred_is_seen() {
        assert_eq!([0, 1, 30, 1_000, 1_000_000].map(|count| height(count, 1_000_000, 4)), [0, 1, 1, 3, 4]);
        assert_eq!(cell([1, 0], 1_000, &UNICODE), "⡀");
        assert_eq!(cell([0, 1_000], 1_000, &UNICODE), "⢸");
        assert_eq!(cell([1_000, 1_000], 1_000, &UNICODE), "⣿");
        assert_eq!(cell([0, 0], 0, &UNICODE), " ");
        assert_eq!([0, 1, 1_000].map(|count| cell([0, count], 1_000, &ASCII)), [" ", ".", "#"]);
    }
}
