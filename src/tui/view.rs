//! Draws the model. Takes data and a buffer, gives nothing back; never sorts, filters or counts hosts.

mod banner;
mod confirm;
mod detail;
mod footer;
mod header;
mod help;
mod hosts;
mod leave;
mod log;
mod logbook;
mod prompt;
mod too_small;

use ratatui::buffer::Buffer;

pub(super) use self::footer::keys as footer_keys;
pub(super) use self::help::{Help, draw as draw_help};
pub(super) use self::prompt::line as prompt_line;
use super::keymap::Keymap;
use super::live;
use super::model::{Model, Overlay, Screen};
use super::paint::Brush;
use super::theme::{Meaning, Theme};
use crate::control::Mono;

/// The least columns of a screen with a table.
pub const LEAST_WIDTH: u16 = 60;
/// The least rows.
pub const LEAST_HEIGHT: u16 = 12;

/// From this width on the cursor's host stands beside the table.
pub const BESIDE_WIDTH: u16 = 140;

/// Columns of the table on a screen of this width.
pub fn table_width(width: u16) -> u16 {
    if width >= BESIDE_WIDTH { width - width / 16 * 5 } else { width }
}

/// All that a frame is made of.
pub struct Scene<'a> {
    /// What the screen knows.
    pub model: &'a Model,
    /// The keys, for footer and help.
    pub keymap: &'a Keymap,
    /// How things look.
    pub theme: &'a Theme,
    /// Our time.
    pub now: Mono,
}

/// How many rows each part of the screen has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Too small for a table.
    pub tiny: bool,
    /// The header.
    pub header: u16,
    /// The headings of the columns.
    pub heading: u16,
    /// The table's rows.
    pub table: u16,
    /// The rule above the log.
    pub log_rule: u16,
    /// The log.
    pub log: u16,
    /// Rows above the footer that say what is wrong with the configuration and with our own files, if something is.
    pub banner: u16,
}

impl Layout {
    /// The layout of a screen.
    pub fn of(size: (u16, u16), log_open: bool) -> Self {
        let (width, height) = size;
        if width < LEAST_WIDTH || height < LEAST_HEIGHT {
            return Self { tiny: true, header: 0, heading: 0, table: 0, log_rule: 0, log: 0, banner: 0 };
        }
        let (header, heading, log_rule, log) = match height {
            ..24 => (2, 0, 0, 1),
            24..40 => (header::rows(width), 1, 1, 2),
            _ => (header::rows(width), 1, 1, 10),
        };
        // One row each for the table's title and the footer.
        let rest = height.saturating_sub(header + heading + log_rule + 2);
        let log = if log_open { (rest / 2).max(log) } else { log };
        Self { tiny: false, header, heading, table: rest.saturating_sub(log), log_rule, log, banner: 0 }
    }

    /// The same with rows for so many banners, which the table gives; it keeps one.
    pub fn with_banners(self, shown: usize) -> Self {
        let banner = u16::try_from(shown).unwrap_or(u16::MAX).min(self.table.saturating_sub(1));
        Self { table: self.table - banner, banner, ..self }
    }
}

/// Draws a frame into `buffer`, all of it.
pub fn draw(scene: &Scene<'_>, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut brush = Brush::new(buffer, area, scene.theme);
    let totals = &scene.model.totals;
    let layout = Layout::of((area.width, area.height), scene.model.log_open).with_banners(totals.banners().count());
    if layout.tiny {
        too_small::draw(scene, &mut brush);
        return;
    }
    let width = area.width;
    let header = match scene.model.screen {
        Screen::Host | Screen::Log if scene.model.plot.is_none() => header_rows_of_others(area.height, layout),
        Screen::Hosts | Screen::Host | Screen::Log => layout.header,
    };
    header::draw(scene, &mut brush.part(0, 0, width, header));
    let title = layout.header;
    // The footer, and the banners above it.
    let foot = 1 + layout.banner;
    match (&scene.model.plot, scene.model.screen) {
        (Some(plot), _) => {
            let mut body = brush.part(0, header, width, area.height.saturating_sub(header + foot));
            live::draw(scene, &mut body, plot);
        }
        (None, Screen::Hosts) => {
            let hosts_height = 1 + layout.heading + layout.table;
            let left = table_width(width);
            let beside = width - left;
            hosts::draw(scene, &mut brush.part(0, title, left, hosts_height), layout.heading);
            if beside > 0 {
                let mut side = brush.part(left, title, beside, hosts_height);
                for y in 0..hosts_height {
                    side.text(0, y, scene.theme.glyphs.divider, Meaning::Rule);
                }
                detail::draw(scene, &mut side.part(1, 0, beside - 1, hosts_height), false);
            }
            let log_top = title + hosts_height;
            log::draw(scene, &mut brush.part(0, log_top, width, layout.log_rule + layout.log), layout.log_rule > 0);
        }
        (None, Screen::Log) => {
            let top = header_rows_of_others(area.height, layout);
            logbook::draw(scene, &mut brush.part(0, top, width, area.height.saturating_sub(top + foot)));
        }
        (None, Screen::Host) => {
            let top = header_rows_of_others(area.height, layout);
            detail::draw(scene, &mut brush.part(0, top, width, area.height.saturating_sub(top + foot)), true);
        }
    }
    banner::draw(totals.banners(), &mut brush.part(0, area.height.saturating_sub(foot), width, layout.banner));
    footer::draw(scene, &mut brush.part(0, area.height - 1, width, 1));
    // The box leaves the header's first line and the footer free.
    let mut middle = brush.part(0, 1, width, area.height.saturating_sub(1 + foot));
    match &scene.model.overlay {
        Overlay::None | Overlay::Filter { .. } | Overlay::Command(_) => {}
        Overlay::Help(help) => help::draw(scene.keymap, scene.model.place(), &mut middle, help),
        Overlay::Legend => help::legend(scene, &mut middle),
        Overlay::Override { input, targets } => prompt::draw(scene, &mut middle, input, targets),
        Overlay::Confirm(question) => confirm::draw(&mut middle, question),
        Overlay::Leave => leave::draw(scene, &mut middle),
        Overlay::Sort { at } => confirm::sort_menu(&mut middle, *at),
    }
}

/// Rows of the unfolded detail that do not fit the screen.
pub fn rows_to_scroll(scene: &Scene<'_>) -> usize {
    let (width, height) = scene.model.size;
    let layout = Layout::of((width, height), scene.model.log_open);
    // Its title takes a row, and the footer.
    let room = match scene.model.screen {
        Screen::Host => (width, height.saturating_sub(header_rows_of_others(height, layout) + 2)),
        Screen::Hosts | Screen::Log => {
            ((width - table_width(width)).saturating_sub(1), layout.heading.saturating_add(layout.table))
        }
    };
    detail::rows_to_scroll(scene, room)
}

/// Rows of the header on the screens without a table: on low ones the state and the counts are enough.
fn header_rows_of_others(height: u16, layout: Layout) -> u16 {
    if height < 40 { layout.header.min(2) } else { layout.header }
}

/// A screen as lines of text, without styles: for documentation and tests.
pub fn screenshot(scene: &Scene<'_>, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, width, height));
    draw(scene, &mut buffer);
    text_of(&buffer)
}

/// A buffer as lines of text; wide characters take their two columns.
pub fn text_of(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut out = String::new();
    for y in 0..area.height {
        let mut line = String::new();
        let mut skip = 0_usize;
        for x in 0..area.width {
            let Some(cell) = buffer.cell((area.x + x, area.y + y)) else { continue };
            if skip > 0 {
                skip -= 1;
                continue;
            }
            line.push_str(cell.symbol());
            skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod dump;
#[cfg(test)]
pub(super) use dump::dump;
#[cfg(test)]
mod whole;
#[cfg(test)]
pub(super) use whole::{broken, every_size};
#[cfg(test)]
mod tests;
