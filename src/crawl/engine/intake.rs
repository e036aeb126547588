//! What comes in: URLs from the inputs, requests of the operator.

use url::Url;

use super::Engine;
use crate::control::{Command, HostId, Lane, Value, What, Who};
use crate::crawl::address::{Userinfo, fingerprint};
use crate::crawl::input::{Batch, InputItem};
use crate::crawl::job::Job;
use crate::text::Clean;
use crate::watch::{ActAnswer, Phase, Request};

/// Bad lines that are named one by one in the journal; all are counted.
const BAD_LINES_NAMED: u64 = 10_000;

impl Engine {
    /// Whether the next batch of URLs may be read.
    pub(super) fn wants_input(&self) -> bool {
        self.inputs.is_some()
            && self.phase == Phase::Running
            && self.frontier.has_room()
            && self.journal.backlog() < crate::journal::BACKLOG_MAX
    }

    /// Takes a batch of URLs; `None` = all inputs are read.
    pub(super) fn take_batch(&mut self, batch: Option<Batch>) {
        let Some(batch) = batch else {
            self.inputs = self.more_inputs.pop_front();
            return;
        };
        for item in batch {
            match item {
                InputItem::Url(address) => {
                    if address.userinfo == Userinfo::Removed {
                        let why =
                            "the user name and password in this URL were dropped: use `headers` of a [[host]] entry";
                        let url = address.url.as_str();
                        self.event(Who::System, None, What::Anomaly, Value::None, Value::None, why, Some(url));
                    }
                    self.admit(address.url);
                }
                InputItem::Bad(bad) => self.bad_line(&bad.to_string()),
            }
        }
    }

    fn bad_line(&mut self, named: &str) {
        self.bad_lines += 1;
        if self.bad_lines <= BAD_LINES_NAMED {
            tracing::warn!(line = %Clean::new(named), "input line skipped");
            self.event(Who::System, None, What::BadInput, Value::None, Value::None, named, None);
        }
    }

    /// A URL enters the frontier, unless it is known, excluded or spent.
    pub(super) fn admit(&mut self, url: Url) {
        if !self.frontier.admit(fingerprint(&url)) {
            return;
        }
        let now = self.clock.now();
        if let Some(pattern) =
            self.config.crawl.exclude.iter().chain(&self.excluded).find(|pattern| pattern.is_match(url.as_str()))
        {
            let why = format!("excluded by {}", pattern.as_str());
            self.skip(None, url.as_str(), &why);
            return;
        }
        let Some(host) = self.host_of(&url) else {
            self.skip(None, url.as_str(), "too many hosts");
            return;
        };
        if self.is_spent(host) {
            self.skip(Some(host), url.as_str(), "the host's max_requests is reached");
            return;
        }
        let lane = self.hosts.lane(host, &url, &self.config);
        self.frontier.push(host, lane, Job::page(&url, now));
        self.sync(host, lane);
    }

    /// The host of a URL, made known if it is new.
    pub(super) fn host_of(&mut self, url: &Url) -> Option<HostId> {
        let controller = &mut self.controller;
        self.hosts.find_or_add(url, &self.config, |policy| controller.add_host(policy))
    }

    /// Whether a host has used up its `max_requests`.
    pub(super) fn is_spent(&mut self, host: HostId) -> bool {
        let limit = self.controller.max_requests(host);
        limit > 0 && self.hosts.get_mut(host).is_some_and(|host| host.requests >= limit)
    }

    /// Tells the controller what is queued in a lane.
    pub(super) fn sync(&mut self, host: HostId, lane: Lane) {
        let now = self.clock.now();
        self.controller.set_queue(now, host, lane, self.frontier.queue(host, lane));
    }

    /// A URL is never sent.
    pub(super) fn skip(&mut self, host: Option<HostId>, url: &str, why: &str) {
        self.counts.skipped += 1;
        self.event(Who::System, host, What::UrlSkipped, Value::None, Value::None, why, Some(url));
    }

    /// A request of the operator or of a signal.
    pub(super) fn take_request(&mut self, request: Option<Request>) {
        let now = self.clock.now();
        match request {
            Some(Request::Act { ticket, command, targets, chosen_by }) => {
                let result = self.controller.command(now, command, &targets, chosen_by.as_str());
                let text = self.describe(command, &targets, &result);
                self.answers.push(ActAnswer { ticket, changed: result.changed, text });
            }
            Some(Request::Change { ticket, change }) => self.change(ticket, change),
            Some(Request::Focus(host)) => self.recently.look_at(host),
            Some(Request::Drain) => self.leave(Phase::Draining),
            Some(Request::Stop) => self.leave(Phase::Stopped),
            Some(Request::TerminalGone) => self.terminal_gone(),
            // Nobody can ask for anything any more: the crawl goes on by itself.
            None => self.requests = None,
        }
    }

    fn leave(&mut self, phase: Phase) {
        if self.phase == Phase::Running || phase == Phase::Stopped {
            self.phase = phase;
        }
    }

    fn terminal_gone(&mut self) {
        self.watcher = None;
        match self.config.ui.on_hangup {
            crate::config::OnHangup::Continue => {
                self.event(Who::System, None, What::System, Value::None, Value::None, "terminal gone: headless", None);
            }
            crate::config::OnHangup::Drain => {
                self.event(Who::System, None, What::System, Value::None, Value::None, "terminal gone: draining", None);
                self.leave(Phase::Draining);
            }
        }
    }

    /// One line for the footer: what was done, to whom, what was left alone and why.
    fn describe(&self, command: Command, targets: &[HostId], result: &crate::control::CommandResult) -> Clean {
        let mut text = result.summary.clone();
        if matches!(command, Command::Halt | Command::GoOn) {
            return Clean::new(text);
        }
        match (targets, result.changed) {
            ([only], 1) => text.push_str(&format!(": {}", self.hosts.name(*only))),
            (_, 0) => {}
            (_, changed) => text.push_str(&format!(": {changed} hosts")),
        }
        if let Some((host, reason)) = result.skipped.first() {
            text.push_str(&format!(" · left alone: {}", self.hosts.name(*host)));
            match result.skipped.len() {
                1 => {}
                more => text.push_str(&format!(" and {} more", more - 1)),
            }
            text.push_str(&format!(" ({})", reason.as_str()));
        }
        Clean::new(text)
    }
}
