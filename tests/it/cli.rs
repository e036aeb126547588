//! Commands that end at once: what they print where, and their exit codes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::binary::{Child, Ended, Scene, crawldeck, fine};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Ends with 2, says all of `words` on standard error and nothing on standard output.
#[track_caller]
fn refused(folder: &Path, args: &[&str], words: &[&str]) -> Ended {
    let ended = crawldeck(folder, args);
    assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
    assert_eq!(ended.out, "", "{args:?}");
    for word in words {
        assert!(ended.err.contains(word), "{args:?}: no {word:?} in {}", ended.err);
    }
    ended
}

#[test]
fn usage_errors_end_with_2() {
    let folder = folder();
    refused(folder.path(), &[], &["Usage"]);
    refused(folder.path(), &["fly"], &["fly"]);
    refused(folder.path(), &["run", "--rate", "-1", "http://a.test/"], &["--rate"]);
    refused(folder.path(), &["run", "--headless"], &["nothing to crawl", "-u FILE"]);
    refused(folder.path(), &["run", "--headless", "-u", "missing.txt"], &["missing.txt"]);
    refused(folder.path(), &["run", "--headless", "-u", "."], &["directory"]);
    refused(folder.path(), &["run", "-c", "missing.toml", "http://a.test/"], &["missing.toml"]);
    refused(folder.path(), &["review", "missing"], &["missing"]);
    refused(folder.path(), &["review", "."], &["no journal"]);
    refused(folder.path(), &["simulate", "--servers", "missing.toml"], &["missing.toml"]);
    refused(folder.path(), &["simulate", "--plot", "zz"], &["\"zz\"", "a, b, c"]);
    refused(folder.path(), &["simulate", "--config", "missing.toml"], &["missing.toml"]);
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "a refused command leaves nothing behind");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let folder = folder();
    for (args, word) in [
        (["--help"].as_slice(), "Usage"),
        (&["run", "--help"], "--headless"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["completions", "bash"], "_crawldeck"),
        (&["completions", "zsh"], "#compdef crawldeck"),
    ] {
        let ended = crawldeck(folder.path(), args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
        assert!(ended.out.contains(word), "{args:?}: {}", ended.out);
    }
}

#[test]
fn a_bad_configuration_is_named_by_file_line_and_column() {
    let folder = folder();
    let bad = "[politeness]\nrate = 2.0\ncapasity = 4\n";
    fs::write(folder.path().join("bad.toml"), bad).expect("written");
    let places = ["bad.toml:3:1", "capasity", "capacity"];
    refused(folder.path(), &["check", "bad.toml"], &places);
    refused(folder.path(), &["run", "-c", "bad.toml", "--headless", "http://a.test/"], &places);
    fs::write(folder.path().join("config.toml"), bad).expect("written");
    refused(folder.path(), &["check"], &["config.toml:3:1"]);
    refused(folder.path(), &["run", "--headless", "http://a.test/"], &["config.toml:3:1"]);
    assert!(!folder.path().join("crawl").exists(), "no run folder for a run that did not begin");
    fs::write(folder.path().join("keys.toml"), "[keys]\npause = \"o\"\n").expect("written");
    refused(folder.path(), &["check", "keys.toml"], &["pause", "override"]);
}

#[test]
fn a_good_configuration_is_said_to_be_good() {
    let folder = folder();
    fs::write(folder.path().join("good.toml"), "[politeness]\nrate = 1.0\n").expect("written");
    let ended = crawldeck(folder.path(), &["check", "good.toml"]);
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "good.toml: ok\n", ""));
    let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");
    assert_eq!(crawldeck(folder.path(), &["check", documented]).code, Some(0));
}

#[test]
fn the_review_prints_its_result_on_standard_output() {
    let scene = Scene::new(fine(Duration::ZERO), 1000.0, 10.0, "");
    scene.list(&["a.test", "b.test"], 20);
    assert_eq!(scene.headless().end().code, Some(0));

    let summary = crawldeck(scene.path(), &["review", "crawl", "--summary"]);
    assert_eq!((summary.code, summary.err.as_str()), (Some(0), ""));
    assert!(summary.out.contains("done 40") && summary.out.contains("hosts     2"), "{}", summary.out);

    let json = crawldeck(scene.path(), &["review", "crawl", "--json"]);
    assert_eq!((json.code, json.err.as_str()), (Some(0), ""));
    let value: serde_json::Value = serde_json::from_str(&json.out).expect("one JSON object");
    assert!(value.is_object(), "{}", json.out);

    let csv = crawldeck(scene.path(), &["review", "crawl", "--csv", "-"]);
    assert_eq!((csv.code, csv.err.as_str()), (Some(0), ""));
    let mut reader = csv::Reader::from_reader(csv.out.as_bytes());
    assert_eq!(reader.headers().expect("a header row").len(), 13);
    assert_eq!(reader.records().map(|row| row.expect("a row").len()).collect::<Vec<_>>(), vec![13; 40]);

    let into = crawldeck(scene.path(), &["review", "crawl", "--csv", "out.csv"]);
    assert_eq!((into.code, into.out.as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(scene.path().join("out.csv")).expect("written"), csv.out);
    refused(scene.path(), &["review", "crawl", "--csv", "crawl/requests.csv"], &["journal"]);
}

#[test]
fn fault_row_15_a_reader_that_has_seen_enough_is_no_failure() {
    let folder = folder();
    let shell = "{ \"$0\" completions bash; echo $? > code; } | head -1";
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", shell, crate::support::binary::BINARY]).current_dir(folder.path());
    let output = command.output().expect("a shell");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("code")).expect("written").trim(), "0");
}

#[test]
fn rates_of_the_command_line_reach_the_journal() {
    let scene = Scene::new(fine(Duration::ZERO), 1.0, 1.0, "");
    scene.list(&["a.test"], 5);
    let mut args = scene.run();
    args.extend(["--headless", "--rate", "250", "--capacity", "7"].map(String::from));
    assert_eq!(Child::start(scene.path(), &args, &[]).end().code, Some(0));
    let (rows, _) = crate::support::records::requests(&scene.dir());
    assert!(rows.iter().all(|row| (row.rate, row.capacity) == (250.0, 7.0)), "{rows:?}");
}
