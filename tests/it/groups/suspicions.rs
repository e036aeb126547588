//! The concern SHARED LIMIT, in virtual time: the real controller against servers that share a limit, and that do not.

use std::time::Duration;

use crawldeck::control::{ConcernKind, ControllerKind, HostId, Mono, Origin, Outcome, Settings, What};
use crawldeck::sim::{Latency, Limit, Random, ServerModel, ServerSpec, SimRequest, SimServer, Site};

use super::world::{World, settings, status};
use crate::support::virtual_host::Response;

const KIN: Origin = Origin { domain: 7, peer: 9, bucket: 0 };

fn model(rate: f64) -> ServerModel {
    let latency = Latency { median: Duration::from_millis(50), sigma: 0.0 };
    ServerModel::new(
        ServerSpec {
            limit: Limit::Bucket { rate, burst: 4.0 },
            latency,
            site: Site::of_pages(1),
            ..ServerSpec::default()
        },
        3,
    )
}

fn suspected(world: &World, host: u32) -> bool {
    world.view(host).concern.is_some_and(|concern| concern.kind == ConcernKind::SharedLimit)
}

fn told(world: &World) -> Vec<(Option<HostId>, Option<HostId>)> {
    let is_it = |one: &&crawldeck::control::Decision| one.what == What::Concern && one.why.starts_with("SHARED LIMIT");
    world.decisions.iter().filter(is_it).map(|one| (one.host, one.with)).collect()
}

fn two(kind: ControllerKind, origins: [Origin; 2]) -> World {
    let mut settings = settings(8.0, 8.0);
    settings.policies[0].kind = kind;
    let mut world = World::new(settings, 2, 1_000_000);
    world.origins = origins.to_vec();
    world
}

#[test]
fn hosts_of_one_server_that_share_its_limit_are_reported_with_the_advice_to_group_them() {
    for kind in [ControllerKind::Halving, ControllerKind::Adaptive] {
        let mut world = two(kind, [KIN; 2]);
        // A window: once it is used up, whoever asks is refused. (Of a plain bucket one's wait relieves the other.)
        let limit = Limit::Window { count: 120, per: Duration::from_secs(60), phase: Duration::ZERO };
        let mut shared = ServerModel::new(ServerSpec { limit, site: Site::of_pages(1), ..ServerSpec::default() }, 3);
        let mut first = None;
        for minute in 0..240 {
            world.run(60.0, |now, _| status(shared.respond(now, &SimRequest::get("/p/0")).status));
            if !told(&world).is_empty() && first.is_none() {
                first = Some(minute);
            }
        }
        assert!(first.is_some(), "{kind:?}: never reported");
        let told = told(&world);
        assert!(told.contains(&(Some(HostId(0)), Some(HostId(1)))), "{kind:?}: {told:?}");
        let advice = world.decisions.iter().find(|one| one.why.starts_with("SHARED LIMIT")).expect("told");
        assert!(advice.why.contains("group_by"), "{}", advice.why);
        // In one group they are no concern any more.
        world.group_all("g");
        world.run(10.0, |_, _| status(200));
        assert!(!suspected(&world, 0) && !suspected(&world, 1));
    }
}

#[test]
fn independent_hosts_of_one_domain_are_not_reported() {
    for kind in [ControllerKind::Halving, ControllerKind::Adaptive] {
        let mut world = two(kind, [KIN; 2]);
        let mut own = [model(1.3), model(3.1)];
        world
            .run(6.0 * 3_600.0, |now, host| status(own[host.0 as usize].respond(now, &SimRequest::get("/p/0")).status));
        assert_eq!(told(&world), [], "{kind:?}");
    }
}

/// A cold start of so many hosts of one kin, each at most 10/s.
fn cold(hosts: u32, seed: u64) -> World {
    let mut settings = Settings { cold_start: true, ..settings(10.0, 10.0) };
    settings.policies[0].kind = ControllerKind::Adaptive;
    let mut world = World::seeded(seed, settings, hosts, 10_000_000);
    world.origins = vec![KIN; hosts as usize];
    world
}

/// What a server answers, over a wire of 20 ms and some each way.
fn over_the_wire(model: &mut ServerModel, random: &mut Random, now: Mono) -> Response {
    let decided = model.decide(now);
    let wire = Duration::from_secs_f64(0.04 + (0.02 * random.normal()).abs());
    Response { latency: decided.latency + wire, ..status(decided.status) }
}

#[test]
fn a_bucket_that_hosts_share_is_reported_in_the_first_half_hour_of_a_cold_start_and_often_much_sooner() {
    let (mut runs, mut early, mut late) = (0, 0, 0);
    for (hosts, rate, burst) in [(2, 2.0, 20.0), (2, 3.0, 10.0), (2, 4.0, 20.0), (3, 4.0, 10.0), (4, 4.0, 20.0)] {
        for seed in 1..=4 {
            let mut world = cold(hosts, seed);
            let mut random = Random::new(seed);
            let mut server = SimServer::named("shared");
            server.spec.limit = Limit::Bucket { rate, burst };
            let mut server = server.model(seed);
            let mut reported = |world: &mut World, secs| {
                world.run(secs, |now, _| over_the_wire(&mut server, &mut random, now));
                !told(world).is_empty()
            };
            runs += 1;
            early += u32::from(reported(&mut world, 600.0));
            late += u32::from(reported(&mut world, 1_200.0));
        }
    }
    // As coincidences alone tell it, none is found in 10 minutes.
    assert!(early * 5 >= runs && late * 10 >= runs * 7, "{early} of {runs} in 10 minutes, {late} in 30");
}

/// Random servers, four at a time, as if they were kin: 6 pairs for 2 hours each. The measure is in the module's docs.
#[test]
fn random_servers_are_hardly_ever_reported_though_they_were_kin() {
    let slow = SimServer::random(200, 4_711).into_iter().filter(|server| match server.spec.limit {
        Limit::Bucket { rate, .. } => rate < 3.0,
        Limit::Window { count, per, .. } => f64::from(count) / per.as_secs_f64() < 3.0,
        Limit::None => false,
    });
    let slow: Vec<SimServer> = slow.take(60).collect();
    let (mut pairs, mut reported, mut refused) = (0, 0, 0);
    for (seed, four) in slow.chunks_exact(4).enumerate() {
        let seed = seed as u64;
        let mut world = cold(4, seed);
        let mut random = Random::new(seed);
        let mut models: Vec<ServerModel> = four.iter().map(|server| server.model(random.next_u64())).collect();
        world.run(7_200.0, |now, host| over_the_wire(&mut models[host.0 as usize], &mut random, now));
        pairs += 6;
        reported += told(&world).len();
        refused += world.outcomes.iter().filter(|(_, _, outcome)| *outcome == Outcome::Throttled).count();
    }
    assert!(refused > 1_000, "they are refused: {refused}");
    assert!(reported <= 2, "{reported} hosts in {} hours", pairs * 2);
}

#[test]
fn twins_in_step_on_different_servers_are_not_reported() {
    let mut world = two(ControllerKind::Halving, [KIN, Origin { domain: 8, peer: 10, bucket: 0 }]);
    let mut own = [model(2.0), model(2.0)];
    world.run(3_600.0, |now, host| status(own[host.0 as usize].respond(now, &SimRequest::get("/p/0")).status));
    assert_eq!(told(&world), []);
}

#[test]
fn a_bucket_id_that_two_hosts_are_told_is_enough_and_is_forgotten_after_an_hour() {
    let named = |domain| Origin { domain, peer: 0, bucket: 77 };
    let mut world = two(ControllerKind::Halving, [named(1), named(2)]);
    let mut refuse = [true; 2];
    world.run(30.0, |now: Mono, host: HostId| {
        let mine = &mut refuse[host.0 as usize];
        let begun = now.as_secs_f64() > 10.0 * f64::from(host.0);
        if begun && std::mem::take(mine) { status(429) } else { status(200) }
    });
    assert!(suspected(&world, 0) && suspected(&world, 1));
    world.run(3_700.0, |_, _| status(200));
    assert!(!suspected(&world, 0) && !suspected(&world, 1));
}
