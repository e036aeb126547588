//! The controller `adaptive` after nothing was asked for a while: minutes, hours, a week. Virtual time.

use std::time::Duration;

use crawldeck::control::prior::Advice;
use crawldeck::control::{Command, ControllerKind, Lane, Lifetime, Mono, Original, Outcome, Policy, Settings};
use proptest::prelude::*;

use crate::support::virtual_host::{BucketServer, VirtualHost};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3_600.0;
const DAY: f64 = 86_400.0;

/// How a host comes to be asked nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Absence {
    /// Nothing is queued.
    Idle,
    /// The operator paused it.
    Paused,
}

fn world(cold_start: bool) -> VirtualHost {
    let policy = Policy {
        original: Original { rate: 10.0, capacity: 10.0 },
        connections: 20,
        kind: ControllerKind::Adaptive,
        ..Policy::default()
    };
    VirtualHost::new(Settings { policies: vec![policy], cold_start, ..Settings::default() })
}

fn run(world: &mut VirtualHost, server: &mut BucketServer, secs: f64) {
    world.run_until(world.now.after_secs(secs), |now, _| server.answer(now, 50));
}

/// A host that has been asked for 25 minutes, and what it was found to bear.
fn settled(server: &mut BucketServer) -> VirtualHost {
    let mut world = world(true);
    world.queue(Lane(0), 10_000_000);
    run(&mut world, server, 25.0 * MINUTE);
    // It may just be asking for more.
    for _ in 0..600 {
        if (rate(&world) / server.rate - 1.0).abs() < 0.1 {
            return world;
        }
        run(&mut world, server, 1.0);
    }
    panic!("{} of {}", rate(&world), server.rate);
}

fn rate(world: &VirtualHost) -> f64 {
    world.controller.view(world.now, world.host).expect("the host").adaptive.rate
}

/// Nothing is asked for so long; then there is work again.
fn away(world: &mut VirtualHost, server: &mut BucketServer, absence: Absence, secs: f64) {
    let host = world.host;
    match absence {
        Absence::Idle => world.unqueue(Lane(0)),
        Absence::Paused => {
            world.controller.command(world.now, Command::Pause(Lifetime::Default), &[host], "");
        }
    }
    // What is under way comes back at first; what was refused is taken out with the rest.
    run(world, server, 5.0);
    if absence == Absence::Idle {
        world.unqueue(Lane(0));
    }
    let before = world.arrivals.len();
    run(world, server, secs - 5.0);
    assert_eq!(world.arrivals.len(), before, "{absence:?}");
    match absence {
        Absence::Idle => world.queue(Lane(0), 10_000_000),
        Absence::Paused => {
            world.controller.command(world.now, Command::Resume, &[host], "");
        }
    }
}

/// Requests in the first seconds since `from`.
fn sent(world: &VirtualHost, from: Mono, secs: f64) -> f64 {
    let until = from.after_secs(secs);
    world.arrivals.iter().filter(|one| one.at >= from && one.at < until).count() as f64
}

/// Refusals since a moment.
fn refused(world: &VirtualHost, from: Mono) -> usize {
    world.outcomes.iter().filter(|(at, outcome)| *at >= from && *outcome == Outcome::Throttled).count()
}

/// The least rate from now on.
fn least_of(world: &mut VirtualHost, server: &mut BucketServer, secs: u32) -> f64 {
    (0..secs).fold(f64::INFINITY, |least, _| {
        run(world, server, 1.0);
        least.min(rate(world))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// From 10 minutes on the count since the last mark says nothing more: the gap is not taken for a low limit, and
    /// what the server saved up meanwhile not for a high one.
    #[test]
    fn after_ten_minutes_the_count_that_was_under_way_measures_nothing(
        limit in 1.0..6.0_f64, burst in 3.0..20.0_f64, minutes in 10.0..59.0_f64, paused in any::<bool>(),
    ) {
        let mut server = BucketServer::new(limit, burst);
        let mut world = settled(&mut server);
        let before = rate(&world);
        away(&mut world, &mut server, if paused { Absence::Paused } else { Absence::Idle }, minutes * MINUTE);
        let back = world.now;
        let least = least_of(&mut world, &mut server, 1_200);
        prop_assert!(least > 0.7 * before, "{least}/s after {before}/s at a limit of {limit}");
        let goodput = sent(&world, back.after_secs(600.0), 600.0) / (600.0 * limit);
        prop_assert!((0.85..1.05).contains(&goodput), "{goodput} of {limit}/s");
        // The budget twice.
        prop_assert!(refused(&world, back) <= 16, "{} in twenty minutes", refused(&world, back));
    }
}

#[test]
fn after_an_hour_it_begins_at_seven_tenths_and_comes_back_at_once() {
    for absence in [Absence::Idle, Absence::Paused] {
        for hours in [0.9, 1.1, 8.0, 100.0] {
            let mut server = BucketServer::new(2.0, 10.0);
            let mut world = settled(&mut server);
            let known = rate(&world);
            away(&mut world, &mut server, absence, hours * HOUR);
            let back = world.now;
            run(&mut world, &mut server, 1.0);
            let begun = rate(&world) / known;
            let expected = if hours < 1.0 { 0.97..=1.03 } else { 0.68..=0.87 };
            assert!(expected.contains(&begun), "{absence:?}, {hours} h: {begun} of {known}/s");
            // Nothing of what it might have sent meanwhile: one at once, and the others spaced.
            assert!(sent(&world, back, 1.0) <= 1.0 + 2.0, "{absence:?}, {hours} h: {}", sent(&world, back, 1.0));
            run(&mut world, &mut server, 14.0);
            assert!((0.95..1.06).contains(&(rate(&world) / known)), "{absence:?}, {hours} h: {}", rate(&world));
            run(&mut world, &mut server, 30.0 * MINUTE);
            let (goodput, refused) = (sent(&world, back, 30.0 * MINUTE) / 3_600.0, refused(&world, back));
            assert!(goodput > 0.96 && refused <= 16, "{absence:?}, {hours} h: {goodput}, {refused} refused");
        }
    }
}

#[test]
fn what_is_older_than_a_week_is_dropped() {
    for absence in [Absence::Idle, Absence::Paused] {
        for days in [6.9, 7.1, 40.0] {
            // Meanwhile it bears a fifth.
            let mut server = BucketServer::new(5.0, 10.0);
            let mut world = settled(&mut server);
            away(&mut world, &mut server, absence, days * DAY);
            server.rate = 1.0;
            let back = world.now;
            run(&mut world, &mut server, 2.0);
            let begun = rate(&world);
            if days < 7.0 {
                assert!(begun > 3.0, "{absence:?}, {days} d: {begun}");
                continue;
            }
            // As a host that nothing is known of.
            assert!(begun <= 0.5 && sent(&world, back, 2.0) <= 2.0, "{absence:?}, {days} d: {begun}");
            let said = world.controller.view(world.now, world.host).expect("the host").why_at(world.now);
            let said = said.expect("a why").to_string();
            assert!(!said.contains("measured"), "{absence:?}, {days} d: {said}");
            run(&mut world, &mut server, 20.0 * MINUTE);
            assert!((0.9..1.1).contains(&rate(&world)), "{absence:?}, {days} d: {}", rate(&world));
        }
    }
}

/// The hold of a refusal ends while nobody may ask: the block was not as long as that.
#[test]
fn a_pause_within_a_refusal_is_not_taken_for_a_block_of_the_server() {
    for hours in [0.3, 2.0, 30.0] {
        let mut server = BucketServer::new(2.0, 10.0);
        let mut world = settled(&mut server);
        let known = rate(&world);
        // Until the next refusal.
        let seen = world.outcomes.len();
        while !world.outcomes[seen..].iter().any(|(_, outcome)| *outcome == Outcome::Throttled) {
            run(&mut world, &mut server, 0.05);
        }
        let host = world.host;
        world.controller.command(world.now, Command::Pause(Lifetime::Default), &[host], "");
        run(&mut world, &mut server, hours * HOUR);
        world.controller.command(world.now, Command::Resume, &[host], "");
        let back = world.now;
        let least = least_of(&mut world, &mut server, 1_800);
        assert!(least > 0.6 * known, "{hours} h: down to {least} from {known}/s");
        let goodput = sent(&world, back, 1_800.0) / 3_600.0;
        assert!(goodput > 0.95, "{hours} h: {goodput}");
        // The next refusal is waited out as ever, not for as long as the pause was.
        let longest =
            world.arrivals.windows(2).filter(|pair| pair[0].at >= back).map(|pair| pair[1].at.since(pair[0].at));
        let longest = longest.max().unwrap_or_default();
        assert!(longest < Duration::from_secs(10), "{hours} h: {longest:?}");
        // And it goes on asking whether the limit has risen, as where refusals are cheap.
        server.rate = 6.0;
        run(&mut world, &mut server, 40.0 * MINUTE);
        assert!(rate(&world) > 5.0, "{hours} h: {}", rate(&world));
    }
}

/// A limit that is expected of this hour, by a prior that has proven itself, beats what was known an hour ago.
#[test]
fn what_a_prior_expects_is_where_it_begins_after_an_hour() {
    let mut server = BucketServer::new(2.0, 10.0);
    let mut world = settled(&mut server);
    away(&mut world, &mut server, Absence::Idle, 2.0 * HOUR);
    world.controller.advise(world.now, world.host, &Advice { limit: 6.0, factor: 1.0 });
    server.rate = 6.0;
    run(&mut world, &mut server, 20.0);
    assert!((5.5..6.6).contains(&rate(&world)), "{}", rate(&world));
}
