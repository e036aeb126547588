use proptest::prelude::*;
use url::Url;

use super::*;

fn job(path: u64, due: u64) -> Job {
    Job::page(&Url::parse(&format!("http://h.example/{path}")).expect("valid"), Mono::from_nanos(due))
}

#[test]
fn jobs_come_out_in_order_and_retries_when_due() {
    let mut frontier = Frontier::default();
    let (host, lane) = (HostId(3), Lane(0));
    frontier.push(host, lane, job(1, 0));
    frontier.push(host, lane, job(2, 0));
    frontier.push_delayed(host, lane, job(9, 10));
    assert_eq!(frontier.queue(host, lane), LaneQueue { ready: 2, delayed: 1, due: Mono::from_nanos(10), stored: 0 });
    let order: Vec<_> = [5, 20, 20, 20]
        .into_iter()
        .map(|now| frontier.pop(Mono::from_nanos(now), host, lane).map(|job| job.url.to_string()))
        .collect();
    let url = |path: &str| Some(format!("http://h.example/{path}"));
    assert_eq!(order, [url("1"), url("9"), url("2"), None]);
    assert_eq!(frontier.pending(), 0);
}

#[test]
fn what_matches_is_removed_and_the_rest_keeps_its_order() {
    for most in [1, 2, 3, 100] {
        let mut frontier = Frontier::default();
        for number in 0..6 {
            frontier.push(HostId(0), Lane(1), job(number, 0));
        }
        frontier.push_delayed(HostId(2), Lane(0), job(4, 9));
        frontier.push_delayed(HostId(2), Lane(0), job(7, 9));
        frontier.begin_walk();
        let mut removed = Vec::new();
        for _ in 0..100 {
            let step = frontier.walk(most, |job| job.url.ends_with('4') || job.url.ends_with('1'));
            removed.extend(step.removed);
            if step.over {
                break;
            }
        }
        assert_eq!(removed.iter().map(|(host, _)| host.0).collect::<Vec<_>>(), [0, 0, 2], "{most} at a time");
        assert_eq!(frontier.pending(), 5);
        let rest = std::iter::from_fn(|| frontier.pop(Mono::NEVER, HostId(0), Lane(1)));
        assert_eq!(rest.map(|job| job.url.chars().last()).collect::<Vec<_>>(), ['0', '2', '3', '5'].map(Some));
        assert_eq!(frontier.queue(HostId(2), Lane(0)).delayed, 1);
    }
}

#[test]
fn folded_lanes_are_one() {
    let mut frontier = Frontier::default();
    frontier.push(HostId(0), Lane(2), job(2, 0));
    frontier.push(HostId(0), Lane(0), job(1, 0));
    frontier.push_delayed(HostId(0), Lane(1), job(3, 9));
    frontier.begin_walk();
    frontier.walk(2, |_| false);
    frontier.fold_lanes(HostId(0));
    let queue = frontier.queue(HostId(0), Lane(0));
    assert_eq!((queue.ready, queue.delayed, frontier.pending()), (2, 1, 3));
    assert!([1, 2].iter().all(|lane| frontier.queue(HostId(0), Lane(*lane)) == LaneQueue::EMPTY));
    frontier.fold_lanes(HostId(9));
}

proptest! {
    /// Whatever goes in and out during a walk: nothing is lost, nothing comes twice, what is popped keeps its
    /// order, and in the end nothing is left of what matched when the walk began.
    #[test]
    fn a_walk_loses_nothing(
        begin in 0_u64..60,
        most in 1_usize..20,
        doings in proptest::collection::vec((0_u8..6, 0_u8..2, 0_u32..2), 0..80),
    ) {
        let mut frontier = Frontier::default();
        for number in 0..begin {
            match number % 5 {
                4 => frontier.push_delayed(HostId(number as u32 % 2), Lane(0), job(number, u64::MAX - 1)),
                _ => frontier.push(HostId(number as u32 % 2), Lane((number / 2 % 2) as u8), job(number, 0)),
            }
        }
        let matches = |job: &Job| job.url.ends_with('3') || job.url.ends_with('4');
        frontier.begin_walk();
        let (mut next, mut gone, mut over) = (1_000_000, 0, false);
        let mut newest = [[0_u64; 2]; 2];
        let number = |job: &Job| job.url.rsplit('/').next().and_then(|one| one.parse::<u64>().ok()).expect("a number");
        for (what, lane, host) in doings {
            match what {
                0..3 => {
                    let step = frontier.walk(most, matches);
                    prop_assert!(step.removed.iter().all(|(_, job)| matches(job)));
                    gone += step.removed.len() as u64;
                    over = over || step.over;
                }
                3 => {
                    // Who comes in is judged by others: these are never matched.
                    frontier.push(HostId(host), Lane(lane), job(next * 10, 0));
                    next += 1;
                }
                4 => if let Some(job) = frontier.pop(Mono::ZERO, HostId(host), Lane(lane)) {
                    let newest = &mut newest[host as usize][usize::from(lane)];
                    prop_assert!(number(&job) >= *newest, "out of order");
                    *newest = number(&job);
                    gone += 1;
                },
                _ => if let Some(job) = frontier.pop(Mono::ZERO, HostId(host), Lane(lane)) {
                    frontier.push_front(HostId(host), Lane(lane), job);
                },
            }
        }
        for _ in 0..1_000 {
            if over { break; }
            let step = frontier.walk(most, matches);
            (gone, over) = (gone + step.removed.len() as u64, step.over);
        }
        prop_assert!(over);
        let mut rest = frontier.doom(HostId(0), Doom::Skipped(String::new()));
        rest.extend(frontier.doom(HostId(1), Doom::Skipped(String::new())));
        prop_assert!(!rest.iter().any(matches));
        prop_assert_eq!(rest.len() as u64 + gone, begin + next - 1_000_000);
        prop_assert_eq!(frontier.pending(), 0);
    }
}

#[test]
fn draining_takes_everything_of_one_host() {
    let mut frontier = Frontier::default();
    frontier.push(HostId(0), Lane(0), job(1, 0));
    frontier.push(HostId(0), Lane(2), job(2, 0));
    frontier.push_delayed(HostId(0), Lane(1), job(3, 9));
    frontier.push(HostId(1), Lane(0), job(4, 0));
    assert_eq!(frontier.doom(HostId(0), Doom::Skipped(String::new())).len(), 3);
    assert_eq!(frontier.pending(), 1);
}
