//! Programs that go on beside the calls, each in a sandbox of its own: the servers of other people.
//!
//! Never here: what is said to them, and when they are started and stopped.

use std::path::PathBuf;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::command::{Command, Program};
use mimir_core::launch::{Hold, Launch, Launched, Launcher};
use mimir_core::{Code, ToolError};

use crate::run::guard::{Guard, Made};
use crate::runner::Ready;
use crate::sandbox::{Fault, Handle, choose};

/// How often what may not be made is looked for. A program that goes on for hours is looked at less often than a
/// command.
const LOOK: Duration = Duration::from_millis(250);

/// Starts programs in the sandbox that each asks for.
pub struct Programs {
    workspace: PathBuf,
}

impl Programs {
    /// For programs that work in this folder.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
        }
    }

    async fn start(&self, launch: Launch) -> Result<Launched, Fault> {
        let ready = Ready::new(&self.workspace, choose(&launch.sandbox)?)?;
        let spec = ready.of_command(&Command {
            program: Program::Vector(launch.words),
            directory: launch.directory,
            environment: launch.environment,
            stdin: Vec::new(),
            timeout: None,
        })?;
        let sandbox = ready.sandbox();
        let guard = match sandbox.shields() {
            true => Guard::new(&spec.workspace, &spec.shield),
            false => Guard::idle(),
        };
        let child = sandbox.start(&spec).await?;
        Ok(Launched {
            stdin: child.stdin,
            stdout: child.stdout,
            stderr: child.stderr,
            hold: Box::new(Watched {
                handle: child.handle,
                guard,
                made: None,
            }),
        })
    }
}

impl Launcher for Programs {
    fn launch(&self, launch: Launch) -> BoxFuture<'_, Result<Launched, ToolError>> {
        Box::pin(async move { Ok(self.start(launch).await?) })
    }
}

/// A program that is ended when it makes what nobody may make.
struct Watched {
    handle: Box<dyn Handle>,
    guard: Guard,
    made: Option<Made>,
}

impl Hold for Watched {
    fn wait(&mut self) -> BoxFuture<'_, Result<i32, ToolError>> {
        Box::pin(async move {
            let mut look = tokio::time::interval(LOOK);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    exit = self.handle.wait() => {
                        let exit = exit?;
                        self.made = self.made.take().or_else(|| self.guard.look());
                        return match &self.made {
                            Some(made) => Err(refused(made)),
                            None => Ok(exit.code),
                        };
                    }
                    _ = look.tick(), if self.made.is_none() => {
                        self.made = self.guard.look();
                        if self.made.is_some() {
                            self.handle.kill().await;
                        }
                    }
                }
            }
        })
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        self.handle.terminate()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        self.handle.kill()
    }
}

fn refused(made: &Made) -> ToolError {
    let Made { path, rule, kept } = made;
    let message =
        format!("it was stopped: it made `{path}`, which {rule}; what it made is now `{kept}`");
    ToolError::new(Code::PermissionDenied, message)
}
