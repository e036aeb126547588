//! What the review writes: requests as CSV, the summary as JSON, the timeline as a picture.
//!
//! A new file in the working folder, never over one that exists. Reading a large journal takes its time, so
//! that is done on a thread of its own.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::model::{Review, Tab};
use super::view;
use crate::journal::reader::ReadError;
use crate::journal::render::{summary_json, write_csv};
use crate::journal::summary::summarise;
use crate::journal::timeline::{Follow, Timeline};
use crate::text::Clean;
use crate::tui::picture;
use crate::tui::theme::{Surroundings, Theme, ThemeError};

/// Size of the picture in cells.
const PICTURE: (u16, u16) = (140, 40);
/// Names that are tried before giving up.
const NAMES_TRIED: u32 = 100;

/// What can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Export {
    /// All requests.
    Csv,
    /// The summary.
    Json,
    /// The timeline as it is shown.
    Svg,
}

impl Export {
    /// Everything, with the end of its file's name and words.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Csv, "csv", "every request of the run as one table, rotated files included"),
        (Self::Json, "json", "the summary: totals, codes, each host's rates, holds and refusals"),
        (Self::Svg, "svg", "a picture of the timeline as it is shown now: part, filter and cursor"),
    ];

    fn end(self) -> &'static str {
        Self::ALL.iter().find(|(one, ..)| *one == self).map_or("", |(_, end, _)| end)
    }
}

/// A file to be written.
#[derive(Debug)]
pub(super) struct Job {
    what: Export,
    dir: PathBuf,
    name: String,
    picture: String,
}

/// Gets an export ready. What is shown now is kept; the rest is read from the journal again.
pub(super) fn prepare(model: &Review, what: Export, dir: &Path, theme: &Theme) -> Job {
    let picture = if what == Export::Svg { drawn(model, theme) } else { String::new() };
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = model.name.as_str().trim_start_matches('.').chars().map(plain).take(80).collect();
    Job { what, dir: dir.to_path_buf(), name, picture }
}

impl Job {
    /// Writes it; gives its name, or why there is none.
    pub(super) fn write(self) -> Result<PathBuf, Clean> {
        let (path, mut file) = self.create().map_err(|error| Clean::new(format!("nothing written: {error}")))?;
        let written = match self.what {
            Export::Csv => write_csv(&self.dir, &mut file).map_err(|error| error.to_string()),
            Export::Json => summarise(&self.dir)
                .map_err(|error| error.to_string())
                .and_then(|summary| summary_json(&summary).map_err(|error| error.to_string()))
                .and_then(|text| file.write_all(text.as_bytes()).map_err(|error| error.to_string())),
            Export::Svg => file.write_all(self.picture.as_bytes()).map_err(|error| error.to_string()),
        };
        written
            .and_then(|()| file.flush().map_err(|error| error.to_string()))
            .map_err(|error| Clean::new(format!("{} is not complete: {error}", path.display())))?;
        Ok(path)
    }

    /// A new file.
    fn create(&self) -> io::Result<(PathBuf, File)> {
        for number in 1..=NAMES_TRIED {
            let name = if number == 1 { self.name.clone() } else { format!("{}-{number}", self.name) };
            let path = PathBuf::from(format!("{name}.{}", self.what.end()));
            match File::create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
                Ok(file) => return Ok((path, file)),
            }
        }
        Err(io::Error::other(format!("{}.{} and {NAMES_TRIED} more exist", self.name, self.what.end())))
    }
}

/// The timeline as a picture.
fn drawn(model: &Review, theme: &Theme) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, PICTURE.0, PICTURE.1));
    view::draw_picture(model, theme, &mut buffer);
    let alt = format!("{}: answers over time by status code", model.name);
    picture::svg(&buffer, &alt)
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum SvgError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The built-in theme cannot be used.
    #[error(transparent)]
    Theme(#[from] ThemeError),
}

/// The timeline of the run in `dir` as an SVG picture.
pub fn timeline_svg(dir: &Path) -> Result<String, SvgError> {
    let around = Surroundings { no_color: false, depth: crate::tui::theme::Depth::True, utf8: true };
    let theme = Theme::load("default", crate::config::Glyphs::Unicode, around)?;
    let mut model = Review::new(dir, None);
    model.timeline = Timeline::new(dir, None);
    let mut follow = Follow::open(dir)?;
    // A run that goes on is read as far as it is now.
    while !model.progress.at_end {
        model.progress = follow.step(&mut model.timeline, u64::MAX)?;
    }
    (model.size, model.tab) = (PICTURE, Tab::Timeline);
    model.refresh();
    Ok(drawn(&model, &theme))
}
