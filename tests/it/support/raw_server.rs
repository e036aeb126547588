//! A server that plays byte scripts on loopback and records what arrived: the oracle outside of the
//! program. Plain TCP or TLS; HTTP/2 is played as raw frames. Stops when it is dropped.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Longest head that is read.
const HEAD_MAX: usize = 256 * 1024;
/// Times that [`Step::Forever`] writes at most.
const FOREVER: usize = 100_000;

/// One thing that the server does on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads one HTTP/1 request head and records it.
    Request,
    /// Reads HTTP/2 frames until this many HEADERS frames more have come; each is recorded.
    H2Requests(usize),
    /// Reads whatever comes next.
    ReadSome,
    /// Writes bytes.
    Write(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Writes the bytes again and again, with this pause between, until the client is gone.
    Forever(Vec<u8>, Duration),
    /// The same, until this is set; then it goes on.
    Until(Vec<u8>, Duration, Arc<AtomicBool>),
    /// Closes with a reset instead of a FIN.
    Reset,
}

/// Writes text.
pub(crate) fn write(text: impl AsRef<[u8]>) -> Step {
    Step::Write(text.as_ref().to_vec())
}

/// Reads a request and answers it with `response`.
pub(crate) fn answer(response: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Request, write(response)]
}

/// A whole response with a length.
pub(crate) fn response(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// What the server saw.
#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    written: AtomicU64,
    /// Connections on which the client went away while the server was writing.
    cut: AtomicUsize,
}

/// The server.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    task: AbortHandle,
}

impl RawServer {
    /// Plays `scripts[n]` on the n-th connection, and the last one on all later ones.
    pub(crate) async fn start(scripts: Vec<Vec<Step>>) -> Self {
        Self::start_at("127.0.0.1:0", None, scripts).await
    }

    /// The same over TLS.
    pub(crate) async fn start_tls(acceptor: TlsAcceptor, scripts: Vec<Vec<Step>>) -> Self {
        Self::start_at("127.0.0.1:0", Some(acceptor), scripts).await
    }

    /// The same on another loopback address.
    pub(crate) async fn start_at(at: &str, tls: Option<TlsAcceptor>, scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind(at).await.expect("a loopback port");
        let address = listener.local_addr().expect("address");
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn(serve(listener, tls, scripts, Arc::clone(&seen))).abort_handle();
        Self { address, seen, task }
    }

    /// A URL on this server by address.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().expect("URL")
    }

    /// Heads of the requests so far, in the order in which they came.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().expect("lock").clone()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.seen.written.load(Ordering::SeqCst)
    }

    /// Waits until the client has gone away while the server was writing.
    pub(crate) async fn was_cut(&self) {
        for _ in 0..1_000 {
            if self.seen.cut.load(Ordering::SeqCst) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the client did not go away");
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, scripts: Vec<Vec<Step>>, seen: Arc<Seen>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let turn = seen.connections.fetch_add(1, Ordering::SeqCst);
        let script = scripts[turn.min(scripts.len() - 1)].clone();
        let (seen, tls) = (Arc::clone(&seen), tls.clone());
        connections.spawn(async move {
            // A client that goes away ends the script.
            let _ = match tls {
                None => play_tcp(stream, &script, &seen).await,
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(mut stream) => {
                        let played = play(&mut stream, &script, &seen).await;
                        let _ = stream.shutdown().await;
                        played
                    }
                    Err(error) => Err(error),
                },
            };
        });
    }
}

/// Plain TCP: may end in a reset.
async fn play_tcp(mut stream: TcpStream, script: &[Step], seen: &Seen) -> io::Result<()> {
    play(&mut stream, script, seen).await?;
    if script.iter().any(|step| matches!(step, Step::Reset)) {
        stream.set_zero_linger()?;
    } else {
        stream.shutdown().await?;
        // Reads on, so that unread bytes do not turn the FIN into a reset.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
    }
    Ok(())
}

async fn play<S>(stream: &mut S, script: &[Step], seen: &Seen) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut preface = true;
    for step in script {
        match step {
            Step::Request => read_head(stream, seen).await?,
            Step::H2Requests(count) => read_h2(stream, seen, *count, &mut preface).await?,
            Step::ReadSome => {
                let mut some = [0; 4096];
                if stream.read(&mut some).await? == 0 {
                    return Ok(());
                }
            }
            Step::Write(bytes) => put(stream, bytes, seen).await?,
            Step::Pause(time) => tokio::time::sleep(*time).await,
            Step::Forever(bytes, pause) => {
                for _ in 0..FOREVER {
                    put(stream, bytes, seen).await?;
                    if !pause.is_zero() {
                        tokio::time::sleep(*pause).await;
                    }
                }
            }
            Step::Until(bytes, pause, is_over) => {
                while !is_over.load(Ordering::SeqCst) {
                    put(stream, bytes, seen).await?;
                    tokio::time::sleep(*pause).await;
                }
            }
            Step::Reset => return Ok(()),
        }
    }
    Ok(())
}

async fn put<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8], seen: &Seen) -> io::Result<()> {
    let result = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    match result.await {
        Ok(()) => {
            seen.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            Ok(())
        }
        Err(error) => {
            seen.cut.fetch_add(1, Ordering::SeqCst);
            Err(error)
        }
    }
}

/// Reads one request head, byte for byte, so that nothing of the next one is taken.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S, seen: &Seen) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX {
        head.push(stream.read_u8().await?);
    }
    seen.requests.lock().expect("lock").push(String::from_utf8_lossy(&head).into_owned());
    Ok(())
}

/// Reads HTTP/2 frames until `count` HEADERS frames have come; records "h2 stream N" for each, and
/// "h2 reset N" for each stream that the client resets.
async fn read_h2<S: AsyncRead + Unpin>(
    stream: &mut S,
    seen: &Seen,
    count: usize,
    preface: &mut bool,
) -> io::Result<()> {
    if std::mem::take(preface) {
        let mut bytes = [0; 24];
        stream.read_exact(&mut bytes).await?;
    }
    let mut found = 0;
    while found < count {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let what = match head[3] {
            1 => "stream",
            3 => "reset",
            _ => continue,
        };
        found += usize::from(head[3] == 1);
        seen.requests.lock().expect("lock").push(format!("h2 {what} {id}"));
    }
    Ok(())
}

/// An HTTP/2 frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A certificate for `name`, and the key to it.
pub(crate) struct Identity {
    pub(crate) pem: String,
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Identity {
    /// Self-signed and valid now.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |_| {})
    }

    /// Self-signed, with `change` made to it before.
    pub(crate) fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("name");
        change(&mut params);
        let key = KeyPair::generate().expect("key");
        let certificate = params.self_signed(&key).expect("certificate");
        Self { pem: certificate.pem(), certificate, key }
    }

    /// A TLS server with it that speaks `alpn`.
    pub(crate) fn acceptor(&self, alpn: &[&str]) -> TlsAcceptor {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(vec![self.certificate.der().clone()], key)
                .expect("certificate and key");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}
