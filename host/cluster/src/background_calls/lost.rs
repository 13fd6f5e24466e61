//! Background calls whose worker was lost: the audit log knows whether they have run.

use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::background_calls::BackgroundPhase;
use mimir_core::wire::OutcomeMessage;
use serde_json::json;

use super::{BackgroundEntry, ClusterBackgroundCalls, unavailable};
use crate::audit::RecordedCall;

/// Time after which a node without a lease is lost. After an election of NATS servers, all leases may have ended at once;
/// they are created again within a second.
const LOST_GRACE: Duration = Duration::from_secs(2);

impl ClusterBackgroundCalls {
    /// Ends a call if both its worker and the server that has sent it are lost. Nothing sends the call to another worker
    /// then. Returns true if it has ended, by whichever process.
    pub(super) async fn end_if_lost(
        &self,
        id: &str,
        entry: &BackgroundEntry,
    ) -> Result<bool, ToolError> {
        let (Some(front), Some(claim)) = (&entry.front, &entry.claim) else {
            return Ok(false);
        };
        let is_lost = || {
            entry.phase == BackgroundPhase::Running
                && self.node.is_current()
                && !self.is_live(front)
                && !self.is_live(&claim.node)
        };
        if !is_lost() {
            return Ok(false);
        }
        tokio::time::sleep(LOST_GRACE).await;
        if !is_lost() {
            return Ok(false);
        }
        let log_error = |error: crate::audit::ClusterAuditError| {
            let message =
                format!("whether the call ran cannot be read from the audit log: {error}");
            ToolError::unavailable(message)
        };
        let node = &self.node;
        node.close_writer(&claim.node).await.map_err(log_error)?;
        let find = node.find_call(&claim.node, &claim.request_id, claim.recorded);
        let outcome = lost_outcome(&find.await.map_err(log_error)?);
        let own = node.id();
        let finish = self.store.finish(id, claim, &own, &outcome);
        finish.await.map_err(|error| unavailable(&error))?;
        Ok(true)
    }

    fn is_live(&self, node: &str) -> bool {
        node == self.node.id() || self.node.nodes().get(node).is_some()
    }
}

/// Returns the outcome of a call whose worker was lost, as found in the worker's closed log.
fn lost_outcome(found: &RecordedCall) -> OutcomeMessage {
    let outcome = found.outcome.as_ref();
    let is_recorded = outcome.is_some_and(|outcome| !outcome.may_have_run);
    let message = if is_recorded {
        "the call has run, but its result was lost with the worker; `mimir audit` shows the outcome"
    } else if found.announced {
        "the worker was lost while it ran the call, so the call may have taken effect; check before you repeat it"
    } else {
        "the worker was lost before it announced the call: unless the tool is read-only or idempotent, it has probably not run; check before you repeat it"
    };
    let mut details = json!({"mayHaveRun": true});
    if is_recorded && let Some(details) = details.as_object_mut() {
        details.insert("recorded".to_owned(), json!(true));
    }
    OutcomeMessage::failed(ToolError::unavailable(message).with_details(details))
}

#[cfg(test)]
mod tests {
    use mimir_core::{Outcome, ToolErrorCode};

    use super::*;
    use crate::audit::RecordedOutcome;

    #[test]
    fn lost_calls_may_have_run_and_may_be_on_record() {
        let recorded = |may_have_run: bool| {
            Some(RecordedOutcome {
                ok: !may_have_run,
                code: None,
                may_have_run,
            })
        };
        for (announced, outcome, is_recorded, text) in [
            (false, None, false, "check before"),
            (true, None, false, "check before"),
            (true, recorded(true), false, "check before"),
            (true, recorded(false), true, "has run"),
            (false, recorded(false), true, "has run"),
        ] {
            let outcome: Outcome = lost_outcome(&RecordedCall { announced, outcome }).into();
            let error = outcome.result().unwrap_err();
            assert_eq!(error.code, ToolErrorCode::Unavailable);
            let details = error.details.as_ref().unwrap();
            assert_eq!(details["mayHaveRun"], true);
            assert_eq!(details["recorded"] == true, is_recorded, "{details}");
            assert!(error.message.contains(text), "{}", error.message);
        }
    }
}
