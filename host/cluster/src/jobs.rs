//! Background calls: a queue that any worker of the workspace takes calls from, and an entry for each call that any
//! server of clients can read.
//!
//! A worker claims a call by compare-and-set before it runs it, and tells the queue that it still works on it. If the
//! worker is lost, the queue delivers the call to another worker. That one closes the log of the lost worker, and runs
//! the call only if it was not announced; else the call has ended as `UNAVAILABLE` with `"mayHaveRun": true`.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use mimir_core::backend::BoxFuture;
use mimir_core::background_calls::{BackgroundCalls, BackgroundPhase, BackgroundStatus};
use mimir_core::shared_state::{
    SharedStateError, SharedStateHandle, StateArea, StateKey, StateRevision,
};
use mimir_core::wire::OutcomeMessage;
use mimir_core::{Call, Outcome, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::clock::now_ms;
use crate::connection::{ACCESS_TIMEOUT, ClusterConnection};
use crate::frames::ForwardedCall;
use crate::ids::{hex, random_hex};
use crate::names;
use crate::streams::job_stream;

mod runner;

pub use runner::JobRunner;

/// Time for which the result of a background call is kept.
const RESULT_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Time after which a call that no worker has ended is forgotten.
const CALL_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Size of the parts of a result.
const PART_SIZE: usize = 512 << 10;

/// Maximum size of a result in bytes, as JSON.
const RESULT_MAX: usize = 16 << 20;

/// Maximum size of a queued call in bytes.
const CALL_MAX: usize = 768 << 10;

/// Time after which a client should try again that has found the queue full, in milliseconds.
const FULL_RETRY_MS: u64 = 2000;

/// Interval at which an entry is read while a client waits for its change, and the longest wait.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(3);

/// Number of random bytes of an id.
const ID_BYTES: usize = 16;

/// The state of a background call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackgroundEntry {
    /// Digest of the owner's name.
    owner: String,
    tool: String,
    phase: BackgroundPhase,
    created_ms: u64,
    updated_ms: u64,
    /// The worker that has claimed the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<JobClaim>,
    /// True if the call is to be cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cancelled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Number of the parts of the result.
    #[serde(default)]
    parts: usize,
}

/// The claim of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobClaim {
    /// The node id of the worker.
    node: String,
    /// The id under which the worker records the call.
    request_id: String,
    /// Stream sequence of the last line of the node before the claim.
    recorded: u64,
}

/// A call in the queue.
#[derive(Debug, Serialize, Deserialize)]
struct QueuedJob {
    id: String,
    call: ForwardedCall,
}

/// The entries of background calls.
#[derive(Clone)]
struct JobStore(SharedStateHandle);

fn entry_key(id: &str) -> StateKey {
    StateKey::new(["job", id])
}

fn part_key(id: &str, part: usize) -> StateKey {
    StateKey::new(["part", id, &part.to_string()])
}

fn owner_digest(owner: &str) -> String {
    hex(&Sha256::digest(owner))
}

impl JobStore {
    async fn get(
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

    /// Replaces an entry. Fails with a conflict if it was changed meanwhile.
    async fn update(
        &self,
        id: &str,
        entry: &mut BackgroundEntry,
        revision: StateRevision,
    ) -> Result<StateRevision, SharedStateError> {
        entry.updated_ms = now_ms();
        let lifetime = match entry.phase {
            BackgroundPhase::Queued | BackgroundPhase::Running => CALL_LIFETIME,
            BackgroundPhase::Done | BackgroundPhase::Cancelled => RESULT_LIFETIME,
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
    async fn modify(
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

    /// Stores an outcome, and then marks the call as ended.
    async fn finish(&self, id: &str, outcome: &OutcomeMessage) -> Result<(), SharedStateError> {
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
            let (key, lifetime) = (part_key(id, number), Some(RESULT_LIFETIME * 2));
            let created = self
                .0
                .create(StateArea::Jobs, &key, part.to_vec(), lifetime)
                .await;
            match created {
                // Left by a worker that was lost before it marked the call.
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
            (entry.phase, entry.parts) = (BackgroundPhase::Done, count);
            true
        };
        self.modify(id, end).await.map(drop)
    }

    async fn outcome(&self, id: &str, parts: usize) -> Result<Option<Outcome>, SharedStateError> {
        let mut json = Vec::new();
        for number in 0..parts {
            match self.0.get(StateArea::Jobs, &part_key(id, number)).await? {
                Some(part) => json.extend_from_slice(&part.value),
                None => return Ok(None),
            }
        }
        let message = serde_json::from_slice::<OutcomeMessage>(&json);
        Ok(message.ok().map(Into::into))
    }
}

/// The background calls of a workspace, for servers of clients.
#[derive(Clone)]
pub struct ClusterJobs {
    connection: ClusterConnection,
    store: JobStore,
    workspace: String,
    front: String,
}

impl ClusterJobs {
    /// Creates access to the background calls of a workspace. `front` names this process in the queue.
    pub fn new(
        connection: ClusterConnection,
        state: SharedStateHandle,
        workspace: &str,
        front: &str,
    ) -> Self {
        Self {
            connection,
            store: JobStore(state),
            workspace: workspace.to_owned(),
            front: front.to_owned(),
        }
    }

    async fn enqueue(
        &self,
        owner: &str,
        call: Call,
        role: Option<&str>,
    ) -> Result<String, ToolError> {
        let id = random_hex::<ID_BYTES>()
            .map_err(|error| ToolError::unavailable(format!("no random numbers: {error}")))?;
        let job = QueuedJob {
            id: id.clone(),
            call: ForwardedCall {
                call: mimir_core::wire::CallMessage::new(&call, role),
                front: self.front.clone(),
                can_ask: false,
                separate_answers: false,
                upstream: Vec::new(),
            },
        };
        let payload = serde_json::to_vec(&job).map_err(ToolError::internal)?;
        if payload.len() > CALL_MAX {
            return Err(ToolError::limit_exceeded(format!(
                "the arguments have {} bytes: those of a background call may have {CALL_MAX}",
                payload.len()
            )));
        }
        let entry = BackgroundEntry {
            owner: owner_digest(owner),
            tool: call.tool.clone(),
            phase: BackgroundPhase::Queued,
            created_ms: now_ms(),
            updated_ms: now_ms(),
            claim: None,
            cancelled: false,
            message: None,
            parts: 0,
        };
        let value = serde_json::to_vec(&entry).map_err(ToolError::internal)?;
        let key = entry_key(&id);
        let state = &self.store.0;
        let created = state.create(StateArea::Jobs, &key, value, Some(CALL_LIFETIME));
        created.await.map_err(|error| unavailable(&error))?;
        if let Err(error) = self.publish(&id, payload.into()).await {
            // A worker that gets the call in spite of the error finds no entry, and does not run it.
            let _ = state.remove(StateArea::Jobs, &key, None).await;
            return Err(error);
        }
        Ok(id)
    }

    async fn publish(&self, id: &str, payload: Bytes) -> Result<(), ToolError> {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
        let subject = names::jobs(StateKey::new([self.workspace.as_str()]).as_str());
        for attempt in 0..2 {
            let deadline = Instant::now() + ACCESS_TIMEOUT;
            let (subject, headers) = (subject.clone(), headers.clone());
            let stored =
                self.connection
                    .publish_stored(subject, headers, payload.clone(), deadline);
            let error = match stored.await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if error.is_full() {
                let message = "the queue of background calls is full; try again later";
                let details = json!({"retryAfterMs": FULL_RETRY_MS});
                return Err(ToolError::limit_exceeded(message).with_details(details));
            }
            let is_missing = matches!(error, crate::request::RequestError::NotDelivered);
            if attempt > 0 || !is_missing {
                return Err(ToolError::unavailable(format!(
                    "the call cannot be queued: {error}"
                )));
            }
            let created = self.connection.ensure_stream(job_stream()).await;
            created.map_err(|error| {
                ToolError::unavailable(format!("the call cannot be queued: {error}"))
            })?;
        }
        Ok(())
    }

    /// Returns an entry of this owner.
    async fn find(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<(BackgroundEntry, StateRevision)>, ToolError> {
        let found = self
            .store
            .get(id)
            .await
            .map_err(|error| unavailable(&error))?;
        Ok(found.filter(|(entry, _)| entry.owner == owner_digest(owner)))
    }

    async fn wait_for_change(&self, id: &str) {
        let revision =
            |found: Option<(BackgroundEntry, StateRevision)>| found.map(|(_, revision)| revision);
        let deadline = Instant::now() + POLL_MAX;
        let Ok(first) = self.store.get(id).await.map(revision) else {
            return tokio::time::sleep(POLL_MAX).await;
        };
        while Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.store.get(id).await.map(revision) != Ok(first) {
                return;
            }
        }
    }
}

fn unavailable(error: &SharedStateError) -> ToolError {
    ToolError::unavailable(format!("background calls are not available: {error}"))
}

impl BackgroundCalls for ClusterJobs {
    fn create<'a>(
        &'a self,
        owner: &'a str,
        call: Call,
        role: Option<&'a str>,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(self.enqueue(owner, call, role))
    }

    fn status<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<BackgroundStatus>, ToolError>> {
        Box::pin(async move {
            let found = self.find(owner, id).await?;
            Ok(found.map(|(entry, _)| BackgroundStatus {
                phase: entry.phase,
                tool: entry.tool,
                created_ms: entry.created_ms,
                updated_ms: entry.updated_ms,
                message: entry.message,
                lifetime_ms: u64::try_from(RESULT_LIFETIME.as_millis()).unwrap_or(u64::MAX),
            }))
        })
    }

    fn outcome<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Outcome>, ToolError>> {
        Box::pin(async move {
            match self.find(owner, id).await? {
                Some((entry, _)) if entry.phase == BackgroundPhase::Done => {
                    let outcome = self.store.outcome(id, entry.parts).await;
                    outcome.map_err(|error| unavailable(&error))
                }
                _ => Ok(None),
            }
        })
    }

    fn cancel<'a>(&'a self, owner: &'a str, id: &'a str) -> BoxFuture<'a, Result<bool, ToolError>> {
        Box::pin(async move {
            let owner = owner_digest(owner);
            let cancel = |entry: &mut BackgroundEntry| {
                let is_open = matches!(
                    entry.phase,
                    BackgroundPhase::Queued | BackgroundPhase::Running
                );
                if entry.owner != owner || !is_open {
                    return false;
                }
                entry.cancelled = true;
                true
            };
            let cancelled = self.store.modify(id, cancel).await;
            cancelled.map_err(|error| unavailable(&error))
        })
    }

    fn changed<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_change(id))
    }
}
