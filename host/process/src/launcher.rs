//! Launcher for long-running programs, such as third-party servers, each in its own sandbox.
//!
//! Out of scope: the protocol of these programs, and the decision when to start and stop them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::command::{CommandProgram, CommandRequest, CommandTarget};
use mimir_core::config::SandboxMode;
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProcessLauncher, ProgramHandle};
use mimir_core::network::HostPattern;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::Proxy;

use crate::inherited_env;
use crate::launch_folder::{EmptyFolder, describe_workspace_reference, path_outside};
use crate::run::workspace_guard::{GuardBreach, WorkspaceGuard};
use crate::runner::ReadySandbox;
use crate::sandbox::{
    CommandHandle, CommandNetwork, CommandSpec, CommandStdin, HostMount, SandboxError,
    WorkspacePart, writable_outside_folders,
};

/// Interval of the checks for forbidden files. Longer than for commands, since these programs run for hours.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Creates the network proxy of a program.
pub type ProxyFactory = dyn Fn(&LaunchSpec) -> Result<Proxy, ToolError> + Send + Sync;

/// Starts programs, each in the sandbox configured for it.
pub struct ProgramLauncher {
    workspace: PathBuf,
    /// Parent of the empty start folders.
    empty_folders: PathBuf,
    proxies: Option<Arc<ProxyFactory>>,
}

impl ProgramLauncher {
    /// Creates a launcher for programs in `workspace`. A program without a start folder starts in an empty folder below
    /// `empty_folders`, which contains no files that it could load as modules.
    pub fn new(workspace: impl Into<PathBuf>, empty_folders: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            empty_folders: empty_folders.into(),
            proxies: None,
        }
    }

    /// Sets the factory for the proxies of programs that need the network. Without a factory, such programs do not
    /// start.
    #[must_use]
    pub fn with_proxies(mut self, factory: Arc<ProxyFactory>) -> Self {
        self.proxies = Some(factory);
        self
    }

    async fn start(&self, launch: LaunchSpec) -> Result<LaunchedProgram, ToolError> {
        let is_privileged = launch.secrets || launch.sandbox.mode == Some(SandboxMode::None);
        let ready = ReadySandbox::choose(&self.workspace, launch.sandbox.clone()).await?;
        let mut spec = ready.spec_of_command(&CommandRequest {
            program: CommandProgram::Vector(launch.args.clone()),
            directory: launch.directory.clone(),
            environment: launch.environment.clone(),
            stdin: Vec::new(),
            timeout: None,
            target: CommandTarget::Default,
        })?;
        let sandbox = ready.sandbox();
        if sandbox.enforces_path_rules() {
            self.confine(&mut spec, &launch)?;
        } else {
            inherited_env::pass_variables(&mut spec.environment);
        }
        let empty = match launch.directory {
            Some(_) => None,
            None => Some(EmptyFolder::create_in(
                &self.empty_folders,
                &spec.workspace,
            )?),
        };
        if let Some(empty) = &empty {
            spec.directory = empty.path().to_owned();
            if sandbox.enforces_path_rules() {
                // Files that the program writes there are removed with the folder.
                spec.private_mounts.push(empty.path().to_owned());
                spec.mounts.push(HostMount {
                    writable: true,
                    ..HostMount::read_only(empty.path())
                });
            }
        }
        if is_privileged
            && !launch.workspace_code
            && let Some(reference) =
                describe_workspace_reference(&spec.workspace, &spec.directory, &launch)
        {
            return Err(SandboxError::WorkspaceCode(reference).into());
        }
        let has_own_path = spec.environment.iter().any(|(name, _)| name == "PATH");
        if is_privileged
            && !launch.workspace_code
            && !has_own_path
            && sandbox.name() != "container"
            && let Some(path) = path_outside(&spec.workspace)
        {
            spec.environment.push(("PATH".to_owned(), path));
        }
        // A program without write access cannot create files in the workspace.
        let may_write = spec.visible_parts.iter().any(|part| part.writable)
            || !writable_outside_folders(&spec).is_empty();
        let mut guard = if sandbox.enforces_path_rules() && may_write {
            WorkspaceGuard::new(&spec)
        } else {
            WorkspaceGuard::disabled()
        };
        spec.stdin = CommandStdin::Pipe;
        let child = sandbox.start(&spec).await?;
        guard.watch(child.masked);
        Ok(LaunchedProgram {
            stdin: child.stdin,
            stdout: child.stdout,
            stderr: child.stderr,
            handle: Box::new(GuardedProgram {
                handle: child.handle,
                guard,
                breach: None,
                _empty: empty,
            }),
        })
    }

    /// Applies the restrictions and permissions of the launch: the visible part of the workspace, the program's own
    /// folders and the network.
    fn confine(&self, spec: &mut CommandSpec, launch: &LaunchSpec) -> Result<(), ToolError> {
        if let Some(folders) = &launch.folders {
            let parts = folders.iter().map(|folder| WorkspacePart {
                below: match folder.path.as_str() {
                    "." => PathBuf::new(),
                    path => path.into(),
                },
                writable: folder.writable,
            });
            spec.visible_parts = parts.collect();
        }
        for folder in &launch.private {
            let real = folder.canonicalize().map_err(SandboxError::io_error(
                "cannot find a folder of the program",
            ))?;
            spec.private_mounts.push(real.clone());
            spec.mounts.push(HostMount {
                from: real,
                at: folder.clone(),
                writable: true,
            });
        }
        if spec.network == CommandNetwork::Proxy {
            let make = self.proxies.as_ref();
            spec.proxy = make.map(|make| make(launch)).transpose()?;
            if launch.hosts.iter().any(is_this_machine) {
                // Requests to this machine must use the proxy too: the loopback in the sandbox is a different one.
                for name in ["no_proxy", "NO_PROXY"] {
                    if !spec.environment.iter().any(|(other, _)| other == name) {
                        spec.environment.push((name.to_owned(), String::new()));
                    }
                }
            }
            inherited_env::trust_certificates(spec);
        }
        Ok(())
    }
}

/// Returns true if a host is this machine, for which programs bypass the proxy by default.
fn is_this_machine(host: &HostPattern) -> bool {
    let text = host.to_string();
    let text = text
        .split_once("://")
        .map_or(text.as_str(), |(_, rest)| rest);
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|start| text.starts_with(start))
}

impl ProcessLauncher for ProgramLauncher {
    fn launch(&self, launch: LaunchSpec) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>> {
        Box::pin(self.start(launch))
    }
}

/// A running program that is killed if it creates a forbidden file.
struct GuardedProgram {
    handle: Box<dyn CommandHandle>,
    guard: WorkspaceGuard,
    breach: Option<GuardBreach>,
    /// The start folder, removed with the program.
    _empty: Option<EmptyFolder>,
}

impl ProgramHandle for GuardedProgram {
    fn wait(&mut self) -> BoxFuture<'_, Result<i32, ToolError>> {
        Box::pin(async move {
            let mut guard_poll = tokio::time::interval(POLL_INTERVAL);
            guard_poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    exit = self.handle.wait() => {
                        let exit = exit?;
                        let last = self.guard.final_check().await;
                        self.breach = self.breach.take().or(last);
                        return match &self.breach {
                            Some(breach) => Err(breach_error(breach)),
                            None => Ok(exit.code),
                        };
                    }
                    _ = guard_poll.tick(), if self.breach.is_none() => {
                        self.breach = self.guard.check();
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

fn breach_error(breach: &GuardBreach) -> ToolError {
    let (code, message) = match breach {
        GuardBreach::Created(created) => (
            ToolErrorCode::PermissionDenied,
            format!("it was stopped: it created {}", created.describe()),
        ),
        GuardBreach::CreatedConcurrently(created) => (
            ToolErrorCode::PermissionDenied,
            format!(
                "it was stopped, like all commands that ran at the same time: one of them created {}",
                created.describe()
            ),
        ),
        GuardBreach::Uncovered(path) => (
            ToolErrorCode::Unavailable,
            format!(
                "it was stopped: `{path}`, which it may not change or read, was replaced by another program while it ran; \
                 the next call starts it again"
            ),
        ),
    };
    ToolError::new(code, message)
}
