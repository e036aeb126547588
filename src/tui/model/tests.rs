use super::*;
use crate::tui::sample;
use crate::watch::ActAnswer;

pub(super) fn model() -> Model {
    let mut model = Model::new(Clean::new("news"), Vec::new(), Mono::ZERO);
    model.page = 5;
    model.apply(sample::snapshot(), Mono::ZERO);
    model.order.sort_now();
    model.sort_if_due(Mono::ZERO, &*crate::clock::ManualClock::new(Wall(0)));
    model
}

#[test]
fn only_changed_rows_are_needed() {
    let mut model = model();
    let mut row = sample::row(3, "api.gazet.test");
    row.view.queued = 1;
    let snapshot = Snapshot { changed: vec![row], log: Vec::new(), ..sample::snapshot() };
    model.apply(snapshot, Mono::ZERO);
    assert_eq!(model.rows.iter().flatten().count(), 12);
    assert_eq!(model.latest(HostId(3)).map(|row| row.view.queued), Some(1));
}

#[test]
fn wanted_19_a_host_that_no_longer_passes_the_filter_leaves_with_the_next_sort() {
    let mut model = model();
    let clock = crate::clock::ManualClock::new(Wall(0));
    model.set_filter(Filter::parse("queue>10000").expect("valid"), Mono::ZERO);
    assert_eq!(model.order.shown, [4, 0]);
    let mut row = sample::row(0, "www.astr.test");
    row.view.queued = 1;
    model.apply(Snapshot { changed: vec![row], ..sample::snapshot() }, Mono::ZERO);
    assert_eq!(model.order.shown, [4, 0], "not under the fingers");
    model.order.sort_now();
    model.sort_if_due(Mono::ZERO, &*clock);
    assert_eq!(model.order.shown, [4]);
    let mut row = sample::row(1, "data.rive.test");
    row.view.queued = 20_000;
    model.apply(Snapshot { changed: vec![row], ..sample::snapshot() }, Mono::ZERO);
    assert!(model.order.shown.contains(&1), "who passes now joins");
}

#[test]
fn the_soonest_end_of_a_pause_and_of_an_override_is_known() {
    let mut model = model();
    assert_eq!(model.lapses.next_override(), Some(sample::NOW.after_secs(2_880.0)));
    let mut paused = |id, seconds: Option<f64>| {
        let mut row = sample::row(id, "a.test");
        let until = seconds.map(|seconds| sample::NOW.after_secs(seconds));
        row.view.pause = seconds.map(|_| crate::control::Pause { since: sample::NOW, until });
        model.apply(Snapshot { changed: vec![row], ..sample::snapshot() }, Mono::ZERO);
        model.lapses.next_pause()
    };
    assert_eq!(paused(1, Some(60.0)), Some(sample::NOW.after_secs(60.0)));
    assert_eq!(paused(2, Some(30.0)), Some(sample::NOW.after_secs(30.0)));
    assert_eq!(paused(2, None), Some(sample::NOW.after_secs(60.0)), "resumed");
    assert_eq!(paused(1, None), None);
}

#[test]
fn the_selection_is_a_host_not_a_row() {
    let mut model = model();
    model.move_to(2);
    let host = model.cursor;
    let mut row = model.row_at(2).expect("there").clone();
    row.view.concern = None;
    row.view.hold = None;
    row.view.state = crate::control::HostState::Done;
    model.apply(Snapshot { changed: vec![row], ..sample::snapshot() }, Mono::ZERO);
    // The sample's other rows came again, unchanged; the changed one comes last of them.
    model.order.sort_now();
    model.sort_if_due(Mono::ZERO, &*crate::clock::ManualClock::new(Wall(0)));
    assert_eq!(model.cursor, host);
    assert!((model.top..model.top + model.page).contains(&model.at), "it is on the screen");
}

#[test]
fn wanted_19_a_frozen_view_stands_still_and_misses_nothing() {
    let mut model = model();
    model.frozen = Some(model.engine_now(Mono::ZERO));
    let before = model.latest(HostId(0)).map(|row| row.view.queued);
    let mut row = sample::row(0, "www.astr.test");
    row.view.queued = 7;
    model.apply(Snapshot { changed: vec![row], ..sample::snapshot() }, Mono::ZERO);
    assert_eq!(model.rows[0].as_ref().map(|row| row.view.queued), before, "the table stands still");
    assert_eq!(model.latest(HostId(0)).map(|row| row.view.queued), Some(7), "an act sees the present");
    model.thaw();
    assert_eq!(model.rows[0].as_ref().map(|row| row.view.queued), Some(7));
}

#[test]
fn the_log_and_the_host_s_past_stand_still_too_and_miss_nothing() {
    let mut model = model();
    let focus = |host, denied| Some(Arc::new(Focus { host: HostId(host), denied, ..sample::focus() }));
    let of = |model: &Model| model.focus.as_ref().map(|focus| (focus.host.0, focus.denied));
    let mut line = sample::snapshot().log.remove(0);
    let mut hear = |model: &mut Model, text: &str, focus| {
        line.text = Clean::new(text);
        let log = vec![line.clone()];
        model.apply(Snapshot { log, focus, changed: Vec::new(), ..sample::snapshot() }, Mono::ZERO);
    };
    let newest = |model: &Model| model.log.back().map(|line| line.text.to_string()).unwrap_or_default();
    hear(&mut model, "before", focus(1, 1));
    model.frozen = Some(model.engine_now(Mono::ZERO));
    let (came, unseen) = (model.logbook.came, model.unseen);
    hear(&mut model, "meanwhile", focus(1, 2));
    assert_eq!((newest(&model).as_str(), model.logbook.came, model.unseen), ("before", came, unseen));
    assert_eq!(of(&model), Some((1, 1)));
    hear(&mut model, "later", focus(2, 3));
    assert_eq!(of(&model), Some((2, 3)), "another host is looked at, and stands still then");
    model.thaw();
    assert_eq!((newest(&model).as_str(), model.logbook.came, model.unseen), ("later", came + 2, unseen + 2));
    // However long it stood still: the newest lines are kept, and their numbers follow on.
    model.frozen = Some(model.engine_now(Mono::ZERO));
    for number in 0..LOG_MAX + 7 {
        hear(&mut model, &number.to_string(), None);
    }
    model.thaw();
    assert_eq!((model.log.len(), newest(&model)), (LOG_MAX, (LOG_MAX + 6).to_string()));
    assert_eq!(model.logbook.came, came + 2 + LOG_MAX as u64 + 7);
}

#[test]
fn the_first_bad_line_is_told_on_the_footer_and_in_the_log() {
    let mut model = model();
    let hear = |model: &mut Model, notices: &[&str], at: f64| {
        let notices = notices.iter().map(Clean::new).collect();
        let snapshot = Snapshot { notices, changed: Vec::new(), log: Vec::new(), ..sample::snapshot() };
        model.apply(snapshot, Mono::from_secs_f64(at));
    };
    let came = model.logbook.came;
    hear(&mut model, &["more.txt:2: no URL", "more.txt:9: no host"], 1.0);
    let words = "more.txt:2: no URL (and 1 more: see events.jsonl)";
    assert_eq!(model.note.as_ref().map(|note| (note.text.as_str(), note.trouble)), Some((words, true)));
    assert_eq!(model.log.back().map(|line| line.text.as_str()), Some(words));
    hear(&mut model, &["more.txt:10: no URL"], 2.0);
    assert_eq!(model.logbook.came, came + 1, "a bad list is no flood");
    hear(&mut model, &["other.txt:1: no URL"], 11.5);
    assert_eq!(model.log.back().map(|line| line.text.as_str()), Some("other.txt:1: no URL"));
}

#[test]
fn the_log_is_bounded_and_counts_what_is_new() {
    let mut model = model();
    assert_eq!(model.unseen, 3);
    let line = sample::snapshot().log.remove(0);
    let log = vec![line; LOG_MAX + 5];
    model.apply(Snapshot { log, changed: Vec::new(), ..sample::snapshot() }, Mono::ZERO);
    assert_eq!(model.log.len(), LOG_MAX);
}

#[test]
fn answers_are_told_on_the_footer() {
    let mut model = model();
    let ticket = model.ticket(Command::Reset);
    let answers = vec![ActAnswer { ticket, changed: 1, text: Clean::new("a.test: reset to 2.00/s") }];
    model.apply(Snapshot { answers, ..sample::snapshot() }, Mono::ZERO);
    assert_eq!(model.note.map(|note| note.text.to_string()), Some("a.test: reset to 2.00/s   u undoes".to_owned()));
}

#[test]
fn a_silent_engine_is_noticed() {
    let model = model();
    assert_eq!(model.silent_for(Mono::from_secs_f64(5.0)), None);
    assert_eq!(model.silent_for(Mono::from_secs_f64(7.0)), Some(Duration::from_secs(7)));
}
