//! Timers of one script. A script may set timers without any grant, so a timer takes little memory, and the number of
//! timers is limited.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};
use tokio::time::Instant;

/// Maximum number of timers of one script: more than programs need. Each timer wakes the engine.
const MAX_TIMERS: usize = 10_000;

/// Maximum delay, longer than any call may last. A longer delay is shortened to this.
const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Timers in the order in which they are due; timers due at the same moment in the order in which they were set.
#[derive(Default)]
pub(super) struct TimerQueue {
    due: BTreeSet<(Instant, u32)>,
    times: HashMap<u32, Instant>,
}

impl TimerQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn add(&mut self, id: u32, time: Duration) -> Result<(), ToolError> {
        self.remove(id);
        if self.due.len() == MAX_TIMERS {
            let message = format!("the script has more than {MAX_TIMERS} timers");
            return Err(ToolError::new(ToolErrorCode::LimitExceeded, message));
        }
        let when = Instant::now() + time.min(MAX_DELAY);
        self.due.insert((when, id));
        self.times.insert(id, when);
        Ok(())
    }

    /// Removes a timer, if it exists.
    pub(super) fn remove(&mut self, id: u32) {
        if let Some(when) = self.times.remove(&id) {
            self.due.remove(&(when, id));
        }
    }

    /// Waits for the next timer. Dropping the future loses no timer.
    pub(super) async fn next(&mut self) -> Option<u32> {
        let (when, id) = self.due.first().copied()?;
        tokio::time::sleep_until(when).await;
        self.remove(id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timers_are_due_in_order() {
        let mut timers = TimerQueue::default();
        for (id, millis) in [(1, 20), (2, 0), (3, 20), (4, 5), (5, 1)] {
            timers.add(id, Duration::from_millis(millis)).unwrap();
        }
        timers.remove(5);
        timers.remove(6);
        let mut order = Vec::new();
        while let Some(id) = timers.next().await {
            order.push(id);
        }
        assert_eq!(order, [2, 4, 1, 3]);
        assert!(timers.is_empty() && timers.times.is_empty());
    }

    #[test]
    fn timers_are_limited() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _inside = runtime.enter();
        let mut timers = TimerQueue::default();
        for id in 0..MAX_TIMERS as u32 {
            timers.add(id, Duration::MAX).unwrap();
        }
        let error = timers.add(u32::MAX, Duration::ZERO).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        timers.remove(7);
        timers.add(u32::MAX, Duration::ZERO).unwrap();
    }
}
