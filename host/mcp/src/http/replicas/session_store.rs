//! Adapter that lets rmcp continue sessions of other replicas: the session id itself contains the handshake.

use std::pin::Pin;
use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};

use super::{ReplicaSet, SealedSession};

/// Reads the handshake of a session from its id. Stores nothing.
pub(in crate::http) struct SealedSessionStore(pub(in crate::http) Arc<ReplicaSet>);

type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

impl SessionStore for SealedSessionStore {
    fn load<'a, 'b, 'c>(&'a self, id: &'b str) -> StoreFuture<'c, Option<SessionState>>
    where
        'a: 'c,
        'b: 'c,
    {
        // The owner, the expiry and the end of the session were checked before the request reached rmcp.
        let session = SealedSession::open_now(id, self.0.keys());
        let handshake = session.and_then(|session| session.handshake());
        Box::pin(std::future::ready(Ok(handshake.map(SessionState::new))))
    }

    fn store<'a, 'b, 'c, 'd>(&'a self, _: &'b str, _: &'c SessionState) -> StoreFuture<'d, ()>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
    {
        Box::pin(std::future::ready(Ok(())))
    }

    fn delete<'a, 'b, 'c>(&'a self, _: &'b str) -> StoreFuture<'c, ()>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(std::future::ready(Ok(())))
    }
}
