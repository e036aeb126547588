//! Patterns that are left out from now on: by the operator's word, or because the configuration says so now.
//!
//! Whatever comes in or is about to go out is judged at once; what is queued is walked through some jobs at a
//! time, so that a million of them hold nobody up. How many were removed is told when the walk is over.

use regex::Regex;
use url::Url;

use super::Engine;
use super::sift::Because;
use crate::control::{HostId, RequestKind, Value, What, Who};
use crate::crawl::job::Job;

/// Patterns that can be excluded while the crawl runs.
pub(super) const EXCLUDES_MAX: usize = 64;
/// Queued jobs that are judged in one turn.
const JUDGED_PER_TURN: usize = 2_000;

/// Patterns for which the queue is walked through.
#[derive(Debug)]
pub(super) struct Exclusion {
    /// Whom to answer.
    ticket: Option<u64>,
    patterns: Vec<Regex>,
    /// How the pattern was typed, or what it comes from.
    name: String,
    /// The walk has begun, and is over.
    begun: bool,
    walked: bool,
    /// What is held back has been looked at.
    sifted: bool,
    removed: u64,
}

impl Exclusion {
    fn of(&self, url: &str) -> Option<&Regex> {
        self.patterns.iter().find(|pattern| pattern.is_match(url))
    }
}

impl Engine {
    /// Nothing that matches is fetched from now on; what is queued of it is dropped.
    pub(super) fn exclude(&mut self, ticket: u64, pattern: &str) -> Result<(), String> {
        if self.excluded.len() >= EXCLUDES_MAX {
            return Err(format!("not excluded: there are {EXCLUDES_MAX} patterns already"));
        }
        let regex = Regex::new(pattern).map_err(|_| format!("not excluded: `{pattern}` is no regular expression"))?;
        self.excluded.push(regex.clone());
        self.drop_queued(Some(ticket), vec![regex], pattern.to_owned());
        Ok(())
    }

    /// Walks through the queue for `patterns`, after the walks that were asked for before.
    pub(super) fn drop_queued(&mut self, ticket: Option<u64>, patterns: Vec<Regex>, name: String) {
        let exclusion = Exclusion { ticket, patterns, name, begun: false, walked: false, sifted: false, removed: 0 };
        for host in self.scope.excuse(|domain| exclusion.of(domain).is_some()) {
            self.traps.settle(host);
            self.tell_held_back(host);
        }
        self.exclusions.push_back(exclusion);
        // What is held back as a trap stands in no queue.
        self.sift(Because::Excluded);
    }

    /// What is held back was looked at for the first exclusion that waits for it.
    pub(super) fn held_are_excluded(&mut self, dropped: u64) {
        if let Some(exclusion) = self.exclusions.iter_mut().find(|exclusion| !exclusion.sifted) {
            exclusion.sifted = true;
            exclusion.removed += dropped;
        }
        self.end_exclusion();
    }

    /// Tells of the first exclusion, if there is nothing left to do for it.
    fn end_exclusion(&mut self) {
        while self.exclusions.front().is_some_and(|first| first.walked && first.sifted)
            && let Some(exclusion) = self.exclusions.pop_front()
        {
            self.tell_exclusion(&exclusion);
        }
    }

    /// Whether the queue is being walked through, and the journal takes what that tells.
    pub(super) fn walks(&self) -> bool {
        // One that waits for what is held back is walked no more.
        let walks = self.exclusions.front().is_some_and(|first| !first.walked);
        walks && self.journal.backlog() < crate::journal::BACKLOG_MAX
    }

    /// One step of the walk.
    pub(super) fn walk_queue(&mut self) {
        if !self.walks() {
            return;
        }
        let Some(exclusion) = self.exclusions.front_mut() else { return };
        if !std::mem::replace(&mut exclusion.begun, true) {
            self.frontier.begin_walk();
        }
        let matches = |job: &Job| job.kind() != RequestKind::Robots && exclusion.of(&job.url).is_some();
        let step = self.frontier.walk(JUDGED_PER_TURN, matches);
        exclusion.removed += step.removed.len() as u64;
        let why = step.removed.iter().map(|(_, job)| match exclusion.of(&job.url) {
            Some(pattern) => format!("excluded by {}", pattern.as_str()),
            None => String::from("excluded"),
        });
        let why: Vec<String> = why.collect();
        for ((host, job), why) in step.removed.iter().zip(why) {
            self.skip(job.id, Some(*host), job.root(), &why);
        }
        for (host, lane) in step.touched {
            self.sync(host, lane);
        }
        if step.over
            && let Some(exclusion) = self.exclusions.front_mut()
        {
            exclusion.walked = true;
            self.end_exclusion();
        }
    }

    /// A URL that is about to go out, though the walk has not come to it: dropped, if it is excluded.
    pub(super) fn drop_excluded(&mut self, host: HostId, job: &Job, url: &Url) -> bool {
        let found = self.exclusions.iter_mut().find_map(|exclusion| {
            let why = format!("excluded by {}", exclusion.of(url.as_str())?.as_str());
            exclusion.removed += 1;
            Some(why)
        });
        match found {
            Some(why) => self.skip(job.id, Some(host), job.root(), &why),
            None => return false,
        }
        true
    }

    /// The crawl ends in the middle of walks: what they did so far.
    pub(super) fn end_walks(&mut self) {
        while let Some(exclusion) = self.exclusions.pop_front() {
            self.tell_exclusion(&exclusion);
        }
    }

    fn tell_exclusion(&mut self, exclusion: &Exclusion) {
        let Exclusion { ticket, name, removed, .. } = exclusion;
        let why = format!("excluded by {name}");
        let count = Value::Number(*removed as f64);
        self.event(Who::Operator, None, What::Exclude, Value::Text(name.clone()), count, &why, None);
        if let Some(ticket) = ticket {
            self.answer(*ticket, 1, format!("{why}: {removed} queued URLs removed; what is in flight ends"));
        }
    }
}
