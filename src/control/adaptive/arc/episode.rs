//! A refusal, the wait after it, and what the request that ends the wait has taught.

use serde::{Deserialize, Serialize};

use super::learned::Origin;
use super::measure::Taken;
use super::recall::IDLE_SECS;
use super::{Arc, Observation, Phase, SLOW_ANSWERS, SLOW_SECS, Signal, WANDER_SECS};
use crate::control::Mono;

/// Answers on which an estimate has to rest so that a failed probe cannot lower it.
pub(super) const ENOUGH: f64 = 30.0;

/// The share of the rate at which the first refusal came that is believed at first.
pub(super) const FIRST_SHARE: f64 = 0.6;

/// A learned start is confirmed by a probe that was refused below so many times its rate.
const CONFIRMED: f64 = 2.0;

/// An estimate that moved by so much, as a share, has jumped: that says nothing of how fast it moves.
const JUMP: f64 = 0.4;

/// No refusal that does not say how long is waited out for longer at once, seconds …
const PAUSE_MAX: f64 = 300.0;
/// … and each for so long, once the refusals of ten minutes are so many times the budget.
const OVERDRAWN: f64 = 2.0;

/// Where refusals cost long blocks, it goes back to this share of what it had crept up to …
const BACK: f64 = 0.975;
/// … or this, if the limit has not moved for so many seconds.
const BACK_STEADY: f64 = 0.985;
const STEADY_SECS: f64 = 1_800.0;

/// Tokens in a server's bucket up to which it counts as small: what is left over there is lost unseen.
const SMALL: f64 = 3.0;

/// From the first refusal to the first answer after it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Episode {
    pub(super) phase: Phase,
    since: Mono,
    /// When the phase had begun in which it was met.
    began: Mono,
    /// Rate at which it was met.
    hit: f64,
    /// Tokens used beyond the estimate by then.
    surplus: f32,
    pause: f64,
    first_pause: f64,
    fails: u8,
    creeping: bool,
    /// The first request after the wait, until it is answered; zero = none is out.
    canary: Mono,
    /// The last request before the refusal.
    #[serde(default)]
    stopped: Mono,
    /// Sent since, less those refused.
    #[serde(default)]
    sent: f64,
}

impl Episode {
    /// A request goes out after the wait.
    pub(super) fn on_send(&mut self, now: Mono) {
        if self.canary == Mono::ZERO {
            self.canary = now;
        }
        self.sent += 1.0;
    }

    /// Seconds for which the first request after the wait, which goes out now, was kept back by something else than the
    /// wait: no work, a pause. 0 = so few that it does not matter.
    pub(super) fn late(&self, now: Mono, cut: Option<Mono>, held_until: Mono) -> f64 {
        if self.canary != Mono::ZERO {
            return 0.0;
        }
        let due = cut.unwrap_or_default().after_secs(self.pause).max(held_until);
        let late = now.secs_since(due);
        if late >= IDLE_SECS { late } else { 0.0 }
    }

    /// Rate at which it was met; 0 = it was a ban.
    pub(super) fn hit(&self) -> f64 {
        self.hit
    }

    /// The rate until something sent after the refusal is answered.
    pub(super) fn meanwhile(&self, limit: Option<f64>) -> f64 {
        match limit {
            Some(limit) => limit.min(0.8 * self.hit),
            None => 0.5 * self.hit,
        }
    }
}

impl Arc {
    /// How long to wait after a refusal of a request sent at `sent` that did not say how long.
    pub(super) fn pause_secs(&self, sent: Mono) -> f64 {
        match &self.learned.episode {
            Some(episode) if episode.canary != Mono::ZERO && sent > episode.canary => episode.pause,
            Some(episode) if self.learned.cut.is_none_or(|cut| sent > cut) => {
                // Refusals are dearer than the seconds that are still few.
                let doubled = (episode.pause * if episode.pause < 4.0 { 4.0 } else { 2.0 }).min(PAUSE_MAX);
                // What is spent so far beyond the budget is not spent on asking whether the block is over.
                let overdrawn = f64::from(self.refused) >= OVERDRAWN * self.allowed();
                let doubled = if overdrawn { PAUSE_MAX } else { doubled };
                // Where blocks were long before, this one will be, too.
                let usual = if self.learned.costly > 0 {
                    0.8 * self.learned.block_secs - sent.secs_since(episode.since)
                } else {
                    0.0
                };
                doubled.max(usual).min(PAUSE_MAX)
            }
            Some(episode) => episode.pause,
            None => {
                let slack = if self.learned.burst > 0.0 { (0.8 * self.learned.burst).clamp(1.3, 3.0) } else { 1.5 };
                let limit = if self.known { self.limit } else { 0.6 * self.hit_rate(sent) };
                (slack / limit).clamp(0.25, PAUSE_MAX)
            }
        }
    }

    fn hit_rate(&self, now: Mono) -> f64 {
        let planned = self.bounded(now);
        match self.measure.pace() {
            pace if pace > 0.0 => pace.min(planned).max(0.1 * planned),
            _ => planned,
        }
    }

    pub(super) fn on_throttle(&mut self, now: Mono, observation: &Observation) {
        let news = self.learned.cut.is_none_or(|cut| observation.sent > cut);
        self.count_refused(observation.sent, news);
        if !news {
            return;
        }
        let took = if observation.latency.is_finite() { observation.latency.clamp(0.0, 60.0) as f32 } else { 1.0 };
        self.learned.no_secs =
            if self.learned.no_secs > 0.0 { self.learned.no_secs + (took - self.learned.no_secs) / 8.0 } else { took };
        let pause = self.pause_secs(observation.sent);
        match &mut self.learned.episode {
            // One that followed a probe which is still out says nothing of that one.
            Some(episode) if episode.canary != Mono::ZERO && observation.sent > episode.canary => {}
            Some(episode) => {
                episode.fails = episode.fails.saturating_add(1);
                episode.pause = pause;
                episode.canary = Mono::ZERO;
            }
            None => {
                let hit = self.hit_rate(now);
                self.learned.episode = Some(Episode {
                    phase: self.phase,
                    since: observation.sent,
                    began: self.since,
                    hit,
                    surplus: self.measure.level() as f32,
                    pause,
                    first_pause: pause,
                    fails: 0,
                    creeping: self.learned.costly > 0 && self.learned.creep > 0,
                    canary: Mono::ZERO,
                    stopped: self.measure.last_sent(),
                    sent: 0.0,
                });
            }
        }
        self.learned.cut = Some(now);
    }

    /// A refused request took no token. `news`: it was sent since the controller reacted last.
    fn count_refused(&mut self, sent: Mono, news: bool) {
        self.measure.on_refused(sent);
        if news && let Some(episode) = &mut self.learned.episode {
            episode.sent = (episode.sent - 1.0).max(0.0);
        }
    }

    /// 403 that count as a refusal: the host bans. What it bore before was too much.
    pub(super) fn on_refused(&mut self, now: Mono, observation: &Observation) {
        let news = self.learned.cut.is_none_or(|cut| observation.sent > cut);
        self.count_refused(observation.sent, news);
        if !news {
            return;
        }
        self.learned.cut = Some(now);
        if self.learned.episode.as_ref().is_some_and(|episode| episode.phase == Phase::Recover && episode.hit == 0.0) {
            return;
        }
        let least = (self.refused / 2).max(1);
        self.learned.banned = if self.learned.banned == 0 { least } else { self.learned.banned.min(least) };
        self.learned.hit = self.limit.min(self.bounded(now));
        self.move_limit(now, self.learned.hit / 2.0);
        self.known = true;
        self.learned.surge.origin = Origin::Ban;
        self.learned.episode = Some(Episode {
            phase: Phase::Recover,
            since: observation.sent,
            began: self.since,
            hit: 0.0,
            surplus: 0.0,
            pause: 1.0,
            first_pause: 300.0,
            fails: 0,
            creeping: false,
            canary: Mono::ZERO,
            stopped: self.measure.last_sent(),
            sent: 0.0,
        });
    }

    /// Any answer that is no refusal.
    pub(super) fn on_accepted(&mut self, now: Mono, observation: &Observation) {
        let sent = observation.sent;
        let canary = self.learned.episode.as_ref().is_some_and(|episode| episode.canary == sent && sent != Mono::ZERO);
        let after_cut = canary || self.learned.cut.is_none_or(|cut| observation.sent > cut);
        // Taken only where there is one: what is not written takes no memory.
        if after_cut
            && self.learned.episode.is_some()
            && let Some(episode) = self.learned.episode.take()
        {
            let taken = self.measure.close(sent, episode.stopped, episode.sent);
            self.learn(now, observation.sent, &episode, &taken);
            return;
        }
        if observation.sent >= self.since && self.learned.episode.is_none() && observation.signal == Signal::Success {
            let answered = self.measure.on_answered();
            let elapsed = now.secs_since(self.since);
            if self.phase == Phase::Slow && answered >= SLOW_ANSWERS && elapsed >= SLOW_SECS {
                self.step *= 2.0;
                self.enter(now, Phase::Slow);
                if self.step >= self.original.rate {
                    self.enter(now, Phase::Ceiling);
                }
            }
        }
    }

    fn learn(&mut self, now: Mono, sent: Mono, episode: &Episode, taken: &Taken) {
        if episode.hit <= 0.0 {
            // After a ban.
            self.enter(now, Phase::Recover);
            return;
        }
        let blocked = sent.secs_since(episode.since);
        // Longer than our own wait, and longer than a bucket needs: the block is the server's.
        let slow = taken.rate(blocked, None, 0.0).min(self.limit).max(1e-9);
        // A lockout lasts as long each time; what is left of a window does not.
        let same = self.learned.block_secs > 0.0
            && (blocked / self.learned.block_secs - 1.0).abs() < 0.04
            && blocked > (3.0 + 1.3 * episode.first_pause).max(3.0 / slow);
        let long = blocked > (3.0 + 3.0 * episode.first_pause).max(8.0 / slow) || same;
        if self.learned.costly == 0 {
            self.learned.block_secs = blocked;
        } else if !long {
            self.learned.block_secs += 0.25 * (blocked - self.learned.block_secs);
        }
        if long {
            self.learned.lockout = same;
            self.learned.block_secs = if same { blocked } else { blocked.max(0.8 * self.learned.block_secs) };
            self.learned.costly = 5;
        } else if episode.hit > 1.2 * self.limit {
            // Only a hit well above the limit can tell that refusals are cheap here.
            self.learned.costly = self.learned.costly.saturating_sub(1);
        }
        self.learned.creep = 0;
        let hit = episode.hit;
        // The check of a learned start moves the estimate: that is no drift of the limit.
        let checks = self.is_unchecked();
        let estimate =
            taken.rate(blocked, self.learned.lockout.then_some(self.limit), self.learned.burst) * self.straighten();
        let good = taken.good();
        let before = self.limit;
        self.learned.hit = hit;
        let head = self.limit * blocked;
        let spent = f64::from(self.refused) >= self.soft(now);
        let mut climb_from = None;
        let (knew, mut origin) = (self.known, Origin::Guess);
        if !self.known {
            self.known = true;
            self.learned.moved_at = now;
            self.learned.best = 0.0;
            self.learned.samples = 4.0;
            let least = estimate.max(1e-9);
            let within = least * (taken.open_rate() / least).max(1.0).powf(0.25);
            let limit = if long { within.clamp(0.05 * hit, hit) } else { FIRST_SHARE * hit };
            self.move_limit(now, limit);
            if !long {
                climb_from = Some(self.limit);
            }
        } else {
            match episode.phase {
                // The check of a learned start met the limit about where it was: what its bucket held in the beginning is
                // too uncertain to measure by, so that the next one does.
                Phase::Probe if checks && hit < CONFIRMED * before => {
                    let remembered = (before / self.start_share()).min(hit).max(before);
                    self.settle(now, remembered, self.learned.samples);
                    // It is what it was: what comes next is compared with that.
                    self.learned.moved_from = self.limit;
                    origin = self.learned.surge.origin;
                }
                Phase::Probe | Phase::Ceiling => climb_from = self.learn_probe(now, episode, estimate, taken),
                Phase::Climb | Phase::Slow => climb_from = self.learn_climb(now, episode, estimate, taken),
                Phase::Cruise | Phase::Recover if episode.creeping => {
                    // It crept up to here: a little less was borne for long, unless the limit has fallen.
                    let fallen = taken.good() && !self.learned.lockout && long;
                    let steady = now.secs_since(self.learned.moved_at) > STEADY_SECS;
                    let back = if steady { BACK_STEADY } else { BACK };
                    let limit = if fallen { estimate.max(0.6 * before) } else { back * before };
                    let least = if self.risen() || !self.learned.proven { 0.99 * self.step } else { limit };
                    self.settle(now, limit.min(least).min(0.99 * before), taken.accepted);
                }
                Phase::Track => self.learn_track(now, episode, estimate, taken),
                Phase::Cruise | Phase::Recover => self.learn_cruise(now, estimate, taken),
            }
        }
        self.learned.met = if self.learned.costly > 0 { before as f32 } else { 0.0 };
        self.learned.proven =
            (episode.creeping && hit < 1.15 * self.limit) || (self.learned.proven && hit < 1.5 * self.limit);
        if good {
            self.learned.valid = true;
        }
        if good && !checks {
            origin = Origin::Measured;
            let last = f64::from(self.learned.basis.0) / f64::from(self.learned.basis.1).max(1e-3);
            self.learned.basis = (taken.accepted as f32, taken.elapsed as f32);
            let moved = (self.limit / before - 1.0).abs();
            if moved < JUMP {
                let drift = (moved - 1.5 / taken.accepted.max(1.0)).max(0.0) / taken.elapsed.max(1.0);
                self.learned.drift += 0.3 * (drift - self.learned.drift);
            }
            if last > 0.0 {
                let change = (taken.accepted / taken.elapsed / last).ln();
                let beyond = (change.abs() - 2.0 / taken.accepted.max(1.0)).clamp(0.0, 0.4) as f32;
                let (up, down) = if change > 0.0 { (beyond, 0.0) } else { (0.0, beyond) };
                let kept = (-taken.elapsed / WANDER_SECS).exp() as f32;
                self.learned.rises = self.learned.rises * kept + up;
                self.learned.falls = self.learned.falls * kept + down;
            }
        }
        if origin != Origin::Guess || self.limit != before || !knew {
            self.learned.surge.origin = origin;
        }
        self.learned.head = if self.learned.burst > 0.0 { head.min(self.learned.burst) } else { head.min(10.0) };
        match climb_from {
            _ if self.learned.valid && self.wanders() && !self.learned.lockout => {
                self.learned.climbs = 0;
                self.step = self.limit * (1.0 - self.track_depth());
                self.enter(now, Phase::Track);
            }
            Some(from) if !spent && self.learned.costly == 0 => {
                self.step = from.max(self.floor).min(self.original.rate);
                self.learned.climbs = self.learned.climbs.saturating_add(1);
                self.enter(now, Phase::Climb);
            }
            _ => {
                self.learned.climbs = 0;
                self.enter(now, if episode.fails > 0 { Phase::Recover } else { Phase::Cruise });
            }
        }
    }

    /// A probe was refused: that never lowers an estimate that rests on enough answers.
    fn learn_probe(&mut self, now: Mono, episode: &Episode, estimate: f64, taken: &Taken) -> Option<f64> {
        let (before, hit) = (self.limit, episode.hit);
        self.learned.margin *= 0.5;
        self.learned.poor = 0;
        if !taken.good() {
            return Some((before * hit).sqrt().max(1.05 * before));
        }
        let surplus = f64::from(episode.surplus);
        // What the server's bucket can have held when the probe passed the limit: what came in while we waited before
        // the mark and what was saved since (both uncertain as the estimate is), as far as it has room for that.
        let held = self.learned.head + self.learned.saved;
        let slop = (0.003 * before * taken.open).min(2.0);
        let room = if self.learned.burst > 0.0 { self.learned.burst } else { f64::INFINITY };
        let expected = room.min(held + slop);
        if surplus > 1.1 * expected + 1.0 {
            // More than it could give: the limit is higher now, or the bucket larger than was known.
            let secs = episode.since.secs_since(episode.began).max(1.0 / before);
            let more = (surplus - expected) / secs;
            if more < 0.04 * before && self.learned.samples >= ENOUGH {
                self.settle(now, (before + 0.7 * more).max(estimate), self.learned.samples.max(taken.accepted));
                return None;
            }
            // From an empty bucket the climb will tell.
            self.settle(now, estimate.max(before), self.learned.samples.max(taken.accepted));
            self.learned.verifying = surplus as f32;
            // Far above, the probe has not been refused for long: the limit is not far below where it ended.
            if surplus > 6.0 * expected.max(3.0) {
                return Some((0.6 * hit).max(1.02 * self.limit));
            }
            return Some((before + more).max(1.05 * before).min((self.limit * hit).sqrt()).max(1.02 * self.limit));
        }
        if held - slop > surplus + 1.0 {
            // It ran over: this is what it holds.
            let full = surplus + 0.5;
            self.learned.burst =
                if self.learned.burst > 0.0 { self.learned.burst + 0.3 * (full - self.learned.burst) } else { full }
                    .max(1.0);
        }
        let small = self.learned.burst > 0.0 && self.learned.burst < SMALL && hit < 1.3 * before;
        if self.learned.samples >= ENOUGH && (small || surplus + 0.5 >= room.min(held)) {
            // What a cruise leaves may run over unseen where a bucket is small: part of the way to where it was met.
            let part = if small { 0.25 * (hit - before).max(0.0) } else { 0.4 * self.error() * before };
            let samples = self.learned.samples.max(taken.accepted);
            self.settle(now, estimate.max(before + part), samples);
            return None;
        }
        if self.learned.samples < ENOUGH {
            // The first estimates are rough, and this one is better.
            self.settle(now, estimate.clamp(0.8 * before, hit.max(before)), taken.accepted);
        } else {
            self.settle(now, estimate.max(before), self.learned.samples.max(taken.accepted));
        }
        None
    }

    /// Met on its way up past the estimate, as it is to be.
    fn learn_track(&mut self, now: Mono, episode: &Episode, estimate: f64, taken: &Taken) {
        let before = self.limit;
        if taken.good() {
            self.settle(now, estimate.clamp(0.5 * before, episode.hit.max(before)), taken.accepted);
        } else {
            let most = (taken.accepted + 1.5) / taken.elapsed.max(0.1);
            self.settle(now, most.clamp(0.6 * before, 0.95 * before), 4.0);
        }
    }

    /// The climb met the limit.
    fn learn_climb(&mut self, now: Mono, episode: &Episode, estimate: f64, taken: &Taken) -> Option<f64> {
        let (before, hit) = (self.limit, episode.hit);
        let again = if self.learned.valid { 5 } else { 3 };
        if !taken.good() {
            let factor = if episode.fails > 0 { 0.5 } else { 0.8 };
            if self.learned.climbs < again {
                return Some(factor * hit);
            }
            self.settle(now, before.min(factor * hit), 4.0);
            return None;
        }
        if self.learned.verifying > 0.0 && estimate <= 1.03 * before {
            self.learned.burst = self.learned.burst.max(f64::from(self.learned.verifying));
            self.learned.verifying = 0.0;
            return None;
        }
        self.learned.verifying = 0.0;
        self.settle(now, estimate.clamp(0.8 * before.min(hit), hit.max(0.8 * before)), taken.accepted);
        if hit > 1.5 * self.limit && self.learned.climbs < again {
            return Some((self.limit * hit).sqrt());
        }
        None
    }

    /// Met while keeping below the estimate: the limit is lower now, or the estimate was too high.
    fn learn_cruise(&mut self, now: Mono, estimate: f64, taken: &Taken) {
        let before = self.limit;
        if self.learned.lockout && taken.good() {
            // Between what the limit lies is all that is known: a little less, and twice that each time in a row.
            let less = before * (1.0 - 0.03 * f64::from(1_u32 << self.learned.poor.min(4))).max(0.6);
            self.learned.poor = self.learned.poor.saturating_add(1);
            let least = taken.accepted / taken.elapsed.max(0.1);
            self.settle(now, estimate.min(less).max(least).min(0.998 * before), taken.accepted);
            return;
        }
        if taken.good() {
            self.learned.poor = 0;
            // Whatever made a small bucket of it.
            if self.learned.burst < SMALL {
                self.learned.burst = 0.0;
            }
            self.learned.margin = (self.learned.margin + 0.002).min(0.1);
            self.settle(now, estimate.clamp(0.6 * before, 0.998 * before), taken.accepted);
        } else {
            let low = if self.learned.poor > 0 { 0.25 } else { 0.6 };
            self.learned.poor = self.learned.poor.saturating_add(1);
            let most = (taken.accepted + 1.5) / taken.elapsed.max(0.1);
            self.settle(now, most.clamp(low * before, 0.8 * before), 4.0);
        }
    }

    /// Takes an estimate that rests on so many answers.
    fn settle(&mut self, now: Mono, limit: f64, samples: f64) {
        self.learned.samples = samples;
        self.move_limit(now, limit);
    }
}
