//! Every package that is built in has a licence that deny.toml allows, and comes from crates.io.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_dependency_is_licensed_as_deny_toml_allows() {
    let allowed = allowed();
    let mut needed = BTreeSet::new();
    let mut refused = Vec::new();
    let packages = packages();
    assert!(packages.len() > 100, "the whole tree is looked at, not {} packages", packages.len());
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let source = package["source"].as_str().unwrap_or("here");
        if source != "here" && !source.starts_with("registry+https://github.com/rust-lang/crates.io-index") {
            refused.push(format!("{name} comes from {source}"));
        }
        let expression = package["license"].as_str().unwrap_or("none");
        match Expression::parse(expression).chosen(&allowed) {
            Some(chosen) => needed.extend(chosen),
            None => refused.push(format!("{name}: {expression}")),
        }
    }
    assert!(refused.is_empty(), "not allowed by deny.toml:\n{}", refused.join("\n"));
    let idle: Vec<&String> = allowed.iter().filter(|licence| !needed.contains(*licence)).collect();
    assert!(idle.is_empty(), "allowed by deny.toml and needed by no package: {idle:?}");
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "ISC", "BSD-3-Clause"].map(str::to_owned).into();
    for (expression, fits) in [
        ("MIT", true),
        ("MIT OR Apache-2.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0", false),
        ("GPL-3.0 AND MIT", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND Apache-2.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("none", false),
        ("", false),
    ] {
        assert_eq!(Expression::parse(expression).chosen(&allowed).is_some(), fits, "{expression}");
    }
}

/// The licences that deny.toml allows.
fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml")).expect("deny.toml is there");
    let deny: toml::Table = text.parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("a list");
    list.iter().filter_map(|licence| licence.as_str().map(str::to_owned)).collect()
}

/// The packages built for this machine, tests included; nothing is downloaded.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", &host()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// The triple of this machine.
fn host() -> String {
    let rustc = std::path::Path::new(env!("CARGO")).with_file_name("rustc");
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host line").to_owned()
}

/// An SPDX expression as alternatives, each a list of licences that all apply.
struct Expression(Vec<Vec<String>>);

impl Expression {
    fn parse(text: &str) -> Self {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut at = 0;
        Self(Self::any(&words, &mut at))
    }

    fn any(words: &[&str], at: &mut usize) -> Vec<Vec<String>> {
        let mut alternatives = Self::all(words, at);
        while words.get(*at) == Some(&"OR") {
            *at += 1;
            alternatives.extend(Self::all(words, at));
        }
        alternatives
    }

    fn all(words: &[&str], at: &mut usize) -> Vec<Vec<String>> {
        let mut alternatives = Self::one(words, at);
        while words.get(*at) == Some(&"AND") {
            *at += 1;
            let right = Self::one(words, at);
            let joined = |left: &Vec<String>| -> Vec<Vec<String>> {
                right.iter().map(|right| left.iter().chain(right).cloned().collect()).collect()
            };
            alternatives = alternatives.iter().flat_map(joined).collect();
        }
        alternatives
    }

    fn one(words: &[&str], at: &mut usize) -> Vec<Vec<String>> {
        let Some(word) = words.get(*at) else { return Vec::new() };
        *at += 1;
        if *word == "(" {
            let inner = Self::any(words, at);
            *at += 1;
            return inner;
        }
        let mut licence = (*word).to_owned();
        if words.get(*at) == Some(&"WITH") {
            licence = format!("{licence} WITH {}", words.get(*at + 1).unwrap_or(&""));
            *at += 2;
        }
        vec![vec![licence]]
    }

    /// An alternative all of whose licences are allowed.
    fn chosen(self, allowed: &BTreeSet<String>) -> Option<Vec<String>> {
        self.0.into_iter().find(|licences| licences.iter().all(|licence| allowed.contains(licence)))
    }
}
