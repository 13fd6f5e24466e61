//! Calls that other nodes have sent to this one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The calls that a process has accepted under one of its node ids.
#[derive(Default)]
pub(crate) struct HeldCalls(Mutex<HashMap<String, String>>);

impl HeldCalls {
    /// Returns the id of the node under which the process has accepted a call.
    pub(crate) fn node_of(&self, request_id: &str) -> Option<String> {
        self.0.lock().get(request_id).cloned()
    }
}

/// A call that this process runs for another node. The call can be announced and recorded only while the process still
/// has the node id under which it accepted the call, so that the sender can rely on the closed chain of that id.
pub struct CallHold {
    request_id: String,
    held: Arc<HeldCalls>,
    closed: watch::Receiver<bool>,
}

impl CallHold {
    pub(crate) fn new(
        request_id: &str,
        node: &str,
        held: &Arc<HeldCalls>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let request_id = request_id.to_owned();
        held.0.lock().insert(request_id.clone(), node.to_owned());
        Self {
            request_id,
            held: Arc::clone(held),
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
}

impl Drop for CallHold {
    fn drop(&mut self) {
        self.held.0.lock().remove(&self.request_id);
    }
}
