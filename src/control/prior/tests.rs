//! The prior and the controller together: a start, proposals, and that neither is more than a proposal.

use super::*;
use crate::control::backoff::NoJitter;
use crate::control::host::LaneQueue;
use crate::control::{Answer, ControllerKind, Lane, Outcome, Policy, PolicyId, RequestKind, Settings, Verdict};

const DAY: u64 = 86_400;

fn controller(rate: f64) -> (Controller, HostId) {
    let policy = Policy {
        original: crate::control::Original { rate, capacity: rate },
        kind: ControllerKind::Adaptive,
        connections: 16,
        ..Policy::default()
    };
    let mut controller =
        Controller::new(Settings { policies: vec![policy], ..Settings::default() }, Box::new(NoJitter));
    let host = controller.add_host(PolicyId(0));
    controller.set_queue(Mono::ZERO, host, Lane(0), LaneQueue { ready: 1_000_000, ..LaneQueue::EMPTY });
    (controller, host)
}

fn remembered(limit: f64) -> Seed {
    let measured = Measured { limit, burst: 5.0, samples: 500.0, steady: 3_000.0, ..Measured::default() };
    Seed { measured, age: Duration::from_secs(60), of_the_hour: false }
}

#[test]
fn a_seed_is_the_start_and_is_journaled() {
    let (mut controller, host) = controller(10.0);
    assert!(controller.seed(Mono::ZERO, host, &remembered(2.0)));
    let told = controller.take_decisions();
    let told: Vec<(Who, Value, &str)> = told.iter().map(|one| (one.who, one.after.clone(), &*one.why)).collect();
    assert_eq!(told[0], (Who::System, Value::Number(10.0), "original"));
    assert_eq!((told[1].0, told[1].2), (Who::Controller, "remembered: 2.00/s, measured 1 min ago from 500 answers"));
    // No cold start, no burst, near the limit.
    let grant = controller.next(Mono::ZERO).expect("a token");
    assert!((1.9..2.0).contains(&grant.rate) && grant.capacity < 1.2, "{grant:?}");
    assert!(controller.next(Mono::ZERO).is_none());
    let view = controller.view(Mono::ZERO, host).expect("the host");
    let why = view.why.expect("it can say").to_string();
    assert!(why.contains("remembered from an earlier run"), "{why}");
    // Once something was sent it is too late.
    assert!(!controller.seed(Mono::ZERO, host, &remembered(4.0)));
}

#[test]
fn what_is_no_rate_is_no_seed_and_no_advice() {
    let (mut controller, host) = controller(10.0);
    for limit in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        assert!(!controller.seed(Mono::ZERO, host, &remembered(limit)), "{limit}");
        controller.advise(Mono::ZERO, host, &Advice { limit, factor: f64::NAN });
    }
    assert!(!controller.seed(Mono::ZERO, HostId(7), &remembered(1.0)), "nobody");
    let mut wild = remembered(3.0);
    wild.measured = Measured {
        burst: f32::NAN,
        samples: f32::INFINITY,
        drift: f32::NAN,
        steady: f32::INFINITY,
        block: f32::NAN,
        ..wild.measured
    };
    assert!(controller.seed(Mono::ZERO, host, &wild));
    let grant = controller.next(Mono::ZERO).expect("a token");
    assert!(grant.rate > 2.0 && grant.rate <= 3.0, "{grant:?}");
}

#[test]
fn a_limit_above_the_original_is_no_reason_to_pass_it() {
    let (mut controller, host) = controller(4.0);
    assert!(controller.seed(Mono::ZERO, host, &remembered(90.0)));
    controller.advise(Mono::ZERO, host, &Advice { limit: 1e9, factor: 1e9 });
    let grant = controller.next(Mono::ZERO).expect("a token");
    assert!(grant.rate <= 4.0 && grant.capacity <= 4.0, "{grant:?}");
}

#[test]
fn older_knowledge_is_trusted_less() {
    let rate = |age: u64, of_the_hour| {
        let (mut controller, host) = controller(10.0);
        let seed = Seed { age: Duration::from_secs(age), of_the_hour, ..remembered(4.0) };
        assert!(controller.seed(Mono::ZERO, host, &seed));
        controller.learned(Mono::from_secs_f64(60.0), host).expect("the host").rate
    };
    let (fresh, week, old, hour) = (rate(60, false), rate(2 * DAY, false), rate(30 * DAY, false), rate(2 * DAY, true));
    assert!(fresh > week && week > old && hour > week, "{fresh} {week} {old} {hour}");
    assert!(old >= 0.5 * fresh, "{old}");
}

/// An advisor learns a host, and another process's advisor seeds it.
#[test]
fn an_advisor_learns_and_its_experience_is_the_next_runs_start() {
    let (mut controller, host) = controller(10.0);
    let mut advisor = Advisor::new(PriorKind::HourOfWeek);
    let monday = 4 * DAY;
    let (mut level, mut last) = (5.0_f64, Mono::ZERO);
    let mut now = Mono::ZERO;
    while now < Mono::from_secs_f64(3_000.0) {
        while let Some(grant) = controller.next(now) {
            level = (level + 2.0 * now.secs_since(last)).min(5.0);
            last = now;
            let status = if level >= 1.0 { 200 } else { 429 };
            level -= f64::from(u8::from(status == 200));
            let answer = Answer {
                host: grant.host,
                lane: grant.lane,
                kind: RequestKind::Page,
                sent: now,
                verdict: Verdict::Status(status),
                retry_after: None,
                latency: Duration::from_millis(50),
                unprocessed: false,
            };
            let judged = controller.answer(now.after(Duration::from_millis(50)), &answer);
            assert!(matches!(judged.outcome, Outcome::Ok | Outcome::Throttled));
        }
        now = controller.next_wake().max(now.after(Duration::from_millis(60)));
        advisor.turn(&mut controller, now, Moment(monday + now.as_nanos() / 1_000_000_000));
    }
    let changed = advisor.take_changed(true);
    let [(id, experience, visited)] = changed.as_slice() else { panic!("one host: {changed:?}") };
    assert_eq!(*id, host);
    assert!((experience.measured.limit / 2.0 - 1.0).abs() < 0.05, "{experience:?}");
    let hour = HourOfWeek::of(Moment(monday));
    assert!(visited.has(hour) && experience.table.known() == 1);
    assert!((experience.table.get(hour).expect("visited") / 2.0 - 1.0).abs() < 0.1);
    assert_eq!(advisor.take_changed(true), Vec::new(), "told once");

    let (mut controller, host) = self::controller(10.0);
    let mut advisor = Advisor::new(PriorKind::HourOfWeek);
    let at = (Mono::ZERO, Moment(monday + 5_000));
    advisor.recall(&mut controller, at, host, experience.clone(), None);
    let grant = controller.next(Mono::ZERO).expect("a token");
    assert!((1.8..2.1).contains(&grant.rate), "{grant:?}");
}

#[test]
fn a_host_that_measured_nothing_costs_nothing() {
    let (mut controller, _) = controller(10.0);
    let mut advisor = Advisor::new(PriorKind::HourOfWeek);
    for second in 0..600 {
        advisor.turn(&mut controller, Mono::from_secs_f64(f64::from(second)), Moment(u64::from(second as u32)));
    }
    assert!(advisor.is_empty());
}
