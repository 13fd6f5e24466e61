//! A client connection: its session in the pipeline, and its subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use mimir_core::RequestId;
use mimir_core::call::SessionSharing;
use parking_lot::{Mutex, MutexGuard};
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::elicitation::AnswerScope;
use crate::http::{OpenRequest, PipelineSessionId, Principal, SessionLease};
use crate::logs::MinLogLevel;

use super::ToolServer;
use super::subscriptions::WatchedResources;

/// A client connection. The pipeline session ends with the connection.
pub(crate) struct ClientSession {
    pub(super) server: ToolServer,
    id: String,
    /// True if a call was made in the pipeline session of the connection.
    is_used: AtomicBool,
    /// Minimum level of log messages that the client receives.
    min_log_level: Mutex<MinLogLevel>,
    /// Task that notifies the client of changes.
    notifier: Mutex<Option<AbortHandle>>,
    pub(super) watched: Mutex<WatchedResources>,
    close_signal: CloseSignal,
}

/// Signal that the client no longer waits for results of its session.
#[derive(Clone, Default)]
pub(crate) struct CloseSignal(watch::Sender<bool>);

impl CloseSignal {
    /// Sends the signal: the session's calls are stopped.
    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    /// Completes when the signal has been sent.
    pub(crate) async fn closed(&self) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|closed| *closed).await;
    }
}

impl ToolServer {
    /// Creates a session for a client that has connected.
    pub(crate) fn session(&self) -> ClientSession {
        ClientSession {
            server: self.clone(),
            id: RequestId::new(SystemTime::now()).to_string(),
            is_used: AtomicBool::new(false),
            min_log_level: Mutex::new(MinLogLevel::DEFAULT),
            notifier: Mutex::default(),
            watched: Mutex::default(),
            close_signal: CloseSignal::default(),
        }
    }
}

impl ClientSession {
    /// Returns the pipeline session of a request: that of the connection, or that of the principal if the request has no
    /// session of the protocol.
    pub(super) fn pipeline_session(&self, request: &RequestContext<RoleServer>) -> String {
        match (session_owner(request), shared_session(request)) {
            (Some(principal), _) => principal.id.clone(),
            (None, Some(id)) => id.0.to_string(),
            (None, None) => {
                self.is_used.store(true, Ordering::Relaxed);
                self.id.clone()
            }
        }
    }

    /// Returns the clients that share the pipeline session of a request: those of its principal, if the request has no
    /// session of the protocol. With an identity provider, they are those of one user. What a client says about itself,
    /// such as its name, proves nothing.
    pub(super) fn session_sharing(request: &RequestContext<RoleServer>) -> SessionSharing {
        match session_owner(request) {
            None => SessionSharing::OneClient,
            Some(principal) if principal.user.is_some() => SessionSharing::OneUser,
            Some(_) => SessionSharing::AnyClient,
        }
    }

    /// Returns the user of a request, if known.
    pub(super) fn user(request: &RequestContext<RoleServer>) -> Option<String> {
        principal(request)?.user.clone()
    }

    /// Returns the id of the user of a request, if users log in at an identity provider.
    pub(super) fn caller(request: &RequestContext<RoleServer>) -> Option<Arc<str>> {
        let principal = principal(request).filter(|principal| principal.user.is_some())?;
        Some(Arc::from(principal.id.as_str()))
    }

    /// Returns the scope of the user's answers: with an identity provider, answers apply to a single user.
    pub(super) fn answer_scope(request: &RequestContext<RoleServer>) -> AnswerScope {
        match Self::user(request) {
            Some(_) => AnswerScope::SingleUser,
            None => AnswerScope::Owner,
        }
    }

    /// Returns the signal that the client no longer waits for results.
    pub(crate) fn close_signal(&self) -> &CloseSignal {
        &self.close_signal
    }

    /// Completes when the client no longer waits for results.
    pub(super) async fn closed(&self) {
        tokio::select! {
            () = self.close_signal.closed() => {}
            () = self.server.0.close_signal.closed() => {}
        }
    }

    /// Completes when the HTTP session of a request has ended.
    pub(super) async fn http_session_closed(request: &RequestContext<RoleServer>) {
        let lease = parts(request).and_then(|parts| parts.extensions.get::<Arc<SessionLease>>());
        match lease {
            Some(lease) => lease.session_closed().await,
            None => std::future::pending().await,
        }
    }

    /// Lets the server end without the response to a request.
    pub(super) fn expect_no_response(request: &RequestContext<RoleServer>) {
        let open = parts(request).and_then(|parts| parts.extensions.get::<Arc<OpenRequest>>());
        if let Some(open) = open {
            open.stop_counting();
        }
    }

    /// Sets the minimum log level of the client.
    pub(super) fn set_log_level(&self, level: MinLogLevel) {
        *lock(&self.min_log_level) = level;
    }

    /// Returns the minimum log level for a call, or `None` for no logs. Since 2026-07-28, each request sets the level.
    pub(super) fn min_log_level(
        &self,
        request: &RequestContext<RoleServer>,
    ) -> Option<MinLogLevel> {
        if is_modern(request) {
            MinLogLevel::from_request(&request.meta)
        } else {
            Some(*lock(&self.min_log_level))
        }
    }

    /// Starts to notify the client of list changes.
    pub(super) fn notify_of_changes(&self, peer: Peer<RoleServer>) {
        let mut changes = self.server.changes();
        let mut known = *changes.borrow_and_update();
        let notifier_task = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let now = *changes.borrow_and_update();
                let before = std::mem::replace(&mut known, now);
                let mut sent = Ok(());
                if before.tools != now.tools {
                    sent = sent.and(peer.notify_tool_list_changed().await);
                }
                if before.prompts != now.prompts {
                    sent = sent.and(peer.notify_prompt_list_changed().await);
                }
                if before.resources != now.resources {
                    sent = sent.and(peer.notify_resource_list_changed().await);
                }
                if sent.is_err() {
                    return;
                }
            }
        });
        if let Some(before) = lock(&self.notifier).replace(notifier_task.abort_handle()) {
            before.abort();
        }
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        if let Some(notifier) = lock(&self.notifier).take() {
            notifier.abort();
        }
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        let shared = &self.server.0;
        shared.pending_calls.stop_calls_of(&self.id);
        shared.tasks.stop_tasks_of(&self.id);
        shared.pipeline.end_session(&self.id);
    }
}

/// Returns true if a request uses a protocol version since 2026-07-28, in which servers send no requests.
pub(super) fn is_modern(request: &RequestContext<RoleServer>) -> bool {
    request
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Returns the principal whose clients share the pipeline session of a request, if it has no session of the protocol: since
/// 2026-07-28, and also before if it carries all that such requests carry. Each such request is a connection of its own, so
/// a session of the connection would forget at once what it has read, and that a person has stopped it.
fn session_owner(request: &RequestContext<RoleServer>) -> Option<&Principal> {
    let has_no_session = || {
        let missing = (request.meta).missing_required_keys(&ProtocolVersion::V_2026_07_28);
        missing.is_empty() && shared_session(request).is_none()
    };
    principal(request).filter(|_| is_modern(request) || has_no_session())
}

fn principal(request: &RequestContext<RoleServer>) -> Option<&Principal> {
    parts(request)?.extensions.get::<Principal>()
}

/// Returns the id of the pipeline session, if other servers may continue the session of the request.
fn shared_session(request: &RequestContext<RoleServer>) -> Option<&PipelineSessionId> {
    parts(request)?.extensions.get::<PipelineSessionId>()
}

/// Returns the HTTP parts of a request that came over HTTP.
pub(super) fn parts(request: &RequestContext<RoleServer>) -> Option<&::http::request::Parts> {
    request.extensions.get::<::http::request::Parts>()
}
