//! A connection to a server that runs: what is asked of it, and why it ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mimir_core::call::Observer;
use mimir_core::text::{self, prefix, visible};
use mimir_core::{Code, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientRequest, JsonObject, ListToolsRequest, PaginatedRequestParams, ProgressToken,
    ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, PeerRequestOptions, RunningService,
    RunningServiceCancellationToken, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient};
use serde_json::Value;

use super::ears::{Ears, Hearing};

/// Pages of tools that are read. A server that has ever one more is not listed to its end.
const PAGES_MOST: usize = 50;

/// Lines of a server's stderr that are kept for the message that says why it ended.
const LAST_WORDS: usize = 3;

/// Characters of a server's own words in a message of ours.
const WORDS_MOST: usize = 500;

/// Why a connection ended, as far as anybody found out.
#[derive(Default)]
pub(super) struct End {
    server: String,
    why: Mutex<Option<ToolError>>,
    words: Mutex<Vec<String>>,
    strange: AtomicBool,
    flood: AtomicBool,
}

impl End {
    pub(super) fn new(server: &str) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            ..Self::default()
        })
    }

    /// The first reason is the one.
    pub(super) fn because(&self, error: ToolError) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert(error);
    }

    pub(super) fn because_too_long(&self, most: u64) {
        let most = text::bytes(most);
        let server = &self.server;
        let message =
            format!("the server `{server}` sent a message of more than {most} and was stopped");
        self.because(ToolError::new(Code::LimitExceeded, message));
    }

    /// More notifications came than are heard. Among them may have been that its tools have changed.
    pub(super) fn flooded(&self) {
        if !self.flood.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                server = self.server,
                "the server floods mimir with notifications; most are not heard"
            );
        }
    }

    /// A line that is no message. One such line is told.
    pub(super) fn strange(&self, line: &[u8], error: &serde_json::Error) {
        if !self.strange.swap(true, Ordering::AcqRel) {
            let line = visible(prefix(&String::from_utf8_lossy(line), WORDS_MOST));
            tracing::warn!(server = self.server, %error, "the server writes what is no message: {line}");
        }
    }

    /// A line of its stderr.
    pub(super) fn said(&self, line: &str) {
        tracing::info!(server = self.server, "{line}");
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() == LAST_WORDS {
            words.remove(0);
        }
        words.push(line.to_owned());
    }

    /// Why it ended, with the last words that it said; `else_` where nobody knows.
    pub(super) fn error(&self, else_: &str) -> ToolError {
        let why = self
            .why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut error = why.unwrap_or_else(|| {
            ToolError::new(
                Code::ExecutionError,
                format!("the server `{}` {else_}", self.server),
            )
        });
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if !words.is_empty() {
            let words = words.join(" / ");
            error
                .message
                .push_str(&format!("; its last words: {}", prefix(&words, WORDS_MOST)));
        }
        error
    }
}

/// Something that goes on for as long as a connection: a program that runs. Dropping it ends that.
pub(super) type Held = Box<dyn Send + Sync>;

/// A connection to a server.
pub(super) struct Link {
    peer: Peer<RoleClient>,
    stop: Option<RunningServiceCancellationToken>,
    pub(super) ears: Arc<Ears>,
    pub(super) end: Arc<End>,
    _held: Held,
}

/// How a conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// With a handshake, as most servers have it.
    Handshake,
    /// With a question what the server speaks, as from 2026-07-28 on.
    Discovery,
}

/// Why a conversation did not begin.
pub(super) enum Unbegun {
    /// The server does not know how: perhaps it is of another era.
    Refused(ToolError),
    Failed(ToolError),
}

impl Link {
    /// Begins to speak with a server.
    pub(super) async fn begin<T>(
        transport: T,
        era: Era,
        ears: Arc<Ears>,
        end: Arc<End>,
        held: Held,
    ) -> Result<Self, Unbegun>
    where
        T: Transport<RoleClient> + 'static,
    {
        let lifecycle = match era {
            Era::Handshake => ClientLifecycleMode::Initialize,
            Era::Discovery => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        };
        let hearing = Hearing(Arc::clone(&ears));
        let begun = serve_client_with_lifecycle(hearing, transport, lifecycle).await;
        let running: RunningService<RoleClient, Hearing> = begun.map_err(|error| {
            let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
            let words = visible(prefix(&error.to_string(), WORDS_MOST));
            let error = end.error(&format!("did not begin as the protocol has it: {words}"));
            match refused {
                true => Unbegun::Refused(error),
                false => Unbegun::Failed(error),
            }
        })?;
        let link = Self {
            peer: running.peer().clone(),
            stop: Some(running.cancellation_token()),
            ears,
            end,
            _held: held,
        };
        // It ends when it is told to, and not when nobody looks at it.
        tokio::spawn(running.waiting());
        Ok(link)
    }

    /// Whether nothing more can be asked.
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Whether its tools may be others than when it was asked last.
    pub(super) fn take_stale(&self) -> bool {
        // Each has to be asked, whatever the other says.
        self.ears.take_stale() | self.end.flood.swap(false, Ordering::AcqRel)
    }

    /// The server's own name and version.
    pub(super) fn server(&self) -> (String, String) {
        let info = self.peer.peer_info();
        let info = info.as_ref().and_then(|info| info.server_info.as_ref());
        info.map(|info| (info.name.clone(), info.version.clone()))
            .unwrap_or_default()
    }

    /// Its tools, as it writes them.
    pub(super) async fn tools(&self, patience: Duration) -> Result<Vec<Value>, ToolError> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MOST {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor.take();
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let options = PeerRequestOptions::with_timeout(patience);
            let asked = self.peer.send_request_with_option(request, options).await;
            let asked = asked.map_err(|error| self.fault(error))?;
            let result = asked
                .await_response()
                .await
                .map_err(|error| self.fault(error))?;
            // One tool that is none makes the whole list another thing to rmcp, and not to us.
            let page = serde_json::to_value(&result).unwrap_or_default();
            let Some(page_tools) = page["tools"].as_array() else {
                let message = "the server does not say what its tools are";
                return Err(ToolError::new(Code::ExecutionError, message));
            };
            tools.extend(page_tools.iter().cloned());
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok(tools)
    }

    /// Calls a tool. Dropping the future tells the server that nobody waits any more.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        observer: Arc<dyn Observer>,
        time: Option<Duration>,
    ) -> Result<ServerResult, ToolError> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = match time {
            Some(time) => PeerRequestOptions::with_timeout(time),
            None => PeerRequestOptions::no_options(),
        };
        let asked = self.peer.send_request_with_option(request, options).await;
        let asked = asked.map_err(|error| self.fault(error))?;
        self.ears.watch(asked.progress_token.clone(), observer);
        let mut waiting = Waiting {
            link: self,
            id: Some(asked.id.clone()),
            token: asked.progress_token.clone(),
        };
        let answer = asked.await_response().await;
        // It was answered, or rmcp has told the server already.
        waiting.id = None;
        answer.map_err(|error| self.fault(error))
    }

    fn fault(&self, error: ServiceError) -> ToolError {
        let server = &self.end.server;
        match error {
            ServiceError::McpError(error) => {
                let words = prefix(&error.message, WORDS_MOST);
                let code = error.code.0;
                let message = format!("the server `{server}` refused: {words} ({code})");
                ToolError::new(Code::ExecutionError, message)
            }
            ServiceError::Timeout { timeout } => {
                let millis = timeout.as_millis();
                let message = format!("the server `{server}` did not answer within {millis} ms");
                ToolError::new(Code::Timeout, message)
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                self.end.error("ended before it answered")
            }
            other => {
                let words = visible(prefix(&other.to_string(), WORDS_MOST));
                let message = format!("the server `{server}` broke the protocol: {words}");
                ToolError::new(Code::ExecutionError, message)
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }
}

/// A call that is waited for.
struct Waiting<'a> {
    link: &'a Link,
    id: Option<RequestId>,
    token: ProgressToken,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.ears.forget(&self.token);
        let Some(id) = self.id.take() else { return };
        let why = "nobody waits for the answer any more".to_owned();
        let params = CancelledNotificationParam::new(Some(id), Some(why));
        let note = CancelledNotification::new(params);
        let peer = self.link.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A server that is gone needs not be told.
                let _ = peer.send_notification(note.into()).await;
            });
        }
    }
}
