//! One host closely: as a screen of its own and beside the table.

use super::*;
use crate::control::Code;
use crate::tui::model::{Part, Screen};
use crate::watch::{Focus, Recent};
use std::sync::Arc;

/// A model whose cursor is on `name`, with a past and a focus.
pub(super) fn closely(name: &str, size: (u16, u16)) -> Model {
    let mut snapshot = sample::snapshot();
    snapshot.focus = Some(Arc::new(sample::focus()));
    let mut model = of_snapshot(snapshot, size);
    model.size = size;
    let at = (0..12).find(|at| model.row_at(*at).is_some_and(|row| row.name.as_str() == name)).expect(name);
    model.move_to(at);
    for step in 0..30_u32 {
        let mut view = model.row_at(at).expect("there").view.clone();
        view.as_of = sample::NOW.after(Duration::from_secs(u64::from(step) * 60));
        view.effective.rate = if step < 12 { 2.0 } else { 2.0 / f64::from(step - 10) };
        let code = |code, total| crate::control::CodeCount { code, recent: 0, total };
        let failure = crate::control::FailureCode::of(crate::control::Outcome::Timeout);
        view.codes = vec![
            code(Code::Status(200), u64::from(step) * 100),
            code(Code::Status(404), 7),
            code(Code::Status(429), u64::from(step * step)),
            code(Code::Failure(failure), u64::from(step / 9)),
        ];
        view.as_of = view.as_of.before(Duration::from_secs(1740));
        if step == 0 {
            model.history = crate::tui::history::History::default();
        }
        model.history.note(&view);
    }
    model.screen = Screen::Host;
    model
}

#[test]
fn the_detail_is_as_agreed() {
    for size in [(60, 12), (80, 24), (100, 40), (160, 50)] {
        let model = closely("api.gazet.test", size);
        insta::assert_snapshot!(format!("detail_{}x{}", size.0, size.1), text(&model, size));
    }
    let model = closely("api.gazet.test", (80, 24));
    let ascii = text_of(&buffer(&model, &theme("mono", Glyphs::Ascii), (80, 24)));
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("detail_80x24_ascii", ascii);
    insta::assert_snapshot!("detail_styles", styles(&buffer(&model, &theme("default", Glyphs::Unicode), (80, 24))));
}

#[test]
fn how_the_number_came_about_is_seen_whole_without_scrolling() {
    use crate::control::adaptive::{Apart, Basis, Doing, Next, Why};
    let why = Why {
        rate: 0.25,
        doing: Doing::Cruising,
        basis: Basis::Measured { answers: 405.0, secs: 202.5 },
        apart: Apart::Budget,
        next: Next::Aged(3),
        refused: 8,
        budget: 8,
        stops_at: 6,
        erring: false,
    };
    for size in [(80, 24), (100, 40), (160, 50)] {
        let mut model = closely("api.gazet.test", size);
        let at = model.at;
        let row = model.row_at(at).expect("there").clone();
        let index =
            model.rows.iter().position(|one| one.as_ref().is_some_and(|one| one.name == row.name)).expect("a row");
        let view = crate::control::HostView { why: Some(why), cold: false, ..row.view.clone() };
        let told = view.why_at(model.shown_now(Mono::ZERO)).expect("it can say").to_string();
        model.rows[index] = Some(crate::watch::HostRow { view, ..row });
        let words: Vec<String> = text(&model, size).split_whitespace().map(str::to_owned).collect();
        assert!(told.len() > 100 && words.join(" ").contains(&told), "{size:?}: {told}\n{}", text(&model, size));
    }
}

#[test]
fn a_simulated_host_s_line_says_what_is_known_and_no_more() {
    use crate::control::{Hold, HoldReason};
    let mut model = closely("api.gazet.test", (160, 50));
    let at = model.at;
    let row = model.row_at(at).expect("there").clone();
    let index = model.rows.iter().position(|one| one.as_ref().is_some_and(|one| one.name == row.name)).expect("a row");
    let mut told = |rate: f64, reason: Option<HoldReason>| {
        let mut row = row.clone();
        (row.view.why, row.view.cold) = (None, false);
        (row.view.original.rate, row.view.adaptive.rate) = (8.0, rate);
        row.view.hold = reason.map(|reason| Hold { until: sample::NOW.after_secs(60.0), since: sample::NOW, reason });
        model.rows[index] = Some(row);
        super::super::hosts::told(&model, "api.gazet.test  bans", "-")
    };
    assert_eq!(told(8.0, None), "api.gazet.test  bans");
    assert_eq!(told(2.9, None), "api.gazet.test  bans - found 2.90/s");
    assert_eq!(told(1.0 / 300.0, None), "api.gazet.test  bans - asked once in 5m for now");
    let banned = told(1.0 / 300.0, Some(HoldReason::Refused));
    assert_eq!(banned, "api.gazet.test  bans - turned us away: one request at a time asks");
}

#[test]
fn a_host_that_shares_a_bucket_says_with_whom_and_what_that_does() {
    use crate::control::{GroupView, Hold, HoldReason, Original};
    let mut snapshot = sample::snapshot();
    let row = &mut snapshot.changed[0];
    row.group = Some(crate::text::Clean::new("192.0.2.7"));
    let asked = HoldReason::RetryAfter { asked: Duration::from_secs(120), capped: false };
    row.view.group = Some(GroupView {
        as_of: sample::NOW,
        members: 300,
        tokens: 0.4,
        effective: Original { rate: 0.5, capacity: 4.0 },
        original: Original { rate: 2.0, capacity: 4.0 },
        adaptive: Original { rate: 0.5, capacity: 4.0 },
        hold: Some(Hold { until: sample::NOW.after_secs(118.0), since: sample::NOW, reason: asked }),
        in_flight: 2,
        connections: 4,
        queued: 61_200,
        refusals: 3,
    });
    let name = row.name.as_str().to_owned();
    for size in [(60, 12), (80, 24), (160, 50)] {
        let mut model = of_snapshot(snapshot.clone(), size);
        let at = (0..12).find(|at| model.row_at(*at).is_some_and(|row| row.name.as_str() == name)).expect("there");
        model.move_to(at);
        model.screen = Screen::Host;
        let words = text(&model, size);
        assert!(words.contains("group 192.0.2.7") && words.contains("0.4 of 4.0 tokens"), "{words}");
        if size.0 >= 80 {
            assert!(words.contains("300 hosts share a bucket") && words.contains("0.50 of 2.00/s"), "{words}");
            assert!(words.contains("all held 01:58 because the server sent Retry-After: 120"), "{words}");
        }
    }
    let wide = of_snapshot(snapshot, (200, 40));
    assert!(text(&wide, (200, 40)).contains("group 192.0.2.7"), "the table says so where there is room");
}

#[test]
fn an_unfolded_detail_tells_all_and_is_scrolled() {
    let mut model = closely("api.gazet.test", (80, 24));
    model.unfolded = Some(0);
    insta::assert_snapshot!("unfolded_80x24", text(&model, (80, 24)));
    let mut told = String::new();
    let (keymap, theme) = (keymap(), theme("default", Glyphs::Unicode));
    let last = rows_to_scroll(&Scene { model: &model, keymap: &keymap, theme: &theme, now: Mono::ZERO });
    assert!((10..60).contains(&last), "{last}");
    for first in 0..=last {
        model.unfolded = Some(first);
        let words = text(&model, (80, 24));
        assert!(words.contains(&format!("rows {} to {}", first + 1, first + 20)), "{words}");
        told.push_str(&words);
    }
    for part in [
        "https://api.gazet.test: the group for all, 14 rules; fetched 3 h ago, again",
        "64 URLs denied",
        "/api/v2/list",
        "1.5 of 5.0  0.50 of 1.00/s  3 906 queued",
        "/search",
        "latency median 182 ms, p95 1.9 s",
        "Retry-After 120",
        "override 4.00/s (api.gazet.test)",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    model.unfolded = Some(usize::MAX);
    assert!(text(&model, (80, 24)).contains(&format!("rows {} to", last + 1)), "never beyond its end");
}

#[test]
fn each_code_has_a_row_of_dots() {
    let words = text(&closely("api.gazet.test", (100, 60)), (100, 60));
    let dots = words.lines().skip_while(|line| !line.contains("time × status")).skip(1);
    let labels: Vec<_> = dots.take(3).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(labels, ["200", "429", "timeout"], "{words}");
}

#[test]
fn what_the_moving_keys_are_for_is_seen() {
    let mut model = closely("api.gazet.test", (160, 50));
    model.screen = Screen::Hosts;
    let reversed = |model: &Model| {
        let buffer = buffer(model, &theme("mono", Glyphs::Unicode), (160, 50));
        let is_reversed = |x, y| buffer.cell((x, y)).is_some_and(|cell| cell.modifier.contains(Modifier::REVERSED));
        let row = |y| (0..160).filter(|x| is_reversed(*x, y)).count();
        (row(3), (36..49).map(row).max().unwrap_or(0))
    };
    assert_eq!(reversed(&model), (0, 0));
    model.part = Part::Side;
    assert_eq!(reversed(&model), (49, 0));
    assert!(text(&model, (160, 50)).contains("j unfolds"));
    model.part = Part::Log;
    assert_eq!(reversed(&model), (0, 160));
}

#[test]
fn the_detail_stands_beside_the_table_on_wide_screens() {
    let mut model = closely("api.gazet.test", (160, 50));
    model.screen = Screen::Hosts;
    insta::assert_snapshot!("beside_160x50", text(&model, (160, 50)));
    assert!(text(&model, (140, 40)).contains("─ ✗ api.gazet.test"));
    assert!(!text(&model, (139, 40)).contains("─ ✗ api.gazet.test"));
}

#[test]
fn the_counts_of_codes_are_whole_at_every_width() {
    for width in [60, 80, 100, 140, 160, 200] {
        let mut model = closely("api.gazet.test", (width, 50));
        model.screen = if width >= 140 { Screen::Hosts } else { Screen::Host };
        let words = text(&model, (width, 50));
        let line = words.lines().find(|line| line.contains(" 404 ")).expect("a code");
        assert!(line.trim_end().ends_with("311") && line.contains(" 2 /"), "{width}: {line}");
    }
}

#[test]
fn the_counts_in_force_stand_above_the_detail() {
    for size in [(60, 12), (80, 24), (139, 40), (160, 50)] {
        let words = text(&closely("wiki.br.test", size), size);
        for word in ["PAUSED 1", "OVERRIDE 1", "STUCK 1", "ANGRY 2"] {
            assert!(words.contains(word), "{word} at {size:?}:\n{words}");
        }
    }
}

#[test]
fn the_detail_says_what_to_do_and_why_nothing_moves() {
    let words = text(&closely("forum.oldca.test", (80, 24)), (80, 24));
    for part in ["STUCK  all 4 connections are busy", "suggested: ", "full: not rate-limited, waits for 4 slow"] {
        assert!(words.contains(part), "{part}:\n{words}");
    }
}

#[test]
fn case_113_every_size_is_drawn_with_the_detail() {
    let themes = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii)];
    for width in (1..=300).step_by(7).chain([59, 60, 61, 79, 80, 139, 140, 300]) {
        for height in (1..=100).step_by(3).chain([11, 12, 13, 24, 40, 100]) {
            let mut model = closely("api.gazet.test", (width, height));
            for screen in [Screen::Host, Screen::Hosts] {
                model.screen = screen;
                let theme = &themes[usize::from(height) % 2];
                model.unfolded = (height % 3 == 0).then_some(usize::from(width));
                buffer(&model, theme, (width, height));
            }
        }
    }
}

#[test]
fn case_117_case_118_no_path_leaves_its_cell() {
    let mut model = closely("api.gazet.test", (80, 24));
    let recent = NASTY.iter().map(|name| Recent::Request {
        wall: Wall(0),
        path: Clean::new(name),
        status: None,
        outcome: crate::control::Outcome::Timeout,
        latency: Duration::MAX,
    });
    model.focus = Some(Arc::new(Focus { recent: recent.collect(), ..sample::focus() }));
    for size in [(60, 12), (80, 24), (160, 50)] {
        let bytes = frame_bytes(&model, &theme("default", Glyphs::Unicode), size);
        assert_eq!(foreign_controls(&bytes), Vec::<String>::new());
    }
}

/// See the test of the same name for the hosts screen: set `CRAWLDECK_WRITE_PICTURES` to write it anew.
#[test]
fn pictures_are_real_frames() {
    let size = (100, 40);
    let around = Surroundings { no_color: false, depth: Depth::True, utf8: true };
    let theme = Theme::load("default", Glyphs::Unicode, around).expect("loads");
    let frame = buffer(&closely("api.gazet.test", size), &theme, size);
    assert_picture(
        "detail.svg",
        &frame,
        "One host closely: why it waits, its rates, its bucket, its answers over time",
    );
}

#[test]
fn the_detail_tells_the_slowest_answers_too() {
    let mut model = closely("api.gazet.test", (80, 24));
    let mut row = model.row_at(model.at).expect("there").clone();
    row.view.latency_p99 = Some(Duration::from_millis(4_200));
    model.apply(Snapshot { changed: vec![row], log: Vec::new(), ..sample::snapshot() }, Mono::ZERO);
    let shown = text(&model, (80, 24));
    assert!(shown.contains("latency median 182 ms, p95 1.9 s, p99 4.2 s"), "{shown}");
}

#[test]
fn a_line_longer_than_the_screen_shows_where_one_types() {
    let size = (80, 24);
    let mut model = model(size);
    let url = format!("add http://a.test/{}/the-end", "x".repeat(120));
    let typed = |value: &str| Input::new(value.to_owned());
    let last = |model: &Model| text(model, size).lines().last().expect("the footer").to_owned();
    model.overlay = Overlay::Command(crate::tui::update::Prompt::new(&url));
    let line = last(&model);
    assert!(line.starts_with(" :…xxx") && line.contains("/the-end▏"), "{line}");
    model.overlay = Overlay::Filter { input: typed(&"gaz ".repeat(40)) };
    assert!(last(&model).contains("gaz ▏"), "{}", last(&model));
    // The caret in the middle: both ends are cut.
    let input = typed(&url).with_cursor(60);
    model.overlay = Overlay::Filter { input: input.clone() };
    let line = last(&model);
    assert!(line.starts_with(" / …") && line.contains("x▏x") && line.trim_end().ends_with('…'), "{line}");
    // An error keeps its half.
    model.filter_error = Some(Clean::new("at 1: `x` is not known"));
    assert!(last(&model).contains("at 1: `x` is not known"), "{}", last(&model));
    model.overlay = Overlay::Override { input: typed(&format!("{}0.5 fast", " ".repeat(90))), targets: Vec::new() };
    let shown = text(&model, size);
    assert!(shown.contains("0.5 fast▏") && shown.contains("`fast` is not understood"), "{shown}");
    let glyphs = theme("default", Glyphs::Unicode).glyphs;
    for room in 0..90 {
        for cursor in [0, 1, 59, 140, 145] {
            let words = crate::tui::view::prompt::with_caret(&typed(&url).with_cursor(cursor), room, glyphs);
            assert!(words.contains(glyphs.caret), "{room} {cursor} {words}");
            assert!(unicode_width::UnicodeWidthStr::width(words.as_str()) <= room.max(1), "{room} {cursor} {words}");
        }
    }
}
