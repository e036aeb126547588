//! The picture of `--plot`: requests a second over time against the hidden limit, in plain characters.
//!
//! A column is a stretch of time. Its bar is how much was sent, the line is what the server allowed, the
//! row below tells how often it refused. What is above the scale ends in an arrow.

use std::io::{self, Write};

use crate::sim::Course;

/// Rows of the picture.
const ROWS: usize = 16;
/// Columns left of it: the scale.
const SCALE: usize = 8;
/// Columns of it at least.
const COLUMNS_MIN: usize = 20;
/// Scale above the highest limit.
const HEADROOM: f64 = 1.5;

/// The characters of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ink {
    /// Bars by eighths, from one to eight.
    bars: [char; 8],
    limit: char,
    /// The limit inside a bar.
    limit_reached: char,
    above: char,
    axis: char,
}

impl Ink {
    /// With blocks and lines.
    pub(super) const UNICODE: Self =
        Self {
            bars: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'], limit: '─', limit_reached: '┿', above: '↑', axis: '│'
        };
    /// Plain ASCII.
    pub(super) const ASCII: Self =
        Self { bars: [' ', ' ', ' ', '#', '#', '#', '#', '#'], limit: '-', limit_reached: '=', above: '^', axis: '|' };
}

/// One column.
#[derive(Clone, Copy, Default)]
struct Column {
    sent: f64,
    limit: f64,
    refused: u64,
}

/// Draws `course` in `width` columns in all.
pub(super) fn draw(course: &Course, width: usize, ink: Ink, out: &mut dyn Write) -> io::Result<()> {
    let columns = columns(course, width.saturating_sub(SCALE + 1).max(COLUMNS_MIN));
    let highest = columns.iter().map(|column| column.limit).fold(0.0, f64::max);
    let top = (highest * HEADROOM).max(1e-9);
    let per_row = top / ROWS as f64;
    for row in (0..ROWS).rev() {
        let floor = row as f64 * per_row;
        let label = if row % 4 == 3 || row == 0 { format!("{:.2}", floor + per_row / 2.0) } else { String::new() };
        write!(out, "{label:>width$}{}", ink.axis, width = SCALE)?;
        let cells: String = columns.iter().map(|column| cell(column, floor, per_row, row + 1 == ROWS, ink)).collect();
        writeln!(out, "{}", cells.trim_end())?;
    }
    let refused: String = columns.iter().map(|column| tally(column.refused)).collect();
    writeln!(out, "{:>width$}{}{}", "refused", ink.axis, refused.trim_end(), width = SCALE)?;
    let hours = format!("{:.1} h", course.limit.len() as f64 / 3_600.0);
    writeln!(out, "{:width$} 0{hours:>rest$}", "", width = SCALE, rest = columns.len().saturating_sub(1))
}

fn columns(course: &Course, count: usize) -> Vec<Column> {
    let seconds = course.limit.len();
    let count = count.min(seconds.max(1));
    let column = |index: usize| {
        let (from, to) = (index * seconds / count, (index + 1) * seconds / count);
        let length = (to - from).max(1) as f64;
        let sum = |counts: &[u32]| counts[from..to].iter().map(|one| u64::from(*one)).sum::<u64>();
        Column {
            sent: sum(&course.sent) as f64 / length,
            limit: course.limit[from..to].iter().map(|limit| f64::from(*limit)).sum::<f64>() / length,
            refused: sum(&course.refused),
        }
    };
    (0..count).map(column).collect()
}

fn cell(column: &Column, floor: f64, per_row: f64, highest: bool, ink: Ink) -> char {
    let level = (column.sent - floor) / per_row;
    if highest && level > 1.0 {
        return ink.above;
    }
    let has_limit = column.limit >= floor && column.limit < floor + per_row;
    match (has_limit, (level * 8.0).round()) {
        (true, eighths) if eighths >= 8.0 => ink.limit_reached,
        (true, _) => ink.limit,
        (false, eighths) if eighths < 1.0 => ' ',
        (false, eighths) => ink.bars[(eighths as usize).min(8) - 1],
    }
}

/// How many in one character.
fn tally(count: u64) -> char {
    match count {
        0 => ' ',
        1..=9 => char::from_digit(u32::try_from(count).unwrap_or(9), 10).unwrap_or('9'),
        10..=99 => '+',
        _ => '!',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour: half of it at the limit of 2/s, then three times that, refused.
    fn course() -> Course {
        let sent = (0..3_600).map(|second| if second < 1_800 { 2 } else { 6 }).collect();
        let refused = (0..3_600).map(|second| if second < 1_800 { 0 } else { 4 }).collect();
        Course { sent, accepted: vec![2; 3_600], refused, limit: vec![2.0; 3_600] }
    }

    fn drawn(width: usize, ink: Ink) -> Vec<String> {
        let mut out = Vec::new();
        draw(&course(), width, ink, &mut out).expect("written");
        String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn it_keeps_to_its_width_and_shows_limit_rate_and_refusals() {
        for width in [29, 80, 200] {
            let lines = drawn(width, Ink::UNICODE);
            assert_eq!(lines.len(), ROWS + 2);
            assert_eq!(lines.iter().map(|line| line.chars().count()).max(), Some(width), "{width}");
            let columns = width - SCALE - 1;
            // 2 of at most 3 a second: the limit stands in the eleventh of sixteen rows.
            let limit = &lines[ROWS - 1 - 10];
            assert_eq!(limit.chars().skip(SCALE + 1).filter(|c| "─┿".contains(*c)).count(), columns, "{limit}");
            assert_eq!(lines[0].chars().filter(|c| *c == '↑').count(), columns - columns / 2);
            // Four a second: a wide picture has fewer than a hundred in a column.
            let mark = if 4 * 3_600 / columns < 100 { '+' } else { '!' };
            assert!(lines[ROWS].ends_with(mark) && lines[ROWS].contains("│ "), "{}", lines[ROWS]);
            assert!(lines[ROWS + 1].ends_with("1.0 h"));
        }
    }

    #[test]
    fn ascii_is_ascii_and_a_narrow_screen_still_gets_a_picture() {
        for line in drawn(1, Ink::ASCII) {
            assert!(line.is_ascii() && line.len() <= SCALE + 1 + COLUMNS_MIN, "{line}");
        }
        let mut out = Vec::new();
        draw(&Course::default(), 80, Ink::ASCII, &mut out).expect("written");
    }
}
