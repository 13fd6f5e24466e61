//! Limits the number of sessions. The library creates a session only after it has seen a valid handshake: an idle
//! session is ended at that point, and sessions are created one at a time, so that the limit is never exceeded.
//!
//! Out of scope: the owner of a session, and its messages.

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

use super::sessions::{Sessions, Visit};
use super::{Principal, SESSION_IDLE, SESSIONS_MAX};

/// Session manager with a limit.
pub(super) struct Rooms {
    inner: LocalSessionManager,
    known: Sessions,
    /// Held while a session is created.
    turn: Mutex<()>,
}

/// State of a request that may create a session.
#[derive(Clone)]
pub(super) struct Guest(Arc<Asks>);

struct Asks {
    by: Principal,
    full: AtomicBool,
    /// Keeps the new session in use until the handshake is answered.
    visit: parking_lot::Mutex<Option<Visit>>,
}

tokio::task_local! {
    /// The request that is being handled.
    static GUEST: Guest;
}

/// Reason for not creating a session.
#[derive(Debug, Error)]
pub(super) enum NoRoom {
    #[error("too many sessions, and none of them is idle")]
    Full,
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl Guest {
    pub(super) fn new(by: Principal) -> Self {
        Self(Arc::new(Asks {
            by,
            full: AtomicBool::new(false),
            visit: parking_lot::Mutex::default(),
        }))
    }

    /// Handles a request within its scope.
    pub(super) async fn answered<F: Future>(&self, answer: F) -> F::Output {
        GUEST.scope(self.clone(), answer).await
    }

    /// Returns true if its session was refused because of the limit.
    pub(super) fn is_left_out(&self) -> bool {
        self.0.full.load(Ordering::Relaxed)
    }
}

impl Rooms {
    pub(super) fn new() -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(SESSION_IDLE);
        Self {
            inner,
            known: Sessions::default(),
            turn: Mutex::default(),
        }
    }

    /// Returns the number of sessions.
    pub(super) async fn count(&self) -> usize {
        self.inner.sessions.read().await.len()
    }

    /// Returns the table of sessions with their owners and activity.
    pub(super) fn known(&self) -> &Sessions {
        &self.known
    }
}

impl SessionManager for Rooms {
    type Error = NoRoom;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), NoRoom> {
        let guest = GUEST.try_with(Guest::clone).ok();
        let turn = self.turn.lock().await;
        let mut sessions = self.inner.sessions.write().await;
        self.known.keep(|id| sessions.contains_key(id));
        let mut ended = None;
        if sessions.len() >= SESSIONS_MAX {
            let Some(idle) = self.known.take_idle() else {
                if let Some(guest) = &guest {
                    guest.0.full.store(true, Ordering::Relaxed);
                }
                return Err(NoRoom::Full);
            };
            ended = sessions.remove(idle.as_str());
        }
        drop(sessions);
        let made = self.inner.create_session().await?;
        if let Some(Guest(asks)) = guest {
            let visit = self.known.begun(made.0.to_string(), asks.by.clone());
            let mut held = asks.visit.lock();
            *held = Some(visit);
        }
        drop(turn);
        if let Some(ended) = ended {
            tracing::info!("an idle session was ended to make room for another");
            if let Err(error) = ended.close().await {
                tracing::debug!(%error, "the session has already ended");
            }
        }
        Ok(made)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, NoRoom> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, NoRoom> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), NoRoom> {
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, NoRoom> {
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), NoRoom> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, NoRoom> {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, NoRoom> {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}
