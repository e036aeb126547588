//! The three scenes of the mission, a short run of the demo, and what only virtual time can show.

use std::time::Duration;

use crawldeck::clock::SystemClock;
use crawldeck::control::{Lane, Mono, Original, Outcome, Policy, Settings, Verdict};
use crawldeck::sim::{Limit, ServerModel, ServerSpec, Site};
use crawldeck::watch::Request;

use crate::support::engine::Crawl;
use crate::support::lab::LabServer;
use crate::support::virtual_host::{Response, VirtualHost};

/// A scene: `pages` of a server of this kind, all of which must arrive.
async fn assert_all_arrive(spec: ServerSpec, pages: u32, rate: f64) {
    let server = LabServer::of_model(ServerModel::new(ServerSpec { site: Site::of_pages(pages), ..spec }, 7));
    let mut crawl = Crawl::new();
    crawl.host("scene.test", &server);
    crawl.rate(rate, rate).connections = 4;
    crawl.config.crawl.retries = 8;
    crawl.pages("scene.test", pages);
    let ended = crawl.run().await;
    ended.assert_all_done(u64::from(pages));
    assert_eq!(ended.count(Outcome::Ok), pages as usize);
    ended.assert_rows_are(&[&server]);
}

#[tokio::test]
async fn scene_steady_every_url_ends_ok() {
    assert_all_arrive(ServerSpec::default(), 100, 200.0).await;
}

#[tokio::test]
async fn scene_limited_every_url_ends_ok() {
    let spec = ServerSpec { limit: Limit::Bucket { rate: 30.0, burst: 10.0 }, ..ServerSpec::default() };
    assert_all_arrive(spec, 60, 50.0).await;
}

#[tokio::test]
async fn scene_unstable_every_url_ends_ok() {
    assert_all_arrive(ServerSpec { errors: 0.2, ..ServerSpec::default() }, 60, 200.0).await;
}

#[tokio::test]
async fn a_short_run_of_the_demo_is_drained_cleanly() {
    let demo = crawldeck::demo::start(SystemClock::shared(), 1).await.expect("loopback");
    let mut crawl = Crawl::new();
    demo.configure(&mut crawl.config);
    let urls = demo.urls();
    let given = urls.len() as u64;
    for url in urls {
        crawl.url(url);
    }
    let running = crawl.start();
    running.totals_are("some pages of the demo", |totals| totals.urls_done >= 40 && totals.inputs_read).await;
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    let (done, failed, skipped, pending) = ended.fates();
    assert_eq!(done + failed + skipped + pending, given);
    assert!(ended.end.trouble.is_none());
    demo.stop().await;
}

fn policy(rate: f64, capacity: f64) -> Settings {
    let policy = Policy { original: Original { rate, capacity }, ..Policy::default() };
    Settings { policies: vec![policy], cold_start: false, ..Settings::default() }
}

fn answer(status: u16) -> Response {
    Response { verdict: Verdict::Status(status), retry_after: None, latency: Duration::from_millis(50) }
}

#[test]
fn wanted_04_the_host_earns_its_speed_back_and_never_passes_it() {
    let mut host = VirtualHost::new(policy(4.0, 8.0));
    host.queue(Lane(0), 100_000);
    let mut asked = 0;
    host.run_until(Mono::from_secs_f64(300.0), |_, _| {
        asked += 1;
        // One refusal, then successes with a 404 among them here and there: that does not start over.
        answer(if asked == 20 { 429 } else { [200, 200, 200, 404][asked % 4] })
    });
    let lowest = host.targets.iter().map(|(_, target)| target.rate).fold(f64::INFINITY, f64::min);
    let highest = host.targets.iter().map(|(_, target)| target.rate).fold(0.0, f64::max);
    let (_, last) = host.targets.last().expect("a target");
    assert_eq!((lowest, highest), (2.0, 4.0));
    assert_eq!(*last, Original { rate: 4.0, capacity: 8.0 });
}

#[test]
fn case_04_a_host_that_was_dead_for_an_hour_comes_back_by_itself() {
    let mut host = VirtualHost::new(policy(4.0, 8.0));
    host.queue(Lane(0), 100_000);
    let dead =
        Response { verdict: Verdict::Failed(Outcome::Connect), retry_after: None, latency: Duration::from_millis(50) };
    let (from, to) = (Mono::from_secs_f64(60.0), Mono::from_secs_f64(3_660.0));
    host.run_until(Mono::from_secs_f64(4_200.0), |now, _| if now >= from && now < to { dead } else { answer(200) });
    let during = host.arrivals.iter().filter(|one| one.at >= from.after(Duration::from_secs(1)) && one.at < to).count();
    // Backoff of at most a minute: about one try a minute, and no more.
    assert!((40..=80).contains(&during), "{during} tries in the hour");
    let after = host.arrivals.iter().filter(|one| one.at >= to).count();
    assert!(after > 1_500, "{after} requests in the nine minutes after");
    assert_eq!(host.targets.last().expect("a target").1, Original { rate: 4.0, capacity: 8.0 });
}
