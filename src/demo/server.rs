//! One listener around one model: HTTP/1.1 with hyper, nothing but what the model says.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections a listener (more wait in the system's backlog), an idle
//! connection is closed after [`IDLE_MAX`], a silent one after [`SILENCE_MAX`]. While all connections are
//! taken none is kept open after its answer, so that idle ones do not starve those that wait.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::control::Mono;
use crate::sim::{Close, ServerModel, SimRequest, SimResponse};

/// Connections of one listener at most.
const CONNECTIONS_MAX: usize = 64;
/// A connection without a request is closed after this.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// A connection on which the server says nothing is closed after this.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Wait after a failed accept (no descriptors left), so that it is not asked in a circle.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A model with the time it lives in.
pub(super) struct HostServer {
    /// Held for one call of the model, never across an await.
    model: Mutex<ServerModel>,
    clock: Arc<dyn Clock>,
    started: Mono,
}

impl HostServer {
    /// A server whose time begins now.
    pub(super) fn new(model: ServerModel, clock: Arc<dyn Clock>) -> Arc<Self> {
        let started = clock.now();
        Arc::new(Self { model: Mutex::new(model), clock, started })
    }

    fn now(&self) -> Mono {
        Mono::ZERO.after(self.clock.now().since(self.started))
    }

    fn connect(&self) -> Close {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).connect(self.now())
    }

    fn respond(&self, request: &Request<Incoming>) -> SimResponse {
        let host = request.headers().get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let request = SimRequest { method: request.method().as_str(), host, path };
        self.model.lock().unwrap_or_else(PoisonError::into_inner).respond(self.now(), &request)
    }
}

/// Accepts until `stop`; every connection is a task of `tasks` and ends with `stop`, too.
pub(super) async fn serve(listener: TcpListener, server: Arc<HostServer>, stop: CancellationToken, tasks: TaskTracker) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = async {
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (server, slots, stop) = (Arc::clone(&server), Arc::clone(&slots), stop.clone());
            tasks.spawn(async move {
                stop.run_until_cancelled(connection(stream, server, slots)).await;
                drop(slot);
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
}

/// Serves one connection to its end.
async fn connection(stream: TcpStream, server: Arc<HostServer>, slots: Arc<Semaphore>) {
    match server.connect() {
        Close::No => {}
        Close::ResetBefore => return reset(&stream),
        Close::Silent => return tokio::time::sleep(SILENCE_MAX).await,
    }
    // Small answers must not wait for an acknowledgement. Failing to set it costs speed only.
    let _ = stream.set_nodelay(true);
    let resetting = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        let answering = answer(Arc::clone(&server), Arc::clone(&slots), request, Arc::clone(&resetting));
        Box::pin(answering) as Pin<Box<dyn Future<Output = io::Result<Response<Full<Bytes>>>> + Send>>
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // A failure here is the client's or our own reset: there is nobody to tell.
    let _ = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if resetting.load(Ordering::Relaxed) {
        reset(connection.into_parts().io.inner());
    }
}

/// Makes the close that follows a reset.
fn reset(stream: &TcpStream) {
    // If it cannot be set the client sees an orderly close instead.
    let _ = stream.set_zero_linger();
}

/// One request: what the model says, when it says so. An error ends the connection without an answer.
async fn answer(
    server: Arc<HostServer>,
    slots: Arc<Semaphore>,
    request: Request<Incoming>,
    resetting: Arc<AtomicBool>,
) -> io::Result<Response<Full<Bytes>>> {
    let simulated = server.respond(&request);
    tokio::time::sleep(simulated.latency).await;
    match simulated.close {
        Close::No => {}
        Close::ResetBefore => {
            resetting.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Close::Silent => {
            tokio::time::sleep(SILENCE_MAX).await;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    let mut response = Response::builder().status(simulated.status);
    for (name, value) in &simulated.headers {
        response = response.header(*name, value);
    }
    if slots.available_permits() == 0 {
        response = response.header(CONNECTION, "close");
    }
    response.body(Full::new(Bytes::from(simulated.body.bytes()))).map_err(io::Error::other)
}
