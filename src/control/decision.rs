//! Decisions: what the core changed, from what to what, why and by whom. The journal writes each one.

use serde::{Deserialize, Serialize};

use super::{HostId, Mono, OperatorSettings};

/// Who decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The adaptive controller.
    Controller,
    /// The person at the keys.
    Operator,
    /// The server, by its headers.
    Server,
    /// The site, by its robots.txt.
    Site,
    /// A check that calls for a human.
    Concern,
    /// The program itself.
    System,
}

impl Who {
    /// The word in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Operator => "operator",
            Self::Server => "server",
            Self::Site => "site",
            Self::Concern => "concern",
            Self::System => "system",
        }
    }
}

/// What was decided; the words of `events.jsonl`. Readers accept unknown words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The adaptive rate changed; before and after in tokens per second.
    Rate,
    /// The adaptive capacity changed; tokens.
    Capacity,
    /// The adaptive rate of an endpoint changed.
    EndpointRate,
    /// The adaptive capacity of an endpoint changed.
    EndpointCapacity,
    /// A hold began or was lengthened; before and after: seconds from now.
    Hold,
    /// A host shares a bucket with others from now on; before and after: the group.
    Group,
    /// The adaptive rate of a host's group changed.
    GroupRate,
    /// The adaptive capacity of a host's group changed.
    GroupCapacity,
    /// A hold of a host's group began or was lengthened.
    GroupHold,
    /// A hold of a host's group ran out and the probe's answer opened it.
    GroupOpen,
    /// A hold ended by the operator's wake.
    Wake,
    /// A hold ran out and the probe's answer opened the host.
    Open,
    /// The operator paused.
    Pause,
    /// The operator resumed, or the pause's lifetime ended.
    Resume,
    /// The operator set rate or capacity.
    Override,
    /// The override was dropped or lapsed.
    Auto,
    /// The operator set the refusal budget.
    Budget,
    /// Back to the originals.
    Reset,
    /// The last act was taken back.
    Undo,
    /// An undone act was made again.
    Redo,
    /// The whole crawl was stopped.
    Halt,
    /// The whole crawl goes on.
    GoOn,
    /// A concern was raised or cleared.
    Concern,
    /// The site's Crawl-delay took effect.
    CrawlDelay,
    /// What the server's headers say of its limit began to limit, moved, or limits no more; tokens per second (0 = none
    /// before its window ends), nothing = no limit.
    Pace,
    /// A host was given up; its URLs follow.
    GiveUp,
    /// A URL failed for good.
    UrlFailed,
    /// A URL was never sent.
    UrlSkipped,
    /// An input line could not be used.
    BadInput,
    /// Something odd that did no harm (framing, robots that look like HTML, several Retry-After).
    Anomaly,
    /// Granting stopped or goes on for a reason of our own (disk).
    System,
    /// How far the crawl is, at intervals: `after` is [`Value::Counts`].
    Progress,
    /// The run began.
    Start,
    /// The run ended.
    Stop,
    /// The operator's own words.
    Note,
    /// The operator added URLs.
    Add,
    /// The operator excluded a pattern; `after`: how many queued URLs that removed.
    Exclude,
    /// The operator allowed a pattern that was held back as a trap; `after`: how many URLs that let go.
    Allow,
    /// The operator changed how many fetches may be in flight.
    Concurrency,
    /// The configuration was read again; before and after: host rules and changed keys, in words.
    Reload,
    /// A host's original rate was changed by that; tokens per second.
    Original,
    /// An existing run goes on.
    ResumeRun,
    /// The operator had failed URLs put back; `after` is [`Value::Counts`].
    Retry,
}

/// A value before or after a decision.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A plain number: tokens per second, tokens or seconds, as `what` says.
    Number(f64),
    /// A word.
    Text(String),
    /// How far the crawl is, for `progress` and `stop`. Before `Settings`: there every field is optional.
    Counts {
        /// URLs with a final answer.
        urls_done: u64,
        /// URLs given up.
        urls_failed: u64,
        /// URLs queued or in flight.
        urls_pending: u64,
        /// URLs never sent.
        urls_skipped: u64,
    },
    /// The operator's settings of one host.
    Settings(OperatorSettings),
    /// Nothing, or nothing known.
    None,
}

/// One decision of the core. The engine adds the host's name, wall time and a sequence number.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// When.
    pub at: Mono,
    /// By whom.
    pub who: Who,
    /// About which host; `None` = the whole crawl.
    pub host: Option<HostId>,
    /// What was decided.
    pub what: What,
    /// The value before.
    pub before: Value,
    /// The value after.
    pub after: Value,
    /// Why, in words.
    pub why: String,
    /// The other host that the reason is about; whoever knows names adds its name.
    pub with: Option<HostId>,
}
