//! What the detail of a host says in sentences: its state with the reason, its bucket, its rate.
//!
//! Words of our own and figures only, so the text is always safe to show.

use std::time::Duration;

use crate::control::{ConcernKind, HoldReason, HostState, HostView, Limiting, Mono, Paced, Trend};

use super::format::{age, countdown, rate, span};
use super::why::outcome_words;
use crate::watch::{RobotsGroup, RobotsState, RobotsView};

/// The state in capitals, and what comes next because of what.
pub fn state(view: &HostView, now: Mono) -> (&'static str, String) {
    if let Some(pause) = view.pause {
        let since = format!("by you, {} ago", age(now.since(pause.since)));
        let until = match pause.until {
            Some(until) => format!("; resumes by itself in {}", countdown(until.since(now))),
            None => String::from("; until you resume it"),
        };
        return ("PAUSED", format!("{since}{until}"));
    }
    if let Some((hold, left)) = view.hold.zip(view.hold_left(now)) {
        let word = if view.state == HostState::Block { "BLOCKED" } else { "BACKOFF" };
        return (word, format!("resumes in {}  because {}", countdown(left), because(hold.reason)));
    }
    let word = match (view.concern.map(|concern| concern.kind), view.state) {
        (Some(ConcernKind::Stuck), _) => "STUCK",
        (_, HostState::Run) => "RUNNING",
        (_, HostState::Wait) => "WAITING",
        (_, HostState::Back) => "BACKOFF",
        (_, HostState::Block) => "BLOCKED",
        (_, HostState::Paused) => "PAUSED",
        (_, HostState::Done) => "DONE",
        (_, HostState::Idle) => "IDLE",
    };
    (word, limiting(view, now))
}

/// Why a host is held.
pub fn because(reason: HoldReason) -> String {
    match reason {
        HoldReason::RetryAfter { asked, capped } => {
            let capped = if capped { ", cut to retry_after_max" } else { "" };
            format!("the server sent Retry-After: {}{capped}", asked.as_secs())
        }
        HoldReason::Throttled => String::from("it answered 429 without Retry-After; one probe then decides"),
        HoldReason::Refused => String::from("it refused us (403 or 401); one probe then decides"),
        HoldReason::Network(outcome) => format!("of trouble on the way: {}", outcome_words(outcome)),
        HoldReason::RobotsUnreachable => String::from("robots.txt cannot be had, which forbids everything"),
    }
}

/// The one cause that limits it, as a sentence.
fn limiting(view: &HostView, now: Mono) -> String {
    match view.limiting {
        Limiting::NoTokens if view.limiting_lane > 0 => format!("endpoint {} waits for tokens", view.limiting_lane),
        Limiting::NoTokens => String::from("as fast as its bucket lets it"),
        Limiting::Held => String::from("its hold is over, the next grant goes out"),
        Limiting::RobotsDelay => match view.crawl_delay {
            Some((delay, capped)) => {
                let capped = if capped { " (capped)" } else { "" };
                format!("robots.txt asks for {} between requests{capped}", span(delay))
            }
            None => String::from("robots.txt asks for a pause between requests"),
        },
        Limiting::RobotsPending => String::from("asks for robots.txt first"),
        Limiting::Paused => String::from("paused by you"),
        Limiting::Halted => String::from("the whole crawl is halted"),
        Limiting::Connections => {
            let slow = view.last_ok.map_or(String::from("none succeeded yet"), |at| {
                format!("the last success was {} ago", age(now.since(at)))
            });
            format!("all {} connections are busy, {slow}", view.connections)
        }
        Limiting::NothingQueued if view.queued > 0 => String::from("every URL waits for its own retry"),
        Limiting::NothingQueued => String::from("nothing is queued"),
        Limiting::RequestLimit => String::from("its max_requests is used up"),
        Limiting::GlobalRate => String::from("the global rate is used up"),
        Limiting::GroupTokens => String::from("waits for its turn at the bucket that its group shares"),
        Limiting::Placing => String::from("its address is looked up: hosts of one address share a bucket"),
        Limiting::ServerPace => match view.paced {
            Some(paced) => server_pace(&paced, now),
            None => String::from("paced by the server's headers"),
        },
    }
}

/// What the server's headers say of its limit, and what is made of it.
fn server_pace(paced: &Paced, now: Mono) -> String {
    let left = age(paced.resets.since(now));
    let capped = match (paced.capped, paced.rate > 0.0) {
        (false, _) => String::new(),
        (true, true) => String::from("; spread no thinner than that"),
        (true, false) => format!("; cut to retry_after_max, {} left", age(paced.until.since(now))),
    };
    match paced.rate > 0.0 {
        true => {
            let said = match paced.left {
                Some(requests) => format!("{requests} left for the next {left}"),
                None => String::from("their policy allows no more"),
            };
            format!("paced by the server's headers to {}/s: {said}{capped}", rate(paced.rate))
        }
        false => format!("its window is used up, the server's headers say: more in {left}{capped}"),
    }
}

/// What the bucket's level means.
pub fn bucket(view: &HostView, now: Mono) -> String {
    let tokens = view.tokens_at(now);
    let full = tokens >= view.effective.capacity - 1e-6;
    match view.limiting {
        Limiting::Paused => return String::from("fills, but nothing goes out while the host is paused"),
        Limiting::Halted => return String::from("fills, but nothing goes out while the crawl is halted"),
        _ if view.hold_left(now).is_some() => {
            return String::from("fills, but no token is spent until the hold ends");
        }
        _ => {}
    }
    if full || tokens >= 1.0 {
        let level = if full { "full" } else { "not empty" };
        return match view.limiting {
            Limiting::NothingQueued => format!("{level}: not rate-limited, there is no work"),
            Limiting::Connections => {
                let connections = if view.in_flight == 1 { "connection" } else { "connections" };
                format!("{level}: not rate-limited, waits for {} slow {connections}", view.in_flight)
            }
            Limiting::RobotsDelay => format!("{level}: not the bucket but the site's Crawl-delay spaces requests"),
            Limiting::RobotsPending => format!("{level}: not rate-limited, waits for robots.txt"),
            Limiting::GlobalRate => format!("{level}: not this bucket but the global rate limits"),
            Limiting::GroupTokens => format!("{level}: not this bucket but that of its group limits"),
            Limiting::RequestLimit => format!("{level}: not rate-limited, the host's request limit is reached"),
            // It came since the snapshot, and is as good as spent.
            Limiting::NoTokens | Limiting::ServerPace if view.paced.is_none_or(|paced| paced.rate > 0.0) => {
                String::from("rate-limited by us: this token goes out at once")
            }
            Limiting::ServerPace => format!("{level}: not the bucket but the server's window limits"),
            _ => format!("{level}: not rate-limited"),
        };
    }
    if view.effective.rate > 0.0 {
        let wait = (1.0 - tokens) / view.effective.rate;
        let wait = if wait < 600.0 { format!("{wait:.1} s") } else { age(Duration::from_secs_f64(wait.min(1e12))) };
        match view.limiting {
            Limiting::ServerPace => format!("empty: as the server's headers have it, next token in {wait}"),
            _ => format!("empty: rate-limited by us, next token in {wait}"),
        }
    } else {
        String::from("empty, and nothing fills it: the rate is 0")
    }
}

/// How the controller sees it.
pub fn controller(view: &HostView, now: Mono) -> String {
    let (adaptive, original) = (view.adaptive.rate, view.original.rate);
    let trend = match view.trend {
        Trend::Up => "rising",
        Trend::Down => "falling",
        Trend::Level => "level",
    };
    if view.cold {
        return format!("cold start: {}/s for its first requests, then the original", rate(view.effective.rate));
    }
    if let Some(why) = view.why_at(now) {
        return why.to_string();
    }
    if adaptive >= original {
        return String::from("nothing speaks against the original rate");
    }
    let percent = (adaptive / original.max(f64::MIN_POSITIVE) * 100.0).clamp(0.0, 100.0);
    let refusals = match view.angry_recent {
        0 => String::from("no refusal in 5 min"),
        1 => String::from("1 refusal in 5 min"),
        n => format!("{n} refusals in 5 min"),
    };
    format!("learned {percent:.0}% of the original, {trend}; {refusals}")
}

/// Which of two authorities' robots.txt calls for attention: the lower one.
pub fn urgency(robots: &RobotsView) -> u8 {
    match robots.state {
        RobotsState::Failed { tries: 1.., .. } => 0,
        RobotsState::Refused { .. } => 1,
        RobotsState::InFlight { .. } => 2,
        RobotsState::Known { .. } => 3,
        RobotsState::Failed { .. } => 4,
    }
}

/// Which rules of robots.txt apply, and how it was come by.
pub fn robots(robots: &RobotsView, now: Mono) -> String {
    let rules = |count: usize| if count == 1 { String::from("1 rule") } else { format!("{count} rules") };
    let copy = robots.copy.map(|(fetched, group, count)| {
        let group = match group {
            RobotsGroup::Us => format!("a group for us, {}", rules(count)),
            RobotsGroup::Everybody => format!("the group for all, {}", rules(count)),
            RobotsGroup::Nobody => String::from("no group for us: nothing is forbidden"),
        };
        (group, age(now.since(fetched)))
    });
    match (robots.state, copy) {
        (RobotsState::InFlight { hops: 0 }, _) => String::from("on its way"),
        (RobotsState::InFlight { hops }, _) => format!("on its way, redirected {hops} times"),
        (RobotsState::Known { until }, Some((group, old))) => {
            format!("{group}; fetched {old} ago, again in {}", age(until.since(now)))
        }
        (RobotsState::Known { until }, None) => format!("known, asked for again in {}", age(until.since(now))),
        (RobotsState::Failed { tries: 0, .. }, _) => String::from("asked for with the next request"),
        (RobotsState::Failed { until, tries }, copy) => {
            let meanwhile = match copy {
                Some((group, old)) => format!("the copy of {old} ago stays in use ({group})"),
                None => String::from("everything is forbidden meanwhile"),
            };
            format!("unreachable, {tries} tries, the next in {}; {meanwhile}", age(until.since(now)))
        }
        (RobotsState::Refused { until }, _) => {
            format!("its address is refused; asked for again in {}", age(until.since(now)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Hold, Original, Pause};
    use crate::tui::sample;

    const NOW: Mono = sample::NOW;

    #[test]
    fn the_state_has_a_reason() {
        let rows = sample::hosts();
        let said = |index: usize| {
            let (word, reason) = state(&rows[index].view, NOW);
            format!("{word} {reason}")
        };
        assert_eq!(said(0), "RUNNING as fast as its bucket lets it");
        assert_eq!(said(2), "STUCK all 4 connections are busy, the last success was 0s ago");
        assert_eq!(said(3), "BACKOFF resumes in 01:58  because the server sent Retry-After: 120");
        assert!(said(4).starts_with("BLOCKED resumes in 22:41  because it refused"));
        assert_eq!(said(5), "WAITING robots.txt asks for 12 s between requests");
        assert_eq!(said(6), "PAUSED by you, 30m ago; until you resume it");
        assert_eq!(said(11), "DONE nothing is queued");
        let mut view = sample::view(0);
        view.pause = Some(Pause { since: NOW, until: Some(NOW.after_secs(90.0)) });
        assert_eq!(state(&view, NOW).1, "by you, 0s ago; resumes by itself in 01:30");
    }

    #[test]
    fn what_headers_told_is_the_reason() {
        let mut view = sample::view(0);
        let (resets, until) = (NOW.after_secs(120.0), NOW.after_secs(121.0));
        let paced = Paced { rate: 0.5, left: Some(8.0), resets, until, capped: false };
        (view.limiting, view.paced, view.tokens) = (Limiting::ServerPace, Some(paced), 0.0);
        view.effective.rate = 0.5;
        assert_eq!(state(&view, NOW).1, "paced by the server's headers to 0.50/s: 8 left for the next 2m");
        assert_eq!(bucket(&view, NOW), "empty: as the server's headers have it, next token in 2.0 s");
        view.paced = Some(Paced { rate: 0.0, capped: true, ..paced });
        view.tokens = 1.0;
        let said = "its window is used up, the server's headers say: more in 2m; cut to retry_after_max, 2m left";
        assert_eq!(state(&view, NOW).1, said);
        assert_eq!(bucket(&view, NOW), "not empty: not the bucket but the server's window limits");
    }

    #[test]
    fn a_full_bucket_is_not_what_limits() {
        let with = |limiting, tokens| {
            let mut view = sample::view(0);
            (view.limiting, view.tokens) = (limiting, tokens);
            bucket(&view, NOW)
        };
        assert_eq!(with(Limiting::Connections, 4.0), "full: not rate-limited, waits for 1 slow connection");
        assert_eq!(with(Limiting::NothingQueued, 4.0), "full: not rate-limited, there is no work");
        assert_eq!(with(Limiting::NoTokens, 0.5), "empty: rate-limited by us, next token in 0.2 s");
        assert_eq!(with(Limiting::NoTokens, 1.0), "rate-limited by us: this token goes out at once");
        assert_eq!(with(Limiting::Paused, 0.5), "fills, but nothing goes out while the host is paused");
        let mut view = sample::view(0);
        view.hold = Some(Hold { until: NOW.after_secs(9.0), since: NOW, reason: HoldReason::Throttled });
        assert_eq!(bucket(&view, NOW), "fills, but no token is spent until the hold ends");
        (view.hold, view.tokens, view.effective) = (None, 0.0, Original { rate: 0.0, capacity: 1.0 });
        assert_eq!(bucket(&view, NOW.after(Duration::from_secs(9))), "empty, and nothing fills it: the rate is 0");
    }

    #[test]
    fn robots_txt_is_told_in_every_state() {
        let said = |state, copy| {
            let one = RobotsView { authority: crate::text::Clean::new("https://a.test"), state, copy };
            robots(&one, NOW)
        };
        let until = NOW.after_secs(120.0);
        let copy = |group, count| Some((NOW.before(Duration::from_secs(7_200)), group, count));
        for (state, copy, words) in [
            (RobotsState::InFlight { hops: 0 }, None, "on its way"),
            (RobotsState::InFlight { hops: 2 }, None, "on its way, redirected 2 times"),
            (
                RobotsState::Known { until },
                copy(RobotsGroup::Us, 1),
                "a group for us, 1 rule; fetched 2 h ago, again in 2m",
            ),
            (
                RobotsState::Known { until },
                copy(RobotsGroup::Nobody, 0),
                "no group for us: nothing is forbidden; fetched 2 h ago, again in 2m",
            ),
            (
                RobotsState::Failed { until, tries: 3 },
                None,
                "unreachable, 3 tries, the next in 2m; everything is forbidden meanwhile",
            ),
            (
                RobotsState::Failed { until, tries: 3 },
                copy(RobotsGroup::Everybody, 2),
                "unreachable, 3 tries, the next in 2m; the copy of 2 h ago stays in use (the group for all, 2 rules)",
            ),
            (RobotsState::Failed { until, tries: 0 }, None, "asked for with the next request"),
            (RobotsState::Refused { until }, None, "its address is refused; asked for again in 2m"),
        ] {
            assert_eq!(said(state, copy), words);
        }
    }

    #[test]
    fn the_controller_explains_itself() {
        let mut view = sample::view(0);
        assert_eq!(controller(&view, NOW), "nothing speaks against the original rate");
        (view.adaptive.rate, view.trend, view.angry_recent) = (0.25, Trend::Down, 16);
        assert_eq!(controller(&view, NOW), "learned 12% of the original, falling; 16 refusals in 5 min");
        view.cold = true;
        assert_eq!(controller(&view, NOW), "cold start: 2.00/s for its first requests, then the original");
    }
}
