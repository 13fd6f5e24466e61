//! What a server says of a call is heard in the order in which it came.
//!
//! rmcp hands each notification to a task of its own and an answer to whoever waits for it, so that a call could be
//! over before the progress was heard that its server had told right before. Here both are heard while they arrive.
//!
//! Never here: what is made of it.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ServerJsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::ears::Ears;

/// A transport whose progress and log lines are heard before what comes after them is passed on.
pub(super) struct Attentive<T> {
    inner: T,
    ears: Arc<Ears>,
}

impl<T> Attentive<T> {
    pub(super) fn new(inner: T, ears: Arc<Ears>) -> Self {
        Self { inner, ears }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Attentive<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        if let ServerJsonRpcMessage::Notification(note) = &message {
            match &note.notification {
                ServerNotification::ProgressNotification(note) => self.ears.progress(&note.params),
                ServerNotification::LoggingMessageNotification(note) => self.ears.log(&note.params),
                _ => {}
            }
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
