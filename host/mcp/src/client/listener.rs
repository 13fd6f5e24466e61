//! Messages that a server initiates: progress, log lines, change notifications, and requests, which the input request
//! broker of the current call handles.

#![expect(
    deprecated,
    reason = "the newest protocol has no sampling, roots and logging; servers of the older ones still do"
)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::call::{CallProgress, LogLevel, LogLine};
use mimir_core::redact::{REACH, Redactor};
use mimir_core::text::{prefix, visible};
use mimir_core::upstream_request::UpstreamRequestKind;
use parking_lot::Mutex;
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
    ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult,
    LoggingLevel, LoggingMessageNotificationParam, NumberOrString, ProgressNotificationParam,
    ProgressToken, ProtocolVersion, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};

use super::input_broker::elicitation_kind;
use super::input_broker::{AllowedRequests, InputRequestBroker};
use super::invalid_request::invalid_request;
use super::rate_limit::{self, MessageRateLimiter};
use super::spec::ServerSpec;

/// Maximum length of a progress message in characters, as for other tools. The client observer limits the rate.
const MAX_MESSAGE_CHARS: usize = 500;

/// Maximum length of a log line in characters.
const MAX_LINE_CHARS: usize = 4_096;

/// Maximum number of progress messages that are stored until their call is known.
const MAX_EARLY_MESSAGES: usize = 64;

/// Calls in progress by number, and progress that arrived before its call had a token, newest first.
#[derive(Default)]
struct ActiveCalls {
    next_number: u64,
    calls: HashMap<u64, ActiveCall>,
    early: VecDeque<(ProgressToken, CallProgress)>,
}

struct ActiveCall {
    broker: Arc<InputRequestBroker>,
    /// `None` until the call has been sent.
    token: Option<ProgressToken>,
}

/// A call that receives messages from its server. Dropping it unregisters the call; later messages for the call are
/// dropped.
pub(super) struct RegisteredCall<'a> {
    listener: &'a ServerListener,
    number: u64,
}

impl RegisteredCall<'_> {
    /// Sets the token that the server's progress messages carry.
    pub(super) fn set_token(&self, token: ProgressToken) {
        let mut active = self.listener.active_calls.lock();
        let ActiveCalls { calls, early, .. } = &mut *active;
        let Some(call) = calls.get_mut(&self.number) else {
            return;
        };
        // The lock ensures that progress received from now on is delivered after the early progress.
        while let Some(at) = early
            .iter()
            .rposition(|(early_token, _)| *early_token == token)
        {
            if let Some((_, progress)) = early.remove(at) {
                call.broker.observer().progress(progress);
            }
        }
        call.token = Some(token);
    }
}

impl Drop for RegisteredCall<'_> {
    fn drop(&mut self) {
        let mut active = self.listener.active_calls.lock();
        active.calls.remove(&self.number);
    }
}

/// A changed resource of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceUpdate {
    pub(crate) server: String,
    /// URI of the resource at the server.
    pub(crate) uri: String,
}

/// Sender of resource updates.
pub(super) type ResourceUpdates = broadcast::Sender<ResourceUpdate>;

/// Receives the messages of one server.
pub(super) struct ServerListener {
    server: String,
    allowed: AllowedRequests,
    updates: ResourceUpdates,
    redactor: Redactor,
    active_calls: Mutex<ActiveCalls>,
    log_limiter: Mutex<MessageRateLimiter>,
    /// Set if the tools may have changed since they were last listed.
    stale: AtomicBool,
    /// Notified when `stale` is set.
    changed: Notify,
}

impl ServerListener {
    pub(super) fn new(
        spec: &ServerSpec,
        updates: &ResourceUpdates,
        redactor: Redactor,
    ) -> Arc<Self> {
        Arc::new(Self {
            server: spec.name.clone(),
            allowed: spec.allowed_requests.clone(),
            updates: updates.clone(),
            redactor,
            active_calls: Mutex::default(),
            log_limiter: Mutex::new(rate_limit::log_limit()),
            stale: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Registers a call that is about to be sent: progress and requests of the server go to the call's broker. The
    /// server may send them before the transport reports the call as sent.
    pub(super) fn register_call(&self, broker: Arc<InputRequestBroker>) -> RegisteredCall<'_> {
        let mut active = self.active_calls.lock();
        let number = active.next_number;
        active.next_number += 1;
        let token = None;
        active.calls.insert(number, ActiveCall { broker, token });
        RegisteredCall {
            listener: self,
            number,
        }
    }

    /// Returns the broker for messages that name no call, or `None` if they may belong to several sessions.
    fn only_broker(&self) -> Option<Arc<InputRequestBroker>> {
        let active = self.active_calls.lock();
        let mut brokers = active.calls.values().map(|call| &call.broker);
        let first = brokers.next()?;
        brokers
            .all(|other| other.session() == first.session())
            .then(|| Arc::clone(first))
    }

    /// Handles a request of the server.
    async fn handle_request(
        &self,
        kind: UpstreamRequestKind,
        params: Value,
    ) -> Result<Value, ErrorData> {
        if !self.allowed.allows(kind) {
            return Err(unsupported_request(kind));
        }
        let Some(broker) = self.only_broker() else {
            let message = "mimir answers this request only during a call, and only if no other session has a call in progress";
            return Err(ErrorData::invalid_request(message, None));
        };
        broker.answer_request(kind, params).await.map_err(|error| {
            ErrorData::invalid_request(error.to_string(), Some(json!({ "code": error.code })))
        })
    }

    /// Returns true if the tools have to be listed again, and clears the flag.
    pub(super) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }

    /// Sets the flag again after a failed attempt to list the tools.
    pub(super) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Handles a progress notification.
    pub(super) fn handle_progress(&self, notification: &ProgressNotificationParam) {
        // NaN and negative numbers count as zero steps.
        let steps = |number: f64| number.max(0.0) as u64;
        let message = notification.message.as_deref();
        let progress = CallProgress {
            done: steps(notification.progress),
            total: notification.total.map(steps),
            message: message.map(|words| visible(prefix(words, MAX_MESSAGE_CHARS))),
        };
        let observer = {
            let mut active = self.active_calls.lock();
            let token = &notification.progress_token;
            let mut calls = active.calls.values();
            let call = calls.find(|call| call.token.as_ref() == Some(token));
            match (call, &token.0) {
                (Some(call), _) => Arc::clone(call.broker.observer()),
                // The call has been sent, but its token is not set yet. mimir's tokens are numbers.
                (None, NumberOrString::Number(_)) => {
                    active.early.truncate(MAX_EARLY_MESSAGES - 1);
                    active.early.push_front((token.clone(), progress));
                    return;
                }
                (None, NumberOrString::String(_)) => return,
            }
        };
        observer.progress(progress);
    }

    /// Handles a log message.
    pub(super) fn handle_log(&self, line: &LoggingMessageNotificationParam) {
        {
            let mut limiter = self.log_limiter.lock();
            if !limiter.try_take() {
                return;
            }
        }
        let text = match line.data.as_str() {
            Some(text) => text.to_owned(),
            None => line.data.to_string(),
        };
        // Masked before truncation, so that no partial secret remains.
        let mut text = visible(prefix(&text, MAX_LINE_CHARS + REACH));
        self.redactor.mask_text(&mut text);
        let text = prefix(&text, MAX_LINE_CHARS).to_owned();
        tracing::info!(server = self.server, level = ?line.level, "{text}");
        // A client gets only logs of its own call.
        if let Some(broker) = self.only_broker() {
            broker.observer().log(LogLine {
                level: to_log_level(line.level),
                text,
            });
        }
    }

    /// Handles a resource update.
    pub(super) fn handle_resource_update(&self, uri: String) {
        let server = self.server.clone();
        // An error means that there are no subscribers.
        let _ = self.updates.send(ResourceUpdate { server, uri });
    }

    /// Marks the lists as changed.
    pub(super) fn mark_changed(&self) {
        self.stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until the server's tools have changed.
    pub(super) async fn wait_for_change(&self) {
        self.changed.notified().await;
    }
}

/// Returns the error for a request whose support mimir has not declared.
fn unsupported_request(kind: UpstreamRequestKind) -> ErrorData {
    let method = kind.method();
    ErrorData::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("mimir does not support {method} for this server, and has not declared it"),
        None,
    )
}

fn to_value(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

fn from_value<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, ErrorData> {
    serde_json::from_value(answer).map_err(|error| {
        ErrorData::internal_error(format!("the answer is not valid: {error}"), None)
    })
}

/// rmcp's client handler for a server. Clones share their state. `OrderedTransport` handles progress and log messages
/// earlier, in order of arrival.
#[derive(Clone)]
pub(super) struct ServerMessageHandler(pub(super) Arc<ServerListener>);

impl ClientHandler for ServerMessageHandler {
    fn get_info(&self) -> ClientConfig {
        // Declares all requests that the settings allow: the capabilities of a client are known only when it calls.
        let implementation = Implementation::new("mimir", env!("CARGO_PKG_VERSION"));
        // This declaration is part of a handshake, which the newest version does not have.
        ClientConfig::new(
            self.0.allowed.declared_capabilities(|_| true),
            implementation,
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        from_value(
            self.0
                .handle_request(UpstreamRequestKind::Model, to_value(&params))
                .await?,
        )
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        from_value(
            self.0
                .handle_request(UpstreamRequestKind::Roots, json!({}))
                .await?,
        )
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        from_value(
            self.0
                .handle_request(elicitation_kind(&params), to_value(&params))
                .await?,
        )
    }

    /// Handles every other request: an unknown method, or params that do not match the method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let kinds = [
            UpstreamRequestKind::Form,
            UpstreamRequestKind::Model,
            UpstreamRequestKind::Roots,
        ];
        let kind = kinds
            .into_iter()
            .find(|kind| kind.method() == request.method);
        Err(match kind {
            Some(kind) if self.0.allowed.allows(kind) => invalid_request(kind, request.params),
            Some(kind) => unsupported_request(kind),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn on_resource_updated(
        &self,
        updated: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.handle_resource_update(updated.uri);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.mark_changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.mark_changed();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.mark_changed();
    }
}

fn to_log_level(level: LoggingLevel) -> LogLevel {
    match level {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info | LoggingLevel::Notice => LogLevel::Info,
        LoggingLevel::Warning => LogLevel::Warn,
        _ => LogLevel::Error,
    }
}
