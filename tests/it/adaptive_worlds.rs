//! The controller `adaptive` where it is not alone with one host that always has work, in virtual time.

use std::time::Duration;

use crawldeck::control::{ControllerKind, Policy, Settings};
use crawldeck::sim::{Candidate, Latency, Limit, Scenario, Seen, SimServer, Supply, run_all};

fn adaptive(cold_start: bool) -> Candidate {
    let policy = Policy { kind: ControllerKind::Adaptive, ..Policy::default() };
    Candidate::Core(Box::new(Settings { policies: vec![policy], cold_start, ..Settings::default() }))
}

fn bucket(rate: f64, burst: f64, hours: f64) -> SimServer {
    let mut server = SimServer::named("bucket");
    server.spec.limit = Limit::Bucket { rate, burst };
    server.hours = hours;
    server
}

fn play(hosts: Vec<(SimServer, Supply)>, crawlers: u32, cold_start: bool) -> Vec<Seen> {
    run_all(&Scenario { hosts, crawlers }, &adaptive(cold_start), 11)
}

#[test]
fn wanted_05_it_converges_instead_of_sawing() {
    let mut server = bucket(5.0, 5.0, 300.0 / 3_600.0);
    server.ceiling = 20.0;
    let seen = play(vec![(server, Supply::Saturated)], 1, false).remove(0);
    assert!(seen.report.goodput >= 0.85, "{:?}", seen.report);
    let late = |counts: &[u32]| counts.iter().skip(180).map(|count| u64::from(*count)).sum::<u64>() as f64;
    let (refused, sent) = (late(&seen.course.refused), late(&seen.course.sent));
    assert!(refused <= 0.02 * sent, "{refused} of {sent} in the last two minutes");
}

#[test]
fn several_hosts_at_once_are_found_each_for_itself() {
    let rates = [0.5, 2.0, 4.0, 7.0];
    let hosts = rates.iter().map(|rate| (bucket(*rate, 8.0, 2.0), Supply::Saturated)).collect();
    for (rate, seen) in rates.iter().zip(play(hosts, 1, true)) {
        assert!((0.95..1.02).contains(&seen.report.goodput), "{rate}/s: {:?}", seen.report);
        assert!(seen.report.refused_per_hour <= 32.0, "{rate}/s: {:?}", seen.report);
    }
}

#[test]
fn a_host_that_goes_idle_and_comes_back_is_not_met_with_a_burst() {
    let spells = Supply::Spells { busy: Duration::from_secs(900), idle: Duration::from_secs(900) };
    let seen = play(vec![(bucket(2.0, 10.0, 6.0), spells)], 1, true).remove(0);
    // Half of the time there is work.
    assert!((0.46..0.56).contains(&seen.report.goodput), "{:?}", seen.report);
    assert!(seen.report.refused_per_hour <= 25.0, "{:?}", seen.report);
}

#[test]
fn a_queue_that_runs_dry_teaches_nothing() {
    let seen = play(vec![(bucket(2.0, 10.0, 4.0), Supply::Rate(0.5))], 1, true).remove(0);
    assert_eq!(seen.report.refused, 0, "{:?}", seen.report);
    assert!((0.24..0.26).contains(&seen.report.goodput), "{:?}", seen.report);
}

#[test]
fn many_connections_and_slow_answers_change_nothing() {
    for (connections, millis) in [(64, 120), (64, 3_000), (16, 1_000)] {
        let mut server = bucket(2.0, 10.0, 6.0);
        server.connections = connections;
        server.spec.latency = Latency { median: Duration::from_millis(millis), sigma: 0.3 };
        let seen = play(vec![(server, Supply::Saturated)], 1, true).remove(0);
        assert!(seen.report.goodput >= 0.97, "{connections} connections, {millis} ms: {:?}", seen.report);
        assert!(seen.report.refused_per_hour <= 15.0, "{connections} connections, {millis} ms: {:?}", seen.report);
    }
}

#[test]
fn four_crawlers_that_know_nothing_of_each_other_share_a_host() {
    let mut bucket = bucket(8.0, 20.0, 4.0);
    bucket.ceiling = 20.0;
    let mut window = bucket.clone();
    window.spec.limit = Limit::Window { count: 240, per: Duration::from_secs(60), phase: Duration::from_secs(17) };
    for (server, refused) in [(bucket, 170.0), (window, 80.0)] {
        let seen = play(vec![(server, Supply::Saturated)], 4, true).remove(0);
        assert!(seen.report.goodput >= 0.97, "{:?}", seen.report);
        assert!(seen.report.refused_per_hour <= refused, "{:?}", seen.report);
        let (least, most) = (seen.shares.iter().min(), seen.shares.iter().max());
        assert!(least.zip(most).is_some_and(|(least, most)| *most <= 2 * least), "{:?}", seen.shares);
    }
}
