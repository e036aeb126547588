//! Taking up what another process left in a run folder: the store, and what the journal knows beyond it.

use std::path::Path;

use url::Url;

use super::address::parse_url;
use super::frontier::folded;
use crate::config::Config;
use crate::control::What;
use crate::journal::EVENTS_FILE;
use crate::journal::place::{BARRIER, Place};
use crate::store::load::{Beyond, LoadHooks, Loaded, Mark, Told, load};
use crate::store::{Fate, StoreError};
use crate::text::Clean;

/// What is in the run folder `dir`; `None` if no crawl began there. Changes nothing.
pub fn resume(dir: &Path, config: &Config) -> Result<Option<Loaded>, StoreError> {
    let with_endpoints = config.hosts.iter().any(|rule| !rule.endpoints.is_empty());
    let mut lane = |host: &str, url: &str| {
        if !with_endpoints {
            return 0;
        }
        let rule = config.rule_for(host).filter(|rule| !config.hosts[*rule].endpoints.is_empty());
        match rule.zip(Url::parse(url).ok()) {
            Some((rule, url)) => config.endpoint_for(rule, url.path()).0,
            None => 0,
        }
    };
    load(dir, LoadHooks { lane: &mut lane, beyond: &mut |mark| beyond(dir, mark) })
}

fn beyond(dir: &Path, mark: &Mark) -> Beyond {
    let began = dir.join(EVENTS_FILE).metadata().is_ok_and(|events| events.len() > 0);
    let place = mark.places.get(BARRIER).map(|place| Place::parse(place)).unwrap_or_default();
    let following = match place.following(dir) {
        Ok(following) => following,
        Err(error) => {
            // What is done is known all the same; a URL that failed just before may be told to fail twice.
            tracing::warn!(%error, "the end of the journal cannot be read");
            return Beyond { began, rows: place.rows, ..Beyond::default() };
        }
    };
    let ends = following.ends.into_iter().filter_map(|(url, (what, why))| {
        let print = folded(parse_url(url.as_str()).ok()?.fingerprint);
        let fate = if what == What::UrlFailed { Fate::Failed } else { Fate::Skipped };
        Some((print, Told { url: url.as_str().to_owned(), fate, why: Clean::as_str(&why).to_owned() }))
    });
    let (rows, late_rows) = (following.rows, following.hosts);
    Beyond { began: began || rows > 0, rows, late_rows, fates: ends.collect() }
}
