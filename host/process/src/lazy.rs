//! Commands whose sandbox is chosen when the first of them runs: who runs none pays for none.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::call::Observer;
use mimir_core::command::{Finished, Job, JobId, Owner, Piece, Program, Runner, Script};
use mimir_core::config::SandboxSettings;
use mimir_core::pipeline::Permitted;

use crate::runner::{Commands, Surroundings};
use crate::sandbox::{Chosen, Fault, choose};
use crate::shell;

/// Runs commands in the sandbox that the settings name. One that is not to be had refuses each command, and nothing
/// else.
pub struct LazyCommands {
    workspace: PathBuf,
    settings: SandboxSettings,
    root: OnceLock<Option<String>>,
    made: OnceLock<Result<Commands, ToolError>>,
}

impl LazyCommands {
    /// For commands in this folder. Nothing is looked at before one runs.
    pub fn new(workspace: impl Into<PathBuf>, settings: SandboxSettings) -> Self {
        Self {
            workspace: workspace.into(),
            settings,
            root: OnceLock::new(),
            made: OnceLock::new(),
        }
    }

    fn made(&self) -> Result<&Commands, ToolError> {
        let made = self.made.get_or_init(|| Ok(self.make()?));
        made.as_ref().map_err(Clone::clone)
    }

    fn make(&self) -> Result<Commands, Fault> {
        let Chosen {
            sandbox,
            bounds,
            mounts,
            network,
        } = choose(&self.settings)?;
        Commands::new(Surroundings {
            workspace: self.workspace.clone(),
            sandbox,
            bounds,
            mounts,
            network,
        })
    }

    /// What was started, if anything was.
    fn started(&self) -> Option<&Commands> {
        self.made.get()?.as_ref().ok()
    }
}

impl Runner for LazyCommands {
    fn read(&self, program: &Program) -> Result<Script, ToolError> {
        shell::read(program)
    }

    fn root(&self) -> Option<&str> {
        let real = || {
            let real = self.workspace.canonicalize().ok()?;
            real.to_str().map(|root| root.replace('\\', "/"))
        };
        self.root.get_or_init(real).as_deref()
    }

    fn run(
        &self,
        command: Permitted,
        observer: Arc<dyn Observer>,
    ) -> BoxFuture<'_, Result<Finished, ToolError>> {
        Box::pin(async move { self.made()?.run(command, observer).await })
    }

    fn start(&self, command: Permitted) -> BoxFuture<'_, Result<JobId, ToolError>> {
        Box::pin(async move { self.made()?.start(command).await })
    }

    fn jobs(&self, owner: &Owner) -> Vec<Job> {
        let jobs = self.started().map(|commands| commands.jobs(owner));
        jobs.unwrap_or_default()
    }

    fn output(&self, owner: &Owner, job: JobId, begin: u64) -> Result<Piece, ToolError> {
        self.made()?.output(owner, job, begin)
    }

    fn stop<'a>(&'a self, owner: &'a Owner, job: JobId) -> BoxFuture<'a, Result<Job, ToolError>> {
        Box::pin(async move { self.made()?.stop(owner, job).await })
    }

    fn end_session(&self, session: &str) {
        if let Some(commands) = self.started() {
            commands.end_session(session);
        }
    }
}
