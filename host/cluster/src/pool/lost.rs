//! Calls whose worker was lost: the audit log knows whether they have run.

use std::time::Duration;

use mimir_core::Call;
use tokio::time::{Instant, sleep};

use super::PoolParts;
use crate::audit::{ClusterAuditError, RecordedCall};
use crate::node::NodeEntry;

/// Maximum time for which the audit log may be unreachable, before a call ends without its answer.
const LOG_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two attempts to access the audit log.
const LOG_RETRY: Duration = Duration::from_millis(250);

/// The evidence in the audit log about a call that was sent to a worker.
pub(super) enum CallFate {
    /// The call has not run and never will.
    NotRun,
    /// The call has ended and is on record, but its tool changes nothing, so that it may run again.
    Repeatable,
    /// The call may have run.
    MayHaveRun {
        /// True if the worker itself has recorded an outcome.
        recorded: bool,
    },
    /// The audit log cannot be read.
    Unknown(String),
}

impl CallFate {
    fn new(call: &RecordedCall) -> Self {
        match &call.outcome {
            // Only calls that may change something are announced.
            None if !call.announced => CallFate::NotRun,
            Some(_) if !call.announced => CallFate::Repeatable,
            None => CallFate::MayHaveRun { recorded: false },
            Some(outcome) => CallFate::MayHaveRun {
                recorded: !outcome.may_have_run,
            },
        }
    }
}

impl PoolParts {
    /// Finds out what has become of a call. If the worker was lost, closes its log before, so that the answer is final.
    pub(super) async fn find_fate(
        &self,
        worker: &NodeEntry,
        call: &Call,
        is_lost: bool,
    ) -> CallFate {
        let deadline = Instant::now() + LOG_TIMEOUT;
        let request_id = call.context.request_id.as_str();
        loop {
            match self.read_fate(worker, request_id, is_lost).await {
                Ok(found) => return CallFate::new(&found),
                Err(error) if Instant::now() >= deadline || self.connection.is_lost() => {
                    return CallFate::Unknown(error.to_string());
                }
                Err(error) => {
                    tracing::warn!(%error, node = worker.id, "waiting for the audit log of a lost worker");
                    sleep(LOG_RETRY).await;
                }
            }
        }
    }

    async fn read_fate(
        &self,
        worker: &NodeEntry,
        request_id: &str,
        is_lost: bool,
    ) -> Result<RecordedCall, ClusterAuditError> {
        if is_lost {
            self.node.close_writer(&worker.id).await?;
        }
        let node = &self.node;
        node.find_call(&worker.id, request_id, worker.recorded)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::RecordedOutcome;

    #[test]
    fn announced_calls_never_run_again() {
        let outcome = |may_have_run: bool| {
            Some(RecordedOutcome {
                ok: !may_have_run,
                code: None,
                may_have_run,
            })
        };
        let fate = |announced, outcome| CallFate::new(&RecordedCall { announced, outcome });
        assert!(matches!(fate(false, None), CallFate::NotRun));
        assert!(matches!(fate(false, outcome(false)), CallFate::Repeatable));
        for (outcome, is_recorded) in [
            (None, false),
            (outcome(true), false),
            (outcome(false), true),
        ] {
            let fate = fate(true, outcome);
            assert!(matches!(fate, CallFate::MayHaveRun { recorded } if recorded == is_recorded));
        }
    }
}
