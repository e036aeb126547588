//! Links are gathered while a body streams: compressed, charset and all; and the body is not kept.

use std::sync::Arc;
use std::time::Duration;

use async_compression::tokio::write::GzipEncoder;
use crawldeck::control::{Outcome, RequestKind};
use crawldeck::crawl::exchange::{Fetch as _, FetchRequest, Reply};
use crawldeck::crawl::links::Rules;
use tokio::io::AsyncWriteExt as _;

use super::kit::{assert_failed, assert_status, fetcher, network};
use crate::support::raw_server::{RawServer, Step, answer, response, write};

const MIB: usize = 1024 * 1024;

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(bytes).await.expect("encoded");
    encoder.shutdown().await.expect("encoded");
    encoder.into_inner()
}

/// What a body with these headers leads to, at most a MiB of it decoded.
async fn reply_to(headers: &str, body: &[u8], kind: RequestKind) -> Reply {
    let server = RawServer::start(vec![answer(response("200 OK", headers, body))]).await;
    let rules = Rules { obey: true, agent: "crawldeck-test".into(), ..Rules::default() };
    let url = server.url("/dir/page");
    let request =
        FetchRequest { url: url.as_str().parse().expect("URL"), kind, links: Some(Arc::new(rules)), listener: None };
    fetcher(&network()).fetch(request).await
}

fn paths(reply: &Reply) -> Vec<String> {
    let found = reply.found.as_ref().expect("it was searched");
    found.links.iter().map(|link| format!("{}{}", link.url.host_str().unwrap_or_default(), link.url.path())).collect()
}

#[tokio::test]
async fn a_compressed_page_in_another_charset_leads_where_it_says() {
    let (page, _, _) = encoding_rs::SHIFT_JIS.encode("<a href='/あ'>日本<a href=\"http://o.example/%41?q\">");
    let headers = "Content-Type: text/html; charset=Shift_JIS\r\nContent-Encoding: gzip\r\n";
    let reply = reply_to(headers, &gzip(&page).await, RequestKind::Page).await;
    assert_status(&reply, 200);
    assert_eq!(paths(&reply), ["127.0.0.1/%E3%81%82", "o.example/%41"]);
    assert!(reply.body.is_empty());
}

#[tokio::test]
async fn a_page_that_is_too_large_leads_where_its_beginning_says() {
    let page = [b"<a href=/x>".as_slice(), &vec![b' '; 2 * MIB], b"<a href=/y>"].concat();
    let reply = reply_to("Content-Type: text/html\r\n", &page, RequestKind::Page).await;
    assert_failed(&reply, Outcome::TooLarge);
    assert_eq!(paths(&reply), ["127.0.0.1/x"]);
}

#[tokio::test]
async fn case_66_a_gz_sitemap_is_undone_whatever_its_headers_say_and_a_bomb_is_cut() {
    let map = b"<urlset><url><loc>http://h.example/a</loc></url></urlset>";
    for (headers, body) in [
        ("", map.to_vec()),
        ("Content-Type: application/gzip\r\n", gzip(map).await),
        ("Content-Encoding: gzip\r\n", gzip(map).await),
        ("Content-Encoding: gzip\r\n", gzip(&gzip(map).await).await),
    ] {
        let reply = reply_to(headers, &body, RequestKind::Sitemap).await;
        assert_status(&reply, 200);
        assert_eq!(paths(&reply), ["h.example/a"], "{headers}");
        assert!(reply.body.is_empty() && reply.anomalies.is_empty(), "{reply:?}");
    }
    let endless = [b"http://h.example/a\n".as_slice(), &vec![b' '; 8 * MIB]].concat();
    for body in [endless.clone(), gzip(&endless).await] {
        let reply = reply_to("", &body, RequestKind::Sitemap).await;
        assert_eq!(paths(&reply), ["h.example/a"]);
        assert!(!reply.anomalies.is_empty() || reply.error.is_some(), "{reply:?}");
    }
}

#[tokio::test]
async fn row_02_a_page_and_a_sitemap_without_end_are_read_up_to_their_cap() {
    for (kind, piece) in [(RequestKind::Page, "<p><a href=/x>x</a>"), (RequestKind::Sitemap, "http://h.example/a\n")] {
        let head = write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n");
        let piece = piece.repeat(4_096 / piece.len());
        let endless = Step::Forever(piece.into_bytes(), Duration::ZERO);
        let server = RawServer::start(vec![vec![Step::Request, head, endless]]).await;
        let rules = Rules { obey: true, ..Rules::default() };
        let url = server.url("/").as_str().parse().expect("URL");
        let reply =
            fetcher(&network()).fetch(FetchRequest { url, kind, links: Some(Arc::new(rules)), listener: None }).await;
        server.was_cut().await;
        assert!(reply.received <= 2 * MIB as u64, "{}", reply.received);
        assert_eq!(
            reply.found.expect("it was searched").links.len(),
            1 + usize::from(kind == RequestKind::Sitemap) * 49_999
        );
    }
}
