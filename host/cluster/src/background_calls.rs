//! Background calls: an entry for each call that outlives the server which has sent it, and that any server of clients
//! can read.
//!
//! A call becomes a background call when the worker that runs it creates its entry. If its server is lost, the worker ends
//! it; if both are lost, a server that is asked for its state closes the log of the worker, and ends it as `UNAVAILABLE`.

use mimir_core::backend::BoxFuture;
use mimir_core::background_calls::{BackgroundCalls, BackgroundPhase, BackgroundStatus};
use mimir_core::shared_state::SharedStateError;
use mimir_core::{Outcome, RequestId, ToolError};

use crate::clock::now_ms;
use crate::frames::KeepOrder;
use crate::node::ClusterNode;
use crate::pool::WorkerPool;

mod lost;
mod store;

pub(crate) use store::{BackgroundEntry, BackgroundStore, WorkerClaim};
use store::{RESULT_LIFETIME, owner_digest};

/// The background calls of a pool, for servers of clients.
#[derive(Clone)]
pub struct ClusterBackgroundCalls {
    node: ClusterNode,
    store: BackgroundStore,
    pool: WorkerPool,
}

impl ClusterBackgroundCalls {
    /// Lets calls of a pool of this node become background calls.
    pub fn new(node: ClusterNode, pool: WorkerPool) -> Self {
        Self {
            store: BackgroundStore(node.state()),
            node,
            pool,
        }
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
}

fn unavailable(error: &SharedStateError) -> ToolError {
    ToolError::unavailable(format!("background calls are not available: {error}"))
}

impl BackgroundCalls for ClusterBackgroundCalls {
    fn keep<'a>(
        &'a self,
        owner: &'a str,
        request_id: &'a RequestId,
        tool: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let order = KeepOrder {
                id: id.to_owned(),
                owner: owner_digest(owner),
                tool: tool.to_owned(),
                created_ms: now_ms(),
            };
            self.pool.keep(request_id, order).await
        })
    }

    fn release(&self, request_id: &RequestId) {
        self.pool.release(request_id);
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
}
