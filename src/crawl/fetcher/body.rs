//! Reading a body: two clocks, counting, decoding, caps.
//!
//! A body ends early when no byte comes for `idle`, when fewer than `min_rate` bytes a second come over
//! a whole window, or at a cap. Ending early drops the response, which closes the connection (HTTP/1) or
//! resets the stream (HTTP/2). Bodies of pages are decoded (that proves them whole) and counted, not kept.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use reqwest::Response;
use reqwest::header::CONTENT_ENCODING;
use tokio::time::{Sleep, sleep, timeout};

use super::decode::{AtCap, Coding, Codings, Decoding, Limits, STACK_MAX, Stop};
use super::failure::{self, Failure};
use super::search::Wanted;
use crate::archive::{Tee, Truncated};
use crate::control::{Outcome, RequestKind};
use crate::crawl::links::Found;
use crate::fault;

/// Decoded bytes of a robots.txt that are kept: the 512 KiB that are parsed, and one byte more, so that
/// the parser can tell that there was more.
pub const ROBOTS_MAX: u64 = 512 * 1024 + 1;
/// Decoded bytes of a sitemap at most (sitemaps.org allows 50 MB).
pub const SITEMAP_MAX: u64 = 50 * 1024 * 1024;
/// Received bytes that are decoded before other tasks get their turn, and decoded bytes likewise.
const SLICE: usize = 4096;
/// See [`SLICE`].
const TURN: u64 = 256 * 1024;

/// Deadlines and caps of bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BodyRules {
    pub(super) idle: Duration,
    /// Bytes per second at least, averaged over `window`; 0 = no limit.
    pub(super) min_rate: u64,
    pub(super) window: Duration,
    pub(super) max_body: u64,
}

impl BodyRules {
    /// Received bytes at most, whatever they decode to.
    fn most_received(&self, kind: RequestKind) -> u64 {
        if kind == RequestKind::Robots { self.max_body.max(ROBOTS_MAX) } else { self.max_body }
    }

    /// The caps for a kind of request.
    fn limits(&self, kind: RequestKind) -> Limits {
        match kind {
            // Not cut by `max_body`: rules that are not read forbid nothing, and 500 KiB have to be (RFC 9309 2.5).
            RequestKind::Robots => Limits { cap: ROBOTS_MAX, at_cap: AtCap::Cut, keep: true },
            RequestKind::Sitemap => Limits { cap: SITEMAP_MAX.min(self.max_body), at_cap: AtCap::Fail, keep: true },
            RequestKind::Page | RequestKind::Redirect | RequestKind::Feed => {
                Limits { cap: self.max_body, at_cap: AtCap::Fail, keep: false }
            }
        }
    }
}

/// What became of a body.
#[derive(Debug)]
pub(super) struct BodyEnd {
    /// Bytes as received (after chunks, before content codings).
    pub(super) received: u64,
    /// Decoded bytes, if they are kept.
    pub(super) body: Bytes,
    /// What it led to, if that was asked for.
    pub(super) found: Option<Box<Found>>,
    pub(super) anomalies: Vec<String>,
    pub(super) failure: Option<Failure>,
    /// Why not all of it was received; `None` = it was.
    pub(super) truncated: Option<Truncated>,
    /// Its end was seen on the wire.
    is_whole: bool,
}

/// Reads the body of `response` to its end, or to the end of our patience. What is received goes into `tee`, too.
pub(super) async fn read(
    mut response: Response,
    kind: RequestKind,
    rules: &BodyRules,
    tee: Option<&mut Tee>,
    wanted: Option<Wanted>,
) -> BodyEnd {
    let mut limits = rules.limits(kind);
    let mut end = BodyEnd {
        received: 0,
        body: Bytes::new(),
        found: None,
        anomalies: Vec::new(),
        failure: None,
        truncated: None,
        is_whole: false,
    };
    let values = response.headers().get_all(CONTENT_ENCODING);
    let mut codings = match Codings::parse(values.iter().map(reqwest::header::HeaderValue::as_bytes)) {
        Codings::Known(codings) => codings,
        Codings::Unknown(word) => {
            end.anomalies.push(format!("unknown content coding {word:?}: the body is kept as it came"));
            Vec::new()
        }
        Codings::TooDeep => {
            let text = format!("more than {STACK_MAX} content codings on one body");
            end.failure = Some(Failure::new(Outcome::Decode, text));
            end.truncated = Some(Truncated::Unspecified);
            return end;
        }
    };
    let announced = response.content_length();
    // Without a length and without chunks only the close of the connection tells the end.
    let is_close_delimited = announced.is_none()
        && response.version() <= reqwest::Version::HTTP_11
        && !response.headers().contains_key(reqwest::header::TRANSFER_ENCODING);
    if wanted.is_some() && kind == RequestKind::Sitemap {
        // Its URLs are taken as they come, up to the limit of its size.
        limits = Limits { keep: false, at_cap: AtCap::Cut, ..limits };
        codings.insert(0, Coding::GzipFile);
    }
    let mut decoding = Decoding::new(&codings, limits);
    let rules_of_links = wanted.map(|Wanted { search, rules }| {
        decoding.search(Some(search));
        rules
    });
    let stop = pump(&mut response, &mut decoding, &mut end, rules, rules.most_received(kind), tee).await;
    if let Err(early) = &stop {
        end.truncated = match early {
            // The end of the connection may have come too early.
            Early::Decode(Stop::Truncated) => early.truncated(is_close_delimited),
            _ if end.is_whole || announced == Some(end.received) => None,
            _ => end.truncated.or_else(|| early.truncated(is_close_delimited)),
        };
    }
    if decoding.has_garbage() {
        end.anomalies.push(String::from("bytes after the end of the compressed data"));
    }
    match stop {
        Ok(()) => {}
        Err(Early::Decode(Stop::Cut)) => {
            end.anomalies.push(format!("cut after {} bytes, the limit of its kind", decoding.decoded()));
        }
        Err(Early::Decode(stop)) => end.failure = Some(undecodable(&stop, is_close_delimited)),
        Err(Early::Wire(failure)) => end.failure = Some(failure),
    }
    if let Some(Failure { outcome: Outcome::Incomplete, text, .. }) = &mut end.failure
        && let Some(announced) = announced
    {
        text.push_str(&format!(": {} of {announced} bytes", end.received));
    }
    let search = decoding.take_search().zip(rules_of_links);
    end.found = search.map(|(search, rules)| Box::new(search.finish(&rules)));
    end.body = decoding.into_body();
    end
}

/// Why reading ended before the body did.
enum Early {
    Decode(Stop),
    Wire(Failure),
}

impl Early {
    /// Why not all of the body was received, in the archive's words, unless it was.
    fn truncated(&self, is_close_delimited: bool) -> Option<Truncated> {
        match self {
            Self::Decode(Stop::Truncated) => is_close_delimited.then_some(Truncated::Disconnect),
            Self::Decode(Stop::Cut | Stop::TooLarge(_) | Stop::Ratio) => Some(Truncated::Length),
            Self::Decode(Stop::Broken(_)) => Some(Truncated::Unspecified),
            Self::Wire(Failure { outcome: Outcome::Timeout, .. }) => Some(Truncated::Time),
            Self::Wire(_) => Some(Truncated::Disconnect),
        }
    }
}

/// Moves bytes from the wire through the codings.
async fn pump(
    response: &mut Response,
    decoding: &mut Decoding,
    end: &mut BodyEnd,
    rules: &BodyRules,
    most: u64,
    mut tee: Option<&mut Tee>,
) -> Result<(), Early> {
    let mut clocks = Clocks::default();
    // An archive keeps what was sent, also when it is not what it says: the rest is received, undecoded.
    let mut broken = None;
    loop {
        // Most bodies are there when they are asked for: the clocks are wound up when there is something to wait for.
        let chunk = match response.chunk().now_or_never() {
            Some(chunk) => chunk.map_err(|error| failure::in_body(&error)),
            None => clocks.wait(response, rules).await,
        };
        let chunk = match (chunk, broken) {
            (Ok(Some(chunk)), before) => {
                broken = before;
                chunk
            }
            (Ok(None), before) => {
                end.is_whole = true;
                broken = before;
                break;
            }
            (Err(failure), None) => return Err(Early::Wire(failure)),
            // What it is called does not depend on what came after.
            (Err(failure), Some(stop)) => {
                end.truncated = Early::Wire(failure).truncated(false);
                return Err(Early::Decode(stop));
            }
        };
        clocks.in_window += chunk.len() as u128;
        let mut turn = decoding.decoded();
        // Slice by slice, so that what is counted, kept and decoded ends within a slice of the cap, however much of a
        // body the client hands over at once.
        for slice in chunk.chunks(SLICE) {
            end.received = end.received.saturating_add(slice.len() as u64);
            if let Some(tee) = &mut tee {
                tee.push(slice).await.map_err(|error| Early::Wire(unspooled(&error)))?;
            }
            if broken.is_none() {
                fault::pass("decoder");
                match decoding.push(slice) {
                    Err(stop @ Stop::Broken(_)) if tee.is_some() => broken = Some(stop),
                    pushed => pushed.map_err(Early::Decode)?,
                }
            }
            if decoding.decoded().saturating_sub(turn) > TURN {
                turn = decoding.decoded();
                tokio::task::yield_now().await;
            }
            // Data that decodes to nothing (empty members, garbage) must end as well.
            if end.received > most {
                end.truncated = Some(Truncated::Length);
                return Err(Early::Decode(broken.unwrap_or(Stop::TooLarge(most))));
            }
        }
    }
    match broken {
        None => decoding.finish().map_err(Early::Decode),
        Some(stop) => Err(Early::Decode(stop)),
    }
}

/// The two clocks of a body.
#[derive(Default)]
struct Clocks {
    /// The end of the running window; the first begins when there is something to wait for.
    window: Option<Pin<Box<Sleep>>>,
    /// Bytes that came in it.
    in_window: u128,
}

impl Clocks {
    /// Waits for the next chunk, within the rules.
    async fn wait(&mut self, response: &mut Response, rules: &BodyRules) -> Result<Option<Bytes>, Failure> {
        let least = u128::from(rules.min_rate) * rules.window.as_millis() / 1000;
        let window = self.window.get_or_insert_with(|| Box::pin(sleep(rules.window)));
        loop {
            tokio::select! {
                biased;
                chunk = timeout(rules.idle, response.chunk()) => return match chunk {
                    Ok(chunk) => chunk.map_err(|error| failure::in_body(&error)),
                    Err(_) => {
                        let text = format!("no byte of the body came for {:?}", rules.idle);
                        Err(Failure::new(Outcome::Timeout, text))
                    }
                },
                () = window.as_mut(), if least > 0 => {
                    if self.in_window < least {
                        let text = format!("the body came slower than {} bytes a second", rules.min_rate);
                        return Err(Failure::new(Outcome::Timeout, text));
                    }
                    self.in_window = 0;
                    let next = window.deadline() + rules.window;
                    window.as_mut().reset(next);
                }
            }
        }
    }
}

/// Our own disk's trouble is not the host's.
pub(super) fn unspooled(error: &std::io::Error) -> Failure {
    Failure::new(Outcome::Local, format!("the body cannot be kept: {error}"))
}

/// What a body is called that could not be decoded.
fn undecodable(stop: &Stop, is_close_delimited: bool) -> Failure {
    let outcome = match stop {
        Stop::TooLarge(_) | Stop::Ratio | Stop::Cut => Outcome::TooLarge,
        Stop::Truncated if is_close_delimited => Outcome::Incomplete,
        Stop::Broken(_) | Stop::Truncated => Outcome::Decode,
    };
    Failure::new(outcome, format!("the body was not read to its end: {stop}"))
}
