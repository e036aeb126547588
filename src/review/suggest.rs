//! `crawldeck review --suggest`: rate and capacity of each host that met a limit, as `[[host]]` entries.
//!
//! A limit shows between two moments at which the server's bucket is empty: from the first answer after a refusal to the
//! first answer after the next one, accepted ÷ elapsed. A server bears no more than its limit in
//! such a stretch, and often less is asked of it: the upper quartile of the stretches, by their time, is what was sustained.
//! Where there was less to ask than the host would have borne nearly all the time, it is too low: that errs on the safe side.
//!
//! Memory: some bytes a host, and for each that refused a counter for each rate that it bore, at steps of 2 %.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::clock::Wall;
use crate::config::{Config, HOSTS_MAX};
use crate::control::Outcome;
use crate::control::command::{CAPACITY_RANGE, RATE_RANGE};
use crate::journal::reader::{ReadError, RequestReader, RequestRecord};
use crate::text::Clean;

/// What is taken of what was sustained, and how many seconds of it the bucket holds.
const SHARE: f64 = 0.8;
const SECONDS: f64 = 2.0;
/// The share of the time in which no more was borne than what counts as sustained.
const QUARTILE: f64 = 0.75;
/// A stretch goes on over further refusals until it has so many answers: a wait of two tokens more or less at its ends is
/// less than a thirtieth of them then. Of a run that has no such stretch the longest counts, from so many answers on.
const ANSWERS_ENOUGH: u64 = 64;
const ANSWERS_MIN: u64 = 8;
const SECS_MIN: f64 = 2.0;
/// How far apart rates are that are counted apart.
const STEP: f64 = 1.02;

/// What one host did.
#[derive(Default)]
struct Host {
    requests: u64,
    refusals: u64,
    /// The first answer after the last refusal, and answers since.
    mark: Option<Wall>,
    answers: u64,
    refused: bool,
    /// Seconds for which each rate was borne.
    borne: BTreeMap<i32, f64>,
    /// Answers and seconds of the stretch that has not enough of them yet.
    short: Option<(u64, f64)>,
}

impl Host {
    fn take(&mut self, record: &RequestRecord) {
        self.requests += 1;
        match record.outcome.known() {
            Some(Outcome::Throttled) => {
                self.refusals += 1;
                self.refused = true;
            }
            _ if record.status.is_none() => {}
            _ => {
                if std::mem::take(&mut self.refused) {
                    self.close(record.time);
                }
                self.answers += 1;
            }
        }
    }

    /// A refusal is over at `now`: a stretch ends and another begins, if it has enough answers.
    fn close(&mut self, now: Wall) {
        let Some(before) = self.mark else {
            (self.mark, self.answers) = (Some(now), 0);
            return;
        };
        let secs = now.0.saturating_sub(before.0) as f64 / 1e6;
        if secs <= SECS_MIN || self.answers < ANSWERS_MIN {
            return;
        }
        if self.answers < ANSWERS_ENOUGH {
            self.short = Some((self.answers, secs));
            return;
        }
        *self.borne.entry(step_of(self.answers as f64 / secs)).or_default() += secs;
        (self.mark, self.answers) = (Some(now), 0);
    }

    /// What it sustained, requests per second.
    fn sustained(&self) -> Option<f64> {
        if self.borne.is_empty() {
            return self.short.map(|(answers, secs)| answers as f64 / secs);
        }
        let below = self.borne.values().sum::<f64>() * QUARTILE;
        let mut sum = 0.0;
        let quartile = self.borne.iter().find(|(_, secs)| {
            sum += **secs;
            sum >= below
        });
        quartile.map(|(step, _)| STEP.powi(*step))
    }
}

fn step_of(rate: f64) -> i32 {
    (rate.ln() / STEP.ln()).round() as i32
}

/// The entries for the run in `dir`.
pub(super) fn suggest(dir: &Path) -> Result<String, ReadError> {
    let mut hosts: BTreeMap<Clean, Host> = BTreeMap::new();
    for record in &mut RequestReader::open(dir)? {
        let record = record?;
        match hosts.get_mut(&record.host) {
            Some(host) => host.take(&record),
            None => hosts.entry(record.host.clone()).or_default().take(&record),
        }
    }
    Ok(written(&hosts, dir))
}

fn written(hosts: &BTreeMap<Clean, Host>, dir: &Path) -> String {
    let mut text = format!(
        "# From the journal in {}. A rule of thumb to compare with, not what the controller would do: the rate is\n\
         # {:.0} % of the limit that a host sustained from refusal to refusal, the capacity twice the rate.\n",
        Clean::new(dir.to_string_lossy()),
        SHARE * 100.0
    );
    let (mut entries, mut free) = (0, 0_u64);
    for (name, host) in hosts {
        if host.refusals == 0 {
            free += 1;
            continue;
        }
        let told = format!("{} refusals among {} requests", host.refusals, host.requests);
        let entry = host.sustained().map(|limit| entry(name, limit, &told)).filter(|entry| is_accepted(name, entry));
        match entry {
            Some(entry) if entries < HOSTS_MAX => {
                entries += 1;
                text.push_str(&entry);
            }
            Some(_) => writeln!(text, "\n# {name}: {told}; a configuration has no room for more entries").unwrap_or(()),
            None => writeln!(text, "\n# {name}: {told}; too few answers between two refusals to tell").unwrap_or(()),
        }
    }
    if free > 0 {
        let plural = if free == 1 { "host" } else { "hosts" };
        writeln!(text, "\n# {free} {plural} refused nothing: no limit is known").unwrap_or(());
    }
    text
}

fn entry(name: &Clean, limit: f64, told: &str) -> String {
    let rate = (SHARE * limit).clamp(*RATE_RANGE.start(), *RATE_RANGE.end());
    let capacity = (SECONDS * rate).clamp(*CAPACITY_RANGE.start(), *CAPACITY_RANGE.end());
    let name = toml::Value::String(name.as_str().to_owned());
    format!(
        "\n[[host]]\nmatch = {name}\nrate = {:?}  # sustained {limit:.3}/s: {told}\ncapacity = {:?}\n",
        rounded(rate),
        rounded(capacity).max(1.0)
    )
}

/// Whether `crawldeck check` takes it, for this host alone: what stands in a journal may be no host, or a glob.
fn is_accepted(name: &Clean, entry: &str) -> bool {
    let one = |config: Config| config.hosts.iter().any(|rule| rule.pattern_text == name.as_str());
    !name.as_str().contains(['*', '?', '{']) && Config::parse(entry, "suggested").is_ok_and(one)
}

/// To three digits.
fn rounded(value: f64) -> f64 {
    let digits = 2 - value.abs().max(1e-9).log10().floor() as i32;
    let scale = 10.0_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::RequestKind;
    use crate::journal::reader::Word;

    fn record(host: &str, secs: f64, status: u16) -> RequestRecord {
        let outcome = if status == 429 { Outcome::Throttled } else { Outcome::Ok };
        RequestRecord {
            time: Wall((secs * 1e6) as i64),
            host: Clean::new(host),
            url: Clean::new("http://x/"),
            kind: Word::Known(RequestKind::Page),
            attempt: 1,
            status: Some(status),
            outcome: Word::Known(outcome),
            bytes: 0,
            latency_ms: 1.0,
            wait_ms: 0.0,
            rate: 1.0,
            capacity: 1.0,
            tokens: 0.0,
        }
    }

    /// `rounds` rounds of so many answers a second for `secs` seconds, each ended by a refusal.
    fn play(host: &mut Host, name: &str, rate: f64, secs: f64, rounds: usize) {
        let mut now = 0.0;
        for _ in 0..rounds {
            for _ in 0..(rate * secs) as usize {
                host.take(&record(name, now, 200));
                now += 1.0 / rate;
            }
            host.take(&record(name, now, 429));
        }
        host.take(&record(name, now, 200));
    }

    #[test]
    fn eighty_per_cent_of_what_was_sustained_and_twice_that() {
        let mut host = Host::default();
        play(&mut host, "a.test", 5.0, 60.0, 6);
        let text = written(&BTreeMap::from([(Clean::new("a.test"), host)]), Path::new("crawl"));
        let config = Config::parse(&text, "c.toml").expect("accepted");
        let original = config.settings.policies[1].original;
        assert!((original.rate - 4.0).abs() < 0.1 && (original.capacity - 8.0).abs() < 0.2, "{original:?}");
        assert!(text.contains("rule of thumb") && text.contains("6 refusals among 1807 requests"), "{text}");
    }

    /// What the real controller makes of a server with a bucket, from a cold start, in virtual time: its rows.
    fn crawled(rate: f64, burst: f64, secs: f64, seed: u64) -> Host {
        use crate::control::backoff::SeededJitter;
        use crate::control::host::LaneQueue;
        use crate::control::{
            Answer, Controller, ControllerKind, HostId, Lane, Mono, Original, Policy, PolicyId, Settings, Verdict,
        };
        use crate::sim::{Limit, ServerModel, ServerSpec};
        let original = Original { rate: 8.0 * rate, capacity: (8.0 * rate).max(4.0) };
        let policy = Policy { original, kind: ControllerKind::Adaptive, connections: 8, ..Policy::default() };
        let settings = Settings { policies: vec![policy], ..Settings::default() };
        let mut controller = Controller::new(settings, Box::new(SeededJitter::new(seed)));
        let id = controller.add_host(PolicyId(0));
        let limit = Limit::Bucket { rate, burst };
        let mut server = ServerModel::new(ServerSpec { limit, ..ServerSpec::default() }, seed);
        let (mut host, mut now, mut flying) = (Host::default(), Mono::ZERO, std::collections::VecDeque::new());
        let queue = LaneQueue { ready: 1_000_000, ..LaneQueue::EMPTY };
        controller.set_queue(now, id, Lane(0), queue);
        while now < Mono::from_secs_f64(secs) {
            while let Some(grant) = controller.next(now) {
                let decided = server.decide(now);
                flying.push_back((now.after_secs(0.1), grant.at, decided.status));
            }
            let answer = flying.front().map_or(Mono::NEVER, |(at, ..)| *at);
            now = answer.min(controller.next_wake()).max(now.after_secs(0.001));
            while let Some((_, sent, status)) = flying.pop_front_if(|(at, ..)| *at <= now) {
                let verdict = Verdict::Status(status);
                let latency = std::time::Duration::from_millis(100);
                let kind = RequestKind::Page;
                let (lane, retry_after) = (Lane(0), None);
                let answer =
                    Answer { host: HostId(0), lane, kind, sent, verdict, retry_after, latency, unprocessed: false };
                controller.answer(now, &answer);
                controller.set_queue(now, id, Lane(0), queue);
                host.take(&record("a.test", sent.as_secs_f64(), status));
            }
        }
        host
    }

    #[test]
    fn what_the_controller_met_comes_out_within_a_twentieth_and_never_higher() {
        let mut low = Vec::new();
        for limit in [0.5, 2.0, 5.0, 20.0] {
            for (burst, minutes) in
                [(5.0, 1.0), (5.0, 2.0), (4.0, 10.0), (4.0, 60.0), (10.0, 10.0), (10.0, 60.0), (40.0, 60.0)]
            {
                let host = crawled(limit, burst, minutes * 60.0, 1);
                let Some(told) = host.sustained().map(|told| told / limit) else { continue };
                assert!(told <= 1.05, "{limit}/s, burst {burst}, {minutes} min: {told}");
                if told < 0.95 {
                    low.push((limit, burst, minutes, told, host.refusals));
                }
            }
        }
        // Where a burst is small, `adaptive` stays below the limit for long, and nobody can tell what it would have borne.
        assert!(low.iter().all(|(_, burst, _, told, _)| *burst <= 5.0 && *told > 0.7), "{low:?}");
        assert!(low.len() <= 10, "{} of 28: {low:?}", low.len());
    }

    #[test]
    fn what_is_no_host_and_what_tells_nothing_becomes_a_comment() {
        let mut hosts = BTreeMap::new();
        for name in ["a b\"]\nrate = 9", "[::1]:81", "b.test:8080", "*"] {
            let mut host = Host::default();
            play(&mut host, name, 2.0, 30.0, 4);
            hosts.insert(Clean::new(name), host);
        }
        let mut few = Host::default();
        play(&mut few, "few.test", 1.0, 3.0, 2);
        let mut free = Host::default();
        free.take(&record("free.test", 0.0, 200));
        hosts.extend([(Clean::new("few.test"), few), (Clean::new("free.test"), free)]);
        let text = written(&hosts, Path::new("crawl\u{1b}[31m"));
        let config = Config::parse(&text, "c.toml").expect("accepted");
        let patterns: Vec<&str> = config.hosts.iter().map(|rule| rule.pattern_text.as_str()).collect();
        assert_eq!(patterns, ["[::1]:81", "b.test:8080"]);
        assert!(text.contains("# few.test: 2 refusals among 9 requests; too few answers"), "{text}");
        assert!(text.contains("# 1 host refused nothing") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn rates_are_told_in_three_digits() {
        assert_eq!([1.6049, 0.012_345, 123.456, 0.8].map(rounded), [1.6, 0.0123, 123.0, 0.8]);
    }
}
