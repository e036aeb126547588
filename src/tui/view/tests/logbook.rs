//! The log as a screen.

use super::*;
use crate::tui::model::Screen;

/// A model on the log, which was looked at before the two newest lines came.
fn logbook(size: (u16, u16)) -> Model {
    let mut model = model(size);
    model.size = size;
    model.logbook.look(model.wall(Mono::ZERO));
    let mut snapshot = sample::snapshot();
    let line = |who, host: &str, text: &str| crate::watch::LogLine {
        wall: snapshot.wall,
        at: sample::NOW,
        who,
        host: Clean::new(host),
        text: Clean::new(text),
    };
    snapshot.log = vec![
        line(crate::control::Who::System, "", "the journal can be written again"),
        line(crate::control::Who::Controller, "news.kan.test", "rate 0.60 → 0.71/s  ok (200)"),
    ];
    model.apply(snapshot, Mono::ZERO);
    model.screen = Screen::Log;
    model
}

#[test]
fn the_log_is_as_agreed() {
    for size in [(60, 12), (80, 24), (160, 50)] {
        insta::assert_snapshot!(format!("log_{}x{}", size.0, size.1), text(&logbook(size), size));
    }
    let model = logbook((80, 24));
    let ascii = text_of(&buffer(&model, &theme("mono", Glyphs::Ascii), (80, 24)));
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("log_80x24_ascii", ascii);
    insta::assert_snapshot!("log_styles", styles(&buffer(&model, &theme("default", Glyphs::Unicode), (80, 24))));
}

#[test]
fn where_one_last_looked_is_between_old_and_new() {
    let words = text(&logbook((80, 24)), (80, 24));
    let at = |part: &str| words.lines().position(|line| line.contains(part)).expect(part);
    assert_eq!(at("you last looked at 03:14"), at("can be written again") + 1);
    assert_eq!(at("you last looked at 03:14") + 1, at("Retry-After 120 s: hold"));
}

#[test]
fn the_limit_of_the_log_is_told() {
    let mut model = logbook((80, 24));
    assert!(!text(&model, (80, 24)).contains("newest 500"), "this is the whole log");
    let mut snapshot = sample::snapshot();
    snapshot.log = vec![snapshot.log[0].clone(); 600];
    model.apply(snapshot, Mono::ZERO);
    assert!(text(&model, (80, 24)).contains("log · 500 entries of the newest 500, older ones in events.jsonl"));
    assert!(text(&model, (60, 12)).contains("500 entries of the newest 500"));
}

#[test]
fn a_note_stands_under_you() {
    let mut model = logbook((80, 24));
    let mut snapshot = sample::snapshot();
    let line = crate::watch::LogLine {
        who: crate::control::Who::Operator,
        host: Clean::default(),
        text: Clean::new("note: asked by mail"),
        ..snapshot.log[0].clone()
    };
    snapshot.log = vec![line];
    model.apply(snapshot, Mono::ZERO);
    for _ in 0..3 {
        model.logbook.next_who();
    }
    let words = text(&model, (80, 24));
    assert!(words.contains("only you") && words.contains("you   –                  note: asked by mail"), "{words}");
}

#[test]
fn the_selected_line_is_always_on_the_screen() {
    let mut model = logbook((60, 12));
    let mut snapshot = sample::snapshot();
    for number in 0..40 {
        let mut line = snapshot.log[0].clone();
        line.text = Clean::new(format!("line {number}."));
        snapshot.log.push(line);
    }
    model.apply(snapshot, Mono::ZERO);
    for position in 0..45 {
        model.logbook.select(position, &model.log);
        let chosen = model.logbook.selected(&model.log).map(|(_, (_, line))| line.text.to_string()).expect("a line");
        let words = text(&model, (60, 12));
        let cursor = words.lines().find(|line| line.starts_with('▌')).expect("a cursor").to_owned();
        let head: String = chosen.chars().take(8).collect();
        assert!(cursor.contains(&head), "{position} {chosen}: {words}");
    }
}

#[test]
fn case_113_every_size_is_drawn_with_the_log() {
    let theme = theme("default", Glyphs::Unicode);
    for width in (1..=300).step_by(7).chain([59, 60, 61, 79, 80, 300]) {
        for height in (1..=100).step_by(3).chain([11, 12, 13, 24, 40, 100]) {
            let mut model = logbook((width, height));
            buffer(&model, &theme, (width, height));
            model.logbook.go(9, &model.log);
            model.logbook.filter("nothing holds this");
            buffer(&model, &theme, (width, height));
        }
    }
}
