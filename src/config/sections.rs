//! The sections of the file, each read over the defaults. `[[host]]` is in `hosts.rs`.
//!
//! A value that the program cannot honour yet is refused here with that reason: a crawl that quietly
//! did something else than its file says would be worse than one that does not start.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::check::{
    any_text, boolean, duration, number, proxy, regex, resolved, size, text, user_agent, whole, word, zero_or,
};
use super::hosts::host_pattern;
use super::nearest::nearest;
use super::raw::{Section, wrong_type};
use super::{Config, Follow, Glyphs, NetworkConfig, OnHangup, OutputConfig, Outside, ThemeCheck, UiConfig};
use crate::control::command::{CAPACITY_RANGE, RATE_RANGE};
use crate::control::prior::PriorKind;
use crate::control::{ControllerKind, GroupBy, Settings, Shape};

/// Fetches in flight, all hosts together.
pub const CONCURRENCY_RANGE: RangeInclusive<u32> = 1..=65_536;
/// Fetches in flight per host.
pub(super) const CONNECTIONS_RANGE: RangeInclusive<u32> = 1..=1_024;
/// Refusals per ten minutes; 0 = no budget.
pub(super) const BUDGET_RANGE: RangeInclusive<u32> = 0..=100_000;
/// Requests; 0 = no limit.
pub(super) const REQUESTS_RANGE: RangeInclusive<u64> = 0..=1_000_000_000_000;
/// The themes that exist.
pub const THEMES: [&str; 6] = ["auto", "default", "light", "mono", "high-contrast", "colour-blind"];

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than any crawl, and far from where arithmetic with moments would saturate.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The controllers by name.
pub(super) const KINDS: [(&str, ControllerKind); 3] =
    [("adaptive", ControllerKind::Adaptive), ("halving", ControllerKind::Halving), ("static", ControllerKind::Static)];

/// What hosts can be grouped by, by name.
const GROUPS: [(&str, GroupBy); 3] = [("host", GroupBy::Host), ("domain", GroupBy::Domain), ("ip", GroupBy::Ip)];

/// The shapes by name.
pub(super) const SHAPES: [(&str, Shape); 3] = [
    ("token-bucket", Shape::TokenBucket),
    ("leaky-bucket", Shape::LeakyBucket),
    ("sliding-window", Shape::SlidingWindow),
];

/// `[crawl]`.
pub(super) fn crawl(section: Option<Section<'_>>, config: &mut Config) {
    let Some(mut section) = section else { return };
    let crawl = &mut config.crawl;
    if let Some(urls) = section.list("urls", text) {
        crawl.urls = urls.into_iter().map(PathBuf::from).collect();
    }
    section.set("concurrency", &mut config.settings.concurrency, whole(CONCURRENCY_RANGE));
    section.set("user_agent", &mut crawl.user_agent, user_agent);
    section.set("follow", &mut crawl.follow, follow);
    if let Some(exclude) = section.list("exclude", regex) {
        crawl.exclude = exclude;
    }
    if let Some(allow) = section.list("allow", regex) {
        crawl.allow = allow;
    }
    section.set("sitemaps", &mut crawl.sitemaps, boolean);
    section.set("max_depth", &mut crawl.max_depth, whole(0..=1_000_000_u32));
    section.set("max_requests", &mut crawl.max_requests, whole(REQUESTS_RANGE));
    section.set("retries", &mut crawl.retries, whole(0..=1_000));
    section.set("give_up_after", &mut config.settings.give_up_after, duration(SECOND..=YEAR));
    section.finish();
}

/// `[politeness]`: the originals of policy 0.
pub(super) fn politeness(section: Option<Section<'_>>, config: &mut Config) {
    let Some(mut section) = section else { return };
    if let Some(policy) = config.settings.policies.first_mut() {
        section.set("rate", &mut policy.original.rate, number(RATE_RANGE));
        section.set("capacity", &mut policy.original.capacity, number(CAPACITY_RANGE));
        section.set("connections", &mut policy.connections, whole(CONNECTIONS_RANGE));
        section.set("shape", &mut policy.shape, word(&SHAPES));
    }
    section.set("respect_robots", &mut config.crawl.respect_robots, boolean);
    if let Some(rate) = section.read("global_rate", zero_or("no limit", RATE_RANGE)) {
        config.settings.global_rate = (rate > 0.0).then_some(rate);
    }
    section.finish();
}

/// `[controller]`.
pub(super) fn controller(section: Option<Section<'_>>, config: &mut Config) {
    let Some(mut section) = section else { return };
    if let Some(policy) = config.settings.policies.first_mut() {
        section.set("kind", &mut policy.kind, word(&KINDS));
        section.set("refusal_budget", &mut policy.refusal_budget, whole(BUDGET_RANGE));
    }
    section.set("min_rate", &mut config.settings.min_rate, zero_or("the controller's own floor", RATE_RANGE));
    section.set("cold_start", &mut config.settings.cold_start, boolean);
    let priors = [PriorKind::Off, PriorKind::HourOfWeek, PriorKind::RandomForest];
    section.set("prior", &mut config.settings.prior, word(&priors.map(|prior| (prior.as_str(), prior))));
    let file = |value: &DeValue<'_>| any_text(value, "a file's name in quotes, or \"\"").map(str::to_owned);
    if let Some(file) = section.read("memory", file) {
        config.memory = (!file.is_empty()).then(|| file.into());
    }
    section.set("group_by", &mut config.settings.group_by, word(&GROUPS));
    section.finish();
}

/// `[backoff]`.
pub(super) fn backoff(section: Option<Section<'_>>, settings: &mut Settings) {
    let Some(mut section) = section else { return };
    let backoff = &mut settings.backoff;
    section.set("base", &mut backoff.base, duration(MILLISECOND..=DAY));
    section.set("max", &mut backoff.max, duration(MILLISECOND..=DAY));
    section.set("jitter", &mut backoff.jitter, duration(Duration::ZERO..=DAY));
    section.set("retry_after_max", &mut backoff.retry_after_max, duration(SECOND..=YEAR));
    if backoff.max < backoff.base {
        section.error("max", "this is shorter than `base`; write at least as much, or a shorter `base`");
    }
    section.finish();
}

/// `[network]`.
pub(super) fn network(section: Option<Section<'_>>, network: &mut NetworkConfig) {
    let Some(mut section) = section else { return };
    section.set("allow_private", &mut network.allow_private, boolean);
    if let Some(entries) = section.entries("resolve", resolved) {
        let count = entries.len();
        network.resolve = entries.into_iter().collect();
        if network.resolve.len() < count {
            section.error("resolve", "one host's name stands here in several spellings; write each name once");
        }
    }
    section.set("connect_timeout", &mut network.connect_timeout, duration(MILLISECOND..=DAY));
    section.set("head_timeout", &mut network.head_timeout, duration(MILLISECOND..=DAY));
    section.set("idle_timeout", &mut network.idle_timeout, duration(MILLISECOND..=DAY));
    section.set("min_body_rate", &mut network.min_body_rate, size(0..=1 << 30));
    section.set("max_body", &mut network.max_body, size(1..=1 << 40));
    section.set("proxy", &mut network.proxy, proxy);
    section.set("cookies", &mut network.cookies, boolean);
    if let Some(roots) = section.list("extra_roots", text) {
        network.extra_roots = roots.into_iter().map(PathBuf::from).collect();
    }
    section.finish();
}

/// `[output]`.
pub(super) fn output(section: Option<Section<'_>>, output: &mut OutputConfig) {
    let Some(mut section) = section else { return };
    section.set("warc", &mut output.warc, boolean);
    section.set("bodies", &mut output.bodies, word(&[("none", false), ("ok", true)]));
    section.finish();
}

/// `[ui]`.
pub(super) fn ui(
    section: Option<Section<'_>>,
    ui: &mut UiConfig,
    settings: &mut Settings,
    check_theme: ThemeCheck<'_>,
) {
    let Some(mut section) = section else { return };
    section.set("fps", &mut ui.fps, whole(1..=60));
    let glyphs = [("auto", Glyphs::Auto), ("unicode", Glyphs::Unicode), ("ascii", Glyphs::Ascii)];
    section.set("glyphs", &mut ui.glyphs, word(&glyphs));
    section.set("theme", &mut ui.theme, theme(check_theme));
    section.set("mouse", &mut ui.mouse, boolean);
    section.set("override_ttl", &mut settings.override_ttl, duration(SECOND..=YEAR));
    section.set("remind_after", &mut settings.remind_after, duration(SECOND..=YEAR));
    let on_hangup = [("continue", OnHangup::Continue), ("drain", OnHangup::Drain)];
    section.set("on_hangup", &mut ui.on_hangup, word(&on_hangup));
    section.finish();
}

/// Whether `theme` names a file, not one of [`THEMES`].
pub fn is_theme_file(theme: &str) -> bool {
    theme.ends_with(".toml") || theme.contains('/')
}

/// `[keys]`: the names are the actions', so whoever knows the actions checks them.
pub(super) fn keys(top: &mut Section<'_>, config: &mut Config, outside: Outside<'_>) {
    let read = |action: &str, value: &DeValue<'_>| {
        let key = any_text(value, "a key in quotes, such as \"p\"")?;
        if key.is_empty() {
            return Err(format!("`{action}` has no key; write one, such as \"p\", or leave the line out"));
        }
        (outside.keys)(action, key)?;
        Ok((action.to_owned(), key.to_owned()))
    };
    if let Some(keys) = top.entries("keys", read) {
        config.keys = keys.into_iter().collect();
        for (action, message) in (outside.conflicts)(&config.keys) {
            top.error_in("keys", &action, &message);
        }
    }
}

/// `follow`: a word, or a list of host globs.
fn follow(value: &DeValue<'_>) -> Result<Follow, String> {
    if let Some(globs) = value.as_array() {
        let globs = globs.iter().map(|glob| Ok(host_pattern(glob.get_ref())?.1));
        return globs.collect::<Result<Vec<_>, String>>().map(Follow::Globs);
    }
    if value.as_str().is_none() {
        return Err(wrong_type(
            value,
            "\"none\", \"host\", \"domain\", or a list of host globs such as [\"*.example.com\"]",
        ));
    }
    match word(&[("none", 0), ("host", 1), ("domain", 2)])(value)? {
        0 => Ok(Follow::None),
        1 => Ok(Follow::Host),
        _ => Ok(Follow::Domain),
    }
}

/// A theme that exists, and can be read if it is a file of one's own.
fn theme(check: ThemeCheck<'_>) -> impl Fn(&DeValue<'_>) -> Result<String, String> {
    move |value| {
        let usable = THEMES.map(|theme| format!("\"{theme}\"")).join(" or ");
        let Some(typed) = value.as_str() else { return Err(wrong_type(value, &usable)) };
        if THEMES.contains(&typed) {
            return Ok(typed.to_owned());
        }
        if crate::config::is_theme_file(typed) {
            return check(typed).map(|()| typed.to_owned());
        }
        Err(match nearest(typed, THEMES) {
            Some(near) => format!("there is no theme \"{typed}\"; did you mean \"{near}\"? write {usable}"),
            None => format!("there is no theme \"{typed}\"; write {usable}"),
        })
    }
}
