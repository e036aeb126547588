//! Crashes at every durable operation of a crawl that follows links, where pages fail with links in them.
//!
//! What the journal tells to have failed is not asked for again, so its links must be on the medium before: the judge
//! is the server, which must have seen every page that anything led to.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crawldeck::config::Config;
use crawldeck::control::What;
use crawldeck::crawl::resume::resume;
use crawldeck::sim::{SimBody, SimRequest, SimResponse};
use crawldeck::store::list::each_url;
use crawldeck::store::{Fate, StoreError};
use hyper::HeaderMap;

use crate::support::binary::{Child, Scene};
use crate::support::lab::Behaviour;
use crate::support::records;

/// Pages of the site: each leads to the two below it. Every third is too large, with its links in front.
const PAGES: usize = 31;

fn is_too_large(number: usize) -> bool {
    number.is_multiple_of(3)
}

fn site() -> Behaviour {
    Box::new(|_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        let number: usize = request.path.trim_start_matches("/p/").parse().unwrap_or(0);
        let below = [2 * number + 1, 2 * number + 2].into_iter().filter(|below| *below < PAGES);
        let mut text: String = below.map(|below| format!("<a href='/p/{below}'>below</a>")).collect();
        if is_too_large(number) {
            text.push_str(&"and so on ".repeat(2_000));
        }
        let headers = vec![("content-type", String::from("text/html"))];
        SimResponse { status: 200, headers, body: SimBody::Text(text), ..SimResponse::default() }
    })
}

fn crash_at_every_operation(layer: &str) {
    for number in 1.. {
        let more = "max_body = \"4KiB\"\n[crawl]\nfollow = \"host\"\nconcurrency = 4\n";
        let scene = Scene::of(&["a.test"], site(), (40.0, 4.0), more);
        fs::write(scene.path().join("urls.txt"), "http://a.test/p/0\n").expect("written");
        let mut args = scene.run();
        args.push("--headless".into());
        let at = format!("{layer}:{number}");
        let crashed = Child::start(scene.path(), &args, &[("CRAWLDECK_TEST_CRASH_AT", &at)]).end_anyhow();
        let again = scene.headless().end();
        assert_eq!(again.code, Some(0), "after a crash at {at}: {}", again.err);
        assert_all_seen(&scene, &at);
        if crashed.code.is_some() {
            assert_eq!(crashed.code, Some(0), "{}", crashed.err);
            assert!(number > 8, "the layer {layer} does fewer operations than it must");
            return;
        }
    }
}

/// Every page was asked for, has its one fate, and each failure is told once.
fn assert_all_seen(scene: &Scene, at: &str) {
    let dir = scene.dir();
    let mut fates = BTreeMap::new();
    each_url::<StoreError>(&dir, |listed| {
        assert!(fates.insert(listed.url.to_owned(), listed.fate).is_none(), "{} stands there twice", listed.url);
        Ok(())
    })
    .expect("the store is whole");
    let fate = |number| if is_too_large(number) { Fate::Failed } else { Fate::Done };
    let expected = (0..PAGES).map(|number| (format!("http://a.test/p/{number}"), Some(fate(number))));
    assert_eq!(fates, expected.collect(), "after a crash at {at}");
    let (events, damaged) = records::events(&dir);
    assert_eq!(damaged, 0, "0 corrupt");
    let failed = events.iter().filter(|event| event.what.known() == Some(What::UrlFailed)).count();
    let counts = resume(&dir, &Config::default()).expect("whole").expect("there").counts;
    let large = (0..PAGES).filter(|number| is_too_large(*number)).count();
    assert_eq!((failed, counts.failed), (large, large as u64), "each end is told once, after a crash at {at}");
}

#[test]
fn row_12_19_the_links_of_a_page_that_failed_survive_a_crash_before_any_operation_of_the_store() {
    crash_at_every_operation("store");
}

#[test]
fn row_12_19_the_links_of_a_page_that_failed_survive_a_crash_before_any_operation_of_the_journal() {
    crash_at_every_operation("journal");
}
