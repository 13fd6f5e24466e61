//! Programs that run independently of the calls, each in a sandbox of its own: third-party servers.
//!
//! Out of scope: the messages to them, and when they are started and stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::command::{Command, Place, Program};
use mimir_core::config::SandboxMode;
use mimir_core::launch::{Hold, Launch, Launched, Launcher};
use mimir_core::network::HostPattern;
use mimir_core::{Code, ToolError};
use mimir_net::Proxy;

use crate::ambient;
use crate::ground::{Empty, leads_into, path_outside};
use crate::run::guard::{Breach, Guard, Made};
use crate::runner::Ready;
use crate::sandbox::{Fault, Handle, Mount, Network, Reach, Spec, Stdin, beside};

/// Interval of the search for files that may not be created: longer than for a command, since such a program runs for
/// hours.
const LOOK: Duration = Duration::from_millis(250);

/// Creates the proxy through which a program reaches the network.
pub type MakeProxy = dyn Fn(&Launch) -> Result<Proxy, ToolError> + Send + Sync;

/// Starts programs in the sandbox that each asks for.
pub struct Programs {
    workspace: PathBuf,
    /// The folder in which programs without a start folder get an empty one each.
    empty: PathBuf,
    proxies: Option<Arc<MakeProxy>>,
}

impl Programs {
    /// Creates a launcher for programs that see `workspace`. Programs that name no folder in it start in an empty one
    /// below `empty`, which holds no files that they could load as modules.
    pub fn new(workspace: impl Into<PathBuf>, empty: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            empty: empty.into(),
            proxies: None,
        }
    }

    /// Gives programs that ask for the network the proxies that `make` creates. Without it none of these is started.
    #[must_use]
    pub fn with_proxies(mut self, make: Arc<MakeProxy>) -> Self {
        self.proxies = Some(make);
        self
    }

    async fn start(&self, launch: Launch) -> Result<Launched, ToolError> {
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
        match sandbox.shields() {
            true => self.confine(&mut spec, &launch)?,
            false => ambient::pass_on(&mut spec.environment),
        }
        let empty = match launch.directory {
            Some(_) => None,
            None => Some(Empty::below(&self.empty, &spec.workspace)?),
        };
        if let Some(empty) = &empty {
            spec.directory = empty.path().to_owned();
            if sandbox.shields() {
                // Files written there are removed with the folder.
                spec.private.push(empty.path().to_owned());
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
            return Err(Fault::WorkspaceCode(what).into());
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
        // New files in the workspace cannot come from a program that has no write access to it.
        let writes = spec.reach.iter().any(|part| part.writable) || !beside(&spec).is_empty();
        let mut guard = match sandbox.shields() && writes {
            true => Guard::new(&spec),
            false => Guard::idle(),
        };
        spec.stdin = Stdin::Pipe;
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

    /// Applies the restrictions and permissions of the launch: its part of the workspace, its own folders, its
    /// network.
    fn confine(&self, spec: &mut Spec, launch: &Launch) -> Result<(), ToolError> {
        if let Some(folders) = &launch.folders {
            let parts = folders.iter().map(|folder| Reach {
                below: match folder.path.as_str() {
                    "." => PathBuf::new(),
                    path => path.into(),
                },
                writable: folder.writable,
            });
            spec.reach = parts.collect();
        }
        for folder in &launch.private {
            let real = folder
                .canonicalize()
                .map_err(Fault::io("a folder of the program cannot be found"))?;
            spec.private.push(real.clone());
            spec.mounts.push(Mount {
                from: real,
                at: folder.clone(),
                writable: true,
            });
        }
        if spec.network == Network::Proxy {
            let make = self.proxies.as_ref();
            spec.proxy = make.map(|make| make(launch)).transpose()?;
            if launch.hosts.iter().any(is_of_this_machine) {
                // It must ask the proxy for this machine too: the loopback in its sandbox is a different one.
                for name in ["no_proxy", "NO_PROXY"] {
                    if !spec.environment.iter().any(|(other, _)| other == name) {
                        spec.environment.push((name.to_owned(), String::new()));
                    }
                }
            }
            ambient::trust_certificates(spec);
        }
        Ok(())
    }
}

/// Returns true if a host is this machine: programs use no proxy for it by default.
fn is_of_this_machine(host: &HostPattern) -> bool {
    let text = host.to_string();
    let text = text
        .split_once("://")
        .map_or(text.as_str(), |(_, rest)| rest);
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|start| text.starts_with(start))
}

impl Launcher for Programs {
    fn launch(&self, launch: Launch) -> BoxFuture<'_, Result<Launched, ToolError>> {
        Box::pin(self.start(launch))
    }
}

/// A program that is ended if it creates a file that it may not create.
struct Watched {
    handle: Box<dyn Handle>,
    guard: Guard,
    breach: Option<Breach>,
    /// The folder in which it was started, removed with it.
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
                    "it was stopped: it created `{path}`, which {rule}; what it created is now `{kept}`{others}"
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
