//! The lab server of the peers' table: 61 pages as a URL list, 5 requests a second, burst 5; started at rate 20
//! without a cold start, everything else by default (capacity 4, 4 connections, robots.txt is asked for first).

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use crawldeck::control::Mono;
use crawldeck::sim::{Latency, Limit, RetryAfter, ServerModel, ServerSpec, SimRequest, Site};

use crate::crawl::Job;
use crate::server::{Answer, Arrival, Server};
use crate::table::Table;

const PAGES: u32 = 61;
/// A request that is under way when the refusal is given does not disobey it.
const GRACE: Duration = Duration::from_millis(50);
const CONFIG: &str = "[politeness]\nrate = 20\n[controller]\ncold_start = false\n[network]\nallow_private = true\n";

pub(crate) fn measure(table: &mut Table) {
    for (name, refusal, told) in
        [("429 + Retry-After 2", 429, true), ("429 bare", 429, false), ("503 + Retry-After 2", 503, true)]
    {
        let spec = ServerSpec {
            limit: Limit::Bucket { rate: 5.0, burst: 5.0 },
            latency: Latency { median: Duration::from_millis(5), sigma: 0.0 },
            site: Site::of_pages(PAGES),
            refusal,
            retry_after: if told { RetryAfter::Fixed(Duration::from_secs(2)) } else { RetryAfter::Never },
            ..ServerSpec::default()
        };
        let mut model = ServerModel::new(spec, 0);
        let server = Server::start(Box::new(move |since, path| {
            let request = SimRequest { method: "GET", host: "lab.test", path };
            let said = model.respond(Mono::ZERO.after(since), &request);
            let told = said.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
            Answer {
                status: said.status,
                retry_after: told.and_then(|(_, value)| value.parse().ok()),
                body: Bytes::from(said.body.bytes()),
                after: said.latency,
                html: false,
            }
        }));
        Job::new(CONFIG, &server.pages(PAGES)).headless();
        let arrivals = server.arrivals();
        let pages: BTreeSet<u32> = arrivals.iter().filter(|one| one.status == 200).filter_map(|one| one.page).collect();
        let refused = arrivals.iter().filter(|one| matches!(one.status, 429 | 503)).count();
        let wall = arrivals[arrivals.len() - 1].at - arrivals[0].at;
        table.add(
            format!("lab server, {name}: pages / requests / refused / in window / wall"),
            format!(
                "{} / {} / {refused} / {} / {:.1} s",
                pages.len(),
                arrivals.len(),
                in_window(&arrivals),
                wall.as_secs_f64()
            ),
            "61 pages, ≤ 8 refused, 0 in window",
        );
    }
}

/// Requests that came while a wait that was told was running.
fn in_window(arrivals: &[Arrival]) -> usize {
    let disobeys = |one: &&Arrival| {
        arrivals.iter().any(|refusal| {
            let until = refusal.retry_after.map(|wait| refusal.answered + wait);
            until.is_some_and(|until| refusal.answered + GRACE < one.at && one.at < until)
        })
    };
    arrivals.iter().filter(disobeys).count()
}
