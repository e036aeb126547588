//! One fetch in a task of its own: request in, one message out, whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exchange::{Fetch, FetchRequest, Reply};
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
    /// Where workers report.
    pub report: mpsc::Sender<Finished>,
    /// Ends them all.
    pub cancel: CancellationToken,
}

/// Makes one request and reports. One that is cancelled on its way reports nothing, one that is cancelled
/// before it began reports that nothing was sent: the engine takes its URL back either way.
pub async fn run(desk: Arc<Desk>, ticket: u64, request: FetchRequest) {
    let Desk { fetch, clock, report, cancel } = &*desk;
    if cancel.is_cancelled() {
        let reply = Reply { on_wire: false, ..Reply::failed(Outcome::Local, "stopped before it was sent") };
        let _ = report.send(Finished { ticket, reply, done: clock.now(), panicked: false }).await;
        return;
    }
    // The call itself may panic, too: it belongs inside.
    let fetching = AssertUnwindSafe(async { fetch.fetch(request).await }).catch_unwind();
    let (reply, panicked) = tokio::select! {
        biased;
        () = cancel.cancelled() => return,
        reply = fetching => match reply {
            Ok(reply) => (reply, false),
            Err(panic) => (Reply::failed(Outcome::Local, panic_text(panic.as_ref())), true),
        },
    };
    let done = clock.now();
    // The channel holds as many messages as there can be requests: this never waits for long. It is
    // closed only when the engine is gone.
    let _ = report.send(Finished { ticket, reply, done, panicked }).await;
}

/// The message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a worker panicked: {}", text.unwrap_or("no message"))
}
