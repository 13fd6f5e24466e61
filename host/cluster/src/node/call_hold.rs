//! Calls that other nodes have sent to this one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The record of the outcome of a call that another node has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeRecord {
    /// No outcome was handed to the log.
    Missing,
    /// The outcome waits to be stored.
    Waiting,
    /// The outcome is stored.
    Stored,
    /// The outcome will not be stored, because another process has closed the node id of the call.
    TakenOver,
    /// The outcome could not be stored.
    Failed,
}

/// A call that this process has accepted.
#[derive(Clone)]
pub(crate) struct HeldCall {
    /// Id of the node under which it was accepted.
    pub(crate) node: String,
    /// Id of the node that has sent it, for its lines in the log.
    pub(crate) front: Option<Arc<str>>,
    record: watch::Sender<OutcomeRecord>,
}

impl HeldCall {
    /// Creates a call that is not in the table, for lines that belong to one node id.
    pub(crate) fn under(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            front: None,
            record: watch::Sender::new(OutcomeRecord::Missing),
        }
    }

    /// Shows what has become of the outcome.
    pub(crate) fn set_record(&self, record: OutcomeRecord) {
        self.record.send_replace(record);
    }
}

/// The calls that a process has accepted under one of its node ids.
#[derive(Default)]
pub(crate) struct HeldCalls(Mutex<HashMap<String, HeldCall>>);

impl HeldCalls {
    /// Returns a call that this process has accepted.
    pub(crate) fn get(&self, request_id: &str) -> Option<HeldCall> {
        self.0.lock().get(request_id).cloned()
    }
}

/// A call that this process runs for another node. The call can be announced and recorded only while the process still
/// has the node id under which it accepted the call, so that the sender can rely on the closed chain of that id.
pub struct CallHold {
    request_id: String,
    held: Arc<HeldCalls>,
    call: HeldCall,
    closed: watch::Receiver<bool>,
}

impl CallHold {
    pub(crate) fn new(
        request_id: &str,
        node: &str,
        front: Option<&str>,
        held: &Arc<HeldCalls>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let request_id = request_id.to_owned();
        let mut call = HeldCall::under(node);
        call.front = front.map(Arc::from);
        held.0.lock().insert(request_id.clone(), call.clone());
        Self {
            request_id,
            held: Arc::clone(held),
            call,
            closed,
        }
    }

    /// Waits until another process has closed the node id under which the call was accepted. The call is on record as
    /// ended then, so the run should be cancelled.
    pub async fn closed(&self) {
        let mut closed = self.closed.clone();
        // An error means that the id is gone.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Waits until it is known whether the outcome is stored, unless none was handed to the log.
    pub(crate) async fn outcome_record(&self) -> OutcomeRecord {
        let mut record = self.call.record.subscribe();
        let is_known = |record: &OutcomeRecord| *record != OutcomeRecord::Waiting;
        // The sender lives in `self`.
        match record.wait_for(is_known).await {
            Ok(record) => *record,
            Err(_) => OutcomeRecord::Failed,
        }
    }
}

impl Drop for CallHold {
    fn drop(&mut self) {
        self.held.0.lock().remove(&self.request_id);
    }
}
