//! The simulator: what it counts, that a seed fixes everything, many hosts and many crawlers, and the command.

use std::time::Duration;

use crawldeck::control::{ControllerKind, Original, Settings};
use crawldeck::sim::{
    Ban, Candidate, Drift, How, Job, Latency, Limit, Outages, Overload, Peer, RetryAfter, Scenario, Seen, SimServer,
    Supply, run, run_all, run_jobs,
};

use crate::support::binary::crawldeck;
use crate::support::pty::{Pty, Tie};

fn core(kind: ControllerKind) -> Candidate {
    let mut settings = Settings::default();
    settings.policies[0].kind = kind;
    Candidate::Core(Box::new(settings))
}

fn server(hours: f64, ceiling: f64, limit: Limit) -> SimServer {
    let mut server = SimServer { hours, ceiling, ..SimServer::named("s") };
    server.spec.limit = limit;
    server
}

fn all(hosts: Vec<(SimServer, Supply)>, crawlers: u32, candidate: &Candidate) -> Vec<Seen> {
    run_all(&Scenario { hosts, crawlers }, candidate, 1)
}

fn total(counts: &[u32]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

#[test]
fn without_a_limit_the_ceiling_is_the_goodput_and_latency_is_wire_and_work() {
    let report = run(&server(1.0, 10.0, Limit::None), &core(ControllerKind::Static), 1);
    // The cold start's 10 requests in some 17 s are what is missing; the burst of 10 comes on top.
    assert!((0.99..=1.0).contains(&report.goodput), "{report:?}");
    assert_eq!((report.refused, report.refused_max_10min, report.bans), (0, 0, 0));
    assert!(report.converge_seconds.is_some_and(|seconds| seconds < 20.0));
    assert_eq!(report.recover_seconds, None);
    // 120 ms of work, twice 20 ms and some.
    assert!((report.p50_ms - 176.0).abs() < 4.0 && report.p95_ms > 220.0 && report.p95_ms < 280.0, "{report:?}");
    assert!((35_700..=36_010).contains(&report.requests), "{report:?}");
}

#[test]
fn goodput_counts_errors_out_and_a_halved_limit_half() {
    let mut flaky = server(2.0, 4.0, Limit::None);
    flaky.spec.errors = 0.1;
    let report = run(&flaky, &core(ControllerKind::Static), 1);
    assert!((report.goodput - 1.0).abs() < 0.02, "{report:?}");

    // Two of three hours at a tenth: what the static rate below it gets is all of what it sends.
    let mut stepped = server(3.0, 1.0, Limit::Bucket { rate: 2.0, burst: 2.0 });
    let at = vec![Duration::from_secs(3_600)];
    stepped.spec.drift = Drift::Steps { at, factor: vec![0.25] };
    let seen = all(vec![(stepped, Supply::Saturated)], 1, &Candidate::Peer(Peer::Heritrix)).remove(0);
    let limits = (seen.course.limit[10], seen.course.limit[3_700]);
    assert_eq!(limits, (1.0, 0.5), "no higher than the ceiling");
    let allowed = 3_600.0 + 2.0 * 3_600.0 * 0.5;
    assert!((seen.report.goodput - total(&seen.course.accepted) as f64 / allowed).abs() < 1e-6);
}

#[test]
fn a_seed_fixes_everything_and_another_changes_it() {
    for server in SimServer::built_in().into_iter().filter(|server| ["b", "e", "k", "n"].contains(&server.id.as_str()))
    {
        let server = SimServer { hours: 1.0, ..server };
        for candidate in [core(ControllerKind::Halving), Candidate::Peer(Peer::AwsCubic)] {
            let one = run(&server, &candidate, 7);
            assert_eq!(one, run(&server, &candidate, 7), "{}", server.id);
            assert_ne!(one, run(&server, &candidate, 8), "{}", server.id);
        }
    }
}

#[test]
fn jobs_give_their_reports_in_order_whoever_is_first() {
    let (long, short) = (server(2.0, 10.0, Limit::None), server(0.1, 10.0, Limit::None));
    let candidate = core(ControllerKind::Static);
    let jobs: Vec<Job<'_>> = (0..20)
        .map(|seed| Job { server: if seed % 3 == 0 { &long } else { &short }, candidate: &candidate, seed })
        .collect();
    let mut told = Vec::new();
    let reports = run_jobs(&jobs, |done| told.push(done));
    assert_eq!(told, (1..=20).collect::<Vec<_>>());
    for (job, report) in jobs.iter().zip(&reports) {
        assert_eq!(*report, run(job.server, job.candidate, job.seed));
    }
}

#[test]
fn a_client_gives_up_after_ten_seconds_and_the_server_works_on() {
    let mut slow = server(1.0, 5.0, Limit::None);
    slow.spec.latency = Latency { median: Duration::from_secs(30), sigma: 0.0 };
    let report = run(&slow, &Candidate::Peer(Peer::Mission), 1);
    assert_eq!((report.goodput, report.converge_seconds, report.p50_ms), (0.0, None, 0.0));
    assert!(report.requests > 100, "{report:?}");

    // One server of half a second, asked 5 times a second without end: every answer comes too late.
    let mut queue = server(1.0, 5.0, Limit::None);
    queue.connections = 64;
    queue.spec.overload = Some(Overload { servers: 1, service: Duration::from_millis(500), cv: 0.0 });
    let collapsed = run(&queue, &Candidate::Peer(Peer::Mission), 1);
    assert!(collapsed.goodput < 0.1, "{collapsed:?}");
    // The core backs off on timeouts, and keeps some of it.
    assert!(run(&queue, &core(ControllerKind::Halving), 1).goodput > collapsed.goodput);
}

#[test]
fn outages_reset_and_silence_reach_the_client() {
    let second = Duration::from_secs;
    for how in [How::Reset, How::Silent] {
        let mut away = server(1.0, 2.0, Limit::None);
        away.spec.outages = Some(Outages { first: second(600), lasts: second(600), every: Duration::ZERO, how });
        let seen = all(vec![(away, Supply::Saturated)], 1, &core(ControllerKind::Halving)).remove(0);
        assert_eq!(total(&seen.course.accepted[620..1_195]), 0, "{how:?}");
        assert!(total(&seen.course.sent[620..1_195]) < 30, "{how:?}: held, and probed");
        assert!(total(&seen.course.accepted[1_300..]) > 4_000, "{how:?}");
    }
}

#[test]
fn bans_and_the_worst_ten_minutes_are_counted() {
    let mut angry = server(3.0, 10.0, Limit::Bucket { rate: 2.0, burst: 10.0 });
    let (within, lasts) = (Duration::from_secs(600), Duration::from_secs(3_600));
    angry.spec.ban = Some(Ban { refusals: 20, within, status: 403, lasts });
    let report = run(&angry, &Candidate::Peer(Peer::AwsCubic), 1);
    assert_eq!((report.bans, report.refused, report.refused_max_10min), (3, 63, 21));
    assert!((report.refused_per_hour - 21.0).abs() < 1e-9);
}

#[test]
fn the_core_obeys_retry_after_in_virtual_time_too() {
    let mut told = server(1.0, 10.0, Limit::Bucket { rate: 1.0, burst: 1.0 });
    told.spec.lockout = Duration::from_secs(120);
    told.spec.retry_after = RetryAfter::UntilFree;
    let seen = all(vec![(told, Supply::Saturated)], 1, &core(ControllerKind::Halving)).remove(0);
    let refusals: Vec<usize> =
        seen.course.refused.iter().enumerate().filter(|(_, count)| **count > 0).map(|(second, _)| second).collect();
    assert!(refusals.len() > 3, "{refusals:?}");
    for first in &refusals {
        // What was in flight may still arrive within the second after.
        assert_eq!(total(&seen.course.sent[first + 2..(first + 119).min(3_600)]), 0, "after {first}");
    }
}

#[test]
fn several_hosts_share_a_crawler_and_cost_each_other_nothing() {
    let slow = server(1.0, 10.0, Limit::Bucket { rate: 0.1, burst: 2.0 });
    let free = server(1.0, 10.0, Limit::None);
    let hosts = vec![(slow, Supply::Saturated), (free.clone(), Supply::Saturated), (free.clone(), Supply::Saturated)];
    let seen = all(hosts, 1, &core(ControllerKind::Halving));
    assert_eq!(seen.len(), 3);
    let alone = run(&free, &core(ControllerKind::Halving), 1).requests;
    for one in &seen[1..] {
        assert!(one.report.requests.abs_diff(alone) < 5, "{} and {alone}", one.report.requests);
    }
    assert!(seen[0].report.requests < 1_000);
}

#[test]
fn a_queue_that_runs_dry_limits_what_is_sent_and_gets_its_refused_urls_back() {
    let limit = Limit::Bucket { rate: 3.0, burst: 5.0 };
    let dry = all(vec![(server(1.0, 10.0, limit), Supply::Rate(0.5))], 1, &core(ControllerKind::Halving)).remove(0);
    assert_eq!(dry.report.refused, 0);
    assert!(dry.report.requests.abs_diff(1_800) <= 5, "{:?}", dry.report);

    // More than the limit comes in: a refused URL is asked for again, so none is accepted twice and none lost.
    let wet = all(vec![(server(1.0, 10.0, limit), Supply::Rate(4.0))], 1, &core(ControllerKind::Halving)).remove(0);
    let accepted = total(&wet.course.accepted);
    assert!(wet.report.refused > 0 && accepted < 4 * 3_600, "{:?}", wet.report);
    assert!((wet.report.requests - wet.report.refused).abs_diff(accepted) <= 16, "{:?}", wet.report);

    let mut flaky = server(1.0, 10.0, Limit::None);
    flaky.spec.errors = 0.2;
    let again = all(vec![(flaky, Supply::Rate(0.5))], 1, &core(ControllerKind::Static)).remove(0);
    assert!(total(&again.course.accepted) > 1_780, "what failed is asked for again: {:?}", again.report);
}

#[test]
fn a_host_goes_idle_and_comes_back() {
    let spells = Supply::Spells { busy: Duration::from_secs(300), idle: Duration::from_secs(600) };
    let seen = all(vec![(server(1.0, 2.0, Limit::None), spells)], 1, &core(ControllerKind::Halving)).remove(0);
    for spell in [0, 900, 1_800, 2_700] {
        assert!(total(&seen.course.sent[spell..spell + 300]) > 540, "{spell}");
        assert_eq!(total(&seen.course.sent[spell + 300..spell + 900]), 0, "{spell}");
    }
}

#[test]
fn nobody_but_retries_past_the_bucket_exceeds_the_operators_ceiling() {
    let ceiling = 6.0;
    let peers =
        [Peer::Mission, Peer::ScrapyAutothrottle, Peer::AwsCubic, Peer::Heritrix, Peer::Crawlee].map(Candidate::Peer);
    for candidate in peers.into_iter().chain([core(ControllerKind::Halving), core(ControllerKind::Static)]) {
        for limit in [Limit::None, Limit::Bucket { rate: 2.0, burst: 20.0 }] {
            let seen = all(vec![(server(0.5, ceiling, limit), Supply::Saturated)], 1, &candidate).remove(0);
            for length in [1, 5, 60, 600] {
                for window in seen.course.sent.windows(length) {
                    let allowed = ceiling + ceiling * length as f64;
                    assert!(total(window) as f64 <= allowed + 1e-6, "{candidate:?}: {} in {length} s", total(window));
                }
            }
        }
    }
}

#[test]
fn crawlers_that_know_nothing_of_each_other_share_a_server() {
    let shared = server(2.0, 10.0, Limit::Bucket { rate: 8.0, burst: 10.0 });
    let four = all(vec![(shared.clone(), Supply::Saturated)], 4, &Candidate::Peer(Peer::Mission)).remove(0);
    assert_eq!(four.shares.len(), 4);
    assert_eq!(four.shares.iter().sum::<u64>(), total(&four.course.accepted));
    assert!(four.shares.iter().all(|share| *share > 0), "{:?}", four.shares);
    // Published: 0.83 together, with shares up to 20 : 1.
    assert!((0.75..0.97).contains(&four.report.goodput), "{:?}", four.report);
    let one = all(vec![(shared, Supply::Saturated)], 1, &Candidate::Peer(Peer::Mission)).remove(0);
    assert_eq!(one.shares.len(), 1);
}

#[test]
fn a_far_server_and_many_connections_keep_their_pace() {
    let mut far = server(1.0, 10.0, Limit::None);
    far.connections = 64;
    far.spec.latency = Latency { median: Duration::from_secs(3), sigma: 0.1 };
    let report = run(&far, &core(ControllerKind::Static), 1);
    assert!(report.goodput > 0.985 && (report.p50_ms - 3_056.0).abs() < 40.0, "{report:?}");
    far.connections = 6;
    let few = run(&far, &core(ControllerKind::Static), 1);
    assert!((few.goodput - 0.2).abs() < 0.02, "six at a time, 3 s each, are 2/s: {few:?}");
}

#[test]
fn the_servers_ceiling_stands_in_for_the_configured_originals() {
    let mut settings = Settings::default();
    settings.policies[0].original = Original { rate: 0.01, capacity: 1.0 };
    settings.policies[0].kind = ControllerKind::Static;
    settings.cold_start = false;
    let report = run(&server(0.5, 7.0, Limit::None), &Candidate::Core(Box::new(settings)), 1);
    assert!(report.requests >= 7 * 1_800 && report.requests <= 7 * 1_800 + 7, "{report:?}");
}

/// Two short servers, one of them without a limit.
const FILE: &str = r#"
[[server]]
id = "two"
hours = 0.5
limit = { kind = "bucket", rate = 2.0, burst = 10 }

[[server]]
id = "free"
hours = 0.2
ceiling = 5.0
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("servers.toml"), FILE).expect("written");
    folder
}

#[test]
fn the_command_prints_one_json_object_a_server_a_controller_and_a_seed() {
    let folder = folder();
    let args =
        ["simulate", "--servers", "servers.toml", "--controllers", "halving,mission", "--seeds", "3..4", "--json"];
    let ended = crawldeck(folder.path(), &args);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "no bar where there is no terminal");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&ended.out).expect("an array");
    let names: Vec<String> =
        rows.iter().map(|row| format!("{} {} {}", row["server"], row["controller"], row["seed"])).collect();
    let expected = [
        "\"two\" \"halving\" 3",
        "\"two\" \"halving\" 4",
        "\"two\" \"mission\" 3",
        "\"two\" \"mission\" 4",
        "\"free\" \"halving\" 3",
        "\"free\" \"halving\" 4",
        "\"free\" \"mission\" 3",
        "\"free\" \"mission\" 4",
    ];
    assert_eq!(names, expected);
    for row in &rows {
        let keys: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
        for key in [
            "server",
            "controller",
            "seed",
            "goodput",
            "refused",
            "refused_per_hour",
            "refused_max_10min",
            "converge_seconds",
            "recover_seconds",
            "bans",
            "p50_ms",
            "p95_ms",
            "requests",
        ] {
            assert!(keys.contains(&key), "{key} is not in {row}");
        }
        assert!(row["recover_seconds"].is_null() && row["converge_seconds"].is_number(), "{row}");
        let alone = if row["server"] == "free" { 0 } else { 1 };
        assert!(row["refused"].as_u64().expect("a number") >= alone, "{row}");
    }
    assert_eq!(ended.out, crawldeck(folder.path(), &args).out, "a seed fixes everything");
}

#[test]
fn the_table_has_a_line_a_server_and_one_for_all() {
    let folder = folder();
    let ended =
        crawldeck(folder.path(), &["simulate", "--servers", "servers.toml", "--controllers", "heritrix,static"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ended.out.lines().collect();
    for word in ["server", "controller", "goodput", "refused/h", "converge", "recover", "bans", "p50 ms", "p95 ms"] {
        assert!(lines[0].contains(word), "{word}: {}", lines[0]);
    }
    let starts = |line: &str, words: [&str; 2]| line.split_whitespace().take(2).eq(words);
    for (line, words) in
        [(1, ["two", "heritrix"]), (2, ["two", "static"]), (3, ["free", "heritrix"]), (4, ["free", "static"])]
    {
        assert!(starts(lines[line], words), "{}", lines[line]);
    }
    assert!(lines.iter().any(|line| line.starts_with("all servers")), "{}", ended.out);
}

#[test]
fn random_servers_are_fixed_by_their_seed() {
    let folder = folder();
    let simulate = |seed: &str| {
        let args = ["simulate", "--random", "3", "--random-seed", seed, "--controllers", "heritrix", "--json"];
        let ended = crawldeck(folder.path(), &args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        ended.out
    };
    assert_eq!(simulate("5"), simulate("5"));
    assert_ne!(simulate("5"), simulate("6"));
}

#[test]
fn the_configurations_settings_are_the_simulations() {
    let folder = folder();
    let floor = "[controller]\nmin_rate = 1.9\nkind = \"halving\"\n";
    std::fs::write(folder.path().join("floor.toml"), floor).expect("written");
    let simulate = |args: &[&str]| {
        let ended = crawldeck(folder.path(), &[&["simulate", "--servers", "servers.toml", "--json"], args].concat());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        let rows: Vec<serde_json::Value> = serde_json::from_str(&ended.out).expect("an array");
        (rows[0]["controller"].clone(), rows[0]["goodput"].as_f64().expect("a number"))
    };
    let (plain, floored) = (simulate(&[]), simulate(&["--config", "floor.toml"]));
    assert_eq!(floored.0, "halving");
    assert_ne!(plain.1, floored.1);
    // Also the file that lies here.
    std::fs::copy(folder.path().join("floor.toml"), folder.path().join("config.toml")).expect("copied");
    assert_eq!(simulate(&[]), floored);
}

#[test]
fn a_picture_keeps_to_80_columns_on_a_pipe() {
    let folder = folder();
    let ended = crawldeck(folder.path(), &["simulate", "--servers", "servers.toml", "--plot", "two"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.contains("against two, seed 1: goodput"), "{}", ended.out);
    assert!(ended.out.lines().count() > 10, "{}", ended.out);
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);
    assert!(ended.out.lines().any(|line| line.trim_start().starts_with("refused")), "{}", ended.out);
}

#[test]
fn a_wrong_server_file_is_named_by_line_and_column() {
    let folder = folder();
    std::fs::write(folder.path().join("wrong.toml"), "[[server]]\nid = \"x\"\nhuors = 2\n").expect("written");
    let ended = crawldeck(folder.path(), &["simulate", "--servers", "wrong.toml"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(ended.err.contains("wrong.toml:3:1: unknown key `huors`"), "{}", ended.err);
}

#[test]
fn a_terminal_sees_the_bar_move_and_a_picture_of_its_own_width() {
    let folder = folder();
    let start = |args: &[&str]| {
        let args: Vec<String> =
            ["simulate", "--servers", "servers.toml"].iter().chain(args).map(|one| (*one).to_owned()).collect();
        Pty::start_as(folder.path(), &args, &[], Tie::Controlling, (60, 30))
    };
    let mut table = start(&["--seeds", "1..3", "--controllers", "heritrix"]);
    table.see("all servers");
    assert_eq!(table.end(), 0);
    let bytes = String::from_utf8_lossy(table.bytes()).into_owned();
    assert!(bytes.contains("6 of 6 runs"), "{bytes:?}");
    assert!(!table.text().contains(" runs"), "the bar is gone: {}", table.text());

    let mut picture = start(&["--plot", "two"]);
    picture.see("0.5 h");
    assert_eq!(picture.end(), 0);
    let bytes = String::from_utf8_lossy(picture.bytes()).into_owned();
    let widest = bytes.lines().map(|line| line.trim_end().chars().count()).max();
    assert_eq!(widest, Some(60), "{bytes}");
    assert!(bytes.contains('█'), "the locale is UTF-8: {bytes}");
}

#[test]
fn a_server_that_answers_nothing_but_errors_has_no_figures_that_look_good() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "[[server]]\nid = \"errors\"\nhours = 0.1\nerrors = 1.0\n";
    std::fs::write(folder.path().join("errors.toml"), text).expect("written");
    let args = ["simulate", "--servers", "errors.toml", "--controllers", "halving"];
    let ended = crawldeck(folder.path(), &args);
    let line: Vec<&str> = ended.out.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(line, ["errors", "halving", "0.000", "0.0", "0", "-", "-", "0", "-", "-"]);
    let ended = crawldeck(folder.path(), &[&args[..], &["--json"]].concat());
    let rows: serde_json::Value = serde_json::from_str(&ended.out).expect("an array");
    assert!(rows[0]["converge_seconds"].is_null() && rows[0]["recover_seconds"].is_null(), "{rows}");
}
