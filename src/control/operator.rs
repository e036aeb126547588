//! The operator's commands, applied: each with before and after in the journal, each with an inverse.
//!
//! An override changes a rate, never a hold. A pause changes nothing but that nothing goes out. The
//! controllers learn on under both. Undo restores settings, not what was learned meanwhile.

use super::adaptive::RateController;
use super::command::{BUDGET_MAX, CAPACITY_RANGE, RATE_RANGE, budget_words};
use super::group::GroupId;
use super::history::{Act, Change};
use super::hold::Holding;
use super::{
    Command, CommandResult, Controller, Hold, HostId, HostState, Lane, Lifetime, Mono, OperatorSettings, Original,
    Override, OverrideSpec, Pause, Settings, SkipReason, Value, WakeEven, What, Who,
};

/// Hosts left alone that a result names.
const SKIPPED_NAMED: usize = 100;

/// What `spec` makes of a host, given its effective and adaptive values now: the override that will be
/// in force, or why not. The prompt's preview and the controller use this same function.
pub fn plan_override(
    now: Mono,
    spec: &OverrideSpec,
    effective: Original,
    adaptive: Original,
    current: Option<Override>,
    ttl: &OverrideTtl,
) -> Result<Override, SkipReason> {
    let rate = spec.rate.map(|amount| amount.resolve(effective.rate));
    let capacity = spec.capacity.map(|amount| amount.resolve(effective.capacity));
    let in_range = rate.is_none_or(|rate| RATE_RANGE.contains(&rate))
        && capacity.is_none_or(|capacity| CAPACITY_RANGE.contains(&capacity))
        && (rate.is_some() || capacity.is_some());
    if !in_range {
        return Err(SkipReason::OutOfRange);
    }
    let rate = rate.or(current.and_then(|one| one.rate));
    let capacity = capacity.or(current.and_then(|one| one.capacity));
    let above =
        rate.is_some_and(|rate| rate > adaptive.rate) || capacity.is_some_and(|capacity| capacity > adaptive.capacity);
    let until = match spec.lifetime {
        Lifetime::For(lifetime) => Some(now.after(lifetime)),
        Lifetime::Default if above => Some(now.after(ttl.0)),
        Lifetime::Default => None,
    };
    Ok(Override { rate, capacity, since: now, until })
}

/// How long an override above the adaptive rate lives when nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverrideTtl(pub std::time::Duration);

impl From<&Settings> for OverrideTtl {
    fn from(settings: &Settings) -> Self {
        Self(settings.override_ttl)
    }
}

impl Controller {
    /// Applies a command. `chosen_by` says in the journal how the targets were chosen.
    pub fn command(&mut self, now: Mono, command: Command, targets: &[HostId], chosen_by: &str) -> CommandResult {
        match command {
            Command::Halt => self.set_halted(now, true),
            Command::GoOn => self.set_halted(now, false),
            Command::Undo => self.undo(now),
            Command::Redo => self.redo(now),
            Command::Pause(_)
            | Command::Resume
            | Command::Override(_)
            | Command::Auto
            | Command::Reset
            | Command::Budget(_)
            | Command::Wake(_) => self.act(now, command, targets, chosen_by),
        }
    }

    fn act(&mut self, now: Mono, command: Command, targets: &[HostId], chosen_by: &str) -> CommandResult {
        let name = describe(&command);
        let why = if chosen_by.is_empty() { name.clone() } else { format!("{name} ({chosen_by})") };
        let mut changes = Vec::new();
        let mut skipped = Vec::new();
        for host in targets.iter().copied() {
            if self.slots.get(host.0 as usize).is_none() {
                skip(&mut skipped, host, SkipReason::Unknown);
                continue;
            }
            self.end_lifetimes(now, host);
            match self.apply(now, host, &command, &why) {
                Ok(change) => changes.push(change),
                Err(reason) => skip(&mut skipped, host, reason),
            }
        }
        let changed = changes.len();
        let first = changes.first().and_then(Change::host);
        if changed > 0 {
            self.history.record(Act { name: name.clone(), changes });
        }
        let summary = match command {
            Command::Auto | Command::Reset if self.is_any_paced(now, targets) => {
                format!("{name}; what its server's headers say still limits: a wake ends that")
            }
            _ => name,
        };
        CommandResult { changed, first, skipped, summary }
    }

    /// Whether the headers of a server limit one of these, the buckets of endpoints included.
    fn is_any_paced(&self, now: Mono, hosts: &[HostId]) -> bool {
        hosts.iter().filter_map(|host| self.slots.get(host.0 as usize)).any(|slot| {
            let group = self.groups.get(slot.group).and_then(|group| group.hot.as_deref());
            slot.hot.as_deref().is_some_and(|hot| {
                let policy = &self.settings.policies[usize::from(slot.policy.0)];
                let own = hot.paced(now, policy, &self.settings).is_some();
                own || hot.paces.as_deref().is_some_and(|paces| paces.limits(now))
            }) || group.is_some_and(|group| group.paced(now, &self.settings).is_some())
        })
    }

    /// One command on one host that exists.
    fn apply(&mut self, now: Mono, host: HostId, command: &Command, why: &str) -> Result<Change, SkipReason> {
        let ttl = OverrideTtl::from(&self.settings);
        self.heat(now, host);
        self.save_later(host);
        let Self { slots, settings, groups, .. } = self;
        let slot = &mut slots[host.0 as usize];
        let policy = &settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return Err(SkipReason::Unknown) };
        let before = *hot.operator;
        let mut after = before;
        let what = match command {
            Command::Pause(lifetime) => {
                let until = match lifetime {
                    Lifetime::Default => None,
                    Lifetime::For(lifetime) => Some(now.after(*lifetime)),
                };
                if before.pause.is_some() && until.is_none() {
                    return Err(SkipReason::Already);
                }
                after.pause = Some(Pause { since: now, until });
                What::Pause
            }
            Command::Resume => {
                before.pause.ok_or(SkipReason::Already)?;
                after.pause = None;
                What::Resume
            }
            Command::Override(spec) => {
                let effective = hot.effective(now, policy, settings);
                let adaptive = hot.adaptive(now, settings);
                after.overriding = Some(plan_override(now, spec, effective, adaptive, before.overriding, &ttl)?);
                What::Override
            }
            Command::Auto => {
                before.overriding.ok_or(SkipReason::Already)?;
                after.overriding = None;
                What::Auto
            }
            Command::Budget(budget) => {
                if *budget > BUDGET_MAX {
                    return Err(SkipReason::OutOfRange);
                }
                if before.budget.unwrap_or(policy.refusal_budget) == *budget {
                    return Err(SkipReason::Already);
                }
                after.budget = Some(*budget);
                What::Budget
            }
            Command::Reset => {
                after.overriding = None;
                self.tell_moved(now, host, Who::Controller, "since it was told last");
                let group_told = self.reset(now, host);
                self.set_operator(host, after);
                if before != after {
                    let (from, to) = (Value::Settings(before), Value::Settings(after));
                    self.decide(now, Who::Operator, Some(host), What::Auto, from, to, why);
                }
                let hot = self.slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut());
                let hot = hot.ok_or(SkipReason::Unknown)?;
                // What was told goes to the original: the journal's rates are a chain.
                let learned = std::mem::replace(&mut hot.layer.told.rate, hot.layer.original.rate);
                let (from, to) = (Value::Number(learned), Value::Number(hot.layer.original.rate));
                self.decide(now, Who::Operator, Some(host), What::Reset, from, to, why);
                self.tell_moved(now, host, Who::Operator, why);
                for (what, told) in [What::GroupRate, What::GroupCapacity].into_iter().zip(group_told) {
                    let Some((from, to)) = told else { continue };
                    self.decide(now, Who::Operator, Some(host), what, Value::Number(from), Value::Number(to), why);
                }
                self.retarget(now, host);
                return Ok(Change::Settings { host, before, after });
            }
            Command::Wake(even) => {
                let id = slot.group;
                let paced = hot.paced(now, policy, settings);
                let mut shared = groups.get_mut(id).and_then(|group| group.hot.as_deref_mut());
                let paced = paced.or(shared.as_ref().and_then(|shared| shared.paced(now, settings)));
                let lane = (0..=hot.endpoints.len() as u8).map(Lane);
                let named =
                    hot.paces.as_ref().and_then(|paces| lane.filter_map(|lane| paces.limiting(now, lane)).next());
                let paced = paced.or(named);
                let hold = hot.holding.hold().filter(|hold| hold.until > now);
                let shared_hold =
                    shared.as_ref().and_then(|shared| shared.holding.hold()).filter(|hold| hold.until > now);
                let until = hold.iter().chain(&shared_hold).map(|hold| hold.until).chain(paced.map(|one| one.until));
                let until = until.max().ok_or(SkipReason::NotHeld)?;
                let asked = |hold: &Hold| hold.reason.server_asked();
                let asked = paced.is_some() || hold.iter().chain(&shared_hold).any(asked);
                if asked && *even == WakeEven::Own {
                    return Err(SkipReason::ServerAsked);
                }
                hot.holding.wake(now);
                if let Some(shared) = &mut shared {
                    shared.holding.wake(now);
                }
                // What the server told again with the next answer would be obeyed at once.
                let mut waited = Mono::ZERO;
                if paced.is_some() {
                    for pace in std::iter::once(&mut *hot.pace).chain(shared.map(|shared| &mut shared.pace)) {
                        waited = waited.max(pace.not_before());
                        pace.distrust(now);
                    }
                    hot.paces.iter_mut().for_each(|paces| _ = paces.distrust(now));
                }
                let left = Value::Number(until.secs_since(now));
                let why = if paced.is_some() {
                    format!("{why}; its headers count for nothing for an hour")
                } else {
                    why.to_owned()
                };
                self.decide(now, Who::Operator, Some(host), What::Wake, left, Value::Number(0.0), why);
                self.after_wake(now, host, id, shared_hold.is_some() || paced.is_some());
                return Ok(Change::Woken { host, hold, group: shared_hold, paced: paced.map(|_| waited) });
            }
            Command::Halt | Command::GoOn | Command::Undo | Command::Redo => return Err(SkipReason::Already),
        };
        self.set_operator(host, after);
        let (from, to) = self.in_force(host, before, after);
        self.decide(now, Who::Operator, Some(host), what, from, to, why);
        self.retarget(now, host);
        Ok(Change::Settings { host, before, after })
    }

    /// What the operator set before and after, as the journal has it: of a budget that moves both values are told, the
    /// configured one, too.
    fn in_force(&self, host: HostId, mut before: OperatorSettings, mut after: OperatorSettings) -> (Value, Value) {
        if before.budget != after.budget {
            let configured = self.policy_of(host).refusal_budget;
            for settings in [&mut before, &mut after] {
                settings.budget.get_or_insert(configured);
            }
        }
        (Value::Settings(before), Value::Settings(after))
    }

    /// The controllers of a host, and that of its group, go back to their originals: what that is from and to for the
    /// group.
    fn reset(&mut self, now: Mono, host: HostId) -> [Option<(f64, f64)>; 2] {
        let Self { slots, settings, groups, .. } = self;
        let slot = &mut slots[host.0 as usize];
        let policy = &settings.policies[usize::from(slot.policy.0)];
        let Some(hot) = &mut slot.hot else { return [None; 2] };
        hot.warm = true;
        let host_bounds = hot.bounds(now, policy, settings);
        for layer in std::iter::once(&mut hot.layer).chain(hot.endpoints.iter_mut()) {
            let bounds = super::adaptive::Bounds { original: layer.original, cold: false, ..host_bounds };
            layer.adaptive.reset(now, &bounds);
            let target = layer.adaptive.target(now);
            layer.bucket.set_target(now, target);
        }
        let id = slot.group;
        let Some(shared) = groups.get_mut(id).and_then(|group| group.hot.as_deref_mut()) else { return [None; 2] };
        // What is known of a member is known of its group.
        let bounds = super::adaptive::Bounds { cold: false, ..shared.bounds(now, hot, settings) };
        shared.warm = true;
        shared.layer.adaptive.reset(now, &bounds);
        let target = shared.layer.adaptive.target(now);
        let told = super::tell::arrival(&mut shared.layer, target);
        shared.retarget(now, settings);
        self.save_group_later(id);
        told
    }

    /// A wait ended, or stands again: the group's, too, if `group`.
    fn after_wake(&mut self, now: Mono, host: HostId, id: GroupId, group: bool) {
        if let Some(shared) = self.groups.get_mut(id).and_then(|group| group.hot.as_deref_mut()).filter(|_| group) {
            shared.retarget(now, &self.settings);
            self.save_group_later(id);
            self.replan_members(now, id);
        }
        self.save_later(host);
        self.retarget(now, host);
    }

    /// Sets what the operator set on a host, and keeps the counts.
    fn set_operator(&mut self, host: HostId, settings: OperatorSettings) {
        self.save_later(host);
        let Some(hot) = self.slots.get_mut(host.0 as usize).and_then(|slot| slot.hot.as_mut()) else { return };
        match (hot.operator.overriding.is_some(), settings.overriding.is_some()) {
            (false, true) => self.counts.overridden += 1,
            (true, false) => self.counts.overridden -= 1,
            _ => {}
        }
        hot.operator = settings.into();
    }

    /// Ends pauses and overrides whose lifetime is over.
    pub(super) fn end_lifetimes(&mut self, now: Mono, host: HostId) {
        let Some(hot) = self.slots[host.0 as usize].hot.as_mut() else { return };
        if hot.lapse_at() > now {
            return;
        }
        hot.pace.lapse(now);
        let before = *hot.operator;
        let lapsed = |until: Option<Mono>| until.is_some_and(|until| until <= now);
        let mut after = before;
        if after.overriding.is_some_and(|one| lapsed(one.until)) {
            after.overriding = None;
            self.set_operator(host, after);
            let (from, to) = (Value::Settings(before), Value::Settings(after));
            self.decide(now, Who::System, Some(host), What::Auto, from, to, "the override's lifetime ended");
        }
        if after.pause.is_some_and(|one| lapsed(one.until)) {
            let from = after;
            after.pause = None;
            self.set_operator(host, after);
            let (from, to) = (Value::Settings(from), Value::Settings(after));
            self.decide(now, Who::System, Some(host), What::Resume, from, to, "the pause's lifetime ended");
        }
        self.retarget(now, host);
    }

    fn set_halted(&mut self, now: Mono, halted: bool) -> CommandResult {
        let summary = String::from(if halted { "crawl halted" } else { "crawl goes on" });
        if self.halted == halted {
            return CommandResult {
                changed: 0,
                first: None,
                skipped: Vec::new(),
                summary: format!("already so: {summary}"),
            };
        }
        self.halt_event(now, halted, "by key");
        self.history.record(Act { name: summary.clone(), changes: vec![Change::Halted(halted)] });
        CommandResult { changed: 1, first: None, skipped: Vec::new(), summary }
    }

    fn halt_event(&mut self, now: Mono, halted: bool, why: &str) {
        self.halted = halted;
        self.resumed = now;
        for host in 0..self.slots.len() {
            // Their one stated cause changes.
            if matches!(self.slots[host].state, HostState::Run | HostState::Wait) {
                self.touch(HostId(u32::try_from(host).unwrap_or(u32::MAX)));
            }
        }
        let word = |halted| Value::Text(String::from(if halted { "halted" } else { "running" }));
        let what = if halted { What::Halt } else { What::GoOn };
        self.decide(now, Who::Operator, None, what, word(!halted), word(halted), why);
    }

    fn undo(&mut self, now: Mono) -> CommandResult {
        let Some(act) = self.history.pop_done() else { return nothing("nothing to undo") };
        let (result, made) = self.replay(now, act, Direction::Back);
        if !made.changes.is_empty() {
            self.history.push_undone(made);
        }
        result
    }

    fn redo(&mut self, now: Mono) -> CommandResult {
        let Some(act) = self.history.pop_undone() else { return nothing("nothing to redo") };
        let (result, made) = self.replay(now, act, Direction::Forth);
        if !made.changes.is_empty() {
            self.history.push_done(made);
        }
        result
    }

    /// Takes an act back or makes it again, host by host, leaving alone what was changed since. Gives what of the act
    /// that was: what was left alone now has no part in the way back.
    fn replay(&mut self, now: Mono, act: Act, direction: Direction) -> (CommandResult, Act) {
        let (what, word) = match direction {
            Direction::Back => (What::Undo, "undone"),
            Direction::Forth => (What::Redo, "redone"),
        };
        let why = format!("{word}: {}", act.name);
        let mut changed = 0;
        let mut first = None;
        let mut skipped = Vec::new();
        let mut made = Vec::new();
        for change in act.changes {
            let before = changed;
            match change {
                Change::Settings { host, before, after } => {
                    self.end_lifetimes(now, host);
                    let (from, to) = match direction {
                        Direction::Back => (after, before),
                        Direction::Forth => (before, after),
                    };
                    if self.operator_of(host) != from {
                        skip(&mut skipped, host, SkipReason::ChangedSince);
                        continue;
                    }
                    self.set_operator(host, to);
                    let (from, to) = self.in_force(host, from, to);
                    self.decide(now, Who::Operator, Some(host), what, from, to, &*why);
                    self.end_lifetimes(now, host);
                    self.retarget(now, host);
                    changed += 1;
                }
                Change::Woken { host, hold, group, paced } => match self.rehold(now, change, direction) {
                    true => {
                        let until = hold.iter().chain(&group).map(|hold| hold.until).chain(paced).max();
                        let left = Value::Number(until.map_or(0.0, |until| until.secs_since(now)));
                        self.decide(now, Who::Operator, Some(host), what, Value::None, left, &*why);
                        changed += 1;
                    }
                    false => skip(&mut skipped, host, SkipReason::ChangedSince),
                },
                Change::Halted(halted) => {
                    let halted = match direction {
                        Direction::Back => !halted,
                        Direction::Forth => halted,
                    };
                    if self.halted != halted {
                        self.halt_event(now, halted, &why);
                        changed += 1;
                    }
                }
            }
            if changed > before {
                first = first.or(change.host());
                made.push(change);
            }
        }
        let summary = if changed == 0 { format!("nothing {why}") } else { why };
        (CommandResult { changed, first, skipped, summary }, Act { name: act.name, changes: made })
    }

    /// Undoes (or redoes) a wake: the hold stands (or ends) again, if it would still run, and what headers tell counts
    /// again (or not).
    fn rehold(&mut self, now: Mono, change: Change, direction: Direction) -> bool {
        let Change::Woken { host, hold, group, paced } = change else { return false };
        let again = |holding: &mut Holding, hold: Hold| match direction {
            Direction::Back => holding.restore(now, hold),
            Direction::Forth => holding.hold() == Some(hold) && holding.wake(now).is_some(),
        };
        if self.heat(now, host).is_none() {
            return false;
        }
        let id = self.slots[host.0 as usize].group;
        let Some(hot) = self.slots[host.0 as usize].hot.as_deref_mut() else { return false };
        let mut shared = self.groups.get_mut(id).and_then(|group| group.hot.as_deref_mut());
        let mut done = hold.is_some_and(|hold| again(&mut hot.holding, hold));
        if let Some((shared, hold)) = shared.as_mut().zip(group) {
            done |= again(&mut shared.holding, hold);
        }
        if let Some(waited) = paced {
            for pace in std::iter::once(&mut *hot.pace).chain(shared.map(|shared| &mut shared.pace)) {
                match direction {
                    Direction::Back => done |= pace.trust(now, waited),
                    Direction::Forth => {
                        pace.distrust(now);
                        done = true;
                    }
                }
            }
            for paces in hot.paces.iter_mut() {
                match direction {
                    Direction::Back => done |= paces.trust(now),
                    Direction::Forth => _ = paces.distrust(now),
                }
            }
        }
        self.after_wake(now, host, id, group.is_some() || paced.is_some());
        done
    }

    /// What the operator set on a host.
    pub fn operator_of(&self, host: HostId) -> OperatorSettings {
        let hot = self.slots.get(host.0 as usize).and_then(|slot| slot.hot.as_ref());
        hot.map(|hot| *hot.operator).unwrap_or_default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Back,
    Forth,
}

fn nothing(summary: &str) -> CommandResult {
    CommandResult { changed: 0, first: None, skipped: Vec::new(), summary: summary.to_owned() }
}

fn skip(skipped: &mut Vec<(HostId, SkipReason)>, host: HostId, reason: SkipReason) {
    if skipped.len() < SKIPPED_NAMED {
        skipped.push((host, reason));
    }
}

fn describe_lifetime(lifetime: Lifetime) -> String {
    match lifetime {
        Lifetime::Default => String::new(),
        Lifetime::For(lifetime) => match lifetime.as_secs() {
            // In the largest unit that leaves no rest, as one would type it.
            secs if secs > 0 && secs.is_multiple_of(3600) => format!(" for {}h", secs / 3600),
            secs if secs > 0 && secs.is_multiple_of(60) => format!(" for {}m", secs / 60),
            // "until 07:00" gives any number of them.
            secs if secs > 3600 => format!(" for {}h {}m", secs / 3600, secs % 3600 / 60),
            secs => format!(" for {secs}s"),
        },
    }
}

fn describe_amount(amount: super::Amount) -> String {
    match amount {
        super::Amount::Absolute(value) => format!("{value}"),
        super::Amount::Times(factor) => format!("x{factor}"),
    }
}

/// A command in the words of the footer and the journal.
fn describe(command: &Command) -> String {
    match command {
        Command::Pause(lifetime) => format!("pause{}", describe_lifetime(*lifetime)),
        Command::Resume => String::from("resume"),
        Command::Override(spec) => {
            let mut text = String::from("override");
            if let Some(rate) = spec.rate {
                text.push_str(&format!(" rate {}", describe_amount(rate)));
            }
            if let Some(capacity) = spec.capacity {
                text.push_str(&format!(" capacity {}", describe_amount(capacity)));
            }
            text + &describe_lifetime(spec.lifetime)
        }
        Command::Auto => String::from("auto: override dropped"),
        Command::Reset => String::from("reset to the original rate and capacity"),
        Command::Budget(budget) => budget_words(*budget),
        Command::Wake(WakeEven::Own) => String::from("wake"),
        Command::Wake(WakeEven::Asked) => String::from("wake, though the server asked to wait"),
        Command::Halt => String::from("halt"),
        Command::GoOn => String::from("go on"),
        Command::Undo => String::from("undo"),
        Command::Redo => String::from("redo"),
    }
}
