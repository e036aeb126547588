//! Two runs beside each other: totals, and hosts that fared differently.

use std::collections::HashMap;

use super::model::errors;
use crate::journal::summary::HostSummary;
use crate::journal::timeline::Timeline;
use crate::text::Clean;

/// Hosts that are told at most; the most different ones.
pub(super) const DIFFERENCES_MAX: usize = 1_000;

/// One run's figures of a host.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// Wire requests.
    pub requests: u64,
    /// Throttled or refused.
    pub refusals: u64,
    /// Of the server and of the network.
    pub errors: u64,
    /// Seconds.
    pub held: f64,
    /// The last rate known.
    pub last_rate: Option<f64>,
}

/// A host in both runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// Its name.
    pub host: Clean,
    /// In this run, if it was there.
    pub this: Option<Figures>,
    /// In the other.
    pub other: Option<Figures>,
}

impl Difference {
    /// How much worse or better: seconds held, and a second for every refusal and error.
    fn weight(&self) -> f64 {
        let cost =
            |figures: Option<Figures>| figures.map_or(0.0, |one| one.held + one.refusals as f64 + one.errors as f64);
        (cost(self.this) - cost(self.other)).abs()
    }
}

fn figures(timeline: &Timeline, host: &HostSummary) -> Figures {
    Figures {
        requests: host.requests,
        refusals: host.refusals,
        errors: errors(host),
        held: host.held_until(timeline.end()),
        last_rate: host.rate_so_far(),
    }
}

/// The hosts whose figures differ, the most first; at most [`DIFFERENCES_MAX`].
pub(super) fn differences(this: &Timeline, other: &Timeline) -> Vec<Difference> {
    let theirs: HashMap<&Clean, Figures> =
        other.hosts().iter().map(|host| (&host.host, figures(other, host))).collect();
    let ours: HashMap<&Clean, Figures> = this.hosts().iter().map(|host| (&host.host, figures(this, host))).collect();
    let in_this = ours.iter().map(|(host, figures)| Difference {
        host: (*host).clone(),
        this: Some(*figures),
        other: theirs.get(*host).copied(),
    });
    let only_there = theirs.iter().filter(|(host, _)| !ours.contains_key(*host));
    let only_there =
        only_there.map(|(host, figures)| Difference { host: (*host).clone(), this: None, other: Some(*figures) });
    let mut all: Vec<Difference> = in_this.chain(only_there).filter(|one| one.this != one.other).collect();
    all.sort_by(|one, other| other.weight().total_cmp(&one.weight()).then_with(|| one.host.cmp(&other.host)));
    all.truncate(DIFFERENCES_MAX);
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::Wall;
    use crate::control::Outcome;
    use crate::journal::timeline::Ended;

    fn run(hosts: &[(&str, u64, u64)]) -> Timeline {
        let mut timeline = Timeline::new(Path::new("run"), None);
        for (name, good, bad) in hosts {
            let host = timeline.host_number(&Clean::new(*name));
            for number in 0..good + bad {
                let (status, outcome) = if number < *good { (200, Outcome::Ok) } else { (429, Outcome::Throttled) };
                let (latency_ms, rate) = (5.0, 1.0);
                let ended = Ended { time: Wall(0), status: Some(status), outcome: Some(outcome), latency_ms, rate };
                timeline.request(host, ended);
            }
        }
        timeline
    }

    #[test]
    fn hosts_that_fared_alike_are_left_out_and_the_most_different_stand_first() {
        let this = run(&[("same.test", 5, 1), ("worse.test", 5, 9), ("only-here.test", 2, 0)]);
        let other = run(&[("same.test", 5, 1), ("worse.test", 5, 0), ("only-there.test", 0, 3)]);
        let found = differences(&this, &other);
        let names: Vec<&str> = found.iter().map(|one| one.host.as_str()).collect();
        assert_eq!(names, ["worse.test", "only-there.test", "only-here.test"]);
        assert_eq!(found[1].this, None);
    }
}
