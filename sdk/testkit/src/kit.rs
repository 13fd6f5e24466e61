//! The kit: a workspace, the plugins in it, the pipeline over them, and a person.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use mimir_core::approval::NoLedger;
use mimir_core::call::{CallContext, LogLine, Progress, RequestId};
use mimir_core::config::{Config, SandboxSettings};
use mimir_core::pipeline::{Ports, World};
use mimir_core::{Call, Card, Event, Outcome, Pipeline, Policy, Quarantined, Registry, Tool};
use mimir_process::Commands;
use mimir_wasm::{Bundled, HostOptions, Loaded, SystemClock, Toolbox, WasmHost};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::TestkitError;
use crate::answers::Answers;
use crate::build;
use crate::record::{Events, Said};
use crate::script::{Approve, Person, lock};
use crate::secrets::Secrets;

/// A workspace with plugins, a pipeline over them and a person who answers.
///
/// The workspace is a new temporary folder, removed when the kit is dropped. Calls may be made from several
/// threads.
pub struct Testkit {
    workspace: TempDir,
    toolbox: Toolbox,
    pipeline: Pipeline,
    loaded: Mutex<Loaded>,
    policy: Mutex<Policy>,
    person: Arc<Person>,
    secrets: Arc<Secrets>,
    answers: Arc<Answers>,
    events: Arc<Events>,
    said: Arc<Said>,
    runtime: Runtime,
}

impl Testkit {
    /// A kit with the plugin in this file: a `.wasm` component of any family that mimir loads.
    pub fn new(plugin: impl AsRef<Path>) -> Result<Self, TestkitError> {
        let kit = Self::empty()?;
        kit.add(plugin)?;
        kit.whole()
    }

    /// A kit with the plugin that cargo builds in this folder: `Testkit::build(env!("CARGO_MANIFEST_DIR"))`
    /// in a plugin's own tests.
    pub fn build(folder: impl AsRef<Path>) -> Result<Self, TestkitError> {
        Self::new(build::build(folder.as_ref())?)
    }

    /// A kit with a plugin that is in memory; `name` becomes its file name.
    pub fn from_bytes(name: &str, component: &[u8]) -> Result<Self, TestkitError> {
        let kit = Self::empty()?;
        kit.add_bytes(name, component)?;
        kit.whole()
    }

    /// A kit without plugins.
    pub fn empty() -> Result<Self, TestkitError> {
        Self::with_bundled(Vec::new())
    }

    /// A kit without plugins of its own, and with components as if they were shipped with mimir.
    pub fn with_bundled(bundled: Vec<Bundled>) -> Result<Self, TestkitError> {
        let workspace = tempfile::Builder::new().prefix("mimir-testkit-").tempdir();
        Self::at(
            workspace.map_err(TestkitError::file("a temporary folder"))?,
            bundled,
            |options| options,
        )
    }

    /// A kit over a folder of the caller's choice, with a host that is set up by the caller.
    pub fn at(
        workspace: TempDir,
        bundled: Vec<Bundled>,
        options: impl FnOnce(HostOptions) -> HostOptions,
    ) -> Result<Self, TestkitError> {
        let tools = workspace.path().join(TOOLS);
        fs::create_dir_all(&tools).map_err(TestkitError::file(&tools))?;
        let mut default = HostOptions::new(workspace.path());
        default.cache_dir = cache_dir();
        let host = WasmHost::new(options(default));
        let person = Arc::<Person>::default();
        let secrets = Arc::<Secrets>::default();
        let events = Arc::<Events>::default();
        let answers = Arc::<Answers>::default();
        let ports = Ports {
            approver: person.clone(),
            ledger: Arc::new(NoLedger),
            vault: secrets.clone(),
            audit: events.clone(),
            clock: Arc::new(SystemClock),
            runner: Arc::new(Commands::new(workspace.path(), SandboxSettings::default())),
            model: answers.clone(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let kit = Self {
            toolbox: Toolbox::new(host, bundled, Some(tools)),
            workspace,
            pipeline: Pipeline::new(World::default(), ports),
            loaded: Mutex::default(),
            policy: Mutex::default(),
            person,
            secrets,
            answers,
            events,
            said: Arc::default(),
            runtime: runtime.map_err(TestkitError::file("the runtime of the test"))?,
        };
        kit.reload();
        Ok(kit)
    }

    /// Puts one more plugin beside those that are there, and loads it. What is wrong with it shows in
    /// [`quarantined`](Self::quarantined).
    pub fn add(&self, plugin: impl AsRef<Path>) -> Result<PathBuf, TestkitError> {
        let plugin = plugin.as_ref();
        let bytes = fs::read(plugin).map_err(TestkitError::file(plugin))?;
        let name = plugin.file_stem().unwrap_or_default().to_string_lossy();
        self.add_bytes(&name, &bytes)
    }

    /// The same with a plugin that is in memory.
    pub fn add_bytes(&self, name: &str, component: &[u8]) -> Result<PathBuf, TestkitError> {
        let path = self
            .workspace
            .path()
            .join(TOOLS)
            .join(format!("{name}.wasm"));
        fs::write(&path, component).map_err(TestkitError::file(&path))?;
        self.reload();
        Ok(path)
    }

    /// Looks at the folder of tools again.
    pub fn reload(&self) {
        *lock(&self.loaded) = self.runtime.block_on(self.toolbox.load());
        self.renew();
    }

    /// Fails if anything that was loaded is not usable.
    fn whole(self) -> Result<Self, TestkitError> {
        match self.quarantined().into_iter().next() {
            None => Ok(self),
            Some(left) => Err(TestkitError::Refused {
                place: left.location,
                reason: left.reason,
            }),
        }
    }

    /// Sets what the person answers. At first it is [`Approve::Always`].
    #[must_use]
    pub fn approve(self, approve: Approve) -> Self {
        self.person.set(approve);
        self
    }

    /// Keeps a secret, as `mimir secrets set` does.
    #[must_use]
    pub fn secret(self, name: &str, value: &str) -> Self {
        self.secrets.set(name, value);
        self
    }

    /// Has a language model answer what tools ask it; without this there is none.
    #[must_use]
    pub fn model(self, says: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.answers.set(says);
        self
    }

    /// Puts files into the workspace.
    #[must_use]
    pub fn workspace(self, fill: impl FnOnce(&Path)) -> Self {
        fill(self.path());
        self
    }

    /// Sets what would be in `.mimir/config.yml`, as JSON: approvals, limits, policy.
    pub fn settings(self, config: Value) -> Result<Self, TestkitError> {
        let config: Config =
            serde_json::from_value(config).map_err(|e| TestkitError::Settings(e.to_string()))?;
        let policy = Policy::new(&config, "the settings of the test");
        *lock(&self.policy) = policy.map_err(|e| TestkitError::Settings(e.to_string()))?;
        self.renew();
        Ok(self)
    }

    /// Gives the pipeline the tools and rules of now.
    fn renew(&self) {
        let loaded = lock(&self.loaded);
        let policy = lock(&self.policy).clone();
        let mut tools = loaded.tools.clone();
        tools.iter_mut().for_each(|tool| policy.equip(tool));
        self.pipeline.replace(World {
            registry: Registry::new(tools, loaded.quarantined.clone()),
            policy,
        });
    }

    /// Calls a tool and waits for the outcome. Not from async code: see [`start`](Self::start).
    pub fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.block_on(self.start(tool, arguments))
    }

    /// Calls a tool; dropping the future cancels the call.
    pub fn start(
        &self,
        tool: &str,
        arguments: Value,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let context = CallContext {
            request_id: RequestId::new(SystemTime::now()),
            session_id: "testkit".to_owned(),
            conversation_id: None,
            user: None,
        };
        let mut call = Call::new(tool, arguments, context);
        call.observer = self.said.clone();
        let pipeline = self.pipeline.clone();
        async move { pipeline.call(call).await }
    }

    /// Runs a future on the kit's runtime, which has two threads.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// The folder that the tools work in.
    pub fn path(&self) -> &Path {
        self.workspace.path()
    }

    /// The tools that can be called, sorted by name.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.pipeline.world().registry.tools().to_vec()
    }

    /// What was left out, and why.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.pipeline.world().registry.quarantined().to_vec()
    }

    /// What the person was shown, in order.
    pub fn cards(&self) -> Vec<Card> {
        self.person.cards()
    }

    /// The record of all calls, in the order in which they ended.
    pub fn events(&self) -> Vec<Event> {
        self.events.all()
    }

    /// Everything that the tools logged or wrote to stdout and stderr.
    pub fn log(&self) -> Vec<LogLine> {
        self.said.lines()
    }

    /// All progress that the tools reported.
    pub fn progress(&self) -> Vec<Progress> {
        self.said.progress()
    }

    /// The pipeline, for tests of the pipeline itself.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}

/// Where a workspace keeps its plugins.
const TOOLS: &str = ".mimir/tools";

/// Compiled code is kept beside the test binary, so that a suite compiles each plugin once. A binary that was
/// built again starts afresh: what another host said of a plugin would hide what this one says.
fn cache_dir() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let exe = std::env::current_exe().ok()?;
        let deps = exe.ancestors().find(|folder| folder.ends_with("deps"))?;
        let folder = deps.parent()?.join("mimir-testkit");
        let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
        if let (Ok(kept), Ok(built)) = (changed(&folder), changed(&exe))
            && kept < built
        {
            // A kit that uses it at this moment compiles again; nothing worse.
            fs::remove_dir_all(&folder).ok()?;
        }
        Some(folder)
    };
    FOLDER.get_or_init(find).clone()
}
