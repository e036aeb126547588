use proptest::prelude::*;

use super::*;
use crate::clock::{ManualClock, Wall};
use crate::control::{HoldReason, Pause};
use crate::tui::sample;
use crate::watch::HostRow;
use std::collections::BTreeMap;

mod commands;

const NOW: Mono = Mono::from_nanos(1_000_000_000);

fn keymap() -> Keymap {
    Keymap::with_overrides(&BTreeMap::new()).expect("built in")
}

fn model() -> Model {
    let mut model = Model::new(Clean::new("news"), Vec::new(), Mono::ZERO);
    model.page = 8;
    model.apply(sample::snapshot(), NOW);
    model.order.sort_now();
    model.sort_if_due(NOW, &*ManualClock::new(Wall(0)));
    model
}

/// A model of `count` plain hosts.
fn many(count: u32) -> Model {
    let mut model = Model::new(Clean::new("news"), Vec::new(), Mono::ZERO);
    model.page = 8;
    let changed: Vec<HostRow> = (0..count).map(|id| sample::row(id, &format!("h{id}.test"))).collect();
    model.apply(crate::watch::Snapshot { changed, ..sample::snapshot() }, NOW);
    model
}

/// Types keys by name, separated by spaces; gives the requests of all of them.
fn press(model: &mut Model, keys: &str) -> Vec<Request> {
    let keymap = keymap();
    keys.split(' ').flat_map(|name| key(model, Key::parse(name).expect(name), &keymap, NOW)).collect()
}

/// Puts the cursor on a host.
fn select(model: &mut Model, name: &str) {
    let shown = 0..model.order.shown.len();
    let found = shown.into_iter().find(|at| model.row_at(*at).is_some_and(|row| row.name.as_str() == name));
    model.move_to(found.expect(name));
}

/// The command and the targets' count of the only request.
fn only(requests: Vec<Request>) -> (Command, usize) {
    match requests.as_slice() {
        [Request::Act { command, targets, .. }] => (*command, targets.len()),
        other => panic!("not one act: {other:?}"),
    }
}

fn times(factor: f64) -> Command {
    Command::Override(OverrideSpec { rate: Some(Amount::Times(factor)), capacity: None, lifetime: Lifetime::Default })
}

#[test]
fn keys_become_commands_for_the_cursor_s_host() {
    for (keys, command) in [
        ("p", Command::Pause(Lifetime::Default)),
        ("[", times(0.5)),
        ("]", times(1.25)),
        ("a", Command::Auto),
        ("R", Command::Reset),
        ("w", Command::Wake(WakeEven::Own)),
    ] {
        let mut model = model();
        select(&mut model, "wiki.br.test");
        let requests = press(&mut model, keys);
        match requests.as_slice() {
            [Request::Act { command: asked, targets, chosen_by, .. }] => {
                assert_eq!((*asked, targets.as_slice()), (command, &[HostId(9)][..]), "{keys}");
                assert_eq!(chosen_by.as_str(), "wiki.br.test");
            }
            other => panic!("{keys}: {other:?}"),
        }
    }
    for (keys, command) in [("u", Command::Undo), ("U", Command::Redo), ("!", Command::Halt)] {
        assert_eq!(only(press(&mut model(), keys)), (command, 0), "{keys}");
    }
}

#[test]
fn wanted_13_pausing_what_is_paused_resumes_it() {
    let mut model = model();
    select(&mut model, "shop.lumb.test");
    assert_eq!(only(press(&mut model, "p")), (Command::Resume, 1));
    // One of two goes: both are paused.
    press(&mut model, "space");
    select(&mut model, "wiki.br.test");
    press(&mut model, "space");
    assert_eq!(only(press(&mut model, "p")), (Command::Pause(Lifetime::Default), 2));
}

#[test]
fn wanted_15_the_override_prompt_parses_previews_and_sends() {
    let mut model = model();
    select(&mut model, "wiki.br.test");
    assert_eq!(press(&mut model, "o"), []);
    assert!(matches!(&model.overlay, Overlay::Override { input, .. } if input.value().is_empty()), "opens empty");
    assert_eq!(press(&mut model, "f a s t enter"), [], "enter does nothing on what is no rate");
    assert!(matches!(model.overlay, Overlay::Override { .. }));
    assert_eq!(press(&mut model, "ctrl-u 0 . 5"), []);
    let spec = OverrideSpec { rate: Some(Amount::Absolute(0.5)), capacity: None, lifetime: Lifetime::Default };
    assert_eq!(only(press(&mut model, "enter")), (Command::Override(spec), 1));
    assert!(matches!(model.overlay, Overlay::None));
}

#[test]
fn enter_opens_the_host_and_esc_goes_back() {
    let mut model = model();
    press(&mut model, "enter");
    assert_eq!(model.screen, Screen::Host);
    assert_eq!(focus(&mut model), Some(Request::Focus(Some(HostId(2)))), "the engine looks at it, too");
    assert_eq!(focus(&mut model), None, "it was told already");
    press(&mut model, "> >");
    assert_eq!(focus(&mut model), Some(Request::Focus(Some(HostId(3)))));
    press(&mut model, "<");
    assert_eq!((model.at, model.screen), (1, Screen::Host));
    assert_eq!(only(press(&mut model, "p")), (Command::Pause(Lifetime::Default), 1), "acts as on the table");
    press(&mut model, "esc");
    assert_eq!((model.screen, model.at), (Screen::Hosts, 1));
    assert_eq!(focus(&mut model), Some(Request::Focus(None)));
    model.size = (160, 50);
    assert_eq!(focus(&mut model), Some(Request::Focus(model.cursor)), "it stands beside the table");
}

#[test]
fn tab_moves_the_keys_to_the_side_and_to_the_log() {
    let mut model = model();
    model.size = (160, 50);
    let at = model.at;
    press(&mut model, "tab j j");
    assert_eq!((model.part, model.unfolded, model.at), (Part::Side, Some(1), at), "the host beside is scrolled");
    press(&mut model, "k k");
    assert_eq!(model.unfolded, None, "folded again");
    press(&mut model, "j tab j");
    assert_eq!((model.part, model.log_top, model.unfolded, model.at), (Part::Log, 1, None, at));
    press(&mut model, "esc j");
    assert_eq!((model.part, model.log_top, model.at), (Part::Table, 0, at + 1));
    model.size = (80, 24);
    press(&mut model, "tab");
    assert_eq!(model.part, Part::Log, "nothing stands beside at 80 columns");
    press(&mut model, "tab");
    assert_eq!(model.part, Part::Table);
}

#[test]
fn the_detail_unfolds_and_folds() {
    let mut model = model();
    press(&mut model, "enter j");
    assert_eq!(model.unfolded, Some(0), "the first step shows it from its beginning");
    press(&mut model, "j j >");
    assert_eq!((model.unfolded, model.screen), (Some(0), Screen::Host), "the next host, from its beginning");
    press(&mut model, "j esc");
    assert_eq!((model.unfolded, model.screen), (None, Screen::Host));
    press(&mut model, "j esc esc");
    assert_eq!(model.screen, Screen::Hosts);
}

#[test]
fn the_log_leads_to_the_host_and_acts_on_none() {
    let mut model = model();
    press(&mut model, "2");
    assert_eq!(model.screen, Screen::Log);
    assert_eq!(press(&mut model, "p o [ ] a R space A"), [], "no host is under the cursor here");
    assert!(matches!(model.overlay, Overlay::None));
    assert_eq!(press(&mut model, "w"), [], "asks who, wakes nobody");
    assert_eq!(model.logbook.who(), "auto");
    press(&mut model, ": p a u s e enter");
    let note = model.note.as_ref().map(|note| note.text.to_string()).unwrap_or_default();
    assert!(note.starts_with("no host is selected on this screen"), "nor by the command line: {note}");
    press(&mut model, "esc e");
    let selected = |model: &Model| model.logbook.selected(&model.log).map(|(_, (_, line))| line.host.to_string());
    assert_eq!(selected(&model).as_deref(), Some("forum.oldca.test"), "the alert");
    press(&mut model, "/ o v e r r i d e enter");
    assert_eq!(selected(&model).as_deref(), Some("img.atla.test"));
    model.set_filter(Filter::parse("is:stuck").expect("valid"), NOW);
    press(&mut model, "enter");
    let name = model.row_at(model.at).map(|row| row.name.to_string());
    assert_eq!((model.screen, name.as_deref()), (Screen::Host, Some("img.atla.test")), "a filter does not hide it");
    press(&mut model, "2 esc esc");
    assert_eq!(model.screen, Screen::Hosts);
}

#[test]
fn the_mouse_selects_and_sorts_and_acts_on_nothing() {
    use crate::tui::key::Decoder;
    let (mut model, keymap) = (model(), keymap());
    let send = |model: &mut Model, bytes: &str| {
        for pressed in Decoder::default().push(bytes.as_bytes()) {
            assert_eq!(key(model, pressed, &keymap, NOW), []);
        }
    };
    // At 80×24 the header has five lines, then the title and the headings: the fourth row is line 11 from 1.
    send(&mut model, "\u{1b}[<0;10;11M\u{1b}[<0;10;11m");
    assert_eq!(model.at, 3);
    send(&mut model, "\u{1b}[<65;1;1M");
    assert_eq!(model.at, 6);
    send(&mut model, "\u{1b}[<64;1;1M\u{1b}[<64;1;1M\u{1b}[<64;1;1M");
    assert_eq!(model.at, 0);
    send(&mut model, "\u{1b}[<0;6;7M");
    assert_eq!((model.order.by, model.order.reversed), (SortKey::Host, false), "on the heading HOST");
    send(&mut model, "\u{1b}[<0;6;7M");
    assert!(model.order.reversed);
    press(&mut model, "o");
    send(&mut model, "\u{1b}[<0;10;9M\u{1b}[<2;10;9M\u{1b}[<0;999;999M");
    assert!(matches!(model.overlay, Overlay::Override { .. }), "not through a prompt");
}

#[test]
fn the_screens_are_reached_from_each_other() {
    let mut model = model();
    assert_eq!(press(&mut model, "enter 3"), [Request::ShowTimeline]);
    let at = model.at;
    assert_eq!(key(&mut model, Key::plain(KeyCode::WheelDown), &keymap(), NOW), []);
    assert_eq!(model.at, at, "nothing moves that is not seen");
    assert_eq!(press(&mut model, "2"), [Request::HideTimeline]);
    assert_eq!(model.screen, Screen::Log);
    assert_eq!(press(&mut model, "3 1"), [Request::ShowTimeline, Request::HideTimeline]);
    assert_eq!(model.screen, Screen::Hosts);
}

#[test]
fn a_server_s_wait_is_ended_only_after_a_question() {
    let mut model = model();
    select(&mut model, "api.gazet.test");
    assert_eq!(press(&mut model, "w"), []);
    assert!(matches!(model.overlay, Overlay::Confirm(_)));
    assert_eq!(press(&mut model, "enter"), [], "enter is cancel");
    assert!(matches!(model.overlay, Overlay::None));
    assert_eq!(only(press(&mut model, "w y")), (Command::Wake(WakeEven::Asked), 1));
    // Our own backoff asks nothing.
    let row = model.latest(HostId(3)).expect("there");
    assert!(row.view.hold.is_some_and(|hold| matches!(hold.reason, HoldReason::RetryAfter { .. })));
    select(&mut model, "news.kan.test");
    assert_eq!(only(press(&mut model, "w")), (Command::Wake(WakeEven::Own), 1));
}

#[test]
fn many_hosts_are_asked_about() {
    let mut model = many(26);
    assert_eq!(press(&mut model, "A R"), []);
    let Overlay::Confirm(question) = &model.overlay else { panic!("no question") };
    assert_eq!(question.lines[0].as_str(), "26 hosts: reset to the original rate?");
    assert_eq!(question.lines[1].as_str(), "h0.test, h1.test, h2.test and 23 more");
    assert_eq!(press(&mut model, "esc"), []);
    assert_eq!(only(press(&mut model, "R y")), (Command::Reset, 26));
    let mut few = many(25);
    assert_eq!(only(press(&mut few, "A R")), (Command::Reset, 25), "25 are not many");
}

#[test]
fn an_override_for_many_hosts_is_asked_about() {
    let mut model = many(30);
    assert_eq!(press(&mut model, "A o x 0 . 5 enter"), []);
    assert!(matches!(&model.overlay, Overlay::Confirm(q) if q.lines[0].as_str() == "30 hosts: override x0.5?"));
    assert_eq!(only(press(&mut model, "y")), (times(0.5), 30));
}

#[test]
fn going_on_after_a_halt_is_asked_about() {
    let mut model = model();
    model.totals.halted = true;
    assert_eq!(press(&mut model, "!"), []);
    assert_eq!(press(&mut model, "enter"), []);
    assert_eq!(only(press(&mut model, "! y")), (Command::GoOn, 0));
}

#[test]
fn leaving_asks_and_the_default_is_to_stay() {
    for (keys, requests) in [
        ("q esc", vec![]),
        ("q c", vec![]),
        ("q enter", vec![]),
        ("q d", vec![Request::Drain]),
        ("q n", vec![Request::Stop]),
        ("ctrl-c", vec![]),
        ("ctrl-c ctrl-c", vec![Request::Drain]),
        ("ctrl-c ctrl-c ctrl-c", vec![Request::Drain, Request::Stop]),
        ("q ctrl-c ctrl-c", vec![Request::Drain, Request::Stop]),
        ("ctrl-c esc ctrl-c", vec![]),
        ("o ctrl-c ctrl-c", vec![Request::Drain]),
    ] {
        assert_eq!(press(&mut model(), keys), requests, "{keys}");
    }
    let mut over = model();
    over.totals.phase = Phase::Finished;
    assert_eq!(press(&mut over, "q"), [Request::Drain], "there is nothing to ask");
}

#[test]
fn case_114_ctrl_z_is_off_and_says_why() {
    for open in ["", "o", "/", "?", "q"] {
        let mut model = model();
        if !open.is_empty() {
            press(&mut model, open);
        }
        assert_eq!(press(&mut model, "ctrl-z"), []);
        let note = model.note.expect("says why");
        assert!(note.text.as_str().contains("would stop every fetch"), "{open}");
    }
}

#[test]
fn wanted_19_the_filter_works_as_one_types_and_the_one_before_stays_while_it_is_wrong() {
    let mut model = model();
    press(&mut model, "/ g a z");
    assert_eq!(model.order.shown, [3]);
    press(&mut model, "[");
    assert!(model.filter_error.is_some());
    assert_eq!(model.order.shown.len(), 12, "the filter from before the prompt, which was none");
    press(&mut model, "enter");
    assert!(matches!(model.overlay, Overlay::Filter { .. }), "an error is not accepted");
    press(&mut model, "backspace");
    assert_eq!((model.order.shown.as_slice(), &model.filter_error), (&[3][..], &None));
    press(&mut model, "ctrl-u * . e x a m p l e enter");
    assert_eq!((model.order.shown.as_slice(), model.cursor), (&[10][..], Some(HostId(10))));
    press(&mut model, "esc");
    assert_eq!(model.order.shown.len(), 12, "esc drops the filter");
}

#[test]
fn the_beginning_of_a_term_hides_no_host() {
    for begun in ["r a t e <", "i s : b o g u s", "4 2 9 >"] {
        let mut model = model();
        press(&mut model, &format!("/ {begun}"));
        assert_eq!(model.order.shown.len(), 12, "{begun}");
        press(&mut model, &format!("esc / i s : a n g r y enter / {begun} enter"));
        assert_eq!(model.order.shown.len(), 2, "{begun}: what was in force stays in force");
        assert_eq!(model.filter.text().as_str(), "is:angry");
        press(&mut model, "ctrl-u i s : s t u c k enter");
        assert_eq!(model.order.shown, [2]);
        press(&mut model, &format!("esc / i s : a n g r y space {begun}"));
        assert_eq!(model.order.shown.len(), 2, "{begun}: the last valid filter stays");
    }
}

#[test]
fn a_filter_asked_for_in_the_detail_is_typed_above_the_table() {
    let mut model = model();
    press(&mut model, "enter / z z z");
    assert_eq!((model.screen, model.order.shown.len()), (Screen::Hosts, 0));
    press(&mut model, "esc");
    assert_eq!((model.screen, model.order.shown.len()), (Screen::Hosts, 12));
}

#[test]
fn every_screen_freezes_and_lets_go_with_the_key_that_it_names() {
    for place in ["1", "enter", "2", "3"] {
        let mut model = model();
        press(&mut model, place);
        press(&mut model, "f");
        assert!(model.frozen.is_some(), "{place}");
        press(&mut model, "f");
        assert_eq!(model.frozen, None, "{place}");
    }
}

#[test]
fn marks_are_hosts_and_stay_under_a_filter() {
    let mut model = model();
    select(&mut model, "wiki.br.test");
    press(&mut model, "space / g a z enter");
    assert_eq!(model.targets().0, [HostId(9)]);
    press(&mut model, "esc esc");
    assert!(model.marks.is_empty(), "esc drops filter, then marks");
}

#[test]
fn the_cursor_moves_and_finds_alerts() {
    let mut model = model();
    press(&mut model, "G");
    assert_eq!(model.at, 11);
    press(&mut model, "e");
    assert_eq!(model.row_at(model.at).map(|row| row.name.as_str()), Some("forum.oldca.test"));
    press(&mut model, "e e e");
    assert_eq!(model.row_at(model.at).map(|row| row.name.as_str()), Some("slow.muse.test"));
    press(&mut model, "E");
    assert_eq!(model.at, 2);
    press(&mut model, "g k up pgup ctrl-u");
    assert_eq!((model.at, model.top), (0, 0));
    press(&mut model, "j down pgdn");
    assert_eq!(model.at, 10);
}

#[test]
fn the_order_is_chosen_from_a_menu() {
    let mut model = model();
    press(&mut model, "s 4");
    assert_eq!(model.order.by, SortKey::Queue);
    model.sort_if_due(NOW, &*ManualClock::new(Wall(0)));
    assert_eq!(model.row_at(0).map(|row| row.name.as_str()), Some("www.astr.test"));
    press(&mut model, "s j enter");
    assert_eq!(model.order.by, SortKey::Hold);
    press(&mut model, "S");
    assert!(model.order.reversed);
}

#[test]
fn freezing_holds_the_view_and_lets_it_go() {
    let mut model = model();
    press(&mut model, "f");
    assert_eq!(model.shown_now(NOW.after_secs(60.0)), model.engine_now(NOW));
    press(&mut model, "f");
    assert_eq!(model.frozen, None);
}

/// As an operator with the smallest screen sees it.
#[test]
fn every_key_of_the_help_is_reached_on_the_smallest_screen() {
    use crate::tui::view::{Scene, screenshot};
    let mut model = model();
    let (keymap, size) = (keymap(), (60, 12));
    let theme = crate::tui::theme::Theme::load(
        "mono",
        crate::config::Glyphs::Unicode,
        crate::tui::theme::Surroundings::default(),
    );
    let theme = theme.expect("built in");
    model.size = size;
    press(&mut model, "?");
    let mut told = String::new();
    for _ in 0..60 {
        told += &screenshot(&Scene { model: &model, keymap: &keymap, theme: &theme, now: NOW }, size.0, size.1);
        press(&mut model, "down");
    }
    let at_end = screenshot(&Scene { model: &model, keymap: &keymap, theme: &theme, now: NOW }, size.0, size.1);
    // One row more than needed: a banner may take it.
    press(&mut model, "up up");
    let before = screenshot(&Scene { model: &model, keymap: &keymap, theme: &theme, now: NOW }, size.0, size.1);
    assert_ne!(at_end, before, "what lies beyond the end is not counted");
    for binding in keymap.bindings() {
        let Some(words) = binding.help_at(model.place()) else { continue };
        let told_of = |key: &Key| told.contains(&key.to_string());
        assert!(told.contains(words) && binding.keys.first().is_none_or(told_of), "{}: {words}", binding.name);
    }
}

#[test]
fn help_is_searched_by_typing() {
    let mut model = model();
    press(&mut model, "? p a u s e");
    assert!(matches!(&model.overlay, Overlay::Help(help) if help.search.value() == "pause"));
    press(&mut model, "esc");
    assert!(matches!(&model.overlay, Overlay::Help(help) if help.search.value().is_empty()));
    press(&mut model, "q");
    assert!(matches!(model.overlay, Overlay::None));
}

#[test]
fn a_note_goes_after_a_while() {
    let mut model = model();
    press(&mut model, "ctrl-z");
    assert!(!tick(&mut model, NOW));
    assert!(tick(&mut model, NOW.after(super::super::model::NOTE_STAYS)));
    assert_eq!(model.note, None);
}

/// Any key of interest, and some of none.
fn any_key() -> impl Strategy<Value = Key> {
    let code = prop_oneof![
        proptest::sample::select("pokjgGeEARawuU!/sSfLi?q[]dncy01.5xh *\u{202e}ü".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
        proptest::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Backspace,
            KeyCode::Left,
            KeyCode::Delete,
            KeyCode::F(1),
        ]),
    ];
    (code, proptest::bool::weighted(0.15)).prop_map(|(code, ctrl)| Key { code, ctrl, alt: false })
}

/// A step of a session: a key, rows that change, or time that passes.
#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Rows(Vec<(u32, bool)>),
    Page(usize),
    Time(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_key().prop_map(Step::Key),
        2 => proptest::collection::vec((0_u32..60, any::<bool>()), 0..20).prop_map(Step::Rows),
        1 => (0_usize..30).prop_map(Step::Page),
        1 => (0_u64..20).prop_map(Step::Time),
    ]
}

proptest! {
    #[test]
    fn whatever_is_pressed_the_cursor_stays_valid(steps in proptest::collection::vec(any_step(), 0..120)) {
        let (keymap, clock) = (keymap(), ManualClock::new(Wall(0)));
        let mut model = Model::new(Clean::new("fuzz"), Vec::new(), Mono::ZERO);
        let mut now = NOW;
        for step in steps {
            match step {
                Step::Key(pressed) => {
                    for request in key(&mut model, pressed, &keymap, now) {
                        if let Request::Act { command, targets, .. } = request {
                            let nobody = matches!(command, Command::Undo | Command::Redo | Command::Halt | Command::GoOn);
                            prop_assert_eq!(targets.is_empty(), nobody);
                        }
                    }
                }
                Step::Rows(rows) => {
                    let changed = rows.into_iter().map(|(id, paused)| {
                        let mut row = sample::row(id, &format!("h{id}.test"));
                        row.view.pause = paused.then_some(Pause { since: Mono::ZERO, until: None });
                        row
                    }).collect();
                    model.apply(crate::watch::Snapshot { changed, ..sample::snapshot() }, now);
                }
                Step::Page(page) => model.page = page,
                Step::Time(seconds) => now = now.after_secs(seconds as f64),
            }
            tick(&mut model, now);
            model.sort_if_due(now, &*clock);
            model.settle_cursor();
            let count = model.order.shown.len();
            prop_assert_eq!(model.cursor.is_none(), count == 0);
            if count > 0 {
                prop_assert_eq!(model.order.shown[model.at], model.cursor.expect("some").0);
                prop_assert!(model.top <= model.at && model.at < model.top + model.page.max(1));
            }
        }
    }
}
