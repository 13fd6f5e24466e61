//! The one place where the front-end meets the backends: workspace, settings, tools and rules become a
//! pipeline.

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

/// Everything that a command can start from. Making one reads the config files and nothing else.
pub struct Setup {
    /// The folder that tools see.
    pub workspace: Workspace,
    /// What the config files say.
    pub settings: Settings,
    /// The user's own folders.
    pub places: Places,
    /// Where the record ended when it was last written to.
    pub memory: Arc<Memory>,
    /// Other people's MCP servers.
    pub servers: OwnServers,
    /// What workers have left.
    pub purse: Purse,
}

/// How many denials that forbid nothing are told at each command.
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

    /// The same of what was found and read already.
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

    /// A host for the workspace. It makes no engine before something runs.
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

    /// The built-in components and the ones in this folder, which may not be there yet.
    pub fn toolbox_of(&self, host: Arc<WasmHost>, folder: Option<PathBuf>) -> Toolbox {
        Toolbox::new(host, bundled(), folder)
    }

    /// The reader of the scripts that a toolbox finds.
    pub fn scripts(&self, host: Arc<WasmHost>) -> Scripts {
        Scripts::new(host, engines(), self.workspace.tools())
    }

    /// The tools as they are now, with what was granted to them.
    pub async fn registry(&self) -> Registry {
        let host = self.host();
        let mut loaded = self.toolbox(Arc::clone(&host)).load().await;
        self.scripts(host).join(&mut loaded);
        add(&mut loaded, self.servers.all().load().await);
        self.join(loaded.tools, loaded.quarantined)
    }

    /// The tools of all sources as one set: with what was granted to them, and without those that have names which are
    /// kept for others.
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

    /// The tools that a call of this name needs, and whether they are all. One of the binary needs no other: what was
    /// never asked what it is, and may take its time to say it, does not hold it up.
    pub async fn registry_for(&self, name: &str) -> (Registry, bool) {
        let host = self.host();
        let toolbox = self.toolbox(Arc::clone(&host)).known_only();
        let mut known = toolbox.load().await;
        self.scripts(Arc::clone(&host)).join(&mut known);
        add(&mut known, self.servers.all().known());
        // An alias yields to a custom tool of that name.
        let own = |tool: &Tool| {
            let built_in = tool.source == Source::BuiltIn;
            built_in && tool.name().as_str() == name && tool.definition.needs.tools.is_empty()
        };
        // Servers are not started for a tool of ours, and a tool that is known needs no look at the others.
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
        // A wrong name starts no server that has no such names; what calls other tools may call those of all.
        let found = match ours.get(name).is_some_and(calls_others) {
            true => servers.load().await,
            false => servers.load_for(name).await,
        };
        add(&mut loaded, found);
        let all = loaded.unseen == 0;
        (self.join(loaded.tools, loaded.quarantined), all)
    }

    /// Puts the prefixes of the workspace before the names of tools. A lock that cannot be read has none; that is told
    /// where grants are read.
    fn prefix(&self, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
        if tools.iter().all(|tool| tool.source != Source::Custom) {
            return;
        }
        let Some(ledger) = self.ledger() else { return };
        if let Ok(lock) = ledger.lock().read() {
            grants::prefix(&lock, tools, quarantined);
        }
    }

    /// Puts in force what this person has granted, or set: the search provider and the embeddings endpoint are hosts that
    /// a tool may reach. A lock that cannot be read grants nothing.
    pub fn grant(&self, tools: &mut [Tool]) {
        if let Some(search) = self.settings.config.web_search() {
            tools.iter_mut().for_each(|tool| search.equip(tool));
        }
        if let Some(embeddings) = self.settings.config.embeddings() {
            tools.iter_mut().for_each(|tool| embeddings.equip(tool));
        }
        // What is harmless may have been given something, if it cannot ask.
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

    /// What this user has said about the workspace.
    pub fn ledger(&self) -> Option<UserLedger> {
        UserLedger::new(&self.places, &self.workspace)
    }

    /// The tools and the rules as they are now.
    pub async fn world(&self) -> Result<World, ToolError> {
        let policy = self.settings.policy()?;
        Ok(self.joined(policy, self.registry().await))
    }

    /// Tools and rules together, with a word about what is forbidden and not there: a slip in a name forbids nothing.
    pub fn joined(&self, policy: Policy, registry: Registry) -> World {
        let tools: Vec<_> = registry.tools().iter().map(Arc::as_ref).collect();
        let idle = policy.idle_denials(&tools);
        for line in idle.iter().take(WARNINGS) {
            warn(line);
        }
        if idle.len() > WARNINGS {
            let more = idle.len() - WARNINGS;
            warn(format_args!(
                "{more} more such lines; `mimir policy check` has all"
            ));
        }
        self.warn_withheld();
        World { registry, policy }
    }

    /// Says which of the project's settings do not count, and why.
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
            false => "; the values of its secrets are masked all the same",
        };
        warn(format_args!(
            "{} may have come with a checkout, and of its settings these do not count before `mimir policy accept`: {}{masks}",
            file.shown,
            mimir_core::text::visible(&keys)
        ));
    }

    /// Puts something that a person did on record. It is done already; that it could not be recorded is told.
    pub fn record(&self, event: &Event) {
        if let Err(error) = self.audit().record(event) {
            warn(error);
        }
    }

    /// The record of this workspace.
    pub fn audit(&self) -> Arc<FileAudit> {
        self.memory.writer(self.settings.config.audit)
    }

    /// What this user has said about the workspace, for commands that are about that.
    pub fn own_ledger(&self) -> Result<UserLedger, ToolError> {
        self.ledger().ok_or_else(|| {
            ToolError::new(
                Code::Unavailable,
                "there is no folder for your own settings, where this is kept; set MIMIR_CONFIG_DIR",
            )
        })
    }

    /// Puts on record that a config file is not as it was when mimir last read it here, if so.
    pub fn record_changes(&self) {
        for (file, digest) in self.memory.files(&self.settings.digests()) {
            let detail = match digest.as_str() {
                "" => "it was there before, and is not now".to_owned(),
                digest => format!("it has changed since the last run, sha256 {digest}"),
            };
            let event = Event::of(Kind::ConfigChange, SystemTime::now()).with_subject(&file);
            if let Err(error) = self.audit().record(&event.with_detail(&detail)) {
                // A call that cannot be recorded says so by itself.
                tracing::debug!(%error, "a change of the config is not on record");
            }
        }
    }

    /// How long a person may take to answer.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.settings.config.approvals.timeout_ms)
    }

    /// A pipeline over this world that keeps its record in the workspace.
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

/// Adds what servers offer to what the folder of tools does.
fn add(loaded: &mut Loaded, servers: Found) {
    loaded.tools.extend(servers.tools);
    loaded.quarantined.extend(servers.quarantined);
    loaded.unseen += servers.unseen;
}

/// Refuses a workspace that holds the user's own settings or cache, such as the home folder: a tool
/// that may write there could grant itself rights, or change the code that mimir runs.
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
                    "{} cannot be a workspace: it holds mimir's own files in {}, which tools must not reach; name a folder below it with -C",
                    shown(&root),
                    shown(place)
                ),
            ));
        }
    }
    Ok(())
}

/// The user's own folders, with a word about a variable that names none.
pub fn places() -> Places {
    let places = Places::find();
    for variable in &places.ignored {
        warn(format_args!(
            "{variable} is not used: it wants an absolute path"
        ));
    }
    places
}

/// The workspace, with a word about a folder that was passed over.
pub fn find_workspace(named: Option<&Path>) -> Result<Workspace, ToolError> {
    let workspace = Workspace::find(named)?;
    if let Some(dot) = workspace.passed_over() {
        let dot = mimir_core::text::visible(&dot.display().to_string());
        warn(format_args!(
            "{dot} belongs to somebody else and is not used; name its folder with -C to use it"
        ));
    }
    Ok(workspace)
}

/// The engines of code, for what is asked of them outside of any workspace.
pub fn engines_alone() -> Arc<CodeEngines> {
    let host = host(Path::new("."), places().cache, &Limits::default());
    CodeEngines::new(host, engines())
}

/// A host that shows on the terminal when it compiles, which it does in a process of its own.
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

/// What plugins in TypeScript are made of.
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

/// The components in this binary.
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
