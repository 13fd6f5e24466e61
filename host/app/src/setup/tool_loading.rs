//! Loading of the tools of a workspace: components, scripts, MCP servers, skills and workers, with their grants.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::grants;
use mimir_core::tool::{ToolSource, ToolTrust};
use mimir_core::{Quarantined, Registry, Tool, ToolError};
use mimir_mcp::client::ServerTools;
use mimir_script::ScriptFolder;
use mimir_wasm::{LoadedTools, Toolbox, WasmHost};

use super::missing_files::missing_files;
use super::team_names::TeamToolNames;
use super::{HostSetup, engines};
use crate::approval_store::UserApprovalStore;
use crate::browser;
use crate::install_package;
use crate::interface::warn;
use crate::models;
use crate::shared_approvals::SharedApprovalStore;
use crate::skills;
use crate::teams;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

impl HostSetup {
    /// Returns the folder of the custom tools, which need not exist.
    pub(crate) fn tools_folder(&self) -> PathBuf {
        let folder = self.component_folder.clone();
        folder.unwrap_or_else(|| self.workspace.tools())
    }

    /// Returns a toolbox of the built-in components and those in `.mimir/tools`, unless the settings turn these off.
    pub fn toolbox(&self, host: Arc<WasmHost>) -> Toolbox {
        let folder = self.tools_folder();
        let custom = self.settings.loads_custom_tools() && folder.is_dir();
        self.toolbox_in(host, custom.then_some(folder))
    }

    /// Returns a toolbox of the built-in components and those in `folder`, which need not exist yet.
    pub fn toolbox_in(&self, host: Arc<WasmHost>, folder: Option<PathBuf>) -> Toolbox {
        let (components, _) = self.settings.team_components();
        // Without a folder, there is nothing to check.
        let checks = folder.as_ref().and_then(|_| teams::signature_checks(self));
        Toolbox::new(host, mimir_builtins::ALL.to_vec(), folder)
            .with_team(components)
            .with_location_root(self.workspace.deployment().map(Path::to_owned))
            .with_file_checks(checks)
    }

    /// Compares the description in a plugin's file, with which its tools are listed, with the answer of the component
    /// itself (see [`Toolbox::verify_description`]). Tools of other sources have nothing to compare.
    pub async fn verify_description(&self, tool: &Tool) -> Result<(), ToolError> {
        if tool.source != ToolSource::Custom {
            return Ok(());
        }
        let toolbox = self.toolbox(self.host());
        toolbox.load().await;
        toolbox.verify_description(&tool.origin.location).await?;
        let modules = self.worker_modules();
        modules.verify_description(&tool.origin.location).await
    }

    /// Returns the loader of the scripts that a toolbox finds in `.mimir/tools`.
    pub fn scripts(&self, host: Arc<WasmHost>) -> ScriptFolder {
        ScriptFolder::new(host, engines(), self.workspace.tools())
            .with_location_root(self.workspace.deployment().map(Path::to_owned))
    }

    /// Loads the tools of all sources, with their grants.
    pub async fn registry(&self) -> LoadedRegistry {
        let host = self.host();
        let mut loaded = self.toolbox(Arc::clone(&host)).load().await;
        if !self.has_only_components() {
            self.scripts(host).add_tools_to(&mut loaded);
            add_server_tools(&mut loaded, self.servers.servers().load().await);
        }
        LoadedRegistry {
            is_complete: true,
            ..self.build_registry(loaded)
        }
    }

    /// Loads the tools of all sources, like [`Self::registry`], but starts no servers: their tools are those that were
    /// listed before.
    pub async fn known_registry(&self) -> LoadedRegistry {
        let host = self.host();
        let mut loaded = self.toolbox(Arc::clone(&host)).load().await;
        if !self.has_only_components() {
            self.scripts(host).add_tools_to(&mut loaded);
            add_server_tools(&mut loaded, self.servers.servers().known());
        }
        self.build_registry(loaded)
    }

    /// Combines the tools of all sources: applies prefixes and grants, adds the tool for workers, and leaves out tools
    /// whose names are reserved for MCP servers or teams.
    pub(crate) fn build_registry(&self, loaded: LoadedTools) -> LoadedRegistry {
        self.build_registry_for(loaded, None)
    }

    /// Combines the tools like [`Self::build_registry`]. For the call of a built-in tool that calls no others, the
    /// browser tools are left out.
    fn build_registry_for(&self, loaded: LoadedTools, called: Option<&str>) -> LoadedRegistry {
        let is_complete = loaded.undescribed == 0;
        let (mut tools, mut quarantined) = (loaded.tools, loaded.quarantined);
        quarantined.extend(self.settings.team_components().1);
        let is_known = |name: &str| tools.iter().any(|tool| tool.name().as_str() == name);
        // A call of a known tool does not wait for the lock file.
        if !called.is_some_and(is_known) {
            quarantined.extend(missing_files(self, called));
        }
        teams::enforce(self, &mut tools, &mut quarantined);
        self.apply_prefixes(&mut tools, &mut quarantined);
        let mut warnings = self.grant_needs(&mut tools);
        self.add_browser_tools(&mut tools, called);
        match install_package::install_package(self.workspace.root()) {
            // Before the tools of other sources, so that it keeps its name unless it yields it.
            Ok(tool) => tools.insert(0, tool),
            Err(error) => tracing::error!(%error, "`install_package` is left out"),
        }
        let embeddings = self.settings.config.embeddings();
        match self.code_search.tool(embeddings.is_some()) {
            Ok(mut tool) => {
                if let Some(embeddings) = embeddings {
                    embeddings.add_needs_to(&mut tool);
                }
                tools.insert(0, tool);
            }
            Err(error) => tracing::error!(%error, "`search_code` is left out"),
        }
        let library = self.skills();
        warnings.extend(library.warnings());
        let mut skill_fault = None;
        match library.tool() {
            Ok(Some(tool)) => tools.push(tool),
            Ok(None) => skill_fault = library.tool_fault(),
            Err(error) => tracing::error!(%error, "`load_skill` is left out"),
        }
        let models = models::ModelFactory::from_setup(self);
        self.workers().add_worker_tool(
            &models,
            &self.budget,
            || self.worker_modules(),
            &mut tools,
            &mut quarantined,
        );
        let reserved = self.servers.servers().reserved();
        let team_names = TeamToolNames::new(&self.settings.teams);
        let mut reserved = reserved.with_team_tools(team_names.locations());
        reserved.remove_conflicts(&mut tools, &mut quarantined);
        for (name, fault) in team_names.faults(&tools, &quarantined) {
            reserved = reserved.with_tool_fault(&name, fault);
        }
        if let Some(fault) = skill_fault {
            reserved = reserved.with_tool_fault(skills::LOAD_SKILL, fault);
        }
        let mut registry = Registry::new(tools, quarantined)
            .with_reserved(reserved)
            .with_quoted_reasons(self.workspace.deployment().is_some());
        if self.has_only_components() {
            // After the names were checked: the settings for a built-in tool must not apply to a component of its name.
            registry = registry.only_source(ToolSource::Custom);
        }
        LoadedRegistry {
            registry,
            is_complete,
            warnings,
        }
    }

    /// Adds the browser tools if a browser is installed, or if one of them is called.
    fn add_browser_tools(&self, tools: &mut Vec<Tool>, called: Option<&str>) {
        let is_unrelated = |name: &str| {
            let mut known = tools.iter();
            let tool = known.find(|tool| tool.name().as_str() == name);
            tool.is_some_and(|tool| {
                tool.source == ToolSource::BuiltIn
                    && tool.definition.needs.tools.is_empty()
                    && !tool.runs_code()
            })
        };
        if called.is_some_and(is_unrelated) {
            return;
        }
        let is_called = called.is_some_and(|name| name.starts_with("browser"));
        if !is_called && !self.browsers.is_installed() {
            return;
        }
        let options = browser::options(&self.user_dirs, &self.workspace, &self.settings);
        self.browsers.set_options(options);
        match self.browsers.tools() {
            Ok(browser_tools) => tools.extend(browser_tools),
            Err(error) => tracing::error!(%error, "the browser tools are left out"),
        }
    }

    /// Loads the tools that a call of `name` needs. A call of a built-in tool does not wait for components that were
    /// never described, and starts no servers.
    pub async fn registry_for(&self, name: &str) -> LoadedRegistry {
        if self.has_only_components() {
            return self.registry().await;
        }
        let host = self.host();
        let toolbox = self.toolbox(Arc::clone(&host)).known_only();
        let mut known = toolbox.load().await;
        self.scripts(Arc::clone(&host)).add_tools_to(&mut known);
        add_server_tools(&mut known, self.servers.servers().known());
        // Custom tools take precedence over aliases of built-in tools.
        let is_independent_built_in = |tool: &Tool| {
            let built_in = tool.source == ToolSource::BuiltIn;
            built_in && tool.name().as_str() == name && tool.definition.needs.tools.is_empty()
        };
        // The tools of a server that was contacted before are known without starting it.
        let is_of_team = TeamToolNames::new(&self.settings.teams).contains(name);
        let is_known_server_tool = |tool: &Tool| {
            !is_of_team && tool.source == ToolSource::Mcp && tool.name().as_str() == name
        };
        let is_sufficient =
            |tool: &Tool| is_independent_built_in(tool) || is_known_server_tool(tool);
        if known.undescribed == 0 || known.tools.iter().any(is_sufficient) {
            return self.build_registry_for(known, Some(name));
        }
        let mut loaded = self.toolbox(Arc::clone(&host)).load().await;
        self.scripts(host).add_tools_to(&mut loaded);
        let servers = self.servers.servers();
        let without_servers = self.build_registry(LoadedTools {
            tools: loaded.tools.clone(),
            ..LoadedTools::default()
        });
        // Workers call tools that only their files name.
        let is_worker_call = |tool: &Tool| {
            tool.source == ToolSource::BuiltIn && tool.name().as_str() == mimir_agent::WORKER_CALL
        };
        let calls_others =
            |tool: &Arc<Tool>| !tool.definition.needs.tools.is_empty() || is_worker_call(tool);
        // Starts only the servers that could have a tool of this name, unless the tool can call other tools.
        let tool = without_servers.registry.get(name);
        let server_tools = if tool.is_some_and(calls_others) {
            servers.load().await
        } else {
            servers.load_for(name).await
        };
        add_server_tools(&mut loaded, server_tools);
        self.build_registry_for(loaded, Some(name))
    }

    /// Adds the prefixes in the lock file to tool names. An unreadable lock file is ignored here, because
    /// [`Self::apply_grants`] reports it.
    fn apply_prefixes(&self, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
        if tools.iter().all(|tool| tool.source != ToolSource::Custom) {
            return;
        }
        let Some(approval_store) = self.approvals() else {
            return;
        };
        if let Ok(lock) = approval_store.lock().read() {
            grants::apply_prefixes(&lock, tools, quarantined);
        }
    }

    /// Applies the grants of this user, and adds the configured search provider and embeddings endpoint to the needs of
    /// the tools that use them. An unreadable lock file grants nothing. Shows warnings about the grants.
    pub fn apply_grants(&self, tools: &mut [Tool]) {
        self.grant_needs(tools).into_iter().for_each(warn);
    }

    /// Applies the grants as [`Self::apply_grants`] does, and returns the warnings.
    fn grant_needs(&self, tools: &mut [Tool]) -> Vec<String> {
        self.settings.config.add_configured_needs(tools);
        let shared = self.shared_approvals();
        let mut warnings =
            grant_needs_of(&self.user_dirs, &self.workspace, shared.as_deref(), tools);
        for team in &self.settings.teams {
            // The signature of the team stands for a person's consent.
            warnings.extend(grants::apply(&team.grants(), tools, |_, _| true));
        }
        warnings
    }
}

/// Tools that were loaded, with warnings about them that were not shown yet.
pub struct LoadedRegistry {
    /// The tools.
    pub registry: Registry,
    /// True if these are all tools.
    pub is_complete: bool,
    warnings: Vec<String>,
}

impl LoadedRegistry {
    /// Shows the warnings, and returns the tools.
    pub fn into_registry(self) -> Registry {
        self.warnings.into_iter().for_each(warn);
        self.registry
    }
}

/// Applies the grants of this user to tools of the workspace, and returns the warnings.
pub(crate) fn grant_needs_of(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
    shared: Option<&SharedApprovalStore>,
    tools: &mut [Tool],
) -> Vec<String> {
    // A foreign component cannot declare its needs, so it may have grants even if it counts as harmless.
    let may_have_grants =
        |tool: &Tool| tool.trust == ToolTrust::Untrusted || grants::is_foreign(tool);
    if !tools.iter().any(may_have_grants) {
        return Vec::new();
    }
    let granted = match UserApprovalStore::new(user_dirs, workspace) {
        Some(approval_store) => approval_store
            .lock()
            .read()
            .and_then(|lock| Ok((lock, approval_store.read()?.grants))),
        None => Ok(Default::default()),
    };
    match granted {
        Ok((mut lock, mut given)) => {
            if let Some(shared) = shared {
                shared.apply_grants(&mut lock, &mut given);
            }
            let is_own_grant = |location: &str, id: &str| {
                let recorded = given.get(location);
                recorded.is_some_and(|recorded| recorded == id)
            };
            grants::apply(&lock, tools, is_own_grant)
        }
        Err(error) => vec![error.to_string()],
    }
}

/// Adds the tools of servers to those of the tools folder.
pub(crate) fn add_server_tools(loaded: &mut LoadedTools, servers: ServerTools) {
    loaded.tools.extend(servers.tools);
    loaded.quarantined.extend(servers.quarantined);
    loaded.undescribed += servers.unseen;
}
