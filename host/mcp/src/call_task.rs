//! A running call, driven by the request that made it, or by a task of its own while the call waits for an approval.

use std::pin::Pin;

use mimir_core::{Outcome, RequestId};
use tokio::task::JoinHandle;

/// A running call. Dropping it stops the call; the audit log records that.
pub(crate) struct CallTask {
    request_id: RequestId,
    run: CallRun,
}

enum CallRun {
    /// Runs while the request awaits it.
    Inline(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// Runs in its own task.
    Detached(DetachedTask),
}

/// A task that is aborted when its handle is dropped.
struct DetachedTask(JoinHandle<Outcome>);

impl CallTask {
    /// Creates a call with this id that runs while the request awaits it.
    pub(crate) fn new(
        request_id: RequestId,
        call: impl Future<Output = Outcome> + Send + 'static,
    ) -> Self {
        Self {
            request_id,
            run: CallRun::Inline(Box::pin(call)),
        }
    }

    /// Returns the id of the call.
    pub(crate) fn request_id(&self) -> &RequestId {
        &self.request_id
    }

    /// Moves the call to its own task.
    pub(crate) fn detach(mut self) -> Self {
        self.run = match self.run {
            CallRun::Inline(call) => CallRun::Detached(DetachedTask(tokio::spawn(call))),
            detached @ CallRun::Detached(_) => detached,
        };
        self
    }

    /// Waits for the outcome. Returns `None` if a detached call panicked; a panic of an inline call propagates. Must
    /// not be called again after it has returned.
    pub(crate) async fn outcome(&mut self) -> Option<Outcome> {
        match &mut self.run {
            CallRun::Inline(call) => Some(call.await),
            CallRun::Detached(task) => (&mut task.0).await.ok(),
        }
    }

    /// Returns true if a call in its own task has ended.
    pub(crate) fn is_over(&self) -> bool {
        match &self.run {
            CallRun::Inline(_) => false,
            CallRun::Detached(task) => task.0.is_finished(),
        }
    }
}

impl Drop for DetachedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
