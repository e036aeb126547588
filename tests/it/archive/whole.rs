//! Whole crawls with an archive: the real engine, fetcher, journal and writer.

use std::collections::BTreeSet;
use std::time::Duration;

use crawldeck::sim::{SimBody, SimResponse};

use super::kit::WARC;
use crate::support::engine::Crawl;
use crate::support::lab::LabServer;
use crate::support::warc;

#[tokio::test]
async fn every_request_of_a_crawl_is_in_the_archive() {
    let server = LabServer::start(Box::new(|_, request, _| {
        let latency = Duration::ZERO;
        match request.path {
            "/robots.txt" => SimResponse { status: 404, latency, ..SimResponse::default() },
            "/p/3" => SimResponse {
                status: 301,
                headers: vec![("Location", "/p/30".into())],
                latency,
                ..SimResponse::default()
            },
            path => {
                let body = SimBody::Text(format!("page {path}").into());
                SimResponse { status: 200, body, latency, ..SimResponse::default() }
            }
        }
    }));
    let mut crawl = Crawl::new();
    crawl.host("a.test", &server);
    crawl.pages("a.test", 20);
    crawl.keep(WARC);
    let ended = crawl.run().await;
    ended.assert_all_done(20);
    ended.assert_rows_are(&[&server]);
    let records = warc::parse(&ended.warc);
    for kind in ["response", "request", "metadata"] {
        let mut urls: Vec<&str> = records
            .iter()
            .filter(|record| record.kind() == kind)
            .map(|record| record.need("WARC-Target-URI"))
            .collect();
        urls.sort_unstable();
        let mut rows: Vec<&str> = ended.rows.iter().map(|row| row.url.as_str()).collect();
        rows.sort_unstable();
        assert_eq!(urls, rows, "{kind}");
    }
    let ids: BTreeSet<&str> = records.iter().map(|record| record.need("WARC-Record-ID")).collect();
    assert_eq!(ids.len(), records.len());
}
