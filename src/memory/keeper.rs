//! What a crawl does with its memory: gives known hosts their start, learns while it runs, writes it down from time to
//! time and at the end. Files and training are other threads' work; the engine's task waits for neither.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::error::Elapsed;

use super::file::{Learned, Memory, MemoryError, Remembered};
use super::forest;
use crate::control::prior::advisor::MODELS_MAX;
use crate::control::prior::experience::SAMPLES_MIN;
use crate::control::prior::{Advisor, Model, Moment, PriorKind};
use crate::control::{Controller, HostId, Mono};
use crate::fault;
use crate::text::Clean;

/// How often what was learned is written down.
const WRITE_EVERY: Duration = Duration::from_secs(600);

/// What is told where something of ours kept the memory from being read or written.
const FORGETS: &str = "the memory file is left as it is";

/// What became of writing the memory down.
type Written = Result<Result<(), MemoryError>, JoinError>;

/// What is wrong with it, if anything.
fn wrong(written: Written) -> Option<Clean> {
    match written {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Clean::new(error.to_string())),
        Err(error) => Some(Clean::new(format!("{FORGETS}: {error}"))),
    }
}

/// A trained model on its way back.
type Trained = (HostId, Option<Box<dyn Model>>);

/// The memory of one crawl.
pub struct Keeper {
    advisor: Advisor,
    /// Hosts of earlier runs that this one has not met.
    known: Remembered,
    models: HashMap<String, Box<dyn Model>>,
    /// `None`: what is learned is not written down.
    memory: Option<Memory>,
    written: Mono,
    writing: Option<JoinHandle<Result<(), MemoryError>>>,
    training: Option<JoinHandle<Trained>>,
    seed: u64,
    trouble: Option<Clean>,
}

impl Keeper {
    /// Reads `memory`, and trains what models are wanted. A file that cannot be used is no reason not to crawl: it is left
    /// as it is, and what is wrong with it is told. Blocks.
    pub fn open(kind: PriorKind, memory: Option<Memory>, seed: u64, now: Mono) -> Self {
        let mut keeper = Self::empty(kind, seed, now);
        fault::pass("memory-open");
        match memory.map(|memory| (memory.read(), memory)) {
            None => {
                let told = "there is no data directory (neither XDG_DATA_HOME nor HOME is set): nothing is remembered; \
                            `memory` in [controller] names a file";
                keeper.trouble = Some(Clean::new(told));
            }
            Some((Ok(known), memory)) => (keeper.known, keeper.memory) = (known, Some(memory)),
            Some((Err(error), _)) => keeper.trouble = Some(Clean::new(error.to_string())),
        }
        if kind == PriorKind::RandomForest {
            let mut sampled: Vec<_> =
                keeper.known.iter().filter(|(_, experience)| experience.samples.len() >= SAMPLES_MIN).collect();
            sampled.sort_by_key(|(_, experience)| std::cmp::Reverse(experience.at));
            let train = |experience| forest::train(experience, seed);
            let models = sampled.into_iter().take(MODELS_MAX);
            keeper.models =
                models.filter_map(|(host, experience)| Some((host.clone(), train(&experience.samples)?))).collect();
        }
        keeper
    }

    /// Learns for this run alone: the memory could not be read, for a reason of our own.
    pub fn without(kind: PriorKind, seed: u64, now: Mono, why: &Clean) -> Self {
        let trouble = Some(Clean::new(format!("{FORGETS}: {why}")));
        Self { trouble, ..Self::empty(kind, seed, now) }
    }

    fn empty(kind: PriorKind, seed: u64, now: Mono) -> Self {
        Self {
            advisor: Advisor::new(kind),
            known: Remembered::new(),
            models: HashMap::new(),
            memory: None,
            written: now,
            writing: None,
            training: None,
            seed,
            trouble: None,
        }
    }

    /// What is wrong with the memory, once.
    pub fn take_trouble(&mut self) -> Option<Clean> {
        self.trouble.take()
    }

    /// How many hosts it has learned of, or met again.
    pub fn hosts(&self) -> usize {
        self.advisor.len()
    }

    /// A host has become known to the crawl.
    pub fn meet(&mut self, controller: &mut Controller, at: (Mono, Moment), host: HostId, name: &str) {
        if let Some(experience) = self.known.remove(name) {
            self.advisor.recall(controller, at, host, experience, self.models.remove(name));
        }
    }

    /// Learns, proposes, and sees to what other threads do for it. `name` tells the hosts' keys.
    pub fn turn(&mut self, controller: &mut Controller, (now, moment): (Mono, Moment), name: impl Fn(HostId) -> Clean) {
        self.advisor.turn(controller, now, moment);
        if self.training.as_ref().is_some_and(JoinHandle::is_finished) {
            match self.training.take().and_then(FutureExt::now_or_never) {
                Some(Ok((host, model))) => self.advisor.trained(host, model),
                // Its host keeps the model that it has, and is not trained again.
                Some(Err(error)) => self.trouble = Some(Clean::new(format!("a model cannot be trained: {error}"))),
                None => {}
            }
        }
        if self.training.is_none()
            && let Some(training) = self.advisor.take_training()
        {
            let seed = self.seed;
            self.training = Some(spawn_blocking(move || {
                fault::pass("training");
                (training.host, forest::train(&training.samples, seed))
            }));
        }
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.hear_of_writing();
        }
        if self.writing.is_none() && now.since(self.written) >= WRITE_EVERY {
            self.written = now;
            self.write(false, name);
        }
    }

    fn hear_of_writing(&mut self) {
        let written = self.writing.take().and_then(FutureExt::now_or_never);
        self.trouble = written.and_then(wrong).or(self.trouble.take());
    }

    fn write(&mut self, end: bool, name: impl Fn(HostId) -> Clean) {
        let Some(memory) = self.memory.clone() else { return };
        let changed = self.advisor.take_changed(end);
        let learned: Vec<Learned> = changed
            .into_iter()
            .map(|(host, experience, visited)| (name(host).as_str().to_owned(), experience, visited))
            .collect();
        if !learned.is_empty() {
            self.writing = Some(spawn_blocking(move || {
                fault::pass("memory-write");
                memory.merge(&learned)
            }));
        }
    }

    /// The run is over: what was learned is written down. Gives up after `within`.
    pub async fn close(
        mut self,
        controller: &mut Controller,
        (now, moment): (Mono, Moment),
        within: Duration,
        name: impl Fn(HostId) -> Clean,
    ) -> Option<Clean> {
        self.advisor.look_last(controller, now, moment);
        let late = || Some(Clean::new("the memory file is not written: it is locked, or its disk does not answer"));
        let told = |done: Result<Written, Elapsed>| done.map_or_else(|_| late(), wrong);
        if let Some(writing) = self.writing.take()
            && let Some(trouble) = told(tokio::time::timeout(within, writing).await)
        {
            return Some(trouble);
        }
        self.write(true, name);
        told(tokio::time::timeout(within, self.writing.take()?).await)
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Keeper({:?}, {:?})", self.advisor, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::backoff::NoJitter;
    use crate::control::host::LaneQueue;
    use crate::control::prior::experience::Visited;
    use crate::control::prior::{Experience, Measured, Sample};
    use crate::control::{Answer, ControllerKind, Lane, Original, Policy, PolicyId, RequestKind, Settings, Verdict};

    const MONDAY: u64 = 4 * 86_400;

    /// One host that bears 1/s, and whoever remembers it, in virtual time.
    struct Course {
        controller: Controller,
        keeper: Keeper,
        host: HostId,
        now: Mono,
        /// Tokens in the server's bucket, and as of when.
        level: (f64, Mono),
    }

    impl Course {
        fn new(keeper: Keeper) -> Self {
            let original = Original { rate: 4.0, capacity: 4.0 };
            let policy = Policy { kind: ControllerKind::Adaptive, original, ..Policy::default() };
            let mut controller =
                Controller::new(Settings { policies: vec![policy], ..Settings::default() }, Box::new(NoJitter));
            let host = controller.add_host(PolicyId(0));
            let now = Mono::from_secs_f64(1.0);
            Self { controller, keeper, host, now, level: (4.0, now) }
        }

        fn answer(&mut self, sent: Mono, lane: Lane) {
            let (level, at) = self.level;
            let level = (level + sent.secs_since(at)).min(4.0);
            let status = if level < 1.0 { 429 } else { 200 };
            self.level = (if level < 1.0 { level } else { level - 1.0 }, sent);
            let latency = Duration::from_millis(50);
            let (host, kind, verdict) = (self.host, RequestKind::Page, Verdict::Status(status));
            self.controller.answer(
                sent.after(latency),
                &Answer { host, lane, kind, sent, verdict, retry_after: None, latency, unprocessed: false },
            );
        }

        /// Half a minute of the crawl, and a turn of whoever remembers.
        fn go_on(&mut self) {
            let end = self.now.after_secs(30.0);
            while self.now < end {
                let queue = LaneQueue { ready: 1_000, ..LaneQueue::EMPTY };
                self.controller.set_queue(self.now, self.host, Lane(0), queue);
                match self.controller.next(self.now) {
                    Some(grant) => self.answer(self.now, grant.lane),
                    None => self.now = self.controller.next_wake().max(self.now.after_secs(0.05)).min(end),
                }
            }
            self.controller.take_decisions();
            let at = (self.now, Moment(MONDAY).plus(self.now.as_secs_f64() as i64));
            self.keeper.turn(&mut self.controller, at, |_| Clean::new("a.test"));
        }

        /// Until a forest is being trained; in which minute that began.
        fn until_training(&mut self) -> f64 {
            while self.keeper.training.is_none() {
                self.go_on();
                assert!(self.now < Mono::from_secs_f64(2_000.0 * 60.0), "nothing is trained: {:?}", self.keeper);
            }
            self.now.as_secs_f64() / 60.0
        }

        /// Until the thread that trains has ended.
        async fn trained(&mut self) {
            while self.keeper.training.as_ref().is_some_and(|training| !training.is_finished()) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_forest_is_trained_beside_the_crawl_and_again_with_what_came_since() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = Memory::at(folder.path().join("memory"));
        let keeper = Keeper::open(PriorKind::RandomForest, Some(memory), 7, Mono::ZERO);
        let mut course = Course::new(keeper);
        // A sample each ten minutes, and a hundred are needed. The turn that has them begins, and does not wait.
        let first = course.until_training();
        assert!((995.0..1_100.0).contains(&first), "after {first} min");
        assert_eq!(course.keeper.advisor.models(), 0);
        course.trained().await;
        course.go_on();
        assert_eq!(course.keeper.advisor.models(), 1);
        // Six more, and it is trained anew. Meanwhile the old one is asked.
        let second = course.until_training();
        assert!((first + 55.0..first + 70.0).contains(&second), "after {first} and {second} min");
        assert_eq!(course.keeper.advisor.models(), 1);
        course.trained().await;
        course.go_on();
        assert!(course.keeper.training.is_none() && course.keeper.advisor.models() == 1, "{:?}", course.keeper);
    }

    /// A host that bore 2/s by day and 6/s by night, and has told so for a week.
    fn experience() -> Experience {
        let limit = |moment: Moment| if (8.0..20.0).contains(&(moment.week_hours() % 24.0)) { 2.0 } else { 6.0 };
        let now = Moment(MONDAY + 7 * 86_400);
        let measured = Measured { limit: limit(now), samples: 300.0, ..Measured::default() };
        let mut experience = Experience { measured, at: now, ..Experience::default() };
        for k in 0..1_000 {
            let moment = now.plus(-600 * (1_000 - k));
            experience.sample(Sample::new(moment, limit(moment), 0.1, limit(moment.plus(600))));
            experience.skill.compare(limit(moment), 1.01 * limit(moment));
            experience.skill.compare(3.0 * limit(moment), 3.0 * limit(moment));
        }
        experience
    }

    #[tokio::test]
    async fn what_was_remembered_is_trained_on_and_is_the_start_of_the_hosts_it_belongs_to() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memory = Memory::at(folder.path().join("memory"));
        memory.merge(&[("a.test".to_owned(), experience(), Visited::default())]).expect("written");
        let before = std::fs::read(memory.path()).expect("written");
        let policy = Policy { kind: ControllerKind::Adaptive, ..Policy::default() };
        let policy = Policy { original: crate::control::Original { rate: 20.0, capacity: 20.0 }, ..policy };
        let mut controller =
            Controller::new(Settings { policies: vec![policy], ..Settings::default() }, Box::new(NoJitter));
        let mut keeper = Keeper::open(PriorKind::RandomForest, Some(memory.clone()), 7, Mono::ZERO);
        assert!(keeper.take_trouble().is_none());
        // Noon, a day later: it was last measured at midnight.
        let at = (Mono::ZERO, Moment(MONDAY + 8 * 86_400 + 12 * 3_600));
        let (known, other) = (controller.add_host(PolicyId(0)), controller.add_host(PolicyId(0)));
        keeper.meet(&mut controller, at, known, "a.test");
        keeper.meet(&mut controller, at, other, "b.test");
        assert_eq!(keeper.hosts(), 1);
        let rate = |host| controller.learned(Mono::from_secs_f64(60.0), host).expect("a host").rate;
        assert!((1.5..6.5).contains(&rate(known)), "{}", rate(known));
        assert_eq!(rate(other), 20.0);
        let told = controller.take_decisions();
        assert!(told.iter().any(|one| one.why.contains("at this hour of the week")), "{told:?}");
        let name = |_| Clean::new("a.test");
        assert_eq!(keeper.close(&mut controller, at, Duration::from_secs(60), name).await, None);
        assert_eq!(std::fs::read(memory.path()).expect("there"), before, "nothing was learned");
    }
}
