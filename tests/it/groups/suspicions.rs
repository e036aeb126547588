//! The concern SHARED LIMIT, in virtual time: the real controller against servers that share a limit, and that do not.

use std::time::Duration;

use crawldeck::control::{ConcernKind, ControllerKind, HostId, Mono, Origin, What};
use crawldeck::sim::{Latency, Limit, ServerModel, ServerSpec, SimRequest, Site};

use super::world::{World, settings, status};

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
