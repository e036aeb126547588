//! Random servers that nothing was tuned on: what the web may have behind its names.
//!
//! Limits from 0.05 to 30/s (log-uniform), 55 % buckets, 30 % windows, 15 % penalty boxes; bursts of 1.5 to
//! 200; windows of 1 s to 1 h, 20 % of them with headers, 40 % with Retry-After; lockouts of 5 to 120 s, half
//! of them told; work of 50 ms to 2.5 s; no, 2 % or 8 % random 500; 20 % of the limits wander, another 40 %
//! jump to 0.15 to 6 times what they were at the start; 20 % ban beyond 30 refusals in 10 minutes; the
//! operator's ceiling is 1.5 to 20 times the limit.

use std::time::Duration;

use super::{Ban, Drift, HintHeaders, Latency, Limit, Random, RetryAfter, SimServer};

/// How long each is simulated, in hours.
const HOURS: f64 = 6.0;
const CONNECTIONS: u32 = 64;
/// How far a limit that wanders does so.
const NOISE: f64 = 0.25;
const NOISE_STEP: Duration = Duration::from_secs(30);
/// Jumps of a limit at most.
const STEPS_MAX: u64 = 4;

impl SimServer {
    /// So many random servers, `r1` on. The same seed gives the same ones, whatever the count.
    pub fn random(count: u32, seed: u64) -> Vec<Self> {
        let mut random = Random::new(seed);
        (1..=count).map(|number| one(number, Random::new(random.next_u64()))).collect()
    }
}

fn one(number: u32, mut random: Random) -> SimServer {
    let mut server = SimServer { hours: HOURS, connections: CONNECTIONS, ..SimServer::named(&format!("r{number}")) };
    let rate = between(&mut random, 0.05, 30.0);
    let burst = between(&mut random, 1.5, 200.0);
    let kind = random.unit();
    let (told, headers) = (random.chance(0.4), random.chance(0.2));
    let lockout = 5.0 + 115.0 * random.unit();
    // A window holds two requests at least, or it would be another limit.
    let per = between(&mut random, (2.0 / rate).max(1.0), 3_600.0);
    let spec = &mut server.spec;
    spec.limit = Limit::Bucket { rate, burst };
    if kind >= 0.85 {
        spec.lockout = Duration::from_secs_f64(lockout);
        if random.chance(0.5) {
            spec.retry_after = RetryAfter::UntilFree;
        }
    } else if kind >= 0.55 {
        let count = (rate * per).round().max(1.0) as u32;
        spec.limit = Limit::Window { count, per: Duration::from_secs_f64(per), phase: Duration::ZERO };
        if told {
            spec.retry_after = RetryAfter::UntilFree;
        }
        if headers {
            spec.headers = if random.chance(0.5) { HintHeaders::XRateLimit } else { HintHeaders::RateLimit };
        }
    }
    spec.latency = Latency { median: Duration::from_secs_f64(between(&mut random, 0.05, 2.5)), sigma: 0.3 };
    spec.errors = [0.0, 0.02, 0.08][(random.next_u64() % 3) as usize];
    let shape = random.unit();
    if shape < 0.2 {
        spec.drift = Drift::Noise { amplitude: NOISE, step: NOISE_STEP };
    } else if shape < 0.6 {
        let steps = 1 + random.next_u64() % STEPS_MAX;
        let mut at: Vec<Duration> =
            (0..steps).map(|_| Duration::from_secs_f64(HOURS * 3_600.0 * random.unit())).collect();
        at.sort();
        let factor = at.iter().map(|_| between(&mut random, 0.15, 6.0)).collect();
        spec.drift = Drift::Steps { at, factor };
    }
    if random.chance(0.2) {
        let (within, lasts) = (Duration::from_secs(600), Duration::from_secs(3_600));
        spec.ban = Some(Ban { refusals: 30, within, status: 403, lasts });
    }
    server.ceiling = rate * between(&mut random, 1.5, 20.0);
    server
}

/// Log-uniform.
fn between(random: &mut Random, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_as_told_and_the_seed_fixes_all() {
        let servers = SimServer::random(2_000, 7);
        assert_eq!(servers[..50], SimServer::random(50, 7));
        assert_ne!(servers[..50], SimServer::random(50, 8));
        let share = |is: &dyn Fn(&SimServer) -> bool| servers.iter().filter(|one| is(one)).count() as f64 / 2_000.0;
        for (told, found) in [
            (0.30, share(&|one| matches!(one.spec.limit, Limit::Window { .. }))),
            (0.15, share(&|one| !one.spec.lockout.is_zero())),
            (0.20, share(&|one| matches!(one.spec.drift, Drift::Noise { .. }))),
            (0.40, share(&|one| matches!(one.spec.drift, Drift::Steps { .. }))),
            (0.20, share(&|one| one.spec.ban.is_some())),
            (1.0 / 3.0, share(&|one| one.spec.errors == 0.08)),
        ] {
            assert!((found - told).abs() < 0.04, "{found} for {told}");
        }
        for server in &servers {
            let rate = server.model(1).allowed_rate(crate::control::Mono::ZERO);
            assert!(rate > 0.02 && rate < 60.0 && server.ceiling >= 0.07, "{server:?}");
        }
    }
}
