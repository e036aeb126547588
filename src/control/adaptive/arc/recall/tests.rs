//! A prior that proposes anything at any time breaks none of the controller's invariants; the numbers are those of
//! `arc/tests.rs`. And one that is right is worth something.

use std::time::Duration;

use proptest::prelude::*;

use super::super::tests::{Driven, ORIGINAL, Server, bounds, events, play};
use super::super::{ADAPTIVE_MIN_RATE, Observation, Signal};
use super::*;

fn anything() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-9.0..9.0_f64).prop_map(f64::exp),
        2 => 0.5..2.0_f64,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(0.0),
        1 => Just(-3.0),
    ]
}

fn advice() -> impl Strategy<Value = Vec<Advice>> {
    prop::collection::vec((anything(), anything()).prop_map(|(limit, factor)| Advice { limit, factor }), 1..30)
}

fn seeds() -> impl Strategy<Value = Option<Seed>> {
    let numbers = (anything(), anything(), anything(), anything(), anything());
    let seed = (numbers, 0_u64..10_000_000, any::<(bool, bool, bool)>(), 0_u32..20).prop_map(
        |((limit, burst, samples, steady, block), age, (of_the_hour, lockout, proven), banned)| Seed {
            measured: Measured {
                limit,
                burst: burst as f32,
                samples: samples as f32,
                drift: (samples / 1e3) as f32,
                steady: steady as f32,
                block: if proven { block as f32 } else { 0.0 },
                lockout,
                proven,
                banned,
            },
            age: Duration::from_secs(age),
            of_the_hour,
        },
    );
    prop::option::of(seed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn invariants_01_06_and_14_hold_under_any_proposal(
        seed in seeds(), events in events(), advice in advice(), back in 0.0..100.0_f64,
    ) {
        let (mut arc, mut now) = (Arc::new(ORIGINAL), 1.0);
        if let Some(seed) = seed {
            arc.seed(Mono::from_secs_f64(now), &bounds(0), &seed);
        }
        for (turn, event) in events.iter().enumerate() {
            play(&mut arc, &mut now, event);
            let at = Mono::from_secs_f64(now);
            arc.advise(at, &bounds(3), &advice[turn % advice.len()]);
            for later in [0.0, 0.5, 30.0, 1e5] {
                let target = arc.target(Mono::from_secs_f64(now + later));
                prop_assert!((ADAPTIVE_MIN_RATE..=ORIGINAL.rate).contains(&target.rate), "{target:?}");
                prop_assert!((1.0..=ORIGINAL.capacity).contains(&target.capacity), "{target:?}");
            }
            prop_assert!(arc.limit.is_finite() && arc.limit > 0.0, "{}", arc.limit);
            let wait = arc.pause(at).expect("a wait").secs;
            prop_assert!((0.2..=300.0).contains(&wait), "{wait}");
            let Some(cut) = arc.learned.cut else { continue };
            let sent = cut.before(Duration::from_secs_f64(back));
            let answer = |signal| Observation { signal, sent, probe: false, latency: 0.1 };
            // Time may bring a step just now, after what was proposed: it brings that with any answer.
            let mut other = arc.clone();
            other.on_outcome(at, &bounds(3), &answer(Signal::Neutral));
            arc.on_outcome(at, &bounds(3), &answer(Signal::Throttle));
            prop_assert_eq!(other.limit, arc.limit);
        }
    }

    #[test]
    fn invariants_08_and_09_hold_under_any_proposal(
        rate in 0.5..8.0_f64, burst in 3.0..60.0_f64, seed in seeds(), advice in advice(), every in 1_usize..40,
    ) {
        let (mut driven, mut server) = (Driven::new(), Server::new(rate, burst));
        if let Some(seed) = seed {
            driven.arc.seed(driven.mono(), &bounds(0), &seed);
        }
        for turn in 0..4_000_usize {
            server.rate = rate * (1.0 + 0.5 * (turn as f64 / 60.0).sin());
            let (before, began, limit) = (driven.arc.phase, driven.arc.since, driven.arc.limit);
            let probed = driven.arc.known
                && driven.arc.learned.samples >= ENOUGH
                && driven.arc.learned.episode.as_ref().is_some_and(|one| matches!(one.phase, Phase::Probe | Phase::Ceiling));
            let mut refused = false;
            driven.step(|now| {
                let signal = server.answer(now);
                refused = signal == Signal::Throttle;
                signal
            });
            if probed && driven.arc.learned.episode.is_none() {
                prop_assert!(driven.arc.limit >= limit, "8: {} after {limit}", driven.arc.limit);
            }
            if turn % every == 0 {
                let refusals = driven.refused();
                driven.arc.advise(driven.mono(), &bounds(refusals), &advice[turn / every % advice.len()]);
            }
            let known = driven.arc.refused - u32::from(refused);
            if driven.arc.phase != before && f64::from(known) >= driven.arc.allowed() {
                prop_assert!(driven.arc.phase != Phase::Climb, "9: a climb at {known} refusals");
                let rested = driven.mono().secs_since(began);
                prop_assert!(driven.arc.phase != Phase::Probe || rested >= 599.0, "9: a probe after {rested} s");
            }
        }
    }

    #[test]
    fn no_proposal_ends_a_wait_or_moves_an_estimate_meanwhile(advice in advice()) {
        let (mut driven, mut server) = (Driven::new(), Server::new(2.0, 5.0));
        for turn in 0..2_000_usize {
            driven.step(|now| server.answer(now));
            if driven.arc.learned.episode.is_some() {
                let (limit, wait) = (driven.arc.limit, driven.arc.pause(driven.mono()));
                let refusals = driven.refused();
                driven.arc.advise(driven.mono(), &bounds(refusals), &advice[turn % advice.len()]);
                prop_assert_eq!((driven.arc.limit, driven.arc.pause(driven.mono())), (limit, wait));
            }
        }
    }
}

/// Runs for so many seconds against a server that bears 2/s; how often it was refused.
fn refused_in(driven: &mut Driven, server: &mut Server, secs: f64) -> u32 {
    let (end, mut refused) = (driven.mono().after_secs(secs), 0);
    while driven.mono() < end {
        driven.step(|now| {
            let signal = server.answer(now);
            refused += u32::from(signal == Signal::Throttle);
            signal
        });
    }
    refused
}

#[test]
fn what_one_run_measured_halves_the_refusals_of_the_next() {
    let (mut cold, mut server) = (Driven::new(), Server::new(2.0, 10.0));
    let first = refused_in(&mut cold, &mut server, 3_600.0);
    let measured = cold.arc.measured(cold.mono()).expect("it measured");
    let mut warm = Driven::new();
    let seed = Seed { measured, age: Duration::from_secs(86_400), of_the_hour: false };
    assert!(warm.arc.seed(warm.mono(), &bounds(0), &seed));
    let second = refused_in(&mut warm, &mut Server::new(2.0, 10.0), 3_600.0);
    assert!(2 * second <= first, "{second} after {first}");
}

/// Each begins below what it remembers; once a probe has said that this is about the limit, it goes on at all of it.
#[test]
fn what_is_remembered_does_not_shrink_from_run_to_run() {
    let (mut driven, mut server) = (Driven::new(), Server::new(2.0, 10.0));
    refused_in(&mut driven, &mut server, 3_600.0);
    let first = driven.arc.limit;
    for run in 0..10 {
        let measured = driven.arc.measured(driven.mono()).expect("it measured");
        assert!((0.98 * first..1.05 * first).contains(&measured.limit), "run {run}: {first}, {}", measured.limit);
        driven = Driven::new();
        let seed = Seed { measured, age: Duration::from_secs(86_400), of_the_hour: false };
        assert!(driven.arc.seed(driven.mono(), &bounds(0), &seed));
        assert!(driven.arc.target(driven.mono()).rate <= 0.98 * measured.limit, "it begins below");
        refused_in(&mut driven, &mut Server::new(2.0, 10.0), 900.0);
    }
}

#[test]
fn a_ban_is_remembered_before_anything_is_measured() {
    let mut driven = Driven::new();
    for signal in [Signal::Success, Signal::Throttle, Signal::Throttle, Signal::Refused] {
        assert_eq!(driven.arc.measured(driven.mono()), None);
        driven.step(|_| signal);
    }
    let measured = driven.arc.measured(driven.mono()).expect("a ban is news");
    assert!(!driven.arc.learned.valid && measured.banned > 0 && measured.limit <= ORIGINAL.rate / 2.0, "{measured:?}");
    let mut next = Arc::new(ORIGINAL);
    let seed = Seed { measured, age: Duration::from_secs(60), of_the_hour: false };
    assert!(next.seed(driven.mono(), &bounds(0), &seed));
    assert!(next.target(driven.mono()).rate <= measured.limit && next.allowed() <= f64::from(measured.banned));
}

#[test]
fn a_limit_that_is_expected_to_have_risen_is_asked_about_at_once_and_within_the_budget() {
    let (mut driven, mut server) = (Driven::new(), Server::new(2.0, 10.0));
    refused_in(&mut driven, &mut server, 7_200.0);
    while driven.arc.phase != Phase::Cruise
        || driven.arc.learned.episode.is_some()
        || driven.mono().secs_since(driven.arc.since) > 60.0
    {
        driven.step(|now| server.answer(now));
    }
    let risen = Advice { limit: 6.0, factor: 1.0 };
    let mut spent = driven.arc.clone();
    spent.advise(driven.mono(), &bounds(8), &risen);
    assert_eq!(spent.phase, Phase::Cruise, "the budget is spent");
    driven.arc.advise(driven.mono(), &bounds(0), &risen);
    assert_eq!(driven.arc.phase, Phase::Probe);
    server.rate = 6.0;
    let began = driven.mono();
    while driven.arc.limit < 5.0 {
        driven.step(|now| server.answer(now));
        assert!(driven.mono().secs_since(began) < 300.0, "{}", driven.arc.limit);
    }
}
