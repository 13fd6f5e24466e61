//! The entry point of the library: a workspace whose tools can be called.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::approval::{ApprovalAnswer, Approver, Card};
use mimir_core::{
    BoxFuture, Call, CallContext, Outcome, Pipeline, RequestId, ToolDefinition, ToolError,
};
use serde_json::Value;

use crate::file_error::file_error;
use crate::settings::MergedSettings;
use crate::setup::HostSetup;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// A host of tools in one workspace: settings, built-in tools, plugins and MCP servers behind one pipeline.
///
/// Every call passes the same checks as a call of the program `mimir`: policy, approval, limits, masking and the audit
/// log of the workspace.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let workspace = tempfile::tempdir()?;
/// # let own = tempfile::tempdir()?;
/// # let dir = workspace.path();
/// std::fs::write(dir.join("notes.txt"), "first line")?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let host = mimir::Host::builder()
///     .workspace(dir)
/// #   .config_dir(own.path().join("config"))
/// #   .cache_dir(own.path().join("cache"))
///     .build()
///     .await?;
/// let outcome = host.call("read_file", serde_json::json!({"path": "notes.txt"})).await?;
/// assert!(outcome.text().contains("first line"));
/// # Ok::<(), mimir::core::ToolError>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
pub struct Host {
    setup: HostSetup,
    pipeline: Pipeline,
    session: String,
}

impl Host {
    /// Creates a builder with default options: the workspace of the current folder, and the user's own settings.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Calls a tool by its name or alias.
    ///
    /// # Errors
    ///
    /// Fails if the call is refused, fails or exceeds a limit. To get the receipt of a failed call, use [`Self::run`].
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, ToolError> {
        let outcome = self.run(self.request(tool, arguments)).await;
        match outcome.result() {
            Ok(_) => Ok(outcome),
            Err(error) => Err(error.clone()),
        }
    }

    /// Creates a call of a tool in the session of this host, with a new request id. [`Self::run`] runs it.
    pub fn request(&self, tool: &str, arguments: Value) -> Call {
        let context = CallContext {
            session_id: self.session.clone(),
            request_id: RequestId::new(SystemTime::now()),
            conversation_id: None,
            user: None,
        };
        Call::new(tool.to_owned(), arguments, context)
    }

    /// Runs a call and returns its outcome, success or failure.
    pub async fn run(&self, call: Call) -> Outcome {
        self.pipeline.call(call).await
    }

    /// Returns the definitions of all registered tools, sorted by name.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        let snapshot = self.pipeline.snapshot();
        let tools = snapshot.registry.tools().iter();
        let mut definitions: Vec<ToolDefinition> =
            tools.map(|tool| tool.definition.clone()).collect();
        definitions.sort_by(|one, other| one.name.cmp(&other.name));
        definitions
    }

    /// Returns the pipeline of this host, for front ends that do more than call tools.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns the settings, folders and stores that this host was built from.
    pub fn setup(&self) -> &HostSetup {
        &self.setup
    }
}

/// Builder of a [`Host`].
#[derive(Default)]
pub struct HostBuilder {
    workspace: Option<PathBuf>,
    config: Option<PathBuf>,
    cache: Option<PathBuf>,
    session: Option<String>,
    settings: Option<MergedSettings>,
    approver: Option<Arc<dyn Approver>>,
    has_no_user: bool,
}

impl HostBuilder {
    /// Sets the workspace. Defaults to the nearest folder with `.mimir`, from the current folder upwards, else to the
    /// current folder.
    #[must_use]
    pub fn workspace(mut self, folder: impl AsRef<Path>) -> Self {
        self.workspace = Some(folder.as_ref().to_owned());
        self
    }

    /// Sets the folder of the user's settings, approvals and secrets. Defaults to `MIMIR_CONFIG_DIR`, else the
    /// platform's folder.
    #[must_use]
    pub fn config_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config = Some(folder.into());
        self
    }

    /// Sets the folder for compiled components. Defaults to `MIMIR_CACHE_DIR`, else the platform's folder.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Uses no folder, no variables and no team policy of the user, for a temporary workspace.
    #[must_use]
    pub(crate) fn without_user(mut self) -> Self {
        self.has_no_user = true;
        self
    }

    /// Sets the id of the session that all calls belong to. The answer "this session" to an approval question applies
    /// to this session. Defaults to a new session.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Sets the settings. Defaults to those in the config files of teams, the user and the workspace, and in environment
    /// variables.
    #[must_use]
    pub fn settings(mut self, settings: MergedSettings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Sets the approver of calls. Without one, calls that need approval are refused; the error names the command that
    /// asks for approval.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Reads the settings and loads the tools. Components that are not in the cache are compiled.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_PATH` if the folder cannot be a workspace, and `INVALID_INPUT` if a settings file is not valid.
    pub async fn build(self) -> Result<Host, ToolError> {
        let mut user_dirs = if self.has_no_user {
            UserDirs::default()
        } else {
            UserDirs::find()
        };
        if let Some(config) = self.config {
            user_dirs.config = Some(config);
        }
        if let Some(cache) = self.cache {
            user_dirs.cache = Some(cache);
        }
        let workspace = WorkspaceFolder::find_beside(self.workspace.as_deref(), &user_dirs)?;
        workspace.check_separation(&user_dirs)?;
        let settings = match self.settings {
            Some(settings) => settings,
            None => MergedSettings::read(&user_dirs, &workspace)?,
        };
        let setup = HostSetup::from_parts(user_dirs, workspace, settings);
        let created = setup.workspace.make_state();
        created.map_err(|error| file_error("create", &setup.workspace.state(), &error))?;
        let approver = self
            .approver
            .unwrap_or_else(|| Arc::new(UnattendedApprover));
        let pipeline = setup.pipeline(setup.load_snapshot().await?, approver);
        let session = self
            .session
            .unwrap_or_else(|| RequestId::new(SystemTime::now()).to_string());
        Ok(Host {
            setup,
            pipeline,
            session,
        })
    }
}

/// Approver of a host without a configured approver. It approves no call.
pub(crate) struct UnattendedApprover;

impl Approver for UnattendedApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let tool = &card.tool;
        let remedy = format!(
            "no approver is set on this host; `mimir call {tool}` with the same arguments asks for approval on a terminal"
        );
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}
