//! What refusals, errors and a prior have taught of one server. A host that never met any has none of it.

use serde::{Deserialize, Serialize};

use super::episode::Episode;
use super::overload::Surge;
use super::recall::Recall;
use crate::control::Mono;
use crate::control::sparse::Blank;

/// What the estimate rests on: who moved it last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    /// Nothing that was noted.
    #[default]
    Unknown,
    /// `basis`.
    Measured,
    /// A refusal that came too soon to measure by.
    Guess,
    /// An earlier run.
    Remembered,
    /// What earlier runs have one expect of the hour.
    Foretold,
    /// Answers that came late.
    Slowness,
    /// A surge of server errors.
    Errors,
    /// Requests without an answer.
    Silence,
    /// A run of 403.
    Ban,
}

/// In this order in memory: what a cruise reads with each request stands together, in front.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
#[repr(C)]
pub(super) struct Learned {
    /// When the estimate last moved by more than 5 %.
    pub(super) moved_at: Mono,
    /// How fast the estimate has moved of late, as a share a second.
    pub(super) drift: f64,
    /// The highest estimate of late, decaying.
    pub(super) best: f64,
    pub(super) best_at: Mono,
    /// Answers that the estimate rests on.
    pub(super) samples: f64,
    /// Tokens the server's bucket seems to hold; 0 = unknown.
    pub(super) burst: f64,
    /// Tokens that had come in there before the mark, while a refusal was waited out.
    pub(super) head: f64,
    /// Additional margin, learned from hits while cruising.
    pub(super) margin: f64,
    /// What a prior proposed; boxed, since most hosts have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recall: Option<Box<Recall>>,
    /// When it last reacted: refusals of requests sent until then tell nothing new.
    pub(super) cut: Option<Mono>,
    /// How far measurements lie above, and below, the one before, averaged, as shares.
    pub(super) rises: f32,
    pub(super) falls: f32,
    /// A ban lowered the budget for good; 0 = none did.
    pub(super) banned: u32,
    /// How long refusals take to come, averaged, seconds; 0 = unknown.
    pub(super) no_secs: f32,
    /// At least one good measurement.
    pub(super) valid: bool,
    /// Refusals cost long blocks here.
    pub(super) costly: u8,
    /// Its blocks last the same each time.
    pub(super) lockout: bool,
    /// Where refusals cost long blocks: the estimate was once met from just below.
    pub(super) proven: bool,
    /// Estimates in a row that were not good.
    pub(super) poor: u8,
    pub(super) climbs: u8,
    pub(super) creep: u16,
    pub(super) episode: Option<Episode>,
    /// When it was below half of its best first; zero = it is not.
    pub(super) dropped_at: Mono,
    pub(super) block_secs: f64,
    /// Rate of the last hit.
    pub(super) hit: f64,
    /// The estimate when it last moved by more than 5 %; 0 = it never did.
    pub(super) moved_from: f64,
    /// Tokens that seemed saved up in the server's bucket when the probe began.
    pub(super) saved: f64,
    pub(super) surge: Surge,
    /// What the estimate rests on: answers, and seconds.
    pub(super) basis: (f32, f32),
    /// The climb is to tell whether the bucket holds so many tokens, or the limit has moved.
    pub(super) verifying: f32,
    /// Where refusals cost long blocks: the estimate at which the last one came.
    pub(super) met: f32,
}

impl Blank for Learned {
    const BLANK: &'static Self = &Self {
        moved_at: Mono::ZERO,
        drift: 0.0,
        best: 0.0,
        best_at: Mono::ZERO,
        samples: 0.0,
        burst: 0.0,
        head: 0.0,
        margin: 0.0,
        recall: None,
        cut: None,
        rises: 0.0,
        falls: 0.0,
        banned: 0,
        no_secs: 0.0,
        valid: false,
        costly: 0,
        lockout: false,
        proven: false,
        poor: 0,
        climbs: 0,
        creep: 0,
        episode: None,
        dropped_at: Mono::ZERO,
        block_secs: 0.0,
        hit: 0.0,
        moved_from: 0.0,
        saved: 0.0,
        surge: Surge::NONE,
        basis: (0.0, 0.0),
        verifying: 0.0,
        met: 0.0,
    };
}

impl Default for Learned {
    fn default() -> Self {
        Self::BLANK.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Driven, Server};
    use super::super::{Arc, Signal};
    use super::*;
    use crate::control::adaptive::{Adaptive, RateController as _};

    #[test]
    fn who_is_never_refused_has_learned_nothing_and_takes_no_memory_for_it() {
        let mut driven = Driven::new();
        for turn in 0..3_000 {
            driven.step(|_| match turn % 20 {
                3 => Signal::ServerError,
                5 => Signal::Answered,
                7 => Signal::Neutral,
                _ => Signal::Success,
            });
            driven.arc.explain(driven.mono());
            assert!(driven.arc.learned.is_blank(), "turn {turn}");
        }
        let mut server = Server::new(2.0, 3.0);
        while driven.arc.learned.is_blank() {
            driven.step(|now| server.answer(now));
        }
        assert!(driven.arc.learned.episode.is_some(), "the first refusal");
    }

    #[test]
    fn it_is_small_and_half_of_it_comes_with_the_first_refusal() {
        assert!(size_of::<Arc>() <= 240, "{} bytes", size_of::<Arc>());
        assert!(size_of::<Arc>() + size_of::<Learned>() <= 512, "{} bytes", size_of::<Learned>());
    }

    #[test]
    fn what_is_written_is_read_back_the_same() {
        let (mut driven, mut server) = (Driven::new(), Server::new(2.0, 3.0));
        let mut phases = Vec::new();
        for turn in 0..2_000 {
            driven.step(|now| server.answer(now));
            let text = serde_json::to_string(&driven.arc).expect("JSON");
            let back: Arc = serde_json::from_str(&text).expect("what was written");
            // The last digit of a number may be another one.
            assert_eq!(format!("{back:.9?}"), format!("{:.9?}", driven.arc), "turn {turn}");
            assert_eq!(back.learned.is_blank(), driven.arc.learned.is_blank());
            phases.push(back.phase);
        }
        phases.dedup();
        assert!(phases.len() > 5, "{phases:?}");
    }

    /// As it was written when all of it stood in one piece.
    const BEFORE: &str = r#"
        {"kind":"adaptive","original":{"rate":10.0,"capacity":10.0},"phase":"cruise","since":31050000000,
        "step":1.8816000000000004,"limit":1.8816000000000004,"known":true,"samples":29.0,"valid":true,
        "best":1.8816000000000004,"best_at":31050000000,"moved_from":1.8816000000000004,"moved_at":31050000000,
        "measure":{"mark":31000000000,"counted":4.0,"whole":true,"after_cut":0.0,"in_phase":3,"answered":3,
        "level":1.1183999999999994,"last":32500000000,"stopped":30500000000,"spacing":0.4986060162962316,
        "unused":0.0},"cut":30550000000,"episode":null,"burst":0.0,"saved":0.0,"head":0.7708333333333334,
        "drift":0.003375463187325258,"verifying":0.0,"hit":1.8816000000000004,"margin":0.0,"lockout":false,
        "dropped_at":0,"proven":false,"costly":0,"block_secs":0.5,"creep":0,"poor":0,"climbs":0,"refused":1,
        "budget":8,"banned":0,"errors":{"last":0,"seen":40,"usual":0.0,"before":0.0,"reacted":0,"clean":62,
        "silent_at":0,"silent":0,"eased":0},"restraint":{"most":0.0,"since":0},"queueing":{"base":0.05,"last":[0.05,
        0.05,0.05,0.05,0.05,0.05,0.05,0.05,0.05],"seen":9,"at":8,"bad":0,"bad_since":0,"bad_answers":0,
        "drain_until":0,"drain_left":0,"limited":false},"floor":0.0033333333333333335,"no_secs":0.05,"basis":[29.0,
        15.0],"told":{"rate":1.8524027586206901,"capacity":1.09408},"rises":0.0,"falls":0.0,"met":0.0}"#;

    #[test]
    fn a_state_of_before_goes_on() {
        let before: Adaptive = serde_json::from_str(BEFORE).expect("a state");
        let Adaptive::Adaptive(arc) = &before else { panic!("{before:?}") };
        assert_eq!((arc.limit, arc.learned.samples, arc.learned.block_secs), (1.8816000000000004, 29.0, 0.5));
        assert_eq!(arc.learned.cut, Some(Mono::from_nanos(30_550_000_000)));
        let now = Mono::from_nanos(32_550_000_000);
        assert!((before.target(now).rate - 1.8524).abs() < 1e-3, "{:?}", before.target(now));
        let measured = before.measured(now).expect("measured");
        assert_eq!((measured.limit, measured.samples), (1.8816000000000004, 29.0));
    }
}
