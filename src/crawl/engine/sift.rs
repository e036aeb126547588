//! What is held back as a trap is judged anew: because the operator allowed or excluded something, because a run goes
//! on under other rules, or because everything else is done.
//!
//! Only numbers are in memory, so the URLs are read back from the store, some at a time; each is judged by the rules
//! in force then. Millions of them hold nobody up.

use std::collections::VecDeque;
use std::vec::IntoIter;

use url::Url;

use super::{Engine, Looks, SPENT};
use crate::control::{HostId, Value, What, Who};
use crate::crawl::job::Job;
use crate::journal::place::HELD_TO_THE_END;
use crate::store::{StoredUrl, UrlId, UrlsRead};
use crate::text::Clean;

/// URLs that are read back at once.
const BATCH: usize = 1_024;

/// What all that is held back is judged anew for.
pub(super) enum Because {
    /// The operator allowed a pattern.
    Allowed {
        /// Whom to answer.
        ticket: u64,
        /// As it was typed.
        pattern: String,
        /// Domains that may have more hosts by that.
        domains: usize,
    },
    /// Patterns are left out; the walk through the queue tells of it.
    Excluded,
    /// A run goes on, and the rules may be others.
    Resumed,
    /// All else is done: what nobody allowed is skipped.
    Over,
}

/// A pass through all that is held back.
pub(super) struct Sift {
    because: Because,
    begun: bool,
    /// Traps that are still to be looked at.
    traps: IntoIter<u64>,
    /// The one that is looked at, its host, and what is left of it.
    trap: u64,
    host: HostId,
    ids: IntoIter<u32>,
    /// URLs that are being read back.
    loading: usize,
    released: u64,
    dropped: u64,
}

impl Sift {
    fn new(because: Because) -> Self {
        let (traps, ids) = (Vec::new().into_iter(), Vec::new().into_iter());
        let (released, dropped) = (0, 0);
        Self { because, begun: false, traps, trap: 0, host: HostId(0), ids, loading: 0, released, dropped }
    }
}

/// Passes one after the other. Bounded by what can be allowed and excluded.
pub(super) type Sifts = VecDeque<Sift>;

impl Engine {
    /// Judges all that is held back anew, after what was asked for before.
    pub(super) fn sift(&mut self, because: Because) {
        self.sifts.push_back(Sift::new(because));
        self.go_on_sifting();
    }

    /// Whether a pass waits for nothing but its turn.
    pub(super) fn sifts(&self) -> bool {
        self.sifts.front().is_some_and(|sift| sift.loading == 0) && self.journal.backlog() < crate::journal::BACKLOG_MAX
    }

    /// Asks for the next URLs, or ends a pass that has seen all.
    pub(super) fn go_on_sifting(&mut self) {
        while self.sifts()
            && let Some(mut sift) = self.sifts.pop_front()
        {
            if !std::mem::replace(&mut sift.begun, true) {
                sift.traps = self.traps.shut().into_iter();
            }
            while sift.ids.len() == 0
                && let Some(trap) = sift.traps.next()
            {
                if let Some((host, ids)) = self.traps.take_shut(trap) {
                    (sift.trap, sift.host, sift.ids) = (trap, host, ids.into_iter());
                }
            }
            let ids: Vec<u32> = sift.ids.by_ref().take(BATCH).collect();
            if ids.is_empty() {
                self.end_sift(sift);
                continue;
            }
            sift.loading = ids.len();
            self.frontier.load_held(sift.host, ids);
            self.sifts.push_front(sift);
        }
    }

    /// URLs that were held back have been read.
    pub(super) fn take_held(&mut self, read: UrlsRead) {
        let Some(mut sift) = self.sifts.pop_front() else { return };
        let host = sift.host;
        sift.loading = 0;
        for (id, why) in read.lost {
            self.traps.let_out(host);
            self.lose(host, id, &why);
        }
        for StoredUrl { id, url, depth, .. } in read.urls {
            if self.traps.is_allowed(&url) {
                self.traps.let_out(host);
                sift.released += 1;
                self.release(id, &url, host, depth);
                continue;
            }
            let parsed = Url::parse(&url).ok();
            let why = match parsed.as_ref().and_then(|url| self.excluded_by(url)) {
                Some(pattern) => format!("excluded by {pattern}"),
                None if matches!(sift.because, Because::Over) => HELD_TO_THE_END.to_owned(),
                None => {
                    self.traps.put_back(sift.trap, host, id);
                    continue;
                }
            };
            self.traps.let_out(host);
            sift.dropped += 1;
            self.skip(id, Some(host), &url, &why);
        }
        self.tell_held_back(host);
        self.sifts.push_front(sift);
        self.go_on_sifting();
    }

    /// A URL that was held back may go.
    fn release(&mut self, id: UrlId, text: &str, host: HostId, depth: u32) {
        let Ok(url) = Url::parse(text) else {
            self.skip(id, Some(host), text, "it is no URL");
            return;
        };
        if self.is_spent(host) {
            self.skip(id, Some(host), text, SPENT);
            return;
        }
        self.hosts.note_scheme(host, &url);
        let lane = self.hosts.lane(host, &url, &self.config);
        let job = Job { depth, ..Job::page(&url, self.now) };
        self.frontier.let_go(id);
        self.frontier.push(host, lane, job.numbered(id));
        self.sync(host, lane);
    }

    fn end_sift(&mut self, sift: Sift) {
        match sift.because {
            Because::Allowed { ticket, pattern, domains } => {
                let mut why = format!("allowed {pattern}: {} URLs let go", sift.released);
                if domains > 0 {
                    why.push_str(&format!(", {domains} domains may have more hosts"));
                }
                let count = Value::Number(sift.released as f64);
                self.event(Who::Operator, None, What::Allow, Value::Text(pattern), count, &why, None);
                self.answer(ticket, 1, why);
            }
            Because::Excluded => self.held_are_excluded(sift.dropped),
            Because::Resumed | Because::Over => {}
        }
    }

    /// The crawl ends in the middle of a pass: what it was asked for and did so far is told. What is held back is so when
    /// the run goes on, and judged by the same rules.
    pub(super) fn end_sifts(&mut self) {
        while let Some(sift) = self.sifts.pop_front() {
            self.end_sift(sift);
        }
    }

    /// Everything else is done. Who looks at a screen can say what is to become of what is held back, and is waited
    /// for; else it is never sent. Whether there is anything left to do for it.
    pub(super) fn settles_held(&mut self) -> bool {
        let parked = self.traps.parked();
        if parked > 0 && self.looks == Looks::Closely && self.watcher.is_some() {
            if !std::mem::replace(&mut self.asked_about_traps, true) {
                let why = format!(
                    "all else is done: {parked} URLs are held back as traps. `:allow PATTERN` or `:exclude PATTERN` \
                     decides, leaving keeps them for the next run"
                );
                self.event(Who::System, None, What::System, Value::None, Value::None, &why, None);
                self.notices.push(Clean::new(why));
            }
            return true;
        }
        if self.sifts.is_empty() && self.traps.parked() > 0 {
            self.sift(Because::Over);
        }
        !self.sifts.is_empty()
    }
}
