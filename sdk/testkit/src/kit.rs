//! The test kit: a workspace with plugins, a pipeline to call them, and a simulated person.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use mimir_core::approval::NoApprovalStore;
use mimir_core::call::{CallContext, CallProgress, LogLine, RequestId};
use mimir_core::config::{Config, SandboxSettings};
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::{AuditEvent, Call, Card, Outcome, Pipeline, Policy, Quarantined, Registry, Tool};
use mimir_process::SandboxRunner;
use mimir_wasm::{BundledComponent, HostOptions, LoadedTools, SystemClock, Toolbox, WasmHost};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::TestkitError;
use crate::build;
use crate::model::TestModel;
use crate::person::{Approve, ScriptedPerson, lock};
use crate::record::{RecordedEvents, RecordedOutput};
use crate::secrets::TestSecrets;

/// A workspace with plugins, a pipeline to call them, and a simulated person who answers prompts.
///
/// The workspace is a new temporary folder, which is removed when the kit is dropped. Several threads may make calls.
pub struct Testkit {
    workspace: TempDir,
    toolbox: Toolbox,
    pipeline: Pipeline,
    loaded: Mutex<LoadedTools>,
    settings: Mutex<(Config, Policy)>,
    person: Arc<ScriptedPerson>,
    secrets: Arc<TestSecrets>,
    model: Arc<TestModel>,
    events: Arc<RecordedEvents>,
    output: Arc<RecordedOutput>,
    runtime: Runtime,
}

impl Testkit {
    /// Creates a kit with the plugin in the given file: a `.wasm` component of any kind that mimir loads. Fails if the
    /// file cannot be read, or if mimir refuses the plugin or one of its tools.
    pub fn new(plugin: impl AsRef<Path>) -> Result<Self, TestkitError> {
        let kit = Self::empty()?;
        kit.add(plugin)?;
        kit.check_loaded()
    }

    /// Builds the plugin in the given folder with cargo and creates a kit with it. In the tests of a plugin, call
    /// `Testkit::build(env!("CARGO_MANIFEST_DIR"))`.
    pub fn build(folder: impl AsRef<Path>) -> Result<Self, TestkitError> {
        Self::new(build::build(folder.as_ref())?)
    }

    /// Creates a kit with a plugin from memory; `name` becomes its file name, without `.wasm`. Fails if mimir refuses
    /// the plugin or one of its tools.
    pub fn from_bytes(name: &str, component: &[u8]) -> Result<Self, TestkitError> {
        let kit = Self::empty()?;
        kit.add_bytes(name, component)?;
        kit.check_loaded()
    }

    /// Creates a kit without plugins.
    pub fn empty() -> Result<Self, TestkitError> {
        Self::with_bundled(Vec::new())
    }

    /// Creates a kit with components that are loaded as if they were shipped with mimir, and no other plugins.
    pub fn with_bundled(bundled: Vec<BundledComponent>) -> Result<Self, TestkitError> {
        let workspace = tempfile::Builder::new().prefix("mimir-testkit-").tempdir();
        Self::at(
            workspace.map_err(TestkitError::file("a temporary folder"))?,
            bundled,
            |options| options,
        )
    }

    /// Creates a kit in the given folder; `options` changes the default options of the host.
    pub fn at(
        workspace: TempDir,
        bundled: Vec<BundledComponent>,
        options: impl FnOnce(HostOptions) -> HostOptions,
    ) -> Result<Self, TestkitError> {
        let tools = workspace.path().join(TOOLS);
        fs::create_dir_all(&tools).map_err(TestkitError::file(&tools))?;
        let mut default = HostOptions::new(workspace.path());
        default.cache_dir = cache_dir();
        let host = WasmHost::new(options(default));
        let person = Arc::<ScriptedPerson>::default();
        let secrets = Arc::<TestSecrets>::default();
        let events = Arc::<RecordedEvents>::default();
        let model = Arc::<TestModel>::default();
        let ports = PipelinePorts {
            approver: person.clone(),
            approval_store: Arc::new(NoApprovalStore),
            vault: secrets.clone(),
            audit: events.clone(),
            clock: Arc::new(SystemClock),
            runner: Arc::new(SandboxRunner::new(
                workspace.path(),
                SandboxSettings::default(),
            )),
            model: model.clone(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let kit = Self {
            toolbox: Toolbox::new(host, bundled, Some(tools)),
            workspace,
            pipeline: Pipeline::new(PipelineSnapshot::default(), ports),
            loaded: Mutex::default(),
            settings: Mutex::default(),
            person,
            secrets,
            model,
            events,
            output: Arc::default(),
            runtime: runtime.map_err(TestkitError::file("the runtime of the test"))?,
        };
        kit.reload();
        Ok(kit)
    }

    /// Copies a plugin into the workspace, loads it, and returns its new path. Errors of the plugin are reported by
    /// [`quarantined`](Self::quarantined).
    pub fn add(&self, plugin: impl AsRef<Path>) -> Result<PathBuf, TestkitError> {
        let plugin = plugin.as_ref();
        let bytes = fs::read(plugin).map_err(TestkitError::file(plugin))?;
        let name = plugin.file_stem().unwrap_or_default().to_string_lossy();
        self.add_bytes(&name, &bytes)
    }

    /// Adds a plugin from memory, as [`add`](Self::add) does for a file. Returns the path of the file in the workspace.
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

    /// Reloads the folder of tools.
    pub fn reload(&self) {
        *lock(&self.loaded) = self.runtime.block_on(self.toolbox.load());
        self.update_pipeline();
    }

    /// Fails if a plugin or tool was not loaded.
    fn check_loaded(self) -> Result<Self, TestkitError> {
        match self.quarantined().into_iter().next() {
            None => Ok(self),
            Some(quarantined) => Err(TestkitError::Refused {
                location: quarantined.location,
                reason: quarantined.reason,
            }),
        }
    }

    /// Sets the answers of the simulated person. The default is [`Approve::Always`].
    #[must_use]
    pub fn approve(self, approve: Approve) -> Self {
        self.person.set(approve);
        self
    }

    /// Stores a secret, as `mimir secrets set` does.
    #[must_use]
    pub fn secret(self, name: &str, value: &str) -> Self {
        self.secrets.set(name, value);
        self
    }

    /// Sets the function that answers the prompts of tools. Without it, prompts fail.
    #[must_use]
    pub fn model(self, answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.model.set(answer);
        self
    }

    /// Calls `fill` with the path of the workspace, to create files there.
    #[must_use]
    pub fn workspace(self, fill: impl FnOnce(&Path)) -> Self {
        fill(self.path());
        self
    }

    /// Sets the configuration, as `.mimir/config.yml` does, in JSON: approvals, limits, policy. Replaces earlier
    /// settings. Fails if the settings are not valid.
    pub fn settings(self, config: Value) -> Result<Self, TestkitError> {
        let config: Config =
            serde_json::from_value(config).map_err(|e| TestkitError::Settings(e.to_string()))?;
        let policy = Policy::new(&config, "the settings of the test");
        let policy = policy.map_err(|e| TestkitError::Settings(e.to_string()))?;
        *lock(&self.settings) = (config, policy);
        self.update_pipeline();
        Ok(self)
    }

    /// Updates the tools and rules of the pipeline.
    fn update_pipeline(&self) {
        let loaded = lock(&self.loaded);
        let (config, policy) = lock(&self.settings).clone();
        let mut tools = loaded.tools.clone();
        config.add_configured_needs(&mut tools);
        self.pipeline.replace(PipelineSnapshot {
            registry: Registry::new(tools, loaded.quarantined.clone()),
            policy,
        });
    }

    /// Calls a tool and waits for the outcome. Panics in async code: use [`start`](Self::start) there.
    pub fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.block_on(self.start(tool, arguments))
    }

    /// Returns a future that calls a tool. Dropping the future cancels the call.
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
        call.observer = self.output.clone();
        let pipeline = self.pipeline.clone();
        async move { pipeline.call(call).await }
    }

    /// Runs a future on the kit's runtime, which has two threads.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// Path of the workspace.
    pub fn path(&self) -> &Path {
        self.workspace.path()
    }

    /// The tools that can be called, sorted by name.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.pipeline.snapshot().registry.tools().to_vec()
    }

    /// Plugins and tools that were not loaded, with reasons.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.pipeline.snapshot().registry.quarantined().to_vec()
    }

    /// The approval cards that were shown, in order.
    pub fn cards(&self) -> Vec<Card> {
        self.person.cards()
    }

    /// The audit events of all calls, in the order in which they ended.
    pub fn events(&self) -> Vec<AuditEvent> {
        self.events.all()
    }

    /// All lines that the tools wrote to the log, stdout and stderr.
    pub fn log(&self) -> Vec<LogLine> {
        self.output.lines()
    }

    /// All progress that the tools reported.
    pub fn progress(&self) -> Vec<CallProgress> {
        self.output.progress()
    }

    /// The pipeline, for tests of the pipeline itself.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}

/// Folder of the plugins, relative to the workspace.
const TOOLS: &str = ".mimir/tools";

/// Returns the cache folder for compiled code, next to the test binary, so that a suite compiles each plugin once. A
/// rebuilt binary starts with an empty cache, because the cached plugin descriptions come from the old host.
fn cache_dir() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let exe = std::env::current_exe().ok()?;
        let deps = exe.ancestors().find(|folder| folder.ends_with("deps"))?;
        let folder = deps.parent()?.join("mimir-testkit");
        let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
        if let (Ok(cached), Ok(built)) = (changed(&folder), changed(&exe))
            && cached < built
        {
            // At worst, a kit that is using the cache compiles again.
            fs::remove_dir_all(&folder).ok()?;
        }
        Some(folder)
    };
    FOLDER.get_or_init(find).clone()
}
