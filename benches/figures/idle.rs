//! Processor time of a dashboard on which nothing happens: 1,000 hosts, all held by a Retry-After of hours.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::crawl::{Job, Terminal, wait_until};
use crate::server::{Answer, Server};
use crate::table::Table;

const HOSTS: usize = 1_000;
const SPAN: Duration = Duration::from_secs(10);

pub(crate) fn measure(table: &mut Table) {
    let server =
        Server::start(Box::new(|_, _| Answer { status: 429, retry_after: Some(3 * 3600), ..Answer::ok(Bytes::new()) }));
    let mut config = String::from(
        "[politeness]\nrespect_robots = false\n[controller]\ncold_start = false\n[network]\nallow_private = true\n\
         [network.resolve]\n",
    );
    let mut urls = String::new();
    for host in 0..HOSTS {
        let _ = writeln!(config, "\"h{host}.test\" = \"{}\"", server.addr());
        for page in 0..5 {
            let _ = writeln!(urls, "http://h{host}.test/p/{page}");
        }
    }
    let mut dashboard = Job::new(&config, &urls).dashboard_kept();
    wait_until("an answer to every host", Duration::from_secs(60), || server.count() >= HOSTS);
    std::thread::sleep(Duration::from_secs(5));
    let seen = server.count();
    let share = share_of_a_core(&dashboard.1);
    let more = server.count() - seen;
    table.add(
        "idle dashboard, 1,000 hosts all held, share of a core over 10 s",
        format!("{:.2} % ({more} requests meanwhile)", share * 100.0),
        "≤ 1 %",
    );
    dashboard.1.hang_up();
    std::thread::sleep(Duration::from_secs(5));
    let share = share_of_a_core(&dashboard.1);
    table.add("the same after its terminal vanished, all threads", format!("{:.2} %", share * 100.0), "≤ 2 %");
}

fn share_of_a_core(dashboard: &Terminal) -> f64 {
    let (before, began) = (dashboard.cpu(), Instant::now());
    std::thread::sleep(SPAN);
    // Threads that ended meanwhile are counted no more.
    dashboard.cpu().saturating_sub(before) as f64 / began.elapsed().as_nanos() as f64
}
