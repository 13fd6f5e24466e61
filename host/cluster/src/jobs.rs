//! Background calls: a queue that any worker of the workspace takes calls from, and an entry for each call that any
//! server of clients can read.
//!
//! A worker claims a call by compare-and-set before it runs it, and tells the queue that it still works on it. If the
//! worker is lost, the queue delivers the call to another worker. That one closes the log of the lost worker, and runs
//! the call only if it was not announced; else the call has ended as `UNAVAILABLE` with `"mayHaveRun": true`.
//!
//! A call that a server has sent to a worker itself becomes a background call when its worker creates an entry for it. It
//! is not in the queue: if its server is lost, the worker ends it; if both are lost, a server that is asked for its state
//! closes the log of the worker, and ends it as `UNAVAILABLE`.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use mimir_core::backend::BoxFuture;
use mimir_core::background_calls::{BackgroundCalls, BackgroundPhase, BackgroundStatus};
use mimir_core::shared_state::{SharedStateError, StateArea, StateKey, StateRevision};
use mimir_core::{Call, Outcome, RequestId, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::clock::now_ms;
use crate::connection::{ACCESS_TIMEOUT, ClusterConnection};
use crate::frames::{ForwardedCall, KeepOrder};
use crate::ids::random_hex;
use crate::names;
use crate::node::ClusterNode;
use crate::pool::WorkerPool;
use crate::streams::job_stream;

mod lost;
mod runner;
mod store;

pub use runner::JobRunner;
pub(crate) use store::{BackgroundEntry, JobClaim, JobStore};
use store::{RESULT_LIFETIME, entry_key, owner_digest};

/// Maximum size of a queued call in bytes.
const CALL_MAX: usize = 768 << 10;

/// Time after which a client should try again that has found the queue full, in milliseconds.
const FULL_RETRY_MS: u64 = 2000;

/// Interval at which an entry is read while a client waits for its change, and the longest wait.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(3);

/// Number of random bytes of an id.
const ID_BYTES: usize = 16;

/// A call in the queue.
#[derive(Debug, Serialize, Deserialize)]
struct QueuedJob {
    id: String,
    call: ForwardedCall,
}

/// The background calls of a workspace, for servers of clients.
#[derive(Clone)]
pub struct ClusterJobs {
    connection: ClusterConnection,
    node: ClusterNode,
    store: JobStore,
    workspace: String,
    pool: Option<WorkerPool>,
}

impl ClusterJobs {
    /// Creates access to the background calls of a workspace, for this node.
    pub fn new(connection: ClusterConnection, node: ClusterNode, workspace: &str) -> Self {
        Self {
            connection,
            store: JobStore(node.state()),
            node,
            workspace: workspace.to_owned(),
            pool: None,
        }
    }

    /// Lets calls of this pool become background calls.
    #[must_use]
    pub fn with_pool(mut self, pool: WorkerPool) -> Self {
        self.pool = Some(pool);
        self
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
                front: self.node.id(),
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
        let entry = BackgroundEntry::queued(owner_digest(owner), call.tool.clone());
        let created = self.store.create(&id, &entry).await;
        created.map_err(|error| unavailable(&error))?;
        if let Err(error) = self.publish(&id, payload.into()).await {
            // A worker that gets the call in spite of the error finds no entry, and does not run it.
            let state = &self.store.0;
            let _ = state.remove(StateArea::Jobs, &entry_key(&id), None).await;
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
    async fn find(&self, owner: &str, id: &str) -> Result<Option<BackgroundEntry>, ToolError> {
        let owner = owner_digest(owner);
        let read = async || {
            let found = self.store.get(id).await;
            let found = found.map_err(|error| unavailable(&error))?;
            let entry = found.map(|(entry, _)| entry);
            Ok(entry.filter(|entry| entry.owner == owner))
        };
        match read().await? {
            Some(entry) if self.end_if_lost(id, &entry).await? => read().await,
            found => Ok(found),
        }
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

    fn keep<'a>(
        &'a self,
        owner: &'a str,
        request_id: &'a RequestId,
        tool: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let Some(pool) = &self.pool else {
                return Err(ToolError::unavailable("this process runs its calls itself"));
            };
            let order = KeepOrder {
                id: id.to_owned(),
                owner: owner_digest(owner),
                tool: tool.to_owned(),
                created_ms: now_ms(),
            };
            pool.keep(request_id, order).await
        })
    }

    fn release(&self, request_id: &RequestId) {
        if let Some(pool) = &self.pool {
            pool.release(request_id);
        }
    }

    fn status<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<BackgroundStatus>, ToolError>> {
        Box::pin(async move {
            let found = self.find(owner, id).await?;
            Ok(found.map(|entry| BackgroundStatus {
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
                Some(entry) if entry.phase == BackgroundPhase::Done => {
                    let outcome = self.store.outcome(id, &entry).await;
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
                if entry.owner != owner || !entry.is_open() {
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
