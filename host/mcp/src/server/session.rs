//! One connection: its session in the pipeline, and what its client has asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use mimir_core::RequestId;
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::ask::Whose;
use crate::http::{Principal, Visit};
use crate::logs::Least;

use super::Server;
use super::watching::Watched;

/// One connection. The session in the pipeline ends with it.
pub(crate) struct Session {
    pub(super) server: Server,
    id: String,
    /// What the client wants to hear of logs.
    least: Mutex<Least>,
    /// Tells the client of changes.
    teller: Mutex<Option<AbortHandle>>,
    pub(super) watched: Mutex<Watched>,
    gone: Gone,
}

/// Says that nobody waits for the results of a session any more.
#[derive(Clone, Default)]
pub(crate) struct Gone(watch::Sender<bool>);

impl Gone {
    /// Nobody waits from now on: its calls are stopped.
    pub(crate) fn say(&self) {
        self.0.send_replace(true);
    }

    /// Completes when it was said.
    pub(crate) async fn said(&self) {
        // It is here, so the sender is.
        let _ = self.0.subscribe().wait_for(|gone| *gone).await;
    }
}

impl Server {
    /// A session for a client that has connected.
    pub(crate) fn session(&self) -> Session {
        Session {
            server: self.clone(),
            id: RequestId::new(SystemTime::now()).to_string(),
            least: Mutex::new(Least::USUAL),
            teller: Mutex::default(),
            watched: Mutex::default(),
            gone: Gone::default(),
        }
    }
}

impl Session {
    /// The session in the pipeline that a request belongs to: that of its connection, or, where the protocol knows no
    /// connections, that of whoever made it.
    pub(super) fn of(&self, request: &RequestContext<RoleServer>) -> String {
        match principal(request) {
            Some(principal) if is_modern(request) => principal.id.clone(),
            _ => self.id.clone(),
        }
    }

    /// Whose request it is, where that is known.
    pub(super) fn user(request: &RequestContext<RoleServer>) -> Option<String> {
        principal(request)?.user.clone()
    }

    /// Whose answers it brings: behind an identity provider, those of one of many people.
    pub(super) fn whose(request: &RequestContext<RoleServer>) -> Whose {
        match Self::user(request) {
            Some(_) => Whose::OneOfMany,
            None => Whose::Own,
        }
    }

    /// Where it is said that nobody waits for its results any more.
    pub(crate) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Completes when nobody waits for its results any more.
    pub(super) async fn over(&self) {
        tokio::select! {
            () = self.gone.said() => {}
            () = self.server.0.gone.said() => {}
        }
    }

    /// Completes when the session over HTTP has ended that a request belongs to.
    pub(super) async fn left(request: &RequestContext<RoleServer>) {
        let visit = parts(request).and_then(|parts| parts.extensions.get::<Arc<Visit>>());
        match visit {
            Some(visit) => visit.over().await,
            None => std::future::pending().await,
        }
    }

    /// The client has said what it wants to hear of logs.
    pub(super) fn hear(&self, least: Least) {
        *lock(&self.least) = least;
    }

    /// What of a call's log its client wants to hear. Since 2026-07-28 each request says so, or wants nothing.
    pub(super) fn least(&self, request: &RequestContext<RoleServer>) -> Option<Least> {
        match is_modern(request) {
            true => Least::of_request(&request.meta),
            false => Some(*lock(&self.least)),
        }
    }

    /// Tells the client of changes of the list from now on.
    pub(super) fn follow(&self, peer: Peer<RoleServer>) {
        let mut changes = self.server.changes();
        let mut known = *changes.borrow_and_update();
        let telling = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let now = *changes.borrow_and_update();
                let before = std::mem::replace(&mut known, now);
                let mut told = Ok(());
                if before.tools != now.tools {
                    told = told.and(peer.notify_tool_list_changed().await);
                }
                if before.prompts != now.prompts {
                    told = told.and(peer.notify_prompt_list_changed().await);
                }
                if before.resources != now.resources {
                    told = told.and(peer.notify_resource_list_changed().await);
                }
                if told.is_err() {
                    return;
                }
            }
        });
        if let Some(before) = lock(&self.teller).replace(telling.abort_handle()) {
            before.abort();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(teller) = lock(&self.teller).take() {
            teller.abort();
        }
        let shared = &self.server.0;
        shared.parking.clear(&self.id);
        shared.pipeline.end_session(&self.id);
    }
}

/// Whether a request is of the protocol without requests of the server's own.
pub(super) fn is_modern(request: &RequestContext<RoleServer>) -> bool {
    request
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn principal(request: &RequestContext<RoleServer>) -> Option<&Principal> {
    parts(request)?.extensions.get::<Principal>()
}

/// What stood before the body, where the request came over HTTP.
fn parts(request: &RequestContext<RoleServer>) -> Option<&::http::request::Parts> {
    request.extensions.get::<::http::request::Parts>()
}
