//! The sandbox `container`: runs commands in containers of Docker or Podman, through a socket of this machine.
//!
//! A command sees the image, read-only; its workspace, writable except for protected paths; a home and a temporary
//! folder in memory; the processes that it starts itself; and a network with only its own loopback. It runs as the
//! current user, so that its files belong to them, without any capability and without a way to get one; the engine's
//! own filter of system calls remains active.
//!
//! Each command gets a new container: a reused one would expose the processes, temporary files and memory of earlier
//! commands. Starting a container takes a third of a second, so the next one is prepared in the background (see
//! `pool.rs`), and a command enters it by `exec`, which takes a fraction of that.
//!
//! Images are never fetched. The user does that, and the error names the command for it.

mod blueprint;
mod container_handle;
mod container_owner;
mod container_processes;
mod egress_proxy;
mod engine;
mod engine_facts;
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
    /// The socket that the settings name.
    socket: Option<String>,
    image: Option<String>,
    /// The engine, connected to on first use.
    found: Arc<OnceLock<Result<FoundEngine, String>>>,
}

/// A connected engine, with its pool of containers.
struct FoundEngine {
    pool: Arc<ContainerPool>,
    person: GitIdentity,
}

impl ContainerSandbox {
    /// Creates the sandbox. The engine is connected to on first use.
    pub fn new(settings: &SandboxSettings) -> Self {
        Self {
            socket: settings.socket.clone(),
            image: settings.image.clone(),
            found: Arc::default(),
        }
    }

    fn engine(&self) -> Result<&FoundEngine, SandboxError> {
        let found = self.found.get_or_init(|| find(self.socket.as_deref()));
        found.as_ref().map_err(|why| SandboxError::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })
    }

    /// Connects to the engine on a blocking thread, since it may take seconds to answer.
    async fn engine_if_found(&self) -> Result<&FoundEngine, SandboxError> {
        if self.found.get().is_none() {
            let (socket, known) = (self.socket.clone(), Arc::clone(&self.found));
            let looking = move || {
                known.get_or_init(|| find(socket.as_deref()));
            };
            // A failure is stored and returned below.
            let _ = tokio::task::spawn_blocking(looking).await;
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
        let found = self.engine()?;
        let engine = found.pool.engine();
        let image = self.image()?;
        block_on_thread(engine.has_image(image))
            .map_err(SandboxError::io_error("a thread cannot be started"))??;
        Ok(gives(&engine.facts, image, bounds))
    }

    fn check_support(&self, spec: &CommandSpec) -> Result<(), SandboxError> {
        let engine = self.engine()?.pool.engine();
        holds(&engine.facts, spec)?;
        blueprint::check_mounts(spec, &engine.socket)
    }

    fn start<'a>(
        &'a self,
        spec: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<SandboxChild, SandboxError>> {
        Box::pin(async move {
            let found = self.engine_if_found().await?;
            let engine = found.pool.engine();
            self.check_support(spec)?;
            let command = exec::ContainerCommand::new(spec, &found.person)?;
            let (image, facts) = (self.image()?.to_owned(), engine.facts.clone());
            let spec = spec.clone();
            let plan = Arc::new(move || ContainerBlueprint::new(&image, &facts, &spec));
            found.pool.run(plan, command).await
        })
    }
}

fn find(socket: Option<&str>) -> Result<FoundEngine, String> {
    let engine = socket::find(socket)?;
    let home = std::env::home_dir().unwrap_or_default();
    Ok(FoundEngine {
        pool: Arc::new(ContainerPool::new(engine)),
        person: GitIdentity::read_from(&home),
    })
}

fn gives(facts: &ContainerEngineFacts, image: &str, bounds: &ResourceBounds) -> Vec<String> {
    let held = |holds: bool, what: String| match holds {
        true => what,
        false => format!("{what}: not enforced here, since the engine has no control group for it"),
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
        held(facts.holds_memory(), format!("memory: {memory}")),
        held(facts.pids, format!("processes: {}", bounds.processes.value())),
        held(facts.cpu, "processor time: where a limit is set".to_owned()),
    ]
}

/// Checks that an engine with these properties can enforce what the command asks for.
fn holds(facts: &ContainerEngineFacts, spec: &CommandSpec) -> Result<(), SandboxError> {
    let cannot = |what, why: &str| Err(SandboxError::unsupported(NAME, what, why));
    let no_group = "the engine has no control group for it";
    if spec.network != CommandNetwork::None {
        egress_proxy::check_possible(facts)?;
    }
    if spec.bounds.memory.is_requested() && !facts.holds_memory() {
        return cannot("a limit of memory", no_group);
    }
    if spec.bounds.cpu.is_some() && !facts.cpu {
        return cannot("a limit of processor time", no_group);
    }
    if spec.bounds.processes.is_requested() && !facts.pids {
        return cannot("a limit of processes", no_group);
    }
    Ok(())
}

/// Converts a path to a string for the engine.
fn text(path: PathBuf) -> Result<String, SandboxError> {
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
        let mut asked = spec();
        asked.bounds.memory = ResourceBound::Requested(1 << 30);
        asked.bounds.processes = ResourceBound::Requested(10);
        asked.bounds.cpu = Some(50);
        assert!(holds(&all, &asked).is_ok());
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
                    swaps: true,
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
            let fault = holds(&facts, &asked).unwrap_err();
            assert!(fault.to_string().contains(what), "{fault}");
            assert!(
                holds(&facts, &spec()).is_ok(),
                "what is usual need not be held"
            );
            assert!(
                gives(&facts, "x", &ResourceBounds::default())
                    .iter()
                    .any(|line| line.contains("not enforced"))
            );
        }
        // Without swap, the memory limit is sufficient.
        assert!(
            holds(
                &ContainerEngineFacts {
                    swap: false,
                    ..all.clone()
                },
                &asked
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
        for (facts, lets_out) in [(&all, root), (&rootless, true)] {
            let lets_out = lets_out && cfg!(target_os = "linux");
            let held = holds(facts, &network);
            assert_eq!(held.is_ok(), lets_out, "{held:?}");
            assert_eq!(
                gives(facts, "x", &ResourceBounds::default())
                    .iter()
                    .any(|line| line.contains("networkAccess")),
                lets_out
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
