//! Bars and columns as text: a bucket's fill, the histogram of classes, a sparkline.
//!
//! All take any figure: NaN and infinities count as nothing or as full.

use crate::tui::format::ratio;
use crate::tui::theme::GlyphSet;

/// A horizontal bar of `width` columns, its two ends included, filled to `share` (0..=1).
pub fn bar(share: f64, width: u16, glyphs: &GlyphSet) -> String {
    let inside = usize::from(width.saturating_sub(2));
    let mut out = String::from(glyphs.bar_left);
    out.push_str(&fill(share, inside, glyphs));
    out.push_str(glyphs.bar_right);
    out
}

/// The inside of a bar.
fn fill(share: f64, cells: usize, glyphs: &GlyphSet) -> String {
    let steps = glyphs.bar_steps.len().max(1);
    let share = ratio(share, 1.0);
    // Full only when full: a bucket that looks full is read as "not limited by us".
    let filled = (share * (cells * steps) as f64 + 1e-6).floor() as usize;
    let mut out = String::new();
    for cell in 0..cells {
        let here = filled.saturating_sub(cell * steps).min(steps);
        out.push_str(match here.checked_sub(1) {
            Some(step) => glyphs.bar_steps.get(step).copied().unwrap_or(" "),
            None => glyphs.bar_empty,
        });
    }
    out
}

/// Five columns, one a class: height is the class's share of all.
pub fn classes(counts: [u32; 5], glyphs: &GlyphSet) -> String {
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    counts
        .iter()
        .map(|count| if *count == 0 { glyphs.column_none } else { column(f64::from(*count), all as f64, glyphs) })
        .collect()
}

/// The newest `width` figures as columns, scaled to the highest of them.
pub fn sparkline(history: &[f32], width: usize, glyphs: &GlyphSet) -> String {
    let shown = history.get(history.len().saturating_sub(width)..).unwrap_or_default();
    let highest = shown.iter().copied().filter(|value| value.is_finite()).fold(0.0_f32, f32::max);
    shown
        .iter()
        .map(|value| {
            if value.is_finite() && *value > 0.0 {
                column(f64::from(*value), f64::from(highest), glyphs)
            } else {
                glyphs.column_none
            }
        })
        .collect()
}

/// One column of `part / whole`.
fn column(part: f64, whole: f64, glyphs: &GlyphSet) -> &'static str {
    let steps = glyphs.column_steps.len();
    let step = (ratio(part, whole) * steps as f64).floor() as usize;
    glyphs.column_steps.get(step.min(steps.saturating_sub(1))).copied().unwrap_or(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{ASCII, UNICODE};
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn bars_fill_by_eighths() {
        assert_eq!(bar(0.0, 6, &UNICODE), "▕    ▏");
        assert_eq!(bar(0.5, 6, &UNICODE), "▕██  ▏");
        assert_eq!(bar(0.7, 6, &UNICODE), "▕██▊ ▏");
        assert_eq!(bar(1.0, 6, &UNICODE), "▕████▏");
        assert_eq!(bar(0.7, 6, &ASCII), "[##..]");
    }

    #[test]
    fn a_class_that_occurred_is_seen() {
        assert_eq!(classes([1000, 1, 0, 0, 0], &UNICODE), "█▁   ");
        assert_eq!(classes([1000, 1, 0, 0, 0], &ASCII), "90...");
        assert_eq!(classes([0; 5], &ASCII), ".....");
    }

    #[test]
    fn a_sparkline_shows_the_newest() {
        assert_eq!(sparkline(&[9.0, 1.0, 2.0, f32::NAN, 4.0], 4, &UNICODE), "▃▅ █");
    }

    proptest! {
        #[test]
        fn any_figure_has_a_picture(share: f64, width in 0_u16..50, history: Vec<f32>, counts: [u32; 5]) {
            for glyphs in [&UNICODE, &ASCII] {
                prop_assert_eq!(bar(share, width, glyphs).width(), usize::from(width.max(2)));
                prop_assert!(sparkline(&history, 12, glyphs).width() <= 12);
                prop_assert_eq!(classes(counts, glyphs).width(), 5);
            }
        }
    }
}
