//! Giving way: file work is done on the thread that also runs timers and other calls.

use std::time::{Duration, Instant};

/// How long a guest may do file work without giving way. Short beside any timeout, long beside an operation.
const SHIFT: Duration = Duration::from_millis(10);

/// When the guest last gave way.
#[derive(Debug)]
pub(super) struct Pace(Instant);

impl Pace {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Lets others run if it is time.
    pub(super) async fn give_way(&mut self) {
        if self.0.elapsed() >= SHIFT {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}
