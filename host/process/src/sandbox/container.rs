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
mod engine;
mod enter;
mod facts;
#[cfg(test)]
mod fake;
mod handle;
mod mounted;
mod outside;
mod owner;
mod pool;
mod set_id;
mod socket;
mod way_out;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use mimir_core::backend::BoxFuture;
use mimir_core::config::SandboxSettings;

use super::person::Person;
use super::{APART, Bounds, Child, Fault, Network, Sandbox, Spec};
use blueprint::Blueprint;
use engine::blocking;
use facts::Facts;
use pool::Pool;

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
    found: Arc<OnceLock<Result<Found, String>>>,
}

/// A connected engine, with its pool of containers.
struct Found {
    pool: Arc<Pool>,
    person: Person,
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

    fn found(&self) -> Result<&Found, Fault> {
        let found = self.found.get_or_init(|| find(self.socket.as_deref()));
        found.as_ref().map_err(|why| Fault::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })
    }

    /// Connects to the engine on a blocking thread, since it may take seconds to answer.
    async fn found_meanwhile(&self) -> Result<&Found, Fault> {
        if self.found.get().is_none() {
            let (socket, known) = (self.socket.clone(), Arc::clone(&self.found));
            let looking = move || {
                known.get_or_init(|| find(socket.as_deref()));
            };
            // A failure is stored and returned below.
            let _ = tokio::task::spawn_blocking(looking).await;
        }
        self.found()
    }

    fn image(&self) -> Result<&str, Fault> {
        self.image.as_deref().ok_or_else(|| Fault::Unavailable {
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

    fn gives(&self, bounds: &Bounds) -> Result<Vec<String>, Fault> {
        let found = self.found()?;
        let engine = found.pool.engine();
        let image = self.image()?;
        blocking(engine.has_image(image)).map_err(Fault::io("a thread cannot be started"))??;
        Ok(gives(&engine.facts, image, bounds))
    }

    fn holds(&self, spec: &Spec) -> Result<(), Fault> {
        let engine = self.found()?.pool.engine();
        holds(&engine.facts, spec)?;
        blueprint::fits(spec, &engine.socket)
    }

    fn start<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<Child, Fault>> {
        Box::pin(async move {
            let found = self.found_meanwhile().await?;
            let engine = found.pool.engine();
            self.holds(spec)?;
            let command = enter::Command::new(spec, &found.person)?;
            let (image, facts) = (self.image()?.to_owned(), engine.facts.clone());
            let spec = spec.clone();
            let plan = Arc::new(move || Blueprint::new(&image, &facts, &spec));
            found.pool.run(plan, command).await
        })
    }
}

fn find(socket: Option<&str>) -> Result<Found, String> {
    let engine = socket::find(socket)?;
    let home = std::env::home_dir().unwrap_or_default();
    Ok(Found {
        pool: Arc::new(Pool::new(engine)),
        person: Person::of(&home),
    })
}

fn gives(facts: &Facts, image: &str, bounds: &Bounds) -> Vec<String> {
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
        match way_out::possible(facts) {
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
fn holds(facts: &Facts, spec: &Spec) -> Result<(), Fault> {
    let cannot = |what, why: &str| {
        Err(Fault::CannotHold {
            sandbox: NAME,
            what,
            why: why.to_owned(),
        })
    };
    let no_group = "the engine has no control group for it";
    if spec.network != Network::None {
        way_out::possible(facts)?;
    }
    if spec.bounds.memory.asked() && !facts.holds_memory() {
        return cannot("a limit of memory", no_group);
    }
    if spec.bounds.cpu.is_some() && !facts.cpu {
        return cannot("a limit of processor time", no_group);
    }
    if spec.bounds.processes.asked() && !facts.pids {
        return cannot("a limit of processes", no_group);
    }
    Ok(())
}

/// Converts a path to a string for the engine.
fn text(path: PathBuf) -> Result<String, Fault> {
    path.into_os_string()
        .into_string()
        .map_err(|path| Fault::Mount {
            at: path.into(),
            why: "its path is not valid UTF-8, which container engines need".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Bound;
    use mimir_core::command::Program;

    fn spec() -> Spec {
        Spec::new(Program::Vector(vec!["true".into()]), "/home/p/work")
    }

    #[test]
    fn what_the_engine_cannot_hold_is_refused_if_it_was_asked_for() {
        let all = Facts::all();
        let mut asked = spec();
        asked.bounds.memory = Bound::Asked(1 << 30);
        asked.bounds.processes = Bound::Asked(10);
        asked.bounds.cpu = Some(50);
        assert!(holds(&all, &asked).is_ok());
        for (facts, what) in [
            (
                Facts {
                    memory: false,
                    ..all.clone()
                },
                "memory",
            ),
            (
                Facts {
                    swap: false,
                    swaps: true,
                    ..all.clone()
                },
                "memory",
            ),
            (
                Facts {
                    pids: false,
                    ..all.clone()
                },
                "processes",
            ),
            (
                Facts {
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
                gives(&facts, "x", &Bounds::default())
                    .iter()
                    .any(|line| line.contains("not enforced"))
            );
        }
        // Without swap, the memory limit is sufficient.
        assert!(
            holds(
                &Facts {
                    swap: false,
                    ..all.clone()
                },
                &asked
            )
            .is_ok()
        );
        let network = Spec {
            network: Network::Proxy,
            ..spec()
        };
        let rootless = Facts {
            rootless: true,
            ..all.clone()
        };
        let root = rustix::process::geteuid().is_root();
        for (facts, lets_out) in [(&all, root), (&rootless, true)] {
            let lets_out = lets_out && cfg!(target_os = "linux");
            let held = holds(facts, &network);
            assert_eq!(held.is_ok(), lets_out, "{held:?}");
            assert_eq!(
                gives(facts, "x", &Bounds::default())
                    .iter()
                    .any(|line| line.contains("networkAccess")),
                lets_out
            );
        }
    }

    #[test]
    fn without_an_engine_or_an_image_there_is_none() {
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
        assert_eq!(fault.code(), mimir_core::Code::Unavailable);
        let none = ContainerSandbox::new(&SandboxSettings::default());
        assert!(
            none.image()
                .unwrap_err()
                .to_string()
                .contains("image: NAME")
        );
    }
}
