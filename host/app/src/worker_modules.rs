//! Tools of workers: the modules and npm packages that worker files name, built when they are needed.
//!
//! A module without imports is compiled by mimir itself. Bundlers are programs of the workspace, so only a person starts
//! them, with `mimir tools build`. Built components are stored in the user's cache, for their workspace and the content of
//! all files that were built, and get the rights that the user has granted to exactly this component.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use mimir_agent::{Worker, WorkerOwnTools};
use mimir_core::config::Config;
use mimir_core::registry::ReservedNames;
use mimir_core::text::visible;
use mimir_core::{Decision, Limits, Tool, ToolError, ToolName};
use mimir_script::{BuiltPlugin, BundlerCommand, BundlerOutput, BundlerRunner, ScriptFolder};
use mimir_wasm::Toolbox;

use crate::interface::warn;
use crate::setup;
use crate::shared_approvals::SharedApprovalStore;
use crate::user_dirs::UserDirs;
use crate::workers::WorkspaceWorkers;
use crate::workspace::WorkspaceFolder;

mod build_cache;
mod sources;

use build_cache::{BuiltToolset, ToolsetCache};
pub use sources::WorkerToolSource;

/// Loads the tools that only workers have.
#[derive(Clone)]
pub struct WorkerModules {
    workspace: WorkspaceFolder,
    user_dirs: UserDirs,
    config: Arc<Config>,
    reserved: Arc<ReservedNames>,
    engines: WorkerEngines,
    /// The grants of the cluster that this process has joined.
    shared: Option<Arc<SharedApprovalStore>>,
}

/// The decisions about calls of the tools that only a worker has.
#[derive(Debug)]
pub struct WorkerDecisions {
    /// The name of the worker.
    pub worker: String,
    /// The tools that the worker's file lists, with the decisions about their calls.
    pub tools: Vec<(Arc<Tool>, Decision)>,
}

/// The engines of [`WorkerModules`], created on first use and shared by all clones.
#[derive(Clone, Default)]
pub(crate) struct WorkerEngines(Arc<OnceLock<(ScriptFolder, Toolbox)>>);

impl WorkerModules {
    /// Creates a loader. `reserved` has the names of servers' tools. Reads nothing.
    pub(crate) fn new(
        workspace: &WorkspaceFolder,
        user_dirs: &UserDirs,
        config: &Config,
        reserved: ReservedNames,
        engines: WorkerEngines,
        shared: Option<Arc<SharedApprovalStore>>,
    ) -> Self {
        Self {
            workspace: workspace.clone(),
            user_dirs: user_dirs.clone(),
            config: Arc::new(config.clone()),
            reserved: Arc::new(reserved),
            engines,
            shared,
        }
    }

    /// Adds the tools of the module and the package that the worker's file names. Builds modules without imports.
    ///
    /// # Errors
    ///
    /// Fails if a source is not valid, needs a bundler and was not built, or lacks a listed tool.
    pub async fn add_tools_to(&self, worker: Worker) -> Result<Worker, ToolError> {
        let mut own = Vec::new();
        for source in self.sources(&worker)? {
            own.push(WorkerOwnTools {
                toolset: source.toolset,
                tools: self.load(&source).await?,
            });
        }
        if own.is_empty() {
            return Ok(worker);
        }
        worker.with_own_tools(own)
    }

    /// Returns the sources of all workers whose files are valid, each location once.
    pub fn all_sources(&self) -> Vec<WorkerToolSource> {
        let workers = WorkspaceWorkers::for_workspace(&self.user_dirs, &self.workspace);
        let mut all: Vec<WorkerToolSource> = Vec::new();
        for (file, _) in workers.files() {
            let worker = workers.read_worker(&file.name);
            let Ok(sources) = worker.and_then(|worker| self.sources(&worker)) else {
                continue;
            };
            for source in sources {
                if all.iter().all(|known| known.location != source.location) {
                    all.push(source);
                }
            }
        }
        all
    }

    /// Returns the decisions about calls of a source's loaded tools, for each worker whose file names the source and is
    /// valid. The user's settings and rules may be stricter.
    pub fn decisions(
        &self,
        source: &WorkerToolSource,
        tools: &[Arc<Tool>],
    ) -> Vec<WorkerDecisions> {
        let workers = WorkspaceWorkers::for_workspace(&self.user_dirs, &self.workspace);
        let with_source = |name: &str| {
            let worker = workers.read_worker(name).ok()?;
            let mut sources = self.sources(&worker).ok()?.into_iter();
            let own = sources.find(|own| own.location == source.location)?;
            let own = WorkerOwnTools {
                toolset: own.toolset,
                tools: tools.to_vec(),
            };
            Some(WorkerDecisions {
                worker: name.to_owned(),
                tools: worker.with_own_tools(vec![own]).ok()?.own_decisions(),
            })
        };
        let files = workers.files().into_iter();
        files
            .filter_map(|(file, _)| with_source(&file.name))
            .collect()
    }

    /// Returns the sources of the tools that only this worker has.
    pub fn sources(&self, worker: &Worker) -> Result<Vec<WorkerToolSource>, ToolError> {
        let module = sources::module(&self.workspace, worker)?;
        let package = sources::package(&self.workspace, worker)?;
        Ok(module.into_iter().chain(package).collect())
    }

    /// Loads the tools of a source with their grants, and builds the source if it was not built and imports nothing.
    pub async fn load(&self, source: &WorkerToolSource) -> Result<Vec<Arc<Tool>>, ToolError> {
        crate::teams::refuse_unlisted(&self.config)?;
        let cache = ToolsetCache::new(&self.user_dirs, &self.workspace)?;
        let built = match cache.find(source) {
            Some(built) => built,
            None => cache.store(source, &self.build(source).await?)?,
        };
        self.load_built(source, &built).await
    }

    /// Stores the build of a source.
    pub fn store(&self, source: &WorkerToolSource, built: &BuiltPlugin) -> Result<(), ToolError> {
        let cache = ToolsetCache::new(&self.user_dirs, &self.workspace)?;
        cache.store(source, built).map(drop)
    }

    /// Compares the description in a loaded component with the component's own answer (see
    /// [`Toolbox::verify_description`]). Does nothing if no component of this location is loaded.
    pub async fn verify_description(&self, location: &str) -> Result<(), ToolError> {
        match self.engines.0.get() {
            Some((_, toolbox)) => Ok(toolbox.verify_description(location).await?),
            None => Ok(()),
        }
    }

    /// Builds a module that imports nothing.
    async fn build(&self, source: &WorkerToolSource) -> Result<BuiltPlugin, ToolError> {
        if source.needs_bundler() {
            return Err(not_bundled(source));
        }
        let engine = self.engines().0.engine();
        let runner = NoBundler { source };
        let parts = mimir_builtins::PLUGIN;
        let built = mimir_script::build(engine, parts, &source.plugin, &runner).await;
        built.map_err(first_error)
    }

    async fn load_built(
        &self,
        source: &WorkerToolSource,
        built: &BuiltToolset,
    ) -> Result<Vec<Arc<Tool>>, ToolError> {
        let toolbox = &self.engines().1;
        let mut loaded = toolbox.load_component(&built.file, &source.location).await;
        for tool in &mut loaded.tools {
            tool.definition.silent = built.silent.contains(tool.name().as_str());
            add_prefix(tool, &source.prefix)?;
        }
        self.reserved
            .remove_conflicts(&mut loaded.tools, &mut loaded.quarantined);
        if let Some(fault) = loaded.quarantined.into_iter().next() {
            let message = format!("{}: {}", visible(&fault.location), fault.reason);
            return Err(ToolError::new(fault.code, message));
        }
        let mut tools = loaded.tools;
        self.config.add_configured_needs(&mut tools);
        let shared = self.shared.as_deref();
        let warnings = setup::grant_needs_of(&self.user_dirs, &self.workspace, shared, &mut tools);
        warnings.into_iter().for_each(warn);
        Ok(tools.into_iter().map(Arc::new).collect())
    }

    fn engines(&self) -> &(ScriptFolder, Toolbox) {
        self.engines.0.get_or_init(|| {
            let limits: Limits = self.config.limits();
            let cache = self.user_dirs.cache.clone();
            let host = setup::host(self.workspace.root(), cache, &limits);
            let scripts =
                ScriptFolder::new(Arc::clone(&host), setup::engines(), self.workspace.tools())
                    .with_location_root(self.workspace.deployment().map(std::path::Path::to_owned));
            (scripts, Toolbox::new(host, Vec::new(), None))
        })
    }
}

/// Adds the prefix of the worker's file to the name of a tool.
fn add_prefix(tool: &mut Tool, prefix: &str) -> Result<(), ToolError> {
    if prefix.is_empty() {
        return Ok(());
    }
    let name = ToolName::new(&format!("{prefix}{}", tool.name())).map_err(|error| {
        let location = visible(&tool.origin.location);
        ToolError::invalid_input(format!("{location}: the prefix does not fit: {error}"))
    })?;
    tool.definition.name = name;
    Arc::make_mut(&mut tool.origin).prefix = prefix.to_owned();
    Ok(())
}

/// Returns the error for a source that a person has to bundle.
fn not_bundled(source: &WorkerToolSource) -> ToolError {
    let message = format!("{} is not built for its current content", source.label());
    let remedy = format!(
        "`mimir tools build {}` bundles it; it is for a person to run",
        source.build_argument
    );
    ToolError::unavailable(message).with_remedies([remedy])
}

/// Returns the first error of a build. The others would be reported one after the other.
fn first_error(errors: Vec<ToolError>) -> ToolError {
    let more = errors.len().saturating_sub(1);
    let Some(mut first) = errors.into_iter().next() else {
        return ToolError::internal("a build failed without an error");
    };
    if more > 0 {
        first.message = format!("{} ({more} more errors)", first.message);
    }
    first
}

/// Refuses to run bundlers.
struct NoBundler<'a> {
    source: &'a WorkerToolSource,
}

impl BundlerRunner for NoBundler<'_> {
    fn create_work_folder(&self) -> Result<std::path::PathBuf, ToolError> {
        Err(not_bundled(self.source))
    }

    async fn run(&self, _: &BundlerCommand) -> Result<BundlerOutput, ToolError> {
        Err(not_bundled(self.source))
    }

    fn read(&self, _: &Path) -> Result<String, ToolError> {
        Err(not_bundled(self.source))
    }
}
