use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use tui_input::Input;

use super::*;
use crate::clock::{ManualClock, Wall};
use crate::config::Glyphs;
use crate::control::{Command, Hold, HoldReason, HostId, HostState, Limiting, WakeEven};
use crate::text::Clean;
use crate::tui::keymap::Place;
use crate::tui::model::Question;
use crate::tui::sample;
use crate::tui::theme::{Depth, Surroundings};
use crate::watch::{Phase, Snapshot};

mod banner;
mod closely;
mod everywhere;
mod logbook;
mod session;

#[test]
fn every_screen_says_that_the_view_stands_still() {
    for size in [(20, 8), (60, 12), (80, 24), (100, 30), (160, 50)] {
        for screen in [Screen::Hosts, Screen::Host, Screen::Log] {
            let mut model = model(size);
            (model.size, model.screen) = (size, screen);
            assert!(!text(&model, size).contains("FROZEN"));
            model.frozen = Some(model.engine_now(Mono::ZERO));
            assert!(text(&model, size).contains("FROZEN (f)"), "{screen:?} {}", text(&model, size));
            model.plot = Some(Default::default());
            assert!(text(&model, size).contains("FROZEN (f)"), "the timeline {}", text(&model, size));
            model.totals.stopped_because = Some(Clean::new("the disk is full"));
            assert!(text(&model, size).contains("FROZEN (f)"), "beside trouble {}", text(&model, size));
        }
    }
}

fn keymap() -> Keymap {
    Keymap::with_overrides(&BTreeMap::new()).expect("built in")
}

fn theme(name: &str, glyphs: Glyphs) -> Theme {
    let around = Surroundings { no_color: false, depth: Depth::Sixteen, utf8: true };
    Theme::load(name, glyphs, around).expect(name)
}

/// A model of the sample, sorted, for a screen of this size.
fn model(size: (u16, u16)) -> Model {
    of_snapshot(sample::snapshot(), size)
}

fn of_snapshot(snapshot: Snapshot, size: (u16, u16)) -> Model {
    let mut model = Model::new(Clean::new("news-2026-09"), Vec::new(), Mono::ZERO);
    model.page = usize::from(Layout::of(size, false).table);
    model.apply(snapshot, Mono::ZERO);
    model.order.sort_now();
    model.sort_if_due(Mono::ZERO, &*ManualClock::new(Wall(0)));
    model
}

fn buffer(model: &Model, theme: &Theme, size: (u16, u16)) -> Buffer {
    let keymap = keymap();
    let scene = Scene { model, keymap: &keymap, theme, now: Mono::ZERO };
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    draw(&scene, &mut buffer);
    buffer
}

fn text(model: &Model, size: (u16, u16)) -> String {
    text_of(&buffer(model, &theme("default", Glyphs::Unicode), size))
}

/// The styles of a frame, row by row: what is not plain, and how.
fn styles(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut run: Option<(u16, String, Color, Modifier)> = None;
        for x in 0..=buffer.area.width {
            let cell = buffer.cell((x, y)).filter(|_| x < buffer.area.width);
            let look = cell.map(|cell| (cell.fg, cell.modifier));
            if let Some((from, words, fg, modifier)) = &mut run {
                if look == Some((*fg, *modifier)) {
                    words.push_str(cell.map_or("", |cell| cell.symbol()));
                    continue;
                }
                if (*fg, *modifier) != (Color::Reset, Modifier::empty()) {
                    out.push_str(&format!("{y:>2},{from:<3} {:?} {:?} {fg} {modifier:?}\n", words.trim(), words.len()));
                }
            }
            run = cell.map(|cell| (x, cell.symbol().to_owned(), cell.fg, cell.modifier));
        }
    }
    out
}

/// Every overlay.
fn overlays(model: &Model) -> Vec<Overlay> {
    let targets: Vec<HostId> = model.order.shown.iter().take(3).map(|index| HostId(*index)).collect();
    vec![
        Overlay::None,
        Overlay::Help(Help::default()),
        Overlay::Help(Help { search: Input::new(String::from("ra")), ..Help::default() }),
        Overlay::Legend,
        Overlay::Override { input: Input::default(), targets: targets.clone() },
        Overlay::Override { input: Input::new(String::from("0.5 for 2h")), targets: targets.clone() },
        Overlay::Override { input: Input::new(String::from("fast \u{202e}\u{1b}[2J")), targets: targets.clone() },
        Overlay::Filter { input: Input::new(String::from("gaz")) },
        Overlay::Command(crate::tui::update::Prompt::new("rate 0.5 is:angry \u{202e}")),
        Overlay::Confirm(Question {
            lines: vec![Clean::new("12 hosts: reset to the original rate?"), Clean::new("a.test, b.test and more")],
            command: Command::Wake(WakeEven::Asked),
            targets,
            chosen_by: Clean::default(),
        }),
        Overlay::Leave,
        Overlay::Sort { at: 2 },
    ]
}

#[test]
fn screens_are_as_agreed() {
    for size in [(60, 12), (80, 24), (100, 30), (160, 50)] {
        insta::assert_snapshot!(format!("hosts_{}x{}", size.0, size.1), text(&model(size), size));
    }
    let ascii = buffer(&model((80, 24)), &theme("mono", Glyphs::Ascii), (80, 24));
    let ascii = text_of(&ascii);
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("hosts_80x24_ascii", ascii);
}

#[test]
fn overlays_are_as_agreed() {
    let size = (80, 24);
    let mut model = model(size);
    model.legend = vec![Clean::new("steady.test: answers everything at once")];
    for (name, index) in [("help", 1), ("legend", 3), ("override", 5), ("confirm", 8), ("leave", 9), ("sort", 10)] {
        model.overlay = overlays(&model).remove(index);
        insta::assert_snapshot!(format!("overlay_{name}"), text(&model, size));
    }
}

#[test]
fn the_help_has_room_for_every_action_at_80_by_24() {
    let theme = theme("default", Glyphs::Unicode);
    for (place, ..) in Place::ALL {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 22));
        let area = buffer.area;
        help::draw(&keymap(), place, &mut Brush::new(&mut buffer, area, &theme), &Help::default());
        let words = text_of(&buffer);
        assert!(words.contains(&format!("help: {}", place.title())), "{words}");
        for binding in keymap().bindings() {
            let Some(help) = binding.help_at(place) else { continue };
            assert!(words.contains(help), "{}: {help}\n{words}", binding.name);
        }
    }
}

#[test]
fn styles_are_as_agreed() {
    let size = (80, 24);
    let mut model = model(size);
    model.move_to(4);
    model.marks.insert(HostId(7));
    for name in ["default", "mono"] {
        insta::assert_snapshot!(format!("styles_{name}"), styles(&buffer(&model, &theme(name, Glyphs::Unicode), size)));
    }
}

#[test]
fn the_fixed_words_stand_in_every_header() {
    for size in [(60, 12), (80, 24), (100, 24), (139, 40), (140, 40), (300, 100)] {
        let text = text(&model(size), size);
        for word in ["hosts 12 ", "PAUSED 1", "OVERRIDE 1", "STUCK 1", "ANGRY 2", "RUNNING"] {
            assert!(text.contains(word), "{word} at {size:?}:\n{text}");
        }
    }
}

#[test]
fn counters_are_whole_or_left_out() {
    let whole = ["STUCK", "ANGRY", "TAIL", "backoff", "PAUSED", "OVERRIDE", "FORGOTTEN", "run", "wait", "done"];
    for (width, paused) in (60..160).flat_map(|width| [1, 40, 40_000].map(|paused| (width, paused))) {
        let mut snapshot = sample::snapshot();
        let counts = &mut snapshot.totals.counts;
        (counts.forgotten, counts.by_state[HostState::Paused as usize], counts.overridden) = (paused, paused, paused);
        for forgotten in [0, paused] {
            snapshot.totals.counts.forgotten = forgotten;
            let shown = text(&of_snapshot(snapshot.clone(), (width, 24)), (width, 24));
            let line = shown.lines().find(|line| line.contains("STUCK 1")).expect("the counters");
            let line = line.split("ETA").next().unwrap_or_default().replace("40 000", "40000");
            let words: Vec<&str> =
                line.split_whitespace().filter(|word| *word != "│" && !word.starts_with('(')).collect();
            for pair in words.chunks(2) {
                assert!(whole.contains(&pair[0]) && pair.get(1).is_some_and(|n| n.parse::<u32>().is_ok()), "{line}");
            }
        }
    }
}

#[test]
fn the_dialog_before_leaving_is_whole_on_the_smallest_screen() {
    for size in [(60, 12), (66, 20), (80, 24)] {
        let mut model = model(size);
        model.overlay = Overlay::Leave;
        let shown = text(&model, size);
        for words in ["stay here", "(default)", "what is in flight", "leave ", "in flight.", "a third stops now."] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}

#[test]
fn what_was_forgotten_is_called_to_mind_on_every_screen() {
    for size in [(60, 12), (80, 24), (139, 40), (160, 50)] {
        let mut snapshot = sample::snapshot();
        snapshot.totals.counts.forgotten = 3;
        let mut model = of_snapshot(snapshot, size);
        for screen in
            [crate::tui::model::Screen::Hosts, crate::tui::model::Screen::Host, crate::tui::model::Screen::Log]
        {
            model.screen = screen;
            let words = text(&model, size);
            assert!(words.contains("FORGOTTEN 3") && words.contains("OVERRIDE 1 (48m)"), "{words}");
        }
    }
}

#[test]
fn traps_are_counted_on_every_screen_and_shown_in_their_row() {
    for size in [(60, 12), (80, 24), (139, 40), (160, 50)] {
        let mut snapshot = sample::snapshot();
        snapshot.totals.counts.trapped = 2;
        assert!(text(&of_snapshot(snapshot, size), size).contains("TRAP 2"), "{size:?}");
    }
    let mut row = sample::row(0, "a.test");
    let evidence = crate::control::Evidence::HeldBack { urls: 57 };
    row.view.concern =
        Some(crate::control::Concern { kind: crate::control::ConcernKind::Trap, since: sample::NOW, evidence });
    let words = text(&of_snapshot(Snapshot { changed: vec![row], ..sample::snapshot() }, (160, 50)), (160, 50));
    assert!(words.contains("TRAP 57 held"), "{words}");
}

#[test]
fn a_pause_that_ends_by_itself_counts_down_in_its_row() {
    let mut row = sample::row(0, "a.test");
    let until = Some(sample::NOW.after_secs(1_750.0));
    row.view.pause = Some(crate::control::Pause { since: sample::NOW, until });
    let words = text(&of_snapshot(Snapshot { changed: vec![row], ..sample::snapshot() }, (80, 24)), (80, 24));
    let line = words.lines().find(|line| line.starts_with('▌')).expect("a row").to_owned();
    assert!(line.contains(" 29:10 "), "{line}");
}

#[test]
fn the_first_line_tells_of_trouble() {
    for size in [(60, 12), (80, 24), (160, 50), (40, 8)] {
        let mut snapshot = sample::snapshot();
        snapshot.totals.stopped_because = Some(Clean::new("no space left on the disk"));
        let words = text(&of_snapshot(snapshot, size), size);
        assert!(words.contains("nothing is sent: no space left"), "{words}");
        let mut snapshot = sample::snapshot();
        snapshot.totals.resting_because = Some(Clean::new("no free port"));
        let words = text(&of_snapshot(snapshot, size), size);
        assert!(words.contains("rests now and then: no free port") || size.0 < 50, "{words}");
        let model = model(size);
        let (keymap, theme) = (keymap(), theme("default", Glyphs::Unicode));
        let scene = Scene { model: &model, keymap: &keymap, theme: &theme, now: Mono::from_secs_f64(9.5) };
        assert!(screenshot(&scene, size.0, size.1).contains("engine silent for 9 s"));
    }
}

#[test]
fn the_state_is_one_word() {
    let words = |phase, halted| {
        let mut snapshot = sample::snapshot();
        (snapshot.totals.phase, snapshot.totals.halted) = (phase, halted);
        text(&of_snapshot(snapshot, (80, 24)), (80, 24))
    };
    assert!(words(Phase::Running, true).contains("● HALTED"));
    assert!(words(Phase::Draining, false).contains("● DRAINING"));
    let over = words(Phase::Finished, false);
    assert!(over.contains("● FINISHED") && over.contains("The crawl is over.  q leaves"));
    let empty = Model::new(Clean::new("x"), Vec::new(), Mono::ZERO);
    assert!(text(&empty, (80, 24)).contains("STARTING"));
}

#[test]
fn below_the_least_size_the_counters_remain() {
    let words = text(&model((80, 24)), (59, 24));
    for word in ["need 60×12", "STUCK 1", "ANGRY 2", "PAUSED 1", "OVERRIDE 1", "hosts 12"] {
        assert!(words.contains(word), "{words}");
    }
    assert!(text(&model((80, 24)), (80, 11)).contains("need 60×12"));
}

#[test]
fn wanted_17_each_row_names_its_limiting_cause_on_the_screen() {
    for (limiting, words) in [
        (Limiting::NoTokens, "no tokens"),
        (Limiting::Held, "429 backing off"),
        (Limiting::RobotsDelay, "robots delay 5s"),
        (Limiting::RobotsPending, "asks robots.txt"),
        (Limiting::Paused, "PAUSED you"),
        (Limiting::Halted, "crawl halted"),
        (Limiting::Connections, "connections busy"),
        (Limiting::NothingQueued, "nothing queued"),
        (Limiting::RequestLimit, "request limit"),
        (Limiting::GlobalRate, "global rate"),
        (Limiting::ServerPace, "paced by headers"),
    ] {
        let mut row = sample::row(0, "a.test");
        row.view.limiting = limiting;
        row.view.crawl_delay = Some((Duration::from_secs(5), false));
        let until = sample::NOW.after_secs(50.0);
        row.view.hold = Some(Hold { until, since: sample::NOW, reason: HoldReason::Throttled })
            .filter(|_| limiting == Limiting::Held);
        for size in [(60, 12), (80, 24), (160, 50)] {
            let words_of =
                text(&of_snapshot(Snapshot { changed: vec![row.clone()], ..sample::snapshot() }, size), size);
            let line = words_of
                .lines()
                .find(|line| line.starts_with('▌') && line.contains("a.test "))
                .expect("a row")
                .to_owned();
            assert!(line.contains(words), "{limiting:?} at {size:?}: {line}");
        }
    }
}

#[test]
fn wanted_13_15_a_pause_and_an_override_are_seen_in_the_row() {
    let words = text(&model((80, 24)), (80, 24));
    let line = |name: &str| words.lines().find(|line| line.contains(name)).expect(name).to_owned();
    assert!(line("shop.lumb").contains("PAUSED you 30m") && line("shop.lumb").contains("paus"));
    assert!(line("img.atla").contains("0.50*") && line("img.atla").contains("OVERRIDE 48m"));
}

#[test]
fn a_long_name_of_the_run_gives_way_to_what_is_in_flight() {
    let mut model = model((80, 24));
    model.run_name = Clean::new("a-crawl-of-the-whole-of-it");
    (model.totals.in_flight, model.totals.concurrency) = (123, 1_024);
    let words = text(&model, (80, 24));
    let line = words.lines().next().expect("a line");
    assert!(line.contains("in-flight 123/1024 ") && line.contains(" a-crawl-") && line.contains(" UTC"), "{line}");
}

#[test]
fn the_demo_s_lines_stand_under_the_table_where_there_is_room() {
    let mut model = model((120, 60));
    model.legend = (0..9).map(|i| Clean::new(format!("host {i} has a character"))).collect();
    assert!(text(&model, (120, 60)).contains("host 8 has a character"));
    assert!(!text(&model, (80, 24)).contains("host 8 has a character"), "no room");
    assert!(text(&model, (80, 24)).contains("i about these hosts"), "but a key");
    // What the controller found stands beside what is hidden.
    model.legend[0] = Clean::new("api.gazet.test     429 beyond a hidden limit of 0.3/s");
    assert!(text(&model, (120, 60)).contains("hidden limit of 0.3/s · found 0.25/s"));
    model.overlay = Overlay::Legend;
    let narrow = text(&model, (60, 24));
    assert!(narrow.contains("… · found 0.25/s"), "{narrow}");
}

#[test]
fn case_113_every_size_is_drawn_with_every_overlay() {
    let (unicode, ascii) = (theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii));
    let widths = (1..=24).chain([39, 40, 57, 58, 59, 60, 61, 79, 80, 81, 99, 100, 139, 140, 141, 200, 300]);
    for width in widths {
        for height in (1..=26).chain([39, 40, 41, 60, 100]) {
            let mut model = model((width, height));
            model.legend = vec![Clean::new("steady.test: answers")];
            for (index, overlay) in overlays(&model).into_iter().enumerate() {
                model.overlay = overlay;
                model.log_open = index % 2 == 1;
                let theme = if index % 3 == 0 { &ascii } else { &unicode };
                buffer(&model, theme, (width, height));
            }
        }
    }
    buffer(&model((0, 0)), &unicode, (0, 0));
}

/// What a frame's bytes may hold: text, and cursor moves, styles and erasing of our own.
fn foreign_controls(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut foreign = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            let mut sequence = String::new();
            for c in rest.by_ref() {
                sequence.push(c);
                if sequence.len() > 1 && ('@'..='~').contains(&c) {
                    break;
                }
            }
            let body = sequence.trim_start_matches('[');
            let plain = body.trim_end_matches(['H', 'm']);
            if !sequence.starts_with('[')
                || plain.len() + 1 != body.len()
                || plain.contains(|c: char| !c.is_ascii_digit() && c != ';')
            {
                foreign.push(sequence);
            }
        } else if c.is_control() || Clean::new(c.to_string()).as_str() != c.to_string() {
            foreign.push(c.escape_unicode().to_string());
        }
    }
    foreign
}

fn frame_bytes(model: &Model, theme: &Theme, size: (u16, u16)) -> Vec<u8> {
    crossterm::style::force_color_output(true);
    let next = buffer(model, theme, size);
    let shown = Buffer::empty(next.area);
    let mut bytes = Vec::new();
    CrosstermBackend::new(&mut bytes).draw(shown.diff(&next).into_iter()).expect("memory takes all");
    bytes
}

/// Names that try to leave their row.
const NASTY: [&str; 12] = [
    "\u{1b}[2Jgone.test",
    "a\u{9b}31m.test",
    "\u{1b}]52;c;aGk=\u{7}x.test",
    "\u{1b}]8;;http://evil.test\u{1b}\\link.test",
    "\u{202e}tset.live",
    "a\u{2066}b\u{2069}.test",
    "zero\u{200b}width.test",
    "日本語のとても長い名前のホスト.テスト.example",
    "e\u{301}\u{301}\u{301}\u{301}.test",
    "👩‍👩‍👧‍👦.test",
    "\r\nline.test",
    "",
];

#[test]
fn case_117_case_118_no_name_leaves_its_cell() {
    let mut snapshot = sample::snapshot();
    snapshot.changed = (0..).zip(NASTY).map(|(id, name)| sample::row(id, name)).collect();
    for line in &mut snapshot.log {
        line.host = Clean::new(NASTY[2]);
        line.text = Clean::new(NASTY.concat());
    }
    snapshot.totals.stopped_because = Some(Clean::new(NASTY[0]));
    let mut model = of_snapshot(snapshot, (160, 50));
    model.run_name = Clean::new(NASTY[3]);
    model.legend = NASTY.iter().map(Clean::new).collect();
    model.say(NASTY.concat(), Mono::ZERO);
    for overlay in overlays(&model) {
        model.overlay = overlay;
        for size in [(60, 12), (80, 24), (160, 50)] {
            let bytes = frame_bytes(&model, &theme("default", Glyphs::Unicode), size);
            assert_eq!(foreign_controls(&bytes), Vec::<String>::new(), "{:?}", model.overlay);
        }
    }
}

/// A wide letter half under a box would be shown whole, and the box without its side.
#[test]
fn case_117_case_118_wide_letters_under_a_box_do_not_take_its_side() {
    let mut snapshot = sample::snapshot();
    let name = "日本語のとても長い名前のホスト.テスト.example";
    snapshot.changed = (0..30).map(|id| sample::row(id, &format!("{}{name}", "a".repeat(id as usize % 2)))).collect();
    let mut model = of_snapshot(snapshot, (160, 50));
    for overlay in overlays(&model) {
        model.overlay = overlay;
        for width in (60..=110).chain([140, 141, 160]) {
            let drawn = buffer(&model, &theme("default", Glyphs::Unicode), (width, 24));
            assert_eq!(broken(&drawn), Vec::<String>::new(), "{:?} at {width}", model.overlay);
        }
    }
}

#[test]
fn the_check_of_foreign_bytes_can_fail() {
    for bytes in [&b"\x1b]52;c;x\x07"[..], b"\x1b[2J", "\u{9b}1m".as_bytes(), "\u{202e}".as_bytes(), b"a\x07"] {
        assert_ne!(foreign_controls(bytes), Vec::<String>::new(), "{bytes:?}");
    }
    assert_eq!(foreign_controls(b"\x1b[3;4Hhello\x1b[0;1m"), Vec::<String>::new());
}

/// A row with any figures.
fn any_row(id: u32) -> impl Strategy<Value = crate::watch::HostRow> {
    let state = proptest::sample::select(vec![
        HostState::Run,
        HostState::Wait,
        HostState::Back,
        HostState::Block,
        HostState::Paused,
        HostState::Done,
        HostState::Idle,
    ]);
    (any::<String>(), state, any::<(f64, f64, f64)>(), any::<(u64, u32, u64)>(), any::<[u32; 5]>()).prop_map(
        move |(name, state, (tokens, rate, capacity), (queued, in_flight, until), recent)| {
            let mut row = sample::row(id, &name);
            let view = &mut row.view;
            (view.state, view.tokens, view.queued, view.in_flight, view.recent) =
                (state, tokens, queued, in_flight, recent);
            (view.effective.rate, view.effective.capacity) = (rate, capacity);
            view.hold = Some(Hold { until: Mono::from_nanos(until), since: Mono::NEVER, reason: HoldReason::Refused });
            row
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_figures_at_any_size_are_drawn(
        rows in (any_row(0), any_row(1), any_row(2)),
        size in (1_u16..220, 1_u16..70),
        floats in any::<(f64, f64)>(),
        history in any::<Vec<f32>>(),
        counts in any::<(u64, u64, u64, [u64; 5])>(),
        which in 0_usize..11,
    ) {
        let mut snapshot = sample::snapshot();
        snapshot.changed = vec![rows.0, rows.1, rows.2];
        let totals = &mut snapshot.totals;
        (totals.rate_now, totals.rate_15m, totals.rate_history) = (floats.0, floats.1, history);
        (totals.urls_done, totals.urls_failed, totals.urls_pending, totals.classes) = counts;
        totals.eta_bulk = Some(Duration::MAX);
        totals.eta_tail = Some((Duration::MAX, HostId(u32::MAX)));
        snapshot.up = Duration::MAX;
        let mut model = of_snapshot(snapshot, size);
        model.overlay = overlays(&model).remove(which);
        let bytes = frame_bytes(&model, &theme("default", Glyphs::Unicode), size);
        prop_assert_eq!(foreign_controls(&bytes), Vec::<String>::new());
    }
}

/// The pictures in the documentation are real frames: a frame that changes makes this fail until they are
/// written anew (set `CRAWLDECK_WRITE_PICTURES`).
fn assert_picture(name: &str, frame: &Buffer, about: &str) {
    let picture = crate::tui::picture::svg(frame, about);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/screens").join(name);
    if std::env::var_os("CRAWLDECK_WRITE_PICTURES").is_some() {
        std::fs::write(&file, &picture).expect("written");
    }
    assert!(std::fs::read_to_string(&file).expect("there is a picture") == picture, "{name} is out of date");
}

#[test]
fn pictures_are_real_frames() {
    let size = (100, 28);
    let around = Surroundings { no_color: false, depth: Depth::True, utf8: true };
    let theme = Theme::load("default", Glyphs::Unicode, around).expect("loads");
    assert_picture(
        "hosts.svg",
        &buffer(&model(size), &theme, size),
        "The hosts screen: what needs a human stands first",
    );
}
