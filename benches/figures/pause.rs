//! From the key that pauses a host to its last request on the wire, at 500 requests a second.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::crawl::{Job, wait_until};
use crate::server::{Answer, Server};
use crate::table::Table;

const TIMES: u32 = 20;

pub(crate) fn measure(table: &mut Table) {
    let server = Server::start(Box::new(|_, path| match path {
        "/robots.txt" => Answer { status: 404, ..Answer::ok(Bytes::new()) },
        _ => Answer::ok(Bytes::from_static(b"page")),
    }));
    let config = "[politeness]\nrate = 500\ncapacity = 4\nconnections = 16\n[controller]\ncold_start = false\n\
                  [network]\nallow_private = true\n";
    let (_job, mut dashboard) = Job::new(config, &server.pages(200_000)).dashboard_kept();
    wait_until("requests", Duration::from_secs(20), || server.count() > 1_000);
    let mut worst = Duration::ZERO;
    for _ in 0..TIMES {
        let pressed = Instant::now();
        dashboard.press("p");
        std::thread::sleep(Duration::from_millis(500));
        let last = server.last().expect("there were some").at;
        worst = worst.max(last.saturating_duration_since(pressed));
        let (count, until) = (server.count(), Instant::now() + Duration::from_millis(500));
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(server.count(), count, "it stays paused");
        dashboard.press("p");
        wait_until("requests again", Duration::from_secs(5), || server.count() > count + 100);
    }
    table.add(
        "key press to the last request of the paused host on the wire, 500/s, worst of 20",
        format!("{:.1} ms", worst.as_secs_f64() * 1e3),
        "≤ 50 ms",
    );
}
