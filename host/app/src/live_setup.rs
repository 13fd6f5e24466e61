//! Settings, tools and grants that follow changes of their files while a command runs. If a changed file cannot be
//! read, its last valid content stays in force. If a team's layer cannot be read, calls are refused.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::policy::PolicyHalt;
use mimir_core::{BoxFuture, Policy, Quarantined, ToolError};
use mimir_registry::OciDigest;
use mimir_script::ScriptFolder;
use mimir_wasm::{LoadedTools, Toolbox, WasmHost};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::cluster::{ClusterMembership, GrantRevisions};
use crate::interface::warn;
use crate::settings::{SettingsChange, SettingsWatcher};
use crate::setup::{HostSetup, add_server_tools};
use crate::workspace::WorkspaceFolder;

mod freshness_check;
mod pipeline_updater;

pub use freshness_check::FreshnessCheck;
pub use pipeline_updater::PipelineUpdater;

/// Interval of the checks for changed files. A check takes a few microseconds.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time without a change after which a file counts as completely written.
const SETTLED: Duration = Duration::from_millis(10);

/// The current settings, tools and grants, with the sources that they are loaded from.
pub struct LiveSetup {
    setup: HostSetup,
    policy: Policy,
    host: Arc<WasmHost>,
    scripts: ScriptFolder,
    watcher: SettingsWatcher,
    freshness: Arc<FreshnessCheck>,
    loaded: LoadedTools,
    /// Why no call may run: a team's layer cannot be read.
    halt: Option<PolicyHalt>,
    /// Number of changes that may affect which files have a trusted signature. Stays 0 if none is required.
    signature_changes: usize,
    /// The change counter of the servers' tools at the last check.
    servers: usize,
    /// The grants of the cluster at the last check.
    shared_grants: GrantRevisions,
    /// Handle to the task that queries servers whose tools are not known yet.
    server_query: Option<AbortHandle>,
    /// Completes when the first deployment of the workspace is published, if the process uses it without a restart.
    first_deployment: Option<BoxFuture<'static, WorkspaceFolder>>,
    /// Number of times that the folder of the settings has changed.
    deployments: usize,
    /// True if the next check creates a snapshot even if no watched file has changed.
    is_outdated: bool,
    /// True once all components in the tools folder have been described.
    described: watch::Sender<bool>,
}

/// An update of the settings, tools or grants.
pub enum SetupUpdate {
    /// Rules, tools or grants have changed.
    Snapshot {
        /// The complete new state.
        snapshot: Box<PipelineSnapshot>,
        /// True if the config files could not be read before.
        recovered: bool,
    },
    /// A config file is not valid: its last valid content stays in force.
    Broken(ToolError),
    /// A team's layer cannot be read: calls are refused until it can.
    Halted(ToolError),
}

impl LiveSetup {
    /// Loads all tools. Compiles components that are not in the cache.
    pub async fn new(setup: HostSetup) -> Result<Self, ToolError> {
        let mut live = Self::start(setup)?;
        live.load_first(live.toolbox()).await;
        Ok(live)
    }

    /// Loads the tools that were described before, without compiling anything. The other components are described while
    /// [`Self::follow`] runs, and arrive as updates.
    pub async fn new_uncompiled(setup: HostSetup) -> Result<Self, ToolError> {
        let mut live = Self::start(setup)?;
        live.load_first(live.toolbox().described_only()).await;
        Ok(live)
    }

    async fn load_first(&mut self, toolbox: Toolbox) {
        let mut loaded = toolbox.load().await;
        self.add_scripts_to(&mut loaded);
        self.loaded = loaded;
        self.described.send_replace(self.loaded.undescribed == 0);
        self.query_servers();
        self.prepare_engine();
    }

    fn start(setup: HostSetup) -> Result<Self, ToolError> {
        disable_huge_pages();
        let host = setup.host();
        // Created before the grants are read, so that no change is missed.
        let watcher = SettingsWatcher::new(&setup.user_dirs, &setup.workspace, &setup.settings);
        Ok(Self {
            policy: setup.settings.policy()?,
            scripts: setup.scripts(Arc::clone(&host)),
            host,
            freshness: Arc::new(FreshnessCheck::new(watcher.files())),
            watcher,
            loaded: LoadedTools::default(),
            halt: None,
            signature_changes: 0,
            servers: 0,
            shared_grants: shared_grants(&setup),
            server_query: None,
            first_deployment: None,
            deployments: 0,
            is_outdated: false,
            described: watch::Sender::new(false),
            setup,
        })
    }

    /// Returns a channel that becomes true once all components in the tools folder have been described and registered.
    pub fn described(&self) -> watch::Receiver<bool> {
        self.described.subscribe()
    }

    /// Returns the setup that tools and rules are loaded from.
    pub fn setup(&self) -> &HostSetup {
        &self.setup
    }

    /// Returns the runtime that executes components.
    pub fn host(&self) -> &Arc<WasmHost> {
        &self.host
    }

    /// Creates a snapshot of the tools of the last scan, with their current grants and the last valid rules.
    pub fn snapshot(&self) -> PipelineSnapshot {
        let mut loaded = LoadedTools {
            tools: self.loaded.tools.clone(),
            quarantined: self.loaded.quarantined.clone(),
            ..LoadedTools::default()
        };
        if !self.setup.has_only_components() {
            add_server_tools(&mut loaded, self.setup.servers.servers().known());
        }
        let registry = self.setup.build_registry(loaded).into_registry();
        let mut snapshot = self.setup.join_snapshot(self.policy.clone(), registry);
        if let Some(halt) = &self.halt {
            snapshot.policy = snapshot.policy.halted(halt.clone());
        }
        snapshot
    }

    /// Returns the check that updates a pipeline before a call, while [`Self::follow`] runs.
    pub fn freshness(&self) -> Arc<FreshnessCheck> {
        Arc::clone(&self.freshness)
    }

    /// Checks all sources at the given interval and passes updates to `handle_update`. Returns only the first error of
    /// `handle_update`.
    pub async fn follow<E>(
        &mut self,
        interval: Duration,
        mut handle_update: impl FnMut(&HostSetup, SetupUpdate) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let toolbox = self.toolbox();
            let sources = self.component_sources();
            let latest = Mutex::new(None);
            let take_latest = || latest.lock().take();
            let has_newer = AtomicBool::new(false);
            let mut watch = pin!(toolbox.watch(interval, |loaded| {
                has_newer.store(true, Ordering::Release);
                *latest.lock() = Some(loaded);
            }));
            // Describing new components may take a while, and must not block the checks of the other sources.
            let mut load = pin!(toolbox.load());
            let (mut watching, mut loading) = (true, true);
            let servers = Arc::clone(self.setup.servers.servers());
            let cluster = self.setup.cluster().cloned();
            let mut publications = cluster
                .as_ref()
                .map(|cluster| cluster.condition().settings_changes());
            let freshness = Arc::clone(&self.freshness);
            let following = freshness.register_follower();
            // A change needs two equal checks. Do the first one now, so that the first call does not wait for both.
            let change = self.watcher.check_for_change();
            for update in self.apply_change(change, None) {
                handle_update(&self.setup, update)?;
            }
            while sources == self.component_sources() {
                let (mut change, mut initial) = (None, None);
                let known_grants = self.shared_grants.clone();
                let grants_changed = async {
                    match &cluster {
                        Some(cluster) => cluster.grants_changed(&known_grants).await,
                        None => std::future::pending().await,
                    }
                };
                let first_deployment = async {
                    match &mut self.first_deployment {
                        Some(published) => published.await,
                        None => std::future::pending().await,
                    }
                };
                let published = async {
                    match &mut publications {
                        Some(publications) => {
                            ClusterMembership::settings_changed(publications).await
                        }
                        None => std::future::pending().await,
                    }
                };
                let (mut deployed, mut settles, mut is_published) = (None, false, false);
                tokio::select! {
                    // The watcher must scan the folder before `load` reads it, or changes in between would be missed.
                    biased;
                    () = &mut watch, if watching => watching = false,
                    loaded = &mut load, if loading => {
                        loading = false;
                        initial = Some(loaded);
                    }
                    // Changed tools of a server are applied at once.
                    () = servers.changed() => {}
                    // So are grants and revocations in the cluster.
                    () = grants_changed => {}
                    workspace = first_deployment => deployed = Some(workspace),
                    () = published => (settles, is_published) = (true, true),
                    () = freshness.wait_for_request() => settles = true,
                    () = tokio::time::sleep(interval) => {}
                }
                if let Some(workspace) = deployed {
                    self.first_deployment = None;
                    self.use_deployment(workspace);
                    settles = true;
                }
                // Skills are not among the files that are checked for changes.
                self.is_outdated |= is_published;
                if settles {
                    // A publication, or a call that waits for it, counts at once.
                    change = self.wait_until_settled().await;
                }
                let mut tools = take_latest();
                change = change.or_else(|| self.watcher.check_for_change());
                if let Some(loaded) = &mut tools {
                    self.add_scripts_to(loaded);
                }
                if let Some(mut loaded) = initial.filter(|_| !has_newer.load(Ordering::Acquire)) {
                    self.add_scripts_to(&mut loaded);
                    tools = Some(loaded).filter(|loaded| !is_same(loaded, &self.loaded));
                }
                for update in self.apply_change(change, tools) {
                    handle_update(&self.setup, update)?;
                }
                if !loading {
                    self.described
                        .send_if_modified(|described| !std::mem::replace(described, true));
                }
                self.watcher.mark_applied();
                following.resume_calls();
            }
        }
    }

    /// Uses the settings and tools of the first deployment once it is published, instead of those of the workspace.
    pub fn use_first_deployment(
        &mut self,
        published: impl Future<Output = WorkspaceFolder> + Send + 'static,
    ) {
        self.first_deployment = Some(Box::pin(published));
    }

    /// Uses the settings and tools of a deployment from now on, instead of those of the workspace.
    fn use_deployment(&mut self, workspace: WorkspaceFolder) {
        self.watcher.follow_workspace(&workspace);
        self.setup.workspace = workspace;
        self.scripts = self.setup.scripts(Arc::clone(&self.host));
        self.deployments += 1;
    }

    /// Checks the config files and grants now, and returns the updates.
    pub async fn catch_up(&mut self) -> Vec<SetupUpdate> {
        let change = self.wait_until_settled().await;
        self.apply_change(change, None)
    }

    /// Checks the config files and grants twice, because a change counts if two checks see the same state.
    async fn wait_until_settled(&mut self) -> Option<SettingsChange> {
        if let Some(change) = self.watcher.check_for_change() {
            return Some(change);
        }
        tokio::time::sleep(SETTLED).await;
        self.watcher.check_for_change()
    }

    fn apply_change(
        &mut self,
        change: Option<SettingsChange>,
        tools: Option<LoadedTools>,
    ) -> Vec<SetupUpdate> {
        let mut updates = Vec::new();
        let mut differs = tools.is_some() || std::mem::take(&mut self.is_outdated);
        let servers = self.setup.servers.servers().changes();
        differs |= std::mem::replace(&mut self.servers, servers) != servers;
        let grants = shared_grants(&self.setup);
        differs |= grants != self.shared_grants;
        self.shared_grants = grants;
        if let Some(loaded) = tools {
            self.loaded = loaded;
            self.prepare_engine();
        }
        let mut recovered = false;
        if let Some(change) = change {
            recovered = change.recovered;
            differs |= change.grants_changed || recovered;
            let required = self.requires_signatures();
            if let Some((settings, policy)) = change.settings {
                self.setup.vault.set(&settings.config);
                self.setup.servers.set(&settings);
                (self.setup.settings, self.policy) = (settings, policy);
                self.query_servers();
                differs = true;
            }
            let halt = change.team_fault.as_ref().map(unreadable_team);
            if self.halt != halt {
                self.halt = halt;
                differs = true;
            }
            updates.extend(change.fault.map(|error| match self.halt {
                Some(_) => SetupUpdate::Halted(error),
                None => SetupUpdate::Broken(error),
            }));
            // Files that were refused before they were described are read again.
            if required || self.requires_signatures() {
                self.signature_changes += 1;
            }
        }
        if differs {
            let snapshot = Box::new(self.snapshot());
            updates.push(SetupUpdate::Snapshot {
                snapshot,
                recovered,
            });
        }
        updates
    }

    /// Starts a background task that queries the servers whose tools are not known yet. The tools arrive like any other
    /// change. Failed servers are queried again after a pause.
    fn query_servers(&mut self) {
        if let Some(previous) = self.server_query.take() {
            previous.abort();
        }
        let servers = Arc::clone(self.setup.servers.servers());
        if self.setup.has_only_components() || servers.known().unseen == 0 {
            return;
        }
        let server_query = tokio::spawn(async move {
            let warn_left_out = |left_out: &Quarantined| {
                let location = mimir_core::text::visible(&left_out.location);
                let reason = mimir_core::text::visible(&left_out.reason);
                warn(format_args!("{location}: {reason}"));
            };
            servers
                .load_all(mimir_mcp::client::FAULT_RETRY_INTERVAL, warn_left_out)
                .await;
        });
        self.server_query = Some(server_query.abort_handle());
    }

    /// Prepares the script engine in the background if there are scripts, because its first start takes seconds.
    fn prepare_engine(&self) {
        if self.loaded.scripts.is_empty() {
            return;
        }
        let engine = Arc::clone(self.scripts.engine());
        tokio::spawn(async move {
            if let Err(error) = engine.prepare().await {
                tracing::warn!(%error, "scripts cannot run");
            }
        });
    }

    fn add_scripts_to(&self, loaded: &mut LoadedTools) {
        if !self.setup.has_only_components() {
            self.scripts.add_tools_to(loaded);
        }
    }

    fn reads_tools(&self) -> bool {
        self.setup.settings.loads_custom_tools()
    }

    fn requires_signatures(&self) -> bool {
        self.setup.settings.config.enforcement.require_signature
    }

    /// Returns what decides which components are loaded: true if those of the tools folder are, the changes that concern
    /// their signatures or that folder, and the bundles of teams whose tools are.
    fn component_sources(&self) -> (bool, usize, usize, Vec<OciDigest>) {
        let teams = self.setup.settings.teams.iter();
        let teams = teams.filter(|team| team.membership.shared_tools);
        let bundles = teams.map(|team| team.digest).collect();
        let changes = self.signature_changes;
        (self.reads_tools(), changes, self.deployments, bundles)
    }

    /// Returns the toolbox of the tools folder, which need not exist yet.
    fn toolbox(&self) -> Toolbox {
        let folder = self.reads_tools().then(|| self.setup.tools_folder());
        self.setup.toolbox_in(Arc::clone(&self.host), folder)
    }
}

/// Returns the grants of the cluster that this process has joined.
fn shared_grants(setup: &HostSetup) -> GrantRevisions {
    let cluster = setup.cluster();
    cluster.map_or_else(Vec::new, |cluster| cluster.grant_revisions())
}

/// Returns the reason to refuse calls while the layer of a team cannot be read.
fn unreadable_team(error: &ToolError) -> PolicyHalt {
    let remedies = error.remedies.iter().map(|remedy| format!("; {remedy}"));
    PolicyHalt {
        source: "mimir".to_owned(),
        rule: "teams".to_owned(),
        // The error may quote a file, so only the person sees it.
        text: "the rules of a team or an administrator cannot be read; `mimir doctor` shows why"
            .to_owned(),
        remedy: error.message.clone() + &remedies.collect::<String>(),
    }
}

/// Disables transparent huge pages for this process. With a hundred plugins, huge pages would increase the memory of a
/// process that mostly waits for calls by two thirds.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages cannot be disabled");
    }
}

/// Returns true if both scans found the same tools and quarantined the same files.
fn is_same(one: &LoadedTools, other: &LoadedTools) -> bool {
    let mut pairs = one.tools.iter().zip(&other.tools);
    one.quarantined == other.quarantined
        && one.tools.len() == other.tools.len()
        && pairs.all(|(one, other)| {
            let (own_origin, other_origin) = (&one.origin, &other.origin);
            one.name() == other.name()
                && (&own_origin.location, &own_origin.digest)
                    == (&other_origin.location, &other_origin.digest)
        })
}

#[cfg(test)]
mod tests;
