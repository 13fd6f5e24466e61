//! The port to commands: what was permitted is run in a sandbox, in the foreground or in the background.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::call::Observer;
use mimir_core::command::{Command, Finished, Job, JobId, Owner, Piece, Program, Runner, Script};
use mimir_core::needs::Access;
use mimir_core::pipeline::Permitted;
use mimir_core::{Code, ToolError};

use crate::jobs::Jobs;
use crate::run::{Lines, run};
use crate::sandbox::{Bounds, Fault, Mount, Network, Reach, Sandbox, Spec};
use crate::shell;

/// Bytes that are kept of each output of a command. A model is shown a tenth of that, and a person reads less.
const KEEP_MOST: u64 = 1 << 20;

/// What all commands have in common.
pub struct Surroundings {
    /// The folder that they work in.
    pub workspace: PathBuf,
    /// Where they run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What each may use up.
    pub bounds: Bounds,
    /// What they see beside the workspace.
    pub mounts: Vec<Mount>,
    /// What they reach over the network.
    pub network: Network,
}

/// Runs commands. Dropping it kills those that are in the background.
pub struct Commands {
    around: Surroundings,
    /// The workspace as text.
    root: Option<String>,
    jobs: Jobs,
}

impl Commands {
    /// For commands in these surroundings. The workspace must be there.
    pub fn new(around: Surroundings) -> Result<Self, Fault> {
        let missing = |_| Fault::NoDirectory(around.workspace.display().to_string());
        let workspace = around.workspace.canonicalize().map_err(missing)?;
        Ok(Self {
            root: workspace.to_str().map(|root| root.replace('\\', "/")),
            around: Surroundings {
                workspace,
                ..around
            },
            jobs: Jobs::default(),
        })
    }

    /// The sandbox in which they run.
    pub fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.around.sandbox
    }

    fn spec(&self, permitted: &Permitted, timeout: Option<Duration>) -> Result<Spec, Fault> {
        let reach = permitted.files().iter().map(|need| Reach {
            below: match need.path.as_str() {
                "." => PathBuf::new(),
                path => path.into(),
            },
            writable: need.access == Access::ReadWrite,
        });
        let keep = permitted.limits().output_bytes.min(KEEP_MOST);
        Ok(Spec {
            reach: reach.collect(),
            shield: permitted.paths().clone(),
            keep: usize::try_from(keep).unwrap_or(usize::MAX),
            timeout,
            ..self.of_command(permitted.command())?
        })
    }

    fn of_command(&self, command: &Command) -> Result<Spec, Fault> {
        let workspace = &self.around.workspace;
        let mut spec = Spec::new(command.program.clone(), workspace.clone());
        if let Some(directory) = &command.directory {
            spec.directory = inside(workspace, directory)?;
        }
        spec.environment.clone_from(&command.environment);
        spec.stdin.clone_from(&command.stdin);
        spec.bounds = self.around.bounds;
        spec.mounts.clone_from(&self.around.mounts);
        spec.network = self.around.network;
        Ok(spec)
    }
}

/// A folder of the workspace, wherever links in it lead.
fn inside(workspace: &Path, directory: &str) -> Result<PathBuf, Fault> {
    let missing = || Fault::NoDirectory(directory.to_owned());
    let real = workspace
        .join(directory)
        .canonicalize()
        .map_err(|_| missing())?;
    if !real.starts_with(workspace) {
        return Err(Fault::Outside(directory.to_owned()));
    }
    if !real.is_dir() {
        return Err(missing());
    }
    Ok(real)
}

/// A command as a list of jobs shows it.
fn shown(program: &Program) -> String {
    match program {
        Program::Vector(words) => words.join(" "),
        Program::Script(text) => text.clone(),
    }
}

impl Runner for Commands {
    fn read(&self, program: &Program) -> Result<Script, ToolError> {
        shell::read(program)
    }

    fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    fn run(
        &self,
        command: Permitted,
        observer: Arc<dyn Observer>,
    ) -> BoxFuture<'_, Result<Finished, ToolError>> {
        Box::pin(async move {
            let spec = self.spec(&command, Some(command.timeout()))?;
            let mut lines = Lines::new(observer);
            let finished = run(&*self.around.sandbox, &spec, &mut |stream, bytes| {
                lines.add(stream, bytes);
            })
            .await;
            lines.end();
            Ok(finished?)
        })
    }

    fn start(&self, command: Permitted) -> BoxFuture<'_, Result<JobId, ToolError>> {
        Box::pin(async move {
            // It goes on when the call has ended, so the call's own time does not end it.
            let spec = self.spec(&command, command.command().timeout)?;
            let shown = shown(&command.command().program);
            let sandbox = &*self.around.sandbox;
            Ok(self
                .jobs
                .start(sandbox, &spec, command.owner(), shown)
                .await?)
        })
    }

    fn jobs(&self, owner: &Owner) -> Vec<Job> {
        self.jobs.list(owner)
    }

    fn output(&self, owner: &Owner, job: JobId, begin: u64) -> Result<Piece, ToolError> {
        Ok(self.jobs.output(owner, job, begin)?)
    }

    fn stop<'a>(&'a self, owner: &'a Owner, job: JobId) -> BoxFuture<'a, Result<Job, ToolError>> {
        Box::pin(async move {
            let job = self.jobs.stop(owner, job).await?;
            job.ok_or_else(|| ToolError::new(Code::Internal, "the command could not be stopped"))
        })
    }

    fn end_session(&self, session: &str) {
        self.jobs.end_session(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::NoSandbox;

    fn commands(workspace: &Path) -> Result<Commands, Fault> {
        Commands::new(Surroundings {
            workspace: workspace.to_owned(),
            sandbox: Arc::new(NoSandbox::new()),
            bounds: Bounds::default(),
            mounts: Vec::new(),
            network: Network::None,
        })
    }

    fn command(directory: Option<&str>) -> Command {
        Command {
            program: Program::Vector(vec!["true".into()]),
            directory: directory.map(str::to_owned),
            environment: vec![("A".into(), "b".into())],
            stdin: b"x".to_vec(),
            timeout: None,
        }
    }

    #[test]
    fn a_command_starts_in_the_workspace_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir_all(workspace.join("sub")).unwrap();
        std::fs::write(workspace.join("file"), "").unwrap();
        let commands = commands(&workspace).unwrap();
        let real = workspace.canonicalize().unwrap();
        let at = |directory: Option<&str>| commands.of_command(&command(directory));
        assert_eq!(at(None).unwrap().directory, real);
        let spec = at(Some("./sub/../sub")).unwrap();
        assert_eq!(spec.directory, real.join("sub"));
        assert_eq!((spec.environment.len(), spec.stdin.len()), (1, 1));
        for (directory, code) in [
            ("..", Code::InvalidPath),
            ("/", Code::InvalidPath),
            ("sub/../..", Code::InvalidPath),
            ("nowhere", Code::FileNotFound),
            ("file", Code::FileNotFound),
        ] {
            assert_eq!(at(Some(directory)).unwrap_err().code(), code, "{directory}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/", workspace.join("link")).unwrap();
            assert_eq!(at(Some("link")).unwrap_err().code(), Code::InvalidPath);
        }
    }

    #[test]
    fn a_workspace_that_is_not_there_is_refused() {
        let error = commands(Path::new("/nowhere/at/all")).err().unwrap();
        assert_eq!(error.code(), Code::FileNotFound);
    }
}
