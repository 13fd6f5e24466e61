//! Calls that wait for an answer between two requests of a client.
//!
//! Since 2026-07-28, a server sends no requests: it responds to a call with its questions, and the client calls again
//! with the answers. The call is not repeated, but waits here. The client gets the name of the pending call as the
//! request state. The name cannot be guessed, works once, and only for the client that got it and for an equal call.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::AnswerScope;
use crate::call_task::CallTask;
use crate::client_observer::{CallReceivers, ClientQuestion};

/// A pending call.
pub(crate) struct PendingCall {
    /// Owner and request of the call.
    pub(crate) key: PendingCallKey,
    /// The call. It keeps running without a request, so that the time limit of the answer applies.
    pub(crate) task: CallTask,
    pub(crate) receivers: CallReceivers,
    /// The question for which the call waits.
    pub(crate) question: ClientQuestion,
}

/// Properties that a request must have to resume a pending call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingCallKey {
    pub(crate) owner: String,
    /// Scope of the user's answer.
    pub(crate) answer_scope: AnswerScope,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

/// All pending calls.
#[derive(Default)]
pub(crate) struct PendingCalls(Mutex<HashMap<String, (Instant, PendingCall)>>);

/// Maximum number of pending calls: more than users answer.
const MAX_PENDING_CALLS: usize = 256;

/// Time for which the outcome of an ended call is kept for a client that answers late.
const OUTCOME_LIFETIME: Duration = Duration::from_secs(15 * 60);

impl PendingCalls {
    /// Stores a call under this name, which cannot be guessed. Fails with the call if too many calls are pending, or if
    /// there is no name.
    pub(crate) fn insert(
        &self,
        name: Option<String>,
        call: PendingCall,
    ) -> Result<String, Box<PendingCall>> {
        let mut calls = self.0.lock();
        calls.retain(|_, (since, pending)| {
            !pending.task.is_over() || since.elapsed() < OUTCOME_LIFETIME
        });
        match name {
            Some(name) if calls.len() < MAX_PENDING_CALLS => {
                calls.insert(name.clone(), (Instant::now(), call));
                Ok(name)
            }
            _ => Err(Box::new(call)),
        }
    }

    /// Removes and returns the pending call of this name, if the key matches. A mismatch leaves the call pending.
    pub(crate) fn take(&self, name: &str, key: &PendingCallKey) -> Option<PendingCall> {
        let mut calls = self.0.lock();
        calls.get(name).filter(|(_, pending)| pending.key == *key)?;
        calls.remove(name).map(|(_, pending)| pending)
    }

    /// Stops all calls.
    pub(crate) fn stop_all(&self) {
        self.0.lock().clear();
    }

    /// Stops all calls of an owner that has disconnected.
    pub(crate) fn stop_calls_of(&self, owner: &str) {
        self.0
            .lock()
            .retain(|_, (_, pending)| pending.key.owner != owner);
    }
}
