//! Whether the rate that the server sees is the rate that was asked for, and never more.
//!
//! One host with more URLs than time; the server's own arrivals count. The envelope is judged as the tests' oracle
//! does it: lateness that differs between two requests brings them closer together than they were granted, so the
//! spread that would explain the worst window is told; the oracle allows 100 ms.

use std::time::Duration;

use bytes::Bytes;

use crate::crawl::Job;
use crate::server::{Answer, Server};
use crate::table::Table;

pub(crate) fn measure(table: &mut Table) {
    for (rate, capacity, seconds) in [(2_u32, 4_u32, 30_u32), (50, 10, 20), (1000, 100, 10)] {
        let server = Server::start(Box::new(|_, path| match path {
            "/robots.txt" => Answer { status: 404, ..Answer::ok(Bytes::new()) },
            _ => Answer::ok(Bytes::from_static(b"page")),
        }));
        let config = format!(
            "[politeness]\nrate = {rate}\ncapacity = {capacity}\nconnections = 64\n[controller]\ncold_start = false\n\
             [network]\nallow_private = true\n"
        );
        Job::new(&config, &server.pages(capacity + rate * seconds)).headless();
        let arrivals = server.arrivals();
        let first = arrivals[0].at;
        let times: Vec<Duration> = arrivals.iter().map(|arrival| arrival.at - first).collect();
        let took = times[times.len() - 1].as_secs_f64();
        let (rate, capacity) = (f64::from(rate), f64::from(capacity));
        let pace = (times.len() as f64 - capacity) / took / rate;
        let spread = spread(&times, rate, capacity);
        let verdict = if spread <= 0.1 { "0 breaches" } else { "BREACHED" };
        table.add(
            format!("(requests − capacity) ÷ time ÷ rate at {rate}/s, {seconds} s"),
            format!("{pace:.4}; {verdict} of the envelope (worst window: {:.1} ms of spread)", spread * 1e3),
            "0.99–1.005, envelope kept",
        );
    }
}

/// The spread of lateness, in seconds, that explains the fullest window; 0 if none is needed.
fn spread(times: &[Duration], rate: f64, capacity: f64) -> f64 {
    // As one pass: with level(k) = k - rate t_k, a window i..=j holds level(j) + 1 - level(i) more than the rate.
    let (mut lowest, mut worst) = (f64::INFINITY, 0.0_f64);
    for (k, time) in times.iter().enumerate() {
        let level = k as f64 - rate * time.as_secs_f64();
        lowest = lowest.min(level);
        worst = worst.max(level + 1.0 - lowest - capacity);
    }
    worst / rate
}
