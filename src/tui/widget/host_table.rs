//! The table of hosts. Only the rows on the screen are ever looked at: the source is asked for them one
//! by one, so that a million hosts cost no more than a screenful.

use std::collections::HashSet;

use crate::clock::Wall;
use crate::control::{ConcernKind, HostId, HostState, HostView, Limiting, Mono, Trend};
use crate::tui::format::{count_in, countdown, middle_cut, rate, ratio};
use crate::tui::model::Model;
use crate::tui::order::SortKey;
use crate::tui::paint::Brush;
use crate::tui::theme::{GlyphSet, Meaning};
use crate::tui::why;
use crate::watch::HostRow;

use super::bars;

/// Where rows come from.
pub trait Rows {
    /// The row at a position of the order shown.
    fn row(&self, position: usize) -> Option<&HostRow>;
}

impl Rows for Model {
    fn row(&self, position: usize) -> Option<&HostRow> {
        self.row_at(position)
    }
}

/// What the rows are drawn with.
pub struct Context<'a> {
    /// The first position shown.
    pub top: usize,
    /// The selected host.
    pub cursor: Option<HostId>,
    /// Marked hosts.
    pub marks: &'a HashSet<HostId>,
    /// The time shown.
    pub now: Mono,
    /// Wall time at that time.
    pub wall: Wall,
}

/// Widths of the columns; 0 = not shown. `why` and `host` are the last to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    host: u16,
    state: u16,
    bucket: u16,
    auto: u16,
    codes: u16,
    hold: u16,
    flying: u16,
    queue: u16,
    why: u16,
}

/// Cursor, mark, glyph and a gap.
const LEAD: u16 = 4;
/// The rate and its arrow.
const RATE: u16 = 7;

impl Columns {
    /// The columns that fit `width`.
    pub fn fit(width: u16) -> Self {
        let mut columns =
            Self { host: 0, state: 0, bucket: 0, auto: 0, codes: 5, hold: 6, flying: 0, queue: 0, why: 0 };
        // Each with a gap after it; the bucket stands right before the rate.
        let mut fixed = LEAD + 1 + RATE + 1 + (columns.codes + 1) + (columns.hold + 1);
        if width >= 80 {
            (columns.state, columns.bucket, columns.queue) = (5, 6, 6);
            fixed += 6 + 6 + 7;
        }
        if width >= 100 {
            columns.auto = 6;
            fixed += 14;
        }
        if width >= 105 {
            columns.flying = 3;
            fixed += 4;
        }
        if width >= 140 {
            columns.bucket = 10;
            fixed += 4;
        }
        let rest = width.saturating_sub(fixed);
        columns.host = (rest * 5 / 9).min(32);
        columns.why = rest - columns.host;
        columns
    }
}

impl Columns {
    /// What a click on the heading at column `x` sorts by.
    pub fn sort_key_at(self, x: u16) -> Option<SortKey> {
        // In the order of the headings: width with the gap after it.
        let wide = |width: u16, gap: u16| if width > 0 { width + gap } else { 0 };
        let columns = [
            (LEAD, Some(SortKey::Attention)),
            (self.host + 1, Some(SortKey::Host)),
            (wide(self.state, 1), Some(SortKey::Attention)),
            (wide(self.bucket, 0), Some(SortKey::Rate)),
            (RATE + 1, Some(SortKey::Rate)),
            (wide(self.auto, 1) * 2, None),
            (self.codes + 1, Some(SortKey::Errors)),
            (self.hold + 1, Some(SortKey::Hold)),
            (wide(self.flying, 1), None),
            (wide(self.queue, 1), Some(SortKey::Queue)),
        ];
        let mut end = 0;
        let found = columns.into_iter().find(|(width, _)| {
            end += width;
            x < end
        });
        found.map_or(Some(SortKey::Attention), |(_, by)| by)
    }
}

/// The headings.
pub fn heading(brush: &mut Brush<'_>, y: u16, columns: Columns) {
    let mut pen = Pen { brush, x: LEAD, y, meaning: Meaning::Dim };
    pen.left("HOST", columns.host, 1);
    pen.left("STATE", columns.state, 1);
    pen.left("BUCKET", columns.bucket, 0);
    pen.right("RATE/s", RATE, 1);
    pen.right("AUTO", columns.auto, 1);
    pen.right("ORIG", columns.auto, 1);
    pen.left("2345E", columns.codes, 1);
    pen.right("HOLD", columns.hold, 1);
    pen.right("INF", columns.flying, 1);
    pen.right("QUEUE", columns.queue, 1);
    pen.left("WHY", columns.why, 0);
}

/// Draws the rows that fit `brush`; gives how many there were.
pub fn draw(brush: &mut Brush<'_>, rows: &impl Rows, columns: Columns, context: &Context<'_>) -> u16 {
    for y in 0..brush.height() {
        let Some(row) = rows.row(context.top.saturating_add(usize::from(y))) else {
            return y;
        };
        draw_row(brush, y, row, columns, context);
    }
    brush.height()
}

/// One row.
fn draw_row(brush: &mut Brush<'_>, y: u16, row: &HostRow, columns: Columns, context: &Context<'_>) {
    let glyphs = brush.theme().glyphs;
    let view = &row.view;
    let selected = context.cursor == Some(view.id);
    let (glyph, meaning) = character(view, glyphs);
    if selected {
        brush.text(0, y, glyphs.cursor, Meaning::Text);
    }
    if context.marks.contains(&view.id) {
        brush.text(1, y, glyphs.mark, Meaning::Mark);
    }
    brush.text(2, y, glyph, meaning);
    let mut pen = Pen { brush, x: LEAD, y, meaning: Meaning::Text };
    let name = middle_cut(row.name.as_str(), usize::from(columns.host), glyphs.ellipsis);
    pen.left(&name, columns.host, 1);
    pen.meaning = meaning;
    pen.left(view.state.as_str(), columns.state, 1);
    pen.meaning = Meaning::Bar;
    let bucket = pen.x..pen.x + columns.bucket;
    if columns.bucket > 0 {
        let share = ratio(view.tokens_at(context.now), view.effective.capacity);
        pen.left(&bars::bar(share, columns.bucket, glyphs), columns.bucket, 0);
    }
    pen.meaning = Meaning::Text;
    pen.right(&rate(view.effective.rate), RATE - 1, 0);
    let (arrow, arrow_meaning) = match (view.overriding, view.trend) {
        (Some(_), _) => (glyphs.overridden, Meaning::Override),
        (None, Trend::Up) => (glyphs.up, Meaning::Text),
        (None, Trend::Down) => (glyphs.down, Meaning::Back),
        (None, Trend::Level) => (" ", Meaning::Text),
    };
    pen.meaning = arrow_meaning;
    pen.left(arrow, 1, 1);
    pen.meaning = Meaning::Text;
    pen.right(&rate(view.adaptive.rate), columns.auto, 1);
    pen.right(&rate(view.original.rate), columns.auto, 1);
    pen.left(&bars::classes(view.recent, glyphs), columns.codes, 1);
    // A pause that ends by itself counts down in the same column: whichever lasts longer is what is waited for.
    let pause = view.pause.and_then(|pause| pause.until).map(|until| until.since(context.now));
    let left = pause.filter(|left| !left.is_zero()).max(view.hold_left(context.now));
    let hold = left.map_or_else(|| glyphs.none.to_owned(), countdown);
    pen.right(&hold, columns.hold, 1);
    pen.right(&view.in_flight.min(999).to_string(), columns.flying, 1);
    pen.right(&count_in(view.queued, usize::from(columns.queue), glyphs.thousands), columns.queue, 1);
    let mut parts = why::parts(view, context.now, context.wall, glyphs.times);
    parts.extend(row.group.as_ref().map(|group| format!("group {group}")));
    let words = why::join(&parts, usize::from(columns.why), glyphs.dot, glyphs.ellipsis);
    pen.meaning = if meaning == Meaning::Run { Meaning::Dim } else { meaning };
    pen.left(&words, columns.why, 0);
    if selected {
        // Not the bucket: where colours are swapped, its empty part would look full.
        let after = pen.brush.width().saturating_sub(bucket.end);
        pen.brush.part(0, y, bucket.start, 1).style_row(0, Meaning::Selected);
        pen.brush.part(bucket.end, y, after, 1).style_row(0, Meaning::Selected);
    }
}

/// The glyph before the name, and what it means.
pub fn character(view: &HostView, glyphs: &GlyphSet) -> (&'static str, Meaning) {
    let (glyph, meaning) = match (view.concern.map(|concern| concern.kind), view.state) {
        (Some(ConcernKind::Stuck), _) => (glyphs.stuck, Meaning::Stuck),
        (Some(ConcernKind::Angry), _) => (glyphs.angry, Meaning::Angry),
        (Some(ConcernKind::SharedLimit), _) => (glyphs.shared, Meaning::Tail),
        (Some(ConcernKind::Trap), _) => (glyphs.trap, Meaning::Tail),
        (Some(ConcernKind::Tail), _) => (glyphs.tail, Meaning::Tail),
        (Some(ConcernKind::Forgotten), _) => (glyphs.forgotten, Meaning::Forgotten),
        (None, HostState::Paused) => (glyphs.paused, Meaning::Paused),
        (None, _) if view.overriding.is_some() => (glyphs.overridden, Meaning::Override),
        (None, HostState::Block) => (glyphs.angry, Meaning::Block),
        (None, HostState::Back) => (glyphs.back, Meaning::Back),
        (None, HostState::Run) if view.limiting == Limiting::Halted => (glyphs.paused, Meaning::Paused),
        (None, HostState::Run) => (glyphs.run, Meaning::Run),
        (None, HostState::Wait) => (glyphs.wait, Meaning::Wait),
        (None, HostState::Done) => (glyphs.done, Meaning::Done),
        (None, HostState::Idle) => (glyphs.idle, Meaning::Done),
    };
    (glyph, meaning)
}

/// Writes column after column.
struct Pen<'a, 'b> {
    brush: &'a mut Brush<'b>,
    x: u16,
    y: u16,
    meaning: Meaning,
}

impl Pen<'_, '_> {
    /// A column of `width`, nothing at all if that is 0, and a gap after it.
    fn left(&mut self, text: &str, width: u16, gap: u16) {
        if width > 0 {
            self.brush.part(self.x, self.y, width, 1).text(0, 0, text, self.meaning);
            self.x = self.x.saturating_add(width + gap);
        }
    }

    /// The same, aligned to the right.
    fn right(&mut self, text: &str, width: u16, gap: u16) {
        if width > 0 {
            self.brush.part(self.x, self.y, width, 1).text_right(width, 0, text, self.meaning);
            self.x = self.x.saturating_add(width + gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::sample;
    use crate::tui::theme::{Theme, UNICODE};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use std::cell::Cell;

    /// Rows without end, counting how often one is asked for.
    struct Counting {
        row: HostRow,
        asked: Cell<usize>,
    }

    impl Rows for Counting {
        fn row(&self, position: usize) -> Option<&HostRow> {
            self.asked.set(self.asked.get() + 1);
            (position < 10_000).then_some(&self.row)
        }
    }

    #[test]
    fn wanted_19_only_the_rows_on_the_screen_are_touched() {
        let rows = Counting { row: sample::row(0, "www.astr.test"), asked: Cell::new(0) };
        let area = Rect::new(0, 0, 160, 40);
        let (mut buffer, theme, marks) = (Buffer::empty(area), Theme::plain(&UNICODE), HashSet::new());
        let context = Context { top: 5_000, cursor: None, marks: &marks, now: sample::NOW, wall: Wall(0) };
        let drawn = draw(&mut Brush::new(&mut buffer, area, &theme), &rows, Columns::fit(160), &context);
        assert_eq!((drawn, rows.asked.get()), (40, 40));
    }

    #[test]
    fn the_bucket_of_the_selected_host_is_no_negative_of_the_others() {
        let area = Rect::new(0, 0, 80, 1);
        let (mut buffer, theme, marks) = (Buffer::empty(area), Theme::plain(&UNICODE), HashSet::new());
        let rows = Counting { row: sample::row(0, "www.astr.test"), asked: Cell::new(0) };
        let cursor = Some(rows.row.view.id);
        let context = Context { top: 0, cursor, marks: &marks, now: sample::NOW, wall: Wall(0) };
        let columns = Columns::fit(80);
        draw(&mut Brush::new(&mut buffer, area, &theme), &rows, columns, &context);
        let swapped = |x: u16| buffer[(x, 0)].modifier.contains(ratatui::style::Modifier::REVERSED);
        let bucket = LEAD + columns.host + 1 + columns.state + 1;
        let end = bucket + columns.bucket;
        assert_eq!((buffer[(bucket, 0)].symbol(), buffer[(end - 1, 0)].symbol()), ("▕", "▏"));
        assert!((0..80).all(|x| swapped(x) != (bucket..end).contains(&x)));
    }

    #[test]
    fn columns_never_pass_the_width() {
        for width in 60..=300 {
            let c = Columns::fit(width);
            let gaps = [
                (c.state, 1),
                (c.bucket, 0),
                (c.auto, 1),
                (c.auto, 1),
                (c.codes, 1),
                (c.hold, 1),
                (c.flying, 1),
                (c.queue, 1),
            ];
            let sum: u16 = gaps.iter().filter(|(w, _)| *w > 0).map(|(w, gap)| w + gap).sum();
            assert_eq!(LEAD + c.host + 1 + RATE + 1 + sum + c.why, width, "{width}");
            assert!(c.host >= 18 && usize::from(c.why) >= why::NARROW, "{width}: {c:?}");
        }
    }
}
