//! Bodies without end: of every kind of request, in every framing, nothing beyond the cap is counted or decoded, and
//! the server is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crawldeck::control::{Outcome, RequestKind, Verdict};
use crawldeck::crawl::exchange::Reply;
use crawldeck::crawl::fetcher::body::ROBOTS_MAX;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::connections::trusting_at;
use super::kit::{fetcher, get_as, network};
use crate::support::raw_server::{Identity, RawServer, Step, write};

const KIB: u64 = 1024;
/// The cap of the tests: above the first reads of a connection, below the size that later ones grow to.
const CAP: u64 = 100 * KIB;
/// How far beyond a cap a body may be looked at: one slice of what the client hands over.
const SLICE: u64 = 4 * KIB;
/// What the client library takes off a socket ahead of its reader: two reads of half a MiB at most. (848 KiB were the most
/// that calls of the system showed beyond a cap of 4 MiB.)
const AHEAD: u64 = 1024 * KIB;
/// What an HTTP/2 server may send before it is read: the window of a stream, and a frame that was on its way to us.
const WINDOW: u64 = (256 + 16) * KIB;

const KINDS: [RequestKind; 5] =
    [RequestKind::Page, RequestKind::Robots, RequestKind::Sitemap, RequestKind::Redirect, RequestKind::Feed];

/// It ended at the cap of its kind: a robots.txt is used as far as it was read, all else is too large.
#[track_caller]
fn assert_ended(reply: &Reply, kind: RequestKind) -> u64 {
    let (cap, verdict) = match kind {
        // Whatever the configuration says, as much is read as RFC 9309 2.5 wants.
        RequestKind::Robots => (ROBOTS_MAX, Verdict::Status(200)),
        _ => (CAP, Verdict::Failed(Outcome::TooLarge)),
    };
    assert_eq!(reply.verdict, verdict, "{kind:?}: {:?}", reply.error);
    assert!(reply.received >= cap && reply.received <= cap + SLICE, "{kind:?}: {} of {cap} bytes", reply.received);
    cap
}

/// What the kernel may hold of a connection on its way: the largest buffers of both ends.
fn in_the_kernel() -> u64 {
    let largest = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        text.split_whitespace().next_back().and_then(|number| number.parse().ok()).unwrap_or(64 * KIB * KIB)
    };
    largest("tcp_rmem") + largest("tcp_wmem")
}

#[tokio::test]
async fn row_02_a_body_without_end_is_read_up_to_its_cap_whatever_it_is_and_however_it_is_framed() {
    let piece = "x".repeat(0x4000);
    let chunk = format!("4000\r\n{piece}\r\n");
    let framings = [
        ("HTTP/1.1 200 OK\r\n\r\n", &piece),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &chunk),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", &piece),
    ];
    for kind in KINDS {
        for (head, piece) in framings {
            let endless = Step::Forever(piece.clone().into_bytes(), Duration::ZERO);
            let server = RawServer::start(vec![vec![Step::Request, write(head), endless]]).await;
            let mut network = network();
            network.max_body = CAP;
            let reply = get_as(&fetcher(&network), server.url("/").as_str(), kind).await;
            let cap = assert_ended(&reply, kind);
            // The server wrote until its connection was gone.
            server.was_cut().await;
            let most = cap + AHEAD + in_the_kernel();
            assert!(server.written() <= most, "{kind:?}, {head:?}: {} of {most} bytes", server.written());
            let kept = reply.body.len() as u64;
            assert!(kept == cap || (kept < cap && kind != RequestKind::Robots), "{kind:?}, {head:?}: {kept} bytes");
        }
    }
}

/// An HTTP/2 server that answers every request with a body without end, within the windows that it is given. Counts what
/// it sent, and the streams that were reset.
async fn endless_h2(listener: TcpListener, tls: TlsAcceptor, sent: Arc<AtomicU64>, resets: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_h2(stream, tls.clone(), Arc::clone(&sent), Arc::clone(&resets)));
    }
}

async fn serve_h2(stream: TcpStream, tls: TlsAcceptor, sent: Arc<AtomicU64>, resets: Arc<AtomicU64>) {
    let stream = tls.accept(stream).await.expect("a handshake");
    let mut connection = h2::server::handshake(stream).await.expect("a preface");
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let (sent, resets) = (Arc::clone(&sent), Arc::clone(&resets));
        tokio::spawn(async move {
            let mut body = respond.send_response(http::Response::new(()), false).expect("a head");
            loop {
                body.reserve_capacity(0x4000);
                match std::future::poll_fn(|context| body.poll_capacity(context)).await {
                    Some(Ok(room)) => {
                        body.send_data(Bytes::from(vec![b'x'; room]), false).expect("sent");
                        sent.fetch_add(room as u64, Ordering::SeqCst);
                    }
                    _ => {
                        resets.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                }
            }
        });
    }
}

#[tokio::test]
async fn row_02_an_endless_body_over_h2_is_reset_and_no_more_than_the_window_came_beyond_the_cap() {
    let identity = Identity::new("tls.test");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("address");
    let (sent, resets) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let server = tokio::spawn(endless_h2(listener, identity.acceptor(&["h2"]), Arc::clone(&sent), Arc::clone(&resets)));
    let (_folder, mut network) = trusting_at(&identity, address);
    network.max_body = CAP;
    let fetcher = fetcher(&network);
    for (before, kind) in (0_u64..).zip(KINDS) {
        sent.store(0, Ordering::SeqCst);
        let reply = get_as(&fetcher, "https://tls.test/", kind).await;
        let cap = assert_ended(&reply, kind);
        for _ in 0..1_000 {
            if resets.load(Ordering::SeqCst) > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(resets.load(Ordering::SeqCst), before + 1, "the stream was reset");
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent <= cap + SLICE + WINDOW, "{kind:?}: {sent} bytes were sent");
    }
    server.abort();
}
