//! A fuzzed session: any keys, any mouse, any sizes, snapshots and passing time; every frame is whole.

use super::*;
use crate::tui::key::{Decoder, Key};
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
                 p o [ ] a R w u U ! / : s S f j k g G e E L i 1 2 < > y A ? q 0 . 5 m r t x c d n * | i s : a n g r y";
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_session_breaks_a_frame(steps in proptest::collection::vec(any_step(), 0..150)) {
        let (keymap, clock) = (keymap(), ManualClock::new(Wall(0)));
        let looks = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii), theme("light", Glyphs::Unicode)];
        let mut model = model((80, 24));
        let (mut size, mut now, mut decoder) = ((80, 24), Mono::ZERO, Decoder::default());
        for (count, step) in steps.into_iter().enumerate() {
            let mut keys = Vec::new();
            match step {
                Step::Key(key) => keys.push(key),
                Step::Bytes(bytes) => keys = decoder.push(&bytes),
                Step::Size(width, height) => size = (width, height),
                Step::Rows(rows) => {
                    let changed = rows.into_iter().map(|(id, name, queued)| {
                        let mut row = sample::row(id, NASTY[name]);
                        (row.view.queued, row.view.as_of) = (queued, sample::NOW.after(now.since(Mono::ZERO)));
                        row
                    });
                    let focus = Some(std::sync::Arc::new(sample::focus()));
                    model.apply(Snapshot { changed: changed.collect(), focus, ..sample::snapshot() }, now);
                }
                Step::Time(seconds) => now = now.after(Duration::from_secs(seconds)),
            }
            for key in keys {
                update::key(&mut model, key, &keymap, now);
                model.wishes.clear();
            }
            update::tick(&mut model, now);
            update::focus(&mut model);
            (model.size, model.page) = (size, usize::from(Layout::of(size, model.log_open).table));
            model.sort_if_due(now, &*clock);
            model.settle_cursor();
            let theme = &looks[count % looks.len()];
            let scene = Scene { model: &model, keymap: &keymap, theme, now };
            let mut next = Buffer::empty(Rect::new(0, 0, size.0, size.1));
            draw(&scene, &mut next);
            if count % 8 == 0 {
                crossterm::style::force_color_output(true);
                let mut bytes = Vec::new();
                CrosstermBackend::new(&mut bytes).draw(Buffer::empty(next.area).diff(&next).into_iter()).expect("memory");
                prop_assert_eq!(foreign_controls(&bytes), Vec::<String>::new());
            }
        }
    }
}
