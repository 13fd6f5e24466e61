//! A client connection: its session in the pipeline, and its subscriptions.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
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

/// A client connection. Its pipeline session ends with it.
pub(crate) struct Session {
    pub(super) server: Server,
    id: String,
    /// Minimum level of logs that the client wants.
    least: Mutex<Least>,
    /// Task that notifies the client of changes.
    teller: Mutex<Option<AbortHandle>>,
    pub(super) watched: Mutex<Watched>,
    gone: Gone,
}

/// Signals that the results of a session are no longer awaited.
#[derive(Clone, Default)]
pub(crate) struct Gone(watch::Sender<bool>);

impl Gone {
    /// Sends the signal: the session's calls are stopped.
    pub(crate) fn say(&self) {
        self.0.send_replace(true);
    }

    /// Completes when the signal has been sent.
    pub(crate) async fn said(&self) {
        // `self` holds the sender, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|gone| *gone).await;
    }
}

impl Server {
    /// Creates a session for a client that has connected.
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
    /// Returns the pipeline session of a request: that of its connection, or, where the protocol has no connections,
    /// that of its principal.
    pub(super) fn of(&self, request: &RequestContext<RoleServer>) -> String {
        match principal(request) {
            Some(principal) if is_modern(request) => principal.id.clone(),
            _ => self.id.clone(),
        }
    }

    /// Returns the user of a request, if known.
    pub(super) fn user(request: &RequestContext<RoleServer>) -> Option<String> {
        principal(request)?.user.clone()
    }

    /// Returns the scope of a request's answers: behind an identity provider, that of one user among many.
    pub(super) fn whose(request: &RequestContext<RoleServer>) -> Whose {
        match Self::user(request) {
            Some(_) => Whose::OneOfMany,
            None => Whose::Own,
        }
    }

    /// Returns the signal that the session's results are no longer awaited.
    pub(crate) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Completes when the session's results are no longer awaited.
    pub(super) async fn over(&self) {
        tokio::select! {
            () = self.gone.said() => {}
            () = self.server.0.gone.said() => {}
        }
    }

    /// Completes when the HTTP session of a request has ended.
    pub(super) async fn left(request: &RequestContext<RoleServer>) {
        let visit = parts(request).and_then(|parts| parts.extensions.get::<Arc<Visit>>());
        match visit {
            Some(visit) => visit.over().await,
            None => std::future::pending().await,
        }
    }

    /// Sets the minimum log level of the client.
    pub(super) fn hear(&self, least: Least) {
        *lock(&self.least) = least;
    }

    /// Returns the minimum log level for a call. Since 2026-07-28 each request sets it, or gets no logs.
    pub(super) fn least(&self, request: &RequestContext<RoleServer>) -> Option<Least> {
        match is_modern(request) {
            true => Least::of_request(&request.meta),
            false => Some(*lock(&self.least)),
        }
    }

    /// Starts to notify the client of list changes.
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

/// Returns true if a request uses the protocol generation without server requests.
pub(super) fn is_modern(request: &RequestContext<RoleServer>) -> bool {
    request
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn principal(request: &RequestContext<RoleServer>) -> Option<&Principal> {
    parts(request)?.extensions.get::<Principal>()
}

/// Returns the request's headers, if it came over HTTP.
fn parts(request: &RequestContext<RoleServer>) -> Option<&::http::request::Parts> {
    request.extensions.get::<::http::request::Parts>()
}
