//! What is sent, and how response heads are judged.

use std::sync::Arc;
use std::time::Duration;

use crawldeck::control::Outcome;
use crawldeck::crawl::fetcher::HttpFetcher;

use super::kit::{AGENT, assert_failed, assert_status, clock, fetcher, get, lines, network, resolve, rule};
use crate::support::raw_server::{RawServer, Step, answer, response, write};

#[tokio::test]
async fn a_request_says_who_we_are_and_nothing_else() {
    let server = RawServer::start(vec![answer(response("200 OK", "", "hello"))]).await;
    let reply = get(&fetcher(&network()), server.url("/page?q=1#part").as_str()).await;
    assert_status(&reply, 200);
    assert_eq!((reply.received, reply.body.len(), reply.on_wire), (5, 0, true));
    let host = format!("host: {}", server.address);
    let mut sent = lines(&server.requests()[0]);
    sent.sort();
    let mut expected = vec![
        String::new(),
        String::from("get /page?q=1 http/1.1"),
        format!("user-agent: {AGENT}").to_ascii_lowercase(),
        String::from("accept: */*"),
        String::from("accept-encoding: gzip, deflate, br, zstd"),
        host,
    ];
    expected.sort();
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn case_55_an_ipv6_literal_is_fetched_with_brackets_in_host() {
    let server = RawServer::start_at("[::1]:0", None, vec![answer(response("200 OK", "", ""))]).await;
    let port = server.address.port();
    assert_status(&get(&fetcher(&network()), &format!("http://[::1]:{port}/")).await, 200);
    assert!(lines(&server.requests()[0]).contains(&format!("host: [::1]:{port}")));
}

#[tokio::test]
async fn names_lead_where_resolve_says_and_keep_their_host_header() {
    let server = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let mut network = network();
    resolve(&mut network, "name.test", &server);
    let fetcher = fetcher(&network);
    for (url, host) in [
        ("http://name.test/", "host: name.test"),
        ("http://NAME.test:8080/", "host: name.test:8080"),
        ("http://name.test./", "host: name.test."),
    ] {
        assert_status(&get(&fetcher, url).await, 200);
        let sent = server.requests().pop().expect("a request");
        assert!(lines(&sent).contains(&host.to_owned()), "{url}: {sent}");
    }
}

#[tokio::test]
async fn case_47_bound_headers_and_referer_do_not_follow_to_another_host() {
    let first = RawServer::start(vec![answer(response("302 Found", "Location: http://second.test/in\r\n", ""))]).await;
    let second = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let mut network = network();
    resolve(&mut network, "first.test", &first);
    resolve(&mut network, "second.test", &second);
    let rules = Arc::new([rule("first.test", "X-Api-Key", "canary")]);
    let fetcher = HttpFetcher::new(&network, AGENT, rules, clock()).expect("a fetcher");
    let reply = get(&fetcher, "http://first.test/secret?token=abc").await;
    let next = reply.location.expect("a location").expect("a good one");
    assert_status(&get(&fetcher, next.as_str()).await, 200);
    assert!(lines(&first.requests()[0]).contains(&String::from("x-api-key: canary")));
    let sent = second.requests().concat().to_ascii_lowercase();
    for secret in ["canary", "x-api-key", "referer", "token=abc", "authorization", "cookie"] {
        assert!(!sent.contains(secret), "{sent}");
    }
}

#[tokio::test]
async fn case_58_row_01_a_head_that_drips_ends_at_its_deadline() {
    let mut network = network();
    network.head_timeout = Duration::from_millis(400);
    let drip = Duration::from_millis(20);
    for (start, again) in
        [("HTTP/1.1 200 OK\r\n", "X-More: 1\r\n"), ("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), ("", "")]
    {
        let script = vec![Step::Request, write(start), Step::Forever(again.as_bytes().to_vec(), drip)];
        let server = RawServer::start(vec![script]).await;
        assert_failed(&get(&fetcher(&network), server.url("/").as_str()).await, Outcome::Timeout);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn case_68_row_04_header_blocks_beyond_our_limits_are_refused_by_name() {
    let many = |count: usize| "X-Filler: 1\r\n".repeat(count);
    let long = |bytes: usize| format!("X-Long: {}\r\n", "y".repeat(bytes));
    for (headers, fits) in [
        (many(99), true),
        (many(100), false),
        (many(10_000), false),
        (long(60_000), true),
        (long(70_000), false),
        (long(1_000_000), false),
    ] {
        let server = RawServer::start(vec![answer(response("200 OK", &headers, ""))]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        if fits {
            assert_status(&reply, 200);
        } else {
            assert_failed(&reply, Outcome::LimitExceeded);
        }
    }
}

#[tokio::test]
async fn sloppy_heads_are_read_as_browsers_read_them() {
    for headers in ["X-Folded: one\r\n two\r\n", "X-Space : 1\r\n", "this line is junk\r\n"] {
        let server = RawServer::start(vec![answer(response("200 OK", headers, "body"))]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_status(&reply, 200);
        assert_eq!(reply.received, 4, "{headers:?}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_called_so() {
    for bytes in [
        "<html>hello</html>",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let server = RawServer::start(vec![answer(bytes)]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_failed(&reply, Outcome::Decode);
    }
}

#[tokio::test]
async fn length_and_chunks_together_are_noted() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    let server = RawServer::start(vec![answer(text)]).await;
    let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
    assert_status(&reply, 200);
    assert!(reply.anomalies.iter().any(|text| text.as_str().contains("framing")), "{reply:?}");
}

#[tokio::test]
async fn retry_after_and_max_age_are_told_on_any_status() {
    for status in ["429 Too Many Requests", "503 Service Unavailable", "200 OK", "404 Not Found"] {
        let headers = "Retry-After: 7\r\nCache-Control: max-age=60\r\n";
        let server = RawServer::start(vec![answer(response(status, headers, ""))]).await;
        let reply = get(&fetcher(&network()), server.url("/").as_str()).await;
        assert_eq!(reply.retry_after, Some(Duration::from_secs(7)), "{status}");
        assert_eq!(reply.max_age, Some(Duration::from_secs(60)), "{status}");
    }
}

#[tokio::test]
async fn a_configured_proxy_gets_the_request_and_literals_are_judged_all_the_same() {
    let proxy = RawServer::start(vec![answer(response("200 OK", "", ""))]).await;
    let mut network = network();
    network.proxy = Some(format!("http://canary:canary@{}", proxy.address).parse().expect("URL"));
    network.allow_private = false;
    let fetcher = fetcher(&network);
    assert_status(&get(&fetcher, "http://never-resolved.test/path").await, 200);
    let sent = proxy.requests().concat();
    assert!(sent.starts_with("GET http://never-resolved.test/path HTTP/1.1\r\n"), "{sent}");
    assert!(lines(&sent).iter().any(|line| line.starts_with("proxy-authorization: basic ")), "{sent}");
    assert_failed(&get(&fetcher, "http://127.0.0.1/").await, Outcome::AddressRefused);
    assert_eq!(proxy.requests().len(), 1);
}
