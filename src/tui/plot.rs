//! Which part of a timeline is shown, and where its cursor is. Pure; times stay times, whatever the bins' width.

use crate::clock::Wall;
use crate::journal::timeline::bins::Bins;

/// What is drawn over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// A row of dots a code.
    #[default]
    Codes,
    /// Where latencies fell.
    Latency,
    /// Requests per second.
    Rate,
}

impl Kind {
    /// The next one.
    pub fn next(self) -> Self {
        match self {
            Self::Codes => Self::Latency,
            Self::Latency => Self::Rate,
            Self::Rate => Self::Codes,
        }
    }

    /// Words above the picture.
    pub fn words(self) -> &'static str {
        match self {
            Self::Codes => "time × status",
            Self::Latency => "latency of whole answers",
            Self::Rate => "requests a second",
        }
    }
}

/// Zoom, cursor and kind of picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plot {
    /// Each step halves the span shown; 0 = everything.
    pub zoom: u32,
    /// Where the cursor is; `None` = at the newest, and it stays there.
    pub cursor: Option<Wall>,
    /// What is drawn.
    pub kind: Kind,
}

/// The bins that a picture shows. A cell is two columns of dots, a column is one bin or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first bin.
    pub left: i64,
    /// How many bins are shown; never fewer than columns.
    pub shown: i64,
    /// Cells across.
    pub cells: i64,
}

impl Window {
    /// The bins `from..to` of a cell.
    pub fn cell(&self, cell: i64) -> (i64, i64) {
        (self.border(cell, self.cells), self.border(cell + 1, self.cells))
    }

    /// The bins `from..to` of a column of dots.
    pub fn column(&self, column: i64) -> (i64, i64) {
        (self.border(column, 2 * self.cells), self.border(column + 1, 2 * self.cells))
    }

    /// The cell of a bin, if it is shown.
    pub fn cell_of(&self, bin: i64) -> Option<i64> {
        let cell = ((bin - self.left + 1) * self.cells - 1).div_euclid(self.shown);
        (0..self.cells).contains(&cell).then_some(cell)
    }

    /// The first bin of the `at`-th of `parts` equal parts.
    fn border(&self, at: i64, parts: i64) -> i64 {
        self.left + (at * self.shown).div_euclid(parts)
    }
}

impl Plot {
    /// What is shown in `cells` cells.
    pub fn window(&self, bins: &Bins, cells: u16) -> Window {
        let cells = i64::from(cells.max(1));
        let count = bins.len() as i64;
        let shown = (count >> self.zoom.min(62)).max(2 * cells);
        // The cursor stands in the middle, but for the ends.
        let left = (self.cursor_bin(bins) - shown / 2).clamp(0, (count - shown).max(0));
        Window { left, shown, cells }
    }

    /// The bin of the cursor.
    pub fn cursor_bin(&self, bins: &Bins) -> i64 {
        let last = (bins.len() as i64 - 1).max(0);
        self.cursor.map_or(last, |at| bins.bin_of(at).clamp(0, last))
    }

    /// The bins `from..to` under the cursor.
    pub fn under_cursor(&self, bins: &Bins, window: &Window) -> (i64, i64) {
        window.cell(window.cell_of(self.cursor_bin(bins)).unwrap_or(0))
    }

    /// Moves the cursor by so many cells; at the end it stays at the newest from then on.
    pub fn step(&mut self, bins: &Bins, cells: u16, by: i64) {
        let window = self.window(bins, cells);
        let cell = window.cell_of(self.cursor_bin(bins)).unwrap_or(0);
        // No run has more cells than bins.
        let to = window.cell(cell + by.clamp(-(bins.len() as i64), bins.len() as i64)).0;
        let last = (bins.len() as i64 - 1).max(0);
        self.cursor = (to <= last - window.shown / window.cells).then(|| bins.start(to.max(0)));
    }

    /// Shows half of the span; `false` = a column is one bin already.
    pub fn zoom_in(&mut self, bins: &Bins, cells: u16) -> bool {
        let window = self.window(bins, cells);
        let closer = window.shown > 2 * window.cells;
        self.zoom += u32::from(closer);
        closer
    }

    /// Shows twice the span.
    pub fn zoom_out(&mut self) {
        self.zoom = self.zoom.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::journal::timeline::bins::{BINS_MAX, Code, Key, WIDTH_FIRST};

    fn bins(count: usize) -> Bins {
        let mut bins = Bins::default();
        (0..count as i64).for_each(|bin| bins.add(Wall(bin * WIDTH_FIRST), Key::Code(Code::Status(200))));
        bins
    }

    proptest! {
        #[test]
        fn every_bin_is_in_one_cell_and_the_cursor_is_seen(
            count in 1_usize..BINS_MAX,
            cells in 0_u16..300,
            zoom in 0_u32..70,
            moves in proptest::collection::vec(-50_i64..50, 0..6),
        ) {
            let bins = bins(count);
            let mut plot = Plot { zoom, ..Plot::default() };
            for by in moves {
                plot.step(&bins, cells, by);
            }
            let window = plot.window(&bins, cells);
            prop_assert!(window.cell_of(plot.cursor_bin(&bins)).is_some());
            let whole = Plot::default().window(&bins, cells);
            let sum: u64 = (0..whole.cells).map(|cell| {
                let (from, to) = whole.cell(cell);
                bins.requests(from, to)
            }).sum();
            prop_assert_eq!(sum, count as u64);
        }
    }

    #[test]
    fn the_cursor_moves_by_cells_and_follows_at_the_end() {
        let bins = bins(1_200);
        let mut plot = Plot::default();
        plot.step(&bins, 60, -1);
        assert_eq!((plot.window(&bins, 60).shown, plot.cursor), (1_200, Some(bins.start(1_160))));
        plot.step(&bins, 60, 5);
        assert_eq!(plot.cursor, None);
        assert!(plot.zoom_in(&bins, 60) && plot.window(&bins, 60).shown == 600);
        plot.zoom_out();
        plot.zoom_out();
        assert_eq!(plot.zoom, 0);
    }
}
