//! A call while it runs: in the task of the request that made it, or by itself while it waits for a person.

use std::pin::Pin;

use mimir_core::Outcome;
use tokio::task::JoinHandle;

/// A call that runs. Dropping it stops it, and that is recorded.
pub(crate) enum Work {
    /// It runs while somebody waits for it.
    Here(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// It runs by itself.
    Apart(Apart),
}

/// A task that ends with its handle.
pub(crate) struct Apart(JoinHandle<Outcome>);

impl Work {
    /// A call that runs while somebody waits for it.
    pub(crate) fn new(call: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Here(Box::pin(call))
    }

    /// Lets it run by itself.
    pub(crate) fn apart(self) -> Self {
        match self {
            Self::Here(call) => Self::Apart(Apart(tokio::spawn(call))),
            apart @ Self::Apart(_) => apart,
        }
    }

    /// Its end; nothing if it broke.
    pub(crate) async fn ended(&mut self) -> Option<Outcome> {
        match self {
            Self::Here(call) => Some(call.await),
            Self::Apart(task) => (&mut task.0).await.ok(),
        }
    }

    /// Whether it has ended by itself.
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
