//! The column WHY: what a host's row says about itself, most urgent first.
//!
//! Words of our own and figures only, so the text is always safe to show.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::clock::Wall;
use crate::control::{Concern, Evidence, HoldReason, HostView, Limiting, Mono, Outcome, Sign};

use super::format::{age, asked, end_cut, rate};

/// Columns that every first part fits.
pub const NARROW: usize = 16;

/// What a row says, in parts: its concern, pause, override, hold and limiting cause, as far as they
/// apply. The first part of each fits [`NARROW`] columns.
pub fn parts(view: &HostView, now: Mono, wall: Wall, times: &str) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(concern) = view.concern {
        parts.extend(concern_words(&concern, now, times));
    }
    let evidence = view.concern.map(|concern| concern.evidence);
    if let Some(pause) = view.pause {
        if !matches!(evidence, Some(Evidence::PausedSince(_))) {
            parts.push(format!("PAUSED you {}", age(now.since(pause.since))));
        }
        if let Some(until) = pause.until {
            parts.push(format!("{} left", age(until.since(now))));
        }
    }
    if let Some(overriding) = view.overriding {
        let paced = view.limiting == Limiting::ServerPace;
        match overriding.until {
            // Both are needed to know what is in force, also where only the first part fits.
            until if paced => {
                parts.push(String::from("OVERRIDE, paced"));
                parts.extend(until.map(|until| format!("{} left", age(until.since(now)))));
            }
            Some(until) => parts.extend([format!("OVERRIDE {}", age(until.since(now))), String::from("then auto")]),
            None if matches!(evidence, Some(Evidence::OverriddenSince(_))) => {}
            None => {
                parts.extend([String::from("OVERRIDE"), format!("set {} ago", age(now.since(overriding.since)))]);
            }
        }
    }
    let held = view.hold.filter(|hold| hold.until > now);
    if let Some(hold) = held {
        parts.extend(hold_words(hold.reason));
        parts.push(format!("until {}", wall.after(hold.until.since(now)).time_of_day()));
    }
    parts.extend(limiting_words(view, held.is_some()));
    if let (Limiting::ServerPace, Some(paced)) = (view.limiting, view.paced) {
        let until = wall.after(paced.resets.since(now));
        let day = Duration::from_secs(86_400);
        let left = match paced.left {
            Some(left) if paced.rate > 0.0 => format!("{left} left "),
            _ => String::new(),
        };
        parts.push(match paced.resets.since(now) {
            _ if paced.left.is_none() => String::from("by its policy"),
            later if later > day => format!("{left}for {}", age(later)),
            _ => format!("{left}until {}", until.time_of_day()),
        });
        parts.extend(paced.capped.then(|| String::from("capped")));
    }
    if view.cold && view.requests > 0 && view.overriding.is_none() {
        parts.push(String::from("cold start"));
    }
    parts
}

/// As many whole parts as fit `width`, joined by `dot`; the first is cut if it does not fit.
pub fn join(parts: &[String], width: usize, dot: &str, ellipsis: char) -> String {
    let mut words = String::new();
    for part in parts {
        let more = if words.is_empty() { part.clone() } else { format!("{words} {dot} {part}") };
        if !words.is_empty() && more.width() > width {
            break;
        }
        words = more;
    }
    end_cut(&words, width, ellipsis)
}

/// A concern in a few words.
fn concern_words(concern: &Concern, now: Mono, times: &str) -> Vec<String> {
    let word = concern.kind.as_str();
    match concern.evidence {
        Evidence::NoSuccess { since, last } => {
            let mut words = vec![format!("{word} {} no ok", age(now.since(since)))];
            words.extend(last.map(|outcome| outcome_words(outcome).to_owned()));
            words
        }
        Evidence::Refusals { count, of, status } => {
            vec![format!("{word} {status} {times}{count}"), format!("of {of} in 5 min")]
        }
        Evidence::LongRetryAfter { asked: wait } => vec![format!("{word} asked {}", asked(wait))],
        Evidence::Blocked { run } => vec![format!("{word} block {times}{run}")],
        Evidence::Shares(Sign::Named) => vec![String::from(word), String::from("named by the server"), GROUP.into()],
        Evidence::Shares(Sign::OneRate { hundredths }) => {
            let rate = f64::from(hundredths) / 100.0;
            vec![String::from(word), format!("adds up with another to {rate:.1}/s"), GROUP.into()]
        }
        Evidence::Shares(Sign::Together(count)) => {
            vec![String::from(word), format!("refused with another {times}{count}"), GROUP.into()]
        }
        Evidence::HeldBack { urls } => vec![format!("{word} {urls} held"), String::from(":allow or :exclude")],
        Evidence::Beyond { links } => vec![format!("{word} {links} links"), String::from(":allow or :exclude")],
        Evidence::Later { eta } => vec![format!("{word} {} left", age(eta))],
        // How long comes first: that alone is seen on narrow screens.
        Evidence::PausedSince(since) => vec![format!("{word} {}", age(now.since(since))), String::from("PAUSED you")],
        Evidence::OverriddenSince(since) => {
            vec![format!("{word} {}", age(now.since(since))), String::from("OVERRIDE set")]
        }
    }
}

/// What follows the advice.
const GROUP: &str = ":group";

/// A hold's reason in a few words.
fn hold_words(reason: HoldReason) -> Vec<String> {
    match reason {
        HoldReason::RetryAfter { asked: wait, capped } => {
            let mut words = vec![format!("Retry-After {}", asked(wait))];
            words.extend(capped.then(|| String::from("capped")));
            words
        }
        HoldReason::Throttled => vec![String::from("429 backing off")],
        HoldReason::Refused => vec![String::from("403 backing off")],
        HoldReason::Network(outcome) => vec![format!("{} backing off", outcome_words(outcome))],
        HoldReason::RobotsUnreachable => vec![String::from("robots.txt away"), String::from("cannot be had")],
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
                format!("robots delay {}{}", seconds(delay), if capped { " (capped)" } else { "" })
            }
            None => String::from("robots delay"),
        },
        Limiting::RobotsPending => String::from("asks robots.txt"),
        Limiting::Halted => String::from("crawl halted"),
        Limiting::Connections => String::from("connections busy"),
        Limiting::NothingQueued => String::from("nothing queued"),
        Limiting::RequestLimit => String::from("request limit"),
        Limiting::GlobalRate => String::from("global rate"),
        Limiting::GroupTokens => String::from("group's tokens"),
        Limiting::Placing => String::from("asks for address"),
        Limiting::ServerPace if view.paced.is_some_and(|paced| paced.rate == 0.0) => String::from("window used up"),
        Limiting::ServerPace => String::from("paced by headers"),
    })
}

/// Seconds, with a fraction only where there is one.
fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}s", rate(duration.as_secs_f64()))
    }
}

/// An outcome in words a person would use.
pub fn outcome_words(outcome: Outcome) -> &'static str {
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
    use crate::control::Paced;
    use crate::control::{ConcernKind, Hold, Override, Pause};
    use crate::tui::sample;

    const NOW: Mono = Mono::from_nanos(10_000_000_000_000);

    const PACED: Paced = Paced {
        rate: 0.5,
        left: Some(8.0),
        resets: Mono::from_nanos(10_120_000_000_000),
        until: Mono::from_nanos(10_121_000_000_000),
        capped: false,
    };

    #[test]
    fn what_headers_told_is_quoted() {
        let said = |paced| {
            words(|view| {
                view.limiting = Limiting::ServerPace;
                view.paced = Some(paced);
            })
        };
        assert_eq!(said(Paced { rate: 0.0, left: Some(0.0), ..PACED }), "window used up · until 00:02:00");
        let under = |until| {
            words(|view| {
                (view.limiting, view.paced) = (Limiting::ServerPace, Some(PACED));
                view.overriding = Some(Override { rate: Some(9.0), capacity: None, since: NOW, until });
            })
        };
        let rest = "paced by headers · 8 left until 00:02:00";
        assert_eq!(under(Some(NOW.after_secs(7_140.0))), format!("OVERRIDE, paced · 119m left · {rest}"));
        assert_eq!(under(None), format!("OVERRIDE, paced · {rest}"));
        let resets = NOW.after(Duration::from_secs(2_000_000));
        assert_eq!(said(Paced { resets, capped: true, ..PACED }), "paced by headers · 8 left for 23 d · capped");
    }

    fn words(change: impl FnOnce(&mut HostView)) -> String {
        let mut view = sample::view(0);
        change(&mut view);
        join(&parts(&view, NOW, Wall(0), "×"), 200, "·", '…')
    }

    #[test]
    fn wanted_17_each_limiting_cause_is_named() {
        let hold = Hold { until: NOW.after_secs(118.0), since: NOW, reason: HoldReason::Throttled };
        for (limiting, expected) in [
            (Limiting::NoTokens, "no tokens"),
            (Limiting::Held, "429 backing off · until 00:01:58"),
            (Limiting::RobotsDelay, "robots delay 5s"),
            (Limiting::RobotsPending, "asks robots.txt"),
            (Limiting::Paused, "PAUSED you"),
            (Limiting::Halted, "crawl halted"),
            (Limiting::Connections, "connections busy"),
            (Limiting::NothingQueued, "nothing queued"),
            (Limiting::RequestLimit, "request limit"),
            (Limiting::GlobalRate, "global rate"),
            (Limiting::GroupTokens, "group's tokens"),
            (Limiting::Placing, "asks for address"),
            (Limiting::ServerPace, "paced by headers · 8 left until 00:02:00"),
        ] {
            let said = words(|view| {
                view.limiting = limiting;
                view.crawl_delay = Some((Duration::from_secs(5), false));
                view.paced = Some(PACED);
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
        assert_eq!(said, "Retry-After 9h · capped · until 06:00:00");
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
        assert_eq!(said, "OVERRIDE 48m · then auto · no tokens");
    }

    #[test]
    fn a_narrow_column_shows_whole_parts() {
        let parts = ["STUCK 14m no ok", "timeout", "no tokens"].map(String::from);
        for (width, words) in [
            (14, "STUCK 14m no …"),
            (16, "STUCK 14m no ok"),
            (25, "STUCK 14m no ok · timeout"),
            (60, "STUCK 14m no ok · timeout · no tokens"),
        ] {
            assert_eq!(join(&parts, width, "·", '…'), words);
        }
    }

    #[test]
    fn concerns_come_first() {
        let said = words(|view| {
            let since = NOW.before(Duration::from_secs(845));
            let evidence = Evidence::NoSuccess { since, last: Some(Outcome::Timeout) };
            view.concern = Some(Concern { kind: ConcernKind::Stuck, since, evidence });
        });
        assert_eq!(said, "STUCK 14m no ok · timeout · no tokens");
        let said = words(|view| {
            let evidence = Evidence::Refusals { count: 16, of: 60, status: 429 };
            view.concern = Some(Concern { kind: ConcernKind::Angry, since: NOW, evidence });
        });
        assert_eq!(said, "ANGRY 429 ×16 · of 60 in 5 min · no tokens");
        let said = words(|view| {
            let evidence = Evidence::HeldBack { urls: 57 };
            view.concern = Some(Concern { kind: ConcernKind::Trap, since: NOW, evidence });
        });
        assert_eq!(said, "TRAP 57 held · :allow or :exclude · no tokens");
        for evidence in [Evidence::PausedSince(NOW), Evidence::OverriddenSince(NOW)] {
            let mut view = crate::tui::sample::view(0);
            view.concern = Some(Concern { kind: ConcernKind::Forgotten, since: NOW, evidence });
            let later = NOW.after(Duration::from_secs(11 * 3_600));
            let first = parts(&view, later, Wall(0), "×").remove(0);
            assert_eq!((first.as_str(), first.len() <= NARROW), ("FORGOTTEN 11 h", true));
        }
    }
}
