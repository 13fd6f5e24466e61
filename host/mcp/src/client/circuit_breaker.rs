//! Circuit breaker for the calls of a server: after several failures in a row, calls fail at once until a test call
//! succeeds.

use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};
use tokio::time::Instant;

use super::oauth;

/// Number of failed calls in a row after which the breaker opens.
pub(super) const MAX_FAILED_CALLS: u32 = 5;

/// First pause of an open breaker; each following one is twice as long.
const MIN_PAUSE: Duration = Duration::from_secs(5);

/// Maximum pause of an open breaker.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// State of a circuit breaker. It is closed while `failures` is less than [`MAX_FAILED_CALLS`].
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    /// Failed calls since the last successful one.
    failures: u32,
    /// Time of the next test call, while the breaker is open.
    retry_at: Option<Instant>,
    /// True while a test call is in progress.
    is_testing: bool,
    /// Message of the last failure.
    last_failure: String,
}

/// How the breaker has admitted a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallAdmission {
    /// The breaker was closed.
    Regular,
    /// The breaker is open, and the result of this call decides whether it closes.
    Test,
}

/// The reason why the breaker rejects a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenCircuit {
    /// Failed calls in a row.
    pub(super) failures: u32,
    /// Time until the next test call; zero while a test call is in progress.
    pub(super) pause: Duration,
    /// Message of the last failure.
    pub(super) last_failure: String,
}

impl CircuitBreaker {
    /// Admits a call, or returns the reason why it fails at once. After the pause, admits one test call at a time.
    pub(super) fn admit(&mut self, now: Instant) -> Result<CallAdmission, OpenCircuit> {
        let Some(retry_at) = self.retry_at else {
            return Ok(CallAdmission::Regular);
        };
        if !self.is_testing && now >= retry_at {
            self.is_testing = true;
            return Ok(CallAdmission::Test);
        }
        Err(OpenCircuit {
            failures: self.failures,
            pause: retry_at.saturating_duration_since(now),
            last_failure: self.last_failure.clone(),
        })
    }

    /// Returns true if the result of a call counts: while the breaker is open, only that of the test call does. Calls
    /// that were admitted before it opened may end much later.
    fn counts(&self, admission: CallAdmission) -> bool {
        self.retry_at.is_none() || admission == CallAdmission::Test
    }

    /// Records that the server answered. Closes the breaker.
    pub(super) fn record_answer(&mut self, admission: CallAdmission) {
        if self.counts(admission) {
            *self = Self::default();
        }
    }

    /// Records a failed call. Opens the breaker after [`MAX_FAILED_CALLS`] of them, and again after a failed test call.
    pub(super) fn record_failure(&mut self, admission: CallAdmission, message: &str, now: Instant) {
        if !self.counts(admission) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.is_testing = false;
        message.clone_into(&mut self.last_failure);
        if let Some(excess) = self.failures.checked_sub(MAX_FAILED_CALLS) {
            let pause = MIN_PAUSE.saturating_mul(1 << excess.min(16));
            self.retry_at = Some(now + pause.min(MAX_PAUSE));
        }
    }

    /// Records that a call ended without telling anything about the server. The next call may be a test call.
    pub(super) fn record_cancelled(&mut self, admission: CallAdmission) {
        if admission == CallAdmission::Test {
            self.is_testing = false;
        }
    }

    /// Failed calls in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Time of the next test call, while the breaker is open.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }
}

impl OpenCircuit {
    /// Returns the error of a rejected call.
    pub(super) fn error(&self, server: &str) -> ToolError {
        let message = format!(
            "the last {} calls of the server `{server}` failed, so no more are sent to it for {}: {}",
            self.failures,
            if self.pause.is_zero() {
                "the time of a test call".to_owned()
            } else {
                format!("{:.1} s", self.pause.as_secs_f32())
            },
            self.last_failure
        );
        ToolError::unavailable(message).with_remedies([
            format!("`mimir mcp logs {server}` shows the server's last output"),
            format!("`mimir mcp restart {server}` restarts it, and sends calls to it again"),
        ])
    }
}

/// Returns true if an error means that the server did not answer. An error that the server itself returned, a missing
/// login and a refusal of mimir do not count.
pub(super) fn is_server_failure(error: &ToolError) -> bool {
    let was_answered = error
        .details
        .as_ref()
        .is_some_and(|details| details.get("protocolCode").is_some());
    let is_failure = matches!(
        error.code,
        ToolErrorCode::Timeout | ToolErrorCode::Unavailable | ToolErrorCode::ExecutionError
    );
    is_failure && !was_answered && !oauth::is_login_required(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use CallAdmission::{Regular, Test};

    #[test]
    fn circuit_breaker_opens_after_failures_in_a_row_and_tests_once() {
        let mut breaker = CircuitBreaker::default();
        let start = Instant::now();
        for _ in 1..MAX_FAILED_CALLS {
            breaker.record_failure(Regular, "gone", start);
        }
        assert_eq!(breaker.admit(start), Ok(Regular));
        breaker.record_answer(Regular);
        for _ in 0..MAX_FAILED_CALLS {
            assert_eq!(breaker.admit(start), Ok(Regular));
            breaker.record_failure(Regular, "gone", start);
        }
        let open = breaker.admit(start).unwrap_err();
        assert_eq!((open.failures, open.pause), (MAX_FAILED_CALLS, MIN_PAUSE));
        assert!(open.error("s").message.contains("gone"));
        // After the pause, one call is a test; a cancelled test allows another.
        let later = start + MIN_PAUSE;
        assert_eq!(breaker.admit(later), Ok(Test));
        assert!(breaker.admit(later).is_err());
        breaker.record_cancelled(Test);
        assert_eq!(breaker.admit(later), Ok(Test));
        breaker.record_failure(Test, "still gone", later);
        assert_eq!(breaker.admit(later).unwrap_err().pause, MIN_PAUSE * 2);
        assert_eq!(breaker.admit(later + MIN_PAUSE * 2), Ok(Test));
        breaker.record_answer(Test);
        assert_eq!(breaker.admit(later), Ok(Regular));
    }

    #[test]
    fn circuit_breaker_ignores_earlier_calls_while_it_is_open() {
        let mut breaker = CircuitBreaker::default();
        let start = Instant::now();
        for _ in 0..20 {
            breaker.record_failure(Regular, "gone", start);
        }
        let open = breaker.admit(start).unwrap_err();
        assert_eq!((open.failures, open.pause), (MAX_FAILED_CALLS, MIN_PAUSE));
        let later = start + MIN_PAUSE;
        assert_eq!(breaker.admit(later), Ok(Test));
        // None of these ends the test call.
        breaker.record_failure(Regular, "late", later);
        breaker.record_cancelled(Regular);
        breaker.record_answer(Regular);
        assert!(breaker.admit(later).is_err());
        breaker.record_answer(Test);
        assert_eq!(breaker.admit(later), Ok(Regular));
    }

    #[test]
    fn circuit_breaker_pause_is_bounded() {
        let mut breaker = CircuitBreaker::default();
        let start = Instant::now();
        for _ in 0..100 {
            breaker.record_failure(Test, "gone", start);
        }
        assert_eq!(breaker.admit(start).unwrap_err().pause, MAX_PAUSE);
    }

    #[test]
    fn circuit_breaker_ignores_errors_that_the_server_returned() {
        let answered = ToolError::execution("x").with_details(json!({"protocolCode": -32603}));
        assert!(!is_server_failure(&answered));
        assert!(!is_server_failure(&ToolError::permission_denied("x")));
        assert!(is_server_failure(&ToolError::execution("ended")));
        assert!(is_server_failure(&ToolError::unavailable("x")));
    }
}
