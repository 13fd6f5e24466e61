//! How much is taken of what nobody asked for.
//!
//! Never here: what it is.

use std::time::Duration;

use tokio::time::Instant;

/// Notifications of a second that are heard; the rest is dropped.
const NOTIFICATIONS_MOST: u32 = 1_000;

/// Log lines of a minute that are kept: who wants more reads the server's own log.
const LOG_MOST: u32 = 1_000;

/// Requests of a second that a server may have of its client. An honest one asks for something now and then.
const REQUESTS_MOST: u32 = 1_000;

/// So many of something in so much time.
pub(super) struct Pace {
    most: u32,
    time: Duration,
    since: Instant,
    taken: u32,
}

pub(super) fn of_notifications() -> Pace {
    Pace::new(NOTIFICATIONS_MOST, Duration::from_secs(1))
}

pub(super) fn of_log() -> Pace {
    Pace::new(LOG_MOST, Duration::from_secs(60))
}

pub(super) fn of_requests() -> Pace {
    Pace::new(REQUESTS_MOST, Duration::from_secs(1))
}

impl Pace {
    fn new(most: u32, time: Duration) -> Self {
        Self {
            most,
            time,
            since: Instant::now(),
            taken: 0,
        }
    }

    /// Whether one more is taken now.
    pub(super) fn takes(&mut self) -> bool {
        if self.since.elapsed() > self.time {
            (self.since, self.taken) = (Instant::now(), 0);
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn as_many_are_taken_as_fit_and_then_again() {
        let mut pace = Pace::new(1_000, Duration::from_millis(200));
        let taken = (0..1_500).filter(|_| pace.takes()).count();
        assert_eq!(taken, 1_000);
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert!(pace.takes());
    }
}
