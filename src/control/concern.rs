//! Concerns: what needs a human, each a pure check with a reason in words and an advice.
//!
//! [`check`] looks at plain [`Facts`] and names the most urgent concern. It keeps no state: a concern is gone
//! as soon as its check says so. Not here: the order of hosts on the screen, and who is told.

use std::time::Duration;

use super::shared::Sign;
use super::{Hold, HoldReason, Mono, Outcome, Override, Pause};

/// The kinds of concern, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConcernKind {
    /// Queued, not held, not paused, and no success for long.
    Stuck,
    /// The host refuses or throttles much of what we send, or asked for a long wait.
    Angry,
    /// Its refusals coincide with another host's: they seem to share one limit.
    SharedLimit,
    /// Links lead on without end: some are held back.
    Trap,
    /// It will end much later than the bulk of the crawl.
    Tail,
    /// An override or pause past its reminder.
    Forgotten,
}

impl ConcernKind {
    /// The word on screens and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stuck => "STUCK",
            Self::Angry => "ANGRY",
            Self::SharedLimit => "SHARED LIMIT",
            Self::Trap => "TRAP",
            Self::Tail => "TAIL",
            Self::Forgotten => "FORGOTTEN",
        }
    }
}

/// What made a check raise its concern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// No success since this moment; the last failure, if there was one.
    NoSuccess {
        /// Last success, or the first request.
        since: Mono,
        /// What the last request ended in.
        last: Option<Outcome>,
    },
    /// So many of so many answers in 5 minutes were throttles or refusals; the commonest status.
    Refusals {
        /// Throttles and refusals.
        count: u32,
        /// All answers.
        of: u32,
        /// The commonest such status.
        status: u16,
    },
    /// The server asked for a wait of 60 s or more.
    LongRetryAfter {
        /// How long.
        asked: Duration,
    },
    /// Blocked after a run of refusals.
    Blocked {
        /// The refusals in a row.
        run: u32,
    },
    /// It seems to share a limit with another host.
    Shares(Sign),
    /// So many URLs are held back.
    HeldBack {
        /// URLs.
        urls: u32,
    },
    /// So many links lead to more hosts of one domain than are taken.
    Beyond {
        /// Links that are left out.
        links: u32,
    },
    /// So much longer than the bulk.
    Later {
        /// This host's own ETA.
        eta: Duration,
    },
    /// Paused since.
    PausedSince(Mono),
    /// Overridden since.
    OverriddenSince(Mono),
}

/// A concern in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Concern {
    /// Which.
    pub kind: ConcernKind,
    /// Since when.
    pub since: Mono,
    /// Why.
    pub evidence: Evidence,
}

impl Concern {
    /// The reason in at most 18 columns.
    pub fn why(&self, now: Mono) -> String {
        let word = self.kind.as_str();
        match self.evidence {
            Evidence::NoSuccess { since, .. } => format!("{word} {} no ok", coarse(now.since(since))),
            Evidence::Refusals { count, status: 0, .. } => format!("{word} ×{}", count.min(MOST_SHOWN)),
            Evidence::Refusals { count, status, .. } => format!("{word} {status} ×{}", count.min(MOST_SHOWN)),
            Evidence::LongRetryAfter { asked } => format!("{word} asks {}", coarse(asked)),
            Evidence::Blocked { run } => format!("{word} block ×{}", run.min(MOST_SHOWN)),
            Evidence::Shares(Sign::Named) => format!("{word} named"),
            Evidence::Shares(Sign::Together(times)) => format!("{word} ×{times}"),
            Evidence::Shares(Sign::OneRate { hundredths }) => format!("{word} {}", per_second(hundredths)),
            Evidence::HeldBack { urls } => format!("{word} {} held", urls.min(MOST_SHOWN)),
            Evidence::Beyond { links } => format!("{word} {} links", links.min(MOST_SHOWN)),
            Evidence::Later { eta } => format!("{word} {} left", coarse(eta)),
            Evidence::PausedSince(since) => format!("{word} paus {}", coarse(now.since(since))),
            Evidence::OverriddenSince(since) => format!("{word} ovrd {}", coarse(now.since(since))),
        }
    }

    /// What a human may do about it, in a sentence. Names no keys: they can be rebound.
    pub const fn advice(&self) -> &'static str {
        match self.evidence {
            Evidence::NoSuccess { last: Some(outcome), .. } if outcome.is_network() => {
                "nothing comes back: see whether the host is reachable from here, else pause it"
            }
            Evidence::NoSuccess { .. } => {
                "it answers, but never with success: look at its codes, pause it if they stay"
            }
            Evidence::Refusals { .. } => {
                "it refuses much of what we send: override with a lower rate, or leave it to adapt"
            }
            Evidence::LongRetryAfter { .. } => "it asked for a long wait: let it wait; waking it early breaks its word",
            Evidence::Blocked { .. } => "it turned us away: pause it and ask its owner, or check user agent and access",
            Evidence::Shares(_) => {
                "it seems to share one limit with another host: let them share a bucket, by `:group`, or group_by in [controller]"
            }
            Evidence::HeldBack { .. } => {
                "its links lead on without end: the log names the pattern; allow it, or exclude it"
            }
            Evidence::Beyond { .. } => {
                "a domain has names without end: the log names it; allow it to have as many hosts again, or exclude it"
            }
            Evidence::Later { .. } => "it ends long after the rest: raise its rate if its owner agrees, or let it run",
            Evidence::PausedSince(_) => "paused long ago: resume it if the reason is gone",
            Evidence::OverriddenSince(_) => "overridden long ago: go back to auto if the reason is gone",
        }
    }

    /// This concern, dated back to `before` if that is the same kind: it has been in force since then.
    pub fn continuing(self, before: Option<&Self>) -> Self {
        let since = before.filter(|before| before.kind == self.kind).map(|before| before.since.min(self.since));
        Self { since: since.unwrap_or(self.since), ..self }
    }
}

/// The largest count that a reason shows.
const MOST_SHOWN: u32 = 9_999;

/// A rate in at most five columns.
fn per_second(hundredths: u32) -> String {
    match f64::from(hundredths) / 100.0 {
        rate if rate < 9.95 => format!("{rate:.1}/s"),
        rate => format!("{:.0}/s", rate.min(999.0)),
    }
}

/// A duration in at most three columns, rounded down: `59s`, `14m`, `3h`, `12d`, `20w`.
fn coarse(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        ..100 => format!("{secs}s"),
        100..6_000 => format!("{}m", secs / 60),
        6_000..360_000 => format!("{}h", secs / 3600),
        360_000..8_640_000 => format!("{}d", secs / 86_400),
        _ => format!("{}w", (secs / 604_800).min(99)),
    }
}

/// When the checks speak up. The defaults are the fields' constants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// STUCK: no success for so long ...
    pub stuck_after: Duration,
    /// ... and for so many intervals of the effective rate.
    pub stuck_intervals: f64,
    /// ANGRY: share of throttles and refusals among the answers of 5 minutes, 0 to 1 ...
    pub angry_share: f64,
    /// ... of at least so many answers.
    pub angry_answers: u32,
    /// ANGRY: the server asked for a wait of so long.
    pub angry_wait: Duration,
    /// TAIL: the ETA is so many times that of the bulk ...
    pub tail_factor: f64,
    /// ... and so much later.
    pub tail_later: Duration,
}

impl Thresholds {
    /// See [`Thresholds::stuck_after`].
    pub const STUCK_AFTER: Duration = Duration::from_secs(5 * 60);
    /// See [`Thresholds::stuck_intervals`].
    pub const STUCK_INTERVALS: f64 = 20.0;
    /// See [`Thresholds::angry_share`].
    pub const ANGRY_SHARE: f64 = 0.2;
    /// See [`Thresholds::angry_answers`].
    pub const ANGRY_ANSWERS: u32 = 5;
    /// See [`Thresholds::angry_wait`].
    pub const ANGRY_WAIT: Duration = Duration::from_secs(60);
    /// See [`Thresholds::tail_factor`].
    pub const TAIL_FACTOR: f64 = 2.0;
    /// See [`Thresholds::tail_later`].
    pub const TAIL_LATER: Duration = Duration::from_secs(10 * 60);
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            stuck_after: Self::STUCK_AFTER,
            stuck_intervals: Self::STUCK_INTERVALS,
            angry_share: Self::ANGRY_SHARE,
            angry_answers: Self::ANGRY_ANSWERS,
            angry_wait: Self::ANGRY_WAIT,
            tail_factor: Self::TAIL_FACTOR,
            tail_later: Self::TAIL_LATER,
        }
    }
}

/// What the checks need to know of one host.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Facts {
    /// URLs queued.
    pub queued: u64,
    /// The hold; counts while `until` is not past.
    pub hold: Option<Hold>,
    /// The operator's pause; counts while `until` is not past.
    pub pause: Option<Pause>,
    /// The operator's override; counts while `until` is not past.
    pub overriding: Option<Override>,
    /// What the controller would use, tokens per second.
    pub adaptive_rate: f64,
    /// What the bucket uses, tokens per second.
    pub rate: f64,
    /// Last success.
    pub last_ok: Option<Mono>,
    /// First request.
    pub first_sent: Option<Mono>,
    /// Since when it has been free to send: the end of its last hold, pause or halt, or when work came to an
    /// empty queue. Patience begins anew then.
    pub free_since: Option<Mono>,
    /// Answers in 5 minutes.
    pub answers: u32,
    /// Throttles and refusals among them.
    pub refusals: u32,
    /// The commonest status of those; 0 = none known.
    pub refusal_status: u16,
    /// Refusals in a row.
    pub refusal_run: u32,
    /// What the last request ended in.
    pub last: Option<Outcome>,
    /// What speaks for a limit that it shares with a host with which it shares no bucket.
    pub sharing: Option<Sign>,
    /// URLs held back because they look like a trap.
    pub held_back: u32,
    /// Links to hosts too many of a domain that are told here.
    pub beyond: u32,
    /// The host's own ETA.
    pub eta: Option<Duration>,
    /// The ETA of the crawl's bulk.
    pub bulk: Option<Duration>,
    /// A pause or override is called to mind after this.
    pub remind_after: Duration,
}

impl Facts {
    fn hold_in_force(&self, now: Mono) -> Option<Hold> {
        self.hold.filter(|hold| hold.until > now)
    }

    fn pause_in_force(&self, now: Mono) -> Option<Pause> {
        self.pause.filter(|pause| pause.until.is_none_or(|until| until > now))
    }

    fn override_in_force(&self, now: Mono) -> Option<Override> {
        self.overriding.filter(|overriding| overriding.until.is_none_or(|until| until > now))
    }
}

/// The most urgent concern about a host, if any, in the order of [`ConcernKind`].
pub fn check(now: Mono, facts: &Facts, thresholds: &Thresholds) -> Option<Concern> {
    stuck(now, facts, thresholds)
        .or_else(|| angry(now, facts, thresholds))
        .or_else(|| shared_limit(now, facts))
        .or_else(|| trap(now, facts))
        .or_else(|| tail(now, facts, thresholds))
        .or_else(|| forgotten(now, facts))
}

/// Queued, neither held nor paused, and no success for long. A host that was never asked is not stuck: it waits.
fn stuck(now: Mono, facts: &Facts, thresholds: &Thresholds) -> Option<Concern> {
    if facts.queued == 0 || facts.hold_in_force(now).is_some() || facts.pause_in_force(now).is_some() {
        return None;
    }
    let since = facts.last_ok.or(facts.first_sent)?;
    // At rate 0 this is infinite, and so is the patience.
    let intervals = thresholds.stuck_intervals / facts.rate.max(0.0);
    let patience = thresholds.stuck_after.max(Duration::try_from_secs_f64(intervals).unwrap_or(Duration::MAX));
    let from = since.max(facts.free_since.unwrap_or(since)).after(patience);
    (from <= now && from != Mono::NEVER).then_some(Concern {
        kind: ConcernKind::Stuck,
        since: from,
        evidence: Evidence::NoSuccess { since, last: facts.last },
    })
}

/// Blocked, asked to wait for long, or refused and throttled much of the time.
fn angry(now: Mono, facts: &Facts, thresholds: &Thresholds) -> Option<Concern> {
    let (since, evidence) = match facts.hold_in_force(now) {
        Some(Hold { reason: HoldReason::Refused, since, .. }) => (since, Evidence::Blocked { run: facts.refusal_run }),
        Some(Hold { reason: HoldReason::RetryAfter { asked, .. }, since, .. }) if asked >= thresholds.angry_wait => {
            (since, Evidence::LongRetryAfter { asked })
        }
        Some(_) | None => {
            let many = facts.answers >= thresholds.angry_answers.max(1);
            if !many || f64::from(facts.refusals) < f64::from(facts.answers) * thresholds.angry_share {
                return None;
            }
            (now, Evidence::Refusals { count: facts.refusals, of: facts.answers, status: facts.refusal_status })
        }
    };
    Some(Concern { kind: ConcernKind::Angry, since, evidence })
}

/// It seems to share its limit.
fn shared_limit(now: Mono, facts: &Facts) -> Option<Concern> {
    let evidence = Evidence::Shares(facts.sharing?);
    Some(Concern { kind: ConcernKind::SharedLimit, since: now, evidence })
}

/// Links lead on without end.
fn trap(now: Mono, facts: &Facts) -> Option<Concern> {
    let evidence = match (facts.held_back, facts.beyond) {
        (0, 0) => return None,
        (0, links) => Evidence::Beyond { links },
        (urls, _) => Evidence::HeldBack { urls },
    };
    Some(Concern { kind: ConcernKind::Trap, since: now, evidence })
}

/// Ends much later than the bulk.
fn tail(now: Mono, facts: &Facts, thresholds: &Thresholds) -> Option<Concern> {
    let (eta, bulk) = facts.eta.zip(facts.bulk)?;
    let much = eta.as_secs_f64() > bulk.as_secs_f64() * thresholds.tail_factor;
    let later = eta.saturating_sub(bulk) > thresholds.tail_later;
    (facts.queued > 0 && much && later).then_some(Concern {
        kind: ConcernKind::Tail,
        since: now,
        evidence: Evidence::Later { eta },
    })
}

/// A pause past its reminder, or an override that slows the host or has no end.
fn forgotten(now: Mono, facts: &Facts) -> Option<Concern> {
    let pause = facts.pause_in_force(now).map(|pause| (pause.since, Evidence::PausedSince(pause.since)));
    let overriding = facts
        .override_in_force(now)
        .filter(|one| one.until.is_none() || one.rate.is_some_and(|rate| rate < facts.adaptive_rate))
        .map(|one| (one.since, Evidence::OverriddenSince(one.since)));
    let due = |(set, _): &(Mono, Evidence)| set.after(facts.remind_after) <= now;
    let (set, evidence) = pause.filter(due).or_else(|| overriding.filter(due))?;
    Some(Concern { kind: ConcernKind::Forgotten, since: set.after(facts.remind_after), evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Mono {
        Mono::from_nanos(secs * 1_000_000_000)
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// A host at 1/s that works: 100 queued, success a second ago.
    fn healthy(now: Mono) -> Facts {
        Facts {
            queued: 100,
            rate: 1.0,
            adaptive_rate: 1.0,
            last_ok: Some(now.before(secs(1))),
            first_sent: Some(Mono::ZERO),
            answers: 100,
            remind_after: secs(3600),
            ..Facts::default()
        }
    }

    fn kind(now: Mono, facts: &Facts) -> Option<ConcernKind> {
        check(now, facts, &Thresholds::default()).map(|concern| concern.kind)
    }

    fn hold(reason: HoldReason, until: Mono) -> Option<Hold> {
        Some(Hold { until, since: at(9_000), reason })
    }

    #[test]
    fn a_host_that_works_is_no_concern() {
        assert_eq!(kind(at(10_000), &healthy(at(10_000))), None);
        assert_eq!(kind(at(10_000), &Facts::default()), None);
    }

    #[test]
    fn stuck_is_no_success_for_five_minutes_and_twenty_intervals() {
        let now = at(10_000);
        let stuck = Facts { last_ok: Some(now.before(secs(300))), ..healthy(now) };
        assert_eq!(kind(now, &stuck), Some(ConcernKind::Stuck));
        assert_eq!(kind(now.before(secs(1)), &stuck), None);
        let slow = Facts { rate: 0.01, ..stuck };
        assert_eq!(kind(at(11_699), &slow), None, "20 intervals of 100 s are not over");
        assert_eq!(kind(at(11_700), &slow), Some(ConcernKind::Stuck));
        for calm in [
            Facts { queued: 0, ..stuck },
            Facts { hold: hold(HoldReason::Throttled, at(10_001)), ..stuck },
            Facts { pause: Some(Pause { since: at(9_990), until: None }), ..stuck },
            Facts { free_since: Some(at(9_800)), ..stuck },
            Facts { last_ok: None, first_sent: None, ..stuck },
            Facts { rate: 0.0, ..stuck },
        ] {
            assert_eq!(kind(now, &calm), None, "{calm:?}");
        }
        let never = Facts { last_ok: None, ..stuck };
        assert_eq!(kind(now, &never), Some(ConcernKind::Stuck), "asked since the start, never a success");
        let over = Facts { hold: hold(HoldReason::Throttled, now), ..stuck };
        assert_eq!(kind(now, &over), Some(ConcernKind::Stuck), "a hold that is over holds nothing");
    }

    #[test]
    fn angry_is_a_share_of_refusals_a_long_wait_or_a_block() {
        let now = at(10_000);
        let share = |answers, refusals| Facts { answers, refusals, refusal_status: 429, ..healthy(now) };
        assert_eq!(kind(now, &share(100, 20)), Some(ConcernKind::Angry));
        assert_eq!(kind(now, &share(100, 19)), None);
        assert_eq!(kind(now, &share(4, 4)), None, "too few to say");
        assert_eq!(kind(now, &share(5, 1)), Some(ConcernKind::Angry));
        let asked = |secs| HoldReason::RetryAfter { asked: Duration::from_secs(secs), capped: false };
        let waits = |secs, until| Facts { hold: hold(asked(secs), until), ..healthy(now) };
        assert_eq!(kind(now, &waits(60, at(10_001))), Some(ConcernKind::Angry));
        assert_eq!(kind(now, &waits(59, at(10_001))), None);
        assert_eq!(kind(now, &waits(60, at(10_000))), None, "over");
        let blocked = Facts { hold: hold(HoldReason::Refused, at(20_000)), refusal_run: 3, ..healthy(now) };
        let concern = check(now, &blocked, &Thresholds::default()).expect("blocked");
        assert_eq!((concern.evidence, concern.since), (Evidence::Blocked { run: 3 }, at(9_000)));
    }

    #[test]
    fn tail_is_much_later_than_the_bulk() {
        let now = at(10_000);
        let host = |eta, bulk| Facts { eta: Some(secs(eta)), bulk: Some(secs(bulk)), ..healthy(now) };
        assert_eq!(kind(now, &host(10_000, 4_999)), Some(ConcernKind::Tail));
        assert_eq!(kind(now, &host(10_000, 5_000)), None, "not more than twice");
        assert_eq!(kind(now, &host(700, 100)), None, "not more than ten minutes");
        assert_eq!(kind(now, &Facts { bulk: None, ..host(10_000, 1) }), None, "unknown");
    }

    #[test]
    fn a_trap_is_a_concern_as_long_as_something_is_held_back() {
        let now = at(10_000);
        let trapped = Facts { held_back: 1, ..healthy(now) };
        assert_eq!(kind(now, &trapped), Some(ConcernKind::Trap));
        assert_eq!(kind(now, &Facts { held_back: 0, ..trapped }), None);
        let evidence = |facts: &Facts| check(now, facts, &Thresholds::default()).map(|concern| concern.evidence);
        let names = Facts { beyond: 3, ..healthy(now) };
        assert_eq!(evidence(&names), Some(Evidence::Beyond { links: 3 }));
        assert_eq!(evidence(&Facts { beyond: 3, ..trapped }), Some(Evidence::HeldBack { urls: 1 }));
        let angry = Facts { answers: 10, refusals: 10, ..trapped };
        assert_eq!(kind(now, &angry), Some(ConcernKind::Angry));
    }

    #[test]
    fn a_shared_limit_is_less_than_anger_and_more_than_a_trap() {
        let now = at(10_000);
        let shared = Facts { sharing: Some(Sign::Together(4)), held_back: 1, ..healthy(now) };
        assert_eq!(kind(now, &shared), Some(ConcernKind::SharedLimit));
        assert_eq!(kind(now, &Facts { sharing: None, ..shared }), Some(ConcernKind::Trap));
        assert_eq!(kind(now, &Facts { answers: 10, refusals: 10, ..shared }), Some(ConcernKind::Angry));
    }

    #[test]
    fn forgotten_is_a_pause_or_a_slowing_override_past_its_reminder() {
        let now = at(10_000);
        let paused = |since, until| Facts { pause: Some(Pause { since: at(since), until }), ..healthy(now) };
        assert_eq!(kind(now, &paused(6_400, None)), Some(ConcernKind::Forgotten));
        assert_eq!(kind(now, &paused(6_401, None)), None);
        assert_eq!(kind(now, &paused(1, Some(at(9_999)))), None, "ended by itself");
        let set = |rate, until| Override { rate: Some(rate), capacity: None, since: at(1_000), until };
        let over = |rate, until| Facts { overriding: Some(set(rate, until)), ..healthy(now) };
        assert_eq!(kind(now, &over(0.5, Some(at(20_000)))), Some(ConcernKind::Forgotten));
        assert_eq!(kind(now, &over(5.0, Some(at(20_000)))), None, "faster, and lapses by itself");
        assert_eq!(kind(now, &over(5.0, None)), Some(ConcernKind::Forgotten));
    }

    #[test]
    fn the_most_urgent_concern_wins_and_keeps_its_date() {
        let now = at(10_000);
        let both = Facts { last_ok: Some(at(1)), answers: 10, refusals: 10, ..healthy(now) };
        assert_eq!(kind(now, &both), Some(ConcernKind::Stuck));
        let angry = Facts { last_ok: Some(now), ..both };
        let before = check(now, &angry, &Thresholds::default()).expect("angry");
        let later = check(at(10_100), &angry, &Thresholds::default()).expect("angry still");
        assert_eq!(later.continuing(Some(&before)).since, now);
        assert_eq!(later.continuing(None).since, at(10_100));
        let stuck = check(now, &both, &Thresholds::default()).expect("stuck");
        assert_eq!(later.continuing(Some(&stuck)).since, at(10_100), "another kind begins anew");
    }

    #[test]
    fn the_reason_is_short_and_the_advice_is_there() {
        let evidence = |count, status| Evidence::Refusals { count, of: count, status };
        let table = [
            (ConcernKind::Stuck, Evidence::NoSuccess { since: at(60), last: None }, "STUCK 14m no ok"),
            (ConcernKind::Angry, evidence(16, 429), "ANGRY 429 ×16"),
            (ConcernKind::Angry, evidence(u32::MAX, 0), "ANGRY ×9999"),
            (ConcernKind::Angry, Evidence::LongRetryAfter { asked: secs(7_200) }, "ANGRY asks 2h"),
            (ConcernKind::Angry, Evidence::Blocked { run: u32::MAX }, "ANGRY block ×9999"),
            (ConcernKind::SharedLimit, Evidence::Shares(Sign::Together(u8::MAX)), "SHARED LIMIT ×255"),
            (ConcernKind::SharedLimit, Evidence::Shares(Sign::Named), "SHARED LIMIT named"),
            (ConcernKind::SharedLimit, Evidence::Shares(Sign::OneRate { hundredths: 398 }), "SHARED LIMIT 4.0/s"),
            (ConcernKind::SharedLimit, Evidence::Shares(Sign::OneRate { hundredths: u32::MAX }), "SHARED LIMIT 999/s"),
            (ConcernKind::Trap, Evidence::HeldBack { urls: u32::MAX }, "TRAP 9999 held"),
            (ConcernKind::Trap, Evidence::Beyond { links: u32::MAX }, "TRAP 9999 links"),
            (ConcernKind::Tail, Evidence::Later { eta: Duration::MAX }, "TAIL 99w left"),
            (ConcernKind::Forgotten, Evidence::PausedSince(at(0)), "FORGOTTEN paus 15m"),
            (ConcernKind::Forgotten, Evidence::OverriddenSince(at(890)), "FORGOTTEN ovrd 10s"),
        ];
        for (kind, evidence, why) in table {
            let concern = Concern { kind, since: at(0), evidence };
            assert_eq!(concern.why(at(900)), why);
            assert!(concern.why(at(u32::MAX.into())).chars().count() <= 18);
            assert!(!concern.advice().is_empty() && !concern.advice().ends_with('.'));
        }
    }
}
