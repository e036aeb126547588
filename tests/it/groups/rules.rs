//! The rules of a group, each told as a small story.

use std::time::Duration;

use crawldeck::control::{
    Amount, Command, ControllerKind, HostId, HostState, Lifetime, Limiting, Mono, Outcome, OverrideSpec, Policy,
    SkipReason, Value, WakeEven, What,
};
use crawldeck::sim::{Latency, Limit, ServerModel, ServerSpec, SimRequest, Site};

use super::world::{World, settings, status};
use crate::support::virtual_host::Response;

/// A server that bears so much, from whomever.
fn bears(rate: f64, burst: f64) -> impl FnMut(Mono, HostId) -> Response {
    let latency = Latency { median: Duration::from_millis(50), sigma: 0.0 };
    let mut model = ServerModel::new(
        ServerSpec { limit: Limit::Bucket { rate, burst }, latency, site: Site::of_pages(1), ..ServerSpec::default() },
        3,
    );
    move |now, _| status(model.respond(now, &SimRequest::get("/p/0")).status)
}

#[test]
fn case_17_three_hundred_names_of_one_address_obey_one_bucket() {
    for cold_start in [false, true] {
        let mut settings = settings(2.0, 4.0);
        settings.cold_start = cold_start;
        let mut world = World::new(settings, 300, 100);
        world.group_all("127.0.0.1");
        world.run(900.0, |_, _| status(200));
        let most = 4 + 2 * 900;
        assert!((1_700..=most).contains(&world.seen.len()), "{} in 900 s", world.seen.len());
        world.assert_one_bucket();
        // Who waits longest is first: no name starves.
        let shares: Vec<usize> = (0..300).map(|host| world.sent_by(host)).collect();
        assert!(shares.iter().max() <= shares.iter().min().map(|least| least + 1).as_ref(), "{shares:?}");
        let view = world.view(7);
        assert_eq!((view.limiting, view.group.expect("shared").members), (Limiting::GroupTokens, 300));
    }
}

#[test]
fn case_17_each_name_by_itself_floods_the_server_without_a_group() {
    let mut world = World::new(settings(2.0, 4.0), 300, 100);
    world.run(1.0, |_, _| status(200));
    assert!(world.seen.len() > 100, "the judge can condemn: {}", world.seen.len());
}

#[test]
fn a_refusal_of_one_holds_all_and_one_probe_opens_them() {
    let mut world = World::new(settings(10.0, 10.0), 5, 1_000);
    world.group_all("g");
    let mut refuse = true;
    world.run(4.0, |now, host| {
        if host == HostId(3) && now.as_secs_f64() > 2.0 && std::mem::take(&mut refuse) {
            status(429)
        } else {
            status(200)
        }
    });
    let refused = world.outcomes.iter().find(|(.., outcome)| *outcome == Outcome::Throttled).expect("refused").0;
    for host in 0..5 {
        assert_eq!((world.view(host).state, world.view(host).limiting), (HostState::Back, Limiting::Held), "{host}");
        assert!(world.view(host).hold.is_some_and(|hold| hold.until >= refused.after_secs(5.0)), "{host}");
    }
    world.run(9.0, |_, _| status(200));
    let held: Vec<_> = world.seen.iter().filter(|(at, _)| *at > refused && *at < refused.after_secs(5.0)).collect();
    assert_eq!(held, Vec::<&(Mono, HostId)>::new(), "nothing goes out under the group's hold");
    let after: Vec<Mono> = world.seen.iter().map(|(at, _)| *at).filter(|at| *at >= refused.after_secs(5.0)).collect();
    assert!(after[1] >= after[0].after_secs(0.05), "one probe, and the others after its answer: {after:?}");
    assert!(after.len() > 20, "then it goes on: {}", after.len());
    let told: Vec<What> = world
        .decisions
        .iter()
        .map(|one| one.what)
        .filter(|what| matches!(what, What::GroupHold | What::GroupOpen | What::GroupRate))
        .collect();
    assert_eq!(told[..3], [What::GroupHold, What::GroupRate, What::GroupOpen]);
    assert!(
        world
            .decisions
            .iter()
            .all(|one| one.what != What::Hold && (one.what != What::Rate || one.before == Value::None)),
        "no member has a hold or a cut of its own"
    );
    world.assert_one_bucket();
}

#[test]
fn what_a_server_asks_one_of_them_all_wait_for() {
    let mut world = World::new(settings(10.0, 10.0), 4, 1_000);
    world.group_all("g");
    let mut first = true;
    let asks = Response { retry_after: Some(Duration::from_secs(600)), ..status(503) };
    world.run(599.0, |_, _| if std::mem::take(&mut first) { asks } else { status(200) });
    let told = world.outcomes[0].0;
    assert!(world.seen.iter().all(|(at, _)| *at <= told), "what was out already, and nothing more");
    let [host] = [HostId(2)];
    let wake = |world: &mut World, even| world.controller.command(world.now, Command::Wake(even), &[host], "");
    assert_eq!(wake(&mut world, WakeEven::Own).skipped, [(host, SkipReason::ServerAsked)]);
    assert_eq!(wake(&mut world, WakeEven::Asked).changed, 1);
    assert!(world.controller.next(world.now).is_some(), "the wake of one member is the wake of all");
    let undone = world.controller.command(world.now, Command::Undo, &[], "");
    assert_eq!(undone.changed, 1);
    assert!(world.controller.next(world.now).is_none());
    assert!(world.view(0).hold.is_some(), "the hold of all stands again");
}

#[test]
fn pauses_and_overrides_are_each_hosts_own() {
    let mut world = World::new(settings(4.0, 4.0), 4, 10_000);
    world.group_all("g");
    world.controller.command(world.now, Command::Pause(Lifetime::Default), &[HostId(0)], "");
    let slow = OverrideSpec { rate: Some(Amount::Absolute(0.1)), capacity: None, lifetime: Lifetime::Default };
    world.controller.command(world.now, Command::Override(slow), &[HostId(1)], "");
    world.run(100.0, |_, _| status(200));
    assert_eq!(world.sent_by(0), 0);
    assert!((10..=14).contains(&world.sent_by(1)), "{}", world.sent_by(1));
    assert!(world.sent_by(2) + world.sent_by(3) >= 380, "the others have what is left");
    assert_eq!((world.view(0).state, world.view(2).state), (HostState::Paused, HostState::Run));
    // An override beyond what the group bears lifts nothing.
    let fast = OverrideSpec { rate: Some(Amount::Absolute(1_000.0)), capacity: None, lifetime: Lifetime::Default };
    world.controller.command(world.now, Command::Override(fast), &[HostId(2)], "");
    world.run(100.0, |_, _| status(200));
    world.assert_one_bucket();
    assert!(world.view(2).effective.rate <= 4.0);
}

#[test]
fn an_unused_grant_returns_the_tokens_of_all_layers() {
    let mut settings = settings(2.0, 4.0);
    settings.global_rate = Some(1_000.0);
    let mut world = World::new(settings, 3, 10);
    world.group_all("g");
    let tokens = |world: &World, host| (world.view(host).tokens, world.view(host).group.expect("shared").tokens);
    for _ in 0..50 {
        let grant = world.controller.next(world.now).expect("tokens");
        assert_eq!(world.view(0).group.expect("shared").in_flight, 1);
        world.controller.cancel(world.now, &grant);
        assert_eq!(tokens(&world, grant.host.0), (4.0, 4.0));
    }
    assert_eq!(world.view(0).group.expect("shared").in_flight, 0);
    let grants = std::iter::from_fn(|| world.controller.next(world.now)).count();
    assert_eq!(grants, 4, "as many as the bucket holds, and no more");
}

#[test]
fn the_group_learns_as_one_host_would_and_its_members_do_not() {
    for kind in [ControllerKind::Halving, ControllerKind::Adaptive] {
        let play = |hosts: u32| {
            let mut settings = settings(10.0, 10.0);
            settings.policies[0].kind = kind;
            let mut world = World::new(settings, hosts, 100_000);
            world.group_all("g");
            world.run(2.0 * 3_600.0, bears(2.0, 10.0));
            let refused = world.outcomes.iter().filter(|(.., outcome)| *outcome == Outcome::Throttled).count();
            let goodput = (world.outcomes.len() - refused) as f64 / 14_400.0;
            (world, goodput, refused)
        };
        let (_, alone, refused_alone) = play(1);
        let (world, goodput, refused) = play(10);
        assert!(goodput > alone - 0.02, "{kind:?}: {goodput}, alone {alone}");
        assert!(refused <= refused_alone * 3 / 2 + 5, "{kind:?}: {refused} refused, alone {refused_alone}");
        world.assert_one_bucket();
        assert!(world.view(4).adaptive.rate < 2.5, "{:?}", world.view(4).adaptive);
        let shares: Vec<usize> = (0..10).map(|host| world.sent_by(host)).collect();
        assert!(shares.iter().max() <= shares.iter().min().map(|least| least + 80).as_ref(), "{shares:?}");
    }
}

#[test]
fn a_run_of_403_at_one_holds_all_until_one_got_through_and_the_host_longer() {
    let mut world = World::new(settings(10.0, 2.0), 3, 10_000);
    world.group_all("g");
    world.run(400.0, |now, host| if host == HostId(0) && now.as_secs_f64() > 5.0 { status(403) } else { status(200) });
    let blocked = world.outcomes.iter().find(|(.., outcome)| *outcome == Outcome::Refused).expect("blocked").0;
    let during = world.seen.iter().filter(|(at, _)| *at > blocked && *at < blocked.after_secs(300.0)).count();
    assert_eq!(during, 0);
    assert!(world.view(1).state != HostState::Block && world.view(1).hold.is_none(), "{:?}", world.view(1).hold);
    // Its own probe is refused again and again: the others go on.
    world.run(3_000.0, |_, host| if host == HostId(0) { status(403) } else { status(200) });
    assert_eq!(world.view(0).state, HostState::Block);
    let late = world.seen.iter().filter(|(at, host)| *at > blocked.after_secs(400.0) && *host != HostId(0)).count();
    assert!(late > 25_000 / 2 && world.sent_by(0) < 40, "{late}, {}", world.sent_by(0));
}

#[test]
fn trouble_on_the_way_to_one_is_its_own() {
    use crawldeck::control::Verdict;
    let mut world = World::new(settings(5.0, 5.0), 3, 10_000);
    world.group_all("g");
    let dead = Response { verdict: Verdict::Failed(Outcome::Connect), ..status(0) };
    world.run(200.0, |_, host| if host == HostId(0) { dead } else { status(200) });
    assert_eq!(world.view(0).state, HostState::Back);
    assert!(world.view(1).hold.is_none() && world.sent_by(1) + world.sent_by(2) > 800);
}

#[test]
fn wanted_11_hosts_share_one_bucket_live_and_part_again() {
    let mut world = World::new(settings(4.0, 8.0), 3, 100_000);
    world.run(60.0, |_, _| status(200));
    assert!(world.seen.len() > 700, "three buckets: {}", world.seen.len());
    // From now on they share one; what they saved up is gone, and the envelope of one bucket holds at once.
    world.seen.clear();
    world.group_all("example.com");
    world.run(60.0, |_, _| status(200));
    world.assert_one_bucket();
    assert!((235..=8 + 240).contains(&world.seen.len()), "{}", world.seen.len());
    let told = world.decisions.iter().filter(|one| one.what == What::Group).count();
    assert_eq!(told, 3);
    // A wait that one was told goes along when they part.
    let mut first = true;
    let asks = Response { retry_after: Some(Duration::from_secs(900)), ..status(429) };
    world.run(1.0, |_, _| if std::mem::take(&mut first) { asks } else { status(200) });
    world.controller.dissolve_groups(world.now);
    for host in 0..3 {
        assert!(world.view(host).group.is_none() && world.view(host).hold.is_some(), "{host}");
    }
    let sent = world.seen.len();
    world.run(890.0, |_, _| status(200));
    assert_eq!(world.seen.len(), sent);
    world.run(60.0, |_, _| status(200));
    assert!(world.seen.len() > sent + 200, "each by itself again, at what the group had learned");
}

#[test]
fn what_hosts_learned_before_is_the_groups_when_they_join() {
    let mut world = World::new(settings(16.0, 16.0), 2, 100_000);
    let mut limits = [bears(2.0, 4.0), bears(4.0, 4.0)];
    world.run(600.0, |now, host| limits[host.0 as usize](now, host));
    let learned = world.view(1).adaptive.rate;
    assert!(learned < 8.0, "{learned}");
    world.group_all("g");
    let group = world.view(0).group.expect("shared");
    assert_eq!(group.adaptive.rate, learned, "what the one bore that bore more");
    assert!(group.tokens <= 0.0 && group.effective.rate == learned, "{group:?}");
}

#[test]
fn a_group_is_as_good_as_the_best_of_its_members() {
    let mut settings = settings(2.0, 4.0);
    settings
        .policies
        .push(Policy { original: crawldeck::control::Original { rate: 0.5, capacity: 9.0 }, ..Policy::default() });
    let mut world = World::new(settings, 2, 10);
    let slow = world.controller.add_host(crawldeck::control::PolicyId(1));
    world.group_all("g");
    world.controller.join(world.now, slow, "g");
    let original = world.view(0).group.expect("shared").original;
    assert_eq!((original.rate, original.capacity), (2.0, 9.0));
    world.controller.leave(world.now, slow);
    assert_eq!(world.view(0).group.expect("shared").original.capacity, 4.0);
}

#[test]
fn a_group_goes_on_over_a_restart_as_it_was() {
    let mut world = World::new(settings(10.0, 10.0), 3, 1_000);
    world.group_all("g");
    let asks = Response { retry_after: Some(Duration::from_secs(600)), ..status(429) };
    world.run(30.0, |now, host| if host == HostId(1) && now.as_secs_f64() > 20.0 { asks } else { status(200) });
    let before = world.view(0).group.expect("shared");
    let groups = world.controller.take_unsaved_groups();
    assert_eq!(groups.len(), 1);
    let json = serde_json::to_string(&groups[0].1).expect("plain data");
    let hosts: Vec<String> = (0..3)
        .map(|host| serde_json::to_string(&world.controller.saved(HostId(host)).expect("asked")).expect("plain data"))
        .collect();
    let mut after = World::new(settings(10.0, 10.0), 3, 1_000);
    after.now = world.now;
    after.controller.all_resumed(after.now);
    after.controller.restore_group(after.now, "g", serde_json::from_str(&json).expect("its own words"));
    for (host, json) in (0..).map(HostId).zip(&hosts) {
        let saved: crawldeck::control::SavedHost = serde_json::from_str(json).expect("its own words");
        let group = saved.group().expect("in a group").to_owned();
        after.controller.restore(after.now, host, saved);
        after.controller.rejoin(after.now, host, &group);
    }
    let resumed = after.view(0).group.expect("shared");
    assert_eq!((resumed.members, resumed.adaptive, resumed.hold), (3, before.adaptive, before.hold));
    assert!(resumed.tokens <= 0.0, "the last tokens may have been spent unseen");
    assert!(after.controller.next(after.now).is_none(), "the wait goes on");
    assert!(after.controller.take_decisions().is_empty(), "nothing new happened");
}
