//! Whole crawls over sockets whose hosts share a bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crawldeck::config::Config;
use crawldeck::control::{GroupBy, HoldReason, Value, What, Who};
use crawldeck::journal::reader::Word;
use crawldeck::watch::{Change, Reading, Request};

use crate::support::answers::{by_turn, status, text, with_header};
use crate::support::engine::Crawl;
use crate::support::lab::LabServer;
use crate::support::oracle::assert_envelope;

/// A refusal that names the bucket that is empty.
fn empty_bucket() -> crawldeck::sim::SimResponse {
    let mut answer = with_header(429, "x-ratelimit-bucket", "abcd");
    answer.headers.push(("x-ratelimit-remaining", "0".into()));
    answer.headers.push(("x-ratelimit-reset-after", "0.1".into()));
    answer
}

fn served() -> LabServer {
    by_turn(|path, _| if path == "/robots.txt" { text("User-agent: *\nDisallow: /no/\n") } else { text("page") })
}

#[tokio::test(flavor = "multi_thread")]
async fn case_17_three_hundred_names_lead_to_one_address_and_it_sees_one_bucket() {
    let server = served();
    let mut crawl = Crawl::new();
    crawl.config.settings.group_by = GroupBy::Ip;
    crawl.rate(150.0, 10.0).connections = 50;
    for name in 0..300 {
        let name = format!("n{name}.test");
        crawl.host(&name, &server);
        crawl.pages(&name, 1);
        crawl.url(format!("http://{name}/no/1"));
    }
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (300, 0, 300, 0));
    ended.assert_rows_are(&[&server]);
    let arrivals = server.arrivals();
    assert_envelope(&arrivals, 150.0, 10.0, server.jitter() + ended.lateness);
    // robots.txt stays each authority's own.
    let robots: BTreeSet<&str> =
        arrivals.iter().filter(|one| one.path == "/robots.txt").map(|one| one.host.as_str()).collect();
    assert_eq!((robots.len(), arrivals.len()), (300, 600));
    let [group] = ended.summary.groups.as_slice() else { panic!("{:?}", ended.summary.groups) };
    assert_eq!((group.group.as_str(), group.hosts), ("127.0.0.1", 300));
    assert!(ended.summary.hosts.iter().all(|host| host.group.as_ref().is_some_and(|one| one.as_str() == "127.0.0.1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_a_registrable_domain_share_a_bucket_and_others_do_not() {
    let (shared, other) = (served(), served());
    let mut crawl = Crawl::new();
    crawl.config.settings.group_by = GroupBy::Domain;
    crawl.rate(20.0, 4.0);
    for name in ["a.shop.co.uk", "b.shop.co.uk", "c.shop.co.uk"] {
        crawl.host(name, &shared);
        crawl.pages(name, 8);
    }
    crawl.host("x.other.co.uk", &other);
    crawl.pages("x.other.co.uk", 8);
    let ended = crawl.run().await;
    ended.assert_all_done(32);
    assert_envelope(&shared.arrivals(), 20.0, 4.0, shared.jitter() + ended.lateness);
    let groups: BTreeMap<&str, u64> = ended.summary.groups.iter().map(|one| (one.group.as_str(), one.hosts)).collect();
    assert_eq!(groups, BTreeMap::from([("shop.co.uk", 3), ("other.co.uk", 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_one_name_is_told_holds_all_names_of_its_address_and_outlives_the_process() {
    let server = by_turn(|path, _| match path {
        "/robots.txt" => status(404),
        "/p/0" => with_header(429, "retry-after", "3600"),
        _ => text("page"),
    });
    let crawl = |server: &LabServer| {
        let mut crawl = Crawl::new();
        crawl.config.settings.group_by = GroupBy::Ip;
        crawl.rate(200.0, 1.0);
        for name in ["a.test", "b.test"] {
            crawl.host(name, server);
            crawl.pages(name, if name == "a.test" { 1 } else { 40 });
        }
        crawl
    };
    let running = crawl(&server).start();
    let asked = |hold: crawldeck::control::Hold| matches!(hold.reason, HoldReason::RetryAfter { .. });
    running.host_is("b.test", |view| view.hold.is_some_and(asked)).await;
    running.totals_are("nothing in flight", |totals| totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let (first, folder) = running.end_keeping().await;
    assert_eq!(first.events_of(What::GroupHold).len(), 1);
    let sent = server.arrivals().len();
    let mut again = crawl(&server);
    again.resume_in(folder);
    let running = again.start();
    let view = running.host_is("b.test", |view| view.hold.is_some_and(asked)).await;
    assert_eq!(view.group.map(|group| group.members), Some(2));
    running.ask(Request::Stop).await;
    running.end().await;
    assert_eq!(server.arrivals().len(), sent, "nothing is sent under it");
}

#[tokio::test(flavor = "multi_thread")]
async fn wanted_11_a_reload_of_group_by_takes_effect_while_the_crawl_runs() {
    let server = served();
    let mut crawl = Crawl::new();
    let names: Vec<String> = (0..10).map(|name| format!("n{name}.shop.example")).collect();
    for name in &names {
        crawl.host(name, &server);
        crawl.pages(name, 400);
    }
    crawl.config.crawl.respect_robots = false;
    crawl.rate(20.0, 2.0);
    let mut read = crawl.config.clone();
    let running = crawl.start();
    running.totals_are("some pages", |totals| totals.urls_done >= 200).await;
    for (by, rate) in [(GroupBy::Ip, "127.0.0.1"), (GroupBy::Domain, "shop.example")] {
        read.settings.group_by = by;
        let loaded = Arc::new(Ok::<Config, _>(read.clone()));
        running.ask(Request::Reread(Reading { ticket: None, file: "c.toml".into(), loaded })).await;
        let view = running.host_is("n3.shop.example", |view| view.group.is_some_and(|group| group.members == 10)).await;
        assert_eq!(view.group.map(|group| group.original.rate), Some(20.0), "{rate}");
        let from = server.arrivals().len();
        let arrivals = server.wait_for("what one bucket lets out", |all| all.len() >= from + 60).await;
        // What was granted a moment before is still on its way: at most what ten hosts had in flight.
        let settled = &arrivals[from + 40..];
        assert_envelope(settled, 20.0, 2.0, server.jitter() + Duration::from_millis(200));
    }
    running.logged("controller.group_by").await;
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    let groups: Vec<&str> = ended.summary.groups.iter().map(|one| one.group.as_str()).collect();
    assert_eq!(groups, ["shop.example"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_told_one_bucket_id_are_reported_as_a_concern() {
    let server = by_turn(|path, turn| match (path, turn) {
        ("/robots.txt", _) => status(404),
        ("/p/3", 0 | 1) => empty_bucket(),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.rate(100.0, 2.0);
    for name in ["a.one.example", "b.two.example"] {
        crawl.host(name, &server);
        crawl.pages(name, 10);
    }
    let running = crawl.start();
    let line = running.logged("SHARED LIMIT").await;
    assert!(line.contains("group_by") && line.contains(".example)"), "{line}");
    let ended = running.end().await;
    ended.assert_all_done(20);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_the_operator_groups_share_a_bucket_over_a_restart_until_they_are_parted() {
    let server = served();
    let names = ["a.one.example", "b.two.example", "c.three.example"];
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.rate(10.0, 1.0);
        for name in names {
            crawl.host(name, &server);
            crawl.pages(name, 400);
        }
        crawl
    };
    let mut running = crawl().start();
    let mut ids = Vec::new();
    for name in names {
        ids.push(running.host_is(name, |view| view.last_ok.is_some()).await.id);
    }
    let refused = running.change(Change::Group(vec![ids[0]])).await;
    assert!(refused.changed == 0 && refused.text.as_str().starts_with("not grouped: name two"), "{refused:?}");
    let done = running.change(Change::Group(vec![ids[0], ids[1], ids[0]])).await;
    assert!(done.text.as_str().contains("2 hosts share one bucket: group =a.one.example"), "{done:?}");
    let again = running.change(Change::Group(vec![ids[0], ids[1]])).await;
    assert_eq!(again.text.as_str(), "not grouped: they share one bucket already");
    // What was granted a moment before is still on its way.
    let from = server.arrivals().len();
    let arrivals = server.wait_for("some more", |all| all.len() >= from + 60).await;
    let of_two: Vec<_> = arrivals[from + 20..].iter().filter(|one| !one.host.starts_with("c.")).cloned().collect();
    assert_envelope(&of_two, 10.0, 1.0, server.jitter() + Duration::from_millis(200));
    running.ask(Request::Stop).await;
    let (first, folder) = running.end_keeping().await;
    let by_operator = |ended: &crate::support::engine::Ended| {
        let events = ended.events_of(What::Group).into_iter().filter(|one| one.who == Word::Known(Who::Operator));
        events.map(|one| (one.before.clone(), one.after.clone())).collect::<Vec<_>>()
    };
    let group = Value::Text(String::from("=a.one.example"));
    assert_eq!(by_operator(&first), vec![(Value::None, group.clone()); 2]);
    // It outlives the process, and every other rule.
    let mut again = crawl();
    again.resume_in(folder);
    again.config.settings.group_by = GroupBy::Ip;
    let mut read = again.config.clone();
    let mut running = again.start();
    let two = |view: &crawldeck::control::HostView| view.group.is_some_and(|group| group.members == 2);
    running.host_is(names[0], two).await;
    read.settings.group_by = GroupBy::Domain;
    let loaded = Arc::new(Ok::<Config, _>(read));
    running.ask(Request::Reread(Reading { ticket: None, file: "c.toml".into(), loaded })).await;
    running.logged("controller.group_by").await;
    running.host_is(names[1], two).await;
    // Who would be left alone is parted, too.
    let done = running.change(Change::Ungroup(vec![ids[1], ids[2]])).await;
    assert!(done.text.as_str().starts_with("2 hosts parted"), "{done:?}");
    running.host_is(names[0], |view| view.group.is_none()).await;
    let nobody = running.change(Change::Ungroup(vec![ids[0]])).await;
    assert_eq!((nobody.changed, nobody.text.as_str()), (0, "not parted: none of these was grouped by `:group`"));
    running.ask(Request::Stop).await;
    let second = running.end().await;
    let mut parted = by_operator(&second);
    parted.retain(|(before, _)| *before == group);
    let domains = ["one.example", "two.example"].map(|name| Value::Text(name.into()));
    let mut after: Vec<_> = parted.into_iter().map(|(_, after)| format!("{after:?}")).collect();
    after.sort();
    assert_eq!(after, domains.map(|name| format!("{name:?}")));
}
