//! How the number came about, in words.

use std::fmt;

use super::learned::Origin;
use super::{Arc, Phase, ROUND_SECS};
use crate::control::Mono;

/// So long a cruise waits at most for refusals to grow old, seconds.
const OLD_SECS: f64 = 600.0;
/// A rate that lies no further from what it rests on, as a share, is told as that.
const SAME: f64 = 0.02;

/// Why the controller would use the rate that it would use. Its words are the journal's and the host's page's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Why {
    /// The rate, tokens per second.
    pub rate: f64,
    /// What it is about.
    pub doing: Doing,
    /// What the rate rests on.
    pub basis: Basis,
    /// Why it lies apart from that, where it does.
    pub apart: Apart,
    /// When it asks for more.
    pub next: Next,
    /// Refusals in the last ten minutes.
    pub refused: u32,
    /// How many the host may see; 0 = no budget.
    pub budget: u32,
    /// At so many it asks no more, where that is not the budget itself; 0 = it is.
    pub stops_at: u32,
    /// The latest answers were errors: no higher until a success.
    pub erring: bool,
}

/// What a rate rests on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Basis {
    /// No limit was met yet.
    Original,
    /// It has come up to the original.
    Borne,
    /// A cold start.
    Start,
    /// Answers between the last two refusals, and in how many seconds.
    Measured {
        /// So many answers.
        answers: f64,
        /// So many seconds.
        secs: f64,
    },
    /// A refusal, and nothing that measures the limit; `first`: nothing ever did.
    Guess {
        /// No measurement is known.
        first: bool,
    },
    /// What an earlier run measured, tokens per second.
    Remembered(f64),
    /// What earlier runs have one expect of this hour, tokens per second.
    Foretold(f64),
    /// Answers that came late.
    Slowness,
    /// A surge of server errors.
    Errors,
    /// Requests that nobody answered.
    Silence,
    /// A run of 403 or 401.
    Ban,
    /// Nothing that is known any more.
    Unknown,
}

impl Basis {
    /// The rate that it tells of.
    fn rate(self) -> Option<f64> {
        match self {
            Self::Measured { answers, secs } if secs > 0.0 => Some(answers / secs),
            Self::Remembered(rate) | Self::Foretold(rate) => Some(rate),
            _ => None,
        }
    }
}

/// Why a rate lies below or above what it rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    /// What it is about says it.
    AsDoing,
    /// The budget is spent.
    Budget,
    /// It was met there before.
    Margin,
    /// Some is left to the server.
    Spare,
    /// The server works off a queue.
    Queue,
    /// Errors of late.
    Errors,
    /// The original is lower.
    Original,
    /// It was refused below that.
    Refused,
    /// It is old.
    Old,
    /// Earlier runs foretell it.
    Foretold,
    /// Up by steps.
    Steps,
    /// More was borne.
    Borne,
}

impl Apart {
    fn words(self) -> &'static str {
        match self {
            Self::AsDoing => "",
            Self::Budget => " as the budget is spent",
            Self::Margin => " as it was refused closer to it",
            Self::Spare => " to leave some room",
            Self::Queue => " while its queue drains",
            Self::Errors => " for errors of late",
            Self::Original => " at the original",
            Self::Refused => " as it was refused below that",
            Self::Old => " as that is old",
            Self::Foretold => " as earlier runs foretell",
            Self::Steps => " going up in steps",
            Self::Borne => " as it bore more",
        }
    }
}

/// When a controller asks for more than it believes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Next {
    /// It does not wait for a moment.
    Untimed,
    /// In so many seconds.
    In(f64),
    /// Not before so many of the refusals are older than ten minutes.
    Aged(u32),
    /// Not before an answer says that the refusal is over.
    Refused,
    /// The host is held: nothing is asked.
    Held,
}

impl Next {
    /// The same, `secs` seconds later, of a host that is held or not.
    fn later(self, secs: f64, held: bool) -> Self {
        match self {
            _ if held => Self::Held,
            Self::In(left) => Self::In((left - secs).max(0.0)),
            Self::Untimed | Self::Aged(_) | Self::Refused | Self::Held => self,
        }
    }
}

impl Why {
    /// The same `secs` seconds later, of a host that is held then or not: nothing is asked for under a hold.
    #[must_use]
    pub fn later(self, secs: f64, held: bool) -> Self {
        let asks = self.doing != Doing::Original;
        Self { next: self.next.later(secs, held && asks), ..self }
    }
}

/// What the controller is about, as it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// At the original.
    Original,
    /// Doubling from a cold start.
    Starting,
    /// Below what it rests on.
    Cruising,
    /// Asking for more.
    Probing,
    /// Looking for a limit that is higher than was known.
    Climbing,
    /// Coming back.
    Recovering,
    /// Following a limit that wanders.
    Tracking,
}

impl Why {
    /// How far the rate lies from what it rests on, as a share of that; 0 = no further than it says anyway.
    fn distance(&self) -> f64 {
        let share = self.basis.rate().map_or(0.0, |of| self.rate / of.max(1e-9) - 1.0);
        if share.abs() > SAME { share } else { 0.0 }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/s: ", Rate(self.rate))?;
        let apart = self.distance();
        // It is named only where it is another number.
        let of = self.basis.rate().filter(|_| apart != 0.0).map_or_else(String::new, |of| format!(" {}/s", Rate(of)));
        match self.basis {
            Basis::Original => write!(out, "no limit met yet")?,
            Basis::Borne => write!(out, "the original, which it bears now")?,
            Basis::Start => write!(out, "a slow start, doubling")?,
            Basis::Measured { answers, secs } => {
                write!(out, "measured{of}, {answers:.0} answers in {secs:.1} s between two refusals")?;
            }
            Basis::Guess { first: true } => write!(out, "a first guess after a refusal")?,
            Basis::Guess { first: false } => write!(out, "a guess after a refusal that came too soon to measure by")?,
            Basis::Remembered(_) => write!(out, "remembered{of} from an earlier run")?,
            Basis::Foretold(_) => write!(out, "foretold{of} by earlier runs")?,
            Basis::Slowness => write!(out, "faster made the server slow")?,
            Basis::Errors => write!(out, "a surge of server errors lowered it")?,
            Basis::Silence => write!(out, "requests without an answer lowered it")?,
            Basis::Ban => write!(out, "a run of 403 or 401 lowered it")?,
            Basis::Unknown => write!(out, "not measured yet")?,
        }
        let upwards = matches!(self.doing, Doing::Probing | Doing::Climbing | Doing::Tracking);
        match apart {
            apart if apart < 0.0 => write!(out, "; {:.0} % below it{}", -100.0 * apart, self.apart.words())?,
            apart if apart > 0.0 && !upwards => {
                write!(out, "; {:.0} % above it{}", 100.0 * apart, self.apart.words())?;
            }
            _ => {}
        }
        match (self.doing, self.next) {
            (_, Next::Held) => write!(out, "; no probe while held")?,
            _ if self.erring => write!(out, "; errors only, so no higher until a success")?,
            (_, Next::Refused) => write!(out, "; no probe before its refusal is over")?,
            (Doing::Probing, _) => write!(out, "; probing now")?,
            (Doing::Climbing, _) => write!(out, "; climbing to find the limit")?,
            (Doing::Recovering, _) => write!(out, "; recovering")?,
            (Doing::Tracking, _) => write!(out, "; following a limit that wanders")?,
            (_, Next::Aged(old)) => {
                let are = if old == 1 { "is" } else { "are" };
                write!(out, "; no probe before {old} of {} refusals {are} older than 10 minutes", self.refused)?;
            }
            (_, Next::In(secs)) if secs >= 90.0 => write!(out, "; next probe in {:.0} min", secs / 60.0)?,
            (_, Next::In(secs)) if secs < 0.5 => write!(out, "; next probe with the next answer")?,
            (_, Next::In(secs)) => write!(out, "; next probe in {secs:.0} s")?,
            (_, Next::Untimed) => {}
        }
        match self.budget {
            0 => write!(out, "; refusals {}, no refusal budget", self.refused)?,
            budget => write!(out, "; refusals {} of {budget}", self.refused)?,
        }
        match self.stops_at {
            0 => Ok(()),
            most => write!(out, ", probes stop at {most}"),
        }
    }
}

/// Two decimals, and four where two would say little.
struct Rate(f64);

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.0 < 0.1 { 4 } else { 2 };
        write!(out, "{:.decimals$}", self.0)
    }
}

impl Arc {
    /// How the rate of `now` came about.
    pub(super) fn explain(&self, now: Mono) -> Why {
        let doing = match self.phase {
            Phase::Ceiling => Doing::Original,
            Phase::Slow => Doing::Starting,
            Phase::Cruise => Doing::Cruising,
            Phase::Probe => Doing::Probing,
            Phase::Climb => Doing::Climbing,
            Phase::Recover => Doing::Recovering,
            Phase::Track => Doing::Tracking,
        };
        let (soft, rate, basis) = (self.soft(now), self.bounded(now), self.basis());
        let apart = basis.rate().map_or(Apart::AsDoing, |of| match rate > of {
            true => self.beyond(of),
            false => self.short(now, of, rate),
        });
        Why {
            rate,
            doing,
            basis,
            apart,
            next: self.next_probe(now),
            refused: self.refused,
            budget: self.budget,
            stops_at: if soft.is_finite() && soft != f64::from(self.budget) { soft as u32 } else { 0 },
            erring: self.restraint.is_on(),
        }
    }

    fn basis(&self) -> Basis {
        let (answers, secs) = (f64::from(self.learned.basis.0), f64::from(self.learned.basis.1));
        let measured = answers > 0.0 && secs > 0.0;
        let refused = self.learned.episode.is_some();
        match (self.phase, self.learned.surge.origin) {
            (Phase::Ceiling | Phase::Slow, _) if !self.known && refused => Basis::Guess { first: true },
            (Phase::Slow, _) => Basis::Start,
            (Phase::Ceiling, _) if !self.known => Basis::Original,
            (Phase::Ceiling, Origin::Remembered) if self.remembered() >= self.original.rate => {
                Basis::Remembered(self.remembered())
            }
            (Phase::Ceiling, _) if !refused => Basis::Borne,
            (_, Origin::Remembered) => Basis::Remembered(self.remembered()),
            (_, Origin::Measured) => Basis::Measured { answers, secs },
            (_, Origin::Guess) => Basis::Guess { first: !measured },
            (_, Origin::Foretold) => Basis::Foretold(self.foretold()),
            (_, Origin::Slowness) => Basis::Slowness,
            (_, Origin::Errors) => Basis::Errors,
            (_, Origin::Silence) => Basis::Silence,
            (_, Origin::Ban) => Basis::Ban,
            // What a store of an earlier version does not say.
            (_, Origin::Unknown) if measured => Basis::Measured { answers, secs },
            (_, Origin::Unknown) => Basis::Unknown,
        }
    }

    /// Why the rate lies above `of`, what it rests on.
    fn beyond(&self, of: f64) -> Apart {
        match () {
            () if self.limit <= (1.0 + SAME / 2.0) * of => Apart::AsDoing,
            () if self.lean() > 1.0 => Apart::Foretold,
            () if self.learned.creep > 0 => Apart::Steps,
            () => Apart::Borne,
        }
    }

    /// Why `rate` lies below `of`, what it rests on: what takes the most.
    fn short(&self, now: Mono, of: f64, rate: f64) -> Apart {
        let factor = |part: f64, of: f64| (part / of.max(1e-9)).min(1.0);
        let eps = self.margins(now);
        let cruises = self.phase == Phase::Cruise;
        let left = |share: f64| if cruises { 1.0 - share } else { 1.0 };
        let estimate = match self.learned.surge.origin {
            _ if self.lean() < 1.0 => Apart::Foretold,
            Origin::Remembered | Origin::Foretold if self.is_unchecked() => Apart::Old,
            Origin::Measured | Origin::Remembered => Apart::Refused,
            _ => Apart::AsDoing,
        };
        let mut parts = [
            (factor(self.limit, of), estimate),
            (factor(self.original.rate, self.limit), Apart::Original),
            (left(eps.budget), Apart::Budget),
            (left(eps.margin), Apart::Margin),
            (left(eps.spare), Apart::Spare),
            (if self.queueing.draining(now) { 0.5 } else { 1.0 }, Apart::Queue),
            (self.eased(), Apart::Errors),
            (1.0, Apart::AsDoing),
        ];
        // What none of them explains is what it is about, or that it waits for a success or for the end of a refusal.
        let explained: f64 = parts.iter().map(|(part, _)| part).product();
        parts[7].0 = factor(rate, of * explained);
        parts.into_iter().fold((f64::INFINITY, Apart::AsDoing), |most, one| if one.0 < most.0 { one } else { most }).1
    }

    /// When `advance` would have the next probe, as things are now.
    fn next_probe(&self, now: Mono) -> Next {
        if self.learned.episode.is_some() {
            return Next::Refused;
        }
        if self.phase != Phase::Cruise || !self.known {
            return Next::Untimed;
        }
        let (soft, elapsed) = (self.soft(now), now.secs_since(self.since));
        let left = self.cruise_secs(now) - elapsed;
        if f64::from(self.refused) >= soft {
            // A spent budget: what was refused has to grow old, but for no longer than that takes.
            let old = self.refused.saturating_sub(soft as u32).saturating_add(1);
            return if elapsed < OLD_SECS { Next::Aged(old.min(self.refused)) } else { Next::In(left.max(0.0)) };
        }
        let round =
            (self.learned.dropped_at != Mono::ZERO && self.learned.costly == 0 && self.depressed(now)).then(|| {
                let rounds =
                    ((self.since.secs_since(self.learned.dropped_at) - 2.0).max(0.0) / ROUND_SECS).floor() + 1.0;
                rounds * ROUND_SECS + 2.0 - now.secs_since(self.learned.dropped_at)
            });
        Next::In(round.map_or(left, |round| round.min(left)).max(0.0))
    }
}

#[cfg(test)]
mod tests;
