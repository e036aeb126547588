//! What servers and lists say reaches the terminal and the files as harmless text, and secrets reach neither.

use std::time::Duration;

use crawldeck::sim::{SimRequest, SimResponse};
use hyper::HeaderMap;

use crate::support::binary::{Child, Scene, crawldeck, fine, harmful, ok};
use crate::support::pty::{Pty, foreign};
use crate::support::raw_server::{RawServer, answer, response};

/// A title, a clipboard write, a cursor movement, an 8-bit sequence, a change of direction, a hidden character.
const NASTY: &str = "\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x07\x1b[2J\u{9b}31m\u{202e}desrever\u{2066}\u{200b}";
/// The same without what no header may hold.
const NASTY_HEADER: &str = "\u{9b}31m\u{202e}desrever\u{2066}\u{200b}\u{85}";

#[tokio::test(flavor = "multi_thread")]
async fn case_117_and_118_no_server_and_no_list_writes_to_the_terminal_or_breaks_a_file() {
    let scripts = vec![
        answer(response("302 Found", &format!("Location: /{NASTY_HEADER}\r\nConnection: close\r\n"), "")),
        answer(response("302 Found", &format!("Location: /{NASTY}\r\nConnection: close\r\n"), "")),
        answer(response("302 Found", &format!("Location: http://{NASTY_HEADER}.test/\r\nConnection: close\r\n"), "")),
        answer(response("429 Too Many", &format!("Retry-After: {NASTY_HEADER}\r\nConnection: close\r\n"), NASTY)),
        answer(response("200 OK", &format!("Server: {NASTY_HEADER}\r\nConnection: close\r\n"), NASTY)),
    ];
    let server = RawServer::start(scripts).await;
    let scene = Scene::new(fine(Duration::ZERO), 100.0, 4.0, "[backoff]\nbase = \"100ms\"\njitter = \"0s\"\n");
    let at = server.address;
    let mut list = String::new();
    for k in 0..8 {
        list.push_str(&format!("http://{at}/{k}?{NASTY}\n"));
    }
    list.push_str(&format!("http://{NASTY}.test/\nhttp://a{NASTY_HEADER}.test/\n{NASTY}\nftp://{NASTY}/\n"));
    std::fs::write(scene.path().join("urls.txt"), list).expect("written");
    let (text, files, summary) = tokio::task::spawn_blocking(move || {
        let mut args = scene.run();
        args.push(format!("http://{NASTY}.argument.test/{NASTY}"));
        let mut pty = Pty::start(scene.path(), &args);
        pty.wait("the screen", |screen| screen.alternate_screen());
        assert_eq!(pty.end(), 0, "{}", pty.text());
        let summary = crawldeck(scene.path(), &["review", "crawl", "--summary"]);
        let json = crawldeck(scene.path(), &["review", "crawl", "--json"]);
        let csv = crawldeck(scene.path(), &["review", "crawl", "--csv", "-"]);
        let printed = [summary, json, csv].map(|ended| (ended.code, ended.out + &ended.err));
        (pty.bytes().to_vec(), scene.files(), printed)
    })
    .await
    .expect("no panic");
    assert!(server.connections() >= 5, "the scripts were played");
    assert_eq!(foreign(&text), Vec::<String>::new());
    for (code, printed) in summary {
        assert_eq!(code, Some(0));
        assert_eq!(harmful(&printed), None, "{}", printed.escape_debug());
    }
    // What they said is there, in a form that does nothing.
    assert!(files.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("desrever")), "nothing was told");
    // What is for the program alone is neither text nor printed.
    for (name, bytes) in files.into_iter().filter(|(name, _)| !name.contains("/state/")) {
        let text = String::from_utf8(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(harmful(&text), None, "{name}: {}", text.escape_debug());
    }
}

const USER: &str = "canaryuser";
const PASSWORD: &str = "canary-p4ss";
const PROXY: &str = "canary-proxy";
const HEADER: &str = "canary-header";

/// A list with credentials in its URLs, a header from the environment, a proxy with a password; the server is
/// the proxy.
fn secretive() -> Scene {
    let more = "[[host]]\nmatch = \"a.test\"\nheaders = { \"X-Api-Key\" = \"env:CANARY\" }\n";
    let behaviour = |_: Duration, request: &SimRequest<'_>, _: &HeaderMap| match request.path {
        // Redirects with credentials in them, and failures, are told in words: in those there must be none.
        "/p/3" => {
            let location = format!("http://{USER}:{PASSWORD}@b.test/p/redirected");
            SimResponse { status: 302, headers: vec![("location", location)], ..SimResponse::default() }
        }
        "/p/4" => SimResponse { status: 500, ..SimResponse::default() },
        _ => ok(Duration::ZERO),
    };
    let scene = Scene::new(Box::new(behaviour), 100.0, 4.0, more);
    let at = scene.server.addr();
    let config = std::fs::read_to_string(scene.path().join("scene.toml")).expect("written before");
    let config = config.replace("[network]\n", &format!("[network]\nproxy = \"http://prox:{PROXY}@{at}\"\n"));
    let config = format!("{config}[crawl]\nretries = 1\n[backoff]\nbase = \"50ms\"\njitter = \"0s\"\n");
    std::fs::write(scene.path().join("scene.toml"), config).expect("written");
    let lines = (0..10).map(|k| format!("http://{USER}:{PASSWORD}@a.test/p/{k}\n"));
    let bad = format!("http://{USER}:{PASSWORD}@a.test:99999/\nhttp://{USER}:{PASSWORD}@/\n{USER}:{PASSWORD}@a.test\n");
    std::fs::write(scene.path().join("urls.txt"), lines.collect::<String>() + &bad).expect("written");
    scene
}

#[track_caller]
fn assert_no_canary(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for canary in [PASSWORD, PROXY, HEADER] {
        assert!(!text.contains(canary), "{canary} in {what}: {text}");
    }
}

#[test]
fn case_130_secrets_are_in_no_file_and_on_no_stream() {
    let scene = secretive();
    let mut args = scene.run();
    args.extend(["--headless".to_owned(), format!("http://{USER}:{PASSWORD}@b.test/argument")]);
    let ended = Child::start(scene.path(), &args, &[("CANARY", HEADER), ("CRAWLDECK_LOG", "trace")]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // They did go where they belong.
    let arrivals = scene.server.arrivals();
    let sent = |name: &str, value: &str| {
        arrivals.iter().any(|arrival| arrival.headers.iter().any(|(n, v)| n == name && v == value))
    };
    assert!(sent("x-api-key", HEADER), "the header was sent to its host");
    assert!(arrivals.iter().any(|arrival| arrival.headers.iter().any(|(name, _)| name == "proxy-authorization")));
    assert!(
        !arrivals
            .iter()
            .any(|arrival| { arrival.host == "b.test" && arrival.headers.iter().any(|(name, _)| name == "x-api-key") })
    );
    assert_no_canary("stdout", ended.out.as_bytes());
    assert_no_canary("stderr", ended.err.as_bytes());
    for (name, bytes) in scene.files() {
        assert_no_canary(&name, &bytes);
    }
    for args in [["review", "crawl", "--summary"].as_slice(), &["review", "crawl", "--json"], &["check", "scene.toml"]]
    {
        let ended = crawldeck(scene.path(), args);
        assert_no_canary(&format!("{args:?}"), (ended.out + &ended.err).as_bytes());
    }
}

#[test]
fn case_130_secrets_are_not_on_the_screen() {
    let scene = secretive();
    let mut pty = Pty::start_as(
        scene.path(),
        &scene.run(),
        &[("CANARY", HEADER)],
        crate::support::pty::Tie::Controlling,
        (160, 50),
    );
    pty.wait("the screen", |screen| screen.alternate_screen());
    assert_eq!(pty.end(), 0, "{}", pty.text());
    assert_no_canary("the terminal", pty.bytes());
    for (name, bytes) in scene.files() {
        assert_no_canary(&name, &bytes);
    }
}
