//! The ten rules by which hints are read and obeyed, a test each, by number.

use std::time::Duration;

use super::{DISTRUST, FALSE_MAX, Hint, Pace, parse};
use crate::control::backoff::SeededJitter;
use crate::control::host::LaneQueue;
use crate::control::{
    Amount, Answer, BackoffPolicy, Command, Controller, Decision, Grant, HoldReason, HostId, HostView, Lane, Lifetime,
    Limiting, Mono, Original, Outcome, OverrideSpec, Placement, Policy, PolicyId, RequestKind, Settings, SkipReason,
    Value, Verdict, WakeEven, What, Who, retry_after,
};

const NOW: f64 = 1_700_000_000.0;
const LONGEST: Duration = Duration::from_secs(6 * 3_600);

fn read(headers: &[(&str, &str)]) -> Option<Hint> {
    parse(headers.iter().copied(), NOW)
}

fn at(secs: f64) -> Mono {
    Mono::from_secs_f64(secs)
}

fn world(rate: f64) -> (Controller, HostId) {
    let policy = Policy { original: Original { rate, capacity: 4.0 }, connections: 20, ..Policy::default() };
    let settings = Settings { policies: vec![policy], cold_start: false, ..Settings::default() };
    let mut controller = Controller::new(settings, Box::new(SeededJitter::new(3)));
    let host = controller.add_host(PolicyId(0));
    controller.set_queue(Mono::ZERO, host, Lane(0), LaneQueue { ready: 10_000, ..LaneQueue::EMPTY });
    (controller, host)
}

fn answer(controller: &mut Controller, now: Mono, grant: &Grant, status: u16, retry_after: Option<u64>) -> Outcome {
    let answer = Answer {
        host: grant.host,
        lane: grant.lane,
        kind: RequestKind::Page,
        sent: grant.at,
        verdict: Verdict::Status(status),
        retry_after: retry_after.map(Duration::from_secs),
        latency: now.since(grant.at),
        unprocessed: false,
    };
    controller.answer(now, &answer).outcome
}

#[test]
fn rule_01_the_server_s_own_wait_stands_over_all_then_the_draft_then_vendors_and_the_strictest_policy_counts() {
    let both = read(&[("RateLimit", "\"a\";r=3;t=30"), ("X-RateLimit-Remaining", "50"), ("X-RateLimit-Reset", "10")]);
    assert_eq!(both.map(|hint| (hint.remaining, hint.reset)), Some((3.0, 30.0)));
    let vendor = read(&[
        ("X-RateLimit-Remaining", "50"),
        ("X-RateLimit-Reset", "10"),
        ("X-Shopify-Shop-Api-Call-Limit", "1/40"),
    ]);
    assert_eq!(vendor.map(|hint| (hint.remaining, hint.reset)), Some((50.0, 10.0)));
    let policies = read(&[("RateLimit-Policy", "\"a\";q=100;w=60, \"b\";q=10;w=60"), ("RateLimit", "\"a\";r=50;t=30")]);
    assert_eq!(policies.and_then(|hint| hint.policy), Some(10.0 / 60.0));
    // Plenty is left, as the headers say; the wait stands all the same.
    let (mut controller, host) = world(10.0);
    let grant = controller.next(at(1.0)).expect("tokens");
    let plenty = Hint { remaining: 4_999.0, reset: 3_600.0, ..Hint::default() };
    controller.hint(at(1.1), host, Lane(0), &plenty, true);
    answer(&mut controller, at(1.1), &grant, 429, Some(60));
    assert!(controller.next(at(61.0)).is_none() && controller.next(at(63.0)).is_some());
}

#[test]
fn rule_01_a_retry_after_is_waited_and_not_the_window_s_end_that_stands_beside_it() {
    let window = ("RateLimit", "\"a\";r=0;t=60");
    let policy = ("RateLimit-Policy", "\"a\";q=60;w=60");
    for (asked, headers, early, late) in [
        (Some(3), &[window, ("Retry-After", "3")][..], 4.0, 8.0),
        (Some(90), &[window, ("Retry-After", "90")], 91.0, 92.5),
        (None, &[window], 61.0, 62.5),
        (None, &[window, ("Retry-After", "0")], 61.0, 62.5),
    ] {
        let (mut controller, host) = world(10.0);
        let grant = controller.next(at(1.0)).expect("tokens");
        let hint = read(headers).expect("a hint");
        assert!(hint.exhausted(), "{headers:?}");
        controller.hint(at(1.1), host, Lane(0), &hint, true);
        answer(&mut controller, at(1.1), &grant, 429, asked);
        assert!(controller.next(at(early)).is_none(), "{headers:?}");
        assert!(controller.next(at(late)).is_some(), "{headers:?}");
        assert_eq!(controller.learned(at(late), host).expect("a host").rate, 10.0, "its window was used up");
    }
    // The policy counts all the same.
    let (mut controller, host) = world(10.0);
    let hint = read(&[window, policy, ("Retry-After", "3")]).expect("a hint");
    controller.next(at(1.0)).expect("tokens");
    controller.hint(at(1.1), host, Lane(0), &hint, true);
    assert_eq!(controller.view(at(1.2), host).expect("a host").effective.rate, 1.0);
}

#[test]
fn rule_02_numbers_are_plain_and_dates_are_measured_against_the_answer_s_own() {
    let remaining =
        |text: &str| read(&[("x-ratelimit-remaining", text), ("x-ratelimit-reset", "10")]).map(|hint| hint.remaining);
    for (text, expected) in
        [("7", Some(7.0)), (" 7.5 ", Some(7.5)), ("-1", None), ("NaN", None), ("1e3", None), ("0x10", None)]
    {
        assert_eq!(remaining(text), expected, "{text}");
    }
    assert_eq!(remaining("1000000001"), None, "more than 1e9 is no count");
    let date = b"Tue, 14 Nov 2023 22:13:20 GMT";
    let parsed = retry_after::parse(&[b"Tue, 14 Nov 2023 22:13:50 GMT"], Some(date), 0);
    assert_eq!(parsed.wait, Some(Duration::from_secs(30)), "whatever our own clock says");
}

#[test]
fn rule_03_a_reset_is_an_epoch_in_seconds_or_milliseconds_or_a_distance_by_its_size() {
    let reset =
        |text: &str| read(&[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", text)]).map(|hint| hint.reset);
    assert_eq!((reset("60"), reset("1700000060"), reset("1700000060000")), (Some(60.0), Some(60.0), Some(60.0)));
    let after = [("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "1700000060"), ("x-ratelimit-reset-after", "5")];
    assert_eq!(read(&after).map(|hint| hint.reset), Some(5.0), "`reset-after` is always a distance, and nearer");
}

#[test]
fn rule_04_a_wait_of_zero_or_in_the_past_says_nothing() {
    for value in [&b"0"[..], b"0.0", b"Tue, 14 Nov 2023 22:13:20 GMT"] {
        assert_eq!(retry_after::parse(&[value], None, 1_800_000_000).wait, None, "{value:?}");
    }
    assert_eq!(read(&[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "0")]), None);
}

#[test]
fn rule_05_a_longer_wait_than_allowed_is_capped_and_shown_as_capped() {
    let (mut controller, host) = world(10.0);
    let grant = controller.next(at(1.0)).expect("tokens");
    answer(&mut controller, at(1.1), &grant, 429, Some(86_400));
    let hold = controller.hold(host).expect("held");
    assert_eq!(hold.reason, HoldReason::RetryAfter { asked: Duration::from_secs(86_400), capped: true });
    assert!(hold.until >= at(1.1 + 6.0 * 3_600.0), "and never silently shortened");
}

#[test]
fn rule_06_chance_only_ever_adds() {
    for seed in 0..200 {
        let mut controller = Controller::new(Settings::default(), Box::new(SeededJitter::new(seed)));
        let host = controller.add_host(PolicyId(0));
        controller.set_queue(Mono::ZERO, host, Lane(0), LaneQueue { ready: 10, ..LaneQueue::EMPTY });
        let grant = controller.next(at(1.0)).expect("tokens");
        answer(&mut controller, at(1.1), &grant, 429, Some(30));
        let until = controller.hold(host).expect("held").until;
        assert!((31.1..32.2).contains(&until.as_secs_f64()), "{until:?}");
    }
}

#[test]
fn rule_07_what_is_left_is_spread_nothing_left_is_waited_out_and_no_limit_is_lifted() {
    let (mut pace, now) = (Pace::default(), at(100.0));
    pace.hear(now, &Hint { remaining: 30.5, reset: 60.0, ..Hint::default() }, 0, LONGEST);
    assert!((pace.rate(now) - 0.5).abs() < 1e-9);
    pace.hear(now, &Hint { remaining: 10_000.0, reset: 10.0, policy: Some(1.0), ..Hint::default() }, 0, LONGEST);
    assert_eq!(pace.rate(now), 1.0, "never above what the policy says");
    pace.hear(now, &Hint { remaining: 0.0, reset: 30.0, ..Hint::default() }, 0, LONGEST);
    assert!(pace.not_before() >= now.after_secs(30.1));
    let (mut controller, host) = world(2.0);
    controller.next(at(1.0)).expect("tokens");
    controller.hint(at(1.1), host, Lane(0), &Hint { remaining: 1e6, reset: 1.0, ..Hint::default() }, false);
    let view = controller.view(at(1.2), host).expect("a host");
    assert_eq!(view.effective.rate, 2.0, "a header cannot lift what the operator set");
}

#[test]
fn rule_07_a_policy_alone_paces_a_host() {
    let hint = read(&[("RateLimit-Policy", "\"burst\";q=60;w=30")]).expect("a hint");
    let (mut controller, host) = world(20.0);
    let view = told(&mut controller, 1.0, &hint);
    assert_eq!((view.limiting, view.effective.rate), (Limiting::ServerPace, 2.0));
    let mut sent = 0;
    for tenth in 20..320 {
        let now = at(f64::from(tenth) / 10.0);
        while let Some(grant) = controller.next(now) {
            sent += 1;
            controller.hint(now, host, Lane(0), &hint, false);
            answer(&mut controller, now, &grant, 200, None);
        }
    }
    assert!((59..=61).contains(&sent), "{sent} in 30 s");
    let told_of = paces(&mut controller);
    assert_eq!(told_of.len(), 1, "{told_of:?}");
    assert_eq!(told_of[0].why, "paced by the server's headers: their policy allows no more");
}

#[test]
fn rule_08_hints_that_prove_false_are_not_believed_for_an_hour() {
    let (mut pace, now) = (Pace::default(), at(1_000.0));
    for _ in 0..=FALSE_MAX {
        assert!(pace.trusted(now));
        pace.missed(now);
    }
    assert!(!pace.trusted(now));
    assert!(pace.trusted(now.after(DISTRUST)));
}

#[test]
fn rule_09_an_answer_from_a_cache_says_nothing() {
    let fresh = [("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "10")];
    assert!(read(&[fresh[0], fresh[1], ("Age", "0")]).is_some());
    assert_eq!(read(&[fresh[0], fresh[1], ("Age", "1")]), None);
    // That one of a redirect says nothing, either, is the fetcher's: `a_redirect_s_hints_are_not_taken`.
}

#[test]
fn rule_10_a_bucket_id_merges_the_endpoints_that_name_it() {
    use crate::control::EndpointPolicy;
    let endpoint = EndpointPolicy { original: Original { rate: 5.0, capacity: 5.0 }, cost: 1.0 };
    let policy = Policy { original: Original { rate: 50.0, capacity: 50.0 }, connections: 50, ..Policy::default() };
    let settings = Settings {
        policies: vec![Policy { endpoints: vec![endpoint; 3], ..policy }],
        cold_start: false,
        ..Settings::default()
    };
    let mut controller = Controller::new(settings, Box::new(SeededJitter::new(3)));
    let host = controller.add_host(PolicyId(0));
    for lane in 1..=3 {
        controller.set_queue(Mono::ZERO, host, Lane(lane), LaneQueue { ready: 1_000, ..LaneQueue::EMPTY });
    }
    let headers =
        |bucket| [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset-After", "30"), ("X-RateLimit-Bucket", bucket)];
    let (one, two) = (read(&headers("abcd")).expect("a hint"), read(&headers("efgh")).expect("a hint"));
    assert_ne!(one.bucket, two.bucket);
    controller.next(at(1.0)).expect("tokens");
    for lane in [1, 2] {
        controller.hint(at(1.1), host, Lane(lane), &one, false);
    }
    let mut lanes: Vec<u8> = std::iter::from_fn(|| controller.next(at(2.0))).map(|grant| grant.lane.0).collect();
    lanes.sort_unstable();
    lanes.dedup();
    assert_eq!(lanes, [3], "the two of the empty bucket wait, the third goes on");
    assert!(controller.next(at(40.0)).is_some());
}

/// A host with so many endpoints of 5/s, all with work.
fn with_endpoints(count: u8) -> (Controller, HostId) {
    use crate::control::EndpointPolicy;
    let endpoint = EndpointPolicy { original: Original { rate: 5.0, capacity: 5.0 }, cost: 1.0 };
    let policy = Policy { original: Original { rate: 50.0, capacity: 50.0 }, connections: 50, ..Policy::default() };
    let policies = vec![Policy { endpoints: vec![endpoint; count.into()], ..policy }];
    let settings = Settings { policies, cold_start: false, ..Settings::default() };
    let mut controller = Controller::new(settings, Box::new(SeededJitter::new(3)));
    let host = controller.add_host(PolicyId(0));
    for lane in 1..=count {
        controller.set_queue(Mono::ZERO, host, Lane(lane), LaneQueue { ready: 1_000, ..LaneQueue::EMPTY });
    }
    (controller, host)
}

#[test]
fn rule_10_without_an_id_all_endpoints_are_one_bucket_and_so_they_are_where_the_limit_is_the_whole_service_s() {
    let empty = [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset-After", "30")];
    let global = [empty[0], empty[1], ("X-RateLimit-Bucket", "abcd"), ("X-RateLimit-Global", "true")];
    for headers in [&empty[..], &global] {
        let (mut controller, host) = with_endpoints(3);
        controller.next(at(1.0)).expect("tokens");
        controller.hint(at(1.1), host, Lane(1), &read(headers).expect("a hint"), false);
        assert!(controller.next(at(2.0)).is_none() && controller.next(at(40.0)).is_some(), "{headers:?}");
    }
}

#[test]
fn a_pace_of_an_endpoint_is_told_as_a_host_s_is_and_names_it() {
    let (mut controller, host) = with_endpoints(2);
    controller.next(at(1.0)).expect("tokens");
    let named = Hint { remaining: 0.0, reset: 30.0, bucket: 7, ..Hint::default() };
    controller.hint(at(1.1), host, Lane(2), &named, false);
    for second in 2..120 {
        controller.sweep(at(f64::from(second)), 10);
    }
    let told = paces(&mut controller);
    let said: Vec<_> = told.iter().map(|one| (one.who, &one.before, &one.after, &*one.why)).collect();
    let begins = "paced by the server's headers: 0 left for 29 s, on endpoint 2";
    let ends = "headers limit it no more, on endpoint 2";
    let (none, zero) = (Value::None, Value::Number(0.0));
    assert_eq!(said, [(Who::Server, &none, &zero, begins), (Who::Server, &zero, &none, ends)]);
}

#[test]
fn auto_and_reset_leave_a_pace_and_say_so() {
    let paced = Hint { remaining: 60.5, reset: 60.0, ..Hint::default() };
    let words = "; what its server's headers say still limits: a wake ends that";
    let (mut controller, host) = world(20.0);
    let reset = controller.command(at(0.5), Command::Reset, &[host], "");
    assert_eq!(reset.summary, "reset to the original rate and capacity");
    told(&mut controller, 1.0, &paced);
    let spec = OverrideSpec { rate: Some(Amount::Absolute(20.0)), capacity: None, lifetime: Lifetime::Default };
    controller.command(at(1.3), Command::Override(spec), &[host], "");
    let auto = controller.command(at(1.4), Command::Auto, &[host], "");
    assert_eq!(auto.summary, format!("auto: override dropped{words}"));
    let reset = controller.command(at(1.5), Command::Reset, &[host], "");
    assert_eq!(reset.summary, format!("reset to the original rate and capacity{words}"));
    let view = controller.view(at(1.6), host).expect("a host");
    assert_eq!((view.limiting, view.effective.rate), (Limiting::ServerPace, 1.0));
    // One of an endpoint, too.
    let (mut controller, host) = with_endpoints(2);
    controller.next(at(1.0)).expect("tokens");
    controller.hint(at(1.1), host, Lane(2), &Hint { remaining: 0.0, bucket: 7, ..paced }, false);
    assert!(controller.command(at(1.5), Command::Reset, &[host], "").summary.ends_with(words));
}

#[test]
fn a_refusal_for_what_others_use_too_is_waited_out_and_counts_for_nothing() {
    let headers = [
        ("X-RateLimit-Remaining", "2"),
        ("X-RateLimit-Reset-After", "9"),
        ("X-RateLimit-Bucket", "abcd"),
        ("X-RateLimit-Scope", "shared"),
    ];
    let shared = read(&headers).expect("a hint");
    for (hint, refused, rate) in [(shared, 0, 10.0), (Hint { shared: false, ..shared }, 1, 5.0)] {
        let (mut controller, host) = world(10.0);
        let grant = controller.next(at(1.0)).expect("tokens");
        controller.hint(at(1.1), host, Lane(0), &hint, true);
        assert_eq!(answer(&mut controller, at(1.1), &grant, 429, Some(9)), Outcome::Throttled);
        assert!(controller.next(at(10.0)).is_none() && controller.next(at(12.0)).is_some());
        let view = controller.view(at(12.0), host).expect("a host");
        assert_eq!((view.angry_recent, controller.learned(at(12.0), host).expect("a host").rate), (refused, rate));
    }
}

/// One request at `now`, answered 200 a tenth of a second later with `hint`; then all that may go at once goes.
fn told(controller: &mut Controller, now: f64, hint: &Hint) -> HostView {
    let grant = controller.next(at(now)).expect("a token");
    controller.hint(at(now + 0.1), grant.host, Lane(0), hint, false);
    answer(controller, at(now + 0.1), &grant, 200, None);
    while let Some(grant) = controller.next(at(now + 0.1)) {
        answer(controller, at(now + 0.1), &grant, 404, None);
    }
    controller.view(at(now + 0.2), grant.host).expect("a host")
}

fn paces(controller: &mut Controller) -> Vec<Decision> {
    controller.take_decisions().into_iter().filter(|one| one.what == What::Pace).collect()
}

#[test]
fn a_pace_is_bounded_in_time_as_a_pause_is_and_told_as_capped() {
    let absurd = read(&[("X-RateLimit-Remaining", "8"), ("X-RateLimit-Reset", "2000000")]).expect("a hint");
    let day = Hint { policy: Some(1.0 / 86_400.0), ..absurd };
    // What is left is spread no thinner than a Crawl-delay, a policy obeyed as far as a pause may last.
    for (hint, most, expected) in
        [(absurd, 21_600, 300.0), (absurd, 60, 60.0), (day, 3_600, 3_600.0), (day, 21_600, 21_600.0)]
    {
        let longest = Duration::from_secs(most);
        let (mut controller, host) = world(20.0);
        let backoff = BackoffPolicy { retry_after_max: longest, ..BackoffPolicy::default() };
        let settings = Settings { backoff, ..controller.settings().clone() };
        controller.reconfigure(Mono::ZERO, settings, |_| Placement { policy: PolicyId(0), lanes: None });
        let mut now = 1.0;
        for _ in 0..20 {
            let view = told(&mut controller, now, &hint);
            assert_eq!((view.limiting, view.queued), (Limiting::ServerPace, 10_000));
            let paced = view.paced.expect("it limits");
            assert!(paced.capped && paced.left == Some(8.0) && paced.rate == view.effective.rate, "{paced:?}");
            assert!((1.0 / paced.rate - expected).abs() < 1e-6, "{paced:?}");
            let wake = controller.next_wake();
            assert!(wake <= at(now + 0.2).after_secs(expected), "{wake:?}");
            now = wake.as_secs_f64() + 0.001;
        }
        let told = paces(&mut controller);
        assert_eq!(told.len(), 1, "once, not on every answer: {told:?}");
        assert!(told[0].why.contains("8 left for 2000000 s, capped"), "{}", told[0].why);
        // Nothing left: the pause is bounded by the same.
        controller.hint(at(now), host, Lane(0), &Hint { remaining: 0.0, ..hint }, false);
        let pause = controller.view(at(now), host).expect("a host").paced.expect("it waits");
        assert!(pause.capped && pause.rate == 0.0 && pause.until == at(now).after(longest), "{pause:?}");
    }
}

#[test]
fn a_pace_is_named_and_told_when_it_begins_to_limit_and_when_it_ends() {
    let (mut controller, host) = world(20.0);
    let hint = Hint { remaining: 60.5, reset: 60.0, ..Hint::default() };
    let view = told(&mut controller, 1.0, &hint);
    assert_eq!((view.limiting, view.effective.rate), (Limiting::ServerPace, 1.0));
    let spec = OverrideSpec { rate: Some(Amount::Absolute(20.0)), capacity: None, lifetime: Lifetime::Default };
    controller.command(at(1.3), Command::Override(spec), &[host], "");
    let view = controller.view(at(1.3), host).expect("a host");
    assert_eq!((view.limiting, view.effective.rate), (Limiting::ServerPace, 1.0), "under an override, too");
    for second in 2..40 {
        told(
            &mut controller,
            f64::from(second) + 0.5,
            &Hint { remaining: 61.5 - f64::from(second), reset: 61.0 - f64::from(second), ..hint },
        );
    }
    let told_of = paces(&mut controller);
    let said: Vec<_> = told_of.iter().map(|one| (one.who, &one.before, &one.after, &*one.why)).collect();
    let why = "paced by the server's headers: 60.5 left for 60 s";
    assert_eq!(said, [(Who::Server, &Value::None, &Value::Number(1.0), why)]);
    // Its window ends, and nothing else happens: the rate is back at once.
    let until = controller.view(at(41.0), host).and_then(|view| view.paced).expect("still").until;
    while controller.next(until).is_some() {}
    let later = until.after_secs(0.06);
    assert!(controller.next(later).is_some(), "at 20/s again");
    assert_ne!(controller.view(later, host).expect("a host").limiting, Limiting::ServerPace);
    for second in 0..120 {
        controller.sweep(until.after_secs(f64::from(second)), 10);
    }
    let told_of = paces(&mut controller);
    let said: Vec<_> = told_of.iter().map(|one| (&one.before, &one.after)).collect();
    assert_eq!(said, [(&Value::Number(1.0), &Value::None)]);
}

#[test]
fn a_pace_that_changes_much_is_told_anew_and_no_other_change() {
    let (mut pace, now) = (Pace::default(), at(100.0));
    let mut news = |secs: f64, remaining: f64| {
        let now = now.after_secs(secs);
        pace.hear(now, &Hint { remaining, reset: 100.0, ..Hint::default() }, 0, LONGEST);
        let paced = pace.limiting(now, pace.rate(now));
        pace.news(now, paced.as_ref())
    };
    assert_eq!(news(0.0, 100.5), Some((None, Some(1.0))));
    assert_eq!(news(1.0, 10.5), None, "too soon");
    assert_eq!(news(61.0, 60.5), None, "too little");
    assert_eq!(news(62.0, 50.5), Some((Some(1.0), Some(0.5))));
}

#[test]
fn a_wake_asks_first_and_then_headers_count_for_nothing_for_an_hour_until_undone() {
    let (mut controller, host) = world(20.0);
    let hint = Hint { remaining: 60.5, reset: 60.0, ..Hint::default() };
    told(&mut controller, 1.0, &hint);
    let asked = controller.command(at(2.0), Command::Wake(WakeEven::Own), &[host], "");
    assert_eq!((asked.changed, &*asked.skipped), (0, &[(host, SkipReason::ServerAsked)][..]));
    assert_eq!(controller.command(at(2.0), Command::Wake(WakeEven::Asked), &[host], "").changed, 1);
    let view = controller.view(at(2.0), host).expect("a host");
    assert_eq!((view.paced, view.effective.rate), (None, 20.0));
    assert_eq!(told(&mut controller, 2.5, &hint).paced, None);
    assert_eq!(
        controller.command(at(3.0), Command::Wake(WakeEven::Own), &[host], "").skipped[0].1,
        SkipReason::NotHeld
    );
    assert_eq!(controller.command(at(3.0), Command::Undo, &[], "").changed, 1);
    assert!(told(&mut controller, 4.0, &hint).paced.is_some(), "believed again");
    assert_eq!(controller.command(at(5.0), Command::Redo, &[], "").changed, 1);
    assert_eq!(told(&mut controller, 6.0, &hint).paced, None);
    assert!(told(&mut controller, 3_700.0, &hint).paced.is_some(), "an hour later");
    // A pause, too; undo has it waited out again.
    controller.hint(at(3_701.0), host, Lane(0), &Hint { remaining: 0.0, ..hint }, false);
    controller.command(at(3_702.0), Command::Wake(WakeEven::Asked), &[host], "");
    assert!(controller.next(at(3_703.0)).is_some());
    controller.command(at(3_704.0), Command::Undo, &[], "");
    assert!(controller.next(at(3_761.0)).is_none() && controller.next(at(3_761.2)).is_some());
}

#[test]
fn a_bare_refusal_with_requests_left_is_github_s_second_limit_and_waits_a_minute_doubling() {
    let left =
        [("x-ratelimit-remaining", "4000"), ("x-ratelimit-reset", "1700003600"), ("x-ratelimit-resource", "core")];
    let hint = read(&left).expect("a hint");
    let (mut controller, host) = world(10.0);
    let mut now = 1.0;
    for wait in [60.0, 120.0, 240.0, 480.0] {
        let grant = controller.next(at(now)).expect("a token");
        controller.hint(at(now), host, Lane(0), &hint, true);
        assert_eq!(answer(&mut controller, at(now), &grant, 429, None), Outcome::Throttled);
        let hold = controller.hold(host).expect("held");
        assert!((wait..wait + 1.01).contains(&hold.until.secs_since(at(now))), "{wait}: {hold:?}");
        let why = controller.take_decisions().into_iter().rfind(|one| one.what == What::Hold).expect("told").why;
        assert_eq!(why, "429 without Retry-After, a secondary limit: its headers say that requests are left");
        now = hold.until.as_secs_f64() + 0.01;
    }
    // With a word of how long that counts, without the sign of such a service it is a refusal as any.
    for (headers, asked, status, most) in [
        (&[left[0], left[1], left[2], ("Retry-After", "2")][..], Some(2), 429, 7.0),
        (&left[..2], None, 429, 7.0),
        (&left, None, 200, 0.0),
    ] {
        let (mut controller, host) = world(10.0);
        let grant = controller.next(at(1.0)).expect("a token");
        controller.hint(at(1.0), host, Lane(0), &read(headers).expect("a hint"), status == 429);
        answer(&mut controller, at(1.0), &grant, status, asked);
        let held = controller.hold(host).map_or(0.0, |hold| hold.until.secs_since(at(1.0)));
        assert!(held <= most, "{headers:?}: {held}");
    }
}

#[test]
fn github_says_with_403_that_a_window_is_used_up() {
    let used_up = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000600"), ("x-ratelimit-limit", "5000")];
    for status in [403, 429] {
        let (mut controller, host) = world(10.0);
        let grant = controller.next(at(1.0)).expect("tokens");
        controller.hint(at(1.1), host, Lane(0), &read(&used_up).expect("a hint"), true);
        assert_eq!(answer(&mut controller, at(1.1), &grant, status, None), Outcome::Throttled, "{status}");
        assert!(controller.next(at(600.0)).is_none(), "{status}: until the window is over");
        assert!(controller.next(at(603.0)).is_some(), "{status}");
        let learned = controller.learned(at(603.0), host).expect("a host");
        assert_eq!(learned.rate, 10.0, "{status}: it said why, so nothing is learned of the rate");
    }
    // A limit on bursts tells how long; without a word a 403 is what it is.
    let (mut controller, _) = world(10.0);
    let grants = [controller.next(at(1.0)).expect("tokens"), controller.next(at(1.0)).expect("tokens")];
    assert_eq!(answer(&mut controller, at(1.1), &grants[0], 403, None), Outcome::ClientError);
    assert_eq!(answer(&mut controller, at(1.2), &grants[1], 403, Some(60)), Outcome::Throttled);
}
