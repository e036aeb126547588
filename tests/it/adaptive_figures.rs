//! What the controller `adaptive` has to reach on the simulator's servers, pinned with a few seeds. The whole
//! comparison is `crawldeck simulate --seeds 101..120`.

use crawldeck::control::{ControllerKind, Policy, Settings};
use crawldeck::sim::{Candidate, Job, Limit, Report, Scenario, SimServer, Supply, run_all, run_jobs};

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

/// Servers that nothing was tuned on; the slow ones of a set, so that the test stays short.
#[test]
fn random_servers_are_borne_as_well() {
    let slow = |server: &SimServer| match server.spec.limit {
        Limit::Bucket { rate, .. } => rate <= 2.0,
        Limit::Window { count, per, .. } => f64::from(count) / per.as_secs_f64() <= 2.0,
        Limit::None => false,
    };
    let servers: Vec<SimServer> = SimServer::random(120, 20).into_iter().filter(slow).collect();
    assert!(servers.len() >= 40, "{}", servers.len());
    let played = play(&servers, &[1]);
    let mut goodput: Vec<f64> = played.iter().map(|(_, report)| report.goodput).collect();
    goodput.sort_by(f64::total_cmp);
    let mut refused: Vec<f64> = played.iter().map(|(_, report)| report.refused_per_hour).collect();
    refused.sort_by(f64::total_cmp);
    let mean = goodput.iter().sum::<f64>() / goodput.len() as f64;
    assert!(mean >= 0.90, "{mean}: {goodput:?}");
    assert!(goodput[goodput.len() / 10] >= 0.70, "{goodput:?}");
    assert!(refused[refused.len() / 2] <= 12.0, "{refused:?}");
    assert!(played.iter().map(|(_, report)| report.bans).sum::<u64>() <= 2);
}
