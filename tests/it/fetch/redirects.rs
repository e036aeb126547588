//! Redirects are told, never followed; cookies that make them end.

use crawldeck::control::{Outcome, Verdict};

use super::kit::{assert_failed, assert_status, fetcher, get, lines, network};
use crate::support::raw_server::{RawServer, Step, answer, response, write};

#[tokio::test]
async fn row_05_a_redirect_is_one_request_on_the_wire() {
    for status in [301, 302, 303, 307, 308] {
        let text = response(&format!("{status} Moved"), "Location: /self?a=b#c\r\n", "");
        let server = RawServer::start(vec![answer(text)]).await;
        let reply = get(&fetcher(&network()), server.url("/self").as_str()).await;
        assert_status(&reply, status);
        assert_eq!(reply.location, Some(Ok(server.url("/self?a=b"))));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn row_05_a_redirect_that_leads_nowhere_is_a_failure_not_a_success() {
    for location in ["", "Location: \r\n", "Location: file:///etc/passwd\r\n", "Location: javascript:alert(1)\r\n"] {
        let server = RawServer::start(vec![answer(response("302 Found", location, ""))]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_failed(&reply, Outcome::RedirectNotFollowed);
        assert_eq!(reply.status, Some(302));
        assert!(matches!(reply.location, Some(Err(_))), "{reply:?}");
    }
}

#[tokio::test]
async fn a_latin_1_target_keeps_its_bytes() {
    let text = [&b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /caf\xe9\r\n\r\n"[..]].concat();
    let server = RawServer::start(vec![answer(text)]).await;
    let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
    assert_eq!(reply.location, Some(Ok(server.url("/caf%E9"))));
}

#[tokio::test]
async fn other_3xx_are_plain_statuses() {
    for status in [300, 304, 305, 306] {
        let text = format!("HTTP/1.1 {status} Other\r\nLocation: /x\r\nConnection: close\r\n\r\n");
        let server = RawServer::start(vec![answer(text)]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_eq!(reply.verdict, Verdict::Status(status), "{reply:?}");
        assert_eq!(reply.location, None);
    }
}

#[tokio::test]
async fn case_50_a_redirect_loop_that_sets_a_cookie_is_told_from_an_endless_one() {
    let server = RawServer::start(vec![vec![
        Step::Request,
        write(response("302 Found", "Location: /sso\r\nSet-Cookie: from=home\r\n", "")),
        Step::Request,
        write(response("302 Found", "Location: /\r\nSet-Cookie: session=1; Path=/\r\n", "")),
        Step::Request,
        write(response("200 OK", "Set-Cookie: session=1; Path=/\r\n", "in")),
    ]])
    .await;
    let mut network = network();
    network.cookies = true;
    let fetcher = fetcher(&network);
    let mut url = server.url("/");
    let mut changes = Vec::new();
    let mut last = None;
    for _ in 0..3 {
        let reply = get(&fetcher, url.as_str()).await;
        changes.push(reply.cookie_changed);
        if let Some(Ok(next)) = &reply.location {
            url = next.clone();
        }
        last = Some(reply);
    }
    assert_status(&last.expect("three replies"), 200);
    assert_eq!(changes, [true, true, false], "the last one sets what is set already");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(!requests[0].to_ascii_lowercase().contains("cookie"));
    let cookies = lines(&requests[2]).into_iter().find(|line| line.starts_with("cookie: ")).expect("cookies");
    assert!(cookies.contains("session=1") && cookies.contains("from=home"), "{cookies}");
}

#[tokio::test]
async fn without_the_setting_no_cookie_is_kept() {
    let text = response("200 OK", "Set-Cookie: a=1\r\n", "");
    let server = RawServer::start(vec![[answer(&text), answer(&text)].concat()]).await;
    let fetcher = fetcher(&network());
    for _ in 0..2 {
        assert!(!get(&fetcher, server.url("/").as_str()).await.cookie_changed);
    }
    assert!(!server.requests()[1].to_ascii_lowercase().contains("cookie"));
}

#[tokio::test]
async fn a_redirect_s_hints_are_not_taken() {
    let hints = "X-RateLimit-Remaining: 3\r\nX-RateLimit-Reset: 10\r\n";
    let moved = response("302 Found", &format!("Location: /else\r\n{hints}"), "");
    let server = RawServer::start(vec![answer(moved), answer(response("200 OK", hints, "page"))]).await;
    let fetcher = fetcher(&network());
    let reply = get(&fetcher, server.url("/").as_str()).await;
    assert_eq!(reply.hint, None, "it may speak for where it leads to");
    let reply = get(&fetcher, server.url("/else").as_str()).await;
    assert_eq!(reply.hint.map(|hint| hint.remaining), Some(3.0));
    assert_eq!(reply.peer, Some(server.address), "whom it came from");
}
