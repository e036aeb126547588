//! Status lines when there is no terminal: what the dashboard's header says, a line at a time.
//!
//! Plain ASCII without escapes, so that a log file or a pipe reads well. Decisions are not repeated
//! here: `events.jsonl` has them all. Time comes with the snapshots; this module reads no clock.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::text::Clean;
use crate::watch::{Phase, Snapshot, Totals};

/// Between two status lines, if nothing calls for one earlier.
pub const EVERY: Duration = Duration::from_secs(5);

/// Writes a status line to `out` every [`EVERY`], one at once when what stops the crawl changes, and one
/// at the end, when the engine drops its side.
///
/// Blocks while `out` does, so it needs a thread of its own; the engine goes on meanwhile. When `out`
/// fails (nobody reads it any more) the lines end and the crawl does not.
pub fn report(mut snapshots: mpsc::Receiver<Arc<Snapshot>>, mut out: impl Write) {
    let mut teller = Teller::default();
    let mut last = None;
    let mut readable = true;
    while let Some(snapshot) = snapshots.blocking_recv() {
        for notice in &snapshot.notices {
            readable = readable && write_line(&mut out, notice.as_str());
        }
        if readable && let Some(line) = teller.line(&snapshot) {
            readable = write_line(&mut out, &line);
        }
        last = Some(snapshot);
    }
    if let Some(snapshot) = last
        && readable
        && teller.told != Some(snapshot.up)
    {
        write_line(&mut out, &status_line(&snapshot.totals, snapshot.up));
    }
}

/// One line about the whole crawl after `up`: progress, pace, what is held, what needs a human, ETA.
pub fn status_line(totals: &Totals, up: Duration) -> String {
    let counts = &totals.counts;
    let [_, _, back, block, paused, _, _] = counts.by_state;
    let mut parts =
        vec![progress(totals), format!("{:.1}/s", totals.rate_now), format!("{} in flight", totals.in_flight)];
    let mut part = |count: u64, text: &str| {
        if count > 0 {
            parts.push(text.replace('#', &count.to_string()));
        }
    };
    part(u64::from(back.saturating_add(block)), "# held");
    part(totals.urls_failed, "# failed");
    part(totals.urls_skipped, "# skipped");
    part(totals.bad_lines, "# bad lines");
    part(u64::from(paused), "PAUSED #");
    part(u64::from(counts.overridden), "OVERRIDE #");
    part(u64::from(counts.stuck), "STUCK #");
    part(u64::from(counts.angry), "ANGRY #");
    if let Some(bulk) = totals.eta_bulk {
        parts.push(format!("ETA {}", short(bulk)));
    }
    if let Some((tail, _)) = totals.eta_tail {
        parts.push(format!("tail {}", short(tail)));
    }
    let mut line = format!("{} {}: {}", clock(up), word(totals), parts.join(", "));
    for reason in totals.stopped_because.iter().chain(&totals.resting_because).take(1).chain(totals.banners()) {
        line.push_str(" - ");
        line.push_str(reason.as_str());
    }
    line
}

/// When to speak.
#[derive(Debug, Default)]
struct Teller {
    /// `up` of the last line.
    told: Option<Duration>,
    /// What stopped the crawl then, or was wrong with it, if anything.
    stopped: Option<String>,
}

impl Teller {
    /// The line for `snapshot`, if it is time for one.
    fn line(&mut self, snapshot: &Snapshot) -> Option<String> {
        let totals = &snapshot.totals;
        let reason = totals.stopped_because.as_ref().map_or("", |reason| reason.as_str());
        let resting = totals.resting_because.as_ref().map_or("", |reason| reason.as_str());
        let banners: Vec<&str> = totals.banners().map(Clean::as_str).collect();
        let stopped = Some(format!("{} {reason}{resting}{}", word(totals), banners.join("\n")));
        let due = self.told.is_none_or(|told| snapshot.up.saturating_sub(told) >= EVERY);
        if !due && stopped == self.stopped {
            return None;
        }
        self.told = Some(snapshot.up);
        self.stopped = stopped;
        Some(status_line(totals, snapshot.up))
    }
}

/// Whether the line was taken.
fn write_line(out: &mut impl Write, line: &str) -> bool {
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// Done of all, with the share once all inputs are read.
fn progress(totals: &Totals) -> String {
    let ended = totals.urls_done.saturating_add(totals.urls_failed).saturating_add(totals.urls_skipped);
    let all = ended.saturating_add(totals.urls_pending);
    match (totals.inputs_read, all) {
        (false, _) => format!("{} of {all}+ done", totals.urls_done),
        (true, 0) => "nothing to do".to_owned(),
        (true, _) => {
            // Rounded down: 100 % is said only when nothing is left, failed, or was skipped.
            let tenths = u128::from(totals.urls_done) * 1000 / u128::from(all);
            format!("{} of {all} done ({}.{} %)", totals.urls_done, tenths / 10, tenths % 10)
        }
    }
}

/// What the crawl is doing, in a word; in capitals if a human should look.
fn word(totals: &Totals) -> &'static str {
    match totals.phase {
        Phase::Finished if totals.urls_pending > 0 => "drained",
        Phase::Finished => "finished",
        Phase::Stopped => "stopped",
        Phase::Draining => "draining",
        Phase::Running if totals.stopped_because.is_some() => "NOT GRANTING",
        Phase::Running if totals.halted => "HALTED",
        Phase::Running if totals.resting_because.is_some() => "RESTING",
        Phase::Running => "running",
    }
}

/// `HH:MM:SS`, hours as many as there are.
fn clock(up: Duration) -> String {
    let seconds = up.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A duration in its two largest units.
fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Wall;
    use crate::control::{HostCounts, HostId, Mono};

    fn totals() -> Totals {
        Totals {
            urls_done: 1234,
            urls_failed: 3,
            urls_pending: 59_763,
            inputs_read: true,
            in_flight: 12,
            rate_now: 14.26,
            ..Totals::default()
        }
    }

    fn snapshot(up: u64, totals: Totals) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            now: Mono::ZERO,
            wall: Wall(0),
            up: Duration::from_secs(up),
            totals,
            changed: Vec::new(),
            log: Vec::new(),
            answers: Vec::new(),
            notices: Vec::new(),
            timeline: None,
            focus: None,
            ui: None,
        })
    }

    /// The lines that the snapshots bring forth, into a sink that takes `takes` writes.
    fn lines(snapshots: Vec<Arc<Snapshot>>) -> Vec<String> {
        let (sender, receiver) = mpsc::channel(64);
        for snapshot in snapshots {
            sender.try_send(snapshot).expect("room");
        }
        drop(sender);
        let mut out = Vec::new();
        report(receiver, &mut out);
        String::from_utf8(out).expect("UTF-8").lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_calm_crawl_is_a_short_line() {
        assert_eq!(
            status_line(&totals(), Duration::from_secs(725)),
            "00:12:05 running: 1234 of 61000 done (2.0 %), 14.3/s, 12 in flight, 3 failed"
        );
    }

    #[test]
    fn what_needs_a_human_is_in_capitals() {
        let loud = Totals {
            counts: HostCounts {
                by_state: [1, 2, 3, 2, 1, 0, 0],
                overridden: 2,
                stuck: 1,
                angry: 4,
                ..HostCounts::default()
            },
            urls_skipped: 5,
            bad_lines: 6,
            halted: true,
            eta_bulk: Some(Duration::from_secs(4320)),
            eta_tail: Some((Duration::from_secs(3 * 86_400 + 7200), HostId(1))),
            ..totals()
        };
        assert_eq!(
            status_line(&loud, Duration::from_secs(360_000)),
            "100:00:00 HALTED: 1234 of 61005 done (2.0 %), 14.3/s, 12 in flight, 5 held, 3 failed, 5 skipped, \
             6 bad lines, PAUSED 1, OVERRIDE 2, STUCK 1, ANGRY 4, ETA 1h12m, tail 3d02h"
        );
    }

    #[test]
    fn a_reason_of_our_own_is_told_in_words() {
        let blocked = Totals { stopped_because: Some("journal: no space left".into()), ..totals() };
        let line = status_line(&blocked, Duration::ZERO);
        assert!(line.starts_with("00:00:00 NOT GRANTING: "), "{line}");
        assert!(line.ends_with(" - journal: no space left"), "{line}");
        let resting = Totals { resting_because: Some("our own machine refused: no free port".into()), ..totals() };
        let line = status_line(&resting, Duration::ZERO);
        assert!(
            line.starts_with("00:00:00 RESTING: ") && line.ends_with(" - our own machine refused: no free port"),
            "{line}"
        );
    }

    #[test]
    fn case_91_an_alarm_stands_behind_the_figures_beside_what_stops_the_crawl() {
        let alarms = vec![Clean::new("state/hosts-0001.log cannot be written anew")];
        let alarmed = Totals { alarms, config_trouble: Some("c.toml:3:8: no number".into()), ..totals() };
        let line = status_line(&alarmed, Duration::ZERO);
        assert!(line.starts_with("00:00:00 running: "), "{line}");
        assert!(line.ends_with(" - c.toml:3:8: no number - state/hosts-0001.log cannot be written anew"), "{line}");
        let stopped = Totals { stopped_because: Some("disk full".into()), ..alarmed.clone() };
        let line = status_line(&stopped, Duration::ZERO);
        assert!(line.contains(" - disk full - ") && line.ends_with("cannot be written anew"), "{line}");
        let told = lines(vec![
            snapshot(0, totals()),
            snapshot(1, alarmed.clone()),
            snapshot(2, alarmed),
            snapshot(3, totals()),
            snapshot(4, totals()),
        ]);
        let times: Vec<&str> = told.iter().map(|line| &line[..8]).collect();
        assert_eq!(times, ["00:00:00", "00:00:01", "00:00:03", "00:00:04"], "at once, when it comes and when it goes");
    }

    #[test]
    fn progress_is_honest_at_both_ends() {
        let of = |done, pending, inputs_read| {
            progress(&Totals { urls_done: done, urls_pending: pending, inputs_read, ..Totals::default() })
        };
        assert_eq!(of(0, 0, true), "nothing to do");
        assert_eq!(of(5, 10, false), "5 of 15+ done");
        assert_eq!(of(99_999, 1, true), "99999 of 100000 done (99.9 %)");
        assert_eq!(of(7, 0, true), "7 of 7 done (100.0 %)");
        let skipped = Totals { urls_done: 291, urls_skipped: 1, inputs_read: true, ..Totals::default() };
        assert_eq!(progress(&skipped), "291 of 292 done (99.6 %)");
        assert_eq!(of(u64::MAX, u64::MAX, true), format!("{} of {} done (100.0 %)", u64::MAX, u64::MAX));
    }

    #[test]
    fn a_line_comes_every_five_seconds_and_one_at_the_end() {
        let told = lines((0..13).map(|up| snapshot(up, totals())).collect());
        let times: Vec<&str> = told.iter().map(|line| &line[..8]).collect();
        assert_eq!(times, ["00:00:00", "00:00:05", "00:00:10", "00:00:12"]);
    }

    #[test]
    fn a_change_of_what_stops_the_crawl_is_told_at_once() {
        let halted = Totals { halted: true, ..totals() };
        let told =
            lines(vec![snapshot(0, totals()), snapshot(1, halted.clone()), snapshot(2, halted), snapshot(3, totals())]);
        let words: Vec<&str> = told.iter().filter_map(|line| line[9..].split(':').next()).collect();
        assert_eq!(words, ["running", "HALTED", "running"]);
    }

    #[test]
    fn case_119_a_closed_pipe_ends_the_lines_and_nothing_else() {
        struct Closed(usize);
        impl Write for &mut Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                self.0 += 1;
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (sender, receiver) = mpsc::channel(64);
        for up in 0..30 {
            sender.try_send(snapshot(up, totals())).expect("room");
        }
        drop(sender);
        let mut closed = Closed(0);
        report(receiver, &mut closed);
        assert_eq!(closed.0, 1, "one try, then silence, and every snapshot is taken all the same");
    }
}
