//! What users want most of the controllers, in virtual time: each test by the number of its wish.

use std::time::Duration;

use crawldeck::control::{ControllerKind, HostId, Mono, Outcome};
use crawldeck::sim::{Latency, Limit, RetryAfter, ServerModel, ServerSpec, SimRequest, Site};

use crate::groups::world::{World, settings, status};
use crate::support::virtual_host::Response;

const KINDS: [ControllerKind; 2] = [ControllerKind::Halving, ControllerKind::Adaptive];

/// One host of these originals, with so many URLs.
fn one(kind: ControllerKind, rate: f64, capacity: f64, urls: u32) -> World {
    let mut settings = settings(rate, capacity);
    settings.policies[0].kind = kind;
    settings.policies[0].connections = 4;
    World::new(settings, 1, urls)
}

/// The lab server: 5 requests a second, burst 5.
fn lab(refusal: u16, retry_after: RetryAfter) -> impl FnMut(Mono, HostId) -> Response {
    let latency = Latency { median: Duration::from_millis(5), sigma: 0.0 };
    let limit = Limit::Bucket { rate: 5.0, burst: 5.0 };
    let mut model = ServerModel::new(
        ServerSpec { limit, latency, refusal, retry_after, site: Site::of_pages(1), ..ServerSpec::default() },
        3,
    );
    move |now, _| {
        let said = model.respond(now, &SimRequest::get("/p/0"));
        let told = said.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
        let retry_after = told.and_then(|(_, value)| value.parse().ok()).map(Duration::from_secs);
        Response { retry_after, latency: said.latency, ..status(said.status) }
    }
}

/// Answers of an outcome since a moment.
fn count(world: &World, since: f64, wanted: Outcome) -> usize {
    let is_it = |(at, _, outcome): &&(Mono, HostId, Outcome)| at.as_secs_f64() >= since && *outcome == wanted;
    world.outcomes.iter().filter(is_it).count()
}

#[test]
fn wanted_05_five_minutes_against_the_lab_server_converge_instead_of_sawing() {
    let mut world = one(ControllerKind::Adaptive, 20.0, 20.0, 1_000_000);
    world.run(300.0, lab(429, RetryAfter::Never));
    let goodput = count(&world, 0.0, Outcome::Ok) as f64 / (5.0 * 300.0);
    assert!(goodput >= 0.85, "{goodput}");
    let (refused, ok) = (count(&world, 180.0, Outcome::Throttled), count(&world, 180.0, Outcome::Ok));
    assert!(refused as f64 <= 0.02 * (refused + ok) as f64, "{refused} of {} in the last two minutes", refused + ok);
}

#[test]
fn wanted_06_errors_never_speed_a_host_up() {
    for kind in KINDS {
        for error in [403, 404, 429, 500, 502, 503] {
            // By its rule `adaptive` counts a 404 and a 5xx that is no surge as borne, like any answer.
            if kind == ControllerKind::Adaptive && !matches!(error, 403 | 429) {
                continue;
            }
            // It has learned that 2/s is what the host bears, and then gets nothing but fast errors.
            let mut world = one(kind, 8.0, 8.0, 1_000_000);
            let latency = Latency { median: Duration::from_millis(50), sigma: 0.0 };
            let limit = Limit::Bucket { rate: 2.0, burst: 4.0 };
            let mut model =
                ServerModel::new(ServerSpec { limit, latency, site: Site::of_pages(1), ..ServerSpec::default() }, 3);
            world.run(1_200.0, |now, _| status(model.respond(now, &SimRequest::get("/p/0")).status));
            let before = world.view(0).adaptive.rate;
            assert!(before < 4.0, "{kind:?}: {before}");
            let fast = Response { latency: Duration::from_millis(2), ..status(error) };
            let mut highest = 0.0_f64;
            for _ in 0..600 {
                world.run(1.0, |_, _| fast);
                highest = highest.max(world.view(0).adaptive.rate);
            }
            // What a cruise does anyway within its margin is no speed.
            assert!(highest <= before * 1.15, "{kind:?}, {error}: from {before} to {highest}");
        }
    }
}

#[test]
fn wanted_06_four_5xx_keep_more_than_half() {
    for kind in KINDS {
        let mut world = one(kind, 4.0, 4.0, 1_000_000);
        let mut errors = 4;
        world.run(60.0, |now, _| {
            let fails = now.as_secs_f64() > 30.0 && errors > 0;
            errors -= u32::from(fails);
            status(if fails { 500 } else { 200 })
        });
        let rate = world.view(0).adaptive.rate;
        assert!((2.0..=4.0).contains(&rate), "{kind:?}: {rate}");
    }
}

/// The task of the peers' table, robots.txt included, as the figure `lab` plays it over sockets.
#[test]
fn the_lab_server_is_crawled_in_twenty_seconds_with_at_most_five_refusals() {
    for (refusal, retry_after) in [
        (429, RetryAfter::Fixed(Duration::from_secs(2))),
        (429, RetryAfter::Never),
        (503, RetryAfter::Fixed(Duration::from_secs(2))),
    ] {
        let mut world = one(ControllerKind::Adaptive, 20.0, 4.0, 62);
        world.run(60.0, lab(refusal, retry_after));
        let refused = count(&world, 0.0, Outcome::Throttled);
        let last = world.outcomes.last().map_or(0.0, |(at, ..)| at.as_secs_f64());
        assert_eq!(count(&world, 0.0, Outcome::Ok), 62);
        assert!(last <= 20.0 && refused <= 5, "{refusal}, {retry_after:?}: {last:.1} s, {refused} refused");
    }
}
