//! One wire request over HTTP: [`HttpFetcher`] makes exactly one, or none if the address is refused.
//!
//! The story of a request: `guard` and `resolve` (may we connect there?) → `headers` and `cookies` (what
//! do we say?) → `client` (the wire) → `head` (limits, redirect target) → `body` and `decode` (caps,
//! clocks, content codings) → `failure` (what do we call what went wrong?).
//!
//! What it deliberately does not do: follow a redirect, send anything twice, wait for its turn, or judge
//! a status. With a proxy configured only address literals are checked here: names are resolved by the
//! proxy (`socks5://` excepted), so the operator's proxy has to guard its own network.

mod alarm;
pub mod body;
mod client;
mod cookies;
pub mod decode;
mod failure;
pub mod guard;
mod head;
mod headers;
mod keeping;
pub mod resolve;
mod search;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{DATE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Request};
use url::{Host, Url};

use self::alarm::Alarms;
use self::body::{BodyEnd, BodyRules};
use self::cookies::Jars;
use self::failure::{Ends, Failure};
use self::guard::Guard;
use self::headers::{RequestHeaders, Withheld};
use self::keeping::Keeping;
use self::resolve::{GuardedResolver, Lookup, SystemLookup, refusal};
use super::exchange::{AddressFuture, Fetch, FetchRequest, Reply, ReplyFuture};
use crate::archive::spool::Beyond;
use crate::archive::{Room, Truncated};
use crate::clock::Clock;
use crate::config::{HostRule, NetworkConfig};
use crate::control::{Outcome, Verdict, retry_after};
use crate::text::Clean;

/// Idle connections kept to one host, unless [`FetcherOptions::idle_per_host`] says otherwise.
const IDLE_PER_HOST: usize = 4;
/// Over how long the least rate of a body is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(30);
/// Connections remembered as having served a response; at the bound all are forgotten, and a few
/// closed ones then count as attempts.
const SERVED_MAX: usize = 65_536;

/// Why a fetcher cannot be built. No text here holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum FetcherError {
    /// The User-Agent cannot be sent.
    #[error("crawl.user_agent has characters that cannot be sent in a header")]
    UserAgent,
    /// A header of a host rule cannot be sent.
    #[error("host {host:?}: the header {name:?} {reason}")]
    Header {
        /// The rule's pattern.
        host: String,
        /// The header's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The proxy's URL is of no use.
    #[error("network.proxy is not a URL of a proxy that can be used")]
    Proxy,
    /// Extra certificates could not be read.
    #[error("network.extra_roots: {} could not be read: {reason}", path.display())]
    Roots {
        /// The PEM file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("TLS could not be set up")]
    Tls(#[source] rustls::Error),
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be built")]
    Client(#[source] reqwest::Error),
}

/// What a fetcher may be told beside the configuration.
#[derive(Clone)]
pub struct FetcherOptions {
    /// Idle connections kept to one host: the most `connections` of any host is of use; 0 = none.
    pub idle_per_host: usize,
    /// Over how long `min_body_rate` is averaged.
    pub rate_window: Duration,
    /// Where addresses of names come from.
    pub lookup: Arc<dyn Lookup>,
    /// Where what is received is kept for the archive; `None` = it is not.
    pub keep: Option<Arc<Room>>,
}

impl Default for FetcherOptions {
    fn default() -> Self {
        Self { idle_per_host: IDLE_PER_HOST, rate_window: RATE_WINDOW, lookup: Arc::new(SystemLookup), keep: None }
    }
}

/// Makes wire requests over HTTP/1.1 and HTTP/2. Cheap to clone.
#[derive(Clone)]
pub struct HttpFetcher {
    wire: Arc<Wire>,
}

impl HttpFetcher {
    /// A fetcher with the usual options. Headers of `hosts` go to the hosts that match, first match wins.
    pub fn new(
        network: &NetworkConfig,
        user_agent: &str,
        hosts: Arc<[HostRule]>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FetcherError> {
        Self::with_options(network, user_agent, hosts, clock, FetcherOptions::default())
    }

    /// The same with `options`.
    pub fn with_options(
        network: &NetworkConfig,
        user_agent: &str,
        hosts: Arc<[HostRule]>,
        clock: Arc<dyn Clock>,
        options: FetcherOptions,
    ) -> Result<Self, FetcherError> {
        let guard = Guard::from_config(network.allow_private);
        let proxy = network.proxy.as_ref().and_then(|url| url.host_str().map(str::to_owned));
        // Half of the time to a connection, so that a hanging look-up is named as what it is.
        let deadline = network.connect_timeout / 2;
        let resolver =
            Arc::new(GuardedResolver::new(&network.resolve, proxy.as_deref(), guard, options.lookup, deadline));
        Ok(Self {
            wire: Arc::new(Wire {
                client: client::build(network, options.idle_per_host, Arc::clone(&resolver))?,
                headers: RequestHeaders::try_new(user_agent, hosts)?,
                cookies: network.cookies.then(Jars::default),
                guard,
                resolver,
                head_timeout: network.head_timeout,
                alarms: Alarms::default(),
                rules: BodyRules {
                    idle: network.idle_timeout,
                    min_rate: network.min_body_rate,
                    window: options.rate_window,
                    max_body: network.max_body,
                },
                served: Mutex::default(),
                keep: options.keep,
                is_direct: network.proxy.is_none(),
                clock,
            }),
        })
    }
}

impl Fetch for HttpFetcher {
    fn fetch(&self, request: FetchRequest) -> ReplyFuture {
        let wire = Arc::clone(&self.wire);
        Box::pin(async move { wire.exchange(request).await })
    }

    fn address(&self, url: Url) -> AddressFuture {
        let wire = Arc::clone(&self.wire);
        Box::pin(async move { wire.address(&url).await })
    }

    fn set_hosts(&self, hosts: Arc<[HostRule]>) -> Result<(), String> {
        self.wire.headers.set_rules(hosts).map_err(|error| error.to_string())
    }
}

/// All that a request needs.
struct Wire {
    client: Client,
    headers: RequestHeaders,
    cookies: Option<Jars>,
    guard: Guard,
    resolver: Arc<GuardedResolver>,
    head_timeout: Duration,
    alarms: Alarms,
    rules: BodyRules,
    /// Connections that have served a response. A lock, because requests run side by side; held for one
    /// look-up, never across an await.
    served: Mutex<HashSet<Ends>>,
    keep: Option<Arc<Room>>,
    /// Connections lead to the servers themselves, not to a proxy.
    is_direct: bool,
    clock: Arc<dyn Clock>,
}

impl Wire {
    async fn exchange(&self, request: FetchRequest) -> Reply {
        let FetchRequest { url, kind, links, listener } = request;
        if let Some(failure) = self.refuse(&url) {
            return failed(failure);
        }
        let (target, headers, mut anomalies) = self.prepare(&url);
        let mut keeping =
            self.keep.as_ref().map(|room| Keeping::begin(room, &*self.clock, &url, kind, &target, &headers));
        let mut request = Request::new(Method::GET, target);
        *request.headers_mut() = headers;
        let send = self.client.execute(request);
        // From send to the end of the head, connecting and informational responses included.
        let response = match self.alarms.within(self.head_timeout, send).await {
            Some(Ok(response)) => response,
            Some(Err(error)) => {
                return failed(failure::before_head(&error.without_url(), |ends| self.forget(ends)));
            }
            None => {
                let text = format!("no whole head of a response within {:?}", self.head_timeout);
                return failed(Failure::new(Outcome::Timeout, text));
            }
        };
        if let Some(ends) = failure::ends(response.extensions()) {
            self.remember(ends);
        }
        if let Some(keeping) = &mut keeping {
            keeping.head(&response, self.is_direct);
        }
        let mut reply = self.read_head(&url, &response, &mut anomalies);
        reply.peer = response.remote_addr().filter(|_| self.is_direct);
        let wanted = links.and_then(|rules| search::begin(&url, kind, response.status(), response.headers(), rules));
        if let Verdict::Status(status) = reply.verdict {
            let truncated = if status == 429 || (status >= 300 && reply.retry_after.is_some()) {
                // The hold begins with the head: a body that drips must not keep it from the scheduler. What is
                // there already is taken; else the connection goes with the rest.
                let tee = keeping.as_mut().map(|keeping| keeping.tee(Beyond::Cut));
                let reading = body::read(response, kind, &self.rules, tee, None);
                match tokio::time::timeout(Duration::ZERO, reading).await {
                    Ok(end) => take_body(&mut reply, status, end, &mut anomalies),
                    Err(_) => {
                        anomalies.push(String::from("the refusal's body was not waited for"));
                        Some(Truncated::Time)
                    }
                }
            } else {
                if let (Some(wait), Some(listener)) = (reply.retry_after, listener) {
                    listener.to.wait_asked(listener.ticket, status, wait);
                }
                let tee = keeping.as_mut().map(|keeping| keeping.tee(Beyond::File));
                let end = body::read(response, kind, &self.rules, tee, wanted).await;
                take_body(&mut reply, status, end, &mut anomalies)
            };
            if let Some(keeping) = &mut keeping {
                keeping.truncated(truncated);
            }
        }
        reply.anomalies = anomalies.into_iter().map(Clean::from).collect();
        match keeping {
            Some(keeping) => keeping.end(reply, &*self.clock).await,
            None => reply,
        }
    }

    /// Where a connection to the host of `url` would lead: its own address, or the first that its name has.
    async fn address(&self, url: &Url) -> Option<IpAddr> {
        match url.host()? {
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
            Host::Domain(name) if self.is_direct => {
                self.resolver.addresses(name).await.ok()?.first().map(SocketAddr::ip)
            }
            Host::Domain(_) => None,
        }
    }

    /// Why nothing may be sent to `url`, judged by the URL alone.
    fn refuse(&self, url: &Url) -> Option<Failure> {
        let unsent = |text: String| Some(Failure::unsent(Outcome::AddressRefused, text));
        if !matches!(url.scheme(), "http" | "https") {
            return unsent(String::from("only http and https are fetched"));
        }
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
            Some(Host::Domain(_)) => return None,
            None => return unsent(String::from("the URL has no host")),
        };
        self.guard.refuses(ip).and_then(|family| unsent(refusal(&ip.to_string(), family)))
    }

    /// What goes out: the target, the headers, and what is worth a note.
    fn prepare(&self, url: &Url) -> (Url, HeaderMap, Vec<String>) {
        let mut anomalies = Vec::new();
        let (mut headers, withheld) = self.headers.of(url);
        if withheld == Withheld::Bound {
            anomalies.push(String::from("headers bound to the host were not sent over http: it was asked over https"));
        }
        if let Some(cookies) = self.cookies.as_ref().and_then(|jars| jars.header(url)) {
            headers.insert(reqwest::header::COOKIE, cookies);
        }
        let mut target = url.clone();
        // Neither belongs on the wire; the crawl strips them, this makes sure.
        target.set_fragment(None);
        if target.set_username("").and_then(|()| target.set_password(None)).is_err() {
            anomalies.push(String::from("the URL's credentials could not be removed"));
        }
        let fixed = url.host_str().and_then(|host| self.resolver.fixed(host)).and_then(|target| target.port);
        // A resolver's port gives way to one in the URL, so `network.resolve` has to change that one.
        if let (Some(own), Some(port)) = (url.port(), fixed)
            && target.set_port(Some(port)).is_ok()
            && let Ok(host) = HeaderValue::from_str(&format!("{}:{own}", url.host_str().unwrap_or_default()))
        {
            headers.insert(HOST, host);
        }
        (target, headers, anomalies)
    }

    /// Judges the head: a reply whose verdict is final if it is a failure.
    fn read_head(&self, url: &Url, response: &reqwest::Response, anomalies: &mut Vec<String>) -> Reply {
        let status = response.status().as_u16();
        let headers = response.headers();
        let mut reply = Reply {
            verdict: Verdict::Status(status),
            status: Some(status),
            retry_after: None,
            hint: None,
            location: None,
            received: 0,
            body: Bytes::new(),
            found: None,
            max_age: head::max_age(headers),
            cookie_changed: false,
            error: None,
            anomalies: Vec::new(),
            on_wire: true,
            unprocessed: false,
            peer: None,
            capture: None,
        };
        let mut fail = |outcome, text: String| {
            reply.verdict = Verdict::Failed(outcome);
            reply.error = Some(Clean::from(text));
        };
        if let Some(text) = head::over_limit(headers) {
            fail(Outcome::LimitExceeded, text);
            return reply;
        }
        if status < 200 {
            fail(Outcome::Decode, format!("the response is not valid HTTP: {status} without being asked for it"));
            return reply;
        }
        if head::has_framing_anomaly(headers) {
            anomalies.push(String::from("framing: both Content-Length and Transfer-Encoding"));
        }
        let (wait, odd) = wait_asked(headers, &*self.clock);
        reply.retry_after = wait.or_else(|| head::vendor_wait(headers));
        if !(300..400).contains(&status) {
            // A redirect may lead to another host, and speak for that.
            reply.hint = head::hint(headers, &*self.clock);
        }
        anomalies.extend(odd);
        if let Some(jars) = &self.cookies {
            let taken = jars.take(url, headers);
            reply.cookie_changed = taken.changed;
            if taken.refused > 0 {
                anomalies.push(format!("{} cookies were too large or too many", taken.refused));
            }
        }
        if head::must_redirect(status) {
            reply.location = Some(head::location(url, headers).map_err(Clean::from));
        }
        reply
    }

    /// Remembers that a connection has served a response.
    fn remember(&self, ends: Ends) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.len() >= SERVED_MAX {
            served.clear();
        }
        served.insert(ends);
    }

    /// Whether a connection had served a response; it is forgotten, because it is broken.
    fn forget(&self, ends: Ends) -> bool {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(&ends)
    }
}

/// Puts what became of the body into the reply; says why it is not whole, if it is not.
fn take_body(reply: &mut Reply, status: u16, end: BodyEnd, anomalies: &mut Vec<String>) -> Option<Truncated> {
    reply.received = end.received;
    reply.body = end.body;
    reply.found = end.found;
    anomalies.extend(end.anomalies);
    if let Some(Err(reason)) = &reply.location {
        reply.verdict = Verdict::Failed(Outcome::RedirectNotFollowed);
        reply.error = Some(reason.clone());
    }
    let Some(failure) = end.failure else { return end.truncated };
    if status < 300 || failure.outcome == Outcome::Local {
        reply.verdict = Verdict::Failed(failure.outcome);
        reply.error = Some(Clean::from(failure.text));
    } else {
        // The status is what matters: a throttle stays one, however its body ends.
        anomalies.push(failure.text);
    }
    end.truncated
}

/// A reply that is nothing but a failure.
fn failed(failure: Failure) -> Reply {
    Reply {
        on_wire: failure.on_wire,
        unprocessed: failure.unprocessed,
        ..Reply::failed(failure.outcome, Clean::from(failure.text))
    }
}

/// The wait that Retry-After asks for, and what is odd about it.
fn wait_asked(headers: &HeaderMap, clock: &dyn Clock) -> (Option<Duration>, Option<String>) {
    if !headers.contains_key(RETRY_AFTER) {
        return (None, None);
    }
    let now_wall_secs = clock.wall().0.div_euclid(1_000_000);
    let values: Vec<&[u8]> = headers.get_all(RETRY_AFTER).iter().map(HeaderValue::as_bytes).collect();
    let date = headers.get(DATE).map(HeaderValue::as_bytes);
    let parsed = retry_after::parse(&values, date, now_wall_secs);
    (parsed.wait, parsed.anomaly)
}
