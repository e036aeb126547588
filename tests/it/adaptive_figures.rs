//! What the controller `adaptive` has to reach on the simulator's servers, pinned with a few seeds. The whole
//! comparison is `crawldeck simulate --seeds 101..120`.

use std::time::Duration;

use crawldeck::control::{ControllerKind, Policy, Settings};
use crawldeck::sim::{Candidate, Drift, Job, Limit, Report, Scenario, SimServer, Supply, run, run_all, run_jobs};

/// A server of the table, the least goodput and the most refusals an hour.
type Must = (&'static str, f64, f64);

fn adaptive() -> Candidate {
    let policy = Policy { kind: ControllerKind::Adaptive, ..Policy::default() };
    Candidate::Core(Box::new(Settings { policies: vec![policy], ..Settings::default() }))
}

fn play(servers: &[SimServer], seeds: &[u64]) -> Vec<(String, Report)> {
    let candidate = adaptive();
    let jobs: Vec<Job<'_>> = servers
        .iter()
        .flat_map(|server| {
            seeds.iter().map(|seed| Job { server, candidate: &candidate, seed: *seed }).collect::<Vec<_>>()
        })
        .collect();
    let reports = run_jobs(&jobs, |_| {});
    jobs.iter().zip(reports).map(|(job, report)| (job.server.id.clone(), report)).collect()
}

fn assert_musts(musts: &[Must], seeds: &[u64]) -> Vec<(String, Report)> {
    let wanted = |server: &SimServer| musts.iter().any(|(id, ..)| server.id == *id);
    let servers: Vec<SimServer> = SimServer::built_in().into_iter().filter(wanted).collect();
    assert_eq!(servers.len(), musts.len());
    let played = play(&servers, seeds);
    for (id, goodput, refused) in musts {
        let mut of: Vec<&Report> = played.iter().filter(|(server, _)| server == id).map(|(_, one)| one).collect();
        of.sort_by(|one, two| one.goodput.total_cmp(&two.goodput));
        assert!(of[of.len() / 2].goodput >= *goodput, "{id}: {of:?}");
        of.sort_by(|one, two| one.refused_per_hour.total_cmp(&two.refused_per_hour));
        assert!(of[of.len() / 2].refused_per_hour <= *refused, "{id}: {of:?}");
    }
    played
}

#[test]
fn what_must_be_reached_is_reached_where_requests_are_few() {
    let musts = [
        ("a", 0.99, 12.0),
        ("b", 0.97, 15.0),
        ("g", 0.95, 8.0),
        ("i", 0.975, 0.0),
        ("j", 0.95, 20.0),
        ("k", 0.85, 50.0),
        ("m", 0.98, 40.0),
    ];
    assert_musts(&musts, &[101, 102, 103]);
}

#[test]
fn what_must_be_reached_is_reached_where_requests_are_many() {
    let any = f64::INFINITY;
    let musts = [
        ("c", 0.96, 30.0),
        ("d", 0.97, any),
        ("e", 0.985, 15.0),
        ("f", 0.88, any),
        ("h", 0.98, 12.0),
        ("l", 0.99, any),
        ("n", 0.0, any),
    ];
    for (id, report) in assert_musts(&musts, &[101]) {
        let most = |figure: Option<f64>| figure.unwrap_or(f64::INFINITY);
        match id.as_str() {
            "d" => assert!(most(report.recover_seconds) <= 180.0, "{report:?}"),
            // Unloaded, 95 % come within 1.07 s.
            "f" => assert!(report.p95_ms <= 3.0 * 1_070.0, "{report:?}"),
            "h" => assert_eq!(report.bans, 0, "{report:?}"),
            "l" => assert!(most(report.converge_seconds) <= 60.0, "{report:?}"),
            "n" => assert!(report.bans <= 1, "{report:?}"),
            _ => {}
        }
    }
}

#[test]
fn the_hour_of_a_limit_that_falls_to_a_tenth_costs_thirty_refusals_at_most() {
    let server = SimServer::built_in().into_iter().find(|server| server.id == "d").expect("it is built in");
    let mut refused: Vec<u32> = (101..=103)
        .map(|seed| {
            let scenario = Scenario { hosts: vec![(server.clone(), Supply::Saturated)], crawlers: 1 };
            let seen = run_all(&scenario, &adaptive(), seed).remove(0);
            // It falls after two hours, for one.
            seen.course.refused[2 * 3_600..3 * 3_600].iter().sum()
        })
        .collect();
    refused.sort_unstable();
    assert!(refused[0] > 0 && refused[1] <= 30, "{refused:?}");
}

/// Servers that nothing was tuned on: of a set of 200 those that bear 2/s at most in the beginning, since the others
/// would take a quarter of an hour here. (All of this set have 0.929 and 0.80.)
#[test]
fn random_servers_are_borne_as_well() {
    let slow = |server: &SimServer| match server.spec.limit {
        Limit::Bucket { rate, .. } => rate <= 2.0,
        Limit::Window { count, per, .. } => f64::from(count) / per.as_secs_f64() <= 2.0,
        Limit::None => false,
    };
    let servers: Vec<SimServer> = SimServer::random(200, 21).into_iter().filter(slow).collect();
    assert!(servers.len() >= 100, "{}", servers.len());
    let played = play(&servers, &[1]);
    let mut goodput: Vec<f64> = played.iter().map(|(_, report)| report.goodput).collect();
    goodput.sort_by(f64::total_cmp);
    let mut refused: Vec<f64> = played.iter().map(|(_, report)| report.refused_per_hour).collect();
    refused.sort_by(f64::total_cmp);
    let mean = goodput.iter().sum::<f64>() / goodput.len() as f64;
    assert!(mean >= 0.92, "{mean}: {goodput:?}");
    assert!(goodput[goodput.len() / 10] >= 0.75, "{goodput:?}");
    assert!(refused[refused.len() / 2] <= 12.0, "{refused:?}");
    assert!(played.iter().map(|(_, report)| report.bans).sum::<u64>() <= 2);
}

/// The operator's ceiling changes nothing above the limit, and neither does how far away the server is.
#[test]
fn neither_the_ceiling_nor_the_distance_decides() {
    let server = |ceiling: f64, rate: f64, hours: f64| {
        let mut server = SimServer { ceiling, hours, ..SimServer::named("bucket") };
        server.spec.limit = Limit::Bucket { rate, burst: 10.0 };
        server
    };
    // At these ceilings the prototype of this controller had reached so much.
    for (ceiling, told) in [(1.0, 0.999), (2.0, 0.998), (4.0, 0.992), (20.0, 0.995), (100.0, 0.995)] {
        let (_, report) = play(&[server(ceiling, 2.0, 3.0)], &[101]).remove(0);
        assert!(report.goodput >= told - 0.003 && report.refused_per_hour <= 12.0, "ceiling {ceiling}: {report:?}");
    }
    let mut far = server(10.0, 5.0, 6.0);
    far.connections = 64;
    far.spec.latency.median = Duration::from_secs(3);
    let at = vec![Duration::from_secs(7_200), Duration::from_secs(10_800)];
    far.spec.drift = Drift::Steps { at, factor: vec![0.1, 1.0] };
    let (_, report) = play(&[far], &[101]).remove(0);
    assert!(report.goodput >= 0.975 && report.refused_per_hour <= 20.0, "{report:?}");
}

/// The refusal budget is a clean knob: more of it is more goodput for more refusals where a limit wanders, and each
/// setting is worth no less than with the prototype. (Without one that had 0.95 at 109 an hour; a round of ours lasts
/// 75 s then, which makes 0.93 at 51.)
#[test]
fn the_refusal_budget_trades_refusals_for_goodput() {
    let server = SimServer::built_in().into_iter().find(|server| server.id == "k").expect("it is built in");
    let rows = [(3, 0.77, 24.0), (5, 0.81, 34.0), (8, 0.86, 48.0), (15, 0.92, 78.0)];
    let played = rows.map(|(refusal_budget, ..)| {
        let policy = Policy { kind: ControllerKind::Adaptive, refusal_budget, ..Policy::default() };
        let core = Candidate::Core(Box::new(Settings { policies: vec![policy], ..Settings::default() }));
        run(&server, &core, 101)
    });
    for ((budget, goodput, refused), report) in rows.iter().zip(&played) {
        assert!(report.goodput >= goodput - 0.02, "budget {budget}: {report:?}");
        assert!(report.refused_per_hour <= 1.1 * refused, "budget {budget}: {report:?}");
    }
    for pair in played.windows(2) {
        assert!(pair[0].goodput < pair[1].goodput && pair[0].refused < pair[1].refused, "{pair:?}");
    }
}
