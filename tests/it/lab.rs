//! The lab server itself: a judge that cannot condemn is no judge.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crawldeck::sim::{Close, SimBody, SimResponse};

use crate::support::lab::{Column, LabServer, bare_client};
use crate::support::oracle::{ALLOWED_JITTER, envelope, in_window, is_refusal, pages_ok, refusals};

/// All pages at once, by a client without manners.
async fn storm(server: &LabServer) {
    let client = bare_client(&[]);
    let asks = (0..Column::PAGES).map(|k| client.get(server.url(&format!("/p/{k}"))).send());
    for answer in futures_util::future::join_all(asks).await {
        answer.expect("an answer");
    }
}

#[tokio::test]
async fn a_storm_breaks_the_envelope_and_is_refused() {
    for column in Column::ALL {
        let server = LabServer::of_model(column.model());
        storm(&server).await;
        let arrivals = server.arrivals();
        assert_eq!(arrivals.len(), 61);
        let times: Vec<Duration> = arrivals.iter().map(|arrival| arrival.at).collect();
        let took = (times[60] - times[0]).as_secs_f64();
        // What it may let through in the time that the storm really took, on a slow machine, too.
        let most = 5 + (5.0 * took) as usize + 1;
        assert!((5..=most).contains(&pages_ok(&arrivals).len()), "{column:?}");
        assert_eq!(pages_ok(&arrivals).len() + refusals(&arrivals), 61);
        assert!(envelope(&times, 5.0, 5.0, Duration::ZERO).is_err(), "{column:?}");
        let (status, told) = match column {
            Column::TooManyTold => (429, Some(Duration::from_secs(2))),
            Column::TooManyBare => (429, None),
            Column::UnavailableTold => (503, Some(Duration::from_secs(2))),
        };
        for refused in arrivals.iter().filter(|arrival| is_refusal(arrival)) {
            assert_eq!((refused.status, refused.retry_after), (status, told));
        }
    }
}

#[tokio::test]
async fn who_keeps_to_the_limit_is_not_condemned() {
    let server = LabServer::of_model(Column::TooManyTold.model());
    let client = bare_client(&[]);
    for k in 0..5 {
        client.get(server.url(&format!("/p/{k}"))).send().await.expect("an answer");
    }
    assert!(server.jitter() >= ALLOWED_JITTER);
    server.assert_envelope(5.0, 5.0);
    assert_eq!(refusals(&server.arrivals()), 0);
}

#[tokio::test]
async fn who_comes_back_before_the_wait_is_over_is_found() {
    let hour = |_: Duration, _: &crawldeck::sim::SimRequest<'_>, _: &hyper::HeaderMap| SimResponse {
        status: 429,
        headers: vec![("retry-after", "3600".into())],
        ..SimResponse::default()
    };
    let server = LabServer::start(Box::new(hour));
    let client = bare_client(&[]);
    for _ in 0..3 {
        client.get(server.url("/p/0")).send().await.expect("an answer");
    }
    let arrivals = server.arrivals();
    let again: Vec<Duration> = in_window(&arrivals, Duration::ZERO).iter().map(|arrival| arrival.at).collect();
    assert_eq!(again, [arrivals[1].at, arrivals[2].at]);
    assert_eq!(in_window(&arrivals, Duration::from_secs(60)).len(), 0, "within the grace they may be under way");
}

#[tokio::test]
async fn it_records_what_was_sent_and_what_was_answered() {
    let server = LabServer::start(Box::new(|_, request, headers| SimResponse {
        status: if request.path == "/p/1?q=1" && headers.contains_key("x-key") { 200 } else { 404 },
        body: SimBody::Text("text".into()),
        ..SimResponse::default()
    }));
    let client = bare_client(&[("some.name", server.addr())]);
    let url = format!("http://some.name:{}/p/1?q=1", server.addr().port());
    let sent = client.get(url).header("x-key", "value").header("user-agent", "agent/1").send();
    assert_eq!(sent.await.expect("an answer").text().await.expect("a body"), "text");
    let arrivals = server.wait_for("an answered request", |all| all.iter().any(|one| one.answered.is_some())).await;
    let [arrival] = arrivals.as_slice() else { panic!("{arrivals:?}") };
    assert_eq!((arrival.method.as_str(), arrival.path.as_str(), arrival.status), ("GET", "/p/1?q=1", 200));
    assert_eq!(arrival.host, format!("some.name:{}", server.addr().port()));
    assert_eq!((arrival.user_agent.as_str(), arrival.connection), ("agent/1", 0));
    assert!(arrival.headers.contains(&("x-key".into(), "value".into())));
    assert!(arrival.answered >= Some(arrival.at));
    assert_eq!(pages_ok(&arrivals), BTreeSet::from(["/p/1?q=1"]));
}

#[tokio::test]
async fn resets_and_silence_are_arrivals_without_an_answer() {
    let turn = AtomicU32::new(0);
    let server = LabServer::start(Box::new(move |_, _, _| SimResponse {
        close: if turn.fetch_add(1, Ordering::Relaxed) == 0 { Close::ResetBefore } else { Close::Silent },
        ..SimResponse::default()
    }));
    let client = bare_client(&[]);
    assert!(client.get(server.url("/p/0")).send().await.is_err());
    let silent = tokio::spawn(client.get(server.url("/p/1")).send());
    let arrivals = server.wait_for("both requests", |all| all.len() == 2).await;
    assert!(arrivals.iter().all(|arrival| arrival.status == 0 && arrival.answered.is_none()));
    assert_eq!(pages_ok(&arrivals).len(), 0);
    // The end of the server ends the silence.
    drop(server);
    assert!(silent.await.expect("no panic").is_err());
}
