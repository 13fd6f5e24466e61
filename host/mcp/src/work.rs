//! A running call: in the task of the request that made it, or in a task of its own while it waits for a person.

use std::pin::Pin;

use mimir_core::Outcome;
use tokio::task::JoinHandle;

/// A running call. Dropping it stops the call, which is recorded.
pub(crate) enum Work {
    /// Runs while its request awaits it.
    Here(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// Runs in its own task.
    Apart(Apart),
}

/// A task that is aborted when its handle is dropped.
pub(crate) struct Apart(JoinHandle<Outcome>);

impl Work {
    /// Creates a call that runs while its request awaits it.
    pub(crate) fn new(call: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Here(Box::pin(call))
    }

    /// Moves the call to its own task.
    pub(crate) fn apart(self) -> Self {
        match self {
            Self::Here(call) => Self::Apart(Apart(tokio::spawn(call))),
            apart @ Self::Apart(_) => apart,
        }
    }

    /// Waits for the outcome; none if the call panicked.
    pub(crate) async fn ended(&mut self) -> Option<Outcome> {
        match self {
            Self::Here(call) => Some(call.await),
            Self::Apart(task) => (&mut task.0).await.ok(),
        }
    }

    /// Returns true if a call in its own task has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Apart(task) => task.0.is_finished(),
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.0.abort();
    }
}
