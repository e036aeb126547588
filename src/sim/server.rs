//! A server as one simulates it: the model's habits, for how long, and how hard it may be asked.

use std::time::Duration;

use super::{Ban, Drift, HintHeaders, Latency, Limit, Overload, Random, RetryAfter, ServerModel, ServerSpec};

/// The longest simulation of one server, in hours.
pub const HOURS_MAX: f64 = 1_000.0;

/// A server to simulate.
#[derive(Clone, PartialEq, Debug)]
pub struct SimServer {
    /// Its name in tables and JSON.
    pub id: String,
    /// How long, in hours; > 0, at most [`HOURS_MAX`].
    pub hours: f64,
    /// The operator's original rate in requests per second, > 0; its capacity is the same number, at least 1.
    pub ceiling: f64,
    /// Requests in flight at most, >= 1.
    pub connections: u32,
    /// Its limit and its habits.
    pub spec: ServerSpec,
}

impl SimServer {
    /// A server called `id`: 6 hours, ceiling 10/s, 16 connections, work of 120 ms, and no limit yet.
    pub fn named(id: &str) -> Self {
        let spec =
            ServerSpec { latency: Latency { median: Duration::from_millis(120), sigma: 0.3 }, ..ServerSpec::default() };
        Self { id: id.to_owned(), hours: 6.0, ceiling: 10.0, connections: 16, spec }
    }

    /// The model, fresh. A window's phase, which nobody states, is drawn from the seed too.
    pub fn model(&self, seed: u64) -> ServerModel {
        let mut random = Random::new(seed);
        let mut spec = self.spec.clone();
        if let Limit::Window { per, phase, .. } = &mut spec.limit
            && phase.is_zero()
        {
            *phase = per.mul_f64(random.unit());
        }
        ServerModel::new(spec, random.next_u64())
    }

    /// The servers that are built in, `a` to `n`.
    pub fn built_in() -> Vec<Self> {
        let secs = Duration::from_secs;
        let hours = |hours: u64| Duration::from_secs(3_600 * hours);
        let server = |id: &str, hours: f64, limit: Limit, change: fn(&mut ServerSpec)| {
            let mut server = Self { hours, ..Self::named(id) };
            server.spec.limit = limit;
            change(&mut server.spec);
            server
        };
        let bucket = |rate, burst| Limit::Bucket { rate, burst };
        let per_minute = Limit::Window { count: 60, per: secs(60), phase: Duration::ZERO };
        let bans = |refusals| Ban { refusals, within: secs(600), status: 403, lasts: secs(3_600) };
        let mut servers = vec![
            server("a", 6.0, bucket(2.0, 10.0), |_| {}),
            server("b", 6.0, per_minute, |_| {}),
            server("c", 24.0, bucket(4.0, 4.0), |spec| {
                spec.burst_seconds = 2.0;
                spec.drift = Drift::Sine { amplitude: 0.75, period: Duration::from_secs(86_400) };
            }),
            server("d", 6.0, bucket(5.0, 10.0), |_| {}),
            server("e", 6.0, bucket(5.0, 10.0), |spec| spec.errors = 0.05),
            server("f", 3.0, Limit::None, |spec| {
                spec.overload = Some(Overload { servers: 4, service: Duration::from_millis(500), cv: 0.5 });
            }),
            server("g", 6.0, bucket(2.0, 20.0), |spec| {
                spec.lockout = Duration::from_secs(30);
                spec.retry_after = RetryAfter::UntilFree;
            }),
            server("h", 12.0, bucket(2.0, 10.0), |_| {}),
            server("i", 6.0, per_minute, |spec| {
                spec.headers = HintHeaders::XRateLimit;
                spec.retry_after = RetryAfter::UntilFree;
            }),
            server("j", 12.0, bucket(0.1, 2.0), |_| {}),
            server("k", 6.0, bucket(3.0, 6.0), |spec| {
                spec.drift = Drift::Noise { amplitude: 0.25, step: Duration::from_secs(30) };
            }),
            server("l", 2.0, Limit::None, |_| {}),
            server("m", 12.0, bucket(0.2, 3.0), |spec| spec.errors = 0.1),
            server("n", 12.0, bucket(2.0, 10.0), |_| {}),
        ];
        for server in &mut servers {
            match server.id.as_str() {
                "d" => server.spec.drift = Drift::Steps { at: vec![hours(2), hours(3)], factor: vec![0.1, 1.0] },
                "f" => (server.ceiling, server.connections) = (40.0, 64),
                "h" => server.spec.ban = Some(bans(20)),
                "n" => server.spec.ban = Some(bans(5)),
                _ => {}
            }
        }
        servers
    }
}
