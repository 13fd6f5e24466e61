//! Counter of guards with a pending last search. A process waits for them before it exits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of guards with a pending last search.
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

/// Maximum time to wait for the last searches.
const MAX_EXIT_DELAY: Duration = Duration::from_secs(3);

/// Waits until the last searches of all commands have ended, at most three seconds. Call it before the process exits,
/// after its commands have been dropped: otherwise, forbidden files created at the end would stay.
pub fn wait_for_last_searches() {
    let begun = Instant::now();
    while ACTIVE_GUARDS.load(Ordering::SeqCst) > 0 && begun.elapsed() < MAX_EXIT_DELAY {
        std::thread::sleep(Duration::from_millis(5));
    }
}
