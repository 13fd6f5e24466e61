//! The answers "always" of people, which apply to later calls.

use std::cmp::Reverse;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::approval::{ApprovalStore as _, StoredApproval};
use mimir_core::text::prefix;
use serde_json::{Value, json};

use mimir::setup::HostSetup;

use super::workspace::LoadedWorkspace;

/// Length of the part of an id that people are shown.
pub const ID_LENGTH: usize = 16;

/// Returns the stored approvals of the workspace that have not expired, newest first.
pub fn stored_approvals(workspace: &LoadedWorkspace) -> Result<Vec<StoredApproval>, ToolError> {
    let setup = &workspace.setup;
    let lifetime = workspace.snapshot().policy.approval_lifetime();
    let stored = match (setup.cluster(), setup.approvals()) {
        (Some(cluster), _) => cluster.approvals().approvals(),
        (None, Some(store)) => store.with_max_age(lifetime).approvals(),
        (None, None) => Ok(Vec::new()),
    };
    let mut stored = stored.map_err(ToolError::unavailable)?;
    let now = Timestamp::now();
    stored.retain(|approval| approval.is_live(now));
    stored.sort_by_key(|approval| Reverse(approval.added_at));
    Ok(stored)
}

/// Returns a text that changes when an approval is given or revoked, but not when it is used.
pub fn approvals_stamp(setup: &HostSetup) -> String {
    let stored = match (setup.cluster(), setup.approvals()) {
        (Some(cluster), _) => cluster.approvals().approvals(),
        (None, Some(store)) => store.approvals(),
        (None, None) => Ok(Vec::new()),
    };
    let stored = stored.unwrap_or_default();
    let mut ids: Vec<&str> = stored.iter().map(|stored| stored.id.as_str()).collect();
    ids.sort_unstable();
    ids.join(" ")
}

/// Returns the JSON of stored approvals, an array.
pub fn listed_approvals(
    workspace: &LoadedWorkspace,
    approvals: &[StoredApproval],
) -> Result<Value, ToolError> {
    let snapshot = workspace.snapshot();
    let time = |time: Timestamp| format!("{time:.0}");
    let row = |approval: &StoredApproval| {
        let tool = snapshot.registry.get(&approval.tool);
        let callers = approval.callers.iter();
        let callers: Vec<&str> = callers.map(|caller| caller.tool.as_str()).collect();
        let id = prefix(approval.id.as_str(), ID_LENGTH);
        json!({
            "id": approval.id,
            "tool": approval.tool,
            "pattern": approval.pattern.describe(),
            "scope": approval.scope,
            "callers": callers,
            "addedAt": time(approval.added_at),
            "expiresAt": approval.expires_at.map(time),
            "lastUsed": approval.last_used.map(time),
            // It does not apply to another build of the tool.
            "current": tool.is_some_and(|tool| tool.origin.digest == approval.digest),
            "command": format!("mimir approvals revoke {id}"),
        })
    };
    let mut rows: Value = approvals.iter().map(row).collect();
    workspace.redactor()?.mask_value(&mut rows);
    Ok(rows)
}
