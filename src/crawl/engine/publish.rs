//! What goes out: the journal's records, and snapshots for whoever watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Looks, PROGRESS_EVERY, TICK};
use crate::clock::Wall;
use crate::control::{Decision, HostId, Mono, Outcome, Value, What, Who, rate_figures};
use crate::journal::FORMAT_VERSION;
use crate::journal::record::Event;
use crate::journal::timeline::bins::{Bins, Key, Mark};
use crate::text::Clean;
use crate::watch::{HostRow, LOG_LINES_MAX, LogLine, Phase, Recent, Snapshot, Totals};

/// Why a run that was resumed without its inputs is not done.
const INPUTS_LEFT: &str = "no URL is left, but the inputs were not read to their end: name them again";
/// Hosts whose concerns and lifetimes are looked at in one tick.
const SWEEP_HOSTS: usize = 20_000;
/// The watcher has so long to take the snapshot before the last one.
const LAST_SNAPSHOT_WITHIN: Duration = Duration::from_millis(200);
/// Changed rows in one snapshot; the others come with the next.
const ROWS_MAX: usize = 50_000;

impl Engine {
    /// The wall time of a moment, by the clocks as they are now.
    pub(super) fn wall_at(&self, at: Mono) -> Wall {
        self.wall_origin.after(Duration::from_nanos(at.as_nanos()))
    }

    /// A decision of the engine itself.
    #[expect(clippy::too_many_arguments, reason = "the fields of one event, in the journal's order")]
    pub(super) fn event(
        &mut self,
        who: Who,
        host: Option<HostId>,
        what: What,
        before: Value,
        after: Value,
        why: &str,
        url: Option<&str>,
    ) {
        // What the controller decided before comes first in the journal, too.
        self.record_decisions();
        let decision = Decision { at: self.now, who, host, what, before, after, why: why.to_owned(), with: None };
        self.record(decision, url, Row::Own);
    }

    /// Writes a decision into the journal and, if it is one to read, the log on the screen.
    fn record(&mut self, decision: Decision, url: Option<&str>, row: Row) {
        let Decision { at, who, host, what, before, after, mut why, with } = decision;
        if let Some(other) = with {
            why.push_str(&format!(" (with {})", self.hosts.name(other)));
        }
        let wall = self.wall_at(at);
        let name = host.map(|host| self.hosts.name(host));
        let (why, url) = (Clean::new(why), url.map(Clean::new));
        if is_for_the_log(who, what, &before) {
            let text = line_of(what, &before, &after, &why, url.as_ref());
            let line = LogLine { wall, at, who, host: name.clone().unwrap_or_default(), text };
            if let (Some(host), true) = (host, self.watcher.is_some()) {
                self.recently.note(host, Recent::Decision(line.clone()));
            }
            self.log.extend(row.line(line, &why));
            if self.log.len() > LOG_LINES_MAX {
                self.log.pop_front();
            }
        }
        let refused = what == What::UrlSkipped && why.as_str().starts_with(Outcome::AddressRefused.as_str());
        if (refused || what == What::BadInput) && self.watcher.is_some() && self.notices.len() < LOG_LINES_MAX {
            let notice = url.as_ref().map_or_else(|| why.clone(), |url| Clean::new(format!("{url}: {why}")));
            self.notices.push(notice);
        }
        // A concern that went away calls for nobody.
        let cleared = what == What::Concern && after == Value::None;
        if let Some(mark) = Mark::of(Some(who), what).filter(|_| !cleared) {
            self.timeline.add(wall, Key::Mark(mark));
        }
        self.journal.event(Event { time: wall, mono: at, who, host: name, what, before, after, why, url });
    }

    fn record_decisions(&mut self) {
        let decisions = self.controller.take_decisions();
        for (decision, row) in in_rows(decisions) {
            self.record(decision, None, row);
        }
    }

    /// Takes what the controller decided into the journal, and hands the batch on.
    pub(super) fn write_down(&mut self, now: Mono) {
        self.record_decisions();
        if now.since(self.progressed) >= PROGRESS_EVERY && self.told_counts != self.url_counts() {
            self.progressed = now;
            self.told_counts = self.url_counts();
            self.event(Who::System, None, What::Progress, Value::None, self.url_counts(), "", None);
        }
        self.journal.flush();
        // The store makes sure itself that what was handed to the journal just now is on the medium first.
        if self.commit_due() <= now {
            self.commit(now);
        }
    }

    pub(super) fn journal_start(&mut self) {
        let version = Value::Number(f64::from(FORMAT_VERSION));
        let why = format!("crawldeck {}", env!("CARGO_PKG_VERSION"));
        match self.persisted.resumed.take() {
            Some(found) => {
                let (counts, why) = (self.url_counts(), format!("{why}: {found}"));
                self.event(Who::System, None, What::ResumeRun, Value::None, counts, &why, None);
            }
            None => self.event(Who::System, None, What::Start, Value::None, version, &why, None),
        }
        if let Some(why) = self.warning.take() {
            tracing::warn!(%why, "in doubt");
            self.event(Who::System, None, What::System, Value::None, Value::None, why.as_str(), None);
        }
        self.journal.flush();
    }

    /// Tells the operator this when the crawl begins: in the journal, and on the screen.
    pub fn warning(mut self, why: Option<Clean>) -> Self {
        self.warning = why;
        self
    }

    pub(super) fn journal_stop(&mut self, now: Mono) {
        self.controller.tell_last(now);
        let limit = self.config.crawl.max_requests;
        let why = match (self.phase, self.frontier.pending()) {
            (Phase::Stopped, _) => "stopped",
            (_, 1..) if limit > 0 && self.sent >= limit => "max_requests is reached",
            (_, 0) if self.inputs.is_none() && !self.persisted.inputs_read => INPUTS_LEFT,
            (_, 0) if self.inputs.is_none() => "done",
            (_, _) => "drained",
        };
        let before = Value::Text(format!("up {} s", now.since(self.started.0).as_secs()));
        self.event(Who::System, None, What::Stop, before, self.url_counts(), why, None);
    }

    fn url_counts(&self) -> Value {
        Value::Counts {
            urls_done: self.counts.done,
            urls_failed: self.counts.failed,
            urls_pending: self.urls_pending(),
            urls_skipped: self.counts.skipped,
        }
    }

    fn urls_pending(&self) -> u64 {
        let flying = self.in_flight.pages() + self.gathering.urls();
        (self.frontier.pending() + self.traps.parked()) as u64 + flying
    }

    /// Looks at lifetimes and concerns, some hosts at a time.
    pub(super) fn sweep(&mut self, now: Mono) {
        if now.since(self.swept) < TICK {
            return;
        }
        self.swept = now;
        self.controller.sweep(now, SWEEP_HOSTS);
        for (host, why) in self.controller.take_given_up() {
            self.give_up(host, why);
        }
        self.learn(now);
    }

    /// Whether a watcher would see something new.
    pub(super) fn has_news(&self) -> bool {
        let new = self.controller.has_changed() || !self.log.is_empty() || !self.answers.is_empty();
        self.watcher.is_some() && (new || self.recently.is_fresh())
    }

    /// Publishes a snapshot, if somebody watches, has taken the last one, and it is time.
    pub(super) fn publish(&mut self, now: Mono) {
        let due = now.since(self.published) >= self.frame || !self.answers.is_empty() || self.first_snapshot;
        let quiet = !self.has_news() && now.since(self.published) < TICK;
        let Some(watcher) = &self.watcher else { return };
        if watcher.is_closed() {
            self.watcher = None;
            return;
        }
        if !due || quiet || watcher.capacity() == 0 {
            return;
        }
        let snapshot = self.snapshot(now);
        if let Some(watcher) = &self.watcher {
            // There was room a moment ago, and this task is the only sender.
            let _ = watcher.try_send(Arc::new(snapshot));
        }
    }

    /// The last snapshot: the watcher may be gone, or stuck.
    pub(super) async fn publish_last(&mut self, now: Mono) {
        // The whole timeline, however short ago the last one was.
        self.timeline_shown = self.timeline_shown.map(|_| Mono::ZERO);
        let snapshot = Arc::new(self.snapshot(now));
        if let Some(watcher) = &self.watcher {
            let _ = tokio::time::timeout(LAST_SNAPSHOT_WITHIN, watcher.send(snapshot)).await;
        }
    }

    fn snapshot(&mut self, now: Mono) -> Snapshot {
        self.published = self.published.beat(self.frame, now);
        self.first_snapshot = false;
        // What others do changes what a host shares with them: the one that is looked at says so.
        if let Some(host) = self.recently.looked_at().filter(|host| self.controller.group_of(*host).is_some()) {
            self.controller.touch(host);
        }
        // Status lines show no host.
        let changed = match self.looks {
            Looks::Closely => self.controller.take_changed(ROWS_MAX),
            Looks::AtTotals => {
                self.controller.take_changed(usize::MAX);
                Vec::new()
            }
        };
        let rows = changed.into_iter().filter_map(|host| {
            let view = self.controller.view(now, host)?;
            let group = view.group.and_then(|_| self.controller.group_of(host)).map(Clean::new);
            Some(HostRow { name: self.hosts.name(host), group, endpoints: self.hosts.endpoints(host), view })
        });
        let rows = rows.collect();
        Snapshot {
            now,
            wall: self.clock.wall(),
            up: now.since(self.started.0),
            totals: self.totals(now),
            changed: rows,
            log: self.log.drain(..).collect(),
            answers: std::mem::take(&mut self.answers),
            notices: std::mem::take(&mut self.notices),
            timeline: self.timeline_if_due(now),
            focus: self.focus(now),
            ui: self.ui.take(),
        }
    }

    /// The timeline, if the watcher asks for it and its last one is a second old.
    fn timeline_if_due(&mut self, now: Mono) -> Option<Arc<Bins>> {
        let last = self.timeline_shown?;
        if last != Mono::ZERO && now.since(last) < TICK {
            return None;
        }
        self.timeline_shown = Some(now);
        Some(Arc::new(self.timeline.clone()))
    }

    pub(super) fn totals(&mut self, now: Mono) -> Totals {
        let outlook = self.controller.outlook();
        // While inputs come in, and when all is over, there is nothing to foresee.
        let moves = matches!(self.phase, Phase::Running | Phase::Draining) && self.local_rest <= now;
        // Where links are followed the queue may still grow.
        let grows = self.scope.follows() || self.config.crawl.sitemaps;
        let shrinks = self.queue_watch.shrinks(now, self.urls_pending()) || !grows;
        let tells_eta = moves && self.inputs.is_none() && shrinks;
        Totals {
            phase: self.phase,
            counts: self.controller.counts(),
            urls_done: self.counts.done,
            urls_failed: self.counts.failed,
            urls_skipped: self.counts.skipped,
            urls_pending: self.urls_pending(),
            inputs_read: self.inputs.is_none(),
            in_flight: self.controller.in_flight(),
            concurrency: self.controller.concurrency(),
            requests: self.sent,
            rate_now: self.throughput.rate(now, 10),
            rate_15m: self.throughput.rate(now, 900),
            rate_history: self.throughput.history(now),
            classes: self.throughput.classes(now),
            halted: self.controller.is_halted(),
            stopped_because: self.stopped_because.clone(),
            resting_because: self.resting_because(now),
            config_trouble: self.config_trouble.clone(),
            alarms: self.alarms(),
            eta_bulk: outlook.bulk.filter(|_| tells_eta),
            eta_tail: outlook.tail.zip(outlook.slowest).filter(|_| tells_eta),
            journal_bytes: self.journal.health().bytes,
            bad_lines: self.bad_lines,
        }
    }
}

/// Decisions a person wants to read; single URLs and progress are not.
fn is_for_the_log(who: Who, what: What, before: &Value) -> bool {
    // One line tells of a new configuration, not one a host.
    if what == What::Original || (who, what) == (Who::System, What::Rate) && *before != Value::None {
        return false;
    }
    // The capacity moves with the rate: one line tells of both.
    !matches!(
        what,
        What::Capacity
            | What::EndpointCapacity
            | What::GroupCapacity
            | What::UrlFailed
            | What::UrlSkipped
            | What::BadInput
            | What::Progress
    )
}

/// How a decision stands in the log on the screen; the journal has an event for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Row {
    /// In a row of its own.
    Own,
    /// In the row of its act, which was done to so many hosts; the first of them has it.
    Act(usize),
    /// The act has its row already.
    Told,
}

impl Row {
    fn line(self, own: LogLine, why: &Clean) -> Option<LogLine> {
        match self {
            Self::Own => Some(own),
            // What differs from host to host is in the journal.
            Self::Act(hosts) => Some(LogLine { host: Clean::new(format!("{hosts} hosts")), text: why.clone(), ..own }),
            Self::Told => None,
        }
    }
}

/// The row of each decision: what the operator did to many hosts at once is told in one.
fn in_rows(decisions: Vec<Decision>) -> impl Iterator<Item = (Decision, Row)> {
    type Act = (Mono, What, String);
    let act = |decision: &Decision| -> Option<Act> {
        let of_a_host = decision.who == Who::Operator && decision.host.is_some();
        of_a_host.then(|| (decision.at, decision.what, decision.why.clone()))
    };
    let mut hosts: HashMap<Act, usize> = HashMap::new();
    for act in decisions.iter().filter_map(act) {
        *hosts.entry(act).or_default() += 1;
    }
    decisions.into_iter().map(move |decision| {
        // Taken out with the first: the others find none.
        let row = act(&decision).map_or(Row::Own, |act| match hosts.get_mut(&act).map(std::mem::take) {
            Some(1) => Row::Own,
            Some(hosts @ 2..) => Row::Act(hosts),
            Some(0) | None => Row::Told,
        });
        (decision, row)
    })
}

/// A decision as one line.
fn line_of(what: What, before: &Value, after: &Value, why: &Clean, url: Option<&Clean>) -> Clean {
    let change = match (what, before, after) {
        (What::Rate | What::EndpointRate | What::GroupRate, Value::Number(before), Value::Number(after)) => {
            format!("rate {} → {}/s  ", rate_figures(*before), rate_figures(*after))
        }
        (What::Rate, _, Value::Number(after)) => format!("rate {}/s  ", rate_figures(*after)),
        (What::Pace, _, Value::Number(rate)) if *rate > 0.0 => format!("pace {}/s  ", rate_figures(*rate)),
        (What::Hold | What::GroupHold, _, Value::Number(after)) => format!("hold {after:.0} s  "),
        (What::Reset, Value::Number(before), Value::Number(after)) => {
            format!("rate {} → {}/s  ", rate_figures(*before), rate_figures(*after))
        }
        (What::GiveUp, Value::Number(urls), _) => format!("given up with {urls:.0} URLs  "),
        (What::Note, ..) => String::from("note: "),
        (What::Halt, ..) => String::from("the whole crawl is halted  "),
        (What::GoOn, ..) => String::from("the whole crawl goes on  "),
        (What::Add, _, Value::Text(file)) => return Clean::new(format!("{why}: {file}")),
        (What::Add, ..) => return Clean::new(format!("{why}: {}", url.cloned().unwrap_or_default())),
        (What::Exclude, _, Value::Number(urls)) => {
            return Clean::new(format!("{why}: {urls:.0} queued URLs removed"));
        }
        _ => String::new(),
    };
    Clean::new(format!("{change}{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(host: Option<u32>, who: Who, what: What, why: &str) -> Decision {
        let (before, after) = (Value::Number(1.0), Value::Number(f64::from(host.unwrap_or_default())));
        Decision { at: Mono::ZERO, who, host: host.map(HostId), what, before, after, why: why.to_owned(), with: None }
    }

    #[test]
    fn an_act_on_many_hosts_is_one_row() {
        let pauses = (0..40).map(|host| decision(Some(host), Who::Operator, What::Pause, "pause (filter *.test)"));
        let others = [
            decision(Some(3), Who::Operator, What::Pause, "pause (c.test)"),
            decision(Some(1), Who::Controller, What::Rate, "throttled"),
            decision(Some(2), Who::Controller, What::Rate, "throttled"),
            decision(None, Who::Operator, What::Halt, "by key"),
        ];
        let rows: Vec<_> = in_rows(pauses.chain(others).collect()).map(|(_, row)| row).collect();
        assert_eq!((rows.len(), rows[0]), (44, Row::Act(40)), "every decision comes out, for the journal");
        assert!(rows[1..40].iter().all(|row| *row == Row::Told));
        assert_eq!(rows[40..], [Row::Own; 4], "another act, what is no act, and what is about all");
        let own = LogLine {
            wall: Wall(7),
            at: Mono::ZERO,
            who: Who::Operator,
            host: Clean::new("a.test"),
            text: Clean::new("rate 1.00 → 2.00/s  reset"),
        };
        let why = Clean::new("reset");
        let row = Row::Act(40).line(own.clone(), &why).expect("a row");
        assert_eq!((row.host.as_str(), row.text.as_str(), row.wall), ("40 hosts", "reset", Wall(7)));
        assert_eq!(Row::Own.line(own.clone(), &why), Some(own.clone()));
        assert_eq!(Row::Told.line(own, &why), None);
    }

    #[test]
    fn a_row_says_what_happened() {
        let line = |what, after: Value, why: &str, url: Option<&str>| {
            line_of(what, &Value::None, &after, &Clean::new(why), url.map(Clean::new).as_ref()).to_string()
        };
        let word = |word: &str| Value::Text(word.to_owned());
        assert_eq!(line(What::Halt, word("halted"), "by key", None), "the whole crawl is halted  by key");
        assert_eq!(line(What::GoOn, word("running"), "by key", None), "the whole crawl goes on  by key");
        let url = Some("http://a.test/5");
        assert_eq!(line(What::Add, Value::Number(1.0), "added", url), "added: http://a.test/5");
        assert_eq!(line(What::Add, word("more.txt"), "added a file", None), "added a file: more.txt");
        let removed = Value::Number(2.0);
        assert_eq!(line(What::Exclude, removed, "excluded by /x", None), "excluded by /x: 2 queued URLs removed");
        assert_eq!(line(What::Hold, Value::Number(9.0), "429", None), "hold 9 s  429");
    }
}
