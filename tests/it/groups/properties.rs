//! Properties of the group layer under any server, any command, and hosts that come and go.

use std::time::Duration;

use crawldeck::control::{Amount, Command, ControllerKind, HostId, Lifetime, Mono, OverrideSpec, Shape, Verdict};
use proptest::prelude::*;

use super::world::{World, settings, status};
use crate::support::virtual_host::Response;

#[derive(Clone, Copy, Debug)]
enum Act {
    Command(Command),
    Leave,
    Join,
    Cancel,
}

fn acts() -> impl Strategy<Value = Act> {
    let rate = (0.1_f64..50.0).prop_map(|rate| {
        let spec = OverrideSpec { rate: Some(Amount::Absolute(rate)), capacity: None, lifetime: Lifetime::Default };
        Act::Command(Command::Override(spec))
    });
    prop_oneof![
        1 => Just(Act::Command(Command::Pause(Lifetime::For(Duration::from_secs(20))))),
        1 => Just(Act::Command(Command::Resume)),
        1 => rate,
        1 => Just(Act::Command(Command::Auto)),
        1 => Just(Act::Command(Command::Reset)),
        1 => Just(Act::Command(Command::Undo)),
        2 => Just(Act::Leave),
        2 => Just(Act::Join),
        2 => Just(Act::Cancel),
    ]
}

fn answers() -> impl Strategy<Value = Response> {
    let verdict = prop_oneof![
        8 => Just(Verdict::Status(200)),
        2 => Just(Verdict::Status(429)),
        1 => Just(Verdict::Status(503)),
        1 => Just(Verdict::Status(403)),
        1 => Just(Verdict::Failed(crawldeck::control::Outcome::Connect)),
    ];
    let retry_after = prop::option::weighted(0.1, (1_u64..60).prop_map(Duration::from_secs));
    (verdict, retry_after, 1_u64..2_000).prop_map(|(verdict, retry_after, millis)| Response {
        verdict,
        retry_after,
        latency: Duration::from_millis(millis),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_envelope_of_the_group_holds_whatever_happens(
        rate in 0.5_f64..20.0,
        capacity in 1.0_f64..20.0,
        shape in prop_oneof![Just(Shape::TokenBucket), Just(Shape::LeakyBucket), Just(Shape::SlidingWindow)],
        kind in prop_oneof![Just(ControllerKind::Halving), Just(ControllerKind::Adaptive)],
        cold_start in any::<bool>(),
        answers in prop::collection::vec(answers(), 1..40),
        acts in prop::collection::vec((1_u64..30_000, 0_u32..6, acts()), 0..30),
    ) {
        let mut settings = settings(rate, capacity);
        (settings.policies[0].shape, settings.policies[0].kind) = (shape, kind);
        settings.cold_start = cold_start;
        let mut world = World::new(settings, 6, 2_000);
        world.group_all("g");
        let mut turn = 0;
        let mut told = Vec::new();
        let mut outside = [false; 6];
        let mut inside = Vec::new();
        for (millis, host, act) in acts {
            let before = world.seen.len();
            let until = world.now.after(Duration::from_millis(millis));
            world.run_until(until, |now, host| {
                turn += 1;
                let answer = answers[turn % answers.len()];
                let from = now.after(answer.latency);
                // What is answered later may be told to a host that has left by then.
                let counts = !outside[host.0 as usize] && from <= until;
                if let (Some(wait), Verdict::Status(_), true) = (answer.retry_after, answer.verdict, counts) {
                    told.push((from, from.after(wait)));
                }
                answer
            });
            inside.extend(world.seen[before..].iter().copied().filter(|(_, host)| !outside[host.0 as usize]));
            let host = HostId(host);
            match act {
                Act::Command(command) => drop(world.controller.command(world.now, command, &[host], "property")),
                // The first one stays: its view is what tells what the group has in force.
                Act::Leave if host.0 > 1 => {
                    world.controller.leave(world.now, host);
                    outside[host.0 as usize] = true;
                }
                Act::Join => {
                    world.controller.join(world.now, host, "g");
                    outside[host.0 as usize] = false;
                }
                Act::Cancel => {
                    if let Some(grant) = world.controller.next(world.now) {
                        world.controller.cancel(world.now, &grant);
                    }
                }
                Act::Leave => {}
            }
            world.note_target();
            if world.seen.len() > 1_200 { break; }
        }
        world.seen = inside;
        world.assert_one_bucket();
        // Nobody of the group is asked before a wait that one of them was told is over.
        for (at, host) in &world.seen {
            let asked: Option<&(Mono, Mono)> = told.iter().find(|(from, until)| from < at && at < until);
            prop_assert!(asked.is_none(), "{host:?} was asked at {at:?}, within {asked:?}");
        }
    }

    #[test]
    fn every_member_has_its_turn(hosts in 2_u32..40, rate in 1.0_f64..50.0, capacity in 1.0_f64..10.0) {
        let mut world = World::new(settings(rate, capacity), hosts, 10_000);
        world.group_all("g");
        world.run(f64::from(hosts) * 10.0 / rate, |_, _| status(200));
        let shares: Vec<usize> = (0..hosts).map(|host| world.sent_by(host)).collect();
        let (least, most) = (shares.iter().min(), shares.iter().max());
        prop_assert!(least.zip(most).is_some_and(|(least, most)| most - least <= 1), "{:?}", shares);
    }
}
