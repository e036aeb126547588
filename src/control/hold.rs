//! Holds of one host: when it may send again, the one probe that ends a hold, and what answers mean.
//!
//! A hold begins with a throttle, a run of refusals, connection trouble, or unreachable robots.txt.
//! Nothing shortens it but the operator's wake. When it runs out exactly one probe goes out, and the
//! host opens on any answer that is no throttle, refusal or connection trouble. Answers to requests
//! sent before the hold began can lengthen it (a longer Retry-After), never deepen or open it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::adaptive::Wait;
use super::backoff::{self, Jitter, NoJitter};
use super::{Answer, BackoffPolicy, Hold, HoldReason, Mono, Outcome, Verdict};

/// The least hold after a throttle (the mission's rule).
pub const THROTTLE_HOLD_MIN: Duration = Duration::from_secs(5);
/// The first hold after a run of refusals; doubles to [`REFUSED_HOLD_MAX`].
pub const REFUSED_HOLD_MIN: Duration = Duration::from_secs(5 * 60);
/// The longest hold after a run of refusals.
pub const REFUSED_HOLD_MAX: Duration = Duration::from_secs(30 * 60);
/// The first hold after a failed TLS handshake: a certificate does not mend itself in seconds.
pub const TLS_HOLD_MIN: Duration = Duration::from_secs(60);
/// The longest hold after failed TLS handshakes.
pub const TLS_HOLD_MAX: Duration = Duration::from_secs(3600);
/// The first hold after a bare throttle whose headers say that requests are left (see [`Hint::secondary`]); doubles to
/// [`SECONDARY_HOLD_MAX`].
///
/// [`Hint::secondary`]: super::Hint::secondary
pub const SECONDARY_HOLD_MIN: Duration = Duration::from_secs(60);
/// The longest of those.
pub const SECONDARY_HOLD_MAX: Duration = Duration::from_secs(3600);
/// 403/401 in a row, after an earlier success, that count as a refusal.
pub const REFUSED_RUN: u16 = 3;
/// Successes after a hold that make the next backoff start from `base` again.
const CALM: u8 = 10;

/// Whether a host may send, as far as holds go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    /// No hold.
    Open,
    /// Not before this moment.
    Until(Mono),
    /// The hold has run out: one probe may go.
    ProbeDue,
    /// The probe is out; nothing else may go before this moment. [`Mono::NEVER`] = before it is answered.
    Probing(Mono),
}

/// What an answer did to the holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Ruling {
    /// What the request ended in.
    pub(super) outcome: Outcome,
    /// Whether it was the probe.
    pub(super) probe: bool,
    /// A new incident began with it, or the probe found that the old one lasts.
    pub(super) fresh: bool,
    /// The hold before and the new one, where one began or grew.
    pub(super) held: Option<(Option<Hold>, Hold)>,
    /// The probe opened the host.
    pub(super) opened: bool,
    /// It was refused by a limit beside the one that its headers tell of.
    pub(super) secondary: bool,
}

/// Where throttles, and what servers ask to wait, are waited out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// In this very hold.
    Here,
    /// In that of the group: here counts only what is the host's own, such as connection trouble.
    Elsewhere,
}

/// What an answer is judged by.
pub(super) struct Terms<'a> {
    /// The wait that the rate's controller wants after a throttle, if it is to decide that.
    pub(super) pause: Option<Wait>,
    /// The answer's headers say that its window is used up.
    pub(super) exhausted: bool,
    /// They are those of a service with a second limit, and say that requests are left.
    pub(super) secondary: bool,
    /// Where it is waited out.
    pub(super) waits: Waits,
    /// Our own backoff.
    pub(super) policy: &'a BackoffPolicy,
}

/// State of the holds of one host, or of a group of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Holding {
    hold: Option<Hold>,
    probe: Option<Mono>,
    throttles: u8,
    refusals: u8,
    troubles: u8,
    calm: u8,
    run: u16,
    succeeded: bool,
    blocked: bool,
    /// After so long without an answer the probe counts as taken, where a throttle is all that was waited out.
    patience: Option<Duration>,
    refusing_since: Option<Mono>,
    unreachable_since: Option<Mono>,
}

impl Holding {
    /// The hold, also one that has run out and waits for its probe.
    pub(super) fn hold(&self) -> Option<Hold> {
        self.hold
    }

    /// 403/401 in a row so far.
    pub(super) fn refused_run(&self) -> u16 {
        self.run
    }

    /// As another process goes on with it at `now`: the probe that was out is lost, and no hold lasts longer than
    /// `longest` from now, however it was persisted.
    pub(super) fn resumed(mut self, now: Mono, longest: Duration) -> Self {
        self.probe = None;
        if let Some(hold) = &mut self.hold {
            hold.until = hold.until.min(now.after(longest));
            hold.since = hold.since.min(now);
        }
        self
    }

    /// Whether the hold is about refusals (403/401).
    pub(super) fn blocked(&self) -> bool {
        self.blocked
    }

    /// Since when the host has answered nothing but refusals.
    pub(super) fn refusing_since(&self) -> Option<Mono> {
        self.refusing_since
    }

    /// Since when robots.txt could not be had, without an answer to anything else meanwhile.
    pub(super) fn unreachable_since(&self) -> Option<Mono> {
        self.unreachable_since
    }

    /// robots.txt is there (again).
    pub(super) fn reachable(&mut self) {
        self.unreachable_since = None;
    }

    /// Whether the host may send at `now`.
    pub(super) fn gate(&self, now: Mono) -> Gate {
        match (self.hold, self.probe) {
            (None, _) => Gate::Open,
            (Some(hold), _) if hold.until > now => Gate::Until(hold.until),
            (Some(_), None) => Gate::ProbeDue,
            (Some(hold), Some(sent)) => match self.taken_at(&hold, sent) {
                at if at <= now => Gate::Open,
                at => Gate::Probing(at),
            },
        }
    }

    /// When a probe that was sent at `sent` counts as taken although it is not answered: a server says no faster
    /// than yes, and where answers take seconds each wait for one would cost more than the refusal did.
    fn taken_at(&self, hold: &Hold, sent: Mono) -> Mono {
        match (self.patience, hold.reason) {
            (Some(patience), HoldReason::Throttled | HoldReason::RetryAfter { .. }) if !self.blocked => {
                sent.after(patience)
            }
            _ => Mono::NEVER,
        }
    }

    /// A request goes out at `now`; under a hold that has run out it is the probe.
    pub(super) fn on_send(&mut self, now: Mono) -> bool {
        if self.probe.is_some() && self.gate(now) == Gate::Open {
            // The probe counts as taken. Its answer will be one among others.
            self.hold = None;
            self.probe = None;
        }
        if self.hold.is_some() {
            self.probe = Some(now);
        }
        self.hold.is_some()
    }

    /// The request sent at `sent` did not go out after all, or nobody worked on it.
    pub(super) fn on_cancel(&mut self, sent: Mono) {
        if self.probe == Some(sent) {
            self.probe = None;
        }
    }

    /// Holds the host until `until`, since a robots.txt of its cannot be had.
    pub(super) fn robots_unreachable(&mut self, now: Mono, until: Mono) -> Option<(Option<Hold>, Hold)> {
        self.unreachable_since.get_or_insert(now);
        self.raise(now, until, HoldReason::RobotsUnreachable, true)
    }

    /// The hold is over and nothing has to be probed: somebody else has taken it over.
    pub(super) fn hand_over(&mut self) {
        self.hold = None;
        self.probe = None;
        self.blocked = false;
    }

    /// The operator's wake: the hold runs out now; its probe goes first.
    pub(super) fn wake(&mut self, now: Mono) -> Option<Hold> {
        let hold = self.hold.filter(|hold| hold.until > now)?;
        self.hold = Some(Hold { until: now, ..hold });
        Some(hold)
    }

    /// Undoes a wake: the hold stands again as it was, unless the host has opened since.
    pub(super) fn restore(&mut self, now: Mono, hold: Hold) -> bool {
        let restored = hold.until > now && self.hold.is_some_and(|current| current.until < hold.until);
        if restored {
            self.hold = Some(hold);
        }
        restored
    }

    /// What `answer` means, given this host's past.
    pub(super) fn on_answer(
        &mut self,
        now: Mono,
        answer: &Answer,
        terms: &Terms<'_>,
        jitter: &mut dyn Jitter,
    ) -> Ruling {
        let probe = self.probe == Some(answer.sent);
        let news = self.is_news(answer.sent);
        let outcome = self.classify(answer, terms, probe, news);
        self.on_judged(now, answer, outcome, terms, jitter)
    }

    /// The same for an answer that is judged to be `outcome` already: by a member, for its group.
    pub(super) fn on_judged(
        &mut self,
        now: Mono,
        answer: &Answer,
        outcome: Outcome,
        terms: &Terms<'_>,
        jitter: &mut dyn Jitter,
    ) -> Ruling {
        self.count(outcome, now, answer.verdict);
        self.rule(now, answer, outcome, terms, jitter)
    }

    /// Whether the request sent at `sent` is the probe that is out.
    pub(super) fn is_probe(&self, sent: Mono) -> bool {
        self.probe == Some(sent)
    }

    /// Whether an answer to a request sent at `sent` tells something new: one to a request from before the hold tells
    /// of the incident that the hold is about.
    fn is_news(&self, sent: Mono) -> bool {
        self.probe == Some(sent) || self.hold.is_none_or(|hold| sent > hold.since)
    }

    /// What `outcome` does to the hold.
    fn rule(
        &mut self,
        now: Mono,
        answer: &Answer,
        outcome: Outcome,
        terms: &Terms<'_>,
        jitter: &mut dyn Jitter,
    ) -> Ruling {
        let policy = terms.policy;
        self.patience = terms.pause.and_then(|pause| pause.patience);
        let pause = terms.pause.map(|pause| pause.secs);
        let probe = self.probe == Some(answer.sent);
        let news = self.is_news(answer.sent);
        if probe {
            self.probe = None;
        }
        let before = self.hold;
        // What the group waits out is not the host's own.
        let elsewhere = |outcome| terms.waits == Waits::Elsewhere && outcome == Outcome::Throttled;
        let asked = answer.retry_after.filter(|_| terms.waits == Waits::Here);
        let own = self.own_wait(outcome, pause, policy).filter(|_| news && !answer.unprocessed && !elsewhere(outcome));
        let secondary = terms.secondary && outcome == Outcome::Throttled && own.is_some();
        let least = doubled(SECONDARY_HOLD_MIN, self.throttles, SECONDARY_HOLD_MAX).min(policy.retry_after_max);
        let own = own.map(|own| if secondary { own.max(least) } else { own });
        if own.is_some() {
            self.deepen(outcome);
        }
        // An older request's answer may have lengthened the hold while the probe was out: that stands.
        let over = self.hold.is_none_or(|hold| hold.until <= now);
        let opened = probe && over && own.is_none() && !answer.unprocessed && outcome != Outcome::Local;
        if opened {
            self.hold = None;
            self.blocked = false;
        }
        let spread = match own {
            Some(own) if pause.is_some() && outcome == Outcome::Throttled => policy.jitter.min(own / 2),
            _ => policy.jitter,
        };
        let spread = spread.mul_f64(jitter.unit().clamp(0.0, 1.0));
        // Retry-After is a floor under our own wait, on any status; jitter only ever comes on top.
        let wait = match (own, asked.map(|asked| server_asked(asked, policy))) {
            (None, None) => None,
            (own, Some((granted, reason))) => Some((own.unwrap_or_default().max(granted), reason)),
            (Some(own), None) => Some((own, own_reason(outcome))),
        };
        if let Some((wait, reason)) = wait {
            self.raise(now, now.after(wait).after(spread), reason, news);
        }
        let held = match (before, self.hold) {
            (before, Some(after)) if before.is_none_or(|before| before.until < after.until) => Some((before, after)),
            _ => None,
        };
        Ruling { outcome, probe, fresh: own.is_some(), held, opened: opened && self.hold.is_none(), secondary }
    }

    /// A hold that another holding had comes on top of this one: it lasts as long, for the same reason. Tells the hold
    /// before and the new one if that changed anything.
    pub(super) fn take_over(&mut self, now: Mono, other: &Self) -> Option<(Option<Hold>, Hold)> {
        let hold = other.hold.filter(|hold| hold.until > now)?;
        self.throttles = self.throttles.max(other.throttles);
        self.blocked |= other.blocked;
        self.raise(now, hold.until, hold.reason, false)
    }

    /// Whether the hold in force is one that a whole group waits out: a throttle's, or what a server asked for.
    pub(super) fn is_shared(&self) -> bool {
        self.hold.is_some_and(|hold| matches!(hold.reason, HoldReason::Throttled | HoldReason::RetryAfter { .. }))
    }

    /// The head of the response to the request sent at `sent` asks for a wait: the host waits from `now` on. What
    /// the answer means is judged when it is whole.
    pub(super) fn on_asked(
        &mut self,
        now: Mono,
        sent: Mono,
        asked: Duration,
        policy: &BackoffPolicy,
        jitter: &mut dyn Jitter,
    ) -> Option<(Option<Hold>, Hold)> {
        let news = self.is_news(sent);
        let (granted, reason) = server_asked(asked, policy);
        let spread = policy.jitter.mul_f64(jitter.unit().clamp(0.0, 1.0));
        self.raise(now, now.after(granted).after(spread), reason, news)
    }

    fn classify(&mut self, answer: &Answer, terms: &Terms<'_>, probe: bool, news: bool) -> Outcome {
        let status = match answer.verdict {
            Verdict::Failed(outcome) => return outcome,
            Verdict::Status(status) => status,
        };
        match status {
            // Some say so with 403: the window is used up, or there is a wait (a limit on bursts).
            403 if terms.exhausted || answer.retry_after.is_some() => Outcome::Throttled,
            401 | 403 => {
                if news {
                    self.run = self.run.saturating_add(1);
                }
                if probe || self.blocked || (self.run >= REFUSED_RUN && self.succeeded) {
                    Outcome::Refused
                } else {
                    Outcome::ClientError
                }
            }
            429 => Outcome::Throttled,
            503 if answer.retry_after.is_some() => Outcome::Throttled,
            200..300 => Outcome::Ok,
            304 => Outcome::NotModified,
            300..400 => Outcome::Redirect,
            400..500 => Outcome::ClientError,
            _ => Outcome::ServerError,
        }
    }

    /// Keeps the runs: of refusals, of trouble, of calm.
    fn count(&mut self, outcome: Outcome, now: Mono, verdict: Verdict) {
        let Verdict::Status(status) = verdict else { return };
        self.troubles = 0;
        match outcome {
            Outcome::Throttled | Outcome::Refused => {
                self.refusing_since.get_or_insert(now);
            }
            Outcome::Ok | Outcome::NotModified => {
                self.refusing_since = None;
                self.succeeded = true;
                self.run = 0;
                self.refusals = 0;
                self.calm = self.calm.saturating_add(1);
                if self.calm >= CALM {
                    self.throttles = 0;
                }
            }
            _ => {
                self.refusing_since = None;
                if !matches!(status, 401 | 403) {
                    self.run = 0;
                }
            }
        }
    }

    /// Our own wait after `outcome`, before this incident deepens it.
    fn own_wait(&self, outcome: Outcome, pause: Option<f64>, policy: &BackoffPolicy) -> Option<Duration> {
        match outcome {
            Outcome::Throttled if pause.is_some() => {
                pause.map(|secs| Duration::try_from_secs_f64(secs).unwrap_or(policy.max).min(policy.max))
            }
            Outcome::Throttled => {
                Some(backoff::delay(policy, u32::from(self.throttles), &mut NoJitter).max(THROTTLE_HOLD_MIN))
            }
            Outcome::Refused => Some(doubled(REFUSED_HOLD_MIN, self.refusals, REFUSED_HOLD_MAX)),
            Outcome::Tls => Some(doubled(TLS_HOLD_MIN, self.troubles, TLS_HOLD_MAX)),
            Outcome::Connect | Outcome::Dns | Outcome::ConnectionReset | Outcome::Timeout => {
                Some(backoff::delay(policy, u32::from(self.troubles), &mut NoJitter))
            }
            _ => None,
        }
    }

    /// The next wait of this kind will be longer.
    fn deepen(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Throttled => {
                self.throttles = self.throttles.saturating_add(1);
                self.calm = 0;
            }
            Outcome::Refused => {
                self.refusals = self.refusals.saturating_add(1);
                self.blocked = true;
            }
            _ => self.troubles = self.troubles.saturating_add(1),
        }
    }

    /// Lengthens the hold to `until`, never shortens it; `anew` starts a new incident. A server's own
    /// word stays the reason as long as the hold lasts, so that only a confirmed wake can end it.
    fn raise(&mut self, now: Mono, until: Mono, reason: HoldReason, anew: bool) -> Option<(Option<Hold>, Hold)> {
        let before = self.hold;
        let hold = match before {
            Some(old) => {
                let running = old.until > now;
                let reason = if running && (old.reason.server_asked() || old.until >= until) && !reason.server_asked() {
                    old.reason
                } else {
                    reason
                };
                Hold { until: old.until.max(until), since: if anew { now } else { old.since }, reason }
            }
            None => Hold { until, since: now, reason },
        };
        self.hold = Some(hold);
        (before.is_none_or(|before| before.until < hold.until)).then_some((before, hold))
    }
}

/// The wait that is granted to a server that asks for one, and the reason of the hold.
fn server_asked(asked: Duration, policy: &BackoffPolicy) -> (Duration, HoldReason) {
    let granted = asked.min(policy.retry_after_max);
    (granted, HoldReason::RetryAfter { asked, capped: granted < asked })
}

/// The reason of a hold that only we wanted.
fn own_reason(outcome: Outcome) -> HoldReason {
    match outcome {
        Outcome::Throttled => HoldReason::Throttled,
        Outcome::Refused => HoldReason::Refused,
        other => HoldReason::Network(other),
    }
}

/// `first · 2^n`, at most `most`.
fn doubled(first: Duration, n: u8, most: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(u32::from(n)).unwrap_or(u32::MAX)).min(most)
}
