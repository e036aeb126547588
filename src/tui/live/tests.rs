use std::collections::BTreeMap;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::*;
use crate::config::Glyphs;
use crate::text::Clean;
use crate::tui::key::Key;
use crate::tui::keymap::Keymap;
use crate::tui::plot::Kind;
use crate::tui::sample;
use crate::tui::theme::{Depth, Surroundings, Theme};
use crate::tui::view::{draw as draw_all, text_of};
use crate::watch::Snapshot;

fn keymap() -> Keymap {
    Keymap::with_overrides(&BTreeMap::new()).expect("built in")
}

fn model(size: (u16, u16)) -> Model {
    let mut model = Model::new(Clean::new("news-2026-11"), Vec::new(), Mono::ZERO);
    model.size = size;
    assert_eq!(press(&mut model, "3"), [Request::ShowTimeline]);
    let timeline = Some(Arc::new(sample::timeline()));
    model.apply(Snapshot { timeline, ..sample::snapshot() }, Mono::ZERO);
    model
}

fn press(model: &mut Model, keys: &str) -> Vec<Request> {
    let keymap = keymap();
    keys.split(' ').flat_map(|key| update::key(model, Key::parse(key).expect(key), &keymap, Mono::ZERO)).collect()
}

fn buffer(model: &Model, theme: &Theme) -> Buffer {
    let keymap = keymap();
    let mut buffer = Buffer::empty(Rect::new(0, 0, model.size.0, model.size.1));
    draw_all(&Scene { model, keymap: &keymap, theme, now: Mono::ZERO }, &mut buffer);
    buffer
}

fn theme(name: &str, glyphs: Glyphs) -> Theme {
    let around = Surroundings { no_color: false, depth: Depth::True, utf8: true };
    Theme::load(name, glyphs, around).expect(name)
}

fn text(model: &Model) -> String {
    text_of(&buffer(model, &theme("default", Glyphs::Unicode)))
}

#[test]
fn the_live_timeline_at_its_sizes() {
    for size in [(60, 12), (80, 24), (160, 50)] {
        insta::assert_snapshot!(format!("live_{}x{}", size.0, size.1), text(&model(size)));
    }
    let ascii = text_of(&buffer(&model((80, 24)), &theme("mono", Glyphs::Ascii)));
    assert!(ascii.is_ascii(), "{ascii}");
}

#[test]
fn opening_asks_the_engine_and_closing_tells_it() {
    let mut model = model((80, 24));
    assert_eq!(press(&mut model, "h h + m"), []);
    assert!(model.plot.is_some_and(|plot| plot.kind == Kind::Latency && plot.zoom == 1 && plot.cursor.is_some()));
    assert_eq!(press(&mut model, "p a R w"), [], "nothing acts on a host that is not seen");
    assert_eq!(press(&mut model, "L"), [Request::HideTimeline]);
    assert!(model.plot.is_none() && model.timeline.is_none() && model.log_open);
    assert_eq!(press(&mut model, "t esc"), [Request::ShowTimeline, Request::HideTimeline]);
    assert_eq!(press(&mut model, "t u").len(), 2, "undo works everywhere");
}

#[test]
fn a_line_of_the_log_and_its_moment_lead_to_each_other() {
    let mut model = model((80, 24));
    press(&mut model, "esc 2 j");
    let line = model.logbook.selected(&model.log).map(|(_, (_, line))| (line.wall, line.host.clone())).expect("a line");
    let on_the_timeline = |model: &mut Model, keys: &str| {
        assert_eq!(press(model, keys), [Request::ShowTimeline]);
        let timeline = Some(Arc::new(sample::timeline()));
        model.apply(Snapshot { timeline, log: Vec::new(), ..sample::snapshot() }, Mono::ZERO);
        let (bins, plot) = (model.timeline.as_ref().expect("heard"), model.plot.as_ref().expect("open"));
        let (from, to) = Picture { bins, plot }.cursor_span(80);
        assert!((from..to).contains(&line.0), "{from:?} {to:?} {:?}", line.0);
    };
    on_the_timeline(&mut model, "t");
    assert_eq!(press(&mut model, "g enter"), [Request::HideTimeline]);
    assert_eq!(model.screen, Screen::Log);
    let oldest = model.logbook.selected(&model.log).map(|(at, _)| at);
    assert_eq!(oldest, Some(2), "all lines are later than the run's beginning: the first of them");
    press(&mut model, "k enter");
    assert_eq!((model.screen, model.row_at(model.at).map(|row| row.name.clone())), (Screen::Host, Some(line.1)));
    on_the_timeline(&mut model, "3");
    press(&mut model, "enter");
    let back = model.logbook.selected(&model.log).map(|(_, (_, line))| line.wall);
    assert!(back.is_some_and(|wall| wall >= line.0), "the newest line under the cursor");
    press(&mut model, "esc enter 1 t");
    assert_eq!(model.plot.and_then(|plot| plot.cursor), None, "elsewhere it opens at the newest");
}

#[test]
fn the_cursor_tells_who_was_angry() {
    let mut model = model((80, 24));
    press(&mut model, "pgup pgup pgup");
    assert!(text(&model).contains("angriest: api.gazet.test"), "{}", text(&model));
}

#[test]
fn a_frozen_view_keeps_its_picture() {
    let mut model = model((80, 24));
    press(&mut model, "f");
    let before = model.timeline.clone();
    let timeline = Some(Arc::default());
    model.apply(Snapshot { timeline, ..sample::snapshot() }, Mono::ZERO);
    assert_eq!(model.timeline.map(|bins| bins.len()), before.map(|bins| bins.len()));
}

#[test]
fn a_timeline_asked_for_while_frozen_comes_once_and_is_not_called_live() {
    let mut model = model((80, 24));
    assert!(text(&model).contains("all hosts, live"));
    press(&mut model, "esc f 3");
    let heard = |model: &mut Model, bins| {
        model.apply(Snapshot { timeline: Some(Arc::new(bins)), ..sample::snapshot() }, Mono::ZERO);
    };
    heard(&mut model, sample::timeline());
    assert!(!model.timeline.as_ref().expect("it came").is_empty());
    heard(&mut model, Bins::default());
    let shown = text(&model);
    assert!(!model.timeline.as_ref().expect("it stays").is_empty(), "and stands still");
    assert!(shown.contains("all hosts, FROZEN") && !shown.contains("live") && !shown.contains("follows"), "{shown}");
}

#[test]
fn case_113_every_size_is_drawn() {
    let (unicode, ascii) = (theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii));
    let mut model = model((80, 24));
    for width in (1..=24).chain([59, 60, 61, 79, 80, 81, 100, 139, 140, 300]) {
        for height in (1..=26).chain([39, 40, 41, 60, 100]) {
            model.size = (width, height);
            buffer(&model, if width % 2 == 0 { &ascii } else { &unicode });
            press(&mut model, if height % 2 == 0 { "m h" } else { "+ l" });
        }
    }
    (model.timeline, model.size) = (None, (80, 24));
    assert!(text(&model).contains("asking the engine"));
}

/// See the test of the same name for the hosts screen: set `CRAWLDECK_WRITE_PICTURES` to write it anew.
#[test]
fn pictures_are_real_frames() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/screens/timeline.svg");
    let mut shown = model((110, 28));
    press(&mut shown, "pgup pgup pgup pgup");
    let frame = buffer(&shown, &theme("default", Glyphs::Unicode));
    let picture = crate::tui::picture::svg(&frame, "The live timeline: answers over time by status code");
    if std::env::var_os("CRAWLDECK_WRITE_PICTURES").is_some() {
        std::fs::write(&file, &picture).expect("written");
    }
    let kept = std::fs::read_to_string(&file).expect("there is a picture");
    assert!(kept == picture, "{} is out of date", file.display());
}
