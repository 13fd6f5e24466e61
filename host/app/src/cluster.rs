//! The membership of a process in a cluster: its node, and the state, approvals, switch and audit log that it shares
//! with the other processes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mimir_cluster::{
    ClusterConnection, ClusterError, ClusterNode, ConnectionOptions, NatsState, NodeDescription,
    RecentLog,
};
use mimir_core::audit::AuditSink;
use mimir_core::call_switch::CallSwitch;
use mimir_core::config::AuditSettings;
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateKey, StateRevision};
use mimir_core::{ToolError, ToolErrorCode};
use tokio::sync::watch;

use crate::call_switch::{ClusterCallSwitch, user_switch};
use crate::node_condition::ProcessCondition;
use crate::process_identity::user_name;
use crate::shared_approvals::SharedApprovalStore;
use crate::teams::PublishedTeams;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Time for which a process that starts waits until the streams of the cluster can be used.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The membership of this process in a cluster.
pub struct ClusterMembership {
    connection: ClusterConnection,
    node: ClusterNode,
    state: SharedStateHandle,
    switch: Arc<dyn CallSwitch>,
    approvals: Arc<SharedApprovalStore>,
    teams: Arc<PublishedTeams>,
    condition: ProcessCondition,
    workspace: String,
    recent_log: RecentLog,
}

impl ClusterMembership {
    /// Connects to the cluster and joins it with this description, which must have a workspace.
    pub async fn join(
        options: ConnectionOptions,
        description: NodeDescription,
        user_dirs: &UserDirs,
    ) -> Result<Self, ToolError> {
        let connection = connect(options).await?;
        Self::join_with(connection, description, user_dirs).await
    }

    /// Joins the cluster of this connection.
    pub async fn join_with(
        connection: ClusterConnection,
        description: NodeDescription,
        user_dirs: &UserDirs,
    ) -> Result<Self, ToolError> {
        let Some(workspace) = description.workspace.as_ref() else {
            return Err(ToolError::internal("the node has no workspace"));
        };
        let workspace = workspace.name.clone();
        let checked = connection.check_role(description.role).await;
        checked.map_err(cluster_error)?;
        let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
        let switch = ClusterCallSwitch::start(&state, user_switch(user_dirs));
        let switch = Arc::new(switch.await.map_err(|error| state_error(&error))?);
        let approvals = SharedApprovalStore::start(Arc::clone(&state), &workspace, &user_name())
            .await
            .map_err(|error| state_error(&error))?;
        let teams = PublishedTeams::start(&connection, &state)
            .await
            .map_err(|error| state_error(&error))?;
        // The node takes calls from now on, so the switch and the approvals are known before.
        let node =
            ClusterNode::start_with_state(connection.clone(), Arc::clone(&state), description)
                .await
                .map_err(cluster_error)?;
        Ok(Self {
            recent_log: RecentLog::new(connection.clone(), node.nodes()),
            connection,
            node,
            state,
            switch,
            approvals: Arc::new(approvals),
            teams: Arc::new(teams),
            condition: ProcessCondition::default(),
            workspace,
        })
    }

    /// Returns the connection to the cluster.
    pub fn connection(&self) -> &ClusterConnection {
        &self.connection
    }

    /// Returns the node of this process.
    pub fn node(&self) -> &ClusterNode {
        &self.node
    }

    /// Returns the state that all processes share.
    pub fn state(&self) -> &SharedStateHandle {
        &self.state
    }

    /// Returns the switch that stops all calls.
    pub fn switch(&self) -> Arc<dyn CallSwitch> {
        Arc::clone(&self.switch)
    }

    /// Returns the approvals and grants of the workspace.
    pub fn approvals(&self) -> &Arc<SharedApprovalStore> {
        &self.approvals
    }

    /// Returns the published bundles of teams.
    pub(crate) fn teams(&self) -> &Arc<PublishedTeams> {
        &self.teams
    }

    /// Returns the condition of this process.
    pub fn condition(&self) -> &ProcessCondition {
        &self.condition
    }

    /// Returns the name of the workspace in the cluster.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns the writer of the cluster's audit log.
    pub fn audit(&self, settings: AuditSettings) -> Arc<dyn AuditSink> {
        Arc::new(self.node.audit_sink(settings))
    }

    /// Returns the cluster's audit log for readers in this process.
    pub fn recent_log(&self) -> &RecentLog {
        &self.recent_log
    }

    /// Returns the revisions of the grants and skill pins of the workspace, for the detection of changes.
    pub(crate) fn grant_revisions(&self) -> GrantRevisions {
        self.approvals.grant_revisions()
    }

    /// Completes when published settings were copied after `seen` was last marked as seen.
    pub(crate) async fn settings_changed(seen: &mut watch::Receiver<u64>) {
        if seen.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Completes when the grants differ from `known`.
    pub(crate) async fn grants_changed(&self, known: &GrantRevisions) {
        let mut changes = self.approvals.changes();
        while self.grant_revisions() == *known {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// The revision of each grant.
pub(crate) type GrantRevisions = Vec<(StateKey, StateRevision)>;

/// Connects to a cluster without joining it, for commands.
pub async fn connect(options: ConnectionOptions) -> Result<ClusterConnection, ToolError> {
    ClusterConnection::connect(options)
        .await
        .map_err(cluster_error)
}

/// Connects to a cluster in order to join it, and waits until its streams can be used.
pub async fn connect_to_join(
    options: ConnectionOptions,
    on_delay: impl FnOnce(),
) -> Result<ClusterConnection, ToolError> {
    let connection = ClusterConnection::connect_node(options)
        .await
        .map_err(cluster_error)?;
    let ready = connection.wait_for_streams(START_TIMEOUT, on_delay).await;
    ready.map_err(cluster_error)?;
    Ok(connection)
}

/// Connects to the shared state of a cluster without joining it, for commands.
pub async fn connect_state(options: ConnectionOptions) -> Result<SharedStateHandle, ToolError> {
    Ok(Arc::new(NatsState::new(connect(options).await?)))
}

/// Returns the name of a workspace in a cluster: the given name, or that of its folder.
pub fn workspace_name(workspace: &WorkspaceFolder, named: Option<&str>) -> String {
    let folder = || workspace.root().file_name().map(Path::new);
    match named {
        Some(name) => name.to_owned(),
        None => folder().map_or_else(
            || "root".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        ),
    }
}

/// Converts an error of the cluster to an error of a command.
pub fn cluster_error(error: ClusterError) -> ToolError {
    match error {
        ClusterError::Options(_) => ToolError::invalid_input(error),
        ClusterError::Forbidden { .. } => {
            ToolError::new(ToolErrorCode::PermissionDenied, error.to_string())
        }
        ClusterError::Connect { .. } | ClusterError::Failed { .. } => ToolError::unavailable(error),
    }
}

/// Converts an error of shared state to an error of a command.
pub fn state_error(error: &SharedStateError) -> ToolError {
    match error {
        SharedStateError::Forbidden { .. } => {
            ToolError::new(ToolErrorCode::PermissionDenied, error.to_string())
        }
        _ => ToolError::unavailable(error),
    }
}
