//! `mimir approvals`.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::approval::{ApprovalStore as _, StoredApproval};
use mimir_core::audit::{AuditEvent, EventKind};
use serde_json::json;

use crate::args::{ApprovalsCommand, GlobalOptions};
use crate::exit::{CommandResult, ExitReason};
use crate::output::approvals;
use mimir::approval_store::{SessionApproval, WorkspaceApprovals};
use mimir::setup::HostSetup;

/// Lists the stored approvals and those of running sessions, or revokes approvals.
pub fn run(globals: &GlobalOptions, command: &ApprovalsCommand) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let approval_store = setup.require_approvals()?;
    match command {
        ApprovalsCommand::List => {
            let mut sessions = approval_store.read()?.sessions;
            sessions.retain(SessionApproval::process_may_run);
            let lifetime = setup.settings.policy()?.approval_lifetime();
            let leases = approval_store.with_max_age(lifetime).approvals()?;
            approvals::list(printer, &leases, &sessions, Timestamp::now())?;
            Ok(ExitReason::Done)
        }
        ApprovalsCommand::Revoke { ids, .. } => {
            let revoked = approval_store.change(|approvals| revoke(approvals, ids))??;
            let event = AuditEvent::new(EventKind::Revoke, SystemTime::now());
            setup.record_event(&event.with_detail(&format!("{revoked} remembered approvals")));
            printer.print_done(
                &json!({ "revoked": revoked }),
                format_args!("revoked {revoked}"),
            )
        }
    }
}

/// Revokes the approvals with these id prefixes, or all approvals if `ids` is empty. Each prefix must match exactly one
/// approval. Returns the number of revoked approvals.
fn revoke(approvals: &mut WorkspaceApprovals, ids: &[String]) -> Result<usize, ToolError> {
    approvals.sessions.retain(SessionApproval::process_may_run);
    let sessions = approvals.sessions.iter().map(|listed| &listed.lease);
    let known: BTreeSet<&str> = approvals.leases.iter().chain(sessions).map(id_of).collect();
    for id in ids {
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
    let is_retained = |lease: &StoredApproval| {
        let mut prefixes = ids.iter();
        !ids.is_empty() && !prefixes.any(|id| id_of(lease).starts_with(id.as_str()))
    };
    let before = approvals.leases.len() + approvals.sessions.len();
    approvals.leases.retain(is_retained);
    approvals
        .sessions
        .retain(|listed| is_retained(&listed.lease));
    Ok(before - approvals.leases.len() - approvals.sessions.len())
}

fn id_of(lease: &StoredApproval) -> &str {
    lease.id.as_str()
}
