//! How single values are checked: each function takes a value as typed and gives the value, or says
//! what is wrong and what to write instead. Messages never quote a value that may be secret.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeValue;
use url::{Host, Url};

use super::Resolved;
use super::nearest::nearest;
use super::raw::wrong_type;
use super::units::{format_duration, format_size, parse_duration, parse_size};

/// `true` or `false`.
pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wrong_type(value, "true or false"))
}

/// A text that is not empty.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match any_text(value, "a text in quotes")? {
        "" => Err("this is empty; write a text, or leave the key out".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// A finite number in `range`.
pub(super) fn number(range: RangeInclusive<f64>) -> impl Fn(&DeValue<'_>) -> Result<f64, String> {
    move |value| {
        let wanted = || format!("a number from {} to {}", range.start(), range.end());
        let (number, typed) = match value {
            DeValue::Float(float) => (float.as_str().parse::<f64>().ok(), float.to_string()),
            DeValue::Integer(whole) => {
                let number = i128::from_str_radix(whole.as_str(), whole.radix()).ok();
                (number.map(|number| number as f64), whole.to_string())
            }
            _ => return Err(wrong_type(value, &wanted())),
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| out_of_range(&typed, &wanted()))
    }
}

/// Zero, or a finite number in `range`; `zero` says what zero means.
pub(super) fn zero_or(zero: &'static str, range: RangeInclusive<f64>) -> impl Fn(&DeValue<'_>) -> Result<f64, String> {
    move |value| match number(0.0..=0.0)(value) {
        Ok(_) => Ok(0.0),
        Err(_) => number(range.clone())(value).map_err(|message| format!("{message}, or 0 for {zero}")),
    }
}

/// A whole number in `range`.
pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&DeValue<'_>) -> Result<T, String>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    move |value| {
        let wanted = || format!("a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(typed) = value else { return Err(wrong_type(value, &wanted())) };
        let number = i128::from_str_radix(typed.as_str(), typed.radix()).ok();
        number
            .and_then(|number| T::try_from(number).ok())
            .filter(|number| range.contains(number))
            .ok_or_else(|| out_of_range(&typed.to_string(), &wanted()))
    }
}

/// A duration in `range`.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&DeValue<'_>) -> Result<Duration, String> {
    move |value| {
        let (least, most) = (format_duration(*range.start()), format_duration(*range.end()));
        let wanted = format!("a duration from {least} to {most} in quotes, such as \"30s\", \"5m\" or \"1h\"");
        let typed = any_text(value, &wanted)?;
        let duration = parse_duration(typed).ok_or_else(|| format!("\"{typed}\" is no duration; write {wanted}"))?;
        range.contains(&duration).then_some(duration).ok_or_else(|| out_of_range(&format!("\"{typed}\""), &wanted))
    }
}

/// A size in bytes in `range`.
pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Result<u64, String> {
    move |value| {
        let (least, most) = (format_size(*range.start()), format_size(*range.end()));
        let wanted = format!("a size from {least} to {most} in quotes, such as \"1KiB\" or \"16MiB\"");
        let typed = any_text(value, &wanted)?;
        let size = parse_size(typed).ok_or_else(|| format!("\"{typed}\" is no size; write {wanted}"))?;
        range.contains(&size).then_some(size).ok_or_else(|| out_of_range(&format!("\"{typed}\""), &wanted))
    }
}

/// One word of a closed list.
pub(super) fn word<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let usable: Vec<String> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let usable = usable.join(" or ");
        let typed = any_text(value, &usable)?;
        match words.iter().find(|(name, _)| *name == typed) {
            Some((_, meaning)) => Ok(*meaning),
            None => Err(match nearest(typed, words.iter().map(|(name, _)| *name)) {
                Some(near) => format!("\"{typed}\" is not known; did you mean \"{near}\"? write {usable}"),
                None => format!("\"{typed}\" is not known; write {usable}"),
            }),
        }
    }
}

/// A regular expression.
pub(super) fn regex(value: &DeValue<'_>) -> Result<regex::Regex, String> {
    let typed = text(value)?;
    regex::Regex::new(&typed).map_err(|error| {
        let error = error.to_string();
        // The engine's text draws a picture over several lines; its last line says what is wrong.
        let what = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("\"{typed}\" is no regular expression: {what}; special characters are written as \\. in single quotes")
    })
}

/// The User-Agent: a header value whose first word robots.txt can name.
pub(super) fn user_agent(value: &DeValue<'_>) -> Result<String, String> {
    let typed = text(value)?;
    let begins_well = typed.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '-');
    if !begins_well || !is_header_value(&typed) {
        return Err("write printable ASCII that begins with a name of letters, which robots.txt can address, \
                    such as \"mycrawler/1.0 (+https://example.org/about)\""
            .to_owned());
    }
    Ok(typed)
}

/// Whether `text` may be the value of a header: printable ASCII, no space at the ends.
pub(super) fn is_header_value(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t')
}

/// A proxy: `None` for the empty text. The URL may hold a password, so it is never quoted.
pub(super) fn proxy(value: &DeValue<'_>) -> Result<Option<Url>, String> {
    let wanted = "http://, https:// or socks5:// with host and port, such as \"http://proxy.example:3128\"";
    let typed = any_text(value, wanted)?;
    if typed.is_empty() {
        return Ok(None);
    }
    let url = Url::parse(typed).map_err(|error| format!("this is no URL ({error}); write {wanted}"))?;
    if !matches!(url.scheme(), "http" | "https" | "socks5") {
        return Err(format!("the scheme is not one that a proxy speaks; write {wanted}"));
    }
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !url.has_host() || url.host_str() == Some("") || !bare {
        return Err(format!("a proxy is a host and a port, without a path; write {wanted}"));
    }
    Ok(Some(url))
}

/// One entry of `resolve`: a host's name, and an address with or without a port.
pub(super) fn resolved(name: &str, value: &DeValue<'_>) -> Result<(String, Resolved), String> {
    let wanted = "an address such as \"192.0.2.1\", \"192.0.2.1:8080\", \"2001:db8::1\" or \"[2001:db8::1]:8080\"";
    let bare = name.trim_end_matches('.');
    let host = match Host::parse(bare) {
        Ok(Host::Domain(domain)) if !bare.contains(['/', '@', '*', '[', '{']) => domain,
        _ => return Err(format!("\"{name}\" is no host's name; write one name, without scheme, port and path")),
    };
    let typed = any_text(value, wanted)?;
    if let Ok(socket) = typed.parse::<SocketAddr>()
        && socket.port() != 0
    {
        return Ok((host, Resolved { ip: socket.ip(), port: Some(socket.port()) }));
    }
    let unbracketed = typed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip = match unbracketed {
        Some(inner) => inner.parse().map(IpAddr::V6),
        None => typed.parse::<IpAddr>(),
    };
    ip.map(|ip| (host, Resolved { ip, port: None })).map_err(|_| format!("\"{typed}\" is no address; write {wanted}"))
}

/// A text, maybe empty.
pub(super) fn any_text<'v>(value: &'v DeValue<'_>, wanted: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| wrong_type(value, wanted))
}

fn out_of_range(typed: &str, wanted: &str) -> String {
    format!("{typed} is out of range; write {wanted}")
}
