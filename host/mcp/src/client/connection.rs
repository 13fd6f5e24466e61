//! A connection to a running server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mimir_core::trace_context::{TRACEPARENT, TRACESTATE};
use mimir_core::{ToolError, ToolErrorCode};
use parking_lot::Mutex;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, ErrorCode, JsonObject,
    PaginatedRequestParams, ProtocolVersion, RequestId, RequestMetaObject, ServerCapabilities,
    ServerResult, TASKS_EXTENSION_ID,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, PeerRequestOptions, RunningService,
    RunningServiceCancellationToken, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::{DynamicTransportError, Transport};
use rmcp::{Peer, RoleClient};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::close_reason::MAX_SERVER_TEXT_CHARS;
use super::description::mask_known_secrets;
use super::handshake;
use super::http_transport;
use super::input_broker::InputRequestBroker;
use super::listener::{ServerListener, ServerMessageHandler};
use super::operation::{OperationRound, ServerListKind, ServerOperation, watch_request};
use super::ordered_transport::OrderedTransport;
use super::subscription::{self, SubscriptionTopic};

mod remote_task;
mod required_task;

pub(super) use super::close_reason::CloseReason;

/// Maximum number of pages of a list, for a server that always has another page.
const MAX_PAGES: usize = 50;

/// Maximum number of entries of a kind. No model chooses well among more tools.
pub(super) const MAX_ITEMS: usize = 1_000;

/// Maximum number of rounds of a call in which a server responds with further requests.
const MAX_ROUNDS: usize = 10;

/// A resource that lives as long as a connection, such as a running program. Dropping it releases the resource.
pub(super) type KeepAlive = Box<dyn Send + Sync>;

/// A connection to a server.
pub(super) struct ServerConnection {
    peer: Peer<RoleClient>,
    stop: Option<RunningServiceCancellationToken>,
    pub(super) listener: Arc<ServerListener>,
    pub(super) close_reason: Arc<CloseReason>,
    generation: ProtocolGeneration,
    /// Subscriptions by resource URI; the empty string stands for all lists.
    subscriptions: Mutex<HashMap<String, AbortHandle>>,
    /// Held while the tools are listed: calls wait for the result.
    pub(super) listing_lock: tokio::sync::Mutex<()>,
    _keep_alive: KeepAlive,
}

/// The generation of the protocol, which determines how a connection starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolGeneration {
    /// Versions before 2026-07-28, which start with a handshake. Most servers use them.
    Handshake,
    /// Versions since 2026-07-28, which start with a discovery request.
    Discovery,
}

impl ProtocolGeneration {
    /// Returns the other generation.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Handshake => Self::Discovery,
            Self::Discovery => Self::Handshake,
        }
    }
}

/// The reason why a connection did not start.
pub(super) enum ConnectError {
    /// The server rejected the start: it may support the other generation.
    Refused(ToolError),
    Failed(ToolError),
}

impl ServerConnection {
    /// Connects to a server.
    pub(super) async fn connect<T>(
        transport: T,
        generation: ProtocolGeneration,
        listener: Arc<ServerListener>,
        close_reason: Arc<CloseReason>,
        keep_alive: KeepAlive,
    ) -> Result<Self, ConnectError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let lifecycle = match generation {
            ProtocolGeneration::Handshake => ClientLifecycleMode::Initialize,
            ProtocolGeneration::Discovery => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        };
        let handler = ServerMessageHandler(Arc::clone(&listener));
        let transport =
            OrderedTransport::new(transport, Arc::clone(&listener), Arc::clone(&close_reason));
        let started = serve_client_with_lifecycle(handler, transport, lifecycle).await;
        let running: RunningService<RoleClient, ServerMessageHandler> =
            started.map_err(|error| {
                if let ClientInitializeError::TransportError { error, .. } = &error
                    && let Some(denied) = http_transport::denial_reason(error)
                {
                    return ConnectError::Failed(denied.clone());
                }
                // Some servers respond to an unknown request with an invalid result, and some do not respond.
                let refused = match &error {
                    ClientInitializeError::JsonRpcError(_)
                    | ClientInitializeError::ExpectedInitResult(_) => true,
                    ClientInitializeError::ConnectionClosed(_) => {
                        generation == ProtocolGeneration::Discovery
                    }
                    _ => false,
                };
                let text = match &error {
                    // Only the inner error is shown: the outer text describes rmcp's internals.
                    ClientInitializeError::TransportError { error, .. } => {
                        http_transport::describe_request_failure(error)
                            .unwrap_or_else(|| error.error.to_string())
                    }
                    other => handshake::handshake_failure(other, generation),
                };
                let text = close_reason.mask_text(&text, MAX_SERVER_TEXT_CHARS);
                let error =
                    close_reason.error(&format!("did not start the protocol correctly: {text}"));
                if refused {
                    ConnectError::Refused(error)
                } else {
                    ConnectError::Failed(error)
                }
            })?;
        handshake::check_protocol_version(running.peer(), generation, &close_reason)?;
        let connection = Self {
            peer: running.peer().clone(),
            stop: Some(running.cancellation_token()),
            listener,
            close_reason,
            generation,
            subscriptions: Mutex::default(),
            listing_lock: tokio::sync::Mutex::default(),
            _keep_alive: keep_alive,
        };
        // The service must end only by cancellation, not when the handle is dropped.
        tokio::spawn(running.waiting());
        let capabilities = connection.capabilities();
        let lists = [
            capabilities.tools.and_then(|tools| tools.list_changed),
            capabilities
                .prompts
                .and_then(|prompts| prompts.list_changed),
            capabilities
                .resources
                .and_then(|resources| resources.list_changed),
        ];
        if generation == ProtocolGeneration::Discovery && lists.contains(&Some(true)) {
            connection.listen_for(String::new(), SubscriptionTopic::Lists);
        }
        Ok(connection)
    }

    fn listen_for(&self, key: String, topic: SubscriptionTopic) {
        let subscription_task =
            subscription::listen(self.peer.clone(), topic, Arc::clone(&self.listener));
        let subscription_task = tokio::spawn(subscription_task).abort_handle();
        let mut subscriptions = self.subscriptions.lock();
        if let Some(previous) = subscriptions.insert(key, subscription_task) {
            previous.abort();
        }
    }

    /// Subscribes to updates of a resource, or unsubscribes.
    pub(super) async fn watch_resource(
        &self,
        uri: &str,
        on: bool,
        time_limit: Duration,
    ) -> Result<(), ToolError> {
        match (self.generation, on) {
            (ProtocolGeneration::Handshake, _) => self
                .send_request(watch_request(uri, on), time_limit)
                .await
                .map(|_| ()),
            (ProtocolGeneration::Discovery, true) => {
                self.listen_for(uri.to_owned(), SubscriptionTopic::Resource(uri.to_owned()));
                Ok(())
            }
            (ProtocolGeneration::Discovery, false) => {
                let mut subscriptions = self.subscriptions.lock();
                if let Some(subscription_task) = subscriptions.remove(uri) {
                    subscription_task.abort();
                }
                Ok(())
            }
        }
    }

    /// Returns true if no more requests can be sent.
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Returns true if the tools may have changed since they were last listed.
    pub(super) fn take_stale(&self) -> bool {
        // No short-circuit: both flags have to be cleared.
        self.listener.take_stale() | self.close_reason.flood.swap(false, Ordering::AcqRel)
    }

    /// Returns the server's name and version.
    pub(super) fn server_info(&self) -> (String, String) {
        let info = self.peer.peer_info();
        let info = info.as_ref().and_then(|info| info.server_info.as_ref());
        let text = |theirs: &str| self.close_reason.mask_text(theirs, MAX_SERVER_TEXT_CHARS);
        info.map(|info| (text(&info.name), text(&info.version)))
            .unwrap_or_default()
    }

    /// Returns the server's list of a kind, unchanged except for masked secrets, up to `remaining` bytes; the
    /// flag is true if there is more.
    pub(super) async fn list(
        &self,
        kind: ServerListKind,
        time_limit: Duration,
        remaining: &mut usize,
    ) -> Result<(Vec<Value>, bool), ToolError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor.take();
            let result = self
                .send_request(kind.build_request(params), time_limit)
                .await?;
            // rmcp rejects the whole list for one invalid tool; parsing the JSON does not.
            let mut page = serde_json::to_value(&result).unwrap_or_default();
            drop(result);
            let key = kind.key();
            let Value::Array(page_items) = page[key].take() else {
                let message = format!("the server's response does not contain a list of {key}");
                return Err(ToolError::execution(message));
            };
            for mut item in page_items {
                let length = item.to_string().len();
                if items.len() == MAX_ITEMS || length > *remaining {
                    return Ok((items, true));
                }
                *remaining -= length;
                mask_known_secrets(&self.close_reason.redactor, &mut item);
                items.push(item);
            }
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok((items, cursor.is_some()))
    }

    /// Sends a call and waits for the result. The server's requests go to the broker. Dropping the future cancels the
    /// call at the server.
    pub(super) async fn call(
        &self,
        operation: &ServerOperation,
        broker: &Arc<InputRequestBroker>,
        time_limit: Option<Duration>,
    ) -> Result<ServerResult, ToolError> {
        let mut round = OperationRound::default();
        for _ in 0..MAX_ROUNDS {
            let request = operation.build_request(round);
            let result = self.try_round(request, broker, time_limit).await;
            if self.requires_task(&result)
                && let Some(result) = self.call_as_task(operation, broker, time_limit).await?
            {
                return Ok(result);
            }
            let result = result.map_err(|error| self.service_error(error))?;
            let input_required = match result {
                ServerResult::InputRequiredResult(input_required) => input_required,
                ServerResult::CreateTaskResult(created) if self.capabilities().supports_tasks() => {
                    return self.await_task(created.task, broker, time_limit).await;
                }
                result => return Ok(result),
            };
            let requests = input_required.input_requests.unwrap_or_default();
            round = OperationRound {
                responses: Some(broker.answer_requests(requests).await?),
                state: input_required.request_state,
            };
        }
        let server = &self.close_reason.server;
        let message = format!("the server `{server}` keeps sending requests instead of a result");
        Err(ToolError::limit_exceeded(message))
    }

    async fn send_round(
        &self,
        request: ClientRequest,
        broker: &Arc<InputRequestBroker>,
        time_limit: Option<Duration>,
    ) -> Result<ServerResult, ToolError> {
        let result = self.try_round(request, broker, time_limit).await;
        result.map_err(|error| self.service_error(error))
    }

    async fn try_round(
        &self,
        request: ClientRequest,
        broker: &Arc<InputRequestBroker>,
        time_limit: Option<Duration>,
    ) -> Result<ServerResult, ServiceError> {
        let mut options = match time_limit {
            Some(time_limit) => PeerRequestOptions::with_timeout(time_limit),
            None => PeerRequestOptions::no_options(),
        };
        options.meta = self.request_meta(broker);
        let registered = self.listener.register_call(Arc::clone(broker));
        let pending = self.peer.send_request_with_option(request, options).await?;
        registered.set_token(pending.progress_token.clone());
        let mut waiting = RequestCancelGuard {
            connection: self,
            id: Some(pending.id.clone()),
        };
        let result = pending.await_response().await;
        // The call has a response, or rmcp has cancelled it already.
        waiting.id = None;
        result
    }

    /// Returns the metadata of a request of a call: the trace context, and the capabilities. Each request declares its
    /// capabilities, because they depend on the client.
    fn request_meta(&self, broker: &InputRequestBroker) -> Option<RequestMetaObject> {
        let mut meta = RequestMetaObject::new();
        let trace = broker.observer().trace_context();
        if let Some(trace) = trace {
            meta.insert(TRACEPARENT.to_owned(), trace.traceparent().into());
            if let Some(state) = trace.tracestate() {
                meta.insert(TRACESTATE.to_owned(), state.into());
            }
        }
        if self.generation != ProtocolGeneration::Discovery {
            return trace.is_some().then_some(meta);
        }
        let mut capabilities = broker.declared_capabilities();
        if self.capabilities().supports_tasks() {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        meta.set_client_capabilities(capabilities);
        Some(meta)
    }

    /// Sends a request that is not a tool call.
    pub(super) async fn send_request(
        &self,
        request: ClientRequest,
        time_limit: Duration,
    ) -> Result<ServerResult, ToolError> {
        let options = PeerRequestOptions::with_timeout(time_limit);
        let pending = self.peer.send_request_with_option(request, options).await;
        let pending = pending.map_err(|error| self.service_error(error))?;
        let result = pending.await_response().await;
        result.map_err(|error| self.service_error(error))
    }

    /// Returns the capabilities that the server declared.
    pub(super) fn capabilities(&self) -> ServerCapabilities {
        let info = self.peer.peer_info();
        info.as_ref()
            .map(|info| info.capabilities.clone())
            .unwrap_or_default()
    }

    /// Returns the error for a request that could not be sent. A program that cannot be reached has ended.
    fn unanswered_error(&self, error: &DynamicTransportError) -> ToolError {
        match http_transport::describe_request_failure(error) {
            Some(failure) => {
                let failure = self.close_reason.mask_text(&failure, MAX_SERVER_TEXT_CHARS);
                self.close_reason
                    .error(&format!("did not answer the request: {failure}"))
            }
            None => self.ended_error(),
        }
    }

    fn ended_error(&self) -> ToolError {
        self.close_reason.error("ended before it answered")
    }

    fn service_error(&self, error: ServiceError) -> ToolError {
        let server = &self.close_reason.server;
        match error {
            ServiceError::McpError(error) => {
                let text = self
                    .close_reason
                    .mask_text(&error.message, MAX_SERVER_TEXT_CHARS);
                let code = error.code.0;
                let message = format!("the server `{server}` returned an error: {text} ({code})");
                let kind = match error.code {
                    ErrorCode::RESOURCE_NOT_FOUND => ToolErrorCode::NotFound,
                    _ => ToolErrorCode::ExecutionError,
                };
                let mut details = json!({ "protocolCode": code });
                // A required client capability is reported to the client in structured form.
                if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                    && let Some(mut data) = error.data
                {
                    self.close_reason.redactor.mask_value(&mut data);
                    details["data"] = data;
                }
                ToolError::new(kind, message).with_details(details)
            }
            ServiceError::Timeout { timeout } => {
                let millis = timeout.as_millis();
                let message = format!("the server `{server}` did not answer within {millis} ms");
                ToolError::new(ToolErrorCode::Timeout, message)
            }
            ServiceError::TransportSend(error) => match http_transport::denial_reason(&error) {
                Some(denied) => denied.clone(),
                None => self.unanswered_error(&error),
            },
            ServiceError::TransportClosed => self.ended_error(),
            other => {
                let text = self
                    .close_reason
                    .mask_text(&other.to_string(), MAX_SERVER_TEXT_CHARS);
                let message = format!("the server `{server}` violated the protocol: {text}");
                ToolError::execution(message)
            }
        }
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        let subscriptions = self.subscriptions.get_mut();
        subscriptions.values().for_each(AbortHandle::abort);
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }
}

/// Cancels a call at the server when dropped, unless the response has arrived.
struct RequestCancelGuard<'a> {
    connection: &'a ServerConnection,
    id: Option<RequestId>,
}

impl Drop for RequestCancelGuard<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let why = "the call was cancelled".to_owned();
        let params = CancelledNotificationParam::new(Some(id), Some(why));
        let notification = CancelledNotification::new(params);
        let peer = self.connection.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // An error means that the connection has ended.
                let _ = peer.send_notification(notification.into()).await;
            });
        }
    }
}
