//! Connections: what breaks them, what a break is called, and that the next request works.

use std::net::SocketAddr;
use std::time::Duration;

use crawldeck::config::NetworkConfig;
use crawldeck::control::Outcome;
use crawldeck::crawl::fetcher::FetcherOptions;

use super::kit::{assert_failed, assert_status, fetcher, fetcher_with, get, network, resolve_at, trusted};
use crate::support::raw_server::{Identity, RawServer, Step, answer, frame, response, write};

/// HTTP/2 frame types and flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` in HPACK.
const STATUS_200: u8 = 0x88;

/// A network in which `tls.test` is trusted and leads to the server.
pub(crate) fn trusting(identity: &Identity, server: &RawServer) -> (tempfile::TempDir, NetworkConfig) {
    trusting_at(identity, server.address)
}

/// The same for any server.
pub(crate) fn trusting_at(identity: &Identity, server: SocketAddr) -> (tempfile::TempDir, NetworkConfig) {
    let (folder, roots) = trusted(&identity.pem);
    let mut network = network();
    network.extra_roots.push(roots);
    resolve_at(&mut network, "tls.test", server);
    (folder, network)
}

#[tokio::test]
async fn a_refused_connection_is_connect() {
    let gone = RawServer::start(vec![vec![]]).await.address;
    let reply = get(&fetcher(&network()), &format!("http://{gone}/")).await;
    assert_failed(&reply, Outcome::Connect);
    assert!(reply.on_wire);
}

#[tokio::test]
async fn a_fresh_connection_that_breaks_is_an_attempt() {
    for script in [vec![Step::Request], vec![Step::Request, Step::Reset], vec![Step::Request, write("HTTP/1.1 2")]] {
        let server = RawServer::start(vec![script]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_failed(&reply, Outcome::ConnectionReset);
        assert!(!reply.unprocessed, "{reply:?}");
        assert_eq!(server.requests().len(), 1, "nothing is sent twice");
    }
}

#[tokio::test]
async fn case_71_after_connections_were_killed_the_next_request_works() {
    let ok = response("200 OK", "", "");
    let killed = vec![Step::Request, write(&ok), Step::Reset];
    let server = RawServer::start(vec![killed.clone(), killed, answer(&ok)]).await;
    let fetcher = fetcher(&network());
    let mut fetched = 0;
    for _ in 0..6 {
        let reply = get(&fetcher, server.url("/").as_str()).await;
        if reply.error.is_none() {
            fetched += 1;
        } else {
            // The kill was seen only while sending.
            assert!(reply.unprocessed, "{reply:?}");
        }
        if fetched == 3 {
            break;
        }
    }
    assert_eq!(fetched, 3);
}

#[tokio::test]
async fn case_72_a_kept_alive_connection_closed_before_the_first_byte_is_no_attempt() {
    let ok = response("200 OK", "", "");
    for end in [vec![], vec![Step::Reset]] {
        let first = [answer(&ok), vec![Step::Request], end].concat();
        let server = RawServer::start(vec![first, answer(&ok)]).await;
        let fetcher = fetcher(&network());
        assert_status(&get(&fetcher, server.url("/one").as_str()).await, 200);
        let reply = get(&fetcher, server.url("/two").as_str()).await;
        assert_failed(&reply, Outcome::ConnectionReset);
        assert!(reply.unprocessed, "{reply:?}");
        assert_status(&get(&fetcher, server.url("/two").as_str()).await, 200);
        assert_eq!(server.requests().len(), 3, "the engine resends, not the client");
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn https_works_with_an_extra_root() {
    let identity = Identity::new("tls.test");
    let acceptor = identity.acceptor(&["http/1.1"]);
    let server = RawServer::start_tls(acceptor, vec![answer(response("200 OK", "", "body"))]).await;
    let (_folder, network) = trusting(&identity, &server);
    let reply = get(&fetcher(&network), "https://tls.test/").await;
    assert_status(&reply, 200);
    assert_eq!(reply.received, 4);
}

#[tokio::test]
async fn case_78_no_connection_is_kept_where_descriptors_are_few() {
    for (idle_per_host, connections) in [(4, 1), (0, 3)] {
        let page = || answer(response("200 OK", "", "page"));
        let server = RawServer::start(vec![[page(), page(), page()].concat()]).await;
        let options = FetcherOptions { idle_per_host, ..FetcherOptions::default() };
        let fetcher = fetcher_with(&network(), options);
        for _ in 0..3 {
            assert_status(&get(&fetcher, server.url("/").as_str()).await, 200);
        }
        assert_eq!(server.connections(), connections, "{idle_per_host} may be kept");
    }
}

#[tokio::test]
async fn case_74_a_bad_certificate_is_tls_and_one_handshake() {
    let expired = Identity::with("tls.test", |params| {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let wrong_name = Identity::new("other.test");
    let untrusted = Identity::new("tls.test");
    let trusted_one = Identity::new("tls.test");
    for (identity, trust) in [(&expired, &expired), (&wrong_name, &wrong_name), (&untrusted, &trusted_one)] {
        let server = RawServer::start_tls(identity.acceptor(&[]), vec![answer(response("200 OK", "", ""))]).await;
        let (_folder, network) = trusting(trust, &server);
        let reply = get(&fetcher(&network), "https://tls.test/").await;
        assert_failed(&reply, Outcome::Tls);
        assert_eq!(server.connections(), 1);
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn case_74_a_server_that_refuses_our_tls_versions_is_tls() {
    // A fatal alert: protocol_version.
    let server = RawServer::start(vec![vec![Step::ReadSome, write([0x15, 3, 1, 0, 2, 2, 70])]]).await;
    let reply = get(&fetcher(&network()), &format!("https://{}/", server.address)).await;
    assert_failed(&reply, Outcome::Tls);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_ends_within_the_handshake_is_connect() {
    let server = RawServer::start(vec![vec![Step::ReadSome]]).await;
    let reply = get(&fetcher(&network()), &format!("https://{}/", server.address)).await;
    assert_failed(&reply, Outcome::Connect);
}

#[tokio::test]
async fn a_handshake_that_hangs_is_connect() {
    let server = RawServer::start(vec![vec![Step::ReadSome, Step::Pause(Duration::from_secs(60))]]).await;
    let mut network = network();
    network.connect_timeout = Duration::from_millis(300);
    let reply = get(&fetcher(&network), &format!("https://{}/", server.address)).await;
    assert_failed(&reply, Outcome::Connect);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_url_that_is_too_long_for_the_wire_is_not_sent() {
    let server = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let reply = get(&fetcher(&network()), server.url(&format!("/{}", "x".repeat(70_000))).as_str()).await;
    assert_failed(&reply, Outcome::LimitExceeded);
    assert!(!reply.on_wire);
    assert_eq!(server.connections(), 0);
}

/// An HTTP/2 server that plays `scripts`, each after its SETTINGS.
pub(crate) async fn h2_server(identity: &Identity, scripts: Vec<Vec<Step>>) -> RawServer {
    let scripts = scripts.into_iter().map(|script| [vec![write(frame(SETTINGS, 0, 0, &[]))], script].concat());
    RawServer::start_tls(identity.acceptor(&["h2"]), scripts.collect()).await
}

pub(crate) fn h2_ok(stream: u32) -> Step {
    write(frame(HEADERS, END_STREAM | END_HEADERS, stream, &[STATUS_200]))
}

fn go_away(last: u32) -> Step {
    write(frame(GOAWAY, 0, 0, &[last.to_be_bytes(), 0_u32.to_be_bytes()].concat()))
}

#[tokio::test]
async fn case_70_streams_above_the_last_of_a_goaway_are_unprocessed_and_none_below_is_lost() {
    let identity = Identity::new("tls.test");
    let server = h2_server(
        &identity,
        vec![
            vec![Step::H2Requests(1), h2_ok(1), Step::H2Requests(2), go_away(3), h2_ok(3)],
            vec![Step::H2Requests(1), h2_ok(1)],
        ],
    )
    .await;
    let (_folder, network) = trusting(&identity, &server);
    let fetcher = fetcher(&network);
    assert_status(&get(&fetcher, "https://tls.test/warm").await, 200);
    let (a, b) = tokio::join!(get(&fetcher, "https://tls.test/a"), get(&fetcher, "https://tls.test/b"));
    let (whole, cut) = if a.error.is_none() { (a, b) } else { (b, a) };
    assert_status(&whole, 200);
    assert_failed(&cut, Outcome::ConnectionReset);
    assert!(cut.unprocessed, "{cut:?}");
    assert_status(&get(&fetcher, "https://tls.test/again").await, 200);
    assert_eq!(server.requests(), ["h2 stream 1", "h2 stream 3", "h2 stream 5", "h2 stream 1"]);
}

#[tokio::test]
async fn case_70_a_refused_stream_is_unprocessed_and_other_resets_are_not() {
    let identity = Identity::new("tls.test");
    for (code, unprocessed) in [(7_u32, true), (2, false), (8, false)] {
        let reset = write(frame(RST_STREAM, 0, 1, &code.to_be_bytes()));
        let script = vec![Step::H2Requests(1), reset, Step::H2Requests(1), h2_ok(3)];
        let server = h2_server(&identity, vec![script]).await;
        let (_folder, network) = trusting(&identity, &server);
        let fetcher = fetcher(&network);
        let reply = get(&fetcher, "https://tls.test/").await;
        assert_failed(&reply, Outcome::ConnectionReset);
        assert_eq!(reply.unprocessed, unprocessed, "{reply:?}");
        assert_eq!(server.requests(), ["h2 stream 1"], "the client resends nothing by itself");
        assert_status(&get(&fetcher, "https://tls.test/").await, 200);
    }
}

/// A header in HPACK: a literal that is not indexed.
fn literal(name: &str, value_length: usize) -> Vec<u8> {
    let mut bytes = vec![0, u8::try_from(name.len()).expect("a short name")];
    bytes.extend_from_slice(name.as_bytes());
    // A length of 7 bits and a continuation (RFC 7541 5.1).
    bytes.push(0x7f);
    let mut rest = value_length - 0x7f;
    while rest >= 0x80 {
        bytes.push((rest % 0x80) as u8 | 0x80);
        rest /= 0x80;
    }
    bytes.push(rest as u8);
    bytes.extend(std::iter::repeat_n(b'y', value_length));
    bytes
}

#[tokio::test]
async fn case_75_an_endless_h2_body_is_reset_and_the_connection_lives_on() {
    let identity = Identity::new("tls.test");
    // Within the window that holds before settings are acknowledged, and beyond the cap.
    let data = frame(DATA, 0, 1, &[b'x'; 16_000]).repeat(4);
    let script = vec![Step::H2Requests(1), write(frame(HEADERS, END_HEADERS, 1, &[STATUS_200])), Step::Write(data)];
    let server = h2_server(&identity, vec![[script, vec![Step::H2Requests(1), h2_ok(3)]].concat()]).await;
    let (_folder, mut network) = trusting(&identity, &server);
    network.max_body = 20_000;
    let fetcher = fetcher(&network);
    assert_failed(&get(&fetcher, "https://tls.test/").await, Outcome::TooLarge);
    assert_status(&get(&fetcher, "https://tls.test/").await, 200);
    assert_eq!(server.requests(), ["h2 stream 1", "h2 reset 1", "h2 stream 3"]);
}

/// A few bytes that stand for many headers, and a header block without end.
#[tokio::test]
async fn row_04_an_hpack_bomb_and_a_flood_of_continuations_end_the_connection() {
    let identity = Identity::new("tls.test");
    // One long header that is remembered, then references to it of a byte each: 40 MB if it were unpacked.
    let mut bomb = vec![STATUS_200, 0x40, 1, b'x', 0x7f];
    let mut rest = 4_000 - 0x7f;
    while rest >= 0x80 {
        bomb.push((rest % 0x80) as u8 | 0x80);
        rest /= 0x80;
    }
    bomb.push(rest as u8);
    bomb.extend([b'y'; 4_000]);
    bomb.extend([0xbe; 10_000]);
    let whole = frame(HEADERS, END_STREAM | END_HEADERS, 1, &bomb);
    let first = frame(HEADERS, END_STREAM, 1, &[STATUS_200]);
    let more = frame(CONTINUATION, 0, 1, &literal("x-more", 1_000));
    for script in [
        vec![Step::H2Requests(1), Step::Write(whole), Step::Pause(Duration::from_secs(60))],
        vec![Step::H2Requests(1), Step::Write(first), Step::Forever(more, Duration::ZERO)],
    ] {
        let server = h2_server(&identity, vec![script]).await;
        let (_folder, network) = trusting(&identity, &server);
        assert_failed(&get(&fetcher(&network), "https://tls.test/").await, Outcome::LimitExceeded);
        // Nor is it tried a second time.
        assert_eq!((server.connections(), server.requests().len()), (1, 1));
    }
}

#[tokio::test]
async fn case_68_row_04_h2_header_blocks_beyond_our_limits_are_refused_by_name() {
    let identity = Identity::new("tls.test");
    for count in [6, 60] {
        let mut block = vec![STATUS_200];
        for number in 0..count {
            block.extend(literal(&format!("x-{number}"), 15_000));
        }
        let mut frames = Vec::new();
        let pieces: Vec<&[u8]> = block.chunks(16_000).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let kind = if index == 0 { HEADERS } else { CONTINUATION };
            let flags =
                if index == 0 { END_STREAM } else { 0 } | if index + 1 == pieces.len() { END_HEADERS } else { 0 };
            frames.extend(frame(kind, flags, 1, piece));
        }
        let script = vec![Step::H2Requests(1), Step::Write(frames), Step::Pause(Duration::from_secs(60))];
        let server = h2_server(&identity, vec![script]).await;
        let (_folder, network) = trusting(&identity, &server);
        assert_failed(&get(&fetcher(&network), "https://tls.test/").await, Outcome::LimitExceeded);
    }
}
