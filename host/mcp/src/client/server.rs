//! Lifecycle of a server: started on demand, restarted after a failure, stopped when idle.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mimir_core::launch::ProcessLauncher;
use mimir_core::redact::Vault;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::HostClient;
use parking_lot::Mutex as Lock;
use rmcp::model::ServerResult;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, timeout};

use super::circuit_breaker::{self, CallAdmission, CircuitBreaker};
use super::connection::{CloseReason, ConnectError, ProtocolGeneration, ServerConnection};
use super::description::{DescriptionStore, ServerDescription};
use super::input_broker::InputRequestBroker;
use super::listener::{ResourceUpdates, ServerListener};
use super::login_links::LoginLinks;
use super::oauth::{self, BearerAuth, LoginStore};
use super::operation::ServerOperation;
use super::refused_hosts::RefusedHosts;
use super::servers::RunRequests;
use super::spec::{ServerSpec, ServerTransport};
use super::status::{ServerFault, ServerObserver, ServerState, StatusEntry, unix_seconds_after};
use super::{http_transport, program, sandbox_hint};

mod listing;
mod resource_watches;
mod start_failure;
mod user_views;

use user_views::UserViews;

/// Dependencies that the host provides to the servers.
#[derive(Clone)]
pub struct ServerDeps {
    /// Starts programs in the sandbox.
    pub launcher: Arc<dyn ProcessLauncher>,
    /// Contains the secrets that are passed to servers.
    pub vault: Arc<dyn Vault>,
    /// Stores descriptions of servers.
    pub store: Arc<dyn DescriptionStore>,
    /// Creates the HTTP clients of servers.
    pub client: Arc<ServerClientFactory>,
    /// Stores logins.
    pub logins: Arc<dyn LoginStore>,
    /// The links with which users of a shared mimir log in.
    pub links: LoginLinks,
    /// Path of the workspace, which is the root for servers.
    pub root: Arc<Path>,
    /// The hosts that were refused to the programs of servers.
    pub refused: RefusedHosts,
    /// Receives the states and the output of the servers.
    pub observer: Arc<dyn ServerObserver>,
}

/// Creates an HTTP client that reaches only the given URL. Fails if the URL is not allowed.
pub type HttpClientFactory = dyn Fn(&str) -> Result<HostClient, ToolError> + Send + Sync;

/// Creates an HTTP client for requests with the credentials of the server with this name, which reaches only the given URL:
/// that of the server, or of its authorization server. Fails if the URL is not allowed.
pub type ServerClientFactory = dyn Fn(&str, &str) -> Result<HostClient, ToolError> + Send + Sync;

impl ServerDeps {
    /// Returns the factory of the HTTP clients of a server.
    pub(super) fn clients_of(&self, server: &str) -> Arc<HttpClientFactory> {
        let (client, server) = (Arc::clone(&self.client), server.to_owned());
        Arc::new(move |url| client(&server, url))
    }
}

/// Maximum backoff between two attempts to start a failing server.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// First backoff; each following one is twice as long.
const MIN_BACKOFF: Duration = Duration::from_secs(1);

/// A server that exits sooner after its start counts as failed to start.
const MIN_UPTIME: Duration = Duration::from_secs(10);

/// Minimum interval between two listings of a server's tools, however often it reports changes.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);

/// A configured server, running or not.
pub(super) struct RemoteServer {
    pub(super) spec: ServerSpec,
    deps: ServerDeps,
    state: Mutex<ServerRunState>,
    /// Last known description of the server, with an index of its tools.
    listed: Lock<Option<ListedTools>>,
    /// True if no description was known when it was last looked up.
    was_unknown: AtomicBool,
    /// Error of the last start, if the start failed.
    fault: Lock<Option<ToolError>>,
    /// Close reason of the last start attempt, with the last lines of the server's stderr.
    last_close_reason: Lock<Option<Arc<CloseReason>>>,
    calls: AtomicUsize,
    last_used: Lock<Instant>,
    /// Number of changes of tool lists, shared by all servers.
    pub(super) changes: Arc<AtomicUsize>,
    tools_changed: Arc<Notify>,
    updates: ResourceUpdates,
    /// Number of watchers of each resource: a watched server does not become idle.
    watched: Lock<HashMap<String, usize>>,
    /// Numbers of starts and restarts that the user has requested; a change restarts the server.
    pub(super) restarts: RunRequests,
    breaker: Lock<CircuitBreaker>,
    status: StatusEntry,
    /// The connections of users with logins of their own.
    users: UserViews,
}

#[derive(Clone)]
struct ListedTools {
    description: Arc<ServerDescription>,
    digests: Arc<HashMap<String, String>>,
}

#[derive(Default)]
struct ServerRunState {
    connection: Option<(Arc<ServerConnection>, Instant)>,
    failures: u32,
    retry_at: Option<Instant>,
    /// Version of the login store and error of the last start, if the server requires a login.
    login_required: Option<(u64, ToolError)>,
    generation: Option<ProtocolGeneration>,
}

impl RemoteServer {
    pub(super) fn new(
        spec: ServerSpec,
        deps: ServerDeps,
        (changes, tools_changed): (Arc<AtomicUsize>, Arc<Notify>),
        updates: ResourceUpdates,
        restarts: RunRequests,
        status: StatusEntry,
    ) -> Arc<Self> {
        Arc::new(Self {
            spec,
            deps,
            state: Mutex::default(),
            listed: Lock::default(),
            was_unknown: AtomicBool::new(false),
            fault: Lock::default(),
            last_close_reason: Lock::default(),
            calls: AtomicUsize::new(0),
            last_used: Lock::new(Instant::now()),
            changes,
            tools_changed,
            updates,
            watched: Lock::default(),
            restarts,
            breaker: Lock::default(),
            status,
            users: UserViews::default(),
        })
    }

    /// Returns true if the server is running, or is being started.
    pub(super) fn is_running(&self) -> bool {
        let Ok(state) = self.state.try_lock() else {
            return true;
        };
        let connection = state.connection.as_ref();
        connection.is_some_and(|(connection, _)| !connection.is_closed())
    }

    /// Takes over the watched resources of an earlier server of the same name.
    pub(super) fn take_watched(&self, earlier: &Self) {
        *self.watched.lock() = earlier.watched.lock().clone();
    }

    /// Returns the dependencies that the host provides.
    pub(super) fn deps(&self) -> &ServerDeps {
        &self.deps
    }

    /// Returns the workspace.
    pub(super) fn root(&self) -> Arc<Path> {
        Arc::clone(&self.deps.root)
    }

    /// Returns the cache key of the description. It depends on the workspace for a program, because a command line may
    /// start another program in another workspace.
    fn cache_key(&self) -> String {
        match &self.spec.transport {
            ServerTransport::Program(_) => self.spec.key_in(&self.deps.root),
            ServerTransport::Http { .. } => self.spec.key(),
        }
    }

    /// Returns the last known description, from this process or an earlier one.
    pub(super) fn known(&self) -> Option<Arc<ServerDescription>> {
        let mut listed = self.listed.lock();
        if listed.is_none() {
            let stored = self.deps.store.read(&self.cache_key());
            let described = stored.as_deref().and_then(ServerDescription::parse);
            *listed = described.map(|described| self.index_tools(described));
            let is_unknown = listed.is_none();
            // Another process has started the server since the last lookup.
            if self.was_unknown.swap(is_unknown, Ordering::Relaxed) && !is_unknown {
                self.announce_change();
            }
        }
        listed
            .as_ref()
            .map(|listed| Arc::clone(&listed.description))
    }

    /// Announces that the server's tools, or the reason why they are unknown, have changed.
    fn announce_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.tools_changed.notify_one();
    }

    /// Returns the current description. Starts the server if needed.
    pub(super) async fn describe(self: &Arc<Self>) -> Result<Arc<ServerDescription>, ToolError> {
        let connection = self.connect().await?;
        self.relist_if_changed(&connection).await?;
        self.known()
            .ok_or_else(|| ToolError::internal("the description of the server is missing"))
    }

    /// Returns the current description, but does not start a server that failed a moment ago.
    pub(super) async fn describe_unless_failed(
        self: &Arc<Self>,
    ) -> Result<Arc<ServerDescription>, ToolError> {
        match self.recent_fault() {
            Some(fault) => Err(fault),
            None => self.describe().await,
        }
    }

    /// Performs an operation at the server. For a call of a tool, checks that the tool is unchanged since its approval.
    pub(super) async fn call(
        self: &Arc<Self>,
        operation: &ServerOperation,
        approved: Option<&str>,
        broker: &Arc<InputRequestBroker>,
    ) -> Result<ServerResult, ToolError> {
        let _call = ServerCallGuard::begin(self);
        let admitted = AdmittedCall::begin(self, broker)?;
        let connection = self.connect().await?;
        self.relist_if_changed(&connection).await?;
        if let (ServerOperation::Tool { name, .. }, Some(approved)) = (operation, approved) {
            self.check_unchanged(name, approved)?;
        }
        let result = connection.call(operation, broker, self.spec.call).await;
        admitted.finish(result.as_ref().err());
        result
    }

    /// Records the result of a call in the circuit breaker, and publishes it.
    fn record_call(&self, record: impl FnOnce(&mut CircuitBreaker), error: Option<&ToolError>) {
        let (failures, retry_at) = {
            let mut breaker = self.breaker.lock();
            record(&mut breaker);
            (breaker.failures(), breaker.retry_at())
        };
        let pause = retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(error) = error {
            self.status
                .log(&format!("a call failed: {}", error.message));
        }
        self.status.update(|status| {
            status.failed_calls = failures;
            status.paused_until = pause.map(unix_seconds_after);
            if let Some(error) = error {
                status.last_error = Some(ServerFault::new(error));
            }
        });
    }

    /// Records that the connection has ended, and why.
    fn record_end(&self, connection: &ServerConnection) {
        let error = connection.close_reason.known_error();
        self.status.log(&match &error {
            Some(error) => error.message.clone(),
            None => "the connection has ended".to_owned(),
        });
        self.status.update(|status| {
            status.set_state(ServerState::Failed);
            if let Some(error) = &error {
                status.last_error = Some(ServerFault::new(error));
            }
        });
    }

    /// Checks that a tool is unchanged since its approval.
    fn check_unchanged(&self, tool_name: &str, approved: &str) -> Result<(), ToolError> {
        let listed = self.listed.lock().clone();
        let current = listed
            .as_ref()
            .and_then(|listed| listed.digests.get(tool_name));
        match current {
            Some(current) if current == approved => Ok(()),
            Some(_) => {
                let message = format!(
                    "the server `{}` has changed its description of this tool: the tool cannot be called until the user has reviewed the difference",
                    self.spec.name
                );
                let remedy = format!(
                    "`mimir mcp trust {}` shows the new texts and asks about them",
                    self.spec.name
                );
                Err(ToolError::permission_denied(message).with_remedies([remedy]))
            }
            None => {
                let message = format!("the server `{}` no longer has this tool", self.spec.name);
                Err(ToolError::unavailable(message))
            }
        }
    }

    /// Fails if the server is not running and will not be started at this time.
    pub(super) fn check_available(&self) -> Result<(), ToolError> {
        if self.has_user_views() {
            return Ok(());
        }
        match self.state.try_lock() {
            Ok(mut state) => self.open_connection(&mut state).map(|_| ()),
            // It is being started.
            Err(_) => Ok(()),
        }
    }

    /// Returns the open connection. `None` if the server can be started. Fails while it must not be started again after
    /// failures.
    fn open_connection(
        &self,
        state: &mut ServerRunState,
    ) -> Result<Option<Arc<ServerConnection>>, ToolError> {
        if let Some((connection, since)) = &state.connection {
            if !connection.is_closed() {
                return Ok(Some(Arc::clone(connection)));
            }
            let failed_early = since.elapsed() < MIN_UPTIME;
            self.record_end(connection);
            state.connection = None;
            if failed_early {
                state.record_failure();
            } else {
                state.failures = 0;
            }
        }
        if let Some((version, error)) = &state.login_required {
            if *version != self.deps.logins.version() {
                // The user may have logged in meanwhile.
                state.reset_backoff();
            } else if state.retry_at.is_some_and(|until| until > Instant::now()) {
                return Err(error.clone());
            }
        }
        if let Some(until) = state.retry_at
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            let message = format!(
                "the server `{}` has failed {}: it will not be restarted for another {:.1} s",
                self.spec.name,
                match state.failures {
                    1 => "once".to_owned(),
                    times => format!("{times} times in a row"),
                },
                left.as_secs_f32()
            );
            return Err(self.unavailable_error(message));
        }
        Ok(None)
    }

    /// Returns the connection to the server. Starts the server, or connects to it, if needed.
    async fn connect(self: &Arc<Self>) -> Result<Arc<ServerConnection>, ToolError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = self.open_connection(&mut state)? {
            return Ok(connection);
        }
        state.login_required = None;
        let started = match timeout(self.spec.start, self.start(&mut state)).await {
            Ok(started) => started,
            Err(_) => Err(self.start_timeout_error()),
        };
        let started = started.map_err(|error| {
            let error = match &self.spec.transport {
                ServerTransport::Program(launch) => {
                    sandbox_hint::add_program_hint(error, launch, &self.deps.root)
                }
                ServerTransport::Http { .. } => error,
            };
            self.deps.refused.add_to_error(&self.spec.name, error)
        });
        match started {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some((Arc::clone(&connection), Instant::now()));
                state.retry_at = None;
                self.clear_fault();
                self.publish_start(&connection);
                drop(state);
                *self.last_used.lock() = Instant::now();
                tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&connection)));
                Ok(connection)
            }
            Err(error) => {
                state.record_failure();
                if oauth::is_login_required(&error) {
                    // The current version: renewing a token has changed it, although that was not a login.
                    state.login_required = Some((self.deps.logins.version(), error.clone()));
                }
                self.status
                    .log(&format!("the start failed: {}", error.message));
                self.status.update(|status| {
                    status.set_state(ServerState::Failed);
                    status.starts = status.starts.saturating_add(1);
                    status.last_error = Some(ServerFault::new(&error));
                });
                self.record_fault(&error).await;
                Err(error)
            }
        }
    }

    /// Publishes that the server is running.
    fn publish_start(&self, connection: &ServerConnection) {
        let (name, version) = connection.server_info();
        self.status.log(&format!("started: {name} {version}"));
        let tools = self
            .listed
            .lock()
            .as_ref()
            .map(|listed| listed.digests.len());
        self.status.update(|status| {
            status.set_state(ServerState::Running);
            status.starts = status.starts.saturating_add(1);
            status.tools = tools;
        });
    }

    /// Starts the server, or connects to it, and lists its tools.
    async fn start(&self, state: &mut ServerRunState) -> Result<ServerConnection, ToolError> {
        // Over HTTP the newer generation is tried first, as the protocol requires, at the cost of one request to an
        // older server. A program of the older generation might not survive an unknown request.
        let first =
            self.spec
                .generation
                .or(state.generation)
                .unwrap_or(match self.spec.transport {
                    ServerTransport::Program(_) => ProtocolGeneration::Handshake,
                    ServerTransport::Http { .. } => ProtocolGeneration::Discovery,
                });
        let connection = match self.start_as(first).await {
            Ok(connection) => connection,
            Err(ConnectError::Failed(error)) => return Err(error),
            // The settings select a generation, so no other is tried.
            Err(ConnectError::Refused(error)) if self.spec.generation.is_some() => {
                let key = format!("mcp.servers.{}.protocol", self.spec.name);
                let remedy = format!(
                    "remove `{key}` from the settings to let mimir try both protocol generations"
                );
                return Err(error.with_remedies([remedy]));
            }
            // The server rejected the start: it may support the other generation.
            Err(ConnectError::Refused(error)) => match self.start_as(first.other()).await {
                Ok(connection) => {
                    state.generation = Some(first.other());
                    connection
                }
                // Most servers use the older generation, so its error is more useful.
                Err(ConnectError::Failed(other) | ConnectError::Refused(other)) => {
                    return Err(match first {
                        ProtocolGeneration::Handshake => error,
                        ProtocolGeneration::Discovery => other,
                    });
                }
            },
        };
        // Only later changes matter, because the tools are listed now.
        connection.take_stale();
        self.relist(&connection).await?;
        self.watch_again(&connection).await;
        Ok(connection)
    }

    async fn start_as(
        &self,
        generation: ProtocolGeneration,
    ) -> Result<ServerConnection, ConnectError> {
        let vault = &self.deps.vault;
        // Without the secrets, the server's output could not be masked, so the server is not started.
        let redactor = vault
            .redactor()
            .map_err(|error| ConnectError::Failed(ToolError::unavailable(error)))?;
        let listener = ServerListener::new(&self.spec, &self.updates, redactor.clone());
        let observer = Arc::clone(&self.deps.observer);
        let close_reason = CloseReason::new(&self.spec.name, redactor, observer);
        *self.last_close_reason.lock() = Some(Arc::clone(&close_reason));
        match &self.spec.transport {
            ServerTransport::Program(launch) => {
                program::start(launch, generation, listener, close_reason, &self.deps).await
            }
            ServerTransport::Http {
                url,
                headers,
                oauth,
            } => {
                let (name, key) = (&self.spec.name, self.spec.key());
                let reached = http_transport::HttpServerParams {
                    url,
                    headers,
                    client: (self.deps.client)(name, url).map_err(ConnectError::Failed)?,
                    vault: &**vault,
                    bearer: BearerAuth::new(name, url, headers, oauth, key, &self.deps),
                };
                http_transport::connect(reached, generation, listener, close_reason).await
            }
        }
    }

    /// Lists the tools again if the server has reported a change, or waits for a listing in progress: a call is checked
    /// against the current definition of its tool.
    pub(super) async fn relist_if_changed(
        &self,
        connection: &ServerConnection,
    ) -> Result<(), ToolError> {
        let _listing_lock = connection.listing_lock.lock().await;
        if !connection.take_stale() {
            return Ok(());
        }
        let mut guard = RelistGuard(Some(connection));
        self.relist(connection).await?;
        guard.0 = None;
        Ok(())
    }

    /// Returns true if the server is running or connected.
    pub(super) async fn runs(&self) -> bool {
        let state = self.state.lock().await;
        state
            .connection
            .as_ref()
            .is_some_and(|(connection, _)| !connection.is_closed())
    }

    /// Forgets a connection that has ended, unless a call has noticed that already.
    async fn note_end(&self, ended: &Arc<ServerConnection>) {
        let mut state = self.state.lock().await;
        let is_current =
            |(connection, _): &(Arc<ServerConnection>, Instant)| Arc::ptr_eq(connection, ended);
        if let Some((_, since)) = state.connection.take_if(|current| is_current(current)) {
            self.record_end(ended);
            if since.elapsed() < MIN_UPTIME {
                state.record_failure();
            } else {
                state.failures = 0;
            }
        }
    }

    /// Stops the server, unless a call is in progress.
    async fn stop_if_idle(&self) {
        let mut state = self.state.lock().await;
        if self.is_idle() && state.connection.take().is_some() {
            self.status.log("stopped, because it was idle");
            self.status
                .update(|status| status.set_state(ServerState::Idle));
        }
    }

    fn is_idle(&self) -> bool {
        let used = *self.last_used.lock();
        let watched = self.watched.lock();
        self.calls.load(Ordering::Acquire) == 0
            && watched.is_empty()
            && used.elapsed() >= self.spec.idle
    }
}

impl ServerRunState {
    /// Allows an immediate restart.
    fn reset_backoff(&mut self) {
        (self.failures, self.retry_at, self.login_required) = (0, None, None);
    }

    fn record_failure(&mut self) {
        let doubled = MIN_BACKOFF.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(Instant::now() + doubled.min(MAX_BACKOFF));
    }
}

/// A call that the circuit breaker has admitted. Dropping it without a result counts as a failure if the call's time is
/// over, because the pipeline drops a call at its time limit.
struct AdmittedCall<'a> {
    server: &'a RemoteServer,
    broker: &'a InputRequestBroker,
    admission: CallAdmission,
    deadline: Instant,
    is_finished: bool,
}

/// Time by which the pipeline's clock may be ahead of a call's.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(50);

impl<'a> AdmittedCall<'a> {
    /// Admits the call of this broker, or returns the error of the open circuit breaker.
    fn begin(server: &'a RemoteServer, broker: &'a InputRequestBroker) -> Result<Self, ToolError> {
        let now = Instant::now();
        let admitted = server.breaker.lock().admit(now);
        let admission = admitted.map_err(|open| open.error(&server.spec.name))?;
        Ok(Self {
            server,
            broker,
            admission,
            deadline: now + broker.call_time().saturating_sub(CLOCK_TOLERANCE),
            is_finished: false,
        })
    }

    fn finish(mut self, error: Option<&ToolError>) {
        self.is_finished = true;
        let admission = self.admission;
        // A call that ended because the client did not answer a request of the server tells nothing against the server.
        let error = error.filter(|_| !self.broker.awaits_client());
        match error.filter(|error| circuit_breaker::is_server_failure(error)) {
            Some(error) => self.server.record_call(
                |breaker| breaker.record_failure(admission, &error.message, Instant::now()),
                Some(error),
            ),
            None => self
                .server
                .record_call(|breaker| breaker.record_answer(admission), None),
        }
    }
}

impl Drop for AdmittedCall<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let admission = self.admission;
        if Instant::now() < self.deadline || self.broker.awaits_client() {
            return self.server.breaker.lock().record_cancelled(admission);
        }
        let name = &self.server.spec.name;
        let message =
            format!("the server `{name}` did not answer within the time limit of the call");
        let error = ToolError::new(ToolErrorCode::Timeout, message);
        self.server.record_call(
            |breaker| breaker.record_failure(admission, &error.message, Instant::now()),
            Some(&error),
        );
    }
}

/// Marks the tools as stale again if a listing is cancelled.
struct RelistGuard<'a>(Option<&'a ServerConnection>);

impl Drop for RelistGuard<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.listener.mark_stale();
        }
    }
}

/// Counts a call as in progress until it is dropped.
struct ServerCallGuard<'a>(&'a RemoteServer);

impl<'a> ServerCallGuard<'a> {
    fn begin(server: &'a RemoteServer) -> Self {
        server.calls.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }
}

impl Drop for ServerCallGuard<'_> {
    fn drop(&mut self) {
        *self.0.last_used.lock() = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Monitors a connection: lists the tools again after changes, and closes it when idle.
async fn watch(server: Weak<RemoteServer>, connection: Weak<ServerConnection>) {
    let Some(idle) = server.upgrade().map(|server| server.spec.idle) else {
        return;
    };
    // A quarter of the idle time is precise enough, and rare enough to be cheap.
    let poll_interval = (idle / 4).clamp(Duration::from_millis(20), Duration::from_secs(10));
    loop {
        let Some(listener) = connection
            .upgrade()
            .map(|connection| Arc::clone(&connection.listener))
        else {
            return;
        };
        let changed = timeout(poll_interval, listener.wait_for_change())
            .await
            .is_ok();
        let (Some(server), Some(connection)) = (server.upgrade(), connection.upgrade()) else {
            return;
        };
        if connection.is_closed() {
            server.note_end(&connection).await;
            return;
        }
        if changed {
            if let Err(error) = server.relist_if_changed(&connection).await {
                tracing::warn!(server = server.spec.name, %error, "cannot list the changed tools of the server");
            }
            drop((server, connection));
            sleep(MIN_LIST_INTERVAL).await;
            continue;
        }
        if server.is_idle() {
            drop(connection);
            server.stop_if_idle().await;
        }
    }
}
