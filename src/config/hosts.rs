//! `[[host]]` entries: which hosts and paths they cover, and the policy each gives them.
//!
//! An entry inherits what it leaves out from `[politeness]` and `[controller]`, an endpoint from its
//! host. Patterns are compared with bucket keys, so they are brought into the same form here: lower
//! case, punycode, no final dot, percent-encoded paths.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobMatcher};
use toml::de::DeValue;
use url::Host;

use super::check::{is_header_value, number, text, whole, word};
use super::raw::{Section, wrong_type};
use super::sections::{BUDGET_RANGE, CONNECTIONS_RANGE, KINDS, REQUESTS_RANGE, SHAPES};
use super::{Config, EndpointRule, Environment, HostRule, Inherits, SecretString};
use crate::control::command::{CAPACITY_RANGE, RATE_RANGE};
use crate::control::{EndpointPolicy, Lane, Policy};

/// Entries in a file at most: policies are numbered with 16 bits.
pub const HOSTS_MAX: usize = 65_000;
/// Endpoints in an entry at most: lanes are numbered with 8 bits, lane 0 is the host's own, and the last are the frontier's.
pub const ENDPOINTS_MAX: usize = 250;

/// Headers that the fetcher writes itself; set by hand they would break framing, politeness or decoding.
const OWN_HEADERS: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "accept-encoding",
    "proxy-authorization",
    "user-agent",
];

/// Reads all entries into `config`, after the defaults they inherit.
pub(super) fn hosts(sections: Vec<Section<'_>>, config: &mut Config, environment: Environment<'_>) {
    let base = config.settings.policies.first().cloned().unwrap_or_default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (count, mut section) in sections.into_iter().enumerate() {
        if count >= HOSTS_MAX {
            section.error("match", &format!("there are more than {HOSTS_MAX} entries; let globs cover several hosts"));
            return;
        }
        let mut policy = base.clone();
        let rule = host(&mut section, &mut policy, environment);
        if let Some(rule) = rule {
            if let Some(first) = seen.insert(rule.pattern_text.clone(), count) {
                let message = format!(
                    "entry {} has the same; the first match wins, so this one is never used; write them as one",
                    first + 1
                );
                section.error("match", &message);
            }
            config.hosts.push(rule);
            config.settings.policies.push(policy);
        }
        section.finish();
    }
}

/// One entry; `None` if it does not say which hosts it covers (then reported).
fn host(section: &mut Section<'_>, policy: &mut Policy, environment: Environment<'_>) -> Option<HostRule> {
    let pattern = match section.value("match") {
        Some(_) => section.read("match", host_pattern),
        None => {
            section.error("match", "this is missing; write the host's name or a glob, such as \"*.example.com\"");
            None
        }
    };
    let rate = section.read("rate", number(RATE_RANGE));
    let capacity = section.read("capacity", number(CAPACITY_RANGE));
    let inherits = Inherits { rate: rate.is_none(), capacity: capacity.is_none() };
    policy.original.rate = rate.unwrap_or(policy.original.rate);
    policy.original.capacity = capacity.unwrap_or(policy.original.capacity);
    section.set("shape", &mut policy.shape, word(&SHAPES));
    section.set("connections", &mut policy.connections, whole(CONNECTIONS_RANGE));
    section.set("controller", &mut policy.kind, word(&KINDS));
    section.set("refusal_budget", &mut policy.refusal_budget, whole(BUDGET_RANGE));
    section.set("max_requests", &mut policy.max_requests, whole(REQUESTS_RANGE));
    let headers = section.entries("headers", |name, value| header(name, value, environment)).unwrap_or_default();
    for (at, (name, _)) in headers.iter().enumerate() {
        if headers[..at].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
            section.error("headers", &format!("`{name}` stands here in several spellings; write it once"));
        }
    }
    let mut rules: Vec<EndpointRule> = Vec::new();
    for (count, mut endpoint_section) in section.sections("endpoint", "host.endpoint").into_iter().enumerate() {
        if count >= ENDPOINTS_MAX {
            endpoint_section.error("path", &format!("a host has at most {ENDPOINTS_MAX} endpoints; use globs"));
            break;
        }
        if let Some((rule, endpoint)) = endpoint(&mut endpoint_section, policy) {
            if rules.iter().any(|earlier| earlier.path == rule.path) {
                endpoint_section
                    .error("path", "this host has an endpoint with the same path already; write one of them");
            }
            rules.push(rule);
            policy.endpoints.push(endpoint);
        }
        endpoint_section.finish();
    }
    let (pattern_text, pattern) = pattern?;
    Some(HostRule { pattern, pattern_text, headers, endpoints: rules, inherits })
}

/// One endpoint; `None` if it has no usable path (then reported).
fn endpoint(section: &mut Section<'_>, host: &Policy) -> Option<(EndpointRule, EndpointPolicy)> {
    let path = match section.value("path") {
        Some(_) => section.read("path", path_pattern),
        None => {
            section.error("path", "this is missing; write a prefix such as \"/api/\", or a glob such as \"/*/search\"");
            None
        }
    };
    let rate = section.read("rate", number(RATE_RANGE));
    let capacity = section.read("capacity", number(CAPACITY_RANGE));
    let inherits = Inherits { rate: rate.is_none(), capacity: capacity.is_none() };
    let mut policy = EndpointPolicy { original: host.original, cost: 1.0 };
    policy.original.rate = rate.unwrap_or(policy.original.rate);
    policy.original.capacity = capacity.unwrap_or(policy.original.capacity);
    section.set("cost", &mut policy.cost, number(0.001..=1_000_000.0));
    let (path, glob) = path?;
    Some((EndpointRule { path, glob, inherits }, policy))
}

impl Config {
    /// The entry of `host_key` (`name[:port]`, as the bucket's key): the first that matches. Its policy is
    /// number `k + 1` for entry `k`; without an entry it is policy 0.
    pub fn rule_for(&self, host_key: &str) -> Option<usize> {
        self.hosts.iter().position(|rule| rule.pattern.is_match(host_key))
    }

    /// The lane of `path` (as the URL writes it) under entry `rule`: the endpoint with most literal
    /// characters among those that cover it, the first of equals; lane 0 if none does.
    pub fn endpoint_for(&self, rule: usize, path: &str) -> Lane {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let endpoints = self.hosts.get(rule).map(|rule| rule.endpoints.as_slice()).unwrap_or_default();
        let mut best = None;
        for (lane, endpoint) in (1_u8..=u8::MAX).zip(endpoints) {
            let literal = endpoint.literal_chars();
            if endpoint.covers(path) && best.is_none_or(|(most, _)| literal > most) {
                best = Some((literal, lane));
            }
        }
        Lane(best.map_or(0, |(_, lane)| lane))
    }
}

impl EndpointRule {
    /// Whether `path` begins with the prefix, or is matched by the glob as a whole.
    fn covers(&self, path: &str) -> bool {
        self.glob.as_ref().map_or_else(|| path.starts_with(&self.path), |glob| glob.is_match(path))
    }

    /// How many characters of the pattern stand for themselves.
    fn literal_chars(&self) -> usize {
        match self.glob {
            Some(_) => self.path.chars().filter(|c| !is_glob_char(*c)).count(),
            None => self.path.chars().count(),
        }
    }
}

/// A pattern over bucket keys, and its text in their form.
pub(super) fn host_pattern(value: &DeValue<'_>) -> Result<(String, GlobMatcher), String> {
    let typed = text(value)?;
    if typed.contains(['/', '@', '\\']) || typed.contains(char::is_whitespace) {
        return Err(format!("\"{typed}\" is no host; write its name alone, without scheme, path and user"));
    }
    let (name, port) = split_port(&typed)?;
    let is_literal_v6 = name.starts_with('[') && name.contains(':');
    let name = if is_literal_v6 || !name.contains(is_glob_char) { exact_name(name)? } else { glob_name(name)? };
    let pattern = port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
    // The brackets of an IPv6 address would be a character class.
    let glob = if is_literal_v6 { globset::escape(&pattern) } else { pattern.clone() };
    // Dots are ordinary characters and hosts have no slash: `*` reaches over as many labels as there are.
    let glob = GlobBuilder::new(&glob).build().map_err(|error| glob_error(&typed, &error))?;
    Ok((pattern, glob.compile_matcher()))
}

/// Name and port of a pattern as typed.
fn split_port(typed: &str) -> Result<(&str, Option<&str>), String> {
    let name_end = if typed.starts_with('[') { typed.rfind(']').map_or(0, |end| end + 1) } else { 0 };
    let Some(colon) = typed[name_end..].rfind(':').map(|colon| name_end + colon) else { return Ok((typed, None)) };
    let (name, port) = (&typed[..colon], &typed[colon + 1..]);
    if name.contains(':') && !name.starts_with('[') {
        return Err(format!("\"{typed}\" is no host; write an IPv6 address in brackets, such as \"[{typed}]\""));
    }
    if name.is_empty() {
        return Err(format!("\"{typed}\" is no host; write its name before the port"));
    }
    if port.contains(is_glob_char) {
        return Ok((name, Some(port)));
    }
    match port.parse::<u16>() {
        Ok(80 | 443) => Err(format!("a default port is not part of a host's name; write \"{name}\"")),
        Ok(number) if number > 0 && !port.starts_with(['0', '+']) => Ok((name, Some(port))),
        _ => Err(format!("\"{port}\" is no port; write a number from 1 to 65535")),
    }
}

/// A name without glob characters, as a URL's host is written.
fn exact_name(name: &str) -> Result<String, String> {
    match Host::parse(name.trim_end_matches('.')) {
        Ok(host) => Ok(host.to_string()),
        Err(error) => Err(format!("\"{name}\" is no host's name: {error}; write it as in a URL")),
    }
}

/// A name with glob characters: its labels without them are brought into form one by one.
fn glob_name(name: &str) -> Result<String, String> {
    let mut labels = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        if label.is_ascii() {
            labels.push(label.to_ascii_lowercase());
        } else if label.contains(is_glob_char) {
            return Err(format!("\"{label}\" mixes letters beyond ASCII with a glob; write its punycode form, xn--…"));
        } else {
            labels.push(exact_name(label)?);
        }
    }
    Ok(labels.join("."))
}

/// A prefix, or a glob over the whole path in which `*` stays within one segment and `**` does not.
fn path_pattern(value: &DeValue<'_>) -> Result<(String, Option<GlobMatcher>), String> {
    let typed = text(value)?;
    if !typed.starts_with(['/', '*']) {
        return Err(format!("\"{typed}\" is no path; write it from the first \"/\" on"));
    }
    if typed.contains('#') || (typed.contains('?') && !typed.contains(['*', '[', '{'])) {
        return Err(format!("\"{typed}\" holds a query or fragment; write the path alone"));
    }
    let path = percent_encoded(&typed);
    if !path.contains(is_glob_char) {
        return Ok((path, None));
    }
    let glob = GlobBuilder::new(&path).literal_separator(true).build().map_err(|error| glob_error(&typed, &error))?;
    Ok((path, Some(glob.compile_matcher())))
}

/// `path` with everything encoded that a URL would encode.
fn percent_encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// One header: the value itself, or `env:NAME`. No message quotes a value.
fn header(name: &str, value: &DeValue<'_>, environment: Environment<'_>) -> Result<(String, SecretString), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("\"{name}\" is no header's name; write letters, digits and \"-\""));
    }
    if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        let instead =
            if name.eq_ignore_ascii_case("user-agent") { "set `user_agent` in [crawl]" } else { "leave it out" };
        return Err(format!("`{name}` is written by the fetcher itself; {instead}"));
    }
    let Some(typed) = value.as_str() else {
        return Err(format!(
            "`{name}`: {}",
            wrong_type(value, "a text, or \"env:NAME\" to take it from the environment")
        ));
    };
    let Some(variable) = typed.strip_prefix("env:") else {
        let message = || format!("`{name}` has no usable value; write printable ASCII without spaces at the ends");
        return is_header_value(typed).then(|| (name.to_owned(), SecretString(typed.to_owned()))).ok_or_else(message);
    };
    if variable.is_empty() || variable.contains(['=', '\0']) {
        return Err(format!("`{name}` names no variable; write \"env:\" and the variable's name"));
    }
    let Some(found) = environment(variable) else {
        return Err(format!(
            "`{name}`: the environment variable `{variable}` is not set; set it, or leave the header out"
        ));
    };
    match found.into_string() {
        Ok(secret) if is_header_value(&secret) => Ok((name.to_owned(), SecretString(secret))),
        _ => Err(format!(
            "`{name}`: what the environment variable `{variable}` holds cannot stand in a header; \
             it needs printable ASCII without spaces or line ends around it"
        )),
    }
}

fn is_glob_char(c: char) -> bool {
    matches!(c, '*' | '?' | '[' | ']' | '{' | '}')
}

fn glob_error(typed: &str, error: &globset::Error) -> String {
    format!("\"{typed}\" is no glob: {}; write * for any text and ? for one character", error.kind())
}
