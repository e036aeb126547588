//! Real exchanges over sockets, as they stand in the archive.

use std::sync::Arc;
use std::time::Duration;

use crawldeck::control::{Outcome, RequestKind};
use crawldeck::crawl::fetcher::{FetcherOptions, HttpFetcher};

use super::kit::{Kept, WARC};
use crate::fetch::connections::{h2_ok, h2_server, trusting};
use crate::fetch::kit::{AGENT, assert_failed, assert_status, clock, network, rule};
use crate::support::raw_server::{Identity, RawServer, Step, answer, response, write};
use crate::support::warc::Record;

/// One response of a server, fetched as a page: its records.
async fn kept(script: Vec<Step>) -> (Vec<Record>, String) {
    kept_as(script, RequestKind::Page, |_| {}).await
}

async fn kept_as(
    script: Vec<Step>,
    kind: RequestKind,
    change: impl FnOnce(&mut crawldeck::config::NetworkConfig),
) -> (Vec<Record>, String) {
    let server = RawServer::start(vec![script]).await;
    let kept = Kept::new(WARC);
    let fetcher = kept.fetcher(change);
    let reply = kept.get(&fetcher, server.url("/page?q=1").as_str(), kind).await;
    let request = server.requests().first().cloned().unwrap_or_default();
    let records = kept.close().0;
    assert_eq!(records.is_empty(), reply.status.is_none(), "{reply:?}");
    (records, request)
}

fn kinds(records: &[Record]) -> Vec<&str> {
    records.iter().map(Record::kind).collect()
}

#[tokio::test]
async fn an_exchange_is_a_response_a_request_and_metadata_that_name_each_other() {
    let (records, sent) =
        kept(answer(response("200 Fine indeed", "Set-Cookie: a=1\r\nX-Two: 1\r\nX-Two: 2\r\n", "a page"))).await;
    assert_eq!(kinds(&records), ["warcinfo", "response", "request", "metadata"]);
    let [info, answer, asked, metadata] = &records[..] else { panic!("four records") };
    let (head, payload) = answer.message();
    assert_eq!(
        head,
        "HTTP/1.1 200 Fine indeed\r\nset-cookie: a=1\r\nx-two: 1\r\nx-two: 2\r\ncontent-length: 6\r\n\r\n"
    );
    assert_eq!(payload, b"a page");
    assert_eq!(answer.need("WARC-IP-Address"), "127.0.0.1");
    assert_eq!(answer.field("WARC-Truncated"), None);
    // The oracle is what the server read from its socket.
    assert_eq!(String::from_utf8_lossy(&asked.block), sent);
    for record in [answer, asked, metadata] {
        assert_eq!(record.need("WARC-Warcinfo-ID"), info.need("WARC-Record-ID"));
        assert_eq!(record.need("WARC-Target-URI"), answer.need("WARC-Target-URI"));
        assert_eq!(record.need("WARC-Date"), "2026-11-30T12:00:00.000000Z");
    }
    for record in [asked, metadata] {
        assert_eq!(record.need("WARC-Concurrent-To"), answer.need("WARC-Record-ID"));
    }
    let fields = String::from_utf8_lossy(&metadata.block).into_owned();
    assert!(fields.contains("kind: page\r\n") && fields.contains("receivedBytes: 6\r\n"), "{fields}");
    let fields = String::from_utf8_lossy(&info.block).into_owned();
    assert!(fields.contains("software: crawldeck/") && fields.contains("format: WARC File Format 1.1"), "{fields}");
    assert!(info.need("WARC-Filename").ends_with("-00001.warc.gz"));
}

/// Readers take what stands in `<>`, as some writers have it, for no URL at all.
#[tokio::test]
async fn case_125_the_uri_of_a_record_stands_there_as_it_is() {
    let (records, _) = kept(answer(response("200 OK", "", "a page"))).await;
    for record in records.iter().filter(|record| record.kind() != "warcinfo") {
        let uri = record.need("WARC-Target-URI");
        assert!(uri.starts_with("http://") && !uri.contains(['<', '>', ' ']), "{uri}");
        assert!(uri.parse::<url::Url>().is_ok(), "{uri}");
    }
}

#[tokio::test]
async fn case_121_chunks_are_gone_from_body_and_head_and_the_original_is_named() {
    let (records, _) = kept(answer(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n5\r\nabcde\r\n3;ext=1\r\nfgh\r\n0\r\nTrailer: t\r\n\r\n",
    ))
    .await;
    let answer = &records[1];
    assert_eq!(answer.message().1, b"abcdefgh");
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.header("content-length").as_deref(), Some("8"));
    assert_eq!(answer.header("x-archive-orig-transfer-encoding").as_deref(), Some("chunked"));
    let info = String::from_utf8_lossy(&records[0].block).into_owned();
    assert!(info.contains("X-Archive-Orig-"), "warcinfo says what was changed: {info}");
}

#[tokio::test]
async fn case_121_content_codings_stay_on_the_body_and_in_the_head() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, b"packed").expect("in memory");
    let packed = gzip.finish().expect("in memory");
    let (records, _) = kept(answer(response("200 OK", "Content-Encoding: gzip\r\n", &packed))).await;
    assert_eq!(records[1].message().1, packed);
    assert_eq!(records[1].header("content-encoding").as_deref(), Some("gzip"));
}

#[tokio::test]
async fn a_body_cut_by_a_limit_is_truncated_by_length() {
    // Received bytes, decoded bytes, robots.txt, the head.
    let page = |headers: &str, body: Vec<u8>| answer(response("200 OK", headers, body));
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut bomb, &vec![b' '; 3 << 20]).expect("in memory");
    let mut bomb = bomb.finish().expect("in memory");
    // More to come, so that the end cannot be what was cut.
    bomb.extend(vec![0; 1 << 20]);
    let many: String = (0..90).map(|number| format!("X-{number}: {}\r\n", "y".repeat(900))).collect();
    for (script, kind) in [
        (page("", vec![b'x'; 2 << 20]), RequestKind::Page),
        (page("Content-Encoding: gzip\r\n", bomb), RequestKind::Page),
        (page("", vec![b'x'; 900 << 10]), RequestKind::Robots),
        (page(&many, b"body".to_vec()), RequestKind::Page),
    ] {
        let (records, _) = kept_as(script, kind, |network| network.max_body = 1 << 20).await;
        let answer = &records[1];
        assert_eq!(answer.field("WARC-Truncated"), Some("length"), "{:?}", answer.message().0);
        assert_eq!(answer.header("content-length"), Some(answer.message().1.len().to_string()));
        assert!(answer.header("x-archive-orig-content-length").is_some());
    }
}

#[tokio::test]
async fn a_body_that_stops_or_is_not_waited_for_is_truncated_by_time() {
    let stops = vec![
        Step::Request,
        write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
        Step::Pause(Duration::from_secs(60)),
    ];
    let refuses = vec![
        Step::Request,
        write("HTTP/1.1 429 Slow down\r\nContent-Length: 9\r\n\r\n"),
        Step::Pause(Duration::from_secs(60)),
    ];
    for (script, stored) in [(stops, "abc"), (refuses, "")] {
        let limit = |network: &mut crawldeck::config::NetworkConfig| {
            network.idle_timeout = Duration::from_millis(100);
        };
        let (records, _) = kept_as(script, RequestKind::Page, limit).await;
        let answer = &records[1];
        assert_eq!(answer.field("WARC-Truncated"), Some("time"));
        assert_eq!(answer.message().1, stored.as_bytes());
        assert_eq!(answer.header("x-archive-orig-content-length").as_deref(), Some("9"));
    }
}

#[tokio::test]
async fn case_60_a_body_whose_connection_ended_early_is_truncated_by_disconnect() {
    for script in [
        answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabcde"),
        answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"),
        answer("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"),
        vec![
            Step::Request,
            write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabcde"),
            Step::Pause(Duration::from_millis(200)),
            Step::Reset,
        ],
    ] {
        let (records, _) = kept(script).await;
        let answer = &records[1];
        assert_eq!(answer.field("WARC-Truncated"), Some("disconnect"));
        assert_eq!(answer.message().1, b"abcde");
        assert_eq!(answer.header("content-length").as_deref(), Some("5"));
    }
}

#[tokio::test]
async fn what_is_whole_on_the_wire_is_not_called_truncated() {
    for (headers, body) in [
        // Broken, and cut, inside of the coding alone.
        ("Content-Encoding: gzip\r\n", &b"\x1f\x8b\x08\x00 this is no deflate"[..]),
        ("Content-Encoding: gzip\r\n", &b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"[..]),
        ("Content-Encoding: rot13\r\n", b"ebg13"),
        ("", b""),
    ] {
        let (records, _) = kept(answer(response("200 OK", headers, body))).await;
        assert_eq!(records[1].field("WARC-Truncated"), None, "{headers}");
        assert_eq!(records[1].message().1, body);
    }
    // What comes after it turned out to be broken is kept, too.
    let chunks = |last: &str| {
        let broken = "18\r\n\x1f\u{8}is not compressed data";
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n";
        vec![
            Step::Request,
            write(format!("{head}{broken}")),
            Step::Pause(Duration::from_millis(100)),
            write(format!("\r\n4\r\nrest\r\n{last}")),
        ]
    };
    for (last, reason) in [("0\r\n\r\n", None), ("9\r\nxy", Some("disconnect"))] {
        let (records, _) = kept(chunks(last)).await;
        assert_eq!(records[1].field("WARC-Truncated"), reason);
        assert!(records[1].message().1.starts_with(b"\x1f\x08is not compressed"));
        assert!(String::from_utf8_lossy(records[1].message().1).contains("rest"));
    }
    let (records, _) = kept(answer("HTTP/1.1 200 OK\r\n\r\nuntil the connection closes")).await;
    assert_eq!(records[1].field("WARC-Truncated"), None);
    assert_eq!(records[1].message().1, b"until the connection closes");
}

#[tokio::test]
async fn redirects_robots_and_refusals_are_exchanges_like_others() {
    for (status, kind) in [
        ("302 Found", RequestKind::Redirect),
        ("404 Not Found", RequestKind::Robots),
        ("503 Service Unavailable", RequestKind::Page),
    ] {
        let headers = "Location: /elsewhere\r\nRetry-After: 1\r\n";
        let (records, sent) = kept_as(answer(response(status, headers, "why")), kind, |_| {}).await;
        assert_eq!(kinds(&records), ["warcinfo", "response", "request", "metadata"]);
        assert!(records[1].message().0.starts_with(&format!("HTTP/1.1 {status}\r\n")));
        assert_eq!(String::from_utf8_lossy(&records[2].block), sent);
        let fields = String::from_utf8_lossy(&records[3].block).into_owned();
        assert!(fields.contains(&format!("kind: {}\r\n", kind.as_str())), "{fields}");
    }
}

#[tokio::test]
async fn an_exchange_without_a_response_leaves_no_record() {
    let (records, _) = kept(vec![Step::Request, Step::Reset]).await;
    assert!(records.is_empty(), "{records:?}");
}

#[tokio::test]
async fn a_body_that_cannot_be_spooled_is_our_own_trouble_and_is_asked_for_again() {
    let page = response("200 OK", "", vec![b'x'; 600 << 10]);
    let server = RawServer::start(vec![answer(&page)]).await;
    let kept = Kept::new(WARC);
    let fetcher = kept.fetcher(|_| {});
    let folder = kept.dir.path().join("warc");
    let aside = kept.dir.path().join("aside");
    std::fs::rename(&folder, &aside).expect("moved");
    let mut health = kept.archive.health_changed();
    let reply = kept.get(&fetcher, server.url("/").as_str(), RequestKind::Page).await;
    assert_failed(&reply, Outcome::Local);
    health.wait_for(|health| health.blocked.is_some()).await.expect("the writer lives");
    std::fs::rename(&aside, &folder).expect("moved back");
    health.wait_for(|health| health.blocked.is_none()).await.expect("the writer lives");
    assert_status(&kept.get(&fetcher, server.url("/").as_str(), RequestKind::Page).await, 200);
    let (records, _) = kept.close();
    assert_eq!(kinds(&records), ["warcinfo", "response", "request", "metadata"]);
    assert_eq!(records[1].message().1.len(), 600 << 10);
}

#[tokio::test]
async fn over_http_2_the_head_is_written_as_http_1_1_and_the_record_says_so() {
    let identity = Identity::new("tls.test");
    let server = h2_server(&identity, vec![vec![Step::H2Requests(1), h2_ok(1)]]).await;
    let (_folder, network) = trusting(&identity, &server);
    let kept = Kept::new(WARC);
    let fetcher = kept.fetcher(|own| *own = network);
    assert_status(&kept.get(&fetcher, "https://tls.test/a?b", RequestKind::Page).await, 200);
    let (records, _dir) = kept.close();
    let [_, answer, asked, _] = &records[..] else { panic!("four records") };
    assert_eq!(answer.need("WARC-Protocol"), "h2");
    assert_eq!(answer.need("WARC-Target-URI"), "https://tls.test/a?b");
    assert!(answer.message().0.starts_with("HTTP/1.1 200 OK\r\n"), "{}", answer.message().0);
    let head = String::from_utf8_lossy(&asked.block).into_owned();
    assert!(head.starts_with("GET /a?b HTTP/1.1\r\n") && head.contains("host: tls.test"), "{head}");
}

#[tokio::test]
async fn case_130_no_bound_header_and_no_password_is_in_the_archive() {
    let server = RawServer::start(vec![answer(response("200 OK", "", "a page"))]).await;
    let kept = Kept::new(WARC);
    let options = FetcherOptions { keep: Some(Arc::clone(&kept.room)), ..FetcherOptions::default() };
    let rules = Arc::new([rule("127.0.0.1:*", "X-Api-Key", "canary")]);
    let fetcher = HttpFetcher::with_options(&network(), AGENT, rules, clock(), options).expect("a fetcher");
    assert_status(&kept.get(&fetcher, server.url("/").as_str(), RequestKind::Page).await, 200);
    assert!(server.requests()[0].contains("canary"), "it was sent");
    let (records, _dir) = kept.close();
    assert!(String::from_utf8_lossy(&records[2].block).contains("x-api-key: (not recorded)"));
    for record in &records {
        assert!(!String::from_utf8_lossy(&record.block).contains("canary"), "{record:?}");
    }
}
