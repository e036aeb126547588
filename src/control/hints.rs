//! What servers tell of their limits in headers, turned into one pace: `RateLimit` and `RateLimit-Policy` of the IETF
//! draft, its older forms, `X-RateLimit-*` and the vendors' variants.
//!
//! A hint can only slow us or pace us. It never lifts a limit, is no promise, and counts for nothing on an answer
//! from a cache. Where several say something the strictest counts. Malformed values are ignored: a structured field
//! whole, as the draft has it, others one by one.
//!
//! An answer's own Retry-After stands over what its other fields say of a window: until then it is waited, whichever is
//! longer. Only the policy counts beside it, and that the window was used up says that the refusal teaches nothing.

mod fields;
mod pace;

use std::time::Duration;

use self::fields::{Bare, Item};
pub(super) use self::pace::Pace;
pub use self::pace::Paced;
use super::retry_after;

/// Values above this are epochs, not seconds; numbers above a thousand times this are milliseconds.
const EPOCH: f64 = 1e9;
/// What one window of a hint may last at most, in seconds.
const RESET_MAX: f64 = 31.0 * 86_400.0;
/// Shopify's leak, requests per second.
const SHOPIFY_LEAK: f64 = 2.0;
/// A pause until a window's end lasts so much longer.
const RESET_SLACK: f64 = 0.1;
/// So many refusals within [`WATCH`] although hints were obeyed, and they are not believed for [`DISTRUST`].
const FALSE_MAX: u8 = 6;
const WATCH: Duration = Duration::from_secs(600);
const DISTRUST: Duration = Duration::from_secs(3_600);

/// What one answer's headers say.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Hint {
    /// Requests left in the window; infinite where only a policy is told.
    pub remaining: f64,
    /// Seconds until they are back; where only a policy is told, its window.
    pub reset: f64,
    /// Requests per second that a stated policy allows at most.
    pub policy: Option<f64>,
    /// The vendor's id of the bucket that was asked, hashed; 0 = it names none.
    pub bucket: u64,
    /// The limit is one of a resource that others use, too: its refusals are not counted against us.
    pub shared: bool,
    /// The answer has a Retry-After: that is waited, and not the window's end.
    pub asked: bool,
    /// The fields are those of a service that has a second limit of which they say nothing, and requests are left: a bare
    /// refusal is one of that limit.
    pub secondary: bool,
}

impl Hint {
    /// Whether the window is used up.
    pub fn exhausted(&self) -> bool {
        self.remaining < 1.0
    }
}

/// Reads the headers of an answer. Names are compared in any case; `now_unix` is the response's own Date where it has
/// one, else our clock, in seconds since the epoch. `None` = they say nothing.
pub fn parse<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>, now_unix: f64) -> Option<Hint> {
    let mut found = Found::default();
    for (name, value) in headers {
        found.take(&name.to_ascii_lowercase(), value.trim(), now_unix);
    }
    found.finish()
}

/// A wait in a vendor's own header, beside Retry-After.
pub fn vendor_wait<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Duration> {
    let millis = headers
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-amz-retry-after"))
        .filter_map(|(_, value)| number(value.trim()))
        .fold(0.0, f64::max);
    (millis > 0.0).then(|| Duration::try_from_secs_f64(millis / 1e3).ok()).flatten()
}

/// What was found so far.
#[derive(Default)]
struct Found<'a> {
    /// `RateLimit` and `RateLimit-Policy` as they came: what an item counts stands in the policy of its name.
    draft: Vec<&'a str>,
    policies: Vec<&'a str>,
    remaining: Option<f64>,
    reset: Option<f64>,
    /// A reset that is always a distance in time.
    reset_after: Option<f64>,
    /// The strictest policy of older fields.
    older: Option<Quota>,
    shopify: Option<(f64, f64)>,
    bucket: u64,
    global: bool,
    shared: bool,
    cached: bool,
    asked: bool,
    /// A limit is told of one of several resources, as GitHub does.
    resource: bool,
}

impl<'a> Found<'a> {
    fn take(&mut self, name: &str, value: &'a str, now: f64) {
        match name {
            "age" => self.cached |= number(value).is_some_and(|age| age > 0.0),
            "retry-after" => self.asked |= retry_after::parse(&[value.as_bytes()], None, now as i64).wait.is_some(),
            "x-amz-retry-after" => self.asked |= number(value).is_some_and(|millis| millis > 0.0),
            "ratelimit" => self.draft.push(value),
            "ratelimit-policy" => self.policies.push(value),
            "ratelimit-limit" | "x-ratelimit-limit" | "x-rate-limit-limit" => {
                // `3, 3;w=3600`: the items after the first are policies.
                self.older = strictest_quota(self.older, policies(&[value]).quota);
            }
            "ratelimit-remaining" | "x-ratelimit-remaining" | "x-rate-limit-remaining" => {
                self.remaining = least(self.remaining, quantity(value));
            }
            "ratelimit-reset" | "x-ratelimit-reset" | "x-rate-limit-reset" => {
                self.reset = most(self.reset, number(value).map(|reset| distance(reset, now)));
            }
            "x-ratelimit-reset-after" | "x-rate-limit-reset-after" => {
                self.reset_after = most(self.reset_after, quantity(value));
            }
            "x-ratelimit-resource" => self.resource = true,
            "x-ratelimit-bucket" | "x-rate-limit-bucket" if !value.is_empty() => self.bucket = id_of(value),
            "x-ratelimit-global" => self.global |= value.eq_ignore_ascii_case("true"),
            "x-ratelimit-scope" => {
                self.global |= value.eq_ignore_ascii_case("global");
                self.shared |= value.eq_ignore_ascii_case("shared");
            }
            "x-shopify-shop-api-call-limit" => {
                if let Some((used, limit)) = value.split_once('/')
                    && let (Some(used), Some(limit)) = (quantity(used.trim()), quantity(limit.trim()))
                {
                    self.shopify = Some(((limit - used).max(0.0), used / SHOPIFY_LEAK));
                }
            }
            _ => {}
        }
    }

    fn finish(self) -> Option<Hint> {
        if self.cached {
            return None;
        }
        let Policies { quota, others } = policies(&self.policies);
        let quota = strictest_quota(quota, self.older);
        let apart = self.remaining.zip(self.reset_after.or(self.reset));
        let told = draft(&self.draft, &others).or(apart).or(self.shopify);
        let window = told.filter(|(_, reset)| *reset > 0.0 && *reset <= RESET_MAX);
        // A policy alone holds for its window: no longer than that after the last answer that told of it.
        let alone = quota.map(|quota| (f64::INFINITY, quota.window.min(RESET_MAX)));
        let (remaining, reset) = window.or(alone)?;
        Some(Hint {
            remaining,
            reset,
            policy: quota.map(|quota| quota.rate()),
            // What holds for the whole service is no endpoint's bucket.
            bucket: if self.global { 0 } else { self.bucket },
            shared: self.shared,
            asked: self.asked,
            secondary: self.resource && !self.asked && window.is_some_and(|(remaining, _)| remaining >= 1.0),
        })
    }
}

/// So many requests in so many seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Quota {
    requests: f64,
    window: f64,
}

impl Quota {
    fn rate(self) -> f64 {
        self.requests / self.window
    }
}

/// An id in so many bits (FNV-1a), never 0: it is only compared.
fn id_of(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix).max(1)
}

/// A number as headers have it: integer or decimal, not negative, at most 1e9 (or an epoch).
fn number(text: &str) -> Option<f64> {
    let text = text.trim_matches('"');
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = plain.then(|| text.parse().ok())??;
    (value.is_finite() && value <= 1e13).then_some(value)
}

/// A number that is no epoch: more than 1e9 of anything is none.
fn quantity(text: &str) -> Option<f64> {
    number(text).filter(|value| *value <= EPOCH)
}

/// A reset as seconds from now: epochs, in seconds or milliseconds, are told by their size.
fn distance(reset: f64, now: f64) -> f64 {
    match reset {
        reset if reset > EPOCH * 1e3 => (reset / 1e3 - now).max(0.0),
        reset if reset > EPOCH => (reset - now).max(0.0),
        reset => reset,
    }
}

/// `"burst";r=50;t=30, …` or the older `limit=100, remaining=50, reset=30`, in lines that are one field: the strictest item
/// that counts requests. `others` are names of policies that count something else.
fn draft(lines: &[&str], others: &[String]) -> Option<(f64, f64)> {
    let value = lines.join(", ");
    let Some(items) = fields::list(&value) else { return older_draft(&value) };
    let mut strict = None;
    for item in items {
        let Bare::Text(name) = &item.bare else { return None };
        // One that is no count, or is not there, makes the field malformed: then all of it counts for nothing.
        let remaining = item.parameter("r")?.count()?;
        let reset = match item.parameter("t") {
            Some(reset) => Some(reset.count()?),
            None => None,
        };
        if !others.contains(name) && counts_requests(&item)? && remaining <= EPOCH {
            strict = strictest(strict, reset.map(|reset| (remaining, reset)));
        }
    }
    strict
}

fn older_draft(value: &str) -> Option<(f64, f64)> {
    let members = fields::dictionary(value)?;
    let of = |key: &str| members.iter().rev().find(|(name, _)| name == key)?.1.count();
    of("remaining").zip(of("reset")).filter(|(remaining, _)| *remaining <= EPOCH)
}

/// What a field of policies says.
#[derive(Default)]
struct Policies {
    /// The lowest rate of those that count requests.
    quota: Option<Quota>,
    /// The names of those that count something else.
    others: Vec<String>,
}

/// `"burst";q=100;w=60, …` or `100;w=60, …`, in lines that are one field.
fn policies(lines: &[&str]) -> Policies {
    read_policies(&lines.join(", ")).unwrap_or_default()
}

fn read_policies(value: &str) -> Option<Policies> {
    let mut read = Policies::default();
    for item in fields::list(value)? {
        let (name, requests) = match &item.bare {
            Bare::Text(name) => (Some(name), item.parameter("q")?.count()?),
            bare => (None, bare.count()?),
        };
        let window = match item.parameter("w") {
            Some(window) => Some(window.count()?),
            None => None,
        };
        if !counts_requests(&item)? {
            read.others.extend(name.cloned());
        } else if let Some(window) = window.filter(|window| *window > 0.0 && requests <= EPOCH) {
            read.quota = strictest_quota(read.quota, Some(Quota { requests, window }));
        }
    }
    Some(read)
}

/// Whether an item counts requests: its unit `qu` says so, or it has none. Bytes, and what is in flight at a time,
/// are no pace. `None` = its unit is none.
fn counts_requests(item: &Item) -> Option<bool> {
    match item.parameter("qu") {
        None => Some(true),
        Some(Bare::Text(unit)) => Some(unit.eq_ignore_ascii_case("requests")),
        Some(_) => None,
    }
}

fn strictest_quota(one: Option<Quota>, two: Option<Quota>) -> Option<Quota> {
    one.zip(two).map(|(one, two)| if two.rate() < one.rate() { two } else { one }).or(one).or(two)
}

/// Of two pairs of remaining and reset the one that allows less.
fn strictest(one: Option<(f64, f64)>, two: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (one, two) {
        (Some(one), Some(two)) => Some(if two.0 / two.1.max(0.1) < one.0 / one.1.max(0.1) { two } else { one }),
        (one, two) => one.or(two),
    }
}

fn least(one: Option<f64>, two: Option<f64>) -> Option<f64> {
    one.zip(two).map(|(one, two)| one.min(two)).or(one).or(two)
}

fn most(one: Option<f64>, two: Option<f64>) -> Option<f64> {
    one.zip(two).map(|(one, two)| one.max(two)).or(one).or(two)
}

#[cfg(test)]
mod rules;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::Mono;

    const NOW: f64 = 1_700_000_000.0;
    const LONGEST: Duration = Duration::from_secs(6 * 3_600);

    /// A vendor, its headers, and what they say.
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<Hint>);

    fn read(headers: &[(&str, &str)]) -> Option<Hint> {
        parse(headers.iter().copied(), NOW)
    }

    fn hint(remaining: f64, reset: f64) -> Option<Hint> {
        Some(Hint { remaining, reset, ..Hint::default() })
    }

    #[test]
    fn each_vendor_is_read_as_it_writes() {
        let policy =
            |remaining, reset, policy| Some(Hint { remaining, reset, policy: Some(policy), ..Hint::default() });
        let table: &[Row] = &[
            (
                "IETF draft",
                &[
                    ("RateLimit-Policy", "\"burst\";q=100;w=60,\"day\";q=1000;w=86400"),
                    ("RateLimit", "\"burst\";r=50;t=30"),
                ],
                policy(50.0, 30.0, 1000.0 / 86_400.0),
            ),
            ("IETF, two items", &[("RateLimit", "\"a\";r=50;t=30, \"b\";r=3;t=60")], hint(3.0, 60.0)),
            (
                "IETF, bytes are no requests",
                &[("RateLimit", "\"b\";r=30;t=50"), ("RateLimit-Policy", "\"b\";q=1000000;w=60;qu=\"content-bytes\"")],
                None,
            ),
            (
                "IETF, nor is what may be in flight at a time",
                &[("RateLimit-Policy", "c;q=0;qu=\"concurrent-requests\""), ("RateLimit", "c;r=0;t=50")],
                None,
            ),
            (
                "IETF, requests beside bytes",
                &[
                    ("RateLimit-Policy", "\"a,b\";q=9;w=60;qu=\"content-bytes\", \"concurrent\";q=60;w=60;qu=requests"),
                    ("RateLimit", "\"a,b\";r=0;t=60"),
                    ("RateLimit", "\"concurrent\";r=30;t=20"),
                ],
                policy(30.0, 20.0, 1.0),
            ),
            (
                "IETF bytes, and an older field of requests",
                &[
                    ("RateLimit-Policy", "\"b\";q=9;w=60;qu=\"content-bytes\""),
                    ("RateLimit", "\"b\";r=3;t=60"),
                    ("X-RateLimit-Remaining", "30"),
                    ("X-RateLimit-Reset", "20"),
                ],
                hint(30.0, 20.0),
            ),
            ("older draft", &[("RateLimit", "limit=100, remaining=50, reset=30")], hint(50.0, 30.0)),
            (
                "Envoy",
                &[("x-ratelimit-limit", "3, 3;w=3600"), ("x-ratelimit-remaining", "2"), ("x-ratelimit-reset", "1800")],
                policy(2.0, 1800.0, 3.0 / 3600.0),
            ),
            (
                "GitHub",
                &[
                    ("x-ratelimit-limit", "5000"),
                    ("x-ratelimit-remaining", "4999"),
                    ("x-ratelimit-used", "1"),
                    ("x-ratelimit-reset", "1700003600"),
                    ("x-ratelimit-resource", "core"),
                ],
                hint(4999.0, 3600.0).map(|one| Hint { secondary: true, ..one }),
            ),
            (
                "X",
                &[("x-rate-limit-limit", "900"), ("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1700000900")],
                hint(0.0, 900.0),
            ),
            (
                "Reddit",
                &[("x-ratelimit-used", "4"), ("x-ratelimit-remaining", "596.0"), ("x-ratelimit-reset", "300")],
                hint(596.0, 300.0),
            ),
            (
                "Discord",
                &[
                    ("X-RateLimit-Limit", "5"),
                    ("X-RateLimit-Remaining", "1"),
                    ("X-RateLimit-Reset", "1700000001.5"),
                    ("X-RateLimit-Reset-After", "1.470"),
                    ("X-RateLimit-Bucket", "abcd"),
                ],
                hint(1.0, 1.47).map(|one| Hint { bucket: id_of("abcd"), ..one }),
            ),
            (
                "Discord, all of it",
                &[
                    ("X-RateLimit-Remaining", "0"),
                    ("X-RateLimit-Reset-After", "64.57"),
                    ("X-RateLimit-Bucket", "abcd"),
                    ("X-RateLimit-Global", "true"),
                    ("X-RateLimit-Scope", "global"),
                ],
                hint(0.0, 64.57),
            ),
            (
                "Discord, what others use, too",
                &[
                    ("X-RateLimit-Remaining", "2"),
                    ("X-RateLimit-Reset-After", "9"),
                    ("X-RateLimit-Bucket", "abcd"),
                    ("X-RateLimit-Scope", "shared"),
                ],
                hint(2.0, 9.0).map(|one| Hint { bucket: id_of("abcd"), shared: true, ..one }),
            ),
            (
                "Shopify",
                &[("X-Shopify-Shop-Api-Call-Limit", "32/40"), ("Retry-After", "2.0")],
                hint(8.0, 16.0).map(|one| Hint { asked: true, ..one }),
            ),
            (
                "milliseconds",
                &[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "1700000010000")],
                hint(7.0, 10.0),
            ),
            ("from a cache", &[("Age", "12"), ("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "10")], None),
            ("negative", &[("x-ratelimit-remaining", "-7"), ("x-ratelimit-reset", "10")], None),
            ("no number", &[("x-ratelimit-remaining", "NaN"), ("x-ratelimit-reset", "soon")], None),
            ("past", &[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "1600000000")], None),
            ("alone", &[("x-ratelimit-remaining", "7")], None),
            ("a policy alone", &[("RateLimit-Policy", "\"burst\";q=60;w=30")], policy(f64::INFINITY, 30.0, 2.0)),
            ("an older one alone", &[("X-RateLimit-Limit", "10, 10;w=1, 60;w=60")], policy(f64::INFINITY, 60.0, 1.0)),
            ("a limit without a window", &[("X-RateLimit-Limit", "5000")], None),
            (
                "a policy beside a window that is over",
                &[("RateLimit-Policy", "\"burst\";q=60;w=30"), ("RateLimit", "\"burst\";r=3;t=0")],
                policy(f64::INFINITY, 30.0, 2.0),
            ),
            ("strings in place of integers", &[("RateLimit", "\"b\";r=\"0\";t=\"60\"")], None),
            ("a name like an item", &[("RateLimit", "\"a;r=0;t=60\";r=5000;t=10")], hint(5000.0, 10.0)),
            ("a name with a comma", &[("RateLimit", "\"a, \\\"b\";r=3;t=10, \"c\";r=9;t=10")], hint(3.0, 10.0)),
            ("one item malformed", &[("RateLimit", "\"a\";r=3;t=10, \"b\";r=-1;t=10")], None),
            ("one line malformed", &[("RateLimit", "\"a\";r=3;t=10"), ("RateLimit", "\"b\";r=1;")], None),
            ("decimals", &[("RateLimit", "\"a\";r=3.5;t=10")], None),
            ("nothing left said", &[("RateLimit", "\"a\";t=10")], None),
            ("no name", &[("RateLimit", "r=3;t=10")], None),
            ("a list in a list", &[("RateLimit", "(\"a\");r=0;t=10")], None),
            ("a unit that is a number", &[("RateLimit-Policy", "\"a\";q=1;w=60;qu=1")], None),
            ("a malformed policy", &[("RateLimit-Policy", "\"a\";q=\"1\";w=60, \"b\";q=1;w=10")], None),
            (
                "malformed beside an older field",
                &[
                    ("RateLimit", "\"b\";r=\"0\";t=\"60\""),
                    ("X-RateLimit-Remaining", "30"),
                    ("X-RateLimit-Reset", "20"),
                ],
                hint(30.0, 20.0),
            ),
            ("none", &[("content-type", "text/html")], None),
        ];
        for (vendor, headers, expected) in table {
            assert_eq!(read(headers), *expected, "{vendor}");
        }
        assert_eq!(vendor_wait([("x-amz-retry-after", "1500")].into_iter()), Some(Duration::from_millis(1500)));
        assert_eq!(vendor_wait([("x-amz-retry-after", "x")].into_iter()), None);
    }

    #[test]
    fn a_pace_spreads_what_is_left_and_waits_when_nothing_is() {
        let (mut pace, now) = (Pace::default(), Mono::from_secs_f64(100.0));
        assert_eq!(pace.rate(now), f64::INFINITY);
        pace.hear(now, &Hint { remaining: 30.0, reset: 60.0, ..Hint::default() }, 4, LONGEST);
        assert!((pace.rate(now) - 25.5 / 60.0).abs() < 1e-9);
        assert_eq!(pace.rate(now.after_secs(62.0)), f64::INFINITY, "it has run out");
        pace.hear(now, &Hint { remaining: 10_000.0, reset: 10.0, policy: Some(1.0), ..Hint::default() }, 0, LONGEST);
        assert_eq!(pace.rate(now), 1.0, "never above the policy");
        pace.hear(now, &Hint { remaining: 0.0, reset: 30.0, ..Hint::default() }, 0, LONGEST);
        assert!(pace.not_before() >= now.after_secs(30.1));
    }

    #[test]
    fn a_policy_alone_lasts_its_window_and_is_read_back_after_a_restart() {
        let hint = read(&[("RateLimit-Policy", "\"burst\";q=60;w=30")]).expect("a hint");
        let (mut pace, now) = (Pace::default(), Mono::from_secs_f64(100.0));
        pace.hear(now, &hint, 3, LONGEST);
        // An infinity would be none in JSON.
        let back: Pace = serde_json::from_str(&serde_json::to_string(&pace).expect("JSON")).expect("a pace");
        assert_eq!((back, pace.rate(now)), (pace, 2.0));
        assert_eq!((pace.rate(now.after_secs(30.9)), pace.rate(now.after_secs(31.1))), (2.0, f64::INFINITY));
    }

    #[test]
    fn hints_that_prove_false_are_not_believed_for_an_hour() {
        let (mut pace, now) = (Pace::default(), Mono::from_secs_f64(1_000.0));
        for _ in 0..7 {
            assert!(pace.trusted(now));
            pace.missed(now);
        }
        assert!(!pace.trusted(now));
        pace.hear(now, &Hint { remaining: 1.5, reset: 1e6, ..Hint::default() }, 0, LONGEST);
        assert_eq!(pace.rate(now), f64::INFINITY);
        assert!(pace.trusted(now.after_secs(3_601.0)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_a_pace_that_is_no_number(
            values in prop::collection::vec("[ -~]{0,30}|[0-9]{1,14}(\\.[0-9]{1,3})?", 8), in_flight in any::<u32>(),
        ) {
            let names = ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining",
                "x-ratelimit-reset", "x-ratelimit-reset-after", "x-shopify-shop-api-call-limit", "ratelimit-reset"];
            let headers = names.iter().copied().zip(values.iter().map(String::as_str));
            if let Some(hint) = parse(headers, NOW) {
                prop_assert!(hint.remaining >= 0.0 && hint.reset > 0.0 && hint.reset.is_finite());
                let mut pace = Pace::default();
                pace.hear(Mono::ZERO, &hint, in_flight, LONGEST);
                let rate = pace.rate(Mono::ZERO);
                prop_assert!(rate >= 1.0 / LONGEST.as_secs_f64() && !rate.is_nan());
                prop_assert!(pace.not_before() <= Mono::ZERO.after(LONGEST));
            }
        }
    }
}
