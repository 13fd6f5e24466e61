//! Creates a pipeline from the workspace, its settings, tools and rules. Only this module connects the front ends with
//! the backends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;
use mimir_agent::SessionBudget;
use mimir_browser::BrowserSessions;
use mimir_cluster::ClusterConnection;
use mimir_code_search::CodeSearch;
use mimir_core::approval::{ApprovalStore, ApproverChain, NoApprovalStore};
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::config::{EnforcementSettings, UnattendedQuestions};
use mimir_core::pipeline::{PipelineConnections, PipelinePorts, PipelineSnapshot};
use mimir_core::redact::Vault;
use mimir_core::remote_pipeline::RemotePipeline;
use mimir_core::shared_state::SharedStateHandle;
use mimir_core::{Approver, Clock, Limits, Pipeline, Policy, Registry, ToolError, ToolErrorCode};
use mimir_process::SandboxRunner;
use mimir_script::{CodeEngines, LanguageEngineParts};
use mimir_telemetry::Telemetry;
use mimir_wasm::{HostOptions, SystemClock, WasmHost};

use crate::approval_store::{UserApprovalStore, user_state_path};
use crate::audit_watermark::{AuditWatermark, ConfigFileChange};
use crate::browser;
use crate::call_switch::{self, user_switch};
use crate::cluster::ClusterMembership;
use crate::code_embeddings::GuardedEmbeddings;
use crate::console_presence::ConsoleFolder;
use crate::host::UnattendedApprover;
use crate::interface::{self, warn};
use crate::live_calls::{LiveCallHub, LiveCallPublisher};
use crate::models;
use crate::secrets::{UserSecrets, UserVault};
use crate::servers::WorkspaceServers;
use crate::settings::MergedSettings;
use crate::shared_approvals::SharedApprovalStore;
use crate::shared_questions::{ConsoleLookup, QuestionAsker, QuestionBoard};
use crate::shared_state::FileSharedState;
use crate::skills::SkillLibrary;
use crate::teams;
use crate::telemetry;
use crate::user_dirs::UserDirs;
use crate::worker_modules::{WorkerEngines, WorkerModules};
use crate::workers::WorkspaceWorkers;
use crate::workspace::WorkspaceFolder;

mod missing_files;
mod team_names;
mod tool_loading;

pub use missing_files::{TOOLS_PREFIX, is_in_tools, missing_file_reason};
pub use tool_loading::LoadedRegistry;
pub(crate) use tool_loading::{add_server_tools, grant_needs_of};

/// Folders, settings and stores that all commands use. Creating it only reads the config files.
pub struct HostSetup {
    /// The workspace, whose files tools can access.
    pub workspace: WorkspaceFolder,
    /// The merged settings.
    pub settings: MergedSettings,
    /// The user's own folders.
    pub user_dirs: UserDirs,
    /// The user's secrets, which all calls and servers share.
    pub vault: Arc<UserVault>,
    /// The stored end position of the audit log.
    pub audit_watermark: Arc<AuditWatermark>,
    /// The configured MCP servers.
    pub servers: WorkspaceServers,
    /// The browsers of the browser tools.
    pub browsers: Arc<BrowserSessions>,
    /// The budgets that an agent shares with its workers, and with tools that query the model.
    pub budget: SessionBudget,
    worker_engines: WorkerEngines,
    code_search: Arc<CodeSearch>,
    /// Folder of components whose tools are loaded instead of all others.
    component_folder: Option<PathBuf>,
    /// True if metrics are collected even if nothing is exported.
    collects_metrics: bool,
    /// True if the tools are those of other processes.
    are_tools_remote: bool,
    /// The cluster that this process has joined.
    cluster: Option<Arc<ClusterMembership>>,
    /// The running calls, if this process has a console.
    live_calls: Option<LiveCallHub>,
}

/// Maximum number of warnings of one kind that a command prints.
const WARNINGS: usize = 3;

impl HostSetup {
    /// Finds the workspace and reads the config files.
    pub fn find(workspace: Option<&Path>) -> Result<Self, ToolError> {
        let user_dirs = find_user_dirs();
        let workspace = find_workspace(workspace)?;
        workspace.check_separation(&user_dirs)?;
        let settings = MergedSettings::read(&user_dirs, &workspace)?;
        Ok(Self::from_parts(user_dirs, workspace, settings))
    }

    /// Reads the config files of a workspace that was found already.
    pub fn in_workspace(workspace: WorkspaceFolder) -> Result<Self, ToolError> {
        let user_dirs = find_user_dirs();
        workspace.check_separation(&user_dirs)?;
        let settings = MergedSettings::read(&user_dirs, &workspace)?;
        Ok(Self::from_parts(user_dirs, workspace, settings))
    }

    /// Finds the setup for commands that only change files of the user. They also work in a folder that cannot be a
    /// workspace, such as the home folder.
    pub fn find_for_user(workspace: Option<&Path>) -> Result<Self, ToolError> {
        let user_dirs = find_user_dirs();
        let workspace = find_workspace(workspace)?.or_user_folder(&user_dirs)?;
        let settings = MergedSettings::read(&user_dirs, &workspace)?;
        Ok(Self::from_parts(user_dirs, workspace, settings))
    }

    /// Finds the setup, like [`Self::find_for_user`], without the config of the project and the bundles of teams, so that
    /// these can be fetched or left.
    pub fn find_for_teams(workspace: Option<&Path>) -> Result<Self, ToolError> {
        let user_dirs = find_user_dirs();
        let workspace = find_workspace(workspace)?.or_user_folder(&user_dirs)?;
        let settings = MergedSettings::read_for_sync(&user_dirs, &workspace)?;
        Ok(Self::from_parts(user_dirs, workspace, settings))
    }

    /// Finds the workspace and reads the config files, like [`Self::find`]. First fetches the bundles of teams that are
    /// missing or damaged, and those that are too old if `renews` is true. If that fails, the stored ones count.
    pub async fn find_with_bundles(
        workspace: Option<&Path>,
        renews: bool,
    ) -> Result<Self, ToolError> {
        let found = Self::find(workspace);
        let now = jiff::Timestamp::now();
        let is_usable = match &found {
            Ok(setup) => {
                !renews
                    || setup
                        .settings
                        .teams
                        .iter()
                        .all(|team| team.deadline() > now)
            }
            Err(_) => false,
        };
        if is_usable {
            return found;
        }
        // Other errors than those of teams are reported as they are.
        let Ok(plain) = Self::find_without_teams(workspace) else {
            return found;
        };
        match teams::refresh_if_needed(&plain, renews).await {
            Ok(true) => Self::find(workspace),
            _ => found,
        }
    }

    /// Finds the workspace and reads the config files, like [`Self::find_with_bundles`]. First puts the bundles of teams in
    /// force that are published in the cluster.
    pub async fn find_in_cluster(
        workspace: Option<&Path>,
        connection: &ClusterConnection,
    ) -> Result<Self, ToolError> {
        if let Ok(plain) = Self::find_without_teams(workspace) {
            teams::fetch_published(connection, &plain).await?;
        }
        Self::find_with_bundles(workspace, false).await
    }

    /// Finds the workspace and reads the config files without that of the project and the bundles of teams, to fetch
    /// these.
    pub fn find_without_teams(workspace: Option<&Path>) -> Result<Self, ToolError> {
        let user_dirs = find_user_dirs();
        let workspace = find_workspace(workspace)?;
        workspace.check_separation(&user_dirs)?;
        let settings = MergedSettings::read_for_sync(&user_dirs, &workspace)?;
        Ok(Self::from_parts(user_dirs, workspace, settings))
    }

    /// Creates the setup from folders, a workspace and settings that were already read.
    pub fn from_parts(
        user_dirs: UserDirs,
        workspace: WorkspaceFolder,
        settings: MergedSettings,
    ) -> Self {
        let audit_watermark = Arc::new(AuditWatermark::for_workspace(&user_dirs, &workspace));
        crate::console_listeners::refuse_connections(&user_dirs);
        let vault = UserVault::new(UserSecrets::new(&user_dirs), &settings.config);
        let vault = Arc::new(vault);
        let servers = WorkspaceServers::new(
            &user_dirs,
            &workspace,
            &settings,
            Arc::clone(&vault) as Arc<dyn Vault>,
            &audit_watermark,
        );
        Self {
            browsers: browser::sessions(&user_dirs, &workspace, &settings),
            servers,
            vault,
            audit_watermark,
            budget: SessionBudget::default(),
            worker_engines: WorkerEngines::default(),
            code_search: code_search(&workspace, &user_dirs, &settings),
            component_folder: None,
            collects_metrics: false,
            are_tools_remote: false,
            cluster: None,
            live_calls: None,
            workspace,
            settings,
            user_dirs,
        }
    }

    /// Loads the tools of the components in `folder` instead of all others. Settings, rules and grants stay those of the
    /// user and the workspace.
    pub fn with_tools_from(mut self, folder: &Path) -> Result<Self, ToolError> {
        let found = folder.canonicalize();
        let real = found.map_err(|error| crate::file_error::file_error("open", folder, &error))?;
        if !real.is_dir() {
            let shown = mimir_core::text::visible(&folder.display().to_string());
            let message = format!("{shown} is not a folder: expected a folder with components");
            return Err(ToolError::new(ToolErrorCode::InvalidPath, message));
        }
        self.component_folder = Some(real);
        Ok(self)
    }

    /// Uses the approvals, grants, audit log and switch of a cluster from now on.
    #[must_use]
    pub fn in_cluster(mut self, cluster: Arc<ClusterMembership>) -> Self {
        self.budget.share(Arc::clone(cluster.state()));
        self.cluster = Some(cluster);
        self
    }

    /// Returns the cluster that this process has joined.
    pub fn cluster(&self) -> Option<&Arc<ClusterMembership>> {
        self.cluster.as_ref()
    }

    /// Loads no tools, because other processes run the calls.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        // A folder that does not exist, as a component cannot be a folder.
        self.component_folder = Some(self.workspace.tools().join(".remote"));
        self.are_tools_remote = true;
        self
    }

    /// Returns true if other processes run the calls, so that no tools are loaded.
    pub fn has_remote_tools(&self) -> bool {
        self.are_tools_remote
    }

    /// Returns true if only the tools of a folder of components are loaded.
    pub fn has_only_components(&self) -> bool {
        self.component_folder.is_some()
    }

    /// Returns the folder of components whose tools are loaded instead of all others, if there is one.
    pub fn component_folder(&self) -> Option<&Path> {
        self.component_folder.as_deref()
    }

    /// Creates a Wasm host for the workspace. Its engines are created on first use.
    pub fn host(&self) -> Arc<WasmHost> {
        let limits = self.settings.compile_limits();
        host(self.workspace.root(), self.user_dirs.cache.clone(), &limits)
    }

    /// Returns the loader of the tools that only workers have.
    pub fn worker_modules(&self) -> WorkerModules {
        WorkerModules::new(
            &self.workspace,
            &self.user_dirs,
            &self.settings.config,
            self.servers.servers().reserved(),
            self.worker_engines.clone(),
            self.shared_approvals(),
        )
    }

    /// Returns the workers of the workspace and of its teams. `enforcement.disableLocalTools` disables the former.
    pub fn workers(&self) -> WorkspaceWorkers {
        let workers = WorkspaceWorkers::for_workspace(&self.user_dirs, &self.workspace)
            .with_teams(&self.settings.teams);
        let disables = |enforcement: &EnforcementSettings| enforcement.disable_local_tools;
        match self.settings.enforcing_file(disables) {
            Some(file) => workers.disable_local(file),
            None => workers,
        }
    }

    /// Returns the skills of the workspace and of its teams. `enforcement.disableLocalTools` disables the former.
    pub fn skills(&self) -> SkillLibrary {
        let library = SkillLibrary::for_workspace(&self.user_dirs, &self.workspace)
            .with_teams(&self.settings.teams)
            .with_shared(self.shared_approvals());
        let disables = |enforcement: &EnforcementSettings| enforcement.disable_local_tools;
        match self.settings.enforcing_file(disables) {
            Some(file) => library.disable_local(file),
            None => library,
        }
    }

    /// Returns the approval store of this user for the workspace; `None` on platforms without a settings folder.
    pub fn approvals(&self) -> Option<UserApprovalStore> {
        UserApprovalStore::new(&self.user_dirs, &self.workspace)
    }

    /// Returns the approvals and grants of the cluster that this process has joined.
    pub(crate) fn shared_approvals(&self) -> Option<Arc<SharedApprovalStore>> {
        let cluster = self.cluster.as_ref()?;
        Some(Arc::clone(cluster.approvals()))
    }

    /// Loads a snapshot of the current tools and rules.
    pub async fn load_snapshot(&self) -> Result<PipelineSnapshot, ToolError> {
        let policy = self.settings.policy()?;
        Ok(self.join_snapshot(policy, self.registry().await.into_registry()))
    }

    /// Combines tools and rules. Warns about deny rules that match no tool, because a misspelled name denies nothing,
    /// and about project settings that are ignored.
    pub fn join_snapshot(&self, policy: Policy, registry: Registry) -> PipelineSnapshot {
        let tools: Vec<_> = registry.tools().iter().map(Arc::as_ref).collect();
        let unused = if self.are_tools_remote {
            Vec::new()
        } else {
            policy.unused_denials(&tools)
        };
        for line in unused.iter().take(WARNINGS) {
            warn(line);
        }
        if unused.len() > WARNINGS {
            let more = unused.len() - WARNINGS;
            warn(format_args!(
                "{more} more warnings like these; `mimir policy check` shows all"
            ));
        }
        self.warn_withheld();
        let policy = self.skills().show_in(policy);
        PipelineSnapshot { registry, policy }
    }

    /// Warns about project settings that are ignored until they are accepted.
    fn warn_withheld(&self) {
        let withheld = self.settings.withheld();
        let Some(file) = self.settings.project().filter(|_| !withheld.is_empty()) else {
            return;
        };
        let mut keys = withheld
            .iter()
            .take(WARNINGS)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if withheld.len() > WARNINGS {
            keys.push_str(&format!(" and {} more", withheld.len() - WARNINGS));
        }
        let mask_note = if self.settings.config.masked_only.is_empty() {
            ""
        } else {
            "; the values of its secrets are still masked"
        };
        if self.workspace.deployment().is_some() {
            return warn(format_args!(
                "the published .mimir/config.yml was not accepted by the administrator who has published it, so these \
                 settings are ignored: {}{mask_note}; there, run `mimir policy accept`, then `mimir cluster publish`",
                mimir_core::text::visible(&keys)
            ));
        }
        warn(format_args!(
            "{} may have come with a checkout, so these settings are ignored until you run `mimir policy accept`: {}{mask_note}",
            file.shown,
            mimir_core::text::visible(&keys)
        ));
    }

    /// Records a user action in the audit log. A failure only causes a warning, because the action is already done.
    pub fn record_event(&self, event: &AuditEvent) {
        if let Err(error) = self.audit().record(event) {
            warn(error);
        }
    }

    /// Returns the writer of the audit log: that of the cluster, or that of this workspace.
    pub fn audit(&self) -> Arc<dyn AuditSink> {
        let settings = self.settings.config.audit;
        match &self.cluster {
            Some(cluster) => cluster.audit(settings),
            None => self.audit_watermark.writer(settings),
        }
    }

    /// Returns the approval store, or an error for commands that cannot work without one.
    pub fn require_approvals(&self) -> Result<UserApprovalStore, ToolError> {
        self.approvals().ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings, where approvals and grants are stored; set MIMIR_CONFIG_DIR",
            )
        })
    }

    /// Records in the audit log which config files have changed since mimir last read them in this workspace.
    pub fn record_changes(&self) {
        for (file, change) in self.audit_watermark.changed_files(&self.settings.digests()) {
            let detail = match change {
                ConfigFileChange::Removed => {
                    "it existed at the last run and does not exist now".to_owned()
                }
                ConfigFileChange::Changed { sha256 } => {
                    format!("it has changed since the last run, sha256 {sha256}")
                }
            };
            let event =
                AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(&file);
            if let Err(error) = self.audit().record(&event.with_detail(&detail)) {
                // Calls that cannot be recorded report it themselves.
                tracing::debug!(%error, "a change of the config is not recorded");
            }
        }
    }

    /// Returns the time that a person has to answer an approval question.
    pub fn approval_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.config.approvals.timeout_ms)
    }

    /// Creates a pipeline for this snapshot. It records calls in the audit log of the workspace or of the cluster.
    pub fn pipeline(&self, snapshot: PipelineSnapshot, approver: Arc<dyn Approver>) -> Pipeline {
        self.pipeline_with_remote(snapshot, approver, None)
    }

    /// Creates a pipeline whose calls run in other processes, if `remote` is given.
    pub fn pipeline_with_remote(
        &self,
        snapshot: PipelineSnapshot,
        approver: Arc<dyn Approver>,
        remote: Option<Arc<dyn RemotePipeline>>,
    ) -> Pipeline {
        self.record_changes();
        let timeout = self.approval_timeout();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let max_age = snapshot.policy.approval_lifetime();
        let telemetry = self.telemetry();
        let ports = PipelinePorts {
            approver: Arc::new(ApproverChain::new(
                vec![approver],
                Some(timeout),
                Arc::clone(&clock),
            )),
            approval_store: self.approval_store(max_age),
            vault: models::vault(self),
            audit: telemetry::wrap(telemetry.as_ref(), self.audit()),
            clock,
            runner: Arc::new(SandboxRunner::new(
                self.workspace.root(),
                self.settings.config.sandbox.clone(),
            )),
            model: Arc::new(models::completer(self)),
        };
        let pipeline = Pipeline::new(snapshot, ports);
        if let Some(telemetry) = &telemetry {
            telemetry::watch_pipeline(telemetry, &pipeline);
        }
        let (switch, state) = match &self.cluster {
            Some(cluster) => {
                let (state, node) = (Arc::clone(cluster.state()), cluster.node().clone());
                let asker = move || QuestionAsker::Node(node.id());
                let board = self.question_board(state, cluster.workspace(), asker);
                let nodes = cluster.node().nodes();
                let consoles: ConsoleLookup =
                    Arc::new(move || nodes.list().iter().any(|node| node.console));
                pipeline.share_questions(Arc::new(board.with_consoles(Some(consoles))));
                (cluster.switch(), Some(Arc::clone(cluster.state())))
            }
            None => (user_switch(&self.user_dirs), None),
        };
        pipeline.connect(PipelineConnections {
            switch,
            state,
            remote,
        });
        call_switch::enforce_stops(&pipeline);
        self.publish_calls(&pipeline);
        pipeline
    }

    /// Shares the orders to stop agents with the other servers and workers of the cluster, if this process has joined one.
    /// Call it before the first call, for a pipeline whose sessions other processes may continue.
    pub fn share_agent_stops(&self, pipeline: &Pipeline) {
        if let Some(cluster) = &self.cluster {
            let calls = pipeline.running_calls();
            cluster.approvals().share_agent_stops(&calls);
        }
    }

    /// Shows the running calls of this process in a console of its own.
    #[must_use]
    pub fn with_live_calls(mut self, hub: LiveCallHub) -> Self {
        self.live_calls = Some(hub);
        self
    }

    /// Reports the calls of a pipeline to the consoles of this user, and to the console of this process.
    fn publish_calls(&self, pipeline: &Pipeline) {
        let hub = self.live_calls.clone();
        match LiveCallPublisher::start(&self.user_dirs, pipeline.running_calls(), hub) {
            Ok(publisher) => pipeline.set_monitor(Arc::new(publisher)),
            // Calls must not fail because they cannot be shown.
            Err(error) => tracing::debug!(%error, "running calls are not shown in consoles"),
        }
    }

    /// Creates a pipeline that only explains calls. It exports nothing and is not connected to other processes.
    pub fn explaining_pipeline(&self, snapshot: PipelineSnapshot) -> Pipeline {
        let max_age = snapshot.policy.approval_lifetime();
        let ports = PipelinePorts {
            approver: Arc::new(UnattendedApprover),
            approval_store: self.approval_store(max_age),
            vault: models::vault(self),
            audit: self.audit(),
            clock: Arc::new(SystemClock),
            runner: Arc::new(SandboxRunner::new(
                self.workspace.root(),
                self.settings.config.sandbox.clone(),
            )),
            model: Arc::new(models::completer(self)),
        };
        Pipeline::new(snapshot, ports)
    }

    /// Collects metrics for `/metrics`, even if nothing is exported.
    #[must_use]
    pub fn with_metrics(mut self) -> Self {
        self.collects_metrics = true;
        self
    }

    /// Starts telemetry if the settings ask for it.
    fn telemetry(&self) -> Option<Arc<Telemetry>> {
        let vault = Arc::clone(&self.vault) as Arc<dyn Vault>;
        let root = self.workspace.root();
        telemetry::start(&self.settings, root, &vault, self.collects_metrics)
    }

    /// Returns the store of approvals, none of which is older than `max_age`.
    fn approval_store(&self, max_age: SignedDuration) -> Arc<dyn ApprovalStore> {
        if let Some(shared) = self.shared_approvals() {
            shared.set_max_age(max_age);
            return shared;
        }
        match self.approvals() {
            Some(approval_store) => Arc::new(approval_store.with_max_age(max_age)),
            None => Arc::new(NoApprovalStore),
        }
    }

    /// Makes the questions of a server's pipeline answerable with `mimir approvals answer` and at consoles. In a cluster,
    /// all are.
    pub fn share_questions(&self, pipeline: &Pipeline) {
        self.share_questions_of(pipeline, self.settings.config.approvals.unattended);
    }

    /// Makes the questions of a command such as `mimir call` answerable elsewhere, too. A question that cannot be asked
    /// on the terminal waits only while a console is open.
    pub fn share_questions_of_command(&self, pipeline: &Pipeline) {
        self.share_questions_of(pipeline, UnattendedQuestions::Refuse);
    }

    fn share_questions_of(&self, pipeline: &Pipeline, unattended: UnattendedQuestions) {
        if let Some(state) = self.local_state().filter(|_| self.cluster.is_none()) {
            let workspace = self.workspace.root().display().to_string();
            let asker = || QuestionAsker::Process(std::process::id());
            let timeout = self.approval_timeout();
            let board = QuestionBoard::new(state, &workspace, asker, timeout, unattended);
            let consoles = ConsoleFolder::find(&self.user_dirs, &self.workspace);
            let consoles =
                consoles.map(|folder| Arc::new(move || folder.has_open_console()) as ConsoleLookup);
            pipeline.share_questions(Arc::new(board.with_consoles(consoles)));
        }
    }

    fn question_board(
        &self,
        state: SharedStateHandle,
        workspace: &str,
        asker: impl Fn() -> QuestionAsker + Send + Sync + 'static,
    ) -> QuestionBoard {
        QuestionBoard::new(
            state,
            workspace,
            asker,
            self.approval_timeout(),
            self.settings.config.approvals.unattended,
        )
    }

    /// Returns the state that the processes of this machine share about the workspace. `None` on platforms without a
    /// folder for the user's settings.
    pub fn local_state(&self) -> Option<SharedStateHandle> {
        let folder = user_state_path(&self.user_dirs, &self.workspace, "state")?;
        Some(Arc::new(FileSharedState::new(folder)))
    }
}

impl HostSetup {
    /// Returns the shared state of the workspace for a console, whose watches see changes of other processes within
    /// `interval`.
    pub fn console_state(&self, interval: Duration) -> Option<SharedStateHandle> {
        let folder = user_state_path(&self.user_dirs, &self.workspace, "state")?;
        Some(Arc::new(
            FileSharedState::new(folder).with_poll_interval(interval),
        ))
    }
}

/// Finds the user's own folders. Warns about variables that are ignored.
pub fn find_user_dirs() -> UserDirs {
    let user_dirs = UserDirs::find();
    for variable in &user_dirs.ignored {
        warn(format_args!(
            "{variable} is ignored: it is not an absolute path"
        ));
    }
    user_dirs
}

/// Finds the workspace. Warns about a folder that was skipped.
pub fn find_workspace(named: Option<&Path>) -> Result<WorkspaceFolder, ToolError> {
    let workspace = WorkspaceFolder::find(named)?;
    if let Some(mimir_dir) = workspace.skipped() {
        let mimir_dir = mimir_core::text::visible(&mimir_dir.display().to_string());
        warn(format_args!(
            "{mimir_dir} belongs to another user and is ignored; to use it, pass its folder with -C"
        ));
    }
    let unusable = workspace.unusable();
    if let Some(mimir_dir) = unusable.filter(|folder| folder.join("config.yml").exists()) {
        let mimir_dir = mimir_core::text::visible(&mimir_dir.display().to_string());
        warn(format_args!(
            "{mimir_dir} is ignored, because its folder contains mimir's own files and cannot be a workspace; remove it, \
             or move it into the folder of your project"
        ));
    }
    Ok(workspace)
}

/// Creates the search of the workspace's code. Its requests have a host of their own, without engines.
fn code_search(
    workspace: &WorkspaceFolder,
    user_dirs: &UserDirs,
    settings: &MergedSettings,
) -> Arc<CodeSearch> {
    let limits = settings.config.limits();
    let host = host(workspace.root(), user_dirs.cache.clone(), &limits);
    // A file of the cache: without it, an index is built again.
    let key = (user_dirs.cache.as_ref()).map(|folder| folder.join("code-index.key"));
    CodeSearch::new(workspace.root(), key, GuardedEmbeddings::new(host))
}

/// Creates the code engines without a workspace.
pub fn standalone_engines() -> Arc<CodeEngines> {
    let host = host(Path::new("."), find_user_dirs().cache, &Limits::default());
    CodeEngines::new(host, engines())
}

/// Creates a Wasm host with the compiler and the compile handler of the installed interface.
pub(crate) fn host(root: &Path, cache: Option<PathBuf>, limits: &Limits) -> Arc<WasmHost> {
    let mut options = HostOptions::new(root);
    options.cache_dir = cache;
    options.compile_limits = limits.into();
    options.compiler = Some(interface::compiler());
    options.on_compile = interface::compile_handler();
    WasmHost::new(options)
}

/// Returns the engines that are embedded in the binary.
pub(crate) fn engines() -> LanguageEngineParts {
    LanguageEngineParts {
        javascript: mimir_builtins::JAVASCRIPT,
        python: mimir_builtins::PYTHON,
        bash: mimir_builtins::BASH,
    }
}
