//! `mimir approvals`.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::approval::{ApprovalStore as _, StoredApproval};
use mimir_core::audit::{AuditEvent, EventKind};
use serde_json::json;

use crate::args::{ApprovalsCommand, ClusterScope, GlobalOptions};
use crate::exit::{CommandResult, ExitReason};
use crate::output::approvals::{self, ListedSession};
use mimir::approval_store::{SessionApproval, WorkspaceApprovals};
use mimir::setup::HostSetup;

mod in_cluster;
mod questions;

pub use in_cluster::{ClusterApprovals, revoke_shared};

/// Lists the stored approvals and those of running sessions, revokes approvals, or answers questions.
pub async fn run(globals: &GlobalOptions, command: ApprovalsCommand) -> CommandResult {
    match command {
        ApprovalsCommand::List(scope) => list(globals, &scope).await,
        ApprovalsCommand::Revoke { ids, scope, .. } => revoke(globals, &ids, &scope).await,
        ApprovalsCommand::Pending(scope) => questions::pending(globals, &scope).await,
        ApprovalsCommand::Answer(args) => questions::answer(globals, &args).await,
    }
}

/// Finds the setup. The current folder need not be a workspace if a workspace of a cluster is named.
fn find_setup(globals: &GlobalOptions, scope: &ClusterScope) -> CommandResult<HostSetup> {
    let folder = globals.workspace.as_deref();
    let is_in_cluster = scope.cluster.connection()?.is_some();
    if is_in_cluster && scope.workspace_name.is_some() {
        return Ok(HostSetup::find_for_user(folder)?);
    }
    HostSetup::find(folder).map_err(|mut error| {
        if is_in_cluster {
            error.message +=
                "; to see a workspace of the cluster from any folder, name it with --workspace-name";
        }
        error.into()
    })
}

async fn list(globals: &GlobalOptions, scope: &ClusterScope) -> CommandResult {
    let setup = find_setup(globals, scope)?;
    let lifetime = setup.settings.policy()?.approval_lifetime();
    let (stored, sessions) = match ClusterApprovals::find(&setup, scope).await? {
        Some(cluster) => cluster.list(lifetime).await?,
        None => {
            let approval_store = setup.require_approvals()?;
            let mut sessions = approval_store.read()?.sessions;
            sessions.retain(SessionApproval::process_may_run);
            let stored = approval_store.with_max_age(lifetime).approvals()?;
            let sessions = sessions.into_iter().map(ListedSession::of_process);
            (stored, sessions.collect())
        }
    };
    approvals::list(globals.printer(), &stored, &sessions, Timestamp::now())?;
    Ok(ExitReason::Done)
}

async fn revoke(globals: &GlobalOptions, ids: &[String], scope: &ClusterScope) -> CommandResult {
    let setup = find_setup(globals, scope)?;
    let revoked = match ClusterApprovals::find(&setup, scope).await? {
        Some(cluster) => {
            let revoked = cluster.revoke(ids).await?;
            cluster.record(&revoke_event(revoked, None)).await;
            revoked
        }
        None => {
            let revoked = revoke_in_workspace(&setup, ids)?;
            setup.record_event(&revoke_event(revoked, None));
            revoked
        }
    };
    globals.printer().print_done(
        &json!({ "revoked": revoked }),
        format_args!("revoked {revoked}"),
    )
}

/// Returns the event of a revocation for the audit log. `by` is the person at a console.
pub fn revoke_event(revoked: usize, by: Option<&str>) -> AuditEvent {
    let by = by.map_or(String::new(), |by| format!(", by {by} at the console"));
    let detail = format!("{revoked} remembered approvals{by}");
    AuditEvent::new(EventKind::Revoke, SystemTime::now())
        .with_detail(&mimir_core::text::visible(&detail))
}

/// Revokes approvals of the workspace of a setup that has not joined a cluster, see [`revoke_stored`].
pub fn revoke_in_workspace(setup: &HostSetup, ids: &[String]) -> Result<usize, ToolError> {
    let approval_store = setup.require_approvals()?;
    let revoked = approval_store.change(|approvals| revoke_stored(approvals, ids));
    revoked.map_err(ToolError::unavailable)?
}

/// Revokes the approvals with these id prefixes, or all approvals if `ids` is empty. Each prefix must match exactly one
/// approval. Returns the number of revoked approvals.
fn revoke_stored(approvals: &mut WorkspaceApprovals, ids: &[String]) -> Result<usize, ToolError> {
    approvals.sessions.retain(SessionApproval::process_may_run);
    let sessions = approvals.sessions.iter().map(|listed| &listed.lease);
    let known = approvals.leases.iter().chain(sessions).map(id_of).collect();
    check_prefixes(&known, ids)?;
    let is_retained = |lease: &StoredApproval| !is_named(id_of(lease), ids);
    let before = approvals.leases.len() + approvals.sessions.len();
    approvals.leases.retain(is_retained);
    approvals
        .sessions
        .retain(|listed| is_retained(&listed.lease));
    Ok(before - approvals.leases.len() - approvals.sessions.len())
}

/// Fails if a prefix does not match exactly one id.
fn check_prefixes(known: &BTreeSet<&str>, prefixes: &[String]) -> Result<(), ToolError> {
    for id in prefixes {
        let matches = known.iter().filter(|known| known.starts_with(id.as_str()));
        let fault = match matches.count() {
            1 => continue,
            0 => "no approval",
            _ => "several approvals",
        };
        let id = mimir_core::text::visible(mimir_core::text::prefix(id, 64));
        return Err(ToolError::not_found(format!(
            "{fault} with an id that begins with `{id}`; `mimir approvals list` shows them"
        )));
    }
    Ok(())
}

/// Returns true if a prefix matches the id, or if there are no prefixes.
fn is_named(id: &str, prefixes: &[String]) -> bool {
    prefixes.is_empty()
        || prefixes
            .iter()
            .any(|prefix| id.starts_with(prefix.as_str()))
}

fn id_of(lease: &StoredApproval) -> &str {
    lease.id.as_str()
}
