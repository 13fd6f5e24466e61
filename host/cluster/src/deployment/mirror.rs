//! The copy of a deployment in a folder of a node.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::shared_state::{
    SharedStateHandle, StateArea, StateChange, StateRevision, StateWatch,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{
    DeployedFile, Deployment, DeploymentError, DeploymentInForce, DeploymentManifest, Deployments,
    NodeCondition, deployment_key, in_force_key, parse,
};
use crate::connection::ClusterConnection;
use crate::objects::{ComponentStore, object_digest};

/// File with the manifest of the copy.
const STATE_FILE: &str = "deployment.json";

/// File that a process locks while it changes the folder of the copy, which processes of one user share.
const LOCK_FILE: &str = "deployment.lock";

/// Time limit for the lock, and the pause between attempts.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Folder of the files in the folder of the copy, named as in a workspace.
const FILES: &str = ".mimir";

/// Folder in which the files of the next deployment are collected.
const NEXT_FILES: &str = "next";

/// Interval at which a node reports the deployment in force, and the lifetime of a report.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
const REPORT_LIFETIME: Duration = Duration::from_secs(12);

/// Pause before a deployment is copied again that could not be copied.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Stores the decisions that come with a deployment: grants and accepted settings.
pub type DecisionWriter = Arc<dyn Fn(&DeploymentManifest) -> Result<(), String> + Send + Sync>;

/// Returns the current id of this node.
pub type NodeIdSource = Arc<dyn Fn() -> String + Send + Sync>;

/// The node in whose name a mirror reports.
#[derive(Clone)]
struct ReportingNode {
    id: NodeIdSource,
    condition: watch::Receiver<NodeCondition>,
}

/// A change of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorChange {
    /// No deployment is published, so the node uses its own files.
    NotPublished,
    /// This revision is in the folder.
    InForce {
        /// The revision.
        revision: StateRevision,
        /// The description.
        manifest: Arc<DeploymentManifest>,
    },
    /// A newer revision could not be copied. The previous one, if any, stays in the folder.
    Failed(String),
}

/// The manifest of the copy, as it is stored.
#[derive(Serialize, Deserialize)]
struct CopiedDeployment {
    revision: StateRevision,
    manifest: DeploymentManifest,
}

/// The copy of a workspace's deployment in a folder of this node, which follows each publication.
pub struct DeploymentMirror {
    folder: PathBuf,
    changes: watch::Receiver<MirrorChange>,
    node: watch::Sender<Option<ReportingNode>>,
}

impl DeploymentMirror {
    /// Copies the current deployment into `folder`, and later ones from then on. Returns when the current one is in the
    /// folder. The folder must belong to mirrors of this workspace alone: other files in it are deleted.
    pub async fn start(
        connection: ClusterConnection,
        state: SharedStateHandle,
        workspace: &str,
        folder: PathBuf,
        decisions: DecisionWriter,
    ) -> Result<Self, DeploymentError> {
        let runtime = connection.runtime().clone();
        let store = ComponentStore::new(connection);
        let copy = MirrorTask {
            deployments: Deployments::new(Arc::clone(&state), store),
            state,
            workspace: workspace.to_owned(),
            files: folder.join(FILES),
            folder: folder.clone(),
            decisions,
        };
        let events = copy.state.watch(StateArea::Deployment).await?;
        let first = match copy.deployments.current(workspace).await? {
            Some(deployment) => copy.apply(&deployment).await?,
            None => MirrorChange::NotPublished,
        };
        let (sender, changes) = watch::channel(first);
        let (node, reported) = watch::channel(None);
        let reports = sender.subscribe();
        runtime.spawn(async move {
            tokio::select! {
                () = copy.follow(events, &sender) => {}
                () = report(&copy.state, &copy.workspace, reports, reported) => {}
            }
        });
        Ok(Self {
            folder,
            changes,
            node,
        })
    }

    /// Returns the folder whose `.mimir` is the copy, or `None` if no deployment is published.
    pub fn root(&self) -> Option<&Path> {
        match &*self.changes.borrow() {
            MirrorChange::NotPublished => None,
            _ => Some(&self.folder),
        }
    }

    /// Returns a receiver of the changes.
    pub fn changes(&self) -> watch::Receiver<MirrorChange> {
        self.changes.clone()
    }

    /// Reports the deployment in force and the condition of the node under its id from now on.
    pub fn report_as(&self, id: NodeIdSource, condition: watch::Receiver<NodeCondition>) {
        self.node
            .send_replace(Some(ReportingNode { id, condition }));
    }
}

struct MirrorTask {
    deployments: Deployments,
    state: SharedStateHandle,
    workspace: String,
    folder: PathBuf,
    files: PathBuf,
    decisions: DecisionWriter,
}

impl MirrorTask {
    async fn follow(&self, mut events: Box<dyn StateWatch>, sender: &watch::Sender<MirrorChange>) {
        let key = deployment_key(&self.workspace);
        // A failed copy is tried again until a newer deployment replaces it.
        let mut failed: Option<Deployment> = None;
        loop {
            let event = if failed.is_some() {
                tokio::time::timeout(RETRY_DELAY, events.next()).await.ok()
            } else {
                Some(events.next().await)
            };
            let deployment = match event {
                None => failed.take(),
                Some(None) => return,
                Some(Some(StateChange::Set(entry))) if entry.key == key => {
                    match parse(&entry.value, entry.revision) {
                        Ok(deployment) => Some(deployment),
                        Err(error) => {
                            failed = None;
                            sender.send_replace(MirrorChange::Failed(error.to_string()));
                            None
                        }
                    }
                }
                Some(Some(_)) => None,
            };
            let Some(deployment) = deployment else {
                continue;
            };
            let is_known = matches!(
                &*sender.borrow(),
                MirrorChange::InForce { revision, .. } if *revision >= deployment.revision
            );
            if is_known {
                continue;
            }
            match self.apply(&deployment).await {
                Ok(change) => {
                    failed = None;
                    if let MirrorChange::Failed(_) = sender.send_replace(change) {
                        tracing::warn!("cluster: deployment {} is used now", deployment.revision);
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        "cluster: deployment {} is not used: {error}",
                        deployment.revision
                    );
                    sender.send_replace(MirrorChange::Failed(error.to_string()));
                    failed = Some(deployment);
                }
            }
        }
    }

    /// Makes the folder a copy of a deployment, or of a newer one that was published since. All files change at the same
    /// time, so that no process reads some of the old ones and some of the new ones.
    async fn apply(&self, deployment: &Deployment) -> Result<MirrorChange, DeploymentError> {
        create_folder(&self.folder)?;
        let _lock = lock_folder(&self.folder).await?;
        // Another process may have copied a newer one while this one waited for the lock, which must stay.
        let current = self.deployments.current(&self.workspace).await?;
        let newer = current.filter(|current| current.revision > deployment.revision);
        let deployment = newer.as_ref().unwrap_or(deployment);
        let manifest = &deployment.manifest;
        let in_force = MirrorChange::InForce {
            revision: deployment.revision,
            manifest: Arc::new(manifest.clone()),
        };
        if self.is_copied(deployment) {
            (self.decisions)(manifest).map_err(DeploymentError::Decisions)?;
            return Ok(in_force);
        }
        // Left there by an attempt that failed, which goes on.
        let next = self.folder.join(NEXT_FILES);
        create_folder(&next)?;
        let files = manifest.files.iter();
        let wanted = files.map(|file| path_below(&next, &file.path));
        remove_others(&next, &wanted.collect())?;
        for file in &manifest.files {
            let path = path_below(&next, &file.path);
            let is_wanted = |path: &Path| is_copy_of(path, file);
            if !is_wanted(&path) {
                if path.is_dir() {
                    std::fs::remove_dir(&path).map_err(|error| file_error(&path, error))?;
                }
                if let Some(folder) = path.parent() {
                    create_folder(folder)?;
                }
                let current = path_below(&self.files, &file.path);
                if is_wanted(&current) {
                    // A link, so that the metadata of an unchanged file stays the same.
                    link_file(&current, &path).map_err(|error| file_error(&path, error))?;
                } else {
                    self.deployments.store.get_file(&file.sha256, &path).await?;
                    if file.executable {
                        make_executable(&path).map_err(|error| file_error(&path, error))?;
                    }
                }
            }
        }
        replace_folder(&next, &self.files).map_err(|error| file_error(&self.files, error))?;
        (self.decisions)(manifest).map_err(DeploymentError::Decisions)?;
        let copied = CopiedDeployment {
            revision: deployment.revision,
            manifest: manifest.clone(),
        };
        let state = self.folder.join(STATE_FILE);
        let text = serde_json::to_vec(&copied)
            .map_err(|error| DeploymentError::Invalid(error.to_string()))?;
        std::fs::write(&state, text).map_err(|error| file_error(&state, error))?;
        Ok(in_force)
    }

    /// Returns true if the folder is a copy of this deployment already, such as by another process.
    fn is_copied(&self, deployment: &Deployment) -> bool {
        let manifest = &deployment.manifest;
        let stored = std::fs::read(self.folder.join(STATE_FILE)).ok();
        let stored = stored.and_then(|text| serde_json::from_slice::<CopiedDeployment>(&text).ok());
        stored.is_some_and(|stored| {
            stored.revision == deployment.revision && stored.manifest == *manifest
        }) && count_files(&self.files).is_ok_and(|count| count == manifest.files.len())
            && manifest
                .files
                .iter()
                .all(|file| is_copy_of(&path_below(&self.files, &file.path), file))
    }
}

/// Locks the folder of a copy, for as long as the returned file is open. The file contains the id of the process.
async fn lock_folder(folder: &Path) -> Result<File, DeploymentError> {
    let path = folder.join(LOCK_FILE);
    let failed = |error| file_error(&path, error);
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    let mut file = options.open(&path).map_err(failed)?;
    let deadline = tokio::time::Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => {
                // For the message below.
                let _ = file.set_len(0);
                let _ = write!(file, "{}", std::process::id());
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOCK_INTERVAL).await;
            }
            Err(TryLockError::WouldBlock) => {
                let mut id = String::new();
                let _ = file.read_to_string(&mut id);
                let process = match id.parse::<u32>() {
                    Ok(id) => format!("process {id}"),
                    Err(_) => "another process".to_owned(),
                };
                let message = format!(
                    "{process} has been copying a deployment for more than {} s: if its connection is slow, wait for it, else end it",
                    LOCK_TIMEOUT.as_secs()
                );
                return Err(failed(std::io::Error::other(message)));
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// Returns the number of files below a folder.
fn count_files(folder: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        count += match entry.file_type()?.is_dir() {
            true => count_files(&entry.path())?,
            false => 1,
        };
    }
    Ok(count)
}

/// Returns the path of a file of a deployment below a folder.
fn path_below(folder: &Path, relative: &str) -> PathBuf {
    let mut path = folder.to_owned();
    path.extend(relative.split('/'));
    path
}

/// Links a file to another path, or copies it if the file system has no links.
fn link_file(file: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::hard_link(file, to).or_else(|_| std::fs::copy(file, to).map(drop))
}

/// Puts the folder `next` in the place of `folder`, whose content is deleted.
fn replace_folder(next: &Path, folder: &Path) -> std::io::Result<()> {
    if folder.symlink_metadata().is_err() {
        return std::fs::rename(next, folder);
    }
    if !exchange_folders(next, folder) {
        // Not at once, but as nearly as this platform or file system can.
        let old = next.with_extension("old");
        if old.symlink_metadata().is_ok() {
            std::fs::remove_dir_all(&old)?;
        }
        std::fs::rename(folder, &old)?;
        std::fs::rename(next, folder)?;
        return std::fs::remove_dir_all(&old);
    }
    std::fs::remove_dir_all(next)
}

/// Exchanges two folders at once. Returns false if that is not supported.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn exchange_folders(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn exchange_folders(_: &Path, _: &Path) -> bool {
    false
}

/// Reports the deployment in force of a node until the mirror ends.
async fn report(
    state: &SharedStateHandle,
    workspace: &str,
    mut changes: watch::Receiver<MirrorChange>,
    mut node: watch::Receiver<Option<ReportingNode>>,
) {
    let mut in_force = None;
    loop {
        let error = match &*changes.borrow_and_update() {
            MirrorChange::NotPublished => None,
            MirrorChange::InForce { revision, .. } => {
                in_force = Some(*revision);
                None
            }
            MirrorChange::Failed(error) => Some(error.clone()),
        };
        let mut reporting = node.borrow_and_update().clone();
        if let Some(reporting) = &mut reporting {
            let condition = reporting.condition.borrow_and_update().clone();
            let report = DeploymentInForce {
                workspace: workspace.to_owned(),
                revision: in_force,
                error,
                needs_restart: condition.needs_restart,
                left_out: condition.left_out,
                teams: condition.teams,
            };
            let key = in_force_key(&(reporting.id)());
            if let Ok(value) = serde_json::to_vec(&report) {
                let area = StateArea::Nodes;
                let lifetime = Some(REPORT_LIFETIME);
                // A report that cannot be written is written again later.
                let _ = match state.get(area, &key).await {
                    Ok(Some(entry)) => {
                        state
                            .update(area, &key, value, entry.revision, lifetime)
                            .await
                    }
                    Ok(None) => state.create(area, &key, value, lifetime).await,
                    Err(error) => Err(error),
                };
            }
        }
        let condition_changed = async {
            let changed = match &mut reporting {
                Some(reporting) => reporting.condition.changed().await.is_ok(),
                None => false,
            };
            if !changed {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(REPORT_INTERVAL) => {}
            () = condition_changed => {}
            changed = changes.changed() => if changed.is_err() { return },
            changed = node.changed() => if changed.is_err() { return },
        }
    }
}

fn file_error(path: &Path, error: std::io::Error) -> DeploymentError {
    DeploymentError::File {
        path: path.display().to_string(),
        error,
    }
}

fn create_folder(folder: &Path) -> Result<(), DeploymentError> {
    std::fs::create_dir_all(folder).map_err(|error| file_error(folder, error))
}

fn file_digest(path: &Path) -> Option<String> {
    let is_file = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let content = std::fs::read(path).ok().filter(|_| is_file)?;
    Some(object_digest(&content))
}

/// Returns true if a file has the content and the mode of a deployed file.
fn is_copy_of(path: &Path, file: &DeployedFile) -> bool {
    file_digest(path).as_deref() == Some(&*file.sha256) && has_execution_mode(path, file.executable)
}

/// Returns true if the owner may execute the file, or may not, as expected. Always true on platforms without modes.
fn has_execution_mode(path: &Path, executable: bool) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = path.metadata().map(|meta| meta.permissions().mode());
        mode.is_ok_and(|mode| (mode & 0o100 != 0) == executable)
    }
    #[cfg(not(unix))]
    {
        let _ = (path, executable);
        true
    }
}

/// Lets the owner execute a file, on platforms with modes.
fn make_executable(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    let _ = path;
    Ok(())
}

/// Deletes all files below a folder that are not wanted, and folders that are empty then.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<(), DeploymentError> {
    let entries = std::fs::read_dir(folder).map_err(|error| file_error(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| file_error(folder, error))?.path();
        let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let removed = if is_folder {
            remove_others(&path, wanted)?;
            let is_wanted = wanted.iter().any(|file| file.starts_with(&path));
            if is_wanted {
                Ok(())
            } else {
                std::fs::remove_dir(&path)
            }
        } else if wanted.contains(&path) {
            Ok(())
        } else {
            std::fs::remove_file(&path)
        };
        removed.map_err(|error| file_error(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_files(folder: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = path_below(folder, path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn deployment_files_change_at_the_same_time() {
        let root = tempfile::tempdir().unwrap();
        let (next, files) = (root.path().join("next"), root.path().join(FILES));
        write_files(&next, &[("config.yml", "0"), ("tools/a", "0")]);
        replace_folder(&next, &files).unwrap();
        assert!(!next.exists());
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut missing = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    missing += u32::from(!files.join("config.yml").exists());
                }
                missing
            });
            for revision in 1..100 {
                let text = revision.to_string();
                write_files(&next, &[("config.yml", &text), ("tools/b", &text)]);
                replace_folder(&next, &files).unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let missing = reader.join().unwrap();
            if cfg!(target_os = "linux") {
                assert_eq!(missing, 0, "the settings are always there");
            }
        });
        assert_eq!(
            std::fs::read_to_string(files.join("tools/b")).unwrap(),
            "99"
        );
        assert!(!files.join("tools/a").exists() && !next.exists());
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn deployment_lock_names_the_process_that_has_it() {
        let root = tempfile::tempdir().unwrap();
        // A longer text of an earlier process.
        std::fs::write(root.path().join(LOCK_FILE), "1234567890").unwrap();
        let lock = lock_folder(root.path()).await.unwrap();
        let refused = lock_folder(root.path()).await.unwrap_err().to_string();
        let process = format!("process {} has been copying", std::process::id());
        assert!(refused.contains(&process), "{refused}");
        drop(lock);
        lock_folder(root.path()).await.unwrap();
    }

    #[test]
    fn unchanged_deployment_files_stay_the_same_files() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("one"), root.path().join("other"));
        std::fs::write(&one, "text").unwrap();
        std::fs::write(&other, "older").unwrap();
        link_file(&one, &other).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "text");
        let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
        assert_eq!(modified(&one), modified(&other));
    }
}
