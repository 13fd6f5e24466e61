//! For how many sessions there is room. The library makes a session once it knows that a handshake stands there: only
//! then does one end for it, and only one at a time is made, so that there are never more.
//!
//! Never here: whose a session is, and what is said in it.

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

/// The sessions that there are.
pub(super) struct Rooms {
    inner: LocalSessionManager,
    known: Sessions,
    /// Whoever makes one.
    turn: Mutex<()>,
}

/// A request that may begin a session, while it is answered.
#[derive(Clone)]
pub(super) struct Guest(Arc<Asks>);

struct Asks {
    by: Principal,
    full: AtomicBool,
    /// The session that has begun is in use until the handshake is answered.
    visit: std::sync::Mutex<Option<Visit>>,
}

tokio::task_local! {
    /// Who is answered.
    static GUEST: Guest;
}

/// Why there is no such session.
#[derive(Debug, Error)]
pub(super) enum NoRoom {
    #[error("too many sessions, and something goes on in each")]
    Full,
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl Guest {
    pub(super) fn new(by: Principal) -> Self {
        Self(Arc::new(Asks {
            by,
            full: AtomicBool::new(false),
            visit: std::sync::Mutex::default(),
        }))
    }

    /// Answers it as this one's.
    pub(super) async fn answered<F: Future>(&self, answer: F) -> F::Output {
        GUEST.scope(self.clone(), answer).await
    }

    /// Whether there was no room for its session.
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

    /// How many there are.
    pub(super) async fn count(&self) -> usize {
        self.inner.sessions.read().await.len()
    }

    /// Whose they are, and what goes on in them.
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
            let mut held = asks
                .visit
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *held = Some(visit);
        }
        drop(turn);
        if let Some(ended) = ended {
            tracing::info!("a session in which nothing goes on makes room for another");
            if let Err(error) = ended.close().await {
                tracing::debug!(%error, "the session was at its end");
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
