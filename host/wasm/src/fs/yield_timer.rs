//! Yielding during file work, which runs on a thread that also runs timers and other calls.

use std::time::{Duration, Instant};

/// Time that a guest may do file work without yielding: short compared with any timeout, long compared with an
/// operation.
const MAX_TIME_WITHOUT_YIELD: Duration = Duration::from_millis(10);

/// The time when the guest last yielded.
#[derive(Debug)]
pub(super) struct YieldTimer(Instant);

impl YieldTimer {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Yields to other tasks if the guest has not yielded for [`MAX_TIME_WITHOUT_YIELD`].
    pub(super) async fn yield_if_due(&mut self) {
        if self.take_due() {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }

    /// Returns true if it is time to yield, and expects the caller to do so.
    pub(super) fn take_due(&mut self) -> bool {
        let is_due = self.0.elapsed() >= MAX_TIME_WITHOUT_YIELD;
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}
