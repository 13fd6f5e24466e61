//! Calls that became background calls while they ran: the worker ends them also if the server that has sent them is lost,
//! and stores their outcomes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mimir_core::shared_state::SharedStateError;
use mimir_core::wire::OutcomeMessage;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use super::{AcceptedRun, WorkerParts};
use crate::background_calls::{BackgroundEntry, BackgroundStore, WorkerClaim};
use crate::frames::{KeepOrder, WorkerFrame};

/// Interval at which a worker reads whether a background call is cancelled.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after the state could not be written, and the maximum number of attempts, also of a worker that leaves.
const STORE_RETRY: Duration = Duration::from_secs(1);
const MAX_ATTEMPTS: u32 = 60;
const MAX_ATTEMPTS_LEAVING: u32 = 10;

/// The background call of a call on a worker.
#[derive(Default)]
pub(super) enum KeepState {
    /// The call ends with its server.
    #[default]
    NotKept,
    /// The call is a background call.
    Kept(KeptCall),
    /// The call has ended.
    Ended,
}

/// A background call that the worker runs.
#[derive(Clone)]
pub(super) struct KeptCall {
    id: String,
    claim: WorkerClaim,
}

/// The end of a background call.
pub(super) enum KeptEnd<'a> {
    Done(&'a OutcomeMessage),
    /// The call was stopped, and recorded as cancelled.
    Stopped,
    /// The call was stopped before it ran. Its server sends it to another worker, unless it was cancelled.
    GivenUp,
    /// Another process has closed the node. The audit log decides.
    Closed,
}

impl AcceptedRun {
    /// Returns the node of the server and the id of the call, once the call is decoded.
    fn origin(&self) -> Option<(String, String)> {
        let front = self.front.lock();
        let front = front.as_ref()?;
        Some((front.node.clone(), front.request_id.clone()))
    }

    /// Returns true if the server of the call has no lease.
    fn is_alone(&self) -> bool {
        let front = self.front.lock();
        front
            .as_ref()
            .is_some_and(|front| front.gone_since.is_some())
    }

    /// Remembers the last progress message of a background call.
    pub(super) fn show_progress(&self, frames: &[WorkerFrame]) {
        if !self.is_kept.load(Ordering::Acquire) {
            return;
        }
        let message = frames.iter().rev().find_map(|frame| match frame {
            WorkerFrame::Progress(progress) => progress.message(),
            _ => None,
        });
        if let Some(message) = message {
            *self.message.lock() = Some(message.to_owned());
        }
    }
}

impl WorkerParts {
    fn background_calls(&self) -> BackgroundStore {
        BackgroundStore(self.node.state())
    }

    /// Makes a call a background call, and tells so to its server.
    pub(super) async fn keep(
        self: Arc<Self>,
        reply: String,
        call: Arc<AcceptedRun>,
        order: KeepOrder,
        recorded: u64,
    ) {
        let mut state = call.keep.lock().await;
        let stored = match &*state {
            KeepState::Kept(kept) => kept.id == order.id,
            // The last frame is on its way.
            KeepState::Ended => return,
            KeepState::NotKept => match self.store_order(&call, &order, recorded).await {
                Ok(Some(claim)) => {
                    let id = order.id;
                    *state = KeepState::Kept(KeptCall {
                        id: id.clone(),
                        claim,
                    });
                    call.is_kept.store(true, Ordering::Release);
                    let watch = Arc::clone(&self).watch(id, Arc::downgrade(&call));
                    self.runtime.spawn(watch);
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    tracing::warn!(%error, "a call cannot become a background call");
                    if !is_lasting(&error) {
                        // The server sends the order again.
                        return;
                    }
                    false
                }
            },
        };
        drop(state);
        let answer = self.encode(&[WorkerFrame::Kept { stored }]);
        self.publish(&reply, answer).await;
    }

    /// Stores the entry of a call, or claims it if it is that of a worker that was lost with the call. Returns `None` if
    /// the background call has ended, or belongs to another owner.
    async fn store_order(
        &self,
        call: &AcceptedRun,
        order: &KeepOrder,
        recorded: u64,
    ) -> Result<Option<WorkerClaim>, SharedStateError> {
        let Some((front, request_id)) = call.origin() else {
            return Ok(None);
        };
        let claim = WorkerClaim {
            node: call.node.clone(),
            request_id,
            recorded,
        };
        let entry = BackgroundEntry::running(order, claim.clone(), front.clone());
        let entries = self.background_calls();
        match entries.create(&order.id, &entry).await {
            Err(SharedStateError::Conflict) => {}
            created => return created.map(|()| Some(claim)),
        }
        let take_over = |entry: &mut BackgroundEntry| {
            let is_same =
                entry.is_open() && (&entry.owner, &entry.tool) == (&order.owner, &order.tool);
            if is_same {
                entry.claim = Some(claim.clone());
                entry.front = Some(front.clone());
            }
            is_same
        };
        let is_claimed = entries.modify(&order.id, take_over).await?;
        Ok(is_claimed.then_some(claim))
    }

    /// Follows the entry of a background call until the call ends: stops the call if it is cancelled, and shows its
    /// progress there if the server is lost.
    async fn watch(self: Arc<Self>, id: String, call: Weak<AcceptedRun>) {
        let mut shown = None;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let Some(call) = call.upgrade() else { return };
            let Ok(Some((mut entry, revision))) = self.background_calls().get(&id).await else {
                continue;
            };
            if entry.cancelled {
                call.cancel();
                return;
            }
            let message = call.message.lock().clone();
            if call.is_alone() && message != shown && entry.is_open() {
                entry.message.clone_from(&message);
                // A conflict is a cancellation or the end.
                if self
                    .background_calls()
                    .update(&id, &mut entry, revision)
                    .await
                    .is_ok()
                {
                    shown = message;
                }
            }
        }
    }

    /// Stores the end of a call, if it is a background call. Must be called once, after the last frame was sent.
    pub(super) async fn end_kept(&self, call: &AcceptedRun, end: KeptEnd<'_>) {
        // Waits for an order that is being stored.
        let state = std::mem::replace(&mut *call.keep.lock().await, KeepState::Ended);
        let KeepState::Kept(kept) = state else { return };
        let (mut end, mut attempts, too_large) = (end, 0, result_not_stored());
        while let Err(error) = self.store_end(&kept, call, &end).await {
            attempts += 1;
            let is_leaving = self.is_draining.load(Ordering::Acquire);
            let max = if is_leaving {
                MAX_ATTEMPTS_LEAVING
            } else {
                MAX_ATTEMPTS
            };
            if attempts >= max {
                return tracing::error!(%error, id = kept.id, "the result of a background call is lost");
            }
            tracing::warn!(%error, id = kept.id, "the result of a background call cannot be stored yet");
            if is_lasting(&error) && matches!(end, KeptEnd::Done(_)) {
                end = KeptEnd::Done(&too_large);
            }
            tokio::time::sleep(STORE_RETRY).await;
        }
    }

    async fn store_end(
        &self,
        kept: &KeptCall,
        call: &AcceptedRun,
        end: &KeptEnd<'_>,
    ) -> Result<(), SharedStateError> {
        let KeptCall { id, claim } = kept;
        let (entries, is_cancelled) = (
            self.background_calls(),
            call.is_cancelled.load(Ordering::Acquire),
        );
        let stopped;
        let outcome = match end {
            KeptEnd::Done(outcome) => *outcome,
            KeptEnd::Stopped | KeptEnd::GivenUp if is_cancelled => {
                return entries.end_cancelled(id, claim).await;
            }
            KeptEnd::Stopped => {
                let error = ToolError::new(
                    ToolErrorCode::Cancelled,
                    "the worker has left while it ran the call",
                );
                stopped = OutcomeMessage::failed(error.with_details(json!({"mayHaveRun": true})));
                &stopped
            }
            KeptEnd::GivenUp | KeptEnd::Closed => return Ok(()),
        };
        entries.finish(id, claim, &claim.node, outcome).await
    }
}

/// Returns true if another attempt fails, too, as long as nothing changes in the cluster.
fn is_lasting(error: &SharedStateError) -> bool {
    matches!(
        error,
        SharedStateError::Full { .. }
            | SharedStateError::TooLarge { .. }
            | SharedStateError::Forbidden { .. }
    )
}

/// Returns the outcome in place of one for which the cluster has no space.
fn result_not_stored() -> OutcomeMessage {
    let error = ToolError::limit_exceeded(
        "the call has run, but the cluster has no space for its result; `mimir audit` shows the outcome",
    );
    OutcomeMessage::failed(error.with_details(json!({"mayHaveRun": true, "recorded": true})))
}

/// Returns the outcome of a call whose run has panicked.
pub(super) fn unexpected_end() -> OutcomeMessage {
    let error = ToolError::unavailable(
        "the call has ended unexpectedly, so it may have taken effect; check before you repeat it",
    );
    OutcomeMessage::failed(error.with_details(json!({"mayHaveRun": true})))
}
