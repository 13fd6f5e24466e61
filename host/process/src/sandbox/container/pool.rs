//! Life cycle of containers, including the prepared container for the next command.
//!
//! One container is prepared in the background, and used once. The first is prepared after the second command has
//! ended: for a single tool call in a terminal, it would be wasted.
//!
//! Containers are never returned to the pool.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, StartContainerOptions,
};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::blueprint::ContainerBlueprint;
use super::engine::{ContainerEngine, DiscardedContainer, fault, status};
use super::exec::{ContainerCommand, PreparedExec};
use super::set_id_bits::WritableFolders;
use crate::sandbox::{FileIdentity, SandboxChild, SandboxError};

/// Time after which an unused container is removed. After such a pause, an agent is unlikely to run a command soon.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit for finding containers of ended processes before the first command.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(5);

/// The next container is prepared in advance from this command on.
const PREPARE_FROM_COMMAND: u32 = 2;

/// Maximum attempts to make a container whose mounts are being replaced.
const MAX_ATTEMPTS: u32 = 3;

/// Builds the blueprint for a command. Called for each command, since protected paths may change in between.
pub(super) type BlueprintFactory =
    Arc<dyn Fn() -> Result<ContainerBlueprint, SandboxError> + Send + Sync>;

/// A running container with only the waiting first process. Dropping it removes the container with all processes.
pub(super) struct PooledContainer {
    pub(super) id: String,
    image: String,
    pub(super) engine: Arc<ContainerEngine>,
    /// Folders to check for set-ID files of the command.
    writable_folders: Option<WritableFolders>,
    /// Connection to the container's standard input. The container ends when it closes, including when this process
    /// ends.
    _stdin: Option<Mutex<AttachContainerResults>>,
}

impl PooledContainer {
    async fn make(
        engine: Arc<ContainerEngine>,
        blueprint: ContainerBlueprint,
    ) -> Result<Self, SandboxError> {
        // A separate task: if the caller is cancelled, the container is still registered for removal.
        let task = tokio::spawn(async move {
            let image = blueprint.body.image.clone().unwrap_or_default();
            let pending = PendingContainer::new(Arc::clone(&engine));
            let options = CreateContainerOptionsBuilder::new().name(&pending.name);
            let made = engine
                .docker
                .create_container(Some(options.build()), blueprint.body)
                .await;
            if made
                .as_ref()
                .err()
                .is_none_or(|error| status(error).is_some())
            {
                pending.disarm();
            }
            let made = made.map_err(|error| match status(&error) {
                Some(404) => engine.no_image(&image),
                _ => fault("to make a container")(error),
            })?;
            let mut container = Self {
                id: made.id,
                image,
                engine,
                writable_folders: None,
                _stdin: None,
            };
            container.begin().await?;
            Ok(container)
        });
        task.await.unwrap_or_else(|error| {
            Err(SandboxError::Engine {
                doing: "to make a container",
                why: error.to_string(),
            })
        })
    }

    async fn begin(&mut self) -> Result<(), SandboxError> {
        let input = AttachContainerOptionsBuilder::new()
            .stream(true)
            .stdin(true);
        let docker = &self.engine.docker;
        let stdin = docker.attach_container(&self.id, Some(input.build())).await;
        let stdin = stdin.map_err(|error| self.fault("to attach to a container", error))?;
        self._stdin = Some(Mutex::new(stdin));
        let begun = docker
            .start_container(&self.id, None::<StartContainerOptions>)
            .await;
        begun.map_err(|error| self.fault("to start a container", error))
    }

    /// Records that a command is about to run in the container.
    fn mark_used(mut self, blueprint: &ContainerBlueprint) -> Self {
        self.writable_folders = Some(WritableFolders::for_command_in(blueprint));
        self
    }

    /// Converts an engine error. Some engines already try to run the first process when a client attaches.
    fn fault(&self, doing: &'static str, error: Error) -> SandboxError {
        match fault(doing)(error) {
            SandboxError::Engine { why, .. } if why.contains("executable file not found") => {
                self.bad_image()
            }
            other => other,
        }
    }

    /// Returns the error for an image without the programs of the waiting process.
    pub(super) fn bad_image(&self) -> SandboxError {
        SandboxError::BadImage {
            image: self.image.clone(),
            why: "commands in containers need `sh` and `cat`, which it does not contain".to_owned(),
        }
    }
}

impl Drop for PooledContainer {
    fn drop(&mut self) {
        let id = std::mem::take(&mut self.id);
        self.engine
            .discard(DiscardedContainer::ById(id, self.writable_folders.take()));
    }
}

/// A requested container. If this is dropped before the engine has answered, for example because mimir exits, the
/// container is removed by its name.
struct PendingContainer {
    name: String,
    engine: Arc<ContainerEngine>,
}

impl PendingContainer {
    fn new(engine: Arc<ContainerEngine>) -> Self {
        let random = || RandomState::new().build_hasher().finish();
        let name = format!("mimir-{:016x}{:016x}", random(), random());
        Self { name, engine }
    }

    fn disarm(mut self) {
        self.name.clear();
    }
}

impl Drop for PendingContainer {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let name = std::mem::take(&mut self.name);
            self.engine.discard(DiscardedContainer::ByName(name));
        }
    }
}

/// A prepared container with its blueprint.
struct IdleContainer {
    blueprint: ContainerBlueprint,
    container: PooledContainer,
}

/// Containers of a sandbox.
pub(super) struct ContainerPool {
    ready: Mutex<Option<IdleContainer>>,
    /// Locked while a container is prepared, so that only one is prepared at a time.
    making: Arc<tokio::sync::Mutex<()>>,
    begun: AtomicU32,
    swept: OnceCell<()>,
    /// Declared after `ready`, since dropping the engine waits for the removal of prepared containers.
    engine: Arc<ContainerEngine>,
}

impl ContainerPool {
    pub(super) fn new(engine: ContainerEngine) -> Self {
        Self {
            ready: Mutex::new(None),
            making: Arc::default(),
            begun: AtomicU32::new(0),
            swept: OnceCell::new(),
            engine: Arc::new(engine),
        }
    }

    pub(super) fn engine(&self) -> &ContainerEngine {
        &self.engine
    }

    /// Runs a command in a container built by `plan`. After the command, `plan` also builds the container for the next
    /// one.
    pub(super) async fn run(
        self: &Arc<Self>,
        plan: BlueprintFactory,
        command: ContainerCommand,
    ) -> Result<SandboxChild, SandboxError> {
        let sweep = || async {
            let _ = tokio::time::timeout(SWEEP_TIMEOUT, self.engine.sweep()).await;
        };
        self.swept.get_or_init(sweep).await;
        let count = self.begun.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut attempts = 0;
        let (prepared, covered) = loop {
            attempts += 1;
            match self.prepare(&plan, &command).await {
                // The program that was moving files may have finished by now.
                Err(SandboxError::Replaced(path)) if attempts < MAX_ATTEMPTS => {
                    tracing::debug!(path = %path.display(), "a mount was replaced; making another container");
                }
                prepared => break prepared?,
            }
        };
        let pool = Arc::downgrade(self);
        let on_end = move || {
            if count >= PREPARE_FROM_COMMAND {
                tokio::spawn(refill_pool(pool, plan));
            }
        };
        let child = prepared.begin(on_end).await?;
        Ok(SandboxChild {
            masked: covered,
            ..child
        })
    }

    /// Prepares a command in a container. Also returns the files protected at that time.
    async fn prepare(
        &self,
        plan: &BlueprintFactory,
        command: &ContainerCommand,
    ) -> Result<(PreparedExec, Vec<FileIdentity>), SandboxError> {
        let blueprint = make_blueprint(plan).await?;
        let covered = blueprint.covered();
        if let Some(container) = self.take(&blueprint) {
            let container = container.mark_used(&blueprint);
            match command.prepare(container, &blueprint).await {
                Ok(prepared) => return Ok((prepared, covered)),
                // The container may have ended, as after a restart of the engine. With any other cause, a new container
                // fails as well.
                Err(fault) => tracing::debug!(%fault, "the prepared container cannot be used"),
            }
        }
        let container = PooledContainer::make(Arc::clone(&self.engine), blueprint.clone()).await?;
        let container = container.mark_used(&blueprint);
        Ok((command.prepare(container, &blueprint).await?, covered))
    }

    /// Returns the prepared container if it matches the blueprint, and removes it otherwise.
    fn take(&self, blueprint: &ContainerBlueprint) -> Option<PooledContainer> {
        let ready = self.ready.lock().take()?;
        (ready.blueprint == *blueprint).then_some(ready.container)
    }
}

/// Builds the blueprint on a blocking thread, since it searches the workspace.
async fn make_blueprint(plan: &BlueprintFactory) -> Result<ContainerBlueprint, SandboxError> {
    let plan = Arc::clone(plan);
    let blueprint = tokio::task::spawn_blocking(move || plan()).await;
    blueprint.map_err(|error| SandboxError::Io {
        doing: "cannot search the workspace",
        error: error.into(),
    })?
}

/// Prepares a container for the next command, unless a matching one is ready.
async fn refill_pool(pool: Weak<ContainerPool>, plan: BlueprintFactory) {
    let Ok(blueprint) = make_blueprint(&plan).await else {
        return;
    };
    let Some(strong) = pool.upgrade() else {
        return;
    };
    let is_ready = strong
        .ready
        .lock()
        .as_ref()
        .is_some_and(|ready| ready.blueprint == blueprint);
    if is_ready || !blueprint.can_verify_mounts() {
        return;
    }
    let Ok(turn) = Arc::clone(&strong.making).try_lock_owned() else {
        return;
    };
    let engine = Arc::clone(&strong.engine);
    drop(strong);
    let made = PooledContainer::make(engine, blueprint.clone()).await;
    let Some(strong) = pool.upgrade() else {
        return;
    };
    let container = match made {
        Ok(container) => container,
        Err(fault) => {
            return tracing::debug!(%fault, "the container for the next command was not prepared");
        }
    };
    drop(turn);
    let id = container.id.clone();
    let replaced = strong.ready.lock().replace(IdleContainer {
        blueprint,
        container,
    });
    drop(replaced);
    drop(strong);
    tokio::time::sleep(IDLE_TIMEOUT).await;
    if let Some(strong) = pool.upgrade() {
        let mut ready = strong.ready.lock();
        if ready.as_ref().is_some_and(|ready| ready.container.id == id) {
            *ready = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use mimir_core::command::CommandProgram;
    use tokio::runtime::Builder;

    use super::super::engine::FACTS_TIMEOUT;
    use super::super::engine_facts::ContainerEngineFacts;
    use super::super::fake;
    use super::*;
    use crate::sandbox::CommandSpec;

    /// Time that the fake engine needs to make a container.
    const MAKING: Duration = Duration::from_millis(600);

    /// Requests to the fake engine.
    #[derive(Default)]
    struct EngineRequests {
        requested: AtomicBool,
        made: Mutex<Vec<String>>,
        removed: Mutex<Vec<String>>,
        removed_too_early: AtomicBool,
    }

    /// Starts a fake engine that makes containers slowly, and completes each even if the client has disconnected.
    fn start_slow_engine(at: &Path, requests: &Arc<EngineRequests>) {
        let requests = Arc::clone(requests);
        fake::engine(at, move |method, path| match method {
            "POST" if path.contains("/containers/create") => {
                let (_, name) = path.split_once("name=").unwrap();
                let name = name.split('&').next().unwrap();
                requests.requested.store(true, Ordering::Relaxed);
                std::thread::sleep(MAKING);
                requests.made.lock().push(name.to_owned());
                Some(("201 Created", r#"{"Id": "a", "Warnings": []}"#))
            }
            _ if path.contains("/containers/mimir-") => {
                let made = requests.made.lock();
                let hit = made.iter().find(|name| path.contains(name.as_str()));
                if method == "DELETE" {
                    requests.removed.lock().extend(hit.cloned());
                    let early = &requests.removed_too_early;
                    early.fetch_or(hit.is_none(), Ordering::Relaxed);
                }
                Some(match hit {
                    Some(_) => ("200 OK", "{}"),
                    None => ("404 Not Found", r#"{"message": "no such container"}"#),
                })
            }
            _ => Some(fake::PROPERTIES),
        });
    }

    #[test]
    fn container_created_during_shutdown_is_removed() {
        for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let folder = tempfile::tempdir().unwrap();
            let (socket, requests) = (folder.path().join("s"), Arc::<EngineRequests>::default());
            start_slow_engine(&socket, &requests);
            let runtime = runtime.enable_all().build().unwrap();
            let workspace = folder.path().canonicalize().unwrap().join("work");
            std::fs::create_dir(&workspace).unwrap();
            let spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace);
            let blueprint =
                ContainerBlueprint::new("x", &ContainerEngineFacts::all(), &spec).unwrap();
            runtime.block_on(async {
                let engine = ContainerEngine::connect(&socket, FACTS_TIMEOUT)
                    .await
                    .unwrap();
                tokio::spawn(PooledContainer::make(Arc::new(engine), blueprint));
                while !requests.requested.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
            drop(runtime);
            // The program could exit here.
            let removed = requests.removed.lock();
            assert_eq!((removed.len(), &*removed), (1, &*requests.made.lock()));
            assert!(
                !requests.removed_too_early.load(Ordering::Relaxed),
                "Podman removes only a part of a container that it is making"
            );
        }
    }
}
