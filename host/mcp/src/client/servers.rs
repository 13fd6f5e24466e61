//! All configured MCP servers, and their tools.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mimir_core::backend::Backend;
use mimir_core::config::Config;
use mimir_core::registry::Quarantined;
use mimir_core::{Reserved, Tool, ToolError};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::backend::{Reader, ServerTool};
use super::described::{ALONE, Described, Theirs, print};
use super::ears::Updates;
use super::names;
use super::oauth::{self, Login, Plan};
use super::readers::Reads;
use super::server::{Deps, Server};
use super::spec::ServerSpec;

/// The configured servers. Servers with unchanged settings keep running when the settings change.
pub struct Servers {
    deps: Deps,
    all: Mutex<HashMap<String, Arc<Server>>>,
    changes: Arc<AtomicUsize>,
    /// Notified when the tools of a server have changed.
    news: Arc<Notify>,
    updates: Updates,
}

/// Capacity of the channel for resource updates. A slow client loses the oldest ones.
const UPDATES: usize = 256;

/// Time after which failed servers are retried for listings: one second more than the retry delay, which counts whole
/// seconds.
pub const AGAIN: Duration = Duration::from_secs(ALONE + 1);

/// Tools of the servers.
#[derive(Debug, Default)]
pub struct Found {
    /// The tools.
    pub tools: Vec<Tool>,
    /// Servers and tools that are left out, with the reason.
    pub quarantined: Vec<Quarantined>,
    /// Number of servers whose tools are unknown.
    pub unseen: usize,
}

/// Result of testing a server.
#[derive(Debug)]
pub struct Tried {
    /// Name and version that the server reports.
    pub server: (String, String),
    /// Its tools.
    pub found: Found,
    /// Its description, as it sent it.
    pub described: Arc<Described>,
    /// Time until it was ready.
    pub took: Duration,
}

impl Servers {
    /// Creates an empty set of servers.
    pub fn new(deps: Deps) -> Self {
        Self {
            deps,
            all: Mutex::default(),
            changes: Arc::default(),
            news: Arc::default(),
            updates: Updates::new(UPDATES),
        }
    }

    /// Applies the settings. Servers that are removed or changed are stopped after their last call.
    pub fn set(&self, config: &Config) {
        let mut all = self.all.lock();
        let mut next = HashMap::new();
        for (name, settings) in &config.mcp.servers {
            let Some(spec) = ServerSpec::new(name, settings, &config.sandbox) else {
                continue;
            };
            let server = match all.remove(name) {
                Some(server) if server.spec == spec => server,
                _ => Server::new(
                    spec,
                    self.deps.clone(),
                    (Arc::clone(&self.changes), Arc::clone(&self.news)),
                    self.updates.clone(),
                ),
            };
            next.insert(name.clone(), server);
        }
        *all = next;
    }

    /// Returns the name prefixes reserved for the servers' tools.
    pub fn reserved(&self) -> Reserved {
        let all = self.sorted();
        let specs = all.iter().map(|server| &server.spec);
        let faults = all
            .iter()
            .filter_map(|server| Some((server.spec.prefix.clone(), server.fault()?)));
        Reserved::new(specs.map(|spec| (spec.location(), spec.prefix.clone()))).with_faults(faults)
    }

    /// Returns true if no servers are configured.
    pub fn is_empty(&self) -> bool {
        let all = self.all.lock();
        all.is_empty()
    }

    /// Returns the number of changes of tool lists.
    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// Completes when the tools of a server have changed.
    pub async fn changed(&self) {
        self.news.notified().await;
    }

    /// Returns the cached tools of all servers. Starts nothing.
    pub fn known(&self) -> Found {
        let mut found = Found::default();
        for server in self.sorted() {
            match server.known() {
                Some(described) => found.add(&server, &described),
                None => found.unseen += 1,
            }
        }
        found
    }

    /// Returns the tools of all servers. Starts those without cached tools, all at once.
    pub async fn load(&self) -> Found {
        self.ask(|_| Some(Asks::ToLook)).await;
        self.found(|_| true)
    }

    /// Starts all servers without cached tools, and retries failing ones every `again`, until all are known. Reports
    /// what is left out, each entry once.
    pub async fn load_all(&self, again: Duration, tell: impl Fn(&Quarantined)) {
        let mut told = Vec::new();
        loop {
            let found = self.load().await;
            let new = found.quarantined.iter();
            new.filter(|left_out| !told.contains(*left_out))
                .for_each(&tell);
            told = found.quarantined;
            if self.known().unseen == 0 {
                return;
            }
            sleep(again).await;
        }
    }

    /// Returns the tools for a call of this name. Of the servers without cached tools, starts only those that may have
    /// a tool of this name.
    pub async fn load_for(&self, name: &str) -> Found {
        self.seek(name).await;
        self.found(|spec| for_call(spec, name).is_some())
    }

    /// Starts the servers without cached tools that may have a tool of this name. Returns false if there are none.
    pub async fn seek(&self, name: &str) -> bool {
        self.ask(|spec| for_call(spec, name)).await
    }

    /// Returns true if a server has a tool of this name, or if it is known why the server that may have it is
    /// unavailable.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let mut all = self.sorted().into_iter();
        all.any(|server| match server.known() {
            Some(described) => {
                let mut found = Found::default();
                found.add(&server, &described);
                found.tools.iter().any(|tool| tool.name().as_str() == name)
            }
            None => {
                let prefix = &server.spec.prefix;
                !prefix.is_empty() && name.starts_with(prefix) && server.fault().is_some()
            }
        })
    }

    /// Lists the tools of servers without cached tools, all at once. Returns false if there are none.
    async fn ask(&self, wanted: impl Fn(&ServerSpec) -> Option<Asks>) -> bool {
        let mut asked = Vec::new();
        for server in self.sorted() {
            let Some(asks) = wanted(&server.spec) else {
                continue;
            };
            if server.known().is_some() {
                continue;
            }
            asked.push(tokio::spawn(async move {
                // An error is stored with the server.
                let _ = match asks {
                    Asks::ToCall => server.describe().await,
                    Asks::ToLook => server.look().await,
                };
            }));
        }
        let any = !asked.is_empty();
        for task in asked {
            if let Err(error) = task.await {
                tracing::warn!(%error, "listing the tools of a server was aborted");
            }
        }
        any
    }

    /// Returns the known tools, and the errors of those servers that were `asked`.
    fn found(&self, asked: impl Fn(&ServerSpec) -> bool) -> Found {
        let mut found = Found::default();
        for server in self.sorted() {
            if let Some(described) = server.known() {
                found.add(&server, &described);
                continue;
            }
            match server.fault().filter(|_| asked(&server.spec)) {
                Some(error) => found.quarantined.push(Quarantined {
                    location: server.spec.location(),
                    code: error.code,
                    reason: [&[error.message], &error.way_out[..]].concat().join("; "),
                }),
                None => found.unseen += 1,
            }
        }
        found
    }

    /// Starts a server, or connects to it, and lists its tools. `None` if there is no server of this name.
    pub async fn test(&self, name: &str) -> Option<Result<Tried, ToolError>> {
        let server = self.get(name)?;
        let begun = Instant::now();
        Some(server.describe().await.map(|described| {
            let mut found = Found::default();
            found.add(&server, &described);
            Tried {
                server: described.server.clone(),
                found,
                described: Arc::clone(&described),
                took: begun.elapsed(),
            }
        }))
    }

    /// Prepares a login at a server. `None` if there is no server of this name.
    pub async fn plan(&self, name: &str) -> Option<Result<Plan, ToolError>> {
        let server = self.get(name)?;
        Some(oauth::plan(&server.spec, server.deps()).await)
    }

    /// Ends the login at a server. Returns true if its authorization server was told, the inner `None` if there is no
    /// login, and the outer one if there is no server of this name.
    pub async fn log_out(&self, name: &str) -> Option<Result<Option<bool>, ToolError>> {
        let server = self.get(name)?;
        Some(oauth::forget(&server.spec, server.deps()).await)
    }

    /// Returns the login at a server, if there is one.
    pub fn login(&self, name: &str) -> Result<Option<Login>, ToolError> {
        match self.get(name) {
            Some(server) => oauth::login(&server.spec, server.deps()),
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

    /// Returns the channel of resource updates, with the servers' own URIs.
    pub(super) fn updates(&self) -> &Updates {
        &self.updates
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Server>> {
        let all = self.all.lock();
        all.get(name).cloned()
    }

    pub(super) fn sorted(&self) -> Vec<Arc<Server>> {
        let all = self.all.lock();
        let mut all: Vec<Arc<Server>> = all.values().cloned().collect();
        all.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
        all
    }
}

/// The reason for listing a server's tools.
enum Asks {
    /// For a listing: does not retry a server that failed a moment ago.
    ToLook,
    /// For a call: retries a failed server as soon as its backoff allows.
    ToCall,
}

/// Returns how to probe a server for a call of this name; none if it cannot have such a tool.
fn for_call(spec: &ServerSpec, name: &str) -> Option<Asks> {
    let reads = [Reads::Resources, Reads::Prompts];
    if reads.iter().any(|reads| reads.name(spec) == name) {
        return Some(Asks::ToCall);
    }
    names::may_be(&spec.prefix, name).then_some(match spec.prefix.is_empty() {
        // Without a prefix every wrong name might be one of its tools.
        true => Asks::ToLook,
        false => Asks::ToCall,
    })
}

impl Found {
    fn add(&mut self, server: &Arc<Server>, described: &Described) {
        let tool = |theirs: &Theirs| -> Arc<dyn Backend> {
            Arc::new(ServerTool {
                server: Arc::clone(server),
                theirs: theirs.name.clone(),
                print: print(&theirs.definition),
            })
        };
        let reader = |reads| -> Arc<dyn Backend> {
            Arc::new(Reader {
                server: Arc::clone(server),
                reads,
            })
        };
        let (tools, left_out) = described.tools(&server.spec, tool, reader);
        self.tools.extend(tools);
        self.quarantined.extend(left_out);
    }
}
