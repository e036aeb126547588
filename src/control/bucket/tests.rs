//! The buckets against arbitrary clocks and command sequences, and against a simple model.

use proptest::prelude::*;

use super::*;

const SHAPES: [Shape; 3] = [Shape::TokenBucket, Shape::LeakyBucket, Shape::SlidingWindow];

fn original(rate: f64, capacity: f64) -> Original {
    Original { rate, capacity }
}

fn at(secs: f64) -> Mono {
    Mono::from_secs_f64(secs)
}

/// Takes single tokens at `now` until refused; how many it got.
fn burst(bucket: &mut Bucket, now: Mono) -> usize {
    (0..100_000).take_while(|_| bucket.take(now, 1.0)).count()
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-6 * (1.0 + left.abs().max(right.abs()))
}

#[test]
fn a_bucket_is_small() {
    assert!(size_of::<Bucket>() <= 48, "{} bytes", size_of::<Bucket>());
}

#[test]
fn case_08_a_clock_that_goes_back_refuses_nothing_that_is_there_and_gives_nothing() {
    for shape in SHAPES {
        let mut bucket = Bucket::full(shape, original(1.0, 5.0), at(100.0));
        assert!(bucket.take(at(100.0), 1.0));
        let before = bucket.tokens(at(100.0));
        assert_eq!(bucket.tokens(at(99.0)), before, "{shape:?}");
        bucket.give_back(at(98.0), 0.0);
        bucket.set_target(at(97.0), original(2.0, 5.0));
        bucket.set_target(at(96.0), original(1.0, 5.0));
        if shape != Shape::LeakyBucket {
            assert_eq!(burst(&mut bucket, at(95.0)), 4, "{shape:?}: what was there is granted");
        }
        // The stamp did not go back: returning to where the clock was is no elapsed time.
        assert_eq!(burst(&mut bucket, at(100.0)), 0, "{shape:?}");
        assert!(bucket.tokens(at(100.0)) < 1.0, "{shape:?}");
    }
}

#[test]
fn case_09_a_suspend_fills_the_bucket_and_no_more() {
    for hours in [1.0, 10.0, 87_600.0] {
        let wake = at(10.0 + hours * 3600.0);
        for (shape, most) in SHAPES.into_iter().zip([4, 1, 4]) {
            let mut bucket = Bucket::full(shape, original(2.0, 4.0), at(0.0));
            burst(&mut bucket, at(0.0));
            burst(&mut bucket, at(10.0));
            assert_eq!(burst(&mut bucket, wake), most, "{shape:?}, {hours} h");
        }
    }
    let mut bucket = Bucket::full(Shape::TokenBucket, original(2.0, 4.0), Mono::ZERO);
    assert_eq!(burst(&mut bucket, Mono::from_nanos(u64::MAX - 1)), 4);
}

#[test]
fn case_11_a_full_bucket_turns_no_idle_time_into_credit() {
    for (shape, most) in SHAPES.into_iter().zip([4, 1, 4]) {
        let mut bucket = Bucket::full(shape, original(2.0, 4.0), at(0.0));
        // Touched while full, long idle, then two bursts within a millisecond.
        bucket.give_back(at(50.0), 1.0);
        bucket.set_target(at(60.0), original(2.0, 5.0));
        bucket.set_target(at(70.0), original(2.0, 4.0));
        let first = burst(&mut bucket, at(1000.0));
        let second = burst(&mut bucket, at(1000.001));
        assert_eq!((first, second), (most, 0), "{shape:?}");
    }
}

#[test]
fn case_12_frequent_polling_loses_no_fraction() {
    for shape in SHAPES {
        let mut bucket = Bucket::empty(shape, original(0.3, 2.0), Mono::ZERO);
        let mut granted = 0;
        // Every millisecond for 1000 s: 300 tokens.
        for millis in 0..=1_000_000_u64 {
            let now = Mono::from_nanos(millis * 1_000_000);
            granted += usize::from(bucket.take(now, 1.0));
            bucket.give_back(now, 0.0);
        }
        assert!((298..=300).contains(&granted), "{shape:?}: {granted}");
    }
}

#[test]
fn case_13_who_waits_as_told_is_granted() {
    for shape in SHAPES {
        for rate in [0.001, 0.3, 1.0 / 3.0, 7.0, 999.0, 123_456.7] {
            let mut bucket = Bucket::empty(shape, original(rate, 3.0), at(1.0));
            let mut now = at(1.0);
            for _ in 0..1000 {
                let ready = bucket.ready_at(now, 1.0);
                if ready > now {
                    let early = Mono::from_nanos(ready.as_nanos() - 1);
                    assert!(!bucket.clone().take(early, 1.0), "{shape:?} at {rate}: a nanosecond early");
                }
                now = now.max(ready);
                assert!(bucket.take(now, 1.0), "{shape:?} at {rate}: refused a second time");
            }
        }
    }
}

#[test]
fn a_rate_of_zero_or_no_number_never_grants() {
    for shape in SHAPES {
        for rate in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            let mut bucket = Bucket::full(shape, original(rate, 4.0), at(5.0));
            assert_eq!(bucket.target().rate, 0.0);
            assert_eq!(bucket.ready_at(at(9.0), 1.0), Mono::NEVER);
            assert!(!bucket.take(Mono::NEVER, 1.0), "{shape:?}");
            assert!(bucket.tokens(at(99.0)).is_finite());
        }
        let mut bucket = Bucket::full(shape, original(1.0, 4.0), at(5.0));
        for n in [f64::NAN, f64::INFINITY] {
            assert!(!bucket.take(at(9.0), n), "{shape:?}");
            bucket.give_back(at(9.0), f64::NAN);
        }
        assert!(bucket.take(at(9.0), 1.0), "{shape:?}");
    }
}

#[test]
fn a_time_at_rate_zero_earns_nothing() {
    for shape in SHAPES {
        let mut bucket = Bucket::full(shape, original(1.0, 4.0), at(0.0));
        burst(&mut bucket, at(0.0));
        bucket.set_target(at(0.0), original(0.0, 4.0));
        bucket.set_target(at(500.0), original(1.0, 4.0));
        assert_eq!(burst(&mut bucket, at(500.0)), 0, "{shape:?}");
        assert!(bucket.ready_at(at(500.0), 1.0) <= at(504.0), "{shape:?}");
    }
}

#[test]
fn more_than_the_capacity_waits_for_a_full_bucket_and_goes_into_debt() {
    for shape in [Shape::TokenBucket, Shape::SlidingWindow] {
        let mut bucket = Bucket::full(shape, original(1.0, 4.0), at(0.0));
        assert!(bucket.take(at(0.0), 1.0));
        assert!(!bucket.take(at(0.0), 10.0), "{shape:?}: not full");
        let ready = bucket.ready_at(at(0.0), 10.0);
        assert!(bucket.take(ready, 10.0), "{shape:?}");
        assert!(close(bucket.tokens(ready), -6.0), "{shape:?}: {}", bucket.tokens(ready));
        let next = bucket.ready_at(ready, 1.0);
        assert!(next >= ready.after_secs(7.0) && next <= ready.after_secs(12.0), "{shape:?}");
        bucket.drain(ready);
        assert!(close(bucket.tokens(ready), -6.0), "{shape:?}: a debt stays");
    }
    // Also when the capacity is below one token.
    let mut bucket = Bucket::full(Shape::TokenBucket, original(1.0, 0.5), at(0.0));
    assert!(bucket.take(at(0.0), 1.0));
    assert_eq!(bucket.ready_at(at(0.0), 1.0), at(1.0));
}

#[test]
fn a_lowered_capacity_drops_the_surplus_and_a_raise_grants_nothing_at_once() {
    for shape in [Shape::TokenBucket, Shape::SlidingWindow] {
        let mut bucket = Bucket::full(shape, original(1.0, 8.0), at(0.0));
        bucket.set_target(at(0.0), original(1.0, 3.0));
        assert_eq!(bucket.tokens(at(0.0)), 3.0, "{shape:?}");
        bucket.set_target(at(0.0), original(50.0, 100.0));
        assert_eq!(bucket.tokens(at(0.0)), 3.0, "{shape:?}");
        assert_eq!(burst(&mut bucket, at(0.0)), 3, "{shape:?}");
    }
    // A raised rate pays for the time before it at the old rate.
    let mut bucket = Bucket::empty(Shape::TokenBucket, original(0.1, 8.0), at(0.0));
    bucket.set_target(at(10.0), original(100.0, 8.0));
    assert!(close(bucket.tokens(at(10.0)), 1.0));
}

#[test]
fn a_raised_rate_takes_effect_for_the_very_next_grant() {
    for shape in SHAPES {
        let mut bucket = Bucket::empty(shape, original(0.001, 1.0), at(0.0));
        bucket.set_target(at(1.0), original(10.0, 1.0));
        assert!(bucket.ready_at(at(1.0), 1.0) <= at(1.101), "{shape:?}");
    }
}

#[test]
fn an_unused_grant_given_back_in_the_same_step_leaves_no_trace() {
    for shape in SHAPES {
        let mut bucket = Bucket::empty(shape, original(3.0, 4.0), at(0.0));
        let now = at(0.7);
        for n in [0.5, 1.0, 3.0, 9.0] {
            let now = bucket.ready_at(now, n).max(now);
            let (tokens, ready) = (bucket.tokens(now), bucket.ready_at(now, n));
            assert!(bucket.take(now, n));
            bucket.give_back(now, n);
            assert!(close(bucket.tokens(now), tokens), "{shape:?}: {tokens} before");
            assert!(bucket.ready_at(now, n) <= now.after_secs(1e-9).max(ready), "{shape:?}");
        }
    }
}

#[test]
fn leaky_grants_are_spaced_and_lateness_does_not_add_up() {
    let mut bucket = Bucket::full(Shape::LeakyBucket, original(10.0, 2.0), at(0.0));
    let mut times = Vec::new();
    let mut now = at(0.0);
    for late in 0..1000_u64 {
        // Each wake is 0 to 9 ms late.
        now = bucket.ready_at(now, 1.0).max(now).after_secs((late * 7 % 10) as f64 / 1e3);
        assert!(bucket.take(now, 1.0));
        times.push(now);
    }
    assert!(times.windows(2).all(|two| two[1].secs_since(two[0]) >= 0.09 - 1e-9));
    let spent = times[999].secs_since(times[0]);
    assert!((spent - 99.9).abs() < 0.02, "{spent} s for 999 intervals of 0.1 s");
}

#[test]
fn leaky_begins_its_schedule_anew_after_an_idle_time() {
    let mut bucket = Bucket::full(Shape::LeakyBucket, original(10.0, 4.0), at(0.0));
    assert!(bucket.take(at(0.0), 1.0));
    assert!(bucket.take(at(5.0), 1.0));
    assert!(close(bucket.ready_at(at(5.0), 1.0).as_secs_f64(), 5.1), "not 0.9 of an interval");
    assert!(bucket.take(at(6.0), 3.0));
    assert!(close(bucket.ready_at(at(6.0), 1.0).as_secs_f64(), 6.3), "three tokens are three intervals");
}

#[test]
fn a_window_of_more_stamps_than_it_keeps_stays_bounded_and_never_over_admits() {
    let (rate, capacity) = (100_000.0, 200_000.0);
    let mut bucket = Bucket::full(Shape::SlidingWindow, original(rate, capacity), Mono::ZERO);
    let mut granted: Vec<u64> = Vec::new();
    for micros in (0..6_000_000_u64).step_by(4) {
        if bucket.take(Mono::from_nanos(micros * 1000), 1.0) {
            granted.push(micros);
        }
    }
    let Bucket::Window(window) = &bucket else { unreachable!() };
    assert!(window.stamp_count() <= MAX_STAMPS, "{}", window.stamp_count());
    let first_too_soon = granted.windows(200_001).find(|many| many[200_000] - many[0] < 2_000_000);
    assert_eq!(first_too_soon.map(|many| many[0]), None);
    assert!(granted.len() >= 590_000, "{} of 600,000", granted.len());
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// The clock moves by so many nanoseconds.
    Move(i64),
    Take(f64),
    /// Waits as `ready_at` says (up to an hour) and takes.
    Wait(f64),
    /// Takes and, in the same step, gives back.
    Unused(f64),
    Target(f64, f64),
    Drain,
}

fn step(costs: impl Strategy<Value = f64> + Clone + 'static) -> impl Strategy<Value = Step> {
    let nanos = prop_oneof![
        6 => 0..2_000_000_000_i64,
        2 => 0..60_000_000_000_i64,
        2 => -5_000_000_000..0_i64,
        1 => Just(i64::MAX / 64),
        1 => Just(-i64::MAX / 64),
    ];
    prop_oneof![
        4 => nanos.prop_map(Step::Move),
        6 => costs.clone().prop_map(Step::Take),
        6 => costs.clone().prop_map(Step::Wait),
        1 => costs.prop_map(Step::Unused),
        2 => (targets(), 1.0..9.0_f64).prop_map(|(rate, capacity)| Step::Target(rate, capacity)),
        1 => Just(Step::Drain),
    ]
}

fn targets() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.05..20.0_f64, 1 => Just(0.0), 1 => 100.0..5000.0_f64]
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop::sample::select(SHAPES.to_vec())
}

/// What an observer with the latest time of any clock saw: each grant with the integral of the rate until it.
struct Envelope {
    target: Original,
    now: Mono,
    earned: f64,
    /// (earned, tokens), and for a change of target the capacities before and after.
    grants: Vec<(f64, f64, f64)>,
}

impl Envelope {
    fn new(target: Original, now: Mono) -> Self {
        Self { target, now, earned: 0.0, grants: Vec::new() }
    }

    fn advance(&mut self, now: Mono) {
        self.earned += self.target.rate * now.secs_since(self.now);
        self.now = self.now.max(now);
    }

    fn record(&mut self, tokens: f64) {
        self.grants.push((self.earned, tokens, self.target.capacity));
    }

    fn set_target(&mut self, target: Original) {
        self.record(0.0);
        self.target = target;
        self.record(0.0);
    }

    /// Asserts for every window that ends with the latest grant: tokens <= capacity + ∫rate + allowance.
    fn check(&self, allowance: f64) -> Result<(), TestCaseError> {
        let Some((until, ..)) = self.grants.last() else { return Ok(()) };
        let (mut sum, mut capacity) = (0.0, 0.0_f64);
        for (earned, tokens, in_force) in self.grants.iter().rev() {
            sum += tokens;
            capacity = capacity.max(*in_force);
            let bound = capacity + (until - earned) + allowance;
            prop_assert!(sum <= bound + 1e-6 * (1.0 + until), "{} tokens in a window for {}", sum, bound);
        }
        Ok(())
    }
}

/// Runs `steps`; after each asserts the level, the agreement of `ready_at` and `take`, and the envelope.
fn run(shape: Shape, steps: Vec<Step>, most: f64) -> Result<(), TestCaseError> {
    let start = at(1e6);
    let target = original(2.0, 4.0);
    let mut bucket = Bucket::full(shape, target, start);
    let mut envelope = Envelope::new(target, start);
    let mut now = start;
    let mut debt = 0.0_f64;
    // A request above the capacity goes into debt; the leaky bucket lets each request go into debt.
    let allowance = (most - 1.0).max(0.0);
    for step in steps {
        match step {
            Step::Move(nanos) => now = Mono::from_nanos(now.as_nanos().saturating_add_signed(nanos)),
            Step::Target(rate, capacity) => {
                let before = bucket.tokens(now);
                bucket.set_target(now, original(rate, capacity));
                envelope.advance(now);
                envelope.set_target(original(rate, capacity));
                prop_assert!(bucket.tokens(now) <= before.max(0.0) + 1e-6, "a change grants nothing at once");
            }
            Step::Drain => {
                bucket.drain(now);
                envelope.advance(now);
                prop_assert!(bucket.tokens(now) <= 1e-9);
            }
            Step::Unused(n) => {
                let before = bucket.tokens(now);
                if bucket.take(now, n) {
                    bucket.give_back(now, n);
                    envelope.advance(now);
                }
                prop_assert!(bucket.tokens(now) <= before + 1e-6);
            }
            Step::Take(n) | Step::Wait(n) => {
                let ready = bucket.ready_at(now, n);
                if matches!(step, Step::Wait(_)) && ready < now.after_secs(3600.0) {
                    now = now.max(ready);
                }
                if ready != Mono::NEVER && ready > Mono::ZERO {
                    let early = Mono::from_nanos(ready.as_nanos() - 1);
                    prop_assert!(bucket.clone().take(ready.max(now), n), "refused at the moment that was named");
                    prop_assert!(early < now || !bucket.clone().take(early, n), "granted before that moment");
                }
                let granted = bucket.take(now, n);
                prop_assert_eq!(granted, ready <= now && ready != Mono::NEVER);
                if granted {
                    debt = debt.min(-n);
                    envelope.advance(now);
                    envelope.record(n);
                    envelope.check(allowance)?;
                }
            }
        }
        let tokens = bucket.tokens(now);
        prop_assert!(tokens <= bucket.target().capacity + 1e-9, "{} tokens", tokens);
        prop_assert!(tokens >= debt - 1e-6, "{} tokens", tokens);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn single_tokens_never_leave_the_envelope(shape in shapes(), steps in prop::collection::vec(step(Just(1.0)), 1..80)) {
        run(shape, steps, 1.0)?;
    }

    #[test]
    fn weights_and_debts_never_leave_the_envelope(
        shape in shapes(), steps in prop::collection::vec(step(prop_oneof![Just(1.0), 0.1..20.0_f64]), 1..80)
    ) {
        run(shape, steps, 20.0)?;
    }

    /// The token bucket against an eager model that refills in small steps.
    #[test]
    fn the_token_bucket_holds_what_a_simple_model_holds(
        steps in prop::collection::vec((0.0..9.0_f64, 0.0..6.0_f64, prop::option::of((0.05..20.0_f64, 1.0..9.0_f64))), 1..60)
    ) {
        let (mut rate, mut capacity, mut level) = (2.0, 4.0, 4.0_f64);
        let mut now = at(50.0);
        let mut bucket = Bucket::full(Shape::TokenBucket, original(rate, capacity), now);
        for (wait, n, change) in steps {
            let next = now.after_secs(wait);
            for _ in 0..10 {
                level = capacity.min(level + rate * next.secs_since(now) / 10.0);
            }
            now = next;
            prop_assert!(close(bucket.tokens(now), level), "{} for {}", bucket.tokens(now), level);
            // Where the model is on the brink the two may differ by a rounding.
            if (level - n.min(capacity)).abs() > 1e-9 {
                prop_assert_eq!(bucket.take(now, n), level >= n.min(capacity));
                level -= if level >= n.min(capacity) { n } else { 0.0 };
            }
            if let Some((new_rate, new_capacity)) = change {
                bucket.set_target(now, original(new_rate, new_capacity));
                (rate, capacity) = (new_rate, new_capacity);
                level = level.min(capacity);
            }
            let (ready, missing) = (bucket.ready_at(now, 1.0), 1.0_f64.min(capacity) - level);
            if missing > 1e-6 {
                let exact = now.as_nanos() as f64 + missing / rate * 1e9;
                prop_assert!((ready.as_nanos() as f64 - exact).abs() <= 2.0 + 1e-6 * missing / rate * 1e9);
            }
        }
    }

    /// The sliding window against a list of all grants: granted exactly if no half-open window is overfull.
    #[test]
    fn the_sliding_window_is_exact(
        capacity in 1..6_u32, rate in 0.1..10.0_f64, waits in prop::collection::vec(0.0..0.7_f64, 1..150)
    ) {
        let mut now = at(50.0);
        let mut bucket = Bucket::full(Shape::SlidingWindow, original(rate, f64::from(capacity)), now);
        let span = (f64::from(capacity) / rate * 1e9).ceil() as u64;
        let mut all: Vec<u64> = Vec::new();
        for wait in waits {
            now = now.after_secs(wait);
            let within = all.iter().filter(|past| now.as_nanos() - **past < span).count();
            prop_assert_eq!(bucket.take(now, 1.0), within < capacity as usize);
            if within < capacity as usize {
                all.push(now.as_nanos());
            }
        }
    }
}
