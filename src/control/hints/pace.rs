//! The pace that a host's hints set, and the pause when nothing is left.
//!
//! It is bounded in time. What is left is spread no thinner than a Crawl-delay may be, one request in five minutes (the
//! floor of `adaptive`, too): however far off a window's end is said to be, and some say it in no unit known, sooner or
//! later nothing is left, and that is a pause. A policy of fewer requests, and a pause, make the next one no later than
//! `retry_after_max` lets a Retry-After. Where these bounds count, it is told as capped. After the last answer that told
//! of it, a pace ends with its window, or with that bound.
//!
//! What limits is named: [`Paced`] in the host's row, and an event `pace` when it begins to limit, when it has become half
//! or twice as fast, and when it has limited nothing for a minute.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DISTRUST, FALSE_MAX, Hint, RESET_MAX, RESET_SLACK, WATCH};
use crate::control::Mono;
use crate::control::host::CRAWL_DELAY_MAX;
use crate::control::sparse::Blank;

/// An answer may come so much later than the request that a pace let out, seconds: meanwhile the pace lasts.
const LINGER: f64 = 60.0;
/// A pace that limited nothing for so long has ended, as it is told; nor is a change told sooner.
const QUIET: Duration = Duration::from_secs(60);

/// The pace that a host's hints set.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(in crate::control) struct Pace {
    rate: f64,
    valid_until: Mono,
    not_before: Mono,
    misses: u8,
    missed_since: Mono,
    distrusted_until: Mono,
    /// What the last hint said: requests left (below zero: only a policy), until when, and whether the bounds made more of it.
    #[serde(default)]
    left: f32,
    #[serde(default)]
    resets: Mono,
    #[serde(default)]
    capped: bool,
    /// What the journal was told last, and when; when it limited last.
    #[serde(default)]
    told: Option<(f64, Mono)>,
    #[serde(default)]
    limited: Mono,
}

/// A limit told by headers, where it is what limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paced {
    /// Requests per second; 0 = none before `until`.
    pub rate: f64,
    /// Requests left, as the last answer said; `None` = it told of a policy alone.
    pub left: Option<f64>,
    /// When they are back, as it said.
    pub resets: Mono,
    /// When the wait ends, or the pace, if no answer says anything new.
    pub until: Mono,
    /// It asked for more than we bear: see the bounds of a pace.
    pub capped: bool,
}

impl Blank for Pace {
    const BLANK: &'static Self = &Self {
        rate: 0.0,
        valid_until: Mono::ZERO,
        not_before: Mono::ZERO,
        misses: 0,
        missed_since: Mono::ZERO,
        distrusted_until: Mono::ZERO,
        left: 0.0,
        resets: Mono::ZERO,
        capped: false,
        told: None,
        limited: Mono::ZERO,
    };
}

impl Pace {
    /// Whether hints are believed at `now`.
    pub(in crate::control) fn trusted(&self, now: Mono) -> bool {
        now >= self.distrusted_until
    }

    /// An answer told `hint` while `in_flight` other requests were on their way. Nobody waits longer than `longest`.
    pub(in crate::control) fn hear(&mut self, now: Mono, hint: &Hint, in_flight: u32, longest: Duration) {
        if !self.trusted(now) {
            return;
        }
        let longest = longest.as_secs_f64().max(1.0);
        // How long to wait a Retry-After of the same answer says better: of the window nothing counts then.
        let remaining = if hint.asked { f64::INFINITY } else { hint.remaining };
        if remaining.is_infinite() && hint.policy.is_none() {
            return;
        }
        let left = remaining - f64::from(in_flight);
        if left < 1.0 {
            let asked = hint.reset + RESET_SLACK;
            self.capped = asked > longest;
            self.not_before = self.not_before.max(now.after_secs(asked.min(longest)));
            self.valid_until = self.valid_until.max(self.not_before);
        } else {
            let policy = hint.policy.unwrap_or(f64::INFINITY);
            let told = ((left - 0.5) / hint.reset).min(policy);
            let spread = ((left - 0.5) / hint.reset).max(1.0 / CRAWL_DELAY_MAX.as_secs_f64());
            self.rate = spread.min(policy).max(1.0 / longest);
            self.capped = told < self.rate;
            self.valid_until = now.after_secs((hint.reset + 1.0).min(longest + LINGER));
        }
        self.left = if remaining.is_finite() { remaining as f32 } else { -1.0 };
        self.resets = now.after_secs(hint.reset);
    }

    /// What another pace allows bounds this one, too.
    pub(in crate::control) fn join(&mut self, other: &Self) {
        if other.rate > 0.0 && (self.rate <= 0.0 || other.rate < self.rate) {
            self.rate = other.rate;
            (self.left, self.resets, self.capped) = (other.left, other.resets, other.capped);
        }
        self.valid_until = self.valid_until.max(other.valid_until);
        self.not_before = self.not_before.max(other.not_before);
        self.distrusted_until = self.distrusted_until.max(other.distrusted_until);
        self.told = self.told.or(other.told);
        self.limited = self.limited.max(other.limited);
    }

    /// A refusal that says that the window is used up, although hints were obeyed. Too many, and they are not believed.
    pub(in crate::control) fn missed(&mut self, now: Mono) {
        if now.since(self.missed_since) > WATCH {
            self.missed_since = now;
            self.misses = 0;
        }
        self.misses = self.misses.saturating_add(1);
        if self.misses > FALSE_MAX {
            self.distrust(now);
        }
    }

    /// Hints count for nothing from now on, for an hour.
    pub(in crate::control) fn distrust(&mut self, now: Mono) {
        let (told, limited) = (self.told, self.limited);
        *self = Self { distrusted_until: now.after(DISTRUST), told, limited, ..Self::default() };
    }

    /// Hints are believed again, and what was waited for is waited for until `not_before`; false if they were believed.
    pub(in crate::control) fn trust(&mut self, now: Mono, not_before: Mono) -> bool {
        let distrusted = !self.trusted(now);
        if distrusted {
            self.distrusted_until = now;
            self.not_before = self.not_before.max(not_before);
            self.valid_until = self.valid_until.max(not_before);
        }
        distrusted
    }

    /// The rate at most, tokens per second.
    pub(in crate::control) fn rate(&self, now: Mono) -> f64 {
        if now < self.valid_until && self.rate > 0.0 { self.rate } else { f64::INFINITY }
    }

    /// What it lets through of a bucket that uses `effective`, this pace included; `None` = it limits nothing.
    pub(in crate::control) fn limiting(&self, now: Mono, effective: f64) -> Option<Paced> {
        let waits = self.not_before > now;
        (waits || self.rate(now) <= effective).then_some(Paced {
            rate: if waits { 0.0 } else { self.rate },
            left: (self.left >= 0.0).then_some(f64::from(self.left)),
            resets: self.resets,
            until: if waits { self.not_before } else { self.valid_until },
            capped: self.capped,
        })
    }

    /// What is to be told now that it limits as `paced` says: the rates before and after, `None` = no limit.
    pub(in crate::control) fn news(&mut self, now: Mono, paced: Option<&Paced>) -> Option<(Option<f64>, Option<f64>)> {
        if paced.is_some() {
            self.limited = now;
        }
        let before = self.told;
        match (before, paced) {
            (None, Some(paced)) => self.told = Some((paced.rate, now)),
            (Some((told, at)), Some(paced)) => {
                let (low, high) = (told.min(paced.rate), told.max(paced.rate));
                // A pause between two windows is part of the pace.
                if low <= 0.0 || high < 2.0 * low || now.since(at) < QUIET {
                    return None;
                }
                self.told = Some((paced.rate, now));
            }
            (Some(_), None) if now.since(self.limited) >= QUIET => self.told = None,
            (_, None) => return None,
        }
        Some((before.map(|one| one.0), self.told.map(|one| one.0)))
    }

    /// When it ends by itself.
    pub(in crate::control) fn lapses_at(&self) -> Mono {
        if self.rate > 0.0 { self.valid_until } else { Mono::NEVER }
    }

    /// Ends it if its time is over; whether it did.
    pub(in crate::control) fn lapse(&mut self, now: Mono) -> bool {
        let lapsed = self.lapses_at() <= now;
        if lapsed {
            self.rate = 0.0;
        }
        lapsed
    }

    /// As another process left it: no moment lies further off than a header could have put it.
    pub(in crate::control) fn resumed(self, now: Mono, longest: Duration) -> Self {
        let secs = longest.as_secs_f64().max(1.0);
        Self {
            rate: if self.rate.is_finite() && self.rate > 0.0 { self.rate.max(1.0 / secs) } else { 0.0 },
            valid_until: self.valid_until.min(now.after_secs(secs + LINGER)),
            not_before: self.not_before.min(now.after_secs(secs)),
            distrusted_until: self.distrusted_until.min(now.after(DISTRUST)),
            resets: self.resets.min(now.after_secs(RESET_MAX)),
            ..self
        }
    }

    /// No request before.
    pub(in crate::control) fn not_before(&self) -> Mono {
        self.not_before
    }
}
