//! Rate limit for progress notifications to a client. The latest value is always sent in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::call::CallProgress;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Burst size: a tool with few steps can report each of them, however fast.
const BURST: u32 = 100;

/// Interval after which another message is allowed: 50 per second.
const REFILL_INTERVAL: Duration = Duration::from_millis(20);

/// The rate limiter of one call, a token bucket.
pub(super) struct ProgressLimiter {
    tokens: u32,
    /// Time up to which tokens were added.
    since: Instant,
    /// Highest value that was reported. The protocol requires increasing values.
    newest: Option<u64>,
    /// Number of messages about waiting. Each counts as one step, by which later values of the tool are raised.
    waits: u64,
    latest: Arc<LatestProgress>,
}

/// The latest value that was held back and not replaced by a newer one.
#[derive(Default)]
pub(crate) struct LatestProgress {
    slot: Mutex<Option<CallProgress>>,
    stored: Notify,
}

impl ProgressLimiter {
    /// Creates a full bucket. Values that are held back go to `latest`.
    pub(super) fn new(latest: Arc<LatestProgress>) -> Self {
        Self {
            tokens: BURST,
            since: Instant::now(),
            newest: None,
            waits: 0,
            latest,
        }
    }

    /// Sends a value with `send`, which returns false on failure, or holds the value back as the latest one.
    pub(super) fn report(
        &mut self,
        mut progress: CallProgress,
        send: impl FnOnce(CallProgress) -> bool,
    ) {
        progress.done = progress.done.saturating_add(self.waits);
        progress.total = progress.total.map(|total| total.saturating_add(self.waits));
        // Each program of a call counts its own output from one. Without a total, only the text matters.
        if progress.total.is_none() && progress.message.is_some() {
            let next = self.newest.map_or(0, |newest| newest.saturating_add(1));
            progress.done = progress.done.max(next);
        }
        if self.newest.is_some_and(|newest| progress.done <= newest) {
            return;
        }
        self.newest = Some(progress.done);
        let has_token = self.take_token(Instant::now());
        // Holding the lock ensures that no older value is sent after this one.
        let mut slot = self.latest.slot.lock();
        if has_token && send(progress.clone()) {
            *slot = None;
            return;
        }
        *slot = Some(progress);
        drop(slot);
        self.latest.stored.notify_one();
    }

    /// Sends that the call waits for a person's answer about `tool`.
    pub(super) fn report_waiting(&mut self, tool: &str, send: impl FnOnce(CallProgress) -> bool) {
        let progress = CallProgress::waiting(tool);
        self.report(progress, send);
        self.waits += 1;
    }

    fn take_token(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let refill =
            u32::try_from(passed.as_nanos() / REFILL_INTERVAL.as_nanos()).unwrap_or(u32::MAX);
        if refill > 0 {
            self.since += REFILL_INTERVAL.saturating_mul(refill);
            self.tokens = self.tokens.saturating_add(refill).min(BURST);
        }
        let remaining = self.tokens.checked_sub(1);
        self.tokens = remaining.unwrap_or(0);
        remaining.is_some()
    }
}

impl LatestProgress {
    /// Takes the value that was held back, if there is one.
    pub(crate) fn take(&self) -> Option<CallProgress> {
        self.slot.lock().take()
    }

    /// Waits for a value that was held back, and until the rate limit allows it.
    pub(crate) async fn next(&self) -> CallProgress {
        loop {
            self.stored.notified().await;
            tokio::time::sleep(REFILL_INTERVAL).await;
            if let Some(progress) = self.take() {
                return progress;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64) -> CallProgress {
        CallProgress {
            done,
            total: None,
            message: None,
        }
    }

    #[test]
    fn progress_is_limited_and_the_newest_is_held_back() {
        let latest = Arc::new(LatestProgress::default());
        let mut limiter = ProgressLimiter::new(Arc::clone(&latest));
        let mut sent = Vec::new();
        for done in 0..10_000 {
            limiter.report(progress(done), |one| {
                sent.push(one.done);
                true
            });
        }
        // The burst, plus the tokens added during this loop.
        assert!(
            (BURST as usize..10_000).contains(&sent.len()),
            "{}",
            sent.len()
        );
        let held = latest.take().map(|one| one.done);
        assert!(held == Some(9_999) || sent.last() == Some(&9_999));
        // A value that is not greater is neither sent nor held back, unless it is a line of output.
        let line = CallProgress {
            message: Some("line".to_owned()),
            ..progress(1)
        };
        limiter.report(line, |_| false);
        assert_eq!(latest.take().map(|one| one.done), Some(10_000));
        limiter.report(progress(5), |_| panic!("it is older"));
        assert!(latest.take().is_none());
    }

    #[test]
    fn progress_of_a_tool_goes_on_after_messages_about_waiting() {
        let mut limiter = ProgressLimiter::new(Arc::default());
        let mut sent = Vec::new();
        let step = |done| CallProgress {
            total: Some(4),
            ..progress(done)
        };
        let mut send = |one: CallProgress| {
            sent.push((one.done, one.total));
            true
        };
        limiter.report(step(1), &mut send);
        limiter.report(step(2), &mut send);
        limiter.report_waiting("exec", &mut send);
        limiter.report_waiting("exec", &mut send);
        limiter.report(step(2), &mut send);
        limiter.report(step(3), &mut send);
        limiter.report(step(4), &mut send);
        let expected = [
            (1, Some(4)),
            (2, Some(4)),
            (3, None),
            (4, None),
            (5, Some(6)),
            (6, Some(6)),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn progress_tokens_refill_up_to_the_burst() {
        let mut limiter = ProgressLimiter::new(Arc::default());
        let begun = limiter.since;
        for _ in 0..BURST {
            assert!(limiter.take_token(begun));
        }
        assert!(!limiter.take_token(begun));
        assert!(!limiter.take_token(begun + REFILL_INTERVAL / 2));
        assert!(limiter.take_token(begun + REFILL_INTERVAL));
        assert!(!limiter.take_token(begun + REFILL_INTERVAL));
        let later = begun + REFILL_INTERVAL * 10_000;
        let taken = (0..1_000).filter(|_| limiter.take_token(later)).count();
        assert_eq!(taken, BURST as usize);
    }

    #[test]
    fn progress_is_held_back_if_the_queue_is_full() {
        let latest = Arc::new(LatestProgress::default());
        let mut limiter = ProgressLimiter::new(Arc::clone(&latest));
        limiter.report(progress(1), |_| false);
        assert_eq!(latest.take().map(|one| one.done), Some(1));
    }
}
