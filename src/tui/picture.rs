//! A frame as SVG, for the README: real frames, not drawings.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// Width and height of a cell, and the font's size, in SVG units.
const CELL: (f32, f32) = (8.4, 17.0);
const FONT: f32 = 14.0;
/// Colours of plain text and of the background.
const INK: &str = "#d8dee9";
const PAPER: &str = "#1b1e24";

/// Draws `buffer` as an SVG picture; `alt` says what is to be seen on it.
pub fn svg(buffer: &Buffer, alt: &str) -> String {
    let area = buffer.area;
    let (width, height) = (f32::from(area.width) * CELL.0 + 16.0, f32::from(area.height) * CELL.1 + 16.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{PAPER}\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"{FONT}\" \
         xml:space=\"preserve\">\n",
        escape(alt)
    );
    for y in 0..area.height {
        for run in runs(buffer, y) {
            draw_run(&mut out, &run, y);
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Neighbouring cells of one style.
struct Run {
    x: u16,
    width: u16,
    text: String,
    ink: String,
    paper: Option<String>,
    bold: bool,
    dim: bool,
}

/// The runs of a row.
fn runs(buffer: &Buffer, y: u16) -> Vec<Run> {
    let area = buffer.area;
    let mut runs: Vec<Run> = Vec::new();
    let mut x = 0;
    while x < area.width {
        let Some(cell) = buffer.cell((area.x + x, area.y + y)) else { break };
        let width = u16::try_from(cell.symbol().width()).unwrap_or(1).max(1);
        let reversed = cell.modifier.contains(Modifier::REVERSED);
        let ink = color(cell.fg).unwrap_or_else(|| INK.to_owned());
        let (ink, paper) = if reversed { (PAPER.to_owned(), Some(ink)) } else { (ink, None) };
        let (bold, dim) = (cell.modifier.contains(Modifier::BOLD), cell.modifier.contains(Modifier::DIM));
        match runs.last_mut() {
            Some(last) if (&last.ink, &last.paper, last.bold, last.dim) == (&ink, &paper, bold, dim) => {
                last.text.push_str(cell.symbol());
                last.width += width;
            }
            _ => runs.push(Run { x, width, text: cell.symbol().to_owned(), ink, paper, bold, dim }),
        }
        x += width;
    }
    runs
}

/// Writes a run: its background, then its text stretched to its cells.
fn draw_run(out: &mut String, run: &Run, y: u16) {
    let (x, top) = (f32::from(run.x) * CELL.0 + 8.0, f32::from(y) * CELL.1 + 8.0);
    let width = f32::from(run.width) * CELL.0;
    if let Some(paper) = &run.paper {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{paper}\"/>",
            CELL.1
        );
    }
    if run.text.trim().is_empty() {
        return;
    }
    let weight = if run.bold { " font-weight=\"bold\"" } else { "" };
    let faint = if run.dim { " opacity=\"0.6\"" } else { "" };
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{weight}{faint}>{}</text>",
        top + FONT - 1.0,
        run.ink,
        escape(&run.text)
    );
}

/// A colour as SVG has it; `None` = plain text.
fn color(color: Color) -> Option<String> {
    let name = match color {
        Color::Rgb(r, g, b) => return Some(format!("#{r:02x}{g:02x}{b:02x}")),
        Color::Yellow | Color::LightYellow => "#e6c200",
        Color::Red | Color::LightRed => "#e06c5a",
        Color::Magenta | Color::LightMagenta => "#cc79a7",
        Color::Cyan | Color::LightCyan => "#56b4e9",
        Color::Blue | Color::LightBlue => "#3f94d4",
        Color::Green | Color::LightGreen => "#7fb27f",
        Color::DarkGray | Color::Gray => "#909090",
        Color::Reset | Color::Black | Color::White | Color::Indexed(_) => return None,
    };
    Some(name.to_owned())
}

/// Text as XML has it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn text_is_escaped_and_reverse_has_a_background() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
        buffer.set_string(0, 0, "a<b&c", Style::new().add_modifier(Modifier::REVERSED));
        let picture = svg(&buffer, "a \"test\"");
        assert!(picture.contains("a&lt;b&amp;c</text>"));
        assert!(picture.contains("aria-label=\"a &quot;test&quot;\""));
        assert!(picture.contains(&format!("fill=\"{INK}\"/>")));
    }
}
