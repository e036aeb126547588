//! The simulation: clients, a network and servers, from event to event in virtual time.
//!
//! A request takes 20 ms and a little to the server, is decided there when it arrives, worked on, and
//! takes as long back. Who has not heard after 10 s gives up listening; the server works on all the same.
//! Everything that chance decides comes from the seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::client::{Client, Heard, Sending, Silence};
use super::core::CoreClient;
use super::measure::Measure;
use super::peers::{Peer, PeerClient};
use super::{Close, Fate, Random, Report, ServerModel, SimServer, Supply};
use crate::control::{Mono, Settings};

/// The least time on the wire, each way.
const WIRE_MIN: Duration = Duration::from_millis(20);
/// Spread of what comes on top.
const WIRE_SPREAD: Duration = Duration::from_millis(10);
/// When a client is asked again that could not tell when.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long a client listens.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Whose rules a crawler follows.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// The real core under these settings. The first policy stands for every host; rate, capacity and
    /// connections come from the server.
    Core(Box<Settings>),
    /// The published rules of somebody else.
    Peer(Peer),
}

impl Candidate {
    fn client(&self, hosts: &[(SimServer, Supply)], random: &mut Random) -> Box<dyn Client> {
        match self {
            Self::Core(settings) => Box::new(CoreClient::new(settings, hosts, random, Mono::ZERO, &[])),
            Self::Peer(peer) => Box::new(PeerClient::new(*peer, hosts, random)),
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The servers, all asked by every crawler, and what each crawler has queued for each.
    pub hosts: Vec<(SimServer, Supply)>,
    /// Crawlers that share the servers and know nothing of each other, >= 1.
    pub crawlers: u32,
}

/// One server of a scenario, seen from outside.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The figures, over all crawlers.
    pub report: Report,
    /// Accepted answers by crawler.
    pub shares: Vec<u64>,
    /// What happened second by second.
    pub course: super::Course,
}

/// One server, one crawler that always has work: the figures.
pub fn run(server: &SimServer, candidate: &Candidate, seed: u64) -> Report {
    let scenario = Scenario { hosts: vec![(server.clone(), Supply::Saturated)], crawlers: 1 };
    run_all(&scenario, candidate, seed).pop().map(|seen| seen.report).unwrap_or_default()
}

/// A whole scenario: what each of its servers saw. Lasts as long as the longest of them.
pub fn run_all(scenario: &Scenario, candidate: &Candidate, seed: u64) -> Vec<Seen> {
    // Streams of their own, so that a change of one draws nothing from another.
    let mut seeds = Random::new(seed);
    let servers = seeds.next_u64();
    let mut network = Random::new(seeds.next_u64());
    let mut clients: Vec<Box<dyn Client>> =
        (0..scenario.crawlers.max(1)).map(|_| candidate.client(&scenario.hosts, &mut seeds)).collect();
    let mut world = World::new(scenario, servers);
    let end = scenario.hosts.iter().map(|(server, _)| end_of(server)).max().unwrap_or_default();
    world.run(&mut clients, &mut network, (Mono::ZERO, end));
    world.places.into_iter().map(|place| place.measure.finish(place.fresh)).collect()
}

/// One crawler that asks one server again and again, in the spells `visits`, each a new process: what happened. It
/// carries what it remembers from one to the next, if it remembers anything (`prior` in its settings).
pub fn run_visits(server: &SimServer, settings: &Settings, seed: u64, visits: &[(Mono, Mono)]) -> Option<Seen> {
    let mut seeds = Random::new(seed);
    let servers = seeds.next_u64();
    let mut network = Random::new(seeds.next_u64());
    let scenario = Scenario { hosts: vec![(server.clone(), Supply::Saturated)], crawlers: 1 };
    let mut world = World::new(&scenario, servers);
    let mut memory = vec![None];
    for visit in visits {
        let client = CoreClient::new(settings, &scenario.hosts, &mut seeds, visit.0, &memory);
        let mut clients = [Box::new(client)];
        world.run(&mut clients, &mut network, *visit);
        for (index, experience) in clients.iter_mut().flat_map(|client| client.memory()) {
            if let Some(place) = memory.get_mut(index) {
                *place = Some(experience);
            }
        }
    }
    world.places.into_iter().map(|place| place.measure.finish(place.fresh)).next()
}

pub(super) fn end_of(server: &SimServer) -> Mono {
    Mono::from_secs_f64(server.hours.clamp(0.0, super::server::HOURS_MAX) * 3_600.0)
}

/// A server, and what is written down about it.
struct Place {
    model: ServerModel,
    /// The same as it was at the start: tells afterwards what was allowed when.
    fresh: ServerModel,
    measure: Measure,
    /// How many bans were counted.
    bans: u64,
}

/// A request under way.
struct Flight {
    client: usize,
    heard: Heard,
}

/// What happens next to a flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrive,
    Hear,
}

struct World {
    places: Vec<Place>,
    due: BinaryHeap<Reverse<(Mono, u64, Step, usize)>>,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Number of events so far: equal moments happen in the order in which they were foreseen.
    events: u64,
}

impl World {
    fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut seeds = Random::new(seed);
        let place = |(server, _): &(SimServer, Supply)| {
            // The same seed for each server that stands alone: servers that differ in one habit stay comparable.
            let model = server.model(seeds.next_u64());
            let measure = Measure::new(server, scenario.crawlers.max(1) as usize);
            Place { fresh: model.clone(), model, measure, bans: 0 }
        };
        let places = scenario.hosts.iter().map(place).collect();
        Self { places, due: BinaryHeap::new(), flights: Vec::new(), free: Vec::new(), events: 0 }
    }

    /// From one moment to another. What is under way at the end is never heard of.
    fn run<C: Client + ?Sized>(&mut self, clients: &mut [Box<C>], network: &mut Random, (from, end): (Mono, Mono)) {
        let mut now = from;
        self.due.clear();
        self.flights.clear();
        self.free.clear();
        // Clients whose wake has come, or who heard something.
        let mut wakes = vec![now; clients.len()];
        loop {
            for (index, client) in clients.iter_mut().enumerate() {
                if wakes[index] > now {
                    continue;
                }
                while let Some(sending) = client.next(now) {
                    self.send(now, index, sending, network);
                }
                let wake = client.next_wake();
                // A client that has nothing and yet wants to be asked again at once must not stop time.
                wakes[index] = if wake > now { wake } else { now.after(PATIENCE) };
            }
            let event = self.due.peek().map_or(Mono::NEVER, |Reverse((at, ..))| *at);
            let next = wakes.iter().copied().fold(event, Mono::min);
            if next >= end {
                return;
            }
            now = next;
            while let Some(Reverse((at, _, step, flight))) = self.due.peek().copied() {
                if at > now {
                    break;
                }
                self.due.pop();
                match step {
                    Step::Arrive => self.arrive(now, flight, network),
                    Step::Hear => {
                        let Some(flight) = self.land(flight) else { continue };
                        self.hear(now, &flight);
                        if let (Some(client), Some(wake)) =
                            (clients.get_mut(flight.client), wakes.get_mut(flight.client))
                        {
                            client.hear(now, &flight.heard);
                            *wake = now;
                        }
                    }
                }
            }
        }
    }

    fn send(&mut self, now: Mono, client: usize, sending: Sending, network: &mut Random) {
        if let Some(place) = self.places.get_mut(sending.server) {
            place.measure.sent(now);
        }
        let heard = Heard { sending, sent: now, result: Err(Silence::Timeout), headers: Vec::new() };
        let flight = Some(Flight { client, heard });
        let index = match self.free.pop() {
            Some(index) => {
                self.flights[index] = flight;
                index
            }
            None => {
                self.flights.push(flight);
                self.flights.len() - 1
            }
        };
        self.foresee(now.after(on_the_wire(network)), Step::Arrive, index);
    }

    fn arrive(&mut self, now: Mono, index: usize, network: &mut Random) {
        let Some(flight) = self.flights.get_mut(index).and_then(Option::as_mut) else { return };
        let Some(place) = self.places.get_mut(flight.heard.sending.server) else { return };
        let decided = place.model.decide(now);
        if decided.fate == Fate::Refused {
            place.measure.refused(now);
            let bans = place.model.bans();
            place.measure.banned(bans - place.bans);
            place.bans = bans;
        }
        let back = now.after(decided.latency).after(on_the_wire(network));
        let give_up = flight.heard.sent.after(CLIENT_TIMEOUT);
        let in_time = decided.close != Close::Silent && back <= give_up;
        if in_time {
            flight.heard.result = if decided.close == Close::No { Ok(decided.status) } else { Err(Silence::Reset) };
            flight.heard.headers = decided.headers;
        }
        self.foresee(if in_time { back } else { give_up.max(now) }, Step::Hear, index);
    }

    fn hear(&mut self, now: Mono, flight: &Flight) {
        let Some(place) = self.places.get_mut(flight.heard.sending.server) else { return };
        if flight.heard.result.is_ok_and(|status| (200..300).contains(&status)) {
            place.measure.accepted(now, flight.client, now.since(flight.heard.sent));
        }
    }

    fn land(&mut self, index: usize) -> Option<Flight> {
        let flight = self.flights.get_mut(index)?.take();
        self.free.push(index);
        flight
    }

    fn foresee(&mut self, at: Mono, step: Step, flight: usize) {
        self.events += 1;
        self.due.push(Reverse((at, self.events, step, flight)));
    }
}

/// One way over the network: never shorter than the wire, longer by a chance that has no upper end.
fn on_the_wire(random: &mut Random) -> Duration {
    WIRE_MIN + WIRE_SPREAD.mul_f64(random.normal().abs())
}
