//! Keys, and what the server sees of them.

use std::time::Duration;

use crate::support::binary::{Scene, fine, until};
use crate::support::pty::Pty;

const LATENCY: Duration = Duration::from_millis(10);

/// Two hosts with work without end. `b.test` is the clock of these tests: what does not happen at `a.test`
/// while `b.test` sees many requests does not happen.
fn two_hosts(rate: f64, capacity: f64) -> (Scene, Pty) {
    let scene = Scene::new(fine(LATENCY), rate, capacity, "");
    scene.list(&["a.test", "b.test"], 50_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 2");
    // The cursor on the one, whatever the order.
    pty.keys("/");
    pty.see("Enter keeps");
    pty.keys("a.test\r");
    pty.see("1 shown");
    until("traffic", || (scene.at("a.test") > 5 && scene.at("b.test") > 5).then_some(()));
    (scene, pty)
}

/// Waits until so many more requests came for `b.test`; gives how many came for `a.test` meanwhile, and for how
/// long that was by the server's clock.
fn meanwhile(scene: &Scene, ticks: usize) -> (usize, Duration) {
    let before = scene.server.arrivals();
    let (a, b) = (scene.at("a.test"), scene.at("b.test"));
    until("the other host goes on", || (scene.at("b.test") >= b + ticks).then_some(()));
    let after = scene.server.arrivals();
    let time = |arrivals: &[crate::support::oracle::Arrival]| arrivals.last().map_or(Duration::ZERO, |last| last.at);
    (scene.at("a.test") - a, time(&after).saturating_sub(time(&before)))
}

#[test]
fn the_first_screen_names_the_run_the_hosts_and_the_keys() {
    let scene = Scene::new(fine(LATENCY), 50.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 1");
    pty.see("RUNNING");
    for words in ["crawl", "a.test", "PAUSED 0", "OVERRIDE 0", "STUCK 0", "ANGRY 0", "p pause", "? help"] {
        pty.see(words);
    }
    assert!(pty.screen().alternate_screen() && pty.screen().hide_cursor());
    scene.arrivals("requests", 10);
}

#[test]
fn wanted_13_a_paused_host_sees_nothing_until_it_goes_on() {
    let (scene, mut pty) = two_hosts(50.0, 4.0);
    pty.keys("p");
    pty.see("PAUSED 1");
    pty.see("pause: a.test");
    // What was under way may still arrive: at most one a connection.
    let (a, _) = meanwhile(&scene, 50);
    assert!(a <= 4, "{a} requests of a paused host");
    let (a, _) = meanwhile(&scene, 50);
    assert_eq!(a, 0, "requests of a paused host");
    let so_far = scene.at("a.test");
    pty.keys("p");
    pty.see("PAUSED 0");
    until("the host goes on", || (scene.at("a.test") > so_far + 20).then_some(()));
}

#[test]
fn wanted_15_an_override_acts_on_the_wire_and_is_undone() {
    let (scene, mut pty) = two_hosts(50.0, 2.0);
    pty.keys("o");
    pty.see("override rate");
    pty.keys("0.5");
    pty.see("0.50 *");
    pty.keys("\r");
    pty.see("OVERRIDE 1");
    let (a, time) = meanwhile(&scene, 100);
    let allowed = 2.0 + 4.0 + 0.5 * time.as_secs_f64() + 1.0;
    assert!(a as f64 <= allowed, "{a} requests in {time:?} at 0.5/s");

    pty.keys("u");
    pty.see("OVERRIDE 0");
    let so_far = scene.at("a.test");
    until("the old pace", || (scene.at("a.test") > so_far + 40).then_some(()));
    pty.keys("U");
    pty.see("OVERRIDE 1");
    pty.keys("a");
    pty.see("OVERRIDE 0");
    assert!(scene.file("events.jsonl").contains("\"override\""));
}

#[test]
fn what_is_no_rate_changes_nothing() {
    let (scene, mut pty) = two_hosts(50.0, 2.0);
    pty.keys("o");
    pty.see("override rate");
    pty.keys("-3\r");
    pty.see("-3");
    pty.keys("\x1b");
    pty.see_no("override rate");
    pty.see("OVERRIDE 0");
    let so_far = scene.at("a.test");
    until("the old pace", || (scene.at("a.test") > so_far + 20).then_some(()));
}

#[test]
fn steps_of_the_rate_and_the_reset() {
    let (_scene, mut pty) = two_hosts(40.0, 2.0);
    pty.keys("[");
    pty.see("OVERRIDE 1");
    pty.see("20.00*");
    pty.keys("]");
    pty.see("25.00*");
    pty.keys("R");
    pty.see("OVERRIDE 0");
    pty.see("40.00");
    pty.keys("w");
    pty.see("wake");
}

#[test]
fn a_halt_stops_every_host_and_going_on_is_asked_about() {
    let scene = Scene::new(fine(LATENCY), 100.0, 4.0, "");
    scene.list(&["a.test", "b.test"], 50_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 2");
    scene.arrivals("requests", 10);
    pty.keys("!");
    pty.see("HALTED");
    pty.see("in-flight 0/");
    let so_far = scene.server.arrivals().len();
    pty.keys("!");
    pty.see("go on?");
    pty.keys("\r");
    pty.see("cancelled");
    pty.see("HALTED");
    assert_eq!(scene.server.arrivals().len(), so_far, "requests while all is halted");
    pty.keys("!");
    pty.see("go on?");
    pty.keys("y");
    pty.see("RUNNING");
    scene.arrivals("requests again", so_far + 20);
}

#[test]
fn help_sort_and_filter_open_and_close() {
    let (_scene, mut pty) = two_hosts(50.0, 2.0);
    pty.keys("?");
    pty.see("type to search");
    pty.keys("\x1b");
    pty.see_no("type to search");
    pty.keys("s");
    pty.see("sort by");
    pty.keys("\x1b");
    pty.see_no("sort by");
    // Esc drops the filter: the other host is back.
    pty.keys("\x1b");
    pty.see_no("1 shown");
    pty.keys("L");
    pty.see("hosts 2");
    pty.keys("f");
    pty.see("hosts 2");
}

#[test]
fn wanted_13_19_a_filter_and_a_bulk_act_silence_all_the_hosts_that_pass() {
    let quiet: Vec<String> = (0..26).map(|number| format!("h{number}.quiet.test")).collect();
    let names: Vec<&str> = quiet.iter().map(String::as_str).chain(["b.test"]).collect();
    let scene = Scene::of(&names, fine(LATENCY), (10.0, 2.0), "");
    scene.list(&names, 3_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 27");
    let of_quiet = || quiet.iter().map(|name| scene.at(name)).sum::<usize>();
    until("traffic", || (quiet.iter().all(|name| scene.at(name) > 1) && scene.at("b.test") > 2).then_some(()));
    pty.keys("/");
    pty.see("Enter keeps");
    pty.keys("*.quiet.test\r");
    pty.see("26 shown");
    pty.keys("A");
    pty.see("26 marked");
    pty.keys("p");
    // One question that names the count, three hosts and the change; Enter would be no.
    pty.see("26 hosts: pause?");
    pty.see("and 23 more");
    pty.keys("y");
    pty.see("PAUSED 26");
    // What was under way may still arrive; then nothing does while the other host goes on.
    until("what was under way", || {
        let (before, clock) = (of_quiet(), scene.at("b.test"));
        until("the other host goes on", || (scene.at("b.test") >= clock + 5).then_some(()));
        (of_quiet() == before).then_some(())
    });
    let (silent, clock) = (of_quiet(), scene.at("b.test"));
    until("the other host goes on", || (scene.at("b.test") >= clock + 40).then_some(()));
    assert_eq!(of_quiet(), silent, "requests of paused hosts");
    pty.keys("u");
    pty.see("PAUSED 0");
    until("all of them again", || (of_quiet() > silent + 100).then_some(()));
}
