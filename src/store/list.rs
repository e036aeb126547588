//! All URLs of a store, one after the other, with what became of them: for lists, not for the crawl.

use std::collections::HashMap;
use std::path::Path;

use super::frame::{FileKind, Frames};
use super::load::{STATE_FOLDER, URLS_FILE, of_file};
use super::record::{Record, Records};
use super::{Fate, StoreError, UrlId};

/// One URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedUrl<'a> {
    /// Its number.
    pub id: UrlId,
    /// As it came in.
    pub url: &'a str,
    /// Links between it and an input.
    pub depth: u32,
    /// What became of it; `None` = it is pending.
    pub fate: Option<Fate>,
    /// Why; empty if it is pending or done.
    pub why: &'a str,
    /// Attempts of a pending one that failed.
    pub failures: u8,
}

/// Calls `each` with every URL in the run folder `run`, as of the last whole transaction. Changes nothing, needs no
/// lock: a run under way is listed as far as it is. Memory: a byte a URL, and the reasons of those that failed or
/// were skipped.
pub fn each_url<E: From<StoreError>>(
    run: &Path,
    mut each: impl FnMut(ListedUrl<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let path = run.join(STATE_FOLDER).join(URLS_FILE);
    let (mut fates, mut whys, mut failures) = (Vec::new(), HashMap::<u32, Box<str>>::new(), HashMap::new());
    let end = each_record(&path, u64::MAX, |record| {
        match record {
            Record::Url(_) => fates.push(0),
            Record::Fate { id, fate, why } => {
                if let Some(place) = fates.get_mut(id.0 as usize) {
                    *place = fate as u8;
                    failures.remove(&id.0);
                    if fate != Fate::Done {
                        whys.insert(id.0, why.into());
                    }
                }
            }
            Record::Tried(tried) => {
                failures.insert(tried.id.0, tried.failures);
            }
            Record::Back(id) => {
                whys.remove(&id.0);
                if let Some(place) = fates.get_mut(id.0 as usize) {
                    *place = 0;
                }
            }
            Record::Host(_) | Record::Held(_) | Record::Known(_) | Record::Sign(_) | Record::Mark(_) => {}
        }
        Ok(())
    })?;
    let mut next = 0_u32;
    each_record(&path, end, |record| {
        let Record::Url(url) = record else { return Ok(()) };
        let id = UrlId(next);
        next += 1;
        let fate = fates.get(id.0 as usize).copied().and_then(Fate::of);
        let why = whys.get(&id.0).map_or("", |why| why);
        let failures = failures.get(&id.0).copied().unwrap_or(0);
        each(ListedUrl { id, url: url.url, depth: url.depth, fate, why, failures })
    })?;
    Ok(())
}

/// Calls `each` with every record of the transactions up to `end`; where the last of them ends.
fn each_record<E: From<StoreError>>(
    path: &Path,
    end: u64,
    mut each: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let Some(mut frames) = Frames::open(path, FileKind::Urls).map_err(of_file(path))? else { return Ok(0) };
    let mut transaction = Vec::new();
    while frames.committed() < end && frames.transaction(&mut transaction).map_err(of_file(path))? {
        for (at, payload) in &transaction {
            for record in Records::new(payload) {
                let unknown = |_| StoreError::Unknown { path: path.to_path_buf(), at: *at };
                each(record.map_err(unknown)?)?;
            }
        }
    }
    Ok(frames.committed())
}
