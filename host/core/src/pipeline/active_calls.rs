//! Counts the calls in flight. If there are several, their records can be written together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts a call as in flight until the guard is dropped.
pub(super) struct InFlightGuard<'a>(&'a AtomicUsize);

impl<'a> InFlightGuard<'a> {
    pub(super) fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    /// Returns true if no other call is in flight.
    pub(super) fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
