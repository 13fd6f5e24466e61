//! The number of calls that this process has sent to each worker.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The calls of this process at the workers.
#[derive(Default)]
pub(super) struct PoolCalls {
    counts: Mutex<HashMap<String, u32>>,
    /// Notified when a call has ended.
    pub(super) ended: Notify,
}

/// A call at a worker. Dropping it ends the call.
pub(super) struct PoolCall {
    calls: Arc<PoolCalls>,
    node: String,
}

impl PoolCalls {
    /// Returns the number of calls at a worker.
    pub(super) fn count(&self, node: &str) -> u32 {
        self.counts.lock().get(node).copied().unwrap_or(0)
    }

    /// Returns the number of calls at all workers.
    pub(super) fn total(&self) -> u32 {
        self.counts.lock().values().sum()
    }

    /// Counts a call at a worker.
    pub(super) fn begin(self: &Arc<Self>, node: &str) -> PoolCall {
        *self.counts.lock().entry(node.to_owned()).or_default() += 1;
        PoolCall {
            calls: Arc::clone(self),
            node: node.to_owned(),
        }
    }
}

impl Drop for PoolCall {
    fn drop(&mut self) {
        let mut counts = self.calls.counts.lock();
        if let Some(count) = counts.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.node);
            }
        }
        drop(counts);
        // One slot, one waiting call.
        self.calls.ended.notify_one();
    }
}
