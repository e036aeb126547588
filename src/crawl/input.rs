//! The URLs to crawl, streamed from the command line, files and stdin.
//!
//! A thread of its own reads and parses; it is at most [`BATCHES_MAX`] batches of [`BATCH_MAX`] items ahead, so
//! ten million URLs are not parsed before the first fetch. A line that cannot be used is an item too, named
//! `FILE:LINE: reason`, never the end. A file that cannot be opened is told at once, before the crawl begins.
//! What this does not do: deduplicate, or look at hosts.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use super::address::{Address, SerialParser, parse_url_with};
use crate::text::Clean;

/// Items in a batch at most.
pub const BATCH_MAX: usize = 512;
/// Batches that wait; when there are so many the reader waits.
pub const BATCHES_MAX: usize = 16;
/// The longest line, in bytes; a longer one is a bad line.
pub const LINE_MAX_BYTES: usize = 64 * 1024;

/// Where URLs come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A URL given on the command line, named `argument:N`.
    Url(String),
    /// A file, a URL a line.
    File(PathBuf),
    /// Standard input, named `-`.
    Stdin,
}

/// A source that cannot be read at all: a usage error.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file cannot be opened.
    #[error("cannot read the URL list {file}: check the path and its permissions")]
    Open {
        /// Its name.
        file: Clean,
        /// Why.
        source: io::Error,
    },
    /// It is a directory.
    #[error("cannot read the URL list {file}: it is a directory, name a file with a URL a line")]
    Directory {
        /// Its name.
        file: Clean,
    },
    /// No thread can be started.
    #[error("cannot start the thread that reads the URL lists")]
    Thread(#[source] io::Error),
}

/// A line that could not be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// The file's name.
    pub file: Clean,
    /// The line, from 1.
    pub line: u64,
    /// Why; never the line itself, which may hold a password.
    pub reason: Clean,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

/// One line of input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputItem {
    /// A URL.
    Url(Address),
    /// A line that is none.
    Bad(BadLine),
    /// From this line on a source is not read: it cannot be.
    Broken(BadLine),
}

/// Items in the order of the sources; never empty.
pub type Batch = Vec<InputItem>;

/// The stream of batches. Dropping it ends the reader at its next batch (one that waits for stdin ends with
/// the process).
#[derive(Debug)]
pub struct InputStream {
    batches: mpsc::Receiver<Batch>,
    reader: Option<JoinHandle<()>>,
    /// There is something to read.
    named: bool,
}

impl InputStream {
    /// Whether it has sources at all: a run may be resumed without naming its inputs again.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The next batch; `None` when everything was read. Safe to drop half-way, as in `select!`.
    pub async fn recv(&mut self) -> Option<Batch> {
        if let Some(batch) = self.batches.recv().await {
            return Some(batch);
        }
        // The reader let go of its end, so it is over: this does not wait. It must not pass for a whole input
        // when it was a panic.
        let panicked = self.reader.take()?.join().is_err();
        panicked.then(|| vec![broken(&"input".into(), 0, "the reader failed: later lines were not read")])
    }
}

/// Opens all sources, and starts to read them in their order.
pub fn spawn(sources: Vec<Source>) -> Result<InputStream, InputError> {
    let mut opened = Vec::with_capacity(sources.len());
    let mut argument = 0;
    for source in sources {
        opened.push(match source {
            Source::Url(text) => {
                argument += 1;
                Opened::Argument(argument, text)
            }
            Source::File(path) => {
                let file = Clean::new(path.to_string_lossy());
                let open = |file: &Clean| {
                    let opened = File::open(&path).and_then(|opened| Ok((opened.metadata()?.is_dir(), opened)));
                    opened.map_err(|source| InputError::Open { file: file.clone(), source })
                };
                match open(&file)? {
                    (true, _) => return Err(InputError::Directory { file }),
                    (false, opened) => Opened::Lines(file, Box::new(opened)),
                }
            }
            Source::Stdin => Opened::Lines("-".into(), Box::new(io::stdin())),
        });
    }
    let (sender, batches) = mpsc::channel(BATCHES_MAX);
    let named = !opened.is_empty();
    let read = move || {
        let mut out = Out { batch: Vec::new(), parser: SerialParser::default(), sender };
        for source in opened {
            let more = match source {
                Opened::Argument(number, text) => out.url(&"argument".into(), number, &text),
                Opened::Lines(file, reader) => read_lines(&file, reader, &mut out),
            };
            if more.is_err() {
                return;
            }
        }
        // Whoever does not listen any more needs no rest.
        let _ = out.flush();
    };
    let reader = std::thread::Builder::new().name("input".into()).spawn(read).map_err(InputError::Thread)?;
    Ok(InputStream { batches, reader: Some(reader), named })
}

enum Opened {
    Argument(u64, String),
    Lines(Clean, Box<dyn Read + Send>),
}

/// Nobody listens any more.
struct Gone;

struct Out {
    batch: Batch,
    parser: SerialParser,
    sender: mpsc::Sender<Batch>,
}

impl Out {
    /// Takes one line without its end.
    fn line(&mut self, file: &Clean, number: u64, line: &[u8]) -> Result<(), Gone> {
        match std::str::from_utf8(line).map(str::trim) {
            Ok(text) if text.is_empty() || text.starts_with('#') => Ok(()),
            Ok(text) => self.url(file, number, text),
            Err(_) => self.push(bad(file, number, "not UTF-8")),
        }
    }

    fn url(&mut self, file: &Clean, number: u64, text: &str) -> Result<(), Gone> {
        let item = match parse_url_with(&mut self.parser, text) {
            Ok(address) => InputItem::Url(address),
            Err(error) => bad(file, number, &error.to_string()),
        };
        self.push(item)
    }

    fn push(&mut self, item: InputItem) -> Result<(), Gone> {
        self.batch.push(item);
        if self.batch.len() >= BATCH_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Gone> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.sender.blocking_send(std::mem::take(&mut self.batch)).map_err(|_| Gone)
    }
}

fn bad(file: &Clean, line: u64, reason: &str) -> InputItem {
    InputItem::Bad(BadLine { file: file.clone(), line, reason: reason.into() })
}

fn broken(file: &Clean, line: u64, reason: &str) -> InputItem {
    InputItem::Broken(BadLine { file: file.clone(), line, reason: reason.into() })
}

/// How a line ended.
enum End {
    Line,
    TooLong,
    File,
}

fn read_lines(file: &Clean, reader: Box<dyn Read + Send>, out: &mut Out) -> Result<(), Gone> {
    let mut reader = BufReader::with_capacity(LINE_MAX_BYTES, reader);
    let mut line = Vec::new();
    let mut number: u64 = 0;
    loop {
        number += 1;
        let end = match read_line(&mut reader, &mut line, out) {
            Ok(end) => end?,
            Err(error) => {
                return out.push(broken(file, number, &format!("reading failed, the rest is not read: {error}")));
            }
        };
        if matches!(end, End::File) && line.is_empty() {
            return Ok(());
        }
        let mut text = line.as_slice();
        if number == 1 {
            if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
                return out.push(broken(file, 1, "the file is UTF-16 and is not read: save it as UTF-8"));
            }
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        match end {
            End::TooLong => out.push(bad(file, number, &format!("longer than {LINE_MAX_BYTES} bytes")))?,
            End::Line | End::File => out.line(file, number, text)?,
        }
        if matches!(end, End::File) {
            return Ok(());
        }
    }
}

/// Reads up to the next line feed, which is not kept. Of a line that is too long only the beginning is kept.
fn read_line(
    reader: &mut BufReader<Box<dyn Read + Send>>,
    line: &mut Vec<u8>,
    out: &mut Out,
) -> io::Result<Result<End, Gone>> {
    line.clear();
    let mut too_long = false;
    loop {
        // Whoever types URLs into a pipe wants them crawled now, not with the 512th.
        if reader.buffer().is_empty()
            && let Err(gone) = out.flush()
        {
            return Ok(Err(gone));
        }
        let chunk = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        let newline = chunk.iter().position(|&byte| byte == b'\n');
        let part = &chunk[..newline.unwrap_or(chunk.len())];
        too_long |= line.len() + part.len() > LINE_MAX_BYTES;
        line.extend_from_slice(&part[..part.len().min(LINE_MAX_BYTES - line.len())]);
        let at_end = chunk.is_empty();
        let used = part.len() + usize::from(newline.is_some());
        reader.consume(used);
        if at_end || newline.is_some() {
            return Ok(Ok(match (too_long, at_end) {
                (true, _) => End::TooLong,
                (false, true) => End::File,
                (false, false) => End::Line,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn list(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("written");
        let source = Source::File(file.path().to_owned());
        (file, source)
    }

    async fn all(mut stream: InputStream) -> Vec<InputItem> {
        let mut items = Vec::new();
        while let Some(batch) = stream.recv().await {
            assert!(!batch.is_empty() && batch.len() <= BATCH_MAX);
            items.extend(batch);
        }
        items
    }

    fn shown(items: &[InputItem]) -> Vec<String> {
        let show = |item: &InputItem| match item {
            InputItem::Url(address) => address.url.to_string(),
            InputItem::Bad(line) => line.to_string(),
            InputItem::Broken(line) => format!("broken: {line}"),
        };
        items.iter().map(show).collect()
    }

    /// The items of one file, its path shown as `FILE`.
    async fn read(bytes: &[u8]) -> Vec<String> {
        let (file, source) = list(bytes);
        let items = all(spawn(vec![source]).expect("opened")).await;
        let path = file.path().to_string_lossy().into_owned();
        shown(&items).into_iter().map(|line| line.replace(&path, "FILE")).collect()
    }

    #[tokio::test]
    async fn comments_blank_lines_marks_and_line_ends_are_borne() {
        let text =
            b"\xef\xbb\xbfhttp://a.example/#x\r\n# note\n\n   \r\n  # indented\n\thttp://b.example/ \nhttp://c.example";
        assert_eq!(read(text).await, ["http://a.example/", "http://b.example/", "http://c.example/"]);
        assert_eq!(read(b"").await, [""; 0]);
        assert_eq!(read(b"\n\n").await, [""; 0]);
    }

    #[tokio::test]
    async fn bad_lines_are_named_and_the_rest_goes_on() {
        let mut text = b"example.com\nhttp://ok.example/\n# c\nftp://h.example/\n\xff\xfe\nhttp://h:99999/\n".to_vec();
        text.extend(vec![b'x'; LINE_MAX_BYTES + 1]);
        text.extend(b"\nhttp://ok.example/2\nhttp://user:CANARY@h:/");
        let lines = read(&text).await;
        assert_eq!(
            lines,
            [
                "FILE:1: no scheme: write https:// in front",
                "http://ok.example/",
                "FILE:4: scheme is not http or https",
                "FILE:5: not UTF-8",
                "FILE:6: port is not a number from 1 to 65535",
                "FILE:7: longer than 65536 bytes",
                "http://ok.example/2",
                "FILE:9: port is not a number from 1 to 65535",
            ]
        );
    }

    #[tokio::test]
    async fn a_line_just_short_enough_and_an_endless_last_line() {
        let mut exact = vec![b'#'; LINE_MAX_BYTES];
        exact.extend(b"\nhttp://ok.example/");
        assert_eq!(read(&exact).await, ["http://ok.example/"]);
        assert_eq!(read(&vec![b'x'; 5 * LINE_MAX_BYTES]).await, ["FILE:1: longer than 65536 bytes"]);
    }

    #[tokio::test]
    async fn a_utf_16_file_is_one_bad_line() {
        let text: Vec<u8> = "\u{feff}http://a.example/\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(read(&text).await, ["broken: FILE:1: the file is UTF-16 and is not read: save it as UTF-8"]);
    }

    #[tokio::test]
    async fn sources_come_in_order_and_arguments_are_numbered() {
        let (_file, source) = list(b"http://b.example/\n");
        let urls = ["http://a.example/", "nonsense", ""].map(|text| Source::Url(text.into()));
        let [first, second, third] = urls;
        let items = all(spawn(vec![first, source, second, third]).expect("opened")).await;
        assert_eq!(
            shown(&items),
            [
                "http://a.example/",
                "http://b.example/",
                "argument:2: no scheme: write https:// in front",
                "argument:3: no scheme: write https:// in front",
            ]
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_before_anything_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = spawn(vec![Source::File(folder.path().join("missing.txt"))]);
        assert!(matches!(missing, Err(InputError::Open { .. })));
        let directory = spawn(vec![Source::File(folder.path().to_owned())]);
        assert!(matches!(directory, Err(InputError::Directory { .. })));
    }

    #[tokio::test]
    async fn the_reader_is_never_far_ahead_and_ends_when_nobody_listens() {
        let (_file, source) = list("http://a.example/\n".repeat(40_000).as_bytes());
        let mut stream = spawn(vec![source]).expect("opened");
        assert!(stream.recv().await.is_some());
        assert!(stream.batches.max_capacity() == BATCHES_MAX);
        let reader = stream.reader.take().expect("running");
        // More is left than fits into the channel, so the reader is still there; it goes with its listener.
        assert!(!reader.is_finished());
        drop(stream);
        assert!(reader.join().is_ok());
    }
}
