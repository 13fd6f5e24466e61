//! Rate limits for unsolicited messages.
//!
//! Out of scope: the content of the messages.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of notifications per second; further ones are dropped.
const MAX_NOTIFICATIONS: u32 = 1_000;

/// Maximum number of log lines per minute. Further lines are only in the server's own log.
const MAX_LOG_LINES: u32 = 1_000;

/// Maximum number of requests of a server per second. A well-behaved server makes few.
const MAX_REQUESTS: u32 = 1_000;

/// Allows a number of messages per interval.
pub(super) struct MessageRateLimiter {
    limit: u32,
    interval: Duration,
    interval_start: Instant,
    taken: u32,
}

/// Creates the limit on notifications of a server.
pub(super) fn notification_limit() -> MessageRateLimiter {
    MessageRateLimiter::new(MAX_NOTIFICATIONS, Duration::from_secs(1))
}

/// Creates the limit on log lines of a server.
pub(super) fn log_limit() -> MessageRateLimiter {
    MessageRateLimiter::new(MAX_LOG_LINES, Duration::from_secs(60))
}

/// Creates the limit on requests of a server.
pub(super) fn request_limit() -> MessageRateLimiter {
    MessageRateLimiter::new(MAX_REQUESTS, Duration::from_secs(1))
}

impl MessageRateLimiter {
    fn new(limit: u32, interval: Duration) -> Self {
        Self {
            limit,
            interval,
            interval_start: Instant::now(),
            taken: 0,
        }
    }

    /// Returns true if one more message is accepted now.
    pub(super) fn try_take(&mut self) -> bool {
        if self.interval_start.elapsed() > self.interval {
            (self.interval_start, self.taken) = (Instant::now(), 0);
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rate_limit_refills_after_the_interval() {
        let mut rate_limiter = MessageRateLimiter::new(1_000, Duration::from_millis(200));
        let taken = (0..1_500).filter(|_| rate_limiter.try_take()).count();
        assert_eq!(taken, 1_000);
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert!(rate_limiter.try_take());
    }
}
