//! The approvals and grants of a workspace in a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mimir_cluster::{ClusterConnection, NatsState};
use mimir_core::ToolError;
use mimir_core::approval::{Fingerprint, StoredApproval};
use mimir_core::audit::AuditEvent;
use mimir_core::grants::{Grant, SkillPin};
use mimir_core::shared_state::{SharedStateHandle, StateArea};

use crate::args::ClusterScope;
use crate::commands::cluster_record::record_in_cluster;
use crate::exit::CommandResult;
use crate::output::approvals::ListedSession;
use crate::tools::is_file;
use mimir::cluster::{self, cluster_error, state_error, workspace_name};
use mimir::process_identity::user_name;
use mimir::setup::HostSetup;
use mimir::shared_approvals::{SharedApprovals, SharedGrant, SharedSkillPin};

/// Access to the approvals of a workspace in a cluster.
pub struct ClusterApprovals {
    connection: ClusterConnection,
    approvals: SharedApprovals,
    /// The name of the workspace.
    pub workspace: String,
}

impl ClusterApprovals {
    /// Connects to the cluster that the options name. `None` if they name none.
    pub async fn find(setup: &HostSetup, scope: &ClusterScope) -> CommandResult<Option<Self>> {
        let Some(options) = scope.cluster.connection()? else {
            return Ok(None);
        };
        let connection = cluster::connect(options).await?;
        let workspace = workspace_name(&setup.workspace, scope.workspace_name.as_deref());
        let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
        Ok(Some(Self {
            approvals: SharedApprovals::new(state, &workspace),
            connection,
            workspace,
        }))
    }

    /// Returns the approvals, and those of sessions.
    pub async fn list(
        &self,
        max_age: SignedDuration,
    ) -> Result<(Vec<StoredApproval>, Vec<ListedSession>), ToolError> {
        let exists = self.connection.require_area(StateArea::Approvals).await;
        exists.map_err(cluster_error)?;
        let (stored, sessions) = read(&self.approvals, max_age).await?;
        let sessions = sessions.into_iter().map(ListedSession::of_cluster);
        Ok((stored, sessions.collect()))
    }

    /// Revokes approvals, see [`revoke_shared`].
    pub async fn revoke(&self, ids: &[String]) -> Result<usize, ToolError> {
        revoke_shared(&self.approvals, ids).await
    }

    /// Returns the location of a plugin with a grant in the cluster, by its file name.
    pub async fn find_grant(&self, name: &str) -> Result<Option<String>, ToolError> {
        let grants = self.approvals.grants().await;
        let grants = grants.map_err(|error| state_error(&error))?.into_iter();
        let mut locations = grants.map(|grant| grant.location);
        Ok(locations.find(|location| is_file(location, name)))
    }

    /// Grants a plugin in the whole cluster, or revokes the grants of all processes.
    pub async fn set_grant(&self, location: &str, grant: Option<Grant>) -> Result<(), ToolError> {
        let shared = SharedGrant {
            location: location.to_owned(),
            grant,
            by: user_name(),
            at: Timestamp::now(),
        };
        let set = self.approvals.set_grant(&shared).await;
        set.map_err(|error| state_error(&error))
    }

    /// Accepts the pin of a skill in the whole cluster, or revokes the consent of all processes.
    pub async fn set_skill(&self, name: &str, pin: Option<SkillPin>) -> Result<(), ToolError> {
        let shared = SharedSkillPin {
            name: name.to_owned(),
            pin,
            by: user_name(),
            at: Timestamp::now(),
        };
        let set = self.approvals.set_skill(&shared).await;
        set.map_err(|error| state_error(&error))
    }

    /// Records an event in the audit log of the cluster.
    pub async fn record(&self, event: &AuditEvent) {
        record_in_cluster(&self.connection, event).await;
    }
}

/// Returns the approvals of a workspace, and those of sessions.
async fn read(
    approvals: &SharedApprovals,
    max_age: SignedDuration,
) -> Result<(Vec<StoredApproval>, Vec<StoredApproval>), ToolError> {
    let stored = approvals.approvals(max_age).await;
    let stored = stored.map_err(|error| state_error(&error))?;
    let sessions = approvals.session_approvals().await;
    let sessions = sessions.map_err(|error| state_error(&error))?.into_iter();
    Ok((stored, sessions.map(|listed| listed.approval).collect()))
}

/// Revokes the approvals of a workspace in a cluster with these id prefixes, or all if `ids` is empty. Returns the number
/// of removed entries.
pub async fn revoke_shared(
    approvals: &SharedApprovals,
    ids: &[String],
) -> Result<usize, ToolError> {
    let (stored, sessions) = read(approvals, SignedDuration::MAX).await?;
    let all = stored.into_iter().chain(sessions);
    let known: BTreeSet<Fingerprint> = all.map(|approval| approval.id).collect();
    super::check_prefixes(&known.iter().map(Fingerprint::as_str).collect(), ids)?;
    let mut removed = 0;
    for id in known.iter().filter(|id| super::is_named(id.as_str(), ids)) {
        let revoked = approvals.revoke(id).await;
        removed += revoked.map_err(|error| state_error(&error))?;
    }
    Ok(removed)
}
