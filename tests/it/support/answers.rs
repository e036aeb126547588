//! Servers in a line: what they answer, by path and turn.

use std::collections::HashMap;
use std::time::Duration;

use crawldeck::sim::{Close, SimBody, SimResponse};

use super::lab::LabServer;

/// An answer with a status and nothing else.
pub(crate) fn status(status: u16) -> SimResponse {
    SimResponse { status, ..SimResponse::default() }
}

/// A text.
pub(crate) fn text(text: &str) -> SimResponse {
    SimResponse { status: 200, body: SimBody::Text(text.to_owned()), ..SimResponse::default() }
}

/// A status with one header.
pub(crate) fn with_header(code: u16, name: &'static str, value: impl Into<String>) -> SimResponse {
    SimResponse { headers: vec![(name, value.into())], ..status(code) }
}

/// A redirect.
pub(crate) fn redirect(to: &str) -> SimResponse {
    with_header(302, "location", to)
}

/// A reset connection instead of an answer.
pub(crate) fn reset() -> SimResponse {
    SimResponse { close: Close::ResetBefore, ..SimResponse::default() }
}

/// The same answer, so much later.
pub(crate) fn after(latency: Duration, response: SimResponse) -> SimResponse {
    SimResponse { latency, ..response }
}

/// A server whose answer depends on the path and on how often it was asked for before.
pub(crate) fn by_turn(mut answer: impl FnMut(&str, u32) -> SimResponse + Send + 'static) -> LabServer {
    let mut turns: HashMap<String, u32> = HashMap::new();
    LabServer::start(Box::new(move |_, request, _| {
        let turn = turns.entry(request.path.to_owned()).or_default();
        *turn += 1;
        answer(request.path, *turn - 1)
    }))
}

/// A server without robots.txt whose answer depends on how many pages were asked for before.
pub(crate) fn by_page(mut answer: impl FnMut(u32) -> SimResponse + Send + 'static) -> LabServer {
    let mut pages = 0;
    LabServer::start(Box::new(move |_, request, _| match request.path {
        "/robots.txt" => status(404),
        _ => {
            pages += 1;
            answer(pages - 1)
        }
    }))
}

/// A server without robots.txt whose pages are all there.
pub(crate) fn steady() -> LabServer {
    by_page(|_| text("page"))
}

/// Paths that arrived, robots.txt left out.
pub(crate) fn pages_asked(server: &LabServer) -> Vec<String> {
    server.arrivals().into_iter().map(|arrival| arrival.path).filter(|path| path != "/robots.txt").collect()
}

/// How often robots.txt was asked for.
pub(crate) fn robots_asked(server: &LabServer) -> usize {
    server.arrivals().iter().filter(|arrival| arrival.path == "/robots.txt").count()
}
