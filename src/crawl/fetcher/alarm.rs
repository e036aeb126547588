//! Deadlines of responses' heads: alarms that are set again instead of made anew.
//!
//! A new timer takes the lock of the runtime's timers twice a request. One that is set to a later time takes none.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Alarms kept for later at most; others are dropped.
const KEPT_MAX: usize = 1024;

/// Alarms that nobody waits for. They belong to one runtime, as connections do.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// A lock, because requests run side by side; held for one move, never across an await.
    kept: Mutex<Vec<Pin<Box<Sleep>>>>,
}

impl Alarms {
    /// What `future` ends in, or nothing if it has not ended within `limit`.
    pub(super) async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let mut alarm = self.set(limit);
        let mut future = pin!(future);
        let ended = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => alarm.as_mut().poll(context).map(|()| None),
        })
        .await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(alarm);
        }
        ended
    }

    fn set(&self, limit: Duration) -> Pin<Box<Sleep>> {
        // Not polled unless no other is there: it tells the time of the deadline.
        let new = sleep(limit);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(mut alarm) => {
                alarm.as_mut().reset(new.deadline());
                alarm
            }
            None => Box::pin(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_was_used_before_rings_at_its_new_time() {
        let alarms = Alarms::default();
        let started = sleep(Duration::ZERO).deadline();
        assert_eq!(alarms.within(Duration::from_secs(30), async { 7 }).await, Some(7));
        // Longer than the first, shorter than it, and after it has rung unheard.
        for limit in [40, 5, 300] {
            let before = sleep(Duration::ZERO).deadline();
            let limit = Duration::from_secs(limit);
            assert_eq!(alarms.within(limit, std::future::pending::<()>()).await, None);
            let took = sleep(Duration::ZERO).deadline() - before;
            assert!(took >= limit && took < limit + Duration::from_millis(10), "{took:?} for {limit:?}");
            sleep(Duration::from_secs(100)).await;
        }
        assert!(sleep(Duration::ZERO).deadline() - started > Duration::from_secs(600));
        assert_eq!(alarms.kept.lock().expect("no panic").len(), 1);
    }
}
