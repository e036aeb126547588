use std::sync::mpsc::sync_channel;

use super::*;
use crate::clock::{ManualClock, Wall};
use crate::config::Glyphs;
use crate::text::Clean;
use crate::tui::key::Key;
use crate::tui::sample;
use crate::tui::terminal::tests::Memory;
use crate::tui::theme::Surroundings;

/// A screen in memory, with its engine's end of the queue.
fn ui(room: usize) -> (Ui<Memory>, Memory, mpsc::Receiver<Request>, Arc<ManualClock>) {
    let clock = ManualClock::new(Wall(0));
    let memory = Memory::sized(80, 24);
    let (sender, receiver) = mpsc::channel(room);
    let keymap = Keymap::with_overrides(&BTreeMap::new()).expect("built in");
    let theme = Theme::load("mono", Glyphs::Unicode, Surroundings::default()).expect("loads");
    let model = Model::new(Clean::new("news"), Vec::new(), Mono::ZERO);
    let mut ui = Ui::new(memory.clone(), model, keymap, theme, 4, sender, clock.clone());
    ui.screen.enter().expect("memory takes all");
    ui.draw_if_due().expect("memory takes all");
    memory.take_written();
    (ui, memory, receiver, clock)
}

fn key(name: &str) -> Message {
    Message::Input(Input::Key(Key::parse(name).expect(name)))
}

/// Whether a frame was written just now.
fn drawn(ui: &mut Ui<Memory>, memory: &Memory) -> bool {
    ui.draw_if_due().expect("memory takes all");
    !memory.take_written().is_empty()
}

#[test]
fn frames_come_at_their_rate_and_at_once_after_a_key() {
    let (mut ui, memory, _engine, clock) = ui(4);
    ui.take(Message::Snapshot(Arc::new(sample::snapshot())));
    assert!(!drawn(&mut ui, &memory), "a frame was drawn just now");
    clock.advance(Duration::from_millis(250));
    assert!(drawn(&mut ui, &memory));
    ui.take(key("?"));
    assert!(drawn(&mut ui, &memory), "a key is answered at once");
}

#[test]
fn wanted_18_at_5_000_events_a_second_four_frames_a_second_are_drawn() {
    let (mut ui, memory, _engine, clock) = ui(4);
    let began = clock.now();
    let (mut heard, mut frames) = (0_u32, 0);
    while clock.now().since(began) < Duration::from_secs(60) {
        // The thread wakes a little late, each time otherwise.
        clock.advance(ui.wait().min(Duration::from_millis(1)) + Duration::from_micros(u64::from(heard % 7) * 31));
        let mut snapshot = sample::snapshot();
        snapshot.log.truncate(5);
        ui.take(Message::Snapshot(Arc::new(snapshot)));
        heard += 1;
        frames += u32::from(drawn(&mut ui, &memory));
    }
    assert!((240..=241).contains(&frames), "{frames} frames in a minute, {heard} snapshots");
}

#[test]
fn nothing_new_writes_nothing() {
    let (mut ui, memory, _engine, clock) = ui(4);
    // Nothing was heard of the engine yet, so not even a clock moves.
    for _ in 0..4 {
        clock.advance(Duration::from_secs(1));
        assert!(!drawn(&mut ui, &memory));
    }
}

#[test]
fn a_theme_is_not_claimed_where_no_color_forbids_it() {
    let around = |no_color| Surroundings { no_color, ..Surroundings::default() };
    assert_eq!(theme_words("light", around(false)), "theme light");
    assert_eq!(theme_words("mono", around(true)), "theme mono");
    assert!(theme_words("light", around(true)).ends_with("NO_COLOR is set: it stays mono"));
}

#[test]
fn waits_are_never_zero_once_drawn() {
    let (mut ui, memory, _engine, clock) = ui(4);
    assert!(ui.wait() > Duration::from_millis(900), "only countdowns move");
    ui.take(Message::Snapshot(Arc::new(sample::snapshot())));
    assert!(ui.wait() > Duration::from_millis(200) && ui.wait() <= Duration::from_millis(251));
    clock.advance(Duration::from_millis(251));
    assert!(ui.wait() > Duration::ZERO);
    assert!(drawn(&mut ui, &memory));
}

#[test]
fn case_114_started_in_the_background_it_waits_for_the_foreground() {
    let (mut ui, memory, _engine, _clock) = ui(4);
    memory.state.lock().expect("lock").background = true;
    (ui.suspended, ui.resuming, ui.drawn_at) = (true, true, None);
    ui.return_to_foreground();
    assert!(!drawn(&mut ui, &memory));
    assert_eq!(ui.wait(), SECOND, "and does not spin");
    memory.state.lock().expect("lock").background = false;
    ui.return_to_foreground();
    assert!(drawn(&mut ui, &memory));
}

#[test]
fn wanted_18_a_full_engine_refuses_the_key_and_says_so() {
    let (mut ui, _memory, mut engine, _clock) = ui(1);
    ui.take(Message::Snapshot(Arc::new(sample::snapshot())));
    ui.take(key("p"));
    ui.take(key("a"));
    assert!(ui.model.note.as_ref().is_some_and(|note| note.text.as_str().contains("engine is busy")));
    assert!(matches!(engine.try_recv(), Ok(Request::Act { .. })));
    assert!(engine.try_recv().is_err(), "the second was not taken");
}

#[test]
fn a_drain_is_not_lost_in_a_full_queue() {
    let (mut ui, _memory, mut engine, _clock) = ui(1);
    ui.take(Message::Snapshot(Arc::new(sample::snapshot())));
    ui.take(key("p"));
    ui.take(key("ctrl-c"));
    ui.take(Message::Interrupt);
    assert!(engine.try_recv().is_ok());
    ui.flush_outbox();
    assert_eq!(engine.try_recv(), Ok(Request::Drain));
}

#[test]
fn case_108_a_hang_up_tells_the_engine_and_writes_nothing_more() {
    let (mut ui, memory, mut engine, _clock) = ui(4);
    let (sender, messages) = sync_channel(4);
    sender.send(Message::Input(Input::Gone)).expect("room");
    ui.run(&messages);
    drop(ui);
    assert_eq!(engine.try_recv(), Ok(Request::TerminalGone));
    assert_eq!(memory.take_written(), b"");
    assert_eq!(memory.state.lock().expect("lock").given_back, 1);
}

#[test]
fn case_109_stop_restores_the_terminal() {
    let (mut ui, memory, _engine, _clock) = ui(4);
    let (sender, messages) = sync_channel(4);
    sender.send(Message::Stop).expect("room");
    ui.run(&messages);
    assert!(memory.take_written().ends_with(b"\x1b[?25h\x1b[?1049l"));
}

#[test]
fn case_114_a_suspend_gives_the_terminal_back_until_it_is_ours_again() {
    let (mut ui, memory, _engine, clock) = ui(4);
    ui.take(Message::Snapshot(Arc::new(sample::snapshot())));
    let (told, was_told) = sync_channel(1);
    ui.take(Message::Suspend(told));
    assert!(was_told.try_recv().is_ok());
    assert!(memory.take_written().ends_with(b"\x1b[?1049l"));
    clock.advance(Duration::from_secs(5));
    assert!(!drawn(&mut ui, &memory), "stopped: nothing is drawn");
    // Continued in the background: the terminal is another job's.
    memory.state.lock().expect("lock").background = true;
    ui.take(Message::Resume);
    ui.return_to_foreground();
    assert!(!drawn(&mut ui, &memory));
    memory.state.lock().expect("lock").background = false;
    ui.return_to_foreground();
    ui.draw_if_due().expect("memory takes all");
    let written = memory.take_written();
    assert!(written.starts_with(b"\x1b[?1049h"));
    assert!(String::from_utf8_lossy(&written).contains("RUNNING"), "a whole frame follows");
}

#[test]
fn an_engine_that_has_ended_is_told_of() {
    let (mut ui, _memory, engine, _clock) = ui(4);
    drop(engine);
    ui.take(key("u"));
    assert!(ui.model.ended);
    ui.take(Message::SnapshotsEnded);
    assert!(ui.model.note.is_some_and(|note| note.text.as_str() == "the engine has ended"));
}
