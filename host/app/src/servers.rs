//! Other people's MCP servers, joined with what they need: the sandbox, the secrets, the way out, and a place where it
//! is kept what they have said.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{Entry, NetworkPolicy, Target};
use mimir_mcp::client::{Deps, Servers, Store};
use mimir_net::{Ask, Authorize, Client, Error, Guard, Limits, Permit, Roots};
use mimir_process::Programs;

use crate::memory::Memory;
use crate::packages::{PackagePrograms, PackageStore};
use crate::places::Places;
use crate::private::{self, Closed, Readers};
use crate::secrets::{Secrets, UserLogins, UserVault};
use crate::settings::Settings;
use crate::workspace::Workspace;

pub mod gate;

use gate::{CurrentSettings, Declared};

/// A server may take a day over an answer, or send events for as long: calls have limits of their own.
const LONG: Duration = Duration::from_secs(86_400);

/// What one answer may carry, in all its events.
const BODY: u64 = 24 << 20;

/// Bytes of what one server said that are kept: all that is read of it, and what JSON adds to that.
const KEPT_MOST: usize = 12 << 20;

/// The servers of one workspace.
pub struct OwnServers {
    servers: Arc<Servers>,
    current: Arc<CurrentSettings>,
}

/// The parent of the empty folders that servers without `cwd` start in. Only mimir writes there; models cannot reach
/// it.
pub fn empty_folders(places: &Places) -> PathBuf {
    match &places.cache {
        Some(cache) => cache.join("mcp").join("started"),
        None => std::env::temp_dir().join(format!("mimir-{}", std::process::id())),
    }
}

impl OwnServers {
    /// The servers of these settings. Nothing is read or started.
    /// `memory` has the record of the workspace, on which requests of servers are put.
    pub fn new(
        places: &Places,
        workspace: &Workspace,
        settings: &Settings,
        memory: &Arc<Memory>,
    ) -> Self {
        let current = Arc::new(CurrentSettings::new(settings));
        let seen = Arc::clone(&current);
        let root = workspace.root().to_owned();
        let vault = UserVault::new(Secrets::new(places), &settings.config);
        let folder = places.cache.as_ref().map(|cache| cache.join("mcp"));
        let programs = Programs::new(&root, empty_folders(places));
        let programs = programs.with_proxies(proxies(memory, workspace, &current));
        let servers = Servers::new(Deps {
            launcher: Arc::new(PackagePrograms::new(
                programs,
                PackageStore::new(places),
                places,
                workspace,
            )),
            vault: Arc::new(vault),
            store: Arc::new(Kept { folder }),
            logins: Arc::new(UserLogins::new(places)),
            root: Arc::from(root.as_path()),
            client: Arc::new(move |url| client(&seen.get(), &root, url)),
        });
        servers.set(&settings.config);
        Self {
            servers: Arc::new(servers),
            current,
        }
    }

    /// Puts other settings in force.
    pub fn set(&self, settings: &Settings) {
        self.current.set(settings);
        self.servers.set(&settings.config);
    }

    /// The servers themselves.
    pub fn all(&self) -> &Arc<Servers> {
        &self.servers
    }
}

/// The proxies of servers that were given the network.
fn proxies(
    memory: &Arc<Memory>,
    workspace: &Workspace,
    current: &Arc<CurrentSettings>,
) -> Arc<mimir_process::MakeProxy> {
    // Dropped with the command, which notes then where the record ends: a server that still runs must not hold it.
    let (memory, root) = (Arc::downgrade(memory), workspace.root().to_owned());
    let current = Arc::clone(current);
    Arc::new(move |launch| {
        let name = &launch.name;
        let declared = Declared {
            who: format!("the server {name}"),
            hosts: launch.hosts.clone(),
            registry: false,
            remedy: format!("add `{{host}}` to mcp.servers.{name}.network"),
        };
        let memory = memory.upgrade().ok_or_else(|| {
            ToolError::new(mimir_core::Code::Unavailable, "mimir is about to end")
        })?;
        let audit = memory.writer(current.get().config.audit);
        gate::proxy(declared, Arc::clone(&current), &root, audit)
    })
}

/// A client that reaches the server, or the model, at this URL. A person has named it in the settings: that puts this one
/// origin on the list, also where it is on this machine. What the settings block stays blocked, and teams have the last
/// word.
pub fn client(settings: &Settings, root: &std::path::Path, url: &str) -> Result<Client, ToolError> {
    let policy = settings.policy()?;
    let target = Target::parse(url).map_err(|error| ToolError::from(Error::from(error)))?;
    let origin = target.origin().to_string();
    let pattern = origin.parse().map_err(|_| {
        let message = format!("`{origin}` is no place that can be named as a server");
        ToolError::new(mimir_core::Code::InvalidInput, message)
    })?;
    let own = policy.own_network().with_allowed([Entry {
        pattern,
        methods: None,
    }]);
    let limits = Limits {
        first_byte: LONG,
        between_bytes: LONG,
        whole: LONG,
        body_bytes: BODY,
        upload_bytes: BODY,
        ..Limits::default()
    };
    let roots = Roots::below(root, &policy.roots(None))?;
    let only = Arc::new(Only {
        origin,
        teams: policy.team_networks(None).collect(),
    });
    Ok(Client::new(
        Arc::new(Guard::new(own)),
        only,
        roots,
        limits,
        None,
    ))
}

/// Lets requests to one origin.
struct Only {
    origin: String,
    teams: Vec<NetworkPolicy>,
}

impl Authorize for Only {
    fn authorize<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        let verdicts = self.teams.iter();
        let mut verdicts = verdicts.map(|team| team.judge(ask.target, ask.method.as_str()));
        let refusal = verdicts.find_map(|verdict| verdict.refusal().cloned());
        let own = ask.target.origin().to_string() == self.origin;
        Box::pin(std::future::ready(match refusal {
            Some(refusal) => Err(Error::Blocked(refusal).into()),
            None if own => Ok(Permit::Listed),
            None => Err(ToolError::new(
                mimir_core::Code::PolicyDenied,
                format!(
                    "a server at {} sends mimir to {}",
                    self.origin,
                    ask.target.origin()
                ),
            )),
        }))
    }
}

/// What servers said, in the user's own cache: what comes with a checkout has no say in it.
struct Kept {
    folder: Option<PathBuf>,
}

impl Store for Kept {
    fn read(&self, key: &str) -> Option<String> {
        let path = self.folder.as_ref()?.join(format!("{key}.json"));
        match private::read(&path, Closed::Writing) {
            Ok(text) => text.filter(|text| text.len() <= KEPT_MOST),
            Err(error) => {
                tracing::debug!(%error, "what a server said is not read");
                None
            }
        }
    }

    fn write(&self, key: &str, text: &str) {
        let Some(folder) = &self.folder else { return };
        if text.len() > KEPT_MOST {
            tracing::debug!("what a server said is too long to be kept");
            return;
        }
        let path = folder.join(format!("{key}.json"));
        let written = private::private_folder(folder)
            .and_then(|()| private::replace(&path, text.as_bytes(), Readers::Owner));
        if let Err(error) = written {
            tracing::debug!(%error, "what a server said is not kept");
        }
    }
}
