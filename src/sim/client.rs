//! Who asks a simulated server: the seam that the real core and the rules of others share.
//!
//! A client sees what a crawler sees: when it may send, and what came back. It knows no server and no
//! network; the world (`run`) carries its requests there and the answers back.

use std::time::Duration;

use crate::control::Mono;

/// A request on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sending {
    /// To which server of the world, by its position.
    pub server: usize,
    /// The client's own mark, handed back with the answer: a lane, an attempt.
    pub mark: u32,
}

/// What came back.
#[derive(Clone, PartialEq, Debug)]
pub struct Heard {
    /// The request.
    pub sending: Sending,
    /// When it was sent.
    pub sent: Mono,
    /// Status, or why there is none.
    pub result: Result<u16, Silence>,
    /// Headers that tell of the limit, names in lower case.
    pub headers: Vec<(&'static str, String)>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// None came in time.
    Timeout,
    /// The connection was reset.
    Reset,
}

impl Heard {
    /// Retry-After in seconds, if one was told.
    pub fn retry_after(&self) -> Option<Duration> {
        let values: Vec<&[u8]> =
            self.headers.iter().filter(|(name, _)| *name == "retry-after").map(|(_, value)| value.as_bytes()).collect();
        crate::control::retry_after::parse(&values, None, 0).wait
    }
}

/// A crawler in virtual time. All moments come in; none goes backwards.
pub trait Client {
    /// The next request that goes out at `now`; called until there is none.
    fn next(&mut self, now: Mono) -> Option<Sending>;

    /// When [`Self::next`] may have something if nothing is heard before.
    fn next_wake(&mut self) -> Mono;

    /// An answer came, or will not come any more.
    fn hear(&mut self, now: Mono, heard: &Heard);
}
