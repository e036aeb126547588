//! A reader of WARC files by the letter of the standard, apart from the code under test: one gzip member is one
//! record, lengths and digests are checked, a record ends with two line breaks.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use data_encoding::BASE32;
use flate2::bufread::GzDecoder;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The fields of its header, in order.
    pub(crate) fields: Vec<(String, String)>,
    /// Its block.
    pub(crate) block: Vec<u8>,
    /// Where its member begins and ends in the file.
    pub(crate) place: (usize, usize),
}

impl Record {
    /// The value of a field that stands there once at most.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} stands twice: {:?}", self.fields);
        value
    }

    /// The value of a field that must be there.
    #[track_caller]
    pub(crate) fn need(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("{name} is missing: {:?}", self.fields))
    }

    /// `WARC-Type`.
    #[track_caller]
    pub(crate) fn kind(&self) -> &str {
        self.need("WARC-Type")
    }

    /// The HTTP message in the block: its head with the empty line, and its payload.
    #[track_caller]
    pub(crate) fn message(&self) -> (String, &[u8]) {
        let end = self.block.windows(4).position(|window| window == b"\r\n\r\n").expect("an empty line") + 4;
        (String::from_utf8_lossy(&self.block[..end]).into_owned(), &self.block[end..])
    }

    /// The value of a header of the message.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let (head, _) = self.message();
        let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

/// The WARC files of a run folder, in order.
pub(crate) fn files(run_folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(run_folder.join("warc")) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".warc.gz"));
    files.sort_by_key(|path| path.to_string_lossy().rsplit('-').next().map(str::to_owned));
    files
}

/// All records of a run folder; fails the test unless every byte is part of a valid one.
#[track_caller]
pub(crate) fn records(run_folder: &Path) -> Vec<Record> {
    files(run_folder).iter().flat_map(|path| parse(&std::fs::read(path).expect("readable"))).collect()
}

/// The records of one file's bytes.
#[track_caller]
pub(crate) fn parse(bytes: &[u8]) -> Vec<Record> {
    let mut rest = bytes;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let start = bytes.len() - rest.len();
        let mut text = Vec::new();
        GzDecoder::new(&mut rest).read_to_end(&mut text).expect("a whole gzip member");
        records.push(record(&text, (start, bytes.len() - rest.len())));
    }
    records
}

/// One record, checked.
#[track_caller]
fn record(text: &[u8], place: (usize, usize)) -> Record {
    let end = text.windows(4).position(|window| window == b"\r\n\r\n").expect("the header ends");
    let header = std::str::from_utf8(&text[..end]).expect("UTF-8");
    let mut lines = header.split("\r\n");
    assert_eq!(lines.next(), Some("WARC/1.1"));
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no field: {line:?}"));
        assert!(!value.chars().any(char::is_control), "{line:?}");
        (name.to_owned(), value.to_owned())
    });
    let mut record = Record { fields: fields.collect(), block: Vec::new(), place };
    let length: usize = record.need("Content-Length").parse().expect("a number");
    let block = &text[end + 4..];
    assert_eq!(block.len(), length + 4, "Content-Length, and two line breaks: {:?}", record.fields);
    assert_eq!(&block[length..], b"\r\n\r\n");
    record.block = block[..length].to_vec();
    check(&record);
    record
}

/// What every record of ours has.
#[track_caller]
fn check(record: &Record) {
    assert!(record.need("WARC-Record-ID").starts_with("<urn:uuid:"));
    assert!(record.need("WARC-Date").ends_with('Z'));
    assert_eq!(record.need("WARC-Block-Digest"), sha1(&record.block), "{:?}", record.fields);
    if record.kind() != "warcinfo" {
        let target = record.need("WARC-Target-URI");
        assert!(target.starts_with("http"), "case 125: no angle brackets: {target}");
    }
    match record.kind() {
        "response" => {
            let (head, payload) = record.message();
            assert_eq!(record.need("WARC-Payload-Digest"), sha1(payload), "{:?}", record.fields);
            assert_eq!(record.need("Content-Type"), "application/http; msgtype=response");
            // Case 121: what a strict reader of HTTP makes of it.
            assert!(!head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked"), "{head}");
            let bodiless = ["204", "304"].iter().any(|status| head.split(' ').nth(1) == Some(status));
            if let (Some(length), false) = (record.header("content-length"), bodiless) {
                assert_eq!(length, payload.len().to_string(), "{head}");
            }
        }
        "revisit" => assert!(record.message().1.is_empty(), "a revisit holds a head alone"),
        "request" => assert_eq!(record.need("Content-Type"), "application/http; msgtype=request"),
        "warcinfo" | "metadata" => assert_eq!(record.need("Content-Type"), "application/warc-fields"),
        other => panic!("not one of our types: {other}"),
    }
}

pub(crate) fn sha1(bytes: &[u8]) -> String {
    format!("sha1:{}", BASE32.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref()))
}
