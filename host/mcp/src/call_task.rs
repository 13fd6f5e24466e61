//! A running call, driven by the request that made it, or by a task of its own while the call waits for an approval.

use std::pin::Pin;

use mimir_core::Outcome;
use tokio::task::JoinHandle;

/// A running call. Dropping it stops the call; the audit log records that.
pub(crate) enum CallTask {
    /// Runs while the request awaits it.
    Inline(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// Runs in its own task.
    Detached(DetachedTask),
}

/// A task that is aborted when its handle is dropped.
pub(crate) struct DetachedTask(JoinHandle<Outcome>);

impl CallTask {
    /// Creates a call that runs while the request awaits it.
    pub(crate) fn new(call: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Inline(Box::pin(call))
    }

    /// Moves the call to its own task.
    pub(crate) fn detach(self) -> Self {
        match self {
            Self::Inline(call) => Self::Detached(DetachedTask(tokio::spawn(call))),
            detached @ Self::Detached(_) => detached,
        }
    }

    /// Waits for the outcome. Returns `None` if a detached call panicked; a panic of an inline call propagates. Must
    /// not be called again after it has returned.
    pub(crate) async fn outcome(&mut self) -> Option<Outcome> {
        match self {
            Self::Inline(call) => Some(call.await),
            Self::Detached(task) => (&mut task.0).await.ok(),
        }
    }

    /// Returns true if a call in its own task has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Inline(_) => false,
            Self::Detached(task) => task.0.is_finished(),
        }
    }
}

impl Drop for DetachedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
