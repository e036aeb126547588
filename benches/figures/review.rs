//! `crawldeck review` of ten million requests: time to the first screen, to the whole picture, and peak memory.
//!
//! The journal is made here: 10,000 hosts, two files as rotation would leave them, 200,000 decisions. The real
//! binary reads it in a pseudo-terminal; files are in the page cache, as after a run.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crawldeck::clock::Wall;
use crawldeck::control::{Mono, Outcome, RequestKind, Value, What, Who};
use crawldeck::journal::encode::{CsvRows, RowText, event_line, header};
use crawldeck::journal::{EVENTS_FILE, Event, REQUESTS_FILE, rotated_name};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::table::{Table, thousands};

const ROWS: u64 = 10_000_000;
const EVENTS: u64 = 200_000;
const HOSTS: usize = 10_000;
const BEGAN: i64 = 1_796_061_600_000_000;
/// Between two requests, microseconds: about 31 hours in all.
const STEP: i64 = 11_400;
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn measure(table: &mut Table) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bytes = generate(folder.path());
    let seen = watch(folder.path());
    let rows = thousands(ROWS as f64);
    table.add(
        format!("review of {rows} requests ({:.1} GB), 80x24: first screen", bytes as f64 / 1e9),
        format!("{:.2} s", seen.first.as_secs_f64()),
        "≤ 5 s",
    );
    table.add("the same: whole picture", format!("{:.2} s", seen.whole.as_secs_f64()), "printed");
    table.add("the same: processor time up to then", format!("{:.2} s", seen.cpu.as_secs_f64()), "printed");
    table.add("the same: peak resident memory", format!("{:.0} MB", seen.peak as f64 / 1e6), "≤ 200 MB");
}

/// Writes the journal; gives its size.
fn generate(dir: &Path) -> u64 {
    let mut random = fastrand::Rng::with_seed(7);
    let hosts: Vec<String> = (0..HOSTS).map(|host| format!("host-{host}.review.test")).collect();
    let halves = [rotated_name(1), REQUESTS_FILE.to_owned()];
    for (half, name) in (0_u64..).zip(halves) {
        let mut file = File::create(dir.join(name)).expect("a file");
        file.write_all(&header()).expect("written");
        let mut rows = CsvRows::new(file);
        for number in half * ROWS / 2..(half + 1) * ROWS / 2 {
            let host = &hosts[random.usize(0..HOSTS)];
            let (status, outcome) = match random.u32(0..100) {
                0 => (Some(429), Outcome::Throttled),
                1 => (Some(503), Outcome::ServerError),
                2 => (None, Outcome::Timeout),
                3..8 => (Some(404), Outcome::ClientError),
                8..15 => (Some(301), Outcome::Redirect),
                _ => (Some(200), Outcome::Ok),
            };
            let url = format!("https://{host}/section-{}/page-{number}.html", number % 97);
            rows.row(RowText {
                time: Wall(BEGAN + number as i64 * STEP + random.i64(-500_000..500_000)),
                host,
                url: &url,
                kind: RequestKind::Page.as_str(),
                attempt: 1,
                status,
                outcome: outcome.as_str(),
                bytes: random.u64(200..200_000),
                latency_ms: random.f64() * 900.0,
                wait_ms: random.f64() * 20.0,
                rate: 0.5 + random.f64(),
                capacity: 4.0,
                tokens: random.f64() * 4.0,
            })
            .expect("written");
        }
        rows.flush().expect("written");
    }
    let mut events = BufWriter::new(File::create(dir.join(EVENTS_FILE)).expect("a file"));
    let span = ROWS as f64 * STEP as f64 / 1e6;
    for number in 0..=EVENTS {
        let second = span * number as f64 / EVENTS as f64;
        let (who, what) = match number {
            0 => (Who::System, What::Start),
            EVENTS => (Who::System, What::Stop),
            _ if number % 1_000 == 0 => (Who::Operator, What::Override),
            _ => (Who::Controller, What::Rate),
        };
        let event = Event {
            time: Wall(BEGAN + (second * 1e6) as i64),
            mono: Mono::from_secs_f64(second),
            who,
            host: (!matches!(who, Who::System)).then(|| hosts[random.usize(0..HOSTS)].as_str().into()),
            what,
            before: Value::Number(1.0),
            after: Value::Number(0.5),
            why: "throttled (429)".into(),
            url: None,
        };
        let mut line = Vec::new();
        event_line(&mut line, &event, number + 1).expect("plain data");
        events.write_all(&line).expect("written");
    }
    events.flush().expect("written");
    let size =
        |entry: std::io::Result<fs::DirEntry>| entry.and_then(|entry| entry.metadata()).map_or(0, |file| file.len());
    fs::read_dir(dir).expect("a folder").map(size).sum()
}

/// What was seen on the screen.
struct Seen {
    first: Duration,
    whole: Duration,
    /// Of the program, user and system, up to the whole picture; a busy machine does not stretch it.
    cpu: Duration,
    peak: u64,
}

/// Reviews the run in `dir`.
fn watch(dir: &Path) -> Seen {
    let pair =
        native_pty_system().openpty(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 }).expect("a pty");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_crawldeck"));
    command.arg("review");
    command.arg(dir);
    command.env("TERM", "xterm-256color");
    command.env("LC_ALL", "C.UTF-8");
    let began = Instant::now();
    let mut child = pair.slave.spawn_command(command).expect("a child");
    drop(pair.slave);
    let mut keys = pair.master.take_writer().expect("a writer");
    let mut reader = pair.master.try_clone_reader().expect("a reader");
    let (sender, output) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let cells = |count: u16| std::num::NonZeroU16::new(count).expect("not zero");
    let mut screen = vt100::Parser::new(cells(24), cells(80), 0);
    let mut first = None;
    let whole = loop {
        let bytes = output.recv_timeout(PATIENCE).expect("the screen goes on");
        screen.process(&bytes);
        let text = screen.screen().contents();
        if first.is_none() && text.contains("200     │") {
            first = Some(began.elapsed());
        }
        if text.contains("ended") {
            break began.elapsed();
        }
    };
    let id = child.process_id().expect("it runs");
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("Linux");
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let cpu = cpu(id);
    keys.write_all(b"q").expect("written");
    while output.recv_timeout(PATIENCE).is_ok() {}
    assert!(child.wait().expect("an end").success());
    Seen { first: first.unwrap_or(whole), whole, cpu, peak: peak.expect("a figure") * 1_024 }
}

/// Processor time of a process, to a hundredth of a second.
fn cpu(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("its name").split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}
