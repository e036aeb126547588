//! `status`, `export` and `retry`: what a run holds, and failures put back.

use std::time::Duration;

use crawldeck::crawl::traps::{RUN_BUDGET, RUN_FREE};
use crawldeck::sim::{SimBody, SimRequest, SimResponse};
use hyper::HeaderMap;
use rustix::process::Signal;

use crate::support::answers::text;
use crate::support::binary::{Scene, crawldeck, fine};
use crate::support::records;

/// Every third page fails as long as the flag is set.
fn failing(fails: std::sync::Arc<std::sync::atomic::AtomicBool>) -> crate::support::lab::Behaviour {
    Box::new(move |_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        let number: usize = request.path.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let page = SimResponse { status: 200, body: SimBody::Text("a page".into()), ..SimResponse::default() };
        match number.is_multiple_of(3) && fails.load(std::sync::atomic::Ordering::SeqCst) {
            true => SimResponse { status: 500, ..page },
            false => page,
        }
    })
}

#[test]
fn failures_are_listed_with_their_reasons_and_put_back() {
    let fails = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let more = "[crawl]\nretries = 1\nexclude = [\"/p/4$\"]\n";
    let scene = Scene::new(failing(fails.clone()), 200.0, 10.0, more);
    scene.list(&["a.test"], 9);
    assert_eq!(scene.headless().end().code, Some(0));
    let (before, marks) = (scene.files(), scene.marks());

    let status = crawldeck(scene.path(), &["status", "crawl"]);
    assert_eq!((status.code, status.err.as_str()), (Some(0), ""));
    assert!(status.out.contains("9 known: 5 done, 3 failed, 1 skipped, 0 pending"), "{}", status.out);
    assert!(status.out.contains("running     no"), "{}", status.out);
    assert!(status.out.contains("read to their end"), "{}", status.out);
    let list = |which: &str| crawldeck(scene.path(), &["export", "crawl", which]).out;
    let urls = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    let failed = list("--failed");
    assert_eq!((urls(&failed), failed.matches("# server_error (500) in attempt 1\n").count()), (3, 3), "{failed}");
    assert!(failed.contains("http://a.test/p/6\n"), "{failed}");
    assert_eq!(urls(&list("--done")), 5);
    assert_eq!(list("--skipped"), "# excluded by /p/4$\nhttp://a.test/p/4\n");
    assert_eq!(list("--pending"), "");
    let summary = crawldeck(scene.path(), &["review", "crawl", "--summary"]);
    assert_eq!(summary.code, Some(0), "{}", summary.err);
    assert!(scene.files() == before, "looking changes nothing");
    assert_eq!(scene.marks(), marks, "and touches nothing, makes nothing, locks nothing anew");

    let retry = crawldeck(scene.path(), &["retry", "crawl", "--failed"]);
    assert_eq!((retry.code, retry.out.as_str()), (Some(0), "3 URLs put back\n"), "{}", retry.err);
    assert_eq!(urls(&list("--pending")), 3);
    assert_eq!(crawldeck(scene.path(), &["retry", "crawl", "--failed"]).out, "0 URLs put back\n");
    fails.store(false, std::sync::atomic::Ordering::SeqCst);
    let again = crawldeck(scene.path(), &["run", "-c", "scene.toml", "-d", "crawl", "--headless"]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_eq!(urls(&list("--done")), 8);
    assert_eq!(scene.server.arrivals().len(), 8 + 3, "what was done is not asked for again");
    let summary = crawldeck(scene.path(), &["review", "crawl", "--json"]).out;
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!((summary["urls_done"].as_u64(), summary["urls_failed"].as_u64()), (Some(8), Some(0)));
    assert!(scene.events().iter().any(|(what, _)| what == "Known(Retry)"), "the journal tells of it");
}

#[test]
fn what_was_held_back_as_a_trap_until_the_end_is_put_back() {
    let calendar = move |_: Duration, request: &SimRequest<'_>, _: &HeaderMap| {
        let next = request.path.rsplit('/').next().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0) + 1;
        text(&format!("<a href='/day/{next}'>next</a>"))
    };
    let more = "[crawl]\nfollow = \"host\"\n";
    let scene = Scene::new(Box::new(calendar), 1_000.0, 100.0, more);
    scene.list(&["a.test"], 1);
    assert_eq!(scene.headless().end().code, Some(0));
    let skipped = crawldeck(scene.path(), &["export", "crawl", "--skipped"]).out;
    assert!(skipped.starts_with("# held back as a trap, and not allowed until the end\n"), "{skipped}");
    assert_eq!(crawldeck(scene.path(), &["retry", "crawl", "--failed"]).out, "0 URLs put back\n");
    assert_eq!(crawldeck(scene.path(), &["retry", "crawl", "--held"]).out, "1 URLs put back\n");
    let asked = scene.server.arrivals().len();
    let again = crawldeck(scene.path(), &["run", "-c", "scene.toml", "-d", "crawl", "--headless"]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    let more = scene.server.arrivals().len() - asked;
    assert_eq!(more, 1 + RUN_FREE as usize + RUN_BUDGET as usize, "it was asked for, and has its whole budget again");
}

#[test]
fn a_hosts_budget_counts_what_the_journal_tells_however_often_the_process_was_killed() {
    let more = "[[host]]\nmatch = \"a.test\"\nmax_requests = 60\nrate = 100.0\ncapacity = 2\n";
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 2.0, more);
    scene.list(&["a.test"], 200);
    for asked in [5, 15, 35, 45] {
        let child = scene.headless();
        scene.arrivals("requests", asked);
        assert!(child.kill(), "it was running");
    }
    assert_eq!(scene.headless().end().code, Some(0));
    assert_eq!(records::requests(&scene.dir()).0.len(), 60, "rows of the journal");
    // Some were asked for twice: what was in flight, or had ended within a quarter of a second.
    let skipped = crawldeck(scene.path(), &["export", "crawl", "--skipped"]).out;
    let skipped = skipped.matches("http://a.test/").count();
    assert!((140..190).contains(&skipped), "{skipped}");
}

#[test]
fn a_run_that_goes_on_is_looked_at_and_not_put_back() {
    let scene = Scene::new(fine(Duration::ZERO), 50.0, 4.0, "");
    scene.list(&["a.test"], 500);
    let child = scene.headless();
    scene.arrivals("requests", 30);
    let status = crawldeck(scene.path(), &["status", "crawl"]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    let process = format!("process {}", child.pid.as_raw_nonzero());
    if std::path::Path::new("/proc/locks").exists() {
        assert!(status.out.contains(&process), "{}", status.out);
    }
    let retry = crawldeck(scene.path(), &["retry", "crawl", "--failed"]);
    assert_eq!(retry.code, Some(2));
    assert!(retry.err.contains(&process), "{}", retry.err);
    child.signal(Signal::TERM);
    assert_eq!(child.end().code, Some(0));
}

#[test]
fn a_folder_without_a_run_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [["status", "nothing", ""], ["export", "nothing", "--done"], ["retry", "nothing", "--failed"]] {
        let args: Vec<&str> = args.into_iter().filter(|word| !word.is_empty()).collect();
        let ended = crawldeck(folder.path(), &args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
        assert!(ended.err.contains("nothing holds no state"), "{}", ended.err);
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0, "and nothing is made");
}

/// An error while an input is read is no end of it: its rest was never seen.
#[test]
fn inputs_that_could_not_be_read_to_their_end_are_asked_for_again() {
    let scene = Scene::new(fine(Duration::ZERO), 1_000.0, 100.0, "");
    scene.list(&["a.test"], 3);
    // A file of the kernel's that can be opened, and whose first byte cannot be read.
    let with = |inputs: &[&str]| {
        let inputs = inputs.iter().flat_map(|input| ["-u", input]);
        let rest = ["-c", "scene.toml", "-d", "crawl", "--headless"];
        crawldeck(scene.path(), &["run"].into_iter().chain(inputs).chain(rest).collect::<Vec<_>>())
    };
    with(&["urls.txt", "/proc/self/mem"]);
    let said = scene.events();
    assert!(said.iter().any(|(_, why)| why.contains("reading failed, the rest is not read")), "{said:?}");
    assert!(said.iter().any(|(_, why)| why.contains("the inputs were not read to their end")), "{said:?}");
    let before = scene.events().len();
    with(&["urls.txt"]);
    assert_eq!(scene.server.arrivals().len(), 3, "nothing is asked for twice");
    let said = scene.events().split_off(before);
    assert!(!said.iter().any(|(_, why)| why.contains("not read to their end")), "{said:?}");
}
