//! The file of `simulate --servers`: `[[server]]` sections, read and checked like the configuration.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::ConfigErrors;
use super::check::{boolean, duration, number, text, whole, word};
use super::error::Report;
use super::load::{parse_document, read_text};
use super::raw::Section;
use crate::control::command::RATE_RANGE;
use crate::sim::server::HOURS_MAX;
use crate::sim::{Ban, Drift, HintHeaders, Limit, Overload, RetryAfter, ServerSpec, SimServer};

/// Servers in one file at most.
pub const SERVERS_MAX: usize = 10_000;

/// In flight at most, where a server does not say.
const CONNECTIONS: u32 = 64;
/// How long anything may last.
const DURATIONS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(366 * 86_400);
/// The same, or not at all.
const DURATIONS_OR_NONE: RangeInclusive<Duration> = Duration::ZERO..=*DURATIONS.end();
/// Latencies and services.
const LATENCIES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);

/// The kinds of limit.
#[derive(Clone, Copy)]
enum LimitKind {
    Bucket,
    Window,
    None,
}

/// The kinds of shape.
#[derive(Clone, Copy)]
enum ShapeKind {
    Constant,
    Sine,
    Steps,
    Noise,
}

/// Reads and checks the servers in the file at `path`.
pub fn load_servers(path: &Path) -> Result<Vec<SimServer>, ConfigErrors> {
    parse_servers(&read_text(path)?, &path.to_string_lossy())
}

/// Checks the servers in `text`; errors call it `name`.
pub fn parse_servers(text: &str, name: &str) -> Result<Vec<SimServer>, ConfigErrors> {
    let report = Report::default();
    let (document, meaning_is_clear) = parse_document(text, &report);
    let mut servers = Vec::new();
    if meaning_is_clear {
        let mut top = Section::top(&document, &report);
        let mut ids = BTreeSet::new();
        for section in top.sections("server", "server") {
            servers.extend(server(section, &mut ids));
        }
        top.finish();
        if servers.is_empty() && report.is_empty() {
            report.error(0, "there is no server here; write a section [[server]] for each");
        }
    }
    if report.is_empty() { Ok(servers) } else { Err(report.into_errors(text, name)) }
}

/// One `[[server]]`; `None` if it cannot be told from others (then reported).
fn server(mut section: Section<'_>, ids: &mut BTreeSet<String>) -> Option<SimServer> {
    let id = section.read("id", text);
    match &id {
        None if section.value("id").is_none() => {
            section.error("id", "every server has a name; write id = \"my-server\"")
        }
        Some(id) if !ids.insert(id.clone()) => {
            section.error("id", "another server has this name; write a different one")
        }
        _ if ids.len() > SERVERS_MAX => section.error("id", "this file has more than 10000 servers; write fewer"),
        _ => {}
    }
    let mut server = SimServer { connections: CONNECTIONS, ..SimServer::named(id.as_deref().unwrap_or_default()) };
    section.set("hours", &mut server.hours, number(0.01..=HOURS_MAX));
    section.set("ceiling", &mut server.ceiling, number(RATE_RANGE));
    section.set("connections", &mut server.connections, whole(1..=65_536));
    let spec = &mut server.spec;
    if let Some(inner) = section.section("limit") {
        limit(inner, spec);
    }
    if let Some(inner) = section.section("shape") {
        shape(inner, spec);
    }
    burst_seconds(&mut section, spec);
    if let Some(mut inner) = section.section("latency") {
        inner.set("median", &mut spec.latency.median, duration(LATENCIES));
        inner.set("sigma", &mut spec.latency.sigma, number(0.0..=5.0));
        inner.finish();
    }
    section.set("errors", &mut spec.errors, number(0.0..=1.0));
    if let Some(tells) = section.read("retry_after", boolean) {
        spec.retry_after = if tells { RetryAfter::UntilFree } else { RetryAfter::Never };
    }
    let headers =
        [("none", HintHeaders::None), ("ratelimit", HintHeaders::RateLimit), ("x-ratelimit", HintHeaders::XRateLimit)];
    section.set("headers", &mut spec.headers, word(&headers));
    section.set("lockout", &mut spec.lockout, duration(DURATIONS_OR_NONE));
    if let Some(inner) = section.section("ban") {
        spec.ban = Some(ban(inner));
    }
    if let Some(inner) = section.section("overload") {
        spec.overload = Some(overload(inner));
    }
    section.finish();
    id.map(|_| server)
}

fn limit(mut section: Section<'_>, spec: &mut ServerSpec) {
    let kinds = [("bucket", LimitKind::Bucket), ("window", LimitKind::Window), ("none", LimitKind::None)];
    match needed(&mut section, "kind", word(&kinds), "\"bucket\" or \"window\" or \"none\"") {
        Some(LimitKind::Bucket) => {
            let rate = needed(&mut section, "rate", number(RATE_RANGE), "requests per second, such as 2.0");
            let burst = needed(&mut section, "burst", number(1.0..=1e9), "how many at once, such as 10");
            burst_seconds(&mut section, spec);
            if let (Some(rate), Some(burst)) = (rate, burst) {
                spec.limit = Limit::Bucket { rate, burst };
            }
        }
        Some(LimitKind::Window) => {
            let count = needed(&mut section, "count", whole(1..=1_000_000_000), "requests in a window, such as 60");
            let per = needed(&mut section, "per", duration(DURATIONS), "its length, such as \"60s\"");
            if let (Some(count), Some(per)) = (count, per) {
                spec.limit = Limit::Window { count, per, phase: Duration::ZERO };
            }
        }
        Some(LimitKind::None) => spec.limit = Limit::None,
        // Without a kind nobody knows which other keys belong here.
        None => return,
    }
    section.finish();
}

fn shape(mut section: Section<'_>, spec: &mut ServerSpec) {
    let kinds = [
        ("constant", ShapeKind::Constant),
        ("sine", ShapeKind::Sine),
        ("steps", ShapeKind::Steps),
        ("noise", ShapeKind::Noise),
    ];
    let words = "\"constant\" or \"sine\" or \"steps\" or \"noise\"";
    let Some(kind) = needed(&mut section, "kind", word(&kinds), words) else { return };
    burst_seconds(&mut section, spec);
    let amplitude =
        |section: &mut Section<'_>| needed(section, "amplitude", number(0.0..=1.0), "how far it goes, such as 0.25");
    match kind {
        ShapeKind::Constant => {}
        ShapeKind::Sine => {
            let amplitude = amplitude(&mut section);
            let period = needed(&mut section, "period", duration(DURATIONS), "one whole wave, such as \"24h\"");
            if let (Some(amplitude), Some(period)) = (amplitude, period) {
                spec.drift = Drift::Sine { amplitude, period };
            }
        }
        ShapeKind::Steps => steps(&mut section, spec),
        ShapeKind::Noise => {
            let amplitude = amplitude(&mut section);
            let step = needed(&mut section, "step", duration(DURATIONS), "how long a value lasts, such as \"30s\"");
            if let (Some(amplitude), Some(step)) = (amplitude, step) {
                spec.drift = Drift::Noise { amplitude, step };
            }
        }
    }
    section.finish();
}

fn steps(section: &mut Section<'_>, spec: &mut ServerSpec) {
    let at = section.list("at", duration(DURATIONS_OR_NONE));
    let factor = section.list("factor", number(0.001..=1_000.0));
    // Entries that are wrong were named, and are not in what was read.
    let mut entries = |key| section.value(key).and_then(|value| value.get_ref().as_array()).map(|list| list.len());
    let written = [entries("at"), entries("factor")];
    for (key, absent) in [("at", at.is_none()), ("factor", factor.is_none())] {
        if absent && section.value(key).is_none() {
            section.error(key, "is missing; write a list, one entry for each step");
        }
    }
    let (Some(at), Some(factor)) = (at, factor) else { return };
    if written[0] != written[1] {
        section.error("factor", "has not as many entries as `at`; write one for each");
    } else if at.windows(2).any(|pair| pair[0] >= pair[1]) {
        section.error("at", "is not in ascending order; write the earlier moments first");
    } else if at.len() == factor.len() {
        spec.drift = Drift::Steps { at, factor };
    }
}

fn ban(mut section: Section<'_>) -> Ban {
    let mut ban =
        Ban { refusals: 20, within: Duration::from_secs(600), status: 403, lasts: Duration::from_secs(3_600) };
    section.set("refusals", &mut ban.refusals, whole(0..=10_000));
    section.set("within", &mut ban.within, duration(DURATIONS));
    section.set("status", &mut ban.status, whole(400..=599));
    section.set("for", &mut ban.lasts, duration(DURATIONS));
    section.finish();
    ban
}

fn overload(mut section: Section<'_>) -> Overload {
    let mut overload = Overload { servers: 1, service: Duration::from_millis(500), cv: 0.0 };
    section.set("servers", &mut overload.servers, whole(1..=1_024));
    section.set("service", &mut overload.service, duration(Duration::from_millis(1)..=*LATENCIES.end()));
    section.set("cv", &mut overload.cv, number(0.0..=10.0));
    section.finish();
    overload
}

/// `burst_seconds`, wherever it stands: beside the limit, in it, or in the shape that makes it matter.
fn burst_seconds(section: &mut Section<'_>, spec: &mut ServerSpec) {
    section.set("burst_seconds", &mut spec.burst_seconds, number(0.0..=1e6));
}

/// The value of a key that has no default.
fn needed<T>(
    section: &mut Section<'_>,
    key: &'static str,
    read: impl FnOnce(&toml::de::DeValue<'_>) -> Result<T, String>,
    wanted: &str,
) -> Option<T> {
    if section.value(key).is_none() {
        section.error(key, &format!("is missing; write {wanted}"));
        return None;
    }
    section.read(key, read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Latency;

    const ONE: &str = r#"
[[server]]
id = "bucket-2"
hours = 6.0
ceiling = 10.0
connections = 64
limit = { kind = "bucket", rate = 2.0, burst = 10 }
shape = { kind = "steps", at = ["2h", "3h"], factor = [0.1, 1.0], burst_seconds = 2 }
latency = { median = "120ms", sigma = 0.3 }
errors = 0.05
retry_after = true
headers = "x-ratelimit"
lockout = "30s"
ban = { refusals = 5, within = "10m", status = 403, for = "1h" }
overload = { servers = 4, service = "500ms", cv = 0.5 }

[[server]]
id = "window"
limit = { kind = "window", count = 60, per = "60s" }
"#;

    #[test]
    fn every_key_of_the_contract_is_taken() {
        let servers = parse_servers(ONE, "s.toml").expect("valid");
        let seconds = Duration::from_secs;
        let spec = ServerSpec {
            limit: Limit::Bucket { rate: 2.0, burst: 10.0 },
            drift: Drift::Steps { at: vec![seconds(7_200), seconds(10_800)], factor: vec![0.1, 1.0] },
            burst_seconds: 2.0,
            retry_after: RetryAfter::UntilFree,
            headers: HintHeaders::XRateLimit,
            lockout: seconds(30),
            ban: Some(Ban { refusals: 5, within: seconds(600), status: 403, lasts: seconds(3_600) }),
            latency: Latency { median: Duration::from_millis(120), sigma: 0.3 },
            overload: Some(Overload { servers: 4, service: Duration::from_millis(500), cv: 0.5 }),
            errors: 0.05,
            ..ServerSpec::default()
        };
        let first = SimServer { id: "bucket-2".into(), hours: 6.0, ceiling: 10.0, connections: 64, spec };
        assert_eq!(servers[0], first);
        let limit = Limit::Window { count: 60, per: seconds(60), phase: Duration::ZERO };
        assert_eq!((servers[1].spec.limit, servers[1].connections, servers.len()), (limit, 64, 2));
        for shape in [
            "{ kind = \"constant\" }",
            "{ kind = \"sine\", amplitude = 0.75, period = \"24h\" }",
            "{ kind = \"noise\", amplitude = 0.25, step = \"30s\" }",
        ] {
            let text = format!("[[server]]\nid = \"x\"\nlimit = {{ kind = \"none\" }}\nshape = {shape}\n");
            parse_servers(&text, "s.toml").expect(shape);
        }
    }

    #[test]
    fn wrong_files_are_told_place_by_place() {
        for (text, told) in [
            ("", "s.toml:1:1: there is no server"),
            ("[[server]]\nhours = 1\n", "s.toml:1:1: `id` in [[server]]: every server has a name"),
            ("[[server]]\nid = \"a\"\n[[server]]\nid = \"a\"\n", "s.toml:4:6: `id` in [[server]]: another server"),
            (
                "[[server]]\nid = \"a\"\nhuors = 2\n",
                "s.toml:3:1: unknown key `huors` in [[server]]; did you mean `hours`?",
            ),
            ("[[server]]\nid = \"a\"\nhours = 0\n", "s.toml:3:9: `hours` in [[server]]: 0 is out of range"),
            ("[[server]]\nid = \"a\"\nlimit = { kind = \"bukcet\" }\n", "s.toml:3:18: `kind` in [limit]"),
            (
                "[[server]]\nid = \"a\"\nlimit = { kind = \"bucket\", rate = 1 }\n",
                "s.toml:3:9: `burst` in [limit]: is missing",
            ),
            (
                "[[server]]\nid = \"a\"\nlimit = { kind = \"none\", rate = 1 }\n",
                "s.toml:3:26: unknown key `rate` in [limit]",
            ),
            (
                "[[server]]\nid = \"a\"\nshape = { kind = \"steps\", at = [\"1h\"] }\n",
                "`factor` in [shape]: is missing",
            ),
            (
                "[[server]]\nid = \"a\"\nshape = { kind = \"steps\", at = [\"2h\", \"1h\"], factor = [1, 2] }\n",
                "s.toml:3:32: `at` in [shape]: is not in ascending order",
            ),
            (
                "[[server]]\nid = \"a\"\nshape = { kind = \"steps\", at = [\"2h\"], factor = [1, 2] }\n",
                "`factor` in [shape]: has not as many entries",
            ),
            (
                "[[server]]\nid = \"a\"\nheaders = \"github\"\n",
                "s.toml:3:11: `headers` in [[server]]: \"github\" is not known",
            ),
            ("[[server]\n", "s.toml:1:"),
            ("[server]\nid = \"a\"\n", "write a section [[server]] for each"),
        ] {
            let errors = parse_servers(text, "s.toml").expect_err(text).to_string();
            assert!(errors.contains(told), "{text}: {errors}");
        }
    }

    #[test]
    fn a_wrong_entry_of_a_list_is_told_once() {
        for (at, factor, told) in [
            ("[\"1h\", \"2h\"]", "[0, 1]", "`factor` in [shape]: 0 is out of range"),
            ("[\"1h\", \"2 moons\"]", "[1, 2]", "`at` in [shape]: "),
        ] {
            let text = format!(
                "[[server]]\nid = \"a\"\nlimit = {{ kind = \"none\" }}\nshape = {{ kind = \"steps\", at = {at}, factor = {factor} }}\n"
            );
            let errors = parse_servers(&text, "s.toml").expect_err("wrong").to_string();
            assert!(errors.contains(told) && errors.matches("s.toml:").count() == 1, "{errors}");
        }
    }
}
