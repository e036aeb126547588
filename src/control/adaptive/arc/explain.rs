//! How the number came about, in words.

use std::fmt;

use super::{Arc, Phase, ROUND_SECS};
use crate::control::Mono;

/// So long a cruise waits at most for refusals to grow old, seconds.
const OLD_SECS: f64 = 600.0;

/// Why the controller would use the rate that it would use. Its words are the journal's and the host's page's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Why {
    /// The rate, tokens per second.
    pub rate: f64,
    /// What it is about.
    pub doing: Doing,
    /// Answers between the last two refusals, and in how many seconds; 0 = not measured yet.
    pub answers: f64,
    /// See `answers`.
    pub secs: f64,
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
    /// No limit met yet.
    Original,
    /// At what an earlier run measured.
    Remembering,
    /// Doubling from a cold start.
    Starting,
    /// Below what was measured.
    Cruising,
    /// Asking for more.
    Probing,
    /// Looking for a limit that is higher than was known.
    Climbing,
    /// Coming back.
    Recovering,
    /// Below what makes the server slow.
    Slowed,
    /// Following a limit that wanders.
    Tracking,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.rate < 0.1 { 4 } else { 2 };
        write!(out, "{:.decimals$}/s: ", self.rate)?;
        match self.doing {
            Doing::Original => write!(out, "no limit met yet")?,
            Doing::Remembering => write!(out, "remembered from an earlier run")?,
            Doing::Starting => write!(out, "a slow start, doubling")?,
            Doing::Slowed => write!(out, "faster made the server slow")?,
            _ if self.answers > 0.0 => {
                let (answers, secs) = (self.answers, self.secs);
                write!(out, "measured, {answers:.0} answers in {secs:.1} s between two refusals")?;
            }
            _ => write!(out, "a first guess after a refusal")?,
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

impl Arc {
    /// How the rate of `now` came about.
    pub(super) fn explain(&self, now: Mono) -> Why {
        let doing = match self.phase {
            Phase::Ceiling => Doing::Original,
            Phase::Slow => Doing::Starting,
            Phase::Cruise | Phase::Recover
                if self.is_unchecked() || (self.learned.recall.is_some() && self.learned.basis.0 == 0.0) =>
            {
                Doing::Remembering
            }
            Phase::Cruise if self.queueing.limited() => Doing::Slowed,
            Phase::Cruise => Doing::Cruising,
            Phase::Probe => Doing::Probing,
            Phase::Climb => Doing::Climbing,
            Phase::Recover => Doing::Recovering,
            Phase::Track => Doing::Tracking,
        };
        let soft = self.soft(now);
        let (answers, secs) = (f64::from(self.learned.basis.0), f64::from(self.learned.basis.1));
        Why {
            rate: self.bounded(now),
            doing,
            answers,
            secs,
            next: self.next_probe(now),
            refused: self.refused,
            budget: self.budget,
            stops_at: if soft.is_finite() && soft != f64::from(self.budget) { soft as u32 } else { 0 },
            erring: self.restraint.is_on(),
        }
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
mod tests {
    use super::*;
    use crate::control::Original;

    const WHY: Why = Why {
        rate: 2.0,
        doing: Doing::Cruising,
        answers: 405.0,
        secs: 202.5,
        next: Next::In(240.0),
        refused: 3,
        budget: 8,
        stops_at: 0,
        erring: false,
    };

    #[test]
    fn the_number_is_told_with_its_evidence() {
        let said = WHY.to_string();
        assert_eq!(
            said,
            "2.00/s: measured, 405 answers in 202.5 s between two refusals; next probe in 4 min; refusals 3 of 8"
        );
        let erring = Why { erring: true, ..WHY };
        assert!(
            erring.to_string().ends_with("two refusals; errors only, so no higher until a success; refusals 3 of 8")
        );
        let why = Why { doing: Doing::Original, next: Next::Untimed, refused: 0, rate: 10.0, ..WHY };
        assert_eq!(why.to_string(), "10.00/s: no limit met yet; refusals 0 of 8");
        let why = Why { doing: Doing::Recovering, answers: 0.0, rate: 0.0123, ..why };
        assert_eq!(why.to_string(), "0.0123/s: a first guess after a refusal; recovering; refusals 0 of 8");
    }

    #[test]
    fn why_nothing_is_asked_is_told_instead_of_a_time() {
        let ends = |why: Why, end: &str| {
            let said = why.to_string();
            assert!(said.ends_with(end), "{said}");
        };
        ends(WHY.later(100.0, false), "; next probe in 2 min; refusals 3 of 8");
        ends(WHY.later(1e4, false), "; next probe with the next answer; refusals 3 of 8");
        ends(WHY.later(0.0, true), "; no probe while held; refusals 3 of 8");
        ends(Why { doing: Doing::Climbing, ..WHY }.later(0.0, true), "; no probe while held; refusals 3 of 8");
        ends(Why { next: Next::Refused, ..WHY }, "; no probe before its refusal is over; refusals 3 of 8");
        ends(Why { next: Next::Refused, ..WHY }.later(1.0, true), "; no probe while held; refusals 3 of 8");
        let spent = Why { next: Next::Aged(3), refused: 6, stops_at: 4, ..WHY };
        ends(spent, "; no probe before 3 of 6 refusals are older than 10 minutes; refusals 6 of 8, probes stop at 4");
        let spent = Why { next: Next::Aged(1), refused: 4, ..spent };
        ends(spent, "; no probe before 1 of 4 refusals is older than 10 minutes; refusals 4 of 8, probes stop at 4");
        let original = Why { doing: Doing::Original, next: Next::Untimed, ..WHY };
        ends(original.later(0.0, true), "no limit met yet; refusals 3 of 8");
    }

    /// What is told of the next probe is when `advance` begins it, budget and round times included.
    #[test]
    fn the_time_told_is_the_time_of_the_probe() {
        let at = Mono::from_secs_f64;
        let begun = at(10_000.0);
        let told = |refused: u32, valid: bool, dropped: f64| {
            let mut arc = Arc::new(Original { rate: 10.0, capacity: 10.0 });
            (arc.known, arc.limit, arc.budget, arc.refused) = (true, 2.0, 8, refused);
            (arc.phase, arc.since, arc.learned.moved_at, arc.learned.valid) = (Phase::Cruise, begun, begun, valid);
            if dropped > 0.0 {
                (arc.learned.best, arc.learned.best_at, arc.learned.dropped_at, arc.learned.valid) =
                    (9.0, begun, at(dropped), true);
                arc.learned.moved_at = at(1.0);
            }
            arc
        };
        for arc in [
            told(0, false, 0.0),
            told(3, false, 0.0),
            told(0, true, 0.0),
            told(3, true, 0.0),
            told(0, true, 9_200.0),
            told(3, true, 9_200.0),
        ] {
            // The age of what is believed grows meanwhile, and a cruise with it: told anew it comes nearer.
            let mut now = begun;
            while let Next::In(left) = arc.next_probe(now) {
                let mut asked = arc.clone();
                asked.advance(now);
                assert_eq!(asked.phase == Phase::Probe, left == 0.0, "{left} s at {now:?}");
                if left == 0.0 {
                    break;
                }
                now = now.after_secs(left.max(0.001));
            }
            assert_eq!(arc.next_probe(now), Next::In(0.0));
        }
        for valid in [false, true] {
            let spent = told(6, valid, 0.0);
            assert_eq!(spent.next_probe(begun.after_secs(1.0)), Next::Aged(3), "a budget of which half is used");
            assert_eq!(spent.explain(begun.after_secs(1.0)).stops_at, 4);
            let mut asked = spent.clone();
            asked.advance(begun.after_secs(599.0));
            assert_eq!(asked.phase, Phase::Cruise);
            assert_eq!(spent.next_probe(begun.after_secs(600.0)), Next::In(0.0));
            asked.advance(begun.after_secs(600.0));
            assert_eq!(asked.phase, Phase::Probe);
        }
    }
}
