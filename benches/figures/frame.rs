//! Time of a frame at 160x50: take in 1,000 changed rows, sort if due, draw, write what differs.
//!
//! Frames follow each other as at 4 frames a second, by a clock that is set forward between them, so that sorting
//! comes as often as it would. The cursor is on a row, as it is while somebody looks.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crawldeck::clock::{Clock, SystemClock, Wall};
use crawldeck::config::Glyphs;
use crawldeck::control::{HostState, Limiting, Mono, Original};
use crawldeck::text::Clean;
use crawldeck::tui::keymap::Keymap;
use crawldeck::tui::model::Model;
use crawldeck::tui::terminal::{Device, Screen};
use crawldeck::tui::theme::{Depth, Surroundings, Theme};
use crawldeck::tui::view::{self, Layout, Scene};
use crawldeck::tui::{sample, update};
use crawldeck::watch::{HostRow, Snapshot};

use crate::table::Table;

const SIZE: (u16, u16) = (160, 50);
const CHANGED: u32 = 1_000;
const FRAMES: usize = 400;

pub(crate) fn measure(table: &mut Table) {
    for (hosts, to_reach) in [(10_000, "p99 ≤ 2 ms"), (1_000_000, "p99 ≤ 8 ms")] {
        let times = frames(hosts);
        let at = |p: f64| times[((times.len() as f64 * p) as usize).min(times.len() - 1)].as_secs_f64() * 1e3;
        table.add(
            format!("frame, {} hosts, 160x50, 1,000 rows changed", crate::table::thousands(f64::from(hosts))),
            format!("p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99)),
            to_reach,
        );
    }
}

/// Times of the frames, shortest first.
fn frames(hosts: u32) -> Vec<Duration> {
    let clock = FrameClock { real: SystemClock::new(), ahead: AtomicU64::new(0) };
    let around = Surroundings { no_color: false, depth: Depth::Indexed, utf8: true };
    let theme = Theme::load("default", Glyphs::Unicode, around).expect("a built-in theme");
    let keymap = Keymap::with_overrides(&Default::default()).expect("the built-in keys");
    let mut model = Model::new(Clean::new("figures"), Vec::new(), clock.now());
    model.size = SIZE;
    model.page = usize::from(Layout::of(SIZE, false).table);
    let mut screen = Screen::new(Sink::default());
    screen.enter().expect("memory");
    let mut random = fastrand::Rng::with_seed(7);
    let all = (0..hosts).map(|id| row(id, &mut random)).collect();
    model.apply(Snapshot { changed: all, ..sample::snapshot() }, clock.now());
    model.move_to(7);

    let mut times = Vec::with_capacity(FRAMES);
    for _ in 0..FRAMES {
        let changed: Vec<HostRow> = (0..CHANGED).map(|_| row(random.u32(0..hosts), &mut random)).collect();
        let snapshot = Snapshot { changed, ..sample::snapshot() };
        clock.ahead.fetch_add(250_000_000, Ordering::Relaxed);
        let began = Instant::now();
        let now = clock.now();
        model.apply(snapshot, now);
        update::tick(&mut model, now);
        model.sort_if_due(now, &clock);
        model.settle_cursor();
        let scene = Scene { model: &model, keymap: &keymap, theme: &theme, now };
        screen.draw(SIZE, |buffer| view::draw(&scene, buffer)).expect("memory");
        times.push(began.elapsed());
    }
    // The first sort of all is no frame of the steady state.
    times.remove(0);
    times.sort();
    times
}

/// A host in one of the usual states.
fn row(id: u32, random: &mut fastrand::Rng) -> HostRow {
    let mut row = sample::row(id, &format!("host-{id}.figures.test"));
    let view = &mut row.view;
    view.state = [HostState::Run, HostState::Wait, HostState::Idle, HostState::Done][random.usize(0..4)];
    view.limiting = Limiting::NoTokens;
    view.queued = random.u64(0..10_000);
    view.tokens = random.f64() * 4.0;
    view.effective = Original { rate: random.f64() * 2.0, capacity: 4.0 };
    row
}

/// The machine's clock, set forward between frames.
struct FrameClock {
    real: SystemClock,
    ahead: AtomicU64,
}

impl Clock for FrameClock {
    fn now(&self) -> Mono {
        self.real.now().after(Duration::from_nanos(self.ahead.load(Ordering::Relaxed)))
    }

    fn wall(&self) -> Wall {
        self.real.wall()
    }
}

/// A terminal that takes everything.
#[derive(Default)]
struct Sink(u64);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Device for Sink {
    fn take(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn give_back(&mut self) {}

    fn size(&self) -> (u16, u16) {
        SIZE
    }

    fn is_foreground(&self) -> bool {
        true
    }
}
