//! Every screen at every size: styles as agreed, and nothing that breaks. One list of screens serves both.

use super::closely::closely;
use super::*;
use crate::config::THEMES;
use crate::tui::model::{Part, Screen};
use crate::tui::view::dump;
use crate::tui::{key::Key, update};
use std::sync::Arc;

/// Every screen of the dashboard, by name, for a terminal of this size.
fn screens(size: (u16, u16)) -> Vec<(&'static str, Model)> {
    let on = |screen| {
        let mut model = closely("api.gazet.test", size);
        model.screen = screen;
        model
    };
    let press = |mut model: Model, keys: &str| {
        let keymap = keymap();
        for key in keys.split(' ') {
            update::key(&mut model, Key::parse(key).expect(key), &keymap, Mono::ZERO);
        }
        model
    };
    let with_timeline = |mut model: Model| {
        let timeline = Some(Arc::new(sample::timeline()));
        model.apply(Snapshot { timeline, changed: Vec::new(), log: Vec::new(), ..sample::snapshot() }, Mono::ZERO);
        model
    };
    let mut busy = on(Screen::Hosts);
    busy.marks.insert(HostId(7));
    let mut looked = on(Screen::Log);
    looked.logbook.look(looked.wall(Mono::ZERO));
    looked.apply(sample::snapshot(), Mono::ZERO);
    let mut silent = on(Screen::Hosts);
    silent.totals.stopped_because = Some(Clean::new("no space left on the disk"));
    let mut screens = vec![
        ("hosts", busy),
        ("detail", on(Screen::Host)),
        ("unfolded", press(on(Screen::Host), "j j j")),
        ("log", press(looked, "j")),
        ("timeline", with_timeline(press(on(Screen::Hosts), "3"))),
        ("latency", with_timeline(press(on(Screen::Hosts), "3 m"))),
        ("frozen", press(on(Screen::Hosts), "f")),
        ("frozen_log", press(on(Screen::Log), "f")),
        ("large_log", press(on(Screen::Hosts), "L")),
        ("trouble", silent),
        ("help", press(on(Screen::Hosts), "?")),
        ("help_detail", press(on(Screen::Host), "?")),
        ("help_log", press(on(Screen::Log), "?")),
        ("help_timeline", with_timeline(press(on(Screen::Hosts), "3 ?"))),
        ("override", press(on(Screen::Hosts), "o 0 . 5")),
        ("no_override", press(on(Screen::Hosts), "o f a s t")),
        ("filter", press(on(Screen::Hosts), "/ i s : x")),
        ("command", press(on(Screen::Hosts), ": r a t e")),
        ("wake", press(on(Screen::Hosts), "w")),
        ("leave", press(on(Screen::Hosts), "q")),
        ("sort", press(on(Screen::Hosts), "s")),
    ];
    for (name, part) in [("side", Part::Side), ("below", Part::Log)] {
        let mut model = on(Screen::Hosts);
        model.part = part;
        screens.push((name, model));
    }
    screens
}

#[test]
fn styles_of_every_screen_are_as_agreed() {
    let themes = [
        ("60x12", (60, 12), theme("default", Glyphs::Unicode)),
        ("80x24", (80, 24), theme("default", Glyphs::Unicode)),
        ("160x50", (160, 50), theme("default", Glyphs::Unicode)),
        ("80x24_ascii", (80, 24), theme("mono", Glyphs::Ascii)),
    ];
    for (size_name, size, theme) in &themes {
        for (name, model) in screens(*size) {
            let drawn = buffer(&model, theme, *size);
            assert!(!size_name.ends_with("ascii") || text_of(&drawn).is_ascii(), "{name}");
            insta::assert_snapshot!(format!("{name}_{size_name}"), dump(&drawn));
        }
    }
}

/// Colours fall away in mono: what is told must be in the words, shapes and emphasis that stay.
#[test]
fn no_screen_needs_its_colours() {
    for size in [(60, 12), (80, 24), (160, 50)] {
        for (name, model) in screens(size) {
            let colours = buffer(&model, &theme("default", Glyphs::Unicode), size);
            let mono = buffer(&model, &theme("mono", Glyphs::Unicode), size);
            assert_eq!(text_of(&colours), text_of(&mono), "{name}");
            for (x, y) in (0..size.1).flat_map(|y| (0..size.0).map(move |x| (x, y))) {
                let cell = mono.cell((x, y)).expect("within");
                assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{name} {x},{y}");
            }
        }
    }
}

/// In some themes what is angry has its colours swapped: words, not the pictures of it.
#[test]
fn no_row_of_dots_is_a_negative_of_the_others() {
    let mut seen = 0;
    for name in THEMES {
        for (screen, model) in screens((80, 24)) {
            let buffer = buffer(&model, &theme(name, Glyphs::Unicode), (80, 24));
            for y in 0..24 {
                let dots = (0..80)
                    .filter_map(|x| buffer.cell((x, y)))
                    .filter(|cell| cell.symbol().chars().all(|letter| ('\u{2800}'..='\u{28ff}').contains(&letter)));
                let dots: Vec<_> = dots.collect();
                let swapped = dots.iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED)).count();
                assert!(swapped <= 1, "{name}, {screen}, row {y}: only the cursor swaps colours");
                seen += dots.len();
            }
        }
    }
    assert!(seen > 1_000, "{seen} cells of dots");
}

#[test]
fn case_113_every_small_size_is_drawn_with_every_screen() {
    let themes = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii)];
    let mut all = screens((80, 24));
    for width in (1..=64).step_by(3).chain([59, 60, 61]) {
        for height in 1..=14 {
            for (_, model) in &mut all {
                model.size = (width, height);
                buffer(model, &themes[usize::from(width + height) % 2], (width, height));
            }
        }
    }
}

#[test]
fn case_113_every_size_renders_every_screen() {
    // The threads share the heights.
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let looks = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii)];
                let (keymap, mut all) = (keymap(), screens((80, 24)));
                for size in every_size().filter(|(_, height)| height % threads == thread) {
                    for (at, (name, model)) in all.iter_mut().enumerate() {
                        (model.size, model.page) = (size, usize::from(Layout::of(size, model.log_open).table));
                        model.settle_cursor();
                        let theme = &looks[(usize::from(size.0 + size.1) + at) % 2];
                        let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
                        draw(&Scene { model, keymap: &keymap, theme, now: Mono::ZERO }, &mut buffer);
                        assert_eq!(broken(&buffer), Vec::<String>::new(), "{name} at {size:?}");
                    }
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn case_113_any_size_is_drawn_with_any_screen(width in 1_u16..=300, height in 1_u16..=100, which in 0_usize..22, ascii in any::<bool>()) {
        thread_local! {
            static SCREENS: Vec<(&'static str, Model)> = screens((80, 24));
        }
        let theme = if ascii { theme("mono", Glyphs::Ascii) } else { theme("light", Glyphs::Unicode) };
        SCREENS.with(|screens| {
            let keymap = keymap();
            let (name, model) = &screens[which % screens.len()];
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            draw(&Scene { model, keymap: &keymap, theme: &theme, now: Mono::ZERO }, &mut buffer);
            let words = text_of(&buffer);
            assert!(!words.trim().is_empty() || width * height < 8, "nothing is shown at {width}x{height}");
            assert_eq!(broken(&buffer), Vec::<String>::new(), "{name}");
        });
    }
}
