//! What is said of a number is true, whatever led to it.

use std::time::Duration;

use proptest::prelude::*;

use super::super::tests::{ORIGINAL, bounds, events};
use super::super::{Observation, RateController as _, Signal};
use super::*;
use crate::control::Original;
use crate::control::adaptive::Bounds;
use crate::control::prior::{Advice, Measured, Seed};

const WHY: Why = Why {
    rate: 2.0,
    doing: Doing::Cruising,
    basis: Basis::Measured { answers: 405.0, secs: 202.5 },
    apart: Apart::AsDoing,
    next: Next::In(240.0),
    refused: 3,
    budget: 8,
    stops_at: 0,
    erring: false,
};

#[test]
fn the_number_is_told_with_its_evidence() {
    let said = WHY.to_string();
    assert_eq!(
        said,
        "2.00/s: measured, 405 answers in 202.5 s between two refusals; next probe in 4 min; refusals 3 of 8"
    );
    let erring = Why { erring: true, ..WHY };
    assert!(erring.to_string().ends_with("two refusals; errors only, so no higher until a success; refusals 3 of 8"));
    let why =
        Why { doing: Doing::Original, basis: Basis::Original, next: Next::Untimed, refused: 0, rate: 10.0, ..WHY };
    assert_eq!(why.to_string(), "10.00/s: no limit met yet; refusals 0 of 8");
    let why = Why { doing: Doing::Recovering, basis: Basis::Guess { first: true }, rate: 0.0123, ..why };
    assert_eq!(why.to_string(), "0.0123/s: a first guess after a refusal; recovering; refusals 0 of 8");
}

#[test]
fn why_nothing_is_asked_is_told_instead_of_a_time() {
    let ends = |why: Why, end: &str| {
        let said = why.to_string();
        assert!(said.ends_with(end), "{said}");
    };
    ends(WHY.later(100.0, false), "; next probe in 2 min; refusals 3 of 8");
    ends(WHY.later(1e4, false), "; next probe with the next answer; refusals 3 of 8");
    ends(WHY.later(0.0, true), "; no probe while held; refusals 3 of 8");
    ends(Why { doing: Doing::Climbing, ..WHY }.later(0.0, true), "; no probe while held; refusals 3 of 8");
    ends(Why { next: Next::Refused, ..WHY }, "; no probe before its refusal is over; refusals 3 of 8");
    ends(Why { next: Next::Refused, ..WHY }.later(1.0, true), "; no probe while held; refusals 3 of 8");
    let spent = Why { next: Next::Aged(3), refused: 6, stops_at: 4, ..WHY };
    ends(spent, "; no probe before 3 of 6 refusals are older than 10 minutes; refusals 6 of 8, probes stop at 4");
    let spent = Why { next: Next::Aged(1), refused: 4, ..spent };
    ends(spent, "; no probe before 1 of 4 refusals is older than 10 minutes; refusals 4 of 8, probes stop at 4");
    let original = Why { doing: Doing::Original, basis: Basis::Original, next: Next::Untimed, ..WHY };
    ends(original.later(0.0, true), "no limit met yet; refusals 3 of 8");
}

#[test]
fn a_number_that_is_not_what_its_evidence_gives_names_both_and_why() {
    let measured = Basis::Measured { answers: 33.0, secs: 16.8 };
    let rows: &[(f64, Doing, Basis, Apart, &str)] = &[
        (1.95, Doing::Cruising, measured, Apart::Spare, "1.95/s: measured, 33 answers in 16.8 s between two refusals"),
        (
            1.74,
            Doing::Cruising,
            measured,
            Apart::Budget,
            "1.74/s: measured 1.96/s, 33 answers in 16.8 s between two refusals; 11 % below it as the budget is spent",
        ),
        (
            2.16,
            Doing::Cruising,
            measured,
            Apart::Steps,
            "2.16/s: measured 1.96/s, 33 answers in 16.8 s between two refusals; 10 % above it going up in steps",
        ),
        (
            2.16,
            Doing::Probing,
            measured,
            Apart::AsDoing,
            "2.16/s: measured 1.96/s, 33 answers in 16.8 s between two refusals",
        ),
        (5.7, Doing::Cruising, Basis::Remembered(5.78), Apart::Spare, "5.70/s: remembered from an earlier run"),
        (
            5.55,
            Doing::Cruising,
            Basis::Remembered(5.78),
            Apart::Old,
            "5.55/s: remembered 5.78/s from an earlier run; 4 % below it as that is old",
        ),
        (
            3.0,
            Doing::Recovering,
            Basis::Foretold(4.0),
            Apart::AsDoing,
            "3.00/s: foretold 4.00/s by earlier runs; 25 % below it",
        ),
        (0.8, Doing::Cruising, Basis::Slowness, Apart::AsDoing, "0.80/s: faster made the server slow"),
        (5.0, Doing::Cruising, Basis::Silence, Apart::AsDoing, "5.00/s: requests without an answer lowered it"),
        (10.0, Doing::Original, Basis::Borne, Apart::AsDoing, "10.00/s: the original, which it bears now"),
    ];
    for (rate, doing, basis, apart, expected) in rows {
        let why = Why { rate: *rate, doing: *doing, basis: *basis, apart: *apart, ..WHY };
        let said = why.to_string();
        assert!(said.starts_with(&format!("{expected}; ")), "{said}");
        let apart = |text: &str| text.contains("% below it") || text.contains("% above it");
        assert_eq!(apart(&said), apart(expected), "{said}");
    }
}

/// What is told of the next probe is when `advance` begins it, budget and round times included.
#[test]
fn the_time_told_is_the_time_of_the_probe() {
    let at = Mono::from_secs_f64;
    let begun = at(10_000.0);
    let told = |refused: u32, valid: bool, dropped: f64| {
        let mut arc = Arc::new(Original { rate: 10.0, capacity: 10.0 });
        (arc.known, arc.limit, arc.budget, arc.refused) = (true, 2.0, 8, refused);
        (arc.phase, arc.since, arc.learned.moved_at, arc.learned.valid) = (Phase::Cruise, begun, begun, valid);
        if dropped > 0.0 {
            (arc.learned.best, arc.learned.best_at, arc.learned.dropped_at, arc.learned.valid) =
                (9.0, begun, at(dropped), true);
            arc.learned.moved_at = at(1.0);
        }
        arc
    };
    for arc in [
        told(0, false, 0.0),
        told(3, false, 0.0),
        told(0, true, 0.0),
        told(3, true, 0.0),
        told(0, true, 9_200.0),
        told(3, true, 9_200.0),
    ] {
        // The age of what is believed grows meanwhile, and a cruise with it: told anew it comes nearer.
        let mut now = begun;
        while let Next::In(left) = arc.next_probe(now) {
            let mut asked = arc.clone();
            asked.advance(now);
            assert_eq!(asked.phase == Phase::Probe, left == 0.0, "{left} s at {now:?}");
            if left == 0.0 {
                break;
            }
            now = now.after_secs(left.max(0.001));
        }
        assert_eq!(arc.next_probe(now), Next::In(0.0));
    }
    for valid in [false, true] {
        let spent = told(6, valid, 0.0);
        assert_eq!(spent.next_probe(begun.after_secs(1.0)), Next::Aged(3), "a budget of which half is used");
        assert_eq!(spent.explain(begun.after_secs(1.0)).stops_at, 4);
        let mut asked = spent.clone();
        asked.advance(begun.after_secs(599.0));
        assert_eq!(asked.phase, Phase::Cruise);
        assert_eq!(spent.next_probe(begun.after_secs(600.0)), Next::In(0.0));
        asked.advance(begun.after_secs(600.0));
        assert_eq!(asked.phase, Phase::Probe);
    }
}

fn remembered(limit: f64, age: u64) -> Seed {
    let measured = Measured {
        limit,
        burst: 0.0,
        samples: 300.0,
        drift: 0.0,
        steady: 600.0,
        block: 0.0,
        lockout: false,
        proven: false,
        banned: 0,
    };
    Seed { measured, age: Duration::from_secs(age), of_the_hour: false }
}

/// So many requests at their slots; `answer` tells what comes of each, and after how many seconds.
fn drive(arc: &mut Arc, now: &mut f64, bounds: &Bounds, requests: u32, answer: impl Fn(u32, f64) -> (Signal, f64)) {
    let at = Mono::from_secs_f64;
    for turn in 0..requests {
        *now += 1.0 / arc.target(at(*now)).rate;
        arc.on_send(at(*now), bounds);
        let (signal, latency) = answer(turn, *now);
        let observation = Observation { signal, sent: at(*now), probe: false, latency };
        *now += latency.min(0.05);
        arc.on_outcome(at(*now), bounds, &observation);
    }
}

fn said(arc: &Arc, now: f64) -> String {
    arc.explain(Mono::from_secs_f64(now)).to_string()
}

#[test]
fn after_a_cut_for_latency_nothing_is_remembered() {
    let (mut arc, mut now) = (Arc::new(ORIGINAL), 1.0);
    assert!(arc.seed(Mono::from_secs_f64(now), &bounds(0), &remembered(5.78, 60)));
    assert!(said(&arc, now).contains("/s: remembered from an earlier run; next probe in "), "{}", said(&arc, now));
    drive(&mut arc, &mut now, &bounds(0), 10, |_, _| (Signal::Success, 0.1));
    drive(&mut arc, &mut now, &bounds(0), 60, |_, _| (Signal::Success, 3.0));
    assert!(arc.limit < 4.0, "{}", arc.limit);
    assert!(said(&arc, now).contains("/s: faster made the server slow; "), "{}", said(&arc, now));
}

#[test]
fn where_nothing_was_refused_nobody_tells_of_a_refusal() {
    // Connections are reset: from the original, and from what was remembered.
    for seed in [None, Some(remembered(5.78, 60))] {
        let (mut arc, mut now) = (Arc::new(ORIGINAL), 1.0);
        if let Some(seed) = seed {
            arc.seed(Mono::from_secs_f64(now), &bounds(0), &seed);
        }
        drive(&mut arc, &mut now, &bounds(0), 30, |turn, _| {
            (if turn > 20 { Signal::Silent } else { Signal::Success }, 0.1)
        });
        assert!(said(&arc, now).contains("/s: requests without an answer lowered it; "), "{}", said(&arc, now));
    }
    // A warm host asks for more.
    let (mut arc, mut now) = (Arc::new(ORIGINAL), 1.0);
    arc.seed(Mono::from_secs_f64(now), &bounds(0), &remembered(5.78, 60));
    while arc.phase != Phase::Probe {
        drive(&mut arc, &mut now, &bounds(0), 1, |_, _| (Signal::Success, 0.1));
    }
    assert!(said(&arc, now).contains("/s: remembered from an earlier run; probing now; "), "{}", said(&arc, now));
    while arc.phase != Phase::Ceiling {
        drive(&mut arc, &mut now, &bounds(0), 1, |_, _| (Signal::Success, 0.1));
    }
    let words = "10.00/s: the original, which it bears now; refusals 0 of 8, probes stop at 4";
    assert_eq!(said(&arc, now), words);
}

#[test]
fn what_a_spent_budget_takes_off_is_named() {
    let (mut arc, mut now) = (Arc::new(ORIGINAL), 1.0);
    let at = Mono::from_secs_f64;
    (arc.known, arc.limit, arc.phase, arc.since) = (true, 2.0, Phase::Cruise, at(now));
    (arc.learned.surge.origin, arc.learned.basis, arc.learned.samples) = (Origin::Measured, (405.0, 202.5), 405.0);
    (arc.learned.moved_at, arc.learned.valid) = (at(now), true);
    drive(&mut arc, &mut now, &bounds(1), 1, |_, _| (Signal::Success, 0.1));
    assert!(said(&arc, now).contains("/s: measured, 405 answers in 202.5 s between two refusals; next"));
    let spent = Bounds { budget: 3, ..bounds(6) };
    drive(&mut arc, &mut now, &spent, 1, |_, _| (Signal::Success, 0.1));
    let words = "/s: measured 2.00/s, 405 answers in 202.5 s between two refusals; 10 % below it as the budget is spent; no probe";
    assert!(said(&arc, now).contains(words), "{}", said(&arc, now));
}

#[test]
fn each_cause_of_a_distance_is_named_where_it_takes_the_most() {
    let now = Mono::from_secs_f64(1_000.0);
    let cruising = || {
        let mut arc = Arc::new(ORIGINAL);
        (arc.known, arc.limit, arc.phase, arc.since, arc.budget) = (true, 2.0, Phase::Cruise, now, 8);
        (arc.learned.surge.origin, arc.learned.basis, arc.learned.samples) = (Origin::Measured, (405.0, 202.5), 405.0);
        (arc.learned.moved_at, arc.learned.valid) = (now, true);
        arc
    };
    let apart = |change: &dyn Fn(&mut Arc)| {
        let mut arc = cruising();
        change(&mut arc);
        arc.explain(now).apart
    };
    assert_eq!(apart(&|arc| arc.learned.margin = 0.05), Apart::Margin);
    assert_eq!(apart(&|arc| arc.learned.samples = 10.0), Apart::Spare);
    assert_eq!(apart(&|arc| arc.errors.eased = 8), Apart::Errors);
    assert_eq!(apart(&|arc| arc.limit = 1.5), Apart::Refused);
    assert_eq!(apart(&|arc| arc.limit = 3.0), Apart::Borne);
    assert_eq!(apart(&|arc| (arc.limit, arc.learned.creep) = (3.0, 2)), Apart::Steps);
    assert_eq!(apart(&|arc| arc.original.rate = 1.0), Apart::Original);
    assert_eq!(apart(&|arc| arc.refused = 17), Apart::Budget);
    assert_eq!(apart(&|arc| arc.phase = Phase::Recover), Apart::AsDoing);
    for (factor, cause) in [(0.8, Apart::Foretold), (1.05, Apart::Foretold)] {
        assert_eq!(apart(&|arc| arc.follow(now, &Advice { limit: 2.0, factor })), cause);
    }
    let mut arc = Arc::new(ORIGINAL);
    arc.seed(now, &bounds(0), &remembered(5.78, 30 * 86_400));
    assert!(arc.explain(now).to_string().contains("remembered 5.78/s from an earlier run; "));
    arc.enter(now, Phase::Cruise);
    assert_eq!(arc.explain(now).apart, Apart::Old);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_tells_of_what_was_not(
        events in events(), limit in 0.05..20.0_f64, age in 0_u64..2_000_000, warm in any::<bool>(), kinds in 0_usize..6,
    ) {
        // Some servers know only some kinds of trouble.
        let known = [
            &[Signal::Success, Signal::Answered][..],
            &[Signal::Success, Signal::Silent],
            &[Signal::Success, Signal::ServerError],
            &[Signal::Success, Signal::Refused],
            &[Signal::Success, Signal::Throttle],
            &[Signal::Success, Signal::Throttle, Signal::Refused, Signal::ServerError, Signal::Silent, Signal::Answered],
        ][kinds];
        let (mut arc, mut now) = (Arc::new(ORIGINAL), 1.0);
        let taken = warm && arc.seed(Mono::from_secs_f64(now), &bounds(0), &remembered(limit, age));
        let (mut throttled, mut banned, mut failed, mut silent) = (0, 0, 0, 0);
        for (pause, before, signal, latency, send) in events {
            now += pause;
            let (at, sent) = (Mono::from_secs_f64(now), Mono::from_secs_f64((now - before).max(0.0)));
            let signal = if known.contains(&signal) { signal } else { Signal::Success };
            if send {
                arc.on_send(at, &bounds(throttled + banned));
            } else {
                throttled += u32::from(signal == Signal::Throttle);
                banned += u32::from(signal == Signal::Refused);
                failed += u32::from(signal == Signal::ServerError);
                silent += u32::from(signal == Signal::Silent);
                arc.on_outcome(at, &bounds(throttled + banned), &Observation { signal, sent, probe: false, latency });
            }
            for later in [0.0, 30.0] {
                let why = arc.explain(Mono::from_secs_f64(now + later));
                let text = why.to_string();
                let words = text.split("; refusals ").next().unwrap_or_default();
                let implies = |word: &str, so: bool| !words.contains(word) || so;
                prop_assert!(implies("refus", throttled + banned > 0), "{text}");
                prop_assert!(implies("guess", throttled > 0), "{text}");
                prop_assert!(implies(": measured", throttled > 1), "{text}");
                prop_assert!(implies("of 403 or", banned > 0), "{text}");
                prop_assert!(implies("surge", failed >= 14), "{text}");
                prop_assert!(implies("without an answer", silent >= 2), "{text}");
                prop_assert!(implies("slow;", arc.queueing.limited()), "{text}");
                prop_assert!(implies("no limit met yet", throttled + banned == 0), "{text}");
                prop_assert!(implies("remembered", taken), "{text}");
                if let Some(of) = why.basis.rate() {
                    let far = (why.rate / of - 1.0).abs() > 0.0201;
                    prop_assert!(!far || words.contains(&format!(" {}/s", Rate(of))), "{text}");
                    if words.contains("remembered") {
                        prop_assert!((of / limit - 1.0).abs() < 1e-6, "{text}");
                    }
                }
            }
        }
    }
}
