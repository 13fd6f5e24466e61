//! A workspace in a temporary folder, and commands that run on it in containers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use bollard::{API_DEFAULT_VERSION, Docker};
use mimir_core::command::{CommandOutput, CommandProgram};
use mimir_core::config::SandboxSettings;
use mimir_process::sandbox::{CommandSpec, ContainerSandbox};

pub use crate::common::{marker, outpours, run_in, runs};

/// The test image, built by `.ci/containers`.
pub const IMAGE: &str = "mimir-test/busybox";

/// The test image without a shell.
pub const BARE: &str = "mimir-test/bare";

pub fn with(image: &str, socket: Option<&Path>) -> ContainerSandbox {
    ContainerSandbox::new(&SandboxSettings {
        image: Some(image.to_owned()),
        socket: socket.map(|path| path.to_str().unwrap().to_owned()),
        ..SandboxSettings::default()
    })
}

pub fn sandbox() -> ContainerSandbox {
    with(IMAGE, None)
}

/// Returns the socket of the engine for these tests.
pub fn socket() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").unwrap();
    host.strip_prefix("unix://").unwrap().into()
}

pub async fn docker() -> Docker {
    let docker = Docker::connect_with_unix(socket().to_str().unwrap(), 30, API_DEFAULT_VERSION);
    docker.unwrap().negotiate_version().await.unwrap()
}

pub struct World(tempfile::TempDir);

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("work")
    }

    pub fn beside(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// Writes a file in the workspace.
    pub fn with(self, file: &str, content: &str) -> Self {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub fn spec(&self, program: CommandProgram) -> CommandSpec {
        let mut spec = CommandSpec::new(program, self.path());
        spec.timeout = Some(Duration::from_secs(60));
        spec
    }

    pub fn script(&self, text: &str) -> CommandSpec {
        self.spec(CommandProgram::Script(text.to_owned()))
    }

    /// Runs a script, which must end.
    pub async fn sh(&self, text: &str) -> Said {
        self.sh_in(&sandbox(), text).await
    }

    pub async fn sh_in(&self, sandbox: &ContainerSandbox, text: &str) -> Said {
        let finished = run_in(sandbox, &self.script(text)).await;
        Said::of(&finished.unwrap_or_else(|fault| panic!("{fault}\n{text}")))
    }

    pub fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path().join(file)).ok()
    }

    /// Returns the containers for this workspace, in any state.
    async fn all(&self) -> Vec<String> {
        let path = self.path().to_str().unwrap().to_owned();
        let filters = HashMap::from([("volume", vec![path.as_str()])]);
        let all = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filters);
        let options = all.build();
        let docker = docker().await;
        for _ in 0..1200 {
            match docker.list_containers(Some(options.clone())).await {
                Ok(found) => return found.into_iter().map(|found| found.id.unwrap()).collect(),
                // Podman lists a container that is about to be removed as `stopped`, a state that Docker does not have.
                Err(bollard::errors::Error::JsonDataError { message, .. })
                    if message.contains("`stopped`") =>
                {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
        panic!("a container stays in the state `stopped`");
    }

    pub async fn containers(&self) -> usize {
        self.all().await.len()
    }

    /// Removes the containers, as another program might.
    pub async fn remove_all(&self) {
        let force = RemoveContainerOptionsBuilder::new().force(true).build();
        for _ in 0..1200 {
            let all = self.all().await;
            if all.is_empty() {
                return;
            }
            for id in all {
                // Podman refuses while a container is exiting.
                let _ = docker()
                    .await
                    .remove_container(&id, Some(force.clone()))
                    .await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("a container cannot be removed");
    }

    /// Waits until there are `count` containers.
    pub async fn comes_to(&self, count: usize) {
        for _ in 0..1200 {
            if self.containers().await == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} containers, expected {count}", self.containers().await);
    }
}

pub fn vector(words: &[&str]) -> CommandProgram {
    CommandProgram::Vector(words.iter().map(|word| (*word).to_owned()).collect())
}

/// The output of a command, as text.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(finished: &CommandOutput) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: finished.exit_code,
            out: text(&finished.stdout.bytes),
            err: text(&finished.stderr.bytes),
        }
    }
}

pub async fn comes(word: &str, is: bool) {
    for _ in 0..3000 {
        if runs(word) == is {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the existence of a process with `{word}` did not become {is}");
}
