//! Scenario files: `tests/scenarios/*.toml`, each a rule of the controller told as a small story in
//! virtual time: what the server does, what the operator does, what must be seen when.

use std::path::Path;
use std::time::Duration;

use crawldeck::control::{
    Amount, BackoffPolicy, Command, ControllerKind, EndpointPolicy, HostView, Lane, Lifetime, Mono, Original, Outcome,
    OverrideSpec, Policy, Settings, Shape, Verdict, WakeEven,
};
use serde::Deserialize;

use crate::support::virtual_host::{Response, VirtualHost};

/// One scenario file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// The rule in one sentence.
    about: String,
    #[serde(default)]
    host: HostPart,
    #[serde(default)]
    server: Vec<ServerPart>,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HostPart {
    rate: f64,
    capacity: f64,
    connections: u32,
    shape: Shape,
    controller: ControllerKind,
    min_rate: f64,
    refusal_budget: u32,
    cold_start: bool,
    global_rate: Option<f64>,
    crawl_delay: Option<String>,
    retry_after_max: String,
    endpoint: Option<EndpointPart>,
    queue: u32,
    endpoint_queue: u32,
}

impl Default for HostPart {
    fn default() -> Self {
        Self {
            rate: 2.0,
            capacity: 4.0,
            connections: 4,
            shape: Shape::TokenBucket,
            controller: ControllerKind::Halving,
            min_rate: 0.0,
            refusal_budget: 0,
            cold_start: false,
            global_rate: None,
            crawl_delay: None,
            retry_after_max: String::from("6h"),
            endpoint: None,
            queue: 100_000,
            endpoint_queue: 0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointPart {
    rate: f64,
    capacity: f64,
    cost: f64,
}

/// What the server answers from a moment on, to so many requests (all, if left out), in one lane or all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerPart {
    from: String,
    #[serde(default)]
    count: Option<u32>,
    #[serde(default)]
    lane: Option<u8>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    failure: Option<String>,
    #[serde(default)]
    retry_after: Option<String>,
    #[serde(default = "short")]
    latency: String,
}

fn short() -> String {
    String::from("100ms")
}

/// A moment at which the operator acts, something is expected, or both (expectations first).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: String,
    #[serde(default)]
    act: Option<String>,
    #[serde(default)]
    expect: Expect,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    /// Requests the server saw so far: exactly, or a range.
    sent: Option<Range>,
    /// Since the last step that said `sent_since`, or the start.
    sent_since: Option<Range>,
    probes: Option<Range>,
    rate: Option<Range>,
    capacity: Option<Range>,
    adaptive_rate: Option<Range>,
    adaptive_capacity: Option<Range>,
    endpoint_rate: Option<Range>,
    tokens: Option<Range>,
    hold_left: Option<Range>,
    state: Option<String>,
    limiting: Option<String>,
    concern: Option<String>,
    last_outcome: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Range {
    Exactly(f64),
    Between([f64; 2]),
}

impl Range {
    fn check(&self, what: &str, value: f64, place: &str) {
        let (low, high) = match self {
            Self::Exactly(exact) => (exact - 1e-6, exact + 1e-6),
            Self::Between([low, high]) => (*low, *high),
        };
        assert!((low..=high).contains(&value), "{place}: {what} is {value}, expected {low} to {high}");
    }
}

fn span(text: &str) -> Duration {
    humantime::parse_duration(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> Mono {
    Mono::ZERO.after(span(text))
}

fn settings(host: &HostPart) -> Settings {
    let endpoints = host
        .endpoint
        .iter()
        .map(|one| EndpointPolicy { original: Original { rate: one.rate, capacity: one.capacity }, cost: one.cost });
    let policy = Policy {
        original: Original { rate: host.rate, capacity: host.capacity },
        shape: host.shape,
        connections: host.connections,
        kind: host.controller,
        refusal_budget: host.refusal_budget,
        max_requests: 0,
        endpoints: endpoints.collect(),
    };
    Settings {
        policies: vec![policy],
        global_rate: host.global_rate,
        min_rate: host.min_rate,
        cold_start: host.cold_start,
        backoff: BackoffPolicy { retry_after_max: span(&host.retry_after_max), ..BackoffPolicy::default() },
        ..Settings::default()
    }
}

/// `pause`, `pause 30m`, `resume`, `override 0.5`, `override x0.5`, `override 8 for 10m`, `override cap 2`, …
fn command(text: &str) -> Command {
    let words: Vec<_> = text.split_whitespace().collect();
    let amount = |word: &str| match word.strip_prefix('x') {
        Some(factor) => Amount::Times(factor.parse().expect("a factor")),
        None => Amount::Absolute(word.parse().expect("a number")),
    };
    match words.as_slice() {
        ["pause"] => Command::Pause(Lifetime::Default),
        ["pause", time] => Command::Pause(Lifetime::For(span(time))),
        ["resume"] => Command::Resume,
        ["override", "cap", capacity] => Command::Override(OverrideSpec {
            rate: None,
            capacity: Some(amount(capacity)),
            lifetime: Lifetime::Default,
        }),
        ["override", rate, rest @ ..] => Command::Override(OverrideSpec {
            rate: Some(amount(rate)),
            capacity: None,
            lifetime: match rest {
                ["for", time] => Lifetime::For(span(time)),
                [] => Lifetime::Default,
                other => panic!("{other:?}"),
            },
        }),
        ["auto"] => Command::Auto,
        ["reset"] => Command::Reset,
        ["wake"] => Command::Wake(WakeEven::Own),
        ["wake", "asked"] => Command::Wake(WakeEven::Asked),
        ["halt"] => Command::Halt,
        ["go-on"] => Command::GoOn,
        ["undo"] => Command::Undo,
        ["redo"] => Command::Redo,
        other => panic!("unknown act {other:?}"),
    }
}

/// The server's script as it is used up.
struct Script {
    parts: Vec<(Mono, Option<u32>, Option<u8>, Response)>,
}

impl Script {
    fn new(parts: &[ServerPart]) -> Self {
        let parts = parts.iter().map(|part| {
            let verdict = match (&part.status, &part.failure) {
                (Some(status), None) => Verdict::Status(*status),
                (None, Some(failure)) => Verdict::Failed(Outcome::parse(failure).expect("an outcome")),
                _ => panic!("a server part needs status or failure"),
            };
            let retry_after = part.retry_after.as_deref().map(span);
            (at(&part.from), part.count, part.lane, Response { verdict, retry_after, latency: span(&part.latency) })
        });
        Self { parts: parts.collect() }
    }

    /// The last part that has begun, covers the lane and is not used up.
    fn respond(&mut self, now: Mono, lane: Lane) -> Response {
        let fits = |part: &&mut (Mono, Option<u32>, Option<u8>, Response)| {
            part.0 <= now && part.1 != Some(0) && part.2.is_none_or(|only| only == lane.0)
        };
        match self.parts.iter_mut().rev().find(fits) {
            Some((_, count, _, response)) => {
                if let Some(count) = count {
                    *count -= 1;
                }
                *response
            }
            None => Response { verdict: Verdict::Status(200), retry_after: None, latency: Duration::from_millis(100) },
        }
    }
}

fn check(expect: &Expect, world: &VirtualHost, view: &HostView, since: usize, place: &str) {
    let number = |range: &Option<Range>, what: &str, value: f64| {
        if let Some(range) = range {
            range.check(what, value, place);
        }
    };
    number(&expect.sent, "sent", world.arrivals.len() as f64);
    number(&expect.sent_since, "sent_since", (world.arrivals.len() - since) as f64);
    number(&expect.probes, "probes", world.arrivals.iter().filter(|one| one.probe).count() as f64);
    number(&expect.rate, "rate", view.effective.rate);
    number(&expect.capacity, "capacity", view.effective.capacity);
    number(&expect.adaptive_rate, "adaptive_rate", view.adaptive.rate);
    number(&expect.adaptive_capacity, "adaptive_capacity", view.adaptive.capacity);
    number(&expect.tokens, "tokens", view.tokens);
    number(&expect.hold_left, "hold_left", view.hold_left(world.now).unwrap_or_default().as_secs_f64());
    if expect.endpoint_rate.is_some() {
        let learned = world.controller.endpoint_learned(world.now, world.host, Lane(1)).expect("an endpoint");
        number(&expect.endpoint_rate, "endpoint_rate", learned.rate);
    }
    let word = |expected: &Option<String>, what: &str, seen: &str| {
        if let Some(expected) = expected {
            assert_eq!(expected, seen, "{place}: {what}");
        }
    };
    word(&expect.state, "state", view.state.as_str());
    word(&expect.limiting, "limiting", view.limiting.as_str());
    word(&expect.concern, "concern", view.concern.map_or("none", |concern| concern.kind.as_str()));
    let last = world.outcomes.last().map_or("none", |(_, outcome)| outcome.as_str());
    word(&expect.last_outcome, "last_outcome", last);
}

fn play(path: &Path) {
    let text = std::fs::read_to_string(path).expect("readable");
    let scenario: Scenario = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut world = VirtualHost::new(settings(&scenario.host));
    let mut script = Script::new(&scenario.server);
    if let Some(delay) = &scenario.host.crawl_delay {
        world.controller.set_crawl_delay(Mono::ZERO, world.host, Some(span(delay)));
    }
    world.queue(Lane(0), scenario.host.queue);
    if scenario.host.endpoint.is_some() {
        world.queue(Lane(1), scenario.host.endpoint_queue);
    }
    let mut since = 0;
    for step in &scenario.step {
        world.run_until(at(&step.at), |now, lane| script.respond(now, lane));
        let place = format!("{} at {} ({})", path.display(), step.at, scenario.about);
        world.controller.sweep(world.now, 100);
        let view = world.controller.view(world.now, world.host).expect("the host");
        check(&step.expect, &world, &view, since, &place);
        if step.expect.sent_since.is_some() || step.act.is_some() {
            since = world.arrivals.len();
        }
        if let Some(act) = &step.act {
            world.controller.command(world.now, command(act), &[world.host], "scenario");
        }
    }
}

#[test]
fn every_scenario_plays_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut played = 0;
    let mut failed = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            if let Err(panic) = std::panic::catch_unwind(|| play(&path)) {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                failed.push(text);
            }
            played += 1;
        }
    }
    assert!(played >= 20, "only {played} scenarios were found");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
