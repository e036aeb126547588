//! One fetch in a task of its own: request in, one message out, whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use super::exchange::{Fetch, FetchRequest, Reply};
use crate::archive::ArchiveSender;
use crate::clock::Clock;
use crate::control::{Mono, Outcome};

/// What a worker reports.
#[derive(Debug)]
pub struct Finished {
    /// The engine's number for the request.
    pub ticket: u64,
    /// What came back.
    pub reply: Reply,
    /// When the last byte was there.
    pub done: Mono,
    /// The worker panicked: one failed fetch, nothing more.
    pub panicked: bool,
}

/// What all workers share.
pub struct Desk {
    /// Makes the wire requests.
    pub fetch: Arc<dyn Fetch>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where workers report: room for one message of each request in flight.
    pub report: mpsc::Sender<Finished>,
    /// Where exchanges are kept, if they are.
    pub archive: Option<ArchiveSender>,
}

/// Makes one request and reports. One that is aborted on its way reports nothing, one that is aborted
/// before it began reports that nothing was sent: the engine takes its URL back either way.
pub fn run(desk: Arc<Desk>, ticket: u64, request: FetchRequest) -> impl Future<Output = ()> + Send {
    // Made here and not inside, so that it is there also if the task is aborted before its first turn.
    let mut errand = Errand { desk, ticket, begun: false };
    async move {
        errand.begun = true;
        // The call itself may panic, too: it belongs inside.
        let fetching = AssertUnwindSafe(async {
            #[cfg(debug_assertions)]
            fault::strike(&request.url);
            errand.desk.fetch.fetch(request).await
        })
        .catch_unwind();
        let (reply, panicked) = match fetching.await {
            Ok(reply) => (reply, false),
            Err(panic) => (Reply::failed(Outcome::Local, panic_text(panic.as_ref())), true),
        };
        errand.report(reply, panicked);
    }
}

/// One request on its way.
struct Errand {
    desk: Arc<Desk>,
    ticket: u64,
    begun: bool,
}

impl Errand {
    fn report(&self, mut reply: Reply, panicked: bool) {
        let done = self.desk.clock.now();
        // Before the report: what makes its URL done later must find it in the archive's hands.
        if let (Some(archive), Some(capture)) = (&self.desk.archive, reply.capture.take()) {
            archive.put(capture);
        }
        // There is room for one message of each request; the channel is closed only when the engine is gone.
        let _ = self.desk.report.try_send(Finished { ticket: self.ticket, reply, done, panicked });
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if !self.begun {
            let unsent = Reply::failed(Outcome::Local, "stopped before it was sent");
            self.report(Reply { on_wire: false, ..unsent }, false);
        }
    }
}

/// Faults that tests of the whole program ask for; debug builds alone have them.
#[cfg(debug_assertions)]
mod fault {
    use url::Url;

    /// A part of the URLs whose worker is to panic.
    const PANIC_AT: &str = "CRAWLDECK_TEST_PANIC_AT";

    /// Panics if the environment asks for it at this URL.
    #[expect(clippy::panic, reason = "it is what the test asks for")]
    pub(super) fn strike(url: &Url) {
        if let Ok(part) = std::env::var(PANIC_AT)
            && url.as_str().contains(&part)
        {
            std::panic::panic_any(format!("asked for by {PANIC_AT}"));
        }
    }
}

/// The message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a worker panicked: {}", text.unwrap_or("no message"))
}
