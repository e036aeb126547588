//! WARC files: what goes in comes back, payloads are written once, files are rotated.

use std::collections::HashMap;
use std::fs;

use crawldeck::archive::{ArchiveOptions, Truncated};
use proptest::prelude::*;

use super::kit::{Kept, PATIENCE, WARC, capture, cut, filed, noise};
use crate::support::warc::{self, Record};

/// `response` and `revisit` records.
fn answers(records: &[Record]) -> Vec<&Record> {
    records.iter().filter(|record| matches!(record.kind(), "response" | "revisit")).collect()
}

fn header() -> impl Strategy<Value = (String, Vec<u8>)> {
    let name = prop_oneof![
        4 => "[a-z][a-z0-9-]{0,12}",
        1 => Just(String::from("content-length")),
        1 => Just(String::from("transfer-encoding")),
        1 => Just(String::from("content-encoding")),
    ];
    // What the client lets through: no control characters but tabs.
    let byte = prop_oneof![8 => 0x20_u8..0x7f, 1 => Just(b'\t'), 2 => 0x80_u8..];
    (name, prop::collection::vec(byte, 0..40))
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..2_000),
        1 => Just(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 9999\r\n\r\n\r\n\r\n".to_vec()),
        1 => Just(vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        1 => Just(b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n".to_vec()),
        1 => (1_usize..70_000).prop_map(|length| vec![b'x'; length]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_head_and_body_come_back_byte_for_byte(
        exchanges in prop::collection::vec(
            (prop_oneof![Just(200_u16), Just(404), 200_u16..1000], prop::collection::vec(header(), 0..8), body()),
            1..8,
        ),
    ) {
        let kept = Kept::new(WARC);
        for (number, (status, headers, body)) in exchanges.iter().enumerate() {
            let mut capture = capture(&format!("http://h.test/{number}?a=<b>"), *status, &[], body);
            for (name, value) in headers {
                let name: hyper::header::HeaderName = name.parse().expect("a name");
                let value = hyper::header::HeaderValue::from_bytes(value).expect("a value");
                capture.head.headers.append(name, value);
            }
            kept.archive.sender().put(capture);
        }
        let (records, _dir) = kept.close();
        let answers = answers(&records);
        prop_assert_eq!(answers.len(), exchanges.len());
        let mut payloads: HashMap<String, Vec<u8>> = HashMap::new();
        for (record, (status, headers, body)) in answers.iter().zip(&exchanges) {
            let end = record.block.windows(4).position(|window| window == b"\r\n\r\n").expect("an end") + 4;
            let (head, payload) = record.block.split_at(end);
            if record.kind() == "response" {
                prop_assert_eq!(payload, &body[..]);
                payloads.insert(record.need("WARC-Record-ID").to_owned(), body.clone());
            } else if *status != 304 {
                prop_assert_eq!(&payloads[record.need("WARC-Refers-To")], body);
            }
            let begins = format!("HTTP/1.1 {status} ");
            prop_assert!(head.starts_with(begins.as_bytes()));
            // Every header came back: as it was, or under the name that says it was changed.
            for (name, value) in headers {
                let line = [b": ", &value[..], b"\r\n"].concat();
                let named = |prefix: &str| {
                    let line = [b"\r\n", prefix.as_bytes(), name.as_bytes(), &line].concat();
                    head.windows(line.len()).any(|window| window == line)
                };
                let framing = matches!(name.as_str(), "content-length" | "transfer-encoding");
                prop_assert!(named("") || (framing && named("x-archive-orig-")), "{}: {:?}", name, value);
            }
        }
    }
}

#[tokio::test]
async fn a_payload_is_written_once_and_referred_to_afterwards() {
    let kept = Kept::new(WARC);
    let sender = kept.archive.sender();
    let large = noise(1, 600_000);
    sender.put(capture("http://a.test/1", 200, &[("x", "first")], b"the same"));
    sender.put(capture("http://b.test/2", 404, &[("content-length", "8")], b"the same"));
    sender.put(filed(&kept.room, "http://a.test/3", &large).await);
    sender.put(filed(&kept.room, "http://a.test/4", &large).await);
    let (records, _dir) = kept.close();
    let answers = answers(&records);
    let kinds: Vec<&str> = answers.iter().map(|record| record.kind()).collect();
    assert_eq!(kinds, ["response", "revisit", "response", "revisit"]);
    assert_eq!(answers[2].message().1, large);
    for (revisit, first) in [(answers[1], answers[0]), (answers[3], answers[2])] {
        assert_eq!(revisit.need("WARC-Profile"), "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest");
        assert_eq!(revisit.need("WARC-Refers-To"), first.need("WARC-Record-ID"));
        assert_eq!(revisit.need("WARC-Refers-To-Target-URI"), first.need("WARC-Target-URI"));
        assert_eq!(revisit.need("WARC-Refers-To-Date"), first.need("WARC-Date"));
        assert_eq!(revisit.need("WARC-Payload-Digest"), first.need("WARC-Payload-Digest"));
        assert_eq!(revisit.need("WARC-Truncated"), "length");
    }
    // Its own head stays: it is another answer.
    assert_eq!(answers[1].message().0, "HTTP/1.1 404 Not Found\r\ncontent-length: 8\r\n\r\n");
}

#[test]
fn empty_and_truncated_payloads_stand_for_no_other_and_the_memory_has_an_end() {
    let kept = Kept::with(WARC, ArchiveOptions { known: 2, ..ArchiveOptions::default() });
    let sender = kept.archive.sender();
    for (body, truncated) in [
        (&b""[..], false),
        (b"", false),
        (b"cut", true),
        (b"cut", false),
        (b"cut", true),
        (b"two", false),
        (b"three", false),
        // "cut" is forgotten by now.
        (b"cut", false),
        (b"three", false),
    ] {
        let capture = capture("http://a.test/", 200, &[], body);
        sender.put(if truncated { cut(capture, Truncated::Disconnect) } else { capture });
    }
    let (records, _dir) = kept.close();
    let kinds: Vec<&str> = answers(&records).iter().map(|record| record.kind()).collect();
    let whole = "response";
    assert_eq!(kinds, [whole, whole, whole, whole, whole, whole, whole, whole, "revisit"]);
}

#[test]
fn a_304_is_a_revisit_of_the_last_200_of_its_url_if_that_is_known() {
    let kept = Kept::new(WARC);
    let sender = kept.archive.sender();
    sender.put(capture("http://a.test/1", 200, &[("etag", "\"1\"")], b"old"));
    sender.put(capture("http://a.test/1", 200, &[("etag", "\"2\"")], b"new"));
    sender.put(capture("http://a.test/1", 304, &[("etag", "\"2\""), ("content-length", "3")], b""));
    sender.put(capture("http://a.test/2", 304, &[], b""));
    let (records, _dir) = kept.close();
    let answers = answers(&records);
    for (record, earlier) in [(answers[2], Some(answers[1])), (answers[3], None)] {
        assert_eq!(record.kind(), "revisit");
        assert_eq!(record.need("WARC-Profile"), "http://netpreserve.org/warc/1.1/revisit/server-not-modified");
        assert_eq!(record.field("WARC-Refers-To"), earlier.map(|earlier| earlier.need("WARC-Record-ID")));
        assert_eq!(record.field("WARC-Refers-To-Date"), earlier.map(|earlier| earlier.need("WARC-Date")));
        assert_eq!((record.field("WARC-Truncated"), record.field("WARC-Payload-Digest")), (None, None));
    }
    assert_eq!(answers[2].header("content-length").as_deref(), Some("3"), "what the 200 would have");
}

#[test]
fn files_are_rotated_at_whole_exchanges_and_each_begins_with_its_own_warcinfo() {
    const ROTATE_AT: u64 = 20_000;
    let kept = Kept::with(WARC, ArchiveOptions { rotate_at: ROTATE_AT, ..ArchiveOptions::default() });
    let sender = kept.archive.sender();
    for number in 0..40 {
        sender.put(capture(&format!("http://a.test/{number}"), 200, &[], &noise(number, 2_000)));
    }
    let dir = kept.close().1;
    let files = warc::files(dir.path());
    assert!(files.len() > 3, "{files:?}");
    let mut seen = 0;
    for (number, path) in files.iter().enumerate() {
        let records = warc::parse(&fs::read(path).expect("readable"));
        let info = &records[0];
        assert_eq!(info.kind(), "warcinfo");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(info.need("WARC-Filename"), name);
        assert!(name.ends_with(&format!("-{:05}.warc.gz", number + 1)), "{name}");
        assert!(records[1..].iter().all(|record| record.field("WARC-Warcinfo-ID") == info.field("WARC-Record-ID")));
        assert_eq!((records.len() - 1) % 3, 0, "whole exchanges");
        seen += (records.len() - 1) / 3;
        let (last, size) = (records[records.len() - 3].place.0 as u64, records[records.len() - 1].place.1 as u64);
        assert!(last < ROTATE_AT, "it passes the size by one exchange at most");
        assert!(size >= ROTATE_AT || number + 1 == files.len());
    }
    assert_eq!(seen, 40);
}

#[test]
fn a_file_that_is_moved_removed_or_changed_outside_is_left_alone_and_nothing_is_lost() {
    type Change = fn(&std::path::Path);
    let changes: [Change; 3] = [
        |path| fs::rename(path, path.with_extension("moved")).expect("moved"),
        |path| {
            fs::File::options()
                .append(true)
                .open(path)
                .and_then(|mut file| std::io::Write::write_all(&mut file, b"not ours"))
                .expect("changed")
        },
        |path| fs::File::options().write(true).open(path).expect("there").set_len(10).expect("cut"),
    ];
    for change in changes {
        let kept = Kept::new(WARC);
        let sender = kept.archive.sender();
        sender.put(capture("http://a.test/before", 200, &[], b"before"));
        kept.archive.barrier().sync().expect("synced");
        let file = warc::files(kept.dir.path()).remove(0);
        change(&file);
        sender.put(capture("http://a.test/after", 200, &[], b"after"));
        kept.archive.close_blocking(PATIENCE).expect("written");
        let last = warc::files(kept.dir.path()).pop().expect("a file");
        assert_ne!(last, file, "another one is begun");
        let records = warc::parse(&fs::read(last).expect("readable"));
        let answers = answers(&records);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].message().1, b"after");
    }
}
