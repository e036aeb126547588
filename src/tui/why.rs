//! The column WHY: what a host's row says about itself, most urgent first.
//!
//! Words of our own and figures only, so the text is always safe to show.

use std::time::Duration;

use crate::clock::Wall;
use crate::control::{Concern, ConcernKind, Evidence, HoldReason, HostView, Limiting, Mono, Outcome};

use super::format::{age, asked, rate};

/// What a row says: its concern, pause, override, hold and limiting cause, joined by `dot`, as far as
/// they apply. The first part fits 15 columns; a narrow table shows little more than that.
pub fn why(view: &HostView, now: Mono, wall: Wall, dot: &str, times: &str) -> String {
    let mut parts = Vec::new();
    if let Some(concern) = view.concern {
        parts.push(concern_words(&concern, now, times));
    }
    let forgotten = |kind| view.concern.is_some_and(|concern| concern.kind == ConcernKind::Forgotten && kind);
    if let Some(pause) = view.pause {
        if !forgotten(matches!(view.concern.map(|c| c.evidence), Some(Evidence::PausedSince(_)))) {
            parts.push(format!("PAUSED you {}", age(now.since(pause.since))));
        }
        if let Some(until) = pause.until {
            parts.push(format!("{} left", age(until.since(now))));
        }
    }
    if let Some(overriding) = view.overriding {
        parts.push(match overriding.until {
            Some(until) => format!("OVERRIDE {} left", age(until.since(now))),
            None => format!("OVERRIDE {}", age(now.since(overriding.since))),
        });
    }
    let held = view.hold.filter(|hold| hold.until > now);
    if let Some(hold) = held {
        parts.push(hold_words(hold.reason));
        if view.limiting == Limiting::Held {
            let until = wall.after(hold.until.since(now));
            parts.push(format!("until {}", until.time_of_day()));
        }
    }
    if let Some(words) = limiting_words(view, held.is_some()) {
        parts.push(words);
    }
    if view.cold && view.requests > 0 && view.overriding.is_none() {
        parts.push(String::from("cold start"));
    }
    parts.join(&format!(" {dot} "))
}

/// A concern in a few words.
fn concern_words(concern: &Concern, now: Mono, times: &str) -> String {
    let word = concern.kind.as_str();
    match concern.evidence {
        Evidence::NoSuccess { since, last } => match last {
            Some(outcome) => format!("{word} {} no ok, {}", age(now.since(since)), outcome_words(outcome)),
            None => format!("{word} {} no ok", age(now.since(since))),
        },
        Evidence::Refusals { count, of, status } => format!("{word} {status} {times}{count} of {of}"),
        Evidence::LongRetryAfter { asked: wait } => format!("{word} asked {}", asked(wait)),
        Evidence::Blocked { run } => format!("{word} blocked {times}{run}"),
        Evidence::Later { eta } => format!("{word} {} left", age(eta)),
        Evidence::PausedSince(since) => format!("{word} pause {}", age(now.since(since))),
        Evidence::OverriddenSince(since) => format!("{word} override {}", age(now.since(since))),
    }
}

/// A hold's reason in a few words.
fn hold_words(reason: HoldReason) -> String {
    match reason {
        HoldReason::RetryAfter { asked: wait, capped: false } => format!("Retry-After {}", asked(wait)),
        HoldReason::RetryAfter { asked: wait, capped: true } => format!("Retry-After capped from {}", asked(wait)),
        HoldReason::Throttled => String::from("429, backing off"),
        HoldReason::Refused => String::from("403, backing off"),
        HoldReason::Network(outcome) => format!("{}, backing off", outcome_words(outcome)),
        HoldReason::RobotsUnreachable => String::from("robots.txt out of reach"),
    }
}

/// The limiting cause, unless another part has said it already.
fn limiting_words(view: &HostView, held: bool) -> Option<String> {
    Some(match view.limiting {
        Limiting::Held if held => return None,
        Limiting::Held => String::from("hold over"),
        Limiting::Paused if view.pause.is_some() => return None,
        Limiting::Paused => String::from("PAUSED you"),
        Limiting::NoTokens if view.limiting_lane > 0 => format!("no tokens, endpoint {}", view.limiting_lane),
        Limiting::NoTokens => String::from("no tokens"),
        Limiting::RobotsDelay => match view.crawl_delay {
            Some((delay, capped)) => {
                format!("robots delay {}{}", seconds(delay), if capped { ", capped" } else { "" })
            }
            None => String::from("robots delay"),
        },
        Limiting::RobotsPending => String::from("asks robots.txt"),
        Limiting::Halted => String::from("crawl halted"),
        Limiting::Connections => String::from("all connections busy"),
        Limiting::NothingQueued => String::from("nothing queued"),
        Limiting::RequestLimit => String::from("request limit"),
        Limiting::GlobalRate => String::from("global rate"),
    })
}

/// Seconds, with a fraction only where there is one.
fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} s", rate(duration.as_secs_f64()))
    }
}

/// An outcome in words a person would use.
fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::NotModified => "304",
        Outcome::Redirect => "redirect",
        Outcome::ClientError => "4xx",
        Outcome::Throttled => "429",
        Outcome::ServerError => "5xx",
        Outcome::Refused => "403",
        Outcome::Timeout => "timeout",
        Outcome::Connect => "no connection",
        Outcome::Tls => "TLS failed",
        Outcome::Dns => "no such name",
        Outcome::ConnectionReset => "reset",
        Outcome::Incomplete => "body cut short",
        Outcome::Decode => "body undecodable",
        Outcome::TooLarge => "body too large",
        Outcome::LimitExceeded => "headers too large",
        Outcome::RedirectNotFollowed => "redirect astray",
        Outcome::AddressRefused => "address refused",
        Outcome::RobotsDenied => "robots forbid",
        Outcome::Local => "our own trouble",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Hold, Override, Pause};
    use crate::tui::sample;

    const NOW: Mono = Mono::from_nanos(10_000_000_000_000);

    fn words(change: impl FnOnce(&mut HostView)) -> String {
        let mut view = sample::view(0);
        change(&mut view);
        why(&view, NOW, Wall(0), "·", "×")
    }

    #[test]
    fn wanted_17_each_limiting_cause_is_named() {
        let hold = Hold { until: NOW.after_secs(118.0), since: NOW, reason: HoldReason::Throttled };
        for (limiting, expected) in [
            (Limiting::NoTokens, "no tokens"),
            (Limiting::Held, "429, backing off · until 00:01:58"),
            (Limiting::RobotsDelay, "robots delay 5 s"),
            (Limiting::RobotsPending, "asks robots.txt"),
            (Limiting::Paused, "PAUSED you"),
            (Limiting::Halted, "crawl halted"),
            (Limiting::Connections, "all connections busy"),
            (Limiting::NothingQueued, "nothing queued"),
            (Limiting::RequestLimit, "request limit"),
            (Limiting::GlobalRate, "global rate"),
        ] {
            let said = words(|view| {
                view.limiting = limiting;
                view.crawl_delay = Some((Duration::from_secs(5), false));
                view.hold = (limiting == Limiting::Held).then_some(hold);
            });
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn what_the_server_asked_is_quoted() {
        let said = words(|view| {
            view.limiting = Limiting::Held;
            let reason = HoldReason::RetryAfter { asked: Duration::from_secs(9 * 3600), capped: true };
            view.hold = Some(Hold { until: NOW.after_secs(6.0 * 3600.0), since: NOW, reason });
        });
        assert_eq!(said, "Retry-After capped from 9 h · until 06:00:00");
    }

    #[test]
    fn acts_of_the_operator_come_before_the_cause() {
        let said = words(|view| {
            view.pause = Some(Pause { since: NOW.before(Duration::from_secs(1800)), until: None });
            view.limiting = Limiting::Paused;
        });
        assert_eq!(said, "PAUSED you 30m");
        let said = words(|view| {
            view.overriding = Some(Override {
                rate: Some(0.5),
                capacity: None,
                since: NOW.before(Duration::from_secs(60)),
                until: Some(NOW.after_secs(48.0 * 60.0)),
            });
        });
        assert_eq!(said, "OVERRIDE 48m left · no tokens");
    }

    #[test]
    fn concerns_come_first() {
        let said = words(|view| {
            let since = NOW.before(Duration::from_secs(845));
            let evidence = Evidence::NoSuccess { since, last: Some(Outcome::Timeout) };
            view.concern = Some(Concern { kind: ConcernKind::Stuck, since, evidence });
        });
        assert_eq!(said, "STUCK 14m no ok, timeout · no tokens");
        let said = words(|view| {
            let evidence = Evidence::Refusals { count: 16, of: 60, status: 429 };
            view.concern = Some(Concern { kind: ConcernKind::Angry, since: NOW, evidence });
        });
        assert_eq!(said, "ANGRY 429 ×16 of 60 · no tokens");
    }
}
