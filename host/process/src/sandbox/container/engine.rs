//! Connection to a container engine: queries its properties, and kills and removes containers.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::ContainerSummaryStateEnum;
use bollard::query_parameters::{
    KillContainerOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::container_owner::{ContainerOwner, LABEL};
use super::engine_facts::ContainerEngineFacts;
use super::engine_states::{inspect_container, list_containers};
use super::set_id_bits::WritableFolders;
use crate::sandbox::SandboxError;

/// Seconds until a request to the engine times out. Starting a container on a slow disk can take several seconds.
const REQUEST_TIMEOUT_SECONDS: u64 = 30;

/// Time limit for querying the properties of an engine. Podman can take seconds on a busy machine.
pub(super) const FACTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit to remove a container.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of one removal request for a container that the engine may still be making. The request is repeated
/// afterwards.
const REMOVE_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Attempts to remove a container. The extra attempts apply if the creation request was never answered, since the
/// container may appear later. `RETRY_DELAY` is the pause between attempts.
const REMOVE_ATTEMPTS: u32 = 20;
const EXTRA_REMOVE_ATTEMPTS: u32 = 50;

/// Attempts to kill a container, and the pause between them: two seconds in total.
const KILL_ATTEMPTS: u32 = 20;
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Returns the user ID of the process that serves a socket, if the system reports it.
async fn server_uid(socket: &Path) -> Option<u32> {
    let stream = tokio::net::UnixStream::connect(socket).await.ok()?;
    Some(stream.peer_cred().ok()?.uid())
}

/// A container to be removed.
pub(super) enum DiscardedContainer {
    /// An existing container by ID, and the folders to check for set-ID files of its command.
    ById(String, Option<WritableFolders>),
    /// A container by name, which the engine may still be making.
    ByName(String),
}

impl DiscardedContainer {
    async fn remove(&self, docker: &Docker) {
        match self {
            Self::ById(id, _) => remove(docker, id, 0).await,
            Self::ByName(name) => {
                let _ = timeout(REMOVE_TIMEOUT, remove(docker, name, EXTRA_REMOVE_ATTEMPTS)).await;
            }
        }
    }

    fn clear_set_id_bits(&self) {
        if let Self::ById(_, Some(folders)) = self {
            folders.clear();
        }
    }
}

/// A container engine. Dropping it waits until all pending removals are complete.
pub(super) struct ContainerEngine {
    pub(super) docker: Docker,
    pub(super) facts: ContainerEngineFacts,
    /// Canonical path of the socket.
    pub(super) socket: PathBuf,
    /// Queue of containers to remove, and the thread that removes them.
    cleaner: Mutex<Option<(UnboundedSender<DiscardedContainer>, JoinHandle<()>)>>,
}

impl ContainerEngine {
    /// Connects to an engine. Fails if it does not answer a ping within `time_limit`.
    pub(super) async fn connect(socket: &Path, time_limit: Duration) -> Result<Self, String> {
        let name = socket.to_str().ok_or("its path is not valid UTF-8")?;
        let docker = Docker::connect_with_unix(name, REQUEST_TIMEOUT_SECONDS, API_DEFAULT_VERSION);
        let docker = docker.map_err(error_text)?;
        let no_answer = || "it does not answer".to_owned();
        let pong = timeout(time_limit, docker.ping()).await;
        pong.map_err(|_| no_answer())?.map_err(error_text)?;
        let negotiate = async {
            let docker = docker.negotiate_version().await?;
            let facts = ContainerEngineFacts::new(&docker.info().await?, &docker.version().await?);
            Ok((docker, facts))
        };
        let (docker, mut facts) = match timeout(FACTS_TIMEOUT, negotiate).await {
            Ok(answer) => answer.map_err(error_text)?,
            Err(_) => return Err(no_answer()),
        };
        facts.set_server_user(server_uid(socket).await);
        Ok(Self {
            docker,
            facts,
            socket: socket.canonicalize().unwrap_or_else(|_| socket.to_owned()),
            cleaner: Mutex::new(None),
        })
    }

    pub(super) async fn has_image(&self, image: &str) -> Result<(), SandboxError> {
        match self.docker.inspect_image(image).await {
            Ok(_) => Ok(()),
            Err(error) if status(&error) == Some(404) => Err(self.no_image(image)),
            Err(error) => Err(fault("to report whether an image exists")(error)),
        }
    }

    pub(super) fn no_image(&self, image: &str) -> SandboxError {
        let program = if self.facts.podman {
            "podman"
        } else {
            "docker"
        };
        // The name of an image with this ID is not known here.
        let name = if image.starts_with("sha256:") {
            "NAME"
        } else {
            image
        };
        SandboxError::NoImage {
            pull: format!("{program} pull {name}"),
            image: image.to_owned(),
        }
    }

    /// Kills all processes of a container, and waits until it has ended. Succeeds if the container does not exist.
    pub(super) async fn kill(&self, id: &str) -> Result<(), SandboxError> {
        let mut attempts = 0;
        loop {
            let options = None::<KillContainerOptions>;
            let error = match self.docker.kill_container(id, options).await {
                Ok(()) => return Ok(()),
                Err(error) if matches!(status(&error), Some(404 | 409)) => return Ok(()),
                Err(error) => error,
            };
            // Podman fails if the container has already ended, and may still report a container as running that has
            // just ended.
            if error
                .to_string()
                .contains("can only kill running containers")
            {
                return Ok(());
            }
            match self.runs(id).await {
                Ok(false) => return Ok(()),
                Ok(true) if attempts < KILL_ATTEMPTS => attempts += 1,
                _ => return Err(fault("to end a container")(error)),
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Returns true if a container exists and runs.
    async fn runs(&self, id: &str) -> Result<bool, Error> {
        match inspect_container(&self.docker, id).await {
            Ok(container) => Ok(container
                .state
                .is_none_or(|state| state.running != Some(false))),
            Err(error) if status(&error) == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if a process of an ended container was killed for running out of memory.
    pub(super) async fn out_of_memory(&self, id: &str) -> bool {
        let container = inspect_container(&self.docker, id).await;
        let state = container.ok().and_then(|container| container.state);
        state.is_some_and(|state| state.oom_killed == Some(true))
    }

    /// Queues the containers of mimir processes that have ended for removal.
    pub(super) async fn sweep(&self) {
        let labels = HashMap::from([("label", vec![LABEL])]);
        let all = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&labels);
        let containers = match list_containers(&self.docker, all.build()).await {
            Ok(containers) => containers,
            Err(error) => {
                return tracing::debug!(%error, "left containers were not searched for");
            }
        };
        let own = ContainerOwner::this_process();
        let abandoned = containers.into_iter().filter(|container| {
            let runs = matches!(
                container.state,
                Some(ContainerSummaryStateEnum::RUNNING | ContainerSummaryStateEnum::PAUSED)
            );
            let label = container.labels.as_ref().and_then(|all| all.get(LABEL));
            label.is_some_and(|label| own.is_abandoned(label, runs))
        });
        for id in abandoned.filter_map(|container| container.id) {
            self.discard(DiscardedContainer::ById(id, None));
        }
    }

    /// Queues a container for removal on a separate thread, since the caller may be unable to wait. Afterwards, clears
    /// set-ID bits in its command's writable folders.
    pub(super) fn discard(&self, container: DiscardedContainer) {
        let mut cleaner = self.cleaner.lock();
        if cleaner.is_none() {
            let (queue, done) = unbounded_channel();
            let docker = self.docker.clone();
            let thread = std::thread::Builder::new()
                .name("mimir-containers".to_owned())
                .spawn(move || remove_queued(&docker, done));
            *cleaner = thread.ok().map(|thread| (queue, thread));
        }
        if let Some((queue, _)) = &*cleaner {
            // If the thread has ended, the next start of mimir removes the container.
            let _ = queue.send(container);
        }
    }
}

impl Drop for ContainerEngine {
    fn drop(&mut self) {
        let cleaner = self.cleaner.get_mut();
        if let Some((queue, thread)) = cleaner.take() {
            drop(queue);
            let join = move || {
                let _ = thread.join();
            };
            // In a multi-threaded runtime, other tasks move to another thread meanwhile.
            match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
                Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(join),
                _ => join(),
            }
        }
    }
}

/// Removes queued containers concurrently, so that a slow removal does not delay the others.
fn remove_queued(docker: &Docker, mut queue: UnboundedReceiver<DiscardedContainer>) {
    let Ok(runtime) = runtime() else {
        return;
    };
    runtime.block_on(async {
        let mut removals = JoinSet::new();
        loop {
            tokio::select! {
                next = queue.recv() => {
                    let Some(container) = next else { break };
                    let docker = docker.clone();
                    removals.spawn(async move {
                        container.remove(&docker).await;
                        container.clear_set_id_bits();
                    });
                }
                Some(_) = removals.join_next() => {}
            }
        }
        while removals.join_next().await.is_some() {}
    });
}

/// Removes a container. If it does not exist yet, retries up to `extra_attempts` times.
async fn remove(docker: &Docker, id: &str, extra_attempts: u32) {
    let all = RemoveContainerOptionsBuilder::new()
        .force(true)
        .v(true)
        .build();
    // An engine refuses while it is making or ending the container, and Podman reports that in many ways.
    let mut missed = 0;
    let time_limit = if extra_attempts > 0 {
        REMOVE_REQUEST_TIMEOUT
    } else {
        REMOVE_TIMEOUT
    };
    for _ in 0..REMOVE_ATTEMPTS + extra_attempts {
        // Podman would remove the files of a container that it is still making, report success, and keep a record that
        // makes it fail to list containers.
        if extra_attempts > 0 {
            let found = timeout(time_limit, inspect_container(docker, id)).await;
            if let Ok(Err(error)) = found
                && status(&error) == Some(404)
            {
                missed += 1;
                if missed > extra_attempts {
                    return;
                }
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        }
        let removed = timeout(time_limit, docker.remove_container(id, Some(all.clone()))).await;
        match removed {
            Ok(Ok(())) => return,
            Err(_) if extra_attempts == 0 => return,
            Err(_) => {}
            Ok(Err(error)) => {
                let code = status(&error);
                if code != Some(404) {
                    tracing::debug!(container = id, %error, "a container was not removed");
                }
                missed += u32::from(code == Some(404));
                // Without a status, the connection has failed, and another attempt would fail too.
                if code.is_none() || missed > extra_attempts {
                    return;
                }
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Runs a future to completion on a separate thread, for callers that cannot await.
pub(super) fn block_on_thread<T: Send>(work: impl Future<Output = T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .spawn_scoped(scope, || runtime().map(|runtime| runtime.block_on(work)))?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

/// Returns the HTTP status of an error response of the engine.
pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Describes an error, with the engine's own message if available.
pub(super) fn error_text(error: Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message,
        Error::RequestTimeoutError => "it does not answer".to_owned(),
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(&other);
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text = format!("{text}: {cause_text}");
                }
                source = cause.source();
            }
            text
        }
    }
}

pub(super) fn fault(doing: &'static str) -> impl Fn(Error) -> SandboxError {
    move |error| SandboxError::Engine {
        doing,
        why: error_text(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::super::fake;
    use super::*;

    /// Starts a fake engine that reports its properties, and then does not answer removal requests for three seconds.
    fn start_hanging_engine(at: &Path) {
        fake::engine(at, |method, _| {
            if method == "DELETE" {
                std::thread::sleep(Duration::from_secs(3));
                return None;
            }
            Some(fake::PROPERTIES)
        });
    }

    /// Starts a fake engine that has no container `never`, does not answer the first removal request for `late`, and
    /// sends the names of removed containers.
    fn start_slow_engine(at: &Path) -> Receiver<String> {
        let (removed, names) = channel();
        let was_requested = AtomicBool::new(false);
        fake::engine(at, move |method, path| {
            let mut parts = path.split(['/', '?']);
            parts.find(|part| *part == "containers");
            let name = parts.next().unwrap_or_default();
            match name {
                "never" => Some(("404 Not Found", r#"{"message": "none"}"#)),
                "late" if !was_requested.swap(true, Ordering::SeqCst) => {
                    std::thread::sleep(Duration::from_secs(8));
                    None
                }
                _ if method == "DELETE" => {
                    let _ = removed.send(name.to_owned());
                    Some(("204 No Content", ""))
                }
                _ => Some(fake::PROPERTIES),
            }
        });
        names
    }

    #[test]
    fn discard_retries_a_late_container_and_is_not_blocked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let removed = start_slow_engine(&socket);
        let engine = block_on_thread(ContainerEngine::connect(&socket, FACTS_TIMEOUT))
            .unwrap()
            .unwrap();
        let begun = std::time::Instant::now();
        engine.discard(DiscardedContainer::ByName("never".to_owned()));
        engine.discard(DiscardedContainer::ByName("late".to_owned()));
        // Waits until the first removals have begun.
        std::thread::sleep(RETRY_DELAY);
        engine.discard(DiscardedContainer::ById("made".to_owned(), None));
        assert_eq!(removed.recv().unwrap(), "made");
        assert_eq!(removed.recv_timeout(REMOVE_TIMEOUT).unwrap(), "late");
        drop(engine);
        assert!(begun.elapsed() < REMOVE_TIMEOUT + Duration::from_secs(30));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn sweep_removes_ended_containers_in_a_state_of_podman() {
        // No process has this ID.
        let own = ContainerOwner::this_process().label();
        let place: Vec<_> = own.split(' ').take(2).collect();
        let left = format!("{} {} 1", place.join(" "), u32::MAX);
        let listed = format!(
            r#"[{{"Id": "own", "State": "running", "Labels": {{"{LABEL}": "{own}"}}}},
            {{"Id": "left", "State": "stopped", "Labels": {{"{LABEL}": "{left}"}}}}]"#
        );
        let listed: &'static str = listed.leak();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let (removed, names) = channel();
        fake::engine(&socket, move |method, path| {
            if method == "DELETE" {
                let _ = removed.send(path.to_owned());
                return Some(("204 No Content", ""));
            }
            let is_list = path.contains("/containers/json");
            Some(if is_list {
                ("200 OK", listed)
            } else {
                fake::PROPERTIES
            })
        });
        let engine = block_on_thread(ContainerEngine::connect(&socket, FACTS_TIMEOUT))
            .unwrap()
            .unwrap();
        block_on_thread(engine.sweep()).unwrap();
        // Waits for the removals.
        drop(engine);
        let names: Vec<_> = names.try_iter().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names[0].contains("/containers/left?"), "{names:?}");
    }

    #[test]
    fn engine_drop_does_not_block_tasks_of_its_thread() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        start_hanging_engine(&socket);
        let shared = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (other_delay, drop_delay) = shared.block_on(async {
            let engine = ContainerEngine::connect(&socket, FACTS_TIMEOUT)
                .await
                .unwrap();
            engine.discard(DiscardedContainer::ById("x".to_owned(), None));
            let begun = std::time::Instant::now();
            let drop_task = tokio::spawn(async move { drop(engine) });
            tokio::time::sleep(Duration::from_millis(50)).await;
            let other = tokio::spawn(async { std::time::Instant::now() });
            let other_delay = other.await.unwrap().duration_since(begun);
            drop_task.await.unwrap();
            (other_delay, begun.elapsed())
        });
        assert!(other_delay < drop_delay, "{other_delay:?}");
        assert!(
            drop_delay > Duration::from_secs(2),
            "the drop did not wait for the removal: {drop_delay:?}"
        );
    }
}
