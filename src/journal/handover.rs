//! What passes between a handle and the thread that writes for it: journal, archive and store have one each.
//!
//! The handle puts things into the queue and never waits; the thread takes them, and where the disk fails it rests and
//! tries again, until it works or nobody waits any longer. What bounds the queue is whoever fills it. A panic of the
//! thread is caught here: what it held is lost with it, and whoever watches hears why.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::text::{Clean, of_panic};

/// A queue that is handed over, and the end of the thread that takes from it.
#[derive(Debug, Default)]
pub struct Handover<Q> {
    desk: Mutex<Desk<Q>>,
    /// Wakes the thread.
    filled: Condvar,
    /// Wakes whoever waits for the thread.
    settled: Condvar,
}

/// What both sides see.
#[derive(Debug, Default)]
pub struct Desk<Q> {
    /// What is handed over.
    pub queue: Q,
    /// The thread is to end when all is written.
    pub closing: bool,
    /// Nobody waits any longer: give up instead of trying again.
    pub abandoned: bool,
    /// The thread is over.
    pub ended: bool,
}

impl<Q> Handover<Q> {
    /// Both sides.
    pub fn lock(&self) -> MutexGuard<'_, Desk<Q>> {
        // They are whole whenever the lock is free; a panic elsewhere does not change that.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread: there is something for it.
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Wakes whoever waits for the thread.
    pub fn tell(&self) {
        self.settled.notify_all();
    }

    /// The thread waits as long as it is `idle`, and for `most` at most.
    pub fn wait<'a>(
        &self,
        desk: MutexGuard<'a, Desk<Q>>,
        most: Option<Duration>,
        idle: impl FnMut(&mut Desk<Q>) -> bool,
    ) -> MutexGuard<'a, Desk<Q>> {
        match most {
            Some(most) => {
                let waited = self.filled.wait_timeout_while(desk, most, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.filled.wait_while(desk, idle).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Somebody waits for the thread, as long as it is there and `waiting` says so.
    pub fn wait_settled<'a>(
        &self,
        desk: MutexGuard<'a, Desk<Q>>,
        mut waiting: impl FnMut(&mut Q) -> bool,
    ) -> MutexGuard<'a, Desk<Q>> {
        let waiting = |desk: &mut Desk<Q>| !desk.ended && waiting(&mut desk.queue);
        self.settled.wait_while(desk, waiting).unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread to end, and waits until it has, for `deadline` at most; then it is to give up.
    pub fn finish(&self, deadline: Duration) {
        let mut desk = self.lock();
        desk.closing = true;
        self.wake();
        let waited = self.settled.wait_timeout_while(desk, deadline, |desk| !desk.ended);
        let (mut desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        desk.abandoned = true;
        drop(desk);
        self.wake();
    }

    /// The thread rests before the next try; false = give up. Closing tries once more at once, then each time.
    pub fn rest(&self, time: Duration) -> bool {
        let desk = self.lock();
        let was_closing = desk.closing;
        !self.wait(desk, Some(time), |desk| desk.closing == was_closing && !desk.abandoned).abandoned
    }

    fn end(&self) {
        self.lock().ended = true;
        self.tell();
    }
}

/// The thread's side.
pub trait Writing: Send + 'static {
    /// What is handed over to it.
    type Queue: Send;
    /// Where that passes.
    fn handover(&self) -> &Handover<Self::Queue>;
    /// Writes until it is told to end, or to give up.
    fn run(&mut self);
    /// The thread is over, in these words. By a panic, too: then whoever watches is to know it, else if something was
    /// not written.
    fn over(&mut self, why: &Clean, panicked: bool);
}

/// Runs `writer` on a thread of this name; whoever waits for it hears of its end, whatever it is.
pub fn start(name: &str, writer: impl Writing) -> io::Result<()> {
    let of = format!("the {name}'s writer");
    std::thread::Builder::new().name(name.into()).spawn(move || {
        let mut writer = writer;
        // All that is used of it afterwards is what it shares, which is whole whenever its lock is free.
        let ran = catch_unwind(AssertUnwindSafe(|| writer.run()));
        let why = ran.as_ref().map_or_else(
            |panic| format!("{of} panicked: {}", of_panic(panic.as_ref())),
            |()| format!("{of} has ended"),
        );
        writer.over(&Clean::new(why), ran.is_err());
        writer.handover().end();
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Numbers {
        shared: Arc<Handover<Vec<u32>>>,
        refused: u32,
        over: std::sync::mpsc::Sender<(u32, String, bool)>,
    }

    impl Writing for Numbers {
        type Queue = Vec<u32>;

        fn handover(&self) -> &Handover<Vec<u32>> {
            &self.shared
        }

        fn run(&mut self) {
            loop {
                let idle = |desk: &mut Desk<Vec<u32>>| desk.queue.is_empty() && !desk.closing;
                let mut desk = self.shared.wait(self.shared.lock(), None, idle);
                let Some(number) = desk.queue.pop() else { return };
                drop(desk);
                assert!(number < 100, "a writer that panics");
                while self.refused > 0 {
                    self.refused -= 1;
                    if !self.shared.rest(Duration::from_millis(1)) {
                        return;
                    }
                }
            }
        }

        fn over(&mut self, why: &Clean, panicked: bool) {
            let left = self.shared.lock().queue.len() as u32;
            self.over.send((left, why.to_string(), panicked)).expect("somebody listens");
        }
    }

    /// Hands numbers over and ends; what was left, and what was told of the end.
    fn hand_over(numbers: &[u32], refused: u32) -> (u32, String, bool) {
        let shared = Arc::new(Handover::<Vec<u32>>::default());
        let (over, left) = std::sync::mpsc::channel();
        shared.lock().queue.extend(numbers);
        start("numbers", Numbers { shared: Arc::clone(&shared), refused, over }).expect("a thread");
        shared.wake();
        shared.finish(Duration::from_secs(if refused < 1_000 { 60 } else { 0 }));
        left.recv().expect("it ends")
    }

    #[test]
    fn all_is_taken_unless_nobody_waits_or_the_thread_panics() {
        let ended = |left| (left, String::from("the numbers's writer has ended"), false);
        assert_eq!(hand_over(&[1, 2, 3], 0), ended(0));
        assert_eq!(hand_over(&[1, 2, 3], 5), ended(0), "it tries again");
        assert_eq!(hand_over(&[1, 2, 3], u32::MAX), ended(2), "given up at the first");
        let panicked = String::from("the numbers's writer panicked: a writer that panics");
        assert_eq!(hand_over(&[1, 100, 3], 0), (1, panicked, true), "whoever waits hears of a panic");
    }
}
