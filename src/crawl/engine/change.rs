//! Changes of the crawl itself while it runs: more URLs, patterns to leave out, another concurrency, a note.
//! Each is answered with what it did, and journaled.

use std::path::PathBuf;

use regex::Regex;

use super::Engine;
use super::sift::Because;
use crate::config::CONCURRENCY_RANGE;
use crate::control::{Value, What, Who};
use crate::crawl::address::parse_url;
use crate::crawl::input::{self, InputItem, Source};
use crate::text::Clean;
use crate::watch::{ActAnswer, Change, Phase};

/// Files of URLs that wait to be read; a further one is refused.
const FILES_MAX: usize = 16;
/// Patterns that can be allowed while the crawl runs.
const ALLOWS_MAX: usize = 64;

impl Engine {
    /// Makes a change and answers it.
    pub(super) fn change(&mut self, ticket: u64, change: Change) {
        let done = if self.phase == Phase::Running || matches!(change, Change::Note(_)) {
            self.make(ticket, change)
        } else {
            Err(String::from("the crawl is ending: nothing was changed"))
        };
        match done {
            Ok(Some(text)) => self.answer(ticket, 1, text),
            // It is answered when it is done.
            Ok(None) => {}
            Err(text) => self.answer(ticket, 0, text),
        }
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, ticket: u64, changed: usize, text: impl Into<Clean>) {
        self.answers.push(ActAnswer { ticket, changed, text: text.into() });
    }

    fn make(&mut self, ticket: u64, change: Change) -> Result<Option<String>, String> {
        match change {
            Change::Note(text) => {
                self.event(Who::Operator, None, What::Note, Value::None, Value::None, &text, None);
                self.keep_note(text);
                Ok(Some(String::from("noted in the journal")))
            }
            Change::Add(what) => self.add(&what).map(Some),
            Change::Exclude(pattern) => self.exclude(ticket, &pattern).map(|()| None),
            Change::Allow(pattern) => self.allow(ticket, pattern).map(|()| None),
            Change::Concurrency(wanted) => self.set_concurrency(wanted).map(Some),
            Change::Reload => self.ask_for_reload(ticket).map(|()| None),
            Change::Group(hosts) => self.group_by_hand(hosts).map(Some),
            Change::Ungroup(hosts) => self.ungroup_by_hand(hosts).map(Some),
        }
    }

    /// One URL, or a file of them.
    fn add(&mut self, what: &str) -> Result<String, String> {
        if !what.contains("://") {
            return self.add_file(what);
        }
        let address = parse_url(what).map_err(|error| format!("not added: {error}"))?;
        let before = (self.frontier.pending(), self.counts.skipped);
        let url = address.url.to_string();
        self.take_batch(Some(vec![InputItem::Url(address)]));
        let (pending, skipped) = (self.frontier.pending(), self.counts.skipped);
        if pending > before.0 {
            self.event(Who::Operator, None, What::Add, Value::None, Value::Number(1.0), "added", Some(&url));
            Ok(String::from("1 URL added"))
        } else if skipped > before.1 {
            Err(String::from("not added: it is excluded, or its host takes no more; the journal says why"))
        } else {
            Err(String::from("not added: this URL is known already"))
        }
    }

    fn add_file(&mut self, name: &str) -> Result<String, String> {
        if self.more_inputs.len() >= FILES_MAX {
            return Err(format!("not added: {FILES_MAX} files wait to be read already"));
        }
        let path = PathBuf::from(name);
        // Opening a pipe could wait for ever, and the crawl with it.
        match path.metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(format!("not added: {name} is no plain file")),
            Err(error) => return Err(format!("not added: {name}: {error}; a URL begins with http:// or https://")),
        }
        let stream = input::spawn(vec![Source::File(path)]).map_err(|error| format!("not added: {error}"))?;
        if self.inputs.is_none() {
            self.inputs = Some(stream);
        } else {
            self.more_inputs.push_back(stream);
        }
        self.event(Who::Operator, None, What::Add, Value::None, Value::Text(name.to_owned()), "added a file", None);
        Ok(format!("reading URLs from {name}"))
    }

    /// What matches is no trap: what is held back of it goes, and a domain of that name may have more hosts.
    fn allow(&mut self, ticket: u64, pattern: String) -> Result<(), String> {
        if self.traps.allowed().len() >= ALLOWS_MAX {
            return Err(format!("not allowed: there are {ALLOWS_MAX} patterns already"));
        }
        let regex = Regex::new(&pattern).map_err(|_| format!("not allowed: `{pattern}` is no regular expression"))?;
        let domains = self.scope.forgive(|domain| regex.is_match(domain));
        for host in domains.iter().flatten() {
            self.traps.settle(*host);
            self.tell_held_back(*host);
        }
        self.traps.allow(regex);
        self.sift(Because::Allowed { ticket, pattern, domains: domains.len() });
        Ok(())
    }

    fn set_concurrency(&mut self, wanted: u32) -> Result<String, String> {
        let range = CONCURRENCY_RANGE;
        if !range.contains(&wanted) {
            return Err(format!("not changed: the concurrency must be from {} to {}", range.start(), range.end()));
        }
        let before = self.controller.concurrency();
        self.controller.set_concurrency(wanted);
        let (from, to) = (Value::Number(f64::from(before)), Value::Number(f64::from(wanted)));
        let why = format!("concurrency {before} to {wanted}");
        self.event(Who::Operator, None, What::Concurrency, from, to, &why, None);
        Ok(format!("{why} fetches in flight"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Config;
    use crate::control::{Command, HostId, Outcome, Verdict};
    use crate::crawl::engine::{EngineParts, Looks};
    use crate::crawl::exchange::{Fetch, FetchRequest, Reply, ReplyFuture};
    use crate::journal::Journal;
    use crate::store::Store;
    use crate::watch::{Focus, Recent, Request, Snapshot, Totals};

    /// A fetcher that is never asked: the crawl is halted.
    struct Nobody;

    impl Fetch for Nobody {
        fn fetch(&self, request: FetchRequest) -> ReplyFuture {
            panic!("{} was asked for under a halt", request.url)
        }
    }

    /// A fetcher that answers everything at once, but never for `b.example`: so the crawl does not end.
    struct Ready;

    impl Fetch for Ready {
        fn fetch(&self, request: FetchRequest) -> ReplyFuture {
            if request.url.host_str() == Some("b.example") {
                return Box::pin(std::future::pending());
            }
            let reply = Reply {
                verdict: Verdict::Status(200),
                status: Some(200),
                error: None,
                ..Reply::failed(Outcome::Local, "")
            };
            Box::pin(std::future::ready(reply))
        }
    }

    #[tokio::test]
    async fn a_watcher_sees_the_requests_of_the_host_it_looks_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = SystemClock::shared();
        let (requests, requests_in) = mpsc::channel(64);
        let (watcher, mut snapshots) = mpsc::channel::<Arc<Snapshot>>(1);
        let urls = ["http://a.example/1?x=1", "http://b.example/2", "http://a.example/3"];
        let parts = EngineParts {
            config: Arc::new(Config::parse("[politeness]\nrespect_robots = false", "t.toml").expect("valid")),
            fetch: Arc::new(Ready),
            clock: clock.clone(),
            store: Store::begun_in(folder.path()),
            loaded: None,
            journal: Journal::open(folder.path(), clock).expect("writable"),
            archive: None,
            inputs: input::spawn(urls.map(|url| Source::Url(url.to_owned())).into()).expect("readable"),
            requests: requests_in,
            watcher: Some(watcher),
            looks: Looks::Closely,
            frame: Duration::from_millis(1),
            seed: 1,
        };
        requests.send(Request::Focus(Some(HostId(0)))).await.expect("room");
        let engine = tokio::spawn(Engine::new(parts).run());
        let mut paths = Vec::new();
        while paths.len() < 2 {
            let snapshot = snapshots.recv().await.expect("the crawl goes on");
            let Some(focus) = &snapshot.focus else { continue };
            let of_host = focus.recent.iter().filter_map(|one| match one {
                Recent::Request { path, status, .. } => Some((path.to_string(), *status)),
                Recent::Decision(_) => None,
            });
            paths = of_host.collect();
        }
        requests.send(Request::Stop).await.expect("room");
        drop(snapshots);
        engine.await.expect("no panic");
        assert_eq!(paths, [(String::from("/1?x=1"), Some(200)), (String::from("/3"), Some(200))]);
    }

    /// Runs a halted crawl of `urls`, asks for `changes` once all are read, and gives the answers by ticket,
    /// the last totals, what was told of host 0, and the journal's events.
    async fn changed(urls: &[&str], changes: Vec<Change>) -> (Vec<ActAnswer>, Totals, Option<Arc<Focus>>, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = SystemClock::shared();
        let (requests, requests_in) = mpsc::channel(64);
        let (watcher, mut snapshots) = mpsc::channel::<Arc<Snapshot>>(1);
        let sources = urls.iter().map(|url| Source::Url((*url).to_owned())).collect();
        let parts = EngineParts {
            config: Arc::new(Config::parse("[politeness]\nrespect_robots = false", "t.toml").expect("valid")),
            fetch: Arc::new(Nobody),
            clock: clock.clone(),
            store: Store::begun_in(folder.path()),
            loaded: None,
            journal: Journal::open(folder.path(), clock).expect("writable"),
            archive: None,
            inputs: input::spawn(sources).expect("readable"),
            requests: requests_in,
            watcher: Some(watcher),
            looks: Looks::Closely,
            frame: Duration::from_millis(1),
            seed: 1,
        };
        let halt = Request::Act { ticket: 0, command: Command::Halt, targets: Vec::new(), chosen_by: Clean::default() };
        requests.send(halt).await.expect("room");
        requests.send(Request::Focus(Some(HostId(0)))).await.expect("room");
        let engine = tokio::spawn(Engine::new(parts).run());
        let (mut answers, mut totals, mut focus) = (Vec::new(), Totals::default(), None);
        let (mut asked, count) = (false, changes.len());
        let mut changes = changes;
        // Every request is answered, the halt too.
        while answers.len() <= count {
            let Some(snapshot) = snapshots.recv().await else { break };
            answers.extend(snapshot.answers.iter().cloned());
            totals = snapshot.totals.clone();
            focus = snapshot.focus.clone().or(focus);
            if totals.inputs_read && !asked {
                asked = true;
                for (ticket, change) in (1..).zip(changes.drain(..)) {
                    requests.send(Request::Change { ticket, change }).await.expect("room");
                }
            }
        }
        requests.send(Request::Stop).await.expect("room");
        // The last snapshot waits for somebody to take it or to go.
        drop(snapshots);
        engine.await.expect("no panic");
        let events = std::fs::read_to_string(folder.path().join("events.jsonl")).expect("written");
        answers.retain(|answer| answer.ticket > 0);
        // What takes several turns is answered after what takes one.
        answers.sort_by_key(|answer| answer.ticket);
        (answers, totals, focus, events)
    }

    #[tokio::test]
    async fn the_crawl_is_changed_while_it_runs() {
        let list = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(list.path(), "http://b.example/1\nhttp://b.example/drop\n").expect("written");
        let urls = ["http://a.example/1", "http://a.example/drop/2", "http://a.example/drop/3", "http://a.example/4"];
        let changes = vec![
            Change::Exclude(String::from("/drop")),
            Change::Exclude(String::from("(")),
            Change::Add(String::from("http://a.example/5")),
            Change::Add(String::from("http://a.example/5")),
            Change::Add(String::from("http://a.example/drop/6")),
            Change::Add(String::from("no-such-file")),
            Change::Concurrency(3),
            Change::Concurrency(0),
            Change::Note(String::from("asked by mail")),
            Change::Add(list.path().to_string_lossy().into_owned()),
            Change::Reload,
        ];
        let (answers, totals, focus, events) = changed(&urls, changes).await;
        let said: Vec<_> = answers.iter().map(|answer| (answer.changed, answer.text.as_str())).collect();
        assert_eq!(said[0], (1, "excluded by /drop: 2 queued URLs removed; what is in flight ends"));
        assert_eq!(said[1], (0, "not excluded: `(` is no regular expression"));
        assert_eq!(said[2], (1, "1 URL added"));
        assert_eq!(said[3], (0, "not added: this URL is known already"));
        assert!(said[4].1.starts_with("not added: it is excluded"), "{said:?}");
        assert!(said[5].1.starts_with("not added: no-such-file:"), "{said:?}");
        assert_eq!(said[6], (1, "concurrency 64 to 3 fetches in flight"));
        assert_eq!(said[7], (0, "not changed: the concurrency must be from 1 to 65536"));
        assert_eq!(said[8], (1, "noted in the journal"));
        assert!(said[9].1.starts_with("reading URLs from "), "{said:?}");
        assert_eq!(said[10], (0, "there is no configuration file: name one with -c when the crawl is started"));
        assert_eq!(totals.concurrency, 3);
        for word in ["\"note\"", "asked by mail", "\"exclude\"", "\"concurrency\"", "\"add\"", "\"operator\""] {
            assert!(events.contains(word), "{word} in {events}");
        }
        let skipped = events.lines().filter(|line| line.contains("url_skipped")).count();
        assert!((3..=4).contains(&skipped), "two removed, one refused, and perhaps the list's: {events}");
        assert!(focus.is_none_or(|focus| focus.recent.iter().all(|one| matches!(one, Recent::Decision(_)))));
    }
}
