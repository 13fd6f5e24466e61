//! The guards whose last search has not ended. A process waits for them before it exits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of guards whose last search has not ended.
static ACTIVE_GUARDS: AtomicUsize = AtomicUsize::new(0);

/// Counts a guard until it is dropped.
pub(super) struct ActiveGuard;

impl ActiveGuard {
    pub(super) fn new() -> Self {
        ACTIVE_GUARDS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        ACTIVE_GUARDS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Maximum wait of a process for the last searches before it exits.
const MAX_EXIT_DELAY: Duration = Duration::from_secs(3);

/// Waits until the workspaces of all commands have been searched for the last time, at most three seconds. A process
/// calls it before it exits, when its commands are dropped: what they created last would stay otherwise.
pub fn wait_for_last_searches() {
    let begun = Instant::now();
    while ACTIVE_GUARDS.load(Ordering::SeqCst) > 0 && begun.elapsed() < MAX_EXIT_DELAY {
        std::thread::sleep(Duration::from_millis(5));
    }
}
