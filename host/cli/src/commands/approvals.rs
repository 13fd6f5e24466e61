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

/// Lists stored approvals and those of running sessions, or revokes some.
pub fn run(globals: &GlobalOptions, command: &ApprovalsCommand) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let approval_store = setup.require_approvals()?;
    match command {
        ApprovalsCommand::List => {
            let mut sessions = approval_store.read()?.sessions;
            sessions.retain(SessionApproval::process_may_run);
            let life = setup.settings.policy()?.approval_lifetime();
            let leases = approval_store.with_max_age(life).approvals()?;
            approvals::list(printer, &leases, &sessions, Timestamp::now())?;
            Ok(ExitReason::Done)
        }
        ApprovalsCommand::Revoke { ids, .. } => {
            let gone = approval_store.change(|approvals| take(approvals, ids))??;
            let event = AuditEvent::new(EventKind::Revoke, SystemTime::now());
            setup.record_event(&event.with_detail(&format!("{gone} remembered approvals")));
            printer.print_done(&json!({ "revoked": gone }), format_args!("revoked {gone}"))
        }
    }
}

/// Revokes the approvals with these ids, or all if none is given; each id must match exactly one.
fn take(approvals: &mut WorkspaceApprovals, ids: &[String]) -> Result<usize, ToolError> {
    approvals.sessions.retain(SessionApproval::process_may_run);
    let sessions = approvals.sessions.iter().map(|listed| &listed.lease);
    let known: BTreeSet<&str> = approvals.leases.iter().chain(sessions).map(id_of).collect();
    for id in ids {
        let found = known.iter().filter(|known| known.starts_with(id.as_str()));
        let fault = match found.count() {
            1 => continue,
            0 => "no approval",
            _ => "several approvals",
        };
        let id = mimir_core::text::visible(mimir_core::text::prefix(id, 64));
        return Err(ToolError::not_found(format!(
            "{fault} with an id that begins with `{id}`; `mimir approvals list` shows them"
        )));
    }
    let stays = |lease: &StoredApproval| {
        let mut named = ids.iter();
        !ids.is_empty() && !named.any(|id| id_of(lease).starts_with(id.as_str()))
    };
    let before = approvals.leases.len() + approvals.sessions.len();
    approvals.leases.retain(stays);
    approvals.sessions.retain(|listed| stays(&listed.lease));
    Ok(before - approvals.leases.len() - approvals.sessions.len())
}

fn id_of(lease: &StoredApproval) -> &str {
    lease.id.as_str()
}
