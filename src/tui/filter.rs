//! Which hosts are shown: a small language over name, state and figures.
//!
//! `is:stuck`, `state:back`, `429>0`, `5xx>10`, `rate<0.5`, `hold>60`, part of a name, a glob; `!` turns a
//! term round, a space is *and*, `|` is *or* and binds less. Codes and classes count the last 5 minutes.
//! A filter is read once; asking it about a row allocates nothing, so a table costs O(rows).

mod parse;

use globset::GlobMatcher;

use crate::control::{Code, ConcernKind, HostState, HostView, Mono};
use crate::text::Clean;
use crate::watch::HostRow;

pub use parse::FilterError;
pub(super) use parse::nearest;

/// Terms that a filter has at most.
pub const TERMS_MAX: usize = 32;

/// A condition on one host.
#[derive(Clone, Debug)]
enum Test {
    /// Part of the name, in small letters.
    Part(String),
    /// The whole name.
    Glob(GlobMatcher),
    /// Part of its group's name, in small letters.
    Group(String),
    /// A property in a word.
    Is(Property),
    /// The state's word.
    State(HostState),
    /// A figure against a number.
    Figure(Figure, Comparison, f64),
}

/// What `is:` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Property {
    Concern(ConcernKind),
    Override,
    Paused,
    Held,
    Done,
}

impl Property {
    /// All with their words.
    const ALL: [(&'static str, Self); 10] = [
        ("stuck", Self::Concern(ConcernKind::Stuck)),
        ("angry", Self::Concern(ConcernKind::Angry)),
        ("shared", Self::Concern(ConcernKind::SharedLimit)),
        ("trap", Self::Concern(ConcernKind::Trap)),
        ("tail", Self::Concern(ConcernKind::Tail)),
        ("forgotten", Self::Concern(ConcernKind::Forgotten)),
        ("override", Self::Override),
        ("paused", Self::Paused),
        ("held", Self::Held),
        ("done", Self::Done),
    ];

    fn applies(self, view: &HostView, now: Mono) -> bool {
        match self {
            Self::Concern(kind) => view.concern.is_some_and(|concern| concern.kind == kind),
            Self::Override => view.overriding.is_some(),
            Self::Paused => view.pause.is_some() || view.state == HostState::Paused,
            Self::Held => view.hold_left(now).is_some(),
            Self::Done => view.state == HostState::Done,
        }
    }
}

/// A number that a row has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Figure {
    /// Answers with this status in the last 5 minutes.
    Status(u16),
    /// Answers of this class in the last 5 minutes: 2xx 3xx 4xx 5xx, errors.
    Class(usize),
    /// Effective, adaptive and original rate.
    Rate,
    Auto,
    Orig,
    /// URLs queued.
    Queue,
    /// Seconds left of the hold.
    Hold,
    InFlight,
    Requests,
}

impl Figure {
    /// All that have a word of their own; statuses are numbers.
    const ALL: [(&'static str, Self); 12] = [
        ("2xx", Self::Class(0)),
        ("3xx", Self::Class(1)),
        ("4xx", Self::Class(2)),
        ("5xx", Self::Class(3)),
        ("err", Self::Class(4)),
        ("rate", Self::Rate),
        ("auto", Self::Auto),
        ("orig", Self::Orig),
        ("queue", Self::Queue),
        ("hold", Self::Hold),
        ("inflight", Self::InFlight),
        ("requests", Self::Requests),
    ];

    #[expect(clippy::cast_precision_loss, reason = "a count beyond 2^53 may be off by a few")]
    fn of(self, view: &HostView, now: Mono) -> f64 {
        match self {
            Self::Status(status) => {
                let found = view.codes.iter().find(|count| count.code == Code::Status(status));
                f64::from(found.map_or(0, |count| count.recent))
            }
            Self::Class(class) => f64::from(view.recent.get(class).copied().unwrap_or(0)),
            Self::Rate => view.effective.rate,
            Self::Auto => view.adaptive.rate,
            Self::Orig => view.original.rate,
            Self::Queue => view.queued as f64,
            Self::Hold => view.hold_left(now).map_or(0.0, |left| left.as_secs_f64()),
            Self::InFlight => f64::from(view.in_flight),
            Self::Requests => view.requests as f64,
        }
    }
}

/// How a figure is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

impl Comparison {
    fn holds(self, figure: f64, bound: f64) -> bool {
        match self {
            Self::Less => figure < bound,
            Self::AtMost => figure <= bound,
            Self::Equal => (figure - bound).abs() <= f64::EPSILON * bound.abs(),
            Self::AtLeast => figure >= bound,
            Self::More => figure > bound,
        }
    }
}

/// A condition, perhaps turned round.
#[derive(Clone, Debug)]
struct Term {
    not: bool,
    test: Test,
}

impl Term {
    fn takes(&self, row: &HostRow, now: Mono) -> bool {
        let view = &row.view;
        let applies = match &self.test {
            Test::Part(part) => row.name.as_str().contains(part.as_str()),
            Test::Glob(glob) => glob.is_match(row.name.as_str()),
            Test::Group(part) => row.group.as_ref().is_some_and(|group| group.as_str().contains(part.as_str())),
            Test::Is(property) => property.applies(view, now),
            Test::State(state) => view.state == *state,
            Test::Figure(figure, comparison, bound) => comparison.holds(figure.of(view, now), *bound),
        };
        applies != self.not
    }

    /// Whether time alone may change what it says.
    fn is_timed(&self) -> bool {
        matches!(self.test, Test::Is(Property::Held) | Test::Figure(Figure::Hold, ..))
    }
}

/// What a host must be like: any of the alternatives, all of whose terms apply. The empty filter takes
/// every host.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    alternatives: Vec<Vec<Term>>,
    text: Clean,
}

impl Filter {
    /// Reads a filter.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Ok(Self { alternatives: parse::alternatives(text)?, text: Clean::new(text.trim()) })
    }

    /// Reads a filter that asks for names alone: nothing else is known of a host in the review of a run.
    pub fn parse_names(text: &str) -> Result<Self, FilterError> {
        Ok(Self { alternatives: parse::names(text)?, text: Clean::new(text.trim()) })
    }

    /// The filter that takes the host of this name alone.
    pub fn exact(name: &Clean) -> Self {
        let glob = globset::Glob::new(&globset::escape(name.as_str())).map(|glob| glob.compile_matcher());
        // An escaped name is always a glob; if it were none, the name as a part would do.
        let test = glob.map_or_else(|_| Test::Part(name.as_str().to_owned()), Test::Glob);
        Self { alternatives: vec![vec![Term { not: false, test }]], text: name.clone() }
    }

    /// As typed.
    pub fn text(&self) -> &Clean {
        &self.text
    }

    /// Whether it takes every host.
    pub fn is_empty(&self) -> bool {
        self.alternatives.is_empty()
    }

    /// Whether a host of this name is taken where nothing else is known of it; see [`Self::parse_names`]. Terms
    /// about figures and states say nothing there.
    pub fn takes_name(&self, name: &str) -> bool {
        let says = |term: &Term| match &term.test {
            Test::Part(part) => name.contains(part.as_str()) != term.not,
            Test::Glob(glob) => glob.is_match(name) != term.not,
            Test::Group(_) | Test::Is(_) | Test::State(_) | Test::Figure(..) => true,
        };
        self.is_empty() || self.alternatives.iter().any(|terms| terms.iter().all(says))
    }

    /// Whether the host is shown at the engine's time `now`.
    pub fn takes(&self, row: &HostRow, now: Mono) -> bool {
        self.is_empty() || self.alternatives.iter().any(|terms| terms.iter().all(|term| term.takes(row, now)))
    }

    /// Whether time alone may change which hosts it takes: then it must be asked again as time passes.
    pub fn is_timed(&self) -> bool {
        self.alternatives.iter().flatten().any(Term::is_timed)
    }
}

#[cfg(test)]
mod tests;
