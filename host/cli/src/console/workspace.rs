//! The workspace of a console: its settings, tools and rules, which are loaded again after a change.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::redact::{Redactor, Vault as _};
use mimir_core::{Pipeline, Policy, Registry, ToolError};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use mimir::cluster::ClusterMembership;
use mimir::settings::MergedSettings;
use mimir::setup::HostSetup;
use mimir::user_dirs::UserDirs;
use mimir::workspace::WorkspaceFolder;

/// Time after which the tools are loaded again, because a change was not noticed.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The settings, tools and rules of a workspace at one time.
pub struct LoadedWorkspace {
    /// The settings and stores.
    pub setup: HostSetup,
    /// The pipeline, which only explains calls.
    pub pipeline: Pipeline,
}

impl LoadedWorkspace {
    /// Returns the tools and rules.
    pub fn snapshot(&self) -> Arc<PipelineSnapshot> {
        self.pipeline.snapshot()
    }

    /// Returns a pipeline with the same tools and other rules, which only explains calls.
    pub fn with_policy(&self, policy: Policy) -> Pipeline {
        let policy = self.setup.skills().show_in(policy);
        let registry = copy(&self.snapshot().registry);
        let snapshot = PipelineSnapshot { registry, policy };
        self.setup.explaining_pipeline(snapshot)
    }

    /// Returns the redactor of all texts of a page.
    pub fn redactor(&self) -> Result<Redactor, ToolError> {
        let redactor = self.setup.vault.redactor();
        redactor.map_err(|error| {
            ToolError::unavailable(format!(
                "nothing is shown, because the secrets to mask cannot be read: {error}"
            ))
        })
    }

    /// Records an action of a person at the console.
    pub fn record(&self, event: &AuditEvent) {
        self.setup.record_event(event);
    }

    /// Creates the event of a change of settings or tools by a person at the console.
    pub fn change_event(subject: &str, detail: &str) -> AuditEvent {
        AuditEvent::new(EventKind::ConfigChange, SystemTime::now())
            .with_subject(subject)
            .with_detail(detail)
    }
}

fn copy(registry: &Registry) -> Registry {
    registry.map_tools(|tool| Some(Arc::clone(tool)))
}

/// The workspace of a console.
pub struct ConsoleWorkspace {
    folder: WorkspaceFolder,
    user_dirs: UserDirs,
    cluster: Option<Arc<ClusterMembership>>,
    loaded: AsyncMutex<Option<(WorkspaceStamp, Instant, Arc<LoadedWorkspace>)>>,
    changed: Mutex<bool>,
}

/// The state of the files that tools and rules depend on.
#[derive(Debug, PartialEq, Eq)]
struct WorkspaceStamp {
    settings: Vec<(String, String)>,
    files: Vec<Option<(SystemTime, u64)>>,
}

impl WorkspaceStamp {
    fn new(setup: &HostSetup) -> Self {
        let workspace = &setup.workspace;
        let mut paths = vec![workspace.lock(), workspace.tools()];
        paths.extend(setup.approvals().map(|store| store.path().to_owned()));
        Self {
            settings: setup.settings.digests(),
            files: paths.iter().map(|path| file_stamp(path)).collect(),
        }
    }
}

fn file_stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl ConsoleWorkspace {
    /// Creates a handle to the workspace of a setup. Reads nothing.
    pub fn new(setup: &HostSetup) -> Self {
        Self {
            folder: setup.workspace.clone(),
            user_dirs: setup.user_dirs.clone(),
            cluster: setup.cluster().cloned(),
            loaded: AsyncMutex::default(),
            changed: Mutex::default(),
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &WorkspaceFolder {
        &self.folder
    }

    /// Returns the folders of the user.
    pub fn user_dirs(&self) -> &UserDirs {
        &self.user_dirs
    }

    /// Reads the settings.
    pub async fn setup(&self) -> Result<HostSetup, ToolError> {
        let (folder, user_dirs) = (self.folder.clone(), self.user_dirs.clone());
        let cluster = self.cluster.clone();
        blocking(move || {
            let settings = MergedSettings::read(&user_dirs, &folder)?;
            let setup = HostSetup::from_parts(user_dirs, folder, settings);
            Ok(match cluster {
                Some(cluster) => setup.in_cluster(cluster),
                None => setup,
            })
        })
        .await
    }

    /// Returns the current settings, tools and rules.
    pub async fn load(&self) -> Result<Arc<LoadedWorkspace>, ToolError> {
        let setup = self.setup().await?;
        let stamp = WorkspaceStamp::new(&setup);
        let mut loaded = self.loaded.lock().await;
        let has_changed = std::mem::take(&mut *self.changed.lock());
        if let Some((known, at, workspace)) = &*loaded
            && *known == stamp
            && at.elapsed() < MAX_AGE
            && !has_changed
        {
            return Ok(Arc::clone(workspace));
        }
        let policy = setup.settings.policy()?;
        let registry = setup.known_registry().await.into_registry();
        let snapshot = PipelineSnapshot {
            registry,
            policy: setup.skills().show_in(policy),
        };
        let pipeline = setup.explaining_pipeline(snapshot);
        let workspace = Arc::new(LoadedWorkspace { setup, pipeline });
        *loaded = Some((stamp, Instant::now(), Arc::clone(&workspace)));
        Ok(workspace)
    }

    /// Returns the settings, tools and rules of the last request, which may have changed since.
    pub async fn recent(&self) -> Result<Arc<LoadedWorkspace>, ToolError> {
        let loaded = self.loaded.lock().await;
        let known = loaded.as_ref().map(|(.., workspace)| Arc::clone(workspace));
        drop(loaded);
        match known {
            Some(workspace) => Ok(workspace),
            None => self.load().await,
        }
    }

    /// Notes a change by this console, so that the next request loads the tools again.
    pub fn mark_changed(&self) {
        *self.changed.lock() = true;
    }
}

/// Runs a future that computes for long on a thread on which it may block, so that other tasks of the process go on.
pub async fn blocking_future<T, F>(
    create: impl FnOnce() -> F + Send + 'static,
) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ToolError>>,
{
    let runtime = tokio::runtime::Handle::current();
    blocking(move || runtime.block_on(create())).await
}

/// Runs a function that reads or writes files on a thread on which it may block.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ToolError::execution(error)),
    }
}
