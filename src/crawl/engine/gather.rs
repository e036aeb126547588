//! What bodies led to is taken in steps, as inputs are; only then has the URL that led there its end.
//!
//! A page or a sitemap whose links are not all in the frontier is pending: whoever is killed meanwhile asks for it
//! again, and finds those that were taken known. One that failed with links in it (a page that was too large) is told
//! to the journal only when they are on the medium: what the journal tells to have failed is not asked for again.

use std::collections::VecDeque;
use std::vec::IntoIter;

use url::Url;

use super::Engine;
use super::discover::{As, NESTING_MAX};
use super::dispatch::Flight;
use crate::control::{HostId, Lane, RequestKind};
use crate::crawl::job::Job;
use crate::crawl::links::{Found, Link};
use crate::crawl::traps::spread::Led;
use crate::crawl::traps::{RUN_FREE, pattern_key};
use crate::store::{Fate, Store};

/// Links that are taken in one turn.
const LINKS_PER_TURN: usize = 2_000;
/// Links that may wait to be taken before nothing more is granted.
const LINKS_MAX: usize = 100_000;

/// The end of a URL that led somewhere.
pub(super) enum End {
    /// It has its final answer.
    Done,
    /// It failed, for this reason.
    Failed(String),
}

/// A URL of which the links are being taken.
struct Lead {
    host: HostId,
    lane: Lane,
    job: Job,
    end: End,
    links: IntoIter<Link>,
    sitemaps: IntoIter<Link>,
    led: Led,
    /// The pattern of a page with a long run.
    pattern: Option<u64>,
}

/// A URL that failed, to be told when the transaction of its links is on the medium.
struct Failing {
    host: HostId,
    lane: Lane,
    job: Job,
    why: String,
    transaction: u64,
}

/// What is being taken. Bounded: nothing is granted while more than [`LINKS_MAX`] links wait.
#[derive(Default)]
pub(super) struct Gathering {
    leads: VecDeque<Lead>,
    /// Links of them that wait.
    links: usize,
    /// Links that this turn may still take.
    budget: usize,
    failing: VecDeque<Failing>,
}

impl Gathering {
    /// URLs that have been answered and have no end yet.
    pub(super) fn urls(&self) -> u64 {
        (self.leads.len() + self.failing.len()) as u64
    }

    /// Whether nothing more should come in.
    pub(super) fn is_full(&self) -> bool {
        self.links > LINKS_MAX
    }
}

impl Engine {
    /// Takes what the answer to a flight led to, now or in the next turns, and ends its URL then.
    pub(super) fn gather(&mut self, flight: Flight, found: Found, end: End) {
        let Flight { grant, job, .. } = flight;
        let Found { links, mut sitemaps, left_out, note, .. } = found;
        if left_out > 0 && note.is_none() {
            self.odd(grant.host, &job.url, &format!("{left_out} links of the page are left out: it has too many"));
        }
        if let Some(note) = note {
            self.odd(grant.host, &job.url, &note);
        }
        if !sitemaps.is_empty() && job.depth >= NESTING_MAX {
            self.odd(grant.host, &job.url, &format!("sitemap indexes more than {NESTING_MAX} deep are not read"));
            sitemaps.clear();
        }
        self.gathering.links += links.len() + sitemaps.len();
        let (links, sitemaps) = (links.into_iter(), sitemaps.into_iter());
        let is_page = !matches!(job.kind(), RequestKind::Sitemap);
        let page = Url::parse(&job.url).ok().filter(|_| is_page);
        let pattern = page.as_ref().filter(|_| job.run >= RUN_FREE).map(|page| pattern_key(grant.host, page));
        let led = Led::by(page, pattern.is_some());
        let (host, lane) = (grant.host, grant.lane);
        self.gathering.leads.push_back(Lead { host, lane, job, end, links, sitemaps, led, pattern });
        self.take_links();
    }

    /// A new turn: takes what waits, and tells of what failed and whose links are safe.
    pub(super) fn go_on_gathering(&mut self) {
        self.gathering.budget = LINKS_PER_TURN;
        self.take_links();
        if self.gathering.failing.is_empty() {
            return;
        }
        // A writer that is gone will never write: then it is told at once.
        let store = self.frontier.store_ref().filter(|store| !store.is_over());
        let written = store.map_or(u64::MAX, Store::written);
        while self.gathering.failing.front().is_some_and(|first| first.transaction <= written)
            && let Some(Failing { host, lane, job, why, .. }) = self.gathering.failing.pop_front()
        {
            self.fail(Some(host), &job, &why);
            self.sync(host, lane);
        }
    }

    /// Whether there is something to take, and where it goes takes it.
    pub(super) fn gathers(&self) -> bool {
        !self.gathering.leads.is_empty()
            && self.frontier.keeps_up()
            && self.journal.backlog() < crate::journal::BACKLOG_MAX
    }

    /// Whether a drain has to wait: for what is taken, and for what is told, unless the disk does not let it.
    pub(super) fn still_gathers(&self) -> bool {
        let stuck = |store: &Store| store.is_over() || store.health().blocked.is_some();
        let tells = !self.gathering.failing.is_empty() && !self.frontier.store_ref().is_none_or(stuck);
        self.gathers() || tells
    }

    fn take_links(&mut self) {
        while self.gathering.budget > 0
            && self.gathers()
            && let Some(mut lead) = self.gathering.leads.pop_front()
        {
            let mut touched = Vec::new();
            let (depth, run) = match lead.job.kind() {
                RequestKind::Sitemap => (1, 0),
                _ => (lead.job.depth.saturating_add(1), lead.job.run),
            };
            let of_sitemap = lead.job.depth.saturating_add(1);
            while self.gathering.budget > 0 {
                let (Link { url, fingerprint }, found) = if let Some(link) = lead.links.next() {
                    let alike = lead.led.is_alike(&link.url);
                    (link, As::Page { depth, run, on: lead.pattern, alike })
                } else if let Some(link) = lead.sitemaps.next() {
                    (link, As::Sitemap { depth: of_sitemap })
                } else {
                    break;
                };
                self.gathering.budget -= 1;
                self.gathering.links = self.gathering.links.saturating_sub(1);
                // Most links of most pages: nothing else need be asked about them.
                if self.frontier.is_known(fingerprint) {
                    lead.led.meets_known(&url);
                    continue;
                }
                // A robots.txt may name a sitemap on any host, and that one others beside it; that each is read once ends
                // every circle.
                let beside = matches!(found, As::Sitemap { .. }) && self.hosts.find(&url) == Some(lead.host);
                let wanted = beside || self.scope.takes(&url);
                if wanted && let Some(lane) = self.enter(&url, fingerprint, found, Some(lead.host)) {
                    self.touch(&mut touched, lane);
                    if matches!(found, As::Page { alike: true, .. }) {
                        lead.led.meets_new();
                    }
                }
            }
            for (host, lane) in touched {
                self.sync(host, lane);
            }
            match lead.links.len() + lead.sitemaps.len() {
                0 => self.end_lead(lead),
                _ => self.gathering.leads.push_front(lead),
            }
        }
    }

    /// All links of a URL are in the frontier.
    fn end_lead(&mut self, lead: Lead) {
        let Lead { host, lane, job, end, led, pattern, .. } = lead;
        self.traps.note(host, &led, pattern);
        match end {
            End::Done => {
                self.counts.done += 1;
                self.frontier.end(job.id, Fate::Done, "");
                self.sync(host, lane);
            }
            End::Failed(why) => {
                let transaction = self.frontier.store_ref().map_or(0, Store::transaction);
                self.gathering.failing.push_back(Failing { host, lane, job, why, transaction });
            }
        }
    }

    /// The crawl ends: what has no end yet is pending, and comes again when the run goes on.
    pub(super) fn end_gathering(&mut self) {
        let Gathering { leads, failing, .. } = std::mem::take(&mut self.gathering);
        let leads = leads.into_iter().map(|Lead { host, lane, job, .. }| (host, lane, job));
        let failing = failing.into_iter().map(|Failing { host, lane, job, .. }| (host, lane, job));
        for (host, lane, job) in leads.chain(failing) {
            self.frontier.push_front(host, lane, job);
        }
    }
}
