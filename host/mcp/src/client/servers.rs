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
use tokio::time::sleep;

use super::backend::{Reader, ServerTool};
use super::described::{ALONE, Described, Theirs, print};
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

/// When servers that failed are tried again by those who only look: seconds are counted of how long they are left alone.
pub const AGAIN: Duration = Duration::from_secs(ALONE + 1);

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
    /// Its description of itself, as it sent it.
    pub described: Arc<Described>,
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
        let faults = all
            .iter()
            .filter_map(|server| Some((server.spec.prefix.clone(), server.fault()?)));
        Reserved::new(specs.map(|spec| (spec.location(), spec.prefix.clone()))).with_faults(faults)
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
        self.ask(|_| Some(Asks::ToLook)).await;
        self.found(|_| true)
    }

    /// Starts and asks all of which nothing is known, and those that fail `again` after so long, until there is none.
    /// What is left out is told, the same once.
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

    /// Their tools, for a call of this name: of the servers of which nothing is known those alone are started that may
    /// have a tool of this name.
    pub async fn load_for(&self, name: &str) -> Found {
        self.seek(name).await;
        self.found(|spec| for_call(spec, name).is_some())
    }

    /// Starts the servers of which nothing is known and that may have a tool of this name, and asks them. Says whether
    /// there is any.
    pub async fn seek(&self, name: &str) -> bool {
        self.ask(|spec| for_call(spec, name)).await
    }

    /// Whether they have a tool of this name, or it is known why the server is not there that may have it.
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

    /// Asks servers of which nothing is known, all at once, and says whether there is any.
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
                // Why it is not there is kept with it.
                let _ = match asks {
                    Asks::ToCall => server.describe().await,
                    Asks::ToLook => server.look().await,
                };
            }));
        }
        let any = !asked.is_empty();
        for task in asked {
            if let Err(error) = task.await {
                tracing::warn!(%error, "a server was not asked to the end");
            }
        }
        any
    }

    /// What is known now, with why servers are not there that were `asked`.
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
                described: Arc::clone(&described),
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

/// How a server is asked.
enum Asks {
    /// One that failed a moment ago is left alone.
    ToLook,
    /// One that failed is tried again, as soon as that is.
    ToCall,
}

/// How a server is asked for a call of this name; not at all if it has no such tool.
fn for_call(spec: &ServerSpec, name: &str) -> Option<Asks> {
    let reads = [Reads::Resources, Reads::Prompts];
    if reads.iter().any(|reads| reads.name(spec) == name) {
        return Some(Asks::ToCall);
    }
    names::may_be(&spec.prefix, name).then_some(match spec.prefix.is_empty() {
        // Any wrong name may be one of it.
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
