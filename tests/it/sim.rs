//! Simulated servers in virtual time: each habit alone, seen from outside, as a client would meet it.

use std::collections::BTreeMap;
use std::time::Duration;

use crawldeck::control::Mono;
use crawldeck::sim::{
    Ban, Character, Close, Drift, HintHeaders, Latency, Limit, Overload, RetryAfter, ServerModel, ServerSpec,
    SimRequest, SimResponse, Site,
};

fn at(secs: f64) -> Mono {
    Mono::from_secs_f64(secs)
}

/// Asks for page 0 so often a second, from `from` until just before `until`.
fn ask(model: &mut ServerModel, from: f64, until: f64, per_second: f64) -> Vec<SimResponse> {
    let count = ((until - from) * per_second).round() as u32;
    (0..count).map(|k| model.respond(at(from + f64::from(k) / per_second), &SimRequest::get("/p/0"))).collect()
}

fn by_status(responses: &[SimResponse]) -> BTreeMap<u16, usize> {
    responses.iter().fold(BTreeMap::new(), |mut counts, response| {
        *counts.entry(response.status).or_default() += 1;
        counts
    })
}

fn header<'a>(response: &'a SimResponse, name: &str) -> Option<&'a str> {
    response.headers.iter().find(|(one, _)| *one == name).map(|(_, value)| value.as_str())
}

fn server(change: impl FnOnce(&mut ServerSpec)) -> ServerModel {
    let mut spec = ServerSpec { site: Site::of_pages(10), ..ServerSpec::default() };
    change(&mut spec);
    ServerModel::new(spec, 1)
}

const TWO_A_SECOND: Limit = Limit::Bucket { rate: 2.0, burst: 10.0 };

#[test]
fn a_hidden_bucket_admits_exactly_its_burst_and_its_rate() {
    let mut model = server(|spec| spec.limit = TWO_A_SECOND);
    let answers = ask(&mut model, 0.0, 100.005, 200.0);
    assert_eq!(by_status(&answers), BTreeMap::from([(200, 10 + 2 * 100), (429, 20_001 - 210)]));
    assert!(answers.iter().all(|answer| header(answer, "retry-after").is_none()), "it refuses without a word");
}

#[test]
fn whoever_waits_as_told_is_admitted() {
    let mut model = server(|spec| {
        spec.limit = Limit::Bucket { rate: 0.3, burst: 2.0 };
        spec.retry_after = RetryAfter::UntilFree;
    });
    let mut now = at(0.0);
    let mut refused = 0;
    for _ in 0..200 {
        let answer = model.respond(now, &SimRequest::get("/p/0"));
        let told = header(&answer, "retry-after").map(|value| value.parse::<u64>().expect("whole seconds"));
        if let Some(seconds) = told {
            refused += 1;
            assert!((1..=4).contains(&seconds));
            now = now.after(Duration::from_secs(seconds));
            assert_eq!(model.respond(now, &SimRequest::get("/p/0")).status, 200);
        }
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn a_window_starts_anew_with_each_turn_of_its_clock() {
    let mut model = server(|spec| {
        spec.limit = Limit::Window { count: 60, per: Duration::from_secs(60), phase: Duration::from_secs(20) };
        spec.headers = HintHeaders::XRateLimit;
        spec.retry_after = RetryAfter::UntilFree;
    });
    for (from, until) in [(0.0, 40.0), (40.0, 100.0), (100.0, 160.0)] {
        let answers = ask(&mut model, from, until, 10.0);
        assert_eq!(by_status(&answers)[&200], 60);
        // All of a window's requests may be spent at once at its beginning.
        assert!(answers[..60].iter().all(|answer| answer.status == 200));
        let last = answers.last().expect("some");
        assert_eq!(header(last, "x-ratelimit-remaining"), Some("0"));
        assert_eq!(header(last, "x-ratelimit-limit"), Some("60"));
        assert_eq!(header(last, "retry-after"), Some("1"));
    }
}

#[test]
fn a_lockout_refuses_everything_and_refusals_do_not_lengthen_it() {
    let mut model = server(|spec| {
        spec.limit = TWO_A_SECOND;
        spec.lockout = Duration::from_secs(30);
        spec.retry_after = RetryAfter::UntilFree;
    });
    assert_eq!(by_status(&ask(&mut model, 0.0, 0.001, 11_000.0)), BTreeMap::from([(200, 10), (429, 1)]));
    let locked = ask(&mut model, 1.0, 30.0, 1.0);
    assert_eq!(by_status(&locked), BTreeMap::from([(429, 29)]));
    assert_eq!(header(&locked[0], "retry-after"), Some("30"), "what is left, rounded up");
    assert_eq!(model.respond(at(30.1), &SimRequest::get("/p/0")).status, 200);
}

#[test]
fn a_ban_follows_too_many_refusals_and_ends() {
    let hour = Duration::from_secs(3_600);
    let ban = Ban { refusals: 20, within: Duration::from_secs(600), status: 403, lasts: hour };
    let mut model = server(|spec| {
        spec.limit = TWO_A_SECOND;
        spec.ban = Some(ban);
    });
    let answers = ask(&mut model, 0.0, 1.0, 50.0);
    assert_eq!(by_status(&answers), BTreeMap::from([(200, 11), (429, 21), (403, 18)]));
    assert_eq!(model.bans(), 1);
    assert_eq!(model.respond(at(3_599.0), &SimRequest::get("/p/0")).status, 403);
    assert_eq!(model.respond(at(3_601.0), &SimRequest::get("/p/0")).status, 200);
}

#[test]
fn latency_grows_under_load_and_only_then() {
    let overload = Overload { servers: 4, service: Duration::from_millis(500), cv: 0.5 };
    let mut model = server(|spec| spec.overload = Some(overload));
    assert!((model.allowed_rate(at(0.0)) - 8.0).abs() < 1e-9);
    let mean = |answers: &[SimResponse]| {
        answers.iter().map(|answer| answer.latency.as_secs_f64()).sum::<f64>() / answers.len() as f64
    };
    let easy = mean(&ask(&mut model, 0.0, 200.0, 2.0));
    assert!((0.45..0.55).contains(&easy), "{easy}");
    let hard = ask(&mut model, 200.0, 300.0, 16.0);
    assert!(mean(&hard[1_500..]) > 40.0, "half of 100 s of work waits at the end");
    let again = mean(&ask(&mut model, 1_000.0, 1_200.0, 2.0));
    assert!((0.45..0.55).contains(&again), "{again}");
}

#[test]
fn errors_have_their_share_and_do_not_depend_on_the_rate() {
    for per_second in [0.5, 50.0] {
        let mut model = server(|spec| spec.errors = 0.05);
        let answers = ask(&mut model, 0.0, 10_000.0 / per_second, per_second);
        let failed = by_status(&answers)[&500];
        assert!((400..600).contains(&failed), "{failed}");
    }
}

#[test]
fn a_limit_follows_its_drift() {
    let hours = |h: u64| Duration::from_secs(h * 3_600);
    let mut model = server(|spec| {
        spec.limit = Limit::Bucket { rate: 5.0, burst: 10.0 };
        spec.drift = Drift::Steps { at: vec![hours(2), hours(3)], factor: vec![0.1, 1.0] };
    });
    for (hour, rate) in [(0.0, 5.0), (1.0, 5.0), (2.0, 0.5), (3.0, 5.0)] {
        let answers = ask(&mut model, hour * 3_600.0 + 100.0, hour * 3_600.0 + 500.0, 10.0);
        let ok = by_status(&answers)[&200] as f64;
        assert!((ok - rate * 400.0).abs() <= 11.0, "hour {hour}: {ok}");
        assert!((model.allowed_rate(at(hour * 3_600.0 + 500.0)) - rate).abs() < 1e-9);
    }
}

#[test]
fn the_dark_one_resets_on_schedule_and_spends_nothing_meanwhile() {
    let mut model = Character::Dark.model(10, "", 1);
    let dark: Vec<u32> = (0..150)
        .filter(|k| model.respond(at(f64::from(*k)), &SimRequest::get("/p/0")).close == Close::ResetBefore)
        .collect();
    let expected: Vec<u32> = (15..35).chain(75..95).chain(135..150).collect();
    assert_eq!(dark, expected);
    assert_eq!(model.connect(at(20.0)), Close::ResetBefore);
    assert_eq!(model.connect(at(40.0)), Close::No);
}

#[test]
fn the_same_seed_gives_the_same_server_and_another_does_not() {
    let run = |seed| {
        let mut spec = Character::Flaky.spec(10, "");
        spec.latency = Latency { median: Duration::from_millis(100), sigma: 0.5 };
        ask(&mut ServerModel::new(spec, seed), 0.0, 100.0, 5.0)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn every_character_answers_its_own_paths_when_asked_slowly() {
    for character in Character::ALL {
        let spec = character.spec(20, "http://steady.demo");
        let paths = spec.site.paths();
        assert!(paths.len() >= 20, "{character:?}");
        let mut model = ServerModel::new(spec, 1);
        let mut now = at(40.0);
        for path in &paths {
            // A slow and stubborn client: errors and outages pass.
            let answered = (0..100).find_map(|_| {
                now = now.after(Duration::from_secs(1));
                let answer = model.respond(now, &SimRequest::get(path));
                (answer.close == Close::No && answer.status != 500).then_some(answer.status)
            });
            let redirects = character == Character::Redirect;
            assert_eq!(answered, Some(if redirects { 302 } else { 200 }), "{character:?} {path}");
        }
    }
}
