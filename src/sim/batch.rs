//! Many runs at once: servers × controllers × seeds, spread over the processor's cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::run::{Candidate, run};
use super::{Report, SimServer};

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Against which server.
    pub server: &'a SimServer,
    /// By whose rules.
    pub candidate: &'a Candidate,
    /// What fixes it.
    pub seed: u64,
}

/// Runs all jobs; the reports are in their order, whoever ran first. `done` hears after each how many
/// there are.
pub fn run_jobs(jobs: &[Job<'_>], mut done: impl FnMut(usize)) -> Vec<Report> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let mut reports = vec![Report::default(); jobs.len()];
    // As many reports as there are jobs at most wait in the channel.
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some((index, job)) = next_job(jobs, next) {
                    if send.send((index, run(job.server, job.candidate, job.seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (finished, (index, report)) in receive.iter().enumerate() {
            reports[index] = report;
            done(finished + 1);
        }
    });
    reports
}

fn next_job<'a>(jobs: &'a [Job<'a>], next: &AtomicUsize) -> Option<(usize, &'a Job<'a>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}
