//! What a learned prior is worth: fourteen simulated days on servers whose limit depends on the hour, and on two whose does
//! not, under no prior, the hour-of-week table, the random forest, and a static rate that is safe at the worst hour. And the
//! demo twice, the second time with what the first remembered.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crawldeck::clock::SystemClock;
use crawldeck::config::Config;
use crawldeck::control::prior::PriorKind;
use crawldeck::control::{ControllerKind, Mono, Policy, Settings};
use crawldeck::crawl::input::Source;
use crawldeck::demo;
use crawldeck::journal::summary::summarise;
use crawldeck::session::{self, SessionOptions};
use crawldeck::sim::{Drift, Limit, Seen, SimServer, run_visits};

use crate::table::Table;

const DAYS: u64 = 14;
const HOUR: u64 = 3_600;
const SEEDS: u64 = 1;
/// How long the demo runs each time, and its hosts that have a limit to be found.
const DEMO: Duration = Duration::from_secs(60);
const LIMITED: [&str; 4] = ["limit.demo", "retry-after.demo", "window.demo", "blocking.demo"];

/// A server, and the lowest rate that it ever bears.
fn servers() -> Vec<(&'static str, SimServer, f64)> {
    let server = |id: &str, rate: f64, burst: f64, drift: Drift| {
        let mut server = SimServer { hours: (24 * DAYS) as f64, ..SimServer::named(id) };
        server.spec.limit = Limit::Bucket { rate, burst };
        server.spec.drift = drift;
        server
    };
    let hours = |hours: u64| Duration::from_secs(hours * HOUR);
    // Virtual time begins on a Monday: by day a quarter, from Monday to Friday.
    let (mut at, mut factor) = (Vec::new(), Vec::new());
    for day in (0..DAYS).filter(|day| day % 7 < 5) {
        at.extend([hours(24 * day + 8), hours(24 * day + 20)]);
        factor.extend([0.25, 1.0]);
    }
    let mut sine = server("sine", 4.0, 4.0, Drift::Sine { amplitude: 0.75, period: hours(24) });
    sine.spec.burst_seconds = 2.0;
    let noise = Drift::Noise { amplitude: 0.25, step: Duration::from_secs(30) };
    vec![
        ("1 to 7/s over the day", sine, 1.0),
        ("6/s, working hours 1.5/s", server("office", 6.0, 12.0, Drift::Steps { at, factor }), 1.5),
        ("2/s always", server("flat", 2.0, 10.0, Drift::Constant), 2.0),
        ("3/s, wandering by chance", server("wander", 3.0, 6.0, noise), 1.5),
    ]
}

fn settings(prior: PriorKind, kind: ControllerKind) -> Settings {
    Settings { policies: vec![Policy { kind, ..Policy::default() }], prior, ..Settings::default() }
}

/// Accepted, refused and allowed within the visits.
fn sums(seen: &Seen, visits: &[(Mono, Mono)]) -> (f64, f64, f64) {
    let mut sums = (0.0, 0.0, 0.0);
    for (from, to) in visits {
        for second in from.as_secs_f64() as usize..(to.as_secs_f64() as usize).min(seen.course.limit.len()) {
            sums.0 += f64::from(seen.course.accepted[second]);
            sums.1 += f64::from(seen.course.refused[second]);
            sums.2 += f64::from(seen.course.limit[second]);
        }
    }
    sums
}

/// Runs the demo into `dir` with `memory`: refusals, and accepted answers, of the hosts that have a limit.
async fn play_demo(dir: &Path, memory: &Path) -> (u64, u64) {
    let servers = demo::start(SystemClock::shared(), 7).await.expect("free ports");
    let mut config = Config::default();
    servers.configure(&mut config);
    for policy in &mut config.settings.policies {
        policy.kind = ControllerKind::Adaptive;
    }
    config.memory = Some(memory.to_path_buf());
    let options = SessionOptions {
        config,
        dir: dir.to_path_buf(),
        sources: servers.urls().into_iter().map(Source::Url).collect(),
        headless: true,
        ends_after: Some(DEMO),
        legend: Vec::new(),
        config_file: None,
    };
    session::run(options).await.expect("it runs");
    servers.stop().await;
    let summary = summarise(dir).expect("a journal");
    let limited = summary.hosts.iter().filter(|host| LIMITED.contains(&host.host.as_str()));
    limited.fold((0, 0), |sum, host| (sum.0 + host.refusals, sum.1 + host.by_status.get(200)))
}

/// One run of the demo in a process of its own: prints refusals and accepted answers.
pub(crate) fn child(dir: &str, memory: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (refused, accepted) = runtime.block_on(play_demo(Path::new(dir), Path::new(memory)));
    println!("{refused} {accepted}");
}

/// The demo, cold and remembering.
fn measure_demo(table: &mut Table) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let play = |name: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["child", "demo"]).arg(folder.path().join(name)).arg(folder.path().join("memory"));
        let told = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
        let numbers: Vec<u64> = told.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        (numbers[0], numbers[1])
    };
    let (cold, warm) = (play("one"), play("two"));
    table.add(
        "demo with `adaptive`, its four limited hosts, 60 s: refusals (accepted) cold and remembering",
        format!("{} ({}), {} ({})", cold.0, cold.1, warm.0, warm.1),
        "half",
    );
}

/// All of it.
pub(crate) fn measure(table: &mut Table) {
    let at = |secs: u64| Mono::from_secs_f64(secs as f64);
    let always = vec![(at(0), at(24 * DAYS * HOUR))];
    let twice: Vec<(Mono, Mono)> = (0..DAYS)
        .flat_map(|day| [9, 21].map(|hour| (24 * day + hour) * HOUR))
        .map(|from| (at(from), at(from + HOUR / 2)))
        .collect();
    let contenders = [
        ("off", settings(PriorKind::Off, ControllerKind::Adaptive)),
        ("hour-of-week", settings(PriorKind::HourOfWeek, ControllerKind::Adaptive)),
        ("random-forest", settings(PriorKind::RandomForest, ControllerKind::Adaptive)),
    ];
    for (name, server, lowest) in servers() {
        for (how, visits) in [("14 days", &always), ("30 min at 9 and at 21", &twice)] {
            let hours: f64 = visits.iter().map(|(from, to)| to.secs_since(*from) / HOUR as f64).sum();
            let mut allowed = 0.0;
            for (prior, settings) in &contenders {
                let mut sum = (0.0, 0.0, 0.0);
                for seed in 1..=SEEDS {
                    let seen = run_visits(&server, settings, seed, visits).expect("a server");
                    let one = sums(&seen, visits);
                    sum = (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2);
                }
                allowed = sum.2 / SEEDS as f64;
                let told = format!("goodput {:.3}, {:.1} refused/h", sum.0 / sum.2, sum.1 / SEEDS as f64 / hours);
                table.add(format!("{name}, {how}: prior {prior}"), told, "–");
            }
            let mut safe = server.clone();
            safe.ceiling = 0.95 * lowest;
            let settings = settings(PriorKind::Off, ControllerKind::Static);
            if let Some(seen) = run_visits(&safe, &settings, 1, visits) {
                let (accepted, refused, _) = sums(&seen, visits);
                let told = format!("goodput {:.3}, {:.1} refused/h", accepted / allowed, refused / hours);
                table.add(format!("{name}, {how}: static safe rate"), told, "–");
            }
        }
    }
    measure_demo(table);
}
