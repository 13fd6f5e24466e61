//! All configured MCP servers and their tools.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mimir_core::backend::Backend;
use mimir_core::config::Config;
use mimir_core::redact::Vault;
use mimir_core::registry::Quarantined;
use mimir_core::{ReservedNames, Tool, ToolError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::backend::{EntryReader, ServerTool};
use super::description::{RETRY_DELAY_SECS, RemoteTool, ServerDescription, definition_digest};
use super::listener::ResourceUpdates;
use super::login_links::LoginLinks;
use super::names;
use super::oauth::{self, LoginPlan, LoginSummary};
use super::reader_tools::EntryKind;
use super::server::{RemoteServer, ServerDeps};
use super::spec::ServerSpec;
use super::status::StatusBoard;

/// Numbers of requests of the user to start and to restart a server. A server is restarted when they change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunRequests {
    /// Requests to start it, also if it is not running.
    pub starts: u64,
    /// Requests to restart it if it is running.
    pub restarts: u64,
}

/// The configured servers. Servers with unchanged settings keep running when the settings change.
pub struct McpServers {
    deps: ServerDeps,
    servers: Mutex<HashMap<String, Arc<RemoteServer>>>,
    changes: Arc<AtomicUsize>,
    /// Notified when the tools of a server have changed.
    tools_changed: Arc<Notify>,
    updates: ResourceUpdates,
    board: Arc<StatusBoard>,
    /// Prefixes of the tools of disabled servers, with the error of their calls.
    disabled: Mutex<Vec<(String, ToolError)>>,
    /// Numbers of starts and restarts in the last settings.
    restarts: Mutex<Option<BTreeMap<String, RunRequests>>>,
}

/// Capacity of the channel for resource updates. A slow client loses the oldest updates.
const UPDATE_CAPACITY: usize = 256;

/// Time after which failed servers are retried for listings: one second more than the retry delay, which counts whole
/// seconds.
pub const FAULT_RETRY_INTERVAL: Duration = Duration::from_secs(RETRY_DELAY_SECS + 1);

/// Tools of the servers.
#[derive(Debug, Default)]
pub struct ServerTools {
    /// The tools.
    pub tools: Vec<Tool>,
    /// Servers and tools that are left out, with the reason.
    pub quarantined: Vec<Quarantined>,
    /// Number of servers whose tools are unknown.
    pub unseen: usize,
}

/// Result of testing a server.
#[derive(Debug)]
pub struct ServerTestReport {
    /// Name and version that the server reports.
    pub server: (String, String),
    /// Tools of the server.
    pub found: ServerTools,
    /// Description of the server, as the server sent it.
    pub described: Arc<ServerDescription>,
    /// Time until the server was ready.
    pub took: Duration,
}

impl McpServers {
    /// Creates an empty set of servers.
    pub fn new(deps: ServerDeps) -> Self {
        let board = StatusBoard::new(Arc::clone(&deps.observer));
        Self {
            deps,
            servers: Mutex::default(),
            changes: Arc::default(),
            tools_changed: Arc::default(),
            updates: ResourceUpdates::new(UPDATE_CAPACITY),
            board,
            disabled: Mutex::default(),
            restarts: Mutex::default(),
        }
    }

    /// Applies new settings. Removed and changed servers stop after their last call.
    pub fn set(&self, config: &Config) {
        self.set_with_restarts(config, &BTreeMap::new());
    }

    /// Applies new settings. A server whose numbers in `restarts` have changed is restarted; its calls in progress finish
    /// first. Returns the names of the servers that should run now and do not yet: those that were running, and those
    /// that the user has started.
    pub fn set_with_restarts(
        &self,
        config: &Config,
        restarts: &BTreeMap<String, RunRequests>,
    ) -> Vec<String> {
        let before = self.restarts.lock().replace(restarts.clone());
        let mut all = self.servers.lock();
        let (mut next, mut restarted) = (HashMap::new(), Vec::new());
        for (name, settings) in config.mcp.enabled_servers() {
            let Some(spec) = ServerSpec::new(name, settings, &config.sandbox) else {
                continue;
            };
            let number = restarts.get(name).copied().unwrap_or_default();
            let earlier = all.remove(name);
            let server = match &earlier {
                Some(server) if server.spec == spec && server.restarts == number => {
                    Arc::clone(server)
                }
                _ => RemoteServer::new(
                    spec,
                    self.deps.clone(),
                    (Arc::clone(&self.changes), Arc::clone(&self.tools_changed)),
                    self.updates.clone(),
                    number,
                    self.board.entry(name),
                ),
            };
            // The first settings restart nothing. A stopped server that is started again has no earlier one.
            let previous = before
                .as_ref()
                .map(|before| before.get(name).copied().unwrap_or_default());
            if let Some(previous) = previous.filter(|previous| *previous != number) {
                let is_started = previous.starts != number.starts;
                // A server that failed is started again, too.
                let is_idle =
                    |server: &Arc<RemoteServer>| !server.is_running() && server.fault().is_none();
                let was_running = !earlier.as_ref().is_some_and(is_idle);
                if let Some(earlier) = &earlier {
                    server.take_watched(earlier);
                }
                server.forget_fault();
                if is_started || was_running {
                    restarted.push(name.clone());
                }
            }
            next.insert(name.clone(), server);
        }
        let servers = config.mcp.servers.iter();
        let disabled = servers.filter(|(name, _)| !next.contains_key(*name));
        *self.disabled.lock() = disabled
            .map(|(name, server)| (ServerSpec::prefix(name, server), disabled_error(name)))
            .collect();
        let previous = std::mem::replace(&mut *all, next);
        drop(all);
        // Dropped without the lock: that publishes their states.
        drop(previous);
        restarted
    }

    /// Starts a server, or connects to it, if it is not running. Errors are stored with the server.
    pub async fn start(&self, name: &str) {
        if let Some(server) = self.get(name)
            && let Err(error) = server.describe().await
        {
            tracing::info!(server = name, %error, "the server was not started");
        }
    }

    /// Returns the error of the last start of a server in this process or, if its tools are not known, in another.
    pub fn last_error(&self, name: &str) -> Option<ToolError> {
        self.get(name)?.fault()
    }

    /// Returns the name prefixes reserved for the servers' tools.
    pub fn reserved(&self) -> ReservedNames {
        let all = self.sorted();
        let specs = all.iter().map(|server| &server.spec);
        let faults = all
            .iter()
            .filter_map(|server| Some((server.spec.prefix.clone(), server.fault()?)));
        let disabled = self.disabled.lock().clone();
        ReservedNames::new(specs.map(|spec| (spec.location(), spec.prefix.clone())))
            .with_faults(faults.chain(disabled))
    }

    /// Returns true if no servers are configured.
    pub fn is_empty(&self) -> bool {
        let all = self.servers.lock();
        all.is_empty()
    }

    /// Returns the number of changes of tool lists.
    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// Completes when the tools of a server have changed.
    pub async fn changed(&self) {
        self.tools_changed.notified().await;
    }

    /// Returns the cached tools of all servers. Starts nothing.
    pub fn known(&self) -> ServerTools {
        let mut found = ServerTools::default();
        for server in self.sorted() {
            match server.known() {
                Some(described) => found.add(&server, &described),
                None => found.unseen += 1,
            }
        }
        found
    }

    /// Returns the tools of all servers. Starts all servers without cached tools concurrently.
    pub async fn load(&self) -> ServerTools {
        self.list_unknown(|_| Some(ProbeMode::ForListing)).await;
        self.collect_tools(|_| true)
    }

    /// Starts all servers without cached tools, and retries failed servers every `retry_interval`, until the tools of
    /// all are known. Calls `report` once for each server or tool that is left out.
    pub async fn load_all(&self, retry_interval: Duration, report: impl Fn(&Quarantined)) {
        let mut reported = Vec::new();
        loop {
            let found = self.load().await;
            let new = found.quarantined.iter();
            new.filter(|left_out| !reported.contains(*left_out))
                .for_each(&report);
            reported = found.quarantined;
            if self.known().unseen == 0 {
                return;
            }
            sleep(retry_interval).await;
        }
    }

    /// Returns the tools for a call of the tool `name`. Of the servers without cached tools, starts only those that may
    /// have the tool.
    pub async fn load_for(&self, name: &str) -> ServerTools {
        self.start_for(name).await;
        self.collect_tools(|spec| probe_mode_for(spec, name).is_some())
    }

    /// Starts the servers without cached tools that may have the tool `name`.
    pub async fn start_for(&self, name: &str) {
        self.list_unknown(|spec| probe_mode_for(spec, name)).await;
    }

    /// Returns true if a server has the tool `name`, or if a server that may have it has failed.
    pub(crate) fn knows_tool(&self, name: &str) -> bool {
        let all = self.sorted().into_iter();
        let mut candidates = all.filter(|server| probe_mode_for(&server.spec, name).is_some());
        candidates.any(|server| match server.known() {
            Some(described) => {
                let mut found = ServerTools::default();
                found.add(&server, &described);
                found.tools.iter().any(|tool| tool.name().as_str() == name)
            }
            None => {
                let prefix = &server.spec.prefix;
                !prefix.is_empty() && name.starts_with(prefix) && server.fault().is_some()
            }
        })
    }

    /// Lists the tools of servers without cached tools, concurrently.
    async fn list_unknown(&self, probe_mode: impl Fn(&ServerSpec) -> Option<ProbeMode>) {
        let mut tasks = Vec::new();
        for server in self.sorted() {
            let Some(mode) = probe_mode(&server.spec) else {
                continue;
            };
            if server.known().is_some() {
                continue;
            }
            tasks.push(tokio::spawn(async move {
                // An error is stored with the server.
                let _ = match mode {
                    ProbeMode::ForCall => server.describe().await,
                    ProbeMode::ForListing => server.describe_unless_failed().await,
                };
            }));
        }
        for task in tasks {
            if let Err(error) = task.await {
                tracing::warn!(%error, "listing the tools of a server was aborted");
            }
        }
    }

    /// Returns the known tools, and the errors of those servers for which `was_probed` returns true.
    fn collect_tools(&self, was_probed: impl Fn(&ServerSpec) -> bool) -> ServerTools {
        let mut found = ServerTools::default();
        for server in self.sorted() {
            if let Some(described) = server.known() {
                found.add(&server, &described);
                continue;
            }
            match server.fault().filter(|_| was_probed(&server.spec)) {
                Some(error) => found.quarantined.push(Quarantined {
                    location: server.spec.location(),
                    code: error.code,
                    reason: [&[error.message], &error.remedies[..]].concat().join("; "),
                }),
                None => found.unseen += 1,
            }
        }
        found
    }

    /// Starts a server, or connects to it, and lists its tools. Returns `None` for an unknown name.
    pub async fn test(&self, name: &str) -> Option<Result<ServerTestReport, ToolError>> {
        let server = self.get(name)?;
        let begun = Instant::now();
        Some(server.describe().await.map(|described| {
            let mut found = ServerTools::default();
            found.add(&server, &described);
            ServerTestReport {
                server: described.server.clone(),
                found,
                described: Arc::clone(&described),
                took: begun.elapsed(),
            }
        }))
    }

    /// Prepares a login at a server. Returns `None` for an unknown name.
    pub async fn plan(&self, name: &str) -> Option<Result<LoginPlan, ToolError>> {
        self.plan_for_user(name, None).await
    }

    /// Prepares a login of this user, or of the owner without one. Returns `None` for an unknown name.
    pub async fn plan_for_user(
        &self,
        name: &str,
        user: Option<&str>,
    ) -> Option<Result<LoginPlan, ToolError>> {
        let server = self.get(name)?.for_user(user);
        Some(oauth::plan_login(&server.spec, server.deps()).await)
    }

    /// Returns the links with which users log in.
    pub(crate) fn login_links(&self) -> &LoginLinks {
        &self.deps.links
    }

    /// Returns true if there is a server at which users can log in.
    pub(crate) fn takes_logins(&self) -> bool {
        let servers = self.servers.lock();
        servers.values().any(|server| server.spec.takes_logins())
    }

    /// Returns the secrets that are passed to servers.
    pub(crate) fn vault(&self) -> Arc<dyn Vault> {
        Arc::clone(&self.deps.vault)
    }

    /// Ends the login at a server. Returns true if the authorization server has revoked the login, an inner `None` if
    /// there is no login, and an outer `None` for an unknown name.
    pub async fn log_out(&self, name: &str) -> Option<Result<Option<bool>, ToolError>> {
        self.log_out_user(name, None).await
    }

    /// Ends the login of this user, or of the owner without one, like [`Self::log_out`].
    pub async fn log_out_user(
        &self,
        name: &str,
        user: Option<&str>,
    ) -> Option<Result<Option<bool>, ToolError>> {
        let server = self.get(name)?.for_user(user);
        Some(oauth::forget_login(&server.spec, server.deps()).await)
    }

    /// Returns the login at a server, if there is one.
    pub fn login(&self, name: &str) -> Result<Option<LoginSummary>, ToolError> {
        match self.get(name) {
            Some(server) => oauth::login_summary(&server.spec, server.deps()),
            None => Ok(None),
        }
    }

    /// Returns true if the server of this name is running.
    pub async fn runs(&self, name: &str) -> bool {
        match self.get(name) {
            Some(server) => server.runs().await,
            None => false,
        }
    }

    /// Returns the sender of resource updates, which contain the servers' own URIs.
    pub(super) fn updates(&self) -> &ResourceUpdates {
        &self.updates
    }

    /// Returns the server of this name, if it is configured.
    pub(super) fn get(&self, name: &str) -> Option<Arc<RemoteServer>> {
        let all = self.servers.lock();
        all.get(name).cloned()
    }

    /// Returns all configured servers, sorted by name.
    pub(super) fn sorted(&self) -> Vec<Arc<RemoteServer>> {
        let all = self.servers.lock();
        let mut all: Vec<Arc<RemoteServer>> = all.values().cloned().collect();
        all.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
        all
    }
}

/// Returns the error of a call of a tool of a disabled server.
fn disabled_error(name: &str) -> ToolError {
    ToolError::unavailable(format!("the server `{name}` is switched off or stopped"))
        .with_remedies([format!("`mimir mcp status {name}` shows why")])
}

/// The reason for listing a server's tools.
enum ProbeMode {
    /// For a listing: does not retry a server that failed recently.
    ForListing,
    /// For a call: retries a failed server as soon as its backoff allows.
    ForCall,
}

/// Returns how to probe a server for a call of the tool `name`, or `None` if the server cannot have the tool.
fn probe_mode_for(spec: &ServerSpec, name: &str) -> Option<ProbeMode> {
    let kinds = [EntryKind::Resources, EntryKind::Prompts];
    if kinds.iter().any(|kind| kind.name(spec) == name) {
        return Some(ProbeMode::ForCall);
    }
    names::may_name_tool(&spec.prefix, name).then_some(if spec.prefix.is_empty() {
        // A server without a prefix might have a tool of any name, so unknown names must not restart it.
        ProbeMode::ForListing
    } else {
        ProbeMode::ForCall
    })
}

impl ServerTools {
    fn add(&mut self, server: &Arc<RemoteServer>, described: &ServerDescription) {
        let tool = |remote: &RemoteTool| -> Arc<dyn Backend> {
            Arc::new(ServerTool {
                server: Arc::clone(server),
                remote_name: remote.name.clone(),
                digest: definition_digest(&remote.definition),
            })
        };
        let reader = |kind| -> Arc<dyn Backend> {
            Arc::new(EntryReader {
                server: Arc::clone(server),
                kind,
            })
        };
        let (tools, left_out) = described.tools(&server.spec, tool, reader);
        self.tools.extend(tools);
        self.quarantined.extend(left_out);
    }
}
