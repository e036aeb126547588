//! Hosts made up for tests and for the picture in the README. Names under `.test` and `.example` only.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Wall;
use crate::control::{
    Code, CodeCount, Concern, ConcernKind, EndpointView, Evidence, FailureCode, Hold, HoldReason, HostCounts, HostId,
    HostState, HostView, Limiting, Mono, Original, Outcome, Override, Pause, Trend, Who,
};
use crate::journal::timeline::bins::{self, Bins, Key, Mark};
use crate::text::Clean;
use crate::watch::{Focus, HostRow, LogLine, Phase, Recent, RobotsGroup, RobotsState, RobotsView, Snapshot, Totals};

/// The engine's time in the sample.
pub const NOW: Mono = Mono::from_nanos(114_130_000_000_000);

/// A host that goes at its original rate and has nothing to report.
pub fn view(id: u32) -> HostView {
    let original = Original { rate: 2.0, capacity: 4.0 };
    HostView {
        id: HostId(id),
        as_of: NOW,
        state: HostState::Run,
        limiting: Limiting::NoTokens,
        limiting_lane: 0,
        tokens: 1.5,
        effective: original,
        original,
        adaptive: original,
        overriding: None,
        pause: None,
        trend: Trend::Level,
        hold: None,
        crawl_delay: None,
        in_flight: 1,
        connections: 4,
        queued: 730,
        requests: 2_204,
        paced: None,
        recent: [90, 6, 4, 0, 0],
        total: [2_000, 100, 100, 4, 0],
        angry_recent: 0,
        codes: Vec::new(),
        last_ok: Some(NOW),
        latency: None,
        latency_p99: None,
        concern: None,
        eta: Some(Duration::from_secs(365)),
        cold: false,
        why: None,
        group: None,
    }
}

/// A row by its number and name.
pub fn row(id: u32, name: &str) -> HostRow {
    HostRow { name: Clean::new(name), group: None, endpoints: Arc::new([]), view: view(id) }
}

/// A moment so many seconds before [`NOW`].
fn ago(seconds: u64) -> Mono {
    NOW.before(Duration::from_secs(seconds))
}

/// The hosts of SCREENS, one of every kind.
pub fn hosts() -> Vec<HostRow> {
    let concern = |kind, since, evidence| Some(Concern { kind, since, evidence });
    let hold = |seconds: f64, reason| Some(Hold { until: NOW.after_secs(seconds), since: NOW, reason });
    let mut rows = Vec::new();
    let mut add = |name: &str, change: &dyn Fn(&mut HostView)| {
        let mut row = row(u32::try_from(rows.len()).unwrap_or(0), name);
        change(&mut row.view);
        rows.push(row);
    };
    add("www.astr.test", &|v| (v.trend, v.queued, v.effective.rate) = (Trend::Up, 15_210, 1.62));
    add("data.rive.test", &|v| (v.queued, v.tokens) = (2_980, 1.8));
    add("forum.oldca.test", &|v| {
        let last = Some(Outcome::Connect);
        v.concern = concern(ConcernKind::Stuck, ago(851), Evidence::NoSuccess { since: ago(851), last });
        (v.limiting, v.in_flight, v.tokens, v.queued) = (Limiting::Connections, 4, 4.0, 917);
        v.recent = [0, 0, 0, 0, 9];
    });
    add("api.gazet.test", &|v| {
        v.latency = Some((Duration::from_millis(182), Duration::from_millis(1_900)));
        let code = |status, recent, total| CodeCount { code: Code::Status(status), recent, total };
        let timeout = Code::Failure(FailureCode::of(Outcome::Timeout));
        v.codes = vec![code(200, 41, 18_204), code(404, 2, 311), code(429, 16, 207), code(503, 1, 9)];
        v.codes.push(CodeCount { code: timeout, recent: 1, total: 14 });
        v.concern = concern(ConcernKind::Angry, ago(60), Evidence::Refusals { count: 16, of: 60, status: 429 });
        v.hold = hold(118.0, HoldReason::RetryAfter { asked: Duration::from_secs(120), capped: false });
        (v.state, v.limiting, v.trend, v.queued) = (HostState::Back, Limiting::Held, Trend::Down, 4_118);
        (v.tokens, v.recent, v.angry_recent) = (0.4, [41, 2, 16, 1, 0], 16);
        (v.effective, v.adaptive) = (Original { rate: 0.25, capacity: 1.0 }, Original { rate: 0.25, capacity: 1.0 });
    });
    add("www.courtxx.test", &|v| {
        v.concern = concern(ConcernKind::Angry, ago(400), Evidence::Blocked { run: 40 });
        v.hold = hold(1361.0, HoldReason::Refused);
        (v.state, v.limiting, v.queued) = (HostState::Block, Limiting::Held, 11_870);
        (v.recent, v.in_flight, v.tokens) = ([0, 0, 40, 0, 0], 0, 4.0);
    });
    add("slow.muse.test", &|v| {
        v.concern = concern(ConcernKind::Tail, ago(400), Evidence::Later { eta: Duration::from_secs(11 * 3600 + 60) });
        (v.state, v.queued, v.tokens) = (HostState::Wait, 3_204, 0.1);
        (v.effective, v.original) = (Original { rate: 0.08, capacity: 1.0 }, Original { rate: 0.1, capacity: 1.0 });
        (v.limiting, v.crawl_delay) = (Limiting::RobotsDelay, Some((Duration::from_secs(12), false)));
    });
    add("shop.lumb.test", &|v| {
        v.pause = Some(Pause { since: ago(1800), until: None });
        (v.state, v.limiting, v.queued, v.tokens) = (HostState::Paused, Limiting::Paused, 6_011, 4.0);
        (v.adaptive.rate, v.in_flight) = (1.62, 0);
    });
    add("img.atla.test", &|v| {
        let until = Some(NOW.after_secs(2_880.0));
        v.overriding = Some(Override { rate: Some(0.5), capacity: None, since: ago(4_320), until });
        (v.effective.rate, v.adaptive.rate, v.queued, v.tokens) = (0.5, 1.62, 8_402, 2.8);
    });
    add("news.kan.test", &|v| {
        v.hold = hold(4.0, HoldReason::Network(Outcome::ServerError));
        (v.state, v.limiting, v.trend, v.queued) = (HostState::Back, Limiting::Held, Trend::Up, 1_203);
        (v.effective.rate, v.recent) = (0.71, [80, 3, 2, 2, 0]);
    });
    add("wiki.br.test", &|v| v.effective.rate = 1.85);
    add("a.tiles.example", &|v| {
        (v.state, v.tokens, v.queued, v.cold) = (HostState::Wait, 0.0, 1_442, true);
        (v.effective, v.requests) = (Original { rate: 0.5, capacity: 2.0 }, 6);
    });
    add("feeds.dorf.test", &|v| {
        (v.state, v.limiting, v.queued, v.in_flight) = (HostState::Done, Limiting::NothingQueued, 0, 0);
        v.eta = Some(Duration::ZERO);
    });
    if let Some(row) = rows.get_mut(3) {
        row.endpoints = Arc::new([Clean::new("/api/v2/list"), Clean::new("/search")]);
    }
    rows
}

/// Two hours of answers: one host says 429 for a while.
pub fn timeline() -> Bins {
    let mut bins = Bins::default();
    let began = 1_796_008_447_000_000 - 7_200_000_000_i64;
    for number in 0..40_000_i64 {
        // Spread without chance, so that pictures stay the same.
        let spread = number * 7_919 % 1_009;
        let at = Wall(began + number * 180_000 + spread * 100);
        let stormy = (14_000..23_000).contains(&number) && spread % 5 == 0;
        let (code, host) = match spread {
            _ if stormy => (bins::Code::Status(429), 3),
            0..60 => (bins::Code::Status(301), 0),
            60..100 => (bins::Code::Status(404), 1),
            100..104 => (bins::Code::Status(503), 7),
            104..110 => (bins::Code::Failed(Outcome::Timeout), 2),
            110 => (bins::Code::Failed(Outcome::Dns), 4),
            _ => (bins::Code::Status(200), 0),
        };
        let latency = 20.0 + (spread % 9) as f64 * 25.0 + if stormy { 3_000.0 } else { 0.0 };
        bins.request(at, code, host, latency);
    }
    let marks = [(2_700, Mark::Concern), (3_100, Mark::Override), (3_400, Mark::Undo), (5_600, Mark::Pause)];
    for (second, mark) in marks {
        bins.add(Wall(began + second * 1_000_000), Key::Mark(mark));
    }
    bins
}

/// What happened lately to `api.gazet.test`.
pub fn focus() -> Focus {
    let wall = |before: i64| Wall(1_796_008_447_000_000 - before * 1_000_000);
    let request = |before, status, path: &str, millis| Recent::Request {
        wall: wall(before),
        path: Clean::new(path),
        status: Some(status),
        outcome: if status == 429 { Outcome::Throttled } else { Outcome::Ok },
        latency: Duration::from_millis(millis),
    };
    let decision = |before, who, text: &str| {
        let host = Clean::new("api.gazet.test");
        Recent::Decision(LogLine { wall: wall(before), at: NOW, who, host, text: Clean::new(text) })
    };
    let recent = vec![
        decision(1_400, Who::Operator, "override 4.00/s (api.gazet.test)"),
        decision(1_360, Who::Operator, "undone: override 4.00/s"),
        request(20, 200, "/api/v2/list?page=86", 1_900),
        request(13, 429, "/api/v2/list?page=87", 210),
        decision(13, Who::Controller, "rate 0.50 → 0.25/s  throttled (429)"),
        request(10, 429, "/api/v2/list?page=88", 182),
        decision(10, Who::Server, "hold 120 s  Retry-After 120"),
    ];
    let endpoint = |rate: f64, tokens, queued| EndpointView {
        as_of: NOW,
        tokens,
        original: Original { rate: 1.0, capacity: 5.0 },
        adaptive: Original { rate, capacity: 5.0 },
        queued,
    };
    let robots = vec![RobotsView {
        authority: Clean::new("https://api.gazet.test"),
        state: RobotsState::Known { until: NOW.after_secs(75_600.0) },
        copy: Some((ago(10_800), RobotsGroup::Everybody, 14)),
    }];
    let endpoints = vec![endpoint(0.5, 1.5, 3_906), endpoint(1.0, 5.0, 12)];
    Focus { host: HostId(3), recent, endpoints, robots: Some(robots), denied: 64 }
}

/// A snapshot of [`hosts`] with log lines and totals.
pub fn snapshot() -> Snapshot {
    let changed = hosts();
    let wall = Wall(1_796_008_447_000_000);
    let line = |before: i64, who, host: &str, text: &str| LogLine {
        wall: Wall(wall.0 - before * 1_000_000),
        at: NOW,
        who,
        host: Clean::new(host),
        text: Clean::new(text),
    };
    Snapshot {
        now: NOW,
        wall,
        up: Duration::from_secs(114_130),
        totals: Totals {
            phase: Phase::Running,
            counts: HostCounts {
                hosts: 12,
                by_state: [6, 2, 2, 1, 1, 1, 0],
                overridden: 1,
                stuck: 1,
                angry: 2,
                sharing: 0,
                trapped: 0,
                tail: 1,
                forgotten: 0,
            },
            urls_done: 1_204_331,
            urls_failed: 120,
            urls_skipped: 64,
            urls_pending: 407_387,
            inputs_read: true,
            in_flight: 18,
            concurrency: 64,
            requests: 1_300_120,
            rate_now: 11.8,
            rate_15m: 12.4,
            rate_history: (0..60_u16).map(|i| 8.0 + f32::from(i * 7 % 13) * 0.5).collect(),
            classes: [910, 40, 30, 10, 10],
            halted: false,
            stopped_because: None,
            resting_because: None,
            config_trouble: None,
            alarms: Vec::new(),
            eta_bulk: Some(Duration::from_secs(23_160)),
            eta_tail: Some((Duration::from_secs(62_000), HostId(5))),
            journal_bytes: 3_100_000_000,
            bad_lines: 0,
        },
        changed,
        log: vec![
            line(300, Who::Operator, "img.atla.test", "override 0.50/s for 2 h"),
            line(100, Who::Concern, "forum.oldca.test", "STUCK: 9th connect timeout in a row"),
            line(10, Who::Controller, "api.gazet.test", "429, Retry-After 120 s: hold 2 m, rate 0.50 to 0.25/s"),
        ],
        answers: Vec::new(),
        notices: Vec::new(),
        timeline: None,
        focus: None,
        ui: None,
    }
}
