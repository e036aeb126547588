//! What comes in: URLs from the inputs, requests of the operator.

use url::Url;

use super::{Engine, SPENT};
use crate::control::{Command, HostId, Lane, Mono, Value, What, Who};
use crate::crawl::address::{Address, Authority, Userinfo, host_text};
use crate::crawl::frontier::Admission;
use crate::crawl::input::{Batch, InputItem};
use crate::crawl::job::Job;
use crate::store::{Fate, UrlId};
use crate::text::Clean;
use crate::watch::{ActAnswer, Phase, Request};

/// Bad lines that are named one by one in the journal; all are counted.
const BAD_LINES_NAMED: u64 = 10_000;

impl Engine {
    /// Whether the next batch of URLs may be read.
    pub(super) fn wants_input(&self) -> bool {
        self.inputs.is_some()
            && self.phase == Phase::Running
            && self.frontier.has_room(0)
            && self.frontier.keeps_up()
            && self.journal.backlog() < crate::journal::BACKLOG_MAX
    }

    /// Takes a batch of URLs; `None` = all inputs are read.
    pub(super) fn take_batch(&mut self, batch: Option<Batch>) {
        let Some(batch) = batch else {
            let read = std::mem::replace(&mut self.inputs, self.more_inputs.pop_front());
            let all = self.inputs.is_none() && !self.persisted.inputs_broken;
            self.persisted.inputs_read |= all && read.is_some_and(|read| read.is_named());
            return;
        };
        let hosts = self.look_ahead(&batch);
        for (item, host) in batch.into_iter().zip(hosts) {
            match item {
                InputItem::Url(address) => {
                    if address.userinfo == Userinfo::Removed {
                        let why =
                            "the user name and password in this URL were dropped: use `headers` of a [[host]] entry";
                        let url = address.url.as_str();
                        self.event(Who::System, None, What::Anomaly, Value::None, Value::None, why, Some(url));
                    }
                    self.admit(&address, host);
                }
                InputItem::Bad(bad) => self.bad_line(&bad.to_string()),
                InputItem::Broken(bad) => {
                    // A run that goes on needs them again.
                    (self.persisted.inputs_broken, self.persisted.inputs_read) = (true, false);
                    self.bad_line(&bad.to_string());
                }
            }
        }
    }

    /// The hosts of a batch, as far as they are known. Reads all that its URLs will touch, one kind after the other: at
    /// ten million URLs nothing of it is near, and what is read together is waited for once.
    fn look_ahead(&self, batch: &Batch) -> Vec<Option<HostId>> {
        let addresses = batch.iter().map(|item| match item {
            InputItem::Url(address) => Some(address),
            InputItem::Bad(_) | InputItem::Broken(_) => None,
        });
        std::hint::black_box(self.frontier.look_at(addresses.clone().flatten().map(|address| address.fingerprint)));
        let hosts: Vec<_> =
            addresses.map(|address| address.and_then(|address| self.hosts.find(&address.url))).collect();
        for host in hosts.iter().flatten() {
            std::hint::black_box((self.controller.max_requests(*host), self.frontier.look_at_host(*host)));
        }
        hosts
    }

    fn bad_line(&mut self, named: &str) {
        self.bad_lines += 1;
        if self.bad_lines <= BAD_LINES_NAMED {
            tracing::warn!(line = %Clean::new(named), "input line skipped");
            self.event(Who::System, None, What::BadInput, Value::None, Value::None, named, None);
        }
    }

    /// A URL enters the frontier, unless it is known, excluded or spent. `host` is its host, if that was known before.
    pub(super) fn admit(&mut self, address: &Address, host: Option<HostId>) {
        let (url, print) = (&address.url, address.fingerprint);
        self.scope.give(url);
        match self.frontier.admit(print) {
            Admission::New => {}
            Admission::Known => return,
            Admission::Full => {
                self.skip(UrlId::NONE, None, url.as_str(), "too many URLs are known");
                return;
            }
        }
        if let Some(pattern) = self.excluded_by(url) {
            let id = self.frontier.enter(print, None, &Job::page(url, self.now));
            self.skip(id, None, url.as_str(), &format!("excluded by {pattern}"));
            return;
        }
        let Some(host) = host.or_else(|| self.host_of(url)) else {
            let id = self.frontier.enter(print, None, &Job::page(url, self.now));
            self.skip(id, None, url.as_str(), "too many hosts");
            return;
        };
        if self.is_spent(host) {
            let id = self.frontier.enter(print, Some(host), &Job::page(url, self.now));
            self.skip(id, Some(host), url.as_str(), SPENT);
            return;
        }
        self.hosts.note_scheme(host, url);
        let lane = self.hosts.lane(host, url, &self.config);
        self.frontier.take_in(print, host, lane, url, self.now);
        self.sync(host, lane);
    }

    /// The pattern that keeps a URL from being fetched, if one does: one of an input, or a redirect's target.
    pub(super) fn excluded_by(&self, url: &Url) -> Option<String> {
        let mut patterns = self.config.crawl.exclude.iter().chain(&self.excluded);
        let pattern = patterns.find(|pattern| pattern.is_match(url.as_str()));
        pattern.map(|pattern| pattern.as_str().to_owned())
    }

    /// The host of a URL, made known if it is new.
    pub(super) fn host_of(&mut self, url: &Url) -> Option<HostId> {
        let (known, controller) = (self.hosts.len(), &mut self.controller);
        let host = self.hosts.find_or_add(url, &self.config, |policy| controller.add_host(policy))?;
        if self.hosts.len() > known {
            self.frontier.add_host(&host_text(url));
            self.recall(host);
            self.recount(host);
            self.group_new(host, url);
        }
        Some(host)
    }

    /// Whether a host has used up its `max_requests`.
    pub(super) fn is_spent(&mut self, host: HostId) -> bool {
        let limit = self.controller.max_requests(host);
        limit > 0 && self.hosts.get_mut(host).is_some_and(|host| host.requests >= limit)
    }

    /// Tells the controller what is queued in a lane.
    pub(super) fn sync(&mut self, host: HostId, lane: Lane) {
        let now = self.now;
        self.controller.set_queue(now, host, lane, self.frontier.queue(host, lane));
    }

    /// A URL is never sent.
    pub(super) fn skip(&mut self, id: UrlId, host: Option<HostId>, url: &str, why: &str) {
        self.counts.skipped += 1;
        self.frontier.end(id, Fate::Skipped, why);
        self.event(Who::System, host, What::UrlSkipped, Value::None, Value::None, why, Some(url));
    }

    /// A request of the operator or of a signal.
    pub(super) fn take_request(&mut self, request: Option<Request>) {
        let now = self.now;
        match request {
            Some(Request::Act { ticket, command, targets, chosen_by }) => {
                let result = self.controller.command(now, command, &targets, chosen_by.as_str());
                if matches!(command, Command::Wake(_)) && result.changed > 0 {
                    self.retry_robots(&targets);
                }
                let text = self.describe(&result);
                self.answers.push(ActAnswer { ticket, changed: result.changed, text });
            }
            // The first one comes with the next snapshot.
            Some(Request::ShowTimeline) => self.timeline_shown = Some(Mono::ZERO),
            Some(Request::HideTimeline) => self.timeline_shown = None,
            Some(Request::Change { ticket, change }) => self.change(ticket, change),
            Some(Request::Reread(reading)) => self.reread(&reading),
            Some(Request::Unwatched(why)) => self.unwatched(&why),
            Some(Request::Focus(host)) => self.recently.look_at(host),
            Some(Request::Drain) => self.leave(Phase::Draining),
            Some(Request::Stop) => self.leave(Phase::Stopped),
            Some(Request::TerminalGone) => self.terminal_gone(),
            // Nobody can ask for anything any more: the crawl goes on by itself.
            None => self.requests = None,
        }
    }

    /// A host that was woken asks for its robots.txt again at once, if that was what it waited for.
    fn retry_robots(&mut self, targets: &[HostId]) {
        for host in targets {
            let name = self.hosts.name(*host);
            for authority in Authority::of_key(name.as_str()).into_iter().flatten() {
                self.robots.retry(&authority);
            }
        }
    }

    fn leave(&mut self, phase: Phase) {
        if self.phase == Phase::Running || phase == Phase::Stopped {
            self.phase = phase;
        }
    }

    /// A screen ends by itself when its terminal does; status lines may go to a file and stay.
    fn terminal_gone(&mut self) {
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
    fn describe(&self, result: &crate::control::CommandResult) -> Clean {
        let mut text = result.summary.clone();
        if let Some(first) = result.first {
            text.push_str(&format!(": {}", self.hosts.name(first)));
            match result.changed {
                ..2 => {}
                changed => text.push_str(&format!(" and {} more", changed - 1)),
            }
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
