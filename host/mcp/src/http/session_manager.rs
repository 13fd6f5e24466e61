//! Limit on the number of sessions. rmcp creates a session only after a valid handshake; at that point an idle session
//! is ended if needed. Sessions are created one at a time, so that the limit is never exceeded.
//!
//! Out of scope: the owner and the messages of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::{ServerSseMessage, SessionId};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use thiserror::Error;
use tokio::sync::Mutex;

use super::session_table::{SessionLease, SessionTable};
use super::{MAX_SESSIONS, Principal, SESSION_IDLE};

/// Session manager with a limit.
pub(super) struct BoundedSessionManager {
    inner: LocalSessionManager,
    table: SessionTable,
    /// Held while a session is created.
    creation: Mutex<()>,
}

/// The scope of a request that may create a session. Clones share its state.
#[derive(Clone)]
pub(super) struct RequestScope(Arc<RequestScopeState>);

struct RequestScopeState {
    principal: Principal,
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
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl RequestScope {
    pub(super) fn new(principal: Principal) -> Self {
        Self(Arc::new(RequestScopeState {
            principal,
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
    pub(super) fn new() -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(SESSION_IDLE);
        Self {
            inner,
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
}

impl SessionManager for BoundedSessionManager {
    type Error = SessionLimitError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionLimitError> {
        let scope = REQUEST_SCOPE.try_with(RequestScope::clone).ok();
        let creation = self.creation.lock().await;
        let mut sessions = self.inner.sessions.write().await;
        self.table.retain(|id| sessions.contains_key(id));
        let mut ended = None;
        if sessions.len() >= MAX_SESSIONS {
            let Some(idle) = self.table.take_idle() else {
                if let Some(scope) = &scope {
                    scope.0.full.store(true, Ordering::Relaxed);
                }
                return Err(SessionLimitError::Full);
            };
            ended = sessions.remove(idle.as_str());
        }
        drop(sessions);
        let created = self.inner.create_session().await?;
        if let Some(RequestScope(state)) = scope {
            let lease = self
                .table
                .insert(created.0.to_string(), state.principal.clone());
            let mut state_lease = state.lease.lock();
            *state_lease = Some(lease);
        }
        drop(creation);
        if let Some(ended) = ended {
            tracing::info!("an idle session was ended to make room for another");
            if let Err(error) = ended.close().await {
                tracing::debug!(%error, "the session has already ended");
            }
        }
        Ok(created)
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
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionLimitError>
    {
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionLimitError> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionLimitError>
    {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionLimitError>
    {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}
