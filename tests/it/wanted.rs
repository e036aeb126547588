//! What users want most of the controllers, in virtual time: each test by the number of its wish.

use std::time::Duration;

use crawldeck::control::{
    Amount, Command, ControllerKind, HostId, Lifetime, Mono, Original, Outcome, OverrideSpec, PolicyId, SavedHost,
    Verdict,
};
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

/// While a host cools down nothing goes up, whatever comes back of what was under way.
#[test]
fn wanted_05_no_recovery_step_is_taken_during_a_cool_down() {
    for (kind, told, millis) in KINDS.into_iter().flat_map(|kind| {
        let told = [RetryAfter::Never, RetryAfter::Fixed(Duration::from_secs(2))];
        told.into_iter().flat_map(move |told| [5, 700].map(|millis| (kind, told, millis)))
    }) {
        let mut settings = settings(20.0, 20.0);
        (settings.policies[0].kind, settings.policies[0].connections) = (kind, 30);
        let mut world = World::new(settings, 1, 1_000_000);
        let mut server = lab(429, told);
        let (mut before, mut looks) = (None, 0);
        for _ in 0..6_000 {
            world.run(0.05, |now, host| {
                let said = server(now, host);
                // Refusals are fast; what was taken on comes while they are waited out.
                let taken = said.verdict == Verdict::Status(200);
                Response { latency: if taken { Duration::from_millis(millis) } else { said.latency }, ..said }
            });
            let view = world.view(0);
            let held = view.hold.is_some_and(|hold| hold.until > world.now);
            if let Some(Original { rate, capacity }) = before.filter(|_| held) {
                let after = view.adaptive;
                assert!(after.rate <= rate && after.capacity <= capacity, "{kind:?}, {told:?}: {after:?} after {rate}");
                looks += 1;
            }
            before = held.then_some(view.adaptive);
        }
        assert!(looks > 5, "{kind:?}, {told:?}: held for {looks} looks");
    }
}

#[test]
fn wanted_06_errors_never_speed_a_host_up() {
    for kind in KINDS {
        for error in [403, 404, 429, 500, 502, 503] {
            // It has learned that 2/s is what the host bears, and then gets nothing but fast errors.
            let mut world = one(kind, 8.0, 8.0, 1_000_000);
            let latency = Latency { median: Duration::from_millis(50), sigma: 0.0 };
            let limit = Limit::Bucket { rate: 2.0, burst: 4.0 };
            let mut model =
                ServerModel::new(ServerSpec { limit, latency, site: Site::of_pages(1), ..ServerSpec::default() }, 3);
            world.run(1_200.0, |now, _| status(model.respond(now, &SimRequest::get("/p/0")).status));
            let fast = Response { latency: Duration::from_millis(2), ..status(error) };
            // Until the first of them is heard of.
            world.run(1.0, |_, _| fast);
            let mut before = world.view(0).adaptive.rate;
            assert!(before < 4.0, "{kind:?}: {before}");
            for second in 0..600 {
                world.run(1.0, |_, _| fast);
                let after = world.view(0).adaptive.rate;
                assert!(after <= before, "{kind:?}, {error}: from {before} to {after} after {second} s");
                before = after;
            }
        }
    }
}

/// From cold, and on the way up: what asks for more needs successes.
#[test]
fn wanted_06_a_host_that_answers_nothing_but_errors_stays_cold() {
    for error in [404, 500] {
        let mut settings = settings(8.0, 8.0);
        settings.policies[0].kind = ControllerKind::Adaptive;
        settings.cold_start = true;
        let mut world = World::new(settings, 1, 1_000_000);
        let mut least = f64::INFINITY;
        for minute in 0..30 {
            world.run(60.0, |_, _| status(error));
            let rate = world.view(0).adaptive.rate;
            assert!(rate <= least.min(0.5), "{error}: {rate} after {minute} min");
            least = rate;
        }
        if error == 500 {
            // A surge: next to nothing is asked by now.
            continue;
        }
        // Now and then a page after all: it goes up, and only then.
        let mut turn = 0;
        world.run(600.0, |_, _| {
            turn += 1;
            status(if turn % 3 == 0 { 200 } else { error })
        });
        assert!(world.view(0).adaptive.rate > 2.0 * least, "{error}: {}", world.view(0).adaptive.rate);
    }
}

/// One refusal, and then only successes: with a 404 among them now and then the host has its speed back as soon.
#[test]
fn wanted_04_a_404_among_the_successes_does_not_restart_the_clock() {
    for kind in KINDS {
        let back = |every: u32| {
            let mut world = one(kind, 8.0, 8.0, 1_000_000);
            let (mut turn, mut refused) = (0, false);
            for second in 0..3_600 {
                world.run(1.0, |now, _| {
                    turn += 1;
                    if now.as_secs_f64() > 30.0 && !std::mem::replace(&mut refused, true) {
                        return status(429);
                    }
                    status(if every > 0 && turn % every == 0 { 404 } else { 200 })
                });
                let adaptive = world.view(0).adaptive;
                if second > 40 && adaptive.rate >= 7.6 && adaptive.capacity >= 1.0 {
                    return f64::from(second);
                }
            }
            f64::INFINITY
        };
        let (clean, mixed) = (back(0), back(10));
        assert!(clean <= 300.0 && mixed <= 1.25 * clean, "{kind:?}: {clean} s, and {mixed} s with 404 among them");
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

#[test]
fn wanted_06_a_5xx_lowers_the_rate_slightly_and_successes_give_it_back() {
    for kind in KINDS {
        let mut world = one(kind, 4.0, 4.0, 1_000_000);
        world.run(30.0, |_, _| status(200));
        let before = world.view(0).adaptive.rate;
        let mut fails = true;
        // One of them, and little time for what follows.
        world.run(0.4, |_, _| status(if std::mem::take(&mut fails) { 500 } else { 404 }));
        let after = world.view(0).adaptive.rate;
        assert!(!fails && after < before && after > 0.8 * before, "{kind:?}: from {before} to {after}");
        world.run(30.0, |_, _| status(200));
        assert_eq!(world.view(0).adaptive.rate, before, "{kind:?}");
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

/// Many hosts, each with something of its own: what it learned, a cool-down, an override, a pause. As many again are
/// asked for the first time after them; none of the first is forgotten. Then the process ends, and another goes on.
#[test]
fn wanted_22_rate_state_survives_a_restart_and_more_hosts_than_places() {
    const HOSTS: u32 = 120;
    let hour = Lifetime::For(Duration::from_secs(3_600));
    for kind in KINDS {
        let settings = || {
            let mut settings = settings(10.0, 10.0);
            settings.policies[0].kind = kind;
            settings.concurrency = 16;
            settings
        };
        let mut world = World::new(settings(), 2 * HOSTS, 0);
        (0..HOSTS).for_each(|host| world.queue(host, 100_000));
        let latency = Latency { median: Duration::from_millis(50), sigma: 0.0 };
        let limit = Limit::Bucket { rate: 1.0, burst: 3.0 };
        let spec = ServerSpec { limit, latency, site: Site::of_pages(1), ..ServerSpec::default() };
        let mut servers: Vec<ServerModel> =
            (0..2 * HOSTS).map(|host| ServerModel::new(spec.clone(), host.into())).collect();
        let mut respond = move |now: Mono, host: HostId| {
            // The first of each four says for how long, after a minute.
            if host.0.is_multiple_of(4) && host.0 < HOSTS && now.as_secs_f64() > 60.0 {
                return Response { retry_after: Some(Duration::from_secs(1_800)), ..status(429) };
            }
            status(servers[host.0 as usize].respond(now, &SimRequest::get("/p/0")).status)
        };
        world.run(60.0, &mut respond);
        let hosts = |of: u32| (0..HOSTS).filter(|host| host % 4 == of).map(HostId).collect::<Vec<HostId>>();
        let over = OverrideSpec { rate: Some(Amount::Absolute(0.25)), capacity: None, lifetime: hour };
        world.controller.command(world.now, Command::Override(over), &hosts(2), "");
        world.controller.command(world.now, Command::Pause(hour), &hosts(3), "");
        // Whoever is refused now waits for half an hour.
        world.run(240.0, &mut respond);
        // Newcomers.
        (HOSTS..2 * HOSTS).for_each(|host| world.queue(host, 20));
        world.run(30.0, &mut respond);

        let views: Vec<_> = (0..HOSTS).map(|host| world.view(host)).collect();
        assert!(views.iter().all(|view| view.adaptive.rate < 5.0), "{kind:?}: each has learned");
        assert!(hosts(0).iter().all(|host| views[host.0 as usize].hold.is_some_and(|hold| hold.until > world.now)));
        assert!(hosts(2).iter().all(|host| views[host.0 as usize].overriding.is_some()));
        assert!(hosts(3).iter().all(|host| views[host.0 as usize].pause.is_some()));
        let write =
            |host| serde_json::to_string(&world.controller.saved(HostId(host)).expect("asked")).expect("plain data");
        let saved: Vec<String> = (0..2 * HOSTS).map(write).collect();
        let mut after = World::new(settings(), 2 * HOSTS, 0);
        after.now = world.now.after_secs(20.0);
        for (host, json) in (0..).map(HostId).zip(&saved) {
            let saved: SavedHost = serde_json::from_str(json).expect("its own words");
            after.controller.restore(after.now, host, saved);
        }
        after.controller.all_resumed(after.now);
        // Others that this process did not know, before and after.
        (0..50).for_each(|_| {
            after.controller.add_host(PolicyId(0));
        });
        let of = |view: &crawldeck::control::HostView| (view.adaptive, view.hold, view.overriding, view.pause);
        for (host, view) in (0..HOSTS).zip(&views) {
            let resumed = after.view(host);
            // Time itself moves what is about to be asked for.
            assert!((resumed.adaptive.rate / view.adaptive.rate - 1.0).abs() < 0.35, "{kind:?}, {host}");
            assert_eq!(
                (of(&resumed).1, of(&resumed).2, of(&resumed).3),
                (of(view).1, of(view).2, of(view).3),
                "{host}"
            );
            assert!(resumed.tokens <= 0.0, "{kind:?}, {host}");
        }
        (0..HOSTS).for_each(|host| after.queue(host, 100_000));
        after.run(300.0, &mut respond);
        for host in 0..HOSTS {
            let sent = after.sent_by(host);
            let expected = match host % 4 {
                0 | 3 => 0..=0,
                1 => 150..=330,
                _ => 70..=76,
            };
            assert!(expected.contains(&sent), "{kind:?}, {host}: {sent}");
        }
    }
}
