//! Creates a pipeline from the workspace, its settings, tools and rules. The only place where the front-end meets the
//! backends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_agent::Purse;
use mimir_audit::FileAudit;
use mimir_core::approval::{Chain, Ledger, NoLedger};
use mimir_core::audit::{AuditSink as _, Event, Kind};
use mimir_core::grants;
use mimir_core::pipeline::{Ports, World};
use mimir_core::tool::{Source, Trust};
use mimir_core::{
    Approver, Clock, Code, Limits, Pipeline, Policy, Quarantined, Registry, Tool, ToolError,
};
use mimir_mcp::client::Found;
use mimir_process::Commands;
use mimir_script::{CodeEngines, Engines, Scripts};
use mimir_wasm::program::{Packed, ProgramParts};
use mimir_wasm::script::{EngineParts, PluginParts};
use mimir_wasm::{Bundled, HostOptions, Loaded, SystemClock, Toolbox, WasmHost};

use crate::interface::{self, warn};
use crate::ledger::UserLedger;
use crate::memory::Memory;
use crate::models;
use crate::places::Places;
use crate::secrets::{Secrets, UserVault};
use crate::servers::OwnServers;
use crate::settings::Settings;
use crate::workers::Workers;
use crate::workspace::Workspace;

/// The common state of all commands. Creating it only reads the config files.
pub struct Setup {
    /// The folder that tools can access.
    pub workspace: Workspace,
    /// The merged settings.
    pub settings: Settings,
    /// The user's own folders.
    pub places: Places,
    /// The last known position of the audit log.
    pub memory: Arc<Memory>,
    /// Third-party MCP servers.
    pub servers: OwnServers,
    /// The remaining budget of workers.
    pub purse: Purse,
}

/// Number of ineffective deny rules that each command reports.
const WARNINGS: usize = 3;

impl Setup {
    /// Finds the workspace and reads the config files.
    pub fn find(workspace: Option<&Path>) -> Result<Self, ToolError> {
        let places = places();
        let workspace = find_workspace(workspace)?;
        check_separation(&workspace, &places)?;
        let settings = Settings::read(&places, &workspace)?;
        Ok(Self::of(places, workspace, settings))
    }

    /// Creates the setup from places, workspace and settings that were already read.
    pub fn of(places: Places, workspace: Workspace, settings: Settings) -> Self {
        let memory = Arc::new(Memory::of(&places, &workspace));
        Self {
            servers: OwnServers::new(&places, &workspace, &settings, &memory),
            memory,
            purse: Purse::default(),
            workspace,
            settings,
            places,
        }
    }

    /// A Wasm host for the workspace. Engines are created on first use.
    pub fn host(&self) -> Arc<WasmHost> {
        let limits = self.settings.config.limits();
        host(self.workspace.root(), self.places.cache.clone(), &limits)
    }

    /// The built-in components and the ones in `.mimir/tools`.
    pub fn toolbox(&self, host: Arc<WasmHost>) -> Toolbox {
        let folder = self.workspace.tools();
        let custom = self.settings.config.tools.auto_load_custom_tools && folder.is_dir();
        self.toolbox_of(host, custom.then_some(folder))
    }

    /// The built-in components and the ones in this folder, which need not exist yet.
    pub fn toolbox_of(&self, host: Arc<WasmHost>, folder: Option<PathBuf>) -> Toolbox {
        Toolbox::new(host, bundled(), folder)
    }

    /// The loader of the scripts that a toolbox finds.
    pub fn scripts(&self, host: Arc<WasmHost>) -> Scripts {
        Scripts::new(host, engines(), self.workspace.tools())
    }

    /// The current tools with their grants.
    pub async fn registry(&self) -> Registry {
        let host = self.host();
        let mut loaded = self.toolbox(Arc::clone(&host)).load().await;
        self.scripts(host).join(&mut loaded);
        add(&mut loaded, self.servers.all().load().await);
        self.join(loaded.tools, loaded.quarantined)
    }

    /// Combines the tools of all sources: applies grants, and leaves out tools whose names are reserved for others.
    pub fn join(&self, mut tools: Vec<Tool>, mut quarantined: Vec<Quarantined>) -> Registry {
        self.prefix(&mut tools, &mut quarantined);
        self.grant(&mut tools);
        let models = models::Models::of(self);
        self.workers()
            .join(&models, &self.purse, &mut tools, &mut quarantined);
        let reserved = self.servers.all().reserved();
        reserved.keep(&mut tools, &mut quarantined);
        Registry::new(tools, quarantined).with_reserved(reserved)
    }

    /// The tools that a call of this name needs; the flag is true if these are all tools. A built-in tool needs no
    /// others, so that it does not wait for components that were never described.
    pub async fn registry_for(&self, name: &str) -> (Registry, bool) {
        let host = self.host();
        let toolbox = self.toolbox(Arc::clone(&host)).known_only();
        let mut known = toolbox.load().await;
        self.scripts(Arc::clone(&host)).join(&mut known);
        add(&mut known, self.servers.all().known());
        // Custom tools take precedence over aliases of built-in tools.
        let own = |tool: &Tool| {
            let built_in = tool.source == Source::BuiltIn;
            built_in && tool.name().as_str() == name && tool.definition.needs.tools.is_empty()
        };
        // A built-in or a known tool starts no servers and needs no search.
        let theirs = |tool: &Tool| tool.source == Source::Mcp && tool.name().as_str() == name;
        let there = |tool: &Tool| own(tool) || theirs(tool);
        if known.unseen == 0 || known.tools.iter().any(there) {
            return (self.join(known.tools, known.quarantined), known.unseen == 0);
        }
        let mut loaded = self.toolbox(Arc::clone(&host)).load().await;
        self.scripts(host).join(&mut loaded);
        let servers = self.servers.all();
        let ours = self.join(loaded.tools.clone(), Vec::new());
        let calls_others = |tool: &Arc<Tool>| !tool.definition.needs.tools.is_empty();
        // Only servers that could have a tool of this name are started, unless the tool itself can call other tools.
        let found = match ours.get(name).is_some_and(calls_others) {
            true => servers.load().await,
            false => servers.load_for(name).await,
        };
        add(&mut loaded, found);
        let all = loaded.unseen == 0;
        (self.join(loaded.tools, loaded.quarantined), all)
    }

    /// Adds the prefixes that the workspace configures to tool names. An unreadable lock file is ignored here, since
    /// reading the grants reports it.
    fn prefix(&self, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
        if tools.iter().all(|tool| tool.source != Source::Custom) {
            return;
        }
        let Some(ledger) = self.ledger() else { return };
        if let Ok(lock) = ledger.lock().read() {
            grants::prefix(&lock, tools, quarantined);
        }
    }

    /// Applies the grants of this user. Tools can also reach the configured search provider and embeddings endpoint.
    /// An unreadable lock file grants nothing.
    pub fn grant(&self, tools: &mut [Tool]) {
        if let Some(search) = self.settings.config.web_search() {
            tools.iter_mut().for_each(|tool| search.equip(tool));
        }
        if let Some(embeddings) = self.settings.config.embeddings() {
            tools.iter_mut().for_each(|tool| embeddings.equip(tool));
        }
        // A foreign component cannot declare its needs, so it may have grants even if it counts as harmless.
        let takes = |tool: &Tool| tool.trust == Trust::Untrusted || grants::is_foreign(tool);
        if !tools.iter().any(takes) {
            return;
        }
        let Some(ledger) = self.ledger() else { return };
        let granted = ledger
            .lock()
            .read()
            .and_then(|lock| Ok((lock, ledger.book()?)));
        match granted {
            Ok((lock, book)) => {
                let counts = |location: &str, id: &str| {
                    let known = book.grants.get(location);
                    known.is_some_and(|known| known == id)
                };
                for line in grants::apply(&lock, tools, counts) {
                    warn(line);
                }
            }
            Err(error) => warn(error),
        }
    }

    /// The workers of the workspace.
    pub fn workers(&self) -> Workers {
        Workers::of(&self.places, &self.workspace)
    }

    /// The approval store of this user for the workspace.
    pub fn ledger(&self) -> Option<UserLedger> {
        UserLedger::new(&self.places, &self.workspace)
    }

    /// A snapshot of the current tools and rules.
    pub async fn world(&self) -> Result<World, ToolError> {
        let policy = self.settings.policy()?;
        Ok(self.joined(policy, self.registry().await))
    }

    /// Combines tools and rules. Warns about deny rules that match no tool, because a misspelled name forbids nothing.
    pub fn joined(&self, policy: Policy, registry: Registry) -> World {
        let tools: Vec<_> = registry.tools().iter().map(Arc::as_ref).collect();
        let idle = policy.idle_denials(&tools);
        for line in idle.iter().take(WARNINGS) {
            warn(line);
        }
        if idle.len() > WARNINGS {
            let more = idle.len() - WARNINGS;
            warn(format_args!(
                "{more} more warnings like these; `mimir policy check` shows all"
            ));
        }
        self.warn_withheld();
        World { registry, policy }
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
        let masks = match self.settings.config.masked_only.is_empty() {
            true => "",
            false => "; the values of its secrets are still masked",
        };
        warn(format_args!(
            "{} may have come with a checkout, so these settings are ignored until you run `mimir policy accept`: {}{masks}",
            file.shown,
            mimir_core::text::visible(&keys)
        ));
    }

    /// Records a person's action in the audit log. Failures only cause a warning, because the action is already done.
    pub fn record(&self, event: &Event) {
        if let Err(error) = self.audit().record(event) {
            warn(error);
        }
    }

    /// The audit log of this workspace.
    pub fn audit(&self) -> Arc<FileAudit> {
        self.memory.writer(self.settings.config.audit)
    }

    /// The approval store, or an error for commands that cannot work without it.
    pub fn own_ledger(&self) -> Result<UserLedger, ToolError> {
        self.ledger().ok_or_else(|| {
            ToolError::new(
                Code::Unavailable,
                "this platform has no folder for your own settings, where this is stored; set MIMIR_CONFIG_DIR",
            )
        })
    }

    /// Records in the audit log that a config file has changed since mimir last read it here.
    pub fn record_changes(&self) {
        for (file, digest) in self.memory.files(&self.settings.digests()) {
            let detail = match digest.as_str() {
                "" => "it was there before, and is not now".to_owned(),
                digest => format!("it has changed since the last run, sha256 {digest}"),
            };
            let event = Event::of(Kind::ConfigChange, SystemTime::now()).with_subject(&file);
            if let Err(error) = self.audit().record(&event.with_detail(&detail)) {
                // Calls that cannot be recorded report it themselves.
                tracing::debug!(%error, "a change of the config is not on record");
            }
        }
    }

    /// Time limit of a person's answer to an approval.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.settings.config.approvals.timeout_ms)
    }

    /// A pipeline over this snapshot that records calls in the workspace's audit log.
    pub fn pipeline(&self, world: World, approver: Arc<dyn Approver>) -> Pipeline {
        self.record_changes();
        let timeout = self.patience();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ledger: Arc<dyn Ledger> = match self.ledger() {
            Some(ledger) => Arc::new(ledger.lasting(world.policy.lease_life())),
            None => Arc::new(NoLedger),
        };
        let ports = Ports {
            approver: Arc::new(Chain::new(
                vec![approver],
                Some(timeout),
                Arc::clone(&clock),
            )),
            ledger,
            vault: Arc::new(UserVault::new(
                Secrets::new(&self.places),
                &self.settings.config,
            )),
            audit: self.audit(),
            clock,
            runner: Arc::new(Commands::new(
                self.workspace.root(),
                self.settings.config.sandbox.clone(),
            )),
            model: Arc::new(models::completer(self)),
        };
        Pipeline::new(world, ports)
    }
}

/// Adds the tools of servers to those of the tools folder.
fn add(loaded: &mut Loaded, servers: Found) {
    loaded.tools.extend(servers.tools);
    loaded.quarantined.extend(servers.quarantined);
    loaded.unseen += servers.unseen;
}

/// Refuses a workspace that contains the user's own settings or cache, such as the home folder: a tool with write
/// access there could grant itself rights, or change the code that mimir runs.
pub fn check_separation(workspace: &Workspace, places: &Places) -> Result<(), ToolError> {
    let Ok(root) = workspace.root().canonicalize() else {
        return Ok(());
    };
    let own = [&places.config, &places.cache, &places.named_team];
    for place in own.into_iter().flatten().chain(&places.team) {
        let there = place.ancestors().find_map(|path| path.canonicalize().ok());
        if there.is_some_and(|there| there.starts_with(&root)) {
            let shown = |path: &Path| mimir_core::text::visible(&path.display().to_string());
            return Err(ToolError::new(
                Code::InvalidPath,
                format!(
                    "{} cannot be a workspace: it contains mimir's own files in {}, which tools must not reach; name a folder below it with -C",
                    shown(&root),
                    shown(place)
                ),
            ));
        }
    }
    Ok(())
}

/// The user's own folders. Warns about variables that are ignored.
pub fn places() -> Places {
    let places = Places::find();
    for variable in &places.ignored {
        warn(format_args!(
            "{variable} is ignored: it is not an absolute path"
        ));
    }
    places
}

/// The workspace. Warns about a folder that was skipped.
pub fn find_workspace(named: Option<&Path>) -> Result<Workspace, ToolError> {
    let workspace = Workspace::find(named)?;
    if let Some(dot) = workspace.passed_over() {
        let dot = mimir_core::text::visible(&dot.display().to_string());
        warn(format_args!(
            "{dot} belongs to another user and is ignored; to use it, pass its folder with -C"
        ));
    }
    Ok(workspace)
}

/// The code engines without a workspace.
pub fn engines_alone() -> Arc<CodeEngines> {
    let host = host(Path::new("."), places().cache, &Limits::default());
    CodeEngines::new(host, engines())
}

/// A Wasm host that shows compilation on the terminal and compiles in a child process.
fn host(root: &Path, cache: Option<PathBuf>, limits: &Limits) -> Arc<WasmHost> {
    let mut options = HostOptions::new(root);
    options.cache_dir = cache;
    options.compile_limits = limits.into();
    options.compiler = Some(interface::compiler());
    options.on_compile = interface::compile_handler();
    WasmHost::new(options)
}

/// The engines that ship with the binary.
fn engines() -> Engines {
    let javascript = mimir_builtins::JAVASCRIPT;
    Engines {
        javascript: EngineParts {
            name: javascript.name,
            component: javascript.component,
            prelude: javascript.prelude,
        },
        python: program(mimir_builtins::PYTHON, true),
        bash: program(mimir_builtins::BASH, false),
    }
}

/// The components that TypeScript plugins are built from.
pub fn plugin_parts() -> PluginParts {
    let parts = mimir_builtins::PLUGIN;
    PluginParts {
        runtime: parts.runtime,
        adapters: parts.adapters,
        contract: parts.contract,
        prelude: parts.prelude,
        files: parts.files,
        changes: parts.changes,
        requests: parts.requests,
        commands: parts.commands,
        tools: parts.tools,
        model: parts.model,
        storage: parts.storage,
        toolset: parts.toolset,
    }
}

fn program(engine: mimir_builtins::Program, records: bool) -> ProgramParts {
    ProgramParts {
        name: engine.name,
        component: match engine.packed {
            [] => Packed::Plain(engine.before),
            module => Packed::Around {
                before: engine.before,
                module,
                after: engine.after,
            },
        },
        sha256: engine.sha256,
        files: engine.files,
        main: engine.main,
        argv: engine.argv,
        imports: engine.imports,
        records,
    }
}

/// The built-in components.
fn bundled() -> Vec<Bundled> {
    let bundled = |built_in: &mimir_builtins::Builtin| Bundled {
        name: built_in.name,
        bytes: built_in.bytes,
        sha256: built_in.sha256,
        keeps_backups: built_in.keeps_backups,
        keeps_memory: built_in.keeps_memory,
        aliases: built_in.aliases,
        description: Some(built_in.description),
    };
    mimir_builtins::ALL.iter().map(bundled).collect()
}
