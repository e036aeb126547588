use std::path::Path;

use proptest::prelude::*;
use ratatui::layout::Rect;

use super::*;
use crate::clock::Wall;
use crate::config::Glyphs;
use crate::control::{Mono, OperatorSettings, Outcome, Override, Value, What, Who};
use crate::journal::reader::{EventRecord, Word};
use crate::journal::timeline::entry::LogScan;
use crate::journal::timeline::{Ended, Progress, Timeline};
use crate::text::Clean;
use crate::tui::key::Key;
use crate::tui::plot::Kind;
use crate::tui::review::model::LogView;
use crate::tui::review::update::{self, Effect};
use crate::tui::theme::{Depth, Surroundings};
use crate::tui::view::{broken, dump, every_size, text_of};

mod session;

/// 2026-11-30T18:00:00Z.
const BEGAN: i64 = 1_796_061_600_000_000;
const HOSTS: [&str; 5] = ["www.astr.test", "api.gazet.test", "news.kan.test", "forum.oldca.test", "shop.lumb.test"];

fn keymap() -> Keymap {
    Keymap::with_overrides(&std::collections::BTreeMap::new()).expect("built in")
}

fn theme(name: &str, glyphs: Glyphs) -> Theme {
    let around = Surroundings { no_color: false, depth: Depth::True, utf8: true };
    Theme::load(name, glyphs, around).expect(name)
}

/// An evening with a busy host that says 429 for a while, and a person who acts.
fn evening() -> Timeline {
    let mut timeline = Timeline::new(Path::new("run"), None);
    let mut random = fastrand::Rng::with_seed(7);
    for second in 0..7_200_i64 {
        let number = random.usize(0..HOSTS.len());
        let stormy = (2_600..4_200).contains(&second) && number == 1;
        let (status, outcome) = match (stormy, random.u32(0..100)) {
            (true, ..60) => (Some(429), Outcome::Throttled),
            (_, 60..70) => (Some(301), Outcome::Redirect),
            (_, 70..78) => (Some(404), Outcome::ClientError),
            (_, 78..80) if number == 2 => (Some(503), Outcome::ServerError),
            (_, 80..82) => (None, Outcome::Timeout),
            (_, 82) => (None, Outcome::ConnectionReset),
            _ => (Some(200), Outcome::Ok),
        };
        for repeat in 0..random.i64(1..5) {
            let time = Wall(BEGAN + second * 1_000_000 + repeat * 90_000);
            let latency_ms = 40.0 + f64::from(random.u32(0..400)) + if stormy { 3_000.0 } else { 0.0 };
            let host = timeline.host_number(&Clean::new(HOSTS[number]));
            timeline.request(host, Ended { time, status, outcome: Some(outcome), latency_ms, rate: 1.0 });
        }
    }
    let settings = |rate: Option<f64>, paused: bool| {
        let overriding = rate.map(|rate| Override { rate: Some(rate), capacity: None, since: Mono::ZERO, until: None });
        let pause = paused.then_some(crate::control::Pause { since: Mono::ZERO, until: None });
        Value::Settings(OperatorSettings { overriding, pause, budget: None })
    };
    let rates = HOSTS.iter().map(|host| (1, Who::System, What::Rate, *host, Value::Number(2.0), "original"));
    for (second, who, what, host, after, why) in rates.chain([
        (2_650, Who::Controller, What::Rate, HOSTS[1], Value::Number(1.0), "throttled (429)"),
        (2_690, Who::Server, What::Hold, HOSTS[1], Value::Number(1_200.0), "429, server asked to retry after 1200 s"),
        (2_700, Who::Concern, What::Concern, HOSTS[1], Value::Text("angry".into()), "429 ×16: consider a lower rate"),
        (2_900, Who::Operator, What::Override, HOSTS[1], settings(Some(0.5), false), "filter *.gazet.test"),
        (3_100, Who::Operator, What::Undo, HOSTS[1], settings(None, false), "undone"),
        (5_600, Who::Operator, What::Pause, HOSTS[4], settings(None, true), "for 30m"),
        (7_199, Who::System, What::Stop, "", Value::None, "drained"),
    ]) {
        let before = match (what, second) {
            (What::Rate, 2_650) => Value::Number(2.0),
            _ => Value::None,
        };
        timeline.event(&EventRecord {
            time: Wall(BEGAN + second * 1_000_000),
            seq: 0,
            mono: Some(Mono::from_secs_f64(second as f64)),
            who: Word::Known(who),
            host: (!host.is_empty()).then(|| Clean::new(host)),
            what: Word::Known(what),
            before,
            after,
            why: Clean::new(why),
            url: None,
            version: None,
        });
    }
    timeline
}

fn model(size: (u16, u16)) -> Review {
    let mut model = Review::new(Path::new("/no/such/news-2026-11"), Some(Path::new("/no/such/news-2026-10")));
    model.timeline = evening();
    model.tab = Tab::Timeline;
    model.progress = Progress { read: 1_000, total: 1_000, at_end: true };
    model.size = size;
    model.plot.cursor = Some(Wall(BEGAN + 2_800_000_000));
    model.refresh();
    model
}

fn buffer(model: &Review, theme: &Theme) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, model.size.0, model.size.1));
    draw(model, &keymap(), theme, &mut buffer);
    buffer
}

fn text(model: &Review) -> String {
    text_of(&buffer(model, &theme("default", Glyphs::Unicode)))
}

fn press(model: &mut Review, keys: &str) -> Vec<Effect> {
    let keymap = keymap();
    let effects =
        keys.split(' ').flat_map(|key| update::key(model, Key::parse(key).expect(key), &keymap, Mono::ZERO)).collect();
    model.refresh();
    effects
}

#[test]
fn the_timeline_at_80x24() {
    insta::assert_snapshot!("timeline_80x24", text(&model((80, 24))));
}

#[test]
fn the_timeline_at_160x50() {
    insta::assert_snapshot!("timeline_160x50", text(&model((160, 50))));
}

#[test]
fn the_timeline_at_60x12() {
    insta::assert_snapshot!("timeline_60x12", text(&model((60, 12))));
}

#[test]
fn the_timeline_in_ascii() {
    let picture = text_of(&buffer(&model((80, 24)), &theme("mono", Glyphs::Ascii)));
    assert!(picture.is_ascii(), "{picture}");
    insta::assert_snapshot!("timeline_ascii", picture);
}

#[test]
fn latency_as_a_scatter() {
    let mut model = model((80, 24));
    press(&mut model, "m");
    insta::assert_snapshot!("scatter_80x24", text(&model));
    press(&mut model, "m");
    insta::assert_snapshot!("rate_80x24", text(&model));
    press(&mut model, "m");
    assert_eq!(model.plot.kind, Kind::Codes);
}

#[test]
fn every_list_at_80x24() {
    let mut model = model((80, 24));
    for (key, name) in [("2", "hosts"), ("3", "decisions"), ("4", "acts"), ("5", "export"), ("6", "compare")] {
        press(&mut model, key);
        insta::assert_snapshot!(format!("{name}_80x24"), text(&model));
    }
    press(&mut model, "?");
    insta::assert_snapshot!("help_80x24", text(&model));
}

#[test]
fn the_cursor_tells_exact_counts_and_the_angriest_host() {
    let mut model = model((80, 24));
    let (from, to) = model.cursor_span();
    assert!(from.0 <= BEGAN + 2_800_000_000 && to.0 > BEGAN + 2_800_000_000);
    let (host, _) = model.angriest().expect("somebody was angry");
    assert_eq!(host.host.as_str(), "api.gazet.test");
    let before = model.cursor_span();
    press(&mut model, "l");
    assert_eq!(model.cursor_span().0, before.1, "one cell on");
    press(&mut model, "h h");
    assert_eq!(model.cursor_span().1, before.0);
    press(&mut model, "+ +");
    let (from, to) = model.cursor_span();
    assert!(to.0 - from.0 <= (before.1.0 - before.0.0) / 3, "closer");
    press(&mut model, "0 G");
    assert_eq!(model.plot.cursor, None);
    assert_eq!(model.plot.zoom, 0);
}

#[test]
fn a_filter_that_the_review_cannot_apply_is_refused_on_the_line() {
    let mut model = model((120, 24));
    for typed in ["/ r a t e < 1 enter", "/ i s : a n g r y enter"] {
        assert!(press(&mut model, typed).is_empty(), "{typed}: nothing is read");
        assert!(model.filter.is_empty() && model.prompt.is_some());
        assert!(text(&model).contains("is no name: hosts are chosen by name here"), "{}", text(&model));
        press(&mut model, "esc");
    }
}

#[test]
fn keys_ask_for_what_they_say() {
    let mut model = model((80, 24));
    let (from, _) = model.cursor_span();
    assert!(matches!(press(&mut model, "enter")[..], [Effect::Log(at)] if at == from));
    assert!(
        matches!(&press(&mut model, "/ k a n enter")[..], [Effect::Read(filter)] if filter.takes_name("news.kan.test"))
    );
    assert!(matches!(&press(&mut model, "esc")[..], [Effect::Read(filter)] if filter.is_empty()));
    assert!(matches!(press(&mut model, "5 j enter")[..], [Effect::Export(super::super::export::Export::Json)]));
    assert!(matches!(press(&mut model, "j enter")[..], [Effect::Export(super::super::export::Export::Svg)]));
    assert!(press(&mut model, "esc").is_empty() && model.tab == Tab::Timeline);
    assert!(matches!(press(&mut model, "q")[..], [Effect::Leave]));
    assert!(matches!(press(&mut model, "/ x ctrl-c")[..], [Effect::Leave]));
}

#[test]
fn the_worst_host_stands_first_and_what_was_forgotten_is_named() {
    let mut model = model((80, 24));
    press(&mut model, "2");
    let first = model.timeline.hosts()[model.order[0] as usize].host.clone();
    assert_eq!(first.as_str(), "api.gazet.test");
    press(&mut model, "s s s s s");
    let names: Vec<&str> =
        model.order.iter().map(|host| model.timeline.hosts()[*host as usize].host.as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
    press(&mut model, "4");
    assert_eq!(model.still_set.0.iter().map(Clean::as_str).collect::<Vec<_>>(), ["shop.lumb.test paused"]);
}

#[test]
fn a_host_that_never_let_us_in_stands_above_the_healthy_ones() {
    let mut model = model((120, 24));
    let mut add = |name: &str, status: u16, count: usize| {
        let host = model.timeline.host_number(&Clean::new(name));
        for _ in 0..count {
            let time = Wall(BEGAN + 5_000_000);
            let ended =
                Ended { time, status: Some(status), outcome: Some(Outcome::ClientError), latency_ms: 9.0, rate: 1.0 };
            model.timeline.request(host, ended);
        }
    };
    add("closed.test", 403, 73);
    add("gone.test", 404, 40);
    press(&mut model, "2");
    let names = |model: &Review| -> Vec<String> {
        model.order.iter().map(|host| model.timeline.hosts()[*host as usize].host.to_string()).collect()
    };
    // The first was held; the others never.
    assert_eq!(names(&model)[..3], ["api.gazet.test", "closed.test", "gone.test"]);
    let row = |name: &str| text(&model).lines().find(|line| line.contains(name)).map(str::to_owned).expect("shown");
    let figures = |name| row(name).split_whitespace().skip(1).take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(figures("closed.test"), ["73", "73", "73"], "requests, refusals, 4xx");
    assert_eq!(figures("gone.test"), ["40", "–", "40"]);
    press(&mut model, "s");
    assert_eq!(names(&model)[1], "closed.test", "by refusals as well");
}

#[test]
fn reading_has_a_progress_bar() {
    let mut model = model((80, 24));
    model.progress = Progress { read: 300, total: 1_000, at_end: false };
    assert!(text(&model).contains("reading ▕██████              ▏ 30%"), "{}", text(&model));
}

#[test]
fn case_113_every_size_is_drawn_with_every_tab() {
    let (unicode, ascii) = (theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii));
    let mut model = model((80, 24));
    let widths = (1..=24).chain([39, 57, 59, 60, 61, 66, 67, 79, 80, 81, 99, 100, 139, 140, 141, 200, 300]);
    for width in widths {
        for height in (1..=26).chain([35, 36, 37, 40, 60, 100]) {
            model.size = (width, height);
            for (index, (tab, ..)) in Tab::ALL.into_iter().enumerate() {
                model.tab = tab;
                model.help = (index == 1).then(Default::default);
                model.plot.kind = [Kind::Codes, Kind::Latency, Kind::Rate][index % 3];
                model.log = (index == 4).then(LogView::default);
                model.prompt = (index == 5).then(Default::default);
                model.plot.zoom = u32::from(width % 5);
                model.refresh();
                buffer(&model, if index % 3 == 0 { &ascii } else { &unicode });
            }
        }
    }
    let empty = Review::new(Path::new("/no/such"), None);
    buffer(&empty, &unicode);
    assert!(!text(&empty).is_empty());
}

/// With `CRAWLDECK_EVERY_SIZE` all of them: see the dashboard's.
#[test]
fn case_113_every_size_renders_every_screen() {
    let looks = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii)];
    let mut all: Vec<Review> = ["1", "1 m", "1 m m", "2", "3", "4", "5", "6", "1 ?", "2 ?", "/ i s :", "2 l"]
        .into_iter()
        .map(|keys| {
            let mut model = model((80, 24));
            press(&mut model, keys);
            model
        })
        .collect();
    if let Some(last) = all.last_mut() {
        last.log = Some(LogView::default());
    }
    for size in every_size() {
        for (at, model) in all.iter_mut().enumerate() {
            model.size = size;
            model.plot.zoom = u32::from(size.0 % 5);
            model.refresh();
            let frame = buffer(model, &looks[(usize::from(size.0 + size.1) + at) % 2]);
            assert_eq!(broken(&frame), Vec::<String>::new(), "screen {at} at {size:?}");
        }
    }
}

#[test]
fn a_scan_of_nothing_is_an_empty_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut scan = LogScan::open(dir.path(), Wall(0)).expect("no file is no trouble");
    scan.step(1).expect("nothing to read");
    assert!(scan.complete && LogView::of(scan).entries.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_keys_at_any_size(keys in "[0-9hlHLjkgGsSm/+=?qx.*\\[-]{0,40}", size in (1_u16..220, 1_u16..70)) {
        let theme = theme("default", Glyphs::Unicode);
        let mut model = Review::new(Path::new("/no/such"), None);
        let host = model.timeline.host_number(&Clean::new("a\u{1b}[2J.test"));
        let ended = Ended { time: Wall(BEGAN), status: Some(429), outcome: None, latency_ms: 1e9, rate: f64::NAN };
        model.timeline.request(host, ended);
        model.timeline.request(host, Ended { time: Wall(-BEGAN), ..ended });
        model.size = size;
        for key in keys.chars() {
            update::key(&mut model, Key::char(key), &keymap(), Mono::ZERO);
            model.refresh();
            buffer(&model, &theme);
        }
    }
}

/// See the test of the same name for the hosts screen: set `CRAWLDECK_WRITE_PICTURES` to write it anew.
#[test]
fn pictures_are_real_frames() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/screens");
    let mut shown = model((110, 30));
    shown.other = None;
    let frame = buffer(&shown, &theme("default", Glyphs::Unicode));
    let picture = crate::tui::picture::svg(&frame, "The review of a run: answers over time by status code");
    let file = folder.join("review.svg");
    if std::env::var_os("CRAWLDECK_WRITE_PICTURES").is_some() {
        std::fs::write(&file, &picture).expect("written");
    }
    let kept = std::fs::read_to_string(&file).expect("there is a picture");
    assert!(kept == picture, "{} is out of date", file.display());
}

#[test]
fn the_mouse_chooses_tabs_rows_moments_and_orders() {
    let mut model = model((80, 24));
    assert!(matches!(press(&mut model, "M")[..], [Effect::Mouse(true)]));
    let point = |model: &mut Review, code| {
        let effects = update::key(model, Key::plain(code), &keymap(), Mono::ZERO);
        model.refresh();
        assert!(effects.is_empty());
    };
    use crate::tui::key::KeyCode::{Click, WheelDown, WheelUp};
    let (from, to) = model.cursor_span();
    point(&mut model, WheelUp);
    assert_eq!(model.cursor_span().1, from);
    point(&mut model, WheelDown);
    assert_eq!(model.cursor_span(), (from, to));
    point(&mut model, Click(10, 5));
    assert_eq!(model.cursor_span().0, model.timeline.bins().start(0), "the first cell");
    point(&mut model, Click(79, 5));
    assert_eq!(model.cursor_span().0, model.timeline.bins().start(0), "no moment stands there");
    // ` [1 timeline]  2 hosts  3 rate decisions  4 your actions  …`
    point(&mut model, Click(17, 1));
    assert_eq!(model.tab, Tab::Hosts);
    point(&mut model, Click(5, 6));
    assert_eq!(model.lists[Tab::Hosts as usize].at, 2);
    point(&mut model, Click(5, 20));
    assert_eq!(model.lists[Tab::Hosts as usize].at, 2, "no host stands there");
    point(&mut model, Click(5, 3));
    assert_eq!((model.sort, model.reversed), (crate::tui::review::model::HostSort::Name, false), "on the heading HOST");
    point(&mut model, Click(5, 3));
    assert!(model.reversed);
    point(&mut model, Click(45, 1));
    assert_eq!(model.tab, Tab::Acts);
    point(&mut model, Click(5, 8));
    assert_eq!(model.lists[Tab::Acts as usize].at, 1);
    press(&mut model, "?");
    point(&mut model, Click(17, 1));
    assert_eq!(model.tab, Tab::Acts, "not through the help");
}

#[test]
fn the_keys_of_the_review_are_rebound_by_name() {
    let keys = [("picture", "v"), ("show_hosts", "x"), ("leave", "Z")];
    let keys = keys.map(|(action, key)| (action.to_owned(), key.to_owned()));
    let keymap = Keymap::with_overrides(&keys.into()).expect("no conflict");
    let mut model = model((80, 24));
    let send = |model: &mut Review, key: char| update::key(model, Key::char(key), &keymap, Mono::ZERO);
    assert!(send(&mut model, 'm').is_empty() && model.plot.kind == Kind::Codes, "unbound");
    send(&mut model, 'v');
    assert_eq!(model.plot.kind, Kind::Latency);
    send(&mut model, 'x');
    assert_eq!(model.tab, Tab::Hosts);
    assert!(matches!(send(&mut model, 'Z')[..], [Effect::Leave]));
    let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
    draw(&model, &keymap, &theme("default", Glyphs::Unicode), &mut buffer);
    assert!(text_of(&buffer).contains("[x hosts]"), "and the tabs say so");
}

/// The styles of every tab, as of the dashboard's screens.
#[test]
fn styles_of_every_screen_are_as_agreed() {
    let themes = [
        ("60x12", (60, 12), theme("default", Glyphs::Unicode)),
        ("80x24", (80, 24), theme("default", Glyphs::Unicode)),
        ("160x50", (160, 50), theme("default", Glyphs::Unicode)),
        ("80x24_ascii", (80, 24), theme("mono", Glyphs::Ascii)),
    ];
    let screens = [
        ("timeline", "1"),
        ("latency", "m"),
        ("hosts", "2 j"),
        ("decisions", "3"),
        ("acts", "4"),
        ("export", "5"),
        ("compare", "6"),
        ("help", "?"),
        ("help_lists", "2 ?"),
        ("filter", "/ is:"),
    ];
    for (size_name, size, theme) in &themes {
        for (name, keys) in screens {
            let mut model = model(*size);
            press(&mut model, &keys.replace("is:", "i s :"));
            let drawn = buffer(&model, theme);
            assert!(!size_name.ends_with("ascii") || text_of(&drawn).is_ascii(), "{name}");
            insta::assert_snapshot!(format!("styles_{name}_{size_name}"), dump(&drawn));
        }
    }
}
