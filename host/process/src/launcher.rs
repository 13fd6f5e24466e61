//! Programs that go on beside the calls, each in a sandbox of its own: the servers of other people.
//!
//! Never here: what is said to them, and when they are started and stopped.

use std::path::PathBuf;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::command::{Command, Place, Program};
use mimir_core::config::SandboxMode;
use mimir_core::launch::{Hold, Launch, Launched, Launcher};
use mimir_core::{Code, ToolError};

use crate::ground::{Empty, leads_into, path_outside};
use crate::run::guard::{Breach, Guard, Made};
use crate::runner::Ready;
use crate::sandbox::{Fault, Handle, Mount};

/// How often what may not be made is looked for. A program that goes on for hours is looked at less often than a
/// command.
const LOOK: Duration = Duration::from_millis(250);

/// Starts programs in the sandbox that each asks for.
pub struct Programs {
    workspace: PathBuf,
    /// Where those start that are to start nowhere in particular, each in an empty folder.
    empty: PathBuf,
}

impl Programs {
    /// For programs that see this folder. Those that name no folder in it start in an empty one below `empty`, where
    /// nothing lies that they could take for a part of themselves.
    pub fn new(workspace: impl Into<PathBuf>, empty: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            empty: empty.into(),
        }
    }

    async fn start(&self, launch: Launch) -> Result<Launched, Fault> {
        let open = launch.secrets || launch.sandbox.mode == Some(SandboxMode::None);
        let ready = Ready::choose(&self.workspace, launch.sandbox.clone()).await?;
        let mut spec = ready.of_command(&Command {
            program: Program::Vector(launch.words.clone()),
            directory: launch.directory.clone(),
            environment: launch.environment.clone(),
            stdin: Vec::new(),
            timeout: None,
            place: Place::Usual,
        })?;
        let sandbox = ready.sandbox();
        let empty = match launch.directory {
            Some(_) => None,
            None => Some(Empty::below(&self.empty, &spec.workspace)?),
        };
        if let Some(empty) = &empty {
            spec.directory = empty.path().to_owned();
            if sandbox.shields() {
                spec.mounts.push(Mount {
                    writable: true,
                    ..Mount::here(empty.path())
                });
            }
        }
        if open
            && !launch.workspace_code
            && let Some(what) = leads_into(&spec.workspace, &spec.directory, &launch)
        {
            return Err(Fault::WorkspaceCode(what));
        }
        let named = spec.environment.iter().any(|(name, _)| name == "PATH");
        if open
            && !launch.workspace_code
            && !named
            && sandbox.name() != "container"
            && let Some(path) = path_outside(&spec.workspace)
        {
            spec.environment.push(("PATH".to_owned(), path));
        }
        let mut guard = match sandbox.shields() {
            true => Guard::new(&spec),
            false => Guard::idle(),
        };
        let child = sandbox.start(&spec).await?;
        guard.watch(child.covered);
        Ok(Launched {
            stdin: child.stdin,
            stdout: child.stdout,
            stderr: child.stderr,
            hold: Box::new(Watched {
                handle: child.handle,
                guard,
                breach: None,
                _empty: empty,
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
    breach: Option<Breach>,
    /// Where it was started; gone with it.
    _empty: Option<Empty>,
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
                        let last = self.guard.last_look().await;
                        self.breach = self.breach.take().or(last);
                        return match &self.breach {
                            Some(breach) => Err(refused(breach)),
                            None => Ok(exit.code),
                        };
                    }
                    _ = look.tick(), if self.breach.is_none() => {
                        self.breach = self.guard.look();
                        if self.breach.is_some() {
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

fn refused(breach: &Breach) -> ToolError {
    let (code, message) = match breach {
        Breach::Made(made) => {
            let Made {
                path,
                rule,
                kept,
                others,
            } = made;
            let others = Made::and_others(*others);
            (
                Code::PermissionDenied,
                format!(
                    "it was stopped: it made `{path}`, which {rule}; what it made is now `{kept}`{others}"
                ),
            )
        }
        Breach::Uncovered(path) => (
            Code::Unavailable,
            format!(
                "it was stopped: `{path}`, which it may not change or read, was replaced by another program while it ran; \
                 the next call starts it again"
            ),
        ),
    };
    ToolError::new(code, message)
}
