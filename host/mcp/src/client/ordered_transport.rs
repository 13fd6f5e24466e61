//! A transport that processes a server's messages in order, and limits the server's requests.
//!
//! rmcp handles each notification in a task of its own and delivers a response directly, so a call could end before
//! progress that the server sent earlier was handled. This transport handles progress and logs as they arrive. rmcp
//! also accepts any number of requests, and each costs a task and a response until the server reads the response.
//!
//! Out of scope: the handling of the messages.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::close_reason::CloseReason;
use super::listener::ServerListener;
use super::rate_limit::{self, MessageRateLimiter};

/// Maximum number of unanswered requests of a server. Servers make few requests, and only during a call.
const MAX_OPEN_REQUESTS: usize = 100;

/// A transport that handles progress and log messages before it passes on later messages.
pub(super) struct OrderedTransport<T> {
    inner: T,
    listener: Arc<ServerListener>,
    close_reason: Arc<CloseReason>,
    notification_rate: MessageRateLimiter,
    request_rate: MessageRateLimiter,
    /// Ids of unanswered requests; an id is removed when the response has been written.
    open_requests: Arc<Mutex<HashSet<RequestId>>>,
}

impl<T> OrderedTransport<T> {
    pub(super) fn new(
        inner: T,
        listener: Arc<ServerListener>,
        close_reason: Arc<CloseReason>,
    ) -> Self {
        Self {
            inner,
            listener,
            close_reason,
            notification_rate: rate_limit::notification_limit(),
            request_rate: rate_limit::request_limit(),
            open_requests: Arc::default(),
        }
    }

    /// Registers a request. Returns false if another open request has this id, or if a limit is exceeded.
    fn admit_request(&mut self, id: &RequestId) -> bool {
        let mut open_requests = self.open_requests.lock();
        open_requests.insert(id.clone())
            && open_requests.len() <= MAX_OPEN_REQUESTS
            && self.request_rate.try_take()
    }
}

fn close_request(open_requests: &Mutex<HashSet<RequestId>>, id: &RequestId) {
    let mut open_requests = open_requests.lock();
    open_requests.remove(id);
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for OrderedTransport<T> {
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
        let open_requests = Arc::clone(&self.open_requests);
        let sent = self.inner.send(item);
        async move {
            let sent = sent.await;
            if let Some(id) = answers {
                close_request(&open_requests, &id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            match &message {
                ServerJsonRpcMessage::Request(request) if !self.admit_request(&request.id) => {
                    self.close_reason.set_too_many_requests();
                    return None;
                }
                ServerJsonRpcMessage::Notification(notification) => {
                    match &notification.notification {
                        ServerNotification::ProgressNotification(notification) => {
                            // Handled even in a flood: forwarding has its own rate limit, and the latest value counts.
                            self.listener.handle_progress(&notification.params);
                            if !self.notification_rate.try_take() {
                                self.close_reason.warn_of_flood();
                                continue;
                            }
                        }
                        _ if !self.notification_rate.try_take() => {
                            self.close_reason.warn_of_flood();
                            continue;
                        }
                        ServerNotification::LoggingMessageNotification(notification) => {
                            self.listener.handle_log(&notification.params);
                        }
                        // A cancelled request gets no response.
                        ServerNotification::CancelledNotification(notification) => {
                            if let Some(id) = &notification.params.request_id {
                                close_request(&self.open_requests, id);
                            }
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
