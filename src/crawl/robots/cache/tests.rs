//! Tests of the cache: the life of an entry in virtual time.

use super::*;
use crate::crawl::address::parse_url;
use bytes::Bytes;

const HOUR: Duration = Duration::from_secs(3600);
const PRIVATE: &str = "User-agent: *\nDisallow: /private\n";

fn robots() -> Robots {
    Robots::new("crawldeck/0.1", BackoffPolicy::default())
}

fn url(text: &str) -> Url {
    parse_url(text).expect("a URL").url
}

fn of(text: &str) -> Authority {
    Authority::of(&url(text))
}

fn reply(status: u16, body: &str) -> Reply {
    let mut reply = failed(Outcome::Local);
    reply.verdict = Verdict::Status(status);
    reply.status = Some(status);
    reply.body = Bytes::copy_from_slice(body.as_bytes());
    reply.error = None;
    reply
}

fn failed(outcome: Outcome) -> Reply {
    Reply::failed(outcome, "it failed")
}

fn redirect(target: &str) -> Reply {
    Reply { location: Some(Ok(url(target))), ..reply(302, "") }
}

/// Asks for `/` of `host`, expects a fetch, and gives `reply`.
fn fetch(robots: &mut Robots, now: Mono, host: &str, reply: &Reply) -> Effect {
    let page = url(&format!("http://{host}/"));
    let Decision::Fetch(asked) = robots.decide(now, &page) else { panic!("no fetch of {host}") };
    assert_eq!(asked.as_str(), format!("http://{host}/robots.txt"));
    robots.on_reply(now, &Authority::of(&page), reply, 0.0)
}

fn at(after: Duration) -> Mono {
    Mono::ZERO.after(after)
}

#[test]
fn case_31_an_unreachable_robots_txt_forbids_the_site_and_is_retried_with_backoff() {
    let replies = [
        reply(503, ""),
        reply(500, PRIVATE),
        reply(429, ""),
        failed(Outcome::Timeout),
        failed(Outcome::Connect),
        failed(Outcome::ConnectionReset),
        failed(Outcome::Tls),
        failed(Outcome::Dns),
        failed(Outcome::Incomplete),
        failed(Outcome::Decode),
        failed(Outcome::LimitExceeded),
        failed(Outcome::TooLarge),
    ];
    for bad in &replies {
        let mut robots = robots();
        let mut now = Mono::ZERO;
        let mut waits = Vec::new();
        for tries in 1..=9 {
            let effect = fetch(&mut robots, now, "a.example", bad);
            let unreachable = effect.unreachable.expect("a hold");
            assert_eq!((unreachable.tries, effect.known), (tries, false), "{:?}", bad.verdict);
            for page in ["/", "/x", "/private"] {
                let decision = robots.decide(now, &url(&format!("http://a.example{page}")));
                assert_eq!(decision, Decision::Unreachable { until: unreachable.until });
            }
            waits.push(unreachable.until.since(now).as_secs());
            now = unreachable.until;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60], "{:?}", bad.verdict);
        // It recovers, and the count begins anew.
        assert!(fetch(&mut robots, now, "a.example", &reply(200, PRIVATE)).known);
        assert_eq!(robots.decide(now, &url("http://a.example/x")), Decision::Allow);
    }
}

#[test]
fn case_31_forbidden_also_after_thirty_days() {
    let mut robots = robots();
    fetch(&mut robots, Mono::ZERO, "a.example", &reply(503, ""));
    let effect = fetch(&mut robots, at(40 * 24 * HOUR), "a.example", &reply(503, ""));
    assert_eq!(effect.unreachable.map(|it| it.tries), Some(2));
    assert!(matches!(robots.decide(at(40 * 24 * HOUR), &url("http://a.example/")), Decision::Unreachable { .. }));
}

#[test]
fn case_31_a_good_copy_stays_in_use_for_thirty_days() {
    let mut robots = robots();
    fetch(&mut robots, Mono::ZERO, "a.example", &reply(200, PRIVATE));
    let day = at(25 * HOUR);
    let effect = fetch(&mut robots, day, "a.example", &reply(503, ""));
    assert_eq!((effect.unreachable, effect.known), (None, true));
    assert_eq!(effect.notes, ["robots.txt unreachable: the copy of 25 h ago stays in use".into()]);
    assert_eq!(robots.decide(day, &url("http://a.example/x")), Decision::Allow);
    assert!(matches!(robots.decide(day, &url("http://a.example/private")), Decision::Deny { line: 2, .. }));
    // The next failure is not told again; one after 30 days ends the copy.
    assert!(fetch(&mut robots, at(26 * HOUR), "a.example", &reply(503, "")).notes.is_empty());
    let late = fetch(&mut robots, at(30 * 24 * HOUR), "a.example", &reply(503, ""));
    assert!(late.unreachable.is_some());
}

#[test]
fn case_40_429_holds_as_long_as_asked_and_401_and_403_allow_with_a_note() {
    let mut robots = robots();
    let mut busy = reply(429, "");
    busy.retry_after = Some(Duration::from_secs(600));
    let effect = fetch(&mut robots, Mono::ZERO, "a.example", &busy);
    assert_eq!(effect.unreachable, Some(Unreachable { tries: 1, silent: false, until: at(Duration::from_secs(600)) }));

    for (status, notes) in [(401, 1), (403, 1), (404, 0), (410, 0), (451, 0), (400, 0)] {
        let host = format!("h{status}.example");
        let effect = fetch(&mut robots, Mono::ZERO, &host, &reply(status, PRIVATE));
        assert!(effect.known && effect.unreachable.is_none());
        assert_eq!(effect.notes.len(), notes, "{status}");
        assert_eq!(robots.decide(Mono::ZERO, &url(&format!("http://{host}/private"))), Decision::Allow);
    }
}

#[test]
fn case_41_one_fetch_for_a_thousand_urls_and_a_second_after_a_day() {
    let mut robots = robots();
    let authority = of("http://a.example/");
    let mut fetches = 0;
    let mut ask_all = |robots: &mut Robots, now: Mono| {
        let pages = (0..1_000).map(|page| url(&format!("http://a.example/{page}")));
        let decisions: Vec<_> = pages.map(|page| robots.decide(now, &page)).collect();
        fetches += decisions.iter().filter(|it| matches!(it, Decision::Fetch(_))).count();
        (fetches, decisions.iter().filter(|it| **it == Decision::Allow).count())
    };
    assert_eq!(ask_all(&mut robots, Mono::ZERO), (1, 0));
    robots.on_reply(Mono::ZERO, &authority, &reply(200, PRIVATE), 0.0);
    assert_eq!(ask_all(&mut robots, Mono::ZERO), (1, 1_000));
    assert_eq!(ask_all(&mut robots, at(24 * HOUR - Duration::from_secs(1))), (1, 1_000));
    assert_eq!(ask_all(&mut robots, at(24 * HOUR + Duration::from_secs(1))), (2, 0));
}

#[test]
fn case_41_max_age_shortens_within_bounds() {
    for (max_age, kept) in [(0, 1), (60, 1), (2 * 3600, 2), (1_000_000, 24)] {
        let mut robots = robots();
        let short = Reply { max_age: Some(Duration::from_secs(max_age)), ..reply(200, PRIVATE) };
        fetch(&mut robots, Mono::ZERO, "a.example", &short);
        let second = Duration::from_secs(1);
        assert_eq!(robots.decide(at(kept * HOUR - second), &url("http://a.example/x")), Decision::Allow);
        assert!(matches!(robots.decide(at(kept * HOUR + second), &url("http://a.example/x")), Decision::Fetch(_)));
    }
}

#[test]
fn case_41_over_a_restart_a_copy_keeps_its_age() {
    let mut before = robots();
    fetch(&mut before, Mono::ZERO, "a.example", &reply(200, PRIVATE));
    fetch(&mut before, Mono::ZERO, "ill.example", &failed(Outcome::Timeout));
    let page = url("http://a.example/private/1");
    // A restart every three hours does not make it younger.
    for hours in (3..24).step_by(3) {
        let now = at(hours * HOUR);
        let mut after = robots();
        for authority in ["http://a.example/", "http://ill.example/"] {
            let saved = serde_json::to_vec(&before.saved(&of(authority)).expect("known")).expect("JSON");
            assert!(after.restore(now, authority, &saved));
        }
        assert!(matches!(after.decide(now, &page), Decision::Deny { .. }), "after {hours} hours");
        before = after;
    }
    let second = Duration::from_secs(1);
    assert!(matches!(before.decide(at(24 * HOUR - second), &page), Decision::Deny { .. }));
    assert!(matches!(before.decide(at(24 * HOUR + second), &page), Decision::Fetch(_)), "a day old, whoever began it");
    // What was unreachable is so, with its failures counted on.
    let again = fetch(&mut before, at(24 * HOUR), "ill.example", &failed(Outcome::Timeout));
    assert_eq!(again.unreachable.map(|it| it.tries), Some(2));
}

#[test]
fn case_42_one_hosts_failure_is_one_hosts_state() {
    let mut robots = robots();
    fetch(&mut robots, Mono::ZERO, "bad.example", &failed(Outcome::Tls));
    fetch(&mut robots, Mono::ZERO, "good.example", &reply(200, PRIVATE));
    assert_eq!(robots.decide(Mono::ZERO, &url("http://good.example/")), Decision::Allow);
    // Another scheme or port is another authority.
    for other in ["https://good.example/", "http://good.example:8080/"] {
        assert!(matches!(robots.decide(Mono::ZERO, &url(other)), Decision::Fetch(_)));
    }
    // Trouble of our own is not the host's: nothing is counted, and it is tried again.
    let local = fetch(&mut robots, Mono::ZERO, "third.example", &failed(Outcome::Local));
    assert_eq!(local.unreachable.map(|it| it.tries), Some(0));
    let first = fetch(&mut robots, at(HOUR), "third.example", &failed(Outcome::Timeout));
    assert_eq!(first.unreachable.map(|it| it.tries), Some(1));
}

#[test]
fn case_36_a_redirects_target_is_decided_by_its_own_authority() {
    let mut robots = robots();
    fetch(&mut robots, Mono::ZERO, "a.example", &reply(200, "User-agent: *\nAllow: /"));
    let target = url("http://b.example/private");
    let Decision::Fetch(asked) = robots.decide(Mono::ZERO, &target) else { panic!("b is asked first") };
    assert_eq!(asked.as_str(), "http://b.example/robots.txt");
    robots.on_reply(Mono::ZERO, &of("http://b.example/"), &reply(200, PRIVATE), 0.0);
    assert_eq!(robots.decide(Mono::ZERO, &target), Decision::Deny { line: 2, rule: "Disallow: /private".into() });
}

#[test]
fn redirects_are_followed_five_times_across_authorities() {
    let mut robots = robots();
    let authority = of("http://a.example/");
    let mut effect = fetch(&mut robots, Mono::ZERO, "a.example", &redirect("http://a.example/1"));
    for hop in 2..=5 {
        assert_eq!(effect.follow, Some(url(&format!("http://a.example/{}", hop - 1))));
        assert!(!effect.known);
        assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/x")), Decision::Pending);
        effect = robots.on_reply(Mono::ZERO, &authority, &redirect(&format!("http://a.example/{hop}")), 0.0);
    }
    let sixth = robots.on_reply(Mono::ZERO, &authority, &redirect("http://a.example/6"), 0.0);
    assert!(sixth.follow.is_none() && sixth.known && sixth.notes.len() == 1);
    assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/private")), Decision::Allow);

    // The rules at the end of the chain are those of the authority that was asked first.
    fetch(&mut robots, Mono::ZERO, "b.example", &redirect("https://www.b.example/robots.txt"));
    robots.on_reply(Mono::ZERO, &of("http://b.example/"), &reply(200, PRIVATE), 0.0);
    assert!(matches!(robots.decide(Mono::ZERO, &url("http://b.example/private")), Decision::Deny { .. }));
    assert!(matches!(robots.decide(Mono::ZERO, &url("https://www.b.example/private")), Decision::Fetch(_)));
    // A chain that ends in trouble is trouble; one that leads nowhere is none.
    fetch(&mut robots, Mono::ZERO, "c.example", &redirect("http://d.example/robots.txt"));
    let refused = robots.on_reply(Mono::ZERO, &of("http://c.example/"), &failed(Outcome::AddressRefused), 0.0);
    assert!(refused.unreachable.is_some());
    let nowhere = Reply { location: Some(Err("file: is not fetched".into())), ..reply(301, "") };
    assert!(fetch(&mut robots, Mono::ZERO, "e.example", &nowhere).known);
}

#[test]
fn a_refused_address_is_told_as_such_and_sends_nothing() {
    let mut robots = robots();
    fetch(&mut robots, Mono::ZERO, "a.example", &failed(Outcome::AddressRefused));
    assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/x")), Decision::Refused { why: "it failed".into() });
}

#[test]
fn wanted_12_the_crawl_delay_is_told_as_asked() {
    let mut robots = robots();
    let effect = fetch(&mut robots, Mono::ZERO, "a.example", &reply(200, "User-agent: *\nCrawl-delay: 99999999"));
    assert_eq!(effect.crawl_delay, Some(Duration::from_secs(99_999_999)));
    assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/x")), Decision::Allow);
}

#[test]
fn a_body_beyond_the_cap_counts_up_to_its_last_whole_line() {
    let mut robots = robots();
    let long = Reply {
        verdict: Verdict::Failed(Outcome::TooLarge),
        ..reply(200, "User-agent: *\nDisallow: /private\nDisallow: /o")
    };
    assert!(fetch(&mut robots, Mono::ZERO, "a.example", &long).known);
    assert!(matches!(robots.decide(Mono::ZERO, &url("http://a.example/private")), Decision::Deny { .. }));
    assert_eq!(robots.decide(Mono::ZERO, &url("http://a.example/other")), Decision::Allow);
}

#[test]
fn the_number_of_entries_is_bounded_and_the_lax_unused_ones_go_first() {
    let mut robots = Robots::bounded("crawldeck", BackoffPolicy::default(), 10, usize::MAX);
    for host in 0..5 {
        fetch(&mut robots, Mono::ZERO, &format!("strict{host}.example"), &reply(200, PRIVATE));
    }
    for host in 0..1_000 {
        let name = format!("lax{host}.example");
        fetch(&mut robots, Mono::ZERO, &name, &reply(404, ""));
        // What was settled just now is there, whoever had to go for it.
        assert_eq!(robots.decide(Mono::ZERO, &url(&format!("http://{name}/x"))), Decision::Allow);
        // One that is used all the time stays.
        assert_eq!(robots.decide(Mono::ZERO, &url("http://lax0.example/x")), Decision::Allow, "{host}");
        assert!(robots.len() <= 10);
        assert_eq!(robots.lax.len() + robots.strict.len(), robots.len());
    }
    for host in 0..5 {
        let page = url(&format!("http://strict{host}.example/private"));
        assert!(matches!(robots.decide(Mono::ZERO, &page), Decision::Deny { .. }));
    }
    // Even if all others are strict.
    for host in 5..20 {
        fetch(&mut robots, Mono::ZERO, &format!("strict{host}.example"), &reply(200, PRIVATE));
    }
    fetch(&mut robots, Mono::ZERO, "last.example", &reply(404, ""));
    assert_eq!(robots.decide(Mono::ZERO, &url("http://last.example/x")), Decision::Allow);
    assert_eq!(robots.len(), 10);
}

#[test]
fn bytes_are_bounded_and_counted_exactly() {
    let big: String = std::iter::once("User-agent: *\n".to_owned())
        .chain((0..1_000).map(|rule| format!("Disallow: /{rule}\n")))
        .collect();
    let mut robots = Robots::bounded("crawldeck", BackoffPolicy::default(), 1_000, 200_000);
    for host in 0..50 {
        fetch(&mut robots, Mono::ZERO, &format!("h{host}.example"), &reply(200, &big));
        assert!(robots.bytes <= 200_000, "{}", robots.bytes);
    }
    assert!((1..10).contains(&robots.len()), "{}", robots.len());
    let counted = robots.entries.values().filter_map(|entry| entry.place);
    assert_eq!(robots.bytes, counted.map(|(_, bytes)| bytes).sum::<usize>());
    assert_eq!(robots.strict.len(), robots.entries.len());
}
