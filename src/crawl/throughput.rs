//! Requests per second over several spans, and classes of the last five minutes, in fixed rings.

use std::time::Duration;

use crate::control::Mono;

const SECONDS: usize = 900;
const MINUTES: usize = 60;
const SLOTS: usize = 10;
const SLOT_SECS: u64 = 30;

/// Counts over time; about 5 KB, whatever the crawl.
#[derive(Debug)]
pub struct Throughput {
    seconds: Box<[u32; SECONDS]>,
    minutes: [u32; MINUTES],
    classes: [[u64; 5]; SLOTS],
    second: u64,
}

impl Default for Throughput {
    fn default() -> Self {
        Self { seconds: Box::new([0; SECONDS]), minutes: [0; MINUTES], classes: [[0; 5]; SLOTS], second: 0 }
    }
}

/// How long the queue was a while ago: where links are followed it may grow for hours, and then nobody knows its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueWatch {
    /// The last two looks: when, and so many URLs.
    looks: [Option<(Mono, u64)>; 2],
}

/// Between two looks at the queue at least.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl QueueWatch {
    /// Looks at the queue; whether it is shorter than 10 to 20 seconds ago. Not before there was such a time.
    pub fn shrinks(&mut self, now: Mono, pending: u64) -> bool {
        let [before, last] = &mut self.looks;
        if last.is_none_or(|(at, _)| now.since(at) >= LOOK_EVERY) {
            *before = last.replace((now, pending));
        }
        before.is_some_and(|(_, then)| pending < then)
    }
}

impl Throughput {
    /// A request went out.
    pub fn sent(&mut self, now: Mono) {
        self.roll(now);
        self.seconds[(self.second % SECONDS as u64) as usize] += 1;
        self.minutes[(self.second / 60 % MINUTES as u64) as usize] += 1;
    }

    /// An answer came, of the class with this index (2xx 3xx 4xx 5xx error).
    pub fn answered(&mut self, now: Mono, class: usize) {
        self.roll(now);
        if let Some(count) = self.classes[(self.second / SLOT_SECS % SLOTS as u64) as usize].get_mut(class) {
            *count += 1;
        }
    }

    /// Requests per second over the last `span` whole seconds (at most 900, or since the start).
    pub fn rate(&mut self, now: Mono, span: u64) -> f64 {
        self.roll(now);
        let span = span.min(SECONDS as u64 - 1).min(self.second);
        if span == 0 {
            return f64::from(self.seconds[0]);
        }
        let total: u64 = (self.second - span..self.second)
            .map(|second| u64::from(self.seconds[(second % SECONDS as u64) as usize]))
            .sum();
        total as f64 / span as f64
    }

    /// Requests per second for each of the last 60 minutes, newest last; the running one included.
    pub fn history(&mut self, now: Mono) -> Vec<f32> {
        self.roll(now);
        let minute = self.second / 60;
        let first = minute.saturating_sub(MINUTES as u64 - 1);
        (first..=minute)
            .map(|one| {
                let span = if one == minute { (self.second % 60 + 1) as f32 } else { 60.0 };
                self.minutes[(one % MINUTES as u64) as usize] as f32 / span
            })
            .collect()
    }

    /// Answers of the last five minutes by class.
    pub fn classes(&mut self, now: Mono) -> [u64; 5] {
        self.roll(now);
        let mut sum = [0; 5];
        for slot in &self.classes {
            for (total, count) in sum.iter_mut().zip(slot) {
                *total += count;
            }
        }
        sum
    }

    /// Empties what is older than the rings.
    fn roll(&mut self, now: Mono) {
        let second = now.as_nanos() / 1_000_000_000;
        if second <= self.second {
            return;
        }
        for passed in self.second + 1..=second.min(self.second + SECONDS as u64) {
            self.seconds[(passed % SECONDS as u64) as usize] = 0;
        }
        for passed in self.second / 60 + 1..=(second / 60).min(self.second / 60 + MINUTES as u64) {
            self.minutes[(passed % MINUTES as u64) as usize] = 0;
        }
        let slot = self.second / SLOT_SECS;
        for passed in slot + 1..=(second / SLOT_SECS).min(slot + SLOTS as u64) {
            self.classes[(passed % SLOTS as u64) as usize] = [0; 5];
        }
        if second > self.second + SECONDS as u64 {
            // A jump over the whole ring: slots beyond it must be empty, too.
            self.seconds.fill(0);
        }
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_25_a_queue_that_grows_has_no_end_to_tell() {
        let mut watch = QueueWatch::default();
        let mut shrinks = |second: u32, pending| watch.shrinks(Mono::from_secs_f64(f64::from(second)), pending);
        assert!((0..10).all(|second| !shrinks(second, u64::from(100 - second))), "too early to say");
        assert!(shrinks(10, 90) && shrinks(15, 80), "shorter than at the beginning");
        assert!(!shrinks(20, 200) && !shrinks(25, 95), "it grew, and is longer than it was at 10");
        assert!(!shrinks(30, 300) && shrinks(35, 199));
        assert!(shrinks(45, 199) && !shrinks(55, 199), "it stands");
    }

    #[test]
    fn rates_follow_time_and_forget() {
        let mut throughput = Throughput::default();
        for second in 0..30 {
            for _ in 0..4 {
                throughput.sent(Mono::from_secs_f64(f64::from(second)));
            }
            throughput.answered(Mono::from_secs_f64(f64::from(second)), 0);
        }
        let now = Mono::from_secs_f64(30.0);
        assert_eq!(throughput.rate(now, 10), 4.0);
        assert_eq!(throughput.classes(now), [30, 0, 0, 0, 0]);
        let later = Mono::from_secs_f64(30.0 + 100_000.0);
        assert_eq!(throughput.rate(later, 10), 0.0);
        assert_eq!(throughput.classes(later), [0; 5]);
        assert!(throughput.history(later).iter().all(|rate| *rate == 0.0));
    }
}
