//! The entries and results of background calls in the shared state.

use std::time::Duration;

use mimir_core::Outcome;
use mimir_core::ToolError;
use mimir_core::background_calls::BackgroundPhase;
use mimir_core::shared_state::{
    SharedStateError, SharedStateHandle, StateArea, StateKey, StateRevision,
};
use mimir_core::wire::OutcomeMessage;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::clock::now_ms;
use crate::frames::KeepOrder;
use crate::ids::hex;

/// Time for which the result of a background call is kept.
pub(super) const RESULT_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Time for which the parts of a result are kept: they are stored before the call is marked as ended.
const PART_LIFETIME: Duration = Duration::from_secs(20 * 60);

/// Time after which a call that no worker has ended is forgotten.
const CALL_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Size of the parts of a result.
const PART_SIZE: usize = 512 << 10;

/// Maximum size of a result in bytes, as JSON.
const RESULT_MAX: usize = 16 << 20;

/// The state of a background call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackgroundEntry {
    /// Digest of the owner's name.
    pub(crate) owner: String,
    pub(crate) tool: String,
    pub(crate) phase: BackgroundPhase,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// The worker that runs the call. `None` in entries of older versions only, whose calls waited in a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claim: Option<WorkerClaim>,
    /// The server that has sent the call to the worker. `None` like `claim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) front: Option<String>,
    /// True if the call is to be cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// Number of the parts of the result, and the node that has stored them.
    #[serde(default)]
    pub(crate) parts: usize,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) stored_by: String,
}

/// The claim of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerClaim {
    /// The node id of the worker.
    pub(crate) node: String,
    /// The id under which the worker records the call.
    pub(crate) request_id: String,
    /// Stream sequence of the last line of the node before the claim.
    pub(crate) recorded: u64,
}

impl BackgroundEntry {
    /// Creates the entry of a call that a worker runs for a server.
    pub(crate) fn running(order: &KeepOrder, claim: WorkerClaim, front: String) -> Self {
        Self {
            owner: order.owner.clone(),
            tool: order.tool.clone(),
            phase: BackgroundPhase::Running,
            created_ms: order.created_ms,
            updated_ms: now_ms(),
            claim: Some(claim),
            front: Some(front),
            cancelled: false,
            message: None,
            parts: 0,
            stored_by: String::new(),
        }
    }

    /// Returns true if the call has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == BackgroundPhase::Running
    }

    /// Returns true if the call runs under this claim.
    fn is_claimed_as(&self, claim: &WorkerClaim) -> bool {
        self.is_open() && self.claim.as_ref() == Some(claim)
    }
}

/// The entries of background calls.
#[derive(Clone)]
pub(crate) struct BackgroundStore(pub(crate) SharedStateHandle);

fn entry_key(id: &str) -> StateKey {
    StateKey::new(["job", id])
}

/// The parts of each process have keys of their own, so that two processes that end the same call do not mix them.
fn part_key(id: &str, stored_by: &str, part: usize) -> StateKey {
    StateKey::new(["part", id, stored_by, &part.to_string()])
}

pub(super) fn owner_digest(owner: &str) -> String {
    hex(&Sha256::digest(owner))
}

impl BackgroundStore {
    pub(crate) async fn get(
        &self,
        id: &str,
    ) -> Result<Option<(BackgroundEntry, StateRevision)>, SharedStateError> {
        let found = self.0.get(StateArea::Jobs, &entry_key(id)).await?;
        Ok(found.and_then(|found| {
            let entry = serde_json::from_slice(&found.value);
            let entry = entry.inspect_err(
                |error| tracing::warn!(%error, id, "the entry of a background call is not valid"),
            );
            Some((entry.ok()?, found.revision))
        }))
    }

    /// Creates an entry. Fails with a conflict if it exists.
    pub(crate) async fn create(
        &self,
        id: &str,
        entry: &BackgroundEntry,
    ) -> Result<(), SharedStateError> {
        let value = serde_json::to_vec(entry).unwrap_or_default();
        let key = entry_key(id);
        let created = self
            .0
            .create(StateArea::Jobs, &key, value, Some(CALL_LIFETIME));
        created.await.map(drop)
    }

    /// Replaces an entry. Fails with a conflict if it was changed meanwhile.
    pub(crate) async fn update(
        &self,
        id: &str,
        entry: &mut BackgroundEntry,
        revision: StateRevision,
    ) -> Result<StateRevision, SharedStateError> {
        entry.updated_ms = now_ms();
        let lifetime = match entry.is_open() {
            true => CALL_LIFETIME,
            false => RESULT_LIFETIME,
        };
        let value = serde_json::to_vec(entry).unwrap_or_default();
        let key = entry_key(id);
        let update = self
            .0
            .update(StateArea::Jobs, &key, value, revision, Some(lifetime));
        update.await
    }

    /// Changes an entry, again if it was changed meanwhile. `change` returns false to leave it as it is. Returns true if
    /// it was changed.
    pub(crate) async fn modify(
        &self,
        id: &str,
        change: impl Fn(&mut BackgroundEntry) -> bool,
    ) -> Result<bool, SharedStateError> {
        loop {
            let Some((mut entry, revision)) = self.get(id).await? else {
                return Ok(false);
            };
            if !change(&mut entry) {
                return Ok(false);
            }
            match self.update(id, &mut entry, revision).await {
                Err(SharedStateError::Conflict) => {}
                result => return result.map(|_| true),
            }
        }
    }

    /// Stores an outcome, and then marks the call as ended. Has no effect unless the call runs under this claim. `node` is
    /// the id of this process.
    pub(crate) async fn finish(
        &self,
        id: &str,
        claim: &WorkerClaim,
        node: &str,
        outcome: &OutcomeMessage,
    ) -> Result<(), SharedStateError> {
        match self.get(id).await? {
            Some((entry, _)) if entry.is_claimed_as(claim) => {}
            _ => return Ok(()),
        }
        let mut json = serde_json::to_vec(outcome).unwrap_or_default();
        if json.len() > RESULT_MAX {
            let message = format!(
                "the result has {} bytes: the result of a background call may have {RESULT_MAX}",
                json.len()
            );
            let error =
                ToolError::limit_exceeded(message).with_details(json!({"mayHaveRun": true}));
            json = serde_json::to_vec(&OutcomeMessage::failed(error)).unwrap_or_default();
        }
        let parts = json.chunks(PART_SIZE);
        let count = parts.len();
        for (number, part) in parts.enumerate() {
            let (key, lifetime) = (part_key(id, node, number), Some(PART_LIFETIME));
            let created = self
                .0
                .create(StateArea::Jobs, &key, part.to_vec(), lifetime)
                .await;
            match created {
                // Left by an attempt that failed later.
                Err(SharedStateError::Conflict) => {
                    self.0.remove(StateArea::Jobs, &key, None).await?;
                    self.0
                        .create(StateArea::Jobs, &key, part.to_vec(), lifetime)
                        .await?;
                }
                result => drop(result?),
            }
        }
        let end = |entry: &mut BackgroundEntry| {
            if !entry.is_claimed_as(claim) {
                return false;
            }
            entry.phase = BackgroundPhase::Done;
            (entry.parts, entry.stored_by) = (count, node.to_owned());
            true
        };
        self.modify(id, end).await.map(drop)
    }

    /// Marks a call as cancelled, unless it does not run under this claim.
    pub(crate) async fn end_cancelled(
        &self,
        id: &str,
        claim: &WorkerClaim,
    ) -> Result<(), SharedStateError> {
        let end = |entry: &mut BackgroundEntry| {
            let is_claimed = entry.is_claimed_as(claim);
            if is_claimed {
                (entry.phase, entry.cancelled) = (BackgroundPhase::Cancelled, true);
            }
            is_claimed
        };
        self.modify(id, end).await.map(drop)
    }

    /// Returns the outcome of a call that has ended, or `None` if it has expired.
    pub(super) async fn outcome(
        &self,
        id: &str,
        entry: &BackgroundEntry,
    ) -> Result<Option<Outcome>, SharedStateError> {
        let mut json = Vec::new();
        for number in 0..entry.parts {
            let key = part_key(id, &entry.stored_by, number);
            match self.0.get(StateArea::Jobs, &key).await? {
                Some(part) => json.extend_from_slice(&part.value),
                None => return Ok(None),
            }
        }
        let message = serde_json::from_slice::<OutcomeMessage>(&json);
        Ok(message.ok().map(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_older_versions_are_read() {
        let json =
            r#"{"owner":"o","tool":"t","phase":"queued","createdMs":1,"updatedMs":2,"parts":0}"#;
        let entry: BackgroundEntry = serde_json::from_str(json).unwrap();
        assert!(entry.is_open() && entry.claim.is_none() && entry.front.is_none());
    }
}
