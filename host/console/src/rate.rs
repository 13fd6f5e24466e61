//! Limit on requests per second, with a burst.

use tokio::time::Instant;

/// Counts requests of one client.
#[derive(Debug)]
pub(crate) struct RequestBudget {
    per_second: f64,
    burst: f64,
    left: f64,
    since: Instant,
}

impl RequestBudget {
    /// Creates a budget that is full.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: per_second.into(),
            burst: burst.into(),
            left: burst.into(),
            since: Instant::now(),
        }
    }

    /// Takes one request from the budget. Returns false if it is empty.
    pub(crate) fn take(&mut self) -> bool {
        let now = Instant::now();
        self.left = self.left_at(now);
        self.since = now;
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }

    /// Returns true if nothing of the budget is used at this time.
    pub(crate) fn is_full(&self) -> bool {
        self.left_at(Instant::now()) >= self.burst
    }

    fn left_at(&self, now: Instant) -> f64 {
        let elapsed = now.duration_since(self.since).as_secs_f64();
        (self.left + elapsed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn request_budget_refills_with_time() {
        let mut budget = RequestBudget::new(2, 3);
        assert_eq!([(); 4].map(|()| budget.take()), [true, true, true, false]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!([(); 3].map(|()| budget.take()), [true, true, false]);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!([(); 4].map(|()| budget.take()), [true, true, true, false]);
    }
}
