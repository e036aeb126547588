//! Stopped and continued, by key and by signal.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::binary::{Scene, fine, state, until};
use crate::support::lab::{LabServer, bare_client};
use crate::support::pty::Pty;

#[test]
fn case_114_ctrl_z_says_why_it_is_off() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 50.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 1");
    pty.keys("\x1a");
    pty.see("ctrl-z is off");
    let so_far = scene.server.arrivals().len();
    scene.arrivals("the crawl goes on", so_far + 20);
    assert_ne!(state(pty.pid), 'T');
}

/// The process that works in the run folder.
fn worker(scene: &Scene) -> Pid {
    until("the lock", || scene.file("lock").trim().parse().ok().and_then(Pid::from_raw))
}

#[test]
fn case_114_in_the_background_the_crawl_goes_on_and_the_terminal_is_left_alone() {
    let scene = Scene::new(fine(Duration::from_millis(5)), 50.0, 4.0, "");
    scene.list(&["a.test"], 50_000);
    let mut pty = Pty::shell(scene.path());
    pty.see("ready");
    pty.keys(&format!("\"$CRAWLDECK\" {} &\r", scene.run().join(" ")));
    scene.arrivals("requests from the background", 30);
    let pid = worker(&scene);
    pty.kill_at_the_end(pid);
    pty.keys("echo the shell\"\"s\r");
    pty.see("the shells");
    assert!(!pty.screen().alternate_screen(), "{}", pty.text());
    for _ in 0..2 {
        pty.keys("fg\r");
        pty.wait("the screen", |screen| screen.alternate_screen() && screen.contents().contains("hosts 1"));
        kill_process(pid, Signal::TSTP).expect("it runs");
        pty.wait("the shell", |screen| !screen.alternate_screen() && screen.contents().trim_end().ends_with("ready"));
        let so_far = scene.server.arrivals().len();
        pty.keys("bg\r");
        scene.arrivals("requests from the background again", so_far + 100);
        assert_ne!(state(pid), 'T');
        pty.keys("echo again the shell\"\"s\r");
        pty.see("again the shells");
        assert!(!pty.screen().alternate_screen(), "{}", pty.text());
    }
    pty.keys("fg\r");
    pty.wait("the screen", |screen| screen.alternate_screen() && screen.contents().contains("hosts 1"));
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("d");
    pty.wait("the shell after the summary", |screen| {
        let text = screen.contents();
        text.contains("crawldeck review crawl") && text.trim_end().ends_with("ready")
    });
    pty.keys("exit $?\r");
    assert_eq!(pty.end(), 0);
    scene.assert_journal_complete();
}

#[tokio::test]
async fn case_114_row_14_a_stop_from_outside_gives_the_terminal_back_and_causes_no_burst() {
    const RATE: f64 = 20.0;
    const CAPACITY: f64 = 3.0;
    let scene = Scene::new(fine(Duration::from_millis(5)), RATE, CAPACITY, "");
    scene.list(&["a.test"], 50_000);
    let mut pty = Pty::start(scene.path(), &scene.run());
    pty.see("hosts 1");
    scene.arrivals("requests", 20);
    for _ in 0..2 {
        pty.signal(Signal::TSTP);
        until("the process is stopped", || (state(pty.pid) == 'T').then_some(()));
        pty.wait("the screen is left", |screen| !screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
        let stopped = scene.server.arrivals().len();
        // Time goes by, as long as another server's answers take: enough for many tokens.
        let clock = LabServer::start(fine(Duration::from_millis(20)));
        let client = bare_client(&[]);
        for _ in 0..50 {
            client.get(clock.url("/")).send().await.expect("an answer");
        }
        assert_eq!(scene.server.arrivals().len(), stopped, "requests of a stopped process");
        pty.signal(Signal::CONT);
        pty.wait("the screen again", |screen| screen.alternate_screen() && screen.contents().contains("hosts 1"));
        assert_ne!(pty.modes(), pty.modes_before, "keys come as they are pressed again");
        scene.arrivals("requests again", stopped + 40);
    }
    // What was granted before may arrive later: one a connection. A second's tokens would be many more.
    scene.server.assert_envelope(RATE, CAPACITY + 4.0);
    pty.keys("q");
    pty.see("leave the crawl?");
    pty.keys("d");
    assert_eq!(pty.end(), 0);
    assert_eq!(pty.modes(), pty.modes_before, "the modes of the terminal");
    scene.assert_journal_complete();
}
