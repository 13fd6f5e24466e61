//! The timers of one script. A script may set as many as it likes without being granted anything, so each costs the host
//! a few words, and there is a most.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mimir_core::{Code, ToolError};
use tokio::time::Instant;

/// Timers that one script may have at a time: no program needs them, and each wakes the engine.
const MOST: usize = 10_000;

/// Who waits longer than any call may last waits for ever.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Timers in the order in which they are due; those of one moment in the order in which they were set.
#[derive(Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, u32)>,
    when: HashMap<u32, Instant>,
}

impl Timers {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn add(&mut self, id: u32, time: Duration) -> Result<(), ToolError> {
        self.remove(id);
        if self.due.len() == MOST {
            let message = format!("the script waits for more than {MOST} timers at once");
            return Err(ToolError::new(Code::LimitExceeded, message));
        }
        let when = Instant::now() + time.min(LONGEST);
        self.due.insert((when, id));
        self.when.insert(id, when);
        Ok(())
    }

    /// Forgets a timer, if it is one.
    pub(super) fn remove(&mut self, id: u32) {
        if let Some(when) = self.when.remove(&id) {
            self.due.remove(&(when, id));
        }
    }

    /// Waits for the next one that is due. Nothing is lost where this is dropped before.
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
    async fn they_are_due_in_their_order() {
        let mut timers = Timers::default();
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
        assert!(timers.is_empty() && timers.when.is_empty());
    }

    #[test]
    fn there_is_a_most() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _inside = runtime.enter();
        let mut timers = Timers::default();
        for id in 0..MOST as u32 {
            timers.add(id, Duration::MAX).unwrap();
        }
        let error = timers.add(u32::MAX, Duration::ZERO).unwrap_err();
        assert_eq!(error.code, Code::LimitExceeded);
        timers.remove(7);
        timers.add(u32::MAX, Duration::ZERO).unwrap();
    }
}
