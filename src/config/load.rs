//! From a file to a [`Config`]: reading, parsing, all sections in turn, and the flags that overrule.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::error::Report;
use super::raw::Section;
use super::sections::CONCURRENCY_RANGE;
use super::{Config, ConfigErrors, hosts, sections};
use crate::control::GroupBy;
use crate::control::command::{CAPACITY_RANGE, RATE_RANGE};

/// The documented default configuration: what stands in no file is as here.
pub const DEFAULT_CONFIG: &str = include_str!("../../config.toml");
/// Longest file that is read, in bytes; a longer one is refused.
pub const FILE_MAX: u64 = 16 << 20;

/// Says what an environment variable holds.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;
/// Says what is wrong with a line of `[keys]`, given action and key. The keymap knows, not this module.
pub type KeyCheck<'a> = &'a dyn Fn(&str, &str) -> Result<(), String>;

/// Says what is wrong with all of `[keys]` together: the action whose line is to be mended, and why.
pub type KeysCheck<'a> = &'a dyn Fn(&BTreeMap<String, String>) -> Vec<(String, String)>;
/// Says what is wrong with a theme that is a file.
pub type ThemeCheck<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// What checking needs from outside the file.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// Where `env:NAME` is looked up.
    pub environment: Environment<'a>,
    /// Who checks `[keys]`, line by line.
    pub keys: KeyCheck<'a>,
    /// Who checks that no two of them want the same key.
    pub conflicts: KeysCheck<'a>,
    /// Who reads themes.
    pub theme: ThemeCheck<'a>,
}

impl std::fmt::Debug for Outside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outside")
    }
}

impl Outside<'static> {
    /// The process's environment; `[keys]` and theme files are taken as typed.
    pub fn process() -> Self {
        Self {
            environment: &|name| std::env::var_os(name),
            keys: &|_, _| Ok(()),
            conflicts: &|_| Vec::new(),
            theme: &|_| Ok(()),
        }
    }
}

/// Values of the command line that overrule the file.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Overrides {
    /// Original rate of hosts without one of their own, tokens per second.
    pub rate: Option<f64>,
    /// Original capacity of hosts without one of their own, tokens.
    pub capacity: Option<f64>,
    /// Fetches in flight, all hosts together.
    pub concurrency: Option<u32>,
}

impl Config {
    /// Reads and checks the file at `path`.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        Self::load_with(path, Outside::process())
    }

    /// [`Config::load`] with everything outside the file given.
    pub fn load_with(path: &Path, outside: Outside<'_>) -> Result<Self, ConfigErrors> {
        Self::parse_with(&Self::read(path)?, &path.to_string_lossy(), outside)
    }

    /// The text of the file at `path`, unchecked but for its length and encoding.
    pub fn read(path: &Path) -> Result<String, ConfigErrors> {
        read_text(path)
    }

    /// Checks `text`; errors call it `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::parse_with(text, name, Outside::process())
    }

    /// [`Config::parse`] with everything outside the file given.
    pub fn parse_with(text: &str, name: &str, outside: Outside<'_>) -> Result<Self, ConfigErrors> {
        let report = Report::default();
        let (document, meaning_is_clear) = parse_document(text, &report);
        let mut config = Self::default();
        if meaning_is_clear {
            let mut top = Section::top(&document, &report);
            sections::crawl(top.section("crawl"), &mut config);
            sections::politeness(top.section("politeness"), &mut config);
            sections::controller(top.section("controller"), &mut config);
            sections::backoff(top.section("backoff"), &mut config.settings);
            sections::network(top.section("network"), &mut config.network);
            hosts::hosts(top.sections("host", "host"), &mut config, outside.environment);
            sections::output(top.section("output"), &mut config.output);
            sections::ui(top.section("ui"), &mut config.ui, &mut config.settings, outside.theme);
            sections::keys(&mut top, &mut config, outside);
            if config.settings.group_by == GroupBy::Ip && config.network.proxy.is_some() {
                let message = "addresses are not known where a proxy stands between; write \"domain\" or \"host\"";
                top.error_in("controller", "group_by", message);
            }
            top.finish();
        }
        if report.is_empty() { Ok(config) } else { Err(report.into_errors(text, name)) }
    }

    /// Lets the command line overrule the file. `[[host]]` entries and endpoints that state a rate or
    /// capacity of their own keep it. On an error nothing is changed.
    pub fn apply(&mut self, overrides: Overrides) -> Result<(), ConfigErrors> {
        let mut wrong = Vec::new();
        let mut check = |flag, value: Option<f64>, range: std::ops::RangeInclusive<f64>| {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                let (least, most) = (range.start(), range.end());
                wrong.push((flag, format!("{value} is out of range; write a number from {least} to {most}")));
            }
        };
        check("--rate", overrides.rate, RATE_RANGE);
        check("--capacity", overrides.capacity, CAPACITY_RANGE);
        if let Some(value) = overrides.concurrency.filter(|value| !CONCURRENCY_RANGE.contains(value)) {
            let (least, most) = (CONCURRENCY_RANGE.start(), CONCURRENCY_RANGE.end());
            let message = format!("{value} is out of range; write a whole number from {least} to {most}");
            wrong.push(("--concurrency", message));
        }
        if !wrong.is_empty() {
            return Err(ConfigErrors::of_flags(wrong));
        }
        self.settings.concurrency = overrides.concurrency.unwrap_or(self.settings.concurrency);
        for (number, policy) in self.settings.policies.iter_mut().enumerate() {
            let rule = number.checked_sub(1).and_then(|rule| self.hosts.get(rule));
            let inherits = rule.map_or(super::Inherits::ALL, |rule| rule.inherits);
            inherits.apply(overrides, &mut policy.original);
            for (endpoint, of_endpoint) in policy.endpoints.iter_mut().zip(rule.iter().flat_map(|rule| &rule.endpoints))
            {
                of_endpoint.inherits.and(inherits).apply(overrides, &mut endpoint.original);
            }
        }
        Ok(())
    }
}

/// The text of the file at `path`.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    let name = path.to_string_lossy();
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(ConfigErrors::of_file(&name, format!("cannot be read: {error}")));
    }
    if bytes.len() as u64 > FILE_MAX {
        return Err(ConfigErrors::of_file(&name, "is longer than 16 MiB, which no configuration is"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes().get(..good).unwrap_or_default());
        let report = Report::default();
        report.error(good, "this is not UTF-8; save the file as UTF-8");
        report.into_errors(&text, &name)
    })
}

/// The document in `text`, its errors of syntax reported, and whether its meaning is clear.
///
/// A key written twice leaves no doubt what the rest means; after any other error of syntax the meaning of
/// what follows is a guess, and errors about a guess would mislead.
pub(super) fn parse_document<'t>(text: &'t str, report: &Report) -> (Spanned<DeTable<'t>>, bool) {
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    let meaning_is_clear = syntax_errors.iter().all(|error| error.message().starts_with("duplicate key"));
    for error in &syntax_errors {
        let offset = error.span().map_or(text.len(), |span| span.start);
        let message = match error.message() {
            "duplicate key" => {
                let key = error.span().and_then(|span| text.get(span)).unwrap_or_default();
                format!("`{key}` stands here a second time; write it once")
            }
            // The parser takes what begins like `true` or `false` for one of them.
            other if other.starts_with("invalid boolean") => {
                String::from("this is no value; write true or false, a number, or a text in quotes")
            }
            other => other.replace('\n', " "),
        };
        report.error(offset, message);
    }
    (document, meaning_is_clear)
}
