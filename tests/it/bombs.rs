//! What unpacks to far more than it is costs the process no more memory than the cap.

use std::fs;
use std::time::Duration;

use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use crawldeck::control::Outcome;
use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt as _;

use crate::support::binary::{Child, until};
use crate::support::raw_server::{RawServer, Step, answer};
use crate::support::records;

const MIB: usize = 1024 * 1024;
/// What a bomb unpacks to: far more than a process may need for it.
const UNPACKED: usize = 64 * MIB;
/// `max_body`, and what a response may cost beyond it (FAULTS.md, row 3).
const CAP_KIB: u64 = 1024;
const BESIDE_KIB: u64 = 16 * 1024;

macro_rules! pack {
    ($encoder:ident, $bytes:expr) => {{
        let mut encoder = $encoder::with_quality(Vec::new(), async_compression::Level::Fastest);
        encoder.write_all($bytes).await.expect("encoded");
        encoder.shutdown().await.expect("encoded");
        encoder.into_inner()
    }};
}

/// Bombs with their codings.
async fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let zeros = vec![0; UNPACKED];
    let (gzip, zstd) = (pack!(GzipEncoder, &zeros), pack!(ZstdEncoder, &zeros));
    let blanks = pack!(GzipEncoder, &[b"<html>".to_vec(), vec![b' '; UNPACKED]].concat());
    let deep = pack!(GzipEncoder, &b"<div><a href=x>".repeat(UNPACKED / 15));
    vec![
        ("gzip, gzip", pack!(GzipEncoder, &gzip)),
        ("gzip, zstd", pack!(ZstdEncoder, &gzip)),
        ("zstd, zstd", pack!(ZstdEncoder, &zstd)),
        ("x-gzip", [gzip.clone(), gzip.clone()].concat()),
        ("gzip", gzip),
        ("deflate", pack!(ZlibEncoder, &zeros)),
        ("deflate", pack!(DeflateEncoder, &zeros)),
        ("br", pack!(BrotliEncoder, &zeros)),
        ("zstd", zstd),
        ("gzip", blanks),
        ("gzip", deep),
        ("gzip", pack!(GzipEncoder, b"").repeat(200_000)),
    ]
}

/// The most memory that a process had, in KiB.
fn peak(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Crawls these bodies one after another; the peak of the process, and how each ended.
async fn crawl(bodies: &[(&str, Vec<u8>)]) -> (u64, Vec<Option<Outcome>>) {
    let closing = |coding: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Encoding: {coding}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        answer([head.as_bytes(), body].concat())
    };
    let mut scripts: Vec<_> = bodies.iter().map(|(coding, body)| closing(coding, body)).collect();
    // The last one is never answered: all the others have ended when it comes.
    scripts.push(vec![Step::Request, Step::Pause(Duration::from_secs(3600))]);
    let server = RawServer::start(scripts).await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "[crawl]\nretries = 1\nfollow = \"host\"\nmax_depth = 1\n[politeness]\nrate = 1000.0\ncapacity = 1\n\
         connections = 1\nrespect_robots = false\n[controller]\ncold_start = false\n[network]\nallow_private = true\n\
         max_body = \"1MiB\"\nresolve = {{ \"a.test\" = \"{}\" }}\n",
        server.address
    );
    fs::write(folder.path().join("c.toml"), config).expect("written");
    let urls: String = (0..=bodies.len()).map(|page| format!("http://a.test/{page}\n")).collect();
    fs::write(folder.path().join("u.txt"), urls).expect("written");
    let args = ["run", "-c", "c.toml", "-u", "u.txt", "-d", "crawl", "--headless"].map(String::from);
    let child = Child::start(folder.path(), &args, &[]);
    let asked = bodies.len() + 1;
    let wait = move || until("all are asked for", || (server.requests().len() >= asked).then_some(()));
    tokio::task::spawn_blocking(wait).await.expect("no panic");
    let most = peak(child.pid);
    child.signal(Signal::QUIT);
    tokio::task::spawn_blocking(|| child.end()).await.expect("no panic");
    let (rows, _) = records::requests(&folder.path().join("crawl"));
    (most, rows.iter().take(bodies.len()).map(|row| row.outcome.known()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_03_bombs_cost_no_more_memory_than_the_cap_and_sixteen_mib() {
    let plain = ("identity", b"<a href=/x>a page</a>".to_vec());
    let (usual, ended) = crawl(&[plain]).await;
    assert_eq!(ended, [Some(Outcome::Ok)]);
    let mut peaks = Vec::new();
    for (number, bomb) in bombs().await.into_iter().enumerate() {
        let name = format!("{number}: {}, {} bytes", bomb.0, bomb.1.len());
        let (most, ended) = crawl(&[bomb]).await;
        assert_eq!(ended, [Some(Outcome::TooLarge)], "{name}");
        peaks.push((most.saturating_sub(usual), name));
    }
    let most = peaks.iter().map(|(more, _)| *more).max();
    assert!(most.is_some_and(|most| most <= CAP_KIB + BESIDE_KIB), "KiB more than the usual {usual}: {peaks:#?}");
}
