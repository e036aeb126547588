//! A server on loopback, on a thread of its own, that times what arrives and answers as it is told.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// What the server says.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Bytes,
    pub(crate) after: Duration,
    /// It says that it is HTML.
    pub(crate) html: bool,
}

impl Answer {
    pub(crate) fn ok(body: Bytes) -> Self {
        Self { status: 200, retry_after: None, body, after: Duration::ZERO, html: false }
    }
}

/// A request that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When its head was complete.
    pub(crate) at: Instant,
    /// What it was answered with.
    pub(crate) status: u16,
    /// When the answer was ready.
    pub(crate) answered: Instant,
    /// The wait that the answer told.
    pub(crate) retry_after: Option<Duration>,
    /// `/p/N`: N.
    pub(crate) page: Option<u32>,
}

/// Decides by the time since the start and the path.
pub(crate) type Behaviour = Box<dyn FnMut(Duration, &str) -> Answer + Send>;

struct State {
    behaviour: Behaviour,
    arrivals: Vec<Arrival>,
}

/// A running server; it lives until the process ends.
#[derive(Clone)]
pub(crate) struct Server {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback");
        socket.set_nonblocking(true).expect("a socket of our own");
        let addr = socket.local_addr().expect("bound");
        let state = Arc::new(Mutex::new(State { behaviour, arrivals: Vec::with_capacity(1 << 20) }));
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(socket, serving));
        });
        Self { addr, state }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// URLs of the pages from 0 on, a line each.
    pub(crate) fn pages(&self, count: u32) -> String {
        (0..count).map(|page| format!("http://{}/p/{page}\n", self.addr)).collect()
    }

    /// All arrivals so far, in order.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.lock().arrivals.clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().arrivals.len()
    }

    /// The latest arrival.
    pub(crate) fn last(&self) -> Option<Arrival> {
        self.lock().arrivals.last().copied()
    }

    /// Forgets what came so far.
    pub(crate) fn clear(&self) {
        self.lock().arrivals.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under the lock")
    }
}

async fn serve(socket: std::net::TcpListener, state: Arc<Mutex<State>>) {
    let listener = tokio::net::TcpListener::from_std(socket).expect("a listening socket");
    let started = Instant::now();
    loop {
        let (stream, _) = listener.accept().await.expect("descriptors");
        stream.set_nodelay(true).expect("a socket of our own");
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answering = answer(Arc::clone(&state), started, request);
                Box::pin(answering) as Pin<Box<dyn Future<Output = hyper::http::Result<Response<Full<Bytes>>>> + Send>>
            });
            // A client that leaves is no failure of the figure.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    started: Instant,
    request: Request<Incoming>,
) -> hyper::http::Result<Response<Full<Bytes>>> {
    let at = Instant::now();
    let path = request.uri().path();
    let page = path.strip_prefix("/p/").and_then(|number| number.parse().ok());
    let answer = {
        let mut state = state.lock().expect("no panic under the lock");
        let answer = (state.behaviour)(at - started, path);
        let retry_after = answer.retry_after.map(Duration::from_secs);
        state.arrivals.push(Arrival { at, status: answer.status, answered: at + answer.after, retry_after, page });
        answer
    };
    if !answer.after.is_zero() {
        tokio::time::sleep(answer.after).await;
    }
    let mut response = Response::builder().status(answer.status);
    if let Some(seconds) = answer.retry_after {
        response = response.header("retry-after", seconds);
    }
    if answer.html {
        response = response.header("content-type", "text/html; charset=utf-8");
    }
    response.body(Full::new(answer.body))
}
