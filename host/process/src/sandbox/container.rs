//! The sandbox `container`: runs commands in containers of Docker or Podman, through a local socket.
//!
//! A command has access to the image, read-only; its workspace, writable except for protected paths; a home and a
//! temporary folder in memory; its own processes; and a network with only its own loopback. It runs as the current
//! user, so that its files belong to that user, without capabilities or a way to gain them. The engine's own system
//! call filter stays active.
//!
//! Each command gets a new container: a reused one would expose the processes, temporary files and memory of earlier
//! commands. Starting a container takes a third of a second, so the next one is prepared in the background (see
//! `pool.rs`), and a command enters it by `exec`, which is much faster.
//!
//! Images are never fetched automatically. The error for a missing image names the command that fetches it.

mod blueprint;
mod container_handle;
mod container_owner;
mod container_processes;
mod egress_proxy;
mod engine;
mod engine_facts;
mod engine_states;
mod exec;
#[cfg(test)]
mod fake;
mod planned_mount;
mod pool;
mod set_id_bits;
mod socket;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use mimir_core::backend::BoxFuture;
use mimir_core::config::SandboxSettings;
use mimir_core::platform::PlatformGuarantee;

use super::git_identity::GitIdentity;
use super::{
    APART, CommandNetwork, CommandSpec, ResourceBounds, Sandbox, SandboxChild, SandboxError,
};
use blueprint::ContainerBlueprint;
use engine::block_on_thread;
use engine_facts::ContainerEngineFacts;
use pool::ContainerPool;

const NAME: &str = "container";

/// Home folder of commands.
const HOME: &str = "/home/mimir";

/// Temporary folder of commands.
const TEMP: &str = "/tmp";

/// The sandbox `container`.
pub struct ContainerSandbox {
    /// The configured socket.
    socket: Option<String>,
    image: Option<String>,
    /// The engine, connected on first use.
    connection: Arc<OnceLock<Result<ConnectedEngine, String>>>,
}

/// A connected engine, with its pool of containers.
struct ConnectedEngine {
    pool: Arc<ContainerPool>,
    git_identity: GitIdentity,
}

impl ContainerSandbox {
    /// Creates the sandbox. The engine is connected to on first use.
    pub fn new(settings: &SandboxSettings) -> Self {
        Self {
            socket: settings.socket.clone(),
            image: settings.image.clone(),
            connection: Arc::default(),
        }
    }

    fn engine(&self) -> Result<&ConnectedEngine, SandboxError> {
        let connected = self
            .connection
            .get_or_init(|| connect(self.socket.as_deref()));
        connected.as_ref().map_err(|why| SandboxError::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })
    }

    /// Connects to the engine on a blocking thread, since the engine may take seconds to answer.
    async fn connect_engine(&self) -> Result<&ConnectedEngine, SandboxError> {
        if self.connection.get().is_none() {
            let (socket, connection) = (self.socket.clone(), Arc::clone(&self.connection));
            let connect_once = move || {
                connection.get_or_init(|| connect(socket.as_deref()));
            };
            // A failure is stored, and returned below.
            let _ = tokio::task::spawn_blocking(connect_once).await;
        }
        self.engine()
    }

    fn image(&self) -> Result<&str, SandboxError> {
        self.image.as_deref().ok_or_else(|| SandboxError::Unavailable {
            sandbox: NAME,
            why: "no image is configured; set `sandbox: {mode: container, image: NAME}` in the settings"
                .to_owned(),
        })
    }
}

impl Sandbox for ContainerSandbox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe_guarantees(&self, bounds: &ResourceBounds) -> Result<Vec<String>, SandboxError> {
        let connected = self.engine()?;
        let engine = connected.pool.engine();
        let image = self.image()?;
        block_on_thread(engine.has_image(image))
            .map_err(SandboxError::io_error("cannot start a thread"))??;
        Ok(guarantees(&engine.facts, image, bounds))
    }

    fn guarantees(&self, _: &ResourceBounds) -> Result<Vec<PlatformGuarantee>, SandboxError> {
        let facts = &self.engine()?.pool.engine().facts;
        let limit = |name, holds: bool| {
            if holds {
                PlatformGuarantee::enforced(name)
            } else {
                PlatformGuarantee::refused(name, "the engine has no control group for it")
            }
        };
        Ok(vec![
            PlatformGuarantee::enforced("files of commands"),
            PlatformGuarantee::enforced("network of commands"),
            match egress_proxy::check_possible(facts) {
                Ok(()) => PlatformGuarantee::enforced("granted hosts"),
                Err(fault) => PlatformGuarantee::refused("granted hosts", fault.to_string()),
            },
            PlatformGuarantee::enforced("end of commands"),
            PlatformGuarantee::refused(
                "shared network of a session",
                "each command has its own container",
            ),
            limit("memory", facts.can_limit_memory()),
            limit("processes", facts.pids),
            limit("processor time", facts.cpu),
        ])
    }

    fn check_support(&self, spec: &CommandSpec) -> Result<(), SandboxError> {
        let engine = self.engine()?.pool.engine();
        check_limits(&engine.facts, spec)?;
        blueprint::check_mounts(spec, &engine.socket)
    }

    fn start<'a>(
        &'a self,
        spec: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<SandboxChild, SandboxError>> {
        Box::pin(async move {
            let connected = self.connect_engine().await?;
            let engine = connected.pool.engine();
            self.check_support(spec)?;
            let command = exec::ContainerCommand::new(spec, &connected.git_identity)?;
            let (image, facts) = (self.image()?.to_owned(), engine.facts.clone());
            let spec = spec.clone();
            let plan = Arc::new(move || ContainerBlueprint::new(&image, &facts, &spec));
            connected.pool.run(plan, command).await
        })
    }
}

fn connect(socket: Option<&str>) -> Result<ConnectedEngine, String> {
    let engine = socket::find(socket)?;
    let home = std::env::home_dir().unwrap_or_default();
    Ok(ConnectedEngine {
        pool: Arc::new(ContainerPool::new(engine)),
        git_identity: GitIdentity::read_from(&home),
    })
}

fn guarantees(facts: &ContainerEngineFacts, image: &str, bounds: &ResourceBounds) -> Vec<String> {
    let with_enforcement = |enforced: bool, what: String| {
        if enforced {
            what
        } else {
            format!("{what}: not enforced here, since the engine has no control group for it")
        }
    };
    let memory = mimir_core::text::bytes(bounds.memory.value());
    let kind = if facts.rootless { ", without root" } else { "" };
    vec![
        format!("{}{kind}; image {image}", facts.engine),
        "a new container for each command; image read-only, workspace writable, private home and /tmp".to_owned(),
        APART.to_owned(),
        match egress_proxy::check_possible(facts) {
            Ok(()) => "network: only its own loopback; with `networkAccess: true`, also what `network` allows, through a proxy",
            Err(_) => "network: only its own loopback",
        }
        .to_owned(),
        "no capabilities, no new privileges; system calls: filtered by the engine".to_owned(),
        with_enforcement(facts.can_limit_memory(), format!("memory: {memory}")),
        with_enforcement(facts.pids, format!("processes: {}", bounds.processes.value())),
        with_enforcement(facts.cpu, "processor time: where a limit is set".to_owned()),
    ]
}

/// Checks that an engine with these properties can enforce all limits and requests of the command.
fn check_limits(facts: &ContainerEngineFacts, spec: &CommandSpec) -> Result<(), SandboxError> {
    let unsupported = |what, why: &str| Err(SandboxError::unsupported(NAME, what, why));
    let no_group = "the engine has no control group for it";
    if spec.network != CommandNetwork::None {
        egress_proxy::check_possible(facts)?;
    }
    if spec.bounds.memory.is_requested() && !facts.can_limit_memory() {
        return unsupported("a memory limit", no_group);
    }
    if spec.bounds.cpu.is_some() && !facts.cpu {
        return unsupported("a limit of processor time", no_group);
    }
    if spec.bounds.processes.is_requested() && !facts.pids {
        return unsupported("a limit of processes", no_group);
    }
    Ok(())
}

/// Converts a path to a string for the engine.
fn path_text(path: PathBuf) -> Result<String, SandboxError> {
    path.into_os_string()
        .into_string()
        .map_err(|path| SandboxError::Mount {
            at: path.into(),
            why: "its path is not valid UTF-8, which container engines need".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::ResourceBound;
    use mimir_core::command::CommandProgram;

    fn spec() -> CommandSpec {
        CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), "/home/p/work")
    }

    #[test]
    fn container_rejects_requested_limits_the_engine_lacks() {
        let all = ContainerEngineFacts::all();
        let mut requested = spec();
        requested.bounds.memory = ResourceBound::Requested(1 << 30);
        requested.bounds.processes = ResourceBound::Requested(10);
        requested.bounds.cpu = Some(50);
        assert!(check_limits(&all, &requested).is_ok());
        for (facts, what) in [
            (
                ContainerEngineFacts {
                    memory: false,
                    ..all.clone()
                },
                "memory",
            ),
            (
                ContainerEngineFacts {
                    swap: false,
                    has_swap: true,
                    ..all.clone()
                },
                "memory",
            ),
            (
                ContainerEngineFacts {
                    pids: false,
                    ..all.clone()
                },
                "processes",
            ),
            (
                ContainerEngineFacts {
                    cpu: false,
                    ..all.clone()
                },
                "processor",
            ),
        ] {
            let fault = check_limits(&facts, &requested).unwrap_err();
            assert!(fault.to_string().contains(what), "{fault}");
            assert!(
                check_limits(&facts, &spec()).is_ok(),
                "default limits may go unenforced"
            );
            assert!(
                guarantees(&facts, "x", &ResourceBounds::default())
                    .iter()
                    .any(|line| line.contains("not enforced"))
            );
        }
        // Without swap, the memory limit is sufficient.
        assert!(
            check_limits(
                &ContainerEngineFacts {
                    swap: false,
                    ..all.clone()
                },
                &requested
            )
            .is_ok()
        );
        let network = CommandSpec {
            network: CommandNetwork::Proxy,
            ..spec()
        };
        let rootless = ContainerEngineFacts {
            rootless: true,
            ..all.clone()
        };
        let root = rustix::process::geteuid().is_root();
        for (facts, has_network) in [(&all, root), (&rootless, true)] {
            let has_network = has_network && cfg!(target_os = "linux");
            let result = check_limits(facts, &network);
            assert_eq!(result.is_ok(), has_network, "{result:?}");
            assert_eq!(
                guarantees(facts, "x", &ResourceBounds::default())
                    .iter()
                    .any(|line| line.contains("networkAccess")),
                has_network
            );
        }
    }

    #[test]
    fn container_requires_an_engine_and_an_image() {
        let settings = SandboxSettings {
            socket: Some("/nowhere/docker.sock".into()),
            image: Some("x".into()),
            ..SandboxSettings::default()
        };
        let fault = ContainerSandbox::new(&settings).available().unwrap_err();
        assert!(
            fault.to_string().contains("/nowhere/docker.sock"),
            "{fault}"
        );
        assert_eq!(fault.code(), mimir_core::ToolErrorCode::Unavailable);
        let none = ContainerSandbox::new(&SandboxSettings::default());
        assert!(
            none.image()
                .unwrap_err()
                .to_string()
                .contains("image: NAME")
        );
    }
}
