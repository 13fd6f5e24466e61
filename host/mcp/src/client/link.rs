//! A connection to a server that runs: what is asked of it, and why it ended.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mimir_core::{Code, ToolError};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, ErrorCode,
    PaginatedRequestParams, ProgressToken, ProtocolVersion, RequestId, RequestMetaObject,
    ServerCapabilities, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, PeerRequestOptions, RunningService,
    RunningServiceCancellationToken, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::attentive::Attentive;
use super::begun;
use super::described::mask_known;
use super::desk::Desk;
use super::ears::{Ears, Hearing};
use super::end::WORDS_MOST;
use super::news::{self, About};
use super::wanted::{Kind, Round, Wanted, watching};
use super::web;

pub(super) use super::end::End;

/// Pages of tools that are read. A server that has ever one more is not listed to its end.
const PAGES_MOST: usize = 50;

/// Items of a kind that are read. No model chooses among more tools.
pub(super) const ITEMS_MOST: usize = 1_000;

/// Rounds of a call in which a server answers with what it wants to know.
const ROUNDS_MOST: usize = 10;

/// Something that goes on for as long as a connection: a program that runs. Dropping it ends that.
pub(super) type Held = Box<dyn Send + Sync>;

/// A connection to a server.
pub(super) struct Link {
    peer: Peer<RoleClient>,
    stop: Option<RunningServiceCancellationToken>,
    pub(super) ears: Arc<Ears>,
    pub(super) end: Arc<End>,
    era: Era,
    /// What is heard on subscriptions, by the URI of a resource, or nothing for all lists.
    heard: Mutex<HashMap<String, AbortHandle>>,
    /// Held by whoever asks what its tools are: whoever calls one meanwhile waits for the answer.
    pub(super) following: tokio::sync::Mutex<()>,
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

impl Era {
    /// The other one.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Handshake => Self::Discovery,
            Self::Discovery => Self::Handshake,
        }
    }
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
        let transport = Attentive::new(transport, Arc::clone(&ears), Arc::clone(&end));
        let begun = serve_client_with_lifecycle(hearing, transport, lifecycle).await;
        let running: RunningService<RoleClient, Hearing> = begun.map_err(|error| {
            if let ClientInitializeError::TransportError { error, .. } = &error
                && let Some(denied) = web::why_denied(error)
            {
                return Unbegun::Failed(denied.clone());
            }
            // Some answer what they do not know with a result that is none, and some with nothing at all.
            let refused = match &error {
                ClientInitializeError::JsonRpcError(_)
                | ClientInitializeError::ExpectedInitResult(_) => true,
                ClientInitializeError::ConnectionClosed(_) => era == Era::Discovery,
                _ => false,
            };
            let words = match &error {
                // What stands round it is how rmcp is built.
                ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
                other => begun::words(other, era),
            };
            let words = end.words(&words, WORDS_MOST);
            let error = end.error(&format!("did not begin as the protocol has it: {words}"));
            match refused {
                true => Unbegun::Refused(error),
                false => Unbegun::Failed(error),
            }
        })?;
        begun::known(running.peer(), era, &end)?;
        let link = Self {
            peer: running.peer().clone(),
            stop: Some(running.cancellation_token()),
            ears,
            end,
            era,
            heard: Mutex::default(),
            following: tokio::sync::Mutex::default(),
            _held: held,
        };
        // It ends when it is told to, and not when nobody looks at it.
        tokio::spawn(running.waiting());
        let can = link.abilities();
        let lists = [
            can.tools.and_then(|can| can.list_changed),
            can.prompts.and_then(|can| can.list_changed),
            can.resources.and_then(|can| can.list_changed),
        ];
        if era == Era::Discovery && lists.contains(&Some(true)) {
            link.hear(String::new(), About::Lists);
        }
        Ok(link)
    }

    fn hear(&self, key: String, about: About) {
        let hearing = news::hear(self.peer.clone(), about, Arc::clone(&self.ears));
        let hearing = tokio::spawn(hearing).abort_handle();
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = heard.insert(key, hearing) {
            before.abort();
        }
    }

    /// Has the server say when a resource is another, or say so no more.
    pub(super) async fn watch(
        &self,
        uri: &str,
        on: bool,
        patience: Duration,
    ) -> Result<(), ToolError> {
        match (self.era, on) {
            (Era::Handshake, _) => self.ask(watching(uri, on), patience).await.map(|_| ()),
            (Era::Discovery, true) => {
                self.hear(uri.to_owned(), About::Resource(uri.to_owned()));
                Ok(())
            }
            (Era::Discovery, false) => {
                let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(hearing) = heard.remove(uri) {
                    hearing.abort();
                }
                Ok(())
            }
        }
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
        let words = |theirs: &str| self.end.words(theirs, WORDS_MOST);
        info.map(|info| (words(&info.name), words(&info.version)))
            .unwrap_or_default()
    }

    /// What it has of a kind, as it writes it but for secrets, as far as there is `room` for it; whether there is more.
    pub(super) async fn list(
        &self,
        kind: Kind,
        patience: Duration,
        room: &mut usize,
    ) -> Result<(Vec<Value>, bool), ToolError> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MOST {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor.take();
            let result = self.ask(kind.request(params), patience).await?;
            // One tool that is none makes the whole list another thing to rmcp, and not to us.
            let mut page = serde_json::to_value(&result).unwrap_or_default();
            drop(result);
            let key = kind.key();
            let Value::Array(items) = page[key].take() else {
                let message = format!("the server does not say what its {key} are");
                return Err(ToolError::new(Code::ExecutionError, message));
            };
            for mut item in items {
                let length = item.to_string().len();
                if all.len() == ITEMS_MOST || length > *room {
                    return Ok((all, true));
                }
                *room -= length;
                mask_known(&self.end.redactor, &mut item);
                all.push(item);
            }
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok((all, cursor.is_some()))
    }

    /// Asks for the result of a call. What the server wants to know meanwhile goes over the desk. Dropping the future
    /// tells the server that nobody waits any more.
    pub(super) async fn call(
        &self,
        wanted: &Wanted,
        desk: &Arc<Desk>,
        time: Option<Duration>,
    ) -> Result<ServerResult, ToolError> {
        let mut round = Round::default();
        for _ in 0..ROUNDS_MOST {
            let answer = self.round(wanted.request(round), desk, time).await?;
            let ServerResult::InputRequiredResult(asked) = answer else {
                return Ok(answer);
            };
            let requests = asked.input_requests.unwrap_or_default();
            round = Round {
                responses: Some(desk.requests(requests).await?),
                state: asked.request_state,
            };
        }
        let server = &self.end.server;
        let message = format!("the server `{server}` asks on and on, and does not answer");
        Err(ToolError::new(Code::LimitExceeded, message))
    }

    async fn round(
        &self,
        request: ClientRequest,
        desk: &Arc<Desk>,
        time: Option<Duration>,
    ) -> Result<ServerResult, ToolError> {
        let mut options = match time {
            Some(time) => PeerRequestOptions::with_timeout(time),
            None => PeerRequestOptions::no_options(),
        };
        if self.era == Era::Discovery {
            // Each request says what there is for it: this client may have less than another.
            let mut meta = RequestMetaObject::new();
            meta.set_client_capabilities(desk.declared());
            options.meta = Some(meta);
        }
        let asked = self.peer.send_request_with_option(request, options).await;
        let asked = asked.map_err(|error| self.fault(error))?;
        self.ears
            .watch(asked.progress_token.clone(), Arc::clone(desk));
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

    /// Asks for something that is no call.
    pub(super) async fn ask(
        &self,
        request: ClientRequest,
        patience: Duration,
    ) -> Result<ServerResult, ToolError> {
        let options = PeerRequestOptions::with_timeout(patience);
        let asked = self.peer.send_request_with_option(request, options).await;
        let asked = asked.map_err(|error| self.fault(error))?;
        let answer = asked.await_response().await;
        answer.map_err(|error| self.fault(error))
    }

    /// What the server says that it can.
    pub(super) fn abilities(&self) -> ServerCapabilities {
        let info = self.peer.peer_info();
        info.as_ref()
            .map(|info| info.capabilities.clone())
            .unwrap_or_default()
    }

    fn ended(&self) -> ToolError {
        self.end.error("ended before it answered")
    }

    fn fault(&self, error: ServiceError) -> ToolError {
        let server = &self.end.server;
        match error {
            ServiceError::McpError(error) => {
                let words = self.end.words(&error.message, WORDS_MOST);
                let code = error.code.0;
                let message = format!("the server `{server}` refused: {words} ({code})");
                let kind = match error.code {
                    ErrorCode::RESOURCE_NOT_FOUND => Code::NotFound,
                    _ => Code::ExecutionError,
                };
                let mut details = json!({ "protocolCode": code });
                // What of the client a server cannot do without is for the client to read.
                if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                    && let Some(mut data) = error.data
                {
                    self.end.redactor.value(&mut data);
                    details["data"] = data;
                }
                ToolError::new(kind, message).with_details(details)
            }
            ServiceError::Timeout { timeout } => {
                let millis = timeout.as_millis();
                let message = format!("the server `{server}` did not answer within {millis} ms");
                ToolError::new(Code::Timeout, message)
            }
            ServiceError::TransportSend(error) => match web::why_denied(&error) {
                Some(denied) => denied.clone(),
                None => self.ended(),
            },
            ServiceError::TransportClosed => self.ended(),
            other => {
                let words = self.end.words(&other.to_string(), WORDS_MOST);
                let message = format!("the server `{server}` broke the protocol: {words}");
                ToolError::new(Code::ExecutionError, message)
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let heard = self.heard.get_mut().unwrap_or_else(PoisonError::into_inner);
        heard.values().for_each(AbortHandle::abort);
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
