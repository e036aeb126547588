//! The text side of `crawldeck review`: the summary as text or JSON, the requests as CSV, a configuration to compare with.
//!
//! Works on a run that is going on, too: nothing is locked, a torn last line is left out.

mod suggest;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::journal::reader::ReadError;
use crate::journal::render::{ExportError, summary_json, summary_text, write_csv};
use crate::journal::summary::summarise;
use crate::journal::{EVENTS_FILE, REQUESTS_FILE, rotated_number};

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReviewMode {
    /// Plain text.
    Summary,
    /// One JSON object.
    Json,
    /// The requests as CSV, into this file; `-` is the output.
    Csv(PathBuf),
    /// Rate and capacity of each host that met a limit, as configuration.
    Suggest,
    /// A picture, drawn by whoever can, into this file; `-` is the output.
    Picture(PathBuf, String),
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// No such folder.
    #[error("run folder {} does not exist", .0.display())]
    NoFolder(PathBuf),
    /// No journal in it.
    #[error("{} holds no journal ({REQUESTS_FILE} or {EVENTS_FILE}); name the folder of a run", .0.display())]
    NoJournal(PathBuf),
    /// The file to write is one that the run keeps.
    #[error("{} is part of the journal's folder; choose another file", .0.display())]
    IntoJournal(PathBuf),
    /// The file to write cannot be made.
    #[error("{} cannot be written: {source}", path.display())]
    Target {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error("the result cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl From<ExportError> for ReviewError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Read(error) => Self::Read(error),
            ExportError::Write(error) => Self::Output(error),
        }
    }
}

/// Device and inode of each file of the journal in `dir`; without any there is nothing to show.
pub fn check_folder(dir: &Path) -> Result<Vec<(u64, u64)>, ReviewError> {
    if !dir.is_dir() {
        return Err(ReviewError::NoFolder(dir.to_path_buf()));
    }
    let files = journal_files(dir).map_err(|source| ReadError { path: dir.to_path_buf(), source })?;
    if files.is_empty() { Err(ReviewError::NoJournal(dir.to_path_buf())) } else { Ok(files) }
}

/// Shows the run in `dir`.
pub fn run_review(dir: &Path, mode: ReviewMode, out: &mut dyn Write) -> Result<(), ReviewError> {
    let files = check_folder(dir)?;
    // Nothing that the run keeps may be written over, be it reached by a link from elsewhere.
    let home = fs::canonicalize(dir).ok();
    let is_journal = |path: &Path| {
        let is_linked = fs::metadata(path).is_ok_and(|target| files.contains(&(target.dev(), target.ino())));
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        is_linked || (path.exists() && home.is_some() && fs::canonicalize(folder).ok() == home)
    };
    match mode {
        ReviewMode::Summary => out.write_all(summary_text(&summarise(dir)?).as_bytes())?,
        ReviewMode::Json => {
            let json = summary_json(&summarise(dir)?).map_err(io::Error::from)?;
            out.write_all(json.as_bytes())?;
        }
        ReviewMode::Suggest => out.write_all(suggest::suggest(dir)?.as_bytes())?,
        ReviewMode::Csv(path) if path.as_os_str() == "-" => write_csv(dir, &mut *out)?,
        ReviewMode::Csv(path) => {
            if is_journal(&path) {
                return Err(ReviewError::IntoJournal(path));
            }
            match File::create(&path).map_err(ExportError::Write).and_then(|file| write_csv(dir, file)) {
                Ok(()) => {}
                Err(ExportError::Write(source)) => return Err(ReviewError::Target { path, source }),
                Err(ExportError::Read(error)) => return Err(error.into()),
            }
        }
        ReviewMode::Picture(path, picture) if path.as_os_str() == "-" => out.write_all(picture.as_bytes())?,
        ReviewMode::Picture(path, picture) => {
            if is_journal(&path) {
                return Err(ReviewError::IntoJournal(path));
            }
            fs::write(&path, picture).map_err(|source| ReviewError::Target { path, source })?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Device and inode of each file of the journal in `dir`.
fn journal_files(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name == REQUESTS_FILE || name == EVENTS_FILE || rotated_number(name).is_some() {
            let metadata = entry.metadata()?;
            files.push((metadata.dev(), metadata.ino()));
        }
    }
    Ok(files)
}
