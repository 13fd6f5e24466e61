//! What a server says is heard in the order in which it came, and no more of it than anybody asked for.
//!
//! rmcp hands each notification to a task of its own and an answer to whoever waits for it, so that a call could be
//! over before the progress was heard that its server had told right before. Here both are heard while they arrive. And
//! it takes whatever comes: each request of a server is a task and an answer until the server reads that.
//!
//! Never here: what is made of it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::ears::Ears;
use super::end::End;
use super::pace::{self, Pace};

/// Requests of a server that may wait for their answers at a time: it asks in the middle of a call, and for few things.
const OPEN_MOST: usize = 100;

/// A transport whose progress and log lines are heard before what comes after them is passed on.
pub(super) struct Attentive<T> {
    inner: T,
    ears: Arc<Ears>,
    end: Arc<End>,
    notes: Pace,
    requests: Pace,
    /// The requests that were not answered yet: one is when its answer was written.
    open: Arc<Mutex<HashSet<RequestId>>>,
}

impl<T> Attentive<T> {
    pub(super) fn new(inner: T, ears: Arc<Ears>, end: Arc<End>) -> Self {
        Self {
            inner,
            ears,
            end,
            notes: pace::of_notifications(),
            requests: pace::of_requests(),
            open: Arc::default(),
        }
    }

    /// Whether one more request is taken. A second one of the same name would hide behind the first.
    fn takes(&mut self, id: &RequestId) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(id.clone()) && open.len() <= OPEN_MOST && self.requests.takes()
    }
}

fn close(open: &Mutex<HashSet<RequestId>>, id: &RequestId) {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    open.remove(id);
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Attentive<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answers = match &item {
            ClientJsonRpcMessage::Response(answer) => Some(answer.id.clone()),
            ClientJsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let open = Arc::clone(&self.open);
        let sent = self.inner.send(item);
        async move {
            let sent = sent.await;
            if let Some(id) = answers {
                close(&open, &id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            match &message {
                ServerJsonRpcMessage::Request(request) if !self.takes(&request.id) => {
                    self.end.because_too_many_requests();
                    return None;
                }
                ServerJsonRpcMessage::Notification(note) => match &note.notification {
                    ServerNotification::ProgressNotification(note) => {
                        // Also of a flood: the newest value counts, and how many are sent on is limited there.
                        self.ears.progress(&note.params);
                        if !self.notes.takes() {
                            self.end.flooded();
                            continue;
                        }
                    }
                    _ if !self.notes.takes() => {
                        self.end.flooded();
                        continue;
                    }
                    ServerNotification::LoggingMessageNotification(note) => {
                        self.ears.log(&note.params);
                    }
                    // Who is not waited for is not answered.
                    ServerNotification::CancelledNotification(note) => {
                        if let Some(id) = &note.params.request_id {
                            close(&self.open, id);
                        }
                    }
                    _ => {}
                },
                _ => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
