//! A server on loopback that counts and times what really comes over the wire.
//!
//! It runs on a thread and a runtime of its own: what the client's runtime does, paused time included,
//! does not touch its clock. Its answers come from a [`ServerModel`] in real time, or from a closure.
#![allow(clippy::disallowed_methods, reason = "the judge has a clock of its own, apart from the one it judges")]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use crawldeck::control::Mono;
use crawldeck::sim::{Close, Latency, Limit, RetryAfter, ServerModel, ServerSpec, SimRequest, SimResponse, Site};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HOST, USER_AGENT};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::oracle::{ALLOWED_JITTER, Arrival, assert_envelope};

/// Arrivals that are recorded; a test that makes more is wrong and is told.
const ARRIVALS_MAX: usize = 1_000_000;
/// How often the server looks whether its thread is late.
const PROBE: Duration = Duration::from_millis(5);
/// The bound of every wait for arrivals: reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server says to a request that arrives so long after its start.
pub(crate) type Behaviour = Box<dyn FnMut(Duration, &SimRequest<'_>, &HeaderMap) -> SimResponse + Send>;

/// The lab server of the peers' table: how it refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    /// 429 with `Retry-After: 2`.
    TooManyTold,
    /// 429 without a word.
    TooManyBare,
    /// 503 with `Retry-After: 2`.
    UnavailableTold,
}

impl Column {
    pub(crate) const ALL: [Self; 3] = [Self::TooManyTold, Self::TooManyBare, Self::UnavailableTold];
    /// Its pages, `/p/0` to `/p/60`.
    pub(crate) const PAGES: u32 = 61;

    /// 61 linked pages, 5 requests per second, burst 5.
    pub(crate) fn model(self) -> ServerModel {
        let told = RetryAfter::Fixed(Duration::from_secs(2));
        let (refusal, retry_after) = match self {
            Self::TooManyTold => (429, told),
            Self::TooManyBare => (429, RetryAfter::Never),
            Self::UnavailableTold => (503, told),
        };
        let spec = ServerSpec {
            limit: Limit::Bucket { rate: 5.0, burst: 5.0 },
            latency: Latency { median: Duration::from_millis(5), sigma: 0.0 },
            site: Site::of_pages(Self::PAGES),
            refusal,
            retry_after,
            ..ServerSpec::default()
        };
        ServerModel::new(spec, 0)
    }
}

/// A running server; ends, connections and thread, when dropped.
pub(crate) struct LabServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    count: watch::Receiver<usize>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    started: Instant,
    behaviour: Mutex<Behaviour>,
    arrivals: Mutex<Vec<Arrival>>,
    /// Sent after each arrival and each answer.
    changed: watch::Sender<usize>,
    /// The worst lateness of the probe, in nanoseconds.
    lateness: AtomicU64,
    connections: AtomicU64,
}

impl LabServer {
    /// Starts with answers from `model`, whose time begins now.
    pub(crate) fn of_model(mut model: ServerModel) -> Self {
        Self::start(Box::new(move |at, request, _| model.respond(Mono::ZERO.after(at), request)))
    }

    /// Starts with answers from `behaviour`.
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback");
        socket.set_nonblocking(true).expect("a socket of our own");
        let addr = socket.local_addr().expect("a bound socket");
        let (changed, count) = watch::channel(0);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            behaviour: Mutex::new(behaviour),
            arrivals: Mutex::default(),
            changed,
            lateness: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        let (served, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::Builder::new().name("lab".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(socket, served, stopped));
        });
        Self { addr, shared, count, stop, thread: Some(thread.expect("a thread")) }
    }

    /// Where it listens.
    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of `path` by address.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// All arrivals so far, in order.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let arrivals = self.shared.arrivals.lock().expect("no panic under the lock");
        assert!(arrivals.len() < ARRIVALS_MAX, "more arrivals than a test may make");
        arrivals.clone()
    }

    /// Waits until the arrivals are as wanted and gives them back; fails the test after a long time.
    pub(crate) async fn wait_for(&self, what: &str, wanted: impl Fn(&[Arrival]) -> bool) -> Vec<Arrival> {
        let mut count = self.count.clone();
        let waiting = async {
            loop {
                count.borrow_and_update();
                let arrivals = self.arrivals();
                if wanted(&arrivals) {
                    return arrivals;
                }
                count.changed().await.expect("the server outlives the wait");
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("never seen: {what}; {} arrivals", self.arrivals().len()))
    }

    /// The spread of lateness to allow for: a stated part, and what this server measured of its own.
    pub(crate) fn jitter(&self) -> Duration {
        ALLOWED_JITTER + Duration::from_nanos(self.shared.lateness.load(Ordering::Relaxed))
    }

    /// Fails the test if in any window more arrived than `capacity` and `rate` per second allow.
    #[track_caller]
    pub(crate) fn assert_envelope(&self, rate: f64, capacity: f64) {
        assert_envelope(&self.arrivals(), rate, capacity, self.jitter());
    }
}

impl Drop for LabServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the lab server panicked");
        }
    }
}

/// A client without any manners: no redirects, no retries, no proxy. `names` lead to their addresses.
pub(crate) fn bare_client(names: &[(&str, SocketAddr)]) -> reqwest::Client {
    // Installed once in the process; who comes second finds it there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .tls_certs_only([]);
    let builder = names.iter().fold(builder, |builder, (name, addr)| builder.resolve(name, *addr));
    builder.build().expect("a client")
}

async fn serve(socket: std::net::TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let listener = TcpListener::from_std(socket).expect("a listening socket");
    let tasks = TaskTracker::new();
    tasks.spawn(stop.clone().run_until_cancelled_owned(probe(Arc::clone(&shared))));
    let accepting = async {
        loop {
            let (stream, _) = listener.accept().await.expect("descriptors for a test");
            tasks.spawn(stop.clone().run_until_cancelled_owned(connection(stream, Arc::clone(&shared))));
        }
    };
    stop.run_until_cancelled(accepting).await;
    tasks.close();
    tasks.wait().await;
}

/// Measures how late this thread runs.
async fn probe(shared: Arc<Shared>) {
    loop {
        let before = Instant::now();
        tokio::time::sleep(PROBE).await;
        let late = before.elapsed().saturating_sub(PROBE);
        shared.lateness.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let number = shared.connections.fetch_add(1, Ordering::Relaxed);
    stream.set_nodelay(true).expect("a socket of our own");
    let resetting = Arc::new(Mutex::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        let answering = answer(Arc::clone(&shared), number, request, Arc::clone(&resetting));
        Box::pin(answering) as Pin<Box<dyn Future<Output = io::Result<Response<Full<Bytes>>>> + Send>>
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Ends with an error when the client leaves in the middle, or when we reset.
    let _ = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if *resetting.lock().expect("no panic under the lock") {
        connection.into_parts().io.inner().set_zero_linger().expect("a socket of our own");
    }
}

async fn answer(
    shared: Arc<Shared>,
    connection: u64,
    request: Request<Incoming>,
    resetting: Arc<Mutex<bool>>,
) -> io::Result<Response<Full<Bytes>>> {
    let (index, simulated) = record(&shared, connection, &request);
    tokio::time::sleep(simulated.latency).await;
    match simulated.close {
        Close::No => {}
        Close::ResetBefore => {
            *resetting.lock().expect("no panic under the lock") = true;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Close::Silent => return std::future::pending().await,
    }
    let mut response = Response::builder().status(simulated.status);
    for (name, value) in &simulated.headers {
        response = response.header(*name, value);
    }
    let response = response.body(Full::new(Bytes::from(simulated.body.bytes()))).expect("a well-formed answer");
    let told = response.headers().get("retry-after").and_then(|value| value.to_str().ok()).and_then(wait_told);
    {
        let mut arrivals = shared.arrivals.lock().expect("no panic under the lock");
        if let Some(arrival) = arrivals.get_mut(index) {
            arrival.answered = Some(shared.started.elapsed());
            arrival.status = simulated.status;
            arrival.retry_after = told;
        }
    }
    shared.changed.send_modify(|count| *count += 1);
    Ok(response)
}

/// Notes the arrival and asks the behaviour; under one lock, so that arrivals ascend in time.
fn record(shared: &Shared, connection: u64, request: &Request<Incoming>) -> (usize, SimResponse) {
    let headers = request.headers();
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let host = text(HOST).unwrap_or_default();
    let index;
    let simulated;
    {
        let mut arrivals = shared.arrivals.lock().expect("no panic under the lock");
        let at = shared.started.elapsed();
        let asked = SimRequest { method: request.method().as_str(), host: &host, path };
        simulated = (shared.behaviour.lock().expect("no panic under the lock"))(at, &asked, headers);
        index = arrivals.len();
        if index < ARRIVALS_MAX {
            arrivals.push(Arrival {
                at,
                connection,
                method: request.method().to_string(),
                path: path.to_owned(),
                user_agent: text(USER_AGENT).unwrap_or_default(),
                headers: headers
                    .iter()
                    .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
                    .collect(),
                host: host.clone(),
                status: 0,
                retry_after: None,
                answered: None,
            });
        }
    }
    shared.changed.send_modify(|count| *count += 1);
    (index, simulated)
}

/// The wait that a Retry-After tells now: seconds, or a date.
fn wait_told(value: &str) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).ok(),
    }
}
