//! Whoever looks at all hosts from time to time: learns what they bear, and proposes.
//!
//! A pass over all hosts takes half a minute, a slice at each turn. A host that has nothing measured costs one look and no
//! memory; one that has costs less than 512 bytes (a model's samples aside). Nothing here sends, waits or decides.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::time::Duration;

use super::experience::{SAMPLES_MIN, Visited};
use super::{Advice, Experience, Features, HourOfWeek, Model, Moment, Observed, PriorKind, Sample, Seed};
use crate::control::{Controller, HostId, Mono};

/// Each host is looked at so often.
const PASS_SECS: f64 = 30.0;
/// Looks after which an hour's visit counts.
const LOOKS_MIN: u16 = 4;
/// What was measured so long ago is a start as it is; later this hour's is better, where the clock is proven.
const FRESH_SECS: u64 = 3_600;
/// Hosts that are learned of at most; further ones are met as if nothing were remembered.
pub const HOSTS_MAX: usize = 10_000;
/// Hosts that have a model at most.
pub const MODELS_MAX: usize = 64;
/// Seconds from what a sample knows to what it foretells.
const SAMPLE_SECS: u64 = 600;
/// A sample that took longer says nothing.
const SAMPLE_LATE: u64 = 900;
/// A model is trained anew after so many samples.
const RETRAIN: usize = 6;
/// A model's trend is what it foretells so many seconds ahead against as many back.
const TREND_SECS: i64 = 1_800;

/// What a model is to be trained on.
#[derive(Clone, PartialEq, Debug)]
pub struct Training {
    /// For which host.
    pub host: HostId,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// A host as it is learned of.
struct Held {
    experience: Experience,
    visited: Visited,
    /// The visit in the making: looks, the sum of the logarithms of what was measured, what was foretold of it.
    looks: u16,
    hour: HourOfWeek,
    changed: bool,
    sum: f32,
    foretold: f32,
    /// Requests sent as of the last look, and when that was: the low bits.
    sent: u32,
    looked: u32,
    modelled: Option<Box<Modelled>>,
}

/// What a host has more where models are wanted.
#[derive(Default)]
struct Modelled {
    model: Option<Box<dyn Model>>,
    /// The sample in the making: rate and response, and since when.
    known: (f64, f64),
    known_at: Moment,
    /// Samples since the model was trained.
    fresh: usize,
    training: bool,
}

impl Held {
    fn new(experience: Experience) -> Self {
        Self {
            experience,
            visited: Visited::default(),
            looks: 0,
            hour: HourOfWeek::default(),
            changed: false,
            sum: 0.0,
            foretold: 0.0,
            sent: 0,
            looked: 0,
            modelled: None,
        }
    }

    /// What the prior expects at a moment.
    fn expects(&self, kind: PriorKind, moment: Moment, response: f64) -> Option<f64> {
        match kind {
            PriorKind::Off => None,
            PriorKind::HourOfWeek => self.experience.table.at(moment),
            PriorKind::RandomForest => {
                let features = Features::at(moment, self.experience.measured.limit, response);
                self.modelled
                    .as_ref()?
                    .model
                    .as_ref()?
                    .limit(&features)
                    .filter(|limit| limit.is_finite() && *limit > 0.0)
            }
        }
    }

    /// The factor by which the limit is expected to have moved in the last `secs` seconds.
    fn trend(&self, kind: PriorKind, moment: Moment, secs: u64, response: f64) -> f64 {
        let (back, ahead, share) = match kind {
            PriorKind::RandomForest => (TREND_SECS, TREND_SECS, secs as f64 / (2 * TREND_SECS) as f64),
            _ => (secs as i64, 0, 1.0),
        };
        let before = self.expects(kind, moment.plus(-back), response);
        let after = self.expects(kind, moment.plus(ahead), response);
        before.zip(after).map_or(1.0, |(before, after)| (after / before).powf(share))
    }

    /// The visit of an hour is over.
    fn close(&mut self) {
        if self.looks >= LOOKS_MIN {
            let limit = f64::from(self.sum / f32::from(self.looks)).exp();
            self.experience.skill.compare(limit, f64::from(self.foretold));
            self.experience.table.visit(self.hour, limit);
            self.visited.add(self.hour);
            self.changed = true;
        }
        (self.looks, self.sum) = (0, 0.0);
    }
}

/// The prior of one crawl. See the module's text.
pub struct Advisor {
    kind: PriorKind,
    hosts: BTreeMap<HostId, Box<Held>>,
    /// Hosts with samples.
    models: usize,
    wanted: VecDeque<HostId>,
    next: usize,
    turned: Mono,
    owed: f64,
}

impl std::fmt::Debug for Advisor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Advisor({}, {} hosts, {} models)", self.kind.as_str(), self.hosts.len(), self.models())
    }
}

impl Advisor {
    /// One that remembers nothing yet.
    pub fn new(kind: PriorKind) -> Self {
        let (hosts, wanted) = (BTreeMap::new(), VecDeque::new());
        Self { kind, hosts, models: 0, wanted, next: 0, turned: Mono::ZERO, owed: 0.0 }
    }

    /// Where proposals come from.
    pub fn kind(&self) -> PriorKind {
        self.kind
    }

    /// How many hosts it has learned of.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// How many have a trained model.
    pub fn models(&self) -> usize {
        let model = |held: &Held| held.modelled.as_ref().is_some_and(|modelled| modelled.model.is_some());
        self.hosts.values().filter(|held| model(held)).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// A host of which earlier runs know something. Gives it a learned start, if it was not asked anything yet.
    pub fn recall(
        &mut self,
        controller: &mut Controller,
        (now, moment): (Mono, Moment),
        host: HostId,
        experience: Experience,
        model: Option<Box<dyn Model>>,
    ) {
        if self.hosts.len() >= HOSTS_MAX || self.hosts.contains_key(&host) {
            return;
        }
        let mut held = Held::new(experience);
        if self.kind == PriorKind::RandomForest && !held.experience.samples.is_empty() {
            let fresh = if model.is_some() { 0 } else { held.experience.samples.len() };
            held.modelled = Some(Box::new(Modelled { model, fresh, ..Modelled::default() }));
            self.models += 1;
        }
        let Experience { measured, at, skill, .. } = &held.experience;
        let age = moment.since(*at);
        let response = held.experience.samples.last().map_or(0.0, |sample| sample.features().response);
        let expected = held.expects(self.kind, moment, response).filter(|_| age > FRESH_SECS && skill.is_proven());
        let limit = expected.unwrap_or(measured.limit);
        let measured = super::Measured { limit, ..*measured };
        let seed = Seed { measured, age: Duration::from_secs(age), of_the_hour: expected.is_some() };
        controller.seed(now, host, &seed);
        self.hosts.insert(host, Box::new(held));
    }

    /// Looks at the hosts whose turn it is.
    pub fn turn(&mut self, controller: &mut Controller, now: Mono, moment: Moment) {
        let hosts = controller.hosts();
        self.owed = (self.owed + now.secs_since(self.turned) / PASS_SECS * hosts as f64).min(hosts as f64);
        self.turned = now;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            self.next = if self.next + 1 < hosts { self.next + 1 } else { 0 };
            let host = HostId(u32::try_from(self.next).unwrap_or(u32::MAX));
            if let Some(observed) = controller.observed(now, host) {
                self.learn(controller, (now, moment), host, &observed);
            }
        }
    }

    /// Looks at all hosts, whoever's turn it is: the run is over.
    pub fn look_last(&mut self, controller: &mut Controller, now: Mono, moment: Moment) {
        self.owed = controller.hosts() as f64;
        self.turn(controller, now, moment);
    }

    fn learn(&mut self, controller: &mut Controller, (now, moment): (Mono, Moment), host: HostId, observed: &Observed) {
        let kind = self.kind;
        let room = self.hosts.len() < HOSTS_MAX;
        let held = match self.hosts.entry(host) {
            btree_map::Entry::Occupied(held) => held.into_mut(),
            btree_map::Entry::Vacant(_) if !room => return,
            btree_map::Entry::Vacant(place) => place.insert(Box::new(Held::new(Experience::default()))),
        };
        let (looked, sent) = (moment.0 as u32, observed.sent as u32);
        let secs = u64::from(looked.wrapping_sub(std::mem::replace(&mut held.looked, looked)));
        let is_asked = std::mem::replace(&mut held.sent, sent) != sent;
        let hour = HourOfWeek::of(moment);
        if held.looks > 0 && (held.hour != hour || secs > FRESH_SECS) {
            held.close();
        }
        if is_asked {
            held.experience.measured = observed.measured;
            held.experience.at = moment;
            held.changed = true;
            if held.looks == 0 {
                held.hour = hour;
                let middle = Moment(moment.0 - moment.0 % 3_600 + 1_800);
                held.foretold = held.expects(kind, middle, observed.response).unwrap_or_default() as f32;
            }
            held.looks = held.looks.saturating_add(1);
            held.sum += observed.measured.limit.ln() as f32;
            if kind == PriorKind::RandomForest {
                if held.modelled.is_none() && self.models < MODELS_MAX {
                    self.models += 1;
                    held.modelled = Some(Box::default());
                }
                if wants_training(held, moment, observed) {
                    self.wanted.push_back(host);
                }
            }
        }
        let expected = held.expects(kind, moment, observed.response).filter(|_| held.experience.skill.is_proven());
        if let Some(limit) = expected {
            let is_steady = is_asked && secs as f64 <= 4.0 * PASS_SECS;
            let factor = if is_steady { held.trend(kind, moment, secs, observed.response) } else { 1.0 };
            controller.advise(now, host, &Advice { limit, factor });
        }
    }

    /// A host whose model is to be trained; what comes of it is told by [`Self::trained`].
    pub fn take_training(&mut self) -> Option<Training> {
        let host = self.wanted.pop_front()?;
        let held = self.hosts.get_mut(&host)?;
        held.modelled.as_mut()?.fresh = 0;
        Some(Training { host, samples: held.experience.samples.clone() })
    }

    /// A model was trained; `None`: it could not be.
    pub fn trained(&mut self, host: HostId, model: Option<Box<dyn Model>>) {
        if let Some(modelled) = self.hosts.get_mut(&host).and_then(|held| held.modelled.as_mut()) {
            modelled.training = false;
            modelled.model = model.or(modelled.model.take());
        }
    }

    /// What has changed since the last call and is to be remembered, with the hours that were visited. `end`: the run is
    /// over, and so are the visits in the making.
    pub fn take_changed(&mut self, end: bool) -> Vec<(HostId, Experience, Visited)> {
        let mut changed = Vec::new();
        for (host, held) in &mut self.hosts {
            if end {
                held.close();
            }
            if std::mem::take(&mut held.changed) {
                changed.push((*host, held.experience.clone(), held.visited));
            }
        }
        changed
    }
}

/// Takes a sample ten minutes after the last one; whether the model is to be trained anew.
fn wants_training(held: &mut Held, moment: Moment, observed: &Observed) -> bool {
    let Held { experience, modelled: Some(modelled), .. } = held else { return false };
    let passed = moment.since(modelled.known_at);
    if passed < SAMPLE_SECS {
        return false;
    }
    if modelled.known_at != Moment::default() && passed <= SAMPLE_LATE {
        let (rate, response) = modelled.known;
        experience.sample(Sample::new(modelled.known_at, rate, response, observed.measured.limit));
        modelled.fresh += 1;
    }
    modelled.known = (observed.measured.limit, observed.response);
    modelled.known_at = moment;
    let wants = modelled.fresh >= RETRAIN && experience.samples.len() >= SAMPLES_MIN && !modelled.training;
    modelled.training |= wants;
    wants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_remembered_costs_less_than_512_bytes() {
        // Its place in the tree: key and pointer, in nodes that are half full at worst.
        let place = 2 * (size_of::<HostId>() + size_of::<Box<Held>>() + 2);
        assert!(size_of::<Held>() + place <= 512, "{} + {place} bytes", size_of::<Held>());
    }
}
