//! The configuration was read again: all of it is taken in one turn, or nothing.
//!
//! Reading and checking are somebody else's, who may wait for a disk; here arrives a configuration that is right,
//! or what is wrong with it. What a running crawl cannot take is named each time it is read, and is as it was.

use std::sync::Arc;
use std::time::Duration;

use super::sift::Because;
use super::{Engine, Looks, SPENT};
use crate::config::{Config, ConfigErrors, Difference, Takes};
use crate::control::{HostId, Value, What, Who};
use crate::text::Clean;
use crate::watch::{Reading, UiSettings};

/// Changes that a message names one by one.
const NAMED_MAX: usize = 12;
/// Errors that the journal names one by one; all stand in the log file.
const ERRORS_NAMED: usize = 5;
/// The ticket of answers that nobody asked for.
const UNASKED: u64 = u64::MAX;

/// Asks for the file to be read, with the ticket to be answered; false if that cannot be asked now.
pub type AskReload = Box<dyn Fn(u64) -> bool + Send>;

impl Engine {
    /// Somebody can read the configuration again when `ask` is called; a [`crate::watch::Request::Reread`] answers.
    pub fn reloading(mut self, ask: AskReload) -> Self {
        self.ask_reload = Some(ask);
        self
    }

    pub(super) fn ask_for_reload(&mut self, ticket: u64) -> Result<(), String> {
        match &self.ask_reload {
            None => Err(String::from("there is no configuration file: name one with -c when the crawl is started")),
            Some(ask) if ask(ticket) => Ok(()),
            Some(_) => Err(String::from("the configuration is being read already: press it again")),
        }
    }

    /// The configuration was read again.
    pub(super) fn reread(&mut self, reading: &Reading) {
        match reading.loaded.as_ref() {
            Ok(read) => match self.take_configuration(read) {
                Ok(told) => self.tell_taken(reading, &told),
                Err(error) => self.tell_wrong(reading, &error, &error),
            },
            Err(errors) => self.tell_wrong(reading, &banner(&reading.file, errors), &first_of(errors)),
        }
    }

    /// The file is not watched, and why.
    pub(super) fn unwatched(&mut self, why: &Clean) {
        tracing::warn!(%why, "configuration");
        self.event(Who::System, None, What::System, Value::None, Value::None, why.as_str(), None);
        self.notices.push(why.clone());
    }

    /// Takes over what can be taken; an error says why nothing was.
    fn take_configuration(&mut self, read: &Config) -> Result<Told, String> {
        let running = Arc::clone(&self.config);
        let found = running.differences(read);
        let (taken, waiting): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.takes == Takes::AtOnce);
        let mut told = Told { taken, waiting, rules: (running.hosts.len(), read.hosts.len()), originals: 0 };
        if told.taken.is_empty() {
            return Ok(told);
        }
        let config = Arc::new(read.clone().taken_by(&running));
        // The one step that can fail comes first.
        self.desk.fetch.set_hosts(config.hosts.clone().into())?;
        let now = self.now;
        let mut settings = config.settings.clone();
        if running.settings.concurrency == settings.concurrency {
            // What the operator set stays, until the file says something new.
            settings.concurrency = self.controller.concurrency();
        }
        let mut placements = self.hosts.rebind(&running, &config).into_iter();
        let mut moved: Vec<HostId> = Vec::new();
        told.originals = self.controller.reconfigure(now, settings, |host| {
            // A place for each host there is, in the order of their numbers.
            let place = placements
                .next()
                .unwrap_or(crate::control::Placement { policy: crate::control::PolicyId(0), lanes: None });
            if place.lanes.is_some() {
                moved.push(host);
            }
            place
        });
        self.config = Arc::clone(&config);
        if running.settings.group_by != config.settings.group_by {
            self.regroup(now);
        }
        self.links = Arc::new(super::link_rules(&config));
        self.robots.set_backoff(config.settings.backoff);
        self.relay(moved);
        self.drop_spent(&running);
        let known = |pattern: &regex::Regex| running.crawl.exclude.iter().any(|one| one.as_str() == pattern.as_str());
        let new: Vec<_> = config.crawl.exclude.iter().filter(|pattern| !known(pattern)).cloned().collect();
        if !new.is_empty() {
            self.drop_queued(None, new, String::from("the configuration"));
        }
        if !running.crawl.allow.iter().map(regex::Regex::as_str).eq(config.crawl.allow.iter().map(regex::Regex::as_str))
        {
            self.traps.give(&config.crawl.allow);
            self.sift(Because::Resumed);
        }
        if (&running.ui, &running.keys) != (&config.ui, &config.keys) {
            self.ui = Some(Arc::new(UiSettings { ui: config.ui.clone(), keys: config.keys.clone() }));
            if running.ui.fps != config.ui.fps && self.looks == Looks::Closely {
                self.frame = Duration::from_secs(1) / config.ui.fps.max(1);
            }
        }
        Ok(told)
    }

    /// The lanes of these hosts are others now: what is queued waits in the first until it is its turn, and moves
    /// to its own then. What is in flight will be told to the endpoint that covers it now.
    fn relay(&mut self, hosts: Vec<HostId>) {
        if hosts.is_empty() {
            return;
        }
        self.relayed = true;
        for host in hosts {
            self.frontier.fold_lanes(host);
            self.sync_all(host);
        }
        let (known, config) = (&self.hosts, &self.config);
        self.in_flight.relay(|host, url| known.lane(host, url, config));
    }

    /// Hosts that have had more than the `max_requests` of now.
    fn drop_spent(&mut self, before: &Config) {
        let limit = |config: &Config| config.settings.policies.iter().map(|one| one.max_requests).collect::<Vec<_>>();
        let same_rules =
            before.hosts.iter().map(|one| &one.pattern_text).eq(self.config.hosts.iter().map(|one| &one.pattern_text));
        if same_rules && limit(before) == limit(&self.config) {
            return;
        }
        for index in 0..self.controller.hosts() {
            let host = HostId(u32::try_from(index).unwrap_or(u32::MAX));
            if self.is_spent(host) && self.controller.queued(host) > 0 {
                self.skip_all(host, SPENT);
            }
        }
    }

    fn tell_taken(&mut self, reading: &Reading, told: &Told) {
        let mended = self.config_trouble.take().is_some();
        let words = told.words();
        if told.is_nothing() && reading.ticket.is_none() && !mended {
            return;
        }
        let text = format!("{} read again: {words}", reading.file);
        tracing::info!(%text, "configuration");
        let (before, after) = told.figures();
        self.event(Who::Operator, None, What::Reload, Value::Text(before), Value::Text(after), &text, None);
        let changed = if told.is_nothing() { 1 } else { told.taken.len().max(1) };
        self.tell_everybody(reading, changed, &text);
    }

    /// The old configuration stays, and everybody is told why.
    fn tell_wrong(&mut self, reading: &Reading, banner: &str, all: &str) {
        let banner = Clean::new(banner);
        let news = self.config_trouble.as_ref() != Some(&banner);
        self.config_trouble = Some(banner.clone());
        if news || reading.ticket.is_some() {
            tracing::warn!(%banner, "configuration not taken");
            let why = format!("not taken, the old configuration stays: {all}");
            self.event(Who::Operator, None, What::Reload, Value::None, Value::None, &why, None);
            self.tell_everybody(reading, 0, &format!("not taken: {banner}"));
        }
    }

    /// On the footer, or on a line of standard error.
    fn tell_everybody(&mut self, reading: &Reading, changed: usize, text: &str) {
        self.notices.push(Clean::new(format!("configuration: {text}")));
        self.answer(reading.ticket.unwrap_or(UNASKED), changed, text);
    }
}

/// What became of a configuration that was read.
struct Told {
    taken: Vec<Difference>,
    waiting: Vec<Difference>,
    /// `[[host]]` entries before and now.
    rules: (usize, usize),
    /// Hosts that have another original.
    originals: usize,
}

impl Told {
    fn is_nothing(&self) -> bool {
        self.taken.is_empty() && self.waiting.is_empty()
    }

    /// What changed, in one line.
    fn words(&self) -> String {
        if self.is_nothing() {
            return String::from("nothing changed");
        }
        let mut text = match self.taken.len() {
            0 => String::from("nothing changed"),
            1 => format!("in force: {}", list(&self.taken)),
            many => format!("{many} changes in force: {}", list(&self.taken)),
        };
        match self.originals {
            0 => {}
            1 => text.push_str(" (1 host has a new original)"),
            many => text.push_str(&format!(" ({many} hosts have new originals)")),
        }
        if !self.waiting.is_empty() {
            text.push_str(&format!("; needs a restart: {}", list(&self.waiting)));
        }
        text
    }

    /// Before and after, for the journal.
    fn figures(&self) -> (String, String) {
        let (before, after) = self.rules;
        let (taken, waiting) = (self.taken.len(), self.waiting.len());
        let after = format!("{after} host rules, {taken} keys changed, {waiting} need a restart");
        (format!("{before} host rules"), after)
    }
}

/// The first of them by name, and how many more there are.
fn list(differences: &[Difference]) -> String {
    let named: Vec<String> = differences.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = differences.len().saturating_sub(NAMED_MAX);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &rest
}

/// The first error, and how many more there are: one line.
fn banner(file: &Clean, errors: &ConfigErrors) -> String {
    let first = errors.iter().next().map(|error| match error.position() {
        // Its name alone: there is not much room.
        Some((line, column)) => format!("{file}:{line}:{column}: {}", error.message()),
        None => error.to_string(),
    });
    let first = first.unwrap_or_default();
    match errors.count().saturating_sub(1) {
        0 => first,
        1 => format!("{first} (and 1 more error)"),
        more => format!("{first} (and {more} more errors)"),
    }
}

/// The first errors, for the journal.
fn first_of(errors: &ConfigErrors) -> String {
    let named: Vec<String> = errors.iter().take(ERRORS_NAMED).map(ToString::to_string).collect();
    let more = errors.count().saturating_sub(named.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join("; ") + &rest
}
