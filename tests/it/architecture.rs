//! The rules of ARCHITECTURE.md that a reader of the text can check: who may use whom, who reads time,
//! how long a file may be.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Lines in a file at most.
const LINES_MAX: usize = 600;

/// A source file: its path from `src/` on, its whole text, and the text without tests and comments.
struct Source {
    path: String,
    text: String,
    code: String,
}

#[test]
fn every_file_opens_with_its_purpose() {
    // A file of tests is part of the module beside it.
    let silent = offenders(|source| !source.path.ends_with("/tests.rs") && !source.text.starts_with("//! "));
    assert!(silent.is_empty(), "these do not open with `//!`: {silent:?}");
}

#[test]
fn no_file_is_too_long() {
    let long = offenders(|source| source.text.lines().count() > LINES_MAX);
    assert!(long.is_empty(), "split these, they have more than {LINES_MAX} lines: {long:?}");
    let main = sources().into_iter().find(|source| source.path == "main.rs").expect("main.rs");
    assert!(main.text.lines().count() <= 60, "main.rs chooses; what is done stands elsewhere");
}

#[test]
fn the_core_uses_only_std_serde_and_itself() {
    let outside = dependencies().into_iter().filter(|name| name != "serde").collect::<Vec<_>>().join("|");
    let foreign = Regex::new(&format!(
        r"\bcrate::(?:\{{|(?P<module>\w+))|\b(?P<package>{outside})::|\bstd::(?P<world>fs|net|thread|process|env|io)\b"
    ))
    .expect("a regex");
    let wrong = offenders(|source| {
        (source.path == "control.rs" || source.path.starts_with("control/"))
            && foreign
                .captures_iter(&source.code)
                .any(|found| found.name("module").is_none_or(|module| module.as_str() != "control"))
    });
    assert!(wrong.is_empty(), "the core is pure: {wrong:?}");
}

#[test]
fn nothing_uses_the_screen_but_who_starts_it() {
    let starts_it = ["lib.rs", "tui.rs", "launch.rs", "session.rs", "signals.rs"];
    let wrong = offenders(|source| {
        let may = starts_it.contains(&source.path.as_str()) || source.path.starts_with("tui/");
        !may && (source.code.contains("crate::tui") || source.code.contains("ratatui::"))
    });
    assert!(wrong.is_empty(), "the crawl knows no screen: {wrong:?}");
}

#[test]
fn the_journal_knows_only_the_words_of_the_core() {
    let wrong = offenders(|source| {
        (source.path == "journal.rs" || source.path.starts_with("journal/"))
            && ["crate::crawl", "crate::tui", "crate::config", "crate::sim", "crate::demo"]
                .iter()
                .any(|module| source.code.contains(module))
    });
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_model_is_trained_in_one_place_and_the_memory_knows_neither_crawl_nor_screen() {
    let wrong = offenders(|source| source.path != "memory/forest.rs" && source.code.contains("smartcore"));
    assert!(wrong.is_empty(), "only the forest knows how it is trained: {wrong:?}");
    let wrong = offenders(|source| {
        (source.path == "memory.rs" || source.path.starts_with("memory/"))
            && ["crate::crawl", "crate::tui", "crate::journal", "crate::sim"]
                .iter()
                .any(|module| source.code.replace("crate::journal::disk", "").contains(module))
    });
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn only_the_clock_reads_time() {
    let reads = Regex::new(r"(Instant|SystemTime|Timestamp|Zoned|Utc|Local)::now\b|clock_gettime|\.elapsed\(\)")
        .expect("a regex");
    let wrong = offenders(|source| source.path != "clock.rs" && reads.is_match(&source.code));
    assert!(wrong.is_empty(), "time comes in through clock.rs: {wrong:?}");
}

#[test]
fn only_the_writer_writes_the_journal() {
    // The writer's rooms: the disk it writes through, and the folder whose lock file is made first.
    let rooms = ["journal/disk.rs", "journal/run_folder.rs"];
    let opens = Regex::new(r"\bFile::create|\bOpenOptions\b|\bfs::write\b|\bcreate_new\(").expect("a regex");
    let wrong = offenders(|source| {
        let in_journal = source.path.starts_with("journal/") || source.path == "journal.rs";
        let writer = source.path.starts_with("journal/writer") || rooms.contains(&source.path.as_str());
        let writes_in_journal = in_journal && !writer && opens.is_match(&source.code);
        let writes_its_files = !in_journal
            && opens.is_match(&source.code)
            && (source.code.contains("requests.csv") || source.code.contains("events.jsonl"));
        writes_in_journal || writes_its_files
    });
    assert!(wrong.is_empty(), "these open files of the journal for writing: {wrong:?}");
}

#[test]
fn nothing_panics_on_purpose() {
    let panics = Regex::new(r"\.unwrap\(\)|\bpanic!|\btodo!|\bunimplemented!|\bunreachable!").expect("a regex");
    let wrong = offenders(|source| panics.is_match(&source.code));
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn files_are_named_for_what_they_are() {
    let vague =
        Regex::new(r"(^|/)(mod|util|utils|helper|helpers|manager|common|misc|data|info)\.rs$").expect("a regex");
    let wrong = offenders(|source| vague.is_match(&source.path));
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_module_stands_in_the_map() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs");
    let (map, modules) = lib.split_once("\n\n").expect("a map, then modules");
    let missing: Vec<&str> = modules
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .filter(|module| !map.contains(&format!("[`{module}`]")))
        .collect();
    assert!(missing.is_empty(), "lib.rs does not say what these are: {missing:?}");
}

#[test]
fn the_documents_hold_what_they_promise() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let architecture = read("ARCHITECTURE.md");
    assert!(architecture.lines().count() <= 150, "ARCHITECTURE.md is a map, not a book");
    let readme = read("README.md");
    for command in ["cargo run -- demo", "cargo test"] {
        assert!(readme.lines().any(|line| line.trim() == command), "README.md does not name `{command}`");
    }
    // What is packaged has no .ci; a clone has.
    if root().join(".ci").exists() {
        assert!(read(".ci/run").lines().any(|line| line == "cargo test"), ".ci/run runs the README's test command");
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "config.toml", "deny.toml"] {
        assert!(!read(name).is_empty());
    }
}

/// Paths of the sources for which `wrong` holds.
fn offenders(wrong: impl Fn(&Source) -> bool) -> Vec<String> {
    sources().into_iter().filter(|source| wrong(source)).map(|source| source.path).collect()
}

fn sources() -> Vec<Source> {
    let folder = root().join("src");
    let mut files = Vec::new();
    collect(&folder, &mut files);
    assert!(files.len() > 10, "the sources are found");
    let source = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file");
        let path = path.strip_prefix(&folder).expect("below src").to_string_lossy().into_owned();
        let code = if is_test_file(&path) { String::new() } else { code_of(&text) };
        Source { path, text, code }
    };
    files.into_iter().map(source).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            collect(&entry, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("/tests/")
}

/// `text` without the tests at its end and without comments.
fn code_of(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The packages of `[dependencies]`, as code names them.
fn dependencies() -> Vec<String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let manifest: toml::Table = text.parse().expect("TOML");
    manifest["dependencies"].as_table().expect("a table").keys().map(|name| name.replace('-', "_")).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_readme_tells_of_every_demo_host() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("README.md");
    for host in crawldeck::demo::CHARACTERS {
        let row = format!("| `{}` | {} |", host.name, host.character.about());
        assert!(readme.contains(&row), "README.md lacks the row {row}");
    }
}
