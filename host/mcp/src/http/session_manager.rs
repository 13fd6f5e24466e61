//! Limit on the number of sessions. rmcp creates a session only after a valid handshake; at that point an idle session
//! is ended if needed. Sessions are created one at a time, so that the limit is never exceeded.
//!
//! Out of scope: the owner and the messages of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::{ServerSseMessage, SessionId};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionHandle, LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{RestoreOutcome, SessionManager};
use thiserror::Error;
use tokio::sync::Mutex;

use super::replicas::{ReplicaSet, SealedSession, original_event_id, original_message, with_node};
use super::session_table::{SessionLease, SessionTable};
use super::{MAX_SESSIONS, Principal, SESSION_IDLE};

/// Session manager with a limit.
pub(super) struct BoundedSessionManager {
    inner: LocalSessionManager,
    table: SessionTable,
    /// The replicas of this server, which may continue its sessions.
    replicas: Option<Arc<ReplicaSet>>,
    /// Discards what this server holds for a session that another one may continue.
    discard: Box<dyn Fn(&str) + Send + Sync>,
    /// Held while a session is created.
    creation: Mutex<()>,
}

/// The scope of a request that may create a session. Clones share its state.
#[derive(Clone)]
pub(super) struct RequestScope(Arc<RequestScopeState>);

struct RequestScopeState {
    principal: Principal,
    /// Params of the handshake, if the session may be continued by another replica.
    handshake: Option<Box<InitializeRequestParams>>,
    full: AtomicBool,
    /// Keeps the new session in use until the response to the handshake has been sent.
    lease: parking_lot::Mutex<Option<SessionLease>>,
}

tokio::task_local! {
    /// Scope of the current request.
    static REQUEST_SCOPE: RequestScope;
}

/// Returns the principal of the current request.
pub(super) fn current_principal() -> Option<Principal> {
    let scope = REQUEST_SCOPE.try_with(RequestScope::clone).ok()?;
    Some(scope.0.principal.clone())
}

/// Reason why a session was not created.
#[derive(Debug, Error)]
pub(super) enum SessionLimitError {
    #[error("too many sessions, and none of them is idle")]
    Full,
    #[error("the event belongs to a stream of another replica, which has ended")]
    OtherReplica,
    #[error("no session id can be created")]
    NoSessionId,
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl RequestScope {
    pub(super) fn new(
        principal: Principal,
        handshake: Option<Box<InitializeRequestParams>>,
    ) -> Self {
        Self(Arc::new(RequestScopeState {
            principal,
            handshake,
            full: AtomicBool::new(false),
            lease: parking_lot::Mutex::default(),
        }))
    }

    /// Runs the handler of a request within this scope.
    pub(super) async fn run_scoped<F: Future>(&self, answer: F) -> F::Output {
        REQUEST_SCOPE.scope(self.clone(), answer).await
    }

    /// Returns true if the request's session was refused because of the limit.
    pub(super) fn is_over_limit(&self) -> bool {
        self.0.full.load(Ordering::Relaxed)
    }
}

impl BoundedSessionManager {
    /// Creates a manager without sessions. `discard` discards what this server holds for a pipeline session that it no
    /// longer holds, and that another server may continue.
    pub(super) fn new(
        replicas: Option<Arc<ReplicaSet>>,
        discard: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(SESSION_IDLE);
        Self {
            inner,
            replicas,
            discard: Box::new(discard),
            table: SessionTable::default(),
            creation: Mutex::default(),
        }
    }

    /// Returns the number of sessions.
    pub(super) async fn count(&self) -> usize {
        self.inner.sessions.read().await.len()
    }

    /// Returns the sessions with their owners and activity.
    pub(super) fn sessions(&self) -> &SessionTable {
        &self.table
    }

    /// Returns the pipeline session in a session id, if other servers may continue the session.
    fn pipeline_session(&self, id: &str) -> Option<String> {
        let replicas = self.replicas.as_ref()?;
        Some(SealedSession::open_now(id, replicas.keys())?.session)
    }

    /// Removes and returns an idle session if there are too many.
    async fn make_room(
        &self,
        scope: Option<&RequestScope>,
    ) -> Result<Option<LocalSessionHandle>, SessionLimitError> {
        let mut sessions = self.inner.sessions.write().await;
        self.table.retain(|id| sessions.contains_key(id));
        if sessions.len() < MAX_SESSIONS {
            return Ok(None);
        }
        let Some(idle) = self.table.take_idle() else {
            if let Some(scope) = scope {
                scope.0.full.store(true, Ordering::Relaxed);
            }
            return Err(SessionLimitError::Full);
        };
        Ok(sessions.remove(idle.as_str()))
    }

    /// Returns the id of a new session that other replicas can continue. `None` if there are no other replicas.
    fn new_sealed_id(
        &self,
        scope: Option<&RequestScope>,
    ) -> Option<Result<String, SessionLimitError>> {
        let replicas = self.replicas.as_ref()?;
        let id = scope.and_then(|RequestScope(state)| {
            replicas.new_session(&state.principal, state.handshake.as_deref()?)
        });
        Some(id.ok_or(SessionLimitError::NoSessionId))
    }

    /// Adds the id of this replica to the ids in the events of a stream, if there are other replicas.
    fn name_events<S>(&self, stream: S) -> impl Stream<Item = ServerSseMessage> + use<S>
    where
        S: Stream<Item = ServerSseMessage>,
    {
        let node = self.replicas.as_ref().map(|replicas| replicas.node());
        stream.map(move |event| match &node {
            Some(node) => with_node(event, node),
            None => event,
        })
    }
}

/// Closes a session that was removed to make room for another.
async fn close_evicted(ended: Option<LocalSessionHandle>) {
    if let Some(ended) = ended {
        tracing::info!("an idle session was ended to make room for another");
        if let Err(error) = ended.close().await {
            tracing::debug!(%error, "the session has already ended");
        }
    }
}

impl SessionManager for BoundedSessionManager {
    type Error = SessionLimitError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionLimitError> {
        let scope = REQUEST_SCOPE.try_with(RequestScope::clone).ok();
        let creation = self.creation.lock().await;
        let ended = self.make_room(scope.as_ref()).await?;
        let created = match self.new_sealed_id(scope.as_ref()) {
            Some(id) => {
                let id = SessionId::from(id?);
                match self.inner.restore_session(id.clone()).await? {
                    RestoreOutcome::Restored(transport) => (id, transport),
                    // Session ids are unique.
                    _ => return Err(SessionLimitError::NoSessionId),
                }
            }
            None => self.inner.create_session().await?,
        };
        if let Some(RequestScope(state)) = scope {
            let lease = self
                .table
                .insert(created.0.to_string(), state.principal.clone());
            let mut state_lease = state.lease.lock();
            *state_lease = Some(lease);
        }
        drop(creation);
        close_evicted(ended).await;
        Ok(created)
    }

    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, SessionLimitError> {
        let scope = REQUEST_SCOPE.try_with(RequestScope::clone).ok();
        let creation = self.creation.lock().await;
        let ended = self.make_room(scope.as_ref()).await?;
        let restored = self.inner.restore_session(id).await?;
        drop(creation);
        close_evicted(ended).await;
        Ok(restored)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionLimitError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionLimitError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionLimitError> {
        let closed = self.inner.close_session(id).await;
        if let Some(session) = self.pipeline_session(id) {
            (self.discard)(&session);
        }
        Ok(closed?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionLimitError>
    {
        let stream = self.inner.create_stream(id, message).await?;
        Ok(self.name_events(stream))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionLimitError> {
        let message = match &self.replicas {
            Some(replicas) => {
                let is_own = |node: &str| replicas.peers().is_own(node);
                let Some(message) = original_message(message, is_own) else {
                    // The answer to a request of a replica that has ended.
                    return Ok(());
                };
                message
            }
            None => message,
        };
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionLimitError>
    {
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(self.name_events(stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionLimitError>
    {
        let last_event_id = match &self.replicas {
            Some(replicas) => {
                let is_own = |node: &str| replicas.peers().is_own(node);
                let original = original_event_id(&last_event_id, is_own);
                original.ok_or(SessionLimitError::OtherReplica)?
            }
            None => last_event_id,
        };
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(self.name_events(stream))
    }
}
