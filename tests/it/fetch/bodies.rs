//! Bodies: whole or not, decoded or not, too much or too slow.

use std::time::Duration;

use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZstdEncoder};
use crawldeck::control::{Outcome, RequestKind};
use crawldeck::crawl::exchange::Reply;
use crawldeck::crawl::fetcher::FetcherOptions;
use crawldeck::crawl::fetcher::body::ROBOTS_MAX;
use tokio::io::AsyncWriteExt;

use super::kit::{assert_failed, assert_status, fetcher, fetcher_with, get, get_as, network};
use crate::support::raw_server::{RawServer, Step, answer, response, write};

const MIB: usize = 1024 * 1024;

macro_rules! pack {
    ($encoder:ident, $bytes:expr) => {{
        let mut encoder = $encoder::new(Vec::new());
        encoder.write_all($bytes).await.expect("encoded");
        encoder.shutdown().await.expect("encoded");
        encoder.into_inner()
    }};
}

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    pack!(GzipEncoder, bytes)
}

async fn zstd(bytes: &[u8]) -> Vec<u8> {
    pack!(ZstdEncoder, bytes)
}

/// The reply to a body with a Content-Encoding.
async fn reply_to(coding: &str, body: &[u8], kind: RequestKind) -> Reply {
    let headers = format!("Content-Encoding: {coding}\r\n");
    let server = RawServer::start(vec![answer(response("200 OK", &headers, body))]).await;
    get_as(&fetcher(&network()), server.url("/").as_str(), kind).await
}

#[tokio::test]
async fn case_58_row_01_a_body_that_drips_ends_though_every_gap_is_short() {
    let mut network = network();
    network.min_body_rate = 100_000;
    let drip = Step::Forever(b"x".to_vec(), Duration::from_millis(10));
    let server =
        RawServer::start(vec![vec![Step::Request, write("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"), drip]])
            .await;
    let options = FetcherOptions { rate_window: Duration::from_millis(200), ..FetcherOptions::default() };
    let reply = get(&fetcher_with(&network, options), server.url("/").as_str()).await;
    assert_failed(&reply, Outcome::Timeout);
    assert_eq!(reply.status, Some(200));
    server.was_cut().await;
}

#[tokio::test]
async fn case_58_row_01_a_body_that_stops_ends_at_the_idle_deadline() {
    let mut network = network();
    network.idle_timeout = Duration::from_millis(200);
    let script = vec![
        Step::Request,
        write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
        Step::Pause(Duration::from_secs(60)),
    ];
    let server = RawServer::start(vec![script]).await;
    let reply = get(&fetcher(&network), server.url("/").as_str()).await;
    assert_failed(&reply, Outcome::Timeout);
    assert_eq!(reply.received, 3);
}

#[tokio::test]
async fn case_59_a_long_body_at_a_healthy_rate_passes_every_window() {
    let mut network = network();
    network.min_body_rate = 1024;
    // Far longer than the head's deadline and several windows long.
    let (pieces, piece) = (30, vec![b'x'; 16 * 1024]);
    let mut script =
        vec![Step::Request, write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", pieces * piece.len()))];
    for _ in 0..pieces {
        script.extend([Step::Write(piece.clone()), Step::Pause(Duration::from_millis(100))]);
    }
    let server = RawServer::start(vec![script]).await;
    let options = FetcherOptions { rate_window: Duration::from_secs(1), ..FetcherOptions::default() };
    let reply = get(&fetcher_with(&network, options), server.url("/").as_str()).await;
    assert_status(&reply, 200);
    assert_eq!(reply.received, (pieces * piece.len()) as u64);
}

#[tokio::test]
async fn case_60_a_body_shorter_than_announced_is_incomplete() {
    for (head, body) in [
        ("Content-Length: 100\r\n", "abcde"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n"),
        ("Transfer-Encoding: chunked\r\n", "64\r\nabcde"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\nxyz\r\n"),
    ] {
        let server = RawServer::start(vec![answer(format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}"))]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_failed(&reply, Outcome::Incomplete);
        assert_eq!((reply.status, reply.received), (Some(200), 5), "{body:?}");
        if head.starts_with("Content-Length") {
            assert!(reply.error.expect("a reason").as_str().contains("5 of 100"));
        }
    }
}

#[tokio::test]
async fn a_reset_within_the_body_is_not_called_incomplete() {
    let head = write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabcde");
    let server =
        RawServer::start(vec![vec![Step::Request, head, Step::Pause(Duration::from_millis(200)), Step::Reset]]).await;
    let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
    assert_failed(&reply, Outcome::ConnectionReset);
    assert!(!reply.unprocessed);
}

#[tokio::test]
async fn case_62_gzip_members_zeros_and_garbage() {
    let mut body = gzip(b"first,").await;
    body.extend(gzip(b"second").await);
    for (tail, noted) in [(&b""[..], false), (&[0; 100], false), (b"garbage", true)] {
        let reply = reply_to("x-gzip", &[&body[..], tail].concat(), RequestKind::Sitemap).await;
        assert_status(&reply, 200);
        assert_eq!(&reply.body[..], b"first,second");
        assert_eq!(!reply.anomalies.is_empty(), noted, "{reply:?}");
    }
}

#[tokio::test]
async fn case_63_zstd_frames() {
    let mut body = zstd(b"first,").await;
    body.extend(zstd(b"second").await);
    let reply = reply_to("zstd", &body, RequestKind::Sitemap).await;
    assert_status(&reply, 200);
    assert_eq!(&reply.body[..], b"first,second");
    assert_eq!(reply.received, body.len() as u64);
}

#[tokio::test]
async fn stacked_and_unknown_codings() {
    let twice = gzip(&gzip(b"body").await).await;
    assert_eq!(&reply_to("gzip, gzip", &twice, RequestKind::Sitemap).await.body[..], b"body");
    let reply = reply_to("magic", b"as it came", RequestKind::Sitemap).await;
    assert_status(&reply, 200);
    assert_eq!(&reply.body[..], b"as it came");
    assert_eq!(reply.anomalies.len(), 1);
    assert_failed(&reply_to("gzip,gzip,gzip,gzip,gzip,gzip", b"", RequestKind::Page).await, Outcome::Decode);
}

#[tokio::test]
async fn case_65_bombs_are_too_large_for_pages_and_cut_for_robots() {
    let zeros = vec![0; 16 * MIB];
    let nested = gzip(&gzip(&zeros).await).await;
    for (coding, bomb) in [
        ("gzip", gzip(&zeros).await),
        ("br", pack!(BrotliEncoder, &zeros)),
        ("zstd", zstd(&zeros).await),
        ("gzip, gzip", nested),
    ] {
        let reply = reply_to(coding, &bomb, RequestKind::Page).await;
        assert_failed(&reply, Outcome::TooLarge);
        assert!(reply.body.is_empty());
        assert_failed(&reply_to(coding, &bomb, RequestKind::Sitemap).await, Outcome::TooLarge);
        let reply = reply_to(coding, &bomb, RequestKind::Robots).await;
        assert_status(&reply, 200);
        assert_eq!(reply.body.len() as u64, ROBOTS_MAX, "{coding}");
        assert!(reply.anomalies.iter().any(|text| text.as_str().contains("cut")), "{reply:?}");
    }
}

#[tokio::test]
async fn case_75_an_endless_page_ends_at_the_cap_and_the_connection_is_closed() {
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for (head, piece) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(0x10000)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk),
    ] {
        let script = vec![Step::Request, write(head), Step::Forever(piece.into_bytes(), Duration::ZERO)];
        let server = RawServer::start(vec![script]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_failed(&reply, Outcome::TooLarge);
        assert!(reply.received <= 2 * MIB as u64, "{}", reply.received);
        server.was_cut().await;
        // What the kernel buffers on both sides is all that can be beyond the cap.
        assert!(server.written() <= 64 * MIB as u64, "{}", server.written());
    }
}

#[tokio::test]
async fn broken_compression_is_decode_and_an_early_end_without_a_length_is_incomplete() {
    let whole = gzip(&b"text ".repeat(1000)).await;
    let half = &whole[..whole.len() / 2];
    assert_failed(&reply_to("gzip", b"plain text", RequestKind::Page).await, Outcome::Decode);
    assert_failed(&reply_to("gzip", half, RequestKind::Page).await, Outcome::Decode);
    let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let server = RawServer::start(vec![answer([&head[..], half].concat())]).await;
    assert_failed(&get(&fetcher(&network()), server.url("/").as_str()).await, Outcome::Incomplete);
}

#[tokio::test]
async fn a_throttle_stays_a_throttle_however_its_body_ends() {
    for text in [
        response("429 Too Many Requests", "Retry-After: 5\r\nContent-Encoding: gzip\r\n", "not gzip"),
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 50\r\n\r\nshort".to_vec(),
    ] {
        let server = RawServer::start(vec![answer(text)]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_status(&reply, 429);
        assert_eq!(reply.retry_after, Some(Duration::from_secs(5)));
        assert_eq!(reply.anomalies.len(), 1, "{reply:?}");
    }
}

#[tokio::test]
async fn a_refusal_s_body_is_not_waited_for() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 99999\r\n\r\n";
    let drip = Step::Forever(b"x".to_vec(), Duration::from_millis(10));
    let server = RawServer::start(vec![vec![Step::Request, write(head), drip]]).await;
    let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
    assert_status(&reply, 429);
    assert_eq!(reply.retry_after, Some(Duration::from_secs(30)));
    assert!(reply.anomalies.iter().any(|note| note.as_str().contains("not waited for")), "{:?}", reply.anomalies);
    server.was_cut().await;
}
