//! A fuzzed session: any keys, any mouse, any sizes, snapshots and passing time; every frame is whole.

use super::*;
use crate::tui::key::{Decoder, Key};
use crate::tui::keymap::Keymap;
use crate::tui::{sample, update};

#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Bytes(Vec<u8>),
    Size(u16, u16),
    Rows(Vec<(u32, usize, u64)>),
    Time(u64),
}

fn any_key() -> impl Strategy<Value = Key> {
    let names = "up down enter enter esc esc tab backtab space pgup pgdn home end backspace ctrl-u ctrl-l f1 \
                 p o [ ] a R w u U ! / : s S f j k h l H g G e E L i 1 2 3 < > y A ? q + - 0 . 5 m r t x c d n * | \
                 a n g r y left right";
    let keys: Vec<_> = names.split_whitespace().map(|name| Key::parse(name).expect(name)).collect();
    proptest::sample::select(keys)
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => any_key().prop_map(Step::Key),
        2 => (0_u8..70, 1_u16..200, 1_u16..60)
            .prop_map(|(button, x, y)| Step::Bytes(format!("\u{1b}[<{button};{x};{y}M").into_bytes())),
        1 => any::<Vec<u8>>().prop_map(Step::Bytes),
        2 => (1_u16..200, 1_u16..60).prop_map(|(width, height)| Step::Size(width, height)),
        2 => proptest::collection::vec((0_u32..40, 0..NASTY.len(), any::<u64>()), 0..12).prop_map(Step::Rows),
        1 => (0_u64..120).prop_map(Step::Time),
    ]
}

/// A screen and who presses keys on it.
struct Session {
    keymap: Keymap,
    clock: std::sync::Arc<ManualClock>,
    looks: [Theme; 3],
    model: Model,
    size: (u16, u16),
    now: Mono,
    decoder: Decoder,
    frames: usize,
}

impl Session {
    fn new() -> Self {
        let looks = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii), theme("light", Glyphs::Unicode)];
        let (keymap, clock, model) = (keymap(), ManualClock::new(Wall(0)), model((80, 24)));
        let (size, now, decoder, frames) = ((80, 24), Mono::ZERO, Decoder::default(), 0);
        Self { keymap, clock, looks, model, size, now, decoder, frames }
    }

    /// Takes a step and draws a frame; gives what is broken in it.
    fn take(&mut self, step: Step) -> Vec<String> {
        let (model, now) = (&mut self.model, &mut self.now);
        let mut keys = Vec::new();
        match step {
            Step::Key(key) => keys.push(key),
            Step::Bytes(bytes) => keys = self.decoder.push(&bytes),
            Step::Size(width, height) => self.size = (width, height),
            Step::Rows(rows) => {
                let changed = rows.into_iter().map(|(id, name, queued)| {
                    let mut row = sample::row(id, NASTY[name]);
                    (row.view.queued, row.view.as_of) = (queued, sample::NOW.after(now.since(Mono::ZERO)));
                    row
                });
                let focus = Some(std::sync::Arc::new(sample::focus()));
                let timeline = Some(std::sync::Arc::new(sample::timeline()));
                let timeline = timeline.filter(|_| model.plot.is_some());
                model.apply(Snapshot { changed: changed.collect(), focus, timeline, ..sample::snapshot() }, *now);
            }
            Step::Time(seconds) => *now = now.after(Duration::from_secs(seconds)),
        }
        for key in keys {
            update::key(model, key, &self.keymap, *now);
            model.wishes.clear();
        }
        update::tick(model, *now);
        update::focus(model);
        (model.size, model.page) = (self.size, usize::from(Layout::of(self.size, model.log_open).table));
        model.sort_if_due(*now, &*self.clock);
        model.settle_cursor();
        let theme = &self.looks[self.frames % self.looks.len()];
        let scene = Scene { model, keymap: &self.keymap, theme, now: *now };
        let mut next = Buffer::empty(Rect::new(0, 0, self.size.0, self.size.1));
        draw(&scene, &mut next);
        let mut found = broken(&next);
        if self.frames.is_multiple_of(8) {
            crossterm::style::force_color_output(true);
            let mut bytes = Vec::new();
            CrosstermBackend::new(&mut bytes).draw(Buffer::empty(next.area).diff(&next).into_iter()).expect("memory");
            found.extend(foreign_controls(&bytes));
        }
        self.frames += 1;
        found
    }

    /// What is looked at, and what lies over it.
    fn seen(&self) -> String {
        let screen = match self.model.plot {
            Some(_) => String::from("Timeline"),
            None => format!("{:?}", self.model.screen),
        };
        let overlay = format!("{:?}", self.model.overlay);
        format!("{screen} {}", overlay.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_session_breaks_a_frame(steps in proptest::collection::vec(any_step(), 0..150)) {
        let mut session = Session::new();
        for step in steps {
            prop_assert_eq!(session.take(step), Vec::<String>::new(), "{:?}", session.size);
        }
    }
}

/// One long session, the same each time: it is known to have been everywhere.
#[test]
fn an_hour_of_any_keys_goes_everywhere_and_breaks_no_frame() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut session, mut seen) = (Session::new(), std::collections::BTreeSet::new());
    while session.frames < 3_000 {
        let step = any_step().new_tree(&mut runner).expect("a step").current();
        assert_eq!(session.take(step), Vec::<String>::new(), "{} at {:?}", session.seen(), session.size);
        seen.insert(session.seen());
    }
    assert!(session.now >= Mono::from_secs_f64(3_600.0), "{:?}", session.now);
    for screen in ["Hosts None", "Host None", "Log None", "Timeline None"] {
        assert!(seen.contains(screen), "never on {screen}: {seen:?}");
    }
    for overlay in ["Help", "Override", "Filter", "Command", "Leave", "Sort"] {
        assert!(seen.iter().any(|seen| seen.ends_with(overlay)), "never in {overlay}: {seen:?}");
    }
}
