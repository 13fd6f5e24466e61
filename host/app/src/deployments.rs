//! Deployments of a cluster: the settings and tools of a workspace, as one administrator publishes them and all nodes
//! of the workspace use them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_cluster::{
    ClusterConnection, DeployedFile, DeploymentError, DeploymentManifest, DeploymentMirror,
    MirrorChange, NatsState, is_deployable,
};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, ToolErrorCode};
use tokio::sync::watch;

use crate::approval_store::{UserApprovalStore, WorkspaceApprovals, user_state_path};
use crate::cluster::{ClusterMembership, cluster_error, state_error};
use crate::file_error::file_error;
use crate::private_files;
use crate::process_identity::publisher;
use crate::setup::HostSetup;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Maximum size of a published file in bytes.
const FILE_SIZE_MAX: u64 = 256 << 20;

/// Maximum depth of folders below `tools`.
const DEPTH_MAX: usize = 8;

/// The files of a workspace that a deployment consists of, and the user's decisions about them.
pub struct WorkspaceFiles {
    files: Vec<(DeployedFile, Vec<u8>)>,
    decisions: WorkspaceApprovals,
}

impl WorkspaceFiles {
    /// Reads the files of a workspace.
    pub fn read(setup: &HostSetup) -> Result<Self, ToolError> {
        let folder = setup.workspace.mimir_dir();
        let mut files = Vec::new();
        for name in ["config.yml", "tools.lock", "tools", "workers"] {
            read_files(&folder, name, DEPTH_MAX, &mut files)?;
        }
        read_skills(setup, &mut files)?;
        if files.is_empty() {
            return Err(ToolError::not_found(format!(
                "{} has no settings and tools to publish; `mimir init` makes them",
                setup.workspace.display_path(&folder)
            )));
        }
        let decisions = setup.require_approvals()?.read();
        Ok(Self {
            files,
            decisions: decisions.map_err(|error| ToolError::unavailable(error.to_string()))?,
        })
    }

    /// Returns the manifest of a deployment of these files for the workspace with this name.
    pub fn manifest(&self, workspace: &str) -> DeploymentManifest {
        let files = self.files.iter().map(|(file, _)| file.clone()).collect();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        let mut manifest = DeploymentManifest::new(workspace, files, publisher(), now);
        manifest.accepted_settings = self.decisions.settings.clone();
        manifest.accepted_workers = self.decisions.workers.clone();
        manifest.grants = self.decisions.grants.clone();
        manifest
    }

    /// Returns the content of each file.
    pub fn content(&self) -> impl Iterator<Item = &[u8]> {
        self.files.iter().map(|(_, content)| content.as_slice())
    }
}

/// Reads the installed skills whose current content this user has accepted. Skills in other folders come with the
/// checkout of each node.
fn read_skills(
    setup: &HostSetup,
    found: &mut Vec<(DeployedFile, Vec<u8>)>,
) -> Result<(), ToolError> {
    for skill in setup.skills().find_all()? {
        let Some(folder) = skill.folder.strip_prefix(".mimir/") else {
            continue;
        };
        let (true, Ok(content)) = (skill.is_current(), &skill.content) else {
            continue;
        };
        for (path, bytes) in content.files.iter() {
            let relative = format!("{folder}/{path}");
            if !is_deployable(&relative) {
                return Err(not_deployable(&format!(".mimir/{relative}")));
            }
            let executable = content.files.is_executable(path);
            let file = DeploymentManifest::file(&relative, bytes, executable);
            found.push((file, bytes.to_vec()));
        }
    }
    Ok(())
}

fn not_deployable(path: &str) -> ToolError {
    ToolError::new(
        ToolErrorCode::InvalidPath,
        format!(
            "{} cannot be published because of its name: rename or remove it",
            mimir_core::text::visible(path)
        ),
    )
}

/// Reads a file or all files of a folder, without links and hidden files.
fn read_files(
    folder: &Path,
    relative: &str,
    depth: usize,
    found: &mut Vec<(DeployedFile, Vec<u8>)>,
) -> Result<(), ToolError> {
    let mut path = folder.to_owned();
    path.extend(relative.split('/'));
    let Ok(meta) = path.symlink_metadata() else {
        return Ok(());
    };
    if meta.is_dir() {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(ToolError::new(
                ToolErrorCode::InvalidPath,
                format!(
                    "{} has more than {DEPTH_MAX} levels of folders",
                    path.display()
                ),
            ));
        };
        let entries =
            std::fs::read_dir(&path).map_err(|error| file_error("read", &path, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| file_error("read", &path, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                read_files(folder, &format!("{relative}/{name}"), depth, found)?;
            }
        }
        return Ok(());
    }
    if !is_deployable(relative) {
        return Err(not_deployable(&path.display().to_string()));
    }
    let content = files::read(&path, LinkPolicy::Refuse, FILE_SIZE_MAX)
        .map_err(|error| file_error("read", &path, &error))?;
    found.push((DeploymentManifest::file(relative, &content, false), content));
    Ok(())
}

/// The deployment that a node follows.
pub struct NodeDeployment {
    mirror: DeploymentMirror,
    /// The folder of the copy, which may be empty.
    folder: PathBuf,
}

impl NodeDeployment {
    /// Copies the deployment of the workspace with this name and follows it. Returns the workspace with the settings and
    /// tools of the deployment, or as it is if none was published.
    pub async fn start(
        connection: &ClusterConnection,
        name: &str,
        workspace: WorkspaceFolder,
        user_dirs: &UserDirs,
    ) -> Result<(WorkspaceFolder, Self), ToolError> {
        let folder = deployment_folder(user_dirs, &workspace)?;
        private_files::private_folder(&folder)
            .map_err(|error| file_error("create", &folder, &error))?;
        let deployed = workspace.clone().with_deployment(folder.clone());
        let store = UserApprovalStore::new(user_dirs, &deployed);
        let store = store.ok_or_else(no_config_folder)?;
        let decisions = Arc::new(move |manifest: &DeploymentManifest| {
            let stored = store.change(|approvals| {
                approvals.settings.clone_from(&manifest.accepted_settings);
                approvals.workers.clone_from(&manifest.accepted_workers);
                approvals.grants.clone_from(&manifest.grants);
            });
            stored.map_err(|error| error.to_string())
        });
        let state = Arc::new(NatsState::new(connection.clone()));
        let mirror =
            DeploymentMirror::start(connection.clone(), state, name, folder.clone(), decisions)
                .await;
        let mirror = mirror.map_err(|error| deployment_error(&error))?;
        let workspace = if mirror.root().is_some() {
            deployed
        } else {
            workspace
        };
        Ok((workspace, Self { mirror, folder }))
    }

    /// Follows the deployment of this workspace's name. Returns the setup with the settings and tools of the deployment, or
    /// as it is if none was published.
    pub async fn for_setup(
        connection: &ClusterConnection,
        name: &str,
        setup: HostSetup,
    ) -> Result<(HostSetup, Self), ToolError> {
        let (workspace, user_dirs) = (setup.workspace.clone(), &setup.user_dirs);
        let (workspace, deployment) = Self::start(connection, name, workspace, user_dirs).await?;
        let setup = match workspace.deployment() {
            Some(_) => HostSetup::in_workspace(workspace)?,
            None => setup,
        };
        Ok((setup, deployment))
    }

    /// Reports the deployment in force and the condition of this process under the id of its node, and lets the process
    /// read its settings again after each publication.
    pub fn report_as(&self, membership: &Arc<ClusterMembership>) {
        let node = membership.node().clone();
        let condition = membership.condition().watch();
        self.mirror
            .report_as(Arc::new(move || node.id()), condition);
        let mut changes = self.mirror.changes();
        let membership = Arc::downgrade(membership);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(membership) = membership.upgrade() else {
                    return;
                };
                membership.condition().announce_settings();
            }
        });
    }

    /// Returns the workspace with the settings and tools of the deployment, once one is in force, if none was when this
    /// process started.
    pub fn first_workspace(
        &self,
        workspace: &WorkspaceFolder,
    ) -> impl Future<Output = WorkspaceFolder> + Send + use<> {
        let published = self.first_published();
        let deployed = workspace.clone().with_deployment(self.folder.clone());
        async move {
            published.await;
            deployed
        }
    }

    /// Completes when a deployment is in force for the first time, if none was when this process started. The process then
    /// has to start again, because its settings and tools come from another folder.
    pub fn first_published(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.mirror.changes();
        let had_deployment = self.mirror.root().is_some();
        async move {
            let is_in_force =
                |change: &MirrorChange| matches!(change, MirrorChange::InForce { .. });
            if had_deployment || changes.wait_for(is_in_force).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Returns a receiver of new deployments.
    pub fn changes(&self) -> watch::Receiver<MirrorChange> {
        self.mirror.changes()
    }
}

/// Returns the folder of the copy of a deployment, in the user's own folder, which no tool can write to.
fn deployment_folder(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
) -> Result<PathBuf, ToolError> {
    user_state_path(user_dirs, workspace, "deployment").ok_or_else(no_config_folder)
}

fn no_config_folder() -> ToolError {
    ToolError::unavailable(
        "this platform has no folder for your own settings, where deployments are stored; set MIMIR_CONFIG_DIR",
    )
}

/// Converts an error of a deployment.
pub fn deployment_error(error: &DeploymentError) -> ToolError {
    match error {
        DeploymentError::State(error) => state_error(error),
        DeploymentError::Object(mimir_cluster::ObjectError::Cluster(error)) => {
            cluster_error(error.clone())
        }
        DeploymentError::Invalid(_) => ToolError::invalid_input(error.to_string()),
        DeploymentError::Conflict
        | DeploymentError::Object(_)
        | DeploymentError::Decisions(_)
        | DeploymentError::File { .. } => ToolError::unavailable(error.to_string()),
    }
}
