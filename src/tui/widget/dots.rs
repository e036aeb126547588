//! Pictures over time: answers as rising dots, a rate as columns under its original.
//!
//! All take any figures; what is not a number counts as nothing.

use crate::tui::format::ratio;
use crate::tui::theme::GlyphSet;

/// Dots of one braille cell from the bottom, left and right column.
const LEFT: [u32; 4] = [0x40, 0x04, 0x02, 0x01];
const RIGHT: [u32; 4] = [0x80, 0x20, 0x10, 0x08];

/// Heights from 0 to 4, by the logarithm of the count: 1, some, many, most of `highest`.
fn height(count: u32, highest: u32) -> usize {
    if count == 0 {
        return 0;
    }
    let share = ratio(f64::from(count).ln_1p(), f64::from(highest.max(1)).ln_1p());
    ((share * 4.0).ceil() as usize).clamp(1, 4)
}

/// Counts over time, two a cell in braille; ` .:+#`, one a cell, in ASCII.
pub fn scatter(counts: &[u32], highest: u32, glyphs: &GlyphSet) -> String {
    let Some(ascii) = glyphs.dots else {
        let cell = |pair: &[u32]| {
            let mut dots = 0x2800;
            for (side, count) in [LEFT, RIGHT].iter().zip(pair) {
                dots += side.iter().take(height(*count, highest)).sum::<u32>();
            }
            if dots == 0x2800 { ' ' } else { char::from_u32(dots).unwrap_or(' ') }
        };
        return counts.chunks(2).map(cell).collect();
    };
    counts.iter().map(|count| ascii.get(height(*count, highest)).copied().unwrap_or(' ')).collect()
}

/// Time steps that one cell of [`scatter`] shows.
pub fn steps_a_cell(glyphs: &GlyphSet) -> usize {
    if glyphs.dots.is_some() { 1 } else { 2 }
}

/// `rates` as columns in `rows` rows, the top one first, each up to `top`; `mark` is drawn as a line where
/// no column covers it.
pub fn chart(rates: &[f32], mark: f64, top: f64, rows: usize, glyphs: &GlyphSet) -> Vec<String> {
    let steps = glyphs.column_steps.len();
    let level = |value: f64| (ratio(value, top) * (rows * steps) as f64).round() as usize;
    // The row, counted from the bottom, in which the line lies: what reaches its upper edge is in it.
    let marked = level(mark).saturating_sub(1) / steps.max(1);
    let row = |from_bottom: usize| {
        rates
            .iter()
            .map(|rate| {
                let rate = f64::from(*rate);
                let mut level = level(rate);
                // A rate that is not zero is seen.
                level = level.max(usize::from(rate > 0.0));
                match level.saturating_sub(from_bottom * steps).min(steps).checked_sub(1) {
                    Some(step) => glyphs.column_steps.get(step).copied().unwrap_or(" "),
                    None if from_bottom == marked && mark > 0.0 => glyphs.rule,
                    None => " ",
                }
            })
            .collect()
    };
    (0..rows).rev().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{ASCII, UNICODE};
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn dots_rise_with_the_logarithm() {
        assert_eq!(scatter(&[0, 0, 1, 0, 100, 10], 100, &UNICODE), " ⡀⣷");
        assert_eq!(scatter(&[0, 1, 5, 30, 100], 100, &ASCII), " .:+#");
    }

    #[test]
    fn the_original_is_a_line_above_the_columns() {
        let rows = chart(&[2.0, 1.0, 0.01, f32::NAN], 2.0, 2.0, 2, &UNICODE);
        assert_eq!(rows, ["█───", "██▁ "]);
        let over = chart(&[4.0, 1.0], 2.0, 4.0, 2, &UNICODE);
        assert_eq!(over, ["█ ", "█▄"], "a line that the columns cover is not seen");
    }

    proptest! {
        #[test]
        fn any_figures_have_a_picture(counts: Vec<u32>, highest: u32, rates: Vec<f32>, mark: f64, top: f64, rows in 0_usize..9) {
            for glyphs in [&UNICODE, &ASCII] {
                prop_assert_eq!(scatter(&counts, highest, glyphs).width(), counts.len().div_ceil(steps_a_cell(glyphs)));
                let rows_drawn = chart(&rates, mark, top, rows, glyphs);
                prop_assert_eq!(rows_drawn.len(), rows);
                prop_assert!(rows_drawn.iter().all(|row| row.width() == rates.len()));
            }
        }
    }
}
