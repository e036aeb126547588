//! Other people's readers: warcio and FastWARC on WARC files, DuckDB on the journal and the index.
//!
//! They are Python's, so a machine need not have them: then these tests say what is missing and judge nothing, unless
//! `CRAWLDECK_TEST_READERS` is set, as `.ci/run` does after installing `tests/readers.txt`. It names the `python3`
//! that has them.

use std::path::Path;
use std::process::{Command, Output};

use crawldeck::archive::{Keep, Truncated};
use crawldeck::sim::{SimBody, SimResponse};

use super::kit::{Kept, WARC, capture, cut, filed, noise};
use crate::support::engine::Crawl;
use crate::support::lab::LabServer;
use crate::support::warc;

/// Which Python has the readers; set = they must be there.
const VARIABLE: &str = "CRAWLDECK_TEST_READERS";

/// Runs Python with `args` if it has `module`.
#[expect(clippy::print_stderr, reason = "who reads the tests' output is to know what was not judged")]
fn python(module: &str, args: &[&str], folder: &Path) -> Option<Output> {
    let named = std::env::var(VARIABLE).ok();
    let python = named.as_deref().unwrap_or("python3");
    let run = |args: &[&str]| Command::new(python).args(args).current_dir(folder).output();
    let has = run(&["-c", &format!("import {module}")]).is_ok_and(|output| output.status.success());
    if !has {
        let missing = format!("{python} has no module {module}: python3 -m pip install -r tests/readers.txt");
        assert!(named.is_none(), "{missing}");
        eprintln!("not judged: {missing}");
        return None;
    }
    Some(run(args).expect("it ran a moment ago"))
}

/// What a reader printed; fails the test if it was not content.
#[track_caller]
fn said(output: Output) -> String {
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{text}");
    text
}

/// An archive with everything that a record can be.
async fn archive() -> (usize, tempfile::TempDir) {
    let kept = Kept::new(WARC);
    let sender = kept.archive.sender();
    sender.put(capture("http://a.test/?q=<x>&y=%22", 200, &[("content-length", "6"), ("x", "\u{e4}")], b"a page"));
    sender.put(capture("http://a.test/same", 200, &[("content-length", "6")], b"a page"));
    sender.put(capture("http://a.test/chunked", 200, &[("transfer-encoding", "chunked")], b"was in chunks"));
    sender.put(capture("http://a.test/same", 304, &[("etag", "\"1\"")], b""));
    sender.put(capture("http://a.test/none", 304, &[], b""));
    sender.put(capture("http://a.test/moved", 301, &[("location", "/")], b""));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, b"packed").expect("in memory");
    let packed = gzip.finish().expect("in memory");
    sender.put(capture("http://a.test/packed", 200, &[("content-encoding", "gzip")], &packed));
    sender.put(capture("http://a.test/noise", 999, &[], &noise(3, 5_000)));
    sender.put(filed(&kept.room, "http://a.test/large", &noise(4, 700_000)).await);
    for (number, reason) in
        [Truncated::Length, Truncated::Time, Truncated::Disconnect, Truncated::Unspecified].into_iter().enumerate()
    {
        let url = format!("http://a.test/cut/{number}");
        sender.put(cut(capture(&url, 200, &[("content-length", "100")], b"part of it"), reason));
    }
    let (records, dir) = kept.close();
    (records.len(), dir)
}

#[tokio::test]
async fn case_121_warcio_finds_every_digest_right() {
    let (_, dir) = archive().await;
    let file = warc::files(dir.path()).remove(0);
    let file = file.to_string_lossy();
    let Some(output) = python("warcio", &["-m", "warcio.cli", "check", "-v", &file], dir.path()) else { return };
    let text = said(output);
    assert!(text.contains("digest pass") && !text.contains("fail"), "{text}");
}

/// Counts records by type; fails on a digest that is wrong, a payload that cannot be read, a target that is none.
const WARCIO: &str = r#"
import sys
from collections import Counter
from warcio.archiveiterator import ArchiveIterator
kinds = Counter()
for record in ArchiveIterator(open(sys.argv[1], 'rb'), check_digests='raise'):
    kinds[record.rec_type] += 1
    body = record.content_stream().read()
    uri = record.rec_headers.get_header('WARC-Target-URI')
    assert uri is None or uri.startswith('http://'), uri
    if uri == 'http://a.test/packed' and record.rec_type == 'response':
        assert body == b'packed', body
    if uri == 'http://a.test/chunked' and record.rec_type == 'response':
        assert body == b'was in chunks', body
print(dict(kinds))
"#;

const FASTWARC: &str = r#"
import sys
from collections import Counter
from fastwarc.warc import ArchiveIterator, WarcRecordType
NAMES = ('warcinfo', 'response', 'revisit', 'request', 'metadata')
kinds = Counter()
for record in ArchiveIterator(open(sys.argv[1], 'rb'), parse_http=False):
    kinds[next(name for name in NAMES if record.record_type == getattr(WarcRecordType, name))] += 1
    assert record.verify_block_digest(), record.record_id
    if record.record_type == WarcRecordType.response:
        record.parse_http()
        assert record.verify_payload_digest(), record.record_id
        assert record.http_headers.status_code >= 200
    record.reader.read()
print(dict(kinds))
"#;

#[tokio::test]
async fn case_121_two_more_readers_count_the_records_that_are_there() {
    let (count, dir) = archive().await;
    let file = warc::files(dir.path()).remove(0);
    for (module, script) in [("warcio", WARCIO), ("fastwarc", FASTWARC)] {
        let args = ["-c", script, &file.to_string_lossy()];
        let Some(output) = python(module, &args, dir.path()) else { continue };
        let text = said(output);
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<usize>().ok());
        assert_eq!(numbers.sum::<usize>(), count, "{module}: {text}");
        assert!(text.contains("'revisit': 3"), "{module}: {text}");
    }
}

const DUCKDB: &str = r#"
import duckdb
rows = duckdb.sql("select count(*), count(distinct url), min(time), sum(bytes) from 'requests.csv'").fetchall()[0]
kinds = {name: kind for name, kind, *_ in duckdb.sql("describe from 'requests.csv'").fetchall()}
assert kinds['time'].startswith('TIMESTAMP'), kinds
assert kinds['status'] == 'BIGINT' and kinds['rate'] == 'DOUBLE', kinds
events = duckdb.sql("select count(*), count(distinct seq), max(seq) from 'events.jsonl'").fetchall()[0]
stops = duckdb.sql("select count(*) from 'events.jsonl' where what = 'stop'").fetchall()[0]
bodies = duckdb.sql("select count(*), count(distinct digest) from 'bodies/index.jsonl' where status = 200").fetchall()[0]
print(rows[0], rows[1], rows[3], *events, *stops, *bodies)
"#;

#[tokio::test]
async fn duckdb_reads_the_requests_the_events_and_the_index_as_they_are() {
    let server = LabServer::start(Box::new(|_, request, _| {
        let body = SimBody::Text(format!("page {}", request.path.len() % 3));
        SimResponse { status: if request.path == "/robots.txt" { 404 } else { 200 }, body, ..SimResponse::default() }
    }));
    let mut crawl = Crawl::new();
    crawl.host("a.test", &server);
    crawl.pages("a.test", 120);
    crawl.url("http://a.test/=1+1,\"x\"");
    crawl.keep(Keep { warc: false, bodies: true });
    let (ended, dir) = crawl.run_and_keep().await;
    ended.assert_all_done(121);
    let Some(output) = python("duckdb", &["-c", DUCKDB], dir.path()) else { return };
    let (rows, bytes) = (ended.rows.len(), ended.rows.iter().map(|row| row.bytes).sum::<u64>());
    let events = ended.events.len();
    let last = ended.events.last().expect("an event").seq;
    assert_eq!(said(output).trim(), format!("{rows} {rows} {bytes} {events} {events} {last} 1 121 3"));
}
