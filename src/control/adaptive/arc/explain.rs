//! How the number came about, in words.

use std::fmt;

use super::{Arc, Phase};
use crate::control::Mono;

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
    /// Seconds until it asks for more; `None` = it does not wait for a moment.
    pub probe_in: Option<f64>,
    /// Refusals in the last ten minutes.
    pub refused: u32,
    /// How many the host may see; 0 = no budget.
    pub budget: u32,
    /// The latest answers were errors: no higher until a success.
    pub erring: bool,
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
        match (self.doing, self.probe_in) {
            _ if self.erring => write!(out, "; errors only, so no higher until a success")?,
            (Doing::Probing, _) => write!(out, "; probing now")?,
            (Doing::Climbing, _) => write!(out, "; climbing to find the limit")?,
            (Doing::Recovering, _) => write!(out, "; recovering")?,
            (Doing::Tracking, _) => write!(out, "; following a limit that wanders")?,
            (_, Some(secs)) if secs >= 90.0 => write!(out, "; next probe in {:.0} min", secs / 60.0)?,
            (_, Some(secs)) => write!(out, "; next probe in {secs:.0} s")?,
            _ => {}
        }
        match self.budget {
            0 => write!(out, "; refusals {}", self.refused),
            budget => write!(out, "; refusals {} of {budget}", self.refused),
        }
    }
}

impl Arc {
    /// How the rate of `now` came about.
    pub(super) fn explain(&self, now: Mono) -> Why {
        let doing = match self.phase {
            Phase::Ceiling => Doing::Original,
            Phase::Slow => Doing::Starting,
            Phase::Cruise | Phase::Recover if self.is_unchecked() || (self.recall.is_some() && self.basis.0 == 0.0) => {
                Doing::Remembering
            }
            Phase::Cruise if self.queueing.limited() => Doing::Slowed,
            Phase::Cruise => Doing::Cruising,
            Phase::Probe => Doing::Probing,
            Phase::Climb => Doing::Climbing,
            Phase::Recover => Doing::Recovering,
            Phase::Track => Doing::Tracking,
        };
        let left = self.cruise_secs(now) - now.secs_since(self.since);
        let probe_in = (self.phase == Phase::Cruise && self.known).then(|| left.max(0.0));
        let (answers, secs) = (f64::from(self.basis.0), f64::from(self.basis.1));
        Why {
            rate: self.bounded(now),
            doing,
            answers,
            secs,
            probe_in,
            refused: self.refused,
            budget: self.budget,
            erring: self.restraint.is_on(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_told_with_its_evidence() {
        let why = Why {
            rate: 2.0,
            doing: Doing::Cruising,
            answers: 405.0,
            secs: 202.5,
            probe_in: Some(240.0),
            refused: 3,
            budget: 8,
            erring: false,
        };
        let said = why.to_string();
        assert_eq!(
            said,
            "2.00/s: measured, 405 answers in 202.5 s between two refusals; next probe in 4 min; refusals 3 of 8"
        );
        let erring = Why { erring: true, ..why };
        assert!(
            erring.to_string().ends_with("two refusals; errors only, so no higher until a success; refusals 3 of 8")
        );
        let why = Why { doing: Doing::Original, probe_in: None, refused: 0, budget: 0, rate: 10.0, ..why };
        assert_eq!(why.to_string(), "10.00/s: no limit met yet; refusals 0");
        let why = Why { doing: Doing::Recovering, answers: 0.0, rate: 0.0123, ..why };
        assert_eq!(why.to_string(), "0.0123/s: a first guess after a refusal; recovering; refusals 0");
    }
}
