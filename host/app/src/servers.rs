//! The MCP servers of a workspace: connects the MCP client with the sandbox, the secrets, the network proxy and a cache
//! of replies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{AllowedHost, NetworkPolicy, RequestTarget};
use mimir_core::redact::Vault;
use mimir_mcp::client::{
    DescriptionStore, LoginLinks, McpServers, RefusedHosts, ServerDeps, ServerObserver,
    ServerStatus,
};
use mimir_net::{
    Error, HostClient, OutboundRequest, PolicyGuard, RequestAuthorizer, RequestLimits,
    RequestPermit, TlsRoots,
};
use mimir_process::ProgramLauncher;

use crate::audit_watermark::AuditWatermark;
use crate::packages::{PackageServerLauncher, PackageStore};
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::secrets::UserLogins;
use crate::settings::{ConfigOwner, MergedSettings};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

pub mod control;
pub mod network_gate;
pub mod server_logs;
pub mod server_processes;
mod shadowed_names;

use network_gate::{CurrentSettings, DeclaredNetwork};
use server_logs::ServerLogs;
use server_processes::PublishedStates;

/// Timeout of a server's reply, including its events. A day, because calls have their own limits.
const REPLY_TIMEOUT: Duration = Duration::from_secs(86_400);

/// Maximum size in bytes of one reply, including all its events.
const MAX_REPLY_SIZE: u64 = 24 << 20;

/// Maximum size in bytes of the cached replies of one server: the maximum that is read, plus the overhead of JSON.
const MAX_CACHED_REPLIES: usize = 12 << 20;

/// The MCP servers of a workspace.
pub struct WorkspaceServers {
    servers: Arc<McpServers>,
    current: Arc<CurrentSettings>,
}

/// Publishes the states of the servers for other processes, and writes their logs.
struct StatePublisher {
    states: Option<PublishedStates>,
    logs: Option<ServerLogs>,
}

impl ServerObserver for StatePublisher {
    fn statuses_changed(&self, statuses: &BTreeMap<String, ServerStatus>) {
        if let Some(states) = &self.states {
            states.publish(statuses);
        }
    }

    fn log_line(&self, server: &str, line: &str) {
        if let Some(logs) = &self.logs {
            logs.append(server, line);
        }
    }
}

/// Returns the parent of the empty folders in which servers without `cwd` start. It is outside of the workspace, so
/// that models cannot write there.
pub fn empty_folders(user_dirs: &UserDirs) -> PathBuf {
    match &user_dirs.cache {
        Some(cache) => cache.join("mcp").join("started"),
        None => std::env::temp_dir().join(format!("mimir-{}", std::process::id())),
    }
}

impl WorkspaceServers {
    /// Creates the servers of these settings. Reads and starts nothing. Requests of servers are recorded in the audit
    /// log of `audit_watermark`.
    pub fn new(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        settings: &MergedSettings,
        vault: Arc<dyn Vault>,
        audit_watermark: &Arc<AuditWatermark>,
    ) -> Self {
        let current = Arc::new(CurrentSettings::new(settings));
        let client_settings = Arc::clone(&current);
        let root = workspace.root().to_owned();
        let folder = user_dirs.cache.as_ref().map(|cache| cache.join("mcp"));
        let programs = ProgramLauncher::new(&root, empty_folders(user_dirs));
        let refused = RefusedHosts::default();
        let programs =
            programs.with_proxies(proxies(audit_watermark, workspace, &current, &refused));
        let servers = McpServers::new(ServerDeps {
            launcher: Arc::new(PackageServerLauncher::new(
                programs,
                PackageStore::new(user_dirs),
                user_dirs,
                workspace,
            )),
            vault,
            store: Arc::new(ServerDescriptionCache { folder }),
            logins: Arc::new(UserLogins::new(user_dirs)),
            links: LoginLinks::default(),
            root: Arc::from(root.as_path()),
            refused,
            observer: Arc::new(StatePublisher {
                states: PublishedStates::new(user_dirs, workspace),
                logs: ServerLogs::new(user_dirs, workspace),
            }),
            client: Arc::new(move |server, url| {
                let mut settings = client_settings.get();
                // The addresses of a project are for its own servers: those of the user have the user's credentials.
                if !is_of_project(&settings, server) {
                    settings = without_project_network(&settings);
                }
                client(&settings, &root, url)
            }),
        });
        servers.set_with_restarts(&settings.config, &settings.server_control.restarts());
        Self {
            servers: Arc::new(servers),
            current,
        }
    }

    /// Replaces the settings. Starts the servers that the user has started or restarted since. Call it in a runtime.
    pub fn set(&self, settings: &MergedSettings) {
        self.current.set(settings);
        let restarts = settings.server_control.restarts();
        for name in self.servers.set_with_restarts(&settings.config, &restarts) {
            let servers = Arc::clone(&self.servers);
            tokio::spawn(async move { servers.start(&name).await });
        }
    }

    /// Returns the MCP client of all servers.
    pub fn servers(&self) -> &Arc<McpServers> {
        &self.servers
    }
}

/// Returns the factory of proxies for servers with network access.
fn proxies(
    audit_watermark: &Arc<AuditWatermark>,
    workspace: &WorkspaceFolder,
    current: &Arc<CurrentSettings>,
    refused: &RefusedHosts,
) -> Arc<mimir_process::ProxyFactory> {
    // A weak reference, so that a running server does not keep `audit_watermark` alive: dropping it stores the audit
    // position.
    let (audit_watermark, root) = (Arc::downgrade(audit_watermark), workspace.root().to_owned());
    let (current, refused) = (Arc::clone(current), refused.clone());
    Arc::new(move |launch| {
        let name = &launch.name;
        let declared = DeclaredNetwork {
            program: format!("the server {name}"),
            hosts: launch.hosts.clone(),
            registry: false,
            remedy: format!("add `{{host}}` to mcp.servers.{name}.network"),
            refused: Some((name.clone(), refused.clone())),
        };
        let audit_watermark = audit_watermark
            .upgrade()
            .ok_or_else(|| ToolError::unavailable("mimir is shutting down"))?;
        let audit = audit_watermark.writer(current.get().config.audit);
        network_gate::proxy(declared, Arc::clone(&current), &root, audit)
    })
}

/// Returns true if only the project's file has the address of the server with this name.
fn is_of_project(settings: &MergedSettings, server: &str) -> bool {
    let mut owners = settings.files.iter().filter_map(|file| {
        let entry = file.config.mcp.servers.get(server)?;
        // Other entries only switch the server on or off.
        let has_address = entry.url.is_some() || entry.command.is_some() || entry.package.is_some();
        has_address.then_some(file.owner)
    });
    owners.next() == Some(ConfigOwner::Project) && owners.next().is_none()
}

/// Returns these settings without the addresses (`network.hosts`) and the certificates (`network.extraRoots`) of the
/// project's file: for requests with keys of the user, which a project must not send elsewhere, also if the user has
/// accepted its file.
pub fn without_project_network(settings: &MergedSettings) -> MergedSettings {
    let mut kept = settings.without_project_hosts();
    let others = settings.files.iter();
    let others = others.filter(|file| file.owner != ConfigOwner::Project);
    let mut roots: Vec<String> = Vec::new();
    for root in others.flat_map(|file| &file.config.network.extra_roots) {
        if !roots.contains(root) {
            roots.push(root.clone());
        }
    }
    kept.config.network.extra_roots = roots;
    kept
}

/// Creates an HTTP client for the server or the model at `url`. The origin of the URL is allowed, even on this machine,
/// because the settings name it. Blocked hosts stay blocked, and team policies take precedence.
pub fn client(
    settings: &MergedSettings,
    root: &std::path::Path,
    url: &str,
) -> Result<HostClient, ToolError> {
    let policy = settings.policy()?;
    let target = RequestTarget::parse(url).map_err(|error| ToolError::from(Error::from(error)))?;
    let origin = target.origin().to_string();
    let pattern = origin.parse().map_err(|_| {
        ToolError::invalid_input(format!("`{origin}` is not a valid origin of a server"))
    })?;
    let own = policy.own_network_with(&[AllowedHost {
        pattern,
        methods: None,
    }]);
    let limits = RequestLimits {
        first_byte: REPLY_TIMEOUT,
        between_bytes: REPLY_TIMEOUT,
        whole: REPLY_TIMEOUT,
        body_bytes: MAX_REPLY_SIZE,
        upload_bytes: MAX_REPLY_SIZE,
        ..RequestLimits::default()
    };
    let roots = TlsRoots::from_folder(root, &policy.roots(None))?;
    let authorizer = Arc::new(SingleOriginGate {
        origin,
        teams: policy.team_networks(None).collect(),
    });
    Ok(HostClient::new(
        Arc::new(PolicyGuard::new(own)),
        authorizer,
        roots,
        limits,
        None,
    ))
}

/// Authorizer that allows requests to one origin only.
struct SingleOriginGate {
    origin: String,
    teams: Vec<NetworkPolicy>,
}

impl RequestAuthorizer for SingleOriginGate {
    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        let is_own_origin = request.target.origin().to_string() == self.origin;
        Box::pin(std::future::ready(match request.check_teams(&self.teams) {
            Err(refusal) => Err(refusal.into()),
            Ok(()) if is_own_origin => Ok(RequestPermit::Listed),
            Ok(()) => Err(ToolError::policy_denied(format!(
                "the server at {} refers to another origin: {}",
                self.origin,
                request.target.origin()
            ))),
        }))
    }
}

/// Cache of server replies in the user's own cache folder, which a checkout cannot write to.
struct ServerDescriptionCache {
    folder: Option<PathBuf>,
}

impl DescriptionStore for ServerDescriptionCache {
    fn read(&self, key: &str) -> Option<String> {
        let path = self.folder.as_ref()?.join(format!("{key}.json"));
        match private_files::read(&path, OwnerOnly::Writing) {
            Ok(text) => text.filter(|text| text.len() <= MAX_CACHED_REPLIES),
            Err(error) => {
                tracing::debug!(%error, "cannot read the cached replies of a server");
                None
            }
        }
    }

    fn write(&self, key: &str, text: &str) {
        let Some(folder) = &self.folder else { return };
        if text.len() > MAX_CACHED_REPLIES {
            tracing::debug!("the replies of a server are too large to be cached");
            return;
        }
        let path = folder.join(format!("{key}.json"));
        let written = private_files::private_folder(folder)
            .and_then(|()| private_files::replace(&path, text.as_bytes(), FileReaders::Owner));
        if let Err(error) = written {
            tracing::debug!(%error, "cannot cache the replies of a server");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::settings::{ConfigFile, ConfigLocation};

    fn file(owner: ConfigOwner, text: &str) -> ConfigFile {
        let location = ConfigLocation {
            path: PathBuf::from("/settings/config.yml"),
            shown: format!("{owner:?}"),
            owner,
        };
        ConfigFile::parse(location, text).unwrap()
    }

    /// Returns settings in which the project's file is accepted. It replaces the user's network settings.
    fn settings(user: &str, project: &str) -> MergedSettings {
        let mut settings = MergedSettings::default();
        let project = file(ConfigOwner::Project, project);
        settings.config = project.config.clone();
        settings.files = vec![file(ConfigOwner::User, user), project];
        settings
    }

    /// Attack: an accepted project sends the requests of the user's servers to its own machine, with its certificates.
    #[test]
    fn project_network_applies_only_to_servers_of_the_project() {
        let merged = settings(
            "network: {extraRoots: [user.pem]}\nmcp: {servers: {ours: {url: 'https://mcp.example/mcp'}, both: {url: 'https://both.example/mcp'}}}\n",
            "network: {hosts: {mcp.example: 127.0.0.1}, extraRoots: [evil.pem]}\n\
             mcp: {servers: {theirs: {url: 'https://dev.example/mcp'}, both: {url: 'https://both.example/mcp'}, ours: {enabled: false}}}\n",
        );
        for (server, expected) in [
            ("theirs", true),
            ("ours", false),
            ("both", false),
            ("other", false),
        ] {
            assert_eq!(is_of_project(&merged, server), expected, "{server}");
        }
        let target = RequestTarget::parse("https://mcp.example/mcp").unwrap();
        let network = |settings: &MergedSettings| {
            let policy = settings.policy().unwrap();
            let hosts = policy.own_network();
            (hosts.addresses(&target).is_some(), policy.roots(None))
        };
        // An accepted file applies to requests without credentials of the user.
        let (is_redirected, roots) = network(&merged);
        assert!(is_redirected);
        assert!(roots.iter().any(|root| root == "evil.pem"), "{roots:?}");
        let kept = without_project_network(&merged);
        assert_eq!(
            network(&kept),
            (false, vec!["/settings/user.pem".to_owned()])
        );
    }
}
