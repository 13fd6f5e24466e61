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
            // Without a sandbox, the program uses the network directly and needs the user's proxy variables.
            inherited_env::pass_variables(&mut spec.environment);
        }
        let start_folder = match launch.directory {
            Some(_) => None,
            None => Some(self.create_start_folder(&mut spec, sandbox.enforces_path_rules())?),
        };
        // Anyone who can write in the workspace, such as a model, can change code there. With secrets or without a
        // sandbox, the program must not load such code unless the user has allowed it.
        if is_privileged
            && !launch.workspace_code
            && let Some(reference) =
                describe_workspace_reference(&spec.workspace, &spec.directory, &launch)
        {
            return Err(SandboxError::WorkspaceCode(reference).into());
        }
        // For the same reason, programs are not looked up in folders of the workspace on `PATH`. A container has its
        // own `PATH`, and a `PATH` in the settings was chosen by the user.
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
        spec.nested_sandbox = launch.nested_sandbox;
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
                _start_folder: start_folder,
            }),
        })
    }

    /// Creates an empty start folder and sets it as the working directory. In a sandbox, it is also mounted.
    fn create_start_folder(
        &self,
        spec: &mut CommandSpec,
        is_sandboxed: bool,
    ) -> Result<EmptyFolder, SandboxError> {
        let folder = EmptyFolder::create_in(&self.empty_folders, &spec.workspace)?;
        spec.directory = folder.path().to_owned();
        if is_sandboxed {
            // Files that the program writes there are removed with the folder.
            spec.private_mounts.push(folder.path().to_owned());
            spec.mounts.push(HostMount {
                writable: true,
                ..HostMount::read_only(folder.path())
            });
        }
        Ok(folder)
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
            if launch.hosts.iter().any(is_loopback) {
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

/// Returns true for a loopback host. Many programs bypass the proxy for these hosts unless `no_proxy` is set.
fn is_loopback(host: &HostPattern) -> bool {
    let text = host.to_string();
    let text = text
        .split_once("://")
        .map_or(text.as_str(), |(_, rest)| rest);
    let name = text.split(':').next().unwrap_or_default();
    name == "localhost"
        || name.ends_with(".localhost")
        || text.starts_with("127.")
        || text.starts_with("[::1]")
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
    /// The empty start folder, removed with the program.
    _start_folder: Option<EmptyFolder>,
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
            format!(
                "the program was stopped because it created {}",
                created.describe()
            ),
        ),
        GuardBreach::CreatedConcurrently(created) => (
            ToolErrorCode::PermissionDenied,
            format!(
                "the program was stopped, like all commands that ran at the same time, because one of them created {}",
                created.describe()
            ),
        ),
        GuardBreach::Uncovered(path) => (
            ToolErrorCode::Unavailable,
            format!(
                "the program was stopped because another program replaced `{path}`, which must stay protected"
            ),
        ),
    };
    ToolError::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_recognized_by_whole_names() {
        let is_loopback = |host: &str| is_loopback(&host.parse().unwrap());
        for host in [
            "localhost",
            "http://localhost:8080",
            "app.localhost",
            "127.0.0.1:80",
            "[::1]:80",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example.com", "192.0.2.1"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
