//! Fetches in tasks of their own: request in, one message out, whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;

use super::exchange::{Fetch, FetchRequest, HeadListener, Reply};
use crate::archive::ArchiveSender;
use crate::clock::Clock;
use crate::control::{Mono, Outcome};
use crate::text::of_panic;

/// What a worker reports: at most one [`Report::Asked`], then one [`Report::Finished`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind, and a box would cost each of them")]
pub enum Report {
    /// The head of a response asks for a wait; its body is still to come.
    Asked(Asked),
    /// The request ended.
    Finished(Finished),
}

/// Messages of one request at most.
pub const REPORTS_MAX: usize = 2;

/// A wait that a head asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The engine's number for the request.
    pub ticket: u64,
    /// The response's status.
    pub status: u16,
    /// The wait, as asked.
    pub wait: Duration,
}

/// How a request ended.
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
    /// Where workers report: room for [`REPORTS_MAX`] messages of each request in flight.
    pub report: mpsc::Sender<Report>,
    /// Where exchanges are kept, if they are.
    pub archive: Option<ArchiveSender>,
}

impl HeadListener for Desk {
    fn wait_asked(&self, ticket: u64, status: u16, wait: Duration) {
        // There is room; the channel is closed only when the engine is gone.
        let _ = self.report.try_send(Report::Asked(Asked { ticket, status, wait }));
    }
}

/// Workers: tasks that make one request after another. As many as were ever in flight at once, and no more: one that
/// has ended its request takes the next, since a task for each request costs more than the rest of the engine.
pub struct Crew {
    desk: Arc<Desk>,
    workers: Vec<Worker>,
    idle: Vec<usize>,
}

struct Worker {
    errands: mpsc::Sender<Errand>,
    task: JoinHandle<()>,
}

impl Crew {
    /// Nobody yet.
    pub fn new(desk: Arc<Desk>) -> Self {
        Self { desk, workers: Vec::new(), idle: Vec::new() }
    }

    /// Sends somebody off with `request`; says who it is. Whoever is aborted on the way reports nothing, whoever had not
    /// begun reports that nothing was sent: the engine takes its URL back either way.
    pub fn send(&mut self, ticket: u64, request: FetchRequest) -> usize {
        let mut errand = Errand { desk: Arc::clone(&self.desk), ticket, request: Some(request) };
        while let Some(index) = self.idle.pop() {
            match self.workers[index].errands.try_send(errand) {
                Ok(()) => return index,
                // Its task is gone, which nothing but an abort can bring about: somebody else goes.
                Err(TrySendError::Closed(back) | TrySendError::Full(back)) => errand = back,
            }
        }
        let (errands, waiting) = mpsc::channel(1);
        // There is room: nobody else knows the channel.
        let _ = errands.try_send(errand);
        self.workers.push(Worker { errands, task: tokio::spawn(work(waiting)) });
        self.workers.len() - 1
    }

    /// Worker `index` has ended its request.
    pub fn is_back(&mut self, index: usize) {
        self.idle.push(index);
    }

    /// Aborts all workers and waits until they have ended. What they reported before is reported.
    pub async fn abort(&mut self) {
        for worker in &self.workers {
            worker.task.abort();
        }
        for worker in self.workers.drain(..) {
            // What waits in the channel goes down with it, and says so. An abort is no failure, and a panic was caught.
            drop(worker.errands);
            let _ = worker.task.await;
        }
        self.idle.clear();
    }
}

async fn work(mut errands: mpsc::Receiver<Errand>) {
    while let Some(errand) = errands.recv().await {
        errand.run().await;
    }
}

/// One request on its way.
struct Errand {
    desk: Arc<Desk>,
    ticket: u64,
    /// Until it has begun.
    request: Option<FetchRequest>,
}

impl Errand {
    async fn run(mut self) {
        let Some(request) = self.request.take() else { return };
        // The call itself may panic, too: it belongs inside.
        let fetching = AssertUnwindSafe(async {
            #[cfg(debug_assertions)]
            fault::strike(&request.url);
            self.desk.fetch.fetch(request).await
        })
        .catch_unwind();
        let (reply, panicked) = match fetching.await {
            Ok(reply) => (reply, false),
            Err(panic) => {
                let told = format!("a worker panicked: {}", of_panic(panic.as_ref()));
                (Reply::failed(Outcome::Local, told), true)
            }
        };
        self.report(reply, panicked);
    }

    fn report(&self, mut reply: Reply, panicked: bool) {
        let done = self.desk.clock.now();
        // Before the report: what makes its URL done later must find it in the archive's hands.
        if let (Some(archive), Some(capture)) = (&self.desk.archive, reply.capture.take()) {
            archive.put(capture);
        }
        // There is room; the channel is closed only when the engine is gone.
        let finished = Finished { ticket: self.ticket, reply, done, panicked };
        let _ = self.desk.report.try_send(Report::Finished(finished));
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if self.request.is_some() {
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
