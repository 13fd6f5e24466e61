//! All servers that the settings describe, and their tools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mimir_core::backend::Backend;
use mimir_core::config::Config;
use mimir_core::registry::Quarantined;
use mimir_core::{Reserved, Tool, ToolError};
use tokio::sync::Notify;

use super::backend::{Reader, ServerTool};
use super::described::{Described, Theirs, print};
use super::ears::Updates;
use super::names;
use super::oauth::{self, Login, Plan};
use super::readers::Reads;
use super::server::{Deps, Server};
use super::spec::ServerSpec;

/// The servers. Those that stay as they are go on when the settings change.
pub struct Servers {
    deps: Deps,
    all: Mutex<HashMap<String, Arc<Server>>>,
    changes: Arc<AtomicUsize>,
    /// Told when one of them counts.
    news: Arc<Notify>,
    updates: Updates,
}

/// News of resources that wait for a client that is slow. It loses the oldest.
const UPDATES: usize = 256;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The tools of the servers.
    pub tools: Vec<Tool>,
    /// What is left out, and why.
    pub quarantined: Vec<Quarantined>,
    /// Servers of which it is not known what their tools are.
    pub unseen: usize,
}

/// What came of trying a server out.
#[derive(Debug)]
pub struct Tried {
    /// The server's own name and version.
    pub server: (String, String),
    /// Its tools.
    pub found: Found,
    /// How long it took until it was ready.
    pub took: Duration,
}

impl Servers {
    /// No server yet.
    pub fn new(deps: Deps) -> Self {
        Self {
            deps,
            all: Mutex::default(),
            changes: Arc::default(),
            news: Arc::default(),
            updates: Updates::new(UPDATES),
        }
    }

    /// The servers of these settings from now on. Those that are not among them, or are another now, are stopped when
    /// their last call has ended.
    pub fn set(&self, config: &Config) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The beginnings of names that are theirs.
    pub fn reserved(&self) -> Reserved {
        let all = self.sorted();
        let specs = all.iter().map(|server| &server.spec);
        Reserved::new(specs.map(|spec| (spec.location(), spec.prefix.clone())))
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.is_empty()
    }

    /// Counts how often the tools of a server were others than before.
    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// Completes when the tools of a server are others than before.
    pub async fn changed(&self) {
        self.news.notified().await;
    }

    /// Their tools, as far as they are known from the last time. Nothing is started.
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

    /// Their tools. Servers of which nothing is known are started and asked, all at once.
    pub async fn load(&self) -> Found {
        self.load_where(|_| true).await
    }

    /// Their tools, for a call of this name: of the servers of which nothing is known those alone are started that may
    /// have a tool of this name.
    pub async fn load_for(&self, name: &str) -> Found {
        let reads = [Reads::Resources, Reads::Prompts];
        self.load_where(|spec| {
            names::may_be(&spec.prefix, name) || reads.iter().any(|reads| reads.name(spec) == name)
        })
        .await
    }

    async fn load_where(&self, wanted: impl Fn(&ServerSpec) -> bool) -> Found {
        let mut asked = Vec::new();
        let mut found = Found::default();
        for server in self.sorted() {
            let task = match server.known() {
                Some(described) => Err(described),
                None if wanted(&server.spec) => {
                    let server = Arc::clone(&server);
                    Ok(tokio::spawn(async move { server.look().await }))
                }
                None => {
                    found.unseen += 1;
                    continue;
                }
            };
            asked.push((server, task));
        }
        for (server, task) in asked {
            let described = match task {
                Err(described) => Ok(described),
                Ok(task) => task.await.unwrap_or_else(|error| {
                    Err(ToolError::new(
                        mimir_core::Code::Internal,
                        error.to_string(),
                    ))
                }),
            };
            match described {
                Ok(described) => found.add(&server, &described),
                Err(error) => found.quarantined.push(Quarantined {
                    location: server.spec.location(),
                    code: error.code,
                    reason: format!(
                        "{}; `mimir mcp test {}` tries it again",
                        error.message, server.spec.name
                    ),
                }),
            }
        }
        found
    }

    /// Starts a server, or reaches it, and asks what its tools are. None of this name is `None`.
    pub async fn test(&self, name: &str) -> Option<Result<Tried, ToolError>> {
        let server = self.get(name)?;
        let begun = Instant::now();
        Some(server.describe().await.map(|described| {
            let mut found = Found::default();
            found.add(&server, &described);
            Tried {
                server: described.server.clone(),
                found,
                took: begun.elapsed(),
            }
        }))
    }

    /// Finds out how a login at a server goes. None of this name is `None`.
    pub async fn plan(&self, name: &str) -> Option<Result<Plan, ToolError>> {
        let server = self.get(name)?;
        Some(oauth::plan(&server.spec, server.deps()).await)
    }

    /// Ends the login at a server: whether its authorization server was told, and `None` where there is no login.
    /// None of this name is `None`.
    pub async fn log_out(&self, name: &str) -> Option<Result<Option<bool>, ToolError>> {
        let server = self.get(name)?;
        Some(oauth::forget(&server.spec, server.deps()).await)
    }

    /// The login at a server, if there is one.
    pub fn login(&self, name: &str) -> Result<Option<Login>, ToolError> {
        match self.get(name) {
            Some(server) => oauth::login(&server.spec, server.deps()),
            None => Ok(None),
        }
    }

    /// Whether the server of this name runs at the moment.
    pub async fn runs(&self, name: &str) -> bool {
        match self.get(name) {
            Some(server) => server.runs().await,
            None => false,
        }
    }

    /// News of resources, by the servers' own URIs.
    pub(super) fn updates(&self) -> &Updates {
        &self.updates
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Server>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).cloned()
    }

    pub(super) fn sorted(&self) -> Vec<Arc<Server>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<Server>> = all.values().cloned().collect();
        all.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
        all
    }
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
